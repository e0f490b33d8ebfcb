"""What random groups of rows tell of a covariance without bounds: its eigenvalues, its subspaces.

Every group's answer may be any function of its own rows, so floats do no harm, and one unit changes
one answer, by replacement, under both relations. Kamath, Mouzakis, Singhal, Steinke and Ullman
2022, with proved constants.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.privacy import Neighbors
from dpcov.errors import MechanismError, MechanismRefused
from dpcov.papers.accounting import gdp_of_pure
from dpcov.papers.primitives.histogram import VOTE, GaussianHistograms
from dpcov.papers.primitives.release_test import ReleaseTest
from dpcov.papers.primitives.stable_average import StableAverage

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.core.entropy import Entropy


WANTED = "so many rows (persons) that random groups of them have nearly the same covariance"
BUCKETS = 4  # of eigenvalues, for each factor of 2
NOTHING = 1e-13  # of the trace: smaller eigenvalues are 0
ZERO = -(10**6)  # bucket of 0
RARE = 1e-5  # share of pairs of groups that disagree
FALSE_ALARM = 2e-3  # chance of refusing where all groups but `slack` agree


@dataclass(frozen=True, slots=True)
class EigenvalueEstimator:
    r"""Eigenvalues of a covariance by votes of groups: mu-GDP but for bad events of chance `bad`.

    Each of t groups votes, in one histogram for each of d eigenvalues and one for the trace, for
    the bucket [2^(b/4), 2^((b+1)/4)) that its own value lies in, or {0}. One unit moves one vote in
    each: `GaussianHistograms` with a batch of d + 1 has the proof. The answer is the lower end of
    the bucket with most noisy votes; none shows: refused.

    Differs from the paper's t = C ln(d / beta delta) / epsilon, which can't clear the thresholds:
    t = 3 (T + 3 s), so that a bucket with a third of the votes shows.
    """

    dimension: int
    mu: float
    bad: float

    @property
    def histograms(self) -> GaussianHistograms:
        return GaussianHistograms(self.mu, self.bad, Neighbors.REPLACE_ONE, self.dimension + 1)

    @property
    def groups(self) -> int:
        """Number of groups that vote."""
        law = self.histograms
        return math.ceil(3 * (law.threshold + 3 * law.noise.standard_deviation) / VOTE)

    def __call__(
        self, covariances: Matrix, traces: Matrix, floor: float, entropy: Entropy
    ) -> tuple[Matrix, float]:
        """(d,) eigenvalues, descending, and the trace, of (t, d, d) covariances and (t,) traces.

        Eigenvalues up to `floor`, which rounding alone may cause, are 0.

        Raises
        ------
        MechanismRefused : for some eigenvalue no bucket shows.

        """
        values = np.linalg.eigvalsh(covariances)
        least = np.maximum(NOTHING * values.sum(axis=1, keepdims=True), floor)
        values = np.where(values > least, values, 0.0)
        answers = np.concatenate([values, traces[:, None]], axis=1)
        with np.errstate(divide="ignore"):
            buckets = np.where(answers > 0, np.floor(BUCKETS * np.log2(answers)), ZERO)
        votes = Counter(
            (i, bucket)
            for group in buckets.astype(np.int64).tolist()
            for i, bucket in enumerate(group)
        )
        shown = self.histograms(votes, entropy)
        found = []
        for i in range(self.dimension + 1):
            counts = {bucket: count for (j, bucket), count in shown.items() if j == i}
            if not counts:
                raise MechanismRefused(WANTED)
            bucket = max(counts, key=counts.__getitem__)
            found.append(0.0 if bucket == ZERO else 2.0 ** (bucket / BUCKETS))
        return np.sort(found[:-1])[::-1], found[-1]


@dataclass(frozen=True, slots=True)
class SubspaceRecovery:
    r"""Span of the largest k eigenvectors, by the average of groups that agree on it.

    Items are the groups' projectors on theirs (as the paper has it: images of public random
    vectors under them, if `references` is set), averaged by `StableAverage`; the answer is the span
    of the k largest left singular vectors. Below a gap of gamma^2 between the eigenvalues the
    squared distance of two projectors from m rows is about 4 gamma^2 / (1 - gamma^2)^2 m times a
    chi-square(k (d - k)), so the radius, and with it the noise, is small where the gap is large;
    privacy does not depend on it.

    Costs: but for bad events of chance `bad` the test is epsilon-DP, hence mu-GDP with mu =
    `gdp_of_pure(epsilon)`, and the average is mu-GDP. Proof: where both tables score below the
    limit, or both at it, that is `ReleaseTest` and `StableAverage`. Else the one at the limit is
    always refused, the other passes with probability at most `bad`: passing is the bad event,
    without which both are refused.
    """

    test: ReleaseTest
    mu: float
    group_size: int
    references: int | None = None

    @classmethod
    def of(
        cls, mu: float, bad: float, group_size: int, references: int | None, slack: int
    ) -> SubspaceRecovery:
        """At a total Gaussian cost of mu: 4/5 of its square for the test, the rest for noise."""
        allowed = mu * math.sqrt(0.8) * (1 - 1e-9)
        epsilon = allowed * math.sqrt(2 / math.pi)
        while gdp_of_pure(epsilon) > allowed:
            epsilon *= 0.99
        test = ReleaseTest(Fraction(epsilon), bad, 2, FALSE_ALARM, slack)
        return cls(test, mu * math.sqrt(0.2), group_size, references)

    @property
    def groups(self) -> int:
        """Number of groups that are asked."""
        return 4 * self.test.limit + 2

    def average(self, dimension: int, rank: int, ratio: float) -> StableAverage:
        """How projectors of this rank are averaged, `ratio` = gamma <= 1 being that of the gap."""
        from scipy.stats import chi2

        largest = float(chi2.isf(RARE, rank * (dimension - rank)))
        apart = 2 * math.sqrt(largest / self.group_size) * ratio / max(1 - ratio**2, 0.5)
        stretch = 1.0 if self.references is None else 1.5 * math.sqrt(self.references)
        return StableAverage(apart * stretch, self.test, self.mu)

    def __call__(self, covariances: Matrix, rank: int, ratio: float, entropy: Entropy) -> Matrix:
        """(d, k) orthonormal basis, from (t, d, d) covariances.

        Raises
        ------
        MechanismRefused : the groups disagree.

        """
        t, d, _ = covariances.shape
        if t < self.groups:
            raise MechanismError(f"{self.groups} groups are needed, not {t}.")
        vectors = np.linalg.eigh(covariances)[1][:, :, d - rank :]
        items = vectors @ vectors.transpose(0, 2, 1)
        if self.references is not None:
            public = np.random.default_rng(entropy.words(4).tolist())
            items = items @ public.normal(size=(d, self.references))
        try:
            mean = self.average(d, rank, ratio)(items.reshape(t, -1), entropy)
        except MechanismRefused:
            raise MechanismRefused(WANTED) from None
        return np.linalg.svd(mean.reshape(d, -1))[0][:, :rank]
