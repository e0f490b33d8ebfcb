"""AdaptiveCov as published: trace, radius by the sparse vector technique, then the smaller noise.

In float64, for comparison only. Constants of the paper's code where it has them,
with the radius squared in the Gaussian term; the bounds on noise are its expectations.
"""

from __future__ import annotations

import math

import numpy as np

import seeds
from dong2022.tables import Matrix, Table

FAILURE = 0.1  # beta of the paper's bounds
SMALLEST = -40  # log2 of the smallest radius that is tried


def adaptive(table: Table, rho: float, seed: int) -> Matrix:
    """Estimate of C: rho / 8 for the trace, rho / 8 for the radius, the rest for the release."""
    generator = seeds.generator(seed)
    n, d = table.n, len(table.moment)
    slack = math.sqrt(8 * math.log(8 / FAILURE) / rho) / n
    noisy = table.trace + generator.normal(0, 2 / (math.sqrt(rho) * n)) + slack
    trace = float(np.clip(noisy, 1e-16, 1.0))
    left = 0.75 * rho
    exponent = _radius(table, trace, rho, left, generator)
    radius = min(2.0 ** (exponent + 1), 1.0)
    moment = table.clipped(radius)
    if _gaussian(d, n, left) * radius**2 <= _separate(trace, d, n, left, radius):
        return moment + radius**2 * _symmetric(d, math.sqrt(1 / left), generator)
    vectors = np.linalg.eigh(moment + radius**2 * _symmetric(d, math.sqrt(2 / left), generator))[1]
    values = np.linalg.eigvalsh(moment)
    values = values + radius**2 * math.sqrt(2 / left) * generator.standard_normal(d)
    return (vectors * np.clip(np.sort(values), 0, n * radius**2)) @ vectors.T


def _radius(
    table: Table, trace: float, rho: float, left: float, generator: np.random.Generator
) -> int:
    """Return the first k = 0, -1, .. at which clipping at 2^k seems to cost more than noise."""
    n, d = table.n, len(table.moment)
    each = math.sqrt(rho) / 2
    threshold = generator.laplace(0, 2 / each)
    for k in range(0, SMALLEST, -1):
        above = [(b, table.between(2.0**b, 2.0 ** (b + 1))) for b in range(k, 1)]
        bias = sum(count * (4 * 4.0**b - 4.0**k) for b, count in above) / n
        noise = min(4.0**k * _gaussian(d, n, left), _separate(trace, d, n, left, 2.0**k))
        if n * (bias - noise) / 4.0**k + generator.laplace(0, 4 / each) >= threshold:
            return k
    return SMALLEST


def _gaussian(d: int, n: int, rho: float) -> float:
    return d / (n * math.sqrt(rho))


def _separate(trace: float, d: int, n: int, rho: float, radius: float) -> float:
    vectors = 2**1.25 * math.sqrt(trace * 2 * math.sqrt(d) / n) / rho**0.25 / 6
    return radius * vectors + radius**2 * math.sqrt(2 * d / rho) / n


def _symmetric(d: int, deviation: float, generator: np.random.Generator) -> Matrix:
    """Draw independent entries on and above the diagonal; the sensitivity is sqrt(2)."""
    upper = np.triu(generator.normal(0, deviation, (d, d)))
    return upper + np.triu(upper, 1).T
