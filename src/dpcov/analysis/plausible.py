"""Second moments that a release leaves plausible, by simulation of what separates it from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.moments import Moments, positive
from dpcov.analysis.pseudo_rows import pseudo_rows
from dpcov.analysis.rounding import RoundingErrors
from dpcov.denoise import clipped, denoise
from dpcov.errors import ReleaseError
from dpcov.releases import NoisyCount
from dpcov.releases.pairwise import has_gaps, rows_by_pair
from dpcov.rows.moment import units_per_row

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.releases import Release

DRAWS = 519  # 2.5 % of one more is a whole number
FEW_DRAWS = 119
DRAWN_NUMBERS = 10**7  # entries of all matrices drawn, beyond which there are fewer
BATCH_NUMBERS = 2**21  # entries of the matrices held at once
PSEUDO_NUMBERS = 5 * 10**5
FEWEST_ROWS, MOST_ROWS = 1000, 5000
ROUNDED = 20_251_124
SAFETY = 1.1  # of sampling errors, for tails that columns have in common (measured)


class PlausibleMoments:
    """Plausible true second moments: one that is hardly biased, minus simulated errors.

    For the population's moments an error is a draw of the noise plus one of the sampling error, to
    first order: rows with the released moments (`pseudo_rows`) under random weights of mean 0.
    What rounding may have done where declared values are off the lattice is one of the errors.

    Attributes
    ----------
    center : (d, d) `starting_point`.
    draws : number of errors.

    """

    def __init__(
        self,
        release: Release,
        *,
        sampling: bool,
        generator: np.random.Generator,
        draws: int = DRAWS,
    ) -> None:
        if release.noise is None:
            release.noisy()  # says so where only the trace was released
            raise ReleaseError(
                f"The noise of the mechanism {release.mechanism!r} has no law that can be "
                "simulated, so nothing is known of the error of this release."
            )
        self._law = release.noise.rescaled(release.lattice.step**2)
        self._release = release
        self._generator = generator
        self._count = NoisyCount.of(release)
        self.center = starting_point(release)
        self._rounding = RoundingErrors(release, self.center)
        self._off = np.random.default_rng(ROUNDED)  # so that other draws are as without it
        self.draws = min(max(DRAWN_NUMBERS // self.center.size, FEW_DRAWS), draws)
        self._sampling = np.zeros((self.draws, 1, 1))
        if sampling:
            self._sampling = sampling_errors(release, self.draws, generator)

    def errors(self) -> Iterator[Matrix]:
        """All errors, in batches of shape (b, d, d); a plausible truth is `center` minus one."""
        size = max(1, BATCH_NUMBERS // self.center.size)
        for start in range(0, self.draws, size):
            stop = min(start + size, self.draws)
            noise = np.stack([self._noise() for _ in range(start, stop)])
            yield noise + self._sampling[start:stop]

    def _noise(self) -> Matrix:
        noise = self._law.simulate(self._generator)
        noise -= clipped.drawn(self._release, self._generator)
        noise = self._release.unmapped(noise) + self._rounding.draw(self._off)
        return self._with_count(noise)

    def _with_count(self, noise: Matrix) -> Matrix:
        """The noise with that of the best count in its corner; none where the count is public."""
        release, best, t = self._release, self._count, self._release.intercept()
        if release.has_intercept and release.row_count is not None:
            return release.with_corner(noise, 0.0)
        if best is None or release.count_noise is None or not release.has_intercept:
            return noise
        of_corner = float(noise[-1, -1]) / t**2
        own = release.count_noise.simulate(self._generator) / units_per_row(release.schema)
        error = best.of_corner * of_corner + (1 - best.of_corner) * own
        return release.with_corner(noise, error * t**2)


def starting_point(release: Release) -> Matrix:
    """(d, d) second moment for inference, in squared units of an encoded row.

    Not denoised, so that what is between it and the truth is noise of a known law: the noisy one.
    Where the number of rows is public, or published apart, it takes the place of the noisy corner.
    """
    return release.with_count(_plain(release))


def _plain(release: Release) -> Matrix:
    """The noisy second moment, with what a clip is expected to have taken."""
    if release.lengths is None:
        return release.noisy()
    whole = release if release.denoised is not None else denoise(release, "project")
    taken = clipped.expected(release, release.mapped(whole.second_moment()))
    return release.unmapped(release.noisy_mapped() + taken)


def sampling_errors(release: Release, draws: int, generator: np.random.Generator) -> Matrix:
    """(draws, d, d) sampling errors: sum g w w' over pseudo-rows w, with weights g of mean 0."""
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
    features, numeric = release.schema.variables, release.schema.encoded_columns
    low = np.array([-1.0 if feature.name in numeric else 0.0 for feature in features])
    means = np.clip(moments.encoded, low, 1.0)
    d = release.lattice.dimension
    count = max(int(np.clip(PSEUDO_NUMBERS // d**2, FEWEST_ROWS, MOST_ROWS)), 4 * (d - 1))
    rows = means + pseudo_rows(means, moments.covariance, low, count, generator)
    if has_gaps(release.schema):
        rows = _with_gaps(release, rows, generator)
    whole = np.column_stack([rows, np.full(count, release.intercept())])
    return whole * (moments.count / count) ** 0.25


def _with_gaps(release: Release, rows: Matrix, generator: np.random.Generator) -> Matrix:
    """(m, d - 1) encoded features of (m, p) rows, cells missing at random as often as released."""
    pairs = rows_by_pair(release) / max(release.count(), 1.0)
    shares = np.diag(pairs)
    together = positive(pairs - np.outer(shares, shares))
    zeros = np.zeros(len(shares))
    present = shares + pseudo_rows(shares, together, zeros, len(rows), generator)
    features = release.schema.features
    variables = {feature.column: j for j, feature in enumerate(release.schema.variables)}
    found, at = np.empty((len(rows), len(features))), iter(range(len(shares)))
    for j, feature in enumerate(features):
        if feature.variable:
            k = next(at)
            found[:, j] = rows[:, k] * present[:, k]
        else:
            found[:, j] = 1 - present[:, variables[feature.column]]
    return found
