"""`dpcov ledger`: accounts of what is spent, and whether the file that holds them is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dpcov.cli import options
from dpcov.cli.options import example, say
from dpcov.cli.output import require_writable
from dpcov.core.printable import shown
from dpcov.core.show.plain import json_text
from dpcov.errors import LedgerError

if TYPE_CHECKING:
    from pathlib import Path

    from dpcov.api.ledger import Ledger
    from dpcov.api.ledger.file import Chain

app = typer.Typer(help="Keep account of the privacy budget.", no_args_is_help=True)


@app.command(epilog=example("ledger create people.ledger --epsilon 3"))
def create(
    file: options.LedgerPath,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    dataset: options.Dataset = None,
    neighbors: options.Neighbors = "add-remove",
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Create a ledger, or add a data set to one."""
    from dpcov.api.ledger import Ledger
    from dpcov.core.privacy import Neighbors, budget_from

    budget = budget_from(epsilon, delta, rho)
    require_writable(quiet and not as_json)
    name = dataset or "default"
    ledger = Ledger.create(file, budget, dataset=name, neighbors=Neighbors(neighbors))
    if as_json:
        print(_account(ledger, name))
        return
    say(f"{shown(file)} holds a budget of {budget}, {neighbors}", quiet)
    say(f"next: dpcov release DATA --schema SCHEMA --ledger {shown(file)} ...", quiet)


@app.command(epilog=example("ledger show people.ledger"))
def show(
    file: options.LedgerPath, dataset: options.Dataset = None, as_json: options.Json = False
) -> None:
    """Show what is spent and what is left."""
    from dpcov.api.ledger import Ledger
    from dpcov.core.show.text import print_tables

    ledger = Ledger.open(file)
    names = ledger.datasets() if dataset is None else [dataset]
    accounts = [ledger.account(name) for name in names]
    plain = [account.to_json() for account in accounts]
    if as_json:
        print(json_text(plain[0] if len(plain) == 1 else {"datasets": plain}))
    else:
        print_tables(table for account in accounts for table in account.tables())


@app.command("add-budget", epilog=example("ledger add-budget people.ledger --epsilon 1"))
def add_budget(
    file: options.LedgerPath,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    dataset: options.Dataset = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Raise the budget of a data set."""
    from dpcov.api.ledger import Ledger
    from dpcov.core.privacy import budget_from

    ledger = Ledger.open(file)
    require_writable(quiet and not as_json)
    ledger.add_budget(budget_from(epsilon, delta, rho), dataset=dataset)
    left = ledger.account(dataset).left
    if as_json:
        print(_account(ledger, dataset))
    else:
        amounts = ", ".join(f"{name} {amount:.12g}" for name, amount in left.items())
        say(f"left: {amounts}", quiet)


@app.command(epilog=example("ledger verify people.ledger"))
def verify(
    file: options.LedgerPath,
    head: Annotated[
        str | None,
        typer.Option(help="A head printed earlier: refuses a ledger that does not continue it."),
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Check that a ledger was not damaged, edited or put back; exit code 2 if it was."""
    from dpcov.api.ledger import Ledger
    from dpcov.api.ledger.file import named

    chain = Ledger.open(file).verify()
    if head is not None and not chain.holds(head):
        raise LedgerError(
            f"{named(file)}: whole, but it does not continue the one with that head: an older "
            "copy, another ledger, or written anew. Use the one that holds the last release."
        )
    _tell(file, chain, as_json, quiet)


@app.command(epilog=example("ledger migrate old.ledger"))
def migrate(
    file: options.LedgerPath, as_json: options.Json = False, quiet: options.Quiet = False
) -> None:
    """Start a hash chain for a ledger of the first version; what is before it can't be verified."""
    from dpcov.api.ledger import Ledger

    _tell(file, Ledger.open(file).migrate(), as_json, quiet)


def _tell(file: Path, chain: Chain, as_json: bool, quiet: bool) -> None:
    """What a chain holds that is whole."""
    if as_json:
        facts = {"records": len(chain.digests), "unverified": chain.unverified, "head": chain.head}
        print(json_text(facts))
        return
    say(f"{shown(file)} is whole: {len(chain.digests)} records, head {chain.head}", quiet)
    if chain.unverified:
        say(f"The first {chain.unverified} are older than its chain: edits can't be found.", quiet)
    say("Note the head elsewhere; --head HEAD finds a copy that was put back or remade.", quiet)


def _account(ledger: Ledger, dataset: str | None) -> str:
    return json_text(ledger.account(dataset).to_json())
