"""The last step of mechanisms that map rows first: a private radius, then their second moment."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.privacy import Guarantee, exact
from dpcov.errors import MechanismError
from dpcov.mechanisms import additive, gaussian
from dpcov.mechanisms.radius import count_law

if TYPE_CHECKING:
    from dpcov.core.arrays import Vector
    from dpcov.core.entropy import Entropy
    from dpcov.core.samplers import ScalarLaw
    from dpcov.core.samplers.scalars import ScalarGaussian
    from dpcov.mechanisms import Mechanism
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice, LinearMap
    from dpcov.rows.sources.rows import Rows


SQUARED_RADII = 2.0 ** (np.arange(-16, 49) / 4)  # candidates for round rows' radius, over p
SHOWS = 4.6  # standard deviations of its noise that a count must be above to show


def release_mapped(
    mechanism: Mechanism,
    rows: Rows,
    shape: LinearMap,
    *,
    guarantee: Guarantee,
    rho: Fraction,
    extra: int,
    radius_share: float,
    trace_share: float,
    entropy: Entropy,
    radii: Vector | None = None,
) -> Release:
    """Second moment of the mapped rows, clipped at a private radius: costs `rho` in zCDP.

    Variances are larger by `extra`; see `gaussian.concentration`. The radius is one of `radii`,
    ascending, which must be public or made from earlier looks; default, those of round rows.
    """
    lattice, left = rows.lattice(), rho * (1 - exact(radius_share))
    counts, final = last_laws(lattice, guarantee, rho, extra, radius_share, trace_share)
    if radii is None:
        radii = np.sqrt(lattice.features * SQUARED_RADII)
    clipped = lattice.features**1.5 / math.sqrt(2 * float(left))
    radius = private_radius(rows, shape, radii, counts, clipped, entropy)
    return release_at(mechanism, rows, shape, radius, final, entropy)


def last_laws(
    lattice: Lattice,
    guarantee: Guarantee,
    rho: Fraction,
    extra: int,
    radius_share: float,
    trace_share: float,
) -> tuple[ScalarGaussian, additive.Calibration]:
    """Laws of the counts and of the moment of `release_mapped`; refuses what can't be drawn.

    A mechanism that learns what is left of its budget builds those of the least and of the most
    before anything is spent: between them variances are between theirs. Maps know no grid, so its
    steps are `Lattice.relative`.
    """
    lattice = lattice.relative()
    for_radius = exact(radius_share) * rho
    if rho <= for_radius:
        raise MechanismError("The shares of this mechanism leave nothing for the release.")
    counts = count_law(lattice, for_radius / guarantee.neighbors.sides, extra)
    counts.require_drawable()
    final = gaussian.calibration(lattice, guarantee, rho - for_radius, extra, trace_share)
    return counts, final


def release_at(
    mechanism: Mechanism,
    rows: Rows,
    shape: LinearMap,
    radius: float,
    final: additive.Calibration,
    entropy: Entropy,
) -> Release:
    """Second moment of the mapped rows, clipped at `radius`, with the noise of `final`."""
    draws = additive.Draws.of(final, entropy)
    moment = rows.second_moments(radius=radius, transform=shape)[0]
    return additive.published(mechanism, rows.schema, final, draws, moment, shape)


def private_radius(
    rows: Rows,
    shape: LinearMap,
    radii: Vector,
    law: ScalarLaw,
    clipped: float,
    entropy: Entropy,
) -> float:
    """The least of `radii`, ascending, beyond which no more than `clipped` mapped rows show.

    Where clipping one row less costs as much as the noise it takes is the best radius; for Gaussian
    noise and round rows that is at p^1.5 / sqrt(2 rho) rows. Rows show in 1, 2, 4, ... bins that
    together hold more than `SHOWS` standard deviations of noise of `law`.
    """
    noise = law.samples(len(radii), entropy)
    counts = rows.norm_counts(radii[:-1], radius=float(radii[-1]), transform=shape)
    sums = np.append(0, np.cumsum(counts + noise))
    widths, least = 2 ** np.arange(len(radii).bit_length()), 0
    for width in widths:
        noise_alone = SHOWS * law.standard_deviation * math.sqrt(width)
        seen = sums[width:] - sums[:-width] > max(clipped, noise_alone)
        least = max(least, int(np.max(np.flatnonzero(seen), initial=0)))
    return float(radii[least])
