"""Messages about documents that pydantic refuses.

The messages of pydantic are for programmers, and some of them quote the refused value. dpcov
therefore uses its own messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_NUMBER, _WHOLE, _TEXT = "must be a finite number", "must be a whole number", "must be text"
_TRUTH, _LIST, _TABLE = "must be true or false", "must be a list", "must be a table of keys"
_DAY, _MOMENT = "must be a date such as 1990-12-31", "must be a time such as 1990-12-31T23:59"
_LENGTH = {"too_short": ("at least", "min_length"), "too_long": ("at most", "max_length")}
_SIZES = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
_FIXED = {
    "missing": "is missing",
    "extra_forbidden": "is no key that is known here",
    "finite_number": _NUMBER,
    "json_invalid": "it is not valid JSON",
    "invalid_key": "must have text as keys",
    "string_pattern_mismatch": "has a form that is not allowed here",
    "union_tag_not_found": "is missing",
}
_BY_BEGINNING = {  # message by the beginning of pydantic's name for the error
    "float_": _NUMBER,
    "decimal_": _NUMBER,
    "int_": _WHOLE,
    "bool_": _TRUTH,
    "string_": _TEXT,
    "bytes_": _TEXT,
    "list_": _LIST,
    "tuple_": _LIST,
    "set_": _LIST,
    "frozen_set_": _LIST,
    "iterable_": _LIST,
    "dict_": _TABLE,
    "mapping_": _TABLE,
    "model_": _TABLE,
    "datetime_": _MOMENT,
    "date_": _DAY,
    "time_": _MOMENT,
}


def reason(fault: ErrorDetails) -> str:
    """Return a message about a fault, without the faulty value."""
    kind = str(fault["type"])
    stated: Mapping[str, object] = fault.get("ctx", {})
    if kind in ("value_error", "assertion_error"):
        return str(stated.get("error", "is not allowed here"))  # dpcov's own message
    if kind in ("literal_error", "enum"):
        return f"must be {stated['expected']}"
    if kind == "union_tag_invalid":
        return f"must be one of {stated['expected_tags']}"
    if kind in _SIZES:
        words, limit = _SIZES[kind]
        return f"must be {words} {stated[limit]}"
    if kind.removeprefix("string_") in _LENGTH:
        words, limit = _LENGTH[kind.removeprefix("string_")]
        what = "characters" if kind.startswith("string_") else "entries"
        return f"must have {words} {stated[limit]} {what}"
    if kind in _FIXED:
        return _FIXED[kind]
    known = (words for start, words in _BY_BEGINNING.items() if kind.startswith(start))
    return next(known, "is not what is asked for here")
