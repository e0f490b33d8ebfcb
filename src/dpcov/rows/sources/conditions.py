"""Conditions: public tests of a row by its own cells (docs/how-to/conditions.md).

dpcov evaluates conditions itself, on the cells that it reads. A database engine would compare with
its own rules for collation and padding, and its casts can fail for a row. Other users can also
redefine the operators of a database.
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
    NO_MOMENT,
    as_numbers,
    cells,
    codes_of,
    declared_numbers,
    distinct,
    moments_of,
)
from dpcov.rows.dates import SECOND
from dpcov.rows.numbers import MAX_EXACT_INTEGER, is_text
from dpcov.rows.schema import (
    INVISIBLE_CATEGORIES,
    Categorical,
    Cells,
    Date,
    Flag,
    Numeric,
    Time,
    level_text,
)
from dpcov.rows.sources.base import fits, unwrapped
from dpcov.rows.sources.level import FilteredSource

if TYPE_CHECKING:
    from dpcov.core.arrays import Booleans, Integers
    from dpcov.rows.schema import Schema
    from dpcov.rows.sources.base import Source

    Literal = bool | Decimal | str

EXAMPLE_CONDITION = "\"age >= 18 and region in ('north', 'south')\""
KEYWORDS = ("and", "in", "is", "not", "null", "true", "false")

_TOKEN_PATTERN = re.compile(
    r"""\s*(?: "(?P<quoted>(?:[^"]|"")+)" | '(?P<text>(?:[^']|'')*)' | (?P<sign>[<>=!]+)
    | (?P<mark>[(),]) | (?P<word>[^\s"'<>=!(),]+) )\s*""",
    re.VERBOSE,
)
_NUMBER_LITERAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
_ORDER_SIGNS = ("<", "<=", ">", ">=")

_LITERAL_TYPES: dict[
    str, tuple[type, str]
] = {  # Type and description of literals, by type of the cells.
    **dict.fromkeys(("number", "whole"), (Decimal, "a number")),
    **dict.fromkeys(("boolean", "flag"), (bool, "true or false")),
    **dict.fromkeys(("day", "second"), (str, "a date in quotes, for example '1990-12-31'")),
    "text": (str, "'text'"),
}

Reading = Cells | Categorical | Numeric  # Type of the cells of a column.
Value = Decimal | int | bytes  # Literal as a number, as a date or level position, or as a text.


class Held(Protocol):
    """Cells in a form that can be compared with literals."""

    @property
    def known(self) -> Booleans:
        """Boolean array of shape (n,): True for cells that are not missing."""

    def signs(self, literal: Any) -> Any:
        """Return -1, 0 or 1 for each cell below, at or above a literal.

        The result for a missing cell is arbitrary.
        """

    def among(self, literals: Sequence[Any]) -> Booleans:
        """Return True for each cell that equals one of the literals.

        The result for a missing cell is arbitrary.
        """


@dataclass(frozen=True, slots=True, repr=False)  # a repr would print the data
class HeldIntegers:
    """Dates, or positions of levels, as integers.

    Attributes
    ----------
    cells : ndarray of int64, shape (n,)
        Values.
    missing : int
        Value that stands for a missing cell.

    """

    cells: Integers
    missing: int

    @property
    def known(self) -> Booleans:
        """Boolean array of shape (n,): True for cells that are not missing."""
        return self.cells != self.missing

    def signs(self, literal: int) -> Any:
        """Return -1, 0 or 1 for each cell below, at or above a literal."""
        return np.subtract(self.cells > literal, self.cells < literal, dtype=np.int8)

    def among(self, literals: Sequence[int]) -> Booleans:
        """Return True for each cell that equals one of the literals."""
        return np.isin(self.cells, literals)


@dataclass(frozen=True, slots=True, repr=False)
class HeldTexts:
    """Texts as bytes, which might not be valid UTF-8; null stands for a missing cell.

    Attributes
    ----------
    cells : pyarrow.Array of large_binary, length n
        Texts.

    """

    cells: pa.Array

    @property
    def known(self) -> Booleans:
        """Boolean array of shape (n,): True for cells that are not missing."""
        return _booleans(self.cells.is_valid())

    def signs(self, literal: bytes) -> Any:
        """Return -1, 0 or 1 for each text below, at or above a literal, byte by byte."""
        wanted = pa.scalar(literal, self.cells.type)
        above, below = (_booleans(f(self.cells, wanted)) for f in (pc.greater, pc.less))
        return np.subtract(above, below, dtype=np.int8)

    def among(self, literals: Sequence[bytes]) -> Booleans:
        """Return True for each text that equals one of the literals."""
        return _booleans(pc.is_in(self.cells, value_set=pa.array(literals, self.cells.type)))


def _booleans(found: pa.BooleanArray) -> Booleans:
    """Convert an Arrow array of truth values to NumPy; null becomes False."""
    return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False))


@dataclass(frozen=True, slots=True)
class Condition:
    """One test of the cells of one column.

    Attributes
    ----------
    column : str
        Name of the column.

    cells : str, Categorical or Numeric
        Type of the cells: numbers, texts, truth values, dates or declared levels.

    operator : str
        Comparison sign, ``in``, ``not in``, ``is null`` or ``is not null``.

    literals : tuple
        Values to compare with, in the form that `read` returns.

    missing : tuple of str
        Texts that mean a missing value.

    text : str
        Condition in normalized spelling. Public.

    """

    column: str
    cells: Reading
    operator: str
    literals: tuple[Value, ...]
    missing: tuple[str, ...]
    text: str

    def keep(self, values: pa.Array) -> Booleans:
        """Return True for each cell that meets the condition.

        Parameters
        ----------
        values : pyarrow.Array, length n
            Cells of the column.

        Returns
        -------
        ndarray of bool, shape (n,)

        """
        parts = distinct(values)
        if parts is None:
            return self._met(values)
        met = np.append(
            self._met(parts[0]), self.operator == "is null"
        )  # the last entry is for null
        return met[parts[1]]

    def _met(self, values: pa.Array) -> Booleans:
        """Return True for each cell that meets the condition; missing cells meet no comparison.

        The operators ``!=`` and ``not in`` are comparisons too.
        """
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
                met = _OPERATORS[sign](found.signs(self.literals[0]), 0)
        return met & found.known


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions that a row must meet to count.

    Without conditions, the object is false in an ``if`` statement.

    The result for a row depends on this row alone, for every content of its cells.

    Attributes
    ----------
    tests : tuple of Condition
        Conditions. A row must meet all of them.

    """

    tests: tuple[Condition, ...] = ()

    @classmethod
    def parse(cls, stated: str | Sequence[str], schema: Schema) -> Conditions:
        """Parse conditions.

        Parameters
        ----------
        stated : str or sequence of str
            One or several conditions. The forms are ``column operator literal``, ``column in (a,
            b)``, ``column not in (a, b)``, ``column is null`` and ``column is not null``. The word
            ``and`` joins conditions.

        schema : Schema
            Declared columns, which determine the types of the cells.

        Returns
        -------
        Conditions

        Raises
        ------
        SourceError
            The text is not a valid condition.
        SchemaError
            The schema does not state the type of a column.

        """
        texts = [stated] if isinstance(stated, str) else stated
        return cls(tuple(test for text in texts for test in _Reader(text, schema).tests()))

    def __bool__(self) -> bool:
        return bool(self.tests)

    @property
    def texts(self) -> tuple[str, ...]:
        """Each condition in a normalized spelling. Public."""
        return tuple(test.text for test in self.tests)


def rows_meeting(source: Source, conditions: Conditions) -> Source:
    """Return the rows of a source that meet the conditions.

    Parameters
    ----------
    source : Source
        Table.
    conditions : Conditions
        Conditions on its columns.

    Returns
    -------
    Source

    Raises
    ------
    SourceError
        A condition does not fit the type of its column.

    """
    for test in conditions.tests:
        _require_fit(test, source)
    return FilteredSource(source, *conditions.tests) if conditions else source


def refuse_conditions(conditions: Conditions, neighbors: Neighbors) -> None:
    """Raise `SourceError` for conditions under replace-one.

    The number of rows that meet the conditions is private, because a changed row can begin or cease
    to meet them.
    """
    if conditions and neighbors == Neighbors.REPLACE_ONE:
        raise SourceError(
            f"Conditions ({named('where')}) cannot be used with replace-one, because the "
            "number of rows that meet them is private. Use add-remove."
        )


def read(values: pa.Array, as_what: Reading, missing: tuple[str, ...]) -> Held:
    """Convert cells to the form in which they are compared.

    Parameters
    ----------
    values : pyarrow.Array, length n
        Cells.
    as_what : str, Categorical or Numeric
        Type of the cells.
    missing : tuple of str
        Texts that mean a missing value.

    Returns
    -------
    Held
        Numbers, dates, texts or positions of declared levels. An undeclared level has the position
        after the last one.

    """
    if isinstance(as_what, Categorical):
        full = as_what.model_copy(update={"other": True, "missing": "level"})
        return HeldIntegers(codes_of(values, full, missing), full.absent)
    if as_what == "text":
        texts = cells(values, missing)
        if not is_text(texts.type):
            return HeldTexts(pa.nulls(len(texts), pa.large_binary()))
        return HeldTexts(texts.cast(pa.large_binary()))
    if isinstance(as_what, Date | Time):
        return HeldIntegers(moments_of(values, as_what, missing), int(NO_MOMENT))
    if isinstance(as_what, Numeric):
        return declared_numbers(values, as_what, missing)
    return as_numbers(values, "flag" if as_what == "boolean" else "number", missing)


def _require_fit(test: Condition, source: Source) -> None:
    """Raise `SourceError` if a condition does not fit the type of its column."""
    name, types = test.column, source.types
    if name not in types:
        raise SourceError(
            f"The data has no column {name!r}, but a condition uses it. Compare the condition "
            "with the columns of the data."
        )
    kind = unwrapped(types[name])
    if not fits(kind, test.cells):
        raise SourceError(
            f"The column {name!r} has the type {source.unfit.get(name, types[name])}, which "
            "a condition cannot test. Convert it to numbers or texts (texts are compared "
            "byte by byte, so ISO dates are in order)."
        )
    if test.cells == "text" and not (is_text(kind) or pa.types.is_null(kind)):
        fitting = "boolean" if pa.types.is_boolean(kind) else "number"
        raise SourceError(
            f"The column {name!r} has the type {types[name]}, but the schema declares text. "
            f'Set {_key(name)} = "{fitting}" under [where] in the schema.'
        )


class _Reader:
    """Parser of one text with conditions.

    Parameters
    ----------
    stated : str
        Text.
    schema : Schema
        Declared columns.

    """

    def __init__(self, stated: str, schema: Schema) -> None:
        self._stated = stated
        self._schema = schema
        self._left: deque[tuple[str, str]] = deque()
        if any(unicodedata.category(character) in INVISIBLE_CATEGORIES for character in stated):
            raise self._wrong("the text contains an invisible character")
        at = 0
        while at < len(stated):
            found = _TOKEN_PATTERN.match(stated, at)
            if found is None or found.lastgroup is None:
                raise self._wrong(f"character {at + 1} is unexpected")
            self._left.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()

    def _wrong(self, why: str) -> SourceError:
        """Return the error with the reason.

        The message contains no literal, because a literal might be a password.
        """
        return SourceError(
            f"The condition {hidden(self._stated)!r} is not valid: {why}. "
            f"Example: {EXAMPLE_CONDITION}."
        )

    def _next(self, kind: str, *wanted: str) -> str | None:
        """Remove and return the next token if it has this kind and is one of the `wanted` words."""
        if not self._left or self._left[0][0] != kind:
            return None
        if wanted and self._left[0][1].lower() not in wanted:
            return None
        return self._left.popleft()[1]

    def tests(self) -> Iterator[Condition]:
        """Yield the conditions of the text."""
        yield self._test()
        while self._next("word", "and"):
            yield self._test()
        if self._left:
            raise self._wrong("only `and` can follow a test")

    def _test(self) -> Condition:
        """Parse one condition."""
        column = self._column()
        as_what = self._read_as(column)
        operator = self._operator()
        ordered = operator in _ORDER_SIGNS
        if ordered and (isinstance(as_what, Categorical | Flag) or as_what == "boolean"):
            raise self._wrong(f"the values of {column!r} have no order, so use =, != or in")
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
        """Parse the name of a column."""
        if (quoted := self._next("quoted")) is not None:
            return quoted.replace('""', '"')
        word = self._next("word")
        if word is None or word.lower() in KEYWORDS:
            raise self._wrong(
                'a test starts with a column name, which needs "double quotes" if it is not a '
                "single word"
            )
        return word

    def _read_as(self, column: str) -> Reading:
        """Return the type of the cells of a column."""
        declared = self._schema.columns.get(column)
        if isinstance(declared, Numeric) and declared.reads_plain_numbers:
            return "number"
        if isinstance(declared, Categorical | Numeric):
            return declared
        if column in self._schema.where:
            return self._schema.where[column]
        near = difflib.get_close_matches(column, [*self._schema.encoded_columns], 1)
        hint = f", or use {near[0]!r}" if near else ""
        raise SchemaError(
            f"A condition uses the column {printable(hidden(column))!r}, but the schema does "
            f'not state its type. Add {_key(hidden(column))} = "number" (or "text", '
            f'"boolean") under [where]{hint}.'
        )

    def _operator(self) -> str:
        """Parse an operator."""
        if sign := self._next("sign", *_OPERATORS):
            return sign
        if self._next("word", "is"):
            negated = self._next("word", "not")
            if self._next("word", "null"):
                return "is not null" if negated else "is null"
        else:
            negated = self._next("word", "not")
            if self._next("word", "in"):
                return "not in" if negated else "in"
        raise self._wrong(
            "use one of the operators =, !=, <, <=, >, >=, in, not in, is null and is not null"
        )

    def _literals(self, operator: str) -> Iterator[Literal]:
        """Parse the literals of an operator."""
        if operator in _OPERATORS:
            yield self._literal()
        elif operator in ("in", "not in"):
            listed = self._next("mark", "(")
            yield self._literal()
            while self._next("mark", ","):
                yield self._literal()
            if not listed or not self._next("mark", ")"):
                raise self._wrong("write a list as (a, b, ...)")

    def _literal(self) -> Literal:
        """Parse one literal."""
        if (text := self._next("text")) is not None:
            return text.replace("''", "'")
        word = self._next("word") or ""
        if word.lower() in ("true", "false"):
            return word.lower() == "true"
        if not _NUMBER_LITERAL.fullmatch(word):
            raise self._wrong("a value must be a number, 'text' in single quotes, true or false")
        number = Decimal(word)
        if not math.isfinite(number) or (
            word.lstrip("+-").isdigit() and abs(number) >= MAX_EXACT_INTEGER
        ):
            raise self._wrong("numbers must be finite, and integers must be below 2^53")
        return number or Decimal(0)  # -0 is 0

    def _found(
        self, stated: Literal, column: str, as_what: Reading, ordered: bool
    ) -> tuple[Value, str]:
        """Convert a literal to the form of the cells, and to its normalized spelling."""
        how = as_what.reading if isinstance(as_what, Numeric) else as_what
        if isinstance(how, str):
            wanted, value = _LITERAL_TYPES[how]
            if not isinstance(stated, wanted):
                raise self._wrong(f"compare {column!r} with {value}")
        # A literal is a plain number, whatever the notation of the cells.
        held = read(
            _cell(stated, as_what),
            _plainly(as_what, ordered),
            () if ordered else self._schema.missing,
        )
        if not held.known[0]:
            if isinstance(as_what, Date | Time):
                raise self._wrong(f"compare {column!r} with {_LITERAL_TYPES['day'][1]}")
            raise self._wrong(f"this value means a missing cell, so write {_name(column)} is null")
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
                raise self._wrong(
                    f"the value is not a declared level of {column!r}, but {near} is similar"
                )
            return found, _level(as_what.levels[found])
        raise TypeError(type(as_what))


def _plainly(as_what: Reading, ordered: bool) -> Reading:
    """Return how to read a literal: without a notation; if `ordered`, without missing codes."""
    if isinstance(as_what, str):
        return as_what
    update: dict[str, Any] = {"missing_codes": ()} if ordered else {}
    if (notation := getattr(as_what, "notation", None)) is not None:
        codes = (*as_what.missing_codes, *notation.codes(as_what.missing_codes))
        update = {"decimal": None, "thousands": None, "missing_codes": codes} | update
    return as_what.model_copy(update=update)


def _cell(stated: Literal, as_what: Reading) -> pa.Array:
    """Return a literal as a column with one cell."""
    if isinstance(stated, Decimal):
        return pa.array([float(stated) if isinstance(as_what, Categorical) else str(stated)])
    return pa.array([stated])


def _nearest(text: str, declared: Categorical) -> str:
    """Return the declared level that is most similar to a text, as a literal."""
    known = {level_text(level): level for level in declared.levels}
    near = difflib.get_close_matches(text, known, 1, 0.0)
    return _level(known[near[0]])


def _level(level: bool | float | str) -> str:
    """Return a declared level as a literal."""
    typed = isinstance(level, bool) or (
        not isinstance(level, str) and abs(level) < MAX_EXACT_INTEGER
    )
    return _spelled(level if typed else level_text(level))


def _spelled(value: bool | float | Decimal | str) -> str:
    """Return a value as a literal in normalized spelling."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        near = float(value)
        return _spelled(near) if Decimal(repr(near)) == value else str(value)
    return (
        str(int(value)) if abs(value) < MAX_EXACT_INTEGER and value == int(value) else repr(value)
    )


def _name(column: str) -> str:
    """Return a column name as conditions spell it."""
    if re.fullmatch(r"[^\W\d]\w*", column) and column.lower() not in KEYWORDS:
        return column
    return '"' + column.replace('"', '""') + '"'


def _key(column: str) -> str:
    """Return a column name as a key in TOML."""
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", column)
    return column if bare else json.dumps(printable(column), ensure_ascii=False)
