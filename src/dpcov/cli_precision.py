"""`dpcov precision RELEASE`."""

from __future__ import annotations

import csv as csv_module
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

if TYPE_CHECKING:
    from dpcov.analysis.precision import SparsePrecision

STRONGEST = 30


def precision(
    file: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release file.")],
    alpha: Annotated[
        float | None,
        typer.Option(help="Strength of the penalty; default, chosen from the release."),
    ] = None,
    features: Annotated[
        list[str] | None, typer.Option("--feature", help="Only these columns (repeat).")
    ] = None,
    covariance: Annotated[
        bool, typer.Option("--covariance", help="Penalise the covariance, not the correlations.")
    ] = False,
    stability: Annotated[
        int, typer.Option(help="Simulate so many releases for the stability of the edges.", min=0)
    ] = 0,
    csv: Annotated[bool, typer.Option("--csv", help="Print the precision matrix as CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Which columns are related given all the others (sparse inverse covariance)."""
    from dpcov.analysis import precision as analysis
    from dpcov.releases import Release

    found = analysis.precision(
        Release.load(file), alpha, features=features, correlation=not covariance, draws=stability
    )
    if csv:
        _print_csv(found)
    elif as_json:
        typer.echo(json.dumps(as_document(found)))
    else:
        _print_edges(found)


def as_document(found: SparsePrecision) -> dict[str, object]:
    """What `--json` prints."""
    return {
        "alpha": found.alpha,
        "columns": list(found.columns),
        "left_out": list(found.left_out),
        "precision": found.precision.tolist(),
        "edges": [asdict(edge) for edge in found.edges],
    }


def _print_csv(found: SparsePrecision) -> None:
    writer = csv_module.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["", *found.columns])
    for name, row in zip(found.columns, found.precision.tolist(), strict=True):
        writer.writerow([name, *row])


def _print_edges(found: SparsePrecision) -> None:
    from dpcov.tables import _print_table

    edges, p = found.edges, len(found.columns)
    shown = edges[:STRONGEST]
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("feature")
    table.add_column("given the others, with")
    table.add_column("partial correlation", justify="right")
    if found.shares is not None:
        table.add_column("stability", justify="right")
    for edge in shown:
        stable = [] if edge.stability is None else [f"{edge.stability:.0%}"]
        table.add_row(edge.first, edge.second, f"{edge.partial_correlation:+.3f}", *stable)
    if shown:
        _print_table(table)
    rest = (
        f" The {len(shown)} strongest are shown; --csv has all." if len(edges) > len(shown) else ""
    )
    typer.echo(
        f"{len(edges)} of {p * (p - 1) // 2} pairs are related given all other features "
        f"(alpha = {found.alpha:.3g}).{rest}"
    )
    if found.left_out:
        typer.echo(f"Left out, since they show no variance: {', '.join(found.left_out)}.")
