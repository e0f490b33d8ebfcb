"""Means from noisy sums and a noisy count, with the whole budget on the means."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from peer_methods.interface import Peer

if TYPE_CHECKING:
    from peer_methods.interface import Generator, Matrix, Vector


def gaussian(rows: Matrix, rho: float, generator: Generator) -> Vector:
    """Add Gaussian noise to the p sums and the count; one row changes them by sqrt(p + 1)."""
    n, p = rows.shape
    deviation = math.sqrt((p + 1) / (2 * rho))
    count = max(1.0, n + deviation * generator.normal())
    noisy = (rows.sum(axis=0) + deviation * generator.normal(size=p)) / count
    return np.clip(noisy, -1, 1)


def laplace(rows: Matrix, epsilon: float, generator: Generator) -> Vector:
    """Add Laplace noise to the p sums; the count is public and one row changes them by 2 p."""
    n, p = rows.shape
    return np.clip(rows.mean(axis=0) + generator.laplace(scale=2 * p / epsilon / n, size=p), -1, 1)


PEERS = [
    Peer("Gaussian noise on sums", "rho", means=gaussian),
    Peer("Laplace noise on sums", "epsilon", means=laplace),
]
