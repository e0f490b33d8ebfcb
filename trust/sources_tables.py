"""Check that the same table gives the same integers through every reader."""

from __future__ import annotations

import csv
import io
import itertools
import random
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dpcov.rows.cells import BATCH_CELLS
from dpcov.rows.sources.sql import DatabaseTable
from figure import Figure
from sources import Columns, DataSource, DataSources, Summed, arrow_table
from sources_roles import IGNORED, Image, Role, image

ATTACK = "the same table from every data source"
ROWS = 60
RECORDS = 30_000
SMALL_BATCH = 40  # cells: a few rows
WORDS = ["Zürich", "Ångström", "x", " y ", "1", "2.5", "São Paulo", None]
COLUMNS = {
    "x0": {"kind": "numeric", "lower": -5, "upper": 5, "missing": "level"},
    "x1": {"kind": "categorical", "levels": [True, False]},
    "x2": {
        "kind": "categorical",
        "levels": ["Zürich", "Ångström", "x", "y", 1, 2.5],
        "other": True,
        "missing": "level",
    },
    "x3": {"kind": "categorical", "levels": [0, 1, 2], "other": True},
    "x4": IGNORED,
}
ROLES = [
    Role("rows", COLUMNS),
    Role("persons", COLUMNS, {"unit": {"column": "x4", "type": "integer", "max_rows": 2}}),
    Role("rows that meet", COLUMNS, {}, ("x0 < 3", "x1 = true", "x2 not in ('x', 'y')")),
    Role(
        "weights",
        COLUMNS | {"x0": IGNORED},
        {"weight": {"column": "x0", "maximum": 3.0}},
    ),
]


def cells() -> dict[str, list[Any]]:
    """Return numbers, truth values, levels, integers and ids; some cells are missing."""
    chance = random.Random(3)  # noqa: S311
    numbers = [None if at % 7 == 0 else round(chance.uniform(-7, 7), 3) for at in range(ROWS)]
    return {
        "number": numbers,
        "truth": [chance.random() < 0.4 for _ in range(ROWS)],
        "level": [chance.choice(WORDS) for _ in range(ROWS)],
        "whole": [chance.randrange(5) for _ in range(ROWS)],
        "id": [2**53 + 1 + chance.randrange(25) for _ in range(ROWS)],
    }


def _typed(*kinds: str) -> Callable[[dict[str, list[Any]]], Columns]:
    def make(table: dict[str, list[Any]]) -> Columns:
        values = zip(kinds, table.values(), strict=True)
        return {f"x{at}": (kind, list(held)) for at, (kind, held) in enumerate(values)}

    return make


def _comma(table: dict[str, list[Any]]) -> Columns:
    """Return numbers with a decimal comma, in the column that declares it."""
    number = [None if cell is None else str(cell).replace(".", ",") for cell in table["number"]]
    return _typed(*["text"] * 5)(table | {"number": number})


def _sheet(table: dict[str, list[Any]]) -> Columns:
    """Return ids as texts, because numbers in a sheet have fewer digits."""
    return _typed(*["cell"] * 5)(table | {"id": [*map(str, table["id"])]})


TEXTS = _typed(*["text"] * 5)
OBJECTS = _typed(*["object"] * 5)
ARROW = _typed("float64", "bool", "string", "int64", "int64")
FORMS: dict[str, Callable[[dict[str, list[Any]]], Columns]] = {
    "CSV": TEXTS,
    "CSV, all quoted": TEXTS,
    "CSV, records = lines": TEXTS,
    "CSV in LATIN1": TEXTS,
    "CSV, decimal comma": _comma,
    "TSV": TEXTS,
    "gzip": TEXTS,
    "Parquet": ARROW,
    "Arrow table": ARROW,
    "Arrow stream": ARROW,
    "files of sums": ARROW,
    "pandas": _typed("float64", "boolean", "str", "Int64", "int64"),
    "pandas, objects": OBJECTS,
    "polars": _typed("Float64", "Boolean", "String", "Int64", "Int64"),
    "lists": OBJECTS,
    "estimators": OBJECTS,
    "estimators, arrays": OBJECTS,
    "estimators, pandas": _typed("float64", "boolean", "object", "Int64", "int64"),
    "estimators, targets": OBJECTS,
    "DuckDB file": _typed("DOUBLE", "BOOLEAN", "VARCHAR", "BIGINT", "BIGINT"),
    "DuckDB relation": _typed("DOUBLE", "BOOLEAN", "VARCHAR", "BIGINT", "BIGINT"),
    "SQLite": _typed("REAL", "BOOLEAN", "TEXT", "INTEGER", "INTEGER"),
    "Excel": _sheet,
    "Stata": _typed("double", "byte", "string", "int", "string"),
    "Stata 117": _typed("double", "long", "strL", "long", "strL"),
    "Stata 105": _typed("double", "byte", "string", "long", "string"),
    "SPSS": _typed("double", "long", "string", "long", "string"),
    "PostgreSQL": _typed("double precision", "boolean", "text", "bigint", "bigint"),
    "PostgreSQL in LATIN1": _typed("numeric", "boolean", "text", "bigint", "bigint"),
    "Spark": _typed("double", "boolean", "string", "long", "long"),
}


@dataclass
class Same:
    """Tables that were compared with the one in Arrow, and what differs."""

    tables: int = 0
    sources: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


def through(source: DataSource) -> Same:
    """Compare one reader with the table in memory."""
    found = Same(sources=[source.name])
    table = cells()
    plain = arrow_table(ARROW(table))
    for role, batch in itertools.product(ROLES, (BATCH_CELLS, SMALL_BATCH)):
        (data,) = source.tables([FORMS[source.name](table)])
        found.tables += 1
        expected = image(plain, role, replace(source, options={}))
        with patch("dpcov.rows.cells.BATCH_CELLS", batch):
            here = image(data, role, source)
        if here != expected and not (isinstance(data, Summed) and role.persons):
            found.differences.append(f"{source.name} | {role.name}: {_differs(here, expected)}")
    return found


def _differs(here: Image, expected: Image) -> str:
    return here.refused or ("failed" if here.failed else f"{here.counts} for {expected.counts}")


def by_pandas(folder: Path) -> Same:
    """Compare a SQLite table that pandas wrote, in which truth values are integers."""
    found, table = Same(sources=["SQLite as pandas writes it"]), cells()
    frame = pd.DataFrame({f"x{at}": held for at, held in enumerate(table.values())})
    path = folder / "pandas.sqlite"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as db:
        frame.to_sql("people", db, index=False)
        declared = [row[2] for row in db.execute("PRAGMA table_info(people)")]
    db.close()
    assert declared[1] == "INTEGER", declared
    source = DataSource("SQLite as pandas writes it", {}, "", lambda _: [])
    for role in ROLES:
        found.tables += 1
        here = image(DatabaseTable(path, "people"), role, source)
        expected = image(arrow_table(ARROW(table)), role, source)
        if here != expected:
            found.differences.append(f"{source.name} | {role.name}: {_differs(here, expected)}")
    return found


def with_line_breaks(folder: Path, records: int = RECORDS) -> list[str]:
    """Compare CSV records, of which 20% have a quoted line break, with the same rows in Parquet."""
    chance = np.random.default_rng(5)
    number = chance.uniform(-5, 5, records)
    notes = [f'a "note", {at}\nwith 1,2,3\r\nlines' if at % 5 == 0 else "" for at in range(records)]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["x0", "note", "x1"])
    writer.writerows(zip(number.tolist(), notes, range(records), strict=True))
    (folder / "notes.csv").write_text(text.getvalue(), newline="")
    table = pa.table({"x0": number, "note": notes, "x1": np.arange(records)})
    pq.write_table(table, folder / "notes.parquet")
    columns = {
        "x0": {"kind": "numeric", "lower": -5, "upper": 5},
        "x1": {"kind": "numeric", "lower": 0, "upper": records},
    }
    source = DataSource("files", {}, "", lambda _: [])
    role = Role("rows", columns)
    found, expected = (image(folder / f"notes.{end}", role, source) for end in ("csv", "parquet"))
    same = found == expected and found.counts == (records,)
    return [] if same else [f"{found.counts or found} rows for {records}"]


def differences(all_sources: DataSources, folder: Path) -> Iterator[Same]:
    """Compare every reader that can hold the table."""
    for source in all_sources.found.values():
        if source.name in FORMS:
            yield through(source)
    yield by_pandas(folder)


def figures(all_sources: DataSources, folder: Path) -> list[Figure]:
    """Return the figures about one table."""
    found = list(differences(all_sources, folder))
    wrong = [line for one in found for line in one.differences]
    broken = with_line_breaks(folder)
    for line in [*wrong, *broken]:
        print("table:", line)
    what = f"{len(found)} sources, {sum(one.tables for one in found)} tables: differences"
    records = f"CSV of {RECORDS:,} records, 20% with line breaks in quotes, beside Parquet"
    return [
        Figure(ATTACK, what, "0", str(len(wrong)), not wrong),
        Figure(ATTACK, records, "the same", broken[0] if broken else "the same", not broken),
    ]
