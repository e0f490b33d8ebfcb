"""Long rows by column: one cell for each row, exact in every block; the audit finds a second."""

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov.api.auditing import audit
from dpcov.api.auditing.adversaries import settings
from dpcov.core.privacy import ZCDP, Neighbors, PureDP
from dpcov.errors import MechanismError
from dpcov.mechanisms.standardized import BY_COLUMN, BY_DIRECTION
from dpcov.rows.long_rows import DIRECTION_STEPS, MIN_SQUARED_COSINE, ColumnCells
from dpcov.rows.moment import UNITS, LinearMap
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.rows import NormCounter
from strategies import schema_of

LIMITS = np.array([1e6, 1e9, 1e12])  # upper ends of the bins, as squared norms
BEYOND = np.array([1e8, 1e10, 2e11])  # lower ends of the cells
STEEP = np.array([[1.0, 0.9, 0.1], [0.0, 0.5, 0.2], [0.0, 0.0, 1.0]])  # two columns are close
SCHEMA = schema_of("a", "b", "c", lower=-1.0, upper=1.0)


def cells(matrix=STEEP, edges=(0.1, 0.2, 0.4)):
    return ColumnCells.along(np.asarray(matrix, float), edges)


def exactly(rows, apart):
    """Count integer rows of shape (p, m) with Python integers alone."""
    found = [0] * (len(LIMITS) + 1 + len(apart))
    directions = [[int(u) for u in one] for one in apart.directions]
    for row in rows.T:
        z = [int(x) for x in row]
        squared = sum(x * x for x in z)
        products = [abs(sum(a * b for a, b in zip(u, z, strict=True))) for u in directions]
        j = products.index(max(products))
        length = sum(a * a for a in directions[j])
        along = products[j] ** 2 > MIN_SQUARED_COSINE * length * squared
        if squared > BEYOND[0] and along:
            octave = sum(squared > edge for edge in BEYOND) - 1
            found[len(LIMITS) + 1 + j * len(BEYOND) + octave] += 1
        else:
            found[sum(squared > edge for edge in LIMITS)] += 1
    return found


def counted(rows, apart, sizes=()):
    """Count integer rows in blocks that end at these places, each into its own counter."""
    total = NormCounter(LIMITS, len(rows), apart, BEYOND)
    for block in np.split(rows, sizes, axis=1):
        one = NormCounter(LIMITS, len(rows), apart, BEYOND)
        one.add(np.vstack([block, np.full(block.shape[1], 7.0)]))  # with an intercept
        total.merge(one)
    return total.total().tolist()


def random_rows(seed, count=400, p=3):
    """Return integer rows of all norms up to 2^20, many of them near a column or at an edge."""
    rng = np.random.default_rng(seed)
    ways = rng.normal(size=(p, count)) + 2 * STEEP[:, rng.integers(p, size=count)]
    norms = np.exp(rng.uniform(np.log(1e3), np.log(UNITS), count))
    rows = np.trunc(ways * norms / np.linalg.norm(ways, axis=0) * 0.999)
    rows[:, ::7] = rng.integers(-3, 4, (p, len(rows[0, ::7]))) * 10_000  # ties and edges
    rows[:, ::7] *= np.linalg.norm(rows[:, ::7], axis=0) <= UNITS
    return rows


@pytest.mark.parametrize("seed", range(5))
def test_cells_are_those_of_exact_integers_in_blocks_of_any_size(seed):
    rows, apart = random_rows(seed), cells()
    wanted = exactly(rows, apart)
    assert sum(wanted[len(LIMITS) + 1 :]) > 100
    assert sum(wanted) == rows.shape[1]
    for sizes in ((), (1, 2, 3), (100, 333), tuple(range(1, 400))):
        assert counted(rows, apart, sizes) == wanted


def test_the_test_of_cells_notices_norms_of_less_precision(monkeypatch):
    rows, apart = random_rows(0, 4000), cells(np.eye(3))
    half = np.rint(UNITS / np.sqrt(2) * 0.99)
    rows[:, :2000] = 0.0  # rows at the limit, one step on either side
    rows[0, :2000] = half
    rows[1, :2000] = half + np.arange(2000) % 3 - 1
    wanted = exactly(rows, apart)
    assert counted(rows, apart) == wanted
    monkeypatch.setattr("dpcov.rows.sources.rows.exact_squared_norms", single)
    assert counted(rows, apart) != wanted


def single(block):
    """Return squared norms with the rounding of float32."""
    return np.einsum("ij,ij->j", *2 * [block.astype(np.float32)]).astype(float)


def test_a_row_at_the_limit_is_in_a_bin_and_equal_columns_go_to_the_first():
    apart = cells(np.eye(2))
    at_limit, first = np.array([[2.0**19], [2.0**19]]), np.array([[2.0**19], [0.0]])
    assert sum(counted(at_limit, apart)[len(LIMITS) + 1 :]) == 0
    twice = cells(np.array([[1.0, 1.0], [0.0, 0.0]]))
    found = counted(first, twice)[len(LIMITS) + 1 :]
    assert sum(found[: len(BEYOND)]) == 1
    assert sum(found) == 1


def test_a_column_of_zeros_owns_no_cell_and_edges_belong_to_the_cell_below():
    apart = cells(np.array([[0.0, 1.0], [0.0, 0.0]]))
    rows = np.array([[1e4, 1e4 + 1, 1e5, 1e5 + 1], np.zeros(4)])
    found = np.array(counted(rows, apart)[len(LIMITS) + 1 :]).reshape(2, -1)
    assert found.tolist() == [[0, 0, 0], [2, 1, 0]]


@given(st.integers(0, 2**31), st.sampled_from([3, 60, 400]))
def test_all_numbers_stay_below_the_limits_of_the_proof(seed, p):
    rng = np.random.default_rng(seed)
    apart = ColumnCells.along(rng.normal(size=(p, p)), (0.1,))
    lengths = np.sum(apart.directions**2, axis=1)
    assert np.array_equal(apart.directions, np.rint(apart.directions))
    assert lengths.max() < 4 * DIRECTION_STEPS**2
    assert MIN_SQUARED_COSINE.denominator * lengths.max() * float(UNITS) ** 2 < 2**63


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("size", [97, 4096])
def test_one_row_more_adds_one_to_one_count_whatever_threads_and_batches(threads, size):
    rng = np.random.default_rng(3)
    values = np.clip(rng.standard_t(2, (5000, 3)) * 0.05, -1, 1)
    shape = LinearMap.focused(STEEP, 2.0)
    asked = {"radius": 2.0, "transform": shape, "apart": cells(shape.matrix())}

    def counts(rows):
        table = pa.table(dict(zip("abc", rows.T, strict=True)))
        reader = table.to_reader(max_chunksize=size)
        return open_rows(reader, SCHEMA, threads=threads).norm_counts([0.05, 0.3], **asked)

    whole = counts(values)
    assert whole.sum() == 5000
    assert whole[3:].sum() > 100
    for row in ([0.9, 0, 0], [0, 0, -0.5], [0.3, 0.3, 0.3], [0, 0, 0], [1, -1, 1]):
        change = counts(np.vstack([values, row])) - whole
        assert sorted(change.tolist())[-1] == change.sum() == 1
        assert np.abs(change).sum() == 1


def test_a_lattice_with_more_steps_is_refused():
    schema = schema_of(*"abcde", lower=-1.0, upper=1.0)
    rows = open_rows(np.zeros((3, 5)), schema)
    with pytest.raises(MechanismError, match="at most 2\\^20 steps"):
        rows.norm_counts([0.5], apart=ColumnCells.along(np.eye(5), (0.5,)))


# The exact-loss audit: rows that are in two cells cost twice as much.


def audited(mechanism, budget, neighbors):
    with mock.patch("dpcov.api.auditing.settings", return_value=settings(4)[:1]):
        return audit(mechanism, budget=budget, neighbors=neighbors)


def in_two_cells(self, block):
    """Count long rows along a column in their bin too."""
    rows = block[: self._features]
    norms = np.einsum("ij,ij->j", rows, rows)
    np.add.at(self._counts, np.searchsorted(self._limits, norms, side="left"), 1)
    if self._apart is not None:
        _, found = self._apart.of(rows, norms, self._beyond)
        np.add.at(self._counts, len(self._limits) + 1 + found, 1)


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize(
    ("mechanism", "budget"),
    [(BY_COLUMN, PureDP(1.0)), (BY_DIRECTION, PureDP(1.0)), (BY_DIRECTION, ZCDP(0.5))],
    ids=["columns-pure", "directions-pure", "directions-zcdp"],
)
def test_the_audit_finds_rows_in_two_cells(mechanism, budget, neighbors):
    assert not audited(mechanism, budget, neighbors).violated
    with mock.patch.object(NormCounter, "add", in_two_cells):
        found = audited(mechanism, budget, neighbors)
    worst = {one.round: one.share for one in found.worst}
    assert found.violated
    assert worst["norm histogram"] == pytest.approx(2.0)
