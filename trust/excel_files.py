"""Excel files of one sheet, written as raw XML: no library that reads them has a part in them.

A cell is a Python value or `Raw` XML, which may be malformed. A row is a tuple of cells or a text,
which is its XML.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr
from zipfile import ZIP_DEFLATED, ZipFile

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
STRICT = {  # namespaces of Transitional workbooks and of Strict workbooks
    MAIN: "http://purl.oclc.org/ooxml/spreadsheetml/main",
    OFFICE: "http://purl.oclc.org/ooxml/officeDocument/relationships",
}
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml"
PLAIN, DATE, MOMENT, CLOCK, DURATION = range(5)  # styles
FORMATS = ["General", "yyyy-mm-dd", "yyyy-mm-dd hh:mm:ss", "h:mm", "[h]:mm"]
SHEET = "xl/worksheets/sheet1.xml"
_NOT_IN_XML = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")


@dataclass(frozen=True)
class Raw:
    """A cell as XML, in which {r} is its reference and {n} its row, and the value that it has."""

    name: str
    xml: str
    says: Any = None

    def __repr__(self) -> str:
        return self.name


def text_xml(text: str) -> str:
    """Return a text as XML, with characters that XML cannot contain in Excel's own spelling."""
    return escape(_NOT_IN_XML.sub(lambda found: f"_x{ord(found[0]):04X}_", text))


def serial(day: date, from_1904: bool = False) -> float:
    """Return Excel's number of days of a date or datetime."""
    moment = day if isinstance(day, datetime) else datetime(day.year, day.month, day.day)
    zero = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30)
    days = (moment - zero).total_seconds() / 86_400
    return days - (not from_1904 and days < 61)


def column_name(at: int) -> str:
    """Return the letters of a column; the first column is 0."""
    letters = ""
    while at >= 0:
        letters, at = chr(ord("A") + at % 26) + letters, at // 26 - 1
    return letters


@dataclass
class Workbook:
    """How a workbook is written.

    `shared`: texts are in a table of their own. `strict`: with the namespaces of Strict OOXML.
    `prefix`: of the names of all elements. `parts`: parts that replace others.
    """

    shared: bool = False
    strict: bool = False
    from_1904: bool = False
    prefix: str = ""
    formats: Sequence[str] = tuple(FORMATS)
    sheets: Sequence[str] = ("Sheet1",)
    parts: dict[str, str | bytes] = field(default_factory=dict)
    _texts: list[str] = field(default_factory=list)

    def write(self, path: Path, rows: Sequence[Sequence[Any] | str]) -> Path:
        """Write a file of these rows, of which the first is the header; all sheets are alike."""
        self._texts = []
        sheet = self.sheet(rows)
        places = [f"xl/worksheets/sheet{at}.xml" for at in range(1, len(self.sheets) + 1)]
        parts = dict.fromkeys(places, sheet) | self._around(places) | self.parts
        with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=1) as archive:
            for name, content in parts.items():
                archive.writestr(name, self._spelt(content))
        return path

    def sheet(self, rows: Sequence[Sequence[Any] | str]) -> str:
        """Return the XML of a sheet."""
        inside = "".join(
            row if isinstance(row, str) else self.row(row, number)
            for number, row in enumerate(rows, 1)
        )
        return f'<worksheet xmlns="{MAIN}"><sheetData>{inside}</sheetData></worksheet>'

    def row(self, cells: Sequence[Any], number: int) -> str:
        """Return the XML of a row."""
        inside = "".join(self.cell(c, column_name(at), number) for at, c in enumerate(cells))
        return f'<row r="{number}">{inside}</row>'

    def cell(self, cell: Any, column: str, number: int) -> str:
        """Return the XML of a cell."""
        place = f"{column}{number}"
        if cell is None:
            return ""
        if isinstance(cell, Raw):
            return cell.xml.replace("{r}", place).replace("{n}", str(number))
        if isinstance(cell, bool):
            return f'<c r="{place}" t="b"><v>{cell:d}</v></c>'
        if isinstance(cell, int | float):
            return f'<c r="{place}"><v>{cell!r}</v></c>'
        if isinstance(cell, time):
            days = (cell.hour * 60 + cell.minute) / 1440
            return f'<c r="{place}" s="{CLOCK}"><v>{days!r}</v></c>'
        if isinstance(cell, date):
            style = MOMENT if isinstance(cell, datetime) else DATE
            return f'<c r="{place}" s="{style}"><v>{serial(cell, self.from_1904)!r}</v></c>'
        return self._text(text_xml(str(cell)), place)

    def _text(self, text: str, place: str) -> str:
        if not self.shared:
            return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'
        self._texts.append(text)
        return f'<c r="{place}" t="s"><v>{len(self._texts) - 1}</v></c>'

    def _around(self, places: Sequence[str]) -> dict[str, str]:
        """Return all parts except the sheets."""
        ids = range(1, len(places) + 1)
        sheets = "".join(
            f'<sheet name={quoteattr(name)} sheetId="{at}" r:id="s{at}"/>'
            for name, at in zip(self.sheets, ids, strict=True)
        )
        codes = "".join(
            f'<numFmt numFmtId="{164 + at}" formatCode={quoteattr(code)}/>'
            for at, code in enumerate(self.formats)
        )
        styles = "".join(f'<xf numFmtId="{164 + at}"/>' for at in range(len(self.formats)))
        texts = "".join(f"<si><t>{text}</t></si>" for text in self._texts)
        kinds = {"styles": "styles.xml", "sharedStrings": "sharedStrings.xml"}
        refers = [
            (f"s{at}", "worksheet", f"/{place}") for at, place in zip(ids, places, strict=True)
        ]
        refers += [(kind, kind, file) for kind, file in kinds.items()]
        reported = {"/xl/workbook.xml": "sheet.main", "/xl/styles.xml": "styles"}
        reported |= {"/xl/sharedStrings.xml": "sharedStrings"}
        reported |= {f"/{place}": "worksheet" for place in places}
        overrides = "".join(
            f'<Override PartName="{part}" ContentType="{TYPES}.{kind}+xml"/>'
            for part, kind in reported.items()
        )
        return {
            "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default '
            'Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+'
            f'xml"/><Default Extension="xml" ContentType="application/xml"/>{overrides}</Types>',
            "_rels/.rels": _relations([("b", "officeDocument", "xl/workbook.xml")]),
            "xl/_rels/workbook.xml.rels": _relations(refers),
            "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><workbookPr '
            f'date1904="{self.from_1904:d}"/><sheets>{sheets}</sheets></workbook>',
            "xl/styles.xml": f'<styleSheet xmlns="{MAIN}"><numFmts>{codes}</numFmts><fonts><font/>'
            "</fonts><fills><fill><patternFill/></fill></fills><borders><border/></borders><cellStyleXfs><xf/>"
            f"</cellStyleXfs><cellXfs>{styles}</cellXfs></styleSheet>",
            "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}">{texts}</sst>',
        }

    def _spelt(self, content: str | bytes) -> bytes:
        """Return a part in the namespaces and with the prefix of this workbook."""
        if isinstance(content, bytes):
            return content
        if self.prefix and f'xmlns="{MAIN}"' in content:
            content = content.replace(f'xmlns="{MAIN}"', f'xmlns:{self.prefix}="{MAIN}"')
            content = re.sub(r"<(/?)(?=\w)", rf"<\1{self.prefix}:", content)
        for space, other in STRICT.items() if self.strict else ():
            content = content.replace(space, other)
        return content.encode()


def _relations(refers: Sequence[tuple[str, str, str]]) -> str:
    inside = "".join(
        f'<Relationship Id="{ident}" Type="{OFFICE}/{kind}" Target="{part}"/>'
        for ident, kind, part in refers
    )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{inside}</Relationships>'


class Workbooks:
    """Workbooks of one sheet, one for each table, in turn with texts in either place."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = itertools.count()

    def __call__(self, columns: dict[str, tuple[str, list[Any]]]) -> Path:
        number = next(self._number)
        rows = [tuple(columns), *zip(*(cells for _, cells in columns.values()), strict=True)]
        return Workbook(shared=number % 2 == 1).write(self._folder / f"{number}.xlsx", rows)


def cells_of(rows: Sequence[Sequence[Any]]) -> Iterator[list[Any]]:
    """Yield the cells that each row means."""
    return ([c.says if isinstance(c, Raw) else c for c in row] for row in rows)
