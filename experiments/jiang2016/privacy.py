"""Theorem 4 fails: an output that one input gives often and its neighbour never.

The mechanism releases A + W, W positive semidefinite. With a neighbour's matrix A', the event
{A + W - A' is not positive semidefinite} never happens under the neighbour. The formulas, and the
same attack on whole tables, are in `dpcov.papers.wishart`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

import seeds
from claims import Finding
from dpcov.core.privacy import Neighbors
from dpcov.papers.wishart import EPSILONS, ORDERS, add_remove_probability
from jiang2016.noise import Matrix, wishart
from plots import lines

SURE = 1e-6
AGREES = 1e-3
# `dpcov.papers.wishart.replace_one_probability`, whose quadrature takes seconds.
REPLACED = {0.01: 0.002122, 0.1: 0.021204, 0.5: 0.104753, 1.0: 0.204071, 4.0: 0.636566}


@dataclass(frozen=True)
class Frequency:
    """How often an output ruled out the neighbour's table."""

    neighbors: Neighbors
    epsilon: float
    hits: int
    runs: int
    formula: float
    hits_on_known: int

    @property
    def rate(self) -> float:
        return self.hits / self.runs

    @property
    def error(self) -> float:
        return math.sqrt(self.rate * (1 - self.rate) / self.runs)

    def lower(self) -> float:
        """Return the Clopper-Pearson lower limit, above the probability in 1 of 10^6 cases."""
        test = binomtest(self.hits, self.runs, alternative="greater")
        return float(test.proportion_ci(confidence_level=1 - SURE).low)

    def p_value(self) -> float:
        """Return the p-value of the formula."""
        return float(binomtest(self.hits, self.runs, self.formula).pvalue)


def change(neighbors: Neighbors, d: int) -> Matrix:
    """Return A' - A, where A' also has the row e1, or has e1 in place of e2."""
    found = np.zeros((d, d))
    found[0, 0] = 1.0
    if neighbors == Neighbors.REPLACE_ONE:
        found[1, 1] = -1.0
    return found


def frequencies(runs: int, generator: np.random.Generator) -> list[Frequency]:
    """Measure the attack at d = 2, 5 and 20; its success does not depend on the matrix or on d."""
    noise = {d: np.stack([wishart(d, generator) for _ in range(runs)]) for d in ORDERS}
    known = sum(_indefinite(draws) for draws in noise.values())
    found = []
    for neighbors in Neighbors:
        for epsilon in EPSILONS:
            hits = sum(
                _indefinite(draws / epsilon - change(neighbors, d)) for d, draws in noise.items()
            )
            formula = (
                add_remove_probability(epsilon)
                if neighbors == Neighbors.ADD_REMOVE
                else REPLACED[epsilon]
            )
            total = runs * len(ORDERS)
            found.append(Frequency(neighbors, epsilon, hits, total, formula, known))
    return found


def _indefinite(matrices: Matrix) -> int:
    return int(np.sum(np.linalg.eigvalsh(matrices)[:, 0] < 0))


def findings(small: bool, folder: Path) -> dict[str, Finding]:
    generator = seeds.generator(20160004)
    found = frequencies(3_000 if small else 20_000, generator)
    figure(found, folder)
    smallest = min(cell.p_value() for cell in found)
    agree = smallest * len(found) > AGREES
    text = "; ".join(
        f"{neighbors} "
        + ", ".join(
            f"{cell.rate:.4f} ± {cell.error:.4f} [{cell.formula:.4f}]"
            for cell in found
            if cell.neighbors == neighbors
        )
        for neighbors in Neighbors
    )
    return {
        "theorem4": Finding(
            f"frequency of outputs impossible under the neighbour at eps "
            f"{', '.join(f'{epsilon:g}' for epsilon in EPSILONS)}: {text}; the formulas in "
            f"brackets {'agree' if agree else 'DISAGREE'} (smallest of {len(found)} p-values "
            f"{smallest:.2g}); "
            f"on the neighbour itself {found[0].hits_on_known} times",
            found[0].hits_on_known > 0 or all(cell.lower() == 0 for cell in found),
            exact=agree,
        ),
        "psd": positive_semidefinite(small, generator),
    }


def positive_semidefinite(small: bool, generator: np.random.Generator) -> Finding:
    count = 500 if small else 5_000
    least = {
        d: min(
            float(np.linalg.eigvalsh(wishart(d, generator))[0]) for _ in range(max(20, count // d))
        )
        for d in (2, 20, 100)
    }
    return Finding(
        "least eigenvalue of the noise over all draws "
        + ", ".join(f"{value:.1e} (d = {d})" for d, value in least.items()),
        all(value > 0 for value in least.values()),
    )


def figure(found: list[Frequency], folder: Path) -> None:
    names = {
        Neighbors.ADD_REMOVE: "a unit row added",
        Neighbors.REPLACE_ONE: "a unit row replaced by an orthogonal one",
    }
    series, guides = {}, {}
    for neighbors, name in names.items():
        cells = [cell for cell in found if cell.neighbors == neighbors]
        series[name] = (
            [cell.epsilon for cell in cells],
            [cell.rate for cell in cells],
            [cell.error for cell in cells],
        )
        guides[f"formula, {neighbors}"] = (
            [cell.epsilon for cell in cells],
            [cell.formula for cell in cells],
        )
    lines(
        folder / "privacy_failure.svg",
        "Wishart mechanism: outputs that are impossible under the neighbour",
        ("eps claimed", "frequency: a lower bound on delta"),
        series,
        guides=guides,
    )
