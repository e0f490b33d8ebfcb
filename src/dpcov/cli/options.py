"""Arguments and options that several commands share, and how they speak."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpcov.cli import completions

if TYPE_CHECKING:
    from dpcov.releases import Release

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
Neighbors = Annotated[
    Literal["add-remove", "replace-one"],
    typer.Option(
        help="add-remove keeps the number of rows private. replace-one makes it public, and at the "
        "same epsilon protects more of what a row holds, with up to twice the noise."
    ),
]
Mechanism = Annotated[
    str,
    typer.Option(
        help="auto, or one of `dpcov mechanisms`.",
        autocompletion=completions.mechanisms_or_auto,
    ),
]
Goal = Annotated[
    Literal["all", "frobenius", "relative", "correlation", "regression"],
    typer.Option(help="What auto makes accurate; frobenius is the second moment as a whole."),
]
Denoise = Annotated[
    Literal["none", "project", "shrink"],
    typer.Option(help="How the noise is reduced afterwards; costs no privacy."),
]
Rows = Annotated[
    int | None,
    typer.Option(
        "--rows",
        metavar="N",
        min=1,
        help="How many rows the table has, known from elsewhere and public; for replace-one. Rows "
        "beyond are dropped, and missing ones are rows without values.",
    ),
]
Threads = Annotated[
    int | None, typer.Option(help="Threads; the result is the same.", min=1, max=256)
]
Dataset = Annotated[
    str | None,
    typer.Option(
        help="Data set of the ledger; needed if it has several.",
        autocompletion=completions.datasets,
    ),
]
DataPath = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="CSV, TSV (.gz), Parquet, Excel, Stata, SPSS or SAS file; with --table, a database.",
    ),
]
Table = Annotated[
    str | None,
    typer.Option(
        help="Table of a database: DATA is a postgresql:// address (user@host/database; password "
        "in PGPASSWORD) or a SQLite or DuckDB file. Or a sheet of an Excel workbook."
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="Only rows that meet it, as in \"age >= 18 and region in ('north', 'south')\"; may be "
        "repeated.",
    ),
]
TrustViews = Annotated[
    bool,
    typer.Option(
        "--trust-views",
        help="Take a view, or another program of the database, for a table: what it does to rows "
        "is then not protected.",
    ),
]
ReleasePath = Annotated[Path, typer.Argument(metavar="RELEASE", help="A release file.")]
LedgerPath = Annotated[Path, typer.Argument(metavar="LEDGER", help="A ledger file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors and warnings.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing output.")]


def example(line: str) -> str:
    """The last line of a command's help; the tests run it."""
    return f"Example: dpcov {line}"


def say(text: str, quiet: bool) -> None:
    """A line for the person at the keyboard, unless they want none."""
    if not quiet:
        print(text)


def warn_if_seeded(release: Release, *, error: bool = False) -> None:
    """Say so if a release protects nobody; with `error`, on stderr."""
    if release.reproducible:
        from dpcov.core.show.text import warn
        from dpcov.releases import SEEDED

        warn(SEEDED, error=error)
