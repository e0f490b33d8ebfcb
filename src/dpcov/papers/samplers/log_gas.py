"""Metropolis draws of the spectra of nuclear-Laplace noise: fast, approximate, never for a release.

`pfaffian` holds the two laws and draws them exactly. Here the points start where the limit of large
d puts those of a Gaussian matrix, which have the same local statistics, so few sweeps suffice.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpcov.core.arrays import Vector


SWEEPS = 20
STEP = 3.0  # in units of the scale; the mean spacing in the bulk is 1 to 3
LEAP = 3.0  # factor of the step in a part of the proposals
LEAPS = 0.3


def simulated_eigenvalues(count: int, generator: np.random.Generator) -> Vector:
    """(count,) points near the law of `pfaffian.LineEnsemble`."""
    start = math.pi / 2 * count * _limit_quantiles(_gaussian_levels(count, generator))
    return _metropolis(start, generator, count * (count + 1) / 2, squared=False)


def simulated_singular_values(count: int, generator: np.random.Generator) -> Vector:
    """(count,) points near the law of `pfaffian.HalfLineEnsemble`."""
    levels = (1 + _gaussian_levels(count, generator)) / 2
    start = math.pi * count * _limit_quantiles(levels)
    return _metropolis(start, generator, count**2, squared=True)


def _metropolis(
    points: Vector, generator: np.random.Generator, exponent: float, *, squared: bool
) -> Vector:
    """Sweeps of one-point moves, each followed by an exact draw of the radius sum |x_i|.

    The radius is Gamma(`exponent`), independent of the directions x / sum |x_i|.
    """
    count = len(points)
    for _ in range(SWEEPS):
        steps = STEP * np.where(generator.random(count) < LEAPS, LEAP, 1.0)
        proposals = points + steps * generator.standard_normal(count)
        if squared:
            proposals = np.abs(proposals)
        allowances = generator.exponential(size=count) + np.abs(points) - np.abs(proposals)
        features = points**2 if squared else points.copy()
        wanted = proposals**2 if squared else proposals
        for i in range(count):
            after, before = wanted[i] - features, features[i] - features
            after[i] = before[i] = 1.0
            repulsion = abs(float(np.prod(after / before)))
            if repulsion > 0 and math.log(repulsion) + allowances[i] > 0:
                points[i], features[i] = proposals[i], wanted[i]
        points *= generator.gamma(exponent) / np.abs(points).sum()
    return points


def _gaussian_levels(count: int, generator: np.random.Generator) -> Vector:
    """Where the eigenvalues of a Gaussian orthogonal matrix fall in their limit law, in (0, 1)."""
    normals = generator.standard_normal((count, count))
    values = np.linalg.eigvalsh(normals + normals.T) / math.sqrt(8 * count)
    inside = np.clip(values, -1, 1)
    levels = 0.5 + (inside * np.sqrt(1 - inside**2) + np.arcsin(inside)) / math.pi
    margin = 0.1 / count
    jitter = generator.uniform(-margin, margin, count) / 2  # keeps clipped points apart
    return np.clip(levels, margin, 1 - margin) + jitter


@cache
def _limit_law() -> tuple[Vector, Vector]:
    """Distribution function of the density arccosh(1 / |x|) / pi, and points of [0, 1]."""
    x = np.sin(np.linspace(0, math.pi / 2, 4001)[1:])
    above = 0.5 + (x * np.arccosh(1 / x) + np.arcsin(x)) / math.pi
    return np.append(0.5, above), np.append(0.0, x)


def _limit_quantiles(levels: Vector) -> Vector:
    """Quantiles of the limit law of the spectrum, on [-1, 1] (Ullman's law)."""
    distribution, x = _limit_law()
    sizes = np.interp(0.5 + np.abs(levels - 0.5), distribution, x)
    return np.sign(levels - 0.5) * sizes
