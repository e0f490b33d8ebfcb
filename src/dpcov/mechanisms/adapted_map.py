"""Map of the last round of `standardized`, adapted to columns with heavy tails.

Clipping at one radius takes most from the columns with the heaviest tails. A larger radius would
add noise to all columns. The adapted map instead shrinks each heavy column by a factor of its own,
so that its long rows are within the radius. Only the results of this column get more noise.

Let u_j be the direction of column j under the map A, and let f_j be the factor of the column, at
most 1. The *reach* of a column is the squared norm up to which rows along the column are not
clipped: the squared radius divided by f_j^2. The adapted map is

    (I + sum_j (f_j^-2 - 1) u_j u_j')^(-1/2) A.

It whitens the rows as if column j varied more by the factor f_j^-2 along u_j. To divide the columns
of A by numbers would break the cancellations between collinear columns.

Everything here is computed from published counts and from noise distributions.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpcov.mechanisms.row_transform import RowTransform
from dpcov.published.column_tails import MIN_FACTOR, SplitHistogram
from dpcov.rows.long_rows import ColumnCells
from dpcov.rows.moment import UNITS

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers, Vector
    from dpcov.core.samplers import MatrixLaw
    from dpcov.published.norm_histogram import NormHistogram
    from dpcov.rows.schema import Schema

# "Tuned" means: set on the part `tune` of benchmarks/tables.toml and on other tables with outliers,
# flags and common factors.

# Long rows have more than this multiple of the typical squared norm. Source: tuned.
MIN_LONG_ROW_SQUARE = 4.0
# Error of an entry for each unit of the squared norm that clipping takes along a column. A larger
# weight gives more noise and smaller clipping losses. Source: tuned.
COLUMN_LOSS_WEIGHT = 0.15


def column_cells(images: RowTransform) -> ColumnCells | None:
    """Return the cells of long rows, or None if the bounds of the columns allow no long rows."""
    octaves = math.floor(
        2 * math.log2(images.longest / images.typical) - math.log2(MIN_LONG_ROW_SQUARE)
    )
    if octaves < 1:
        return None
    squares = images.longest**2 * 2.0 ** -np.arange(octaves, 0.0, -1.0)
    return ColumnCells.along(images.map.matrix(), tuple(np.sqrt(squares).tolist()))


def split(rest: NormHistogram, cells: ColumnCells, counts: Integers) -> SplitHistogram:
    """Return the histogram of the noisy counts, with a factor of 1 for each column.

    Parameters
    ----------
    rest : NormHistogram
        Noisy counts of the rows that are in no cell.

    cells : ColumnCells
        Cells of the other rows.

    counts : ndarray of int, shape (number of cells,)
        Noisy counts of the rows in the cells.

    Returns
    -------
    SplitHistogram

    """
    by_column = tuple(map(tuple, counts.reshape(len(cells.directions), -1).tolist()))
    factors = (1.0,) * len(by_column)
    return SplitHistogram(rest.upper_ends, rest.counts, rest.noise, by_column, factors)


def with_factors(
    histogram: SplitHistogram, radius: float, law: MatrixLaw, squares: Vector
) -> SplitHistogram:
    """Return the histogram with the factor of each column that has the smallest predicted error.

    The error has two parts: the noise of an entry, which grows with the squared reach, and the
    expected loss along the column, times `COLUMN_LOSS_WEIGHT`.

    Parameters
    ----------
    histogram : SplitHistogram
        Histogram whose factors are 1.

    radius : float
        Clipping radius.

    law : MatrixLaw
        Noise distribution of the last round.

    squares : ndarray, shape (q,)
        Candidate squared reaches.

    Returns
    -------
    SplitHistogram

    """
    least = radius**2
    further = squares[(squares > least) & (squares <= least / MIN_FACTOR**2)]
    reaches = np.append(least, np.sort(further))
    noise = math.sqrt(law.diagonal_variance) / UNITS**2 * reaches
    factors = np.sqrt(least / reaches)
    losses = COLUMN_LOSS_WEIGHT * histogram.expected_losses(radius, factors)
    best = factors[np.argmin(np.hypot(noise, losses), axis=1)]
    return replace(histogram, factors=tuple(best.tolist()))


def adapted(images: RowTransform, histogram: SplitHistogram, schema: Schema) -> RowTransform:
    """Return the transformation that shrinks each column by its factor.

    Parameters
    ----------
    images : RowTransform
        Transformation of the counted rows.

    histogram : SplitHistogram
        Counts, with the factor of each column.

    schema : Schema
        Schema of the table.

    Returns
    -------
    RowTransform

    """
    factors = np.array(histogram.factors)
    if np.all(factors == 1):
        return images
    matrix = images.map.matrix()
    if images.map.units is not None:
        shrunk = factors[:, None] * matrix  # exactly diagonal
    else:
        along = matrix / np.linalg.norm(matrix, axis=0)
        inflated = np.eye(len(along)) + (along * (factors**-2.0 - 1)) @ along.T
        values, vectors = np.linalg.eigh(inflated)
        shrunk = (vectors / np.sqrt(values)) @ vectors.T @ matrix
    reached = RowTransform.reached(shrunk, images.map.center, schema)
    return RowTransform(*reached, min(images.typical, reached[1]), images.count)
