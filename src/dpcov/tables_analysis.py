"""What the command line prints of analyses of a release."""

from __future__ import annotations

import csv
import math
import sys
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from dpcov.analysis.drowned import drowned
from dpcov.printable import harmless, printable
from dpcov.releases import SEEDED
from dpcov.tables import (
    NOTHING_SHOWS,
    STRONGEST,
    narrower_than,
    plain,
    print_table,
    print_triangle,
    warn_if_seeded,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpcov.analysis.discriminant import LDA
    from dpcov.analysis.ols import OLS
    from dpcov.analysis.pca import PCA
    from dpcov.analysis.precision import SparsePrecision
    from dpcov.analysis.ridge import Ridge
    from dpcov.releases import Release

    Matrix = NDArray[np.float64]

WIDEST = 6  # components or classes side by side in a table
LONGEST = 30  # features below each other; of more, the STRONGEST are shown


def warn_in_csv(release: Release) -> None:
    """Say on stderr what the figures on stdout can't say."""
    if release.reproducible:
        print(SEEDED, file=sys.stderr)
    if _nothing_shows(release):
        print(NOTHING_SHOWS, file=sys.stderr)


def _nothing_shows(release: Release) -> bool:
    """Whether it is for the noise that all correlations are 0."""
    return release.uninformative and (release.noise is not None or release.published is None)


def print_matrix_csv(release: Release, names: Sequence[str], matrix: Matrix) -> None:
    """A named matrix as CSV in full precision; caveats go to stderr."""
    _print_figures(release, ["", *names], list(zip(names, matrix.tolist(), strict=True)))


def print_covariance(release: Release) -> None:
    """Means and standard deviations, and the covariances with the correlations they stand for."""
    covariance, means = release.covariance(), release.mean()
    correlation = release.correlation()
    names, deviations = release.columns, np.sqrt(np.diag(covariance))
    table = _start(release, "Means and standard deviations", ["mean", "standard deviation"])
    for name, mean, deviation in zip(names, means, deviations, strict=True):
        table.add_row(plain(name), f"{mean:.5g}", f"{deviation:.4g}")
    print_table(table)
    for sentence in drowned(release):
        print(sentence)
    if print_triangle("Private covariances", names, covariance, "{:.4g}", diagonal=True):
        return
    rows, columns = np.tril_indices(len(names), -1)
    order = np.argsort(-np.abs(correlation[rows, columns]), kind="stable")[:STRONGEST]
    heads = ["covariance", "correlation"]
    whole = len(order) == len(rows)
    title = "Pairs, strongest first" if whole else f"The {STRONGEST} strongest pairs"
    strongest = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for head in ("", *heads):
        strongest.add_column(head, justify="right" if head else "left")
    for at in order:
        i, j = rows[at], columns[at]
        pair = f"{plain(names[j])} - {plain(names[i])}"
        strongest.add_row(pair, f"{covariance[i, j]:.4g}", f"{correlation[i, j]:.3f}")
    print_table(strongest)
    _say_what_is_left_out(len(rows) - len(order), "pairs")


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
        rows = [(name, [*map(float, row)]) for name, row in [*figures, *loadings]]
        _print_figures(release, ["", *heads], rows)
        return
    shown = min(count, WIDEST)
    table = _start(release, "Principal components", heads[:shown])
    for name, row in figures:
        table.add_row(name, *(f"{figure:.4g}" for figure in row[:shown]), end_section=True)
    sizes = np.abs(found.components[:shown]).max(axis=0)
    strong = _strongest(sizes)
    for name, row in (loadings[j] for j in strong):
        table.add_row(plain(name), *(f"{figure:.3f}" for figure in row[:shown]))
    print_table(table)
    _say_what_is_left_out(len(loadings) - len(strong), "features with small loadings")
    _say_what_is_left_out(count - shown, "components")
    if found.significant is None:
        print("Whether they rise above the noise is not known: its law can't be simulated.")
    else:
        p = len(found.columns)
        print(f"In {found.significant} of {p} dimensions they rise above the noise (5 % test).")


def print_ridge(release: Release, model: Ridge, *, as_csv: bool) -> None:
    """Coefficients of a ridge regression; where there are many, those with the largest effects.

    The effect is that of a standard deviation of the feature.
    """
    if as_csv:
        rows = [("(intercept)", [model.intercept])]
        rows += [(n, [float(c)]) for n, c in zip(model.columns, model.coefficients, strict=True)]
        _print_figures(release, ["", "coefficient"], rows)
        return
    deviations = dict(zip(release.columns, np.sqrt(np.diag(release.covariance())), strict=True))
    effects = model.coefficients * [deviations[name] for name in model.columns]
    heads = ["coefficient", "effect of 1 std"]
    table = _start(release, f"Ridge regression of {model.target}", heads)
    table.add_row("(intercept)", f"{model.intercept:.5g}", "")
    strong = _strongest(np.abs(effects))
    for j in strong:
        table.add_row(plain(model.columns[j]), f"{model.coefficients[j]:.5g}", f"{effects[j]:.3g}")
    print_table(table)
    _say_what_is_left_out(len(effects) - len(strong), "features with small effects")
    print(f"alpha = {model.alpha:.4g} ({model.penalty}); R^2 = {model.r_squared:.3f}, as estimated")


def print_ols(release: Release, fit: OLS, *, as_csv: bool) -> None:
    """Coefficients of least squares with their errors and intervals."""
    if not as_csv:
        warn_if_seeded(release)
        summary = printable(fit.summary(), kept="\n")
        lines = summary.split("\n")
        rules = [at for at, line in enumerate(lines) if line and not line.strip("-")]
        if not narrower_than(len(lines[rules[0]])):
            print(summary)
            return
        print("\n".join(lines[: rules[0]]))
        _print_ols_in_parts(fit)
        print("\n".join(lines[rules[-1] + 1 :]))
        return
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
    _print_figures(release, ["", *columns], list(zip(fit.names, figures, strict=True)))


def _print_ols_in_parts(fit: OLS) -> None:
    """The figures of least squares below each other, for a narrow terminal."""
    privacy = (
        np.full(len(fit.names), math.nan) if fit.privacy_errors is None else fit.privacy_errors
    )
    tail = (1 - fit.level) / 2
    parts: list[dict[str, tuple[Matrix, str]]] = [
        {
            "coef": (fit.coefficients, ".5g"),
            "std err": (fit.standard_errors, ".4g"),
            "sampling": (fit.sampling_errors, ".4g"),
            "privacy": (privacy, ".4g"),
        },
        {
            "t": (fit.t, ".2f"),
            "P>|t|": (fit.p_values, ".3f"),
            f"[{tail:.3g}": (fit.lower, ".5g"),
            f"{1 - tail:.3g}]": (fit.upper, ".5g"),
        },
    ]
    for part in parts:
        table = Table(box=None, padding=(0, 2, 0, 0))
        table.add_column("")
        for head in part:
            table.add_column(plain(head), justify="right")
        for j, name in enumerate(fit.names):
            cells = [format(figures[j], form) for figures, form in part.values()]
            table.add_row(plain(name), *(cell.replace("nan", "-") for cell in cells))
        print_table(table)


def print_lda(release: Release, model: LDA, *, as_csv: bool) -> None:
    """Shares and means of the classes; in CSV also the coefficients of their scores."""
    if as_csv:
        heads = [f"{part} {name}" for part in ("mean", "score") for name in model.classes]
        nothing = [math.nan] * len(model.classes)
        rows = [
            ("(share)", [*model.priors.tolist(), *nothing]),
            ("(intercept)", [*nothing, *model.intercepts.tolist()]),
        ]
        figures = np.vstack([model.means, model.coefficients]).T.tolist()
        _print_figures(release, ["", *heads], [*rows, *zip(model.columns, figures, strict=True)])
        return
    shown = np.argsort(-model.priors, kind="stable")[:WIDEST]
    names = [model.classes[c] for c in shown]
    table = _start(release, f"Means in the classes of {model.target}", names)
    shares = [f"{model.priors[c]:.3f}" for c in shown]
    table.add_row("share of rows", *shares, end_section=True)
    deviations = dict(zip(release.columns, np.sqrt(np.diag(release.covariance())), strict=True))
    spreads = np.maximum([deviations[name] for name in model.columns], sys.float_info.min)
    strong = _strongest(np.ptp(model.means[shown], axis=0) / spreads)
    for j in strong:
        table.add_row(plain(model.columns[j]), *(f"{model.means[c, j]:.4g}" for c in shown))
    print_table(table)
    _say_what_is_left_out(len(model.columns) - len(strong), "features that differ less")
    _say_what_is_left_out(len(model.classes) - len(shown), "rarer classes")
    print(f"alpha = {model.alpha:.4g}; --csv prints the coefficients of the scores.")


def print_precision(release: Release, found: SparsePrecision) -> None:
    """The pairs of features that are related given all the others, strongest first."""
    edges, p = found.edges, len(found.columns)
    heads = ["partial correlation", *([] if found.shares is None else ["stability"])]
    table = _start(release, "Related given all other features", heads)
    for edge in edges[:LONGEST]:
        stable = [] if edge.stability is None else [f"{edge.stability:.0%}"]
        pair = f"{plain(edge.first)} - {plain(edge.second)}"
        table.add_row(pair, f"{edge.partial_correlation:+.3f}", *stable)
    if edges:
        print_table(table)
    _say_what_is_left_out(len(edges) - LONGEST, "pairs")
    print(
        f"{len(edges)} of {p * (p - 1) // 2} pairs are related given all other features "
        f"(alpha = {found.alpha:.3g})."
    )
    if found.left_out:
        hidden = ", ".join(map(plain, found.left_out))
        print(f"Left out, since their variance does not rise clearly above the noise: {hidden}.")


def _strongest(sizes: Matrix) -> list[int]:
    """All positions in order, or those of the largest sizes where there are many."""
    if len(sizes) <= LONGEST:
        return list(range(len(sizes)))
    return [int(j) for j in np.argsort(-sizes, kind="stable")[:STRONGEST]]


def _say_what_is_left_out(count: int, what: str) -> None:
    if count > 0:
        print(f"{count} {what} more; --csv prints them all.")


def _print_figures(release: Release, heads: list[str], rows: list[tuple[str, list[float]]]) -> None:
    """A CSV table of numbers in full precision, each row with its name; caveats go to stderr too.

    Of a release that protects nobody the table says so itself, as it does in a file.
    """
    warn_in_csv(release)
    if release.reproducible:
        print(f"# {SEEDED}")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(harmless, heads))
    writer.writerows([harmless(name), *(repr(float(x)) for x in figures)] for name, figures in rows)


def _start(release: Release, title: str, heads: list[str]) -> Table:
    """An empty table of figures, after the caveats of the release."""
    warn_if_seeded(release)
    if _nothing_shows(release):
        print(NOTHING_SHOWS)
    table = Table(title=plain(title), title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for head in heads:
        table.add_column(plain(head), justify="right")
    return table
