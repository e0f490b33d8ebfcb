"""Command that tries to refute the guarantee of a mechanism."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from dpcov.cli import completions, options
from dpcov.cli.options import example
from dpcov.core.show.plain import json_text

if TYPE_CHECKING:
    from dpcov.api.auditing import Audit

app = typer.Typer()


@app.command(epilog=example("audit --mechanism gaussian --rho 0.5"))
def audit(
    former: Annotated[
        str | None,
        typer.Argument(
            metavar="MECHANISM", hidden=True, autocompletion=completions.mechanisms_or_auto
        ),
    ] = None,
    mechanism: options.Mechanism = "auto",
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    neighbors: options.Neighbors = "add-remove",
    columns: Annotated[
        int, typer.Option(help="Number of columns of the tables.", min=3, max=50)
    ] = 4,
    private_radius: Annotated[
        bool,
        typer.Option(
            "--private-radius", help="Let the mechanism choose the clipping radius from the data."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the audited releases.", min=0)] = 1,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compute the exact privacy loss of a mechanism on simulated pairs of neighbouring tables.

    The command reads no data. Exit code 1 means that the loss of one pair exceeds the claim. An
    audit of a mechanism from a paper is not possible.
    """
    from dpcov.api.auditing import audit as run
    from dpcov.cli.progress import spinner
    from dpcov.core.privacy import Neighbors, budget_from
    from dpcov.mechanisms import mechanism_named
    from dpcov.mechanisms.choice import choose
    from dpcov.rows.schema import Schema

    if former is not None:
        print(f"dpcov: audit {former} is deprecated. Use --mechanism {former}.", file=sys.stderr)
    budget, relation = budget_from(epsilon, delta, rho), Neighbors(neighbors)
    fields = {"radius": "private"} if private_radius else {}
    name = former or mechanism
    if name == "auto":  # the choice of `dpcov release` for a table with these columns
        schema = Schema.from_bounds(-1, 1, [f"x{at}" for at in range(columns)])
        audited = choose(schema, budget, relation).mechanism
    else:
        audited = mechanism_named(name, **fields)
    with spinner("computing"):
        found = run(audited, budget=budget, neighbors=relation, columns=columns, seed=seed)
    if as_json:
        print(json_text(found.to_json()))
    elif not quiet:
        _print(found)
    if found.violated:
        raise typer.Exit(1)


def _print(found: Audit) -> None:
    from dpcov.core.show.table import Table
    from dpcov.core.show.text import print_tables

    heads = ("round", "largest loss / claim", "pair of tables")
    rows = [(worst.round, (worst.share, worst.pair)) for worst in found.worst]
    title = f"{found.mechanism}: {found.budget}, {found.neighbors}"
    verdict = "REFUTED" if found.violated else "not refuted"
    note = f"The audit tried {found.pairs:,} pairs of neighbouring tables. Result: {verdict}."
    print_tables([Table(heads, rows, title, ("{:.6f}", ""), notes=(note,))])
