"""Second moments that a release leaves plausible, by simulation of what separates it from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.moments import Moments
from dpcov.analysis.pseudo_rows import pseudo_rows
from dpcov.analysis.weighed import Weighed
from dpcov.denoise import clipped, denoise
from dpcov.errors import ReleaseError

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.releases import Release
    from dpcov.samplers import MatrixLaw

DRAWS = 519  # 2.5 % of one more is a whole number
FEW_DRAWS = 119
DRAWN_NUMBERS = 10**7  # entries of all matrices drawn, beyond which there are fewer
BATCH_NUMBERS = 2**21  # entries of the matrices held at once
PSEUDO_NUMBERS = 5 * 10**5
FEWEST_ROWS, MOST_ROWS = 1000, 5000
SAFETY = 1.1  # of sampling errors, for tails that columns have in common (measured)


class PlausibleMoments:
    """Plausible true second moments: one that is hardly biased, minus simulated errors.

    For the population's moments an error is a draw of the noise plus one of the sampling error, to
    first order: rows with the released moments (`pseudo_rows`) under random weights of mean 0.
    Noise is of the release's law, or of `law`; moments by length of rows are `Weighed`.

    Attributes
    ----------
    center : (d, d) `starting_point`, or the noisy second moment where `law` is given.
    draws : number of errors.

    """

    def __init__(
        self,
        release: Release,
        *,
        sampling: bool,
        generator: np.random.Generator,
        draws: int = DRAWS,
        law: MatrixLaw | None = None,
    ) -> None:
        if release.noise is None:
            release.noisy()  # says so where only the trace was released
            raise ReleaseError(
                f"The noise of the mechanism {release.mechanism!r} has no law that can be "
                "simulated, so nothing is known of the error of this release."
            )
        self._law = (law or release.noise).rescaled(release.lattice.step**2)
        self._release = release
        self._generator = generator
        self._count_known = release.has_intercept and release.row_count is not None
        self._weighed = Weighed.of(release) if law is None else None
        self.center = _starting_point(release, self._weighed)
        self.draws = min(max(DRAWN_NUMBERS // self.center.size, FEW_DRAWS), draws)
        self._sampling = np.zeros((self.draws, 1, 1))
        if sampling:
            self._sampling = _sampling_errors(release, self.draws, generator)

    def errors(self) -> Iterator[Matrix]:
        """All errors, in batches of shape (b, d, d); a plausible truth is `center` minus one."""
        size = max(1, BATCH_NUMBERS // self.center.size)
        for start in range(0, self.draws, size):
            stop = min(start + size, self.draws)
            noise = np.stack([self._noise() for _ in range(start, stop)])
            yield noise + self._sampling[start:stop]

    def _noise(self) -> Matrix:
        if self._weighed is not None:
            noise = self._weighed.error(self._generator)
        else:
            noise = self._law.simulate(self._generator)
            noise -= clipped.drawn(self._release, self._generator)
            noise = self._release.unmapped(noise)
        if self._count_known:
            noise[-1, -1] = 0.0
        return noise


def starting_point(release: Release) -> Matrix:
    """(d, d) second moment for inference, in squared units of an encoded row.

    Not denoised, so that what is between it and the truth is noise of a known law: the noisy one,
    or `Weighed` moments by length of rows. Where the number of rows is public it takes the place of
    the noisy one.
    """
    return _starting_point(release, Weighed.of(release))


def _starting_point(release: Release, weighed: Weighed | None) -> Matrix:
    return with_public_count(release, _plain(release) if weighed is None else weighed.moment())


def _plain(release: Release) -> Matrix:
    """The noisy second moment, with what a clip is expected to have taken."""
    if release.lengths is None:
        return release.noisy()
    whole = release if release.denoised is not None else denoise(release, "project")
    taken = clipped.expected(release, release.mapped(whole.second_moment()))
    return release.unmapped(release.noisy_mapped() + taken)


def with_public_count(release: Release, matrix: Matrix) -> Matrix:
    """The (d, d) second moment with the number of rows in its corner, where this is public."""
    matrix = matrix.copy()
    if release.has_intercept and release.row_count is not None:
        matrix[-1, -1] = release.row_count * release.intercept() ** 2
    return matrix


def _sampling_errors(release: Release, draws: int, generator: np.random.Generator) -> Matrix:
    """(draws, d, d) errors sum g w w' over pseudo-rows w, with weights g of mean 0."""
    rows = _weighted_rows(release, generator)
    weights = generator.standard_normal((draws, len(rows)))
    weights -= weights.mean(axis=1, keepdims=True)
    weights *= SAFETY
    d = rows.shape[1]
    errors = np.empty((draws, d, d))
    for j in range(d):
        products = weights @ (rows[:, : j + 1] * rows[:, [j]])
        errors[:, j, : j + 1] = errors[:, : j + 1, j] = products
    return errors


def _weighted_rows(release: Release, generator: np.random.Generator) -> Matrix:
    """(m, d) encoded rows w such that sum g w w', g standard normal, is the sampling error of S.

    Its covariance is that of the sum over n independent rows: n Cov(w w').
    """
    moments = Moments.of(release)
    features, numeric = release.schema.features, release.schema.encoded_columns
    low = np.array([-1.0 if feature.name in numeric else 0.0 for feature in features])
    means = np.clip(moments.encoded, low, 1.0)
    size = (len(means) + 1) ** 2
    count = max(int(np.clip(PSEUDO_NUMBERS // size, FEWEST_ROWS, MOST_ROWS)), 4 * len(means))
    rows = means + pseudo_rows(means, moments.covariance, low, count, generator)
    whole = np.column_stack([rows, np.full(count, release.intercept())])
    return whole * (moments.count / count) ** 0.25
