"""Moments by length of rows, of rows about private means and in a shape that a first look tells."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcov.denoise import shown
from dpcov.entropy import simulation_generator
from dpcov.errors import MechanismError
from dpcov.linear_map import LinearMap, longest_image
from dpcov.mechanisms import gaussian, ladder, spectral
from dpcov.mechanisms.pure import by_budget, pure_epsilon
from dpcov.privacy import Guarantee, Neighbors, exact

if TYPE_CHECKING:
    from dpcov.entropy import Entropy
    from dpcov.moment import Lattice
    from dpcov.privacy import Budget
    from dpcov.releases import Release
    from dpcov.sources.rows import Rows


SLACK = 4.0  # of the noise in the look, which a direction's variance is never taken to be below
POWER = 0.25  # of a direction's variance, by which it is divided
SURE = 2.0  # standard deviations of its noise that the number of rows is taken to be above


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public outcome of calibrating `ShapedLadder`.

    `look` are the laws of the look, `shaped` those of the release, and `plain` if the look shows
    nothing; `is_gaussian` tells which kind of noise all have, which is the same for any shape.
    """

    guarantee: Guarantee
    look: ladder.Calibration
    shaped: ladder.Calibration
    plain: ladder.Calibration
    is_gaussian: bool


@dataclass(frozen=True, slots=True)
class ShapedLadder:
    r"""`Ladder` on rows about their mean, in a shape that a first look tells; for any budget.

    For tables whose values fill a small part of their bounds, lie far from the midpoints, or have
    columns of very different sizes: about their mean such rows are much shorter, and each direction
    gets noise that is as small as its spread. No row is clipped.

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
        look shows nothing.

    Raises
    ------
    MechanismError
        The schema has no intercept, or the budget is too small for 64-bit noise. Before anything
        is read.
    SourceError
        The data can be read only once. Before anything is read.

    Cost
    ----
    Two passes over the data (four with persons); the noise of two releases by `Ladder`; of each row
    three products with a (p, p) matrix.

    Source
    ------
    dpcov. Biswas, Dong, Kamath and Ullman, "CoinPress", NeurIPS 2020, for a look that lets later
    noise have the shape of the data; where theirs clips, rungs take the long rows.

    Examples
    --------
    >>> from dpcov.moment import Lattice
    >>> from dpcov.privacy import ZCDP
    >>> lattice = Lattice(4, 2.0, intercept=0.3)
    >>> laws = ShapedLadder(look_share=0.1).calibrate(lattice, ZCDP(0.5), Neighbors.ADD_REMOVE)
    >>> [round(float(both.rungs[-1].variance) / 2**80, 2) for both in (laws.look, laws.shaped)]
    [10.01, 1.11]

    """

    look_share: float = 0.07
    trace_share: float = 0.1

    name: ClassVar[str] = "shaped-ladder"
    use: ClassVar[str] = "columns of numbers, at any budget; clips no row. The default"
    source: ClassVar[str] = "dpcov"

    def __post_init__(self) -> None:
        for field in ("look_share", "trace_share"):
            spectral.check_share(field, getattr(self, field))

    @property
    def passes(self) -> int:
        """The look and the release."""
        return 2

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        if lattice.intercept_units == 0:
            raise MechanismError(
                "shaped-ladder takes rows about their mean, which only an intercept tells. Give "
                "the schema an intercept (the default is 0.3), or choose ladder."
            )
        # The map makes the intercept smaller, which must not change the kind of noise, nor make it
        # too large after the look: it is largest with the smallest of all.
        alike = lattice.with_intercept(1)
        is_gaussian = by_budget(
            budget,
            lambda: self._laws(alike, budget, neighbors, is_gaussian=False),
            lambda: self._laws(alike, budget, neighbors, is_gaussian=True),
            lambda laws: laws.shaped.matrix.frobenius_squared,
        ).is_gaussian
        return self._laws(lattice, budget, neighbors, is_gaussian=is_gaussian)

    def _laws(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors, *, is_gaussian: bool
    ) -> Calibration:
        guarantee = Guarantee(budget, Neighbors(neighbors), lattice.unit)
        one = ladder.Ladder(self.trace_share)
        if is_gaussian:
            whole, extra = gaussian.concentration(self.name, budget)
            spending = partial(one.gaussian, lattice, guarantee, extra=extra)
        else:
            whole = pure_epsilon(self.name, budget)
            spending = partial(one.laplace, lattice, guarantee)
        looking = exact(self.look_share) * whole
        left = whole - looking
        look, shaped, plain = spending(looking), spending(left, short=True), spending(left)
        return Calibration(guarantee, look, shaped, plain, is_gaussian)

    def __call__(
        self, rows: Rows, *, budget: Budget, neighbors: Neighbors, entropy: Entropy
    ) -> Release:
        rows.require_rereadable()
        laws = self.calibrate(rows.lattice(), budget, neighbors)
        look = ladder.released(self, rows.schema, laws.look, rows.rung_moments, entropy)
        # Of the release's own stream, so that a seed repeats the map as well.
        shape = Shape.of(look, simulation_generator(int(entropy.words(1)[0])))
        if shape is None:
            return ladder.released(self, rows.schema, laws.plain, rows.rung_moments, entropy)
        lattice = shape.lattice(look.lattice)
        final = self.calibrate(lattice, budget, neighbors).shaped
        ask = partial(rows.rung_moments, lattice=lattice, transform=shape.map)
        made = ladder.released(self, rows.schema, final, ask, entropy)
        return replace(made, linear_map=shape.map.matrix(), center=shape.map.center)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the look makes of the release: a map of rows, what bounds their images, and their size.

    Attributes
    ----------
    map : to rows about their mean, divided by the root of their spread in each direction.
    longest : what no image of a row is beyond.
    typical : root mean square of the images' lengths, as far as the look tells.

    """

    map: LinearMap
    longest: float
    typical: float

    @classmethod
    def of(cls, look: Release, generator: np.random.Generator) -> Shape | None:
        """The shape that a look shows; None where it shows nothing.

        Noise is spread as evenly as tr(S^1/2)^2 can be when images are A z with A = S^-1/4: the
        noise of a release grows with their mean square tr(A S A), and comes back through A^-1.
        """
        seen = shown(look, generator)
        if seen is None:
            return None
        moment, law = seen
        p, t = look.lattice.features, look.intercept()
        deviation = math.sqrt(law.frobenius_squared) / law.dimension
        count = look.row_count or max(float(moment[-1, -1]), SURE * deviation, t**2) / t**2
        center = np.clip(moment[:p, -1] / (t * count), -1.0, 1.0)
        centred = moment[:p, :p] - count * np.outer(center, center)
        values, vectors = np.linalg.eigh(centred)
        spread = np.maximum(values, 0.0) + SLACK * deviation * math.sqrt(law.dimension)
        factors = (spread / spread.max()) ** -POWER
        matrix = (vectors * factors) @ vectors.T
        radius = look.schema.effective_radius
        shape = LinearMap.focused(matrix, longest_image(matrix, center, radius), center)
        longest = longest_image(shape.matrix(), center, radius)
        typical = min(longest, math.sqrt(float(spread @ factors**2) / count))
        return cls(shape, longest, typical)

    def lattice(self, plain: Lattice) -> Lattice:
        """That of the images: the intercept is to their size what it is to that of the rows."""
        units = max(1, round(plain.intercept_units * self.typical / self.longest))
        mapped = replace(plain, radius=self.longest)
        return mapped.with_intercept(units)
