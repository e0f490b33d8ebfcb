"""A clip radius chosen from noisy counts of rows by their norm: an option of additive mechanisms.

Where few rows are nearly as long as the schema allows, noise that hides the longest row drowns the
others. Rows are counted in bins of norm with noise (`laplace_counts`, `gaussian_counts`); from then
on everything is post-processing: the radius that minimises a bound on what clipping takes away plus
one on the error of the noise. The moment at that radius is private at any radius fixed in advance,
and its noise is the same at all of them in lattice units, so the two steps compose adaptively and
all noise is drawn before the data is read (docs/proofs/release.md 9).

Sensitivity. A unit of at most k rows adds to the counts a vector h of nonnegative integers that sum
to at most k (`Rows.norm_counts`), whatever bins its rows fall in. Add/remove: the counts change by
h, with ||h||_1 <= k and ||h||_2 <= ||h||_1 <= k. Replace-one, rows or persons: by h - h', with
||h - h'||_1 <= 2 k and, as <h, h'> >= 0, ||h - h'||_2^2 <= ||h||_2^2 + ||h'||_2^2 <= 2 k^2. All are
reached by k rows in one bin that move to another.

The exponential mechanism on radii would do for pure budgets; the histogram costs one sensitivity
for all radii, tells the trace too, and serves zCDP and (epsilon, delta) alike. Binary search
(`Preconditioned`) tells less; the sparse vector technique is not Gaussian.
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

HALVINGS = 20  # of the squared radius: the smallest radius is about a thousandth of the schema's
SMALLEST_RADIUS = 1e-99  # release files hold larger ones
FALSE_ALARM = 0.01  # chance that noise in any empty bin counts; moves the radius alone
LIKELY = 0.2  # the same in a bin beside one that counts


def spent(radius: Radius, share: float, budget: Fraction) -> Fraction:
    """What the choice of the radius costs, of a budget in epsilon or rho; 0 if it is public."""
    return exact(share) * budget if radius == "private" else Fraction(0)


def grid(radius: Radius, lattice: Lattice) -> Lattice:
    """Where the radius is chosen later: one on which sensitivities are the same at any radius."""
    return lattice.relative() if radius == "private" else lattice


def laplace_counts(
    lattice: Lattice, neighbors: Neighbors, epsilon: Fraction
) -> ScalarLaplace | None:
    """Noise for each count of an epsilon-DP histogram; None if nothing is spent on it."""
    return ScalarLaplace(neighbors.sides * lattice.unit.max_rows / epsilon) if epsilon > 0 else None


def gaussian_counts(
    lattice: Lattice, neighbors: Neighbors, rho: Fraction, extra: int
) -> ScalarGaussian | None:
    """Noise for each count of a rho-zCDP histogram; None if nothing is spent on it.

    `extra` is added to the variance, as for the matrix (`gaussian.concentration`).
    """
    return count_law(lattice, rho / neighbors.sides, extra) if rho > 0 else None


def count_law(lattice: Lattice, rho: Fraction, extra: int) -> ScalarGaussian:
    """Noise for a count of rows, of which a unit has at most k."""
    return ScalarGaussian(Fraction(lattice.unit.max_rows) ** 2 / (2 * rho) + extra)


def chooser(
    rows: Rows, law: ScalarLaw | None, error: Callable[[Norms], Vector], entropy: Entropy
) -> Callable[[], float | None]:
    """Draw the noise of the counts; the answer reads the data and chooses.

    Parameters
    ----------
    rows : the data; not read before the answer is called.
    law : noise of each count; None for the public radius, which the answer states by None.
    error : (m,) bounds on the error of the noise at each radius, units as in `Norms`.
    entropy : source of the noise.

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
    """Radii to choose from, ascending to `radius`: each squared is half of the next, squared."""
    radii: Vector = radius * 2.0 ** (-np.arange(HALVINGS, -1, -1) / 2)
    return radii[(radii > SMALLEST_RADIUS) | (radii == radius)]


def significant(counts: Integers, law: ScalarLaw) -> Vector:
    """Counts that noise of this law alone would hardly reach, else 0.

    Most of the largest norms that a schema allows do not occur; noise there must not be taken for
    rows, each of which would weigh as much as thousands of small ones. Norms that occur have
    neighbours that do: beside a bin that counts, only its own noise can give a false alarm.
    """
    kept = counts > law.upper_quantile(FALSE_ALARM / len(counts))
    likely = counts > law.upper_quantile(LIKELY)
    for _ in counts:
        beside = np.append(kept[1:], False) | np.append(False, kept[:-1])
        kept |= likely & beside
    return np.where(kept, counts, 0).astype(np.float64)


def least(errors: Vector, radii: Vector) -> float:
    """The radius of the least error; of equals, the largest."""
    return float(radii[::-1][np.argmin(errors[::-1])])


@dataclass(frozen=True, slots=True)
class Norms:
    """What noisy counts tell of the rows' norms; errors and traces are shares of the radius^2.

    `counts`, (m,): rows whose norm is at most `shares`[i] of the schema's radius and above the
    share before; `shares` ascends to 1.
    """

    counts: Vector
    shares: Vector
    lattice: Lattice

    def clipped_away(self) -> Vector:
        """(m,) bounds on the Frobenius norm of what clipping at each radius takes from the moment.

        Clipping takes (1 - r^2/||x||^2) x x' of a row above r: at most ||x||^2 - r^2 in any norm.
        """
        squares = self.shares**2
        return self.counts @ np.maximum(squares[:, None] - squares[None, :], 0.0)

    def traces(self) -> Vector:
        """(m,) estimates of the moment's trace, each row at the upper end of its bin."""
        squares = self.shares**2
        features = self.counts @ np.minimum(squares[:, None], squares[None, :])
        intercepts = self.counts.sum() * self.lattice.intercept_units**2 * self.squared_steps()
        return features + intercepts

    def squared_steps(self) -> Vector:
        """(m,) squared lattice steps."""
        return (self.shares / self.lattice.side) ** 2


def noise_errors(norms: Norms, law: MatrixLaw) -> Vector:
    """(m,) bounds on the Frobenius error of the moment with noise L, denoised, at each radius.

    The root mean square of L; or, for the projection on the positive semidefinite matrices of the
    right trace, a convex set that holds the moment C, sqrt(2 tr C ||L||), where ||L|| is taken for
    its limit at large d.
    """
    steps = norms.squared_steps()
    projected = np.sqrt(2 * norms.traces() * steps * law.edge)
    return np.minimum(projected, steps * math.sqrt(law.frobenius_squared))
