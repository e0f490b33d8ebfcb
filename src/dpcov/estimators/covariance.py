"""Covariance and sparse precision matrices with the interface of scikit-learn."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.covariance import EmpiricalCovariance

from dpcov.analysis.precision import SparsePrecision
from dpcov.analysis.precision import precision as sparse_precision
from dpcov.core.parameters import Above0, check
from dpcov.errors import EstimatorError
from dpcov.estimate import Estimate
from dpcov.estimators.base import PrivateEstimator

if TYPE_CHECKING:
    from typing import Self

    from dpcov.core.arrays import Matrix
    from dpcov.releases import Release


@dataclass(eq=False, repr=False)
class PrivateCovariance(PrivateEstimator, EmpiricalCovariance):  # type: ignore[misc]
    """Covariance with differential privacy and the interface of scikit-learn.

    The class is a subclass of `sklearn.covariance.EmpiricalCovariance` and inherits `score`,
    `error_norm`, `mahalanobis` and `get_precision`. These methods cost no privacy. Their results
    for training rows are not protected.

    Parameters
    ----------
    bounds : tuple or dict
        Public lower and upper bounds, each a number or one number per column. A dict has a pair for
        each column name. Never compute the bounds from the data.

    missing : {"midpoint", "pairwise", "none"}, default "midpoint"
        Meaning of a missing value. With ``midpoint``, the value counts as the midpoint of its
        bounds. With ``pairwise``, means and covariances omit the value. With ``none``, you promise
        that no value is missing.

    epsilon, delta, rho : float, optional
        Budget of each `fit`.

    neighbors : {'add-remove', 'replace-one'}, default 'add-remove'
        Relation between neighbouring tables, as in `dpcov.release`.

    mechanism : str, default 'auto'
        Name of the mechanism, as in `dpcov.release`.

    denoise : {'shrink', 'project', 'none'}, default 'shrink'
        Method that denoises the release.

    radius : float, 'private' or 'public', optional
        Clipping radius, as in `dpcov.release`.

    ledger : Ledger, str or Path, optional
        Ledger that records the budget of each `fit` before dpcov draws noise.

    dataset : str, optional
        Data set in the ledger.

    n_features : int, optional
        Public number of columns of a list of rows, if the bounds are single numbers. A row with
        another length counts as a row of missing values.

    random_state : int, optional
        Seed for tests only. A release with a seed is marked ``NOT PRIVATE``.

    store_precision : bool, default True
        Keep `precision_`.

    assume_centered : bool, default False
        Assume that the mean is 0.

    Attributes
    ----------
    release_ : Release
        Release of the rows.

    guarantee_ : Guarantee
        Guarantee of the release.

    null_reason_ : str or None
        Reason why `covariance_` contains no information, or None.

    location_ : ndarray, shape (p,)
        Means of the columns.

    covariance_ : ndarray, shape (p, p)
        Covariances. The divisor is the number of rows.

    precision_ : ndarray, shape (p, p)
        Pseudo-inverse of `covariance_`.

    n_features_in_ : int
        Number of columns.

    feature_names_in_ : ndarray of str
        Names of the columns, if the table has names.

    See Also
    --------
    dpcov.release : Make a release without scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcov.estimators import PrivateCovariance
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> fitted = PrivateCovariance(bounds=(0, 1), epsilon=1.0).fit(table)
    >>> bool(abs(fitted.covariance_[0, 0] - 1 / 12) < 0.02)
    True

    """

    store_precision: bool = field(default=True, kw_only=True)
    assume_centered: bool = field(default=False, kw_only=True)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Make a release of the rows and estimate the covariance. Each call spends the budget.

        If the release contains no covariances above the noise, `fit` warns and sets `null_reason_`.
        Without covariances, `location_` contains the midpoints of the bounds, and `covariance_` is
        0.

        Parameters
        ----------
        X : array-like, shape (n, p), or table
            Rows as an array, or as a table of pandas, polars or pyarrow. A list of rows needs one
            entry of `bounds` for each column.

        y : object, optional
            Ignored.

        Returns
        -------
        PrivateCovariance
            The fitted estimator.

        Raises
        ------
        DpcovError
            The request is invalid. The budget is not spent.

        Examples
        --------
        >>> import numpy as np
        >>> from dpcov.estimators import PrivateCovariance
        >>> x = np.linspace(0, 1, 5000)
        >>> table = np.column_stack([x, x**2])
        >>> fitted = PrivateCovariance(bounds=(0, 1), epsilon=10.0).fit(table)
        >>> bool(abs(fitted.location_[0] - 0.5) < 0.05)
        True

        """
        self._make_release(X)
        covariance = self._analyzed(lambda: _varying(self.release_))
        if covariance is None:
            covariance = np.zeros((self.n_features_in_, self.n_features_in_))
        mean = self._means()
        about = np.outer(mean, mean) * self.assume_centered
        self.location_ = mean * (not self.assume_centered)
        self._set_covariance(covariance + about)
        return self


@dataclass(eq=False, repr=False)
class PrivateGraphicalLasso(PrivateCovariance):
    """Sparse inverse covariance with differential privacy and the interface of scikit-learn.

    Parameters
    ----------
    bounds : tuple of two bounds, or dict of tuples by column name
        Public bounds: one number, or one number for each column. Required. Never compute the bounds
        from the data.

    missing : {'midpoint', 'pairwise', 'none'}, default 'midpoint'
        Meaning of a missing value. `PrivateCovariance` explains the options.

    epsilon, delta, rho : float, optional
        Budget of each `fit`, as in `PrivateCovariance`.

    neighbors : {'add-remove', 'replace-one'}, default 'add-remove'
        Relation between neighbouring tables, as in `dpcov.release`.

    mechanism : str, default 'auto'
        Name of the mechanism, as in `dpcov.release`.

    denoise : {'shrink', 'project', 'none'}, default 'shrink'
        Method that denoises the release.

    radius : float, 'private' or 'public', optional
        Clipping radius, as in `dpcov.release`.

    ledger : Ledger, str or Path, optional
        Ledger that records the budget of each `fit` before dpcov draws noise.

    dataset : str, optional
        Data set in the ledger.

    n_features : int, optional
        Public number of columns of a list of rows.

    random_state : int, optional
        Seed for tests. A release with a seed is marked ``NOT PRIVATE``.

    store_precision : bool, default True
        True to keep `precision_`.

    assume_centered : bool, default False
        Must be False. The graph describes deviations from the means.

    alpha : float, optional
        Strength of the penalty on the inverse of the correlations, above 0. By default the release
        determines the strength. The penalty of scikit-learn is on the inverse of the covariance.

    Attributes
    ----------
    release_ : Release
        Release of the last `fit`.

    guarantee_ : Guarantee
        Guarantee of the release.

    null_reason_ : str or None
        Reason for the null model. None for every other model.

    location_ : ndarray, shape (p,)
        Means of the columns.

    precision_ : ndarray, shape (p, p)
        Inverse covariance with exact zeros. The rows of columns without variance are 0.

    covariance_ : ndarray, shape (p, p)
        Pseudo-inverse of `precision_`: the covariance of the fitted graph.

    alpha_ : float
        Strength of the penalty.

    graph_ : SparsePrecision
        Edges of the graph, with the method `to_networkx`.

    n_features_in_ : int
        Number of columns.

    feature_names_in_ : ndarray of str
        Names of the columns, if the table has names.

    See Also
    --------
    dpcov.precision : Sparse inverse covariance from a release.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcov.estimators import PrivateGraphicalLasso
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> fitted = PrivateGraphicalLasso(bounds=(0, 1), epsilon=1.0, alpha=0.1).fit(table)
    >>> [(edge.first, edge.second) for edge in fitted.graph_.edges]
    [('x0', 'x1')]

    """

    alpha: float | None = field(default=None, kw_only=True)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Make a release of the rows and estimate the graph. Each call spends the budget.

        If no correlation rises above the noise, the graph is empty, all entries are 0, and `fit`
        issues a `NullModelWarning`.

        Parameters
        ----------
        X : array-like, shape (n, p), or table
            Rows as an array, or as a table of pandas, polars or pyarrow. A list of rows needs one
            entry of `bounds` for each column.

        y : object, optional
            Ignored.

        Returns
        -------
        PrivateGraphicalLasso
            The fitted estimator.

        Raises
        ------
        DpcovError
            The request is invalid. The budget is not spent.

        Examples
        --------
        >>> import numpy as np
        >>> from dpcov.estimators import PrivateGraphicalLasso
        >>> x = np.linspace(0, 1, 5000)
        >>> table = np.column_stack([x, x**2])
        >>> fitted = PrivateGraphicalLasso(bounds=(0, 1), epsilon=10.0, alpha=0.1).fit(table)
        >>> fitted.precision_.shape
        (2, 2)

        """
        self._make_release(X)
        self.location_ = self._means()
        found = self._analyzed(lambda: sparse_precision(self.release_, self.alpha))
        self.graph_: SparsePrecision = _no_graph(self.release_.columns) if found is None else found
        self.alpha_: float = self.graph_.alpha
        at = [self.release_.columns.index(name) for name in self.graph_.columns]
        inverse = np.zeros((self.n_features_in_, self.n_features_in_))
        covariance = np.zeros_like(inverse)
        inverse[np.ix_(at, at)] = self.graph_.precision
        fitted = np.linalg.inv(self.graph_.precision)
        covariance[np.ix_(at, at)] = (fitted + fitted.T) / 2
        self.covariance_ = covariance
        self.precision_ = inverse if self.store_precision else None
        return self

    def _check_request(self, features: int, targets: int) -> None:
        check("alpha", self.alpha, Above0 | None, EstimatorError)
        if self.assume_centered:
            raise EstimatorError(
                "PrivateGraphicalLasso has no graph about 0: assume_centered=False."
            )


def _varying(release: Release) -> Matrix:
    """Return the (p, p) covariance, or raise `ReleaseError` if it is missing or 0."""
    Estimate.required(release)
    return release.covariance()


def _no_graph(columns: tuple[str, ...]) -> SparsePrecision:
    """Return a graph without columns."""
    nothing = np.zeros((0, 0))
    return SparsePrecision((), columns, nothing, nothing, math.nan, correlation=True, gap=0.0)
