"""What the command line prints of a release."""

from __future__ import annotations

import csv
import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dpcov.analysis.expected import expected_correlation_error
from dpcov.privacy import Unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.analysis.discriminant import LDA
    from dpcov.analysis.ols import OLS
    from dpcov.analysis.pca import PCA
    from dpcov.analysis.ridge import Ridge
    from dpcov.releases import Release

    Matrix = NDArray[np.float64]

WHOLE_TABLE = 15  # up to so many features all correlations are printed
STRONGEST = 20
WIDEST = 6  # components or classes side by side in a table
SEEDED = "NOT PRIVATE: made with a seed, for tests only."
NOTHING_SHOWS = (
    "No correlation rises above the noise: too few rows for this budget. "
    "A larger epsilon, more rows or fewer columns would help."
)
NO_LAW = (
    "The error to expect can't be simulated: this mechanism samples directions instead of adding "
    "noise of a known law."
)


def _console() -> Console:
    return Console(highlight=False, soft_wrap=False)


def _full_width(table: Table) -> int:
    """Columns that a table needs with no name folded."""
    return Console(width=10_000).measure(table).maximum


def _print_table(table: Table) -> None:
    """Print a table with no number cut: a pipe is wide enough, a terminal folds the names."""
    console = _console()
    if not console.is_terminal:
        console.width = max(console.width, _full_width(table))
    console.print(table, crop=False)


def print_mechanisms(listed: list[dict[str, Any]]) -> None:
    """Names, guarantees, and options with their defaults."""
    table = Table("mechanism", "what it releases, and its guarantee", "options", show_lines=True)
    for row in listed:
        options = "\n".join(f"{name}={value}" for name, value in row["options"].items())
        table.add_row(row["name"], row["what"], options)
    _console().print(table)


def print_summary(release: Release) -> None:
    """What a release is, what it guarantees and what it does not, and how accurate it is."""
    features = len(release.columns)
    not_protected = ["the schema (columns, bounds, levels)", "the budget", "the running time"]
    units = "rows" if release.guarantee.unit.column is None else "persons"
    size = {"rows": _private_count(release)}
    if release.unit_count is not None:
        size = {units: f"{release.unit_count} (public)"}
        not_protected.append(f"the number of {units}")
    facts = {
        "columns": f"{len(release.schema.encoded_columns)} ({features} features)",
        **size,
        "guarantee": f"{release.guarantee.budget}, {release.guarantee.neighbors.value}, "
        f"unit: {release.guarantee.unit}",
        "in words": release.guarantee_in_words(),
        "not protected": f"{', '.join(not_protected[:-1])} and {not_protected[-1]}",
        "mechanism": f"{release.mechanism}, denoised by {release.denoise}",
        "made by": ", ".join(release.provenance.values()),
    }
    if release.reproducible:
        facts |= {"guarantee": "none", "not protected": "everything"}
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, fact in facts.items():
        table.add_row(name, _plain(fact))
    _warn_if_seeded(release)
    _console().print(table)


def _private_count(release: Release) -> str:
    if not release.has_intercept:
        return "private, not released"
    about = f"about {release.count():.0f}"
    if release.noise is None:
        return f"{about} (private)"
    deviation = math.sqrt(release.noise.diagonal_variance)
    return f"{about} ± {deviation / release.lattice.intercept_units**2:.0f} (private: with noise)"


def _warn_if_seeded(release: Release) -> None:
    if release.reproducible:
        _console().print(SEEDED, style="bold red")


def print_correlations(release: Release) -> None:
    """Private correlations with the error to expect of each."""
    _warn_if_seeded(release)
    correlation = release.correlation()
    error = expected_correlation_error(release)
    if release.uninformative:
        print(NOTHING_SHOWS)
        return
    _print_triangle(release.columns, correlation)
    _print_pairs(release.columns, correlation, error, None)


def print_comparison(release: Release, truth: Matrix) -> None:
    """Private correlations beside the error to expect and non-private ones (public data only)."""
    correlation, error = release.correlation(), expected_correlation_error(release)
    _print_triangle(release.columns, correlation)
    _print_pairs(release.columns, correlation, error, truth)
    below = np.tril_indices(len(truth), -1)
    expected = "" if error is None else f"; to expect: {error[below].mean():.3f}"
    actual = np.abs(correlation - truth)[below].mean()
    print(f"Mean absolute error of the {len(below[0])} correlations: {actual:.3f}{expected}")


def print_accuracy(release: Release) -> None:
    """Typical error to expect of a correlation."""
    if not release.has_intercept or len(release.columns) == 1:
        return
    error = expected_correlation_error(release)
    if error is None:
        print(NOTHING_SHOWS if release.uninformative else NO_LAW)
        return
    below = error[np.tril_indices(len(error), -1)]
    print(
        "Error to expect of a correlation, from the privacy noise: "
        f"{below.mean():.3f} on average, {below.max():.3f} at worst"
    )


def print_csv(release: Release) -> None:
    """All private correlations as CSV with a header and row names; caveats go to stderr."""
    names, matrix = release.columns, release.correlation()
    if release.reproducible:
        print(SEEDED, file=sys.stderr)
    if release.uninformative:
        print(NOTHING_SHOWS, file=sys.stderr)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["", *names])
    writer.writerows(
        [name, *map(repr, row)] for name, row in zip(names, matrix.tolist(), strict=True)
    )


def _print_triangle(names: tuple[str, ...], correlation: Matrix) -> None:
    """All correlations as a triangle, where it fits; the pairs follow anyway."""
    if len(names) > WHOLE_TABLE:
        return
    table = Table(title="Private correlations", title_justify="left", box=None, padding=(0, 1))
    table.add_column("")
    for j in range(len(names) - 1):
        table.add_column(str(j + 1), justify="right")
    for i, name in enumerate(names):
        cells = [f"{correlation[i, j]:.2f}" for j in range(i)]
        table.add_row(f"{i + 1} {_plain(name)}", *cells)
    if not _console().is_terminal or _full_width(table) <= _console().width:
        _print_table(table)


def _print_pairs(
    names: tuple[str, ...], correlation: Matrix, error: Matrix | None, truth: Matrix | None
) -> None:
    rows, columns = np.tril_indices(len(names), -1)
    order = np.argsort(-np.abs(correlation[rows, columns]), kind="stable")
    whole = len(names) <= WHOLE_TABLE
    title = "Pairs, strongest first" if whole else f"The {STRONGEST} strongest pairs"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    heads = ["", "private", "error to expect"]
    heads += [] if truth is None else ["non-private", "difference"]
    for head in heads:
        table.add_column(head, justify="right" if head else "left", min_width=len(head))
    for at in order if whole else order[:STRONGEST]:
        i, j = rows[at], columns[at]
        cells = [f"{_plain(names[j])} - {_plain(names[i])}", f"{correlation[i, j]:.3f}"]
        cells.append("-" if error is None else f"± {error[i, j]:.3f}")
        if truth is not None:
            cells += [f"{truth[i, j]:.3f}", f"{correlation[i, j] - truth[i, j]:+.3f}"]
        table.add_row(*cells)
    _print_table(table)
    if not whole:
        print(f"{len(order) - STRONGEST} pairs more; --csv prints them all.")


def print_accounts(accounts: list[dict[str, Any]]) -> None:
    """Budget, spent and left of each data set of a ledger, and its releases."""
    console = _console()
    for account in accounts:
        table = Table(
            title=f"data set {_plain(account['dataset'])}", title_justify="left", box=None
        )
        for head in ("", "budget", "spent", "left"):
            table.add_column(head, justify="right" if head else "left")
        for name in account["budget"]:
            figures = (account[part].get(name, 0.0) for part in ("budget", "spent", "left"))
            table.add_row(name, *(f"{figure:.12g}" for figure in figures))
        console.print(table)
        unit = Unit(**account["unit"]) if account["unit"] else "set by the first release"
        console.print(f"neighbours: {account['neighbors']}; unit: {_plain(str(unit))}")
        for entry in account["releases"]:
            amount = ", ".join(f"{k} {v:.12g}" for k, v in entry["guarantee"]["budget"].items())
            console.print(_plain(f"  {entry['id']}  {entry['time']}  {entry['note']}  {amount}"))


def warn_in_csv(release: Release) -> None:
    """Say on stderr what the figures on stdout can't say."""
    if release.reproducible:
        print(SEEDED, file=sys.stderr)
    if release.noise is not None and release.uninformative:
        print(NOTHING_SHOWS, file=sys.stderr)


def _print_figures(heads: list[str], rows: list[tuple[str, list[float]]]) -> None:
    """A CSV table of numbers in full precision, each row with its name."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([name, *(repr(float(figure)) for figure in row)] for name, row in rows)


def _start(release: Release, title: str, heads: list[str]) -> Table:
    """An empty table of figures, after the caveats of the release."""
    _warn_if_seeded(release)
    if release.noise is not None and release.uninformative:
        print(NOTHING_SHOWS)
    table = Table(title=_plain(title), title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for head in heads:
        table.add_column(_plain(head), justify="right")
    return table


def print_components(release: Release, found: PCA, *, as_csv: bool) -> None:
    """Principal components: explained variance, then loadings, a column for each component."""
    count = len(found.components)
    heads = [f"PC{j + 1}" for j in range(count)]
    figures = [
        ("variance", found.explained_variance),
        ("share of variance", found.explained_variance_ratio),
    ]
    loadings = list(zip(found.columns, found.components.T, strict=True))
    if as_csv:
        warn_in_csv(release)
        rows = [(name, [*map(float, row)]) for name, row in [*figures, *loadings]]
        _print_figures(["", *heads], rows)
        return
    shown = min(count, WIDEST)
    table = _start(release, "Principal components", heads[:shown])
    for name, row in figures:
        table.add_row(name, *(f"{figure:.4g}" for figure in row[:shown]), end_section=True)
    for name, row in loadings:
        table.add_row(_plain(name), *(f"{figure:.3f}" for figure in row[:shown]))
    _print_table(table)
    if shown < count:
        print(f"{count - shown} components more; --csv prints them all.")
    if found.significant is None:
        print("Whether they rise above the noise is not known: its law can't be simulated.")
    else:
        p = len(found.columns)
        print(f"In {found.significant} of {p} dimensions they rise above the noise (5 % test).")


def print_ridge(release: Release, model: Ridge, *, as_csv: bool) -> None:
    """Coefficients of a ridge regression, strongest effect first where there are many."""
    rows = [("(intercept)", [model.intercept])]
    rows += [(n, [float(c)]) for n, c in zip(model.columns, model.coefficients, strict=True)]
    if as_csv:
        warn_in_csv(release)
        _print_figures(["", "coefficient"], rows)
        return
    table = _start(release, f"Ridge regression of {model.target}", ["coefficient"])
    for name, (figure,) in rows:
        table.add_row(_plain(name), f"{figure:.5g}")
    _print_table(table)
    print(f"alpha = {model.alpha:.4g} ({model.penalty}); R^2 = {model.r_squared:.3f}, as estimated")


def print_ols(release: Release, fit: OLS, *, as_csv: bool) -> None:
    """Coefficients of least squares with their errors and intervals."""
    if not as_csv:
        _warn_if_seeded(release)
        print("".join(c if c.isprintable() or c == "\n" else "?" for c in fit.summary()))
        return
    warn_in_csv(release)
    unknown = np.full(len(fit.names), math.nan)
    columns = {
        "coefficient": fit.coefficients,
        "std err": fit.standard_errors,
        "sampling": fit.sampling_errors,
        "privacy": unknown if fit.privacy_errors is None else fit.privacy_errors,
        "t": fit.t,
        "p": fit.p_values,
        "lower": fit.lower,
        "upper": fit.upper,
    }
    figures = np.column_stack(list(columns.values())).tolist()
    _print_figures(["", *columns], list(zip(fit.names, figures, strict=True)))


def print_lda(release: Release, model: LDA, *, as_csv: bool) -> None:
    """Shares and means of the classes; in CSV also the coefficients of their scores."""
    if as_csv:
        warn_in_csv(release)
        heads = [f"{part} {name}" for part in ("mean", "score") for name in model.classes]
        nothing = [math.nan] * len(model.classes)
        rows = [
            ("(share)", [*model.priors.tolist(), *nothing]),
            ("(intercept)", [*nothing, *model.intercepts.tolist()]),
        ]
        figures = np.vstack([model.means, model.coefficients]).T.tolist()
        _print_figures(["", *heads], [*rows, *zip(model.columns, figures, strict=True)])
        return
    shown = np.argsort(-model.priors, kind="stable")[:WIDEST]
    names = [model.classes[c] for c in shown]
    table = _start(release, f"Means in the classes of {model.target}", names)
    shares = [f"{model.priors[c]:.3f}" for c in shown]
    table.add_row("share of rows", *shares, end_section=True)
    for j, name in enumerate(model.columns):
        table.add_row(_plain(name), *(f"{model.means[c, j]:.4g}" for c in shown))
    _print_table(table)
    if len(shown) < len(model.classes):
        print(f"{len(model.classes) - len(shown)} rarer classes more; --csv prints them all.")
    print(f"alpha = {model.alpha:.4g}; --csv prints the coefficients of the scores.")


def _plain(text: str) -> str:
    """Text without rich markup or control characters."""
    from rich.markup import escape

    return escape("".join(c if c.isprintable() else "?" for c in text))
