"""An adversary against a ledger who chooses each release after all earlier answers, exactly.

Each release answers by randomised response. A response is correct with probability
e^x / (1 + e^x), where x is a multiple of `STEP`. It is a function of the sign of one Gaussian
number, so it has the mu of `gdp_of_pure`. Some releases disclose everything with a small
probability; they have an epsilon and a delta, and no mu. A last Gaussian release can use all of
the mu^2 that is left; its excess has a closed form. Dynamic programming finds the best strategy,
because the loss so far and the numbers of releases of each kind are all that matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from scipy.special import ndtr

from dpcov.core.ledger_rule import Count, Rule, Spend
from dpcov.core.privacy import ApproxDP, PureDP, gaussian_epsilon
from dpcov.papers.accounting import gdp_of_pure

STEP = 0.25  # privacy loss of the smallest release
BUDGET = ApproxDP(1.0, 0.05)
# Largest number of releases before the last Gaussian release.
MOST_RELEASES = 12


@dataclass(frozen=True)
class Release:
    """One kind of release: what the ledger sees, the loss in steps, and the leak.

    Parameters
    ----------
    spend : Spend
        Cost that the ledger sees.

    jump : int
        Privacy loss of an answer, in steps.

    leak : float
        Probability that the release discloses everything.

    """

    spend: Spend
    jump: int
    leak: float = 0.0


def gaussian(jump: int, delta: float) -> Release:
    """Return a response as a Gaussian release that states its epsilon at this delta."""
    mu = gdp_of_pure(jump * STEP)
    return Release(Spend(ApproxDP(gaussian_epsilon(mu, delta), delta), mu), jump)


def pure(jump: int) -> Release:
    """Return a response as a pure release."""
    return Release(Spend(PureDP(jump * STEP)), jump)


def leaking(epsilon: float, delta: float) -> Release:
    """Return a release that says nothing, or everything with probability `delta`."""
    return Release(Spend(ApproxDP(epsilon, delta)), 0, delta)


def best_excess(
    admits: Callable[[list[Spend]], bool],
    releases: Sequence[Release],
    rest: Callable[[list[Spend]], float] = lambda spends: 0.0,
) -> float:
    """Return the largest P(E) - e^epsilon Q(E) of the adversary.

    Parameters
    ----------
    admits : callable
        Filter of the ledger. It must not depend on the order of the releases.

    releases : sequence of Release
        Kinds of releases.

    rest : callable
        Function from the costs so far to the largest mu of one last Gaussian release.

    Returns
    -------
    float
        Delta that the adversary reaches at the epsilon of `BUDGET`.

    """

    def spends(numbers: tuple[int, ...]) -> list[Spend]:
        pairs = zip(numbers, releases, strict=True)
        return [one.spend for number, one in pairs for _ in range(number)]

    @cache
    def admitted(numbers: tuple[int, ...]) -> bool:
        return admits(spends(numbers))

    @cache
    def last(numbers: tuple[int, ...]) -> float:
        return rest(spends(numbers))

    @cache
    def value(numbers: tuple[int, ...], loss: int) -> float:
        """Return the best excess for each unit of Q, after a loss of so many steps."""
        found = max(0.0, math.exp(loss * STEP) - math.exp(BUDGET.epsilon))
        if (mu := last(numbers)) > 0:
            found = max(found, math.exp(loss * STEP) * delta_of(mu, BUDGET.epsilon - loss * STEP))
        if sum(numbers) == MOST_RELEASES:
            return found
        for at, one in enumerate(releases):
            more = (*numbers[:at], numbers[at] + 1, *numbers[at + 1 :])
            if admitted(more):
                right = 1 / (1 + math.exp(-one.jump * STEP))
                up, down = value(more, loss + one.jump), value(more, loss - one.jump)
                honest = (1 - right) * up + right * down
                found = max(found, one.leak * math.exp(loss * STEP) + (1 - one.leak) * honest)
        return found

    return value((0,) * len(releases), 0)


def delta_of(mu: float, epsilon: float) -> float:
    """Return the delta of Gaussian noise at an epsilon of any sign (Balle and Wang 2018)."""
    upper, lower = ndtr(mu / 2 - epsilon / mu), ndtr(-mu / 2 - epsilon / mu)
    return float(upper - math.exp(epsilon) * lower)


def rest_of(pure_part: float = 0.0) -> Callable[[list[Spend]], float]:
    """Return the function that gives the mu that a Gaussian ledger with this reserve has left."""
    rule = Rule(BUDGET, Count.GAUSSIAN, pure_part)

    def rest(spends: list[Spend]) -> float:
        if any(rule.refusal(spend) for spend in spends):
            return 0.0
        return math.sqrt(max(0, rule.balance(spends).left["mu_squared"]))

    return rest


def lesser(spends: list[Spend]) -> bool:
    """Admit what one of two filters admits: sums, or the mu^2 of Gaussian noise. A control."""
    return any(Rule(BUDGET, count).admits(spends) for count in Count)


def by_request(spends: list[Spend]) -> bool:
    """Count releases with a mu by mu^2, and the others by sums, in one budget. A control."""
    with_mu = [spend for spend in spends if spend.mu is not None]
    without = [spend for spend in spends if spend.mu is None]
    gaussian_part = Rule(BUDGET, Count.GAUSSIAN).admits(with_mu)
    return gaussian_part and Rule(BUDGET).admits(without)
