"""How far denoised releases of a mechanism are from the truth, on average over seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import Budget, Neighbors
from dpcov.denoise import denoise
from dpcov.mechanisms import Mechanism
from dpcov.releases import Release
from dpcov.rows.sources.rows import Rows


def mean_error(
    mechanism: Mechanism,
    rows: Rows,
    truth: Any,
    draws: int,
    *,
    budget: Budget,
    neighbors: Neighbors,
    of: Callable[[Release], Any] = Release.second_moment,
) -> float:
    """Return the mean Frobenius error of a release's matrix over the seeds 0, 1, ..."""
    found = []
    for seed in range(draws):
        made = mechanism(rows, budget=budget, neighbors=neighbors, entropy=Entropy.seeded(seed))
        shrunk = denoise(made, generator=simulation_generator(seed))
        found.append(np.linalg.norm(of(shrunk) - truth))
    return float(np.mean(found))
