"""What the command line prints of a release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dpcov.analysis.drowned import deviations, drowned
from dpcov.analysis.expected import expected_correlation_error
from dpcov.printable import printable
from dpcov.privacy import Unit
from dpcov.releases import SEEDED, VOID

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.releases import Release

    Matrix = NDArray[np.float64]

WHOLE_TABLE = 15  # up to so many features all correlations are printed
STRONGEST = 20
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


def narrower_than(columns: int) -> bool:
    """Whether output goes to a terminal with fewer columns; a pipe has any number."""
    console = _console()
    return console.is_terminal and console.width < columns


def print_table(table: Table) -> None:
    """Print a table with nothing cut: a pipe is wide enough, a terminal folds the names."""
    console = _console()
    if not console.is_terminal:
        console.width = max(console.width, _full_width(table))
    elif _full_width(table) > console.width:
        _fold(table, console.width)
    console.print(table, crop=False)


def _fold(table: Table, width: int) -> None:
    """Fold names, never numbers: those of the first column first, then the heads of figures."""
    wide = Console(width=10_000)
    names, *figures = table.columns
    for column in table.columns:
        column.overflow = "fold"
    if table.box is not None:
        return
    for spacing, whole_words in ((2, True), (1, True), (1, False)):
        table.padding = (0, spacing, 0, 0)
        for column in figures:
            cells = [wide.measure(cell).maximum for cell in column.cells]
            column.min_width = max([1, *cells])
            if whole_words:
                column.min_width = max(column.min_width, wide.measure(column.header).minimum)
            column.max_width = column.min_width
        left = width - sum((column.min_width or 0) + spacing for column in figures) - spacing
        if left >= wide.measure(names.header).minimum + 8 * (spacing == 2):
            break
    names.max_width = max(8, left)
    names.min_width = None


def print_mechanisms(listed: list[dict[str, Any]]) -> None:
    """Names, guarantees, and options with their defaults."""
    table = Table("mechanism", "what it releases, and its guarantee", "options", show_lines=True)
    for row in listed:
        options = "\n".join(f"{name}={value}" for name, value in row["options"].items())
        table.add_row(row["name"], row["what"], options)
    for column in table.columns:
        column.overflow = "fold"
    _console().print(table)


def print_summary(release: Release) -> None:
    """What a release is, what it guarantees and what it does not, and how accurate it is."""
    features = len(release.columns)
    units = "rows" if release.guarantee.unit.column is None else "persons"
    size = {"rows": _private_count(release)}
    if release.unit_count is not None:
        size = {units: f"{release.unit_count} (public)"}
    if release.schema.weight is not None and release.has_intercept:
        total, times = release.total_weight(), release.count()
        weighed = {"sum of weights": f"about {total:.6g}, {times:.0f} times the largest (private)"}
        size = weighed if release.unit_count is None else size | weighed
    stated, group = release.guarantee, {}
    if release.group is not None:
        stated = release.group.together
        group = {"group": f"the rows with {release.group.column} = {release.group.level}"}
    facts = {
        **group,
        "columns": f"{len(release.schema.encoded_columns)} ({features} features)",
        **size,
        "guarantee": f"{stated.budget}, {stated.neighbors.value}, unit: {stated.unit}",
        "in words": release.guarantee_in_words(),
        "not protected": release.not_protected(),
        "mechanism": f"{release.mechanism}, denoised by {release.denoise}",
        "made by": release.made_by(),
    }
    if release.reproducible:
        facts |= {"guarantee": "none", "not protected": "everything"}
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, fact in facts.items():
        table.add_row(name, plain(fact))
    warn_if_seeded(release)
    if release.may_be_void:
        _console().print(VOID, style="bold red")
    _console().print(table)


def _private_count(release: Release) -> str:
    if not release.has_intercept:
        return "private, not released"
    about = f"about {release.count():.0f}"
    if release.noise is None:
        return f"{about} (private)"
    return f"{about} ± {deviations(release)[0]:.0f} (private: with noise)"


def warn_if_seeded(release: Release, *, error: bool = False) -> None:
    """Say so if the release protects nobody; with `error`, on stderr."""
    if release.reproducible:
        Console(highlight=False, stderr=error).print(SEEDED, style="bold red")


def print_correlations(release: Release) -> None:
    """Private correlations with the error to expect of each."""
    warn_if_seeded(release)
    correlation = release.correlation()
    error = expected_correlation_error(release)
    if release.uninformative:
        print(NOTHING_SHOWS)
        return
    print_triangle("Private correlations", release.columns, correlation)
    _print_pairs(release.columns, correlation, error, None)


def print_comparison(release: Release, truth: Matrix) -> None:
    """Private correlations beside the error to expect and non-private ones (public data only)."""
    correlation, error = release.correlation(), expected_correlation_error(release)
    print_triangle("Private correlations", release.columns, correlation)
    _print_pairs(release.columns, correlation, error, truth)
    below = np.tril_indices(len(truth), -1)
    expected = "" if error is None else f"; to expect: {error[below].mean():.3f}"
    actual = np.abs(correlation - truth)[below].mean()
    print(f"Mean absolute error of the {len(below[0])} correlations: {actual:.3f}{expected}")


def print_accuracy(release: Release) -> None:
    """What the noise drowns, and the typical error to expect of a correlation."""
    for sentence in drowned(release):
        print(sentence)
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


def print_triangle(
    title: str,
    names: tuple[str, ...],
    matrix: Matrix,
    form: str = "{:.2f}",
    *,
    diagonal: bool = False,
) -> bool:
    """All entries of a symmetric matrix as a triangle; False, and nothing, where it doesn't fit."""
    if len(names) > WHOLE_TABLE:
        return False
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1))
    table.add_column("")
    for j in range(len(names) - 1 + diagonal):
        table.add_column(str(j + 1), justify="right")
    for i, name in enumerate(names):
        cells = [form.format(matrix[i, j]) for j in range(i + diagonal)]
        table.add_row(f"{i + 1} {plain(name)}", *cells)
    if narrower_than(_full_width(table)):
        return False
    print_table(table)
    return True


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
        cells = [f"{plain(names[j])} - {plain(names[i])}", f"{correlation[i, j]:.3f}"]
        cells.append("-" if error is None else f"± {error[i, j]:.3f}")
        if truth is not None:
            cells += [f"{truth[i, j]:.3f}", f"{correlation[i, j] - truth[i, j]:+.3f}"]
        table.add_row(*cells)
    print_table(table)
    if not whole:
        print(f"{len(order) - STRONGEST} pairs more; --csv prints them all.")


def print_accounts(accounts: list[dict[str, Any]]) -> None:
    """Budget, spent and left of each data set of a ledger, and its releases."""
    console = _console()
    for account in accounts:
        table = Table(title=f"data set {plain(account['dataset'])}", title_justify="left", box=None)
        for head in ("", "budget", "spent", "left"):
            table.add_column(head, justify="right" if head else "left")
        for name in account["budget"]:
            figures = (account[part].get(name, 0.0) for part in ("budget", "spent", "left"))
            table.add_row(name, *(f"{figure:.12g}" for figure in figures))
        console.print(table)
        unit = Unit(**account["unit"]) if account["unit"] else "set by the first release"
        console.print(f"neighbours: {account['neighbors']}; unit: {plain(str(unit))}")
        for entry in account["releases"]:
            amount = ", ".join(f"{k} {v:.12g}" for k, v in entry["guarantee"]["budget"].items())
            console.print(plain(f"  {entry['id']}  {entry['time']}  {entry['note']}  {amount}"))


def plain(text: str) -> str:
    """Text without rich markup or control characters."""
    from rich.markup import escape

    return escape(printable(text))
