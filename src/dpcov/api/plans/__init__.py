"""Plans: the error to expect for a budget, and the budget or rows that a wanted error needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from dpcov.api.plans.imagined import Guess, ImaginedTable
from dpcov.api.plans.trials import Errors, Trials, adds_noise, targets_of
from dpcov.core.parameters import Interval, Probability, check, checked
from dpcov.core.privacy import (
    ZCDP,
    Budget,
    Neighbors,
    NeighborsName,
    budget_from,
    budget_warnings,
    delta_warning,
    neighbors_named,
)
from dpcov.core.show.result import Result
from dpcov.core.show.table import Cell, Row, Table, sentences
from dpcov.denoise import Method
from dpcov.errors import BudgetError, MechanismError, ReleaseError
from dpcov.mechanisms import MECHANISMS, mechanism_named
from dpcov.mechanisms.choice import Goal, choose
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema

if TYPE_CHECKING:
    from dpcov.mechanisms import Mechanism

FACTORS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # of epsilon, along the curve
REPEATS, FEW_REPEATS = 20, 4
CAREFUL, FEW_CAREFUL = 60, 24  # with fewer, luck alone moves eigenvalues by 1.3 now and then
MANY_FEATURES = 40
SLOW_TO_DRAW = 20  # order above which many draws of nuclear-Laplace noise take long
FARTHEST = 1e4  # factor to which a wanted error is sought
STRIDE = 4.0
CLOSE = 0.05  # log of the factor by which a found budget may be off
MOST_ROWS = 10**12
RowCount = Annotated[int, Interval(1, MOST_ROWS, "both")]
Needed = tuple[Budget | None, int | None]
HEADS = {
    "noise": "noise per entry",
    "entry": "entry",
    "correlation": "correlation",
    "eigenvalue": "eigenvalues",
    "prediction": "regression",
}
LEGEND = (
    "noise per entry: root mean square error of an entry of the second moment, per row, as "
    "published; half the width of a column's bounds is 1. Exact, whatever the data, where noise is "
    "all that a mechanism adds: additive-wishart, gaussian, laplace, matrix-laplace and "
    "nuclear-laplace.",
    "All else is what a release would lose if the table were like the imagined one. entry: the "
    "error of an entry once denoised; correlation: standard error; eigenvalues: mean relative "
    "error of the 3 largest; regression: change of a prediction, in standard deviations of what is "
    "predicted.",
    "All of it is error from the privacy noise, and from what a mechanism chooses to clip. On five "
    "public tables, given a release of half of one (--like), 116 of 125 predictions of what auto "
    "takes, and 94 % of all, were within a factor of 1.3 of what the other half showed; given "
    "spreads and means of columns, how correlated they are and how much of one the others explain "
    "(--spread, --mean, --correlation, --explained), 98 % for entries, 88 % for correlations, 90 % "
    "for regression and 64 % for eigenvalues. Given spreads and correlation alone, 84 % for "
    "correlations. With the defaults, correlations of what auto takes were within 2. Mechanisms "
    "that auto does not take are tried less often here than alone (--mechanism), so their "
    "eigenvalues are rough.",
)
RANGE = (
    "What a release may lose, over tables that fit what was supposed as well: with long tails, and "
    "where nothing was, with columns that fill a tenth or more than half of their bounds. It held "
    "what was found on five public tables in more than nine of ten cells."
)
# Factors by which a range is wider than its tables: more than nine of ten figures of five public
# tables lie within, given a release of half of one, and given numbers to a digit or two.
LIKE_A_RELEASE, LIKE_A_GUESS = 1.22, 1.5
NARROW, WIDE = 0.1, 0.58  # spreads, where nothing is supposed
MANY_PASSES = 6  # readings of the imagined table beyond which a release takes long


@dataclass(frozen=True, slots=True)
class Prediction:
    """What to expect of one mechanism at one budget.

    Attributes
    ----------
    mechanism : its name.
    budget : what it would spend.
    errors : over releases of the imagined table, from the privacy noise and what was clipped.

    """

    mechanism: str
    budget: Budget
    errors: Errors


@dataclass(frozen=True, slots=True)
class Plan(Result):
    """Errors to expect, from public numbers alone.

    Attributes
    ----------
    schema, rows, budget, neighbors, guess, target, goal : what was asked.
    predictions : of each mechanism whose error can be predicted, least correlation error first.
    not_predicted : name and reason of each of the others.
    recommended : the mechanism that ``auto`` takes at this budget.
    mechanism, method : the mechanism asked for, or ``auto``, and how releases are denoised.
    curve : of that mechanism at multiples of the budget's epsilon.
    sampling : standard error of a correlation that sampling alone leaves, whatever the
        privacy: what the noise may be compared with.
    between : least and largest of each error of that mechanism at this budget, over tables that
        are as plausible: with shorter and longer tails, and where nothing is known, other spreads.

    """

    schema: Schema
    rows: int
    budget: Budget
    neighbors: Neighbors
    guess: Guess
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

    def budget_for(self, error: float) -> Budget | None:
        """The least budget whose correlations have this standard error; None if none has."""
        planner = self._planner()
        trials = planner.trials(self.rows)
        factor = _crossing(
            lambda f: planner.predicted(self.mechanism, scaled(self.budget, f), trials), error
        )
        return None if factor is None else scaled(self.budget, factor)

    def rows_for(self, error: float) -> int | None:
        """The least number of rows whose correlations have this standard error at this budget."""
        planner = self._planner()

        def at(factor: float) -> Prediction:
            trials = planner.trials(max(1, round(self.rows * factor)))
            return planner.predicted(self.mechanism, self.budget, trials)

        factor = _crossing(at, error)
        return None if factor is None else max(1, math.ceil(self.rows * factor))

    def _planner(self) -> _Planner:
        return _Planner(
            self.schema, self.neighbors, self.guess, self.target, self.goal, self.method
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
            names = ", ".join(name for name, _ in self.not_predicted)
            notes.append(f"Not predicted: {names} (--json says why).")
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
            Table(("", *heads), likely, title, form, notes=(RANGE,)),
        ]

    def least_rows(self) -> dict[str, int]:
        """Return the mechanisms that need many rows, and how many they need at this budget."""
        asked = self.schema, self.budget, self.neighbors
        found = {name: _least(kind(), *asked) for name, kind in MECHANISMS.items()}
        return {name: least for name, least in found.items() if least}

    def warnings(self) -> list[str]:
        """Return what is to be said about the budget, from its figures and the guessed rows."""
        guessed = delta_warning(self.budget, self.rows, f"the {self.rows:,} rows")
        return [*budget_warnings(self.budget), *guessed]

    def assumptions(self) -> list[str]:
        """What the imagined table is, in words."""
        guess, columns = self.guess, len(self.schema.encoded_columns)
        own = "".join(f", {name} {share:g}" for name, share in guess.spreads.items())
        known = ", ".join(f"{name} {value:g}" for name, value in guess.means.items())
        means = f"; means {known} (--mean)" if known else ""
        share = guess.explained
        others = "" if share is None else f", {share:.0%} of a column explained by others"
        ties = others and f"{others} (--explained)"
        supposed = (
            f"numeric columns have a standard deviation of {guess.spread:g} times half the width "
            f"of their bounds{own} (--spread){means}; correlations of about {guess.correlation:g} "
            f"(--correlation){ties}"
            if guess.like is None
            else "means, standard deviations and correlations are those of the release given "
            "(--like)"
        )
        return [
            f"Plan for {columns} columns ({len(self.schema.features)} features), {self.rows} rows, "
            f"{self.budget}, {self.neighbors.value}. No data was read, nothing is spent.",
            f"Supposed: {supposed}.",
        ]

    def sampling_in_words(self) -> str:
        """What the errors from the privacy noise may be compared with."""
        return (
            f"For comparison, sampling alone leaves a standard error of {self.sampling:.2g} in a "
            f"correlation of {self.rows} independent rows."
        )

    def answers(self, error: float, needed: Needed) -> list[str]:
        """What a wanted error of a correlation needs."""
        budget, rows = needed
        wanted = f"A standard error of {error:g} in a correlation"
        first = (
            f"{wanted} is out of reach with {self.rows} rows at any sensible budget."
            if budget is None
            else f"{wanted} needs about {amount(budget)} with {self.rows} rows."
        )
        second = (
            f"{wanted} is out of reach at {amount(self.budget)} with any number of rows."
            if rows is None
            else f"{wanted} needs about {float(f'{rows:.2g}'):.0f} rows at {amount(self.budget)}."
        )
        return [first, second]

    def document(self, error: float | None = None, needed: Needed | None = None) -> dict[str, Any]:
        """A plan as JSON data."""
        facts: dict[str, Any] = {
            "rows": self.rows,
            "features": len(self.schema.features),
            "budget": asdict(self.budget),
            "neighbors": self.neighbors.value,
            "warnings": self.warnings(),
            "least_rows": self.least_rows(),
            "guess": {
                "spread": self.guess.spread,
                "spreads": dict(self.guess.spreads),
                "means": dict(self.guess.means),
                "correlation": self.guess.correlation,
                "explained": self.guess.explained,
                "like": self.guess.like is not None,
            },
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
    """A budget in short."""
    return ", ".join(f"{name} {value:g}" for name, value in asdict(budget).items())


def _least(mechanism: Mechanism, schema: Schema, budget: Budget, neighbors: Neighbors) -> int:
    """Return how many rows a mechanism takes at least; 0 if any number, or with no such budget."""
    with suppress(MechanismError, BudgetError):
        return mechanism.least_units(Lattice.of(schema), budget, neighbors)
    return 0


def _figures(prediction: Prediction) -> list[Cell]:
    """The figures of a row of a table."""
    found = (getattr(prediction.errors, name) for name in HEADS)
    return [math.nan if figure is None else figure for figure in found]


def _row(prediction: Prediction) -> dict[str, Any]:
    stated = {"mechanism": prediction.mechanism, "budget": asdict(prediction.budget)}
    return stated | asdict(prediction.errors)


@dataclass(frozen=True)
class _Planner:
    """Predicts for any mechanism, budget and number of rows."""

    schema: Schema
    neighbors: Neighbors
    guess: Guess
    target: str | None = None
    goal: Goal = "all"
    method: Method = "shrink"

    @cached_property
    def table(self) -> ImaginedTable:
        return ImaginedTable.of(self.schema, Lattice.of(self.schema), self.guess)

    def trials(self, rows: int, table: ImaginedTable | None = None) -> Trials:
        """Trials on so many rows of the table that is guessed, or of another one."""
        imagined = self.table if table is None else table
        targets, moment = targets_of(self.schema, self.target), imagined.moment(rows)
        return Trials(self.schema, moment, rows, targets, self.method, imagined.door(rows))

    def between(self, own: Prediction, name: str, rows: int) -> dict[str, tuple[float, float]]:
        """Least and largest of each error, over the tables that fit the guess as well."""
        mechanism = self.chosen(own.budget) if name == "auto" else mechanism_named(name)
        errors = [own.errors]
        for table in self._others():
            errors.append(self._tried(mechanism, own.budget, self.trials(rows, table)).errors)
        found, luck = {}, LIKE_A_GUESS if self.guess.like is None else LIKE_A_RELEASE
        for figure in HEADS:
            values = [value for one in errors if (value := getattr(one, figure)) is not None]
            if values:
                found[figure] = (min(values) / luck, max(values) * luck)
        return found

    def _others(self) -> list[ImaginedTable]:
        if self.guess.like is not None:
            return []
        spreads = (NARROW, WIDE) if self.guess == Guess() else ()
        guesses = [replace(self.guess, spread=spread) for spread in spreads]
        tables = [ImaginedTable.of(self.schema, self.table.lattice, guess) for guess in guesses]
        return [*tables, *(table.with_longer_tails() for table in (self.table, *tables))]

    def chosen(self, budget: Budget) -> Mechanism:
        """The mechanism that ``auto`` takes."""
        return choose(self.schema, budget, self.neighbors, goal=self.goal).mechanism

    def predicted(
        self, name: str, budget: Budget, trials: Trials, *, careful: bool = False
    ) -> Prediction:
        """Errors to expect of the mechanism `name`, or of the one that ``auto`` takes.

        With few features always from many releases, so that a curve has no kink where the
        comparison has its row.
        """
        mechanism = self.chosen(budget) if name == "auto" else mechanism_named(name)
        careful |= self.table.lattice.dimension <= MANY_FEATURES
        return self._tried(mechanism, budget, trials, careful=careful)

    def compared(self, name: str, budget: Budget, trials: Trials) -> Prediction:
        """The same beside others: refuses what takes long and is not what ``auto`` takes.

        What ``auto`` takes has the options with which it does.
        """
        chosen = self.chosen(budget)
        if name == chosen.name:
            return self._tried(chosen, budget, trials, careful=True)
        mechanism = mechanism_named(name)
        calibration = mechanism.calibrate(self.table.lattice, budget, self.neighbors)
        if self.table.lattice.dimension > MANY_FEATURES and not adds_noise(calibration):
            raise MechanismError("slow to try with so many features: name it to have it predicted")
        return self._tried(mechanism, budget, trials)

    def _tried(
        self, mechanism: Mechanism, budget: Budget, trials: Trials, *, careful: bool = False
    ) -> Prediction:
        dimension = self.table.lattice.dimension
        if mechanism.name == "nuclear-laplace" and dimension > SLOW_TO_DRAW:
            raise MechanismError(
                "its noise is slow to draw for so many features, and auto skips it"
            )
        if mechanism.passes > MANY_PASSES:
            repeats = FEW_REPEATS
        elif dimension > MANY_FEATURES:
            repeats = FEW_CAREFUL if careful else FEW_REPEATS
        else:
            repeats = CAREFUL if careful else REPEATS
        errors = trials.errors(mechanism, budget, self.neighbors, repeats)
        return Prediction(mechanism.name, budget, errors)


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
    guess: Guess | None = None,
    factors: Sequence[float] = FACTORS,
) -> Plan:
    """Errors to expect of a release, before anything is read or spent.

    A table is imagined from public numbers alone: the schema, a guess of the number of rows, and a
    `Guess` of how much columns vary and how correlated they are. Releases of it are simulated,
    denoised as real ones are, and compared with it: by the public noise laws, or, where a mechanism
    looks at the rows before it maps or clips them, by running it on imagined rows. Of the former
    the noise before denoising (`Errors.noise`) is exact; everything else is about the imagined
    table, and as good as the guess. `make plan-calibration` compares it with five public tables,
    budgets from 0.1 to 10: for what ``auto`` takes, with a release of a table like them, 116 of 125
    errors were predicted within a factor of 1.3; with all that a guess can hold in numbers, to a
    digit or two, 96 % of entries, 92 % of correlations, 88 % of regressions and 56 % of
    eigenvalues; with the defaults, correlations within 2. `Plan.between` held 90 % of them with a
    release, in ranges of 1.5 from end to end; 94 to 97 % with numbers, in ranges of 2.5.

    Parameters
    ----------
    schema : `Schema` or path of a TOML one.
    rows : a public guess of how many there are; with weights, of their sum over the largest one.
    epsilon, delta, rho : the budget, as in `release`.
    neighbors, mechanism, goal, denoise : as in `release`; the curve is about this mechanism.
    target : feature that is regressed on the others; default, the average over some numeric ones.
    guess : default, `Guess()`.
    factors : multiples of epsilon along the curve.

    Raises
    ------
    DpcovError : one of its kinds: a budget, schema, mechanism or guess that makes no sense.

    Examples
    --------
    >>> schema = Schema.from_bounds(0, 100, ["age", "score", "weight"])
    >>> found = plan(schema, 20_000, epsilon=1.0, mechanism="matrix-laplace", factors=())
    >>> bool(found.predictions[0].errors.correlation < 0.05)
    True

    """
    declared = schema if isinstance(schema, Schema) else Schema.load(schema)
    budget, relation = budget_from(epsilon, delta, rho), neighbors_named(neighbors)
    supposed = guess or Guess()
    planner = _Planner(declared, relation, supposed, target, goal, denoise)
    trials = planner.trials(int(rows))
    predictions, others = [], []
    if mechanism == "auto":
        for name in MECHANISMS:
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
    predictions.sort(key=lambda p: p.errors.correlation or p.errors.entry)
    curve = []
    here = planner.chosen(budget).name if mechanism == "auto" else mechanism
    known = {p.mechanism: p for p in predictions}
    between = planner.between(known[here], mechanism, int(rows)) if here in known else {}
    for factor in factors:
        if factor == 1 and here in known:
            curve.append(known[here])
            continue
        with suppress(MechanismError, BudgetError):  # the noise is too large to draw
            curve.append(planner.predicted(mechanism, scaled(budget, factor), trials))
    return Plan(
        schema=declared,
        rows=int(rows),
        budget=budget,
        neighbors=relation,
        guess=supposed,
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
    )


def scaled(budget: Budget, factor: float) -> Budget:
    """The budget with `factor` times the epsilon, the same delta; rho goes with its square."""
    if isinstance(budget, ZCDP):
        return ZCDP(_rounded(budget.rho * factor**2))
    return replace(budget, epsilon=_rounded(budget.epsilon * factor))


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _crossing(predicted: Callable[[float], Prediction], wanted: float) -> float | None:
    """Least factor at which a falling error is at most `wanted`; None beyond `FARTHEST`."""
    check("error", wanted, Probability, ReleaseError)

    def error(factor: float) -> float:
        found = predicted(factor).errors.correlation
        if found is None:
            raise ReleaseError("Without an intercept, or with one feature, nothing is correlated.")
        return found

    low = high = 1.0
    if error(1.0) > wanted:
        while error(high) > wanted:
            low, high = high, high * STRIDE
            if high > FARTHEST:
                return None
    else:
        while error(low) <= wanted:
            low, high = low / STRIDE, low
            if low < 1 / FARTHEST:
                return high
    while math.log(high / low) > CLOSE:
        middle = float(np.sqrt(low * high))
        try:
            low, high = (middle, high) if error(middle) > wanted else (low, middle)
        except MechanismError:
            low = middle
    return high
