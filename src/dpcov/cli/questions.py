"""Questions whose answers make a schema: one column at a time, from public knowledge only.

What is asked depends on names and types, on metadata that a person passed on, and on answers. No
cell is looked at, so none can be shown or suggested.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from dpcov.cli.drafts import Declaration, Stated, gaps
from dpcov.core.printable import printable
from dpcov.errors import SchemaError
from dpcov.rows.dates import DAY, SECOND, moment_of, shown_date, shown_time
from dpcov.rows.schema import PersonUnit, Schema

if TYPE_CHECKING:
    from dpcov.rows.schema import FileOptions, Kind

T = TypeVar("T")
Number = TypeVar("Number", int, float)
WHY = (
    "A schema says what each column can hold. It decides how much noise a release needs, and "
    "everybody sees it. Nothing protects it. The largest value of a column is some person's value, "
    "and a category that one person has tells about that person: so answer from what you know of "
    "the column (its definition, the questionnaire, the law, nature), never by looking into the "
    "table. A bound may be generous: values beyond it count as the bound. What is asked here rests "
    "on names and types only."
)
CHOICES = {
    "percentage": "0 to 100",
    "age": "in years, 0 to 120",
    "flag": "0 or 1, true or false",
    "numbers": "whose bounds you state",
    "time": "dates, perhaps with the time of day, whose bounds you state",
    "categories": "whose levels you state",
    "id": "of a person: then persons are protected, not rows",
    "omit": "leave the column out",
}
MOVES = {
    "back": "to the column before",
    "done": "leave this and all columns after it out",
    "why": "these questions",
    "quit": "write nothing",
}
PRESETS = {"percentage": (0.0, 100.0), "age": (0.0, 120.0)}
TYPES = {
    "numeric": "numbers",
    "number": "numbers",
    "integer": "whole numbers",
    "count": "whole numbers",
    "flag": "truth values",
    "date": "dates",
    "time": "dates with times",
    "categorical": "text or the like",
    "ignored": "another type",
    "unknown": "not told by a text file",
}
ID_TYPES = ("integer", "decimal", "uuid", "text")
LATER = "back or quit, in full"


class Move(Enum):
    """Where to go after a question."""

    ON = 1
    BACK = -1
    DONE = 0


class Quit(Exception):  # noqa: N818  a wish, not a fault
    """The person wants to stop; nothing is to be written."""


class Interview:
    """The questions about one table.

    Parameters
    ----------
    kinds : names of the columns and their types.
    options : how the file is read.
    stated : what metadata say; offered as answers.
    ask : shows a question and returns the answer, "" for none.
    say : shows a text.

    """

    def __init__(
        self,
        kinds: Mapping[str, Kind],
        options: FileOptions,
        stated: Stated,
        ask: Callable[[str], str],
        say: Callable[[str], None],
    ) -> None:
        self.kinds = kinds
        self.options = options
        self.ask = ask
        self.say = say
        self.missing = stated.missing
        self.unit = stated.unit
        self.hints = stated.hints
        self.answers = {name: given for name, given in stated.columns.items() if not gaps(given)}
        if self.unit is not None and self.unit.type is None:
            self.answers.pop(self.unit.column, None)  # metadata don't tell what an id is

    def run(self) -> Stated:
        """Ask about every column; raises `Quit`."""
        self.say(f"{WHY}\n")
        self._show_choices()
        names = list(self.kinds)
        at = 0
        while True:
            if at < len(names):
                move = self._column(at, names[at])
                if move is Move.DONE:
                    self.answers |= {name: {"kind": "ignored"} for name in names[at:]}
                    at = len(names)
                else:
                    at = max(0, at + move.value)
            elif (found := self._checked()) is not None and self._confirmed(found):
                return found
            else:
                at = len(names) - 1

    def _show_choices(self) -> None:
        for word, meaning in (CHOICES | MOVES).items():
            self.say(f"  {word:<12}{meaning}")
        self.say("The first letter of a word is enough.")

    def _column(self, at: int, name: str) -> Move:
        """One column: the kind of answer, then what it needs."""
        known = self.answers.get(name)
        self.say(f"\nColumn {at + 1} of {len(self.kinds)}: {printable(name)} ({self._type(name)})")
        offer = "" if known is None else f" [Enter: {self._in_words(name, known)}]"
        while True:
            word = _completed(self.ask(f"What does it hold?{offer}"))
            if not word and known is not None:
                return Move.ON
            if word == "quit":
                raise Quit
            if word == "back":
                return Move.BACK
            if word == "done":
                return Move.DONE
            if word == "why":
                self.say(WHY)
                self._show_choices()
            elif word in CHOICES:
                if self._declared(name, word):
                    return Move.ON
            else:
                self.say(f"One of: {', '.join(CHOICES | MOVES)}.")

    def _type(self, name: str) -> str:
        hint = f"; {self.hints[name]}" if name in self.hints else ""
        return f"type: {TYPES[self.kinds[name]]}{printable(hint)}"

    def _declared(self, name: str, word: str) -> bool:
        """Take an answer and what it needs; False if the person went back instead."""
        found: Declaration | None
        if word in PRESETS:
            lower, upper = PRESETS[word]
            found = {"kind": "number", "lower": lower, "upper": upper}
        elif word == "flag":
            found = {"kind": "flag"}
        elif word == "numbers":
            found = self._bounds(name)
        elif word == "time":
            found = self._dates(name)
        elif word == "categories":
            found = self._levels()
        elif word == "id":
            return self._person(name)
        else:
            found = {"kind": "ignored"}
        if found is not None:
            self._free(name)
            self.answers[name] = found
        return found is not None

    def _bounds(self, name: str) -> Declaration | None:
        """Bounds of numbers that a person states."""
        bounds = self._pair(_finite, "a number, such as 0 or 2.5.")
        kind = "integer" if self.kinds[name] == "integer" else "number"
        return bounds and {"kind": kind, "lower": bounds[0], "upper": bounds[1]}

    def _dates(self, name: str) -> Declaration | None:
        """Bounds of dates that a person states; days alone, unless the time of day is told."""
        bounds = self._pair(_moment, "a date, such as 1990-12-31, or 1990-12-31 23:59.")
        if bounds is None:
            return None
        days = self.kinds[name] != "time" and all(moment % DAY == 0 for moment in bounds)
        found = [
            shown_date(moment // DAY) if days else shown_time(moment / SECOND) for moment in bounds
        ]
        return {"kind": "date" if days else "time", "lower": found[0], "upper": found[1]}

    def _pair(
        self, read: Callable[[str], Number | None], wanted: str
    ) -> tuple[Number, Number] | None:
        """Two bounds, the lower below the upper."""
        self.say(f"The least and the largest value that count ({LATER}).")
        while True:
            lower = self._read("Lower bound", read, wanted)
            upper = None if lower is None else self._read("Upper bound", read, wanted)
            if lower is None or upper is None:
                return None
            if lower < upper:
                return lower, upper
            self.say("The lower bound must be below the upper one.")

    def _levels(self) -> Declaration | None:
        """Levels that a person states, numbers where they are spelt as such."""
        self.say(f'With commas between; a level with a comma in quotes "..." ({LATER}).')
        levels = self._read(
            "Levels", _levels, "each level once, and at least one, such as: yes, no"
        )
        return None if levels is None else {"kind": "categorical", "levels": _numbers(levels)}

    def _person(self, name: str) -> bool:
        """Make a column the id of persons."""
        self.say(
            f"Rows of one person beyond a limit are dropped: the noise grows with it ({LATER})."
        )
        question = "At most how many rows of one person count?"
        most = self._read(question, _row_count, "a whole number from 1 to 1048576.")
        if most is None:
            return False
        found = self._text(f"What is an id: {', '.join(ID_TYPES)}?")
        while found is not None and found not in ID_TYPES:
            found = self._text(f"Please one of: {', '.join(ID_TYPES)}.")
        if found is None:
            return False
        if self.unit is not None and self.unit.column != name:
            self.say(f"{printable(self.unit.column)} is no longer the id, and left out.")
        self.unit = PersonUnit.model_validate({"column": name, "type": found, "max_rows": most})
        self.answers[name] = {"kind": "ignored"}
        return True

    def _free(self, name: str) -> None:
        """A column that is something else now is not the id."""
        if self.unit is not None and self.unit.column == name:
            self.unit = None

    def _text(self, question: str) -> str | None:
        """An answer that may be any text; None to go back."""
        while True:
            text = self.ask(question).strip()
            if text == "quit":
                raise Quit
            if text == "back":
                return None
            if text:
                return text

    def _read(self, question: str, read: Callable[[str], T | None], wanted: str) -> T | None:
        """An answer, asked for until `read` makes something of it; None to go back."""
        while (text := self._text(question)) is not None:
            found = read(text)
            if found is not None:
                return found
            self.say(f"Please {wanted}")
        return None

    def _checked(self) -> Stated | None:
        """All answers, if a schema can be made of them."""
        found = Stated({name: self.answers[name] for name in self.kinds}, self.unit, self.missing)
        try:
            Schema.parse(found.document(self.options))
        except SchemaError as error:
            self.say(f"\nThis is no schema yet. {error}")
            return None
        return found

    def _confirmed(self, found: Stated) -> bool:
        """Show everything and ask; False to go back."""
        self.say("\nThe schema:")
        for name, declaration in found.columns.items():
            self.say(f"  {printable(name)}: {self._in_words(name, declaration)}")
        while True:
            answer = self.ask("Write it? (yes, back, quit)").strip().lower()
            if answer and "quit".startswith(answer):
                raise Quit
            if answer and "back".startswith(answer):
                return False
            if answer and "yes".startswith(answer):
                return True

    def _in_words(self, name: str, declaration: Declaration) -> str:
        if declaration["kind"] == "flag":
            return "truth values"
        if "upper" in declaration:
            lower, upper = declaration.get("lower", 0), declaration["upper"]
            told = [end if isinstance(end, str) else f"{end:g}" for end in (lower, upper)]
            return f"{'dates' if isinstance(upper, str) else 'numbers'} from {' to '.join(told)}"
        if declaration["kind"] == "categorical":
            levels = ", ".join(printable(str(level)) for level in declaration["levels"])
            return f"categories {levels}"
        if self.unit is not None and self.unit.column == name:
            return f"person id, at most {self.unit.max_rows} rows of each"
        return "left out"


def _completed(answer: str) -> str:
    """The word that an answer begins, or what was typed."""
    typed = answer.strip().lower()
    found = [word for word in CHOICES | MOVES if typed and word.startswith(typed)]
    return found[0] if found else typed


def _moment(text: str) -> int | None:
    return moment_of(text.strip())


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _row_count(text: str) -> int | None:
    whole = text.isascii() and text.isdigit()
    return int(text) if whole and 1 <= int(text) <= 2**20 else None


def _levels(text: str) -> list[str] | None:
    """Levels with commas between, if each is there once."""
    found = next(csv.reader([text], skipinitialspace=True))
    levels = [level.strip() for level in found if level.strip()]
    return levels if levels and len(set(levels)) == len(levels) else None


def _numbers(levels: list[str]) -> list[str] | list[float]:
    """As numbers, if all are spelt as a number is; 007 stays a text."""
    try:
        numbers = [float(level) for level in levels]
    except ValueError:
        return levels
    spelt = [str(int(n)) if n.is_integer() else repr(n) for n in numbers if math.isfinite(n)]
    return numbers if spelt == levels else levels
