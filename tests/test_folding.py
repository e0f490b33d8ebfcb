"""Several threads: the same integers, an end at the first failure or interrupt."""

import signal
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from threadpoolctl import threadpool_limits

import dpcov.rows.sources.rows
from dpcov.core.entropy import Entropy
from dpcov.errors import SourceError
from dpcov.rows.moment import Accumulator
from dpcov.rows.sources import arrow, open_rows
from dpcov.rows.sources import rows as folding
from dpcov.rows.sources.arrow import ParquetSource, RowGroup, _copied
from dpcov.rows.sources.rows import available_cores
from strategies import moment, same, schema_of

ROWS = 20_000
NAMES = ("a", "b", "c")
SCHEMA = schema_of(*NAMES, lower=-3, upper=3)
TABLE = pa.table(list(np.random.default_rng(1).normal(size=(3, ROWS))), NAMES)


BY_C = {"column": "c", "type": "decimal", "max_rows": 1}


def parquet(folder, table=TABLE, **options):
    pq.write_table(table, path := folder / "t.parquet", **{"row_group_size": 1000} | options)
    return path


def test_floats_in_several_chunks_are_copied_one_after_the_other():
    column = pa.chunked_array([[1.0, None], [], [3.0, float("nan")]], pa.float64())
    found = _copied(column, np.empty(4))
    assert np.array_equal(found.to_numpy(), [1, np.nan, 3, np.nan], equal_nan=True)


@pytest.fixture
def streamed(monkeypatch):
    """Let every row group count as large."""
    monkeypatch.setattr(arrow, "SMALL_COLUMN_BYTES", 0)


@pytest.mark.parametrize("threads", [1, 2, 3, 7, None])
def test_threads_that_share_row_groups_give_the_integers_of_one(tmp_path, monkeypatch, threads):
    monkeypatch.setattr(dpcov.rows.sources.rows, "available_cores", lambda: 4)
    whole = moment(TABLE, SCHEMA)
    assert same(moment(parquet(tmp_path), SCHEMA, threads=threads), whole)
    monkeypatch.setattr("dpcov.rows.cells.BATCH_CELLS", 300)
    assert same(moment(parquet(tmp_path), SCHEMA, threads=threads), whole)
    odd = parquet(tmp_path, row_group_size=8195)  # the last group is smaller, blocks are uneven
    assert same(moment(odd, SCHEMA, threads=threads), whole)


def test_rows_are_multiplied_by_one_thread_and_blas_has_its_own_again_afterwards(monkeypatch):
    threads, add = [], Accumulator.add

    def counted(self, block):
        threads.append(blas_threads())
        add(self, block)

    monkeypatch.setattr(Accumulator, "add", counted)
    with threadpool_limits(2, user_api="blas"):
        moment(TABLE, SCHEMA, threads=1)
        assert blas_threads() == {2}
    assert threads
    assert set().union(*threads) == {1}


def blas_threads():
    """Return the BLAS threads of NumPy. SciPy has its own BLAS, which adds no rows."""
    return {pool["num_threads"] for pool in folding.BLAS.info()}


@pytest.mark.usefixtures("streamed")
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_threads_that_stream_row_groups_give_the_integers_of_one(tmp_path, threads):
    assert same(moment(parquet(tmp_path), SCHEMA, threads=threads), moment(TABLE, SCHEMA))


def test_large_and_small_row_groups_may_be_mixed(tmp_path, monkeypatch):
    with pq.ParquetWriter(path := tmp_path / "t.parquet", TABLE.schema) as writer:
        writer.write_table(TABLE[:15_000], row_group_size=5_000)
        writer.write_table(TABLE[15_000:], row_group_size=1_000)
    monkeypatch.setattr(arrow, "SMALL_GROUP_ROWS", 1_000)
    streamed, read = [], RowGroup.batches

    def batches(self):
        streamed.append(self.number)
        return read(self)

    monkeypatch.setattr(RowGroup, "batches", batches)
    assert same(moment(path, SCHEMA, threads=2), moment(TABLE, SCHEMA))
    assert sorted(streamed) == [0, 1, 2]


def test_the_threads_decode_the_columns_of_a_group_at_the_same_time(tmp_path, monkeypatch):
    together, seen, read = threading.Barrier(3, timeout=60), [], arrow.ParquetTable.column

    def column(file, group, name):
        together.wait()
        seen.append((threading.current_thread().name, name))
        return read(file, group, name)

    monkeypatch.setattr(arrow.ParquetTable, "column", column)
    path = parquet(tmp_path, row_group_size=ROWS)  # a single group
    assert same(moment(path, SCHEMA, threads=3), moment(TABLE, SCHEMA))
    assert sorted(name for _, name in seen) == list(NAMES)
    assert len({thread for thread, _ in seen}) == 3


@pytest.mark.parametrize("small", [True, False])
def test_of_small_groups_each_thread_has_its_own(tmp_path, monkeypatch, small):
    """The last of five is shared."""
    readers: dict[int, set[str]] = {group: set() for group in range(5)}
    both, read = threading.Barrier(2, timeout=60), arrow.ParquetTable.column

    def column(file, group, name):
        if small and group < 2 and name == NAMES[0]:
            both.wait()  # two threads are at it
        readers[group].add(threading.current_thread().name)
        time.sleep(0.01)
        return read(file, group, name)

    monkeypatch.setattr(arrow.ParquetTable, "column", column)
    monkeypatch.setattr(folding, "SMALL_PART_CELLS", 4000 * len(NAMES) - (not small))
    path = parquet(tmp_path, row_group_size=4000)
    assert same(moment(path, SCHEMA, threads=2), moment(TABLE, SCHEMA))
    assert [len(found) for found in readers.values()] == ([1] * 4 if small else [2] * 4) + [2]


def test_one_thread_decodes_here_column_by_column(tmp_path, monkeypatch):
    seen, read = [], arrow.ParquetTable.column

    def column(file, group, name):
        seen.append((threading.current_thread(), group, name))
        return read(file, group, name)

    monkeypatch.setattr(arrow.ParquetTable, "column", column)
    moment(parquet(tmp_path), SCHEMA, threads=1)
    here = threading.current_thread()
    assert seen == [(here, group, name) for group in range(ROWS // 1000) for name in NAMES]


@pytest.mark.parametrize("why", ["groups", "persons"])
def test_rows_with_labels_are_decoded_in_order(tmp_path, monkeypatch, why):
    monkeypatch.delattr(RowGroup, "each")
    monkeypatch.delattr(RowGroup, "batches")
    path = parquet(tmp_path)
    if why == "persons":
        persons = schema_of("a", "b", lower=-3, upper=3, unit=BY_C)
        assert moment(path, persons, threads=2).unit_count == ROWS
    else:
        rows = open_rows(path, SCHEMA, threads=2)
        halves = rows.second_moments(groups=2, labels=Entropy.system())
        assert sum(half.unit_count for half in halves) == ROWS


@pytest.mark.usefixtures("streamed")
@pytest.mark.parametrize("why", ["one thread", "one group", "too large"])
def test_otherwise_one_thread_streams_in_order(tmp_path, monkeypatch, why):
    monkeypatch.delattr(RowGroup, "batches")
    if why == "too large":
        monkeypatch.setattr(folding, "MAX_DECODED_BYTES", 2 * 1000 * 3 * 8 - 1)
    path = parquet(tmp_path, row_group_size=ROWS if why == "one group" else 1000)
    threads = 1 if why == "one thread" else 2
    assert same(moment(path, SCHEMA, threads=threads), moment(TABLE, SCHEMA))


@pytest.mark.usefixtures("streamed")
def test_control_row_groups_that_fit_are_streamed_by_the_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(folding, "MAX_DECODED_BYTES", 2 * 1000 * 3 * 8)
    monkeypatch.delattr(RowGroup, "batches")
    with pytest.raises(SourceError, match="could not read the data to the end"):
        moment(parquet(tmp_path), SCHEMA, threads=2)


def test_a_handle_is_opened_for_each_thread_and_no_more(tmp_path, monkeypatch):
    opened = []
    whole = ParquetSource._open

    def counted(self):
        opened.append(threading.current_thread().name)
        return whole(self)

    rows = open_rows(parquet(tmp_path), SCHEMA, threads=2)
    monkeypatch.setattr(ParquetSource, "_open", counted)
    rows.second_moments()
    assert 1 <= len(opened) <= 2


@pytest.mark.usefixtures("streamed")
def test_the_first_failure_ends_the_streaming(tmp_path, monkeypatch):
    begun = []

    def batches(self):
        begun.append(self.number)
        if self.number == 0:
            raise ValueError("S3CRET")
        time.sleep(0.05)
        yield from ()

    monkeypatch.setattr(RowGroup, "batches", batches)
    with pytest.raises(SourceError, match="could not read the data to the end"):
        moment(parquet(tmp_path, row_group_size=100), SCHEMA, threads=2)
    assert len(begun) < 20 < ROWS / 100


@pytest.mark.parametrize("threads", [1, 2])
def test_the_first_failure_ends_the_reading(tmp_path, monkeypatch, threads):
    begun = []

    def column(file, group, name):
        begun.append(group)
        raise ValueError("S3CRET")

    monkeypatch.setattr(arrow.ParquetTable, "column", column)
    monkeypatch.setattr(folding, "SMALL_PART_CELLS", 0)
    with pytest.raises(SourceError, match="could not read the data to the end"):
        moment(parquet(tmp_path, row_group_size=100), SCHEMA, threads=threads)
    assert set(begun) == {0}


def test_after_a_failure_no_thread_begins_another_small_group(tmp_path, monkeypatch):
    begun = []

    def column(file, group, name):
        begun.append(group)
        time.sleep(0.05)
        raise ValueError("S3CRET")

    monkeypatch.setattr(arrow.ParquetTable, "column", column)
    with pytest.raises(SourceError, match="could not read the data to the end"):
        moment(parquet(tmp_path, row_group_size=100), SCHEMA, threads=2)
    assert len(set(begun)) < 20 < ROWS / 100


def test_a_column_that_is_shorter_than_its_group_is_refused(tmp_path, monkeypatch):
    read = arrow.ParquetTable.column
    monkeypatch.setattr(arrow.ParquetTable, "column", lambda *given: read(*given)[:-1])
    with pytest.raises(SourceError, match="could not read the data to the end"):
        moment(parquet(tmp_path), SCHEMA)


@pytest.fixture
def interruptible():
    """Listen to interrupts, which a process in the background is started to ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("large", [False, True])
def test_an_interrupt_ends_the_reading_within_a_batch(tmp_path, monkeypatch, large):
    monkeypatch.setattr("dpcov.rows.cells.BATCH_CELLS", 300)
    monkeypatch.setattr(arrow, "SMALL_COLUMN_BYTES", 0 if large else 2**22)
    added = []
    add = Accumulator.add
    interrupts = iter(["one"])  # two threads may add their first block at the same time

    def slow(self, block):
        if next(interrupts, None):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        added.append(block.shape[1])
        time.sleep(0.001)
        add(self, block)

    monkeypatch.setattr(Accumulator, "add", slow)
    rows = open_rows(parquet(tmp_path), SCHEMA, threads=2)
    with pytest.raises(KeyboardInterrupt):
        rows.second_moments()
    assert 0 < sum(added) < ROWS / 2


def test_the_default_is_one_thread_for_each_core(tmp_path):
    rows = open_rows(parquet(tmp_path), SCHEMA)
    assert rows._threads == available_cores() >= 1


def test_control_a_lost_part_would_be_noticed(tmp_path, monkeypatch):
    parts = ParquetSource.parts
    monkeypatch.setattr(ParquetSource, "parts", lambda *arguments: parts(*arguments)[1:])
    assert not same(moment(parquet(tmp_path), SCHEMA, threads=2), moment(TABLE, SCHEMA))
