"""Ridge regression from a release, its error bound, and the choice of alpha."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import linear_model

import dpcov
import dpcov.analysis.penalty as choice
from analysis_tables import (
    CENTERS,
    HALF_RANGES,
    ROWS,
    null_matrix,
    one_hot,
    released,
    reordered,
    rescaled,
    table,
    trace_only,
    without_intercept,
    without_law,
)
from dpcov import ridge, ridge_alpha, ridge_error_bound, ridge_path
from dpcov.analysis.correlation import correlations
from dpcov.analysis.covariance import covariances
from dpcov.analysis.normal_equations import PENALTIES, Problem
from dpcov.analysis.pca import _leading
from dpcov.analysis.penalty import pull_of_mean, squared_errors
from dpcov.core.entropy import simulation_generator
from dpcov.errors import ReleaseError
from dpcov.estimate import Estimate
from rounds_for_tests import changed

if TYPE_CHECKING:
    from dpcov.analysis.normal_equations import Penalty
    from dpcov.releases import Release

BOTH = pytest.mark.parametrize("mechanism", ["auto", "matrix-laplace"])
TARGETS = ["y", "c", "sex=f", "group=w"]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("target", TARGETS)
def test_coefficients_are_those_of_scikit_learn(target: str, intercept: bool) -> None:
    made = released(mechanism="matrix-laplace")
    model = ridge(made, target, 0.02, intercept=intercept, penalty="raw")
    values, wanted = one_hot(model.columns), one_hot((target,))[:, 0]
    expected = linear_model.Ridge(alpha=2 * ROWS * 0.02, fit_intercept=intercept)
    expected.fit(values, wanted)
    assert np.allclose(model.coefficients, expected.coef_, rtol=1e-4, atol=1e-6)
    assert model.intercept == pytest.approx(expected.intercept_, abs=1e-4)
    assert np.allclose(model.predict(table()), expected.predict(values), atol=2e-4)
    if intercept:
        assert model.r_squared == pytest.approx(expected.score(values, wanted), abs=1e-5)


@pytest.mark.parametrize(
    "penalty", [PENALTIES[0], *(pytest.param(one, marks=pytest.mark.slow) for one in PENALTIES[1:])]
)
def test_standard_errors_are_those_of_the_same_model(penalty: Penalty) -> None:
    """The errors come from the noise: all releases are of one table."""
    rng = np.random.default_rng(0)
    cells = rng.normal(size=(4000, 3)) @ [[0.2, 0.1, 0.1], [0, 0.15, 0.1], [0, 0, 0.1]]

    def fitted(**budget: float) -> np.ndarray:
        made = dpcov.release(cells, lower=-1, upper=1, **budget)
        model = ridge(made, "x2", 0.02, penalty=penalty, generator=np.random.default_rng(1))
        assert model.standard_errors is not None
        return np.array([[model.intercept, *model.coefficients], model.standard_errors])

    sampling = fitted(epsilon=1e5)  # which is in all of them
    found = np.array([fitted(epsilon=0.2, seed=seed) for seed in range(60)])
    real = np.sqrt(np.mean((found[:, 0] - sampling[0]) ** 2, axis=0))
    stated = np.sqrt(np.mean(found[:, 1] ** 2, axis=0) - sampling[1] ** 2)
    ratios = real / stated
    assert np.all(ratios > 0.5)
    assert np.all(ratios < 1.4)
    assert np.exp(np.log(ratios).mean()) > 0.65
    assert np.all(real > 1.6 * sampling[1])  # so that sampling alone would fail


def test_ends_are_about_the_coefficients_if_errors_are_stated() -> None:
    made = released()
    model = ridge(made, "y", 0.1)
    low, high = model.conf_int(0.5).T
    reported = np.append(model.intercept, model.coefficients)
    assert low + high == pytest.approx(2 * reported)
    assert high - low == pytest.approx(2 * 0.67449 * model.standard_errors, rel=1e-4)
    silent = [
        ridge(made, "y", 0.1, errors=False),
        ridge(without_law(made), "y", 0.1),
        ridge(released(mechanism="matrix-laplace"), "y", 0.1, intercept=False),
    ]
    for other in silent:
        assert other.standard_errors is None
        assert np.isnan(other.conf_int()).all()
        assert "nan" not in other.summary()
        assert "Std. errors" not in other.summary()
    assert silent[0].coefficients == pytest.approx(model.coefficients)


def test_of_many_columns_no_interval_is_simulated_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take minutes; the effect of noise on correlations is stated."""
    made = released()
    monkeypatch.setattr("dpcov.analysis.intervals.MAX_DEFAULT_FEATURES", len(made.columns) - 1)
    assert ridge(made, "y", 0.1).standard_errors is None
    assert _leading(made).ends is None
    assert "[0.025" not in covariances(made).summary()
    assert "Intervals cover privacy noise, 95%" in correlations(made).summary()
    monkeypatch.undo()
    assert "Intervals cover privacy noise and sampling" in correlations(made).summary()
    assert _leading(made).ends is not None


@pytest.mark.parametrize("penalty", ["encoded", "standardized", "raw"])
def test_the_stated_objective_is_minimised(penalty: str) -> None:
    alpha, features = 0.05, ["a", "b", "group", "c"]
    model = ridge(released(), "y", alpha, features, penalty=penalty)
    values, wanted = one_hot(model.columns), one_hot(("y",))[:, 0]
    units = {
        "encoded": [HALF_RANGES.get(name, 1.0) for name in model.columns],
        "standardized": values.std(axis=0),
        "raw": np.ones(len(model.columns)),
    }

    def gradient(squares: np.ndarray) -> np.ndarray:
        residuals = values @ model.coefficients + model.intercept - wanted
        pull = 2 * alpha * squares * model.coefficients
        return np.append(values.T @ residuals / ROWS + pull, residuals.mean())

    assert np.abs(gradient(np.square(units[penalty]))).max() < 1e-3
    other = "raw" if penalty != "raw" else "encoded"
    assert np.abs(gradient(np.square(units[other]))).max() > 0.1


def test_a_path_is_its_single_models() -> None:
    alphas = [0.0, 1e-3, 0.1, 10.0]
    path = ridge_path(released(1.0), "y", alphas, ["a", "sex", "c"])
    assert path.columns == ("a", "sex=m", "sex=f", "c")
    for at, alpha in enumerate(alphas):
        model = ridge(released(1.0), "y", alpha, ["a", "sex", "c"])
        assert np.allclose(path.coefficients[at], model.coefficients, rtol=1e-10)
        assert path.intercepts[at] == pytest.approx(model.intercept, rel=1e-10)
        assert path.r_squared[at] == pytest.approx(model.r_squared, rel=1e-10)
    assert np.all(np.diff(path.r_squared) < 0)


def test_units_of_columns_scale_their_coefficients() -> None:
    factors = {"a": 1000.0, "y": 0.01}
    for penalty in ("encoded", "standardized"):
        one = ridge(released(), "y", 0.01, penalty=penalty)
        other = ridge(rescaled(**factors), "y", 0.01, penalty=penalty)
        scales = np.array([factors.get(name, 1.0) for name in one.columns])
        assert np.allclose(other.coefficients, one.coefficients * 0.01 / scales, rtol=1e-4)
        assert other.intercept == pytest.approx(0.01 * one.intercept, rel=1e-4)
        assert other.r_squared == pytest.approx(one.r_squared, abs=1e-5)


@BOTH
def test_columns_in_another_order_give_the_same_model(mechanism: str) -> None:
    exact = {"epsilon": 1e9, "mechanism": mechanism}
    one, other = (ridge(made(**exact), "y", 0.01) for made in (released, reordered))
    assert set(one.columns) == set(other.columns)
    order = [other.columns.index(name) for name in one.columns]
    assert np.allclose(one.coefficients, other.coefficients[order], rtol=1e-4, atol=1e-6)


def test_predictions_are_alike_from_any_container() -> None:
    model = ridge(released(), "y", 0.01)
    frame = table()[:40].drop(columns="y")
    expected = model.predict(one_hot(model.columns)[:40])
    containers = [
        frame,
        frame.astype(object),
        frame.astype({"sex": "category"}),
        pl.from_pandas(frame),
        {name: frame[name].to_numpy() for name in frame},
    ]
    for container in containers:
        assert np.allclose(model.predict(container), expected)


def test_new_values_are_treated_as_in_the_release() -> None:
    """Outside a bound: at the bound; missing: the midpoint; undeclared: in no level."""
    model = ridge(released(), "y", 0.01)
    weights = dict(zip(model.columns, model.coefficients, strict=True))
    odd = pd.DataFrame(
        {"a": [1e9, None], "group": ["zzz", "u"], "b": [0.0, 0.0], "sex": ["f", None], "c": [0, 0]}
    )
    plain = model.intercept + np.array([8.0 * weights["a"] + weights["sex=f"], weights["group=u"]])
    assert np.allclose(model.predict(odd), plain)
    array = np.zeros((1, len(model.columns)))
    array[0, model.columns.index("a")] = np.nan
    assert model.predict(array)[0] == pytest.approx(model.intercept)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((3, 2)), "need 8 columns"),
        ([["a", "b"]], "must be numbers"),
        (pd.DataFrame({"a": [1.0]}), "lack the column 'group'"),
    ],
)
def test_new_rows_that_do_not_fit_are_refused(rows, message: str) -> None:
    with pytest.raises(ReleaseError, match=message):
        ridge(released(), "y", 0.01).predict(rows)


def test_without_an_intercept_symmetric_bounds_suffice() -> None:
    rows = np.random.default_rng(0).uniform(-1, 1, (3000, 3)) + 0.2
    settings = {"lower": -1.5, "upper": 1.5, "epsilon": 1e6, "seed": 0, "intercept": 0.0}
    made = dpcov.release(rows, neighbors="replace-one", **settings)
    model = ridge(made, "x2", 0.01, intercept=False, penalty="raw")
    expected = linear_model.Ridge(alpha=2 * len(rows) * 0.01, fit_intercept=False)
    expected.fit(rows[:, :2], rows[:, 2])
    assert np.allclose(model.coefficients, expected.coef_, atol=1e-5)
    assert model.intercept == 0.0
    with pytest.raises(ReleaseError, match="without an intercept"):
        ridge(made, "x2", 0.01)
    with pytest.raises(ReleaseError, match="not symmetric"):
        ridge(without_intercept(neighbors="replace-one"), "y", 0.01, intercept=False)
    counted = dpcov.release(rows, **settings)  # its count is published apart
    model = ridge(counted, "x2", 0.01, intercept=False, penalty="raw")
    assert np.allclose(model.coefficients, expected.coef_, atol=1e-5)
    uncounted = changed(counted, published_count=None, count_noise=None)
    with pytest.raises(ReleaseError, match="without an intercept"):
        ridge(uncounted, "x2", 0.01, intercept=False)


def test_an_indefinite_matrix_is_made_positive_first() -> None:
    made = released(0.05, denoise="none")
    assert np.linalg.eigvalsh(made.covariance())[0] < 0
    path = ridge_path(made, "y", [1e-3, 1e-2, 1e-1])
    assert np.all((path.r_squared >= 0) & (path.r_squared <= 1))
    assert np.all(np.diff(np.linalg.norm(path.coefficients, axis=1)) < 0)


def test_the_bound_of_lemma_1_holds() -> None:
    """The bound holds for every target of an encoded matrix, and the errors come close to it."""
    made = released(1.0, denoise="project")
    exact = released(denoise="project")
    n, ratios = ROWS, []
    for alpha in (1e-3, 1e-1):
        difference = n * (encoded(exact) - encoded(made))
        for t in range(len(difference)):
            rest = np.delete(np.arange(len(difference)), t)
            true, found = (w(n * encoded(r), t, rest, 2 * alpha * n) for r in (exact, made))
            bound = ridge_error_bound(difference, found, 2 * alpha * n)
            ratios.append(np.linalg.norm(true - found) / bound)
    assert max(ratios) <= 1
    assert max(ratios) > 0.05


def encoded(made: dpcov.Release) -> np.ndarray:
    scales = np.array([feature.scale for feature in made.schema.features])
    return made.covariance() / np.outer(scales, scales)


def w(matrix: np.ndarray, t: int, rest: np.ndarray, penalty: float) -> np.ndarray:
    gram = matrix[np.ix_(rest, rest)] + penalty * np.eye(len(rest))
    return np.linalg.solve(gram, matrix[rest, t])


def test_the_bound_is_lemma_1_of_the_paper() -> None:
    difference = np.diag([3.0, -4.0])
    assert ridge_error_bound(difference, np.array([3.0, 4.0]), 2.0) == pytest.approx(12.0)
    with pytest.raises(ReleaseError, match="above 0"):
        ridge_error_bound(difference, np.zeros(1), 0.0)


@lru_cache
def errors(epsilon: float) -> tuple[float, np.ndarray]:
    """Return the mean squared errors of the chosen alpha and of each fixed one.

    The unit is the target's variance.
    """
    features, grid = ["a", "b", "c", "group"], np.geomspace(1e-6, 10, 29)
    values = one_hot(("a", "b", "c", "group=u", "group=v", "group=w"))
    wanted = one_hot(("y",))[:, 0]
    chosen, fixed = [], []
    for seed in range(96):  # with 24, the standard error of the ratio is 0.05
        made = released(epsilon, seed, mechanism="nuclear-laplace")
        models = [ridge(made, "y", alpha, features, errors=False) for alpha in grid]
        predictions = [model.predict(values) for model in models]
        fixed.append(np.mean((np.array(predictions) - wanted) ** 2, axis=1) / wanted.var())
        alpha = ridge_alpha(made, "y", features, alphas=grid, generator=simulation_generator(seed))
        chosen.append(fixed[-1][np.argmin(np.abs(grid - alpha))])
    return float(np.mean(chosen)), np.mean(fixed, axis=0)


@pytest.mark.parametrize("epsilon", [
    *(pytest.param(epsilon, marks=pytest.mark.statistics) for epsilon in (0.15, 0.3, 4.0)),
    pytest.param(1.0, marks=pytest.mark.slow),
])  # fmt: skip
def test_the_chosen_alpha_is_almost_as_good_as_the_best(epsilon: float) -> None:
    """The best single alpha for such releases needs the data; it matters only at 0.15."""
    chosen, fixed = errors(epsilon)
    assert chosen <= 1.15 * fixed.min()
    assert epsilon < 0.2 or max(fixed[0], fixed[-1]) > 1.15 * fixed.min()


def test_a_wrong_mean_counts_as_error() -> None:
    truth = Problem.of(released(), [8], [0, 4], "encoded")
    moved = replace(truth, target_means=truth.target_means + 0.5)
    alphas = np.array([0.01])
    assert squared_errors(truth, moved, alphas) == pytest.approx(
        squared_errors(truth, truth, alphas) + 0.25
    )


def test_without_alpha_it_is_chosen_from_the_release() -> None:
    made = released(0.5)
    draws = [simulation_generator(5) for _ in range(2)]
    chosen = ridge_alpha(made, "y", generator=draws[0])
    assert ridge(made, "y", generator=draws[1]).alpha == chosen
    assert ridge_alpha(released(), "y") < 1e-2 * chosen


REQUEST = {"rho": 0.01, "mechanism": "gaussian", "neighbors": "replace-one", "denoise": "project"}


def mean_errors(factor: float = 1.0) -> tuple[float, float]:
    """Return mean squared errors of a mean below the noise level, released and shrunk."""
    rows = np.clip(np.random.default_rng(0).normal(0.05, 0.3, (300, 4)), -1, 1)
    plain, pulled = [], []
    for seed in range(40):
        made = dpcov.release(rows, lower=-1, upper=1, seed=seed, **REQUEST)
        if factor != 1.0:
            made = changed(made, noise=made.noise.rescaled(factor))
        released_mean = float(made.mean()[3])
        pull = pull_of_mean(made, 3, simulation_generator(seed))
        plain.append((released_mean - rows[:, 3].mean()) ** 2)
        pulled.append((released_mean + pull - rows[:, 3].mean()) ** 2)
    return float(np.mean(plain)), float(np.mean(pulled))


def test_a_mean_below_the_noise_is_better_for_its_pull_to_the_midpoint() -> None:
    plain, pulled = mean_errors()
    assert pulled < 0.7 * plain


def test_the_pull_is_as_large_as_the_noise_says() -> None:
    plain, pulled = mean_errors(0.01)
    assert pulled > 0.95 * plain


@BOTH
def test_the_pull_is_to_the_midpoint_and_only_with_a_chosen_alpha(mechanism: str) -> None:
    made = released(2.0, mechanism=mechanism)
    pull = pull_of_mean(made, made.columns.index("y"), simulation_generator(1))
    away = made.mean()[made.columns.index("y")] - CENTERS["y"]
    assert 0 < -pull / away < 1
    model = ridge(made, "y", generator=simulation_generator(2))
    fixed = ridge(made, "y", model.alpha)
    assert np.array_equal(model.coefficients, fixed.coefficients)
    assert 0 < (fixed.intercept - model.intercept) / away < 1
    assert abs(pull_of_mean(released(), made.columns.index("y"), simulation_generator(1))) < 1e-4


@pytest.mark.slow
def test_directions_without_variance_are_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    made, chosen = released(0.3), []
    for unseen in (0.0, choice.UNDETECTED_VARIANCE, 10.0):
        monkeypatch.setattr(choice, "UNDETECTED_VARIANCE", unseen)
        chosen.append(ridge_alpha(made, "y", generator=simulation_generator(1)))
    assert chosen[0] <= chosen[1] <= chosen[2]
    assert chosen[0] < chosen[2]


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "epsilon"), [("auto", 1.0), ("matrix-laplace", 3.0)])
def test_no_usual_alpha_is_below_what_noise_hides(
    monkeypatch: pytest.MonkeyPatch, mechanism: str, epsilon: float
) -> None:
    """Control: where next to nothing counts as hidden, some are. An alpha that is given is kept."""
    usual, free = [], []
    for seed, penalty in itertools.product(range(2), PENALTIES):
        made = released(epsilon, seed, mechanism=mechanism)
        hidden = hidden_by_noise(made, penalty)
        for found, unseen in ((usual, choice.UNDETECTED_VARIANCE), (free, 1e-9)):
            with monkeypatch.context() as patch:
                patch.setattr(choice, "UNDETECTED_VARIANCE", unseen)
                drawn = simulation_generator(1)
                found.append(ridge_alpha(made, "y", penalty=penalty, generator=drawn) / hidden)
        few = [hidden / 100, hidden / 50]
        assert ridge_alpha(made, "y", penalty=penalty, alphas=few) in few
    assert min(usual) >= 1 > min(free)


def hidden_by_noise(made: Release, penalty: Penalty) -> float:
    """Return `UNSEEN` times sqrt(d) deviations of an entry between features, over the penalty."""
    features = made.schema.features
    to = [feature.column for feature in features].index("y")
    at = [j for j in range(len(features)) if j != to]
    entries, _ = choice._noise(Estimate.of(made), [to], at, simulation_generator(1))
    weights = Problem.of(made, [to], at, penalty).weights
    return (
        choice.UNDETECTED_VARIANCE * made.lattice.dimension**0.5 * entries / float(weights.mean())
    )


def error_of_noise() -> float:
    """Return the mean squared error of models of an independent column, over its variance."""
    generator = np.random.default_rng(0)
    rows = generator.normal(0, 0.3, (300, 6)) + 0.5 * generator.choice([-1, 1], 6)
    rows = rows.clip(-1, 1)
    request = {"lower": -1, "upper": 1, "epsilon": 0.25, "neighbors": "replace-one"}
    request["mechanism"] = "matrix-laplace"
    errors = []
    for seed in range(20):
        model = ridge(
            dpcov.release(rows, seed=seed, **request), "x1", generator=simulation_generator(seed)
        )
        errors.append(np.var(rows[:, 1:] @ model.coefficients - rows[:, 0]) / np.var(rows[:, 0]))
    return float(np.mean(errors))


@pytest.mark.slow
def test_slopes_below_the_noise_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with_rule, clear = error_of_noise(), released(0.5)
    alpha = ridge_alpha(clear, "y", generator=simulation_generator(1))
    monkeypatch.setattr(choice, "MAX_EXPLAINED_RATIO", float("inf"))
    assert with_rule - 1 < 0.85 * (error_of_noise() - 1)  # 1 is what the mean alone leaves
    assert ridge_alpha(clear, "y", generator=simulation_generator(1)) == alpha


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("yy", {}, "no feature 'yy'. Did you mean 'y'"),
        ("sex", {}, "Choose one of its levels: sex=m, sex=f"),
        ("y", {"features": ["a", "nothing"]}, "no feature 'nothing'.*Choose from: a, group, b"),
        ("y", {"features": ["a", "y"]}, "own column 'y'"),
        ("sex=f", {"features": ["sex=m"]}, "own column 'sex'"),
        ("y", {"features": ["a", "a"]}, "given twice"),
        ("y", {"features": []}, "No feature is left"),
        ("y", {"alpha": -1.0}, "at least 0"),
        ("y", {"alpha": float("nan")}, "at least 0"),
        ("y", {"penalty": "lasso"}, "no penalty 'lasso'"),
    ],
)
def test_bad_requests_are_refused_in_a_sentence(target, options, message: str) -> None:
    with pytest.raises(ReleaseError, match=message):
        ridge(released(), target, **{"alpha": 0.1, **options})


def test_without_a_noise_law_alpha_has_to_be_given() -> None:
    made = without_law(released(1.0))
    assert ridge(made, "y", 0.1).r_squared > 0
    with pytest.raises(ReleaseError, match="Give alpha"):
        ridge(made, "y")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (trace_only, "a noisy trace, because"),
        (without_intercept, "without an intercept"),
        (null_matrix, "is null"),
    ],
)
@pytest.mark.parametrize("alpha", [None, 0.1])
def test_a_release_with_nothing_to_analyse_is_refused(made, message: str, alpha) -> None:
    with pytest.raises(ReleaseError, match=message):
        ridge(made(), "y", alpha)


def test_the_features_of_a_model_are_a_list_of_features() -> None:
    x = np.linspace(0, 1, 3000)
    rows = np.column_stack([np.where(x > 0.2, x, np.nan), x**2])
    made = dpcov.release(rows, lower=0, upper=1, missing="level", epsilon=20.0, seed=1)
    model = ridge(made, "x1", 1e-4)
    assert model.columns == ("x0", "x0=(missing)")
    assert np.isfinite(model.conf_int()).all()
    assert ridge(made, "x1", 1e-4, [*model.columns]).columns == model.columns
    with pytest.raises(ReleaseError, match="given twice"):
        ridge(made, "x1", 1e-4, [*model.columns, "x0"])


@pytest.mark.parametrize("header", [True, False])
def test_new_rows_of_a_file_are_read_as_the_table_was(tmp_path, header: bool) -> None:
    rows = np.column_stack([np.linspace(0, 1, 50), np.linspace(0, 1, 50)])
    file = {"separator": ";", "decimal": ",", "header": header, "rows": len(rows)}
    number = {"kind": "number", "lower": 0, "upper": 1, "missing": "none"}
    schema = dpcov.Schema.parse({"version": 3, "columns": dict.fromkeys("xy", number)})
    made = dpcov.release(pd.DataFrame(rows, columns=["x", "y"]), schema=schema, epsilon=99, seed=1)
    of_a_file = {**schema.model_dump(mode="json"), "missing": ["0,70"], "file": file}
    model = replace(ridge(made, "y", 0.1), schema=dpcov.Schema.parse(of_a_file))
    text = "0,25;1,0\n0,75;1,0\n0,7;1,0\n"
    (tmp_path / "new.csv").write_text("x;y\n" * header + text)
    expected = model.predict([[0.25], [0.75], [np.nan]])
    assert model.predict(tmp_path / "new.csv").tolist() == expected.tolist()
