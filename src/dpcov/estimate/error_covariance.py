"""Covariance matrix of the errors of the means and covariances of a release.

The rows and columns of the matrix are the means m and then the covariances c of the lower triangle,
column by column:

    (m_1, ..., m_p, c_11, c_21, ..., c_p1, c_22, c_32, ..., c_pp)

Structural equation software such as lavaan uses this order. The matrix is a sum of two matrices:

- Privacy noise, clipping and rounding. dpcov simulates errors of the second moment
  (`estimate.errors`). It computes the first-order effect z of each error on the means and
  covariances. The first matrix is the average of z z'.
- Sampling. dpcov simulates rows (`estimate.errors`). It computes the first-order effect z of each
  row on the means and covariances. The sampling error is the sum of the effects of n independent
  rows. The second matrix is therefore n times the covariance matrix of z.

Intervals multiply sampling errors by `SAMPLING_ERROR_FACTOR`. This matrix does not, because the
chi-square test of lavaan would then reject a correct model too rarely. With 300 releases of 20,000
rows and a test level of 5%, the test rejected the correct model in 4.3% of the releases. With the
factor, the test rejected it in 1.3% of the releases (`make bench NAME=lavaan`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.core.entropy import reading_generator
from dpcov.core.show.result import Result
from dpcov.core.show.table import MAX_FIGURE_COLUMNS, Table, square
from dpcov.denoise.structure import positions_by_column
from dpcov.errors import ReleaseError
from dpcov.estimate import Estimate
from dpcov.estimate.errors import MAX_BATCH_ENTRIES, Stack, first_order
from dpcov.estimate.missing import DERIVATIVE_STEP
from dpcov.published.record import refuse
from dpcov.rows.schema import Categorical

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.core.show.frames import Library
    from dpcov.published.record import Record

# Number of simulated errors. Each variance then has a relative standard error of about 3%.
ERROR_COVARIANCE_DRAWS = 2000
# Largest number of rows of the matrix, which then needs at most 128 MiB.
MAX_FIGURES = 4096
UNKNOWN_ERRORS_MESSAGE = (
    "The noise hides the number of rows, so the errors of means and covariances are unknown. Use a "
    "larger epsilon or more rows."
)


@dataclass(frozen=True, slots=True, eq=False)
class ErrorCovariance(Result):
    """Covariance matrix of the errors of the means and covariances of a release.

    For p columns, the matrix has k = p + p (p + 1) / 2 rows: the means and the covariances.

    Attributes
    ----------
    names : tuple of str, length k
        Names of the rows of the matrix. A mean has the name of its column, such as ``age``. A
        covariance has the names of both columns, such as ``age~~sbp``.

    values : ndarray, shape (k, k)
        Covariances of the errors, in the units of the data.

    sampling : bool
        True if the errors include the sampling error, so that they describe the population.

    See Also
    --------
    Release.error_covariance : Compute this matrix.
    dpcov.standard_errors : Standard errors of any function of the means and covariances.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> release.error_covariance().values.shape
    (5, 5)

    """

    names: tuple[str, ...]
    values: Matrix = field(repr=False)
    sampling: bool

    def to_frame(self, library: Library = "pandas") -> Any:
        """Return the matrix as a data frame with named columns.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, default "pandas"
            Library of the data frame.

        Returns
        -------
        DataFrame or pyarrow.Table
            Frame with one column for each mean and each covariance.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> bool(release.error_covariance().to_frame().loc["x0", "x0"] > 0)
        True

        """
        from dpcov.core.show.frames import frame

        return frame(self.names, self.values, library)

    def tables(self) -> list[Table]:
        covers = "privacy noise and sampling" if self.sampling else "privacy noise"
        found = square(self.names, self.values)
        return [
            replace(
                found,
                title=f"Covariances of the errors from {covers}",
                forms=("{:.3g}",),
                strengths=range(len(self.names), 0, -1),
                rest="figures",
                widest=MAX_FIGURE_COLUMNS,
                other_columns="figures",
            )
        ]


def figure_names(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the means and covariances of columns, in the order of the matrix."""
    pairs = combinations_with_replacement(columns, 2)
    return (*columns, *(f"{one}~~{other}" for one, other in pairs))


def error_covariance(
    release: Record,
    *,
    sampling: bool,
    columns: Sequence[str] | None,
    generator: np.random.Generator | None,
) -> ErrorCovariance:
    """Compute the error covariance. `Release.error_covariance` explains the parameters."""
    names = release.columns if columns is None else tuple(columns)
    at = positions(release, names)
    figures = figure_names(names)
    if len(figures) > MAX_FIGURES:
        raise ReleaseError(
            f"The error covariance of {len(names)} columns has {len(figures)} rows, which is more "
            f"than {MAX_FIGURES}. Name fewer columns."
        )
    moves = _Moves.of(release, at, sampling, generator).moves
    return ErrorCovariance(figures, moves.T @ moves, sampling)


def standard_errors_of(
    release: Record,
    function: Callable[[Vector, Matrix], Any],
    sampling: bool,
    generator: np.random.Generator | None,
    columns: Sequence[str] | None = None,
) -> Array:
    """Compute standard errors. `dpcov.standard_errors` explains the parameters."""
    names = release.columns if columns is None else tuple(columns)
    found = _Moves.of(release, positions(release, names), sampling, generator)
    return found.standard_errors(function)


def both_standard_errors(
    release: Record,
    function: Callable[[Vector, Matrix], Any],
    columns: Sequence[str],
    generator: np.random.Generator | None,
) -> tuple[Array, Array]:
    """Compute standard errors with and without the sampling error, from one simulation."""
    found = _Moves.of(release, positions(release, columns), True, generator)
    noise = replace(found, moves=found.moves[: found.draws])
    return found.standard_errors(function), noise.standard_errors(function)


def positions(release: Record, names: Sequence[str]) -> list[int]:
    """Return the positions of columns of a release, or raise if a name is unknown or repeated."""
    known = {name: j for j, name in enumerate(release.columns)}
    if unknown := [name for name in names if name not in known]:
        raise ReleaseError(
            f"The release has no column {unknown[0]!r}. Choose from: {', '.join(known)}."
        )
    if not names or len(set(names)) != len(names):
        raise ReleaseError("Name at least one column, and each column once.")
    return [known[name] for name in names]


@dataclass(frozen=True, slots=True)
class _Moves:
    """First-order effects of simulated errors on the means and covariances of p columns.

    Attributes
    ----------
    center : ndarray, shape (k,)
        Estimated means and covariances, in the units of the data.

    moves : ndarray, shape (m, k)
        Effect z of each simulated error or row. The effects are scaled such that the sum of z z'
        is the error covariance.

    draws : int
        Number of simulated errors of privacy noise, which come first.

    """

    center: Vector
    moves: Array
    draws: int

    @classmethod
    def of(
        cls,
        release: Record,
        at: Sequence[int],
        sampling: bool,
        generator: np.random.Generator | None,
    ) -> _Moves:
        """Simulate errors, and compute their effects for the columns at these positions."""
        refuse(release.not_released)
        estimate, draws = Estimate.of(release), reading_generator(generator)
        errors = estimate.errors(sampling=False, generator=draws, draws=ERROR_COVARIANCE_DRAWS)
        figures = partial(_figures, estimate, at)
        moves = [first_order(figures, errors.center, batch) for batch in errors.batches()]
        scaled = [np.concatenate(moves) / np.sqrt(errors.draws)]
        if sampling:
            rows = estimate.row_model.rows(draws.spawn(1)[0])
            size = max(1, MAX_BATCH_ENTRIES // errors.center.size)
            parts = [rows[start : start + size] for start in range(0, len(rows), size)]
            effects = [
                first_order(figures, errors.center, part[:, :, None] * part[:, None, :])
                for part in parts
            ]
            of_rows = np.concatenate(effects)
            of_rows -= of_rows.mean(axis=0)
            scaled.append(of_rows * np.sqrt(estimate.count / len(rows)))
        center, all_moves = figures(errors.center[None])[0], np.concatenate(scaled)
        if not (np.isfinite(center).all() and np.isfinite(all_moves).all()):
            raise ReleaseError(UNKNOWN_ERRORS_MESSAGE)
        return cls(center, all_moves, len(scaled[0]))

    def standard_errors(self, function: Callable[[Vector, Matrix], Any]) -> Array:
        """Return the standard errors of a function of the means and the covariance matrix."""
        sizes = np.linalg.norm(self.moves, axis=0)  # the columns can have very different units
        scaled = self.moves / np.where(sizes > 0, sizes, 1.0)
        _, values, vectors = np.linalg.svd(scaled, full_matrices=False)
        squares: Array | float = 0.0
        for direction in values[:, None] * vectors * sizes:
            after, before = (
                np.asarray(function(*self._parts(side * direction)), float) for side in (1, -1)
            )
            squares = squares + ((after - before) / (2 * DERIVATIVE_STEP)) ** 2
        return np.sqrt(squares)

    def _parts(self, direction: Vector) -> tuple[Vector, Matrix]:
        """Return the means and the covariance matrix after a small step in a direction."""
        figures = self.center + DERIVATIVE_STEP * direction
        p = (math.isqrt(9 + 8 * len(figures)) - 3) // 2
        covariance = np.zeros((p, p))
        covariance[np.triu_indices(p)] = figures[p:]
        return figures[:p], covariance + np.triu(covariance, 1).T


def _figures(estimate: Estimate, at: Sequence[int], matrices: Array) -> Array:
    """Compute k means and covariances of columns from each of b second moments, shape (b, k)."""
    found, scales = Stack.of(estimate.record, matrices), estimate.scales[at]
    _set_blocks(estimate.record, found)
    rows, columns = np.triu_indices(len(at))
    means = estimate.centers[at] + found.means[:, at] * scales
    covariances = found.covariances[:, at][:, :, at][:, rows, columns]
    return np.concatenate([means, covariances * scales[rows] * scales[columns]], axis=1)


def _set_blocks(release: Record, stack: Stack) -> None:
    """Replace the covariances of levels and flags that follow from their means.

    The estimates have the same covariances (`denoise.structure`). The errors of these covariances
    therefore follow from the errors of the means. The means of a person's rows do not have such
    covariances.
    """
    if release.schema.person_means:
        return
    for column, at in positions_by_column(release.schema):
        means = stack.means[:, at]
        if isinstance(column, Categorical):
            block = -means[:, :, None] * means[:, None, :]
            block[:, np.arange(len(at)), np.arange(len(at))] += means
        elif column.has_two_values and column.missing != "midpoint":
            block = 1 - means[:, :1, None] ** 2  # encoded as -1 and 1
            if len(at) > 1:  # a missing flag is encoded as 0 and has an indicator
                own, missing = means.T
                cross, rest = -own * missing, missing * (1 - missing)
                entries = np.array([[1 - missing - own**2, cross], [cross, rest]])
                block = np.moveaxis(entries, -1, 0)
        else:
            continue
        stack.covariances[:, at[:, None], at] = block
