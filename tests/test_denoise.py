"""Denoising: shrinkage and gates, all from a release and its public noise law."""

import ast
import hashlib
import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

import dpcov
from dpcov import denoise as package
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.denoise import METHODS, best_estimate, denoise, seed_of, shrinkage
from dpcov.denoise.isotonic import isotonic
from dpcov.denoise.projection import compose, onto_simplex
from dpcov.denoise.shrinkage import (
    MIN_CLOSED_FORM_SNR,
    MIN_SIMULATION_SNR,
    SIMULATIONS,
    _Simulations,
    asymptotic_spectrum,
    james_stein,
    share_left,
    shrink,
    simulated_spectrum,
    simulates,
)
from dpcov.errors import ReleaseError
from dpcov.published.kinds import NoisyTrace
from dpcov.releases import Release
from rounds_for_tests import changed

NAMES = ("matrix-laplace", "gaussian")
BASIS = np.eye(0)  # not looked at: these laws are rotation-invariant
RELATIONS = ("add-remove", "replace-one")


def law_of(name, d):
    return WishartDifference(d, 1.0) if name == NAMES[0] else GaussianOrthogonal(d, Fraction(1))


each_law = pytest.mark.parametrize("name", NAMES)


def table(n, d=4):
    rng = np.random.default_rng(1)
    return np.clip(0.5 + rng.standard_normal((n, 1)) / 6 + rng.standard_normal((n, d)) / 20, 0, 1)


def released(n, method="none", d=4, **request):
    budget = {"epsilon": 1.0, "seed": 3} | request
    return dpcov.release(table(n, d), lower=0, upper=1, denoise=method, **budget)


# Shrinkage.


@each_law
@pytest.mark.parametrize("d", [1, 3, 40, 120])
@pytest.mark.parametrize("strength", [0.6, 3.0, 30.0])
def test_shrunk_matrix_is_symmetric_psd_and_has_the_trace(name, d, strength):
    law, generator = law_of(name, d), np.random.default_rng(2)
    trace = strength * law.detectable
    spikes = np.zeros((d, d))
    spikes[0, 0] = trace
    found = shrink(spikes + law.simulate(generator), law, trace, generator)
    np.testing.assert_array_equal(found, found.T)
    assert np.linalg.eigvalsh(found)[0] >= -1e-12 * trace
    assert np.trace(found) == pytest.approx(trace)


def spiked(law, trace):
    """Return an ascending spectrum of this trace, with five directions above the rest."""
    d = law.dimension
    spectrum = np.full(d, 0.2 / d)
    spectrum[-5:] += [0.1, 0.15, 0.2, 0.25, 0.3]
    return spectrum * trace / spectrum.sum()


def errors(law, spectrum, draws, *estimators):
    """Return the mean Frobenius errors of each estimator of diag(spectrum), and of the matrix."""
    generator, found = np.random.default_rng(4), []
    for _ in range(draws):
        noisy = np.diag(spectrum) + law.simulate(generator)
        values, vectors = np.linalg.eigh(noisy)
        made = [compose(vectors, estimator(values, generator)) for estimator in estimators]
        found.append([np.linalg.norm(m - np.diag(spectrum)) for m in [*made, noisy]])
    return np.mean(found, axis=0)


@pytest.mark.statistics
@each_law
@pytest.mark.parametrize("d", [100, 150])
def test_closed_form_is_within_four_percent_of_simulation_from_where_it_is_used(name, d):
    law, ranks = law_of(name, d), np.arange(d, 0, -1.0)
    trace = MIN_CLOSED_FORM_SNR * law.detectable
    assert not simulates(law, trace)
    ratios = []
    for spectrum in (spiked(law, trace), ranks**-1, ranks**-2):
        simulated, closed, noisy = errors(
            law,
            spectrum * trace / spectrum.sum(),
            6,
            lambda values, generator: simulated_spectrum(values, BASIS, law, trace, generator),
            lambda values, _: asymptotic_spectrum(values, law, trace),
        )
        assert noisy > 1.5 * closed
        ratios.append(closed / simulated)
    assert max(ratios) < 1.05
    assert np.mean(ratios) < 1.04


@each_law
@pytest.mark.parametrize("d", [10, 60])
def test_shrinking_a_spiked_matrix_beats_the_noisy_and_the_projected_one(name, d):
    law = law_of(name, d)
    trace = 3 * law.detectable
    shrunk, projected, noisy = errors(
        law,
        spiked(law, trace),
        8,
        lambda values, generator: simulated_spectrum(values, BASIS, law, trace, generator),
        lambda values, _: onto_simplex(values, trace),
    )
    assert shrunk < 0.85 * projected
    assert shrunk < noisy / 2


@pytest.mark.statistics
@each_law
@pytest.mark.parametrize("d", [20, 120])
@pytest.mark.parametrize("strength", [2.0, 8.0])
def test_noise_about_a_flat_spectrum_is_not_taken_for_directions(name, d, strength, monkeypatch):
    """Control: without the flat candidate it is."""
    law = law_of(name, d)
    trace = strength * law.detectable

    def error():
        return errors(
            law,
            np.full(d, trace / d),
            6,
            lambda values, generator: simulated_spectrum(values, BASIS, law, trace, generator),
        )[0]

    found = error()
    monkeypatch.setattr(shrinkage, "FLAT_POWERS", ())
    assert found < 0.75 * error()


def of_factors(d, factors, own, trace, generator):
    """Return a moment of this trace, of columns with common factors and with parts of their own."""
    common = generator.standard_normal((d, factors))
    true = common @ common.T + np.diag(np.geomspace(*own, d))
    return true * trace / np.trace(true)


@each_law
@pytest.mark.parametrize(("own", "most"), [((1, 6), 0.65), ((1, 1), 1.01)])
def test_columns_that_vary_by_themselves_are_not_drawn_to_their_mean(name, own, most):
    law, generator = law_of(name, 150), np.random.default_rng(8)
    trace = 5 * MIN_CLOSED_FORM_SNR * law.detectable
    true = of_factors(150, 2, own, trace, generator)
    found = []
    for _ in range(4):
        noisy = true + law.simulate(generator)
        values, vectors = np.linalg.eigh(noisy)
        spectral = compose(vectors, asymptotic_spectrum(values, law, trace))
        found.append([made - true for made in (shrink(noisy, law, trace, generator), spectral)])
    whole = np.linalg.norm(found, axis=(2, 3)).mean(axis=0)
    assert whole[0] < most * whole[1]
    of_columns = np.sqrt(np.mean(np.diagonal(found, axis1=2, axis2=3) ** 2, axis=(0, 2)))
    reported = math.sqrt(law.diagonal_variance)  # by the noisy diagonal
    assert of_columns[0] < 1.1 * reported
    if own != (1, 1):  # which eigenvalues alone hide
        assert of_columns[1] > 2 * reported


@each_law
def test_the_noisy_matrix_estimates_the_variance_of_few_known_directions(name):
    d = 150
    law, generator = law_of(name, d), np.random.default_rng(9)
    trace = 3 * MIN_CLOSED_FORM_SNR * law.detectable
    spectrum = np.ones(d)
    spectrum[:10] += 3.5 * law.detectable * d / trace  # over the bulk, and hardly to be seen
    known, other = (np.linalg.qr(generator.standard_normal((d, d)))[0] for _ in range(2))
    true = (known * spectrum) @ known.T * trace / spectrum.sum()
    found = []
    for _ in range(4):
        noisy = true + law.simulate(generator)
        made = [shrink(noisy, law, trace, generator, directions=v) for v in (None, known, other)]
        found.append([np.linalg.norm(one - true) for one in made])
        assert np.linalg.eigvalsh(made[1])[0] > 0.1 * trace / d
    plain, reported, wrong = np.mean(found, axis=0)
    assert reported < 0.7 * plain
    assert wrong < 1.03 * plain


@pytest.mark.statistics
@each_law
@pytest.mark.parametrize(
    ("spread", "strength"),
    [
        ((1, 6), 6 * MIN_CLOSED_FORM_SNR),
        ((1, 60), 6 * MIN_CLOSED_FORM_SNR),
        ((1, 60), 0.1 * MIN_CLOSED_FORM_SNR),
    ],
)
def test_the_fraction_of_the_noise_that_is_left_is_reported(name, spread, strength):
    """The test uses a closed form and simulation. Control: noise of less variance fails."""
    d = 150 if strength > MIN_CLOSED_FORM_SNR else 110
    law, generator = law_of(name, d), np.random.default_rng(10)
    trace = strength * law.detectable
    assert simulates(law, trace) == (strength < MIN_CLOSED_FORM_SNR)
    true = of_factors(d, 3, spread, trace, generator)

    def estimated(matrix):
        return shrink(matrix, law, trace, np.random.default_rng(0))

    found = []
    for _ in range(12):
        noisy = true + law.simulate(generator)
        error = np.sum((estimated(noisy) - true) ** 2) / law.frobenius_squared
        reported = [share_left(noisy, of, estimated, generator) for of in (law, law.rescaled(0.7))]
        found.append([error, *reported])
    error, reported, wrong = np.mean(found, axis=0)
    assert reported == pytest.approx(error, abs=3 / d)
    assert wrong > error + 0.3


def test_the_shrunk_spectrum_is_the_mean_of_the_truth_along_noisy_eigenvectors():
    law, spectrum = law_of(NAMES[0], 4), np.array([0.0, 1.0, 5.0, 40.0])
    generator, found = np.random.default_rng(6), []
    for _ in range(SIMULATIONS):
        vectors = np.linalg.eigh(np.diag(spectrum) + law.simulate(generator))[1]
        found.append([v @ np.diag(spectrum) @ v for v in vectors.T])
    _, shrunk = _Simulations(law, BASIS, np.random.default_rng(6)).shrunk(spectrum, spectrum)
    np.testing.assert_allclose(shrunk, isotonic_regression(np.mean(found, axis=0)).x)


@given(
    st.lists(st.integers(-9, 9) | st.floats(-1e6, 1e6), min_size=1, max_size=40),
    st.floats(-10, 10),
)
def test_isotonic_regression_is_that_of_scipy_to_the_last_bit(values, slope):
    sloped = np.array(values) + slope * np.arange(len(values))
    assert np.array_equal(isotonic(sloped), isotonic_regression(sloped).x)


@pytest.mark.parametrize("mechanism", NAMES)
def test_a_release_is_shrunk_by_its_own_law_in_its_own_units(mechanism):
    made = released(300, mechanism=mechanism, epsilon=1.0, delta=1e-6)
    found = denoise(made, generator=np.random.default_rng(1)).second_moment()
    law = made.noise.rescaled(made.lattice.step**2)
    direct = shrink(made.noisy(), law, np.trace(found), np.random.default_rng(1))
    np.testing.assert_allclose(found, direct, atol=1e-9 * np.abs(found).max())
    other = shrink(made.noisy(), law.rescaled(0.5), np.trace(found), np.random.default_rng(1))
    assert np.abs(found - other).max() > 1e-3 * np.abs(found).max()


def test_shrinking_by_the_law_of_another_scale_is_worse():
    law = law_of(NAMES[0], 40)
    wrong = law.rescaled(3)
    trace = 6 * law.detectable
    right, off, _ = errors(
        law,
        spiked(law, trace),
        8,
        lambda values, generator: simulated_spectrum(values, BASIS, law, trace, generator),
        lambda values, generator: simulated_spectrum(values, BASIS, wrong, trace, generator),
    )
    assert off > 1.1 * right


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("method", METHODS)
def test_without_noise_every_method_gives_the_truth(method, neighbors):
    made = released(500, method, epsilon=1e7, neighbors=neighbors)
    truth = np.cov(table(500), rowvar=False, ddof=0)
    np.testing.assert_allclose(made.covariance(), truth, atol=1e-4 * np.abs(truth).max())
    noisy = released(500, method, epsilon=1.0, neighbors=neighbors)
    assert np.abs(noisy.covariance() - truth).max() > 1e-3 * np.abs(truth).max()


# The noise laws' limits.


def disagreements(law, eigenvalues, overlaps):
    """Return the public constants that (draws, d) eigenvalues and spike overlaps contradict."""
    z = law.edge * (np.array([0, 0.5, 1.2]) + 1j)
    g = (1 / (z[:, None] - eigenvalues.ravel())).mean(axis=1)
    weak, strong = overlaps
    checks = {
        "edge": abs(eigenvalues[:, -1].mean() / law.edge - 1) < 0.04,
        "r_transform": np.abs(law.r_transform(g) + 1 / g - z).max() < 1e-3 * law.edge,
        "detectable": weak < 0.1 and strong > 0.5,
        "frobenius": abs((eigenvalues**2).sum(axis=1).mean() / law.frobenius_squared - 1) < 0.02,
    }
    return [name for name, holds in checks.items() if not holds]


def overlap(noises, spike):
    """Return the squared cosine between the top eigenvector and a direction of this strength."""
    found = []
    for noise in noises:
        matrix = noise.copy()
        matrix[0, 0] += spike
        found.append(np.linalg.eigh(matrix)[1][0, -1] ** 2)
    return np.mean(found)


@pytest.mark.statistics
@each_law
def test_limits_of_the_law_agree_with_its_spectrum_at_order_400(name):
    law, generator = law_of(name, 400), np.random.default_rng(5)
    noises = [law.simulate(generator) for _ in range(8)]
    eigenvalues = np.array([np.linalg.eigvalsh(noise) for noise in noises])
    overlaps = [overlap(noises, factor * law.detectable) for factor in (0.8, 1.5)]
    assert disagreements(law, eigenvalues, overlaps) == []
    for factor in (0.9, 1.1):
        wrong = disagreements(law.rescaled(factor), eigenvalues, overlaps)
        assert {"edge", "r_transform", "frobenius"} <= set(wrong)
    below = [overlap(noises, factor * law.detectable) for factor in (0.5, 0.9)]
    assert "detectable" in disagreements(law, eigenvalues, below)


# Gates.


def assert_isotropic(made):
    """Check for a multiple of the identity on the features, and a separate intercept entry."""
    matrix = best_estimate(made)
    features = np.diag(matrix)[:-1]
    np.testing.assert_array_equal(matrix, np.diag(np.diag(matrix)))
    assert (features == features[0]).all()
    assert features[0] >= 0
    if made.published is not None:
        assert (made.correlation() == np.eye(len(features))).all()


@pytest.mark.parametrize(
    "request_",  # at one seed of ten noise passes for rows
    [
        {"epsilon": 0.02, "seed": 1},
        {
            "epsilon": 0.02,
            "seed": 1,
            "mechanism": "standardized",
            "look_share": 0.05,
            "directions_share": 0.11,
        },
        {"rho": 1e-4, "epsilon": None},
    ],
    ids=str,
)
def test_where_nothing_shows_the_answer_is_a_multiple_of_the_identity(request_):
    made = released(20, "shrink", **request_)
    assert made.published is not None
    assert_isotropic(made)
    clear = released(20_000, "shrink", epsilon=1.0)
    assert np.abs(clear.second_moment()[0, 1]) > 0


def threshold(**request):
    """Return the largest number of rows at which the public gate is shut."""
    law = released(10**5, **request)
    return math.ceil(law.noise.detectable / law.lattice.bound) - 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "request_",
    [
        {"epsilon": 0.05, "mechanism": "matrix-laplace"},
        {"rho": 1e-4, "epsilon": None, "mechanism": "gaussian"},
    ],
    ids=str,
)
def test_the_public_gate_releases_the_trace_alone_with_the_whole_budget(method, request_, tmp_path):
    request_ = request_ | {"neighbors": "replace-one"}
    most = threshold(**request_)
    few = released(most, method, **request_)
    assert (few.noise, few.published) == (None, None)
    enough = released(most + 1, method, **request_)
    assert enough.published is not None
    assert (
        few.find(NoisyTrace).noise.standard_deviation
        < 0.8 * enough.find(NoisyTrace).noise.standard_deviation
    )
    with pytest.raises(ReleaseError, match="a noisy trace, because"):
        few.noisy()
    assert_isotropic(few)
    with pytest.raises(ReleaseError, match="a noisy trace, because"):
        few.second_moment()
    corner = best_estimate(few)[-1, -1]
    assert corner == pytest.approx(most * few.intercept() ** 2)
    few.save(tmp_path / "r.json")
    loaded = Release.load(tmp_path / "r.json")
    assert loaded.published is None
    assert loaded.denoised is few.denoised is None
    np.testing.assert_array_equal(best_estimate(loaded), best_estimate(few))


@pytest.mark.parametrize("method", METHODS)
def test_a_file_holds_no_denoised_matrix_and_leads_to_the_same(method, tmp_path):
    made = dpcov.release(np.eye(30)[:, :6], lower=0, upper=1, epsilon=1.0, denoise=method, seed=1)
    made.save(tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text())["denoised"] is None
    loaded = Release.load(tmp_path / "r.json")
    assert loaded == made
    np.testing.assert_array_equal(loaded.second_moment(), made.second_moment())


def test_the_public_gate_depends_on_the_number_of_rows_only():
    for values in (np.zeros((30, 4)), np.ones((30, 4)), np.full((30, 4), np.nan)):
        made = dpcov.release(
            values, lower=0, upper=1, epsilon=0.05, neighbors="replace-one", seed=3
        )
        assert made.published is None
    private = dpcov.release(np.ones((0, 4)), lower=0, upper=1, epsilon=0.05, seed=3)
    assert private.published is not None


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("trace", [-(10**25), -1, 0, 1, 10**25])
def test_any_private_trace_gives_a_finite_matrix(method, trace):
    for mechanism in ("matrix-laplace", "standardized"):
        told = changed(released(500, mechanism=mechanism), published_trace=trace)
        made = denoise(told, method)
        assert np.isfinite(made.second_moment()).all()
        assert np.isfinite(made.covariance()).all()
        if trace <= 0 and method == "project" and mechanism == "matrix-laplace":
            assert not made.second_moment().any()


def test_the_gate_is_half_the_limit_where_simulation_can_see_and_the_limit_elsewhere():
    for d, factor in ((10, MIN_SIMULATION_SNR), (1000, 1.0)):
        law = law_of(NAMES[0], d)
        assert package.nothing_shows(law, 0.99 * factor * law.detectable)
        assert not package.nothing_shows(law, 1.01 * factor * law.detectable)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.floats(0.1, 10))
def test_james_stein_takes_more_of_what_is_less_sure(x, s, c):
    shrunk = float(james_stein(x, s, c))
    assert 0 <= shrunk <= max(x, 0)
    assert (shrunk == 0) == (x <= np.sqrt(c) * s) or shrunk < 1e-9 * s
    assert shrunk == pytest.approx(max(0, x - c * s**2 / x) if x > 0 else 0, rel=1e-6, abs=1e-6 * s)


# From the release alone, again and again.


def test_denoising_imports_nothing_that_sees_rows():
    seen = set()
    for path in Path(package.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                seen.add(node.module)
    assert not {
        name
        for name in seen
        if name.startswith(("dpcov.rows.sources", "dpcov.rows.encoder", "dpcov.rows.cells"))
    }


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("first", METHODS)
@pytest.mark.parametrize("second", METHODS)
def test_denoising_can_be_redone_from_a_file(first, second, neighbors, tmp_path):
    made = released(2000, first, neighbors=neighbors)
    made.save(tmp_path / "r.json")
    again = denoise(Release.load(tmp_path / "r.json"), second, generator=np.random.default_rng(1))
    direct = denoise(
        released(2000, neighbors=neighbors), second, generator=np.random.default_rng(1)
    )
    assert again.denoise == second
    np.testing.assert_array_equal(again.second_moment(), direct.second_moment())


def test_simulations_are_independent_of_the_noise():
    made = released(3000)
    one, other = (denoise(made, generator=np.random.default_rng(seed)) for seed in (1, 2))
    np.testing.assert_array_equal(one.published, other.published)
    difference = np.linalg.norm(one.second_moment() - other.second_moment())
    assert 0 < difference < 0.2 * np.linalg.norm(made.second_moment())
    again = [denoise(made).second_moment() for _ in range(2)]  # the rounds are the seed
    np.testing.assert_array_equal(again[0], again[1])
    other = released(3000, seed=8)
    assert seed_of(made) != seed_of(other)
    assert seed_of(made) == seed_of(replace(made, provenance={}, denoise="none"))


def test_the_seed_of_the_noise_and_that_of_simulations_give_different_streams():
    noise = Entropy.seeded(7).words(1000)
    simulated = simulation_generator(7).bit_generator.random_raw(1000)
    assert not np.isin(noise, simulated).any()


def test_no_seed_and_no_key_is_in_the_file(tmp_path):
    seed = 918273645546372819
    made = released(2000, "shrink", seed=seed)
    made.save(tmp_path / "r.json")
    text = (tmp_path / "r.json").read_text().lower()
    keys = [
        hashlib.sha256(f"dpcov:{use}:{seed}".encode()).digest() for use in ("noise", "simulation")
    ]
    for secret in (str(seed), *(k.hex() for k in keys), *(str(int.from_bytes(k)) for k in keys)):
        assert secret[:12] not in text
    assert text.count('"seed"') == 1  # a word of its own, for the draws of the map alone
    (matrix,) = (one for one in json.loads(text)["rounds"] if one["query"] == "matrix")
    assert matrix["answer"]["rows"]["transform"]["seed"] != seed
    assert '"key"' not in text


def test_an_unknown_method_is_refused():
    with pytest.raises(ReleaseError, match="none, project, shrink"):
        denoise(released(100), "magic")


def test_a_release_without_a_noise_law_is_projected_within_its_public_trace():
    made = released(30, mechanism="kapralov-talwar", epsilon=0.1, neighbors="replace-one")
    assert made.noise is None
    assert made.find(NoisyTrace) is None
    found = denoise(made, "shrink")
    assert found.denoise == "project"
    limit = made.unit_count * made.lattice.bound * made.lattice.step**2
    assert np.trace(made.noisy()) > limit
    assert np.trace(found.second_moment()) == pytest.approx(limit)
    assert np.linalg.eigvalsh(found.second_moment())[0] > -1e-12 * limit
