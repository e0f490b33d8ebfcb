"""Output perturbation (Chaudhuri, Monteleoni and Sarwate 2011): noise on ridge coefficients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from peer_methods.interface import Peer, with_intercept
from private_regression import Moments, output_perturbation

if TYPE_CHECKING:
    from peer_methods.interface import Generator, Matrix, Vector

PENALTY = 0.01  # per row and squared norm, between the penalties that suit few and many rows


def regression(features: Matrix, target: Vector, epsilon: float, generator: Generator) -> Vector:
    """Return noisy ridge coefficients with a fixed penalty."""
    rows = with_intercept(features)
    length = math.sqrt(rows.shape[1])
    moments = Moments(rows.T @ rows, rows.T @ target, len(rows), length)
    return np.asarray(output_perturbation(moments, PENALTY, epsilon, generator))


PEERS = [Peer("output perturbation", "epsilon", regression=regression)]
