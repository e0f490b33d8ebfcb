"""Hashes of integer rows: to order a person's rows, and to know a part of a table again.

Of a person with more than `max_rows` rows those with the smallest hash of their integer image
count: a rule that does not depend on the order of the file nor on anybody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpcov.rows.moment import Accumulator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Booleans, Integers, Matrix
    from dpcov.rows.encoder import Encoder
    from dpcov.rows.sources.kept import Batch


def counted(batch: Batch, persons: Integers, encoder: Encoder, max_rows: int) -> Booleans:
    """Which rows of a batch count; it holds all rows of each of its `persons`."""
    hashes = [np.empty(0, np.uint64), *map(content_hash, encoder.blocks(batch))]
    counts = np.ones(len(persons), np.bool_)
    counts[_surplus(persons, np.concatenate(hashes), max_rows)] = False
    return counts


def _surplus(persons: Integers, hashes: NDArray[np.uint64], max_rows: int) -> Integers:
    """Positions of rows beyond the first `max_rows` of each person, in order of their hash."""
    order = np.lexsort((hashes, persons))
    sorted_persons = persons[order]
    starts = np.flatnonzero(np.r_[True, sorted_persons[1:] != sorted_persons[:-1]])
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    return order[rank >= max_rows]


_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))


def content_hash(block: Matrix, factor: np.uint64 = _FACTORS[0]) -> NDArray[np.uint64]:
    """64-bit hash of each integer row (a column of the block)."""
    total = np.zeros(block.shape[1], np.uint64)
    for row in block:
        total ^= row.astype(np.int64).view(np.uint64)
        total *= factor
        total ^= total >> np.uint64(29)
    return total


class HashedSum:
    """A second moment, and a hash of the multiset of its rows: the sum of two hashes of each.

    The hash finds a part that was summed twice by accident; it has no key, and protects nobody.
    """

    def __init__(self, dimension: int, factor: int = 1) -> None:
        self._moment = Accumulator(dimension, factor)
        self._hashes = np.zeros(2, np.uint64)

    def add(self, block: Matrix) -> None:
        """Add the rows of a (d, m) block."""
        self._hashes += np.array([content_hash(block, f).sum(dtype=np.uint64) for f in _FACTORS])
        self._moment.add(block)

    def merge(self, other: HashedSum) -> None:
        """Add another sum to this one."""
        self._hashes += other._hashes
        self._moment.merge(other._moment)

    def packed(self) -> Integers:
        """Integers that may be added to those of others."""
        return np.concatenate([self._hashes.view(np.int64), self._moment.packed()])

    def add_packed(self, integers: Integers) -> None:
        """Add a sum of `packed` integers to this one."""
        self._hashes += np.ascontiguousarray(integers[:2]).view(np.uint64)
        self._moment.add_packed(integers[2:])

    def total(self) -> tuple[NDArray[np.object_], str]:
        """(d, d) integers, and the hash in hexadecimal digits."""
        return self._moment.total(), self._hashes.tobytes().hex()
