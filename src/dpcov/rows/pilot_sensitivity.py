"""Sensitivities of the pilot query: sum z_j^2, sum t z_j and sum t^2 over rows (z, t).

`docs/proofs/pilot.md` proves every bound below.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpcov.core.privacy import ROW_UNIT, Neighbors, exact

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcov.rows.moment import Lattice

Number = Any  # a float while a multiplier is sought, a fraction when the bound is computed

MAX_BISECTIONS = 60  # halvings of an interval: float64 numbers have 53 bits
INTERVAL_MARGIN = 1e-12  # fraction by which a float64 number is kept inside an interval


def pilot_sensitivities(lattice: Lattice, neighbors: Neighbors) -> tuple[Fraction, Fraction]:
    """Return the squared l2 and the l1 sensitivity of the pilot query.

    Parameters
    ----------
    lattice : Lattice
        Grid of the encoded rows: features in [-u, u] with norm at most Q, intercept at most T.

    neighbors : Neighbors
        Relation between neighbouring tables.

    Returns
    -------
    squared : Fraction
        Squared l2 sensitivity. The unit is the fourth power of a lattice step.

    absolute : Fraction
        l1 sensitivity. The unit is the square of a lattice step.

    Notes
    -----
    For one row under add-remove, the sensitivities are exact, up to the rounding of sqrt(p). Under
    replace-one, the relative error is at most 1e-9 if the number of features is even. In all other
    cases, the numbers are upper bounds.

    """
    k, side, intercept = lattice.unit.max_rows, lattice.side, lattice.intercept_units
    largest = min(side, math.ceil(1 / exact(lattice.step)))
    squares = side**2 * largest**2 + intercept**4
    products = side**2 * intercept**2
    root = math.isqrt(lattice.features - 1) + 1
    added = squares + products, side**2 + intercept * side * root + intercept**2
    if neighbors == Neighbors.ADD_REMOVE:
        squared, absolute = added
    elif not lattice.equal_intercepts:  # t^2 can change together with z
        squared, absolute = 2 * squares + 4 * products, 2 * added[1]
    else:
        squared = _squared_exchange(lattice.features, side, largest, intercept)
        absolute = _absolute_exchange(lattice.features, side, largest, intercept)
        if lattice.unit != ROW_UNIT:  # the persons can have different numbers of rows
            squared, absolute = max(squared, added[0]), max(absolute, added[1])
    return Fraction(k**2 * squared), Fraction(k * absolute)


def _absolute_exchange(p: int, side: int, largest: int, intercept: int) -> int:
    """Return an upper bound on the l1 change if one row replaces another (pilot.md, 2)."""

    def best(curvature: Number) -> Number:
        """Return the x in [0, u] that maximizes T x - curvature x^2."""
        return min(largest, intercept / (2 * curvature)) if curvature > 0 else largest

    def slope(multiplier: float) -> float:
        return 2 * side**2 - p * (best(multiplier - 1) ** 2 + best(multiplier + 1) ** 2)

    multiplier = Fraction(_zero(slope))
    a, b = best(multiplier - 1), best(multiplier + 1)
    each = intercept * (a + b) - (multiplier - 1) * a**2 - (multiplier + 1) * b**2
    return math.ceil(2 * multiplier * side**2 + p * each)


def _squared_exchange(p: int, side: int, largest: int, intercept: int) -> int:
    """Return an upper bound on the squared l2 change if one row replaces another (pilot.md, 3).

    NormHistogram are in units of u: r = (T/u)^2, and the value of b is
    (1 - b^2)^2 + r (1 + b)^2 - multiplier (1 + b^2).
    """
    ratio, norm = Fraction(intercept, largest) ** 2, Fraction(side, largest) ** 2
    r = float(ratio)

    def stationary(multiplier: float) -> float:
        """Return nearly the b below the inflection point where the value is largest."""
        bend = (multiplier + 2 - r) / 6
        if bend <= 0:
            return 0.0
        end = min(1.0, math.sqrt(bend)) * (1 - INTERVAL_MARGIN)
        return _zero(lambda b: -_derivative(b, r, multiplier), end)

    def slope(multiplier: float) -> float:
        candidates = (0.0, stationary(multiplier), 1.0)
        found = max((_value(b, r, multiplier), b) for b in candidates)
        return 2 * float(norm) - (p * (1 + found[1] ** 2) if found[0] > 0 else 0)

    multiplier = Fraction(_zero(slope))
    inner = Fraction(stationary(float(multiplier)))
    # Up to the inflection point the value is concave, so it lies below its tangent.
    above = abs(_derivative(inner, ratio, multiplier)) if inner > 0 else 0
    bound = max(
        Fraction(0),
        _value(Fraction(0), ratio, multiplier),
        _value(Fraction(1), ratio, multiplier),
        _value(inner, ratio, multiplier) + above,
    )
    return math.ceil(largest**4 * (2 * multiplier * norm + p * bound))


def _value(b: Number, ratio: Number, multiplier: Number) -> Number:
    return (1 - b**2) ** 2 + ratio * (1 + b) ** 2 - multiplier * (1 + b**2)


def _derivative(b: Number, ratio: Number, multiplier: Number) -> Number:
    """Return the derivative of `_value` by b."""
    return 4 * b**3 + 2 * (ratio - 2 - multiplier) * b + 2 * ratio


def _zero(slope: Callable[[float], float], end: float | None = None) -> float:
    """Return the number in [0, end] at which a nondecreasing function becomes positive."""
    low, high = 0.0, 1.0 if end is None else end
    while end is None and slope(high) < 0:
        low, high = high, 2 * high
    for _ in range(MAX_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return high
