"""Assumption of sampling errors if a person can have several rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpcov.releases import Release


def dependent(release: Release) -> str:
    """Return a sentence about sampling errors if a person can have several rows.

    Parameters
    ----------
    release : Release
        Any release.

    Returns
    -------
    str
        Sentence; empty if no person can have several rows.

    """
    unit = release.guarantee.unit
    if unit.column is None or unit.max_rows == 1:
        return ""
    return (
        f"Sampling errors assume independent rows. One person can have {unit.max_rows} rows here, "
        "so standard errors and intervals can be too small."
    )


def titled(title: str, sentence: str) -> str:
    """Return the first line of a table with sampling errors.

    Parameters
    ----------
    title : str
        Title of the table.

    sentence : str
        Result of `dependent`.

    Returns
    -------
    str
        Title, followed by the sentence.

    """
    return f"{title}. {sentence}" if sentence else title
