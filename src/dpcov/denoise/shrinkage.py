"""Shrinkage of the eigenvalues of a noisy matrix, if the distribution of the noise is public.

Let l be the true eigenvalues, u the true eigenvectors, and v the noisy eigenvectors. The best
estimate that keeps the noisy eigenvectors has the eigenvalues x_i = sum_j (v_i . u_j)^2 l_j. Both
parts of this formula follow from the distribution of the noise. dpcov uses one of two methods:

- Simulation, for any order d.
- A closed form in the limit of large d.

The distribution of most noise does not change under rotations, so the true eigenvectors do not
matter. For all other noise, the noisy eigenvectors replace the true ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpcov.denoise.isotonic import isotonic
from dpcov.denoise.projection import compose, onto_simplex, project

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcov.core.arrays import Matrix, Vector
    from dpcov.core.samplers import MatrixLaw

# "Not recorded" below means: the experiment that chose the value was not recorded.

# --- Estimate by simulation ---

# Number of simulated noise matrices at small orders; half of it at larger orders.
# Source: not recorded.
SIMULATIONS = 32
# Number of steps that fit a candidate spectrum; two thirds of it at larger orders.
# Source: not recorded.
FIT_ITERATIONS = 12
# Fraction of the difference that one step of the fit corrects. Source: not recorded.
FIT_STEP_FRACTION = 0.7
# Powers of the candidate spectra: eigenvalue i is proportional to i^-power. The steep powers are
# used at small orders only. Source: not recorded.
FLAT_POWERS, STEEP_POWERS = (0.0,), (2.0, 8.0)

# --- Choice between both methods ---

# Below this order, the eigenvalues are always simulated. Source: not recorded.
MIN_CLOSED_FORM_ORDER = 100
# Above this order, the eigenvalues are never simulated. Source: not recorded.
MAX_SIMULATED_ORDER = 400
# Ratio of the trace to the smallest detectable eigenvalue. From this ratio on, the closed form is
# as accurate as simulation. Source: not recorded.
MIN_CLOSED_FORM_SNR = 30.0
# The same ratio for simulation. Below this ratio, simulation detects no direction either.
# Source: measured by `make bench NAME=accuracy`.
MIN_SIMULATION_SNR = 0.5

# --- Closed form ---

# Imaginary part of the argument, in units of edge / sqrt(d). The first value smooths eigenvalues
# that can be noise. The second value is for eigenvalues above the noise. Source: not recorded.
NOISE_SMOOTHING, SIGNAL_SMOOTHING = 2.0, 0.5
# Number of times that each part of the sum is estimated again. More rounds change nothing.
# Source: not recorded.
BACKFITTING_ROUNDS = 4

# --- Error estimate ---

# Size of the perturbation for a numerical derivative, as a fraction of the noise.
# Source: not recorded.
PERTURBATION_FRACTION = 0.02


def shrink(
    matrix: Matrix,
    law: MatrixLaw,
    trace: float,
    generator: np.random.Generator,
    through: Callable[[Matrix], Matrix] | None = None,
    directions: Matrix | None = None,
) -> Matrix:
    """Estimate a second moment S from S plus noise, by shrinkage of the eigenvalues.

    Parameters
    ----------
    matrix : ndarray, shape (d, d)
        S plus noise, symmetric.

    law : MatrixLaw
        Distribution of the noise, in the units of `matrix`.

    trace : float
        Estimate of the trace of S. The trace of the result is the positive part of this number.

    generator : numpy.random.Generator
        Source of simulated noise, independent of the noise in `matrix`.

    through : callable, optional
        Linear map of S plus noise, whose result is `matrix`. The map does not change S, except for
        the basis. With such a map, the noise is always simulated.

    directions : ndarray, shape (d, d), optional
        Orthonormal columns. Along a few of them, S can differ much from a matrix that the
        eigenvalues alone describe. The default is the coordinate axes.

    Returns
    -------
    ndarray, shape (d, d)
        Positive semidefinite estimate of S.

    """
    if through is None and not simulates(law, trace):
        return beside(matrix, law, trace, directions)
    values, vectors = np.linalg.eigh(matrix)
    spectrum = simulated_spectrum(values, vectors, law, trace, generator, through)
    return compose(vectors, spectrum)


def simulates(law: MatrixLaw, trace: float) -> bool:
    """Return True if `shrink` uses simulation.

    It does so at small orders, and at moderate orders unless the trace is far above the noise.
    """
    if law.dimension < MIN_CLOSED_FORM_ORDER:
        return True
    return law.dimension <= MAX_SIMULATED_ORDER and trace < MIN_CLOSED_FORM_SNR * law.detectable


def james_stein(
    values: Vector | float, deviations: Vector | float, strength: float = 2.0
) -> Vector:
    """Shrink numbers towards 0 as in the estimator of James and Stein.

    The result is the positive part of x - c s^2 / x. With a tiny budget, a trace is mostly noise,
    and a wrong trace is worse than none.

    Parameters
    ----------
    values : ndarray or float
        Noisy numbers x.

    deviations : ndarray or float
        Standard deviations s of the noise, above 0.

    strength : float, default 2
        Factor c.

    Returns
    -------
    ndarray
        Shrunk numbers, of the same shape.

    """
    least = np.sqrt(strength) * np.asarray(deviations)
    kept = np.maximum(values, least)
    return np.where(values > least, kept - least**2 / kept, 0.0)


def nothing_shows(law: MatrixLaw, trace: float) -> bool:
    """Return True if no direction can rise above the noise.

    The function compares the whole trace with `law.detectable`, the smallest detectable eigenvalue
    in the limit of large d. Simulation reduces the error down to half of this threshold.
    """
    return trace < law.detectable * (MIN_SIMULATION_SNR if simulates(law, trace) else 1.0)


def simulated_spectrum(
    values: Vector,
    vectors: Matrix,
    law: MatrixLaw,
    trace: float,
    generator: np.random.Generator,
    through: Callable[[Matrix], Matrix] | None = None,
) -> Vector:
    """Estimate the shrunk eigenvalues by simulation.

    The true spectrum is unknown, so the result is an average over candidates:

    - The spectrum that reproduces the noisy eigenvalues best. It interprets some noise as
      directions.
    - The flat spectrum, which has no directions.
    - At small orders, two steep power laws, because a second moment that is not centered has a
      dominant direction.

    The weight of a candidate is the likelihood of the noisy eigenvalues under this candidate.

    Parameters
    ----------
    values : ndarray, shape (d,)
        Noisy eigenvalues in ascending order.

    vectors : ndarray, shape (d, d)
        Noisy eigenvectors, one in each column.

    law : MatrixLaw
        Distribution of the noise.

    trace : float
        Estimate of the trace.

    generator : numpy.random.Generator
        Source of simulated noise.

    through : callable, optional
        Linear map that the noise went through, as in `shrink`.

    Returns
    -------
    ndarray, shape (d,)
        Shrunk eigenvalues in ascending order.

    """
    simulations = _Simulations(law, vectors, generator, through)
    ranks = np.arange(len(values), 0, -1.0)
    powers = FLAT_POWERS + STEEP_POWERS if len(values) < MIN_CLOSED_FORM_ORDER else FLAT_POWERS
    candidates = [trace * ranks**-power / np.sum(ranks**-power) for power in powers]
    candidates.append(_fitted(values, trace, simulations))
    likelihoods, shrunk = zip(
        *(simulations.shrunk(candidate, values) for candidate in candidates), strict=True
    )
    weights = np.exp(np.array(likelihoods) - max(likelihoods))
    average = weights @ np.array(shrunk) / weights.sum()
    return onto_simplex(isotonic(average), trace)


def _fitted(values: Vector, trace: float, simulations: _Simulations) -> Vector:
    """Fit a spectrum whose mean noisy eigenvalues equal the given ones, if possible."""
    spectrum = onto_simplex(values, trace)
    for _ in range(simulations.iterations):
        mean = np.linalg.eigvalsh(simulations.noisy(spectrum)).mean(axis=0)
        spectrum = isotonic(spectrum + FIT_STEP_FRACTION * (values - mean))
        spectrum = onto_simplex(spectrum, trace)
    return spectrum


class _Simulations:
    """Simulated noise matrices in the basis `vectors`. All candidate spectra use the same ones."""

    def __init__(
        self,
        law: MatrixLaw,
        vectors: Matrix,
        generator: np.random.Generator,
        through: Callable[[Matrix], Matrix] | None = None,
    ) -> None:
        large = law.dimension >= MIN_CLOSED_FORM_ORDER
        self.iterations = FIT_ITERATIONS * 2 // 3 if large else FIT_ITERATIONS
        count = SIMULATIONS // 2 if large else SIMULATIONS
        noises = np.stack([law.simulate(generator) for _ in range(count)])
        self._noises = noises if through is None else through(noises)
        if through is not None or not law.rotation_invariant:
            self._noises = vectors.T @ self._noises @ vectors

    def noisy(self, spectrum: Vector) -> Matrix:
        """Return noisy versions of the diagonal matrix with this spectrum.

        Parameters
        ----------
        spectrum : ndarray, shape (d,)
            Diagonal entries.

        Returns
        -------
        ndarray, shape (count, d, d)
            One matrix for each simulated noise matrix.

        """
        matrices = self._noises.copy()
        diagonal = np.arange(len(spectrum))
        matrices[:, diagonal, diagonal] += spectrum
        return matrices

    def shrunk(self, spectrum: Vector, observed: Vector) -> tuple[float, Vector]:
        """Compute the likelihood of the noisy eigenvalues, and the shrunk eigenvalues.

        Parameters
        ----------
        spectrum : ndarray, shape (d,)
            Candidate for the true eigenvalues.

        observed : ndarray, shape (d,)
            Noisy eigenvalues in ascending order.

        Returns
        -------
        likelihood : float
            Logarithm of the likelihood of the noisy eigenvalues under the candidate.

        shrunk : ndarray, shape (d,)
            Shrunk eigenvalues if the candidate is true.

        """
        values, vectors = np.linalg.eigh(self.noisy(spectrum))
        rounding = np.finfo(float).eps * float(spectrum.sum())  # the only error at a huge budget
        mean, variance = values.mean(axis=0), values.var(axis=0, ddof=1) + rounding**2
        likelihood = -0.5 * float(np.sum((observed - mean) ** 2 / variance + np.log(variance)))
        overlaps = np.einsum("bji,bji,j->i", vectors, vectors, spectrum) / len(vectors)
        return likelihood, isotonic(overlaps)


def beside(matrix: Matrix, law: MatrixLaw, trace: float, directions: Matrix | None) -> Matrix:
    """Estimate a second moment in closed form, with extra variance of directions and columns.

    Shrinkage moves all eigenvalues below the noise level to their mean. It then loses the extra
    variance of single columns and of single directions, although the noisy matrix estimates each
    of them well. So the estimate is a sum of three parts, as in principal factor analysis (Thomson
    1934). Each part is estimated from the noisy matrix without the other two parts:

    - A matrix with shrunk eigenvalues, which has all of the trace.
    - The extra variance along a few of the `directions`, by the nonnegative garrote with the
      threshold of Donoho and Johnstone (1994).
    - The extra variance of single columns. It is shrunk by one common factor (James and Stein
      1961).

    No eigenvalue of the result is smaller than the smallest shrunk eigenvalue, or than the standard
    deviation of the noise on the diagonal, whichever is smaller.

    Parameters
    ----------
    matrix : ndarray, shape (d, d)
        Second moment plus noise, symmetric.

    law : MatrixLaw
        Distribution of the noise.

    trace : float
        Estimate of the trace.

    directions : ndarray, shape (d, d), or None
        Orthonormal columns. None stands for the coordinate axes.

    Returns
    -------
    ndarray, shape (d, d)
        Positive semidefinite estimate.

    """
    d, deviation = len(matrix), math.sqrt(law.diagonal_variance)
    turned = np.eye(d) if directions is None else directions
    along, single = np.zeros_like(matrix), np.zeros(d)
    for _ in range(BACKFITTING_ROUNDS):
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
    """Estimate the squared error of an estimate, as a fraction of the squared noise.

    The function uses Stein's unbiased risk estimate (1981),
    ||Y - H||^2 - E ||Z||^2 + 2 div H. For draws Z of the noise, the divergence is the mean of
    <Z, H(Y + e Z) - H(Y)> / e (Ramani, Blu and Unser 2008). The relative error of the result is
    about as large as the relative error of ||Z||^2, which is about 2 / d.

    Parameters
    ----------
    matrix : ndarray, shape (d, d)
        Noisy matrix Y, symmetric.

    law : MatrixLaw
        Distribution of the noise, before the map `through`.

    estimated : callable
        Estimate H, as a function of the noisy matrix. Equal matrices have equal estimates.

    generator : numpy.random.Generator
        Source of the draws Z.

    through : callable, optional
        Linear map of the noise, whose result is in `matrix`.

    Returns
    -------
    float
        Fraction from 2 / d to 1.

    """
    found, size, along = estimated(matrix), 0.0, 0.0
    draws = max(1, MAX_SIMULATED_ORDER // law.dimension)
    for _ in range(draws):
        noise = law.simulate(generator)
        noise = noise if through is None else through(noise)
        size += float(np.sum(noise**2)) / draws
        moved = estimated(matrix + PERTURBATION_FRACTION * noise) - found
        along += float(np.sum(noise * moved)) / PERTURBATION_FRACTION / draws
    error = float(np.sum((matrix - found) ** 2)) + 2 * along
    return float(np.clip(error / size - 1, 2 / law.dimension, 1.0))


def asymptotic_spectrum(values: Vector, law: MatrixLaw, trace: float) -> Vector:
    """Compute the shrunk eigenvalues in closed form.

    This is the rotationally invariant estimator for additive free noise (Bun, Allez, Bouchaud and
    Potters 2016). The shrunk eigenvalues are x = Im(w g) / Im(g) with w = z - R(g), at a number z
    slightly above the real axis.

    Parameters
    ----------
    values : ndarray, shape (d,)
        Noisy eigenvalues in ascending order.

    law : MatrixLaw
        Distribution of the noise.

    trace : float
        Estimate of the trace.

    Returns
    -------
    ndarray, shape (d,)
        Shrunk eigenvalues in ascending order.

    """
    can_be_noise = values <= np.median(values) + law.edge
    z = values + 1j * np.where(
        can_be_noise, NOISE_SMOOTHING, SIGNAL_SMOOTHING
    ) * law.edge / np.sqrt(len(values))
    g = (1 / (z[:, None] - values[None, :])).mean(axis=1)
    w = z - law.r_transform(g)
    spectrum = (w * g).imag / g.imag
    return onto_simplex(isotonic(spectrum), trace)
