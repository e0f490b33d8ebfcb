"""The command that tries to refute a mechanism's guarantee."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dpcov.cli import completions, options
from dpcov.cli.options import example
from dpcov.core.show.plain import json_text

if TYPE_CHECKING:
    from dpcov.api.auditing import Audit

app = typer.Typer()


@app.command(epilog=example("audit gaussian --rho 0.5"))
def audit(
    mechanism: Annotated[
        str,
        typer.Argument(
            help="One of `dpcov mechanisms` that is not of a paper.",
            autocompletion=completions.mechanisms,
        ),
    ],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    neighbors: options.Neighbors = "add-remove",
    columns: Annotated[int, typer.Option(help="Columns of the tables.", min=3, max=50)] = 4,
    private_radius: Annotated[
        bool, typer.Option("--private-radius", help="Let it choose the clip radius from the data.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the releases that are looked into.", min=0)] = 1,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compute the exact privacy loss between made-up worst cases; reads no data.

    Exit code 1 says that the claim is refuted: some pair of neighbours loses more.
    """
    from dpcov.api.auditing import audit as run
    from dpcov.core.privacy import Neighbors, budget_from
    from dpcov.mechanisms import mechanism_named

    fields = {"radius": "private"} if private_radius else {}
    found = run(
        mechanism_named(mechanism, **fields),
        budget=budget_from(epsilon, delta, rho),
        neighbors=Neighbors(neighbors),
        columns=columns,
        seed=seed,
    )
    if as_json:
        print(json_text(found.to_json()))
    elif not quiet:
        _print(found)
    if found.violated:
        raise typer.Exit(1)


def _print(found: Audit) -> None:
    from dpcov.core.show.table import Table
    from dpcov.core.show.text import print_tables

    heads = ("published in", "largest loss / claim", "two tables")
    rows = [(worst.round, (worst.share, worst.pair)) for worst in found.worst]
    title = f"{found.mechanism}: {found.budget}, {found.neighbors}"
    verdict = "REFUTED" if found.violated else "not refuted"
    note = f"{found.pairs:,} pairs of neighbours tried. Verdict: {verdict}."
    print_tables([Table(heads, rows, title, ("{:.6f}", ""), notes=(note,))])
