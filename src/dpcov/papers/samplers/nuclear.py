"""Nuclear-Laplace noise: density proportional to exp(-||Z||_* / scale) (docs/proofs/release.md 6b).

Two laws: on symmetric matrices, and the paper's on all square matrices, then symmetrised. Both are
drawn exactly; neither is ever drawn by a Markov chain for a release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcov.core.samplers import LARGEST_ENTRY, Law, require_within, whole
from dpcov.core.samplers.normal import standard_normals
from dpcov.errors import MechanismError
from dpcov.papers.samplers.log_gas import simulated_eigenvalues, simulated_singular_values
from dpcov.papers.samplers.pfaffian import HalfLineEnsemble, LineEnsemble, largest_first

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Integers, Matrix
    from dpcov.core.entropy import Entropy


CATALAN = 0.915965594177219
FAST_REJECTION = 7  # up to here rejection is as fast as the Pfaffians
LARGEST_EXACT = 50  # Pfaffians take ten seconds here, the square law's half a minute
MOST_SHAPES, FEWEST_SHAPES = 256, 32  # spectra that simulations choose from
POINTS = 4000  # of all of them together, where their number is between
SEED = 20_250_103
SMALLEST_BATCH, LARGEST_BATCH = 32, 4096


@dataclass(frozen=True, slots=True)
class NuclearLaplace(Law):
    """Law on symmetric (d, d) matrices with density proportional to exp(-||Z||_* / scale).

    By the triangle inequality a shift D costs at most ||D||_* / scale, so a shift of nuclear norm
    at most scale * epsilon is epsilon-indistinguishable. For d = 1 it is Laplace(scale).

    Eigenvalues have density prod |l_i - l_j| exp(-sum |l_i| / scale), Haar eigenvectors;
    ||Z||_* is Gamma(d (d + 1) / 2, scale), independent of Z / ||Z||_*.
    """

    dimension: int
    scale: float

    law: ClassVar[str] = "nuclear-laplace"
    rotation_invariant: ClassVar[bool] = True

    @property
    def spread(self) -> float:
        return self.scale / 2

    @property
    def diagonal_variance(self) -> float:
        """As if entries were uncorrelated, 5 % too small at d = 2 and less beyond."""
        return 2 * self.frobenius_squared / (self.dimension * (self.dimension + 1))

    @property
    def frobenius_squared(self) -> float:
        """E ||Z||_F^2, a rational number that the Pfaffians give, to 2e-4 (fitted, d to 200).

        Exactly 2, 25/3, 150/7 and 744/17 times scale^2 for d = 1 to 4; the leading term is that of
        the limit law.
        """
        d = self.dimension
        cubic = math.pi**2 / 24 * d**3 + CATALAN * d**2 + 0.70619 * d - 0.0334
        return self.scale**2 * cubic

    # The limit law of the spectrum is Ullman's, arccosh(b / |x|) / (pi b) on [-b, b], the
    # equilibrium measure of |x|: a mixture of arcsine laws, so G(z) = arcsin(b / z) / b.
    @property
    def edge(self) -> float:
        return math.pi / 2 * self.dimension * self.scale

    @property
    def detectable(self) -> float:
        return self.dimension * self.scale

    def r_transform(self, g: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return _ullman_r_transform(self.edge, g)

    def require_drawable(self) -> None:
        """Refuse an order that can't be drawn exactly, and hold every entry below the largest."""
        _require_feasible(self.dimension, self.scale)

    def sample(self, entropy: Entropy) -> Integers:
        """floor(Z + 1/2), never half-to-even, so that rounding commutes with integer shifts."""
        self.require_drawable()
        return whole(self.scale * self._unit(entropy))

    def samples(self, count: int, entropy: Entropy) -> Integers:
        if self.dimension > FAST_REJECTION:
            return Law.samples(self, count, entropy)
        self.require_drawable()
        draws, filled = np.empty((count, self.dimension, self.dimension)), 0
        while filled < count:
            accepted = _accepted(self.dimension, LARGEST_BATCH, entropy)[: count - filled]
            draws[filled : filled + len(accepted)] = accepted
            filled += len(accepted)
        return whole(self.scale * draws)

    def _unit(self, entropy: Entropy) -> Matrix:
        d = self.dimension
        if d <= FAST_REJECTION:
            return by_rejection(d, entropy)
        return with_eigenvalues(np.array(largest_first(LineEnsemble(d), entropy)), entropy)

    def simulate(self, generator: np.random.Generator) -> Matrix:
        """Metropolis eigenvalues, which fit the exact law to a fraction of a percent.

        Up to their size, which is drawn afresh, and their sign they are one of a few spectra.
        """
        shapes = _simulated_shapes(self.dimension)
        values = shapes[generator.integers(len(shapes))] * generator.choice((-1.0, 1.0))
        values *= generator.gamma(self.dimension * (self.dimension + 1) / 2)
        vectors = _haar(generator.standard_normal((self.dimension, self.dimension)))
        return self.scale * _composed(vectors, values, vectors)

    def rescaled(self, factor: float) -> NuclearLaplace:
        return NuclearLaplace(self.dimension, self.scale * factor)


@dataclass(frozen=True, slots=True)
class SquareNuclearLaplace(Law):
    """Law of (Z + Z') / 2, Z of density exp(-||Z||_* / scale) on all (d, d) matrices.

    The law of d'Orsi et al. 2025. The shift costs what it costs under `NuclearLaplace`, with more
    noise: kept for comparison.
    Singular values have density prod |s_i^2 - s_j^2| exp(-sum s_i / scale), with independent Haar
    vectors on both sides; ||Z||_* is Gamma(d^2, scale).
    """

    dimension: int
    scale: float

    law: ClassVar[str] = "nuclear-laplace-square"
    rotation_invariant: ClassVar[bool] = True

    @property
    def spread(self) -> float:
        return self.scale / 2

    @property
    def diagonal_variance(self) -> float:
        """As if entries were uncorrelated, 5 % too small at d = 2 and less beyond."""
        return 2 * self.frobenius_squared / (self.dimension * (self.dimension + 1))

    @property
    def frobenius_squared(self) -> float:
        """E ||(Z + Z') / 2||_F^2 = (1 + 1/d) E ||Z||_F^2 / 2, for E tr Z^2 = E ||Z||_F^2 / d.

        E ||Z||_F^2 to 1.5e-4, fitted to the values that the Pfaffians give (d to 60): exactly 2 and
        15 times scale^2 for d = 1 and 2.
        """
        d = self.dimension
        whole = math.pi**2 / 6 * d**3 + 0.59216 * d**2 - 0.29316 * d + 0.0561
        return self.scale**2 * (1 + 1 / d) * whole / 2

    # In the limit Z is R-diagonal and +-s has Ullman's law on [-b, b], b = pi d scale; the free
    # cumulants of Z + Z' are twice those of that law. With u = b g / 2 the R-transform below gives
    # 1/g + R(g) = b (1 / sin u - 1 / 2u), least at u = 1.28961, where it is .653164 b.
    @property
    def edge(self) -> float:
        return 2.051976 * self.dimension * self.scale

    @property
    def detectable(self) -> float:
        return 1.218037 * self.dimension * self.scale

    def r_transform(self, g: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return 2 * _ullman_r_transform(math.pi / 2 * self.dimension * self.scale, g)

    def require_drawable(self) -> None:
        """Refuse an order that can't be drawn exactly, and hold every entry below the largest."""
        _require_feasible(self.dimension, self.scale)

    def sample(self, entropy: Entropy) -> Integers:
        """floor(Z + 1/2), never half-to-even, so that rounding commutes with integer shifts."""
        self.require_drawable()
        if self.dimension == 1:
            return whole(self.scale * by_rejection(1, entropy))
        values = np.array(largest_first(HalfLineEnsemble(self.dimension), entropy))
        left, right = (_haar(_square_normals(self.dimension, entropy)) for _ in range(2))
        return whole(self.scale * _composed(left, values, right))

    def simulate(self, generator: np.random.Generator) -> Matrix:
        """Metropolis singular values, which fit the exact law to a fraction of a percent."""
        values = simulated_singular_values(self.dimension, generator)
        left, right = map(_haar, generator.standard_normal((2, self.dimension, self.dimension)))
        return self.scale * _composed(left, values, right)

    def rescaled(self, factor: float) -> SquareNuclearLaplace:
        return SquareNuclearLaplace(self.dimension, self.scale * factor)


def by_rejection(dimension: int, entropy: Entropy) -> Matrix:
    """One draw of `NuclearLaplace(dimension, 1)`, from differences of Wishart matrices.

    Let W1, W2 be independent Wishart_d(d + 1, I / 2), of density exp(-tr W1 - tr W2) on pairs of
    positive semidefinite matrices: d + 1 degrees of freedom leave no power of the determinant. Let
    Z = W1 - W2 = Z+ - Z- (Jordan parts) and M = W1 - Z+ = W2 - Z- = (W1 + W2 - |Z|) / 2. The pair
    is accepted if M is positive semidefinite; Z is then exact.

    Proof. For a given Z, M differs from W1 by a constant, and (W1, W2) -> (W1, Z) has Jacobian 1,
    so (Z, M) has density exp(-tr W1 - tr W2) = exp(-||Z||_* - 2 tr M) wherever W1, W2 >= 0. That
    includes all of M >= 0, for Z+, Z- >= 0. So on M >= 0 the density is a product of a function of
    Z and one of M, and Z has density exp(-||Z||_*) up to a constant.

    It accepts 1, .75, .44, .20, .071, .020, 4.2e-3, 7e-4, 1e-4, 2e-5 of the pairs for d = 1 to 10.
    The sign of the smallest eigenvalue of M, in float64, is wrong for a fraction near 1e-14.
    The number of rounds does not depend on the data.
    """
    batch = SMALLEST_BATCH
    while True:
        accepted = _accepted(dimension, batch, entropy)
        if len(accepted):
            return accepted[0]
        batch = min(2 * batch, LARGEST_BATCH)


def _accepted(dimension: int, count: int, entropy: Entropy) -> Matrix:
    """(k, d, d) accepted differences among `count` pairs."""
    size = 2 * count * dimension * (dimension + 1)
    factors = standard_normals(size, entropy).reshape(2, count, dimension, dimension + 1)
    first, second = factors @ factors.swapaxes(2, 3) / 2
    differences = first - second
    values, vectors = np.linalg.eigh(differences)
    absolute = (vectors * np.abs(values)[:, None, :]) @ vectors.swapaxes(1, 2)
    common = first + second - absolute
    likely = np.all(np.diagonal(common, axis1=1, axis2=2) >= 0, axis=1)
    definite = np.linalg.eigvalsh(common[likely])[:, 0] >= 0
    return differences[likely][definite]


def with_eigenvalues(values: Matrix, entropy: Entropy) -> Matrix:
    """Symmetric matrix with these eigenvalues and Haar eigenvectors."""
    vectors = _haar(_square_normals(len(values), entropy))
    return _composed(vectors, values, vectors)


def _square_normals(dimension: int, entropy: Entropy) -> Matrix:
    return standard_normals(dimension**2, entropy).reshape(dimension, dimension)


def _haar(normals: Matrix) -> Matrix:
    """Haar orthogonal matrix: the Q of standard normals, R having a positive diagonal."""
    q, r = np.linalg.qr(normals)
    return q * np.where(np.diagonal(r) < 0, -1.0, 1.0)


def _composed(left: Matrix, values: Matrix, right: Matrix) -> Matrix:
    """Symmetric part of left diag(values) right'."""
    product = (left * values) @ right.T
    return (product + product.T) / 2


@cache
def _simulated_shapes(dimension: int) -> Matrix:
    """(n, d) eigenvalues whose absolute values add up to 1."""
    generator = np.random.default_rng(SEED)
    count = max(FEWEST_SHAPES, min(POINTS // dimension, MOST_SHAPES))
    drawn = np.array([simulated_eigenvalues(dimension, generator) for _ in range(count)])
    return drawn / np.abs(drawn).sum(axis=1, keepdims=True)


def _ullman_r_transform(edge: float, g: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """The inverse of G(z) = arcsin(b / z) / b less its pole: b / sin(b g) - 1 / g."""
    unit = edge * np.asarray(g)
    small = np.abs(unit) < 1e-3
    safe = np.where(small, 1.0, unit)
    series = unit / 6 + 7 * unit**3 / 360
    values: NDArray[np.complex128] = np.where(small, series, 1 / np.sin(safe) - 1 / safe)
    return edge * values


def _require_feasible(dimension: int, scale: float) -> None:
    """Both samplers stay below 2 d (d + 1) + 400: `tail_free`, and (d + 1) 9.2^2 / 2."""
    if dimension > LARGEST_EXACT:
        raise MechanismError(
            f"This noise is drawn exactly up to {LARGEST_EXACT} columns, no further. Choose "
            "matrix-laplace, which costs a tenth more error at any size."
        )
    require_within(scale * (2 * dimension * (dimension + 1) + 400), 0, LARGEST_ENTRY)
