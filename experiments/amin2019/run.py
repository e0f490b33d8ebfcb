"""Amin et al. 2019, Differentially private covariance estimation: every claim, and ours."""

from __future__ import annotations

from amin2019 import bounds, loss, regression, rejection, scaling, verdicts
from claims import alone

PARTS = (
    loss.findings,
    *bounds.PARTS,
    alone("gap-grows-with-d", scaling.gap),
    scaling.in_rows,
    alone("d-three-halves", scaling.in_columns),
    alone("in-epsilon", scaling.in_epsilon),
    alone("pure-rates", scaling.pure_rates),
    rejection.findings,
    alone("rejections-growth", rejection.growth),
    regression.findings,
    verdicts.findings,
)
