"""The sparse inverse covariance: the solver, the choice of alpha, the graph."""

from __future__ import annotations

import builtins
import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpcov
from dpcov.analysis.graphical_lasso import duality_gap, graphical_lasso
from dpcov.analysis.precision import _Problem, noise_of_entries, precision, precision_alpha
from dpcov.core.entropy import simulation_generator
from dpcov.denoise import denoise
from dpcov.errors import ReleaseError
from dpcov.estimate import MIN_FEATURE_VARIANCE
from dpcov.releases import Release
from rounds_for_tests import changed
from tables_for_tests import write_people

CHAIN = np.linalg.inv(np.eye(8) + 0.45 * (np.eye(8, k=1) + np.eye(8, k=-1)))
CHAIN /= np.sqrt(np.outer(np.diag(CHAIN), np.diag(CHAIN)))
NEIGHBOURS = np.eye(8, k=1, dtype=bool)


def chain_rows(rows: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float64]]:
    draws = np.random.default_rng(seed).standard_normal((rows, 8))
    return np.clip(draws @ np.linalg.cholesky(CHAIN).T, -4, 4)


def chain_release(rows: int = 100_000, seed: int = 0, **request: Any) -> Release:
    settings = {"lower": -4, "upper": 4, "epsilon": 2.0, **request}
    return dpcov.release(chain_rows(rows, seed), seed=seed, **settings)


def random_correlation(seed: int, p: int = 7, rank: int | None = None) -> Any:
    factors = np.random.default_rng(seed).standard_normal((p, rank or p))
    matrix = factors @ factors.T
    return matrix / np.sqrt(np.outer(np.diag(matrix), np.diag(matrix)))


# The solver


@given(st.integers(0, 1000), st.sampled_from([2, 4, 7]), st.floats(0.02, 0.9))
def test_the_optimality_conditions_hold(seed: int, rank: int, alpha: float) -> None:
    matrix = random_correlation(seed, rank=rank)
    found = graphical_lasso(matrix, alpha, tol=1e-11).precision
    slack = np.linalg.inv(found) - matrix
    off = ~np.eye(7, dtype=bool)
    active = off & (np.abs(found) > 1e-4 * np.abs(found).max())
    assert np.linalg.eigvalsh(found)[0] > 0
    assert np.array_equal(found, found.T)
    assert np.allclose(np.diag(slack), 0, atol=1e-3)
    assert np.all(np.abs(slack[off]) <= alpha + 1e-3)
    assert np.allclose(slack[active], alpha * np.sign(found[active]), atol=1e-3)


def test_it_agrees_with_scikit_learn_where_that_converges() -> None:
    covariance = pytest.importorskip("sklearn.covariance")
    for seed in range(5):
        matrix = 0.5 * random_correlation(seed) + 0.5 * np.eye(7)
        theirs = covariance.graphical_lasso(matrix, 0.05, tol=1e-9, enet_tol=1e-9, max_iter=1000)
        ours = graphical_lasso(matrix, 0.05, tol=1e-10).precision
        assert np.allclose(ours, theirs[1], atol=1e-4)
        assert np.array_equal(np.abs(ours) > 1e-5, np.abs(theirs[1]) > 1e-5)


def test_two_features_have_the_solution_of_the_formula() -> None:
    found = graphical_lasso(np.array([[1.0, 0.6], [0.6, 1.0]]), 0.1, tol=1e-13).precision
    assert np.allclose(found, np.linalg.inv([[1.0, 0.5], [0.5, 1.0]]), atol=1e-6)
    assert graphical_lasso(np.array([[1.0, 0.6], [0.6, 1.0]]), 0.61).precision[0, 1] == 0


def test_the_gap_bounds_the_distance_to_the_optimum() -> None:
    matrix = random_correlation(3)
    best = graphical_lasso(matrix, 0.1, tol=1e-12)
    rough = graphical_lasso(matrix, 0.1, tol=1e-2)

    def objective(x: Any) -> float:
        penalty = 0.1 * (np.abs(x).sum() - np.abs(np.diag(x)).sum())
        return float(np.sum(matrix * x) - np.linalg.slogdet(x)[1] + penalty)

    excess = objective(rough.precision) - objective(best.precision)
    assert 1e-9 < excess <= rough.gap
    assert rough.gap == duality_gap(matrix, rough.precision, rough.dual, 0.1)


def test_a_start_from_a_nearby_alpha_leads_to_the_same_solution() -> None:
    matrix = random_correlation(5, rank=4)
    before = graphical_lasso(matrix, 0.2, tol=1e-10)
    warm = graphical_lasso(matrix, 0.1, start=before, tol=1e-10)
    cold = graphical_lasso(matrix, 0.1, tol=1e-10)
    assert np.allclose(warm.precision, cold.precision, atol=1e-3 * cold.precision.max())


def test_a_run_that_does_not_reach_the_gap_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcov.analysis.graphical_lasso.MAX_ADMM_ITERATIONS", 10)
    with pytest.raises(ReleaseError, match="did not converge"):
        graphical_lasso(random_correlation(1, rank=2), 0.02)


# A release


@pytest.mark.parametrize("seed", range(5))
def test_the_graph_of_a_chain_is_found(seed: int) -> None:
    found = precision(chain_release(seed=seed))
    strengths = np.abs(np.triu(found.partial_correlations, 1))
    assert strengths[NEIGHBOURS].min() > 0.3
    assert strengths[~NEIGHBOURS].max() < 0.05
    assert np.count_nonzero(strengths[~NEIGHBOURS]) < 15, "of 21"
    assert all(edge.partial_correlation < 0 for edge in found.edges[:7]), "their inverse is +0.45"
    named = {frozenset((edge.first, edge.second)) for edge in found.edges[:7]}
    assert named == {frozenset((f"x{j}", f"x{j + 1}")) for j in range(7)}


def test_precision_is_in_the_units_of_the_data() -> None:
    rows, units = chain_rows(100_000), np.array([1, 10, 100, 1, 1, 0.1, 1, 1000])
    plain = dpcov.release(rows, lower=-4, upper=4, epsilon=2.0, seed=1)
    scaled = dpcov.release(rows * units, lower=-4 * units, upper=4 * units, epsilon=2.0, seed=1)
    # By default the schema, and so the units, decide the simulations of the noise.
    plain, scaled = (denoise(one, generator=simulation_generator(0)) for one in (plain, scaled))
    for correlation in (True, False):
        first = precision(plain, 0.02, correlation=correlation)
        second = precision(scaled, 0.02, correlation=correlation)
        assert np.allclose(second.precision * np.outer(units, units), first.precision, rtol=1e-3)


def test_a_tiny_alpha_gives_the_inverse_covariance() -> None:
    made = chain_release()
    inverse = np.linalg.inv(made.covariance())
    for correlation in (True, False):
        found = precision(made, 1e-7, correlation=correlation).precision
        assert np.allclose(found, inverse, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("correlation", [True, False])
def test_alpha_bounds_how_far_the_fit_is_from_the_release(correlation: bool) -> None:
    made = chain_release()
    units = np.sqrt(np.diag(made.covariance())) if correlation else np.full(8, 4.0)
    found = precision(made, 0.004, correlation=correlation)
    change = np.linalg.inv(found.precision) - made.covariance()
    assert np.abs(change / np.outer(units, units)).max() == pytest.approx(0.004, rel=0.05)


def test_more_penalty_gives_fewer_edges_and_enough_none() -> None:
    made = chain_release()
    counts = [len(precision(made, alpha).edges) for alpha in (0.02, 0.1, 0.3, 0.99)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1] == 0


LOUD = pytest.mark.parametrize(("mechanism", "epsilon"), [("auto", 0.1), ("matrix-laplace", 0.2)])


def edges_of_independent_features(mechanism: str, epsilon: float) -> int:
    independent = np.random.default_rng(0).uniform(-1, 1, (20_000, 10))
    asked = {"lower": -1, "upper": 1, "epsilon": epsilon, "mechanism": mechanism}
    releases = (dpcov.release(independent, seed=seed, **asked) for seed in range(10))
    return sum(len(precision(denoise(made, "project")).edges) for made in releases)


@pytest.mark.statistics
@LOUD
def test_noise_does_not_pass_for_edges(mechanism: str, epsilon: float) -> None:
    assert edges_of_independent_features(mechanism, epsilon) <= 5, "of 450"


@pytest.mark.statistics
@LOUD
def test_counting_rows_alone_would_take_noise_for_edges(
    monkeypatch: pytest.MonkeyPatch, mechanism: str, epsilon: float
) -> None:
    monkeypatch.setattr(_Problem, "effective_count", lambda _, release: release.count())
    assert edges_of_independent_features(mechanism, epsilon) > 30


@pytest.mark.statistics
def test_the_effective_count_is_that_of_the_spread_of_the_correlations() -> None:
    independent = np.random.default_rng(0).uniform(-1, 1, (5000, 6))
    below = np.tril_indices(6, -1)
    correlations, expected = [], []
    for seed in range(200):
        made = dpcov.release(independent, lower=-1, upper=1, epsilon=1.0, seed=seed, denoise="none")
        correlations.append(made.correlation()[below])
        problem = _Problem.of(made, None, correlation=True)
        expected.append(1 / problem.effective_count(made) - 1 / made.count())
    privacy = float(np.var(np.array(correlations), axis=0, ddof=1).mean())
    assert privacy == pytest.approx(np.mean(expected), rel=0.15)
    assert privacy != pytest.approx(2 * np.mean(expected), rel=0.15)


def test_an_indefinite_release_gives_a_positive_definite_precision() -> None:
    made = chain_release(300, epsilon=0.5, denoise="none")
    assert np.linalg.eigvalsh(made.second_moment())[0] < 0
    found = precision(made, 0.05)
    assert np.linalg.eigvalsh(found.precision)[0] > 0
    assert np.linalg.eigvalsh(2 * np.eye(8) - found.partial_correlations)[0] > 0


def test_stability_separates_firm_edges_from_accidents() -> None:
    found = precision(chain_release(20_000), 0.03, draws=20, generator=simulation_generator(0))
    assert found.shares is not None
    assert np.all(found.shares[NEIGHBOURS] == 1)
    assert found.shares[0, 7] < 0.9
    assert all(edge.stability is not None for edge in found.edges)
    assert precision(chain_release(20_000), 0.03, draws=0).edges[0].stability is None
    unasked, asked = (precision(chain_release(20_000), 0.03, draws=draws) for draws in (None, 20))
    np.testing.assert_array_equal(unasked.shares, asked.shares)


def test_stability_of_numbers_whose_indicators_are_left_out() -> None:
    x = {"kind": "number", "lower": -4, "upper": 4, "missing": "level"}
    columns = {f"x{j}": x for j in range(3)}
    made_by = dpcov.Schema.parse({"version": 3, "columns": columns})
    made = dpcov.release(chain_rows(20_000)[:, :3], schema=made_by, epsilon=4.0, seed=0)
    found = precision(made, 0.05, draws=3)
    assert found.columns == ("x0", "x1", "x2")
    assert found.left_out == tuple(f"x{j}=(missing)" for j in range(3))
    assert found.shares is not None
    assert found.shares[0, 1] == 1


def test_a_simulated_release_without_variance_has_no_edges() -> None:
    row, answered = np.array([[0.5, 0.6]]), 0
    for seed in range(20):
        made = dpcov.release(row, lower=0, upper=1, epsilon=2.0, seed=seed, denoise="none")
        if np.diag(made.covariance()).max() > MIN_FEATURE_VARIANCE:
            answered += 1
            assert np.isfinite(precision(made, draws=20).precision).all()
    assert answered


def test_features_without_variance_are_left_out() -> None:
    rows = chain_rows(50_000)
    rows[:, 3] = 0.0
    made = dpcov.release(rows, lower=-4, upper=4, epsilon=4.0, seed=0)
    units = made.second_moment().copy()
    units[3, :] = units[:, 3] = 0.0
    found = precision(replace(made, denoised=units), 0.05)
    assert found.left_out == ("x3",)
    assert len(found.columns) == len(found.precision) == 7


def mapped_release(seed: int = 0, **request: Any) -> Release:
    """Release rows that were standardized before the noise."""
    narrow = 2.0 + chain_rows(20_000) * np.array([0.2, 0.4] * 4)
    settings = {"lower": -4, "upper": 4, "epsilon": 1.0, "delta": 1e-6, **request}
    return dpcov.release(narrow, mechanism="standardized", seed=seed, **settings)


def test_noise_comes_back_through_the_map() -> None:
    made = [mapped_release(seed, denoise="none") for seed in range(60)]
    below = np.tril_indices(8, -1)
    spread = np.std([release.covariance()[below] for release in made], axis=0) / 16
    expected = [noise_of_entries(release) for release in made]
    entries = np.mean([np.sqrt(np.outer(n, n)) for n in expected], axis=0)[below]
    assert np.mean(spread / entries) == pytest.approx(1, abs=0.1)


def test_the_graph_of_a_mapped_release_is_found() -> None:
    strongest = precision(mapped_release()).edges[:7]
    assert {(edge.first, edge.second) for edge in strongest} == {
        (f"x{j}", f"x{j + 1}") for j in range(7)
    }


def test_noise_taken_as_if_no_map_had_been_would_hide_the_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = mapped_release()
    module = importlib.import_module("dpcov.analysis.precision")
    right = noise_of_entries(release)
    monkeypatch.setattr(module, "noise_of_entries", lambda _: np.full(8, right.max() * 64))
    assert not precision(release, features=release.columns).edges


def test_features_below_the_noise_are_left_out_unless_they_are_named() -> None:
    values = chain_rows(20_000)
    values[:, 3] *= 0.001
    release = dpcov.release(values, lower=-4, upper=4, epsilon=1.0, seed=1)
    assert precision(release).left_out == ("x3",)
    assert "x3" in precision(release, features=release.columns).columns


def test_levels_that_add_up_to_one_have_their_first_left_out(tmp_path: Path) -> None:
    table, schema = write_people(tmp_path, 20_000)
    made = dpcov.release(table, schema=schema, epsilon=4.0, seed=0)
    assert precision(made, 0.05).columns == ("age", "sex=f", "income")
    assert precision(made, 0.05, features=["income", "age"]).columns == ("income", "age")


# What is refused


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.nan, np.inf])
def test_alpha_must_be_above_zero(alpha: float) -> None:
    with pytest.raises(ReleaseError, match="alpha must be above 0"):
        precision(chain_release(1000), alpha)


def test_a_release_that_holds_nothing_is_refused() -> None:
    tiny = dpcov.release(
        chain_rows(20), lower=-4, upper=4, epsilon=0.01, neighbors="replace-one", seed=0
    )
    with pytest.raises(ReleaseError, match="a noisy trace, because"):
        precision(tiny)
    made = chain_release(1000)
    with pytest.raises(ReleaseError, match="null"):
        precision(replace(made, denoised=np.zeros_like(made.second_moment())))
    with pytest.raises(ReleaseError, match="without an intercept"):
        precision(chain_release(1000, intercept=0))


def test_stability_needs_a_noise_law() -> None:
    with pytest.raises(ReleaseError, match="no noise law"):
        precision(changed(chain_release(1000), noise=None), 0.1, draws=5)
    assert precision_alpha(changed(chain_release(20_000), noise=None)) > 0


# The graph


def test_the_graph_of_networkx_has_the_edges() -> None:
    pytest.importorskip("networkx")
    found = precision(chain_release(), 0.1)
    graph = found.to_networkx()
    assert list(graph.nodes) == list(found.columns)
    assert {frozenset(pair) for pair in graph.edges} == {
        frozenset((edge.first, edge.second)) for edge in found.edges
    }
    first = found.edges[0]
    assert graph[first.first][first.second]["partial_correlation"] == first.partial_correlation


def test_without_networkx_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: Any, **more: Any) -> Any:
        if name == "networkx":
            raise ImportError
        return real(name, *rest, **more)

    found = precision(chain_release(5000), 0.1)
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ReleaseError, match='pip install "networkx>='):
        found.to_networkx()
