"""The readers of the library, and ways to pass a small table to each of them by column types.

`Columns` describes a table: for each column the type that it declares in the reader, and its cells.
Columns are named x0, x1, ... because some readers have no column names. Malformed rows (`Row` in
place of the first cell) are passed unchanged if the reader allows such rows.
"""

from __future__ import annotations

import gzip
import importlib.util
import itertools
import shutil
import sqlite3
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date, time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyreadstat

import sources_cells as held
from dpcov.rows.sources.sql import DatabaseTable
from dpcov.rows.sources.training import training_table
from excel_files import Raw, Workbooks
from identity import identity
from sources_cells import Cells, Row
from stata_files import Writer

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import postgres_server
from spark_session import spark_session

Columns = dict[str, tuple[str, list[Any]]]
NAMES = ("x0", "x1", "x2")


@dataclass(frozen=True)
class DataSource:
    """Reader of the library.

    `types` maps column types to their possible cells, and `whole` is the type of whole numbers.
    `tables` turns several tables into arguments of `dpcov.release`. `options` belong into [file].
    `stored` converts a cell to the form in which the reader receives it.
    """

    name: str
    types: dict[str, Cells]
    whole: str
    tables: Callable[[Sequence[Columns]], list[Any]]
    options: dict[str, Any] = field(default_factory=dict)
    costly: bool = False
    stored: Callable[[str, Any], Any] = lambda kind, cell: cell

    def who(self, kind: str, cell: Any, declared: str) -> Any:
        """Return the person that a cell identifies, or None."""
        held = self.types[kind]
        cell = self.stored(kind, cell)
        unsure = isinstance(cell, float) and abs(cell) > held.sure
        return None if unsure else identity(cell, declared, held.missing)


def _rows(columns: Columns) -> Iterator[tuple[Any, ...]]:
    return zip(*(cells for _, cells in columns.values()), strict=True)


def _each(make: Callable[[Columns], Any]) -> Callable[[Sequence[Columns]], list[Any]]:
    return lambda tables: [make(columns) for columns in tables]


class Texts:
    """Text files as a program that follows RFC 4180 writes them."""

    def __init__(self, folder: Path, ending: str, separator: str = ",", quoted: bool = False):
        self._folder = folder
        self._ending = ending
        self._separator = separator.encode()
        self._quoted = quoted
        self.encoding = "utf-8"
        self._number = itertools.count()

    def _cell(self, cell: Any) -> bytes:
        if cell is None:
            return b""
        content = cell if isinstance(cell, bytes) else str(cell).encode(self.encoding, "replace")
        special = (self._separator, b'"', b"\n", b"\r")
        if self._quoted or any(sign in content for sign in special):
            return b'"' + content.replace(b'"', b'""') + b'"'
        return content

    def line(self, row: Sequence[Any]) -> bytes:
        """Return a record."""
        if isinstance(row[0], Row):
            return row[0].content
        return self._separator.join(map(self._cell, row))

    def __call__(self, columns: Columns) -> Path:
        lines = [self.line(list(columns)), *map(self.line, _rows(columns))]
        content = b"".join(line + b"\n" for line in lines)
        path = self._folder / f"{next(self._number)}{self._ending}"
        path.write_bytes(gzip.compress(content, 1) if self._ending.endswith(".gz") else content)
        return path


SPSS = {"double": held.STORED, "long": held.integers(16, null=False), "date": held.DAYS}
SPSS |= {"string": held.SHORT}
STATA = {"string": held.SHORT, "date": held.DAYS, "double": held.FLOATS, "float": held.SINGLES}
STATA |= {"byte": held.integers(8), "int": held.integers(16), "long": held.integers(32)}
STATA_105 = {kind: STATA[kind] for kind in ("double", "float", "byte", "int", "long")}
STATA_105 |= {"string": held.shorter(held.TEXTS, 80)}
STATA_117 = {"strL": held.RAW_TEXTS, **STATA}


class Statistics:
    """Files of SPSS."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = itertools.count()

    def __call__(self, columns: Columns) -> Path:
        frame = pd.DataFrame({name: self._column(*column) for name, column in columns.items()})
        formats = {name: "DATE11" for name, (kind, _) in columns.items() if kind == "date"}
        path = self._folder / f"{next(self._number)}.sav"
        pyreadstat.write_sav(frame, str(path), variable_format=formats)
        return path

    def _column(self, kind: str, cells: list[Any]) -> pd.Series:
        if kind == "string":
            return pd.Series(["" if cell is None else str(cell) for cell in cells], dtype=object)
        return pd.Series(cells, dtype="int32" if kind == "long" else "float64")


class StataFiles:
    """Files of Stata of one format, written byte by byte."""

    def __init__(self, folder: Path, version: int, big: bool = False) -> None:
        self._folder = folder
        self._writer = Writer(version, big)
        self._number = itertools.count()

    def __call__(self, columns: Columns) -> Path:
        named = {"string": "str"}
        table = {name: (named.get(kind, kind), cells) for name, (kind, cells) in columns.items()}
        return self._writer.write(self._folder / f"{next(self._number)}.dta", table)

    def stored(self, kind: str, cell: Any) -> Any:
        """Return what a cell stands for in the file."""
        return self._writer.meaning(kind, cell)


def stored_in_sheets(_: str, cell: Any) -> Any:
    """Return the cell that a sheet stores: float64 numbers, times of day as fractions of a day."""
    cell = cell.says if isinstance(cell, Raw) else cell
    if isinstance(cell, time):
        return (cell.hour * 60 + cell.minute) / 1440
    if isinstance(cell, date) and cell.year < 1900:
        return None
    return float(cell) if isinstance(cell, int) and not isinstance(cell, bool) else cell


def stored_in_spss(_: str, cell: Any) -> Any:
    """Return the cell without the blanks that fill up a text."""
    return cell.rstrip(" ") if isinstance(cell, str) else cell


ARROW = {
    "float64": (pa.float64(), held.FLOATS),
    "float32": (pa.float32(), held.SINGLES),
    "float16": (pa.float16(), held.HALVES),
    "int8": (pa.int8(), held.integers(8)),
    "int16": (pa.int16(), held.integers(16)),
    "int32": (pa.int32(), held.integers(32)),
    "int64": (pa.int64(), held.integers(64)),
    "uint64": (pa.uint64(), held.integers(64, signed=False)),
    "decimal128": (pa.decimal128(30, 3), held.decimals(30, 3)),
    "decimal256": (pa.decimal256(60, 3), held.decimals(60, 3)),
    "decimal32": (pa.decimal32(9, 3), held.decimals(9, 3)),
    "decimal64": (pa.decimal64(18, 3), held.decimals(18, 3)),
    "bool": (pa.bool_(), held.TRUTHS),
    "string": (pa.string(), held.RAW_TEXTS),
    "large_string": (pa.large_string(), held.RAW_TEXTS),
    "string_view": (pa.string_view(), held.TEXTS),
    "dictionary of strings": (pa.dictionary(pa.int32(), pa.string()), held.RAW_TEXTS),
    "dictionary of floats": (pa.dictionary(pa.int8(), pa.float64()), held.FLOATS),
    "runs of strings": (pa.run_end_encoded(pa.int32(), pa.string()), held.TEXTS),
    "null": (pa.null(), held.NOTHING),
    "binary": (pa.binary(), held.BYTES),
    "16 bytes": (pa.binary(16), held.SIXTEEN),
    "timestamp": (pa.timestamp("ms"), held.DATES),
}
NOT_IN_PARQUET = ("string_view", "runs of strings", "decimal256", "decimal32", "decimal64")


def arrow_array(kind: pa.DataType, cells: Sequence[Any]) -> pa.Array:
    """Return an array; texts can be invalid UTF-8."""
    if pa.types.is_dictionary(kind):
        return arrow_array(kind.value_type, cells).dictionary_encode()
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(arrow_array(kind.value_type, cells))
    if pa.types.is_string_view(kind):
        return pa.array(cells, pa.string()).cast(kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        raw = [cell.encode() if isinstance(cell, str) else cell for cell in cells]
        wide = pa.types.is_large_string(kind)
        return pa.array(raw, pa.large_binary() if wide else pa.binary()).view(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(cells, pa.int64()).cast(kind)
    if pa.types.is_float16(kind):
        return pa.array([None if c is None else np.float16(c) for c in cells], kind)
    return pa.array(cells, kind)


def arrow_table(columns: Columns) -> pa.Table:
    """Return a table in memory."""
    arrays = [arrow_array(ARROW[kind][0], cells) for kind, cells in columns.values()]
    return pa.table(arrays, list(columns))


PANDAS = {
    "float64": held.FLOATS,
    "float32": held.SINGLES,
    "int64": held.integers(64, null=False),
    "uint8": held.integers(8, signed=False, null=False),
    "Int64": held.integers(64),
    "boolean": held.TRUTHS,
    "bool": Cells(held.TRUTHS.clean),
    "string[python]": held.TEXTS,
    "string[pyarrow]": held.TEXTS,
    "str": held.TEXTS,
    "category": held.TEXTS,
    "category of objects": held.CATEGORIES,
    "double[pyarrow]": held.FLOATS,
    "int64[pyarrow]": held.integers(64),
    "Float32": held.SINGLES,
    "decimal128(30, 3)[pyarrow]": held.decimals(30, 3),
    "Sparse[float64]": Cells({"numbers": [0.5, 1.0]}, [None]),  # which is refused
    "complex128": Cells({"numbers": [0.5, 1.0]}, []),
}


def _series(kind: str, cells: list[Any]) -> pd.Series:
    if kind.startswith("category"):
        return pd.Series(_categories(cells, kind))
    if kind == "object":
        return pd.Series(cells, dtype=object)
    if kind.startswith("decimal128"):
        return pd.Series(cells, dtype=pd.ArrowDtype(pa.decimal128(30, 3)))
    return pd.Series(cells, dtype=kind)


def _categories(cells: list[Any], kind: str) -> pd.Categorical:
    """Return a column of categories; missing cells have no category."""
    places: dict[Any, int] = {}
    codes = [-1 if pd.isna(cell) else places.setdefault(cell, len(places)) for cell in cells]
    of_texts = kind == "category"
    categories = pd.Index([*places], dtype="str" if of_texts else object)
    return pd.Categorical.from_codes(codes, categories=categories)


def _frame(columns: Columns) -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pd.DataFrame({name: _series(*column) for name, column in columns.items()})


POLARS = {
    "Float64": (pl.Float64, held.FLOATS),
    "Float32": (pl.Float32, held.SINGLES),
    "Int64": (pl.Int64, held.integers(64)),
    "Int16": (pl.Int16, held.integers(16)),
    "UInt64": (pl.UInt64, held.integers(64, signed=False)),
    "Boolean": (pl.Boolean, held.TRUTHS),
    "String": (pl.String, held.TEXTS),
    "Categorical": (pl.Categorical, held.TEXTS),
    "Decimal": (pl.Decimal(30, 3), held.decimals(30, 3)),
    "Int128": (pl.Int128, held.integers(128)),  # which is refused
    "Enum": (
        pl.Enum([str(c) for c in [*held.LEVELS.clean["words"], *held.LEVELS.odd[1:]]]),
        held.LEVELS,
    ),
}


def _polars(columns: Columns) -> pl.DataFrame:
    return pl.DataFrame(
        [pl.Series(name, cells, POLARS[kind][0]) for name, (kind, cells) in columns.items()]
    )


NUMPY = {
    "float64": held.FLOATS,
    "float32": held.SINGLES,
    "float16": held.HALVES,
    "int8": held.integers(8, null=False),
    "int64": held.integers(64, null=False),
    "uint64": held.integers(64, signed=False, null=False),
    ">f8": held.FLOATS,
}


def _array(columns: Columns) -> Any:
    """Return an array in which all columns have the type of the first column."""
    kind = next(iter(columns.values()))[0]
    cells = [list(cells) for _, cells in columns.values()]
    if kind == "object":  # what is a sequence stays one cell
        table = np.empty((len(cells[0]), len(cells)), object)
        for j, i in itertools.product(range(len(cells)), range(len(cells[0]))):
            table[i, j] = cells[j][i]
        return table
    if "f" in kind:
        cells = [[np.nan if cell is None else cell for cell in column] for column in cells]
    return np.array(cells, kind).T


def _list(columns: Columns) -> list[Any]:
    return [row[0].content if isinstance(row[0], Row) else [*row] for row in _rows(columns)]


@dataclass(frozen=True)
class Trained:
    """Table as `fit` accepts it, with an optional target; the estimators' own function opens it.

    `names` are the names of its columns. For lists, the bounds determine the names.
    """

    table: Any
    names: tuple[str, ...]
    target: Any = None

    def opened(self) -> Any:
        """Return the source that an estimator passes to a release."""
        return training_table(self.table, self.target, self.names)


def _trained(make: Callable[[Columns], Any]) -> Callable[[Columns], Trained]:
    return lambda columns: Trained(make(columns), tuple(columns))


class NamedList(list[Any]):
    """A target with the name of the first column."""

    name = NAMES[0]


class NamedArray(np.ndarray[Any, Any]):
    """A target with the name of the first column."""

    name = NAMES[0]


def _targeted(columns: Columns) -> Trained:
    """Return the first column as the target and the other columns as a list of rows."""
    (name, (kind, cells)), *others = columns.items()
    target: Any
    if kind == "object":
        target = NamedList(cell.content if isinstance(cell, Row) else cell for cell in cells)
    elif kind in NUMPY:
        target = np.array([np.nan if cell is None else cell for cell in cells], kind)
        target = target.view(NamedArray)
    else:
        target = _series(kind, cells).rename(name)
    rows = dict(others)
    return Trained(_list(rows), tuple(rows), target)


@dataclass(frozen=True)
class Summed:
    """A table of which a file of exact sums is made, which stands for it then."""

    table: Any


def stored_in_target(kind: str, cell: Any) -> Any:
    """Return the cell of a sequence that contains one cell."""
    return cell[0] if kind == "object" and isinstance(cell, list) and len(cell) == 1 else cell


DUCKDB = {
    "BOOLEAN": held.TRUTHS,
    "TINYINT": held.integers(8),
    "BIGINT": held.integers(64),
    "UBIGINT": held.integers(64, signed=False),
    "HUGEINT": held.integers(128),
    "UHUGEINT": held.integers(128, signed=False),
    "FLOAT": held.SINGLES,
    "DOUBLE": held.FLOATS,
    "DECIMAL(9,3)": held.decimals(9, 3),
    "DECIMAL(38,3)": held.decimals(38, 3),
    "VARCHAR": held.TEXTS,
    "ENUM('x', 'y', 'Zürich', '1', '2.5', 'other')": held.LEVELS,
    "UUID": held.IDS,
    "BLOB": held.BYTES,
    "TIMESTAMP": held.NOTHING,
}


def _literal(cell: Any) -> str:
    """Return a cell as SQL; the database casts a text to the type of the column."""
    if cell is None:
        return "NULL"
    if isinstance(cell, bytes):
        return "'" + "".join(f"\\x{byte:02x}" for byte in cell) + "'"
    return "'" + str(cell).replace("'", "''") + "'"


def _inserted(name: str, columns: Columns, literal: Callable[[Any], str]) -> tuple[str, str]:
    """Return statements that create a table and fill it."""
    declared = ", ".join(f"{column} {kind}" for column, (kind, _) in columns.items())
    rows = ", ".join(f"({', '.join(map(literal, row))})" for row in _rows(columns))
    return f"CREATE TABLE {name} ({declared})", f"INSERT INTO {name} VALUES {rows}"  # noqa: S608


def _files(
    folder: Path, ending: str, fill: Callable[[Path, Sequence[Columns]], None]
) -> Callable[[Sequence[Columns]], list[Any]]:
    """Return a function that makes database files, each with several tables."""
    number = itertools.count()

    def make(tables: Sequence[Columns]) -> list[Any]:
        path = folder / f"{next(number)}{ending}"
        fill(path, tables)
        return [DatabaseTable(path, f"t{at}") for at in range(len(tables))]

    return make


def _fill_duckdb(path: Path, tables: Sequence[Columns]) -> None:
    with duckdb.connect(path) as db:
        for at, columns in enumerate(tables):
            for statement in _inserted(f"t{at}", columns, _literal):
                db.execute(statement)


def _duckdb_relations(tables: Sequence[Columns]) -> list[Any]:
    db = duckdb.connect()
    for at, columns in enumerate(tables):
        for statement in _inserted(f"t{at}", columns, _literal):
            db.execute(statement)
    return [db.sql(f"SELECT * FROM t{at}") for at in range(len(tables))]  # noqa: S608


SQLITE = {
    "INTEGER": held.DYNAMIC,
    "REAL": held.DYNAMIC,
    "NUMERIC": held.DYNAMIC,
    "DECIMAL(10,3)": held.DYNAMIC,
    "TEXT": held.DYNAMIC,
    "BOOLEAN": held.DYNAMIC,
    "DATE": held.DYNAMIC,
    "": held.DYNAMIC,
    "BLOB": Cells(held.DYNAMIC.clean, held.DYNAMIC.odd, missing=()),
}


def stored_in_sqlite(kind: str, cell: Any) -> Any:
    """Return the value of a cell in a column that declares `kind`."""
    db = sqlite3.connect(":memory:")
    db.execute(f"CREATE TABLE t (x {kind})")
    db.execute("INSERT INTO t VALUES (?)", (cell,))
    ((found, storage),) = db.execute("SELECT x, typeof(x) FROM t").fetchall()
    db.close()
    unread = storage == "blob" if kind != "BLOB" else storage != "blob"
    return None if unread else found


def stored_in_latin(_: str, cell: Any) -> Any:
    """Return the value of a cell in a file in LATIN1."""
    encoded = cell.encode("latin-1", "replace") if isinstance(cell, str) else cell
    return encoded.decode("latin-1") if isinstance(encoded, bytes) else cell


def stored_in_postgres(kind: str, cell: Any) -> Any:
    """Return the cell without the blanks that fill up a text."""
    return cell.rstrip(" ") if kind.startswith("char(") and isinstance(cell, str) else cell


def _fill_sqlite(path: Path, tables: Sequence[Columns]) -> None:
    with sqlite3.connect(path) as db:
        for at, columns in enumerate(tables):
            db.execute(_inserted(f"t{at}", columns, _literal)[0])
            places = ", ".join("?" * len(columns))
            db.executemany(f"INSERT INTO t{at} VALUES ({places})", _rows(columns))  # noqa: S608
    db.close()


POSTGRES = {
    "smallint": held.integers(16),
    "bigint": held.integers(64),
    "real": held.SINGLES,
    "double precision": held.FLOATS,
    "numeric": held.NUMERIC,
    "numeric(9,3)": held.decimals(9, 3),
    "boolean": held.TRUTHS,
    "text": held.TEXTS,
    "varchar(80000)": held.TEXTS,
    "char(80)": Cells(held.LEVELS.clean, [*held.LEVELS.odd, "", " ", "1_000", *held.UUIDS]),
    "name": held.LEVELS,
    "level": held.LEVELS,
    "uuid": held.IDS,
    "bytea": held.BYTES,
}
POSTGRES_TYPES = "CREATE TYPE level AS ENUM ('x', 'y', 'Zürich', '1', '2.5', 'other')"
LATIN = {"text": Cells(held.TEXTS.clean, [None, "Zürich", "x", "1_000", " 1", "é", "y" * 70_000])}


UTF8 = "?client_encoding=UTF8"  # in which our SQL is


def _postgres_literal(cell: Any) -> str:
    return f"'\\x{cell.hex()}'" if isinstance(cell, bytes) else _literal(cell)


def _postgres(
    link: str, stored: Callable[[str, Any], Any] = lambda _, cell: cell
) -> Callable[[Sequence[Columns]], list[Any]]:
    from adbc_driver_postgresql import dbapi

    number = itertools.count()

    def make(tables: Sequence[Columns]) -> list[Any]:
        names = [f"t{next(number)}" for _ in tables]
        with dbapi.connect(link + UTF8) as connection, connection.cursor() as cursor:
            for name, columns in zip(names, tables, strict=True):
                for statement in _inserted(
                    name, columns, lambda cell: _postgres_literal(stored("", cell))
                ):
                    cursor.execute(statement)
            connection.commit()
        return [DatabaseTable(link, name) for name in names]

    return make


def run_in(link: str, *statements: str) -> None:
    """Run SQL in PostgreSQL, each statement by itself."""
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(link + UTF8, autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


SPARK = {
    "decimal(9,3)": Cells(held.decimals(9, 3).clean, held.decimals(9, 3).odd[:5]),
    "double": Cells(held.FLOATS.clean, held.FLOATS.odd[:8]),
    "long": Cells(held.integers(64).clean, held.integers(64).odd[:5]),
    "string": Cells(held.TEXTS.clean, [None, "x", "1_000", " 1", "Zürich"]),
    "boolean": held.TRUTHS,
}
ONE_PARTITION = {"sql_shuffle_partitions": 1, "default_parallelism": 1, "log_level": "ERROR"}


def _spark(session: Any) -> Callable[[Columns], Any]:
    def make(columns: Columns) -> Any:
        kinds = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
        rows = [tuple(row) for row in _rows(columns)]
        return session.createDataFrame(rows, kinds).coalesce(1)

    return make


@dataclass
class DataSources:
    """All readers that are available on this machine, and the reasons for the missing ones."""

    found: dict[str, DataSource]
    absent: list[str]
    postgres: str | None = None
    spark: Any = None


@contextmanager
def opened_sources(
    folder: Path, *, servers: bool = True, spark: bool = False
) -> Iterator[DataSources]:
    """Open all readers, while a PostgreSQL server and, if asked for, a Spark session run."""
    with ExitStack() as stack:
        all_sources = DataSources({source.name: source for source in local(folder)}, [])
        if not servers:
            all_sources.absent.append("PostgreSQL (not asked for)")
        elif postgres_server.binaries() is None or not _installed("adbc_driver_postgresql"):
            all_sources.absent.append("PostgreSQL (not installed)")
        else:
            link = stack.enter_context(postgres_server.server())
            _add_postgres(all_sources, link)
        if not spark:
            all_sources.absent.append("Spark (not asked for)")
        elif not _installed("pyspark") or shutil.which("java") is None:
            all_sources.absent.append("Spark (no Java or no pyspark)")
        else:
            session = stack.enter_context(spark_session(folder, cores=1, **ONE_PARTITION))
            all_sources.spark = session
            source = DataSource("Spark", SPARK, "long", _each(_spark(session)), costly=True)
            all_sources.found[source.name] = source
        yield all_sources


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _add_postgres(all_sources: DataSources, link: str) -> None:
    run_in(
        link,
        POSTGRES_TYPES,
        "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'",
    )
    latin = link.rsplit("/", 1)[0] + "/latin"
    found = [
        DataSource(
            "PostgreSQL",
            POSTGRES,
            "bigint",
            _postgres(link),
            costly=True,
            stored=stored_in_postgres,
        ),
        DataSource(
            "PostgreSQL in LATIN1",
            LATIN,
            "bigint",
            _postgres(latin, stored_in_latin),
            costly=True,
            stored=stored_in_latin,
        ),
    ]
    found[1].types.update(dict.fromkeys(["bigint"], held.integers(64)))
    all_sources.found |= {source.name: source for source in found}
    all_sources.postgres = link


# Column types of the estimators' readers, which use the readers of arrays and frames.
ARRAYS = ("float64", "int64", "uint64")
FRAMES = ("float64", "Int64", "boolean", "category of objects")


def _some(types: dict[str, Cells], names: Sequence[str]) -> dict[str, Cells]:
    return {name: types[name] for name in names}


def local(folder: Path) -> list[DataSource]:
    """Return the readers that need no server."""
    arrow = {name: cells for name, (_, cells) in ARROW.items()}
    stored = {name: cells for name, cells in arrow.items() if name not in NOT_IN_PARQUET}
    texts = {"quoted": Texts(folder, ".csv", quoted=True)}
    latin = Texts(folder, ".latin.csv")
    latin.encoding = "latin-1"
    number = itertools.count()

    def parquet(columns: Columns) -> Path:
        path = folder / f"{next(number)}.parquet"
        pq.write_table(arrow_table(columns), path)
        return path

    def stream(columns: Columns) -> Any:
        return arrow_table(columns).to_reader()

    plain = {"text": held.QUOTED}
    lines = {"text": Cells(held.FILE.clean, [*held.FILE.odd, ",", "a,b"])}
    in_latin = Cells(
        held.TEXTS.clean, [None, "Zürich", "x", "1_000", b"\xff", b"x\xff\xfe", "a\nb"]
    )
    comma = Cells(
        {"decimals": ["1,5", "0,25", "-2,5"]}, ["1.5", "1.000,5", "1_000", "x", None, ","]
    )
    objects = {"object": held.OBJECTS}
    listed = {"object": held.LISTS}
    summed = {kind: arrow[kind] for kind in ("float64", "int64", "bool", "string")}
    one = {"records": "lines"}
    return [
        DataSource("CSV", plain, "text", _each(Texts(folder, ".csv"))),
        DataSource("CSV, all quoted", plain, "text", _each(texts["quoted"])),
        DataSource("CSV, records = lines", lines, "text", _each(Texts(folder, ".lines.csv")), one),
        DataSource(
            "CSV in LATIN1",
            {"text": in_latin},
            "text",
            _each(latin),
            {"encoding": "latin-1"},
            stored=stored_in_latin,
        ),
        DataSource(
            "CSV, decimal comma",
            {"text": comma},
            "text",
            _each(Texts(folder, ".c.csv")),
            {"decimal": ","},
        ),
        DataSource("TSV", plain, "text", _each(Texts(folder, ".tsv", "\t")), {"separator": "\t"}),
        DataSource("gzip", plain, "text", _each(Texts(folder, ".csv.gz"))),
        DataSource("Parquet", stored, "int64", _each(parquet)),
        DataSource("Arrow table", arrow, "int64", _each(arrow_table)),
        DataSource("Arrow stream", arrow, "int64", _each(stream)),
        DataSource("pandas", PANDAS, "int64", _each(_frame)),
        DataSource("pandas, objects", objects, "object", _each(_frame)),
        DataSource(
            "polars", {name: cells for name, (_, cells) in POLARS.items()}, "Int64", _each(_polars)
        ),
        DataSource("NumPy", NUMPY, "", _each(_array)),
        DataSource("lists", listed, "object", _each(_list)),
        DataSource("estimators", listed, "object", _each(_trained(_list))),
        DataSource(
            "estimators, arrays", _some(NUMPY, ARRAYS) | objects, "", _each(_trained(_array))
        ),
        DataSource(
            "estimators, pandas",
            _some(PANDAS, FRAMES) | objects,
            "int64",
            _each(_trained(_frame)),
        ),
        DataSource(
            "estimators, targets",
            listed | _some(NUMPY, ARRAYS[:1]) | _some(PANDAS, FRAMES[2:]),
            "object",
            _each(_targeted),
            stored=stored_in_target,
        ),
        DataSource(
            "files of sums", summed, "int64", _each(lambda columns: Summed(arrow_table(columns)))
        ),
        DataSource(
            "DuckDB file", DUCKDB, "BIGINT", _files(folder, ".duckdb", _fill_duckdb), costly=True
        ),
        DataSource("DuckDB relation", DUCKDB, "BIGINT", _duckdb_relations),
        DataSource(
            "SQLite",
            SQLITE,
            "INTEGER",
            _files(folder, ".sqlite", _fill_sqlite),
            stored=stored_in_sqlite,
        ),
        DataSource(
            "Excel",
            {"cell": held.SHEET},
            "cell",
            _each(Workbooks(folder)),
            costly=True,
            stored=stored_in_sheets,
        ),
        *(
            DataSource(name, types, "long", _each(files), stored=files.stored)
            for name, types, files in (
                ("Stata", STATA, StataFiles(folder, 118)),
                ("Stata 117", STATA_117, StataFiles(folder, 117, big=True)),
                ("Stata 105", STATA_105, StataFiles(folder, 105)),
            )
        ),
        DataSource("SPSS", SPSS, "long", _each(Statistics(folder)), stored=stored_in_spss),
    ]
