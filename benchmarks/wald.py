"""Measure the size and the power of the Wald tests of `ols`.

    make bench NAME=wald
    make bench NAME=wald ARGS="--releases 200 --minutes 30"

With `--minutes`, the script stops early and reports the releases that it made. The next call goes
on from there, until each cell has all releases.

**Size.** The cells are 500, 2,000 and 20,000 rows, 6 and 12 columns, and epsilon 0.3 and 1. In each
release, the target is independent of the features, and the features have pairwise rank correlations
of about 0.29. All columns are uniform and fill a quarter of their bounds, off the middle. The
script counts how often tests at the 5% level find an effect:

- the Wald test of all features, and the test of each coefficient;
- the plain Wald test with `OLS.vcov`, in every fourth release;
- the F test of version 0.1, which ignores the privacy noise. This test is the control.

The simulated errors are new for each release. With equal draws, as by default, the sizes of a cell
would have a common error.

`ols` refuses a release whose denoised matrix is 0. Sizes exclude such releases.

**Size beside an effect.** A quarter as many releases have one feature that explains 30% of the
target. The tests of the other coefficients must keep their size.

**Features above the noise.** The script checks every tenth release of a cell. A cell has features
above the noise if the rule of dpcov flags at most 5% of the features' variances.

**Power.** The F test without privacy finds the effect of one feature in 99% of tables with 20,000
rows and 6 columns. The noncentral F distribution gives the size of this effect. The script compares
the Wald test at epsilon 1 with a test that knows the error. This test uses the covariance of the
coefficients over all releases of the cell without an effect.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import product
from typing import Any

import numpy as np
import scipy

import dpcov
from results import RESULTS, show, write

COMMAND = "make bench NAME=wald"
COUNTS, COLUMNS, EPSILONS = (500, 2000, 20_000), (6, 12), (0.3, 1.0)
RELEASES = 2000
# The script makes 20 releases of a cell, then 20 releases of the next cell, and so on. Cells with a
# strong effect have a quarter as many releases.
ROUND, STRONG_EVERY = 20, 4
# File of the answers of an unfinished run.
ANSWERS = RESULTS / "partial" / "wald.jsonl"
# Level of the tests, limits of their sizes, and confidence of the intervals of a size.
LEVEL, LARGEST, LEAST, CONFIDENCE = 0.05, 0.07, 0.03, 0.999
# Center and half-width of the columns, as fractions of the half-width of the bounds.
CENTER, FILL = 0.2, 0.25
# Correlation of the normal scores of two features.
RELATED = 0.3
# Power without privacy, and smallest power with privacy.
POWER, LEAST_POWER = 0.99, 0.6
# Fraction of the target that a strong effect explains.
STRONG = 0.3
# The script computes the plain test for every 4th release, and flags of noise for every 10th.
PLAIN_EVERY, LEVEL_EVERY = 4, 10
# Largest fraction of variances below the noise level.
MOST_BELOW = 0.05
Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """Shape of the tables and budget of their releases."""

    n: int
    columns: int
    epsilon: float
    explained: float = 0.0  # by the first feature

    def table(self, seed: int) -> np.ndarray:
        """Return encoded rows; the first column is the target."""
        size = round(1e6 * self.explained)
        generator = np.random.default_rng([self.n, self.columns, size, seed])
        common = generator.standard_normal((self.n, 1))
        own = generator.standard_normal((self.n, self.columns))
        normal = np.sqrt(RELATED) * common + np.sqrt(1 - RELATED) * own
        score = 2 * np.sin(np.pi * np.sqrt(self.explained) / 6)  # of uniform columns so related
        normal[:, 0] = np.sqrt(1 - score**2) * own[:, 0] + score * normal[:, 1]
        return np.asarray(CENTER + FILL * (2 * scipy.special.ndtr(normal) - 1))

    def answer(self, seed: int) -> Row:
        """Return what the tests say of a release, or only the seed if `ols` refuses it."""
        table = self.table(seed)
        made = dpcov.release(table, lower=-1, upper=1, epsilon=self.epsilon, seed=seed)
        try:
            fit = dpcov.ols(made, "x0", generator=np.random.default_rng(seed))
        except dpcov.errors.ReleaseError:
            return {"seed": seed}
        found: Row = {
            "seed": seed,
            "wald": fit.wald.p_value,
            "coefficients": fit.p_values[1:].tolist(),
            "estimates": fit.coefficients[1:].tolist(),
            "former": former(fit, self.columns - 1),
            "without": without_privacy(table),
        }
        if seed % PLAIN_EVERY == 0:
            found["plain"] = plain(fit)
        if seed % LEVEL_EVERY == 0:
            flags = dpcov.intervals(made, "covariance", sampling=False).below_noise
            found["below"] = float(np.mean(np.diag(flags)[1:]))
        return found


def former(fit: Any, k: int) -> float:
    """Return the p-value of the F test that version 0.1 printed."""
    explained = min(fit.r_squared, 1 - 1e-12)
    f = explained / (1 - explained) * fit.degrees / k
    return float(scipy.stats.f.sf(f, k, fit.degrees))


def plain(fit: Any) -> float:
    """Return the p-value of the plain Wald test, with the errors at the estimate."""
    slopes, covariance = fit.coefficients[1:], fit.vcov()[1:, 1:]
    statistic = float(slopes @ np.linalg.solve(covariance, slopes))
    return float(scipy.stats.chi2.sf(statistic, len(slopes)))


def without_privacy(table: np.ndarray) -> float:
    """Return the p-value of the F test on the table."""
    covariance, (n, p) = np.cov(table.T), table.shape
    cross = covariance[0, 1:]
    explained = cross @ np.linalg.solve(covariance[1:, 1:], cross) / covariance[0, 0]
    degrees = n - p
    return float(scipy.stats.f.sf(explained / (1 - explained) * degrees / (p - 1), p - 1, degrees))


def interval(found: np.ndarray) -> tuple[float, float]:
    """Return the exact interval of a rate."""
    tested = scipy.stats.binomtest(int(np.sum(found)), len(found))
    ends = tested.proportion_ci(CONFIDENCE, method="exact")
    return float(ends.low), float(ends.high)


def rates(rejected: np.ndarray) -> tuple[float, float, bool, bool]:
    """Return the least and the largest rate of tests, and whether they keep the limits.

    The first flag is for `LARGEST` alone, the second flag for `LEAST` and `LARGEST`.
    """
    ends = [interval(column) for column in rejected.T]
    small = all(low < LARGEST for low, _ in ends)
    exact = small and all(high > LEAST for _, high in ends)
    means = rejected.mean(axis=0)
    return float(means.min()), float(means.max()), small, exact


def of_sizes(cell: Cell, every: list[Row]) -> Row:
    """Return the sizes of the tests in a cell without an effect."""
    found = [one for one in every if "wald" in one]
    below = float(np.mean([one["below"] for one in found if "below" in one]))
    joint = np.array([[one["wald"]] for one in found]) < LEVEL
    single = np.array([one["coefficients"] for one in found]) < LEVEL
    old = np.array([one["former"] for one in found]) < LEVEL
    simple = np.array([one["plain"] for one in found if "plain" in one]) < LEVEL
    size, _, small, exact = rates(joint)
    least, largest, all_small, all_exact = rates(single)
    above = below <= MOST_BELOW
    low, high = interval(joint[:, 0])
    return {
        "what": "size",
        "n": cell.n,
        "columns": cell.columns,
        "epsilon": cell.epsilon,
        "releases": len(found),
        "refused": len(every) - len(found),
        "below noise": below,
        "wald": size,
        "low": low,
        "high": high,
        "least coefficient": least,
        "largest coefficient": largest,
        "plain wald": float(simple.mean()),
        "former F": float(old.mean()),
        "former F fails": interval(old)[0] > LARGEST,
        "ok": small and all_small and (not above or (exact and all_exact)),
    }


def beside_an_effect(cell: Cell, every: list[Row]) -> Row:
    """Return the sizes of the tests of the coefficients that are 0, beside a strong effect."""
    found = [one for one in every if "wald" in one]
    single = np.array([one["coefficients"][1:] for one in found]) < LEVEL
    least, largest, small, _ = rates(single)
    return {
        "what": "size beside an effect",
        "n": cell.n,
        "columns": cell.columns,
        "epsilon": cell.epsilon,
        "releases": len(found),
        "least coefficient": least,
        "largest coefficient": largest,
        "power of wald": float(np.mean([one["wald"] < LEVEL for one in found])),
        "ok": small,
    }


def effect(n: int, columns: int) -> float:
    """Return R-squared that the F test without privacy finds in 99% of tables."""
    k, degrees = columns - 1, n - columns
    limit = scipy.stats.f.ppf(1 - LEVEL, k, degrees)
    found = scipy.optimize.brentq(
        lambda size: scipy.stats.ncf.sf(limit, k, degrees, size) - POWER, 1.0, 1000.0
    )
    return float(found / (n + found))


def of_power(cell: Cell, found: list[Row], none: list[Row]) -> Row:
    """Return the power of the tests, from releases with and without an effect."""
    columns = cell.columns
    true = np.cov(np.array([one["estimates"] for one in none]).T)
    slopes = np.array([one["estimates"] for one in found])
    statistics = np.einsum("ij,jk,ik->i", slopes, np.linalg.inv(true), slopes)
    known = statistics > scipy.stats.chi2.ppf(1 - LEVEL, columns - 1)
    power = float(np.mean([one["wald"] < LEVEL for one in found]))
    return {
        "what": "power",
        "n": cell.n,
        "columns": columns,
        "epsilon": cell.epsilon,
        "releases": len(found),
        "R-squared": cell.explained,
        "without privacy": float(np.mean([one["without"] < LEVEL for one in found])),
        "wald": power,
        "test that knows the error": float(known.mean()),
        "coefficient": float(np.mean([one["coefficients"][0] < LEVEL for one in found])),
        "ok": power >= LEAST_POWER,
    }


def made(cells: Sequence[Cell], releases: int, minutes: float) -> dict[Cell, list[Row]]:
    """Return the answers of all releases, some of which an earlier call can have made.

    The script makes a few releases of each cell in turn. If the time runs out, all cells therefore
    have about the same number of releases.
    """
    found: dict[Cell, list[Row]] = {cell: [] for cell in cells}
    if ANSWERS.exists():
        for line in ANSWERS.read_text().splitlines():
            row = json.loads(line)
            found[Cell(*row.pop("cell"))].append(row)
    ANSWERS.parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * minutes
    with ANSWERS.open("a") as file:
        for stop in range(ROUND, releases + ROUND, ROUND):
            for cell, own in found.items():
                last = stop // STRONG_EVERY if cell.explained == STRONG else stop
                for seed in range(len(own), min(last, releases)):
                    own.append(cell.answer(seed))
                    file.write(json.dumps({"cell": astuple(cell), **own[-1]}) + "\n")
            file.flush()
            print(f"{stop} of {releases} releases", flush=True)
            if time.monotonic() > end:
                break
        else:
            ANSWERS.unlink()  # so that the next call starts afresh
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the Wald tests of ols.")
    parser.add_argument("--releases", type=int, default=RELEASES, help="releases in each cell")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after this time")
    asked = parser.parse_args()
    shapes = list(product(COUNTS, COLUMNS, EPSILONS))
    last = (COUNTS[-1], COLUMNS[0], EPSILONS[-1])
    weak = Cell(*last, effect(*last[:2]))
    cells = [*(Cell(*one) for one in shapes), weak, *(Cell(*one, STRONG) for one in shapes)]
    found = made(cells, asked.releases, asked.minutes)
    rows = [of_sizes(cell, found[cell]) for cell in cells if cell.explained == 0]
    rows += [beside_an_effect(cell, found[cell]) for cell in cells if cell.explained == STRONG]
    rows.append(of_power(weak, found[weak], found[Cell(*last)]))
    for what in dict.fromkeys(row["what"] for row in rows):
        show(what, [row for row in rows if row["what"] == what])
    write("wald.json", COMMAND, rows)
    fails = [row["former F fails"] for row in rows if row["what"] == "size"]
    print(f"control: the former F test fails in {sum(fails)} of {len(fails)} cells")
    return int(not (any(fails) and all(row["ok"] for row in rows)))


if __name__ == "__main__":
    sys.exit(main())
