"""Mouzakis 2021, private covariance estimation of heavy-tailed and unbounded data: every claim."""

from __future__ import annotations

from mouzakis2021 import accuracy, gaussians, sizes, steps, unbounded

PARTS = (
    sizes.findings,
    steps.findings,
    gaussians.findings,
    unbounded.cited,
    unbounded.steps,
    unbounded.end_to_end,
    unbounded.table_1,
    unbounded.pure,
    accuracy.conditions,
    accuracy.sample_sizes,
    accuracy.tails,
)
