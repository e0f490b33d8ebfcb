"""Compare the noise of `nuclear-laplace` with the matrix Laplace noise that `auto` draws.

Run it with `make bench NAME=nuclear`. Both kinds of noise give pure privacy. The script measures
the CPU time of one draw and the ratio of the two noises. It also makes default releases with both
kinds of noise. The ratio of the errors is for correlations, means and variances together.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np

from dpcov.core.entropy import Entropy
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.mechanisms import standardized
from dpcov.papers.samplers.nuclear import NuclearLaplace
from noise_choice import errors, table
from results import Kept, show

ORDERS = (3, 6, 8, 11, 16, 21, 31, 41, 50)  # order of the matrix: columns and the intercept
ROWS, EPSILON = (1000, 3000, 20_000), 1.0
MAX_RELEASED_ORDER = 31  # the draws of 36 releases take minutes above
MIN_SECONDS = 0.2  # of repeated draws of one kind
Noise = WishartDifference | NuclearLaplace


def nuclear(dimension: int, scale: float) -> NuclearLaplace:
    """Return the other noise with the same privacy loss as `matrix_laplace.pure_noise`."""
    return NuclearLaplace(dimension, scale)


def seconds(noise: Noise) -> float:
    """Return the CPU time of one draw, in seconds."""
    entropy, draws, began = Entropy.seeded(noise.dimension), 0, time.process_time()
    while draws == 0 or time.process_time() - began < MIN_SECONDS:
        noise.sample(entropy)
        draws += 1
    return (time.process_time() - began) / draws


def error_ratio(columns: int) -> float:
    """Return the errors with the other noise, divided by the errors of the default."""
    found = []
    for rows in ROWS:
        values = table(rows, columns)
        before = errors(values, epsilon=EPSILON)
        with patch.object(standardized, "pure_noise", nuclear):
            found.append(errors(values, epsilon=EPSILON) / before)
    return float(np.exp(np.mean(np.log(found))))


def cell(order: int) -> Iterator[dict[str, Any]]:
    """Yield the costs and the errors at one order of the matrix."""
    own, other = WishartDifference(order, 0.5e9), nuclear(order, 1e9)
    measured = order <= MAX_RELEASED_ORDER
    yield {
        "order": order,
        "seconds of a draw, matrix-laplace": seconds(own),
        "seconds of a draw, nuclear-laplace": seconds(other),
        "ratio of the noises": math.sqrt(other.frobenius_squared / own.frobenius_squared),
        "ratio of the errors": error_ratio(order - 1) if measured else None,
    }


if __name__ == "__main__":
    kept = Kept("nuclear.json", "make bench NAME=nuclear")
    for order in ORDERS:
        kept.part(f"order {order}", lambda order=order: cell(order))
    show("nuclear-laplace beside matrix-laplace", kept.rows)
    sys.exit(not kept.done())
