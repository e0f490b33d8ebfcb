"""Means and covariances that a table of the schema can have.

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

The covariances also stay near the bounds of Frechet, which follow from the means: two rare flags
cannot have a large negative correlation.

The function depends on the release and on the schema alone, so it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpcov.denoise.projection import simplex_offsets
from dpcov.rows.schema import Categorical, Numeric

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers, Matrix, Vector
    from dpcov.core.show.table import Cell, Row
    from dpcov.rows.schema import Schema

# Largest negative eigenvalue that counts as a rounding error, as a fraction of the largest one.
ROUNDING_FRACTION = 1e-14
# Largest number of alternating projections. A matrix with more than MAX_REPEATED_FEATURES features
# gets one projection, because each one costs a decomposition.
MAX_ROUNDS = 10
MAX_REPEATED_FEATURES = 300  # Features. Source: not recorded.
SETTLED_FRACTION = 1e-3  # Largest change of the last projection, as a fraction of all changes.
MIN_DIVISOR = 1e-300  # Smallest divisor.
OTHER_LABEL = "(other or missing)"
MIN_FULL_SUM = 1 - 1e-12  # Smallest sum of shares that leaves no row without a level.
# Largest number of steps of `nearest_table`. The function stops earlier if the error of each row
# sum is at most `MARGIN_ERROR_FRACTION` times the total.
MAX_TABLE_STEPS, MARGIN_ERROR_FRACTION = 500, 1e-12


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
            mean[at] = _shares(mean[at], noise[at] ** 2, full=column.is_full)
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


def with_other(schema: Schema, mean: Vector, rows: Sequence[Row], *, deviation: int) -> list[Row]:
    """Add a row for the cells without a level, after the levels of a column.

    A column whose levels add up to 1 gets no row.

    Parameters
    ----------
    schema : Schema
        Declaration of the columns.

    mean : ndarray, shape (p,)
        Means of the variables.

    rows : sequence of Row, length p
        Table row of each variable, which starts with the mean.

    deviation : int
        Position of the standard deviation in a row.

    Returns
    -------
    list of Row
        Rows with the shares and the standard deviations of the other cells.

    """
    found = list(rows)
    for name, column in reversed(schema.encoded_columns.items()):
        at = [j for j, one in enumerate(schema.variables) if one.column == name]
        share = 1 - float(mean[at].sum())
        if isinstance(column, Categorical) and share > 1 - MIN_FULL_SUM:
            cells: list[Cell] = [None] * len(rows[0][1])
            cells[0] = share
            if not schema.person_means:  # otherwise the deviation does not follow from the share
                cells[deviation] = math.sqrt(share * (1 - share))
            found.insert(at[-1] + 1, (f"{name}={OTHER_LABEL}", cells))
    return found


def nearest_shares(counts: Vector, total: float) -> Vector:
    """Return the nearest counts that are at least 0 and have the given total.

    Parameters
    ----------
    counts : ndarray, shape (k,)
        Estimated counts.

    total : float
        Total of at least 0.

    Returns
    -------
    ndarray, shape (k,)
        Counts.

    """
    if total <= 0:
        return np.zeros(len(counts))
    return total * _shares(counts / total, np.ones(len(counts)), full=True)


def nearest_table(counts: Matrix, rows: Vector, columns: Vector) -> Matrix:
    """Return the nearest contingency table with the given margins and no negative entry.

    Parameters
    ----------
    counts : ndarray, shape (k, l)
        Estimated counts.

    rows : ndarray, shape (k,)
        Sums of the rows, of at least 0.

    columns : ndarray, shape (l,)
        Sums of the columns, of at least 0, with the same total.

    Returns
    -------
    ndarray, shape (k, l)
        Table with the smallest sum of squared changes.

    Notes
    -----
    The solution is max(counts + u_i + v_j, 0). Each step first changes u until the rows have their
    sums. It then changes v until the columns have their sums. This is coordinate ascent on the dual
    problem. It converges because the dual is concave and differentiable. At the end, the rounding
    of Altschuler, Weed and Rigollet (2017, algorithm 2) makes the margins exact.

    """
    total = float(rows.sum())
    if total <= 0:
        return np.zeros_like(counts)
    moved = np.asarray(counts, np.float64)
    found = moved
    for _ in range(MAX_TABLE_STEPS):
        moved = moved - simplex_offsets(moved, rows)[:, None]
        moved = moved - simplex_offsets(moved.T, columns)
        found = np.maximum(moved, 0.0)
        if np.abs(found.sum(axis=1) - rows).max() <= MARGIN_ERROR_FRACTION * total:
            break
    found = found * _factors(found.sum(axis=1), rows)[:, None]
    found = found * _factors(found.sum(axis=0), columns)
    lacking = (
        np.maximum(rows - found.sum(axis=1), 0.0),
        np.maximum(columns - found.sum(axis=0), 0.0),
    )
    return found + np.outer(*lacking) / max(float(lacking[0].sum()), MIN_DIVISOR)


def _factors(sums: Vector, largest: Vector) -> Vector:
    """Return factors of at most 1, so that no sum is above its largest value."""
    return np.minimum(largest / np.maximum(sums, MIN_DIVISOR), 1.0)


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


def _shares(shares: Vector, variances: Vector, *, full: bool) -> Vector:
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
        is_flag = column.reading == "flag" and whole
        least = most if is_flag else own * own * missing / max(1 - missing, MIN_DIVISOR)
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
