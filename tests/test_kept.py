"""Tables are read once; every further reading comes from a private copy, and is the same."""

import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpcov
from dpcov.errors import SourceError
from dpcov.rows.encoder import Encoder
from dpcov.rows.schema import Schema
from dpcov.rows.sources import kept, open_rows
from dpcov.rows.sources import kept as private_copy
from dpcov.rows.sources.arrow import ArrowSource
from dpcov.rows.sources.base import Source
from dpcov.rows.sources.kept import Kept
from dpcov.rows.sources.rows import Rows
from dpcov.rows.sources.text import TextSource
from strategies import (
    ComesOnce,
    arrow_columns,
    categorical,
    encode,
    lattice_of,
    moment,
    numeric,
    same,
    schema_of,
    tables,
)
from test_private_copy import unnamed_files

LINES = 3000
COLUMNS = {
    "a": numeric(0, 10, missing="level"),
    "b": categorical("x", 2, True, "é", other=True, missing="level"),
    "c": categorical("x", "y"),
    "d": categorical("x", "y", other=True, missing="other"),
}
SCHEMA = Schema.parse(
    {"columns": COLUMNS, "missing": ["", "NA", "-9"], "weight": {"column": "w", "maximum": 3}}
)
UNIT = {"column": "id", "type": "text", "max_rows": 2}
PERSONS = Schema.parse({"columns": COLUMNS, "unit": UNIT})


@pytest.fixture
def path(tmp_path) -> Path:
    rng = np.random.default_rng(3)
    a = rng.choice(["1", "2.5", "NA", "", "x", "1e3", "-9.0", "inf", "-1e300"], LINES)
    b = rng.choice(["x", "2", "2.0", "TRUE", "other", "", "é"], LINES)
    c, w = rng.choice(["x", "y", "z", "NA"], LINES), rng.choice(["1", "2", "", "9"], LINES)
    d, n = rng.choice(["x", "y", "z", "NA", ""], LINES), map(str, range(LINES))
    lines = [",".join(cells) for cells in zip(a, b, c, d, w, n, strict=True)]
    ids = [f"{line},p{i % 700}" for i, line in enumerate(lines)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,d,w,n,id", *ids]) + "\n")
    return tmp_path / "t.csv"


@pytest.fixture
def readings(monkeypatch) -> list[int]:
    """Record the batches of each reading of a text file."""
    found: list[int] = []
    whole = TextSource.batches

    def batches(self, columns):
        found.append(0)
        for batch in whole(self, columns):
            found[-1] += 1
            yield batch

    monkeypatch.setattr(TextSource, "batches", batches)
    return found


@pytest.fixture
def on_disk(monkeypatch) -> None:
    """Write everything to disk at once."""
    monkeypatch.setattr(private_copy, "MAX_MEMORY_BYTES", 0)


def encoded(source: Kept, schema: Schema) -> np.ndarray:
    """Return (rows, dimension) integer rows of a source."""
    lattice = lattice_of(schema)
    encoder = Encoder(schema, lattice)
    blocks = [
        block.T.copy() for batch in source.batches(schema.needed) for block in encoder.blocks(batch)
    ]
    return np.concatenate([np.empty((0, lattice.dimension)), *blocks])


@st.composite
def weighted(draw) -> tuple[pa.Table, Schema]:
    """Draw any table with any schema for it, and weights of any kind."""
    table, schema = draw(tables())
    weights = draw(arrow_columns(table.num_rows))
    stated = {"weight": {"column": "w", "maximum": draw(st.sampled_from([1.0, 3.0, 1e-99]))}}
    return table.append_column("w", weights), Schema.parse(schema.model_dump() | stated)


@given(tables() | weighted())
def test_a_copy_is_encoded_as_its_source(case):
    table, schema = case
    source = Kept(ArrowSource(table), schema)
    expected = encode(table, schema)
    for _ in range(2):
        assert np.array_equal(encoded(source, schema), expected)


@pytest.mark.parametrize("wrong", ["shorter", "null as 0", "level as its neighbour"])
def test_control_a_copy_of_less_would_differ(monkeypatch, wrong):
    schema = Schema.parse({"columns": {"a": numeric(-1, 1), "b": categorical("x", "y")}})
    table = pa.table({"a": [0.123456789, None], "b": ["x", "y"]})
    numbers, codes = kept.values_of, kept.codes_of
    if wrong == "level as its neighbour":
        monkeypatch.setattr(kept, "codes_of", lambda *given: 1 - codes(*given))
    elif wrong == "shorter":
        monkeypatch.setattr(kept, "values_of", lambda *given: numbers(*given).astype(np.float16))
    else:
        monkeypatch.setattr(kept, "values_of", lambda *given: np.nan_to_num(numbers(*given), nan=1))
    assert not np.array_equal(
        encoded(Kept(ArrowSource(table), schema), schema), encode(table, schema)
    )


NUMBERS = st.floats() | st.sampled_from([0.0, 5.0, 1e308, float("inf"), float("-inf")])
PEOPLE = st.lists(st.tuples(st.sampled_from(["x", "y", "z", "", None]), NUMBERS, NUMBERS))
TWO = schema_of("a", "b", unit=UNIT)


def people(rows) -> pa.Table:
    ids, a, b = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {"id": pa.array(ids, pa.string()), "a": pa.array(a, pa.float64())}
    return pa.table(columns | {"b": pa.array(b, pa.float64())})


@given(
    PEOPLE,
    st.integers(1, 5),
    st.sampled_from([0, 60, 2**30]),
    st.integers(1, 70),
    st.sampled_from([0, 3, 8192]),
)
def test_persons_are_the_same_in_any_order_batches_and_parts(rows, size, memory, parts, together):
    expected = moment(people(rows), TWO)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private_copy, "MAX_MEMORY_BYTES", memory)
        patch.setattr(private_copy, "GROWTH_BYTES", 2**12)
        patch.setattr(kept, "PERSON_PARTS", parts)
        patch.setattr(kept, "MIN_PERSON_BATCH_ROWS", together)
        for order in (rows, rows[::-1]):
            found = moment(people(order).to_reader(max_chunksize=size), TWO)
            assert same(found, expected)


def test_rows_of_a_person_in_other_batches_are_found():
    rows = [("x", float(n), 1.0) for n in range(9)] + [("y", 1.0, 1.0)] * 9
    table = people(rows[::2] + rows[1::2])
    persons = Kept(ArrowSource(table), TWO).persons()
    found = [sorted(owners.tolist()) for _, owners in persons if len(owners)]
    assert sorted(len(owners) for owners in found) in ([9, 9], [18])


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["weights", "persons"])
def test_a_text_file_is_parsed_once(path, readings, monkeypatch, schema, threads):
    monkeypatch.setattr("dpcov.rows.cells.BATCH_CELLS", 400)
    expected = moment(path, schema, threads=threads)
    assert len(readings) == 1
    rows = open_rows(path, schema, threads=threads)
    rows.require_rereadable()
    for _ in range(3):
        assert same(rows.second_moments()[0], expected)
    assert len(readings) == 2


def test_a_mechanism_of_several_passes_parses_once(path, readings):
    asked = {"schema": SCHEMA, "epsilon": 1.0, "mechanism": "adaptive-laplace", "seed": 1}
    made = dpcov.release(path, **asked)
    assert len(readings) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rows, "require_rereadable", lambda self: None)
        other = dpcov.release(path, **asked)
    assert len(readings) > 2
    assert np.array_equal(made.published, other.published)


def test_the_levels_of_a_column_are_one_reading(path, readings):
    made = dpcov.release_by(path, "b", schema=SCHEMA, epsilon=1.0)
    assert len(made) == 6
    assert len(readings) == 1


@pytest.mark.usefixtures("on_disk")
def test_what_is_too_large_is_read_again_if_it_can_be(path, readings, monkeypatch):
    expected = moment(path, SCHEMA)
    before = unnamed_files().keys()
    monkeypatch.setattr(kept, "MAX_COPY_BYTES", 1000)
    rows = open_rows(path, SCHEMA)
    rows.require_rereadable()
    for _ in range(2):
        assert same(rows.second_moments()[0], expected)
    assert len(readings) == 4  # the first of these stopped at the limit
    assert unnamed_files().keys() == before


@pytest.mark.usefixtures("on_disk")
def test_what_can_not_be_read_again_is_copied_whole_however_large(path, readings, monkeypatch):
    monkeypatch.setattr(kept, "MAX_COPY_BYTES", 1000)
    rows = open_rows(path, PERSONS)
    first = rows.second_moments()[0]
    assert same(rows.second_moments()[0], first)
    assert len(readings) == 1
    array = np.random.default_rng(0).uniform(0, 10, (5000, 2))
    schema = schema_of("a", "b")
    once = Rows(schema, ComesOnce(array, ("a", "b")))
    once.require_rereadable()
    assert all(same(once.second_moments()[0], moment(array, schema)) for _ in range(2))


class Endless(Source):
    """A source of many rows, made as they are read."""

    kind, repeatable = "test", False
    names = ("id", *(f"x{j}" for j in range(8)))
    types = {"id": pa.int64()} | {f"x{j}": pa.float64() for j in range(8)}
    batch, rows = 2**12, 2**19

    def batches(self, columns):
        for start in range(0, self.rows, self.batch):
            numbers = np.arange(start, start + self.batch)
            held = {name: pa.array(numbers * 1e-6) for name in columns} | {"id": pa.array(numbers)}
            yield pa.record_batch([held[name] for name in columns], list(columns))


NAMES = tuple(f"x{j}" for j in range(8))
MANY = schema_of(*NAMES)
MANY_PERSONS = schema_of(*NAMES, unit=UNIT | {"type": "integer"})


def peak(source: Kept) -> int:
    """Return the peak of the bytes while a source is read twice, without Arrow's own."""
    tracemalloc.start()
    for _ in range(2):
        if source._schema.unit is not None:
            found = sum(len(owners) for _, owners in source.persons())
        else:
            found = sum(batch.num_rows for batch in source.batches(NAMES))
        assert found == Endless.rows
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.parametrize("schema", [MANY, MANY_PERSONS], ids=["rows", "persons"])
def test_memory_is_a_few_times_what_may_wait_whatever_the_rows(monkeypatch, schema):
    whole = Endless.rows * Kept(Endless(), schema)._kind.itemsize
    monkeypatch.setattr(private_copy, "MAX_MEMORY_BYTES", 2**20)
    assert peak(Kept(Endless(), schema)) < 8 * 2**20 < whole / 2


def test_control_what_waits_in_memory_alone_would_hold_all(monkeypatch):
    monkeypatch.setattr(private_copy, "MAX_MEMORY_BYTES", 2**40)
    assert peak(Kept(Endless(), MANY)) > Endless.rows * 64


def test_a_reading_that_fails_leaves_no_copy(path, monkeypatch):
    rows = open_rows(path, SCHEMA, threads=1)
    rows.require_rereadable()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "codes_of", lambda *_: 1 / 0)
        with pytest.raises(SourceError, match="could not read the data to the end"):
            rows.second_moments()
    assert same(rows.second_moments()[0], moment(path, SCHEMA))


@pytest.mark.parametrize("data", [np.zeros((3, 1)), pa.table({"a": [1.0]})], ids=["array", "table"])
def test_tables_in_memory_are_not_copied(data):
    rows = open_rows(data, schema_of("a"))
    rows.require_rereadable()
    assert not isinstance(rows._source, Kept)


def test_a_copy_prints_nothing_that_it_holds(path):
    source = Kept(TextSource(path, SCHEMA.file, ()), SCHEMA)
    batch = next(iter(source.batches(("a",))))
    for shown in (repr(batch), repr(source), repr(source._copy)):
        assert "2.5" not in shown
