"""Text encodings that are safe to read: a broken character does not change other characters."""

from __future__ import annotations

import codecs
import sys

_FIXED_UNIT_ENCODINGS = (
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "utf-32",
    "utf-32-le",
    "utf-32-be",
)
# Encodings of one byte for each character that have no decoding table in Python.
_SINGLE_BYTE_ENCODINGS = ("ascii", "iso8859-1")


def encoding_named(name: str) -> str:
    """Return Python's usual name of a text encoding.

    dpcov accepts the Unicode encodings and every encoding with one byte for each character. All
    other encodings are unsafe, because half a character can hide the next separator or quote. A
    broken cell could then change how dpcov reads other rows.

    Parameters
    ----------
    name : str
        Name of the encoding, in any spelling that Python accepts.

    Returns
    -------
    str
        Usual name of the encoding.

    Raises
    ------
    ValueError
        Python does not know the encoding, or the encoding is unsafe.

    """
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):
        raise ValueError(f"{name!r} is not an encoding that Python knows") from None
    if found.name in ("utf-8", "utf-8-sig"):  # the reader drops a byte order mark in both cases
        return "utf-8"
    module = sys.modules.get(getattr(found.incrementaldecoder, "__module__", ""))
    if found.name in (*_FIXED_UNIT_ENCODINGS, *_SINGLE_BYTE_ENCODINGS) or hasattr(
        module, "decoding_table"
    ):
        return found.name
    raise ValueError(
        f"{name!r} is not a safe encoding: a broken character could change its neighbours. Convert "
        "the file to utf-8"
    )
