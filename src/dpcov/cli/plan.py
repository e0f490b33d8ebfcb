"""Command that predicts the errors of a release before you spend budget."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcov.cli import completions, options
from dpcov.cli.check import UNPROTECTED_NOTE
from dpcov.cli.options import example
from dpcov.core.printable import shown
from dpcov.core.show.plain import json_text
from dpcov.errors import ReleaseError, SchemaError

if TYPE_CHECKING:
    from dpcov.api.plans.simulated import Assumptions

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
    """Predict the errors of a release from public numbers.

    The command reads no data and spends no budget. Without a budget, it assumes epsilon 1.
    """
    from dpcov.api.plans import plan as predict
    from dpcov.core.parameters import Probability, check
    from dpcov.core.show.table import sentences
    from dpcov.core.show.text import print_tables

    if error is not None:
        check("error", error, Probability, ReleaseError)
    found = predict(
        schema,
        rows,
        epsilon=1.0 if epsilon is None and rho is None else epsilon,
        delta=delta,
        rho=rho,
        neighbors=neighbors,
        mechanism=mechanism,
        goal=goal,
        denoise=denoise,
        target=target,
        assumptions=_assumptions(spread or [], mean or [], correlation, explained, like),
        ledger=ledger,
        dataset=dataset,
    )
    needed = None if error is None else (found.budget_for(error), found.rows_for(error))
    if as_json:
        print(json_text(found.document(error, needed)))
    else:
        answers = [] if needed is None or error is None else found.answers(error, needed)
        print_tables([*found.tables(), sentences(*answers)])
        stated = " ".join(f"--{name} {amount:g}" for name, amount in asdict(found.budget).items())
        book = "LEDGER" if ledger is None else shown(ledger)
        declared = f"DATA --schema {shown(schema)}"
        release = f"dpcov release {declared} {stated} --ledger {book} ..."
        print(f"next: dpcov check {declared}, then {release} {UNPROTECTED_NOTE}")


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
