"""scikit-learn's own checks of estimators, on those of `dpcov.estimators`."""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpcov.estimators import PrivateCovariance, PrivateGraphicalLasso, PrivatePCA, PrivateRidge

SETTINGS: dict[str, Any] = {"bounds": (-300, 300), "epsilon": 1e12, "random_state": 0}
ESTIMATORS = [
    PrivateCovariance(**SETTINGS),
    PrivateGraphicalLasso(**SETTINGS, alpha=0.1),
    PrivatePCA(**SETTINGS),
    PrivateRidge(**SETTINGS, target_bounds=(-500, 500), alpha=1e-6, penalty="standardized"),
]


# Each asks for an error that depends on the cells or on the number of rows, which are private.
EXEMPT = {
    "check_dtype_object": "a cell that is no number is a missing value: one person's cell must "
    "not decide whether a fit fails",
    "check_estimators_empty_data_messages": "an empty table is a neighbour of one with a row, so "
    "refusing it would tell of that row (a table without columns is refused: "
    "test_a_table_without_columns_is_refused)",
}
EXEMPT_SHAPE = {
    "check_fit2d_1sample": "nothing varies in a single row, which is said without their number",
}
# Who fits lists as well, and their columns: no row may tell how many there are, so bounds must.
COLUMNS_OF_LISTS = {"check_transformer_data_not_an_array": 3, "check_regressors_train": 10}
EXEMPT_REGRESSOR = {
    "check_supervised_y_no_nan": "a target that is infinite or missing is a value like others, "
    "moved into the bounds: one person's cell must not decide whether a fit fails",
}


def exempt(estimator: Any) -> dict[str, str]:
    if isinstance(estimator, PrivateRidge):
        return EXEMPT | EXEMPT_REGRESSOR
    return EXEMPT | ({} if type(estimator) is PrivateCovariance else EXEMPT_SHAPE)


def name_of(check: Any) -> str:
    """The name of a check, without its options."""
    return name_of(check.func) if isinstance(check, partial) else str(check.__name__)


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=exempt, xfail_strict=True)
def test_scikit_learns_check_passes(estimator: Any, check: Any) -> None:
    if columns := COLUMNS_OF_LISTS.get(name_of(check)):
        lower, upper = estimator.bounds
        estimator = clone(estimator).set_params(bounds=([lower] * columns, [upper] * columns))
    check(estimator)
