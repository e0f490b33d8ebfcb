"""Whether what a release says of its own error is true where its clip takes from long rows.

Of correlations, means and variances on the tables to tune: real errors, stated ones, how often 95 %
intervals for the rows at hand cover, and how wide they are over 3.92 times the root mean square of
the real errors. Controls: the same releases without their counts of rows by length.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import dpcov
from dpcov.analysis.intervals import several_intervals
from dpcov.rows.schema import Schema
from judged_tables import PARTS, table_named
from results import Kept, show

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.releases import Release

    Vector = NDArray[np.float64]

BUDGETS: list[dict[str, float]] = [{"epsilon": 1.0}, {"rho": 0.5}, {"rho": 8.0}]
REPEATS = 6
STATISTICS = ("correlation", "mean", "covariance")
TABLES = [name for name in PARTS["tune"] if name not in ("levels", "levels alone", "parkinsons")]


def parts(correlation: Any, mean: Any, covariance: Any) -> list[Vector]:
    """Entries below the diagonal, means and variances."""
    below = np.tril_indices(len(covariance), -1)
    return [np.asarray(correlation)[below], np.asarray(mean), np.diag(covariance)]


def judged(made: Release, seed: int) -> tuple[list[Vector], list[Vector]]:
    found = several_intervals(
        made, STATISTICS, sampling=False, generator=np.random.default_rng(seed)
    )
    return parts(*(one.low for one in found)), parts(*(one.high for one in found))


def measured(job: tuple[str, dict[str, float]]) -> list[dict[str, Any]]:
    name, budget = job
    table = table_named(name)
    schema = Schema.parse({"columns": table.columns})
    exact = dpcov.release(
        table.frame, schema=schema, seed=0, rho=1e12, mechanism="gaussian", denoise="none"
    )
    truth = parts(exact.correlation(), exact.mean(), exact.covariance())
    errors, stated, ends, alone = [], [], [], []
    for seed in range(REPEATS):
        made = dpcov.release(table.frame, schema=schema, seed=seed, **budget)
        released = parts(made.correlation(), made.mean(), made.covariance())
        errors.append([one - true for one, true in zip(released, truth, strict=True)])
        expected = dpcov.expected_correlation_error(made, generator=np.random.default_rng(seed))
        stated.append(np.nan if expected is None else parts(expected, [], expected)[0].mean())
        ends.append(judged(made, seed))
        alone.append(judged(replace(made, lengths=None), seed))
    rows = []
    for at, statistic in enumerate(("correlations", "means", "variances")):
        real = np.array([one[at] for one in errors])

        def covered(found: list[Any], at: int = at) -> float:
            held = [(low[at] <= truth[at]) & (truth[at] <= high[at]) for low, high in found]
            return float(np.mean(held))

        widths = np.mean([high[at] - low[at] for low, high in ends], axis=0)
        oracle = 3.92 * np.sqrt(np.mean(real**2, axis=0))
        rows.append(
            {
                "table": name,
                "budget": str(budget),
                "of": statistic,
                "real error": float(np.mean(np.abs(real))),
                "stated": float(np.nanmean(stated)) if at == 0 else None,
                "covered": covered(ends),
                "without counts": covered(alone),
                "width over oracle's": float(np.median(widths / oracle)),
            }
        )
    return rows


def main() -> int:
    kept = Kept("tails.json", "make tails")
    kept.pooled(measured, [(name, budget) for name in TABLES for budget in BUDGETS])
    show("Errors, and what is said of them", kept.rows)
    means = []
    for of in ("correlations", "means", "variances"):
        here = [row for row in kept.rows if row["of"] == of]
        means.append(
            {"of": of}
            | {
                key: float(np.mean([row[key] for row in here]))
                for key in ("covered", "without counts")
            }
            | {
                "width over oracle's": float(
                    np.median([row["width over oracle's"] for row in here])
                )
            }
        )
    show("Means over tables and budgets", means)
    return int(not (kept.done() and all(row["covered"] > row["without counts"] for row in means)))


if __name__ == "__main__":
    sys.exit(main())
