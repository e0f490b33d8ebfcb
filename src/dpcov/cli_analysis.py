"""Commands that compute something from a release file, at no cost in privacy."""

from __future__ import annotations

import io
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpcov.errors import OutputError

if TYPE_CHECKING:
    import pyarrow as pa

app = typer.Typer()

ReleasePath = Annotated[Path, typer.Argument(metavar="RELEASE", help="A release file.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, in full.")]
Target = Annotated[
    str, typer.Option("--target", help="Column to predict; for a level of one, column=level.")
]
Features = Annotated[
    str | None,
    typer.Option("--features", help="Columns to predict from, separated by commas; default, all."),
]
Alpha = Annotated[
    float | None,
    typer.Option("--alpha", help="Strength of the penalty; default, chosen from the release."),
]


@app.command()
def pca(
    file: ReleasePath,
    k: Annotated[int | None, typer.Option("-k", help="Number of components.")] = None,
    correlation: Annotated[
        bool, typer.Option("--correlation", help="Divide by standard deviations first.")
    ] = False,
    csv: Csv = False,
) -> None:
    """Print principal components, and how many rise above the noise."""
    from dpcov.analysis.pca import pca as components
    from dpcov.releases import Release
    from dpcov.tables import print_components

    loaded = Release.load(file)
    limit = min(5, len(loaded.columns)) if k is None else k
    print_components(loaded, components(loaded, limit, correlation=correlation), as_csv=csv)


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
) -> None:
    """Predict a column from others by ridge regression."""
    from dpcov.analysis.ridge import ridge as fit
    from dpcov.releases import Release
    from dpcov.tables import print_ridge

    loaded = Release.load(file)
    model = fit(loaded, target, alpha, _names(features), penalty=penalty)
    print_ridge(loaded, model, as_csv=csv)


@app.command()
def ols(file: ReleasePath, target: Target, features: Features = None, csv: Csv = False) -> None:
    """Least squares with standard errors for sampling and privacy noise."""
    from dpcov.analysis.ols import ols as fit
    from dpcov.releases import Release
    from dpcov.tables import print_ols

    loaded = Release.load(file)
    print_ols(loaded, fit(loaded, target, _names(features)), as_csv=csv)


@app.command()
def lda(
    file: ReleasePath,
    target: Annotated[str, typer.Option("--target", help="Column of categories to predict.")],
    alpha: Alpha = None,
    features: Features = None,
    csv: Csv = False,
) -> None:
    """Tell the levels of a column apart by linear discriminant analysis."""
    from dpcov.analysis.discriminant import lda as fit
    from dpcov.releases import Release
    from dpcov.tables import print_lda

    loaded = Release.load(file)
    print_lda(loaded, fit(loaded, target, alpha, _names(features)), as_csv=csv)


@app.command()
def sample(
    file: ReleasePath,
    n: Annotated[int, typer.Option("-n", help="Number of rows.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="A .csv or .parquet file; default, print CSV.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="For the same rows every time.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output.")] = False,
) -> None:
    """Draw synthetic rows with the means and covariance of a release."""
    from dpcov.analysis.synthetic import sample as draw
    from dpcov.releases import Release, check_writable
    from dpcov.tables import warn_in_csv

    if out is not None and out.suffix.lower() not in (".csv", ".parquet"):
        raise OutputError(f"{str(out)!r} must end in .csv or .parquet.")
    loaded = Release.load(file)
    rows = draw(loaded, n, seed)
    warn_in_csv(loaded)
    if out is None:
        typer.echo(_csv(rows).decode(), nl=False)
        return
    check_writable(out, force=force, inputs=[file])
    _write(rows, out)
    typer.echo(f"{n} synthetic rows written to {out}")


def _csv(rows: pa.Table) -> bytes:
    from pyarrow.csv import write_csv

    buffer = io.BytesIO()
    write_csv(rows, buffer)
    return buffer.getvalue()


def _write(rows: pa.Table, path: Path) -> None:
    """Write beside `path`, and rename over it."""
    from pyarrow.parquet import write_table

    draft = path.with_name(f".dpcov-{secrets.token_hex(8)}")
    try:
        if path.suffix.lower() == ".csv":
            draft.write_bytes(_csv(rows))
        else:
            write_table(rows, draft)
        draft.replace(path)
    except OSError as error:
        raise OutputError(f"{str(path)!r} can't be written: {error.strerror}.") from None
    finally:
        draft.unlink(missing_ok=True)


def _names(features: str | None) -> list[str] | None:
    return None if features is None else [name.strip() for name in features.split(",")]
