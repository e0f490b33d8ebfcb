"""Warnings about faults of earlier versions that can affect a release file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dpcov.core.privacy import ApproxDP
from dpcov.core.samplers.scalars import ScalarLaplace
from dpcov.published.kinds import NoisySums
from dpcov.rows.schema import Categorical

if TYPE_CHECKING:
    from dpcov.releases import Release

VOID = (
    "Made by a version before 0.2.0. The guarantee is void unless the data came from Parquet, "
    "Arrow or NumPy, without persons and without conditions. Make a new release; both releases "
    "count against the budget."
)
FIRST_FIXED_VERSION = (0, 3)  # First version without the faults below.
MORE = "See SECURITY.md, advisory of version 0.3."

STATA = (
    "Made from a Stata file by a version before 0.3. If the file has strL columns, one character "
    "could decide whether the release succeeded, and letters such as \u00fc were lost."
)
OLD_STATA = "In a file of format 105 or older, a missing double was read as a number."
EXCEL = (
    "Made from a workbook by a version before 0.3. One malformed cell could decide whether the "
    "release succeeded, and the number of one row could remove the rows after it."
)
OBJECTS = (
    "Made from pandas by a version before 0.3. In a column of Python objects, one unusual object "
    "could decide whether the release succeeded."
)
PARQUET = (
    "Made from Parquet by a version before 0.3. A column `p.a` beside a struct `p` was read as "
    "missing, and INT96 dates outside the years 1677 to 2262 were read as other dates."
)
DECIMALS = (
    "Made by a version before 0.3 with missing codes or conditions. In columns of decimals, "
    "float32 or long integers, a number such as 999.9 could be missed."
)
NOTATION = (
    "Made from a text file by a version before 0.3. A missing code that is written in the notation "
    "of the file, such as 999,9, was read as a number."
)
DELTA = (
    "Made by a version before 0.3, which stated and recorded a delta although its noise is pure. "
    "The release guarantees epsilon = {:g} without a delta."
)


def advisories(release: Release) -> tuple[str, ...]:
    """Return a warning for each fault that can affect a release.

    The faults are known faults of the version that made the release.

    Parameters
    ----------
    release : Release
        A release of any version.

    Returns
    -------
    tuple of str
        Sentences; empty for a release of this version.

    """
    if "version" not in release.provenance:
        return (VOID,)
    if version_of(release) >= FIRST_FIXED_VERSION:
        return ()
    source = release.provenance.get("door", "")
    found = [sentence for kind, sentence in _BY_SOURCE if kind in source]
    if _compares_numbers(release):
        found.append(DECIMALS)
    if source == "csv" and _has_foreign_codes(release):
        found.append(NOTATION)
    if _states_unspent_delta(release):
        found.append(DELTA.format(release.guarantee.budget.epsilon))  # type: ignore[union-attr]
    return (*found, MORE) if found else ()


_BY_SOURCE = (
    ("Stata", STATA),
    ("Stata", OLD_STATA),
    ("Excel", EXCEL),
    ("pandas", OBJECTS),
    ("parquet", PARQUET),
)


def version_of(release: Release) -> tuple[int, ...]:
    """Return the first two numbers of the version that made a release."""
    return tuple(map(int, re.findall(r"\d+", release.provenance.get("version", ""))[:2]))


def _compares_numbers(release: Release) -> bool:
    """Return True if dpcov compared numbers with missing codes or conditions."""
    if release.provenance.get("door") in ("csv", "numpy", "list"):
        return False
    numbers = any(not isinstance(one, Categorical) for one in release.schema.columns.values())
    codes = any(re.fullmatch(r"\s*[+-]?\d*\.?\d+\s*", text) for text in release.schema.missing)
    return numbers and (codes or "rows" in release.provenance)


def _has_foreign_codes(release: Release) -> bool:
    """Return True if a missing code is a number in the notation of a text file alone."""
    from dpcov.rows.notation import Notation  # imports pyarrow

    notation = Notation(release.schema.file.decimal, release.schema.file.thousands)
    return bool({*notation.codes(release.schema.missing)} - {*release.schema.missing})


def _states_unspent_delta(release: Release) -> bool:
    """Return True if the release states a delta and all its noise is Laplace noise."""
    sums = release.find(NoisySums)
    law = None if sums is None else sums.noise
    return isinstance(release.guarantee.budget, ApproxDP) and isinstance(law, ScalarLaplace)
