"""Noise distributions of releases, each with an exact sampler."""

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

    ScalarLaw: TypeAlias = ScalarLaplace | ScalarGaussian  # integer noise for one number


class MatrixLaw(Protocol):
    """Distribution of symmetric noise of shape (d, d), in squared lattice steps."""

    rotation_invariant: ClassVar[bool]

    @property
    def dimension(self) -> int: ...

    @property
    def spread(self) -> float:
        """Typical size of an entry. It determines the lattice of the published matrix."""

    @property
    def diagonal_variance(self) -> float:
        """Variance of an entry on the diagonal."""

    @property
    def frobenius_squared(self) -> float:
        """Expected squared Frobenius norm of the noise."""

    @property
    def edge(self) -> float:
        """Largest eigenvalue of the noise, in the limit of large d."""

    @property
    def detectable(self) -> float:
        """Smallest eigenvalue of the signal above the noise, in the limit of large d."""

    def r_transform(self, g: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Return the R-transform of the limiting spectrum at values of the Stieltjes transform."""

    def require_drawable(self) -> None:
        """Raise an error if the noise cannot be drawn exactly, before any budget is spent."""

    def sample(self, entropy: Entropy) -> Integers:
        """Draw integer noise of shape (d, d) for a release."""

    def samples(self, count: int, entropy: Entropy) -> Integers:
        """Draw independent integer noise of shape (count, d, d) for a release."""

    def simulate(self, generator: np.random.Generator) -> Matrix:
        """Draw noise of shape (d, d) for a simulation. Never use it for a release."""

    def rescaled(self, factor: float) -> MatrixLaw:
        """Return the distribution of this noise times a factor, for simulations."""

    def to_json(self) -> dict[str, Any]: ...


# Largest size of an entry of the noise, in squared lattice steps.
MAX_NOISE_ENTRY = 2**87


def whole(noise: Matrix) -> Integers:
    """Round noise to integers by ``floor(x + 1/2)``.

    This rule commutes with integer shifts. Rounding half to even would not.

    Parameters
    ----------
    noise : ndarray of float, any shape
        Noise in squared lattice steps.

    Returns
    -------
    ndarray of int
        Rounded noise. The entries are Python integers if 64 bits are not enough.

    """
    floor = np.floor(noise + 0.5)
    if np.abs(floor).max(initial=0.0) < 2.0**62:
        return floor.astype(np.int64)
    return np.asarray(np.frompyfunc(int, 1, 1)(floor))


def require_within(value: Fraction | float, low: Fraction | int, high: Fraction | int) -> None:
    """Raise an error if a noise parameter is outside the range of the samplers.

    Parameters
    ----------
    value : Fraction or float
        Scale or variance of the noise.
    low, high : Fraction or int
        Ends of the range.

    Raises
    ------
    MechanismError
        The value is outside the range, so the budget is too small or too large.

    """
    if value > high:
        raise MechanismError("The privacy budget is too small for the noise. Use a larger one.")
    if value < low:
        raise MechanismError("The privacy budget is too large for the noise. Use a smaller one.")


def symmetric(diagonals: Integers, below: Integers) -> Integers:
    """Build symmetric matrices from their diagonals and the entries below the diagonals.

    Parameters
    ----------
    diagonals : ndarray of int, shape (n, d)
        Entries on the diagonals.
    below : ndarray of int, shape (n, d (d - 1) / 2)
        Entries below the diagonals.

    Returns
    -------
    ndarray of int, shape (n, d, d)
        Symmetric matrices.

    """
    d = diagonals.shape[1]
    noise = np.zeros((len(diagonals), d, d), np.result_type(diagonals, below))
    noise[:, range(d), range(d)] = diagonals
    rows, columns = np.tril_indices(d, -1)
    noise[:, rows, columns] = noise[:, columns, rows] = below
    return noise


class Law:
    """Base class of the noise distributions. A subclass defines `sample` or `samples`."""

    __slots__ = ()
    law: ClassVar[str]

    def sample(self, entropy: Entropy) -> Any:
        return self.samples(1, entropy)[0]

    def samples(self, count: int, entropy: Entropy) -> Integers:
        return np.stack([self.sample(entropy) for _ in range(count)])

    def to_json(self) -> dict[str, Any]:
        """Return the name and the parameters of the distribution for a release file."""
        told = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        return {"law": self.law, **told}


def _plain(part: Any) -> Any:
    """Return a parameter in the form of a release file, with fractions in full."""
    if isinstance(part, tuple):
        return list(map(_plain, part))
    if isinstance(part, Law):
        return part.to_json()
    return str(part) if isinstance(part, Fraction) else part


def matrix_law(document: dict[str, Any]) -> MatrixLaw:
    """Return the matrix distribution that `MatrixLaw.to_json` described."""
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
    """Return the scalar distribution that `ScalarLaw.to_json` described."""
    from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace

    read = {"scale": Fraction, "variance": Fraction}
    return _described((ScalarLaplace, ScalarGaussian), document, read)


def _described(
    laws: tuple[Any, ...], document: dict[str, Any], read: Mapping[str, Callable[[Any], Any]]
) -> Any:
    """Build the distribution with the name in the document, with parameters from the document."""
    for law in laws:
        if law.law == document["law"]:
            return law(
                **{field.name: read[field.name](document[field.name]) for field in fields(law)}
            )
    raise ValueError("unknown noise law")
