"""Definitions of privacy: neighbouring tables, budgets, guarantees and conversions.

Budgets are immutable. A float stands for the decimal number that Python prints (see `exact`). Ten
releases with epsilon 0.1 therefore fit a budget of epsilon 1. Binary rounding never reduces the
noise.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from numbers import Real
from typing import Literal

from dpcov.errors import BudgetError, MechanismError


# The other parameters of an enumeration define a new enumeration, so they are not documented.
class Neighbors(StrEnum):  # numpydoc ignore=PR01
    """Relation between two tables that a release must not distinguish.

    A privacy unit is a row or a person. With ``ADD_REMOVE``, one table has one more unit, and the
    number of units is private. With ``REPLACE_ONE``, the rows of one unit differ, and the number of
    units is public.

    Parameters
    ----------
    value : {"add-remove", "replace-one"}
        Name of the relation.

    Examples
    --------
    >>> import dpcov
    >>> dpcov.Neighbors("add-remove") is dpcov.Neighbors.ADD_REMOVE
    True

    """

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"

    @property
    def sides(self) -> int:
        """Number of units in which the tables differ: 1 if added or removed, 2 if replaced.

        Examples
        --------
        >>> import dpcov
        >>> dpcov.Neighbors.REPLACE_ONE.sides
        2

        """
        return 2 if self == Neighbors.REPLACE_ONE else 1


NeighborsName = Literal["add-remove", "replace-one"]


def neighbors_named(name: Neighbors | str) -> Neighbors:
    """Return the neighbour relation with a name.

    Parameters
    ----------
    name : Neighbors or str
        Relation, or its name: ``"add-remove"`` or ``"replace-one"``.

    Returns
    -------
    Neighbors
        Relation between tables.

    Raises
    ------
    MechanismError
        No relation has the name.

    """
    try:
        return Neighbors(name)
    except ValueError:
        raise MechanismError(
            f"There is no neighbour relation {str(name)!r}. Choose one of: {', '.join(Neighbors)}."
        ) from None


LARGE_EPSILON, LARGE_DELTA = 20.0, 1e-5  # a larger epsilon or delta gets a warning


@dataclass(frozen=True, slots=True)
class Unit:
    """Privacy unit: one row, or one person with at most `max_rows` rows or with one mean row.

    Parameters
    ----------
    column : str, optional
        Name of the id column. Without a column, the unit is one row.

    max_rows : int, default 1
        Largest number of rows of a person.

    aggregate : {"mean"}, optional
        With ``"mean"``, dpcov replaces all rows of a person by one row, their mean.

    See Also
    --------
    dpcov.Guarantee : Guarantee that protects a privacy unit.

    Examples
    --------
    >>> import dpcov
    >>> print(dpcov.Unit("patient", max_rows=8))
    one person (column 'patient'), up to 8 rows

    """

    column: str | None = None
    max_rows: int = 1
    aggregate: Literal["mean"] | None = None

    def __str__(self) -> str:
        if self.column is None:
            return "one row"
        if self.aggregate is not None:
            return f"one person (column {self.column!r}), all rows, as their mean"
        return f"one person (column {self.column!r}), up to {rows_in_words(self.max_rows)}"


def rows_in_words(count: int) -> str:
    """Return a number of rows in words, such as ``1 row`` or ``4 rows``."""
    return f"{count} row{'s' * (count != 1)}"


ROW_UNIT = Unit()


def unit_document(unit: Unit) -> dict[str, str | int | None]:
    """Return a privacy unit as a plain document, as `Unit` accepts it.

    Parameters
    ----------
    unit : Unit
        Privacy unit.

    Returns
    -------
    dict
        Fields of the unit. Without an aggregate, the document is the one of earlier versions.

    """
    plain: dict[str, str | int | None] = {"column": unit.column, "max_rows": unit.max_rows}
    return plain if unit.aggregate is None else plain | {"aggregate": unit.aggregate}


@lru_cache
def exact(value: float) -> Fraction:
    """Return the exact decimal number that Python prints for a float."""
    return Fraction(Decimal(repr(float(value))))


def _positive(name: str, value: Real | float) -> float:
    """Return a number as a float, or raise an error unless it is finite and above 0."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BudgetError(f"{name} must be a number above 0, not of type {type(value).__name__}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not 0 < number < math.inf:
        raise BudgetError(f"{name} must be a finite number above 0, not {number!r}.")
    return number


class _Figures:
    """Budget whose parameters are finite floats above 0, with delta below 1."""

    __slots__: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.__slots__:
            object.__setattr__(self, name, _positive(name, getattr(self, name)))
        if isinstance(self, ApproxDP) and self.delta >= 1:
            raise BudgetError(f"delta must be below 1, not {self.delta!r}.")


@dataclass(frozen=True, slots=True)
class PureDP(_Figures):
    """Budget of epsilon-differential privacy.

    Let p be the probability of any set of outcomes for a table. Let q be the probability of the
    same set for a neighbouring table. Then p is at most e^epsilon q.

    Parameters
    ----------
    epsilon : float
        Privacy loss, above 0.

    See Also
    --------
    dpcov.ApproxDP : Budget with an additional delta.
    dpcov.ZCDP : Budget in rho.

    Notes
    -----
    The source is Dwork, McSherry, Nissim and Smith (2006), Definition 1.

    Examples
    --------
    >>> import dpcov
    >>> print(dpcov.PureDP(1.0))
    pure differential privacy, epsilon = 1

    """

    epsilon: float

    def __str__(self) -> str:
        return f"pure differential privacy, epsilon = {self.epsilon:g}"


@dataclass(frozen=True, slots=True)
class ZCDP(_Figures):
    """Budget of rho-zero-concentrated differential privacy (zCDP).

    Take the distributions of the outcome for two neighbouring tables. For every order alpha above
    1, the Renyi divergence between these two distributions is at most rho alpha.

    Parameters
    ----------
    rho : float
        Parameter of the guarantee, above 0.

    See Also
    --------
    dpcov.PureDP : Budget in epsilon.
    dpcov.ApproxDP : Budget in epsilon and delta.

    Notes
    -----
    The source is Bun and Steinke (2016), Definition 1.1.

    Examples
    --------
    >>> import dpcov
    >>> print(dpcov.ZCDP(0.5))
    zero-concentrated differential privacy, rho = 0.5

    """

    rho: float

    def __str__(self) -> str:
        return f"zero-concentrated differential privacy, rho = {self.rho:g}"


@dataclass(frozen=True, slots=True)
class ApproxDP(_Figures):
    """Budget of (epsilon, delta)-differential privacy.

    Let p be the probability of any set of outcomes for a table. Let q be the probability of the
    same set for a neighbouring table. Then p is at most e^epsilon q + delta.

    Parameters
    ----------
    epsilon : float
        Parameter of the guarantee, above 0.

    delta : float
        Parameter of the guarantee, above 0 and below 1.

    See Also
    --------
    dpcov.PureDP : Budget without a delta.
    dpcov.ZCDP : Budget in rho.

    Notes
    -----
    The source is Dwork, Kenthapadi, McSherry, Mironov and Naor (2006).

    Examples
    --------
    >>> import dpcov
    >>> print(dpcov.ApproxDP(1.0, 1e-6))
    (epsilon, delta)-differential privacy, (1, 1e-06)

    """

    epsilon: float
    delta: float

    def __str__(self) -> str:
        return f"(epsilon, delta)-differential privacy, ({self.epsilon:g}, {self.delta:g})"


Budget = PureDP | ZCDP | ApproxDP


def budget_from(
    epsilon: float | None = None, delta: float | None = None, rho: float | None = None
) -> Budget:
    """Return the budget that the arguments state.

    Parameters
    ----------
    epsilon : float, optional
        Epsilon, with or without a delta.

    delta : float, optional
        Delta. A delta needs an epsilon.

    rho : float, optional
        Rho of zCDP, without epsilon and delta.

    Returns
    -------
    PureDP, ApproxDP or ZCDP
        Budget of the stated kind.

    Raises
    ------
    BudgetError
        The arguments state no budget or two budgets, or a number is out of range.

    """
    if rho is not None:
        if epsilon is not None or delta is not None:
            raise BudgetError("Give rho alone, or epsilon with an optional delta, not both.")
        return ZCDP(rho)
    if epsilon is None:
        raise BudgetError("State a privacy budget: epsilon (with an optional delta), or rho.")
    return PureDP(epsilon) if delta is None else ApproxDP(epsilon, delta)


class BudgetWarning(UserWarning):
    """Warning about a budget that is too large for a useful guarantee."""


def budget_warnings(budget: Budget) -> list[str]:
    """Return warnings about a budget that is too large, as sentences."""
    found = []
    epsilon = _epsilon(budget)
    if epsilon > LARGE_EPSILON:
        stated = f"epsilon = {epsilon:.3g}"
        if isinstance(budget, ZCDP):
            stated = f"rho = {budget.rho:g} ({stated} at delta = 1e-06)"
        found.append(
            f"{stated} protects hardly anybody: one row may change the probability "
            f"of an outcome by a factor of e^{epsilon:.3g}. Usual values are 0.1 to 3."
        )
    if isinstance(budget, ApproxDP) and budget.delta > LARGE_DELTA:
        found.append(
            f"delta = {budget.delta:g} is large: the guarantee may fail with that probability. Use "
            "a delta well below one over the number of people."
        )
    return found


def delta_warning(budget: Budget, units: float, described: str) -> list[str]:
    """Return a warning if delta is at least 1 / `units`, as a sentence.

    A mechanism with such a delta can publish a whole row.

    Parameters
    ----------
    budget : Budget
        Budget of the release.

    units : float
        Number of privacy units, which must not be private.

    described : str
        Noun phrase for this number in the warning.

    Returns
    -------
    list of str
        One sentence, or an empty list.

    """
    if not isinstance(budget, ApproxDP) or budget.delta * units < 1:
        return []
    return [
        f"delta = {budget.delta:g} is at least one over {described}: such a guarantee allows a "
        "release that publishes whole rows. Use a delta well below."
    ]


def _epsilon(budget: Budget) -> float:
    """Return the epsilon of a budget. For rho, the epsilon is for a delta of 1e-6."""
    return zcdp_epsilon(budget.rho, 1e-6) if isinstance(budget, ZCDP) else budget.epsilon


def hidden_units(budget: Budget) -> float:
    """Return the number of privacy units that a budget hides from every 95% interval.

    Take an interval that contains the figure of a table with probability 0.95. If the table changes
    in this number of units, the interval still contains the former figure with probability 0.5 or
    more. The figure of the changed table can be far from it.

    Parameters
    ----------
    budget : PureDP, ApproxDP or ZCDP
        Budget of the release.

    Returns
    -------
    float
        Number k of units.

    Notes
    -----
    For epsilon, the probability outside the interval grows from 0.05 to at most
    0.05 e^(k epsilon), so k is log(10) / epsilon. This neglects delta. For rho, the divergence of
    order 1 is at most k^2 rho (Bun and Steinke, 2016, Proposition 1.9). The divergence of a
    probability of 0.5 from a probability of 0.95 is -log(0.19) / 2.

    """
    if isinstance(budget, ZCDP):
        return math.sqrt(-0.5 * math.log(0.19) / budget.rho)
    return math.log(10) / budget.epsilon


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Guarantee of a release: a budget, a neighbour relation and a privacy unit.

    Parameters
    ----------
    budget : PureDP, ApproxDP or ZCDP
        Privacy loss that the release does not exceed.

    neighbors : Neighbors
        Relation between neighbouring tables.

    unit : Unit, default Unit()
        Row or person that the release protects. The default is one row.

    See Also
    --------
    Release.guarantee : Guarantee of a release.

    Examples
    --------
    >>> import dpcov
    >>> guarantee = dpcov.Guarantee(dpcov.PureDP(1.0), dpcov.Neighbors.ADD_REMOVE)
    >>> print(guarantee.unit)
    one row

    """

    budget: Budget
    neighbors: Neighbors
    unit: Unit = ROW_UNIT

    def of_part(self, spent: Fraction) -> Guarantee:
        """Return the guarantee of a round that spends a part of this budget.

        Parameters
        ----------
        spent : Fraction
            Part of epsilon or of rho. For an (epsilon, delta) budget, a part of mu^2 / 2. Here mu
            is the sensitivity divided by the standard deviation of the Gaussian noise.

        Returns
        -------
        Guarantee
            Guarantee with the part as its budget, rounded up. The delta does not change.

        Examples
        --------
        >>> from fractions import Fraction
        >>> import dpcov
        >>> whole = dpcov.Guarantee(dpcov.PureDP(1.0), dpcov.Neighbors.ADD_REMOVE)
        >>> whole.of_part(Fraction(1, 4)).budget
        PureDP(epsilon=0.25)

        """
        match self.budget:
            case PureDP():
                part: Budget = PureDP(round_up(spent))
            case ZCDP():
                part = ZCDP(round_up(spent))
            case ApproxDP(delta=delta):
                part = ApproxDP(gaussian_epsilon(math.sqrt(2 * upper_float(spent)), delta), delta)
        return replace(self, budget=part)

    def in_words(self) -> str:
        """Return the guarantee as a sentence for readers without training.

        Returns
        -------
        str
            Sentence about the privacy unit and the budget.

        Examples
        --------
        >>> import dpcov
        >>> guarantee = dpcov.Guarantee(dpcov.PureDP(1.0), dpcov.Neighbors.ADD_REMOVE)
        >>> "a factor of at most e^1" in guarantee.in_words()
        True

        """
        column, rows = self.unit.column, self.unit.max_rows
        means = self.unit.aggregate is not None
        most = "all rows as their mean" if means else f"at most {rows_in_words(rows)} each"
        person = f"any one person (column {column!r}, {most})"
        who, units = ("any one row", "rows") if column is None else (person, "persons")
        change = (
            f"Whether {who} is in the table or not"
            if self.neighbors == Neighbors.ADD_REMOVE
            else f"What {who} holds, the number of {units} being public,"
        )
        return f"{change} {self._bound_in_words()}."

    def _bound_in_words(self) -> str:
        if isinstance(self.budget, ZCDP):
            rho = self.budget.rho
            return (
                "shifts the privacy loss of this release at most like Gaussian noise with "
                f"rho = {rho:g} (which implies epsilon = {zcdp_epsilon(rho, 1e-6):.3g} "
                "but for a probability of 1e-06)"
            )
        epsilon = self.budget.epsilon
        factor = f"{math.exp(epsilon):.4g}" if epsilon < 700 else "(a number without meaning)"
        delta = f", plus {self.budget.delta:g}" if isinstance(self.budget, ApproxDP) else ""
        return (
            "changes the probability of any outcome of this release by a factor of at most "
            f"e^{epsilon:g} = {factor}{delta}"
        )


TERM_ERROR = 2e-15  # allowed relative error of float64 in each term of a formula below
MIN_DELTA = 1e-300  # below this number, float64 loses relative precision
MAX_RHO = 1e290  # above, a conversion could overflow in float64


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta of Gaussian noise at a given epsilon, rounded up.

    The formula is Theorem 8 of Balle and Wang 2018. The rounding covers the cancellation in the
    difference.

    Parameters
    ----------
    mu : float
        Sensitivity divided by the standard deviation of the noise.

    epsilon : float
        Epsilon of the guarantee.

    Returns
    -------
    float
        Delta of the guarantee.

    """
    from scipy.special import log_ndtr

    log_tail = float(log_ndtr(-mu / 2 - epsilon / mu))
    first = math.exp(log_ndtr(mu / 2 - epsilon / mu))
    second = math.exp(min(0.0, epsilon + log_tail))
    error = TERM_ERROR * (1 - log_tail) * (first + second) if first > 0 else 0.0
    return min(1.0, max(0.0, first - second) + error + MIN_DELTA)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu whose Gaussian noise is (epsilon, delta)-DP, rounded down.

    The value of `gaussian_delta` increases with mu. The function uses bisection and returns the
    private end.

    Parameters
    ----------
    epsilon : float
        Epsilon of the guarantee.

    delta : float
        Delta of the guarantee.

    Returns
    -------
    float
        Sensitivity divided by the standard deviation of the noise.

    Raises
    ------
    BudgetError
        No usable noise satisfies the guarantee.

    """
    epsilon, delta = _positive("epsilon", epsilon), _positive("delta", delta)
    low, high = 0.0, 1.0
    while high < 1e6 and gaussian_delta(high, epsilon) <= delta * (1 - 1e-9):
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if gaussian_delta(middle, epsilon) <= delta * (1 - 1e-9):
            low = middle
        else:
            high = middle
    if low <= 0:
        raise BudgetError(
            f"No usable Gaussian noise gives ({epsilon:g}, {delta:g})-DP. Use a larger delta."
        )
    return low


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon at which Gaussian noise is (epsilon, delta)-DP, rounded up.

    The function is the inverse of `gaussian_mu`. It uses bisection and returns the private end.

    Parameters
    ----------
    mu : float
        Sensitivity divided by the standard deviation of the noise.

    delta : float
        Delta of the guarantee.

    Returns
    -------
    float
        Epsilon of the guarantee.

    """
    mu, delta = _positive("mu", mu), _positive("delta", delta)
    low, high = 0.0, 1.0
    while gaussian_delta(mu, high) > delta * (1 - 1e-9):
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if gaussian_delta(mu, middle) > delta * (1 - 1e-9):
            low = middle
        else:
            high = middle
    return high


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon such that rho-zCDP implies (epsilon, delta)-DP, rounded up.

    Proposition 12 of Canonne, Kamath and Steinke 2020 gives an epsilon for every order alpha above
    1::

        alpha rho + ln((alpha - 1) / alpha) - (ln delta + ln alpha) / (alpha - 1)

    Every order gives a valid epsilon. The function returns the smallest epsilon that it finds.

    Parameters
    ----------
    rho : float
        Rho of the guarantee.

    delta : float
        Delta of the result.

    Returns
    -------
    float
        Epsilon, or infinity if rho is too large.

    """
    from scipy.optimize import minimize_scalar

    rho, delta = _positive("rho", rho), _positive("delta", delta)
    if rho > MAX_RHO:
        return math.inf

    def at(log_excess: float) -> float:
        excess = math.exp(log_excess)
        return renyi_epsilon_at(excess, (1 + excess) * rho, delta)

    # The minimum is near excess^2 = -ln(delta) / rho.
    guess = (math.log(max(1e-3, -math.log(delta))) - math.log(rho)) / 2
    bounds = (guess - 10, guess + 10)
    best = minimize_scalar(at, bounds=bounds, method="bounded", options={"xatol": 1e-10})
    return max(0.0, at(float(best.x)))


def renyi_epsilon_at(excess: float, divergence: float, delta: float) -> float:
    """Return the epsilon that a Renyi divergence implies at a given delta, rounded up.

    The formula is Proposition 12 of Canonne, Kamath and Steinke 2020.

    Parameters
    ----------
    excess : float
        Order of the divergence, minus 1.

    divergence : float
        Renyi divergence of this order.

    delta : float
        Delta of the result.

    Returns
    -------
    float
        Epsilon of the guarantee.

    """
    logs = -math.log1p(1 / excess), -math.log(delta) / excess, -math.log1p(excess) / excess
    return divergence + sum(logs) + TERM_ERROR * (divergence + sum(map(abs, logs)))


def upper_float(value: Fraction) -> float:
    """Return the smallest float that is at least `value`."""
    return _at_least(value, Fraction)


def round_up(value: Fraction) -> float:
    """Return the smallest float whose printed decimal is at least `value`."""
    return _at_least(value, exact)


def round_down(value: Fraction) -> float:
    """Return the largest float whose printed decimal is at most `value`."""
    return -round_up(-value)


def _at_least(value: Fraction, read: Callable[[float], Fraction]) -> float:
    if abs(value) > exact(sys.float_info.max):
        raise BudgetError("These privacy budgets add up to more than a number can hold.")
    nearest = float(value)
    return nearest if read(nearest) >= value else math.nextafter(nearest, math.inf)
