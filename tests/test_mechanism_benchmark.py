"""The comparison of methods: its errors, ranks, bounds and file are correct."""

import importlib
import math
from pathlib import Path

import cell_file
import cells
import lower_bounds
import matrix_errors
import mechanism_tables
import methods
import numpy as np
import pandas as pd
import paper_methods
import pytest
import ranking
import summary
from scipy.stats import studentized_range

from dpcov.core.privacy import Neighbors, PureDP

# Table 6 of Demsar 2006: areas under the curve of four classifiers on 14 data sets.
DEMSAR = np.array(
    [
        *([0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569]),
        *([0.954, 0.971, 0.968, 0.967], [0.628, 0.661, 0.654, 0.657]),
        *([0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931]),
        *([0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625]),
        *([0.775, 0.838, 0.866, 0.875], [1.000, 1.000, 1.000, 1.000]),
        *([0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669]),
        *([0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970]),
    ]
)


def table_of(rows, name="made up"):
    return mechanism_tables.scaled(name, "made up", rows)


@pytest.fixture(scope="module")
def covariance():
    rows = np.random.default_rng(0).standard_normal((50, 5)) * [1, 2, 3, 4, 50]
    return rows.T @ rows / 50


# Ranks


def test_ranks_and_the_critical_difference_are_those_of_demsars_example():
    ranks = ranking.mean_ranks(-DEMSAR, [str(i) for i in range(14)])
    assert ranks == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    assert ranking.critical_difference(4, 14) == pytest.approx(1.25, abs=5e-3)
    assert ranking.critical_difference(4, 14, 0.1) == pytest.approx(1.12, abs=5e-3)
    without_root = studentized_range.ppf(0.95, 4, np.inf) * math.sqrt(4 * 5 / (6 * 14))
    assert without_root != pytest.approx(1.25, abs=5e-3)


def test_many_cells_of_one_table_count_once():
    errors = np.array([[1.0, 2.0]] * 9 + [[2.0, 1.0], [1.0, 2.0]])
    blocks = ["a"] * 8 + ["b"] * 3
    assert ranking.mean_ranks(errors, blocks) == pytest.approx([7 / 6, 11 / 6])
    each = [str(i) for i in range(11)]
    assert ranking.mean_ranks(errors, each) == pytest.approx([12 / 11, 21 / 11])


def test_cliques_are_the_widest_groups_within_the_difference():
    ranks = {"a": 1.0, "b": 1.8, "c": 2.5, "d": 4.0}
    assert ranking.cliques(ranks, 1.0) == [(1.0, 1.8), (1.8, 2.5)]
    assert ranking.cliques(ranks, 1.5) == [(1.0, 2.5), (2.5, 4.0)]
    assert ranking.cliques(ranks, 0.1) == []


# Errors


def test_the_truth_has_no_error_and_everything_else_has(covariance):
    assert matrix_errors.errors(covariance, covariance) == pytest.approx(
        dict.fromkeys(matrix_errors.KINDS, 0.0), abs=1e-12
    )
    wrong = covariance[::-1, ::-1]
    assert all(error > 1e-3 for error in matrix_errors.errors(wrong, covariance).values())


def test_errors_of_diagonal_matrices_are_those_computed_by_hand():
    found = matrix_errors.errors(np.diag([1.0, 4.0, 0.0]), np.diag([4.0, 4.0, 4.0]))
    assert found["frobenius"] == pytest.approx(5.0)
    assert found["spectral"] == pytest.approx(4.0)
    assert found["relative"] == pytest.approx(np.hypot(3 / 4, 1) / 3)
    assert found["correlation"] == 0.0


def test_relative_and_correlation_errors_do_not_depend_on_units_but_frobenius_does(covariance):
    estimate = covariance + np.ones((5, 5))
    units = np.diag([1.0, 10.0, 100.0, 0.1, 0.01])
    before = matrix_errors.errors(estimate, covariance)
    after = matrix_errors.errors(units @ estimate @ units, units @ covariance @ units)
    for kind in ("relative", "correlation"):
        assert after[kind] == pytest.approx(before[kind]), kind
    assert after["frobenius"] != pytest.approx(before["frobenius"], rel=0.5)


def test_the_ridge_loss_is_that_of_a_regression_for_each_column(covariance):
    estimate = covariance + np.diag([0.1, 0.2, 0.3, 0.4, 0.5])
    penalty = matrix_errors.PENALTY * np.trace(estimate) / 5
    left = []
    for j in range(5):
        others = [i for i in range(5) if i != j]
        system = estimate[np.ix_(others, others)] + penalty * np.eye(4)
        weights = np.linalg.solve(system, estimate[others, j])
        contrast = np.insert(-weights, j, 1.0)
        left.append(min(contrast @ covariance @ contrast / covariance[j, j], 1.0))
    assert matrix_errors.ridge_loss(estimate, covariance) == pytest.approx(np.mean(left))
    assert matrix_errors.ridge_loss(np.eye(5), covariance) == pytest.approx(1.0)
    assert matrix_errors.ridge_loss(np.zeros((5, 5)), covariance) == 1.0
    misleading = np.array([[1.0, 0.99], [0.99, 1.0]])
    assert matrix_errors.ridge_loss(misleading, np.eye(2)) == 1.0  # not what it would lose


def test_the_ridge_error_is_of_predictions_and_0_for_the_truth_alone():
    """Control: the loss, which is less for an estimate whose penalty is less."""
    truth = np.array([[1.0, 0.9], [0.9, 1.0]])
    larger = np.array([[1.0, 0.905], [0.905, 1.0]])
    slopes = [one[0, 1] / (1 + matrix_errors.PENALTY) for one in (truth, larger)]
    found = matrix_errors.ridge_error(larger, truth)
    assert found == pytest.approx(slopes[1] - slopes[0])
    assert matrix_errors.ridge_error(truth, truth) == 0
    assert matrix_errors.ridge_error(np.zeros((2, 2)), truth) == pytest.approx(slopes[0])
    assert matrix_errors.ridge_loss(larger, truth) < matrix_errors.ridge_loss(truth, truth)


def test_an_estimate_without_directions_captures_the_average_variance():
    truth = np.diag([4.0, 3.0, 2.0, 1.0])
    assert matrix_errors.captured(np.zeros((4, 4)), truth) == pytest.approx(7.5)
    assert matrix_errors.captured(np.eye(4), truth) == pytest.approx(7.5)
    assert matrix_errors.captured(truth, truth) == pytest.approx(9.0)
    assert matrix_errors.captured(-truth, truth) == pytest.approx(6.0)


# Tables and methods


def test_the_target_of_a_table_with_an_intercept_is_the_covariance_about_the_mean():
    rows = np.random.default_rng(1).uniform(0.3, 0.9, (200, 3))
    prepared = table_of(rows)
    scaled = rows / np.linalg.norm(rows, axis=1).max()
    centred = mechanism_tables.PreparedTable(
        "c", "f", prepared.centred_source, prepared.centred_source
    )
    uncentred = scaled.T @ scaled / 200
    about_mean = np.cov(scaled.T, bias=True)
    assert mechanism_tables.target(prepared, prepared.truth) == pytest.approx(uncentred, abs=1e-5)
    found = mechanism_tables.target(centred, centred.truth)
    assert found == pytest.approx(about_mean, abs=1e-5)
    assert found != pytest.approx(uncentred, abs=1e-2)


def bounded(rows):
    """Return rows with public bounds of -1 and 1 (so the radius is not 1) and an intercept."""
    names = [f"x{j}" for j in range(rows.shape[1])]
    schema = mechanism_tables.Schema.from_bounds(-1.0, 1.0, names)
    frame = pd.DataFrame(rows, columns=names)
    return mechanism_tables.bounded(
        "made up", mechanism_tables.ridge_comparison.Task(frame, schema, "x0")
    )


def test_moments_are_over_the_squared_radius():
    rows = np.random.default_rng(6).uniform(-1, 1, (300, 3))
    prepared = bounded(rows)
    found = mechanism_tables.target(prepared, prepared.truth)
    assert found == pytest.approx(np.cov(rows.T, bias=True) / 3, abs=1e-5)


@pytest.mark.parametrize("definition", cells.DEFINITIONS)
@pytest.mark.parametrize("made", [table_of, bounded])
def test_everyone_but_simple_answers_finds_the_truth_where_privacy_is_cheap(made, definition):
    generator = np.random.default_rng(2)
    prepared = made(np.clip(generator.standard_normal((3000, 3)) * [0.4, 0.3, 0.2], -1, 1))
    truth = mechanism_tables.target(prepared, prepared.truth)
    unable = {"zero matrix", "scaled identity", "exponential-pca", "PPCA (Chaudhuri et al. 2012)"}
    tried = 0
    for method in cells.everyone():
        if method.costly or method.name in unable:
            continue
        for neighbors in Neighbors:
            cell = cells.Cell("made up", neighbors, definition, 300.0)
            try:
                estimate = method.estimate(prepared, cell.budget, neighbors, 3)
            except paper_methods.MechanismError:
                continue
            found = mechanism_tables.target(prepared, prepared.per_row(estimate))
            # Drawn directions are off by the root of the noise, noise by itself.
            assert np.linalg.norm(found - truth) < 0.15 * np.linalg.norm(truth), method.name
            tried += 1
    assert tried >= 18
    estimate = methods.zero(prepared, PureDP(300.0), Neighbors.ADD_REMOVE, 0)
    zero = mechanism_tables.target(prepared, estimate)
    assert np.linalg.norm(zero - truth) > 0.15 * np.linalg.norm(truth)


def test_the_scaled_identity_has_the_private_trace():
    prepared = table_of(np.random.default_rng(8).standard_normal((3000, 3)) * [3, 2, 1])
    for neighbors in Neighbors:
        found = prepared.per_row(methods.isotropic(prepared, PureDP(300.0), neighbors, 0))
        assert np.diag(found) == pytest.approx(np.full(3, np.trace(prepared.truth) / 3), rel=1e-3)
        assert np.count_nonzero(found) == 3


def test_the_papers_constants_are_theirs():
    generator = np.random.default_rng(9)
    noise = paper_methods.paper_laplace(40, 0.5, Neighbors.ADD_REMOVE, generator)
    assert np.mean(np.abs(noise)) == pytest.approx(2 * 40 / 0.5, rel=0.1)
    assert np.array_equal(noise, noise.T)
    prepared = table_of(generator.standard_normal((3000, 3)))
    errors = [
        np.linalg.norm(
            paper_methods.dorsi(prepared, PureDP(300.0), neighbors, 0) / 3000 - prepared.truth
        )
        for neighbors in Neighbors
    ]
    assert max(errors) / min(errors) == pytest.approx(2, rel=0.2)


def test_the_default_is_a_mechanism_of_the_registry_draw_by_draw():
    prepared = table_of(np.random.default_rng(3).standard_normal((300, 3)))
    asked = (prepared, PureDP(1.0), Neighbors.REPLACE_ONE, 5)
    default = methods.default()(*asked)
    assert np.array_equal(default, methods.of_registry("matrix-laplace")(*asked))
    assert not np.array_equal(default, methods.of_registry("nuclear-laplace")(*asked))


@pytest.mark.parametrize("neighbors", Neighbors)
def test_noise_added_by_hand_costs_no_more_than_its_budget(neighbors):
    generator = np.random.default_rng(4)
    d, draws = 4, 3000
    above = np.triu_indices(d)
    laplace = [
        paper_methods.vector_laplace(d, 0.7, neighbors, generator)[above] for _ in range(draws)
    ]
    gaussian = [
        paper_methods.vector_gaussian(d, 0.7, neighbors, generator)[above] for _ in range(draws)
    ]
    scale, deviation = np.mean(np.abs(laplace)), np.std(gaussian)
    worst_l1 = worst_l2 = 0.0
    for _ in range(3000):
        rows = generator.standard_normal((2, d))
        if generator.random() < 0.5:
            rows = np.sign(rows)
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        change = np.outer(rows[0], rows[0])[above]
        if neighbors == Neighbors.REPLACE_ONE:
            change = change - np.outer(rows[1], rows[1])[above]
        worst_l1 = max(worst_l1, np.abs(change).sum())
        worst_l2 = max(worst_l2, np.linalg.norm(change))
    assert 0.85 * 0.7 < worst_l1 / scale <= 1.03 * 0.7
    rho = (worst_l2 / deviation) ** 2 / 2
    assert 0.8 * 0.7 < rho <= 1.05 * 0.7


# Cells, their file and their sums


def test_pairing_by_seeds_takes_what_is_common_out_of_a_ratios_error():
    common = np.array([1.0, 2.0, 3.0, 4.0])
    found = cells.against(1.1 * common, common)
    assert found["default_over"] == pytest.approx(1.1)
    assert found["default_over_se"] == pytest.approx(0.0, abs=1e-12)
    assert cells.against(1.1 * common[::-1], common)["default_over_se"] > 0.3
    assert math.isnan(cells.against(common, 0 * common)["default_over"])


def row(cell, method, mean, role="mechanism", se=0.0, over=1.0, repeats=3, error="frobenius"):
    return {
        "table": cell.table, "family": "made up", "rows": 10, "columns": 2, "trace": 1.0,
        "neighbors": str(cell.neighbors), "definition": cell.definition, "epsilon": cell.epsilon,
        "method": method, "role": role, "error": error, "mean": mean, "se": 0.0,
        "repeats": repeats, "refused": 0, "default_over": over, "default_over_se": se,
    }  # fmt: skip


CELL = cells.Cell("t", Neighbors.ADD_REMOVE, "pure", 1.0)
OTHER = cells.Cell("t", Neighbors.REPLACE_ONE, "pure", 1.0)


def test_measured_cells_are_skipped_after_a_restart(tmp_path):
    path = tmp_path / "cells.parquet"
    cell_file.CellFile(path).add([row(CELL, "default", 1.0, "default")])
    again = cell_file.CellFile(path)
    assert again.missing([CELL, OTHER]) == [OTHER]
    assert again.missing([CELL, OTHER], repeats=3) == [OTHER]
    assert again.missing([CELL, OTHER], repeats=4) == [CELL, OTHER]
    again.add([row(CELL, "default", 2.0, "default", repeats=4)])
    (kept,) = cell_file.CellFile(path).rows
    assert (kept["mean"], kept["repeats"]) == (2.0, 4)


def test_a_run_killed_while_it_writes_loses_no_cell_but_its_own(tmp_path, monkeypatch):
    path = tmp_path / "cells.parquet"
    cell_file.CellFile(path).add([row(CELL, "default", 1.0, "default")])

    def killed(table, target, **options):
        Path(target).write_bytes(b"half a fi")
        raise KeyboardInterrupt

    monkeypatch.setattr(cell_file.pq, "write_table", killed)
    with pytest.raises(KeyboardInterrupt):
        cell_file.CellFile(path).add([row(OTHER, "default", 1.0, "default")])
    monkeypatch.undo()
    assert cell_file.CellFile(path).missing([CELL, OTHER]) == [OTHER]


def test_losses_are_cells_over_the_bar_and_worse_ones_those_beyond_chance():
    def lost(mean, se, role="mechanism"):
        winner = row(CELL, "gaussian, private radius", mean, role, se, 1 / mean)
        rows = [row(CELL, "default", 1.0, "default"), winner]
        return list(summary.losses(rows))

    assert lost(1 / 1.019, 0.0) == []
    ((sure,), (unsure,)) = lost(1 / 1.1, 0.01), lost(1 / 1.1, 0.06)
    assert (sure["worse"], unsure["worse"]) == (True, False)
    assert sure["ratio"] == pytest.approx(1.1)
    assert sure["private radius"] == pytest.approx(1.1)
    assert lost(0.5, 0.0, role="peer") == []  # peers have a bar of their own


def test_a_single_method_is_compared_over_all_cells():
    rows = []
    for cell, own, over in ((CELL, 1.0, 0.5), (OTHER, 2.0, 1.0)):
        rows += [row(cell, "default", own, "default"), row(cell, "laplace", own / over, over=over)]
        rows.append(row(cell, "peer", own / over, "peer", over=over))
    rows.append(row(CELL, "gaussian", 0.1, over=10))
    found = {at["method"]: at for at in summary.singles(rows)}
    assert set(found) == {"laplace", "peer"}, "gaussian is in one cell of two"
    for method, part in (("laplace", "single"), ("peer", "peer")):
        assert found[method]["part"] == part
        assert found[method]["over the default"] == pytest.approx(math.sqrt(2))


def test_cells_lost_to_a_peer_are_those_beyond_chance():
    def lost(se):
        peer = row(CELL, "peer", 0.8, "peer", se, over=1 / 0.8)
        return list(summary.lost_to_peers([row(CELL, "default", 1.0, "default"), peer]))

    ((sure,), unsure) = lost(0.01), lost(0.2)
    assert (sure["peer"], sure["ratio"], unsure) == ("peer", pytest.approx(1.25), [])


def of_both(rows, part):
    found = [row for row in summary.regimes(rows) if row["part"] == part]
    return next((row for row in found if row["neighbors"] == "both"), None)


def test_cells_where_everybody_is_about_as_wrong_as_zero_show_nothing():
    rows = [row(CELL, "default", 1.0, "default"), row(CELL, "peer", 1.5, "peer", over=1 / 1.5)]
    rows.append(row(CELL, "zero matrix", 1.9, "simple", over=1 / 1.9))
    assert of_both(rows, "showing") is None
    rows[1] = row(CELL, "peer", 0.9, "peer", over=1 / 0.9)
    assert of_both(rows, "showing")["advantage"] == pytest.approx(0.9)


def test_shares_and_the_advantage_are_over_cells():
    rows = []
    for cell, own, peer in ((CELL, 1.0, 4.0), (OTHER, 2.0, 2.0)):
        rows += [row(cell, "default", own, "default"), row(cell, "laplace", 1.5, over=own / 1.5)]
        rows += [row(cell, "peer", peer, "peer", over=own / peer)]
    found = of_both(rows, "regime")
    assert (found["cells"], found["within"], found["worse than a peer"]) == (2, 0.5, 0)
    assert found["advantage"] == pytest.approx(2.0)
    assert found["in hindsight"] == pytest.approx(math.sqrt(4.0 / 1.0 * 2.0 / 1.5))


@pytest.mark.parametrize("relative", [0.003, 0.02, 0.3])
def test_chance_leaves_of_the_bar_what_draws_of_equals_do(relative):
    generator = np.random.default_rng(7)
    own, *others = 1 + relative * generator.standard_normal((1 + summary.EQUALS, 100_000))
    expected = np.mean(own <= summary.BAR * np.min(others, axis=0))
    default = row(CELL, "default", 5.0, "default")
    found = summary.within_of_equals({**default, "se": 5 * relative})
    assert found == pytest.approx(expected, abs=0.006)
    assert summary.within_of_equals(default) == 1


def test_an_error_beyond_all_numbers_is_not_taken_for_none():
    default, lost = row(CELL, "default", 1.0, "default"), row(CELL, "preconditioned", 1e38, over=0)
    perfect = row(CELL, "laplace", 0.0, over=math.nan)
    assert list(summary.losses([default, lost])) == []
    assert [found["ratio"] for found in summary.losses([default, perfect])] == [math.inf]


def test_a_set_of_methods_counts_as_its_best_in_each_cell():
    rows = []
    for cell, own, other in ((CELL, 1.0, 3.0), (OTHER, 3.0, 1.0)):
        rows += [
            row(cell, "default", own, "default"),
            row(cell, "laplace", other, over=own / other),
        ]
        rows += [row(cell, "gaussian", 2.9, over=own / 2.9)]
        rows += [row(cell, "peer", 0.1, "peer", over=10 * own)]
    (first,) = summary.portfolios(rows)
    assert first["set"] == "default + laplace"
    assert (first["over the best"], first["within"]) == (pytest.approx(1.0), 1.0)


# Lower bounds


def test_no_projection_law_is_more_concentrated_than_the_bound_says(monkeypatch):
    generator = np.random.default_rng(5)
    chi = lower_bounds.mean_chi
    for p, k, r in ((4, 1, 0.8), (5, 1, 0.6), (6, 2, 0.9)):
        frames = np.linalg.qr(generator.standard_normal((20_000, p, k)))[0]
        spaces = frames @ frames.transpose(0, 2, 1)
        fixed = np.diag((np.arange(p) < k).astype(float))
        between = 0.7 * fixed + 0.3 * k / p * np.eye(p)
        shares = [np.mean(np.linalg.norm(spaces - q, axis=(1, 2)) <= r) for q in (fixed, between)]
        assert 0 < max(shares) <= math.exp(lower_bounds.log_ball(p, k, r)) < 1, (p, k, r)
        monkeypatch.setattr(lower_bounds, "mean_chi", lambda degrees: 4 * chi(degrees))
        assert max(shares) > math.exp(lower_bounds.log_ball(p, k, r)), (p, k, r)
        monkeypatch.undo()


@pytest.mark.parametrize(("p", "k"), [(6, 1), (8, 2)])
def test_the_bound_on_concentration_is_the_dual_of_what_it_states(p, k):
    spectra = np.array(list(partitions(24, p, 24 // k))) * k / 24
    scale = np.mean(lower_bounds.mean_chi(np.arange(p, p - k, -1.0))) ** 2

    def largest(t, r):
        tails = -k / 2 * np.log(1 - 2 * t * spectra) - t * scale * spectra**2 / 2
        return tails.sum(axis=1).max() - t * scale * (k - r**2) / 2

    for r in (0.2, 0.4, 0.6):
        stated = min(largest(t, r) for t in lower_bounds.TILTS)
        assert stated < -0.1
        assert stated - 1e-9 <= lower_bounds.log_ball(p, k, r) <= stated + 0.1


def partitions(total, parts, largest=None):
    """Yield descending tuples of `parts` integers >= 0 with this sum."""
    if parts == 1:
        if largest is None or total <= largest:
            yield (total,)
        return
    for first in range(min(total, total if largest is None else largest), -1, -1):
        for rest in partitions(total - first, parts - 1, first):
            yield (first, *rest)


def test_assouads_bound_is_the_one_computed_by_hand():
    bound = lower_bounds.assouad(2, 1000, lambda m: 0.0 if m <= 10 else 1.0)
    assert 9 / 2 * math.sqrt(2) / 1000 <= bound <= 10 / 2 * math.sqrt(2) / 1000


def test_the_chi_mean_is_known():
    assert lower_bounds.mean_chi(np.array([1.0]))[0] == pytest.approx(math.sqrt(2 / math.pi))


def test_lower_bounds_are_below_what_gaussian_noise_and_zero_reach():
    """Noise of deviation 1/(n sqrt(rho)) has this error on every table; zero has the trace's."""
    for p, n, rho in ((5, 1000, 0.5), (30, 10_000, 0.01), (100, 500, 0.5), (50, 100, 1e-4)):
        reached = math.sqrt(p * (p + 1) / 2) / (n * math.sqrt(rho))
        bound = lower_bounds.zcdp(p, n, rho, 1)
        assert 0 < bound < min(reached, 1.0), (p, n, rho)
        assert 15 * bound > min(reached, 1.0) or n < p**2, (p, n, rho)  # not vacuous


def test_pure_bounds_have_the_orders_of_the_packing_argument():
    many = [lower_bounds.packing(p, 10**9, 1.0) for p in (100, 200, 400)]
    slopes = np.diff(np.log(many)) / np.log(2)
    assert slopes == pytest.approx([1.5, 1.5], abs=0.15)
    few = [lower_bounds.packing(400, n, 1.0) for n in (100, 400)]
    assert few[0] / few[1] == pytest.approx(2, rel=0.1)  # as 1/sqrt(n)
    assert 0.2 < few[0] / math.sqrt(400 / 100) < 1
    assert lower_bounds.packing(100, 10**9, 2.0) == pytest.approx(many[0] / 2, rel=0.05)


def test_group_privacy_of_no_delta_is_that_of_pure_privacy():
    exact = lower_bounds.approximate(10, 10_000, 0.5, 0.0, 1)
    assert lower_bounds.approximate(10, 10_000, 0.5, 1e-6, 1) == pytest.approx(exact, rel=1e-3)
    assert lower_bounds.approximate(10, 10_000, 0.5, 0.1, 1) < 0.9 * exact


@pytest.mark.slow
def test_the_quick_benchmark_runs_goes_on_where_it_ended_and_sums_up(tmp_path, capsys):
    benchmark = importlib.import_module("mechanism_benchmark")
    asked = ["--quick", "--folder", str(tmp_path)]
    assert benchmark.main(asked) == 0
    first = (tmp_path / "mechanism_benchmark-quick.parquet").read_bytes()
    assert benchmark.main(asked) == 0
    assert "18 of 18 cells are there already" in capsys.readouterr().out
    assert (tmp_path / "mechanism_benchmark-quick.parquet").read_bytes() == first
    assert (tmp_path / "mechanism-ranks-pure.svg").exists()
    found = cell_file.CellFile(tmp_path / "mechanism_benchmark-quick.parquet")
    for group in summary.grouped(found.rows, "frobenius").values():
        assert {"default", "zero matrix", "scaled identity"} <= set(group)
        assert sum(r["role"] == "peer" for r in group.values()) >= 4
