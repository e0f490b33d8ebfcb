"""Releases of simulated rows, for mechanisms whose error depends on the rows.

If a mechanism transforms or clips the rows, its noise distribution does not determine its error.
The plan then runs the mechanism on m simulated rows that represent n rows. All sums and counts are
multiplied by n / m.
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

SINGLE_ROWS_REASON = (
    "A plan simulates only sums over all rows, but this mechanism tests single rows or random "
    "groups of rows"
)


class SimulatedRows(Rows):
    """Data source of m simulated rows that represent `count` rows.

    Sums and counts are multiplied by count / m. Nothing in this class is sensitive.

    Parameters
    ----------
    declared : Schema
        Schema of the simulated table.

    encoded : ndarray, shape (m, p)
        Simulated rows, encoded with numbers in [-1, 1].

    count : int
        Number of rows that the simulated rows represent.

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
        self._rows = Rows(plain, ArraySource(encoded, names), threads=1)
        self.schema = declared  # mechanisms treat flags and levels as in a real table
        self.count = count
        self._factor = Fraction(count, len(encoded))
        self._without_transform: dict[tuple[float | None, Lattice | None], SecondMoment] = {}

    def require_rereadable(self) -> None:
        """Do nothing, because dpcov can read an array again."""

    def lattice(self, *, radius: float | None = None, features: int | None = None) -> Lattice:
        unit = self.schema.privacy_unit
        return replace(self._rows.lattice(radius=radius, features=features), unit=unit)

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
            raise MechanismError(SINGLE_ROWS_REASON)
        if transform is not None:
            return [self._scaled(radius, transform, lattice)]
        # Without a transform, all simulated releases have the same exact answer: compute it once.
        if (radius, lattice) not in self._without_transform:
            self._without_transform[radius, lattice] = self._scaled(radius, None, lattice)
        return [self._without_transform[radius, lattice]]

    def _scaled(
        self, radius: float | None, transform: LinearMap | None, lattice: Lattice | None
    ) -> SecondMoment:
        """Return the second moment, scaled to the number of rows that these rows represent."""
        features = None if transform is None else len(transform.integers)
        lattice = lattice or self.lattice(radius=radius, features=features)
        (found,) = self._rows.second_moments(radius=radius, transform=transform, lattice=lattice)
        doubled, whole = 2 * self._factor.numerator, self._factor.denominator
        units = (found.units * doubled + whole) // (2 * whole)  # rounded
        persons = -(-self.count // self.schema.privacy_unit.max_rows)
        return replace(found, units=units, unit_count=persons)

    def norm_counts(
        self,
        edges: Sequence[float | Fraction] | Matrix,
        *,
        radius: float | None = None,
        transform: LinearMap | None = None,
    ) -> Integers:
        found = self._rows.norm_counts(edges, radius=radius, transform=transform)
        # The rounded counts add up to the number of rows.
        sums = np.rint(np.cumsum(found) * float(self._factor)).astype(np.int64)
        return np.diff(sums, prepend=0)

    def total(self) -> int:
        return self.count * units_per_row(self.schema)

    def integer_rows(self) -> IntegerRows:
        raise MechanismError(SINGLE_ROWS_REASON)


def simulated_releases(
    mechanism: Mechanism,
    source: SimulatedRows,
    budget: Budget,
    neighbors: Neighbors,
    repeats: int,
    method: Method = "shrink",
    *,
    with_mu: bool = False,
) -> Iterator[Release]:
    """Generate denoised releases of a simulated table, with the same noise in each call.

    Parameters
    ----------
    mechanism : Mechanism
        Mechanism of the releases.

    source : SimulatedRows
        Simulated table.

    budget : Budget
        Budget of each release.

    neighbors : Neighbors
        Relation between neighbouring tables.

    repeats : int
        Number of releases.

    method : str
        Method that denoises the releases.

    with_mu : bool
        True if all noise must be Gaussian with a known mu.

    Yields
    ------
    Release
        Denoised release of the simulated table.

    Raises
    ------
    MechanismError
        The mechanism refuses the budget, or it needs single rows.

    """
    per_row = units_per_row(source.schema)
    lattice = source.lattice()
    laws = count.calibrated(mechanism, lattice, budget, neighbors, per_row, with_mu=with_mu)
    for seed in range(repeats):
        made = count.run(mechanism, source, laws, Entropy.seeded(seed))
        named = replace(made, schema=source.schema)
        yield denoise(named, method, generator=simulation_generator(seed))
