"""Synthetic rows with the means and covariances of a release."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.copula import MAX_ERROR, Copula
from dpcov.analysis.declared import Option, command
from dpcov.core.parameters import Count, check
from dpcov.core.show.frames import csv_body
from dpcov.core.show.result import Result
from dpcov.denoise.structure import coherent_moments, positions_by_column
from dpcov.errors import ReleaseError
from dpcov.estimate import Estimate
from dpcov.releases.carried import stamped
from dpcov.rows.cells import values_of
from dpcov.rows.dates import SECOND
from dpcov.rows.schema import Categorical, Derived, Numeric, Schema
from dpcov.rows.written import OTHER_TEXT, TextFile

if TYPE_CHECKING:
    import pyarrow as pa

    from dpcov.core.arrays import Booleans, Matrix
    from dpcov.releases import Release

COPULA = "copula of synthetic rows"  # name in `Release.memory`
MIN_DRAWN_ROWS = 2000  # Smallest number of rows that are drawn.
MAX_NAMED_PAIRS = 5  # Largest number of pairs that the note names.
UNREACHED = (
    "Synthetic rows cannot have all released correlations. The correlations of these pairs "
    f"differ by more than {MAX_ERROR}: {{pairs}}."
)
ALTERED = (
    "In a CSV file, these categories begin with an apostrophe, because a spreadsheet could compute "
    "them: {levels}. dpcov reads them as undeclared, so write a .parquet file for dpcov."
)
# Step away from a missing-value code, in half-ranges, and the largest number of steps.
CODE_STEP, MAX_CODE_STEPS = 1e-9, 20
MAX_ROUNDING_ERROR = 1e-6  # Largest rounding error of a whole number.


def sample(release: Release, n: int, seed: int | None = None) -> pa.Table:
    """Draw synthetic rows with the means, variances and correlations of the release.

    Numbers, counts, flags and categories keep the released means and variances, apart from sampling
    errors. The correlations are approximately the released correlations.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    n : int
        Number of rows, at least 1.

    seed : int, optional
        Seed of the simulation. The default draws different rows every time. The seed does not
        affect the privacy, because the rows are computed from the release alone.

    Returns
    -------
    pyarrow.Table
        Table with the columns of the schema: numbers as float64, flags as Boolean values, dates as
        dates, and categories in the type of their levels. A missing value is null if `missing` is
        ``level``. A category is also null if a row has none of its indicators. A column with
        `missing` = ``pairwise`` has no nulls. A row of means of a person has one column of numbers
        for each variable. The metadata of the table contain the guarantee, and
        Parquet files keep the metadata.

    Raises
    ------
    NotReleasedError
        The release has no intercept, or holds the trace only.
    ReleaseError
        `n` is below 1.

    See Also
    --------
    dpcov.Release.mean : Private means.

    Notes
    -----
    A Gaussian copula joins the columns. Each column is a function of normal variables:

    - A number has a beta distribution on its bounds. If its variance is nearly as large as the
      bounds allow, the distribution also has point masses at the bounds.
    - A count or another whole number has a distribution on the whole numbers within its bounds.
    - A flag and a category have their released shares.

    The correlations of the normal variables are chosen such that the columns have the correlations
    of the release, with errors up to about 0.03. Two limits apply. Columns with very different
    distributions cannot have a correlation near 1 or -1. The correlation matrix of the normal
    variables must have no negative eigenvalue. ``dpcov sample`` lists the pairs that these limits
    affect.

    A flag with `missing` = ``midpoint`` has the released mean and no nulls, so its variance can be
    larger than the released variance. Derived columns are computed from their parents, so their
    means follow from the moments of the parents. If the levels of a column are not texts,
    undeclared levels are null. No number is a missing-value code.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> dpcov.sample(release, 100, seed=0).shape
    (100, 2)

    """
    return _sampled(release, n, seed)[0]


def _sampled(
    release: Release, n: int, seed: int | None
) -> tuple[pa.Table, dict[str, Booleans] | None]:
    """Return synthetic rows, and True for each undeclared category, by column.

    The second result is None if the columns of the rows are not the columns of the schema.
    """
    check("n", n, Count, ReleaseError)
    Estimate.required(release)
    generator = np.random.default_rng(seed)
    # Ranks among few rows cannot show a dependence, so at least MIN_DRAWN_ROWS are drawn.
    rows = _copula(release).draw(max(n, MIN_DRAWN_ROWS), len(release.columns), generator)[:n]
    schema = release.schema
    if schema.person_means:
        return stamped(release, _mean_table(schema, rows)), None
    return stamped(release, _table(schema, rows, generator)), _undeclared(schema, rows)


@dataclass(frozen=True, slots=True)
class Rows(Result):
    """Synthetic rows as a result that prints only its cells."""

    rows: pa.Table
    unreached: tuple[tuple[str, str], ...]
    file: TextFile | None  # None if the columns are not the columns of the schema
    has_sentences = False

    def notes(self) -> list[str]:
        altered = () if self.file is None else self.file.altered
        notes = [ALTERED.format(levels=", ".join(altered))] if altered else []
        if not self.unreached:
            return notes
        pairs = [f"{a} and {b}" for a, b in self.unreached[:MAX_NAMED_PAIRS]]
        left = len(self.unreached) - len(pairs)
        more = [f"{left} more pairs"] if left > 0 else []
        return [*notes, UNREACHED.format(pairs="; ".join(pairs + more))]

    def arrow(self) -> pa.Table:
        return self.rows

    def csv(self) -> str:
        return csv_body(self.rows) if self.file is None else self.file.text()

    def text_file(self) -> TextFile | None:
        return self.file

    def document(self) -> dict[str, Any]:
        rows = self.rows.to_pylist()
        return {"rows": [{name: _plain(cell) for name, cell in row.items()} for row in rows]}


@command(
    "sample",
    "Draw synthetic rows with the means, variances and about the correlations of a release.",
    "-n 5",
    n=Option("-n", "Number of rows.", int),
    seed=Option("--seed", "For the same rows every time.", int),
)
def rows(release: Release, n: int, seed: int | None = None) -> Rows:
    """Draw synthetic rows for the command `dpcov sample`.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    n : int
        Number of rows.

    seed : int, optional
        Seed of the simulation.

    Returns
    -------
    Rows
        Synthetic rows.

    """
    (drawn, others), names = _sampled(release, n, seed), release.columns
    file = None if others is None else TextFile.of(release.schema, drawn, others)
    unreached = tuple((names[a], names[b]) for a, b in _copula(release).unreached)
    return Rows(drawn, unreached, file)


def _copula(release: Release) -> Copula:
    """Return the copula of a release, which is computed once."""
    if COPULA not in release.memory:
        schema, estimate = release.schema, Estimate.of(release)
        mean, covariance = estimate.encoded, estimate.covariance
        if release.denoise == "none":
            mean, covariance = coherent_moments(schema, mean, covariance, np.ones(len(mean)))
        if schema.person_means:
            scale = 1.0 + np.array([one.is_indicator for one in schema.variables])
            mean, covariance = scale * mean - (scale - 1), covariance * np.outer(scale, scale)
            schema = _numbers_only(schema)
        release.memory[COPULA] = Copula.of(schema, _drawn(schema), mean, covariance)
    found: Copula = release.memory[COPULA]
    return found


def _numbers_only(schema: Schema) -> Schema:
    """Return a schema of means of persons, in which each variable is a column of numbers."""
    columns = {
        one.name: {
            "kind": "number",
            "lower": 0.0 if one.is_indicator else one.center - one.scale,
            "upper": 1.0 if one.is_indicator else one.center + one.scale,
            "missing": "none",
        }
        for one in schema.variables
    }
    return Schema.parse({"version": 3, "columns": columns})


def _mean_table(schema: Schema, rows: Matrix) -> pa.Table:
    """Convert (m, p) drawn numbers to a table of means: one column for each variable.

    The fractions of the levels of a column add up to at most 1, as in the release.
    """
    import pyarrow as pa

    values = rows.copy()
    for j, one in enumerate(schema.variables):
        values[:, j] = (
            (1 + rows[:, j]) / 2 if one.is_indicator else one.center + one.scale * rows[:, j]
        )
    for column, at in positions_by_column(schema):
        if isinstance(column, Categorical):
            total = values[:, at].sum(axis=1, keepdims=True)
            divisor = total if column.is_full else np.maximum(total, 1.0)
            values[:, at] /= np.maximum(divisor, sys.float_info.min)
    return pa.table([*values.T], [one.name for one in schema.variables])


def _drawn(schema: Schema) -> list[str]:
    """Return the names of the columns that are not computed from other columns."""
    return [name for name, one in schema.encoded_columns.items() if not isinstance(one, Derived)]


def _table(schema: Schema, rows: Matrix, generator: np.random.Generator) -> pa.Table:
    """Convert (m, p) encoded rows to a table, and compute its derived columns."""
    import pyarrow as pa

    places = _places(schema)
    values: dict[str, Matrix] = {}
    arrays: dict[str, pa.Array] = {}
    for name, column in schema.encoded_columns.items():
        own = rows[:, places[name]]
        if isinstance(column, Categorical):
            arrays[name] = _levels(column, own)
            continue
        if isinstance(column, Derived):
            values[name] = column.formula.of(*(values[one] for one in column.formula.parents))
        else:
            values[name] = _numbers(column, own, generator, schema.missing)
        arrays[name] = _cells(column, values[name])
    return pa.table(arrays)


def _places(schema: Schema) -> dict[str, list[int]]:
    """Return the positions of each column in an encoded row."""
    places: dict[str, list[int]] = {}
    for position, feature in enumerate(schema.variables):
        places.setdefault(feature.column, []).append(position)
    return places


def _undeclared(schema: Schema, rows: Matrix) -> dict[str, Booleans]:
    """Return True for each drawn category that is not declared, by column.

    A text file can distinguish these cells from missing cells. A table cannot always do so.
    """
    found: dict[str, Booleans] = {}
    for name, at in _places(schema).items():
        column = schema.encoded_columns[name]
        if isinstance(column, Categorical) and (column.other or column.missing == "level"):
            own = rows[:, at]
            found[name] = np.zeros(len(own), bool)
            if column.other:
                found[name] |= own[:, len(column.levels)] > 0
            if column.missing == "level":
                found[name] |= ~own.any(axis=1)
    return found


def _numbers(
    column: Numeric, encoded: Matrix, generator: np.random.Generator, missing: tuple[str, ...]
) -> Matrix:
    """Convert encoded features, shape (m, 1) or (m, 2), to values with NaN for missing cells."""
    numbers = column.midpoint + column.half_range * encoded[:, 0]
    if column.reading in ("whole", "flag", "day"):
        nearest = np.rint(numbers)
        # A column with very many whole numbers has a distribution that is not whole.
        exact = np.abs(numbers - nearest) < MAX_ROUNDING_ERROR
        numbers = np.where(exact, nearest, np.floor(numbers + generator.random(len(numbers))))
    numbers = _unlike_codes(column, np.clip(numbers, *_ends(column)), missing)
    if encoded.shape[1] > 1:
        numbers = np.where(encoded[:, 1] > 0, np.nan, numbers)
    return numbers


def _ends(column: Numeric) -> tuple[float, float]:
    """Return the least and the largest number of a column: whole numbers if its kind is whole."""
    ends = float(np.ceil(column.lower)), float(np.floor(column.upper))
    is_whole = column.reading in ("whole", "day") and ends[0] <= ends[1]
    return ends if is_whole else (column.lower, column.upper)


def _unlike_codes(column: Numeric, numbers: Matrix, missing: tuple[str, ...]) -> Matrix:
    """Move numbers that dpcov would read as missing towards the midpoint of the bounds.

    Such a number is a missing-value code within the bounds.
    """
    if column.reading == "flag":
        return numbers
    step = CODE_STEP * column.half_range if column.reading == "number" else 1.0
    steps = np.where(numbers > column.midpoint, -step, step)
    for _ in range(MAX_CODE_STEPS):
        is_code = np.isnan(values_of(_cells(column, numbers), column, missing))
        if not is_code.any():
            break
        numbers = np.where(is_code, numbers + steps, numbers)
    return numbers


def _cells(column: Numeric, values: Matrix) -> pa.Array:
    """Convert numbers to the cells of a column of its kind."""
    import pyarrow as pa

    gone = np.isnan(values)
    values = np.where(gone, column.midpoint, values)
    match column.reading:
        case "flag":
            return pa.array(values > 0, mask=gone)
        case "day":
            return pa.array(np.rint(values).astype("datetime64[D]"), mask=gone)
        case "second":
            return pa.array(np.rint(values * SECOND).astype("datetime64[us]"), mask=gone)
    return pa.array(values, mask=gone)


def _plain(cell: Any) -> Any:
    """Convert a cell to its form in JSON."""
    return cell.isoformat() if isinstance(cell, date) else cell


def _levels(column: Categorical, indicators: Matrix) -> pa.Array:
    """Convert (m, k) indicators to the cells of a categorical column."""
    import pyarrow as pa

    texts = any(isinstance(level, str) for level in column.levels)
    cells = [str(level) if texts else level for level in column.levels]
    values: list[bool | int | float | str | None] = list(cells)
    if column.other:
        values.append(OTHER_TEXT if texts else None)
    if column.missing == "level":
        values.append(None)
    values.append(None)  # a row without an indicator
    drawn = np.where(indicators.any(axis=1), indicators.argmax(axis=1), len(values) - 1)
    return pa.array(values).take(pa.array(drawn))
