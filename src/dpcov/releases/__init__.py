"""Releases: the noisy matrix, the guarantee, and everything that dpcov computes from both.

No function of this package reads data. Every computation from a release costs no further privacy.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpcov.core.files import read_text, write
from dpcov.core.printable import printable, shown
from dpcov.core.show import html
from dpcov.core.show.table import LONGEST, Row, Table
from dpcov.errors import ReleaseError
from dpcov.releases import dates, held
from dpcov.releases.advisories import VOID, advisories
from dpcov.releases.pairwise import completed, has_gaps, least_rows, proper
from dpcov.rows.moment import Lattice, longest_image, units_per_row

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers, Matrix, Vector
    from dpcov.core.privacy import Guarantee
    from dpcov.core.samplers import MatrixLaw, ScalarLaw
    from dpcov.core.show.frames import Library
    from dpcov.releases.lengths import Lengths
    from dpcov.rows.schema import Schema

    Which = Literal["covariance", "correlation", "second_moment"]

NOT_PRIVATE = "reproducible: NOT PRIVATE"
SEEDED = "NOT PRIVATE: made with a seed, for tests only."
NAMED = 5  # Number of features that the short form of a release names.
ROUNDING = 1e-13  # Fraction of a second moment. A smaller variance is a rounding error.
LARGEST_FILE = 2**33  # Bytes. The largest possible schema needs less.
SMALLEST_VARIANCE = 1e-12  # Variance of an encoded feature. Below it, all correlations are 0.


def _provenance() -> dict[str, str]:
    today = datetime.now(UTC).date().isoformat()
    return {"library": f"dpcov {_version()}", "version": _version(), "date": today}


@cache  # reading the version can take longer than a release
def _version() -> str:
    return version("dpcov")


class VoidReleaseWarning(UserWarning):
    """Warning about a release file whose guarantee may be void because of an old fault."""


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
class NoisyCount:
    """Best unbiased estimate of a private number of rows.

    Attributes
    ----------
    value : float
        Weighted mean of the published count and the count in the published matrix. The weights are
        the inverse variances.

    of_corner : float
        Weight of the count in the matrix, between 0 and 1. The weight is 0 if only the published
        count contains the number of rows.

    deviation : float
        Standard deviation of the noise in `value`, in rows.

    """

    value: float
    of_corner: float
    deviation: float

    @classmethod
    def of(cls, release: Release) -> NoisyCount | None:
        """Return the best estimate for a release, or None if the release publishes no noisy count.

        Parameters
        ----------
        release : Release
            Any release.

        Returns
        -------
        NoisyCount or None
            Estimate of the number of rows.

        """
        if release.published_count is None or release.count_noise is None:
            return None
        unit, t = units_per_row(release.schema), release.lattice.intercept_units
        own = release.count_noise.standard_deviation / unit
        alone = release.published_count / unit
        if not t or release.noise is None or release.published is None:
            return cls(alone, 0.0, own)
        corner = float(release.published[-1, -1]) * 2.0**release.shift / t**2
        other = math.sqrt(release.noise.diagonal_variance) / t**2
        weight = 1 / (1 + (other / own) ** 2)
        value = weight * corner + (1 - weight) * alone
        return cls(value, weight, own * other / math.hypot(own, other))


@dataclass(frozen=True, slots=True)
class Sums:
    """Noisy sums of a pilot query, which estimates the means and variances of the features.

    Attributes
    ----------
    values : tuple of int, length 2 p + 1
        Sums over the rows, each plus noise. The first p sums are of the squared features. The next
        p sums are of the features times the intercept. The last sum is of the squared intercept.
        All sums are in squared lattice steps of the schema, before any linear map.

    law : ScalarLaw
        Distribution of the noise in each sum.

    """

    values: tuple[int, ...]
    law: ScalarLaw


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Release:
    """Second moment of a table, released with differential privacy.

    p is the number of features, and d is the order of the matrix. With an intercept, d is p + 1.

    Parameters
    ----------
    schema : Schema
        Declaration of the columns.

    lattice : Lattice
        Integer lattice of the encoded rows.

    guarantee : Guarantee
        Privacy guarantee: the budget, the neighbouring tables and the privacy unit.

    mechanism : str
        Name of the mechanism.

    parameters : mapping of str
        Options of the mechanism.

    noise : MatrixLaw or None
        Public distribution of the noise in the matrix. None if the mechanism does not only add
        noise; some mechanisms sample eigenvectors, for example.

    trace_noise : ScalarLaw or None
        Public distribution of the noise in the trace. None if the release has no separate trace.

    shift : int
        Binary exponent of the unit of `published`: one unit is 2^shift squared lattice steps.

    published : ndarray of int, shape (d, d), or None
        Second moment plus noise, or the estimate of the mechanism. None if the release holds the
        trace only.

    published_trace : int or None
        Trace of the second moment plus noise, in squared lattice steps.

    unit_count : int or None
        Number of rows or persons. None under add-remove, where this number is private.

    reproducible : bool
        True if a seed was used. Such a release is NOT PRIVATE.

    linear_map : ndarray, shape (p, p), or None
        Map A that the mechanism applied before it clipped the rows. The transformed row is A (z -
        c) for encoded features z. `published` and `lattice` then describe transformed rows.

    center : ndarray, shape (p,), or None
        Center c that the mechanism subtracted before the map. None stands for 0.

    denoise : str
        Denoising method: ``none``, ``project`` or ``shrink``.

    denoised : ndarray, shape (d, d), or None
        Denoised second moment, in squared units of an encoded row.

    provenance : mapping of str
        Library, version, date and data source of the release.

    group : Group or None
        Level of the rows, if each level of a column has a release of its own. In this case
        `guarantee` describes this release alone under add-remove.

    published_count : int or None
        Number of rows plus noise, in units of 1 / `units_per_row`. With survey weights, each row
        counts as its weight divided by the largest weight. None under replace-one, for mechanisms
        of papers, and for weighted rows without an intercept.

    count_noise : ScalarLaw or None
        Public distribution of the noise in the count.

    lengths : Lengths or None
        Noisy histogram of the norms of the transformed rows. The mechanism chose the clipping
        radius from the histogram, and dpcov estimates the clipping bias from the histogram.

    sums : Sums or None
        Noisy sums of the pilot query. None if the mechanism has no pilot query.

    directions : Release or None
        Second moment of the directions query. None if the mechanism has no directions query.

    See Also
    --------
    dpcov.release : Make a release.
    dpcov.load : Read a release file.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> release.columns
    ('x0', 'x1')
    >>> bool(abs(release.mean()[0] - 0.5) < 0.05)
    True

    """

    schema: Schema
    lattice: Lattice
    guarantee: Guarantee
    mechanism: str
    parameters: Mapping[str, Any]
    noise: MatrixLaw | None
    trace_noise: ScalarLaw | None
    shift: int
    published: Integers | None
    published_trace: int | None
    unit_count: int | None
    reproducible: bool
    linear_map: Matrix | None = None
    center: Matrix | None = None
    denoise: str = "none"
    denoised: Matrix | None = None
    provenance: Mapping[str, str] = field(default_factory=_provenance)
    group: Group | None = None
    published_count: int | None = None
    count_noise: ScalarLaw | None = None
    lengths: Lengths | None = None
    sums: Sums | None = None
    directions: Release | None = None

    def __eq__(self, other: object) -> bool:
        """Return True if all fields are equal. Arrays are compared entry by entry."""
        if not isinstance(other, Release):
            return NotImplemented
        pairs = ((getattr(self, one.name), getattr(other, one.name)) for one in fields(self))
        return all(
            np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs
            for mine, theirs in pairs
        )

    __hash__ = None  # type: ignore[assignment]

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
    def whole_guarantee(self) -> Guarantee:
        """Guarantee of all releases together, if each level of a column has a release of its own.

        In all other cases, `whole_guarantee` equals `guarantee`.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> release.whole_guarantee.budget
        PureDP(epsilon=1.0)

        """
        return self.guarantee if self.group is None else self.group.together

    @property
    def may_be_void(self) -> bool:
        """True if an old version made the release, so that the guarantee may be void.

        That version read some tables in a way that invalidates the guarantee.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> release.may_be_void
        False

        """
        return "version" not in self.provenance

    def made_by(self) -> str:
        """Return a phrase that names the library, the date and the data source of the release.

        Returns
        -------
        str
            The facts of `provenance`, separated by commas.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
        >>> release.made_by().startswith("dpcov")
        True

        """
        door, apart = self.provenance.get("door"), ("version", "door", "not_protected")
        told = [fact for name, fact in self.provenance.items() if name not in apart]
        return ", ".join([*told, *([f"read as {door}"] if door else [])])

    def not_protected(self) -> str:
        """Return a sentence on everything that the release discloses without protection.

        Returns
        -------
        str
            A list of the public facts: the schema, the budget and the running time. Under
            replace-one, the list also contains the number of rows or persons.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
        >>> "the budget" in release.not_protected()
        True

        """
        public = ["the schema (columns, bounds, levels)", "the budget", "the running time"]
        if self.unit_count is not None:
            units = "rows" if self.guarantee.unit.column is None else "persons"
            public.append(f"the number of {units} ({self.unit_count})")
        found = f"{', '.join(public[:-1])} and {public[-1]}"
        caveat = self.provenance.get("not_protected", "").rstrip(".")
        return f"{found}. {caveat}" if caveat else found

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
            longest = longest_image(self.linear_map, self.center, longest, exclusive)
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
            The release holds the trace only.

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
            The release holds the trace only.

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
        held.refuse(held.matrix_reason(self))
        assert self.published is not None  # noqa: S101  for type checkers: the line above
        return self.published.astype(np.float64) * (2.0**self.shift * self.lattice.step**2)

    def mapped(self, matrix: Matrix) -> Matrix:
        """Convert a second moment of encoded rows to transformed rows.

        Parameters
        ----------
        matrix : ndarray, shape (d, d)
            Second moment of the encoded rows.

        Returns
        -------
        ndarray, shape (d, d)
            Second moment of the transformed rows; see `linear_map`.

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
        """Convert a second moment of transformed rows to encoded rows.

        Parameters
        ----------
        matrix : ndarray, shape (d, d)
            Second moment of the transformed rows; see `linear_map`.

        Returns
        -------
        ndarray, shape (d, d)
            Second moment of the encoded rows.

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

    def second_moment(self) -> Matrix:
        """Return the denoised second moment of the encoded rows.

        Returns
        -------
        ndarray, shape (d, d)
            Second moment in squared units of an encoded row. The matrix is positive semidefinite
            unless `denoise` is ``none``. With an intercept t, the last row and column contain t
            times the sums of the features. The last diagonal entry is t^2 times the number of rows.

        Raises
        ------
        NotReleasedError
            The release holds the trace only.

        See Also
        --------
        Release.covariance : Covariance in the units of the data.
        Release.noisy : Second moment without denoising.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> bool(np.linalg.eigvalsh(release.second_moment())[0] > -1e-6)
        True

        """
        held.refuse(held.matrix_reason(self))
        return self.noisy() if self.denoised is None else self.denoised

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
    def tells_count(self) -> bool:
        """True if the release contains the number of rows, either exactly or with noise.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> release.tells_count
        True

        """
        known = self.row_count is not None or self.count_noise is not None
        return known or held.moments_reason(self) is None

    @property
    def not_released(self) -> str | None:
        """Reason why the release contains no means, covariances and correlations, or None.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> print(release.not_released)
        None

        """
        return held.moments_reason(self)

    def count(self) -> float:
        """Return the number of rows, or a private estimate of this number.

        The number is exact if it is public. Otherwise, dpcov combines the published count and the
        count in the matrix, weighted by their inverse variances. A release without a published
        count uses the noisy matrix only.

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
        if (best := NoisyCount.of(self)) is not None:
            return max(0.0, best.value)
        held.refuse(held.directions_reason(self) or (None if self.has_intercept else held.NO_COUNT))
        corner = self.noisy()[-1, -1]
        return max(0.0, float(corner / self.intercept() ** 2))

    def total_weight(self) -> float:
        """Return a private estimate of the sum of the survey weights.

        Returns
        -------
        float
            Sum of the weights; without weights, the number of rows.

        Raises
        ------
        NotReleasedError
            The release contains no number of rows.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.full((5000, 2), 0.5), lower=0, upper=1, epsilon=10.0)
        >>> release.total_weight() == release.count()
        True

        """
        return self.count() * (1.0 if self.schema.weight is None else self.schema.weight.maximum)

    def mean(self) -> Matrix:
        """Return the private means of the features.

        Returns
        -------
        ndarray, shape (p,)
            Means in the units of the data, in the order of `columns`.

        Raises
        ------
        NotReleasedError
            The release contains no means; `not_released` gives the reason.

        See Also
        --------
        dpcov.intervals : Intervals for the means.
        dpcov.drowned : Warnings about means that are below the noise level.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> bool(abs(release.mean()[0] - 0.5) < 0.05)
        True

        """
        mean, _ = self._encoded()
        return self.centers + self.scales * mean

    def covariance(self) -> Matrix:
        """Return the private covariance matrix of the features.

        Returns
        -------
        ndarray, shape (p, p)
            Covariances in the units of the data, in the order of `columns`. The divisor is the
            number of rows n, and not n - 1.

        Raises
        ------
        NotReleasedError
            The release contains no covariances; `not_released` gives the reason.

        See Also
        --------
        Release.correlation : Correlations of the features.
        dpcov.intervals : Intervals for the covariances.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> bool(abs(release.covariance()[0, 0] - 1 / 12) < 0.02)
        True

        """
        _, covariance = self._encoded()
        return covariance * np.outer(self.scales, self.scales)

    def correlation(self) -> Matrix:
        """Return the private correlation matrix of the features.

        Returns
        -------
        ndarray, shape (p, p)
            Correlations in the order of `columns`, with 1 on the diagonal. The correlations of a
            feature are 0 if the denoised matrix shows no variance of the feature.

        Raises
        ------
        NotReleasedError
            The release contains no correlations; `not_released` gives the reason.

        See Also
        --------
        dpcov.correlation_standard_errors : Standard errors due to the privacy noise.
        dpcov.intervals : Intervals for the correlations.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> bool(release.correlation()[0, 1] < -0.9)
        True

        """
        _, covariance = self._encoded()
        variances = np.diag(covariance)
        flat = variances <= SMALLEST_VARIANCE
        deviations = np.sqrt(np.where(flat, 1.0, variances))
        correlation = covariance / np.outer(deviations, deviations)
        correlation[flat, :] = correlation[:, flat] = 0.0
        np.fill_diagonal(correlation, 1.0)
        return np.clip(correlation, -1.0, 1.0)

    @property
    def uninformative(self) -> bool:
        """True if no correlation rises above the noise, so that all correlations are 0.

        The property is also True if the release holds the trace only. The property is False if the
        release contains no correlations for another reason.

        See Also
        --------
        dpcov.correlation_standard_errors : Standard errors of the correlations.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> x = np.linspace(0, 1, 5000)
        >>> release = dpcov.release(np.column_stack([x, x]), lower=0, upper=1, epsilon=10.0)
        >>> release.uninformative
        False

        """
        if self.published is None or self.not_released is not None:
            return self.published is None
        correlation = self.correlation()
        return len(correlation) > 1 and np.array_equal(correlation, np.eye(len(correlation)))

    @property
    def centers(self) -> Vector:
        """Data values that dpcov encodes as 0, shape (p,), in the units of the data.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=[1, 4], epsilon=1.0)
        >>> release.centers
        array([0.5, 2. ])

        """
        return np.array([feature.center for feature in self.schema.variables])

    @property
    def scales(self) -> Vector:
        """Data units in one unit of each encoded feature, shape (p,).

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=[1, 4], epsilon=1.0)
        >>> release.scales
        array([0.5, 2. ])

        """
        return np.array([feature.scale for feature in self.schema.variables])

    def _encoded(self) -> tuple[Matrix, Matrix]:
        """Compute the mean and the covariance of the encoded features.

        The covariance follows from the Schur complement of the intercept.

        Returns
        -------
        mean : ndarray, shape (p,)
            Means of the encoded features.

        covariance : ndarray, shape (p, p)
            Covariances of the encoded features.

        """
        held.refuse(self.not_released)
        moment, gaps = self.second_moment(), has_gaps(self.schema)
        if gaps:
            moment = completed(
                self.schema, self.with_count(moment), self.intercept(), least=least_rows(self)
            )
        sums, corner = moment[:-1, -1], moment[-1, -1]
        if corner <= 0:  # only the center of the rows is known
            about = np.zeros(len(sums)) if self.center is None else self.center
            return about, np.zeros((len(sums), len(sums)))
        with np.errstate(all="ignore"):
            means = sums / corner * self.intercept() if gaps else self._means(moment)
            mean = np.clip(means, -1.0, 1.0)
            centred = moment[:-1, :-1] - np.outer(sums, sums) / corner
        if not np.isfinite(centred).all():  # impossible for a positive semidefinite matrix
            raise ReleaseError(
                "This release has entries that are too large to compute with. Its file is damaged, "
                "or its denoised matrix is not positive semidefinite: denoise it again."
            )
        nothing = np.abs(np.diag(centred)) <= ROUNDING * np.diag(moment)[:-1]
        centred[nothing, :] = centred[:, nothing] = 0.0
        # Encoded values lie in [-1, 1], so no variance exceeds 1, even if the noisy count is small.
        count = max(self.count(), 1.0)
        if self.denoised is not None:
            if gaps:
                return mean, proper(centred / count)
            count = max(count, float(np.diag(centred).max(initial=0.0)))
        return mean, (centred + centred.T) / (2 * count)

    def _means(self, moment: Matrix) -> Matrix:
        """Compute the encoded means: the sums divided by the best estimate of the number of rows.

        If the rows were centered, the sums are about the center. The error of the count then moves
        a mean only in proportion to the distance of the mean from the center.

        Parameters
        ----------
        moment : ndarray, shape (d, d)
            Second moment of the encoded rows.

        Returns
        -------
        ndarray, shape (p,)
            Means of the encoded features.

        """
        t = self.intercept()
        if self.count_noise is None:
            return moment[:-1, -1] / moment[-1, -1] * t
        sums = self.mapped(moment)[:-1, -1] / (t * max(self.count(), 1.0))
        if self.linear_map is None:
            return sums
        center = np.zeros(len(sums)) if self.center is None else self.center
        return np.asarray(center + np.linalg.solve(self.linear_map, sums))

    def with_count(self, matrix: Matrix) -> Matrix:
        """Return a second moment whose row count is the best estimate of the number of rows.

        Parameters
        ----------
        matrix : ndarray, shape (d, d)
            Second moment of the encoded rows.

        Returns
        -------
        ndarray, shape (d, d)
            Second moment with the best count. If the rows were centered, the count affects all
            entries.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> release.with_count(release.second_moment()).shape
        (3, 3)

        """
        best = NoisyCount.of(self)
        known = self.row_count if best is None else best.value
        if known is None or not self.has_intercept:
            return matrix
        return self.with_corner(matrix, known * self.intercept() ** 2)

    def with_corner(self, matrix: Matrix, corner: float) -> Matrix:
        """Return a second moment with another row-count entry.

        Parameters
        ----------
        matrix : ndarray, shape (d, d)
            Second moment of the encoded rows.

        corner : float
            New row-count entry of the second moment of the transformed rows: t^2 times the number
            of rows.

        Returns
        -------
        ndarray, shape (d, d)
            Second moment of the encoded rows with the new entry.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> round(float(release.with_corner(release.second_moment(), 4.0)[-1, -1]), 6)
        4.0

        """
        along = np.zeros(len(matrix))
        along[-1] = 1.0
        if self.center is not None:
            along[:-1] = self.center / self.intercept()
        return matrix + (corner - matrix[-1, -1]) * np.outer(along, along)

    def to_frame(self, which: Which = "covariance", library: Library = "pandas") -> Any:
        """Return a matrix of the release as a data frame with the names of the features.

        Parameters
        ----------
        which : {"covariance", "correlation", "second_moment"}, default "covariance"
            Matrix of the frame. ``second_moment`` is the denoised second moment of the encoded
            rows. Its last row is the intercept, if there is one.

        library : {"pandas", "polars", "pyarrow"}, default "pandas"
            Library of the data frame.

        Returns
        -------
        DataFrame or pyarrow.Table
            Frame with one column for each feature.

        Raises
        ------
        ReleaseError
            There is no matrix with this name.
        NotReleasedError
            The release does not contain the matrix.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> release.to_frame("correlation").shape
        (2, 2)

        """
        from dpcov.core.show.frames import frame

        if which not in ("covariance", "correlation", "second_moment"):
            raise ReleaseError(
                f"There is no matrix {which!r}. Choose: covariance, correlation, second_moment."
            )
        intercept = ["(intercept)"] if which == "second_moment" and self.has_intercept else []
        matrix: Matrix = getattr(self, which)()
        of = self.schema.features if which == "second_moment" else self.schema.variables
        return frame([*(feature.name for feature in of), *intercept], matrix, library)

    def with_denoised(self, method: str, matrix: Matrix | None) -> Release:
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

    def guarantee_in_words(self) -> str:
        """Return the privacy guarantee as a sentence.

        Returns
        -------
        str
            Guarantee; for a release with a seed, a sentence that there is none.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
        >>> release.guarantee_in_words() != ""
        True

        """
        if self.reproducible:
            return f"{NOT_PRIVATE}. A seed was used, so this release protects nobody."
        if self.group is not None:
            together = self.group.together.in_words()
            return f"Of the releases by {self.group.column!r} all together: {together}"
        return self.guarantee.in_words()

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the release to a JSON file. A failure leaves no partial file.

        Parameters
        ----------
        path : str or Path
            Name of the file.

        force : bool, default False
            Replace an existing file.

        Raises
        ------
        OutputError
            The file exists and `force` is False, or dpcov cannot write the file.

        See Also
        --------
        dpcov.load : Read a release file.

        Examples
        --------
        >>> import tempfile
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release.save(f"{folder}/release.json")
        ...     dpcov.load(f"{folder}/release.json") == release
        True

        """
        write(path, self.to_text(), force=force)

    def to_text(self, indent: int | None = 1) -> str:
        """Return the content of the release file.

        Parameters
        ----------
        indent : int or None, default 1
            Number of spaces of the indentation; None writes one line.

        Returns
        -------
        str
            JSON text.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
        >>> release.to_text().startswith("{")
        True

        """
        from dpcov.releases.file import to_document

        return json.dumps(to_document(self), indent=indent) + "\n"

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a release file. dpcov validates the file and executes no code from it.

        Parameters
        ----------
        path : str or Path
            Name of the file.

        Returns
        -------
        Release
            Release in the file.

        Raises
        ------
        ReleaseError
            The file is not a valid release file. The message names the first fault.

        Warns
        -----
        VoidReleaseWarning
            An old version made the file, and the guarantee may be void.

        See Also
        --------
        Release.save : Write a release file.

        Examples
        --------
        >>> import tempfile
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release.save(f"{folder}/release.json")
        ...     dpcov.Release.load(f"{folder}/release.json").mechanism == release.mechanism
        True

        """
        from dpcov.releases.file import from_text

        text = read_text(path, "release", ReleaseError, most=LARGEST_FILE)
        loaded = from_text(text, shown(path))
        if loaded.may_be_void:
            warnings.warn(VOID, VoidReleaseWarning, stacklevel=2)
        return loaded

    def _facts(self) -> dict[str, str]:
        """Return short facts about the release, by name."""
        names, more = self.columns[:NAMED], len(self.columns) - NAMED
        facts = {
            "guarantee": self.guarantee_in_words(),
            "mechanism": f"{self.mechanism}, denoised by {self.denoise}",
            "features": ", ".join(names) + (f" and {more} more" if more > 0 else ""),
        }
        if self.not_released is not None:
            facts["not released"] = self.not_released
        if self.row_count is not None:
            facts["rows"] = f"{self.row_count} (public)"
        elif self.tells_count:
            facts["rows"] = f"about {self.count():.0f} (private: with noise)"
        return facts | {"made by": self.made_by()}

    def __repr__(self) -> str:
        faults = advisories(self)
        facts = self._facts() | ({"warning": " ".join(faults)} if faults else {})
        return "\n".join(["Release", *(f"  {name}: {printable(it)}" for name, it in facts.items())])

    def _repr_html_(self) -> str:
        rows: list[Row] = [(name, [fact]) for name, fact in self._facts().items()]
        shown = [Table(("", ""), rows, "Private release", words=True)]
        if self.not_released is None:
            deviations = np.sqrt(np.maximum(np.diag(self.covariance()), 0.0))
            figures = zip(self.columns, self.mean().tolist(), deviations.tolist(), strict=True)
            means: list[Row] = [
                (
                    name,
                    [*dates.shown(self.schema, name, [mean]), dates.length(self.schema, name, own)],
                )
                for name, mean, own in figures
            ]
            left = max(len(means) - LONGEST, 0)
            heads = ("", "mean", "std. deviation")
            shown.append(Table(heads, means[:LONGEST], beyond=left, rest="features"))
        against = [NOT_PRIVATE] * self.reproducible + [*advisories(self)]
        return "".join(html.paragraph(told, "strong") for told in against) + html.tables(shown)


def load(path: str | Path) -> Release:
    """Read a release file.

    Parameters
    ----------
    path : str or Path
        Name of the file.

    Returns
    -------
    Release
        Release in the file.

    Raises
    ------
    ReleaseError
        The file is not a valid release file. The message names the first fault.

    Warns
    -----
    VoidReleaseWarning
        An old version made the file, and the guarantee may be void.

    See Also
    --------
    Release.save : Write a release file.
    dpcov.release : Make a release.

    Examples
    --------
    >>> import tempfile
    >>> import dpcov
    >>> import numpy as np
    >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release.save(f"{folder}/release.json")
    ...     dpcov.load(f"{folder}/release.json") == release
    True

    """
    return Release.load(path)


def _congruent(linear_map: Matrix, shift: Matrix | None, matrix: Matrix) -> Matrix:
    """Return A M A', where A maps (z, t) to (L z + shift t, t) and L is the (p, p) `linear_map`."""
    whole = np.eye(len(matrix))
    whole[: len(linear_map), : len(linear_map)] = linear_map
    if shift is not None:
        whole[: len(linear_map), -1] = shift
    image = whole @ matrix @ whole.T
    return (image + image.T) / 2


def largest_file(schema: Schema, dimension: int) -> int:
    """Return the largest possible size of a release file.

    Parameters
    ----------
    schema : Schema
        Schema of the release.

    dimension : int
        Order d of the released matrix.

    Returns
    -------
    int
        Size in bytes.

    """
    # Each entry is an integer of the noisy matrix, a float of the denoised matrix and two floats of
    # the map. A directions query repeats the schema and all matrices except the denoised one.
    entry = 176
    return entry * dimension * (dimension + 1) // 2 + 16 * len(schema.model_dump_json()) + 2**15
