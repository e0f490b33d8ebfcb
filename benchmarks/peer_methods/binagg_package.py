"""BinAgg by the package of its authors (github.com/Shuronglin/BinAgg), if it is installed.

The published figures are of commit 95262ec.
"""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from peer_methods.interface import Peer, with_intercept

if TYPE_CHECKING:
    from peer_methods.interface import Generator, Matrix, Vector

INSTALLED = find_spec("binagg") is not None


def fitted(
    columns: Matrix, bounds: Matrix, target: Vector, reach: float, mu: float, seed: int
) -> tuple[Vector, Matrix]:
    """Return coefficients (k,) and 95% intervals (2, k) for columns with bounds (2, k)."""
    from binagg import dp_linear_regression

    pairs = [(float(low), float(high)) for low, high in bounds.T]
    with np.errstate(invalid="ignore"):  # of errors that it computes and that nobody asks for
        fit = dp_linear_regression(columns, target, pairs, (-reach, reach), mu, random_state=seed)
    return fit.coefficients, fit.confidence_intervals.T


def regression(features: Matrix, target: Vector, rho: float, generator: Generator) -> Vector:
    """Return the coefficients of features and target in [-1, 1]."""
    columns = with_intercept(features)
    bounds = np.array([[-1.0], [1.0]]) * np.ones(columns.shape[1])
    bounds[0, 0] = 1
    seed = int(generator.integers(2**31))
    return fitted(columns, bounds, target, 1.0, math.sqrt(2 * rho), seed)[0]


PEERS = [Peer("BinAgg (its authors' package)", "rho", regression=regression)] if INSTALLED else []
