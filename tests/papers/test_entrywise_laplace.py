"""Entry-wise Laplace noise: its law on and off the diagonal, its spectrum, its description."""

import json
from fractions import Fraction

import numpy as np
import pytest
from checks import PASSES, REJECTED, correlation_p_value, mean_p_value
from scipy import stats

from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import Neighbors, PureDP
from dpcov.core.samplers import matrix_law
from dpcov.core.samplers.discrete import discrete_laplace
from dpcov.denoise import denoise
from dpcov.errors import MechanismError, ReleaseError
from dpcov.mechanisms import Laplace
from dpcov.papers.samplers.entrywise import EntrywiseLaplace
from dpcov.releases import Release
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows

LAW = EntrywiseLaplace(4, Fraction(2**40, 3), Fraction(2**40, 5))
BELOW = np.tril_indices(4, -1)


def draws(simulated, count=4000):
    if simulated:
        generator = np.random.default_rng(1)
        return np.stack([LAW.simulate(generator) for _ in range(count)]) / 2**40
    entropy = Entropy.seeded(1)
    return np.stack([LAW.sample(entropy) for _ in range(count)]) / 2**40


@pytest.mark.parametrize("simulated", [False, True])
def test_entries_are_laplace_with_a_scale_on_and_one_off_the_diagonal(simulated):
    found = draws(simulated)
    np.testing.assert_array_equal(found, found.swapaxes(1, 2))
    diagonal = found[:, np.arange(4), np.arange(4)].ravel()
    off = found[:, *BELOW].ravel()
    for entries, right, wrong in ((diagonal, 1 / 3, 1 / 5), (off, 1 / 5, 1 / 3)):
        assert stats.kstest(entries, "laplace", (0, right)).pvalue > PASSES
        assert stats.kstest(entries, "laplace", (0, wrong)).pvalue < REJECTED


def test_the_law_prefers_directions_and_says_so():
    found = EntrywiseLaplace(4, Fraction(10**6), Fraction(10**6)).samples(4000, Entropy.seeded(1))
    along, between = found[:, 0, 0], found.sum(axis=(1, 2)) / 4
    assert stats.ks_2samp(along, between).pvalue < REJECTED
    assert not LAW.rotation_invariant


def test_entries_are_independent():
    found = draws(simulated=False)
    flat = np.concatenate([found[:, *BELOW], found[:, np.arange(4), np.arange(4)]], axis=1)
    assert correlation_p_value(flat) > PASSES
    shared = flat + 0.2 * flat[:, :1]
    assert correlation_p_value(shared) < REJECTED


def test_moments_are_those_that_the_law_states():
    found = draws(simulated=False) * 2**40
    frobenius = (found**2).sum(axis=(1, 2))
    corner = found[:, 0, 0] ** 2
    for observed, stated in ((frobenius, LAW.frobenius_squared), (corner, LAW.diagonal_variance)):
        assert mean_p_value(observed, stated) > PASSES
        assert mean_p_value(observed, 1.3 * stated) < REJECTED


@pytest.mark.parametrize("ratio", [Fraction(63, 50), Fraction(7, 5)])
def test_the_spectrum_ends_where_the_law_says_and_spikes_show_from_half_of_it(ratio):
    law = EntrywiseLaplace(160, ratio, Fraction(1))
    noise = law.simulate(np.random.default_rng(2))
    values = np.linalg.eigvalsh(noise)
    assert abs(values[-1] / law.edge - 1) < 0.07
    assert abs(values[0] / law.edge + 1) < 0.07
    spike = np.ones(160) / np.sqrt(160)
    overlaps = []
    for size in (0.6, 2.0):
        top = np.linalg.eigh(noise + size * law.detectable * np.outer(spike, spike)).eigenvectors
        overlaps.append(float((top[:, -1] @ spike) ** 2))
    assert overlaps[0] < 0.1
    assert overlaps[1] == pytest.approx(1 - 1 / 4, abs=0.1)
    g = np.mean(1 / (2 * law.edge - values))
    point = 1 / g + law.r_transform(np.array(g + 0j)).real
    assert point == pytest.approx(2 * law.edge, rel=0.01)
    assert 1 / g != pytest.approx(2 * law.edge, rel=0.05)


def test_a_law_is_what_its_description_says():
    assert matrix_law(LAW.to_json()) == LAW
    doubled = LAW.rescaled(2.0)
    assert doubled.frobenius_squared == pytest.approx(4 * LAW.frobenius_squared)
    assert (doubled.edge, doubled.spread) == (2 * LAW.edge, 2 * LAW.spread)


@pytest.mark.parametrize("scales", [(2**80 + 1, 1), (1, 2**80 + 1), (Fraction(1, 2**31), 1)])
def test_scales_that_can_not_be_drawn_are_refused(scales):
    with pytest.raises(MechanismError, match="budget"):
        EntrywiseLaplace(2, *map(Fraction, scales)).require_drawable()


@pytest.mark.parametrize("scales", [(Fraction(2**80), Fraction(3)), (Fraction(3), Fraction(2**80))])
def test_the_largest_scale_is_drawn_beside_a_small_one(scales):
    law, entropy = EntrywiseLaplace(4, *scales), Entropy.seeded(1)
    law.require_drawable()
    found = law.samples(50, Entropy.seeded(1))
    assert (found == found.swapaxes(1, 2)).all()
    for entries, scale in zip(
        (found[:, range(4), range(4)], found[:, *BELOW]), scales, strict=True
    ):
        alone = discrete_laplace(scale, entries.size, entropy)
        assert entries.ravel().tolist() == alone.tolist()
        assert scale < max(map(abs, alone.tolist())) < 20 * scale


@pytest.mark.parametrize("neighbors", Neighbors)
def test_denoising_by_the_law_helps_and_the_papers_scales_cost(neighbors):
    generator = np.random.default_rng(3)
    values = np.clip(0.5 + generator.normal(0, 0.2, (20_000, 1)) * np.linspace(-1, 1, 6), 0, 1)
    rows = open_rows(values, Schema.from_bounds(0, 1, tuple("abcdef"), intercept=0.0))
    truth = rows.second_moments()[0].units.astype(float) * rows.lattice().step ** 2

    def error(mechanism, method):
        found = []
        for seed in range(12):
            made = mechanism(
                rows, budget=PureDP(0.3), neighbors=neighbors, entropy=Entropy.seeded(seed)
            )
            made = denoise(made, method, generator=simulation_generator(seed))
            found.append(np.linalg.norm(made.second_moment() - truth))
        return np.mean(found)

    shrunk = error(Laplace(), "shrink")
    raw, paper = (error(Laplace(paper_constants=p), "none") for p in (False, True))
    assert shrunk < 0.7 * raw
    assert paper > 1.5 * raw


@pytest.mark.parametrize("field", ["diagonal", "off_diagonal"])
@pytest.mark.parametrize("scale", ["1" + "0" * 400, "1/1" + "0" * 400, "0", "-1", "1.5"])
def test_a_file_with_a_scale_out_of_range_is_refused(tmp_path, field, scale):
    rows = open_rows(np.zeros((9, 2)), Schema.from_bounds(0, 1, ("a", "b")))
    made = Laplace()(
        rows, budget=PureDP(1), neighbors=Neighbors.ADD_REMOVE, entropy=Entropy.seeded(1)
    )
    made.save(tmp_path / "r.json")
    document = json.loads((tmp_path / "r.json").read_text())
    assert Release.load(tmp_path / "r.json").noise == made.noise
    (matrix,) = [one["answer"] for one in document["rounds"] if one["query"] == "matrix"]
    matrix["noise"][field] = scale
    (tmp_path / "r.json").write_text(json.dumps(document))
    with pytest.raises(ReleaseError, match="valid release file"):
        Release.load(tmp_path / "r.json")
