"""Means and variances of a release that holds sums in place of a second moment.

The sums are the diagonal and the last column of the second moment. `moment_of_sums` adds the other
entries as if all features were uncorrelated. Means and variances do not depend on these entries.
Each sum has independent noise with a public distribution, so an error is a draw of this noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcov.estimate.errors import Errors

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.published.kinds import NoisySums
    from dpcov.published.record import Record


def moment_of_sums(release: Record, sums: NoisySums, least: float | None) -> Matrix:
    """Return the second moment that uncorrelated features with these sums have.

    Parameters
    ----------
    release : Record
        Release of the sums.

    sums : NoisySums
        Sums of the release.

    least : float or None
        Smallest sum of squares about the mean of each feature. None for no limit.

    Returns
    -------
    ndarray, shape (d, d)
        Second moment in squared units of an encoded row, with the best estimate of the count.

    """
    p, step = release.lattice.features, release.lattice.step
    values = np.array(sums.values, np.float64) * step**2
    squares, products = values[:p], values[p:-1]
    corner = release.count() * release.intercept() ** 2
    about = products**2 / corner if corner > 0 else np.zeros(p)
    if least is not None:
        squares = np.maximum(squares, about + least)
    whole = np.outer(products, products) / corner if corner > 0 else np.zeros((p, p))
    np.fill_diagonal(whole, squares)
    return _symmetric(whole, np.append(products, corner))


def _symmetric(block: Matrix, last: Vector) -> Matrix:
    """Return the symmetric matrix with this block of the features and this last column."""
    matrix = np.zeros((len(last), len(last)))
    matrix[:-1, :-1] = block
    matrix[-1], matrix[:, -1] = last, last
    return matrix


@dataclass(frozen=True, eq=False)
class SumsErrors(Errors):
    """Simulated errors of the means and variances of a release of sums.

    The entries of other products have no errors, because nothing is known of them.
    """

    def batch(
        self, size: int, draws: np.random.Generator, rounding_draws: np.random.Generator
    ) -> tuple[Array, Array]:
        errors = np.stack([self._error(draws, rounding_draws) for _ in range(size)])
        return errors, errors

    def _error(self, draws: np.random.Generator, rounding_draws: np.random.Generator) -> Matrix:
        """Draw an error of the noise and of rounding, shape (d, d)."""
        p, sums = self.record.lattice.features, self.record.sums_alone
        assert sums is not None  # noqa: S101  for type checkers; the estimate has checked it
        drawn = [sums.noise.simulate(draws) for _ in range(2 * p + 1)]
        noise = np.array(drawn) * self.record.lattice.step**2
        error = _symmetric(np.diag(noise[:p]), noise[p:])
        error[-1, -1] = self._count_error(error, draws)
        return error + self.rounding.draw(rounding_draws)
