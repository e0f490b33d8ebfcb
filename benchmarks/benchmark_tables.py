"""Make or read the tables of `tables.toml`: real tables, and simulated tables of known shapes.

All bounds could be written without seeing the data: they are round, and often far from the data.
"""

from __future__ import annotations

import tomllib
import zlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

import datasets
from dpcov.rows.schema import Schema
from ridge_comparison import TASKS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

NEWER = ("number", "count", "flag")  # kinds of columns of schemas of version 2
PARTS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("tables.toml").read_text())


class Table(NamedTuple):
    """Cells, and the columns of their schema."""

    frame: pd.DataFrame
    columns: dict[str, Any]

    def declared(self, *, before: bool = False) -> dict[str, Any]:
        """Return the schema; before schema version 2, all columns without levels are numeric."""
        newer = [name for name, it in self.columns.items() if it["kind"] in NEWER]
        if before or not newer:
            plain = {name: self.columns[name] | {"kind": "numeric"} for name in newer}
            return {"columns": self.columns | plain}
        return {"version": 2, "columns": self.columns}

    def features(self) -> Matrix:
        """Return the (n, p) features in half-ranges of their bounds; a level is an indicator."""
        found = []
        for name, column in self.columns.items():
            cells = self.frame[name].to_numpy()
            if "levels" in column:
                found += [2.0 * (cells == level) for level in column["levels"]]
            else:
                low, high = column["lower"], column["upper"]
                found.append(np.clip(cells.astype(float), low, high) * (2 / (high - low)))
        return np.column_stack(found)


def numbers(values: Matrix, bounds: Any) -> Table:
    """Return a table of numbers; a single pair of bounds applies to all columns."""
    pairs = np.broadcast_to(np.asarray(bounds, float), (values.shape[1], 2)).tolist()
    named = {f"x{j}": pair for j, pair in enumerate(pairs)}
    columns = {n: {"kind": "numeric", "lower": a, "upper": b} for n, (a, b) in named.items()}
    return Table(pd.DataFrame(values, columns=list(named)), columns)


def related(rng: np.random.Generator, n: int, p: int, share: float = 0.5) -> Matrix:
    """Simulate (n, p) normal columns; two common factors have this fraction of the variance."""
    common = rng.normal(size=(n, 2)) @ rng.normal(size=(2, p)) / np.sqrt(2)
    return np.sqrt(share) * common + np.sqrt(1 - share) * rng.normal(size=(n, p))


def scales(rng: np.random.Generator) -> Table:
    """Simulate columns with standard deviations from 0.01 to 0.3 of the half-range."""
    return numbers(related(rng, 10_000, 8) * np.geomspace(0.01, 0.3, 8), (-1, 1))


def flags(rng: np.random.Generator) -> Table:
    """Simulate flags with rates of 1 to 50 percent, declared as numbers."""
    from scipy.stats import norm

    rates = np.geomspace(0.01, 0.5, 8)
    return numbers((related(rng, 10_000, 8) < norm.ppf(rates)).astype(float), (0, 1))


def declared_flags(rng: np.random.Generator) -> Table:
    """Simulate flags with the same rates, declared as flags."""
    found = flags(rng)
    return Table(found.frame, {name: {**it, "kind": "flag"} for name, it in found.columns.items()})


def casp(rng: np.random.Generator) -> Table:
    """Simulate nine properties with tails like t with 2 degrees of freedom."""
    tails = related(rng, 20_000, 9, 0.8) / np.sqrt(rng.chisquare(2, (20_000, 1)) / 2)
    return numbers(np.clip(np.abs(tails), 0, 100), (0, 100))


def diamonds(rng: np.random.Generator) -> Table:
    """Simulate carats, prices and widths, with a few wrongly recorded widths."""
    n = 20_000
    carat = np.clip(np.exp(-0.4 + 0.6 * rng.normal(size=n)), 0.2, 6)
    price = np.clip(4000 * carat**1.7 * np.exp(0.25 * rng.normal(size=n)), 300, 20_000)
    side = 6.4 * np.cbrt(carat)
    widths = side[:, None] * [1, 1, 0.62] * (1 + 0.01 * rng.normal(size=(n, 3)))
    widths[:6, 1:] *= [[8, 1], [0, 0], [5, 1], [1, 6], [0, 0], [1, 9]]
    rest = [61.7 + 1.4 * rng.normal(size=n), 57.5 + 2.2 * rng.normal(size=n)]
    bounds = [(0, 6), (40, 80), (40, 100), (0, 20_000), (0, 60), (0, 60), (0, 60)]
    return numbers(np.column_stack([carat, *rest, price, np.clip(widths, 0, 60)]), bounds)


def census(rng: np.random.Generator) -> Table:
    """Simulate ages, hours, years, a weight, and gains that few people have."""
    n = 20_000
    base = related(rng, n, 4)
    gain = np.where(rng.random(n) < 0.08, np.exp(8.5 + 0.9 * rng.normal(size=n)), 0)
    weight = 190_000 * np.exp(0.5 * base[:, 3])
    columns = [38 + 13 * base[:, 0], 40 + 12 * base[:, 1], 10 + 2.6 * base[:, 2], weight, gain]
    return numbers(
        np.column_stack(columns), [(0, 100), (0, 100), (0, 20), (0, 1_500_000), (0, 100_000)]
    )


def lognormal(rng: np.random.Generator) -> Table:
    return numbers(np.exp(related(rng, 10_000, 5, 0.6)), (0, 100))


def flights(rng: np.random.Generator) -> Table:
    """Simulate delays (most near 0, some of many hours), distances and times in the air."""
    n = 30_000
    far = np.exp(6.7 + 0.7 * rng.normal(size=n))
    late = np.where(rng.random(n) < 0.2, rng.exponential(60, n), 5 * rng.normal(size=n))
    columns = [late, late - 5 + 15 * rng.normal(size=n), far, 20 + far / 8 + 8 * rng.normal(size=n)]
    bounds = [(-100, 1500), (-100, 1500), (0, 5000), (0, 700)]
    return numbers(np.column_stack([*columns, 24 * rng.random(n)]), [*bounds, (0, 24)])


def crime(rng: np.random.Generator) -> Table:
    """Simulate 17 skewed fractions of 2,000 communities, some nearly multiples of others."""
    base = related(rng, 2000, 17, 0.9)
    return numbers(1 / (1 + np.exp(2 - base)), (0, 1))


def prices(rng: np.random.Generator) -> Table:
    return numbers(np.exp(1.5 * related(rng, 20_000, 3)), (0, 10_000))


def heavy(rng: np.random.Generator, freedom: int, p: int) -> Table:
    tails = related(rng, 10_000, p) / np.sqrt(rng.chisquare(freedom, (10_000, 1)) / freedom)
    return numbers(tails, (-50, 50))


def tails(
    rng: np.random.Generator, tail: Callable[[Matrix], Matrix], n: int, p: int, most: float
) -> Table:
    """Return non-negative columns: `tail` of exponential variables with common causes."""
    from scipy.stats import norm

    drawn = tail(-norm.logsf(related(rng, n, p)))
    return numbers(np.minimum(drawn, most), (0, most))


def mistakes(rng: np.random.Generator) -> Table:
    """Simulate rows of which one in a hundred is thirty times as far out."""
    far = np.where(rng.random((10_000, 1)) < 0.01, 30, 1)
    return numbers(np.clip(far * related(rng, 10_000, 5), -100, 100), (-100, 100))


def purchases(rng: np.random.Generator) -> Table:
    """Simulate the amounts spent at five shops, most of them 0."""
    spent = np.exp(3 + 1.2 * related(rng, 20_000, 5))
    return numbers(np.minimum(spent * (rng.random((20_000, 5)) < 0.15), 5000), (0, 5000))


def clusters(rng: np.random.Generator) -> Table:
    """Simulate three groups, of which one holds one row in fifty and lies far out."""
    group = rng.choice(3, 8000, p=[0.6, 0.38, 0.02])
    centers = np.array([[0, 0, 0, 0], [2, 1, 0, -1], [12, -9, 8, 4]])
    return numbers(centers[group] + related(rng, 8000, 4), (-20, 20))


def bimodal(rng: np.random.Generator) -> Table:
    sides = rng.choice([-0.8, 0.8], (5000, 3))
    return numbers(sides + 0.1 * rng.normal(size=(5000, 3)), (-1, 1))


def of_levels(rng: np.random.Generator, counts: tuple[int, ...], p: int = 2) -> Table:
    """Simulate levels with frequencies 1/j, each half a copy of the one before; `p` numbers."""
    n = 10_000
    frame, columns = {}, {}
    before = np.zeros(n, np.int64)
    for j, count in enumerate(counts):
        weights = 1 / np.arange(1.0, count + 1)
        drawn = rng.choice(count, n, p=weights / weights.sum())
        before = np.where(rng.random(n) < 0.5, before % count, drawn)
        frame[f"c{j}"] = before.astype(str)
        columns[f"c{j}"] = {"kind": "categorical", "levels": [str(k) for k in range(count)]}
    both = numbers(related(rng, n, p) + before[:, None] / 10, (-10, 10))
    return Table(pd.DataFrame(frame).join(both.frame), columns | both.columns)


def of_flags(
    rng: np.random.Generator, rates: tuple[float, ...], p: int, *, long: bool = False
) -> Table:
    """Simulate `p` numbers and related flags with these rates; with `long`, one number is long."""
    from scipy.stats import norm

    base = related(rng, 20_000, p + len(rates))
    values = np.clip(50 + 15 * base[:, :p], 0, 100)
    if long:
        values[:, -1] = np.clip(np.exp(1 + base[:, p - 1]), 0, 100)
    own = numbers(values, (0, 100))
    flagged = (base[:, p:] < norm.ppf(rates)).astype(float)
    names = [f"f{j}" for j in range(len(rates))]
    columns = {name: {"kind": "flag", "lower": 0, "upper": 1} for name in names}
    as_numbers = {name: {**column, "kind": "number"} for name, column in own.columns.items()}
    return Table(own.frame.join(pd.DataFrame(flagged, columns=names)), as_numbers | columns)


def cut(rng: np.random.Generator, p: int, cuts: tuple[tuple[float, ...], ...]) -> Table:
    """Simulate `p` numbers and related categories, whose levels begin at these quantiles."""
    from scipy.stats import norm

    base = related(rng, 20_000, p + len(cuts))
    own = numbers(np.clip(50 + 15 * base[:, :p], 0, 100), (0, 100))
    frame, columns = own.frame, dict(own.columns)
    for j, quantiles in enumerate(cuts):
        levels = [f"l{k}" for k in range(len(quantiles) + 1)]
        frame[f"c{j}"] = np.array(levels)[np.searchsorted(norm.ppf(quantiles), base[:, p + j])]
        columns[f"c{j}"] = {"kind": "categorical", "levels": levels}
    return Table(frame, columns)


def survey(rng: np.random.Generator) -> Table:
    """Simulate ages, incomes and scores, a rare diagnosis, and four groups of unlike size."""
    n = 15_000
    base = related(rng, n, 8)
    values = np.column_stack([45 + 16 * base[:, 0], 30 * np.exp(0.5 * base[:, 1]), base[:, 2:7]])
    own = numbers(values, [(0, 110), (0, 400), *[(-8, 8)] * 5])
    ill = (base[:, 0] + base[:, 7] + rng.normal(size=n) > 4).astype(float)
    group = rng.choice(["n", "e", "s", "w"], n, p=[0.6, 0.3, 0.08, 0.02])
    columns: dict[str, Any] = {
        name: {**column, "kind": "number"} for name, column in own.columns.items()
    }
    columns["ill"] = {"kind": "flag", "lower": 0, "upper": 1}
    columns["group"] = {"kind": "categorical", "levels": ["n", "e", "s", "w"]}
    return Table(own.frame.assign(ill=ill, group=group), columns)


def answers(rng: np.random.Generator) -> Table:
    """Simulate answers from 1 to 5 to 300 questions on ten subjects, some with broad agreement."""
    subject = rng.normal(size=(20_000, 10)).repeat(30, axis=1)
    agreed = rng.uniform(2, 4.5, 300) + 0.8 * subject + 0.9 * rng.normal(size=(20_000, 300))
    return numbers(np.clip(np.rint(agreed), 1, 5), (1, 5))


def sensors(rng: np.random.Generator) -> Table:
    """Simulate 300 autoregressive columns with standard deviations from 0.02 to 0.3."""
    seen = rng.normal(size=(20_000, 300))
    for j in range(1, 300):
        seen[:, j] = 0.9 * seen[:, j - 1] + np.sqrt(1 - 0.9**2) * seen[:, j]
    return numbers(np.clip(seen * rng.permutation(np.geomspace(0.02, 0.3, 300)), -1, 1), (-1, 1))


def borders(rng: np.random.Generator) -> Table:
    """Simulate 200 columns far from the midpoints of their bounds; some stay close to a bound."""
    means = np.clip(rng.normal(-0.7, 0.3, 200), -1, 1)
    deviations = np.where(means <= -0.95, 0.005, rng.uniform(0.02, 0.32, 200))
    causes = rng.normal(size=(10_000, 8)) @ rng.normal(size=(8, 200)) / 4
    seen = means + deviations * (causes + rng.normal(size=(10_000, 200)))
    return numbers(np.clip(seen, -1, 1), (-1, 1))


def returns(rng: np.random.Generator) -> Table:
    """Simulate 300 stocks of fifteen industries in one market, with volatile days."""
    branches = rng.normal(size=(20_000, 15)).repeat(20, axis=1)
    days = 0.6 * rng.normal(size=(20_000, 1)) + 0.5 * branches + rng.normal(size=(20_000, 300))
    wild = np.sqrt(5 / rng.chisquare(5, (20_000, 1)))
    return numbers(np.clip(wild * days * rng.uniform(0.01, 0.03, 300), -0.5, 0.5), (-0.5, 0.5))


def genes(rng: np.random.Generator) -> Table:
    """Simulate 2,000 skewed columns with twenty common causes, most of them weak."""
    causes = rng.normal(size=(20_000, 20)) * np.geomspace(1, 0.2, 20)
    seen = causes @ rng.normal(size=(20, 2000)) / 3 + rng.normal(size=(20_000, 2000))
    return numbers(np.minimum(np.exp(0.5 * seen), 20), (0, 20))


MADE: dict[str, Callable[[np.random.Generator], Table]] = {
    **{f.__name__: f for f in (scales, flags, casp, diamonds, census, lognormal, flights, crime)},
    **{f.__name__: f for f in (prices, clusters, bimodal, mistakes, purchases)},
    **{f.__name__: f for f in (answers, sensors, borders, returns, genes, survey)},
    "declared flags": declared_flags,
    "some flags": partial(of_flags, rates=(0.02, 0.1, 0.2, 0.4), p=6),
    "rare flags": partial(of_flags, rates=(0.001, 0.01, 0.05), p=4),
    "flags and a long tail": partial(of_flags, rates=(0.02, 0.1, 0.2, 0.4), p=6, long=True),
    "some levels": partial(cut, p=9, cuts=((0.5, 0.8, 0.95), (0.97,))),
    "few rows": lambda rng: numbers(related(rng, 60, 4), (-5, 5)),
    "one column": lambda rng: numbers(np.exp(rng.normal(size=(3000, 1))), (0, 50)),
    "t with 2": partial(heavy, freedom=2, p=4),
    "t with 5": partial(heavy, freedom=5, p=8),
    "t with 3": partial(heavy, freedom=3, p=6),
    "pareto 1.5": partial(tails, tail=lambda e: np.exp(e / 1.5) - 1, n=20_000, p=4, most=1000),
    "pareto 3": partial(tails, tail=lambda e: np.exp(e / 3) - 1, n=5000, p=6, most=100),
    "squares": partial(tails, tail=np.square, n=10_000, p=8, most=200),
    "cubes": partial(tails, tail=lambda e: e**3, n=10_000, p=3, most=2000),
    "few long rows": partial(tails, tail=lambda e: np.exp(e / 2) - 1, n=1000, p=3, most=100),
    "long lognormal": lambda rng: numbers(
        np.minimum(np.exp(1.8 * related(rng, 30_000, 4)), 5000), (0, 5000)
    ),
    "levels": partial(of_levels, counts=(2, 3, 5, 9, 15, 31, 41)),
    "mixed": partial(of_levels, counts=(2, 3), p=8),
    "levels alone": partial(of_levels, counts=(3, 4, 6), p=0),
    "few levels": partial(of_levels, counts=(2, 3, 5)),
    "narrow": lambda rng: numbers(7 + 0.05 * related(rng, 5000, 6), (0, 100)),
}


def reported(schema: Schema) -> dict[str, Any]:
    """Return the parts of a schema's columns that every version can read."""
    declared, kept = schema.model_dump()["columns"].items(), ("kind", "lower", "upper", "levels")
    return {name: {key: it[key] for key in kept if key in it} for name, it in declared}


@cache
def table_named(name: str) -> Table:
    if name == "demo":  # the RAND table, which `dpcov demo` had until version 0.2
        frame = pd.read_csv(datasets.found(datasets.RAND))
        return Table(frame, reported(Schema.load(datasets.RAND_SCHEMA)))
    if name in TASKS:
        task = TASKS[name]()
        return Table(task.frame, reported(task.schema))
    if name == "breast cancer":
        bounds = [(0, 50), (0, 50), (0, 300), (0, 5000), *6 * [(0, 1)]]
        return numbers(datasets.breast_cancer()[:, :10], bounds)
    if name == "digits":
        return numbers(datasets.mnist(), (0, 255))
    return MADE[name](np.random.default_rng(zlib.crc32(name.encode())))
