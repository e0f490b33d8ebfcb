"""Measure the coverage of intervals and the accuracy of stated errors.

    make bench NAME=calibration ARGS="tune 10"

Each table of a part (`tables.toml`) is released with the default mechanism at six budgets. The
neighbouring relations alternate. For the part `goals`, each goal is used in turn.

The benchmark compares 95% intervals for the privacy noise with the statistics of the table: means,
covariances, correlations and regressions (least squares and ridge). It compares intervals for
the clipped rows (`for_clipped_rows=True`) with the statistics of the clipped rows. The coverage
leaves out the figures that are marked as dependent on a tail; *marked* is the fraction of these
figures, and *of all* is the coverage with them. Likewise, *width* and *real/stated* use all
figures, and *width, unmarked* and *real/stated, unmarked* leave the marked figures out. In cells
with few unmarked figures, their coverage depends on one or two releases that did not notice a tail.
The summary therefore also counts the cells whose figures are mostly covered or marked.

The width of the reference interval is 3.92 root mean square errors of the estimate. The column
*certified* is the smallest average width of any private interval (module `certified`), in units of
the reference width. There are two controls: the releases with half of their noise, and the releases
without their norm histograms.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

import dpcov
from benchmark_tables import PARTS, Table, table_named
from calibration_summary import CONTROLS, beyond, summary, unnoticed
from certified import effects, rows_held
from dpcov.analysis.features import target_and_features
from dpcov.analysis.intervals import (
    STATISTICS,
    Coefficients,
    Stated,
    Statistic,
    several_intervals,
    stated,
)
from dpcov.analysis.ols import ols
from dpcov.errors import ReleaseError
from dpcov.estimate import Estimate
from dpcov.published.kinds import NoisyMatrix
from results import Kept, show

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.releases import Release

    Matrix = NDArray[np.float64]
    Outcome = dict[str, Matrix]

FILES = {
    "tune": "calibration.json",
    "default": "calibration-default.json",
    "posterior": "calibration-posterior.json",
    "demo": "calibration-demo.json",  # of the RAND table
    "goals": "calibration-goals.json",
}
BUDGETS: list[tuple[str, dict[str, float]]] = [
    *(("pure", {"epsilon": epsilon}) for epsilon in (0.3, 1.0, 3.0)),
    *(("zCDP", {"rho": rho}) for rho in (0.05, 0.5)),
    ("delta", {"epsilon": 1.0, "delta": 1e-6}),
]
GOALS = ("frobenius", "correlation", "regression")
RELATIONS = ("add-remove", "replace-one")
PLAIN = ("mean", "covariance", "correlation")
TARGETS, LEVEL, REFERENCE_SDS = 3, 0.95, 3.92

# Tables with 108 features have fewer releases, by the factor FEWER.
SLOW, FEWER = ("levels", "adult hours"), 5

# Penalty on encoded features that corresponds to ridge regression with alpha = 0.01.
PENALTY = 0.02
# Error of a figure that has no noise, such as the correlation of two categories.
ROUNDING = 1e-9

Row = dict[str, Any]


def measured(job: tuple[str, int, str, int]) -> list[Row]:
    """Return a row for each statistic, from releases of a table at a budget."""
    name, at, goal, seeds = job
    table, (kind, budget), relation = table_named(name), BUDGETS[at], RELATIONS[at % 2]
    asked = {"schema": dpcov.Schema.parse(table.declared()), "neighbors": relation, "goal": goal}
    numbers = [one for one, column in table.columns.items() if "levels" not in column]
    targets = numbers[:TARGETS] if len(table.columns) > 1 else []
    found: list[list[Outcome]] = []
    times, answers = [], []
    for seed in range(seeds):
        begun = time.process_time()
        made = dpcov.release(table.frame, seed=seed, **asked, **budget)
        seconds = time.process_time() - begun
        if made.published is None:  # too few rows
            continue
        one, spent = outcomes(made, encoded(table, made), targets, seed)
        found.append(one)
        times.append(spent / seconds)
        answers += [answered(made, target, seed) for target in targets]
    changes = effects(encoded(table, made), levels_of(made))
    place = {"table": name, "goal": goal, "kind": kind, "budget": said(budget)}
    place["relation"] = relation
    rows = []
    for of, every in zip((*PLAIN, "OLS", "ridge"), zip(*found, strict=True), strict=False):
        row: Row = {**place, "seeds": seeds, "releases": len(found), "statistic": of}
        least = rows_held(budget) * changes[of] if of in changes else None
        if (figures := figures_of(every, least)) is not None:  # one column has no correlations
            row |= figures | {"time": float(np.median(times))}
            rows.append(row | {"OLS answers": float(np.mean(answers)) if of == "OLS" else None})
    return rows


def said(budget: dict[str, float]) -> str:
    return " ".join(f"{key} {value:g}" for key, value in budget.items())


def encoded(table: Table, release: Release) -> Matrix:
    """Return the (n, p) encoded features of the table's rows."""
    indicators = np.array([feature.is_indicator for feature in release.schema.features])
    return table.features() * np.where(indicators, 0.5, 1.0) - release.centers / release.scales


def levels_of(release: Release) -> Matrix:
    """Return the (p,) column numbers of indicators; -1 for other features."""
    names = list(release.schema.encoded_columns)
    features = release.schema.variables
    return np.array([names.index(one.column) if one.is_indicator else -1 for one in features])


def moment(release: Release, rows: Matrix) -> Matrix:
    whole = np.column_stack([rows, np.full(len(rows), release.intercept())])
    return np.asarray(whole.T @ whole)


def shortened(release: Release, rows: Matrix) -> Matrix:
    """Return the (d, d) second moment of encoded rows with the clipping of the release."""
    if release.linear_map is not None:
        center = 0.0 if release.center is None else release.center
        rows = (rows - center) @ release.linear_map.T
    radius, lengths = release.lattice.radius, np.linalg.norm(rows, axis=1, keepdims=True)
    return release.unmapped(moment(release, rows * (radius / np.maximum(lengths, radius))))


def outcomes(
    release: Release, rows: Matrix, targets: list[str], seed: int
) -> tuple[list[Outcome], float]:
    """Return the stated and the true figures of each statistic, and the CPU seconds."""
    statistics: list[Statistic] = [STATISTICS[of] for of in PLAIN]
    statistics += [Coefficients(target, None) for target in targets]
    statistics += [Coefficients(target, None, _penalties(release, target)) for target in targets]
    begun = time.process_time()
    account = reported(release, statistics, seed)
    seconds = time.process_time() - begun
    controls = [reported(other, statistics, seed) for other in controlled(release)]
    without = account if release.lengths is None else controls[-1]
    draws = np.random.default_rng(seed)
    alone = several_intervals(
        release, statistics, LEVEL, False, for_clipped_rows=True, generator=draws
    )
    whole, short = moment(release, rows), shortened(release, rows)
    start = Estimate.of(release.with_published("norms", None)).noisy
    starts = [statistic.values(release, start[None])[0] for statistic in statistics]
    found = []
    for at, unit in enumerate(units(release, whole, targets)):
        truth, clipped = (statistics[at].values(release, one[None])[0] for one in (whole, short))
        low, high, _ = account[at].interval(LEVEL)
        sure = [flat(end) for end in (alone[at].low, alone[at].high)]
        held = [within(truth, *control[at].interval(LEVEL)[:2]) for control in controls]
        found.append(
            {
                "truth": truth / unit,
                "error": (account[at].values - truth) / unit,
                "deviation": account[at].deviations / unit,
                "by noise": without[at].deviations / unit,
                "width": (high - low) / unit,
                "of all": within(truth, low, high),
                "marked": account[at].depends_on_tail,
                "guaranteed": within(np.clip(clipped, *statistics[at].limits(release)), *sure),
                "its error": (starts[at] - clipped) / unit,
                "its width": (sure[1] - sure[0]) / unit,
                **dict(zip(CONTROLS, held, strict=False)),
            }
        )
    plain, ridge = len(PLAIN), len(PLAIN) + len(targets)
    regressions = together(found[plain:ridge]) + together(found[ridge:])
    return [*found[:plain], *regressions], seconds


def _penalties(release: Release, target: str) -> tuple[float, ...]:
    return (PENALTY,) * len(target_and_features(release, target, None)[1])


def reported(release: Release, statistics: list[Statistic], seed: int) -> list[Stated]:
    return stated(release, statistics, False, np.random.default_rng(seed))


def controlled(release: Release) -> list[Release]:
    """Return wrong copies of a release: with half of its noise, and without its norm histogram."""
    assert release.noise is not None
    matrix = release.find(NoisyMatrix)
    assert matrix is not None
    halved = release.with_published("matrix", replace(matrix, noise=matrix.noise.rescaled(0.5)))
    return [halved] if release.lengths is None else [halved, release.with_published("norms", None)]


def units(release: Release, whole: Matrix, targets: list[str]) -> list[Matrix]:
    """Return the unit of each entry: a true deviation, so that no entry is large."""
    low, high = np.tril_indices(len(release.columns))
    deviations = np.sqrt(STATISTICS["covariance"].values(release, whole[None])[0][low == high])
    found = [deviations, deviations[low] * deviations[high], np.ones(len(low))]
    for reference, target in product((True, False), targets):
        to, at = target_and_features(release, target, None, reference=reference)
        found.append(deviations[to] / np.append(1.0, deviations[at]))
    return found


def flat(entries: Matrix) -> Matrix:
    return entries if entries.ndim == 1 else entries[np.tril_indices(len(entries))]


def within(truth: Matrix, low: Matrix, high: Matrix) -> Matrix:
    """Return which intervals contain the truth. An interval without ends contains everything."""
    return ~((truth < low) | (truth > high))


def together(found: list[Outcome]) -> list[Outcome]:
    """Return the outcomes of several regressions as one outcome, if there are any."""
    return [{key: np.concatenate([one[key] for one in found]) for key in found[0]}] if found else []


def figures_of(releases: tuple[Outcome, ...], least: Matrix | None = None) -> Row | None:
    """Compute the figures of a statistic from its outcomes in all releases of a cell.

    `least` is the smallest possible width of private intervals. The result is None if the statistic
    has no outcomes.
    """
    each = {key: np.array([one[key] for one in releases]) for key in releases[0]}
    real, stated, by_noise = (
        np.sqrt(np.mean(each[key] ** 2, axis=0)) for key in ("error", "deviation", "by noise")
    )
    kept = np.isfinite(real) & (real > ROUNDING * np.abs(each["truth"][0]))
    reported = kept & np.isfinite(stated)
    if not kept.any():
        return None
    row: Row = {
        key: float(each[key][:, kept].mean()) if key in each else None
        for key in ("marked", "of all", "guaranteed", *CONTROLS)
    }
    unmarked = each["of all"][:, kept][~each["marked"][:, kept]]
    row["covered"] = float(unmarked.mean()) if unmarked.size else None
    reference_width = REFERENCE_SDS * real[kept]
    over = each["width"].mean(axis=0)[kept] / reference_width
    alone = REFERENCE_SDS * np.sqrt(np.mean(each["its error"] ** 2, axis=0))[kept]
    sure = ~each["marked"] & reported
    widths = (each["width"][:, kept] / reference_width)[~each["marked"][:, kept]]
    its = float(np.median(each["its width"].mean(axis=0)[kept] / alone))
    return row | {
        "width": float(np.median(over)),
        "width, unmarked": float(np.median(widths)) if widths.size else None,
        "guaranteed width": None if np.isnan(its) else its,  # none of a variance below 0
        "certified": None if least is None else float(np.median(least[kept] / reference_width)),
        "real/stated": _over(real[reported], stated[reported]),
        "real/stated, unmarked": _over(each["error"][sure], each["deviation"][sure]),
        "by noise": _over(by_noise[reported], stated[reported]),
    }


def _over(one: Matrix, other: Matrix) -> float | None:
    """Return root mean squares, or nothing if there is no value."""
    return float(np.linalg.norm(one) / np.linalg.norm(other)) if one.size else None


def answered(release: Release, target: str, seed: int) -> bool:
    """Return True if `ols` answers with an error for each coefficient."""
    try:
        found = ols(release, target, generator=np.random.default_rng(seed))
    except ReleaseError:
        return False
    return bool(np.isfinite(found.standard_errors).all())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=FILES)
    parser.add_argument("seeds", type=int)
    asked = parser.parse_args()
    command = f'make bench NAME=calibration ARGS="{asked.part} {asked.seeds}"'
    kept = Kept(FILES[asked.part], command)
    many = {name: max(1, asked.seeds // FEWER ** (name in SLOW)) for name in PARTS[asked.part]}
    kept.rows = [row for row in kept.go_on() if row["seeds"] == many[row["table"]]]
    there = {(row["table"], row["budget"], row["goal"]) for row in kept.rows}
    goals = GOALS if asked.part == "goals" else ("all",)
    cells = product(PARTS[asked.part], range(len(BUDGETS)), goals)
    left = [cell for cell in cells if (cell[0], said(BUDGETS[cell[1]][1]), cell[2]) not in there]
    kept.pooled(measured, [(*cell, many[cell[0]]) for cell in left])
    for goal in goals:
        rows = [row for row in kept.rows if row["goal"] == goal]
        show(f"By statistic and kind of budget, for {goal}", summary(rows))
    show("Cells that cover too seldom, or are too wide", beyond(kept.rows))
    controls = unnoticed(kept.rows)
    show("Controls that coverage does not notice", controls)
    return int(not kept.done() or bool(controls))


if __name__ == "__main__":
    sys.exit(main())
