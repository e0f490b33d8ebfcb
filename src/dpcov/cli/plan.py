"""Command that predicts the errors of a release before you spend budget."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpcov.cli import completions, options
from dpcov.cli.check import UNPROTECTED_NOTE
from dpcov.cli.options import example
from dpcov.core.printable import printable, shown
from dpcov.core.show.plain import json_text
from dpcov.errors import DpcovError, ReleaseError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcov.api.plans.half_widths import HalfWidthPlan
    from dpcov.api.plans.simulated import Assumptions

# Largest number of years of a plan. Source: chosen.
MAX_YEARS = 50
app = typer.Typer()


@app.command(epilog=example("plan people.toml --rows 400"))
def plan(
    schema: Annotated[
        Path, typer.Argument(metavar="SCHEMA", help="Schema of the table (TOML file).")
    ],
    rows: Annotated[
        int,
        typer.Option(
            "--rows", help="Number of rows that you expect, from public knowledge.", min=1
        ),
    ],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    error: Annotated[
        float | None,
        typer.Option(
            help="Standard error of a correlation that you want, such as 0.05. dpcov then prints "
            "the epsilon, and the number of rows, that reach it."
        ),
    ] = None,
    pair: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="FEATURE FEATURE",
            help="Plan the 95% interval for the correlation of these two features.",
            autocompletion=completions.columns,
        ),
    ] = None,
    coefficient: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="TARGET FEATURE",
            help="Plan the 95% interval for the coefficient of FEATURE in a regression of TARGET "
            "on all other columns.",
            autocompletion=completions.columns,
        ),
    ] = None,
    share: Annotated[
        str | None,
        typer.Option(
            metavar="FEATURE",
            help="Plan the 95% interval for the share of a flag or of a level, such as sex=f.",
            autocompletion=completions.columns,
        ),
    ] = None,
    half_width: Annotated[
        float | None,
        typer.Option(
            help="Half width of the interval that you want. dpcov then prints the budget that "
            "gives it. Without --pair, --coefficient or --share: of a typical correlation."
        ),
    ] = None,
    years: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_YEARS,
            help="Divide the budget that is left in --ledger, or --epsilon, between this number of "
            "yearly releases. dpcov prints the budget and the half width of each year.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Print only the first answer, after a few seconds.")
    ] = False,
    neighbors: options.Neighbors = "add-remove",
    mechanism: options.Mechanism = "auto",
    goal: options.Goal = "all",
    denoise: options.Denoise = "shrink",
    target: Annotated[
        str | None,
        typer.Option(
            help="Column to regress on the others. Default: several columns.",
            autocompletion=completions.columns,
        ),
    ] = None,
    spread: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[COLUMN=]SHARE",
            help="Assumed standard deviation of numeric columns, as a fraction of half the width "
            "of the bounds. Use COLUMN=SHARE for one column; you can repeat --spread. Default: "
            "0.35.",
        ),
    ] = None,
    mean: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=VALUE",
            help="Assumed mean of a numeric column, in its own units; you can repeat --mean. State "
            "a mean if most values lie near a bound.",
        ),
    ] = None,
    correlation: Annotated[
        float | None, typer.Option(help="Assumed typical size of a correlation. Default: 0.25.")
    ] = None,
    explained: Annotated[
        float | None,
        typer.Option(
            help="Assumed R^2: the fraction of the variance of a typical numeric column that the "
            "others explain. Default: the value that follows from --correlation."
        ),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            metavar="RELEASE",
            help="Release of a similar table, such as last year's. It replaces the other "
            "assumptions: dpcov assumes the means and covariances of this release.",
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="Ledger of the release. A ledger can require Gaussian noise."),
    ] = None,
    dataset: options.Dataset = None,
    as_json: options.Json = False,
) -> None:
    """Predict the errors of a release, or the half width of one interval, from public numbers.

    The command reads no data and spends no budget. Without a budget, it assumes epsilon 1. It first
    prints an answer from few simulated releases, and then refines the answer.
    """
    from dpcov.api.plans import plan as predict
    from dpcov.api.plans.half_widths import plan_half_width
    from dpcov.cli.progress import bar
    from dpcov.core.parameters import Probability, check
    from dpcov.core.show.table import sentences
    from dpcov.core.show.text import print_tables

    if error is not None:
        check("error", error, Probability, ReleaseError)
    unstated = epsilon is None and rho is None and (years is None or ledger is None)
    common: dict[str, Any] = {
        "epsilon": 1.0 if unstated else epsilon,
        "delta": delta,
        "rho": rho,
        "neighbors": neighbors,
        "mechanism": mechanism,
        "goal": goal,
        "denoise": denoise,
        "assumptions": _assumptions(spread or [], mean or [], correlation, explained, like),
        "ledger": ledger,
        "dataset": dataset,
    }
    one: dict[str, Any] = {"pair": pair, "coefficient": coefficient, "share": share}
    one |= {"half_width": half_width, "years": years}
    narrow = partial(plan_half_width, schema, rows, **one, **common)
    of_one = quick or any(value is not None for value in one.values())
    if of_one and (error is not None or target is not None):
        raise ReleaseError(
            "--error and --target are for a plan of all results. Remove them, or remove "
            "--pair, --coefficient, --share, --half-width, --years and --quick."
        )
    if not as_json and not quick:
        _print_first(narrow, required=of_one)
    if of_one:
        with bar("refining the plan"):
            found = narrow(quick=quick)
        budget = (found.needed or found.at_budget).budget
        facts, tables = found.document(), found.tables()
    else:
        with bar("refining the plan"):
            whole = predict(schema, rows, target=target, **common)
            needed = None if error is None else (whole.budget_for(error), whole.rows_for(error))
        budget, facts, tables = whole.budget, whole.document(error, needed), whole.tables()
        if needed is not None and error is not None:
            tables.append(sentences(*whole.answers(error, needed)))
    if as_json:
        print(json_text(facts))
        return
    print_tables(tables)
    stated = " ".join(f"--{name} {amount:g}" for name, amount in asdict(budget).items())
    book = "LEDGER" if ledger is None else shown(ledger)
    declared = f"DATA --schema {shown(schema)}"
    release = f"dpcov release {declared} {stated} --ledger {book} ..."
    print(f"next: dpcov check {declared}, then {release} {UNPROTECTED_NOTE}")


def _print_first(plan_quickly: Callable[..., HalfWidthPlan], *, required: bool) -> None:
    """Print a first answer from few simulated releases.

    A plan of all results also exists if no interval does. Its first answer is then left out.
    """
    try:
        found = plan_quickly(quick=True)
    except DpcovError:
        if required:
            raise
        return
    print(f"First answer, from {found.releases} simulated releases:")
    for sentence in found.answers():
        print(printable(sentence))
    sys.stdout.flush()


def _assumptions(
    stated: list[str],
    means: list[str],
    correlation: float | None,
    explained: float | None,
    like: Path | None,
) -> Assumptions:
    """Return the assumptions of the options or of ``--like``."""
    from dpcov.api.plans.simulated import DEFAULT_CORRELATION, DEFAULT_SPREAD, Assumptions

    if like is not None:
        if stated or means or (correlation, explained) != (None, None):
            raise SchemaError(
                "--like replaces --spread, --mean, --correlation and --explained. Remove --like "
                "or remove the others."
            )
        from dpcov.releases import Release

        return Assumptions(like=Release.load(like))

    spreads = dict(_number(text, "--spread", "SHARE or COLUMN=SHARE") for text in stated)
    values = dict(_number(text, "--mean", "COLUMN=VALUE") for text in means)
    if "" in values:
        raise SchemaError("--mean does not name a column. Write --mean COLUMN=VALUE.")
    return Assumptions(
        spreads.pop("", DEFAULT_SPREAD),
        spreads,
        DEFAULT_CORRELATION if correlation is None else correlation,
        means=values,
        explained=explained,
    )


def _number(text: str, option: str, form: str) -> tuple[str, float]:
    """Split COLUMN=NUMBER. The column can be missing."""
    name, _, number = text.rpartition("=")
    try:
        return name, float(number)
    except ValueError:
        raise SchemaError(f"{option} {text!r} contains no number. Write {option} {form}.") from None
