"""Plausible second moments: of what errors are made and what they keep, by the stated laws."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.linalg import null_space

import dpcov
from dpcov.core.entropy import simulation_generator
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.denoise import denoise
from dpcov.denoise.structure import Structure
from dpcov.errors import ReleaseError
from dpcov.estimate import Estimate
from dpcov.estimate import errors as drawing
from dpcov.estimate.errors import ClippingErrors, RoundingErrors
from dpcov.published.clipping import ClippingBias
from dpcov.published.record import CountEstimate
from dpcov.releases import Release
from dpcov.rows.schema import Schema
from rounds_for_tests import changed
from tables_for_tests import correlated

P = 3
ASKED: dict[str, dict[str, Any]] = {
    "pure": {"mechanism": "matrix-laplace", "epsilon": 1.0},
    "gaussian": {"mechanism": "gaussian", "rho": 0.05},
    "drowned": {"mechanism": "gaussian", "rho": 1e-6},
    "no rows": {"mechanism": "gaussian", "rho": 1e-6},
    "public count": {"mechanism": "gaussian", "rho": 0.05, "neighbors": "replace-one"},
    "no intercept": {"mechanism": "gaussian", "rho": 0.05, "intercept": 0.0},
    "mapped": {"mechanism": "standardized", "rho": 0.05, "directions_share": 0.1},
    "clipped": {"mechanism": "standardized", "rho": 0.05, "directions_share": 0.1},
}
each = pytest.mark.parametrize("kind", ASKED)


@cache
def made(kind: str) -> Release:
    table = correlated(2 if kind == "no rows" else 8000, P)
    found = dpcov.release(table, lower=-1, upper=1, seed=1, **ASKED[kind])
    if kind == "clipped":  # as if rows had been, at a quarter of the radius
        found = found.with_denoised("shrink", found.second_moment())
        return changed(found, lattice=replace(found.lattice, radius=found.lattice.radius / 4))
    return found


def law_of(release: Release) -> Any:
    assert release.noise is not None
    return release.noise.rescaled(release.lattice.step**2)


def mapped_center(release: Release) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the estimate of transformed rows, its directions about the mean, and their squares."""
    whole = release.mapped(Estimate.of(release).counted(release.second_moment()))
    if release.has_intercept:
        whole[-1, -1] = max(whole[-1, -1], release.intercept() ** 2)
    least = drawing.MIN_DIRECTION_SNR * np.sqrt(law_of(release).diagonal_variance)
    return raised(release, whole, np.eye(P), least)


def raised(release: Release, whole: np.ndarray, free: np.ndarray, least: float) -> Any:
    about, p = np.zeros_like(whole), len(free)
    if release.has_intercept:
        about = np.outer(whole[-1], whole[-1]) / whole[-1, -1]
    values, vectors = np.linalg.eigh(free.T @ (whole - about)[:p, :p] @ free)
    values, vectors = np.maximum(values, least), free @ vectors
    about[:p, :p] += vectors @ np.diag(values) @ vectors.T
    return about, vectors, values


@each
def test_the_estimate_has_no_direction_with_less_than_its_noise(kind: str) -> None:
    release = made(kind)
    center, _, values = mapped_center(release)
    truths = Estimate.of(release).errors(sampling=False, generator=simulation_generator(1))
    assert release.mapped(truths.center) == pytest.approx(center, rel=1e-6, abs=1e-6)
    assert Estimate.of(release).center == pytest.approx(truths.center)
    assert (values[0] == values[-1]) == (kind in ("drowned", "no rows"))  # a control: all raised
    best, unlike = CountEstimate.of(release), kind == "no rows"
    assert (best is not None and best.value < 1) == unlike  # a control: less than one row


@each
def test_an_error_keeps_the_share_of_a_normal_posterior_in_each_direction(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RoundingErrors, "draw", lambda *_: 0.0)  # which are kept whole, and
    monkeypatch.setattr(ClippingErrors, "draw_total_error", lambda *_: 0.0)
    release = made(kind)
    _, vectors, values = mapped_center(release)
    law, same = law_of(release), np.eye(P)
    d, diagonal = law.dimension, law.diagonal_variance
    other = (law.frobenius_squared - d * diagonal) / (d * (d - 1))
    moment = release.mapped(Estimate.of(release).counted(release.second_moment()))
    clip = ClippingErrors(release, ClippingBias(release, moment))
    noise = np.where(same, diagonal, other) + clip.variances(vectors)
    prior = np.outer(values, values) * (1 + same) / drawing.PRIOR_ROWS
    share = np.sqrt(prior / (prior + noise))
    truths = Estimate.of(release).errors(
        sampling=False, generator=simulation_generator(1), draws=20
    )
    nothing = 1e-9 * np.sqrt(diagonal)
    for kept, whole in truths.both():
        for one, at_once in zip(kept, whole, strict=True):
            found, all_ = (vectors.T @ release.mapped(e)[:P, :P] @ vectors for e in (one, at_once))
            assert found == pytest.approx(share * all_, abs=nothing)
            if release.has_intercept and release.linear_map is None:
                assert one[:, -1] == pytest.approx(at_once[:, -1], abs=nothing)
    assert (share.max() < 0.8) == (kind in ("drowned", "no rows"))
    assert clip.variances(vectors).any() == (kind in ("mapped", "clipped"))


@pytest.mark.parametrize(("part", "sign", "damped"), [
    ((RoundingErrors, "draw"), 1, False),
    ((ClippingErrors, "draw_shape_error"), -1, True),
    ((ClippingErrors, "draw_total_error"), -1, False),
])  # fmt: skip
def test_what_rounding_and_a_clip_may_have_done_is_in_every_error(
    part: tuple[type, str], sign: int, damped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a clip took is missing from the center: a truth is the center less an error."""
    release = made("clipped")
    vectors, own = mapped_center(release)[1], np.zeros((P + 1, P + 1))
    own[:P, :P] = 5.0 * np.outer(vectors[:, 0], vectors[:, 0])

    def errors(done: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        monkeypatch.setattr(*part, lambda *_: done)
        asked = {"sampling": False, "generator": simulation_generator(1)}
        ((kept, whole),) = Estimate.of(release).errors(**asked, draws=3).both()
        return kept, whole

    kept, whole = (with_it - without for with_it, without in zip(
        errors(own), errors(0 * own), strict=True
    ))  # fmt: skip
    moved = own if part[0] is RoundingErrors else release.unmapped(own)
    assert whole == pytest.approx(np.array([sign * moved] * 3))
    shares = kept[:, 0, 0] / whole[:, 0, 0]
    assert kept == pytest.approx(shares[:, None, None] * whole)
    assert np.all(shares < 0.99) if damped else shares == pytest.approx(np.ones(3))


def test_by_the_law_alone_errors_have_its_size_about_the_noisy_matrix() -> None:
    release = made("gaussian")
    alone = Estimate.of(release).errors(
        sampling=False, generator=simulation_generator(1), draws=2000, alone=True
    )
    assert alone.center == pytest.approx(Estimate.of(release).noisy)
    assert Estimate.of(release).noisy[:P, :P] == pytest.approx(release.noisy()[:P, :P])
    errors = np.concatenate(list(alone.batches()))
    law = release.noise.rescaled(release.lattice.step**2)  # type: ignore[union-attr]
    assert errors.shape == (2000, P + 1, P + 1)
    assert errors[:, 0, 0].std() == pytest.approx(np.sqrt(law.diagonal_variance), rel=0.1)
    assert errors[:, 1, 0].std() == pytest.approx(np.sqrt(law.diagonal_variance / 2), rel=0.1)


def test_by_the_law_alone_all_of_an_error_is_kept() -> None:
    asked = {"sampling": True, "generator": simulation_generator(1), "draws": 5}
    ((kept, whole),) = Estimate.of(made("gaussian")).errors(**asked, alone=True).both()
    assert np.array_equal(kept, whole)
    assert len(kept) == 5


def test_what_a_clip_is_expected_to_have_taken_is_given_back_in_the_shape_of_the_estimate() -> None:
    release = made("clipped")
    assert release.lengths is not None
    taken = release.lengths.squared_norm_loss(release.lattice.radius).estimate
    assert taken > 0
    shape = release.unmapped(np.diag([3.0, 2.0, 1.0, 0.0]) + 1e-9 * np.eye(P + 1))
    given = release.mapped(Estimate.of(replace(release, denoised=shape)).noisy)[:P, :P]
    noisy = release.mapped(Estimate.of(release).counted(release.noisy()))[:P, :P]
    assert given - noisy == pytest.approx(taken * np.diag([3, 2, 1]) / 6, rel=1e-6, abs=1e-6)
    plain = release.with_denoised("none", None)
    projected = Estimate.of(denoise(plain, "project")).noisy
    assert Estimate.of(plain).noisy == pytest.approx(projected)
    without = changed(release, lengths=None)
    assert Estimate.of(without).noisy == pytest.approx(
        Estimate.of(without).counted(without.noisy())
    )


def test_there_are_fewer_draws_of_large_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    release = made("gaussian")

    def draws(numbers: int) -> int:
        monkeypatch.setattr(drawing, "MAX_DRAWN_ENTRIES", numbers)
        asked = {"sampling": False, "generator": simulation_generator(1)}
        return Estimate.of(release).errors(**asked, draws=500).draws

    assert draws(10**7) == 500
    assert draws(16 * 300) == 300
    assert draws(16) == drawing.MIN_ERROR_DRAWS


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def errors() -> list[np.ndarray]:
        truths = Estimate.of(made("pure")).errors(
            sampling=True, generator=simulation_generator(1), draws=50
        )
        return list(truths.batches())

    (whole,) = errors()
    for numbers, sizes in ((16 * 20, [20, 20, 10]), (1, [1] * 50)):
        monkeypatch.setattr(drawing, "MAX_BATCH_ENTRIES", numbers)
        several = errors()
        assert [len(part) for part in several] == sizes
        assert np.array_equal(np.concatenate(several), whole)


def test_of_draws_and_one_more_2_5_percent_are_a_whole_number() -> None:
    assert (drawing.ERROR_DRAWS + 1) % 40 == (drawing.MIN_ERROR_DRAWS + 1) % 40 == 0


@pytest.mark.parametrize("kind", ["pure", "gaussian", "mapped", "public count", "no intercept"])
def test_the_corner_s_error_is_that_of_the_best_count(kind: str) -> None:
    release = made(kind)
    truths = Estimate.of(release).errors(
        sampling=False, generator=simulation_generator(1), draws=2000, alone=True
    )
    corners = np.concatenate(list(truths.batches()))[:, -1, -1]
    if kind == "public count":
        assert not corners.any()
        return
    best, t = CountEstimate.of(release), release.intercept()
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
    truths = Estimate.of(release).errors(
        sampling=False, generator=simulation_generator(1), draws=2000, alone=True
    )
    best = CountEstimate.of(release)
    assert best is not None
    corners = np.concatenate(list(truths.batches()))[:, -1, -1]
    assert corners.std() == pytest.approx(best.deviation * release.intercept() ** 2, rel=0.1)


def test_a_release_without_a_law_has_no_plausible_errors() -> None:
    asked = {"sampling": False, "generator": simulation_generator(1)}
    with pytest.raises(ReleaseError, match="no known distribution"):
        Estimate.of(changed(made("gaussian"), noise=None)).errors(**asked)
    without = changed(made("gaussian"), noise=None)
    assert np.array_equal(
        Estimate.of(without).center, Estimate.of(without).counted(without.second_moment())
    )


@pytest.mark.parametrize(
    "law", [GaussianOrthogonal(4, Fraction(9)), WishartDifference(4, 2.0)], ids=str
)
def test_variances_of_entries_are_those_of_draws_in_any_basis(law: Any) -> None:
    generator = np.random.default_rng(1)
    draws = np.stack([law.simulate(generator) for _ in range(20_000)])
    basis, _ = np.linalg.qr(generator.normal(size=(4, 4)))
    squares = np.mean((basis.T @ draws @ basis) ** 2, axis=0)
    diagonal, other = drawing._variances(law)
    assert np.diag(squares).mean() == pytest.approx(diagonal, rel=0.05)
    assert squares[np.tril_indices(4, -1)].mean() == pytest.approx(other, rel=0.05)
    single = GaussianOrthogonal(1, Fraction(9))
    assert drawing._variances(single) == (single.diagonal_variance,) * 2
    pair = GaussianOrthogonal(2, Fraction(9))  # half as much off the diagonal
    assert drawing._variances(pair) == (pair.diagonal_variance, pair.diagonal_variance / 2)


@pytest.mark.parametrize("rows", [800, 3200])
def test_sampling_errors_are_those_of_as_many_rows_but_for_what_is_added(rows: int) -> None:
    """The sum of w w' over n independent rows w has the covariance n Cov(w w')."""
    table = 0.3 * correlated(rows, P)
    release = dpcov.release(table, lower=-1, upper=1, epsilon=1e6, mechanism="matrix-laplace")
    errors = Estimate.of(release).row_model.errors(3000, simulation_generator(1))
    assert np.array_equal(errors, errors.swapaxes(1, 2))
    whole = np.column_stack([table, np.full(rows, release.intercept())])
    products = whole[:, :, None] * whole[:, None, :]
    wanted = np.sqrt(rows) * products.std(axis=0)
    size = errors.std(axis=0) / drawing.SAMPLING_ERROR_FACTOR
    assert size[:, :P] == pytest.approx(wanted[:, :P], rel=0.12)
    assert np.abs(errors[:, -1, -1]).max() < 1e-6 * wanted.max()  # as many rows each time
    assert np.abs(errors.mean(axis=0)).max() < 0.1 * wanted.max()


NUMBER = {"kind": "numeric", "lower": -1, "upper": 1}


def with_columns(columns: dict[str, Any], table: Any, **asked: Any) -> Release:
    request = {"epsilon": 1e6, "mechanism": "matrix-laplace"} | asked
    return dpcov.release(table, schema=Schema.parse({"columns": columns}), seed=1, **request)


def assert_sampling_errors_of(release: Release, encoded: np.ndarray) -> None:
    """Check the deviations of sums over as many independent rows, within 10%."""
    whole = np.column_stack([encoded, np.full(len(encoded), release.intercept())])
    wanted = np.sqrt(len(encoded)) * (whole[:, :, None] * whole[:, None, :]).std(axis=0)
    errors = Estimate.of(release).row_model.errors(3000, simulation_generator(1))
    found = errors.std(axis=0) / drawing.SAMPLING_ERROR_FACTOR
    assert found == pytest.approx(wanted, rel=0.1, abs=0.1 * wanted.max())
    assert 0.9 < np.exp(np.mean(np.log(found[wanted > 0] / wanted[wanted > 0]))) < 1.1


def test_sampling_errors_know_what_bounds_and_levels_say_of_rows() -> None:
    """Squares of -1 and 1 do not vary, an indicator is its own square, a tail has a side."""
    generator, size = np.random.default_rng(1), 2000
    town = generator.random(size) < 0.2
    numbers = [2 * generator.beta(0.5, 2, size) - 1, np.where(generator.random(size) < 0.3, -1, 1)]
    table = pa.table({"skewed": numbers[0], "sign": numbers[1], "town": np.where(town, "a", "b")})
    columns = {
        "skewed": NUMBER,
        "sign": NUMBER,
        "town": {"kind": "categorical", "levels": ["a", "b"]},
    }
    release = with_columns(columns, table)
    assert_sampling_errors_of(release, np.column_stack([*numbers, town, ~town]))


def test_sampling_errors_of_cells_that_may_be_missing_are_those_of_encoded_rows() -> None:
    generator, size = np.random.default_rng(1), 2000
    cells = 2 * generator.beta(2, 2, (size, 2)) - 1
    cells[:, 1] = 0.6 * cells[:, 0] + 0.4 * cells[:, 1]
    there = generator.random((size, 2)) < [0.7, 0.5]
    columns = {name: NUMBER | {"missing": "pairwise"} for name in "xy"}
    release = with_columns(columns, np.where(there, cells, np.nan))
    encoded = np.stack([np.where(there, cells, 0.0), ~there], axis=2).reshape(size, 4)
    assert [feature.variable for feature in release.schema.features] == [True, False] * 2
    assert_sampling_errors_of(release, encoded)


@pytest.mark.parametrize(
    ("numbers", "rows"),
    [(16 * 30, 30), (16 * 900, 50), (16, 12), (16 * 30 + 15, 30)],
    ids=["as many as numbers allow", "no more than the most", "4 a feature", "rounded down"],
)
def test_rows_that_stand_for_all_are_as_many_as_matrices_are_small(
    numbers: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "PSEUDO_ROW_ENTRIES", numbers)
    monkeypatch.setattr(drawing, "MIN_PSEUDO_ROWS", 2)
    monkeypatch.setattr(drawing, "MAX_PSEUDO_ROWS", 50)
    found, release = Estimate.of(made("gaussian")), made("gaussian")
    drawn = drawing.simulated_rows(
        release.schema, found.encoded, found.covariance, None, simulation_generator(1)
    )
    assert drawn.shape == (rows, P)


@cache
def in_towns(rho: float) -> Release:
    table = pa.table({"town": ["a", "b", "b", "c"] * 500, "x": [0.5, -0.5] * 1000})
    town = {"kind": "categorical", "levels": ["a", "b"], "other": True, "missing": "other"}
    columns = {"town": town, "x": NUMBER}
    return with_columns(columns, table, mechanism="gaussian", rho=rho, epsilon=None)


TOWN = np.array([1, 1, 1, 0]) / np.sqrt(3)  # of which all rows have one


@pytest.mark.parametrize("rho", [0.05, 1e-5])
def test_where_levels_exclude_each_other_the_estimate_does_so_but_for_a_little(rho: float) -> None:
    release = in_towns(rho)
    law, structure = law_of(release), Structure.of(release)
    assert structure is not None
    least, free = np.sqrt(law.diagonal_variance), null_space(TOWN[None])
    first = raised(release, Estimate.of(release).counted(release.second_moment()), free, least)[0]
    wanted = raised(release, structure.nearest(first), free, least / drawing.STRUCTURE_SNR_DIVISOR)[
        0
    ]
    assert Estimate.of(release).center == pytest.approx(wanted, abs=1e-6 * least)
    twos = np.array([wanted[0, 1], wanted[0, 2], wanted[1, 2]])
    assert np.abs(twos).max() < 2 * least / drawing.STRUCTURE_SNR_DIVISOR


@pytest.mark.parametrize("rho", [0.05, 1e-5])
def test_products_of_all_levels_add_up_to_sums_in_the_estimate_and_in_errors(rho: float) -> None:
    """Each row has one level. Otherwise, constants would have plausible variances."""
    release = in_towns(rho)
    truths = Estimate.of(release).errors(sampling=False, generator=simulation_generator(1), draws=5)
    ((kept, whole),) = truths.both()
    t, least = release.intercept(), np.sqrt(law_of(release).diagonal_variance)
    for one in (truths.center, *kept):
        assert one[:, :3].sum(axis=1) == pytest.approx(one[:, -1] / t, abs=0.05 * least)
    apart = [np.abs(one[:, :3].sum(axis=1) - one[:, -1] / t).max() for one in whole]
    assert min(apart) > least  # a control: the noise knows nothing of it


def test_of_an_error_what_levels_forbid_is_not_kept() -> None:
    """The noise is so small that nothing else is lost."""
    release = in_towns(1e4)
    kept, structure = Estimate.of(release)._directions.kept, Structure.of(release)
    assert structure is not None
    noise = np.diag([1.0, -1.0, 2.0, 1.0, 0.0])
    assert kept(noise) == pytest.approx(structure.nearest(noise), abs=0.01)
    assert np.abs(kept(noise) - noise).max() > 0.5  # a control
    t = release.intercept()
    rows = np.array([[1, 0, 0, 0.3, t], [0, 0, 1, -0.2, t]])
    assert kept(rows.T @ rows) == pytest.approx(rows.T @ rows, abs=0.01)


def test_at_large_orders_errors_are_those_that_shrinking_leaves() -> None:
    """Controls: with the noise left whole, or none of it, they are far from what is."""
    rng = np.random.default_rng(5)
    common = rng.normal(size=(20_000, 2)) @ rng.normal(size=(2, 120)) * 0.3
    cells = np.clip((common + rng.normal(size=(20_000, 120))) * 0.2, -1, 1)
    release = dpcov.release(cells, lower=-1, upper=1, rho=0.05, seed=0, mechanism="standardized")
    real = release.correlation() - np.corrcoef(cells, rowvar=False)
    below = np.tril_indices(120, -1)
    size = float(np.sqrt(np.mean(real[below] ** 2)))

    def stated(one: Release) -> float:
        errors = dpcov.correlation_standard_errors(one, generator=np.random.default_rng(0))
        assert errors is not None
        return float(np.sqrt(np.mean(errors[below] ** 2)))

    assert 0.8 < stated(release) / size < 1.7
    whole = replace(release, denoise="project")  # so that no fraction of the noise is stated
    assert stated(whole) / size > 2
    older = release.with_denoised("shrink", release.second_moment() * 1.01)  # by another version
    assert stated(older) / size > 2
