"""Arguments, options and messages that several commands share."""

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
        help="Privacy budget. One row (or person) changes the probability of any outcome by a "
        "factor of at most e^epsilon. Usual values: 0.1 to 3."
    ),
]
Delta = Annotated[
    float | None,
    typer.Option(
        help="Small probability that is added to the bound of --epsilon. "
        "Choose delta well below 1 / number of people."
    ),
]
Rho = Annotated[
    float | None,
    typer.Option(
        help="Privacy budget in zero-concentrated differential privacy (zCDP), instead of epsilon."
    ),
]
Neighbors = Annotated[
    Literal["add-remove", "replace-one"],
    typer.Option(
        help="add-remove keeps the number of rows private. replace-one makes this number public. "
        "At the same epsilon, replace-one protects the values of a row more, with up to twice the "
        "noise."
    ),
]
Mechanism = Annotated[
    str,
    typer.Option(
        help="auto, or a mechanism that `dpcov mechanisms` lists.",
        autocompletion=completions.mechanisms_or_auto,
    ),
]
Goal = Annotated[
    Literal["all", "frobenius", "relative", "correlation", "regression"],
    typer.Option(
        help="Results to make most accurate, with auto or standardized. frobenius is the second "
        "moment as a whole."
    ),
]
Denoise = Annotated[
    Literal["none", "project", "shrink"],
    typer.Option(help="Method that reduces the noise after the release. It costs no privacy."),
]
Rows = Annotated[
    int | None,
    typer.Option(
        "--rows",
        metavar="N",
        min=1,
        help="Public number of rows, known from another source; only for replace-one. dpcov drops "
        "rows beyond this number, and adds rows without values if there are fewer.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(help="Number of threads. It does not change the result.", min=1, max=256),
]
Dataset = Annotated[
    str | None,
    typer.Option(
        help="Data set of the ledger. Needed if the ledger has several.",
        autocompletion=completions.datasets,
    ),
]
Count = Annotated[
    Literal["gaussian", "sums"] | None,
    typer.Option(
        help="How an (epsilon, delta) ledger counts. You cannot change it later. gaussian, the "
        "default, adds up the mu^2 of Gaussian noise and allows more releases. sums adds up "
        "epsilons and deltas, and allows every mechanism."
    ),
]
Pure = Annotated[
    float | None,
    typer.Option(
        help="Part of epsilon that is reserved for releases without a delta; only for --count "
        "gaussian."
    ),
]
DataPath = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="CSV, TSV (.gz), Parquet, Excel, Stata, SPSS or SAS file. With --table, a database.",
    ),
]
Table = Annotated[
    str | None,
    typer.Option(
        help="Table of a database, or sheet of an Excel workbook. For a database, DATA is a SQLite "
        "or DuckDB file or postgresql://user@host/database, with the password in PGPASSWORD."
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="Release only rows that meet this condition, such as "
        "\"age >= 18 and region in ('north', 'south')\". You can repeat --where.",
    ),
]
TrustViews = Annotated[
    bool,
    typer.Option(
        "--trust-views",
        help="Accept a view, or another object that runs code of the database, as a table. The "
        "guarantee does not cover what this code does to the rows.",
    ),
]
ReleasePath = Annotated[Path, typer.Argument(metavar="RELEASE", help="Release file.")]
ReleasePaths = Annotated[
    list[Path],
    typer.Argument(metavar="RELEASE...", help="Release file, or the files of a grouped release."),
]
LedgerPath = Annotated[Path, typer.Argument(metavar="LEDGER", help="Ledger file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors and warnings.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing output file.")]


def example(line: str) -> str:
    """Return the last line of the help of a command. The tests run it."""
    return f"Example: dpcov {line}"


def say(text: str, quiet: bool) -> None:
    """Print a line, unless `quiet`."""
    if not quiet:
        print(text)


def warn_if_seeded(release: Release, *, error: bool = False) -> None:
    """Warn if a release has a seed, because it then protects nobody; with `error`, on stderr."""
    if release.reproducible:
        from dpcov.core.show.text import warn
        from dpcov.releases import SEEDED

        warn(SEEDED, error=error)
