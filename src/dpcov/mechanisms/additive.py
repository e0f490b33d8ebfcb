"""What mechanisms that add noise to the second moment have in common (spec lattice 4, 5)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcov.errors import MechanismError
from dpcov.privacy import Guarantee, Neighbors
from dpcov.releases import Release

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.entropy import Entropy
    from dpcov.mechanisms import AdditiveMechanism
    from dpcov.moment import Lattice
    from dpcov.privacy import Budget
    from dpcov.samplers import MatrixLaw, ScalarLaw
    from dpcov.sources.rows import Rows

KEPT_BITS = 10  # the published lattice is 2^-10 of the noise: costs under 2^-20 of its variance


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public outcome of calibrating; refused if 64-bit integers can't hold the noise.

    `trace` is the law of a separate release of the trace (None: none is made), and `trace_alone`
    that of the trace if it is all that is released, with the whole budget.
    """

    guarantee: Guarantee
    matrix: MatrixLaw
    trace: ScalarLaw | None
    trace_alone: ScalarLaw

    def __post_init__(self) -> None:
        for law in (self.matrix, self.trace, self.trace_alone):
            if law is not None:
                law.require_drawable()


def check_trace_share(share: float) -> None:
    """Refuse a share of the budget that is not in [0, 1)."""
    if not isinstance(share, int | float) or not 0 <= share < 1:
        raise MechanismError(f"trace_share must be at least 0 and below 1, not {share!r}.")


def trace_share(lattice: Lattice, neighbors: Neighbors, share: float) -> float:
    """Share of the budget that the trace takes from the matrix.

    Under replace-one the trace is free: with D the change of S, D = A - A' with A, A' positive
    semidefinite and traces at most k B^2, ||D||_* + |tr D| = 2 max(tr D+, tr D-) <= 2 k B^2 and
    ||D||_F^2 + (tr D)^2 <= 2 k^2 B^4 (spec denoise 5.1), which is what the matrix alone is
    calibrated to. Not so under add/remove. For d = 1 the matrix is its trace.
    """
    return 0.0 if neighbors == Neighbors.REPLACE_ONE or lattice.dimension == 1 else share


def shift_for(spread: float) -> int:
    """log2 of the published lattice's step, in squared lattice units."""
    return max(0, math.floor(math.log2(spread)) - KEPT_BITS)


def release(
    mechanism: AdditiveMechanism,
    rows: Rows,
    *,
    budget: Budget,
    neighbors: Neighbors,
    entropy: Entropy,
) -> Release:
    """Draw the noise, read the data, add, publish on the coarser lattice.

    Under replace-one the number of units is public, and where even that many of them could not
    rise above the noise, the whole budget goes to the trace (the public gate of spec denoise 2.1).
    """
    lattice = rows.lattice()
    calibration = mechanism.calibrate(lattice, budget, neighbors)
    matrix_noise = calibration.matrix.sample(entropy)
    trace_noise = None if calibration.trace is None else calibration.trace.sample(entropy)
    trace_alone_noise = calibration.trace_alone.sample(entropy)

    moment = rows.second_moments()[0]

    count = moment.unit_count if calibration.guarantee.neighbors == Neighbors.REPLACE_ONE else None
    shift = shift_for(calibration.matrix.spread)
    gated = (
        count is not None
        and lattice.dimension > 1
        and count * lattice.unit_bound < calibration.matrix.detectable
    )
    trace = trace_alone_noise if gated else trace_noise
    return Release(
        schema=rows.schema,
        lattice=lattice,
        guarantee=calibration.guarantee,
        mechanism=mechanism.name,
        parameters=asdict(mechanism),  # type: ignore[call-overload]
        noise=None if gated else calibration.matrix,
        trace_noise=calibration.trace_alone if gated else calibration.trace,
        shift=shift,
        published=None if gated else coarse(moment.units + matrix_noise, shift),
        published_trace=None if trace is None else moment.trace() + trace,
        unit_count=count,
        reproducible=entropy.reproducible,
    )


def coarse(noisy: NDArray[np.object_], shift: int) -> NDArray[np.int64]:
    """Round integers to multiples of 2^shift, halves up, and divide; kept within 64 bits."""
    half = 1 << shift >> 1
    kept: NDArray[np.int64] = np.clip((noisy + half) >> shift, -(2**63), 2**63 - 1).astype(np.int64)
    return kept
