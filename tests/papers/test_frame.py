"""Sequential frames: the eigen-update against plain eigendecompositions, and the law."""

import numpy as np
import pytest
from scipy import integrate, stats

from dpcov.core.entropy import Entropy
from dpcov.papers.samplers import frame as frame_module
from dpcov.papers.samplers.bingham import Bingham
from dpcov.papers.samplers.complement import Complement, without
from dpcov.papers.samplers.frame import sequential_frame

PASSES, REJECTED = 1e-3, 1e-9
SPECTRA = {
    "flat": lambda d, rng: 1 + 0.1 * rng.standard_normal(d),
    "power law": lambda d, rng: 1e6 * np.logspace(0, -7, d),
    "rank 1": lambda d, rng: 1e4 * np.eye(1, d)[0],
    "zero": lambda d, rng: np.zeros(d),
    "identity": lambda d, rng: np.ones(d),
    "repeated": lambda d, rng: np.resize([100.0, 10.0, 10.0, 1.0, 0.0], d),
    "clusters": lambda d, rng: np.resize([1.0, 2.0], d) + 1e-13 * rng.standard_normal(d),
    "indefinite": lambda d, rng: rng.standard_normal(d),
}


def matrix_of(spectrum, d, seed=0):
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    matrix = (turn * SPECTRA[spectrum](d, rng)) @ turn.T
    return (matrix + matrix.T) / 2


def plain_frame(matrix, concentrations, entropy):
    """Return reference draws: an eigendecomposition of the projected matrix for every draw."""
    vectors = np.empty((0, len(matrix)))
    for concentration in concentrations:
        complement = np.linalg.qr(vectors.T, mode="complete")[0][:, len(vectors) :].T
        eigenvalues, turn = np.linalg.eigh(complement @ matrix @ complement.T)
        u = Bingham(concentration * eigenvalues).sample(entropy).vector
        vectors = np.vstack([vectors, u @ turn.T @ complement])
    return vectors


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("power", [0, 4], ids=["spread", "peaked"])
def test_updated_eigenvalues_and_vectors_are_those_of_the_projected_matrix(spectrum, power):
    d = 40
    matrix = matrix_of(spectrum, d)
    rng = np.random.default_rng(1)
    rest = Complement(matrix, np.empty((0, d)))
    size = max(np.abs(rest.eigenvalues).max(), 1.0)
    taken = []
    for q in range(d, 1, -1):
        u = rng.standard_normal(q) * 10 ** (-power * rng.random(q))
        taken.append(rest.take(u / np.linalg.norm(u)))
        outside = np.eye(d) - np.transpose(taken) @ taken
        expected = np.linalg.eigvalsh(outside @ matrix @ outside + 9 * size * (outside - np.eye(d)))
        np.testing.assert_allclose(rest.eigenvalues, expected[-(q - 1) :], atol=1e-12 * size)
        residual = outside @ matrix @ rest.basis.T - rest.basis.T * rest.eigenvalues
        assert np.abs(residual).max() <= 1e-12 * size
        both = np.vstack([taken, rest.basis])
        np.testing.assert_allclose(both @ both.T, np.eye(d), atol=1e-13)


def test_the_vector_taken_out_has_the_given_coordinates():
    rng = np.random.default_rng(2)
    for spectrum in SPECTRA:
        rest = Complement(matrix_of(spectrum, 30), np.empty((0, 30)))
        u = rng.standard_normal(30)
        u /= np.linalg.norm(u)
        expected = u @ rest.basis
        np.testing.assert_allclose(rest.take(u), expected, atol=1e-14)


@pytest.mark.parametrize("q", [2, 3, 50, 300])
@pytest.mark.parametrize("gaps", ["even", "power law", "tiny", "mixed"])
@pytest.mark.parametrize("weights", ["even", "tiny", "peak"])
def test_update_is_orthogonal_for_hostile_gaps_and_weights(q, gaps, weights):
    rng = np.random.default_rng(3)
    w = {
        "even": np.arange(q, dtype=float),
        "power law": np.logspace(-7, 0, q),
        "tiny": 1 + 2e-15 * np.arange(1, q + 1),
        "mixed": np.cumsum(10 ** rng.uniform(-12, 0, q)),
    }[gaps]
    u = {
        "even": np.ones(q),
        "tiny": 10 ** rng.uniform(-14, 0, q),
        "peak": np.where(np.arange(q) == q // 2, 1, 2e-15),
    }[weights]
    u /= np.linalg.norm(u)
    roots, vectors = without(w, u)
    assert (w[:-1] <= roots).all()
    assert (roots <= w[1:]).all()
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(q - 1), atol=2e-14)
    assert np.abs(u @ vectors).max() <= 1e-13
    projected = w[:, None] * vectors
    projected -= np.outer(u, u @ projected)
    assert np.abs(projected - vectors * roots).max() <= 1e-14 * np.abs(w).max()


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("concentration", [0.0, 1.0, 1e8])
def test_frames_are_orthonormal_whatever_the_spectrum(spectrum, concentration):
    d = 80
    frame = sequential_frame(matrix_of(spectrum, d), np.full(d, concentration), Entropy.seeded(4))
    np.testing.assert_allclose(frame.vectors @ frame.vectors.T, np.eye(d), atol=1e-12)
    assert frame.proposals.min() >= 1


def test_restarts_change_nothing_but_rounding(monkeypatch):
    matrix = matrix_of("flat", 30)
    concentrations = np.linspace(0, 300, 30)

    def statistics():
        frame = sequential_frame(matrix, concentrations, Entropy.seeded(5))
        return np.einsum("ij,jk,ik->i", frame.vectors, matrix, frame.vectors), frame.proposals

    once = statistics()
    monkeypatch.setattr(frame_module, "DRAWS_PER_RESTART", 7)
    often = statistics()
    np.testing.assert_allclose(once[0], often[0], atol=1e-11)
    np.testing.assert_array_equal(once[1], often[1])


def test_a_decomposition_is_made_every_so_many_draws(monkeypatch):
    taken = []

    class Counted(Complement):
        def __init__(self, matrix, vectors):
            taken.append(len(vectors))
            super().__init__(matrix, vectors)

    monkeypatch.setattr(frame_module, "Complement", Counted)
    monkeypatch.setattr(frame_module, "DRAWS_PER_RESTART", 7)
    sequential_frame(matrix_of("flat", 20), np.ones(20), Entropy.seeded(5))
    assert taken == [0, 7, 14]


def features(vectors, matrix, axis):
    """Return theta_i' C theta_i and squared overlaps with an axis, for each vector and frame."""
    values = np.einsum("nij,jk,nik->ni", vectors, matrix, vectors)
    return np.hstack([values, (vectors @ axis) ** 2])


@pytest.mark.slow
def test_frames_have_the_law_of_one_eigendecomposition_per_draw():
    matrix = np.diag([9.0, 4.0, 4.0, 1.0, 0.0])
    concentrations = np.array([0.4, 0.0, 1.0, 0.6, 2.0])
    axis = np.array([1.0, 1, 0, 0, 0]) / 2**0.5
    ours, plain = Entropy.seeded(6), Entropy.seeded(7)
    count = 1500
    frames = [sequential_frame(matrix, concentrations, ours).vectors for _ in range(count)]
    expected = [plain_frame(matrix, concentrations, plain) for _ in range(count)]
    wrong = [plain_frame(matrix, concentrations[::-1], plain) for _ in range(count)]
    ours, expected, wrong = (features(np.array(x), matrix, axis) for x in (frames, expected, wrong))
    p_values = [stats.ks_2samp(a, b).pvalue for a, b in zip(ours.T, expected.T, strict=True)]
    assert min(p_values) > PASSES
    assert min(stats.ks_2samp(a, b).pvalue for a, b in zip(ours.T, wrong.T, strict=True)) < REJECTED


def test_the_second_vector_in_the_plane_is_fixed_but_for_its_sign():
    matrix = np.array([[2.0, 1.0], [1.0, 5.0]])
    entropy = Entropy.seeded(8)
    frames = [sequential_frame(matrix, np.array([1.0, 1.0]), entropy) for _ in range(400)]
    signs = [np.linalg.det(frame.vectors) for frame in frames]
    np.testing.assert_allclose(np.abs(signs), 1, atol=1e-14)
    assert stats.binomtest(int(np.sum(np.array(signs) > 0)), 400).pvalue > PASSES
    assert {int(frame.proposals[1]) for frame in frames} == {1}


def test_the_first_vector_follows_the_density_of_its_matrix():
    entropy, count = Entropy.seeded(9), 4000
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    matrix = turn.T @ np.diag([12.0, 0.0]) @ turn
    vectors = [sequential_frame(matrix, np.array([0.25]), entropy).vectors[0] for _ in range(count)]
    angles = np.mod(np.arctan2(*(np.array(vectors) @ turn.T).T[::-1]), np.pi)

    def mass(angle):
        return integrate.quad(lambda x: np.exp(3 * np.cos(x) ** 2), 0, angle)[0]

    grid = np.linspace(0, np.pi, 200)
    law = np.array([mass(x) for x in grid]) / mass(np.pi)
    assert stats.kstest(np.interp(angles, grid, law), "uniform").pvalue > PASSES
    assert stats.kstest(angles / np.pi, "uniform").pvalue < REJECTED


def test_concentration_zero_gives_uniform_directions():
    entropy = Entropy.seeded(10)
    matrix = np.diag([100.0, 1.0, 0.0])
    frames = np.array([sequential_frame(matrix, np.zeros(3), entropy).vectors for _ in range(2000)])
    for vectors in np.swapaxes(frames, 0, 1):
        assert stats.kstest(vectors[:, 0], "uniform", (-1, 2)).pvalue > PASSES
    aligned = sequential_frame(matrix, np.array([0.5]), entropy).vectors
    assert abs(aligned[0, 0]) > 0.9


def test_fewer_vectors_than_dimensions_may_be_drawn_and_no_more():
    matrix = matrix_of("flat", 6)
    assert sequential_frame(matrix, np.ones(2), Entropy.seeded(11)).vectors.shape == (2, 6)
    assert sequential_frame(matrix, np.ones(0), Entropy.seeded(11)).vectors.shape == (0, 6)
    with pytest.raises(ValueError, match="7 orthonormal"):
        sequential_frame(matrix, np.ones(7), Entropy.seeded(11))
    with pytest.raises(ValueError, match="finite"):
        sequential_frame(np.diag([np.inf, 1.0]), np.ones(1), Entropy.seeded(11))
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="finite"):
            sequential_frame(matrix, np.array([bad]), Entropy.seeded(11))
        with pytest.raises(ValueError, match="finite"):
            sequential_frame(np.full((2, 2), bad), np.ones(1), Entropy.seeded(11))


def test_each_vector_has_its_own_concentration():
    matrix = np.diag([5.0, 4.0, 2.0, 1.0, 0.0])
    vectors = sequential_frame(matrix, np.array([0.0, 1e9]), Entropy.seeded(12)).vectors
    outside = np.eye(5) - np.outer(vectors[0], vectors[0])
    top = np.linalg.eigvalsh(outside @ matrix @ outside)[-1]
    assert vectors[1] @ matrix @ vectors[1] == pytest.approx(top, abs=1e-6)
    assert vectors[0] @ matrix @ vectors[0] < 4.9
