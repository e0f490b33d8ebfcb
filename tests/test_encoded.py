"""Columns encoded one by one give the integers of the plain formula, in blocks of any size."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from dpcov.rows import encoder
from dpcov.rows.encoder import Columns, Encoder, Scratch
from dpcov.rows.moment import UNITS
from dpcov.rows.schema import Schema
from strategies import categorical, encode, lattice_of, numeric, squared_norms

UNIT = UNITS
COLUMNS = {  # numbers and levels in turn, so that neither lies in one piece
    "a": numeric(-3, 3),
    "b": categorical("x", "y", "z", other=True),
    "c": numeric(0, 7, missing="level"),
    "d": numeric(-2, 1),
    "e": categorical(1, 2, missing="level"),
    "f": categorical("only"),
    "g": numeric(10, 30),
}
LEVELS = {"b": ["x", "y", "z", "other"], "e": [1, 2, None], "f": ["only"]}
UNDECLARED = {"f": ["neither"]}  # is no feature


def schema(radius: float | None = None, **fields) -> Schema:
    return Schema.parse({"columns": COLUMNS, "radius": radius, "intercept": 0.3} | fields)


def table(rows: int = 500) -> pa.Table:
    """Return a table with missing, infinite and outlying cells."""
    rng = np.random.default_rng(5)
    columns = {}
    for name, declared in COLUMNS.items():
        if name in LEVELS:
            found = LEVELS[name] + UNDECLARED.get(name, [])
            columns[name] = pa.array([found[k] for k in rng.integers(0, len(found), rows)])
            continue
        cells = rng.uniform(1.2 * declared["lower"] - 1, 1.2 * declared["upper"], rows)
        cells[rng.uniform(size=rows) < 0.1] = np.nan
        cells[:3] = [np.inf, -np.inf, 1e300]
        columns[name] = pa.array(cells, mask=rng.uniform(size=rows) < 0.05)
    return pa.table(columns)


def plain(data: pa.Table, declared: Schema) -> np.ndarray:
    """Return (rows, features) integers by the formula of docs/proofs/release.md 2, unclipped."""
    scale = 1 / lattice_of(declared).step
    kind = np.float32 if scale <= 2**24 else np.float64
    features: list[np.ndarray] = []
    for name, column in declared.columns.items():
        cells = data[name].to_pylist()
        if name in LEVELS:
            features += [
                np.array([np.floor(scale) * (cell == level) for cell in cells])
                for level in LEVELS[name]
            ]
            continue
        numbers = np.array([np.nan if cell is None else cell for cell in cells])
        with np.errstate(over="ignore"):
            shifted = (numbers - column.midpoint).astype(kind)
            rounded = np.rint(shifted * kind(scale / column.half_range)).astype(float)
        rounded = np.clip(rounded, -np.floor(scale), np.floor(scale))
        features.append(np.nan_to_num(rounded, nan=0.0))
        if column.missing == "level":
            features.append(np.floor(scale) * np.isnan(numbers))
    return np.array(features).T


def unclipped(data: pa.Table, declared: Schema) -> np.ndarray:
    """Return (rows, features) as they are before clipping."""
    columns = Columns(declared, np.full(len(declared.features), 1 / lattice_of(declared).step))
    (batch,) = data.combine_chunks().to_batches()
    rows = np.full((len(declared.features) + 1, batch.num_rows), np.nan)
    columns.write(columns.encode(batch), rows)
    return rows[:-1].T


@pytest.mark.parametrize("radius", [None, 40.0, 3.0, 1.0, 0.001, 1e-60])
def test_columns_have_the_integers_of_the_plain_formula(radius):
    assert np.array_equal(unclipped(table(), schema(radius)), plain(table(), schema(radius)))


@pytest.mark.parametrize("scale", [1000.0, 2.0**20, 2.0**20 / 3, 2.0**24 - 0.5])
@pytest.mark.parametrize(("lower", "upper"), [(-1, 1), (0, 0.7), (1900, 2030)])
def test_integers_in_float32_are_next_to_the_exact_ones(scale, lower, upper):
    """Three roundings to 24 bits come before the one to an integer; none has a direction."""
    columns = Columns(Schema.from_bounds(lower, upper, ["a"]), np.array([scale]))
    cells = np.random.default_rng(1).uniform(lower, upper, 100_000)
    exact = (cells - (lower + upper) / 2) * (scale / ((upper - lower) / 2))
    (batch,) = pa.table({"a": cells}).to_batches()
    found = columns.encode(batch).numbers[0]
    assert found.dtype == np.float32
    inside = np.abs(found) < np.floor(scale)
    gaps = (found - exact)[inside]
    assert np.all(np.abs(gaps) <= 0.5 + 3 * 2.0**-24 * np.abs(exact[inside]) + 1e-6)
    assert abs(gaps.mean()) < 5 * gaps.std() / len(gaps) ** 0.5


@pytest.mark.parametrize("exponent", [-70, -61, -60, 0, 60, 61, 300])
def test_columns_of_any_size_are_scaled(exponent):
    """Columns beyond the range of float32 use float64: 2^-70 would become 0, and 2^300 infinite."""
    half = 2.0**exponent
    columns = Columns(Schema.from_bounds(-half, half, ["a"]), np.array([1000.0]))
    (batch,) = pa.table(
        {"a": half * np.array([-2.0, -1.0, -0.25, 0.5, 1.0, 3.0, np.inf])}
    ).to_batches()
    made = columns.encode(batch).numbers
    assert made[0].tolist() == [-1000, -1000, -250, 500, 1000, 1000, 1000]
    assert (made.dtype == np.float32) == (abs(exponent) <= 60)


def test_control_float32_would_lose_integers_of_a_fine_grid(monkeypatch):
    monkeypatch.setattr(encoder, "MAX_FLOAT32_INTEGER", 2**60)
    fine = schema(0.001)
    assert not np.array_equal(unclipped(table(), fine), plain(table(), fine))


@pytest.mark.parametrize("largest", [2**24, 2**24 - 1])
def test_float32_holds_every_integer_that_it_is_used_for(largest):
    columns = Columns(Schema.from_bounds(-largest, largest, ["a"]), np.array([float(largest)]))
    cells = largest - np.arange(100.0)
    (batch,) = pa.table({"a": cells}).to_batches()
    made = columns.encode(batch)
    assert made.numbers.dtype == np.float32
    assert made.numbers[0].tolist() == [largest - k for k in range(100)]
    more = Columns(Schema.from_bounds(-1, 1, ["a"]), np.array([2.0**24 + 1]))
    assert more.encode(batch).numbers.dtype == np.float64


@pytest.mark.parametrize(("chunk", "rows"), [(7, 3), (1, 1), (500, 499), (499, 500)])
def test_sizes_of_chunks_and_blocks_change_nothing(monkeypatch, chunk, rows):
    expected = encode(table(), schema())
    assert np.array_equal(expected[:, :-1], plain(table(), schema()))
    monkeypatch.setattr(encoder, "CHUNK_CELLS", chunk)
    monkeypatch.setattr(encoder, "BLOCK_ROWS", rows)
    assert np.array_equal(encode(table(), schema()), expected)


def test_a_column_in_several_chunks_is_put_in_one_after_the_other():
    declared = schema()
    columns = Encoder(declared, lattice_of(declared)).columns
    whole, pieces = table(), pa.concat_tables([table()[:7], table()[7:7], table()[7:]])
    (batch,) = whole.to_batches()
    expected, found = columns.encode(batch), columns.allocate(len(whole))
    for name in columns.names:
        columns.put(name, pieces[name], found)
    assert np.array_equal(found.numbers, expected.numbers)
    assert np.array_equal(found.ones, expected.ones)


@pytest.mark.parametrize("rows", [499, 501])
@pytest.mark.parametrize("name", ["a", "b", "c", "w"])
def test_a_column_of_another_length_is_refused(rows, name):
    declared = schema(weight={"column": "w", "maximum": 1.0})
    columns = Encoder(declared, lattice_of(declared)).columns
    data = table().append_column("w", pa.array(np.ones(500)))
    with pytest.raises(ValueError):  # noqa: PT011  NumPy's words, or ours
        columns.put(name, data[name], columns.allocate(rows))


def test_rows_inside_by_the_caps_alone_need_no_sum_of_squares(monkeypatch):
    """The largest row under the default radius is inside: the caps are the certificate."""
    certified = []
    whole = encoder._certify
    monkeypatch.setattr(encoder, "_certify", lambda *given: certified.append(whole(*given)))
    names = [name for name in COLUMNS if name not in LEVELS]
    extreme = {name: [1e300, -1e300, None] for name in names}
    extreme |= {name: [LEVELS[name][0]] * 3 for name in LEVELS}
    data = pa.table({name: extreme[name] for name in COLUMNS})
    norms = squared_norms(encode(data, schema())[:, :-1])
    assert max(norms) == len(COLUMNS) * UNIT**2 <= lattice_of(schema()).side ** 2
    assert not certified
    shorter = schema(np.nextafter(schema().largest_norm, 0) * (1 - 1e-5))
    most = lattice_of(shorter).side ** 2
    assert max(squared_norms(plain(data, shorter))) > most, "the caps don't do"
    assert max(squared_norms(encode(data, shorter)[:, :-1])) <= most
    assert certified


def test_a_missing_number_counts_in_the_units_of_its_own_indicator():
    column = {"kind": "numeric", "lower": -1, "upper": 1, "missing": "level"}
    declared = Schema.parse({"columns": {"a": column, "b": column}})
    columns = Columns(declared, np.array([5.0, 7.0, 11.0, 13.0]))
    batch = pa.record_batch([[1.0, None], [None, 1.0]], ["a", "b"])
    rows = np.empty((5, 2))
    columns.write(columns.encode(batch), rows)
    assert rows[:4].tolist() == [[5, 0], [0, 7], [0, 11], [13, 0]]


@pytest.mark.parametrize("radius", [None, 0.7, 2.9])
def test_the_largest_squared_norm_is_that_of_the_largest_row(radius):
    declared = schema(radius)
    scale = 1 / lattice_of(declared).step
    columns = Columns(declared, np.full(len(declared.features), scale))
    assert columns.largest_squared_norm == len(COLUMNS) * int(scale) ** 2


@pytest.mark.parametrize("rows", [0, 1, 2, 4095, 4096, 4097, 10_000, 200_000])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_blocks_cover_every_row_once_and_fit_the_threads(rows, threads):
    declared = schema()
    slices = Encoder(declared, lattice_of(declared)).block_slices(rows, threads)
    assert [k for part in slices for k in range(rows)[part]] == list(range(rows))
    sizes = [part.stop - part.start for part in slices]
    assert max(sizes, default=0) <= encoder.BLOCK_ROWS
    if rows > 4000:
        assert len(slices) % threads == 0
        assert max(sizes) - min(sizes) < len(slices)


def largest_block(declared: Schema, rows: int) -> int:
    slices = Encoder(declared, lattice_of(declared)).block_slices(rows, 1)
    return max(part.stop - part.start for part in slices)


def test_wide_blocks_have_fewer_rows(monkeypatch):
    wide = 8 * lattice_of(schema()).dimension
    for cached, found in ((3000, 3000), (2049, 2049), (2048, 4096)):  # too few: no use of the cache
        monkeypatch.setattr(encoder, "CACHE_BYTES", cached * wide)
        assert largest_block(schema(), found * 10) == found
    monkeypatch.setattr(encoder, "BLOCK_BYTES", 100 * wide)
    assert largest_block(schema(), 1000) == 100


@pytest.mark.parametrize(("columns", "most"), [(20, 4096), (50, 2570), (500, 4096), (5000, 838)])
def test_blocks_are_as_large_as_the_cache_or_a_thread_may_hold(columns, most):
    declared = Schema.from_bounds(-1, 1, [f"x{j}" for j in range(columns)])
    assert largest_block(declared, 100 * most) == most


def test_scratch_is_used_again_and_grows():
    scratch = Scratch()
    first = scratch.array("a", 3, 5)
    first[:] = 7
    again = scratch.array("a", 2, 4)
    assert np.shares_memory(first, again)
    assert again.flags.c_contiguous
    assert scratch.array("a", 4, 5).shape == (4, 5)
    assert not np.shares_memory(scratch.array("a", 1), scratch.array("b", 1))


def test_opening_a_table_imports_no_frame_library():
    """pyarrow imports pandas at the first array that it makes of Python objects."""
    code = "import sys, dpcov.rows.sources.spark; print({'pandas', 'scipy'} & set(sys.modules))"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
