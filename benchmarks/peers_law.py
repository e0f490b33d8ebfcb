r"""Compute the distribution from which two libraries draw eigenvectors, and its privacy loss.

Both libraries want to sample the Bingham distribution exp(-u'Au), A = epsilon/4 (l_max I - C). They
use rejection from the angular central Gaussian distribution. Its density is proportional to
(u'Wu)^(-d/2), with W = I + 2A/b. The correct acceptance probability is
exp(-u'Au) (u'Wu)^(d/2) / M. Both libraries divide by (u'Wu)^(d/2) instead. This number is at most 1
too, since M >= 1 and u'Wu >= 1. Their draws thus have exactly the density proportional to

    exp(-u'Au) (u'Wu)^(-d).

The densities below are relative to the uniform distribution. C is diagonal, with two eigenvalues l1
and l2 and all others 0. The densities are functions of the squares of the first two coordinates.
Under the uniform distribution these squares are Dirichlet(1/2, 1/2, (d - 2)/2), and Gauss-Jacobi
quadrature integrates them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import logsumexp, roots_jacobi

Vector = NDArray[np.float64]
LogDensity = Callable[[Vector, Vector], Vector]
NODES = 120


def log_density(l1: float, l2: float, d: int, epsilon: float, *, exact: bool) -> LogDensity:
    """Return the log density of a drawn direction.

    If `exact` is True, this is the Bingham density; otherwise it is the density of the other
    library.
    """
    top = max(l1, l2, 0.0)
    a1, a2, a3 = (epsilon / 4 * (top - eigenvalue) for eigenvalue in (l1, l2, 0.0))
    b = brentq(
        lambda b: 1 / (b + 2 * a1) + 1 / (b + 2 * a2) + (d - 2) / (b + 2 * a3) - 1, 0.5, d + 1.0
    )

    def unnormalised(p: Vector, q: Vector) -> Vector:
        form = a1 * p + a2 * q + a3 * (1 - p - q)
        return -form if exact else -form - d * np.log1p(2 * form / b)

    p, q, weights = squares(d)
    total = logsumexp(unnormalised(p, q), b=weights)
    return lambda p, q: unnormalised(p, q) - total


def mean_square(eigenvalues: Sequence[float], epsilon: float, *, exact: bool) -> float:
    """Return the mean of u_1^2. Only the first eigenvalue may differ from 0."""
    d = len(eigenvalues)
    p, q, weights = squares(d)
    density = np.exp(log_density(eigenvalues[0], 0.0, d, epsilon, exact=exact)(p, q))
    return float(np.sum(weights * density * p))


def largest_loss(d: int, epsilon: float, *, exact: bool) -> float:
    """Return the largest privacy loss, over epsilon, when one of many equal rows is replaced.

    A table with l + 1 rows e_1 becomes a table with l rows e_1 and one row e_2. The search covers a
    grid of l and three directions: e_1, e_2 and a direction orthogonal to both. An epsilon-DP
    mechanism has a ratio of at most 1.
    """
    corners = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    found = 0.0
    for equal in np.linspace(0, 4 * d / epsilon, 200):
        before = log_density(equal + 1, 0.0, d, epsilon, exact=exact)
        after = log_density(equal, 1.0, d, epsilon, exact=exact)
        found = max(found, float(np.abs(before(*corners) - after(*corners)).max()))
    return found / epsilon


@cache
def squares(d: int) -> tuple[Vector, Vector, Vector]:
    """Return nodes and weights for the first two squared coordinates of a uniform direction."""
    first, weights = _beta(0.5, (d - 1) / 2)
    if d == 2:
        return first, 1 - first, weights
    second, inner = _beta(0.5, (d - 2) / 2)
    p = np.repeat(first, len(second))
    return p, np.outer(1 - first, second).ravel(), np.outer(weights, inner).ravel()


def _beta(a: float, b: float) -> tuple[Vector, Vector]:
    """Return nodes and weights for the distribution Beta(a, b)."""
    nodes, weights = roots_jacobi(NODES, b - 1, a - 1)
    return (1 + nodes) / 2, weights / weights.sum()
