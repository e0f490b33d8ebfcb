"""Plans: the predicted error of a release, and the budget or rows that an error needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from dpcov.api.ledger import Ledger
from dpcov.api.plans.simulated import Assumptions, SimulatedTable
from dpcov.api.plans.simulated_rows import SINGLE_ROWS_REASON
from dpcov.api.plans.trials import Errors, Trials, adds_noise, targets_of
from dpcov.api.request import Request
from dpcov.core.parameters import Interval, Probability, check, checked
from dpcov.core.privacy import (
    ZCDP,
    ApproxDP,
    Budget,
    Neighbors,
    NeighborsName,
    budget_warnings,
    delta_warning,
)
from dpcov.core.renamed import warn_of_former_name
from dpcov.core.show.result import Result
from dpcov.core.show.table import Cell, Row, Table, sentences
from dpcov.core.steps import Steps
from dpcov.denoise import Method
from dpcov.errors import BudgetError, MechanismError, ReleaseError
from dpcov.mechanisms import MECHANISMS, mechanism_named
from dpcov.mechanisms.choice import Goal, choose, mechanism_for
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema

if TYPE_CHECKING:
    from dpcov.mechanisms import Mechanism

# Multiples of epsilon in the table by budget.
EPSILON_FACTORS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
# Number of simulated releases: usually, and for a slow mechanism or many features.
RELEASES, FEW_RELEASES = 20, 4
# Number of simulated releases for the mechanism of the plan. With fewer releases, chance alone can
# change the error of the eigenvalues by a factor of 1.3. Source: not recorded.
MAIN_RELEASES, FEW_MAIN_RELEASES = 60, 24
# Number of features above which a plan simulates fewer releases.
MAX_FAST_FEATURES = 40
# Order of a matrix above which nuclear-Laplace noise is slow to draw.
MAX_NUCLEAR_ORDER = 20
# Largest factor of the budget or of the number of rows in the search for a requested error.
MAX_SEARCH_FACTOR = 1e4
# Factor between two steps of the search, until the steps enclose the requested error.
SEARCH_STEP_FACTOR = 4.0
# Largest error of a budget or number of rows that the search finds, as a natural logarithm.
SEARCH_LOG_TOLERANCE = 0.05
# Largest number of rows in a plan.
MAX_PLAN_ROWS = 10**12
RowCount = Annotated[int, Interval(1, MAX_PLAN_ROWS, "both")]
Needed = tuple[Budget | None, int | None]
HEADS = {
    "noise": "noise per entry",
    "entry": "entry",
    "correlation": "correlation",
    "eigenvalue": "eigenvalues",
    "prediction": "regression",
}
LEGEND = (
    "Noise per entry is the root mean square error of an entry of the published second moment, per "
    "row. Half the width of a column's bounds is 1. This error is exact for any data for the "
    "mechanisms: additive-wishart, gaussian, laplace, matrix-laplace and nuclear-laplace.",
    "The other errors are for a simulated table that fits the assumptions. Entry is the error of a "
    "denoised entry. Correlation is a standard error. Eigenvalues is the mean relative error of "
    "the 3 largest. Regression is the change of a prediction, in standard deviations of the "
    "target.",
    "All errors come from the privacy noise and from clipping.",
    "Mechanisms other than the choice of auto have fewer simulated releases, so their eigenvalue "
    "errors are rough. For a more accurate prediction, name one mechanism with --mechanism.",
)
SLOW_REASON = (
    "A prediction with this many features is slow, so a plan makes it only for the mechanism that "
    "--mechanism names"
)
SLOW_NOISE_REASON = (
    "The noise is slow to draw for this many features, so a plan does not simulate this mechanism"
)
# Reasons of the plan itself. Other reasons are refusals by the mechanism.
PLAN_REASONS = (SINGLE_ROWS_REASON, SLOW_REASON, SLOW_NOISE_REASON)
RANGE_NOTE = (
    "The range covers tables that fit the assumptions equally well, with light tails and with "
    "heavy tails. Without assumptions, the range also covers narrow columns and columns that fill "
    "their bounds. On five public tables, more than 90% of the measured errors were in the range."
)
NOISE_NOTE = (
    "The plan assumes the smaller of Laplace noise and Gaussian noise. A ledger with --count "
    "gaussian requires Gaussian noise: add --ledger to plan for it."
)
# Factors that widen the range on both sides, with a release of a similar table and without one.
# Source: tuned, so that the range contains more than 90% of the errors of five public tables
# (docs/results/plan_calibration.json).
RELEASE_RANGE_FACTOR, ASSUMPTIONS_RANGE_FACTOR = 1.28, 1.5
# Standard deviations in the range of a plan without assumptions, as fractions of half the width of
# the bounds. A column that fills its bounds evenly has 0.58.
NARROW_SPREAD, WIDE_SPREAD = 0.1, 0.58
# Number of tables of the range, without the table of the plan.
MAX_OTHER_TABLES = 5
# Number of readings of the table above which a plan simulates fewer releases.
MAX_FAST_PASSES = 6


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted errors of one mechanism with one budget.

    Attributes
    ----------
    mechanism : str
        Name of the mechanism.

    budget : Budget
        Budget of the release.

    errors : Errors
        Predicted errors from the privacy noise and from clipping.

    """

    mechanism: str
    budget: Budget
    errors: Errors


@dataclass(frozen=True, slots=True)
class Plan(Result):
    """Predicted errors of a release, from public numbers.

    Attributes
    ----------
    schema : Schema
        Schema of the table.

    rows : int
        Assumed number of rows.

    budget : Budget
        Budget of the release.

    neighbors : Neighbors
        Relation between neighbouring tables.

    table_assumptions : Assumptions
        Assumptions about the table.

    target : str or None
        Feature that is regressed on the others. None for some numeric features.

    goal : str
        Result that should be accurate.

    method : str
        Method that denoises the releases.

    predictions : tuple of Prediction
        Predicted errors of each mechanism, with the smallest error of a correlation first.

    not_predicted : tuple of (str, str)
        Name and reason for each mechanism without a prediction.

    recommended : str
        Mechanism that ``auto`` chooses for this budget.

    mechanism : str
        Requested mechanism, or ``auto``.

    curve : tuple of Prediction
        Predicted errors of `mechanism` for multiples of epsilon.

    sampling : float
        Standard error of a correlation from sampling alone, without any privacy noise.

    between : mapping of str to (float, float)
        Range of each error of `mechanism` over several tables that fit the assumptions.

    with_mu : bool
        True if a ledger needs Gaussian noise with a known mu.

    See Also
    --------
    dpcov.plan : Predict the errors of a release.

    Examples
    --------
    >>> import dpcov
    >>> schema = dpcov.Schema.from_bounds(0, 1, ("x", "y"))
    >>> plan = dpcov.plan(schema, rows=5000, epsilon=1.0, mechanism="matrix-laplace")
    >>> plan.rows
    5000

    """

    schema: Schema
    rows: int
    budget: Budget
    neighbors: Neighbors
    table_assumptions: Assumptions
    target: str | None
    goal: Goal
    method: Method
    predictions: tuple[Prediction, ...]
    not_predicted: tuple[tuple[str, str], ...]
    recommended: str
    mechanism: str
    curve: tuple[Prediction, ...]
    sampling: float
    between: Mapping[str, tuple[float, float]]
    with_mu: bool = False

    @property
    def guess(self) -> Assumptions:
        """Former name of `table_assumptions`."""
        warn_of_former_name("Plan.guess", "Plan.table_assumptions")
        return self.table_assumptions

    def budget_for(self, error: float) -> Budget | None:
        """Find the smallest budget for a standard error of the correlations.

        Parameters
        ----------
        error : float
            Requested standard error of a correlation, between 0 and 1.

        Returns
        -------
        Budget or None
            Smallest budget. None if 10,000 times the budget of the plan is too small.

        Examples
        --------
        >>> import dpcov
        >>> schema = dpcov.Schema.from_bounds(0, 1, ("x", "y"))
        >>> plan = dpcov.plan(schema, rows=5000, epsilon=1.0, mechanism="matrix-laplace")
        >>> type(plan.budget_for(0.05)).__name__
        'PureDP'

        """
        planner = self._planner()
        trials = planner.trials(self.rows)
        factor = _crossing(
            lambda f: planner.predicted(self.mechanism, scaled(self.budget, f), trials), error
        )
        return None if factor is None else scaled(self.budget, factor)

    def rows_for(self, error: float) -> int | None:
        """Find the smallest number of rows for a standard error of the correlations.

        Parameters
        ----------
        error : float
            Requested standard error of a correlation, between 0 and 1.

        Returns
        -------
        int or None
            Smallest number of rows. None if 10,000 times the rows of the plan are too few.

        Examples
        --------
        >>> import dpcov
        >>> schema = dpcov.Schema.from_bounds(0, 1, ("x", "y"))
        >>> plan = dpcov.plan(schema, rows=5000, epsilon=1.0, mechanism="matrix-laplace")
        >>> plan.rows_for(0.05) > 100
        True

        """
        planner = self._planner()

        def at(factor: float) -> Prediction:
            trials = planner.trials(max(1, round(self.rows * factor)))
            return planner.predicted(self.mechanism, self.budget, trials)

        factor = _crossing(at, error)
        return None if factor is None else max(1, math.ceil(self.rows * factor))

    def _planner(self) -> _Planner:
        return _Planner(
            self.schema,
            self.neighbors,
            self.table_assumptions,
            self.target,
            self.goal,
            self.method,
            self.with_mu,
        )

    def tables(self) -> list[Table]:
        heads = tuple(HEADS.values())
        by_mechanism: list[Row] = []
        for one in self.predictions:
            star = " (auto)" if one.mechanism == self.recommended else ""
            by_mechanism.append((one.mechanism + star, _figures(one)))
        by_budget: list[Row] = [(amount(one.budget), _figures(one)) for one in self.curve]
        notes = [*LEGEND, self.sampling_in_words()]
        if self.not_predicted:
            notes += _not_predicted(self.not_predicted)
        if least := self.least_rows():
            listed = ", ".join(f"{name} {rows:,}" for name, rows in least.items())
            notes.append(f"Rows needed at least, with this budget: {listed}.")
        ends = zip(*(self.between.get(name, (math.nan, math.nan)) for name in HEADS), strict=True)
        likely: list[Row] = list(zip(("from", "to"), map(list, ends), strict=True))
        title = f"Likely range, {amount(self.budget)}, mechanism {self.mechanism}"
        form = ("{:.2g}",)
        return [
            sentences(*self.warnings(), *self.assumptions()),
            Table(("mechanism", *heads), by_mechanism, "By mechanism", form),
            Table(
                ("budget", *heads),
                by_budget,
                f"By budget, mechanism {self.mechanism}",
                form,
                notes=tuple(notes),
            ),
            Table(("", *heads), likely, title, form, notes=(RANGE_NOTE,)),
        ]

    def least_rows(self) -> dict[str, int]:
        """Return the smallest number of rows of each mechanism that needs a minimum of rows."""
        asked = self.schema, self.budget, self.neighbors
        found = {name: _least(kind(), *asked) for name, kind in MECHANISMS.items()}
        return {name: least for name, least in found.items() if least}

    def warnings(self) -> list[str]:
        """Return warnings about the budget for the assumed number of rows, as sentences."""
        of_delta = delta_warning(self.budget, self.rows, f"the {self.rows:,} rows")
        return [*budget_warnings(self.budget), *of_delta]

    def assumptions(self) -> list[str]:
        """Return sentences that describe the request and the assumptions about the table."""
        stated, columns = self.table_assumptions, len(self.schema.encoded_columns)
        own = "".join(f", {name} {share:g}" for name, share in stated.spreads.items())
        known = ", ".join(f"{name} {value:g}" for name, value in stated.means.items())
        means = f"; means {known} (--mean)" if known else ""
        share = stated.explained
        others = "" if share is None else f", {share:.0%} of a column explained by the others"
        ties = others and f"{others} (--explained)"
        assumed = (
            f"standard deviations {stated.spread:g} times half the width of the bounds{own} "
            f"(--spread){means}; correlations about {stated.correlation:g} (--correlation){ties}"
            if stated.like is None
            else "means, standard deviations and correlations of the given release (--like)"
        )
        return [
            f"Plan for {_counted(columns, 'column')} "
            f"({_counted(len(self.schema.features), 'feature')}), {_counted(self.rows, 'row')}, "
            f"{self.budget}, {self.neighbors.value}. dpcov read no data. Nothing was spent.",
            f"Assumptions: {assumed}.",
            *self._noise_in_words(),
        ]

    def _noise_in_words(self) -> list[str]:
        """Return a sentence about the noise, if it depends on the ledger."""
        if self.with_mu:
            return ["The ledger counts Gaussian noise, so the plan assumes Gaussian noise."]
        if isinstance(self.budget, ApproxDP):
            return [NOISE_NOTE]
        return []

    def sampling_in_words(self) -> str:
        """Return a sentence about the error of a correlation from sampling alone."""
        return (
            f"For comparison: without privacy noise, a correlation of {self.rows} independent rows "
            f"has a standard error of {self.sampling:.2g} from sampling."
        )

    def answers(self, error: float, needed: Needed) -> list[str]:
        """Return sentences about the budget and the rows that a requested error needs.

        Parameters
        ----------
        error : float
            Requested standard error of a correlation.

        needed : tuple of (Budget or None, int or None)
            Results of `budget_for` and `rows_for`.

        Returns
        -------
        list of str
            Two sentences.

        """
        budget, rows = needed
        wanted = f"A standard error of {error:g} in a correlation"
        first = (
            f"{wanted} is not possible with {self.rows} rows at any usual budget."
            if budget is None
            else f"{wanted} needs about {amount(budget)} with {self.rows} rows."
        )
        second = (
            f"{wanted} is not possible at {amount(self.budget)} with any number of rows."
            if rows is None
            else f"{wanted} needs about {float(f'{rows:.2g}'):.0f} rows at {amount(self.budget)}."
        )
        return [first, second]

    def document(self, error: float | None = None, needed: Needed | None = None) -> dict[str, Any]:
        """Return the plan as plain data for JSON.

        Parameters
        ----------
        error : float, optional
            Requested standard error of a correlation.

        needed : tuple of (Budget or None, int or None), optional
            Results of `budget_for` and `rows_for`.

        Returns
        -------
        dict
            All numbers of the plan.

        """
        stated = self.table_assumptions
        assumed = {
            "spread": stated.spread,
            "spreads": dict(stated.spreads),
            "means": dict(stated.means),
            "correlation": stated.correlation,
            "explained": stated.explained,
            "like": stated.like is not None,
        }
        facts: dict[str, Any] = {
            "rows": self.rows,
            "features": len(self.schema.features),
            "budget": asdict(self.budget),
            "neighbors": self.neighbors.value,
            "warnings": self.warnings(),
            "least_rows": self.least_rows(),
            "assumptions": assumed,
            "guess": assumed,  # former key, until version 0.5
            "recommended": self.recommended,
            "sampling": self.sampling,
            "mechanisms": [_row(prediction) for prediction in self.predictions],
            "not_predicted": dict(self.not_predicted),
            "curve": [_row(prediction) for prediction in self.curve],
            "between": {name: list(ends) for name, ends in self.between.items()},
        }
        if error is not None and needed is not None:
            budget, rows = needed
            enough = None if budget is None else asdict(budget)
            facts["needed"] = {"error": error, "budget": enough, "rows": rows}
        return facts


def amount(budget: Budget) -> str:
    """Return a budget in short form, such as ``epsilon 1``."""
    return ", ".join(f"{name} {value:g}" for name, value in asdict(budget).items())


def _not_predicted(found: Sequence[tuple[str, str]]) -> list[str]:
    """Return sentences on the mechanisms without a prediction, by their reasons."""
    notes = []
    for reason in PLAN_REASONS:
        if names := [name for name, stated in found if stated == reason]:
            notes.append(f"Not predicted: {', '.join(names)}. Reason: {reason}.")
    if names := [name for name, stated in found if stated not in PLAN_REASONS]:
        refused = ", ".join(names)
        notes.append(f"Refuse this budget or schema: {refused}. Add --json to see the reasons.")
    return notes


def _least(mechanism: Mechanism, schema: Schema, budget: Budget, neighbors: Neighbors) -> int:
    """Return the smallest number of rows that a mechanism accepts.

    The result is 0 if the mechanism accepts any number of rows, or if it refuses the budget.
    """
    with suppress(MechanismError, BudgetError):
        return mechanism.least_units(Lattice.of(schema), budget, neighbors)
    return 0


def _figures(prediction: Prediction) -> list[Cell]:
    """Return the numbers of one row of a table."""
    found = (getattr(prediction.errors, name) for name in HEADS)
    return [math.nan if figure is None else figure for figure in found]


def _row(prediction: Prediction) -> dict[str, Any]:
    stated = {"mechanism": prediction.mechanism, "budget": asdict(prediction.budget)}
    return stated | asdict(prediction.errors)


@dataclass(frozen=True)
class _Planner:
    """Predictions for any mechanism, budget and number of rows."""

    schema: Schema
    neighbors: Neighbors
    assumptions: Assumptions
    target: str | None = None
    goal: Goal = "all"
    method: Method = "shrink"
    with_mu: bool = False

    @cached_property
    def table(self) -> SimulatedTable:
        return SimulatedTable.of(self.schema, Lattice.of(self.schema), self.assumptions)

    def trials(self, rows: int, table: SimulatedTable | None = None) -> Trials:
        """Return trials on a simulated table with this number of rows.

        The default is the table that fits the assumptions.
        """
        simulated = self.table if table is None else table
        targets, moment = targets_of(self.schema, self.target), simulated.moment(rows)
        source = simulated.source(rows)
        return Trials(self.schema, moment, rows, targets, self.method, source, self.with_mu)

    def between(
        self, own: Prediction, name: str, rows: int, steps: Steps
    ) -> dict[str, tuple[float, float]]:
        """Return the range of each error over several tables that fit the assumptions."""
        mechanism = self.mechanism(name, own.budget)
        errors = [own.errors]
        for table in self._others():
            steps.advance()
            errors.append(self._tried(mechanism, own.budget, self.trials(rows, table)).errors)
        found: dict[str, tuple[float, float]] = {}
        factor = ASSUMPTIONS_RANGE_FACTOR if self.assumptions.like is None else RELEASE_RANGE_FACTOR
        for figure in HEADS:
            values = [value for one in errors if (value := getattr(one, figure)) is not None]
            if values:
                found[figure] = (min(values) / factor, max(values) * factor)
        return found

    def _others(self) -> list[SimulatedTable]:
        if self.assumptions.like is not None:
            return []
        spreads = (NARROW_SPREAD, WIDE_SPREAD) if self.assumptions == Assumptions() else ()
        others = [replace(self.assumptions, spread=spread) for spread in spreads]
        tables = [SimulatedTable.of(self.schema, self.table.lattice, other) for other in others]
        return [*tables, *(table.with_longer_tails() for table in (self.table, *tables))]

    def chosen(self, budget: Budget) -> Mechanism:
        """Return the mechanism that ``auto`` chooses."""
        asked = self.schema, budget, self.neighbors
        return choose(*asked, goal=self.goal, with_mu=self.with_mu).mechanism

    def mechanism(self, name: str, budget: Budget) -> Mechanism:
        """Return the mechanism with this name, or the choice of ``auto``."""
        return self.chosen(budget) if name == "auto" else mechanism_for(name, self.goal)

    def predicted(
        self, name: str, budget: Budget, trials: Trials, *, careful: bool = False
    ) -> Prediction:
        """Predict the errors of a mechanism, or of the choice of ``auto``.

        With few features the prediction always uses many releases. The table by budget is then
        consistent with the table by mechanism.
        """
        mechanism = self.mechanism(name, budget)
        careful |= self.table.lattice.dimension <= MAX_FAST_FEATURES
        return self._tried(mechanism, budget, trials, careful=careful)

    def compared(self, name: str, budget: Budget, trials: Trials) -> Prediction:
        """Predict the errors of a mechanism for the table by mechanism.

        The method refuses a slow mechanism unless ``auto`` chooses the mechanism. The choice of
        ``auto`` keeps its options.
        """
        chosen = self.chosen(budget)
        if name == chosen.name:
            return self._tried(chosen, budget, trials, careful=True)
        mechanism = self.mechanism(name, budget)
        calibrate = mechanism.calibrate_gaussian if self.with_mu else mechanism.calibrate
        calibration = calibrate(self.table.lattice, budget, self.neighbors)
        if self.table.lattice.dimension > MAX_FAST_FEATURES and not adds_noise(calibration):
            raise MechanismError(SLOW_REASON)
        return self._tried(mechanism, budget, trials)

    def _tried(
        self, mechanism: Mechanism, budget: Budget, trials: Trials, *, careful: bool = False
    ) -> Prediction:
        dimension = self.table.lattice.dimension
        if mechanism.name == "nuclear-laplace" and dimension > MAX_NUCLEAR_ORDER:
            raise MechanismError(SLOW_NOISE_REASON)
        if mechanism.passes > MAX_FAST_PASSES:
            repeats = FEW_RELEASES
        elif dimension > MAX_FAST_FEATURES:
            repeats = FEW_MAIN_RELEASES if careful else FEW_RELEASES
        else:
            repeats = MAIN_RELEASES if careful else RELEASES
        errors = trials.errors(mechanism, budget, self.neighbors, repeats)
        return Prediction(mechanism.name, budget, errors)


def _counted(count: int, noun: str) -> str:
    """Return a number with its noun, such as ``2 rows``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


@checked("epsilon", "delta", "rho", "neighbors")
def plan(
    schema: Schema | str | Path,
    rows: RowCount,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    neighbors: Neighbors | NeighborsName = "add-remove",
    mechanism: str = "auto",
    goal: Goal = "all",
    denoise: Method = "shrink",
    target: str | None = None,
    assumptions: Assumptions | None = None,
    factors: Sequence[float] = EPSILON_FACTORS,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    guess: Assumptions | None = None,
) -> Plan:
    """Predict the error of a release, without reading data or spending budget.

    dpcov simulates a table from the schema, the number of rows and your assumptions. dpcov then
    simulates denoised releases and compares them with the table. If a mechanism only adds noise
    from a public distribution, its error before denoising (`Errors.noise`) is exact. All other
    errors depend on your assumptions.

    Parameters
    ----------
    schema : Schema, str or Path
        Schema of the table, or the path of a TOML file.

    rows : int
        Assumed number of rows, from public knowledge. With weights, the assumed sum of the weights
        divided by the largest allowed weight.

    epsilon : float, optional
        Epsilon of the budget.

    delta : float, optional
        Delta of the budget, together with `epsilon`.

    rho : float, optional
        Budget for zero-concentrated differential privacy, instead of `epsilon`.

    neighbors : {'add-remove', 'replace-one'}, default 'add-remove'
        Relation between neighbouring tables, as in `release`.

    mechanism : str, default 'auto'
        Mechanism of the plan, as in `release`. With ``auto`` the plan compares all mechanisms.

    goal : str, default 'all'
        Result that should be accurate, as in `release`.

    denoise : {'shrink', 'project', 'none'}, default 'shrink'
        Method that denoises the releases.

    target : str, optional
        Feature that is regressed on the others. The default is an average over up to 6 numeric
        features.

    assumptions : Assumptions, optional
        Assumptions about the table. The default is ``Assumptions()``.

    factors : sequence of float, optional
        Multiples of epsilon for the table by budget.

    ledger : Ledger, str or Path, optional
        Ledger of the release, which can require Gaussian noise. The plan records nothing in the
        ledger.

    dataset : str, optional
        Data set in the ledger, as in `release`.

    guess : Assumptions, optional
        Former name of `assumptions`. Version 0.5 removes it.

    Returns
    -------
    Plan
        Predicted errors by mechanism and by budget, with a likely range.

    Raises
    ------
    DpcovError
        The budget, the schema, the mechanism or the assumptions are invalid.

    See Also
    --------
    Assumptions : Assumptions about the table.
    release : Release with this budget.

    Examples
    --------
    >>> import dpcov
    >>> schema = dpcov.Schema.from_bounds(0, 100, ["age", "score", "weight"])
    >>> found = dpcov.plan(schema, 20_000, epsilon=1.0, mechanism="matrix-laplace", factors=())
    >>> bool(found.predictions[0].errors.correlation < 0.05)
    True

    """
    request = Request(
        schema=schema,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        neighbors=neighbors,
        mechanism=mechanism,
        goal=goal,
        denoise=denoise,
        ledger=ledger,
        dataset=dataset,
    )
    declared, budget, relation = request.declared_schema(), request.budget, request.relation
    if guess is not None:
        warn_of_former_name("guess", "assumptions", depth=2)
    supposed = assumptions or guess or Assumptions()
    with_mu = request.needs_mu(request.opened_ledger)
    planner = _Planner(declared, relation, supposed, target, goal, denoise, with_mu)
    trials = planner.trials(int(rows))
    predictions, others = [], []
    steps = Steps((len(MECHANISMS) if mechanism == "auto" else 1) + len(factors) + MAX_OTHER_TABLES)
    if mechanism == "auto":
        for name in MECHANISMS:
            steps.advance()
            try:
                predictions.append(planner.compared(name, budget, trials))
            except MechanismError as error:
                others.append((name, str(error)))
    else:
        try:
            predictions.append(planner.predicted(mechanism, budget, trials, careful=True))
        except MechanismError as error:
            least = _least(mechanism_named(mechanism), declared, budget, relation)
            needs = f" It needs at least {least:,} rows with this budget." if least else ""
            raise MechanismError(f"{str(error).rstrip('.')}.{needs}") from None
    predictions.sort(key=_order)
    curve = []
    here = planner.chosen(budget).name if mechanism == "auto" else mechanism
    known = {p.mechanism: p for p in predictions}
    between = planner.between(known[here], mechanism, int(rows), steps) if here in known else {}
    for factor in factors:
        steps.advance()
        if factor == 1 and here in known:
            curve.append(known[here])
            continue
        with suppress(MechanismError, BudgetError):  # no row if the noise is too large to draw
            curve.append(planner.predicted(mechanism, scaled(budget, factor), trials))
    return Plan(
        schema=declared,
        rows=int(rows),
        budget=budget,
        neighbors=relation,
        table_assumptions=supposed,
        target=target,
        goal=goal,
        method=denoise,
        predictions=tuple(predictions),
        not_predicted=tuple(others),
        recommended=planner.chosen(budget).name,
        mechanism=mechanism,
        curve=tuple(curve),
        sampling=(1 - supposed.typical_correlation**2) / math.sqrt(rows),
        between=between,
        with_mu=with_mu,
    )


def _order(prediction: Prediction) -> tuple[bool, float]:
    """Return a sort key: the error of a correlation, or of an entry if that is unknown."""
    errors = prediction.errors
    return errors.correlation is None, errors.correlation or errors.entry


def scaled(budget: Budget, factor: float) -> Budget:
    """Return a budget with `factor` times the epsilon and the same delta.

    For a budget in rho, the function multiplies rho by the squared factor.
    """
    if isinstance(budget, ZCDP):
        return ZCDP(_rounded(budget.rho * factor**2))
    return replace(budget, epsilon=_rounded(budget.epsilon * factor))


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _crossing(predicted: Callable[[float], Prediction], wanted: float) -> float | None:
    """Find the smallest factor at which a decreasing error is at most `wanted`.

    The result is None if the factor would exceed `MAX_SEARCH_FACTOR`.
    """
    check("error", wanted, Probability, ReleaseError)

    def error(factor: float) -> float:
        found = predicted(factor).errors.correlation
        if found is None:
            raise ReleaseError(
                "A plan predicts correlations only with an intercept, at least two features and a "
                "mechanism that publishes covariances. Set intercept = 0.3 in the schema, add a "
                "column, or choose --mechanism auto."
            )
        return found

    low = high = 1.0
    if error(1.0) > wanted:
        while error(high) > wanted:
            low, high = high, high * SEARCH_STEP_FACTOR
            if high > MAX_SEARCH_FACTOR:
                return None
    else:
        while error(low) <= wanted:
            low, high = low / SEARCH_STEP_FACTOR, low
            if low < 1 / MAX_SEARCH_FACTOR:
                return high
    while math.log(high / low) > SEARCH_LOG_TOLERANCE:
        middle = float(np.sqrt(low * high))
        try:
            low, high = (middle, high) if error(middle) > wanted else (low, middle)
        except MechanismError:
            low = middle
    return high
