"""Amin et al. 2019, Differentially private covariance estimation: every claim, and ours."""

from __future__ import annotations

from pathlib import Path

from threadpoolctl import threadpool_limits

from amin2019 import loss, regression, rejection, scaling, verdicts
from claims import Finding


def run(small: bool, folder: Path) -> dict[str, Finding]:
    """Findings for each claim of claims.toml; charts and tables go to `folder`."""
    with threadpool_limits(1):
        return (
            verdicts.findings(small, folder)
            | loss.findings()
            | rejection.findings(small, folder)
            | scaling.findings(small, folder)
            | regression.findings(small, folder)
        )
