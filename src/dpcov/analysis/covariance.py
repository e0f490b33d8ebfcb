"""Means, standard deviations and covariances of a release, in the units of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.correlation import facts_of, pairs
from dpcov.analysis.declared import command
from dpcov.analysis.drowned import drowned
from dpcov.analysis.intervals import intervals, shown_unasked
from dpcov.analysis.moments import require_matrix
from dpcov.core.show.result import Found
from dpcov.core.show.table import Cell, Row, Table, square, triangle
from dpcov.releases.dates import length, shown
from dpcov.releases.pairwise import assumed
from dpcov.releases.persons import dependent, titled

if TYPE_CHECKING:
    from dpcov.core.arrays import Vector
    from dpcov.releases import Release

DEVIATION = "standard deviation"


def _told(release: Release, figures: dict[str, Vector]) -> list[Row]:
    """Figures of each feature, its deviation last; of a date, all others as dates."""
    rows: list[Row] = []
    for name, *values in zip(release.columns, *figures.values(), strict=True):
        *told, deviation = map(float, values)
        cells: list[Cell] = shown(release.schema, name, told)
        rows.append((name, [*cells, length(release.schema, name, deviation)]))
    return rows


@command(
    "covariance", "Print means, standard deviations and covariances, in the units of the data."
)
def covariances(release: Release, *, generator: np.random.Generator | None = None) -> Found:
    """Everything that the second moment says, in the units of the data."""
    require_matrix(release)
    names, covariance = release.columns, release.covariance()
    figures = {"mean": release.mean()}
    notes = (*drowned(release), *assumed(release))
    if shown_unasked(release):
        found = intervals(release, "mean", guaranteed=False, generator=generator)
        figures |= {"[0.025": found.low, "0.975]": found.high}
        notes = (found.covering, *notes)
    forms = (*["{:.5g}"] * len(figures), "{:.4g}")
    rows = _told(release, figures | {DEVIATION: np.sqrt(np.diag(covariance))})
    title = "Means and standard deviations"
    if shown_unasked(release):
        title = titled(title, dependent(release))
    means = Table(("", *figures, DEVIATION), rows, title, forms, notes=notes)
    kinds = {
        "covariance": (covariance, "{:.4g}"),
        "correlation": (release.correlation(), "{:.3f}"),
    }
    strongest = pairs(names, release.correlation(), kinds)
    title = "Private covariances"
    whole = triangle(title, names, covariance, "{:.4g}", diagonal=True, otherwise=strongest)
    facts = facts_of(release) | {"covariance": covariance}
    return Found([means, whole or strongest], facts, square(names, covariance))
