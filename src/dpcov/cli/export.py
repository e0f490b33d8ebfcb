"""Command that exports a release to other software."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from dpcov.cli import completions, options
from dpcov.cli.options import example, say, warn_if_seeded
from dpcov.cli.output import written
from dpcov.core.printable import shown

app = typer.Typer()
Software = Literal["r", "lavaan", "psych", "statsmodels", "semopy", "jasp", "stata", "mplus"]


@app.command(epilog=example("export people.release.json --for r --out people-r"))
def export(
    file: options.ReleasePath,
    software: Annotated[Software, typer.Option("--for", help="Software that reads the folder.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder to write. Default: NAME-SOFTWARE, next to the release."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Columns to export, separated by commas. Default: all columns.",
            autocompletion=completions.columns_list,
        ),
    ] = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Write the estimates and their error covariance to a folder for other software."""
    from dpcov.cli.progress import computing
    from dpcov.export import write_folder
    from dpcov.releases import Release

    loaded = Release.load(file)
    chosen = None if columns is None else [name.strip() for name in columns.split(",")]
    folder = file.with_name(f"{file.name.partition('.')[0]}-{software}") if out is None else out
    warn_if_seeded(loaded, error=quiet)
    with computing():
        write_folder(loaded, software, folder, columns=chosen, force=force, inputs=[file])
    with written(folder):
        say(f"written to {shown(folder)}; next: read {shown(folder / 'README.txt')}", quiet)
