"""Edits of one cell or one row of a sheet's XML, as a program or an attacker might write them.

Each edit states its meaning, so a test can check the reader's result. The placeholder {r} is
the reference of the cell in the first column. The placeholder {n} is the number of the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from excel_files import CLOCK, DATE, DURATION, MAIN, Raw

LONG = "y" * 70_000


def _value(name: str, stated: str, says: Any = None, attributes: str = "") -> Raw:
    return Raw(name, f'<c r="{{r}}"{attributes}><v>{stated}</v></c>', says)


def _typed(kind: str, stated: str, says: Any = None, attributes: str = "") -> Raw:
    named = f"{kind} {stated[:24]}{attributes}"
    return _value(named, stated, says, f'{attributes} t="{kind}"')


def _inline(name: str, inside: str, says: Any = None) -> Raw:
    return Raw(f"inline {name}", f'<c r="{{r}}" t="inlineStr">{inside}</c>', says)


def _styled(style: object, stated: str, says: Any = None) -> Raw:
    return _value(f"style {style}: {stated}", stated, says, f' s="{style}"')


def _placed(reference: str) -> Raw:
    return Raw(f"reference {reference[:9]!r}", f'<c r="{reference}"><v>0.5</v></c>')


def _formula(name: str, formula: str, says: Any = 0.5, stated: str = "<v>0.5</v>") -> Raw:
    return Raw(f"formula {name}", f'<c r="{{r}}">{formula}{stated}</c>', says)


NUMBERS = [
    *(_value(f"number {text[:15].strip()}", text, says) for text, says in {
        "0.5": 0.5, " 0.5\n": 0.5, "+0.5": 0.5, ".5": 0.5, "5.": 5.0, "5E-1": 0.5, "&#48;.5": 0.5,
        "<![CDATA[0.5]]>": 0.5, "0<!-- 9 -->.5": 0.5, "0<?go 9?>.5": 0.5, "1e-400": 0.0,
        "0." + "0" * 5000 + "1": 0.0, "1e400": None, "9" * 5000: None, "1e99999999999": None,
        "abc": None, "": None, "0,5": None, "1 000": None, "1_0": None, "0x1F": None, "--1": None,
        "#NUM!": None, "NaN": None, "INF": None, "-INF": None, "nan": None, "Infinity": None,
        "٣": None, "0.5\u00a0": None, "1/2": None, "true": None, LONG: None,
    }.items()),
    Raw("two values", '<c r="{r}"><v>1</v><v>2</v></c>'),
    Raw("a value and an inline text", '<c r="{r}"><v>1</v><is><t>2</t></is></c>'),
    Raw("an element in a value", '<c r="{r}"><v>1<x/>2</v></c>'),
    Raw("a value in another element", '<c r="{r}"><x><v>1</v></x></c>'),
    Raw("a cell in a cell", '<c r="{r}"><c r="B{n}"><v>9</v></c><v>0.5</v></c>', 0.5),
    Raw("a row in a cell", '<c r="{r}"><row r="1"><c r="A1"><v>9</v></c></row><v>0.5</v></c>', 0.5),
    Raw("unknown elements", '<c r="{r}" zz="1"><v>0.5</v><extLst><v>9</v></extLst></c>', 0.5),
    Raw("another namespace", '<c r="{r}"><v xmlns="urn:x">9</v></c>'),
    Raw("no value", '<c r="{r}"/>'),
]  # fmt: skip
TYPES = [
    _typed("b", "1", True),
    _typed("b", "true", True),
    _typed("b", "0", False),
    *(_typed("b", text) for text in ("TRUE", "2", "", "yes", "-1", "1.0")),
    *(_typed("e", text) for text in ("#DIV/0!", "#N/A", "", "0.5")),
    _typed("d", "2020-12-05", datetime(2020, 12, 5)),
    _typed("d", "2020-12-05T06:30:00.000", datetime(2020, 12, 5, 6, 30)),
    _typed("d", "06:00:00", 0.25),
    _typed("d", "PT30H15M", 1 + 6.25 / 24),
    _typed("d", "1900-01-01T12:00:00", 1.5, f' s="{DURATION}"'),
    *(_typed("d", text) for text in ("2020-13-45", "0000-01-01", "99999-01-01", "", "P", "now")),
    *(_typed("s", text) for text in ("99999", "-1", "", "x", "0.0", "9" * 5000, "1e0")),
    _typed("str", "0.5", "0.5"),
    _typed("str", "hello", "hello"),
    _typed("str", "", ""),
    *(_typed(kind, "0.5") for kind in ("x", "", "N", "inlineStr", "n ", "sharedString")),
    _inline("text", "<is><t>0.5</t></is>", "0.5"),
    _inline("runs", "<is><r><rPr><b/></rPr><t>0</t></r><r><t>.5</t></r></is>", "0.5"),
    _inline("with its sound", "<is><t>0.5</t><rPh sb='0' eb='1'><t>9</t></rPh></is>", "0.5"),
    _inline("nothing", "<is></is>", ""),
    _inline("absent", ""),
    _inline("twice", "<is><t>1</t></is><is><t>2</t></is>"),
    _inline("zero byte", "<is><t>_x0000_</t></is>", "\0"),
    _inline("escaped escape", "<is><t>_x005F_x0041_</t></is>", "_x0041_"),
    _inline("half a pair", "<is><t>_xD800_</t></is>", "\ufffd"),
    _inline("a pair", "<is><t>_xD83D__xDE00_</t></is>", "\U0001f600"),
    _inline("no escape", "<is><t>_x00_ _xZZZZ_</t></is>", "_x00_ _xZZZZ_"),
    _inline("long", f"<is><t>{LONG}</t></is>"),
    _inline("long before it is unescaped", f"<is><t>{'_x0041_' * 10_000}</t></is>"),
]
STYLES = [
    *(_styled(style, "0.5") for style in (777, -1, "x", "", "1e0", "9" * 5000)),
    _styled(CLOCK, "0.25", 0.25),
    _styled(DURATION, "30.25", 30.25),
    _styled(DATE, "44000", datetime(2020, 6, 18)),
    _styled(DATE, "59", datetime(1900, 2, 28)),
    _styled(DATE, "-1", datetime(1899, 12, 29)),
    *(_styled(DATE, text) for text in ("60", "0.5", "2958466", "1e300", "-1e300", "NaN", "x")),
]
FORMULAS = [
    _formula("plain", "<f>1/0</f>"),
    _formula("of an array", '<f t="array" ref="A2:A40">B1:B10</f>'),
    _formula("shared with nobody", '<f t="shared" si="99"/>'),
    _formula("of a data table", '<f t="dataTable" ref="??"/>'),
    _formula("not computed", "<f>A1</f>", None, ""),
    _formula("computed to nothing", "<f>A1</f>", None, "<v/>"),
    _formula("twice", "<f>A1</f><f>A2</f>"),
]
REFERENCES = [
    _placed(text) for text in (
        "??", "", "A", "{n}", "a{n}", "$A${n}", "A{n}:B{n}", "{n}A", "A-1", "A1.5", "XFD{n}",
        "XFE{n}", "ZZZZ{n}", "A" * 1000 + "1", "Ä{n}", " A{n}",
    )
]  # fmt: skip
PLACES = [
    Raw("no reference", '<c><v>0.5</v></c>', 0.5),
    Raw("a reference into another row", '<c r="A1"><v>0.5</v></c>', 0.5),
    Raw("a reference into a far row", '<c r="A9999999"><v>0.5</v></c>', 0.5),
]  # fmt: skip
CELLS = [*NUMBERS, *TYPES, *STYLES, *FORMULAS, *REFERENCES, *PLACES]


@dataclass(frozen=True)
class RowEdit:
    """A row as XML, and what its cells say; None if it is no row."""

    name: str
    xml: str
    says: tuple[Any, ...] | None = (0.5, 3, "x")


def _a(stated: object = 0.5) -> str:
    return f'<c r="A{{n}}"><v>{stated}</v></c>'


B, C = '<c r="B{n}"><v>3</v></c>', '<c r="C{n}" t="inlineStr"><is><t>x</t></is></c>'
INSIDE = _a() + B + C
WIDE = "".join(f'<c r="{a}{b}{{n}}"><v>9</v></c>' for a in "BCD" for b in "ABCDEFGHIJ")


def _numbered(attributes: str) -> RowEdit:
    return RowEdit(f"row {attributes[:40]}", f"<row {attributes}>{INSIDE}</row>")


def _holding(name: str, inside: str, *says: Any) -> RowEdit:
    return RowEdit(name, f'<row r="{{n}}">{inside}</row>', says or (0.5, 3, "x"))


def _blank(name: str, inside: str) -> RowEdit:
    return RowEdit(f"no row: {name}", f'<row r="{{n}}">{inside}</row>', None)


ROWS = [
    *(_numbered(f'r="{text}"') for text in (
        "1", "2", "1048576", "99999999", "9" * 5000, "30.5", "x", "-5", "0", "", " 7", "1e3", "٣",
    )),
    _numbered(""),
    _numbered('r="{n}" spans="??" hidden="1" ht="x" s="777" customFormat="9" zz="1"'),
    _numbered(f'xmlns:p="{MAIN}" p:r="7"'),
    _holding("cells from right to left", C + B + _a()),
    _holding("a column twice", _a() + B + _a(1) + C, None, 3, "x"),
    _holding("a column three times", _a() + _a() + _a() + B + C, None, 3, "x"),
    _holding("a cell in the place of another", _a().replace("A", "B") + B + C, None, None, "x"),
    _holding("an empty cell in the place of another", '<c r="B{n}"/>' + INSIDE),
    _holding("no references", INSIDE.replace(' r="A{n}"', "").replace(' r="B{n}"', "")),
    _holding("none behind a bad one", '<c r="?"><v>1</v></c><c><v>9</v></c>' + C, None, None, "x"),
    _holding("cells far away", INSIDE + WIDE),
    _holding("many cells", INSIDE + "<c/>" * 5000 + '<c><v>9</v></c>' * 5000),
    _holding("many cells of one column", _a() * 5000 + B + C, None, 3, "x"),
    _holding("text between cells", f"9 {INSIDE} &lt;row&gt; 9"),
    _holding("a comment", f"<!-- </row><row> -->{INSIDE}"),
    _holding("a row in the row", f'<row r="1">{_a(9)}</row>{INSIDE}'),
    _holding("a sheet in the row", f"<sheetData><row>{_a(9)}</row></sheetData>{INSIDE}"),
    _holding("elements within elements", "<x>" * 60 + "</x>" * 60 + INSIDE),
    _holding("cells within an unknown element", f"<x>{_a(9)}</x>{B}{C}", None, 3, "x"),
    _holding("a prefix of its own", f'<q:c xmlns:q="{MAIN}" r="A{{n}}"><q:v>0.5</q:v></q:c>{B}{C}'),
    _holding("a cell of another namespace", f'<c xmlns="urn:x" r="A{{n}}"><v>9</v></c>{B}{C}',
             None, 3, "x"),
    _holding("one cell", B, None, 3, None),
    _holding("one undecodable cell", _a("x"), None, None, None),
    _holding("one formula", '<c r="A{n}"><f>A1</f></c>', None, None, None),
    _blank("nothing", ""),
    _blank("styles alone", '<c r="A{n}" s="1"/><c r="B{n}" t="s"/><c r="C{n}" t="inlineStr"/>'),
    _blank("far cells alone", WIDE),
    _blank("bad references alone", '<c r="?"><v>0.5</v></c>'),
    RowEdit("no row: another namespace", f'<row xmlns="urn:x" r="{{n}}">{INSIDE}</row>', None),
    RowEdit("no row: another element", f'<line r="{{n}}">{INSIDE}</line>', None),
    RowEdit("no row: within an unknown element", f'<x><row r="{{n}}">{INSIDE}</row></x>', None),
]  # fmt: skip
EDITS = [
    *(RowEdit(cell.name, f'<row r="{{n}}">{cell.xml}{B}{C}</row>'.replace("{r}", "A{n}"),
              (cell.says, 3, "x")) for cell in CELLS),
    *ROWS,
]  # fmt: skip
_DOCTYPE = '<!DOCTYPE worksheet [<!ENTITY a "0.5">]>'
_BOMB = "<!DOCTYPE x [" + '<!ENTITY a0 "9">' + "".join(
    f'<!ENTITY a{at} "{f"&a{at - 1};" * 10}">' for at in range(1, 12)
) + "]>"  # fmt: skip
BROKEN = {  # what breaks the XML of the whole sheet: before it, and a row
    "an open tag": ("", f'<row r="{{n}}"><c r="A{{n}}" <v>0.5</v></c>{B}{C}</row>'),
    "an end too many": ("", f'<row r="{{n}}">{INSIDE}</row></row>'),
    "an attribute twice": ("", f'<row r="1" r="2">{INSIDE}</row>'),
    "a bare ampersand": ("", f'<row r="{{n}}"><c r="A{{n}}"><v>1&2</v></c>{B}{C}</row>'),
    "an unknown entity": ("", f'<row r="{{n}}"><c r="A{{n}}"><v>&a;</v></c>{B}{C}</row>'),
    "a control character": ("", f'<row r="{{n}}"><c r="A{{n}}"><v>\x00</v></c>{B}{C}</row>'),
    "an unknown prefix": ("", f'<q:row r="{{n}}">{INSIDE}</q:row>'),
    "a document type": (_DOCTYPE, f'<row r="{{n}}"><c r="A{{n}}"><v>&a;</v></c>{B}{C}</row>'),
    "entities within entities": (_BOMB, '<row r="{n}"><c r="A{n}"><v>&a11;</v></c></row>'),
    "an outer entity": ('<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
                        '<row r="{n}"><c r="A{n}" t="str"><v>&a;</v></c></row>'),
    "an outer document type": ('<!DOCTYPE x SYSTEM "file:///etc/passwd">', f"<row>{INSIDE}</row>"),
    "5,000 elements within each other": ("", f"<row>{'<x>' * 5000}{'</x>' * 5000}</row>"),
    "a tag of two megabytes": ("", f'<row zz="{"9" * 2**21}">{INSIDE}</row>'),
}  # fmt: skip
