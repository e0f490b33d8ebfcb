"""Intervals that say nothing at the budget of a release, and the budget that would be enough.

An interval says nothing if it contains at least 99% of the values that are possible. Results then
have no ends of this interval (NaN), and state the budget instead.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.printable import listed
from dpcov.core.privacy import ZCDP, ApproxDP, PureDP, gaussian_epsilon, gaussian_mu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dpcov.core.arrays import Array, Booleans
    from dpcov.core.privacy import Guarantee

# Smallest fraction of the possible values that an interval contains if it says nothing. In the two
# digits of a rounded figure, such an interval is the whole range.
MIN_EMPTY_SPAN = 0.99
# Divisors of the noise that are tried, in ascending order. The last one, 2^20, leaves no noise.
NOISE_DIVISORS = 2.0 ** (np.arange(161) / 8)
# Widening of an interval by noise that is still enough, as a fraction of the widening that makes it
# say nothing. Source: tests/statistical/test_sufficient_budgets.py.
MARGIN = 0.15
# Significant digits of a stated budget, which is rounded up.
BUDGET_DIGITS = 2
# Text in place of an interval that says nothing.
NOT_ESTIMABLE = "not estimable"


def span(ends: Iterable[Array], limits: Iterable[Array | float]) -> Array:
    """Return which fraction of the possible values each interval contains.

    The fraction is 1 for an unknown interval. If the possible values have no limits, the fraction
    is 0 unless the interval contains all of them.
    """
    (low, high), (least, largest) = ends, limits
    width = np.subtract(largest, least)
    inside = np.minimum(high, largest) - np.maximum(low, least)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.where(np.isfinite(width) & (width > 0), inside / width, 0.0)
    nothing = np.isnan(low) | np.isnan(high) | ((low <= least) & (high >= largest))
    return np.where(nothing | np.isnan(width), 1.0, found)


def says_nothing(spans: Array | float) -> Booleans:
    """Return True for each interval that contains (nearly) all possible values."""
    return np.asarray(spans) >= MIN_EMPTY_SPAN


def sufficient_divisors(span_at: Callable[[float], Array]) -> Array:
    """Return by which number the noise must be divided, so that each interval says something.

    An interval says enough at 15% of the way from the interval without noise to an interval
    that says nothing. This leaves a margin, because another release can state a larger error.

    Parameters
    ----------
    span_at : callable
        Function from a divisor of the noise to the fraction of the possible values that each
        interval contains, shape (k,).

    Returns
    -------
    ndarray, shape (k,)
        Divisors. NaN for an interval that needs no change. Infinite if less noise cannot help,
        because sampling or undefined figures make the interval as wide.

    """
    found = np.where(says_nothing(span_at(1.0)), np.inf, np.nan)
    if not np.isinf(found).any():
        return found
    without_noise = span_at(float(NOISE_DIVISORS[-1]))
    enough = without_noise + MARGIN * (MIN_EMPTY_SPAN - without_noise)
    enough[says_nothing(without_noise)] = -1.0
    for divisor in NOISE_DIVISORS:
        found[np.isinf(found) & (span_at(float(divisor)) <= enough)] = divisor
    return found


def sufficient_budgets(guarantee: Guarantee, divisors: Array) -> Array:
    """Return the epsilon or rho at which the noise is divided by each number.

    Laplace noise falls with epsilon, and the variance of Gaussian noise falls with rho. For an
    (epsilon, delta) budget, the variance falls with the squared mu, and delta stays the same.

    Parameters
    ----------
    guarantee : Guarantee
        Guarantee of the release.

    divisors : ndarray
        Result of `sufficient_divisors`.

    Returns
    -------
    ndarray
        Budgets of the same shape, rounded up. NaN and infinite divisors stay.

    """
    found = np.array(divisors, np.float64)
    for at in np.ndindex(found.shape):
        if np.isfinite(found[at]):
            found[at] = _rounded_up(_divided(guarantee, float(found[at])))
    return found


def budget_sentences(
    names: Sequence[str], sufficient: Array, guarantee: Guarantee
) -> tuple[str, ...]:
    """Return sentences about the figures that are not estimable, and the budget for all of them."""
    found = list(zip(sufficient.tolist(), names, strict=True))
    known = sorted((one for one in found if math.isfinite(one[0])), key=lambda one: one[0])
    far = [name for value, name in found if math.isinf(value)]
    said = []
    if known:
        (least, first), (most, last) = known[0], known[-1]
        article, kind = ("A", "rho") if isinstance(guarantee.budget, ZCDP) else ("An", "epsilon")
        same = " with the same delta" if isinstance(guarantee.budget, ApproxDP) else ""
        about = f"{most:g}" if least == most else f"{least:g} ({first}) to {most:g} ({last})"
        said.append(
            f"Not estimable at this budget: {listed([name for _, name in known])}. {article} "
            f"{kind} of about {about}{same} would do."
        )
    if far:
        said.append(f"Not estimable: {listed(far)}. A much larger budget or table is needed.")
    return tuple(said)


def _divided(guarantee: Guarantee, divisor: float) -> float:
    """Return the epsilon or rho of the budget at which the noise is divided by a number."""
    match guarantee.budget:
        case PureDP(epsilon=epsilon):
            return epsilon * divisor
        case ZCDP(rho=rho):
            return rho * divisor**2
        case ApproxDP(epsilon=epsilon, delta=delta):
            return gaussian_epsilon(divisor * gaussian_mu(epsilon, delta), delta)


def _rounded_up(value: float) -> float:
    """Return a number that is rounded up to a few significant digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - BUDGET_DIGITS)
    return float(f"{math.ceil(value / unit * (1 - 1e-12)) * unit:.{BUDGET_DIGITS}g}")
