"""The command that tries to refute a mechanism's guarantee."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from dpcov import completions
from dpcov.cli_options import Delta, Epsilon, Json, NeighborsOption, Quiet, Rho, example

if TYPE_CHECKING:
    from dpcov.auditing import Audit

app = typer.Typer()


@app.command(epilog=example("audit laplace --epsilon 1 --runs 1000"))
def audit(
    mechanism: Annotated[
        str,
        typer.Argument(help="One of `dpcov mechanisms`.", autocompletion=completions.mechanisms),
    ],
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    neighbors: NeighborsOption = "add-remove",
    runs: Annotated[int, typer.Option(help="Runs on each table of a pair.", min=100)] = 100_000,
    columns: Annotated[int, typer.Option(help="Columns of most tables.", min=2, max=50)] = 2,
    intercept: Annotated[
        float, typer.Option(help="Of all tables; standardized needs one.", min=0, max=1)
    ] = 0.0,
    private_radius: Annotated[
        bool, typer.Option("--private-radius", help="Let it choose the clip radius from the data.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Repeats an audit exactly.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Bound the privacy loss of a mechanism from below, on made-up worst cases; reads no data.

    Exit code 1 says that the claim is refuted, with 99.9 % confidence.
    """
    from dpcov.auditing import audit as run
    from dpcov.entropy import Entropy
    from dpcov.mechanisms import mechanism_named
    from dpcov.privacy import Neighbors, budget_from

    options = {"radius": "private"} if private_radius else {}
    found = run(
        mechanism_named(mechanism, **options),
        budget=budget_from(epsilon, delta, rho),
        neighbors=Neighbors(neighbors),
        runs=runs,
        columns=columns,
        intercept=intercept,
        entropy=Entropy.system() if seed is None else Entropy.seeded(seed),
    )
    if as_json:
        typer.echo(json.dumps(found.to_json()))
    elif not quiet:
        _print(found)
    if found.violated:
        raise typer.Exit(1)


def _print(found: Audit) -> None:
    from dpcov.auditing import CONFIDENCE
    from dpcov.show.table import Row, Table
    from dpcov.show.text import print_tables

    name = found.claim.measure
    rows: list[Row] = []
    for finding in found.findings:
        figures = str(finding.columns), str(finding.group), f"{max(0.0, finding.bound):.4f}"
        rows.append((finding.pair, figures))
    heads = ("two tables", "columns", "rows that differ", f"{name} for one row at least")
    print_tables([Table(heads, rows)])

    def stated(value: float) -> str:
        budget = found.claim.budget(value, found.guarantee)
        words = ", ".join(f"{part} {number:.5g}" for part, number in budget.items())
        return words if name in budget else f"{words} ({name} {value:.5g})"

    typer.echo(f"claim       {stated(found.claim.value)}, {found.guarantee.neighbors}")
    typer.echo(
        f"bound       at least {stated(found.bound)}, with {CONFIDENCE:.1%} confidence, "
        f"by {found.runs} runs on each table"
    )
    typer.echo(f"verdict     {'REFUTED' if found.violated else 'not refuted'}")
    if found.violated:
        return
    seen = f"a loss ({name}) {found.resolution:.1%} larger than claimed would have been seen"
    typer.echo(f"resolution  {seen if found.bound > 0 else 'none: too few runs'}")
