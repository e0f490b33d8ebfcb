"""Unbounded Gaussians (Algorithms 1, 2 and 4 of the second part): what the print gets wrong."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from claims import Finding
from dpcov.core.privacy import gaussian_mu


def groups_needed(d: int, epsilon: float, delta: float) -> float:
    """Return the votes that exceed the threshold of d stability histograms released together.

    Each of d counts changes by one vote in two bins, so the l2 sensitivity is sqrt(2 d). A bin with
    one vote is published with total probability at most p.
    """
    lonely = delta / (2 * (1 + math.exp(epsilon)))
    spread = math.sqrt(2 * d) / gaussian_mu(epsilon, delta / 2)
    threshold = 1 - spread * float(ndtri(lonely / d))
    return 2 * (threshold + 6 * spread)


def findings(small: bool, folder: Path) -> dict[str, Finding]:
    dimensions = np.array([10, 100, 1000, 10_000])
    groups = np.array([groups_needed(int(d), 1 / 3, 3.3e-7) for d in dimensions])
    printed = np.log(dimensions / 3.3e-7) / (1 / 3)
    growth = float(np.polyfit(np.log(dimensions), np.log(groups), 1)[0])
    printed_growth = float(np.polyfit(np.log(dimensions), np.log(printed), 1)[0])
    gap = 1e-3
    at_border = {power: 1 / (4 * gap * math.sqrt(1 / (16 * gap**power))) for power in (1, 2)}
    epsilon, delta, q, t = 1 / 3, 1e-6, 4, 1000
    spread = 4 * math.sqrt(q) * math.log(q / delta) / (epsilon * t)
    allowed = gaussian_mu(epsilon, delta)
    mu = {"sum": 2 * math.sqrt(q) / spread, "mean": 2 * math.sqrt(q) / t / spread}
    return {
        "eigenvalues": Finding(
            f"{groups[0]:.0f} groups at d = 10, eps = 1/3, growing like d^{growth:.3f}; printed t "
            f"grows like d^{printed_growth:.3f}",
            growth <= printed_growth + 0.05,
            exact=True,
        ),
        "subspace": Finding(
            f"{t} groups: mu = {mu['sum']:.2f} for the sum, {mu['mean']:.4f} for the mean; "
            f"(1/3, 1e-6) allows {allowed:.4f}",
            mu["sum"] <= allowed,
            exact=mu["mean"] <= allowed,
        ),
        "fine": Finding(
            f"at the border of S, gap {gap:g}, the factor of v v' jumps from 1 to "
            f"{at_border[1]:.3g}; with 16 gap^2 to {at_border[2]:.3g}",
            abs(at_border[1] - 1) < 1e-9,
            exact=abs(at_border[2] - 1) < 1e-9,
        ),
    }
