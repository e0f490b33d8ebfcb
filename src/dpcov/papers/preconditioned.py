"""Second moment of rows that earlier pilot queries whitened: the mechanism CoinPress."""

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
from dpcov.papers.transformed import last_laws, release_transformed
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


# Fraction of normal whitened rows that a step can clip. Source: not recorded.
CLIPPED_FRACTION = 0.01
# Number that a step adds to each eigenvalue before the division, in standard errors. Source: not
# recorded.
SPECTRUM_SLACK = 0.3
# Largest number of pilot queries. A pilot query halves the error of a transformation, and float64
# allows 1,074 halvings of 1.
MAX_HALVING_QUERIES = 1100
QueryCount = Annotated[int, Interval(1, MAX_HALVING_QUERIES, "both")]
# Number of comparisons of a binary search among `SCALE_COUNT` scales.
SEARCH_STEPS = 6
# Number of candidate scales. The search finds the median norm among R 2^-j, where R is the radius
# of the schema.
SCALE_COUNT = 64
# Largest norm of transformed rows, beyond all radii. Features are capped there.
MAX_TRANSFORMED_NORM = 256.0
# Largest ratio of the singular values of a transformation. A linear map is rounded to 2^-29.
MAX_SINGULAR_VALUE_RATIO = 2.0**28


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public noise parameters of `Preconditioned`. Variances are in squared lattice units.

    All steps together cost `rho`. The number `extra` is added to each variance.
    """

    guarantee: Guarantee
    step: GaussianOrthogonal
    count: ScalarGaussian
    balance: ScalarGaussian
    rho: Fraction
    extra: int

    @property
    def mu_squared(self) -> Fraction | None:
        """Squared mu of all noise together, or None if the noise has no mu."""
        return gaussian.mu_squared(self.rho, self.extra)

    def __post_init__(self) -> None:
        for law in (self.step, self.count, self.balance):
            law.require_drawable()


@dataclass(frozen=True, slots=True)
class Preconditioned(Mechanism):
    """Second moment of rows that earlier pilot queries whitened: rho-zCDP or (epsilon, delta)-DP.

    The mechanism is for ill-conditioned rows and for bounds that are far too wide, by a factor of
    up to 2^63. In ill-conditioned rows, the noise of the large directions would hide the small
    directions. The mechanism first finds a private scale.

    The error is small relative to the matrix itself (Mahalanobis error), and not only in Frobenius
    norm. With an intercept, each pilot query also estimates the mean. Later steps subtract this
    mean.

    Guarantee
    ---------
    The release satisfies rho-zCDP, or (epsilon, delta)-DP by the exact curve of the Gaussian
    mechanism. The guarantee holds for every table, under add-remove and under replace-one. It
    protects rows, or persons with at most k rows.

    Sensitivity
    -----------
    Every pilot query is a second moment of transformed rows with the intercept, clipped at a
    radius. The transformation is public or comes from earlier pilot queries. The steps have these
    sensitivities (add-remove, then replace-one):

    - A second moment: ``k B^2`` and ``sqrt(2) k B^2`` in Frobenius norm
      (`Lattice.frobenius_squared`).
    - The number of rows: k and k.
    - The number of rows beyond a norm minus the number of the other rows: k and 2 k. Its sign
      directs a binary search for the median norm.
    - The counts of rows by norm, for the last radius: k and ``sqrt(2) k`` in l2 norm
      (`mechanisms.radius` contains the proof).

    All noise is discrete Gaussian and drawn exactly. A step costs ``sensitivity^2 / (2 variance)``
    in zCDP. The costs add up to rho in exact rationals, for any number of pilot queries. Unused
    budget can be spent later (Feldman and Zrnic 2021).

    For (epsilon, delta), all steps together are a single Gaussian mechanism with ``mu^2 / 2 = rho``
    (Smith and Thakurta 2022). Every variance is then larger by 8 to cover the rounding (see
    `gaussian`).

    Not protected
    -------------
    - The schema, the budget, the order of the matrix, the number of pilot queries and the running
      time.
    - Under replace-one, the number of rows or persons.

    Parameters
    ----------
    looks : int, public
        Largest number of pilot queries.

    look_share : float in (0, 1), public
        Fraction of the budget for all pilot queries. The last release uses the unused part.

    radius_share : float in (0, 1), public
        Fraction of the rest for the last radius.

    count_share : float in (0, 1), public
        Fraction of the budget for the number of rows. With an intercept, this step is not
        necessary.

    scale_share : float in (0, 1), public
        Fraction of the budget for the first scale.

    trace_share : float in [0, 1), public
        Fraction of the last release for the trace, under add-remove.

    Returns
    -------
    Release
        Integers of shape (d, d) for transformed rows, the transformation (`Release.linear_map`),
        the trace, and the noise distribution.

    Raises
    ------
    MechanismError
        The budget is a pure epsilon, or too small for the exact sampler. The error comes before
        dpcov reads any data.
    SourceError
        There is no space for a private copy of a source that can be read only once. The budget is
        then spent.

    Cost
    ----
    The mechanism reads the data at most `looks` + 9 times. Each read needs ``d (d + 1) / 2`` exact
    draws.

    Source
    ------
    The source is Biswas, Dong, Kamath and Ullman, "CoinPress", NeurIPS 2020, with two corrections:

    - The matrices are multiplied in the right order. The code of the paper transforms rows by A'
      although the update belongs to A. Spherical data hide this error.
    - Negative eigenvalues become 0 and not their absolute value.

    dpcov adds a private scale, a centre and a private last radius. The number of pilot queries
    adapts to their results. The step includes the size of the noise. The noise matrix is symmetric
    (orthogonal ensemble).

    Examples
    --------
    >>> from dpcov import Neighbors, ZCDP
    >>> from dpcov.mechanisms import Preconditioned
    >>> from dpcov.rows.moment import Lattice
    >>> noise = Preconditioned(looks=7).calibrate(Lattice(4, 1.0), ZCDP(0.5), Neighbors.ADD_REMOVE)
    >>> float(noise.step.variance / Lattice(4, 1.0).bound ** 2)
    14.0

    """

    looks: QueryCount = 32
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
        """Number of reads, for the pilot queries, scale, row count, radius and release."""
        return self.looks + SEARCH_STEPS + 3

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        noise = gaussian.concentration(self.name, budget)
        return self._calibrated(lattice, budget, Neighbors(neighbors), *noise)

    def calibrate_gaussian(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> Calibration:
        noise = gaussian.concentration(self.name, budget, rounded=True)
        return self._calibrated(lattice, budget, Neighbors(neighbors), *noise)

    def _calibrated(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors, rho: Fraction, extra: int
    ) -> Calibration:
        lattice = lattice.relative()
        moved, guarantee = neighbors.sides, Guarantee(budget, neighbors, lattice.unit)
        for queries in (1, self.looks):
            left = self._left(lattice, rho, queries)
            last_laws(lattice, guarantee, left, extra, self.radius_share, self.trace_share)
        return Calibration(
            guarantee,
            gaussian.matrix_noise(lattice, neighbors, self._rho_of_query(rho), extra),
            count_law(lattice, exact(self.count_share) * rho, extra),
            count_law(lattice, exact(self.scale_share) * rho / SEARCH_STEPS / moved**2, extra),
            rho,
            extra,
        )

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        rows.require_rereadable()
        lattice = rows.lattice()
        counted = lattice.intercept_units == 0
        count = number_of_rows(rows, laws.count, entropy) if counted else None
        start = initial(rows, laws.balance, entropy)
        shape, queries = self._learned(rows, start, laws.step, count, entropy)
        return release_transformed(
            self,
            rows,
            shape,
            guarantee=laws.guarantee,
            rho=self._left(lattice, laws.rho, queries),
            extra=laws.extra,
            radius_share=self.radius_share,
            trace_share=self.trace_share,
            entropy=entropy,
        )

    def _left(self, lattice: Lattice, rho: Fraction, queries: int) -> Fraction:
        """Return the budget that remains after the scale, the row count and the pilot queries."""
        counted = exact(self.count_share) if lattice.intercept_units == 0 else 0
        return rho * (1 - exact(self.scale_share) - counted) - queries * self._rho_of_query(rho)

    def _rho_of_query(self, rho: Fraction) -> Fraction:
        return exact(self.look_share) * rho / self.looks

    def _learned(
        self,
        rows: Rows,
        shape: LinearMap,
        law: GaussianOrthogonal,
        count: float | None,
        entropy: Entropy,
    ) -> tuple[LinearMap, int]:
        """Return the learned transformation, and the number of pilot queries."""
        radius = _tail(rows.lattice().features, CLIPPED_FRACTION)
        queries, clear = 0, False
        while queries < self.looks and not clear:
            queries += 1
            seen = pilot_query(rows, shape, radius, law, count, entropy)
            shape = seen.whitening_map(shape, SPECTRUM_SLACK * seen.standard_error)
            clear = seen.clear
        return shape, queries


@dataclass(frozen=True, slots=True)
class PilotEstimate:
    """Result of a pilot query: the noisy second moment of the transformed rows.

    Attributes
    ----------
    values : ndarray of float, shape (p,)
        Eigenvalues in ascending order. With an intercept, the matrix is about the mean.

    vectors : ndarray of float, shape (p, p)
        Eigenvectors in the columns.

    deviation : float
        Standard deviation of the noise on the diagonal.

    count : float
        Noisy number of rows.

    mean : ndarray of float, shape (p,), optional
        Noisy mean of the transformed rows. Only an intercept makes an estimate possible.

    """

    values: Vector
    vectors: Matrix
    deviation: float
    count: float
    mean: Vector | None = None

    @property
    def error(self) -> float:
        """Approximate spectral norm of the noise."""
        return self.deviation * math.sqrt(2 * len(self.values))

    @property
    def standard_error(self) -> float:
        """Spectral error from noise and sampling, for normal whitened rows."""
        return self.error + 2 * math.sqrt(len(self.values) / self.count)

    @property
    def clear(self) -> bool:
        """True if every direction is above the noise level."""
        return bool(self.values[0] > 2 * self.error)

    def whitening_map(self, shape: LinearMap, slack: float) -> LinearMap:
        """Return the next transformation ``(M+ + slack I)^(-1/2) A``.

        The matrix M+ is the positive semidefinite part of the noisy second moment. The update
        multiplies the transformation A from the left. The next centre is ``c + A^-1 mean``, moved
        into the bounds of the schema.

        Parameters
        ----------
        shape : LinearMap
            Current transformation A with the centre c.
        slack : float
            Number that is added to each eigenvalue.

        Returns
        -------
        LinearMap
            Next transformation.

        """
        inverse_root = (self.vectors / np.sqrt(np.maximum(self.values, 0.0) + slack)) @ (
            self.vectors.T
        )
        center = None
        if self.mean is not None:
            moved = shape.center + np.linalg.pinv(shape.matrix()) @ self.mean
            center = np.clip(moved, -1.0, 1.0)
        return LinearMap.focused(
            _bounded(inverse_root @ shape.matrix()), MAX_TRANSFORMED_NORM, center
        )


def _bounded(matrix: Matrix) -> Matrix:
    """Reduce the largest singular values of a matrix to a ratio of `MAX_SINGULAR_VALUE_RATIO`."""
    left, values, right = np.linalg.svd(matrix)
    largest = MAX_SINGULAR_VALUE_RATIO * values[-1]
    return matrix if values[0] <= largest else (left * np.minimum(values, largest)) @ right


def pilot_query(
    rows: Rows,
    shape: LinearMap,
    radius: float,
    law: GaussianOrthogonal,
    count: float | None,
    entropy: Entropy,
) -> PilotEstimate:
    """Make a pilot query: a noisy second moment of the transformed rows.

    Parameters
    ----------
    rows : Rows
        Data source.

    shape : LinearMap
        Transformation of the rows.

    radius : float
        Clipping radius, as a norm of transformed rows.

    law : GaussianOrthogonal
        Noise of the second moment.

    count : float, optional
        Noisy number of rows. With an intercept, the second moment contains this number.

    entropy : Entropy
        Source of random bits.

    Returns
    -------
    PilotEstimate
        Noisy second moment, with its eigenvalues and eigenvectors.

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
    return PilotEstimate(values, vectors, law.spread * lattice.step**2 / count, count, mean)


def number_of_rows(rows: Rows, law: ScalarGaussian, entropy: Entropy) -> float:
    """Return the noisy number of rows, at least 1."""
    noise = law.sample(entropy)
    return max(1.0, float(rows.norm_counts([]).sum()) + noise)


def initial(rows: Rows, law: ScalarGaussian, entropy: Entropy) -> LinearMap:
    """Return the first transformation.

    The transformation brings the median norm of the rows near ``sqrt(p) / 2``. A binary search
    finds the median norm up to a factor of 2.
    """
    lattice = rows.lattice()
    eye = np.eye(lattice.features)
    noise = law.samples(SEARCH_STEPS, entropy)
    low, high = 0, SCALE_COUNT
    for k in noise.tolist():
        middle = (low + high) // 2
        shape = LinearMap.focused(eye * (2.0**middle / lattice.radius), 2.0)
        inside, beyond = rows.norm_counts([1.0], radius=2.0, transform=shape).tolist()
        low, high = (low, middle) if beyond - inside + k > 0 else (middle, high)
    factor = 2.0**low * math.sqrt(lattice.features) / 2
    return LinearMap.focused(eye * (factor / lattice.radius), MAX_TRANSFORMED_NORM)


def _tail(p: int, share: float) -> float:
    """Return a norm that a normal vector of p numbers exceeds with probability at most `share`."""
    log = math.log(1 / share)
    return math.sqrt(p + 2 * math.sqrt(p * log) + 2 * log)
