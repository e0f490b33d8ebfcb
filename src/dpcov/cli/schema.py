"""Commands that draft a schema, ask for a schema, or migrate a schema."""

from __future__ import annotations

import shutil
import textwrap
import tomllib
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpcov.cli import options
from dpcov.cli.check import UNPROTECTED_NOTE
from dpcov.cli.options import say
from dpcov.cli.output import written
from dpcov.core.printable import shown
from dpcov.errors import OutputError, SchemaError, SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpcov.cli.drafts import Stated
    from dpcov.rows.schema import FileOptions, Kind
    from dpcov.rows.sources.base import Source

Out = Annotated[
    Path | None, typer.Option("--out", help="Schema file to write. Default: print the schema.")
]


def schema(
    data: options.DataPath,
    table: options.Table = None,
    trust_views: options.TrustViews = False,
    interactive: Annotated[
        bool, typer.Option("--interactive", help="Ask about each column. Needs --out.")
    ] = False,
    metadata: Annotated[
        Path | None,
        typer.Option(
            help="Public metadata of the table: CSV on the Web or Frictionless (JSON), DDI "
            "Codebook (XML) or SmartNoise (YAML, JSON)."
        ),
    ] = None,
    labels: Annotated[
        bool,
        typer.Option(
            "--labels",
            help="Propose the value labels of a Stata or SPSS file as levels. Labels can disclose "
            "which values occur.",
        ),
    ] = False,
    out: Out = None,
    force: options.Force = False,
    header: Annotated[
        bool, typer.Option(help="State whether the first record of a text file names the columns.")
    ] = True,
    columns: Annotated[
        int | None, typer.Option(help="Number of columns, for --no-header.", min=1)
    ] = None,
    separator: Annotated[str | None, typer.Option(help="Separator of a text file.")] = None,
    skip_lines: Annotated[
        int, typer.Option(help="Number of lines to skip at the top of a text file.", min=0)
    ] = 0,
    comment: Annotated[
        str | None, typer.Option(help="Skip lines above the header that start with this text.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="Encoding of a text file.")] = "utf-8",
    decimal: Annotated[
        Literal[".", ","], typer.Option(help="Decimal sign of numbers in a text file.")
    ] = ".",
    thousands: Annotated[
        str | None, typer.Option(help="Character that groups digits by three in a text file.")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Draft a schema from column names and types.

    You fill in the bounds and the levels.
    """
    from dpcov.cli import metadata as others
    from dpcov.cli.drafts import Stated, draft
    from dpcov.core.files import check_writable, write
    from dpcov.rows.schema import FileOptions

    if interactive and out is None:
        raise OutputError("--interactive needs a file for the answers. Add --out FILE.toml.")
    if out is not None:
        inputs = [Path(data), *([] if metadata is None else [metadata])]
        check_writable(out, force=force, inputs=inputs)
    file = Path(data).name
    reading = FileOptions.checked(
        header=header,
        separator=separator_of(file) if separator is None else separator,
        skip_lines=skip_lines,
        comment=comment,
        encoding=encoding,
        decimal=decimal,
        thousands=thousands,
    )
    source = opened(data, reading, columns, table, trust_views, guessed=separator is None)
    kinds = source.kinds()
    stated = Stated() if metadata is None else others.read(metadata, table or file, kinds)
    stated = proposals(source, kinds, stated)
    if labels:
        stated = replace(stated, labels=_labels(source))
    if interactive:
        stated = _interview(kinds, reading, stated)
    text = draft(kinds, reading, stated)
    if out is None:
        print(text, end="")
        return
    write(out, text, force=force)
    with written(out):
        say(f"written to {shown(out)}; {_next(data, out, text)}", quiet)


def separator_of(file: str) -> str:
    """Return the usual separator of a text file, by the ending of its name."""
    endings = [part for part in file.lower().split(".") if part != "gz"]
    return "\t" if endings[-1:] in (["tsv"], ["tab"]) else ","


def opened(
    data: str,
    reading: FileOptions,
    columns: int | None = None,
    table: str | None = None,
    trust_views: bool = False,
    *,
    guessed: bool = False,
) -> Source:
    """Open a table for the draft of a schema; read names and declared types, but no cell.

    Parameters
    ----------
    data : str
        Path of the table, or link to a database.

    reading : FileOptions
        Options of a text file.

    columns : int, optional
        Number of columns of a text file without a header.

    table : str, optional
        Table of a database, or sheet of a workbook.

    trust_views : bool, default False
        If True, accept a view as a table.

    guessed : bool, default False
        If True, the user has not stated the separator. A header of one name is then refused if
        another separator finds more names.

    Returns
    -------
    Source
        Open source; `proposals` closes it.

    """
    from dpcov.rows.sources import open_source
    from dpcov.rows.sources.sql import table_of

    names = () if reading.header else tuple(f"x{j}" for j in range(columns or 0))
    source = open_source(table_of(data, table, trust_views), reading, names)
    advice = getattr(source, "advice", "")
    if advice and guessed:
        raise SourceError(f"The draft would have a single column.{advice}")
    return source


def proposals(source: Source, kinds: Mapping[str, Kind], stated: Stated) -> Stated:
    """Return the stated facts, with the keys and missing codes that the source declares."""
    from dpcov.cli.drafts import proposed

    keys = source.keys() if hasattr(source, "keys") else {}
    if hasattr(source, "close"):
        source.close()
    found = proposed(kinds, stated, keys)
    if not hasattr(source, "codes"):
        return found
    return replace(found, codes={**found.codes, **source.codes()})


def migrate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Schema of version 1 or 2.")],
    out: Out = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Convert a schema of version 1 or 2 to version 3, with the same encoding of every row."""
    from dpcov.cli.drafts import migrated
    from dpcov.core.files import read_text, write
    from dpcov.rows.missing import UnstatedMissingWarning
    from dpcov.rows.schema import MAX_SCHEMA_BYTES, Schema

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UnstatedMissingWarning
        )  # this command does what the warning asks for
        declared = Schema.load(file)
    if declared.version == 3:
        raise SchemaError(f"The schema {shown(file)!r} has version 3 already. Use it as it is.")
    text = migrated(read_text(file, "schema", SchemaError, most=MAX_SCHEMA_BYTES), declared)
    if out is None:
        print(text, end="")
        return
    write(out, text, force=force)
    with written(out):
        say(f"written to {shown(out)} as version 3, with the same encoding of every row", quiet)
        say(
            "next: state in each column what a missing cell means, as [defaults.missing] does",
            quiet,
        )


def _labels(source: Source) -> Mapping[str, Mapping[float | str, str]]:
    if not hasattr(source, "labels"):
        raise SourceError(
            "--labels needs a Stata or SPSS file, because other files have no value labels. "
            "Remove --labels."
        )
    found: Mapping[str, Mapping[float | str, str]] = source.labels()
    return found


def _interview(kinds: Mapping[str, Kind], reading: FileOptions, stated: Stated) -> Stated:
    from dpcov.cli.questions import Interview, Quit

    def ask(question: str) -> str:
        suffix = ": " if question[-1].isalpha() else " "
        return str(typer.prompt(question, default="", show_default=False, prompt_suffix=suffix))

    try:
        return Interview(kinds, reading, stated, ask, _paragraph).run()
    except Quit:
        print("Nothing was written.")
        raise typer.Abort from None


def _paragraph(text: str) -> None:
    """Print a text in lines that fit the terminal."""
    width = min(100, max(20, shutil.get_terminal_size().columns - 1))
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        print(textwrap.fill(line, width, subsequent_indent=indent, break_on_hyphens=False))


def _next(data: str, out: Path, text: str) -> str:
    """Return the next step, which depends on whether the schema is complete."""
    from dpcov.rows.schema import Schema

    try:
        Schema.parse(tomllib.loads(text))
    except SchemaError:
        first = "complete the schema from public knowledge"
    else:
        first = f"dpcov plan {shown(out)} --rows GUESS --epsilon 1"
    check = f"dpcov check {shown(data)} --schema {shown(out)}"
    return f"next: {first}; before a release, {check}. {UNPROTECTED_NOTE}"
