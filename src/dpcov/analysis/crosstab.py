"""Contingency table of two columns: counts, shares and Cramer's V, with intervals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.column_parts import (
    Columns,
    Ends,
    Parts,
    Ratio,
    count_interval,
    deviations_of,
    grouping,
    joint_errors,
)
from dpcov.analysis.declared import Option, command
from dpcov.analysis.intervals import (
    CONFIDENCE_LEVEL,
    FLAG_TEXT,
    below_noise,
    titled,
    too_uncertain,
)
from dpcov.analysis.persons import refuse_means
from dpcov.analysis.table_texts import (
    FLAG_SIGN,
    cautions,
    covering,
    covers_of,
    flag_note,
    with_ends,
)
from dpcov.core.entropy import reading_generator
from dpcov.core.parameters import Probability, check
from dpcov.core.show.frames import table_frame
from dpcov.core.show.result import OMITTED_FIELD, Result
from dpcov.core.show.table import Cell, Row, Table
from dpcov.errors import ReleaseError
from dpcov.estimate import Estimate, dependent
from dpcov.estimate.shares import OTHER_LABEL
from dpcov.published import record

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Booleans, Matrix, Vector
    from dpcov.core.show.frames import Library
    from dpcov.releases import Release

TOTAL_HEAD = "total"
# Number of bisection steps for Cramer's V, which is then correct to 2^-30.
BISECTIONS = 30
SAMPLING_SEED = 20_261_127  # Seed of the sampling errors, separate from the draws of the noise.


@dataclass(frozen=True, slots=True)
class Crosstab(Result):
    """Contingency table of two columns.

    The table has k rows and l columns. Attributes whose names end in ``lower`` or ``upper`` contain
    the ends of the intervals.

    Attributes
    ----------
    rows_of, columns_of : str
        Names of the two columns.

    row_labels, column_labels : tuple of str
        Levels in the rows and in the columns.

    counts, lower, upper : ndarray, shape (k, l)
        Numbers of rows with both levels, or sums of weights for a table with survey weights.

    row_totals, row_totals_lower, row_totals_upper : ndarray, shape (k,)
        Sums of the counts in the rows.

    column_totals, column_totals_lower, column_totals_upper : ndarray, shape (l,)
        Sums of the counts in the columns.

    total : float
        Sum of all counts.

    row_shares, row_shares_lower, row_shares_upper : ndarray, shape (k, l)
        Counts divided by the sums of their rows. NaN if a level does not occur.

    column_shares, column_shares_lower, column_shares_upper : ndarray, shape (k, l)
        Counts divided by the sums of their columns.

    below_noise, row_shares_below_noise, column_shares_below_noise : ndarray of bool or None
        True for a figure below the noise level, shape (k, l).

    cramers_v, cramers_v_lower, cramers_v_upper : float
        Cramer's V with its interval. NaN if fewer than two levels of a column are above the noise
        level.

    cramers_v_below_noise : bool or None
        True if the 95% interval of Cramer's V for the privacy noise alone contains 0.

    level : float
        Nominal coverage of each interval.

    covers : str or None
        What the intervals cover, or None without intervals.

    sentences : tuple of str
        Sentences below the tables.

    dependent : str
        Sentence about persons with several rows, or an empty string.

    See Also
    --------
    dpcov.crosstab : Compute the table.

    Examples
    --------
    >>> import dpcov
    >>> import pyarrow as pa
    >>> table = pa.table({"sex": ["f", "m"] * 4000, "site": ["a", "a", "b", "a"] * 2000})
    >>> sex = {"kind": "categorical", "levels": ["f", "m"]}
    >>> site = {"kind": "categorical", "levels": ["a", "b"]}
    >>> schema = dpcov.Schema.parse({"columns": {"sex": sex, "site": site}})
    >>> release = dpcov.release(table, schema=schema, epsilon=10.0)
    >>> dpcov.crosstab(release, "sex", "site").row_labels[:2]
    ('f', 'm')

    """

    rows_of: str
    columns_of: str
    row_labels: tuple[str, ...]
    column_labels: tuple[str, ...]
    counts: Matrix
    lower: Matrix
    upper: Matrix
    row_totals: Vector
    row_totals_lower: Vector
    row_totals_upper: Vector
    column_totals: Vector
    column_totals_lower: Vector
    column_totals_upper: Vector
    total: float
    row_shares: Matrix
    row_shares_lower: Matrix
    row_shares_upper: Matrix
    column_shares: Matrix
    column_shares_lower: Matrix
    column_shares_upper: Matrix
    below_noise: Booleans | None
    row_shares_below_noise: Booleans | None
    column_shares_below_noise: Booleans | None
    cramers_v: float
    cramers_v_lower: float
    cramers_v_upper: float
    cramers_v_below_noise: bool | None
    level: float
    covers: str | None
    sentences: tuple[str, ...] = field(default=(), metadata=OMITTED_FIELD, repr=False)
    dependent: str = field(default="", metadata=OMITTED_FIELD, repr=False)

    def to_frame(self, library: Library = "pandas") -> Any:
        """Return the counts as a data frame.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, default "pandas"
            Library of the data frame.

        Returns
        -------
        DataFrame or pyarrow.Table
            Frame with one row and one column for each level.

        Examples
        --------
        >>> import dpcov
        >>> import pyarrow as pa
        >>> table = pa.table({"sex": ["f", "m"] * 4000, "site": ["a", "a", "b", "a"] * 2000})
        >>> sex = {"kind": "categorical", "levels": ["f", "m"]}
        >>> site = {"kind": "categorical", "levels": ["a", "b"]}
        >>> schema = dpcov.Schema.parse({"columns": {"sex": sex, "site": site}})
        >>> release = dpcov.release(table, schema=schema, epsilon=10.0)
        >>> dpcov.crosstab(release, "sex", "site").to_frame().columns[:2].tolist()
        ['a', 'b']

        """
        rows = list(zip(self.row_labels, self.counts.tolist(), strict=True))
        return table_frame(Table((self.rows_of, *self.column_labels), rows), library)

    def tables(self) -> list[Table]:
        heads = (f"{self.rows_of} / {self.columns_of}", *self.column_labels)
        title = titled(f"{self.rows_of} by {self.columns_of}", self.dependent)
        totals = self._texts((self.row_totals, self.row_totals_lower, self.row_totals_upper), None)
        counts = self._rows((self.counts, self.lower, self.upper), self.below_noise)
        counts = [
            (name, [*cells, total]) for (name, cells), total in zip(counts, totals, strict=True)
        ]
        columns = (self.column_totals, self.column_totals_lower, self.column_totals_upper)
        counts.append((TOTAL_HEAD, [*self._texts(columns, None), f"{self.total:.0f}"]))
        by_row = (self.row_shares, self.row_shares_lower, self.row_shares_upper)
        by_column = (self.column_shares, self.column_shares_lower, self.column_shares_upper)
        below = self.row_shares_below_noise, self.column_shares_below_noise
        return [
            Table((*heads, TOTAL_HEAD), counts, title),
            Table(heads, self._rows(by_row, below[0], ".3f"), "Shares of the rows"),
            Table(
                heads,
                self._rows(by_column, below[1], ".3f"),
                "Shares of the columns",
                notes=self._notes(),
            ),
        ]

    def _rows(
        self, figures: tuple[Matrix, Matrix, Matrix], below: Booleans | None, form: str = ".0f"
    ) -> list[Row]:
        """Return the rows of a table of figures with their intervals."""
        return [
            (
                name,
                self._texts(
                    [one[at] for one in figures], None if below is None else below[at], form
                ),
            )
            for at, name in enumerate(self.row_labels)
        ]

    def _texts(self, figures: Any, below: Booleans | None, form: str = ".0f") -> list[Cell]:
        """Return figures with their intervals as texts."""
        flags = [False] * len(figures[0]) if below is None else below.tolist()
        cells: list[Cell] = []
        for value, low, high, flagged in zip(*figures, flags, strict=True):
            text = "-" if np.isnan(value) else format(value, form) + FLAG_SIGN * flagged
            cells.append(with_ends(text, format(low, form), format(high, form), self.covers))
        return cells

    def _notes(self) -> tuple[str, ...]:
        """Return the sentences below the tables."""
        flags = (self.below_noise, self.row_shares_below_noise, self.column_shares_below_noise)
        coverage = covering(self.covers, self.level)
        return (self._of_v(), *coverage, *flag_note(*flags), *self.sentences)

    def _of_v(self) -> str:
        """Return a sentence about Cramer's V."""
        if np.isnan(self.cramers_v):
            return (
                "Cramer's V is unknown, because fewer than two levels of a column rise above the "
                "noise."
            )
        ends = f"{self.cramers_v_lower:.3f}", f"{self.cramers_v_upper:.3f}"
        stated = with_ends(f"{self.cramers_v:.3f}", *ends, self.covers)
        flag = f" It is {FLAG_TEXT}." * bool(self.cramers_v_below_noise)
        return f"Cramer's V: {stated}.{flag}"

    def data(self) -> Table:
        figures = {
            "count": (self.counts, self.lower, self.upper),
            "row share": (self.row_shares, self.row_shares_lower, self.row_shares_upper),
            "column share": (
                self.column_shares,
                self.column_shares_lower,
                self.column_shares_upper,
            ),
        }
        heads: list[str] = [self.rows_of]
        columns: list[Array] = []
        for at, label in enumerate(self.column_labels):
            for name, ends in figures.items():
                heads += [f"{name} {label}", f"{name} lower {label}", f"{name} upper {label}"]
                columns += [one[:, at] for one in ends]
        rows = [
            (name, [column[at].item() for column in columns])
            for at, name in enumerate(self.row_labels)
        ]
        return Table(tuple(heads), rows)


@command(
    "crosstab",
    "Print the contingency table of two columns, which are categories or flags.",
    "sex smoker",
    a=Option("A", "Column of the rows.", completes="groupings"),
    b=Option("B", "Column of the columns.", completes="groupings"),
)
def crosstab(
    release: Release,
    a: str,
    b: str,
    *,
    level: float = CONFIDENCE_LEVEL,
    sampling: bool = True,
    generator: np.random.Generator | None = None,
) -> Crosstab:
    """Compute the contingency table of two columns, with shares and Cramer's V.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    a, b : str
        Names of two different columns of the release, which are categories or flags.

    level : float, default 0.95
        Nominal coverage of each interval, between 0 and 1.

    sampling : bool, default True
        Include the sampling error. Otherwise, the intervals cover the privacy noise only.

    generator : numpy.random.Generator, optional
        Random numbers for the simulation of the noise. The default gives the same result every
        time.

    Returns
    -------
    Crosstab
        Counts, shares and Cramer's V with intervals.

    Raises
    ------
    NotReleasedError
        The release has no intercept, or holds the trace only.
    ReleaseError
        A column is not a category or a flag of the release, or both columns are the same.

    See Also
    --------
    dpcov.table1 : Counts, means and shares by group.

    Notes
    -----
    The table is the nearest table with entries of at least 0 and the released counts of both
    columns. Cells without a level are in the row or column ``(other or missing)``. If their number
    is below the noise level, the table leaves them out. If the rule for missing cells is
    ``pairwise``, the table contains only the rows that have both columns.

    The intervals of counts and shares combine the simulated noise with the binomial sampling error
    (Wilson 1927, Fieller 1954).

    Noise makes the usual Cramer's V of a table too large. dpcov therefore simulates tables for each
    possible true V. It reports the true V for which the observed V is the median of the simulated
    values. The ends of the 95% interval are the true V for which the observed V is the 97.5% or
    2.5% quantile. Without noise, this is the interval of Steiger and Fouladi (1997), by simulation.
    V leaves out levels whose counts are below the noise level.

    Examples
    --------
    >>> import dpcov
    >>> import pyarrow as pa
    >>> table = pa.table({"sex": ["f", "m"] * 4000, "site": ["a", "a", "b", "a"] * 2000})
    >>> sex = {"kind": "categorical", "levels": ["f", "m"]}
    >>> site = {"kind": "categorical", "levels": ["a", "b"]}
    >>> schema = dpcov.Schema.parse({"columns": {"sex": sex, "site": site}})
    >>> release = dpcov.release(table, schema=schema, epsilon=10.0)
    >>> found = dpcov.crosstab(release, "sex", "site")
    >>> bool(abs(found.counts[0, 0] - 2000) < 100)
    True

    """
    check("level", level, Probability, ReleaseError)
    record.refuse(release.not_released)
    refuse_means(release, "A contingency table")
    Estimate.required(release)
    if a == b:
        raise ReleaseError(f"Both columns are {a!r}. Choose two different columns.")
    covers, columns, errors = covers_of(release, sampling=sampling), Columns(release), None
    first, second = (grouping(columns, name) for name in (a, b))
    if covers is not None:
        errors = joint_errors(release, first.forms, second.forms, reading_generator(generator))
        first, second, errors = _without_hidden_others(columns, first, second, errors)
    counts = columns.joint_counts(first, second)
    cells = _Cells(counts, errors, level, sampling)
    unit = columns.row_weight
    by_row, by_column = cells.shares(1), cells.shares(0)
    own, of_rows, of_columns = (cells.counts(axes) for axes in ((), (1,), (0,)))
    v, v_below = cells.cramers_v()
    return Crosstab(
        rows_of=a,
        columns_of=b,
        row_labels=first.labels,
        column_labels=second.labels,
        **own[0].named("counts", "lower", "upper", unit),
        **of_rows[0].named("row_totals", "row_totals_lower", "row_totals_upper", unit),
        **of_columns[0].named("column_totals", "column_totals_lower", "column_totals_upper", unit),
        total=unit * float(counts.sum()),
        **by_row[0].named("row_shares", "row_shares_lower", "row_shares_upper"),
        **by_column[0].named("column_shares", "column_shares_lower", "column_shares_upper"),
        below_noise=own[1],
        row_shares_below_noise=by_row[1],
        column_shares_below_noise=by_column[1],
        cramers_v=v[0],
        cramers_v_lower=v[1],
        cramers_v_upper=v[2],
        cramers_v_below_noise=v_below,
        level=level,
        covers=covers,
        sentences=cautions(release, (a, b)),
        dependent=dependent(release, sampling=covers is not None and sampling),
    )


def _without_hidden_others(
    columns: Columns, first: Parts, second: Parts, errors: Array
) -> tuple[Parts, Parts, Array]:
    """Leave out the cells without a level if their number is below the noise level."""
    counts = columns.joint_counts(first, second)
    hides_first, hides_second = (_hidden_levels(counts, errors, axis)[-1] for axis in (0, 1))
    if first.labels[-1] == OTHER_LABEL and hides_first:
        first, errors = first.without_other(), errors[:, :-1]
    if second.labels[-1] == OTHER_LABEL and hides_second:
        second, errors = second.without_other(), errors[:, :, :-1]
    return first, second, errors


def _hidden_levels(counts: Matrix, errors: Array, axis: int) -> Booleans:
    """Flag the levels of the rows (axis 0) or columns (axis 1) below the noise level."""
    noise = deviations_of(errors.sum(axis=2 - axis))
    return below_noise(counts.sum(axis=1 - axis), noise)


class _Cells:
    """Counts of a contingency table, with the simulated errors of their noise.

    Parameters
    ----------
    counts : ndarray, shape (k, l)
        Coherent counts.

    errors : ndarray, shape (b, k, l), or None
        Simulated errors of the counts. None if the noise distribution is unknown.

    level : float
        Nominal coverage of each interval.

    sampling : bool
        Include the sampling error.

    """

    def __init__(self, counts: Matrix, errors: Array | None, level: float, sampling: bool) -> None:
        self._counts, self._errors = counts, errors
        self._level, self._sampling = level, sampling

    def counts(self, axes: tuple[int, ...]) -> tuple[Ends, Booleans | None]:
        """Return the sums of the counts over some axes with their intervals, and flags."""
        counts = self._counts.sum(axis=axes)
        if self._errors is None:
            return Ends.around(counts, None), None
        variances = np.mean(self._errors.sum(axis=tuple(1 + at for at in axes)) ** 2, axis=0)
        total = float(self._counts.sum())
        ends = count_interval(counts, variances, total, self._level, sampling=self._sampling)
        return Ends.around(counts, ends), too_uncertain(np.sqrt(variances), counts)

    def shares(self, axis: int) -> tuple[Ends, Booleans | None]:
        """Return the counts divided by their sums over an axis with intervals, and flags."""
        errors = np.zeros((1, *self._counts.shape)) if self._errors is None else self._errors
        totals = self._counts.sum(axis=axis, keepdims=True)
        of_totals = errors.sum(axis=1 + axis, keepdims=True)
        ratio = Ratio.of(self._counts, totals, errors, of_totals)
        if self._errors is None:
            return Ends.around(ratio.value, None), None
        ends = ratio.interval(self._level, sampling=self._sampling)
        return Ends.around(ratio.value, ends), too_uncertain(ratio.noise, 1.0)

    def cramers_v(self) -> tuple[tuple[float, float, float], bool | None]:
        """Return Cramer's V with its interval, and whether it is below the noise level.

        Levels whose counts are below the noise level are left out.
        """
        counts, errors = self._without_hidden_levels()
        if min(counts.shape) < 2:
            return (np.nan, np.nan, np.nan), None
        largest = np.sqrt(min(counts.shape) - 1)
        phi = _residuals(counts)
        plain = float(np.linalg.norm(phi))
        if errors is None:
            return (plain / largest, np.nan, np.nan), None
        noise = _residual_errors(counts, errors)
        value = _norm_at(phi, noise, 0.5, largest)
        with_sampling = noise
        if self._sampling:
            with_sampling = noise + _residual_errors(counts, _sampling_errors(counts, len(noise)))
        tail = (1 - self._level) / 2
        low = _norm_at(phi, with_sampling, 1 - tail, largest)
        high = _norm_at(phi, with_sampling, tail, largest)
        below = _norm_at(phi, noise, (1 + CONFIDENCE_LEVEL) / 2, largest) == 0
        return (value / largest, min(low, value) / largest, max(high, value) / largest), below

    def _without_hidden_levels(self) -> tuple[Matrix, Array | None]:
        """Return the counts and errors of the levels whose counts are above the noise level."""
        counts, errors = self._counts, self._errors
        for axis in (0, 1):
            kept = counts.sum(axis=1 - axis) > 0
            if errors is not None:
                kept &= ~_hidden_levels(counts, errors, axis)
                errors = np.compress(kept, errors, axis=1 + axis)
            counts = np.compress(kept, counts, axis=axis)
        return counts, errors


def _residuals(counts: Matrix) -> Matrix:
    """Return the matrix (p_ij - p_i p_j) / sqrt(p_i p_j) of the shares p.

    Its squared norm is the chi-square statistic divided by the number of rows.
    """
    shares = counts / counts.sum()
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    expected = np.outer(rows, columns)
    return np.asarray((shares - expected) / np.sqrt(expected))


def _residual_errors(counts: Matrix, errors: Array) -> Array:
    """Return the first-order errors of `_residuals` from errors of the counts, shape (b, k, l)."""
    total = counts.sum()
    shares, phi = counts / total, _residuals(counts)
    rows, columns = shares.sum(axis=1)[:, None], shares.sum(axis=0)
    changes = (errors - shares * errors.sum(axis=(1, 2), keepdims=True)) / total
    of_rows, of_columns = changes.sum(axis=2, keepdims=True), changes.sum(axis=1, keepdims=True)
    plain = (changes - of_rows * columns - rows * of_columns) / np.sqrt(rows * columns)
    return np.asarray(plain - phi / 2 * (of_rows / rows + of_columns / columns))


def _sampling_errors(counts: Matrix, draws: int) -> Array:
    """Simulate multinomial sampling errors of the counts, shape (draws, k, l)."""
    normals = np.random.default_rng(SAMPLING_SEED).standard_normal((draws, *counts.shape))
    errors = np.sqrt(counts) * normals
    return errors - counts / counts.sum() * errors.sum(axis=(1, 2), keepdims=True)


def _norm_at(phi: Matrix, errors: Array, quantile: float, largest: float) -> float:
    """Find the norm of the true residuals for which the observed norm is the given quantile.

    The simulated residuals are the true residuals plus simulated errors. The function assumes that
    the true residuals are a multiple of the observed residuals.

    Parameters
    ----------
    phi : ndarray, shape (k, l)
        Observed residuals.

    errors : ndarray, shape (b, k, l)
        Simulated errors.

    quantile : float
        Quantile of the simulated norms, between 0 and 1.

    largest : float
        Largest possible norm.

    Returns
    -------
    float
        Norm of the true residuals. It is 0 if the observed norm is below this quantile even for
        independent columns.

    """
    observed = float(np.linalg.norm(phi))
    along = (
        np.einsum("ij,bij->b", phi, errors) / observed if observed > 0 else np.zeros(len(errors))
    )
    squares = np.sum(errors**2, axis=(1, 2))
    low, high = 0.0, largest
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        norms = np.sqrt(np.maximum(middle**2 + 2 * middle * along + squares, 0.0))
        if np.quantile(norms, quantile) < observed:
            low = middle
        else:
            high = middle
    return low
