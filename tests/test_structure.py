"""What the levels of a schema imply for every second moment, and what estimates gain by it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.core.entropy import simulation_generator
from dpcov.denoise import denoise
from dpcov.denoise.structure import Structure
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
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
        more["mechanism"], epsilon = "standardized", 30.0  # so that the look tells the means
    more.setdefault("mechanism", "matrix-laplace")
    return dpcov.release(table(kind), schema=declared, epsilon=epsilon, seed=seed, **more)


def exact(kind: str) -> np.ndarray:
    moment = open_rows(table(kind), schema(kind)).second_moments()[0]
    truth = moment.units.astype(float) * moment.lattice.step**2
    return truth if kind != MAPPED else about(released(kind), truth, moment.lattice)


def about(release: dpcov.Release, moment: np.ndarray, lattice: Lattice) -> np.ndarray:
    """What a moment becomes under the release's map, with the release's intercept."""
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
    """Or else alternating with another one diverges: it did, where the intercept is small."""
    found = structure(kind)
    blocks = np.concatenate(found.blocks)
    told = np.zeros_like(found.zero)
    told[-1, -1] = told[blocks, -1] = told[-1, blocks] = True
    for block in found.blocks:
        told[np.ix_(block, block)] = True

    def nearest(matrix: np.ndarray) -> np.ndarray:
        return np.where(told, found.entries(np.where(told, matrix, 0.0), bounded=False), 0.0)

    first, second = (symmetric(len(found.units), seed) for seed in (1, 2))
    assert nearest(nearest(first)) == pytest.approx(nearest(first), abs=1e-9)
    left = np.where(told, first, 0.0) - nearest(first)
    assert np.sum(left * nearest(second)) == pytest.approx(0.0, abs=1e-9)
    corner = np.zeros_like(first)
    corner[-1, -1] = 1 / found.intercept**2
    assert found.of_rows[-1, -1] <= corner[-1, -1]
    oblique = replace(found)
    oblique.__dict__["of_rows"] = corner
    left = np.where(told, first - oblique.entries(first, bounded=False), 0.0)
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


def errors(kind: str, wrong: bool, monkeypatch: pytest.MonkeyPatch) -> float:
    """Mean Frobenius error of denoised releases; with the columns' places mixed up if `wrong`."""
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
