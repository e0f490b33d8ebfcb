"""Ridge regression, as a regressor."""

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
    """Ridge regression under differential privacy, with scikit-learn's interface.

    One release of the columns and the targets together, whose rows are what is protected. The model
    may be published; predictions for training rows, and their `score`, are not protected.

    Parameters
    ----------
    bounds : public ``(lower, upper)``, each a number or one for each column; or a dict of pairs by
        column name. Required; never taken from the data.
    target_bounds : public ``(lower, upper)`` of the target, each a number or one for each of
        several targets; or a dict of pairs by name. Required.
    alpha : strength of the penalty, at least 0, or one for each target; default, chosen from the
        release.
    penalty : ``encoded``, ``standardized`` or ``raw``: in which units coefficients are penalised;
        see `dpcov.ridge`. (scikit-learn's `Ridge` has the ``raw`` one, its alpha divided by 2 n, or
        by twice the sum of the weights.)
    fit_intercept : whether to fit an intercept.
    largest_weight : public bound on `sample_weight`; required where `fit` is given weights, which
        cost no privacy if each depends on its row alone. Larger ones count as the largest, missing
        and negative ones as 0.
    missing, epsilon, delta, rho, neighbors, mechanism, denoise, radius, ledger, dataset, \
n_features, random_state : as in `PrivateCovariance`.

    Attributes
    ----------
    release_, guarantee_ : the release (of the columns, then the targets) and its guarantee.
    null_reason_ : None, or why the coefficients say nothing of the table.
    coef_ : (p,), or (t, p) of several targets; float32 where `X` is.
    intercept_ : float, or (t,)
    alpha_ : the penalty used, or (t,); NaN of a null model.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    Examples
    --------
    >>> import numpy as np
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
        column = len(getattr(y, "shape", ())) == 2  # whose intercept is one, as in scikit-learn
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
        tags.regressor_tags.poor_score = True  # of 200 rows, at a budget that is not known here
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

        """
        check_is_fitted(self)
        rows, kind = self._new_rows(X)
        return (rows @ self.coef_.T + self.intercept_).astype(kind)
