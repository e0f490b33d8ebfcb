"""Interview that makes a schema: one question after the other, for each column.

The questions depend on column names and types, on metadata that the user gave, and on earlier
answers. dpcov reads no cell for the interview.
"""

from __future__ import annotations

import csv
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from dpcov.cli.drafts import COLUMN_MODELS, Declaration, Stated, undeclared
from dpcov.core.printable import printable
from dpcov.core.privacy import rows_in_words
from dpcov.errors import SchemaError
from dpcov.rows.dates import DAY, SECOND, moment_of, shown_date, shown_time
from dpcov.rows.missing import group_of
from dpcov.rows.schema import SPELLING_KEYS, PersonUnit, Schema

if TYPE_CHECKING:
    from dpcov.rows.missing import Group
    from dpcov.rows.schema import FileOptions, Kind

T = TypeVar("T")
Number = TypeVar("Number", int, float)
SCHEMA_EXPLANATION = (
    "A schema states which values each column can contain. The schema is public, nothing protects "
    "it, and it determines how much noise a release needs. Answer from public knowledge of the "
    "column (its definition, the questionnaire, the law, nature), never from the table. The "
    "largest value in the table belongs to one person, and a rare category can identify a person. "
    "A bound can be generous: values beyond a bound count as the bound. These questions "
    "use only column names and types."
)
# The words are the kinds of a schema file, two ranges of numbers, and the id.
CHOICES = {
    "percentage": "number from 0 to 100",
    "age": "number of years, 0 to 120",
    "flag": "0 or 1, true or false",
    "number": "with bounds that you state",
    "integer": "whole numbers with bounds that you state",
    "count": "whole numbers from 0 to a bound that you state",
    "date": "dates with bounds that you state",
    "time": "dates with or without times, with bounds that you state",
    "categorical": "with levels that you state",
    "id": "person id: dpcov then protects persons, not rows",
    "ignored": "leave the column out",
}
# Words of single letters that begin several words, and former words.
SHORT_WORDS = {"c": "categorical", "d": "done", "i": "id", "o": "ignored"}
FORMER_WORDS = {"numbers": "number", "categories": "categorical", "omit": "ignored"}
MOVES = {
    "back": "go to the previous column",
    "done": "leave out this column and all later columns",
    "why": "explain these questions",
    "quit": "stop without writing a schema",
}
PRESETS: dict[str, Declaration] = {
    "percentage": {"kind": "number", "lower": 0.0, "upper": 100.0},
    "age": {"kind": "number", "lower": 0.0, "upper": 120.0},
    "flag": {"kind": "flag"},
    "ignored": {"kind": "ignored"},
}
TYPE_NAMES = {
    "numeric": "numbers",
    "number": "numbers",
    "integer": "whole numbers",
    "count": "whole numbers",
    "flag": "truth values",
    "date": "dates",
    "time": "dates with times",
    "categorical": "text or the like",
    "ignored": "another type",
    "unknown": "not declared in a text file",
}
MISSING_MEANINGS: dict[Group, dict[str, str]] = {
    "numbers": {
        "none": "you promise that no cell is missing",
        "pairwise": "leave the cell out of means and covariances",
        "midpoint": "count the cell as the midpoint of the bounds",
        "level": "count the cell as the midpoint, and add a 0/1 feature",
    },
    "categories": {
        "none": "you promise that no cell is missing",
        "zeros": "count the cell as none of the levels",
        "level": "add a level for missing cells",
        "other": "count the cell together with values that are none of the levels",
    },
}
ID_TYPES = ("integer", "decimal", "uuid", "text")
LATER_HINT = "or type back or quit"
ONE_LINE_HINT = (
    "One line can state a whole column, with the keys of the schema file: "
    "number 30 250 decimal=, missing=pairwise missing_codes=-9"
)
KEYS = ("missing", "missing_codes", *SPELLING_KEYS)  # keys that one line can state
LISTS = ("missing_codes", "true", "false")  # keys whose values are separated by commas
_FIRST_KEY = re.compile(rf"(?<!\S)(?:{'|'.join(KEYS)})=")
# Ways to write 1234.5 or 1234: perhaps a sign between thousands, perhaps a decimal sign.
_EXAMPLE = re.compile("1([.,' _\u2019\u00a0\u2007\u2009\u202f]?)234(?:([.,])5)?")
MIN_GROUPED = 1000  # smallest number whose digits can be grouped by three


class Quit(Exception):  # noqa: N818  not an error
    """Request of the user to stop without writing a schema."""


class Back(Exception):  # noqa: N818  not an error
    """Request of the user to answer again what the column contains."""


@dataclass(frozen=True, slots=True)
class Line:
    """Answer about a column: a word, its values, and keys of the schema file.

    Attributes
    ----------
    word : str
        Word of `CHOICES` or `MOVES`, or another text.

    values : str
        Text between the word and the keys, such as bounds or levels.

    keys : dict
        Keys that the line states, with their values.

    """

    word: str
    values: str
    keys: Declaration

    @property
    def bare(self) -> bool:
        """True if the line is a word alone."""
        return not self.values and not self.keys

    @classmethod
    def of(cls, answer: str) -> Line:
        """Split an answer. The word is the whole answer if the keys are not readable."""
        word, _, rest = answer.strip().partition(" ")
        found = _FIRST_KEY.search(rest)
        values, stated = (
            (rest, "") if found is None else (rest[: found.start()], rest[found.start() :])
        )
        word = _completed(word, CHOICES | MOVES)
        keys = _keys(stated)
        if keys is None or (word in MOVES and rest):
            return cls(answer, "", {})
        return cls(FORMER_WORDS.get(word, word), values.strip(), keys)


@dataclass
class Interview:
    """Interview about one table.

    Parameters
    ----------
    kinds : mapping of str to str
        Type of each column, by name.

    options : FileOptions
        Options of a text file.

    stated : Stated
        Facts from metadata, which the interview offers as answers.

    ask : callable
        Function that shows a question and returns the answer, or an empty text.

    say : callable
        Function that shows a text.

    """

    kinds: Mapping[str, Kind]
    options: FileOptions
    stated: Stated
    ask: Callable[[str], str]
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        self.unit = self.stated.unit
        columns = self.stated.columns.items()
        self.answers = {
            name: given for name, given in columns if {*undeclared(given)} <= {"missing"}
        }
        self._rules: dict[Group, str] = {}  # last answer for each group
        self._truths: dict[str, list[str]] = {}  # last words for true and false
        self._typed: list[str] = []  # values of a line that no question used yet
        if self.unit is not None and self.unit.type is None:
            self.answers.pop(self.unit.column, None)  # metadata do not declare the type of an id

    def run(self) -> Stated:
        """Ask about every column and return the answers.

        Raises
        ------
        Quit
            If the user stops.

        """
        self.say(f"{SCHEMA_EXPLANATION}\n")
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
        self.say("The first letters of a word are enough; c is categorical, d is done, i is id.")
        self.say(ONE_LINE_HINT)

    def _column(self, at: int, name: str) -> int:
        """Ask about one column and return the position of the next column."""
        known = self.answers.get(name)
        self.say(f"\nColumn {at + 1} of {len(self.kinds)}: {printable(name)} ({self._type(name)})")
        offer = "" if known is None else f" [Enter: {self._content(name, known)}]"
        while True:
            line = Line.of(self.ask(f"What does it contain?{offer}"))
            word = line.word
            if word == "quit":
                raise Quit
            if word == "back":
                return max(0, at - 1)
            if word == "done":
                self.answers |= dict.fromkeys(list(self.kinds)[at:], PRESETS["ignored"])
                return len(self.kinds)
            if word == "why":
                self.say(SCHEMA_EXPLANATION)
                self._show_choices()
            elif word in CHOICES or (not word and known is not None):
                with suppress(Back):
                    self._declare(name, line)
                    return at + 1
            else:
                self.say(f"Type one of: {', '.join(CHOICES | MOVES)}.")

    def _type(self, name: str) -> str:
        hint = f"; {self.stated.hints[name]}" if name in self.stated.hints else ""
        return f"type: {TYPE_NAMES[self.kinds[name]]}{printable(hint)}"

    def _declare(self, name: str, line: Line) -> None:
        """Declare a column by a line, or keep its answer if the line is empty."""
        if not line.word:
            self._state_rule(name, self.answers[name])
            return
        values = line.values
        self._typed = [values] if values and line.word == "categorical" else values.split()
        if line.word == "id":
            self._person(name)
            self._refuse_rest()
            return
        declared = PRESETS[line.word] if line.word in PRESETS else self._asked(name, line.word)
        self._refuse_rest()
        declared = (
            declared | line.keys | (self._spelling(name, line.word, declared) if line.bare else {})
        )
        self._state_rule(name, declared, codes=line.bare)
        if self.unit is not None and self.unit.column == name:
            self.unit = None  # this column is no longer the id

    def _refuse_rest(self) -> None:
        """Raise `Back` if a line contains values that no question asked for."""
        if self._typed:
            self.say(f"Remove from your answer: {printable(' '.join(self._typed))}")
            raise Back

    def _asked(self, name: str, word: str) -> Declaration:
        """Ask for the bounds or the levels of a column."""
        if word == "count":
            upper = self._read("Upper bound", _positive, "a number above 0.")
            return {"kind": word, "upper": upper}
        if word in ("date", "time"):
            return self._dates(name, word)
        return self._levels(name) if word == "categorical" else self._bounds(name, word)

    def _spelling(self, name: str, word: str, declared: Declaration) -> Declaration:
        """Ask how the texts of a column are written; tables with numbers need no question."""
        if self.kinds[name] not in ("unknown", "categorical"):
            return {}
        if word == "flag":
            return self._words()
        if word in ("number", "percentage"):
            return self._signs("1234.5")
        ends = (
            (abs(declared.get("lower", 0)), declared["upper"])
            if word in ("integer", "count")
            else ()
        )
        return self._signs("1234") if max(ends, default=0) >= MIN_GROUPED else {}

    def _words(self) -> Declaration:
        """Ask for the words for true and false. Enter repeats the last answer."""
        offer = ", ".join(word for words in self._truths.values() for word in words)
        question = f"Words for true and false? [Enter: {offer or '1 and 0, true and false'}]"
        while typed := self._optional(question):
            found = _levels(typed.replace(" ", ",")) or []
            if len(found) == 2:
                own = numbers_of(found) is found
                self._truths = {"true": found[:1], "false": found[1:]} if own else {}
                break
            self.say(f"Type two words, such as: yes, no ({LATER_HINT}).")
        return dict(self._truths)

    def _signs(self, example: str) -> Declaration:
        """Ask for the decimal sign and the sign between thousands, by an example."""
        own, between = self.options.decimal, self.options.thousands
        usual = example.replace(".", own).replace("1", f"1{between or ''}", 1)
        while typed := self._optional(f"How is {example} written? [Enter: {usual}]"):
            if (found := _EXAMPLE.fullmatch(typed)) and found[1] != found[2]:
                decimal = found[2] or ("," if found[1] == "." else own if found[1] != own else ".")
                if (decimal, found[1] or None) == (own, between):
                    return {}
                return {"decimal": decimal} | ({"thousands": found[1]} if found[1] else {})
            self.say(f"Type this number as the table writes it, such as: 1.234,5 ({LATER_HINT}).")
        return {}

    def _codes(self) -> Declaration:
        """Ask for further texts and numbers that mean a missing cell."""
        usual = ", ".join(printable(code) or "empty" for code in self.stated.missing)
        typed = self._optional(f"Further codes of missing cells? [Enter: only {usual}]")
        codes = _levels(typed) if typed else None
        return {"missing_codes": codes} if codes else {}

    def _optional(self, question: str) -> str:
        """Return an answer, which can be empty; raise `Quit` or `Back` if the user types so."""
        typed = self.ask(question).strip()
        if typed in ("quit", "back"):
            raise Quit if typed == "quit" else Back
        return typed

    def _state_rule(self, name: str, declared: Declaration, *, codes: bool = False) -> None:
        """Set the answer of a column, and ask what a missing cell means if this is unknown.

        With `codes`, also ask which cells are missing.
        """
        group = group_of(declared["kind"])
        if group is not None and "missing" not in declared:
            declared = declared | {"missing": self._rule(group)}
            if codes and declared["missing"] != "none":
                declared = declared | self._codes()
        if declared.get("missing") == "other":
            declared = declared | {"other": True}
        try:
            COLUMN_MODELS[declared["kind"]].parse(declared)
        except SchemaError as error:
            self.say(f"This is not a valid column. {error}")
            raise Back from None
        self.answers[name] = declared

    def _rule(self, group: Group) -> str:
        """Ask what a missing cell means. Enter repeats the last answer for the group."""
        last, meanings = self._rules.get(group), MISSING_MEANINGS[group]
        if last is None:
            for word, meaning in meanings.items():
                self.say(f"  {word:<12}{meaning}")
        offer = "" if last is None else f" [Enter: {last}]"
        while True:
            typed = self._optional(f"What does a missing cell mean?{offer}")
            word = _completed(typed, meanings) or last or ""
            if word in meanings:
                self._rules[group] = word
                return word
            self.say(f"Type one of: {', '.join(meanings)} ({LATER_HINT}).")

    def _bounds(self, name: str, word: str) -> Declaration:
        """Ask for the bounds of numbers. A column with an integer type has the kind integer."""
        lower, upper = self._pair(_finite, "a number, such as 0 or 2.5.")
        kind = "integer" if self.kinds[name] == "integer" else word
        return {"kind": kind, "lower": lower, "upper": upper}

    def _dates(self, name: str, word: str) -> Declaration:
        """Ask for the bounds of dates. With `time`, the kind is `time` if a bound has a time."""
        bounds = self._pair(moment_of, "a date, such as 1990-12-31, or 1990-12-31 23:59.")
        days = self.kinds[name] != "time" and all(moment % DAY == 0 for moment in bounds)
        days |= word == "date"
        found = [
            shown_date(moment // DAY) if days else shown_time(moment / SECOND) for moment in bounds
        ]
        return {"kind": "date" if days else "time", "lower": found[0], "upper": found[1]}

    def _pair(self, read: Callable[[str], Number | None], wanted: str) -> tuple[Number, Number]:
        """Ask for two bounds, with the lower below the upper."""
        self.say(f"State the smallest and the largest possible value ({LATER_HINT}).")
        while True:
            lower = self._read("Lower bound", read, wanted)
            upper = self._read("Upper bound", read, wanted)
            if lower < upper:
                return lower, upper
            self.say("The lower bound must be below the upper bound.")

    def _levels(self, _: str) -> Declaration:
        """Ask for levels, which are numbers if all of them are written as numbers."""
        self.say(
            f'Separate levels by commas; put a level with a comma in quotes "..." ({LATER_HINT}).'
        )
        wanted = "at least one level, and each level once, such as: yes, no"
        return {"kind": "categorical", "levels": numbers_of(self._read("Levels", _levels, wanted))}

    def _person(self, name: str) -> None:
        """Declare a column as the person id, and ask for the limit and the type."""
        self.say(
            "dpcov drops rows of a person beyond a limit. A high limit means more noise "
            f"({LATER_HINT})."
        )
        question = "How many rows of one person may count at most?"
        most = self._read(question, _row_count, "a whole number from 1 to 1048576.")
        found = self._text(f"Which type does an id have: {', '.join(ID_TYPES)}?")
        while found not in ID_TYPES:
            found = self._text(f"Type one of: {', '.join(ID_TYPES)}.")
        if self.unit is not None and self.unit.column != name:
            self.say(
                f"{printable(self.unit.column)} is no longer the id. dpcov leaves the column out."
            )
        self.unit = PersonUnit.model_validate({"column": name, "type": found, "max_rows": most})
        self.answers[name] = PRESETS["ignored"]

    def _text(self, question: str) -> str:
        """Return the next value of a line, or an answer that is not empty.

        Raises
        ------
        Quit
            If the user typed `quit`.
        Back
            If the user typed `back`.

        """
        text = self._typed.pop(0) if self._typed else ""
        while not text:
            text = self.ask(question).strip()
        if text in ("quit", "back"):
            raise Quit if text == "quit" else Back
        return text

    def _read(self, question: str, read: Callable[[str], T | None], wanted: str) -> T:
        """Repeat a question until `read` accepts the answer."""
        while (found := read(self._text(question))) is None:
            self.say(f"Type {wanted}")
        return found

    def _checked(self) -> Stated | None:
        """Return all answers, or None if they are not a valid schema."""
        columns = {name: self.answers[name] for name in self.kinds}
        found = Stated(columns, self.unit, self.stated.missing)
        try:
            Schema.parse(found.document(self.options))
        except SchemaError as error:
            self.say(f"\nThese answers are not a valid schema. {error}")
            return None
        return found

    def _confirmed(self, found: Stated) -> bool:
        """Show all answers and ask for confirmation. Return False to go back."""
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
        words = [self._content(name, declaration), *([f"missing cells: {rule}"] if rule else [])]
        for key in ("missing_codes", *SPELLING_KEYS):
            if key in declaration:
                stated = declaration[key]
                texts = ", ".join(stated) if isinstance(stated, list) else stated
                words.append(f"{key}: {printable(texts)}")
        return "; ".join(words)

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
            return f"person id, at most {rows_in_words(self.unit.max_rows)} of each"
        return "left out"


def _completed(answer: str, words: Iterable[str]) -> str:
    """Return the word that begins with the answer, or the answer itself."""
    typed = answer.strip().lower()
    if typed in SHORT_WORDS and SHORT_WORDS[typed] in words:
        return SHORT_WORDS[typed]
    return next((word for word in words if typed and word.startswith(typed)), typed)


def _keys(text: str) -> Declaration | None:
    """Return the keys that a line states, such as decimal=, or None if they are not readable."""
    found: Declaration = {}
    try:
        parts = shlex.split(text)
    except ValueError:
        return None
    for part in parts:
        key, sign, value = part.partition("=")
        stated = _levels(value) if key in LISTS else value
        if key not in KEYS or not sign or not stated:
            return None
        found[key] = stated
    return found


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _positive(text: str) -> float | None:
    number = _finite(text)
    return number if number is not None and number > 0 else None


def _row_count(text: str) -> int | None:
    whole = text.isascii() and text.isdigit()
    return int(text) if whole and 1 <= int(text) <= 2**20 else None


def _levels(text: str) -> list[str] | None:
    """Split levels at commas; return None if one is repeated or there is none."""
    found = next(csv.reader([text], skipinitialspace=True))
    levels = [level.strip() for level in found if level.strip()]
    return levels if levels and len(set(levels)) == len(levels) else None


def numbers_of(levels: list[str]) -> list[str] | list[float]:
    """Convert levels to numbers if all of them are written as numbers; 007 stays a text."""
    try:
        numbers = [float(level) for level in levels]
    except ValueError:
        return levels
    spelt = [str(int(n)) if n.is_integer() else repr(n) for n in numbers if math.isfinite(n)]
    return numbers if spelt == levels else levels
