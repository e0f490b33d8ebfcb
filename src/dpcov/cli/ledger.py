"""Commands of `dpcov ledger`: create, show, extend, renew, report and verify a budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcov.cli import completions, options
from dpcov.cli.check import UNPROTECTED_NOTE
from dpcov.cli.options import example, say
from dpcov.cli.output import require_writable
from dpcov.core.printable import shown
from dpcov.core.show.plain import json_text
from dpcov.errors import LedgerError

if TYPE_CHECKING:
    from dpcov.api.ledger import Account, Ledger
    from dpcov.api.ledger.file import Chain

app = typer.Typer(help="Record and limit the privacy budget of data sets.", no_args_is_help=True)


@app.command(epilog=example("ledger create people.ledger --epsilon 3"))
def create(
    file: options.LedgerPath,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    dataset: options.Dataset = None,
    neighbors: options.Neighbors = "add-remove",
    count: options.Count = None,
    pure: options.Pure = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Create a ledger, or add a data set to a ledger."""
    from dpcov.api.ledger import Ledger
    from dpcov.core.privacy import Neighbors, budget_from

    budget = budget_from(epsilon, delta, rho)
    require_writable(quiet and not as_json)
    name = dataset or "default"
    ledger = Ledger.create(
        file, budget, dataset=name, neighbors=Neighbors(neighbors), count=count, pure=pure
    )
    if as_json:
        print(_account(ledger, name))
        return
    say(f"{shown(file)} holds a budget of {budget}, {neighbors}", quiet)
    _say_count(ledger.account(name), quiet)
    release = f"dpcov release DATA --schema SCHEMA --ledger {shown(file)} ..."
    say(f"next: dpcov check DATA --schema SCHEMA, then {release} {UNPROTECTED_NOTE}", quiet)


@app.command(epilog=example("ledger show people.ledger"))
def show(
    file: options.LedgerPath, dataset: options.Dataset = None, as_json: options.Json = False
) -> None:
    """Show how much budget is spent and how much is left."""
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
    pure: options.Pure = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Raise the budget of a data set."""
    from dpcov.api.ledger import Ledger
    from dpcov.core.privacy import budget_from

    ledger = Ledger.open(file)
    require_writable(quiet and not as_json)
    ledger.add_budget(budget_from(epsilon, delta, rho), dataset=dataset, pure=pure)
    left = ledger.account(dataset).left
    if as_json:
        print(_account(ledger, dataset))
    else:
        amounts = ", ".join(f"{name} {amount:.12g}" for name, amount in left.items())
        say(f"left: {amounts}", quiet)


@app.command(epilog=example("ledger renew people.ledger --dataset people-2"))
def renew(
    file: options.LedgerPath,
    dataset: Annotated[str, typer.Option(help="Name of the new data set.")],
    previous: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Data set that ends. Needed if the ledger has several.",
            autocompletion=completions.datasets,
        ),
    ] = None,
    count: options.Count = None,
    pure: options.Pure = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """End a data set, and open a new one with the budget that is left.

    A ledger never changes how it counts. The new data set can count in another way. The ended data
    set accepts no more releases.
    """
    from dpcov.api.ledger import Ledger

    ledger = Ledger.open(file)
    require_writable(quiet and not as_json)
    account = ledger.renew(dataset, previous=previous, count=count, pure=pure)
    if as_json:
        print(_account(ledger, dataset))
        return
    say(
        f"{shown(file)} ended the data set {account.previous!r} and opened {dataset!r} with a "
        f"budget of {account.budget}",
        quiet,
    )
    _say_count(account, quiet)


@app.command(epilog=example("ledger report people.ledger --out people.html"))
def report(
    file: options.LedgerPath,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="File to write: .html, .md or .txt. Without it, dpcov prints text."
        ),
    ] = None,
    dataset: options.Dataset = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Report the budget and all releases on one page, for a data protection officer."""
    from dpcov.api.ledger import Ledger
    from dpcov.cli.output import written
    from dpcov.core.files import write
    from dpcov.core.show.text import print_tables
    from dpcov.report.ledger import pages, rendered

    tables = pages(Ledger.open(file), dataset)
    if out is None:
        print_tables(tables)
        return
    write(out, rendered(tables, out.suffix), force=force, inputs=[file])
    with written(out):
        say(f"written to {shown(out)}", quiet)


@app.command(epilog=example("ledger verify people.ledger"))
def verify(
    file: options.LedgerPath,
    head: Annotated[
        str | None,
        typer.Option(
            help="Head that an earlier command printed. A ledger without this head is an error."
        ),
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Check that nobody damaged, edited or replaced the ledger.

    Exit code 2 means that the check failed. Only --head detects an older copy or a rewritten
    ledger.
    """
    from dpcov.api.ledger import Ledger
    from dpcov.api.ledger.file import named

    chain = Ledger.open(file).verify()
    if head is not None and not chain.holds(head):
        raise LedgerError(
            f"{named(file)} does not contain the head {head!r}. The file might be an older copy or "
            "another ledger; use the ledger that contains your last release."
        )
    _tell(file, chain, as_json, quiet)


@app.command(epilog=example("ledger migrate old.ledger"))
def migrate(
    file: options.LedgerPath, as_json: options.Json = False, quiet: options.Quiet = False
) -> None:
    """Start a hash chain in a ledger of version 1.

    Records before the migration cannot be verified.
    """
    from dpcov.api.ledger import Ledger

    _tell(file, Ledger.open(file).migrate(), as_json, quiet)


def _tell(file: Path, chain: Chain, as_json: bool, quiet: bool) -> None:
    """Print the number of records and the head of a valid hash chain."""
    if as_json:
        facts = {"records": len(chain.digests), "unverified": chain.unverified, "head": chain.head}
        print(json_text(facts))
        return
    say(f"{shown(file)} is valid: {len(chain.digests)} records, head {chain.head}", quiet)
    if chain.unverified:
        say(
            f"The first {chain.unverified} records are older than the hash chain. "
            "dpcov cannot detect edits of these records.",
            quiet,
        )
    say("Store this head elsewhere. --head HEAD detects an old copy or a new ledger.", quiet)


def _say_count(account: Account, quiet: bool) -> None:
    """Print how a data set counts releases."""
    for sentence in account.remarks():
        say(sentence, quiet)


def _account(ledger: Ledger, dataset: str | None) -> str:
    return json_text(ledger.account(dataset).to_json())
