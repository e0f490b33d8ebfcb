"""Sampling errors of a second moment, from simulated rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpcov.denoise.projection import positive
from dpcov.estimate.pseudo_rows import pseudo_rows

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.rows.schema import Schema

# Number of pseudo-rows times d^2. Source: not recorded.
PSEUDO_ROW_ENTRIES = 5 * 10**5
# Smallest and largest number of pseudo-rows. Source: not recorded.
MIN_PSEUDO_ROWS, MAX_PSEUDO_ROWS = 1000, 5000
# Factor for the sampling errors. It allows for rows that are extreme in several columns at once.
# Source: tuned.
SAMPLING_ERROR_FACTOR = 1.1


def simulated_rows(
    schema: Schema,
    means: Vector,
    covariance: Matrix,
    pairs: Matrix | None,
    generator: np.random.Generator,
) -> Matrix:
    """Simulate encoded rows that stand for the private rows.

    Parameters
    ----------
    schema : Schema
        Schema with p variables and q features.

    means : ndarray, shape (p,)
        Means of the encoded variables.

    covariance : ndarray, shape (p, p)
        Positive semidefinite covariance of the encoded variables.

    pairs : ndarray, shape (p, p), or None
        Fractions of rows that have both of two variables. None if no cells can be missing.

    generator : numpy.random.Generator
        Random numbers for the rows.

    Returns
    -------
    ndarray, shape (m, q)
        Encoded features, which include the missingness indicators.

    """
    numeric = schema.encoded_columns
    low = np.array([-1.0 if one.name in numeric else 0.0 for one in schema.variables])
    means, q = np.clip(means, low, 1.0), len(schema.features)
    size = PSEUDO_ROW_ENTRIES // (q + 1) ** 2
    count = max(int(np.clip(size, MIN_PSEUDO_ROWS, MAX_PSEUDO_ROWS)), 4 * q)
    rows = means + pseudo_rows(means, covariance, low, count, generator)
    return rows if pairs is None else _with_missing_cells(schema, rows, pairs, generator)


def _with_missing_cells(
    schema: Schema, rows: Matrix, pairs: Matrix, generator: np.random.Generator
) -> Matrix:
    """Remove cells at random, as often as cells are missing in the release.

    Parameters
    ----------
    schema : Schema
        Schema with columns in which cells may be missing.

    rows : ndarray, shape (m, p)
        Encoded rows without missing cells.

    pairs : ndarray, shape (p, p)
        Fractions of rows that have both of two variables.

    generator : numpy.random.Generator
        Random numbers for the missing cells.

    Returns
    -------
    ndarray, shape (m, q)
        Encoded features, which include the missingness indicators.

    """
    shares = np.diag(pairs)
    together = positive(pairs - np.outer(shares, shares))
    zeros = np.zeros(len(shares))
    present = shares + pseudo_rows(shares, together, zeros, len(rows), generator)
    variables = {feature.column: j for j, feature in enumerate(schema.variables)}
    found, at = np.empty((len(rows), len(schema.features))), iter(range(len(shares)))
    for j, feature in enumerate(schema.features):
        if feature.variable:
            k = next(at)
            found[:, j] = rows[:, k] * present[:, k]
        else:
            found[:, j] = 1 - present[:, variables[feature.column]]
    return found


def weighted_errors(
    rows: Matrix, count: float, draws: int, generator: np.random.Generator
) -> Array:
    """Simulate sampling errors of the second moment of independent rows.

    An error is the sum of g w w' over simulated rows w, with normal weights g of mean 0. The rows
    are scaled so that the sum has the covariance of a sum over all rows of the table.

    Parameters
    ----------
    rows : ndarray, shape (m, d)
        Simulated encoded rows with their intercept.

    count : float
        Number of rows of the table.

    draws : int
        Number of errors.

    generator : numpy.random.Generator
        Random numbers for the weights.

    Returns
    -------
    ndarray, shape (draws, d, d)
        Sampling errors in squared units of an encoded row.

    """
    rows = rows * (count / len(rows)) ** 0.25
    weights = generator.standard_normal((draws, len(rows)))
    weights -= weights.mean(axis=1, keepdims=True)
    weights *= SAMPLING_ERROR_FACTOR
    d = rows.shape[1]
    errors = np.empty((draws, d, d))
    for j in range(d):
        products = weights @ (rows[:, : j + 1] * rows[:, [j]])
        errors[:, j, : j + 1] = errors[:, : j + 1, j] = products
    return errors
