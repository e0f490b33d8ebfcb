"""Exact assignment of long rows to the column along which they lie.

A transformed row z of integers lies *along* column j if more than `MIN_SQUARED_COSINE` of its
squared norm is in the direction of that column. Let u be the direction in integers. The condition
is b (u'z)^2 > a |u|^2 |z|^2 for `MIN_SQUARED_COSINE` = a / b.

The decision uses integers only, so it depends on this row alone. Rounding errors that depend on
the other rows of a block could move several rows if one row changes (docs/proofs/long-rows.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpcov.errors import MechanismError
from dpcov.rows.moment import UNITS

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers, Matrix

# Smallest squared cosine between a row and the direction of its column. At 1/2 or less, a row could
# lie along two orthogonal columns.
MIN_SQUARED_COSINE = Fraction(1, 2)
# Steps per unit in the integer directions. With 2^10 steps, all numbers of the condition are below
# 2^63 for up to 2^20 features (docs/proofs/long-rows.md).
DIRECTION_STEPS = 2**10


@dataclass(frozen=True, slots=True)
class ColumnCells:
    """Public cells of long rows: by the column along which a row lies, and by norm.

    Attributes
    ----------
    directions : ndarray of float64, shape (c, p)
        Direction of each column among the transformed features, in integers.

    edges : tuple of float, length k
        Lower ends of the cells as norms, in ascending order. The last cell has no upper end. Rows
        up to the first edge are in no cell.

    """

    directions: Matrix
    edges: tuple[float, ...]

    @classmethod
    def along(cls, matrix: Matrix, edges: tuple[float, ...]) -> ColumnCells:
        """Return the cells for the columns of a linear map.

        Parameters
        ----------
        matrix : ndarray, shape (p, c)
            Matrix A of the map. Column j of the table has the direction A e_j.

        edges : tuple of float, length k
            Lower ends of the cells, as norms.

        Returns
        -------
        ColumnCells

        """
        units = matrix / np.maximum(np.linalg.norm(matrix, axis=0), np.finfo(np.float64).tiny)
        return cls(np.rint(units.T * DIRECTION_STEPS), edges)

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self.directions) * len(self.edges)

    def of(self, rows: Matrix, squares: Matrix, limits: Matrix) -> tuple[Integers, Integers]:
        """Return the cells of the rows that lie along a column.

        Parameters
        ----------
        rows : ndarray of float64, shape (p, m)
            Integers. Each row has a norm of at most 2^20.

        squares : ndarray of float64, shape (m,)
            Squared norms of the rows.

        limits : ndarray of float64, shape (k,)
            Lower ends of the cells, as squared norms.

        Returns
        -------
        which : ndarray of int64, shape (n,)
            Positions of the rows that are in a cell.

        cells : ndarray of int64, shape (n,)
            Their cells. The k cells of a column are in sequence.

        """
        far = np.flatnonzero(squares > limits[0])
        # Each sum of products is an integer below 2^53, so it is exact in every order.
        products = np.abs(self.directions @ rows[:, far])
        column = products.argmax(axis=0)  # the first of equal products
        along = products[column, np.arange(len(far))].astype(np.int64)
        lengths = np.sum(self.directions**2, axis=1).astype(np.int64)[column]
        norms = squares[far].astype(np.int64)
        share = MIN_SQUARED_COSINE
        own = share.denominator * along**2 > share.numerator * lengths * norms
        place = np.searchsorted(limits, squares[far], side="left") - 1
        return far[own], (column * len(limits) + place)[own]


def require_exact(side: int) -> None:
    """Raise an error if rows are too long in lattice steps for exact decisions."""
    if side > UNITS:
        raise MechanismError(
            "To count long rows by column, the radius must have at most 2^20 steps. Pass a radius "
            "to the query."
        )
