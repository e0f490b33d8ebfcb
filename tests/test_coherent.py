"""Means and covariances that a table of the schema can have."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.denoise import denoise
from dpcov.denoise.structure import coherent_moments, nearest_with_blocks
from dpcov.estimate import Estimate
from dpcov.releases import Release
from dpcov.rows.schema import Categorical, Numeric, Schema

TABLES = 200  # 40 of them in the fast tests


def random_column(generator: np.random.Generator, rows: int) -> tuple[np.ndarray, dict]:
    """Draw a column of a random kind with a random rule for missing cells."""
    kind = str(generator.choice(["number", "count", "flag", "categorical", "integer"]))
    declared: dict = {"kind": kind}
    if kind == "categorical":
        levels = [f"l{j}" for j in range(generator.integers(1, 7))]
        declared |= {"levels": levels, "other": bool(generator.integers(2))}
        rules = ["none", "zeros", "level"] + ["other"] * declared["other"]
        shares = generator.dirichlet(np.full(len(levels) + 1, 0.4))
        declared["missing"] = str(generator.choice(rules))
        return generator.choice([*levels, "another"], rows, p=shares), declared
    if kind == "flag":
        values = (generator.random(rows) < generator.beta(0.3, 0.6)).astype(float)
    elif kind == "count":
        values = np.minimum(generator.poisson(2 * generator.gamma(1), rows), 20).astype(float)
        declared["upper"] = 20
    else:
        center, scale = generator.uniform(0, 10), generator.gamma(1)
        values = np.clip(np.rint(generator.normal(center, scale, rows)), 0, 10)
        declared |= {"lower": 0, "upper": 10}
    declared["missing"] = str(generator.choice(["none", "pairwise", "midpoint", "level"]))
    missing = (generator.random(rows) < 0.2) & (declared["missing"] != "none")
    return np.where(missing, np.nan, values), declared


def random_release(seed: int) -> Release:
    generator = np.random.default_rng(seed)
    rows, count = int(generator.integers(20, 3000)), int(generator.integers(1, 7))
    drawn = {f"v{j}": random_column(generator, rows) for j in range(count)}
    declared = Schema.parse(
        {"version": 3, "columns": {name: one for name, (_, one) in drawn.items()}}
    )
    frame = pd.DataFrame({name: values for name, (values, _) in drawn.items()})
    epsilon = float(generator.choice([0.1, 0.3, 1, 3, 10]))
    return dpcov.release(frame, schema=declared, epsilon=epsilon, seed=seed)


def faults(made: Release, mean: np.ndarray, covariance: np.ndarray) -> set[str]:
    """Names of the properties that means and covariances of encoded variables lack."""
    found = set()
    lower = np.array([0.0 if one.is_indicator else -1.0 for one in made.schema.variables])
    if np.any(mean < lower - 1e-12) or np.any(mean > 1 + 1e-12):
        found.add("bounds")
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    units = np.outer(deviations, deviations)
    correlation = np.divide(covariance, units, out=np.eye(len(mean)), where=units > 1e-12)
    if np.linalg.eigvalsh(correlation)[0] < -1e-9:
        found.add("semidefinite")
    for name, column in made.schema.encoded_columns.items():
        at = [j for j, one in enumerate(made.schema.variables) if one.column == name]
        block = covariance[np.ix_(at, at)]
        if isinstance(column, Categorical):
            total = mean[at].sum()
            if total > 1 + 1e-12 or (column.is_full and total < 1 - 1e-12):
                found.add("sum of shares")
            if not np.allclose(block, np.diag(mean[at]) - np.outer(mean[at], mean[at]), atol=1e-12):
                found.add("levels")
        elif column.reading == "flag":
            most = 1 - mean[at[0]] ** 2
            exact = column.missing in ("none", "pairwise")
            if block[0, 0] > most + 1e-12 or (exact and block[0, 0] < most - 1e-12):
                found.add("flags")
    return found


def coherent_tables(seeds: range) -> set[str]:
    """Assert that releases are coherent; return the faults of the estimates before."""
    before: set[str] = set()
    for seed in seeds:
        made = random_release(seed)
        if made.not_released is None:
            encoded = (made.mean() - made.centers) / made.scales
            covariance = made.covariance() / np.outer(made.scales, made.scales)
            assert faults(made, encoded, covariance) == set(), seed
            assert np.linalg.eigvalsh(made.correlation())[0] > -1e-9
            before |= faults(made, *Estimate.of(made).raw)
    return before


FAULTS = {"sum of shares", "levels", "flags"}


def test_releases_of_random_tables_are_coherent() -> None:
    assert coherent_tables(range(40)) >= FAULTS  # control: the estimates are not


@pytest.mark.slow
def test_releases_of_many_random_tables_are_coherent() -> None:
    assert coherent_tables(range(TABLES)) >= FAULTS | {"bounds"}


def test_releases_of_groups_are_coherent() -> None:
    generator = np.random.default_rng(0)
    columns = {
        "site": {"kind": "categorical", "levels": ["n", "s"], "missing": "none"},
        "ward": {"kind": "categorical", "levels": ["a", "b", "c"], "other": True},
        "ill": {"kind": "flag", "missing": "none"},
    }
    columns["ward"]["missing"] = "other"
    declared = Schema.parse({"version": 3, "by": "site", "columns": columns})
    frame = pd.DataFrame(
        {
            "site": generator.choice(["n", "s"], 900),
            "ward": generator.choice(["a", "b", "c"], 900, p=[0.9, 0.09, 0.01]),
            "ill": generator.random(900) < 0.03,
        }
    )
    by_level = dpcov.release_by(frame, schema=declared, epsilon=0.5, seed=0)
    for level in ("n", "s"):
        made = by_level[level]
        share, variance = made.mean()[-1], made.covariance()[-1, -1]
        assert made.mean()[:4].sum() == pytest.approx(1.0, abs=1e-12)
        assert variance == pytest.approx(share * (1 - share), abs=1e-12)


def test_coherent_moments_stay_as_they_are() -> None:
    made = random_release(3)
    mean, covariance = Estimate.of(made).coherent
    again = coherent_moments(made.schema, mean, covariance, np.ones(len(mean)))
    assert np.allclose(again[0], mean, atol=1e-12)
    assert np.allclose(again[1], covariance, atol=1e-9)


def test_moments_of_a_table_stay_as_they_are() -> None:
    """A coherent truth is a fixed point, so the projection moves estimates towards it."""
    generator = np.random.default_rng(1)
    level = generator.choice(4, 500, p=[0.5, 0.3, 0.15, 0.05])
    rows = np.column_stack(
        [
            np.eye(4)[level][:, :3],
            2 * (generator.random(500) < 0.1) - 1,
            generator.uniform(-1, 1, 500),
        ]
    )
    columns = {
        "c": {"kind": "categorical", "levels": ["a", "b", "c"], "missing": "zeros"},
        "f": {"kind": "flag", "missing": "none"},
        "x": {"kind": "number", "lower": 0, "upper": 1, "missing": "none"},
    }
    declared = Schema.parse({"version": 3, "columns": columns})
    mean, covariance = rows.mean(axis=0), np.cov(rows, rowvar=False, bias=True)
    found = coherent_moments(declared, mean, covariance, np.ones(5))
    assert np.allclose(found[0], mean, atol=1e-12)
    assert np.allclose(found[1], covariance, atol=1e-9)


def test_shares_with_more_noise_change_more() -> None:
    columns = {"c": {"kind": "categorical", "levels": ["a"], "other": True, "missing": "other"}}
    declared = Schema.parse({"version": 3, "columns": columns})
    found, _ = coherent_moments(declared, np.array([0.7, 0.5]), np.eye(2) / 4, np.array([1.0, 3.0]))
    assert np.allclose(found, [0.68, 0.32])


def test_a_whole_number_has_at_least_the_variance_of_two_neighbours() -> None:
    columns = {"n": {"kind": "count", "upper": 10, "missing": "none"}}
    declared = Schema.parse({"version": 3, "columns": columns})
    mean = np.array([(2.4 - 5) / 5])
    _, covariance = coherent_moments(declared, mean, np.array([[1e-4]]), np.ones(1))
    assert 25 * covariance[0, 0] == pytest.approx(0.24)


def test_the_nearest_matrix_keeps_its_blocks_and_is_semidefinite() -> None:
    generator = np.random.default_rng(2)
    noisy = generator.standard_normal((6, 6))
    blocks = [(np.array([0, 1]), np.array([[1.0, -1.0], [-1.0, 1.0]]))]
    blocks += [(np.array([j]), np.array([[0.5]])) for j in range(2, 6)]
    found = nearest_with_blocks((noisy + noisy.T) / 2, blocks, np.ones(6))
    assert np.linalg.eigvalsh(found)[0] > -1e-12
    assert np.allclose(found[:2, :2], blocks[0][1])
    assert np.allclose(np.diag(found)[2:], 0.5)
    assert np.allclose(found[0], -found[1])


def test_without_denoising_the_estimate_stays_as_it_is() -> None:
    made = denoise(random_release(5), "none")
    mean, covariance = Estimate.of(made).raw
    assert np.allclose((made.mean() - made.centers) / made.scales, mean)
    assert np.allclose(made.covariance() / np.outer(made.scales, made.scales), covariance)


def test_columns_of_numbers_are_not_changed() -> None:
    generator = np.random.default_rng(4)
    columns = {name: {"kind": "number", "lower": 0, "upper": 1} for name in "abc"}
    declared = Schema.parse(
        {"version": 3, "defaults": {"missing": {"numbers": "none"}}, "columns": columns}
    )
    assert all(isinstance(one, Numeric) for one in declared.encoded_columns.values())
    table = pd.DataFrame(generator.uniform(0, 1, (3000, 3)), columns=list("abc"))
    made = dpcov.release(table, schema=declared, epsilon=3.0, seed=0)
    assert np.array_equal(Estimate.of(made).coherent[1], Estimate.of(made).raw[1])
