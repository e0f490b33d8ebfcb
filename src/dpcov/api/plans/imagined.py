"""A table that might be: made from public numbers, so that releases can be tried before any is.

What a release loses depends on how much the columns vary within their bounds and on how correlated
they are, which the schema does not say. A `Guess` says it: one of a person, never of the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

import numpy as np
from scipy.special import betaincinv

from dpcov.analysis.pseudo_rows import EDGE, MOST_OF_THE_VARIANCE
from dpcov.api.plans.rehearsal import ImaginedRows
from dpcov.api.plans.rows_like import moments_like, rows_like
from dpcov.api.plans.typical_correlation import JITTER, typical_correlation
from dpcov.core.parameters import Interval, check
from dpcov.errors import ReleaseError, SchemaError
from dpcov.releases.pairwise import has_gaps, missing_shares
from dpcov.rows.moment import Lattice, SecondMoment
from dpcov.rows.schema import Categorical, Numeric, Schema

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.releases import Release

SPREAD = 0.35
CORRELATION = 0.25
ABSENT = 0.05  # share of missing values where they have an indicator
SAMPLE = 20_000  # rows that are drawn; their moments stand for those of any number of rows
FEWEST = 4_000
NUMBERS = 2 * 10**6
SEED = 20_250_101  # of the imagined table: the same public numbers give the same plan
ROUNDS = 4  # in which the scores' relations are fitted to those of the columns
MOST_RELATED, MOST_EXPLAINED = 0.95, 0.999  # of the scores
TINY = 1e-9
ROOM = 0.7  # share of what the bounds allow a mean, beside its spread
Related = Annotated[float, Interval(0, 1, "left")]
RARER = 2.0  # power by which the shares of levels fall


@dataclass(frozen=True, slots=True)
class Guess:
    """What a person supposes about a table, from public knowledge.

    Attributes
    ----------
    spread : typical standard deviation of a numeric column, as a share of half the width of its
        bounds. 0.58 is a column that fills its bounds evenly; the default is 0.35, bounds nearly
        three standard deviations from their midpoint.
    spreads : the same for single columns.
    correlation : typical size (root mean square) of the correlation of two columns, in [0, 1); of
        levels, with the scores that make it largest.
    like : a release of a table of the same kind (last year's, another country's, a public one),
        with the features of the schema: its means and covariance are supposed, in place of all
        else.
    means : means of single columns, in their own units, such as a mean age of 40, or 0.02
        for a column of 0s and 1s that holds few 1s.
    explained : share of the variance of a typical numeric column that all other columns explain
        (R^2), in [0, 1); default, what follows from `correlation`.

    Where columns differ much in their spread, give those of the narrow ones, which have the largest
    errors; where values crowd near a bound, their mean, which tells how far the others lie from
    it. Numeric columns are supposed to have beta laws, with means the typical spread off their
    midpoints unless they are given, and levels of a categorical column to be the rarer the later
    they are declared (shares in proportion to 1, 1/4, 1/9, ...).
    """

    spread: float = SPREAD
    spreads: Mapping[str, float] = field(default_factory=dict)
    correlation: float = CORRELATION
    like: Release | None = None
    means: Mapping[str, float] = field(default_factory=dict)
    explained: float | None = None

    def __post_init__(self) -> None:
        for name, value in {"spread": self.spread, **self.spreads}.items():
            if not 0 < value <= 1:
                raise SchemaError(
                    f"The spread of a column is a share of half the width of its bounds, above 0 "
                    f"and at most 1; {name} = {value:g} is not."
                )
        check("correlation", self.correlation, Related, SchemaError)
        check("explained", self.explained, Related | None, SchemaError)

    def check(self, schema: Schema) -> None:
        """Refuse spreads of columns that are not numeric ones of the schema, and other features."""
        for what, names in (("spread", self.spreads), ("mean", self.means)):
            for name in names:
                column = schema.encoded_columns.get(name)
                if column is None or isinstance(column, Categorical):
                    raise SchemaError(f"There is no numeric column {name!r} to have a {what}.")
        for name, value in self.means.items():
            column = schema.encoded_columns[name]
            if isinstance(column, Numeric) and not column.lower <= value <= column.upper:
                raise SchemaError(
                    f"The mean of a column lies within its bounds, {column.lower:g} to "
                    f"{column.upper:g}; {name} = {value:g} does not."
                )
        if self.like is not None:
            if not self.like.has_intercept:
                raise ReleaseError(
                    "The release that a table is supposed to be like has no intercept, so its "
                    "means are not known."
                )
            missing = {f.name for f in schema.variables} - set(self.like.columns)
            if missing:
                raise SchemaError(
                    f"The release that a table is supposed to be like has no feature "
                    f"{min(missing)!r}."
                )

    @property
    def typical_correlation(self) -> float:
        """Root mean square of the correlations supposed."""
        if self.like is None or len(self.like.columns) < 2:
            return self.correlation
        related = self.like.correlation()[np.tril_indices(len(self.like.columns), -1)]
        return float(np.sqrt(np.mean(related**2)))


@dataclass(frozen=True, slots=True)
class ImaginedTable:
    """A table that might be, of any number of rows.

    Attributes
    ----------
    mean : (d, d) second moment per row, in squared steps of the lattice of a release.
    encoded : (m, p) rows of it.

    """

    schema: Schema
    lattice: Lattice
    mean: Matrix
    encoded: Matrix

    @classmethod
    def of(cls, schema: Schema, lattice: Lattice, guess: Guess) -> ImaginedTable:
        """The table that a guess describes."""
        guess.check(schema)
        if guess.like is None:
            encoded = imagined_rows(schema, guess)
        else:
            generator, count = np.random.default_rng(SEED), max(FEWEST, len(schema.features))
            encoded = rows_like(guess.like, schema, count, generator)
            if not has_gaps(schema):
                mean = _mean_of_moments(*moments_like(guess.like, schema), lattice)
                return cls(schema, lattice, mean, encoded)
            encoded = _with_gaps(schema, encoded, missing_shares(guess.like), generator)
        return cls(schema, lattice, _mean_of_rows(encoded, lattice), encoded)

    def moment(self, rows: int) -> SecondMoment:
        """The second moment of so many rows."""
        whole = np.array([[round(float(x) * rows) for x in row] for row in self.mean], object)
        return SecondMoment(whole, self.lattice, -(-rows // self.lattice.unit.max_rows))

    def with_longer_tails(self) -> ImaginedTable:
        """The same with rows as far out as t with 3 degrees of freedom has them, within bounds.

        The deviations of all numbers of a row are times one factor, of mean square 1.
        """
        numbers = [j for j, one in enumerate(self.schema.features) if not one.is_indicator]
        generator, encoded = np.random.default_rng(SEED), self.encoded.copy()
        means, factors = encoded.mean(axis=0), generator.chisquare(3, (len(encoded), 1)) ** -0.5
        about = (encoded - means)[:, numbers] * factors
        encoded[:, numbers] = np.clip(means[numbers] + about, -1.0, 1.0)
        for at, mark in self.schema.gaps.items():
            encoded[:, at] *= 1 - self.encoded[:, mark]
        mean = _mean_of_rows(encoded, self.lattice)
        return ImaginedTable(self.schema, self.lattice, mean, encoded)

    def door(self, rows: int) -> ImaginedRows:
        """A door onto so many rows, for mechanisms that ask more than one question."""
        return ImaginedRows(self.schema, self.encoded[:FEWEST], rows)


def _with_gaps(
    schema: Schema, rows: Matrix, shares: Mapping[str, float], generator: np.random.Generator
) -> Matrix:
    """(m, p) encoded rows of (m, q) values of the variables, with gaps as often as in `shares`."""
    found = np.zeros((len(rows), len(schema.features)))
    found[:, [feature.variable for feature in schema.features]] = rows
    for at, mark in schema.gaps.items():
        share = shares.get(schema.features[at].name, ABSENT)
        found[:, mark] = generator.random(len(rows)) < share
        found[:, at] *= 1 - found[:, mark]
    return found


def _mean_of_rows(features: Matrix, lattice: Lattice) -> Matrix:
    """(d, d) second moment per row, in squared steps, of encoded rows that are clipped."""
    lengths = np.linalg.norm(features, axis=1) / lattice.radius
    units = features / np.maximum(lengths, 1.0)[:, None] / lattice.step
    if lattice.intercept_units:
        units = np.column_stack([units, np.full(len(units), float(lattice.intercept_units))])
    return np.asarray(units.T @ units / len(units))


def _mean_of_moments(means: Matrix, covariance: Matrix, lattice: Lattice) -> Matrix:
    """(d, d) second moment per row, in squared steps, as if no row were longer than the radius."""
    whole = np.append(means / lattice.step, float(lattice.intercept_units))
    mean = np.outer(whole, whole)
    mean[:-1, :-1] += covariance / lattice.step**2
    return mean if lattice.intercept_units else mean[:-1, :-1]


def imagined_rows(schema: Schema, guess: Guess) -> Matrix:
    """(m, p) encoded rows of the imagined table: a Gaussian copula of its columns.

    Columns are less related than the scores behind them, so those are more so than was guessed.
    """
    count = max(FEWEST, min(SAMPLE, NUMBERS // len(schema.features)))
    laws = _laws(schema, guess)
    size, explained = guess.correlation, guess.explained or 0.0
    for _ in range(ROUNDS):
        found = _relations(schema, _rows(schema, laws, size, explained, FEWEST))
        if found is None:
            break
        size = min(MOST_RELATED, size * guess.correlation / max(found[0], TINY))
        if guess.explained is not None:
            left = (1 - explained) * (1 - guess.explained) / max(1 - found[1], TINY)
            explained = min(max(1 - left, guess.explained), MOST_EXPLAINED)
    return _rows(schema, laws, size, explained, count)


def _relations(schema: Schema, rows: Matrix) -> tuple[float, float] | None:
    """Root mean square correlation of columns, and the mean share that all others explain of one.

    The share is that of numbers. None where there are no two columns, or no number, that vary.
    """
    features = schema.features
    values, numeric = [], []
    for name, column in schema.encoded_columns.items():
        at = [j for j, feature in enumerate(features) if feature.column == name]
        if isinstance(column, Categorical):
            # The middle of the chances that a level stands for is its score.
            shares = rows[:, at].mean(axis=0)
            values.append(rows[:, at] @ (shares.cumsum() - shares / 2))
        else:
            values.append(rows[:, at[0]])
        numeric.append(not isinstance(column, Categorical))
    table = np.column_stack(values)
    varies = table.std(axis=0) > TINY
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
    """(count, p) encoded rows of columns with these laws, whose scores are so related."""
    generator = np.random.default_rng(SEED)
    columns = schema.encoded_columns
    root = np.linalg.cholesky(typical_correlation(len(columns), size, generator, explained))
    scores = generator.standard_normal((count, len(columns))) @ root.T
    parts = []
    for at, (name, column) in enumerate(columns.items()):
        ranks = scores[:, at].argsort().argsort()
        if isinstance(column, Categorical):
            parts.append(_indicators((ranks + 0.5) / count, len(column.labels)))
            continue
        numbers = laws[name][ranks * FEWEST // count][:, None]
        if column.has_indicator:
            absent = generator.random((count, 1)) < ABSENT
            parts.append(np.where(absent, 0.0, numbers))
            parts.append(absent.astype(np.float64))
        else:
            parts.append(numbers)
    return np.hstack(parts)


def _laws(schema: Schema, guess: Guess) -> dict[str, Matrix]:
    """Ascending quantiles of each numeric column; their means lie on both sides by turns."""
    return {
        name: _bounded(*_law(guess, name, column, 1 if at % 2 else -1))
        for at, (name, column) in enumerate(schema.encoded_columns.items())
        if not isinstance(column, Categorical)
    }


def _law(guess: Guess, name: str, column: Numeric, side: int) -> tuple[float, float]:
    """Mean and standard deviation of an encoded column, as far as its bounds allow both.

    A mean that is not given lies the typical spread off the midpoint, on the side given: a column's
    own spread tells nothing of its place.
    """
    spread = guess.spreads.get(name, guess.spread)
    if name in guess.means:
        mean = (guess.means[name] - column.midpoint) / column.half_range
        mean = float(np.clip(mean, 2 * EDGE - 1, 1 - 2 * EDGE))
    else:
        mean = side * min(guess.spread, ROOM * math.sqrt(1 - spread**2))
    return mean, min(spread, math.sqrt(MOST_OF_THE_VARIANCE * (1 - mean**2)))


@lru_cache(maxsize=64)
def _bounded(mean: float, spread: float) -> Matrix:
    """(FEWEST,) ascending quantiles of the beta law on [-1, 1] with these moments."""
    share = (1 + mean) / 2
    weight = (1 - mean**2) / spread**2 - 1
    chances = (np.arange(FEWEST) + 0.5) / FEWEST
    quantiles = betaincinv(share * weight, (1 - share) * weight, chances)
    return np.asarray(2 * quantiles - 1, np.float64)


def _indicators(chances: Matrix, count: int) -> Matrix:
    """(m, count) indicators of levels with shares in proportion to 1, 1/4, 1/9, ..."""
    shares = np.arange(1.0, count + 1) ** -RARER
    ends = np.cumsum(shares / shares.sum())[:-1]
    return np.eye(count)[np.searchsorted(ends, chances)]
