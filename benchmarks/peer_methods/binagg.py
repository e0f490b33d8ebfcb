"""BinAgg (Lin, Slavkovic and Bhoomireddy 2026): regression with intervals from noisy bins.

The method cuts the features into bins by PrivTree (Zhang, Xiao and Xie 2016). It adds Gaussian
noise to the count and the sums of each bin, and then fits the sums by weighted least squares. The
noise of the sums of features would shrink the coefficients, so its known variance is subtracted.
The budget is mu of Gaussian differential privacy under add-remove, with mu = sqrt(2 rho).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import norm

from peer_methods.interface import NoAnswer, Peer, with_intercept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peer_methods.interface import Generator, Matrix, Vector

SHARES = np.array([1, 3, 3, 3]) / math.sqrt(28)  # of mu: bins, counts, features and targets
LEAST_COUNT = 2  # bins with a smaller noisy count are left out


class Bins(NamedTuple):
    """Noisy counts (K,), sums of features (K, k) and targets (K,), and noise of the features."""

    counts: Vector
    features: Matrix
    targets: Vector
    deviations: Matrix


class Fit(NamedTuple):
    """Coefficients and standard errors, shape (k,)."""

    weights: Vector
    errors: Vector

    def interval(self, level: float = 0.95) -> tuple[Vector, Vector]:
        reach = norm.ppf((1 + level) / 2) * self.errors
        return self.weights - reach, self.weights + reach


def leaves(
    features: Matrix, low: Vector, high: Vector, epsilon: float, generator: Generator
) -> Iterator[tuple[Vector, Vector, Vector]]:
    """Yield lower corner, upper corner and row numbers of each bin of PrivTree.

    A bin is halved at the widest feature if its count, less a penalty for its depth, exceeds 0
    after Laplace noise.
    """
    scale = 3 / epsilon  # (2 b - 1) / (b - 1) / epsilon for halves, b = 2
    penalty = scale * math.log(2)
    open_bins = [(low, high, np.arange(len(features)), 0)]
    while open_bins:
        low, high, inside, depth = open_bins.pop()
        score = max(len(inside) - depth * penalty, -penalty) + generator.laplace(scale=scale)
        if score <= 0:
            yield low, high, inside
            continue
        at = int(np.argmax(high - low))
        middle = (low[at] + high[at]) / 2
        left = features[inside, at] < middle
        below, above = high.copy(), low.copy()
        below[at] = above[at] = middle
        open_bins += [
            (low, below, inside[left], depth + 1),
            (above, high, inside[~left], depth + 1),
        ]


def aggregated(
    features: Matrix,
    bounds: tuple[Vector, Vector],
    target: Vector,
    reach: float,
    mu: float,
    generator: Generator,
) -> Bins:
    """Return the noisy sums of each bin; `reach` bounds the size of the target.

    Each coordinate of a sum gets noise for its own largest size, as the authors' package has it.
    """
    mu_bins, mu_counts, mu_features, mu_targets = mu * SHARES
    # Pure privacy with this epsilon is Gaussian privacy with mu_bins.
    epsilon = norm.logcdf(mu_bins / 2) - norm.logcdf(-mu_bins / 2)
    found = list(leaves(features, *bounds, epsilon, generator))
    sizes = np.array([np.maximum(abs(low), abs(high)) for low, high, _ in found])
    deviations = sizes / mu_features
    counts = np.array([len(inside) for *_, inside in found], float)
    sums = np.array([features[inside].sum(axis=0) for *_, inside in found])
    targets = np.array([target[inside].sum() for *_, inside in found])
    counts = np.rint(counts + generator.normal(size=len(found)) / mu_counts)
    sums = sums + deviations * generator.normal(size=sums.shape)
    targets = targets + reach / mu_targets * generator.normal(size=len(found))
    kept = counts >= LEAST_COUNT
    return Bins(counts[kept], sums[kept], targets[kept], deviations[kept])


def fitted(bins: Bins) -> Fit:
    """Fit weighted least squares without the noise's share, with sandwich standard errors."""
    count, k = bins.features.shape
    if count <= k:
        raise NoAnswer(f"{count} bins for {k} coefficients")
    weights = 1 / bins.counts
    weighted = bins.features * weights[:, None]
    noise = weights[:, None] * bins.deviations**2  # (K, k): diagonals of the noise's part
    inverse = np.linalg.pinv(weighted.T @ bins.features - np.diag(noise.sum(axis=0)))
    found = inverse @ (weighted.T @ bins.targets)
    left = bins.targets - bins.features @ found
    scores = weighted * left[:, None] + noise * found
    middle = scores.T @ scores * (count / (count - k))
    return Fit(found, np.sqrt(np.diag(inverse @ middle @ inverse)))


def regression(features: Matrix, target: Vector, rho: float, generator: Generator) -> Vector:
    """Return the coefficients of features and target in [-1, 1]."""
    rows = with_intercept(features)
    high = np.ones(rows.shape[1])
    low = -high
    low[0] = 1  # the intercept is 1 in every bin
    bins = aggregated(rows, (low, high), target, 1.0, math.sqrt(2 * rho), generator)
    return fitted(bins).weights


PEERS = [Peer("BinAgg", "rho", regression=regression)]
