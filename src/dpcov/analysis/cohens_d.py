"""Cohen's d: differences of means between groups in pooled standard deviations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.column_parts import MISSING_LABEL
from dpcov.analysis.declared import Option, command
from dpcov.analysis.intervals import CONFIDENCE_LEVEL
from dpcov.analysis.named_figures import named_figures, require
from dpcov.analysis.persons import refuse_means
from dpcov.errors import ReleaseError
from dpcov.rows.schema import Categorical, Numeric

if TYPE_CHECKING:
    from dpcov.analysis.named_figures import NamedFigures
    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.releases import Release

# Largest share of rows without a group that the pooled standard deviation ignores.
MAX_IGNORED_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class _Groups:
    """Groups of a column as linear forms of features: a constant, and weights of the features.

    Attributes
    ----------
    features : tuple of str, length m
        Features of the column.

    labels : tuple of str, length g
        Names of the groups.

    constants : ndarray, shape (g,)
        Constants of the forms.

    weights : ndarray, shape (g, m)
        Weights of the features. The form of a group is 1 for its rows, and otherwise 0.

    """

    features: tuple[str, ...]
    labels: tuple[str, ...]
    constants: Vector
    weights: Matrix

    @classmethod
    def of(cls, release: Release, by: str) -> _Groups:
        column = release.schema.encoded_columns.get(by)
        own = tuple(one.name for one in release.schema.variables if one.column == by)
        if isinstance(column, Categorical):
            labels = tuple(name.removeprefix(f"{by}=") for name in own)
            return cls(own, labels, np.zeros(len(own)), np.eye(len(own)))
        if column is None or column.reading != "flag":
            raise ReleaseError(f"{by!r} is not a column of categories and not a flag.")
        weights = np.array([[-1.0, -0.5], [1.0, -0.5]])[:, : len(own)]  # a missing flag is 0.5
        return cls(own, ("0", "1"), np.array([1.0, 0.0]), weights)


@dataclass(frozen=True, slots=True)
class _Moments:
    """Moments of a column of numbers by group.

    The features are the number, its missingness indicator if there is one, and the features of the
    groups. A missing number is encoded as the midpoint.

    Attributes
    ----------
    groups : _Groups
        Groups with g labels.

    midpoint : float
        Midpoint of the bounds of the number.

    gaps : int
        Number of missingness indicators, 0 or 1.

    """

    groups: _Groups
    midpoint: float
    gaps: int

    def of(
        self, means: Vector, covariance: Matrix, with_rest: bool
    ) -> tuple[Vector, Vector, float]:
        """Return the shares and totals of the groups, and the standard deviation within them.

        Shares and totals are fractions of all rows and use only rows with a number. If `with_rest`,
        the rows without a group form another group.
        """
        own = means.copy()
        own[0] -= self.midpoint
        moment = covariance + np.outer(own, own)
        constants, weights, behind = self.groups.constants, self.groups.weights, 1 + self.gaps
        totals = constants * own[0] + weights @ moment[behind:, 0]
        absent = self._absent(own)
        shares = constants * (1 - absent) + weights @ own[behind:]
        shares = shares - weights @ moment[behind:, 1:behind].sum(axis=1)
        count, between = shares.sum(), np.sum(totals**2 / shares)
        if with_rest:
            between += (own[0] - totals.sum()) ** 2 / (1 - absent - count)
            count = 1 - absent
        return shares, totals, float(np.sqrt((moment[0, 0] - between) / count))

    def rest(self, means: Vector, covariance: Matrix) -> float:
        """Return the share of rows with a number and without a group."""
        with np.errstate(all="ignore"):  # a group can be empty
            shares, *_ = self.of(means, covariance, with_rest=False)
        return float(1 - self._absent(means) - shares.sum())

    def _absent(self, means: Vector) -> float:
        """Return the share of rows without a number."""
        return float(means[1 : 1 + self.gaps].sum())


@command(
    "cohens-d",
    "Print differences of means between groups in pooled standard deviations.",
    "income --by sex",
    value=Option("VALUE", "Column of numbers.", completes="columns"),
    by=Option("--by", "Column of the groups: a category or a flag.", completes="groupings"),
    reference=Option("--reference", "Group to compare with; default, the first."),
)
def cohens_d(
    release: Release,
    value: str,
    by: str,
    reference: str | None = None,
    *,
    level: float = CONFIDENCE_LEVEL,
    generator: np.random.Generator | None = None,
) -> NamedFigures:
    """Return Cohen's d of each group against a reference group.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    value : str
        Numeric column.

    by : str
        Categorical column or flag of the groups.

    reference : str, optional
        Group to compare with. The default is the first group. The groups of a flag are ``0`` and
        ``1``.

    level : float, default 0.95
        Nominal coverage of each interval, between 0 and 1.

    generator : numpy.random.Generator, optional
        Random numbers for the simulation. The default gives the same result every time.

    Returns
    -------
    NamedFigures
        Cohen's d of each other group with its interval.

    Raises
    ------
    NotReleasedError
        The release contains no covariances or has no noise distribution.
    ReleaseError
        A column or group is unknown, or a group is empty.

    See Also
    --------
    dpcov.table1 : Means by group.

    Notes
    -----
    Cohen's d is the difference of two means, divided by the standard deviation within the groups.
    The standard deviation is pooled over all groups of the column, because a second moment contains
    no standard deviation of a single group. Its divisor is the number of rows.

    Examples
    --------
    >>> import dpcov
    >>> import pyarrow as pa
    >>> table = pa.table({"x": [0.0, 1.0, 2.0, 3.0] * 2000, "site": ["a", "b"] * 4000})
    >>> x = {"kind": "numeric", "lower": 0, "upper": 4}
    >>> site = {"kind": "categorical", "levels": ["a", "b"]}
    >>> schema = dpcov.Schema.parse({"columns": {"x": x, "site": site}})
    >>> release = dpcov.release(table, schema=schema, epsilon=10.0)
    >>> dpcov.cohens_d(release, "x", "site").names
    ('b - a',)

    """
    require(release)
    refuse_means(release, "Cohen's d")
    column, groups = release.schema.encoded_columns.get(value), _Groups.of(release, by)
    if not isinstance(column, Numeric) or value == by:
        raise ReleaseError(f"{value!r} is no column of numbers besides the groups.")
    base = groups.labels[0] if reference is None else reference
    if base not in groups.labels:
        raise ReleaseError(f"There is no group {base!r}. Choose: {', '.join(groups.labels)}.")
    labels = [one for one in groups.labels if one not in (base, MISSING_LABEL)]
    gap = [name for name in (f"{value}={MISSING_LABEL}",) if name in release.columns]
    used = [value, *gap, *groups.features]
    at = [release.columns.index(name) for name in used]
    asked = _Moments(groups, column.midpoint, len(gap))
    with_rest = asked.rest(release.mean()[at], release.covariance()[np.ix_(at, at)])
    to, others = groups.labels.index(base), [groups.labels.index(one) for one in labels]

    def figures(means: Vector, covariance: Matrix) -> Array:
        shares, totals, within = asked.of(means, covariance, with_rest > MAX_IGNORED_SHARE)
        centers = totals / shares
        return np.asarray((centers[others] - centers[to]) / within)

    title = f"Cohen's d of {value} by {by}"
    names = [f"{one} - {base}" for one in labels]
    note = f"The standard deviation is pooled over the {len(groups.labels)} groups of {by}."
    given: dict[str, Any] = {"level": level, "notes": [note], "generator": generator}
    return named_figures(release, title, used, names, figures, **given)
