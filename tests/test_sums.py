"""A release of sums has means and variances with intervals, and refuses all other questions."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpcov
from analysis_tables import schema, table
from dpcov.analysis.covariance import columns, covariances
from dpcov.analysis.intervals import FLAG_TEXT
from dpcov.analysis.summary import summary
from dpcov.api.auditing import audit
from dpcov.api.plans.trials import Trials
from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ZCDP, ApproxDP, Budget, Neighbors, PureDP
from dpcov.core.samplers.scalars import ScalarGaussian
from dpcov.errors import NotReleasedError, ReleaseError
from dpcov.estimate import Estimate
from dpcov.mechanisms import count
from dpcov.published.kinds import NoisyCount, NoisySums
from dpcov.published.record import CountEstimate
from dpcov.releases import Release
from dpcov.rows.moment import Lattice, units_per_row
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows

SOURCE = Path(__file__).parent / "tries" / "sums" / "src" / "dpcov" / "mechanisms" / "sums.py"
REASON = "holds only noisy sums for means and variances"


@cache
def mechanism() -> Any:
    """Return the mechanism of sums, which is not a mechanism of the product."""
    spec = importlib.util.spec_from_file_location("sums_of_a_try", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.Sums()


def released(
    data: Any = None,
    declared: Schema | None = None,
    budget: Budget | None = None,
    neighbors: Neighbors = Neighbors.ADD_REMOVE,
    seed: int = 0,
) -> Release:
    """Return a release of sums with the noisy number of rows, as `dpcov.release` makes it."""
    declared = schema() if declared is None else declared
    rows = open_rows(table() if data is None else data, declared)
    asked = budget or PureDP(1e6), neighbors, units_per_row(declared)
    laws = count.calibrated(mechanism(), rows.lattice(), *asked)
    made = count.run(mechanism(), rows, laws, Entropy.seeded(seed))
    return replace(made, denoise="shrink")


@pytest.mark.parametrize("neighbors", list(Neighbors))
def test_means_and_variances_are_those_of_the_table(neighbors) -> None:
    made, whole = released(neighbors=neighbors), dpcov.release(
        table(), schema=schema(), epsilon=1e6, seed=0, mechanism="matrix-laplace"
    )  # fmt: skip
    np.testing.assert_allclose(made.mean(), whole.mean(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(made.variance(), whole.variance(), rtol=1e-3)
    np.testing.assert_allclose(whole.variance(), np.diag(whole.covariance()))
    assert made.count() == pytest.approx(len(table()), rel=1e-4)
    assert made.row_count == (len(table()) if neighbors is Neighbors.REPLACE_ONE else None)


def test_columns_with_missing_cells_use_their_own_rows() -> None:
    data = table()[["a", "b"]].copy()
    data.loc[::4, "a"] = np.nan
    kind: dict[str, Any] = {"kind": "numeric", "missing": "pairwise"}
    declared = Schema.parse(
        {
            "columns": {
                "a": {**kind, "lower": -8, "upper": 8},
                "b": {**kind, "lower": -11, "upper": 13},
            }
        }
    )
    made = released(data, declared)
    np.testing.assert_allclose(made.mean(), data.mean(), atol=1e-3)
    np.testing.assert_allclose(made.variance(), data.var(ddof=0), rtol=1e-3)
    found = dpcov.intervals(made, "variance")
    assert np.all((found.low < made.variance()) & (made.variance() < found.high))
    assert "a 25.0%" in covariances(made).summary()


QUESTIONS: dict[str, Any] = {
    "covariance": Release.covariance,
    "correlation": Release.correlation,
    "second moment": Release.second_moment,
    "frame": Release.to_frame,
    "intervals": lambda made: dpcov.intervals(made, "correlation"),
    "own intervals": lambda made: dpcov.intervals(made, Release.mean),
    "ols": lambda made: dpcov.ols(made, "y"),
    "ridge": lambda made: dpcov.ridge(made, "y"),
    "pca": dpcov.pca,
    "lda": lambda made: dpcov.lda(made, "sex", 0.1),
    "precision": dpcov.precision,
    "sample": lambda made: dpcov.sample(made, 3),
    "errors": dpcov.correlation_standard_errors,
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=list(QUESTIONS))
def test_everything_else_is_refused_with_what_was_published(question) -> None:
    with pytest.raises(NotReleasedError, match=REASON):
        question(released())


def test_a_release_without_an_intercept_has_no_means() -> None:
    plain = Schema.parse(schema().model_dump() | {"intercept": 0})
    with pytest.raises(dpcov.errors.MechanismError, match="needs an intercept"):
        released(declared=plain)
    made = replace(released(), schema=plain)
    for question in (Release.mean, Release.variance):
        with pytest.raises(NotReleasedError, match="without an intercept"):
            question(made)


def test_the_number_of_rows_combines_both_noisy_counts() -> None:
    made = released(budget=PureDP(0.5))
    best, noisy, sums = CountEstimate.of(made), made.find(NoisyCount), made.find(NoisySums)
    assert best is not None
    assert noisy is not None
    assert sums is not None
    squared = Lattice.of(made.schema).intercept_units ** 2
    ends = sorted([noisy.value, sums.values[-1] / squared])
    assert ends[0] < best.value < ends[1]
    assert best.deviation < noisy.noise.standard_deviation
    alone = CountEstimate.of(made.with_published("count", None))
    assert alone is not None
    assert alone.value == sums.values[-1] / squared


def test_a_file_keeps_the_answers_and_a_smaller_cost_is_refused(tmp_path) -> None:
    made = released(budget=ZCDP(0.5))
    made.save(tmp_path / "r.json")
    again = dpcov.load(tmp_path / "r.json")
    assert again == made
    np.testing.assert_array_equal(again.variance(), made.variance())
    document = json.loads((tmp_path / "r.json").read_text())
    assert [one["query"] for one in document["rounds"]] == ["sums", "count"]
    document["guarantee"]["budget"]["rho"] = 0.4
    (tmp_path / "r.json").write_text(json.dumps(document))
    with pytest.raises(ReleaseError, match="stronger than the noise"):
        dpcov.load(tmp_path / "r.json")


def coverage(of_deviation: float = 1.0) -> float:
    """Return how often intervals of 60 releases cover the means and variances of the population.

    Each table has 600 independent rows. A factor below 1 makes the stated noise too small.
    """
    generator = np.random.default_rng(0)
    declared = Schema.from_bounds(-4, 4, ["x", "y"])
    inside = []
    for seed in range(60):
        data = generator.normal([0.5, -1.0], [1.0, 0.5], (600, 2))
        made = released(data, declared, ZCDP(0.02), seed=seed)
        if of_deviation != 1.0:
            sums = made.find(NoisySums)
            assert sums is not None
            variance = Fraction(sums.noise.standard_deviation**2 * of_deviation**2)
            made = made.with_published("sums", replace(sums, noise=ScalarGaussian(variance)))
        found = dpcov.several_intervals(made, ["mean", "variance"])
        for one, truth in zip(found, ([0.5, -1.0], [1.0, 0.25]), strict=True):
            inside.append((one.low <= truth) & (truth <= one.high))
    return float(np.mean(inside))


@pytest.mark.statistics
def test_intervals_cover_the_means_and_variances_of_the_population() -> None:
    assert 0.91 <= coverage() <= 0.99
    assert coverage(0.2) < 0.8  # control: too little noise is noticed


def test_results_show_means_and_standard_deviations_and_name_what_was_published(run) -> None:
    made = released(budget=PureDP(1.0))
    made.save("s.json")
    shown = run("show s.json")
    assert "recomputed     yes" in shown.out
    assert "next: dpcov covariance s.json" in shown.out
    table = run("covariance s.json")
    assert table.code == 0
    assert REASON in " ".join(table.out.split())
    document = json.loads(run("covariance s.json --json").out)
    assert document["covariance"] is None
    low, high = document["standard_deviation_lower"], document["standard_deviation_upper"]
    assert np.all(np.array(low) <= np.sqrt(made.variance()))
    assert np.all(np.sqrt(made.variance()) <= np.array(high))
    head = run("covariance s.json --csv").out.splitlines()[1]
    assert "standard deviation,standard deviation lower,standard deviation upper" in head
    refused = run("correlation s.json")
    assert (refused.code, refused.out) == (2, "")
    assert REASON in refused.err
    assert run("report s.json --out page.html").code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert REASON in page
    assert "Means and standard deviations" in page
    assert run("passport s.json --format page --out passport.html").code == 0
    assert "noisy sums for means and variances" in Path("passport.html").read_text()


def test_means_below_the_noise_level_are_flagged() -> None:
    made = released(table()[:30], budget=PureDP(0.05))
    assert FLAG_TEXT in columns(made).summary()
    assert summary(made).document()["means_below_noise"] == list(made.columns)
    assert summary(released()).document()["means_below_noise"] == []


@pytest.mark.parametrize(
    ("budget", "neighbors"),
    [
        (PureDP(1.0), Neighbors.ADD_REMOVE),
        pytest.param(ZCDP(0.5), Neighbors.REPLACE_ONE, marks=pytest.mark.slow),
        pytest.param(ApproxDP(1.0, 1e-6), Neighbors.ADD_REMOVE, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_an_audit_finds_the_claimed_loss(budget, neighbors) -> None:
    found = audit(mechanism(), budget=budget, neighbors=neighbors, columns=3)
    assert not found.violated
    assert found.worst[0].share > 0.9
    assert [one.round for one in found.worst][:2] == ["all rounds", "sums"]


def test_a_plan_predicts_the_noise_and_no_correlations() -> None:
    made = [released(budget=PureDP(1.0), seed=seed) for seed in range(5)]
    moment = open_rows(table(), schema()).second_moments()[0]
    errors = Trials(schema(), moment, len(table()), ()).measured(made)
    sums = made[0].find(NoisySums)
    assert sums is not None
    exact = sums.noise.standard_deviation * Lattice.of(schema()).step ** 2 / len(table())
    assert errors.noise == pytest.approx(exact, rel=0.3)
    assert errors.entry == pytest.approx(exact, rel=0.3)
    assert (errors.correlation, errors.eigenvalue, errors.prediction) == (None, None, None)


def test_an_estimate_refuses_the_covariances_of_uncorrelated_features() -> None:
    estimate = Estimate.of(released())
    assert estimate.moment.shape == (10, 10)
    for question in ("second_moment", "covariance", "correlation", "uncentred"):
        with pytest.raises(NotReleasedError, match=REASON):
            getattr(estimate, question)
