"""Quadratic forms of the exact second moment: integers, whatever the vectors and the size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov.papers.quadratic_forms import quadratic_forms
from dpcov.rows.moment import Lattice, SecondMoment


def moment(units):
    units = np.array(units, dtype=object)
    return SecondMoment(units, Lattice(len(units), 1.0), 1)


def exactly(units, vector):
    """Return floor(v'Cv) in Python integers, with v truncated to multiples of 2^-40."""
    fixed = [int(x * 2**40) for x in vector]
    total = sum(
        a * c * b
        for a, row in zip(fixed, units, strict=True)
        for c, b in zip(row, fixed, strict=True)
    )
    return total >> 80


integers = st.integers(-(2**100), 2**100)


@given(
    st.integers(1, 5).flatmap(
        lambda d: st.tuples(
            st.lists(st.lists(integers, min_size=d, max_size=d), min_size=d, max_size=d),
            st.lists(st.floats(-1, 1), min_size=d, max_size=d),
        )
    )
)
def test_forms_are_those_of_python_integers(case):
    units, vector = case
    assert quadratic_forms(moment(units), np.array([vector])) == [exactly(units, vector)]


def test_many_vectors_at_once_are_each_alone():
    rng = np.random.default_rng(1)
    rows = rng.integers(-(2**20), 2**20, (50, 6)).astype(object)
    sums = moment(rows.T @ rows)
    vectors = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    together = quadratic_forms(sums, vectors)
    assert together == [quadratic_forms(sums, v[None])[0] for v in vectors]
    assert sum(together) == pytest.approx(sums.trace(), rel=1e-10)


def test_partial_sums_stay_exact_where_they_are_largest():
    d = 1024
    units = np.full((d, d), (2**62 - 1), dtype=object)
    vector = np.full(d, (1 - 2.0**-40))
    assert quadratic_forms(moment(units), vector[None]) == [
        (d**2 * (2**62 - 1) * (2**40 - 1) ** 2) >> 80
    ]
