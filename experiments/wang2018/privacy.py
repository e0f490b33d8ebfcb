"""Compute the true guarantees of the slides' noises, by exact formulas and by simulation."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

import seeds
from dpcov.core.privacy import gaussian_delta
from faults import factor
from wang2018.methods import slides_beta, solve, wishart, wishart_degrees

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]


def wishart_impossible_share(d: int, n: int, epsilon: float, draws: int, seed: int) -> float:
    """Return the fraction of outputs S + W that no neighbour's S' + W can equal.

    The noise is W ~ W_d(d+1, 3/(2 n eps) I). S and S' differ in one row, e_1 against e_2; S + W -
    S' must be semidefinite for S' + W.
    """
    generator = seeds.generator(seed)
    change = np.zeros((d, d))
    change[0, 0], change[1, 1] = 1 / n, -1 / n
    scale = factor("Wishart (slides)") * 3 / (2 * n * epsilon)
    lowest = [
        np.linalg.eigvalsh(change + wishart(d, d + 1, scale, generator))[0] for _ in range(draws)
    ]
    return float(np.mean(np.array(lowest) < 0))


def neighbours(d: int, n: int, generator: np.random.Generator) -> tuple[Matrix, Matrix]:
    """Return S and S' of two tables that differ in one row of norm 1."""
    rows = generator.standard_normal((n + 1, d))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    shared = rows[2:].T @ rows[2:]
    return (shared + np.outer(rows[0], rows[0])) / n, (shared + np.outer(rows[1], rows[1])) / n


def output_changes(rho: float, pairs: int, seed: int) -> tuple[float, float]:
    """Return the change of the solution between neighbours, and the leak of Wishart noise.

    The first number is the largest nuclear norm of the change over sqrt(2) d^(5/2) / (n rho^2). The
    second number is the largest fraction of Algorithm 1's outputs (eps = 1) that are impossible for
    the neighbour.
    """
    generator = seeds.generator(seed)
    ratios, shares = [], []
    for _ in range(pairs):
        d, n = int(generator.integers(2, 6)), int(generator.integers(2, 20))
        first, second = neighbours(d, n, generator)
        change = solve(first, rho) - solve(second, rho)
        bound = np.sqrt(2) * d**2.5 / (n * rho**2)
        ratios.append(np.abs(np.linalg.eigvalsh(change)).sum() / bound)
        noises = (wishart(d, d + 1, d**2.5 / (n * rho**2), generator) for _ in range(1000))
        shares.append(np.mean([np.linalg.eigvalsh(change + noise)[0] < 0 for noise in noises]))
    return float(max(ratios)), float(max(shares))


def gaussian_cost(epsilon: float) -> float:
    """Return the exact delta of the slides' noise under replace-one; theirs is `methods.DELTA`.

    On the upper triangle, e_1 e_1' - e_2 e_2' has norm sqrt(2), over n.
    """
    deviation = factor("Gaussian (slides)") * slides_beta(1, epsilon)
    return float(gaussian_delta(np.sqrt(2) / deviation, epsilon))


def wishart_cost(d: int, epsilon: float) -> float:
    """Return the exact delta of S + W_d(m, I/n), m as on the slides, if a row of norm 1 is removed.

    The problem is equivalent to x ~ chi^2 with k = m - d + 1 degrees of freedom against x + 1. The
    current fault divides this 1. A removal gives a lower bound for a replacement, because the new
    row can be 0.
    """
    m = wishart_degrees(d, epsilon)
    k, p = m - d + 1, (m - d - 1) / 2
    shift = 1 / factor("Wishart m (slides)")
    q = -np.expm1(-(epsilon + shift / 2) / p)
    edge = max(shift, shift / q)
    law = stats.chi2(k)
    return float(law.cdf(edge) - np.exp(epsilon) * law.cdf(edge - shift))


def laplace_sensitivity(d: int) -> float:
    """Return the largest sum over i <= j of |D_ij|, D = vv' - uu' with unit u, v, over signs of D.

    It is the largest gap of the spectrum, counted from 0, of the matrices with +-1 on and +-1/2 off
    the diagonal.
    """
    pairs = np.triu_indices(d, 1)
    best = 0.0
    for signs in product((-1.0, 1.0), repeat=d + len(pairs[0]) - 1):
        matrix = np.diag((1.0, *signs[: d - 1]))
        matrix[pairs] = np.array(signs[d - 1 :]) / 2
        values = np.linalg.eigvalsh(matrix, UPLO="U")
        best = max(best, max(values[-1], 0) - min(values[0], 0))
    return float(best)
