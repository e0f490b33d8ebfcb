"""Rehearsals: a mechanism run on an imagined table, through a door that opens onto no real one.

What a mechanism loses that looks at the rows before it maps or clips them no noise law tells. So it
is run as it is, on few imagined rows that stand for many: their sums and counts, times n / m.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.denoise import Method, denoise
from dpcov.errors import MechanismError
from dpcov.mechanisms import count
from dpcov.rows.moment import Lattice, SecondMoment, units_per_row
from dpcov.rows.schema import Schema
from dpcov.rows.sources.array import ArraySource
from dpcov.rows.sources.rows import IntegerRows, Rows

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers, Matrix
    from dpcov.core.privacy import Budget, Neighbors
    from dpcov.mechanisms import Mechanism
    from dpcov.releases import Release
    from dpcov.rows.moment import LinearMap

ASKS_TOO_MUCH = (
    "it asks for single rows or random groups of them, for which few imagined rows can't stand"
)


class ImaginedRows(Rows):
    """A door onto m imagined rows that stand for `count`: sums and counts are count / m as large.

    The features come encoded, so the door's own `schema` holds them as numbers in [-1, 1];
    `declared` is the schema of the table that is imagined. Nothing here is sensitive.
    """

    def __init__(self, declared: Schema, encoded: Matrix, count: int) -> None:
        names = tuple(f"x{j}" for j in range(encoded.shape[1]))
        plain = Schema.from_bounds(
            -1.0,
            1.0,
            names,
            radius=declared.effective_radius,
            intercept=declared.intercept,
        )
        super().__init__(plain, ArraySource(encoded, names), threads=1)
        self.declared = declared
        self.count = count
        self._factor = Fraction(count, len(encoded))

    @property
    def gaps(self) -> dict[int, int]:
        return self.declared.gaps

    def lattice(self, *, radius: float | None = None, features: int | None = None) -> Lattice:
        unit = self.declared.privacy_unit
        return replace(super().lattice(radius=radius, features=features), unit=unit)

    def second_moments(
        self,
        *,
        radius: float | None = None,
        transform: LinearMap | None = None,
        groups: int = 1,
        labels: Entropy | None = None,
        lattice: Lattice | None = None,
    ) -> list[SecondMoment]:
        if groups > 1:
            raise MechanismError(ASKS_TOO_MUCH)
        (found,) = super().second_moments(radius=radius, transform=transform, lattice=lattice)
        doubled, whole = 2 * self._factor.numerator, self._factor.denominator
        units = (found.units * doubled + whole) // (2 * whole)  # rounded
        persons = -(-self.count // self.declared.privacy_unit.max_rows)
        return [replace(found, units=units, unit_count=persons)]

    def norm_counts(
        self,
        edges: Sequence[float | Fraction] | Matrix,
        *,
        radius: float | None = None,
        transform: LinearMap | None = None,
    ) -> Integers:
        found = super().norm_counts(edges, radius=radius, transform=transform)
        # Rounded so that they add up to the number of rows.
        sums = np.rint(np.cumsum(found) * float(self._factor)).astype(np.int64)
        return np.diff(sums, prepend=0)

    def total(self) -> int:
        return self.count * units_per_row(self.declared)

    def integer_rows(self) -> IntegerRows:
        raise MechanismError(ASKS_TOO_MUCH)


def rehearse(
    mechanism: Mechanism,
    door: ImaginedRows,
    budget: Budget,
    neighbors: Neighbors,
    repeats: int,
    method: Method = "shrink",
) -> Iterator[Release]:
    """Denoised releases of the imagined table; the same draws every time.

    Raises
    ------
    MechanismError : the mechanism refuses the budget, or asks what no imagined table tells.

    """
    per_row = units_per_row(door.declared)
    laws = count.calibrated(mechanism, door.lattice(), budget, neighbors, per_row)
    for seed in range(repeats):
        made = count.run(mechanism, door, laws, Entropy.seeded(seed))
        named = replace(made, schema=door.declared)
        yield denoise(named, method, generator=simulation_generator(seed))
