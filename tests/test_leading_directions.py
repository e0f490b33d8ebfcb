"""What a combination of moments by length of rows loses along leading directions is given back."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoised_errors import mean_error
from dpcov.core.privacy import Neighbors, PureDP
from dpcov.core.samplers import MatrixLaw
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.weighted import WeightedSum
from dpcov.denoise.leading import DROWNED, MOST, _hold_back, given_back, noise_within
from dpcov.denoise.rungs import SURE, Combined
from dpcov.mechanisms import Ladder
from dpcov.mechanisms.matrix_laplace import pure_noise
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows


def gaussian(d: int, variance: float) -> GaussianOrthogonal:
    return GaussianOrthogonal(d, Fraction(variance))


def combination(weights: tuple[float, ...], traces: Any, laws: list[MatrixLaw]) -> Combined:
    """One in which a part has this weight; its matrix is not looked at."""
    law = WeightedSum(weights, tuple(laws))
    return Combined(np.zeros((1, 1)), law, float(np.sum(traces)), np.asarray(traces, float))


@pytest.mark.parametrize("law", [gaussian(12, 3.0), pure_noise(12, 2.0)], ids=["gaussian", "pure"])
def test_the_noise_of_a_block_is_what_a_block_of_draws_has(law: MatrixLaw) -> None:
    """In any basis; control: the share r / d of the whole's, which is wrong for a block."""
    generator = np.random.default_rng(5)
    basis = np.linalg.qr(generator.standard_normal((12, 12)))[0]
    for r in range(1, MOST + 1):
        blocks = [basis[:, :r].T @ law.simulate(generator) @ basis[:, :r] for _ in range(3000)]
        squared = np.sum(np.square(blocks), axis=(1, 2))
        error = squared.std() / np.sqrt(len(squared))
        assert abs(squared.mean() - noise_within(law, r)) < 4 * error
        assert abs(squared.mean() - law.frobenius_squared * r / 12) > 4 * error
    assert noise_within(law, 12) == pytest.approx(law.frobenius_squared)
    assert noise_within(gaussian(1, 3.0), 1) == pytest.approx(gaussian(1, 3.0).frobenius_squared)


def drowned_long_rows(long: float, generator: np.random.Generator) -> tuple[Any, Any, Any]:
    """The true parts, of which noise drowns the trace of the first; noisy ones; and laws."""
    d = 20
    directions = np.zeros((2, d, d))
    directions[0, 0, 0] = long
    directions[1] = np.diag(1000.0 / np.arange(1, d + 1) ** 2)
    laws = [gaussian(d, 16.0), gaussian(d, 0.01)]
    noisy = directions + np.stack([law.simulate(generator) for law in laws])
    return directions, noisy, laws


@pytest.mark.parametrize("mapped", [False, True])
def test_long_rows_along_the_leading_direction_are_given_back(mapped: bool) -> None:
    """The trace of the part is hidden by its noise; control: parts without such rows."""
    generator = np.random.default_rng(7)

    def errors(long: float) -> Any:
        """Means of that of the combination, and of the estimate."""
        found = []
        for _ in range(40):
            parts, noisy, laws = drowned_long_rows(long, generator)
            traces = [0.0, float(np.trace(parts[1]))]
            kept = combination((0.0, 1.0), traces, laws)
            made = given_back(noisy[1], kept, noisy, laws, mapped=mapped)
            whole = parts.sum(axis=0)
            found.append([np.linalg.norm(each - whole) for each in (noisy[1], made)])
        return np.mean(found, axis=0)

    before, after = errors(80.0)
    assert after < 0.35 * before
    without = errors(0.0)
    assert without[1] - without[0] < 0.1 * before


def test_nothing_is_given_back_where_no_direction_is_clear() -> None:
    laws = [gaussian(8, 16.0), gaussian(8, 4.0)]
    found = combination((0.0, 1.0), [0.0, 8.0], laws)
    noisy = np.stack([1e6 * np.eye(8), np.eye(8)])
    edge = found.law.detectable
    for shrunk, alike in ((1.9 * edge * np.eye(8), True), (2.1 * edge * np.eye(8), False)):
        assert np.array_equal(given_back(shrunk, found, noisy, laws, mapped=True), shrunk) is alike
    nothing = np.zeros((8, 8))
    assert given_back(nothing, found, noisy, laws, mapped=True) is nothing


def test_what_stands_for_a_lost_part_is_taken_away_again() -> None:
    """The other part had weight instead; control: a combination that loses nothing is left."""
    laws: list[MatrixLaw] = [gaussian(8, 1e-6), gaussian(8, 1e-6)]
    noisy = np.stack([np.diag([5.0] + [0.0] * 7), np.diag([20.0] + [1.0] * 7)])
    weights = (0.5, 1 + 2.5 / 27)
    found = combination(weights, [5.0, 27.0], laws)
    combined = np.tensordot(weights, noisy, 1)
    made = given_back(combined, found, noisy, laws, mapped=True)
    assert made[0, 0] == pytest.approx(25.0, rel=1e-4)
    assert combined[0, 0] < 24.4
    nothing_lost = combination((DROWNED, 1 + 1 / 27), [5.0, 27.0], laws)
    assert given_back(combined, nothing_lost, noisy, laws, mapped=True) is combined


@given(st.integers(0, 10**6), st.integers(1, 6), st.booleans())
def test_the_estimate_stays_positive_semidefinite(seed: int, d: int, mapped: bool) -> None:
    generator = np.random.default_rng(seed)
    root = generator.standard_normal((d, d))
    shrunk = root @ root.T
    noisy = 10 * generator.standard_normal((3, d, d))
    noisy += noisy.transpose(0, 2, 1)
    laws = [gaussian(d, 4.0**-k / 100) for k in range(3)]
    weights = tuple(generator.uniform(0, 1.2, 3).tolist())
    found = combination(weights, generator.uniform(0, 5, 3), laws)
    made = given_back(shrunk, found, noisy, laws, mapped=mapped)
    assert np.array_equal(made, made.T)
    assert np.linalg.eigvalsh(made)[0] > -1e-9 * max(1.0, np.abs(made).max())


@pytest.mark.parametrize(
    ("seen", "mapped", "held"),
    [
        (SURE - 0.1, False, True),
        (SURE + 0.1, False, False),
        (SURE - 0.1, True, False),
    ],
)
def test_long_rows_that_may_be_noise_are_held_back(seen: float, mapped: bool, held: bool) -> None:
    """Of mapped rows they are not, as there are fewer of them than of the next shorter."""
    kept = np.array([0.8, 0.8])
    _hold_back(kept, np.array([0.0, 100.0]), np.array([seen, 0.0]), np.ones(2), mapped)
    assert bool(kept[0] == 0.0) is held
    assert kept[1] == 0.8


def test_more_mapped_rows_than_there_are_of_the_next_shorter_are_held_back() -> None:
    """And those that show most never, nor shorter ones."""
    kept = np.full(4, 0.8)
    beyond = np.array([3.0, 1.0, 0.0, 0.5])
    _hold_back(kept, np.array([0.0, 0.0, 50.0, 5.0]), beyond, np.ones(4), True)
    assert kept.tolist() == [0.0, 0.8, 0.8, 0.8]


def test_a_spiked_table_has_less_error_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long rows lie along two spikes, short ones in all directions; control: nothing given back."""
    generator = np.random.default_rng(11)
    d = 30
    spread = np.array([0.35, 0.25] + [0.5 / (d - 2)] * (d - 2))
    table = generator.standard_normal((5000, d)) * np.sqrt(spread)
    table *= 0.999 / np.linalg.norm(table, axis=1).max()
    names = tuple(f"x{k}" for k in range(d))
    schema = Schema.from_bounds(-1.0, 1.0, names, radius=1.0, intercept=0.0)
    door = open_rows(table, schema)
    truth = table.T @ table

    asked: dict[str, Any] = {"budget": PureDP(4), "neighbors": Neighbors.REPLACE_ONE}
    with_it = mean_error(Ladder(), door, truth, 5, **asked)
    monkeypatch.setattr("dpcov.denoise.given_back", lambda shrunk, *_, **__: shrunk)
    assert with_it < 0.85 * mean_error(Ladder(), door, truth, 5, **asked)
