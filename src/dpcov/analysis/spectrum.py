"""Eigenvalues of a release, compared with the eigenvalues of privacy noise alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.declared import section
from dpcov.analysis.intervals import CONFIDENCE_LEVEL, UNKNOWN_ERROR_MESSAGE, titled
from dpcov.core.entropy import reading_generator
from dpcov.core.show.result import OMITTED_FIELD, Picture, Result
from dpcov.core.show.table import Table, rows_of
from dpcov.estimate import Estimate, dependent
from dpcov.published import record

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.releases import Release

# Numbers of simulated noise matrices, for few and for many features: 5% of 200 and of 60 are whole
# numbers.
FLOOR_DRAWS, FEW_FLOOR_DRAWS = 199, 59
# Number of features above which the floor uses fewer matrices, because each one takes long.
MAX_FLOOR_FEATURES = 60
ENCODING_NOTE = "Features are encoded: half the width of a column's bounds is 1, a level is 0 or 1."
NO_SIGNAL_WARNING = (
    "Nothing on this page rises clearly above the privacy noise: take its figures for guesses. A "
    "larger epsilon, more rows or fewer columns would help."
)


@dataclass(frozen=True, slots=True)
class NoisySpectrum(Result):
    """Eigenvalues of the covariance of encoded features, in descending order.

    Encoded features have a half-range of 1, and the indicator of a level is 0 or 1.

    Attributes
    ----------
    denoised : ndarray, shape (p,)
        Eigenvalues of the denoised covariance.

    published : ndarray, shape (p,)
        Eigenvalues of the published covariance. Noise can make them negative.

    floor : float or None
        Noise level. The largest eigenvalue of noise alone is above it with probability 5%. None if
        the release has no noise distribution.

    dependent : str
        Sentence about the rows of a person, or an empty string.

    """

    denoised: Vector
    published: Vector
    floor: float | None
    dependent: str = field(default="", metadata=OMITTED_FIELD)

    @property
    def above(self) -> int | None:
        """Number of published eigenvalues above the floor, or None without a floor."""
        return None if self.floor is None else int(np.count_nonzero(self.published > self.floor))

    @property
    def caution(self) -> str | None:
        return NO_SIGNAL_WARNING if self.above == 0 else None

    def tables(self) -> list[Table]:
        total = max(float(self.denoised.sum()), 1e-300)
        names = map(str, range(1, len(self.denoised) + 1))
        floor = UNKNOWN_ERROR_MESSAGE
        if self.floor is not None:
            floor = (
                f"{self.above} of {len(self.denoised)} directions rise above the noise floor, "
                f"{self.floor:.3g}, which noise alone exceeds with a probability of 5%."
            )
        return [
            Table(
                ("", "denoised", "share", "as published"),
                rows_of(names, self.denoised, self.denoised / total, self.published),
                titled("Eigenvalues of the covariance", self.dependent),
                ("{:.4g}", "{:.1%}", "{:.4g}"),
                strengths=self.denoised,
                rest="eigenvalues",
                notes=(ENCODING_NOTE, floor),
            )
        ]

    def picture(self) -> Picture:
        return Picture("spectrum", {"release": self})


@section(
    name="directions",
    heading="Spectrum and noise floor",
    lead="How much the table varies along each of its principal directions, beside what privacy "
    "noise alone could show.",
    place=30,
    signal=False,
)
def noisy_spectrum(
    release: Release, *, generator: np.random.Generator | None = None
) -> NoisySpectrum:
    """Return the eigenvalues of a release and the floor of its noise.

    The eigenvalues are meant for a plot. `significant_components` tests how many dimensions are
    above the noise, and this test includes every source of error. The floor only uses the released
    mean and the released number of rows.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    generator : numpy.random.Generator, optional
        Random numbers for the simulations. The default gives the same result every time.

    Returns
    -------
    NoisySpectrum
        Eigenvalues and floor.

    Raises
    ------
    ReleaseError
        The release has no intercept, holds the trace only, or its denoised matrix is 0.

    """
    record.refuse(release.not_released)
    estimate = Estimate.required(release)
    noisy = estimate.complete(estimate.counted(release.noisy()))
    count_entry, sums = noisy[-1, -1], noisy[:-1, -1]
    centred = noisy[:-1, :-1]
    if count_entry > 0:
        centred = centred - np.outer(sums, sums) / count_entry
    return NoisySpectrum(
        _eigenvalues(estimate.covariance),
        _eigenvalues(centred / estimate.count),
        _floor(estimate, generator),
        dependent(release, sampling=False),
    )


def _eigenvalues(matrix: Matrix) -> Vector:
    values = np.linalg.eigvalsh(matrix)
    return np.asarray(values[::-1], np.float64)


def _floor(estimate: Estimate, generator: np.random.Generator | None) -> float | None:
    release = estimate.record
    if release.noise is None:
        return None
    draws = reading_generator(generator)
    law = release.noise.rescaled(release.lattice.step**2)
    p = len(estimate.encoded)
    away = estimate.encoded / release.intercept()
    centring = np.column_stack([np.eye(p), -away])
    count = FEW_FLOOR_DRAWS if p > MAX_FLOOR_FEATURES else FLOOR_DRAWS
    noises = (release.unmapped(law.simulate(draws)) for _ in range(count))
    errors = map(estimate.complete_errors, noises)
    tops = [float(np.linalg.eigvalsh(centring @ error @ centring.T)[-1]) for error in errors]
    return float(np.quantile(tops, CONFIDENCE_LEVEL, method="higher")) / estimate.count
