"""List the roles of a column in a release, and compute the exact sums of a table over its units.

The sums are additive: the sums of a table equal the total of the sums of its units' own tables, for
every source, type and role. The real reader computes the sums with the code of a release.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dpcov.api.grouped import prepare_by
from dpcov.api.request import Request
from dpcov.errors import DpcovError, SourceError
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.conditions import Conditions
from dpcov.rows.sources.partial import PartialMoment
from sources import Columns, DataSource, Summed, Trained
from sources_cells import Row

NUMBER = {"kind": "numeric", "lower": -5.0, "upper": 5.0, "missing": "level"}
PLAIN = {"kind": "numeric", "lower": 0.0, "upper": 9.0}
IGNORED = {"kind": "ignored"}
LEVELS = {
    "kind": "categorical",
    "levels": ["x", "y", 1, 2.5, "Zürich"],
    "other": True,
    "missing": "level",
}
TRUTHS = {"kind": "categorical", "levels": [True, False], "missing": "level"}
DATE = {"kind": "date", "lower": "1950-01-01", "upper": "2030-01-01", "missing": "level"}
FLAG = {"kind": "flag", "missing": "level"}
MISSING = ["", "NA", "-999"]
ROWS_OF_ONE = 3  # of a person, of which MOST_ROWS count
MOST_ROWS = 2
MODULUS = 2**64


@dataclass(frozen=True)
class Role:
    """What the column x0 is: `columns` and `fields` of the schema, and a condition.

    `persons`: each unit is a person. `exact`: each row is one unit. `copied`: rows are asked
    several times, hence from a private copy where a reading is costly.
    """

    name: str
    columns: dict[str, Any]
    fields: dict[str, Any] = field(default_factory=dict)
    where: tuple[str, ...] = ()
    by: str | None = None
    copied: bool = False

    @property
    def persons(self) -> bool:
        return "unit" in self.fields

    @property
    def id_type(self) -> str | None:
        """The declared type of x0, where it is the id."""
        unit = self.fields.get("unit", {})
        return unit["type"] if unit.get("column") == "x0" else None

    @property
    def exact(self) -> bool:
        return not (self.persons or self.where or self.by)

    def schema(self, source: DataSource) -> Schema:
        document = {"columns": self.columns, "missing": MISSING, **self.fields}
        return Schema.parse(document | {"file": source.options})


def _unit(column: str, kind: str) -> dict[str, Any]:
    return {"unit": {"column": column, "type": kind, "max_rows": MOST_ROWS}}


_OTHERS = {"x1": PLAIN, "x2": IGNORED}
_KINDS = {"x1": PLAIN | {"kind": "number"}, "x2": IGNORED}
_PRODUCT = {"derived": {"both": {"product": ["x0", "x1"]}}}
_X1 = {"x0": IGNORED, **_OTHERS}
ROLES = [
    Role("number", {"x0": NUMBER, **_OTHERS}),
    Role("number, copied", {"x0": NUMBER, **_OTHERS}, copied=True),
    Role("levels", {"x0": LEVELS, **_OTHERS}),
    Role("truths", {"x0": TRUTHS, **_OTHERS}),
    Role("weight", _X1, {"weight": {"column": "x0", "maximum": 2.0}}),
    *(
        Role(f"person id ({kind})", _X1, _unit("x0", kind))
        for kind in ("integer", "decimal", "uuid", "text")
    ),
    Role("number of a person", {"x0": NUMBER, **_OTHERS}, _unit("x2", "integer")),
    Role("condition on numbers", _X1, {"where": {"x0": "number"}}, ("x0 >= 1", "x0 != 2")),
    Role("condition on texts", _X1, {"where": {"x0": "text"}}, ("x0 in ('y', '1', 'Zürich')",)),
    Role("condition on truths", _X1, {"where": {"x0": "boolean"}}, ("x0 = true",)),
    Role("condition on levels", {"x0": LEVELS, **_OTHERS}, {}, ("x0 not in ('y', 2.5)",)),
    Role("condition on nulls", _X1, {"where": {"x0": "number"}}, ("x0 is null",)),
    Role("level of by", {"x0": LEVELS, **_OTHERS}, by="x0"),
    Role("date", {"x0": DATE, **_KINDS}, {"version": 2}),
    Role("flag and a product", {"x0": FLAG, **_KINDS}, {"version": 2, **_PRODUCT}),
    Role("condition on dates", {"x0": DATE, **_KINDS}, {"version": 2}, ("x0 < '1970-06-01'",)),
]


@dataclass(frozen=True)
class Image:
    """Exact sums, or a refusal by names and types alone, before anything could be booked.

    `counts` are the numbers of units; `failed`: something was raised while rows were read.
    """

    sums: tuple[int, ...] = ()
    hashes: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    refused: str = ""
    failed: bool = False


def total(images: Iterable[Image]) -> Image:
    """Return the sum of several results; a refusal or a failure is the result of all."""
    found = list(images)
    for one in found:
        if one.refused or one.failed:
            return one
    sums, hashes, counts = (
        tuple(map(sum, zip(*columns, strict=True)))
        for columns in zip(*((i.sums, i.hashes, i.counts) for i in found), strict=True)
    )
    return Image(sums, tuple(h % MODULUS for h in hashes), counts)


def image(data: Any, role: Role, source: DataSource) -> Image:
    """Return the exact sums and counts of a table."""
    try:
        schema = role.schema(source)
        data = data.opened() if isinstance(data, Trained) else data
        if isinstance(data, Summed):
            return _of_sums(data.table, role, schema)
        if role.by is not None:
            request = Request(schema=schema, epsilon=1.0, mechanism="laplace", threads=1)
            opened = [level.rows for level in prepare_by(data, role.by, request).levels.values()]
        else:
            opened = [open_rows(data, schema, Conditions.parse(role.where, schema), threads=1)]
    except DpcovError as error:
        return Image(refused=f"{type(error).__name__}: {error}")
    sums: list[int] = []
    hashes: list[int] = []
    counts: list[int] = []
    try:
        for rows in opened:
            with closing(rows):
                if role.copied:
                    rows.require_rereadable()
                moment, words = rows.hashed_moment()
            sums += map(int, moment.units[np.tril_indices(len(moment.units))])
            hashes += map(int, np.frombuffer(bytes.fromhex(words), np.uint64))
            counts.append(moment.unit_count)
    except Exception:
        return Image(failed=True)
    return Image(tuple(sums), tuple(hashes), tuple(counts))


def _of_sums(table: Any, role: Role, schema: Schema) -> Image:
    """Return the exact sums and counts of a table that was saved as a file of sums."""
    if role.by is not None:
        raise SourceError("Sums are of no level.")
    partial = PartialMoment.of(table, schema, where=role.where, threads=1)
    with TemporaryDirectory() as place:
        path = Path(place) / "sums.json"
        partial.save(path)
        loaded = PartialMoment.load(path)
    moment = loaded.seen(schema).second_moments()[0]
    sums = tuple(map(int, moment.units[np.tril_indices(len(moment.units))]))
    (words,) = loaded.parts or (bytes(16).hex(),)
    hashes = np.frombuffer(bytes.fromhex(words), np.uint64)
    return Image(sums, tuple(map(int, hashes)), (moment.unit_count,))


@dataclass(frozen=True)
class Unit:
    """A row, or all rows of a person: cells of x0, with a number that sets it apart."""

    cell: Any
    number: int


def columns_of(units: Iterable[Unit], source: DataSource, kind: str, persons: bool) -> Columns:
    """Return a table of units in which x1 identifies rows and x2 identifies persons."""
    x0: list[Any] = []
    x1: list[Any] = []
    x2: list[Any] = []
    for unit in units:
        for row in range(ROWS_OF_ONE if persons else 1):
            x0.append(unit.cell)
            x1.append((unit.number + 3 * row) % 10)
            x2.append(unit.number)
    whole = source.whole or kind
    text = whole == "text"
    others = [[str(c) for c in column] if text else column for column in (x1, x2)]
    return {"x0": (kind, x0), "x1": (whole, others[0]), "x2": (whole, others[1])}


def is_row(cell: Any) -> bool:
    """Return True if a cell can belong to one of a person's rows."""
    return not isinstance(cell, Row)
