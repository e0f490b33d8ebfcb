"""d'Orsi and Novikov 2025, On Purely Private Covariance Estimation: every claim."""

from __future__ import annotations

from claims import alone
from dorsi2025 import gains, lower_bound, norms, privacy, sampling, small_samples

PARTS = (
    privacy.findings,
    sampling.findings,
    norms.findings,
    alone("theorem11-other", norms.other_norms),
    alone("centred", privacy.centred),
    alone("theorem11-scaling", norms.scaling),
    small_samples.large_and_small_n,
    alone("theorem12-d", small_samples.growth_in_d),
    alone("theorem12-trace", small_samples.growth_in_trace),
    small_samples.bounded,
    gains.findings,
    alone("lower-bound-other-p", lower_bound.other_orders),
)
