"""What a page says of a release: everything that its template lays out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.expected import expected_correlation_error
from dpcov.analysis.features import chosen, position
from dpcov.denoise import law_of_estimate
from dpcov.entropy import simulation_generator
from dpcov.errors import ReleaseError
from dpcov.plot import shortened
from dpcov.privacy import Unit
from dpcov.releases import NOT_PRIVATE, VOID
from dpcov.report import sections, words
from dpcov.report.sections import Section

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.ledger import Account
    from dpcov.releases import Release

    Matrix = NDArray[np.float64]

LONGEST_HEADING = 60
SEED = 20_250_103  # of simulations: the same release gives the same page


def content(
    release: Release,
    *,
    target: str | None,
    features: Sequence[str] | None,
    account: Account | None,
    title: str | None,
    file: str,
    generator: np.random.Generator | None,
) -> dict[str, Any]:
    """Everything that the template shows."""
    draws = simulation_generator(SEED) if generator is None else generator
    noise = None
    if release.has_intercept and len(release.columns) > 1:
        noise = expected_correlation_error(release, generator=draws)
    regression = None
    if target is not None:
        column = release.schema.features[position(release, target)].column
        chosen(release, features, without=column)  # refuses what it does not know
        regression = _attempt(partial(sections.regression, release, target, features, draws))
    return {
        "title": title or "Private covariance release",
        "file": file,
        "not_private": NOT_PRIVATE if release.reproducible else None,
        "void": VOID if release.may_be_void else None,
        "summary": release.guarantee_in_words(),
        "glance": _glance(release, noise),
        "facts": _facts(release),
        "everybody": words.for_everybody(release),
        "officer": words.for_the_officer(release),
        "statistician": words.for_the_statistician(release),
        "heatmap": _attempt(partial(sections.heatmap, release, noise)),
        "pairs": _attempt(partial(sections.pairs, release, draws)),
        "spectrum": _attempt(partial(sections.spectrum, release, draws)),
        "graph": _attempt(partial(sections.graph, release, draws)),
        "target": None if target is None else shortened(target, LONGEST_HEADING),
        "kind": "Test release" if release.reproducible else "Differentially private release",
        "regression": regression,
        "account": None if account is None else _account(account),
        "features": list(release.columns),
        "example": target or release.columns[-1],
        "has_intercept": release.has_intercept,
        "dimension": release.lattice.dimension,
        "r_field": "published" if release.denoised is None else "denoised",
        "made_by": release.made_by(),
        "python_text": quoted,
    }


def quoted(text: str) -> str:
    """A string as Python and R write it; the template escapes it for HTML."""
    return json.dumps(text)


def _attempt(section: Callable[[], Section]) -> Section:
    """A section, or why the release can't have it."""
    try:
        return section()
    except ReleaseError as error:
        return Section(missing=str(error))


def _glance(release: Release, noise: Matrix | None) -> list[tuple[str, str, str]]:
    """Figures to see at once: name, value, what it is."""
    guarantee = words.stated(release)
    epsilon = words.epsilon_of(guarantee)
    note = "" if hasattr(guarantee.budget, "epsilon") else ", read at a delta of 1e-06"
    cards = [("epsilon", f"{epsilon:.3g}", f"{words.strength(guarantee)}{note}")]
    if release.reproducible:
        cards = [("privacy", "none", "made with a seed, for tests only")]
    cards.append(_rows(release))
    columns = len(release.schema.encoded_columns)
    count = len(release.columns)
    cards.append(("columns", str(columns), f"{count} feature{'s' * (count > 1)}, levels included"))
    if noise is not None:
        typical = noise[np.tril_indices(count, -1)].mean()
        what = "mean error of a correlation, from the privacy noise"
        cards.append(("accuracy", f"± {typical:.2g}", what))
    return cards


def _rows(release: Release) -> tuple[str, str, str]:
    if release.unit_count is not None:
        units = "rows" if release.guarantee.unit.column is None else "persons"
        return units, f"{release.unit_count:,}".replace(",", "\u202f"), "public"
    if not release.has_intercept:
        return "rows", "?", "private, not released"
    about = f"{release.count():,.0f}".replace(",", "\u202f")
    law = law_of_estimate(release)
    if law is None:
        return "rows", f"≈ {about}", "private: with noise"
    deviation = math.sqrt(law.diagonal_variance) / release.lattice.intercept_units**2
    rounded = f"{float(f'{deviation:.2g}'):,g}".replace(",", "\u202f")
    return "rows", f"≈ {about}", f"± {rounded}, since their number is private too"


def _facts(release: Release) -> list[tuple[str, str]]:
    guarantee = words.stated(release)
    facts = [
        ("What", "Second moments of a table, from which means, covariances and all else follow"),
        (
            "Guarantee",
            f"{_capital(str(guarantee.budget))}; {guarantee.neighbors.value} neighbours; "
            f"unit: {guarantee.unit}",
        ),
        ("Mechanism", f"{_capital(release.mechanism)}, denoised by {release.denoise}"),
        ("Made by", release.made_by()),
    ]
    if release.reproducible:
        facts[1] = ("Guarantee", "None: made with a seed, for tests only")
    return facts


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _account(account: Account) -> dict[str, Any]:
    """Budget, spent and left of a data set, as text."""
    budget = account.to_json()["budget"]
    unit = str(Unit()) if account.unit is None else str(account.unit)
    return {
        "dataset": account.dataset,
        "rows": [
            tuple(
                f"{part.get(name, 0.0):.6g}" if at else name
                for at, part in enumerate(({}, budget, account.spent, account.left))
            )
            for name in budget
        ],
        "unit": unit,
        "neighbors": account.neighbors.value,
        "releases": len(account.entries),
    }
