"""What the levels of a schema imply for every second moment, and what estimates gain by it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.core.entropy import simulation_generator
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.denoise import denoise, projection
from dpcov.denoise import structure as structures
from dpcov.denoise.shrinkage import MAX_SIMULATED_ORDER, simulates
from dpcov.denoise.structure import Structure
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from rounds_for_tests import changed
from tables_for_tests import mixed_table

LEVELS = list("abcdef")
COLUMNS: dict[str, Any] = {
    "job": {"kind": "categorical", "levels": LEVELS, "other": True, "missing": "level"},
    "town": {"kind": "categorical", "levels": LEVELS[:4]},
    "age": {"kind": "numeric", "lower": -1, "upper": 2, "missing": "level"},
    "pay": {"kind": "numeric", "lower": 0, "upper": 1},
    "home": {"kind": "categorical", "levels": LEVELS, "other": True, "missing": "level"},
}
EXTRA: dict[str, dict[str, Any]] = {
    "plain": {},
    "clipped": {"radius": 1.1},
    "no intercept": {"intercept": 0.0},
    "persons": {"unit": {"column": "who", "type": "integer", "max_rows": 3}},
    "weighted": {"weight": {"column": "weight", "maximum": 2}},
}
MAPPED = "mapped"  # a plain table, its rows about their means in units of their spread
WHOLE = ("plain", "persons", "weighted", MAPPED)
KINDS = (*EXTRA, MAPPED)


def schema(kind: str) -> Schema:
    return Schema.parse({"columns": COLUMNS, **EXTRA.get(kind, {})})


def table(kind: str) -> pa.Table:
    weights = np.random.default_rng(7).uniform(0, 3, 600)
    return mixed_table(schema(kind), 600).append_column("weight", pa.array(weights))


@lru_cache
def released(kind: str, seed: int = 0, epsilon: float = 2.0, **more: Any) -> dpcov.Release:
    declared = schema(kind)
    if kind == MAPPED:
        more["mechanism"], epsilon = "standardized", 30.0  # for a good pilot
    more.setdefault("mechanism", "matrix-laplace")
    return dpcov.release(table(kind), schema=declared, epsilon=epsilon, seed=seed, **more)


def exact(kind: str) -> np.ndarray:
    moment = open_rows(table(kind), schema(kind)).second_moments()[0]
    truth = moment.units.astype(float) * moment.lattice.step**2
    return truth if kind != MAPPED else about(released(kind), truth, moment.lattice)


def about(release: dpcov.Release, moment: np.ndarray, lattice: Lattice) -> np.ndarray:
    """Transform a moment with the release's map, with the release's intercept."""
    weights = np.ones(len(moment))
    weights[-1] = release.intercept() / (lattice.intercept_units * lattice.step)
    return release.mapped(moment * np.outer(weights, weights))


def structure(kind: str) -> Structure:
    found = Structure.of(released(kind))
    assert found is not None
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_moment_is_as_the_schema_implies(kind: str) -> None:
    truth, found = exact(kind), structure(kind)
    assert found.entries(truth) == pytest.approx(truth, abs=1e-3)
    assert (found.intercept > 0) == (kind in WHOLE)
    assert found.within is not None
    known = 2 if kind in WHOLE else 1  # "job" and "home" are 1, or just as much
    assert found.within.shape == (len(truth), len(truth) - known)
    assert found.within @ found.equated(truth) @ found.within.T == pytest.approx(truth, abs=1e-3)
    assert np.count_nonzero(found.zero) == 2 * (28 + 6 + 1 + 28)


def test_a_radius_that_clips_breaks_the_squares_of_indicators() -> None:
    truth, found = exact("clipped"), structure("clipped")
    whole = structure("plain")
    wrong = replace(found, intercept=released("clipped").intercept(), blocks=whole.blocks)
    assert np.abs(wrong.entries(truth) - truth).max() > 1


@pytest.mark.parametrize("field", ["units", "centers", "intercept"])
def test_a_map_that_is_not_the_rows_breaks_what_levels_imply(field: str) -> None:
    truth, found = exact(MAPPED), structure(MAPPED)
    wrong = replace(found, **{field: 1.1 * getattr(found, field)})
    assert np.abs(wrong.entries(truth) - truth).max() > 1


@pytest.mark.parametrize("kind", WHOLE)
def test_sums_of_indicators_are_the_least_squares_ones(kind: str) -> None:
    truth, found = exact(kind), structure(kind)
    noise = np.random.default_rng(3).normal(size=truth.shape)
    noisy = truth + noise + noise.T
    rows = noisy[-1, -1] / found.intercept**2
    block = found.blocks[0]
    units, centers = found.units[block], found.centers[block]

    def residual(sums: np.ndarray) -> np.ndarray:
        base = np.outer(centers, sums) + np.outer(sums, centers) + rows * np.outer(centers, centers)
        implied = np.diag(units * (rows * centers + sums)) - base
        products = noisy[block, -1] - found.intercept * sums
        return np.append((noisy[np.ix_(block, block)] - implied).ravel(), np.sqrt(2) * products)

    at_0 = residual(np.zeros(len(block)))
    slopes = np.stack([residual(one) - at_0 for one in np.eye(len(block))], axis=1)
    best = np.linalg.lstsq(slopes, -at_0)[0]
    assert found._sums(noisy, block, rows) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("kind", WHOLE)
def test_no_level_has_fewer_rows_than_none(kind: str) -> None:
    truth, found = exact(kind), structure(kind)
    noise = np.random.default_rng(3).normal(size=truth.shape) * 50
    noisy = truth + noise + noise.T

    def counts(*, bounded: bool) -> np.ndarray:
        made = found.entries(noisy, bounded=bounded)
        sums, rows = made[:, -1] / found.intercept, made[-1, -1] / found.intercept**2
        block = np.concatenate(found.blocks)
        return sums[block] + rows * found.centers[block]

    assert counts(bounded=False).min() < -1
    assert counts(bounded=True).min() >= -1e-6 * counts(bounded=True).sum()


@pytest.mark.parametrize("kind", WHOLE)
def test_equations_of_counts_and_sums_are_a_projection(kind: str) -> None:
    """Otherwise, alternating projections diverge. They did for a small intercept."""
    found = structure(kind)
    blocks = np.concatenate(found.blocks)
    reported = np.zeros_like(found.zero)
    reported[-1, -1] = reported[blocks, -1] = reported[-1, blocks] = True
    for block in found.blocks:
        reported[np.ix_(block, block)] = True

    def nearest(matrix: np.ndarray) -> np.ndarray:
        return np.where(
            reported, found.entries(np.where(reported, matrix, 0.0), bounded=False), 0.0
        )

    first, second = (symmetric(len(found.units), seed) for seed in (1, 2))
    assert nearest(nearest(first)) == pytest.approx(nearest(first), abs=1e-9)
    left = np.where(reported, first, 0.0) - nearest(first)
    assert np.sum(left * nearest(second)) == pytest.approx(0.0, abs=1e-9)
    corner = np.zeros_like(first)
    corner[-1, -1] = 1 / found.intercept**2
    assert found.of_rows[-1, -1] <= corner[-1, -1]
    oblique = replace(found)
    oblique.__dict__["of_rows"] = corner
    left = np.where(reported, first - oblique.entries(first, bounded=False), 0.0)
    assert (abs(np.sum(left * nearest(second))) > 1) == (kind == MAPPED)


@pytest.mark.parametrize("kind", KINDS)
def test_equations_take_noise_away_and_are_linear(kind: str) -> None:
    found = structure(kind)
    first, second = (symmetric(len(found.units), seed) for seed in (1, 2))
    for noise in (first, second):
        assert np.linalg.norm(found.equated(noise)) < 0.95 * np.linalg.norm(noise)
    both = found.equated(3 * first - second)
    assert both == pytest.approx(3 * found.equated(first) - found.equated(second), abs=1e-9)


def symmetric(order: int, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=(order, order))
    return noise + noise.T


def test_a_missing_value_that_counts_as_other_makes_a_column_whole() -> None:
    town = COLUMNS["town"]
    widths = {}
    for name, more in {
        "as it is": {},
        "with other": {"other": True},
        "whole": {"other": True, "missing": "other"},
    }.items():
        columns = {**COLUMNS, "town": {**town, **more}}
        declared = Schema.parse({"columns": columns})
        asked = {"schema": declared, "epsilon": 1.0, "mechanism": "matrix-laplace"}
        made = dpcov.release(table("plain"), **asked)
        within = getattr(Structure.of(made), "within")  # noqa: B009
        widths[name] = within.shape[0] - within.shape[1]
        moment = open_rows(table("plain"), declared).second_moments()[0]
        truth = moment.units.astype(float) * moment.lattice.step**2
        assert within @ within.T @ truth == pytest.approx(truth, abs=1e-3)
    assert widths == {"as it is": 2, "with other": 2, "whole": 3}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_an_estimate_only_comes_nearer(kind: str, seed: int) -> None:
    truth, found = exact(kind), structure(kind)
    noise = np.random.default_rng(seed).normal(size=truth.shape) * 20
    estimate = truth + noise + noise.T
    fitted = found.fit(estimate, float(np.trace(truth)))
    assert np.linalg.norm(fitted - truth) < 0.8 * np.linalg.norm(estimate - truth)
    assert np.trace(fitted) == pytest.approx(np.trace(truth))
    np.testing.assert_array_equal(fitted, fitted.T)  # a file keeps one triangle
    assert np.linalg.eigvalsh(fitted)[0] > -1e-6 * np.trace(truth)


@pytest.mark.parametrize("kind", KINDS)
def test_an_estimate_is_the_nearest_one_and_settles_before_the_last_round(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control: alternating projections that don't keep what they took end elsewhere."""
    truth, found = exact(kind), structure(kind)
    estimate, trace = truth + 20 * symmetric(len(truth), 1), float(np.trace(truth))
    rounds = []
    plain = projection.project
    monkeypatch.setattr(structures, "project", lambda *a: (rounds.append(1), plain(*a))[1])
    fitted = found.fit(estimate, trace)
    assert 2 < len(rounds) < structures.MAX_PROJECTION_ROUNDS
    nearest = other = estimate
    left, right = np.zeros_like(truth), np.zeros_like(truth)
    for _ in range(1000):  # Dykstra's algorithm
        inside = found.entries(nearest + left)
        left += nearest - inside
        nearest = found._spectrum(inside + right, trace)
        right += inside - nearest
    for _ in range(200):
        other = found._spectrum(found.entries(other), trace)
    assert np.linalg.norm(fitted - nearest) < np.linalg.norm(other - nearest) / 2


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_equations_leave_is_the_nearest_that_keeps_them(kind: str) -> None:
    truth, found = exact(kind), structure(kind)
    assert found.nearest(truth) == pytest.approx(truth, abs=1e-2)
    noise = symmetric(len(truth), 1)
    left = found.nearest(noise)
    assert left == pytest.approx(found.within @ found.equated(noise) @ found.within.T)  # type: ignore[union-attr]
    assert np.linalg.norm(found.nearest(left) - left) < 0.02 * np.linalg.norm(noise)
    assert np.abs(left[found.zero]).max() < 0.2 * np.abs(noise[found.zero]).max()


@pytest.mark.parametrize("kind", ["plain", "persons", "weighted"])
def test_rows_less_their_means_lie_in_the_free_directions(kind: str) -> None:
    truth, found = exact(kind), structure(kind)
    p = len(truth) - 1
    about_means = truth[:p, :p] - np.outer(truth[:p, -1], truth[:p, -1]) / truth[-1, -1]
    basis = found.free(p)
    assert basis.T @ basis == pytest.approx(np.eye(basis.shape[1]))
    assert basis.shape == (p, p - 2)  # the levels of "job" and of "home" add up to a constant
    assert basis @ basis.T @ about_means == pytest.approx(about_means, abs=1e-2)
    assert np.array_equal(replace(found, within=None).free(p), np.eye(p))


def test_no_table_has_fewer_rows_than_none() -> None:
    found = structure("plain")
    assert found.entries(-np.eye(len(found.units)))[-1, -1] == 0
    assert found.entries(-np.eye(len(found.units)), bounded=False)[-1, -1] < 0


@pytest.mark.parametrize("kind", WHOLE)
def test_products_of_levels_of_a_column_follow_from_their_sums(kind: str) -> None:
    """This also holds if noise would move some products below 0 rows."""
    found, truth = structure(kind), exact(kind)
    made = found.entries(truth + 50 * symmetric(len(truth), 3))
    sums, rows = made[:, -1] / found.intercept, made[-1, -1] / found.intercept**2
    for block in found.blocks:
        k, g = found.centers[block], sums[block]
        base = np.outer(k, g) + np.outer(g, k) + rows * np.outer(k, k)
        wanted = np.diag(found.units[block] * (rows * k + g)) - base
        assert made[np.ix_(block, block)] == pytest.approx(wanted, abs=1e-9 * np.trace(truth))


def test_products_of_levels_are_not_below_0() -> None:
    found, noise = structure("plain"), symmetric(len(exact("plain")), 3)
    assert found.entries(noise)[found.positive].min() == 0
    assert found.entries(noise, bounded=False)[found.positive].min() < -1


@pytest.mark.parametrize("kind", KINDS)
def test_many_matrices_at_once_are_as_one_at_a_time(kind: str) -> None:
    found = structure(kind)
    several = np.stack([symmetric(len(found.units), seed) for seed in range(3)])
    for bounded in (True, False):
        each = np.stack([found.entries(one, bounded=bounded) for one in several])
        assert found.entries(several, bounded=bounded) == pytest.approx(each)
    assert found.equated(several) == pytest.approx(np.stack([*map(found.equated, several)]))


@pytest.mark.parametrize("kind", ["plain", MAPPED])
def test_equations_are_simulated_up_to_the_largest_order_where_rows_are_not_mapped(
    kind: str,
) -> None:
    """For mapped rows, the choice is the same as without equations."""
    found = structure(kind)
    for order in (2, MAX_SIMULATED_ORDER, MAX_SIMULATED_ORDER + 1):
        law = GaussianOrthogonal(order, Fraction(100))
        for trace in (0.0, 1e9 * law.detectable):
            plain = simulates(law, trace)
            assert found.simulates(law, trace) == (
                plain or (kind != MAPPED and order <= MAX_SIMULATED_ORDER)
            )
    one = replace(structure(MAPPED), centers=np.eye(len(found.units))[0])
    assert not one.simulates(GaussianOrthogonal(MAX_SIMULATED_ORDER, Fraction(100)), 1e15)


def errors(kind: str, wrong: bool, monkeypatch: pytest.MonkeyPatch) -> float:
    """Return the mean Frobenius error of releases; `wrong` mixes up the columns' places."""
    made = Structure.of
    order = np.random.default_rng(1).permutation(len(schema(kind).features))

    def mixed_up(release: dpcov.Release) -> Structure | None:
        found = made(release)
        assert found is not None
        if kind == MAPPED:
            return replace(found, centers=np.append(found.centers[order], 0.0))
        places = np.ix_(order, order)
        return replace(found, zero=found.zero[places], positive=found.positive[places])

    if wrong:
        monkeypatch.setattr(Structure, "of", mixed_up)
    moment = open_rows(table(kind), schema(kind)).second_moments()[0]
    truth = moment.units.astype(float) * moment.lattice.step**2
    found = []
    for seed in range(6):
        release = denoise(released(kind, seed), generator=simulation_generator(seed))
        exactly = about(release, truth, moment.lattice) if kind == MAPPED else truth
        found.append(np.linalg.norm(release.mapped(release.second_moment()) - exactly))
    return float(np.mean(found))


@pytest.mark.parametrize("kind", ["no intercept", MAPPED])
def test_releases_gain_by_their_levels(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong = errors(kind, False, monkeypatch), errors(kind, True, monkeypatch)
    monkeypatch.setattr(Structure, "of", lambda release: None)
    without = errors(kind, False, monkeypatch)
    assert right < 0.9 * without < 0.9 * wrong


def test_without_levels_or_with_features_mixed_nothing_is_implied() -> None:
    numbers = np.random.default_rng(0).uniform(-1, 1, (100, 3))
    assert Structure.of(dpcov.release(numbers, lower=-1, upper=1, epsilon=1.0)) is None
    mixed = dpcov.release(
        table("plain"), schema=schema("plain"), mechanism="preconditioned", rho=1.0, seed=0
    )
    assert mixed.linear_map is not None
    assert Structure.of(mixed) is None


@pytest.mark.parametrize("step", [0.3, 0.5, 1.0, 1.5])
def test_an_indicator_is_as_many_whole_steps_as_are_within_1(step: float) -> None:
    """If a step is larger than 1, there are no steps and no sum."""
    made = released("plain")
    found = Structure.of(changed(made, lattice=replace(made.lattice, step=step)))
    assert found is not None
    steps = {0.3: 3, 0.5: 2, 1.0: 1}.get(step)
    assert found.intercept == (made.lattice.intercept_units / steps if steps else 0.0)


def test_a_map_without_a_center_moves_no_levels() -> None:
    made = released(MAPPED)
    found = Structure.of(changed(made, center=None))
    assert found is not None
    assert not found.centers.any()
    assert structure(MAPPED).centers.any()


@pytest.mark.parametrize("unit", [0.0, -1.0])
def test_a_map_that_takes_a_feature_away_or_turns_it_implies_nothing(unit: float) -> None:
    made = released(MAPPED)
    assert made.linear_map is not None
    other = made.linear_map.copy()
    other[0, 0] = unit
    assert Structure.of(changed(made, linear_map=other)) is None
