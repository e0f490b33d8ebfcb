"""Denoising: post-processing of a release by its public noise law, at no privacy cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from dpcov.denoise.projection import project
from dpcov.denoise.shrinkage import nothing_shows, shrink
from dpcov.denoise.structure import Structure
from dpcov.entropy import simulation_generator
from dpcov.errors import ReleaseError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.releases import Release

Method = Literal["none", "project", "shrink"]
METHODS: tuple[Method, ...] = ("none", "project", "shrink")


def denoise(
    release: Release, method: Method = "shrink", *, generator: np.random.Generator | None = None
) -> Release:
    """The release with its matrix denoised again from the published integers.

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
    trace = _trace(release)
    if release.published is None:
        made, matrix = method, _isotropic(release, trace or 0.0, None)
    elif method == "none":
        return release.with_denoised(method, None)
    else:
        made, matrix = _denoised(release, method, trace, generator)
    scale = release.lattice.bound * release.lattice.step**2
    return release.with_denoised(made, release.unmapped(matrix * scale))


def _denoised(
    release: Release, method: Method, trace: float | None, generator: np.random.Generator | None
) -> tuple[Method, NDArray[np.float64]]:
    """How it was denoised, and the result; the squared norm of the largest row is 1 here."""
    bound = release.lattice.bound
    noisy = release.noisy_mapped() / (bound * release.lattice.step**2)
    if method == "project" or release.noise is None or trace is None:
        return "project", project(noisy, trace, _largest_trace(release))
    law = release.noise.rescaled(1 / bound)
    if nothing_shows(law, trace):
        return method, _isotropic(release, trace, noisy)
    chosen = simulation_generator() if generator is None else generator
    shrunk, structure = shrink(noisy, law, trace, chosen), Structure.of(release)
    return method, shrunk if structure is None else structure.fit(shrunk, trace)


def _trace(release: Release) -> float | None:
    """Estimate of the trace, in units of the largest squared norm; None if none was released.

    Kept within its public limits, then shrunk to (t - 2 s^2/t)+, s the noise's standard deviation,
    in the manner of James and Stein: at tiny budgets the trace is mostly noise, and a wrong trace
    is worse than none.
    """
    if release.published_trace is None or release.trace_noise is None:
        return None
    trace = min(release.published_trace / release.lattice.bound, _largest_trace(release))
    variance = (release.trace_noise.standard_deviation / release.lattice.bound) ** 2
    return max(0.0, trace - 2 * variance / trace) if trace > 0 else 0.0


def _largest_trace(release: Release) -> float:
    """What the trace can't exceed, in the same units: known where the number of units is public."""
    if release.unit_count is None:
        return np.inf
    return float(release.unit_count * release.guarantee.unit.max_rows)


def _isotropic(
    release: Release, trace: float, noisy: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Scaled identity: the honest answer where nothing rises above the noise."""
    d, p = release.lattice.dimension, release.lattice.features
    corner = 0.0
    if d > p:
        share = release.lattice.intercept_units**2 / release.lattice.bound
        if release.row_count is not None:
            corner = release.row_count * share
        elif noisy is not None:
            corner = float(np.clip(noisy[-1, -1], 0.0, trace))
    diagonal = np.full(d, max(0.0, trace - corner) / p)
    diagonal[p:] = corner
    return np.diag(diagonal)
