"""The clipping bias: estimated from the norm histogram, with the stated distribution."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import ndtri

import dpcov
from dpcov.analysis import intervals
from dpcov.estimate import Estimate, errors
from dpcov.estimate.errors import ClippingErrors
from dpcov.published.clipping import (
    COLUMN_LOSS_RELATIVE_SD,
    ClippingBias,
    simulated_loss,
)
from rounds_for_tests import changed

P, DRAWS = 3, 20_000


@cache
def released(intercept: float = 0.3) -> dpcov.Release:
    """Return rows with a heavy tail, as if they were clipped at half of the radius."""
    generator = np.random.default_rng(5)
    mix = np.array([[1.0, 0, 0], [0.7, 0.6, 0], [0, 0.3, 0.4]])
    rows = generator.standard_t(3, (20_000, P)) @ mix.T + [3.0, 0, -2]
    made = dpcov.release(
        rows, lower=-50, upper=50, rho=0.2, mechanism="standardized", directions_share=0.1, seed=1
    )
    made = changed(made, lattice=replace(made.lattice, radius=made.lattice.radius / 2))
    assert made.linear_map is not None
    made = changed(made, linear_map=made.linear_map * [1.0, 2.0, 4.0])  # of columns unlike rows
    assert made.lengths is not None
    assert made.lengths.squared_norm_loss(made.lattice.radius).estimate > 0
    if intercept:
        return made
    lattice = replace(made.lattice, intercept=0.0)
    return changed(made, lattice=lattice, linear_map=None, center=None)


def moment(release: dpcov.Release) -> np.ndarray:
    return release.mapped(release.second_moment())


def about_mean(whole: np.ndarray) -> np.ndarray:
    return whole[:P, :P] - np.outer(whole[:P, -1], whole[:P, -1]) / whole[-1, -1]


def test_what_is_expected_lies_where_the_rows_lie_about_their_mean() -> None:
    made, whole = released(), moment(released())
    found = ClippingBias(made, whole).expected()
    size = made.lengths.squared_norm_loss(made.lattice.radius).estimate  # type: ignore[union-attr]
    centred = about_mean(whole)
    assert found[:P, :P] == pytest.approx(size * centred / np.trace(centred))
    assert not found[-1].any()
    assert not found[:, -1].any()
    assert not ClippingBias(changed(made, lengths=None), whole).expected().any()


@pytest.mark.parametrize("last", [0.5, -0.5])
def test_the_mean_s_part_of_a_moment_is_taken_out_wherever_the_mean_is(last: float) -> None:
    sums = np.array([1.0, 2.0, last, 1.0])
    whole = np.outer(sums, sums) + np.diag([3.0, 2.0, 1.0, 0.0])
    assert ClippingBias(released(), whole).shape == pytest.approx(np.diag([1 / 2, 1 / 3, 1 / 6]))


def test_without_an_intercept_it_lies_where_the_moment_does() -> None:
    made, whole = released(intercept=0.0), moment(released())[:P, :P]
    size = made.lengths.squared_norm_loss(made.lattice.radius).estimate  # type: ignore[union-attr]
    assert ClippingBias(made, whole).expected() == pytest.approx(size * whole / np.trace(whole))


@pytest.mark.parametrize("corner", [0.0, -1.0])
def test_of_no_rows_there_is_no_mean(corner: float) -> None:
    whole = np.diag([3.0, 2.0, 1.0, corner])
    lengths = released().lengths
    assert lengths is not None
    size = lengths.squared_norm_loss(released().lattice.radius).estimate
    found = ClippingBias(released(), whole).expected()
    assert found == pytest.approx(size * np.diag([0.5, 1 / 3, 1 / 6, 0]))


def test_directions_below_0_get_nothing() -> None:
    whole = np.diag([2.0, 1.0, -1.0, 5.0])
    assert np.diag(ClippingBias(released(), whole).shape) == pytest.approx([2 / 3, 1 / 3, 0])


@pytest.mark.parametrize("corner", [-9.0, 0.0, 9.0])
def test_of_a_moment_below_0_nothing_is_given_back_and_all_stays_finite(corner: float) -> None:
    """Noise decides on it: an error here would come after the budget is spent."""
    found = ClippingBias(released(), np.diag([-2.0, -1.0, -1.0, corner]))
    assert not found.expected().any()
    errors = ClippingErrors(released(), found)
    assert np.isfinite(errors.draw_shape_error(np.random.default_rng(1))).all()
    assert not errors.draw_total_error(np.random.default_rng(1)).any()
    assert not ClippingBias(released(), np.zeros((4, 4))).expected().any()


@pytest.mark.parametrize(("spread", "given"), [(1e-12, False), (1e-11, True)])
def test_what_is_rounding_has_no_direction(spread: float, given: bool) -> None:
    """All rows are equal, so the rest about their mean is rounding."""
    one = np.array([1.0, 2.0, 0.5, 1.0])
    whole = np.outer(one, one) + spread * np.diag([1.0, 0, 0, 0])
    assert ClippingBias(released(), whole).expected().any() == given


def drawing(release: dpcov.Release, whole: np.ndarray) -> ClippingErrors:
    return ClippingErrors(release, ClippingBias(release, whole))


@cache
def _drawn(intercept: float) -> np.ndarray:
    generator = np.random.default_rng(2)
    clip = drawing(released(intercept), _moment(intercept))
    return np.stack([clip.draw_shape_error(generator) for _ in range(DRAWS)])


def _moment(intercept: float) -> np.ndarray:
    whole = moment(released())
    return whole if intercept else whole[:P, :P]


def along(release: dpcov.Release) -> np.ndarray:
    """Return the transformed columns of the table, scaled to norm 1."""
    images = np.eye(P) if release.linear_map is None else release.linear_map
    return np.stack([image / np.linalg.norm(image) for image in images.T], axis=1)


def squared_size(release: dpcov.Release) -> float:
    """Return the root mean square of the lost squared norm."""
    assert release.lengths is not None
    loss = release.lengths.squared_norm_loss(release.lattice.radius)
    return math.hypot(loss.estimate, loss.standard_deviation)


@pytest.mark.parametrize("intercept", [0.3, 0.0])
def test_draws_have_the_law_of_shares_of_columns(
    intercept: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "AXIS_LOSS_FRACTION", 0.0)
    made, draws = released(intercept), _drawn.__wrapped__(intercept)
    assert made.lengths is not None
    of_norms = made.lengths.norm_loss(made.lattice.radius)
    lost, squared = math.hypot(of_norms.estimate, of_norms.upper), squared_size(made)
    columns = along(made)
    assert draws.shape[1:] == (P + (intercept > 0),) * 2
    assert draws == pytest.approx(draws.swapaxes(1, 2), abs=1e-9 * squared)
    assert np.abs(draws.mean(axis=0)).max() < 0.05 * draws.std(axis=0).max()
    own = np.linalg.inv(columns) @ draws[:, :P, :P] @ np.linalg.inv(columns).T
    shares = np.diagonal(own, axis1=1, axis2=2)
    assert own == pytest.approx(shares[:, None] * np.eye(P), abs=1e-6 * squared)
    assert shares.var(axis=0) == pytest.approx(
        (COLUMN_LOSS_RELATIVE_SD * squared) ** 2 / P, rel=0.05
    )
    assert np.abs(np.corrcoef(shares.T) - np.eye(P)).max() < 0.05
    if intercept:
        sides = draws[:, :P, -1] @ np.linalg.inv(columns).T / made.intercept()
        assert sides.var(axis=0) == pytest.approx(lost**2 / P, rel=0.05)
        assert np.abs(np.corrcoef(sides.T, shares.T) - np.eye(2 * P)).max() < 0.05
        assert not draws[:, -1, -1].any()


def test_draws_have_the_law_of_shares_of_principal_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: along other orthonormal directions, the draws are not uncorrelated shares."""
    monkeypatch.setattr(errors, "AXIS_LOSS_FRACTION", 1.0)
    made, draws = released(), _drawn.__wrapped__(0.3)[:, :P, :P]
    assert made.lengths is not None
    squared = squared_size(made)
    values, axes = np.linalg.eigh(about_mean(moment(made)))
    own = axes.T @ draws @ axes
    shares = np.diagonal(own, axis1=1, axis2=2)
    assert own == pytest.approx(shares[:, None] * np.eye(P), abs=1e-6 * squared)
    fractions = values / values.sum()
    expected = (COLUMN_LOSS_RELATIVE_SD * squared) ** 2 * fractions
    assert shares.var(axis=0) == pytest.approx(expected, rel=0.05)
    assert np.abs(np.corrcoef(shares.T) - np.eye(P)).max() < 0.05
    turned, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(P, P)))
    other = turned.T @ draws @ turned
    assert np.abs(other[:, 0, 1]).max() > 1e-3 * squared


@pytest.mark.parametrize("intercept", [0.3, 0.0])
def test_variances_are_those_of_draws_in_any_basis(intercept: float) -> None:
    made = released(intercept)
    basis, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(P, 2)))
    found = drawing(made, _moment(intercept)).variances(basis)
    seen = (basis.T @ _drawn(intercept)[:, :P, :P] @ basis).var(axis=0)
    assert found == pytest.approx(seen, rel=0.05)


def test_in_all_it_may_be_more_or_less_in_the_shape_of_the_moment() -> None:
    made, whole, generator = released(), moment(released()), np.random.default_rng(1)
    clip = drawing(made, whole)
    assert made.lengths is not None
    deviation = made.lengths.squared_norm_loss(made.lattice.radius).standard_deviation
    draws = np.stack([clip.draw_total_error(generator)[:P, :P] for _ in range(2000)])
    centred = about_mean(whole)
    sizes = np.trace(draws, axis1=1, axis2=2)
    assert draws == pytest.approx(
        sizes[:, None, None] * centred / np.trace(centred), abs=1e-9 * deviation
    )
    assert sizes.std() == pytest.approx(deviation, rel=0.05)
    assert abs(sizes.mean()) < 0.1 * deviation


def test_the_most_that_can_lie_beyond_is_stated_for_variance_and_means() -> None:
    made, whole = released(), moment(released())
    assert made.lengths is not None
    squared, length = made.lengths.loss_upper_bounds(made.lattice.radius, 0.95)
    centred = about_mean(whole)
    assert made.linear_map is not None
    back = np.linalg.inv(made.linear_map)
    deviations = np.sqrt(np.diag(back @ centred @ back.T) / made.count())
    farthest = np.max(np.linalg.norm(back, axis=1) / deviations) * length / made.count()
    of_all, of_mean = ClippingBias(made, whole).upper_bounds(0.95)
    assert of_all == pytest.approx(squared / np.trace(centred))
    assert of_mean == pytest.approx(farthest)
    said = ClippingBias(made, whole).limits_in_words(0.95)
    assert f"at most {of_all:.2g} times" in said
    assert f"more than {of_mean:.2g} standard deviations" in said
    assert f"fewer than {made.lengths.smallest_detectable_group:,} rows far from all" in said


def test_a_column_that_does_not_vary_has_no_part_in_the_bound_on_means() -> None:
    made, whole = changed(released(), linear_map=None), moment(released())
    whole[0] = whole[:, 0] = 0
    assert np.isfinite(ClippingBias(made, whole).upper_bounds(0.95)).all()


def test_without_counts_or_rows_nothing_is_said_of_how_much_lies_beyond() -> None:
    made, whole = replace(released()), moment(released())
    clips = [ClippingBias(changed(made, lengths=None), whole), ClippingBias(made, whole)]
    assert ClippingBias(made, np.zeros((P + 1, P + 1))).upper_bounds(0.95) == (np.inf, np.inf)
    object.__setattr__(made, "number_of_rows", 0.5)
    assert np.isfinite(clips[1].upper_bounds(0.95)).all()
    object.__setattr__(made, "number_of_rows", 0.0)
    for clip in clips:
        assert clip.upper_bounds(0.95) == (np.inf, np.inf)
        assert clip.limits_in_words(0.95) == "The size of this clipping bias is not known."


def test_without_counts_by_length_nothing_is_drawn() -> None:
    made = changed(released(), lengths=None)
    clip = drawing(made, moment(made))
    for drawn in (
        clip.draw_shape_error(np.random.default_rng(1)),
        clip.draw_total_error(np.random.default_rng(1)),
    ):
        assert not drawn.any()
        assert drawn.shape == (P + 1, P + 1)
    assert np.array_equal(clip.variances(np.eye(P)[:, :2]), np.zeros((2, 2)))


def rare_level(n: int = 20_000) -> tuple[dpcov.Release, np.ndarray]:
    """Return a release of two numbers and a level of 2% of the rows, and what clipping removed."""
    generator = np.random.default_rng(7)
    level = np.where(generator.random(n) < 0.02, "rare", "usual")
    numbers = generator.normal(0, 1, (n, 2)).clip(-8, 8)
    table = pa.table({"x": numbers[:, 0], "y": numbers[:, 1], "level": level})
    number = {"kind": "number", "lower": -8, "upper": 8, "missing": "none"}
    columns = {
        "x": number,
        "y": number,
        "level": {"kind": "categorical", "levels": ["usual", "rare"], "missing": "none"},
    }
    schema = dpcov.Schema.parse({"version": 3, "columns": columns})
    made = dpcov.release(table, schema=schema, rho=0.5, mechanism="standardized", seed=3)
    made = changed(made, lattice=replace(made.lattice, radius=made.lattice.radius * 0.5))
    rows = np.column_stack([numbers / 8, level == "usual", level == "rare"])
    if made.center is not None:
        rows = rows - made.center
    assert made.linear_map is not None
    rows = rows @ made.linear_map.T
    kept = np.minimum(1.0, made.lattice.radius / np.linalg.norm(rows, axis=1))
    return made, (rows * (1 - kept**2)[:, None]).T @ rows


def test_simulated_rows_lose_along_a_rare_level_as_the_rows_do() -> None:
    made, lost = rare_level()
    clip = ClippingBias(made, moment(made))
    found = simulated_loss(made, moment(made))
    assert found is not None
    p, total = len(lost), float(np.trace(lost))
    shape = found.moment[:p, :p] / found.squared_norm
    assert np.linalg.norm(shape - lost / total) < 0.15
    assert np.linalg.norm(clip.shape - lost / total) > 0.3  # a control: the shape of the moment


@pytest.mark.parametrize("size", [0.0, -1.0, np.inf, np.nan])
def test_an_impossible_moment_simulates_no_rows(size: float) -> None:
    assert simulated_loss(released(), np.full((P + 1, P + 1), size)) is None


def test_simulated_rows_lose_at_most_the_estimated_loss() -> None:
    made, _ = rare_level()
    whole = moment(made)
    clip = ClippingBias(made, whole)
    assert 0 < clip.simulated_squared_norm <= clip.squared_norm.estimate
    assert np.trace(clip.expected()) == pytest.approx(clip.squared_norm.estimate)
    assert ClippingBias(changed(made, lengths=None), whole).simulated_squared_norm == 0


class _Negated(intervals.Variances):
    """Variances with the opposite sign, which clipping makes too large."""

    def values(self, release: dpcov.Release, matrices: np.ndarray) -> np.ndarray:
        return -super().values(release, matrices)

    def limits(self, release: dpcov.Release) -> tuple[float, float]:
        return -np.inf, np.inf


def test_an_interval_is_longer_on_the_side_of_a_larger_loss() -> None:
    """Along the shape of the moment, a unit of loss adds the shape to the second moment.

    Control: without the norm histogram, both sides are equal.
    """
    made, statistics = released(), [intervals.Variances(), _Negated()]
    assert made.lengths is not None
    loss = made.lengths.squared_norm_loss(made.lattice.radius)
    assert loss.lower < loss.standard_deviation < loss.upper
    estimate = Estimate.of(made)
    shape = np.zeros((P + 1, P + 1))
    shape[:P, :P] = about_mean(made.mapped(estimate.center))
    added = made.unmapped(shape / np.trace(shape))
    before, after = (
        np.diag(about_mean(whole)) / whole[-1, -1] * (made.intercept() * made.scales) ** 2
        for whole in (estimate.center, estimate.center + added)
    )
    own, negated = intervals.stated(made, statistics, False, np.random.default_rng(1))
    excess = (np.square((loss.lower, loss.upper)) - loss.standard_deviation**2)[:, None]
    assert own.asymmetry == pytest.approx((after - before) ** 2 * excess, rel=1e-4)
    assert negated.asymmetry == pytest.approx(own.asymmetry[::-1], rel=1e-4)
    low, high, _ = own.interval(0.95)
    assert np.all(high - own.values > 1.1 * (own.values - low))
    reach = ndtri(0.975) * np.sqrt(own.deviations**2 + own.asymmetry)
    assert np.array([own.values - low, high - own.values]) == pytest.approx(reach)
    plain = changed(made, lengths=None)
    (without,) = intervals.stated(plain, statistics[:1], False, np.random.default_rng(1))
    low, high, _ = without.interval(0.95)
    assert high - without.values == pytest.approx(without.values - low)
