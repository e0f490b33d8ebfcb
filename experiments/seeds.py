"""Seeds of all random draws: the seeds in the code, or other seeds for other runs.

Run 0 uses the seeds in the code. `reproduce.py --run` sets another run, with new draws everywhere.
"""

from __future__ import annotations

import numpy as np

from dpcov.core.entropy import Entropy

APART = 1_000_003
_run = 0


def begin(run: int) -> None:
    """Draw from now on as in another run."""
    global _run
    _run = run


def own(seed: int) -> int:
    """Return the seed of this run for a seed in the code."""
    return seed + APART * _run


def generator(*seed: int) -> np.random.Generator:
    """Return NumPy's generator for a seed in the code and the number of the run."""
    return np.random.default_rng([*seed, _run])


def entropy(seed: int) -> Entropy:
    """Return the library's seeded entropy, for releases that protect nobody."""
    return Entropy.seeded(own(seed))
