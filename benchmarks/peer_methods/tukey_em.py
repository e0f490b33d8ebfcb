"""TukeyEM (Amin, Joseph, Ribero and Vassilvitskii 2023): a private choice among many models.

The method fits one model to each of m parts of the rows. A point has depth i if, along each
coefficient, at least i models lie on both sides. The method tests privately that deep points
dominate near the data, and then draws a point with a probability that grows with its depth. The
guarantee is (epsilon, delta) under add-remove.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.privacy import zcdp_epsilon
from peer_methods.interface import NoAnswer, Peer, with_intercept

if TYPE_CHECKING:
    from peer_methods.interface import Generator, Matrix, Vector

DELTA = 1e-6
MODELS = 1000  # the paper's choice, or as many as the rows allow
MOST_DRAWS = 10_000


def regression(features: Matrix, target: Vector, rho: float, generator: Generator) -> Vector:
    """Return a model with the epsilon that rho-zCDP implies for a delta of 1e-6.

    Such a guarantee is weaker than rho-zCDP, in favour of the method.
    """
    rows = with_intercept(features)
    count = min(MODELS, len(rows) // rows.shape[1])
    order = generator.permutation(len(rows))
    parts = np.array_split(order, max(1, count))
    models = np.array([np.linalg.lstsq(rows[part], target[part])[0] for part in parts])
    return chosen(models, zcdp_epsilon(rho, DELTA), DELTA, generator)


def chosen(models: Matrix, epsilon: float, delta: float, generator: Generator) -> Vector:
    """Choose among (m, d) models: half of epsilon for the test and half for the choice."""
    ordered = np.sort(models, axis=0)
    half, least = epsilon / 2, len(models) // 4
    volumes = log_volumes(ordered)
    distance = distance_to_unsafe(volumes, half, delta, least)
    if distance + generator.laplace(scale=1 / half) <= math.log(1 / (2 * delta)) / half:
        raise NoAnswer("The test of the depths failed.")
    depths = np.arange(least, len(volumes))
    outer, inner = volumes[depths], np.append(volumes[depths[1:]], -np.inf)
    with np.errstate(divide="ignore"):
        exact = outer + np.log(-np.expm1(inner - outer))
    depth = int(depths[np.argmax(exact + half * depths + generator.gumbel(size=len(depths)))])
    return drawn(ordered, depth, generator)


def log_volumes(ordered: Matrix) -> Vector:
    """Return the log volume of the box of depth at least i, for each i from 0; depth 0 is all."""
    deepest = len(ordered) // 2
    with np.errstate(divide="ignore"):
        boxes = [np.log(ordered[-i] - ordered[i - 1]).sum() for i in range(1, deepest + 1)]
    return np.array([np.inf, *boxes])


def distance_to_unsafe(volumes: Vector, epsilon: float, delta: float, depth: int) -> int:
    """Return a lower bound on the number of rows to change until a choice could leak.

    Changing k rows is safe if, for some g > 0, the volume ratio of the depths `depth - k - 1` and
    `depth + k + g + 1` is at most e^(epsilon g / 2) delta / (8 e^epsilon).
    """
    least = math.log(delta / 8) - epsilon
    for k in range(depth - 1):
        inner = volumes[depth + k + 2 :]
        gains = epsilon / 2 * np.arange(1, len(inner) + 1)
        if not len(inner) or np.min(volumes[depth - k - 1] - inner - gains) > least:
            return k - 1
    return depth - 2


def drawn(ordered: Matrix, depth: int, generator: Generator) -> Vector:
    """Draw a point of exactly this depth: a point of its box that is not in the next box."""
    low, high = ordered[depth - 1], ordered[-depth]
    inner = 2 * (depth + 1) <= len(ordered)
    for _ in range(MOST_DRAWS):
        point = generator.uniform(low, high)
        if not inner or not np.all((ordered[depth] <= point) & (point <= ordered[-depth - 1])):
            break
    return np.asarray(point)


PEERS = [Peer("TukeyEM", "rho", regression=regression)]
