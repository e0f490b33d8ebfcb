"""Privacy units that change the published results as much as possible, for audits.

The units include:

- rows at the bounds, at the midpoints and at the center of each transformation;
- rows whose transformed norm is the clipping radius, or one millionth below or above the radius;
- rows whose transformed rows are orthogonal or collinear;
- persons with the largest number of rows, and with more rows;
- rows with the largest weight, a smaller weight and no weight;
- rows with categories, flags and missing cells.
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
    import pyarrow as pa
    from numpy.typing import NDArray

    from dpcov.api.auditing.rounds import Question
    from dpcov.rows.sources.rows import Rows

    Vector = NDArray[np.float64]

PERSON_COLUMN, WEIGHT_COLUMN, LEVEL_COLUMN = "person", "weight", "level"
# Largest number of rows of a person in the audited tables.
MAX_ROWS_PER_PERSON = 3
CATEGORIES = ("a", "b", "c")
# Relative distance of a transformed norm from the clipping radius, about one millionth.
RELATIVE_DISTANCE = 2.0**-20
# Tilts of two rows away from each other, in radians (for half of the columns) and as a fraction
# (for two columns). With an intercept of 0.5, the tilts maximise the change of the pilot sums in
# l1 norm and in l2 norm.
L1_TILT, L2_TILT = 0.1503, 0.0625


@dataclass(frozen=True, slots=True)
class Unit:
    """Privacy unit: one row, or the rows of one person.

    Attributes
    ----------
    name : str
        Description of the unit.

    numbers : ndarray, shape (m, p)
        Numeric values in [-1, 1].

    weight : float
        Weight of each row.

    level : str or None
        Category of each row. None for a missing category.

    """

    name: str
    numbers: Vector
    weight: float = 1.0
    level: str | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """Schema of the tables: `columns` numbers in [-1, 1] or flags, with more declarations.

    Attributes
    ----------
    name : str
        Name of the setting.

    columns : int
        Number of numeric columns or flags.

    declared : mapping
        Further declarations of the schema.

    has_levels : bool
        True if the schema has a categorical column.

    has_missing_cells : bool
        True if numbers can be missing.

    has_flags : bool
        True if the columns are flags.

    """

    name: str
    columns: int
    declared: Mapping[str, Any] = field(default_factory=dict)
    has_levels: bool = False
    has_missing_cells: bool = False
    has_flags: bool = False

    def schema(self) -> Schema:
        if self.has_flags:
            flags = {f"x{i}": {"kind": "flag"} for i in range(self.columns)}
            return Schema.parse({"version": 2, "columns": flags, **self.declared})
        numeric = {"kind": "numeric", "lower": -1.0, "upper": 1.0}
        if self.has_missing_cells:
            numeric |= {"missing": "pairwise"}
        columns: dict[str, Any] = {f"x{i}": numeric for i in range(self.columns)}
        if self.has_levels:
            columns[LEVEL_COLUMN] = {"kind": "categorical", "levels": CATEGORIES}
        return Schema.parse({"columns": columns, **self.declared})

    def rows(self, units: Sequence[Unit]) -> Rows:
        """Return a data source with the rows of these privacy units."""
        return open_rows(self.table(units), self.schema(), threads=1)

    def table(self, units: Sequence[Unit]) -> pa.Table:
        """Return a table with the rows of these privacy units."""
        import pyarrow as pa

        numbers = np.concatenate([np.empty((0, self.columns)), *(unit.numbers for unit in units)])
        if self.has_flags:
            numbers = (numbers > 0).astype(np.float64)
        table: dict[str, Any] = {f"x{i}": column for i, column in enumerate(numbers.T)}
        sizes = [len(unit.numbers) for unit in units]
        table[PERSON_COLUMN] = np.repeat(np.arange(len(units)), sizes)
        table[WEIGHT_COLUMN] = np.repeat(
            np.array([unit.weight for unit in units], np.float64), sizes
        )
        levels = [unit.level for unit in units for _ in unit.numbers]
        table[LEVEL_COLUMN] = pa.array(levels, pa.string())
        return pa.table(table)


def settings(columns: int) -> tuple[Setting, ...]:
    """Return all settings: rows, persons, weights, categories, missing cells and flags.

    Parameters
    ----------
    columns : int
        Number of columns of the tables.

    Returns
    -------
    tuple of Setting
        Settings of the audit.

    """
    person = {"column": PERSON_COLUMN, "max_rows": MAX_ROWS_PER_PERSON, "type": "integer"}
    return (
        Setting("rows", columns),
        Setting("rows without intercept", columns, {"intercept": 0.0}),
        Setting("clipped rows", columns, {"radius": 1.0, "intercept": 0.5}),
        Setting("persons", columns, {"unit": person}),
        Setting("weights", columns, {"weight": {"column": WEIGHT_COLUMN, "maximum": 2.0}}),
        Setting("categories", columns - 1, has_levels=True),
        Setting("missing cells", columns, has_missing_cells=True),
        Setting("flags", columns, has_flags=True),
    )


def base(setting: Setting, rows: int, generator: np.random.Generator) -> list[Unit]:
    """Return a table away from the midpoints, with columns of different sizes.

    A few rows have large norms.

    Parameters
    ----------
    setting : Setting
        Schema of the table.

    rows : int
        Number of rows.

    generator : numpy.random.Generator
        Source of random numbers.

    Returns
    -------
    list of Unit
        Rows of the table.

    """
    sizes = 0.3 * 4.0 ** -np.arange(setting.columns)
    numbers = 0.2 + sizes * generator.standard_normal((rows, setting.columns))
    numbers[::500] *= 3
    numbers = np.clip(numbers, -1, 1)
    return [Unit("base", row[None], 2.0, CATEGORIES[i % 3]) for i, row in enumerate(numbers)]


def units(
    setting: Setting, asked: Sequence[Question], count: int, generator: np.random.Generator
) -> Iterator[Unit]:
    """Generate adversarial privacy units for the queries of a mechanism.

    Parameters
    ----------
    setting : Setting
        Schema of the table.

    asked : sequence of Question
        Queries of the mechanism.

    count : int
        Smallest number of rows. Random rows complete the number.

    generator : numpy.random.Generator
        Source of random numbers.

    Yields
    ------
    Unit
        Privacy unit.

    """
    rows = {row.tobytes(): (name, row) for name, row in _at_bounds(setting.columns)}
    for number, question in enumerate(asked, 1):
        for name, row in _critical_rows(setting, question):
            rows.setdefault(row.tobytes(), (f"{name} of query {number}", row))
    for i in range(len(rows), count):
        row = generator.uniform(-1, 1, setting.columns) ** 3
        rows[row.tobytes()] = f"random row {i}", row
    for name, row in rows.values():
        yield from _of_row(setting, name, row)


def _of_row(setting: Setting, name: str, row: Vector) -> Iterator[Unit]:
    """Generate the privacy units of one row: persons, weights, categories or missing cells."""
    one = row[None]
    if "unit" in setting.declared:
        yield Unit(f"{name}, all rows", np.repeat(one, MAX_ROWS_PER_PERSON, axis=0))
        yield Unit(f"{name}, and its opposite", np.concatenate([one, one, -one, one]))
    elif "weight" in setting.declared:
        for weight in (2.0, 0.3, 0.0):
            yield Unit(f"{name}, weight {weight:g}", one, weight)
    elif setting.has_levels:
        for level in (CATEGORIES[0], None):
            yield Unit(f"{name}, category {level}", one, level=level)
    else:
        yield Unit(name, one)
        if setting.has_missing_cells:
            yield Unit(f"{name}, last cell missing", np.append(row[:-1], np.nan)[None])
            rest = 0 * row[1:] + np.nan
            yield Unit(f"{name}, all cells but the first missing", np.append(row[0], rest)[None])


def _at_bounds(columns: int) -> Iterator[tuple[str, Vector]]:
    axes, vertex = np.eye(columns), np.ones(columns)
    half = np.where(np.arange(columns) < columns // 2, 1.0, -1.0)
    yield "first half at upper bounds", np.maximum(half, 0.0)
    yield "second half at lower bounds", np.minimum(half, 0.0)
    yield "midpoints", 0 * vertex
    yield "upper bounds", vertex
    yield "lower bounds", -vertex
    yield "upper and lower bounds", half
    yield "first column at upper bound", axes[0]
    yield "first column at lower bound", -axes[0]
    yield "second column at upper bound", axes[1]
    yield "first column, tilted", axes[0] - L2_TILT * axes[1]
    yield "second column, tilted", axes[1] - L2_TILT * axes[0]
    yield "first half, tilted", np.where(half > 0, 1.0, -math.tan(L1_TILT))
    yield "second half, tilted", np.where(half > 0, -math.tan(L1_TILT), 1.0)
    angle = math.atan(math.sqrt(0.5)) / 2
    yield "rotated", math.cos(angle) * axes[0] + math.sin(angle) * axes[1]
    yield "rotated, orthogonal", math.cos(angle) * axes[1] - math.sin(angle) * axes[0]


def _critical_rows(setting: Setting, question: Question) -> Iterator[tuple[str, Vector]]:
    """Generate rows whose transformed rows have critical norms and directions for a query."""
    schema, columns = setting.schema(), setting.columns
    transform, lattice = question.keywords.get("transform"), question.keywords.get("lattice")
    p = len(schema.features)
    at = [j for j, feature in enumerate(schema.features) if feature.variable][:columns]
    back = np.eye(p) if transform is None else np.linalg.pinv(transform.matrix())
    center = np.zeros(columns) if transform is None else transform.center[at]
    if lattice is None:
        lattice = Lattice.of(schema, radius=question.keywords.get("radius"))
    yield "center", center
    for name, transformed in _directions(p, at, lattice):
        way = (back @ transformed)[at]  # only the numeric values are free
        sizes = np.maximum(np.abs(way), np.finfo(float).tiny)
        most = float(np.min((1 - np.sign(way) * center) / sizes))
        above = 1 + RELATIVE_DISTANCE
        below = (1 - RELATIVE_DISTANCE, 2.0**-12) if name == "first axis" else ()
        norms = [lattice.radius * share for share in (*below, above)]
        for norm in [most, *(norm for norm in norms if norm < most)]:
            yield f"{name}, norm {norm:.8g},", np.clip(center + norm * way, -1, 1)


def _directions(p: int, at: list[int], lattice: Lattice) -> Iterator[tuple[str, Vector]]:
    """Generate unit vectors.

    The last two vectors belong to rows that are orthogonal if the intercept is included.
    """
    axes = np.eye(p)[at]
    yield "first axis", axes[0]
    yield "last axis", axes[-1]
    angle = math.acos(-min(1.0, (lattice.intercept_units / lattice.side) ** 2)) / 2
    for sign, name in ((1, "first"), (-1, "second")):
        rotated = math.cos(angle) * axes[0] + sign * math.sin(angle) * axes[1]
        yield f"{name} row of an orthogonal pair", rotated
