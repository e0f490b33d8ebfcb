"""The Bingham sampler's numbers: envelope, acceptance, extremes, proposals."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov.core.entropy import Entropy
from dpcov.core.samplers.normal import standard_exponentials, standard_normals
from dpcov.papers.samplers import bingham
from dpcov.papers.samplers.bingham import Bingham, envelope_parameter, log_acceptance

SPECTRA = {
    "flat": np.zeros,
    "one": lambda q: np.eye(1, q)[0],
    "all but one": lambda q: 1 - np.eye(1, q)[0],
    "power law": lambda q: np.logspace(0, -7, q),
    "even": lambda q: np.linspace(0, 1, q),
}


@given(
    q=st.integers(1, 2000),
    share=st.floats(1e-6, 1),
    s=st.floats(0, 1e9),
)
def test_log_acceptance_is_never_positive_and_is_the_formula(q, share, s):
    b = share * q
    value = float(log_acceptance(np.array(s), b, q))
    assert value <= 0
    with mpmath.workdps(50):
        s, b = mpmath.mpf(s), mpmath.mpf(b)
        exact = mpmath.mpf(q) / 2 * mpmath.log((b + 2 * s) / q) - s + (q - b) / 2
        assert value == pytest.approx(float(exact), rel=1e-11, abs=1e-12)


@given(q=st.integers(1, 2000), share=st.floats(1e-6, 1))
def test_acceptance_is_certain_at_the_largest_ratio_only(q, share):
    b = share * q
    peak = (q - b) / 2
    assert log_acceptance(np.array(peak), b, q) == pytest.approx(0, abs=1e-12)
    assert log_acceptance(np.array(peak + q / 4), b, q) < -1e-3


@given(st.lists(st.floats(0, 1e8), min_size=0, max_size=30))
def test_envelope_solves_its_equation_between_1_and_q(gaps):
    gaps = np.array([0.0, *gaps])
    b = envelope_parameter(gaps)
    assert 1 <= b <= gaps.size
    assert np.sum(1 / (b + 2 * gaps)) == pytest.approx(1, rel=1e-11)


@pytest.mark.parametrize("gaps", [[0.0], [0, 1e-3], [0, 1e6], [0, 0, 3, 0.7], [0, *[1e8] * 40]])
def test_the_envelope_is_the_root_of_its_equation_in_many_digits(gaps):
    with mpmath.workdps(40):
        bounds = mpmath.mpf("0.5"), mpmath.mpf(len(gaps)) + mpmath.mpf("0.5")
        exact = mpmath.findroot(
            lambda b: sum(1 / (b + 2 * mpmath.mpf(gap)) for gap in gaps) - 1,
            bounds,
            solver="ridder",
        )
    assert envelope_parameter(np.array(gaps, float)) == pytest.approx(float(exact), rel=1e-12)


def test_equal_gaps_of_many_coordinates_have_the_largest_envelope():
    for q in (1, 3, 7, 49, 2000, 12_345):
        assert envelope_parameter(np.zeros(q)) == pytest.approx(q, rel=1e-12)


def test_proposals_are_gaussian_with_the_precision_of_the_envelope_and_normalised():
    """The envelope has density (u' Omega u)^(-q/2), Omega = I + 2 diag(gaps) / b."""
    exponents = np.array([2.5, -1.0, 0.0, 2.5])
    gaps = 2.5 - exponents
    factor = np.linalg.cholesky(np.eye(4) + 2 * np.diag(gaps) / envelope_parameter(gaps))
    normals = standard_normals(20, Entropy.seeded(13)).reshape(5, 4)
    expected = [np.linalg.solve(factor.T, normal) for normal in normals]
    found = Bingham(exponents).propose(5, Entropy.seeded(13))
    assert found.shape == (5, 4)
    for vector, gaussian in zip(found, expected, strict=True):
        np.testing.assert_allclose(vector, gaussian / np.linalg.norm(gaussian), rtol=1e-12)


def test_acceptance_turns_the_envelope_into_the_density_of_the_law():
    exponents = np.array([4.0, 1.0, -2.0])
    law, gaps = Bingham(exponents), 4 - exponents
    omega = np.eye(3) + 2 * np.diag(gaps) / envelope_parameter(gaps)
    vectors = law.propose(50, Entropy.seeded(14))
    density = np.einsum("ij,j->i", vectors**2, exponents)
    envelope = -1.5 * np.log(np.einsum("ij,jk,ik->i", vectors, omega, vectors))
    ratio = law.log_accept(vectors) - density + envelope
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)


def test_a_proposal_is_accepted_where_the_exponential_is_not_below_its_price():
    law, entropy = Bingham(np.array([30.0, 3.0, 0.0])), Entropy.seeded(15)
    vectors, accepted = law.accepted(200, Entropy.seeded(15))
    np.testing.assert_array_equal(vectors, law.propose(200, entropy))
    prices = -law.log_accept(vectors)
    for price, number, taken in zip(
        prices, standard_exponentials(200, entropy), accepted, strict=True
    ):
        assert bool(taken) == (number >= price)
    assert 0 < accepted.sum() < 200


class ThenOnes:
    """Entropy whose second answer is all ones: the largest words, whose exponentials are 0."""

    def __init__(self):
        self.seeded, self.asked = Entropy.seeded(18), 0

    def words(self, count):
        self.asked += 1
        return self.seeded.words(count) if self.asked == 1 else np.full(count, 2**64 - 1, np.uint64)


def test_a_certain_proposal_is_accepted_by_the_smallest_exponential():
    assert Bingham(np.zeros(3)).accepted(50, ThenOnes())[1].all()
    assert not Bingham(np.array([1.0, 0, 0])).accepted(50, ThenOnes())[1].any()


@pytest.mark.parametrize("first", [1, 2, 3, 4, 63, 64, 128, 250])
def test_the_first_accepted_proposal_is_the_draw_and_batches_double_to_64(first, monkeypatch):
    batches = []

    def accepted(self, count, entropy):
        numbers = sum(batches) + 1 + np.arange(count)
        batches.append(count)
        return numbers[:, None].astype(float), numbers >= first

    monkeypatch.setattr(Bingham, "accepted", accepted)
    draw = Bingham(np.zeros(1)).sample(Entropy.seeded(16))
    assert draw.vector.tolist() == [float(first)]
    assert draw.proposals == first
    expected = [1, 2, 4, 8, 16, 32, 64, 64, 64]
    assert batches == expected[: len(batches)]
    assert sum(batches[:-1]) < first <= sum(batches)


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("size", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("q", [1, 2, 2000])
def test_draws_are_finite_unit_vectors_for_every_size_and_concentration(spectrum, size, q):
    law = Bingham(size * SPECTRA[spectrum](q))
    entropy = Entropy.seeded(1)
    for _ in range(5):
        vector = law.sample(entropy).vector
        assert vector.shape == (q,)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-12)


def fewest_proposals(law, q):
    """Lower end, three standard errors out, of the mean number of proposals per draw."""
    chances = np.exp(law.log_accept(law.propose(4_000_000 // q, Entropy.seeded(2))))
    return 1 / (chances.mean() + 3 * chances.std() / len(chances) ** 0.5)


@pytest.mark.parametrize(("q", "most"), [(13, 5), (108, 14), (500, 29), (2000, 52)])
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_proposals_per_draw_stay_within_the_stated_means(q, most, spectrum):
    for size in (1e3, 1e8):
        assert fewest_proposals(Bingham(size * SPECTRA[spectrum](q)), q) <= most


def test_a_single_huge_exponent_takes_1_17_root_q_proposals(monkeypatch):
    exponents = 1e8 * np.eye(1, 100)[0]
    law, entropy = Bingham(exponents), Entropy.seeded(7)
    rate = np.exp(law.log_accept(law.propose(40_000, entropy))).mean()
    assert 1 / rate == pytest.approx(1.17 * 10, rel=0.05)
    monkeypatch.setattr(bingham, "envelope_parameter", lambda gaps: 0.01)
    assert fewest_proposals(Bingham(exponents), 100) > 2 * 1.17 * 10


def test_the_count_of_proposals_is_that_of_a_geometric_law():
    law = Bingham(1e4 * SPECTRA["power law"](100))
    entropy = Entropy.seeded(3)
    counts = np.array([law.sample(entropy).proposals for _ in range(3000)])
    rate = law.accepted(30_000, entropy)[1].mean()
    assert rate < 0.3
    assert counts.mean() == pytest.approx(1 / rate, rel=0.08)
    assert np.mean(counts == 1) == pytest.approx(rate, rel=0.15)


def test_equal_exponents_take_one_proposal_and_their_level_does_not_matter():
    for level in (0.0, -3.5, 1e8):
        assert Bingham(np.full(50, level)).sample(Entropy.seeded(4)).proposals == 1
    exponents = np.array([3.0, 0.0, 1.0])
    listed = Bingham([3, 0, 1]).sample(Entropy.seeded(5)).vector
    np.testing.assert_array_equal(listed, Bingham(exponents).sample(Entropy.seeded(5)).vector)
    for shift in (-8.0, 4.0):
        first, second = (
            Bingham(a).sample(Entropy.seeded(5)) for a in (exponents, exponents + shift)
        )
        np.testing.assert_array_equal(first.vector, second.vector)


def test_a_single_coordinate_is_plus_or_minus_one():
    law, entropy = Bingham(np.array([1e8])), Entropy.seeded(6)
    signs = [float(law.sample(entropy).vector[0]) for _ in range(200)]
    assert set(signs) == {-1.0, 1.0}


@pytest.mark.parametrize(
    "exponents",
    [[], [[1.0]], [np.nan, 0], [np.inf, 0], [-np.inf, 0], [1e308, -1e308], [1e308, 0], 5.0],
)
def test_exponents_that_no_law_has_are_refused(exponents):
    with pytest.raises(ValueError, match="exponents must"):
        Bingham(np.array(exponents))


def test_differences_as_large_as_floats_allow_leave_the_axis_of_the_largest():
    vector = Bingham(np.array([8.5e307, 0.0, -1.0])).sample(Entropy.seeded(17)).vector
    np.testing.assert_allclose(np.abs(vector), [1, 0, 0], atol=1e-150)
