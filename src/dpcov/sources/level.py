"""The rows of a source that have one level of a categorical column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from dpcov.cells import codes_of
from dpcov.schema import Categorical, Kind
from dpcov.sources.base import MeasuredSource

if TYPE_CHECKING:
    from dpcov.sources.base import Source


@dataclass(frozen=True, slots=True)
class Level:
    """The level number `code` of `column.labels`, in the column `name`.

    Whether a row has it is told by that cell alone. Rows with a value that was not declared have
    none, unless `column` has a level for them.
    """

    name: str
    column: Categorical
    code: int
    missing: tuple[str, ...]

    def rows(self, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        """These columns of the rows that have it."""
        codes = codes_of(batch.column(self.name), self.column, self.missing)
        return batch.filter(pa.array(codes == self.code)).select(list(columns))


class LevelSource:
    """The rows of `source` that have `level`."""

    def __init__(self, source: Source, level: Level) -> None:
        self.source = source
        self.level = level
        self.names = source.names
        self.rereadable = source.rereadable
        self.unfit = source.unfit

    @property
    def share(self) -> float:
        return self.source.share if isinstance(self.source, MeasuredSource) else 0.0

    def kinds(self) -> dict[str, Kind]:
        return self.source.kinds()

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        read = list(dict.fromkeys([*columns, self.level.name]))
        for batch in self.source.batches(read):
            yield self.level.rows(batch, columns)
