"""What ladders of mapped rows have in common: the lattice of images, their noise and release."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcov.core.privacy import exact
from dpcov.errors import MechanismError
from dpcov.mechanisms import ladder
from dpcov.mechanisms.pure import by_budget
from dpcov.rows.linear_map import LinearMap, longest_image
from dpcov.rows.rungs import WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcov.core.arrays import Matrix, Vector
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.mechanisms import Mechanism
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice
    from dpcov.rows.schema import Schema
    from dpcov.sources.rows import Rows


COUNT_SHARE = Fraction(1, 50)  # of the budget, for counts of mapped rows by length


@dataclass(frozen=True, slots=True)
class Images:
    """A map of rows, what bounds their images, and their size.

    Attributes
    ----------
    map : to rows about their mean, or as they are, in other units.
    longest : what no image of a row is beyond.
    typical : root mean square of the images' lengths, as far as a look tells.

    """

    map: LinearMap
    longest: float
    typical: float

    @staticmethod
    def reached(matrix: Matrix, center: Vector | None, schema: Schema) -> tuple[LinearMap, float]:
        """The map that can be applied exactly, and what no image of a schema's row is beyond."""
        known = center, schema.effective_radius, schema.indicators.values()
        nearest = LinearMap.focused(matrix, longest_image(matrix, *known), center)
        return nearest, longest_image(nearest.matrix(), *known)

    def lattice(self, plain: Lattice) -> Lattice:
        """That of the images: the intercept is to their size what it is to that of the rows."""
        mapped = plain.relative(self.longest)  # directions of rows, which rungs hold, have no grid
        if not plain.intercept_units:
            return mapped
        units = max(1, round(mapped.intercept_units * self.typical / self.longest))
        return mapped.with_intercept(units)


def least_noise(
    lattice: Lattice,
    budget: Budget,
    laplace: Callable[[], ladder.Spending],
    gaussian: Callable[[], ladder.Spending],
) -> ladder.Calibration:
    """Laws of a release of mapped rows, on a lattice of the longest images; see `Calibration.at`.

    Which kind of noise it is must not depend on the map, which makes the intercept smaller. The
    noise is largest with the smallest of all; what can't be drawn there or here is refused, and any
    other lattice of images has scales and variances between both.
    """
    lattice = alike = replace(lattice.relative(), second_rung=None)
    alike = alike.with_intercept(1) if lattice.intercept_units else alike

    def both(spending: ladder.Spending) -> tuple[ladder.Calibration, ladder.Calibration]:
        laws = spending.laws(lattice)
        return laws, laws.at(alike)

    return by_budget(
        budget,
        lambda: both(laplace()),
        lambda: both(gaussian()),
        lambda laws: laws[1].matrix.frobenius_squared,
    )[0]


def spent(
    look_share: float, budget: Fraction, *, counts: bool = True
) -> tuple[Fraction, Fraction, Fraction]:
    """Of the budget: by the look, by counts if there are any, and by the release."""
    counting = COUNT_SHARE * budget if counts else Fraction(0)
    looking = exact(look_share) * budget
    left = budget - looking - counting
    if left <= 0:
        raise MechanismError(
            "look_share leaves nothing to release: beside counts of rows it must be below "
            f"{float(1 - COUNT_SHARE)}."
        )
    return looking, counting, left


def first_noise(laws: ladder.Calibration) -> float:
    """Norm of the noise in the moment of the longest rows, as a share of the lattice's bound."""
    return math.sqrt(laws.rungs[0].frobenius_squared) / WHOLE


def released(
    mechanism: Mechanism,
    rows: Rows,
    transform: LinearMap,
    lattice: Lattice,
    laws: ladder.Calibration,
    entropy: Entropy,
) -> Release:
    """Moments by length of mapped rows on this lattice, for which the laws are taken `at` it."""
    laws = laws.at(lattice)
    draws = ladder.drawn(laws, entropy)
    found = rows.rung_moments(lattice=lattice, transform=transform)
    made = ladder.published(mechanism, rows.schema, laws, draws, found)
    center = transform.center if lattice.intercept_units else None
    return replace(made, linear_map=transform.matrix(), center=center)
