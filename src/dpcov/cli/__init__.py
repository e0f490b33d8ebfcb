"""Command line of dpcov.

An error prints one line to stderr and no traceback. The exit code is 2, or 1 for an unexpected
error or a file that is not verified.
"""

from __future__ import annotations

import signal
import sys
import tomllib
import warnings
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

from dpcov.cli import completions, options
from dpcov.cli.analysis import Commands, walk
from dpcov.cli.app import app as app_app
from dpcov.cli.audit import app as audit_app
from dpcov.cli.check import CHECK_HINT, check, hint_of_texts
from dpcov.cli.compare import app as compare_app
from dpcov.cli.export import app as export_app
from dpcov.cli.ledger import app as ledger_app
from dpcov.cli.moments import app as moments_app
from dpcov.cli.options import example, say, warn_if_seeded
from dpcov.cli.output import require_writable, safe_streams, written
from dpcov.cli.passport import app as passport_app
from dpcov.cli.plan import app as plan_app
from dpcov.cli.report import app as report_app
from dpcov.cli.schema import migrate, schema
from dpcov.cli.signatures import PassphraseFile, key_app, private_key
from dpcov.cli.signatures import app as signatures_app
from dpcov.core.printable import hidden, shown
from dpcov.core.show.plain import json_text
from dpcov.core.spelling import shell_spelling
from dpcov.errors import DpcovError, KeyFileError, MechanismError, OutputError, SignatureError

if TYPE_CHECKING:
    from dpcov.core.files import Output
    from dpcov.core.keys import PrivateKey
    from dpcov.releases import Release

app = typer.Typer(
    cls=Commands,
    help="Release a covariance matrix with differential privacy and analyse the release.",
    epilog="Start with `dpcov demo`. For your own table, run these commands in this order: "
    "schema, ledger create, release, show.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(ledger_app, name="ledger")
app.add_typer(plan_app)
app.add_typer(report_app)
app.add_typer(export_app)
app.add_typer(passport_app)
app.add_typer(audit_app)
app.add_typer(moments_app)
app.add_typer(compare_app)
app.add_typer(app_app)
app.add_typer(key_app, name="key")
app.add_typer(signatures_app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"dpcov {version('dpcov')}")
        raise typer.Exit


@app.callback()
def _options(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    ctx.with_resource(shell_spelling())


@app.command(epilog=example("demo"))
def demo(
    folder: Annotated[
        Path, typer.Option("--folder", help="Folder for the files of the demo.")
    ] = Path("demo"),
) -> None:
    """Run all steps on a bundled table of simulated visits: schema, ledger, release, results."""
    from dpcov.cli.demo import run

    require_writable()
    run(folder)


app.command(epilog=example("check people.csv --schema people.toml"))(check)
app.command(epilog=example("schema people.csv --out people.toml"))(schema)
app.command("schema migrate", epilog=example("schema migrate people.toml --out new.toml"))(migrate)


@app.command(
    epilog=example(
        "release people.csv --schema people.toml "
        "--epsilon 0.5 --ledger people.ledger --out people.release.json"
    )
)
def release(
    data: options.DataPath,
    out: Annotated[Path, typer.Option("--out", help="Release file to write.")],
    schema: Annotated[Path, typer.Option("--schema", help="Schema of the data (TOML file).")],
    table: options.Table = None,
    trust_views: options.TrustViews = False,
    where: options.Where = None,
    rows: options.Rows = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    mechanism: options.Mechanism = "auto",
    goal: options.Goal = "all",
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Option of the mechanism. You can repeat --set.",
            autocompletion=completions.options,
        ),
    ] = None,
    neighbors: options.Neighbors = "add-remove",
    denoise: options.Denoise = "shrink",
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Ledger that records the spend. dpcov refuses the release if too little budget "
            "is left."
        ),
    ] = None,
    dataset: options.Dataset = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="Make one release, and one file, for each level of this column of the schema.",
            autocompletion=completions.categories,
        ),
    ] = None,
    year: Annotated[
        int | None, typer.Option(help="Year of the data, for the ledger.", min=1, max=9999)
    ] = None,
    purpose: Annotated[
        str | None, typer.Option(help="Purpose of the release, for the ledger.")
    ] = None,
    threads: options.Threads = None,
    sign: Annotated[
        Path | None,
        typer.Option(metavar="KEY", help="Sign the release file with this private key."),
    ] = None,
    passphrase_file: PassphraseFile = None,
    force: options.Force = False,
    seed: Annotated[
        int | None, typer.Option(help="Seed for tests. It makes the release NOT PRIVATE.")
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Release the second moment matrix of a table with differential privacy."""
    from dpcov.analysis.summary import large_delta
    from dpcov.api import prepare
    from dpcov.api.grouped import paths, prepare_by
    from dpcov.api.request import Request
    from dpcov.cli.progress import reading
    from dpcov.core.envelope import largest_signed
    from dpcov.core.files import reserved
    from dpcov.releases import largest_file
    from dpcov.report.documents import document
    from dpcov.rows.schema import Schema

    declared = Schema.load(schema)
    stated = dict(map(_option, option or []))
    request = Request(
        schema=declared,
        ledger=ledger,
        dataset=dataset,
        table=table,
        trust_views=trust_views,
        where=where or (),
        rows=rows,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        mechanism=mechanism,
        goal=goal,
        neighbors=neighbors,
        radius=stated.pop("radius", None),
        denoise=denoise,
        threads=threads,
        seed=seed,
        year=year,
        purpose=purpose,
        options=stated,
    )
    grouped = None if by is None and declared.by is None else prepare_by(data, by, request)
    levels = {"": prepare(data, request)} if grouped is None else grouped.levels
    places = {"": out} if grouped is None else paths(out, list(grouped.levels))
    prepared = next(iter(levels.values()))
    signer = None if sign is None else _signer(sign, passphrase_file)  # before the spend
    inputs = [path for path in (Path(data), schema, ledger, sign) if path is not None]
    space = largest_file(prepared.rows.schema, prepared.rows.lattice().dimension)
    if signer is not None:
        space = largest_signed(space)
    hushed = quiet or as_json
    require_writable(quiet and not as_json)
    with ExitStack() as stack:
        try:
            outputs = {
                level: stack.enter_context(reserved(place, force=force, inputs=inputs, space=space))
                for level, place in places.items()
            }
        except OutputError as error:
            raise OutputError(f"{error} Nothing was spent.") from None
        say(f"note: {CHECK_HINT}", hushed or not sys.stdout.isatty())
        if texts := prepared.rows.plain_texts:
            say(f"note: {hint_of_texts(texts)}", hushed)
        say(f"mechanism: {prepared.mechanism.name} ({prepared.reason})", hushed)
        sys.stdout.flush()
        asking = prepared if grouped is None else grouped
        with reading():
            made, entry = asking.draw()
        hashes, names = _save(made, outputs, signer), tuple(map(shown, places.values()))
        asking.finish(entry, hashes, schema=shown(schema), names=names)
    level, one = list(made.items())[-1]
    warned = large_delta(one)
    with written(*places.values(), note="The budget is spent, and "):
        if as_json:
            book = prepared.ledger
            left = None if book is None else book.account(dataset).left
            files = {level: str(place) for level, place in places.items()}
            facts: dict[str, Any] = {"reason": prepared.reason, "files": files, "left": left}
            facts["budget_warnings"] = warned
            facts["signatures"] = [] if signer is None else [signer.public.fingerprint]
            print(json_text(document(one, mechanism=one.mechanism, **facts)))
            return
        if quiet:
            warn_if_seeded(one, error=True)
        for sentence in warned:
            print(f"dpcov: {sentence}", file=sys.stderr)
        say(f"guarantee: {one.guarantee_in_words()}", quiet)
        if ledger is None:
            say(
                "ledger: none. dpcov did not record this spend. "
                "Use --ledger to limit the total of several releases.",
                quiet,
            )
        if sign is not None:
            say(f"signed with the key {shown(sign)}", quiet)
        listed = " ".join(map(shown, places.values()))
        say(f"written to {listed}; next: dpcov show {shown(places[level])}", quiet)


def _signer(key: Path, passphrase_file: Path | None) -> PrivateKey:
    try:
        return private_key(key, passphrase_file)
    except KeyFileError as error:
        raise KeyFileError(f"{error} Nothing was spent.") from None


def _save(
    made: dict[str, Release], outputs: dict[str, Output], signer: PrivateKey | None
) -> list[str]:
    """Write each release to its file, and print each release whose file cannot be written.

    No release is lost in this way, although the budget is spent. The function returns the hashes of
    the files.
    """
    from dpcov.api.about import file_hash

    failed: dict[str, OutputError] = {}
    hashes = []
    for level, one in made.items():
        text = _text(one, signer)
        hashes.append(file_hash(text))
        try:
            outputs[level].write(text)
        except OutputError as error:
            failed[level] = error
    if not failed:
        return hashes
    first = next(iter(failed.values()))
    try:
        for level in failed:
            print(_text(made[level], signer, indent=None), end="")
        sys.stdout.flush()
    except OutputError as error:
        raise OutputError(f"{first} {error} The budget is spent and the release is lost.") from None
    raise OutputError(
        f"{first} The budget is spent. Save the release from standard output as a file."
    )


def _text(release: Release, signer: PrivateKey | None, indent: int | None = 1) -> str:
    """Return the content of the file of a release."""
    from dpcov.signatures import signed_text

    text = release.to_text(indent)
    return text if signer is None else signed_text(text, signer)


def _option(stated: str) -> tuple[str, Any]:
    """Split NAME=VALUE. A value is text unless it is a number, true or false."""
    from dpcov.api.request import Request
    from dpcov.core.parameters import kinds_of

    name, sign, value = stated.partition("=")
    taken = {"data", *kinds_of(Request)} - {"radius"}
    if not sign or not name.isidentifier() or name in taken:
        raise MechanismError(
            f"--set {stated!r} is not valid. Write --set NAME=VALUE; `dpcov mechanisms` lists "
            "the names."
        )
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value


@app.command(epilog=example("mechanisms"))
def mechanisms(as_json: options.Json = False) -> None:
    """List the mechanisms, their guarantees, papers, and options for release --set."""
    from dpcov.core.privacy import ApproxDP, Neighbors
    from dpcov.core.show.table import Row, Table
    from dpcov.core.show.text import print_tables
    from dpcov.mechanisms import MECHANISMS, options_of
    from dpcov.rows.moment import Lattice

    example = Lattice(10, 1.0), ApproxDP(1.0, 1e-6), Neighbors.ADD_REMOVE
    listed: list[dict[str, Any]] = [
        {
            "name": name,
            "what": str(kind.__doc__).splitlines()[0],
            "source": kind.source,
            "options": options_of(name),
            "least_rows": kind().least_units(*example) or None,
        }
        for name, kind in MECHANISMS.items()
    ]
    if as_json:
        print(json_text(listed))
        return
    rows: list[Row] = []
    sources: list[Row] = []
    for name, what, source, taken, least in (one.values() for one in listed):
        if least:
            what += f" For 10 columns, epsilon 1 and delta 1e-6, it needs at least {least:,} rows."
        settings = ", ".join(f"{key}={value}" for key, value in taken.items())
        rows.append((name, [what, settings]))
        sources.append((name, [source]))
    heads = ("mechanism", "what it releases, with its guarantee", "options")
    named = Table(("mechanism", "source"), sources, words=True)
    print_tables([Table(heads, rows, words=True), named])


@app.command(epilog=example("show people.release.json"))
def show(file: options.ReleasePath, as_json: options.Json = False) -> None:
    """Show the guarantee, the size and the accuracy of a release."""
    from dpcov.analysis.summary import summary
    from dpcov.core.show.text import print_tables, warn
    from dpcov.releases import Release
    from dpcov.releases.advisories import advisories
    from dpcov.report.documents import document
    from dpcov.signatures import claimed_keys

    loaded, keys = Release.load(file), claimed_keys(file)
    found = summary(loaded)
    if as_json:
        print(json_text(document(loaded, **found.document(), signatures=keys)))
        return
    warn_if_seeded(loaded)
    for sentence in advisories(loaded):
        warn(sentence)
    print_tables(found.tables())
    name = shown(file)
    if keys:
        print(
            f"signed, according to the file, with the key {', '.join(keys)}. Only "
            f"`dpcov verify {name} --key PUBLIC` checks a signature."
        )
    first = "correlation" if loaded.not_released is None else "covariance"
    print(f"next: dpcov {first} {name}, or dpcov report {name} --out PAGE.html")


def commands() -> dict[str, Any]:
    """Return every command by its full name. The documentation and the tests use these names."""
    return dict(walk(get_command(app)))


# The class belongs to typer or to click, depending on the version of typer.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    _end_in_order()
    warnings.filterwarnings("always", category=UserWarning, module="dpcov")
    warnings.showwarning = lambda message, *_: print(f"dpcov: {message}", file=sys.stderr)
    with safe_streams():
        sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> int:
    """Run one command and return its exit code."""
    try:
        code = app(arguments, prog_name="dpcov", standalone_mode=False) or 0
        sys.stdout.flush()
    except DpcovError as error:
        return _fail(str(error), 1 if isinstance(error, SignatureError) else 2)
    except _UsageError as error:
        if text := error.format_message().replace("Value error, ", ""):  # type: ignore[attr-defined]
            return _fail(f"{hidden(text).rstrip('.')}. See: {error.ctx.command_path} --help", 2)  # type: ignore[attr-defined]
        return 2  # typer has printed the help
    except typer.Abort:
        return 130
    except MemoryError:
        return _fail(
            "Not enough memory. If you set a ledger, it might have recorded the spend: "
            "run `dpcov ledger show`.",
            2,
        )
    except Exception as error:
        return _fail(
            f"Unexpected {type(error).__name__}; its text is hidden, because "
            "it might contain data. Please report the command that you ran.",
            1,
        )
    return int(code)


def _end_in_order() -> None:
    """Make signals that end dpcov raise SystemExit, so that dpcov removes locks and empty files."""

    def leave(number: int, _: object) -> None:
        sys.exit(128 + number)

    names = ("SIGHUP", "SIGTERM", "SIGBREAK")  # SIGBREAK: Windows closes the console
    for ending in (getattr(signal, name) for name in names if hasattr(signal, name)):
        with suppress(ValueError):  # outside the main thread, the program that called dpcov decides
            if signal.getsignal(ending) == signal.SIG_DFL:  # nohup ignores SIGHUP
                signal.signal(ending, leave)


def _fail(message: str, code: int) -> int:
    print(f"dpcov: {' '.join(message.split())}", file=sys.stderr)
    return code
