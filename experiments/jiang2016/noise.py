"""The noise of Table 1 and ours, in units where rows have norm 1 and the matrix is X X' (not / n).

All scale as 1/epsilon, so epsilon is 1. Neighbours replace one row, as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpcov.core.privacy import ApproxDP, Budget, Neighbors, PureDP
from dpcov.core.samplers import MatrixLaw
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.matrix_laplace import MatrixLaplace
from dpcov.papers.laplace import Laplace
from dpcov.rows.moment import Lattice
from faults import faulty

Matrix = NDArray[np.float64]
Draw = Callable[[int, np.random.Generator], Matrix]
WISHART_SCALE = 1.5
DELTA = 1e-6
DWORK = math.sqrt(2 * math.log(1.25 / DELTA))


@faulty("Wishart")
def wishart(d: int, generator: np.random.Generator) -> Matrix:
    """Draw the noise of Algorithm 2: W_d(d + 1, 3/(2 epsilon) I)."""
    normals = generator.standard_normal((d, d + 1))
    return WISHART_SCALE * (normals @ normals.T)


def _gaussian(scale: float, d: int, generator: np.random.Generator) -> Matrix:
    """Draw independent normals on the upper triangle, all with the same standard deviation."""
    upper = np.triu(generator.standard_normal((d, d)))
    return scale * (upper + np.triu(upper, 1).T)


@faulty("Dwork et al. 2014")
def dwork(d: int, generator: np.random.Generator) -> Matrix:
    """Draw noise of Algorithm 1 of Dwork et al. 2014: deviation sqrt(2 ln(1.25/delta))/epsilon."""
    return _gaussian(DWORK, d, generator)


def blum_deviation(d: int) -> float:
    """Return SuLQ's deviation with the constants of Chaudhuri, Sarwate and Sinha (2012)."""
    entries = (d * d + d) / (2 * math.sqrt(2 * math.pi) * DELTA)
    return (d + 1) * math.sqrt(2 * math.log(entries)) + 1


@faulty("Blum et al. 2005")
def blum(d: int, generator: np.random.Generator) -> Matrix:
    return _gaussian(blum_deviation(d), d, generator)


def _law(mechanism: Laplace | Gaussian | MatrixLaplace, d: int, budget: Budget) -> MatrixLaw:
    lattice = Lattice(features=d, radius=1.0)
    law = mechanism.calibrate(lattice, budget, Neighbors.REPLACE_ONE).matrix
    return law.rescaled(1 / lattice.bound)


@faulty("Laplace (paper)")
def laplace(d: int, generator: np.random.Generator) -> Matrix:
    """Draw the noise of Algorithm 1: scale 2d/epsilon on every entry of the upper triangle."""
    law = _law(Laplace(trace_share=0.0, paper_constants=True), d, PureDP(1.0))
    return law.simulate(generator)


@faulty("Laplace (dpcov)")
def weighted_laplace(d: int, generator: np.random.Generator) -> Matrix:
    return _law(Laplace(trace_share=0.0), d, PureDP(1.0)).simulate(generator)


@faulty("matrix Laplace (dpcov)")
def matrix_laplace(d: int, generator: np.random.Generator) -> Matrix:
    return _law(MatrixLaplace(), d, PureDP(1.0)).simulate(generator)


@faulty("Gaussian (dpcov)")
def gaussian(d: int, generator: np.random.Generator) -> Matrix:
    return _law(Gaussian(), d, ApproxDP(1.0, DELTA)).simulate(generator)


LAWS: dict[str, Draw] = {
    "Laplace (paper)": laplace,
    "Laplace (dpcov)": weighted_laplace,
    "Blum et al. 2005": blum,
    "Wishart": wishart,
    "matrix Laplace (dpcov)": matrix_laplace,
    "Dwork et al. 2014": dwork,
    "Gaussian (dpcov)": gaussian,
}


def spectral_norm(matrix: Matrix) -> float:
    values = np.linalg.eigvalsh(matrix)
    return float(max(-values[0], values[-1]))
