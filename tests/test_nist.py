"""Least squares of NIST's certified regressions, at a budget so large that no noise is left.

Data and certified values: Statistical Reference Datasets, linear regression, National Institute of
Standards and Technology (public domain). Only the error of the lattice remains: `OLS.digits` is
the number of correct digits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.rows import moment

DATA = Path(__file__).parent / "nist"
RHO = 1e9
ROUND = {  # bounds that somebody would declare, of the target and of the features
    "norris": ([0, 0], [1000, 1000]),
    "pontius": ([0, 0, 0], [2.5, 3e6, 9e12]),
    "longley": (
        [60_000, 80, 2e5, 1500, 1400, 1e5, 1945],
        [72_000, 120, 6e5, 5000, 3700, 1.35e5, 1965],
    ),
}
CERTIFIED = {
    "norris": [-0.262323073774029, 1.00211681802045],
    "pontius": [0.673565789473684e-3, 0.732059160401003e-6, -0.316081871345029e-14],
    "longley": [
        *(-3482258.63459582, 15.0618722713733, -0.358191792925910e-1, -2.02022980381683),
        *(-1.03322686717359, -0.511041056535807e-1, 1829.15146461355),
    ],
}
# Digits of the worst coefficient before rows were mapped about their means: by the default and by
# one matrix, whichever gave more.
BEFORE = {"norris": 3.27, "pontius": 2.49, "longley": 1.88}
WAMPLER = ["wampler1", "wampler2", "wampler3", "wampler4", "wampler5"]
LARGEST = [4e6, 1e2, 4e6, 4e6, 3e7]  # of their targets, which may be as much below 0


def fitted(name: str, **asked: Any) -> tuple[Any, Any]:
    """Return the fit and the certified coefficients."""
    table = pd.read_csv(DATA / f"{name.rstrip('12345')}.csv").astype(float)
    if name in ROUND:
        (lower, upper), certified = ROUND[name], CERTIFIED[name]
        if name == "pontius":
            table["x2"] = table["x"] ** 2
    else:
        number = int(name[-1])
        powers = {f"x{k}": table["x"] ** k for k in range(1, 6)}
        table = pd.DataFrame({"y": table[f"y{number}"], **powers})
        largest = LARGEST[number - 1]
        lower, upper = [-largest, *[0] * 5], [largest, *(20.0**k for k in range(1, 6))]
        certified = [0.1**k if number == 2 else 1.0 for k in range(6)]
    made = dpcov.release(table, lower=lower, upper=upper, rho=RHO, seed=1, **asked)
    return dpcov.ols(made, "y"), np.array(certified)


def digits(fit: Any, certified: Any) -> float:
    off = np.abs(fit.coefficients - certified) / np.abs(certified)
    return float(-np.log10(off.max()))


@pytest.mark.parametrize("name", ROUND)
def test_no_fewer_digits_than_before_are_right(name: str) -> None:
    fit, certified = fitted(name)
    assert digits(fit, certified) > BEFORE[name]
    assert f"about {fit.digits:.0f} digits" in fit._notes()[0]


def test_control_a_coarser_lattice_has_fewer_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    fine, certified = fitted("norris")
    monkeypatch.setattr(moment, "UNITS", 2**12)
    coarse, _ = fitted("norris")
    assert digits(coarse, certified) < BEFORE["norris"] < digits(fine, certified)
    assert coarse.digits < fine.digits - 2


@pytest.mark.parametrize("name", WAMPLER)
def test_where_the_lattice_resolves_no_coefficient_it_says_so(name: str) -> None:
    """Powers of one column to the fifth: their condition number is above the lattice's 2^20."""
    fit, _ = fitted(name)
    assert fit.digits < 0
    assert "about 0 digits" in fit._notes()[0]
