"""Jiang, Xie and Zhang 2016, Wishart mechanism for differentially private PCA: every claim."""

from __future__ import annotations

from pathlib import Path

from jiang2016 import privacy, sensitivity, subspace, table1
from reproduce import Finding


def run(small: bool, folder: Path) -> dict[str, Finding]:
    return (
        sensitivity.findings(small)
        | privacy.findings(small, folder)
        | table1.findings(small, folder)
        | subspace.findings(small, folder)
    )
