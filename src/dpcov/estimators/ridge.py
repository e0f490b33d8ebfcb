"""Ridge regression, as a regressor."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from sklearn.base import RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted

from dpcov.analysis.normal_equations import PENALTIES
from dpcov.analysis.ridge import ridge
from dpcov.core.parameters import AtLeast0, check
from dpcov.errors import EstimatorError
from dpcov.estimators.base import PrivateEstimator
from dpcov.rows.sources.training import one_column

if TYPE_CHECKING:
    from typing import Self

    from dpcov.analysis.normal_equations import Penalty
    from dpcov.analysis.ridge import Ridge
    from dpcov.core.arrays import Vector
    from dpcov.mechanisms.choice import Goal


COLUMN = (
    "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
    "(n_samples, ), for example using ravel()."
)


@dataclass(eq=False, repr=False)
class PrivateRidge(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Ridge regression under differential privacy, with scikit-learn's interface.

    One release of the columns and the target together, whose rows are what is protected. The model
    may be published; predictions for training rows, and their `score`, are not protected.

    Parameters
    ----------
    bounds : public ``(lower, upper)``, each a number or one for each column; or a dict of pairs by
        column name. Required; never taken from the data.
    target_bounds : public ``(lower, upper)`` of the target. Required.
    alpha : strength of the penalty, at least 0; default, chosen from the release.
    penalty : ``encoded``, ``standardized`` or ``raw``: in which units coefficients are penalised;
        see `dpcov.ridge`. (scikit-learn's `Ridge` has the ``raw`` one, its alpha divided by 2 n.)
    epsilon, delta, rho, neighbors, mechanism, denoise, radius, ledger, dataset, random_state : as
        in `PrivateCovariance`.

    Attributes
    ----------
    release_, guarantee_ : the release (of the columns, then the target) and its guarantee.
    coef_ : (p,)
    intercept_ : float
    alpha_ : the penalty used.
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
    alpha: float | None = field(default=None, kw_only=True)
    penalty: Penalty = field(default="encoded", kw_only=True)

    def fit(self, X: Any, y: Any) -> Self:
        """Make a release of the rows of `X` and `y` together; spends the budget.

        Parameters
        ----------
        X : (n, p) array, or table of pandas, polars or pyarrow with p columns of numbers; a list of
            rows, if `bounds` has one entry for each column.
        y : (n,) target, numbers; of a list what is no number, nor a list of one, is missing.

        Raises
        ------
        DpcovError : one of its kinds, before anything is spent; or `ReleaseError`, if nothing
            rises above the noise: `release_` is there all the same.

        """
        if y is None:
            raise EstimatorError("PrivateRidge requires y to be passed, but the target y is None.")
        if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:
            warnings.warn(COLUMN, DataConversionWarning, stacklevel=2)
            y = one_column(y)
        self._make_release(X, target=y, target_bounds=self.target_bounds)
        columns = self.release_.columns
        found = ridge(
            self.release_,
            columns[-1],
            self.alpha,
            columns[:-1],
            penalty=self.penalty,
            generator=self._simulation(),
        )
        self._found: Ridge = found
        self.coef_: Vector = found.coefficients
        self.intercept_: float = found.intercept
        self.alpha_: float = found.alpha
        return self

    def _check_request(self, features: int) -> None:
        if self.penalty not in PENALTIES:
            raise EstimatorError(
                f"There is no penalty {self.penalty!r}. Choose: {', '.join(PENALTIES)}."
            )
        check("alpha", self.alpha, AtLeast0 | None, EstimatorError)

    def predict(self, X: Any) -> Vector:
        """(m,) predictions for new rows; for training rows they are not protected.

        Values outside the bounds are moved to the nearer bound, missing ones to the midpoint.
        """
        check_is_fitted(self)
        return self._found.predict(self._new_rows(X))
