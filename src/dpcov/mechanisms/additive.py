"""Shared code of the mechanisms that add noise to the second moment.

The proofs are in docs/proofs/release.md, sections 6 and 9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dpcov.core.privacy import Guarantee, Neighbors
from dpcov.core.samplers.scalars import ScalarGaussian
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.radius import chooser, noise_errors
from dpcov.published.consistency import shift_for
from dpcov.published.costs import rounds_of
from dpcov.published.kinds import NoisyMatrix, NoisyTrace, Round, RowMap
from dpcov.releases import Release

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from dpcov.core.arrays import Integers
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.core.samplers import MatrixLaw, ScalarLaw
    from dpcov.published.kinds import Published, Query
    from dpcov.rows.moment import Lattice, LinearMap, SecondMoment
    from dpcov.rows.schema import Schema
    from dpcov.rows.sources.rows import Rows


@dataclass(frozen=True, slots=True)
class Calibration:
    """Noise distributions of a release. Everything here is public.

    Attributes
    ----------
    guarantee : Guarantee
        Guarantee of the whole release.

    matrix : MatrixLaw
        Noise distribution of the matrix.

    trace : ScalarLaw or None
        Noise distribution of the trace. None if dpcov does not release the trace separately.

    trace_alone : ScalarLaw
        Noise distribution of the trace if dpcov releases only the trace, with the whole budget.

    counts : ScalarLaw or None
        Noise distribution of each count in the norm histogram. None if the schema sets the radius.

    again : callable or None
        Function from another lattice to a calibration with the same cost.

    mu_squared : Fraction or None
        Squared mu of all parts together, before rounding. None if the noise has no mu.

    Raises
    ------
    MechanismError
        The noise is too large to draw.

    """

    guarantee: Guarantee
    matrix: MatrixLaw
    trace: ScalarLaw | None
    trace_alone: ScalarLaw
    counts: ScalarLaw | None = None
    again: Callable[[Lattice], Calibration] | None = field(default=None, compare=False, repr=False)
    mu_squared: Fraction | None = None

    def __post_init__(self) -> None:
        for law in (self.matrix, self.trace, self.trace_alone, self.counts):
            if law is not None:
                law.require_drawable()

    @property
    def is_gaussian(self) -> bool:
        """True if all noise is Gaussian noise."""
        return isinstance(self.trace_alone, ScalarGaussian)

    def at(self, lattice: Lattice) -> Calibration:
        """Return a calibration with the same cost for another lattice of the same order."""
        if self.again is None:
            raise TypeError("This calibration is for one lattice only.")
        return self.again(lattice)


def trace_share(lattice: Lattice, neighbors: Neighbors, share: float) -> float:
    """Return the fraction of the budget that the trace spends.

    Under add-remove the trace spends the fraction `share`. Under replace-one the trace spends
    nothing. A matrix of order 1 is its own trace, so its trace also spends nothing.

    Notes
    -----
    Under replace-one the trace costs no budget. Let D be the change of the second moment S. Then
    D = A - A', where A and A' are positive semidefinite and have traces of at most k B^2.
    The nuclear norm satisfies ||D||_* + |tr D| = 2 max(tr D+, tr D-) <= 2 k B^2. The Frobenius norm
    satisfies ||D||_F^2 + (tr D)^2 <= 2 k^2 B^4. The noise of the matrix alone is calibrated to the
    same bounds (docs/proofs/release.md, section 8).

    """
    return 0.0 if neighbors == Neighbors.REPLACE_ONE or lattice.dimension == 1 else share


class Additive(Mechanism, Protocol):
    """Mechanism that adds noise to the second moment. It draws the noise before it reads data."""

    __slots__ = ()

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration: ...

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        """Draw the noise, read the data, add the noise and round the sum.

        For a private clipping radius, the mechanism first chooses the radius from a noisy norm
        histogram (`radius.chooser`). Under replace-one the number of privacy units is public. If
        the noise would hide the sum over this many units, the trace gets the whole budget.
        """
        choose = chooser(rows, laws.counts, lambda norms: noise_errors(norms, laws.matrix), entropy)
        draws = Draws.of(laws, entropy)
        moment = rows.second_moments(radius=choose())[0]
        return published(self, rows.schema, laws, draws, moment)


@dataclass(frozen=True, slots=True)
class Draws:
    """One draw from each noise distribution of a calibration. Each draw is used only once."""

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
    """Add the noise to the second moment and round the sum.

    If the noise would hide all rows, the release contains only the trace.

    Parameters
    ----------
    mechanism : Mechanism
        Mechanism that makes the release.

    schema : Schema
        Schema of the table.

    calibration : Calibration
        Noise distributions of the release.

    draws : Draws
        Noise that was drawn from these distributions.

    moment : SecondMoment
        Exact second moment of the rows.

    shape : LinearMap or None
        Map that transformed the rows. None if the rows are not transformed.

    Returns
    -------
    Release
        Rounded noisy second moment.

    """
    guarantee = calibration.guarantee
    count = moment.unit_count if guarantee.neighbors == Neighbors.REPLACE_ONE else None
    return Release(
        schema=schema,
        guarantee=guarantee,
        mechanism=mechanism.name,
        parameters=asdict(mechanism),  # type: ignore[call-overload]
        rounds=answers(schema, calibration, draws, moment, shape),
        unit_count=count,
        reproducible=draws.reproducible,
    )


def answers(
    schema: Schema,
    calibration: Calibration,
    draws: Draws,
    moment: SecondMoment,
    shape: LinearMap | None = None,
) -> tuple[Round, ...]:
    """Return the rounds of a second moment: the noisy matrix and the noisy trace.

    The function `published` documents the parameters.
    """
    lattice, guarantee = moment.lattice, calibration.guarantee
    count = moment.unit_count if guarantee.neighbors == Neighbors.REPLACE_ONE else None
    transform = None if shape is None else RowMap(shape.matrix(), shape.center)
    if below_noise_threshold(lattice, count, calibration.matrix):
        trace = moment.trace() + draws.trace_alone
        alone = NoisyTrace(lattice, transform, trace, calibration.trace_alone)
        return rounds_of([("trace", alone)], schema, guarantee)
    shift = shift_for(calibration.matrix.spread)
    units = coarse(moment.units + draws.matrix, shift)
    matrix = NoisyMatrix(lattice, transform, shift, units, calibration.matrix)
    published: list[tuple[Query, Published]] = [("matrix", matrix)]
    if calibration.trace is not None and draws.trace is not None:
        trace = moment.trace() + draws.trace
        published.append(("trace", NoisyTrace(lattice, transform, trace, calibration.trace)))
    return rounds_of(published, schema, guarantee)


def below_noise_threshold(lattice: Lattice, count: int | None, law: MatrixLaw) -> bool:
    """Return True if the noise hides any table of `count` privacy units, whatever the rows are."""
    if count is None or lattice.dimension == 1:
        return False
    return count * lattice.unit_bound < law.detectable


def coarse(noisy: NDArray[np.object_], shift: int) -> Integers:
    """Divide integers by 2^shift and round the quotients, with halves rounded up.

    A quotient that does not fit into 64 bits becomes the nearest 64-bit integer.
    """
    half = 1 << shift >> 1
    return np.clip((noisy + half) >> shift, -(2**63), 2**63 - 1).astype(np.int64)
