"""NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcov.errors import SourceError
from dpcov.schema import Kind
from dpcov.sources.base import batch_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ArraySource:
    """An (n, d) array of numbers; columns are named by the schema, in order."""

    rereadable = True

    def __init__(self, data: Any, declared: tuple[str, ...]) -> None:
        self.unfit: dict[str, str] = {}
        array: NDArray[Any] = np.asarray(data)
        if array.ndim != 2:
            raise SourceError(f"An array needs 2 dimensions (rows, columns), not {array.ndim}.")
        if array.dtype.kind not in "biuf":
            raise SourceError(f"An array must hold real numbers, not {array.dtype}.")
        self.names = declared or tuple(f"x{j}" for j in range(array.shape[1]))
        if len(self.names) != array.shape[1]:
            raise SourceError(
                f"The schema declares {len(self.names)} columns, the array has {array.shape[1]}."
            )
        if isinstance(data, np.ma.MaskedArray):  # masked means missing
            array = np.ma.filled(data.astype(np.float64), np.nan)
        self._array = array

    def kinds(self) -> dict[str, Kind]:
        return dict.fromkeys(self.names, "numeric")

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        at = [self.names.index(name) for name in columns]
        size = batch_rows(len(at))
        for start in range(0, len(self._array), size):
            part = self._array[start : start + size]
            arrays = [pa.array(np.ascontiguousarray(part[:, j], np.float64)) for j in at]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
