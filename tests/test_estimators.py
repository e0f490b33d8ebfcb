"""The estimators: what they fit is a release, what it costs, and what they refuse."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.covariance import EmpiricalCovariance
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as PlainRidge
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline

import dpcov
from dpcov.analysis.precision import precision
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import Neighbors, PureDP
from dpcov.errors import BudgetExceededError, DpcovError, EstimatorError
from dpcov.estimators import (
    NullModelWarning,
    PrivateCovariance,
    PrivateGraphicalLasso,
    PrivatePCA,
    PrivateRidge,
    base,
)
from tables_for_tests import PLANTED

GENERATOR = np.random.default_rng(0)
MIXING = np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.3], [0.0, 0.0, 0.5]])
ROWS = np.clip(GENERATOR.standard_normal((4000, 3)) @ MIXING + [0, 1, 2], -4, 6)
TARGET = np.clip(ROWS @ [1.0, -0.5, 0.2] + 0.1 * GENERATOR.standard_normal(4000), -8, 8)
NAMES = ["age", "height", "income"]
FRAME = pd.DataFrame(ROWS, columns=NAMES)
LOWER, UPPER = [-4, -4, -3], [4.0, 6.0, 6.5]
EXACT: dict[str, Any] = {"bounds": (LOWER, UPPER), "epsilon": 1e9, "random_state": 0}
RIDGE = PrivateRidge(**EXACT, target_bounds=(-8, 8), alpha=1e-6)
ALL = [
    PrivateCovariance(**EXACT),
    PrivateGraphicalLasso(**EXACT, alpha=0.05),
    PrivatePCA(**EXACT),
    RIDGE,
]
BY_NAME = pytest.mark.parametrize("estimator", ALL, ids=lambda e: type(e).__name__)


# What is fitted


def test_a_covariance_is_that_of_the_release() -> None:
    fitted = PrivateCovariance(**EXACT).fit(FRAME)
    made = dpcov.release(FRAME, lower=LOWER, upper=UPPER, epsilon=1e9, seed=0)
    assert np.array_equal(fitted.covariance_, made.covariance())
    assert np.array_equal(fitted.location_, made.mean())
    plain = EmpiricalCovariance().fit(ROWS)
    assert np.allclose(fitted.covariance_, plain.covariance_, atol=1e-4)
    assert np.allclose(fitted.precision_, plain.precision_, rtol=1e-3, atol=1e-3)
    assert fitted.score(FRAME) == pytest.approx(plain.score(ROWS), abs=1e-4)
    assert np.allclose(fitted.mahalanobis(FRAME), plain.mahalanobis(ROWS), rtol=1e-2)
    assert fitted.error_norm(plain.covariance_) < 1e-6


def test_it_stands_in_for_scikit_learns() -> None:
    fitted = PrivateCovariance(**EXACT, store_precision=False).fit(ROWS)
    assert isinstance(fitted, EmpiricalCovariance)
    assert fitted.precision_ is None
    assert np.allclose(fitted.get_precision() @ fitted.covariance_, np.eye(3))


def test_components_are_those_of_the_release() -> None:
    fitted = PrivatePCA(**EXACT, n_components=2).fit(FRAME)
    made = dpcov.release(FRAME, lower=LOWER, upper=UPPER, epsilon=1e9, goal="correlation", seed=0)
    found = dpcov.pca(made, 2)
    assert np.array_equal(fitted.components_, found.components)
    assert (fitted.n_components_, fitted.n_significant_) == (2, 3)
    assert np.array_equal(fitted.transform(FRAME), found.transform(FRAME))


def test_components_of_correlations_divide_by_deviations() -> None:
    fitted = PrivatePCA(**EXACT, correlation=True).fit(ROWS)
    assert np.allclose(fitted.scale_, ROWS.std(axis=0), rtol=1e-3)
    scores = fitted.transform(ROWS)
    assert np.allclose(scores.var(axis=0), fitted.explained_variance_, rtol=1e-3)
    assert np.allclose(fitted.inverse_transform(scores), ROWS)


def test_rows_come_back_from_their_scores() -> None:
    fitted = PrivatePCA(**EXACT).fit(ROWS)
    assert np.allclose(fitted.inverse_transform(fitted.transform(ROWS)), ROWS)
    with pytest.raises(EstimatorError, match="Scores need 3 columns"):
        fitted.inverse_transform(np.zeros((2, 2)))


def test_a_ridge_is_that_of_the_release() -> None:
    fitted = clone(RIDGE).fit(FRAME, TARGET)
    joined = FRAME.assign(y=TARGET)
    bounds = {"lower": [*LOWER, -8], "upper": [*UPPER, 8]}
    made = dpcov.release(joined, **bounds, epsilon=1e9, goal="regression", seed=0)
    assert made.parameters["directions_share"] > 0
    found = dpcov.ridge(made, "y", 1e-6)
    assert np.array_equal(fitted.coef_, found.coefficients)
    assert fitted.intercept_ == found.intercept
    assert np.allclose(fitted.predict(FRAME), found.predict(FRAME), rtol=1e-12)
    plain = LinearRegression().fit(ROWS, TARGET)
    assert np.allclose(fitted.coef_, plain.coef_, atol=5e-3)
    assert fitted.score(FRAME, TARGET) == pytest.approx(plain.score(ROWS, TARGET), abs=1e-4)


def test_the_raw_penalty_is_scikit_learns() -> None:
    fitted = clone(RIDGE).set_params(alpha=0.05, penalty="raw").fit(ROWS, TARGET)
    plain = PlainRidge(alpha=0.05 * 2 * len(ROWS)).fit(ROWS, TARGET)
    assert np.allclose(fitted.coef_, plain.coef_, atol=1e-3)


def test_alpha_is_chosen_from_the_release_and_reported() -> None:
    ridge = PrivateRidge((-8, 8), (-8, 8), epsilon=1.0, random_state=0).fit(ROWS, TARGET)
    assert ridge.alpha_ > 0
    assert ridge.alpha is None
    again = clone(ridge).fit(ROWS, TARGET)
    assert again.alpha_ == ridge.alpha_, "the simulations are seeded too"
    graph = PrivateGraphicalLasso(**EXACT).fit(ROWS)
    assert graph.alpha_ == precision(graph.release_).alpha


def test_a_graph_has_zeros_in_its_precision_matrix() -> None:
    generator = np.random.default_rng(1)
    chain = np.eye(5) + 0.4 * (np.eye(5, k=1) + np.eye(5, k=-1))
    rows = generator.multivariate_normal(np.zeros(5), np.linalg.inv(chain), 20_000)
    fitted = PrivateGraphicalLasso((-9, 9), epsilon=1e6, random_state=0, alpha=0.1).fit(rows)
    near = np.abs(np.subtract.outer(range(5), range(5))) <= 1
    assert np.array_equal(fitted.precision_ != 0, near)
    assert np.allclose(fitted.precision_ @ fitted.covariance_, np.eye(5))
    assert len(fitted.graph_.edges) == 4
    assert fitted.score(rows) > -10


def test_a_column_without_variance_has_no_place_in_the_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def flat(*args: Any, **request: Any) -> Any:
        made = dpcov.release(*args, **request)
        moment = made.second_moment().copy()
        moment[1, :] = moment[:, 1] = 0
        return made.with_denoised("shrink", moment)

    monkeypatch.setattr("dpcov.estimators.base.release", flat)
    fitted = PrivateGraphicalLasso(**EXACT, alpha=0.1).fit(FRAME)
    assert fitted.graph_.left_out == ("height",)
    for matrix in (fitted.precision_, fitted.covariance_):
        assert not matrix[1].any()
        assert np.diag(matrix)[[0, 2]].all()
    components = PrivatePCA(**EXACT, correlation=True).fit(FRAME)
    rows = components.inverse_transform(components.transform(FRAME))
    assert np.allclose(rows[:, 1], components.mean_[1])


# What a fit costs and guarantees


@BY_NAME
def test_the_release_and_its_guarantee_are_kept(estimator: Any) -> None:
    fitted = clone(estimator).set_params(epsilon=50.0, neighbors="replace-one").fit(ROWS, TARGET)
    assert fitted.guarantee_.budget == PureDP(50.0)
    assert fitted.guarantee_.neighbors == Neighbors.REPLACE_ONE
    assert fitted.release_.unit_count == len(ROWS)


@BY_NAME
def test_only_a_seed_makes_a_fit_reproducible_and_it_says_not_private(estimator: Any) -> None:
    seeded = clone(estimator).fit(ROWS, TARGET)
    assert "NOT PRIVATE" in seeded.release_.guarantee_in_words()
    fresh = clone(estimator).set_params(random_state=None, epsilon=100.0)
    first, second = (clone(fresh).fit(ROWS, TARGET).release_ for _ in range(2))
    assert not first.reproducible
    assert not np.array_equal(first.published, second.published)


@BY_NAME
def test_every_fit_is_booked_before_it_draws(estimator: Any, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l.db", PureDP(250.0))
    private = clone(estimator).set_params(random_state=None, epsilon=100.0, ledger=ledger)
    private.fit(ROWS, TARGET)
    clone(private).set_params(ledger=str(tmp_path / "l.db")).fit(ROWS, TARGET)
    assert ledger.account().spent == {"epsilon": 200.0}
    with pytest.raises(BudgetExceededError):
        private.fit(ROWS, TARGET)


def test_the_mechanism_and_the_radius_can_be_chosen() -> None:
    fitted = PrivateCovariance(
        (-8, 8), rho=10.0, mechanism="gaussian", radius=1.5, denoise="project", random_state=0
    ).fit(ROWS)
    made = fitted.release_
    assert (made.mechanism, made.lattice.radius, made.denoise) == ("gaussian", 1.5, "project")


# Tables in, names kept


@pytest.mark.parametrize("table", [FRAME, pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME)])
@BY_NAME
def test_frames_keep_their_names(estimator: Any, table: Any) -> None:
    fitted = clone(estimator).fit(table, TARGET)
    assert list(fitted.feature_names_in_) == NAMES
    assert list(fitted.release_.columns)[:3] == NAMES
    plain = clone(estimator).fit(ROWS, TARGET)
    assert np.array_equal(fitted.release_.published, plain.release_.published)
    if hasattr(fitted, "graph_"):
        assert fitted.graph_.columns == tuple(NAMES)


def test_bounds_may_be_given_by_name() -> None:
    by_name = dict(zip(NAMES, zip(LOWER, UPPER, strict=True), strict=True))
    one = PrivateCovariance(**EXACT | {"bounds": dict(reversed(by_name.items()))}).fit(FRAME)
    other = PrivateCovariance(**EXACT).fit(FRAME)
    assert np.array_equal(one.covariance_, other.covariance_)
    arrays = PrivateCovariance(**EXACT | {"bounds": (np.array(LOWER), np.array(UPPER))})
    # Other names in the schema lead to other simulations of the noise.
    assert np.array_equal(arrays.fit(ROWS).release_.published, other.release_.published)
    np.testing.assert_allclose(arrays.covariance_, other.covariance_, rtol=0, atol=1e-9)


def test_the_target_keeps_its_name_unless_a_column_has_it() -> None:
    named = clone(RIDGE).fit(FRAME, pd.Series(TARGET, name="wealth"))
    assert named.release_.columns[-1] == "wealth"
    assert clone(RIDGE).fit(FRAME, pl.Series("w", TARGET)).release_.columns[-1] == "w"
    taken = clone(RIDGE).fit(FRAME, pd.Series(TARGET, name="income"))
    assert taken.release_.columns == (*NAMES, "income_")
    assert clone(RIDGE).fit(ROWS, TARGET.tolist()).release_.columns[-1] == "y"


def test_names_come_out_of_transformers() -> None:
    fitted = PrivatePCA(**EXACT, n_components=2).set_output(transform="pandas").fit(FRAME)
    assert list(fitted.get_feature_names_out()) == ["privatepca0", "privatepca1"]
    assert list(fitted.transform(FRAME).columns) == ["privatepca0", "privatepca1"]


def test_estimators_work_in_pipelines() -> None:
    line = make_pipeline(PrivatePCA(**EXACT), clone(RIDGE)).set_params(
        privateridge__bounds=(-10, 10)
    )
    assert line.fit(FRAME, TARGET).score(FRAME, TARGET) > 0.95


def test_missing_and_unreadable_cells_are_midpoints() -> None:
    cells = ROWS.astype(object)
    cells[0] = [None, PLANTED, np.nan]
    cells[1, 0] = "0.5"
    middle = ROWS.copy()
    middle[0], middle[1, 0] = np.add(LOWER, UPPER) / 2, 0.5
    expected = PrivateCovariance(**EXACT).fit(middle).release_.published
    masked = np.ma.array(middle, mask=False)
    masked[0] = np.ma.masked
    for table in (cells, pd.DataFrame(cells, columns=NAMES), masked):
        found = PrivateCovariance(**EXACT).fit(table)
        assert np.array_equal(found.release_.published, expected)
    wanted = np.where(np.arange(len(TARGET)) == 0, 0.0, TARGET)
    broken = wanted.astype(object)
    broken[0] = PLANTED
    one, other = (clone(RIDGE).fit(ROWS, y).release_.published for y in (wanted, broken))
    assert np.array_equal(one, other)


def test_new_rows_may_lack_values_and_leave_the_bounds() -> None:
    fitted = clone(RIDGE).fit(ROWS, TARGET)
    middle = np.add(LOWER, UPPER) / 2
    assert fitted.predict([[np.nan] * 3]) == pytest.approx(fitted.predict([middle]))
    assert fitted.predict([[1e9, np.inf, -1e9]]) == pytest.approx(
        fitted.predict([[UPPER[0], UPPER[1], LOWER[2]]])
    )


# The recipe for distances


def test_neighbours_by_private_mahalanobis_distance() -> None:
    fitted = PrivateCovariance(**EXACT).fit(ROWS)
    search = NearestNeighbors(
        n_neighbors=3, metric="mahalanobis", metric_params={"VI": fitted.precision_}
    )
    public = ROWS[:50]
    distances, at = search.fit(public).kneighbors(public[:5])
    steps = public[:5, None] - public[at]
    expected = np.sqrt(np.einsum("mki,ij,mkj->mk", steps, fitted.precision_, steps))
    assert np.allclose(distances, expected, atol=1e-6)
    about_mean = NearestNeighbors(
        n_neighbors=1, metric="mahalanobis", metric_params={"VI": fitted.precision_}
    ).fit(fitted.location_[None])
    assert np.allclose(about_mean.kneighbors(public)[0][:, 0] ** 2, fitted.mahalanobis(public))


# What is refused, with nothing spent


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (ALL[0], {"bounds": None}, "Give bounds: public lower and upper"),
    (ALL[0], {"bounds": 3}, r"pairs: \(lower, upper\)"),
    (ALL[0], {"bounds": ([0, 1], 2)}, "one number for all 3 columns, or one for each; not 2"),
    (ALL[0], {"bounds": {"age": (0, 1)}}, "no entry for the column 'height'"),
    (ALL[0], {"bounds": ("a", "b")}, "must be numbers"),
    (ALL[0], {"bounds": (2, 1)}, "lower is 2, but upper is 1"),
    (ALL[0], {"epsilon": None}, "State a privacy budget"),
    (ALL[0], {"epsilon": -1.0}, "above 0"),
    (ALL[0], {"mechanism": "laplacian"}, "'laplacian' does not exist"),
    (ALL[0], {"neighbors": "friends"}, "no neighbour relation"),
    (ALL[0], {"random_state": np.random.RandomState(0)}, "must be None, or an integer"),
    (ALL[0], {"random_state": True}, "must be None, or an integer"),
    (ALL[1], {"alpha": 0.0}, "alpha must be above 0 or None, not 0"),
    (ALL[1], {"alpha": np.nan}, "alpha must be above 0"),
    (ALL[2], {"n_components": 4}, "n_components=4 must be between 1 and the number of columns"),
    (ALL[2], {"n_components": 0}, "n_components=0"),
    (ALL[2], {"n_components": 1.0}, "or a share of the variance above 0 and below 1"),
    (ALL[2], {"n_components": "mle"}, "n_components=mle"),
    (ALL[1], {"assume_centered": True}, "no graph about 0"),
    (ALL[3], {"alpha": -1.0}, "alpha must be at least 0 or None, not -1"),
    (ALL[3], {"penalty": "l1"}, "no penalty 'l1'"),
    (ALL[3], {"target_bounds": None}, "Give target_bounds"),
]


@pytest.mark.parametrize(("estimator", "change", "message"), REFUSED)
def test_bad_parameters_are_refused_before_anything_is_spent(
    estimator: Any, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    ledger = Ledger.create(tmp_path / "l.db", PureDP(1e9))
    private = clone(estimator).set_params(**{"random_state": None, "ledger": ledger} | change)
    with pytest.raises(DpcovError, match=message) as caught:
        private.fit(FRAME, TARGET)
    assert str(caught.value).count(". ") <= 1
    assert not ledger.account().entries
    assert not hasattr(private, "release_")


@pytest.mark.parametrize(
    ("rows", "target", "message"),
    [
        (np.zeros(3), TARGET, "2D array"),
        (np.zeros((3, 0)), np.zeros(3), "minimum of 1"),
        (ROWS + 1j, TARGET, "Complex data not supported"),
        (ROWS.astype("datetime64[s]"), TARGET, "real numbers"),
        (ROWS, TARGET[:-1], "same number of rows"),
        (ROWS, None, "requires y"),
        (ROWS, np.zeros((4000, 2, 2)), "must be 1D or 2D, not 3D"),
        (ROWS, np.zeros((4000, 0)), "0 target"),
    ],
)
def test_tables_of_another_shape_are_refused(rows: Any, target: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        clone(RIDGE).fit(rows, target)


@BY_NAME
def test_a_table_without_columns_is_refused(estimator: Any) -> None:
    with pytest.raises(ValueError, match="0 feature"):
        clone(estimator).fit(np.empty((12, 0)), np.zeros(12))


@pytest.mark.parametrize("count", [0, 1])
@BY_NAME
def test_the_number_of_rows_decides_nothing(estimator: Any, count: int) -> None:
    """An empty table is a neighbour of one row: both fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NullModelWarning)
        clone(estimator).set_params(epsilon=0.1).fit(ROWS[:count], TARGET[:count])


# What is fitted where nothing rises above the noise


BELOW_NOISE: dict[str, Any] = {"epsilon": 1e-3, "neighbors": "replace-one"}


@BY_NAME
def test_an_estimator_below_the_noise_level_keeps_its_release_and_warns(estimator: Any) -> None:
    drowned = clone(estimator).set_params(**BELOW_NOISE)
    with pytest.warns(NullModelWarning, match="a noisy trace, because.*null model") as caught:
        drowned.fit(ROWS[:20], TARGET[:20])
    assert [one.filename for one in caught] == [__file__]
    assert drowned.release_.published is None
    assert drowned.null_reason_ == drowned.release_.not_released
    assert clone(estimator).set_params(**EXACT).fit(ROWS, TARGET).null_reason_ is None


@BY_NAME
@pytest.mark.parametrize(("size", "reason"), [(1.0, "No correlation rises"), (0.0, "is null")])
def test_a_release_below_the_noise_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, estimator: Any, size: float, reason: str
) -> None:
    def denoised(*given: Any, **asked: Any) -> Any:
        made = dpcov.release(*given, **asked)
        return made.with_denoised("shrink", size * np.eye(made.lattice.dimension))

    monkeypatch.setattr(base, "release", denoised)
    with pytest.warns(NullModelWarning, match=reason):
        fitted = clone(estimator).fit(ROWS, TARGET)
    assert fitted.release_.published is not None
    assert reason in fitted.null_reason_


def test_a_covariance_that_was_not_released_is_0_about_the_midpoints() -> None:
    model = PrivateCovariance(bounds=([0, -4, -1], [2, 4, 3]), **BELOW_NOISE)
    with pytest.warns(NullModelWarning, match="a noisy trace, because"):
        model.fit(ROWS[:20])
    assert model.location_.tolist() == [1, 0, 1]
    assert not model.covariance_.any()
    assert not model.precision_.any()
    few = PrivateCovariance(bounds=(-4, 4), epsilon=10.0, mechanism="exponential-pca")
    with pytest.warns(NullModelWarning, match="1 of 4 directions"):
        few.fit(ROWS)
    assert not few.covariance_.any()


@pytest.mark.filterwarnings("ignore::dpcov.estimators.NullModelWarning")
def test_a_null_model_predicts_the_mean() -> None:
    both = np.column_stack([TARGET, TARGET])
    for target, shape in ((TARGET, ()), (both, (2,))):
        model = clone(RIDGE).set_params(**BELOW_NOISE).fit(ROWS[:20], target[:20])
        assert not model.coef_.any()
        assert model.coef_.shape == (*shape, 3)
        assert np.array_equal(model.intercept_, np.squeeze(model.release_.centers[3:]))
        assert np.array_equal(model.predict(ROWS[:2])[1], model.intercept_)
        assert np.isnan(model.alpha_).all()
    about_0 = clone(RIDGE).set_params(**BELOW_NOISE, fit_intercept=False)
    assert not about_0.fit(ROWS[:20], TARGET[:20]).predict(ROWS).any()


@pytest.mark.filterwarnings("ignore::dpcov.estimators.NullModelWarning")
@pytest.mark.parametrize("asked", [None, 2, 0.9])
def test_null_components_are_a_basis_without_variance(asked: Any) -> None:
    model = PrivatePCA(**EXACT | BELOW_NOISE, n_components=asked, whiten=True).fit(ROWS[:20])
    k = 2 if asked == 2 else 3
    assert np.array_equal(model.components_, np.eye(3)[:k])
    for variances in (model.explained_variance_, model.explained_variance_ratio_):
        assert np.array_equal(variances, np.zeros(k))
    assert (model.noise_variance_, model.n_significant_) == (0.0, 0)
    assert not model.transform(ROWS).any()
    assert not model.get_covariance().any()
    assert np.isneginf(model.score(ROWS))


@pytest.mark.filterwarnings("ignore::dpcov.estimators.NullModelWarning")
def test_a_null_graph_is_empty() -> None:
    model = PrivateGraphicalLasso(**EXACT | BELOW_NOISE).fit(ROWS[:20])
    assert (model.graph_.edges, model.graph_.left_out) == ([], model.release_.columns)
    assert not model.precision_.any()
    assert not model.covariance_.any()


# What scikit-learn's have


def test_variances_are_over_one_less_than_the_number_of_rows() -> None:
    few = ROWS[:30]
    fitted = PrivatePCA(**EXACT, n_components=2).fit(few)
    plain = sklearn.decomposition.PCA(2).fit(few)
    off = PrivatePCA(**EXACT).fit(np.vstack([few, few]))  # control: as over n - 1/2
    assert fitted.n_samples_ == pytest.approx(30)
    for name in (
        *("explained_variance_", "explained_variance_ratio_", "singular_values_"),
        *("noise_variance_", "components_", "mean_"),
    ):
        assert np.allclose(getattr(fitted, name), getattr(plain, name), rtol=1e-4), name
    assert not np.allclose(off.explained_variance_[:2], plain.explained_variance_, rtol=1e-2)
    assert np.allclose(fitted.get_covariance(), plain.get_covariance(), rtol=1e-3, atol=1e-4)
    assert np.allclose(fitted.get_precision() @ fitted.get_covariance(), np.eye(3))
    assert np.allclose(fitted.score_samples(few), plain.score_samples(few), rtol=1e-3)
    assert fitted.score(few) == pytest.approx(plain.score(few), rel=1e-3)


def test_the_model_of_correlations_is_in_the_units_of_the_table() -> None:
    fitted = PrivatePCA(**EXACT, correlation=True).fit(ROWS)
    assert np.allclose(fitted.get_covariance(), np.cov(ROWS.T), atol=1e-3)


def test_whitened_scores_have_variance_1_and_come_back() -> None:
    fitted = PrivatePCA(**EXACT, n_components=2, whiten=True).fit(ROWS)
    scores = fitted.transform(ROWS)
    assert np.allclose(scores.var(axis=0, ddof=1), 1, rtol=1e-3)
    plain = sklearn.decomposition.PCA(2, whiten=True).fit(ROWS)
    assert np.allclose(fitted.inverse_transform(scores), plain.inverse_transform(scores), atol=1e-3)


def test_a_share_of_variance_says_how_many_components() -> None:
    shares = PrivatePCA(**EXACT).fit(ROWS).explained_variance_ratio_.cumsum()
    for k, reached in enumerate(shares[:-1], 1):
        assert PrivatePCA(**EXACT, n_components=reached - 1e-3).fit(ROWS).n_components_ == k
        assert PrivatePCA(**EXACT, n_components=reached + 1e-3).fit(ROWS).n_components_ == k + 1


def test_several_targets_take_one_release(tmp_path: Path) -> None:
    both = np.column_stack([TARGET, -0.5 * TARGET + 1])
    ledger = Ledger.create(tmp_path / "l.db", PureDP(1e9))
    asked = {"target_bounds": ([-8, -3], [8, 5]), "random_state": None, "ledger": ledger}
    model = clone(RIDGE).set_params(**asked).fit(FRAME, both)
    assert len(ledger.account().entries) == 1
    assert (model.coef_.shape, model.intercept_.shape) == ((2, 3), (2,))
    assert np.allclose(model.coef_[1], -0.5 * model.coef_[0], atol=1e-3)
    assert np.allclose(model.predict(FRAME), PlainRidge(0).fit(ROWS, both).predict(ROWS), atol=0.02)
    named = pd.DataFrame(both, columns=["wealth", "age"])
    by_name = {"wealth": (-8, 8), "age_": (-3, 5)}
    of_frame = clone(RIDGE).set_params(target_bounds=by_name).fit(FRAME, named)
    assert of_frame.release_.columns == (*NAMES, "wealth", "age_")
    of_list = clone(RIDGE).set_params(target_bounds=asked["target_bounds"])
    assert np.allclose(of_list.fit(FRAME, both.tolist()).coef_, of_frame.coef_, atol=1e-6)


def test_each_target_may_have_its_own_penalty() -> None:
    both = np.column_stack([TARGET, TARGET])
    model = clone(RIDGE).set_params(alpha=[1e-6, 1.0]).fit(ROWS, both)
    assert np.array_equal(model.alpha_, [1e-6, 1.0])
    assert np.linalg.norm(model.coef_[1]) < 0.5 * np.linalg.norm(model.coef_[0])
    with pytest.raises(EstimatorError, match="do not correspond: 2 != 1"):
        clone(model).fit(ROWS, TARGET)


def test_without_an_intercept_the_model_goes_through_0() -> None:
    model = clone(RIDGE).set_params(fit_intercept=False).fit(ROWS, TARGET + 1)
    plain = PlainRidge(0, fit_intercept=False).fit(ROWS, TARGET + 1)
    assert model.intercept_ == 0
    assert np.allclose(model.coef_, plain.coef_, atol=5e-3)
    assert not np.allclose(model.coef_, clone(RIDGE).fit(ROWS, TARGET + 1).coef_, atol=5e-3)


WEIGHTS = np.where(ROWS[:, 0] > 0, 2.0, 0.5)


def test_weights_count_rows() -> None:
    bent = np.clip(TARGET + np.maximum(ROWS[:, 0], 0), -8, 8)
    weighing = clone(RIDGE).set_params(largest_weight=2.0)
    model = weighing.fit(ROWS, bent, sample_weight=WEIGHTS)
    plain = PlainRidge(0).fit(ROWS, bent, sample_weight=WEIGHTS)
    assert np.allclose(model.coef_, plain.coef_, atol=5e-3)
    assert not np.allclose(model.coef_, clone(RIDGE).fit(ROWS, bent).coef_, atol=5e-3)
    assert model.release_.total_weight() == pytest.approx(WEIGHTS.sum(), rel=1e-5)
    more = clone(weighing).fit(ROWS, bent, sample_weight=np.where(WEIGHTS == 2, 99, WEIGHTS))
    assert np.array_equal(more.release_.published, model.release_.published), "cut to the largest"
    alike = clone(weighing).fit(ROWS, bent, sample_weight=2.0)
    assert np.allclose(alike.coef_, clone(RIDGE).fit(ROWS, bent).coef_, atol=1e-3)


@pytest.mark.parametrize(
    ("largest", "weights", "message"),
    [
        (None, WEIGHTS, "Give largest_weight"),
        (0.0, WEIGHTS, "must be above"),
        (2.0, WEIGHTS[:-1], "The table and the weights must have the same number of rows"),
        (2.0, WEIGHTS[:, None], "must be 1D array or scalar, not 2D"),
    ],
)
def test_weights_that_do_not_fit_are_refused_before_anything_is_spent(
    largest: Any, weights: Any, message: str, tmp_path: Path
) -> None:
    ledger = Ledger.create(tmp_path / "l.db", PureDP(1e9))
    asked = {"random_state": None, "ledger": ledger, "largest_weight": largest}
    with pytest.raises(DpcovError, match=message):
        clone(RIDGE).set_params(**asked).fit(ROWS, TARGET, sample_weight=weights)
    assert not ledger.account().entries


def test_weights_come_through_a_pipeline() -> None:
    bent = np.clip(TARGET + np.maximum(ROWS[:, 0], 0), -8, 8)
    with sklearn.config_context(enable_metadata_routing=True):
        model = clone(RIDGE).set_params(largest_weight=2.0).set_fit_request(sample_weight=True)
        line = make_pipeline(clone(model)).fit(ROWS, bent, sample_weight=WEIGHTS)
    direct = clone(model).fit(ROWS, bent, sample_weight=WEIGHTS)
    assert np.array_equal(line[-1].coef_, direct.coef_)
    assert not np.array_equal(line[-1].coef_, clone(model).fit(ROWS, bent).coef_)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_the_type_that_comes_in_goes_out(kind: Any) -> None:
    rows = ROWS.astype(kind)
    out = np.float32 if kind is np.float32 else np.float64
    for table in (rows, pd.DataFrame(rows, columns=NAMES)):
        components = PrivatePCA(**EXACT).fit(table)
        model = clone(RIDGE).fit(table, TARGET)
        assert components.components_.dtype == components.mean_.dtype == out
        assert model.coef_.dtype == model.intercept_.dtype == out
        assert components.transform(table).dtype == components.score_samples(table).dtype == out
        assert model.predict(table).dtype == out


def test_a_mean_of_0_may_be_assumed() -> None:
    fitted = PrivateCovariance(**EXACT, assume_centered=True).fit(ROWS)
    assert not fitted.location_.any()
    assert np.allclose(fitted.covariance_, ROWS.T @ ROWS / len(ROWS), atol=1e-3)


def test_a_budget_that_leaves_no_noise_at_all_has_a_covariance() -> None:
    one = {"bounds": (-4, 4), "epsilon": 1e15}
    fitted = PrivateCovariance(**EXACT | one).fit(ROWS[:, :1])
    assert np.isfinite(fitted.covariance_).all()


def test_errors_quote_no_cell() -> None:
    class Strange:
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise ValueError(PLANTED)

        def __len__(self) -> int:
            return 3

    with pytest.raises(DpcovError) as caught:
        PrivateCovariance(**EXACT).fit(Strange())
    assert PLANTED not in str(caught.value)
    assert caught.value.__context__ is None


# Imports


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )


def test_importing_dpcov_does_not_import_scikit_learn() -> None:
    found = run_python(
        "import sys, dpcov; dpcov.release; dpcov.pca; dpcov.ridge; print('sklearn' in sys.modules)"
    )
    assert found.stdout == "False\n"


def test_without_scikit_learn_the_error_says_what_to_do() -> None:
    found = run_python(
        "import importlib.util as u; old = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'sklearn' else old(name, *rest)\n"
        "import dpcov.estimators"
    )
    assert found.returncode == 1
    assert 'pip install "scikit-learn>=' in found.stderr
