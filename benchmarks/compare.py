"""Measure how often the intervals of `dpcov compare` cover the differences of two years.

    make bench NAME=compare
    make bench NAME=compare ARGS="--populations 200 --minutes 15"

With `--minutes`, the script stops early and reports the populations that it made. The next call
goes on from there.

Each population has its own means, standard deviations and correlations in two years. The columns
are a normal number, another number and a flag, joined by a Gaussian copula. The other number has
short tails (a beta distribution) in half of the populations. In the other half, it has a long tail
(a lognormal distribution).

The script draws three tables: one in the first year, one of the same persons in the second year,
and one of other persons in the second year. The values of a person in both years have a correlation
that differs between populations. Each table gets a release of its own. The script then compares 95%
intervals with the truth:

- disjoint persons: the difference in the population;
- the same persons: the change in these persons, and the difference in the population. The second
  interval is a bound;
- control: the interval of the change in these persons, used for the population. It must miss the
  differences of the population too often.

The simulated errors are new for each population. With equal draws, as by default, all intervals
would have a common error.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy

import dpcov
from results import RESULTS, show, write

COMMAND = "make bench NAME=compare"
POPULATIONS = 1000
# Ranges of the number of rows and of epsilon.
ROWS, EPSILONS = (1000, 10_000), (0.5, 3.0)
# Ranges of the mean and the standard deviation of the normal number, of the parameters of the beta
# distribution, of the lognormal distribution, and of the share of the flag.
MEANS, DEVIATIONS, BETAS, LOGNORMALS, SHARES = (40, 60), (6, 10), (1.5, 5), (0.4, 0.7), (0.2, 0.6)
WIDTH, MEDIAN, LONGEST = 100.0, 20.0, 400.0
SCHEMA = {
    "version": 3,
    "columns": {
        "normal": {"kind": "number", "lower": 0, "upper": WIDTH, "missing": "none"},
        "other": {"kind": "number", "lower": 0, "upper": LONGEST, "missing": "none"},
        "flag": {"kind": "flag", "missing": "none"},
    },
}
# Range of the correlation of a person's normal scores in the two years.
PERSISTENCE = (-0.9, 0.9)
# File of the answers of an unfinished run.
ANSWERS = RESULTS / "partial" / "compare.jsonl"
# Limits of the coverage of an interval, and of a bound.
LEAST, LARGEST = 0.93, 0.97
# Positions of the figures of each kind.
KINDS = {
    "all": slice(None),
    "mean": slice(0, 3),
    "standard deviation": slice(3, 5),
    "correlation": slice(5, 8),
}
# Number of nodes of the integrals of a truth.
NODES = 80
WHAT = {
    "disjoint": "disjoint persons, population",
    "change": "same persons, change in these persons",
    "bound": "same persons, population (bound)",
    "control": "control: same persons, population without sampling",
}
Row = dict[str, Any]


@dataclass(frozen=True)
class Year:
    """Population in one year: its columns, joined by normal scores."""

    mean: float
    deviation: float
    beta: tuple[float, float]
    spread: float
    share: float
    is_long: bool
    scores: np.ndarray

    @classmethod
    def drawn(cls, draws: np.random.Generator, *, is_long: bool) -> Year:
        """Draw a population."""
        loads = draws.uniform(-0.9, 0.9, 3)
        scores = np.outer(loads, loads)
        np.fill_diagonal(scores, 1.0)
        ranges = (MEANS, DEVIATIONS, BETAS, BETAS, LOGNORMALS, SHARES)
        mean, deviation, first, second, spread, share = (draws.uniform(*ends) for ends in ranges)
        return cls(mean, deviation, (first, second), spread, share, is_long, scores)

    def table(self, normal: np.ndarray) -> pd.DataFrame:
        """Return the rows of independent standard normal numbers."""
        scores = (normal @ np.linalg.cholesky(self.scores).T).T
        columns = {
            "normal": self.mean + self.deviation * scores[0],
            "other": self._other(scores[1]),
            "flag": (scores[2] > self._limit).astype(float),
        }
        return pd.DataFrame(columns)

    @property
    def _limit(self) -> float:
        return float(-scipy.special.ndtri(self.share))

    def _other(self, scores: np.ndarray) -> np.ndarray:
        if self.is_long:
            return MEDIAN * np.exp(self.spread * scores)
        return np.asarray(WIDTH * scipy.stats.beta.ppf(scipy.special.ndtr(scores), *self.beta))

    def truth(self) -> np.ndarray:
        """Return the means, standard deviations and correlations of the population."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        weights = weights / weights.sum()
        other = self._other(nodes)
        mean = float(weights @ other)
        deviation = float(np.sqrt(weights @ (other - mean) ** 2))
        of_flag = np.sqrt(self.share * (1 - self.share))
        normal_other, normal_flag, other_flag = self.scores[np.triu_indices(3, 1)]
        left = np.sqrt(1 - other_flag**2)
        flagged = scipy.special.ndtr((other_flag * nodes - self._limit) / left)
        density = np.exp(-(self._limit**2) / 2) / np.sqrt(2 * np.pi)
        related = [
            normal_other * (weights @ (nodes * other)) / deviation,
            normal_flag * density / of_flag,
            weights @ ((other - mean) * flagged) / (deviation * of_flag),
        ]
        return np.array([self.mean, mean, self.share, self.deviation, deviation, *related])


def figures(table: pd.DataFrame) -> np.ndarray:
    """Return the means, standard deviations and correlations of the rows."""
    rows = table.to_numpy()
    related = np.corrcoef(rows.T)[np.triu_indices(3, 1)]
    return np.concatenate([rows.mean(axis=0), rows.std(axis=0)[:2], related])


def answer(seed: int) -> Row:
    """Return which intervals cover the truth in one population, and their widths."""
    draws, schema = np.random.default_rng([20_261_127, seed]), dpcov.Schema.parse(SCHEMA)
    n = round(np.exp(draws.uniform(*np.log(ROWS))))
    epsilon = float(np.exp(draws.uniform(*np.log(EPSILONS))))
    years = [Year.drawn(draws, is_long=seed % 2 == 1) for _ in range(2)]
    persistence = draws.uniform(*PERSISTENCE)
    start, fresh, others = draws.standard_normal((3, n, 3))
    later = persistence * start + np.sqrt(1 - persistence**2) * fresh
    first, same, other = years[0].table(start), years[1].table(later), years[1].table(others)
    made = [
        dpcov.release(table, schema=schema, epsilon=epsilon, seed=10 * seed + at)
        for at, table in enumerate((first, same, other))
    ]
    change, population = figures(same) - figures(first), years[1].truth() - years[0].truth()
    found: Row = {"seed": seed, "n": n, "epsilon": epsilon, "persistence": persistence}

    def add(name: str, low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> None:
        found[name] = ((low <= truth) & (truth <= high)).tolist()
        found[f"width {name}"] = (high - low).tolist()

    apart = dpcov.compare(made[0], made[2], persons="disjoint", generator=draws)
    add("disjoint", apart.lower, apart.upper, population)
    both = dpcov.compare(made[0], made[1], persons="same", generator=draws)
    add("change", both.rows_lower, both.rows_upper, change)
    add("bound", both.lower, both.upper, population)
    add("control", both.rows_lower, both.rows_upper, population)
    return found


def answers(populations: int, minutes: float) -> list[Row]:
    """Return the answers of all populations, some of which an earlier call can have made."""
    found: list[Row] = []
    if ANSWERS.exists():
        found = [json.loads(line) for line in ANSWERS.read_text().splitlines()]
    ANSWERS.parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * minutes
    with ANSWERS.open("a") as file:
        for seed in range(len(found), populations):
            found.append(answer(seed))
            file.write(json.dumps(found[-1]) + "\n")
            file.flush()
            if time.monotonic() > end:
                print(f"{len(found)} of {populations} populations", flush=True)
                return found
    ANSWERS.unlink(missing_ok=True)  # so that the next call starts afresh
    return found


def summary(every: list[Row]) -> Iterator[Row]:
    """Yield the coverage of each interval, for all figures and for each kind of figures."""
    for name, what in WHAT.items():
        found = [one for one in every if name in one]
        covered = np.array([one[name] for one in found])
        widths = np.array([one[f"width {name}"] for one in found])
        long = np.array([one["seed"] % 2 == 1 for one in found])
        for kind, at in KINDS.items():
            own = covered[:, at].mean(axis=1)
            rate = float(own.mean())
            yield {
                "interval": what,
                "figures": kind,
                "populations": len(found),
                "covered": rate,
                "std err": float(own.std() / np.sqrt(len(found))),
                "short tails": float(own[~long].mean()),
                "long tail": float(own[long].mean()),
                "median width": float(np.median(widths[:, at])),
                "ok": _is_expected(name, rate) if kind == "all" else None,
            }


def _is_expected(name: str, rate: float) -> bool:
    """Return True if the coverage of an interval is within its limits."""
    if name == "control":
        return rate < LEAST
    return LEAST <= rate <= (1.0 if name == "bound" else LARGEST)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the intervals of dpcov compare.")
    parser.add_argument("--populations", type=int, default=POPULATIONS, help="populations")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after this time")
    asked = parser.parse_args()
    rows = list(summary(answers(asked.populations, asked.minutes)))
    show("Coverage of 95% intervals of differences", rows)
    write("compare.json", COMMAND, rows)
    return int(not all(row["ok"] is not False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
