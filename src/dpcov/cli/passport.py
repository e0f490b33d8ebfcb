"""Command that writes the passport of a release."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from dpcov.cli import options
from dpcov.cli.options import example, say, warn_if_seeded
from dpcov.cli.output import written
from dpcov.core.printable import shown
from dpcov.core.show.plain import json_text

app = typer.Typer()


@app.command(epilog=example("passport people.release.json --format page --out people.html"))
def passport(
    file: options.ReleasePath,
    form: Annotated[
        Literal["yaml", "nist", "page"],
        typer.Option(
            "--format",
            help="yaml is a record for the public registry of deployments. nist answers what NIST "
            "SP 800-226 asks, as Markdown. page is one printable HTML page for an officer.",
        ),
    ] = "nist",
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write. Default: standard output.")
    ] = None,
    title: Annotated[
        str, typer.Option(help="Name of the data product.")
    ] = "Private covariance release",
    curator: Annotated[
        list[str] | None,
        typer.Option(help="Name of those who publish the release. You can repeat --curator."),
    ] = None,
    use: Annotated[str, typer.Option(help="Intended use of the release.")] = "",
    region: Annotated[
        str, typer.Option(help="Region that the data describe, or whose laws apply.")
    ] = "",
    sector: Annotated[
        Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"] | None,
        typer.Option(help="Sector that the data describe."),
    ] = None,
    justification: Annotated[
        str, typer.Option(help="Reasons for the budget, the bounds and the mechanism.")
    ] = "",
    data_seen: Annotated[
        Literal["yes", "no"] | None,
        typer.Option(
            help="Whether anybody inspected the data before the bounds and the budget were chosen."
        ),
    ] = None,
    published: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"],
            help="Date of publication. Default: the date of the release file.",
        ),
    ] = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Describe the guarantee of a release for a registry, an assessor or an officer."""
    from dpcov.core.files import reserved
    from dpcov.mechanisms.replay import warn_of_mismatches
    from dpcov.releases import Release
    from dpcov.report.passport import passport as passport_of
    from dpcov.report.passport import text
    from dpcov.report.statements import Statements

    loaded = Release.load(file)
    warn_of_mismatches(loaded, depth=0)
    statements = Statements(
        title=title,
        curators=tuple(curator or ()),
        use=use,
        region=region,
        sector=sector,
        justification=justification,
        data_seen=None if data_seen is None else data_seen == "yes",
        published=None if published is None else published.date(),
    )
    if not as_json:
        warn_if_seeded(loaded, error=True)
    if form == "yaml" and not as_json and (missing := statements.missing()):
        print(f"dpcov: the registry needs more facts. Add {', '.join(missing)}.", file=sys.stderr)
    if out is not None:
        with reserved(out, force=force, inputs=[file]) as output:
            output.write(text(loaded, statements, form))
    if as_json:
        print(json_text(passport_of(loaded, statements).model_dump(mode="json", exclude_none=True)))
    elif out is None:
        print(text(loaded, statements, form), end="")
    else:
        with written(out):
            say(f"written to {shown(out)}", quiet)
