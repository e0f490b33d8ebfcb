"""Budgets of mechanisms that give pure differential privacy."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from dpcov.core.privacy import ApproxDP, Guarantee, Neighbors, PureDP, exact, upper_float
from dpcov.core.samplers.scalars import ScalarLaplace
from dpcov.errors import MechanismError
from dpcov.mechanisms import additive
from dpcov.mechanisms.radius import laplace_counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcov.core.privacy import Budget
    from dpcov.core.samplers import MatrixLaw
    from dpcov.rows.moment import Lattice


Laws = TypeVar("Laws")


NOTHING = Fraction(0)


def pure_guarantee(lattice: Lattice, epsilon: Fraction, neighbors: Neighbors) -> Guarantee:
    """What a mechanism that spends no delta guarantees, whatever kind of budget was stated."""
    return Guarantee(PureDP(float(epsilon)), Neighbors(neighbors), lattice.unit)


def pure_epsilon(name: str, budget: Budget) -> Fraction:
    """Epsilon of a pure or an (epsilon, delta) budget, as stated; the mechanism spends no delta."""
    if not isinstance(budget, PureDP | ApproxDP):
        raise MechanismError(
            f"{name} is calibrated by epsilon. Give epsilon, or choose gaussian for rho."
        )
    return exact(budget.epsilon)


def float_scale(scale: Fraction) -> float:
    """The scale rounded up, within what float64 holds; samplers refuse far smaller ones."""
    return upper_float(min(scale, Fraction(2**90)))


def by_budget(
    budget: Budget,
    laplace: Callable[[], Laws],
    gaussian: Callable[[], Laws],
    noise: Callable[[Laws], float],
) -> Laws:
    """Return Laplace noise for a pure budget, Gaussian for rho, for a delta the one with less."""
    if isinstance(budget, PureDP):
        return laplace()
    made = gaussian()
    if isinstance(budget, ApproxDP):
        with suppress(MechanismError):
            return min(laplace(), made, key=noise)
    return made


def nuclear_calibration(
    lattice: Lattice,
    guarantee: Guarantee,
    epsilon: Fraction,
    trace_share: float,
    law: Callable[[int, float], MatrixLaw],
    for_radius: Fraction = NOTHING,
) -> additive.Calibration:
    """Laws for matrix and trace that spend epsilon together, after `for_radius` for the radius.

    `law(d, scale)` is noise whose log-density changes by at most ||D||_* / scale where the matrix
    changes by D.
    """
    neighbors = guarantee.neighbors
    share = exact(additive.trace_share(lattice, neighbors, trace_share))
    scale = lattice.nuclear(neighbors) / (epsilon * (1 - share))
    # Under replace-one the trace's scale is twice the unit's bound over epsilon, at no cost.
    trace_epsilon = share * epsilon if neighbors == Neighbors.ADD_REMOVE else epsilon / 2
    has_trace = lattice.dimension > 1 and trace_epsilon > 0
    return additive.Calibration(
        guarantee=guarantee,
        matrix=law(lattice.dimension, float_scale(scale)),
        trace=ScalarLaplace(lattice.unit_bound / trace_epsilon) if has_trace else None,
        trace_alone=ScalarLaplace(lattice.unit_bound / epsilon),
        counts=laplace_counts(lattice, neighbors, for_radius),
        again=lambda other: nuclear_calibration(
            other, guarantee, epsilon, trace_share, law, for_radius
        ),
    )
