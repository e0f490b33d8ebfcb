"""The means of CoinPress (Biswas, Dong, Kamath and Ullman 2020): clip ever closer to the mean."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from biswas2020 import coinpress
from peer_methods.interface import Peer

if TYPE_CHECKING:
    from peer_methods.interface import Generator, Matrix, Vector

STEPS = 4
# The paper's noise is for replaced rows, which change a mean twice as much as added rows do.
ADDED_ROWS = 4


def means(rows: Matrix, rho: float, generator: Generator) -> Vector:
    """Estimate the means of rows in [-1, 1], whose covariance is at most the identity.

    The number of rows counts as public, in favour of the method.
    """
    return coinpress.mean(rows, math.sqrt(rows.shape[1]), ADDED_ROWS * rho, STEPS, generator)


PEERS = [Peer("CoinPress means", "rho", means=means)]
