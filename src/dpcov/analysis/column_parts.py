"""Columns as parts that add up to 1 in each row, and joint counts of two columns.

A categorical column has a part for each level. This part is the indicator of the level. A numeric
column with the bounds l and u has the two parts (u - x) / (u - l) and (x - l) / (u - l). For a
flag, these parts are the indicators of 0 and 1.

Each part is a linear form of an encoded row. Let the columns of A and B contain the forms of two
columns, and let M be the second moment. The joint counts of the parts are then A' M B. They give
contingency tables, and the mean of a number by group: the mean is l + (u - l) times the share of
the upper part.

Noise can make a joint count negative. `joint_counts` therefore returns the nearest table with
entries of at least 0 and the margins of the release.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy

from dpcov.analysis.intervals import INTERVAL_DRAWS
from dpcov.errors import ReleaseError
from dpcov.estimate import Estimate
from dpcov.estimate.shares import OTHER_LABEL, nearest_shares, nearest_table
from dpcov.rows.schema import Categorical

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.releases import Release

# A column gets a part for its cells without a level if their share is above this number. The
# function `with_other` uses the same rule.
MIN_OTHER_SHARE = 1e-12
MISSING_LABEL = "(missing)"


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of a column.

    k is the number of parts.

    Attributes
    ----------
    column : str
        Name of the column.

    labels : tuple of str, length k
        Names of the parts: the levels, or 0 and 1 for a number.

    forms : ndarray, shape (d, k)
        Weights of the entries of an encoded row, which ends with its intercept. The weighted sum is
        1 if the row has the level of this part, and otherwise 0. A number is divided between its
        parts 0 and 1.

    """

    column: str
    labels: tuple[str, ...]
    forms: Matrix

    def without_other(self) -> Parts:
        """Leave out the part of the cells without a level."""
        kept = [at for at, label in enumerate(self.labels) if label != OTHER_LABEL]
        return Parts(self.column, tuple(self.labels[at] for at in kept), self.forms[:, kept])


class Columns:
    """Columns of a release as parts, with the second moment that the joint counts come from.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    """

    def __init__(self, release: Release) -> None:
        self.release = release
        self.unit = _unit(release)  # the form that is 1 in each row
        self.count = Estimate.of(release).count

    @property
    def row_weight(self) -> float:
        """Factor that converts counts to sums of survey weights, or 1 without survey weights."""
        weight = self.release.schema.weight
        return 1.0 if weight is None else weight.maximum

    @cached_property
    def moment(self) -> Matrix:
        """Second moment with the coherent means and covariances, shape (d, d).

        The entries of columns with the rule ``pairwise`` come from the denoised moment, because
        their means and covariances are not about all rows.
        """
        release, estimate, t = self.release, Estimate.of(self.release), self.release.intercept()
        means, covariance = estimate.coherent
        means = np.append(means, t)
        coherent = np.outer(means, means)
        coherent[:-1, :-1] += covariance
        coherent *= self.count
        if not release.schema.missing_columns:
            return np.asarray(coherent)
        found = estimate.counted(estimate.second_moment)
        found = found * self.count / max(float(self.unit @ found @ self.unit), 1.0)
        gaps, features = release.schema.missing_columns, release.schema.features
        at = [j for j, one in enumerate(features) if one.variable and j not in gaps]
        names = [features[j].name for j in at]
        of = [release.columns.index(name) for name in names]
        found[np.ix_([*at, -1], [*at, -1])] = coherent[np.ix_([*of, -1], [*of, -1])]
        return np.asarray(found)

    def parts(self, name: str) -> Parts:
        """Return the parts of a column.

        A categorical column whose levels do not add up to all rows gets a part for the other cells.
        A number with the rule ``level`` gets a part for the missing cells.

        Parameters
        ----------
        name : str
            Name of the column.

        Returns
        -------
        Parts
            Labels and forms.

        """
        schema, d = self.release.schema, len(self.unit)
        column = schema.encoded_columns[name]
        at = [j for j, feature in enumerate(schema.features) if feature.column == name]
        own = np.eye(d)[:, at]
        if isinstance(column, Categorical):
            labels = column.labels
            rest = self.unit - own.sum(axis=1)
            if not column.is_full and self.total(rest) > MIN_OTHER_SHARE * self.count:
                labels, own = (*labels, OTHER_LABEL), np.column_stack([own, rest])
            return Parts(name, labels, own)
        present = self.unit - own[:, 1:].sum(axis=1)
        forms = [(present - own[:, 0]) / 2, (present + own[:, 0]) / 2]
        if column.missing == "level":
            return Parts(name, ("0", "1", MISSING_LABEL), np.column_stack([*forms, own[:, 1]]))
        return Parts(name, ("0", "1"), np.column_stack(forms))

    def total(self, form: Vector) -> float:
        """Return the sum of a form over the rows."""
        return float(form @ self.moment @ self.unit)

    def joint_counts(self, first: Parts, second: Parts) -> Matrix:
        """Compute the coherent joint counts of the parts of two columns.

        The entries are at least 0. Their sums are the coherent counts of the parts among the rows
        that have both columns.

        Parameters
        ----------
        first, second : Parts
            Parts of the rows and of the columns of the table.

        Returns
        -------
        ndarray, shape (k, l)
            Numbers of rows.

        """
        counts = first.forms.T @ self.moment @ second.forms
        total = max(float(counts.sum()), 0.0)
        margins = [nearest_shares(counts.sum(axis=axis), total) for axis in (1, 0)]
        return nearest_table(counts, *margins)


def grouping(columns: Columns, name: str) -> Parts:
    """Return the parts of a column that separates groups: a categorical column or a flag."""
    schema = columns.release.schema.encoded_columns
    known = [
        one
        for one, column in schema.items()
        if isinstance(column, Categorical) or column.reading == "flag"
    ]
    if name not in known:
        offered = f"Choose from: {', '.join(known)}." if known else "This release has none."
        raise ReleaseError(f"{name!r} is not a categorical column or a flag. {offered}")
    return columns.parts(name)


def joint_errors(
    release: Release, rows: Matrix, columns: Matrix, generator: np.random.Generator
) -> Array:
    """Simulate the errors of joint counts due to the privacy noise, clipping and rounding.

    Parameters
    ----------
    release : Release
        Release with a noise distribution.

    rows : ndarray, shape (d, k)
        Forms of the rows of the table.

    columns : ndarray, shape (d, l)
        Forms of the columns of the table.

    generator : numpy.random.Generator
        Random numbers for the simulation.

    Returns
    -------
    ndarray, shape (b, k, l)
        Errors.

    """
    estimate = Estimate.of(release)
    found = estimate.errors(sampling=False, generator=generator, draws=INTERVAL_DRAWS)
    return np.concatenate([rows.T @ errors @ columns for errors in found.batches()])


def deviations_of(errors: Array) -> Array:
    """Estimate the standard deviation of each figure from b simulated errors, shape (b, ...)."""
    return np.asarray(np.sqrt(np.mean(errors**2, axis=0)))


class Ends(NamedTuple):
    """Figures with the lower and upper ends of their intervals. Unknown ends are NaN."""

    value: Array
    lower: Array
    upper: Array

    @classmethod
    def around(cls, value: Array, ends: tuple[Array, Array] | None) -> Ends:
        """Combine figures with intervals, and widen each interval until it contains its figure.

        Unknown ends stay unknown.
        """
        if ends is None:
            return cls(value, *np.full((2, *value.shape), np.nan))
        wide = np.fmin(ends[0], value), np.fmax(ends[1], value)
        return cls(value, *(np.where(np.isnan(ends[0]), np.nan, end) for end in wide))

    def named(self, name: str, lower: str, upper: str, unit: float = 1.0) -> dict[str, Any]:
        """Return a dictionary of the figures, lower ends and upper ends, multiplied by `unit`.

        The arguments `name`, `lower` and `upper` are the keys of the dictionary.
        """
        return {name: unit * self.value, lower: unit * self.lower, upper: unit * self.upper}

    def only(self, kept: Any) -> Ends:
        """Return the figures at some positions."""
        return Ends(*(one[kept] for one in self))


@dataclass(frozen=True, slots=True)
class Ratio:
    """Estimated ratios of two counts, with the variances of their noise.

    Attributes
    ----------
    top, bottom : ndarray
        Numerators and denominators, in the same shape.

    top_variance, bottom_variance, covariance : ndarray
        Variances and covariances of their noise.

    """

    top: Array
    bottom: Array
    top_variance: Array
    bottom_variance: Array
    covariance: Array

    @classmethod
    def of(cls, top: Array, bottom: Array, top_errors: Array, bottom_errors: Array) -> Ratio:
        """Return ratios with the mean squares and products of simulated errors."""
        top, bottom = np.broadcast_arrays(top, bottom)
        return cls(
            top,
            bottom,
            np.mean(top_errors**2, axis=0),
            np.mean(bottom_errors**2, axis=0),
            np.mean(top_errors * bottom_errors, axis=0),
        )

    @property
    def value(self) -> Array:
        """Ratios, which are NaN if the denominator is 0."""
        return shares_of(self.top, self.bottom)

    def with_less_noise(self, divisor: float) -> Ratio:
        """Return the same ratios with the noise divided by a number."""
        names = ("top_variance", "bottom_variance", "covariance")
        return replace(self, **{name: getattr(self, name) / divisor**2 for name in names})

    @property
    def noise(self) -> Array:
        """Standard deviations of the noise in the ratios, to first order."""
        value = np.nan_to_num(self.value)
        variance = self.top_variance - 2 * value * self.covariance
        variance = np.maximum(variance + value**2 * self.bottom_variance, 0.0)
        unknown = np.where(np.isnan(self.value), np.inf, 0.0)
        return unknown + np.sqrt(variance) / np.where(self.bottom > 0, self.bottom, 1.0)

    def interval(
        self, level: float, spread: Array | None = None, *, sampling: bool = True
    ) -> tuple[Array, Array]:
        """Compute intervals of the ratios by Fieller's method, within 0 and 1.

        Let N and D be the numerator and the denominator, and let q be a ratio. The interval
        contains each q for which N - q D is within z standard deviations of 0 (Fieller 1954). The
        variance of N - q D is the variance of its noise, plus D q (1 - q) for the sampling error
        of a share. Without noise, this is the interval of Wilson (1927).

        Parameters
        ----------
        level : float
            Nominal coverage.

        spread : ndarray, optional
            Variances of the values in the units of the ratio, for the ratios that are means. The
            sampling error then has the variance D times `spread`. NaN for shares.

        sampling : bool, default True
            Include the sampling error of independent rows.

        Returns
        -------
        low, high : ndarray
            Ends. They are 0 and 1 if the denominator is below the noise level.

        """
        z2 = _squared_quantile(level)
        fixed = linear = np.zeros_like(self.bottom)
        if sampling:
            own = np.full_like(self.bottom, np.nan) if spread is None else spread
            fixed = self.bottom * np.nan_to_num(own)
            linear = np.where(np.isnan(own), self.bottom, 0.0)
        square = self.bottom**2 - z2 * (self.bottom_variance - linear)
        half = self.top * self.bottom - z2 * (self.covariance - linear / 2)
        constant = self.top**2 - z2 * (self.top_variance + fixed)
        low, high = _roots(square, half, constant)
        unknown = (self.bottom**2 <= z2 * self.bottom_variance) | (self.bottom <= 0)
        return np.where(unknown, 0.0, low), np.where(unknown, 1.0, high)


def _squared_quantile(level: float) -> float:
    """Return z^2, the squared normal quantile for two-sided intervals with this coverage."""
    return float(scipy.special.ndtri((1 + level) / 2)) ** 2


def _roots(square: Array, half: Array, constant: Array) -> tuple[Array, Array]:
    """Return the roots of square q^2 - 2 half q + constant, within 0 and 1."""
    root = np.sqrt(np.maximum(half**2 - square * constant, 0.0))
    divisor = np.where(square > 0, square, 1.0)
    ends = [np.clip((half + side * root) / divisor, 0.0, 1.0) for side in (-1, 1)]
    return ends[0], ends[1]


def count_interval(
    counts: Array, variances: Array, total: float, level: float, *, sampling: bool = True
) -> tuple[Array, Array]:
    """Compute intervals of counts within a total.

    The sampling error of a count c has the variance c (1 - c / total), as in Wilson's interval.

    Parameters
    ----------
    counts : ndarray
        Numbers of rows.

    variances : ndarray
        Variances of their noise, in the same shape.

    total : float
        Number of all rows.

    level : float
        Nominal coverage.

    sampling : bool, default True
        Include the sampling error of independent rows.

    Returns
    -------
    low, high : ndarray
        Ends, of at least 0.

    """
    z2 = _squared_quantile(level)
    more = np.where(sampling & (counts < total), z2, 0.0)
    square = 1 + more / max(total, 1.0)
    half = counts + more / 2
    root = np.sqrt(np.maximum(half**2 - square * (counts**2 - z2 * variances), 0.0))
    return np.maximum((half - root) / square, 0.0), np.maximum((half + root) / square, 0.0)


def shares_of(counts: Array, totals: Array) -> Array:
    """Return counts divided by totals, with NaN if a total is not positive."""
    known = totals > 0
    return np.where(known, counts / np.where(known, totals, 1.0), np.nan)


def _unit(release: Release) -> Vector:
    """Return the form that is 1 in each row."""
    unit = np.zeros(release.lattice.dimension)
    unit[-1] = 1 / release.intercept()
    return unit
