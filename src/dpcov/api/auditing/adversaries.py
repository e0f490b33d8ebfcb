"""Units that change what a mechanism publishes as much as any can: for `dpcov.api.auditing`.

Rows at the bounds, at the midpoints and at the centre of each map; rows whose image is as long as
the clip, and one part in a million shorter or longer; orthogonal and collinear images;
persons with as many rows as count, and with more; rows of the largest weight, a part of it and
none; levels; flags; cells that are missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.api.auditing.rounds import Question
    from dpcov.rows.sources.rows import Rows

    Vector = NDArray[np.float64]

PERSON, WEIGHT, LEVEL = "person", "weight", "level"
MOST_ROWS = 3  # of a person
LEVELS = ("a", "b", "c")
NEAR = 2.0**-20  # shorter or longer than the clip
# By what two rows that differ most in their squares lean away from each other where products with
# an intercept of a half count too: half of the columns with every other, in l1, and two in l2.
IN_L1, IN_L2 = 0.1503, 0.0625


@dataclass(frozen=True, slots=True)
class Unit:
    """A row, or the rows of a person: numbers (m, p) in [-1, 1], and their weights."""

    name: str
    numbers: Vector
    weight: float = 1.0
    level: str | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """What a schema declares beside `columns` numbers between -1 and 1, or flags."""

    name: str
    columns: int
    declared: Mapping[str, Any] = field(default_factory=dict)
    has_levels: bool = False
    has_gaps: bool = False
    has_flags: bool = False

    def schema(self) -> Schema:
        if self.has_flags:
            flags = {f"x{i}": {"kind": "flag"} for i in range(self.columns)}
            return Schema.parse({"version": 2, "columns": flags, **self.declared})
        numeric = {"kind": "numeric", "lower": -1.0, "upper": 1.0}
        if self.has_gaps:
            numeric |= {"missing": "pairwise"}
        columns: dict[str, Any] = {f"x{i}": numeric for i in range(self.columns)}
        if self.has_levels:
            columns[LEVEL] = {"kind": "categorical", "levels": LEVELS}
        return Schema.parse({"columns": columns, **self.declared})

    def rows(self, units: Sequence[Unit]) -> Rows:
        """A table of these units, behind the door."""
        import pyarrow as pa

        numbers = np.concatenate([np.empty((0, self.columns)), *(unit.numbers for unit in units)])
        if self.has_flags:
            numbers = (numbers > 0).astype(np.float64)
        table: dict[str, Any] = {f"x{i}": column for i, column in enumerate(numbers.T)}
        sizes = [len(unit.numbers) for unit in units]
        table[PERSON] = np.repeat(np.arange(len(units)), sizes)
        table[WEIGHT] = np.repeat(np.array([unit.weight for unit in units], np.float64), sizes)
        levels = [unit.level for unit in units for _ in unit.numbers]
        table[LEVEL] = pa.array(levels, pa.string())
        return open_rows(pa.table(table), self.schema(), threads=1)


def settings(columns: int) -> tuple[Setting, ...]:
    """Without an intercept, with one, with a clip, persons, weights, levels, gaps, and flags."""
    person = {"column": PERSON, "max_rows": MOST_ROWS, "type": "integer"}
    return (
        Setting("rows", columns),
        Setting("rows without intercept", columns, {"intercept": 0.0}),
        Setting("clipped rows", columns, {"radius": 1.0, "intercept": 0.5}),
        Setting("persons", columns, {"unit": person}),
        Setting("weights", columns, {"weight": {"column": WEIGHT, "maximum": 2.0}}),
        Setting("levels", columns - 1, has_levels=True),
        Setting("gaps", columns, has_gaps=True),
        Setting("flags", columns, has_flags=True),
    )


def base(setting: Setting, rows: int, generator: np.random.Generator) -> list[Unit]:
    """A table far from the midpoints, its columns of different sizes, with a few long rows."""
    sizes = 0.3 * 4.0 ** -np.arange(setting.columns)
    numbers = 0.2 + sizes * generator.standard_normal((rows, setting.columns))
    numbers[::500] *= 3
    numbers = np.clip(numbers, -1, 1)
    return [Unit("base", row[None], 2.0, LEVELS[i % 3]) for i, row in enumerate(numbers)]


def units(
    setting: Setting, asked: Sequence[Question], count: int, generator: np.random.Generator
) -> Iterator[Unit]:
    """At least `count` of them, those that reach most first, for what a mechanism asked."""
    rows = {row.tobytes(): (name, row) for name, row in _at_bounds(setting.columns)}
    for number, question in enumerate(asked, 1):
        for name, row in _images(setting, question):
            rows.setdefault(row.tobytes(), (f"{name} of question {number}", row))
    for i in range(len(rows), count):
        row = generator.uniform(-1, 1, setting.columns) ** 3
        rows[row.tobytes()] = f"random row {i}", row
    for name, row in rows.values():
        yield from _of_row(setting, name, row)


def _of_row(setting: Setting, name: str, row: Vector) -> Iterator[Unit]:
    """The row itself; as that of a person, of a weight, with a level."""
    one = row[None]
    if "unit" in setting.declared:
        yield Unit(f"{name}, all rows", np.repeat(one, MOST_ROWS, axis=0))
        yield Unit(f"{name}, and its opposite", np.concatenate([one, one, -one, one]))
    elif "weight" in setting.declared:
        for weight in (2.0, 0.3, 0.0):
            yield Unit(f"{name}, weight {weight:g}", one, weight)
    elif setting.has_levels:
        for level in (LEVELS[0], None):
            yield Unit(f"{name}, level {level}", one, level=level)
    else:
        yield Unit(name, one)
        if setting.has_gaps:
            yield Unit(f"{name}, last missing", np.append(row[:-1], np.nan)[None])
            yield Unit(f"{name}, first there alone", np.append(row[0], 0 * row[1:] + np.nan)[None])


def _at_bounds(columns: int) -> Iterator[tuple[str, Vector]]:
    axes, corner = np.eye(columns), np.ones(columns)
    half = np.where(np.arange(columns) < columns // 2, 1.0, -1.0)
    yield "half a corner", np.maximum(half, 0.0)
    yield "opposite half", np.minimum(half, 0.0)
    yield "midpoints", 0 * corner
    yield "corner", corner
    yield "opposite corner", -corner
    yield "orthogonal corner", half
    yield "first column", axes[0]
    yield "first column, other bound", -axes[0]
    yield "second column", axes[1]
    yield "first column, leaning", axes[0] - IN_L2 * axes[1]
    yield "second column, leaning", axes[1] - IN_L2 * axes[0]
    yield "half of the columns, leaning", np.where(half > 0, 1.0, -math.tan(IN_L1))
    yield "other half, leaning", np.where(half > 0, -math.tan(IN_L1), 1.0)
    angle = math.atan(math.sqrt(0.5)) / 2
    yield "turned", math.cos(angle) * axes[0] + math.sin(angle) * axes[1]
    yield "turned, orthogonal", math.cos(angle) * axes[1] - math.sin(angle) * axes[0]


def _images(setting: Setting, question: Question) -> Iterator[tuple[str, Vector]]:
    """Rows whose images have the lengths and directions that matter to a question."""
    schema, columns = setting.schema(), setting.columns
    transform, lattice = question.keywords.get("transform"), question.keywords.get("lattice")
    p = len(schema.features)
    at = [j for j, feature in enumerate(schema.features) if feature.variable][:columns]
    back = np.eye(p) if transform is None else np.linalg.pinv(transform.matrix())
    center = np.zeros(columns) if transform is None else transform.center[at]
    if lattice is None:
        lattice = Lattice.of(schema, radius=question.keywords.get("radius"))
    yield "centre", center
    for name, image in _directions(p, at, lattice):
        way = (back @ image)[at]  # its levels a row can't choose
        sizes = np.maximum(np.abs(way), np.finfo(float).tiny)
        most = float(np.min((1 - np.sign(way) * center) / sizes))
        beyond, shorter = 1 + NEAR, (1 - NEAR, 2.0**-12) if name == "first axis" else ()
        lengths = [lattice.radius * share for share in (*shorter, beyond)]
        for length in [most, *(length for length in lengths if length < most)]:
            yield f"{name}, {length:.8g} long,", np.clip(center + length * way, -1, 1)


def _directions(p: int, at: list[int], lattice: Lattice) -> Iterator[tuple[str, Vector]]:
    """Unit vectors; the last two are those of images that are orthogonal with their intercept."""
    axes = np.eye(p)[at]
    yield "first axis", axes[0]
    yield "last axis", axes[-1]
    angle = math.acos(-min(1.0, (lattice.intercept_units / lattice.side) ** 2)) / 2
    for sign, name in ((1, "one"), (-1, "other")):
        turned = math.cos(angle) * axes[0] + sign * math.sin(angle) * axes[1]
        yield f"{name} of an orthogonal pair", turned
