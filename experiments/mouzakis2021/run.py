"""Mouzakis 2021, private covariance estimation of heavy-tailed and unbounded data: every claim."""

from __future__ import annotations

from pathlib import Path

from claims import Finding
from mouzakis2021 import accuracy, gaussians, sizes, steps


def run(small: bool, folder: Path) -> dict[str, Finding]:
    return (
        sizes.findings()
        | steps.findings(small)
        | gaussians.findings()
        | accuracy.findings(small, folder)
    )
