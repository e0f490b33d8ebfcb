"""The Wishart mechanism fails as the formulas say, and can't be chosen for a release."""

import math
import sys

import numpy as np
import pytest
from scipy import stats

import dpcov
from dpcov.core.privacy import Neighbors
from dpcov.errors import MechanismError
from dpcov.mechanisms import MECHANISMS, mechanism_named
from dpcov.papers import wishart
from dpcov.papers.wishart import add_remove_probability, replace_one_probability, simulate

EPSILONS = (0.01, 0.1, 0.5, 1.0, 4.0)
SWAPS = dict(zip(EPSILONS, (0.0021, 0.0212, 0.105, 0.204, 0.637), strict=True))
PASSES, REJECTED, RUNS = 1e-3, 1e-9, 4000


def p_value(frequency, probability):
    return stats.binomtest(round(frequency * RUNS), RUNS, probability).pvalue


@pytest.mark.parametrize("dimension", [2, 5, 12])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("neighbors", Neighbors)
def test_the_test_fires_as_often_as_the_formula_says_and_never_on_the_table(
    neighbors, epsilon, dimension
):
    found = simulate(neighbors, epsilon, dimension, RUNS, np.random.default_rng(dimension))
    assert p_value(found.on_neighbour, found.formula) > PASSES
    assert found.on_known_table == 0


@pytest.mark.parametrize("neighbors", Neighbors)
def test_the_check_rejects_half_of_the_formula_and_twice_its_scale(neighbors):
    found = simulate(neighbors, 1.0, 5, RUNS, np.random.default_rng(0))
    assert p_value(found.on_neighbour, found.formula / 2) < REJECTED
    other = simulate(neighbors, 0.5, 5, RUNS, np.random.default_rng(0))
    assert p_value(other.on_neighbour, found.formula) < REJECTED


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_formulas_are_those_of_the_specification(epsilon):
    assert add_remove_probability(epsilon) == pytest.approx(1 - math.exp(-epsilon / 3))
    assert replace_one_probability(epsilon) == pytest.approx(SWAPS[epsilon], rel=0.03, abs=5e-5)


def test_it_is_no_mechanism_and_asking_for_it_says_why():
    assert "wishart" not in MECHANISMS
    with pytest.raises(MechanismError, match="not differentially private"):
        mechanism_named("wishart")
    with pytest.raises(MechanismError, match="dpcov precision"):
        mechanism_named("output-perturbation")
    with pytest.raises(MechanismError, match="matrix-laplace"):
        dpcov.release(np.ones((3, 2)), lower=0, upper=1, epsilon=1.0, mechanism="wishart")
    named = [x for x in vars(wishart).values() if isinstance(x, type)]
    assert not any(hasattr(x, "calibrate") or x.__name__ == "Release" for x in named)


def test_the_command_prints_every_case_and_draws_the_figure(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    wishart.main(["--runs", "60", "--figure", str(tmp_path / "w.svg")])
    printed = capsys.readouterr().out
    assert printed.count("add-remove") == printed.count("replace-one") == 15
    assert "0.2835" in printed
    assert (tmp_path / "w.svg").read_text().startswith("<?xml")


def test_without_matplotlib_the_figure_is_refused_before_any_run(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit) as left:
        wishart.main(["--figure", "w.svg"])
    assert left.value.code == 2
    assert "matplotlib" in capsys.readouterr().err
