"""Maps that cap features: exact, blind to other rows, and no row within reach is touched."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dpcov.rows.moment import FINE_UNITS, LinearMap
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows

NAMES = ("a", "b", "c")
SCHEMA = Schema.from_bounds(-1.0, 1.0, NAMES, intercept=0.0)
SIZES = np.array([1.0, 2.0**-15, 2.0**-38])


def random_map(seed=0):
    """Return a map that makes rows of these sizes round."""
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
    return turn / SIZES


def moment(rows, shape, radius=4.0):
    made = open_rows(rows, SCHEMA).second_moments(radius=radius, transform=shape)[0]
    return made.units.astype(float) * made.lattice.step**2


def test_the_caps_are_those_that_rows_within_reach_keep():
    matrix = random_map()
    shape = LinearMap.focused(matrix, 256.0)
    sphere = np.random.default_rng(1).normal(size=(3, 20_000))
    sphere *= 256.0 / np.linalg.norm(sphere, axis=0)
    largest = np.minimum(1, np.abs(np.linalg.inv(matrix) @ sphere).max(axis=1))
    caps = 2.0 ** -shape.halvings.astype(float)
    assert (largest <= caps).all()
    assert (largest > 0.45 * caps).all()
    assert shape.halvings[0] == 0
    assert shape.halvings[2] > 25


def test_small_rows_keep_their_digits_only_under_a_focused_map():
    rows = np.random.default_rng(2).normal(size=(5000, 3)) * SIZES / 8
    matrix = random_map()
    exact = matrix @ rows.T @ rows @ matrix.T
    for shape, right in (
        (LinearMap.focused(matrix, 256.0), True),
        (LinearMap.rounded(matrix), False),
    ):
        off = np.abs(moment(rows, shape) - exact).max() / exact.max()
        assert (off < 1e-4) == right


@pytest.mark.parametrize("diagonal", [False, True])
def test_the_map_that_is_stated_is_the_map_that_is_applied_to_the_last_bit(diagonal):
    matrix = random_map()
    shape = LinearMap.focused(np.diag(np.diag(matrix)) if diagonal else matrix, 256.0)
    assert (shape.units is not None) == diagonal
    generator = np.random.default_rng(3)
    fine = generator.integers(-FINE_UNITS, FINE_UNITS, (3, 50), endpoint=True).astype(float)
    fine[:, 0] = FINE_UNITS
    image = shape.apply(fine)
    stated = shape.matrix()
    for i in range(3):
        for k in range(50):
            terms = (
                Fraction(stated[i, j]) * Fraction(int(fine[j, k]), 2 ** int(shape.halvings[j]))
                for j in range(3)
            )
            assert image[i, k] == float(sum(terms))


@pytest.mark.parametrize("size", [1e-290, 2.0**-52, 1.0, 3e7, 1e250])
def test_images_are_those_of_ldexp(size):
    shape = LinearMap.rounded(random_map() * size)
    fine = np.rint(np.random.default_rng(4).uniform(-1, 1, (shape.integers.shape[1], 50)) * 2.0**40)
    high = np.floor(fine * 2.0**-20)
    units = (shape.integers @ high) * 2.0**20 + shape.integers @ (fine - high * 2.0**20)
    assert np.array_equal(shape.apply(fine), np.ldexp(units, -shape.shifts[:, None]))


def test_a_row_beyond_the_caps_keeps_its_certificate_and_others_their_image():
    shape = LinearMap.focused(random_map(), 256.0)
    near = np.random.default_rng(4).normal(size=(300, 3)) * SIZES / 8
    far = np.array([[1.0, 1.0, 1.0], [np.nan, np.inf, -1.0], [0.0, 0.0, 1e300]])
    alone, both = moment(near, shape), moment(np.vstack([near, far]), shape)
    added = both - alone
    assert 0 < np.trace(added) <= 3 * 4.0**2
    np.testing.assert_array_equal(added, sum(moment(row[None], shape) for row in far))


def test_a_center_is_taken_from_rows_after_their_bounds_and_missing_values_apply():
    center = np.array([0.25, -0.5, 0.125])
    shape = LinearMap.focused(np.eye(3), 4.0, center)
    rows = np.array([[0.5, 0.5, 0.5], [np.nan, 7.0, -1.0]])
    inside = np.array([[0.5, 0.5, 0.5], [0.0, 1.0, -1.0]]) - center
    np.testing.assert_allclose(moment(rows, shape), inside.T @ inside, atol=1e-4)
    assert (LinearMap.focused(np.eye(3), 4.0).halvings == 0).all()
    assert (shape.halvings == -1).all()


def test_texts_and_levels_go_through_caps_too():
    schema = Schema.parse(
        {
            "columns": {
                "g": {"kind": "categorical", "levels": ["u", "v"]},
                "x": {"kind": "numeric", "lower": -1, "upper": 1},
            },
            "intercept": 0.0,
        }
    )
    rows = open_rows(pa.table({"g": ["u", "v", "u"], "x": [1e-9, -1e-9, 1.0]}), schema)
    width = len(schema.features)
    shape = LinearMap.focused(np.eye(width) * 2.0**20, 4.0)
    made = rows.second_moments(radius=8.0, transform=shape)[0]
    assert made.trace() > 0
    assert (shape.halvings > 10).all()


@pytest.mark.parametrize("matrix", [np.zeros((2, 2)), np.full((2, 2), 1.0), np.eye(2) * 1e-300])
def test_a_map_that_cannot_be_undone_caps_nothing(matrix):
    assert (LinearMap.focused(matrix, 256.0).halvings <= 0).all()
