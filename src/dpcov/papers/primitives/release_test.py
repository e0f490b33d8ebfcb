"""Propose-test-release on an integer score."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcov.core.parameters import Probability, check
from dpcov.core.samplers.scalars import ScalarLaplace
from dpcov.errors import MechanismError

if TYPE_CHECKING:
    from dpcov.core.entropy import Entropy

LARGEST_LIMIT = 2**20  # rows are set aside one by one up to it
SAFETY = 1e-9  # relative margin for float64 in a probability


@dataclass(frozen=True, slots=True)
class ReleaseTest:
    r"""Private test whether a score in 0..k is small enough to go on.

    The score changes by at most s = `sensitivity` between neighbours, and what follows a pass is
    (epsilon2, delta2)-DP for neighbours that both score below the limit k. Test and release
    together are (epsilon + epsilon2, max(delta, delta2))-DP; other steps add to that, and nothing
    may run after a refusal.

    Passes iff score < k and score + K <= T, K discrete Laplace of scale s / epsilon: with
    a = e^(-epsilon / s), P(K >= j) = a^j / (1 + a) for j >= 0.

    Proof. Both scores below k: the test is epsilon-DP, and P(pass) (e^epsilon2 Q + delta2) <=
    e^(epsilon + epsilon2) P'(pass) Q + delta2. One score k: that table is always refused; the other
    scores at least k - s and passes with probability at most P(K >= k - s - T) <= delta, which k is
    chosen for, so the two differ by at most delta. Both k: both refused.

    Parameters
    ----------
    epsilon, delta : cost of the test.
    sensitivity : s, of the score.
    false_alarm : probability at most of refusing a table that scores `slack` or less. Public.
    slack : score that shall still pass. Public.

    Source
    ------
    Dwork and Lei 2009. The test of Brown, Hopkins and Smith's code (2023) passes a score of
    tau - 2 with probability delta but tau - 4 with 1 - (1 - delta) e^-epsilon: at (.5, 5e-7) its
    true delta is .384.

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
            raise MechanismError("A test needs a sensitivity of at least 1 and a slack of 0.")
        self.noise.require_drawable()
        if self.limit > LARGEST_LIMIT:
            raise MechanismError(
                f"The private test would go through more than {LARGEST_LIMIT} scores. Give it a "
                "larger share, less slack, or a larger budget."
            )

    @property
    def noise(self) -> ScalarLaplace:
        return ScalarLaplace(self.sensitivity / self.epsilon)

    @property
    def threshold(self) -> int:
        """T: the largest noisy score that passes."""
        return self.slack + max(0, self._reach(self.false_alarm) - 1)

    @property
    def limit(self) -> int:
        """k: the score from which a table is always refused."""
        return self.threshold + self.sensitivity + self._reach(self.delta)

    def _reach(self, probability: float) -> int:
        """Least j >= 0 with P(K >= j) <= probability."""
        scale = float(self.noise.scale)
        log = math.log(probability * (1 - SAFETY)) + math.log1p(math.exp(-1 / scale))
        return max(0, math.ceil(-scale * log))

    def passes(self, score: int, entropy: Entropy) -> bool:
        """Whether to go on; `score` is sensitive, the answer is not."""
        noise = self.noise.sample(entropy)
        return score < self.limit and score + noise <= self.threshold
