"""Simulated releases with the noise of a release."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dpcov.denoise import Method, denoise, second_moment
from dpcov.estimate.errors import ClippingErrors
from dpcov.published.clipping import ClippingBias
from dpcov.published.kinds import NoisyCount, NoisyMatrix, NoisyTrace
from dpcov.rows.moment import units_per_row

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.published.record import Record

R = TypeVar("R", bound="Record")


def repeated_releases(release: R, generator: np.random.Generator) -> Iterator[R]:
    """Yield simulated releases of the denoised matrix without end.

    Each simulated release has new noise with the distribution of this release, and is denoised by
    the same method.

    Parameters
    ----------
    release : Release
        Release with a noise distribution.

    generator : numpy.random.Generator
        Random numbers for the noise.

    Yields
    ------
    Release
        Simulated release.

    """
    whole = release.mapped(second_moment(release))
    clip = ClippingBias(release, whole)
    units = (whole - clip.expected()) / release.lattice.step**2
    errors = ClippingErrors(release, clip)
    while True:
        yield _simulated(release, units, errors, generator)


def _simulated(
    release: R, units: Matrix, errors: ClippingErrors, generator: np.random.Generator
) -> R:
    """Simulate one release.

    Parameters
    ----------
    release : Release
        Release whose noise distribution is used.

    units : ndarray, shape (d, d)
        Second moment of the transformed rows, in squared lattice steps.

    errors : ClippingErrors
        Errors of the clipping bias of the release.

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
    again = release
    if (trace := release.find(NoisyTrace)) is not None:
        value = round(float(np.trace(units)) + trace.noise.simulate(generator))
        again = again.with_published("trace", replace(trace, value=value))
    if (count := release.find(NoisyCount)) is not None:
        rows = release.count() * units_per_row(release.schema)
        value = round(rows + count.noise.simulate(generator))
        again = again.with_published("count", replace(count, value=value))
    lost = errors.draw_shape_error(generator) + errors.draw_total_error(generator)
    drawn = units - lost / release.lattice.step**2 + matrix.noise.simulate(generator)
    integers = np.rint(drawn * 2.0**-matrix.shift).astype(np.int64)
    again = again.with_published("matrix", replace(matrix, units=integers))
    method: Method = release.denoise  # type: ignore[assignment]
    return denoise(again, method, generator=generator)
