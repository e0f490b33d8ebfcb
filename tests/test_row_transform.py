"""Transformed rows: their bounds, the effect of the directions round, old names."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import fractional_matrix_power

import dpcov
import dpcov.api
from dpcov.api.request import Request
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import ZCDP, Neighbors
from dpcov.denoise import denoise
from dpcov.errors import ReleaseError
from dpcov.mechanisms import RETIRED_MECHANISMS, Gaussian, mechanism_named
from dpcov.mechanisms.additive import Draws, published
from dpcov.mechanisms.row_transform import RowTransform
from dpcov.mechanisms.standardized import BY_COLUMN, BY_DIRECTION
from dpcov.releases import Release
from dpcov.rows.encoder import Encoder
from dpcov.rows.moment import LinearMap, max_transformed_norm
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.rows import Rows
from former_documents import former
from rounds_for_tests import changed

LEVELS = {"a": 5, "b": 8, "c": 6}
each_relation = pytest.mark.parametrize("neighbors", Neighbors)


def narrow(n: int = 4000, seed: int = 0) -> Any:
    """Return (n, 4) rows that fill a tenth of the bounds -1 and 1, far from the midpoints."""
    generator = np.random.default_rng(seed)
    mixed = generator.standard_normal((n, 4)) @ np.diag([0.05, 0.02, 0.01, 0.03])
    return np.clip(mixed + np.array([0.5, -0.4, 0.6, 0.2]), -1, 1)


def source(rows: Any) -> Rows:
    names = tuple(f"x{j}" for j in range(rows.shape[1]))
    return open_rows(rows, Schema.from_bounds(-1.0, 1.0, names))


def queried(rows: Rows, neighbors: Neighbors = Neighbors.ADD_REMOVE, rho: float = 0.5) -> Release:
    return Gaussian()(rows, budget=ZCDP(rho), neighbors=neighbors, entropy=Entropy.seeded(3))


def schema(numbers: int = 2, columns: dict[str, int] = LEVELS, **changed: Any) -> Schema:
    declared: dict[str, Any] = {
        f"x{j}": {"kind": "numeric", "lower": -1, "upper": 1} for j in range(numbers)
    }
    for name, count in columns.items():
        declared[name] = {"kind": "categorical", "levels": [f"{name}{k}" for k in range(count)]}
    return Schema.parse({"columns": declared} | changed)


def people(n: int = 4000) -> Rows:
    """Return two narrow numbers and three related columns of levels, some of them rare."""
    generator = np.random.default_rng(0)
    score = generator.standard_normal(n)
    numbers = [0.5 + 0.05 * score, -0.4 + 0.03 * generator.standard_normal(n)]
    data: dict[str, Any] = {f"x{j}": np.clip(x, -1, 1) for j, x in enumerate(numbers)}
    for name, count in LEVELS.items():
        found = np.floor(np.abs(score + generator.standard_normal(n)) * count / 3).astype(int)
        data[name] = [f"{name}{k}" for k in np.minimum(found, count - 1)]
    return open_rows(pa.table(data), schema())


@given(st.integers(0, 10**6), st.integers(1, 5), st.booleans())
def test_no_row_is_mapped_beyond_the_radius_and_some_come_near(
    seed: int, p: int, ball: bool
) -> None:
    generator = np.random.default_rng(seed)
    matrix = generator.standard_normal((p, p))
    center = generator.uniform(-1, 1, p)
    corners = np.array(list(itertools.product([-1.0, 1.0], repeat=p)))
    rows = np.vstack([corners, generator.uniform(-1, 1, (50, p))])
    radius = np.sqrt(p)
    if ball:  # of a radius below the radius of the corners
        radius = 0.3
        rows *= np.minimum(1, radius / np.linalg.norm(rows, axis=1))[:, None]
    longest = max_transformed_norm(matrix, center, radius)
    lengths = np.linalg.norm((rows - center) @ matrix.T, axis=1)
    assert lengths.max() <= longest * (1 + 1e-12)
    if p == 1:
        furthest = min(1.0, radius) + abs(center[0])
        assert longest == pytest.approx(furthest * abs(matrix[0, 0]))
    if not ball:  # a corner is as far as can be, where axes are only stretched
        stretched = np.diag(np.diag(matrix))
        lengths = np.linalg.norm((corners - center) @ stretched, axis=1)
        assert max_transformed_norm(stretched, center, radius) == pytest.approx(lengths.max())


@given(st.integers(0, 10**6), st.floats(0.5, 4.0))
def test_no_row_of_levels_is_mapped_beyond_the_radius_and_some_reach_it(
    seed: int, radius: float
) -> None:
    """One level of a column or none, and numbers at their bounds; control: any indicators."""
    generator = np.random.default_rng(seed)
    declared = schema(1, {"a": 2, "b": 3}, radius=radius)
    units = np.diag(generator.uniform(0.1, 3, 6))
    center = generator.uniform(-1, 1, 6)
    levels = [np.vstack([np.zeros(count), np.eye(count)]) for count in (2, 3)]
    rows = np.array(
        [[x, *a, *b] for x, a, b in itertools.product([-1.0, 1.0], levels[0], levels[1])]
    )
    shortened = rows * np.minimum(1, radius / np.linalg.norm(rows, axis=1))[:, None]
    applied, longest = RowTransform.reached(units, center, declared)
    lengths = np.linalg.norm((shortened - center) @ applied.matrix(), axis=1)
    assert lengths.max() <= longest * (1 + 1e-12)
    if radius >= np.sqrt(3):
        whole = np.linalg.norm((rows - center) @ units, axis=1).max()
        of_ball = np.linalg.norm(units, 2) * (radius + np.linalg.norm(center))
        assert longest == pytest.approx(min(whole, of_ball))
        assert longest <= max_transformed_norm(units, center, radius)


def test_images_of_rows_are_whole_within_the_longest() -> None:
    rows = source(narrow())
    shape = RowTransform.by_direction(queried(rows), 1.0, simulation_generator(1))
    assert shape is not None
    lattice = rows.lattice().for_transform(shape.longest)
    laws = Gaussian().calibrate(lattice, ZCDP(0.5), Neighbors.ADD_REMOVE)
    at = {"radius": shape.longest, "transform": shape.map, "lattice": lattice}
    moment, draws = rows.second_moments(**at)[0], Draws.of(laws, Entropy.seeded(1))
    made = published(Gaussian(), rows.schema, laws, draws, moment, shape.map)
    assert not made.clipped
    extreme = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    encoder = Encoder(rows.schema, lattice, shape.map)
    columns = [pa.array(column) for column in extreme.T]
    batch = pa.RecordBatch.from_arrays(columns, [f"x{j}" for j in range(4)])
    (block,) = encoder.blocks(batch)
    images = (extreme - shape.map.center) @ shape.map.matrix().T
    assert np.allclose(block[:4].T * lattice.step, images, atol=lattice.step)
    assert np.all(block[4] == lattice.intercept_units)
    shorter = changed(made, lattice=replace(made.lattice, radius=made.lattice.radius / 2))
    assert shorter.clipped


@pytest.mark.parametrize("center", [[0.5, 0.0, -0.25, 0.0], [0.0] * 4])
def test_a_release_states_its_center_if_some_features_are_about_their_midpoints(
    center: list[float],
) -> None:
    rows, shape = source(narrow()), LinearMap.focused(np.eye(4), 4.0, np.array(center))
    lattice = rows.lattice().for_transform(4.0)
    laws = Gaussian().calibrate(lattice, ZCDP(0.5), Neighbors.ADD_REMOVE)
    moment = rows.second_moments(radius=4.0, transform=shape, lattice=lattice)[0]
    draws = Draws.of(laws, Entropy.seeded(1))
    made = published(Gaussian(), rows.schema, laws, draws, moment, shape)
    assert (None if made.center is None else made.center.tolist()) == (
        center if any(center) else None
    )


def test_laws_of_one_lattice_are_not_taken_for_another() -> None:
    lattice = source(narrow()).lattice()
    laws = Gaussian().calibrate(lattice, ZCDP(0.5), Neighbors.ADD_REMOVE)
    with pytest.raises(TypeError, match="one lattice only"):
        replace(laws, again=None).at(lattice)


@pytest.mark.parametrize("power", [0.5, 1.0])
@each_relation
def test_a_clear_pilot_estimates_means_spreads_and_norms(
    neighbors: Neighbors, power: float
) -> None:
    table = narrow()
    look = queried(source(table), neighbors, 1e9)
    shape = RowTransform.by_direction(look, power, simulation_generator(1))
    assert shape is not None
    assert shape.map.center == pytest.approx(table.mean(axis=0), abs=1e-4)
    wanted = fractional_matrix_power(np.cov(table.T, bias=True), -power / 2)
    assert shape.map.matrix() == pytest.approx(
        wanted / np.linalg.norm(wanted, -2), rel=0.02, abs=1e-3
    )
    images = (table - shape.map.center) @ shape.map.matrix().T
    lengths = np.linalg.norm(images, axis=1)
    assert shape.typical == pytest.approx(np.sqrt(np.mean(lengths**2)), rel=0.01)
    assert lengths.max() < shape.longest


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("rows", "deviation"), [(500.0, 1.0), (500.0, 100.0), (0.01, 1e-3)])
def test_directions_and_numbers_of_rows_are_taken_no_smaller_than_the_noise(
    monkeypatch: pytest.MonkeyPatch, known: bool, rows: float, deviation: float
) -> None:
    neighbors = Neighbors.REPLACE_ONE if known else Neighbors.ADD_REMOVE
    look = queried(source(narrow(n=300)), neighbors, 9.0)
    p, t = 4, look.intercept()
    count = 300.0 if known else max(rows, 2 * deviation / t**2, 1.0)
    means = np.array([0.3, -0.2, 0.5, 0.1]) * rows / count
    mixed = np.array([[2.0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0.1, 0], [0, 0, 0, 0]])
    moment = np.zeros((5, 5))
    moment[:p, :p] = mixed @ mixed.T + count * np.outer(means, means)
    moment[:p, -1] = t * count * means
    moment[-1, -1] = rows * t**2
    law = SimpleNamespace(frobenius_squared=25 * deviation**2, dimension=5)
    monkeypatch.setattr("dpcov.mechanisms.row_transform.shown", lambda *_: (moment, law))
    shape = RowTransform.by_direction(look, 1.0, simulation_generator(1))
    assert shape is not None
    spread = mixed @ mixed.T + deviation * np.sqrt(5) * np.eye(p)
    wanted = fractional_matrix_power(spread / np.linalg.norm(spread, 2), -0.5)
    assert shape.map.matrix() == pytest.approx(wanted, rel=1e-5, abs=1e-7)
    assert shape.map.center == pytest.approx(means)
    typical = np.sqrt(np.trace(wanted @ spread @ wanted) / count)
    assert shape.typical == pytest.approx(min(typical, shape.longest), rel=1e-5)
    assert shape.longest == max_transformed_norm(shape.map.matrix(), shape.map.center, 2.0)
    moment[:p, -1] *= 100
    far = RowTransform.by_direction(look, 1.0, simulation_generator(1))
    assert far is not None
    assert np.abs(far.map.center) == pytest.approx(np.minimum(1, 100 * np.abs(means)))


def test_levels_exclude_each_other_in_what_is_denoised_unless_directions_are_mixed() -> None:
    rows = people()
    owners = np.array([feature.column for feature in rows.schema.features])
    apart = (owners[:, None] == owners) & ~np.eye(len(owners), dtype=bool)

    def left(mechanism: Any) -> float:
        made = mechanism(
            rows, budget=ZCDP(0.02), neighbors=Neighbors.ADD_REMOVE, entropy=Entropy.seeded(1)
        )
        moment = denoise(made, generator=simulation_generator(1)).second_moment()
        return float(np.abs(moment[:-1, :-1][apart]).max() / np.trace(moment))

    assert left(BY_COLUMN) < 0.2 * left(BY_DIRECTION)


@pytest.mark.parametrize("damage", ["larger", "none"])
def test_an_intercept_that_no_map_explains_is_refused(tmp_path: Any, damage: str) -> None:
    path = tmp_path / "a.json"
    asked: dict[str, Any] = {"mechanism": "standardized", "rho": 0.5, "seed": 4}
    document = former(dpcov.release(narrow(), lower=-1, upper=1, **asked))
    if damage == "larger":
        document["lattice"]["intercept_units"] = 2**19
    else:
        document["lattice"]["intercept_units"] = 0
    path.write_text(json.dumps(document))
    with pytest.raises(ReleaseError):
        Release.load(path)


@pytest.mark.parametrize("name", RETIRED_MECHANISMS)
def test_an_old_name_takes_what_took_its_place_and_says_so(name: str) -> None:
    found = mechanism_named(name, radius_share=0.2)
    by = BY_DIRECTION if name == "shaped-ladder" else BY_COLUMN
    assert found == replace(by, radius_share=0.2)
    request = Request(lower=-1, upper=1, rho=0.5, mechanism=name)
    with pytest.warns(UserWarning, match=f"{name} is no more: standardized takes its place"):
        ready = dpcov.api.prepare(narrow(9), request)
    assert ready.mechanism == by
