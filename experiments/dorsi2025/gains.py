"""Compare Theorem 1.2 with Dong, Liang and Yi's pure algorithm and with a ball of radius n."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import seeds
from claims import Finding
from dorsi2025.projection import harmonic
from dorsi2025.small_samples import TOLERANCE, error, worst_of
from slopes import Mean, Slope, log_slope

OURS, THEIRS, WIDE = "Algorithm 2", "Dong et al. 2022", "radius n"


def over_dong(small: bool) -> Finding:
    """Compare worst errors over ten spectra at n = d^2/2, in both papers' range of small n."""
    orders, repeats = ((60, 100, 160), 4) if small else ((60, 100, 160, 250), 8)
    generator = seeds.generator(20250012)
    found = {
        name: [worst_of(name, d, d * d // 2, repeats, generator) for d in orders]
        for name in (OURS, THEIRS)
    }
    ratios = [_ratio(*pair) for pair in zip(found[THEIRS], found[OURS], strict=True)]
    slope = log_slope(orders, ratios)
    return Finding(
        f"their error over Algorithm 2's {', '.join(f'{r.value:.2f}' for r in ratios)} at d = "
        f"{', '.join(map(str, orders))}, n = d^2/2: exponent {slope} of d",
        slope.near(0.25, TOLERANCE),
    )


def over_nikolov(small: bool) -> Finding:
    """Compare errors against the trace, with the private radius and with radius n."""
    d, repeats = (40, 4) if small else (100, 10)
    n, traces = d * d, (0.01, 0.03, 0.1, 0.3)
    generator = seeds.generator(20250013)
    found = {
        name: [error(name, harmonic(d, n, t), n, repeats, generator) for t in traces]
        for name in (OURS, WIDE)
    }
    slopes: dict[str, Slope] = {name: log_slope(traces, means) for name, means in found.items()}
    gain = _ratio(found[WIDE][0], found[OURS][0])
    zero = float(np.linalg.norm(harmonic(d, n, traces[0]))) / n
    return Finding(
        f"exponent of the trace {slopes[WIDE]} with radius n, {slopes[OURS]} with a private "
        f"radius. The error is {gain.value:.1f} times smaller at trace {traces[0]:g}, d = {d}, "
        f"n = {n}. The zero matrix has {zero / found[OURS][0].value:.2f} times this error",
        abs(slopes[WIDE].value) <= TOLERANCE and gain.value >= 5,
    )


def _ratio(one: Mean, other: Mean) -> Mean:
    value = one.value / other.value
    return Mean(value, value * math.hypot(one.error / one.value, other.error / other.value))


def findings(small: bool, folder: Path) -> dict[str, Finding]:
    return {"gain-over-dong": over_dong(small), "gain-over-nikolov": over_nikolov(small)}
