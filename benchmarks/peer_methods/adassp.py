"""AdaSSP (Wang 2018) in zCDP: noisy sums of one regression, and a penalty from their noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from peer_methods.interface import Peer, with_intercept
from private_regression import Moments, adassp_of_noise

if TYPE_CHECKING:
    from peer_methods.interface import Generator, Matrix, Vector

FAILURE = 1e-6  # probability that the smallest eigenvalue is overestimated


def multiplier(rho: float) -> float:
    """Return the deviation of each of three Gaussian mechanisms, in sensitivities."""
    return math.sqrt(3 / (2 * rho))


def regression(features: Matrix, target: Vector, rho: float, generator: Generator) -> Vector:
    """Run Algorithm 2 of Wang 2018 with three Gaussian mechanisms of rho / 3 each."""
    rows = with_intercept(features)
    length = math.sqrt(rows.shape[1])
    moments = Moments(rows.T @ rows, rows.T @ target, len(rows), length)
    slack = multiplier(rho) * math.sqrt(2 * math.log(1 / FAILURE))
    return np.asarray(adassp_of_noise(moments, multiplier(rho), slack, generator))


PEERS = [Peer("AdaSSP", "rho", regression=regression)]
