"""How far a release is likely to be from the truth, from the release alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.entropy import simulation_generator
from dpcov.denoise import Method, clipped, denoise
from dpcov.rows.moment import units_per_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpcov.core.arrays import Matrix
    from dpcov.releases import Release

REPETITIONS = 20
FEW_REPETITIONS = 5
MANY_FEATURES = 200
NOTHING_SHOWS = (
    "No correlation rises above the noise: too few rows for this budget. "
    "A larger epsilon, more rows or fewer columns would help."
)
NO_LAW = (
    "The error to expect can't be simulated: this mechanism samples directions instead of adding "
    "noise of a known law."
)


def expected_correlation_error(
    release: Release, *, generator: np.random.Generator | None = None
) -> Matrix | None:
    """Mean absolute error to expect of each correlation, due to the privacy noise.

    Takes the denoised matrix for the truth, draws noise from the public law, denoises again, and
    compares: a parametric bootstrap, at no privacy cost. It leaves out sampling error, and what
    clipping at a private radius takes from long rows, which may be more; it is optimistic where the
    noise drowns the signal.

    Returns
    -------
    (p, p) matrix, 0 on the diagonal; None where there is nothing to simulate: no correlation
    rises above the noise, or the mechanism has no noise law.

    """
    if release.uninformative or release.noise is None:
        return None
    draws = simulation_generator() if generator is None else generator
    truth = release.correlation()
    few = len(truth) > MANY_FEATURES
    count = FEW_REPETITIONS if few else REPETITIONS
    again = islice(repeated(release, draws), count)
    errors = [np.abs(one.correlation() - truth) for one in again]
    return np.mean(errors, axis=0)


def repeated(release: Release, generator: np.random.Generator) -> Iterator[Release]:
    """Releases of the denoised matrix, with fresh simulated noise of the same law, without end."""
    whole = release.mapped(release.second_moment())
    units = (whole - clipped.expected(release, whole)) / release.lattice.step**2
    while True:
        yield _again(release, units, generator)


def _again(release: Release, units: Matrix, generator: np.random.Generator) -> Release:
    """One of them; `units` is the matrix in squared lattice units, of the mapped rows."""
    if release.noise is None:
        raise ValueError("the release has no matrix")
    step = 2.0**-release.shift
    trace = None
    if release.trace_noise is not None:
        trace = round(float(np.trace(units)) + release.trace_noise.simulate(generator))
    again = replace(release, published_trace=trace)
    if release.count_noise is not None:
        rows = release.count() * units_per_row(release.schema)
        again = replace(
            again, published_count=round(rows + release.count_noise.simulate(generator))
        )
    missing = clipped.drawn(release, generator) / release.lattice.step**2
    drawn = units - missing + release.noise.simulate(generator)
    again = replace(again, published=np.rint(drawn * step).astype(np.int64))
    method: Method = release.denoise  # type: ignore[assignment]
    return denoise(again, method, generator=generator)


def silent(release: Release) -> bool:
    """Whether it is for the noise that all correlations are 0."""
    return release.uninformative and (release.noise is not None or release.published is None)
