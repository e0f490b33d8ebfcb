"""What can be said from public numbers alone, before anything is spent."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcov.errors import MechanismError
from dpcov.mechanisms import AdditiveMechanism, Gaussian, MatrixLaplace
from dpcov.privacy import ApproxDP, Budget, Neighbors, PureDP

if TYPE_CHECKING:
    from dpcov.moment import Lattice


CANDIDATES: tuple[type[AdditiveMechanism], ...] = (MatrixLaplace, Gaussian)


@dataclass(frozen=True, slots=True)
class Choice:
    """A mechanism and the reason for it, in words."""

    mechanism: AdditiveMechanism
    reason: str


def expected_noise(
    mechanism: AdditiveMechanism, lattice: Lattice, budget: Budget, neighbors: Neighbors
) -> float:
    """Root of the expected squared Frobenius norm of the noise, in units of the encoded sum."""
    law = mechanism.calibrate(lattice, budget, neighbors).matrix
    return math.sqrt(law.frobenius_squared) * lattice.step**2


def choose(lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Choice:
    """The mechanism with the smaller expected noise, from closed forms (spec denoise 1)."""
    if isinstance(budget, PureDP):
        return Choice(MatrixLaplace(), "the budget is a pure epsilon, without a delta")
    if not isinstance(budget, ApproxDP):
        return Choice(Gaussian(), "the budget is in rho")
    noise = {}
    for kind in CANDIDATES:
        with suppress(MechanismError):
            noise[kind] = expected_noise(kind(), lattice, budget, neighbors)
    if not noise:
        raise MechanismError("No mechanism can keep this privacy budget. Use a larger one.")
    best = min(noise, key=noise.__getitem__)
    compared = ", ".join(f"{value:.4g} with {kind.name}" for kind, value in noise.items())
    return Choice(best(), f"expected noise (Frobenius norm of the encoded sum): {compared}")
