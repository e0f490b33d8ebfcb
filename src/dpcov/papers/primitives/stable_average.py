"""Average of items that agree, without a bound on their location."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.samplers.discrete import discrete_gaussian
from dpcov.core.samplers.scalars import ScalarGaussian
from dpcov.errors import MechanismError, MechanismRefused
from dpcov.published.costs import ROUNDING_VARIANCE

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers, Matrix
    from dpcov.core.entropy import Entropy
    from dpcov.papers.primitives.release_test import ReleaseTest

    Items = Matrix

# Number of grid steps of an item in one radius.
STEPS_PER_RADIUS = 2**20
# Number of grid steps of the average in one grid step of an item.
FINE_STEPS_PER_STEP = 2**20
# Largest size of an entry of an item, in grid steps. Larger entries are clipped.
MAX_ENTRY_STEPS = 2**52


@dataclass(frozen=True, slots=True)
class StableAverage:
    """Average of the items that have nearly all others within a radius, with Gaussian noise.

    One unit changes one of the t items, to any value. The average is (epsilon + epsilon2,
    max(delta, delta2))-DP. The `test` costs (epsilon, delta). The pair (epsilon2, delta2) is any
    pair that mu-GDP implies.

    Parameters
    ----------
    radius : float
        Public radius r. The radius affects only the usefulness of the average.
    test : ReleaseTest
        Test with sensitivity 2 and limit k.
    mu : float
        Gaussian cost of the average after a passed test.

    Notes
    -----
    **Definitions.** Let ``f_j`` be the number of items within the distance r of item j. Let ``S_l``
    be the set of items with ``f_j >= t - l``, for l from 0 to 2k. The score is
    ``min(k, min_(l<=k) (t - |S_l| + l))``. The weight of item j is the number of levels l from k+1
    to 2k for which ``S_l`` contains j. The number of items t is at least ``3k + 2``.

    **The score has sensitivity 2.** Let ``*`` be the replaced item, and let a prime mark the new
    table. The replacement changes every other ``f_j`` by at most 1. The set ``S_l`` without ``*``
    is therefore part of ``S'_(l+1)``, and the score changes by at most 2.

    **The average has a small sensitivity.** Let both scores be below k.

    - Some level ``l < k`` has ``|S_l| > t - k``. The members of ``S_l`` other than ``*`` belong to
      ``S_k`` and ``S'_k``, so they have the full weight k in both tables.
    - At most ``k - 1`` other items change their weight, each by at most 1.
    - Let c be a member with full weight. Then ``f_c > t - k`` and ``f'_c >= t - k``. An item with a
      positive weight has ``f >= t - 2k``. As ``(t - 2k) + (t - k) > t``, the item and c have a
      common neighbour. The item therefore lies within 2r of c.
    - Relative to c, the weighted sum changes by at most ``2r (k - 1)`` for the other items and
      ``4r k`` for ``*``, so by at most ``6r k``.
    - The sum W of the weights changes by at most 2k, which moves the average by at most
      ``4r k / W``. W is at least ``k (t - k)``.
    - The average therefore changes by at most ``10 r / (t - k)``.

    **Rounding.** Items and distances are integers on a grid of ``r / 2^20``, so the score is exact.
    The average is an integer on a grid of ``r / 2^40``, rounded down. Rounding adds 1 to the change
    of each entry.

    """

    radius: float
    test: ReleaseTest
    mu: float

    def __post_init__(self) -> None:
        if not 1e-200 < self.radius < 1e200 or not 0 < self.mu < math.inf:
            raise MechanismError("A stable average needs a finite radius and mu above 0.")
        if self.test.sensitivity < 2:
            raise MechanismError("The score of a stable average has sensitivity 2.")

    @property
    def fewest(self) -> int:
        """Smallest number of items."""
        return 3 * self.test.limit + 2

    def noise(self, count: int, dimension: int) -> ScalarGaussian:
        """Return the noise of an entry of the average, in units of radius / 2^40.

        Parameters
        ----------
        count : int
            Number of items.
        dimension : int
            Number of entries of an item.

        Returns
        -------
        ScalarGaussian
            Noise of each entry.

        Raises
        ------
        MechanismError
            There are too few items.

        """
        if count < self.fewest:
            raise MechanismError(
                f"A stable average needs at least {self.fewest} items for this budget, not {count}."
            )
        change = (
            Fraction(10 * STEPS_PER_RADIUS * FINE_STEPS_PER_STEP, count - self.test.limit)
            + math.isqrt(dimension)
            + 1
        )
        return ScalarGaussian((change / Fraction(self.mu)) ** 2 + ROUNDING_VARIANCE)

    def __call__(self, items: Items, entropy: Entropy) -> Matrix:
        """Return the noisy average of items.

        Parameters
        ----------
        items : ndarray of float, shape (t, m)
            Items, one in each row.
        entropy : Entropy
            Source of random bits.

        Returns
        -------
        ndarray of float, shape (m,)
            Average.

        Raises
        ------
        MechanismError
            There are too few items. The error depends only on public numbers.
        MechanismRefused
            The test did not pass.

        """
        law = self.noise(*items.shape)
        law.require_drawable()
        noise = discrete_gaussian(law.variance, items.shape[1], entropy)
        grid = self.on_grid(items)
        score, weights = score_and_weights(friends(grid), self.test.limit)
        if not self.test.passes(score, entropy):
            raise MechanismRefused("nearly all groups of rows to agree within the stated radius")
        total = weights.astype(object) @ grid.astype(object)
        average = np.array(
            [FINE_STEPS_PER_STEP * int(x) // int(weights.sum()) for x in total], dtype=object
        )
        return (average + noise).astype(np.float64) * (
            self.radius / STEPS_PER_RADIUS / FINE_STEPS_PER_STEP
        )

    def on_grid(self, items: Items) -> Integers:
        """Return the items in steps of radius / 2^20, clipped to the largest size.

        An item that is not finite becomes 0.
        """
        finite = np.isfinite(items).all(axis=1, keepdims=True)
        with np.errstate(over="ignore", under="ignore"):
            steps = np.where(finite, items, 0.0) / (self.radius / STEPS_PER_RADIUS)
        return np.rint(np.clip(steps, -MAX_ENTRY_STEPS, MAX_ENTRY_STEPS)).astype(np.int64)


def friends(grid: Integers) -> Integers:
    """Return the exact number of items within 2^20 steps of each item, itself included.

    Parameters
    ----------
    grid : ndarray of int, shape (t, m)
        Items on the grid.

    Returns
    -------
    ndarray of int, shape (t,)
        Number of close items.

    """
    found = np.empty(len(grid), np.int64)
    for j, item in enumerate(grid):
        apart = np.minimum(np.abs(grid - item), STEPS_PER_RADIUS + 1)
        found[j] = np.count_nonzero((apart * apart).sum(axis=1) <= STEPS_PER_RADIUS**2)
    return found


def score_and_weights(friend_counts: Integers, limit: int) -> tuple[int, Integers]:
    """Return the score and the integer weights of items, both from 0 to k.

    Parameters
    ----------
    friend_counts : ndarray of int, shape (t,)
        Number of close items of each item.
    limit : int
        Limit k of the test.

    Returns
    -------
    score : int
        Score of the items.
    weights : ndarray of int, shape (t,)
        Weight of each item.

    """
    t = len(friend_counts)
    lacking = np.sort(t - friend_counts)  # S_l contains item j if and only if l >= t - f_j
    levels = np.arange(limit + 1)
    members = np.searchsorted(lacking, levels, side="right")
    score = min(limit, int((t - members + levels).min()))
    weights = np.clip(2 * limit - (t - friend_counts) + 1, 0, limit).astype(np.int64)
    return score, weights
