"""Sensitivities of the pilot query under replace-one: no change exceeds them, one nearly does."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from dpcov.core.privacy import Neighbors, Unit, exact
from dpcov.rows.moment import Lattice
from dpcov.rows.pilot_sensitivity import pilot_sensitivities
from dpcov.rows.schema import Schema

ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
SHAPES = list(itertools.product((1, 2, 3, 4, 6), (0.4, 1.0, None), (0.1, 0.3, 1.0)))


def lattice_of(p, radius, intercept, **more):
    """Return a lattice of p features, by default with the radius that a schema has."""
    return Lattice(p, math.sqrt(p) if radius is None else radius, intercept, **more)


def changes(z, y, lattice, z_intercept=None, y_intercept=None):
    """Return the squared l2 and the l1 change, as integers, if the row y replaces the row z."""
    t = lattice.intercept_units
    t, s = (t if one is None else one for one in (z_intercept, y_intercept))
    found = [int(a) ** 2 - int(b) ** 2 for a, b in zip(z, y, strict=True)]
    found += [t * int(a) - s * int(b) for a, b in zip(z, y, strict=True)]
    found.append(t * t - s * s)
    return sum(one * one for one in found), sum(map(abs, found))


def within(rows, lattice):
    """Scale rows, (2, p), so that they are in the ball and in the cube of the lattice."""
    u = min(lattice.side, math.ceil(1 / exact(lattice.step)))
    rows = np.clip(rows, -u, u)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.trunc(rows * np.minimum(1, (lattice.side - 1) / np.maximum(norms, 1)))


def largest_change(lattice, power, seed=0, starts=8):
    """Return the largest l1 change (power 1) or squared l2 change (2) that a search finds."""
    rng, p, t = np.random.default_rng(seed), lattice.features, lattice.intercept_units
    q = lattice.side
    u = min(q, math.ceil(1 / exact(lattice.step))) / q
    t = t / q

    def minus(v):
        z, y = v[:p], v[p:]
        if power == 1:
            return -np.sum(np.abs(z * z - y * y) + t * np.abs(z - y))
        return -np.sum((z * z - y * y) ** 2 + t * t * (z - y) ** 2)

    inside = [
        {"type": "ineq", "fun": lambda v, half=half: 1 - np.sum(v[half] ** 2)}
        for half in (slice(0, p), slice(p, None))
    ]
    best = 0
    for start in range(starts):
        first = rng.uniform(-u, u, 2 * p)
        if start % 2:
            first[p:] = -first[:p] * rng.random()
        found = minimize(minus, first, bounds=[(-u, u)] * 2 * p, constraints=inside, method="SLSQP")
        z, y = within(found.x.reshape(2, p) * q, lattice)
        best = max(best, changes(z, y, lattice)[2 - power])
    return best


@pytest.mark.parametrize(("p", "radius", "intercept"), SHAPES)
def test_the_bounds_hold_and_are_nearly_reached(p, radius, intercept):
    lattice = lattice_of(p, radius, intercept, equal_intercepts=True)
    squared, absolute = pilot_sensitivities(lattice, SWAP)
    found_squared, found_absolute = largest_change(lattice, 2), largest_change(lattice, 1)
    assert found_squared <= squared
    assert found_absolute <= absolute
    assert math.sqrt(found_squared / squared) >= 0.93
    assert found_absolute / absolute >= 0.93
    if radius is None and intercept == 0.3:  # what a schema has by default
        assert math.sqrt(found_squared / squared) >= 0.99
        assert found_absolute / absolute >= 0.99


@pytest.mark.parametrize("p", [2, 4, 11])
def test_control_a_bound_that_is_three_percent_smaller_is_exceeded(p):
    lattice = lattice_of(p, None, 0.3, equal_intercepts=True)
    assert largest_change(lattice, 1) > 0.97 * pilot_sensitivities(lattice, SWAP)[1]
    assert largest_change(lattice, 2) > 0.97**2 * pilot_sensitivities(lattice, SWAP)[0]


@given(
    st.sampled_from(SHAPES),
    st.lists(st.floats(-1, 1), min_size=12, max_size=12),
    st.tuples(st.floats(0, 1), st.floats(0, 1)),
    st.booleans(),
)
def test_no_pair_of_rows_exceeds_the_bounds(shape, cells, weights, stretched):
    p, radius, intercept = shape
    rows = np.array(cells).reshape(2, 6)[:, :p]
    if stretched:
        rows = np.sign(rows)
    for equal in (True, False):
        lattice = lattice_of(p, radius, intercept, equal_intercepts=equal)
        z, y = within(rows * lattice.side, lattice)
        t = lattice.intercept_units
        least = (t, t) if equal else (math.floor(w * t) for w in weights)
        found = changes(z, y, lattice, *least)
        assert all(a <= b for a, b in zip(found, pilot_sensitivities(lattice, SWAP), strict=True))


def test_persons_can_have_different_numbers_of_rows():
    rows = lattice_of(1, None, 1.0, equal_intercepts=True)
    persons = lattice_of(1, None, 1.0, unit=Unit("id", 3), equal_intercepts=True)
    of_row, of_person = (pilot_sensitivities(one, SWAP) for one in (rows, persons))
    added = pilot_sensitivities(persons, ADD)
    assert of_person[0] == max(9 * of_row[0], added[0])
    assert of_person[1] == max(3 * of_row[1], added[1])
    assert added[1] > 3 * of_row[1]  # the number of rows costs more than an exchange


def test_only_a_schema_without_weights_promises_equal_intercepts():
    columns = {"x": {"kind": "numeric", "lower": 0, "upper": 1}}
    plain = Schema.parse({"columns": columns})
    weighted = Schema.parse({"columns": columns, "weight": {"column": "w", "maximum": 2}})
    assert Lattice.of(plain).equal_intercepts
    assert not Lattice.of(weighted).equal_intercepts
    assert not Lattice(1, 1.0, 0.3).equal_intercepts
    worst = pilot_sensitivities(Lattice.of(weighted), SWAP)
    exact_one = pilot_sensitivities(Lattice.of(plain), SWAP)
    t = Lattice.of(plain).intercept_units
    zero, full = np.zeros(1), np.array([Lattice.of(plain).side])
    found = changes(full, zero, Lattice.of(plain), t, 0)  # a weight of 0 replaces a full one
    assert found[1] > exact_one[1]
    assert found[1] <= worst[1]
    assert found[0] <= worst[0]
