"""Exact losses of persons with 0 to 10,000 rows, if each person becomes one row, their mean.

A mechanism runs once on a table of persons. Its questions then go to pairs of tables that differ by
one person. The loss of each pair comes from the exact integers and the laws of the noise, as in
`dpcov audit`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa

from dpcov.api.auditing import MAX_RELATIVE_EXCESS
from dpcov.api.auditing.rounds import Published, released
from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP
from dpcov.mechanisms import Gaussian, MatrixLaplace, Standardized
from dpcov.rows import encoder, person_means
from dpcov.rows.schema import Schema
from dpcov.rows.sources import kept, open_rows
from figure import Figure

if TYPE_CHECKING:
    from dpcov.core.privacy import Budget
    from dpcov.mechanisms import Mechanism

ATTACK = "a privacy loss above the claim, persons as means"
CONTROL = "a privacy loss above the claim, persons as means: control that must be caught"
COUNTS = (0, 1, 2, 3, 7, 100, 9_999, 10_000)
QUICK_COUNTS = (0, 1, 3, 10_000)
MANY_PERSONS = 2_000  # The pilot then has precise results.
NUMBERS, LEVELS = ("x", "y", "z"), ("a", "b", "c")
UNIT = {"column": "id", "type": "integer", "aggregate": "mean"}


def _number(missing: str) -> dict[str, Any]:
    return {"kind": "number", "lower": -1.0, "upper": 1.0, "missing": missing}


def _schema(rules: tuple[str, str, str], level_rule: str = "", **more: Any) -> Schema:
    """Return a schema of three numbers, and of levels and a square if they have a rule."""
    columns: dict[str, Any] = {
        name: _number(rule) for name, rule in zip(NUMBERS, rules, strict=True)
    }
    if level_rule:
        other = {"other": True} if level_rule in ("level", "other") else {}
        columns["g"] = {"kind": "categorical", "levels": LEVELS, "missing": level_rule} | other
        more["derived"] = {"square": {"square": "x"}}
    return Schema.parse({"version": 3, "columns": columns, "unit": UNIT, **more})


SCHEMAS = {
    "numbers": _schema(("none", "none", "none")),
    "numbers without intercept": _schema(("none", "none", "none"), intercept=0.0),
    "clipped": _schema(("midpoint", "none", "pairwise"), radius=0.8, intercept=0.5),
    "small radius": _schema(("midpoint", "none", "level"), "zeros", radius=0.3),
    "missing cells and levels": _schema(("level", "pairwise", "midpoint"), "level"),
    "other levels": _schema(("none", "none", "none"), "other"),
}
ASKED: tuple[tuple[Mechanism, Budget], ...] = (
    (Gaussian(), ZCDP(0.5)),
    (Gaussian(radius="private"), ZCDP(0.5)),
    (MatrixLaplace(), PureDP(1.0)),
    (Standardized(), PureDP(1.0)),
    (Standardized(), ApproxDP(1.0, 1e-6)),
)

Person = dict[str, list[Any]]  # cells of each column


def _person(numbers: Any, levels: list[str | None] | None = None) -> Person:
    """Return a person with these rows, shape (m, 3)."""
    rows = np.reshape(numbers, (-1, len(NUMBERS))).T.tolist()
    cells: Person = dict(zip(NUMBERS, rows, strict=True))
    return cells | {"g": ["a"] * len(rows[0]) if levels is None else levels}


def persons(count: int) -> Iterator[tuple[str, Person]]:
    """Yield extreme persons with this number of rows."""
    ones = np.ones((count, len(NUMBERS)))
    signs = np.where(np.arange(count) % 2, -1.0, 1.0)
    turns = [(*LEVELS, "undeclared", None)[at % 5] for at in range(count)]
    yield "at the upper bounds", _person(ones)
    yield "at the lower bounds", _person(-ones)
    yield "far outside the bounds", _person(1e300 * ones)
    yield "infinite", _person(-np.inf * ones)
    yield "at both bounds in turn", _person(ones * signs[:, None], turns)
    yield "first column alone", _person(ones * [1.0, 0.0, 0.0])
    yield "at the midpoints", _person(0 * ones, [None] * count)
    gaps = ones.copy()
    gaps[1:] = np.nan
    yield "one row without missing cells", _person(gaps, turns)
    yield "missing cells alone", _person(np.nan * ones, [None] * count)
    yield "two levels", _person(ones, ["a"] * (count // 3) + ["b"] * (count - count // 3))
    slow = 1 - np.arange(count * len(NUMBERS)) / 2.0**21
    yield "values between lattice points", _person(slow, turns)


def _table(people: list[Person]) -> pa.Table:
    """Return the rows of persons, in a mixed order."""
    sizes = [len(one["g"]) for one in people]
    columns = {
        name: list(itertools.chain.from_iterable(one[name] for one in people))
        for name in (*NUMBERS, "g")
    }
    kinds = {name: pa.float64() for name in NUMBERS} | {"g": pa.string()}
    table = {name: pa.array(cells, kinds[name]) for name, cells in columns.items()}
    table["id"] = pa.array(np.repeat(np.arange(len(people)), sizes))
    order = np.random.default_rng(len(people)).permutation(sum(sizes))
    return pa.table(table).take(pa.array(order))


def _population(count: int, generator: np.random.Generator) -> list[Person]:
    """Return persons with 1 to 5 rows."""
    found = []
    for _ in range(count):
        rows = int(generator.integers(1, 6))
        numbers = np.clip(0.2 + 0.3 * generator.standard_normal((rows, len(NUMBERS))), -1, 1)
        found.append(_person(numbers, generator.choice(LEVELS, rows).tolist()))
    return found


@dataclass
class Losses:
    """Number of pairs, and the largest loss divided by the claim."""

    pairs: int = 0
    largest: Fraction = Fraction(0)
    pair: str = ""

    def add(self, published: Published, one: Any, other: Any, pair: str) -> None:
        """Add a pair of tables with these answers."""
        parts = zip(published.rounds, one, other, strict=True)
        lost = sum((asked.loss(a, b) for asked, a, b in parts), Fraction(0))
        self.pairs += 1
        if lost / published.whole >= self.largest:
            self.largest, self.pair = lost / published.whole, pair


def _answers(published: Published, schema: Schema, people: list[Person]) -> list[Any]:
    """Return the exact integers of each round for the rows of these persons."""
    rows = open_rows(_table(people), schema, threads=1)
    return [one.of(rows) for one in published.rounds]


def losses(
    mechanism: Mechanism, budget: Budget, neighbors: Neighbors, counts: tuple[int, ...]
) -> Losses:
    """Return the largest loss of a mechanism over all schemas and extreme persons."""
    result = Losses()
    for name, schema in SCHEMAS.items():
        if isinstance(mechanism, Standardized) and not schema.intercept:
            continue  # refused, because it needs means
        for size in (1, MANY_PERSONS):
            generator = np.random.default_rng(size)
            rows = open_rows(_table(_population(size, generator)), schema, threads=1)
            published = released(mechanism, rows, budget, neighbors, Entropy.seeded(size))
            common = _population(2, generator)
            found = {
                f"{name}, {count} rows, {kind}": _answers(published, schema, [*common, person])
                for count in counts
                for kind, person in persons(count)
            }
            if neighbors == Neighbors.ADD_REMOVE:
                nobody = _answers(published, schema, common)
                for pair, one in found.items():
                    result.add(published, one, nobody, pair)
                continue
            for (pair, one), (other, two) in itertools.combinations(found.items(), 2):
                result.add(published, one, two, f"{pair} / {other}")
    return result


def measure(quick: bool) -> list[Figure]:
    """Compute the losses of each mechanism, then of a library with planted faults."""
    counts = QUICK_COUNTS if quick else COUNTS
    figures = []
    for mechanism, budget in ASKED[:1] if quick else ASKED:
        for neighbors in Neighbors:
            if quick and neighbors == Neighbors.REPLACE_ONE:
                continue
            found = losses(mechanism, budget, neighbors, counts)
            what = f"{mechanism}, {budget}, {neighbors}: {found.pairs:,} pairs"
            print(f"{what}: {float(found.largest):.6f}, {found.pair}", flush=True)
            ok = found.largest <= 1 + Fraction(MAX_RELATIVE_EXCESS)
            share = f"{float(found.largest):.6f}"
            figures.append(Figure(ATTACK, what, "<= 1 of the claim", share, ok))
    return [*figures, _twice(), _sums()]


def _caught(fault: str) -> Figure:
    """Return the figure of a planted fault."""
    found = losses(Gaussian(), ZCDP(0.5), Neighbors.ADD_REMOVE, (3,))
    share = f"{float(found.largest):.6f}"
    return Figure(CONTROL, f"gaussian, {fault}", "> 1", share, found.largest > 1)


def _twice() -> Figure:
    """Plant a fault: each person has two mean rows."""
    honest = kept.PersonMeans._means

    def twice(self: Any, *asked: Any) -> Any:
        return np.repeat(honest(self, *asked), 2, axis=0)

    with mock.patch.object(kept.PersonMeans, "_means", twice):
        return _caught("two rows per person")


def _sums() -> Figure:
    """Plant a fault: rows are sums in place of means, and no row is certified."""

    def undivided(sums: Any, counts: Any) -> Any:
        return np.where(counts > 0, sums, 0)

    capped = np.full(1, np.inf)

    class Uncapped(encoder.MeanColumns):
        def __init__(self, *asked: Any) -> None:
            super().__init__(*asked)
            self._caps = np.repeat(capped, len(self._caps))

    with (
        mock.patch.object(person_means, "divided", undivided),
        mock.patch.object(encoder, "MeanColumns", Uncapped),
        mock.patch.object(encoder, "_certify"),
    ):
        return _caught("sums that are not clipped")
