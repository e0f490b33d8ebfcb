"""Private clipping radius: an option of the mechanisms that add noise to the second moment.

The noise is proportional to the squared clipping radius. If few rows have a norm near the radius of
the schema, a smaller radius gives less noise. This module counts the rows by norm, adds noise to
the counts (`laplace_counts`, `gaussian_counts`), and chooses the radius from the noisy counts. The
chosen radius minimises the sum of two bounds: one on the clipping bias and one on the noise.

Privacy. The choice uses only the noisy counts. The second moment is private at every radius that is
fixed in advance. In lattice steps its noise is the same at every radius. The two steps therefore
compose adaptively, and the mechanism draws all noise before it reads the data
(docs/proofs/release.md, section 9).

Sensitivity. A privacy unit has at most k rows. The unit adds a vector h of nonnegative integers to
the counts, and these integers sum to at most k (`Rows.norm_counts`).

- Under add-remove the counts change by h. Here ||h||_2 <= ||h||_1 <= k.
- Under replace-one the counts change by h - h', so ||h - h'||_1 <= 2 k. Because <h, h'> >= 0, also
  ||h - h'||_2^2 <= ||h||_2^2 + ||h'||_2^2 <= 2 k^2.

Every bound is attained if k rows move from one bin to another.

A histogram has one sensitivity for all radii. It also estimates the trace, and it works for pure,
zCDP and (epsilon, delta) budgets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpcov.core.privacy import Neighbors, exact
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcov.core.arrays import Integers, Vector
    from dpcov.core.entropy import Entropy
    from dpcov.core.samplers import MatrixLaw, ScalarLaw
    from dpcov.rows.moment import Lattice
    from dpcov.rows.sources.rows import Rows


Radius = Literal["public", "private"]

# Number of times that the squared radius is halved. The smallest candidate is about a thousandth of
# the radius in the schema. Source: not recorded.
MAX_RADIUS_HALVINGS = 20
MIN_RADIUS = 1e-99  # release files accept only larger radii
# Probability that noise makes an empty bin detectable. The values affect only the choice of the
# radius. Source: not recorded.
BIN_ALARM_PROBABILITY = 0.01  # for all bins together
NEXT_BIN_ALARM_PROBABILITY = 0.2  # for a bin next to a detectable bin


def spent(radius: Radius, share: float, budget: Fraction) -> Fraction:
    """Return the cost of the radius in epsilon or rho, or 0 for a public radius."""
    return exact(share) * budget if radius == "private" else Fraction(0)


def grid(radius: Radius, lattice: Lattice) -> Lattice:
    """Return a lattice whose sensitivities are the same at every radius, if the radius is private.

    For a public radius, the function returns the given lattice.
    """
    return lattice.relative() if radius == "private" else lattice


def laplace_counts(
    lattice: Lattice, neighbors: Neighbors, epsilon: Fraction
) -> ScalarLaplace | None:
    """Return the noise of each count in an epsilon-DP histogram, or None if epsilon is 0."""
    return ScalarLaplace(neighbors.sides * lattice.unit.max_rows / epsilon) if epsilon > 0 else None


def gaussian_counts(
    lattice: Lattice, neighbors: Neighbors, rho: Fraction, extra: int
) -> ScalarGaussian | None:
    """Return the noise of each count in a rho-zCDP histogram, or None if rho is 0.

    The function adds `extra` to the variance (see `gaussian.concentration`).
    """
    return count_law(lattice, rho / neighbors.sides, extra) if rho > 0 else None


def count_law(lattice: Lattice, rho: Fraction, extra: int) -> ScalarGaussian:
    """Return Gaussian noise for a count of rows if a privacy unit has at most k rows."""
    return ScalarGaussian(Fraction(lattice.unit.max_rows) ** 2 / (2 * rho) + extra)


def chooser(
    rows: Rows, law: ScalarLaw | None, error: Callable[[Norms], Vector], entropy: Entropy
) -> Callable[[], float | None]:
    """Draw the noise of the counts and return a function that chooses the radius.

    Parameters
    ----------
    rows : Rows
        Rows of the table. Only the returned function reads them.

    law : ScalarLaw or None
        Noise distribution of each count. None for a public radius.

    error : callable
        Function from `Norms` to bounds on the error of the noise at each radius, shape (m,), as
        fractions of the squared radius.

    entropy : Entropy
        Source of the noise.

    Returns
    -------
    callable
        Function without arguments that reads the rows and returns the radius. For a public radius
        the function returns None.

    """
    if law is None:
        return lambda: None
    rows.require_rereadable()
    lattice = rows.lattice().relative()
    radii = candidates(lattice.radius)
    noise = law.samples(len(radii), entropy)

    def choose() -> float:
        counts = significant(rows.norm_counts(radii[:-1]) + noise, law)
        norms = Norms(counts, radii / radii[-1], lattice)
        return least(norms.clipped_away() + error(norms), radii)

    return choose


def candidates(radius: float) -> Vector:
    """Return candidate radii in ascending order, up to the given radius.

    Each squared radius is half of the next squared radius.
    """
    radii: Vector = radius * 2.0 ** (-np.arange(MAX_RADIUS_HALVINGS, -1, -1) / 2)
    return radii[(radii > MIN_RADIUS) | (radii == radius)]


def significant(counts: Integers, law: ScalarLaw) -> Vector:
    """Return the counts that are above the noise level, and 0 for the other counts.

    Most tables have no rows near the largest norm that the schema allows. Without a threshold,
    the noise in these empty bins would count as rows with a large norm. A bin next to a detectable
    bin has a lower threshold, because rows with similar norms are likely.
    """
    kept = counts > law.upper_quantile(BIN_ALARM_PROBABILITY / len(counts))
    likely = counts > law.upper_quantile(NEXT_BIN_ALARM_PROBABILITY)
    for _ in counts:
        beside = np.append(kept[1:], False) | np.append(False, kept[:-1])
        kept |= likely & beside
    return np.where(kept, counts, 0).astype(np.float64)


def least(errors: Vector, radii: Vector) -> float:
    """Return the radius with the smallest error, or the largest of several such radii."""
    return float(radii[::-1][np.argmin(errors[::-1])])


@dataclass(frozen=True, slots=True)
class Norms:
    """Histogram of the norms of the rows, estimated from noisy counts.

    Attributes
    ----------
    counts : ndarray, shape (m,)
        Estimated number of rows in each bin.

    shares : ndarray, shape (m,)
        Upper ends of the bins, as fractions of the radius in the schema. They ascend to 1.

    lattice : Lattice
        Quantised rows, with their bounds.

    Notes
    -----
    All errors and traces are fractions of the squared radius in the schema.

    """

    counts: Vector
    shares: Vector
    lattice: Lattice

    def clipped_away(self) -> Vector:
        """Return bounds on the clipping bias at each radius, in Frobenius norm, shape (m,).

        Clipping a row x at radius r removes (1 - r^2 / ||x||^2) x x' from the second moment. The
        Frobenius norm of this matrix is ||x||^2 - r^2.
        """
        squares = self.shares**2
        return self.counts @ np.maximum(squares[:, None] - squares[None, :], 0.0)

    def traces(self) -> Vector:
        """Return estimates of the trace at each radius, shape (m,).

        The estimates place each row at the upper end of its bin.
        """
        squares = self.shares**2
        features = self.counts @ np.minimum(squares[:, None], squares[None, :])
        intercepts = self.counts.sum() * self.lattice.intercept_units**2 * self.squared_steps()
        return features + intercepts

    def squared_steps(self) -> Vector:
        """Return the squared lattice step at each radius, shape (m,)."""
        return (self.shares / self.lattice.side) ** 2


def noise_errors(norms: Norms, law: MatrixLaw) -> Vector:
    """Return bounds on the Frobenius error of the denoised second moment, shape (m,).

    The function returns the smaller of two bounds for each radius. The first bound is the root mean
    square of the noise L. The second bound is sqrt(2 tr(C) ||L||) for the second moment C. It holds
    for the projection on the positive semidefinite matrices with the trace of C. For ||L|| the
    function uses the limit for matrices of large order.
    """
    steps = norms.squared_steps()
    projected = np.sqrt(2 * norms.traces() * steps * law.edge)
    return np.minimum(projected, steps * math.sqrt(law.frobenius_squared))
