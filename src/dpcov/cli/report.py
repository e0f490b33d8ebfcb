"""Command that writes a release as a web page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpcov.cli import completions, options
from dpcov.cli.options import example, say, warn_if_seeded
from dpcov.cli.output import written
from dpcov.core.printable import shown

app = typer.Typer()


@app.command(epilog=example("report people.release.json --out people.html"))
def report(
    file: options.ReleasePath,
    out: Annotated[Path, typer.Option("--out", help="HTML file to write.")],
    target: Annotated[
        str | None,
        typer.Option(
            help="Column to regress on the others. The page gets a section with the regression.",
            autocompletion=completions.columns,
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Columns of the regression, separated by commas. Default: all others.",
            autocompletion=completions.columns_list,
        ),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Ledger, to show how much budget is left.")
    ] = None,
    dataset: options.Dataset = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a release as one offline web page with its guarantee, results and instructions."""
    from dpcov.api.ledger import Ledger
    from dpcov.cli.progress import spinner
    from dpcov.releases import Release
    from dpcov.report import write

    loaded = Release.load(file)
    account = None if ledger is None else Ledger.open(ledger).account(dataset)
    chosen = None if features is None else [name.strip() for name in features.split(",")]
    warn_if_seeded(loaded, error=quiet)
    with spinner("computing"):
        write(
            loaded,
            out,
            force=force,
            inputs=[file, *([ledger] if ledger else [])],
            target=target,
            features=chosen,
            account=account,
            title=title,
            file=file.name,
        )
    with written(out):
        say(f"written to {shown(out)}; open it in a browser", quiet)
