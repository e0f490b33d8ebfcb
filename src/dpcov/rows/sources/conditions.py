"""Conditions: public tests of a row by its own cells (docs/how-to/conditions.md).

The door evaluates them itself, on the cells that it reads. An engine would compare by rules of its
own (collations, padding, casts that raise while it scans), and its operators may be other people's.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcov.core.printable import hidden, printable
from dpcov.core.privacy import Neighbors
from dpcov.core.spelling import named
from dpcov.errors import SchemaError, SourceError
from dpcov.rows.cells import (
    NEVER,
    as_numbers,
    cells,
    codes_of,
    distinct,
    moments_of,
)
from dpcov.rows.dates import SECOND
from dpcov.rows.numbers import is_text
from dpcov.rows.schema import UNSEEN, Categorical, Cells, Date, Flag, Numeric, Time, level_text
from dpcov.rows.sources.base import fits, unwrapped
from dpcov.rows.sources.level import FilteredSource

if TYPE_CHECKING:
    from dpcov.core.arrays import Booleans, Integers
    from dpcov.rows.schema import Schema
    from dpcov.rows.sources.base import Source

    Literal = bool | Decimal | str

EXAMPLE = "\"age >= 18 and region in ('north', 'south')\""
EXACT = 2**53  # from here on not every integer is a float64
KEYWORDS = ("and", "in", "is", "not", "null", "true", "false")

_TOKEN = re.compile(
    r"""\s*(?: "(?P<quoted>(?:[^"]|"")+)" | '(?P<text>(?:[^']|'')*)' | (?P<sign>[<>=!]+)
    | (?P<mark>[(),]) | (?P<word>[^\s"'<>=!(),]+) )\s*""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "=": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
_ORDERED = ("<", "<=", ">", ">=")

_WANTED: dict[str, tuple[type, str]] = {  # literals, by how cells are read
    **dict.fromkeys(("number", "whole"), (Decimal, "a number")),
    **dict.fromkeys(("boolean", "flag"), (bool, "true or false")),
    **dict.fromkeys(("day", "second"), (str, "a date in quotes, such as '1990-12-31'")),
    "text": (str, "'text'"),
}

Reading = Cells | Categorical | Numeric  # how the cells of a column are read
Value = Decimal | int | bytes  # of a literal: as a number, a date or the place of a level, a text


class Held(Protocol):
    """Cells as they are compared with literals."""

    @property
    def known(self) -> Booleans:
        """Which cells are not missing."""

    def signs(self, literal: Any) -> Any:
        """Whether each cell is below, at or above a literal: -1, 0 or 1; if missing, anything."""

    def among(self, literals: Sequence[Any]) -> Booleans:
        """Which cells are one of the literals; of a missing one, anything."""


@dataclass(frozen=True, slots=True, repr=False)  # its repr would print the data
class HeldIntegers:
    """Dates, or places of levels; those that are `missing` hold that integer."""

    cells: Integers
    missing: int

    @property
    def known(self) -> Booleans:
        return self.cells != self.missing

    def signs(self, literal: int) -> Any:
        return np.subtract(self.cells > literal, self.cells < literal, dtype=np.int8)

    def among(self, literals: Sequence[int]) -> Booleans:
        return np.isin(self.cells, literals)


@dataclass(frozen=True, slots=True, repr=False)
class HeldTexts:
    """Texts as bytes, which may be no valid UTF-8; null where missing."""

    cells: pa.Array

    @property
    def known(self) -> Booleans:
        return _booleans(self.cells.is_valid())

    def signs(self, literal: bytes) -> Any:
        wanted = pa.scalar(literal, self.cells.type)
        above, below = (_booleans(f(self.cells, wanted)) for f in (pc.greater, pc.less))
        return np.subtract(above, below, dtype=np.int8)

    def among(self, literals: Sequence[bytes]) -> Booleans:
        return _booleans(pc.is_in(self.cells, value_set=pa.array(literals, self.cells.type)))


def _booleans(found: pa.BooleanArray) -> Booleans:
    return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False))


@dataclass(frozen=True, slots=True)
class Condition:
    """One test of the cells of one column.

    Attributes
    ----------
    column : its name.
    cells : how its cells are read: as numbers, texts, truth values, dates, or declared levels.
    operator : a sign, or ``in``, ``not in``, ``is null``, ``is not null``.
    literals : what a cell is compared with, by the `Held` cells that `read` gives.
    missing : cell texts that mean a missing value.
    text : the condition as it is told. Public.

    """

    column: str
    cells: Reading
    operator: str
    literals: tuple[Value, ...]
    missing: tuple[str, ...]
    text: str

    def keep(self, values: pa.Array) -> Booleans:
        """Which cells meet it, each by itself."""
        parts = distinct(values)
        if parts is None:
            return self._met(values)
        met = np.append(self._met(parts[0]), self.operator == "is null")  # of no value, the last
        return met[parts[1]]

    def _met(self, values: pa.Array) -> Booleans:
        """No comparison is met by a missing cell, ``!=`` and ``not in`` included."""
        found = read(values, self.cells, self.missing)
        match self.operator:
            case "is null":
                return ~found.known
            case "is not null":
                return found.known
            case "in":
                met = found.among(self.literals)
            case "not in":
                met = ~found.among(self.literals)
            case sign:
                met = _COMPARED[sign](found.signs(self.literals[0]), 0)
        return met & found.known


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions that a row must meet to count, all of them; false where there are none.

    A row's verdict is a function of that row alone, whatever its cells hold.
    """

    tests: tuple[Condition, ...] = ()

    @classmethod
    def parse(cls, stated: str | Sequence[str], schema: Schema) -> Conditions:
        """Read conditions.

        Parameters
        ----------
        stated : one or several, each one or more of ``column operator literal``,
            ``column in (a, b)``, ``column not in (a, b)``, ``column is null``,
            ``column is not null``, joined by ``and``.
        schema : tells how the cells of each column are read.

        Raises
        ------
        SourceError : not such a condition.
        SchemaError : the schema does not tell how a column's cells are read.

        """
        texts = [stated] if isinstance(stated, str) else stated
        return cls(tuple(test for text in texts for test in _Reader(text, schema).tests()))

    def __bool__(self) -> bool:
        return bool(self.tests)

    @property
    def texts(self) -> tuple[str, ...]:
        """Each condition, however it was spelled, in one spelling. Public."""
        return tuple(test.text for test in self.tests)


def rows_meeting(source: Source, conditions: Conditions) -> Source:
    """The rows of a source that meet conditions; refuses those that its columns do not fit."""
    for test in conditions.tests:
        _require_fit(test, source)
    return FilteredSource(source, *conditions.tests) if conditions else source


def refuse_conditions(conditions: Conditions, neighbors: Neighbors) -> None:
    """Refuse to call the number of rows public where conditions choose among them.

    A row that changes may begin or cease to meet them.
    """
    if conditions and neighbors == Neighbors.REPLACE_ONE:
        raise SourceError(
            "Under replace-one the number of rows is public, but how many meet the conditions "
            f"({named('where')}) is not: use add-remove."
        )


def read(values: pa.Array, as_what: Reading, missing: tuple[str, ...]) -> Held:
    """Cells as numbers, each column in its own type; as dates, texts, or places of declared levels.

    An undeclared level has the place after the last.
    """
    if isinstance(as_what, Categorical):
        told = Categorical(levels=as_what.levels, other=True, missing="level")
        return HeldIntegers(codes_of(values, told, missing), told.absent)
    if as_what == "text":
        texts = cells(values, missing)
        if not is_text(texts.type):
            return HeldTexts(pa.nulls(len(texts), pa.large_binary()))
        return HeldTexts(texts.cast(pa.large_binary()))
    if isinstance(as_what, Date | Time):
        return HeldIntegers(moments_of(values, as_what, missing), int(NEVER))
    if isinstance(as_what, Numeric):
        return as_numbers(values, as_what.reading, missing)
    return as_numbers(values, "flag" if as_what == "boolean" else "number", missing)


def _require_fit(test: Condition, source: Source) -> None:
    name, types = test.column, source.types
    if name not in types:
        raise SourceError(f"The data has no column {name!r}, which a condition names.")
    kind = unwrapped(types[name])
    if not fits(kind, test.cells):
        raise SourceError(
            f"The column {name!r} is of the type {source.unfit.get(name, types[name])}, which a "
            "condition can't test: cast it to numbers or texts (texts are compared byte by byte, "
            "so ISO dates are in order)."
        )
    if test.cells == "text" and not (is_text(kind) or pa.types.is_null(kind)):
        fitting = "boolean" if pa.types.is_boolean(kind) else "number"
        raise SourceError(
            f"The column {name!r} is of the type {types[name]}, which is no text: declare "
            f'{_key(name)} = "{fitting}" under [where] in the schema.'
        )


class _Reader:
    """Reads one stated text, token by token."""

    def __init__(self, stated: str, schema: Schema) -> None:
        self._stated = stated
        self._schema = schema
        self._left: deque[tuple[str, str]] = deque()
        if any(unicodedata.category(character) in UNSEEN for character in stated):
            raise self._wrong("it holds a character that nobody sees")
        at = 0
        while at < len(stated):
            found = _TOKEN.match(stated, at)
            if found is None or found.lastgroup is None:
                raise self._wrong(f"character {at + 1} begins nothing that is known here")
            self._left.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()

    def _wrong(self, why: str) -> SourceError:
        """Say why; never with a literal, which may be a password that nothing marks as one."""
        return SourceError(
            f"The condition {hidden(self._stated)!r} can't be used: {why}. An example: {EXAMPLE}."
        )

    def _take(self, kind: str, *wanted: str) -> str | None:
        """The next token, if it is of this kind, and in any case one of those `wanted`."""
        if not self._left or self._left[0][0] != kind:
            return None
        if wanted and self._left[0][1].lower() not in wanted:
            return None
        return self._left.popleft()[1]

    def tests(self) -> Iterator[Condition]:
        yield self._test()
        while self._take("word", "and"):
            yield self._test()
        if self._left:
            raise self._wrong("only `and` and another test may follow a test")

    def _test(self) -> Condition:
        column = self._column()
        as_what = self._read_as(column)
        operator = self._operator()
        ordered = operator in _ORDERED
        if ordered and (isinstance(as_what, Categorical | Flag) or as_what == "boolean"):
            raise self._wrong(f"the values of {column!r} have no order: use = != or in")
        found = dict(self._found(s, column, as_what, ordered) for s in self._literals(operator))
        shown = list(found.values())
        parts = [_name(column), operator]
        if operator in ("in", "not in"):
            parts.append(f"({', '.join(shown)})")
        else:
            parts += shown
        text = " ".join(parts)
        return Condition(column, as_what, operator, tuple(found), self._schema.missing, text)

    def _column(self) -> str:
        if (quoted := self._take("quoted")) is not None:
            return quoted.replace('""', '"')
        word = self._take("word")
        if word is None or word.lower() in KEYWORDS:
            raise self._wrong('a test begins with a column, in "double quotes" if it is no word')
        return word

    def _read_as(self, column: str) -> Reading:
        declared = self._schema.columns.get(column)
        if isinstance(declared, Numeric) and declared.reading == "number":
            return "number"
        if isinstance(declared, Categorical | Numeric):
            return declared
        if column in self._schema.where:
            return self._schema.where[column]
        near = difflib.get_close_matches(column, [*self._schema.encoded_columns], 1)
        hint = f" Or did you mean {near[0]!r}?" if near else ""
        raise SchemaError(
            f"A condition names the column {printable(hidden(column))!r}, whose type the schema "
            f'does not tell: add {_key(hidden(column))} = "number" (or "text", "boolean") under '
            f"[where].{hint}"
        )

    def _operator(self) -> str:
        if sign := self._take("sign", *_COMPARED):
            return sign
        if self._take("word", "is"):
            negated = self._take("word", "not")
            if self._take("word", "null"):
                return "is not null" if negated else "is null"
        else:
            negated = self._take("word", "not")
            if self._take("word", "in"):
                return "not in" if negated else "in"
        raise self._wrong("a column is followed by = != < <= > >=, (not) in, or is (not) null")

    def _literals(self, operator: str) -> Iterator[Literal]:
        if operator in _COMPARED:
            yield self._literal()
        elif operator in ("in", "not in"):
            listed = self._take("mark", "(")
            yield self._literal()
            while self._take("mark", ","):
                yield self._literal()
            if not listed or not self._take("mark", ")"):
                raise self._wrong("a list is (a, b, ...), in round brackets")

    def _literal(self) -> Literal:
        if (text := self._take("text")) is not None:
            return text.replace("''", "'")
        word = self._take("word") or ""
        if word.lower() in ("true", "false"):
            return word.lower() == "true"
        if not _NUMBER.fullmatch(word):
            raise self._wrong("a value is a number, 'text' in single quotes, true or false")
        number = Decimal(word)
        if not math.isfinite(number) or (word.lstrip("+-").isdigit() and abs(number) >= EXACT):
            raise self._wrong("numbers must be finite, and integers below 2^53")
        return number or Decimal(0)  # -0 is 0

    def _found(
        self, stated: Literal, column: str, as_what: Reading, ordered: bool
    ) -> tuple[Value, str]:
        """A literal as it is compared, by the grammar of cells, and as it is told."""
        how = as_what.reading if isinstance(as_what, Numeric) else as_what
        if isinstance(how, str):
            wanted, value = _WANTED[how]
            if not isinstance(stated, wanted):
                raise self._wrong(f"{column!r} is compared with {value}")
        held = read(_cell(stated, as_what), as_what, () if ordered else self._schema.missing)
        if not held.known[0]:
            if isinstance(as_what, Date | Time):
                raise self._wrong(f"{column!r} is compared with {_WANTED['day'][1]}")
            raise self._wrong(f"such a cell is missing: write {_name(column)} is null")
        if isinstance(held, HeldTexts):
            text = held.cells[0].as_py()
            return text, _spelled(text.decode())
        if not isinstance(held, HeldIntegers):
            number = Decimal(stated)
            return number, _spelled(stated)
        found = int(held.cells[0])
        if isinstance(as_what, Date | Time):
            return found, _spelled(as_what.shown(found if how == "day" else found / SECOND))
        if isinstance(as_what, Categorical):
            if found == len(as_what.levels):
                text = level_text(float(stated) if isinstance(stated, Decimal) else stated)
                near = _nearest(text, as_what)
                raise self._wrong(f"it is no declared level of {column!r}; did you mean {near}?")
            return found, _level(as_what.levels[found])
        raise TypeError(type(as_what))


def _cell(stated: Literal, as_what: Reading) -> pa.Array:
    """A literal as the one cell of a column."""
    if isinstance(stated, Decimal):
        return pa.array([float(stated) if isinstance(as_what, Categorical) else str(stated)])
    return pa.array([stated])


def _nearest(text: str, declared: Categorical) -> str:
    """The declared level that is most like it, as a literal."""
    known = {level_text(level): level for level in declared.levels}
    near = difflib.get_close_matches(text, known, 1, 0.0)
    return _level(known[near[0]])


def _level(level: bool | float | str) -> str:
    """A declared level as a literal; a number that no literal can be, as a text."""
    typed = isinstance(level, bool) or (not isinstance(level, str) and abs(level) < EXACT)
    return _spelled(level if typed else level_text(level))


def _spelled(value: bool | float | Decimal | str) -> str:
    """A value as a literal."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        near = float(value)
        return _spelled(near) if Decimal(repr(near)) == value else str(value)
    return str(int(value)) if abs(value) < EXACT and value == int(value) else repr(value)


def _name(column: str) -> str:
    """A column as conditions name it."""
    if re.fullmatch(r"[^\W\d]\w*", column) and column.lower() not in KEYWORDS:
        return column
    return '"' + column.replace('"', '""') + '"'


def _key(column: str) -> str:
    """A column as a key in TOML."""
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", column)
    return column if bare else json.dumps(printable(column), ensure_ascii=False)
