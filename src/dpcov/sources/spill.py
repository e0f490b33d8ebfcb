"""Private temporary storage: on disk once it is large, readable by nobody else, gone at exit.

Files have no name (or lose it at once), so that nothing is left even after a crash; their folder is
the system's for temporary files (TMPDIR).
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

IN_MEMORY = 2**26  # bytes that are kept in memory


def private_array(shape: tuple[int, ...], kind: type[Any]) -> NDArray[Any]:
    """An array of zeros; a large one is a mapped file."""
    size = math.prod(shape) * np.dtype(kind).itemsize
    if size <= IN_MEMORY:
        return np.zeros(shape, kind)
    with tempfile.TemporaryFile() as file:
        file.truncate(size)
        return np.memmap(file, kind, "r+", shape=shape)


class Spill:
    """Batches of rows in `parts` parts, each of which can be read alone.

    Parameters
    ----------
    schema : of the batches.
    parts : number of parts; the memory that is needed to read is that of one.

    """

    def __init__(self, schema: pa.Schema, parts: int) -> None:
        self._schema = schema
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115  closed with self
        self._places: list[list[tuple[int, int]]] = [[] for _ in range(parts)]

    def __del__(self) -> None:
        self._file.close()

    def add(self, batch: pa.RecordBatch, part_of_row: NDArray[np.int64]) -> None:
        """Put each row of a batch in its part."""
        order = np.argsort(part_of_row, kind="stable")
        sorted_rows = batch.take(pa.array(order))
        ends = np.searchsorted(part_of_row[order], np.arange(len(self._places) + 1))
        for part in np.flatnonzero(np.diff(ends)).tolist():
            rows = sorted_rows.slice(ends[part], ends[part + 1] - ends[part])
            content = rows.serialize()
            self._places[part].append((self._file.tell(), content.size))
            self._file.write(content)

    def tables(self) -> Iterator[pa.Table]:
        """The rows of one part after the other, in the order in which they came."""
        for places in self._places:
            batches = []
            for start, size in places:
                self._file.seek(start)
                content = pa.py_buffer(self._file.read(size))
                batches.append(pa.ipc.read_record_batch(content, self._schema))
            yield pa.Table.from_batches(batches, self._schema)
