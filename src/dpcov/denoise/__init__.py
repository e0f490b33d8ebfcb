"""Denoising: post-processing of a release by its public noise law, at no privacy cost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpcov.core.entropy import simulation_generator
from dpcov.core.samplers.weighted import WeightedSum
from dpcov.denoise import clipped
from dpcov.denoise.leading import given_back
from dpcov.denoise.projection import project
from dpcov.denoise.rungs import Combined, combiner, parts_of
from dpcov.denoise.shrinkage import james_stein, nothing_shows, shrink
from dpcov.denoise.structure import Structure
from dpcov.errors import ReleaseError

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.core.samplers import MatrixLaw
    from dpcov.releases import Release

Method = Literal["none", "project", "shrink"]
METHODS: tuple[Method, ...] = ("none", "project", "shrink")
ROUNDS = 3  # in which moments by length of rows are put together
LEAST_LEFT = 0.02  # of the squared noise, after shrinking
MARGINAL = 0.5  # share of more noise that shrinking leaves, over the share of all


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
    told = noisy_trace(release)
    trace = None if told is None else float(james_stein(*told))
    scale = release.lattice.bound * release.lattice.step**2
    structure = Structure.of(release) if method == "shrink" else None
    if release.published is None:
        made, matrix = method, _isotropic(release, trace or 0.0, None)
    elif method == "none":
        return release.with_denoised(method, None)
    elif method == "project" or release.noise is None or told is None:
        noisy = release.noisy_mapped() / scale
        made, matrix = "project", project(noisy, trace, _largest_trace(release))
    else:
        chosen = simulation_generator() if generator is None else generator
        law = release.noise.rescaled(1 / release.lattice.bound)
        noisy = release.noisy_mapped() / scale
        made, matrix = "shrink", _shrunken(release, structure, noisy, law, told, chosen)
    whole = matrix * scale
    whole += clipped.expected(release, whole)
    if made == "shrink" and structure is not None:
        whole = structure.fit(whole, float(np.trace(whole)))
    return release.with_denoised(made, release.unmapped(whole))


def shown(release: Release, generator: np.random.Generator) -> tuple[Matrix, MatrixLaw] | None:
    """What moments by length of rows show of their sum, and the law of the noise that is in it.

    In squared units of an encoded row, of mapped rows where there is a map; None where nothing
    shows.
    """
    shrunk, found = _of_rungs(release, Structure.of(release), generator) or (None, None)
    if shrunk is None or found is None:
        return None
    scale = release.lattice.bound * release.lattice.step**2
    return shrunk * scale, found.law.rescaled(scale)


def law_of_estimate(release: Release) -> MatrixLaw | None:
    """Law of the noise in what the release's denoising starts from, in units of `Release.noise`.

    By length of mapped rows that is far less than the published sum has: most of its noise is that
    of lengths which hardly a row has. Estimates take it that none has unless it shows; intervals
    and tests don't, and keep to `Release.noise`.
    """
    if not release.has_mapped_rungs or release.denoise != "shrink":
        return release.noise
    put_together = _of_rungs(release, None, simulation_generator(0))
    if put_together is None:
        return release.noise
    return put_together[1].law.rescaled(release.lattice.bound)


def _shrunken(
    release: Release,
    structure: Structure | None,
    noisy: Matrix,
    law: MatrixLaw,
    told: tuple[float, float],
    generator: np.random.Generator,
) -> Matrix:
    """The denoised matrix before levels are looked at; the squared norm of the largest row is 1.

    `told` is the trace that was released, and the standard deviation of its noise.
    """
    put_together = _of_rungs(release, structure, generator)
    if put_together is not None:
        shrunk, found = put_together
        return _isotropic(release, found.trace, found.matrix) if shrunk is None else shrunk
    trace = float(james_stein(*told))
    if nothing_shows(law, trace):
        return _isotropic(release, trace, noisy)
    return _shrunk_within(structure, noisy, law, trace, generator)


def _of_rungs(
    release: Release, structure: Structure | None, generator: np.random.Generator
) -> tuple[Matrix | None, Combined] | None:
    """The same from moments by length of rows, before levels are looked at, and its noisy start.

    The first is None where nothing shows; all is None where there are no such moments. They are put
    together for the noise as it is, then for what shrinking would leave of more; what that loses
    along leading directions is given back.
    """
    told, rungs, noise = noisy_trace(release), release.rungs, release.noise
    if told is None or rungs is None or not isinstance(noise, WeightedSum):
        return None
    parts, laws = parts_of(rungs, noise.rescaled(1 / release.lattice.bound), release.shift)
    combined = combiner(parts, laws, *told, mapped=release.has_mapped_rungs)
    left = 1.0
    for _ in range(ROUNDS):
        found = combined(left)
        found = replace(found, trace=min(found.trace, _largest_trace(release)))
        if nothing_shows(found.law, found.trace):
            return None, found
        shrunk = _shrunk_within(structure, found.matrix, found.law, found.trace, generator)
        taken = float(np.sum((found.matrix - shrunk) ** 2))
        kept = float(np.clip(1 - taken / found.law.frobenius_squared, LEAST_LEFT, 1.0))
        left = MARGINAL * kept
    return given_back(shrunk, found, parts, laws, mapped=release.has_mapped_rungs), found


def _shrunk_within(
    structure: Structure | None,
    noisy: Matrix,
    law: MatrixLaw,
    trace: float,
    generator: np.random.Generator,
) -> Matrix:
    """Shrunk; where noise is simulated, of what the equations of the schema's levels leave."""
    if structure is None or not structure.simulates(law, trace):
        return shrink(noisy, law, trace, generator)
    return structure.shrunk(noisy, law, trace, generator)


def noisy_trace(release: Release) -> tuple[float, float] | None:
    """The trace within its public limits, and the standard deviation of its noise.

    In units of the largest squared norm; None if no trace was released.
    """
    if release.published_trace is None or release.trace_noise is None:
        return None
    trace = min(release.published_trace / release.lattice.bound, _largest_trace(release))
    return trace, release.trace_noise.standard_deviation / release.lattice.bound


def _largest_trace(release: Release) -> float:
    """What the trace can't exceed, in the same units: known where the number of units is public."""
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
