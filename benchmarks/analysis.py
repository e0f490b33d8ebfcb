"""Seconds that analyses of one release of adult (108 features) take, beside their bars.

`python benchmarks/analysis.py`; each figure is the least of three runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import dpcov
from datasets import adult
from dpcov.analysis.precision import precision
from results import Kept, show

if TYPE_CHECKING:
    from dpcov.releases import Release

RUNS = 3
ALPHA = 0.1
FEW = [f"x{j}" for j in range(1, 10)]


def every_ridge(release: Release, alpha: float | None) -> None:
    for target in release.columns:
        dpcov.ridge(release, target, alpha)


CASES: dict[str, tuple[float | None, Callable[[Release], object]]] = {
    "ridge, each of 108 targets": (1.0, lambda release: every_ridge(release, ALPHA)),
    "the same, alpha chosen each time": (None, lambda release: every_ridge(release, None)),
    "graphical lasso, alpha = 0.1": (5.0, lambda release: precision(release, ALPHA)),
    "graphical lasso, alpha = 0.01": (5.0, lambda release: precision(release, ALPHA / 10)),
    "graphical lasso, alpha chosen": (5.0, precision),
    "components, and how many are significant": (None, dpcov.pca),
    "least squares on 9 features": (None, lambda release: dpcov.ols(release, "x0", FEW)),
}


def seconds(work: Callable[[Release], object], release: Release) -> float:
    begun = time.perf_counter()
    work(release)
    return time.perf_counter() - begun


def analyses(name: str, **budget: float) -> Iterator[dict[str, Any]]:
    release = dpcov.release(adult(), lower=0, upper=1, **budget)
    for case, (bar, work) in CASES.items():
        spent = min(seconds(work, release) for _ in range(RUNS))
        ok = bar is None or spent < bar
        yield {"release": name, "case": case, "seconds": spent, "bar": bar, "ok": ok}


def main() -> bool:
    kept = Kept("analysis.json", "python benchmarks/analysis.py")
    kept.part("epsilon 1", lambda: analyses("epsilon 1", epsilon=1.0))
    kept.part("rho 0.5", lambda: analyses("rho 0.5", rho=0.5))
    show("Analyses of one release of adult", kept.rows)
    return kept.done() and all(row["ok"] for row in kept.rows)


if __name__ == "__main__":
    sys.exit(not main())
