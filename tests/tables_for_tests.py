"""Small tables, schemas and files that several tests of the outer layers share."""

from __future__ import annotations

import sqlite3
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcov.api.ledger import Account, Ledger
from dpcov.core.privacy import Budget, Guarantee, Neighbors, Unit
from dpcov.releases import Release
from dpcov.rows.schema import Schema

PLANTED = "SECRETVALUE"  # planted in data: must never come out
SCHEMA_TEXT = """\
[columns.age]
kind = "numeric"
lower = 0
upper = 100

[columns.sex]
kind = "categorical"
levels = ["m", "f"]

[columns.income]
kind = "numeric"
lower = 0
upper = 200000
"""


def people(count: int = 400) -> str:
    """Return CSV text that fits `SCHEMA_TEXT`, with an additional column."""
    ages = np.arange(count) * 37 % 90
    lines = [
        f"{age},{'mf'[age % 2]},{1000 * age + 50000 * (age % 2)},{PLANTED}{age}" for age in ages
    ]
    return "\n".join(["age,sex,income,note", *lines]) + "\n"


def write_smokers(folder: Path, count: int = 400) -> tuple[Path, Path]:
    """Write a CSV file with a second category, and its schema."""
    table, schema = folder / "smokers.csv", folder / "smokers.toml"
    head, *lines = people(count).splitlines()
    smoking = [f"{line},{'no' if at % 3 else 'yes'}" for at, line in enumerate(lines)]
    table.write_text("\n".join([f"{head},smoker", *smoking]) + "\n")
    smoker = '\n[columns.smoker]\nkind = "categorical"\nlevels = ["no", "yes"]\n'
    schema.write_text(SCHEMA_TEXT + smoker)
    return table, schema


def write_people(folder: Path, count: int = 400) -> tuple[Path, Path]:
    """Write a CSV file and its schema."""
    table, schema = folder / "people.csv", folder / "people.toml"
    table.write_text(people(count))
    schema.write_text(SCHEMA_TEXT)
    return table, schema


def correlated(rows: int, columns: int, seed: int = 0) -> NDArray[np.float64]:
    """Return (rows, columns) numbers in [-1, 1]; all columns have a common part."""
    generator = np.random.default_rng(seed)
    own = generator.standard_normal((rows, columns))
    shared = generator.standard_normal((rows, 1)) * np.linspace(-1.5, 1.5, columns)
    return np.clip((own + shared) / 6, -1, 1)


def mixed_table(schema: Schema, rows: int, seed: int = 0) -> pa.Table:
    """Return a table with a column for everything in the schema; some values are odd."""
    generator = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    for name, column in schema.encoded_columns.items():
        if column.kind == "numeric":
            values = generator.uniform(-2, 2, rows) * column.half_range + column.midpoint
            values[generator.random(rows) < 0.1] = np.nan
            columns[name] = values
        else:
            columns[name] = generator.choice([*map(str, column.levels), "odd"], rows)
    if schema.unit is not None:
        columns[schema.unit.column] = generator.integers(0, max(1, rows // 2), rows)
    return pa.table(columns)


def assert_same(found: Release, expected: Release) -> None:
    """Check that two releases are equal in every field."""
    for name in (field.name for field in fields(Release) if field.name != "memory"):
        one, other = getattr(found, name), getattr(expected, name)
        if isinstance(other, np.ndarray):
            assert one.dtype == other.dtype, name
            assert np.array_equal(one, other), name
        else:
            assert one == other, name


def assert_same_elsewhere(found: Release, expected: Release) -> None:
    """Check that two releases are equal in every field except the kind of data source."""
    assert found.provenance["door"] != expected.provenance["door"]
    kept = {name: one for name, one in found.provenance.items() if name in expected.provenance}
    assert kept.keys() ^ found.provenance.keys() <= {"not_protected"}
    source = {"door": expected.provenance["door"]}
    assert_same(replace(found, provenance=kept | source), expected)


def of(
    budget: Budget, neighbors: Neighbors = Neighbors.ADD_REMOVE, unit: Unit | None = None
) -> Guarantee:
    """Return a guarantee with this budget."""
    return Guarantee(budget, neighbors, unit or Unit())


def spend(ledger: Ledger, *budgets: Budget) -> Account:
    """Reserve each; returns the account after."""
    for budget in budgets:
        ledger.reserve(of(budget))
    return ledger.account()


def unchained(path: Path) -> None:
    """Make a ledger what the version before the chain would have written."""
    db = sqlite3.connect(path, isolation_level=None)
    for table in ("chain", "results", "endings"):
        db.execute(f"DROP TABLE {table}")
        db.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
    db.execute("PRAGMA user_version = 1")
    db.close()
