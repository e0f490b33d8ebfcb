"""Private ridge regression of one target, which a release is compared with.

All see the exact second moment of the same encoded rows w = (a, y): a the features with the
intercept, ||a|| <= `length`, and |y| <= 1. Moments are X = sum a a' and c = sum y a.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from amin2019 import perturbation
from dpcov.core.privacy import gaussian_mu

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

FAILURE = 0.05  # rho of AdaSSP


@dataclass(frozen=True)
class Moments:
    """Exact moments of n encoded rows; `length` bounds ||a||."""

    gram: Matrix
    cross: Vector
    count: int
    length: float

    def ridge(self, penalty: float) -> Vector:
        return np.linalg.solve(self.gram + penalty * np.eye(len(self.gram)), self.cross)


def adassp(
    moments: Moments, epsilon: float, delta: float, generator: np.random.Generator, *, tight: bool
) -> Vector:
    """Run Algorithm 2 of Wang 2018 (Revisiting differentially private linear regression).

    The relation is add/remove. As published, each of three Gaussian mechanisms gets (epsilon,
    delta) / 3 and the multiplier sqrt(log(6/delta)) / (epsilon/3). If `tight` is True, the exact
    privacy curve of all three calibrates the noise.
    """
    log = np.log(6 / delta)
    multiplier = np.sqrt(log) / (epsilon / 3)
    slack = log / (epsilon / 3)
    if tight:
        multiplier = np.sqrt(3) / gaussian_mu(epsilon, delta)
        slack = multiplier * np.sqrt(2 * np.log(1 / delta))
    return adassp_of_noise(moments, multiplier, slack, generator)


def adassp_of_noise(
    moments: Moments, multiplier: float, slack: float, generator: np.random.Generator
) -> Vector:
    """Run the same algorithm with stated noise.

    Each of the three Gaussian mechanisms has a standard deviation of `multiplier` sensitivities.
    The smallest eigenvalue is reduced by `slack` sensitivities.
    """
    d = len(moments.gram)
    squared = moments.length**2
    smallest = np.linalg.eigvalsh(moments.gram)[0] + multiplier * squared * generator.normal()
    smallest = max(0.0, smallest - slack * squared)
    noise = np.triu(generator.normal(size=(d, d)))
    gram = moments.gram + multiplier * squared * (noise + np.triu(noise, 1).T)
    cross = moments.cross + multiplier * moments.length * generator.normal(size=d)
    wanted = np.sqrt(d * np.log(2 * d**2 / FAILURE)) * squared * multiplier
    penalty = max(0.0, wanted - smallest)
    return np.linalg.solve(gram + penalty * np.eye(d), cross)


def output_perturbation(
    moments: Moments, alpha: float, epsilon: float, generator: np.random.Generator
) -> Vector:
    """Run Algorithm 1 of Chaudhuri, Monteleoni and Sarwate 2011 with proved constants.

    The relation is replace-one. The sensitivity (`amin2019.perturbation`) needs rows of norm at
    most 1. Rows are therefore scaled by one common factor, (a, y) / sqrt(length^2 + 1), which does
    not change the model.
    """
    n, whole = moments.count, moments.length**2 + 1
    solved = moments.ridge(2 * alpha * n * whole)
    direction = generator.normal(size=len(solved))
    length = generator.gamma(len(solved), perturbation.sensitivity(n, alpha) / epsilon)
    noisy: Vector = solved + length * direction / np.linalg.norm(direction)
    return noisy * min(1.0, perturbation.radius(alpha) / np.linalg.norm(noisy))
