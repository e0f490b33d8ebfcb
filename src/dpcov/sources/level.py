"""The rows of a source that have one level of a categorical column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from dpcov.encoder import codes_of
from dpcov.schema import Categorical, Kind
from dpcov.sources.base import MeasuredSource

if TYPE_CHECKING:
    from dpcov.sources.base import Source


class LevelSource:
    """Rows whose cell in the column `name` is the level number `code` of `column.labels`.

    Whether a row is among them is told by that cell alone. Rows with a value that was not declared
    are in no level, unless `column` has one for them.
    """

    def __init__(
        self, source: Source, name: str, column: Categorical, code: int, missing: tuple[str, ...]
    ) -> None:
        self._source = source
        self._name = name
        self._column = column
        self._code = code
        self._missing = missing
        self.names = source.names
        self.rereadable = source.rereadable
        self.unfit = source.unfit

    @property
    def share(self) -> float:
        return self._source.share if isinstance(self._source, MeasuredSource) else 0.0

    def kinds(self) -> dict[str, Kind]:
        return self._source.kinds()

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        read = list(dict.fromkeys([*columns, self._name]))
        for batch in self._source.batches(read):
            codes = codes_of(batch.column(self._name), self._column, self._missing)
            yield batch.filter(pa.array(codes == self._code)).select(list(columns))
