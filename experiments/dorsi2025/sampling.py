"""The sampler of Algorithm 1: exact draws, their cost, and the simulation used in their place."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from scipy import stats

import seeds
from claims import Finding
from dpcov.core.entropy import Entropy
from dpcov.papers.samplers.log_gas import simulated_singular_values
from dpcov.papers.samplers.pfaffian import HalfLineEnsemble, largest_first
from faults import factor
from slopes import Mean, log_slope

REJECTED = 1e-4
POLYNOMIAL = 6.0


def findings(small: bool, folder: Path) -> dict[str, Finding]:
    """Check Lemma 4.2 by exact singular values, and the time of an exact draw against d.

    The singular values of the paper's d x d distribution, at scale 1, are drawn exactly by
    Pfaffians in ball arithmetic (needs python-flint).
    """
    entropy, generator = seeds.entropy(2025), seeds.generator(20250005)
    p_values, distances, dependence = {}, {}, {}
    for d in (2, 4, 8):
        count = (100 if small else 300) if d < 8 else (40 if small else 150)
        exact = np.array([largest_first(HalfLineEnsemble(d), entropy) for _ in range(count)])
        exact *= factor("exact draws", d)
        approximate = np.array([simulated_singular_values(d, generator) for _ in range(10 * count)])
        radii = exact.sum(axis=1)
        p_values[d] = float(stats.kstest(radii, "gamma", args=(d * d,)).pvalue)
        dependence[d] = float(stats.spearmanr(radii, exact[:, 0] / radii).pvalue)
        tops = exact[:, 0], approximate.max(axis=1)
        distances[d] = float(stats.ks_2samp(*tops).pvalue)
    orders = (8, 12, 18) if small else (8, 12, 18, 27)
    seconds = {d: _seconds(d, entropy) for d in orders}
    slope = log_slope(list(seconds), [Mean(value, 0.0) for value in seconds.values()])
    return {
        "radius": Finding(
            f"exact draws against Gamma(d^2): p = "
            f"{', '.join(f'{p:.2g} (d = {d})' for d, p in p_values.items())}; rank correlation of "
            f"the radius and the largest share: p = "
            f"{', '.join(f'{p:.2g}' for p in dependence.values())}",
            min(*p_values.values(), *dependence.values()) > REJECTED,
        ),
        "sampler": Finding(
            f"exact draws take {', '.join(f'{s:.2g} s (d = {d})' for d, s in seconds.items())}, "
            f"exponent {slope.value:.1f}; the Metropolis simulation used here has the same largest "
            f"singular values: p = "
            f"{', '.join(f'{p:.2g} (d = {d})' for d, p in distances.items())}",
            slope.value < POLYNOMIAL and min(distances.values()) > REJECTED,
        ),
    }


def _seconds(d: int, entropy: Entropy) -> float:
    start = time.process_time()
    for _ in range(2):
        largest_first(HalfLineEnsemble(d), entropy)
    return (time.process_time() - start) / 2
