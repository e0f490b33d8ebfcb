"""The peers by task are what their papers say, and a peer from a folder is measured alike."""

import json
import math
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import peers_by_task
import task_ratios
from biswas2020 import coinpress as published
from peer_methods import adassp, binagg, coinpress, noisy_sums, tukey_em
from peer_methods.interface import NoAnswer, Peer
from task_errors import Truth, leading, of_moments

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import tables  # noqa: E402 (the site's own code is no package)

WEIGHTS = np.array([1.5, -2.0, 0.5])


def of_binagg(n, mu, rng):
    """Fit BinAgg to a design of its authors: three normal features without an intercept."""
    features = rng.normal(1, 1, (n, 3))
    target = np.clip(features @ WEIGHTS + rng.normal(size=n), -10, 10)
    bounds = np.full(3, -3.0), np.full(3, 5.0)
    return binagg.fitted(
        binagg.aggregated(np.clip(features, *bounds), bounds, target, 10.0, mu, rng)
    )


def test_binagg_has_no_bias_and_valid_intervals():
    """Theorem 4.2 of the paper; without the correction, the bias of a weight is above 0.2."""
    rng = np.random.default_rng(1)
    fits = [of_binagg(2000, 1.0, rng) for _ in range(80)]
    found = np.array([fit.weights for fit in fits])
    bias = found.mean(axis=0) - WEIGHTS
    assert np.all(np.abs(bias) < 3 * found.std(axis=0, ddof=1) / math.sqrt(len(fits)))
    held = [(low <= WEIGHTS) & (high >= WEIGHTS) for low, high in (f.interval() for f in fits)]
    assert 0.90 <= np.mean(held) <= 0.995


def test_binagg_spends_mu_and_adds_noise_for_the_largest_sizes():
    assert np.sum(binagg.SHARES**2) == pytest.approx(1)
    rng = np.random.default_rng(2)
    bounds = np.array([-3.0]), np.array([5.0])
    bins = binagg.aggregated(np.full((400, 1), 5.0), bounds, np.zeros(400), 10.0, 1.0, rng)
    assert bins.deviations.max() == pytest.approx(5 * math.sqrt(28) / 3)


def test_privtree_cuts_the_bounds_into_bins_that_hold_each_row_once():
    rng = np.random.default_rng(3)
    features = rng.normal(0, 0.2, (500, 2)).clip(-1, 1)
    found = list(binagg.leaves(features, -np.ones(2), np.ones(2), 1.0, rng))
    assert sorted(np.concatenate([inside for *_, inside in found])) == list(range(500))
    assert sum(np.prod(high - low) for low, high, _ in found) == pytest.approx(4)


@pytest.mark.parametrize(("models", "passes"), [(1000, True), (100, False)])
def test_tukey_em_answers_with_a_thousand_models(models, passes):
    """The paper uses 1,000 models for epsilon = ln 3 and delta = 1e-5, as fewer fail its test."""
    rng = np.random.default_rng(4)
    found = rng.normal(WEIGHTS, 0.1, (models, 3))
    if not passes:
        with pytest.raises(NoAnswer):
            tukey_em.chosen(found, math.log(3), 1e-5, rng)
        return
    chosen = tukey_em.chosen(found, math.log(3), 1e-5, rng)
    below = np.sum(found <= chosen, axis=0)
    assert np.minimum(below, models - below).min() >= models // 4


def test_tukey_em_draws_points_of_the_exact_depth():
    ordered = np.sort(np.random.default_rng(5).normal(size=(40, 2)), axis=0)
    volumes = tukey_em.log_volumes(ordered)
    assert volumes[1] == pytest.approx(np.log(np.prod(ordered[-1] - ordered[0])))
    rng = np.random.default_rng(6)
    for _ in range(100):
        point = tukey_em.drawn(ordered, 7, rng)
        below = np.sum(ordered <= point, axis=0)
        assert np.minimum(below, 40 - below).min() == 7


def test_adassp_spends_rho_and_has_no_error_without_noise():
    rng = np.random.default_rng(7)
    features = rng.uniform(-1, 1, (3000, 2))
    target = features @ [0.5, -0.3] + 0.1
    found = adassp.regression(features, target, 1e12, rng)
    assert found == pytest.approx([0.1, 0.5, -0.3], abs=1e-3)
    assert 3 / (2 * adassp.multiplier(0.5) ** 2) == pytest.approx(0.5)


def test_noise_on_sums_has_the_deviation_of_its_sensitivity():
    rng, rows = np.random.default_rng(8), np.zeros((1000, 3))
    gaussian = np.array([noisy_sums.gaussian(rows, 0.5, rng) for _ in range(2000)])
    assert gaussian.std() == pytest.approx(math.sqrt(4) / 1000, rel=0.05)
    laplace = np.array([noisy_sums.laplace(rows, 1.0, rng) for _ in range(2000)])
    assert laplace.std() == pytest.approx(math.sqrt(2) * 6 / 1000, rel=0.05)


def test_coinpress_has_the_error_of_its_paper_at_four_times_the_budget():
    rng = np.random.default_rng(9)
    n, d, rho = 3000, 3, 0.01
    rows = rng.uniform(-1, 1, (200, n, d))
    off = np.array([coinpress.means(one, rho, rng) - one.mean(axis=0) for one in rows])
    *_, (_, deviation) = published.mean_steps(n, d, math.sqrt(d), 4 * rho, coinpress.STEPS)
    assert off.std() == pytest.approx(deviation, rel=0.1)


def truth_of_rows():
    rng = np.random.default_rng(10)
    rows = np.clip(rng.normal(size=(500, 4)) @ rng.normal(size=(4, 4)) / 8, -1, 1)
    return rows, Truth.of(rows, 1)


def test_exact_answers_have_no_error():
    _, truth = truth_of_rows()
    exact = peers_by_task.of_matrix(truth, truth.means, truth.covariance, truth.exact)
    assert exact == pytest.approx(dict.fromkeys(peers_by_task.TASKS, 0.0), abs=1e-6)


def test_the_error_of_a_regression_is_the_change_of_its_predictions():
    rows, truth = truth_of_rows()
    found = of_moments(truth.means, truth.covariance, 1, 0.5)
    features = np.delete(rows, 1, axis=1)
    off = (found - truth.exact(1))[0] + features @ (found - truth.exact(1))[1:]
    expected = np.sqrt(np.mean(off**2)) / rows[:, 1].std()
    assert truth.of_regression(found, 1) == pytest.approx(expected)


def test_missed_variance_counts_as_an_error_of_components():
    truth = Truth(np.zeros(2), np.diag([4.0, 1.0]), 0)
    assert truth.of_components(np.array([[0.0, 1.0]])) == pytest.approx(math.sqrt(3 / 4))
    assert truth.of_components(leading(truth.covariance, 1)) == pytest.approx(0)


def test_a_peer_without_an_answer_fails_in_its_task_alone():
    def refused(features, target, rho, generator):
        raise NoAnswer

    rows, truth = truth_of_rows()
    peer = Peer("refuses", "rho", means=noisy_sums.gaussian, regression=refused)
    found = peers_by_task.theirs(peer, rows, truth, 0.5, np.random.default_rng(11))
    assert math.isfinite(found["means"])
    assert found["one target"] == found["all targets"] == math.inf
    assert peers_by_task.summary([0.1, math.inf, math.inf]) == {
        "error": None,
        "failed": 2,
        "releases": 3,
    }


def test_a_peer_of_a_folder_joins(tmp_path):
    text = """
        import numpy as np
        from peer_methods.interface import Peer

        def means(rows, rho, generator):
            return np.zeros(rows.shape[1])

        PEERS = [Peer("zero", "rho", means=means)]
    """
    (tmp_path / "zero.py").write_text(textwrap.dedent(text))
    known, joined = peers_by_task.peers_in(None), peers_by_task.peers_in(str(tmp_path))
    assert [peer.name for peer in joined] == [*(peer.name for peer in known), "zero"]


def cell(method, error, table="wine"):
    return {"task": "means", "table": table, "rho": 0.5, "method": method, "error": error}


def test_a_ratio_is_the_geometric_mean_and_counts_what_dpcov_loses_and_who_has_no_answer():
    rows = [cell("dpcov", 0.2), cell("a", 0.1), cell("b", 0.4)]
    rows += [cell("dpcov", 0.2, "airfoil"), cell("a", 0.4, "airfoil"), cell("b", None, "airfoil")]
    found = {row["peer"]: row for row in task_ratios.ratios(rows)}
    assert found["best peer"]["ratios"] == pytest.approx([2, 0.5])
    assert found["best peer"]["ratio"] == pytest.approx(1)
    assert found["best peer"]["lost"] == 1
    assert found["b"]["ratios"] == pytest.approx([0.5])
    assert found["b"]["unanswered"] == 1


def test_the_page_shows_the_ratio_to_the_best_peer_of_each_task_and_the_cells_that_dpcov_loses():
    text = tables.GENERATORS["peers-by-task"]()
    kept = json.loads((ROOT / "docs" / "results" / "peers_by_task.json").read_text())["rows"]
    best = [row for row in kept if row.get("peer") == "best peer"]
    assert {row["task"] for row in best} == set(peers_by_task.TASKS)
    assert text.count("(loses ") == len(best) == 12
    measured = [row for row in kept if "task" in row and "ratios" not in row]
    assert task_ratios.ratios(measured) == [row for row in kept if "ratios" in row]
    assert len({row["peer"] for row in kept if "ratios" in row} - {"best peer"}) >= 6
