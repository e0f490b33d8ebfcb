"""Table 1's exponents, from sample sizes with every constant in them.

`dpcov.mechanisms.HeavyTailed.sample_size` is what the theorems give once each hidden constant is
replaced by a proved number. One term is isolated by a tiny (privacy) or a huge (sampling) rho.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from claims import Finding
from dpcov.mechanisms import HeavyTailed
from dpcov.papers.primitives.bounded_moments import Moments, SampleSize, least

PRIVACY, SAMPLING = 1e-16, 1e16
ORDERS = (2, 3, 4)
TOLERANCE = 0.05


def size(
    features: int = 1000,
    rho: float = PRIVACY,
    *,
    variant: str = "full",
    order: int = 2,
    alpha: float = 0.1,
    condition: float = 1e4,
) -> SampleSize:
    mechanism = HeavyTailed(
        variant,  # type: ignore[arg-type]
        order=order,
        constant=3.0,
        alpha=alpha,
        condition=condition,
    )
    return mechanism.sample_size(features, rho)


def slope(rows: Callable[[float], float], at: Sequence[float]) -> float:
    logs = [math.log(rows(x)) for x in at]
    return float(np.polyfit(np.log(at), logs, 1)[0])


def over_orders(
    rows: Callable[[float, int], float], at: Sequence[float], expected: Callable[[int], float]
) -> Finding:
    found = {k: slope(lambda x, k=k: rows(x, k), at) for k in ORDERS}
    return Finding(
        ", ".join(f"{s:.3f} (k = {k}: {expected(k):.3f})" for k, s in found.items()),
        all(abs(s - expected(k)) <= TOLERANCE for k, s in found.items()),
    )


def spectral(small: bool, folder: Path) -> Finding:
    """Fit the exponents of the rows for a spectral error, by the bound on one naive release."""

    def rows(features: float, order: int = 2, alpha: float = 0.1, rho: float = PRIVACY) -> float:
        moments = Moments(order, 3.0)
        radius = moments.radius(int(features), alpha / 2)

        def error(n: float) -> float:
            deviation = radius**2 / (n * math.sqrt(rho))
            return moments.spectral_error(int(features), radius, n, deviation, 0.1)

        return float(least(error, alpha))

    in_d = slope(rows, (1_000, 10_000, 100_000))
    in_rho = slope(lambda rho: rows(1000, rho=rho), (1e-12, 1e-14, 1e-16))
    in_alpha = {k: slope(lambda a, k=k: rows(1000, k, a), (1e-1, 1e-2, 1e-3)) for k in ORDERS}
    sampling = slope(lambda d: rows(d, rho=SAMPLING), (1_000, 10_000, 100_000))
    told = ", ".join(f"{s:.3f} (k = {k}: {-k / (k - 1):.3f})" for k, s in in_alpha.items())
    return Finding(
        f"{in_d:.3f} in d, {in_rho:.3f} in rho, in alpha {told}; sampling {sampling:.3f} in d",
        abs(in_d - 1.5) <= TOLERANCE
        and abs(in_rho + 0.5) <= TOLERANCE
        and all(abs(s + k / (k - 1)) <= TOLERANCE for k, s in in_alpha.items()),
    )


def findings(small: bool, folder: Path) -> dict[str, Finding]:
    dimensions, alphas = (1_000, 10_000, 100_000), (1e-1, 1e-2, 1e-3)
    sampling = (
        slope(lambda d: size(int(d), SAMPLING, alpha=1e-4).final, dimensions),
        slope(lambda a: size(10, 1e40, alpha=a).final, (1e-5, 1e-6, 1e-7)),
    )
    rho = slope(lambda r: size(rho=r).final, (1e-12, 1e-14, 1e-16))
    step = slope(lambda d: size(int(d)).steps, dimensions)
    conditions = 10.0 ** np.arange(4, 60, 8)
    steps_of_u = [size(100, condition=u).steps for u in conditions]
    in_logs = slope(
        lambda u: size(100, condition=math.exp(u)).steps, np.log(conditions[1:]).tolist()
    )
    naive = slope(lambda u: size(100, condition=u, variant="naive").final, (1e4, 1e6, 1e8))
    return {
        "table1-dimension": over_orders(
            lambda d, k: size(int(d), order=k).final, dimensions, lambda k: 2 + 0.5 / (k - 1)
        ),
        "table1-alpha": over_orders(
            lambda a, k: size(order=k, alpha=a).final, alphas, lambda k: -k / (k - 1)
        ),
        "table1-rho": Finding(f"{rho:.3f}", abs(rho + 0.5) <= TOLERANCE),
        "table1-sampling": Finding(
            f"{sampling[0]:.3f} in d, {sampling[1]:.3f} in alpha",
            abs(sampling[0] - 2) <= TOLERANCE and abs(sampling[1] + 2) <= TOLERANCE,
        ),
        "table1-steps": Finding(
            f"{step:.3f} in d; {steps_of_u[-1] / steps_of_u[0]:.2f} times as many rows at u = 1e52 "
            f"as at 1e4: exponent of log u {in_logs:.3f}",
            abs(step - 1.5) <= TOLERANCE and in_logs <= 1,
        ),
        "theorem3.1-condition": Finding(f"exponent of u {naive:.3f}", abs(naive - 1) <= TOLERANCE),
    }
