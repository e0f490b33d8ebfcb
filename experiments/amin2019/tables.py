"""The paper's three tables, and synthetic moments, as data sources of the library."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from accuracy import RememberedRows, open_table
from datasets import TABLES, rows_over_largest_norm
from dpcov.rows.moment import SecondMoment
from dpcov.rows.schema import Schema
from dpcov.rows.sources.array import ArraySource

Matrix = NDArray[np.float64]
NAMES = ("wine", "airfoil", "adult")


@dataclass(frozen=True)
class Table:
    """A second moment C (unit rows), what holds it, and the number n of rows."""

    name: str
    rows: RememberedRows
    moment: Matrix
    n: int

    @property
    def d(self) -> int:
        return len(self.moment)

    def error(self, estimate: Matrix | float) -> float:
        """Return ||C_hat - C||_F / n, the paper's normalised distance."""
        return float(np.linalg.norm(estimate - self.moment)) / self.n


@cache
def table(name: str) -> Table:
    """Return a table of the paper, rows over the largest norm (for experiments only)."""
    return _held(name, open_table(name))


@cache
def columns_of_adult(d: int) -> Table:
    """Return the adult table with d of its 108 columns, evenly spaced, and with rescaled rows."""
    whole = TABLES["adult"]()
    chosen = rows_over_largest_norm(whole[:, np.linspace(0, whole.shape[1] - 1, d).astype(int)])
    rows = _source(d, chosen)
    return _held(f"adult, {d} columns", rows)


def synthetic(name: str, moment: Matrix, n: int) -> Table:
    """Return a table of n rows with the second moment `moment`, up to rounding."""
    rows = _source(len(moment), np.zeros((1, len(moment))))
    lattice = rows.lattice()
    units = np.vectorize(int, otypes=[object])(np.rint(moment / lattice.step**2))  # beyond int64
    rows.answers[None] = [SecondMoment(units, lattice, n)]
    return _held(name, rows)


def seed_of(*key: object) -> int:
    """Return a separate seed for each key."""
    return zlib.crc32(repr(key).encode())


def _source(d: int, values: Matrix) -> RememberedRows:
    names = [f"x{j}" for j in range(d)]
    schema = Schema.from_bounds(-1.0, 1.0, names, radius=1.0, intercept=0.0)
    return RememberedRows(schema, ArraySource(values, tuple(names)))


def _held(name: str, rows: RememberedRows) -> Table:
    found = rows.second_moments()[0]
    return Table(name, rows, found.units.astype(float) * found.lattice.step**2, found.unit_count)
