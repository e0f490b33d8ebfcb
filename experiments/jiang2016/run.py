"""Jiang, Xie and Zhang 2016, Wishart mechanism for differentially private PCA: every claim."""

from __future__ import annotations

from claims import alone
from jiang2016 import others, privacy, sensitivity, subspace, table1, times

PARTS = (
    sensitivity.findings,
    privacy.findings,
    table1.findings,
    others.findings,
    alone("beats-pieces", others.against_kapralov_talwar),
    alone("running-time", times.leading_directions),
    alone("running-time-pieces", times.pieces),
    *(alone(name, theorem) for name, theorem in subspace.THEOREMS.items()),
)
