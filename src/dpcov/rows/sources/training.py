"""Tables as scikit-learn's users hand them over, perhaps with targets and weights beside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dpcov.errors import EstimatorError
from dpcov.rows.schema import FileOptions
from dpcov.rows.sources import open_source
from dpcov.rows.sources.array import UNKNOWN_WIDTH, is_list
from dpcov.rows.sources.base import Source
from dpcov.rows.sources.quiet import quiet

TARGET, WEIGHT = "y", "weight"
UNREADABLE = "The training data can't be read: give a table of numbers, rows by columns."
WRONG = {
    (1,): "Sample weights must be 1D array or scalar, not {}D.",
    (1, 2): "The target must be 1D or 2D, not {}D.",
    (2,): "Expected 2D array, got {}D array instead. Reshape your data: rows by columns.",
}
NO_ARRAY = "Give an array, a data frame or a list: of other sequences only rows tell the shape."


class TrainingTable(Source):
    """A source, and what stands beside each of its rows as its last columns.

    Attributes
    ----------
    features, targets, weights : names of its columns, by what they are.

    """

    def __init__(
        self,
        source: Source,
        targets: Mapping[str, tuple[Source, str]],
        weights: Mapping[str, tuple[Source, str]],
    ) -> None:
        self._source = source
        self.kind = source.kind
        self.types: dict[str, pa.DataType] = dict(source.types)
        self.repeatable = source.repeatable
        self.costly = source.costly
        self.unfit: dict[str, str] = dict(source.unfit)
        self.features = source.names
        self._beside: dict[str, tuple[Source, str]] = {}
        self.targets = tuple(self._put_beside(*one) for one in targets.items())
        self.weights = tuple(self._put_beside(*one) for one in weights.items())
        self.names = self.features + self.targets + self.weights

    def _put_beside(self, name: str, column: tuple[Source, str]) -> str:
        """The name that a column of another source has here."""
        while name in self.types:
            name += "_"
        source, own = self._beside[name] = column
        self.types[name] = source.types[own]
        self.unfit |= {name: source.unfit[own]} if own in source.unfit else {}
        self.repeatable &= source.repeatable
        self.costly |= source.costly
        return name

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        whole = {name: self._whole(name) for name in columns if name in self._beside}
        others = [name for name in columns if name not in whole]
        at = 0
        for batch in self._source.batches(others):
            arrays = dict(zip(others, batch.columns, strict=True))
            arrays |= {name: column.slice(at, batch.num_rows) for name, column in whole.items()}
            at += batch.num_rows
            yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], list(columns))

    def _whole(self, name: str) -> pa.Array:
        source, own = self._beside[name]
        asked = type(name)(own)  # ids are asked for as such
        parts = [batch.column(0) for batch in source.batches([asked])]
        return pa.chunked_array(parts, self.types[name]).combine_chunks()


@quiet(UNREADABLE)
def training_table(
    data: Any,
    target: Any = None,
    names: tuple[str, ...] = (),
    *,
    targets: tuple[str, ...] = (),
    weights: Any = None,
) -> TrainingTable:
    """Open `data` with what there is beside; looks at types and shapes, at no row.

    Cells are read as in every other table, each by itself. The columns of a list are `names`, those
    of a list of targets `targets`; without, it has one. A row is one of `data` with its targets and
    its weight, so that how many there are of each tells of no row. A number is the weight of all.

    Raises
    ------
    EstimatorError : not a two-dimensional table of real numbers, or a target or weights of another
        length.

    """
    data = _shaped(data, (2,))
    source = _opened(data, names)
    if not source.names:
        raise EstimatorError("0 feature(s) while a minimum of 1 is required.")
    if isinstance(weights, int | float):
        weights = np.full(len(data), float(weights))
    return TrainingTable(
        source,
        _beside(data, target, (1, 2), "target", targets or (TARGET,)),
        _beside(data, weights, (1,), "weights", (WEIGHT,)),
    )


def _beside(
    data: Any, values: Any, dimensions: tuple[int, ...], what: str, names: tuple[str, ...]
) -> dict[str, tuple[Source, str]]:
    """Names for the columns of what stands beside the rows of `data`, and where they come from."""
    if values is None:
        return {}
    columns = _shaped(values, dimensions)
    if len(columns) != len(data):
        raise EstimatorError(f"The table and the {what} must have the same number of rows.")
    source = _opened(columns, names)
    if not source.names:
        raise EstimatorError("0 target(s) while a minimum of 1 is required.")
    if is_frame(values):
        names = source.names
    elif len(source.names) == 1:
        name = getattr(values, "name", None)
        names = (name,) if isinstance(name, str) and name else names
    elif not is_list(columns):
        names = tuple(f"{TARGET}{j}" for j in range(len(source.names)))
    return {name: (source, own) for name, own in zip(names, source.names, strict=True)}


def is_frame(data: Any) -> bool:
    """Whether a table has columns of its own."""
    tables = ("__arrow_c_stream__", "iloc")
    return hasattr(data, "columns") and any(hasattr(data, name) for name in tables)


def _shaped(data: Any, dimensions: tuple[int, ...]) -> Any:
    """A frame, a list, or an array of 2 dimensions; refuses by types and shapes alone.

    `dimensions` that an array may have; 1 make a column.
    """
    if 1 in dimensions and hasattr(data, "to_frame") and not is_frame(data):
        return data.to_frame()
    if isinstance(data, list | tuple) or (2 in dimensions and is_frame(data)):
        return data
    data = _array(data)
    if data.ndim not in dimensions and not is_list(data):
        raise EstimatorError(WRONG[dimensions].format(data.ndim))
    return data[:, None] if data.ndim == 1 and not is_list(data) else data


def _opened(data: Any, names: tuple[str, ...]) -> Source:
    """Of a list the columns are `names`."""
    if is_list(data) and not names:
        raise EstimatorError(UNKNOWN_WIDTH)
    return open_source(data, FileOptions(), names if is_list(data) else ())


def _array(data: Any) -> Any:
    """An array; refuses, by its type, what holds no real numbers."""
    if hasattr(data, "toarray") and not isinstance(data, np.ndarray):
        raise EstimatorError("Sparse data can't be used; give a dense array, as by toarray().")
    if not hasattr(data, "__array__"):
        raise EstimatorError(NO_ARRAY)
    data = np.asanyarray(data)
    if data.dtype.kind == "c":
        raise EstimatorError("Complex data not supported: give real numbers.")
    if data.dtype.kind not in "biufOSUT":
        raise EstimatorError(f"An array must hold real numbers, not {data.dtype}.")
    return data
