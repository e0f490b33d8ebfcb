"""Compare the loss that the rounds of the default spend with the loss that the release states.

Run it with `make bench NAME=slack`. The losses of all rounds are composed by dp-accounting, from
the noise that dpcov draws and from the sensitivities of the proofs. No figure of the privacy
accounting of dpcov enters. Each row has the smallest and the largest ratio over all branches.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import Any

import dp_accounting
from dp_accounting.pld import privacy_loss_distribution
from scipy.optimize import brentq

from dpcov.core.privacy import ZCDP, ApproxDP, Budget, Neighbors, PureDP
from dpcov.core.samplers.scalars import ScalarLaplace
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.mechanisms.choice import choose
from dpcov.mechanisms.count import WithCount
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema
from ledger_mixes import Part, parts
from results import Kept, show

# Width of the grid of privacy losses, as a fraction of the stated loss.
GRID = 2e-5
# Largest number of parts of a release. The grid adds at most its width to the loss of each part.
MAX_PARTS = 7
# Smallest accepted ratio for usual budgets.
LEAST = 0.99
# With a delta, Gaussian noise has an extra variance of 8 (docs/proofs/release.md, section 6c). At a
# large epsilon this is much of the variance of a count, and the counts spend less than their part.
LEAST_OF_LARGE, LARGE_EPSILON = 0.95, 1.0
# Delta at which a rho is compared.
DELTA_OF_RHO = 1e-6
BUDGETS: tuple[Budget, ...] = (
    PureDP(0.1),
    PureDP(1.0),
    PureDP(10.0),
    ZCDP(0.005),
    ZCDP(0.5),
    ApproxDP(0.1, 1e-9),
    ApproxDP(1.0, 1e-6),
    ApproxDP(3.0, 1e-6),
    ApproxDP(10.0, 1e-6),
)
COLUMNS = (1, 5, 50)
KINDS = {PureDP: "epsilon", ZCDP: "rho", ApproxDP: "epsilon and delta"}


def schema(columns: int) -> Schema:
    """Return a schema of numbers."""
    number = {"kind": "number", "lower": -1, "upper": 1, "missing": "none"}
    return Schema.parse({"version": 3, "columns": {f"x{at}": number for at in range(columns)}})


def composed(drawn: list[Part], width: float, *, from_above: bool) -> Any:
    """Compose the losses of parts, and round all losses up or down to a grid.

    Parameters
    ----------
    drawn : list of Part
        Parts of a release.

    width : float
        Width of the grid, in epsilon.

    from_above : bool
        True to round up.

    Returns
    -------
    PrivacyLossDistribution
        Distribution of the loss of all parts.

    """
    whole: Any = None
    for part in drawn:
        one = _loss(part, width, from_above)
        whole = one if whole is None else whole.compose(one, tail_mass_truncation=0)
    return whole


def _loss(part: Part, grid: float, from_above: bool) -> Any:
    match part.law:
        case ScalarLaplace():
            noise = part.law.scale / part.absolute
        case WishartDifference():
            noise = 2 * part.law.scale / part.absolute
        case _:
            return privacy_loss_distribution.from_gaussian_mechanism(
                float(part.law.variance / part.squared) ** 0.5,
                value_discretization_interval=grid,
                pessimistic_estimate=from_above,
                use_connect_dots=from_above,  # dp-accounting has no such estimate from below
            )
    return privacy_loss_distribution.from_laplace_mechanism(
        float(noise),
        value_discretization_interval=grid,
        pessimistic_estimate=from_above,
        use_connect_dots=False,
    )


def ratios(drawn: list[Part], stated: Budget, grid: float = GRID) -> tuple[float, float]:
    """Return bounds of the loss that parts spend, divided by the stated loss.

    Parameters
    ----------
    drawn : list of Part
        Parts of a release.

    stated : Budget
        Budget that the release states.

    grid : float
        Width of the grid of losses, as a fraction of the stated loss.

    Returns
    -------
    below, above : float
        Bounds of a ratio of two epsilons. For a rho, of two rhos: the epsilon at `DELTA_OF_RHO`
        determines the rho of one Gaussian mechanism.

    """
    below, above = (_ratio(drawn, stated, grid, from_above) for from_above in (False, True))
    return below, above


def _ratio(drawn: list[Part], stated: Budget, grid: float, from_above: bool) -> float:
    if not isinstance(stated, ZCDP):
        delta = getattr(stated, "delta", 0.0)
        whole = composed(drawn, grid * stated.epsilon, from_above=from_above)
        return float(whole.get_epsilon_for_delta(delta) / stated.epsilon)
    whole = composed(drawn, grid * _epsilon(stated.rho), from_above=from_above)
    found = whole.get_epsilon_for_delta(DELTA_OF_RHO)
    nearby = (stated.rho / 4, stated.rho * 4)
    return float(brentq(lambda rho: _epsilon(rho) - found, *nearby, xtol=1e-9) / stated.rho)


def _epsilon(rho: float) -> float:
    """Return the epsilon of one Gaussian mechanism at `DELTA_OF_RHO`."""
    return float(dp_accounting.get_epsilon_gaussian((2 * rho) ** -0.5, DELTA_OF_RHO))


def branches(laws: WithCount) -> int:
    """Return the number of branches that the pilot query chooses from."""
    return len(getattr(laws.laws, "paths", [None]))


def cells(columns: int, budget: Budget, neighbors: Neighbors) -> Iterator[dict[str, Any]]:
    """Yield the ratios of the default for a table of numbers."""
    declared = schema(columns)
    chosen = choose(declared, budget, neighbors)
    laws = chosen.laws
    if laws is None:
        raise RuntimeError("The default has no noise distributions.")
    stated = laws.guarantee.budget
    drawn = [list(parts(laws, Lattice.of(declared), at)) for at in range(branches(laws))]
    below, above = zip(*(ratios(found, stated) for found in drawn), strict=True)
    yield {
        "budget": KINDS[type(budget)],
        "asked": _figures(budget),
        "stated": _figures(stated),
        "neighbors": str(neighbors),
        "columns": columns,
        "branches": len(drawn),
        "at least": min(below),
        "at most": max(above),
        "ok": within(min(below), max(above), budget),
    }


def within(below: float, above: float, budget: Budget, grid: float = GRID) -> bool:
    """Return True if the bounds of a ratio are within the limits for a budget."""
    large = isinstance(budget, ApproxDP) and budget.epsilon > LARGE_EPSILON
    return (LEAST_OF_LARGE if large else LEAST) <= below and above <= 1 + MAX_PARTS * grid


def _figures(budget: Budget) -> str:
    return ", ".join(f"{name} {getattr(budget, name):g}" for name in budget.__slots__)


if __name__ == "__main__":
    kept = Kept("slack.json", "make bench NAME=slack")
    for budget, neighbors, columns in itertools.product(BUDGETS, Neighbors, COLUMNS):
        label = f"{budget}, {neighbors}, {columns} columns"
        kept.part(label, lambda case=(columns, budget, neighbors): cells(*case))
    show("loss of the rounds of the default, divided by the stated loss", kept.rows)
    sys.exit(not kept.done() or not all(row["ok"] for row in kept.rows))
