"""Average of items that agree, without a bound on where they lie."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.samplers.discrete import discrete_gaussian
from dpcov.core.samplers.scalars import ScalarGaussian
from dpcov.errors import MechanismError, MechanismRefused
from dpcov.papers.primitives.histogram import ROUNDING_VARIANCE

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers, Matrix
    from dpcov.core.entropy import Entropy
    from dpcov.papers.primitives.release_test import ReleaseTest

    Items = Matrix

UNITS = 2**20  # grid steps of an item per radius
FINE = 2**20  # grid steps of the average per grid step of an item
LARGEST = 2**52  # of an item's entry, in grid steps: where it is clipped


@dataclass(frozen=True, slots=True)
class StableAverage:
    r"""Average of the items that have nearly all others within `radius`, with Gaussian noise.

    One unit changes one of the t items, to anything. (epsilon + epsilon2, max(delta, delta2))-DP,
    (epsilon, delta) those of the `test` and (epsilon2, delta2) any that mu-GDP implies.

    Let f_j = #{i : |v_i - v_j| <= r}, S_l = {j : f_j >= t - l} for l = 0..2k, k the limit of the
    test; the score is min(k, min_(l<=k) (t - |S_l| + l)), item j weighs #{l in k+1..2k : j in S_l},
    and t >= 3k + 2.

    Proof. A replaced item * changes the other f_j by at most 1, so S_l less * is in S'_(l+1), and
    the score changes by at most 2. Both scores below k: some l < k has |S_l| > t - k; its members
    other than * are in S_k and S'_k, so they have full weight k on both sides. Of the others at
    most k - 1 change their weight, each by at most 1. Let c be such a member: f_c > t - k and
    f'_c >= t - k. An item with weight has f >= t - 2k, and (t - 2k) + (t - k) > t: it shares a
    friend with c, so it lies within 2r of c. About c, the weighted sum changes by at most
    2r (k - 1) for the others and 4r k for *, at most 6r k; the sum W of the weights by at most 2k,
    which moves the average by at most 4r k / W; and W >= k (t - k). Together the average changes by
    at most 10 r / (t - k).

    Items and their distances are integers on a grid of r / 2^20, the average is one on a grid of
    r / 2^40, rounded down, which adds 1 for each entry; so scores are exact.

    Parameters
    ----------
    radius : r, public; only how useful the average is depends on it.
    test : with sensitivity 2.
    mu : Gaussian cost of the average, given a pass.

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
        """Least number of items."""
        return 3 * self.test.limit + 2

    def noise(self, count: int, dimension: int) -> ScalarGaussian:
        """Noise of an entry of the average of `count` items, in radius / 2^40."""
        if count < self.fewest:
            raise MechanismError(
                f"A stable average needs at least {self.fewest} items for this budget, not {count}."
            )
        change = Fraction(10 * UNITS * FINE, count - self.test.limit) + math.isqrt(dimension) + 1
        return ScalarGaussian((change / Fraction(self.mu)) ** 2 + ROUNDING_VARIANCE)

    def __call__(self, items: Items, entropy: Entropy) -> Matrix:
        """(m,) average of (t, m) items.

        Raises
        ------
        MechanismError : too few items, told by public numbers alone.
        MechanismRefused : the test did not pass.

        """
        law = self.noise(*items.shape)
        law.require_drawable()
        noise = discrete_gaussian(law.variance, items.shape[1], entropy)
        grid = self.on_grid(items)
        score, weights = score_and_weights(friends(grid), self.test.limit)
        if not self.test.passes(score, entropy):
            raise MechanismRefused("nearly all groups of rows to agree within the stated radius")
        total = weights.astype(object) @ grid.astype(object)
        average = np.array([FINE * int(x) // int(weights.sum()) for x in total], dtype=object)
        return (average + noise).astype(np.float64) * (self.radius / UNITS / FINE)

    def on_grid(self, items: Items) -> Integers:
        """Items in steps of radius / 2^20; one that is not finite becomes 0, all are clipped."""
        finite = np.isfinite(items).all(axis=1, keepdims=True)
        with np.errstate(over="ignore", under="ignore"):
            steps = np.where(finite, items, 0.0) / (self.radius / UNITS)
        return np.rint(np.clip(steps, -LARGEST, LARGEST)).astype(np.int64)


def friends(grid: Integers) -> Integers:
    """(t,) numbers of items within 2^20 steps of each, itself included; exact."""
    found = np.empty(len(grid), np.int64)
    for j, item in enumerate(grid):
        apart = np.minimum(np.abs(grid - item), UNITS + 1)
        found[j] = np.count_nonzero((apart * apart).sum(axis=1) <= UNITS**2)
    return found


def score_and_weights(friend_counts: Integers, limit: int) -> tuple[int, Integers]:
    """Score in 0..k and integer weights in 0..k of items with these friends."""
    t = len(friend_counts)
    lacking = np.sort(t - friend_counts)  # item j is in S_l iff l >= t - f_j
    levels = np.arange(limit + 1)
    members = np.searchsorted(lacking, levels, side="right")
    score = min(limit, int((t - members + levels).min()))
    weights = np.clip(2 * limit - (t - friend_counts) + 1, 0, limit).astype(np.int64)
    return score, weights
