"""Filtered sources: the rows that meet conditions, or that have a level of a categorical column."""

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
    """Test of a row by its own cell of one column."""

    @property
    def column(self) -> str:
        """Name of the column."""

    def keep(self, values: pa.Array) -> Booleans:
        """Return True for each cell that meets the test."""


@dataclass(frozen=True, slots=True)
class Level:
    """Test for one level of a categorical column.

    Attributes
    ----------
    column : str
        Name of the column.

    declared : Categorical
        Declaration of the column.

    code : int
        Position of the level in `declared.labels`.

    missing : tuple of str
        Texts that mean a missing value.

    """

    column: str
    declared: Categorical
    code: int
    missing: tuple[str, ...]

    def keep(self, values: pa.Array) -> Booleans:
        """Return True for each cell that has the level."""
        return codes_of(values, self.declared, self.missing) == self.code


class FilteredSource(Wrapper):
    """Source of the rows that meet all tests, including the tests of an already filtered source.

    Parameters
    ----------
    source : Source
        Table.
    *tests : RowTest
        Tests.

    """

    def __init__(self, source: Source, *tests: RowTest) -> None:
        before = source.tests if isinstance(source, FilteredSource) else ()
        super().__init__(source.source if isinstance(source, FilteredSource) else source)
        self.tests: tuple[RowTest, ...] = (*before, *tests)
        self.types = {name: filterable(pa.nulls(0, kind)).type for name, kind in self.types.items()}
        for name in (test.column for test in tests):
            if (count := self.names.count(name)) != 1:
                which = "more than one" if count else "no"
                raise SourceError(
                    f"The data has {which} column {name!r}, but a condition uses it. Change the "
                    "condition or rename the columns."
                )

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the given columns of the rows that meet all tests."""
        for batch in self.source.batches(with_tested(columns, self.tests)):
            yield filtered(batch, self.tests, columns)


def with_tested(columns: Sequence[str], tests: Sequence[RowTest]) -> list[str]:
    """Return the given columns and the columns of the tests."""
    return list(dict.fromkeys([*columns, *(test.column for test in tests)]))


def filtered(
    batch: pa.RecordBatch, tests: Sequence[RowTest], columns: Sequence[str]
) -> pa.RecordBatch:
    """Return the given columns of the rows that meet all tests."""
    kept = np.ones(batch.num_rows, bool)
    for test in tests:
        kept &= test.keep(batch.column(test.column))
    if not isinstance(batch, pa.RecordBatch):  # a batch of a private copy
        return batch.filter(kept).select(list(columns))
    found = [filterable(batch.column(name)) for name in columns]
    return pa.RecordBatch.from_arrays(found, list(columns)).filter(pa.array(kept))


def filterable(values: pa.Array) -> pa.Array:
    """Convert views and runs to a type that Arrow can filter."""
    found = as_dictionary(values)
    return found if pa.types.is_dictionary(found.type) else values
