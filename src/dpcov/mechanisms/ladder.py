"""Second moments by length of rows, each with noise of its own: no row is clipped."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcov.core.parameters import Share
from dpcov.core.privacy import Guarantee, Neighbors, exact
from dpcov.mechanisms import additive, gaussian
from dpcov.mechanisms.additive import Draws
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.matrix_laplace import pure_noise
from dpcov.mechanisms.pure import by_budget, float_scale, pure_epsilon
from dpcov.releases import Release
from dpcov.rows.moment import UNITS
from dpcov.rows.rungs import WHOLE, rungs_of
from dpcov.samplers.orthogonal import GaussianOrthogonal
from dpcov.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.samplers.weighted import WeightedSum

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.rows.moment import Lattice
    from dpcov.rows.rungs import RungMoments
    from dpcov.rows.schema import Schema
    from dpcov.samplers import MatrixLaw, ScalarLaw
    from dpcov.sources.rows import Rows

SQUARED_SIDE = UNITS**2
# Where a known number of rows could rise above the noise by no more than this, if all were as long
# as can be and along one direction, the trace alone is nearer than what a real table shows.
MARGIN = 2.0


@dataclass(frozen=True, slots=True)
class Spending:
    """What a release by `Ladder` spends, which `Ladder` has the proof for, whatever its rungs.

    Attributes
    ----------
    guarantee : of the whole release, of which this may be a part.
    trace_share : how much less noise there would be without the trace.
    spends : epsilon, or rho where noise is Gaussian.
    extra : by how much variances are larger (`gaussian.concentration`); None for Laplace noise.
    short : under replace-one, whether long rungs give the trace its share, as nearly all rows are
        short.

    """

    guarantee: Guarantee
    trace_share: float
    spends: Fraction
    extra: int | None = None
    short: bool = False

    def laws(self, lattice: Lattice, like: Calibration | None = None) -> Calibration:
        """Laws for the rungs of a lattice; those that another calibration has are taken from it."""
        squared = rungs_of(lattice)
        sizes = [self._size(lattice, Fraction(length, lattice.bound)) for length in squared]
        known = {} if like is None else dict(zip(like.sizes, like.rungs, strict=True))
        rungs = (known.get(size) or self._rung(lattice.dimension, size) for size in sizes)
        if like is None or like.bound != lattice.bound:
            traces = self._trace(lattice), self._alone(lattice)
        else:
            traces = like.trace, like.trace_alone
        return Calibration(self, tuple(rungs), tuple(sizes), squared, *traces)

    def _rung(self, d: int, size: Fraction) -> MatrixLaw:
        return pure_noise(d, float(size)) if self.extra is None else GaussianOrthogonal(d, size)

    def _size(self, lattice: Lattice, part: Fraction) -> Fraction:
        """Scale or variance for the rows whose squared length is this part of the bound."""
        side = lattice.unit.max_rows * SQUARED_SIDE
        share = self._share(lattice)
        swapped = self.guarantee.neighbors == Neighbors.REPLACE_ONE
        given = 1 - part if swapped and not self.short else part
        if self.extra is None:
            scale = self.guarantee.neighbors.sides * side / (self.spends * (1 - share * given))
            return Fraction(float_scale(scale))
        return side**2 / (self._halved * (1 - share * given**2)) + self.extra

    def _trace(self, lattice: Lattice) -> ScalarLaw:
        share = self._share(lattice)
        if self.extra is None:
            sides = self.guarantee.neighbors.sides
            return ScalarLaplace(sides * lattice.unit_bound / (share * self.spends))
        return ScalarGaussian(lattice.unit_bound**2 / (self._halved * share) + self.extra)

    def _alone(self, lattice: Lattice) -> ScalarLaw:
        """Noise in the trace if it is all that is released."""
        if self.extra is None:
            return ScalarLaplace(lattice.unit_bound / self.spends)
        return ScalarGaussian(lattice.unit_bound**2 / (2 * self.spends) + self.extra)

    @property
    def _halved(self) -> Fraction:
        return 2 * self.spends / self.guarantee.neighbors.sides

    def _share(self, lattice: Lattice) -> Fraction:
        """The share f of the trace; see `Ladder`."""
        share = exact(self.trace_share)
        if self.short or self.guarantee.neighbors == Neighbors.ADD_REMOVE:
            return share
        return max(share, min(Fraction(1, 2), Fraction(4, lattice.dimension)))


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public outcome of calibrating `Ladder`; refused if the noise is too large to draw.

    `rungs` are the laws of the noise of each rung, of these `sizes` (scales or variances), whose
    squared lengths are `squared`; `trace` is that of the trace, `trace_alone` the same if it is all
    that is released; `matrix` that of the noise in the moment of all rows, in squared lattice
    units.
    """

    spending: Spending
    rungs: tuple[MatrixLaw, ...]
    sizes: tuple[Fraction, ...]
    squared: tuple[int, ...]
    trace: ScalarLaw
    trace_alone: ScalarLaw
    matrix: WeightedSum = field(init=False)

    def __post_init__(self) -> None:
        whole = WeightedSum(tuple(rung / WHOLE for rung in self.squared), self.rungs)
        object.__setattr__(self, "matrix", whole)
        self.matrix.require_drawable()
        self.trace.require_drawable()
        self.trace_alone.require_drawable()

    @property
    def guarantee(self) -> Guarantee:
        return self.spending.guarantee

    @property
    def bound(self) -> int:
        """Squared length of the longest row."""
        return self.squared[0]

    def at(self, lattice: Lattice) -> Calibration:
        """The same spending on the rungs of another lattice of as many dimensions."""
        if rungs_of(lattice) == self.squared:
            return self
        return self.spending.laws(lattice, like=self)


@dataclass(frozen=True, slots=True)
class Ladder(Mechanism):
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
    and N to the trace (`dpcov.rows.rungs`). Scales that keep the budget for every pair of
    neighbours, k = 1, f = `trace_share` (docs/proofs/ladder.md 3, 4, 5):

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
        (Mapped rows are nearly all short: there the longest give it, and f is f.)

    Returns
    -------
    Release
        The (d, d) moments of the rungs (`Release.rungs`), their sum, the trace, the noise law.

    Raises
    ------
    MechanismError
        The budget is too small for the noise. Before anything is read.

    Cost
    ----
    One pass over the data (two with persons), with twice the products of one second moment; the
    noise of as many as there are rungs.

    Source
    ------
    dpcov.

    Examples
    --------
    >>> from dpcov.rows.moment import Lattice
    >>> from dpcov.core.privacy import ZCDP
    >>> lattice = Lattice(4, 1.0)
    >>> laws = Ladder(trace_share=0.04).calibrate(lattice, ZCDP(0.5), Neighbors.ADD_REMOVE)
    >>> [round(float(law.variance) / 2**80, 3) for law in laws.rungs]
    [1.042, 1.003, 1.0, 1.0]

    """

    trace_share: Share = 0.1

    name: ClassVar[str] = "ladder"
    use: ClassVar[str] = "rows of different lengths, at any budget; clips none. The default"
    source: ClassVar[str] = "dpcov"

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        guarantee = Guarantee(budget, Neighbors(neighbors), lattice.unit)
        return by_budget(
            budget,
            lambda: self.spending(guarantee, pure_epsilon(self.name, budget)).laws(lattice),
            lambda: self.spending(guarantee, *gaussian.concentration(self.name, budget)).laws(
                lattice
            ),
            lambda laws: laws.matrix.frobenius_squared,
        )

    def spending(
        self,
        guarantee: Guarantee,
        spends: Fraction,
        extra: int | None = None,
        *,
        short: bool = False,
    ) -> Spending:
        """With this share for the trace; see `Spending`."""
        short = short and guarantee.neighbors == Neighbors.REPLACE_ONE  # else it is all the same
        return Spending(guarantee, self.trace_share, spends, extra, short)

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        draws = drawn(laws, entropy)
        return published(self, rows.schema, laws, draws, rows.rung_moments())


def drawn(laws: Calibration, entropy: Entropy) -> Draws:
    """One draw of each law, made before the rows are asked: of the matrices as (K, d, d)."""
    rungs = np.stack([law.sample(entropy) for law in laws.rungs])
    traces = laws.trace.sample(entropy), laws.trace_alone.sample(entropy)
    return Draws(rungs, *traces, entropy.reproducible)


def published(
    mechanism: Mechanism,
    schema: Schema,
    laws: Calibration,
    draws: Draws,
    found: RungMoments,
) -> Release:
    """Add the draws to the moments by length of rows.

    Or the trace alone, where the number of rows is public and below what `MARGIN` asks for.
    """
    replaced = laws.guarantee.neighbors == Neighbors.REPLACE_ONE
    count = found.unit_count if replaced else None
    shift = additive.shift_for(min(law.spread for law in laws.rungs))
    gated = additive.nothing_can_show(found.lattice, count, laws.matrix, MARGIN)
    trace = draws.trace_alone if gated else draws.trace
    noisy = None
    if not gated:
        pairs = zip(found.units, draws.matrix, strict=True)
        noisy = np.stack([additive.coarse(units + noise, shift) for units, noise in pairs])
    return Release(
        schema=schema,
        lattice=found.lattice,
        guarantee=laws.guarantee,
        mechanism=mechanism.name,
        parameters=asdict(mechanism),  # type: ignore[call-overload]
        noise=None if gated else laws.matrix,
        trace_noise=laws.trace_alone if gated else laws.trace,
        shift=shift,
        published=None if noisy is None else summed(noisy, laws.squared),
        published_trace=None if trace is None else found.trace + trace,
        unit_count=count,
        reproducible=draws.reproducible,
        rungs=noisy,
    )


def squared_of(law: WeightedSum) -> tuple[int, ...]:
    """Squared lengths of the rungs whose noise, put together, is of this law."""
    return tuple(round(weight * WHOLE) for weight in law.weights)


def summed(rungs: Integers, squared: tuple[int, ...]) -> Integers:
    """The moment of all rows from (K, d, d) of those of rungs, halves rounded up."""
    total = np.zeros(rungs.shape[1:], object)
    for moment, length in zip(rungs, squared, strict=True):
        total += moment.astype(object) * length
    half = WHOLE // 2
    return additive.within_64_bits((total + half) // WHOLE)
