"""How far a release is likely to be from the truth, from the release alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.below_noise import below_noise, sentence
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

    from dpcov.core.arrays import Booleans, Matrix
    from dpcov.releases import Release

# Standard deviation of a correlation about which the release says nothing: a uniform value between
# -1 and 1.
UNKNOWN_CORRELATION_SD = 1 / np.sqrt(3)
NO_SIGNAL_MESSAGE = (
    "No correlation rises above the noise: too few rows for this budget. "
    "A larger epsilon, more rows or fewer columns would help."
)
UNKNOWN_ERROR_MESSAGE = (
    "The expected error is unknown, because this mechanism samples directions and does not add "
    "noise with a known distribution."
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
    found = correlation_errors(release, generator=generator)
    return None if found is None else found.errors


@dataclass(frozen=True, slots=True)
class CorrelationErrors:
    """What the privacy noise does to correlations.

    Attributes
    ----------
    errors : (p, p) standard errors, 0 on the diagonal.
    below : (p, p) bool, whether each correlation is below the noise level; False on the diagonal.

    """

    errors: Matrix
    below: Booleans

    def sentence(self) -> tuple[str, ...]:
        """Return a sentence on how many correlations are below the noise level."""
        return sentence(self.below[np.tril_indices(len(self.below), -1)], "correlations")


def correlation_errors(
    release: Release, *, generator: np.random.Generator | None = None
) -> CorrelationErrors | None:
    """Return `correlation_standard_errors`, and which correlations are below the noise level."""
    held.refuse(release.not_released)
    if release.uninformative or release.noise is None:
        return None
    draws, shaped = reading_generator(generator), Correlations().shaped
    found = stated(release, [Correlations()], sampling=False, draws=draws)[0]
    deviations = np.where(np.isnan(found.deviations), UNKNOWN_CORRELATION_SD, found.deviations)
    below = shaped(release, below_noise(found.values, found.deviations))
    return CorrelationErrors(shaped(release, deviations), below)


def half_widths(errors: Matrix) -> Matrix:
    """Half the widths of 95% intervals of correlations with these standard errors, at most 1."""
    return np.minimum(REACH * errors, 1.0)


def correlations_below_noise(release: Release, found: CorrelationErrors | None) -> Booleans | None:
    """(p, p) bool, whether each correlation is below the noise level; None if it is not known.

    `found` is what `correlation_errors` returned.
    """
    if found is not None:
        return found.below
    return ~np.eye(len(release.columns), dtype=bool) if silent(release) else None


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
