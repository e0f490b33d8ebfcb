"""Rules that hold for the rows of any table with a schema.

`Structure` contains the rules for second moments. `coherent_moments` applies the rules for means
and covariances. All rules depend on the schema only, so they cost no privacy.

Columns with levels are encoded as indicators, which are 0 or 1. Let t be the intercept. For all
data, four rules hold:

- A row has at most one level of a column. So the products of two indicators of a column are 0.
- The products of all other indicators are sums of nonnegative numbers.
- An indicator equals its square. So its diagonal entry times t equals its product with t.
- If each value of a column has a level, its indicators add up to 1. If clipping shortened a row,
  the indicators of two such columns still have equal sums.

Each rule defines a convex set, and the true moment is in the intersection of all sets. So a
projection onto the intersection can only reduce the error of an estimate. The linear equations also
hold for the noise that is left, so dpcov applies them before it shrinks the eigenvalues.

An estimate of a mean and of a covariance contains noise. Each figure alone can be plausible while
all figures together are impossible. `coherent_moments` returns the nearest means and covariances
with these properties:

- A mean lies within its bounds. The shares of a category are at least 0 and add up to at most 1.
  They add up to 1 if every value sets an indicator.
- Two levels of a column exclude each other, so their covariance is -m_i m_j. A level has the
  variance m (1 - m).
- A variance is at most the variance of values at both bounds. A flag without missing cells has
  exactly this variance. A whole number with the mean m has at least the variance of the two
  nearest whole numbers.
- The covariance is positive semidefinite.

If a row is the mean of a person's rows, flags and levels are fractions. Their variances and
covariances then do not follow from their means, so dpcov keeps the estimates within the bounds.
Only the second and the last of the four rules above then hold.

The covariances also stay near the bounds of Frechet, which follow from the means: two rare flags
cannot have a large negative correlation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy

from dpcov.denoise.projection import project
from dpcov.denoise.shrinkage import MAX_SIMULATED_ORDER, shrink, simulates
from dpcov.rows.schema import Categorical, Numeric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Booleans, Integers, Matrix, Vector
    from dpcov.core.samplers import MatrixLaw
    from dpcov.published.record import Record
    from dpcov.rows.schema import Schema

# Largest number of rounds of the alternating projections. Source: not recorded.
MAX_PROJECTION_ROUNDS = 200
# Change of the last round, as a fraction of the change of all rounds, at which the projections
# stop. Source: not recorded.
STRUCTURE_TOLERANCE = 0.001
# Number of rounds of the projections onto the equations. Source: not recorded.
EQUATION_ROUNDS = 4
# Largest negative eigenvalue that counts as a rounding error, as a fraction of the largest one.
ROUNDING_FRACTION = 1e-14
# Largest number of alternating projections. A matrix with more than MAX_REPEATED_FEATURES features
# gets one projection, because each one costs a decomposition.
MAX_ROUNDS = 10
MAX_REPEATED_FEATURES = 300  # Features. Source: not recorded.
SETTLED_FRACTION = 1e-3  # Largest change of the last projection, as a fraction of all changes.
MIN_DIVISOR = 1e-300  # Smallest divisor.
MIN_FULL_SUM = 1 - 1e-12  # Smallest sum of shares that leaves no row without a level.


@dataclass(frozen=True)
class Structure:
    """Convex sets that contain the second moment of any rows of a schema.

    A row contains an entry u_j (z_j - c_j) for each feature j, and the intercept t. Let N be the
    number of rows, and let g_j be the sum of entry j over the rows. The sum of the products of two
    entries is u_i u_j sum z_i z_j - B_ij, with

        B = k g' + g k' + N k k',   k_j = u_j c_j.

    Attributes
    ----------
    zero : ndarray of bool, shape (d, d)
        Pairs of features whose sum of z_i z_j is 0.

    positive : ndarray of bool, shape (d, d)
        Pairs of features whose sum of z_i z_j is at least 0.

    blocks : tuple of ndarray of int
        Positions of the indicators of each column. Empty if the products with t do not give the
        sums of the indicators, or if the indicators are fractions of a person's rows.

    units : ndarray, shape (d,)
        Factors u; 1 if the rows were not transformed.

    centers : ndarray, shape (d,)
        Vector k; 0 if the rows were not transformed.

    intercept : float
        Intercept t, in the units of a row.

    within : ndarray, shape (d, q), or None
        Orthonormal basis of the directions in which rows can lie. None if rows can lie in all
        directions.

    """

    zero: Booleans
    positive: Booleans
    blocks: tuple[NDArray[np.intp], ...]
    units: Vector
    centers: Vector
    intercept: float
    within: Matrix | None

    @classmethod
    def of(cls, release: Record) -> Structure | None:
        """Build the sets from the schema of a release.

        Parameters
        ----------
        release : Record
            Any release.

        Returns
        -------
        Structure or None
            None if the schema has no indicators, or if the linear map mixes features.

        """
        schema, lattice = release.schema, release.lattice
        features, columns = schema.features, schema.encoded_columns
        scales = _scales(release)
        if scales is None or not schema.indicators:
            return None
        d, p = lattice.dimension, lattice.features
        owners = np.array([feature.column for feature in features])
        zero = np.zeros((d, d), bool)
        if not schema.person_means:
            zero[:p, :p] = (owners[:, None] == owners) & ~np.eye(p, dtype=bool)
        sure = np.ones(d, bool)
        sure[:p] = [feature.is_indicator for feature in features]
        units, centers, intercept = scales
        blocks, sums = [], []
        for name, positions in schema.indicators.items():
            at, column = np.array(positions), columns[name]
            if intercept and not schema.person_means:
                blocks.append(at)
            if isinstance(column, Categorical) and column.is_full:
                total = np.zeros(d)
                total[at] = 1 / units[at]
                if intercept:
                    total[-1] = (np.sum(centers[at] / units[at]) - 1) / intercept
                sums.append(total)
        if not intercept:
            sums = [one - other for one, other in itertools.pairwise(sums)]
        positive = sure[:, None] & sure
        return cls(zero, positive, tuple(blocks), units, centers, intercept, _complement(sums))

    def fit(self, matrix: Matrix, trace: float) -> Matrix:
        """Approximate the nearest positive semidefinite matrix in all sets, with a given trace.

        The method is Dykstra's algorithm of alternating projections. The last projection is onto
        the positive semidefinite matrices.

        Parameters
        ----------
        matrix : ndarray, shape (d, d)
            Symmetric matrix.

        trace : float
            Trace of the result.

        Returns
        -------
        ndarray, shape (d, d)
            Positive semidefinite matrix.

        """
        start, left, right = matrix, np.zeros_like(matrix), np.zeros_like(matrix)
        for _ in range(MAX_PROJECTION_ROUNDS):
            before = matrix
            inside = self.entries(matrix + left)
            left += matrix - inside
            matrix = self._spectrum(inside + right, trace)
            right += inside - matrix
            change, whole = np.linalg.norm(matrix - before), np.linalg.norm(matrix - start)
            if change <= STRUCTURE_TOLERANCE * whole:
                break
        return matrix

    def shrunk(
        self, noisy: Matrix, law: MatrixLaw, trace: float, generator: np.random.Generator
    ) -> Matrix:
        """Estimate a second moment by `shrink`, after the equations removed a part of the noise.

        Parameters
        ----------
        noisy : ndarray, shape (d, d)
            Second moment plus noise.

        law : MatrixLaw
            Distribution of the noise.

        trace : float
            Estimate of the trace.

        generator : numpy.random.Generator
            Source of simulated noise.

        Returns
        -------
        ndarray, shape (d, d)
            Positive semidefinite estimate.

        """
        return self._lifted(shrink(self.equated(noisy), law, trace, generator, self.equated))

    def simulates(self, law: MatrixLaw, trace: float) -> bool:
        """Return True if `shrunk` is at least as accurate as `shrink`.

        The closed form of `shrink` does not use the equations. With the equations, Frobenius errors
        are up to a tenth smaller. But if the noise is small, the entries of rare levels have larger
        errors, which matters for correlations. The purpose of a linear map is accurate
        correlations. So the result is False for centered rows with small noise. The result is also
        False at large orders.
        """
        return simulates(law, trace) or (
            not self.centers.any() and law.dimension <= MAX_SIMULATED_ORDER
        )

    def equated(self, matrix: Matrix) -> Matrix:
        """Project matrices onto the equations, and express them in the basis `within`.

        The projection is a linear function.

        Parameters
        ----------
        matrix : ndarray, shape (..., d, d)
            Symmetric matrices.

        Returns
        -------
        ndarray, shape (..., q, q)
            Projected matrices.

        """
        for _ in range(EQUATION_ROUNDS):
            matrix = self._lifted(self._inner(self.entries(matrix, bounded=False)))
        return self._inner(matrix)

    def nearest(self, matrix: Matrix) -> Matrix:
        """Return the projection of a matrix of shape (d, d) onto the equations."""
        return self._lifted(self.equated(matrix))

    def free(self, features: int) -> Matrix:
        """Return a basis of the directions in which centered rows can vary.

        Parameters
        ----------
        features : int
            Number of features p.

        Returns
        -------
        ndarray, shape (p, q)
            Orthonormal basis.

        """
        if self.within is None:
            return np.eye(features)
        outside = scipy.linalg.null_space(self.within.T)[:features]
        return np.asarray(scipy.linalg.null_space(outside.T))

    def entries(self, matrix: Matrix, *, bounded: bool = True) -> Matrix:
        """Return the nearest symmetric matrices whose entries satisfy the rules.

        Parameters
        ----------
        matrix : ndarray, shape (..., d, d)
            Symmetric matrices. Simulations pass many matrices at once.

        bounded : bool, default True
            Also apply the inequalities. With False, only the equations apply.

        Returns
        -------
        ndarray, shape (..., d, d)
            Nearest matrices.

        """
        least = 0.0 if bounded else -np.inf
        near, base = matrix.copy(), np.zeros_like(matrix)
        if self.intercept:
            rows = np.maximum(np.sum(matrix * self.of_rows, axis=(-2, -1)), least)[..., None]
            sums = matrix[..., -1] / self.intercept
            for block in self.blocks:
                sums[..., block] = self._sums(matrix, block, rows)
                if bounded:
                    sums[..., block] = np.maximum(sums[..., block], -rows * self.centers[block])
            base = self.centers[:, None] * (sums + rows * self.centers / 2)[..., None, :]
            base += base.swapaxes(-2, -1).copy()
            at = np.concatenate([np.empty(0, np.intp), *self.blocks])
            counts = self.units * (rows * self.centers + sums)
            near[..., at, at] = counts[..., at] - base[..., at, at]
            near[..., at, -1] = near[..., -1, at] = self.intercept * sums[..., at]
            near[..., -1, -1] = self.intercept**2 * rows[..., 0]
            base[..., -1, :] = base[..., :, -1] = self.intercept * rows * self.centers
        if bounded:
            near = np.where(self.positive, np.maximum(near, -base), near)
        return np.where(self.zero, -base, near)

    @cached_property
    def of_rows(self) -> Matrix:
        """Matrix of shape (d, d) whose inner product with a moment is N, by least squares.

        The fit uses all entries that depend on N and on the sums g: the blocks, the products t g
        and the row-count entry.
        """
        centers, units = self.centers, self.units
        of_one = np.zeros_like(self.zero, float)
        of_one[-1, -1] = self.intercept**2
        for block in self.blocks:
            k, u = centers[block], units[block]
            within = np.ix_(block, block)
            of_one[within] = np.diag(u * k) - np.outer(k, k)
            g = self._sums(of_one, block, np.zeros(1))
            of_one[within] -= np.diag(u * g) - np.outer(k, g) - np.outer(g, k)
            of_one[block, -1] = of_one[-1, block] = -self.intercept * g
        return np.asarray(of_one / np.sum(of_one**2))

    def _sums(self, matrix: Matrix, block: NDArray[np.intp], rows: Vector) -> Vector:
        """Estimate the sums g of a column's indicators by least squares.

        The fit uses all entries that depend on g: the block F(g) = diag(u (N k + g)) - B, and the
        products t g with the intercept.

        Parameters
        ----------
        matrix : ndarray, shape (..., d, d)
            Symmetric matrices.

        block : ndarray of int, shape (k,)
            Positions of the indicators of the column.

        rows : ndarray, shape (..., 1)
            Number of rows N of each matrix.

        Returns
        -------
        ndarray, shape (..., k)
            Sums of the indicators.

        """
        units, centers = self.units[block], self.centers[block]
        known, normal = self._constants[block.tobytes()]
        given = matrix[..., block[:, None], block] + rows[..., None] * known
        right = units * np.diagonal(given, axis1=-2, axis2=-1) - 2 * given @ centers
        right += 2 * self.intercept * matrix[..., block, -1]
        return np.asarray(np.linalg.solve(normal, right[..., None])[..., 0])

    @cached_property
    def _constants(self) -> dict[bytes, tuple[Matrix, Matrix]]:
        """Constant matrices of `_sums` for each block, by the positions of the block."""
        found = {}
        for block in self.blocks:
            k, u = self.centers[block], self.units[block]
            weights = u**2 - 4 * u * k + 2 * k @ k + 2 * self.intercept**2
            outer = np.outer(k, k)
            found[block.tobytes()] = outer - np.diag(u * k), np.diag(weights) + 2 * outer
        return found

    def _spectrum(self, matrix: Matrix, trace: float) -> Matrix:
        """Return the nearest positive semidefinite matrix with this trace."""
        return self._lifted(project(self._inner(matrix), trace))

    def _inner(self, matrix: Matrix) -> Matrix:
        """Return a matrix in the basis `within`, shape (q, q)."""
        return matrix if self.within is None else self.within.T @ matrix @ self.within

    def _lifted(self, inner: Matrix) -> Matrix:
        """Return the matrix of shape (d, d) that equals `inner` in the basis `within`."""
        if self.within is None:
            return inner
        whole = self.within @ inner @ self.within.T
        return np.asarray((whole + whole.swapaxes(-2, -1)) / 2)


def _scales(release: Record) -> tuple[Vector, Vector, float] | None:
    """Return the units, the centers and the intercept of `Structure`.

    The intercept is 0 if the products with it do not give the sums of the indicators. This is the
    case if the mechanism clipped the rows at a public radius, because the released moment then
    describes the clipped rows. Few rows exceed a private radius, so the released moment then stands
    for all rows.

    Parameters
    ----------
    release : Record
        Any release.

    Returns
    -------
    tuple or None
        Units, shape (d,), centers, shape (d,), and intercept. None if the linear map mixes
        features, scales a feature by a factor that is not positive, or lacks an intercept.

    """
    lattice, d, p = release.lattice, release.lattice.dimension, release.lattice.features
    if release.linear_map is None:
        one = math.floor(1 / lattice.step)  # of an indicator, in lattice units
        whole = d > p and one > 0 and lattice.radius >= release.schema.largest_norm
        return np.ones(d), np.zeros(d), lattice.intercept_units / one if whole else 0.0
    units, mixed = np.diag(release.linear_map), release.linear_map.copy()
    center = np.zeros(p) if release.center is None else release.center.copy()
    # The entry for a missingness indicator sets a missing cell to 0 after centering. It does not
    # mix features, and such a column needs no center.
    for at, mark in release.schema.missing_columns.items():
        if mixed[at, mark] != 0:
            mixed[at, mark] = center[at] = 0.0
    if np.any(mixed != np.diag(units)) or not np.all(units > 0) or d == p:
        return None
    return np.append(units, 0.0), np.append(units * center, 0.0), release.intercept()


def _complement(vectors: list[Matrix]) -> Matrix | None:
    """Return an orthonormal basis of the vectors that are orthogonal to all given vectors.

    Parameters
    ----------
    vectors : list of ndarray, shape (d,)
        Linearly independent vectors.

    Returns
    -------
    ndarray, shape (d, q), or None
        Basis. None if there are no vectors.

    """
    if not vectors:
        return None
    return np.asarray(np.linalg.svd(np.array(vectors))[2][len(vectors) :].T)


def coherent_moments(
    schema: Schema, mean: Vector, covariance: Matrix, noise: Vector
) -> tuple[Vector, Matrix]:
    """Return the coherent means and covariances nearest to an estimate.

    Parameters
    ----------
    schema : Schema
        Declaration of the columns.

    mean : ndarray, shape (p,)
        Estimated means of the encoded variables.

    covariance : ndarray, shape (p, p)
        Estimated covariance of the encoded variables.

    noise : ndarray, shape (p,)
        Standard deviations of the noise in the means, up to a common factor. A figure with more
        noise changes more.

    Returns
    -------
    mean : ndarray, shape (p,)
        Coherent means.

    covariance : ndarray, shape (p, p)
        Positive semidefinite covariance.

    """
    mean, near = mean.copy(), (covariance + covariance.T) / 2
    blocks: list[tuple[Integers, Matrix]] = []
    levels: list[Integers] = []
    for column, at in positions_by_column(schema):
        if isinstance(column, Categorical):
            mean[at] = proper_shares(mean[at], noise[at] ** 2, full=column.is_full)
            if schema.person_means:
                block = _fractions(near[np.ix_(at, at)], mean[at], full=column.is_full)
            else:
                block = np.diag(mean[at]) - np.outer(mean[at], mean[at])
            levels.append(at)
        else:
            variance = float(near[at[0], at[0]])
            whole = not schema.person_means
            mean[at], block = _number(column, mean[at], variance, whole=whole)
        blocks.append((at, block))
    if not _differs(near, blocks):
        return mean, near
    near = _with_old_correlations(near, blocks)
    lower = np.array([0.0 if one.is_indicator else -1.0 for one in schema.variables])
    width = 1 - lower
    share = (mean - lower) / width
    for at in levels:  # the rows without a level of this column limit the sum over its levels
        rest = np.array([1 - mean[at].sum() if mean[at].sum() < MIN_FULL_SUM else 0.0])
        low, high = (bound[0] * width for bound in _frechet_bounds(rest, share))
        sums = near[at].sum(axis=0)
        excess = sums - np.clip(sums, -high, -low)
        near[at] -= np.outer(noise[at] ** 2 / np.sum(noise[at] ** 2), excess)
        near[:, at] = near[at].T
    units = np.outer(width, width)
    low, high = (bound * units for bound in _frechet_bounds(share, share))
    return mean, nearest_with_blocks(near, blocks, noise, (low, high))


def _differs(covariance: Matrix, blocks: Sequence[tuple[Integers, Matrix]]) -> bool:
    """Return True if a block is not the block of the estimate, or the estimate is indefinite."""
    if any(not np.array_equal(covariance[np.ix_(at, at)], block) for at, block in blocks):
        return True
    values = np.linalg.eigvalsh(covariance)
    return bool(values[0] < -ROUNDING_FRACTION * values[-1])


def _with_old_correlations(covariance: Matrix, blocks: Sequence[tuple[Integers, Matrix]]) -> Matrix:
    """Reduce the covariances of each variable whose variance falls, so that its correlations stay.

    The noise that made the variance too large also made the covariances too large.
    """
    factors = np.ones(len(covariance))
    for at, block in blocks:
        old = np.diag(covariance)[at]
        smaller = (old > 0) & (np.diag(block) < old)
        factors[at[smaller]] = np.sqrt(np.diag(block)[smaller] / old[smaller])
    return covariance * np.outer(factors, factors)


def _frechet_bounds(first: Vector, second: Vector) -> tuple[Matrix, Matrix]:
    """Return the smallest and the largest covariances of variables in [0, 1] with these means.

    The mean of x y is at most min(E x, E y) and at least E x + E y - 1.
    """
    product = np.outer(first, second)
    low = np.maximum(first[:, None] + second - 1, 0.0) - product
    high = np.minimum(first[:, None], second) - product
    return np.minimum(low, 0.0), np.maximum(high, 0.0)


def positions_by_column(schema: Schema) -> Iterator[tuple[Numeric | Categorical, Integers]]:
    """Yield each column with the positions of its variables."""
    positions: dict[str, list[int]] = {}
    for position, feature in enumerate(schema.variables):
        positions.setdefault(feature.column, []).append(position)
    for name, column in schema.encoded_columns.items():
        yield column, np.array(positions[name])


def proper_shares(shares: Vector, variances: Vector, *, full: bool) -> Vector:
    """Return the nearest shares that are at least 0 and add up to 1, or to at most 1.

    Parameters
    ----------
    shares : ndarray, shape (k,)
        Estimated shares.

    variances : ndarray, shape (k,)
        Variances of their noise, up to a common factor.

    full : bool
        True if the shares add up to 1.

    Returns
    -------
    ndarray, shape (k,)
        Minimum of the sum of squared changes divided by the variances.

    """
    positive = np.maximum(shares, 0.0)
    if not full and positive.sum() <= 1:
        return positive
    order = np.argsort(-shares / variances)
    excess = (np.cumsum(shares[order]) - 1) / np.cumsum(variances[order])
    kept = int(np.count_nonzero((shares / variances)[order] > excess))
    found = np.maximum(shares - excess[max(kept, 1) - 1] * variances, 0.0)
    return np.asarray(found / found.sum())


def _fractions(covariance: Matrix, mean: Vector, *, full: bool) -> Matrix:
    """Return a possible covariance of the fractions of a person's rows at each level.

    Parameters
    ----------
    covariance : ndarray, shape (k, k)
        Estimated covariance.

    mean : ndarray, shape (k,)
        Coherent means.

    full : bool
        True if the fractions of each person add up to 1.

    Returns
    -------
    ndarray, shape (k, k)
        Positive semidefinite covariance. If `full`, its rows add up to 0.

    """
    center = np.eye(len(mean)) - np.outer(mean, np.ones(len(mean))) * full
    values, vectors = np.linalg.eigh(center @ covariance @ center.T)
    found = (vectors * np.maximum(values, 0.0)) @ vectors.T
    possible = np.sqrt(mean * (1 - mean) / np.maximum(np.diag(found), MIN_DIVISOR))
    factors = np.minimum(possible, 1.0)
    return np.asarray(center @ (found * np.outer(factors, factors)) @ center.T)


def _number(
    column: Numeric, mean: Vector, variance: float, *, whole: bool = True
) -> tuple[Vector, Matrix]:
    """Return the coherent mean of a number, with the variance or the block of its indicator.

    Parameters
    ----------
    column : Numeric
        Declaration of the column.

    mean : ndarray, shape (1,) or (2,)
        Mean of the encoded number. With the rule ``level``, also the share of missing cells.

    variance : float
        Variance of the encoded number.

    whole : bool, default True
        False if a row is the mean of a person's rows, so that a flag or a count can be a fraction.

    Returns
    -------
    mean : ndarray, shape (1,) or (2,)
        Coherent mean.

    block : ndarray, shape (1, 1) or (2, 2)
        Coherent covariance.

    """
    missing = float(np.clip(mean[1], 0.0, 1.0)) if len(mean) > 1 else 0.0
    own = float(np.clip(mean[0], missing - 1, 1 - missing))
    most = max(1 - missing - own * own, 0.0)  # a missing number is encoded as 0
    least = _least_variance(column, own) if whole else 0.0
    if column.missing == "level":  # missing and other cells alone have this variance
        binary = column.has_two_values and whole
        least = most if binary else own * own * missing / max(1 - missing, MIN_DIVISOR)
    least = min(least, most)
    variance = float(np.clip(variance, least, most))
    if len(mean) == 1:
        return np.array([own]), np.array([[variance]])
    cross = -own * missing
    block = np.array([[variance, cross], [cross, missing * (1 - missing)]])
    return np.array([own, missing]), block


def _least_variance(column: Numeric, mean: float) -> float:
    """Return the smallest variance of encoded whole numbers with this encoded mean.

    The result is 0 for other numbers, and for a rule that replaces missing cells by the midpoint.
    """
    whole = column.reading in ("whole", "flag") and column.lower.is_integer()
    if not whole or not column.upper.is_integer() or column.missing not in ("none", "pairwise"):
        return 0.0
    part = math.modf(abs(column.midpoint + column.half_range * mean))[0]
    return part * (1 - part) / column.half_range**2


def nearest_with_blocks(
    matrix: Matrix,
    blocks: Sequence[tuple[Integers, Matrix]],
    scale: Vector,
    bounds: tuple[Matrix, Matrix] | None = None,
) -> Matrix:
    """Approximate the nearest positive semidefinite matrix with given diagonal blocks.

    Dykstra's alternating projections come near the solution. A rotation of each
    block of a square root then makes the blocks exact.

    Parameters
    ----------
    matrix : ndarray, shape (p, p)
        Symmetric matrix.

    blocks : sequence of (positions, block)
        Positive semidefinite blocks, which cover all positions.

    scale : ndarray, shape (p,)
        Units of the rows. The distance is the Frobenius norm in these units.

    bounds : pair of ndarray, shape (p, p), optional
        Lower and upper bounds of the other entries. The result satisfies them approximately.

    Returns
    -------
    ndarray, shape (p, p)
        Positive semidefinite matrix with these blocks.

    """
    units = np.outer(scale, scale)
    inner = [(at, block / units[np.ix_(at, at)]) for at, block in blocks]
    low, high = (-np.inf, np.inf) if bounds is None else (bounds[0] / units, bounds[1] / units)
    start = near = _with_blocks(np.clip(matrix / units, low, high), inner)
    correction = np.zeros_like(near)
    for _ in range(MAX_ROUNDS if len(matrix) <= MAX_REPEATED_FEATURES else 1):
        values, vectors = np.linalg.eigh(near + correction)
        if not correction.any() and values[0] >= -ROUNDING_FRACTION * values[-1]:
            return near * units
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        inside = root @ root.T
        correction = near + correction - inside
        before, near = near, _with_blocks(np.clip(inside, low, high), inner)
        if np.linalg.norm(near - before) <= SETTLED_FRACTION * np.linalg.norm(near - start):
            break
    for at, block in inner:
        root[at] = _rows_near(root[at], block)
    return _with_blocks(root @ root.T, inner) * units


def _with_blocks(matrix: Matrix, blocks: Sequence[tuple[Integers, Matrix]]) -> Matrix:
    """Return a symmetric matrix with these blocks, and zeros beside a variance of 0."""
    found = (matrix + matrix.T) / 2
    for at, block in blocks:
        found[np.ix_(at, at)] = block
    constant = np.diag(found) <= 0
    found[constant] = found[:, constant] = 0.0
    return found


def _rows_near(rows: Matrix, block: Matrix) -> Matrix:
    """Return the rows W nearest to the given rows with W W' = block: Procrustes rotation."""
    values, vectors = np.linalg.eigh(block)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    left, _, right = np.linalg.svd(root @ rows, full_matrices=False)
    return np.asarray(root @ left @ right)
