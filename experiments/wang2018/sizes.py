"""SuLQ, the error of Algorithm 1, and the one table that is run as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import seeds
from claims import Finding
from dpcov.core.privacy import gaussian_mu
from dpcov.denoise.projection import project
from faults import factor
from slopes import Mean, log_slope
from wang2018.data import Table, parkinsons, scaled, tables
from wang2018.methods import DELTA, solve, unsolvable, wishart, with_noise
from wang2018.printed import (
    CLOSE,
    DIAGONAL,
    EPSILONS,
    GAUSSIAN,
    PRINTED_SULQ,
    PUBLISHED,
    SPARSE,
    SULQ,
    WISHART_APPROXIMATE,
)

PRINTED = {name: [row[-1] for row in printed] for name, printed in PUBLISHED.items()} | {
    SULQ: list(PRINTED_SULQ)
}
PENALTIES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


def relative(table: Table, method: str, epsilon: float, rho: float, repeats: int) -> float:
    """Return the mean relative error of the solution, with S made semidefinite."""
    optimum = solve(table.moment, rho)
    errors = []
    for seed in range(repeats):
        noisy = with_noise(method, table, epsilon, seeds.generator(2000 + seed))
        errors.append(np.linalg.norm(solve(project(noisy, None), rho) - optimum))
    return float(np.mean(errors) / np.linalg.norm(optimum))


def own_size(repeats: int) -> Finding:
    """Count the printed numbers for Parkinson's that one penalty reproduces."""
    table = Table("Parkinson's", scaled(parkinsons()))
    met = {}
    for rho in PENALTIES:
        found = [
            abs(relative(table, method, epsilon, rho, repeats) - number) <= CLOSE
            for method, printed in PRINTED.items()
            for epsilon, number in zip(EPSILONS, printed, strict=True)
        ]
        met[rho] = sum(found)
    best = max(met, key=lambda rho: met[rho])
    return Finding(
        f"n = {table.n}, d = {table.d}: at most {met[best]} of {3 * len(PRINTED)} cells within "
        f"{CLOSE:g}, at rho = {best:g}; all rho: {', '.join(str(count) for count in met.values())}",
        met[best] == 3 * len(PRINTED),
    )


def sulq_order(repeats: int) -> Finding:
    """Check whether SuLQ is between the slides' Gaussian and Wishart noise, on Parkinson's."""
    table = Table("Parkinson's", scaled(parkinsons()))
    reported, holds = [], True
    for epsilon in EPSILONS:
        low, middle, high = (
            relative(table, name, epsilon, SPARSE, repeats)
            for name in (GAUSSIAN, SULQ, WISHART_APPROXIMATE)
        )
        reported.append(f"{low:.2f}, {middle:.2f}, {high:.2f} (eps = {epsilon:g})")
        holds &= low < middle < high
    return Finding("Gaussian, SuLQ, Wishart: " + "; ".join(reported), holds)


def sulq_not_available(repeats: int) -> Finding:
    """Measure how often S plus SuLQ's noise has no solution, by table and penalty."""
    reported, apart = [], False
    for rho in (SPARSE, DIAGONAL):
        shares = {
            table.name: np.mean(
                [
                    unsolvable(with_noise(SULQ, table, epsilon, seeds.generator(3000 + seed)), rho)
                    for epsilon in EPSILONS
                    for seed in range(repeats)
                ]
            )
            for table in tables()
        }
        reported.append(
            ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
            + f" at rho = {rho:g}"
        )
        apart |= shares.pop("Parkinson's") == 0 and min(shares.values()) > 0
    return Finding("without a solution: " + "; ".join(reported), bool(apart))


def sulq_private() -> Finding:
    """Compare SuLQ's deviation with the deviation by the exact curve, n = 1."""
    ratios = []
    for d in (2, 10, 50):
        entries = (d * d + d) / (2 * np.sqrt(2 * np.pi) * DELTA)
        for epsilon in (*EPSILONS, 4.0):
            deviation = (d + 1) / epsilon * np.sqrt(2 * np.log(entries)) + epsilon**-0.5
            ratios.append(deviation * gaussian_mu(epsilon, DELTA) / np.sqrt(2))
    return Finding(
        f"{min(ratios):.1f} to {max(ratios):.0f} times the deviation that is needed",
        min(ratios) >= 1,
    )


def output_error(repeats: int) -> Finding:
    """Fit the growth with d of the Frobenius norm of Algorithm 1's noise, over 1/(n eps rho^2)."""
    generator, orders = seeds.generator(2018), (20, 40, 80, 160)
    means = [
        Mean.of(
            [
                np.linalg.norm(wishart(d, d + 1, factor("output (slides)", d) * d**2.5, generator))
                for _ in range(repeats)
            ]
        )
        for d in orders
    ]
    slope = log_slope(orders, means)
    last = means[-1].value / orders[-1] ** 4
    return Finding(
        f"exponent of d {slope}; {last:.2f} d^4 at d = {orders[-1]}", slope.value <= 4.05
    )


def findings(small: bool, folder: Path) -> dict[str, Finding]:
    repeats = 2 if small else 10
    return {
        "output-error": output_error(5 * repeats),
        "sulq-private": sulq_private(),
        "sulq-order": sulq_order(repeats),
        "sulq-not-available": sulq_not_available(repeats),
        "own-size": own_size(1 if small else 3),
    }
