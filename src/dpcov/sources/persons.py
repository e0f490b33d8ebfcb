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

from dpcov.encoder import Encoder, cells
from dpcov.schema import Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Persons:
    """First pass over a table with a person unit.

    Attributes
    ----------
    count : number of persons.
    chosen : for each row, in order, its person's number, or -1 where the row does not count
        (surplus rows, rows without an id).

    """

    def __init__(self, schema: Schema, encoder: Encoder, batches: Iterable[pa.RecordBatch]) -> None:
        if schema.unit is None:
            raise ValueError("the schema has no person unit")
        numbers: dict[object, int] = {}
        persons, hashes = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
        for batch in batches:
            ids = cells(batch.column(schema.unit.column), schema.missing)
            persons.append(_numbered(ids, numbers))
            hashes += [_content_hash(block) for block in encoder.blocks(batch)]
        self.count = len(numbers)
        self.chosen = np.concatenate(persons)
        surplus = _surplus(self.chosen, np.concatenate(hashes), schema.unit.max_rows)
        self.chosen[surplus] = -1


def _numbered(ids: pa.Array, numbers: dict[object, int]) -> NDArray[np.int64]:
    """Number of each id, in order of first appearance; -1 for a missing id."""
    absent = ids.is_null(nan_is_null=True)
    encoded = pc.if_else(absent, None, ids).dictionary_encode()
    known = [numbers.setdefault(value, len(numbers)) for value in encoded.dictionary.to_pylist()]
    order = np.array([*known, -1], np.int64)
    found: NDArray[np.int64] = order[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
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
