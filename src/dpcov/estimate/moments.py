"""Means and covariances of many second moments at once, and first-order effects of errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from dpcov.estimate.missing import DERIVATIVE_STEP, complete_moments
from dpcov.published import record

if TYPE_CHECKING:
    from dpcov.core.arrays import Array
    from dpcov.published.record import Record


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
        t = release.intercept()
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
