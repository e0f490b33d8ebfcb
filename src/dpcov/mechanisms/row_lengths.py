"""Noisy counts of rows by length, and where they say that the rungs of `Ladder` leave least noise.

Rows between two rungs are shared out between both, and the longer one's noise is that of its
length. So it matters where the second rung is: just above most rows it leaves up to half of what
rungs at fixed places leave (docs/dev/denoising.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpcov.denoise.rungs import noise_left_apart
from dpcov.mechanisms.radius import significant
from dpcov.rows.rungs import APART, rungs_of, shared_lengths

if TYPE_CHECKING:
    from dpcov.core.arrays import Vector
    from dpcov.core.entropy import Entropy
    from dpcov.rows.linear_map import LinearMap
    from dpcov.rows.moment import Lattice
    from dpcov.samplers import ScalarLaw
    from dpcov.sources.rows import Rows


HALVINGS = 12  # of the squared length, over which rows are counted
BINS = 2  # for each
PLACES = 4  # for each, where the second rung may be
BETTER = 0.9  # of the noise: the second rung is where it always is unless no more is left


@dataclass(frozen=True, slots=True)
class RowLengths:
    """How many rows are about as long, as noisy counts tell; squared lengths are shares of B^2.

    Attributes
    ----------
    squared, counts : (m,) squared lengths with the intercept, ascending, and numbers of rows.
    lattice : that of the rows.

    """

    squared: Vector
    counts: Vector
    lattice: Lattice

    @classmethod
    def counted(
        cls, rows: Rows, lattice: Lattice, transform: LinearMap, law: ScalarLaw, entropy: Entropy
    ) -> RowLengths:
        """Draw noise of `law`, then count mapped rows by length."""
        edges = 2.0 ** (-np.arange(HALVINGS * BINS, -1.0, -1.0) / BINS)
        noise = law.samples(len(edges), entropy)
        limits = lattice.radius * np.sqrt(edges[:-1])
        found = rows.norm_counts(limits, radius=lattice.radius, transform=transform)
        constant = lattice.intercept_units**2 / lattice.bound
        middles = edges * 2.0 ** (-1 / (2 * BINS))
        return cls(constant + middles * (1 - constant), significant(found + noise, law), lattice)

    def on_rungs(self, second: int | None) -> tuple[Vector, Vector]:
        """(K,) traces of the rows on rungs with this second one, and (K,) the rungs."""
        rungs = np.array(rungs_of(replace(self.lattice, second_rung=second))) / self.lattice.bound
        traces: Vector = self.counts @ shared_lengths(self.squared, rungs)
        return traces, rungs

    def best_second(self, noise: float) -> int | None:
        """The second rung that leaves least noise; None if a quarter of the first is about as good.

        `noise` is the norm of that in the moment of the first rung, as a share of B^2.
        """

        def left(second: int | None) -> float:
            traces, rungs = self.on_rungs(second)
            return noise_left_apart(traces, (noise * rungs) ** 2)

        halvings = np.arange(1, HALVINGS * PLACES + 1) / PLACES
        places = [math.floor(self.lattice.bound * 2.0**-part) for part in halvings]
        least = APART * self.lattice.intercept_units**2
        best = min((place for place in places if place > least), key=left)
        return best if left(best) < BETTER * left(None) else None
