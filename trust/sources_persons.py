"""Check in every reader that all spellings of an id are one person, and no two ids are."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

import sources_cells as held
from dpcov.errors import DpcovError
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.kept import Kept
from figure import Figure
from sources import DataSource, Trained
from sources_cells import Cells, Row
from sources_roles import IGNORED, MISSING

ATTACK = "persons"
WITHOUT = ("Spark", "files of sums")  # their rows are not read here, or have no persons
TYPES = ("integer", "decimal", "uuid", "text")
_WHOLE = [
    *("7", "7.0", "7.00", "+7", "07", "7e0", "70e-1", " 7 ", "7.", "0.7e1", "0000000007.000"),
    *("-7", "-7.0", "-07", "0", "-0", "0.0", "0e9", "70", "7e1", "700e-1", "7e2"),
    *("9007199254740992", "9007199254740993", "9007199254740993.0", "9007199254740994"),
    *("1" + "0" * 38, "1" + "0" * 37 + "1", "1e38", "1e39", "1" + "0" * 39, "1" + "0" * 45, "1e45"),
    *("9" * 50, "9" * 49 + "8", "9" * 50 + ".0"),
]
_PARTS = [*("7.5", "7.50", "75e-1", "+07.5", "0.1", ".1", "1e-1", "1e-999999999", "7.05", "7.005")]
_NONE = [
    "x",
    "",
    " ",
    "7x",
    "1_000",
    "0x7",
    "nan",
    "inf",
    "7 7",
    "\u0667",
    "1,5",
    "7e",
    "e7",
    ".",
    "-999",
]
_U = held.UUIDS[2]
_UUIDS = [
    *(_U, _U.upper(), _U.replace("-", ""), f"{{{_U}}}", f"urn:uuid:{_U}", f" {_U} "),
    *(f"URN:UUID:{{{_U.replace('-', '').upper()}}}", _U.replace("-", "", 1), f"{{{_U}", f"{_U}}}"),
    *(held.UUIDS[0], held.UUIDS[1], held.UUIDS[0].replace("-", ""), _U[:-1] + "2", _U[:-1]),
]
_WORDS = ["a", "A", "a ", " a", "á", "a\u0301", "Zürich", "ZÜRICH", "a\u200b", "aa"]
SPELLINGS = [*_WHOLE, *_PARTS, *_NONE, *_UUIDS, *_WORDS]
OBJECT_SPELLINGS = [
    *(7, 7.0, Decimal(7), Decimal("7.00"), np.int64(7), np.float64(7), b"7", Decimal("7E0")),
    *(7.5, Decimal("7.5"), 0.1, Decimal("0.1"), 2**53, 2.0**53, 2**53 + 1, 2.0**53 + 2, 10**45),
    *(Decimal("1e45"), -7, -0.0, 0, True, None, float("nan"), Decimal("NaN"), 1e300),
    *(np.float32(2**24), np.float32(2**24 + 2), np.float32(0.1), 2**24 + 2, 1e31, np.array(1e20)),
    *(np.float16(2**11), np.float16(2**11 + 2), np.float16(0.1), 2**11 + 2, np.longdouble(0.1)),
]
# By SQLite, in a column of numbers: digits of UUIDs, two for one.
STORED_AS_FLOATS = ["1" * 32, "1" * 31 + "2", "1e20", "100000000000000000000", "true", "False"]
FLOATS = [7.0, -7.0, 7.5, 0.1, 0.5, -0.0, 0.0, 2.0**53, 2.0**53 - 1, 2.0**53 + 2, 1e300, 1e15]


@dataclass
class Comparison:
    """Number of compared pairs of cells, their readers, and the pairs with a wrong result."""

    pairs: int = 0
    columns: int = 0
    cells: int = 0
    wrong: list[str] = field(default_factory=list)


def spellings(cells: Cells, declared: str) -> list[Any]:
    """Return ids for a column that can hold such cells."""
    odd = [cell for cell in cells.odd if not isinstance(cell, Row)]
    known = [*(cell for kind in cells.clean.values() for cell in kind), *odd]
    if cells is held.DYNAMIC:
        known += [*SPELLINGS, 7, 7.0, 7.5, 2**53 + 1, 2.0**53 + 2, b"7", *STORED_AS_FLOATS]
    elif cells in (held.OBJECTS, held.LISTS):
        known += [*SPELLINGS, *OBJECT_SPELLINGS]
    elif any(isinstance(cell, str) for cell in known) and len(known) > len(held.LEVELS.odd) + 9:
        known += SPELLINGS
    elif any(isinstance(cell, float) for cell in known) and cells is held.FLOATS:
        known += FLOATS
    if declared == "text":  # of other cells nobody says what their text is
        known = [cell for cell in known if cell is None or isinstance(cell, str | bytes)]
    return known


def persons(data: Any, source: DataSource, declared: str, count: int) -> list[int | None] | None:
    """Return the person of each row, or None if a column of this type is refused."""
    schema = Schema.parse(
        {
            "columns": {
                "x0": IGNORED,
                "x1": {"kind": "numeric", "lower": 0, "upper": count},
                "x2": IGNORED,
            },
            "missing": MISSING,
            "unit": {"column": "x0", "type": declared, "max_rows": 1},
            "file": source.options,
        }
    )
    try:
        data = data.opened() if isinstance(data, Trained) else data
        rows = open_rows(data, schema, threads=1)
    except DpcovError:
        return None
    found: list[int | None] = [None] * count
    known = 0
    with closing(rows):
        kept = rows._source
        assert isinstance(kept, Kept)
        for batch, numbers in kept.persons():
            for row, number in zip(batch.column("x1").tolist(), numbers.tolist(), strict=True):
                found[int(row)] = known + number
            known += int(numbers.max(initial=-1)) + 1
    return found


def compared(sources: Iterable[DataSource]) -> Comparison:
    """Compare every pair of spellings in every column that can hold ids."""
    result = Comparison()
    for source in sources:
        for kind in source.types:
            for declared in TYPES:
                compare(result, source, kind, declared)
    return result


def compare(result: Comparison, source: DataSource, kind: str, declared: str) -> None:
    """Compare all pairs of spellings in one column."""
    cells = spellings(source.types[kind], declared)
    if not cells or (len(cells) > 100 and "int8" in kind):
        return
    whole = source.whole or kind
    numbers: list[Any] = list(range(len(cells)))
    others = [str(n) for n in numbers] if whole == "text" else numbers
    columns = {"x0": (kind, cells), "x1": (whole, others), "x2": (whole, others)}
    (data,) = source.tables([columns])
    found = persons(data, source, declared, len(cells))
    if found is None:
        return
    exactly = "bytes" if declared == "text" else declared
    wanted = [source.who(kind, cell, exactly) for cell in cells]
    result.columns += 1
    result.cells += len(cells)
    for i, one in enumerate(cells):
        if (found[i] is None) != (wanted[i] is None):
            result.wrong.append(f"{source.name} {kind} {declared}: {one!r:.60} is {found[i]}")
        for j in range(i):
            result.pairs += 1
            same = found[i] is not None and found[i] == found[j]
            if same != (wanted[i] is not None and wanted[i] == wanted[j]):
                result.wrong.append(
                    f"{source.name} {kind} {declared}: {one!r:.60} and {cells[j]!r:.60}: {same}"
                )


def figures(sources: Iterable[DataSource]) -> list[Figure]:
    """Return the figures about persons."""
    result = compared(source for source in sources if source.name not in WITHOUT)
    for line in result.wrong[:40]:
        print("person:", line)
    pairs = f"{result.pairs} pairs: two for one, one for two"
    what = f"{result.cells} ids in {result.columns} columns, {pairs}"
    wrong = len(result.wrong)
    return [Figure(ATTACK, what, "0", str(wrong), wrong == 0 and result.pairs > 10_000)]
