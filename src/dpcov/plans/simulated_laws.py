"""Noise that is slow to draw, in a form for trials: many draws, of which each may be rough."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dpcov.mechanisms import additive, ladder
from dpcov.mechanisms.nuclear_laplace import pure_noise
from dpcov.samplers.nuclear import NuclearLaplace

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers
    from dpcov.core.entropy import Entropy
    from dpcov.mechanisms import Calibrated
    from dpcov.samplers import MatrixLaw


Law = TypeVar("Law", bound="Calibrated")


class QuickNuclearLaplace(NuclearLaplace):
    """`NuclearLaplace` whose draws are simulations."""

    __slots__ = ()

    def sample(self, entropy: Entropy) -> Integers:
        """For trials alone: no release may hold it, as the spectrum is one of a few."""
        generator = np.random.default_rng(int(entropy.words(1)[0]))
        return np.floor(self.simulate(generator) + 0.5).astype(np.int64)

    def rescaled(self, factor: float) -> QuickNuclearLaplace:
        return QuickNuclearLaplace(self.dimension, self.scale * factor)


def simulated(calibration: Law) -> Law:
    """The calibration, with the laws that are slow to draw in a form for trials."""
    changes: dict[str, Any] = {}
    for field in fields(calibration):  # type: ignore[arg-type]
        if not field.init:
            continue
        held = getattr(calibration, field.name)
        if isinstance(held, ladder.Spending):
            changes[field.name] = replace(held, noise=quick_noise)
        elif isinstance(held, additive.Calibration | ladder.Calibration):
            changes[field.name] = simulated(held)
        elif isinstance(held, tuple):
            changes[field.name] = tuple(map(_quick, held))
        else:
            changes[field.name] = _quick(held)
    return replace(calibration, **changes)  # type: ignore[type-var]


def quick_noise(dimension: int, scale: float) -> MatrixLaw:
    """`pure_noise`, in a form for trials."""
    return _quick(pure_noise(dimension, scale))


def _quick(held: Any) -> Any:
    if isinstance(held, NuclearLaplace):
        return QuickNuclearLaplace(held.dimension, held.scale)
    return held
