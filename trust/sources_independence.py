"""Check that a unit's sums are the same alone and with other units, for all other units."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from figure import Figure
from sources import DataSource, DataSources
from sources_roles import ROLES, Image, Role, Unit, columns_of, image, is_row, total

REPEATS = 3  # of each clean cell in a company of rows
ATTACK = "one unit with and without other rows"


@dataclass
class Found:
    """Combinations of reader, type, role and companions, with the faults that were found."""

    combinations: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    tables: int = 0
    differences: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        self.combinations += other.combinations
        self.refused += other.refused
        self.tables += other.tables
        self.differences += other.differences


@dataclass(frozen=True)
class Effort:
    """How much is tried: odd cells that join clean companions, one at a time; roles; types."""

    odd: int
    roles: Sequence[Role] = tuple(ROLES)
    kinds: int | None = None

    def some(self, cells: list[Any], seed: int) -> list[Any]:
        """Return cells spread over the list, other cells for each seed."""
        if len(cells) <= self.odd:
            return cells
        step = len(cells) / self.odd
        return [cells[(int(step * at) + seed) % len(cells)] for at in range(self.odd)]

    def of_types(self, source: DataSource) -> list[str]:
        """Return types that are spread evenly over the types of a reader."""
        kinds = list(source.types)
        if self.kinds is None or len(kinds) <= self.kinds:
            return kinds
        return [kinds[len(kinds) * at // self.kinds] for at in range(self.kinds)]


def effort(source: DataSource, quick: bool, turn: int = 0) -> Effort:
    """Return what to try at a reader; a quick run tries other roles at each reader."""
    if source.name == "Spark":
        return Effort(1, [role for role in ROLES if role.name in SPARK], kinds=2)
    if (
        source.name.startswith("estimators,") and not quick
    ):  # the underlying readers have more tests
        return Effort(4)
    if quick:
        return Effort(1 if source.costly else 3, ROLES[turn % 4 :: 4], 1 if source.costly else 2)
    return Effort(2 if source.costly else 12)


SPARK = ("number", "levels", "person id (integer)", "number of a person", "condition on numbers")


def companies(
    clean: dict[str, list[Unit]], odd: list[Unit], chosen: list[Unit], repeats: int
) -> Iterator[tuple[str, list[Unit]]]:
    """Yield tables of one kind of clean cells, of these with an odd cell, and of all cells."""
    for kind, units in clean.items():
        company = units * repeats
        yield kind, company
        for at, one in enumerate(chosen):
            place = (0, len(company) // 2, len(company))[at % 3]
            yield kind, [*company[:place], one, *company[place:]]
    everybody = [unit for units in clean.values() for unit in units]
    yield "poisoned", [*everybody, *odd]


def _units(clean: dict[str, list[Any]], odd: list[Any]) -> tuple[dict[str, list[Unit]], list[Unit]]:
    numbers = itertools.count(1)
    units = {kind: [Unit(cell, next(numbers)) for cell in cells] for kind, cells in clean.items()}
    return units, [Unit(cell, next(numbers)) for cell in odd]


def _different(
    clean: dict[str, list[Unit]],
    odd: list[Unit],
    id_type: str | None,
    source: DataSource,
    column: str,
) -> tuple[dict[str, list[Unit]], list[Unit]]:
    """Keep the first unit of each person."""
    if id_type is None:
        return clean, odd
    known: set[Any] = set()

    def new(unit: Unit) -> bool:
        who = source.who(column, unit.cell, id_type)
        if who is None:
            return True
        fresh = who not in known
        known.add(who)
        return fresh

    kept = {kind: list(filter(new, units)) for kind, units in clean.items()}
    return {kind: units for kind, units in kept.items() if units}, list(filter(new, odd))


def compared_alone(source: DataSource, kind: str, effort: Effort) -> Found:
    """Check all roles of one type of column at a reader."""
    found = Found()
    cells = source.types[kind]
    roles: dict[tuple[bool, str | None], list[Role]] = {}
    for role in effort.roles:
        roles.setdefault((role.persons, role.id_type), []).append(role)
    for seed, ((persons, id_type), same) in enumerate(roles.items()):
        everything = [cell for cell in cells.odd if not persons or is_row(cell)]
        clean, odd = _different(*_units(cells.clean, everything), id_type, source, kind)
        chosen = effort.some(odd, seed)
        if len(odd) > 4 * effort.odd:
            odd = list({u.number: u for u in [*effort.some(odd, seed + 1), *chosen]}.values())
        repeats = 1 if persons else REPEATS
        tables = list(companies(clean, odd, chosen, repeats))
        units = list({unit.number: unit for unit in _ordered(clean, odd)}.values())
        asked = [[unit] for unit in units] + [table for _, table in tables]
        made = source.tables([columns_of(table, source, kind, persons) for table in asked])
        for at, role in enumerate(same):
            if at:  # streams come once
                made = _again(source, made, asked, kind, persons)
            found.add(_compared(source, kind, role, units, tables, made))
    return found


def _ordered(clean: dict[str, list[Unit]], odd: list[Unit]) -> list[Unit]:
    return [*(unit for units in clean.values() for unit in units), *odd]


def _again(
    source: DataSource, made: list[Any], asked: list[list[Unit]], kind: str, persons: bool
) -> list[Any]:
    """Make the tables again if they can be read only once."""
    if source.name != "Arrow stream":
        return made
    return source.tables([columns_of(table, source, kind, persons) for table in asked])


def _compared(
    source: DataSource,
    kind: str,
    role: Role,
    units: list[Unit],
    tables: list[tuple[str, list[Unit]]],
    made: list[Any],
) -> Found:
    """Compare every table of one role with the tables of its units."""
    found = Found()
    name = f"{source.name} | {kind} | {role.name}"
    alone: dict[int, Image] = {}
    for unit, data in zip(units, made, strict=False):
        alone[unit.number] = one = image(data, role, source)
        wrong = one.failed or (role.exact and not one.refused and one.counts != (1,))
        if wrong or (role.id_type and _miscounted(one, unit, role.id_type)):
            found.differences.append(f"{name} | alone {unit.cell!r:.40}: {one.counts or one}")
    for (companions, table), data in zip(tables, made[len(units) :], strict=True):
        whole, parts = image(data, role, source), total(alone[unit.number] for unit in table)
        if whole.refused and whole == parts:
            found.refused += 1
            continue
        found.combinations[f"{name} | {companions}"] += 1
        if whole != parts or whole.failed:
            found.differences.append(
                f"{name} | {companions} of {len(table)}: {_short(whole, parts)}"
            )
    found.tables = len(made)
    return found


def _miscounted(one: Image, unit: Unit, id_type: str) -> bool:
    """Return True if a unit with an id counts as several persons."""
    return not one.refused and sum(one.counts) > 1


def _short(whole: Image, parts: Image) -> str:
    if whole.refused or parts.refused or whole.failed or parts.failed:
        return f"{whole.refused[:80] or whole.failed} for {parts.refused[:80] or parts.failed}"
    return f"counts {whole.counts} for {parts.counts}, sums {whole.sums == parts.sums}"


def alone_and_together(found_sources: Iterable[DataSource], quick: bool) -> Found:
    """Check every reader, type, role and set of companions."""
    found = Found()
    for turn, source in enumerate(found_sources):
        began, here = time.process_time(), Found()
        tried = effort(source, quick, turn)
        for kind in tried.of_types(source):
            here.add(compared_alone(source, kind, tried))
        print(
            f"{source.name}: {len(here.combinations)} combinations, {here.tables} tables, "
            f"{len(here.differences)} differences, {time.process_time() - began:.0f} s",
            flush=True,
        )
        found.add(here)
    return found


def figures(all_sources: DataSources, quick: bool) -> list[Figure]:
    """Return the figures about units alone and with other units."""
    found = alone_and_together(all_sources.found.values(), quick)
    for line in found.differences[:40]:
        print("difference:", line)
    count, wrong = len(found.combinations), len(found.differences)
    absent = f"; not run: {', '.join(all_sources.absent)}" if all_sources.absent else ""
    sources = f"{len(all_sources.found)} sources{absent}"
    what = f"combinations of source, type, role and other rows ({sources})"
    least, tables = 200 if quick else 400, sum(found.combinations.values())
    shown = f"{count}, {tables} tables"
    return [
        Figure(ATTACK, what, f">= {least}", shown, count >= least),
        Figure(ATTACK, "differences", "0", str(wrong), wrong == 0),
    ]
