"""The record of a release: its rounds, its guarantee, and facts that need no estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dpcov.errors import NotReleasedError
from dpcov.published.kinds import (
    DIRECTIONS,
    EstimatedMatrix,
    NoisyCount,
    NoisyMatrix,
    NoisySums,
    NoisyTrace,
    Published,
    Query,
    Round,
    RowMap,
)
from dpcov.published.norm_histogram import NormHistogram
from dpcov.rows.moment import Lattice, max_transformed_norm, units_per_row

if TYPE_CHECKING:
    from typing import Self

    from dpcov.core.arrays import Integers, Matrix, Vector
    from dpcov.core.privacy import Guarantee
    from dpcov.core.samplers import MatrixLaw
    from dpcov.rows.schema import Schema

Kind = TypeVar("Kind")
DIRECTIONS_RELEASE = "release of the directions query"  # name in `Record.memory`
NOT_PRIVATE = "reproducible: NOT PRIVATE"
# What each query publishes, for messages.
QUERY_WORDS: dict[Query, str] = {
    "pilot": "noisy sums of the pilot query",
    "directions": "a noisy second moment for the directions",
    "directions trace": "a noisy trace for the directions",
    "norms": "a noisy histogram of the norms of the rows",
    "matrix": "a second moment",
    "trace": "a noisy trace",
    "sums": "noisy sums for means and variances",
    "count": "a noisy number of rows",
}
HIDDEN_ROWS = (
    "This release holds only {held}, because the noise of this budget hides so few rows. "
    "Use a larger epsilon or more rows."
)
NO_MATRIX = (
    "This release holds only {held}, so it holds no covariances. "
    "Choose a mechanism that publishes a second moment, such as auto."
)
FEW_DIRECTIONS = (
    "This release holds only {held} of {order} directions of the second moment, so it holds no "
    "means, covariances or counts. Set {option} = {order}, or choose another mechanism."
)
NO_INTERCEPT = (
    "This release was made without an intercept, so it holds no means and covariances. "
    "Use second_moment(), or make a release with an intercept above 0."
)
NO_COUNT = (
    "This release was made without an intercept, so it holds no number of rows. "
    "Make a release with an intercept above 0."
)
NO_LAW = (
    "The noise of the mechanism {mechanism!r} has no known distribution, so dpcov cannot estimate "
    "the error of this release. Choose a mechanism that adds noise, such as auto."
)


def _provenance() -> dict[str, str]:
    """Return the library, the version and the date of a release that is made now."""
    today = datetime.now(UTC).date().isoformat()
    return {"library": f"dpcov {_version()}", "version": _version(), "date": today}


@cache  # reading the version can take longer than a release
def _version() -> str:
    """Return the version of dpcov."""
    return version("dpcov")


@dataclass(frozen=True, slots=True)
class Group:
    """Level of a column, if each level of the column has a release of its own.

    Attributes
    ----------
    column : str
        Name of the column.

    level : str
        Level of the column that the rows of the release have.

    together : Guarantee
        Guarantee of the releases of all levels together.

    """

    column: str
    level: str
    together: Guarantee


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Record:
    """Answers that a mechanism published, with the guarantee.

    p is the number of features, and d is the order of the matrix. With an intercept, d is p + 1.
    `dpcov.releases.Release` documents the fields.

    """

    schema: Schema
    guarantee: Guarantee
    mechanism: str
    parameters: Mapping[str, Any]
    rounds: tuple[Round, ...]
    unit_count: int | None
    reproducible: bool
    denoise: str = "none"
    denoised: Matrix | None = None
    provenance: Mapping[str, str] = field(default_factory=_provenance)
    group: Group | None = None

    # Estimates that were computed from the rounds, by name. They follow from the other fields.
    memory: dict[str, Any] = field(default_factory=dict, init=False)

    def __eq__(self, other: object) -> bool:
        """Return True if all fields are equal. Arrays are compared entry by entry."""
        if not isinstance(other, Record):
            return NotImplemented
        pairs = (
            (getattr(self, one.name), getattr(other, one.name))
            for one in fields(self)
            if one.name != "memory"
        )
        return all(
            np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs
            for mine, theirs in pairs
        )

    __hash__ = None  # type: ignore[assignment]

    def find(self, kind: type[Kind], query: Query | None = None) -> Kind | None:
        """Return the last published answer of a kind, or None if there is none.

        Parameters
        ----------
        kind : type
            One of the kinds of `dpcov.published.kinds`.

        query : str, optional
            Name of the query. The default excludes the directions query.

        Returns
        -------
        object or None
            Answer of this kind.

        """
        for one in reversed(self.rounds):
            asked = not one.query.startswith("directions") if query is None else one.query == query
            if asked and isinstance(one.published, kind):
                return one.published
        return None

    def with_published(self, query: Query, published: Published | None) -> Self:
        """Return the release with another answer to a query, or without the query.

        Simulations use such releases. The cost of the query stays the same.

        Parameters
        ----------
        query : str
            Name of the query.

        published : Published or None
            Answer of the query. None removes the query.

        Returns
        -------
        Release
            Copy of the release.

        """
        kept = [one if one.query != query else None for one in self.rounds]
        if published is not None:
            kept = [
                replace(mine, published=published) if new is None else new
                for mine, new in zip(self.rounds, kept, strict=True)
            ]
        return replace(self, rounds=tuple(one for one in kept if one is not None))

    @property
    def matrix(self) -> NoisyMatrix | EstimatedMatrix | None:
        """Published second moment, or None if the release contains no matrix."""
        return self.find(NoisyMatrix) or self.find(EstimatedMatrix)

    @property
    def lattice(self) -> Lattice:
        """Integer lattice of the rows of the last query, with the clipping radius."""
        answer = self.matrix or self.find(NoisyTrace)
        return Lattice.of(self.schema) if answer is None else answer.lattice

    @property
    def noise(self) -> MatrixLaw | None:
        """Distribution of the noise in the matrix, or None if it is not known."""
        matrix = self.find(NoisyMatrix)
        return None if matrix is None else matrix.noise

    @property
    def shift(self) -> int:
        """Binary exponent of the unit of `published`: 2^shift squared lattice steps."""
        matrix = self.matrix
        return 0 if matrix is None else matrix.shift

    @property
    def published(self) -> Integers | None:
        """Published integers of the second moment, shape (d, d), or None."""
        matrix = self.matrix
        return None if matrix is None else matrix.units

    @property
    def transform(self) -> RowMap | None:
        """Map that the mechanism applied before it clipped the rows, or None."""
        answer = self.find(NoisyMatrix) or self.find(NoisyTrace)
        return None if answer is None else answer.transform

    @property
    def linear_map(self) -> Matrix | None:
        """Matrix A of the map A (z - c) that the mechanism applied to the rows, or None."""
        return None if self.transform is None else self.transform.matrix

    @property
    def center(self) -> Vector | None:
        """Center c of the map A (z - c), shape (p,), or None for a center of 0."""
        center = None if self.transform is None else self.transform.center
        return None if center is None or not center.any() else center

    @property
    def lengths(self) -> NormHistogram | None:
        """Noisy histogram of the norms of the transformed rows, or None."""
        return self.find(NormHistogram)

    @property
    def directions(self) -> Self | None:
        """Second moment of the directions query as a release of its own, or None."""
        if DIRECTIONS_RELEASE not in self.memory:
            self.memory[DIRECTIONS_RELEASE] = self._directions()
        found: Self | None = self.memory[DIRECTIONS_RELEASE]
        return found

    def _directions(self) -> Self | None:
        """Return the release of the directions query. Its budget comes from a bisection."""
        asked = [one for one in self.rounds if one.query.startswith("directions")]
        if not asked:
            return None
        spent = sum((one.spent for one in asked if isinstance(one.spent, Fraction)), Fraction(0))
        names = {after: before for before, after in DIRECTIONS.items()}
        return replace(
            self,
            guarantee=self.guarantee.of_part(spent),
            rounds=tuple(replace(one, query=names[one.query]) for one in asked),
            denoise="none",
            denoised=None,
            group=None,
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the p features, without the indicators of missing cells.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> release.columns
        ('x0', 'x1')

        """
        return tuple(feature.name for feature in self.schema.variables)

    @property
    def has_intercept(self) -> bool:
        """True if the encoded rows contain an intercept, so that the release contains means.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> release.has_intercept
        True

        """
        return self.lattice.dimension > self.lattice.features

    @property
    def row_count(self) -> int | None:
        """Number of rows if it is public, else None.

        The number of rows is public under replace-one, if the release protects rows without
        weights.

        See Also
        --------
        Release.count : Exact number of rows, or a private estimate.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> options = {"epsilon": 1.0, "neighbors": "replace-one"}
        >>> dpcov.release(np.eye(50), lower=0, upper=1, **options).row_count
        50

        """
        plain = self.guarantee.unit.column is None and self.schema.weight is None
        return self.unit_count if plain else None

    @property
    def clipped(self) -> bool:
        """True if the mechanism may have clipped rows at a private radius.

        The published second moment then describes the clipped rows.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> options = {"epsilon": 1.0, "mechanism": "matrix-laplace"}
        >>> dpcov.release(np.eye(50), lower=0, upper=1, **options).clipped
        False

        """
        longest = self.schema.effective_radius
        if self.linear_map is not None:
            exclusive = self.schema.indicators.values()
            longest = max_transformed_norm(self.linear_map, self.center, longest, exclusive)
        return self.lattice.radius < longest * (1 - 1e-9)

    def noisy(self) -> Matrix:
        """Return the published second moment of the encoded rows.

        Returns
        -------
        ndarray, shape (d, d)
            Second moment in squared units of an encoded row. The estimate is unbiased for the
            clipped rows if the mechanism adds noise with the distribution `noise`.

        Raises
        ------
        NotReleasedError
            The release holds no second moment.

        See Also
        --------
        Release.second_moment : Denoised second moment.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> release.noisy().shape
        (3, 3)

        """
        return self.unmapped(self.noisy_mapped())

    def noisy_mapped(self) -> Matrix:
        """Return the published second moment of the transformed rows.

        Returns
        -------
        ndarray, shape (d, d)
            Second moment in squared units of a transformed row; see `linear_map`.

        Raises
        ------
        NotReleasedError
            The release holds no second moment.

        See Also
        --------
        Release.noisy : Published second moment of the encoded rows.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> release.noisy_mapped().shape
        (3, 3)

        """
        refuse(matrix_reason(self))
        assert self.published is not None  # noqa: S101  for type checkers: the line above
        return self.published.astype(np.float64) * (2.0**self.shift * self.lattice.step**2)

    def mapped(self, matrix: Matrix) -> Matrix:
        """Convert second moments of encoded rows to transformed rows.

        Parameters
        ----------
        matrix : ndarray, shape (..., d, d)
            Second moments of the encoded rows.

        Returns
        -------
        ndarray, shape (..., d, d)
            Second moments of the transformed rows; see `linear_map`.

        See Also
        --------
        Release.unmapped : Inverse transformation.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> moment = release.second_moment()
        >>> np.allclose(release.unmapped(release.mapped(moment)), moment)
        True

        """
        if self.linear_map is None:
            return matrix
        shift = None if self.center is None else -self.linear_map @ self.center / self.intercept()
        return _congruent(self.linear_map, shift, matrix)

    def unmapped(self, matrix: Matrix) -> Matrix:
        """Convert second moments of transformed rows to encoded rows.

        Parameters
        ----------
        matrix : ndarray, shape (..., d, d)
            Second moments of the transformed rows; see `linear_map`.

        Returns
        -------
        ndarray, shape (..., d, d)
            Second moments of the encoded rows.

        See Also
        --------
        Release.mapped : Inverse transformation.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> np.allclose(release.unmapped(release.noisy_mapped()), release.noisy())
        True

        """
        if self.linear_map is None:
            return matrix
        shift = None if self.center is None else self.center / self.intercept()
        return _congruent(np.linalg.inv(self.linear_map).astype(np.float64), shift, matrix)

    def intercept(self) -> float:
        """Return the constant t that dpcov appends to each encoded row.

        Returns
        -------
        float
            Intercept in units of an encoded row; 0 if the release has no intercept.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0, intercept=0)
        >>> release.intercept()
        0.0

        """
        return self.lattice.intercept_units * self.lattice.step

    @property
    def not_released(self) -> str | None:
        """Reason why the release contains no covariances and correlations, or None.

        A release of sums contains means and variances, although it contains no covariances.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> print(release.not_released)
        None

        """
        return moments_reason(self)

    def count(self) -> float:
        """Return the number of rows, or a private estimate of this number.

        The number is exact if it is public. Otherwise, dpcov combines the published count and the
        count in the matrix or in the sums, weighted by their inverse variances. A release without a
        published count uses the noisy matrix or the sums only.

        Returns
        -------
        float
            Number of rows, at least 0. With survey weights, the sum of the weights divided by the
            largest weight.

        Raises
        ------
        NotReleasedError
            The release contains no number of rows.

        See Also
        --------
        dpcov.drowned : Warnings about a count that is below the noise level.

        Notes
        -----
        With survey weights w, Kish's effective sample size is (sum w)^2 / sum w^2. This size is at
        least the returned number.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.full((5000, 2), 0.5), lower=0, upper=1, epsilon=10.0)
        >>> bool(abs(release.count() - 5000) < 200)
        True

        """
        if self.row_count is not None:
            return float(self.row_count)
        if (best := CountEstimate.of(self)) is not None:
            return max(0.0, best.value)
        refuse(directions_reason(self) or (None if self.has_intercept else NO_COUNT))
        corner = self.noisy()[-1, -1]
        return max(0.0, float(corner / self.intercept() ** 2))

    def with_denoised(self, method: str, matrix: Matrix | None) -> Self:
        """Return the same release with another denoised matrix.

        Parameters
        ----------
        method : str
            Denoising method.

        matrix : ndarray, shape (d, d), or None
            Denoised second moment of the encoded rows.

        Returns
        -------
        Release
            Copy of the release.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> release.with_denoised("none", None).denoise
        'none'

        """
        return replace(self, denoise=method, denoised=matrix)


def _congruent(linear_map: Matrix, shift: Matrix | None, matrix: Matrix) -> Matrix:
    """Return A M A' for the map A from (z, t) to (L z + shift t, t).

    Parameters
    ----------
    linear_map : ndarray, shape (p, p)
        Matrix L.

    shift : ndarray, shape (p,), or None
        Shift in units of the intercept; None for 0.

    matrix : ndarray, shape (..., d, d)
        Second moments M.

    Returns
    -------
    ndarray, shape (..., d, d)
        Second moments of the mapped rows.

    """
    whole = np.eye(matrix.shape[-1])
    whole[: len(linear_map), : len(linear_map)] = linear_map
    if shift is not None:
        whole[: len(linear_map), -1] = shift
    image = whole @ matrix @ whole.T
    return (image + image.swapaxes(-2, -1)) / 2


@dataclass(frozen=True, slots=True)
class CountEstimate:
    """Best unbiased estimate of a private number of rows.

    Attributes
    ----------
    value : float
        Weighted mean of the published count and the count in the published matrix or sums. The
        weights are the inverse variances.

    of_corner : float
        Weight of the count in the matrix or in the sums, between 0 and 1. The weight is 0 if only
        the published count contains the number of rows.

    deviation : float
        Standard deviation of the noise in `value`, in rows.

    """

    value: float
    of_corner: float
    deviation: float

    @classmethod
    def of(cls, release: Record) -> CountEstimate | None:
        """Return the best estimate for a release, or None if the matrix alone has the count.

        Parameters
        ----------
        release : Release
            Any release.

        Returns
        -------
        CountEstimate or None
            Estimate of the number of rows.

        """
        noisy, sums, t = release.find(NoisyCount), sums_of(release), release.lattice.intercept_units
        if noisy is None and (sums is None or not t or release.row_count is not None):
            return None
        matrix = release.find(NoisyMatrix)
        corner = other = math.inf
        if t and matrix is not None:
            corner = float(matrix.units[-1, -1]) * 2.0**matrix.shift / t**2
            other = math.sqrt(matrix.noise.diagonal_variance) / t**2
        elif t and sums is not None:
            corner, other = sums.values[-1] / t**2, sums.noise.standard_deviation / t**2
        if noisy is None:
            return cls(corner, 1.0, other)
        unit = units_per_row(release.schema)
        own, alone = noisy.noise.standard_deviation / unit, noisy.value / unit
        if other == math.inf:
            return cls(alone, 0.0, own)
        weight = 1 / (1 + (other / own) ** 2)
        value = weight * corner + (1 - weight) * alone
        return cls(value, weight, own * other / math.hypot(own, other))


def sums_of(release: Record) -> NoisySums | None:
    """Return the sums that a release holds in place of a noisy matrix, or None."""
    return None if release.noise is not None else release.find(NoisySums, "sums")


def knows_noise(release: Record) -> bool:
    """Return True if the distribution of the noise in the matrix or in the sums is known."""
    return release.noise is not None or sums_of(release) is not None


def matrix_reason(release: Record) -> str | None:
    """Return the reason why a release holds no second moment, or None if it holds one.

    The reason names what the release holds.
    """
    if release.matrix is not None:
        return None
    *first, last = (QUERY_WORDS[one.query] for one in release.rounds)
    held = f"{', '.join(first)}, and {last}" if first else last
    return (NO_MATRIX if release.find(NoisyTrace) is None else HIDDEN_ROWS).format(held=held)


def directions_reason(release: Record) -> str | None:
    """Return the reason why a release does not hold the whole matrix, or None if it does."""
    matrix, order = release.matrix, release.lattice.dimension
    if isinstance(matrix, EstimatedMatrix) and matrix.directions < order:
        option = "components" if "components" in release.parameters else "rank"
        return FEW_DIRECTIONS.format(held=matrix.directions, order=order, option=option)
    return matrix_reason(release)


def moments_reason(release: Record) -> str | None:
    """Return the reason why a release holds no means and covariances, or None if it holds them."""
    return directions_reason(release) or (None if release.has_intercept else NO_INTERCEPT)


def means_reason(release: Record) -> str | None:
    """Return the reason why a release holds no means and variances, or None if it holds them."""
    if sums_of(release) is None:
        return moments_reason(release)
    return None if release.has_intercept else NO_INTERCEPT


def law_reason(release: Record) -> str | None:
    """Return the reason why the error of a release is not known, or None if it is known."""
    if reason := directions_reason(release):
        return reason
    return NO_LAW.format(mechanism=release.mechanism) if release.noise is None else None


def refuse(reason: str | None) -> None:
    """Raise `NotReleasedError` if there is a reason."""
    if reason is not None:
        raise NotReleasedError(reason)
