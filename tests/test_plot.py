"""Plots: what the axes show, and that names are shown as they are."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib", reason="plots need the extra `report`")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

import dpcov  # noqa: E402
from dpcov import plot  # noqa: E402
from dpcov.analysis.correlation import clustered_order, clusters  # noqa: E402
from dpcov.analysis.spectrum import noisy_spectrum  # noqa: E402
from dpcov.api.plans import plan  # noqa: E402
from dpcov.errors import ReleaseError  # noqa: E402
from dpcov.rows.schema import Schema  # noqa: E402
from pages_for_tests import HOSTILE, hostile, numeric  # noqa: E402


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def release():
    return numeric(5)


def shuffled_blocks(sizes: list[int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a correlation matrix of blocks in random order, and the block of each feature."""
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    matrix = np.where(labels[:, None] == labels, 0.7, 0.02)
    signs = np.where(np.arange(len(labels)) % 2, -1.0, 1.0)
    matrix *= np.outer(signs, signs)
    np.fill_diagonal(matrix, 1.0)
    return matrix, labels


@pytest.mark.parametrize("sizes", [[2, 3, 5], [30, 40, 38]], ids=["10", "108"])
def test_groups_are_the_blocks_that_were_planted_whatever_the_signs(sizes):
    matrix, labels = shuffled_blocks(sizes, 1)
    found = clusters(matrix)
    assert sorted(map(len, found)) == sorted(sizes)
    assert all(len(set(labels[group])) == 1 for group in found)
    assert sorted(clustered_order(matrix)) == list(range(len(labels)))


def test_features_alone_come_last_and_noise_makes_no_group():
    matrix, labels = shuffled_blocks([1, 3, 1], 2)
    found = clusters(matrix)
    assert [len(group) for group in found] == [3, 1, 1]
    drowned = clusters(matrix, noise=np.full(matrix.shape, 0.5))
    assert [len(group) for group in drowned] == [1] * len(labels)


def test_a_heatmap_shows_the_correlations_in_its_order(release):
    axes = plot.heatmap(release)
    names = [label.get_text() for label in axes.get_yticklabels()]
    order = [release.columns.index(name) for name in names]
    shown = axes.images[0].get_array()
    expected = release.correlation()[np.ix_(order, order)]
    off = ~np.eye(5, dtype=bool)
    assert np.array_equal(np.asarray(shown)[off], expected[off])
    assert sorted(order) == list(range(5))
    unordered = plot.heatmap(release, cluster=False)
    assert [label.get_text() for label in unordered.get_yticklabels()] == list(release.columns)


def test_a_heatmap_of_partial_correlations_is_drawn_on_the_axes_given(release):
    _, axes = plt.subplots()
    assert plot.heatmap(dpcov.partial_correlations(release), ax=axes) is axes


def test_figures_in_deep_colours_are_black():
    matrix = np.array([[1.0, 0.95, 0.3], [0.95, 1.0, 0.2], [0.3, 0.2, 1.0]])
    named = dpcov.analysis.correlation.NamedMatrix(("a", "b", "c"), matrix)
    with plt.rc_context({"text.color": "white"}):
        axes = plot.heatmap(named)
    colours = {text.get_text(): text.get_color() for text in axes.texts}
    assert colours == {"0.95": "black", "0.30": "white", "0.20": "white"}


def test_colours_fade_to_nothing_at_zero_and_differ_by_sign():
    colours = plot.colours()
    assert colours(0.5)[3] < 0.01
    positive, negative = colours(1.0), colours(0.0)
    assert positive[3] == negative[3] == 1.0
    assert positive[2] > positive[0]
    assert negative[0] > negative[2]


def test_the_spectrum_is_that_of_the_covariance_and_its_floor_is_what_noise_reaches(release):
    found = noisy_spectrum(release, generator=np.random.default_rng(1))
    scales = np.array([feature.scale for feature in release.schema.features])
    covariance = release.covariance() / np.outer(scales, scales)
    assert found.denoised == pytest.approx(np.linalg.eigvalsh(covariance)[::-1])
    axes = plot.spectrum(found)
    assert [bar.get_height() for bar in axes.patches] == pytest.approx(list(found.denoised))
    assert found.above == np.count_nonzero(found.published > found.floor)


def test_the_pairs_of_a_release_are_its_strongest(release):
    axes = plot.pairs(release)
    (first, *_), matrix = axes.get_yticklabels(), release.correlation()
    i, j = (release.columns.index(name) for name in first.get_text().split(" - "))
    assert matrix[i, j] in axes.lines[2].get_xdata()  # after the axis and the interval
    assert len(axes.get_yticklabels()) == 10
    with pytest.raises(ReleaseError, match="low and high"):
        plot.pairs(["a - b"])
    with pytest.warns(FutureWarning, match="^names is now release"):
        former = plot.pairs(names=["a - b"], values=[0.4], low=[0.3], high=[0.5])
    assert [label.get_text() for label in former.get_yticklabels()] == ["a - b"]


def test_intervals_are_drawn_with_the_names_and_ends_of_the_statistic(release):
    found = dpcov.intervals(release, "mean")
    axes = plot.intervals(release, "mean", most=3)
    names = [label.get_text() for label in axes.get_yticklabels()]
    drawn = {tuple(line.get_xdata()) for line in axes.lines if len(line.get_xdata()) == 2}
    at = [release.columns.index(name) for name in names]
    assert len(at) == 3
    assert {(found.low[j], found.high[j]) for j in at} <= drawn
    assert len(plot.intervals(release).get_yticklabels()) == 10  # the pairs of five features


def test_a_biplot_has_an_arrow_for_each_feature_with_its_loadings(release):
    axes = plot.biplot(release)
    found = dpcov.pca(release, 2, correlation=True)
    names = {text.get_text() for text in axes.texts}
    assert names - {""} == set(release.columns)
    tips = {tuple(np.round(one.xy, 9)) for one in axes.texts if one.get_text() == ""}
    scaled = found.components * np.sqrt(found.explained_variance)[:, None]
    assert tips == {tuple(np.round(one, 9)) for one in scaled.T}
    assert "PC1" in plot.biplot(found).get_xlabel()
    with pytest.raises(ReleaseError, match="two principal components"):
        plot.biplot(dpcov.pca(release, 1))


def test_the_diagonal_of_a_heatmap_is_grey(release):
    *_, itself = plot.heatmap(release).images
    assert np.array_equal(~np.ma.getmaskarray(itself.get_array()), np.eye(5, dtype=bool))
    assert itself.cmap(1.0)[:3] == pytest.approx((0.5, 0.5, 0.5), abs=0.01)


def test_noise_alone_exceeds_the_floor_one_time_in_twenty():
    ratios = []
    for seed in range(80):
        made = dpcov.release(
            np.zeros((2000, 4)), lower=-1, upper=1, epsilon=1.0, mechanism="matrix-laplace",
            seed=seed, denoise="none",
        )  # fmt: skip
        found = noisy_spectrum(made, generator=np.random.default_rng(seed))
        ratios.append(found.published[0] / found.floor)
    most = 0.05 + 3 * np.sqrt(0.05 * 0.95 / len(ratios))
    assert np.mean(np.array(ratios) > 1) < most
    assert np.mean(np.array(ratios) > 0.7) > most  # a floor of 70% would differ


def test_a_graph_has_a_line_for_each_edge_with_the_sign_in_its_style(release):
    found = dpcov.precision(release, alpha=0.02)
    axes = plot.graph(found)
    lines = [line for line in axes.lines if len(line.get_xdata()) == 2]
    assert len(lines) == len(found.edges) > 0
    negative = sum(edge.partial_correlation < 0 for edge in found.edges)
    assert sum(line.get_linestyle() == "--" for line in lines) == negative
    assert {text.get_text() for text in axes.texts} == set(release.columns)


def test_coefficients_are_ordered_by_size_in_the_units_asked_for(release):
    fit = dpcov.ols(release, "column 0")
    axes = plot.coefficients(fit, release=release)
    dots = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
    assert list(np.abs(dots)) == sorted(np.abs(dots), reverse=True)
    deviation = np.sqrt(np.diag(release.covariance()))[1:]
    assert sorted(dots) == pytest.approx(sorted(fit.coefficients[1:] * deviation))
    plain = plot.coefficients(dpcov.ridge(release, "column 0", 0.1), most=2)
    assert len(plain.get_yticklabels()) == 2


def test_the_curve_of_a_plan_falls():
    schema = Schema.from_bounds(-1, 1, ["a", "b", "c"])
    axes = plot.curve(plan(schema, 3000, epsilon=1.0, mechanism="matrix-laplace"))
    values = axes.lines[0].get_ydata()
    assert len(values) == 7
    assert values[-1] < values[0]


def test_names_are_neither_markup_nor_mathematics_nor_too_long():
    made = hostile()
    axes = plot.heatmap(made)
    texts = [label.get_text() for label in axes.get_yticklabels()]
    assert r"$\frac{1}{" in texts
    assert not axes.get_yticklabels()[0].get_parse_math()
    assert all(len(text) <= plot.MAX_PICTURE_NAME_CHARACTERS for text in texts)
    assert all(text.isprintable() for text in texts)
    assert plot.shortened(HOSTILE[7]).startswith("long long")


def test_one_feature_alone_has_no_heatmap():
    with pytest.raises(ReleaseError, match="at least two features"):
        plot.heatmap(numeric(1))


def test_plots_and_report_are_reached_without_an_import_of_their_own():
    code = "import dpcov, sys; assert 'dpcov.plot' not in sys.modules; dpcov.plot.heatmap"
    subprocess.run([sys.executable, "-c", f"{code}; dpcov.report.write"], check=True)
