"""Compare the errors of this version's estimates with an earlier version, for the same releases.

Run it with `make bench NAME=estimates ARGS=results/methods/a85f506`.

`BEFORE` is the folder of the earlier version: use `git archive COMMIT`, then
`pip install --no-deps --target`. The earlier version releases the tables of two parts by mechanisms
that both versions have, and keeps its estimates. This version reads the release files and denoises
them again.

A cell is a table, a mechanism and a budget. A cell counts as detectable if this version's error is
below the error of the zero estimate (no correlations, or no moment). The script tests single cells
against a threshold in the same way as `acceptance.py`.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from matrix_errors import correlations

import dpcov
from acceptance import Cell, Logs, Pair, beyond, log_ratio, said
from before_and_now import BUDGETS, PURE, RHO, Truth, errors, released, rounded
from benchmark_tables import PARTS, table_named
from dpcov.denoise import denoise
from dpcov.releases import VoidReleaseWarning
from results import Kept, show, write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Row = dict[str, Any]
MECHANISMS = ("standardized", "matrix-laplace", "gaussian", "preconditioned")
FIGURES = ("correlation", "frobenius")
MEAN, MOST = 0.9, 1.25  # bars


def measured(job: tuple[str, str, int, str]) -> list[Row]:
    """Return a row for each budget with both errors, by seed."""
    name, mechanism, seeds, before = job
    table, rows = table_named(name), []
    truth = Truth.of(table)
    budgets = [one for one in BUDGETS if mechanism not in (RHO if one[0] == "epsilon" else PURE)]
    with TemporaryDirectory() as folder:
        asked = [
            {"mechanism": mechanism, kind: size, "seed": seed, "out": f"{folder}/{at}-{seed}.json"}
            for at, (kind, size) in enumerate(budgets)
            for seed in range(seeds)
        ]
        answers = released(table, asked, before, "")
        for at, (kind, size) in enumerate(budgets):
            row: Row = {"table": name, "mechanism": mechanism, "rows": truth.rows, kind: size}
            found = answers[at * seeds : (at + 1) * seeds]
            refused = sorted({one for one in found if isinstance(one, str)})
            rows.append(row | {"refused": refused, "nothing": nothing(truth)})
            if not refused:
                again = [estimated(Path(one["out"])) for one in asked[at * seeds :][:seeds]]
                for of, reported in (("before", found), ("now", again)):
                    each = [errors(one, truth) for one in reported]
                    rows[-1][of] = {key: rounded(one[key] for one in each) for key in FIGURES}
    return rows


def estimated(path: Path) -> tuple[float, Any, Any]:
    """Count, means and covariance of a file's release, denoised by this version."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VoidReleaseWarning)
        kept = dpcov.Release.load(path)
    made = denoise(kept, generator=np.random.default_rng(0))
    return made.count(), made.mean(), made.covariance()


def nothing(truth: Truth) -> dict[str, float]:
    """Return the errors of an answer with no correlations, and of the zero answer."""
    kept = truth.deviations > 0
    true = correlations(truth.covariance[np.ix_(kept, kept)])
    off = true[np.triu_indices(len(true), 1)]
    of_none = float(np.sqrt(np.mean(off**2))) if len(off) else 0.0
    return {"correlation": of_none, "frobenius": 1.0}


def pairs(rows: Sequence[Row], figure: str) -> Iterator[Pair]:
    """Return the errors of both versions for each detectable cell."""
    for row in rows:
        if not row["refused"] and np.mean(row["now"][figure]) < row["nothing"][figure]:
            kind = "epsilon" if "epsilon" in row else "rho"
            place = {key: row[key] for key in ("table", "mechanism", "rows")}
            place |= {"kind": kind, "size": row[kind], "error": figure}
            yield Pair(place, *(np.array(row[of][figure]) for of in ("now", "before")))


def means(found: Sequence[Pair]) -> Iterator[Row]:
    """Return mean ratios by mechanism, and over all mechanisms."""
    for name in (*MECHANISMS, "all"):
        logs: Logs = {}
        for pair in found:
            place = pair.place
            if name in (place["mechanism"], "all"):
                kind = f"{place['mechanism']}, {place['kind']}"
                cell = Cell(place["table"], place["rows"], kind, place["size"])
                logs[cell] = log_ratio(*(np.array([v.mean()]) for v in (pair.own, pair.other)))
        if logs:
            yield {"mechanism": name, "error": found[0].place["error"], **said(logs, MEAN)}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", help="where the earlier version is installed")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--tables", nargs="*", default=[*PARTS["tune"], *PARTS["default"]])
    asked = parser.parse_args()
    kept = Kept("estimates-rows.json", "make bench NAME=estimates")
    there = {(row["table"], row["mechanism"]) for row in kept.go_on()}
    cells = [cell for cell in product(asked.tables, MECHANISMS) if cell not in there]
    kept.pooled(measured, [(*cell, asked.seeds, asked.before) for cell in cells])
    found = {figure: list(pairs(kept.rows, figure)) for figure in FIGURES}
    ratios = [row for figure in FIGURES for row in means(found[figure])]
    single = beyond([pair for figure in FIGURES for pair in found[figure]], MOST)
    show("This version's errors over the earlier one's", ratios)
    show("Cells", single[:20])
    reported = [{"part": "means", **row} for row in ratios]
    reported += [{"part": "cells", **row} for row in single]
    write("estimates.json", "make bench NAME=estimates", reported)
    return int(not kept.done() or not all(row["ok"] for row in reported))


if __name__ == "__main__":
    sys.exit(main())
