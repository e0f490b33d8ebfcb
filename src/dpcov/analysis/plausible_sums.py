"""Simulated errors of the means and variances of a release of sums.

Each published sum has independent noise with a public distribution, so an error is a draw of this
noise. A release of sums has no covariances. The sampling error is the sampling error of
uncorrelated features (`releases.sums`), which is exact for each mean and for each variance alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dpcov.analysis.plausible import (
    ERROR_DRAWS,
    MIN_DIRECTION_SNR,
    ROUNDING_SEED,
    PlausibleMoments,
    sampling_errors,
)
from dpcov.analysis.rounding import RoundingErrors
from dpcov.published import record
from dpcov.published.kinds import NoisyCount
from dpcov.published.record import CountEstimate
from dpcov.releases.sums import moment_of_sums, symmetric, with_matrix
from dpcov.rows.moment import units_per_row

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.published.kinds import NoisySums
    from dpcov.releases import Release


class Plausible(Protocol):
    """Estimate of a second moment with simulated errors (see `PlausibleMoments`)."""

    center: Matrix

    def errors(self) -> Iterator[Matrix]: ...

    def parts(self) -> Iterator[tuple[Matrix, Matrix, Matrix]]: ...


def plausible(
    release: Release,
    *,
    sampling: bool,
    generator: np.random.Generator,
    draws: int = ERROR_DRAWS,
    alone: bool = False,
) -> Plausible:
    """Return plausible moments of a release of a matrix or of sums.

    `PlausibleMoments` documents the parameters.
    """
    sums = record.sums_of(release)
    if sums is None:
        return PlausibleMoments(
            release, sampling=sampling, generator=generator, draws=draws, alone=alone
        )
    return PlausibleSums(
        release, sums, sampling=sampling, generator=generator, draws=draws, alone=alone
    )


class PlausibleSums:
    """Plausible second moments of uncorrelated features with the released sums.

    Only means and variances of these moments describe the table.

    Parameters
    ----------
    release : Release
        Release of sums.

    sums : NoisySums
        Sums of the release.

    sampling : bool
        Include the sampling error.

    generator : numpy.random.Generator
        Random numbers for the simulations.

    draws : int
        Number of errors.

    alone : bool
        Use the sums as they are. By default, each variance is at least the standard deviation of
        its noise, because a smaller variance cannot be distinguished from 0.

    Attributes
    ----------
    center : ndarray, shape (d, d)
        Estimate of the second moment, in squared units of an encoded row.

    """

    def __init__(
        self,
        release: Release,
        sums: NoisySums,
        *,
        sampling: bool,
        generator: np.random.Generator,
        draws: int,
        alone: bool,
    ) -> None:
        record.refuse(record.means_reason(release))
        self._release, self._noise = release, sums.noise
        self._generator, self._draws = generator, draws
        deviation = sums.noise.standard_deviation * release.lattice.step**2
        self.center = moment_of_sums(
            release, sums, None if alone else MIN_DIRECTION_SNR * deviation
        )
        self._rounding = RoundingErrors(release, self.center)
        self._off = np.random.default_rng(ROUNDING_SEED)
        self._sampling = np.zeros((draws, 1, 1))
        if sampling:
            own = generator.spawn(1)[0]  # separate, so that sampling does not change the noise
            self._sampling = sampling_errors(with_matrix(release), draws, own)

    def errors(self) -> Iterator[Matrix]:
        """Yield all errors in one batch of shape (b, d, d)."""
        for noise, _, sampling in self.parts():
            yield noise + sampling

    def parts(self) -> Iterator[tuple[Matrix, Matrix, Matrix]]:
        """Yield the errors without limits twice, and the sampling errors.

        The result has the form of `PlausibleMoments.parts`.
        """
        noise = np.stack([self._error() for _ in range(self._draws)])
        yield noise, noise, self._sampling

    def _error(self) -> Matrix:
        """Draw an error of the noise and of rounding, shape (d, d)."""
        lattice = self._release.lattice
        p = lattice.features
        drawn = [self._noise.simulate(self._generator) for _ in range(2 * p + 1)]
        of_count = self._count_error(drawn[-1]) * lattice.step**2
        noise = np.array(drawn) * lattice.step**2
        error = symmetric(np.diag(noise[:p]), np.append(noise[p:-1], of_count))
        return error + self._rounding.draw(self._off)

    def _count_error(self, drawn: float) -> float:
        """Return the error of the row-count entry, in squared lattice steps."""
        release, best = self._release, CountEstimate.of(self._release)
        if best is None:  # the number of rows is public
            return 0.0
        squared, count = release.lattice.intercept_units**2, release.find(NoisyCount)
        own = 0.0
        if count is not None:
            own = count.noise.simulate(self._generator) / units_per_row(release.schema) * squared
        return best.of_corner * drawn + (1 - best.of_corner) * own
