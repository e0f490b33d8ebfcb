"""Mechanisms: from a data set behind its door to a release, under a stated guarantee.

`MECHANISMS` is the registry: the command line, the documentation and the conformance battery are
driven by it.
"""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from dpcov.errors import MechanismError
from dpcov.mechanisms.adaptive_gaussian import AdaptiveGaussian
from dpcov.mechanisms.adaptive_laplace import AdaptiveLaplace
from dpcov.mechanisms.additive_wishart import AdditiveWishart
from dpcov.mechanisms.ashtiani_liaw import AshtianiLiaw
from dpcov.mechanisms.eigenvector_sampling import EigenvectorSampling
from dpcov.mechanisms.exponential_pca import ExponentialPCA
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.heavy_tailed import HeavyTailed
from dpcov.mechanisms.kapralov_talwar import KapralovTalwar
from dpcov.mechanisms.ladder import Ladder
from dpcov.mechanisms.laplace import Laplace
from dpcov.mechanisms.matrix_laplace import MatrixLaplace
from dpcov.mechanisms.nuclear_laplace import NuclearLaplace
from dpcov.mechanisms.preconditioned import Preconditioned
from dpcov.mechanisms.separate_gaussian import SeparateGaussian
from dpcov.mechanisms.separate_laplace import SeparateLaplace
from dpcov.mechanisms.shaped_ladder import ShapedLadder
from dpcov.mechanisms.stable_covariance import StableCovariance
from dpcov.mechanisms.standardized import Standardized
from dpcov.mechanisms.standardized_ladder import StandardizedLadder
from dpcov.mechanisms.unbounded_gaussian import UnboundedGaussian
from dpcov.mechanisms.whitened import Whitened

if TYPE_CHECKING:
    from dpcov.entropy import Entropy
    from dpcov.mechanisms.additive import Calibration
    from dpcov.moment import Lattice
    from dpcov.privacy import Budget, Guarantee, Neighbors
    from dpcov.releases import Release
    from dpcov.sources.rows import Rows


class Calibrated(Protocol):
    """What calibrating any mechanism tells."""

    @property
    def guarantee(self) -> Guarantee: ...


class Mechanism(Protocol):
    """A frozen dataclass whose fields are public; the arguments of a call are sensitive."""

    name: ClassVar[str]
    use: ClassVar[str]  # when to choose it
    source: ClassVar[str]  # whose idea it is

    @property
    def passes(self) -> int:
        """At most how many times the data is read; above 1, a stream is copied."""

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibrated:
        """The noise and the guarantee, from public numbers; refuses before anything is spent."""

    def __call__(
        self, rows: Rows, *, budget: Budget, neighbors: Neighbors, entropy: Entropy
    ) -> Release: ...


class AdditiveMechanism(Mechanism, Protocol):
    """A mechanism that adds noise, drawn before the data is read, to the second moment."""

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration: ...


MECHANISMS: dict[str, type[Mechanism]] = {
    mechanism.name: mechanism
    for mechanism in (
        ShapedLadder,
        StandardizedLadder,
        Ladder,
        MatrixLaplace,
        NuclearLaplace,
        Gaussian,
        Standardized,
        Laplace,
        SeparateLaplace,
        AdaptiveLaplace,
        SeparateGaussian,
        AdaptiveGaussian,
        EigenvectorSampling,
        KapralovTalwar,
        ExponentialPCA,
        Preconditioned,
        HeavyTailed,
        AdditiveWishart,
        StableCovariance,
        Whitened,
        AshtianiLiaw,
        UnboundedGaussian,
    )
}

# Mechanisms of the literature that protect nobody, and what shows it.
REFUTED = {
    "wishart": "Adding a Wishart matrix is not differentially private, whatever the papers say: "
    "`python -m dpcov.demonstrations.wishart` shows it. Choose matrix-laplace.",
}

LARGEST_OPTION = 2**53  # of integers: beyond, float64 and 64-bit integers differ


def mechanism_named(name: str, **fields: Any) -> Mechanism:
    """The registered mechanism `name` with these public fields."""
    if name in REFUTED:
        raise MechanismError(REFUTED[name])
    if name not in MECHANISMS:
        raise MechanismError(
            f"There is no mechanism {name!r}. Choose one of: {', '.join(MECHANISMS)}, auto."
        )
    options = options_of(name)
    if any(isinstance(value, int) and abs(value) > LARGEST_OPTION for value in fields.values()):
        raise MechanismError(f"An option of the mechanism {name!r} is beyond 2^53.")
    for field in fields.keys() - options.keys():
        raise MechanismError(
            f"The mechanism {name!r} has no option {field!r}. It has: {', '.join(options)}."
        )
    try:
        if any(isinstance(options[key], bool) != isinstance(fields[key], bool) for key in fields):
            raise TypeError  # true is no number, and text no truth
        return MECHANISMS[name](**fields)
    except TypeError:
        stated = ", ".join(f"{field}={value!r}" for field, value in fields.items())
        raise MechanismError(
            f"An option of the mechanism {name!r} is of the wrong type: {stated}."
        ) from None


def calibrated(
    mechanism: Mechanism, lattice: Lattice, budget: Budget, neighbors: Neighbors
) -> Calibrated:
    """What calibrating tells; options and budgets that float64 can't compute with are refused."""
    try:
        return mechanism.calibrate(lattice, budget, neighbors)
    except (ArithmeticError, ValueError):
        raise MechanismError(
            f"With these options and this budget a number of {mechanism.name} is out of range: "
            "change them."
        ) from None


def options_of(name: str) -> dict[str, Any]:
    """The options of a registered mechanism and their defaults."""
    return {field.name: field.default for field in fields_of(MECHANISMS[name])}  # type: ignore[arg-type]


__all__ = [
    "MECHANISMS",
    "AdaptiveGaussian",
    "AdaptiveLaplace",
    "AdditiveWishart",
    "AshtianiLiaw",
    "EigenvectorSampling",
    "ExponentialPCA",
    "Gaussian",
    "HeavyTailed",
    "KapralovTalwar",
    "Ladder",
    "Laplace",
    "MatrixLaplace",
    "Mechanism",
    "NuclearLaplace",
    "Preconditioned",
    "SeparateGaussian",
    "SeparateLaplace",
    "ShapedLadder",
    "StableCovariance",
    "Standardized",
    "StandardizedLadder",
    "UnboundedGaussian",
    "Whitened",
    "calibrated",
    "mechanism_named",
    "options_of",
]
