"""Second moments by length of rows, each with noise of its own: no row is clipped."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcov.mechanisms import additive, gaussian
from dpcov.mechanisms.nuclear_laplace import pure_noise
from dpcov.mechanisms.pure import by_budget, float_scale, pure_epsilon
from dpcov.moment import UNITS_PER_RADIUS
from dpcov.parameters import Share, check_fields
from dpcov.privacy import Guarantee, Neighbors, exact
from dpcov.releases import Release
from dpcov.rungs import WHOLE, rungs_of
from dpcov.samplers.orthogonal import GaussianOrthogonal
from dpcov.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.samplers.weighted import WeightedSum

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dpcov.entropy import Entropy
    from dpcov.mechanisms import Mechanism
    from dpcov.moment import Lattice
    from dpcov.privacy import Budget
    from dpcov.rungs import RungMoments
    from dpcov.samplers import MatrixLaw, ScalarLaw
    from dpcov.schema import Schema
    from dpcov.sources.rows import Rows

SQUARED_SIDE = UNITS_PER_RADIUS**2
# Where a known number of rows could rise above the noise by no more than this, if all were as long
# as can be and along one direction, the trace alone is nearer than what a real table shows.
MARGIN = 2.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public outcome of calibrating `Ladder`; refused if 64-bit integers can't hold the noise.

    `rungs` are the laws of the noise of each rung, whose squared lengths are `squared`; `trace` is
    that of the trace, `trace_alone` the same if it is all that is released.
    """

    guarantee: Guarantee
    rungs: tuple[MatrixLaw, ...]
    squared: tuple[int, ...]
    trace: ScalarLaw
    trace_alone: ScalarLaw

    def __post_init__(self) -> None:
        self.matrix.require_drawable()
        self.trace.require_drawable()
        self.trace_alone.require_drawable()

    @property
    def matrix(self) -> WeightedSum:
        """Law of the noise in the moment of all rows, in squared lattice units."""
        return WeightedSum(tuple(rung / WHOLE for rung in self.squared), self.rungs)


@dataclass(frozen=True, slots=True)
class Ladder:
    r"""Second moments of directions by length of rows, plus noise; for any budget.

    For tables whose rows differ in length, as nearly all do, or that are shorter than the schema
    allows. One moment is released for each of three or four lengths (rungs; up to eight where the
    intercept is small), and the noise of the short ones is as small as they are. Denoising puts
    them together (`dpcov.denoise.rungs`).

    Guarantee
    ---------
    Epsilon-DP for a pure budget; rho-zCDP; (epsilon, delta)-DP by the exact curve of the Gaussian
    mechanism, or with Laplace noise, which spends no delta, where there is less of it. For every
    input, under add/remove or replace-one, for rows or for persons with at most k rows.

    Sensitivity
    -----------
    A row w of squared length N = p B^2 has shares h_j in the rungs of squared length p_j B^2, with
    sum h_j <= 1 and sum h_j p_j = p; it adds r r' with ||r||^2 <= 2^40 h_j to the moment of rung j,
    and N to the trace (`dpcov.rungs`). Scales that keep the budget for every pair of neighbours,
    k = 1, f = `trace_share` (docs/proofs/ladder.md 3, 4, 5):

    ============  ========================================  ===================================
    budget        add/remove                                replace-one
    ============  ========================================  ===================================
    epsilon       2^40 / (epsilon (1 - f p_j)),             2^41 / (epsilon (1 - f (1 - p_j))),
                  trace B^2 / (f epsilon)                   trace 2 B^2 / (f epsilon)
    rho           2^80 / (2 rho (1 - f p_j^2)),             2^80 / (rho (1 - f (1 - p_j)^2)),
                  trace B^4 / (2 rho f)                     trace B^4 / (rho f)
    ============  ========================================  ===================================

    (scales s of noise whose log-density changes by at most ||D||_* / s; variances). For persons
    scales are k times as large. For (epsilon, delta) rho = mu^2 / 2, and variances are larger by 8.

    Not protected
    -------------
    Schema, budget, order of the matrix, running time; the number of rows (of persons) under
    replace-one.

    Parameters
    ----------
    trace_share : float in (0, 1), public
        How much less noise there would be without the trace: share f of the above. It is taken from
        the longest rungs under add/remove, from the shortest under replace-one; there f is 4 / d,
        at most 1 / 2, where that is more: of few columns the diagonal tells the trace no better.
        (Rows that `ShapedLadder` maps are nearly all short: there the longest give it, and f is f.)

    Returns
    -------
    Release
        The (d, d) moments of the rungs (`Release.rungs`), their sum, the trace, the noise law.

    Raises
    ------
    MechanismError
        The budget is too small for 64-bit noise. Before anything is read.

    Cost
    ----
    One pass over the data (two with persons), with twice the products of one second moment; the
    noise of as many as there are rungs.

    Source
    ------
    dpcov.

    Examples
    --------
    >>> from dpcov.moment import Lattice
    >>> from dpcov.privacy import ZCDP
    >>> lattice = Lattice(4, 1.0)
    >>> laws = Ladder(trace_share=0.04).calibrate(lattice, ZCDP(0.5), Neighbors.ADD_REMOVE)
    >>> [round(float(law.variance) / 2**80, 3) for law in laws.rungs]
    [1.042, 1.003, 1.0, 1.0]

    """

    trace_share: Share = 0.1

    name: ClassVar[str] = "ladder"
    use: ClassVar[str] = "rows of different lengths, at any budget; clips none. The default"
    source: ClassVar[str] = "dpcov"

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def passes(self) -> int:
        return 1

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        guarantee = Guarantee(budget, Neighbors(neighbors), lattice.unit)
        return by_budget(
            budget,
            lambda: self.laplace(lattice, guarantee, pure_epsilon(self.name, budget)),
            lambda: self.gaussian(lattice, guarantee, *gaussian.concentration(self.name, budget)),
            lambda laws: laws.matrix.frobenius_squared,
        )

    def laplace(
        self, lattice: Lattice, guarantee: Guarantee, epsilon: Fraction, *, short: bool = False
    ) -> Calibration:
        """Noise that spends this epsilon, and no delta; it may be a part of the guarantee's.

        Where nearly all rows are `short`, it is long rungs that give the trace its share.
        """
        share, given = self._trace(lattice, guarantee, short)
        sides, k = guarantee.neighbors.sides, lattice.unit.max_rows
        squared = rungs_of(lattice)
        left = [1 - share * part for part in given]
        scales = [k * sides * SQUARED_SIDE / (epsilon * rest) for rest in left]
        return Calibration(
            guarantee,
            tuple(pure_noise(lattice.dimension, float_scale(scale)) for scale in scales),
            squared,
            ScalarLaplace(sides * lattice.unit_bound / (share * epsilon)),
            ScalarLaplace(lattice.unit_bound / epsilon),
        )

    def gaussian(
        self,
        lattice: Lattice,
        guarantee: Guarantee,
        rho: Fraction,
        extra: int,
        *,
        short: bool = False,
    ) -> Calibration:
        """The same for rho in zCDP; variances are larger by `extra` (`gaussian.concentration`)."""
        share, given = self._trace(lattice, guarantee, short)
        sides, k = guarantee.neighbors.sides, lattice.unit.max_rows
        halved = 2 * rho / sides
        squared = rungs_of(lattice)
        left = [1 - share * part**2 for part in given]
        whole, single = (k * SQUARED_SIDE) ** 2, lattice.unit_bound**2
        variances = [whole / (halved * rest) + extra for rest in left]
        return Calibration(
            guarantee,
            tuple(GaussianOrthogonal(lattice.dimension, variance) for variance in variances),
            squared,
            ScalarGaussian(single / (halved * share) + extra),
            ScalarGaussian(single / (2 * rho) + extra),
        )

    def _trace(
        self, lattice: Lattice, guarantee: Guarantee, short: bool
    ) -> tuple[Fraction, list[Fraction]]:
        """The share f of the trace, and what of it each rung gives: p_j or 1 - p_j."""
        share = exact(self.trace_share)
        parts = [Fraction(squared, lattice.bound) for squared in rungs_of(lattice)]
        if short or guarantee.neighbors == Neighbors.ADD_REMOVE:
            return share, parts
        share = max(share, min(Fraction(1, 2), Fraction(4, lattice.dimension)))
        return share, [1 - part for part in parts]

    def __call__(
        self, rows: Rows, *, budget: Budget, neighbors: Neighbors, entropy: Entropy
    ) -> Release:
        laws = self.calibrate(rows.lattice(), budget, neighbors)
        return released(self, rows.schema, laws, rows.rung_moments, entropy)


def released(
    mechanism: Mechanism,
    schema: Schema,
    laws: Calibration,
    ask: Callable[[], RungMoments],
    entropy: Entropy,
    margin: float = MARGIN,
) -> Release:
    """Draw the noise, then `ask` for the moments by length of rows, and publish both together.

    Or the trace alone, where the number of rows is public and below what `margin` asks for.
    """
    noise = [law.sample(entropy) for law in laws.rungs]
    of_trace, of_trace_alone = laws.trace.sample(entropy), laws.trace_alone.sample(entropy)
    found = ask()
    replaced = laws.guarantee.neighbors == Neighbors.REPLACE_ONE
    count = found.unit_count if replaced else None
    shift = additive.shift_for(min(law.spread for law in laws.rungs))
    gated = additive.nothing_can_show(found.lattice, count, laws.matrix, margin)
    noisy = None
    if not gated:
        noisy = np.stack(
            [
                additive.coarse(units + drawn, shift)
                for units, drawn in zip(found.units, noise, strict=True)
            ]
        )
    return Release(
        schema=schema,
        lattice=replace(found.lattice, second_rung=None),  # the noise has the weights of rungs
        guarantee=laws.guarantee,
        mechanism=mechanism.name,
        parameters=asdict(mechanism),  # type: ignore[call-overload]
        noise=None if gated else laws.matrix,
        trace_noise=laws.trace_alone if gated else laws.trace,
        shift=shift,
        published=None if noisy is None else summed(noisy, laws.squared),
        published_trace=found.trace + (of_trace_alone if gated else of_trace),
        unit_count=count,
        reproducible=entropy.reproducible,
        rungs=noisy,
    )


def pooled(first: Release, second: Release, share: Fraction, laws: Calibration) -> Release:
    """The mean of two releases of the same rows, the first with this share of both their budgets.

    For Gaussian noise: their precisions add up, so `laws` are those of one with both budgets.
    """
    if first.rungs is None or second.rungs is None:
        return second
    shift = min(first.shift, second.shift)
    one, other = first.rungs << (first.shift - shift), second.rungs << (second.shift - shift)
    # Modulo 2^64: the difference, of noise alone, fits where the matrices no longer do.
    rungs = other + np.rint(float(share) * (one - other)).astype(np.int64)
    trace, of_second = first.published_trace or 0, second.published_trace or 0
    return replace(
        second,
        noise=laws.matrix,
        trace_noise=laws.trace,
        shift=shift,
        published=summed(rungs, laws.squared),
        published_trace=of_second + round(share * (trace - of_second)),
        rungs=rungs,
    )


def squared_of(law: WeightedSum) -> tuple[int, ...]:
    """Squared lengths of the rungs whose noise, put together, is of this law."""
    return tuple(round(weight * WHOLE) for weight in law.weights)


def summed(rungs: NDArray[np.int64], squared: tuple[int, ...]) -> NDArray[np.int64]:
    """The moment of all rows from (K, d, d) of those of rungs, halves rounded up."""
    total = np.zeros(rungs.shape[1:], object)
    for moment, length in zip(rungs, squared, strict=True):
        total += moment.astype(object) * length
    half = WHOLE // 2
    return additive.within_64_bits((total + half) // WHOLE)
