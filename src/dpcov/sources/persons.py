"""Which rows of each person count, decided from that person's rows alone.

Of a person with more than `max_rows` rows those with the smallest hash of their integer
image count: a rule that does not depend on the order of the file nor on anybody else. Memory is one
number per row and one entry per person.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcov.encoder import Encoder, cells, distinct, is_missing
from dpcov.errors import SourceError
from dpcov.schema import Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHANGED = (
    "The data changed between its two readings, which a person unit needs. Give a file or a table "
    "in memory. If a ledger was set, the reserved budget stays spent."
)


class Persons:
    """First pass over a table with a person unit.

    Attributes
    ----------
    count : number of persons.

    """

    def __init__(self, schema: Schema, encoder: Encoder, batches: Iterable[pa.RecordBatch]) -> None:
        if schema.unit is None:
            raise ValueError("the schema has no person unit")
        self._column = schema.unit.column
        self._missing = schema.missing
        self._numbers: dict[object, int] = {}
        persons, hashes = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
        for batch in batches:
            persons.append(self._numbered(batch))
            hashes += [_content_hash(block) for block in encoder.blocks(batch)]
        self.count = len(self._numbers)
        self._persons = np.concatenate(persons)
        self._counts = self._persons >= 0
        self._counts[_surplus(self._persons, np.concatenate(hashes), schema.unit.max_rows)] = False
        self._at = 0

    def next(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Person of each row of the second pass's next batch, or -1 where it does not count.

        Surplus rows and rows without an id do not count. A second pass whose persons are not
        those of the first (a query that is run again may shuffle its rows) is refused.
        """
        here = slice(self._at, self._at + batch.num_rows)
        self._at += batch.num_rows
        if not np.array_equal(self._numbered(batch), self._persons[here]):
            raise SourceError(CHANGED)
        return np.where(self._counts[here], self._persons[here], -1)

    def finish(self) -> None:
        """Check that the second pass was as long as the first."""
        if self._at != len(self._persons):
            raise SourceError(CHANGED)

    def _numbered(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Number of each row's person; -1 for a missing id."""
        column = batch.column(self._column)
        if (parts := distinct(column)) is not None:
            here: NDArray[np.int64] = np.append(self._numbers_of(parts[0]), -1)[parts[1]]
            return here
        return self._numbers_of(column)

    def _numbers_of(self, column: pa.Array) -> NDArray[np.int64]:
        """Numbers of these ids, new ones in order of first appearance."""
        ids = cells(column, self._missing)
        absent = is_missing(ids, self._missing)
        if pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type):
            ids = ids.cast(pa.large_binary())  # texts from a file may be no valid UTF-8
        encoded = pc.if_else(pa.array(absent), None, ids).dictionary_encode()
        known = encoded.dictionary.to_pylist()
        numbers = [
            -1 if value is None else self._numbers.setdefault(value, len(self._numbers))
            for value in known
        ]
        order = np.array([*numbers, -1], np.int64)
        at = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        found: NDArray[np.int64] = order[at]
        return found


def _content_hash(block: NDArray[np.float64]) -> NDArray[np.uint64]:
    """64-bit hash of each integer row (a column of the block)."""
    total = np.zeros(block.shape[1], np.uint64)
    for row in block:
        total ^= row.astype(np.int64).view(np.uint64)
        total *= np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(29)
    return total


def _surplus(
    persons: NDArray[np.int64], hashes: NDArray[np.uint64], max_rows: int
) -> NDArray[np.int64]:
    """Positions of rows beyond the first `max_rows` of each person, in order of their hash."""
    order = np.lexsort((hashes, persons))
    sorted_persons = persons[order]
    starts = np.flatnonzero(np.r_[True, sorted_persons[1:] != sorted_persons[:-1]])
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    result: NDArray[np.int64] = order[rank >= max_rows]
    return result
