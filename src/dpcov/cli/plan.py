"""The command that predicts errors before anything is spent."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcov.cli import completions, options
from dpcov.cli.options import example
from dpcov.core.printable import shown
from dpcov.core.show.plain import json_text
from dpcov.errors import ReleaseError, SchemaError

if TYPE_CHECKING:
    from dpcov.api.plans.imagined import Guess

app = typer.Typer()


@app.command(epilog=example("plan people.toml --rows 400"))
def plan(
    schema: Annotated[Path, typer.Argument(metavar="SCHEMA", help="TOML schema of the table.")],
    rows: Annotated[
        int, typer.Option("--rows", help="Rows that the table may have: a public guess.", min=1)
    ],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    error: Annotated[
        float | None,
        typer.Option(
            help="Wanted standard error of a correlation, such as 0.05: says which epsilon, and "
            "how many rows, would do."
        ),
    ] = None,
    neighbors: options.Neighbors = "add-remove",
    mechanism: options.Mechanism = "auto",
    goal: options.Goal = "all",
    denoise: options.Denoise = "shrink",
    target: Annotated[
        str | None,
        typer.Option(
            help="Column to regress on the others; default, several.",
            autocompletion=completions.columns,
        ),
    ] = None,
    spread: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[COLUMN=]SHARE",
            help="Guessed standard deviation of numeric columns, as a share of half the width of "
            "the bounds; for one column, COLUMN=SHARE; may be repeated. Default 0.35.",
        ),
    ] = None,
    mean: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=VALUE",
            help="Guessed mean of a numeric column, in its own units; may be repeated. Tells much "
            "where values crowd near a bound.",
        ),
    ] = None,
    correlation: Annotated[
        float | None, typer.Option(help="Guessed typical size of a correlation; default 0.25.")
    ] = None,
    explained: Annotated[
        float | None,
        typer.Option(
            help="Guessed share of a typical numeric column's variance that all others explain "
            "(R^2); default, what follows from --correlation."
        ),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            metavar="RELEASE",
            help="Release of a table of the same kind (last year's, a public one), in place of "
            "the other guesses: what it holds is supposed.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Predict the error of a release from public numbers alone; reads no data, spends nothing.

    Without a budget, that at epsilon 1.
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
        guess=_guess(spread or [], mean or [], correlation, explained, like),
    )
    needed = None if error is None else (found.budget_for(error), found.rows_for(error))
    if as_json:
        print(json_text(found.document(error, needed)))
    else:
        answers = [] if needed is None or error is None else found.answers(error, needed)
        print_tables([*found.tables(), sentences(*answers)])
        stated = " ".join(f"--{name} {amount:g}" for name, amount in asdict(found.budget).items())
        print(f"next: dpcov release DATA --schema {shown(schema)} {stated} --ledger LEDGER ...")


def _guess(
    stated: list[str],
    means: list[str],
    correlation: float | None,
    explained: float | None,
    like: Path | None,
) -> Guess:
    """The guess that the options state, or ``--like``."""
    from dpcov.api.plans.imagined import CORRELATION, SPREAD, Guess

    if like is not None:
        if stated or means or (correlation, explained) != (None, None):
            raise SchemaError(
                "--like takes the place of --spread, --mean, --correlation and --explained: give "
                "one."
            )
        from dpcov.releases import Release

        return Guess(like=Release.load(like))

    spreads = dict(_number(text, "A spread is SHARE or COLUMN=SHARE") for text in stated)
    values = dict(_number(text, "A mean is COLUMN=VALUE") for text in means)
    if "" in values:
        raise SchemaError("A mean is COLUMN=VALUE: say of which column.")
    return Guess(
        spreads.pop("", SPREAD),
        spreads,
        CORRELATION if correlation is None else correlation,
        means=values,
        explained=explained,
    )


def _number(text: str, form: str) -> tuple[str, float]:
    """A column, or nothing, and its number."""
    name, _, number = text.rpartition("=")
    try:
        return name, float(number)
    except ValueError:
        raise SchemaError(f"{form}, not {text!r}.") from None
