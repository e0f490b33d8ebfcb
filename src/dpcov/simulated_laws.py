"""Noise that is slow to draw, in a form for trials: many draws, of which each may be rough."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dpcov.mechanisms import additive
from dpcov.samplers.log_gas import simulated_eigenvalues
from dpcov.samplers.nuclear import NuclearLaplace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.entropy import Entropy
    from dpcov.mechanisms import Calibrated

    Matrix = NDArray[np.float64]

Law = TypeVar("Law", bound="Calibrated")

SPECTRA = 256
SEED = 20_250_103


class PooledNuclearLaplace(NuclearLaplace):
    """`NuclearLaplace` with one of 256 spectra, each simulated once; eigenvectors are fresh."""

    __slots__ = ()

    def simulate(self, generator: np.random.Generator) -> Matrix:
        values = _spectra(self.dimension)[generator.integers(SPECTRA)]
        # Signs of the vectors, by which Q differs from a Haar matrix, cancel.
        vectors = np.linalg.qr(generator.standard_normal((self.dimension, self.dimension)))[0]
        product: Matrix = (vectors * (self.scale * values)) @ vectors.T
        return (product + product.T) / 2

    def sample(self, entropy: Entropy) -> NDArray[np.int64]:
        """For trials alone: no release may hold it, as the spectrum is one of a few."""
        generator = np.random.default_rng(int(entropy.words(1)[0]))
        return np.floor(self.simulate(generator) + 0.5).astype(np.int64)

    def rescaled(self, factor: float) -> PooledNuclearLaplace:
        return PooledNuclearLaplace(self.dimension, self.scale * factor)


@cache
def _spectra(dimension: int) -> Matrix:
    generator = np.random.default_rng(SEED)
    return np.array([simulated_eigenvalues(dimension, generator) for _ in range(SPECTRA)])


def simulated(calibration: Law) -> Law:
    """The calibration, with the laws that are slow to draw in a form for trials."""
    changes: dict[str, Any] = {}
    for field in fields(calibration):  # type: ignore[arg-type]
        held = getattr(calibration, field.name)
        if isinstance(held, additive.Calibration):
            changes[field.name] = simulated(held)
        elif isinstance(held, tuple):
            changes[field.name] = tuple(map(_quick, held))
        else:
            changes[field.name] = _quick(held)
    changed: Law = replace(calibration, **changes)  # type: ignore[type-var]
    return changed


def _quick(held: Any) -> Any:
    if isinstance(held, NuclearLaplace):
        return PooledNuclearLaplace(held.dimension, held.scale)
    return held
