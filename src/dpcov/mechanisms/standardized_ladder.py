"""Moments by length of rows, of features about private means and in units of their spread."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from dpcov.core.parameters import Power, Share
from dpcov.core.privacy import Guarantee, Neighbors
from dpcov.mechanisms import gaussian, ladder, mapped_ladder
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.mapped_ladder import first_noise, spent
from dpcov.mechanisms.pure import pure_epsilon
from dpcov.mechanisms.row_lengths import RowLengths
from dpcov.mechanisms.standardized import (
    BeforeRelease,
    gaussian_laws,
    laplace_laws,
    look,
    require_intercept,
)

if TYPE_CHECKING:
    from fractions import Fraction

    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice
    from dpcov.samplers import ScalarLaw
    from dpcov.sources.rows import Rows


@dataclass(frozen=True, slots=True)
class Calibration(BeforeRelease):
    """Public outcome of calibrating `StandardizedLadder`; `final` are the laws of the release."""

    final: ladder.Calibration


@dataclass(frozen=True, slots=True)
class StandardizedLadder(Mechanism):
    r"""`Ladder` on features about their means, in units of their spread; for any budget.

    For tables in which some columns have levels, others numbers. Rows about their means are much
    shorter, and no feature is mixed with another, so that denoising knows what levels imply
    (`dpcov.denoise.structure`), which it doesn't of `ShapedLadder`. No row is clipped, as
    `Standardized` does. Counts of mapped rows by length, for 2 % of the budget, say where the
    second rung is best: levels make most rows about as long.

    Guarantee
    ---------
    Epsilon-DP for a pure budget; rho-zCDP; (epsilon, delta)-DP by the exact curve of the Gaussian
    mechanism, or with Laplace noise, which spends no delta, where there is less of it. For every
    input, under add/remove or replace-one, for rows or for persons with at most k rows.

    Sensitivity
    -----------
    A look at means and spreads, by `look_sensitivities`, as in `Standardized`; counts of rows by
    length of their images (`mechanisms.radius` has the proof); and a release by `Ladder` of mapped
    rows, certified to lie within a radius that no image of a row is beyond, with the sensitivity
    of any rows (docs/proofs/ladder.md 7): the map depends on the data through the look alone, the
    rungs through look and counts. Costs add up adaptively, in exact rationals:
    epsilon by basic composition, rho, and for (epsilon, delta) mu^2 / 2 = rho with variances 8
    larger (`gaussian`).

    Not protected
    -------------
    Schema, budget, order of the matrix, running time; the number of rows (of persons) under
    replace-one.

    Parameters
    ----------
    look_share : float in (0, 1), public
        Share of the budget for means and spreads.
    trace_share : float in (0, 1), public
        Of the release; see `Ladder`.
    power : float in [0, 1], public
        Features are divided by this power of their standard deviation. Rows with a rare level
        would be long by 1/2, which is best where all rows are about as long.

    Returns
    -------
    Release
        The (d, d) moments of the rungs of mapped rows (`Release.rungs`), their sum, the map
        (`Release.linear_map`) and its center, the trace, the noise law.

    Raises
    ------
    MechanismError
        The schema has no intercept, or the budget is too small for the noise. Before anything
        is read.
    SourceError
        What can be read only once finds no room for a private copy. The budget is spent.

    Cost
    ----
    Three passes over the data (six with persons); the noise of one release by `Ladder`, and
    2 p + 26 numbers.

    Source
    ------
    dpcov.

    Examples
    --------
    >>> from dpcov.rows.moment import Lattice
    >>> from dpcov.core.privacy import ZCDP, Neighbors
    >>> lattice = Lattice(4, 2.0, intercept=0.3)
    >>> laws = StandardizedLadder().calibrate(lattice, ZCDP(0.5), Neighbors.ADD_REMOVE)
    >>> round(float(laws.final.rungs[-1].variance) / 2**80, 2)
    1.1

    """

    look_share: Share = 0.07
    trace_share: Share = 0.1
    power: Power = 0.25

    name: ClassVar[str] = "standardized-ladder"
    use: ClassVar[str] = "mostly levels, some numbers, at any budget; clips no row. The default"
    source: ClassVar[str] = "dpcov"

    @property
    def passes(self) -> int:
        """The look, counts, and the release."""
        return 3

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        require_intercept(self.name, lattice, "ladder")
        guarantee = Guarantee(budget, Neighbors(neighbors), lattice.unit)

        def of_images(whole: Fraction, extra: int | None = None) -> ladder.Spending:
            left = spent(self.look_share, whole)[-1]
            return ladder.Ladder(self.trace_share).spending(guarantee, left, extra, short=True)

        final = mapped_ladder.least_noise(
            lattice,
            budget,
            lambda: of_images(pure_epsilon(self.name, budget)),
            lambda: of_images(*gaussian.concentration(self.name, budget)),
        )
        laws: tuple[ScalarLaw, ScalarLaw]
        extra = final.spending.extra
        if extra is None:
            looking, counting, _ = spent(self.look_share, pure_epsilon(self.name, budget))
            laws = laplace_laws(lattice, guarantee.neighbors, looking, counting)
        else:
            rho, _ = gaussian.concentration(self.name, budget)
            looking, counting, _ = spent(self.look_share, rho)
            laws = gaussian_laws(lattice, guarantee.neighbors, looking, counting, extra)
        return Calibration(guarantee, laws[0], laws[1], final)

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        rows.require_rereadable()
        images = look(rows, laws.look, entropy).images(self.power, rows.schema)
        lattice = images.lattice(rows.lattice())
        lengths = RowLengths.counted(rows, lattice, images.map, laws.counts, entropy)
        lattice = replace(lattice, second_rung=lengths.best_second(first_noise(laws.final)))
        return mapped_ladder.released(self, rows, images.map, lattice, laws.final, entropy)
