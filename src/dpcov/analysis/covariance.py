"""Means, standard deviations and covariances of a release, in the units of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.below_noise import CONFIDENCE_LEVEL, flags
from dpcov.analysis.correlation import facts_of, pairs
from dpcov.analysis.declared import command
from dpcov.analysis.intervals import intervals, shown_unasked
from dpcov.analysis.noise_warnings import means_below_noise, noise_warnings
from dpcov.core.show.result import Found
from dpcov.core.show.table import Cell, Row, Table, beside, square, square_columns, triangle
from dpcov.estimate import Estimate
from dpcov.estimate.coherent import with_other
from dpcov.releases.dates import length, shown
from dpcov.releases.persons import dependent, titled

if TYPE_CHECKING:
    from dpcov.core.arrays import Vector
    from dpcov.releases import Release

DEVIATION_HEAD = "standard deviation"


def _rows_in_units(release: Release, figures: dict[str, Vector]) -> list[Row]:
    """Return a row of figures for each feature, with the standard deviation last.

    For a date, all figures except the standard deviation are shown as dates.
    """
    rows: list[Row] = []
    for name, *values in zip(release.columns, *figures.values(), strict=True):
        *stated, deviation = map(float, values)
        cells: list[Cell] = shown(release.schema, name, stated)
        rows.append((name, [*cells, length(release.schema, name, deviation)]))
    return rows


@command(
    "covariance", "Print means, standard deviations and covariances, in the units of the data."
)
def covariances(release: Release, *, generator: np.random.Generator | None = None) -> Found:
    """Return the means, standard deviations and covariances, in the units of the data."""
    estimate = Estimate.required(release)
    names, covariance = release.columns, release.covariance()
    figures = {"mean": release.mean()}
    deviations = np.sqrt(np.diag(covariance))
    below = means_below_noise(release)
    notes = (*noise_warnings(release), *estimate.assumptions)
    ends: dict[str, Vector] = {}
    covers = None
    if shown_unasked(release):
        found = intervals(release, "mean", generator=generator)
        figures |= {"[0.025": found.low, "0.975]": found.high}
        ends = {"mean lower": found.low, "mean upper": found.high}
        covers = found.covers
        notes = (found.covering, *notes)
    forms: tuple[str, ...] = (*["{:.5g}"] * len(figures), "{:.4g}")
    rows = _rows_in_units(release, figures | {DEVIATION_HEAD: deviations})
    title = "Means and standard deviations"
    if shown_unasked(release):
        title = titled(title, dependent(release))
    heads: tuple[str, ...] = ("", *figures, DEVIATION_HEAD)
    if below is not None and below.any():
        rows = [(name, [*row, flag]) for (name, row), flag in zip(rows, flags(below), strict=True)]
        heads, forms = (*heads, ""), (*forms, "")
    rows = with_other(release.schema, release.mean(), rows, deviation=len(figures))
    means = Table(heads, rows, title, forms, notes=notes)
    kinds = {
        "covariance": (covariance, "{:.4g}"),
        "correlation": (release.correlation(), "{:.3f}"),
    }
    strongest = pairs(names, release.correlation(), kinds)
    title = "Private covariances"
    whole = triangle(title, names, covariance, "{:.4g}", diagonal=True, otherwise=strongest)
    facts = facts_of(release) | {
        "mean_lower": ends.get("mean lower"),
        "mean_upper": ends.get("mean upper"),
        "level": CONFIDENCE_LEVEL,
        "covers": covers,
        "mean_below_noise": below,
        "standard_deviation": deviations,
        "covariance": covariance,
        "correlation": release.correlation(),
    }
    columns = {
        "mean": release.mean(),
        **ends,
        "mean below noise": below,
        DEVIATION_HEAD: deviations,
    }
    known = {what: one.tolist() for what, one in columns.items() if one is not None}
    file = beside(square(names, covariance), known)
    related = square_columns(names, {"correlation": release.correlation()})
    return Found([means, whole or strongest], facts, beside(file, related))
