"""Measure all claims of Dong, Liang and Yi 2022, Differentially private covariance revisited."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np

import plots
from claims import Finding
from csv_table import write_means
from dong2022.methods import METHODS, PAPERS, error, gaussian_error, taken
from dong2022.tables import REAL, real, synthetic
from slopes import Mean, log_slope

RHO = 0.1  # the paper's default
EPSILONS = (0.1, 0.5, 1.0, 4.0)  # rho = epsilon^2 / 2
PLAIN = ("GaussCov", "SeparateCov", "ours")
SKEW = 0.3  # Norms are rank^-0.3. The mean squared norm is 0.7% of the largest squared norm.
MUCH, FAR = 0.7, 0.3  # Ratios of errors that count as much less and as far less.
LEVEL = 0.2  # Tolerance for a measured error, as a fraction of the derived error.
RADIUS = "adaptive-gaussian, denoised"
WIDE = 400  # above n^(2/3) for all n up to 8000


def repeats(small: bool) -> int:
    """Return the number of repeats."""
    return 4 if small else 20


def rows_findings(small: bool, folder: Path) -> dict[str, Finding]:
    """Check errors against n at d = 400: SeparateCov's fall as n^-1/2, GaussCov's as n^-1."""
    sizes = (500, 2000) if small else (500, 1000, 2000, 4000, 8000)
    means = {
        name: {n: error(name, synthetic(n, WIDE), RHO, repeats(small)) for n in sizes}
        for name in PLAIN
    }
    _keep(folder, "rows", "n", means)
    slopes = {name: log_slope(sizes, [found[n] for n in sizes]) for name, found in means.items()}
    reported = ", ".join(f"{name} {slope}" for name, slope in slopes.items())
    gaussian = slopes["GaussCov"].near(-1.0, 0.05)
    return {
        "separate-rows": Finding(reported, gaussian and slopes["SeparateCov"].near(-0.5, 0.1)),
    }


def columns_findings(small: bool, folder: Path) -> dict[str, Finding]:
    """Check errors against d at n = 1000: SeparateCov wins if d is far above n^(2/3) = 100."""
    n = 1000
    orders = (10, 100, 250) if small else (10, 25, 50, 100, 200, 400)
    means = {
        name: {d: error(name, synthetic(n, d), RHO, repeats(small)) for d in orders}
        for name in PLAIN
    }
    _keep(folder, "columns", "d", means)
    slope = log_slope(orders, [means["GaussCov"][d] for d in orders])
    levels = {
        d: mean.value / gaussian_error(synthetic(n, d), RHO)
        for d, mean in means["GaussCov"].items()
    }
    wins = [d for d in orders if means["SeparateCov"][d].value < means["GaussCov"][d].value]
    wide = [d for d in orders if d >= n ** (2 / 3) - 1]
    grows = means["SeparateCov"][wide[-1]].value / means["SeparateCov"][wide[0]].value
    bound = _bound(wide[-1], n) / _bound(wide[0], n)
    best = [
        d
        for d in orders
        if not any(_better(means[name][d], means["ours"][d]) for name in PLAIN[:2])
    ]
    return {
        "gaussian-columns": Finding(
            f"slope {slope}; errors over the derived "
            + ", ".join(f"{level:.3f} (d = {d})" for d, level in levels.items()),
            slope.near(1.0, 0.05) and all(abs(level - 1) < LEVEL for level in levels.values()),
        ),
        "separate-columns": Finding(
            f"from d = {wide[0]} to {wide[-1]} the error grows {grows:.2f} times, the bound "
            f"{bound:.2f}",
            grows <= 1.1 * bound,
        ),
        "crossover": Finding(
            f"SeparateCov is better at d in {wins} of {list(orders)}",
            bool(wins) and set(wide) <= set(wins),
        ),
        "default-columns": Finding(f"not beaten at d in {best}", best == list(orders)),
    }


def _bound(d: int, n: int) -> float:
    """Return the abstract's rate at trace 1."""
    return float(d**0.25 / n**0.5 + d**0.5 / n)


def skew_findings(small: bool, folder: Path) -> dict[str, Finding]:
    """Check skewed norms: the largest row determines the noise of all but the adaptive methods."""
    table = synthetic(20_000, 50, tail=SKEW)
    found = {name: error(name, table, RHO, repeats(small)) for name in METHODS}
    reported = ", ".join(f"{name} {mean.value:.2g}" for name, mean in found.items())
    reported = (
        f"mean squared norm {table.trace:.2g}, auto takes {taken(table, RHO).name}; {reported}"
    )
    plain = min(found["GaussCov"].value, found["SeparateCov"].value)
    return {
        "adaptive-skew": Finding(reported, found["AdaptiveCov"].value < MUCH * plain),
        "private-radius-skew": Finding(reported, found[RADIUS].value < FAR * found["ours"].value),
    }


def real_findings(small: bool, folder: Path) -> dict[str, Finding]:
    """Compare the methods on wine, breast cancer and digits at rho = epsilon^2 / 2."""
    epsilons = EPSILONS[2:] if small else EPSILONS
    cells = {
        (name, epsilon): {m: error(m, real(name), epsilon**2 / 2, repeats(small)) for m in METHODS}
        for name in REAL
        for epsilon in epsilons
    }
    with (folder / "errors.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["dataset", "epsilon", "method", "error_mean", "error_se"])
        for (name, epsilon), found in cells.items():
            for method, mean in found.items():
                writer.writerow([name, epsilon, method, f"{mean.value:.4g}", f"{mean.error:.2g}"])
    ratios = {cell: _least(found).value / found["ours"].value for cell, found in cells.items()}
    lost = [
        f"{name} {epsilon}"
        for (name, epsilon), found in cells.items()
        if _better(_least(found), found["ours"])
    ]
    mean = float(np.exp(np.mean(np.log(list(ratios.values())))))
    gains = [found["ours"].value / found[RADIUS].value for found in cells.values()]
    gain = float(np.exp(np.mean(np.log(gains))))
    helped = [
        cell
        for cell, found in cells.items()
        if min(found[m].value for m in PAPERS) < found["GaussCov"].value
    ]
    return {
        "default-real": Finding(
            f"lost on: {', '.join(lost) or 'no cell'} of {len(cells)}; the better of the two over "
            f"ours, geometric mean: {mean:.2f}",
            not lost,
        ),
        "private-radius-real": Finding(
            f"default over it, geometric mean {gain:.2f}; {min(gains):.2f} to {max(gains):.2f}",
            gain > 1,
        ),
        "paper-real": Finding(
            f"better than GaussCov on {len(helped)} of {len(cells)} cells",
            len(helped) == len(cells),
        ),
    }


def _better(one: Mean, other: Mean) -> bool:
    """Return True if `one` is smaller by more than 2 standard errors."""
    return one.value < other.value - 2 * math.hypot(one.error, other.error)


def _least(found: dict[str, Mean]) -> Mean:
    return min((found[name] for name in PAPERS), key=lambda mean: mean.value)


def _keep(folder: Path, name: str, over: str, means: dict[str, dict[int, Mean]]) -> None:
    write_means(folder / f"{name}.csv", over, means)
    series = {
        method: (
            list(found),
            [mean.value for mean in found.values()],
            [mean.error for mean in found.values()],
        )
        for method, found in means.items()
    }
    title = f"Frobenius error, rho = {RHO}"
    plots.lines(folder / f"{name}.svg", title, (over, "||C_hat - C||_F / n"), series)


PARTS = (rows_findings, columns_findings, skew_findings, real_findings)
