"""Expected errors of a release, computed from the release alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.below_noise import below_noise, sentence
from dpcov.analysis.intervals import stated
from dpcov.analysis.statistics import Correlations
from dpcov.core.entropy import reading_generator
from dpcov.denoise import Method, denoise
from dpcov.denoise.clipped import ClippingBias
from dpcov.published import record
from dpcov.published.kinds import NoisyCount, NoisyMatrix, NoisyTrace
from dpcov.published.norm_histogram import Z_95
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
    """Return the standard errors of the correlations due to the privacy noise.

    dpcov simulates the noise, as for `intervals`. The standard errors are linear approximations.
    They do not include the sampling error.

    Parameters
    ----------
    release : Release
        Release with correlations.

    generator : numpy.random.Generator, optional
        Random numbers for the simulation. The default gives the same result every time.

    Returns
    -------
    ndarray, shape (p, p), or None
        Standard errors, with 0 on the diagonal. None if no correlation rises above the noise, or if
        the noise distribution is unknown.

    Raises
    ------
    NotReleasedError
        The release contains no correlations.

    See Also
    --------
    dpcov.intervals : Intervals for the correlations.
    Release.correlation : Correlations of the features.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 5000)
    >>> release = dpcov.release(np.column_stack([x, x**2]), lower=0, upper=1, epsilon=10.0)
    >>> errors = dpcov.correlation_standard_errors(release)
    >>> bool(errors[0, 1] < 0.1)
    True

    """
    found = correlation_errors(release, generator=generator)
    return None if found is None else found.errors


@dataclass(frozen=True, slots=True)
class CorrelationErrors:
    """Errors of correlations due to the privacy noise.

    Attributes
    ----------
    errors : ndarray, shape (p, p)
        Standard errors, with 0 on the diagonal.

    below : ndarray of bool, shape (p, p)
        True for a correlation below the noise level. The diagonal is False.

    """

    errors: Matrix
    below: Booleans

    def sentence(self) -> tuple[str, ...]:
        """Return a sentence with the number of correlations below the noise level."""
        return sentence(self.below[np.tril_indices(len(self.below), -1)], "correlations")


def correlation_errors(
    release: Release, *, generator: np.random.Generator | None = None
) -> CorrelationErrors | None:
    """Return the standard errors of the correlations, and flags for the noise level.

    See `correlation_standard_errors` for the errors and for the releases without errors.
    """
    record.refuse(release.not_released)
    if release.uninformative or release.noise is None:
        return None
    draws, shaped = reading_generator(generator), Correlations().shaped
    found = stated(release, [Correlations()], sampling=False, draws=draws)[0]
    deviations = np.where(np.isnan(found.deviations), UNKNOWN_CORRELATION_SD, found.deviations)
    below = shaped(release, below_noise(found.values, found.deviations))
    return CorrelationErrors(shaped(release, deviations), below)


def half_widths(errors: Matrix) -> Matrix:
    """Return the half-widths of 95% intervals, at most 1, for standard errors of correlations."""
    return np.minimum(Z_95 * errors, 1.0)


def correlations_below_noise(release: Release, found: CorrelationErrors | None) -> Booleans | None:
    """Return (p, p) flags of the correlations below the noise level, or None if this is unknown.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    found : CorrelationErrors or None
        Result of `correlation_errors` for this release.

    Returns
    -------
    ndarray of bool, shape (p, p), or None
        Flags. The diagonal is False.

    """
    if found is not None:
        return found.below
    return ~np.eye(len(release.columns), dtype=bool) if silent(release) else None


def repeated(release: Release, generator: np.random.Generator) -> Iterator[Release]:
    """Yield simulated releases of the denoised matrix without end.

    Each simulated release has new noise with the distribution of this release.
    """
    whole = release.mapped(release.second_moment())
    clip = ClippingBias(release, whole)
    units = (whole - clip.expected()) / release.lattice.step**2
    while True:
        yield _again(release, units, clip, generator)


def _again(
    release: Release, units: Matrix, clip: ClippingBias, generator: np.random.Generator
) -> Release:
    """Simulate one release.

    Parameters
    ----------
    release : Release
        Release whose noise distribution is used.

    units : ndarray, shape (d, d)
        Second moment of the transformed rows, in squared lattice steps.

    clip : ClippingBias
        Clipping bias of the release.

    generator : numpy.random.Generator
        Random numbers for the noise.

    Returns
    -------
    Release
        Simulated release, denoised by the same method.

    """
    matrix = release.find(NoisyMatrix)
    if matrix is None:
        raise ValueError("the release has no matrix")
    step, again = 2.0**-matrix.shift, release
    if (trace := release.find(NoisyTrace)) is not None:
        value = round(float(np.trace(units)) + trace.noise.simulate(generator))
        again = again.with_published("trace", replace(trace, value=value))
    if (count := release.find(NoisyCount)) is not None:
        rows = release.count() * units_per_row(release.schema)
        value = round(rows + count.noise.simulate(generator))
        again = again.with_published("count", replace(count, value=value))
    lost = clip.draw_shape_error(generator) + clip.draw_total_error(generator)
    drawn = units - lost / release.lattice.step**2 + matrix.noise.simulate(generator)
    integers = np.rint(drawn * step).astype(np.int64)
    again = again.with_published("matrix", replace(matrix, units=integers))
    method: Method = release.denoise  # type: ignore[assignment]
    return denoise(again, method, generator=generator)


def silent(release: Release) -> bool:
    """Return True if all correlations of a release are 0 because of the noise."""
    return release.uninformative and release.noise is not None
