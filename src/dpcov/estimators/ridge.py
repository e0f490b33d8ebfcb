"""Ridge regression as a regressor of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from dpcov.analysis.normal_equations import PENALTIES
from dpcov.analysis.ridge import ridge
from dpcov.core.parameters import AtLeast0, check
from dpcov.errors import EstimatorError
from dpcov.estimators.base import PrivateEstimator

if TYPE_CHECKING:
    from typing import Self

    from dpcov.analysis.normal_equations import Penalty
    from dpcov.core.arrays import Matrix
    from dpcov.mechanisms.choice import Goal


@dataclass(eq=False, repr=False)
class PrivateRidge(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Ridge regression with differential privacy and the interface of scikit-learn.

    Each `fit` makes one release of the columns and the targets together. The guarantee covers the
    rows of this table. You can publish the model. Predictions for training rows and their `score`
    are not protected.

    Parameters
    ----------
    bounds : tuple of two bounds, or dict of tuples by column name
        Public bounds: one number, or one number for each column. Required. Never compute the bounds
        from the data.

    target_bounds : tuple of two bounds, or dict of tuples by target name
        Public bounds of the target: one number, or one number for each target. Required.

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

    alpha : float or sequence of float, optional
        Strength of the penalty, at least 0, or one strength for each target. By default the release
        determines the strength.

    penalty : {'encoded', 'standardized', 'raw'}, default 'encoded'
        Units in which the coefficients are penalized (see `dpcov.ridge`). The `Ridge` of
        scikit-learn uses ``raw``. Its alpha divided by 2 n, or by twice the sum of the weights, is
        alpha here.

    fit_intercept : bool, default True
        True to fit an intercept.

    largest_weight : float, optional
        Public bound of `sample_weight`. Required if `fit` gets weights. Weights cost no privacy if
        each weight depends only on its row. A larger weight counts as the bound. A missing or
        negative weight counts as 0.

    Attributes
    ----------
    release_ : Release
        Release of the last `fit`.

    guarantee_ : Guarantee
        Guarantee of the release.

    null_reason_ : str or None
        Reason for the null model. None for every other model.

    coef_ : ndarray, shape (p,) or (t, p)
        Coefficients, for one target or for t targets. The type is float32 if `X` is float32.

    intercept_ : float or ndarray, shape (t,)
        Intercept.

    alpha_ : float or ndarray, shape (t,)
        Strength of the penalty. NaN for a null model.

    n_features_in_ : int
        Number of columns.

    feature_names_in_ : ndarray of str
        Names of the columns, if the table has names.

    See Also
    --------
    dpcov.ridge : Ridge regression from a release.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcov.estimators import PrivateRidge
    >>> x = np.linspace(0, 1, 5000)
    >>> model = PrivateRidge(bounds=(0, 1), target_bounds=(0, 2), alpha=1e-4, epsilon=10.0)
    >>> bool(abs(model.fit(x[:, None], 2 * x).coef_[0] - 2) < 0.1)
    True

    """

    goal: ClassVar[Goal] = "regression"

    target_bounds: Any = None
    alpha: Any = field(default=None, kw_only=True)
    penalty: Penalty = field(default="encoded", kw_only=True)
    fit_intercept: bool = field(default=True, kw_only=True)
    largest_weight: float | None = field(default=None, kw_only=True)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Make a release of the rows and fit the regression. Each call spends the budget.

        If no correlation rises above the noise, the coefficients are 0 and the intercept is the
        mean of the target. `fit` then issues a `NullModelWarning`.

        Parameters
        ----------
        X : array-like, shape (n, p), or table
            Rows as an array, or as a table of pandas, polars or pyarrow. A list of rows needs one
            entry of `bounds` for each column.

        y : array-like, shape (n,) or (n, t)
            Targets. Several targets as a list need one entry of `target_bounds` for each target.

        sample_weight : array-like, shape (n,), or float, optional
            Weights of the rows, at most `largest_weight`.

        Returns
        -------
        PrivateRidge
            The fitted estimator.

        Raises
        ------
        DpcovError
            The request is invalid. The budget is not spent.

        See Also
        --------
        dpcov.ridge : Ridge regression from a release.

        Examples
        --------
        >>> import numpy as np
        >>> from dpcov.estimators import PrivateRidge
        >>> x = np.linspace(0, 1, 5000)
        >>> model = PrivateRidge(bounds=(0, 1), target_bounds=(0, 2), alpha=1e-4, epsilon=10.0)
        >>> fitted = model.fit(x[:, None], 2 * x)
        >>> bool(abs(fitted.intercept_) < 0.1)
        True

        """
        if y is None:
            raise EstimatorError("PrivateRidge requires y to be passed, but the target y is None.")
        self._make_release(
            X,
            target=y,
            target_bounds=self.target_bounds,
            weights=sample_weight,
            largest_weight=self.largest_weight,
        )
        columns = self.release_.columns
        features, targets = columns[: self.n_features_in_], columns[self.n_features_in_ :]
        generator = self._simulation()
        models = self._analyzed(
            lambda: [
                ridge(
                    self.release_,
                    target,
                    alpha,
                    features,
                    intercept=self.fit_intercept,
                    penalty=self.penalty,
                    errors=False,
                    generator=generator,
                )
                for target, alpha in zip(targets, self._alphas(len(targets)), strict=True)
            ]
        )
        if models is None:
            coefficients = np.zeros((len(targets), len(features)))
            intercepts = self._means()[len(features) :] * self.fit_intercept
            alphas = np.full(len(targets), np.nan)
        else:
            coefficients = np.array([model.coefficients for model in models])
            intercepts = np.array([model.intercept for model in models])
            alphas = np.array([model.alpha for model in models])
        coefficients, intercepts = coefficients.astype(self._dtype), intercepts.astype(self._dtype)
        one = len(targets) == 1
        column = len(getattr(y, "shape", ())) == 2  # the intercept is then an array (scikit-learn)
        self.coef_: Matrix = coefficients[0] if one else coefficients
        self.intercept_: Any = intercepts[0] if one and not column else intercepts
        self.alpha_: Any = float(alphas[0]) if one else alphas
        return self

    def _alphas(self, targets: int) -> list[Any]:
        """Return the penalty of each target."""
        return [self.alpha] * targets if np.ndim(self.alpha) == 0 else list(self.alpha)

    def _check_request(self, features: int, targets: int) -> None:
        if self.penalty not in PENALTIES:
            raise EstimatorError(
                f"There is no penalty {self.penalty!r}. Choose: {', '.join(PENALTIES)}."
            )
        alphas = self._alphas(targets)
        if len(alphas) != targets:
            raise EstimatorError(
                "Number of targets and number of penalties do not correspond: "
                f"{len(alphas)} != {targets}."
            )
        for alpha in alphas:
            check("alpha", alpha, AtLeast0 | None, EstimatorError)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        # scikit-learn tests the score with 200 rows, and the budget is unknown here.
        tags.regressor_tags.poor_score = True
        return tags

    def predict(self, X: Any) -> Matrix:
        """Predict the targets of new rows. Predictions for training rows are not protected.

        Values outside the bounds count as the nearer bound. Missing values count as the midpoint.

        Parameters
        ----------
        X : array-like, shape (m, p), or table
            New rows.

        Returns
        -------
        ndarray, shape (m,) or (m, t)
            Predictions in units of the targets.

        Raises
        ------
        NotFittedError
            The estimator is not fitted.

        Examples
        --------
        >>> import numpy as np
        >>> from dpcov.estimators import PrivateRidge
        >>> x = np.linspace(0, 1, 5000)
        >>> model = PrivateRidge(bounds=(0, 1), target_bounds=(0, 2), alpha=1e-4, epsilon=10.0)
        >>> fitted = model.fit(x[:, None], 2 * x)
        >>> bool(abs(fitted.predict([[0.5]])[0] - 1) < 0.1)
        True

        """
        check_is_fitted(self)
        rows, kind = self._new_rows(X)
        return (rows @ self.coef_.T + self.intercept_).astype(kind)
