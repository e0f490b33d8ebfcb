"""Last step of mechanisms that transform rows: a private radius and the second moment."""

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


# Candidate squared radii of whitened rows, divided by the number of features, shape (65,).
SQUARED_RADIUS_GRID = 2.0 ** (np.arange(-16, 49) / 4)
# Smallest detectable count, in standard deviations of its noise. Source: not recorded.
MIN_COUNT_SNR = 4.6


def release_transformed(
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
    """Release the second moment of transformed rows, clipped at a private radius.

    The release costs `rho` in zCDP.

    Parameters
    ----------
    mechanism : Mechanism
        Mechanism that makes the release.

    rows : Rows
        Data source.

    shape : LinearMap
        Transformation of the rows, public or from earlier private steps.

    guarantee : Guarantee
        Guarantee of the release.

    rho : Fraction
        Budget of this step.

    extra : int
        Number that is added to each variance (see `gaussian.concentration`).

    radius_share : float
        Fraction of the budget for the radius.

    trace_share : float
        Fraction of the rest for the trace.

    entropy : Entropy
        Source of random bits.

    radii : ndarray of float, shape (m,), optional
        Candidate radii in ascending order, public or from earlier private steps. The default suits
        whitened rows.

    Returns
    -------
    Release
        Second moment of the transformed rows.

    """
    lattice, left = rows.lattice(), rho * (1 - exact(radius_share))
    counts, final = last_laws(lattice, guarantee, rho, extra, radius_share, trace_share)
    if radii is None:
        radii = np.sqrt(lattice.features * SQUARED_RADIUS_GRID)
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
    """Return the noise of the counts and of the second moment of `release_transformed`.

    Some mechanisms learn the remaining budget only during the run. Such a mechanism calls this
    function before it spends anything, for the smallest and the largest remaining budget. All other
    variances lie in between. The steps of the lattice are relative (`Lattice.relative`), because
    transformed rows have no lattice of their own.

    Parameters
    ----------
    lattice : Lattice
        Lattice of the second moment.

    guarantee : Guarantee
        Guarantee of the release.

    rho : Fraction
        Budget of the last step.

    extra : int
        Number that is added to each variance.

    radius_share : float
        Fraction of the budget for the radius.

    trace_share : float
        Fraction of the rest for the trace.

    Returns
    -------
    counts : ScalarGaussian
        Noise of each count.
    final : additive.Calibration
        Noise of the second moment.

    Raises
    ------
    MechanismError
        Nothing is left for the release, or the noise cannot be drawn exactly.

    """
    lattice = lattice.relative()
    for_radius = exact(radius_share) * rho
    if rho <= for_radius:
        raise MechanismError(
            "The shares of this mechanism leave nothing for the release. Make them smaller."
        )
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
    """Release the second moment of transformed rows, clipped at a given radius.

    Parameters
    ----------
    mechanism : Mechanism
        Mechanism that makes the release.

    rows : Rows
        Data source.

    shape : LinearMap
        Transformation of the rows.

    radius : float
        Clipping radius, as a norm of transformed rows.

    final : additive.Calibration
        Noise of the second moment.

    entropy : Entropy
        Source of random bits.

    Returns
    -------
    Release
        Second moment of the transformed rows.

    """
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
    """Choose a clipping radius from noisy counts of transformed rows by norm.

    The result is the smallest radius beyond which the noisy counts show at most `clipped` rows. At
    the best radius, clipping one more row costs as much as the noise that it saves. For Gaussian
    noise and whitened rows, this balance is at ``p^1.5 / sqrt(2 rho)`` clipped rows.

    A count is detectable if it exceeds `MIN_COUNT_SNR` standard deviations of its noise. The
    function tests sums over 1, 2, 4 and more neighbouring bins.

    Parameters
    ----------
    rows : Rows
        Data source.

    shape : LinearMap
        Transformation of the rows.

    radii : ndarray of float, shape (m,)
        Candidate radii in ascending order.

    law : ScalarLaw
        Noise of each count.

    clipped : float
        Number of rows that the radius should clip.

    entropy : Entropy
        Source of random bits.

    Returns
    -------
    float
        Clipping radius.

    """
    noise = law.samples(len(radii), entropy)
    counts = rows.norm_counts(radii[:-1], radius=float(radii[-1]), transform=shape)
    sums = np.append(0, np.cumsum(counts + noise))
    widths, least = 2 ** np.arange(len(radii).bit_length()), 0
    for width in widths:
        noise_alone = MIN_COUNT_SNR * law.standard_deviation * math.sqrt(width)
        seen = sums[width:] - sums[:-width] > max(clipped, noise_alone)
        least = max(least, int(np.max(np.flatnonzero(seen), initial=0)))
    return float(radii[least])
