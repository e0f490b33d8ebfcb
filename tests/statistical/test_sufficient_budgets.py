"""A release at the budget that a result states has the interval that the result lacks.

The stated budget is approximate, so each figure may lack its interval in 2 of 20 releases.
Measured: 0 for correlations and coefficients, at most 1 for R-squared, and at most 2 for residual
deviations.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import dpcov
from dpcov.errors import ReleaseError
from test_estimable import few

pytestmark = pytest.mark.statistics
RELEASES, MAX_FAILURES = 20, 2


def missing(made: dpcov.Release) -> dict[str, float] | None:
    """Return the sufficient budget of each figure of a regression and of each correlation.

    The result is None if the noise hides all rows, so that no figure has an interval.
    """
    try:
        dpcov.ols(made, "x0")
    except ReleaseError:
        return None
    fit, pairs = dpcov.ols(made, "x0"), dpcov.intervals(made, "correlation")
    names = [*fit.names, "R-squared", "residual", *map(str, pairs.places())]
    budgets = [*fit.sufficient_budget, *(pairs.sufficient_budget[at] for at in pairs.places())]
    return {name: one for name, one in zip(names, budgets, strict=True) if not np.isnan(one)}


@pytest.mark.parametrize(
    ("count", "budget", "seed"),
    [
        (60, {"epsilon": 0.3}, 1),
        (1000, {"epsilon": 0.1}, 1),
        (1000, {"rho": 0.001}, 1),
        (300, {"epsilon": 0.5, "delta": 1e-6}, 0),
    ],
)
def test_a_release_at_the_stated_budget_has_the_interval(count, budget, seed) -> None:
    asked = missing(dpcov.release(few(count), lower=-1, upper=1, seed=seed, **budget))
    assert asked is not None
    wanted = {name: one for name, one in asked.items() if np.isfinite(one)}
    assert wanted
    kind = next(iter(budget))
    failures: Counter[str] = Counter()
    for size in set(wanted.values()):
        for other in range(RELEASES):
            made = dpcov.release(
                few(count), lower=-1, upper=1, seed=1000 + other, **{**budget, kind: size}
            )
            lacking = missing(made)
            failures.update(
                name
                for name, one in wanted.items()
                if one == size and (lacking is None or name in lacking)
            )
    assert max(failures.values(), default=0) <= MAX_FAILURES, (wanted, failures)
