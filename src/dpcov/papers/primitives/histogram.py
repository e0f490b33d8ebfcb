"""Stability histograms: noisy counts over unboundedly many bins.

Noise goes to bins that are not empty, and a noisy count is released only above a threshold, so
high that a bin which owes its existence to one unit hardly ever shows. There delta enters, nowhere
else. Bins are released in the order of their keys, whatever the order of the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from dpcov.core.parameters import Count, Probability, check
from dpcov.core.privacy import Neighbors
from dpcov.errors import MechanismError
from dpcov.papers.primitives.bounded_moments import least
from dpcov.samplers.discrete import discrete_gaussian, discrete_laplace
from dpcov.samplers.scalars import ScalarGaussian, ScalarLaplace

if TYPE_CHECKING:
    from dpcov.core.arrays import AnyArray
    from dpcov.core.entropy import Entropy

Key = TypeVar("Key", bound=Any)

SAFETY = 1e-9  # relative margin for float64 in a probability
VOTE = 2**20  # grid steps of one vote, on which the Gaussian noise lives
ROUNDING_VARIANCE = 8  # makes up for the grid: `gaussian.Gaussian`


@dataclass(frozen=True, slots=True)
class StabilityHistogram:
    r"""Histogram of votes by discrete Laplace noise: (epsilon, delta)-DP.

    A unit casts at most k = `votes` votes. With sides = 1 under add/remove, 2 under replace-one,
    the noise K has P(K = j) proportional to a^|j|, a = e^(-epsilon / (sides k)), and a bin of c
    votes shows with probability p(c) = P(c + K >= T) = a^(T-c) / (1 + a), c <= T.

    Proof. Let D, D' be neighbours. A bin that is empty in one of them holds votes of one unit only:
    call it exclusive. No exclusive bin shows with probability A = prod(1 - p(c_i)) over those of D,
    A' = prod(1 - p(c'_i)) over those of D'. The other bins differ by at most sides k votes, so
    their laws satisfy L <= e^epsilon L'. What D exceeds D' by is 1 - A where an exclusive bin
    shows, and elsewhere the integral of (A L - e^epsilon A' L')+ <= (A - A')+. Together at most
    1 - min(A, A'), where sum c_i <= k. As -ln(1 - p) is convex, the worst are one bin of c votes
    and k - c bins of one, c = 1..k: delta is the largest 1 - A of these, and attained.

    Source
    ------
    Korolova et al. 2009; Bun, Nissim and Stemmer 2016. Their threshold 1 + 2 ln(2/delta) / epsilon
    is safe, with about a quarter of the stated delta.

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
        """T: the least noisy count that shows."""
        target = self.delta * (1 - SAFETY)
        reach = math.floor(-float(self.noise.scale) * math.log(2 * target))
        below = self.votes - 1 + max(0, reach)
        return below + least(lambda more: self._delta(below + more), target)

    def _delta(self, level: int) -> float:
        hidden = [math.log1p(-self.chance(c, level)) for c in range(1, self.votes + 1)]
        worst = min(h + (self.votes - c) * hidden[0] for c, h in enumerate(hidden, start=1))
        return -math.expm1(worst)

    def chance(self, count: int, level: int) -> float:
        """Probability that a bin of at most T = `level` votes shows."""
        decay = 1 / float(self.noise.scale)
        return math.exp(-decay * (level - count)) / (1 + math.exp(-decay))

    def __call__(self, counts: Mapping[Key, int], entropy: Entropy) -> dict[Key, int]:
        """Noisy counts of the bins that show, by key."""
        noise = discrete_laplace(self.noise.scale, len(counts), entropy)
        return _shown(counts, noise, self.threshold)


@dataclass(frozen=True, slots=True)
class GaussianHistograms:
    r"""Several histograms at once, in each of which a unit casts at most one vote: Gaussian noise.

    mu-GDP but for bad events of probability at most `bad` (`accounting.with_bad_events`).

    Proof. Exclusive bins (see `StabilityHistogram`) hold one vote, and each of the q = `batch`
    histograms has at most one of them on either table; the bad event is that one shows, which
    discrete Gaussian noise makes less likely than (s the standard deviation, Canonne, Kamath and
    Steinke 2020, Prop. 25) a continuous one does from the next grid point down: 1 - Phi((T - 1) /
    s) = bad / q. Noise is independent over bins, so that without the bad event the rest is the
    Gaussian mechanism on the common bins, where a vote moves (replace-one) or appears (add/remove)
    in each histogram: an l2 sensitivity of sqrt(2 q) or sqrt(q) votes.
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
        """Noise of a count, in 2^-20 votes."""
        squared = self.neighbors.sides * self.batch * (VOTE / Fraction(self.mu)) ** 2
        return ScalarGaussian(squared + ROUNDING_VARIANCE)

    @property
    def threshold(self) -> int:
        """T: the least noisy count that shows, in 2^-20 votes."""
        from scipy.special import ndtri

        quantile = -float(ndtri(self.bad / self.batch * (1 - SAFETY)))
        return VOTE + max(0, math.ceil(self.noise.standard_deviation * quantile)) + 1

    def __call__(self, counts: Mapping[Key, int], entropy: Entropy) -> dict[Key, float]:
        """Noisy counts of the bins that show, by key; keys tell the histograms of a batch apart."""
        noise = discrete_gaussian(self.noise.variance, len(counts), entropy)
        whole = {key: VOTE * count for key, count in counts.items()}
        return {key: n / VOTE for key, n in _shown(whole, noise, self.threshold).items()}


def _shown(counts: Mapping[Key, int], noise: AnyArray, level: int) -> dict[Key, int]:
    noisy = zip(sorted(counts), noise.tolist(), strict=True)
    sums = ((key, counts[key] + k) for key, k in noisy)
    return {key: total for key, total in sums if total >= level}


def _check(probability: float, number: int) -> None:
    check("probability", probability, Probability, MechanismError)
    check("number of votes", number, Count, MechanismError)
