"""Answers to what NIST SP 800-226 asks of a claim of differential privacy.

NIST SP 800-226 (March 2025) is the guideline "Guidelines for Evaluating Differential Privacy
Guarantees". Its pyramid goes from the privacy parameter at the top to the exposure of the data
during collection at the bottom. The topics below follow this order, in words of our own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from dpcov.core.printable import printable
from dpcov.published.record import NOT_PRIVATE
from dpcov.releases.advisories import advisories
from dpcov.report import claims
from dpcov.report.registry_record import harmless
from dpcov.report.statements import stated
from dpcov.report.words import sentence

if TYPE_CHECKING:
    from dpcov.releases import Release
    from dpcov.report.statements import Statements


class Answer(BaseModel):
    """Answer to one topic, what the curator states, and what the release file cannot know."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topic: str
    answer: str
    curator_states: str | None = None
    not_in_the_file: str | None = None


def answers(release: Release, statements: Statements) -> list[Answer]:
    """Return the answers for a release.

    Parameters
    ----------
    release : Release
        Release.

    statements : Statements
        Statements of the curator.

    Returns
    -------
    list of Answer
        Answers in the order of the guideline.

    """
    return [
        *_of_the_guarantee(release),
        *_of_the_algorithm(release),
        *_of_the_deployment(release, statements),
    ]


def _of_the_guarantee(release: Release) -> Iterator[Answer]:
    if release.reproducible:
        yield Answer(topic="Privacy parameter", answer=claims.SEEDED_GUARANTEE)
        return
    guarantee = release.whole_guarantee
    parameter = f"{sentence(str(guarantee.budget))} {claims.meaning(guarantee)}"
    yield Answer(topic="Privacy parameter", answer=parameter)
    rows = "Whether a row is a person, and whether one person has several rows."
    persons = "Whether the column identifies persons correctly."
    yield Answer(
        topic="Unit of privacy",
        answer=f"The guarantee protects any {guarantee.unit}.",
        not_in_the_file=rows if guarantee.unit.column is None else persons,
    )
    yield Answer(topic="Neighbouring tables", answer=claims.adjacent(guarantee))
    yield Answer(
        topic="What the guarantee does not protect",
        answer=claims.unprotected(release),
        not_in_the_file="Statistics about the same people that were published in other ways.",
    )


def _of_the_algorithm(release: Release) -> Iterator[Answer]:
    yield Answer(
        topic="Mechanism and its correctness",
        answer=f"{claims.mechanism(release)} {claims.verification(release)}",
        not_in_the_file="A consistent forgery, changed bounds in the schema, or a hidden seed. "
        "Compare the file with a copy that you trust, or verify its signature with dpcov verify.",
    )
    yield Answer(
        topic="Composition",
        answer=claims.composition(release),
        not_in_the_file="Other releases about the same people, whose privacy losses add up. A "
        "ledger of the data holder records the total.",
    )
    yield Answer(
        topic="Utility and bias",
        answer=f"{claims.product(release)} {claims.bias(release)}",
        not_in_the_file="Which errors the intended use can accept.",
    )


def _of_the_deployment(release: Release, statements: Statements) -> Iterator[Answer]:
    yield Answer(
        topic="Trust model",
        answer=f"Central model. {claims.TRUST} {claims.ACTORS}",
        curator_states=stated("; ".join(statements.curators)),
        not_in_the_file="Who the data holder is, and whether the declarations are right.",
    )
    yield Answer(
        topic="Query model and access to results",
        answer=claims.ACCESS,
        curator_states=stated(statements.use),
        not_in_the_file="Who receives the file, and for what use.",
    )
    yield Answer(
        topic="Random numbers and floating-point arithmetic",
        answer=claims.arithmetic(release),
        not_in_the_file="Whether the random numbers of the machine were secret.",
    )
    yield Answer(
        topic="Side channels",
        answer=claims.SIDE_CHANNELS,
        not_in_the_file="Who could observe the machine, its running time and its memory.",
    )
    yield Answer(
        topic="How the bounds were chosen",
        answer=claims.BOUNDS,
        curator_states=f"{statements.inspection} Reasons: {stated(statements.justification)}",
        not_in_the_file="Who chose the schema and the budget, and why.",
    )
    yield Answer(
        topic="Data security and access control",
        answer="The release file contains the public schema and noisy numbers, but no row of the "
        "table.",
        not_in_the_file="Where the table is kept, who has access, and when it is deleted.",
    )
    yield Answer(
        topic="Data collection exposure",
        answer="The guarantee begins when dpcov reads the table. It covers no earlier step.",
        not_in_the_file="How the data were collected, transferred and stored.",
    )


def markdown(release: Release, statements: Statements) -> str:
    """Return the answers as a Markdown document.

    Parameters
    ----------
    release : Release
        Release.

    statements : Statements
        Statements of the curator.

    Returns
    -------
    str
        Markdown text. The first line of a release with a seed says that it is not private.

    """
    warned = [f"{NOT_PRIVATE}. {claims.SEEDED_GUARANTEE}"] * release.reproducible
    lines = [f"**{harmless(line)}**" for line in [*warned, *advisories(release)]]
    lines.append(f"# {harmless(statements.title)}: answers to NIST SP 800-226")
    lines.append(f"Release: {harmless(release.made_by())}.")
    for number, one in enumerate(answers(release, statements), 1):
        lines += [f"## {number}. {one.topic}", harmless(one.answer)]
        if one.curator_states:
            lines.append(f"*The curator states:* {harmless(one.curator_states)}")
        if one.not_in_the_file:
            lines.append(f"*The file cannot know:* {harmless(one.not_in_the_file)}")
    return "\n\n".join(printable(line) for line in lines) + "\n"
