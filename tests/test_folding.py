"""Several threads: the same integers, an end at the first failure, progress that tells no count."""

import gzip
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpcov.sources.rows
from dpcov.entropy import Entropy
from dpcov.errors import SourceError
from dpcov.sources import base, folding, open_rows
from dpcov.sources.arrow import ParquetSource, RowGroup, _copied
from dpcov.sources.folding import Folder, available_cores
from strategies import moment, same, schema_of

ROWS = 20_000
NAMES = ("a", "b", "c")
SCHEMA = schema_of(*NAMES, lower=-3, upper=3)
TABLE = pa.table(list(np.random.default_rng(1).normal(size=(3, ROWS))), NAMES)


def parquet(folder, table=TABLE, **options):
    pq.write_table(table, path := folder / "t.parquet", **{"row_group_size": 1000} | options)
    return path


def test_floats_in_several_chunks_are_copied_one_after_the_other():
    column = pa.chunked_array([[1.0, None], [], [3.0, float("nan")]], pa.float64())
    found = _copied(column, np.empty(4))
    assert np.array_equal(found.to_numpy(), [1, np.nan, 3, np.nan], equal_nan=True)


@pytest.fixture
def readers(monkeypatch) -> list[str]:
    """Names of the threads that decoded a row group."""
    seen: list[str] = []
    whole = RowGroup.batches

    def batches(self):
        seen.append(threading.current_thread().name)
        time.sleep(0.01)
        yield from whole(self)

    monkeypatch.setattr(RowGroup, "batches", batches)
    return seen


@pytest.mark.parametrize("threads", [2, 3, 7, None])
def test_threads_that_read_row_groups_give_the_integers_of_one(tmp_path, monkeypatch, threads):
    monkeypatch.setattr(dpcov.sources.rows, "available_cores", lambda: 4)
    whole = moment(TABLE, SCHEMA)
    assert same(moment(parquet(tmp_path), SCHEMA, threads=threads), whole)
    monkeypatch.setattr(base, "BATCH_CELLS", 300)
    assert same(moment(parquet(tmp_path), SCHEMA, threads=threads), whole)


def test_each_row_group_is_decoded_once_by_the_threads_in_turn(tmp_path, readers):
    moment(parquet(tmp_path), SCHEMA, threads=3)
    assert len(readers) == ROWS / 1000
    assert len(set(readers)) == 3
    assert threading.current_thread().name not in readers


@pytest.mark.parametrize("why", ["one thread", "one group", "too large", "groups", "persons"])
def test_otherwise_one_thread_decodes_in_order(tmp_path, monkeypatch, readers, why):
    path = parquet(tmp_path, row_group_size=ROWS if why == "one group" else 1000)
    threads = 1 if why == "one thread" else 2
    if why == "too large":
        monkeypatch.setattr(folding, "MOST_DECODED", 2 * 1000 * 3 * 8 - 1)
    if why == "persons":
        persons = schema_of("a", "b", lower=-3, upper=3, unit={"column": "c", "max_rows": 1})
        assert moment(path, persons, threads=threads).unit_count == ROWS
    elif why == "groups":
        rows = open_rows(path, SCHEMA, threads=threads)
        rows.second_moments(groups=2, labels=Entropy.system())
    else:
        assert same(moment(path, SCHEMA, threads=threads), moment(TABLE, SCHEMA))
    assert not readers


def test_the_first_failure_ends_the_reading(tmp_path, monkeypatch):
    begun = []

    def batches(self):
        begun.append(self.number)
        if self.number == 0:
            raise ValueError("S3CRET")
        time.sleep(0.05)
        yield from ()

    monkeypatch.setattr(RowGroup, "batches", batches)
    with pytest.raises(SourceError, match="could not be read to its end"):
        moment(parquet(tmp_path, row_group_size=100), SCHEMA, threads=2)
    assert len(begun) < 20 < ROWS / 100


def test_an_interrupt_ends_the_reading_within_a_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(base, "BATCH_CELLS", 300)
    added = []
    add = Folder._add

    def slow(self, batch, labels):
        added.append(batch.num_rows)
        time.sleep(0.001)
        add(self, batch, labels)

    monkeypatch.setattr(Folder, "_add", slow)
    rows = open_rows(parquet(tmp_path), SCHEMA, threads=2)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    rows.progress = interrupt
    with pytest.raises(KeyboardInterrupt):
        rows.second_moments()
    assert sum(added) < ROWS / 2


def test_the_default_is_one_thread_for_each_core(tmp_path):
    rows = open_rows(parquet(tmp_path), SCHEMA)
    assert rows._threads == available_cores() >= 1


def progress_of(data, threads: int, schema=SCHEMA) -> list[float]:
    told: list[float] = []
    rows = open_rows(data, schema, threads=threads)
    rows.progress = told.append
    rows.second_moments()
    return told


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_goes_by_row_groups_and_ends_at_one(tmp_path, threads):
    told = progress_of(parquet(tmp_path), threads)
    assert sorted(told) == told
    assert set(told) - {0.0} == {(k + 1) / 20 for k in range(20)} - (
        {1.0} if threads == 1 else set()
    )
    other = parquet(tmp_path, TABLE[:13_000], row_group_size=650)  # as many groups, fewer rows
    assert set(progress_of(other, threads)) == set(told)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_progress_of_a_text_file_goes_by_its_bytes(tmp_path, name):
    text = "\n".join(["a,b,c", *("1,2," + "3" * 100 for _ in range(50_000))]).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    told = progress_of(tmp_path / name, 2)
    assert sorted(told) == told
    assert 0 < told[0] <= told[-1] == 1


def test_a_table_in_memory_tells_no_progress():
    assert progress_of(TABLE, 2) == []


def test_control_a_lost_part_would_be_noticed(tmp_path, monkeypatch):
    parts = ParquetSource.parts
    monkeypatch.setattr(ParquetSource, "parts", lambda *arguments: parts(*arguments)[1:])
    assert not same(moment(parquet(tmp_path), SCHEMA, threads=2), moment(TABLE, SCHEMA))
