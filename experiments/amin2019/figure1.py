"""Figure 1: errors of every method on every table and epsilon, as cells, table and charts."""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import plots
import seeds
from amin2019 import methods, published
from amin2019.tables import NAMES, seed_of, table
from faults import factor
from slopes import Mean

EPSILONS = (0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
SMALL_EPSILONS = (0.01, 0.5, 4.0)
REPEATS = 50
SLOW_REPEATS = 25  # of KT on adult
SIDE_REPEATS = 10  # on adult, for what the paper's figure does not show
SMALL_REPEATS = {"wine": 10, "airfoil": 10, "adult": 2}
ENTRIES = {entry.name: entry for entry in (*methods.ENTRIES, *published.ENTRIES)}
PANELS = {
    "1a": ("AD", "IT-U", "KT", "L", methods.OURS),
    "1b": ("G-16", "G-10", "G-3", "AD", methods.OURS),
    "1a-published": ("AD published", "IT-U published", "KT published", "L published"),
    "1b-published": ("G-16 published", "G-10 published", "G-3 published", "AD published"),
}


@dataclass(frozen=True)
class Cell:
    """Mean error ||C_hat - C||_F / n of one method on one table at one epsilon."""

    dataset: str
    d: int
    n: int
    epsilon: float
    method: str
    family: str
    pure: bool
    repeats: int
    error_mean: float
    error_se: float


class Figure:
    """All cells, by table, epsilon and method."""

    def __init__(self, cells: list[Cell]) -> None:
        self.cells = cells
        self._found = {(c.dataset, c.epsilon, c.method): c for c in cells}
        self.places = list(dict.fromkeys((c.dataset, c.epsilon) for c in cells))
        self.epsilons = sorted({c.epsilon for c in cells})

    def at(self, dataset: str, epsilon: float, method: str) -> Cell:
        return self._found[dataset, epsilon, method]

    def has(self, dataset: str, epsilon: float, method: str) -> bool:
        return (dataset, epsilon, method) in self._found

    def error(self, dataset: str, epsilon: float, method: str) -> float:
        return self.at(dataset, epsilon, method).error_mean


def measure(small: bool) -> Figure:
    """Measure every cell."""
    epsilons = SMALL_EPSILONS if small else EPSILONS
    cells = [
        _cell(name, epsilon, method, repeats(name, method, small))
        for name in NAMES
        for method in ENTRIES
        for epsilon in epsilons
        if table(name).d <= ENTRIES[method].up_to
    ]
    zeros = [_zero(name, epsilon) for name in NAMES for epsilon in epsilons]
    return Figure(sorted([*cells, *zeros], key=lambda c: (NAMES.index(c.dataset), c.epsilon)))


def repeats(name: str, method: str, small: bool) -> int:
    """Return the number of repeats of a cell."""
    if small:
        return SMALL_REPEATS[name]
    if name != "adult":
        return REPEATS
    if method == "KT":
        return SLOW_REPEATS
    return REPEATS if ENTRIES[method].family in ("paper", "classical", "ours") else SIDE_REPEATS


def _cell(name: str, epsilon: float, method: str, count: int) -> Cell:
    entry, held = ENTRIES[method], table(name)
    wrong = factor(method, held.d, held.n)
    mean = Mean.of(_errors(name, epsilon, method, count, (wrong, seeds.own(0))))
    return Cell(
        *(name, held.d, held.n, epsilon, method, entry.family, entry.pure, count),
        *(mean.value, mean.error),
    )


@cache
def _errors(name: str, epsilon: float, method: str, count: int, _: object) -> list[float]:
    """Return the errors of a cell under the current fault; other cells keep their draws."""
    entry, held = ENTRIES[method], table(name)
    drawn = (seed_of(name, epsilon, method, at) for at in range(count))
    return [held.error(entry.estimate(held, epsilon, seed)) for seed in drawn]


def _zero(name: str, epsilon: float) -> Cell:
    """Return the zero matrix, which needs no data."""
    held = table(name)
    return Cell(
        *(name, held.d, held.n, epsilon, "zero matrix", "reference", True, 1),
        *(held.error(0.0), 0.0),
    )


def write(figure: Figure, folder: Path) -> None:
    """Write errors.csv and a chart for each panel."""
    with (folder / "errors.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(asdict(figure.cells[0])))
        writer.writeheader()
        writer.writerows(asdict(cell) for cell in figure.cells)
    for panel, shown in PANELS.items():
        for name in NAMES:
            _chart(figure, folder / f"figure{panel}-{name}.svg", name, shown)


def _chart(figure: Figure, path: Path, name: str, shown: tuple[str, ...]) -> None:
    series = {}
    for method in shown:
        cells = [figure.at(name, epsilon, method) for epsilon in figure.epsilons]
        series[method] = (
            [cell.epsilon for cell in cells],
            [cell.error_mean for cell in cells],
            [cell.error_se for cell in cells],
        )
    held = table(name)
    zero = [figure.error(name, epsilon, "zero matrix") for epsilon in figure.epsilons]
    plots.lines(
        path,
        f"{name}: d = {held.d}, n = {held.n}",
        ("epsilon", "normalised error"),
        series,
        guides={"zero matrix": (figure.epsilons, zero)},
    )
