"""The grid knows the declarations: 0/1 columns are summed exactly, whatever the number of rows."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dpcov.analysis.intervals import several_intervals
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import ZCDP, Neighbors, PureDP
from dpcov.core.samplers.weighted import WeightedSum
from dpcov.errors import MechanismError
from dpcov.estimate.errors import keeps_declared, rounding
from dpcov.mechanisms import Gaussian, MatrixLaplace, NuclearLaplace, Standardized, additive
from dpcov.published.consistency import shift_for
from dpcov.rows.encoder import Encoder
from dpcov.rows.moment import Lattice, SecondMoment
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from rounds_for_tests import changed

ADD = Neighbors.ADD_REMOVE
FLAGS = Schema.from_bounds(0, 1, ["a", "b", "c"])
# How many of ten million rows are which; no column is half ones.
ROWS = {(0, 0, 1): 4_100_000, (1, 0, 1): 2_900_000, (1, 1, 0): 1_999_999, (1, 1, 1): 1_000_001}


def moment_of(lattice: Lattice, schema: Schema = FLAGS) -> SecondMoment:
    """Return the moment of ten million rows, from one row of each kind."""
    encoder = Encoder(schema, lattice)
    units = np.zeros((lattice.dimension,) * 2, object)
    for row, count in ROWS.items():
        batch = pa.record_batch({name: [x] for name, x in zip("abc", row, strict=True)})
        (block,) = encoder.blocks(batch)
        one = [int(x) for x in block[:, 0]]
        one[-1] *= lattice.intercept_parts[0]
        units += count * np.outer(np.array(one, object), np.array(one, object))
    return SecondMoment(units, lattice, sum(ROWS.values()))


def truth() -> tuple[list[Fraction], list[list[Fraction]]]:
    """Return means and covariances of 0/1 columns, as fractions."""
    n = sum(ROWS.values())
    means = [Fraction(sum(k for row, k in ROWS.items() if row[i]), n) for i in range(3)]
    both = [
        [Fraction(sum(k for row, k in ROWS.items() if row[i] and row[j]), n) for j in range(3)]
        for i in range(3)
    ]
    return means, [[both[i][j] - means[i] * means[j] for j in range(3)] for i in range(3)]


def means_of(moment: SecondMoment) -> list[Fraction]:
    """Return means in the data's units, from the integers alone."""
    t = moment.lattice.intercept_units
    step = Fraction(moment.lattice.step)
    sums = [Fraction(int(moment.units[i, -1]), t) * step for i in range(3)]
    return [Fraction(1, 2) + total / moment.unit_count / 2 for total in sums]


def test_ten_million_flags_have_exact_means_and_the_step_of_before_had_a_bias():
    lattice = Lattice.of(FLAGS)
    means, _ = truth()
    assert means_of(moment_of(lattice)) == means
    off = [
        float(a - b) for a, b in zip(means_of(moment_of(lattice.relative())), means, strict=True)
    ]
    assert min(map(abs, off)) > 1e-8


def test_what_standardized_maps_stays_exact():
    n = 4000
    kinds = np.array(list(ROWS))
    table = kinds[np.random.default_rng(1).integers(0, 4, n)].astype(float)
    rows = open_rows(table, FLAGS)
    made = Standardized()(rows, budget=ZCDP(1.0), neighbors=ADD, entropy=Entropy.seeded(1))
    assert keeps_declared(made)
    assert not rounding(made).any()
    scale, center = np.diag(made.linear_map), np.zeros(3) if made.center is None else made.center
    images = (2 * table - 1 - center) * scale / made.lattice.step
    assert np.array_equal(images, np.rint(images))


@pytest.mark.parametrize("mechanism", [MatrixLaplace(), NuclearLaplace()], ids=lambda m: m.name)
@pytest.mark.parametrize("epsilon", [1.0, 20.0])
@pytest.mark.statistics
def test_intervals_of_ten_million_flags_cover(mechanism, epsilon):
    assert 0.93 <= covered(mechanism, epsilon, Lattice.of(FLAGS)) <= 0.97


@pytest.mark.statistics
def test_control_they_did_not_by_the_step_of_before():
    assert covered(MatrixLaplace(), 20.0, Lattice.of(FLAGS).relative()) < 0.9


def covered(mechanism, epsilon: float, lattice: Lattice, repeats: int = 150) -> float:
    """Return the fraction of 95% intervals for means and covariances that contain the truth."""
    laws = mechanism.calibrate(lattice, PureDP(epsilon), ADD)
    moment = moment_of(lattice)
    means, covariances = (np.array(one, float) for one in truth())
    hits = []
    for seed in range(repeats):
        draws = additive.Draws.of(laws, Entropy.seeded(seed))
        made = additive.published(mechanism, FLAGS, laws, draws, moment)
        found = several_intervals(
            made, ["mean", "covariance"], sampling=False, generator=simulation_generator(seed)
        )
        for one, true in zip(found, (means, covariances), strict=True):
            hits.append(((one.low <= true) & (true <= one.high))[np.tril_indices(3)[: true.ndim]])
    return float(np.mean(np.concatenate([hit.ravel() for hit in hits])))


@pytest.mark.parametrize("features", [1, 10, 108, 1000])
@pytest.mark.parametrize("epsilon", [1e-4, 1000.0])
@pytest.mark.parametrize("mechanism", [MatrixLaplace(), Gaussian()], ids=lambda m: m.name)
def test_budgets_that_a_step_of_the_radius_could_release_are_released(mechanism, epsilon, features):
    """What spends as much on the lattice of before, and within 64 bits, is drawn on this."""
    lattice = Lattice(features, features**0.5, 0.3)
    budget = ZCDP(epsilon**2 / 2) if isinstance(mechanism, Gaussian) else PureDP(epsilon)
    for neighbors in Neighbors:
        laws = mechanism.calibrate(lattice, budget, neighbors)
        before = mechanism.calibrate(lattice.relative(), budget, neighbors)
        ratio = np.sqrt(laws.matrix.frobenius_squared) * lattice.step**2
        ratio /= np.sqrt(before.matrix.frobenius_squared) * lattice.relative().step ** 2
        assert ratio == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("features", [10, 108])
def test_noise_wider_than_64_bits_is_published_as_any_other(features):
    lattice = Lattice(features, features**0.5, 0.3)
    laws = MatrixLaplace().calibrate(lattice, PureDP(1e-7), ADD)
    draws = additive.Draws.of(laws, Entropy.seeded(1))
    assert draws.matrix.dtype == object
    units = np.full((lattice.dimension,) * 2, 12345, object)
    shift = shift_for(laws.matrix.spread)
    published = additive.coarse(units + draws.matrix, shift)
    assert published.dtype == np.int64
    spread = float(published.std()) * 2.0**shift / np.sqrt(laws.matrix.diagonal_variance)
    assert 0.5 < spread < 1.5
    with pytest.raises(MechanismError, match="too small"):
        MatrixLaplace().calibrate(lattice, PureDP(1e-30), ADD)


def test_a_longer_radius_than_any_row_has_brings_nothing():
    long = FLAGS.model_copy(update={"radius": 100.0})
    assert Lattice.of(long) == Lattice.of(FLAGS)
    short = FLAGS.model_copy(update={"radius": 1.5})
    assert Lattice.of(short).side == 3 * 2**19 < Lattice.of(FLAGS).side
    assert Lattice.of(short).step == Lattice.of(FLAGS).step


def test_rounding_is_reported_if_weights_or_a_radius_leave_the_grid():
    table = np.random.default_rng(1).random((500, 3))
    asked = {"budget": ZCDP(1.0), "neighbors": ADD, "entropy": Entropy.seeded(1)}
    made = Gaussian()(open_rows(table, FLAGS), **asked)
    assert keeps_declared(made)
    private = Gaussian(radius="private")(open_rows(table, FLAGS), **asked)
    assert not keeps_declared(private) or private.lattice.step < made.lattice.step
    step = made.lattice.step
    weighted = replace(
        made, schema=Schema.parse(FLAGS.model_dump() | {"weight": {"column": "w", "maximum": 2}})
    )
    assert rounding(weighted).tolist() == [step / 2] * 4
    by_length = changed(made, noise=WeightedSum((1.0,), (made.noise,)))  # of an old file
    assert (rounding(by_length)[:3] > step / 2).all()
    assert rounding(by_length)[3] == 0.0
