"""The true second moments that a release leaves plausible: one estimate, and draws of its error.

The published matrix is S + Z, with Z of a public law. Where S is large beside Z nothing more need
be said: an error is a draw of Z. Where noise drowns a direction of the rows, Z alone would leave
variances below 0 plausible, and with them regressions of any size. But S is positive semidefinite,
and an entry of it is no larger than the variances of its directions allow. So in the directions of
the denoised estimate, with variances l, an entry of the moment about the mean is given the prior
variance

    v_ab = l_a l_b (1 + [a = b]) / `PRIOR_ROWS`

about the estimate, which is the law of a Wishart matrix of `PRIOR_ROWS` degrees of freedom. With
noise and what a clip may have taken (`denoise.clipped`) of variance s^2, an error keeps the share
sqrt(v / (v + s^2)) of its size, as a normal posterior would have it. A direction's variance is
taken to be at least the standard deviation of its noise (`MIN_DIRECTION_SNR`), as a smaller one is
not told from none.

At orders from 100 the estimate is far better than the noise among directions that do not rise
above it. Its squared error in all is told by Stein's estimate (`denoise.left_of_noise`), so errors
among those directions are smaller by as much.
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
from dpcov.denoise.clipped import Clip
from dpcov.denoise.structure import Structure
from dpcov.releases import NoisyCount, held
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
# Number of rows of the prior. Source: tuned; 1 gives wider and 9 gives shorter intervals.
PRIOR_ROWS = 3.0
# Smallest variance of a direction, in standard deviations of its noise, and the divisor of this
# limit after products of categories become 0. Source: not recorded.
MIN_DIRECTION_SNR, STRUCTURE_SNR_DIVISOR = 1.0, 10.0


class PlausibleMoments:
    """Plausible true second moments: a center, minus simulated errors.

    For the population's moments an error is a draw of the noise plus one of the sampling error, to
    first order: rows with the released moments (`pseudo_rows`) under random weights of mean 0.
    What rounding may have done where declared values are off the lattice is one of the errors.

    Parameters
    ----------
    alone : whether by the noise law alone: about `starting_point`, which is not denoised.

    Attributes
    ----------
    center : (d, d) the estimate, or `starting_point`.
    draws : number of errors.

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
        held.refuse(held.law_reason(release))
        assert release.noise is not None  # noqa: S101  for type checkers: the line above
        self._law = release.noise.rescaled(release.lattice.step**2)
        self._release = release
        self._generator = generator
        self._count = NoisyCount.of(release)
        self._directions = None if alone else _Directions(release, self._law)
        if self._directions is None:
            self.center = starting_point(release)
            self._clip = Clip(release, release.mapped(self.center))
        else:
            self.center = release.unmapped(self._directions.center)
            self._clip = self._directions.clip
        self._rounding = RoundingErrors(release, self.center)
        self._off = np.random.default_rng(ROUNDING_SEED)  # so that other draws are as without it
        self.draws = min(max(MAX_DRAWN_ENTRIES // self.center.size, MIN_ERROR_DRAWS), draws)
        if self._directions is not None and has_gaps(release.schema):
            self.center = possible(release, self.center, self._few())
        self._sampling = np.zeros((self.draws, 1, 1))
        if sampling:
            own = generator.spawn(1)[0]  # so that the noise is the same without it
            self._sampling = sampling_errors(release, self.draws, own)

    def errors(self) -> Iterator[Matrix]:
        """All errors, in batches of shape (b, d, d); a plausible truth is `center` minus one."""
        for noise, _ in self.both():
            yield noise

    def both(self) -> Iterator[tuple[Matrix, Matrix]]:
        """The errors, and beside them the same draws at their whole size."""
        for kept, whole, sampling in self.parts():
            yield kept + sampling, whole + sampling

    def parts(self) -> Iterator[tuple[Matrix, Matrix, Matrix]]:
        """The errors of the noise alone, the same at their whole size, and those of sampling."""
        size = max(1, MAX_BATCH_ENTRIES // self.center.size)
        for start in range(0, self.draws, size):
            stop = min(start + size, self.draws)
            drawn = (self._noise(self._generator, self._off) for _ in range(start, stop))
            kept, whole = zip(*drawn, strict=True)
            yield np.stack(kept), np.stack(whole), self._sampling[start:stop]

    def _few(self) -> Matrix:
        """(b, d, d) errors with those of sampling, the same each time."""
        draws = np.random.default_rng(ROUNDING_SEED)
        noise = np.stack([self._noise(draws, draws)[0] for _ in range(MIN_ERROR_DRAWS)])
        return noise + sampling_errors(self._release, MIN_ERROR_DRAWS, draws)

    def _noise(
        self, draws: np.random.Generator, rounding_draws: np.random.Generator
    ) -> tuple[Matrix, Matrix]:
        noise = self._law.simulate(draws)
        if self._directions is not None:
            noise = self._directions.left(noise)
        noise -= self._clip.drawn(draws)
        noise[-1, -1] = self._count_error(noise, draws)
        more, rounding = self._clip.more(draws), self._rounding.draw(rounding_draws)
        whole = self._release.unmapped(noise - more) + rounding
        if self._directions is None:
            return whole, whole
        kept = self._directions.kept(noise) - more
        return self._release.unmapped(kept) + rounding, whole

    def _count_error(self, noise: Matrix, draws: np.random.Generator) -> float:
        """The error of the best count, as the corner has it; 0 where the count is public.

        The corner's own where there is none that is better.
        """
        release, best, t = self._release, self._count, self._release.intercept()
        if release.has_intercept and release.row_count is not None:
            return 0.0
        if best is None or release.count_noise is None or not release.has_intercept:
            return float(noise[-1, -1])
        of_entry = float(noise[-1, -1]) / t**2
        own = release.count_noise.simulate(draws) / units_per_row(release.schema)
        return (best.of_corner * of_entry + (1 - best.of_corner) * own) * t**2


class _Directions:
    """The estimate in its own directions, and what its errors keep there.

    Attributes
    ----------
    center : (d, d) second moment of mapped rows; no direction in which rows can lie is without
        variance.

    """

    def __init__(self, release: Release, law: MatrixLaw) -> None:
        p = release.lattice.features
        self._structure = Structure.of(release)
        free = np.eye(p) if self._structure is None else self._structure.free(p)
        moment = release.mapped(release.with_count(release.second_moment()))
        if release.has_intercept:  # the corner of no rows at all is that of one
            moment[-1, -1] = max(moment[-1, -1], release.intercept() ** 2)
        self.clip = Clip(release, moment)
        self._release, self._law = release, law
        least = MIN_DIRECTION_SNR * np.sqrt(law.diagonal_variance)
        self.center, self._values, self._vectors = _varying(moment, free, least)
        if self._structure is not None:  # products of two levels of a column are none
            nearest = self._structure.nearest(self.center)
            self.center = _varying(nearest, free, least / STRUCTURE_SNR_DIVISOR)[0]

    @cached_property
    def _left(self) -> Matrix:
        """(q, q) what shrinking leaves of the size of the noise in an entry."""
        drowned = self._values <= np.median(self._values) + self._law.detectable
        among = np.outer(drowned, drowned)
        seen = 1 - float(np.mean(among))  # the share of the noise in entries that are as they were
        share = left_of_noise(self._release, np.random.default_rng(ROUNDING_SEED))
        return np.where(among, np.sqrt(max((share - seen) / (1 - seen), 1 / among.size)), 1.0)

    @cached_property
    def _kept(self) -> Matrix:
        """(q, q) share of its size that an error in an entry keeps: `v_ab` above has it."""
        diagonal, other = _variances(self._law)
        own = np.eye(len(self._values))
        prior = np.outer(self._values, self._values) * (1 + own) / PRIOR_ROWS
        noise = (other + (diagonal - other) * own) * self._left**2
        noise += self.clip.variances(self._vectors)
        return np.asarray(np.sqrt(prior / (prior + noise)))

    def left(self, noise: Matrix) -> Matrix:
        """(d, d) what shrinking leaves of a draw of the noise, where errors of it are known.

        Among directions that do not rise above the noise it is less, by as much as the estimate's
        squared error is less in all; columns' own entries are told by the noisy matrix as they are.
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
        """(d, d) what a draw of the noise, less what a clip may have taken, leaves plausible.

        Where rows can not lie but at their mean, products are those of sums, with their errors.
        """
        p, vectors = len(self._vectors), self._vectors
        error = error.copy() if self._structure is None else self._structure.nearest(error)
        lost = (1 - self._kept) * (vectors.T @ error[:p, :p] @ vectors)
        error[:p, :p] -= vectors @ lost @ vectors.T
        return error


def _varying(moment: Matrix, free: Matrix, least: float) -> tuple[Matrix, Vector, Matrix]:
    """(d, d) moment about whose mean no direction has less than this, and those directions.

    Returns
    -------
    The moment, the (q,) sums of squares along its directions, and these, (p, q).

    """
    p, about = len(free), np.zeros_like(moment)
    if len(moment) > p:
        about = np.outer(moment[-1], moment[-1]) / moment[-1, -1]
    values, vectors = np.linalg.eigh(free.T @ (moment - about)[:p, :p] @ free)
    values, vectors = np.maximum(values, least), free @ vectors
    about[:p, :p] += (vectors * values) @ vectors.T
    return about, values, vectors


def _variances(law: MatrixLaw) -> tuple[float, float]:
    """Of an entry on the diagonal and of another, alike in every basis or on average."""
    d, diagonal = law.dimension, law.diagonal_variance
    return diagonal, (law.frobenius_squared - d * diagonal) / (d * (d - 1)) if d > 1 else diagonal


def estimate(release: Release) -> Matrix:
    """(d, d) second moment in squared units of an encoded row: what errors are about.

    Without a noise law it is the denoised one. Where cells may be missing its available-case
    covariance is a `possible` one.
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
    taken = Clip(release, release.mapped(whole.second_moment())).expected()
    return release.unmapped(release.noisy_mapped() + taken)


def sampling_errors(release: Release, draws: int, generator: np.random.Generator) -> Matrix:
    """(draws, d, d) sampling errors: sum g w w' over pseudo-rows w, with weights g of mean 0."""
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
    """(m, d) encoded rows w such that sum g w w', g standard normal, is the sampling error of S.

    Its covariance is that of the sum over n independent rows: n Cov(w w').
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
