"""One printable page about a release for a data protection officer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpcov.analysis.summary import facts
from dpcov.core.printable import shortened
from dpcov.core.privacy import LARGE_EPSILON, Neighbors, PureDP, rows_in_words
from dpcov.published.record import NOT_PRIVATE
from dpcov.releases.advisories import advisories
from dpcov.report import claims, words
from dpcov.report.statements import Statements, stated
from dpcov.report.templates import rendered

if TYPE_CHECKING:
    from dpcov.core.privacy import Guarantee
    from dpcov.releases import Release

# Characters of texts on the page. With these limits, every page fits on one sheet of A4.
MAX_TITLE, MAX_STATEMENT, MAX_FACT, MAX_TECHNICAL = 80, 160, 400, 600
Fact = tuple[str, str]
TO_ASK = (
    "Is there a legal basis for the table, and for this publication?",
    "Are there other releases about the same people, and is their total recorded?",
    "Who chose the bounds and categories, and from which public source?",
    "Who can read the table itself, and when is it deleted?",
)
ROWS_TO_ASK = "Can one person have several rows in the table?"


def page(release: Release, statements: Statements) -> str:
    """Return the page for a data protection officer.

    Parameters
    ----------
    release : Release
        Release.

    statements : Statements
        Statements of the curator.

    Returns
    -------
    str
        HTML text of the whole page, which prints on one sheet of A4.

    Raises
    ------
    OutputError
        If jinja2 is not installed.

    """
    rows = release.whole_guarantee.unit.column is None
    return rendered(
        "officer.html",
        {
            "title": shortened(statements.title, MAX_TITLE),
            "not_private": NOT_PRIVATE if release.reproducible else None,
            "seeded": claims.SEEDED_GUARANTEE,
            "warnings": advisories(release),
            "published": _cut(published(release, statements), MAX_FACT),
            "protection": [] if release.reproducible else _cut(protection(release), MAX_FACT),
            "curator": _cut(curator(statements), MAX_STATEMENT),
            "questions": [*([ROWS_TO_ASK] if rows else []), *TO_ASK],
            "technical": shortened(technical(release), MAX_TECHNICAL),
        },
    )


def _cut(found: list[Fact], longest: int) -> list[Fact]:
    """Return facts with the middle of long texts cut out."""
    return [(name, shortened(text, longest)) for name, text in found]


def published(release: Release, statements: Statements) -> list[Fact]:
    """Return what the release contains, as names and sentences."""
    listed = dict(facts(release).texts())
    day = statements.published or release.provenance.get("date", "not stated")
    found = [("Content", claims.product(release)), ("Date", str(day))]
    found.append(("Table", claims.table(release)))
    found += [(name.capitalize(), listed[name]) for name in ("rows", "persons") if name in listed]
    return found


def protection(release: Release) -> list[Fact]:
    """Return what the guarantee means, as names and sentences without technical terms."""
    guarantee = release.whole_guarantee
    meaning = claims.meaning(guarantee)
    if release.group is not None:
        meaning += f" This holds for the releases of all levels of {release.group.column!r}."
    return [
        ("Who is protected", _who(guarantee)),
        ("How much", f"{meaning} {_example(guarantee)}".rstrip()),
        ("Against whom", "Against everybody who reads the release, whatever else they know."),
        ("Not protected", _public(release)),
        ("General facts", "The release describes the group. Readers can learn facts about the "
         "group, and apply them to a person."),
        ("Checked", claims.verification(release)),
        ("Other releases", claims.OTHER_RELEASES),
    ]  # fmt: skip


def _who(guarantee: Guarantee) -> str:
    """Return who is protected, and what several rows of a person mean."""
    unit = guarantee.unit
    if unit.column is not None:
        rows = f"at most {rows_in_words(unit.max_rows)} of each person"
        rows = rows if unit.aggregate is None else "all rows of each person, as one mean row,"
        return (
            f"Any one person. The column {shortened(unit.column)!r} identifies persons, and "
            f"{rows} count."
        )
    two = claims.factor_in_words(2 * words.epsilon_of(guarantee))
    if not isinstance(guarantee.budget, PureDP):
        return "Any one row. A person with several rows has less protection."
    return f"Any one row. For a person with two rows, the probability can change {two}."


def _public(release: Release) -> str:
    """Return what the release discloses in any case."""
    units = "rows" if release.guarantee.unit.column is None else "persons"
    count = "" if release.unit_count is None else f", the number of {units}"
    condition = (
        " The guarantee depends on a condition: see the last section."
        if release.provenance.get("not_protected")
        else ""
    )
    return (
        "The names of the columns, their bounds and categories, the settings of the release"
        f"{count} and how long dpcov ran.{condition}"
    )


def _example(guarantee: Guarantee) -> str:
    """Return how sure a reader can become, if the guarantee limits this strictly."""
    budget = guarantee.budget
    if not isinstance(budget, PureDP) or budget.epsilon > LARGE_EPSILON:
        return ""
    sure = words.percent(1 / (1 + math.exp(-budget.epsilon)))
    cases = (
        "that a person is in the table"
        if guarantee.neighbors == Neighbors.ADD_REMOVE
        else "that a person has one of two values"
    )
    return (
        f"Example: before the release, a reader is 50% sure {cases}. Afterwards, the reader is at "
        f"most {sure} sure."
    )


def curator(statements: Statements) -> list[Fact]:
    """Return what the curator states, as names and sentences."""
    found = {
        "Curator": "; ".join(statements.curators),
        "Intended use": statements.use,
        "Region": statements.region,
        "Sector": statements.sector or "",
        "Data seen first": statements.inspection,
        "Reasons": statements.justification,
    }
    return [(name, stated(text)) for name, text in found.items()]


def technical(release: Release) -> str:
    """Return the technical terms in one sentence, for the file."""
    guarantee = release.whole_guarantee
    promised = "no guarantee" if release.reproducible else str(guarantee.budget)
    condition = release.provenance.get("not_protected")
    terms = (
        f"{promised}; {guarantee.neighbors.value}; unit: {guarantee.unit}; mechanism: "
        f"{release.mechanism}; made by: {release.made_by()}."
    )
    return f"{terms} Condition: {condition}" if condition else terms
