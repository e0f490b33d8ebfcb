"""scikit-learn's own checks of estimators, on the estimators of `dpcov.estimators`."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpcov.estimators import PrivateCovariance, PrivateGraphicalLasso, PrivatePCA, PrivateRidge

pytestmark = pytest.mark.filterwarnings("ignore::dpcov.estimators.NullModelWarning")

SETTINGS: dict[str, Any] = {"bounds": (-300, 300), "epsilon": 1e12, "random_state": 0}
ESTIMATORS = [
    PrivateCovariance(**SETTINGS),
    PrivateGraphicalLasso(**SETTINGS, alpha=0.1),
    PrivatePCA(**SETTINGS),
    PrivateRidge(
        **SETTINGS,
        target_bounds=(-500, 500),
        alpha=1e-6,
        penalty="standardized",
        largest_weight=10.0,
    ),
]
# As people use them: no seed, a small budget, and penalties chosen from the release.
NOISY = [clone(own).set_params(epsilon=1.0, random_state=None) for own in ESTIMATORS]
for own in NOISY[1::2]:
    own.set_params(alpha=None)


# Each asks for an error that depends on the cells or on the number of rows, which are private.
EXEMPT = {
    "check_dtype_object": "a cell that is no number is a missing value: one person's cell must "
    "not decide whether a fit fails",
    "check_estimators_empty_data_messages": "an empty table is a neighbour of one with a row, so "
    "refusing it would reveal that row (a table without columns is refused: "
    "test_a_table_without_columns_is_refused)",
}
# Estimators that also fit lists, and their columns: bounds, not rows, give the number of columns.
COLUMNS_OF_LISTS = {"check_transformer_data_not_an_array": 3, "check_regressors_train": 10}
EXEMPT_REGRESSOR = {
    "check_supervised_y_no_nan": "a target that is infinite or missing is a value like others, "
    "moved into the bounds: one person's cell must not decide whether a fit fails",
    "check_all_zero_sample_weights_error": "weights are private: nothing may reveal that all are 0",
    "check_sample_weight_equivalence_on_dense_data": "two tables are rounded each by itself, and "
    "two fits draw two noises",
}


def exempt(estimator: Any) -> dict[str, str]:
    return EXEMPT | (EXEMPT_REGRESSOR if isinstance(estimator, PrivateRidge) else {})


def name_of(check: Any) -> str:
    """Return the name of a check, without its options."""
    return name_of(check.func) if isinstance(check, partial) else str(check.__name__)


def run(estimator: Any, check: Any) -> None:
    if columns := COLUMNS_OF_LISTS.get(name_of(check)):
        lower, upper = estimator.bounds
        estimator = clone(estimator).set_params(bounds=([lower] * columns, [upper] * columns))
    check(estimator)


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=exempt, xfail_strict=True)
def test_scikit_learns_check_passes(estimator: Any, check: Any) -> None:
    run(estimator, check)


def exempt_in_noise(estimator: Any) -> dict[str, str]:
    """Return exempt checks, with the check that noise satisfies: both fits have the null model."""
    kept = exempt(estimator)
    kept.pop("check_sample_weight_equivalence_on_dense_data", None)
    return kept


@pytest.mark.slow
@parametrize_with_checks(NOISY, expected_failed_checks=exempt_in_noise, xfail_strict=True)
def test_no_check_fails_because_of_noise(estimator: Any, check: Any) -> None:
    run(estimator, check)
