"""Check that neighbours that differ in one extreme cell or in one row have the same outcome."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dpcov
from dpcov.estimators import NullModelWarning, PrivateCovariance, PrivateRidge
from dpcov.rows.sources.sql import DatabaseTable
from figure import Figure
from outcomes import Book, Outcome, files_in, outcome_of
from readers_at_work import run
from sources import DataSource, DataSources, Trained
from sources_independence import Effort
from sources_roles import MISSING, ROLES, Role, Unit, columns_of, is_row

ATTACK = "outcomes of neighbours"
ASKED: list[dict[str, Any]] = [
    {"epsilon": 1.0, "mechanism": "laplace", "denoise": "none"},
    {"rho": 0.5, "mechanism": "gaussian", "denoise": "none", "radius": "private"},
    {"epsilon": 1.0, "neighbors": "replace-one", "mechanism": "laplace", "denoise": "project"},
    {"epsilon": 1.0, "delta": 1e-6, "denoise": "none"},
    {"epsilon": 1.0},
]
REPLACE_ONE = 2  # in ASKED
SIZE = 12  # rows, or persons, of the tables


@dataclass
class Pairs:
    """Number of compared pairs, by reader, and the pairs whose outcomes differ.

    `refused` counts pairs of which both tables were refused in the same words before any spend.
    These pairs are not in the number of compared pairs.
    """

    count: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    differences: list[str] = field(default_factory=list)

    def compare(self, source: str, what: str, one: Outcome, other: Outcome) -> None:
        if one == other and not one.happened:
            self.refused += 1
            return
        self.count[source] += 1
        if one != other:
            self.differences.append(f"{source} | {what}: {_first_difference(one, other)}")


def _first_difference(one: Outcome, other: Outcome) -> str:
    for name in ("ended", "printed", "spent", "files"):
        here, there = str(getattr(one, name)), str(getattr(other, name))
        if here != there:
            at = next((i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), 0)
            around = slice(max(0, at - 40), at + 80)
            return f"{name}: {here[around]!r} and {there[around]!r}"
    return ""


def neighbours(
    clean: list[Unit], odd: list[Unit], same_number: bool
) -> Iterator[tuple[str, list[Unit]]]:
    """Yield tables that differ from `clean` in one cell or in one unit."""
    for at, one in enumerate(odd):
        place = (at * 5) % len(clean)
        changed = replace(one, number=clean[place].number)
        yield f"cell {one.cell!r:.40}", [*clean[:place], changed, *clean[place + 1 :]]
        if not same_number:
            yield f"row {one.cell!r:.40}", [*clean[:place], one, *clean[place:]]
    if not same_number:
        yield "one row less", clean[1:]


def _called(
    data: Any, role: Role, source: DataSource, book: Book, asked: dict[str, Any]
) -> Outcome:
    schema = role.schema(source)
    kind = f"{asked.get('neighbors')} {schema.privacy_unit}"
    ledger = book.ledger(kind)[1]
    request = {**asked, "schema": schema, "where": role.where, "ledger": ledger}

    def call() -> Any:
        table = data.opened() if isinstance(data, Trained) else data
        if role.by is not None:
            request.pop("radius", None)
            return dpcov.release_by(table, role.by, **request)
        return dpcov.release(table, **request)

    return outcome_of(call, book, _name(data))


def _name(data: Any) -> str:
    if isinstance(data, DatabaseTable):
        return data.table
    return str(data) if isinstance(data, Path) else ""


def in_process(
    source: DataSource, effort: Effort, pairs: Pairs, book: Book, turn: Iterator[int]
) -> None:
    """Compare neighbours through `dpcov.release`, in every type and role of a reader."""
    for kind in effort.of_types(source):
        cells = source.types[kind]
        for at, role in enumerate(effort.roles):
            asked = ASKED[next(turn) % len(ASKED)]
            companions = list(cells.clean)[at % len(cells.clean)]
            held = itertools.islice(itertools.cycle(cells.clean[companions]), SIZE)
            clean = [Unit(cell, number) for number, cell in enumerate(held, 1)]
            everything = [cell for cell in cells.odd if not role.persons or is_row(cell)]
            chosen = effort.some(everything, at)
            odd = [Unit(cell, number) for number, cell in enumerate(chosen, SIZE + 1)]
            changed = list(neighbours(clean, odd, asked is ASKED[REPLACE_ONE]))
            tables = [columns_of(units, source, kind, role.persons) for _, units in changed]
            first = columns_of(clean, source, kind, role.persons)
            base, *others = source.tables([first, *tables])
            expected = _called(base, role, source, book, asked)
            for (what, _), data in zip(changed, others, strict=True):
                found = _called(data, role, source, book, asked)
                pairs.compare(source.name, f"{kind} | {role.name} | {what}", expected, found)


def in_fits(source: DataSource, effort: Effort, pairs: Pairs, book: Book) -> None:
    """Compare neighbours through `fit`, in every type of an estimators' reader."""
    for kind in effort.of_types(source):
        cells = source.types[kind]
        held = itertools.islice(itertools.cycle(next(iter(cells.clean.values()))), SIZE)
        clean = [Unit(cell, number) for number, cell in enumerate(held, 1)]
        chosen = effort.some(cells.odd, len(kind))
        odd = [Unit(cell, number) for number, cell in enumerate(chosen, SIZE + 1)]
        changed = [("", clean), *neighbours(clean, odd, same_number=False)]
        tables = source.tables(
            [columns_of(units, source, kind, persons=False) for _, units in changed]
        )
        expected, *outcomes = (_fitted(data, book) for data in tables)
        for (what, _), found in zip(changed[1:], outcomes, strict=True):
            pairs.compare(f"{source.name}, fit", f"{kind} | {what}", expected, found)


def _fitted(data: Trained, book: Book) -> Outcome:
    ledger = book.ledger("fits")[1]
    count = len(data.names)
    asked = {"bounds": ([-5] * count, [5] * count), "epsilon": 1.0, "ledger": ledger}
    model = PrivateRidge(target_bounds=(-5, 5), mechanism="laplace", **asked)
    own: Any = PrivateCovariance(**asked) if data.target is None else model

    def call() -> Any:
        with warnings.catch_warnings():  # the noise decides what can be made of a release
            warnings.simplefilter("ignore", NullModelWarning)
            return own.fit(data.table, data.target).release_

    return outcome_of(call, book)


def toml(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def schema_text(role: Role, source: DataSource) -> str:
    """Return the schema of a role as a file."""
    document = {"columns": role.columns, "missing": MISSING, **role.fields, "file": source.options}
    return "".join(f"{name} = {toml(value)}\n" for name, value in document.items())


RELEASE = "release {data} --schema s.toml --out r.json --epsilon 1 --ledger {ledger}"
LINES = [
    RELEASE + " --mechanism laplace",
    RELEASE + " --denoise none --json",
    "moments {data} --schema s.toml --out sums.json",
    "schema {data} --out draft.toml",
]


def on_the_command_line(
    source: DataSource, effort: Effort, pairs: Pairs, book: Book, lines: Sequence[str] = LINES
) -> None:
    """Compare neighbours through the command line, under the same file name."""
    here = Path.cwd()
    for kind in effort.of_types(source):
        cells = source.types[kind]
        for at, role in enumerate(effort.roles):
            companions = list(cells.clean)[at % len(cells.clean)]
            held = itertools.islice(itertools.cycle(cells.clean[companions]), SIZE)
            clean = [Unit(cell, number) for number, cell in enumerate(held, 1)]
            chosen = effort.some([c for c in cells.odd if not role.persons or is_row(c)], at)
            odd = [Unit(cell, number) for number, cell in enumerate(chosen, SIZE + 1)]
            changed = [("", clean), *neighbours(clean, odd, same_number=False)]
            line = lines[at % len(lines)] if not (role.where or role.by) else lines[0]
            outcomes = []
            for _, units in changed:
                (data,) = source.tables([columns_of(units, source, kind, role.persons)])
                with TemporaryDirectory() as place:
                    os.chdir(place)
                    try:
                        outcomes.append(_ran(line, data, role, source, book))
                    finally:
                        os.chdir(here)
            for (what, _), found in zip(changed[1:], outcomes[1:], strict=True):
                reported = f"{kind} | {role.name} | {line.split()[0]} | {what}"
                pairs.compare(f"{source.name}, command line", reported, outcomes[0], found)


def _ran(line: str, data: Any, role: Role, source: DataSource, book: Book) -> Outcome:
    table = data.table if isinstance(data, DatabaseTable) else ""
    place = data.database if isinstance(data, DatabaseTable) else data
    if isinstance(place, Path):
        name = "data" + "".join(place.suffixes[-2:])
        shutil.copy(place, name)
    else:
        name = str(place)
    Path("s.toml").write_text(schema_text(role, source))
    ledger = book.ledger(f"add-remove {role.schema(source).privacy_unit}")[0]
    words = line.format(data=name, ledger=ledger)
    if table:
        words += f" --table {table}"
    if role.by:
        words += f" --by {role.by}"
    arguments = words.split()
    if "schema" not in arguments[0]:
        for condition in role.where:
            arguments += ["--where", condition]
    code, text = run(arguments, Path("printed"))
    Path("printed").unlink()
    for hidden in (table, str(ledger)):
        text = text.replace(hidden, "NAME") if hidden else text
    text = NOISY.sub("NOISY", text)
    return Outcome(str(code), text, book.spent(), files_in(Path()))


# What the noise decides, and what is left in a ledger that others spent from.
NOISY = re.compile(r'"(left|uninformative|noise_warnings|drowned)": (\{[^}]*\}|\[[^\]]*\]|\w+)')
ON_FILES = ("CSV", "TSV", "gzip", "CSV, records = lines", "Parquet", "SQLite", "DuckDB file")


def effort(source: DataSource, quick: bool, turn: int) -> Effort:
    """Return what to try at a reader; a quick run tries other roles at each reader."""
    if source.name == "Spark":
        return Effort(odd=2, kinds=2, roles=ROLES[:1])
    if quick:
        return Effort(1 if source.costly else 2, ROLES[turn % 5 :: 5], 1)
    return Effort(1 if source.costly else 2, kinds=4)


def compared(all_sources: DataSources, quick: bool) -> Pairs:
    """Compare all pairs."""
    pairs, turns = Pairs(), itertools.count()
    with TemporaryDirectory() as place:
        book = Book(Path(place))
        with_rows = [
            source for source in all_sources.found.values() if source.name != "files of sums"
        ]
        for turn, source in enumerate(with_rows):
            in_process(source, effort(source, quick, turn), pairs, book, turns)
            if source.name.startswith("estimators"):
                in_fits(source, Effort(2 if quick else 8), pairs, book)
        for turn, name in enumerate(ON_FILES):
            some = Effort(1, ROLES[turn::6], 1) if quick else Effort(4, kinds=1)
            on_the_command_line(all_sources.found[name], some, pairs, book)
    return pairs


def figures(all_sources: DataSources, quick: bool) -> list[Figure]:
    """Return the figures about outcomes."""
    pairs = compared(all_sources, quick)
    for line in pairs.differences[:40]:
        print("outcome:", line)
    count, wrong = sum(pairs.count.values()), len(pairs.differences)
    by_line = sum(n for name, n in pairs.count.items() if "command line" in name)
    least = 100 if quick else 3_000
    what = f"pairs, {by_line} of them on the command line; {pairs.refused} more were refused alike"
    return [
        Figure(ATTACK, what, f">= {least}", str(count), count >= least),
        Figure(ATTACK, "differences in exit, message, spend, files", "0", str(wrong), wrong == 0),
    ]
