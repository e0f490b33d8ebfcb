"""Simulated errors of an estimated second moment.

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
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpcov.denoise import left_of_noise
from dpcov.estimate.rounding import RoundingErrors
from dpcov.published.kinds import NoisyCount
from dpcov.published.record import CountEstimate
from dpcov.rows.moment import units_per_row

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.core.samplers import MatrixLaw
    from dpcov.denoise.clipped import ClippingBias
    from dpcov.denoise.structure import Structure
    from dpcov.published.record import Record

# Usual number of simulated errors, and the number for large matrices. 2.5% of 520 and of 120 are
# whole numbers, so the ends of 95% intervals need no interpolation.
ERROR_DRAWS, MIN_ERROR_DRAWS = 519, 119
# Largest number of entries in all drawn matrices. To save time, larger matrices get fewer errors.
MAX_DRAWN_ENTRIES = 10**7
# Largest number of entries of the matrices in memory at once: 16 MiB.
MAX_BATCH_ENTRIES = 2**21
# Seed of the draws of rounding errors, so that the other draws stay the same.
ROUNDING_SEED = 20_251_124
# Degrees of freedom of the prior. Source: tuned; 1 gives wider and 9 gives shorter intervals.
PRIOR_ROWS = 3.0
# Smallest variance of a direction, in standard deviations of its noise. dpcov then sets products of
# two levels of the same column to 0. The smallest variance after this change is `MIN_DIRECTION_SNR`
# divided by `STRUCTURE_SNR_DIVISOR`. Source: not recorded.
MIN_DIRECTION_SNR, STRUCTURE_SNR_DIVISOR = 1.0, 10.0


@dataclass(frozen=True, eq=False)
class Errors:
    """Simulated errors of an estimate: `center` minus an error is a plausible second moment.

    Each error contains the noise, the clipping bias and rounding. If `sampling` is not zero, an
    error can also contain the sampling error to first order.

    Attributes
    ----------
    record : Record
        Release with a noise distribution.

    center : ndarray, shape (d, d)
        Estimate of the second moment, in squared units of an encoded row.

    clip : ClippingBias
        Clipping bias of the estimate.

    rounding : RoundingErrors
        Rounding errors of the estimate.

    directions : Directions or None
        Limits of the errors. None for errors with the noise distribution alone.

    generator : numpy.random.Generator
        Random numbers for the simulations.

    draws : int
        Number of errors.

    sampling : ndarray, shape (draws, d, d) or (draws, 1, 1)
        Sampling errors, or zeros if the errors do not include sampling.

    """

    record: Record
    center: Matrix
    clip: ClippingBias
    rounding: RoundingErrors
    directions: Directions | None
    generator: np.random.Generator
    draws: int
    sampling: Array

    def batches(self) -> Iterator[Array]:
        """Yield all errors in batches of shape (b, d, d)."""
        for noise, _ in self.both():
            yield noise

    def both(self) -> Iterator[tuple[Array, Array]]:
        """Yield batches of the errors, and of the same errors without the limits of the prior."""
        for kept, whole, sampling in self.parts():
            yield kept + sampling, whole + sampling

    def parts(self) -> Iterator[tuple[Array, Array, Array]]:
        """Yield batches of three kinds of errors.

        Yields
        ------
        kept : ndarray, shape (b, d, d)
            Errors due to the noise, clipping and rounding.

        whole : ndarray, shape (b, d, d)
            The same errors without the limits of the prior.

        sampling : ndarray, shape (b, d, d) or (b, 1, 1)
            Sampling errors, or zeros without sampling errors.

        """
        size = max(1, MAX_BATCH_ENTRIES // self.center.size)
        separate = np.random.default_rng(ROUNDING_SEED)  # so that rounding changes no other draw
        for start in range(0, self.draws, size):
            stop = min(start + size, self.draws)
            yield *self.batch(stop - start, self.generator, separate), self.sampling[start:stop]

    def batch(
        self, size: int, draws: np.random.Generator, rounding_draws: np.random.Generator
    ) -> tuple[Array, Array]:
        """Draw errors due to the noise, clipping and rounding.

        Parameters
        ----------
        size : int
            Number b of errors.

        draws : numpy.random.Generator
            Random numbers for the noise and the clipping bias.

        rounding_draws : numpy.random.Generator
            Random numbers for rounding.

        Returns
        -------
        kept : ndarray, shape (b, d, d)
            Errors.

        whole : ndarray, shape (b, d, d)
            The same errors without the limits of the prior.

        """
        law = _row_units(self.record)
        noise, more = np.empty((2, size, *self.center.shape))
        rounding = np.zeros_like(noise)
        for at in range(size):
            drawn = law.simulate(draws)
            if self.directions is not None:
                drawn = self.directions.left(drawn)
            noise[at] = drawn - self.clip.draw_shape_error(draws)
            noise[at, -1, -1] = self._count_error(noise[at], draws)
            more[at] = self.clip.draw_total_error(draws)
            rounding[at] = self.rounding.draw(rounding_draws)
        whole = self.record.unmapped(noise - more) + rounding
        if self.directions is None:
            return whole, whole
        return self.record.unmapped(self.directions.kept(noise) - more) + rounding, whole

    @cached_property
    def _count(self) -> CountEstimate | None:
        return CountEstimate.of(self.record)

    @cached_property
    def _intercept(self) -> float:
        return self.record.intercept()

    def _count_error(self, noise: Matrix, draws: np.random.Generator) -> float:
        """Return the error of the row-count entry.

        The error is 0 if the number of rows is public. If the release has a separate noisy count,
        the error combines both counts with the weights of the best count.
        """
        best, t = self._count, self._intercept
        if t and self.record.row_count is not None:
            return 0.0
        noisy = self.record.find(NoisyCount)
        if best is None or noisy is None or not t:
            return float(noise[-1, -1])
        of_entry = float(noise[-1, -1]) / t**2
        own = noisy.noise.simulate(draws) / units_per_row(self.record.schema)
        return (best.of_corner * of_entry + (1 - best.of_corner) * own) * t**2


@dataclass(frozen=True, eq=False)
class Directions:
    """Principal directions of the denoised estimate, with the limits of the errors in them.

    q is the number of directions in which rows can vary.

    Attributes
    ----------
    record : Record
        Release with a noise distribution.

    structure : Structure or None
        Equations of the schema's levels.

    clip : ClippingBias
        Clipping bias of the estimate.

    center : ndarray, shape (d, d)
        Second moment of the transformed rows. Its variance is positive in all q directions.

    values : ndarray, shape (q,)
        Sums of squares about the mean along the directions.

    vectors : ndarray, shape (p, q)
        Directions in the columns.

    """

    record: Record
    structure: Structure | None
    clip: ClippingBias
    center: Matrix
    values: Vector
    vectors: Matrix

    @classmethod
    def of(
        cls, record: Record, structure: Structure | None, clip: ClippingBias, moment: Matrix
    ) -> Directions:
        """Return the directions of a second moment of the transformed rows."""
        p, law = record.lattice.features, _row_units(record)
        free = np.eye(p) if structure is None else structure.free(p)
        least = MIN_DIRECTION_SNR * np.sqrt(law.diagonal_variance)
        center, values, vectors = _varying(moment, free, least)
        if structure is not None:  # products of two levels of the same column are 0
            nearest = structure.nearest(center)
            center = _varying(nearest, free, least / STRUCTURE_SNR_DIVISOR)[0]
        return cls(record, structure, clip, center, values, vectors)

    @cached_property
    def _left(self) -> Matrix | None:
        """Factors by which shrinkage reduces the noise in each entry, shape (q, q).

        None if all factors are 1.
        """
        hidden = self.values <= np.median(self.values) + _row_units(self.record).detectable
        among = np.outer(hidden, hidden)
        seen = 1 - float(np.mean(among))  # fraction of the entries that shrinkage does not change
        share = left_of_noise(self.record, np.random.default_rng(ROUNDING_SEED))
        factor = np.sqrt(max((share - seen) / (1 - seen), 1 / among.size))
        return None if factor == 1 else np.where(among, factor, 1.0)

    @cached_property
    def _kept(self) -> Matrix:
        """Factors by which the prior `v_ab` reduces the error in each entry, shape (q, q)."""
        diagonal, other = _variances(_row_units(self.record))
        own = np.eye(len(self.values))
        prior = np.outer(self.values, self.values) * (1 + own) / PRIOR_ROWS
        noise = other + (diagonal - other) * own
        if self._left is not None:
            noise = noise * self._left**2
        noise += self.clip.variances(self.vectors)
        return np.asarray(np.sqrt(prior / (prior + noise)))

    def left(self, noise: Matrix) -> Matrix:
        """Reduce a draw of the noise, as shrinkage reduces the noise of the estimate.

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
        if self._left is None:
            return noise
        p, vectors, noise = len(self.vectors), self.vectors, noise.copy()
        lost = (1 - self._left) * (vectors.T @ noise[:p, :p] @ vectors)
        gone = vectors @ lost @ vectors.T
        np.fill_diagonal(gone, 0.0)
        noise[:p, :p] -= gone
        return noise

    def kept(self, errors: Array) -> Array:
        """Limit errors by the prior.

        In directions in which rows cannot vary, the sums determine the products. The errors of
        these products then follow from the errors of the sums.

        Parameters
        ----------
        errors : ndarray, shape (..., d, d)
            Draws of the noise minus the clipping bias, for transformed rows.

        Returns
        -------
        ndarray, shape (..., d, d)
            Limited errors.

        """
        p, vectors = len(self.vectors), self.vectors
        errors = errors.copy() if self.structure is None else self.structure.nearest(errors)
        lost = (1 - self._kept) * (vectors.T @ errors[..., :p, :p] @ vectors)
        errors[..., :p, :p] -= vectors @ lost @ vectors.T
        return errors


def number_of_errors(center: Matrix, draws: int) -> int:
    """Return the number of errors to draw, which is smaller for large matrices."""
    return min(max(MAX_DRAWN_ENTRIES // center.size, MIN_ERROR_DRAWS), draws)


def _row_units(record: Record) -> MatrixLaw:
    """Return the distribution of the noise in squared units of a row."""
    assert record.noise is not None  # noqa: S101  for type checkers; the estimate has checked it
    return record.noise.rescaled(record.lattice.step**2)


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
