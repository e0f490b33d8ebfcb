"""Means of a person's rows, as integers on the lattice of the schema.

dpcov encodes each row of a person on the lattice of the schema, in steps of 2^-20 of a half-range.
It adds the integers of the rows exactly, and divides once for each person. The rule of the division
is fixed: nearest integer, and the even one of two equally near integers. The means of a person
depend neither on the order of the rows nor on blocks, threads or the data source. The proof is in
docs/proofs/persons.md 7.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.rows.cells import batch_rows
from dpcov.rows.encoder import Columns
from dpcov.rows.moment import UNITS
from dpcov.rows.schema import Categorical, Derived, Numeric

if TYPE_CHECKING:
    from dpcov.core.arrays import Booleans, Integers
    from dpcov.rows.encoder import Encoded
    from dpcov.rows.schema import Schema


def stored_column(column: Categorical) -> Categorical:
    """Return a declaration whose codes separate missing cells from undeclared values.

    With the rules ``zeros`` and ``none``, both cells have no indicator. Missing cells get the code
    after the last level. This code has no indicator either.
    """
    if column.absent >= 0:
        return column
    return column.model_copy(update={"missing": "level"})


class PersonSums:
    """Exact sums of the encoded rows of some persons.

    Parameters
    ----------
    schema : Schema
        Declared columns.

    persons : int
        Number of persons.

    """

    def __init__(self, schema: Schema, persons: int) -> None:
        self._schema = schema
        features = len(schema.features)
        self._columns = Columns(schema, np.full(features, float(UNITS)))
        self._chunk = batch_rows(features + 1)
        self._sums: Integers = np.zeros((persons, features), np.int64)
        self._present = {name: np.zeros(persons, np.int64) for name in schema.encoded_columns}

    def add(self, batch: Any, persons: Integers) -> None:
        """Add rows of these persons.

        Parameters
        ----------
        batch : Batch
            Converted cells of n rows.

        persons : ndarray of int64, shape (n,)
            Number of the person of each row.

        """
        encoded = self._columns.encode(batch)
        for start in range(0, batch.num_rows, self._chunk):
            here = slice(start, start + self._chunk)
            self._add(encoded.part(here), persons[here])
        for name, column in self._schema.encoded_columns.items():
            valid = self._valid(name, column, batch)
            owners = persons if valid is None else persons[valid]
            self._present[name] += np.bincount(owners, minlength=len(self._sums))

    def _add(self, encoded: Encoded, persons: Integers) -> None:
        """Add encoded rows; a sum of at most 2^22 integers is exact in float64."""
        rows = np.empty((self._sums.shape[1] + 1, len(persons)))
        self._columns.write(encoded, rows)
        order = np.argsort(persons, kind="stable")
        owners = persons[order]
        starts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
        sums = np.add.reduceat(rows[:-1, order], starts, axis=1)
        self._sums[owners[starts]] += sums.T.astype(np.int64)

    def _valid(self, name: str, column: Numeric | Categorical, batch: Any) -> Booleans | None:
        """Return True for each cell that counts; None if every cell counts."""
        if isinstance(column, Categorical):
            stored = stored_column(column)
            return None if column.missing == "other" else batch.column(name) != stored.absent
        if column.missing == "midpoint":
            return None
        parents = column.formula.parents if isinstance(column, Derived) else (name,)
        return reduce(np.logical_and, (~np.isnan(batch.column(one)) for one in parents))

    def means(self) -> Integers:
        """Return the mean row of each person.

        Returns
        -------
        ndarray of int64, shape (persons, p)
            Means in steps of 2^-20 of a half-range. If all cells of a column are missing, the mean
            is the encoding of a missing cell. The levels of a column add up to at most 2^20 steps,
            and to exactly 2^20 steps if every cell has a level.

        """
        found: Integers = np.zeros(self._sums.shape, np.int64)
        at = 0
        for name, column in self._schema.encoded_columns.items():
            present = self._present[name]
            if isinstance(column, Categorical):
                stop = at + len(column.labels)
                levels = slice(at, stop - (column.missing == "level"))
                until = divided(np.cumsum(self._sums[:, levels], axis=1), present[:, None])
                found[:, levels] = np.diff(until, axis=1, prepend=0)
                has_indicator = column.missing == "level"
            else:
                stop = at + 1 + column.has_indicator
                found[:, at] = divided(self._sums[:, at], present)
                has_indicator = column.has_indicator
            if has_indicator:
                found[:, stop - 1] = UNITS * (present == 0)
            at = stop
        return found


def divided(sums: Integers, counts: Integers) -> Integers:
    """Divide integers and round to the nearest integer, or to the even one of two.

    Parameters
    ----------
    sums : ndarray of int64
        Dividends, with absolute values below 2^62.

    counts : ndarray of int64, of a shape that fits
        Divisors of at least 0; the quotient for 0 is 0.

    Returns
    -------
    ndarray of int64

    """
    divisors = np.maximum(counts, 1)
    whole, rest = np.divmod(sums, divisors)
    up = (2 * rest > divisors) | ((2 * rest == divisors) & (whole % 2 == 1))
    return np.where(counts > 0, whole + up, 0)
