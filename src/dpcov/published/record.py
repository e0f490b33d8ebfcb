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


@dataclass(frozen=True, slots=True)
class Reasons:
    """Sentences on why a release does not hold some figures. None for figures that it holds.

    Attributes
    ----------
    matrix : str or None
        Reason for the second moment. It names what the release holds.

    directions : str or None
        Reason for the whole second moment, with all directions.

    moments : str or None
        Reason for means, covariances and correlations.

    means : str or None
        Reason for means and variances.

    count : str or None
        Reason for the number of rows.

    law : str or None
        Reason why the error of the second moment is not known.

    """

    matrix: str | None
    directions: str | None
    moments: str | None
    means: str | None
    count: str | None
    law: str | None

    @classmethod
    def of(cls, release: Record) -> Reasons:
        """Return the reasons of a release, whose other facts are set."""
        matrix, order = release.matrix, release.lattice.dimension
        reason = directions = None if matrix is not None else _reason_without_matrix(release)
        if isinstance(matrix, EstimatedMatrix) and matrix.directions < order:
            option = "components" if "components" in release.parameters else "rank"
            directions = FEW_DIRECTIONS.format(held=matrix.directions, order=order, option=option)
        intercept = None if release.has_intercept else NO_INTERCEPT
        law = None if release.noise is not None else NO_LAW.format(mechanism=release.mechanism)
        known = release.row_count is not None or release.best_count is not None
        return cls(
            matrix=reason,
            directions=directions,
            moments=directions or intercept,
            means=directions or intercept if release.sums_alone is None else intercept,
            count=None if known else directions or (intercept and NO_COUNT),
            law=directions or law,
        )


def _reason_without_matrix(release: Record) -> str:
    """Return the reason why a release holds no second moment, with the names of what it holds."""
    *first, last = (QUERY_WORDS[one.query] for one in release.rounds)
    held = f"{', '.join(first)}, and {last}" if first else last
    return (NO_MATRIX if release.find(NoisyTrace) is None else HIDDEN_ROWS).format(held=held)


class Facts:
    """Facts that follow from the fields of a record. They are set when the record is built.

    Attributes
    ----------
    matrix : NoisyMatrix, EstimatedMatrix or None
        Published second moment, or None if the release contains no matrix.

    published : ndarray of int, shape (d, d), or None
        Published integers of the second moment.

    shift : int
        Binary exponent of the unit of `published`: 2^shift squared lattice steps.

    noise : MatrixLaw or None
        Distribution of the noise in the matrix, or None if it is not known.

    lengths : NormHistogram or None
        Noisy histogram of the norms of the transformed rows.

    sums_alone : NoisySums or None
        Sums that the release holds in place of a noisy matrix.

    knows_noise : bool
        True if the distribution of the noise in the matrix or in the sums is known.

    lattice : Lattice
        Integer lattice of the rows of the last query, with the clipping radius.

    transform : RowMap or None
        Map that the mechanism applied before it clipped the rows.

    linear_map : ndarray, shape (p, p), or None
        Matrix A of the map A (z - c) that the mechanism applied to the rows.

    center : ndarray, shape (p,), or None
        Center c of the map A (z - c), or None for a center of 0.

    has_intercept : bool
        True if the encoded rows contain an intercept, so that the release contains means.

    clipped : bool
        True if the mechanism may have clipped rows at a private radius. The published second moment
        then describes the clipped rows.

    row_count : int or None
        Number of rows if it is public. It is public under replace-one, if the release protects rows
        without weights.

    noisy_count : NoisyCount or None
        Number of rows that was published with noise, apart from the matrix.

    best_count : CountEstimate or None
        Estimate of a private number of rows, or None if the matrix alone has the number.

    number_of_rows : float or None
        Result of `count`, or None if the release contains no number of rows.

    reasons : Reasons
        Reasons why the release does not hold some figures.

    """

    matrix: NoisyMatrix | EstimatedMatrix | None
    published: Integers | None
    shift: int
    noise: MatrixLaw | None
    lengths: NormHistogram | None
    sums_alone: NoisySums | None
    knows_noise: bool
    lattice: Lattice
    transform: RowMap | None
    linear_map: Matrix | None
    center: Vector | None
    has_intercept: bool
    clipped: bool
    row_count: int | None
    noisy_count: NoisyCount | None
    best_count: CountEstimate | None
    number_of_rows: float | None
    reasons: Reasons
    columns: tuple[str, ...]
    """Names of the p features, without the indicators of missing cells."""
    not_released: str | None
    """Reason why the release contains no covariances and correlations, or None.

    A release of sums contains means and variances, although it contains no covariances.
    """


@dataclass(frozen=True, repr=False, eq=False)
class Record(Facts):
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

    def __post_init__(self) -> None:
        """Set the facts. A later fact may use the facts before it."""
        noisy, trace = self.find(NoisyMatrix), self.find(NoisyTrace)
        matrix = noisy or self.find(EstimatedMatrix)
        rows, mapped = matrix or trace, noisy or trace
        transform = None if mapped is None else mapped.transform
        centered = transform is not None and transform.center.any()
        sums = None if noisy is not None else self.find(NoisySums, "sums")
        lattice = Lattice.of(self.schema) if rows is None else rows.lattice
        public = self.guarantee.unit.column is None and self.schema.weight is None
        self._set(
            matrix=matrix,
            published=None if matrix is None else matrix.units,
            shift=0 if matrix is None else matrix.shift,
            noise=None if noisy is None else noisy.noise,
            lengths=self.find(NormHistogram),
            noisy_count=self.find(NoisyCount),
            sums_alone=sums,
            knows_noise=noisy is not None or sums is not None,
            lattice=lattice,
            transform=transform,
            linear_map=None if transform is None else transform.matrix,
            center=transform.center if transform is not None and centered else None,
            has_intercept=lattice.dimension > lattice.features,
            row_count=self.unit_count if public else None,
            columns=tuple(feature.name for feature in self.schema.variables),
        )
        self._set(clipped=_is_clipped(self), best_count=CountEstimate.of(self))
        self._set(reasons=Reasons.of(self))
        self._set(not_released=self.reasons.moments, number_of_rows=_row_count(self))

    def _set(self, **facts: Any) -> None:
        """Set attributes of this frozen object."""
        for name, value in facts.items():
            object.__setattr__(self, name, value)

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
        refuse(self.reasons.matrix)
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
        return congruent(affine(self.linear_map, shift, self.lattice.dimension), matrix)

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
        back = np.asarray(np.linalg.inv(self.linear_map), np.float64)
        return congruent(affine(back, shift, self.lattice.dimension), matrix)

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
        return self.lattice.intercept_size

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
        if self.number_of_rows is None:
            raise NotReleasedError(self.reasons.count)
        return self.number_of_rows

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


def _is_clipped(release: Record) -> bool:
    """Return True if the radius of a release is smaller than the largest norm of a row."""
    longest, matrix = release.schema.effective_radius, release.linear_map
    if matrix is None:
        return release.lattice.radius < longest * (1 - 1e-9)
    rows = (matrix, release.center, longest, release.schema.indicators.values())
    with np.errstate(all="ignore"):  # a file can contain huge numbers
        # The norm of a column is a lower bound of the spectral norm, which takes longer.
        least = float(np.linalg.norm(matrix, axis=0).max())
        bounds = (max_transformed_norm(*rows, spectral=one) for one in (least, None))
        return any(release.lattice.radius < bound * (1 - 1e-9) for bound in bounds)


def _row_count(release: Record) -> float | None:
    """Return the exact or estimated number of rows, or None if it is not released."""
    if release.row_count is not None:
        return float(release.row_count)
    if release.best_count is not None:
        return max(0.0, release.best_count.value)
    if release.reasons.count is not None or release.published is None:
        return None
    entry = float(release.published[-1, -1]) * (2.0**release.shift * release.lattice.step**2)
    return max(0.0, entry / release.lattice.intercept_size**2)  # no map changes this entry


def affine(linear_map: Matrix, shift: Vector | None, order: int) -> Matrix:
    """Return the matrix A of the map from (z, t) to (L z + shift t, t).

    Parameters
    ----------
    linear_map : ndarray, shape (p, p)
        Matrix L.

    shift : ndarray, shape (p,), or None
        Shift in units of the intercept; None for 0.

    order : int
        Order d of the second moments.

    Returns
    -------
    ndarray, shape (d, d)
        Matrix A.

    """
    whole = np.eye(order)
    whole[: len(linear_map), : len(linear_map)] = linear_map
    if shift is not None:
        whole[: len(linear_map), -1] = shift
    return whole


def congruent(whole: Matrix, matrix: Matrix) -> Matrix:
    """Return A M A', the second moments M of rows that the map A changed, shape (..., d, d)."""
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

    row_units : int
        Integer that represents one row in the published count.

    """

    value: float
    of_corner: float
    deviation: float
    row_units: int = 1

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
        noisy, sums, t = (
            release.find(NoisyCount),
            release.sums_alone,
            release.lattice.intercept_units,
        )
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
            return cls(alone, 0.0, own, unit)
        weight = 1 / (1 + (other / own) ** 2)
        value = weight * corner + (1 - weight) * alone
        return cls(value, weight, own * other / math.hypot(own, other), unit)


def refuse(reason: str | None) -> None:
    """Raise `NotReleasedError` if there is a reason."""
    if reason is not None:
        raise NotReleasedError(reason)
