"""Wang, Huai and Xu 2018: Tables 1 and 2, their theorems, and dpcov's results beside them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import plots
import seeds
from claims import Finding, alone
from jiang2016.privacy import REPLACED
from wang2018 import colon, privacy, sizes
from wang2018.data import Table, tables
from wang2018.methods import (
    APPROXIMATE,
    APPROXIMATE_RELEASE,
    DELTA,
    PURE,
    PURE_RELEASE,
    moments,
    output_noise,
    output_perturbed,
    solve,
    unsolvable,
    with_noise,
)
from wang2018.printed import (
    CLOSE,
    DIAGONAL,
    EPSILONS,
    GAUSSIAN,
    LAPLACE,
    NOT_AVAILABLE,
    OUTPUT,
    PUBLISHED,
    ROWS,
    SPARSE,
    SULQ,
    WISHART,
    WISHART_APPROXIMATE,
    printed,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

ISOTROPIC = "isotropic (not private)"
SURE = 4.0  # standard errors
SAME_NOISE = 0.25  # difference of squared noise, over the derived, that is chance


class Measured:
    """Mean relative errors, and how often the slides' Laplace noise leaves no solution."""

    def __init__(self, *, small: bool) -> None:
        self.epsilons = EPSILONS[::2] if small else EPSILONS
        self.repeats = 1 if small else 5
        self.tables = tables()
        self.errors: dict[tuple[str, float, float, str], list[float]] = {}
        self.agreement: dict[tuple[str, float, str], list[float]] = {}
        self.bounds: list[float] = []
        self.levels: list[float] = []  # squared noise on the solution, over what is expected
        self.unsolvable: dict[float, list[bool]] = {SPARSE: [], DIAGONAL: []}
        for table in self.tables:
            for epsilon in self.epsilons:
                for seed in range(self.repeats):
                    self._measure(table, epsilon, seed)

    def _measure(self, table: Table, epsilon: float, seed: int) -> None:
        generator = seeds.generator(1000 + seed)
        estimates = moments(table, epsilon, seed)
        isotropic = np.trace(table.moment) / table.d * np.eye(table.d)
        for rho in (SPARSE, DIAGONAL):
            optimum = solve(table.moment, rho)
            found = {name: solve(estimate, rho) for name, estimate in estimates.items()}
            found[ISOTROPIC] = solve(isotropic, rho)
            found[OUTPUT] = output_perturbed(table, optimum, epsilon, rho, generator)
            squared = output_noise(table, epsilon, rho).frobenius_squared
            self.levels.append(float(np.linalg.norm(found[OUTPUT] - optimum) ** 2 / squared))
            for name, estimate in found.items():
                error = np.linalg.norm(estimate - optimum) / np.linalg.norm(optimum)
                self.errors.setdefault((table.name, epsilon, rho, name), []).append(float(error))
                if rho == SPARSE:
                    edges = self.agreement.setdefault((table.name, epsilon, name), [])
                    edges.append(edge_agreement(optimum, estimate))
            self.bounds += [
                bound_ratio(table.moment, estimates[name], optimum, found[name])
                for name in (WISHART, LAPLACE, WISHART_APPROXIMATE, GAUSSIAN)
            ]
        noisy = with_noise(LAPLACE, table, epsilon, generator)
        for rho, answers in self.unsolvable.items():
            answers.append(unsolvable(noisy, rho))

    def error(self, table: str, epsilon: float, rho: float, method: str) -> float:
        """Return a mean error, or nan if the method was not run on the table."""
        return float(np.mean(self.errors.get((table, epsilon, rho, method), np.nan)))

    def cells(self, rho: float | None = None) -> list[tuple[str, float, float]]:
        """Return the table, epsilon and rho of each cell."""
        keys = {(table, epsilon, at) for table, epsilon, at, _ in self.errors}
        return sorted(key for key in keys if rho is None or key[2] == rho)

    def wins(self, better: str, worse: str, rho: float | None = None) -> str:
        """Return the number of cells in which the first has the smaller error, as text."""
        cells = self.cells(rho)
        won = sum(self.error(*cell, better) < self.error(*cell, worse) for cell in cells)
        return f"{won} of {len(cells)}"

    def close_cells(self, method: str) -> tuple[int, int]:
        """Return how many published cells the better rho reproduces, and the number of cells."""
        met = []
        for rho in (SPARSE, DIAGONAL):
            published = [
                (
                    self.error(table.name, epsilon, rho, method),
                    printed(method, epsilon, table.name),
                )
                for epsilon in self.epsilons
                for table in self.tables
            ]
            met.append(sum(abs(ours - theirs) <= CLOSE for ours, theirs in published))
        return max(met), len(published)


def edge_agreement(optimum: Matrix, estimate: Matrix) -> float:
    """Return the F1 score of the edges of `estimate` against `optimum`: 1 if they are equal."""
    above = np.triu_indices(len(optimum), 1)
    true, found = optimum[above] != 0, estimate[above] != 0
    return float(2 * np.sum(true & found) / max(1, np.sum(true) + np.sum(found)))


def bound_ratio(moment: Matrix, noisy: Matrix, optimum: Matrix, estimate: Matrix) -> float:
    """Return ||Theta_hat - Theta||_F / max ||.||_2^2 over ||S_hat - S||_F, which is at most 1."""
    largest = max(np.linalg.norm(optimum, 2), np.linalg.norm(estimate, 2)) ** 2
    change = np.linalg.norm(estimate - optimum) / largest
    return float(change / np.linalg.norm(noisy - moment))


def errors(small: bool, folder: Path) -> dict[str, Finding]:
    """Check the claims about errors in the tables."""
    measured = Measured(small=small)
    write_tables(measured, folder)
    write_printed(measured, folder)
    draw_printed(folder)
    write_edges(measured, folder)
    draw(measured, folder)
    return {**bounds(measured), **comparisons(measured)}


def theorems(small: bool, folder: Path) -> dict[str, Finding]:
    """Check the claims about privacy."""
    draws = 1000 if small else 10_000
    impossible = privacy.wishart_impossible_share(5, 100, 1.0, draws, 1)
    share = REPLACED[1.0]
    as_derived = abs(impossible - share) < SURE * np.sqrt(share * (1 - share) / draws)
    ratio, given_away = privacy.output_changes(0.5, 10 if small else 60, 2)
    sums = {d: privacy.laplace_sensitivity(d) for d in (2, 3, 4)}
    deltas = {epsilon: privacy.gaussian_cost(epsilon) for epsilon in EPSILONS}
    wisharts = {epsilon: privacy.wishart_cost(50, epsilon) for epsilon in (*EPSILONS, 4.0)}
    return {
        "wishart-pure": Finding(
            f"{impossible:.3f} of the outputs (eps = 1) can't come from a neighbour; derived "
            f"{share:.3f}",
            impossible == 0,
            exact=bool(as_derived),
        ),
        "output-private": Finding(
            f"up to {given_away:.3f} of the outputs can't come from a neighbour",
            given_away == 0,
            exact=True,
        ),
        "output-sensitivity": Finding(
            f"changes of at most {ratio:.3f} times sqrt(2) d^(5/2) / (n rho^2)", ratio <= 1
        ),
        "laplace-private": Finding(
            "needs " + ", ".join(f"{value:.2f} (d = {d})" for d, value in sums.items()),
            all(value <= 2 * d for d, value in sums.items()),
        ),
        "gaussian-private": Finding(
            f"delta is {', '.join(f'{deltas[e]:.1e} (eps = {e:g})' for e in EPSILONS)}",
            max(deltas.values()) <= DELTA,
            exact=True,
        ),
        "wishart-approximate": Finding(
            f"delta is {wisharts[1.5]:.1e} at eps = 1.5, {wisharts[4.0]:.1e} at eps = 4",
            max(wisharts.values()) <= DELTA,
            exact=True,
        ),
    }


def bounds(measured: Measured) -> dict[str, Finding]:
    """Check the theorems about errors."""
    missing = measured.unsolvable
    return {
        "error-bounds": Finding(
            f"at most {max(measured.bounds):.2f} of the norm of the noise",
            max(measured.bounds) <= 1,
        ),
        "always-solvable": Finding(
            "problems without a solution: "
            + ", ".join(f"{np.mean(found):.0%} at rho = {rho:g}" for rho, found in missing.items()),
            not any(map(any, missing.values())),
            exact=True,
        ),
    }


def comparisons(measured: Measured) -> dict[str, Finding]:
    cells = measured.cells()
    level = float(np.mean(measured.levels))
    output = min(measured.error(*cell, OUTPUT) for cell in cells)
    sparse = measured.wins(WISHART, LAPLACE, SPARSE)
    diagonal = measured.wins(WISHART, LAPLACE, DIAGONAL)
    gaussian = measured.wins(GAUSSIAN, WISHART_APPROXIMATE)
    approximate = measured.wins(GAUSSIAN, WISHART)
    count = len(measured.cells(SPARSE))
    close = {method: measured.close_cells(method) for method in PUBLISHED}

    def published(method: str) -> Finding:
        met, of = close[method]
        return Finding(f"{met} of {of} cells within {CLOSE:g}", met == of)

    return {
        "output-useless": Finding(
            f"least relative error {output:.3g}; squared noise {level:.3f} times the derived",
            output > 10 and abs(level - 1) < SAME_NOISE,
        ),
        "wishart-beats-laplace": Finding(
            f"better in {sparse} cells at rho = {SPARSE:g}, {diagonal} at {DIAGONAL:g}",
            sparse == diagonal == f"{count} of {count}",
        ),
        "gaussian-beats-wishart": Finding(
            f"better in {gaussian} cells", gaussian == f"{len(cells)} of {len(cells)}"
        ),
        "approximate-beats-pure": Finding(
            f"Gaussian better than the eps-DP Wishart in {approximate} cells",
            approximate == f"{len(cells)} of {len(cells)}",
        ),
        "table-1-wishart": published(WISHART),
        "table-1-laplace": published(LAPLACE),
        "table-2-wishart": published(WISHART_APPROXIMATE),
        "table-2-gaussian": published(GAUSSIAN),
        "pure-is-hopeless": Finding(
            f"ours is lower in {measured.wins(PURE_RELEASE, WISHART)} cells; "
            f"mean {mean_error(measured, PURE_RELEASE):.2f} against "
            f"{mean_error(measured, WISHART):.2f} of the Wishart noise that is not private and "
            f"{mean_error(measured, ISOTROPIC):.2f} of the trace alone",
            mean_error(measured, PURE_RELEASE) > 0.8,
        ),
    }


def mean_error(measured: Measured, method: str) -> float:
    return float(np.mean([measured.error(*cell, method) for cell in measured.cells()]))


def write_tables(measured: Measured, folder: Path) -> None:
    """Write all relative errors, one row a method, as CSV, beside the published errors."""
    methods = {
        1: [*PURE, PURE_RELEASE, OUTPUT, ISOTROPIC],
        2: [*APPROXIMATE, APPROXIMATE_RELEASE, ISOTROPIC],
    }
    for number, names in methods.items():
        with (folder / f"table{number}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            titles = [table.name for table in measured.tables]
            writer.writerow(["epsilon", "rho", "method", *titles])
            for epsilon in measured.epsilons:
                for name in [name for name in names if name in PUBLISHED]:
                    numbers = [printed(name, epsilon, title) for title in titles]
                    writer.writerow([epsilon, "?", f"{name}, printed", *numbers])
                for rho in (SPARSE, DIAGONAL):
                    for name in names:
                        errors = [measured.error(t, epsilon, rho, name) for t in titles]
                        writer.writerow([epsilon, rho, name, *(f"{e:.4g}" for e in errors)])


def write_edges(measured: Measured, folder: Path) -> None:
    """Write F1 scores of the edges as CSV, one row a method, at the rho that keeps some edges."""
    with (folder / "edges.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        titles = [table.name for table in measured.tables]
        writer.writerow(["epsilon", "method", *titles])
        for epsilon in measured.epsilons:
            for name in [*PURE, PURE_RELEASE, *APPROXIMATE, APPROXIMATE_RELEASE, ISOTROPIC]:
                scores = [
                    np.mean(measured.agreement.get((title, epsilon, name), np.nan))
                    for title in titles
                ]
                writer.writerow([epsilon, name, *(f"{score:.3f}" for score in scores)])


def write_printed(measured: Measured, folder: Path) -> None:
    """Write each printed cell of the two tables as CSV, beside our errors at both rho."""
    with (folder / "printed.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        heads = ["table", "name", "method", "epsilon", "data", "printed", "sparse", "diagonal"]
        writer.writerow(heads)
        for number, rows in ROWS.items():
            for name, method in rows.items():
                for epsilon in measured.epsilons:
                    for table in (held.name for held in measured.tables):
                        found = (
                            measured.error(table, epsilon, rho, method)
                            for rho in (SPARSE, DIAGONAL)
                        )
                        cell = [number, name, method, epsilon, table]
                        number_printed = printed(method, epsilon, table)
                        writer.writerow([*cell, number_printed, *(f"{e:.3g}" for e in found)])


def draw_printed(folder: Path) -> None:
    """Draw our errors against the printed errors of the same cells, by method."""
    with (folder / "printed.csv").open(newline="") as file:
        cells = [cell for cell in csv.DictReader(file) if cell["printed"] != NOT_AVAILABLE]
    series: dict[str, Any] = {
        f"{method}, rho = {rho:g}": (
            [float(cell["printed"]) for cell in cells if cell["method"] == method],
            [float(cell[column]) for cell in cells if cell["method"] == method],
            None,
        )
        for method in (WISHART, LAPLACE, WISHART_APPROXIMATE, GAUSSIAN, SULQ)
        for rho, column in ((SPARSE, "sparse"), (DIAGONAL, "diagonal"))
    }
    ends = (0.01, 200.0)
    plots.lines(
        folder / "printed.svg",
        "Relative errors of the slides and ours, all tables and epsilons",
        ("printed error", "our error"),
        series,
        guides={"equal": (ends, ends)},
        joined=False,
    )


def draw(measured: Measured, folder: Path) -> None:
    """Draw a figure for each table: error against epsilon at the rho that keeps edges."""
    names = [*PURE, *APPROXIMATE, PURE_RELEASE, APPROXIMATE_RELEASE]
    for table in measured.tables:
        series: dict[str, Any] = {
            name: (
                measured.epsilons,
                [measured.error(table.name, e, SPARSE, name) for e in measured.epsilons],
                None,
            )
            for name in names
            if not np.isnan(measured.error(table.name, measured.epsilons[0], SPARSE, name))
        }
        slug = "".join(c if c.isalnum() else "-" for c in table.name.lower())
        plots.lines(
            folder / f"{slug}.svg",
            f"Sparse inverse covariance of {table.name}, rho = {SPARSE:g}",
            ("epsilon", "relative Frobenius error"),
            series,
            scale="linear",
        )


PARTS = (theorems, errors, sizes.findings, alone("colon-own-size", colon.own_size))
