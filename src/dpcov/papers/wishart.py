"""The Wishart mechanism is not differentially private: ``python -m dpcov.papers.wishart``.

Jiang, Xie and Zhang 2016 (Theorem 4) add W ~ Wishart_d(d + 1, c I), c = 3 / (2 epsilon), to the
second moment A of rows in the unit ball and claim epsilon-DP; others repeat it. Their ratio of
densities is right where both densities are positive. But A + W exceeds A, so an attacker who knows
a table with moment A' tests whether the release minus A' is positive semidefinite: always, if that
is the table; and sometimes not, if it is a neighbour. For a probability of 0 on one side,
epsilon-DP with any finite epsilon would need 0 on the other; delta must be at least the
probabilities below, whatever the order d and the number of rows.
"""

from __future__ import annotations

import argparse
import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

from dpcov.core.entropy import simulation_generator
from dpcov.core.installing import installing
from dpcov.core.privacy import Neighbors

if TYPE_CHECKING:
    from dpcov.core.arrays import Booleans, Matrix


EPSILONS = (0.01, 0.1, 0.5, 1.0, 4.0)
ORDERS = (2, 5, 20)
ROWS = 50
RUNS = 10_000
BATCH = 1000
TOLERANCE = 1e-9  # of the scale c; far more than rounding, far less than moves a probability


@dataclass(frozen=True, slots=True)
class Frequencies:
    """How often the attacker's test fires."""

    neighbors: Neighbors
    epsilon: float
    dimension: int
    formula: float
    on_neighbour: float
    on_known_table: float


def scale(epsilon: float) -> float:
    """Scale c that the paper claims to give epsilon-DP."""
    return 3 / (2 * epsilon)


def add_remove_probability(epsilon: float) -> float:
    """P(A + W - A' is not PSD) for A' = A + vv', |v| = 1: 1 - exp(-epsilon / 3).

    W - vv' is not PSD where v'W^-1 v > 1, and 1 / v'W^-1 v ~ c chi^2 with 2 degrees of freedom.
    """
    return -math.expm1(-1 / (2 * scale(epsilon)))


@cache
def replace_one_probability(epsilon: float) -> float:
    """P(A + W - A' is not PSD) for A' = A - uu' + vv', u and v orthonormal.

    W + uu' - vv' is not PSD where b^2 + (a + 1)(g - 1) < 0, a ~ c chi^2_3, g ~ c chi^2_2 and
    b ~ N(0, c); integrated over g in closed form, over a and b by quadrature.
    """
    from scipy import integrate

    c = scale(epsilon)

    def integrand(b: float, a: float) -> float:
        fires = -math.expm1(-(1 - b * b / (a + 1)) / (2 * c))
        return fires * math.sqrt(a) * math.exp(-(a + b * b) / (2 * c)) / (2 * math.pi * c**2)

    value, _ = integrate.dblquad(
        integrand, 0, 60 * c, lambda a: -math.sqrt(a + 1), lambda a: math.sqrt(a + 1)
    )
    return float(value)


def simulate(
    neighbors: Neighbors, epsilon: float, dimension: int, runs: int, generator: np.random.Generator
) -> Frequencies:
    """Run the mechanism on a random table and its neighbour, and the attacker's test on both."""
    table = generator.standard_normal((ROWS, dimension))
    table /= np.maximum(1, np.linalg.norm(table, axis=1))[:, None]
    frame = np.linalg.qr(generator.standard_normal((dimension, dimension)))[0]
    added, removed = frame[0], frame[-1]
    moment = table.T @ table + np.outer(removed, removed)
    known = moment + np.outer(added, added)
    if neighbors == Neighbors.REPLACE_ONE:
        known -= np.outer(removed, removed)
    fires = [
        sum(
            int(_fires(_released(truth, epsilon, size, generator) - known, epsilon).sum())
            for size in _sizes(runs)
        )
        for truth in (moment, known)
    ]
    probability = (
        replace_one_probability if neighbors == Neighbors.REPLACE_ONE else add_remove_probability
    )
    return Frequencies(
        neighbors, epsilon, dimension, probability(epsilon), fires[0] / runs, fires[1] / runs
    )


def _sizes(runs: int) -> list[int]:
    return [min(BATCH, runs - at) for at in range(0, runs, BATCH)]


def _released(moment: Matrix, epsilon: float, count: int, generator: np.random.Generator) -> Matrix:
    """(count, d, d) outputs of the mechanism."""
    d = len(moment)
    factors = generator.standard_normal((count, d, d + 1))
    return moment + scale(epsilon) * (factors @ factors.swapaxes(1, 2))


def _fires(differences: Matrix, epsilon: float) -> Booleans:
    """Whether each matrix is surely not positive semidefinite."""
    return np.linalg.eigvalsh(differences)[:, 0] < -TOLERANCE * scale(epsilon)


def print_table(found: Sequence[Frequencies]) -> None:
    """The frequencies beside the formula."""
    table = Table(title="The Wishart mechanism: how often its output rules out a table")
    for name in ("neighbours", "epsilon", "d", "formula", "on the neighbour", "on that table"):
        table.add_column(name, justify="right")
    for row in found:
        table.add_row(
            row.neighbors.value,
            f"{row.epsilon:g}",
            str(row.dimension),
            f"{row.formula:.4f}",
            f"{row.on_neighbour:.4f}",
            f"{row.on_known_table:.4f}",
        )
    Console().print(table)


def draw(found: Sequence[Frequencies], path: Path) -> None:
    """Write the figure as SVG."""
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(6, 4))
    axes = figure.subplots()
    for color, neighbors in zip(("C0", "C1"), Neighbors, strict=True):
        rows = [row for row in found if row.neighbors is neighbors]
        line = sorted({(row.epsilon, row.formula) for row in rows})
        axes.plot(*zip(*line, strict=True), color=color, label=f"{neighbors.value}: formula")
        axes.plot(
            [row.epsilon for row in rows],
            [row.on_neighbour for row in rows],
            "o",
            color=color,
            fillstyle="none",
            label=f"{neighbors.value}: simulated",
        )
    axes.axhline(0, color="black", label="on the table itself: never")
    axes.set(xscale="log", xlabel="claimed epsilon", ylabel="probability that a table is ruled out")
    axes.legend()
    figure.savefig(path, format="svg", metadata={"Date": None})


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table; with --figure, draw it."""
    parser = argparse.ArgumentParser(
        prog="python -m dpcov.papers.wishart",
        description="Shows that the Wishart mechanism is not differentially private.",
    )
    parser.add_argument("--runs", type=int, default=RUNS, help="simulations of each case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figure", type=Path, help="SVG to write; needs matplotlib")
    asked = parser.parse_args(arguments)
    if asked.figure is not None and not _has_matplotlib():
        parser.error(f"--figure needs matplotlib: {installing('matplotlib')}")
    generator = simulation_generator(asked.seed)
    found = [
        simulate(neighbors, epsilon, dimension, asked.runs, generator)
        for neighbors in Neighbors
        for epsilon in EPSILONS
        for dimension in ORDERS
    ]
    print_table(found)
    if asked.figure is not None:
        draw(found, asked.figure)


def _has_matplotlib() -> bool:
    try:
        importlib.import_module("matplotlib")
    except ImportError:
        return False
    return True


if __name__ == "__main__":
    main()
