"""Learn a map that makes the rows round, then release their second moment: CoinPress."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from dpcov.core.parameters import Interval, Share, ShareOrNone, check_fields, check_shares
from dpcov.core.privacy import Guarantee, Neighbors, exact
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.mechanisms import gaussian
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.radius import count_law
from dpcov.papers.mapped import last_laws, release_mapped
from dpcov.rows.moment import LinearMap

if TYPE_CHECKING:
    from fractions import Fraction

    from dpcov.core.arrays import Matrix, Vector
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.core.samplers.scalars import ScalarGaussian
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice
    from dpcov.rows.sources.rows import Rows


OUTSIDE = 0.01  # share of round Gaussian rows that a step may clip
SLACK = 0.3  # what a step adds to the spectrum it divides by, in standard errors
MOST_LOOKS = 1100  # a look halves what is wrong with a map, and float64 has 1,074 halvings of 1
Looks = Annotated[int, Interval(1, MOST_LOOKS, "both")]
COMPARISONS = 6  # of a binary search among as many as
SCALES = 64  # the median norm is sought among R 2^-j, R the schema's radius
REACH = 256.0  # norm of mapped rows beyond all radii, where features are capped
LARGEST_RATIO = 2.0**28  # of a map's singular values, which a linear map rounds to 2^-29


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public outcome of calibrating `Preconditioned`; variances in squared lattice units."""

    guarantee: Guarantee
    step: GaussianOrthogonal
    count: ScalarGaussian
    balance: ScalarGaussian

    def __post_init__(self) -> None:
        for law in (self.step, self.count, self.balance):
            law.require_drawable()


@dataclass(frozen=True, slots=True)
class Preconditioned(Mechanism):
    r"""Second moment of rows made round by earlier, rougher looks: rho-zCDP or (epsilon, delta)-DP.

    For ill-conditioned rows, whose small directions drown in noise that fits the large ones, and
    for bounds that are as good as none (up to 2^63 times too wide): a private scale comes first.
    The error is small relative to the matrix itself (Mahalanobis), not only in Frobenius norm. With
    an intercept each look also tells the mean, about which the next ones and the release are taken.

    Guarantee
    ---------
    rho-zCDP, or (epsilon, delta)-DP by the exact curve of the Gaussian mechanism, for every input,
    under add/remove or replace-one, for rows or for persons with at most k rows.

    Sensitivity
    -----------
    Every look is a sum of w w' over rows that were mapped by a public map or one made from earlier
    looks, clipped at a radius, and completed by the intercept: it changes by k B^2 add/remove,
    sqrt(2) k B^2 replace-one in Frobenius norm (`Lattice.frobenius_squared`). The number of rows
    changes by k under both; the number of rows beyond a norm less that of the others, whose sign
    drives a binary search for the median norm, by k and 2 k; the counts of rows by norm, from which
    the last radius is chosen, by k and sqrt(2) k in l2 (`mechanisms.radius` has the proof). All
    noise is discrete Gaussian, drawn exactly; a look costs sensitivity^2 / (2 variance) in zCDP.
    These add up to rho, in exact rationals, whatever the number of looks: a budget that is left may
    be spent later (Feldman and Zrnic 2021), and for (epsilon, delta) the total is that of a single
    Gaussian mechanism with mu^2 / 2 = rho (Smith and Thakurta 2022), every variance being 8 larger
    to cover the rounding (see `gaussian`).

    Not protected
    -------------
    Schema, budget, order of the matrix, number of looks, running time; the number of rows (of
    persons) under replace-one.

    Parameters
    ----------
    looks : int, public
        Largest number of looks at which the map is improved.
    look_share : float in (0, 1), public
        Share of the budget for `looks` of them; what is not used goes to the last release.
    radius_share : float in (0, 1), public
        Share of the rest for the radius of the last clip.
    count_share : float in (0, 1), public
        Share of the budget for the number of rows, where the intercept does not tell it.
    scale_share : float in (0, 1), public
        Share of the budget for the scale with which the looks begin.
    trace_share : float in [0, 1), public
        Share of the last release for the trace under add/remove.

    Returns
    -------
    Release
        (d, d) integers about mapped rows, the map (`Release.linear_map`), the trace, the noise law.

    Raises
    ------
    MechanismError
        The budget is a pure one, or too small for the exact sampler. Before anything is read.
    SourceError
        What can be read only once finds no room for a private copy. The budget is spent.

    Cost
    ----
    `looks` + 9 passes over the data at most; d(d+1)/2 exact draws for each.

    Source
    ------
    Biswas, Dong, Kamath and Ullman, "CoinPress", NeurIPS 2020, with the multiplication in the right
    order (their code maps rows by A' where the update is for A, which spherical data hide) and
    negative eigenvalues set to 0, not to their size. Differences: a private scale and a center come
    with the map; the number of looks adapts to what they show; the noise enters the step; the
    ensemble is orthogonal; the last radius is private.

    Examples
    --------
    >>> from dpcov.rows.moment import Lattice
    >>> from dpcov.core.privacy import ZCDP
    >>> noise = Preconditioned(looks=7).calibrate(Lattice(4, 1.0), ZCDP(0.5), Neighbors.ADD_REMOVE)
    >>> float(noise.step.variance / Lattice(4, 1.0).bound ** 2)
    14.0

    """

    looks: Looks = 32
    look_share: Share = 0.5
    radius_share: Share = 0.08
    count_share: Share = 0.01
    scale_share: Share = 0.01
    trace_share: ShareOrNone = 0.05

    name: ClassVar[str] = "preconditioned"
    use: ClassVar[str] = "ill-conditioned columns, bounds that are far too wide"
    source: ClassVar[str] = "Biswas et al. 2020, corrected"

    def __post_init__(self) -> None:
        check_fields(self)
        check_shares(self, "look_share", "count_share", "scale_share")

    @property
    def passes(self) -> int:
        """The looks, the scale, the number of rows, the radius, the release."""
        return self.looks + COMPARISONS + 3

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        rho, extra = gaussian.concentration(self.name, budget)
        neighbors, lattice = Neighbors(neighbors), lattice.relative()
        moved, guarantee = neighbors.sides, Guarantee(budget, neighbors, lattice.unit)
        for looked in (1, self.looks):
            left = self._left(lattice, rho, looked)
            last_laws(lattice, guarantee, left, extra, self.radius_share, self.trace_share)
        return Calibration(
            guarantee,
            gaussian.matrix_noise(lattice, neighbors, self._rho_of_look(rho), extra),
            count_law(lattice, exact(self.count_share) * rho, extra),
            count_law(lattice, exact(self.scale_share) * rho / COMPARISONS / moved**2, extra),
        )

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        rows.require_rereadable()
        rho, extra = gaussian.concentration(self.name, laws.guarantee.budget)
        lattice = rows.lattice()
        counted = lattice.intercept_units == 0
        count = number_of_rows(rows, laws.count, entropy) if counted else None
        start = initial(rows, laws.balance, entropy)
        shape, looked = self._round(rows, start, laws.step, count, entropy)
        return release_mapped(
            self,
            rows,
            shape,
            guarantee=laws.guarantee,
            rho=self._left(lattice, rho, looked),
            extra=extra,
            radius_share=self.radius_share,
            trace_share=self.trace_share,
            entropy=entropy,
        )

    def _left(self, lattice: Lattice, rho: Fraction, looked: int) -> Fraction:
        """What is left after the scale, the number of rows, if it is counted, and so many looks."""
        counted = exact(self.count_share) if lattice.intercept_units == 0 else 0
        return rho * (1 - exact(self.scale_share) - counted) - looked * self._rho_of_look(rho)

    def _rho_of_look(self, rho: Fraction) -> Fraction:
        return exact(self.look_share) * rho / self.looks

    def _round(
        self,
        rows: Rows,
        shape: LinearMap,
        law: GaussianOrthogonal,
        count: float | None,
        entropy: Entropy,
    ) -> tuple[LinearMap, int]:
        """The learnt map, and the number of looks that it took."""
        radius = _tail(rows.lattice().features, OUTSIDE)
        looked, clear = 0, False
        while looked < self.looks and not clear:
            looked += 1
            seen = look(rows, shape, radius, law, count, entropy)
            shape = seen.rounder(shape, SLACK * seen.standard_error)
            clear = seen.clear
        return shape, looked


@dataclass(frozen=True, slots=True)
class Look:
    """What a look tells of the mapped rows' second moment, over the noisy `count` of rows.

    `values`, ascending, and `vectors` are those of the noisy matrix, whose noise has the standard
    deviation `deviation` on its diagonal and a spectral norm of about `error`. Where the intercept
    tells the `mean` of the mapped rows they are those of the matrix about it.
    """

    values: Vector
    vectors: Matrix
    deviation: float
    count: float
    mean: Vector | None = None

    @property
    def error(self) -> float:
        return self.deviation * math.sqrt(2 * len(self.values))

    @property
    def standard_error(self) -> float:
        """Spectral error by noise and by sampling, for round normal rows."""
        return self.error + 2 * math.sqrt(len(self.values) / self.count)

    @property
    def clear(self) -> bool:
        """Whether every direction rises above the noise."""
        return bool(self.values[0] > 2 * self.error)

    def rounder(self, shape: LinearMap, slack: float) -> LinearMap:
        """The next map (M+ + slack I)^(-1/2) A: the update multiplies from the left.

        The next center is c + A^-1 mean, kept within the bounds of the schema.
        """
        inverse_root = (self.vectors / np.sqrt(np.maximum(self.values, 0.0) + slack)) @ (
            self.vectors.T
        )
        center = None
        if self.mean is not None:
            moved = shape.center + np.linalg.pinv(shape.matrix()) @ self.mean
            center = np.clip(moved, -1.0, 1.0)
        return LinearMap.focused(_undoable(inverse_root @ shape.matrix()), REACH, center)


def _undoable(matrix: Matrix) -> Matrix:
    """The map, its singular values at most `LARGEST_RATIO` times the smallest."""
    left, values, right = np.linalg.svd(matrix)
    largest = LARGEST_RATIO * values[-1]
    return matrix if values[0] <= largest else (left * np.minimum(values, largest)) @ right


def look(
    rows: Rows,
    shape: LinearMap,
    radius: float,
    law: GaussianOrthogonal,
    count: float | None,
    entropy: Entropy,
) -> Look:
    """Second moment of the mapped rows, clipped at `radius`, with noise of `law`.

    `count` is the noisy number of rows; None where the intercept tells it.
    """
    noise = law.sample(entropy)
    moment = rows.second_moments(radius=radius, transform=shape)[0]
    lattice, p = moment.lattice, moment.lattice.features
    noisy = (moment.units + noise).astype(np.float64) * lattice.step**2
    mean = None
    if count is None:
        intercept = lattice.intercept_units * lattice.step
        count = max(1.0, noisy[-1, -1] / intercept**2)
        mean = noisy[:p, -1] / (intercept * count)
    about = np.zeros(p) if mean is None else mean
    values, vectors = np.linalg.eigh(noisy[:p, :p] / count - np.outer(about, about))
    return Look(values, vectors, law.spread * lattice.step**2 / count, count, mean)


def number_of_rows(rows: Rows, law: ScalarGaussian, entropy: Entropy) -> float:
    """The number of rows with noise of `law`, at least 1."""
    noise = law.sample(entropy)
    return max(1.0, float(rows.norm_counts([]).sum()) + noise)


def initial(rows: Rows, law: ScalarGaussian, entropy: Entropy) -> LinearMap:
    """The map that brings the rows' median norm, found up to a factor of 2, near sqrt(p) / 2."""
    lattice = rows.lattice()
    eye = np.eye(lattice.features)
    noise = law.samples(COMPARISONS, entropy)
    low, high = 0, SCALES
    for k in noise.tolist():
        middle = (low + high) // 2
        shape = LinearMap.focused(eye * (2.0**middle / lattice.radius), 2.0)
        inside, beyond = rows.norm_counts([1.0], radius=2.0, transform=shape).tolist()
        low, high = (low, middle) if beyond - inside + k > 0 else (middle, high)
    factor = 2.0**low * math.sqrt(lattice.features) / 2
    return LinearMap.focused(eye * (factor / lattice.radius), REACH)


def _tail(p: int, share: float) -> float:
    """Norm that a standard normal vector exceeds with probability at most `share`."""
    log = math.log(1 / share)
    return math.sqrt(p + 2 * math.sqrt(p * log) + 2 * log)
