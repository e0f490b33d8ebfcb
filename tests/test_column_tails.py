"""Tails of single columns: estimated from noisy counts, bounded, stored, and shrunk by the map."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import dpcov
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.errors import ReleaseError
from dpcov.mechanisms.adapted_map import adapted, column_cells, with_factors
from dpcov.mechanisms.replay import Replay
from dpcov.mechanisms.row_transform import RowTransform
from dpcov.published.column_tails import MIN_FACTOR, SplitHistogram
from dpcov.published.consistency import check_consistency
from dpcov.releases.file import from_text
from dpcov.rows.schema import Schema
from rounds_for_tests import changed

QUIET = ScalarGaussian(Fraction(25))
LAWS = pytest.mark.parametrize(
    "law", [QUIET, ScalarLaplace(Fraction(4))], ids=["normal", "laplace"]
)
P, LONGEST = 4, 64.0


def histogram(columns, factors=(1.0,) * P, law=QUIET):
    ends = LONGEST**2 * 2.0 ** (np.arange(-36, 1) / 2)
    counts = np.zeros(37, int)
    counts[12:18] = [300, 700, 900, 700, 300, 60]  # about a squared norm of 1
    return SplitHistogram(
        tuple(ends.tolist()), tuple(counts.tolist()), law, tuple(map(tuple, columns)), factors
    )


EMPTY = [0, 3, -4, 1, 2, -1, 0, 2, -3]
TAIL = [800, 330, 140, 55, 25, 8, 4, 2, 1]
CLUMP = [2, -3, 0, 150, 1, 4, -2, 0, 3]


@LAWS
def test_a_column_with_a_tail_loses_about_what_its_rows_hold_and_others_hardly_anything(law):
    found = histogram([TAIL, EMPTY, CLUMP, EMPTY], law=law)
    lost = found.expected_losses(4.0, np.ones(1))[:, 0]
    squares = LONGEST**2 * 2.0 ** np.arange(-9.0, 0)
    for j, counts in ((0, TAIL), (2, CLUMP)):
        low, high = (float(counts @ np.maximum(k * squares - 16, 0)) for k in (1, 2))
        assert 0.8 * low < lost[j] < 1.2 * high
    assert lost[[1, 3]].max() < 0.05 * lost[[0, 2]].min()


@LAWS
def test_the_loss_falls_with_the_factor_and_vanishes_if_every_row_fits(law):
    found = histogram([TAIL, EMPTY, CLUMP, EMPTY], law=law)
    losses = found.expected_losses(4.0, np.array([1.0, 0.5, 0.25, 1 / 8]))
    assert np.all(np.diff(losses, axis=1) <= 0)
    assert not found.expected_losses(2 * LONGEST, np.ones(1)).any()
    assert found.loss_off_columns(2 * LONGEST) == 0
    assert found.loss_off_columns(4.0) > 0


def test_stated_losses_exceed_the_expected_ones_and_the_bounds_exceed_both():
    found = histogram([TAIL, EMPTY, CLUMP, EMPTY], factors=(0.5, 1.0, 0.25, 1.0))
    squares, norms = found.column_losses(4.0)
    expected = [
        f**2 * found.expected_losses(4.0, np.array([f]))[j, 0] for j, f in enumerate(found.factors)
    ]
    assert np.all(1.645 * squares >= np.array(expected) * 0.99 - 1e-6)
    assert np.all(norms >= 0)
    of_squares, of_norms = found.loss_upper_bounds(4.0, 0.95)
    assert of_squares > 1.645 * squares.max()
    assert of_norms > 1.645 * norms.max()


def test_bounds_hold_for_every_direction_of_the_rows_in_their_cells():
    """Rows of any squared cosine above 1/2 lose at most the bound of their cell."""
    rng = np.random.default_rng(0)
    factors = np.array([0.25, 0.5, 1.0, 1 / 8])
    directions = np.linalg.qr(rng.normal(size=(P, P)))[0]
    directions[:, 1] = 0.8 * directions[:, 0] + 0.6 * directions[:, 1]  # columns are close
    inflated = np.eye(P) + (directions * (factors**-2 - 1)) @ directions.T
    values, vectors = np.linalg.eigh(inflated)
    shrink = (vectors / np.sqrt(values)) @ vectors.T
    for _ in range(300):
        j, cosine = rng.integers(P), rng.uniform(0.5, 1)
        aside = rng.normal(size=P)
        aside -= (aside @ directions[:, j]) * directions[:, j]
        row = np.sqrt(cosine) * directions[:, j]
        row += np.sqrt(1 - cosine) * aside / np.linalg.norm(aside)
        image = np.sum((shrink @ row) ** 2)
        assert image <= 0.5 * factors[j] ** 2 + 0.5 + 1e-9


def test_the_tail_is_uncertain_if_a_column_can_lose_much():
    quiet = histogram([EMPTY] * P)
    tail = histogram([TAIL, *[EMPTY] * 3])
    assert quiet.tail_loss_probability(8.0, 1e4) < 0.3 < tail.tail_loss_probability(8.0, 1e4)


def test_a_simulated_table_has_as_many_long_rows_along_each_column_as_the_release():
    whole, shrunk = (histogram([TAIL, EMPTY, CLUMP, EMPTY], (f, 1.0, 1.0, 1.0)) for f in (1, 0.25))
    total = sum(whole.all_counts)
    columns, norms = whole.long_rows(int(total))
    numbers = np.bincount(columns, minlength=P)
    assert numbers == pytest.approx([sum(TAIL), 0, 150, 0], abs=60)
    assert LONGEST / 2**4.5 <= norms.min() < norms.max() < LONGEST
    again, shorter = shrunk.long_rows(int(total))
    assert np.array_equal(columns, again)
    assert shorter[columns == 0] == pytest.approx(0.25 * norms[columns == 0])
    assert len(whole.long_rows(100)[0]) == pytest.approx(100 * numbers.sum() / total, abs=1)


def test_wide_bounds_have_cells_and_narrow_bounds_have_none():
    schema = Schema.from_bounds(-1.0, 1.0, tuple("abcd"))
    shape, longest = RowTransform.reached(np.eye(P), None, schema)
    for typical, octaves in ((longest, None), (longest / 2, None), (longest / 4, 2)):
        cells = column_cells(RowTransform(shape, longest, typical, 100.0))
        assert (None if cells is None else len(cells.edges)) == octaves
        if cells is not None:
            assert cells.edges[0] >= 2 * typical * (1 - 1e-12)
            assert cells.edges[-1] == pytest.approx(longest / np.sqrt(2))


def test_only_columns_with_tails_are_shrunk_and_a_diagonal_map_stays_diagonal():
    schema = Schema.from_bounds(-1.0, 1.0, tuple("abcd"))
    law = dpcov.mechanisms.Gaussian().calibrate(
        dpcov.rows.moment.Lattice(P, 1.0, 0.3).relative(),
        dpcov.ZCDP(1.0),
        dpcov.Neighbors.ADD_REMOVE,
    )
    squares = LONGEST**2 * 2.0 ** (-np.arange(40) / 4)
    found = with_factors(histogram([TAIL, EMPTY, CLUMP, EMPTY]), 4.0, law.matrix, squares)
    factors = np.array(found.factors)
    assert np.all(factors[[1, 3]] == 1)
    assert np.all((factors[[0, 2]] < 0.8) & (factors[[0, 2]] >= MIN_FACTOR))
    generator = np.random.default_rng(1)
    for matrix in (np.diag([1.0, 2.0, 4.0, 1.0]), generator.normal(size=(P, P))):
        shape, longest = RowTransform.reached(matrix, None, schema)
        images = RowTransform(shape, longest, 1.0, 100.0)
        shrunk = adapted(images, found, schema)
        units = shape.matrix() / np.linalg.norm(shape.matrix(), axis=0)
        inflated = np.eye(P) + (units * (factors**-2 - 1)) @ units.T
        wanted = shape.matrix().T @ np.linalg.inv(inflated) @ shape.matrix()
        made = shrunk.map.matrix()
        assert made.T @ made == pytest.approx(wanted, rel=1e-5, abs=1e-6)
        assert (shrunk.map.units is None) == (shape.units is None)
        assert adapted(images, replace(found, factors=(1.0,) * P), schema) is images


# Releases


@cache
def released(**more):
    rng = np.random.default_rng(5)
    table = np.column_stack(
        [np.exp(1.2 + rng.normal(size=20_000)), rng.normal(50, 12, 20_000), rng.random(20_000) * 9]
    )
    options = {"lower": [0, 0, 0], "upper": [365, 120, 10], "rho": 0.5, "seed": 3} | more
    return dpcov.release(np.clip(table, 0, [365, 120, 10]), **options)


PURE = {"rho": None, "epsilon": 2.0}


@pytest.mark.parametrize(
    "more",
    [{}, {"neighbors": "replace-one"}, PURE, {**PURE, "delta": 1e-6}],
    ids=["zcdp", "replace-one", "pure", "approx"],
)
def test_a_release_shrinks_the_column_with_the_long_tail_and_its_file_says_so(more):
    made = released(**more)
    assert isinstance(made.lengths, SplitHistogram)
    assert made.lengths.factors[0] < 1
    assert made.lengths.factors[1] == made.lengths.factors[2] == 1
    again = from_text(made.to_text(), "file")
    assert again.lengths == made.lengths
    assert again == made
    check_consistency(made)


def answer(document):
    return next(one["answer"] for one in document["rounds"] if one["query"] == "norms")


DAMAGES = {
    "one count less": lambda it: it["column_counts"][0].pop(),
    "one column less": lambda it: it["column_counts"].pop(),
    "one factor less": lambda it: it["factors"].pop(),
    "no octave": lambda it: it.update(column_counts=[[], [], []]),
    "more octaves than bins": lambda it: it.update(column_counts=[[1] * 99] * 3),
    "a factor above 1": lambda it: it["factors"].__setitem__(0, 1.5),
    "a factor of 0": lambda it: it["factors"].__setitem__(0, 0.0),
    "another kind": lambda it: it.update(kind="norm histogram"),
    "bins out of order": lambda it: it["ends"].reverse(),
    "rows that do not exist": lambda it: it["column_counts"][0].__setitem__(0, 10**9),
    "less noise": lambda it: it["noise"].update(variance="1"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_file_with_damaged_counts_of_long_rows_is_refused(damage):
    document = json.loads(released().to_text())
    from_text(json.dumps(document), "file")
    damage(answer(document))
    with pytest.raises(ReleaseError):
        from_text(json.dumps(document), "file")


def test_a_forged_factor_is_found_by_the_replay_of_the_map():
    document = json.loads(released().to_text())
    assert Replay.of(from_text(json.dumps(document), "file")) == Replay(known=True)
    answer(document)["factors"][0] = 0.5
    found = Replay.of(from_text(json.dumps(document), "file"))
    assert found.mismatches == ("the matrix of the map",)


def test_forged_counts_of_long_rows_are_found_by_the_replay_of_the_factors():
    document = json.loads(released().to_text())
    counts = answer(document)["column_counts"][0]
    counts[-2], counts[0] = counts[0] // 2, counts[0] - counts[0] // 2 + counts[-2]
    found = Replay.of(from_text(json.dumps(document), "file"))
    assert found.mismatches == ("the factors of the columns",)


def test_the_cells_of_long_rows_cost_nothing():
    made = released()
    spent = {one.query: one.spent for one in made.rounds}
    without = changed(made, lengths=dpcov.published.norm_histogram.NormHistogram(
        made.lengths.upper_ends, made.lengths.counts, made.lengths.noise
    ))  # fmt: skip
    assert {one.query: one.spent for one in without.rounds} == spent


def test_the_interval_of_the_variance_of_a_long_tail_covers():
    covered = []
    for seed in range(12):
        made = released(rho=None, epsilon=1.0, seed=seed)
        rng = np.random.default_rng(5)
        truth = np.clip(np.exp(1.2 + rng.normal(size=20_000)), 0, 365).var()
        about = dpcov.intervals(
            made, "covariance", sampling=False, generator=np.random.default_rng(seed)
        )
        covered.append(about.low[0, 0] <= truth <= about.high[0, 0])
    assert np.mean(covered) >= 0.85
