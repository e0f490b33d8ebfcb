"""Means, standard deviations and covariances of a release, in the units of the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.column_parts import Ends
from dpcov.analysis.correlation import facts_of, pairs
from dpcov.analysis.declared import command, section
from dpcov.analysis.estimable import budget_sentences
from dpcov.analysis.intervals import (
    CONFIDENCE_LEVEL,
    flags,
    means_below_noise,
    several_intervals,
    shown_unasked,
    titled,
)
from dpcov.analysis.noise_warnings import noise_warnings
from dpcov.core.show.result import Found
from dpcov.core.show.table import Cell, Row, Table, beside, square, square_columns, triangle
from dpcov.estimate import Estimate, dependent
from dpcov.estimate.shares import with_other
from dpcov.published import record
from dpcov.releases import Release
from dpcov.releases.dates import length, shown

if TYPE_CHECKING:
    from dpcov.analysis.intervals import Covers, Name, Statistic
    from dpcov.core.arrays import Array, Booleans, Vector
    from dpcov.rows.schema import Schema

END_HEADS = ("[0.025", "0.975]")
COLUMNS_TITLE = "Means and standard deviations"


@dataclass(frozen=True, slots=True)
class Figure:
    """Figure of each column in the table of means and standard deviations.

    Attributes
    ----------
    name : str
        Name of the figure.

    values : callable
        Function from a release to the figures, shape (p,).

    statistic : str or Statistic
        Statistic whose intervals become the intervals of the figure.

    shown : callable
        Function from a schema, the name of a column and numbers to the cells of the table.

    form : str
        Number format.

    converted : callable
        Increasing function that computes the figure from `statistic`, such as the square root of a
        variance. dpcov applies it to the ends of the intervals.

    """

    name: str
    values: Callable[[Release], Vector]
    statistic: Name | Statistic
    shown: Callable[[Schema, str, list[float]], list[Cell]]
    form: str
    converted: Callable[[Array], Array] = np.asarray


def _deviations(release: Release) -> Vector:
    """Return the standard deviations of the columns, shape (p,), or NaN for a negative variance."""
    with np.errstate(invalid="ignore"):  # a variance without denoising can be negative
        return np.asarray(np.sqrt(release.variance()))


def _lengths(schema: Schema, name: str, values: list[float]) -> list[Cell]:
    """Return standard deviations of a column as cells, such as ``12 days`` for dates."""
    return [length(schema, name, value) for value in values]


# A new figure of the columns needs one entry here. Its statistic is in `analysis.intervals`.
FIGURES = (
    Figure("mean", Release.mean, "mean", shown, "{:.5g}"),
    Figure("standard deviation", _deviations, "variance", _lengths, "{:.4g}", np.sqrt),
)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Figures of each column, with their intervals.

    Attributes
    ----------
    figures : tuple of tuple of ndarray, each of shape (p,)
        One tuple for each of the `FIGURES`, in the units of the data. It contains the values, and
        then the lower and upper ends if there are intervals.

    below : ndarray of bool, shape (p,), or None
        True for a mean below the noise level, if this is known.

    covers : str or None
        Errors that the intervals cover. None without intervals.

    notes : tuple of str
        Sentences about the figures.

    sufficient : ndarray, shape (p,), or None
        For each column with an interval that says nothing, the epsilon or rho of a release that
        would have an interval. NaN for the other columns. None without intervals.

    tailed : ndarray of bool, shape (p,), or None
        True for a standard deviation that depends on a hidden tail. None without intervals.

    """

    figures: tuple[tuple[Vector, ...], ...]
    below: Booleans | None
    covers: Covers | None
    notes: tuple[str, ...]
    sufficient: Vector | None = None
    tailed: Booleans | None = None

    @classmethod
    def of(cls, release: Release, generator: np.random.Generator | None) -> _Columns:
        assumptions = Estimate.of(release).assumptions
        below, notes = means_below_noise(release), (*noise_warnings(release), *assumptions)
        values = [one.values(release) for one in FIGURES]
        if not shown_unasked(release):
            return cls(tuple((one,) for one in values), below, None, notes)
        asked = [one.statistic for one in FIGURES]
        found = several_intervals(release, asked, generator=generator)
        figures = []
        for one, own, ends in zip(FIGURES, values, found, strict=True):
            # dpcov corrects the value by the rules of the schema. The corrected value can lie
            # outside the interval.
            figures.append(Ends.around(own, (one.converted(ends.low), one.converted(ends.high))))
        enough = np.fmax(*(one.sufficient_budget for one in found))
        notes = (*budget_sentences(release.columns, enough, release.guarantee), *notes)
        notes, tails = (found[0].covering, *notes), found[-1].depends_on_tail
        return cls(tuple(figures), below, found[0].covers, notes, enough, tails)

    def table(self, release: Release) -> Table:
        """Return the table for readers."""
        rows: list[Row] = []
        for at, name in enumerate(release.columns):
            cells: list[Cell] = []
            for one, values in zip(FIGURES, self.figures, strict=True):
                cells += one.shown(release.schema, name, [float(value[at]) for value in values])
            rows.append((name, cells))
        count = len(self.figures[0])
        heads: tuple[str, ...] = ("",)
        forms: tuple[str, ...] = ()
        for one in FIGURES:
            heads += (one.name, *END_HEADS[: count - 1])
            forms += (one.form,) * count
        none = np.zeros(len(rows), np.bool_)
        marks = flags(none if self.below is None else self.below, self.tailed)
        if any(marks):
            rows = [(name, [*row, mark]) for (name, row), mark in zip(rows, marks, strict=True)]
            heads, forms = (*heads, ""), (*forms, "")
        rows = with_other(release.schema, release.mean(), rows, deviation=count)
        title = titled(COLUMNS_TITLE, dependent(release, sampling=self.covers is not None))
        return Table(heads, rows, title, forms, notes=self.notes)

    def facts(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        found: dict[str, Any] = {
            "level": CONFIDENCE_LEVEL,
            "covers": self.covers,
            "mean_below_noise": self.below,
            "sufficient_budget": self.sufficient,
            "standard_deviation_depends_on_tail": self.tailed,
        }
        for one, values in zip(FIGURES, self.figures, strict=True):
            name = one.name.replace(" ", "_")
            ends = (*values[1:], None, None)[:2]
            found |= {name: values[0], f"{name}_lower": ends[0], f"{name}_upper": ends[1]}
        return found

    def file(self) -> dict[str, Sequence[Cell]]:
        """Return the columns of a file."""
        found: dict[str, Sequence[Cell]] = {}
        for one, values in zip(FIGURES, self.figures, strict=True):
            for end, value in zip(("", " lower", " upper"), values, strict=False):
                found[one.name + end] = value.tolist()
            if one.name == "mean" and self.below is not None:
                found["mean below noise"] = self.below.tolist()
        if self.tailed is not None:
            found["standard deviation depends on the tail"] = self.tailed.tolist()
        return found


@section(
    name="columns",
    heading="Means and standard deviations",
    lead="The mean and the standard deviation of each column, in the units of the data.",
    place=5,
    signal=False,
)
def columns(release: Release, *, generator: np.random.Generator | None = None) -> Found:
    """Return the means and standard deviations of all columns with their intervals."""
    record.refuse(release.reasons.means)
    found = _Columns.of(release, generator)
    return Found([found.table(release)], facts_of(release) | found.facts())


@command(
    "covariance", "Print means, standard deviations and covariances, in the units of the data."
)
def covariances(release: Release, *, generator: np.random.Generator | None = None) -> Found:
    """Return the means, standard deviations and covariances, in the units of the data.

    A release of sums has no covariances, so the result has the means and standard deviations only.
    """
    if release.sums_alone is None:
        Estimate.required(release)
    columns = _Columns.of(release, generator)
    means, facts = columns.table(release), facts_of(release) | columns.facts()
    names = release.columns
    if release.not_released is not None:
        alone = replace(means, notes=(*means.notes, release.not_released))
        file = beside(Table(("",), [(name, []) for name in names]), columns.file())
        return Found([alone], facts | {"covariance": None, "correlation": None}, file)
    covariance, correlation = release.covariance(), release.correlation()
    kinds = {"covariance": (covariance, "{:.4g}"), "correlation": (correlation, "{:.3f}")}
    strongest = pairs(release, correlation, kinds)
    title = "Private covariances"
    whole = triangle(title, names, covariance, "{:.4g}", diagonal=True, otherwise=strongest)
    facts |= {"covariance": covariance, "correlation": correlation}
    file = beside(square(names, covariance), columns.file())
    related = square_columns(names, {"correlation": correlation})
    return Found([means, whole or strongest], facts, beside(file, related))
