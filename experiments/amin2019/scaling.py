"""Growth of the error with the dimension (Appendix C, Theorem 2) and with the number of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import plots
from amin2019.figure1 import ENTRIES
from amin2019.methods import DELTAS
from amin2019.tables import Table, columns_of_adult, seed_of, synthetic, table
from claims import Finding
from dpcov.core.privacy import Neighbors, PureDP, gaussian_mu
from dpcov.mechanisms import MatrixLaplace
from dpcov.rows.moment import Lattice
from slopes import Mean, Slope, log_slope

APPENDIX_EPSILONS = (0.05, 0.5)
COLUMNS = (10, 25, 50, 75, 108)
SMALL_COLUMNS = (10, 40)
ROWS = (30_000, 100_000, 300_000, 1_000_000, 3_000_000)
DIMENSIONS = (8, 16, 32, 64)
EPSILONS = (0.1, 0.3, 1.0, 3.0)
LEVEL = 0.1  # part of the derived error within which a measured one counts as that
LARGEST = 1e6  # largest eigenvalue in the sweep over d: the first term of Theorem 2 rules


@dataclass(frozen=True)
class Point:
    """Mean error ||C_hat - C||_F / n (of the sweep over d, not divided by n)."""

    sweep: str
    d: int
    n: int
    method: str
    error: Mean


def gap(small: bool, folder: Path) -> Finding:
    """Check whether the advantage of AD grows with the number of columns."""
    appendix = appendix_c(SMALL_COLUMNS if small else COLUMNS, 2 if small else 5)
    swept = dict.fromkeys(point.sweep for point in appendix)
    for sweep in swept:
        own = [point for point in appendix if point.sweep == sweep]
        name = sweep.replace(", epsilon ", "-").replace(" ", "-")
        draw(own, folder / f"dimension-{name}.svg", sweep, "d")
    wider = {sweep: gaps(appendix, sweep) for sweep in swept}
    reported = [
        f"{sweep}: {', '.join(f'{gap:.3f}' for gap in found)}" for sweep, found in wider.items()
    ]
    return Finding(
        f"KT - AD at d = {', '.join(map(str, sorted({p.d for p in appendix})))}: "
        + "; ".join(reported),
        all(bool(np.all(np.diff(found) > 0)) for found in wider.values()),
    )


def in_rows(small: bool, folder: Path) -> dict[str, Finding]:
    """Measure the exponents of the number of rows."""
    rows = rows_sweep(5 if small else 50)
    draw(rows, folder / "rows.svg", "error against n, d = 10, epsilon = 1", "n")
    additive = {method: slope(rows, method, "n") for method in ("L", "G-10")}
    last = {point.method: point.error.value * point.n for point in rows if point.n == ROWS[-1]}
    levels = {method: last[method] / noise for method, noise in derived_noise(10).items()}
    by_n = slope(rows, "AD", "n")
    return {
        "ad-inverse-root-n": Finding(f"slope {by_n}", by_n.near(-0.5, 0.05)),
        "additive-inverse-n": Finding(
            ", ".join(f"{method} {found}" for method, found in additive.items())
            + "; errors over the derived at the largest n "
            + ", ".join(f"{level:.3f}" for level in levels.values()),
            all(found.near(-1.0, 0.05) for found in additive.values())
            and all(abs(level - 1) < LEVEL for level in levels.values()),
        ),
    }


def in_epsilon(small: bool, folder: Path) -> Finding:
    """Measure the exponent of epsilon for one second moment with a large largest eigenvalue."""
    spectrum = LARGEST * (1 - np.arange(10) / 10)
    means = []
    for epsilon in EPSILONS:
        # A fault that grows with n grows with epsilon here. The error is not divided by n.
        held = _diagonal(f"epsilon {epsilon:g}", spectrum, round(1e8 * epsilon))
        found = _point("epsilon", held, "AD", 10 if small else 50, epsilon).error
        means.append(Mean(found.value * held.n, found.error * held.n))
    by_epsilon = log_slope(EPSILONS, means)
    return Finding(f"slope {by_epsilon}", by_epsilon.near(-0.5, 0.05))


def pure_rates(small: bool, folder: Path) -> Finding:
    """Compute the exponents of n and d of matrix Laplace noise, which is purely private."""
    dimensions = (10, 30, 100, 300)
    noise = [
        math.sqrt(
            MatrixLaplace()
            .calibrate(Lattice(d, 1.0), PureDP(1.0), Neighbors.REPLACE_ONE)
            .matrix.frobenius_squared
        )
        for d in dimensions
    ]
    by_d = float(np.polyfit(np.log(dimensions), np.log(noise), 1)[0])
    return Finding(
        f"the noise does not depend on the table: exponent -1 of n; exponent of d {by_d:.3f}",
        abs(by_d - 1.5) <= 0.05,
    )


def derived_noise(d: int) -> dict[str, float]:
    """Return the root mean square of ||C_hat - C||_F at epsilon = 1 if no eigenvalue is clipped.

    L has the scale 2 d on every entry of the triangle. G has the deviation sqrt(2) / mu on the
    diagonal and 1 / mu off it.
    """
    mu = gaussian_mu(1.0, DELTAS["G-10"])
    return {"L": math.sqrt(8) * d**2, "G-10": math.sqrt(d * (d + 1)) / mu}


def in_columns(small: bool, folder: Path) -> Finding:
    """Measure the exponent of the number of columns."""
    dimensions = dimension_sweep(5 if small else 50)
    draw(dimensions, folder / "theorem2.svg", "||C_hat - C||_F, epsilon = 1", "d")
    by_d = slope(dimensions, "AD", "d")
    return Finding(f"slope {by_d}", by_d.value - 2 * by_d.error <= 1.5 + 0.05)


def appendix_c(dimensions: tuple[int, ...], repeats: int) -> list[Point]:
    """Measure AD and KT on d columns of adult, and on eigenvalues 1/j with 20,000 rows."""
    columns = [table("adult") if d == 108 else columns_of_adult(d) for d in dimensions]
    spectra = [1 / np.arange(1.0, d + 1) for d in dimensions]
    power = [_diagonal("power law", 20_000 * s / s.sum(), 20_000) for s in spectra]
    return [
        _point(f"{name}, epsilon {epsilon:g}", held, method, repeats, epsilon)
        for name, tables in (("adult", columns), ("power law", power))
        for epsilon in APPENDIX_EPSILONS
        for held in tables
        for method in ("AD", "KT")
    ]


def rows_sweep(repeats: int) -> list[Point]:
    """Measure the error of AD and of additive noise against n, for d = 10 and eigenvalues 1/j."""
    spectrum = 1 / np.arange(1.0, 11)
    return [
        _point("rows", _diagonal("rows", n * spectrum / spectrum.sum(), n), method, repeats, 1.0)
        for n in ROWS
        for method in ("AD", "L", "G-10")
    ]


def dimension_sweep(repeats: int) -> list[Point]:
    """Measure the error against d for a fixed largest eigenvalue and a linear spectrum."""
    points = []
    for d in DIMENSIONS:
        spectrum = LARGEST * (1 - np.arange(d) / d)
        held = _diagonal("dimension", spectrum, round(float(spectrum.sum())))
        found = _point("dimension", held, "AD", repeats, 1.0).error
        scaled = Mean(found.value * held.n, found.error * held.n)
        points.append(Point("dimension", d, held.n, "AD", scaled))
    return points


def slope(points: list[Point], method: str, against: str) -> Slope:
    """Return the growth exponent of a method's error."""
    own = [point for point in points if point.method == method]
    return log_slope([getattr(point, against) for point in own], [point.error for point in own])


def gaps(points: list[Point], sweep: str) -> list[float]:
    """Return KT's error minus AD's error, in the order of d."""
    of = {(p.d, p.method): p.error.value for p in points if p.sweep == sweep}
    return [of[d, "KT"] - of[d, "AD"] for d in sorted({d for d, _ in of})]


def draw(points: list[Point], path: Path, title: str, against: str) -> None:
    """Draw a chart of one sweep."""
    series = {}
    for method in dict.fromkeys(point.method for point in points):
        own = [point for point in points if point.method == method]
        series[method] = (
            [getattr(point, against) for point in own],
            [point.error.value for point in own],
            [point.error.error for point in own],
        )
    plots.lines(path, title, (against, "error"), series)


def _diagonal(name: str, spectrum: NDArray[np.float64], n: int) -> Table:
    """Return a diagonal table; as the methods are rotation-equivariant, it stands for all."""
    return synthetic(f"{name} {len(spectrum)} {n}", np.diag(spectrum), n)


def _point(sweep: str, held: Table, method: str, repeats: int, epsilon: float) -> Point:
    errors = [
        held.error(ENTRIES[method].estimate(held, epsilon, seed_of(sweep, held.name, method, i)))
        for i in range(repeats)
    ]
    return Point(sweep, held.d, held.n, method, Mean.of(errors))
