"""Compute exact losses of adversarial neighbours, for every core mechanism that adds noise."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from unittest import mock

from dpcov.api.auditing import Audit, audit
from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP
from dpcov.mechanisms import Gaussian, MatrixLaplace, Standardized
from dpcov.mechanisms.standardized import BY_DIRECTION
from dpcov.rows.moment import Lattice
from figure import Figure

if TYPE_CHECKING:
    from dpcov.core.privacy import Budget
    from dpcov.mechanisms import Mechanism

ATTACK = "a privacy loss above the claim"
CONTROL = "a privacy loss above the claim: control that must be caught"
PURE, CONCENTRATED, APPROXIMATE = PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)
ASKED: tuple[tuple[Mechanism, tuple[Budget, ...]], ...] = (
    (Gaussian(), (CONCENTRATED, APPROXIMATE)),
    (Gaussian(radius="private"), (CONCENTRATED,)),
    (MatrixLaplace(), (PURE,)),
    (MatrixLaplace(radius="private"), (PURE,)),
    (Standardized(), (PURE, CONCENTRATED, APPROXIMATE)),
    (BY_DIRECTION, (PURE, CONCENTRATED, APPROXIMATE)),
)
ENOUGH = {"candidates": 75}  # more than 1,000 pairs of each


def measure(quick: bool) -> list[Figure]:
    """Audit every mechanism at its budgets, under both relations, then broken ones."""
    figures = [
        _figure(mechanism, budget, neighbors, quick)
        for mechanism, budgets in ASKED
        for budget in budgets[: 1 if quick else None]
        for neighbors in Neighbors
    ]
    noise = _caught("noise", Quiet())
    with mock.patch.object(Lattice, "frobenius_squared", _too_small):
        return [*figures, noise, _caught("sensitivity", Gaussian())]


def _too_small(lattice: Lattice, neighbors: Neighbors) -> int:
    """Return the square of a Frobenius sensitivity that is 1% too small."""
    return lattice.unit_bound**2 * neighbors.sides * 99**2 // 100**2


def _figure(mechanism: Mechanism, budget: Budget, neighbors: Neighbors, quick: bool) -> Figure:
    started = time.perf_counter()
    more: dict[str, Any] = {} if quick or neighbors == Neighbors.REPLACE_ONE else ENOUGH
    found = audit(mechanism, budget=budget, neighbors=neighbors, **more)
    milliseconds = 1000 * (time.perf_counter() - started) / found.pairs
    measured = f"{mechanism}, {budget}, {neighbors}: {found.pairs:,} pairs"
    print(f"{measured}: {milliseconds:.1f} ms a pair", flush=True)
    shares = ", ".join(f"{worst.round} {worst.share:.6f}" for worst in found.worst)
    return Figure(ATTACK, measured, "<= 1 of the claim", shares, not found.violated)


def _caught(fault: str, mechanism: Mechanism) -> Figure:
    found: Audit = audit(mechanism, budget=CONCENTRATED, neighbors=Neighbors.ADD_REMOVE)
    share = f"{found.worst[0].share:.6f}"
    return Figure(CONTROL, f"gaussian, 1% less {fault}", "> 1", share, found.violated)


@dataclass(frozen=True)
class Quiet(Gaussian):
    """Noise whose standard deviation is 1% too small."""

    def calibrate(self, lattice: Any, budget: Any, neighbors: Any) -> Any:
        laws = Gaussian.calibrate(self, lattice, budget, neighbors)
        variance = laws.matrix.variance * Fraction(99, 100) ** 2  # type: ignore[attr-defined]
        return replace(laws, matrix=replace(laws.matrix, variance=variance))  # type: ignore[type-var]
