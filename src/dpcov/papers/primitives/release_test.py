"""Propose-test-release: a private test of an integer score."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcov.core.parameters import Probability, check
from dpcov.core.samplers.scalars import ScalarLaplace
from dpcov.errors import MechanismError
from dpcov.papers.primitives.histogram import PROBABILITY_MARGIN

if TYPE_CHECKING:
    from dpcov.core.entropy import Entropy

# Largest limit of the score. The mechanisms set rows aside one by one up to the limit.
MAX_SCORE_LIMIT = 2**20


@dataclass(frozen=True, slots=True)
class ReleaseTest:
    """Private test that passes if a score from 0 to k is small.

    The score changes by at most s between neighbouring tables. The steps after a passed test are
    (epsilon2, delta2)-DP for neighbours whose scores are both below k. The test and these steps
    together are (epsilon + epsilon2, max(delta, delta2))-DP. The costs of other steps add to this
    cost. After a refusal, nothing else may run.

    Parameters
    ----------
    epsilon : Fraction
        Epsilon of the test.

    delta : float
        Delta of the test.

    sensitivity : int
        Sensitivity s of the score.

    false_alarm : float
        Public bound on the probability of refusing a table with a score of at most `slack`.

    slack : int
        Public score that should still pass.

    Notes
    -----
    **Test.** The noise K is a discrete Laplace number with the scale ``s / epsilon``. The test
    passes if the score is below k and ``score + K <= T``. With ``a = e^(-epsilon / s)``, the tail
    probability is ``P(K >= j) = a^j / (1 + a)`` for ``j >= 0``.

    **Proof.** There are three cases:

    - Both scores are below k. The test is epsilon-DP. The probability of a pass and an event after
      it is at most ``e^(epsilon + epsilon2)`` times the probability for the neighbour, plus delta2.
    - One score is k. This table is always refused. The other score is at least ``k - s``. The other
      table passes with a probability of at most ``P(K >= k - s - T) <= delta``. The limit k is
      chosen for this inequality.
    - Both scores are k. Both tables are refused.

    Source
    ------
    The source is Dwork and Lei 2009. The code of Brown, Hopkins and Smith (2023) uses another test.
    It passes the score ``tau - 2`` with probability delta, but the score ``tau - 4`` with
    probability ``1 - (1 - delta) e^-epsilon``. At (0.5, 5e-7), the true delta of this test is
    0.384.

    """

    epsilon: Fraction
    delta: float
    sensitivity: int = 2
    false_alarm: float = 2e-3
    slack: int = 0

    def __post_init__(self) -> None:
        for name in ("delta", "false_alarm"):
            check(name, getattr(self, name), Probability, MechanismError)
        if self.sensitivity < 1 or self.slack < 0:
            raise MechanismError(
                "A test needs a sensitivity of at least 1 and a slack of at least 0."
            )
        self.noise.require_drawable()
        if self.limit > MAX_SCORE_LIMIT:
            raise MechanismError(
                f"The private test needs more than {MAX_SCORE_LIMIT} scores. Use a larger "
                "share for the test, less slack, or a larger budget."
            )

    @property
    def noise(self) -> ScalarLaplace:
        return ScalarLaplace(self.sensitivity / self.epsilon)

    @property
    def threshold(self) -> int:
        """Largest noisy score T that passes."""
        return self.slack + max(0, self._reach(self.false_alarm) - 1)

    @property
    def limit(self) -> int:
        """Score k from which a table is always refused."""
        return self.threshold + self.sensitivity + self._reach(self.delta)

    def _reach(self, probability: float) -> int:
        """Return the smallest integer j of at least 0 with ``P(K >= j) <= probability``."""
        scale = float(self.noise.scale)
        log = math.log(probability * (1 - PROBABILITY_MARGIN)) + math.log1p(math.exp(-1 / scale))
        return max(0, math.ceil(-scale * log))

    def passes(self, score: int, entropy: Entropy) -> bool:
        """Return True if the test passes.

        A mechanism can publish the result, which is noisy. It must not publish the score.
        """
        noise = self.noise.sample(entropy)
        return score < self.limit and score + noise <= self.threshold
