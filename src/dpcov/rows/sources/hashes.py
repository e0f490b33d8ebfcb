"""Hashes of integer rows, which select the rows of a person and identify parts of a table.

If a person has more than `max_rows` rows, dpcov keeps the rows with the smallest hashes. This rule
depends neither on the order of the file nor on other persons.
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
    """Return True for each row that counts.

    Parameters
    ----------
    batch : Batch
        All rows of some persons.

    persons : ndarray of int64, shape (n,)
        Number of the person of each row.

    encoder : Encoder
        Encoder of the rows.

    max_rows : int
        Maximum number of rows per person.

    Returns
    -------
    ndarray of bool, shape (n,)

    """
    hashes = [np.empty(0, np.uint64), *map(content_hash, encoder.blocks(batch))]
    counts = np.ones(len(persons), np.bool_)
    counts[_surplus(persons, np.concatenate(hashes), max_rows)] = False
    return counts


def _surplus(persons: Integers, hashes: NDArray[np.uint64], max_rows: int) -> Integers:
    """Return the positions of the rows beyond `max_rows` per person, in hash order."""
    order = np.lexsort((hashes, persons))
    sorted_persons = persons[order]
    starts = np.flatnonzero(np.r_[True, sorted_persons[1:] != sorted_persons[:-1]])
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    return order[rank >= max_rows]


# Odd 64-bit multipliers of the hash: the golden ratio times 2^64, and a prime of xxHash64.
_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))


def content_hash(block: Matrix, factor: np.uint64 = _FACTORS[0]) -> NDArray[np.uint64]:
    """Compute a 64-bit hash of each integer row.

    Parameters
    ----------
    block : ndarray of float64, shape (d, m)
        Integer rows, one per column of the array.
    factor : uint64
        Multiplier of the hash.

    Returns
    -------
    ndarray of uint64, shape (m,)

    """
    total = np.zeros(block.shape[1], np.uint64)
    for row in block:
        total ^= row.astype(np.int64).view(np.uint64)
        total *= factor
        total ^= total >> np.uint64(29)
    return total


class HashedSum:
    """Second moment, and a hash of the multiset of its rows.

    The hash is the sum of two hashes of each row. It detects a part that was summed twice by
    accident. The hash has no key, so it protects no data.

    Parameters
    ----------
    dimension : int
        Order d of the second moment.
    factor : int
        Factor of the intercept.

    """

    def __init__(self, dimension: int, factor: int = 1) -> None:
        self._moment = Accumulator(dimension, factor)
        self._hashes = np.zeros(2, np.uint64)

    def add(self, block: Matrix) -> None:
        """Add the rows of an integer block of shape (d, m)."""
        self._hashes += np.array([content_hash(block, f).sum(dtype=np.uint64) for f in _FACTORS])
        self._moment.add(block)

    def merge(self, other: HashedSum) -> None:
        """Add another sum."""
        self._hashes += other._hashes
        self._moment.merge(other._moment)

    def packed(self) -> Integers:
        """Return integers that can be added to the integers of other sums."""
        return np.concatenate([self._hashes.view(np.int64), self._moment.packed()])

    def add_packed(self, integers: Integers) -> None:
        """Add a sum of `packed` integers."""
        self._hashes += np.ascontiguousarray(integers[:2]).view(np.uint64)
        self._moment.add_packed(integers[2:])

    def total(self) -> tuple[NDArray[np.object_], str]:
        """Return the sum as Python integers of shape (d, d), and the hash in hexadecimal digits."""
        return self._moment.total(), self._hashes.tobytes().hex()
