"""Approximate spectra of nuclear-Laplace noise by a Metropolis sampler, for simulations only.

A release never uses this sampler. The module `pfaffian` draws from the same two distributions
exactly. The sampler starts from the spectrum of a Gaussian matrix, transformed to the limiting
spectrum for large d. Both spectra have the same local statistics, so few sweeps are enough.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpcov.core.arrays import Vector


# Number of sweeps.
SWEEP_COUNT = 20
# Standard deviation of a step, in units of the scale. The mean spacing of inner points is 1 to 3.
STEP_SIZE = 3.0
# Factor of the step size in a part of the proposals.
LEAP_FACTOR = 3.0
# Fraction of the proposals with the larger step size.
LEAP_FREQUENCY = 0.3


def simulated_eigenvalues(count: int, generator: np.random.Generator) -> Vector:
    """Simulate points with approximately the distribution of `pfaffian.LineEnsemble`.

    Parameters
    ----------
    count : int
        Number of points.
    generator : numpy.random.Generator
        Source of random numbers.

    Returns
    -------
    ndarray of float, shape (count,)
        Points.

    """
    start = math.pi / 2 * count * _limit_quantiles(_gaussian_levels(count, generator))
    return _metropolis(start, generator, count * (count + 1) / 2, squared=False)


def simulated_singular_values(count: int, generator: np.random.Generator) -> Vector:
    """Simulate points with approximately the distribution of `pfaffian.HalfLineEnsemble`.

    Parameters
    ----------
    count : int
        Number of points.
    generator : numpy.random.Generator
        Source of random numbers.

    Returns
    -------
    ndarray of float, shape (count,)
        Points.

    """
    levels = (1 + _gaussian_levels(count, generator)) / 2
    start = math.pi * count * _limit_quantiles(levels)
    return _metropolis(start, generator, count**2, squared=True)


def _metropolis(
    points: Vector, generator: np.random.Generator, exponent: float, *, squared: bool
) -> Vector:
    """Move the points in several sweeps, each followed by an exact draw of the radius.

    The radius is the sum of ``|x_i|``. It has a gamma distribution with the shape `exponent`,
    independent of the directions ``x / sum |x_i|``.
    """
    count = len(points)
    for _ in range(SWEEP_COUNT):
        steps = STEP_SIZE * np.where(generator.random(count) < LEAP_FREQUENCY, LEAP_FACTOR, 1.0)
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
    """Return the levels of a Gaussian orthogonal spectrum in its limiting distribution.

    The levels lie between 0 and 1.
    """
    normals = generator.standard_normal((count, count))
    values = np.linalg.eigvalsh(normals + normals.T) / math.sqrt(8 * count)
    inside = np.clip(values, -1, 1)
    levels = 0.5 + (inside * np.sqrt(1 - inside**2) + np.arcsin(inside)) / math.pi
    margin = 0.1 / count
    jitter = generator.uniform(-margin, margin, count) / 2  # keeps clipped points apart
    return np.clip(levels, margin, 1 - margin) + jitter


@cache
def _limit_law() -> tuple[Vector, Vector]:
    """Return the limiting distribution function at points of [0, 1], and these points.

    The density is ``arccosh(1 / |x|) / pi``.
    """
    x = np.sin(np.linspace(0, math.pi / 2, 4001)[1:])
    above = 0.5 + (x * np.arccosh(1 / x) + np.arcsin(x)) / math.pi
    return np.append(0.5, above), np.append(0.0, x)


def _limit_quantiles(levels: Vector) -> Vector:
    """Return quantiles of the limiting spectrum on [-1, 1] (Ullman's distribution)."""
    distribution, x = _limit_law()
    sizes = np.interp(0.5 + np.abs(levels - 0.5), distribution, x)
    return np.sign(levels - 0.5) * sizes
