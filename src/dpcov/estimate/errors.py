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
estimate. Let s^2 be the variance of the noise and of the clipping bias (`ClippingErrors`). An error
is then multiplied by sqrt(v / (v + s^2)), as in a normal posterior distribution. The variance l_a
is at least the standard deviation of its noise (`MIN_DIRECTION_SNR`), because a smaller variance
cannot be distinguished from 0.

With 100 or more features, the denoised estimate is much more accurate than the noise in all
directions below the noise level. Stein's estimate gives its total squared error
(`denoise.left_of_noise`). The errors in these directions are reduced accordingly.

**Clipping.** `published.clipping` estimates the loss. Simulated rows explain a part of it. The rest
has the shape of the moment. The true loss can differ from the estimate:

- T2, the total lost squared norm, can be much larger than its estimate, but hardly smaller. The two
  ends of an interval have different standard deviations (`Errors.asymmetry`).
- Along a single column or a principal axis, the rest can be larger or smaller than its fraction of
  T2. `COLUMN_LOSS_RELATIVE_SD` sets the size of these differences, and `AXIS_LOSS_FRACTION` divides
  them between columns and axes.
- All of the rest of T1, the total lost norm, can lie on one side of a mean, which shifts the mean.
- The part of simulated rows has an error too, which `SIMULATED_LOSS_RELATIVE_SD` sets.

**Rounding.** dpcov rounds every encoded value to a multiple of the lattice step. If the rows are
neither transformed nor weighted, all bounds, midpoints and levels of the schema are such multiples.
They also are multiples if `Standardized` transforms each column on its own. dpcov then sums these
values exactly (docs/proofs/release.md 2). Other values are rounded to the nearest multiple. A
column with few different values then has a similar rounding error in every row.

**Sampling.** Simulated rows with the estimated means and covariance replace the private rows.

**Effects.** `Stack` contains the means and covariances of many second moments at once.
`first_order` computes the effects of errors on statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from dpcov.core.samplers.weighted import WeightedSum
from dpcov.denoise import left_of_noise
from dpcov.denoise.shrinkage import MIN_CLOSED_FORM_ORDER
from dpcov.estimate.missing import DERIVATIVE_STEP, complete_moments
from dpcov.published import record
from dpcov.published.clipping import COLUMN_LOSS_RELATIVE_SD, SIMULATED_LOSS_RELATIVE_SD
from dpcov.published.pseudo_rows import pseudo_rows

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.core.samplers import MatrixLaw
    from dpcov.denoise.structure import Structure
    from dpcov.published.clipping import ClippingBias
    from dpcov.published.record import Record
    from dpcov.rows.schema import Schema

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
# divided by `STRUCTURE_SNR_DIVISOR`. Source: with half or twice a value, no mean half width differs
# by more than 1% (`make bench NAME=constants`).
MIN_DIRECTION_SNR, STRUCTURE_SNR_DIVISOR = 1.0, 10.0
# Fraction of the variance of a clipping bias that belongs to principal axes. Source: tuned on eight
# tables of the part `tune` of benchmarks/tables.toml. With 0, intervals for correlations cover 1%
# to 2% less. With 0.5, they cover up to 1% more and are 5% wider.
AXIS_LOSS_FRACTION = 0.25
# For order d, there are this many pseudo-rows divided by d^2. Source: with half or twice the value,
# no mean half width differs by more than 1% (`make bench NAME=constants`).
PSEUDO_ROW_ENTRIES = 5 * 10**5
# Smallest and largest number of pseudo-rows. Source of the largest: as above. Source of the
# smallest: not recorded.
MIN_PSEUDO_ROWS, MAX_PSEUDO_ROWS = 1000, 5000
# Factor for the sampling errors. It allows for rows that are extreme in several columns at once.
# Source: tuned.
SAMPLING_ERROR_FACTOR = 1.1


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

    back : ndarray, shape (d, d), or None
        Matrix of the map from transformed rows to encoded rows. None if rows are not transformed.

    clip : ClippingErrors
        Errors of the clipping bias of the estimate.

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
    back: Matrix | None
    clip: ClippingErrors
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

    def effects(
        self, functions: Sequence[Callable[[Array], Array]]
    ) -> Iterator[list[tuple[Array, Array, Array | float]]]:
        """Yield the first-order effects of a batch of errors on several functions.

        Parameters
        ----------
        functions : sequence of callable
            Functions from b second moments, shape (b, d, d), to statistics, shape (b, k).

        Yields
        ------
        list of tuple
            Effects of the three kinds of errors of `parts`, for each function. Without sampling
            errors, their effect is 0.

        """
        for kept, whole, sampling in self.parts():
            sampled = sampling.shape[1:] == self.center.shape
            yield [
                (
                    first_order(one, self.center, kept),
                    first_order(one, self.center, whole),
                    first_order(one, self.center, sampling) if sampled else 0.0,
                )
                for one in functions
            ]

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
        whole = self._encoded(noise - more) + rounding
        if self.directions is None:
            return whole, whole
        return self._encoded(self.directions.kept(noise) - more) + rounding, whole

    def asymmetry(self, functions: Sequence[Callable[[Array], Array]]) -> list[Array | float]:
        """Return by how much the two ends of an interval are farther or nearer than its error.

        Clipping can remove much more than estimated, but not less than nothing. The upper end of
        the interval for a variance is therefore farther from the estimate than the lower end.

        Parameters
        ----------
        functions : sequence of callable
            Functions from b second moments, shape (b, d, d), to statistics, shape (b, k).

        Returns
        -------
        list of ndarray, shape (2, k), or float
            What the lower and the upper end add to the variance of each statistic. A negative
            number brings an end nearer. 0 if no row was clipped.

        """
        direction, excess = self.clip.total_asymmetry()
        if not excess.any():
            return [0.0 for _ in functions]
        errors, ends = self._encoded(direction)[None], excess[:, None]
        slopes = [first_order(one, self.center, errors)[0] for one in functions]
        return [np.asarray(one**2 * np.where(one < 0, ends[::-1], ends)) for one in slopes]

    def _encoded(self, errors: Array) -> Array:
        """Convert errors of transformed rows to encoded rows."""
        return errors if self.back is None else record.congruent(self.back, errors)

    def _count_error(self, noise: Matrix, draws: np.random.Generator) -> float:
        """Return the error of the row-count entry.

        The error is 0 if the number of rows is public. If the release has a separate noisy count,
        the error combines both counts with the weights of the best count.
        """
        best, t = self.record.best_count, self.record.lattice.intercept_size
        if t and self.record.row_count is not None:
            return 0.0
        noisy = self.record.noisy_count
        if best is None or noisy is None or not t:
            return float(noise[-1, -1])
        of_entry = float(noise[-1, -1]) / t**2
        own = noisy.noise.simulate(draws) / best.row_units
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

    clip : ClippingErrors
        Errors of the clipping bias of the estimate.

    center : ndarray, shape (d, d)
        Second moment of the transformed rows. Its variance is positive in all q directions.

    values : ndarray, shape (q,)
        Sums of squares about the mean along the directions.

    vectors : ndarray, shape (p, q)
        Directions in the columns.

    """

    record: Record
    structure: Structure | None
    clip: ClippingErrors
    center: Matrix
    values: Vector
    vectors: Matrix

    @classmethod
    def of(
        cls, record: Record, structure: Structure | None, clip: ClippingErrors, moment: Matrix
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
        if self.record.lattice.dimension < MIN_CLOSED_FORM_ORDER:
            return None
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


# --- Clipping ---


class ClippingErrors:
    """Simulated errors of an estimated clipping bias.

    Without a norm histogram, all errors are 0.

    Parameters
    ----------
    release : Record
        Any release.

    clip : ClippingBias
        Estimated bias.

    """

    def __init__(self, release: Record, clip: ClippingBias) -> None:
        self._p, self._d = release.lattice.features, release.lattice.dimension
        self._is_estimated = release.lengths is not None
        self._intercept = release.lattice.intercept_size
        # change of the second moment for each unit of the total loss
        self._direction = np.zeros((self._d, self._d))
        self._direction[: self._p, : self._p] = clip.shape
        self._squared_norm, norm = clip.squared_norm, clip.norm
        self._size = _unexplained(
            self._squared_norm.estimate,
            self._squared_norm.standard_deviation,
            clip.simulated_squared_norm,
            COLUMN_LOSS_RELATIVE_SD,
        )
        # The sign of a lost sum is unknown, so the longer side of its interval counts.
        self._norm = _unexplained(norm.estimate, norm.upper, clip.simulated_norm, 1.0)
        # unit vectors of the table's columns among the transformed features, shape (p, p)
        self._columns = np.eye(self._p)
        if release.linear_map is not None:
            self._columns = release.linear_map / np.linalg.norm(release.linear_map, axis=0)
        values, axes = np.linalg.eigh(clip.shape)
        of_columns = np.full(self._p, (1 - AXIS_LOSS_FRACTION) / self._p)
        fractions = np.append(of_columns, AXIS_LOSS_FRACTION * np.maximum(values, 0.0))
        # columns and principal axes, shape (p, 2 p), with the deviations of their losses
        self._along = np.column_stack([self._columns, axes])
        self._deviations = self._size * np.sqrt(fractions)

    def total_asymmetry(self) -> tuple[Matrix, Vector]:
        """Return what the two ends of an interval add to the variance of the total loss.

        Returns
        -------
        direction : ndarray, shape (d, d)
            Change of the second moment of the transformed rows for each unit of the total loss.

        excess : ndarray, shape (2,)
            What the lower and the upper end add to the variance. A negative number brings an end
            nearer.

        """
        loss = self._squared_norm
        return self._direction, np.square((loss.lower, loss.upper)) - loss.standard_deviation**2

    def draw_total_error(self, generator: np.random.Generator) -> Matrix:
        """Draw the difference between the true total loss and its estimate.

        Parameters
        ----------
        generator : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray, shape (d, d)
            Difference, in the shape of the centered second moment. The sums lose nothing.

        """
        if not self._is_estimated:
            return np.zeros_like(self._direction)
        squared = self._squared_norm.standard_deviation * generator.standard_normal()
        return squared * self._direction

    def draw_shape_error(self, generator: np.random.Generator) -> Matrix:
        """Draw the difference between the entries of the true bias and of the estimated bias.

        Let A be the linear map of the rows, and let u be the normalized vector A e_j of column j,
        or a principal axis of the moment. Along u, the second moment loses a random multiple of
        u u'. Along a column, the sums lose a random multiple of t u. All multiples are normal with
        mean 0 (`_unexplained`).

        If large values have a common cause, rows lose along a principal axis. The fraction
        `AXIS_LOSS_FRACTION` of the variance therefore belongs to the axes, in proportion to their
        variances. The rest belongs to the p columns in equal parts.

        Parameters
        ----------
        generator : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray, shape (d, d)
            Difference, for the second moment of the transformed rows.

        """
        p, missing = self._p, np.zeros((self._d, self._d))
        if not self._is_estimated:
            return missing
        own = self._deviations * generator.standard_normal(2 * p)
        side = generator.standard_normal(p) / np.sqrt(p)
        missing[:p, :p] = (self._along * own) @ self._along.T
        if self._d > p:
            lost = self._intercept * self._norm * self._columns @ side
            missing[:p, -1] = missing[-1, :p] = lost
        return missing

    def variances(self, basis: Matrix) -> Matrix:
        """Compute the variances of the entries of `draw_shape_error` between features.

        Parameters
        ----------
        basis : ndarray, shape (p, q)
            Orthonormal directions of the transformed features.

        Returns
        -------
        ndarray, shape (q, q)
            Variances of the entries in this basis.

        """
        squares = (basis.T @ self._along) ** 2
        return np.asarray(squares * self._deviations**2 @ squares.T)


def _unexplained(
    estimate: float, standard_deviation: float, simulated: float, relative_sd: float
) -> float:
    """Return the standard deviation of a loss that simulated rows do not explain.

    Parameters
    ----------
    estimate : float
        Estimated loss.

    standard_deviation : float
        Standard deviation of the estimate, in the same units.

    simulated : float
        Part of the estimate that simulated rows lose too.

    relative_sd : float
        Standard deviation of the other part, as a fraction of its root mean square.

    Returns
    -------
    float
        Standard deviation in the units of the loss.

    """
    other = math.hypot(estimate - simulated, standard_deviation)
    return math.hypot(relative_sd * other, SIMULATED_LOSS_RELATIVE_SD * simulated)


# --- Rounding ---


def keeps_declared(release: Record) -> bool:
    """Return True if bounds, midpoints and levels are multiples of the lattice step."""
    declared = [np.ones(1)]
    if release.linear_map is not None:
        scales = np.diag(release.linear_map)
        if np.any(release.linear_map != np.diag(scales)):
            return False
        declared = [scales] if release.center is None else [scales, release.center * scales]
    steps = np.concatenate(declared) / release.lattice.step
    plain = release.schema.weight is None and not isinstance(release.noise, WeightedSum)
    return plain and math.frexp(release.lattice.step)[0] == 0.5 and bool(np.all(steps % 1 == 0))


def rounding(release: Record) -> Vector:
    """Return bounds on the rounding error of each entry of a row at a declared value.

    A bound is 0 if the declared values are multiples of the lattice step. Otherwise, it is half a
    step. Old release files with a `WeightedSum` divided rows by their norms, so the bound increases
    with the largest norm.

    For n rows, consider two features with the mean squares a and b and the bounds h_i and h_j. The
    error of their entry in the second moment is at most n (h_i sqrt(b) + h_j sqrt(a) + h_i h_j).

    Parameters
    ----------
    release : Record
        Any release.

    Returns
    -------
    ndarray, shape (d,)
        Bounds for the entries of a transformed row with its intercept.

    """
    lattice = release.lattice
    most = np.zeros(lattice.dimension)
    if keeps_declared(release):
        return most
    by_length = math.sqrt(lattice.bound) / 2**20 * isinstance(release.noise, WeightedSum)
    most[: lattice.features] = lattice.step / 2 * (1 + by_length)
    if release.schema.weight is not None:
        most[lattice.features :] = lattice.step / 2 * lattice.intercept_parts[0]
    return most


class RoundingErrors:
    """Simulated rounding errors of a second moment, with the same error in every row.

    Without an intercept, all errors are 0, because the sums of the features are unknown.

    Parameters
    ----------
    release : Record
        Any release.

    moment : ndarray, shape (d, d)
        Second moment of the encoded rows.

    back : ndarray, shape (d, d), or None
        Matrix of the map from transformed rows to encoded rows. None if rows are not transformed.

    """

    def __init__(self, release: Record, moment: Matrix, back: Matrix | None) -> None:
        self._most = rounding(release) if release.has_intercept else np.zeros(len(moment))
        if not self._most.any():
            return
        t = release.lattice.intercept_size
        self._sums = moment[:, -1] / t
        self._back = np.eye(len(moment)) if back is None else back
        self._count = self._sums[-1] / t

    def draw(self, generator: np.random.Generator) -> Matrix | float:
        """Draw an error of shape (d, d), or return 0 if there are no rounding errors."""
        if not self._most.any():
            return 0.0
        off = self._back @ (self._most * generator.uniform(-1.0, 1.0, len(self._most)))
        error = np.outer(off, self._sums)
        return error + error.T + self._count * np.outer(off, off)


# --- Sampling ---


@dataclass(frozen=True, slots=True)
class RowModel:
    """Model of the private rows, which gives sampling errors.

    Attributes
    ----------
    schema : Schema
        Schema with p variables.

    means : ndarray, shape (p,)
        Means of the encoded variables.

    covariance : ndarray, shape (p, p)
        Positive semidefinite covariance of the encoded variables.

    present : tuple of ndarray, shapes (p,) and (p, p), or None
        Fractions of rows that have each variable, and the covariance of having two variables. None
        if no cells can be missing.

    intercept : float
        Intercept of the encoded rows.

    count : float
        Number of rows of the table.

    """

    schema: Schema
    means: Vector
    covariance: Matrix
    present: tuple[Vector, Matrix] | None
    intercept: float
    count: float

    def rows(self, generator: np.random.Generator) -> Matrix:
        """Simulate m encoded rows with intercept, shape (m, d)."""
        rows = simulated_rows(self.schema, self.means, self.covariance, self.present, generator)
        return np.column_stack([rows, np.full(len(rows), self.intercept)])

    def errors(self, draws: int, generator: np.random.Generator) -> Array:
        """Simulate sampling errors of the second moment.

        Parameters
        ----------
        draws : int
            Number of errors.

        generator : numpy.random.Generator
            Random numbers for the rows and the weights.

        Returns
        -------
        ndarray, shape (draws, d, d)
            Sampling errors in squared units of an encoded row.

        """
        return weighted_errors(self.rows(generator), self.count, draws, generator)


def simulated_rows(
    schema: Schema,
    means: Vector,
    covariance: Matrix,
    present: tuple[Vector, Matrix] | None,
    generator: np.random.Generator,
) -> Matrix:
    """Simulate encoded rows that stand for the private rows.

    Parameters
    ----------
    schema : Schema
        Schema with p variables and q features.

    means : ndarray, shape (p,)
        Means of the encoded variables.

    covariance : ndarray, shape (p, p)
        Positive semidefinite covariance of the encoded variables.

    present : tuple of ndarray, shapes (p,) and (p, p), or None
        Fractions of rows that have each variable, and the covariance of having two variables. None
        if no cells can be missing.

    generator : numpy.random.Generator
        Random numbers for the rows.

    Returns
    -------
    ndarray, shape (m, q)
        Encoded features, which include the missingness indicators.

    """
    numeric = schema.encoded_columns
    low = np.array([-1.0 if one.name in numeric else 0.0 for one in schema.variables])
    means, q = np.clip(means, low, 1.0), len(schema.features)
    size = PSEUDO_ROW_ENTRIES // (q + 1) ** 2
    count = max(int(np.clip(size, MIN_PSEUDO_ROWS, MAX_PSEUDO_ROWS)), 4 * q)
    rows = means + pseudo_rows(means, covariance, low, count, generator)
    return rows if present is None else _with_missing_cells(schema, rows, *present, generator)


def _with_missing_cells(
    schema: Schema, rows: Matrix, shares: Vector, together: Matrix, generator: np.random.Generator
) -> Matrix:
    """Remove cells at random, as often as cells are missing in the release.

    Parameters
    ----------
    schema : Schema
        Schema with columns in which cells may be missing.

    rows : ndarray, shape (m, p)
        Encoded rows without missing cells.

    shares : ndarray, shape (p,)
        Fractions of rows that have each variable.

    together : ndarray, shape (p, p)
        Positive semidefinite covariance of having two variables.

    generator : numpy.random.Generator
        Random numbers for the missing cells.

    Returns
    -------
    ndarray, shape (m, q)
        Encoded features, which include the missingness indicators.

    """
    zeros = np.zeros(len(shares))
    present = shares + pseudo_rows(shares, together, zeros, len(rows), generator)
    variables = {feature.column: j for j, feature in enumerate(schema.variables)}
    found, at = np.empty((len(rows), len(schema.features))), iter(range(len(shares)))
    for j, feature in enumerate(schema.features):
        if feature.variable:
            k = next(at)
            found[:, j] = rows[:, k] * present[:, k]
        else:
            found[:, j] = 1 - present[:, variables[feature.column]]
    return found


def weighted_errors(
    rows: Matrix, count: float, draws: int, generator: np.random.Generator
) -> Array:
    """Simulate sampling errors of the second moment of independent rows.

    An error is the sum of g w w' over simulated rows w, with normal weights g of mean 0. The rows
    are scaled so that the sum has the covariance of a sum over all rows of the table.

    Parameters
    ----------
    rows : ndarray, shape (m, d)
        Simulated encoded rows with their intercept.

    count : float
        Number of rows of the table.

    draws : int
        Number of errors.

    generator : numpy.random.Generator
        Random numbers for the weights.

    Returns
    -------
    ndarray, shape (draws, d, d)
        Sampling errors in squared units of an encoded row.

    """
    rows = rows * (count / len(rows)) ** 0.25
    weights = generator.standard_normal((draws, len(rows)))
    weights -= weights.mean(axis=1, keepdims=True)
    weights *= SAMPLING_ERROR_FACTOR
    d = rows.shape[1]
    errors = np.empty((draws, d, d))
    for j in range(d):
        products = weights @ (rows[:, : j + 1] * rows[:, [j]])
        errors[:, j, : j + 1] = errors[:, : j + 1, j] = products
    return errors


# --- Means and covariances of many second moments ---


@dataclass(frozen=True, slots=True)
class Stack:
    """Means and covariances of encoded features for each of b second moments.

    A mean or covariance is NaN if the estimated number of rows with its values is not positive.

    Attributes
    ----------
    means : ndarray, shape (b, p)
        Means of the features.

    covariances : ndarray, shape (b, p, p)
        Covariances of the features.

    """

    means: Array
    covariances: Array

    @classmethod
    def of(cls, release: Record, matrices: Array) -> Self:
        if not release.has_intercept:
            record.refuse(record.NO_INTERCEPT)
        t = release.lattice.intercept_size
        if release.schema.missing_columns:
            matrices = complete_moments(release.schema, matrices, t)
        counts = matrices[:, -1, -1] / t**2
        counts = np.where(counts > 0, counts, np.nan)
        means = matrices[:, :-1, -1] / (t * counts[:, None])
        second = matrices[:, :-1, :-1] / counts[:, None, None]
        return cls(means, second - means[:, :, None] * means[:, None, :])

    def correlations(self) -> Array:
        """Return the (b, p, p) correlations, with NaN if a variance is not positive."""
        variances = np.diagonal(self.covariances, axis1=1, axis2=2)
        deviations = np.sqrt(np.where(variances > 0, variances, np.nan))
        correlations: Array = self.covariances / (deviations[:, :, None] * deviations[:, None, :])
        at = np.arange(variances.shape[1])
        correlations[:, at, at] = 1.0
        return correlations


def first_order(values: Callable[[Array], Array], center: Array, errors: Array) -> Array:
    """Return the first-order effects of errors of a second moment on statistics.

    Parameters
    ----------
    values : callable
        Function from b second moments, shape (b, d, d), to their statistics, shape (b, ...).

    center : ndarray, shape (d, d)
        Second moment without errors.

    errors : ndarray, shape (b, d, d)
        Errors of the second moment.

    Returns
    -------
    ndarray, shape (b, ...)
        Derivatives of the statistics in the direction of each error, by central differences.

    """
    after, before = (values(center + side * DERIVATIVE_STEP * errors) for side in (1, -1))
    return np.asarray((after - before) / (2 * DERIVATIVE_STEP))
