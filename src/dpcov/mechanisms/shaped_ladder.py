"""Moments by length of rows, of rows about private means and in a shape that a first look tells."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcov.core.entropy import simulation_generator
from dpcov.core.parameters import Share
from dpcov.core.privacy import Guarantee, Neighbors
from dpcov.denoise import shown
from dpcov.denoise.rungs import noise_left
from dpcov.errors import MechanismError
from dpcov.mechanisms import gaussian, ladder, mapped_ladder
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.mapped_ladder import Images, first_noise, spent
from dpcov.mechanisms.pure import pure_epsilon
from dpcov.mechanisms.radius import count_law
from dpcov.mechanisms.row_lengths import RowLengths

if TYPE_CHECKING:
    from dpcov.core.arrays import Booleans, Vector
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice
    from dpcov.samplers import ScalarLaw
    from dpcov.sources.rows import Rows


SLACK = 4.0  # of the noise in the look, which a direction's variance is never taken to be below
POWER = 0.25  # of a direction's variance, by which it is divided
SURE = 2.0  # standard deviations of its noise that the number of rows is taken to be above
PAYS = 0.8  # of the noise: rows without an intercept are mapped if no more is left of it
SEEN = 0.9  # of what the look shows of mapped rows, that counts must account for


@dataclass(frozen=True, slots=True)
class Unmapped:
    """Laws of a release of rows as they are, and of its mean with the look if there is one.

    `share` is the look's of what both spend.
    """

    plain: ladder.Calibration
    pooled: ladder.Calibration | None = None
    share: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public outcome of calibrating `ShapedLadder`.

    `look` are the laws of the look, `shaped` those of the release, and `unmapped` where the look
    tells no map; all have noise of one kind, which is the same for any shape. If it is Gaussian,
    `counts` is the law of counts of mapped rows by length; without an intercept `rejected` are the
    laws where they tell that a map would not pay.
    """

    guarantee: Guarantee
    look: ladder.Calibration
    shaped: ladder.Calibration
    unmapped: Unmapped
    counts: ScalarLaw | None = None
    rejected: Unmapped | None = None


@dataclass(frozen=True, slots=True)
class ShapedLadder(Mechanism):
    r"""`Ladder` on rows about their mean, in a shape that a first look tells; for any budget.

    For tables whose values fill a small part of their bounds, lie far from the midpoints, or have
    columns of very different sizes: about their mean such rows are much shorter, and each direction
    gets noise that is as small as its spread. No row is clipped. Without an intercept rows are not
    centred, and mapped only where counts of mapped rows by length say that it pays. With Gaussian
    noise such counts, for 2 % of the budget, also say where the second rung is best.

    Guarantee
    ---------
    Epsilon-DP for a pure budget; rho-zCDP; (epsilon, delta)-DP by the exact curve of the Gaussian
    mechanism, or with Laplace noise, which spends no delta, where there is less of it. For every
    input, under add/remove or replace-one, for rows or for persons with at most k rows.

    Sensitivity
    -----------
    Two releases by `Ladder`: a look at the rows, with `look_share` of the budget, and the release,
    with the rest. Before the second, rows are mapped by A (z - c), which depends on the data
    through the look alone, and certified to lie within a radius that no image of a row is beyond;
    so its sensitivity is that of any rows (docs/proofs/ladder.md 7). Costs add up adaptively, in
    exact rationals: epsilon by basic composition, rho, and for (epsilon, delta) mu^2 / 2 = rho with
    variances 8 larger (`gaussian`).

    With Gaussian noise there are counts between the two, with 2 % of the budget and the sensitivity
    that `mechanisms.radius` proves; rungs, and whether to map, depend on look and counts alone.
    Without an intercept the noise is Gaussian: where rows are not mapped, the mean of look and
    release is published, with the noise that both budgets have.

    Not protected
    -------------
    Schema, budget, order of the matrix, running time; the number of rows (of persons) under
    replace-one.

    Parameters
    ----------
    look_share : float in (0, 1), public
        Share of the budget for the look.
    trace_share : float in (0, 1), public
        Of both releases; see `Ladder`.

    Returns
    -------
    Release
        The (d, d) moments of the rungs of mapped rows (`Release.rungs`), their sum, the map
        (`Release.linear_map`) and its center, the trace, the noise law. Without a map where the
        look shows nothing, and without an intercept where a map would not pay.

    Raises
    ------
    MechanismError
        The schema has no intercept and noise would not be Gaussian, or the budget is too small for
        the noise. Before anything is read.
    SourceError
        What can be read only once finds no room for a private copy. The budget is spent.

    Cost
    ----
    Two passes over the data, three with Gaussian noise (twice that with persons); the noise of two
    releases by `Ladder`; of each row three products with a (p, p) matrix.

    Source
    ------
    dpcov. Biswas, Dong, Kamath and Ullman, "CoinPress", NeurIPS 2020, for a look that lets later
    noise have the shape of the data; where theirs clips, rungs take the long rows.

    Examples
    --------
    >>> from dpcov.rows.moment import Lattice
    >>> from dpcov.core.privacy import ZCDP
    >>> lattice = Lattice(4, 2.0, intercept=0.3)
    >>> laws = ShapedLadder(look_share=0.1).calibrate(lattice, ZCDP(0.5), Neighbors.ADD_REMOVE)
    >>> [round(float(both.rungs[-1].variance) / 2**80, 2) for both in (laws.look, laws.shaped)]
    [10.01, 1.14]

    """

    look_share: Share = 0.07
    trace_share: Share = 0.1

    name: ClassVar[str] = "shaped-ladder"
    use: ClassVar[str] = "columns of numbers, at any budget; clips no row. The default"
    source: ClassVar[str] = "dpcov"

    @property
    def passes(self) -> int:
        """The look, counts where the noise is Gaussian, and the release."""
        return 3

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        guarantee = Guarantee(budget, Neighbors(neighbors), lattice.unit)
        one = ladder.Ladder(self.trace_share)

        def of_images(whole: Fraction, extra: int | None = None) -> ladder.Spending:
            left = spent(self.look_share, whole, counts=extra is not None)[-1]
            return one.spending(guarantee, left, extra, short=True)

        shaped = mapped_ladder.least_noise(
            lattice,
            budget,
            lambda: of_images(pure_epsilon(self.name, budget)),
            lambda: of_images(*gaussian.concentration(self.name, budget)),
        )
        extra = shaped.spending.extra

        @cache
        def laws(spends: Fraction) -> ladder.Calibration:
            return one.spending(guarantee, spends, extra).laws(lattice)

        if extra is None:
            if not lattice.intercept_units:
                raise MechanismError(
                    "shaped-ladder with Laplace noise takes rows about their mean, which only an "
                    "intercept tells. Give the schema an intercept (the default is 0.3), or choose "
                    "ladder."
                )
            looking, _, left = spent(self.look_share, pure_epsilon(self.name, budget), counts=False)
            return Calibration(guarantee, laws(looking), shaped, Unmapped(laws(left)))
        whole, _ = gaussian.concentration(self.name, budget)
        looking, counting, _ = spent(self.look_share, whole)
        look, counts = (
            laws(looking),
            count_law(lattice, counting / guarantee.neighbors.sides, extra),
        )
        if lattice.intercept_units:
            return Calibration(guarantee, look, shaped, Unmapped(laws(whole - looking)), counts)
        unmapped, rejected = (
            Unmapped(laws(both - looking), laws(both), looking / both)
            for both in (whole, whole - counting)
        )
        return Calibration(guarantee, look, shaped, unmapped, counts, rejected)

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        rows.require_rereadable()
        draws, schema = ladder.drawn(laws.look, entropy), rows.schema
        look = ladder.published(self, schema, laws.look, draws, rows.rung_moments(), margin=1.0)
        # Of the release's own stream, so that a seed repeats the map as well.
        shape = Shape.of(look, simulation_generator(int(entropy.words(1)[0])))
        if shape is None or (laws.rejected is not None and shape.hidden(self.look_share).all()):
            return self._as_they_are(rows, look, laws.unmapped, entropy)
        lattice = shape.lattice(look.lattice)
        if laws.counts is not None:
            lengths = RowLengths.counted(rows, lattice, shape.map, laws.counts, entropy)
            second = lengths.best_second(first_noise(laws.shaped))
            if laws.rejected is not None and not self._pays(shape, lengths, second, laws):
                return self._as_they_are(rows, look, laws.rejected, entropy)
            lattice = replace(lattice, second_rung=second)
        return mapped_ladder.released(self, rows, shape.map, lattice, laws.shaped, entropy)

    def _as_they_are(self, rows: Rows, look: Release, laws: Unmapped, entropy: Entropy) -> Release:
        """Without a map, and together with the look where noise allows it."""
        draws = ladder.drawn(laws.plain, entropy)
        made = ladder.published(self, rows.schema, laws.plain, draws, rows.rung_moments())
        if laws.pooled is None:
            return made
        return ladder.pooled(look, made, laws.share, laws.pooled)

    def _pays(
        self, shape: Shape, lengths: RowLengths, second: int | None, laws: Calibration
    ) -> bool:
        """Whether counts say that so little of the noise is left that the map is worth while."""
        traces, rungs = lengths.on_rungs(second)
        noises = (first_noise(laws.look) * rungs) ** 2
        unit = lengths.lattice.bound * lengths.lattice.step**2
        return shape.left_of_noise(unit * traces, unit**2 * noises, self.look_share) <= PAYS


@dataclass(frozen=True, slots=True)
class Shape(Images):
    """What the look makes of the release.

    Attributes
    ----------
    map, longest, typical : images are divided by the root of their spread in each direction.
    values : (p,) variances along the map's own directions times the number of rows, descending.
    factors : (p,) by which the map stretches these directions, at least 1.
    noise : norm of the noise in what the look shows.

    """

    values: Vector
    factors: Vector
    noise: float

    @classmethod
    def of(
        cls,
        look: Release,
        generator: np.random.Generator,
        *,
        slack: float = SLACK,
        power: float = POWER,
    ) -> Shape | None:
        """The shape that a look shows, at rows as they are or mapped; None where it shows nothing.

        Noise is spread as evenly as tr(S^1/2)^2 can be when images are A z with A = S^-1/4: the
        noise of a release grows with their mean square tr(A S A), and comes back through A^-1.
        """
        seen = shown(look, generator)
        if seen is None:
            return None
        moment, law = seen
        p, t = look.lattice.features, look.intercept()
        noise = math.sqrt(law.frobenius_squared)
        deviation = noise / law.dimension
        before = np.eye(p) if look.linear_map is None else look.linear_map
        count, center = 1.0, None
        if t:
            count = look.row_count or max(float(moment[-1, -1]), SURE * deviation, t**2) / t**2
            about = np.zeros(p) if look.center is None else look.center
            found = about + np.linalg.solve(before, moment[:p, -1] / (t * count))
            center = np.clip(found, -1.0, 1.0)
            mean = before @ (center - about)
            moment = moment[:p, :p] - count * np.outer(mean, mean)
        values, vectors = np.linalg.eigh(moment)
        values = np.maximum(values, 0.0)
        spread = values + slack * deviation * math.sqrt(law.dimension)
        factors = (spread / spread.max()) ** -power
        matrix = (vectors * factors) @ vectors.T @ before
        shape, longest = Images.reached(matrix, center, look.schema)
        typical = min(longest, math.sqrt(float(spread @ factors**2) / count))
        return cls(shape, longest, typical, values[::-1], factors[::-1], noise)

    def hidden(self, share: float) -> Booleans:
        """(p,) where a release that spends what the look does, `share`, would show nothing."""
        return self.values < 2 * self.noise * math.sqrt(share / len(self.values))

    def left_of_noise(self, traces: Vector, noises: Vector, share: float) -> float:
        """What a map is expected to leave of the noise that denoising can't tell from the matrix.

        Of a release that spends what the look does, which is `share` of the budget.

        Parameters
        ----------
        traces, noises : (K,) of mapped rows on the rungs: their traces, and squared norms of noise.

        """
        images, hidden = self.values * self.factors**2, self.hidden(share)
        if hidden.all() or traces.sum() < SEEN * images.sum():  # or the noise of counts hides rows
            return math.inf
        mapped = noise_left(traces, noises, float(np.sum(images**2) / np.sum(images) ** 2))
        back = self.factors**-2.0
        # Noise between two directions in which nothing shows is taken away with a map or without.
        kept = back.sum() ** 2 - back[hidden].sum() ** 2
        before = len(images) ** 2 - hidden.sum() ** 2
        return mapped / self.noise * math.sqrt(kept / before)
