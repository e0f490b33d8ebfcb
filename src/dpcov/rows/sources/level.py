"""The rows of a source that meet public tests: conditions, or a level of a categorical column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from dpcov.errors import SourceError
from dpcov.rows.cells import as_dictionary, codes_of
from dpcov.rows.schema import Categorical
from dpcov.rows.sources.base import Source, Wrapper

if TYPE_CHECKING:
    from dpcov.core.arrays import Booleans


class RowTest(Protocol):
    """A test that a row meets or not by its own cells alone, in some columns."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    def keep(self, batch: pa.RecordBatch) -> Booleans: ...


@dataclass(frozen=True, slots=True)
class Level:
    """The level number `code` of `column.labels`, in the column `name`.

    Rows with a value that was not declared have none, unless `column` has a level for them.
    """

    name: str
    column: Categorical
    code: int
    missing: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.name,)

    def keep(self, batch: pa.RecordBatch) -> Booleans:
        """Which rows have it."""
        return codes_of(batch.column(self.name), self.column, self.missing) == self.code


class FilteredSource(Wrapper):
    """The rows of `source` that meet a test; the tests of a filtered source are joined by `and`."""

    def __init__(self, source: Source, test: RowTest) -> None:
        before = source.tests if isinstance(source, FilteredSource) else ()
        super().__init__(source.source if isinstance(source, FilteredSource) else source)
        self.tests: tuple[RowTest, ...] = (*before, test)
        self.types = {name: filterable(pa.nulls(0, kind)).type for name, kind in self.types.items()}
        for name in test.columns:
            if (count := self.names.count(name)) != 1:
                which = "more than one" if count else "no"
                raise SourceError(f"The data has {which} column {name!r}, which a condition names.")

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in self.source.batches(with_tested(columns, self.tests)):
            yield filtered(batch, self.tests, columns)


def with_tested(columns: Sequence[str], tests: Sequence[RowTest]) -> list[str]:
    """These columns, and what must be read beside them for the tests."""
    return list(dict.fromkeys([*columns, *(name for test in tests for name in test.columns)]))


def filtered(
    batch: pa.RecordBatch, tests: Sequence[RowTest], columns: Sequence[str]
) -> pa.RecordBatch:
    """These columns of the rows that meet all tests."""
    kept = np.ones(batch.num_rows, bool)
    for test in tests:
        kept &= test.keep(batch)
    if not isinstance(batch, pa.RecordBatch):  # of a private copy, which has no Arrow types
        return batch.filter(kept).select(list(columns))
    found = [filterable(batch.column(name)) for name in columns]
    return pa.RecordBatch.from_arrays(found, list(columns)).filter(pa.array(kept))


def filterable(values: pa.Array) -> pa.Array:
    """The same cells in a type that Arrow can filter: views and runs it can't."""
    found = as_dictionary(values)
    return found if pa.types.is_dictionary(found.type) else values
