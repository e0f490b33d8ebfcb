"""Figures of Table 1 by group: counts, means, shares and standard deviations, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.column_parts import (
    MISSING_LABEL,
    Columns,
    Ends,
    Parts,
    Ratio,
    count_interval,
    deviations_of,
    grouping,
    joint_errors,
    shares_of,
)
from dpcov.analysis.estimable import span, sufficient_budgets, sufficient_divisors
from dpcov.analysis.intervals import (
    Means,
    below_noise,
    several_intervals,
    shown_unasked,
    too_uncertain,
)
from dpcov.core.entropy import reading_generator
from dpcov.estimate import Estimate
from dpcov.estimate.shares import OTHER_LABEL, nearest_shares
from dpcov.rows.schema import Categorical, Derived, Numeric

if TYPE_CHECKING:
    from typing import Literal

    from dpcov.analysis.intervals import Intervals, Statistic
    from dpcov.core.arrays import AnyArray, Array, Booleans, Matrix, Vector
    from dpcov.releases import Release
    from dpcov.rows.schema import Schema

ALL = "all"


@dataclass(frozen=True, slots=True)
class Line:
    """Line of Table 1: the mean of a number, or the share of a flag or of a level.

    Attributes
    ----------
    name : str
        Name of the line.

    column : str
        Name of its column.

    parts : Parts
        Parts of its column.

    top, bottom : tuple of int
        Positions of the parts in the numerator and in the denominator.

    statistic : {"mean", "share"}
        Kind of the figure.

    low, width : float
        Smallest possible value, and width of the possible values.

    variable : int or None
        Position of the variable among the columns of the release. None for the cells without a
        level.

    observed : bool
        True for a number whose rule for missing cells is ``level``. This line leaves out the
        missing cells, but the mean in `Release.mean` includes them.

    """

    name: str
    column: str
    parts: Parts
    top: tuple[int, ...]
    bottom: tuple[int, ...]
    statistic: Literal["mean", "share"] = "share"
    low: float = 0.0
    width: float = 1.0
    variable: int | None = None
    observed: bool = False

    @property
    def is_other(self) -> bool:
        """True for the share of the cells without a level."""
        return self.name == f"{self.column}={OTHER_LABEL}"

    @property
    def released(self) -> int | None:
        """Position of this mean or share in `Release.mean`, or None if it is not there."""
        return None if self.observed else self.variable

    def forms(self) -> tuple[Vector, Vector]:
        """Return the forms of the numerator and of the denominator."""
        of = self.parts.forms
        return of[:, list(self.top)].sum(axis=1), of[:, list(self.bottom)].sum(axis=1)


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """Figures of p lines and g groups.

    Attributes
    ----------
    lines : list of Line, length p
        Lines of the table.

    groups : tuple of str, length g
        Names of the groups. The first group is all rows.

    sizes : Ends of ndarray, shape (g,)
        Numbers of rows.

    counts : Ends of ndarray, shape (p, g)
        Numbers of values, for a mean. Numbers of rows at the level, for a share.

    figures : Ends of ndarray, shape (p, g)
        Means and shares.

    below : ndarray of bool, shape (p, g), or None
        True for a mean or a share below the noise level.

    deviations : Ends of ndarray, shape (p, g)
        Standard deviations.

    pooled : Ends of ndarray, shape (p,)
        Pooled standard deviations within the groups.

    sufficient : ndarray, shape (p, g)
        For each mean, share or standard deviation whose interval says nothing, the epsilon or rho
        of a release that would have an interval. Pooled standard deviations count for all rows.
        NaN if all intervals are known.

    """

    lines: list[Line]
    groups: tuple[str, ...]
    sizes: Ends
    counts: Ends
    figures: Ends
    below: Booleans | None
    deviations: Ends
    pooled: Ends
    sufficient: Matrix


class Spreads:
    """Statistic of means and standard deviations of the values that are not missing.

    The figures are in this order:

    - the means of the lines, which are between 0 and 1 as fractions of their widths,
    - the standard deviations of the numbers,
    - their pooled standard deviations within the groups,
    - the standard deviations by group of the numbers whose square is a column.

    Parameters
    ----------
    schema : Schema
        Schema of the rows.

    lines : sequence of Line, length p
        All lines. The numbers are the lines with the statistic ``mean``.

    unit : ndarray, shape (d,)
        Form that is 1 in each row.

    groups : ndarray, shape (d, g)
        Forms of the groups.

    Attributes
    ----------
    tops, bottoms : ndarray, shape (d, p)
        Forms of the numerators and of the denominators of the lines.

    squares : dict of str to str
        Name of the derived column that contains the square of a number. The keys are the names of
        the numbers.

    """

    def __init__(self, schema: Schema, lines: list[Line], unit: Vector, groups: Matrix) -> None:
        numbers = {line.column: line for line in lines if line.statistic == "mean"}
        columns = {name: _numeric(schema, name) for name in numbers}
        place = {feature.name: j for j, feature in enumerate(schema.features)}
        self._at = [place[name] for name in numbers]
        self._half_ranges = np.array([column.half_range for column in columns.values()])
        self._unit, self._groups = unit, groups
        self.tops, self.bottoms = (_stacked(_forms(lines, side), len(unit)) for side in (0, 1))
        self._present = _stacked(_forms(list(numbers.values()), 1), len(unit))
        self.squares = _squares(schema, list(numbers))
        self._square_limits = [columns[name].half_range for name in self.squares]
        self._square_forms = [
            _values([(columns[name], *numbers[name].forms()) for name in names], len(unit))
            for names in (self.squares, self.squares.values())
        ]

    def values(self, release: Release, matrices: Array) -> Array:
        own, within = self._deviations(matrices)
        sums = matrices @ self._unit
        means = shares_of(sums @ self.tops, sums @ self.bottoms)
        parts = [means, own, within, self._of_squares(matrices)]
        return np.concatenate([part.reshape(len(matrices), -1) for part in parts], axis=1)

    def split(self, values: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
        """Split one vector of figures into the four kinds. The last has the shape (s, g)."""
        lines, numbers = self.tops.shape[1], len(self._at)
        at = np.cumsum([lines, numbers, numbers])
        means, own, within, by_group = np.split(values, at)
        return means, own, within, by_group.reshape(len(self.squares), self._groups.shape[1])

    def limits(self, release: Release) -> tuple[Array | float, Array | float]:
        squares = np.repeat(self._square_limits, self._groups.shape[1])
        most = [np.ones(self.tops.shape[1]), self._half_ranges, self._half_ranges]
        return 0.0, np.concatenate([*most, squares])

    def reach(self, release: Release, matrices: Array, center: Array) -> Array | None:
        return None

    def shaped(self, release: Release, values: AnyArray) -> AnyArray:
        return values

    def _deviations(self, matrices: Array) -> tuple[Array, Array]:
        """Return the standard deviations, and the pooled ones within the groups."""
        sums, squares = matrices[:, :, self._at], matrices[:, self._at, self._at]
        counts = (matrices @ self._unit) @ self._present
        counts = np.where(counts > 0, counts, np.nan)
        totals = sums.transpose(0, 2, 1) @ self._unit
        own = squares / counts - (totals / counts) ** 2
        tops = self._groups.T @ sums
        bottoms = self._groups.T @ matrices @ self._present
        between = np.where(bottoms > 0, tops**2 / np.where(bottoms > 0, bottoms, 1.0), 0.0)
        within = (squares - between.sum(axis=1)) / counts
        return _roots(own) * self._half_ranges, _roots(within) * self._half_ranges

    def _of_squares(self, matrices: Array) -> Array:
        """Return the (b, s, g) standard deviations by group from the squares of numbers."""
        means, square_means = (self._means(matrices, forms) for forms in self._square_forms)
        return _roots(square_means - means**2)

    def _means(self, matrices: Array, forms: tuple[Matrix, Matrix]) -> Array:
        """Return the means of s columns in each of g groups, shape (b, s, g)."""
        tops, bottoms = (self._groups.T @ matrices @ form for form in forms)
        return shares_of(tops, bottoms).transpose(0, 2, 1)


def group_figures(
    release: Release,
    by: str | None,
    level: float,
    sampling: bool,
    generator: np.random.Generator | None,
) -> GroupFigures:
    """Compute the figures of Table 1.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    by : str or None
        Column of the groups.

    level : float
        Nominal coverage of each interval.

    sampling : bool
        Include the sampling error.

    generator : numpy.random.Generator or None
        Random numbers for the simulation of the noise.

    Returns
    -------
    GroupFigures
        Figures of all rows and of each group.

    """
    return _Computation(release, by, level, sampling, reading_generator(generator)).figures()


class _Computation:
    """Computation of the figures of p lines and g groups, of which the first is all rows.

    The arguments are the arguments of `group_figures`.
    """

    def __init__(
        self,
        release: Release,
        by: str | None,
        level: float,
        sampling: bool,
        draws: np.random.Generator,
    ) -> None:
        self._release, self._level, self._sampling, self._draws = release, level, sampling, draws
        columns = self._columns = Columns(release)
        self._groups = [Parts("", (ALL,), columns.unit[:, None])]
        self._groups += [] if by is None else [grouping(columns, by)]
        self._names = tuple(label for parts in self._groups for label in parts.labels)
        self._lines = [
            line
            for name in release.schema.encoded_columns
            if name != by
            for line in _lines(columns, name)
        ]
        forms = self._groups[-1].forms
        self._spreads = Spreads(release.schema, self._lines, columns.unit, forms)
        self._is_mean = np.array([line.statistic == "mean" for line in self._lines], bool)
        self._shows = shown_unasked(release)

    def figures(self) -> GroupFigures:
        """Compute the figures of all groups and lines.

        Groups and lines of cells without a level are left out if noise hides the number of cells.
        """
        means, flags, own, within, by_group, enough = self._overall()
        sizes, ratio, size_noise = self._estimates()
        deviations = self._deviations(own, by_group)
        figures, sufficient = self._figures(ratio, means, within.value, deviations.value)
        of_means, of_numbers, of_pooled, of_groups = self._spreads.split(enough)
        missing = np.full(of_numbers.shape, np.nan)
        of_deviations = self._deviations(
            Ends(np.fmax(of_numbers, of_pooled), missing, missing), Ends(*[of_groups] * 3)
        ).value
        sufficient[:, 0] = of_means
        sufficient = np.fmax(sufficient, of_deviations)
        is_mean = self._is_mean[:, None]
        counts = np.where(is_mean, ratio.bottom, ratio.top)
        variances = np.where(is_mean, ratio.bottom_variance, ratio.top_variance)
        below = None
        if self._shows and flags is not None:
            below = too_uncertain(ratio.noise, 1.0) | flags[:, None]
            below[:, 0] = flags
        without_level = np.isin(self._names, [OTHER_LABEL, MISSING_LABEL])
        groups = np.flatnonzero(~(without_level & below_noise(sizes, size_noise)))
        others = np.array([line.is_other for line in self._lines], bool)
        kept = np.flatnonzero(~(others & below_noise(counts[:, 0], np.sqrt(variances[:, 0]))))
        at = np.ix_(kept, groups)
        return GroupFigures(
            [self._lines[j] for j in kept],
            tuple(self._names[j] for j in groups),
            self._counted(sizes, size_noise**2).only(groups),
            self._counted(counts, variances).only(at),
            figures.only(at),
            None if below is None else below[at],
            self._of_flags(deviations, figures).only(at),
            self._of_numbers(within).only(kept),
            sufficient[at],
        )

    def _estimates(self) -> tuple[Array, Ratio, Array]:
        """Return the sizes of the groups, the ratios of the lines and the noise of the sizes."""
        columns, lines = self._columns, self._lines
        sizes = [columns.count]
        tables: dict[str, Matrix] = {}
        for parts in self._groups[1:]:
            totals = parts.forms.T @ columns.moment @ columns.unit
            sizes += nearest_shares(totals, max(float(totals.sum()), 0.0)).tolist()
        for line in lines:
            if line.column not in tables:
                counts = [columns.joint_counts(one, line.parts) for one in self._groups]
                tables[line.column] = np.vstack(counts)
        shape = (len(lines), len(sizes))
        tops = [tables[line.column][:, list(line.top)].sum(axis=1) for line in lines]
        bottoms = [tables[line.column][:, list(line.bottom)].sum(axis=1) for line in lines]
        if not self._shows:
            errors = np.zeros((1, 2 * len(lines) + 1, len(sizes)))
        else:
            asked = np.column_stack([columns.unit, *self._spreads.tops.T, *self._spreads.bottoms.T])
            forms = np.column_stack([parts.forms for parts in self._groups])
            errors = joint_errors(self._release, asked, forms, self._draws)
        of_sizes, of_top, of_bottom = np.split(errors, [1, 1 + len(lines)], axis=1)
        top, bottom = np.reshape(tops, shape), np.reshape(bottoms, shape)
        ratio = Ratio.of(top, bottom, of_top, of_bottom)
        return np.array(sizes), ratio, deviations_of(of_sizes[:, 0])

    def _overall(self) -> tuple[Ends, Booleans | None, Ends, Ends, Ends, Vector]:
        """Return the figures of all rows, flags, and the standard deviations of the numbers.

        The last entry contains the sufficient budgets of all figures of `Spreads`.
        """
        release, spreads = self._release, self._spreads
        values = list(spreads.split(spreads.values(release, self._columns.moment[None])[0]))
        released = Estimate.of(release).deviations
        for at, line in enumerate(self._lines):
            if line.released is not None:
                values[0][at] = (release.mean()[line.released] - line.low) / line.width
        numbers = [line for line in self._lines if line.statistic == "mean"]
        for at, line in enumerate(numbers):
            if line.released is not None:
                values[1][at] = released[line.released]
        values[2] = np.fmin(np.where(np.isnan(values[2]), values[1], values[2]), values[1])
        if not self._shows:
            ends = [Ends.around(one, None) for one in values]
            unknown = np.full(spreads.values(release, self._columns.moment[None])[0].shape, np.nan)
            return ends[0], None, ends[1], ends[2], ends[3], unknown
        asked: list[Statistic] = [Means(), spreads]
        means, others = several_intervals(
            release, asked, self._level, self._sampling, generator=self._draws
        )
        low, high = spreads.split(others.low), spreads.split(others.high)
        triples = zip(values, low, high, strict=True)
        ends = [Ends.around(one, (first, last)) for one, first, last in triples]
        enough = others.sufficient_budget.copy()
        for at, line in enumerate(self._lines):
            if line.released is not None:
                enough[at] = means.sufficient_budget[line.released]
        figures = self._with_means(ends[0], means)
        return figures, self._flags(means), ends[1], ends[2], ends[3], enough

    def _with_means(self, figures: Ends, means: Intervals) -> Ends:
        """Replace the interval of each mean in `Release.mean` by its interval from `intervals`."""
        low, high = figures.lower.copy(), figures.upper.copy()
        for at, line in enumerate(self._lines):
            if line.released is not None:
                for ends, of_means in ((low, means.low), (high, means.high)):
                    ends[at] = (of_means[line.released] - line.low) / line.width
        return Ends.around(figures.value, (low, high))

    def _flags(self, means: Intervals) -> Booleans:
        """Return True for each line whose mean in all rows is below the noise level, shape (p,)."""
        flags = [
            line.variable is not None and bool(means.below_noise[line.variable])
            for line in self._lines
        ]
        return np.array(flags, bool)

    def _deviations(self, own: Ends, by_group: Ends) -> Ends:
        """Return the standard deviations by line and group, with NaN if they are unknown."""
        names = [line.column for line in self._lines]
        squared = [names.index(name) for name in self._spreads.squares]
        deviations = Ends(*np.full((3, len(names), len(self._names)), np.nan))
        for ends, of_all, of_groups in zip(deviations, own, by_group, strict=True):
            ends[self._is_mean, 0] = of_all
            if len(self._groups) > 1:
                ends[squared, 1:] = of_groups
        return deviations

    def _figures(
        self, ratio: Ratio, means: Ends, within: Vector, deviations: Matrix
    ) -> tuple[Ends, Matrix]:
        """Return the means and shares by line and group, and the budgets that would be sufficient.

        The means are in the units of the data.
        """
        low, width = (
            np.array([[getattr(line, name)] for line in self._lines]).reshape(-1, 1)
            for name in ("low", "width")
        )
        spread = np.full((len(self._lines), 1), np.nan)
        spread[self._is_mean, 0] = within
        spread = np.where(np.isnan(deviations), spread, deviations) / width
        ends, sufficient = None, np.full(ratio.bottom.shape, np.nan)
        if self._shows:

            def ends_at(divisor: float) -> tuple[Array, Array]:
                less = ratio.with_less_noise(divisor)
                return less.interval(self._level, spread**2, sampling=self._sampling)

            divisors = sufficient_divisors(lambda divisor: span(ends_at(divisor), (0.0, 1.0)))
            sufficient = sufficient_budgets(self._release.guarantee, divisors)
            known = np.isnan(sufficient)
            low_ends, high_ends = (np.where(known, one, np.nan) for one in ends_at(1.0))
            ends = low_ends, high_ends
        figures = Ends.around(ratio.value, ends)
        for by_group, of_all in zip(figures, means, strict=True):
            by_group[:, 0] = of_all
        return Ends(*(low + width * one for one in figures)), sufficient

    def _counted(self, counts: Array, variances: Array) -> Ends:
        """Return counts with intervals; with survey weights, sums of weights."""
        ends = None
        if self._shows:
            total, sampling = self._columns.count, self._sampling
            ends = count_interval(counts, variances, total, self._level, sampling=sampling)
        return Ends(*(self._columns.row_weight * one for one in Ends.around(counts, ends)))

    def _of_flags(self, deviations: Ends, figures: Ends) -> Ends:
        """Add the standard deviations of flags, which follow from their shares."""
        for at, line in enumerate(self._lines):
            if line.statistic == "share" and line.name == line.column:
                own = _of_shares(*(one[at] for one in figures))
                for ends, one in zip(deviations, own, strict=True):
                    ends[at] = one
        return deviations

    def _of_numbers(self, within: Ends) -> Ends:
        """Return the pooled standard deviations by line, with NaN for shares."""
        pooled = Ends(*np.full((3, len(self._lines)), np.nan))
        for ends, of_numbers in zip(pooled, within, strict=True):
            ends[self._is_mean] = of_numbers
        return pooled


def _lines(columns: Columns, name: str) -> list[Line]:
    """Return the lines of a column."""
    column, parts = columns.release.schema.encoded_columns[name], columns.parts(name)
    place = {feature: j for j, feature in enumerate(columns.release.columns)}
    every = tuple(range(len(parts.labels)))
    if isinstance(column, Categorical):
        return [
            Line(one, name, parts, (at,), every, variable=place.get(one))
            for at, one in enumerate(f"{name}={label}" for label in parts.labels)
        ]
    is_share = column.reading == "flag" and not columns.release.schema.person_means
    statistic: Literal["mean", "share"] = "share" if is_share else "mean"
    limits = column.lower, column.upper - column.lower
    observed = column.missing == "level"
    own = Line(name, name, parts, (1,), (0, 1), statistic, *limits, place[name], observed)
    if not observed:
        return [own]
    one = f"{name}={MISSING_LABEL}"
    return [own, Line(one, name, parts, (2,), every, variable=place[one])]


def _forms(lines: list[Line], side: int) -> list[Vector]:
    """Return the forms of the numerators (0) or of the denominators (1) of the lines."""
    return [line.forms()[side] for line in lines]


def _numeric(schema: Schema, name: str) -> Numeric:
    """Return a numeric column."""
    column = schema.encoded_columns[name]
    if not isinstance(column, Numeric):
        raise TypeError(f"the column {name!r} is not numeric")
    return column


def _squares(schema: Schema, names: list[str]) -> dict[str, str]:
    """Return the name of the derived column with the square of each number, if it exists."""
    found = {}
    for name, column in schema.encoded_columns.items():
        if isinstance(column, Derived) and column.formula.log is None:
            one, other = column.formula.parents
            if one == other and one in names and _numeric(schema, one).missing != "midpoint":
                found[one] = name
    return found


def _values(numbers: list[tuple[Numeric, Vector, Vector]], order: int) -> tuple[Matrix, Matrix]:
    """Return two forms of each number: its value, and 1 if the cell is not missing.

    The values are in the units of the data. Each entry of `numbers` contains a column, and the
    forms of the numerator and of the denominator of its line.
    """
    values = [
        column.midpoint * present + column.half_range * (2 * top - present)
        for column, top, present in numbers
    ]
    return _stacked(values, order), _stacked([present for _, _, present in numbers], order)


def _stacked(forms: list[Vector], order: int) -> Matrix:
    """Return forms as the columns of a matrix with `order` rows."""
    return np.reshape(forms, (len(forms), order)).T


def _roots(variances: Array) -> Array:
    """Return square roots, with 0 for negative variances."""
    return np.sqrt(np.maximum(variances, 0.0))


def _of_shares(value: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Return the standard deviations of indicators with these shares, and their intervals."""
    own, first, last = (_roots(one * (1 - one)) for one in (value, low, high))
    largest = np.where((low <= 0.5) & (high >= 0.5), 0.5, np.maximum(first, last))
    return own, np.minimum(first, last), largest
