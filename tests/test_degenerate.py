"""Degenerate tables at absurd budgets: the default releases them, and says where nothing shows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.analysis.correlation import correlations
from dpcov.analysis.covariance import covariances
from dpcov.analysis.summary import summary
from dpcov.errors import DpcovError
from dpcov.estimate import Estimate
from dpcov.rows.schema import Schema

GENERATOR = np.random.default_rng(0)
TABLES = {
    "no rows": np.empty((0, 3)),
    "one row": GENERATOR.random((1, 3)),
    "one column": GENERATOR.random((500, 1)),
    "constant columns": np.full((500, 3), 0.3),
    "equal rows": np.tile(GENERATOR.random(3), (500, 1)),
    "flags at 1%": (GENERATOR.random((500, 3)) < 0.01).astype(float),
}
TINY: list[dict[str, float]] = [{"epsilon": 1e-4}, {"rho": 1e-8}]
USUAL: list[dict[str, float]] = [{"epsilon": 1.0}, {"rho": 0.5}]
HUGE: list[dict[str, float]] = [{"epsilon": 1e3}, {"rho": 1e5}]


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
@pytest.mark.parametrize("budget", TINY + USUAL + HUGE, ids=str)
@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_released_with_finite_figures(
    name: str, budget: Any, neighbors: Any
) -> None:
    table = TABLES[name]
    made = dpcov.release(table, lower=0, upper=1, seed=1, neighbors=neighbors, **budget)
    if made.published is None:  # behind the public gate
        assert neighbors == "replace-one"
        assert made.uninformative
        assert dpcov.noise_warnings(made) == (made.not_released,)
        return
    assert np.isfinite(made.mean()).all()
    assert np.isfinite(made.covariance()).all()
    assert ((made.mean() >= 0) & (made.mean() <= 1)).all()
    if budget in TINY:
        assert made.uninformative or dpcov.noise_warnings(made)
    if budget in HUGE and len(table) > 1:
        assert made.mean() == pytest.approx(table.mean(axis=0), abs=0.01)
        assert made.count() == pytest.approx(len(table), abs=1)
        truth = np.cov(table, rowvar=False, bias=True).reshape(made.covariance().shape)
        assert made.covariance() == pytest.approx(truth, abs=0.01)


@pytest.mark.parametrize(
    "budget", [{"epsilon": 5e-324}, {"epsilon": 1e300}, {"rho": 5e-324}, {"rho": 1e300}], ids=str
)
def test_what_no_noise_can_keep_is_refused(budget: Any) -> None:
    with pytest.raises(DpcovError, match=r"cannot generate noise|too small"):
        dpcov.release(TABLES["one column"], lower=0, upper=1, **budget)


MIXED = pa.table({
    "a": [0.2, 0.4, 0.9],
    "b": [0.5, 0.1, 0.3],
    "day": ["2021-01-01", "2022-01-01", "2023-01-01"],
    "flag": [0, 1, 1],
    "ward": ["x", "y", "x"],
})  # fmt: skip
ANALYSES: dict[str, Callable[[dpcov.Release], Any]] = {
    "show": summary,
    "correlation": correlations,
    "covariance": covariances,
    "table1": dpcov.table1,
    "table1 by": lambda made: dpcov.table1(made, by="ward"),
    "crosstab": lambda made: dpcov.crosstab(made, "ward", "flag"),
    "ols": lambda made: dpcov.ols(made, "b"),
    "ridge": lambda made: dpcov.ridge(made, "b"),
    "partial": lambda made: dpcov.partial_correlation(made, "a", "b"),
    "multiple": lambda made: dpcov.multiple_correlation(made, "b"),
    "mediation": lambda made: dpcov.mediation(made, "flag", "a", "b"),
    "cohens_d": lambda made: dpcov.cohens_d(made, "a", by="ward"),
    "alpha": lambda made: dpcov.cronbach_alpha(made, ["a", "b"]),
    "inflation": lambda made: dpcov.variance_inflation(made, ["a", "b"]),
    "precision": dpcov.precision,
    "pca": dpcov.pca,
    "lda": lambda made: dpcov.lda(made, "ward"),
}


def mixed(rule: str) -> Schema:
    number = {"kind": "number", "lower": 0, "upper": 1, "missing": rule}
    columns = {
        "a": number,
        "b": number,
        "day": {"kind": "date", "lower": "2020-01-01", "upper": "2024-01-01", "missing": rule},
        "flag": {"kind": "flag", "missing": rule},
        "ward": {"kind": "categorical", "levels": ["x", "y", "z"], "missing": "level"},
    }
    derived = {"ab": {"product": ["a", "b"]}}
    return Schema.parse({"version": 3, "columns": columns, "derived": derived})


@pytest.mark.parametrize(
    ("rule", "epsilon", "seed"),
    [("pairwise", 2.0, 21), ("midpoint", 2.0, 3), ("level", 2.0, 1), ("none", 0.1, 0)],
)
@pytest.mark.parametrize("denoise", ["shrink", "none"])
def test_every_analysis_of_three_rows_answers_or_refuses(
    rule: str, epsilon: float, seed: int, denoise: Any
) -> None:
    made = dpcov.release(MIXED, schema=mixed(rule), epsilon=epsilon, seed=seed, denoise=denoise)
    if seed in (21, 3):  # the noise makes the number of rows negative, and the rows have a center
        estimate = Estimate.of(made)
        assert estimate.counted(estimate.moment)[-1, -1] <= 0
        assert made.center is not None
    other = dpcov.release(MIXED, schema=mixed(rule), epsilon=epsilon, seed=seed + 1)
    compared = {"compare": lambda one: dpcov.compare(one, other, persons="same")}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for name, analysis in {**ANALYSES, **compared}.items():
            try:
                found = analysis(made)
            except DpcovError:
                continue
            texts = " ".join(str(table.texts()) for table in found.tables())
            assert "nan" not in texts, name
