"""How far a release is likely to be from the truth, from the release alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.intervals import stated
from dpcov.analysis.statistics import Correlations
from dpcov.core.entropy import reading_generator
from dpcov.denoise import Method, denoise
from dpcov.denoise.clipped import Clip
from dpcov.releases import held
from dpcov.releases.lengths import REACH
from dpcov.rows.moment import units_per_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpcov.core.arrays import Matrix
    from dpcov.releases import Release

DROWNS = 0.05  # standard error from which a correlation is hardly told
UNKNOWN = 1 / np.sqrt(3)  # that of one which may be anything from -1 to 1
NOTHING_SHOWS = (
    "No correlation rises above the noise: too few rows for this budget. "
    "A larger epsilon, more rows or fewer columns would help."
)
NO_LAW = (
    "The error to expect can't be simulated: this mechanism samples directions instead of adding "
    "noise of a known law."
)


def correlation_standard_errors(
    release: Release, *, generator: np.random.Generator | None = None
) -> Matrix | None:
    """Return the standard error of each correlation, due to the privacy noise.

    From the same draws as `intervals` have, to first order; without sampling error.

    Returns
    -------
    (p, p) matrix, 0 on the diagonal; None where there is nothing to simulate: no correlation
    rises above the noise, or the mechanism has no noise law.

    Raises
    ------
    NotReleasedError : the release holds no correlations.

    """
    held.refuse(release.not_released)
    if release.uninformative or release.noise is None:
        return None
    draws = reading_generator(generator)
    found = stated(release, [Correlations()], sampling=False, draws=draws)[0]
    deviations = np.where(np.isnan(found.deviations), UNKNOWN, found.deviations)
    return Correlations().shaped(release, deviations)


def half_widths(errors: Matrix) -> Matrix:
    """Of 95 % intervals of correlations with these standard errors; none goes beyond 1."""
    return np.minimum(REACH * errors, 1.0)


def drowned_pairs(errors: Matrix | None) -> tuple[str, ...]:
    """A sentence on the correlations that noise drowns, by their standard errors."""
    if errors is None:
        return ()
    below = errors[np.tril_indices(len(errors), -1)]
    high = int(np.count_nonzero(below > DROWNS))
    if high == 0:
        return ()
    return (
        f"Noise drowns {high} of {below.size} correlations: their standard error is above "
        f"{DROWNS}.",
    )


def repeated(release: Release, generator: np.random.Generator) -> Iterator[Release]:
    """Releases of the denoised matrix, with fresh simulated noise of the same law, without end."""
    whole = release.mapped(release.second_moment())
    clip = Clip(release, whole)
    units = (whole - clip.expected()) / release.lattice.step**2
    while True:
        yield _again(release, units, clip, generator)


def _again(release: Release, units: Matrix, clip: Clip, generator: np.random.Generator) -> Release:
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
    missing = (clip.drawn(generator) + clip.more(generator)) / release.lattice.step**2
    drawn = units - missing + release.noise.simulate(generator)
    again = replace(again, published=np.rint(drawn * step).astype(np.int64))
    method: Method = release.denoise  # type: ignore[assignment]
    return denoise(again, method, generator=generator)


def silent(release: Release) -> bool:
    """Return True if all correlations of a release are 0 because of the noise."""
    return release.uninformative and release.noise is not None
