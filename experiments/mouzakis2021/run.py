"""Mouzakis 2021, private covariance estimation of heavy-tailed and unbounded data: every claim."""

from __future__ import annotations

from claims import alone
from mouzakis2021 import accuracy, gaussians, sizes, steps, unbounded

PARTS = (
    sizes.findings,
    alone("theorem3.1-spectral", sizes.spectral),
    steps.findings,
    gaussians.findings,
    unbounded.cited,
    unbounded.steps,
    unbounded.subspace_rows,
    unbounded.end_to_end,
    unbounded.table_1,
    unbounded.pure,
    accuracy.conditions,
    accuracy.sample_sizes,
    accuracy.tails,
)
