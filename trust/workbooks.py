"""Edit Excel files: no cell and no row may change an outcome or the reading of another row.

The attack puts each edit of `excel_edits` into the first, a middle and the last row of a sheet. The
other rows must stay the same, and the edited row must have the meaning of the edit. A release of
the sheet must have the same outcome as a release of the plain sheet. Two readers are controls: the
old reader, and a reader that depends on the numbers of rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import dpcov
from dpcov.rows import sources
from dpcov.rows.sources.ooxml import NOT_XML_MESSAGE
from dpcov.rows.sources.sheet import ROW_PATH, SheetReader
from excel_edits import BROKEN, EDITS, RowEdit
from excel_files import SHEET, Workbook
from figure import Figure
from old_workbook import OldWorkbookSource
from outcomes import Book, Outcome, outcome_of
from sources import DataSource
from sources_roles import DATE, LEVELS, NUMBER, PLAIN, Image, Role, image, total

ATTACK = "Excel, cell by cell"
NAMES = ("x0", "x1", "x2")
CLEAN: list[tuple[Any, ...]] = [(at / 4 - 1, at % 10, "xy"[at % 2]) for at in range(12)]
_VERSION_2 = {"kind": "number"}
KINDS = {"number": NUMBER | _VERSION_2, "category": LEVELS, "date": DATE}
ROLES = [
    Role(name, {"x0": kind, "x1": PLAIN | _VERSION_2, "x2": LEVELS}, {"version": 2})
    for name, kind in KINDS.items()
]
PLACE = DataSource("Excel", {}, "", lambda _: [])
FORMS = {
    "inline texts": Workbook(),
    "shared texts": Workbook(shared=True),
    "Strict": Workbook(strict=True),
    "prefixes": Workbook(prefix="x"),
}
Reading = Callable[[], AbstractContextManager[Any]]


def old_reader() -> Any:
    """Read with openpyxl, as dpcov did."""
    return patch.object(sources, "WorkbookSource", OldWorkbookSource)


def by_numbers() -> Any:
    """Leave out a row whose number is not above the number of the row before it."""
    closed = SheetReader.closed

    def mind_numbers(self: Any) -> None:
        closed(self)
        if self.state == ROW_PATH:
            highest = getattr(self, "highest", 0)
            if self._number <= highest:
                self.rows.pop()
            self.highest = max(self._number, highest)

    return patch.object(SheetReader, "closed", mind_numbers)


@dataclass
class Tried:
    """How many files were compared, and what is wrong."""

    edits: set[str] = field(default_factory=set)
    files: int = 0
    outcomes: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    meanings: list[str] = field(default_factory=list)

    @property
    def caught(self) -> set[str]:
        """The edits that change an outcome or other rows."""
        return {line.split(" | ")[0] for line in (*self.outcomes, *self.others)}


def _rows(edit: RowEdit | None, place: int) -> list[Any]:
    """Return the clean rows, with the edited row among them."""
    rows: list[Any] = [NAMES, *CLEAN]
    if edit is not None:
        rows.insert(place, edit.xml.replace("{n}", str(place + 1)))
    return rows


def _released(path: Path, book: Book) -> Outcome:
    ledger = book.ledger("rows")[1]
    asked = {"epsilon": 1.0, "mechanism": "laplace", "denoise": "none", "ledger": ledger}
    schema = ROLES[0].schema(PLACE)
    return outcome_of(lambda: dpcov.release(path, schema=schema, **asked), book, str(path))


def tried(
    edits: Sequence[RowEdit],
    reading: Reading = nullcontext,
    forms: Sequence[str] = tuple(FORMS),
    places: Sequence[int] = (1, len(CLEAN) // 2, len(CLEAN) + 1),
) -> Tried:
    """Put each edit into sheets, in every form and place, as each kind of column in turn."""
    found, turn = Tried(), itertools.count()
    with TemporaryDirectory() as place_of_files, reading():
        folder = Path(place_of_files)
        path, one, book = folder / "edited.xlsx", folder / "one.xlsx", Book(folder)
        for form in forms:
            write = FORMS[form].write
            write(path, _rows(None, 0))
            plain = _released(path, book)
            others = {role.name: image(path, role, PLACE) for role in ROLES}
            if {one.counts for one in others.values()} != {(len(CLEAN),)} or not plain.spent:
                raise RuntimeError("The plain sheet is not read.")
            # A prefix of all names would change names that have a namespace of their own.
            of_form = [edit for edit in edits if not (FORMS[form].prefix and "xmlns" in edit.xml)]
            for edit, place in itertools.product(of_form, places):
                role = ROLES[sum(divmod(next(turn), len(places))) % len(ROLES)]
                what = f"{edit.name} | {form}, row {place}, {role.name}"
                found.edits.add(edit.name)
                found.files += 1
                write(path, _rows(edit, place))
                write(one, [NAMES, edit.xml.replace("{n}", "2")])
                _compare(found, what, image(path, role, PLACE), image(one, role, PLACE), others)
                if image(one, role, PLACE) != _meant(edit, role):
                    found.meanings.append(what)
                if (ended := _released(path, book)) != plain:
                    found.outcomes.append(f"{what}: {ended.ended[:80]} {ended.printed[:80]}")
    return found


def _compare(found: Tried, what: str, whole: Image, alone: Image, others: dict[str, Image]) -> None:
    """Compare a sheet with its rows, each by itself."""
    parts = total([alone, others[what.rpartition(", ")[2]]])
    if whole != parts or whole.failed or whole.refused:
        found.others.append(f"{what}: {whole.refused[:60] or whole.counts or whole}")


def _meant(edit: RowEdit, role: Role) -> Image:
    """Return the exact sums of the row that an edit means."""
    return image([] if edit.says is None else [[*edit.says]], role, PLACE)


def not_refused() -> Iterator[str]:
    """Yield sheets of broken XML that are not refused with the fixed sentence."""
    with TemporaryDirectory() as folder:
        book, path = Book(Path(folder)), Path(folder) / "broken.xlsx"
        for name, (before, row) in BROKEN.items():
            sheet = before + Workbook().sheet(_rows(RowEdit(name, row), 5))
            Workbook(parts={SHEET: sheet}).write(path, [])
            ended = _released(path, book)
            if ended.ended != f"SourceError {NOT_XML_MESSAGE} " or ended.spent or ended.printed:
                yield f"{name}: {ended.ended[:120]} {ended.printed[:80]}, spent {len(ended.spent)}"


def measure(quick: bool) -> list[Figure]:
    """Run all parts of the attack."""
    forms = tuple(FORMS)[: 1 if quick else None]
    found = tried(EDITS, forms=forms)
    near = [edit for edit in EDITS if 'r="99999999"' not in edit.xml]  # openpyxl makes all rows
    old, numbers = (tried(near, one, forms[:1], (6,)) for one in (old_reader, by_numbers))
    broken = [*not_refused()]
    for line in [*found.outcomes, *found.others, *found.meanings, *broken][:40]:
        print("difference:", line)
    count = len(found.edits)
    least = 60
    figures = [
        Figure(ATTACK, f"edits ({found.files} files)", f">= {least}", str(count), count >= least)
    ]
    for what, lines in {
        "outcomes that differ from the outcome of the plain sheet": found.outcomes,
        "edits that change other rows": found.others,
        "edited rows that do not say what they must": found.meanings,
        f"of {len(BROKEN)} sheets of broken XML, not refused before spending": broken,
    }.items():
        figures.append(Figure(ATTACK, what, "0", str(len(lines)), not lines))
    for what, control in {"openpyxl": old, "minds the numbers of rows": numbers}.items():
        caught = len(control.caught)
        shown = f"{caught} of {len(control.edits)} edits"
        figures.append(Figure(ATTACK, f"control: {what}", "caught", shown, caught > 0))
    return figures
