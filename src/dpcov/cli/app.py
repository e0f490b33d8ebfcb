"""Command that serves a page in the browser."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from dpcov.cli.options import example
from dpcov.core.printable import shown
from dpcov.errors import SourceError

app = typer.Typer()
# The package uses the command line, so the command line loads it by name.
SERVER_MODULE = "dpcov.app.server"


@app.command("app", epilog=example("app people"))
def serve(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder with the tables.")],
    port: Annotated[
        int, typer.Option(help="Port on this computer. Default: any free port.", min=0, max=65535)
    ] = 0,
    browser: Annotated[
        bool, typer.Option(help="Open the page in the browser, or only print its file.")
    ] = True,
) -> None:
    """Serve a page on this computer that leads from a table to a report.

    The page shows no cell of a table. Only you can open it.
    """
    if not folder.is_dir():
        raise SourceError(f"{shown(folder)!r} is not a folder. State the folder with your tables.")
    import_module(SERVER_MODULE).serve(folder, port=port, browser=browser)
