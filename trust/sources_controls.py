"""Restore every old fault of the readers, and check that the same harness finds each fault.

Cases keep the numbers under which they were found. If a case appears in no sums and in no outcome,
a direct check in `sources_checks` covers it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sources_broken as broken
import sources_checks as checks
from dpcov.rows.schema import Numeric
from figure import Figure
from outcomes import Book
from sources import DataSource, DataSources, Trained
from sources_cells import FAR, Hostile, Row
from sources_independence import Effort, compared_alone
from sources_neighbours import LINES, Pairs, in_process, on_the_command_line
from sources_persons import Comparison, compare
from sources_roles import ROLES, image
from sources_tables import by_pandas, through, with_line_breaks

ATTACK = "controls: former faults of the data sources, planted again"
BY_NAME = {role.name: role for role in ROLES}
Seen = Callable[[], list[str]]


@dataclass(frozen=True)
class Control:
    """A case, what is broken, and the part of the harness that must find it."""

    case: str
    what: str
    broken: broken.Broken
    seen: Seen


@dataclass(frozen=True)
class Parts:
    """Parts of the harness, each a function that gives what it finds wrong."""

    sources: DataSources

    def _source(self, name: str, kind: str, companions: str, odd: list[Any]) -> DataSource:
        """Return a reader with one type of columns, one kind of cells, and these odd cells."""
        source = self.sources.found[name]
        held = source.types[kind]
        clean = {companions: held.clean[companions]}
        return replace(source, types={kind: replace(held, clean=clean, odd=odd)})

    def company(self, name: str, kind: str, role: str, companions: str, odd: list[Any]) -> Seen:
        source = self._source(name, kind, companions, odd)
        return lambda: compared_alone(source, kind, Effort(9, [BY_NAME[role]])).differences

    def neighbours(
        self,
        name: str,
        kind: str,
        role: str,
        companions: str,
        odd: list[Any],
        lines: list[str] | None = None,
    ) -> Seen:
        source, effort = self._source(name, kind, companions, odd), Effort(9, [BY_NAME[role]])

        def seen() -> list[str]:
            pairs = Pairs()
            with TemporaryDirectory() as place:
                book = Book(Path(place))
                if lines is None:
                    in_process(source, effort, pairs, book, itertools.count())
                else:
                    on_the_command_line(source, effort, pairs, book, lines)
            return pairs.differences

        return seen

    def ids(self, name: str, kind: str) -> Seen:
        def seen() -> list[str]:
            compared = Comparison()
            compare(compared, self.sources.found[name], kind, "decimal")
            return compared.wrong

        return seen

    def grammar(self) -> list[str]:
        rows = [["1_000", 1, 1], ["True", 2, 2], ["1.5", 3, 3], [" 1", 4, 4]]
        source, role = self.sources.found["lists"], BY_NAME["number"]
        trained = Trained(rows, ("x0", "x1", "x2"))
        same = image(trained, role, source) == image(rows, role, source)
        return [] if same else ["another image for estimators"]


def controls(sources: DataSources, folder: Path) -> Iterator[Control]:
    """Yield a control for each case, and controls for later findings."""
    for case, what, fault, seen in [
        *_by_the_rule(Parts(sources), folder),
        *_of_sources(sources, folder),
        *_of_sums(folder),
        *(_of_postgres(sources, sources.postgres) if sources.postgres else []),
    ]:
        yield Control(case, what, fault, seen)


Listed = tuple[str, str, broken.Broken, Seen]


def _by_the_rule(part: Parts, folder: Path) -> list[Listed]:
    """Return the cases that sums and outcomes show."""
    duckdb = part.neighbours("DuckDB file", "VARCHAR", "condition on truths", "truths", ["x"])
    drafts = part.neighbours("CSV", "text", "number", "decimals", ["unknown"], LINES[3:])
    dates = part.company("Arrow table", "timestamp", "person id (text)", "dates", [None, FAR])
    blank = part.company("CSV", "text", "number", "decimals", ["x", Row(b"")])
    broken_lines = part.company("CSV", "text", "number", "decimals", ["x", "a\nb"])
    sqlite = part.company("SQLite", "DECIMAL(10,3)", "number", "floats", [None, "x"])
    lists = part.company("estimators", "object", "number", "truths", [None, "x"])
    row = part.neighbours("estimators", "object", "number", "words", [Row([1, 2])])
    objects = part.neighbours(
        "pandas, objects", "object", "number", "floats", [Decimal("sNaN"), Hostile()]
    )
    target = part.neighbours("estimators, targets", "object", "number", "words", [Row([1, 2])])
    return [
        ("lists", "the first row of a list decides", broken.FIRST_ROW, row),
        ("lists", "the first target of a list decides", broken.FIRST_ROW, target),
        ("objects", "all objects together", broken.OBJECTS_TOGETHER, objects),
        ("1", "SQLite: a batch as int64", broken.WHOLE_BATCHES, sqlite),
        ("2", "lists: one type for all cells", broken.TYPE_OF_ALL, lists),
        ("3", "text: blank lines are no rows", broken.NO_BLANK_LINES, blank),
        ("4", "DuckDB: conditions pushed down", broken.PUSHED_DOWN, duckdb),
        ("5", "ids of dates, listed", broken.LISTED_IDS, dates),
        ("6", "drafts guess from cells", broken.GUESSED_KINDS, drafts),
        ("12", "lines are rows", broken.TEXT_BY_LINES, broken_lines),
        ("12", "lines are rows", broken.TEXT_BY_LINES, lambda: with_line_breaks(folder, 500)),
        ("14", "CSV: ids as spelt", broken.IDS_AS_WRITTEN, part.ids("CSV", "text")),
        ("14", "objects: ids as spelt", broken.IDS_AS_WRITTEN, part.ids("lists", "object")),
        ("14", "SQLite: ids as spelt", broken.IDS_AS_WRITTEN, part.ids("SQLite", "NUMERIC")),
        ("14", "objects: any float", broken.FLOATS_AS_PRINTED, part.ids("lists", "object")),
        ("14", "SQLite: any float", broken.STORED_FLOATS, part.ids("SQLite", "NUMERIC")),
        ("14", "SQLite: ids as numbers", broken.IDS_AS_NUMBERS, part.ids("SQLite", "REAL")),
        ("25", "estimators: a second grammar", broken.OWN_GRAMMAR, part.grammar),
        (
            "27",
            "SQLite: 1 and 0 are no truth values",
            broken.NO_LIKENESS,
            lambda: by_pandas(folder).differences,
        ),
    ]


def _of_sources(sources: DataSources, folder: Path) -> list[Listed]:
    """Return the cases of sources that a separate check shows."""
    duckdb, sqlite = sources.found["DuckDB file"], sources.found["SQLite"]
    found: list[Listed] = [
        ("7", "a sparse private copy", broken.SPARSE, lambda: checks.disk_full(folder)),
        ("7", "core files", broken.CORES, checks.no_core_files),
        ("8", "damaged Arrow arrays unchecked", broken.UNCHECKED_ARROW, checks.damaged_arrow),
        ("9", "the share that was read is shown", broken.SHARES_SHOWN, checks.no_progress),
        (
            "10",
            "DuckDB reaches the host's files",
            broken.OPEN_DUCKDB,
            lambda: checks.duckdb_reaches_nothing_outside(folder),
        ),
        (
            "11",
            "devices and pipes are files",
            broken.ANY_FILE,
            lambda: checks.devices_and_pipes(folder),
        ),
        (
            "13",
            "bounds that are equal in float64",
            nullcontext,
            lambda: checks.one_number_for_two(Numeric.model_construct),
        ),
        (
            "16",
            "DuckDB: cells of any length",
            broken.UNCAPPED,
            lambda: checks.largest_cell(duckdb, "VARCHAR"),
        ),
        (
            "16",
            "SQLite: cells of any length",
            broken.UNCAPPED_SQLITE,
            lambda: checks.largest_cell(sqlite, "TEXT"),
        ),
        ("19", "streams are taken for tables", broken.ALL_SETTLED, checks.read_twice),
        ("20", "ids and cells of two readings", broken.TWO_READINGS, checks.shuffled_persons),
        ("types", "decimals as Arrow casts them", broken.IN_FLOAT64, checks.codes_of_every_type),
        ("types", "float32 against float64", broken.NEVER_ROUNDED, checks.codes_of_every_type),
        ("paths", "Parquet by path", broken.BY_PATH, lambda: checks.named_like_a_path(folder)),
        ("years", "INT96 wraps", broken.IN_NANOSECONDS, lambda: checks.old_timestamps(folder)),
        ("types", "every column is opened", broken.EVERY_COLUMN, checks.types_that_arrow_lacks),
        ("28", "SQLite stays locked", broken.NEVER_CLOSED, lambda: checks.lets_go(folder)),
        (
            "laws",
            "a law that fails when it is drawn",
            broken.LATE_LAWS,
            lambda: checks.spends_nothing_in_vain(folder, "gaussian"),
        ),
    ]
    if sources.spark is not None:
        frame = sources.spark
        draws = ("26", "Spark: queries that draw", broken.ANY_QUERY)
        found.append((*draws, lambda: checks.random_frame(frame)))
    return found


def _of_sums(folder: Path) -> list[Listed]:
    """Return the cases of exact sums that a separate check shows."""
    conditions = checks.conditions_under_replace_one
    return [
        ("21", "columns in any order", broken.ANY_ORDER, checks.merged_in_another_order),
        ("22", "the same part twice", broken.RANDOM_PARTS, checks.merged_twice),
        ("23", "a condition under replace-one", broken.COUNTABLE, conditions),
        ("24", "forged sums are taken", broken.ANY_SUMS, lambda: checks.forged_sums(folder)),
        ("28", "exact sums are printed", broken.PRINTED_SUMS, checks.prints_no_sums),
    ]


def _of_postgres(sources: DataSources, link: str) -> list[Listed]:
    plain, latin = sources.found["PostgreSQL"], sources.found["PostgreSQL in LATIN1"]
    return [
        (
            "15",
            "operators of others",
            broken.OWN_SEARCH_PATH,
            lambda: checks.hostile_operator(link),
        ),
        (
            "16",
            "PostgreSQL: cells of any length",
            broken.UNCAPPED_POSTGRES,
            lambda: checks.largest_cell(plain, "text"),
        ),
        ("17", "policies hide rows", broken.NO_SECURITY, lambda: checks.row_security(link)),
        (
            "18",
            "bytes of another encoding",
            broken.LATIN_CLIENT,
            lambda: through(latin).differences,
        ),
    ]


def figures(sources: DataSources, folder: Path) -> list[Figure]:
    """Return how many faults the attack finds, and that it finds no fault in correct code."""
    caught, missed, false = [], [], []
    for control in controls(sources, folder):
        name = f"{control.case}: {control.what}"
        if control.broken is not nullcontext and (found := control.seen()):
            false.append(name)
            print("without a fault:", name, found[:3])
        with control.broken():
            (caught if control.seen() else missed).append(name)
    for name in missed:
        print("not caught:", name)
    count = len(caught) + len(missed)
    numbers = {name.split(":")[0] for name in caught}
    cases = ", ".join(sorted(numbers, key=lambda case: (len(case), case)))
    what = f"{count} planted faults, of cases {cases}: caught"
    sane = "the same parts of the harness without a fault: faults"
    return [
        Figure(ATTACK, what, str(count), str(len(caught)), not missed),
        Figure(ATTACK, sane, "0", str(len(false)), not false),
    ]
