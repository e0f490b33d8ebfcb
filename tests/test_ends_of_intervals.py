"""Ends of intervals, of statistics whose errors are known, and the notes about them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

import dpcov
from dpcov import intervals, several_intervals
from dpcov.analysis.intervals import (
    CLIPPED_ROWS_NOTE,
    CLIPPING_BIAS_NOTE,
    IGNORED_CLIPPING_NOTE,
    MAX_ERROR_RATIO,
    TAIL_NOTE,
    Intervals,
    Stated,
    _bias,
    _percentiles,
    _Simulation,
    _Slopes,
    stated,
    statistic_named,
)
from dpcov.core.entropy import simulation_generator
from dpcov.core.samplers.scalars import ScalarGaussian
from dpcov.estimate import Estimate
from dpcov.estimate.errors import first_order
from dpcov.releases import Release
from rounds_for_tests import changed
from tables_for_tests import correlated


@cache
def made(rows: int = 20_000, **asked: Any) -> Release:
    request = {"epsilon": 2.0, "mechanism": "matrix-laplace"} | asked
    return dpcov.release(correlated(rows, 3), lower=-1, upper=1, seed=1, **request)


class Of:
    """A statistic that is a function of one entry, with limits."""

    def __init__(self, function: Any, limits: Any = (-np.inf, np.inf), reach: Any = None) -> None:
        self.function, self._limits, self._reach = function, limits, reach

    def values(self, release: Release, matrices: Any) -> Any:
        with np.errstate(invalid="ignore"):
            return np.stack([self.function(matrices[:, 0, 0]), matrices[:, 1, 0]], axis=1)

    def limits(self, release: Release) -> Any:
        return self._limits

    def reach(self, release: Release, matrices: Any, center: Any) -> Any:
        return None if self._reach is None else np.full(len(matrices), self._reach)

    def shaped(self, release: Release, values: Any) -> Any:
        return values


def errors(size: int = 999, spread: float = 1.0) -> np.ndarray:
    """Return (b, 2, 2) errors with normal quantiles; the second entry has half the errors."""
    quantiles = spread * stats.norm.ppf((np.arange(size) + 1) / (size + 1))
    found = np.zeros((size, 2, 2))
    found[:, 0, 0], found[:, 1, 0] = quantiles, quantiles[::-1] / 2
    return found


def simulated(statistic: Any, center: float = 5.0, spread: float = 1.0, level: float = 0.95) -> Any:
    one = _Simulation(made(), statistic, np.diag([center, 1.0]))
    for part in np.array_split(errors(spread=spread), 3):
        one.add(part)
    return one.interval(level)


def test_of_a_linear_statistic_percentiles_are_the_normal_interval() -> None:
    low, high, trusted = simulated(Of(lambda x: 3 * x))
    assert trusted.all()
    assert low == pytest.approx([15 - 3 * 1.96, -0.98], abs=0.05)
    assert high == pytest.approx([15 + 3 * 1.96, 0.98], abs=0.05)
    low, high, _ = simulated(Of(lambda x: 3 * x), level=0.5)
    assert [low[0], high[0]] == pytest.approx([15 - 3 * 0.674, 15 + 3 * 0.674], abs=0.05)


def test_skewed_errors_of_a_linear_statistic_are_trusted() -> None:
    one, skewed = _Simulation(made(), Of(lambda x: x), np.diag([5.0, 1.0])), errors()
    skewed[:, 0, 0] = stats.expon.ppf((np.arange(999) + 1) / 1000) - 1
    one.add(skewed)
    assert one.interval(0.95)[2].all()


def test_ends_stay_within_the_limits_and_where_nothing_is_defined_are_they() -> None:
    limits = (np.array([4.5, -0.5]), np.array([5.5, 0.5]))
    low, high, _ = simulated(Of(lambda x: x, limits))
    assert (low.tolist(), high.tolist()) == (limits[0].tolist(), limits[1].tolist())
    low, high, trusted = simulated(Of(lambda x: np.full_like(x, np.nan), limits))
    assert (low[0], high[0], trusted[0]) == (4.5, 5.5, False)


@pytest.mark.parametrize(
    ("function", "trusted"),
    [
        (np.square, False),  # about 0: it bends back
        (np.abs, False),
        (np.exp, False),
        (lambda x: x, True),
        (np.ones_like, True),  # as a column's correlation with itself
        (lambda x: np.where(x > 2.5, np.nan, x), True),  # seldom not defined
        (lambda x: np.where(x > 2.0, np.nan, x), False),
    ],
)
def test_what_is_not_nearly_linear_or_defined_is_not_trusted(function: Any, trusted: bool) -> None:
    assert simulated(Of(function), center=0.0)[2].tolist() == [trusted, True]


def test_what_is_not_trusted_has_percentiles_that_are_not_corrected() -> None:
    low, high, trusted = simulated(Of(np.square), center=0.0)
    assert not trusted[0]
    squares = np.square(errors()[:, 0, 0])[:, None]
    (plain_low,), (plain_high,) = _percentiles(squares, 0.95)
    assert (low[0], high[0]) == (plain_low, plain_high)


def test_a_reach_bounds_what_is_not_trusted_and_the_least_is_never_trusted() -> None:
    low, high, trusted = simulated(Of(np.exp, reach=7.0), center=0.0)
    assert not trusted[0]
    assert (low[0], high[0]) == (1 - 7.0, 1 + 7.0)
    low, high, trusted = simulated(Of(lambda x: x, (4.0, np.inf), reach=7.0))
    assert not trusted[0]
    assert (low[0], high[0]) == (4.0, 12.0)
    assert simulated(Of(lambda x: x, (4.0, np.inf)))[2][0]  # a control: nothing is chosen by size
    low = simulated(Of(lambda x: x, reach=7.0))[0][0]
    for least, above in ((low, False), (np.nextafter(low, -np.inf), True)):
        assert simulated(Of(lambda x: x, (least, np.inf), reach=7.0))[2][0] == above


@pytest.mark.parametrize(
    ("size", "missing", "level", "ends"),
    [
        (38, 0, 0.95, (-np.inf, np.inf)),  # 2.5% of 39 is less than one
        (39, 0, 0.95, (1, 39)),
        (39, 1, 0.95, (-np.inf, 39)),
        (99, 6, 0.94, (-np.inf, np.inf)),
        (99, 6, 0.92, (7, 99)),
    ],
)
def test_ends_are_values_by_rank_and_those_not_defined_go_to_both_tails_in_turn(
    size: int, missing: int, level: float, ends: tuple[float, float]
) -> None:
    values = np.arange(1.0, size + 1)[:, None]
    values[:missing] = np.nan
    assert _percentiles(values, level) == ends


@pytest.mark.parametrize(("bias", "ends"), [(5.0, (-np.inf, 1)), (-5.0, (9, np.inf))])
def test_a_bias_beyond_all_values_leaves_one_end_at_the_last_and_none_on_the_wrong_side(
    bias: float, ends: tuple[float, float]
) -> None:
    assert _percentiles(np.arange(1.0, 10)[:, None], 0.95, bias) == ends
    assert _percentiles(np.full((9, 1), np.nan), 0.95, bias) == (-np.inf, np.inf)


def test_a_bias_is_that_of_the_values_that_are_defined() -> None:
    values = np.array([-1.0] * 30 + [1.0] * 60 + [np.nan] * 9)[:, None]
    assert _bias(values, np.zeros(1)) == pytest.approx(-stats.norm.ppf(30.5 / 91))


def effects(statistic: Of, center: np.ndarray, *parts: np.ndarray) -> list[np.ndarray]:
    values = partial(statistic.values, made())
    return [first_order(values, center, part) for part in parts]


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_slopes_are_root_mean_squares_of_what_errors_do(scale: float) -> None:
    statistic, center = Of(np.square), np.diag([5.0, 1.0])
    one = _Slopes(made(), statistic, center)
    for part in np.array_split(errors(), 4):
        one.add(*effects(statistic, center, scale * part, part), 0.0)
    found = one.stated(blind=False)
    sizes = np.sqrt(np.mean(errors() ** 2, axis=0))
    assert found.deviations == pytest.approx([scale * 10 * sizes[0, 0], scale * sizes[1, 0]])
    assert found.values.tolist() == [25.0, 0.0]
    assert found.trusted.tolist() == [scale > 1 / MAX_ERROR_RATIO] * 2


@pytest.mark.parametrize("over", [1.09, 1.11])
def test_what_noise_alone_would_leave_decides_on_trust(over: float) -> None:
    statistic, center = Of(lambda x: x), np.eye(2)
    one = _Slopes(made(), statistic, center)
    one.add(*effects(statistic, center, errors() / over, errors()), 0.0)
    assert one.stated(blind=False).trusted.all() == (over < MAX_ERROR_RATIO)
    assert not one.stated(blind=True).trusted.any()


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_intervals_are_so_many_deviations_wide_within_their_limits(level: float) -> None:
    values, deviations = np.array([1.0, 0.9, np.nan, 0.0]), np.array([0.1, 1.0, 1.0, np.nan])
    limits = (np.array([-9.0, -1.0, -1.0, -2.0]), np.array([9.0, 1.0, 1.0, 2.0]))
    one = Stated(values, deviations, deviations / 2, np.ones(4, bool), limits)
    low, high, trusted = one.interval(level)
    reach = stats.norm.ppf((1 + level) / 2)
    assert low == pytest.approx([1 - 0.1 * reach, max(0.9 - reach, -1), -1, -2])
    assert high == pytest.approx([1 + 0.1 * reach, 1, 1, 2])
    assert trusted.all()
    assert one.below_noise.tolist() == [False, True, True, True]


def test_stated_deviations_are_those_of_plausible_errors() -> None:
    release = made()
    (one,) = stated(release, [statistic_named("mean")], False, simulation_generator(1))
    truths = Estimate.of(release).errors(
        sampling=False, generator=simulation_generator(1), draws=300
    )
    sums = np.concatenate(list(truths.batches()))[:, :-1, -1]
    count = truths.center[-1, -1] / release.intercept() ** 2
    moved = sums / release.intercept() / count
    assert one.deviations == pytest.approx(np.sqrt(np.mean(moved**2, axis=0)), rel=0.1)
    assert one.values == pytest.approx(release.mean(), abs=0.01)


def test_several_statistics_have_the_same_draws_as_each_alone() -> None:
    asked = {"sampling": False, "for_clipped_rows": True}
    both = several_intervals(
        made(), ["mean", "covariance"], **asked, generator=simulation_generator(3)
    )
    for name, one in zip(["mean", "covariance"], both, strict=True):
        alone = intervals(made(), name, **asked, generator=simulation_generator(3))
        assert np.array_equal(one.low, alone.low)
        assert np.array_equal(one.high, alone.high)
        assert one.for_clipped_rows
        assert one.level == 0.95


def test_by_default_they_cover_sampling() -> None:
    assert several_intervals(made(), ["mean"])[0].covers == "privacy noise and sampling"


def test_ends_for_clipped_rows_are_the_published_entries_and_quantiles_of_their_noise() -> None:
    """All results are below the noise level, so nothing is denoised."""
    release = made(200, mechanism="gaussian", epsilon=None, rho=1e-3)
    assert release.noise is not None
    law = release.noise.rescaled(release.lattice.step**2)
    found = intervals(
        release, Release.second_moment, sampling=False, for_clipped_rows=True,
        generator=simulation_generator(1),
    )  # fmt: skip
    deviations = np.full((4, 4), np.sqrt(law.diagonal_variance / 2))
    np.fill_diagonal(deviations, np.sqrt(law.diagonal_variance))
    off = np.s_[:3, :3]  # the count is better known than by its entry
    middle, width = (found.low + found.high)[off] / 2, (found.high - found.low)[off]
    assert middle == pytest.approx(release.noisy()[off], abs=0.3 * deviations.max())
    assert width == pytest.approx(2 * 1.96 * deviations[off], rel=0.2)


@cache
def clipping() -> Release:
    return dpcov.release(
        0.2 * correlated(20_000, 3), lower=-1, upper=1, rho=0.5, mechanism="standardized", seed=1
    )


def test_what_is_known_of_a_clip_is_said() -> None:
    release = clipping()
    assert release.clipped
    found = intervals(release, "mean", sampling=False)
    alone = intervals(release, "mean", sampling=False, for_clipped_rows=True)
    unknown = intervals(changed(release, lengths=None), "mean", sampling=False)
    notes = [note in found.assumed for note in (CLIPPING_BIAS_NOTE, CLIPPED_ROWS_NOTE)]
    assert (notes, found.clipped) == ([True, False], False)
    notes = [note in alone.assumed for note in (CLIPPING_BIAS_NOTE, CLIPPED_ROWS_NOTE)]
    assert (notes, alone.clipped) == ([False, True], False)
    assert (unknown.assumed, unknown.clipped) == ((), True)
    assert unknown.warning == IGNORED_CLIPPING_NOTE
    assert found.warning is None
    assert TAIL_NOTE not in alone.assumed


def test_intervals_for_clipped_rows_know_nothing_of_rows_by_length() -> None:
    release = clipping()
    asked: Any = {"sampling": False, "for_clipped_rows": True}
    one, other = (
        intervals(of, "covariance", **asked, generator=simulation_generator(1))
        for of in (release, changed(release, lengths=None))
    )
    assert np.array_equal(one.low, other.low)
    assert np.array_equal(one.high, other.high)


def test_where_noise_hides_how_long_rows_are_nothing_is_trusted() -> None:
    release = clipping()
    assert release.lengths is not None
    loud = ScalarGaussian(release.lengths.noise.standard_deviation.__ceil__() * 10**12)
    hidden = changed(release, lengths=replace(release.lengths, noise=loud))
    assert hidden.lengths.below_noise_level
    first = intervals(hidden, "mean", sampling=False)
    assert not first.for_clipped_rows  # which nobody asked for
    assert TAIL_NOTE in first.assumed
    assert TAIL_NOTE in str(first.warning)
    assert not first.trusted.any()
    assert first.below_noise.all()
    assert intervals(release, "mean", sampling=False).trusted.any()


def of_matrix(**fields: Any) -> Intervals:
    low = np.arange(9.0).reshape(3, 3)
    asked = {"trusted": np.eye(3, dtype=bool), "level": 0.9, "covers": "privacy noise"} | fields
    return Intervals(low, low + 1, **asked)  # type: ignore[arg-type]


def test_a_table_of_intervals_has_each_entry_once_and_marks_those_below_the_noise() -> None:
    (table,) = of_matrix(below_noise=~np.eye(3, dtype=bool)).tables()
    assert table.title == "90% intervals for privacy noise"
    assert table.rows == [
        ("1, 0", [3.0, 4.0, "below the noise level"]),
        ("2, 0", [6.0, 7.0, "below the noise level"]),
        ("2, 1", [7.0, 8.0, "below the noise level"]),
    ]
    assert (table.beyond, table.notes) == (0, ())
    (table,) = of_matrix(clipped=True, assumed=("so",)).tables()
    assert table.notes == (IGNORED_CLIPPING_NOTE, "so")
    several = Intervals(
        np.full(60, 0.5), np.ones(60), 0.95, "privacy noise", np.ones(60, bool)
    ).tables()[0]
    assert [name for name, _ in several.rows] == [str(at) for at in range(len(several.rows))]
    assert len(several.rows) + several.beyond == 60
    assert several.beyond > 0
    oblong = Intervals(
        np.zeros((2, 3)), np.ones((2, 3)), 0.95, "privacy noise", np.ones((2, 3), bool)
    )
    assert len(oblong.tables()[0].rows) == 6
    single = Intervals(np.array(1.0), np.array(2.0), 0.95, "privacy noise", np.array(True))
    assert single.tables()[0].rows == [("0", [1.0, 2.0, ""])]


def test_a_warning_counts_what_is_below_the_noise_and_what_is_not_trusted() -> None:
    sure, clear = {"trusted": np.ones((3, 3), bool)}, {"below_noise": np.zeros((3, 3), bool)}
    assert of_matrix(**sure, **clear).warning is None
    reported = of_matrix(**sure).warning  # 0 is in the first interval alone
    assert reported is not None
    assert reported.startswith("1 of 9 figures is below the noise level: the 95% interval")
    reported = of_matrix(**clear).warning
    assert reported is not None
    assert reported.startswith("6 of 9 intervals rest on more than the noise (`trusted` is False)")
    assert "may cover more than asked" in str(of_matrix(for_clipped_rows=True).warning)
    assert str(of_matrix(clipped=True, **clear).warning).startswith(
        f"{IGNORED_CLIPPING_NOTE} 6 of 9"
    )
