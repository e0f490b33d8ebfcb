"""Demonstration that the Wishart mechanism is not differentially private.

Run the demonstration with ``python -m dpcov.papers.wishart``.

Jiang, Xie and Zhang 2016 (Theorem 4) add a Wishart matrix to the second moment A of rows in the
unit ball. The Wishart matrix is ``W ~ Wishart_d(d + 1, c I)`` with ``c = 3 / (2 epsilon)``. The
authors claim epsilon-DP, and other papers repeat the claim. Their density ratio is correct only
where both densities are positive.

The noisy matrix ``A + W`` always exceeds A. An attacker who knows a table with the second moment A'
can therefore test whether the release minus A' is positive semidefinite. For the known table, the
answer is always yes. For a neighbouring table, the answer is sometimes no.

With epsilon-DP, an event that is impossible for one table is impossible for its neighbours. No
finite epsilon is therefore correct. Delta must be at least the probabilities below, for any order d
and any number of rows.
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


# Values of the claimed epsilon.
EPSILONS = (0.01, 0.1, 0.5, 1.0, 4.0)
# Orders d of the simulated matrices.
ORDERS = (2, 5, 20)
# Number of rows of the simulated tables.
TABLE_ROWS = 50
# Number of simulations of each case.
DEFAULT_RUNS = 10_000
# Number of simulations at once.
RUNS_PER_BATCH = 1000
# Tolerance for a negative eigenvalue, in units of the scale c. The tolerance is far larger than
# rounding errors and too small to change a probability.
EIGENVALUE_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Frequencies:
    """Relative frequencies with which the attacker's test rules out a table."""

    neighbors: Neighbors
    epsilon: float
    dimension: int
    formula: float
    on_neighbour: float
    on_known_table: float


def scale(epsilon: float) -> float:
    """Return the scale c for which the paper claims epsilon-DP."""
    return 3 / (2 * epsilon)


def add_remove_probability(epsilon: float) -> float:
    """Return the probability that the test rules out a table with one more row.

    The second moments differ by ``v v'`` with a unit vector v. The probability is
    ``1 - exp(-epsilon / 3)``. The matrix ``W - v v'`` is not positive semidefinite if
    ``v' W^-1 v > 1``. The number ``1 / (v' W^-1 v)`` has the distribution ``c chi^2`` with 2
    degrees of freedom.
    """
    return -math.expm1(-1 / (2 * scale(epsilon)))


@cache
def replace_one_probability(epsilon: float) -> float:
    """Return the probability that the test rules out a table with one replaced row.

    The second moments differ by ``-u u' + v v'`` with orthonormal vectors u and v. The matrix
    ``W + u u' - v v'`` is not positive semidefinite if ``b^2 + (a + 1)(g - 1) < 0``. The
    independent numbers have these distributions: ``a ~ c chi^2_3``, ``g ~ c chi^2_2`` and
    ``b ~ N(0, c)``. The integral over g has a closed form. The integral over a and b is numerical.
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
    """Run the mechanism on a random table and a neighbour, with the attacker's test on both.

    Parameters
    ----------
    neighbors : Neighbors
        Relation between the tables.

    epsilon : float
        Claimed epsilon.

    dimension : int
        Order d of the matrices.

    runs : int
        Number of simulations.

    generator : numpy.random.Generator
        Source of random numbers.

    Returns
    -------
    Frequencies
        Frequencies of both tables, with the probability from the formula.

    """
    table = generator.standard_normal((TABLE_ROWS, dimension))
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
    return [min(RUNS_PER_BATCH, runs - at) for at in range(0, runs, RUNS_PER_BATCH)]


def _released(moment: Matrix, epsilon: float, count: int, generator: np.random.Generator) -> Matrix:
    """Simulate outputs of the mechanism, of shape (count, d, d)."""
    d = len(moment)
    factors = generator.standard_normal((count, d, d + 1))
    return moment + scale(epsilon) * (factors @ factors.swapaxes(1, 2))


def _fires(differences: Matrix, epsilon: float) -> Booleans:
    """Return True for each matrix that is certainly not positive semidefinite."""
    return np.linalg.eigvalsh(differences)[:, 0] < -EIGENVALUE_TOLERANCE * scale(epsilon)


def print_table(found: Sequence[Frequencies]) -> None:
    """Print the frequencies with the probabilities from the formula."""
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
    """Write the figure as an SVG file."""
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
    """Print the table, and draw the figure if the option --figure is present."""
    parser = argparse.ArgumentParser(
        prog="python -m dpcov.papers.wishart",
        description="Shows that the Wishart mechanism is not differentially private.",
    )
    parser.add_argument("--runs", type=int, default=DEFAULT_RUNS, help="simulations of each case")
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
