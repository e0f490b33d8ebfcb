"""Table 1 of a release: counts, means, shares and standard deviations, in total or by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.column_parts import shares_of
from dpcov.analysis.declared import Option, command, section
from dpcov.analysis.estimable import budget_sentences
from dpcov.analysis.group_figures import group_figures
from dpcov.analysis.intervals import CONFIDENCE_LEVEL, titled
from dpcov.analysis.persons import refuse_means
from dpcov.analysis.table_texts import (
    FLAG_SIGN,
    cautions,
    covering,
    covers_of,
    flag_note,
    with_ends,
)
from dpcov.core.parameters import Probability, check
from dpcov.core.show.frames import table_frame
from dpcov.core.show.result import OMITTED_FIELD, Result
from dpcov.core.show.table import Cell, Row, Table
from dpcov.errors import ReleaseError
from dpcov.estimate import Estimate, dependent
from dpcov.published import record
from dpcov.releases import Release
from dpcov.releases.dates import length, shown

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Booleans, Matrix, Vector
    from dpcov.core.privacy import Guarantee
    from dpcov.core.show.frames import Library
    from dpcov.rows.schema import Schema

DIVISOR_NOTE = "Standard deviations have the divisor n."
POOLED_NOTE = (
    "A second moment contains no standard deviation of a number by group. The last column is the "
    "pooled standard deviation within the groups."
)


@dataclass(frozen=True, slots=True)
class Table1(Result):
    """Table 1 of a release.

    p is the number of rows of the table, and g is the number of its groups.

    Attributes
    ----------
    columns : tuple of str, length p
        Names of the rows: the numbers, the flags, and the levels of the categories.

    statistics : tuple of str, length p
        ``mean`` or ``share``.

    by : str or None
        Name of the column of the groups.

    groups : tuple of str, length g
        Names of the groups. The first group is ``all``, except for grouped releases.

    sizes, sizes_lower, sizes_upper : ndarray, shape (g,)
        Numbers of rows of the groups with their intervals. If the table has survey weights, these
        are sums of weights.

    counts, counts_lower, counts_upper : ndarray, shape (p, g)
        Numbers of rows with a value, for a mean. Numbers of rows at the level, for a share.

    values, lower, upper : ndarray, shape (p, g)
        Means and shares with their intervals. NaN if a group is empty.

    below_noise : ndarray of bool, shape (p, g), or None
        True for a mean or a share below the noise level.

    deviations, deviations_lower, deviations_upper : ndarray, shape (p, g)
        Standard deviations with the divisor n. NaN if the release does not contain them.

    pooled_deviations, pooled_lower, pooled_upper : ndarray, shape (p,)
        Pooled standard deviations of the numbers within the groups.

    level : float
        Nominal coverage of each interval.

    covers : str or None
        What the intervals cover, or None without intervals.

    schema : Schema
        Schema of the release.

    sentences : tuple of str
        Sentences below the tables.

    dependent : str
        Sentence about persons with several rows, or an empty string.

    sufficient_budget : ndarray, shape (p, g), or None
        For each row and group with an interval that says nothing, the epsilon or rho of a release
        that would have an interval. NaN if all intervals are known.

    guarantee : Guarantee or None
        Guarantee of the release.

    See Also
    --------
    dpcov.table1 : Compute Table 1.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> release = dpcov.release(np.linspace(0, 1, 5000)[:, None], lower=0, upper=1, epsilon=10.0)
    >>> dpcov.table1(release).columns
    ('x0',)

    """

    columns: tuple[str, ...]
    statistics: tuple[str, ...]
    by: str | None
    groups: tuple[str, ...]
    sizes: Vector
    sizes_lower: Vector
    sizes_upper: Vector
    counts: Matrix
    counts_lower: Matrix
    counts_upper: Matrix
    values: Matrix
    lower: Matrix
    upper: Matrix
    below_noise: Booleans | None
    deviations: Matrix
    deviations_lower: Matrix
    deviations_upper: Matrix
    pooled_deviations: Vector
    pooled_lower: Vector
    pooled_upper: Vector
    level: float
    covers: str | None
    schema: Schema = field(metadata=OMITTED_FIELD, repr=False)
    sentences: tuple[str, ...] = field(default=(), metadata=OMITTED_FIELD, repr=False)
    dependent: str = field(default="", metadata=OMITTED_FIELD, repr=False)
    sufficient_budget: Matrix | None = None
    guarantee: Guarantee | None = field(default=None, metadata=OMITTED_FIELD, repr=False)

    @property
    def size_name(self) -> str:
        """Name of the row with the sizes of the groups."""
        return "rows" if self.schema.weight is None else "sum of weights"

    def to_frame(self, library: Library = "pandas") -> Any:
        """Return all figures as a data frame, with one row for each row of the table.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, default "pandas"
            Library of the data frame.

        Returns
        -------
        DataFrame or pyarrow.Table
            Frame with the figures of each group side by side.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.linspace(0, 1, 5000)[:, None]
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> len(dpcov.table1(release).to_frame()) > 0
        True

        """
        return table_frame(self.data(), library)

    def tables(self) -> list[Table]:
        return [self._plain() if self.by is None else self._grouped()]

    def _title(self) -> str:
        """Return the line above the table."""
        title = "Table 1" if self.by is None else f"Table 1 by {self.by}"
        return titled(title, self.dependent)

    def _notes(self) -> tuple[str, ...]:
        """Return the sentences below the table."""
        return (
            *covering(self.covers, self.level),
            *flag_note(self.below_noise),
            *self._not_estimable(),
            DIVISOR_NOTE,
            *((POOLED_NOTE,) if self._has_pooled else ()),
            *self.sentences,
        )

    def _not_estimable(self) -> tuple[str, ...]:
        """Return sentences that name the figures without an interval, and a sufficient budget."""
        if self.sufficient_budget is None or self.guarantee is None:
            return ()
        names = [
            name if self.by is None else f"{name} ({group})"
            for name in self.columns
            for group in self.groups
        ]
        return budget_sentences(names, self.sufficient_budget.ravel(), self.guarantee)

    @property
    def _has_pooled(self) -> bool:
        """True if the table has a column of pooled standard deviations."""
        return self.by is not None and not np.isnan(self.pooled_deviations).all()

    def _plain(self) -> Table:
        """Return the table without groups."""
        tail = (1 - self.level) / 2
        ends = (f"[{tail:.3g}", f"{1 - tail:.3g}]")
        shows = self.covers is not None
        heads = ("", "count", "mean or share", *(ends if shows else ()), "std dev")
        rows: list[Row] = [
            (self.size_name, [_count(self.sizes[0]), *[None] * (len(heads) - 2)]),
        ]
        for at, name in enumerate(self.columns):
            stated = [self._value(at, 0), *(self._ends(at, 0) if shows else ())]
            deviation = self._deviation(name, self.deviations[at, 0])
            rows.append((name, [_count(self.counts[at, 0]), *stated, deviation]))
        notes = (self._of_size(), *self._notes()) if shows else self._notes()
        return Table(heads, rows, self._title(), notes=notes)

    def _of_size(self) -> str:
        """Return a sentence with the interval of the number of rows."""
        low, high = self.sizes_lower[0], self.sizes_upper[0]
        return f"The interval of the count of all {self.size_name} is {low:.0f} to {high:.0f}."

    def _grouped(self) -> Table:
        """Return the table with one column for each group."""
        pooled = self._has_pooled
        heads = ("", *self.groups, *(["std dev within groups"] if pooled else []))
        sizes = [
            with_ends(_count(size), _count(low), _count(high), self.covers)
            for size, low, high in zip(self.sizes, self.sizes_lower, self.sizes_upper, strict=True)
        ]
        rows: list[Row] = [(self.size_name, [*sizes, *([None] if pooled else [])])]
        for at, name in enumerate(self.columns):
            cells: list[Cell] = [
                with_ends(self._value(at, group), *self._ends(at, group), self.covers)
                for group in range(len(self.groups))
            ]
            within = self._deviation(name, self.pooled_deviations[at])
            cells += [within] if pooled else []
            rows.append((f"{name} ({self.statistics[at]})", cells))
            deviations = [self._deviation(name, one) for one in self.deviations[at]]
            if self.statistics[at] == "mean" and any(deviations[1:]):
                rows.append((f"{name} (std dev)", [*deviations, *([None] if pooled else [])]))
        return Table(heads, rows, self._title(), notes=self._notes())

    def _value(self, at: int, group: int) -> str:
        """Return a mean or a share as text, with a sign if it is below the noise level."""
        flagged = self.below_noise is not None and bool(self.below_noise[at, group])
        return self._text(at, self.values[at, group]) + FLAG_SIGN * flagged

    def _ends(self, at: int, group: int) -> tuple[str, str]:
        """Return the ends of an interval as texts."""
        return self._text(at, self.lower[at, group]), self._text(at, self.upper[at, group])

    def _text(self, at: int, value: float) -> str:
        """Return a value of a row as text; a date as a date."""
        if np.isnan(value):
            return "-"
        (cell,) = shown(self.schema, self.columns[at], [float(value)])
        form = ".5g" if self.statistics[at] == "mean" else ".3f"
        return cell if isinstance(cell, str) else format(cell, form)

    def _deviation(self, name: str, value: float) -> str | None:
        """Return a standard deviation as text, or None if it is unknown."""
        if np.isnan(value):
            return None
        cell = length(self.schema, name, float(value))
        return cell if isinstance(cell, str) else f"{cell:.4g}"

    def data(self) -> Table:
        heads: list[str] = [""]
        columns: list[Array] = []
        for at, group in enumerate(self.groups):
            after = "" if self.by is None else f" {group}"
            for name, values in self._figures(at).items():
                heads.append(name + after)
                columns.append(values)
        if self.by is not None:
            heads += ["std dev within groups", "within lower", "within upper"]
            ends = (self.pooled_deviations, self.pooled_lower, self.pooled_upper)
            columns += [np.append(np.nan, one) for one in ends]
        names = [self.size_name, *self.columns]
        rows = [(name, [values[at].item() for values in columns]) for at, name in enumerate(names)]
        return Table(tuple(heads), rows)

    def _figures(self, group: int) -> dict[str, Any]:
        """Return the figures of a group by name, with the size of the group first."""
        means = np.array([one == "mean" for one in self.statistics], bool)
        values = self.values[:, group]
        flags = [False] * len(self.columns)
        if self.below_noise is not None:
            flags = self.below_noise[:, group].tolist()
        figures = {
            "count": np.append(self.sizes[group], self.counts[:, group]),
            "count lower": np.append(self.sizes_lower[group], self.counts_lower[:, group]),
            "count upper": np.append(self.sizes_upper[group], self.counts_upper[:, group]),
        }
        of_rows = {
            "mean": np.where(means, values, np.nan),
            "share": np.where(means, np.nan, values),
            "lower": self.lower[:, group],
            "upper": self.upper[:, group],
            "std dev": self.deviations[:, group],
            "std dev lower": self.deviations_lower[:, group],
            "std dev upper": self.deviations_upper[:, group],
        }
        figures |= {name: np.append(np.nan, one) for name, one in of_rows.items()}
        return figures | {"below noise": np.array([False, *flags])}


def _count(value: float) -> str:
    """Return a count as text."""
    return "-" if np.isnan(value) else f"{value:.0f}"


# Attributes of `Table1` with one column for each group.
BY_GROUP = (
    *("counts", "counts_lower", "counts_upper", "values", "lower", "upper"),
    *("deviations", "deviations_lower", "deviations_upper", "sufficient_budget"),
)
# Attributes of `Table1` with one entry for each group.
BY_SIZE = ("sizes", "sizes_lower", "sizes_upper")
BY_OPTION = Option("--by", "Column of the groups: a category or a flag.", completes="groupings")


@section(
    name="table1",
    heading="Table 1",
    lead="Means of the numbers, and shares of the levels and flags, with their intervals.",
    place=4,
    folded=False,
    signal=False,
    label="Table 1",
)
@command(
    "table1",
    "Print counts, means, shares and standard deviations, in total or by group.",
    "--by sex",
    several=True,
    by=BY_OPTION,
)
def table1(
    release: Release | Mapping[str, Release] | Sequence[Release],
    by: str | None = None,
    *,
    level: float = CONFIDENCE_LEVEL,
    sampling: bool = True,
    generator: np.random.Generator | None = None,
) -> Table1:
    """Compute Table 1 of a release: counts, means, shares and standard deviations.

    Parameters
    ----------
    release : Release, mapping of str to Release, or sequence of Release
        Release with an intercept. For a release by group, pass the result of `release_by`, or the
        releases of all groups that you loaded from files.

    by : str, optional
        Categorical column or flag of the release that separates the groups.

    level : float, default 0.95
        Nominal coverage of each interval, between 0 and 1.

    sampling : bool, default True
        Include the sampling error. Otherwise, the intervals cover the privacy noise only.

    generator : numpy.random.Generator, optional
        Random numbers for the simulation of the noise. The default gives the same result every
        time.

    Returns
    -------
    Table1
        Figures of all rows and of each group, with intervals.

    Raises
    ------
    NotReleasedError
        The release has no intercept, or holds the trace only.
    ReleaseError
        The column is not a category or flag of the release, or the grouped releases do not belong
        together.

    See Also
    --------
    dpcov.crosstab : Contingency table of two columns.
    dpcov.release_by : One release for each category of a column.

    Notes
    -----
    The second moment contains the products of each column with the indicators of the groups. dpcov
    computes the figures by group from these products. Shares and their intervals are within 0 and
    1. Means are within their bounds. The sizes of all groups add up to the number of rows.

    The intervals by group use Fieller's method with simulated errors of the noise. The sampling
    error of a share by group is binomial. The sampling error of a mean by group uses the standard
    deviation of the group. If this standard deviation is unknown, it uses the pooled standard
    deviation.

    The standard deviation of a number by group needs the square of the column. Derive this square
    in the schema, and choose a rule for missing cells other than ``midpoint``. The pooled standard
    deviation within the groups is always known.

    Examples
    --------
    >>> import dpcov
    >>> import pyarrow as pa
    >>> table = pa.table({"x": [0.0, 1.0] * 4000, "site": ["a", "a", "b", "a"] * 2000})
    >>> x = {"kind": "numeric", "lower": 0, "upper": 1}
    >>> site = {"kind": "categorical", "levels": ["a", "b"]}
    >>> schema = dpcov.Schema.parse({"columns": {"x": x, "site": site}})
    >>> release = dpcov.release(table, schema=schema, epsilon=10.0)
    >>> found = dpcov.table1(release, by="site")
    >>> found.groups[:3]
    ('all', 'a', 'b')
    >>> bool(abs(found.values[0, 2]) < 0.2)
    True

    """
    check("level", level, Probability, ReleaseError)
    if not isinstance(release, Release):
        options = {"level": level, "sampling": sampling, "generator": generator}
        return _of_groups(release, by, **options)
    record.refuse(release.not_released)
    if by is not None:
        refuse_means(release, "A table by group")
    Estimate.required(release)
    found = group_figures(release, by, level, sampling, generator)
    covers = covers_of(release, sampling=sampling)
    return Table1(
        columns=tuple(line.name for line in found.lines),
        statistics=tuple(line.statistic for line in found.lines),
        by=by,
        groups=found.groups,
        **found.sizes.named("sizes", "sizes_lower", "sizes_upper"),
        **found.counts.named("counts", "counts_lower", "counts_upper"),
        **found.figures.named("values", "lower", "upper"),
        below_noise=found.below,
        sufficient_budget=found.sufficient,
        guarantee=release.guarantee,
        **found.deviations.named("deviations", "deviations_lower", "deviations_upper"),
        **found.pooled.named("pooled_deviations", "pooled_lower", "pooled_upper"),
        level=level,
        covers=covers,
        schema=release.schema,
        sentences=cautions(release, release.schema.encoded_columns),
        dependent=dependent(release, sampling=covers is not None and sampling),
    )


def _of_groups(
    releases: Mapping[str, Release] | Sequence[Release], by: str | None, **options: Any
) -> Table1:
    """Return the table of grouped releases, with one group for each release."""
    given = list(releases.values() if isinstance(releases, Mapping) else releases)
    if len(given) == 1 and not isinstance(releases, Mapping):
        return table1(given[0], by, **options)
    groups = [one.group for one in given if one.group is not None]
    kinds = [
        (group.column, group.together, one.columns, one.reproducible)
        for group, one in zip(groups, given, strict=False)
    ]
    if not kinds or len(groups) < len(given) or any(kind != kinds[0] for kind in kinds):
        raise ReleaseError(
            "These releases are not the groups of one grouped release. Name the files that one "
            "`dpcov release --by` wrote."
        )
    if by not in (None, groups[0].column):
        raise ReleaseError(
            f"The releases have the groups of {groups[0].column!r}, not of {by!r}. Leave out by."
        )
    tables = [table1(one, **options) for one in given]
    first = tables[0]
    names = [name for name in first.columns if all(name in table.columns for table in tables)]
    joined = {one: _joined(tables, one, names) for one in BY_GROUP}
    joined |= {one: np.concatenate([getattr(table, one) for table in tables]) for one in BY_SIZE}
    unknown = np.full(len(names), np.nan)
    return replace(
        first,
        columns=tuple(names),
        statistics=tuple(first.statistics[first.columns.index(name)] for name in names),
        by=groups[0].column,
        groups=tuple(group.level for group in groups),
        **joined,
        below_noise=None if first.below_noise is None else _joined(tables, "below_noise", names),
        pooled_deviations=_pooled(joined["counts"], joined["deviations"]),
        pooled_lower=unknown,
        pooled_upper=unknown,
        sentences=tuple(dict.fromkeys(one for table in tables for one in table.sentences)),
    )


def _joined(tables: list[Table1], attribute: str, names: list[str]) -> Any:
    """Return the figures of the named rows of several tables, side by side."""
    figures = [
        getattr(table, attribute)[[table.columns.index(name) for name in names]] for table in tables
    ]
    return np.concatenate(figures, axis=1)


def _pooled(counts: Matrix, deviations: Matrix) -> Vector:
    """Return the pooled standard deviations of groups."""
    totals = counts.sum(axis=1)
    squares = np.sum(counts * deviations**2, axis=1)
    return np.sqrt(shares_of(squares, totals))
