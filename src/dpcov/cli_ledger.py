"""`dpcov ledger verify`: whether a ledger is whole, and continues one that was seen before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def verify(
    file: Annotated[Path, typer.Argument(metavar="LEDGER", help="A ledger file.")],
    head: Annotated[
        str | None,
        typer.Option(help="A head printed earlier: refuses a ledger that does not continue it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check that a ledger was not damaged, edited or put back; exit code 2 if it was."""
    from dpcov.errors import LedgerError
    from dpcov.ledger import Ledger

    chain = Ledger.open(file).verify()
    if head is not None and not chain.holds(head):
        raise LedgerError(
            f"Ledger {file}: whole, but it does not continue the one with that head: an older "
            "copy, another ledger, or written anew. Use the one that holds the last release."
        )
    if as_json:
        typer.echo(json.dumps({"records": len(chain.digests), "head": chain.head}))
    else:
        typer.echo(f"{file} is whole: {len(chain.digests)} records, head {chain.head}")
        typer.echo("Note the head elsewhere; --head HEAD finds a copy that was put back.")
