"""The noisy number of rows, which every core mechanism publishes with its release.

Under add-remove the number of rows is private. The count then gets a small fraction of the budget
and its own noise, and the mechanism keeps the rest. The proof is in docs/proofs/count.md.

- Pure noise: the count gets 1/25 of epsilon. Its mean absolute error is 25 k / epsilon rows if a
  privacy unit has at most k rows.
- Gaussian noise: the count gets 1/64 of rho. Its mean absolute error is 4.6 k / sqrt(rho) rows.
- (epsilon, delta): the count gets 1/64 of rho = mu^2 / 2, where mu comes from the exact curve of
  the Gaussian mechanism. The mechanism gets an epsilon and a delta for the rest of mu^2.

The count is a number of rows and not of persons, because means are averages over rows. With weights
the count is the sum of the weights divided by the largest allowed weight. Each row then adds at
most 1. Weighted rows without an intercept have no count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpcov.core import registry
from dpcov.core.accounting import root_up
from dpcov.core.privacy import (
    ZCDP,
    ApproxDP,
    Guarantee,
    Neighbors,
    PureDP,
    exact,
    gaussian_delta,
    round_down,
)
from dpcov.core.samplers.discrete import MIN_SCALE, MIN_VARIANCE
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.errors import BudgetError, MechanismError, MechanismRefused
from dpcov.mechanisms import gaussian
from dpcov.mechanisms.pure import pure_epsilon
from dpcov.published.costs import rounds_of
from dpcov.published.kinds import NoisyCount

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.core.samplers import ScalarLaw
    from dpcov.mechanisms.base import Calibrated, Mechanism
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice
    from dpcov.rows.sources.rows import Rows

# Fractions of epsilon and of rho that the count spends. Source: with half or twice a value, no
# error of means, variances, correlations or coefficients differs by more than 4%, with a standard
# error of 4% (`make bench NAME=constants`).
COUNT_EPSILON_SHARE, COUNT_RHO_SHARE = Fraction(1, 25), Fraction(1, 64)
# Largest epsilon. With it, mu is below 2^20, the largest value that the search for mu allows.
MAX_COUNT_EPSILON = 2.0**38


@dataclass(frozen=True, slots=True)
class WithCount:
    """Calibration of a mechanism together with the count. Everything here is public.

    Attributes
    ----------
    guarantee : Guarantee
        Guarantee of the mechanism and the count together.

    laws : Calibrated
        Calibration of the mechanism.

    count : ScalarLaw or None
        Noise distribution of the number of rows. None if dpcov publishes no count.

    spends : Fraction
        Cost of the count: in rho for Gaussian noise, otherwise in epsilon.

    least_units : int
        Least number of rows (persons) that the mechanism needs.

    mu : float or None
        Mu of all Gaussian noise together, rounded up. None if the noise has no mu.

    """

    guarantee: Guarantee
    laws: Calibrated
    count: ScalarLaw | None = None
    spends: Fraction = Fraction(0)
    least_units: int = 0
    mu: float | None = None

    def __post_init__(self) -> None:
        if self.count is not None:
            self.count.require_drawable()


def calibrated(
    mechanism: Mechanism,
    lattice: Lattice,
    budget: Budget,
    neighbors: Neighbors,
    per_row: int,
    *,
    with_mu: bool = False,
) -> WithCount:
    """Split the budget between the mechanism and the count, and calibrate both.

    Mechanisms from papers keep the whole budget. Under replace-one every mechanism keeps the whole
    budget, because the number of privacy units is public.

    Parameters
    ----------
    mechanism : Mechanism
        Mechanism of the release.

    lattice : Lattice
        Quantised rows, with their bounds.

    budget : Budget
        Budget of the mechanism and the count together.

    neighbors : Neighbors
        Relation between neighbouring tables.

    per_row : int
        Result of `units_per_row` for the schema.

    with_mu : bool
        True if all noise must be Gaussian with a known mu.

    Returns
    -------
    WithCount
        Calibration of both.

    Raises
    ------
    MechanismError
        The mechanism cannot keep the budget. No budget was spent.

    """

    def calibrate(part: Budget) -> Calibrated:
        how = mechanism.calibrate_gaussian if with_mu else mechanism.calibrate
        return how(lattice, part, neighbors)

    if (
        neighbors != Neighbors.ADD_REMOVE
        or mechanism.name in registry.PAPER_MECHANISMS
        or not per_row
    ):
        laws = calibrate(budget)
        least = mechanism.least_units(lattice, budget, neighbors)
        return WithCount(laws.guarantee, laws, least_units=least, mu=_mu(laws))
    kept, laws, stated = _kept(mechanism.name, budget, calibrate)
    most = lattice.unit.max_rows * per_row
    law: ScalarLaw
    if is_gaussian(laws):
        whole, extra = gaussian.concentration(mechanism.name, budget, rounded=with_mu)
        spends = whole - gaussian.concentration(mechanism.name, kept)[0]
        if spends <= 0:  # float64 can round two values of mu below 1e-13 to the same number
            raise MechanismError(
                "The privacy budget is too small to count the rows. Choose a usual value: epsilon "
                "from 0.1 to 3. Nothing was spent."
            )
        law = ScalarGaussian(max(Fraction(most) ** 2 / (2 * spends) + extra, MIN_VARIANCE))
    else:
        spends = pure_epsilon(mechanism.name, budget) - pure_epsilon(mechanism.name, kept)
        law = ScalarLaplace(max(most / spends, MIN_SCALE))
    guarantee = Guarantee(stated, neighbors, lattice.unit)
    return WithCount(guarantee, laws, law, spends, mu=_mu(laws, spends))


def _mu(laws: Calibrated, rho_of_count: Fraction = Fraction(0)) -> float | None:
    """Return the mu of a calibration and of the count together, or None."""
    square: Fraction | None = getattr(laws, "mu_squared", None)
    return None if square is None else root_up(square + 2 * rho_of_count)


def _kept(
    name: str, budget: Budget, calibrate: Callable[[Budget], Calibrated]
) -> tuple[Budget, Calibrated, Budget]:
    """Return the mechanism's part of the budget, its calibration, and the total budget.

    For an (epsilon, delta) budget, the split depends on the noise of the mechanism. If the
    mechanism uses Laplace noise, the total has no delta.
    """
    stated = budget
    if isinstance(budget, ApproxDP):
        kept: Budget = _less_mu(name, budget)
        laws = calibrate(kept)
        if is_gaussian(laws):
            return kept, laws, stated
        if isinstance(laws.guarantee.budget, PureDP):
            stated = PureDP(budget.epsilon)
    if isinstance(budget, ZCDP):
        kept = ZCDP(_less(budget.rho, COUNT_RHO_SHARE))
    else:
        kept = PureDP(_less(budget.epsilon, COUNT_EPSILON_SHARE))
    return kept, calibrate(kept), stated


def _less(spends: float, share: Fraction) -> float:
    """Return an epsilon or rho less this fraction, rounded down."""
    left = round_down(exact(spends) * (1 - share))
    if left <= 0:
        raise MechanismError(
            f"dpcov cannot generate noise for the budget {spends:g}. Choose a usual value: epsilon "
            "from 0.1 to 3. Nothing was spent."
        )
    return left


def _less_mu(name: str, budget: ApproxDP) -> ApproxDP:
    """Return an (epsilon, delta) budget whose mu^2 is smaller by the count's fraction.

    The function returns the given budget if no mu fits the budget. The epsilon shrinks by the
    same fraction as mu^2. With the full epsilon, a large mu would need a delta near 0.
    """
    near = replace(budget, epsilon=min(budget.epsilon, MAX_COUNT_EPSILON))
    try:
        rho, _ = gaussian.concentration(name, near)
    except BudgetError:
        return budget
    epsilon = near.epsilon * float(1 - COUNT_RHO_SHARE)
    return ApproxDP(epsilon, gaussian_delta(math.sqrt(2 * rho * (1 - COUNT_RHO_SHARE)), epsilon))


def run(mechanism: Mechanism, rows: Rows, laws: WithCount, entropy: Entropy) -> Release:
    """Run the mechanism, and add the noisy number of rows to its release."""
    if laws.count is None:
        try:
            return mechanism.run(rows, laws.laws, entropy)
        except MechanismRefused as refused:
            wanted = refused.wanted
        raise MechanismRefused(
            wanted, laws.least_units
        )  # a new error outside the except block, so that it has no private context
    noise = laws.count.sample(entropy)
    made = mechanism.run(rows, laws.laws, entropy)
    return with_count(made, laws, rows.total() + noise)


def with_count(release: Release, laws: WithCount, count: int) -> Release:
    """Return the release with a noisy count and with the guarantee of both."""
    if laws.count is None:
        return release
    answer = NoisyCount(count, laws.count)
    counted = rounds_of([("count", answer)], release.schema, laws.guarantee)
    return replace(release, guarantee=laws.guarantee, rounds=(*release.rounds, *counted))


def is_gaussian(laws: Any) -> bool | None:
    """Return True if a calibration uses Gaussian noise, or None if this is not known.

    Calibrations of mechanisms from papers have no attribute `is_gaussian`.
    """
    found: bool | None = getattr(laws, "is_gaussian", None)
    return found
