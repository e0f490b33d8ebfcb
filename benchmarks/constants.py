"""Measure whether half or twice the value of a constant changes errors or intervals.

    make bench NAME=constants

The constants have no other source. The script makes each release again, with the same seed and
another value. It divides the new error, or the new half width, by the present one. A row of the
result has the geometric mean of this ratio over tables, budgets and seeds. Rounding differs, so the
random noise of two releases can differ too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from fractions import Fraction
from functools import partial
from types import ModuleType
from typing import Any, Literal
from unittest.mock import patch

import numpy as np

import dpcov
from before_and_now import Truth
from benchmark_tables import Table, table_named
from dpcov import estimate
from dpcov.estimate import errors
from dpcov.mechanisms import count, row_transform, standardized
from dpcov.published import clipping, norm_histogram, pseudo_rows
from more_budget import KINDS, more_errors
from results import Kept, show

TABLES = ("scales", "flags", "casp", "diamonds", "census", "mixed", "lognormal", "few rows")
BUDGETS: tuple[dict[str, float], ...] = ({"epsilon": 0.3}, {"epsilon": 1.0}, {"rho": 0.5})
SEEDS = 6
LEAST = 1e-12  # a smaller error is none
WIDTHS: tuple[Literal["variance", "correlation"], ...] = ("variance", "correlation")
# Modules, name, and other values of a constant.
Constant = tuple[tuple[ModuleType, ...], str, tuple[Any, Any]]
# Constants that affect releases.
OF_RELEASES: tuple[Constant, ...] = (
    ((standardized,), "RADII_PER_DOUBLING", (2, 8)),
    ((standardized,), "MAX_RADIUS_FACTOR", (2.0, 8.0)),
    ((standardized,), "PRIOR_GRID_SIZE", (32, 128)),
    ((standardized, row_transform), "MIN_COUNT_SDS", (1.0, 4.0)),
    ((row_transform,), "NOISE_FLOOR_FACTOR", (0.5, 2.0)),
    ((norm_histogram,), "OCTAVES_BELOW_TYPICAL", (3, 12)),
    ((norm_histogram,), "FALSE_ALARM_ADJACENT", (2.5e-4, 1e-3)),
    ((norm_histogram,), "FALSE_ALARM_DISTANT", (5e-6, 2e-5)),
    ((count,), "COUNT_EPSILON_SHARE", (Fraction(1, 50), Fraction(2, 25))),
    ((count,), "COUNT_RHO_SHARE", (Fraction(1, 128), Fraction(1, 32))),
)
# Constants that affect estimates only.
OF_ESTIMATES: tuple[Constant, ...] = (
    ((errors,), "PSEUDO_ROW_ENTRIES", (25 * 10**4, 10**6)),
    ((errors,), "MIN_PSEUDO_ROWS", (500, 2000)),
    ((errors,), "MAX_PSEUDO_ROWS", (2500, 10_000)),
    ((errors, estimate), "MIN_DIRECTION_SNR", (0.5, 2.0)),
    ((errors,), "STRUCTURE_SNR_DIVISOR", (5.0, 20.0)),
    ((pseudo_rows,), "MAX_VARIANCE_FRACTION", (0.98, 0.995)),
    ((pseudo_rows,), "MIN_BOUND_DISTANCE", (5e-7, 2e-6)),
    ((pseudo_rows,), "RANK_TOLERANCE", (5e-11, 2e-10)),
    ((clipping,), "MOMENT_ROUNDING_FRACTION", (5e-13, 2e-12)),
    ((estimate,), "VARIANCE_ROUNDING_FRACTION", (5e-14, 2e-13)),
)


def released(table: Table, asked: dict[str, Any]) -> dpcov.Release:
    schema = dpcov.Schema.parse(table.declared())
    return dpcov.release(table.frame, schema=schema, **asked)


def of_release(table: Table, truth: Truth, asked: dict[str, Any]) -> dict[str, float]:
    """Return the errors of a release."""
    made = released(table, asked)
    found = more_errors((made.count(), made.mean(), made.covariance()), truth)
    return {of: found[of] for of in KINDS}


def of_estimate(text: str) -> dict[str, float]:
    """Return the mean half widths of intervals for privacy noise and sampling."""
    made = dpcov.releases.file.from_text(text, "file")
    asked = [one for one in WIDTHS if one != "correlation" or len(made.columns) > 1]
    found = dpcov.several_intervals(made, asked, generator=np.random.default_rng(0))
    return {of: float(np.nanmean(one.high - one.low)) for of, one in zip(asked, found, strict=True)}


def rows(
    constant: Constant,
    measure: Sequence[partial[dict[str, float]]],
    now: Sequence[dict[str, float]],
) -> Iterator[dict[str, Any]]:
    """Yield the geometric means of the ratios for each other value of a constant."""
    modules, name, values = constant
    present = getattr(modules[0], name)
    for value in values:
        with ExitStack() as patches:
            for module in modules:
                patches.enter_context(patch.object(module, name, value))
            then = [one() for one in measure]
        logs: dict[str, list[float]] = {}
        for new, old in zip(then, now, strict=True):
            for of in old:
                if min(new[of], old[of]) > LEAST:
                    logs.setdefault(of, []).append(float(np.log(new[of] / old[of])))
        for of, own in logs.items():
            spread = float(np.std(own) / np.sqrt(len(own)))
            ratio = {"ratio": float(np.exp(np.mean(own))), "standard error": spread}
            place = {"constant": name, "present": str(present), "value": str(value), "of": of}
            yield {**place, "cells": len(own), **ratio}


def main() -> int:
    kept = Kept("constants.json", "make bench NAME=constants")
    jobs, texts = [], []
    for name in TABLES:
        table = table_named(name)
        truth = Truth.of(table)
        for seed in range(SEEDS):
            asked = [{**budget, "seed": seed} for budget in BUDGETS]
            jobs += [partial(of_release, table, truth, one) for one in asked]
            texts += [released(table, one).to_text() for one in asked[1:] if seed == 0]
    now = [one() for one in jobs]
    for constant in OF_RELEASES:
        kept.part(constant[1], partial(rows, constant, jobs, now))
    widths = [partial(of_estimate, text) for text in texts]
    now = [one() for one in widths]
    for constant in OF_ESTIMATES:
        kept.part(constant[1], partial(rows, constant, widths, now))
    show("Error or half width over that with the present value", kept.rows)
    return int(not kept.done())


if __name__ == "__main__":
    sys.exit(main())
