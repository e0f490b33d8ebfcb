"""Shrinking the spectrum of a noisy matrix whose noise law is public.

The best estimate that keeps the noisy eigenvectors v has the spectrum
x_i = sum_j (v_i . u_j)^2 l_j, with l the true spectrum and u its vectors. Both parts can be had
from the noise law: by simulation at any d, or in closed form in the limit of large d. Most laws are
rotation-invariant, and then the true vectors do not matter; for the others the noisy ones stand in.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy

from dpcov.denoise.projection import compose, onto_simplex, project

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcov.core.arrays import Matrix, Vector
    from dpcov.core.samplers import MatrixLaw

SIMULATIONS = 32
ITERATIONS = 12
STEP = 0.7
FLAT, STEEP = (0.0,), (2.0, 8.0)  # powers of candidate spectra
SMALL = 100  # below this order always simulate
LARGE = 400  # above it never
CLEAR = 30.0  # trace, over the detectable eigenvalue, from which the closed form is as good
# Imaginary part of the closed form's argument, in edge / sqrt(d): of eigenvalues that may be noise
# about most others, whose own scatter it has to smooth, and of those above.
SMOOTH, RESOLUTION = 2.0, 0.5
ROUNDS = 4  # of the closed form and what is beside it; more change nothing
NUDGE = 0.02  # of the noise, for a divergence
GATE = 0.5  # trace, over the detectable eigenvalue, below which simulation finds nothing either


def shrink(
    matrix: Matrix,
    law: MatrixLaw,
    trace: float,
    generator: np.random.Generator,
    through: Callable[[Matrix], Matrix] | None = None,
    directions: Matrix | None = None,
) -> Matrix:
    """Estimate of S from `matrix` = S + noise, the law of the noise, and an estimate of tr S.

    Parameters
    ----------
    matrix : (d, d) symmetric.
    law : law of the noise, in the units of `matrix`.
    trace : estimate of the trace; the result's trace is its positive part.
    generator : for simulating the law; independent of the noise in `matrix`.
    through : a linear map that S + noise went through to become `matrix`, and that leaves S as it
        is, if in another basis; then the noise is always simulated.
    directions : (d, d) orthonormal columns, along few of which S may differ much from what its
        spectrum alone would tell; default, the columns of `matrix`.

    Returns
    -------
    (d, d) positive semidefinite matrix.

    """
    if through is None and not simulates(law, trace):
        return beside(matrix, law, trace, directions)
    values, vectors = np.linalg.eigh(matrix)
    spectrum = simulated_spectrum(values, vectors, law, trace, generator, through)
    return compose(vectors, spectrum)


def simulates(law: MatrixLaw, trace: float) -> bool:
    """Whether `shrink` simulates: at small orders, and at moderate ones where little shows."""
    if law.dimension < SMALL:
        return True
    return law.dimension <= LARGE and trace < CLEAR * law.detectable


def james_stein(
    values: Vector | float, deviations: Vector | float, strength: float = 2.0
) -> Vector:
    """(x - c s^2/x)+, in the manner of James and Stein; s is the noise's standard deviation, not 0.

    At tiny budgets a trace is mostly noise, and a wrong one is worse than none.
    """
    least = np.sqrt(strength) * np.asarray(deviations)
    kept = np.maximum(values, least)
    return np.where(values > least, kept - least**2 / kept, 0.0)


def nothing_shows(law: MatrixLaw, trace: float) -> bool:
    """Return True if noise would hide even one direction that holds all of the trace.

    `law.detectable` is the threshold in the limit of large d. At the orders that are simulated
    there is something to be gained down to half of it (measured by `make bench NAME=accuracy`).
    """
    return trace < law.detectable * (GATE if simulates(law, trace) else 1.0)


def simulated_spectrum(
    values: Vector,
    vectors: Matrix,
    law: MatrixLaw,
    trace: float,
    generator: np.random.Generator,
    through: Callable[[Matrix], Matrix] | None = None,
) -> Vector:
    """Shrunk spectrum for ascending noisy eigenvalues, by simulation.

    Candidates for the true spectrum are the one that reproduces the noisy eigenvalues best, which
    sees directions in what is but noise; the flat one, without any; and at small orders steep power
    laws, since uncentred second moments have a dominant direction. Each is weighted by the
    likelihood of the noisy eigenvalues under it.
    """
    simulations = _Simulations(law, vectors, generator, through)
    ranks = np.arange(len(values), 0, -1.0)
    powers = FLAT + STEEP if len(values) < SMALL else FLAT
    candidates = [trace * ranks**-power / np.sum(ranks**-power) for power in powers]
    candidates.append(_fitted(values, trace, simulations))
    likelihoods, shrunk = zip(
        *(simulations.shrunk(candidate, values) for candidate in candidates), strict=True
    )
    weights = np.exp(np.array(likelihoods) - max(likelihoods))
    average = weights @ np.array(shrunk) / weights.sum()
    return onto_simplex(scipy.optimize.isotonic_regression(average).x, trace)


def _fitted(values: Vector, trace: float, simulations: _Simulations) -> Vector:
    """Spectrum whose noisy eigenvalues are on average `values`, as far as one exists."""
    spectrum = onto_simplex(values, trace)
    for _ in range(simulations.iterations):
        mean = np.linalg.eigvalsh(simulations.noisy(spectrum)).mean(axis=0)
        spectrum = scipy.optimize.isotonic_regression(spectrum + STEP * (values - mean)).x
        spectrum = onto_simplex(spectrum, trace)
    return spectrum


class _Simulations:
    """Draws of the noise law in the basis `vectors`, reused for every candidate spectrum."""

    def __init__(
        self,
        law: MatrixLaw,
        vectors: Matrix,
        generator: np.random.Generator,
        through: Callable[[Matrix], Matrix] | None = None,
    ) -> None:
        large = law.dimension >= SMALL
        self.iterations = ITERATIONS * 2 // 3 if large else ITERATIONS
        count = SIMULATIONS // 2 if large else SIMULATIONS
        noises = np.stack([law.simulate(generator) for _ in range(count)])
        self._noises = noises if through is None else through(noises)
        if through is not None or not law.rotation_invariant:
            self._noises = vectors.T @ self._noises @ vectors

    def noisy(self, spectrum: Vector) -> Matrix:
        """(count, d, d) noisy versions of the diagonal matrix with this spectrum."""
        matrices = self._noises.copy()
        diagonal = np.arange(len(spectrum))
        matrices[:, diagonal, diagonal] += spectrum
        return matrices

    def shrunk(self, spectrum: Vector, observed: Vector) -> tuple[float, Vector]:
        """Log-likelihood of the observed eigenvalues, and the shrunk spectrum."""
        values, vectors = np.linalg.eigh(self.noisy(spectrum))
        rounding = np.finfo(float).eps * float(spectrum.sum())  # all there is at a huge budget
        mean, variance = values.mean(axis=0), values.var(axis=0, ddof=1) + rounding**2
        likelihood = -0.5 * float(np.sum((observed - mean) ** 2 / variance + np.log(variance)))
        overlaps = np.einsum("bji,bji,j->i", vectors, vectors, spectrum) / len(vectors)
        return likelihood, scipy.optimize.isotonic_regression(overlaps).x


def beside(matrix: Matrix, law: MatrixLaw, trace: float, directions: Matrix | None) -> Matrix:
    """Shrunk in closed form, but for what single directions and columns vary by beyond that.

    Drowned eigenvalues are drawn to their mean, and with them directions and columns that vary by
    them alone, of which the noisy matrix tells each. So S is taken for a sum, as in principal
    factor analysis (Thomson 1934), and each part is estimated from what the others leave: a matrix
    that is shrunk, a few of the `directions` (by the nonnegative garrote with the threshold of
    Donoho and Johnstone 1994), and a diagonal matrix (by as much as all of it is more than noise,
    James and Stein 1961). The parts beside the first have trace 0. No eigenvalue is below the
    deviation of noise on the diagonal, or the least that the first has.
    """
    d, deviation = len(matrix), math.sqrt(law.diagonal_variance)
    turned = np.eye(d) if directions is None else directions
    along, single = np.zeros_like(matrix), np.zeros(d)
    for _ in range(ROUNDS):
        values, vectors = np.linalg.eigh(matrix - along - np.diag(single))
        spectrum = asymptotic_spectrum(values, law, trace)
        left = matrix - compose(vectors, spectrum)
        few = np.sum(turned * ((left - np.diag(single)) @ turned), axis=0)
        few -= few.mean()
        few = np.sign(few) * james_stein(np.abs(few), deviation, 2 * math.log(d))
        along = (turned * (few - few.mean())) @ turned.T
        single = np.diag(left - along) - np.trace(left) / d
        single *= 1 - deviation**2 / max(float(np.mean(single**2)), deviation**2)
    least = min(float(spectrum[0]), deviation)
    found = matrix - left + along + np.diag(single)
    return project(found - least * np.eye(d), trace - d * least) + least * np.eye(d)


def share_left(
    matrix: Matrix,
    law: MatrixLaw,
    estimated: Callable[[Matrix], Matrix],
    generator: np.random.Generator,
    through: Callable[[Matrix], Matrix] | None = None,
) -> float:
    """Squared error to expect of an estimate, over that of the noise: from 2 / d to 1.

    Stein's estimate (1981), ||Y - H||^2 - E ||Z||^2 + 2 div H, where the divergence is that along
    draws Z of the noise, <Z, H(Y + e Z) - H(Y)> / e in the mean (Ramani, Blu and Unser 2008). It is
    as much off as ||Z||^2, by about 2 / d.

    Parameters
    ----------
    matrix : (d, d) symmetric, Y.
    law : law of the noise, before it went `through` a linear map to be in `matrix`.
    estimated : H, the same for the same matrix.

    """
    found, size, along = estimated(matrix), 0.0, 0.0
    draws = max(1, LARGE // law.dimension)
    for _ in range(draws):
        noise = law.simulate(generator)
        noise = noise if through is None else through(noise)
        size += float(np.sum(noise**2)) / draws
        moved = estimated(matrix + NUDGE * noise) - found
        along += float(np.sum(noise * moved)) / NUDGE / draws
    error = float(np.sum((matrix - found) ** 2)) + 2 * along
    return float(np.clip(error / size - 1, 2 / law.dimension, 1.0))


def asymptotic_spectrum(values: Vector, law: MatrixLaw, trace: float) -> Vector:
    """Shrunk spectrum for ascending noisy eigenvalues, in closed form.

    Rotationally invariant estimator for additive free noise (Bun, Allez, Bouchaud and Potters
    2016): x = Im(w g) / Im(g), w = z - R(g), at z slightly above the real axis.
    """
    drowned = values <= np.median(values) + law.edge
    z = values + 1j * np.where(drowned, SMOOTH, RESOLUTION) * law.edge / np.sqrt(len(values))
    g = (1 / (z[:, None] - values[None, :])).mean(axis=1)
    w = z - law.r_transform(g)
    spectrum = (w * g).imag / g.imag
    return onto_simplex(scipy.optimize.isotonic_regression(spectrum).x, trace)
