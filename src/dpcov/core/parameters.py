"""Checks of public parameters against their annotations.

An annotation such as `Annotated[float, Interval(0, 1)]` states the allowed values. `check` compares
a value with the annotation. The error message names the parameter. Parameters are public, so the
message can quote the value.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache, wraps
from inspect import signature
from numbers import Integral, Real
from typing import (
    Annotated,
    Any,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from dpcov.core.printable import hidden
from dpcov.core.spelling import named
from dpcov.errors import DpcovError, MechanismError, ReleaseError

P = ParamSpec("P")
R = TypeVar("R")

# Largest number of characters of a value that a message quotes.
MAX_QUOTED_CHARACTERS = 60
# Words for a type in a message.
TYPE_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "True or False",
    types.NoneType: "None",
}


@dataclass(frozen=True, slots=True)
class Interval:
    """Interval of finite numbers from `low` to `high`.

    Parameters
    ----------
    low : float
        Lower end.
    high : float
        Upper end. An infinite upper end means no upper limit.
    closed : {"neither", "left", "both"}
        Ends that belong to the interval.

    """

    low: float
    high: float = math.inf
    closed: Literal["neither", "left", "both"] = "neither"

    def __contains__(self, value: Any) -> bool:
        above = value > self.low or (value == self.low and self.closed != "neither")
        below = value < self.high or (value == self.high < math.inf and self.closed == "both")
        return bool(above and below)

    def __str__(self) -> str:
        low = f"{'above' if self.closed == 'neither' else 'at least'} {self.low:g}"
        if self.high == math.inf:
            return low
        return f"{low} and {'at most' if self.closed == 'both' else 'below'} {self.high:g}"


Share = Annotated[float, Interval(0, 1)]  # fraction of a budget
ShareOrNone = Annotated[float, Interval(0, 1, "left")]  # fraction of a budget; 0 skips the step
Probability = Annotated[float, Interval(0, 1)]
Power = Annotated[float, Interval(0, 1, "both")]
Above0 = Annotated[float, Interval(0)]
AtLeast0 = Annotated[float, Interval(0, closed="left")]
AtLeast1 = Annotated[float, Interval(1, closed="left")]
Whole = Annotated[int, Interval(0, closed="left")]
Count = Annotated[int, Interval(1, closed="left")]
Samples = Annotated[int, Interval(3, closed="left")]


def check(name: str, value: object, kind: Any, failure: type[DpcovError]) -> None:
    """Raise an error unless a value matches an annotation.

    Parameters
    ----------
    name : str
        Argument in Python spelling.
    value : object
        Value of the argument.
    kind : type or annotation
        Allowed values.
    failure : type of DpcovError
        Type of the error.

    """
    _require(named(name), value, kind, failure)


@cache
def kinds_of(owner: Any) -> dict[str, Any]:
    """Return the annotation of each argument of a function, or of each field of a class."""
    hints = get_type_hints(owner, include_extras=True)
    return {name: kind for name, kind in hints.items() if name != "return"}


def check_arguments(
    owner: Any,
    given: Mapping[str, object],
    *,
    elsewhere: Iterable[str] = (),
    known: Iterable[str] = (),
    spell: Callable[[str], str] = named,
) -> None:
    """Raise an error if an argument has no annotation, or does not match its annotation.

    Parameters
    ----------
    owner : callable or type
        Function or class with the annotations.
    given : mapping of str to object
        Values of the arguments.
    elsewhere : iterable of str
        Names of arguments that another function checks.
    known : iterable of str
        Further names that the message about an unknown name can suggest.
    spell : callable
        Function that returns the spelling of a name in messages.

    """
    kinds = kinds_of(owner)
    for name, value in given.items():
        if name not in kinds:
            near = did_you_mean(name, {*kinds, *known} - {name})
            raise MechanismError(f"There is no option {name!r}{near}")
        if name not in elsewhere:
            _require(spell(name), value, kinds[name], ReleaseError)


def checked(*elsewhere: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that checks the arguments of every call (see `check_arguments`)."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        names = tuple(signature(function).parameters)

        @wraps(function)
        def call(*args: P.args, **given: P.kwargs) -> R:
            stated = {**dict(zip(names, args, strict=False)), **given}
            check_arguments(function, stated, elsewhere=elsewhere)
            return function(*args, **given)

        return call

    return decorated


def check_fields(options: Any) -> None:
    """Check the fields of a mechanism and convert their numbers to Python numbers.

    A NumPy number would work until dpcov writes the release file. The error would then come after
    dpcov spent the budget.

    Parameters
    ----------
    options : dataclass instance
        Mechanism whose fields are checked and converted in place.

    Raises
    ------
    MechanismError
        A field does not match its annotation.

    """
    kinds = kinds_of(options.__class__)
    for field in fields(options):
        value = getattr(options, field.name)
        _require(field.name, value, kinds[field.name], MechanismError)
        if isinstance(value, Real) and not isinstance(value, bool | int | float):
            plain = int(value) if isinstance(value, Integral) else float(value)
            object.__setattr__(options, field.name, plain)


def check_shares(options: Any, *names: str) -> None:
    """Raise an error if fractions of the budget leave nothing for the release.

    Parameters
    ----------
    options : object
        Mechanism that has the fractions as attributes.
    *names : str
        Names of the attributes.

    Raises
    ------
    MechanismError
        The fractions add up to 1 or more.

    """
    if sum(getattr(options, name) for name in names) >= 1:
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        raise MechanismError(f"{listed} leave nothing for the release. Make them smaller.")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name.

    Parameters
    ----------
    name : str
        Unknown name.
    known : iterable of str
        Known names.

    Returns
    -------
    str
        Suggestion of the nearest known name, or a full stop if no name is near.

    """
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else "."


def _require(name: str, value: object, kind: Any, failure: type[DpcovError]) -> None:
    if not _is(value, kind):
        raise failure(f"{name} must be {_words(kind)}, not {_quoted(value)}.")


def _is(value: Any, kind: Any) -> bool:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _is(value, arguments[0]) and all(value in rule for rule in kind.__metadata__)
    if origin in (Union, types.UnionType):
        return any(_is(value, one) for one in arguments)
    if origin is Literal:
        return isinstance(value, str) and value in arguments
    if kind is Any:
        return True
    if kind in (int, float):  # True and False are not numbers here
        number = Integral if kind is int else Real
        return isinstance(value, number) and not isinstance(value, bool)
    if origin is Sequence and isinstance(value, Sequence):
        return all(_is(one, arguments[0]) for one in value)
    return isinstance(value, origin or kind)


def _words(kind: Any) -> str:
    """Return words for the values that an annotation allows."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        noun = "a whole number, " if arguments[0] is int else ""
        return noun + " and ".join(map(str, kind.__metadata__))
    if origin in (Union, types.UnionType):
        words = list(dict.fromkeys(map(_words, arguments)))
        return f"{', '.join(words[:-1])} or {words[-1]}"
    if origin is Literal:
        words = list(map(repr, arguments))
        return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    if origin is Sequence:
        return f"a list of {_words(arguments[0])}"
    return TYPE_WORDS.get(kind) or (origin or kind).__name__


def _quoted(value: object) -> str:
    """Return a short text of a number or text, or only the type of any other value.

    Values of other types can contain data, so a message must not quote them.
    """
    if value is None or isinstance(value, Real | str):
        with suppress(ValueError):  # Python cannot print a number with thousands of digits
            text = hidden(repr(value))
            return (
                text if len(text) <= MAX_QUOTED_CHARACTERS else f"{text[:MAX_QUOTED_CHARACTERS]}..."
            )
    return f"of type {type(value).__name__}"
