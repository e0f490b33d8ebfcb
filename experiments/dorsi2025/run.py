"""d'Orsi et al. 2025, On Purely Private Covariance Estimation: every claim."""

from __future__ import annotations

from pathlib import Path

from dorsi2025 import norms, privacy, sampling, small_samples
from reproduce import Finding


def run(small: bool, folder: Path) -> dict[str, Finding]:
    """Measure every claim of claims.toml; write the figures to `folder`."""
    return (
        privacy.findings(small)
        | sampling.findings(small)
        | norms.findings(small, folder)
        | small_samples.findings(small, folder)
    )
