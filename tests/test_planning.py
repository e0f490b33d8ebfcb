"""The automatic choice: closed forms of the noise, compared."""

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest

from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP
from dpcov.errors import MechanismError
from dpcov.mechanisms import Gaussian, MatrixLaplace, NuclearLaplace, count, mechanism_named
from dpcov.mechanisms.choice import (
    calibrated,
    choose,
    expected_noise,
    least_noise,
    require_answerable,
)
from dpcov.mechanisms.standardized import BY_COLUMN, BY_DIRECTION
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema
from strategies import categorical, numeric

BUDGETS = [
    (NuclearLaplace(), PureDP(0.5)),
    (MatrixLaplace(), PureDP(0.5)),
    (Gaussian(), ZCDP(0.1)),
    (Gaussian(), ApproxDP(1, 1e-6)),
]


def lattice(d, radius=2.0):
    return Lattice(d, radius)


def simulated_noise(mechanism, grid, budget, neighbors):
    """Return the root mean square of ||Z||_F over simulations, with its relative standard error."""
    law = mechanism.calibrate(grid, budget, neighbors).matrix
    generator = np.random.default_rng(1)
    squares = [np.sum(law.simulate(generator) ** 2) for _ in range(3000)]
    mean = np.mean(squares)
    return mean**0.5 * grid.step**2, np.std(squares) / mean / len(squares) ** 0.5 / 2


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("d", [1, 6])
@pytest.mark.parametrize(("mechanism", "budget"), BUDGETS, ids=str)
def test_expected_noise_is_that_of_simulations(mechanism, budget, d, neighbors):
    expected = expected_noise(mechanism.calibrate(lattice(d), budget, neighbors).matrix, lattice(d))
    found, error = simulated_noise(mechanism, lattice(d), budget, neighbors)
    assert abs(found / expected - 1) < 4 * error
    assert abs(found / (1.2 * expected) - 1) > 4 * error


@pytest.mark.parametrize("d", [1, 13, 100])
def test_expected_noise_has_the_closed_forms_of_the_specification(d):
    grid = lattice(d, 1.0)
    laplace = MatrixLaplace(0.0).calibrate(grid, PureDP(1.0), Neighbors.ADD_REMOVE)
    gaussian = Gaussian(0.0).calibrate(grid, ZCDP(0.5), Neighbors.ADD_REMOVE)
    pure, zcdp = (expected_noise(laws.matrix, grid) for laws in (laplace, gaussian))
    assert pure == pytest.approx((d / 2) ** 0.5 * (d + 1))
    assert zcdp == pytest.approx((d * (d + 1) / 2) ** 0.5)


@pytest.mark.parametrize(
    ("neighbors", "few"), [(Neighbors.ADD_REMOVE, 13), (Neighbors.REPLACE_ONE, 7)]
)
def test_pure_wins_at_few_features_and_gaussian_at_many(neighbors, few):
    small = least_noise(lattice(few), ApproxDP(1.0, 1e-6), neighbors)
    large = least_noise(lattice(few + 5), ApproxDP(1.0, 1e-6), neighbors)
    assert (small.mechanism, large.mechanism) == (MatrixLaplace(), Gaussian())


@pytest.mark.parametrize("d", [2, 13, 20, 21, 100])
@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.1), ApproxDP(1.0, 1e-6)], ids=str)
def test_the_choice_is_the_least_expected_noise_and_says_all_numbers(d, budget):
    choice = least_noise(lattice(d), budget, Neighbors.ADD_REMOVE)
    noise = {}
    for kind in (MatrixLaplace, Gaussian):
        with contextlib.suppress(MechanismError):
            made = count.calibrated(kind(), lattice(d), budget, Neighbors.ADD_REMOVE, 1)
            noise[kind.name] = expected_noise(made.laws.matrix, lattice(d))
    assert choice.mechanism.name == min(noise, key=noise.get)
    for name, value in noise.items():
        assert f"{value:.4g} with {name}" in choice.reason
    assert choice.reason.count(" with ") == len(noise)
    assert len(noise) == (budget != ZCDP(0.1)) + (budget != PureDP(1.0))


def test_a_mechanism_whose_noise_can_not_be_drawn_is_passed_over():
    grid, asked = Lattice(2000, 1.0), Neighbors.ADD_REMOVE
    budget = ApproxDP(1e-11, 1e-3)
    with pytest.raises(MechanismError, match="too small for the noise"):
        MatrixLaplace().calibrate(grid, budget, asked)
    choice = least_noise(grid, budget, asked)
    assert isinstance(choice.mechanism, Gaussian)
    assert "matrix-laplace" not in choice.reason
    assert "matrix-laplace" in least_noise(grid, ApproxDP(1e-8, 1e-3), asked).reason  # a control
    with pytest.raises(MechanismError, match="Choose a usual value"):
        least_noise(grid, ApproxDP(1e-13, 1e-13), asked)


@pytest.mark.parametrize(
    ("mechanism", "budget", "message"),
    [
        (Gaussian(), PureDP(1.0), "gaussian needs a delta or rho"),
        (MatrixLaplace(), ZCDP(1.0), "needs epsilon, but the budget is rho"),
    ],
    ids=str,
)
def test_a_budget_that_a_mechanism_can_not_keep_is_refused(mechanism, budget, message):
    with pytest.raises(MechanismError, match=message):
        mechanism.calibrate(lattice(3), budget, Neighbors.ADD_REMOVE)


@pytest.mark.parametrize(
    ("d", "share"), [(1, 1.0), (2, 0.962), (4, 0.936), (10, 0.918), (20, 0.912)]
)
def test_pure_noise_has_the_stated_share_more_than_the_least_there_is(d, share):
    grid, budget = lattice(d), PureDP(1.0)
    least, taken = (
        expected_noise(kind().calibrate(grid, budget, Neighbors.ADD_REMOVE).matrix, grid)
        for kind in (NuclearLaplace, MatrixLaplace)
    )
    assert least / taken == pytest.approx(share, abs=6e-4)
    assert least_noise(grid, budget, Neighbors.ADD_REMOVE).mechanism == MatrixLaplace()


@pytest.mark.parametrize(("numbers", "levels"), [(1, 0), (2, 0), (2, 1), (2, 2), (0, 2)])
def test_rows_without_an_intercept_are_released_as_they_are(numbers, levels):
    """Control: with one they are taken about their means, where any is a number."""
    columns = {f"x{j}": numeric(0, 1) for j in range(numbers)}
    columns |= {f"c{j}": categorical("a", "b") for j in range(levels)}
    for intercept, named in ((0, False), (0.3, numbers > 0)):
        schema = Schema.parse({"columns": columns, "intercept": intercept})
        mechanism = choose(schema, PureDP(1.0), Neighbors.ADD_REMOVE).mechanism
        assert mechanism.name == ("standardized" if named else "matrix-laplace")


COUNT, FLAG = {"kind": "count", "upper": 9}, {"kind": "flag"}
NUMBER = {"kind": "number", "lower": 0, "upper": 1}
GAP = NUMBER | {"missing": "pairwise"}


@pytest.mark.parametrize(
    ("columns", "at_directions"),
    [
        ([NUMBER], False),
        ([NUMBER] * 2, True),
        ([NUMBER] * 2 + [COUNT], True),
        ([NUMBER, COUNT], False),
        ([NUMBER, FLAG], False),
        ([NUMBER] * 3 + [COUNT, FLAG], True),
        ([NUMBER] * 2 + [COUNT, FLAG], False),
        ([NUMBER] * 2 + [GAP], False),
    ],
    ids=str,
)
def test_directions_are_queried_if_most_features_are_numbers_without_missing_cells(
    columns, at_directions
):
    named = {f"x{j}": column for j, column in enumerate(columns)}
    schema = Schema.parse({"version": 2, "columns": named})
    choice = choose(schema, PureDP(1.0), Neighbors.ADD_REMOVE)
    assert choice.mechanism == (BY_DIRECTION if at_directions else BY_COLUMN)
    assert choice.reason.startswith("estimates means")
    assert ("principal directions" in choice.reason) == at_directions
    asked = Lattice.of(schema), PureDP(1.0), Neighbors.ADD_REMOVE
    assert choice.laws == calibrated(choice.mechanism, *asked)


def test_a_budget_too_small_for_pilot_queries_is_kept_by_the_sum_alone():
    schema = Schema.parse({"columns": {name: numeric(0, 1) for name in "ab"}})
    budget = PureDP(1e-10)
    with pytest.raises(MechanismError):
        calibrated(BY_DIRECTION, Lattice.of(schema), budget, Neighbors.ADD_REMOVE)
    choice = choose(schema, budget, Neighbors.ADD_REMOVE)
    assert choice.mechanism == MatrixLaplace()
    assert choice.laws is not None


@pytest.mark.parametrize("error", [OverflowError, ZeroDivisionError, ValueError])
def test_numbers_out_of_range_are_refused_without_their_error(monkeypatch, error):
    def fails(*_):
        raise error("1e400")

    monkeypatch.setattr(MatrixLaplace, "calibrate", fails)
    with pytest.raises(MechanismError, match="options of matrix-laplace and") as refused:
        calibrated(MatrixLaplace(), lattice(2), PureDP(1.0), Neighbors.ADD_REMOVE)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_what_can_not_be_asked_again_is_refused_what_asks_for_more_than_its_sum():
    rows = SimpleNamespace(rereadable=True, has_rows=True)
    sums, streamed = (SimpleNamespace(**(vars(rows) | {of: False})) for of in vars(rows))
    many = mechanism_named("stable-covariance")
    for mechanism in (Gaussian(), Gaussian(radius="private"), BY_COLUMN, many):
        require_answerable(mechanism, rows)
    for mechanism in (Gaussian(), MatrixLaplace(), NuclearLaplace()):
        require_answerable(mechanism, sums)
        require_answerable(mechanism, streamed)
    for mechanism in (BY_COLUMN, many, Gaussian(radius="private")):
        with pytest.raises(MechanismError, match="more than the sums"):
            require_answerable(mechanism, sums)
    require_answerable(BY_COLUMN, streamed)
    with pytest.raises(MechanismError, match="memory"):
        require_answerable(many, streamed)
