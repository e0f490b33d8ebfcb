"""The command line. Errors are one sentence on stderr and exit code 2; never a traceback."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dpcov.cli_analysis import app as analysis_app
from dpcov.cli_audit import app as audit_app
from dpcov.cli_ledger import verify
from dpcov.cli_moments import app as moments_app
from dpcov.cli_plan import app as plan_app
from dpcov.cli_report import app as report_app
from dpcov.cli_schema import schema
from dpcov.errors import DpcovError, MechanismError

app = typer.Typer(
    help="Release a covariance matrix under differential privacy, and read everything off it.",
    epilog="Start with `dpcov demo`. For your own table: schema, ledger create, release, show.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
ledger_app = typer.Typer(help="Keep account of the privacy budget.", no_args_is_help=True)
app.add_typer(ledger_app, name="ledger")
ledger_app.command("verify")(verify)
app.add_typer(plan_app)
app.add_typer(analysis_app)
app.add_typer(report_app)
app.add_typer(audit_app)
app.add_typer(moments_app)

Epsilon = Annotated[
    float | None,
    typer.Option(
        help="Privacy budget: one row (or person) changes any outcome's probability by at most "
        "a factor e^epsilon. Usual values: 0.1 to 3."
    ),
]
Delta = Annotated[
    float | None,
    typer.Option(help="With epsilon: probability that is added to it. Well below 1 / people."),
]
Rho = Annotated[float | None, typer.Option(help="Budget in zCDP, instead of epsilon.")]
NeighborsOption = Annotated[
    Literal["add-remove", "replace-one"],
    typer.Option(help="add-remove keeps the number of rows private, replace-one makes it public."),
]
Dataset = Annotated[
    str | None, typer.Option(help="Data set of the ledger; needed if it has several.")
]
DataPath = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="CSV, TSV (.gz) or Parquet file; with --table, a database."
    ),
]
Table = Annotated[
    str | None,
    typer.Option(
        help="Table of a database: DATA is postgresql://user@host/database (password in "
        "PGPASSWORD) or a SQLite or DuckDB file."
    ),
]
ReleasePath = Annotated[Path, typer.Argument(metavar="RELEASE", help="A release file.")]
LedgerPath = Annotated[Path, typer.Argument(metavar="LEDGER", help="A ledger file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"dpcov {version('dpcov')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--folder", help="Where to write its files.")] = Path(
        "demo"
    ),
) -> None:
    """Take a real, public health table through the whole journey."""
    from dpcov.demo import run

    run(folder)


app.command()(schema)


@app.command()
def release(
    data: DataPath,
    out: Annotated[Path, typer.Option("--out", help="Where to write the release.")],
    schema: Annotated[Path, typer.Option("--schema", help="TOML schema of the data.")],
    table: Table = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help='Only rows of the table that meet it, as in "age >= 18"; may be repeated.',
        ),
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    mechanism: Annotated[
        str, typer.Option(help="auto (the one with least noise), or one of `dpcov mechanisms`.")
    ] = "auto",
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="An option of the mechanism; may be repeated."
        ),
    ] = None,
    neighbors: NeighborsOption = "add-remove",
    denoise: Annotated[
        Literal["none", "project", "shrink"],
        typer.Option(help="How the noise is reduced afterwards; costs no privacy."),
    ] = "shrink",
    ledger: Annotated[
        Path | None,
        typer.Option(help="Ledger to book the spend in; refuses if too little is left."),
    ] = None,
    dataset: Dataset = None,
    by: Annotated[
        str | None,
        typer.Option(help="One release, and file, for each level of this column of the schema."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads; the result is the same.", min=1, max=256)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output.")] = False,
    seed: Annotated[
        int | None, typer.Option(help="For tests: makes the release NOT PRIVATE.")
    ] = None,
) -> None:
    """Release the second moment of a table under differential privacy."""
    from dpcov.api import prepare
    from dpcov.cli_progress import reading_bar
    from dpcov.grouped import paths, prepare_by
    from dpcov.ledger import Ledger
    from dpcov.releases import check_writable, largest_file
    from dpcov.schema import Schema

    declared = Schema.load(schema)
    asked: dict[str, Any] = {
        "schema": declared,
        "table": table,
        "where": where or (),
        "epsilon": epsilon,
        "delta": delta,
        "rho": rho,
        "mechanism": mechanism,
        "neighbors": neighbors,
        "denoise": denoise,
        "threads": threads,
        "seed": seed,
        **dict(map(_option, option or [])),
    }
    grouped = None if by is None and declared.by is None else prepare_by(data, by, **asked)
    requests = {"": prepare(data, **asked)} if grouped is None else grouped.levels
    places = {"": out} if grouped is None else paths(out, list(grouped.levels))
    request = next(iter(requests.values()))
    opened = None if ledger is None else Ledger.open(ledger)
    inputs = [path for path in (Path(data), schema, ledger) if path is not None]
    room = largest_file(request.rows.schema, request.rows.lattice().dimension)
    for place in places.values():
        check_writable(place, force=force, inputs=inputs, room=room)
    typer.echo(f"mechanism: {request.mechanism.name} ({request.reason})")
    with reading_bar(one.rows for one in requests.values()):
        if grouped is None:
            made = {"": request.run(opened, dataset)}
        else:
            made = grouped.run(opened, dataset)
    for level, one in made.items():
        one.save(places[level], force=force)
    typer.echo(f"guarantee: {one.guarantee_in_words()}")
    if ledger is None:
        typer.echo("ledger: none, so nothing keeps count of repeated releases (--ledger)")
    written = " ".join(map(str, places.values()))
    typer.echo(f"written to {written}; next: dpcov show {places[level]}")


def _option(stated: str) -> tuple[str, Any]:
    """Name and value of NAME=VALUE; a value that is no number, true or false is text."""
    import inspect

    from dpcov.api import prepare

    name, sign, value = stated.partition("=")
    taken = inspect.signature(prepare).parameters.keys() - {"radius"}
    if not sign or not name.isidentifier() or name in taken:
        raise MechanismError(
            f"An option of a mechanism is set by --set NAME=VALUE, not {stated!r}."
        )
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value


@app.command()
def mechanisms(as_json: Json = False) -> None:
    """List the mechanisms, what they guarantee, and their options (for release --set)."""
    from dpcov.mechanisms import MECHANISMS, options_of
    from dpcov.tables import print_mechanisms

    listed = [
        {"name": name, "what": str(kind.__doc__).splitlines()[0], "options": options_of(name)}
        for name, kind in MECHANISMS.items()
    ]
    if as_json:
        typer.echo(json.dumps(listed))
    else:
        print_mechanisms(listed)


@app.command()
def show(file: ReleasePath) -> None:
    """Say what a release is, what it guarantees and how accurate it is."""
    from dpcov.releases import Release
    from dpcov.tables import print_accuracy, print_summary

    loaded = Release.load(file)
    print_summary(loaded)
    print_accuracy(loaded)


@ledger_app.command("create")
def ledger_create(
    file: LedgerPath,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    dataset: Dataset = None,
    neighbors: NeighborsOption = "add-remove",
) -> None:
    """Create a ledger, or add a data set to one."""
    from dpcov.ledger import Ledger
    from dpcov.privacy import Neighbors, budget_from

    budget = budget_from(epsilon, delta, rho)
    Ledger.create(file, budget, dataset=dataset or "default", neighbors=Neighbors(neighbors))
    typer.echo(f"{file} holds a budget of {budget}, {neighbors}")


@ledger_app.command("show")
def ledger_show(file: LedgerPath, dataset: Dataset = None, as_json: Json = False) -> None:
    """Show what is spent and what is left."""
    from dpcov.ledger import Ledger
    from dpcov.tables import print_accounts

    ledger = Ledger.open(file)
    names = ledger.datasets() if dataset is None else [dataset]
    accounts = [ledger.account(name).to_json() for name in names]
    if as_json:
        typer.echo(json.dumps(accounts[0] if len(accounts) == 1 else {"datasets": accounts}))
    else:
        print_accounts(accounts)


@ledger_app.command("add-budget")
def ledger_add_budget(
    file: LedgerPath,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    dataset: Dataset = None,
) -> None:
    """Raise the budget of a data set."""
    from dpcov.ledger import Ledger
    from dpcov.privacy import budget_from

    ledger = Ledger.open(file)
    ledger.add_budget(budget_from(epsilon, delta, rho), dataset=dataset)
    left = ledger.account(dataset).left
    typer.echo("left: " + ", ".join(f"{name} {amount:.12g}" for name, amount in left.items()))


_UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # typer's or click's, by version


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; the last place where an error can be made quiet."""
    from dpcov.sources.sql import hidden

    try:
        sys.exit(app(arguments, prog_name="dpcov", standalone_mode=False) or 0)
    except DpcovError as error:
        _fail(str(error), 2)
    except _UsageError as error:
        if text := error.format_message().replace("Value error, ", ""):  # type: ignore[attr-defined]
            _fail(f"{hidden(text).rstrip('.')}. See: {error.ctx.command_path} --help", 2)  # type: ignore[attr-defined]
        sys.exit(2)  # the help was shown already
    except typer.Abort:
        sys.exit(130)
    except MemoryError:
        _fail("There is not enough memory. Check the ledger, if one was set: it counts the try.", 2)
    except Exception as error:
        _fail(
            f"Unexpected {type(error).__name__}; its text is held back, since it may quote data. "
            "Please report what you ran.",
            1,
        )


def _fail(message: str, code: int) -> None:
    typer.echo(f"dpcov: {' '.join(message.split())}", err=True)
    sys.exit(code)
