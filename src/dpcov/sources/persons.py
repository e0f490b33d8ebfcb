"""Which rows of each person count, decided from that person's rows alone.

Of a person with more than `max_rows` rows those with the smallest hash of their integer
image count: a rule that does not depend on the order of the file nor on anybody else.

Persons are told apart part by part, a person's rows being in one part, so that memory does not grow
with their number: beyond a fixed size the parts, and two numbers for each row, are on disk.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcov.cells import cells, distinct, is_missing
from dpcov.encoder import Encoder
from dpcov.errors import SourceError
from dpcov.schema import Schema
from dpcov.sources.spill import IN_MEMORY, Spill, private_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHANGED = (
    "The data changed between its two readings, which a person unit needs. Give a file or a table "
    "in memory. If a ledger was set, the reserved budget stays spent."
)


PARTS = 64
_STORED = pa.schema([("id", pa.large_binary()), ("hash", pa.uint64()), ("row", pa.int64())])


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
        self._marks = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115  closed with self
        stored, rows = Spill(_STORED, PARTS), 0
        for batch in batches:
            ids, marks = identified(batch.column(self._column), self._missing)
            self._marks.write(marks.tobytes())
            hashes = [np.empty(0, np.uint64), *map(content_hash, encoder.blocks(batch))]
            numbers = np.arange(rows, rows + batch.num_rows)
            rows += batch.num_rows
            columns = [ids, pa.array(np.concatenate(hashes)), pa.array(numbers)]
            stored.add(pa.RecordBatch.from_arrays(columns, schema=_STORED), marks % PARTS)
        self._marks.seek(0)
        self._persons = private_array((rows,), np.int64)
        self.count = 0
        for table in stored.tables():
            self._number(table, schema.unit.max_rows)
        self._at = 0

    def __del__(self) -> None:
        if hasattr(self, "_marks"):
            self._marks.close()

    def next(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Person of each row of the second pass's next batch, or -1 where it does not count.

        Surplus rows and rows without an id do not count. A second pass whose persons are not
        those of the first (a query that is run again may shuffle its rows) is refused.
        """
        here = slice(self._at, self._at + batch.num_rows)
        self._at += batch.num_rows
        _, marks = identified(batch.column(self._column), self._missing)
        if self._marks.read(marks.nbytes) != marks.tobytes():
            raise SourceError(CHANGED)
        return np.array(self._persons[here])

    def finish(self) -> None:
        """Check that the second pass was as long as the first."""
        if self._at != len(self._persons):
            raise SourceError(CHANGED)

    def _number(self, table: pa.Table, max_rows: int) -> None:
        """Number the persons of a part, and mark their rows that do not count."""
        encoded = table["id"].combine_chunks().dictionary_encode()
        persons = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        counts = persons >= 0
        counts[_surplus(persons, table["hash"].to_numpy(), max_rows)] = False
        self._persons[table["row"].to_numpy()] = np.where(counts, persons + self.count, -1)
        self.count += len(encoded.dictionary)


def identified(column: pa.Array, missing: tuple[str, ...]) -> tuple[pa.Array, NDArray[np.int64]]:
    """Each row's id as bytes, null where it is missing, and a keyed hash of it."""
    parts = distinct(column)
    ids, at = (column, None) if parts is None else parts
    ids = cells(ids, missing)
    absent = is_missing(ids, missing)
    encoded = pc.if_else(pa.array(absent), None, ids).dictionary_encode()
    known = [*map(_bytes, _values(encoded.dictionary)), None]
    here = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    if at is not None:
        here = np.append(here, -1)[at]
    here = here % len(known)
    marks = np.array([0 if word is None else hash(word) for word in known], np.int64)
    return pa.array(known, pa.large_binary()).take(pa.array(here)), marks[here]


def _values(ids: pa.Array) -> list[object]:
    if pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type):
        ids = ids.cast(pa.large_binary())  # texts from a file may be no valid UTF-8
    values: list[object] = ids.to_pylist()
    return values


def _bytes(value: object) -> bytes:
    """An id of at most 33 bytes for each value: itself, or of a long one a hash and a mark."""
    if isinstance(value, float):
        value += 0.0  # -0.0 is 0.0
    word = value if isinstance(value, bytes) else str(value).encode()
    return word if len(word) <= 32 else hashlib.sha256(word).digest() + b"+"


def content_hash(block: NDArray[np.float64]) -> NDArray[np.uint64]:
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
