"""Prepare the tables of the comparison: every method reads the same encoded rows.

There are two preparations:

- *Scaled* tables divide each row by the largest norm, as in the papers' experiments. They have no
  intercept. The target is the second moment.
- *Bounded* tables have public bounds that a person wrote, and the library's default intercept. The
  target is the covariance about the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import synthetic_tables

import datasets
import ridge_comparison
from accuracy import RememberedRows
from dpcov.rows.schema import FileOptions, Schema
from dpcov.rows.sources import open_source
from dpcov.rows.sources.array import ArraySource

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

INTERCEPT = 0.3  # the library's default


@dataclass(frozen=True)
class PreparedTable:
    """A table in the form that every method receives.

    `family` says how the table was made or scaled. `source` is the data source that the methods
    query. `centred_source` has the same rows with an intercept, for methods that need an intercept.
    """

    name: str
    family: str
    source: RememberedRows
    centred_source: RememberedRows

    @property
    def centred(self) -> bool:
        """Whether the target is the covariance about the mean."""
        return self.source.lattice().intercept_units > 0

    @cached_property
    def truth(self) -> Matrix:
        """Exact (d, d) second moment of the rows, over the count and the squared radius."""
        return self.per_row(exact_moment(self.source))

    @property
    def rows(self) -> int:
        return self.source.second_moments()[0].unit_count

    @property
    def features(self) -> int:
        return self.source.lattice().features

    def per_row(self, moment: Matrix) -> Matrix:
        """Divide a second moment by the number of rows and the squared radius."""
        return moment / (self.rows * self.source.lattice().radius ** 2)


def exact_moment(source: RememberedRows) -> Matrix:
    """Return the exact second moment of the source in squared units of an encoded row."""
    found = source.second_moments()[0]
    return found.units.astype(np.float64) * found.lattice.step**2


def target(prepared: PreparedTable, moment: Matrix) -> Matrix:
    """Return the (p, p) target of a (d, d) moment per row, centred if the table is."""
    p = prepared.features
    if not prepared.centred:
        return moment[:p, :p]
    sums, corner = moment[:p, -1], moment[-1, -1]
    if corner <= 0:
        return np.zeros((p, p))
    return moment[:p, :p] - np.outer(sums, sums) / corner


def scaled(name: str, family: str, table: Matrix) -> PreparedTable:
    table = datasets.rows_over_largest_norm(np.asarray(table, np.float64))
    names = tuple(f"x{j}" for j in range(table.shape[1]))

    def source(intercept: float) -> RememberedRows:
        schema = Schema.from_bounds(-1.0, 1.0, names, radius=1.0, intercept=intercept)
        return RememberedRows(schema, ArraySource(table, names), threads=1)

    return PreparedTable(name, family, source(0.0), source(INTERCEPT))


def bounded(name: str, task: ridge_comparison.Task) -> PreparedTable:
    source = RememberedRows(task.schema, open_source(task.frame, FileOptions(), ()), threads=1)
    return PreparedTable(name, "public bounds", source, source)


BOUNDED = ("airfoil", "diabetes", "wine", "california-like", "parkinsons", "adult hours")

TABLES: dict[str, Callable[[], PreparedTable]] = {
    **{
        name: lambda name=name, make=make: scaled(name, "real", make())  # type: ignore[misc]
        for name, make in datasets.TABLES.items()
    },
    **{
        f"{name}, public bounds": lambda name=name: bounded(  # type: ignore[misc]
            f"{name}, public bounds", ridge_comparison.TASKS[name]()
        )
        for name in BOUNDED
    },
    **{
        name: lambda name=name, make=make: scaled(name, "synthetic", make())  # type: ignore[misc]
        for name, make in synthetic_tables.TABLES.items()
    },
}


@lru_cache(maxsize=4)
def prepared_named(name: str) -> PreparedTable:
    return TABLES[name]()
