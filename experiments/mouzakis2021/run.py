"""Mouzakis 2021, private covariance estimation of heavy-tailed and unbounded data: every claim."""

from __future__ import annotations

from mouzakis2021 import accuracy, gaussians, sizes, steps

PARTS = (
    sizes.findings,
    steps.findings,
    gaussians.findings,
    accuracy.conditions,
    accuracy.sample_sizes,
    accuracy.tails,
)
