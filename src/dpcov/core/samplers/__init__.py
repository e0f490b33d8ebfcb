"""Noise laws: public descriptions of what a mechanism adds, each with its sampler."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np

from dpcov.core import registry
from dpcov.errors import MechanismError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from dpcov.core.arrays import Integers, Matrix
    from dpcov.core.entropy import Entropy
    from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace

    ScalarLaw: TypeAlias = ScalarLaplace | ScalarGaussian  # of integer noise for one number


class MatrixLaw(Protocol):
    """A law of symmetric (d, d) noise, in squared lattice units."""

    rotation_invariant: ClassVar[bool]

    @property
    def dimension(self) -> int: ...

    @property
    def spread(self) -> float:
        """Typical size of an entry; fixes how coarse a lattice the sum is published on."""

    @property
    def diagonal_variance(self) -> float:
        """Variance of an entry on the diagonal."""

    @property
    def frobenius_squared(self) -> float:
        """Expected squared Frobenius norm of the noise."""

    @property
    def edge(self) -> float:
        """Where the spectrum of the noise ends, in the limit of large d."""

    @property
    def detectable(self) -> float:
        """Smallest eigenvalue of the signal that rises above the noise, in that limit."""

    def r_transform(self, g: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """R-transform of the limiting spectrum, at values of the Stieltjes transform."""

    def require_drawable(self) -> None:
        """Refuse a law that can't be drawn exactly, before anything is spent."""

    def sample(self, entropy: Entropy) -> Integers:
        """(d, d) integer noise for a release."""

    def samples(self, count: int, entropy: Entropy) -> Integers:
        """(count, d, d) independent draws, as `sample` makes them."""

    def simulate(self, generator: np.random.Generator) -> Matrix:
        """(d, d) noise for simulation, not for a release."""

    def rescaled(self, factor: float) -> MatrixLaw:
        """The law of `factor` times this noise, for simulation."""

    def to_json(self) -> dict[str, Any]: ...


LARGEST_ENTRY = 2**87  # of noise, far below what a coarser grid is published for


def whole(noise: Matrix) -> Integers:
    """floor(Z + 1/2), never half-to-even, so that rounding commutes with integer shifts.

    Python integers where 64 bits can't hold an entry.
    """
    floor = np.floor(noise + 0.5)
    if np.abs(floor).max(initial=0.0) < 2.0**62:
        return floor.astype(np.int64)
    return np.asarray(np.frompyfunc(int, 1, 1)(floor))


def require_within(value: Fraction | float, low: Fraction | int, high: Fraction | int) -> None:
    """Refuse the budget whose noise has a parameter outside the range of the samplers."""
    if value > high:
        raise MechanismError("The privacy budget is too small for the noise. Use a larger one.")
    if value < low:
        raise MechanismError("The privacy budget is too large for the noise. Use a smaller one.")


def symmetric(diagonals: Integers, below: Integers) -> Integers:
    """(n, d, d) symmetric matrices from (n, d) diagonals and the (n, d(d-1)/2) entries below."""
    d = diagonals.shape[1]
    noise = np.zeros((len(diagonals), d, d), np.result_type(diagonals, below))
    noise[:, range(d), range(d)] = diagonals
    rows, columns = np.tril_indices(d, -1)
    noise[:, rows, columns] = noise[:, columns, rows] = below
    return noise


class Law:
    """What laws have in common; each says how to draw one or how to draw several."""

    __slots__ = ()
    law: ClassVar[str]

    def sample(self, entropy: Entropy) -> Any:
        return self.samples(1, entropy)[0]

    def samples(self, count: int, entropy: Entropy) -> Integers:
        return np.stack([self.sample(entropy) for _ in range(count)])

    def to_json(self) -> dict[str, Any]:
        """Its name and its fields."""
        told = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        return {"law": self.law, **told}


def _plain(part: Any) -> Any:
    """A field as JSON has it; a fraction in full."""
    if isinstance(part, tuple):
        return list(map(_plain, part))
    if isinstance(part, Law):
        return part.to_json()
    return str(part) if isinstance(part, Fraction) else part


def matrix_law(document: dict[str, Any]) -> MatrixLaw:
    """The law that `MatrixLaw.to_json` described."""
    from dpcov.core.samplers.orthogonal import GaussianOrthogonal
    from dpcov.core.samplers.weighted import WeightedSum
    from dpcov.core.samplers.wishart import WishartDifference

    read: dict[str, Callable[[Any], Any]] = {
        "dimension": int,
        "degrees": int,
        "scale": float,
        "variance": Fraction,
        "diagonal": Fraction,
        "off_diagonal": Fraction,
        "weights": tuple,
        "terms": lambda terms: tuple(map(matrix_law, terms)),
    }
    laws = (WishartDifference, GaussianOrthogonal, WeightedSum)
    paper = registry.LAWS.get(document["law"])
    found = laws if paper is None else (registry.loaded(paper),)
    return _described(found, document, read)


def scalar_law(document: dict[str, Any]) -> ScalarLaw:
    """The law that `ScalarLaw.to_json` described."""
    from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace

    read = {"scale": Fraction, "variance": Fraction}
    return _described((ScalarLaplace, ScalarGaussian), document, read)


def _described(
    laws: tuple[Any, ...], document: dict[str, Any], read: Mapping[str, Callable[[Any], Any]]
) -> Any:
    """The law of that name, its fields read from the document."""
    for law in laws:
        if law.law == document["law"]:
            return law(
                **{field.name: read[field.name](document[field.name]) for field in fields(law)}
            )
    raise ValueError("unknown noise law")
