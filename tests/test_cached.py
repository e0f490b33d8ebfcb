"""Further readings come from a private copy, and give the same integers."""

import stat
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import dpcov
from dpcov.errors import SourceError
from dpcov.schema import Schema
from dpcov.sources import base, cached, open_rows
from dpcov.sources.arrow import ArrowSource
from dpcov.sources.cached import CachedSource
from dpcov.sources.rows import Rows
from dpcov.sources.text import TextSource
from strategies import categorical, encode, moment, numeric, same, schema_of, tables
from test_spill import unnamed_files

LINES = 3000
COLUMNS = {
    "a": numeric(0, 10, missing="level"),
    "b": categorical("x", 2, True, "\0", other=True, missing="level"),
    "c": categorical("x", "y"),
    "d": categorical("x", "y", other=True, missing="other"),
}
SCHEMA = Schema.parse(
    {"columns": COLUMNS, "missing": ["", "NA", "-9"], "weight": {"column": "w", "maximum": 3}}
)
PERSONS = Schema.parse({"columns": COLUMNS, "unit": {"column": "id", "max_rows": 2}})


@pytest.fixture
def path(tmp_path) -> Path:
    rng = np.random.default_rng(3)
    a = rng.choice(["1", "2.5", "NA", "", "x", "1e3", "-9.0"], LINES)
    b = rng.choice(["x", "2", "2.0", "TRUE", "other", "", "\0"], LINES)
    c, w = rng.choice(["x", "y", "z", "NA"], LINES), rng.choice(["1", "2", "", "9"], LINES)
    d, n = rng.choice(["x", "y", "z", "NA", ""], LINES), map(str, range(LINES))
    lines = [",".join(cells) for cells in zip(a, b, c, d, w, n, strict=True)]
    ids = [f"{line},p{i % 700}" for i, line in enumerate(lines)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,d,w,n,id", *ids]) + "\n")
    return tmp_path / "t.csv"


@pytest.fixture
def readings(monkeypatch) -> list[int]:
    """Batches of each reading of a text file."""
    found: list[int] = []
    whole = TextSource.batches

    def batches(self, columns):
        found.append(0)
        for batch in whole(self, columns):
            found[-1] += 1
            yield batch

    monkeypatch.setattr(TextSource, "batches", batches)
    return found


@given(tables())
def test_encoding_a_copy_gives_what_encoding_the_source_would(case):
    table, schema = case
    source = CachedSource(ArrowSource(table), schema)
    for _ in range(2):
        batches = list(source.batches(table.column_names))
        copy = pa.Table.from_batches(batches) if batches else table[:0]
        assert np.array_equal(encode(copy, schema), encode(table, schema))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["weights", "persons"])
def test_a_text_file_is_parsed_once(path, readings, monkeypatch, schema, threads):
    monkeypatch.setattr(base, "BATCH_CELLS", 400)
    expected = moment(path, schema, threads=threads)
    assert len(readings) == 1
    rows = open_rows(path, schema, threads=threads)
    rows.require_rereadable()
    for _ in range(3):
        assert same(rows.second_moments()[0], expected)
    assert len(readings) == 2


def test_a_mechanism_of_several_passes_parses_once(path, readings):
    made = dpcov.release(path, schema=SCHEMA, epsilon=1.0, mechanism="adaptive-laplace", seed=1)
    assert len(readings) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rows, "require_rereadable", lambda self: None)
        other = dpcov.release(
            path, schema=SCHEMA, epsilon=1.0, mechanism="adaptive-laplace", seed=1
        )
    assert len(readings) > 2
    assert np.array_equal(made.published, other.published)


def test_what_is_too_large_is_read_again(path, readings, monkeypatch):
    monkeypatch.setattr(cached, "LARGEST_COPY", 1000)
    before = unnamed_files().keys()
    assert same(moment(path, PERSONS), moment(path, PERSONS))
    assert len(readings) == 4
    assert unnamed_files().keys() == before


def test_a_full_disk_means_reading_again(path, readings, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cached.pa.ipc, "new_stream", full)
    assert moment(path, PERSONS).unit_count == 700
    assert len(readings) == 2


def test_the_copy_has_no_name_is_for_the_owner_alone_and_goes_with_the_rows(path, monkeypatch):
    monkeypatch.setattr(cached.tempfile, "tempdir", str(path.parent / "tmp"))
    (path.parent / "tmp").mkdir()
    before = unnamed_files().keys()
    rows = open_rows(path, SCHEMA, threads=1)
    rows.require_rereadable()
    rows.second_moments()
    found = [status for name, status in unnamed_files().items() if name not in before]
    assert [stat.S_IMODE(status.st_mode) for status in found] == [0o600]
    assert not list((path.parent / "tmp").iterdir())
    del rows
    assert unnamed_files().keys() == before


def test_a_reading_that_fails_leaves_no_copy(path, monkeypatch):
    rows = open_rows(path, SCHEMA, threads=1)
    rows.require_rereadable()

    def interrupt(_: float) -> None:
        raise SourceError("stopped")

    rows.progress = interrupt
    with pytest.raises(SourceError, match="stopped"):
        rows.second_moments()
    rows.progress = None
    assert same(rows.second_moments()[0], moment(path, SCHEMA))


def test_tables_in_memory_and_parquet_are_not_copied(path):
    table = schema_of("a")
    rows = open_rows(np.zeros((3, 1)), table)
    rows.require_rereadable()
    assert not isinstance(rows._source, CachedSource)
