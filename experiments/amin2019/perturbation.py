"""Private ridge regression, one model at a time: the paper's baselines for its one release.

Rows are x = (a, y) with ||x|| <= 1, neighbours replace one row, and J is the objective of `ridge`.
The sources assume a loss with a derivative of at most 1. Squared loss violates this assumption, so
this module proves the constants again.

1. Minimisers are short. C/n = [[A, c], [c', v]] is positive semidefinite, so c = A^(1/2) m with
   ||m||^2 <= v <= 1 and w = (A + 2 alpha)^-1 A^(1/2) m: ||w|| <= max_l sqrt(l)/(l + 2 alpha)
   = 1/(2 sqrt(2 alpha)) =: R.
2. On ||w|| <= R a row's gradient (w.a - y) a has norm at most max over s = ||a|| of
   s (R s + sqrt(1 - s^2)) = (R + sqrt(R^2 + 1))/2 =: G.
3. J is 2 alpha strongly convex. Replacing one row therefore moves the minimiser by at most
   (2 G/n)/(2 alpha) = G/(alpha n). Chaudhuri, Monteleoni and Sarwate 2011 (Lemma 7 and
   Corollary 8) have 2/(n Lambda); with Lambda = 2 alpha, G times this is the same bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from amin2019 import ridge
from dpcov.core.privacy import gaussian_mu

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


def radius(alpha: float) -> float:
    """Return R, the largest norm of a minimiser."""
    return 1 / (2 * np.sqrt(2 * alpha))


def lipschitz(alpha: float) -> float:
    """Return G, the largest norm of a row's gradient for ||w|| <= R."""
    return float((radius(alpha) + np.hypot(radius(alpha), 1.0)) / 2)


def sensitivity(n: int, alpha: float) -> float:
    """Return the largest distance by which replacing one row moves the minimiser."""
    return lipschitz(alpha) / (alpha * n)


def output_perturbation(
    moment: Matrix, n: int, alpha: float, epsilon: float, generator: np.random.Generator
) -> Matrix:
    """Run Algorithm 1 of Chaudhuri et al. 2011.

    The noise has the density exp(-epsilon ||b|| / sensitivity). Each column's model is epsilon-DP.
    Clipping to the ball of radius R is post-processing.
    """
    d = len(moment)
    lengths = generator.gamma(d - 1, sensitivity(n, alpha) / epsilon, d)
    return _shortened(_with_noise(moment, n, alpha, lengths, generator), radius(alpha))


def gaussian_output_perturbation(
    moment: Matrix,
    n: int,
    alpha: float,
    budget: tuple[float, float],
    models: int,
    generator: np.random.Generator,
) -> Matrix:
    """Add Gaussian noise to the minimisers: `models` of them are (epsilon, delta)-DP together."""
    mu = gaussian_mu(*budget) / np.sqrt(models)
    solved = ridge.weights(moment, 2 * alpha * n)
    noise = generator.normal(0.0, sensitivity(n, alpha) / mu, moment.shape)
    np.fill_diagonal(noise, 0.0)
    return _shortened(solved + noise, radius(alpha))


def objective_perturbation(
    moment: Matrix, n: int, alpha: float, epsilon: float, generator: np.random.Generator
) -> Matrix:
    """Minimise J + b.w/n + extra ||w||^2 in ball R (Kifer, Smith and Thakurta 2012, Algorithm 1).

    Let D = 2 alpha n + 2 n extra. Replacing a row changes b by at most 2 G, and the Jacobian by a
    factor of at most 1 + 1/D. The Jacobian costs log(1 + 1/D), and `extra` grows until this cost is
    at most epsilon/2. The density of b is exp(-(epsilon - log(1 + 1/D)) ||b|| / 2G).
    """
    enough = np.exp(-epsilon / 2) / -np.expm1(-epsilon / 2)  # 1 / (exp(epsilon / 2) - 1)
    d, curvature = len(moment), max(2 * alpha * n, enough)
    scale = 2 * lipschitz(alpha) / (epsilon - np.log1p(1 / curvature))
    lengths = generator.gamma(d - 1, scale, d)
    solved = np.zeros_like(moment)
    for t in range(d):
        others = np.arange(d) != t
        slope = moment[others, t] - lengths[t] * _direction(d - 1, generator)
        solved[others, t] = in_ball(moment[np.ix_(others, others)], slope, curvature, radius(alpha))
    return solved


def in_ball(moment: Matrix, slope: Vector, curvature: float, limit: float) -> Vector:
    """Minimise w'(M + curvature I)w/2 - slope.w over ||w|| <= limit."""
    values, vectors = np.linalg.eigh(moment)
    turned = vectors.T @ slope

    def excess(multiplier: float) -> float:
        return float(np.linalg.norm(turned / (values + curvature + multiplier))) - limit

    multiplier = 0.0
    if excess(0.0) > 0:
        multiplier = brentq(excess, 0.0, float(np.linalg.norm(turned)) / limit)
    return vectors @ (turned / (values + curvature + multiplier))


def _with_noise(
    moment: Matrix, n: int, alpha: float, lengths: Vector, generator: np.random.Generator
) -> Matrix:
    solved = ridge.weights(moment, 2 * alpha * n)
    for t, length in enumerate(lengths):
        others = np.arange(len(moment)) != t
        solved[others, t] += length * _direction(len(moment) - 1, generator)
    return solved


def _direction(q: int, generator: np.random.Generator) -> Vector:
    normals = generator.normal(size=q)
    return normals / np.linalg.norm(normals)


def _shortened(solved: Matrix, limit: float) -> Matrix:
    """Clip the models to the ball."""
    lengths = np.linalg.norm(solved, axis=0)
    return solved * np.minimum(1.0, limit / np.maximum(lengths, 1e-300))
