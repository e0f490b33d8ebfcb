"""Eigenvalues and subspaces of a covariance without bounds, from votes of random groups.

The answer of a group can be any function of its own rows, so float errors do no harm. One unit
replaces one answer, under both relations. The method comes from Kamath, Mouzakis, Singhal, Steinke
and Ullman 2022. The constants are proved here.
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
from dpcov.papers.primitives.histogram import STEPS_PER_VOTE, GaussianHistograms
from dpcov.papers.primitives.release_test import ReleaseTest
from dpcov.papers.primitives.stable_average import StableAverage

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.core.entropy import Entropy


# What the mechanism needs; part of the message of a refusal.
COVARIANCE_GROUPS_REQUIREMENT = (
    "so many rows (persons) that random groups of them have nearly the same covariance"
)
# Number of buckets of eigenvalues for each factor of 2.
BUCKETS_PER_OCTAVE = 4
# Largest ratio to the trace at which an eigenvalue counts as 0.
ZERO_EIGENVALUE_RATIO = 1e-13
# Bucket of the eigenvalue 0.
ZERO_BUCKET = -(10**6)
# Probability that a pair of groups disagrees. Source: not recorded.
PAIR_DISAGREEMENT_PROBABILITY = 1e-5
# Probability of a refusal if all groups except `slack` groups agree. Source: not recorded.
FALSE_ALARM_PROBABILITY = 2e-3


@dataclass(frozen=True, slots=True)
class EigenvalueEstimator:
    """Eigenvalues of a covariance from votes of groups: mu-GDP except in bad events.

    Each of t groups votes in d + 1 histograms: one for each of d eigenvalues, and one for the
    trace. A vote is the bucket of the group's own value. Bucket b contains the values from
    ``2^(b/4)`` to ``2^((b+1)/4)``. The value 0 has its own bucket. The answer is the lower end of
    the bucket with the most noisy votes. If no bucket is released, the estimator refuses.

    One unit moves one vote in each histogram. `GaussianHistograms` contains the proof, with a batch
    of d + 1.

    The paper uses ``t = C ln(d / beta delta) / epsilon`` groups, which is too small for the
    thresholds. dpcov uses ``t = 3 (T + 3 s)`` for the threshold T and the standard deviation s. A
    bucket with a third of the votes is then released.

    Parameters
    ----------
    dimension : int
        Number d of eigenvalues.
    mu : float
        Gaussian cost.
    bad : float
        Probability of the bad events.

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
        return math.ceil(3 * (law.threshold + 3 * law.noise.standard_deviation) / STEPS_PER_VOTE)

    def __call__(
        self, covariances: Matrix, traces: Matrix, floor: float, entropy: Entropy
    ) -> tuple[Matrix, float]:
        """Return the private eigenvalues and the private trace.

        Parameters
        ----------
        covariances : ndarray of float, shape (t, d, d)
            Covariance of each group.

        traces : ndarray of float, shape (t,)
            Trace of each group.

        floor : float
            Largest eigenvalue that counts as 0, because rounding alone can cause it.

        entropy : Entropy
            Source of random bits.

        Returns
        -------
        eigenvalues : ndarray of float, shape (d,)
            Eigenvalues in descending order.
        trace : float
            Trace.

        Raises
        ------
        MechanismRefused
            For an eigenvalue or the trace, no bucket is released.

        """
        values = np.linalg.eigvalsh(covariances)
        least = np.maximum(ZERO_EIGENVALUE_RATIO * values.sum(axis=1, keepdims=True), floor)
        values = np.where(values > least, values, 0.0)
        answers = np.concatenate([values, traces[:, None]], axis=1)
        with np.errstate(divide="ignore"):
            buckets = np.where(
                answers > 0, np.floor(BUCKETS_PER_OCTAVE * np.log2(answers)), ZERO_BUCKET
            )
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
                raise MechanismRefused(COVARIANCE_GROUPS_REQUIREMENT)
            bucket = max(counts, key=counts.__getitem__)
            found.append(0.0 if bucket == ZERO_BUCKET else 2.0 ** (bucket / BUCKETS_PER_OCTAVE))
        return np.sort(found[:-1])[::-1], found[-1]


@dataclass(frozen=True, slots=True)
class SubspaceRecovery:
    """Span of the k largest eigenvectors, from groups that agree on it.

    Each group contributes the projector on its own k largest eigenvectors. With `references`, a
    group contributes the projections of public random vectors instead, as in the paper.
    `StableAverage` averages these items. The answer is the span of the k largest left singular
    vectors of the average.

    Let the gap between the eigenvalues be ``gamma^2``. The squared distance of two projectors from
    m rows is then about ``4 gamma^2 / (1 - gamma^2)^2 m`` times a chi-square number with
    ``k (d - k)`` degrees of freedom. A large gap therefore needs a small radius and little noise.
    The privacy does not depend on the radius.

    Parameters
    ----------
    test : ReleaseTest
        Test that can refuse the groups.

    mu : float
        Gaussian cost of the average.

    group_size : int
        Planned number of rows in a group.

    references : int, optional
        Number of public random vectors.

    Notes
    -----
    **Cost.** Except in bad events, the test is epsilon-DP. It is therefore mu-GDP with
    ``mu = gdp_of_pure(epsilon)``. The average is mu-GDP with its own mu.

    **Proof.** If both scores are below the limit, or both are at the limit, `ReleaseTest` and
    `StableAverage` contain the proof. Otherwise, the table at the limit is always refused. The
    other table passes with a probability of at most `bad`. Passing is the bad event. Without the
    bad event, both tables are refused.

    """

    test: ReleaseTest
    mu: float
    group_size: int
    references: int | None = None

    @classmethod
    def of(
        cls, mu: float, bad: float, group_size: int, references: int | None, slack: int
    ) -> SubspaceRecovery:
        """Return an estimator with a total Gaussian cost of mu.

        The test uses 4/5 of the squared mu, and the noise uses the rest.

        Parameters
        ----------
        mu : float
            Total Gaussian cost.

        bad : float
            Probability of the bad events.

        group_size : int
            Planned number of rows in a group.

        references : int, optional
            Number of public random vectors.

        slack : int
            Score that should still pass the test.

        Returns
        -------
        SubspaceRecovery
            Estimator.

        """
        allowed = mu * math.sqrt(0.8) * (1 - 1e-9)
        epsilon = allowed * math.sqrt(2 / math.pi)
        while gdp_of_pure(epsilon) > allowed:
            epsilon *= 0.99
        test = ReleaseTest(Fraction(epsilon), bad, 2, FALSE_ALARM_PROBABILITY, slack)
        return cls(test, mu * math.sqrt(0.2), group_size, references)

    @property
    def groups(self) -> int:
        """Number of groups."""
        return 4 * self.test.limit + 2

    def average(self, dimension: int, rank: int, ratio: float) -> StableAverage:
        """Return the average of projectors.

        Parameters
        ----------
        dimension : int
            Number d of features.
        rank : int
            Number k of eigenvectors.
        ratio : float
            Parameter gamma of the gap, at most 1.

        Returns
        -------
        StableAverage
            Average with a radius for this gap.

        """
        from scipy.stats import chi2

        largest = float(chi2.isf(PAIR_DISAGREEMENT_PROBABILITY, rank * (dimension - rank)))
        apart = 2 * math.sqrt(largest / self.group_size) * ratio / max(1 - ratio**2, 0.5)
        stretch = 1.0 if self.references is None else 1.5 * math.sqrt(self.references)
        return StableAverage(apart * stretch, self.test, self.mu)

    def __call__(self, covariances: Matrix, rank: int, ratio: float, entropy: Entropy) -> Matrix:
        """Return a private orthonormal basis of the span.

        Parameters
        ----------
        covariances : ndarray of float, shape (t, d, d)
            Covariance of each group.

        rank : int
            Number k of eigenvectors.

        ratio : float
            Parameter gamma of the gap.

        entropy : Entropy
            Source of random bits.

        Returns
        -------
        ndarray of float, shape (d, k)
            Basis in the columns.

        Raises
        ------
        MechanismError
            There are too few groups.
        MechanismRefused
            The groups disagree.

        """
        t, d, _ = covariances.shape
        if t < self.groups:
            raise MechanismError(f"There are {t} groups, but {self.groups} are necessary.")
        vectors = np.linalg.eigh(covariances)[1][:, :, d - rank :]
        items = vectors @ vectors.transpose(0, 2, 1)
        if self.references is not None:
            public = np.random.default_rng(entropy.words(4).tolist())
            items = items @ public.normal(size=(d, self.references))
        try:
            mean = self.average(d, rank, ratio)(items.reshape(t, -1), entropy)
        except MechanismRefused:
            raise MechanismRefused(COVARIANCE_GROUPS_REQUIREMENT) from None
        return np.linalg.svd(mean.reshape(d, -1))[0][:, :rank]
