"""Commands that analyse a release file, at no cost in privacy.

Each command is built from the declaration of an analysis in `dpcov.analysis.declared`.
"""

from __future__ import annotations

import inspect
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from dpcov.analysis.declared import command_named, commands, listed_commands
from dpcov.cli import completions, options
from dpcov.cli.options import example, say
from dpcov.cli.output import written
from dpcov.core.printable import printable, shown
from dpcov.core.show.plain import json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dpcov.analysis.declared import Command, Option
    from dpcov.core.show.result import Result
    from dpcov.releases import Release

Csv = Annotated[bool, typer.Option("--csv", help="Print all results as CSV.")]
Json = Annotated[bool, typer.Option("--json", help="Print all results as JSON.")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="Write all results to a .csv or .parquet file, or the tables to a .html or .tex file.",
    ),
]
COMMON_OPTIONS: dict[str, tuple[Any, Any]] = {
    "csv": (Csv, False),
    "as_json": (Json, False),
    "out": (Out, None),
    "force": (options.Force, False),
    "quiet": (options.Quiet, False),
}
NOT_UTF8_NOTE = (
    "The output is UTF-8, but the schema declares {}. Use --out to write a file in this encoding."
)
EXAMPLE_RELEASE = "people.release.json"
ANALYSES_PANEL = "Analyses of a release"


class Commands(TyperGroup):
    """Group of commands that imports the analyses on demand.

    Help and completion list the commands from a generated file, because the import of all analyses
    takes longer than half a second.
    """

    _only_listed = False

    def list_commands(self, ctx: Any) -> list[str]:
        analyses = listed_commands()
        return [*(name for name in self.commands if name not in analyses), *analyses]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            found = listed_commands().get(cmd_name)
            if found is not None and self._only_listed:
                return TyperCommand(cmd_name, help=found["help"], rich_help_panel=ANALYSES_PANEL)
            self._load(cmd_name)
        return self.commands.get(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with self._listing():
            super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word or the first two words name."""
        two = " ".join(args[:2])
        if len(args) > 1 and two in self.commands:
            return two, self.commands[two], args[2:]
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return the completions of one word, because a shell escapes a blank within a name."""
        with self._listing():
            found = super().shell_complete(ctx, incomplete)
        return [one for one in found if " " not in one.value]

    @contextmanager
    def _listing(self) -> Iterator[None]:
        """Give commands that have a help text only, without an import of the analyses."""
        self._only_listed = True
        try:
            yield
        finally:
            self._only_listed = False

    def _load(self, name: str) -> None:
        """Load one command, or all of them for a name that dpcov does not know.

        An error message suggests similar names among the commands that are loaded.
        """
        if name in listed_commands():
            found = {name: command_named(name)}
        else:
            found = {one: own for one, own in commands().items() if one not in self.commands}
        analyses = typer.Typer()
        for own, declared in found.items():
            epilog = example(f"{own} {EXAMPLE_RELEASE} {declared.example}".rstrip())
            make = analyses.command(
                own, help=declared.help, epilog=epilog, rich_help_panel=ANALYSES_PANEL
            )
            make(_callback(declared))
        analyses.callback()(lambda: None)  # so that one command is a group too
        built = get_command(analyses).commands  # type: ignore[attr-defined]
        self.commands = {**self.commands, **built}


def walk(group: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the full name and the command of each command in a group."""
    for own in group.list_commands(None):
        command = group.get_command(None, own)
        if hasattr(command, "list_commands"):
            yield from walk(command, f"{name}{own} ")
        else:
            yield name + own, command


def _callback(declared: Command) -> Callable[..., None]:
    """Return the function from which typer builds the command."""

    def callback(**given: Any) -> None:
        from dpcov.cli.progress import computing
        from dpcov.core.files import check_writable
        from dpcov.releases import Release

        out, force = given["out"], given["force"]
        files = given["file"] if declared.several else [given["file"]]
        releases = [Release.load(file) for file in files]
        release = releases[0]
        if out is not None:
            from dpcov.report.exports import require_ending

            require_ending(out, pages=True)
            check_writable(out, force=force, inputs=files)
        values = {name: given[name] for name in declared.options}
        for name, option in declared.options.items():
            if option.read is not None and values[name] is not None:
                values[name] = option.read(values[name])
        with computing():
            found = declared.run(release if len(releases) == 1 else releases, **values)
        if out is not None:
            write([release], found, out, files, force, given["quiet"])
        else:
            _print(release, found, given["as_json"], given["csv"])

    defaults = inspect.signature(declared.run).parameters
    path = options.ReleasePaths if declared.several else options.ReleasePath
    asked: dict[str, tuple[Any, Any]] = {"file": (path, inspect.Parameter.empty)}
    for name, option in declared.options.items():
        default = defaults[name].default
        asked[name] = _option(option, default), False if option.kind is bool else default
    asked |= COMMON_OPTIONS
    callback.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
            )
            for name, (kind, default) in asked.items()
        ]
    )
    callback.__annotations__ = {name: kind for name, (kind, _) in asked.items()}
    return callback


def _option(option: Option, default: object) -> Any:
    """Return the annotation from which typer builds the option."""
    kind: Any = Literal[option.choices] if option.choices else option.kind
    offered = None if option.completes is None else getattr(completions, option.completes)
    if not option.flag.startswith("-"):
        named = typer.Argument(metavar=option.flag, help=option.help, autocompletion=offered)
        return Annotated[kind | None if default is None else kind, named]
    stated = typer.Option(option.flag, help=option.help, autocompletion=offered, min=option.least)
    return Annotated[kind | None if default is None else kind, stated]


def write(
    releases: Sequence[Release],
    found: Result,
    out: Path,
    files: list[Path],
    force: bool,
    quiet: bool,
) -> None:
    """Write a result of releases to a file, and print its warnings."""
    from dpcov.report.documents import caveats
    from dpcov.report.exports import PAGE_ENDINGS, write_page, write_table

    release, *others = releases
    known = dict.fromkeys(caveat for one in releases for caveat in caveats(one))
    for sentence in [*known, *([] if quiet else found.notes())]:
        print(printable(sentence), file=sys.stderr)
    if out.suffix.lower() in PAGE_ENDINGS:
        write_page(release, found, out, force=force, inputs=files, others=others)
        done = "The tables are written"
    else:
        table = found.arrow()
        file = found.text_file()
        write_table(release, table, out, force=force, inputs=files, others=others, file=file)
        done = f"{table.num_rows} rows written"
    with written(out):
        say(f"{done} to {shown(out)}", quiet)


def _print(release: Release, found: Result, as_json: bool, as_csv: bool) -> None:
    from dpcov.report.documents import caveats, document

    if as_json:
        notes = [*caveats(release), *found.notes()]
        print(json_text(document(release, **found.document(), notes=notes)))
        return
    if as_csv or not found.has_sentences:
        from dpcov.report.exports import stamp

        for sentence in [*caveats(release), *found.notes()]:
            print(printable(sentence), file=sys.stderr)
        file = found.text_file()
        if file is not None and not file.is_utf8:
            print(NOT_UTF8_NOTE.format(file.schema.file.encoding), file=sys.stderr)
        print(stamp(release) + found.csv(), end="")
        return
    from dpcov.core.show.text import print_tables, warn

    for caveat in caveats(release):
        warn(caveat)
    print_tables(found.tables())
