"""Tables of shares and counts that agree with their margins."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpcov.denoise.projection import simplex_offsets
from dpcov.denoise.structure import MIN_DIVISOR, MIN_FULL_SUM, proper_shares
from dpcov.rows.schema import Categorical

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcov.core.arrays import Matrix, Vector
    from dpcov.core.show.table import Cell, Row
    from dpcov.rows.schema import Schema

OTHER_LABEL = "(other or missing)"
# Largest number of steps of `nearest_table`. The function stops earlier if the error of each row
# sum is at most `MARGIN_ERROR_FRACTION` times the total.
MAX_TABLE_STEPS, MARGIN_ERROR_FRACTION = 500, 1e-12


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
            # The deviation of a mean of a person does not follow from the share. A share without
            # denoising can be above 1.
            if not schema.person_means and share <= 1:
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
    return total * proper_shares(counts / total, np.ones(len(counts)), full=True)


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
