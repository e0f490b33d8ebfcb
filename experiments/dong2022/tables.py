"""Tables of unit-ball rows: real ones, and synthetic ones with chosen spectra and norms."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

import seeds
from accuracy import RememberedRows, open_table
from dpcov.rows.schema import Schema
from dpcov.rows.sources.array import ArraySource

Matrix = NDArray[np.float64]
REAL = ("wine", "breast cancer", "digits")


@dataclass(frozen=True)
class Table:
    """Rows as a data source of the library, their second moment C and their number n."""

    rows: RememberedRows
    moment: Matrix
    n: int
    counts: dict[tuple[float, float], int] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: RememberedRows) -> Table:
        found = rows.second_moments()[0]
        return cls(rows, found.units.astype(float) * found.lattice.step**2, found.unit_count)

    @property
    def trace(self) -> float:
        """Mean squared norm of a row, at most 1."""
        return float(np.trace(self.moment)) / self.n

    def clipped(self, radius: float) -> Matrix:
        """Return the second moment of the rows clipped at a radius."""
        found = self.rows.second_moments(radius=radius)[0]
        return found.units.astype(float) * found.lattice.step**2

    def between(self, least: float, most: float) -> int:
        """Count rows with a norm above `least` and at most `most`."""
        key = (least, most)
        if key not in self.counts:
            self.counts[key] = int(self.rows.norm_counts([least, most])[1])
        return self.counts[key]

    def error(self, estimate: Matrix) -> float:
        """Return ||C_hat - C||_F / n."""
        return float(np.linalg.norm(estimate - self.moment)) / self.n


@cache
def real(name: str) -> Table:
    """Return a real table, rows over the largest norm (data-dependent: experiments only)."""
    return Table.of(open_table(name))


@cache
def synthetic(n: int, d: int, power: float = 1.0, tail: float = 0.0) -> Table:
    """Draw normal rows of eigenvalues j^-power; norms are 1, or rank^-tail (Zipf)."""
    generator = seeds.generator(n, d, int(100 * power), int(100 * tail))
    rows = generator.standard_normal((n, d)) * np.arange(1, d + 1) ** (-power / 2)
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    rows *= np.arange(1, n + 1)[:, None] ** -tail
    names = tuple(f"x{j}" for j in range(d))
    schema = Schema.from_bounds(-1.0, 1.0, names, radius=1.0, intercept=0.0)
    return Table.of(RememberedRows(schema, ArraySource(rows, names)))
