"""One grammar of cells for all readers: a cell has the same meaning in every reader."""

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov.rows.cells import codes_of, numbers_of
from dpcov.rows.numbers import MAX_CELL_BYTES
from dpcov.rows.schema import Categorical, FileOptions
from dpcov.rows.sources import open_source
from dpcov.rows.sources.objects import _spelt, _spelt_as_id, _text, texts_of
from dpcov.rows.sources.training import training_table
from strategies import TEXTS

OPTIONS = FileOptions()
Reader = Callable[[object], tuple[np.ndarray, np.ndarray]]


def arrays(value: object) -> dict[str, pa.Array]:
    """Return Arrow arrays with the value, in every type that can represent it exactly."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    found = {
        "text": pa.array([text]),
        "blanks": pa.array([f" {text}\t"], pa.large_string()),
        "view": pa.array([text], pa.string_view()),
        "dictionary": pa.array([text]).dictionary_encode(),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([text])),
    }
    number = Fraction(value) if not isinstance(value, str) else None
    if number is None:
        return found
    for kind in ("int8", "int32", "int64", "uint8", "uint64"):
        limits = np.iinfo(kind)
        if number.denominator == 1 and limits.min <= number <= limits.max:
            found[kind] = pa.array([int(number)], kind)
            found[f"dictionary of {kind}"] = found[kind].dictionary_encode()
    for kind in (np.float16, np.float32, np.float64):
        with np.errstate(over="ignore"):
            held = kind(float(number))
        if math.isfinite(held) and Fraction(float(held)) == number:
            found[kind.__name__] = pa.array([held])
    if (number * 1000).denominator == 1:
        found["decimal128"] = pa.array([Decimal(str(float(number)))], pa.decimal128(38, 3))
        found["decimal256"] = pa.array([Decimal(str(float(number)))], pa.decimal256(60, 20))
    if isinstance(value, bool):
        found["bool"] = pa.array([value])
    return found | {f"object {type(one).__name__}": texts_of([one]) for one in objects(value)}


def objects(value: object) -> list[object]:
    """Return the value as objects of Python and NumPy."""
    number = Fraction(value)  # type: ignore[arg-type]
    found = [value, str(value), str(value).encode(), float(number), Decimal(str(float(number)))]
    found += (
        [np.float64(number), np.bool_(value)] if isinstance(value, bool) else [np.float64(number)]
    )
    if number.denominator == 1:
        found += [int(number), np.int64(number)]
    return found


VALUES = [0, 1, True, False, 2, -3, 0.5, -0.125, 1000, 10**15, 2**53 - 1, -(2**40), 65504]
LEVELS = [
    (True, False),
    (1, 0),
    ("true", "false"),
    ("1", "0"),
    (0.5, 1, "x", -3),
    ("0.5", "1", "-3", "1000"),
    (2.0, 1e3, 10**15, 2**53 - 1),
    (-0.125, 65504, -(2**40)),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_one_number_in_every_type(value):
    found = {name: numbers_of(array, ("",)).tolist() for name, array in arrays(value).items()}
    assert found == {name: [float(value)] for name in found}


@pytest.mark.parametrize("levels", LEVELS, ids=repr)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_one_level_in_every_type(value, levels):
    column = Categorical(levels=levels)
    found = {name: codes_of(array, column, ("",)).tolist() for name, array in arrays(value).items()}
    wanted = [k for k, level in enumerate(levels) if matches(level, value)]
    assert found == {name: wanted or [-1] for name in found}


def matches(level: object, value: object) -> bool:
    if isinstance(level, str):
        named = {"true": 1, "false": 0}
        level = named[level] if level in named else (float(level) if level != "x" else None)
    return level is not None and level == value


def test_truths_and_numbers_differ_if_both_are_declared():
    column = Categorical(levels=(True, 1, 0))
    for cells in ([True, False], ["True", "FALSE"], ["true", "0"]):
        assert codes_of(pa.array(cells), column, ()).tolist() == [0, 2]
    assert codes_of(pa.array([1, 0]), column, ()).tolist() == [1, 2]
    assert codes_of(pa.array(["1", "0.0"]), column, ()).tolist() == [1, 2]


NOTHING = float("nan")
READ = {
    "1": 1.0,
    " 1": 1.0,
    "01": 1.0,
    "1.0": 1.0,
    "1.": 1.0,
    ".5": 0.5,
    "1e3": 1000.0,
    "1E+3": 1000.0,
    "+1": 1.0,
    "-0": 0.0,
    "True": 1.0,
    "TRUE": 1.0,
    "false": 0.0,
    "1e999": math.inf,
    "-inf": -math.inf,
    "1_000": NOTHING,
    "1,5": NOTHING,
    "1 000": NOTHING,
    "0x10": NOTHING,
    "\u0661": NOTHING,
    "yes": NOTHING,
    "--1": NOTHING,
    "1e": NOTHING,
    "nan": NOTHING,
    "": NOTHING,
    "(1)": NOTHING,
}
WORDS = list(READ)


def csv_file(folder: Path, words: list[str]) -> Path:
    (folder / "t.csv").write_text("a\n" + "".join(f'"{word}"\n' for word in words))
    return folder / "t.csv"


def parquet_file(folder: Path, words: list[str]) -> Path:
    pq.write_table(pa.table({"a": words}), folder / "t.parquet")
    return folder / "t.parquet"


SOURCES: dict[str, Callable[[Path, list[str]], object]] = {
    "csv": csv_file,
    "parquet": parquet_file,
    "arrow": lambda _, words: pa.table({"a": words}),
    "arrow, dictionary": lambda _, words: pa.table({"a": pa.array(words).dictionary_encode()}),
    "arrow, view": lambda _, words: pa.table({"a": pa.array(words, pa.string_view())}),
    "stream": lambda _, words: pa.table({"a": words}).to_reader(max_chunksize=3),
    "polars": lambda _, words: pl.DataFrame({"a": words}),
    "pandas": lambda _, words: pd.DataFrame({"a": words}),
    "pandas, object": lambda _, words: pd.DataFrame({"a": pd.Series(words, dtype=object)}),
    "pandas, category": lambda _, words: pd.DataFrame({"a": pd.Categorical(words)}),
    "list": lambda _, words: [[word] for word in words],
    "tuples": lambda _, words: tuple((word,) for word in words),
    "numpy, objects": lambda _, words: np.array([[word] for word in words], object),
    "numpy, texts": lambda _, words: np.array([[word] for word in words]),
    "numpy, bytes": lambda _, words: np.array([[word.encode()] for word in words], object),
}


def read(data: object) -> list[float]:
    source = open_source(data, OPTIONS, ("a",), {"a": ()})
    batches = [numbers_of(batch.column(0), ("",)) for batch in source.batches(["a"])]
    return np.concatenate(batches).tolist()


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("company", ["odd", "clean"])
def test_every_source_reads_a_text_alike_among_all_other_rows(tmp_path, source, company):
    words = WORDS if company == "odd" else [word for word in WORDS if READ[word] == 1.0]
    if company == "clean" and source != "csv":
        words = [word for word in words if word.isascii()]
    found = read(SOURCES[source](tmp_path, words))
    np.testing.assert_array_equal(found, [READ[word] for word in words])


@pytest.mark.parametrize("source", SOURCES)
def test_a_text_is_read_alike_alone(tmp_path, source):
    for word, number in READ.items():
        if word or source != "csv":  # a file of one empty cell
            np.testing.assert_array_equal(read(SOURCES[source](tmp_path, [word])), [number])


def test_the_source_of_the_estimators_is_the_same():
    source = training_table([[word, word] for word in WORDS], WORDS, ("a", "b"))
    (batch,) = source.batches(source.names)
    for name in source.names:
        np.testing.assert_array_equal(numbers_of(batch.column(name), ("",)), list(READ.values()))


def test_control_python_and_numpy_have_grammars_of_their_own():
    assert float("1_000") == 1000
    assert np.array(["\u0661"]).astype(float)[0] == 1
    with pytest.raises(ValueError, match="True"):
        float("True")


FLOATS = st.floats() | st.floats(1e-5, 1e11) | st.integers(-(10**17), 10**17).map(float)
OBJECTS = st.one_of(
    st.none(),
    TEXTS,
    st.text(st.characters(), max_size=4),  # lone surrogates too
    st.text(max_size=3).map(np.str_),
    st.binary(max_size=3),
    FLOATS,
    FLOATS.map(np.float64),
    FLOATS.map(np.array),
    st.integers(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.booleans(),
    st.decimals(),
    st.dates(),
    st.datetimes(),
    st.sampled_from(
        [" 7 ", "1,5", "1_0", "\u0661", "NaN", pd.NA, pd.NaT, 2**53 + 1, -0.0, "\ud800"]
    ),
)


@given(st.lists(OBJECTS, max_size=8) | st.lists(FLOATS, max_size=20), st.booleans())
def test_an_object_is_a_text_by_itself_however_its_neighbors_are_spelt(cells, ids):
    spelt = _spelt_as_id if ids else _spelt
    whole = texts_of(cells, ids=ids)
    whole.validate(full=True)
    assert whole.type == pa.large_string()
    assert whole.to_pylist() == [_text(cell, spelt) for cell in cells]


def test_control_exponents_of_arrow_are_other_texts():
    assert pa.array([1e10]).cast(pa.large_string()).to_pylist() == ["1e+10"]
    assert texts_of([1e10]).to_pylist() == ["10000000000"]


@pytest.mark.parametrize("odd", ["\ud800", 10**400, Decimal("1.5"), 1e300, "x" * 2**17, object()])
def test_one_odd_object_changes_no_other_reading(odd):
    cells = ["1.5", " 7 ", "1,5", None, 2, 2.5, 1e-7, True, np.nan, "2", 2**53 + 1] * 3
    levels = Categorical(levels=("2", "1e-07", "true"), other=True, missing="level")
    alone, beside = texts_of(cells), texts_of([*cells, odd]).slice(0, len(cells))
    assert alone.equals(beside)
    np.testing.assert_array_equal(numbers_of(alone, ("",)), numbers_of(beside, ("",)))
    assert codes_of(alone, levels, ("",)).tolist() == codes_of(beside, levels, ("",)).tolist()
    frames = [pd.DataFrame({"a": pd.Series(held, dtype=object)}) for held in (cells, [*cells, odd])]
    (one,), (other,) = (open_source(frame, OPTIONS, ()).batches(["a"]) for frame in frames)
    assert one.column("a").equals(other.column("a").slice(0, len(cells)))


IN_MEMORY = [source for source in SOURCES if source not in ("csv", "parquet")]


@pytest.mark.parametrize("source", IN_MEMORY)
def test_a_text_longer_than_the_cap_is_missing_in_every_source(tmp_path, source):
    longest = "0" * (MAX_CELL_BYTES - 1) + "1"
    found = read(SOURCES[source](tmp_path, ["1", longest, "0" + longest, "2"]))
    np.testing.assert_array_equal(found, [1, 1, NOTHING, 2])


def test_the_cap_counts_bytes_and_holds_for_levels_too():
    column = Categorical(levels=("x",), other=True, missing="level")
    cells = [
        "x",
        "é" * (MAX_CELL_BYTES // 2),
        "é" * (MAX_CELL_BYTES // 2) + "x",
        "x" + " " * MAX_CELL_BYTES,
    ]
    assert codes_of(pa.array(cells), column, ()).tolist() == [0, 1, 2, 2]
    assert codes_of(texts_of(cells), column, ()).tolist() == [0, 1, 2, 2]
    assert codes_of(pa.array(cells).dictionary_encode(), column, ()).tolist() == [0, 1, 2, 2]


def test_a_frame_is_a_table_whatever_its_columns_are_called():
    """In pandas, every column is also an attribute, and so are the parts of a source."""
    names = ["kind", "names", "types", "unfit", "repeatable", "costly", "kinds", "batches"]
    frame = pd.DataFrame({name: [1.0, 2.0] for name in names})
    assert open_source(frame, OPTIONS, ()).names == tuple(names)
