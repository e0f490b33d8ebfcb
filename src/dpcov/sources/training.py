"""Tables as scikit-learn's users hand them over, perhaps with a target beside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcov.errors import EstimatorError
from dpcov.schema import FileOptions, Kind
from dpcov.sources import open_source
from dpcov.sources.quiet import quiet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.sources.base import Source

TARGET = "y"
UNREADABLE = "The training data can't be read: give a table of numbers, rows by columns."


class TrainingTable:
    """A source with the target, if there is one, as its last column."""

    def __init__(self, source: Source, target: NDArray[np.float64] | None, name: str) -> None:
        self._source = source
        self._target = target
        while name in source.names:
            name += "_"
        self._name = name
        self.names = source.names if target is None else (*source.names, name)
        self.rereadable = source.rereadable
        self.unfit = source.unfit

    def kinds(self) -> dict[str, Kind]:
        kinds = self._source.kinds()
        return kinds if self._target is None else kinds | {self._name: "numeric"}

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if self._target is None:
            yield from self._source.batches(columns)
            return
        at = 0
        for batch in self._source.batches([name for name in columns if name != self._name]):
            here = pa.array(self._target[at : at + batch.num_rows])
            at += batch.num_rows
            arrays = dict(zip(batch.schema.names, batch.columns, strict=True)) | {self._name: here}
            yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], list(columns))


@quiet(UNREADABLE)
def training_table(data: Any, target: Any = None) -> TrainingTable:
    """Open `data`, and `target` if there is one; looks at names, types and lengths.

    Cells of an array of objects are numbers or, each by itself, missing.

    Raises
    ------
    EstimatorError : not a two-dimensional table of real numbers, or a target of another length.

    """
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "iloc"):
        source = open_source(data, FileOptions(), ())
        length = len(data)
    else:
        array = numbers(data)
        if array.ndim != 2:
            raise EstimatorError(
                f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: rows by "
                "columns."
            )
        source, length = open_source(array, FileOptions(), ()), len(array)
    if not source.names:
        raise EstimatorError("0 feature(s) while a minimum of 1 is required.")
    if target is None:
        return TrainingTable(source, None, TARGET)
    values = numbers(target)
    if values.ndim != 1:
        raise EstimatorError(f"The target must be 1D, not {values.ndim}D.")
    if len(values) != length:
        raise EstimatorError("The table and the target must have the same number of rows.")
    name = getattr(target, "name", None)
    return TrainingTable(source, values, name if isinstance(name, str) and name else TARGET)


def numbers(data: Any) -> NDArray[np.float64]:
    """An array-like as float64; of objects or texts, each cell that is no number becomes NaN."""
    if hasattr(data, "toarray") and not isinstance(data, np.ndarray):
        raise EstimatorError("Sparse data can't be used; give a dense array, as by toarray().")
    if isinstance(data, np.ma.MaskedArray):  # masked means missing
        data = np.ma.filled(data.astype(np.float64), np.nan)
    array = np.asarray(data)
    if array.dtype.kind == "c":
        raise EstimatorError("Complex data not supported: give real numbers.")
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    if array.dtype.kind not in "OSUT":
        raise EstimatorError(f"An array must hold real numbers, not {array.dtype}.")
    cells = [_number(cell) for cell in array.ravel().tolist()]
    return np.array(cells, np.float64).reshape(array.shape)


def _number(cell: object) -> float:
    try:
        return float(cell)  # type: ignore[arg-type]
    except Exception:
        return np.nan
