"""Synthetic rows with the covariances of a release."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcov.analysis.declared import Option, command
from dpcov.analysis.moments import Moments, positive, require_matrix, solve
from dpcov.core.parameters import Count, check
from dpcov.core.show.frames import csv_body
from dpcov.core.show.result import Result
from dpcov.errors import ReleaseError
from dpcov.releases.carried import stamped
from dpcov.releases.pairwise import moved
from dpcov.rows.dates import SECOND
from dpcov.rows.schema import Categorical, Derived, Numeric

if TYPE_CHECKING:
    from dpcov.core.arrays import Booleans, Integers, Matrix, Vector
    from dpcov.releases import Release

# Smallest number of rows for which the frequencies of the categories are made right.
MIN_CALIBRATION_ROWS = 2000
# Number of rounds that make them right. Source: not recorded.
CALIBRATION_ROUNDS = 50
# Smallest variance per row below which a direction counts as noise. Source: not recorded.
MIN_DAMPING = 1e-9


def sample(release: Release, n: int, seed: int | None = None) -> pa.Table:
    """Draw synthetic rows with approximately the correlations of the release.

    The means are preserved for categories, and for numbers whose distribution is nearly normal
    within the bounds. The means are not kept for rare flags, rare counts and numbers with many
    values at a bound. For such columns, read the means from `Release.mean`.

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
        ``level``. A column with `missing` = ``pairwise`` has no nulls. The metadata of the table
        contain the guarantee, and Parquet files keep the metadata.

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
    `sample` draws the categorical columns one after another. The probabilities of the levels are
    the linear regression of their 0/1 features on the earlier columns, limited to [0, 1]. The
    probabilities are then scaled until their averages equal the released fractions.

    `sample` then draws the numbers from a normal distribution. Its mean is linear in the levels,
    and its covariance is the residual covariance. Values beyond a bound become the bound, which
    moves the mean away from the bound. Whole numbers and flags are rounded up or down at random.
    Derived columns are computed from their parents. If the levels of a column are not texts,
    undeclared levels are null.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> dpcov.sample(release, 100, seed=0).shape
    (100, 2)

    """
    check("n", n, Count, ReleaseError)
    require_matrix(release)
    sampler = Sampler(release, max(n, MIN_CALIBRATION_ROWS), np.random.default_rng(seed))
    return stamped(release, sampler.table().slice(0, n))


@dataclass(frozen=True, slots=True)
class Rows(Result):
    """Synthetic rows as a result that prints only its cells."""

    rows: pa.Table
    has_sentences = False

    def arrow(self) -> pa.Table:
        return self.rows

    def csv(self) -> str:
        return csv_body(self.rows)

    def document(self) -> dict[str, Any]:
        rows = self.rows.to_pylist()
        return {"rows": [{name: _plain(cell) for name, cell in row.items()} for row in rows]}


@command(
    "sample",
    "Draw synthetic rows with about the correlations of a release. Means of rare flags, rare "
    "counts and numbers with many values at a bound are not kept.",
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
    return Rows(sample(release, n, seed))


class Sampler:
    """Simulation that draws blocks of features, each conditional on the earlier blocks.

    Attributes
    ----------
    drawn : ndarray, shape (rows, k)
        Encoded features drawn so far.

    given : list of int, length k
        Positions of these features in the release.

    """

    def __init__(self, release: Release, rows: int, generator: np.random.Generator) -> None:
        self._moments = Moments.of(release)
        self._schema = release.schema
        self._generator = generator
        self._damping = _damping(release, self._moments.count, generator)
        self.drawn = np.zeros((rows, 0))
        self.given: list[int] = []

    def table(self) -> pa.Table:
        """Draw all columns and return the table."""
        columns = self._schema.encoded_columns
        names = [feature.name for feature in self._schema.variables]
        arrays: dict[str, pa.Array] = {}
        absent: dict[str, Booleans] = {}
        for name, column in columns.items():
            if isinstance(column, Categorical):
                at = [names.index(f"{name}={label}") for label in column.labels]
                arrays[name] = _levels(column, self.draw_levels(at))
            elif column.missing == "level":
                chances = self.draw_levels([names.index(f"{name}=(missing)")], rest=True)
                absent[name] = chances == 0
        numbers = {name: c for name, c in columns.items() if isinstance(c, Numeric)}
        numeric = {name: c for name, c in numbers.items() if not isinstance(c, Derived)}
        at = [names.index(name) for name in numeric]
        values = self._draw_numbers(at, absent, numeric) if numeric else {}
        for name, column in numbers.items():
            if isinstance(column, Derived):
                values[name] = column.formula.of(*(values[own] for own in column.formula.parents))
            arrays[name] = _cells(column, values[name])
        return pa.table({name: arrays[name] for name in columns})

    def regression(self, at: list[int]) -> tuple[Matrix, Matrix]:
        """Regress features on the features drawn so far.

        Parameters
        ----------
        at : list of int, length b
            Positions of the features.

        Returns
        -------
        means : ndarray, shape (rows, b)
            Conditional means of the encoded features.

        residual : ndarray, shape (b, b)
            Residual covariance.

        """
        covariance, means = self._moments.covariance, self._moments.means
        cross = covariance[np.ix_(self.given, at)]
        gram = covariance[np.ix_(self.given, self.given)]
        slopes, _ = solve(gram + self._damping * np.eye(len(gram)), cross)
        centred = self.drawn - means[self.given]
        residual = positive(
            covariance[np.ix_(at, at)] - cross.T @ slopes - slopes.T @ cross
            + slopes.T @ gram @ slopes
        )  # fmt: skip
        return self._moments.encoded[at] + centred @ slopes, residual

    def draw_levels(self, at: list[int], *, rest: bool = False, even: bool = False) -> Integers:
        """Draw a level for each row.

        Parameters
        ----------
        at : list of int
            Positions of the 0/1 features of the levels.

        rest : bool, default False
            Add a last level, which stands for none of the levels.

        even : bool, default False
            Draw each level as often as its probability, with little randomness.

        Returns
        -------
        ndarray of int, shape (rows,)
            Index of the drawn level in `at`.

        """
        shares = np.clip(self._moments.means[at], 0.0, 1.0)
        chances = self.regression(at)[0]
        if rest:
            shares = np.append(shares, max(0.0, 1 - float(shares.sum())))
            chances = np.column_stack([chances, 1 - chances.sum(axis=1)])
        if shares.sum() <= 0:
            shares = np.ones(len(shares))
        chances = _calibrated(chances, shares / shares.sum())
        count = len(chances)
        drawing = self._generator
        uniform = (drawing.permutation(count) + 0.5) / count if even else drawing.random(count)
        drawn = (chances.cumsum(axis=1) < uniform[:, None]).sum(axis=1)
        drawn = np.minimum(drawn, len(shares) - 1)
        kept = at[:-1] if not rest and len(at) > 1 else at  # the last follows from the others
        indicators = (drawn[:, None] == np.arange(len(kept))).astype(np.float64)
        self.drawn = np.column_stack([self.drawn, indicators])
        self.given += kept
        return drawn

    def _draw_numbers(
        self, at: list[int], absent: dict[str, Booleans], columns: dict[str, Numeric]
    ) -> dict[str, Matrix]:
        """Draw the (rows,) values of each numeric column, with NaN for missing values."""
        means, covariance = self.regression(at)
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        noise = self._generator.standard_normal(means.shape) @ root.T
        found = {}
        for j, (name, column) in enumerate(columns.items()):
            gone = absent.get(name, np.zeros(len(means), bool))
            # in the release a missing value is the midpoint, which has no variance
            present = max(1 - float(gone.mean()), 1 / len(gone))
            encoded = means[:, j] + noise[:, j] / np.sqrt(present)
            numbers = column.midpoint + column.half_range * encoded
            if column.reading in ("whole", "flag"):
                numbers = np.floor(numbers + self._generator.random(len(numbers)))
            numbers = np.clip(numbers, column.lower, column.upper)
            found[name] = np.where(gone, np.nan, numbers)
        return found


def _cells(column: Numeric, values: Matrix) -> pa.Array:
    """Convert numbers to the cells of a column of its kind."""
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


def _damping(release: Release, count: float, generator: np.random.Generator) -> float:
    """Return the variance per row below which a direction is noise, for damped regressions."""
    if release.noise is None:
        return MIN_DAMPING
    noise = release.unmapped(release.noise.simulate(generator) * release.lattice.step**2)
    noise = moved(release, noise)
    return max(MIN_DAMPING, float(np.linalg.eigvalsh(noise)[-1]) / count)


def _calibrated(chances: Matrix, shares: Vector) -> Matrix:
    """Return (m, l) probabilities near `chances` whose column averages are `shares`."""
    chances = np.clip(chances, 1e-9, 1.0)
    for _ in range(CALIBRATION_ROUNDS):
        chances = chances / chances.sum(axis=1, keepdims=True)
        chances = chances * (shares / np.maximum(chances.mean(axis=0), 1e-300))
    return chances / chances.sum(axis=1, keepdims=True)


def _levels(column: Categorical, drawn: Integers) -> pa.Array:
    """Convert indices of levels to the cells of a categorical column."""
    texts = any(isinstance(level, str) for level in column.levels)
    cells = [str(level) if texts else level for level in column.levels]
    values: list[bool | int | float | str | None] = list(cells)
    if column.other:
        values.append("(other)" if texts else None)
    if column.missing == "level":
        values.append(None)
    return pa.array(values).take(pa.array(drawn))
