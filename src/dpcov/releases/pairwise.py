"""Moments of the rows that are there, where cells may be missing (docs/proofs/missing.md).

A cell of a column with `missing` = ``pairwise`` is encoded as (x, u) = (x, 0), a missing one as
(0, 1). So a second moment tells of each pair of columns how many rows have both, what x sums to in
them, and their products: available-case means and covariances. `completed` puts these into the
second moment that as many rows without a gap would have, which is all that analyses ever see.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.samplers.weighted import WeightedSum

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Booleans, Integers, Matrix
    from dpcov.releases import Release
    from dpcov.rows.schema import Schema

LEAST = 0.1  # of the rows that a pair has if its gaps are independent, that it is taken to have
CLEAR = 5.0  # deviations of its noise that a number of rows is above; tails are those of Laplace
SMALL = 1e-3  # of an error, for what it does to first order
NAMED = 5  # columns, before the rest is counted


def has_gaps(schema: Schema) -> bool:
    """Whether cells of some columns may be missing from means and covariances."""
    return bool(schema.gaps)


def completed(schema: Schema, moments: Array, t: float, *, least: float | None = None) -> Array:
    """(..., p + 1, p + 1) second moments that rows without gaps would have, of p variables.

    Their mean and covariance are the available-case ones, their number is that of all rows.

    Parameters
    ----------
    schema : of the rows.
    moments : (..., d, d) of encoded rows with the intercept `t`.
    least : number of rows that a variable is taken to have at least; one that has not as many is
        taken not to vary. Default, what noise has left no row for is NaN.

    """
    if not has_gaps(schema):
        return moments
    rows, sums, products = _pairs(schema, moments, t)
    n, p = moments[..., -1:, -1:] / t**2, len(schema.variables)
    few = np.zeros(p, bool)
    if least is not None:
        few = _diagonal(rows) < least
        own = np.maximum(_diagonal(rows), least)
        alone = own[..., :, None] * own[..., None, :] / np.maximum(n, 1.0)
        rows = np.maximum(rows, LEAST * alone)
        rows[..., *_places(p)] = own
    else:
        rows = np.where(rows > 0, rows, np.nan)
    means = _diagonal(sums) / _diagonal(rows)
    covariances = (products - sums * np.swapaxes(sums, -1, -2) / rows) / rows
    covariances = np.where(few[..., :, None] | few[..., None, :], 0.0, covariances)
    whole = np.empty((*moments.shape[:-2], p + 1, p + 1))
    whole[..., :-1, :-1] = n * (covariances + means[..., :, None] * means[..., None, :])
    whole[..., :-1, -1] = whole[..., -1, :-1] = t * n[..., 0] * means
    whole[..., -1:, -1:] = n * t**2
    return whole


def _pairs(schema: Schema, moments: Array, t: float) -> tuple[Array, Array, Array]:
    """(..., p, p) rows that have i and j, sums of i over rows that have j, products of both."""
    at = np.array([j for j, feature in enumerate(schema.features) if feature.variable])
    gaps = np.array([schema.gaps.get(j, -1) for j in at.tolist()])
    has = gaps >= 0
    # Sums of u are there twice, as it is its own square; noise has half the variance off the
    # diagonal.
    squares = np.where(has, moments[..., gaps, gaps], 0.0)
    missing = np.where(has, moments[..., gaps, -1] / t, 0.0)
    missing = (squares + 2 * t**2 * missing) / (1 + 2 * t**2)
    both = np.where(has[:, None] & has, moments[..., gaps[:, None], gaps], 0.0)
    rows = moments[..., -1:, -1:] / t**2 - missing[..., :, None] - missing[..., None, :] + both
    rows[..., *_places(len(at))] = moments[..., -1, -1][..., None] / t**2 - missing
    found = moments[..., at, -1][..., :, None] / t
    sums = found - np.where(has, moments[..., at[:, None], gaps], 0.0)
    sums[..., *_places(len(at))] = found[..., 0]
    return rows, sums, moments[..., at[:, None], at]


def rows_of_pairs(schema: Schema, moment: Array, t: float) -> Array:
    """(..., p, p) numbers of rows that have both of two variables, as noise left them."""
    return _pairs(schema, moment, t)[0]


def _diagonal(matrices: Array) -> Array:
    return np.diagonal(matrices, axis1=-2, axis2=-1)


def _places(order: int) -> tuple[Integers, Integers]:
    """Of the diagonal of a matrix."""
    return np.arange(order), np.arange(order)


def proper(covariance: Matrix) -> Matrix:
    """Return a valid covariance of encoded variables near one that combines different rows.

    Variances are at most 1; of their correlations eigenvalues below 0 are set to 0.
    """
    variances = np.diag(covariance)
    flat = variances <= 0
    roots = np.sqrt(np.where(flat, 1.0, variances))
    correlation = np.clip(covariance / np.outer(roots, roots), -1.0, 1.0)
    correlation[flat] = correlation[:, flat] = 0.0
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    if values[0] < 0:
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        root /= np.linalg.norm(root, axis=1, keepdims=True)
        correlation = root @ root.T
    roots = np.where(flat, 0.0, np.minimum(roots, 1.0))
    return np.asarray(correlation * np.outer(roots, roots))


def rows_by_pair(release: Release) -> Matrix:
    """(p, p) numbers of rows that have both of two variables; on the diagonal, of one."""
    p, n = len(release.columns), release.count()
    if not has_gaps(release.schema):
        return np.full((p, p), n)
    moment, t = release.second_moment().copy(), release.intercept()
    moment[-1, -1] = n * t**2
    return np.asarray(np.clip(_pairs(release.schema, moment, t)[0], 0.0, n))


def least_rows(release: Release) -> float:
    """Return the largest number of rows with a variable that noise alone could show.

    By its law; of moments by length of rows, by that of the length with the least of it.
    """
    law = release.noise
    if law is None:
        return 1.0
    variance = law.diagonal_variance
    if isinstance(law, WeightedSum):
        parts = zip(law.weights, law.terms, strict=True)
        variance = min(weight**2 * term.diagonal_variance for weight, term in parts)
    spreads = [1 / release.intercept() ** 2]
    if release.linear_map is not None:  # a gap's mark is that of mapped rows, back in its own unit
        marks = np.linalg.inv(release.linear_map)[list(release.schema.gaps.values())]
        spreads += np.sum(marks**2, axis=1).tolist()
    return max(1.0, CLEAR * math.sqrt(variance) * release.lattice.step**2 * max(spreads))


def hidden(release: Release) -> Booleans:
    """(p,) whether fewer rows have a variable than noise alone could show."""
    if not has_gaps(release.schema):
        return np.zeros(len(release.columns), bool)
    return np.asarray(np.diag(rows_by_pair(release)) < least_rows(release))


def fewest_rows(release: Release, at: list[int] | None = None) -> float:
    """Return the smallest number of rows with any two of these variables; default, of all.

    With complete columns, that of all rows.
    """
    rows = rows_by_pair(release)
    return float((rows if at is None else rows[np.ix_(at, at)]).min())


def moved(release: Release, errors: Array) -> Array:
    """(..., p + 1, p + 1) what errors of a second moment do to the `completed`, to first order."""
    if not has_gaps(release.schema):
        return errors
    schema, t, moment = release.schema, release.intercept(), release.second_moment()
    least = least_rows(release)
    about = completed(schema, moment, t, least=least)
    return (completed(schema, moment + SMALL * errors, t, least=least) - about) / SMALL


def missing_shares(release: Release) -> dict[str, float]:
    """Share of the rows in which a column is missing, of columns where that is told."""
    if not has_gaps(release.schema) or release.not_released is not None:
        return {}
    rows, count = np.diag(rows_by_pair(release)), max(release.count(), 1.0)
    shares = dict(zip(release.columns, (1 - rows / count).tolist(), strict=True))
    names = [release.schema.features[j].name for j in release.schema.gaps]
    return {name: shares[name] for name in names}


def assumed(release: Release) -> tuple[str, ...]:
    """Return a sentence about missing cells; none if cells cannot be missing."""
    if not has_gaps(release.schema) or release.not_released is not None:
        return ()
    shares = sorted(missing_shares(release).items(), key=lambda it: -it[1])
    named = ", ".join(f"{name} {share:.1%}" for name, share in shares[:NAMED])
    more = f" and {len(shares) - NAMED} more columns" if len(shares) > NAMED else ""
    return (
        "Missing cells are taken to be missing completely at random, and each figure is about the "
        f"rows that have what it needs. Missing: {named}{more}.",
    )
