"""GaussCov, SeparateCov, AdaptiveCov and the default: replace-one, rho-zCDP.

SeparateCov is the library's `separate-gaussian` with noisy eigenvalues, not denoised; AdaptiveCov
is `published`. The library's `adaptive-gaussian` has a histogram of norms in place of its trace
and sparse vector technique.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import seeds
from dong2022.published import adaptive
from dong2022.tables import Matrix, Table
from dpcov.core.entropy import simulation_generator
from dpcov.core.privacy import ZCDP, Neighbors
from dpcov.denoise import best_estimate, denoise
from dpcov.mechanisms import AdaptiveGaussian, Gaussian, Mechanism, SeparateGaussian
from dpcov.mechanisms.choice import choose
from faults import factor
from slopes import Mean

REPLACE = Neighbors.REPLACE_ONE
Method = Callable[[Table, float, int], Matrix]


def released(mechanism: Mechanism, denoising: str) -> Method:
    def method(table: Table, rho: float, seed: int) -> Matrix:
        made = mechanism(
            table.rows, budget=ZCDP(rho), neighbors=REPLACE, entropy=seeds.entropy(seed)
        )
        return best_estimate(
            denoise(made, denoising, generator=simulation_generator(seeds.own(seed)))
        )

    return method


def default(table: Table, rho: float, seed: int) -> Matrix:
    """Return the library's default method."""
    return released(taken(table, rho), "shrink")(table, rho, seed)


def taken(table: Table, rho: float) -> Mechanism:
    """Return the mechanism that `auto` chooses for a table."""
    return choose(table.rows.schema, ZCDP(rho), REPLACE).mechanism


def unprojected(table: Table, rho: float, seed: int) -> Matrix:
    """Estimate by GaussCov: C plus the noise, without the library's noise threshold."""
    lattice = table.rows.lattice()
    law = Gaussian(trace_share=0.0).calibrate(lattice, ZCDP(rho), REPLACE).matrix
    return table.moment + law.sample(seeds.entropy(seed)).astype(float) * lattice.step**2


def gaussian_error(table: Table, rho: float) -> float:
    """Return GaussCov's theoretical root mean square error.

    Rows of norm 1 have the squared sensitivity 2, so rho-zCDP needs variance 1/rho on the diagonal
    and half of it off it, where each entry counts twice.
    """
    d = len(table.moment)
    return math.sqrt(d * (d + 1) / 2 / rho) / table.n


METHODS: dict[str, Method] = {
    "GaussCov": unprojected,
    "SeparateCov": released(SeparateGaussian("eigenvalues"), "none"),
    "AdaptiveCov": adaptive,
    "adaptive-gaussian": released(AdaptiveGaussian(), "none"),
    "adaptive-gaussian, denoised": released(AdaptiveGaussian(), "shrink"),
    "separate, Rayleigh values, denoised": released(SeparateGaussian("rayleigh"), "shrink"),
    "ours": default,
}
PAPERS = ("SeparateCov", "AdaptiveCov")


def error(name: str, table: Table, rho: float, repeats: int) -> Mean:
    """Return the mean error of a method."""
    rho /= factor(name, len(table.moment), table.n) ** 2
    draws = [table.error(METHODS[name](table, rho, seed)) for seed in range(repeats)]
    return Mean.of(np.array(draws))
