"""Plausible true second moments of a release: an estimate, and simulated errors of the estimate.

The published matrix is S + Z. S is the true second moment, and the noise Z has a public
distribution. If S is much larger than Z, an error of the estimate is simply a draw of Z.

In a direction below the noise level, the draws of Z alone would allow negative variances. They
would then also allow arbitrarily large regression coefficients. But S is positive semidefinite, and
the variances of two directions limit their covariance. This module therefore uses a prior. In the
principal directions of the denoised estimate, let l_a be the variances. Each entry of the moment
about the mean has the prior variance

    v_ab = l_a l_b (1 + [a = b]) / `PRIOR_ROWS`

This is the variance of a Wishart matrix with `PRIOR_ROWS` degrees of freedom, centred at the
estimate. Let s^2 be the variance of the noise and of the clipping bias (`denoise.clipped`). An
error is then multiplied by sqrt(v / (v + s^2)), as in a normal posterior distribution. The variance
l_a is at least the standard deviation of its noise (`MIN_DIRECTION_SNR`), because a smaller
variance cannot be distinguished from 0.

With 100 or more features, the denoised estimate is much more accurate than the noise in all
directions below the noise level. Stein's estimate gives its total squared error
(`denoise.left_of_noise`). The errors in these directions are reduced accordingly.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.available import possible
from dpcov.analysis.moments import Moments, positive
from dpcov.analysis.pseudo_rows import pseudo_rows
from dpcov.analysis.rounding import RoundingErrors
from dpcov.denoise import denoise, left_of_noise
from dpcov.denoise.clipped import ClippingBias
from dpcov.denoise.structure import Structure
from dpcov.published import record
from dpcov.published.kinds import NoisyCount
from dpcov.published.record import CountEstimate
from dpcov.releases.pairwise import has_gaps, rows_by_pair
from dpcov.rows.moment import units_per_row

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.core.samplers import MatrixLaw
    from dpcov.releases import Release

# Number of simulated errors, and the smallest number for large matrices: 2.5% of 520 and of 120 are
# whole numbers.
ERROR_DRAWS, MIN_ERROR_DRAWS = 519, 119
# Number of entries of all drawn matrices above which there are fewer errors. The limit saves time.
MAX_DRAWN_ENTRIES = 10**7
# Largest number of entries of the matrices in memory at once: 16 MiB.
MAX_BATCH_ENTRIES = 2**21
# Number of pseudo-rows times d^2. Source: not recorded.
PSEUDO_ROW_ENTRIES = 5 * 10**5
# Smallest and largest number of pseudo-rows. Source: not recorded.
MIN_PSEUDO_ROWS, MAX_PSEUDO_ROWS = 1000, 5000
# Seed of the draws of rounding and sampling errors, so that the other draws stay the same.
ROUNDING_SEED = 20_251_124
# Factor of the sampling errors, for tails that columns have in common. Source: tuned.
SAMPLING_ERROR_FACTOR = 1.1
# Degrees of freedom of the prior. Source: tuned; 1 gives wider and 9 gives shorter intervals.
PRIOR_ROWS = 3.0
# Smallest variance of a direction, in standard deviations of its noise, and the divisor of this
# limit after products of categories become 0. Source: not recorded.
MIN_DIRECTION_SNR, STRUCTURE_SNR_DIVISOR = 1.0, 10.0


class PlausibleMoments:
    """Plausible true second moments: an estimate minus simulated errors.

    Each error contains the noise, the clipping bias and rounding. With `sampling`, it also contains
    the sampling error to first order. The sampling error comes from simulated rows with the
    released moments (`pseudo_rows`), which get random weights with mean 0.

    Parameters
    ----------
    release : Release
        Release with a noise distribution.

    sampling : bool
        Include the sampling error. The moments then describe the population.

    generator : numpy.random.Generator
        Random numbers for the simulations.

    draws : int, default 519
        Number of errors. Large matrices get fewer errors.

    alone : bool, default False
        Use the noise distribution alone, without a prior. The errors are then about
        `starting_point`, which is not denoised.

    Attributes
    ----------
    center : ndarray, shape (d, d)
        Estimate of the second moment, in squared units of an encoded row.

    draws : int
        Number of errors.

    """

    def __init__(
        self,
        release: Release,
        *,
        sampling: bool,
        generator: np.random.Generator,
        draws: int = ERROR_DRAWS,
        alone: bool = False,
    ) -> None:
        record.refuse(record.law_reason(release))
        assert release.noise is not None  # noqa: S101  for type checkers, after the line above
        self._law = release.noise.rescaled(release.lattice.step**2)
        self._release = release
        self._generator = generator
        self._count = CountEstimate.of(release)
        self._directions = None if alone else _Directions(release, self._law)
        if self._directions is None:
            self.center = starting_point(release)
            self._clip = ClippingBias(release, release.mapped(self.center))
        else:
            self.center = release.unmapped(self._directions.center)
            self._clip = self._directions.clip
        self._rounding = RoundingErrors(release, self.center)
        self._off = np.random.default_rng(
            ROUNDING_SEED
        )  # separate, so that rounding changes no draw
        self.draws = min(max(MAX_DRAWN_ENTRIES // self.center.size, MIN_ERROR_DRAWS), draws)
        if self._directions is not None and has_gaps(release.schema):
            self.center = possible(release, self.center, self._few())
        self._sampling = np.zeros((self.draws, 1, 1))
        if sampling:
            own = generator.spawn(1)[0]  # separate, so that sampling does not change the noise
            self._sampling = sampling_errors(release, self.draws, own)

    def errors(self) -> Iterator[Matrix]:
        """Yield all errors in batches of shape (b, d, d).

        A plausible true second moment is `center` minus an error.
        """
        for noise, _ in self.both():
            yield noise

    def both(self) -> Iterator[tuple[Matrix, Matrix]]:
        """Yield batches of the errors, and of the same errors without the limits of the prior."""
        for kept, whole, sampling in self.parts():
            yield kept + sampling, whole + sampling

    def parts(self) -> Iterator[tuple[Matrix, Matrix, Matrix]]:
        """Yield batches of three kinds of errors.

        Yields
        ------
        kept : ndarray, shape (b, d, d)
            Errors due to the noise, clipping and rounding.

        whole : ndarray, shape (b, d, d)
            The same errors without the limits of the prior.

        sampling : ndarray, shape (b, d, d) or (b, 1, 1)
            Sampling errors, or zeros without `sampling`.

        """
        size = max(1, MAX_BATCH_ENTRIES // self.center.size)
        for start in range(0, self.draws, size):
            stop = min(start + size, self.draws)
            drawn = (self._noise(self._generator, self._off) for _ in range(start, stop))
            kept, whole = zip(*drawn, strict=True)
            yield np.stack(kept), np.stack(whole), self._sampling[start:stop]

    def _few(self) -> Matrix:
        """Return (b, d, d) errors that include sampling and are the same in every call."""
        draws = np.random.default_rng(ROUNDING_SEED)
        noise = np.stack([self._noise(draws, draws)[0] for _ in range(MIN_ERROR_DRAWS)])
        return noise + sampling_errors(self._release, MIN_ERROR_DRAWS, draws)

    def _noise(
        self, draws: np.random.Generator, rounding_draws: np.random.Generator
    ) -> tuple[Matrix, Matrix]:
        noise = self._law.simulate(draws)
        if self._directions is not None:
            noise = self._directions.left(noise)
        noise -= self._clip.draw_shape_error(draws)
        noise[-1, -1] = self._count_error(noise, draws)
        more, rounding = self._clip.draw_total_error(draws), self._rounding.draw(rounding_draws)
        whole = self._release.unmapped(noise - more) + rounding
        if self._directions is None:
            return whole, whole
        kept = self._directions.kept(noise) - more
        return self._release.unmapped(kept) + rounding, whole

    def _count_error(self, noise: Matrix, draws: np.random.Generator) -> float:
        """Return the error of the row-count entry.

        The error is 0 if the number of rows is public. If the release has a separate noisy count,
        the error combines both counts with the weights of the best count.
        """
        release, best, t = self._release, self._count, self._release.intercept()
        if release.has_intercept and release.row_count is not None:
            return 0.0
        noisy = release.find(NoisyCount)
        if best is None or noisy is None or not release.has_intercept:
            return float(noise[-1, -1])
        of_entry = float(noise[-1, -1]) / t**2
        own = noisy.noise.simulate(draws) / units_per_row(release.schema)
        return (best.of_corner * of_entry + (1 - best.of_corner) * own) * t**2


class _Directions:
    """Principal directions of the denoised estimate, with the limits of the errors in them.

    q is the number of directions in which rows can vary.

    Attributes
    ----------
    center : ndarray, shape (d, d)
        Second moment of the transformed rows. Its variance is positive in all q directions.

    """

    def __init__(self, release: Release, law: MatrixLaw) -> None:
        p = release.lattice.features
        self._structure = Structure.of(release)
        free = np.eye(p) if self._structure is None else self._structure.free(p)
        moment = release.mapped(release.with_count(release.second_moment()))
        if release.has_intercept:  # the row-count entry is at least the entry of one row
            moment[-1, -1] = max(moment[-1, -1], release.intercept() ** 2)
        self.clip = ClippingBias(release, moment)
        self._release, self._law = release, law
        least = MIN_DIRECTION_SNR * np.sqrt(law.diagonal_variance)
        self.center, self._values, self._vectors = _varying(moment, free, least)
        if self._structure is not None:  # products of two levels of the same column are 0
            nearest = self._structure.nearest(self.center)
            self.center = _varying(nearest, free, least / STRUCTURE_SNR_DIVISOR)[0]

    @cached_property
    def _left(self) -> Matrix:
        """Factors by which shrinkage reduces the noise in each entry, shape (q, q)."""
        hidden = self._values <= np.median(self._values) + self._law.detectable
        among = np.outer(hidden, hidden)
        seen = 1 - float(np.mean(among))  # fraction of the entries that shrinkage does not change
        share = left_of_noise(self._release, np.random.default_rng(ROUNDING_SEED))
        return np.where(among, np.sqrt(max((share - seen) / (1 - seen), 1 / among.size)), 1.0)

    @cached_property
    def _kept(self) -> Matrix:
        """Factors by which the prior `v_ab` reduces the error in each entry, shape (q, q)."""
        diagonal, other = _variances(self._law)
        own = np.eye(len(self._values))
        prior = np.outer(self._values, self._values) * (1 + own) / PRIOR_ROWS
        noise = (other + (diagonal - other) * own) * self._left**2
        noise += self.clip.variances(self._vectors)
        return np.asarray(np.sqrt(prior / (prior + noise)))

    def left(self, noise: Matrix) -> Matrix:
        """Reduce a draw of the noise as shrinkage reduces the error of the estimate.

        Only directions below the noise level change. Shrinkage does not change the diagonal
        entries, because the noisy matrix estimates them well.

        Parameters
        ----------
        noise : ndarray, shape (d, d)
            Draw of the noise for transformed rows.

        Returns
        -------
        ndarray, shape (d, d)
            Reduced noise.

        """
        if np.all(self._left == 1):
            return noise
        p, vectors, noise = len(self._vectors), self._vectors, noise.copy()
        lost = (1 - self._left) * (vectors.T @ noise[:p, :p] @ vectors)
        gone = vectors @ lost @ vectors.T
        np.fill_diagonal(gone, 0.0)
        noise[:p, :p] -= gone
        return noise

    def kept(self, error: Matrix) -> Matrix:
        """Limit an error by the prior.

        In directions in which rows cannot vary, the sums determine the products. The errors of
        these products then follow from the errors of the sums.

        Parameters
        ----------
        error : ndarray, shape (d, d)
            Draw of the noise minus the clipping bias, for transformed rows.

        Returns
        -------
        ndarray, shape (d, d)
            Limited error.

        """
        p, vectors = len(self._vectors), self._vectors
        error = error.copy() if self._structure is None else self._structure.nearest(error)
        lost = (1 - self._kept) * (vectors.T @ error[:p, :p] @ vectors)
        error[:p, :p] -= vectors @ lost @ vectors.T
        return error


def _varying(moment: Matrix, free: Matrix, least: float) -> tuple[Matrix, Vector, Matrix]:
    """Raise the variances of a second moment to a minimum.

    Parameters
    ----------
    moment : ndarray, shape (d, d)
        Second moment.

    free : ndarray, shape (p, q)
        Orthonormal basis of the directions in which rows can vary.

    least : float
        Minimum of the sum of squares about the mean in each direction.

    Returns
    -------
    moment : ndarray, shape (d, d)
        Second moment with at least this minimum in each principal direction.

    values : ndarray, shape (q,)
        Sums of squares about the mean along the principal directions.

    vectors : ndarray, shape (p, q)
        Principal directions in the columns.

    """
    p, about = len(free), np.zeros_like(moment)
    if len(moment) > p:
        about = np.outer(moment[-1], moment[-1]) / moment[-1, -1]
    values, vectors = np.linalg.eigh(free.T @ (moment - about)[:p, :p] @ free)
    values, vectors = np.maximum(values, least), free @ vectors
    about[:p, :p] += (vectors * values) @ vectors.T
    return about, values, vectors


def _variances(law: MatrixLaw) -> tuple[float, float]:
    """Return the mean noise variances of a diagonal entry and of an off-diagonal entry."""
    d, diagonal = law.dimension, law.diagonal_variance
    return diagonal, (law.frobenius_squared - d * diagonal) / (d * (d - 1)) if d > 1 else diagonal


def estimate(release: Release) -> Matrix:
    """Return the estimate of the second moment that simulated errors are subtracted from.

    If cells may be missing, `possible` repairs the available-case covariance.

    Parameters
    ----------
    release : Release
        Any release with a whole matrix. Without a noise distribution, the estimate is the denoised
        matrix.

    Returns
    -------
    ndarray, shape (d, d)
        Second moment in squared units of an encoded row.

    """
    draws = np.random.default_rng(ROUNDING_SEED)
    incomplete = has_gaps(release.schema)
    if release.noise is None:
        matrix = release.with_count(release.second_moment())
        return (
            possible(release, matrix, sampling_errors(release, MIN_ERROR_DRAWS, draws))
            if incomplete
            else matrix
        )
    if incomplete:
        return PlausibleMoments(release, sampling=False, generator=draws).center
    law = release.noise.rescaled(release.lattice.step**2)
    return release.unmapped(_Directions(release, law).center)


def starting_point(release: Release) -> Matrix:
    """Return the noisy second moment for inference.

    The moment is not denoised, so its error is noise with a known distribution. If the number of
    rows is public or published separately, it replaces the noisy row-count entry.

    Parameters
    ----------
    release : Release
        Release with a whole matrix.

    Returns
    -------
    ndarray, shape (d, d)
        Second moment in squared units of an encoded row.

    """
    return release.with_count(_plain(release))


def _plain(release: Release) -> Matrix:
    """Return the noisy second moment plus the expected clipping bias."""
    if release.lengths is None:
        return release.noisy()
    whole = release if release.denoise != "none" else denoise(release, "project")
    taken = ClippingBias(release, release.mapped(whole.second_moment())).expected()
    return release.unmapped(release.noisy_mapped() + taken)


def sampling_errors(release: Release, draws: int, generator: np.random.Generator) -> Matrix:
    """Simulate sampling errors of the second moment.

    An error is the sum of g w w' over simulated rows w, with normal weights g of mean 0.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    draws : int
        Number of errors.

    generator : numpy.random.Generator
        Random numbers for the rows and the weights.

    Returns
    -------
    ndarray, shape (draws, d, d)
        Sampling errors in squared units of an encoded row.

    """
    rows = _weighted_rows(release, generator)
    weights = generator.standard_normal((draws, len(rows)))
    weights -= weights.mean(axis=1, keepdims=True)
    weights *= SAMPLING_ERROR_FACTOR
    d = rows.shape[1]
    errors = np.empty((draws, d, d))
    for j in range(d):
        products = weights @ (rows[:, : j + 1] * rows[:, [j]])
        errors[:, j, : j + 1] = errors[:, : j + 1, j] = products
    return errors


def _weighted_rows(release: Release, generator: np.random.Generator) -> Matrix:
    """Simulate encoded rows w such that the sum of g w w' is a sampling error.

    The weights g are standard normal. The rows are scaled so that the sum has the covariance of a
    sum over n independent rows, where n is the number of rows of the release.

    Returns
    -------
    ndarray, shape (m, d)
        Simulated rows.

    """
    moments = Moments.of(release)
    features, numeric = release.schema.variables, release.schema.encoded_columns
    low = np.array([-1.0 if feature.name in numeric else 0.0 for feature in features])
    means = np.clip(moments.encoded, low, 1.0)
    d = release.lattice.dimension
    count = max(
        int(np.clip(PSEUDO_ROW_ENTRIES // d**2, MIN_PSEUDO_ROWS, MAX_PSEUDO_ROWS)), 4 * (d - 1)
    )
    rows = means + pseudo_rows(means, moments.covariance, low, count, generator)
    if has_gaps(release.schema):
        rows = _with_missing_cells(release, rows, generator)
    whole = np.column_stack([rows, np.full(count, release.intercept())])
    return whole * (moments.count / count) ** 0.25


def _with_missing_cells(release: Release, rows: Matrix, generator: np.random.Generator) -> Matrix:
    """Remove cells at random, as often as cells are missing in the release.

    Parameters
    ----------
    release : Release
        Release with columns in which cells may be missing.

    rows : ndarray, shape (m, p)
        Encoded rows without missing cells.

    generator : numpy.random.Generator
        Random numbers for the missing cells.

    Returns
    -------
    ndarray, shape (m, d - 1)
        Encoded features, which include the missingness indicators.

    """
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
