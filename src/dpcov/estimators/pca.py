"""Principal components as a transformer of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.extmath import fast_logdet
from sklearn.utils.validation import check_array, check_is_fitted

from dpcov.analysis.pca import pca
from dpcov.errors import EstimatorError
from dpcov.estimators.base import PrivateEstimator

if TYPE_CHECKING:
    from typing import Self

    from dpcov.core.arrays import Matrix, Vector
    from dpcov.mechanisms.choice import Goal


@dataclass(eq=False, repr=False)
class PrivatePCA(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    PrivateEstimator,
):
    """Principal components with differential privacy and the interface of scikit-learn's PCA.

    The guarantee covers the fitted components. The guarantee does not cover rows that you
    transform, because each transformed row depends on one row. Transformed training rows are
    private rows in other coordinates, and so is everything that you compute from these rows.

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

    n_components : int or float, optional
        Number of components. The default is all. A number below 1 is the fraction of the variance
        that the components explain.

    correlation : bool, default False
        True to divide each column by its standard deviation first.

    whiten : bool, default False
        True to divide the scores by the standard deviations of the components.

    Attributes
    ----------
    release_ : Release
        Release of the last `fit`.

    guarantee_ : Guarantee
        Guarantee of the release.

    null_reason_ : str or None
        Reason for the null model. None for every other model.

    components_ : ndarray, shape (k, p)
        Orthonormal rows, with the largest variance first. The type is float32 if `X` is float32.

    explained_variance_ : ndarray, shape (k,)
        Variances of the components, with n - 1 in the denominator.

    explained_variance_ratio_ : ndarray, shape (k,)
        Variances as fractions of the total variance.

    singular_values_ : ndarray, shape (k,)
        Singular values of the centered table, computed from the variances.

    noise_variance_ : float
        Mean variance of the omitted components.

    mean_ : ndarray, shape (p,)
        Means of the columns.

    scale_ : ndarray, shape (p,)
        Divisors of the columns: 1, or the standard deviations. The divisor of a column without
        variance is infinite.

    n_components_ : int
        Number of components k.

    n_samples_ : float
        Number of rows n. An estimate if the number of rows is private.

    n_significant_ : int or None
        Number of dimensions in which the covariance is above the noise level. None if the noise
        distribution is unknown.

    n_features_in_ : int
        Number of columns.

    feature_names_in_ : ndarray of str
        Names of the columns, if the table has names.

    See Also
    --------
    dpcov.pca : Principal components of a release.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcov.estimators import PrivatePCA
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> fitted = PrivatePCA(bounds=(0, 1), n_components=1, epsilon=1.0).fit(table)
    >>> bool(fitted.explained_variance_ratio_[0] > 0.8)
    True

    """

    goal: ClassVar[Goal] = "correlation"  # this goal also makes the components accurate

    n_components: float | None = field(default=None, kw_only=True)
    correlation: bool = field(default=False, kw_only=True)
    whiten: bool = field(default=False, kw_only=True)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Make a release of the rows and compute the components. Each call spends the budget.

        If no correlation rises above the noise, the components are the axes, their variances are 0,
        and `fit` issues a `NullModelWarning`.

        Parameters
        ----------
        X : array-like, shape (n, p), or table
            Rows as an array, or as a table of pandas, polars or pyarrow. A list of rows needs one
            entry of `bounds` for each column.

        y : object, optional
            Ignored.

        Returns
        -------
        PrivatePCA
            The fitted estimator.

        Raises
        ------
        DpcovError
            The request is invalid. The budget is not spent.

        Examples
        --------
        >>> import numpy as np
        >>> from dpcov.estimators import PrivatePCA
        >>> x = np.linspace(0, 1, 5000)
        >>> table = np.column_stack([x, x**2])
        >>> fitted = PrivatePCA(bounds=(0, 1), epsilon=10.0).fit(table)
        >>> fitted.components_.shape
        (2, 2)

        """
        self._make_release(X)
        p, count, draws = self.n_features_in_, self._count(), self._simulation()
        found = self._analyzed(
            lambda: pca(self.release_, correlation=self.correlation, generator=draws)
        )
        if found is None:
            components, shares, total, scale = np.eye(p), np.zeros(p), 0.0, np.ones(p)
        else:
            components, shares = found.components, found.explained_variance_ratio
            total, scale = found.total_variance, found.deviations
        k = self._kept(shares)
        variances = total * shares * count / max(count - 1, 1.0)
        rest = variances[k : max(k, min(p, round(count)))]  # n rows have at most n components
        kept = {
            "components_": components[:k],
            "explained_variance_": variances[:k],
            "explained_variance_ratio_": shares[:k],
            "singular_values_": np.sqrt(variances[:k] * max(count - 1, 1.0)),
            "mean_": self._means(),
            "scale_": scale,
        }
        for name, part in kept.items():
            setattr(self, name, part.astype(self._dtype))
        self.noise_variance_ = float(rest.mean()) if len(rest) else 0.0
        self.n_components_ = k
        self.n_samples_ = count
        self.n_significant_ = 0 if found is None else found.significant
        return self

    def _kept(self, shares: Vector) -> int:
        """Return the number of components to keep, from `n_components`."""
        if self.n_components is None or isinstance(self.n_components, Integral):
            return len(shares) if self.n_components is None else int(self.n_components)
        reached = np.searchsorted(np.cumsum(shares), self.n_components, side="right")
        return min(int(reached) + 1, len(shares))

    def _check_request(self, features: int, targets: int) -> None:
        k = self.n_components
        if k is None or (1 <= k <= features if isinstance(k, Integral) else _is_share(k)):
            return
        raise EstimatorError(
            f"n_components={k} must be between 1 and the number of columns, n_features={features}, "
            "or a share of the variance above 0 and below 1."
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def transform(self, X: Any) -> Matrix:
        """Compute the scores of new rows. The scores of training rows are not protected.

        Values outside the bounds count as the nearer bound. Missing values count as the midpoint.

        Parameters
        ----------
        X : array-like, shape (m, p), or table
            New rows.

        Returns
        -------
        ndarray, shape (m, k)
            Scores.

        Raises
        ------
        NotFittedError
            The estimator is not fitted.

        See Also
        --------
        PrivatePCA.inverse_transform : Rows with given scores.

        Examples
        --------
        >>> import numpy as np
        >>> from dpcov.estimators import PrivatePCA
        >>> x = np.linspace(0, 1, 5000)
        >>> table = np.column_stack([x, x**2])
        >>> fitted = PrivatePCA(bounds=(0, 1), n_components=1, epsilon=10.0).fit(table)
        >>> fitted.transform([[0.2, 0.1], [0.9, 0.8]]).shape
        (2, 1)

        """
        check_is_fitted(self)
        rows, kind = self._new_rows(X)
        scores = (rows - self.mean_) / self.scale_ @ self.components_.T
        return (scores / np.where(self._units > 0, self._units, np.inf)).astype(kind)

    def inverse_transform(self, X: Any) -> Matrix:
        """Return the rows that have given scores and lie in the space of the components.

        Parameters
        ----------
        X : array-like, shape (m, k)
            Scores.

        Returns
        -------
        ndarray, shape (m, p)
            Rows in the units of the data.

        Raises
        ------
        EstimatorError
            The number of scores in a row differs from the number of components.
        NotFittedError
            The estimator is not fitted.

        See Also
        --------
        PrivatePCA.transform : Scores of rows.

        Examples
        --------
        >>> import numpy as np
        >>> from dpcov.estimators import PrivatePCA
        >>> x = np.linspace(0, 1, 5000)
        >>> table = np.column_stack([x, x**2])
        >>> fitted = PrivatePCA(bounds=(0, 1), n_components=1, epsilon=10.0).fit(table)
        >>> fitted.inverse_transform([[0.0], [0.5]]).shape
        (2, 2)

        """
        check_is_fitted(self)
        scores = check_array(X, dtype=[np.float64, np.float32])
        if scores.shape[1] != self.n_components_:
            raise EstimatorError(f"Scores need {self.n_components_} columns.")
        return scores * self._units @ self.components_ * self._spreads + self.mean_

    def get_covariance(self) -> Matrix:
        """Return the covariance matrix of the model.

        The variance along a component is an entry of `explained_variance_`. The variance along
        every other direction is `noise_variance_`.

        Returns
        -------
        ndarray, shape (p, p)
            Covariance matrix in the units of the data.

        Raises
        ------
        NotFittedError
            The estimator is not fitted.

        Notes
        -----
        The model is probabilistic PCA (Tipping and Bishop 1999).

        Examples
        --------
        >>> import numpy as np
        >>> from dpcov.estimators import PrivatePCA
        >>> x = np.linspace(0, 1, 5000)
        >>> table = np.column_stack([x, x**2])
        >>> fitted = PrivatePCA(bounds=(0, 1), n_components=1, epsilon=10.0).fit(table)
        >>> fitted.get_covariance().shape
        (2, 2)

        """
        check_is_fitted(self)
        above = np.maximum(self.explained_variance_ - self.noise_variance_, 0)
        model = self.components_.T * above @ self.components_
        model += self.noise_variance_ * np.eye(self.n_features_in_, dtype=model.dtype)
        return model * np.outer(self._spreads, self._spreads)

    def get_precision(self) -> Matrix:
        """Return the pseudo-inverse of the covariance matrix of the model.

        Returns
        -------
        ndarray, shape (p, p)
            Precision matrix, in inverse squared units of the data.

        Raises
        ------
        NotFittedError
            The estimator is not fitted.

        Examples
        --------
        >>> import numpy as np
        >>> from dpcov.estimators import PrivatePCA
        >>> x = np.linspace(0, 1, 5000)
        >>> table = np.column_stack([x, x**2])
        >>> fitted = PrivatePCA(bounds=(0, 1), n_components=1, epsilon=10.0).fit(table)
        >>> fitted.get_precision().shape
        (2, 2)

        """
        inverse: Any = np.linalg.pinv(self.get_covariance(), hermitian=True)
        return inverse

    def score_samples(self, X: Any) -> Vector:
        """Compute the log-likelihood of each row under the model.

        The guarantee does not cover the log-likelihoods of training rows.

        Parameters
        ----------
        X : array-like, shape (m, p), or table
            Rows. Values outside the bounds count as the nearer bound. Missing values count as the
            midpoint.

        Returns
        -------
        ndarray, shape (m,)
            Log-likelihoods. The log-likelihood is minus infinity if a direction has no variance.

        Raises
        ------
        NotFittedError
            The estimator is not fitted.

        Notes
        -----
        The density is normal, with the covariance matrix of `get_covariance` (Bishop 2006, section
        12.2.1).

        Examples
        --------
        >>> import numpy as np
        >>> from dpcov.estimators import PrivatePCA
        >>> x = np.linspace(0, 1, 5000)
        >>> table = np.column_stack([x, x**2])
        >>> fitted = PrivatePCA(bounds=(0, 1), n_components=1, epsilon=10.0).fit(table)
        >>> fitted.score_samples([[0.2, 0.1], [0.9, 0.8]]).shape
        (2,)

        """
        check_is_fitted(self)
        rows, kind = self._new_rows(X)
        off, precision = rows - self.mean_, self.get_precision()
        constant = self.n_features_in_ * np.log(2 * np.pi) - fast_logdet(precision)
        return (-(np.sum(off @ precision * off, axis=1) + constant) / 2).astype(kind)

    def score(self, X: Any, y: Any = None) -> float:
        """Compute the mean log-likelihood of rows under the model.

        The guarantee does not cover the mean log-likelihood of training rows.

        Parameters
        ----------
        X : array-like, shape (m, p), or table
            Rows, as in `score_samples`.

        y : object, optional
            Ignored.

        Returns
        -------
        float
            Mean of the log-likelihoods.

        Raises
        ------
        NotFittedError
            The estimator is not fitted.

        See Also
        --------
        PrivatePCA.score_samples : Log-likelihood of each row.

        Examples
        --------
        >>> import numpy as np
        >>> from dpcov.estimators import PrivatePCA
        >>> x = np.linspace(0, 1, 5000)
        >>> table = np.column_stack([x, x**2])
        >>> fitted = PrivatePCA(bounds=(0, 1), n_components=1, epsilon=10.0).fit(table)
        >>> isinstance(fitted.score([[0.2, 0.1], [0.9, 0.8]]), float)
        True

        """
        return float(np.mean(self.score_samples(X)))

    @property
    def _units(self) -> Vector:
        """Divisors of the scores, shape (k,), or (1,) without whitening."""
        return np.sqrt(self.explained_variance_) if self.whiten else np.ones_like(self.mean_[:1])

    @property
    def _spreads(self) -> Vector:
        """Divisors `scale_` of the columns, shape (p,), with 0 for a column without variance."""
        return np.where(np.isfinite(self.scale_), self.scale_, 0)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_


def _is_share(value: Any) -> bool:
    return isinstance(value, float | np.floating) and bool(0 < value < 1)
