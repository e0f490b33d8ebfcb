"""Ridge regression of each column: one release against one private model for each target."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import plots
import seeds
from amin2019 import perturbation, ridge
from amin2019.figure1 import ENTRIES, EPSILONS, SMALL_EPSILONS
from amin2019.methods import OURS
from amin2019.tables import NAMES, Table, seed_of, table
from claims import Finding
from faults import factor
from slopes import Mean

ALPHAS = (0.001, 0.01, 0.1)
SHOWN_ALPHA = 0.01
DELTA = 1e-3
REPEATS = {"wine": 30, "airfoil": 30, "adult": 5}
RELEASES = ("AD", OURS)
Models = Callable[[Table, float, float, np.random.Generator], ridge.Matrix]


@dataclass(frozen=True)
class Cell:
    """Mean over repeats of the excess of J, summed over targets; best models 0, w = 0: 1."""

    dataset: str
    epsilon: float
    alpha: float
    method: str
    repeats: int
    excess: float
    excess_se: float


@dataclass(frozen=True)
class Lemma1:
    """Runs in which Lemma 1's bound was computed, and the largest error over it."""

    runs: int
    violations: int
    largest: float


def findings(small: bool, folder: Path) -> dict[str, Finding]:
    """Check Lemma 1, and compare AD and the default with perturbed outputs and objectives."""
    repeats = dict.fromkeys(NAMES, 2) if small else REPEATS
    cells, lemma = measure(SMALL_EPSILONS if small else EPSILONS, repeats)
    write(cells, folder)
    shared, _, gaussian, objective = BASELINES
    against = {(m, b): wins(cells, m, b) for m in RELEASES for b in BASELINES}
    places = len(cells) // (len(BASELINES) + len(RELEASES))

    def reported(method: str) -> str:
        counts = ", ".join(f"{b}: {len(against[method, b])}" for b in BASELINES)
        return f"{method} better on, of {places} cells (3 alphas), {counts}"

    return {
        "lemma-1": Finding(
            f"{lemma.violations} of {lemma.runs} regressions; largest error {lemma.largest:.3f} of "
            "the bound",
            lemma.violations == 0,
        ),
        "beats-output-perturbation": Finding(
            reported("AD"), len(against["AD", shared]) >= 0.9 * places
        ),
        "beats-gaussian-output-perturbation": Finding(
            f"AD better on {len(against['AD', gaussian])} of {places} cells",
            len(against["AD", gaussian]) == places,
        ),
        "default-beats-perturbation": Finding(
            reported(OURS),
            min(len(against[OURS, b]) for b in (shared, gaussian, objective)) >= 0.95 * places,
        ),
    }


def wins(cells: list[Cell], method: str, baseline: str) -> list[tuple[str, float, float]]:
    """Return the cells in which a method's excess is below the baseline's."""
    of = {(c.dataset, c.epsilon, c.alpha, c.method): c.excess for c in cells}
    places = dict.fromkeys((c.dataset, c.epsilon, c.alpha) for c in cells)
    return [place for place in places if of[*place, method] < of[*place, baseline]]


def _shared(
    held: Table, alpha: float, epsilon: float, generator: np.random.Generator
) -> ridge.Matrix:
    return perturbation.output_perturbation(held.moment, held.n, alpha, epsilon / held.d, generator)


def _whole(
    held: Table, alpha: float, epsilon: float, generator: np.random.Generator
) -> ridge.Matrix:
    return perturbation.output_perturbation(held.moment, held.n, alpha, epsilon, generator)


def _gaussian(
    held: Table, alpha: float, epsilon: float, generator: np.random.Generator
) -> ridge.Matrix:
    return perturbation.gaussian_output_perturbation(
        held.moment, held.n, alpha, (epsilon, DELTA), held.d, generator
    )


def _objective(
    held: Table, alpha: float, epsilon: float, generator: np.random.Generator
) -> ridge.Matrix:
    return perturbation.objective_perturbation(
        held.moment, held.n, alpha, epsilon / held.d, generator
    )


BASELINES: dict[str, Models] = {
    "output perturbation": _shared,
    "output perturbation, all of epsilon for one model": _whole,
    "output perturbation, Gaussian": _gaussian,
    "objective perturbation": _objective,
}


def measure(epsilons: tuple[float, ...], repeats: dict[str, int]) -> tuple[list[Cell], Lemma1]:
    """Measure every table, epsilon, alpha and method."""
    cells, ratios = [], []
    for name in NAMES:
        held = table(name)
        for epsilon in epsilons:
            for method in RELEASES:
                found, checked = _from_releases(held, epsilon, method, repeats[name])
                cells += found
                ratios += checked
            cells += [
                _alone(held, epsilon, alpha, method, repeats[name])
                for method in BASELINES
                for alpha in ALPHAS
            ]
    every = np.concatenate(ratios)
    return cells, Lemma1(every.size, int((every > 1 + 1e-9).sum()), float(every.max()))


def _from_releases(
    held: Table, epsilon: float, method: str, repeats: int
) -> tuple[list[Cell], list[ridge.Vector]]:
    """Measure all alphas and targets from the same releases."""
    excess: dict[float, list[float]] = {alpha: [] for alpha in ALPHAS}
    ratios = []
    for i in range(repeats):
        seed = seed_of("ridge", held.name, epsilon, method, i)
        estimate = ENTRIES[method].estimate(held, epsilon, seed)
        for alpha in ALPHAS:
            solved = ridge.weights(estimate, 2 * alpha * held.n)
            excess[alpha].append(ridge.relative_excess(held.moment, held.n, solved, alpha))
            ratios.append(ridge.lemma_1(held.moment, estimate, held.n, alpha))
    return [_cell(held, epsilon, alpha, method, excess[alpha]) for alpha in ALPHAS], ratios


def _alone(held: Table, epsilon: float, alpha: float, method: str, repeats: int) -> Cell:
    excess = []
    for i in range(repeats):
        generator = seeds.generator(seed_of("ridge", held.name, epsilon, alpha, method, i))
        spent = epsilon / factor(method, held.d, held.n)
        solved = BASELINES[method](held, alpha, spent, generator)
        excess.append(ridge.relative_excess(held.moment, held.n, solved, alpha))
    return _cell(held, epsilon, alpha, method, excess)


def _cell(held: Table, epsilon: float, alpha: float, method: str, excess: list[float]) -> Cell:
    mean = Mean.of(excess)
    return Cell(held.name, epsilon, alpha, method, len(excess), mean.value, mean.error)


def write(cells: list[Cell], folder: Path) -> None:
    """Write regression.csv and a chart for each table."""
    with (folder / "regression.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(asdict(cells[0])))
        writer.writeheader()
        writer.writerows(asdict(cell) for cell in cells)
    for name in NAMES:
        own = [cell for cell in cells if cell.dataset == name and cell.alpha == SHOWN_ALPHA]
        series = {
            method: (
                [cell.epsilon for cell in own if cell.method == method],
                [cell.excess for cell in own if cell.method == method],
                [cell.excess_se for cell in own if cell.method == method],
            )
            for method in dict.fromkeys(cell.method for cell in own)
        }
        title = f"{name}: ridge regression of each column, alpha = {SHOWN_ALPHA:g}"
        plots.lines(
            folder / f"regression-{name}.svg",
            title,
            ("epsilon", "excess of the objective (w = 0: 1)"),
            series,
        )
