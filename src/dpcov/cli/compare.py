"""Command that compares two releases."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from dpcov.cli import options
from dpcov.cli.analysis import Csv, Json, Out, write
from dpcov.cli.options import example

app = typer.Typer()


@app.command(
    epilog=example("compare people.release.json later.release.json --persons same"),
    rich_help_panel="Analyses of a release",
)
def compare(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="First release file.")],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="Second release file.")],
    persons: Annotated[
        Literal["disjoint", "same", "unknown"],
        typer.Option(
            help="disjoint if no person is in both tables, same if both tables have the same "
            "persons. unknown gives wider intervals, which are bounds."
        ),
    ] = "unknown",
    as_csv: Csv = False,
    as_json: Json = False,
    out: Out = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare the means, standard deviations and correlations of two releases."""
    from dpcov.analysis.compare import compare as compared
    from dpcov.cli.progress import computing
    from dpcov.core.files import check_writable
    from dpcov.core.printable import printable
    from dpcov.core.show.plain import json_text, plain
    from dpcov.core.show.text import print_tables, warn
    from dpcov.releases import SEEDED, Release
    from dpcov.releases.carried import stated
    from dpcov.report.exports import require_ending, stamp

    releases = [Release.load(file) for file in (first, second)]
    seeded = next((one for one in releases if one.reproducible), None)
    if out is not None:
        require_ending(out, pages=True)
        check_writable(out, force=force, inputs=[first, second])
    with computing():
        found = compared(*releases, persons=persons)
    if out is not None:
        write(releases, found, out, [first, second], force, quiet)
        return
    if as_json:
        facts = {"releases": [stated(one) for one in releases], **found.document()}
        print(json_text({**plain(facts), "notes": found.notes()}))
        return
    if as_csv:
        for sentence in found.notes():
            print(printable(sentence), file=sys.stderr)
        print(("" if seeded is None else stamp(seeded)) + found.csv(), end="")
        return
    if seeded is not None:
        warn(SEEDED)
    print_tables(found.tables())
