"""Degenerate tables at absurd budgets: the default releases them, and says where nothing shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dpcov
from dpcov.errors import DpcovError

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
