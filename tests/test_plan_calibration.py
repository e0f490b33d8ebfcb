"""Plans and releases of a public table: a small version of the benchmark `plan_calibration`."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.statistics
def test_a_plan_from_a_release_of_other_wines_is_within_a_factor_of_what_wine_shows(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    calibration = importlib.import_module("plan_calibration")
    known = calibration.guesses

    def guessed(rows):
        return {"a release": known(rows)["a release"], "poor": calibration.Assumptions(0.8)}

    monkeypatch.setattr(calibration, "guesses", guessed)
    monkeypatch.setattr(calibration, "REPEATS", 60)
    halves = calibration.numeric(calibration.wine(), calibration.WINE)
    for epsilon in (1.0, 10.0):
        cells = list(calibration.compared("wine", halves, epsilon))
        assert {"standardized", "matrix-laplace"} <= {cell["mechanism"] for cell in cells}
        for cell in cells:
            if cell["guess"] == "a release" and cell["figure"] != "eigenvalue":
                assert 1 / 1.3 <= cell["ratio"] <= 1.3, cell
            if cell["guess"] == "poor" and cell["figure"] == "noise" and cell["exact"]:
                assert abs(cell["ratio"] - 1) < 0.1, cell
            elif cell["guess"] == "poor" and cell["figure"] == "noise":
                assert cell["ratio"] > 1.3, cell
            elif cell["guess"] == "poor" and cell["figure"] == "correlation":
                assert cell["ratio"] < 1 / 1.3 or cell["automatic"], cell
