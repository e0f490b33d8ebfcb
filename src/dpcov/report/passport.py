"""Passport of a release: a registry record, answers for NIST and a page for an officer.

The passport uses only the release file and the statements of the curator, so it costs no privacy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from dpcov.published.record import NOT_PRIVATE
from dpcov.releases.advisories import advisories
from dpcov.report import nist, officer_page, registry_record
from dpcov.report.claims import SEEDED_GUARANTEE, verification
from dpcov.report.nist import Answer
from dpcov.report.registry_record import RegistryRecord, yaml_text

if TYPE_CHECKING:
    from dpcov.releases import Release
    from dpcov.report.statements import Statements

Format = Literal["yaml", "nist", "page"]


class Passport(BaseModel):
    """Passport of a release as data: `dpcov passport --json` prints it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    status: Literal["private", "reproducible: NOT PRIVATE"]
    guarantee: str
    warnings: list[str]
    verification: str
    registry: RegistryRecord
    nist: list[Answer]


def passport(release: Release, statements: Statements) -> Passport:
    """Return the passport of a release.

    Parameters
    ----------
    release : Release
        Release.

    statements : Statements
        Statements of the curator.

    Returns
    -------
    Passport
        Passport as data.

    Raises
    ------
    ReleaseError
        Neither the curator nor the file states a date.

    """
    return Passport(
        status=NOT_PRIVATE if release.reproducible else "private",
        guarantee=release.guarantee_in_words(),
        warnings=list(advisories(release)),
        verification=verification(release),
        registry=registry_record.record(release, statements),
        nist=nist.answers(release, statements),
    )


def text(release: Release, statements: Statements, form: Format) -> str:
    """Return one document of the passport.

    Parameters
    ----------
    release : Release
        Release.

    statements : Statements
        Statements of the curator.

    form : {"yaml", "nist", "page"}
        Registry record, answers for NIST as Markdown, or page for an officer as HTML.

    Returns
    -------
    str
        Text of the document. For a release with a seed, it begins with a warning.

    Raises
    ------
    ReleaseError
        A registry record needs a date, and neither the curator nor the file states it.
    OutputError
        The page needs jinja2, which is not installed.

    """
    if form == "nist":
        return nist.markdown(release, statements)
    if form == "page":
        return officer_page.page(release, statements) + "\n"
    first = f"{NOT_PRIVATE}. {SEEDED_GUARANTEE}" if release.reproducible else ""
    return yaml_text(registry_record.record(release, statements), first)
