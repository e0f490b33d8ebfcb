"""Seconds, orthogonality and proposals of whole frames of d vectors. Non-zero if a bar is missed.

The bars are for two cores: 5 s at d = 300, 60 s at d = 1000, |theta' theta - I| <= 1e-10. Seconds
of CPU over all threads are shown beside the wall time, which other work on the machine stretches.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from dpcov.core.entropy import Entropy
from dpcov.papers.samplers.frame import sequential_frame
from results import Kept, show

SECONDS = {60: 1.0, 300: 5.0, 1000: 60.0}
ORTHOGONALITY = 1e-10


def spectra(d: int) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    power = np.logspace(0, -7, d)
    return {
        "flat": 1 + 0.1 * generator.standard_normal(d),
        "power law over 7 decades": 1e4 * power,
        "power law, concentration 1e8": 1e8 * power,
        "rank 1": 1e4 * np.eye(1, d)[0],
        "all zero": np.zeros(d),
        "five values, repeated": np.resize([100.0, 10.0, 1.0, 0.5, 0.0], d),
    }


def measured(d: int, name: str, eigenvalues: Any) -> dict[str, Any]:
    """Draw one frame of the matrix with these eigenvalues; every concentration is 1."""
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((d, d)))[0]
    matrix = (turn * eigenvalues) @ turn.T
    matrix = (matrix + matrix.T) / 2
    wall, cpu = time.perf_counter(), time.process_time()
    frame = sequential_frame(matrix, np.ones(d), Entropy.seeded(1))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    error = float(np.abs(frame.vectors @ frame.vectors.T - np.eye(d)).max())
    return {
        "d": d,
        "spectrum": name,
        "seconds": wall,
        "CPU seconds": cpu,
        "bar, seconds": SECONDS[d],
        "orthogonality": error,
        "mean proposals": float(frame.proposals.mean()),
        "most proposals": int(frame.proposals.max()),
        "ok": wall <= SECONDS[d] and error <= ORTHOGONALITY,
    }


def main() -> int:
    kept = Kept("frames.json", "benchmarks/frames.py")
    for d in SECONDS:
        kept.part(f"d = {d}", lambda d=d: (measured(d, *case) for case in spectra(d).items()))  # type: ignore[misc]
    show("Sequential frames", kept.rows)
    return int(not (kept.done() and all(row["ok"] for row in kept.rows)))


if __name__ == "__main__":
    sys.exit(main())
