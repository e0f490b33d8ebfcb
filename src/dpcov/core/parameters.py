"""What a public parameter may be: declared in its annotation, checked here and nowhere else.

`Annotated[float, Interval(0, 1)]` says it to a reader, to mypy and to `check`. A fault is a
sentence that names the parameter; parameters are public, so it may quote the value.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Sequence
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
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)

from dpcov.core.printable import hidden
from dpcov.core.spelling import named
from dpcov.errors import DpcovError, MechanismError, ReleaseError

P = ParamSpec("P")
R = TypeVar("R")

LONGEST = 60  # characters of a value that a sentence quotes
PLAIN = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "True or False",
    types.NoneType: "None",
}


@dataclass(frozen=True, slots=True)
class Interval:
    """The finite numbers from `low` to `high`; `closed` says which ends belong to them."""

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


Share = Annotated[float, Interval(0, 1)]  # of a budget
ShareOrNone = Annotated[float, Interval(0, 1, "left")]  # 0: what it would pay for is not done
Probability = Annotated[float, Interval(0, 1)]
Power = Annotated[float, Interval(0, 1, "both")]
Above0 = Annotated[float, Interval(0)]
AtLeast0 = Annotated[float, Interval(0, closed="left")]
AtLeast1 = Annotated[float, Interval(1, closed="left")]
Whole = Annotated[int, Interval(0, closed="left")]
Count = Annotated[int, Interval(1, closed="left")]
Samples = Annotated[int, Interval(3, closed="left")]


def check(name: str, value: object, kind: Any, failure: type[DpcovError]) -> None:
    """Raise `failure` unless an argument's value is of the annotated `kind`."""
    _require(named(name), value, kind, failure)


def checked(*elsewhere: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Check every call of a function against its annotations before it does anything.

    Not the parameters that are checked `elsewhere`. A name that the function does not have is
    refused too, with the nearest one that it has; those of ``**options: Unpack[...]`` are its own.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        names = tuple(signature(function).parameters)

        @wraps(function)
        def call(*args: P.args, **given: P.kwargs) -> R:
            kinds = _arguments(function)
            for name, value in {**dict(zip(names, args, strict=False)), **given}.items():
                if name not in kinds:
                    raise MechanismError(f"There is no option {name!r}{did_you_mean(name, kinds)}")
                if name not in elsewhere:
                    spelt = named(name) if name in names else name
                    _require(spelt, value, kinds[name], ReleaseError)
            return function(*args, **given)

        return call

    return decorated


def check_fields(options: Any) -> None:
    """Check the fields of a mechanism against their annotations, and make numbers plain ones.

    NumPy's would come through the noise and fail in the release file, the budget being spent.
    """
    kinds = _kinds(options.__class__)
    for field in fields(options):
        value = getattr(options, field.name)
        _require(field.name, value, kinds[field.name], MechanismError)
        if isinstance(value, Real) and not isinstance(value, bool | int | float):
            plain = int(value) if isinstance(value, Integral) else float(value)
            object.__setattr__(options, field.name, plain)


def check_shares(options: Any, *names: str) -> None:
    """Refuse shares of the budget that leave nothing for the release itself."""
    if sum(getattr(options, name) for name in names) >= 1:
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        raise MechanismError(f"{listed} leave nothing for the release.")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """End a sentence about a name that is not `known`: with the nearest that is, if one is near."""
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else "."


@cache
def _kinds(owner: Any) -> dict[str, Any]:
    return get_type_hints(owner, include_extras=True)


@cache
def _arguments(function: Callable[..., Any]) -> dict[str, Any]:
    """The kind of each argument by name, those of an unpacked dictionary last."""
    own = {name: kind for name, kind in _kinds(function).items() if name != "return"}
    unpacked = [own.pop(name) for name, kind in list(own.items()) if get_origin(kind) is Unpack]
    return {name: kind for one in unpacked for name, kind in _kinds(*get_args(one)).items()} | own


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
    if kind in (int, float):  # a bool is a mistake where a number is asked for
        number = Integral if kind is int else Real
        return isinstance(value, number) and not isinstance(value, bool)
    if origin is Sequence and isinstance(value, Sequence):
        return all(_is(one, arguments[0]) for one in value)
    return isinstance(value, origin or kind)


def _words(kind: Any) -> str:
    """What is asked for: a noun, or how large."""
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
    return PLAIN.get(kind) or (origin or kind).__name__


def _quoted(value: object) -> str:
    """A number or text, in short; of anything else, which may hold data, the type alone."""
    if value is None or isinstance(value, Real | str):
        with suppress(ValueError):  # a number of thousands of digits has no text
            text = hidden(repr(value))
            return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    return f"of type {type(value).__name__}"
