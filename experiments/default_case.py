"""Case of `standardized`, the default of dpcov, which is no mechanism of a paper.

The loss comes from the exact audit of `dpcov audit`, over all rounds.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

import seeds
from dpcov.api.auditing import audit
from dpcov.core.privacy import ZCDP, Neighbors
from dpcov.rows.moment import Lattice
from registered_cases import BOUND, ORDER, RHO, Case, farthest, laws_times

COLUMNS = 3  # the smallest number of an audit
DRAWS = 1000
INTERCEPT = 0.3
# Fractions of rho for the pilot query, the norm histogram and the trace, as documented.
PILOT, HISTOGRAM, TRACE = 0.07, 0.1, 0.05


def audited_loss(case: Case) -> float:
    """Return the largest loss of all rounds together, over rho."""
    found = audit(case.mechanism(), budget=case.budget, neighbors=case.neighbors, columns=COLUMNS)
    return found.worst[0].share


def rounds_error(case: Case, derived: dict[str, float]) -> float:
    """Return the ratio of measured and derived deviations that is farthest from 1."""
    lattice = Lattice(ORDER, 1.0, INTERCEPT)
    laws: Any = case.mechanism().calibrate(lattice, case.budget, case.neighbors)
    last, entropy, ratios = laws.final, seeds.entropy(20260070), []
    noise = {"pilot": laws.look, "counts": laws.counts, "matrix": last.matrix, "trace": last.trace}
    for name, deviation in derived.items():
        draws = np.array([np.asarray(noise[name].sample(entropy), float) for _ in range(DRAWS)])
        units = 1.0 if name == "counts" else BOUND
        square = np.mean(np.sum((draws / units).reshape(DRAWS, -1) ** 2, axis=1))
        ratios.append(math.sqrt(square) / deviation)
    return farthest(ratios)


# One row adds z z' with |z| <= 1, and products with its intercept. Its squared norm is `ROW`. The
# pilot query has the squared sensitivity 1 + T^2 + T^4 (docs/proofs/pilot.md, Lemma 1).
ROW = 1 + INTERCEPT**2
LAST = RHO * (1 - PILOT - HISTOGRAM)
SIZES = (ORDER + 1) * (ORDER + 2) / 2  # squared Frobenius norm of the noise of variance 1
CASES = (
    Case(
        "standardized",
        "default of dpcov",
        ZCDP(RHO),
        Neighbors.ADD_REMOVE,
        audited_loss,
        partial(
            rounds_error,
            derived={
                "pilot": math.sqrt((1 + INTERCEPT**2 + INTERCEPT**4) / (2 * PILOT * RHO)),
                "counts": math.sqrt(1 / (2 * HISTOGRAM * RHO)),
                "matrix": ROW * math.sqrt(SIZES / (2 * LAST * (1 - TRACE))),
                "trace": ROW * math.sqrt(1 / (2 * LAST * TRACE)),
            },
        ),
        noise=laws_times,
    ),
)
