"""Data sources. `open_rows` is the only way from data to the rest of the library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dpcov.core.files import require_readable
from dpcov.core.printable import printable, shown
from dpcov.core.spelling import asked
from dpcov.errors import SourceError
from dpcov.rows.schema import FileOptions, Schema, number_codes
from dpcov.rows.sources.array import ArraySource, ObjectSource
from dpcov.rows.sources.arrow import ArrowSource, ParquetSource, PolarsSource, is_polars
from dpcov.rows.sources.base import FixedRows, Source, Stripped, holds_sums
from dpcov.rows.sources.conditions import Conditions, rows_meeting
from dpcov.rows.sources.duckdb import DuckdbSource
from dpcov.rows.sources.frame import FrameSource
from dpcov.rows.sources.postgres import PostgresSource
from dpcov.rows.sources.quiet import quiet
from dpcov.rows.sources.readstat import READERS, ReadstatSource
from dpcov.rows.sources.rows import Rows
from dpcov.rows.sources.spark import SparkRows, SparkSource, is_frame, is_spark
from dpcov.rows.sources.sql import (
    LINK_PREFIX,
    NO_TABLE_MESSAGE,
    POSTGRES_PREFIXES,
    UNKNOWN_DATABASE_MESSAGE,
    DatabaseTable,
    database_kind,
)
from dpcov.rows.sources.sqlite import SqliteSource
from dpcov.rows.sources.stata import StataSource
from dpcov.rows.sources.text import STANDARD_INPUT, TextSource
from dpcov.rows.sources.workbook import WorkbookSource

PARQUET_ENDINGS = (".parquet", ".pq")
STATA_ENDING = ".dta"
WORKBOOK_ENDINGS = (".xlsx", ".xlsm")
UNKNOWN_DATA_MESSAGE = (
    "dpcov cannot read this kind of data. Pass the path of a file (CSV, Parquet, Excel, Stata, "
    "SPSS, SAS), a NumPy array, a data frame (pandas, polars, pyarrow, DuckDB, Spark), or a "
    "database and a table name."
)
_PARQUET_OR_CSV = "Save the table as Parquet or CSV with the program that wrote it"
REMEDIES = {  # Remedies for files that dpcov cannot read, by the ending of the file name.
    **dict.fromkeys((".xls", ".xlsb", ".ods"), "Save the sheet as .xlsx, or as CSV in UTF-8"),
    **dict.fromkeys((".rds", ".rda", ".rdata"), "In R, write.csv(table, FILE, row.names = FALSE)"),
    **dict.fromkeys((".por", ".xpt"), "Save the table as .sav, .sas7bdat, Parquet or CSV"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson", ".xml", ".html"), _PARQUET_OR_CSV),
    **dict.fromkeys((".feather", ".arrow", ".orc", ".avro", ".h5", ".mat"), _PARQUET_OR_CSV),
    **dict.fromkeys((".pkl", ".npy", ".npz"), "Load the file in Python and pass the table itself"),
    **dict.fromkeys(
        (".zip", ".7z", ".xz", ".bz2", ".zst"), "Unpack the file, or compress it with gzip"
    ),
}
QUERIES = {  # Expressions that make a table of a query, by library and class.
    ("polars", "LazyFrame"): "frame.collect()",
    ("pyarrow", "Dataset"): "dataset.to_table(), or dataset.scanner().to_reader()",
    ("dask", "DataFrame"): "frame.compute()",
    ("dask_expr", "DataFrame"): "frame.compute()",
}


def open_rows(
    data: Any, schema: Schema, conditions: Conditions | None = None, *, threads: int | None = None
) -> Rows:
    """Open a data set with its schema; the function reads names and types, but no cell.

    Parameters
    ----------
    data : path, array_like, data frame or DatabaseTable
        Path of a CSV, TSV (also .gz), Parquet, Excel, Stata, SPSS or SAS file. The path ``-``
        stands for standard input. Also accepted are a NumPy array of shape (n, p), a list of rows,
        an object with ``__arrow_c_stream__`` (pandas, polars, pyarrow, DuckDB), a `DatabaseTable`,
        or a Spark data frame. The rows of a Spark data frame stay in the cluster.

    schema : Schema
        Declared columns.

    conditions : Conditions, optional
        Conditions that select rows.

    threads : int, optional
        Number of threads that read, encode and sum. The default is the number of available cores.
        The result does not depend on the number of threads. Each thread needs memory for its own
        sums.

    Returns
    -------
    Rows

    Raises
    ------
    SourceError
        The data cannot be opened, or a declared column is missing.

    """
    # Otherwise Arrow imports pandas later, after the budget is reserved. Arrow ignores every
    # exception during this import, even an interrupt.
    with suppress(ImportError):
        import_module("pandas")
    source = open_source(data, schema.file, tuple(schema.columns), number_codes(schema))
    if conditions is not None:
        source = rows_meeting(source, conditions)
    kind = SparkRows if is_spark(source) else Rows
    rows = kind(schema, source, threads=threads)
    rows.where = conditions.texts if conditions else ()
    return rows


@quiet("The data cannot be opened. Check that the file or table is complete and readable.")
def open_source(
    data: Any,
    options: FileOptions,
    declared: tuple[str, ...],
    numbers: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Source:
    """Open a data set as a stream of Arrow batches.

    Parameters
    ----------
    data : object
        Data as in `open_rows`.

    options : FileOptions
        How a text file is written. If the options state a number of rows, the source has exactly
        this number of rows.

    declared : tuple of str
        Names for columns of data without names.

    numbers : mapping of str to tuple of str
        Columns of a text file that use the number notation in the options, with the texts that
        mean a missing value.

    Returns
    -------
    Source

    """
    source = _opened(data, options, declared, numbers)
    if any(name != name.strip() for name in source.names) and not isinstance(source, SparkSource):
        source = Stripped(source)
    return source if options.rows is None else FixedRows(source, options.rows)


def _opened(
    data: Any,
    options: FileOptions,
    declared: tuple[str, ...],
    numbers: Mapping[str, tuple[str, ...]],
) -> Source:
    """Choose the source class for the data and open the source."""
    if is_frame(data):  # first, because a frame has an attribute for each column name
        return SparkSource(data)
    _refuse_query(data)
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return FrameSource(data)
    if isinstance(data, Source):
        return data
    if isinstance(data, DatabaseTable):
        return _open_database(data, options, declared)
    if isinstance(data, str | Path):
        return _open_file(Path(data), options, declared, numbers)
    if is_polars(data):
        return PolarsSource(data)
    if hasattr(data, "__arrow_c_stream__"):
        return ArrowSource(data)
    kind = getattr(getattr(data, "dtype", None), "kind", None)
    if isinstance(data, list | tuple) or kind in ("O", "S", "U", "T"):
        return ObjectSource(data, declared)
    if hasattr(data, "__array__"):
        return ArraySource(data, declared)
    raise SourceError(UNKNOWN_DATA_MESSAGE)


def _open_file(
    path: Path,
    options: FileOptions,
    declared: tuple[str, ...],
    numbers: Mapping[str, tuple[str, ...]],
) -> Source:
    """Choose the source class for a file by its ending and open the source."""
    if str(path) == STANDARD_INPUT:
        return TextSource(path, options, declared, numbers)
    name = shown(path)
    is_link = name != printable(str(path))
    no_table = NO_TABLE_MESSAGE.format(asked("table", "NAME"))
    if is_link and not os.path.exists(path):  # noqa: PTH110  raises no error
        raise SourceError(no_table)
    require_readable(path, SourceError)
    if path.is_dir():
        raise SourceError(
            f"{name!r} is a folder, but dpcov needs a file. Give the path of one file."
        )
    if path.name.lower().endswith(PARQUET_ENDINGS) and path.is_file():
        return ParquetSource(path)
    if path.is_file() and database_kind(path):
        raise SourceError(no_table)
    ending = path.suffix.lower()
    if ending in WORKBOOK_ENDINGS:
        return WorkbookSource(path, None, options, declared)
    if ending == STATA_ENDING:
        return StataSource(path, options)
    if ending in READERS:
        return ReadstatSource(path, options)
    if holds_sums(path):
        raise SourceError(
            f"{name!r} contains sums of rows (dpcov moments), but this command needs rows. Give "
            "the original table."
        )
    if ending in REMEDIES:
        raise SourceError(f"dpcov cannot read files that end with {ending}. {REMEDIES[ending]}.")
    return TextSource(path, options, declared, numbers)


def _refuse_query(data: Any) -> None:
    """Refuse a query, which can return other rows each time, and state how to make a table."""
    for kind in type(data).__mro__:
        how = QUERIES.get((str(kind.__module__).split(".")[0], kind.__name__))
        if how is not None:
            raise SourceError(f"A {kind.__name__} is a query and not a table. Pass {how}.")


def _open_database(data: DatabaseTable, options: FileOptions, declared: tuple[str, ...]) -> Source:
    """Open a table of a database or a sheet of a workbook; read names and types only."""
    link = str(data.database)
    if link.lower().endswith(WORKBOOK_ENDINGS) and Path(link).is_file():
        return WorkbookSource(Path(link), data.table, options, declared)
    _ = data.parts  # raises an error for an invalid name
    if link.lower().startswith(POSTGRES_PREFIXES):
        return PostgresSource(data)
    if LINK_PREFIX.match(link):
        raise SourceError(UNKNOWN_DATABASE_MESSAGE)
    kind = database_kind(Path(link))
    if kind is None:
        if os.path.isfile(link):  # noqa: PTH113  raises no error
            require_readable(link, SourceError)
        raise SourceError(UNKNOWN_DATABASE_MESSAGE)
    return DuckdbSource(data) if kind == "duckdb" else SqliteSource(data)
