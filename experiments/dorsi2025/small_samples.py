"""Theorem 1.2: rates in n, d and the trace where n is small, and what the projection does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

import seeds
from claims import Finding
from csv_table import write_means
from dorsi2025.projection import (
    METHODS,
    MISSES,
    RIVALS,
    SCALE,
    TRACE_SHARE,
    Matrix,
    flat,
    harmonic,
    onto_ball,
    radius,
    square_noise,
    square_root_range,
)
from dpcov.denoise.projection import onto_simplex
from faults import factor
from plots import lines
from slopes import Mean, Slope, log_slope

PROJECTED = ("Algorithm 2", "symmetric, PSD")
TOLERANCE = 0.1
REJECTED = 1e-4
RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
Errors = dict[str, dict[int, Mean]]


def error(
    method: str, matrix: Matrix, n: int, repeats: int, generator: np.random.Generator
) -> Mean:
    """Return the mean Frobenius error over n.

    Noise that is `off` times as large is equivalent to a table that is `off` times smaller.
    """
    off, estimate = factor(method, len(matrix), n), (METHODS | RIVALS)[method]
    errors = [
        float(np.linalg.norm(off * estimate(matrix / off, n / off, generator) - matrix))
        for _ in range(repeats)
    ]
    return Mean.of(np.array(errors) / n)


def against_n(small: bool) -> tuple[int, Errors]:
    """Measure errors of all methods over a wide range of n, at one d."""
    d, repeats = (30, 3) if small else (60, 10)
    counts = [d << power for power in range(1, 16)]
    generator = seeds.generator(20250007)
    return d, {
        name: {n: error(name, harmonic(d, n), n, repeats, generator) for n in counts}
        for name in METHODS
    }


def in_range(small: bool) -> tuple[list[int], dict[str, Slope], float]:
    """Fit exponents of n in the range where sqrt(d/n) is the least bound.

    Also return the largest error over that bound.
    """
    d, repeats = (40, 6) if small else (100, 20)
    counts = [int(n) for n in np.geomspace(*square_root_range(d), 5)]
    generator = seeds.generator(20250008)
    found = {
        name: [error(name, harmonic(d, n), n, repeats, generator) for n in counts]
        for name in PROJECTED
    }
    largest = max(
        mean.value / (d / n) ** 0.5 for n, mean in zip(counts, found["Algorithm 2"], strict=True)
    )
    return counts, {name: log_slope(counts, means) for name, means in found.items()}, largest


def against_d(small: bool) -> tuple[int, dict[str, Slope]]:
    """Fit exponents of d of the largest error over spectra, at an n below every d^2/4.

    The bound is for the worst C. For a given C, the error can grow faster or slower with d.
    """
    generator = seeds.generator(20250011)
    orders, n = ((60, 84, 120), 900) if small else ((100, 140, 200), 2_400)
    repeats = 3 if small else 8
    found = {name: [worst_of(name, d, n, repeats, generator) for d in orders] for name in PROJECTED}
    return n, {name: log_slope(orders, means) for name, means in found.items()}


def worst_of(name: str, d: int, n: int, repeats: int, generator: np.random.Generator) -> Mean:
    """Return the largest mean error of a method over ten spectra."""
    matrices = [flat(d, n, rank) for rank in RANKS] + [harmonic(d, n)]
    means = [error(name, matrix, n, repeats, generator) for matrix in matrices]
    return max(means, key=lambda mean: mean.value)


def against_trace(small: bool) -> dict[str, Slope]:
    """Fit exponents of the trace over the same range of n trace, with rows of smaller norm."""
    generator = seeds.generator(20250009)
    d, repeats = (40, 6) if small else (100, 20)
    low, n = square_root_range(d)
    traces = np.geomspace(low / n, 1.0, 4)
    return {
        name: log_slope(
            traces,
            [error(name, harmonic(d, int(n), t), int(n), repeats, generator) for t in traces],
        )
        for name in ("Algorithm 1", *PROJECTED)
    }


def bounded(small: bool, folder: Path) -> dict[str, Finding]:
    """Check the proof's inequalities for r >= tr C, and the projection's effect on other norms."""
    generator = seeds.generator(20250010)
    misses, kept, above, grown, spectral = 0, 0, 0, 0, []
    for _ in range(300 if small else 600):
        d = int(generator.choice([5, 20, 40]))
        n = int(d * 2.0 ** generator.integers(1, 12))
        spread = generator.choice([0.0, 1.0, 4.0])
        weights = np.arange(1.0, d + 1) ** -spread
        matrix = np.diag(0.8 * n * weights / weights.sum())
        noise = square_noise(d, SCALE / (1 - TRACE_SHARE), generator)
        size = radius(matrix, n, generator)
        projected = onto_ball(matrix + noise, size) - matrix
        if size < np.trace(matrix):
            misses += 1
            continue
        kept += 1
        squared = float(np.linalg.norm(projected) ** 2)
        above += squared > 2 * size * np.linalg.norm(noise, 2) * (1 + 1e-9)
        grown += squared > np.linalg.norm(noise) ** 2 * (1 + 1e-9)
        spectral.append(float(np.linalg.norm(projected, 2) / np.linalg.norm(noise, 2)))
    missing = binomtest(misses, misses + kept, MISSES, alternative="greater").pvalue
    return {
        "projection-safe": Finding(
            f"{above} of {kept} errors above sqrt(2 r ||Z||_2), {grown} above that before "
            f"projecting; the radius is below the trace {misses} times of {misses + kept} "
            f"(allowed {MISSES:g})",
            bool(above == grown == 0 and missing > REJECTED),
        ),
        "projection-distorts": Finding(
            f"spectral error after over before projecting: median {np.median(spectral):.2f}, "
            f"largest {max(spectral):.2f} of {kept} with the mechanism's noise, {_worst():.3f} "
            f"with the worst noise found; proved: at most 2",
            max(*spectral, _worst()) > 2,
            exact=True,
        ),
    }


def _worst() -> float:
    """Return the error of noise that moves one direction of C to 1000 other directions."""
    matrix, noise = np.zeros(1001), np.ones(1001)
    matrix[0], noise[0] = 5.0, -1.0
    projected = onto_simplex(matrix + noise, matrix.sum())
    return float(np.abs(projected - matrix).max())


def large_and_small_n(small: bool, folder: Path) -> dict[str, Finding]:
    """Draw the errors of Theorem 1.2 against n."""
    d, found = against_n(small)
    figure(d, found, folder)
    write_means(folder / "small_samples.csv", "n", found)
    counts = list(found["Algorithm 2"])
    last = counts[-3:]
    high = {name: log_slope(last, [means[n] for n in last]) for name, means in found.items()}
    limit = found["Algorithm 2"][last[-1]].value * last[-1] / d**1.5
    middle, in_n, largest = in_range(small)
    return {
        "theorem12-small-n": Finding(
            f"exponent of n from {middle[0]} to {middle[-1]}: {_list(in_n)}; error of Algorithm 2 "
            f"at most {largest:.2f} sqrt(d tr/(eps n)); {_ratios(found, counts)}",
            in_n["Algorithm 2"].near(-0.5, TOLERANCE),
        ),
        "theorem12-large-n": Finding(
            f"exponent of n from {last[0]} to {last[-1]} at d = {d}: {_list(high)}; error of "
            f"Algorithm 2 {limit:.2f} d^1.5/(eps n)",
            high["Algorithm 2"].near(-1, TOLERANCE),
        ),
    }


def growth_in_d(small: bool, folder: Path) -> Finding:
    """Draw the errors of Theorem 1.2 against d."""
    n, slopes = against_d(small)
    return Finding(
        f"exponent of d at n = {n}: {_list(slopes)}", slopes["Algorithm 2"].near(0.5, TOLERANCE)
    )


def growth_in_trace(small: bool, folder: Path) -> Finding:
    """Draw the errors of Theorem 1.2 against the trace."""
    slopes = against_trace(small)
    return Finding(
        f"exponent of the trace: {_list(slopes)}", slopes["Algorithm 2"].near(0.5, TOLERANCE)
    )


def _list(slopes: dict[str, Slope]) -> str:
    return ", ".join(f"{name} {slope}" for name, slope in slopes.items())


def _ratios(found: Errors, counts: Sequence[int]) -> str:
    parts = [
        f"{found['Algorithm 2'][n].value / found['matrix Laplace, shrunk'][n].value:.2f} (n = {n})"
        for n in counts[:: max(1, len(counts) // 4)]
    ]
    return f"error of Algorithm 2 over the error of matrix Laplace, shrunk, {', '.join(parts)}"


def figure(d: int, found: Errors, folder: Path) -> None:
    counts = list(found["Algorithm 2"])
    at = len(counts) // 3
    middle, end = found["Algorithm 2"][counts[at]].value, found["Algorithm 2"][counts[-1]].value
    lines(
        folder / "small_samples.svg",
        f"Frobenius error, d = {d}, eigenvalues ~ 1/j, eps = 1",
        ("n", "mean error"),
        {
            name: (counts, [m.value for m in means.values()], [m.error for m in means.values()])
            for name, means in found.items()
        },
        guides={
            "n^-1/2": (counts[:9], [middle * (n / counts[at]) ** -0.5 for n in counts[:9]]),
            "n^-1": (counts[-5:], [end * counts[-1] / n for n in counts[-5:]]),
        },
    )
