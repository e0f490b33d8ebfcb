"""What the conformance battery runs over: mechanisms with their budgets, tables, sources."""

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP
from dpcov.mechanisms import MECHANISMS, options_of
from dpcov.mechanisms.additive import Calibration
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.array import ArraySource
from dpcov.rows.sources.rows import Rows

NAMES = ("a", "b", "c")
SCHEMA = Schema.from_bounds(0, 1, NAMES)


@dataclass(frozen=True)
class Budgets:
    """For one mechanism: budget -> (guarantee it gives, a smaller budget, its noise variance).

    The variance is the smaller budget's, over the budget's; None where it follows no simple law.
    Of a mechanism that `may_refuse`, `too_few` rows are refused; fewer than `enough` may be.
    """

    kept: dict
    refused: tuple
    enough: int = 300
    may_refuse: bool = False
    too_few: int = 0


def pure(smaller_variance=None):
    """Return budgets of a mechanism that gives pure differential privacy for every delta."""
    return Budgets(
        kept={
            PureDP(1.0): (PureDP(1.0), PureDP(0.5), smaller_variance),
            ApproxDP(1.0, 1e-6): (PureDP(1.0), ApproxDP(0.5, 1e-6), smaller_variance),
        },
        refused=(ZCDP(0.5),),
    )


def concentrated(smaller_variance=None, smaller_approximate=None):
    """Return budgets of a mechanism with Gaussian noise."""
    return Budgets(
        kept={
            ZCDP(0.5): (ZCDP(0.5), ZCDP(0.125), smaller_variance),
            ApproxDP(1.0, 1e-6): (
                ApproxDP(1.0, 1e-6),
                ApproxDP(0.5, 1e-6),
                smaller_approximate,
            ),
        },
        refused=(PureDP(1.0),),
    )


def refusing(enough, too_few, epsilon=10.0):
    """Return budgets of a mechanism that needs a delta, because it can refuse."""
    budget = ApproxDP(epsilon, 1e-3)
    return Budgets(
        kept={budget: (budget, ApproxDP(epsilon / 2, 1e-3), None)},
        refused=(PureDP(1.0), ZCDP(0.5)),
        enough=enough,
        may_refuse=True,
        too_few=too_few,
    )


# A new mechanism needs one entry here.
BUDGETS = {
    "eigenvector-sampling": pure(),
    "kapralov-talwar": pure(),
    "exponential-pca": pure(),
    "matrix-laplace": pure(smaller_variance=4),
    "nuclear-laplace": pure(smaller_variance=4),
    "laplace": pure(smaller_variance=4),
    "separate-laplace": pure(),
    "adaptive-laplace": pure(),
    "gaussian": concentrated(4, 3.6377),
    "separate-gaussian": concentrated(),
    "adaptive-gaussian": concentrated(),
    "preconditioned": concentrated(),
    "standardized": Budgets(kept=concentrated().kept | pure().kept, refused=()),
    "heavy-tailed": concentrated(),
    "additive-wishart": Budgets(
        kept={ApproxDP(1.0, 1e-6): (ApproxDP(1.0, 1e-6), ApproxDP(0.5, 1e-6), None)},
        refused=(PureDP(1.0), ZCDP(0.5)),
    ),
    "stable-covariance": refusing(3000, 60),
    "whitened": refusing(3000, 60),
    "ashtiani-liaw": refusing(100_000, 1500, epsilon=30.0),
    "unbounded-gaussian": refusing(40_000, 300, epsilon=30.0),
}


@dataclass(frozen=True)
class Case:
    name: str
    neighbors: Neighbors
    budget: object
    private_radius: bool = False

    def __str__(self):
        radius = "-private-radius" if self.private_radius else ""
        return f"{self.name}{radius}-{self.neighbors}-{type(self.budget).__name__}"

    @property
    def fields(self):
        return options_of(self.name)

    @property
    def enough(self):
        return BUDGETS[self.name].enough

    @property
    def may_refuse(self):
        return BUDGETS[self.name].may_refuse

    @property
    def mechanism(self):
        return MECHANISMS[self.name](**({"radius": "private"} if self.private_radius else {}))

    def calibrate(self, lattice, budget=None):
        return self.mechanism.calibrate(lattice, budget or self.budget, self.neighbors)

    def release(self, rows, entropy):
        return self.mechanism(rows, budget=self.budget, neighbors=self.neighbors, entropy=entropy)


CASES = [
    Case(name, neighbors, budget)
    for name, budgets in BUDGETS.items()
    for neighbors in Neighbors
    for budget in budgets.kept
]
CASES += [replace(case, private_radius=True) for case in CASES if "radius" in case.fields]
SHAPE = Lattice(3, 1.0, 0.3)
# All noise of these is drawn first, and what they release is a moment with noise ...
NOISE_FIRST = [case for case in CASES if isinstance(case.calibrate(SHAPE), Calibration)]
# ... here at the radius of the schema.
ADDITIVE = [case for case in NOISE_FIRST if case.calibrate(SHAPE).counts is None]
MAY_REFUSE = [case for case in CASES if case.may_refuse]
REFUSED = [
    Case(name, neighbors, budget)
    for name, budgets in BUDGETS.items()
    for neighbors in Neighbors
    for budget in budgets.refused
]


def table(n, seed=0):
    """Return (n, 3) numbers in [0, 1]; the last two are correlated."""
    values = np.random.default_rng(seed).random((n, 3))
    values[:, 2] = (values[:, 1] + values[:, 2]) / 2
    return values


def as_arrow(values):
    return pa.table({name: values[:, j] for j, name in enumerate(NAMES)})


def as_csv(values, folder):
    pyarrow.csv.write_csv(as_arrow(values), folder / "t.csv")
    return folder / "t.csv"


def as_parquet(values, folder):
    pyarrow.parquet.write_table(as_arrow(values), folder / "t.parquet", row_group_size=100)
    return folder / "t.parquet"


def as_polars(values, _):
    import polars

    return polars.from_arrow(as_arrow(values))


def as_duckdb(values, _):
    import duckdb

    return duckdb.from_arrow(as_arrow(values))


SOURCES = {
    "csv": as_csv,
    "parquet": as_parquet,
    "ndarray": lambda values, _: values,
    "pandas": lambda values, _: as_arrow(values).to_pandas(),
    "polars": as_polars,
    "pyarrow": lambda values, _: as_arrow(values),
    "duckdb": as_duckdb,
}


def rows_of(values, schema=SCHEMA):
    return open_rows(values, schema)


@dataclass
class Watched:
    """A table (reading it may fail) and a stream of noise that log, in order, who is asked."""

    values: np.ndarray
    fault: Exception | None = None
    events: list = field(default_factory=list)

    def rows(self):
        return Rows(SCHEMA, _WatchedSource(self))

    def entropy(self):
        return _WatchedEntropy(self)


class _WatchedSource(ArraySource):
    def __init__(self, watched):
        super().__init__(watched.values, NAMES)
        self._watched = watched

    def batches(self, columns):
        self._watched.events.append("read")
        if self._watched.fault is not None:
            raise self._watched.fault
        return super().batches(columns)


class _WatchedEntropy(Entropy):
    def __init__(self, watched):
        super().__init__(bytes(32), reproducible=True)
        self._watched = watched

    def words(self, count):
        self._watched.events.append("noise")
        return super().words(count)
