"""Running times (section 4): leading directions of A + W, and Kapralov and Talwar's pieces."""

from __future__ import annotations

import math
import time
from itertools import product
from pathlib import Path

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

import seeds
from amin2019.tables import synthetic
from claims import Finding
from dpcov.core.privacy import Neighbors, PureDP
from dpcov.mechanisms import KapralovTalwar
from jiang2016.noise import WISHART_SCALE
from slopes import Mean, log_slope

PRECISION = 1e-6  # relative, of the eigenvalues
FLAT = 0.1  # exponent of d that counts as no growth of the number of products
EXPONENT = 6.0  # of d, as printed for Kapralov and Talwar


def products(spectrum: np.ndarray, k: int, generator: np.random.Generator) -> int:
    """Count the products of A + W with a vector that find the k leading eigenvectors.

    A is diagonal. W is a product of normal matrices, which no step computes, so that each product
    with a vector needs about 2 d^2 operations.
    """
    d, count = len(spectrum), 0
    normals = generator.standard_normal((d, d + 1))

    def product_with(vector: np.ndarray) -> np.ndarray:
        nonlocal count
        count += 1
        return spectrum * vector + WISHART_SCALE * (normals @ (normals.T @ vector))

    operator = LinearOperator((d, d), matvec=product_with, dtype=float)
    eigsh(operator, k, v0=generator.standard_normal(d), tol=PRECISION)
    return count


def leading_directions(small: bool, folder: Path) -> Finding:
    """Fit the growth of the number of products with d and k, for eigenvalues above the noise."""
    generator, repeats = seeds.generator(20160014), 1 if small else 5
    orders, ranks = (100, 200, 400, 800), (1, 4, 16)
    found = {
        (d, k): float(
            np.mean([products(1e4 * d / np.arange(1, d + 1), k, generator) for _ in range(repeats)])
        )
        for d, k in product(orders, ranks)
    }
    in_d = {k: log_slope(orders, [Mean(found[d, k], 0.0) for d in orders]).value for k in ranks}
    in_k = log_slope(ranks, [Mean(found[orders[-1], k], 0.0) for k in ranks]).value
    return Finding(
        f"products with a vector at d = {orders[-1]}: "
        + ", ".join(f"{found[orders[-1], k]:.0f} (k = {k})" for k in ranks)
        + f", exponent of k {in_k:.2f}; exponents of d "
        + ", ".join(f"{slope:.2f}" for slope in in_d.values()),
        in_k <= 1 and max(in_d.values()) <= FLAT,
    )


def pieces(small: bool, folder: Path) -> Finding:
    """Fit the growth of the CPU time of all pieces with d and 1/epsilon, by dpcov's exact draws."""

    def seconds(d: int, epsilon: float) -> float:
        spectrum = 1e3 * d / np.arange(1, d + 1)
        held = synthetic(f"times {d}", np.diag(spectrum), math.ceil(spectrum.sum()))
        began = time.process_time()
        KapralovTalwar(d)(
            held.rows,
            budget=PureDP(epsilon),
            neighbors=Neighbors.REPLACE_ONE,
            entropy=seeds.entropy(d),
        )
        return time.process_time() - began

    orders, budgets = (10, 20, 40, 80), (0.1, 1.0, 10.0)
    seconds(orders[0], 1.0)  # imports and caches
    by_order = {d: seconds(d, 1.0) for d in orders}
    by_budget = {epsilon: seconds(20, epsilon) for epsilon in budgets}
    in_d, in_epsilon = (
        log_slope(list(times), [Mean(value, 0.0) for value in times.values()]).value
        for times in (by_order, by_budget)
    )
    return Finding(
        f"exponent of d {in_d:.1f} (d = {orders[0]} to {orders[-1]}, {by_order[orders[-1]]:.2g} s "
        f"of CPU at most), of eps {in_epsilon:.1f}",
        in_d <= EXPONENT and in_epsilon >= -1,
    )
