"""Cases of `make reproduce-faults`: registered mechanisms, their verdicts, and planted faults."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from unittest import mock

from dpcov.core.privacy import Budget, Neighbors
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.mechanisms import MECHANISMS
from dpcov.papers.samplers.entrywise import EntrywiseLaplace
from dpcov.rows.moment import UNITS, Lattice

# Order d of all matrices.
ORDER = 2
EPSILON, RHO, DELTA = 1.0, 0.5, 1e-6
# Squared norm of a row of norm 1, in lattice units.
BOUND = float(UNITS**2)
# Relative error of the losses, from lattice points and quadrature.
ROUNDING = 1e-6
# Largest relative difference of the measured and the derived error.
ACCURACY = 0.2
# Parameters of each distribution that grow with the noise, and their power.
SCALE_FIELDS = {
    ScalarLaplace: (("scale",), 1),
    ScalarGaussian: (("variance",), 2),
    GaussianOrthogonal: (("variance",), 2),
    EntrywiseLaplace: (("diagonal", "off_diagonal"), 1),
}

Fault = Callable[[Any, float], AbstractContextManager[None]]


def lattice() -> Lattice:
    """Return the lattice of two features and radius 1, with the bounds that dpcov computes."""
    return Lattice(ORDER, 1.0)


@contextmanager
def calibrated_noise_times(kind: Any, factor: float) -> Iterator[None]:
    """Multiply the noise of the matrix that a registered class calibrates."""
    calibrate = kind.calibrate

    def wrong(mechanism: Any, *public: Any) -> Any:
        found = calibrate(mechanism, *public)
        return replace(found, matrix=found.matrix.rescaled(factor))

    with mock.patch.object(kind, "calibrate", wrong):
        yield


@contextmanager
def laws_times(kind: Any, factor: float) -> Iterator[None]:
    """Multiply all noise of the library, also noise that a mechanism calibrates while it runs."""
    with ExitStack() as stack:
        for law, (names, power) in SCALE_FIELDS.items():
            made = scaled_constructor(law, names, Fraction(factor) ** power)
            stack.enter_context(mock.patch.object(law, "__init__", made))
        yield


def scaled_constructor(law: Any, names: tuple[str, ...], factor: Fraction) -> Callable[..., None]:
    """Return a constructor of a noise distribution that multiplies the parameters of its size."""
    plain = law.__init__

    def constructor(self: Any, *positions: Any, **keywords: Any) -> None:
        plain(self, *positions, **keywords)
        for name in names:
            object.__setattr__(self, name, getattr(self, name) * factor)

    return constructor


@contextmanager
def bound_divided(kind: Any, factor: float) -> Iterator[None]:
    """Divide the bound on a row, from which dpcov computes all sensitivities of second moments."""
    plain = Lattice._set

    def wrong(self: Lattice, step: float, side: int) -> None:
        plain(self, step, side)
        for name in ("bound", "unit_bound"):
            object.__setattr__(self, name, int(getattr(self, name) / factor))

    with mock.patch.object(Lattice, "_set", wrong):
        yield


@dataclass(frozen=True)
class Case:
    """Registered mechanism with options and a budget, and its two verdicts.

    Attributes
    ----------
    loss : callable
        Function from the case to the exact loss over the claim.

    error : callable
        Function from the case to the measured error over the derived error.

    noise, sensitivity : callable
        Faults of the library: context managers for the class and a factor.

    tight : bool
        False if the proof is too loose for a privacy verdict that notices the faults. The loss is
        then a figure for the tightness.

    """

    name: str
    paper: str
    budget: Budget
    neighbors: Neighbors
    loss: Callable[[Case], float]
    error: Callable[[Case], float]
    options: tuple[tuple[str, Any], ...] = ()
    noise: Fault = calibrated_noise_times
    sensitivity: Fault = bound_divided
    tight: bool = True

    @property
    def title(self) -> str:
        told = (f"{name}={value}" for name, value in self.options)
        return " ".join([self.name, *told])

    def mechanism(self) -> Any:
        return MECHANISMS[self.name](**dict(self.options))

    def laws(self) -> Any:
        """Return the calibration of the registered mechanism."""
        return self.mechanism().calibrate(lattice(), self.budget, self.neighbors)

    def verdicts(self) -> tuple[float, bool, float, bool]:
        """Return the loss over the claim, whether it is private, and the same for the error."""
        lost, error = self.loss(self), self.error(self)
        return lost, lost <= 1 + ROUNDING, error, abs(error - 1) <= ACCURACY

    def row(self) -> dict[str, Any]:
        """Return the verdicts of the case, without a fault and under each fault."""
        lost, private, error, accurate = self.verdicts()
        found: dict[str, Any] = {
            "mechanism": self.title,
            "paper": self.paper,
            "budget": str(self.budget),
            "loss over claim": f"{lost:.4f}",
            "error over derived": f"{error:.3f}",
        }
        ok = private and accurate
        faults = {
            "noise times 0.7": (self.noise, 0.7, True),
            "noise times 1.4": (self.noise, 1.4, False),
            "sensitivity over the root of 2": (self.sensitivity, math.sqrt(2), True),
        }
        for name, (fault, factor, too_little) in faults.items():
            with fault(MECHANISMS[self.name], factor):
                lost, private, error, accurate = self.verdicts()
            found[name] = f"loss {lost:.3g}, error {error:.2f}"
            noticed = private != too_little or not self.tight
            ok = ok and noticed and (not accurate or fault is not self.noise)
        found["privacy"] = "verdict" if self.tight else "tightness"
        return found | {"ok": ok}


def farthest(ratios: list[float]) -> float:
    """Return the ratio that is farthest from 1."""
    return max(ratios, key=lambda ratio: abs(math.log(ratio)))
