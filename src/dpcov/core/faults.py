"""Messages about documents that pydantic refuses.

The messages of pydantic are for programmers, and some of them quote the refused value. dpcov
therefore uses its own messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_NUMBER_FAULT, _WHOLE_FAULT, _TEXT_FAULT = (
    "must be a finite number",
    "must be a whole number",
    "must be text",
)
_TRUTH_FAULT, _LIST_FAULT, _TABLE_FAULT = (
    "must be true or false",
    "must be a list",
    "must be a table of keys",
)
_DAY_FAULT, _MOMENT_FAULT = (
    "must be a date such as 1990-12-31",
    "must be a time such as 1990-12-31T23:59",
)
_LENGTH_FAULTS = {"too_short": ("at least", "min_length"), "too_long": ("at most", "max_length")}
_SIZE_FAULTS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
_FIXED_FAULTS = {
    "missing": "is missing",
    "extra_forbidden": "is no key that is known here",
    "finite_number": _NUMBER_FAULT,
    "json_invalid": "it is not valid JSON",
    "invalid_key": "must have text as keys",
    "string_pattern_mismatch": "has a form that is not allowed here",
    "union_tag_not_found": "is missing",
}
_FAULTS_BY_PREFIX = {  # of pydantic's types of errors
    "float_": _NUMBER_FAULT,
    "decimal_": _NUMBER_FAULT,
    "int_": _WHOLE_FAULT,
    "bool_": _TRUTH_FAULT,
    "string_": _TEXT_FAULT,
    "bytes_": _TEXT_FAULT,
    "list_": _LIST_FAULT,
    "tuple_": _LIST_FAULT,
    "set_": _LIST_FAULT,
    "frozen_set_": _LIST_FAULT,
    "iterable_": _LIST_FAULT,
    "dict_": _TABLE_FAULT,
    "mapping_": _TABLE_FAULT,
    "model_": _TABLE_FAULT,
    "datetime_": _MOMENT_FAULT,
    "date_": _DAY_FAULT,
    "time_": _MOMENT_FAULT,
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
    if kind in _SIZE_FAULTS:
        words, limit = _SIZE_FAULTS[kind]
        return f"must be {words} {stated[limit]}"
    if kind.removeprefix("string_") in _LENGTH_FAULTS:
        words, limit = _LENGTH_FAULTS[kind.removeprefix("string_")]
        what = "characters" if kind.startswith("string_") else "entries"
        return f"must have {words} {stated[limit]} {what}"
    if kind in _FIXED_FAULTS:
        return _FIXED_FAULTS[kind]
    known = (words for start, words in _FAULTS_BY_PREFIX.items() if kind.startswith(start))
    return next(known, "is not what is asked for here")
