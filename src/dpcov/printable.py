"""Texts from elsewhere on a screen or a page, where control characters would act."""

from __future__ import annotations


def printable(text: str, kept: str = "") -> str:
    """The text with a question mark for each character that is neither printable nor `kept`."""
    return "".join(c if c.isprintable() or c in kept else "?" for c in text)
