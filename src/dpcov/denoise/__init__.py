"""Denoising: post-processing of a release by its public noise law, at no privacy cost.

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

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpcov.core.entropy import simulation_generator
from dpcov.denoise.clipped import Clip
from dpcov.denoise.projection import project
from dpcov.denoise.shrinkage import SMALL, james_stein, nothing_shows, share_left, shrink, simulates
from dpcov.denoise.structure import Structure
from dpcov.errors import ReleaseError

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.core.samplers import MatrixLaw
    from dpcov.releases import Release

Method = Literal["none", "project", "shrink"]
# Of the noise's squares, by which an estimate of this version may be off itself.
SIMULATED, ROUNDED = 0.01, 1e-9
METHODS: tuple[Method, ...] = ("none", "project", "shrink")


def denoise(
    release: Release, method: Method = "shrink", *, generator: np.random.Generator | None = None
) -> Release:
    """Denoise the matrix of a release again, from the published integers.

    Parameters
    ----------
    release : any release.
    method : ``none`` (the noisy matrix as it is), ``project`` (nearest positive semidefinite
        matrix with the released trace) or ``shrink`` (spectrum estimated from the noise law,
        then what the schema's levels imply; projects where the mechanism has no law, or released no
        trace).
    generator : for the simulations of ``shrink``; default, one independent of everything.

    """
    if method not in METHODS:
        raise ReleaseError(f"There is no denoising {method!r}. Choose: {', '.join(METHODS)}.")
    told = noisy_trace(release)
    trace = None if told is None else float(james_stein(*told))
    scale = release.lattice.bound * release.lattice.step**2
    if release.published is None:
        made, matrix = method, _isotropic(release, trace or 0.0, None)
    elif method == "none":
        return release.with_denoised(method, None)
    elif method == "project" or release.noise is None or told is None:
        noisy = release.noisy_mapped() / scale
        made, matrix = "project", project(noisy, trace, _largest_trace(release))
    else:
        chosen = simulation_generator() if generator is None else generator
        noisy, law, trace = _observed(release, release.noise)
        made, (matrix, _) = "shrink", _shrunken(release, noisy, law, trace, chosen)
    whole = matrix * scale
    whole += Clip(release, whole).expected()
    if made == "shrink" and (structure := Structure.of(release)) is not None:
        whole = structure.fit(whole, float(np.trace(whole)))
    return release.with_denoised(made, release.unmapped(whole))


def best_estimate(release: Release) -> Matrix:
    """(d, d) denoised second moment; if the trace only was released, the scaled identity of it.

    For studies of errors: `Release.second_moment` refuses what was not released.
    """
    return release.second_moment() if release.denoised is None else release.denoised


def shown(release: Release, generator: np.random.Generator) -> tuple[Matrix, MatrixLaw] | None:
    """Estimate the true second moment from the noisy one, with the distribution of the noise.

    In squared units of an encoded row, of mapped rows where there is a map; None where nothing
    shows.
    """
    if release.noise is None:
        return None
    scale = release.lattice.bound * release.lattice.step**2
    noisy, law, trace = _observed(release, release.noise)
    shrunk, shows = _shrunken(release, noisy, law, trace, generator)
    return (shrunk * scale, law.rescaled(scale)) if shows else None


def left_of_noise(release: Release, generator: np.random.Generator) -> float:
    """Squared error to expect of the estimate, over that of the noise; 1 where it is not known.

    That is at small orders, where Stein's estimate is too rough, and where another version made the
    estimate, or another method.
    """
    if release.noise is None or release.denoise != "shrink" or release.published is None:
        return 1.0
    noisy, law, trace = _observed(release, release.noise)
    structure, seed = _equations(release, law, trace), int(generator.integers(2**32))
    same = SIMULATED if structure is not None or simulates(law, trace) else ROUNDED
    if law.dimension < SMALL or nothing_shows(law, trace) or _off(release, release.noise) > same:
        return 1.0
    through = None if structure is None else structure.nearest

    def estimated(matrix: Matrix) -> Matrix:
        return _shrunken(release, matrix, law, trace, np.random.default_rng(seed))[0]

    observed = noisy if through is None else through(noisy)
    return share_left(observed, law, estimated, generator, through)


def _off(release: Release, noise: MatrixLaw) -> float:
    """Squares by which this version's estimate is off the release's, over those of the noise."""
    again = denoise(release, generator=np.random.default_rng(0)).second_moment()
    off = release.mapped(again - release.second_moment()) / release.lattice.step**2
    return float(np.sum(off**2)) / noise.frobenius_squared


def _observed(release: Release, noise: MatrixLaw) -> tuple[Matrix, MatrixLaw, float]:
    """Return the noisy moment, its noise distribution and its trace, for a largest norm of 1."""
    law = noise.rescaled(1 / release.lattice.bound)
    noisy = release.noisy_mapped() / (release.lattice.bound * release.lattice.step**2)
    return noisy, law, float(james_stein(*_best_trace(release, noisy, law)))


def _directions(release: Release) -> Matrix | None:
    """(d, d) orthonormal directions in units of which rows were mapped; None without a look.

    The last is that of the intercept. What was applied after the map of that look is symmetric.
    """
    if release.directions is None or release.linear_map is None:
        return None
    p, before = release.lattice.features, release.directions.linear_map
    after = release.linear_map if before is None else release.linear_map @ np.linalg.inv(before)
    turned = np.eye(release.lattice.dimension)
    turned[:p, :p] = np.linalg.eigh(after + after.T)[1]
    return turned


def _best_trace(release: Release, noisy: Matrix, law: MatrixLaw) -> tuple[float, float]:
    """Average the released trace and the trace of the noisy matrix by inverse variances.

    And the standard deviation of its noise. Of few columns the diagonal tells it better.
    """
    told = [(float(np.trace(noisy)), law.dimension * law.diagonal_variance)]
    if (apart := noisy_trace(release)) is not None:
        told.append((apart[0], apart[1] ** 2))
    traces, variances = np.array(told).T
    variance = 1 / float(np.sum(1 / variances))
    trace = float(np.sum(traces / variances)) * variance
    return min(trace, _largest_trace(release)), math.sqrt(variance)


def _shrunken(
    release: Release,
    noisy: Matrix,
    law: MatrixLaw,
    trace: float,
    generator: np.random.Generator,
) -> tuple[Matrix, bool]:
    """Denoise the matrix before `Structure` uses the levels; True if anything is detectable.

    Where noise is simulated, what the equations of the schema's levels leave is shrunk.
    """
    if nothing_shows(law, trace):
        return _isotropic(release, trace, noisy), False
    structure = _equations(release, law, trace)
    if structure is None:
        return shrink(noisy, law, trace, generator, directions=_directions(release)), True
    return structure.shrunk(noisy, law, trace, generator), True


def _equations(release: Release, law: MatrixLaw, trace: float) -> Structure | None:
    """Return the equations of the schema's levels, if they apply before shrinkage."""
    structure = Structure.of(release)
    return structure if structure is not None and structure.simulates(law, trace) else None


def noisy_trace(release: Release) -> tuple[float, float] | None:
    """Return the trace within its public limits, and the standard deviation of its noise.

    In units of the largest squared norm; None if no trace was released.
    """
    if release.published_trace is None or release.trace_noise is None:
        return None
    trace = min(release.published_trace / release.lattice.bound, _largest_trace(release))
    return trace, release.trace_noise.standard_deviation / release.lattice.bound


def _largest_trace(release: Release) -> float:
    """Return the largest possible trace, which is finite if the number of units is public."""
    if release.unit_count is None:
        return np.inf
    return float(release.unit_count * release.guarantee.unit.max_rows)


def _isotropic(release: Release, trace: float, noisy: Matrix | None) -> Matrix:
    """Scaled identity: the honest answer where nothing rises above the noise."""
    d, p = release.lattice.dimension, release.lattice.features
    corner = 0.0
    if d > p:
        share = release.lattice.intercept_units**2 / release.lattice.bound
        if release.row_count is not None:
            corner = release.row_count * share
        elif release.count_noise is not None:
            corner = float(np.clip(release.count() * share, 0.0, trace))
        elif noisy is not None:
            corner = float(np.clip(noisy[-1, -1], 0.0, trace))
    diagonal = np.full(d, max(0.0, trace - corner) / p)
    diagonal[p:] = corner
    return np.diag(diagonal)
