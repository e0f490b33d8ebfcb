"""Encodings of text in which a broken character spoils no other."""

from __future__ import annotations

import codecs
import sys

_OF_FIXED_UNITS = (
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "utf-32",
    "utf-32-le",
    "utf-32-be",
)
_BYTES = ("ascii", "iso8859-1")  # single bytes; all others come with a table


def encoding_named(name: str) -> str:
    """The usual name of an encoding; raises `ValueError` if it can't be read.

    In other encodings of several bytes half a character may swallow the separator or the quote
    after it, or change what all others mean: then a cell could change how other rows are read.
    """
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):
        raise ValueError(f"{name!r} is no encoding that Python knows") from None
    if found.name in ("utf-8", "utf-8-sig"):  # a mark at the start is dropped anyhow
        return "utf-8"
    module = sys.modules.get(getattr(found.incrementaldecoder, "__module__", ""))
    if found.name in (*_OF_FIXED_UNITS, *_BYTES) or hasattr(module, "decoding_table"):
        return found.name
    raise ValueError(
        f"{name!r} can't be read safely: a broken character could change its neighbours. Convert "
        "the file to utf-8"
    )
