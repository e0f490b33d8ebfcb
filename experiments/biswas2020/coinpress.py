"""CoinPress's mean and covariance, as the paper has them, and as the authors' code has them.

rho-zCDP, replace-one, floating-point noise: for simulation only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from faults import factor

Matrix = NDArray[np.float64]
Order = Literal["paper", "code"]
Negative = Literal["zero", "size"]

MEAN_OUTSIDE, COVARIANCE_OUTSIDE = 0.01, 0.1


def tail(d: int, share: float) -> float:
    """Return the norm that a standard normal vector exceeds with probability at most `share`."""
    log = math.log(1 / share)
    return math.sqrt(d + 2 * math.sqrt(d * log) + 2 * log)


def shares(rho: float, t: int) -> list[float]:
    """Return the budget of each step: a quarter for all steps but the last."""
    return [rho] if t == 1 else [rho / (4 * (t - 1))] * (t - 1) + [0.75 * rho]


def clipped(rows: Matrix, radius: float) -> Matrix:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, radius / np.maximum(norms, 1e-300))


def mean_steps(n: int, d: int, radius: float, rho: float, t: int) -> Iterator[tuple[float, float]]:
    """Clip, and deviation of the noise, of each step: they don't depend on the rows."""
    reach = tail(d, MEAN_OUTSIDE)
    for share in shares(rho, t):
        clip = min(math.sqrt(radius**2 + 6 * radius + reach**2), radius + reach)
        deviation = 2 * clip / n / math.sqrt(2 * share)
        yield clip, deviation
        radius = math.sqrt(1 / n + deviation**2) * reach


def mean(rows: Matrix, radius: float, rho: float, t: int, generator: np.random.Generator) -> Matrix:
    """Estimate the mean of rows of covariance at most I whose mean is within `radius` of 0."""
    n, d = rows.shape
    centre = np.zeros(d)
    rho /= factor("mean", d, n) ** 2
    for clip, deviation in mean_steps(n, d, radius, rho, t):
        noise = deviation * generator.standard_normal(d)
        centre = centre + clipped(rows - centre, clip).mean(axis=0) + noise
    return centre


def mean_error(n: int, d: int, radius: float, rho: float, t: int) -> float:
    """Return the root mean square error for rows of covariance I if no row is clipped."""
    *_, (_, deviation) = mean_steps(n, d, radius, rho, t)
    return math.sqrt(d * (1 / n + deviation**2))


def covariance_error(n: int, d: int, upper: float, rho: float, t: int) -> float:
    """Return the same error for the covariance I, from the map of a step without noise."""
    mapped = 1 / upper
    for _ in range(t - 1):
        mapped /= mapped + slack_of(n, d)
    noise = tail(d, COVARIANCE_OUTSIDE) ** 2 / n / math.sqrt(shares(rho, t)[-1])
    return math.sqrt(d * (d + 1) / n + (d * noise / mapped) ** 2)


def slack_of(n: int, d: int) -> float:
    """Return the amount by which a step can underestimate a direction."""
    return 0.5 * (2 * math.sqrt(d / n) + d / n)


def covariance(
    rows: Matrix,
    upper: float,
    rho: float,
    t: int,
    generator: np.random.Generator,
    *,
    order: Order = "paper",
    negative: Negative = "zero",
) -> Matrix:
    """Estimate the covariance of rows of mean 0 and covariance at most `upper` I.

    `order`: the paper maps rows by A, the code by A'. Both update the map as U^(-1/2) A.
    `negative`: the paper sets eigenvalues below 0 to 0, the code to their absolute values.
    """
    n, d = rows.shape
    reach = tail(d, COVARIANCE_OUTSIDE)
    slack = slack_of(n, d)
    rho /= factor("covariance", d, n) ** 2
    shape = np.eye(d) / math.sqrt(upper)
    for step, share in enumerate(shares(rho, t)):
        mapped = clipped(rows @ (shape.T if order == "paper" else shape), reach)
        noise = np.triu(generator.standard_normal((d, d))) * reach**2 / n / math.sqrt(share)
        noisy = mapped.T @ mapped / n + noise + np.triu(noise, 1).T
        values, vectors = np.linalg.eigh(noisy)
        values = np.maximum(values, 0.0) if negative == "zero" else np.abs(values)
        found = (vectors * values) @ vectors.T
        if step < t - 1:
            shape = (vectors / np.sqrt(values + slack)) @ vectors.T @ shape
    inverse = np.linalg.inv(shape)
    return inverse @ found @ (inverse.T if order == "paper" else inverse)
