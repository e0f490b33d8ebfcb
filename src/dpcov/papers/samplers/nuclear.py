"""Nuclear-Laplace noise, with density proportional to ``exp(-||Z||_* / scale)``.

There are two distributions. One is on symmetric matrices. The other, from the paper, is on all
square matrices, which are then made symmetric. A release always draws from both exactly and never
by a Markov chain (docs/proofs/release.md, section 6b).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcov.core.samplers import MAX_NOISE_ENTRY, Law, require_within, whole
from dpcov.core.samplers.normal import standard_normals
from dpcov.errors import MechanismError
from dpcov.papers.samplers.log_gas import simulated_eigenvalues, simulated_singular_values
from dpcov.papers.samplers.pfaffian import HalfLineEnsemble, LineEnsemble, largest_first

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Integers, Matrix
    from dpcov.core.entropy import Entropy


# Catalan's constant.
CATALAN_CONSTANT = 0.915965594177219
# Largest order for which rejection is as fast as the Pfaffians.
MAX_REJECTION_ORDER = 7
# Largest order of an exact draw. The Pfaffians take ten seconds there, and half a minute for square
# matrices.
MAX_EXACT_ORDER = 50
# Largest and smallest number of spectra that simulations choose from.
MAX_SPECTRA, MIN_SPECTRA = 256, 32
# Total number of points of all spectra, if the number of spectra is between these limits.
SPECTRUM_POINTS = 4000
# Seed of the spectra.
SPECTRUM_SEED = 20_250_103
# Smallest and largest number of pairs at once.
MIN_PAIRS, MAX_PAIRS = 32, 4096


@dataclass(frozen=True, slots=True)
class NuclearLaplace(Law):
    """Distribution on symmetric matrices with density proportional to ``exp(-||Z||_* / scale)``.

    By the triangle inequality, a shift D of the data costs at most ``||D||_* / scale``. A shift
    with a nuclear norm of at most ``scale * epsilon`` therefore costs at most epsilon. For d = 1,
    the distribution is a Laplace distribution.

    The eigenvalues have the density ``prod |l_i - l_j| exp(-sum |l_i| / scale)``. The eigenvectors
    have the Haar distribution. The norm ``||Z||_*`` has the distribution
    ``Gamma(d (d + 1) / 2, scale)`` and is independent of ``Z / ||Z||_*``.

    Parameters
    ----------
    dimension : int
        Order d of the matrix.
    scale : float
        Scale, in squared lattice units.

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
        """Approximate variance of an entry on the diagonal, as if entries were uncorrelated.

        The value is 5% too small at d = 2. The error is smaller for larger d.
        """
        return 2 * self.frobenius_squared / (self.dimension * (self.dimension + 1))

    @property
    def frobenius_squared(self) -> float:
        """Expected squared Frobenius norm of the noise, with a relative error of 2e-4.

        The exact values come from the Pfaffians. They are 2, 25/3, 150/7 and 744/17 times
        ``scale^2`` for d = 1 to 4. The formula is a fit for d up to 200, with the leading term of
        the limiting spectrum.
        """
        d = self.dimension
        cubic = math.pi**2 / 24 * d**3 + CATALAN_CONSTANT * d**2 + 0.70619 * d - 0.0334
        return self.scale**2 * cubic

    # The limiting spectrum is Ullman's distribution, with the density arccosh(b / |x|) / (pi b) on
    # [-b, b]. The distribution is the equilibrium measure of |x|. It is a mixture of arcsine
    # distributions, so G(z) = arcsin(b / z) / b.
    @property
    def edge(self) -> float:
        return math.pi / 2 * self.dimension * self.scale

    @property
    def detectable(self) -> float:
        return self.dimension * self.scale

    def r_transform(self, g: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return _ullman_r_transform(self.edge, g)

    def require_drawable(self) -> None:
        """Raise an error if the order is too large for an exact draw, or an entry is too large."""
        _require_feasible(self.dimension, self.scale)

    def sample(self, entropy: Entropy) -> Integers:
        """Draw the noise and round it to integers by ``floor(x + 1/2)``.

        This rule commutes with integer shifts. Rounding half to even would not.
        """
        self.require_drawable()
        return whole(self.scale * self._unit(entropy))

    def samples(self, count: int, entropy: Entropy) -> Integers:
        if self.dimension > MAX_REJECTION_ORDER:
            return Law.samples(self, count, entropy)
        self.require_drawable()
        draws, filled = np.empty((count, self.dimension, self.dimension)), 0
        while filled < count:
            accepted = _accepted(self.dimension, MAX_PAIRS, entropy)[: count - filled]
            draws[filled : filled + len(accepted)] = accepted
            filled += len(accepted)
        return whole(self.scale * draws)

    def _unit(self, entropy: Entropy) -> Matrix:
        d = self.dimension
        if d <= MAX_REJECTION_ORDER:
            return by_rejection(d, entropy)
        return with_eigenvalues(np.array(largest_first(LineEnsemble(d), entropy)), entropy)

    def simulate(self, generator: np.random.Generator) -> Matrix:
        """Simulate the noise with eigenvalues from a Metropolis sampler.

        The eigenvalues fit the exact distribution to a fraction of a percent. Their shape is one of
        a few spectra, with a random sign. Their total size is drawn anew.
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
    """Distribution of ``(Z + Z') / 2``, where Z is a square matrix with nuclear-Laplace noise.

    The density of Z is proportional to ``exp(-||Z||_* / scale)`` on all (d, d) matrices, as in
    d'Orsi and Novikov 2025. A shift costs the same as for `NuclearLaplace`, but the noise is
    larger. The distribution is for comparisons.

    The singular values have the density ``prod |s_i^2 - s_j^2| exp(-sum s_i / scale)``. The
    singular vectors on both sides are independent with the Haar distribution. The norm ``||Z||_*``
    has the distribution ``Gamma(d^2, scale)``.

    Parameters
    ----------
    dimension : int
        Order d of the matrix.
    scale : float
        Scale, in squared lattice units.

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
        """Approximate variance of an entry on the diagonal, as if entries were uncorrelated.

        The value is 5% too small at d = 2. The error is smaller for larger d.
        """
        return 2 * self.frobenius_squared / (self.dimension * (self.dimension + 1))

    @property
    def frobenius_squared(self) -> float:
        """Expected squared Frobenius norm of the noise, with a relative error of 1.5e-4.

        The symmetric matrix has the expected squared norm ``(1 + 1/d) E ||Z||_F^2 / 2``, because
        ``E tr Z^2 = E ||Z||_F^2 / d``. The formula for ``E ||Z||_F^2`` is a fit to exact values
        from the Pfaffians, for d up to 60. The exact values are 2 and 15 times ``scale^2`` for d =
        1 and 2.
        """
        d = self.dimension
        whole = math.pi**2 / 6 * d**3 + 0.59216 * d**2 - 0.29316 * d + 0.0561
        return self.scale**2 * (1 + 1 / d) * whole / 2

    # In the limit of large d, Z is R-diagonal. The singular values with random signs then have
    # Ullman's distribution on [-b, b] with b = pi d scale. The free cumulants of Z + Z' are twice
    # the cumulants of this distribution. Let u = b g / 2. The R-transform below gives
    # 1/g + R(g) = b (1 / sin u - 1 / 2u). The minimum is 0.653164 b, at u = 1.28961.
    @property
    def edge(self) -> float:
        return 2.051976 * self.dimension * self.scale

    @property
    def detectable(self) -> float:
        return 1.218037 * self.dimension * self.scale

    def r_transform(self, g: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return 2 * _ullman_r_transform(math.pi / 2 * self.dimension * self.scale, g)

    def require_drawable(self) -> None:
        """Raise an error if the order is too large for an exact draw, or an entry is too large."""
        _require_feasible(self.dimension, self.scale)

    def sample(self, entropy: Entropy) -> Integers:
        """Draw the noise and round it to integers by ``floor(x + 1/2)``.

        This rule commutes with integer shifts. Rounding half to even would not.
        """
        self.require_drawable()
        if self.dimension == 1:
            return whole(self.scale * by_rejection(1, entropy))
        values = np.array(largest_first(HalfLineEnsemble(self.dimension), entropy))
        left, right = (_haar(_square_normals(self.dimension, entropy)) for _ in range(2))
        return whole(self.scale * _composed(left, values, right))

    def simulate(self, generator: np.random.Generator) -> Matrix:
        """Simulate the noise with singular values from a Metropolis sampler.

        The singular values fit the exact distribution to a fraction of a percent.
        """
        values = simulated_singular_values(self.dimension, generator)
        left, right = map(_haar, generator.standard_normal((2, self.dimension, self.dimension)))
        return self.scale * _composed(left, values, right)

    def rescaled(self, factor: float) -> SquareNuclearLaplace:
        return SquareNuclearLaplace(self.dimension, self.scale * factor)


def by_rejection(dimension: int, entropy: Entropy) -> Matrix:
    """Draw from `NuclearLaplace(dimension, 1)` by rejection from differences of Wishart matrices.

    Parameters
    ----------
    dimension : int
        Order d of the matrix.
    entropy : Entropy
        Source of random bits.

    Returns
    -------
    ndarray of float, shape (d, d)
        Symmetric matrix.

    Notes
    -----
    **Method.** Let W1 and W2 be independent Wishart matrices ``Wishart_d(d + 1, I / 2)``. With d +
    1 degrees of freedom, their joint density is ``exp(-tr W1 - tr W2)`` on positive semidefinite
    matrices. Let ``Z = W1 - W2 = Z+ - Z-`` be the difference with its positive and negative parts.
    Let ``M = W1 - Z+ = W2 - Z- = (W1 + W2 - |Z|) / 2``. The sampler accepts the pair if M is
    positive semidefinite.

    **Proof.** For a given Z, the matrices M and W1 differ by a constant. The map from (W1, W2) to
    (W1, Z) has the Jacobian 1. So (Z, M) has the density ``exp(-||Z||_* - 2 tr M)`` wherever W1 and
    W2 are positive semidefinite. Every positive semidefinite M satisfies this condition, because Z+
    and Z- are positive semidefinite. The density is a product of a function of Z and a function of
    M. The accepted Z therefore has a density proportional to ``exp(-||Z||_*)``.

    **Cost.** The sampler accepts 1, 0.75, 0.44, 0.20, 0.071, 0.020, 4.2e-3, 7e-4, 1e-4 and 2e-5 of
    the pairs for d = 1 to 10. Float errors in the smallest eigenvalue of M cause a wrong decision
    for a fraction of about 1e-14. The number of rounds does not depend on the data.

    """
    batch = MIN_PAIRS
    while True:
        accepted = _accepted(dimension, batch, entropy)
        if len(accepted):
            return accepted[0]
        batch = min(2 * batch, MAX_PAIRS)


def _accepted(dimension: int, count: int, entropy: Entropy) -> Matrix:
    """Draw pairs and return the accepted differences, of shape (k, d, d)."""
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
    """Return a symmetric matrix with given eigenvalues and Haar eigenvectors."""
    vectors = _haar(_square_normals(len(values), entropy))
    return _composed(vectors, values, vectors)


def _square_normals(dimension: int, entropy: Entropy) -> Matrix:
    return standard_normals(dimension**2, entropy).reshape(dimension, dimension)


def _haar(normals: Matrix) -> Matrix:
    """Return a Haar orthogonal matrix from a matrix of standard normal numbers.

    The function uses the QR decomposition with a positive diagonal of R.
    """
    q, r = np.linalg.qr(normals)
    return q * np.where(np.diagonal(r) < 0, -1.0, 1.0)


def _composed(left: Matrix, values: Matrix, right: Matrix) -> Matrix:
    """Return the symmetric part of ``left diag(values) right'``."""
    product = (left * values) @ right.T
    return (product + product.T) / 2


@cache
def _simulated_shapes(dimension: int) -> Matrix:
    """Return eigenvalues of shape (n, d) whose absolute values add up to 1 in each row."""
    generator = np.random.default_rng(SPECTRUM_SEED)
    count = max(MIN_SPECTRA, min(SPECTRUM_POINTS // dimension, MAX_SPECTRA))
    drawn = np.array([simulated_eigenvalues(dimension, generator) for _ in range(count)])
    return drawn / np.abs(drawn).sum(axis=1, keepdims=True)


def _ullman_r_transform(edge: float, g: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Return the R-transform of Ullman's distribution, ``b / sin(b g) - 1 / g``.

    The number b is the edge. The function inverts ``G(z) = arcsin(b / z) / b`` and subtracts the
    pole.
    """
    unit = edge * np.asarray(g)
    small = np.abs(unit) < 1e-3
    safe = np.where(small, 1.0, unit)
    series = unit / 6 + 7 * unit**3 / 360
    values: NDArray[np.complex128] = np.where(small, series, 1 / np.sin(safe) - 1 / safe)
    return edge * values


def _require_feasible(dimension: int, scale: float) -> None:
    """Raise an error if the order or the scale is too large.

    Both samplers give values below ``2 d (d + 1) + 400``. This bound follows from `tail_free`, and
    from ``(d + 1) 9.2^2 / 2``.
    """
    if dimension > MAX_EXACT_ORDER:
        raise MechanismError(
            f"This noise can be drawn exactly for at most {MAX_EXACT_ORDER} columns. Choose "
            "matrix-laplace, which has about a tenth more error."
        )
    require_within(scale * (2 * dimension * (dimension + 1) + 400), 0, MAX_NOISE_ENTRY)
