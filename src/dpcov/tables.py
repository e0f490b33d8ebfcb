"""What the command line prints of a release."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dpcov.analysis.expected import expected_correlation_error

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.releases import Release

    Matrix = NDArray[np.float64]

WHOLE_TABLE = 15  # up to so many features all correlations are printed
STRONGEST = 20


def _console() -> Console:
    return Console(highlight=False, soft_wrap=False)


def print_summary(release: Release) -> None:
    """What a release is, what it guarantees and what it does not, and how accurate it is."""
    console = _console()
    public = release.unit_count
    units = "rows" if release.guarantee.unit.column is None else "persons"
    count = f"{public} {units} (public)" if public is not None else _private_count(release)
    facts = {
        "columns": f"{len(release.schema.encoded_columns)} ({len(release.columns)} features)",
        "rows": count,
        "guarantee": f"{release.guarantee.budget}, {release.guarantee.neighbors.value}, "
        f"unit: {release.guarantee.unit}",
        "in words": release.guarantee_in_words(),
        "not protected": _not_protected(release),
        "mechanism": f"{release.mechanism}, denoised by {release.denoise}",
        "made by": ", ".join(release.provenance.values()),
    }
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, fact in facts.items():
        table.add_row(name, _plain(fact))
    if release.reproducible:
        console.print("NOT PRIVATE: made with a seed, for tests only.", style="bold red")
    console.print(table)


def _private_count(release: Release) -> str:
    if not release.has_intercept:
        return "private, not released"
    return f"about {release.count():.0f} (private: released with noise)"


def _not_protected(release: Release) -> str:
    shared = "the schema (columns, bounds, levels), the budget, and the running time"
    if release.unit_count is None:
        return shared
    units = "rows" if release.guarantee.unit.column is None else "persons"
    return f"{shared}, and the number of {units}"


def print_correlations(release: Release) -> None:
    """Private correlations with the error to expect of each."""
    correlation = release.correlation()
    error = expected_correlation_error(release)
    if len(correlation) <= WHOLE_TABLE:
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
    _console().print(
        f"Mean absolute error of the {len(below[0])} correlations: {actual:.3f}{expected}"
    )


def print_accuracy(release: Release) -> None:
    """Typical error to expect of a correlation."""
    if not release.has_intercept:
        return
    error = expected_correlation_error(release)
    if error is None:
        print("Accuracy: too few rows for this budget; only the trace was released.")
        return
    below = error[np.tril_indices(len(error), -1)]
    if below.size:
        print(
            "Error to expect of a correlation, from the privacy noise: "
            f"{below.mean():.3f} on average, {below.max():.3f} at worst"
        )


def print_csv(names: tuple[str, ...], matrix: Matrix) -> None:
    """A matrix as CSV with a header and row names."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["", *names])
    writer.writerows(
        [name, *map(repr, row)] for name, row in zip(names, matrix.tolist(), strict=True)
    )


def _print_triangle(names: tuple[str, ...], correlation: Matrix) -> None:
    table = Table(title="Private correlations", title_justify="left", box=None, padding=(0, 1))
    table.add_column("")
    for j in range(len(names) - 1):
        table.add_column(str(j + 1), justify="right")
    for i, name in enumerate(names):
        cells = [f"{correlation[i, j]:.2f}" for j in range(i)]
        table.add_row(f"{i + 1} {_plain(name)}", *cells)
    _console().print(table)


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
        table.add_column(head, justify="right" if head else "left")
    for at in order if whole else order[:STRONGEST]:
        i, j = rows[at], columns[at]
        cells = [f"{_plain(names[j])} - {_plain(names[i])}", f"{correlation[i, j]:.3f}"]
        cells.append("unknown" if error is None else f"± {error[i, j]:.3f}")
        if truth is not None:
            cells += [f"{truth[i, j]:.3f}", f"{correlation[i, j] - truth[i, j]:+.3f}"]
        table.add_row(*cells)
    _console().print(table)


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
        unit = account["unit"] or "fixed by the first release"
        console.print(f"neighbours: {account['neighbors']}; unit: {_plain(str(unit))}")
        for entry in account["releases"]:
            amount = ", ".join(f"{k} {v:.12g}" for k, v in entry["guarantee"]["budget"].items())
            console.print(_plain(f"  {entry['id']}  {entry['time']}  {entry['note']}  {amount}"))


def _plain(text: str) -> str:
    """Text without rich markup or control characters."""
    from rich.markup import escape

    return escape("".join(c if c.isprintable() else "?" for c in text))
