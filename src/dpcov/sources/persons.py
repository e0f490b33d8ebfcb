"""Which rows of each person count, decided from that person's rows alone.

Of a person with more than `max_rows` rows those with the smallest hash of their integer image
count: a rule that does not depend on the order of the file nor on anybody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpcov.sources.hashes import content_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.encoder import Encoder
    from dpcov.sources.kept import Batch


def counted(
    batch: Batch, persons: NDArray[np.int64], encoder: Encoder, max_rows: int
) -> NDArray[np.bool_]:
    """Which rows of a batch count; it holds all rows of each of its `persons`."""
    hashes = [np.empty(0, np.uint64), *map(content_hash, encoder.blocks(batch))]
    counts = np.ones(len(persons), np.bool_)
    counts[_surplus(persons, np.concatenate(hashes), max_rows)] = False
    return counts


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
