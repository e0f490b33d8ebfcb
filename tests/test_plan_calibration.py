"""Plans against releases of a public table: the small form of `make plan-calibration`."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.slow
def test_a_plan_from_a_release_of_other_wines_is_within_a_factor_of_what_wine_shows(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    calibration = importlib.import_module("plan_calibration")
    if not (importlib.import_module("datasets").DATA / "wine").exists():
        pytest.skip("the public tables are not here")
    known = calibration.guesses

    def guessed(rows):
        return {"a release": known(rows)["a release"], "poor": calibration.Guess(0.6)}

    monkeypatch.setattr(calibration, "guesses", guessed)
    halves = calibration.numeric(calibration.wine(), calibration.WINE)
    for epsilon in (1.0, 10.0):
        cells = {
            (cell["guess"], cell["figure"]): cell["ratio"]
            for cell in calibration.compared("wine", halves, epsilon)
        }
        for figure in ("noise", "entry", "correlation", "prediction"):
            assert 1 / 1.3 <= cells["a release", figure] <= 1.3, (epsilon, figure)
        assert abs(cells["poor", "noise"] - 1) < 0.1
        assert cells["poor", "correlation"] < 1 / 1.3
