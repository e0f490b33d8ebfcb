"""The command that writes a release as a web page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def report(
    file: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release file.")],
    out: Annotated[Path, typer.Option("--out", help="The HTML file to write.")],
    target: Annotated[
        str | None, typer.Option(help="Column to regress on the others, in a section of its own.")
    ] = None,
    features: Annotated[
        str | None, typer.Option(help="Only on these columns, separated by commas.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Ledger, to say what is left of the budget.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Data set of the ledger; needed if it has several.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output.")] = False,
) -> None:
    """Write a release as one offline web page: guarantee, figures, how to use it."""
    from dpcov.ledger import Ledger
    from dpcov.releases import Release, check_writable
    from dpcov.report import write
    from dpcov.tables import warn_if_seeded

    loaded = Release.load(file)
    check_writable(out, force=force, inputs=[file, *([ledger] if ledger else [])])
    account = None if ledger is None else Ledger.open(ledger).account(dataset)
    chosen = None if features is None else [name.strip() for name in features.split(",")]
    warn_if_seeded(loaded)
    write(
        loaded,
        out,
        force=force,
        target=target,
        features=chosen,
        account=account,
        title=title,
        file=file.name,
    )
    typer.echo(f"written to {out}; open it in a browser")
