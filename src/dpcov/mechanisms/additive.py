"""What mechanisms that add noise to the second moment share (docs/proofs/release.md 6, 9)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dpcov.core.privacy import Guarantee, Neighbors
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.radius import chooser, noise_errors
from dpcov.releases import Release

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Integers
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.core.samplers import MatrixLaw, ScalarLaw
    from dpcov.rows.moment import Lattice, LinearMap, SecondMoment
    from dpcov.rows.schema import Schema
    from dpcov.rows.sources.rows import Rows

# The published lattice is 2^-10 of the noise (docs/proofs/release.md 7): costs under 2^-20 of its
# variance.
KEPT_BITS = 10


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public outcome of calibrating; refused if the noise is too large to draw.

    `trace` is the law of a separate release of the trace (None: none is made), and `trace_alone`
    that of the trace if it is all that is released, with the same budget as both. `counts` is the
    law of each count from which the radius is chosen (None: it is the schema's). `again` makes laws
    that spend as much on another lattice.
    """

    guarantee: Guarantee
    matrix: MatrixLaw
    trace: ScalarLaw | None
    trace_alone: ScalarLaw
    counts: ScalarLaw | None = None
    again: Callable[[Lattice], Calibration] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for law in (self.matrix, self.trace, self.trace_alone, self.counts):
            if law is not None:
                law.require_drawable()

    def at(self, lattice: Lattice) -> Calibration:
        """The same spending on another lattice of as many dimensions."""
        if self.again is None:
            raise TypeError("these laws are for one lattice")
        return self.again(lattice)


def trace_share(lattice: Lattice, neighbors: Neighbors, share: float) -> float:
    """Share of the budget that the trace takes from the matrix.

    Under replace-one the trace is free: with D the change of S, D = A - A' with A, A' positive
    semidefinite and traces at most k B^2, ||D||_* + |tr D| = 2 max(tr D+, tr D-) <= 2 k B^2 and
    ||D||_F^2 + (tr D)^2 <= 2 k^2 B^4 (docs/proofs/release.md 8), which is what the matrix
    alone is calibrated to. Not so under add/remove. For d = 1 the matrix is its trace.
    """
    return 0.0 if neighbors == Neighbors.REPLACE_ONE or lattice.dimension == 1 else share


def shift_for(spread: float) -> int:
    """log2 of the published lattice's step, in squared lattice units."""
    return max(0, math.floor(math.log2(spread)) - KEPT_BITS)


class Additive(Mechanism, Protocol):
    """A mechanism that adds noise, drawn before the data is read, to the second moment."""

    __slots__ = ()

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration: ...

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        """Draw the noise, read the data, add, publish on the coarser lattice.

        Where the radius is private it is chosen in between, from counts with noise
        (`radius.chooser`). Under replace-one the number of units is public, and where even that
        many of them could not rise above the noise, the whole budget goes to the trace (the public
        gate).
        """
        choose = chooser(rows, laws.counts, lambda norms: noise_errors(norms, laws.matrix), entropy)
        draws = Draws.of(laws, entropy)
        moment = rows.second_moments(radius=choose())[0]
        return published(self, rows.schema, laws, draws, moment)


@dataclass(frozen=True, slots=True)
class Draws:
    """One draw of each law of a calibration; used once."""

    matrix: Integers
    trace: int | None
    trace_alone: int
    reproducible: bool

    @classmethod
    def of(cls, calibration: Calibration, entropy: Entropy) -> Draws:
        matrix = calibration.matrix.sample(entropy)
        trace = None if calibration.trace is None else calibration.trace.sample(entropy)
        return cls(matrix, trace, calibration.trace_alone.sample(entropy), entropy.reproducible)


def published(
    mechanism: Mechanism,
    schema: Schema,
    calibration: Calibration,
    draws: Draws,
    moment: SecondMoment,
    shape: LinearMap | None = None,
) -> Release:
    """Add the draws to the moment and publish on the coarser lattice, or the trace alone.

    It is the moment of rows mapped by `shape`, if one is given.
    """
    lattice = moment.lattice
    count = moment.unit_count if calibration.guarantee.neighbors == Neighbors.REPLACE_ONE else None
    shift = shift_for(calibration.matrix.spread)
    gated = nothing_can_show(lattice, count, calibration.matrix)
    trace = draws.trace_alone if gated else draws.trace
    return Release(
        schema=schema,
        lattice=lattice,
        guarantee=calibration.guarantee,
        mechanism=mechanism.name,
        parameters=asdict(mechanism),  # type: ignore[call-overload]
        noise=None if gated else calibration.matrix,
        trace_noise=calibration.trace_alone if gated else calibration.trace,
        shift=shift,
        published=None if gated else coarse(moment.units + draws.matrix, shift),
        published_trace=None if trace is None else moment.trace() + trace,
        unit_count=count,
        reproducible=draws.reproducible,
        linear_map=None if shape is None else shape.matrix(),
        center=None if shape is None or not shape.center.any() else shape.center,
    )


def nothing_can_show(lattice: Lattice, count: int | None, law: MatrixLaw) -> bool:
    """The public gate: whether `count` units, all along one direction, stay below the noise."""
    if count is None or lattice.dimension == 1:
        return False
    return count * lattice.unit_bound < law.detectable


def coarse(noisy: NDArray[np.object_], shift: int) -> Integers:
    """Round integers to multiples of 2^shift, halves up, and divide.

    What 64 bits can't hold becomes the nearest that they can.
    """
    half = 1 << shift >> 1
    return np.clip((noisy + half) >> shift, -(2**63), 2**63 - 1).astype(np.int64)
