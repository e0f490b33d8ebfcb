"""The number of rows, published beside what any mechanism of the product releases.

Where it is private (add/remove) it gets a small share of the budget and a law of its own, and the
mechanism keeps the rest: no mechanism knows of it (docs/proofs/count.md).

- Pure noise: epsilon is split, a twenty-fifth for the count, whose mean absolute error is then
  25 k / epsilon rows; a unit has at most k of them.
- Gaussian noise: rho is split, a sixty-fourth for the count: 4.6 k / sqrt(rho) rows. For (epsilon,
  delta) it is rho = mu^2 / 2 of the exact curve; the mechanism gets an epsilon and a delta that say
  the rest of mu^2.

Rows are counted, not persons: a person's at most k rows are what means are over. With weights it is
the sum of their shares of the largest, of which a row adds at most 1; only an intercept tells them,
so without one weighted rows have no count.
"""

from __future__ import annotations

import math
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
    round_down,
)
from dpcov.core.samplers.discrete import SMALLEST_SCALE, SMALLEST_VARIANCE
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.errors import BudgetError, MechanismError, MechanismRefused
from dpcov.mechanisms import additive, gaussian, standardized
from dpcov.mechanisms.pure import pure_epsilon

if TYPE_CHECKING:
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.core.samplers import ScalarLaw
    from dpcov.mechanisms.base import Calibrated, Mechanism
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice
    from dpcov.rows.sources.rows import Rows

OF_EPSILON, OF_RHO = Fraction(1, 25), Fraction(1, 64)
FAR = 2.0**38  # of epsilon: mu is below 2^20, the largest that is looked for


@dataclass(frozen=True, slots=True)
class WithCount:
    """Public outcome of calibrating a mechanism and the count beside it.

    `laws` are the mechanism's own; `count` that of the number of rows (None: it is not published),
    which spends `spends` in epsilon, or in rho where it is Gaussian. `least_units` is how many rows
    (persons) the mechanism takes at least.
    """

    guarantee: Guarantee
    laws: Calibrated
    count: ScalarLaw | None = None
    spends: Fraction = Fraction(0)
    least_units: int = 0

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
        least = mechanism.least_units(lattice, budget, neighbors)
        return WithCount(laws.guarantee, laws, least_units=least)
    kept, laws, stated = _kept(mechanism, lattice, budget, neighbors)
    most = lattice.unit.max_rows * per_row
    law: ScalarLaw
    if is_gaussian(laws):
        whole, extra = gaussian.concentration(mechanism.name, budget)
        spends = whole - gaussian.concentration(mechanism.name, kept)[0]
        if spends <= 0:  # float64 may not tell a mu below 1e-13 from another
            raise MechanismError("The privacy budget is too small to count rows. Use a larger one.")
        law = ScalarGaussian(max(Fraction(most) ** 2 / (2 * spends) + extra, SMALLEST_VARIANCE))
    else:
        spends = pure_epsilon(mechanism.name, budget) - pure_epsilon(mechanism.name, kept)
        law = ScalarLaplace(max(most / spends, SMALLEST_SCALE))
    return WithCount(Guarantee(stated, neighbors, lattice.unit), laws, law, spends)


def _kept(
    mechanism: Mechanism, lattice: Lattice, budget: Budget, neighbors: Neighbors
) -> tuple[Budget, Calibrated, Budget]:
    """What the mechanism keeps, its laws, and what both together state.

    Of a delta by the kind of noise that the mechanism takes; one that spends none states none. The
    second laws are of no other kind: there is no Gaussian noise for a pure budget.
    """
    stated = budget
    if isinstance(budget, ApproxDP):
        kept: Budget = _less_mu(mechanism.name, budget)
        laws = mechanism.calibrate(lattice, kept, neighbors)
        if is_gaussian(laws):
            return kept, laws, stated
        if isinstance(laws.guarantee.budget, PureDP):
            stated = PureDP(budget.epsilon)
    if isinstance(budget, ZCDP):
        kept = ZCDP(_less(budget.rho, OF_RHO))
    else:
        kept = PureDP(_less(budget.epsilon, OF_EPSILON))
    return kept, mechanism.calibrate(lattice, kept, neighbors), stated


def _less(spends: float, share: Fraction) -> float:
    """What this share leaves of an epsilon or rho."""
    left = round_down(exact(spends) * (1 - share))
    if left <= 0:
        raise MechanismError("The privacy budget is too small for the noise. Use a larger one.")
    return left


def _less_mu(name: str, budget: ApproxDP) -> ApproxDP:
    """A budget whose mu^2 is less by the count's share; the same one where it allows no mu.

    Its epsilon is less by that share as well: were it the same, its delta would be next to 0 where
    mu is large. So mu / 2 - epsilon / mu, of which delta is a tail, is hardly nearer to 0.
    """
    near = replace(budget, epsilon=min(budget.epsilon, FAR))
    try:
        rho, _ = gaussian.concentration(name, near)
    except BudgetError:
        return budget
    epsilon = near.epsilon * float(1 - OF_RHO)
    return ApproxDP(epsilon, gaussian_delta(math.sqrt(2 * rho * (1 - OF_RHO)), epsilon))


def run(mechanism: Mechanism, rows: Rows, laws: WithCount, entropy: Entropy) -> Release:
    """Draw the count's noise, let the mechanism read and release, and publish the count too."""
    if laws.count is None:
        try:
            return mechanism.run(rows, laws.laws, entropy)
        except MechanismRefused as refused:
            wanted = refused.wanted
        raise MechanismRefused(
            wanted, laws.least_units
        )  # afresh: nothing of the run is its context
    noise = laws.count.sample(entropy)
    made = mechanism.run(rows, laws.laws, entropy)
    return told(made, laws, rows.total() + noise)


def told(release: Release, laws: WithCount, count: int) -> Release:
    """The release with this noisy count, under the guarantee of both."""
    return replace(release, guarantee=laws.guarantee, published_count=count, count_noise=laws.count)


def is_gaussian(laws: Any) -> bool | None:
    """Whether calibrating a mechanism chose Gaussian noise; None where it is not the product's."""
    match laws:
        case additive.Calibration():
            return isinstance(laws.trace_alone, ScalarGaussian)
        case standardized.Calibration():
            return isinstance(laws.look, ScalarGaussian)
    return None
