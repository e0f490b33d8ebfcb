"""Options and budgets of every mechanism: refused before the spend, or the release ends."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dpcov.api import PreparedRelease, prepare
from dpcov.api.ledger import Ledger
from dpcov.api.request import Request
from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP
from dpcov.errors import DpcovError, MechanismError, MechanismRefused
from dpcov.mechanisms import MECHANISMS, HeavyTailed, options_of
from dpcov.mechanisms.choice import calibrated
from dpcov.papers import preconditioned
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows

SCHEMA = Schema.from_bounds(-1, 1, ("a", "b"))
TABLE = np.random.default_rng(0).uniform(-1, 1, (60, 2))
LONGEST = 60  # seconds for a table of 60 rows
TINY = [5e-324, 1e-300, 1e-100, 1e-30, 1e-17, 1e-9]
ODD = [0, 1, -1, 0.0, -0.0, 1.0, 1 - 1e-16, 1 - 1e-9, *TINY, 0.3, 0.5, 2, 3, 64]
ODD += [1e300, math.inf, -math.inf, math.nan, 2**63, 10**400, True, False, None, "a"]
BUDGETS = [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.5}]
BUDGETS += [{"epsilon": 1e-6}, {"epsilon": 600.0}, {"epsilon": 1e-5, "delta": 1e-9}, {"rho": 1e6}]
SHAPES = [{}, {"neighbors": "replace-one"}, {"intercept": 0.0}, {"radius": 1e9}, {"radius": 1e-9}]


@contextmanager
def ends() -> Iterator[None]:
    """Fail where the work goes on and on."""

    def interrupt(*_: object) -> None:
        raise AssertionError("it does not end")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def prepared(name: str, fields: dict[str, Any], *figures: dict[str, Any]) -> PreparedRelease | None:
    """Return a request that was accepted, or None if a sentence refused it."""
    asked = {key: value for figure in figures for key, value in figure.items()}
    given = {key: value for key, value in fields.items() if key not in asked}
    try:
        asked = {"radius": given.pop("radius", None), **asked}
        request = Request(schema=SCHEMA, mechanism=name, seed=1, **asked, options=given)
        return prepare(TABLE, request)
    except DpcovError:
        return None


@pytest.mark.parametrize("name", MECHANISMS)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_what_is_accepted_ends_in_a_release_or_a_refusal_of_the_mechanism(name: str, data) -> None:
    options = sorted(options_of(name))
    chosen = data.draw(st.lists(st.sampled_from(options), max_size=2, unique=True))
    fields = {option: data.draw(st.sampled_from(ODD)) for option in chosen}
    request = prepared(
        name, fields, data.draw(st.sampled_from(BUDGETS)), data.draw(st.sampled_from(SHAPES))
    )
    if request is None:
        return
    with ends(), suppress(MechanismRefused):
        request.run()


@pytest.mark.parametrize("value", ODD, ids=repr)
@pytest.mark.parametrize("share", ["look_share", "radius_share", "count_share", "trace_share"])
@pytest.mark.parametrize("name", ["preconditioned", "heavy-tailed"])
def test_odd_shares_are_refused_before_or_do_no_harm(name: str, share: str, value: Any) -> None:
    for shape in ({}, {"intercept": 0.0}):
        request = prepared(name, {share: value}, {"rho": 0.5}, shape)
        if request is not None:
            with ends():
                request.run()


@settings(max_examples=100, deadline=None)
@given(
    epsilon=st.floats(-300, 300).map(lambda x: 10.0**x),
    delta=st.none() | st.floats(-300, -0.01).map(lambda x: 10.0**x),
    name=st.sampled_from(sorted(MECHANISMS)),
)
@example(epsilon=1e300, delta=None, name="preconditioned")
def test_any_budget_is_calibrated_or_refused_in_a_sentence(epsilon, delta, name) -> None:
    budget = PureDP(epsilon) if delta is None else ApproxDP(epsilon, delta)
    lattice = open_rows(TABLE, SCHEMA).lattice()
    with ends(), suppress(DpcovError):
        calibrated(MECHANISMS[name](), lattice, budget, Neighbors.ADD_REMOVE)


@pytest.mark.parametrize("upper", [5e-324, 1e-300, 1e-30, 1.0, 1e30, 1e300])
@pytest.mark.parametrize("radii", ["theory", "practical"])
def test_the_bound_of_heavy_tailed_is_one_that_can_be_computed_with(upper, radii) -> None:
    rows = open_rows(TABLE, SCHEMA)
    mechanism = HeavyTailed(radii=radii, eigenvalue_bound=upper, constant=3.0, condition=4.0)
    asked = {"budget": ZCDP(0.5), "neighbors": Neighbors.ADD_REMOVE}
    try:
        calibrated(mechanism, rows.lattice(), *asked.values())
    except MechanismError:
        return
    with ends():
        mechanism(rows, **asked, entropy=Entropy.seeded(1))


def test_control_laws_that_are_built_late_fail_when_the_budget_is_booked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version built the noise of the last step only when it reached the step."""
    option = {"radius_share": 1e-60}
    request = Request(schema=SCHEMA, mechanism="preconditioned", rho=0.5, options=option)
    with pytest.raises(MechanismError):
        prepare(TABLE, request)
    monkeypatch.setattr(preconditioned, "last_laws", lambda *_: None)
    ledger = Ledger.create(tmp_path / "l", ZCDP(1.0))
    with pytest.raises(MechanismError):
        prepare(TABLE, replace(request, ledger=ledger)).run()
    assert ledger.account().spent == {"rho": 0.5}
