"""Contents of the report page, for its template."""

from __future__ import annotations

import inspect
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from dpcov.analysis.correlation import half_widths
from dpcov.analysis.declared import sections
from dpcov.analysis.features import target_and_features
from dpcov.analysis.intervals import NO_SIGNAL_MESSAGE
from dpcov.analysis.summary import facts
from dpcov.core.entropy import READING_SEED, simulation_generator
from dpcov.core.printable import shortened
from dpcov.core.show.html import element
from dpcov.errors import ReleaseError
from dpcov.estimate import Estimate
from dpcov.published import record
from dpcov.published.record import NOT_PRIVATE
from dpcov.releases.advisories import advisories
from dpcov.report import words
from dpcov.report.figures import svg

if TYPE_CHECKING:
    from dpcov.analysis.declared import Section
    from dpcov.core.arrays import Matrix
    from dpcov.core.show.result import Result
    from dpcov.core.show.table import Table
    from dpcov.releases import Release

# Largest number of characters of a name in a heading. A longer name is shortened.
MAX_HEADING_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Part:
    """Section of the page: a figure and a table, or the reason why the section lacks them."""

    section: Section
    heading: str
    result: Result | None = None
    figure: Markup | None = None
    table: Markup | None = None
    notes: Sequence[str] = ()
    missing: str | None = None
    wide: bool = False
    folded: bool = False
    words: bool = False
    narrow: Markup | None = None
    rest: Markup | None = None
    rest_title: str = ""


def content(
    release: Release,
    target: str | None,
    features: Sequence[str] | None,
    generator: np.random.Generator | None,
) -> dict[str, Any]:
    """Return the values that the template shows."""
    asked: dict[str, Any] = {"features": features}
    if target is not None:
        target_and_features(release, target, features)  # raises an error if a name is unknown
        asked["target"] = target
    seed = READING_SEED if generator is None else int(generator.integers(2**62))
    parts = [  # each section has its own random numbers
        _part(release, section, asked, simulation_generator(seed))
        for section in sections()
        if _wanted(section, asked)
    ]
    results = [part.result for part in parts if part.result is not None]
    errors = next((found.errors for found in results if hasattr(found, "errors")), None)
    return {
        "not_private": NOT_PRIVATE if release.reproducible else None,
        "void": " ".join(advisories(release)) or None,
        "glance": _glance(release, errors),
        "cautions": [found.caution for found in results if found.caution],
        "parts": parts,
        "facts": facts(release).texts(),
        "everybody": words.for_everybody(release),
        "officer": words.for_the_officer(release),
        "statistician": words.for_the_statistician(release),
        "not_protected": words.not_protected(release),
        "kind": "Test release" if release.reproducible else "Differentially private release",
        "table": _table,
        "release": release,
        "example": target or release.columns[-1],
        "python_text": json.dumps,  # text in Python and R code; the template escapes HTML
        "shell_text": shlex.quote,
    }


def _wanted(section: Section, asked: dict[str, Any]) -> bool:
    """Return True unless the section needs a target and none was given."""
    needs = inspect.signature(section.run).parameters.get("target")
    return needs is None or needs.default is not needs.empty or "target" in asked


def _part(
    release: Release, section: Section, asked: dict[str, Any], draws: np.random.Generator
) -> Part:
    """Return a section, or the reason why the release does not support it."""
    heading = section.heading.format(
        target=shortened(asked.get("target", ""), MAX_HEADING_CHARACTERS)
    )
    taken = inspect.signature(section.run).parameters
    offered = {name: value for name, value in asked.items() if name in taken}
    try:
        if section.signal:
            _require_signal(release)
        found = section.run(release, **offered, generator=draws)
    except ReleaseError as error:
        return Part(section, heading, missing=str(error))
    picture, (table, *others) = found.picture(), found.tables()
    figure = narrow = None
    wide = False
    if picture is not None:
        figure, wide = svg(section.name, heading, picture)
        narrow, _ = svg(f"{section.name}-narrow", heading, picture, narrow=True)
    rest, left_of_rest = next(
        (one.short() for one in others if one.folded and one.rows), (None, list[str]())
    )
    cut, left = table.short()
    return Part(
        section,
        heading,
        found,
        figure,
        _table(cut, cut.title) if cut.rows else None,
        [*(f"{what}." for what in left), *table.notes],
        wide=wide,
        folded=section.folded and not cut.words,
        words=cut.words,
        narrow=narrow,
        rest=None if rest is None else _table(rest, rest.title),
        rest_title="" if rest is None else "; ".join([rest.title, *left_of_rest]),
    )


def _table(table: Table, caption: str) -> Markup:
    return Markup(element(table, caption))  # noqa: S704  all text is escaped


def _require_signal(release: Release) -> None:
    record.refuse(release.not_released)
    if len(release.columns) > 1 and release.uninformative:
        raise ReleaseError(NO_SIGNAL_MESSAGE)


def _glance(release: Release, errors: Matrix | None) -> list[tuple[str, str, str]]:
    """Return the key figures: name, value and explanation."""
    guarantee = release.whole_guarantee
    epsilon = words.epsilon_of(guarantee)
    cards = [("epsilon", f"{epsilon:.3g}", f"{words.odds(guarantee)}")]
    if release.reproducible:
        cards = [("privacy", "none", "made with a seed, for tests only")]
    cards.append(_rows(release))
    columns = len(release.schema.encoded_columns)
    count = len(release.columns)
    cards.append(
        ("columns", str(columns), f"{count} feature{'s' * (count > 1)} (one per number or level)")
    )
    if errors is not None:
        i, j = np.tril_indices(count, -1)
        reach = half_widths(errors[i, j])
        at = int(np.argmax(reach))
        pair = " - ".join(shortened(release.columns[one]) for one in (j[at], i[at]))
        cards.append(
            (
                "accuracy",
                f"± {reach.mean():.2g}",
                "average 95% interval of a correlation, for the privacy noise; the worst: "
                f"± {reach[at]:.2g} ({pair})",
            )
        )
    return cards


def _rows(release: Release) -> tuple[str, str, str]:
    if release.unit_count is not None:
        units = "rows" if release.guarantee.unit.column is None else "persons"
        return units, f"{release.unit_count:,}".replace(",", "\u202f"), "public"
    if not release.tells_count:
        return "rows", "?", "private, not released"
    about = f"{release.count():,.0f}".replace(",", "\u202f")
    deviation = Estimate.of(release).count_deviation
    if deviation is None:
        return "rows", f"≈ {about}", "private estimate, with noise"
    rounded = f"{float(f'{deviation:.2g}'):,g}".replace(",", "\u202f")
    return "rows", f"≈ {about}", f"private estimate, standard error {rounded}"
