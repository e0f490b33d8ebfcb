"""Intervals that say nothing are replaced by the budget that would be enough."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import dpcov
from dpcov.analysis.correlation import correlations
from dpcov.analysis.covariance import columns
from dpcov.analysis.estimable import (
    MARGIN,
    MIN_EMPTY_SPAN,
    budget_sentences,
    span,
    sufficient_budgets,
    sufficient_divisors,
)
from dpcov.analysis.intervals import coefficients
from dpcov.analysis.strongest import strongest_pairs
from dpcov.core.privacy import gaussian_mu
from dpcov.core.show.plain import json_text
from dpcov.estimate import Estimate
from dpcov.export.estimates import Estimates
from dpcov.export.for_r import document

ADD = dpcov.Neighbors.ADD_REMOVE


def few(count: int = 60, seed: int = 1) -> np.ndarray:
    """Return a small table with three columns that one factor relates."""
    generator = np.random.default_rng(seed)
    return 0.1 * (generator.normal(size=(count, 1)) + generator.normal(size=(count, 3)))


def test_a_span_is_the_fraction_of_the_possible_values() -> None:
    low, high = np.array([-1.0, -0.5, -2, np.nan]), np.array([1.0, 0.5, 2, 0])
    assert span((low, high), (-1.0, 1.0)).tolist() == [1, 0.5, 1, 1]
    anything, ends = (-np.inf, np.inf), (np.array([-np.inf, 1.0]), np.array([np.inf, 9.0]))
    assert span(ends, anything).tolist() == [1, 0]
    assert span((np.array([0.2]), np.array([np.inf])), (1.0, np.inf)).tolist() == [1]


def test_a_divisor_makes_the_interval_narrow_enough() -> None:
    """The last interval is as wide without noise."""

    def span_at(divisor: float) -> np.ndarray:
        return np.minimum(np.array([4 / divisor, 0.5 / divisor, 1.0]), 1)

    found = sufficient_divisors(span_at)
    enough = MARGIN * MIN_EMPTY_SPAN
    assert span_at(found[0])[0] <= enough < span_at(found[0] / 2 ** (1 / 8))[0]
    assert np.isnan(found[1])
    assert math.isinf(found[2])


@pytest.mark.parametrize(
    ("budget", "wanted"),
    [
        (dpcov.PureDP(0.1), 0.31),
        (dpcov.ZCDP(0.1), 0.91),
        (dpcov.ApproxDP(0.5, 1e-6), None),
    ],
)
def test_a_budget_of_the_same_kind_divides_the_noise(budget, wanted) -> None:
    guarantee = dpcov.Guarantee(budget, ADD)
    found = sufficient_budgets(guarantee, np.array([3.01, np.nan, np.inf]))
    assert np.array_equal(np.isnan(found), [False, True, False])
    assert math.isinf(found[2])
    if wanted is not None:
        assert found[0] == wanted
    else:
        ratio = gaussian_mu(found[0], budget.delta) / gaussian_mu(budget.epsilon, budget.delta)
        assert 3.01 <= ratio < 3.3


def test_sentences_name_the_figures_and_the_budgets() -> None:
    guarantee = dpcov.Guarantee(dpcov.ZCDP(0.1), ADD)
    said = budget_sentences(["a", "b", "c", "d"], np.array([3.0, np.nan, 0.2, np.inf]), guarantee)
    assert said == (
        "Not estimable at this budget: c, a. A rho of about 0.2 (c) to 3 (a) would do.",
        "Not estimable: d. A much larger budget or table is needed.",
    )
    assert budget_sentences(["a"], np.array([np.nan]), guarantee) == ()


SAID = "Not estimable at this budget: "


def released(epsilon: float, seed: int) -> dpcov.Release:
    return dpcov.release(few(), lower=-1, upper=1, epsilon=epsilon, seed=seed)


def test_all_outputs_agree_on_what_is_not_estimable() -> None:
    made = released(0.2, 0)  # the noise leaves all means open
    found = dpcov.intervals(made, "mean")
    assert np.isnan([found.low, found.high]).all()
    assert (found.sufficient_budget > 0.2).all()
    for text in (found.summary(), found._repr_html_(), found.latex(), str(found.warning)):
        assert SAID in text
    read = json.loads(json_text(found.document()))
    assert read["low"] == read["high"] == [None] * 3
    assert read["sufficient_budget"] == found.sufficient_budget.tolist()
    assert SAID in " ".join(columns(made).notes())
    exported = json.loads(json_text(document(Estimates.of(made))))["intervals"]["mean"]
    assert exported == {key: read[key] for key in ("low", "high", "sufficient_budget")}


def test_a_pair_agrees_with_all_correlations_and_the_fit() -> None:
    made = released(0.3, 1)
    pair, whole = dpcov.correlation(made, "x0", "x1"), correlations(made)
    assert pair.lower is pair.upper is None
    assert f"{SAID}x0 - x1." in pair.summary()
    assert np.isnan(whole.document()["lower"][0, 1])
    assert pair.sufficient_budget == whole.document()["sufficient_budget"][0, 1] > 0.3
    for one in (whole, strongest_pairs(made), dpcov.ols(made, "x0")):
        assert SAID in " ".join(one.notes())
    fit = json.loads(json_text(dpcov.ols(made, "x0").document()))
    assert fit["r_squared_interval"] == [None, None]
    assert "(not estimable; adjusted" in dpcov.ols(made, "x0").summary()


def test_a_coefficient_is_within_the_variance_of_the_target() -> None:
    """The limits of the rule hold with equality for a feature that explains the whole target."""
    x = np.random.default_rng(0).uniform(-0.5, 0.5, 20_000)
    made = dpcov.release(
        np.column_stack([x, 0.5 * x + 0.2]), lower=-1, upper=1, epsilon=1e6, seed=0
    )
    low, high = coefficients("x1").possible(made, Estimate.of(made).center)
    assert -low[1] == pytest.approx(high[1]) == pytest.approx(0.5, rel=1e-3)
    assert (low[0], high[0]) == (-np.inf, np.inf)


def test_a_fit_without_rows_has_no_intervals_and_no_error() -> None:
    """The noise leaves about one row, so the errors of some draws are huge."""
    generator = np.random.default_rng(0)
    common, own = generator.normal(size=(60, 2)), generator.normal(size=(2, 5))
    rows = 0.15 * (0.6 * common @ own + 0.7 * generator.normal(size=(60, 5))) + 0.1
    made = dpcov.release(rows.clip(-1, 1), lower=-1, upper=1, epsilon=0.22, seed=100)
    fit = dpcov.ols(made, "x0")
    assert np.isnan(fit.conf_int()).all()
    assert "A much larger budget or table is needed." in fit.summary()
