"""Budgets and calibrations of mechanisms that give pure differential privacy."""

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


NO_EPSILON = Fraction(0)  # spent on a private radius, if the schema sets the radius


def pure_guarantee(lattice: Lattice, epsilon: Fraction, neighbors: Neighbors) -> Guarantee:
    """Return the guarantee of a mechanism that spends epsilon and no delta."""
    return Guarantee(PureDP(float(epsilon)), Neighbors(neighbors), lattice.unit)


def pure_epsilon(name: str, budget: Budget) -> Fraction:
    """Return the epsilon of a pure or an (epsilon, delta) budget, as an exact fraction."""
    if not isinstance(budget, PureDP | ApproxDP):
        raise MechanismError(
            f"The mechanism {name} needs epsilon, but the budget is rho. Use --epsilon, or choose "
            "--mechanism gaussian."
        )
    return exact(budget.epsilon)


def float_scale(scale: Fraction) -> float:
    """Return a noise scale as a float, rounded up.

    The function limits the scale to 2^90. Samplers refuse scales that are much smaller.
    """
    return upper_float(min(scale, Fraction(2**90)))


def by_budget(
    budget: Budget,
    laplace: Callable[[], Laws],
    gaussian: Callable[[], Laws],
    noise: Callable[[Laws], float],
) -> Laws:
    """Return the calibration that fits the kind of the budget.

    Parameters
    ----------
    budget : Budget
        Budget of the release.

    laplace, gaussian : callable
        Functions that calibrate Laplace noise and Gaussian noise.

    noise : callable
        Function from a calibration to the size of its noise.

    Returns
    -------
    Laws
        Laplace noise for a pure budget, and Gaussian noise for rho. For (epsilon, delta), the
        calibration with less noise.

    """
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
    for_radius: Fraction = NO_EPSILON,
) -> additive.Calibration:
    """Calibrate pure noise for the matrix and for its trace.

    Parameters
    ----------
    lattice : Lattice
        Quantised rows, with their bounds.

    guarantee : Guarantee
        Guarantee of the release.

    epsilon : Fraction
        Part of epsilon that the matrix and the trace spend together.

    trace_share : float
        Fraction of `epsilon` for the trace, if the trace costs budget.

    law : callable
        Function from the order d of the matrix and a scale to a noise distribution. If the matrix
        changes by D, the log-density changes by at most ||D||_* / scale.

    for_radius : Fraction
        Part of epsilon that the choice of the clipping radius spends.

    Returns
    -------
    Calibration
        Noise distributions of all parts.

    """
    neighbors = guarantee.neighbors
    share = exact(additive.trace_share(lattice, neighbors, trace_share))
    scale = lattice.nuclear(neighbors) / (epsilon * (1 - share))
    # Under replace-one the trace costs no budget. The scale of its noise is twice the bound of a
    # privacy unit, divided by epsilon.
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
