"""One plan a release: what is run is what was calibrated before anything was booked."""

import sys

import numpy as np
import pytest

import ways
from dpcov import api
from dpcov.api.ledger import Ledger
from dpcov.api.request import Request
from dpcov.core.privacy import ApproxDP, PureDP
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.errors import MechanismError
from dpcov.mechanisms import MECHANISMS, base, count
from dpcov.mechanisms.choice import GOALS

TABLE = np.random.default_rng(0).random((400, 3))
BUDGETS = {
    "pure": {"epsilon": 1.0},
    "zcdp": {"rho": 0.5},
    "approx": {"epsilon": 1.3, "delta": 1e-6},
}
SCALAR = (ScalarLaplace, ScalarGaussian)  # cheap; two questions may have the same noise
PRODUCT = [name for name, kind in MECHANISMS.items() if kind.__module__.count("mechanisms")]
ASKED = [{"mechanism": name} for name in PRODUCT] + [{"goal": goal} for goal in GOALS]
ASKED += [{"intercept": 0.0}, {"mechanism": "gaussian", "radius": "private"}]


def prepared(**asked):
    return api.prepare(TABLE, Request(lower=0, upper=1, seed=1, **asked))


def built(**asked):
    """Return the noise distributions that one release builds, and whether after its charge."""
    watch = ways.Watch()
    sys.setprofile(watch.laws)
    try:
        prepared(**asked).run()
    finally:
        sys.setprofile(None)
    return watch.built


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_no_law_is_built_twice_for_one_release(asked, budget, neighbors):
    given = {**asked, **BUDGETS[budget], "neighbors": neighbors}
    try:
        prepared(**given)
    except MechanismError:
        return  # not for this kind of budget
    found = [law for law in built(**given) if not isinstance(law[1], SCALAR)]
    assert found
    assert not ways.twice(found)


def test_control_a_release_that_calibrates_anew_builds_laws_twice(monkeypatch):
    def anew(ready):
        budget, neighbors = ready.guarantee.budget, ready.guarantee.neighbors
        laws = count.calibrated(ready.mechanism, ready.rows.lattice(), budget, neighbors, 1)
        return count.run(ready.mechanism, ready.rows, laws, api.Entropy.seeded(1))

    monkeypatch.setattr(api.PreparedRelease, "run", anew)
    assert ways.twice(built(epsilon=1.0))


@pytest.mark.parametrize("name", PRODUCT)
def test_what_is_run_is_what_was_calibrated_before_booking(name, monkeypatch, tmp_path):
    calls, kind = [], MECHANISMS[name]
    whole, book = kind.calibrate, Ledger.reserve
    monkeypatch.setattr(kind, "calibrate", lambda *a: calls.append("calibrate") or whole(*a))
    monkeypatch.setattr(Ledger, "reserve", lambda *a, **k: calls.append("book") or book(*a, **k))
    ledger = Ledger.create(tmp_path / "x.ledger", PureDP(10.0))
    delta = {"delta": 1e-9} if name == "gaussian" else {}
    if delta:
        ledger = Ledger.create(tmp_path / "y.ledger", ApproxDP(10.0, 1e-6), count="sums")
    asked = {"lower": 0, "upper": 1, "epsilon": 1.0, "mechanism": name, **delta}
    ready = api.prepare(TABLE, Request(ledger=ledger, **asked))
    made = ready.run()
    assert calls == ["calibrate", "book"]
    assert made.guarantee == ready.laws.guarantee


def test_every_mechanism_calibrates_and_runs_by_itself():
    for kind in MECHANISMS.values():
        assert kind.__call__ is base.Mechanism.__call__
