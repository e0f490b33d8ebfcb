"""Simulated tables from public numbers, so that a plan can predict the error of a release.

The error of a release depends on the standard deviations and correlations of the columns. The
schema does not contain these numbers. You state them in `Assumptions`, from public knowledge and
never from the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

import numpy as np
from scipy.special import betaincinv

from dpcov.api.plans.rows_like import moments_like, rows_like
from dpcov.api.plans.simulated_rows import SimulatedRows
from dpcov.api.plans.typical_correlation import JITTER, typical_correlation
from dpcov.core.parameters import Interval, check
from dpcov.errors import ReleaseError, SchemaError
from dpcov.estimate import Estimate
from dpcov.published.pseudo_rows import MAX_VARIANCE_FRACTION, MIN_BOUND_DISTANCE
from dpcov.rows.moment import Lattice, SecondMoment
from dpcov.rows.schema import Categorical, Numeric, Schema

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.releases import Release

# Default standard deviation of a column, as a fraction of half the width of its bounds.
# Source: not recorded.
DEFAULT_SPREAD = 0.35
# Default root mean square correlation of two columns. Source: not recorded.
DEFAULT_CORRELATION = 0.25
# Default fraction of missing cells in a column with a missingness indicator. Source: not recorded.
DEFAULT_MISSING_SHARE = 0.05
# Largest and smallest number of simulated rows. Their moments represent any number of rows.
MAX_SIMULATED_ROWS, MIN_SIMULATED_ROWS = 20_000, 4_000
# Largest number of cells in a simulated table. The limit keeps a plan fast.
MAX_CELLS = 2 * 10**6
# Seed of the simulated table: the same public numbers always give the same plan.
TABLE_SEED = 20_250_101
# Number of rounds that fit the correlations of the normal scores to the assumptions.
FITTING_ROUNDS = 4
# Largest correlation and largest explained variance of the normal scores. Source: not recorded.
MAX_SCORE_CORRELATION, MAX_SCORE_EXPLAINED = 0.95, 0.999
# Smallest standard deviation or correlation that counts as different from 0.
MIN_VARIATION = 1e-9
# Largest simulated mean, as a fraction of the largest mean that the bounds allow beside the
# standard deviation. Source: not recorded.
MAX_MEAN_SHARE = 0.7
Related = Annotated[float, Interval(0, 1, "left")]
# Power of the power law of the category frequencies. Source: not recorded.
CATEGORY_POWER = 2.0


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Assumptions about a table for `plan`, from public knowledge.

    Parameters
    ----------
    spread : float, default 0.35
        Typical standard deviation of a numeric column, as a fraction of half the width of its
        bounds, above 0 and at most 1. A column that fills its bounds evenly has 0.58.

    spreads : mapping of str to float, optional
        Standard deviations of single columns, as fractions of half the width of their bounds.

    correlation : float, default 0.25
        Typical size (root mean square) of the correlation of two columns, at least 0 and below 1.

    like : Release, optional
        Release of a similar table, with all features of the schema. The plan then assumes the means
        and the covariance matrix of this release and ignores the other parameters.

    means : mapping of str to float, optional
        Means of single numeric columns, in the units of the data.

    explained : float, optional
        Fraction of the variance of a typical numeric column that the other columns explain (R^2),
        at least 0 and below 1. The default follows from `correlation`.

    See Also
    --------
    plan : Prediction of the error of a release from these assumptions.

    Notes
    -----
    Columns with a small standard deviation have the largest errors, so state their values in
    `spreads`. If most values of a column are near a bound, state the mean of the column.

    Numeric columns are simulated from beta distributions. The mean of a column differs from the
    midpoint of its bounds by the typical standard deviation, unless you state the mean. The
    frequencies of the categories are proportional to 1, 1/4, 1/9 and so on, in the order of the
    schema. A flag has two values, so its mean determines its standard deviation. Unless you state
    one of them, its rarer value has the frequency 1/5, as in a category with two levels.

    Examples
    --------
    >>> import dpcov
    >>> assumptions = dpcov.Assumptions(spread=0.3, means={"age": 40.0})
    >>> assumptions.typical_correlation
    0.25

    """

    spread: float = DEFAULT_SPREAD
    spreads: Mapping[str, float] = field(default_factory=dict)
    correlation: float = DEFAULT_CORRELATION
    like: Release | None = None
    means: Mapping[str, float] = field(default_factory=dict)
    explained: float | None = None

    def __post_init__(self) -> None:
        for name, value in {"spread": self.spread, **self.spreads}.items():
            if not 0 < value <= 1:
                raise SchemaError(
                    f"The standard deviation {name} = {value:g} must be above 0 and at most 1. "
                    "State it as a fraction of half the width of the bounds."
                )
        check("correlation", self.correlation, Related, SchemaError)
        check("explained", self.explained, Related | None, SchemaError)

    def check(self, schema: Schema) -> None:
        """Raise an error if the assumptions do not fit a schema.

        Parameters
        ----------
        schema : Schema
            Schema of the table.

        Raises
        ------
        SchemaError
            A column does not exist, is not numeric, or has a mean outside its bounds.

        ReleaseError
            The release of a similar table has no intercept.

        Examples
        --------
        >>> import dpcov
        >>> schema = dpcov.Schema.from_bounds(0, 120, ["age"])
        >>> dpcov.Assumptions(means={"age": 40.0}).check(schema)

        """
        for what, names in (("spread", self.spreads), ("mean", self.means)):
            for name in names:
                column = schema.encoded_columns.get(name)
                if column is None or isinstance(column, Categorical):
                    raise SchemaError(
                        f"The {what} of {name!r} is stated, but the schema has no numeric column "
                        "with this name. Choose a numeric column of the schema."
                    )
        for name, value in self.means.items():
            column = schema.encoded_columns[name]
            if isinstance(column, Numeric) and not column.lower <= value <= column.upper:
                raise SchemaError(
                    f"The mean of {name} is {value:g}, outside the bounds {column.lower:g} to "
                    f"{column.upper:g}. State a mean within the bounds."
                )
        if self.like is not None:
            if not self.like.has_intercept:
                raise ReleaseError(
                    "The release of a similar table has no intercept, so it contains no means. Use "
                    "a release with intercept = 0.3 in its schema."
                )
            missing = {f.name for f in schema.variables} - set(self.like.columns)
            if missing:
                raise SchemaError(
                    f"The release of a similar table has no feature {min(missing)!r}. Use a "
                    "release with all features of the schema."
                )

    @property
    def typical_correlation(self) -> float:
        """Root mean square of the assumed correlations.

        Examples
        --------
        >>> import dpcov
        >>> dpcov.Assumptions(correlation=0.4).typical_correlation
        0.4

        """
        if self.like is None or len(self.like.columns) < 2:
            return self.correlation
        related = self.like.correlation()[np.tril_indices(len(self.like.columns), -1)]
        return float(np.sqrt(np.mean(related**2)))


@dataclass(frozen=True, slots=True)
class SimulatedTable:
    """Simulated table that represents any number of rows.

    Attributes
    ----------
    schema : Schema
        Schema of the table.

    lattice : Lattice
        Quantised rows, with their bounds.

    mean : ndarray, shape (d, d)
        Second moment per row, in squared lattice steps.

    encoded : ndarray, shape (m, p)
        Simulated encoded rows.

    """

    schema: Schema
    lattice: Lattice
    mean: Matrix
    encoded: Matrix

    @classmethod
    def of(cls, schema: Schema, lattice: Lattice, assumptions: Assumptions) -> SimulatedTable:
        """Simulate a table that fits the assumptions."""
        assumptions.check(schema)
        if assumptions.like is None:
            encoded = simulated_rows(schema, assumptions)
        else:
            generator, count = (
                np.random.default_rng(TABLE_SEED),
                max(MIN_SIMULATED_ROWS, len(schema.features)),
            )
            encoded = rows_like(assumptions.like, schema, count, generator)
            if not schema.missing_columns:
                mean = _mean_of_moments(*moments_like(assumptions.like, schema), lattice)
                return cls(schema, lattice, mean, encoded)
            shares = Estimate.of(assumptions.like).missing_shares
            encoded = _with_missing(schema, encoded, shares, generator)
        return cls(schema, lattice, _mean_of_rows(encoded, lattice), encoded)

    def moment(self, rows: int) -> SecondMoment:
        """Return the second moment of a table with this number of rows."""
        whole = np.array([[round(float(x) * rows) for x in row] for row in self.mean], object)
        return SecondMoment(whole, self.lattice, -(-rows // self.lattice.unit.max_rows))

    def with_longer_tails(self) -> SimulatedTable:
        """Return the table with the heavy tails of a t distribution with 3 degrees of freedom.

        The method multiplies all deviations from the means in a row by one random factor with mean
        square 1. Values outside the bounds become the bounds.
        """
        features = enumerate(self.schema.features)
        numbers = [j for j, one in features if not self.schema.is_binary(one)]
        generator, encoded = np.random.default_rng(TABLE_SEED), self.encoded.copy()
        means, factors = encoded.mean(axis=0), generator.chisquare(3, (len(encoded), 1)) ** -0.5
        about = (encoded - means)[:, numbers] * factors
        encoded[:, numbers] = np.clip(means[numbers] + about, -1.0, 1.0)
        for at, indicator in self.schema.missing_columns.items():
            encoded[:, at] *= 1 - self.encoded[:, indicator]
        mean = _mean_of_rows(encoded, self.lattice)
        return SimulatedTable(self.schema, self.lattice, mean, encoded)

    def source(self, rows: int) -> SimulatedRows:
        """Return a data source that represents this number of rows."""
        return SimulatedRows(self.schema, self.encoded[:MIN_SIMULATED_ROWS], rows)


def _with_missing(
    schema: Schema, rows: Matrix, shares: Mapping[str, float], generator: np.random.Generator
) -> Matrix:
    """Add random missing cells to simulated rows.

    Parameters
    ----------
    schema : Schema
        Schema of the table.

    rows : ndarray, shape (m, q)
        Encoded values of the variables.

    shares : mapping of str to float
        Fraction of missing cells for each column.

    generator : numpy.random.Generator
        Source of random numbers.

    Returns
    -------
    ndarray, shape (m, p)
        Encoded rows with missingness indicators.

    """
    found = np.zeros((len(rows), len(schema.features)))
    found[:, [feature.variable for feature in schema.features]] = rows
    for at, indicator in schema.missing_columns.items():
        share = shares.get(schema.features[at].name, DEFAULT_MISSING_SHARE)
        found[:, indicator] = generator.random(len(rows)) < share
        found[:, at] *= 1 - found[:, indicator]
    return found


def _mean_of_rows(features: Matrix, lattice: Lattice) -> Matrix:
    """Return the second moment per clipped row, shape (d, d), in squared lattice steps."""
    lengths = np.linalg.norm(features, axis=1) / lattice.radius
    units = features / np.maximum(lengths, 1.0)[:, None] / lattice.step
    if lattice.intercept_units:
        units = np.column_stack([units, np.full(len(units), float(lattice.intercept_units))])
    return np.asarray(units.T @ units / len(units))


def _mean_of_moments(means: Matrix, covariance: Matrix, lattice: Lattice) -> Matrix:
    """Return the second moment per row from moments, shape (d, d), in squared lattice steps.

    The function assumes that no row exceeds the clipping radius.
    """
    whole = np.append(means / lattice.step, float(lattice.intercept_units))
    mean = np.outer(whole, whole)
    mean[:-1, :-1] += covariance / lattice.step**2
    return mean if lattice.intercept_units else mean[:-1, :-1]


def simulated_rows(schema: Schema, assumptions: Assumptions) -> Matrix:
    """Simulate encoded rows with a Gaussian copula.

    The columns have smaller correlations than the normal scores of the copula. The function
    therefore fits the correlations of the scores in `FITTING_ROUNDS` rounds.

    Parameters
    ----------
    schema : Schema
        Schema of the table.

    assumptions : Assumptions
        Assumptions about the table.

    Returns
    -------
    ndarray, shape (m, p)
        Encoded rows.

    """
    count = max(MIN_SIMULATED_ROWS, min(MAX_SIMULATED_ROWS, MAX_CELLS // len(schema.features)))
    laws = _laws(schema, assumptions)
    size, explained = assumptions.correlation, assumptions.explained or 0.0
    for _ in range(FITTING_ROUNDS):
        found = _relations(schema, _rows(schema, laws, size, explained, MIN_SIMULATED_ROWS))
        if found is None:
            break
        size = min(
            MAX_SCORE_CORRELATION, size * assumptions.correlation / max(found[0], MIN_VARIATION)
        )
        if assumptions.explained is not None:
            left = (1 - explained) * (1 - assumptions.explained) / max(1 - found[1], MIN_VARIATION)
            explained = min(max(1 - left, assumptions.explained), MAX_SCORE_EXPLAINED)
    return _rows(schema, laws, size, explained, count)


def _relations(schema: Schema, rows: Matrix) -> tuple[float, float] | None:
    """Measure the correlation and the explained variance of simulated rows.

    Returns
    -------
    correlation : float
        Root mean square correlation of two columns.

    explained : float
        Average fraction of the variance of a numeric column that the other columns explain.

    Notes
    -----
    The function returns None if fewer than two columns vary or if no numeric column varies.

    """
    features = schema.features
    values, numeric = [], []
    for name, column in schema.encoded_columns.items():
        at = [j for j, feature in enumerate(features) if feature.column == name]
        if isinstance(column, Categorical):
            # The score of a category is the middle of its range of probabilities.
            shares = rows[:, at].mean(axis=0)
            values.append(rows[:, at] @ (shares.cumsum() - shares / 2))
        else:
            values.append(rows[:, at[0]])
        numeric.append(not isinstance(column, Categorical))
    table = np.column_stack(values)
    varies = table.std(axis=0) > MIN_VARIATION
    numbers = np.array(numeric)[varies]
    if len(numbers) < 2 or not numbers.any():
        return None
    correlation: Matrix = np.asarray(np.corrcoef(table[:, varies], rowvar=False))
    related = correlation[np.tril_indices(len(numbers), -1)]
    alone = 1 / np.diag(np.linalg.inv(correlation + JITTER * np.eye(len(numbers))))
    return float(np.sqrt(np.mean(related**2))), float(1 - np.mean(alone[numbers]))


def _rows(
    schema: Schema, laws: Mapping[str, Matrix], size: float, explained: float, count: int
) -> Matrix:
    """Simulate encoded rows, shape (count, p).

    Parameters
    ----------
    schema : Schema
        Schema of the table.

    laws : mapping of str to ndarray
        Ascending quantiles of each numeric column.

    size : float
        Root mean square correlation of the normal scores.

    explained : float
        Fraction of the variance of a score that the other scores explain.

    count : int
        Number of rows.

    Returns
    -------
    ndarray, shape (count, p)
        Encoded rows.

    """
    generator = np.random.default_rng(TABLE_SEED)
    columns = schema.encoded_columns
    root = np.linalg.cholesky(typical_correlation(len(columns), size, generator, explained))
    scores = generator.standard_normal((count, len(columns))) @ root.T
    parts = []
    for at, (name, column) in enumerate(columns.items()):
        ranks = scores[:, at].argsort().argsort()
        if isinstance(column, Categorical):
            parts.append(_indicators((ranks + 0.5) / count, len(column.labels)))
            continue
        numbers = laws[name][ranks * MIN_SIMULATED_ROWS // count][:, None]
        if column.has_indicator:
            absent = generator.random((count, 1)) < DEFAULT_MISSING_SHARE
            parts.append(np.where(absent, 0.0, numbers))
            parts.append(absent.astype(np.float64))
        else:
            parts.append(numbers)
    return np.hstack(parts)


def _laws(schema: Schema, assumptions: Assumptions) -> dict[str, Matrix]:
    """Return ascending quantiles of each numeric column.

    The means alternate between the two sides of the midpoints. A flag has two values.
    """
    laws = {}
    for at, (name, column) in enumerate(schema.encoded_columns.items()):
        if isinstance(column, Categorical):
            continue
        side = 1 if at % 2 else -1
        if column.has_two_values and not schema.person_means:
            laws[name] = _two_values(_mean_of_flag(assumptions, name, column, side))
        else:
            laws[name] = _bounded(*_law(assumptions, name, column, side))
    return laws


def _mean_of_flag(assumptions: Assumptions, name: str, column: Numeric, side: int) -> float:
    """Return the mean of an encoded flag, or of another column with two values.

    Without a stated mean, it follows from a stated standard deviation. Without both, the flag has
    the frequencies of a category with two levels.
    """
    if name in assumptions.means:
        return (assumptions.means[name] - column.midpoint) / column.half_range
    if name in assumptions.spreads:
        return side * math.sqrt(1 - assumptions.spreads[name] ** 2)
    return side * (1 - 2 / (1 + 2**CATEGORY_POWER))


def _two_values(mean: float) -> Matrix:
    """Return ascending values -1 and 1 with about a given mean, shape (MIN_SIMULATED_ROWS,)."""
    ones = np.arange(MIN_SIMULATED_ROWS) >= round(MIN_SIMULATED_ROWS * (1 - mean) / 2)
    return np.where(ones, 1.0, -1.0)


def _law(assumptions: Assumptions, name: str, column: Numeric, side: int) -> tuple[float, float]:
    """Return the mean and the standard deviation of an encoded column, as the bounds allow.

    Unless the assumptions state a mean, the mean differs from the midpoint by the typical standard
    deviation. The argument `side` is the sign of the difference.
    """
    spread = assumptions.spreads.get(name, assumptions.spread)
    if name in assumptions.means:
        mean = (assumptions.means[name] - column.midpoint) / column.half_range
        mean = float(np.clip(mean, 2 * MIN_BOUND_DISTANCE - 1, 1 - 2 * MIN_BOUND_DISTANCE))
    else:
        mean = side * min(assumptions.spread, MAX_MEAN_SHARE * math.sqrt(1 - spread**2))
    return mean, min(spread, math.sqrt(MAX_VARIANCE_FRACTION * (1 - mean**2)))


@lru_cache(maxsize=64)
def _bounded(mean: float, spread: float) -> Matrix:
    """Return ascending quantiles of a beta distribution on [-1, 1], shape (MIN_SIMULATED_ROWS,)."""
    share = (1 + mean) / 2
    weight = (1 - mean**2) / spread**2 - 1
    chances = (np.arange(MIN_SIMULATED_ROWS) + 0.5) / MIN_SIMULATED_ROWS
    quantiles = betaincinv(share * weight, (1 - share) * weight, chances)
    return np.asarray(2 * quantiles - 1, np.float64)


def _indicators(chances: Matrix, count: int) -> Matrix:
    """Return indicators of categories, shape (m, count).

    The frequencies of the categories are proportional to 1, 1/4, 1/9 and so on.
    """
    shares = np.arange(1.0, count + 1) ** -CATEGORY_POWER
    ends = np.cumsum(shares / shares.sum())[:-1]
    return np.eye(count)[np.searchsorted(ends, chances)]
