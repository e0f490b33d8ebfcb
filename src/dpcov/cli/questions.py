"""Questions whose answers make a schema: one column at a time, from public knowledge only.

What is asked depends on names and types, on metadata that a person passed on, and on answers. No
cell is looked at, so none can be shown or suggested.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from dpcov.cli.drafts import Declaration, Stated, gaps
from dpcov.core.printable import printable
from dpcov.errors import SchemaError
from dpcov.rows.dates import DAY, SECOND, moment_of, shown_date, shown_time
from dpcov.rows.missing import group_of
from dpcov.rows.schema import PersonUnit, Schema

if TYPE_CHECKING:
    from dpcov.rows.missing import Group
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
PRESETS: dict[str, Declaration] = {
    "percentage": {"kind": "number", "lower": 0.0, "upper": 100.0},
    "age": {"kind": "number", "lower": 0.0, "upper": 120.0},
    "flag": {"kind": "flag"},
    "omit": {"kind": "ignored"},
}
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
MEANINGS: dict[Group, dict[str, str]] = {
    "numbers": {
        "none": "no cell can be missing, and you promise it",
        "pairwise": "leave it out of means and covariances",
        "midpoint": "count it as the midpoint of the bounds",
        "level": "count it as the midpoint, and add a 0/1 feature",
    },
    "categories": {
        "none": "no cell can be missing, and you promise it",
        "zeros": "count it as none of the levels",
        "level": "give it a level of its own",
        "other": "count it with values that are none of the levels",
    },
}
ID_TYPES = ("integer", "decimal", "uuid", "text")
LATER = "back or quit, in full"


class Quit(Exception):  # noqa: N818  a wish, not a fault
    """The person wants to stop; nothing is to be written."""


class Back(Exception):  # noqa: N818  a wish, too
    """The person wants to be asked again what the column holds."""


@dataclass
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

    kinds: Mapping[str, Kind]
    options: FileOptions
    stated: Stated
    ask: Callable[[str], str]
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        self.unit = self.stated.unit
        columns = self.stated.columns.items()
        self.answers = {name: given for name, given in columns if {*gaps(given)} <= {"missing"}}
        self._rules: dict[Group, str] = {}  # the last answer of each group
        if self.unit is not None and self.unit.type is None:
            self.answers.pop(self.unit.column, None)  # metadata don't tell what an id is

    def run(self) -> Stated:
        """Ask about every column; raises `Quit`."""
        self.say(f"{WHY}\n")
        self._show_choices()
        names = list(self.kinds)
        at = 0
        while True:
            while at < len(names):
                at = self._column(at, names[at])
            found = self._checked()
            if found is not None and self._confirmed(found):
                return found
            at = len(names) - 1

    def _show_choices(self) -> None:
        for word, meaning in (CHOICES | MOVES).items():
            self.say(f"  {word:<12}{meaning}")
        self.say("The first letter of a word is enough.")

    def _column(self, at: int, name: str) -> int:
        """One column: the kind of answer, then what it needs; the place of the next one."""
        known = self.answers.get(name)
        self.say(f"\nColumn {at + 1} of {len(self.kinds)}: {printable(name)} ({self._type(name)})")
        offer = "" if known is None else f" [Enter: {self._content(name, known)}]"
        while True:
            word = _completed(self.ask(f"What does it hold?{offer}"), CHOICES | MOVES)
            if word == "quit":
                raise Quit
            if word == "back":
                return max(0, at - 1)
            if word == "done":
                self.answers |= dict.fromkeys(list(self.kinds)[at:], PRESETS["omit"])
                return len(self.kinds)
            if word == "why":
                self.say(WHY)
                self._show_choices()
            elif word in CHOICES or (not word and known is not None):
                with suppress(Back):
                    self._declare(name, word)
                    return at + 1
            else:
                self.say(f"One of: {', '.join(CHOICES | MOVES)}.")

    def _type(self, name: str) -> str:
        hint = f"; {self.stated.hints[name]}" if name in self.stated.hints else ""
        return f"type: {TYPES[self.kinds[name]]}{printable(hint)}"

    def _declare(self, name: str, word: str) -> None:
        """Take an answer and what it needs; of no word, the answer that is there."""
        if not word:
            self._state_rule(name, self.answers[name])
            return
        if word == "id":
            self._person(name)
            return
        asked = {"numbers": self._bounds, "time": self._dates, "categories": self._levels}
        declared = PRESETS[word] if word in PRESETS else asked[word](name)
        self._state_rule(name, declared)
        if self.unit is not None and self.unit.column == name:
            self.unit = None  # a column that is something else now is not the id

    def _state_rule(self, name: str, declared: Declaration) -> None:
        """Set the answer of a column, once what its missing cells mean is stated; ask for that."""
        group = group_of(declared["kind"])
        if group is not None and "missing" not in declared:
            rule = self._rule(group)
            declared = declared | {"missing": rule} | ({"other": True} if rule == "other" else {})
        self.answers[name] = declared

    def _rule(self, group: Group) -> str:
        """What a missing cell means; Enter for the last answer of the group."""
        last, meanings = self._rules.get(group), MEANINGS[group]
        if last is None:
            for word, meaning in meanings.items():
                self.say(f"  {word:<12}{meaning}")
        offer = "" if last is None else f" [Enter: {last}]"
        while True:
            typed = self.ask(f"What does a missing cell mean?{offer}").strip()
            if typed in ("quit", "back"):
                raise Quit if typed == "quit" else Back
            word = _completed(typed, meanings) or last or ""
            if word in meanings:
                self._rules[group] = word
                return word
            self.say(f"One of: {', '.join(meanings)} ({LATER}).")

    def _bounds(self, name: str) -> Declaration:
        """Bounds of numbers that a person states."""
        lower, upper = self._pair(_finite, "a number, such as 0 or 2.5.")
        kind = "integer" if self.kinds[name] == "integer" else "number"
        return {"kind": kind, "lower": lower, "upper": upper}

    def _dates(self, name: str) -> Declaration:
        """Bounds of dates that a person states; days alone, unless the time of day is told."""
        bounds = self._pair(moment_of, "a date, such as 1990-12-31, or 1990-12-31 23:59.")
        days = self.kinds[name] != "time" and all(moment % DAY == 0 for moment in bounds)
        found = [
            shown_date(moment // DAY) if days else shown_time(moment / SECOND) for moment in bounds
        ]
        return {"kind": "date" if days else "time", "lower": found[0], "upper": found[1]}

    def _pair(self, read: Callable[[str], Number | None], wanted: str) -> tuple[Number, Number]:
        """Two bounds, the lower below the upper."""
        self.say(f"The least and the largest value that count ({LATER}).")
        while True:
            lower = self._read("Lower bound", read, wanted)
            upper = self._read("Upper bound", read, wanted)
            if lower < upper:
                return lower, upper
            self.say("The lower bound must be below the upper one.")

    def _levels(self, _: str) -> Declaration:
        """Levels that a person states, numbers where they are spelt as such."""
        self.say(f'With commas between; a level with a comma in quotes "..." ({LATER}).')
        wanted = "each level once, and at least one, such as: yes, no"
        return {"kind": "categorical", "levels": _numbers(self._read("Levels", _levels, wanted))}

    def _person(self, name: str) -> None:
        """Make a column the id of persons."""
        self.say(
            f"Rows of one person beyond a limit are dropped: the noise grows with it ({LATER})."
        )
        question = "At most how many rows of one person count?"
        most = self._read(question, _row_count, "a whole number from 1 to 1048576.")
        found = self._text(f"What is an id: {', '.join(ID_TYPES)}?")
        while found not in ID_TYPES:
            found = self._text(f"Please one of: {', '.join(ID_TYPES)}.")
        if self.unit is not None and self.unit.column != name:
            self.say(f"{printable(self.unit.column)} is no longer the id, and left out.")
        self.unit = PersonUnit.model_validate({"column": name, "type": found, "max_rows": most})
        self.answers[name] = PRESETS["omit"]

    def _text(self, question: str) -> str:
        """An answer that may be any text; raises `Quit` and `Back`."""
        text = ""
        while not text:
            text = self.ask(question).strip()
        if text in ("quit", "back"):
            raise Quit if text == "quit" else Back
        return text

    def _read(self, question: str, read: Callable[[str], T | None], wanted: str) -> T:
        """An answer, asked for until `read` makes something of it."""
        while (found := read(self._text(question))) is None:
            self.say(f"Please {wanted}")
        return found

    def _checked(self) -> Stated | None:
        """All answers, if a schema can be made of them."""
        columns = {name: self.answers[name] for name in self.kinds}
        found = Stated(columns, self.unit, self.stated.missing)
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
            word = _completed(self.ask("Write it? (yes, back, quit)"), ("yes", "back", "quit"))
            if word == "quit":
                raise Quit
            if word in ("yes", "back"):
                return word == "yes"

    def _in_words(self, name: str, declaration: Declaration) -> str:
        rule = declaration.get("missing")
        return self._content(name, declaration) + (f"; missing cells: {rule}" if rule else "")

    def _content(self, name: str, declaration: Declaration) -> str:
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


def _completed(answer: str, words: Iterable[str]) -> str:
    """The word that an answer begins, or what was typed."""
    typed = answer.strip().lower()
    return next((word for word in words if typed and word.startswith(typed)), typed)


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
