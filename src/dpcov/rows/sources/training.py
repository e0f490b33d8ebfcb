"""Training tables of scikit-learn estimators: features, optional targets and optional weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dpcov.errors import EstimatorError
from dpcov.rows.schema import FileOptions
from dpcov.rows.sources import open_source
from dpcov.rows.sources.array import UNKNOWN_WIDTH_MESSAGE, is_list
from dpcov.rows.sources.base import Source
from dpcov.rows.sources.quiet import quiet

TARGET_COLUMN, WEIGHT_COLUMN = "y", "weight"
UNREADABLE_TRAINING_DATA = (
    "dpcov cannot read the training data. Pass a table of numbers with rows and columns."
)
DIMENSION_MESSAGES = {
    (1,): "Sample weights must be 1D array or scalar, not {}D.",
    (1, 2): "The target must be 1D or 2D, not {}D. Reshape the target.",
    (2,): "Expected 2D array, got {}D array instead. Reshape your data: rows by columns.",
}
NO_ARRAY_MESSAGE = (
    "dpcov cannot use this kind of sequence, because its shape depends on its rows. Pass an "
    "array, a data frame or a list."
)


class TrainingTable(Source):
    """Source whose last columns are the targets and the weights of each row.

    Parameters
    ----------
    source : Source
        Features.
    targets, weights : mapping of str to (Source, str)
        Source and column of each target, and of the weights.

    Attributes
    ----------
    features, targets, weights : tuple of str
        Names of the columns.

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
        self.row_count = source.row_count
        self.unfit: dict[str, str] = dict(source.unfit)
        self.features = source.names
        self._beside: dict[str, tuple[Source, str]] = {}
        self.targets = tuple(self._put_beside(*one) for one in targets.items())
        self.weights = tuple(self._put_beside(*one) for one in weights.items())
        self.names = self.features + self.targets + self.weights

    def _put_beside(self, name: str, column: tuple[Source, str]) -> str:
        """Add a column of another source and return its name in this table."""
        while name in self.types:
            name += "_"
        source, own = self._beside[name] = column
        self.types[name] = source.types[own]
        self.unfit |= {name: source.unfit[own]} if own in source.unfit else {}
        self.repeatable &= source.repeatable
        self.costly |= source.costly
        return name

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the given columns as Arrow batches."""
        whole = {name: self._whole(name) for name in columns if name in self._beside}
        others = [name for name in columns if name not in whole]
        at = 0
        for batch in self._source.batches(others):
            arrays = dict(zip(others, batch.columns, strict=True))
            arrays |= {name: column.slice(at, batch.num_rows) for name, column in whole.items()}
            at += batch.num_rows
            yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], list(columns))

    def _whole(self, name: str) -> pa.Array:
        """Return a whole column of another source."""
        source, own = self._beside[name]
        asked = type(name)(own)  # keeps `IdColumn`
        parts = [batch.column(0) for batch in source.batches([asked])]
        return pa.chunked_array(parts, self.types[name]).combine_chunks()


@quiet(UNREADABLE_TRAINING_DATA)
def training_table(
    data: Any,
    target: Any = None,
    names: tuple[str, ...] = (),
    *,
    targets: tuple[str, ...] = (),
    weights: Any = None,
) -> TrainingTable:
    """Open a training table; the function reads types and shapes, but no row.

    Cells are read as in every other table, each on its own. A row consists of a row of `data`, its
    targets and its weight. The numbers of targets and weights therefore reveal nothing about the
    rows.

    Parameters
    ----------
    data : array_like or data frame, shape (n, p)
        Features.

    target : array_like or data frame, shape (n,) or (n, q), optional
        Targets.

    names : tuple of str
        Names of the features, if `data` is a list.

    targets : tuple of str
        Names of the targets, if `target` is a list; by default one target.

    weights : array_like of shape (n,), or float, optional
        Weight of each row, or of all rows.

    Returns
    -------
    TrainingTable

    Raises
    ------
    EstimatorError
        The data is not a two-dimensional table of real numbers, or the lengths differ.

    """
    data = _shaped(data, (2,))
    source = _opened(data, names)
    if not source.names:
        raise EstimatorError("0 feature(s) while a minimum of 1 is required.")
    if isinstance(weights, int | float):
        weights = np.full(len(data), float(weights))
    return TrainingTable(
        source,
        _beside(data, target, (1, 2), "target", targets or (TARGET_COLUMN,)),
        _beside(data, weights, (1,), "weights", (WEIGHT_COLUMN,)),
    )


def _beside(
    data: Any, values: Any, dimensions: tuple[int, ...], what: str, names: tuple[str, ...]
) -> dict[str, tuple[Source, str]]:
    """Return the name, source and column of each target or weight."""
    if values is None:
        return {}
    columns = _shaped(values, dimensions)
    if len(columns) != len(data):
        raise EstimatorError(
            f"The table and the {what} must have the same number of rows. Remove the additional "
            "rows."
        )
    source = _opened(columns, names)
    if not source.names:
        raise EstimatorError("0 target(s) while a minimum of 1 is required.")
    if is_frame(values):
        names = source.names
    elif len(source.names) == 1:
        name = getattr(values, "name", None)
        names = (name,) if isinstance(name, str) and name else names
    elif not is_list(columns):
        names = tuple(f"{TARGET_COLUMN}{j}" for j in range(len(source.names)))
    return {name: (source, own) for name, own in zip(names, source.names, strict=True)}


def is_frame(data: Any) -> bool:
    """Return True if the data is a table with named columns."""
    tables = ("__arrow_c_stream__", "iloc")
    return hasattr(data, "columns") and any(hasattr(data, name) for name in tables)


def _shaped(data: Any, dimensions: tuple[int, ...]) -> Any:
    """Return a frame, a list, or an array with 2 dimensions, from types and shapes alone.

    Parameters
    ----------
    data : object
        Table.
    dimensions : tuple of int
        Allowed numbers of dimensions of an array. An array with one dimension becomes a column.

    Returns
    -------
    object

    """
    if 1 in dimensions and hasattr(data, "to_frame") and not is_frame(data):
        return data.to_frame()
    if isinstance(data, list | tuple) or (2 in dimensions and is_frame(data)):
        return data
    data = _array(data)
    if data.ndim not in dimensions and not is_list(data):
        raise EstimatorError(DIMENSION_MESSAGES[dimensions].format(data.ndim))
    return data[:, None] if data.ndim == 1 and not is_list(data) else data


def _opened(data: Any, names: tuple[str, ...]) -> Source:
    """Open a table; `names` are the columns of a list."""
    if is_list(data) and not names:
        raise EstimatorError(UNKNOWN_WIDTH_MESSAGE)
    return open_source(data, FileOptions(), names if is_list(data) else ())


def _array(data: Any) -> Any:
    """Return an array; refuse a type that contains no real numbers."""
    if hasattr(data, "toarray") and not isinstance(data, np.ndarray):
        raise EstimatorError(
            "dpcov cannot use sparse data. Pass a dense array, for example data.toarray()."
        )
    if not hasattr(data, "__array__"):
        raise EstimatorError(NO_ARRAY_MESSAGE)
    data = np.asanyarray(data)
    if data.dtype.kind == "c":
        raise EstimatorError("Complex data not supported. Pass real numbers.")
    if data.dtype.kind not in "biufOSUT":
        raise EstimatorError(
            f"The array has the type {data.dtype}, but dpcov needs real numbers. Convert the "
            "array to numbers."
        )
    return data
