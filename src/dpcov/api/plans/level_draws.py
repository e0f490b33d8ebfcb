"""Levels of categories, drawn one column after another with little randomness, for plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.level_draws import drawn_levels, scaled_to_shares
from dpcov.analysis.normal_equations import solve
from dpcov.estimate import Estimate
from dpcov.published.pseudo_rows import positive

if TYPE_CHECKING:
    from dpcov.core.arrays import Booleans, Matrix
    from dpcov.releases import Release

# Smallest variance per row below which a direction counts as noise. Source: not recorded.
MIN_DAMPING = 1e-9


class LevelDraws:
    """Simulation that draws categories, each conditional on the earlier categories.

    Attributes
    ----------
    drawn : ndarray, shape (rows, k)
        Features drawn so far, in the encoding of the release.

    given : list of int, length k
        Positions of these features in the release.

    """

    def __init__(self, release: Release, rows: int, generator: np.random.Generator) -> None:
        self._estimate = Estimate.of(release)
        self._generator = generator
        self._damping = _damping(self._estimate, generator)
        self.drawn = np.zeros((rows, 0))
        self.given: list[int] = []

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
        covariance, means = self._estimate.covariance, self._estimate.encoded
        cross = covariance[np.ix_(self.given, at)]
        gram = covariance[np.ix_(self.given, self.given)]
        slopes, _ = solve(gram + self._damping * np.eye(len(gram)), cross)
        centred = self.drawn - means[self.given]
        residual = positive(
            covariance[np.ix_(at, at)] - cross.T @ slopes - slopes.T @ cross
            + slopes.T @ gram @ slopes
        )  # fmt: skip
        return means[at] + centred @ slopes, residual

    def draw(self, at: list[int], low: float = 0.0, high: float = 1.0) -> Booleans:
        """Draw a level, or none of the levels, for each row.

        Parameters
        ----------
        at : list of int, length b
            Positions of the features of the levels.

        low, high : float
            Mean of a feature in rows without its level and with it, in the encoding of the release.

        Returns
        -------
        ndarray of bool, shape (rows, b)
            True for the drawn level.

        """
        width = high - low
        shares = np.clip((self._estimate.encoded[at] - low) / width, 0.0, 1.0)
        chances = (self.regression(at)[0] - low) / width
        shares = np.append(shares, max(0.0, 1 - float(shares.sum())))
        chances = np.column_stack([chances, 1 - chances.sum(axis=1)])
        if shares.sum() <= 0:
            shares = np.ones(len(shares))
        chances = scaled_to_shares(chances, shares / shares.sum())
        count = len(chances)
        uniform = (self._generator.permutation(count) + 0.5) / count
        drawn = drawn_levels(chances, uniform)
        return np.asarray(drawn[:, None] == np.arange(len(at)))

    def add(self, at: list[int], features: Matrix) -> None:
        """Add drawn features, shape (rows, b), on which later features depend."""
        self.drawn = np.column_stack([self.drawn, features])
        self.given += at


def _damping(estimate: Estimate, generator: np.random.Generator) -> float:
    """Return the variance per row below which a direction is noise, for damped regressions."""
    record = estimate.record
    if record.noise is None:
        return MIN_DAMPING
    noise = record.unmapped(record.noise.simulate(generator) * record.lattice.step**2)
    noise = estimate.complete_errors(noise)
    return max(MIN_DAMPING, float(np.linalg.eigvalsh(noise)[-1]) / estimate.count)
