"""Mechanisms that let random groups of rows vote: the rows that they need, and what comes of them.

epsilon = 1, delta = 1e-6, eigenvalues from 1e-10 to 1. The numbers of rows follow from public
numbers and are printed first. `python benchmarks/unbounded.py` runs it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import ApproxDP, Neighbors
from dpcov.denoise import denoise
from dpcov.errors import MechanismRefused
from dpcov.mechanisms import AshtianiLiaw, Mechanism, UnboundedGaussian
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from results import Kept, show
from whitened import REACH, mahalanobis, normal_rows

BUDGET = ApproxDP(1.0, 1e-6)
CASES = ((UnboundedGaussian(), 3), (UnboundedGaussian(), 4), (UnboundedGaussian(), 5))
SLOWER = ((AshtianiLiaw(), 3),)


def measured(mechanism: Mechanism, d: int, n: int, repeats: int) -> Iterator[dict[str, Any]]:
    schema = Schema.from_bounds(-REACH, REACH, tuple(f"x{j}" for j in range(d)), intercept=0.0)
    found = []
    for seed in range(repeats):
        rows, round_map = normal_rows(n, 1e10, seed, d)
        without, entropy = mahalanobis(rows.T @ rows / n, round_map), Entropy.seeded(seed)
        try:
            made = mechanism(
                open_rows(rows, schema),
                budget=BUDGET,
                neighbors=Neighbors.ADD_REMOVE,
                entropy=entropy,
            )
        except MechanismRefused:
            found.append((math.inf, without))
            continue
        made = denoise(made, "project", generator=simulation_generator(seed))
        private = mahalanobis(made.second_moment() * REACH**2 / n, round_map)
        found.append((private, without))
    private, without = np.median(found, axis=0).tolist()
    row = {"method": mechanism.name, "d": d, "n": n, "error": private, "non_private": without}
    yield row | {"repeats": repeats, "refused": sum(e == math.inf for e, _ in found)}


def main(repeats: int = 3) -> None:
    """Print the rows that are needed, then run; refusals count as infinite errors."""
    needed = [
        (mechanism, d, mechanism.least_units(Lattice(d, 1.0), BUDGET, Neighbors.ADD_REMOVE))
        for mechanism, d in (*CASES, *SLOWER)
    ]
    show("Rows needed", [{"method": m.name, "d": d, "n": n} for m, d, n in needed])
    kept = Kept("unbounded.json", "python benchmarks/unbounded.py")
    for mechanism, d, n in needed:
        kept.part(f"{mechanism.name}, d = {d}", partial(measured, mechanism, d, n, repeats))
    show("Mahalanobis error at condition 1e10, epsilon = 1, delta = 1e-6", kept.rows)
    sys.exit(not kept.done())


if __name__ == "__main__":
    main()
