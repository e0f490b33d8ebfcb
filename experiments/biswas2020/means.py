"""Mean estimation, Figures 3 to 8: d = 50, R = 10 sqrt(d), rho = 0.5 unless varied."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import seeds
from biswas2020.coinpress import Matrix, mean, mean_error
from claims import Finding
from plots import lines

D, RHO = 50, 0.5
R = 10 * math.sqrt(D)
STEPS = (1, 2, 3, 4, 10)
CLOSE = 0.15  # part of the error that theory gives within which a measured one counts as that


def as_derived(error: float, t: int, n: int, *, radius: float = R, rho: float = RHO) -> bool:
    """Return True if an error agrees with the noise and the sampling."""
    return abs(error / mean_error(n, D, radius, rho, t) - 1) < CLOSE


def normal(generator: np.random.Generator, n: int) -> Matrix:
    return generator.standard_normal((n, D))


def laplace(generator: np.random.Generator, n: int) -> Matrix:
    return generator.laplace(scale=math.sqrt(0.5), size=(n, D))


def student(generator: np.random.Generator, n: int) -> Matrix:
    return generator.standard_t(3, size=(n, D)) / math.sqrt(3)


def errors(
    repeats: int,
    t: int | None,
    *,
    n: int = 2000,
    radius: float = R,
    rho: float = RHO,
    offset: float = 0.0,
    law: Callable[[np.random.Generator, int], Matrix] = normal,
) -> NDArray[np.float64]:
    """Return each table's l2 error of CoinPress with t steps, or of the plain mean (t = None)."""
    found = []
    for seed in range(repeats):
        generator = seeds.generator(20200001, seed)
        truth = np.full(D, offset / math.sqrt(D))
        rows = law(generator, n) + truth
        noise = seeds.generator(20200002, seed)
        estimate = rows.mean(axis=0) if t is None else mean(rows, radius, rho, t, noise)
        found.append(float(np.linalg.norm(estimate - truth)))
    return np.array(found)


def error(repeats: int, t: int | None, **at: Any) -> float:
    """Return the median of the errors."""
    return float(np.median(errors(repeats, t, **at)))


def findings(small: bool, folder: Path) -> dict[str, Finding]:
    repeats = 11 if small else 51
    sizes = (1000, 4000) if small else (500, 1000, 2000, 4000, 8000, 16_000)
    by_size = {t: [error(repeats, t, n=n) for n in sizes] for t in (None, *STEPS)}
    radii = [R * 10.0**k for k in ((0, 3, 6) if small else (0, 1, 2, 3, 4, 5, 6))]
    by_radius = {t: [error(repeats, t, radius=radius) for radius in radii] for t in STEPS}
    budgets = (0.01, 0.1, 1.0)
    by_rho = [error(repeats, 2, n=8000, rho=rho) for rho in budgets]
    levels = [as_derived(e, 2, 8000, rho=rho) for e, rho in zip(by_rho, budgets, strict=True)]
    edge = [error(repeats, 2, offset=offset) for offset in (0.0, R)]
    plain = by_size[None]
    often = 101 if small else 301  # the excess is a small part of the error
    excess = {
        law.__name__: float(
            np.median(errors(often, 2, n=4000, law=law) - errors(often, None, n=4000, law=law))
        )
        for law in (normal, laplace, student)
    }
    derived = mean_error(4000, D, R, RHO, 2) - math.sqrt(D / 4000)
    names = {t: "non-private" if t is None else f"t = {t}" for t in by_size}
    lines(
        folder / "mean_size.svg",
        "Mean, d = 50, R = 10 sqrt(d), rho = 0.5",
        ("rows", "median l2 error"),
        {names[t]: (sizes, errors, None) for t, errors in by_size.items()},
    )
    lines(
        folder / "mean_radius.svg",
        "Mean, d = 50, n = 2,000, rho = 0.5",
        ("R", "median l2 error"),
        {names[t]: (radii, errors, None) for t, errors in by_radius.items()},
    )
    cost = {t: by_size[t][-1] / plain[-1] for t in STEPS}
    growth = by_radius[1][-1] / by_radius[1][0]
    many = by_radius[10][-1] / by_radius[10][0]
    fall = by_rho[0] / by_rho[-1]
    return {
        "mean-size": Finding(
            f"error over the non-private at n = {sizes[-1]}: "
            + ", ".join(f"{c:.2f} (t = {t})" for t, c in cost.items()),
            cost[2] < 1.25 < cost[1] and as_derived(by_size[1][-1], 1, sizes[-1]),
        ),
        "mean-radius": Finding(
            f"R a million times as large: error times {growth:.2g} with t = 1, "
            f"{by_radius[4][-1] / by_radius[4][0]:.2g} with t = 4, {many:.2f} with t = 10",
            many < 1.5 and growth > 1e5 and as_derived(by_radius[1][-1], 1, 2000, radius=radii[-1]),
        ),
        "mean-edge": Finding(
            f"t = 2: {edge[0]:.3f} with the mean in the middle of the ball, {edge[1]:.3f} at its "
            "edge",
            abs(edge[1] / edge[0] - 1) < 0.15 and as_derived(edge[0], 2, 2000),
        ),
        "mean-tails": Finding(
            "excess over the non-private mean, n = 4,000: "
            + ", ".join(f"{name} {value:.4f}" for name, value in excess.items())
            + f"; derived {derived:.4f}",
            max(excess.values()) < 2 * derived and excess["normal"] > derived / 2,
        ),
        "mean-budget": Finding(
            "n = 8,000, t = 2: "
            + ", ".join(f"{e:.3f} (rho = {r:g})" for r, e in zip(budgets, by_rho, strict=True)),
            by_rho[0] > by_rho[1] > by_rho[2] and fall < 11 and all(levels),
        ),
    }
