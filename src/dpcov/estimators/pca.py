"""Principal components, as a transformer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from dpcov.analysis.pca import pca
from dpcov.errors import EstimatorError
from dpcov.estimators.base import PrivateEstimator

if TYPE_CHECKING:
    from typing import Self

    from dpcov.analysis.pca import PCA
    from dpcov.core.arrays import Matrix


@dataclass(eq=False, repr=False)
class PrivatePCA(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    PrivateEstimator,
):
    """Principal components under differential privacy, with the interface of scikit-learn's PCA.

    The fitted components are protected. Rows that are transformed are not: each is a function of
    one row. To `transform` (or `fit_transform`, as pipelines do) the rows of the training table
    gives private rows in other coordinates, and what is learnt from those is not private either.

    Parameters
    ----------
    bounds : public ``(lower, upper)``, each a number or one for each column; or a dict of pairs by
        column name. Required; never taken from the data.
    n_components : between 1 and the number of columns; default, all.
    correlation : divide each column by its standard deviation first.
    epsilon, delta, rho, neighbors, mechanism, denoise, radius, ledger, dataset, random_state : as
        in `PrivateCovariance`.

    Attributes
    ----------
    release_, guarantee_ : the release and its guarantee.
    components_ : (k, p) orthonormal rows, strongest first.
    explained_variance_, explained_variance_ratio_ : (k,)
    mean_ : (p,)
    scale_ : (p,) what rows are divided by: 1, or the standard deviations (infinite for a column
        without variance, which takes no part).
    n_components_ : k.
    n_significant_ : in how many dimensions the covariance rises above the privacy noise; None
        where that can't be told.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> fitted = PrivatePCA(bounds=(0, 1), n_components=1, epsilon=1.0).fit(table)
    >>> bool(fitted.explained_variance_ratio_[0] > 0.8)
    True

    """

    n_components: int | None = field(default=None, kw_only=True)
    correlation: bool = field(default=False, kw_only=True)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Make a release of the rows of `X`, and find its components; spends the budget.

        Parameters
        ----------
        X : (n, p) array, or table of pandas, polars or pyarrow with p columns of numbers; a list of
            rows, if `bounds` has one entry for each column.
        y : ignored.

        Raises
        ------
        DpcovError : one of its kinds, before anything is spent; or `ReleaseError`, if nothing
            rises above the noise: `release_` is there all the same.

        """
        self._make_release(X)
        found = pca(
            self.release_,
            self.n_components,
            correlation=self.correlation,
            generator=self._simulation(),
        )
        self._found: PCA = found
        self.components_: Matrix = found.components
        self.n_components_: int = len(found.components)
        self.explained_variance_ = found.explained_variance
        self.explained_variance_ratio_ = found.explained_variance_ratio
        self.mean_ = found.means
        self.scale_ = found.deviations
        self.n_significant_ = found.significant
        return self

    def _check_request(self, features: int) -> None:
        k = self.n_components
        if k is not None and not 1 <= k <= features:
            raise EstimatorError(
                f"n_components={k} must be between 1 and the number of columns, "
                f"n_features={features}."
            )

    def transform(self, X: Any) -> Matrix:
        """(m, k) scores of new rows; of training rows they are not protected.

        Values outside the bounds are moved to the nearer bound, missing ones to the midpoint.
        """
        check_is_fitted(self)
        return self._found.transform(self._new_rows(X))

    def inverse_transform(self, X: Any) -> Matrix:
        """(m, p) rows with these (m, k) scores."""
        check_is_fitted(self)
        scores = check_array(X)
        if scores.shape[1] != self.n_components_:
            raise EstimatorError(f"Scores need {self.n_components_} columns.")
        spreads = np.where(np.isfinite(self.scale_), self.scale_, 0.0)
        return scores @ self.components_ * spreads + self.mean_

    @property
    def _n_features_out(self) -> int:
        return self.n_components_
