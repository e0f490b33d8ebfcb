"""Denoising of a release: estimation of the second moment from the noisy matrix.

The estimates use the public distribution of the noise. They cost no privacy, because they use the
published numbers only.

These alternatives did not reduce the errors on the tables of the part `tune` (benchmarks/
tables.toml), or they increased the errors of other tables:

- Frechet bounds on the number of rows that have two given categories.
- Shrinkage of single counts of two categories towards 0.
- Weights of the entries by the variances of their columns, before the spectrum is shrunk.
- Likelihoods that use the covariances of noisy eigenvalues, and not only their variances.
- The second moment of the pilot directions as the target of shrinkage.
- A second moment of its own for each range of row norms, in place of clipping.
- A distant group of rows as a candidate tail: the intervals of every table become wider.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from dpcov.core.entropy import simulation_generator
from dpcov.denoise.projection import project
from dpcov.denoise.shrinkage import (
    MIN_CLOSED_FORM_ORDER,
    james_stein,
    nothing_shows,
    share_left,
    shrink,
    simulates,
)
from dpcov.denoise.structure import Structure
from dpcov.errors import ReleaseError
from dpcov.published import record
from dpcov.published.clipping import ClippingBias
from dpcov.published.kinds import NoisyCount, NoisyMatrix, NoisyTrace, content

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.core.samplers import MatrixLaw
    from dpcov.published.record import Record

R = TypeVar("R", bound="Record")
Method = Literal["none", "project", "shrink"]
# Largest squared difference between two estimates of this version from the same release, as a
# fraction of the squared noise. Source: not recorded.
MAX_SIMULATION_DIFFERENCE = 0.01  # if the estimate uses simulations
MAX_ROUNDING_DIFFERENCE = 1e-9  # if it does not
SECOND_MOMENT = "denoised second moment"  # name in `Record.memory`
METHODS: tuple[Method, ...] = ("none", "project", "shrink")


def denoise(
    release: R, method: Method = "shrink", *, generator: np.random.Generator | None = None
) -> R:
    """Denoise the matrix of a release again, from the published integers.

    Parameters
    ----------
    release : Release
        Any release.

    method : {"shrink", "project", "none"}, default "shrink"
        Denoising method:

        - ``shrink`` estimates the eigenvalues from the distribution of the noise, and then applies
          the rules of the schema's levels. If the mechanism has no noise distribution, or if it
          released no trace, dpcov uses ``project``.
        - ``project`` returns the nearest positive semidefinite matrix with the released trace.
        - ``none`` returns the noisy matrix.

    generator : numpy.random.Generator, optional
        Source of randomness for the simulations of ``shrink``. By default, the seed depends on the
        release only.

    Returns
    -------
    Release
        Copy of the release with another denoised matrix.

    Raises
    ------
    ReleaseError
        The method does not exist.

    """
    if method not in METHODS:
        raise ReleaseError(
            f"The denoising method {method!r} does not exist. Choose: {', '.join(METHODS)}."
        )
    if generator is not None:
        return release.with_denoised(*_estimate(release, method, generator))
    made, matrix = _estimate(release, method, simulation_generator(seed_of(release)))
    found = release.with_denoised(made, None)
    if matrix is not None:
        found.memory[SECOND_MOMENT] = matrix
    return found


def second_moment(release: Record) -> Matrix:
    """Return the denoised second moment of the encoded rows, computed once for each release.

    Parameters
    ----------
    release : Record
        Release with a matrix.

    Returns
    -------
    ndarray, shape (d, d)
        Second moment in squared units of an encoded row.

    Raises
    ------
    NotReleasedError
        The release contains no matrix.

    """
    record.refuse(release.reasons.matrix)
    return release.noisy() if (found := _remembered(release)) is None else found


def _remembered(release: Record) -> Matrix | None:
    """Return the denoised matrix, or None if the release is not denoised."""
    denoises = release.denoise in METHODS[1:] or release.matrix is None
    if release.denoised is not None or not denoises:
        return release.denoised
    if SECOND_MOMENT not in release.memory:
        draws = simulation_generator(seed_of(release))
        release.memory[SECOND_MOMENT] = _estimate(release, release.denoise, draws)[1]
    found: Matrix = release.memory[SECOND_MOMENT]
    return found


def seed_of(release: Record) -> int:
    """Return the seed of the simulations: a hash of the published rounds and of the schema.

    No other field of a release file changes the estimate.
    """
    digest = hashlib.sha256(release.schema.model_dump_json().encode())
    for one in release.rounds:
        digest.update(repr((one.query, content(one.published))).encode())
    return int.from_bytes(digest.digest()[:16], "big")


def _estimate(
    release: Record, method: str, generator: np.random.Generator
) -> tuple[str, Matrix | None]:
    """Estimate the second moment of the encoded rows.

    Parameters
    ----------
    release : Record
        Any release.

    method : str
        Requested denoising method.

    generator : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    method : str
        Method that was used.

    matrix : ndarray, shape (d, d), or None
        Denoised matrix; None for the method ``none``.

    """
    released = noisy_trace(release)
    if release.published is None and released is None:  # sums are not denoised
        return method, None
    trace = None if released is None else float(james_stein(*released))
    scale = release.lattice.bound * release.lattice.step**2
    if release.published is None:
        made, matrix = method, _isotropic(release, trace or 0.0, None)
    elif method == "none":
        return method, None
    elif method == "project" or release.noise is None or released is None:
        noisy = release.noisy_mapped() / scale
        made, matrix = "project", project(noisy, trace, _largest_trace(release))
    else:
        noisy, law, trace = _observed(release, release.noise)
        made, (matrix, _) = "shrink", _shrunken(release, noisy, law, trace, generator)
    whole = matrix * scale
    bias = ClippingBias(release, whole, is_clipped=True).expected()
    whole += bias
    if made == "shrink" and (structure := Structure.of(release)) is not None:
        whole = structure.fit(whole, float(np.trace(whole)))
    elif bias.any():  # the row count loses nothing, so lost sums can make a matrix indefinite
        whole = project(whole, float(np.trace(whole)))
    return made, release.unmapped(whole)


def best_estimate(release: Record) -> Matrix:
    """Return the denoised second moment, also if the release contains the trace only.

    In this case, the result is a multiple of the identity. This function is for studies of errors:
    `Release.second_moment` raises an error in this case.

    Parameters
    ----------
    release : Record
        Any release.

    Returns
    -------
    ndarray, shape (d, d)
        Second moment in squared units of an encoded row.

    """
    found = _remembered(release)
    return release.noisy() if found is None else found


def shown(release: Record, generator: np.random.Generator) -> tuple[Matrix, MatrixLaw] | None:
    """Estimate the true second moment of the transformed rows, with the noise distribution.

    Parameters
    ----------
    release : Record
        Release with a matrix.

    generator : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    tuple or None
        Estimate, shape (d, d), and distribution of the noise, both in squared units of a row. None
        if no direction rises above the noise, or if the noise has no known distribution.

    """
    if release.noise is None:
        return None
    scale = release.lattice.bound * release.lattice.step**2
    noisy, law, trace = _observed(release, release.noise)
    shrunk, shows = _shrunken(release, noisy, law, trace, generator)
    return (shrunk * scale, law.rescaled(scale)) if shows else None


def left_of_noise(release: Record, generator: np.random.Generator) -> float:
    """Estimate the squared error of the denoised matrix, as a fraction of the squared noise.

    Parameters
    ----------
    release : Record
        Any release.

    generator : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    float
        Fraction of at most 1. It is 1 if it is not known: at small orders, where Stein's estimate
        is too rough, or if another version or another method made the denoised matrix.

    """
    if release.noise is None or release.denoise != "shrink" or release.published is None:
        return 1.0
    noisy, law, trace = _observed(release, release.noise)
    structure, seed = _equations(release, law, trace), int(generator.integers(2**32))
    same = (
        MAX_SIMULATION_DIFFERENCE
        if structure is not None or simulates(law, trace)
        else MAX_ROUNDING_DIFFERENCE
    )
    if (
        law.dimension < MIN_CLOSED_FORM_ORDER
        or nothing_shows(law, trace)
        or _off(release, release.noise) > same
    ):
        return 1.0
    through = None if structure is None else structure.nearest

    def estimated(matrix: Matrix) -> Matrix:
        return _shrunken(release, matrix, law, trace, np.random.default_rng(seed))[0]

    observed = noisy if through is None else through(noisy)
    return share_left(observed, law, estimated, generator, through)


def _off(release: Record, noise: MatrixLaw) -> float:
    """Compare the denoised matrix of a release with the estimate of this version.

    Parameters
    ----------
    release : Record
        Release with a matrix.

    noise : MatrixLaw
        Distribution of its noise.

    Returns
    -------
    float
        Squared Frobenius norm of the difference, as a fraction of the expected squared noise.

    """
    again = second_moment(denoise(release, generator=np.random.default_rng(0)))
    off = release.mapped(again - second_moment(release)) / release.lattice.step**2
    return float(np.sum(off**2)) / noise.frobenius_squared


def _observed(release: Record, noise: MatrixLaw) -> tuple[Matrix, MatrixLaw, float]:
    """Return the noisy moment, its noise and its trace in units of the largest squared norm.

    Parameters
    ----------
    release : Record
        Release with a matrix.

    noise : MatrixLaw
        Distribution of its noise, in squared lattice steps.

    Returns
    -------
    noisy : ndarray, shape (d, d)
        Noisy second moment of the transformed rows.

    law : MatrixLaw
        Distribution of the noise.

    trace : float
        Best estimate of the trace, at least 0.

    """
    law = noise.rescaled(1 / release.lattice.bound)
    noisy = release.noisy_mapped() / (release.lattice.bound * release.lattice.step**2)
    return noisy, law, float(james_stein(*_best_trace(release, noisy, law)))


def _directions(release: Record) -> Matrix | None:
    """Return the directions of the directions query, among the transformed rows.

    The last direction is the intercept. The map that follows the directions query is symmetric, so
    its eigenvectors are these directions.

    Parameters
    ----------
    release : Record
        Any release.

    Returns
    -------
    ndarray, shape (d, d), or None
        Orthonormal columns; None without a directions query.

    """
    query = release.find(NoisyMatrix, "directions") or release.find(NoisyTrace, "directions trace")
    if query is None or release.linear_map is None:
        return None
    p = release.lattice.features
    before = None if query.transform is None else query.transform.matrix
    after = release.linear_map if before is None else release.linear_map @ np.linalg.inv(before)
    turned = np.eye(release.lattice.dimension)
    turned[:p, :p] = np.linalg.eigh(after + after.T)[1]
    return turned


def _best_trace(release: Record, noisy: Matrix, law: MatrixLaw) -> tuple[float, float]:
    """Average the released trace and the trace of the noisy matrix by inverse variances.

    The trace of the matrix has the smaller variance if there are few columns.

    Parameters
    ----------
    release : Record
        Release with a matrix.

    noisy : ndarray, shape (d, d)
        Noisy second moment, in units of the largest squared norm.

    law : MatrixLaw
        Distribution of its noise.

    Returns
    -------
    trace : float
        Average, at most the largest possible trace.

    standard_deviation : float
        Standard deviation of the noise in the average.

    """
    estimates = [(float(np.trace(noisy)), law.dimension * law.diagonal_variance)]
    if (released := noisy_trace(release)) is not None:
        estimates.append((released[0], released[1] ** 2))
    traces, variances = np.array(estimates).T
    variance = 1 / float(np.sum(1 / variances))
    trace = float(np.sum(traces / variances)) * variance
    return min(trace, _largest_trace(release)), math.sqrt(variance)


def _shrunken(
    release: Record,
    noisy: Matrix,
    law: MatrixLaw,
    trace: float,
    generator: np.random.Generator,
) -> tuple[Matrix, bool]:
    """Denoise the matrix, before `Structure.fit` applies all rules of the schema's levels.

    If the noise is simulated, the equations of the levels are applied first.

    Parameters
    ----------
    release : Record
        Release with a matrix.

    noisy : ndarray, shape (d, d)
        Noisy second moment.

    law : MatrixLaw
        Distribution of its noise.

    trace : float
        Estimate of the trace.

    generator : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    matrix : ndarray, shape (d, d)
        Denoised second moment.

    is_detectable : bool
        True if a direction can rise above the noise.

    """
    if nothing_shows(law, trace):
        return _isotropic(release, trace, noisy), False
    structure = _equations(release, law, trace)
    if structure is None:
        return shrink(noisy, law, trace, generator, directions=_directions(release)), True
    return structure.shrunk(noisy, law, trace, generator), True


def _equations(release: Record, law: MatrixLaw, trace: float) -> Structure | None:
    """Return the equations of the schema's levels, if they apply before shrinkage."""
    structure = Structure.of(release)
    return structure if structure is not None and structure.simulates(law, trace) else None


def noisy_trace(release: Record) -> tuple[float, float] | None:
    """Return the released trace, and the standard deviation of its noise.

    Parameters
    ----------
    release : Record
        Any release.

    Returns
    -------
    tuple of float, or None
        Trace of at most the largest possible trace, and standard deviation. Both are in units of
        the largest squared norm. None if the mechanism released no trace.

    """
    noisy = release.find(NoisyTrace)
    if noisy is None:
        return None
    trace = min(noisy.value / release.lattice.bound, _largest_trace(release))
    return trace, noisy.noise.standard_deviation / release.lattice.bound


def _largest_trace(release: Record) -> float:
    """Return the largest possible trace, which is finite if the number of units is public."""
    if release.unit_count is None:
        return np.inf
    return float(release.unit_count * release.guarantee.unit.max_rows)


def _isotropic(release: Record, trace: float, noisy: Matrix | None) -> Matrix:
    """Return a multiple of the identity, if nothing rises above the noise.

    Parameters
    ----------
    release : Record
        Any release.

    trace : float
        Estimate of the trace.

    noisy : ndarray, shape (d, d), or None
        Noisy second moment. Its row-count entry is used if no number of rows is published.

    Returns
    -------
    ndarray, shape (d, d)
        Diagonal matrix. The row-count entry differs from the other entries.

    """
    d, p = release.lattice.dimension, release.lattice.features
    corner = 0.0
    if d > p:
        share = release.lattice.intercept_units**2 / release.lattice.bound
        if release.row_count is not None:
            corner = release.row_count * share
        elif release.find(NoisyCount) is not None:
            corner = float(np.clip(release.count() * share, 0.0, trace))
        elif noisy is not None:
            corner = float(np.clip(noisy[-1, -1], 0.0, trace))
    diagonal = np.full(d, max(0.0, trace - corner) / p)
    diagonal[p:] = corner
    return np.diag(diagonal)
