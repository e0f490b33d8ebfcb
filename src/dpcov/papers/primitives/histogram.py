"""Stability histograms: noisy counts for an unlimited number of bins.

The noise applies only to bins that are not empty. A noisy count is released only above a threshold.
The threshold is so high that a bin with the votes of a single unit is hardly ever released. Only
this probability needs a delta. Bins are released in the order of their keys, so the order of the
data has no effect.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from dpcov.core.parameters import Count, Probability, check
from dpcov.core.privacy import Neighbors
from dpcov.core.samplers.discrete import discrete_gaussian, discrete_laplace
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.errors import MechanismError
from dpcov.papers.primitives.bounded_moments import least
from dpcov.published.costs import ROUNDING_VARIANCE

if TYPE_CHECKING:
    from dpcov.core.arrays import AnyArray
    from dpcov.core.entropy import Entropy

Key = TypeVar("Key", bound=Any)

# Relative margin for float64 errors in a probability.
PROBABILITY_MARGIN = 1e-9
# Number of grid steps of one vote. The Gaussian noise is on this grid.
STEPS_PER_VOTE = 2**20


@dataclass(frozen=True, slots=True)
class StabilityHistogram:
    """Histogram of votes with discrete Laplace noise: (epsilon, delta)-DP.

    A unit casts at most k votes.

    Parameters
    ----------
    epsilon : Fraction
        Epsilon of the guarantee.
    delta : float
        Delta of the guarantee.
    neighbors : Neighbors
        Relation between tables.
    votes : int
        Largest number k of votes of a unit.

    Notes
    -----
    **Definitions.** Let ``sides`` be 1 under add-remove and 2 under replace-one. The noise K has a
    probability ``P(K = j)`` proportional to ``a^|j|``, with ``a = e^(-epsilon / (sides k))``. A bin
    with c votes is released if ``c + K >= T``. For ``c <= T`` the probability is
    ``p(c) = a^(T-c) / (1 + a)``.

    **Proof.** Let D and D' be neighbouring tables. A bin that is empty in one of the tables
    contains votes of one unit only. Call such a bin exclusive.

    - The probability that no exclusive bin is released is ``A = prod(1 - p(c_i))`` over the
      exclusive bins of D, and A' for D'.
    - The other bins differ by at most ``sides k`` votes. Their distributions satisfy
      ``L <= e^epsilon L'``.
    - The excess of D over D' has two parts. It is ``1 - A`` if an exclusive bin is released, and at
      most ``(A - A')+`` otherwise. Together the parts are at most ``1 - min(A, A')``, where
      ``sum c_i <= k``.
    - As ``-ln(1 - p)`` is convex, the worst case is one bin of c votes and ``k - c`` bins of one
      vote. Delta is the largest value of ``1 - A`` over c from 1 to k. This value is attained.

    Source
    ------
    The sources are Korolova and others 2009 and Bun, Nissim and Stemmer 2016. Their threshold
    ``1 + 2 ln(2/delta) / epsilon`` is safe and uses about a quarter of the stated delta.

    """

    epsilon: Fraction
    delta: float
    neighbors: Neighbors
    votes: int = 1

    def __post_init__(self) -> None:
        _check(self.delta, self.votes)
        self.noise.require_drawable()

    @property
    def noise(self) -> ScalarLaplace:
        return ScalarLaplace(self.neighbors.sides * self.votes / self.epsilon)

    @property
    def threshold(self) -> int:
        """Smallest noisy count T that is released."""
        target = self.delta * (1 - PROBABILITY_MARGIN)
        reach = math.floor(-float(self.noise.scale) * math.log(2 * target))
        below = self.votes - 1 + max(0, reach)
        return below + least(lambda more: self._delta(below + more), target)

    def _delta(self, level: int) -> float:
        hidden = [math.log1p(-self.chance(c, level)) for c in range(1, self.votes + 1)]
        worst = min(h + (self.votes - c) * hidden[0] for c, h in enumerate(hidden, start=1))
        return -math.expm1(worst)

    def chance(self, count: int, level: int) -> float:
        """Return the probability that a bin is released, for at most `level` votes.

        Parameters
        ----------
        count : int
            Number of votes in the bin.
        level : int
            Threshold T.

        Returns
        -------
        float
            Probability.

        """
        decay = 1 / float(self.noise.scale)
        return math.exp(-decay * (level - count)) / (1 + math.exp(-decay))

    def __call__(self, counts: Mapping[Key, int], entropy: Entropy) -> dict[Key, int]:
        """Return the released noisy counts by key.

        Parameters
        ----------
        counts : mapping of keys to int
            Exact number of votes in each bin.
        entropy : Entropy
            Source of random bits.

        Returns
        -------
        dict of keys to int
            Noisy counts at or above the threshold.

        """
        noise = discrete_laplace(self.noise.scale, len(counts), entropy)
        return _shown(counts, noise, self.threshold)


@dataclass(frozen=True, slots=True)
class GaussianHistograms:
    """Several histograms with Gaussian noise, with at most one vote of a unit in each.

    The histograms are mu-GDP, except in bad events of probability at most `bad`
    (`accounting.with_bad_events`).

    Parameters
    ----------
    mu : float
        Gaussian cost.
    bad : float
        Probability of the bad events.
    neighbors : Neighbors
        Relation between tables.
    batch : int
        Number q of histograms.

    Notes
    -----
    **Bad event.** Exclusive bins (see `StabilityHistogram`) contain one vote. Each histogram has at
    most one exclusive bin in either table. The bad event is that an exclusive bin is released. Let
    s be the standard deviation of the noise. Discrete Gaussian noise makes this event less likely
    than continuous noise with a threshold one grid step lower (Canonne, Kamath and Steinke 2020,
    Proposition 25). So the threshold T follows from ``1 - Phi((T - 1) / s) = bad / q``.

    **Other bins.** The noise of different bins is independent. Without the bad event, the common
    bins are a Gaussian mechanism. In each histogram one vote moves (replace-one) or appears
    (add-remove). The l2 sensitivity is ``sqrt(2 q)`` or ``sqrt(q)`` votes.

    """

    mu: float
    bad: float
    neighbors: Neighbors
    batch: int = 1

    def __post_init__(self) -> None:
        _check(self.bad, self.batch)
        self.noise.require_drawable()

    @property
    def noise(self) -> ScalarGaussian:
        """Noise of each count, in units of 2^-20 votes."""
        squared = self.neighbors.sides * self.batch * (STEPS_PER_VOTE / Fraction(self.mu)) ** 2
        return ScalarGaussian(squared + ROUNDING_VARIANCE)

    @property
    def threshold(self) -> int:
        """Smallest noisy count T that is released, in units of 2^-20 votes."""
        from scipy.special import ndtri

        quantile = -float(ndtri(self.bad / self.batch * (1 - PROBABILITY_MARGIN)))
        return STEPS_PER_VOTE + max(0, math.ceil(self.noise.standard_deviation * quantile)) + 1

    def __call__(self, counts: Mapping[Key, int], entropy: Entropy) -> dict[Key, float]:
        """Return the released noisy counts by key. The keys include the histogram.

        Parameters
        ----------
        counts : mapping of keys to int
            Exact number of votes in each bin.
        entropy : Entropy
            Source of random bits.

        Returns
        -------
        dict of keys to float
            Noisy counts at or above the threshold, in votes.

        """
        noise = discrete_gaussian(self.noise.variance, len(counts), entropy)
        whole = {key: STEPS_PER_VOTE * count for key, count in counts.items()}
        return {key: n / STEPS_PER_VOTE for key, n in _shown(whole, noise, self.threshold).items()}


def _shown(counts: Mapping[Key, int], noise: AnyArray, level: int) -> dict[Key, int]:
    noisy = zip(sorted(counts), noise.tolist(), strict=True)
    sums = ((key, counts[key] + k) for key, k in noisy)
    return {key: total for key, total in sums if total >= level}


def _check(probability: float, number: int) -> None:
    check("probability", probability, Probability, MechanismError)
    check("number of votes", number, Count, MechanismError)
