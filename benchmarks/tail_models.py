"""Compare models of the undetectable tail by the clipping losses that they estimate.

    make bench NAME=tail_models

The loss is the sum of squared norms that clipping removes. The norm histogram of a release gives an
estimate with a standard deviation. The script releases each table at four budgets. It computes the
true counts of the norm histogram, adds noise to them many times, and compares each estimate with
the true loss. All losses are fractions of the total variance of the table.

Each model has other constants of `published.norm_histogram`. The model without sparse tails is the
control. The stated density consists of two halves of normal densities, with the standard deviations
of the two ends of an interval. The column *log score* is the mean logarithm of this density at the
true loss. It is largest for the true distribution. To stay finite, each stated standard deviation
contains 0.01. The column *ratio* is the stated mean square error over the true one. Two tables have
most of their variance in rows that every private histogram hides. They are shown apart (*hidden*).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from scipy import stats

import dpcov
from benchmark_tables import PARTS, table_named
from calibration import BUDGETS, RELATIONS, encoded
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.published import norm_histogram
from dpcov.published.norm_histogram import Z_95, NormHistogram
from results import Kept, show

COMMAND = "make bench NAME=tail_models"
RELEASES, HISTOGRAMS = 2, 12
# Of the part `tune`, `levels` and `levels alone` have no long tails.
TABLES = (*PARTS["tune"][:-3], "mixed", *PARTS["heavy"])
HIDDEN = ("few long rows", "mistakes")
MIN_SD = 0.01
PROBABILITY, DECAY = "SPARSE_TAIL_PROBABILITY", "SPARSE_TAIL_DECAY"
MODELS: dict[str, dict[str, Any]] = {
    "present": {PROBABILITY: norm_histogram.SPARSE_TAIL_PROBABILITY},
    "no sparse tails": {PROBABILITY: 1e-9},
    "probability 0.5": {PROBABILITY: 0.5},
    "no decay": {DECAY: 0.0},
    "decay 0.2": {DECAY: 0.2},
}


@dataclass(frozen=True)
class Counted:
    """True counts of a norm histogram, with the noise and the true loss of a release."""

    ends: tuple[float, ...]
    counts: np.ndarray
    noise: ScalarGaussian | ScalarLaplace
    radius: float
    loss: float
    variance: float

    def histograms(self) -> Iterator[NormHistogram]:
        """Yield histograms with new noise, the same ones for each model."""
        generator = np.random.default_rng(0)
        for _ in range(HISTOGRAMS):
            noise = np.rint([self.noise.simulate(generator) for _ in self.counts])
            counts = (self.counts + noise).astype(int).tolist()
            yield NormHistogram(self.ends, tuple(counts), self.noise)

    def errors(self) -> np.ndarray:
        """Return the errors, and three stated standard deviations, shape (HISTOGRAMS, 4)."""
        found = np.array([one.squared_norm_loss(self.radius) for one in self.histograms()])
        found[:, 0] = self.loss - found[:, 0]
        return found / self.variance


def counted(name: str) -> Iterator[Counted]:
    """Yield the true counts of all releases of a table that have a norm histogram."""
    table = table_named(name)
    schema = dpcov.Schema.parse(table.declared())
    for at, (_, budget) in enumerate(BUDGETS[:4]):
        for seed in range(RELEASES):
            made = dpcov.release(
                table.frame, schema=schema, seed=seed, neighbors=RELATIONS[at % 2], **budget
            )
            if made.published is None or made.lengths is None:
                continue
            rows = encoded(table, made)
            assert made.linear_map is not None
            rows = (rows - (0.0 if made.center is None else made.center)) @ made.linear_map.T
            squares, radius = np.sum(rows**2, axis=1), made.lattice.radius
            ends = made.lengths.upper_ends
            yield Counted(
                ends,
                np.histogram(squares, np.append(0.0, ends))[0],
                made.lengths.noise,
                radius,
                float(np.maximum(squares - radius**2, 0.0).sum()),
                float(((rows - rows.mean(axis=0)) ** 2).sum()),
            )


def table_rows(name: str) -> Iterator[dict[str, Any]]:
    """Yield the figures of each model for a table."""
    releases = list(counted(name))
    for model, constants in MODELS.items():
        with mock.patch.multiple(norm_histogram, **constants):
            found = np.concatenate([one.errors() for one in releases])
        errors, stated, *ends = found.T
        lower, upper = (np.hypot(end, MIN_SD) for end in ends)
        side = np.where(errors < 0, lower, upper)
        density = stats.norm.logpdf(errors / side) - np.log((lower + upper) / 2)
        yield {
            "table": name,
            "model": model,
            "histograms": len(found),
            "covered": float(np.mean(np.abs(errors) <= Z_95 * side)),
            "error": float(np.mean(np.abs(errors))),
            "stated": float(np.mean(stated)),
            "ratio": float(np.mean(stated**2) / np.mean(errors**2)),
            "log score": float(np.mean(density)),
        }


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return means over the tables of each model; geometric ones for errors and ratios."""
    found = []
    for model in MODELS:
        for hidden in (False, True):
            some = [it for it in rows if it["model"] == model and (it["table"] in HIDDEN) == hidden]
            covered = [row["covered"] for row in some]
            found.append(
                {
                    "model": model,
                    "tables": "hidden" if hidden else "other",
                    "covered": float(np.mean(covered)),
                    "least covered": min(covered),
                    "below 0.8": sum(one < 0.8 for one in covered),
                    **{
                        key: float(np.exp(np.mean(np.log([row[key] + 1e-3 for row in some]))))
                        for key in ("error", "stated", "ratio")
                    },
                    "log score": float(np.mean([row["log score"] for row in some])),
                }
            )
    return found


def main() -> int:
    kept = Kept("tail_models.json", COMMAND)
    done = {row["table"] for row in kept.go_on()}
    for name in TABLES:
        if name not in done:
            kept.part(name, lambda name=name: table_rows(name))
    show("Estimated losses by clipping, as fractions of the total variance", kept.rows)
    if not kept.done():
        return 1
    totals = summary(kept.rows)
    show("Means over the tables; geometric means of errors and of stated errors", totals)
    score = {row["model"]: row["log score"] for row in totals if row["tables"] == "other"}
    return int(score["present"] <= score["no sparse tails"])


if __name__ == "__main__":
    sys.exit(main())
