"""Eigenvectors on a complement: roots in many digits, their number of steps, equal eigenvalues."""

import mpmath
import numpy as np
import pytest

from dpcov.papers.samplers import complement
from dpcov.papers.samplers.complement import (
    Complement,
    _short_step,
    _two_poles,
    secular_roots,
    without,
)

EPS = np.finfo(float).eps


def spectra(q, rng):
    """Return distinct ascending poles, near and far from each other."""
    return {
        "even": np.arange(q, dtype=float),
        "power law": np.logspace(-7, 0, q),
        "tiny": 1 + 2e-15 * np.arange(1, q + 1),
        "mixed": np.cumsum(10 ** rng.uniform(-12, 0, q)),
        "negative": -np.logspace(3, -3, q),
        "pairs": np.sort(np.concatenate([np.arange(q // 2), np.arange(q - q // 2) + 1e-9])),
    }


def weights(q, rng):
    """Return squares of unit vectors without zeros."""
    found = {
        "even": np.ones(q),
        "tiny": 10 ** rng.uniform(-14, 0, q),
        "peak": np.where(np.arange(q) == q // 2, 1, 2e-15),
        "falling": np.logspace(0, -14, q),
        "rising": np.logspace(-14, 0, q),
        "alternating": np.resize([1.0, 1e-8], q),
    }
    return {name: u / np.linalg.norm(u) for name, u in found.items()}


CASES = [
    (w, u, q)
    for q in (2, 3, 7, 20, 300)
    for w in spectra(2, np.random.default_rng(0))
    for u in weights(2, np.random.default_rng(0))
]


def case(w, u, q):
    rng = np.random.default_rng(q)
    return spectra(q, rng)[w], weights(q, rng)[u]


def secular(w, z, origin, offset, power=1):
    """Return sum_j z_j / (w_j - w_origin - offset)^power in many digits."""
    with mpmath.workdps(60):
        pole = mpmath.mpf(float(w[origin]))
        terms = zip(w.tolist(), z.tolist(), strict=True)
        return sum(mpmath.mpf(b) / (mpmath.mpf(a) - pole - offset) ** power for a, b in terms)


@pytest.mark.parametrize(("w", "u", "q"), [case for case in CASES if case[2] <= 20])
def test_roots_are_those_of_many_digits_seen_from_the_nearer_pole(w, u, q):
    w, u = case(w, u, q)
    z = u**2
    origin, offset = secular_roots(w, z)
    for gap in range(q - 1):
        assert origin[gap] in (gap, gap + 1)
        width = w[gap + 1] - w[gap]
        assert 0 < offset[gap] * (1 if origin[gap] == gap else -1) <= width / 2
        middle = mpmath.mpf(float(offset[gap]))
        slope = secular(w, z, origin[gap], middle, power=2)
        slack = 4 * EPS * (abs(middle) + 1 / mpmath.sqrt(slope))
        assert secular(w, z, origin[gap], middle - slack) < 0
        assert secular(w, z, origin[gap], middle + slack) > 0


@pytest.mark.parametrize("q", [2, 3, 7, 20, 300])
def test_roots_take_four_steps_on_average_and_some_tens_at_most(q, monkeypatch):
    calls = []
    original = complement._other_terms

    def counted(*arguments):
        calls.append(len(arguments[2]))
        return original(*arguments)

    monkeypatch.setattr(complement, "_other_terms", counted)
    counts = {}
    for w, u, size in CASES:
        if size == q:
            calls.clear()
            poles, vector = case(w, u, q)
            secular_roots(poles, vector**2)
            counts[w, u] = len(calls) - 1, sum(calls[1:]) / (q - 1)
            assert min(calls) > 0
    assert max(steps for steps, _ in counts.values()) <= 45
    assert np.mean([mean for _, mean in counts.values()]) < 4


POLES = [
    (constant, near, far, gap)
    for constant in (-1e6, -3.0, -1e-3, 0.0, 1e-3, 2.0, 1e6)
    for near, far in ((1.0, 1.0), (1e-12, 1.0), (1.0, 1e-12), (0.3, 7.0))
    for gap in (1.0, 1e-9, 40.0)
]


def exact_root(constant, near, far, gap):
    """Return the root of constant - near / x + far / (gap - x), in many digits."""
    with mpmath.workdps(80):
        c, n, f, g = (mpmath.mpf(value) for value in (constant, near, far, gap))
        linear = c * g + n + f
        exact = 2 * n * g / (linear + mpmath.sqrt(linear**2 - 4 * c * n * g))
        assert abs(c - n / exact + f / (g - exact)) < mpmath.mpf(10) ** -30
    return exact


def test_two_poles_and_a_constant_have_the_root_of_many_digits():
    constant, near, far, gap = np.array(POLES).T
    found = _two_poles(near, far, constant, gap)
    np.testing.assert_allclose(found, [float(exact_root(*poles)) for poles in POLES], rtol=1e-14)
    assert (found <= gap).all()


@pytest.mark.parametrize("share", [-0.4, -1e-4, -1e-9, 1e-12, 1e-6, 0.4])
def test_a_short_step_has_the_digits_of_the_value_and_the_slope(share):
    for constant, near, far, gap in POLES:
        with mpmath.workdps(80):
            exact = exact_root(constant, near, far, gap)
            y = exact + share * min(exact, gap - exact)
            beyond = gap - y
            f = constant - near / y + far / beyond
            derivative = near / y**2 + far / beyond**2
            given = [np.array([float(value)]) for value in (f, derivative, constant, y, beyond)]
            step = float(exact - y)
        assert _short_step(*given)[0] == pytest.approx(step, rel=1e-12, abs=0)


@pytest.mark.parametrize("share", [1e-3, 0.1, 1, 10, 1e3])
@pytest.mark.parametrize("gap", [1e-9, 1e-12, 1e-14, 2e-15])
def test_vectors_stay_orthogonal_to_what_is_taken_out_beside_a_pair_of_poles(gap, share):
    w = np.array([0.0, 1.0, 1 + gap])
    u = np.sqrt([1.0, gap * share, gap * share])
    u /= np.linalg.norm(u)
    vectors = without(w, u)[1]
    assert np.abs(u @ vectors).max() <= 1e-15


def test_magnitudes_are_products_of_differences():
    w = np.array([-2.0, 0.5, 1.0, 4.0])
    roots = np.array([-1.0, 0.6, 3.9])
    found = complement._loewner(w, w[:, None] - roots)
    for j, value in enumerate(found):
        square = np.prod(np.abs(w[j] - roots)) / np.prod(np.abs(w[j] - np.delete(w, j)))
        assert value == pytest.approx(square**0.5, rel=1e-14)


def test_the_only_vector_leaves_nothing():
    values, vectors = without(np.array([3.0]), np.array([1.0]))
    assert values.shape == (0,)
    assert vectors.shape == (1, 0)


def test_of_two_the_vector_across_is_left():
    values, vectors = without(np.array([1.0, 5.0]), np.array([0.6, -0.8]))
    assert values == pytest.approx([0.64 * 1 + 0.36 * 5], rel=1e-14)
    np.testing.assert_allclose(np.abs(vectors[:, 0]), [0.8, 0.6], rtol=1e-14)
    assert vectors[0, 0] * vectors[1, 0] > 0


@pytest.mark.parametrize(
    "u",
    [
        [0.3, -0.4],
        [3.0, 4.0, 12.0],
        [1.0, 2.0, -2.0],
        [0.0, 0.0, 1.0],
        [0.0, 0.5, 0.0, -0.0],
        [0, -0.0, 1.0],
    ],
)
def test_reflections_leave_one_coordinate_and_the_sum(u):
    before, basis = np.array(u), np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    basis = basis[: len(u)]
    after, turned = before.copy(), basis.copy()
    complement._reflect_to_last(after, turned)
    assert not after[:-1].any()
    assert abs(after[-1]) == pytest.approx(np.linalg.norm(before), rel=1e-15)
    np.testing.assert_allclose(after @ turned, before @ basis, atol=1e-15)
    np.testing.assert_allclose(turned @ turned.T, np.eye(len(u)), atol=1e-14)


def test_coordinates_that_are_all_zero_are_left_alone():
    u, basis = np.zeros(3), np.eye(3)
    complement._reflect_to_last(u, basis)
    assert not u.any()
    assert (basis == np.eye(3)).all()


def rest_of(eigenvalues):
    return Complement(np.diag(np.array(eigenvalues, float)), np.empty((0, len(eigenvalues))))


def test_runs_of_equal_eigenvalues_become_one_value_and_one_coordinate():
    values = [-3.0, -3.0 + 1e-16, 1.0, 2.0, 2.0 + 4e-16, 2.0 + 8e-16, 5.0, 9.0, 9.0]
    rest = rest_of(np.arange(9))
    rest.eigenvalues = np.array(values)
    u = np.array([0.3, 0.4, 0.5, 1.0, 2.0, 2.0, 0.7, 0.0, -0.6])
    before = u @ rest.basis
    rest._gather(u, 4 * EPS * 9)
    np.testing.assert_allclose(np.abs(u), [0, 0.5, 0.5, 0, 0, 3, 0.7, 0, 0.6], atol=1e-15)
    for run in (slice(0, 2), slice(3, 6), slice(7, 9)):
        assert len(set(rest.eigenvalues[run].tolist())) == 1
        assert rest.eigenvalues[run][0] == pytest.approx(np.mean(values[run]), rel=1e-15)
    assert (rest.eigenvalues[2], rest.eigenvalues[6]) == (1.0, 5.0)
    np.testing.assert_allclose(u @ rest.basis, before, atol=1e-15)
    np.testing.assert_allclose(rest.basis @ rest.basis.T, np.eye(9), atol=1e-14)


def test_gaps_are_negligible_below_four_epsilons_of_the_largest_size():
    for gap, gathered in ((3.5 * EPS * 8, True), (4.5 * EPS * 8, False)):
        rest = rest_of([-8.0, 0.0, gap])
        rest.take(np.array([0.0, 0.6, 0.8]))
        assert (rest.eigenvalues[1] == pytest.approx(gap / 2, rel=1e-6, abs=0)) == gathered


def test_coordinates_below_four_epsilons_count_as_zero():
    for size, active in ((3.5 * EPS, False), (4.5 * EPS, True)):
        rest = rest_of([1.0, 2.0, 5.0])
        basis = rest.basis.copy()
        u = np.array([size, 0.6, 0.8])
        vector = rest.take(u)
        assert bool(vector @ basis[0]) == active
        assert (u == [size, 0.6, 0.8]).all()


def test_what_is_taken_out_is_normalised():
    rest = rest_of([1.0, 2.0, 5.0])
    vector = rest.take(np.array([0.6, 0.0, 0.8]) * (1 + 1e-12))
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-15)
    assert rest.eigenvalues == pytest.approx([2.0, 0.64 + 0.36 * 5], rel=1e-14)
    np.testing.assert_allclose(np.abs(rest.basis[0]), [0, 1, 0], atol=1e-15)


def test_a_complement_is_that_of_the_symmetric_part():
    rng = np.random.default_rng(2)
    matrix, taken = rng.normal(size=(5, 5)), np.linalg.qr(rng.normal(size=(5, 2)))[0].T
    rest = Complement(matrix, taken)
    assert rest.basis.shape == (3, 5)
    np.testing.assert_allclose(rest.basis @ taken.T, 0, atol=1e-14)
    np.testing.assert_allclose(rest.basis @ rest.basis.T, np.eye(3), atol=1e-14)
    symmetric = rest.basis @ ((matrix + matrix.T) / 2) @ rest.basis.T
    np.testing.assert_allclose(symmetric, np.diag(rest.eigenvalues), atol=1e-13)
