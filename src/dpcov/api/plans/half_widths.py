"""Plans for one interval: its half width at a budget, and the budget that a half width needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dpcov.api.ledger import Ledger
from dpcov.api.plans import (
    ASSUMPTIONS_RANGE_FACTOR,
    EPSILON_FACTORS,
    FEW_RELEASES,
    NARROW_SPREAD,
    WIDE_SPREAD,
    RowCount,
    _Planner,
    amount,
    scaled,
)
from dpcov.api.plans.quantities import Kind, Quantity, Widths, shares
from dpcov.api.plans.simulated import Assumptions, SimulatedTable
from dpcov.api.plans.years import Allowance, Year
from dpcov.api.request import Request
from dpcov.core.parameters import Above0, Count, check, checked
from dpcov.core.privacy import Budget, Neighbors, NeighborsName
from dpcov.core.show.result import Result
from dpcov.core.show.table import Cell, Row, Table, sentences
from dpcov.core.steps import Steps
from dpcov.denoise import Method
from dpcov.errors import BudgetError, MechanismError, ReleaseError
from dpcov.mechanisms.choice import Goal
from dpcov.rows.schema import Schema

# Numbers of simulated releases at the budget of a first answer, at each budget that a first answer
# tries, and at the budget of the plan. Source: chosen for a first answer within 3 s.
FIRST_RELEASES, FIRST_TRIES_RELEASES, WIDTH_RELEASES = 2, 1, 12
# Factor that widens the range of a half width on both sides, with a release of a table and without.
# Source: with RELEASE_RANGE_FACTOR, 2 of 8 half widths were outside (benchmarks/half_widths.py).
WIDTH_RANGE_FACTOR = ASSUMPTIONS_RANGE_FACTOR
# Largest number of budgets that a search for a half width tries. Source: chosen.
MAX_TRIES = 8
# Largest relative difference between the requested half width and the found one.
WIDTH_TOLERANCE = 0.02
# Largest factor between two budgets of a search, and of the whole search.
MAX_STEP_FACTOR, MAX_SEARCH_FACTOR = 30.0, 1e4
# Standard deviation of a flag of which half the cells are 1, as a fraction of half the width of its
# bounds. The sampling error of its share is the largest.
FLAG_SPREAD = 1.0
WIDTH_LEGEND = (
    "The half width is half the length of the 95% interval for privacy noise and sampling. The "
    "other columns show the half widths for privacy noise alone and for sampling alone.",
    "All figures are medians over simulated releases of a simulated table that fits the "
    "assumptions. Sampling errors assume independent rows.",
)


@dataclass(frozen=True, slots=True)
class BudgetWidth:
    """Half widths of one interval at one budget.

    Attributes
    ----------
    budget : Budget
        Budget of a release.

    mechanism : str
        Name of the mechanism.

    half_width : float
        Half width of the 95% interval for privacy noise and sampling.

    from_noise : float
        Half width of the 95% interval for privacy noise alone.

    from_sampling : float
        Half width of the 95% interval for sampling alone.

    """

    budget: Budget
    mechanism: str
    half_width: float
    from_noise: float
    from_sampling: float


@dataclass(frozen=True, slots=True)
class HalfWidthPlan(Result):
    """Predicted half width of one interval, from public numbers.

    Attributes
    ----------
    schema : Schema
        Schema of the table.

    rows : int
        Assumed number of rows.

    neighbors : Neighbors
        Relation between neighbouring tables.

    table_assumptions : Assumptions
        Assumptions about the table.

    quantity : str
        Quantity of the interval, in words.

    at_budget : BudgetWidth
        Half widths at the budget of the plan.

    low, high : float
        Likely range of the half width over several tables that fit the assumptions. NaN in a first
        answer.

    curve : tuple of BudgetWidth
        Half widths for multiples of epsilon. Empty in a first answer.

    wanted : float or None
        Requested half width.

    needed : BudgetWidth or None
        Smallest budget for the requested half width. None if no budget reaches it.

    kinds : tuple of BudgetWidth
        Budgets that each year of a plan over several years can have, one for each kind of request.

    years : tuple of Year
        Years of a plan over several years, each with the budget of the smallest half width.

    releases : int
        Number of simulated releases at the budget of the plan.

    See Also
    --------
    dpcov.plan_half_width : Predict the half width of an interval.

    Examples
    --------
    >>> import dpcov
    >>> schema = dpcov.Schema.from_bounds(0, 1, ("x", "y"))
    >>> plan = dpcov.plan_half_width(schema, 5000, pair=("x", "y"), epsilon=1.0, quick=True)
    >>> plan.quantity
    'the correlation of x and y'

    """

    schema: Schema
    rows: int
    neighbors: Neighbors
    table_assumptions: Assumptions
    quantity: str
    at_budget: BudgetWidth
    low: float
    high: float
    curve: tuple[BudgetWidth, ...]
    wanted: float | None
    needed: BudgetWidth | None
    kinds: tuple[BudgetWidth, ...]
    years: tuple[Year, ...]
    releases: int

    @property
    def half_width(self) -> float:
        """Half width at the budget of the plan.

        Examples
        --------
        >>> import dpcov
        >>> schema = dpcov.Schema.from_bounds(0, 1, ("x", "y"))
        >>> plan = dpcov.plan_half_width(schema, 5000, pair=("x", "y"), epsilon=1.0, quick=True)
        >>> plan.half_width < 0.05
        True

        """
        return self.at_budget.half_width

    def answers(self) -> list[str]:
        """Return the answers as sentences.

        Returns
        -------
        list of str
            Half width at the budget, and the budgets for the requested half width and years.

        Examples
        --------
        >>> import dpcov
        >>> schema = dpcov.Schema.from_bounds(0, 1, ("x", "y"))
        >>> plan = dpcov.plan_half_width(schema, 5000, pair=("x", "y"), epsilon=1.0, quick=True)
        >>> plan.answers()[0].startswith("With epsilon 1 and 5000 rows, the half width")
        True

        """
        one = self.at_budget
        found = [
            f"With {amount(one.budget)} and {self.rows} rows, the half width of the 95% interval "
            f"for {self.quantity} is about {one.half_width:.2g}{self._range_in_words()}."
        ]
        if self.wanted is not None:
            wanted = f"A half width of {self.wanted:g}"
            found.append(
                f"{wanted} is not possible with {self.rows} rows: sampling alone gives about "
                f"{one.from_sampling:.2g}."
                if self.needed is None and one.from_sampling >= self.wanted
                else f"{wanted} is not possible with {self.rows} rows at any usual budget."
                if self.needed is None
                else f"{wanted} needs about {amount(self.needed.budget)}."
            )
        if self.years:
            found.append(
                f"Each of {len(self.years)} years can spend {amount(self.years[0].budget)}. The "
                f"half width of each year is then about {self._best.half_width:.2g}."
            )
        return found

    @property
    def _best(self) -> BudgetWidth:
        return min(self.kinds, key=lambda one: one.half_width)

    def _range_in_words(self) -> str:
        if math.isnan(self.low):
            return ""
        return f", likely between {self.low:.2g} and {self.high:.2g}"

    def tables(self) -> list[Table]:
        found = [sentences(*self.assumptions())]
        heads = ("budget", "half width", "privacy noise", "sampling", "mechanism")
        if self.curve:
            title = f"Half width of the 95% interval for {self.quantity}"
            forms = ("{:.2g}", "{:.2g}", "{:.2g}", "{}")
            rows = [_row(one) for one in self.curve]
            found.append(Table(heads, rows, title, forms, notes=WIDTH_LEGEND))
        if self.kinds:
            title = f"What each of {len(self.years)} years can request"
            rows = [_row(one) for one in self.kinds]
            found.append(Table(heads, rows, title, ("{:.2g}", "{:.2g}", "{:.2g}", "{}")))
            by_year: list[Row] = [
                (
                    str(year.year),
                    [amount(year.budget), "nothing" if year.left is None else amount(year.left)],
                )
                for year in self.years
            ]
            of_years = ("year", "spends", "one more release could spend")
            found.append(Table(of_years, by_year, "Years", words=True))
        return [*found, sentences(*self.answers())]

    def assumptions(self) -> list[str]:
        """Return sentences that describe the request and the assumptions about the table."""
        stated = self.table_assumptions
        assumed = (
            f"standard deviations {stated.spread:g} times half the width of the bounds (--spread); "
            f"correlations about {stated.correlation:g} (--correlation); flags of which half the "
            "cells are true (--mean)"
            if stated.like is None
            else "means, standard deviations and correlations of the given release (--like)"
        )
        return [
            f"Plan for {len(self.schema.encoded_columns)} columns, {self.rows} rows, "
            f"{self.at_budget.budget}, {self.neighbors.value}. dpcov read no data. Nothing was "
            f"spent. Assumptions: {assumed}. Simulated releases: {self.releases}."
        ]

    def document(self) -> dict[str, Any]:
        """Return the plan as plain data for JSON.

        Returns
        -------
        dict
            All numbers of the plan.

        """
        return {
            "rows": self.rows,
            "features": len(self.schema.features),
            "neighbors": self.neighbors.value,
            "quantity": self.quantity,
            "level": 0.95,
            "at_budget": _plain(self.at_budget),
            "between": None if math.isnan(self.low) else [self.low, self.high],
            "curve": [_plain(one) for one in self.curve],
            "wanted": self.wanted,
            "needed": None if self.needed is None else _plain(self.needed),
            "kinds": [_plain(one) for one in self.kinds],
            "years": [
                {
                    "year": year.year,
                    "budget": asdict(year.budget),
                    "left": None if year.left is None else asdict(year.left),
                }
                for year in self.years
            ],
            "releases": self.releases,
        }


def _row(one: BudgetWidth) -> Row:
    cells: list[Cell] = [one.half_width, one.from_noise, one.from_sampling, one.mechanism]
    return amount(one.budget), cells


def _plain(one: BudgetWidth) -> dict[str, Any]:
    facts = {
        name: value if math.isfinite(value) else None
        for name in ("half_width", "from_noise", "from_sampling")
        if (value := getattr(one, name)) is not None
    }
    return {"budget": asdict(one.budget), "mechanism": one.mechanism, **facts}


@dataclass(frozen=True)
class _Simulation:
    """Half widths of one quantity for any budget."""

    planner: _Planner
    quantity: Quantity
    mechanism: str
    rows: int

    @cached_property
    def table(self) -> SimulatedTable:
        return self._table(self.planner.assumptions)

    def _table(self, assumptions: Assumptions) -> SimulatedTable:
        """Simulate a table. Without a stated standard deviation, half the cells of a flag are 1."""
        schema, columns = self.planner.schema, self.planner.schema.encoded_columns
        flags = {name: FLAG_SPREAD for name in shares(schema) if name in columns}
        stated = replace(assumptions, spreads={**flags, **assumptions.spreads})
        return SimulatedTable.of(schema, self.planner.table.lattice, stated)

    def others(self) -> list[SimulatedTable]:
        """Return the other tables of the range: narrow, wide and with heavy tails."""
        stated = self.planner.assumptions
        if stated.like is not None:
            return []
        spreads = (NARROW_SPREAD, WIDE_SPREAD) if stated == Assumptions() else ()
        tables = [self._table(replace(stated, spread=spread)) for spread in spreads]
        return [*tables, *(table.with_longer_tails() for table in (self.table, *tables))]

    def at(self, budget: Budget, releases: int, table: SimulatedTable | None = None) -> BudgetWidth:
        """Return the medians of the half widths over simulated releases."""
        mechanism = self.planner.mechanism(self.mechanism, budget)
        trials = self.planner.trials(self.rows, self.table if table is None else table)
        found: list[Widths] = []
        for made in trials.releases(mechanism, budget, self.planner.neighbors, releases):
            if made.noise is None or not made.has_intercept:
                raise ReleaseError(
                    f"A release by {mechanism.name} with this schema has no intervals. Choose "
                    "--mechanism auto, and intercept = 0.3 in the schema."
                )
            found.append(self.quantity.widths(made))
        figures = (
            float(np.median([getattr(one, name) for one in found]))
            for name in ("total", "noise", "sampling")
        )
        return BudgetWidth(budget, mechanism.name, *figures)

    def curve(self, budget: Budget, known: BudgetWidth, steps: Steps) -> list[BudgetWidth]:
        """Return the half widths for multiples of epsilon."""
        found = []
        for factor in EPSILON_FACTORS:
            try:
                other = scaled(budget, factor)
                found.append(known if factor == 1 else self.at(other, FEW_RELEASES))
            except (MechanismError, BudgetError):  # the noise is too large to draw
                continue
            finally:
                steps.advance()
        return found

    def likely(self, known: BudgetWidth, steps: Steps) -> tuple[float, float]:
        """Return the likely range of the half width."""
        values = [known.half_width]
        for table in self.others():
            values.append(self.at(known.budget, FEW_RELEASES, table).half_width)
            steps.advance()
        return min(values) / WIDTH_RANGE_FACTOR, max(values) * WIDTH_RANGE_FACTOR

    def budget_for(self, wanted: float, start: BudgetWidth, releases: int) -> BudgetWidth | None:
        """Find the smallest budget for a half width.

        The variance of the error is the sum of two parts. The part from sampling does not depend
        on the budget. The search assumes that the other part is inversely proportional to epsilon.
        """
        whole, factor, one, best = start.budget, 1.0, start, None
        for _ in range(MAX_TRIES):
            if abs(one.half_width / wanted - 1) <= WIDTH_TOLERANCE:
                return one
            if one.half_width <= wanted:
                best = one
            room = wanted**2 - one.from_sampling**2
            step = one.from_noise / math.sqrt(room) if room > 0 else MAX_STEP_FACTOR
            step = step if math.isfinite(step) else MAX_STEP_FACTOR
            factor *= min(max(step, 1 / MAX_STEP_FACTOR), MAX_STEP_FACTOR)
            if not 1 / MAX_SEARCH_FACTOR <= factor <= MAX_SEARCH_FACTOR:
                break
            try:
                one = self.at(scaled(whole, factor), releases)
            except (MechanismError, BudgetError):
                break
        return best


@checked("epsilon", "delta", "rho", "neighbors")
def plan_half_width(
    schema: Schema | str | Path,
    rows: RowCount,
    *,
    pair: Sequence[str] | None = None,
    coefficient: Sequence[str] | None = None,
    share: str | None = None,
    half_width: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    years: Count | None = None,
    neighbors: Neighbors | NeighborsName = "add-remove",
    mechanism: str = "auto",
    goal: Goal = "all",
    denoise: Method = "shrink",
    assumptions: Assumptions | None = None,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    quick: bool = False,
) -> HalfWidthPlan:
    """Predict the half width of one interval, without reading data or spending budget.

    dpcov simulates a table from the schema, the number of rows and your assumptions, and simulates
    releases of this table. The half width is the median over the intervals that these releases
    state.

    Parameters
    ----------
    schema : Schema, str or Path
        Schema of the table, or the path of a TOML file.

    rows : int
        Assumed number of rows, from public knowledge.

    pair : (str, str), optional
        Two features whose correlation is of interest. By default, the plan is for the median over
        all pairs.

    coefficient : (str, str), optional
        Target and feature of a regression on all other features.

    share : str, optional
        Flag or level of a categorical column, such as ``sex=f``.

    half_width : float, optional
        Requested half width, in the units of the data. The plan then finds the smallest budget.

    epsilon, delta, rho : float, optional
        Budget of the release, as in `release`. With `years` and without a ledger, the budget of all
        years.

    years : int, optional
        Number of years, each with one release of the same budget.

    neighbors : {'add-remove', 'replace-one'}, default 'add-remove'
        Relation between neighbouring tables, as in `release`.

    mechanism : str, default 'auto'
        Mechanism of the plan, as in `release`.

    goal : str, default 'all'
        Result that should be accurate, as in `release`.

    denoise : {'shrink', 'project', 'none'}, default 'shrink'
        Method that denoises the releases.

    assumptions : Assumptions, optional
        Assumptions about the table. The default is ``Assumptions()``, with flags of which half the
        cells are true.

    ledger : Ledger, str or Path, optional
        Ledger of the release. With `years`, its remaining budget is the budget of all years.

    dataset : str, optional
        Data set in the ledger, as in `release`.

    quick : bool, default False
        Return a first answer from few simulated releases.

    Returns
    -------
    HalfWidthPlan
        Half width at the budget, its likely range, and the answers.

    Raises
    ------
    DpcovError
        The budget, the schema, the quantity or the assumptions are invalid.

    See Also
    --------
    plan : Errors of all mechanisms.
    Assumptions : Assumptions about the table.

    Examples
    --------
    >>> import dpcov
    >>> schema = dpcov.Schema.from_bounds(0, 100, ["age", "score", "weight"])
    >>> found = dpcov.plan_half_width(
    ...     schema, 20_000, pair=("age", "score"), half_width=0.05, epsilon=1.0, quick=True
    ... )
    >>> found.half_width < 0.5
    True

    """
    check("half_width", half_width, Above0 | None, ReleaseError)
    quantity, supposed = quantity_of(pair, coefficient, share), assumptions or Assumptions()
    stated = epsilon is not None or delta is not None or rho is not None
    from_ledger = years is not None and ledger is not None and not stated
    asked = Request(
        schema=schema,
        epsilon=1.0 if from_ledger else epsilon,
        delta=delta,
        rho=rho,
        neighbors=neighbors,
        mechanism=mechanism,
        goal=goal,
        denoise=denoise,
        ledger=ledger,
        dataset=dataset,
    )
    declared = asked.declared_schema()
    quantity.check(declared)
    if years is None:
        allowance, relation = None, asked.relation
        budgets = {asked.budget: asked.needs_mu(asked.opened_ledger)}
    else:
        allowance = Allowance.of(asked, years, stated=stated)
        relation = allowance.neighbors
        budgets = {budget: allowance.needs_mu(budget) for budget in allowance.kinds()}
    planner = _Planner(declared, relation, supposed, None, goal, denoise)
    simulations = {
        budget: _Simulation(replace(planner, with_mu=with_mu), quantity, mechanism, int(rows))
        for budget, with_mu in budgets.items()
    }
    return _planned(simulations, allowance, half_width, quick=quick)


def _planned(
    simulations: dict[Budget, _Simulation],
    allowance: Allowance | None,
    wanted: float | None,
    *,
    quick: bool,
) -> HalfWidthPlan:
    """Simulate releases at each budget, and return the plan for the one with the smallest width."""
    first = next(iter(simulations.values()))
    releases = FIRST_RELEASES if quick else WIDTH_RELEASES
    steps = Steps(1 if quick else len(simulations) + len(EPSILON_FACTORS) + len(first.others()))
    widths: list[BudgetWidth] = []
    for budget, one in simulations.items():
        try:
            widths.append(one.at(budget, releases))
        except (MechanismError, BudgetError):
            if len(simulations) == 1:
                raise
        steps.advance()
    if not widths:
        raise MechanismError(
            "No mechanism gives intervals with this budget. Plan for fewer years, or a larger "
            "budget."
        )
    best = min(widths, key=lambda one: one.half_width)
    chosen = simulations[best.budget]
    tried = FIRST_TRIES_RELEASES if quick else FEW_RELEASES
    needed = None if wanted is None else chosen.budget_for(wanted, best, tried)
    low, high = (math.nan, math.nan) if quick else chosen.likely(best, steps)
    return HalfWidthPlan(
        schema=first.planner.schema,
        rows=first.rows,
        neighbors=first.planner.neighbors,
        table_assumptions=first.planner.assumptions,
        quantity=first.quantity.words,
        at_budget=best,
        low=low,
        high=high,
        curve=() if quick else tuple(chosen.curve(best.budget, best, steps)),
        wanted=wanted,
        needed=needed,
        kinds=() if allowance is None else tuple(widths),
        years=() if allowance is None else allowance.by_year(best.budget),
        releases=releases,
    )


def quantity_of(
    pair: Sequence[str] | None, coefficient: Sequence[str] | None, share: str | None
) -> Quantity:
    """Return the requested quantity, or refuse several of them."""
    stated: dict[Kind, Any] = {
        "pair": pair,
        "coefficient": coefficient,
        "share": share and (share,),
    }
    asked = [(kind, tuple(names)) for kind, names in stated.items() if names]
    if len(asked) > 1:
        raise ReleaseError(
            "A plan is for one interval. Choose one of "
            f"{' and '.join(f'--{kind}' for kind, _ in asked)}."
        )
    for kind, names in asked:
        if kind != "share" and len(names) != 2:
            raise ReleaseError(f"--{kind} needs two names. State two features.")
        return Quantity(kind, names)
    return Quantity()
