"""What additive Wishart noise is calibrated to: shares, scales, degrees, and where it refuses."""

import math

import numpy as np
import pytest

from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ApproxDP, Neighbors, PureDP, Unit, exact
from dpcov.errors import MechanismError
from dpcov.mechanisms import AdditiveWishart
from dpcov.papers import additive_wishart
from dpcov.papers.additive_wishart import (
    TAIL_RELATIVE_ERROR,
    _difference,
    least_scales,
    one_of,
    replacement_delta,
    row_delta,
)
from dpcov.rows.moment import Lattice

ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
BUDGET = ApproxDP(1.0, 1e-6)
HIGHEST = 2**16 - 1  # of m - d


@pytest.mark.parametrize("excess", [2, 3, 60, HIGHEST])
@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("neighbors", Neighbors)
def test_degrees_that_are_asked_for_are_used_and_spend_delta_and_no_more(neighbors, d, excess):
    lattice = Lattice(d, 1.0)
    mechanism = AdditiveWishart(trace_share=0.0, degrees=d + excess)
    law = mechanism.calibrate(lattice, BUDGET, neighbors).matrix
    curve = replacement_delta if neighbors is SWAP and d >= 2 else row_delta
    assert (law.dimension, law.degrees) == (d, d + excess)
    assert 0.999e-6 < float(curve(law.scale / lattice.bound, excess + 1.0, 1.0)) <= 1e-6


@pytest.mark.parametrize("excess", [1, HIGHEST + 1])
def test_degrees_beside_those_of_the_theorem_are_refused(excess):
    mechanism = AdditiveWishart(trace_share=0.0, degrees=4 + excess)
    with pytest.raises(MechanismError, match=rf"6..{4 + HIGHEST}"):
        mechanism.calibrate(Lattice(4, 1.0), BUDGET, ADD)


def test_the_degrees_that_are_chosen_have_the_least_noise():
    def spread(degrees):
        mechanism = AdditiveWishart(trace_share=0.0, degrees=degrees)
        return mechanism.calibrate(Lattice(5, 1.0), BUDGET, SWAP).matrix.spread

    chosen = spread(None)
    assert chosen < 0.997 * min(spread(5 + excess) for excess in (2, 60, 1000, HIGHEST))
    assert chosen < 1.001 * min(spread(degrees) for degrees in (5000, 8000, 11000))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_a_trace_is_released_beside_more_than_one_entry(d):
    laws = AdditiveWishart().calibrate(Lattice(d, 1.0), BUDGET, ADD)
    assert (laws.trace is None) == (d == 1)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_trace_and_matrix_together_spend_epsilon_and_no_more(monkeypatch, epsilon, share):
    given = []

    def spy(curve, freedoms, *budget):
        given.append(budget)
        return least_scales(curve, freedoms, *budget)

    monkeypatch.setattr(additive_wishart, "least_scales", spy)
    lattice, budget = Lattice(3, 1.0, 0.3), ApproxDP(epsilon, 1e-6)
    laws = AdditiveWishart(trace_share=share).calibrate(lattice, budget, ADD)
    for_matrix, delta = given.pop()
    spent = exact(for_matrix) + lattice.unit_bound / laws.trace.scale
    assert exact(epsilon) * (1 - exact(1e-11)) < spent <= exact(epsilon)
    assert delta == 1e-6
    assert lattice.unit_bound / laws.trace_alone.scale == exact(epsilon)


@pytest.mark.parametrize("neighbors", Neighbors)
def test_persons_are_calibrated_to_one_step_of_their_chain(neighbors):
    person = Lattice(3, 1.0, 0.3, Unit("id", 3))
    laws = AdditiveWishart(trace_share=0.2).calibrate(person, BUDGET, neighbors)
    step = one_of(ApproxDP(0.8, 1e-6), 3)
    alone = AdditiveWishart(trace_share=0.0).calibrate(Lattice(3, 1.0, 0.3), step, neighbors)
    assert laws.matrix.scale == pytest.approx(alone.matrix.scale, rel=1e-8)
    assert laws.trace.scale == person.unit_bound / (exact(0.2) * exact(1.0))


@pytest.mark.parametrize("rows", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [0.1, 2.0])
def test_the_steps_of_a_chain_add_up_to_the_budget(epsilon, rows):
    step = one_of(ApproxDP(epsilon, 1e-6), rows)
    assert rows * step.epsilon == pytest.approx(epsilon, rel=1e-15)
    delta = math.fsum(math.exp(i * step.epsilon) for i in range(rows)) * step.delta
    assert 1e-6 * (1 - 2 * TAIL_RELATIVE_ERROR) < delta < 1e-6


def test_a_single_row_is_the_whole_chain():
    assert one_of(BUDGET, 1) is BUDGET


@pytest.mark.parametrize(
    ("first", "second", "epsilon", "expected", "parts"),
    [
        (0.5, 0.2, math.log(2), 0.1, 0.9),
        (0.1, 0.4, 0.0, 0.0, 0.5),
        (0.5, 0.9, 5.0, 0.0, 1.5),  # e^epsilon times a probability is cut at 1
        (0.5, 0.0, 5.0, 0.5, 0.5),
    ],
)
def test_a_difference_of_tails_is_rounded_up_by_their_error(
    first, second, epsilon, expected, parts
):
    found = _difference(np.array(first), np.array(second), epsilon)
    assert float(found - expected) == pytest.approx(TAIL_RELATIVE_ERROR * parts, rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_the_scale_is_the_least_that_keeps_the_budget(epsilon):
    freedoms = np.array([3.0, 40.0, 3000.0])
    for curve in (row_delta, replacement_delta):
        found = least_scales(curve, freedoms, epsilon, 1e-6)
        assert (curve(found, freedoms, epsilon) <= 1e-6).all()
        assert (curve(found * (1 - 1e-12), freedoms, epsilon) > 1e-6 * (1 - 1e-9)).all()


def test_the_scale_that_is_used_is_above_the_least():
    """The product with B^2 is rounded, so the least is made larger by more than that."""
    laws = AdditiveWishart(trace_share=0.0, degrees=62).calibrate(Lattice(20, 1.0), BUDGET, ADD)
    least = least_scales(row_delta, np.array([43.0]), 1.0 - 1e-12, 1e-6)[0]
    ratio = laws.matrix.scale / Lattice(20, 1.0).bound / float(least)
    assert 1e-13 < ratio - 1 < 1e-11


def test_budgets_that_need_more_noise_than_can_be_drawn_are_refused():
    least = 20 * 2.0**-40  # epsilon, of which the trace has a twentieth: its scale is 2^80
    laws = AdditiveWishart().calibrate(Lattice(3, 1.0), ApproxDP(1.001 * least, 1e-12), ADD)
    assert 2**63 < np.abs(laws.matrix.sample(Entropy.seeded(1))).max() < 2**87
    assert 2**63 < abs(laws.trace.sample(Entropy.seeded(1))) < 2**87
    for epsilon in (0.999 * least, 1e-60):
        with pytest.raises(MechanismError, match="budget is too small for the noise"):
            AdditiveWishart().calibrate(Lattice(3, 1.0), ApproxDP(epsilon, 1e-12), ADD)


def test_a_pure_budget_and_options_that_make_no_sense_are_refused():
    with pytest.raises(MechanismError, match="epsilon and delta"):
        AdditiveWishart().calibrate(Lattice(3, 1.0), PureDP(1.0), ADD)
    for wrong in (1.0, -0.1, math.nan):
        with pytest.raises(MechanismError, match="trace_share"):
            AdditiveWishart(trace_share=wrong)
    for wrong in (True, 6.0, "6"):
        with pytest.raises(MechanismError, match="whole number"):
            AdditiveWishart(degrees=wrong)
