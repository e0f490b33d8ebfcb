"""Biswas, Dong, Kamath and Ullman 2020, CoinPress: main figures on synthetic rows."""

from __future__ import annotations

from pathlib import Path

from biswas2020 import covariances, means
from claims import Finding


def run(small: bool, folder: Path) -> dict[str, Finding]:
    return means.findings(small, folder) | covariances.findings(small, folder)
