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
    """A test that a row meets or not by its own cell of one column."""

    @property
    def column(self) -> str: ...

    def keep(self, values: pa.Array) -> Booleans: ...


@dataclass(frozen=True, slots=True)
class Level:
    """The level number `code` of `declared.labels`, in a column.

    Cells with a value that was not declared have none, unless there is a level for them.
    """

    column: str
    declared: Categorical
    code: int
    missing: tuple[str, ...]

    def keep(self, values: pa.Array) -> Booleans:
        """Which cells have it."""
        return codes_of(values, self.declared, self.missing) == self.code


class FilteredSource(Wrapper):
    """The rows of `source` that meet all tests, also those of a source that is filtered already."""

    def __init__(self, source: Source, *tests: RowTest) -> None:
        before = source.tests if isinstance(source, FilteredSource) else ()
        super().__init__(source.source if isinstance(source, FilteredSource) else source)
        self.tests: tuple[RowTest, ...] = (*before, *tests)
        self.types = {name: filterable(pa.nulls(0, kind)).type for name, kind in self.types.items()}
        for name in (test.column for test in tests):
            if (count := self.names.count(name)) != 1:
                which = "more than one" if count else "no"
                raise SourceError(f"The data has {which} column {name!r}, which a condition names.")

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in self.source.batches(with_tested(columns, self.tests)):
            yield filtered(batch, self.tests, columns)


def with_tested(columns: Sequence[str], tests: Sequence[RowTest]) -> list[str]:
    """These columns, and what must be read beside them for the tests."""
    return list(dict.fromkeys([*columns, *(test.column for test in tests)]))


def filtered(
    batch: pa.RecordBatch, tests: Sequence[RowTest], columns: Sequence[str]
) -> pa.RecordBatch:
    """These columns of the rows that meet all tests."""
    kept = np.ones(batch.num_rows, bool)
    for test in tests:
        kept &= test.keep(batch.column(test.column))
    if not isinstance(batch, pa.RecordBatch):  # of a private copy, which has no Arrow types
        return batch.filter(kept).select(list(columns))
    found = [filterable(batch.column(name)) for name in columns]
    return pa.RecordBatch.from_arrays(found, list(columns)).filter(pa.array(kept))


def filterable(values: pa.Array) -> pa.Array:
    """The same cells in a type that Arrow can filter: views and runs it can't."""
    found = as_dictionary(values)
    return found if pa.types.is_dictionary(found.type) else values
