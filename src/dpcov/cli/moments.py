"""Commands for a table in several parts, whose holders trust each other with the data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpcov.cli import options
from dpcov.cli.options import example, say
from dpcov.cli.output import written
from dpcov.core.printable import shown

app = typer.Typer()

Out = Annotated[
    Path, typer.Option("--out", help="File of sums to write. It is PRIVATE, like the rows.")
]
PRIVATE_DATA_NOTE = (
    "PRIVATE DATA, not a release. Protect this file like the rows. Next: dpcov merge or release"
)


@app.command(epilog=example("moments people.csv --schema people.toml --out people.sums"))
def moments(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="One part of the table: a file or database, as for `dpcov release`.",
        ),
    ],
    out: Out,
    schema: Annotated[
        Path, typer.Option("--schema", help="Schema (TOML file). All parts need the same schema.")
    ],
    table: options.Table = None,
    trust_views: options.TrustViews = False,
    where: options.Where = None,
    rows: options.Rows = None,
    threads: options.Threads = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Sum the rows of one part of a table, without noise. The file is PRIVATE and not a release."""
    from dpcov.core.files import check_writable
    from dpcov.rows.schema import Schema
    from dpcov.rows.sources.partial import PartialMoment
    from dpcov.rows.sources.sql import table_of

    inputs = [Path(data), schema]
    check_writable(out, force=force, inputs=inputs)
    declared = Schema.load(schema).with_rows(rows)
    found = table_of(data, table, trust_views)
    part = PartialMoment.of(found, declared, where=where or (), threads=threads)
    part.save(out, force=force, inputs=inputs)
    with written(out):
        say(f"written to {shown(out)}: {PRIVATE_DATA_NOTE}", quiet)


@app.command(epilog=example("merge people.sums --out all.sums"))
def merge(
    files: Annotated[
        list[Path], typer.Argument(metavar="SUMS...", help="Files that `dpcov moments` wrote.")
    ],
    out: Out,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Add the sums of parts that share no row. The file is PRIVATE and not a release."""
    from functools import reduce

    from dpcov.rows.sources.partial import PartialMoment

    whole = reduce(PartialMoment.merged, map(PartialMoment.load, files))
    whole.save(out, force=force, inputs=files)
    with written(out):
        say(f"written to {shown(out)}: {PRIVATE_DATA_NOTE}", quiet)
