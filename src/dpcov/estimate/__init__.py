"""The estimate of a release: count, means, covariance, and the errors of all three.

Every analysis starts from `Estimate.of(release)`, which is computed once for each release. An
estimate uses the published numbers and the schema only, so it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.entropy import reading_generator
from dpcov.core.privacy import hidden_units
from dpcov.denoise import denoise, second_moment
from dpcov.denoise.structure import Structure, coherent_moments
from dpcov.errors import NotReleasedError, ReleaseError
from dpcov.estimate import missing
from dpcov.estimate.errors import (
    ERROR_DRAWS,
    MIN_DIRECTION_SNR,
    MIN_ERROR_DRAWS,
    ROUNDING_SEED,
    ClippingErrors,
    Directions,
    Errors,
    RoundingErrors,
    RowModel,
    number_of_errors,
)
from dpcov.estimate.sums import SumsErrors, moment_of_sums
from dpcov.published.clipping import ClippingBias
from dpcov.published.kinds import NoisyTrace
from dpcov.published.pseudo_rows import positive
from dpcov.published.record import affine, congruent

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Booleans, Matrix, Vector
    from dpcov.published.record import Record

ESTIMATE = "estimate"  # name in `Record.memory`
# Number of simulated errors of the count and of the means. Source: a standard deviation from 50
# normal draws has a relative standard error of 1 / sqrt(100), which is 10%.
COUNT_ERROR_DRAWS = 50
# Fraction of a second moment. A smaller variance is a rounding error. Source: not recorded.
VARIANCE_ROUNDING_FRACTION = 1e-13
# Smallest variance of an encoded feature that has correlations. Otherwise they are 0.
MIN_FEATURE_VARIANCE = 1e-12
MEANS_SENTENCE = "One row per person (their mean): relations between persons, not between visits."
MAX_NAMED_COLUMNS = 5  # Number of columns that a sentence names.
NOTHING_LEFT = (
    "The denoised matrix of this release is null, so there is nothing to analyse. "
    "Use a larger epsilon or more rows."
)
ALL_HIDDEN = (
    "The noise hides how many rows have a value in each column, so there is nothing to "
    "analyse. Use a larger epsilon or more rows."
)


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """What a release says about its table. Use `Estimate.of`, which computes it once.

    p is the number of features, and d is the order of the matrix. The properties are computed on
    first use.

    Attributes
    ----------
    record : Record
        Release that the estimate belongs to.

    """

    record: Record

    @classmethod
    def of(cls, release: Record) -> Estimate:
        """Return the estimate of a release."""
        if ESTIMATE not in release.memory:
            release.memory[ESTIMATE] = cls(release)
        found: Estimate = release.memory[ESTIMATE]
        return found

    @classmethod
    def required(cls, release: Record) -> Estimate:
        """Return the estimate of a release, or raise if there is nothing to analyse.

        Parameters
        ----------
        release : Record
            Any release.

        Returns
        -------
        Estimate
            Estimate with a denoised matrix that is not 0.

        Raises
        ------
        NotReleasedError
            The release lacks the whole matrix.
        ReleaseError
            The denoised matrix is 0.

        """
        _require(release.reasons.directions)
        found = cls.of(release)
        moment = found.second_moment
        matrix = found.coherent[1] if release.has_intercept else moment
        no_rows = release.has_intercept and moment[-1, -1] <= 0
        if no_rows or not moment.any() or not matrix.any():
            raise ReleaseError(ALL_HIDDEN if found.hidden.all() else NOTHING_LEFT)
        return found

    # --- The number of rows ---

    @cached_property
    def count(self) -> float:
        """Number of rows, at least 1. The number is an estimate if the exact number is private."""
        _require(self.record.reasons.count)
        return max(self.record.number_of_rows or 0.0, 1.0)

    @property
    def has_count(self) -> bool:
        """True if the release contains the number of rows, either exactly or with noise."""
        known = self.record.row_count is not None or self.record.noisy_count is not None
        return known or self.record.reasons.means is None

    @property
    def count_deviation(self) -> float | None:
        """Standard deviation of the noise in the number of rows.

        None if the number is public or not released, or if the noise distribution is unknown.
        """
        record = self.record
        if record.row_count is not None or not self.has_count:
            return None
        if record.best_count is not None:
            return record.best_count.deviation
        return None if record.noise is None else self.noise_deviations[0]

    def counted(self, moment: Matrix) -> Matrix:
        """Return a second moment whose row count is the best estimate of the number of rows.

        Parameters
        ----------
        moment : ndarray, shape (d, d)
            Second moment of the encoded rows.

        Returns
        -------
        ndarray, shape (d, d)
            Second moment with the best count. If the rows were centered, the count affects all
            entries.

        """
        record = self.record
        best = record.best_count
        known = record.row_count if best is None else best.value
        if known is None or not record.has_intercept:
            return moment
        t = record.lattice.intercept_size
        along = np.zeros(len(moment))
        along[-1] = 1.0
        if record.center is not None:
            along[:-1] = record.center / t
        return moment + (known * t**2 - moment[-1, -1]) * np.outer(along, along)

    # --- Means and covariances ---

    @property
    def _variables(self) -> list[int]:
        """Positions of the p variables among the encoded features."""
        return [j for j, feature in enumerate(self.record.schema.features) if feature.variable]

    @cached_property
    def centers(self) -> Vector:
        """Data values of the encoded value 0, shape (p,)."""
        return np.array([feature.center for feature in self.record.schema.variables])

    @cached_property
    def scales(self) -> Vector:
        """Data units in one encoded unit, shape (p,). A data value is center + scale * encoded."""
        return np.array([feature.scale for feature in self.record.schema.variables])

    def denoise(self) -> None:
        """Compute `second_moment` now, if the release contains a matrix."""
        if not self.record.reasons.matrix:
            self.second_moment  # noqa: B018 - the property keeps its value

    @cached_property
    def second_moment(self) -> Matrix:
        """Denoised second moment of the encoded rows, shape (d, d)."""
        _require(self.record.reasons.matrix)
        given = self.record.denoised
        return second_moment(self.record) if given is None else given

    @cached_property
    def moment(self) -> Matrix:
        """Second moment from which means and variances follow, shape (d, d).

        It is `second_moment`, or the second moment of uncorrelated features if the release holds
        sums in place of a matrix.
        """
        if (sums := self.record.sums_alone) is None:
            return self.second_moment
        return moment_of_sums(self.record, sums, None if self.record.denoise == "none" else 0.0)

    @cached_property
    def raw(self) -> tuple[Vector, Matrix]:
        """Means, shape (p,), and covariances, shape (p, p), before they become coherent.

        The covariances follow from the Schur complement of the intercept. Both are encoded. If the
        release holds sums, only the variances describe the table.
        """
        record = self.record
        _require(record.reasons.means)
        moment, gaps = self.moment, record.schema.missing_columns
        if gaps:
            moment = self.complete(self.counted(moment))
        sums, corner = moment[:-1, -1], moment[-1, -1]
        if corner <= 0:  # only the center of the rows is known
            about = np.zeros(len(sums))
            if record.center is not None:
                about = np.clip(record.center[self._variables], -1.0, 1.0)
            return about, np.zeros((len(sums), len(sums)))
        with np.errstate(all="ignore"):
            means = sums / corner * record.lattice.intercept_size if gaps else self._means(moment)
            mean = np.clip(means, -1.0, 1.0)
            centred = moment[:-1, :-1] - np.outer(sums, sums) / corner
        if not np.isfinite(centred).all():  # impossible for a positive semidefinite matrix
            raise ReleaseError(
                "The release contains numbers that are too large. Its file is damaged, or its "
                "denoised matrix is not positive semidefinite; denoise the release again."
            )
        nothing = np.abs(np.diag(centred)) <= VARIANCE_ROUNDING_FRACTION * np.diag(moment)[:-1]
        centred[nothing, :] = centred[:, nothing] = 0.0
        # Encoded values lie in [-1, 1], so no variance exceeds 1, even if the noisy count is small.
        count = self.count
        if record.denoise != "none":
            if gaps:
                return mean, missing.proper(centred / count)
            count = max(count, float(np.diag(centred).max(initial=0.0)))
        return mean, (centred + centred.T) / (2 * count)

    def _means(self, moment: Matrix) -> Vector:
        """Compute the encoded means: the sums divided by the best estimate of the number of rows.

        If the rows were centered, the sums contain differences from the center. An error of the
        count then has little effect on a mean near the center.

        Parameters
        ----------
        moment : ndarray, shape (d, d)
            Second moment of the encoded rows.

        Returns
        -------
        ndarray, shape (p,)
            Means of the encoded features.

        """
        record, t = self.record, self.record.lattice.intercept_size
        if record.noisy_count is None:
            return moment[:-1, -1] / moment[-1, -1] * t
        sums = record.mapped(moment)[:-1, -1] / (t * self.count)
        if record.linear_map is None:
            return sums
        center = np.zeros(len(sums)) if record.center is None else record.center
        return np.asarray(center + np.linalg.solve(record.linear_map, sums))

    @cached_property
    def coherent(self) -> tuple[Vector, Matrix]:
        """Coherent means, shape (p,), and covariances, shape (p, p), of the encoded features.

        Without denoising, the estimate stays as it is.
        """
        mean, covariance = self.raw
        record = self.record
        if record.denoise == "none":
            return mean, covariance
        noise = np.ones(len(mean))
        if record.linear_map is not None:
            noise = np.linalg.norm(np.linalg.inv(record.linear_map), axis=1)[self._variables]
        return coherent_moments(record.schema, mean, covariance, noise)

    @property
    def encoded(self) -> Vector:
        """Means of the encoded features, shape (p,)."""
        return self.coherent[0]

    @cached_property
    def means(self) -> Vector:
        """Means in the units of the data, shape (p,)."""
        return self.centers + self.scales * self.encoded

    @cached_property
    def variances(self) -> Vector:
        """Variances in the squared units of the data, shape (p,)."""
        return np.diag(self.coherent[1]) * self.scales**2

    @cached_property
    def covariance(self) -> Matrix:
        """Positive semidefinite covariance of the encoded features, shape (p, p)."""
        _require(self.record.not_released)
        return positive(self.coherent[1])

    @cached_property
    def correlation(self) -> Matrix:
        """Correlations of the features, shape (p, p), with 0 beside a variance that is 0."""
        _require(self.record.not_released)
        return correlation_of(self.coherent[1])

    @property
    def uninformative(self) -> bool:
        """True if no correlation rises above the noise, so that all correlations are 0.

        The property is also True if the release holds a trace and no matrix. It is False if the
        release contains no correlations for another reason.
        """
        record = self.record
        if record.published is None or record.not_released is not None:
            return record.published is None and record.find(NoisyTrace) is not None
        correlation = correlation_of(self.raw[1])
        return len(correlation) > 1 and np.array_equal(correlation, np.eye(len(correlation)))

    @property
    def hides_correlations(self) -> bool:
        """True if all correlations are 0 because of the noise."""
        return self.uninformative and self.record.noise is not None

    @cached_property
    def uncentred(self) -> Matrix:
        """Mean of x x' over rows x, shape (p, p), with data values in units of their half-range.

        Raises
        ------
        NotReleasedError
            The release has no intercept, and the midpoint of some bounds is not 0.

        """
        _require(self.record.reasons.directions)
        if self.record.has_intercept:
            means = self.means / self.scales
            return self.covariance + np.outer(means, means)
        if self.centers.any():
            raise NotReleasedError(
                "This release was made without an intercept, and its bounds are not symmetric "
                "about 0, so moments about 0 can't be had from it. Set intercept above 0."
            )
        return positive(self.second_moment) / self.count

    @property
    def deviations(self) -> Vector:
        """Standard deviations, or root mean squares without an intercept, shape (p,)."""
        matrix = self.coherent[1] if self.record.has_intercept else self.uncentred
        return np.sqrt(np.maximum(np.diag(matrix) * self.scales**2, 0.0))

    # --- Missing cells ---

    @cached_property
    def rows(self) -> Matrix:
        """Numbers of rows that have both of two variables, shape (p, p).

        The numbers lie between 0 and the number of all rows. The diagonal contains the number of
        rows of each variable.
        """
        schema, n = self.record.schema, self.record.count()
        p = len(schema.variables)
        if not schema.missing_columns:
            return np.full((p, p), n)
        moment, t = self.moment.copy(), self.record.lattice.intercept_size
        moment[-1, -1] = n * t**2
        return np.asarray(np.clip(missing.rows_of_pairs(schema, moment, t), 0.0, n))

    @property
    def hidden(self) -> Booleans:
        """True for each variable whose number of rows is below the noise level, shape (p,)."""
        schema = self.record.schema
        if not schema.missing_columns:
            return np.zeros(len(schema.variables), bool)
        return np.asarray(np.diag(self.rows) < self._least_rows)

    @cached_property
    def _least_rows(self) -> float:
        """Number of rows of a variable below which the noise hides the number."""
        return missing.least_rows(self.record)

    def fewest_rows(self, at: Sequence[int]) -> float:
        """Return the smallest number of rows that have any two of these variables.

        The parameter `at` contains the positions of the variables. If no cells can be missing, the
        result is the number of all rows.
        """
        return float(self.rows[np.ix_(at, at)].min())

    @cached_property
    def missing_shares(self) -> dict[str, float]:
        """Fraction of rows in which each column with missingness indicators is missing."""
        record = self.record
        if not record.schema.missing_columns or record.reasons.means is not None:
            return {}
        shares = 1 - np.diag(self.rows) / self.count
        names = [record.schema.features[j].name for j in record.schema.missing_columns]
        return {name: float(shares[record.columns.index(name)]) for name in names}

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Sentence about missing cells; none if cells cannot be missing."""
        shares = sorted(self.missing_shares.items(), key=lambda it: -it[1])
        if not shares:
            return ()
        named = ", ".join(f"{name} {share:.1%}" for name, share in shares[:MAX_NAMED_COLUMNS])
        left = len(shares) - MAX_NAMED_COLUMNS
        more = f" and {left} more columns" if left > 0 else ""
        return (
            "Each figure uses the rows that have all necessary cells. This is valid if cells are "
            f"missing completely at random. Missing: {named}{more}.",
        )

    def complete(self, moments: Array) -> Array:
        """Return the second moments that rows without missing cells have.

        A variable with a number of rows below the noise level gets the variance 0.

        Parameters
        ----------
        moments : ndarray, shape (..., d, d)
            Second moments of the encoded rows.

        Returns
        -------
        ndarray, shape (..., p + 1, p + 1)
            Second moments of the variables and the intercept.

        """
        schema, t = self.record.schema, self.record.lattice.intercept_size
        if not schema.missing_columns:
            return moments
        return missing.complete_moments(schema, moments, t, least=self._least_rows)

    def complete_errors(self, errors: Array) -> Array:
        """Convert errors of a second moment to errors of the `complete` one, to first order.

        Parameters
        ----------
        errors : ndarray, shape (..., d, d)
            Errors of the second moment of the encoded rows.

        Returns
        -------
        ndarray, shape (..., p + 1, p + 1)
            Errors of the complete second moment.

        """
        if not self.record.schema.missing_columns:
            return errors
        moment, step = self.moment, missing.DERIVATIVE_STEP
        return (self.complete(moment + step * errors) - self.complete(moment)) / step

    # --- Errors ---

    @cached_property
    def clipping(self) -> ClippingBias:
        """What clipping removed from the second moment."""
        return ClippingBias.of(self.record, self.second_moment)

    @cached_property
    def hidden_tails(self) -> tuple[Vector, Vector]:
        """Largest sums of squares and sums that an undetectable tail hides, each of shape (p,).

        The tail is the largest one that the norm histogram does not reject, or a few rows at the
        bound that the guarantee hides. It lies in one column alone and within its bounds. The
        results are in units of encoded rows, and relative to the center of the rows. They are 0 for
        levels and flags, which have no tail, and if the release has no norm histogram.
        """
        record = self.record
        squares, sums = np.zeros((2, record.lattice.features))
        if record.lengths is None:
            return squares, sums
        center = 0 * sums if record.center is None else record.center
        unit = sums + 1
        if record.linear_map is not None:
            unit = np.linalg.norm(record.linear_map, axis=0)
        rows = hidden_units(record.guarantee.budget) * record.lattice.unit.max_rows
        for at, feature in enumerate(record.schema.features):
            if not record.schema.is_binary(feature):
                longest = float(unit[at] * (1 + abs(center[at])))
                squared_norm, norm = record.lengths.largest_tail_losses(
                    record.lattice.radius, longest, rows
                )
                squares[at], sums[at] = squared_norm / unit[at] ** 2, norm / unit[at]
        return squares, sums

    @property
    def hides_norms(self) -> bool:
        """True if the noise hides the norms of most rows, so that the clipping bias is unknown."""
        lengths = self.record.lengths
        return lengths is not None and lengths.below_noise_level

    @property
    def is_mostly_rounding(self) -> bool:
        """True if the noise in a sum of squares is smaller than the rounding error.

        For n values up to 1, the rounding error has the standard deviation h sqrt(n / 3). Here h is
        half a lattice step, and each rounding error has a uniform distribution between -h and h.
        """
        if self.record.noise is None or not self.has_count:
            return False
        noise = math.sqrt(self.record.noise.diagonal_variance) * self.record.lattice.step**2
        rounding = self.record.lattice.step / 2 * math.sqrt((self.record.number_of_rows or 0) / 3)
        return noise <= rounding

    @cached_property
    def noisy(self) -> Matrix:
        """Noisy second moment plus the expected clipping bias, shape (d, d).

        The moment is not denoised, so its error is noise with a known distribution. If the number
        of rows is public or published separately, it replaces the noisy row-count entry.
        """
        record = self.record
        if record.lengths is None:
            return self.counted(record.noisy())
        whole = record if record.denoise != "none" else denoise(record, "project")
        bias = ClippingBias.of(record, second_moment(whole)).expected()
        return self.counted(record.unmapped(record.noisy_mapped() + bias))

    @cached_property
    def _directions(self) -> Directions:
        """Principal directions of the denoised matrix, with the limits of the errors."""
        record = self.record
        moment = record.mapped(self.counted(self.second_moment))
        if record.has_intercept:  # the row-count entry is at least the entry of one row
            moment[-1, -1] = max(moment[-1, -1], record.lattice.intercept_size**2)
        structure, clip = Structure.of(record), ClippingBias(record, moment)
        return Directions.of(record, structure, ClippingErrors(record, clip), moment)

    @cached_property
    def _back(self) -> Matrix | None:
        """Matrix of the map from transformed rows to encoded rows, shape (d, d)."""
        record, shift = self.record, None
        if record.linear_map is None:
            return None
        if record.center is not None:
            shift = record.center / record.lattice.intercept_size
        inverse = np.asarray(np.linalg.inv(record.linear_map), np.float64)
        return affine(inverse, shift, record.lattice.dimension)

    @cached_property
    def _limited(self) -> Matrix:
        """Denoised second moment with a positive variance in each direction, shape (d, d)."""
        if self.record.noise is None:
            return self.counted(self.second_moment)
        back, center = self._back, self._directions.center
        return center if back is None else congruent(back, center)

    @cached_property
    def center(self) -> Matrix:
        """Second moment that simulated errors are subtracted from, shape (d, d).

        Without a noise distribution, this is the denoised matrix. If cells may be missing, the
        available-case covariance is repaired (`missing.raised_covariance`).
        """
        record, draws = self.record, np.random.default_rng(ROUNDING_SEED)
        if not record.schema.missing_columns:
            return self._limited
        start, few = self._limited, MIN_ERROR_DRAWS
        noise = np.zeros((few, *start.shape))
        if record.noise is not None:
            noise = self._errors(draws, few, center=start).batch(few, draws, draws)[0]
        found = noise + self.row_model.errors(few, draws)
        return missing.raised_covariance(record.schema, start, record.lattice.intercept_size, found)

    def errors(
        self,
        *,
        sampling: bool,
        generator: np.random.Generator,
        draws: int = ERROR_DRAWS,
        alone: bool = False,
    ) -> Errors:
        """Return simulated errors: the joint distribution of the errors of all entries.

        Parameters
        ----------
        sampling : bool
            Include the sampling error. The errors then describe the population.

        generator : numpy.random.Generator
            Random numbers for the simulations.

        draws : int, default 519
            Number of errors. Large matrices get fewer errors.

        alone : bool, default False
            Use the noise distribution alone, without a prior. The errors are then about `noisy`,
            which is not denoised.

        Returns
        -------
        Errors
            Errors of `center`, or of `noisy`.

        Raises
        ------
        NotReleasedError
            The release has no noise distribution.

        """
        of_sums = self.record.sums_alone is not None
        _require(None if of_sums else self.record.reasons.law)
        rows = self.row_model if sampling else None
        draw: Callable[..., Errors] = self._errors_of_sums if of_sums else self._errors
        found = draw(generator, draws, alone=alone)
        if rows is None:
            return found
        own = generator.spawn(1)[0]  # separate, so that sampling does not change the noise
        return replace(found, sampling=rows.errors(found.draws, own))

    def _errors(
        self,
        generator: np.random.Generator,
        draws: int,
        *,
        alone: bool = False,
        center: Matrix | None = None,
    ) -> Errors:
        """Return errors of `center` without sampling errors."""
        if center is None:
            center = self.noisy if alone else self.center
        draws = number_of_errors(center, draws)
        record, limits = self.record, None if alone else self._directions
        if limits is None:
            clip = ClippingErrors(record, ClippingBias.of(record, center))
        else:
            clip = limits.clip
        rounding = RoundingErrors(record, center if alone else self._limited, self._back)
        nothing = np.zeros((draws, 1, 1))
        return Errors(record, center, self._back, clip, rounding, limits, generator, draws, nothing)

    def _errors_of_sums(
        self, generator: np.random.Generator, draws: int, *, alone: bool
    ) -> SumsErrors:
        """Return errors of means and variances only, without sampling errors."""
        record, sums = self.record, self.record.sums_alone
        _require(record.reasons.means)
        assert sums is not None  # noqa: S101  for type checkers; `errors` has checked it
        # A variance below the standard deviation of its noise cannot be distinguished from 0.
        least = MIN_DIRECTION_SNR * sums.noise.standard_deviation * record.lattice.step**2
        center = moment_of_sums(record, sums, None if alone else least)
        size = number_of_errors(center, draws)
        clip = ClippingErrors(record, ClippingBias.of(record, center))
        rounding = RoundingErrors(record, center, self._back)
        nothing = np.zeros((size, 1, 1))
        return SumsErrors(record, center, None, clip, rounding, None, generator, size, nothing)

    @cached_property
    def row_model(self) -> RowModel:
        """Model of the private rows, which gives sampling errors."""
        record, means, covariance = self.record, *self.coherent
        present = None
        if record.schema.missing_columns:
            pairs = self.rows / self.count
            shares = np.diag(pairs)
            present = shares, positive(pairs - np.outer(shares, shares))
        intercept = record.lattice.intercept_size
        return RowModel(record.schema, means, positive(covariance), present, intercept, self.count)

    @cached_property
    def noise_deviations(self) -> tuple[float, Vector]:
        """Standard deviations of the noise in the count, in rows, and in the encoded means, (p,).

        The standard deviation of a separately published count is known. All other standard
        deviations are root mean square distances between the release and simulated truths.
        """
        record, t, count = self.record, self.record.lattice.intercept_size, self.record.count()
        found = self.errors(
            sampling=False, generator=reading_generator(), draws=COUNT_ERROR_DRAWS, alone=True
        )
        away = count * t * np.append(self.encoded, t) - self.complete(found.center)[:, -1]
        moved = [self.complete_errors(batch)[:, :, -1] + away for batch in found.batches()]
        noise = np.concatenate(moved) / t
        counts = noise[:, -1] / t
        means = (noise[:, :-1] - np.outer(counts, self.encoded)) / self.count
        best = record.best_count
        of_count = float(np.sqrt(np.mean(counts**2))) if best is None else best.deviation
        return of_count, np.sqrt(np.mean(means**2, axis=0))


def has_dependent_rows(release: Record) -> bool:
    """Return True if a person can have several rows in the moments of a release."""
    return release.guarantee.unit.max_rows > 1


def dependent(release: Record, *, sampling: bool = True, design_effect: float | None = None) -> str:
    """Return a sentence about the rows of a person.

    Parameters
    ----------
    release : Record
        Any release.

    sampling : bool, default True
        Include the sentence about sampling errors, which applies if a person can have several rows.

    design_effect : float, optional
        Design effect that the sampling errors contain.

    Returns
    -------
    str
        Sentence; empty if the privacy unit is a row, or a person with at most one row.

    """
    unit = release.guarantee.unit
    if unit.aggregate is not None:
        return MEANS_SENTENCE
    if not (sampling and has_dependent_rows(release)):
        return ""
    if design_effect is not None:
        return (
            f"Sampling errors use the stated design effect {design_effect:g}, because one person "
            f"can have {unit.max_rows} rows."
        )
    return (
        f"Sampling errors assume independent rows. One person can have {unit.max_rows} rows here, "
        "so standard errors and intervals can be too small."
    )


def correlation_of(covariance: Matrix) -> Matrix:
    """Return the correlations of a covariance, with 0 beside a variance that is 0."""
    variances = np.diag(covariance)
    flat = variances <= MIN_FEATURE_VARIANCE
    deviations = np.sqrt(np.where(flat, 1.0, variances))
    correlation = covariance / np.outer(deviations, deviations)
    correlation[flat, :] = correlation[:, flat] = 0.0
    np.fill_diagonal(correlation, 1.0)
    return np.clip(correlation, -1.0, 1.0)


def _require(reason: str | None) -> None:
    """Raise `NotReleasedError` if there is a reason why the release lacks a figure."""
    if reason is not None:
        raise NotReleasedError(reason)
