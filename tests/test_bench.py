"""Both sides of a benchmark's ratio compute the same matrix."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import workloads

ROWS = 300


@pytest.fixture
def numeric(tmp_path):
    """Write numbers within the bounds of the jobs, in two row groups."""
    generator = np.random.default_rng(0)
    table = pa.table({f"x{j}": generator.uniform(-3, 3, ROWS) for j in range(4)})
    pq.write_table(table, tmp_path / "numeric.parquet", row_group_size=200)
    return tmp_path / "numeric.parquet"


@pytest.fixture
def mixed(tmp_path):
    generator = np.random.default_rng(1)
    table = pa.table(
        {
            name: generator.uniform(-3, 3, ROWS)
            if levels is None
            else generator.choice(levels, ROWS)
            for name, levels in workloads.mixed_columns().items()
        }
    )
    pq.write_table(table, tmp_path / "mixed.parquet")
    return tmp_path / "mixed.parquet"


def relative(moment, columns):
    """Return the moment of the columns over its trace."""
    own = np.asarray(moment)[:columns, :columns].astype(float)
    return own / np.trace(own)


def test_the_plain_loop_and_the_threads_sum_what_the_library_sums(numeric):
    exact = workloads.exact(numeric)
    np.testing.assert_allclose(relative(workloads.plain(numeric), 4), relative(exact, 4), atol=1e-5)
    assert np.array_equal(workloads.exact_by_two(numeric), exact)


def test_pandas_finds_the_covariance_of_the_same_rows(numeric):
    rows = pq.read_table(numeric).to_pandas().to_numpy()
    np.testing.assert_allclose(workloads.pandas_cov(numeric), np.cov(rows, rowvar=False))


def test_the_plain_loop_over_levels_counts_what_the_library_counts(mixed):
    counted = workloads.plain_mixed(mixed)
    names = list(workloads.mixed_columns().items())
    ones = np.concatenate([np.full(len(levels or [0]), levels is not None) for _, levels in names])
    diagonal = np.diag(np.asarray(workloads.exact(mixed)).astype(float))[: len(ones)]
    np.testing.assert_allclose(
        diagonal[ones] / diagonal[ones].sum(), np.diag(counted)[ones] / (8 * ROWS), atol=1e-5
    )


@pytest.mark.parametrize("job", ["floor", "floor_by_two", "floor_and_pass"])
def test_the_floor_multiplies_as_large_a_matrix(numeric, job):
    assert np.shape(getattr(workloads, job)(numeric)) == (5, 5)


@pytest.mark.slow
def test_the_parts_of_a_reading_are_those_that_are_listed(numeric):
    """The job runs in a separate process, because it adds clocks to the library."""
    spent = workloads.measure("parts_of_exact", numeric)
    assert {"decode", "encode columns", "write blocks", "certify", "all else"} <= set(spent)
