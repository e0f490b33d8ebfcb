"""Commands that compute something from a release file, at no cost in privacy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dpcov import completions
from dpcov.cli_options import Force, Quiet, ReleasePath, say
from dpcov.printable import shown

if TYPE_CHECKING:
    from dpcov.releases import Release

app = typer.Typer()

Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, in full.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, in full.")]
Out = Annotated[
    Path | None, typer.Option("--out", help="Write the matrix to a .csv or .parquet file.")
]
Target = Annotated[
    str,
    typer.Option(
        "--target",
        help="Column to predict; for a level of one, column=level.",
        autocompletion=completions.columns,
    ),
]
Features = Annotated[
    str | None,
    typer.Option(
        "--features",
        help="Only these columns, separated by commas; default, all.",
        autocompletion=completions.columns_list,
    ),
]
Alpha = Annotated[
    float | None,
    typer.Option("--alpha", help="Strength of the penalty; default, chosen from the release."),
]


@app.command()
def correlation(
    file: ReleasePath,
    csv: Csv = False,
    as_json: Json = False,
    out: Out = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Print the private correlations with the error to expect of each."""
    from dpcov.releases import Release
    from dpcov.tables import print_correlations

    loaded = Release.load(file)
    if not _print_matrix(loaded, "correlation", file, csv, as_json, out, force, quiet):
        print_correlations(loaded)


@app.command()
def covariance(
    file: ReleasePath,
    csv: Csv = False,
    as_json: Json = False,
    out: Out = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Print means, standard deviations and covariances, in the units of the data."""
    from dpcov.analysis.moments import require_matrix
    from dpcov.releases import Release
    from dpcov.tables_analysis import print_covariance

    loaded = Release.load(file)
    require_matrix(loaded)
    if not _print_matrix(loaded, "covariance", file, csv, as_json, out, force, quiet):
        print_covariance(loaded)


@app.command()
def pca(
    file: ReleasePath,
    k: Annotated[int | None, typer.Option("-k", help="Number of components.")] = None,
    correlation: Annotated[
        bool, typer.Option("--correlation", help="Divide by standard deviations first.")
    ] = False,
    csv: Csv = False,
    as_json: Json = False,
) -> None:
    """Print principal components, and how many rise above the noise."""
    from dpcov.analysis.pca import pca as components
    from dpcov.releases import Release
    from dpcov.tables_analysis import print_components

    loaded = Release.load(file)
    limit = min(5, len(loaded.columns)) if k is None else k
    found = components(loaded, limit, correlation=correlation)
    if as_json:
        _print_json(loaded, found)
    else:
        print_components(loaded, found, as_csv=csv)


@app.command()
def ridge(
    file: ReleasePath,
    target: Target,
    alpha: Alpha = None,
    features: Features = None,
    penalty: Annotated[
        Literal["encoded", "standardized", "raw"],
        typer.Option(help="Units in which coefficients are penalised."),
    ] = "encoded",
    csv: Csv = False,
    as_json: Json = False,
) -> None:
    """Predict a column from others by ridge regression."""
    from dpcov.analysis.ridge import ridge as fit
    from dpcov.releases import Release
    from dpcov.tables_analysis import print_ridge

    loaded = Release.load(file)
    model = fit(loaded, target, alpha, _names(features), penalty=penalty)
    if as_json:
        _print_json(loaded, model)
    else:
        print_ridge(loaded, model, as_csv=csv)


@app.command()
def ols(
    file: ReleasePath,
    target: Target,
    features: Features = None,
    csv: Csv = False,
    as_json: Json = False,
) -> None:
    """Least squares with standard errors for sampling and privacy noise."""
    from dpcov.analysis.ols import ols as fit
    from dpcov.releases import Release
    from dpcov.tables_analysis import print_ols

    loaded = Release.load(file)
    found = fit(loaded, target, _names(features))
    if as_json:
        _print_json(loaded, found, target=target)
    else:
        print_ols(loaded, found, as_csv=csv)


@app.command()
def lda(
    file: ReleasePath,
    target: Annotated[
        str,
        typer.Option(
            "--target",
            help="Column of categories to predict.",
            autocompletion=completions.categories,
        ),
    ],
    alpha: Alpha = None,
    features: Features = None,
    csv: Csv = False,
    as_json: Json = False,
) -> None:
    """Tell the levels of a column apart by linear discriminant analysis."""
    from dpcov.analysis.discriminant import lda as fit
    from dpcov.releases import Release
    from dpcov.tables_analysis import print_lda

    loaded = Release.load(file)
    model = fit(loaded, target, alpha, _names(features))
    if as_json:
        _print_json(loaded, model)
    else:
        print_lda(loaded, model, as_csv=csv)


@app.command()
def precision(
    file: ReleasePath,
    alpha: Alpha = None,
    features: Features = None,
    in_covariance: Annotated[
        bool, typer.Option("--covariance", help="Penalise the covariance, not the correlations.")
    ] = False,
    stability: Annotated[
        int, typer.Option(help="Simulate so many releases for the stability of the edges.", min=0)
    ] = 0,
    csv: Annotated[bool, typer.Option("--csv", help="Print the precision matrix as CSV.")] = False,
    as_json: Json = False,
    out: Out = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Which columns are related given all the others (sparse inverse covariance)."""
    from dpcov.analysis.precision import precision as fit
    from dpcov.frames import matrix_table
    from dpcov.releases import Release
    from dpcov.tables_analysis import print_matrix_csv, print_precision

    loaded = Release.load(file)
    _check_output(out, file, force)
    names, relative = _names(features), not in_covariance
    found = fit(loaded, alpha, features=names, correlation=relative, draws=stability)
    if out is not None:
        _write(loaded, matrix_table(found.columns, found.precision), out, file, force, quiet)
    elif as_json:
        _print_json(loaded, found)
    elif csv:
        print_matrix_csv(loaded, found.columns, found.precision)
    else:
        print_precision(loaded, found)


@app.command()
def sample(
    file: ReleasePath,
    n: Annotated[int, typer.Option("-n", help="Number of rows.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="A .csv or .parquet file; default, print CSV.")
    ] = None,
    as_json: Json = False,
    seed: Annotated[int | None, typer.Option(help="For the same rows every time.")] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Draw synthetic rows with the means and covariance of a release."""
    from dpcov.analysis.synthetic import sample as draw
    from dpcov.documents import document
    from dpcov.exports import csv_text
    from dpcov.releases import Release
    from dpcov.tables_analysis import warn_in_csv

    loaded = Release.load(file)
    _check_output(out, file, force)
    rows = draw(loaded, n, seed)
    if out is not None:
        _write(loaded, rows, out, file, force, quiet)
    elif as_json:
        typer.echo(json.dumps(document(loaded, rows=rows.to_pylist())))
    else:
        warn_in_csv(loaded)
        typer.echo(csv_text(loaded, rows), nl=False)


def _print_matrix(
    release: Release,
    which: Literal["correlation", "covariance"],
    file: Path,
    csv: bool,
    as_json: bool,
    out: Path | None,
    force: bool,
    quiet: bool,
) -> bool:
    """Write or print a matrix of the release as asked; False if a table is wanted."""
    from dpcov.documents import document
    from dpcov.frames import matrix_table
    from dpcov.tables_analysis import print_matrix_csv

    _check_output(out, file, force)
    names, matrix = release.columns, getattr(release, which)()
    if out is not None:
        _write(release, matrix_table(names, matrix), out, file, force, quiet)
    elif as_json:
        facts = {"columns": names, "count": release.count(), "mean": release.mean(), which: matrix}
        typer.echo(json.dumps(document(release, **facts)))
    elif csv:
        print_matrix_csv(release, names, matrix)
    else:
        return False
    return True


def _print_json(release: Release, found: object, **facts: Any) -> None:
    from dpcov.documents import document, result

    typer.echo(json.dumps(document(release, **facts, **result(found))))


def _check_output(out: Path | None, file: Path, force: bool) -> None:
    from dpcov.exports import require_ending
    from dpcov.files import check_writable

    if out is not None:
        require_ending(out)
        check_writable(out, force=force, inputs=[file])


def _write(release: Release, table: Any, out: Path, file: Path, force: bool, quiet: bool) -> None:
    from dpcov.exports import write_table
    from dpcov.tables_analysis import warn_in_csv

    warn_in_csv(release)
    write_table(release, table, out, force=force, inputs=[file])
    say(f"{table.num_rows} rows written to {shown(out)}", quiet)


def _names(features: str | None) -> list[str] | None:
    return None if features is None else [name.strip() for name in features.split(",")]
