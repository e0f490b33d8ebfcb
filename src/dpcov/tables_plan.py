"""What the command line prints of a plan."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table

from dpcov.plans import HEADS, LEGEND, amount, assumptions, cells, sampling_in_words
from dpcov.privacy import Budget
from dpcov.tables import plain, print_table

if TYPE_CHECKING:
    from dpcov.plans import Plan, Prediction

Needed = tuple[Budget | None, int | None]


def print_plan(plan: Plan, error: float | None, needed: Needed | None) -> None:
    """Predictions by mechanism and along epsilon, and what a wanted error needs."""
    for line in assumptions(plan):
        print(line)
    table = _table("By mechanism", "mechanism")
    for prediction in plan.predictions:
        star = " (auto)" if prediction.mechanism == plan.recommended else ""
        table.add_row(plain(prediction.mechanism + star), *cells(prediction.errors))
    print_table(table)
    print()
    table = _table(f"By budget, mechanism {plain(plan.mechanism)}", "budget")
    for prediction in plan.curve:
        table.add_row(amount(prediction.budget), *cells(prediction.errors))
    print_table(table)
    print()
    for line in (*LEGEND, sampling_in_words(plan)):
        print(line)
    if plan.not_predicted:
        print(
            f"Not predicted: {', '.join(name for name, _ in plan.not_predicted)} (--json says why)."
        )
    if error is not None and needed is not None:
        print()
        for line in answers(plan, error, needed):
            print(line)


def answers(plan: Plan, error: float, needed: Needed) -> list[str]:
    """What a wanted error of a correlation needs."""
    budget, rows = needed
    wanted = f"A mean error of {error:g} in a correlation"
    first = (
        f"{wanted} is out of reach with {plan.rows} rows at any sensible budget."
        if budget is None
        else f"{wanted} needs about {amount(budget)} with {plan.rows} rows."
    )
    second = (
        f"{wanted} is out of reach at {amount(plan.budget)} with any number of rows."
        if rows is None
        else f"{wanted} needs about {float(f'{rows:.2g}'):.0f} rows at {amount(plan.budget)}."
    )
    return [first, second]


def document(
    plan: Plan, error: float | None = None, needed: Needed | None = None
) -> dict[str, Any]:
    """A plan as JSON data."""
    facts: dict[str, Any] = {
        "rows": plan.rows,
        "features": len(plan.schema.features),
        "budget": asdict(plan.budget),
        "neighbors": plan.neighbors.value,
        "guess": {
            "spread": plan.guess.spread,
            "spreads": dict(plan.guess.spreads),
            "means": dict(plan.guess.means),
            "correlation": plan.guess.correlation,
            "explained": plan.guess.explained,
            "like": plan.guess.like is not None,
        },
        "recommended": plan.recommended,
        "sampling": plan.sampling,
        "mechanisms": [_row(prediction) for prediction in plan.predictions],
        "not_predicted": dict(plan.not_predicted),
        "curve": [_row(prediction) for prediction in plan.curve],
    }
    if error is not None and needed is not None:
        budget, rows = needed
        enough = None if budget is None else asdict(budget)
        facts["needed"] = {"error": error, "budget": enough, "rows": rows}
    return facts


def _row(prediction: Prediction) -> dict[str, Any]:
    stated = {"mechanism": prediction.mechanism, "budget": asdict(prediction.budget)}
    return stated | asdict(prediction.errors)


def _table(title: str, head: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column(head)
    for name in HEADS.values():
        table.add_column(name, justify="right")
    return table
