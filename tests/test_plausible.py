"""Plausible second moments: what errors keep of their size, by the law that the module states."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.analysis import plausible
from dpcov.analysis.plausible import PlausibleMoments, estimate, sampling_errors, starting_point
from dpcov.core.entropy import simulation_generator
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.denoise.clipped import Clip
from dpcov.errors import ReleaseError
from dpcov.releases import NoisyCount, Release
from dpcov.rows.schema import Schema
from tables_for_tests import correlated

P = 3
ASKED: dict[str, dict[str, Any]] = {
    "pure": {"mechanism": "matrix-laplace", "epsilon": 1.0},
    "gaussian": {"mechanism": "gaussian", "rho": 0.05},
    "drowned": {"mechanism": "gaussian", "rho": 1e-6},
    "public count": {"mechanism": "gaussian", "rho": 0.05, "neighbors": "replace-one"},
    "no intercept": {"mechanism": "gaussian", "rho": 0.05, "intercept": 0.0},
    "mapped": {"mechanism": "standardized", "rho": 0.05, "directions_share": 0.1},
}
each = pytest.mark.parametrize("kind", ASKED)


@cache
def made(kind: str) -> Release:
    return dpcov.release(correlated(8000, P), lower=-1, upper=1, seed=1, **ASKED[kind])


def mapped_center(release: Release) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The estimate of mapped rows; its directions about the mean, and their sums of squares."""
    law = release.noise.rescaled(release.lattice.step**2)  # type: ignore[union-attr]
    whole = release.mapped(release.with_count(release.second_moment()))
    t = release.intercept()
    about = np.zeros_like(whole)
    if release.has_intercept:
        whole[-1, -1] = max(whole[-1, -1], t**2)
        about = np.outer(whole[-1], whole[-1]) / whole[-1, -1]
    values, vectors = np.linalg.eigh((whole - about)[:P, :P])
    values = np.maximum(values, plausible.LEAST * np.sqrt(law.diagonal_variance))
    about[:P, :P] += vectors @ np.diag(values) @ vectors.T
    return about, vectors, values


@each
def test_the_estimate_has_no_direction_with_less_than_its_noise(kind: str) -> None:
    release = made(kind)
    center, _, values = mapped_center(release)
    truths = PlausibleMoments(release, sampling=False, generator=simulation_generator(1))
    assert release.mapped(truths.center) == pytest.approx(center, rel=1e-6, abs=1e-6)
    assert estimate(release) == pytest.approx(truths.center)
    assert (values[0] == values[-1]) == (kind == "drowned")  # a control: all are raised


@each
def test_an_error_keeps_the_share_of_a_normal_posterior_in_each_direction(kind: str) -> None:
    release = made(kind)
    _, vectors, values = mapped_center(release)
    law = release.noise.rescaled(release.lattice.step**2)  # type: ignore[union-attr]
    same = np.eye(P)
    d, diagonal = law.dimension, law.diagonal_variance
    other = (law.frobenius_squared - d * diagonal) / (d * (d - 1))
    moment = release.mapped(release.with_count(release.second_moment()))
    clip = Clip(release, moment)
    noise = np.where(same, diagonal, other) + clip.variances(vectors)
    prior = np.outer(values, values) * (1 + same) / plausible.ROWS
    share = np.sqrt(prior / (prior + noise))
    truths = PlausibleMoments(release, sampling=False, generator=simulation_generator(1), draws=20)
    rounding = 1e-4 * np.sqrt(diagonal)
    for kept, whole in truths.both():
        for one, at_once in zip(kept, whole, strict=True):
            found, all_ = (vectors.T @ release.mapped(e)[:P, :P] @ vectors for e in (one, at_once))
            if release.linear_map is None:  # else the corner that is better known moves the rest
                assert found == pytest.approx(share * all_, abs=rounding)
                if release.has_intercept:
                    assert one[:, -1] == pytest.approx(at_once[:, -1], abs=rounding)
    assert (share.max() < 0.8) == (kind == "drowned")


def test_by_the_law_alone_errors_have_its_size_about_the_noisy_matrix() -> None:
    release = made("gaussian")
    alone = PlausibleMoments(
        release, sampling=False, generator=simulation_generator(1), draws=2000, alone=True
    )
    assert alone.center == pytest.approx(starting_point(release))
    assert starting_point(release)[:P, :P] == pytest.approx(release.noisy()[:P, :P])
    errors = np.concatenate(list(alone.errors()))
    law = release.noise.rescaled(release.lattice.step**2)  # type: ignore[union-attr]
    assert errors.shape == (2000, P + 1, P + 1)
    assert errors[:, 0, 0].std() == pytest.approx(np.sqrt(law.diagonal_variance), rel=0.1)
    assert errors[:, 1, 0].std() == pytest.approx(np.sqrt(law.diagonal_variance / 2), rel=0.1)


def test_there_are_fewer_draws_of_large_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    release = made("gaussian")

    def draws(numbers: int) -> int:
        monkeypatch.setattr(plausible, "DRAWN_NUMBERS", numbers)
        asked = {"sampling": False, "generator": simulation_generator(1)}
        return PlausibleMoments(release, **asked, draws=500).draws

    assert draws(10**7) == 500
    assert draws(16 * 300) == 300
    assert draws(16) == plausible.FEW_DRAWS


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def errors() -> list[np.ndarray]:
        truths = PlausibleMoments(
            made("pure"), sampling=True, generator=simulation_generator(1), draws=50
        )
        return list(truths.errors())

    (whole,) = errors()
    monkeypatch.setattr(plausible, "BATCH_NUMBERS", 16 * 20)
    several = errors()
    assert [len(part) for part in several] == [20, 20, 10]
    assert np.array_equal(np.concatenate(several), whole)


@pytest.mark.parametrize("kind", ["pure", "gaussian", "mapped", "public count", "no intercept"])
def test_the_corner_s_error_is_that_of_the_best_count(kind: str) -> None:
    release = made(kind)
    truths = PlausibleMoments(
        release, sampling=False, generator=simulation_generator(1), draws=2000, alone=True
    )
    corners = np.concatenate(list(truths.errors()))[:, -1, -1]
    if kind == "public count":
        assert not corners.any()
        return
    best, t = NoisyCount.of(release), release.intercept()
    assert best is not None
    law = release.noise.rescaled(release.lattice.step**2)  # type: ignore[union-attr]
    wanted = best.deviation * t**2 if t else np.sqrt(law.diagonal_variance)
    assert corners.std() == pytest.approx(wanted, rel=0.1)


def test_with_weights_the_corner_s_error_is_that_of_their_sum() -> None:
    columns = {"x": {"kind": "numeric", "lower": -1, "upper": 1}}
    schema = Schema.parse({"columns": columns, "weight": {"column": "w", "maximum": 2}})
    table = pa.table({"x": [0.5, -0.5] * 400, "w": [1.0] * 800})
    asked = {"schema": schema, "rho": 0.05, "mechanism": "gaussian", "seed": 1}
    release = dpcov.release(table, **asked)
    truths = PlausibleMoments(
        release, sampling=False, generator=simulation_generator(1), draws=2000, alone=True
    )
    best = NoisyCount.of(release)
    assert best is not None
    corners = np.concatenate(list(truths.errors()))[:, -1, -1]
    assert corners.std() == pytest.approx(best.deviation * release.intercept() ** 2, rel=0.1)


def test_a_release_without_a_law_has_no_plausible_errors() -> None:
    asked = {"sampling": False, "generator": simulation_generator(1)}
    with pytest.raises(ReleaseError, match="no law"):
        PlausibleMoments(replace(made("gaussian"), noise=None), **asked)
    without = replace(made("gaussian"), noise=None)
    assert np.array_equal(estimate(without), without.with_count(without.second_moment()))


@pytest.mark.parametrize(
    "law", [GaussianOrthogonal(4, Fraction(9)), WishartDifference(4, 2.0)], ids=str
)
def test_variances_of_entries_are_those_of_draws_in_any_basis(law: Any) -> None:
    generator = np.random.default_rng(1)
    draws = np.stack([law.simulate(generator) for _ in range(20_000)])
    basis, _ = np.linalg.qr(generator.normal(size=(4, 4)))
    squares = np.mean((basis.T @ draws @ basis) ** 2, axis=0)
    diagonal, other = plausible._variances(law)
    assert np.diag(squares).mean() == pytest.approx(diagonal, rel=0.05)
    assert squares[np.tril_indices(4, -1)].mean() == pytest.approx(other, rel=0.05)
    single = GaussianOrthogonal(1, Fraction(9))
    assert plausible._variances(single) == (single.diagonal_variance,) * 2


@pytest.mark.parametrize("rows", [800, 3200])
def test_sampling_errors_are_those_of_as_many_rows_but_for_what_is_added(rows: int) -> None:
    """Of n independent rows w the sum of w w' has the covariance n Cov(w w')."""
    table = 0.3 * correlated(rows, P)
    release = dpcov.release(table, lower=-1, upper=1, epsilon=1e6, mechanism="matrix-laplace")
    errors = sampling_errors(release, 3000, simulation_generator(1))
    assert np.array_equal(errors, errors.swapaxes(1, 2))
    whole = np.column_stack([table, np.full(rows, release.intercept())])
    products = whole[:, :, None] * whole[:, None, :]
    wanted = np.sqrt(rows) * products.std(axis=0)
    size = errors.std(axis=0) / plausible.SAFETY
    assert size[:, :P] == pytest.approx(wanted[:, :P], rel=0.12)
    assert np.abs(errors[:, -1, -1]).max() < 1e-6 * wanted.max()  # as many rows each time
    assert np.abs(errors.mean(axis=0)).max() < 0.1 * wanted.max()
