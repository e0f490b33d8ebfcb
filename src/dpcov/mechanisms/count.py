"""The number of rows, published beside what any mechanism of the product releases.

Where it is private (add/remove) it gets a small share of the budget and a law of its own, and the
mechanism keeps the rest: no mechanism knows of it (docs/proofs/count.md).

- Pure noise: epsilon is split, a twenty-fifth for the count, whose mean absolute error is then
  25 k / epsilon rows; a unit has at most k of them.
- Gaussian noise: rho is split, a sixty-fourth for the count: 4.6 k / sqrt(rho) rows. For (epsilon,
  delta) it is rho = mu^2 / 2 of the exact curve; the mechanism gets a smaller delta, which says the
  rest of mu^2.

Rows are counted, not persons: a person's at most k rows are what means are over. With weights it is
the sum of their shares of the largest, of which a row adds at most 1; only an intercept tells them,
so without one weighted rows have no count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpcov.core import registry
from dpcov.core.privacy import (
    ZCDP,
    ApproxDP,
    Guarantee,
    Neighbors,
    PureDP,
    exact,
    gaussian_delta,
    gaussian_mu,
    round_down,
)
from dpcov.errors import BudgetError
from dpcov.mechanisms import additive, gaussian, ladder, standardized
from dpcov.mechanisms.pure import pure_epsilon
from dpcov.samplers.discrete import SMALLEST_SCALE, SMALLEST_VARIANCE
from dpcov.samplers.scalars import ScalarGaussian, ScalarLaplace

if TYPE_CHECKING:
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.mechanisms.base import Calibrated, Mechanism
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice
    from dpcov.samplers import ScalarLaw
    from dpcov.sources.rows import Rows

OF_EPSILON, OF_RHO = Fraction(1, 25), Fraction(1, 64)


@dataclass(frozen=True, slots=True)
class WithCount:
    """Public outcome of calibrating a mechanism and the count beside it.

    `laws` are the mechanism's own; `count` that of the number of rows (None: it is not published),
    which spends `spends` in epsilon, or in rho where it is Gaussian.
    """

    guarantee: Guarantee
    laws: Calibrated
    count: ScalarLaw | None = None
    spends: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.count is not None:
            self.count.require_drawable()


def calibrated(
    mechanism: Mechanism, lattice: Lattice, budget: Budget, neighbors: Neighbors, per_row: int
) -> WithCount:
    """Split the budget, and calibrate both; refuses before anything is spent.

    Papers' mechanisms keep their budget whole. So do all under replace-one, where the number of
    units is public.

    Parameters
    ----------
    per_row : `units_per_row` of the schema.

    """
    if neighbors != Neighbors.ADD_REMOVE or mechanism.name in registry.MECHANISMS or not per_row:
        laws = mechanism.calibrate(lattice, budget, neighbors)
        return WithCount(laws.guarantee, laws)
    rest, laws, stated = _rest(mechanism, lattice, budget, neighbors)
    guarantee = Guarantee(stated, neighbors, lattice.unit)
    most = lattice.unit.max_rows * per_row
    if is_gaussian(laws):
        whole, extra = gaussian.concentration(mechanism.name, budget)
        spends = whole - gaussian.concentration(mechanism.name, rest)[0]
        variance = Fraction(most) ** 2 / (2 * spends) + extra
        return WithCount(guarantee, laws, ScalarGaussian(max(variance, SMALLEST_VARIANCE)), spends)
    spends = pure_epsilon(mechanism.name, budget) - pure_epsilon(mechanism.name, rest)
    scale = max(most / spends, SMALLEST_SCALE)
    return WithCount(guarantee, laws, ScalarLaplace(scale), spends)


def _rest(
    mechanism: Mechanism, lattice: Lattice, budget: Budget, neighbors: Neighbors
) -> tuple[Budget, Calibrated, Budget]:
    """What the mechanism keeps, its laws, and what both together state.

    Of a delta by the kind of noise that the mechanism takes; one that spends none states none.
    """
    stated = budget
    if isinstance(budget, ApproxDP):
        rest: Budget = _less_delta(budget)
        laws = mechanism.calibrate(lattice, rest, neighbors)
        if is_gaussian(laws):
            return rest, laws, stated
        if isinstance(laws.guarantee.budget, PureDP):
            stated = laws.guarantee.budget
    if isinstance(budget, ZCDP):
        rest = ZCDP(round_down(exact(budget.rho) * (1 - OF_RHO)))
    else:
        rest = PureDP(round_down(exact(budget.epsilon) * (1 - OF_EPSILON)))
    return rest, mechanism.calibrate(lattice, rest, neighbors), stated


def _less_delta(budget: ApproxDP) -> ApproxDP:
    """The budget whose mu^2 is less by the count's share; the same where it allows no mu."""
    try:
        mu = gaussian_mu(budget.epsilon, budget.delta)
        left = mu * float(1 - OF_RHO) ** 0.5
        return ApproxDP(budget.epsilon, min(gaussian_delta(left, budget.epsilon), budget.delta))
    except BudgetError:
        return budget


def run(mechanism: Mechanism, rows: Rows, laws: WithCount, entropy: Entropy) -> Release:
    """Draw the count's noise, let the mechanism read and release, and publish the count too."""
    if laws.count is None:
        return mechanism.run(rows, laws.laws, entropy)
    noise = laws.count.sample(entropy)
    made = mechanism.run(rows, laws.laws, entropy)
    return told(made, laws, rows.total() + noise)


def told(release: Release, laws: WithCount, count: int) -> Release:
    """The release with this noisy count, under the guarantee of both."""
    return replace(release, guarantee=laws.guarantee, published_count=count, count_noise=laws.count)


def is_gaussian(laws: Any) -> bool | None:
    """Whether calibrating a mechanism chose Gaussian noise; None where it is not the product's."""
    match laws:
        case additive.Calibration() | ladder.Calibration():
            return isinstance(laws.trace_alone, ScalarGaussian)
        case standardized.Calibration():
            return isinstance(laws.look, ScalarGaussian)
    return None
