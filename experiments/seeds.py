"""Where all draws begin: from the seeds written in the code, or others for other runs.

Run 0 has those in the code; `reproduce.py --run` sets another, and everything is drawn anew.
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
    """A seed of the code, as it is in this run."""
    return seed + APART * _run


def generator(*seed: int) -> np.random.Generator:
    """NumPy's generator at a seed of the code; in run 0 that of the seed itself."""
    return np.random.default_rng([*seed, _run])


def entropy(seed: int) -> Entropy:
    """The library's seeded entropy, for releases that protect nobody."""
    return Entropy.seeded(own(seed))
