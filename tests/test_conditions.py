"""Conditions: each row's own cells decide, in the same way in every data source."""

import operator
import pickle
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpcov.core.privacy import Neighbors
from dpcov.errors import DpcovError, SchemaError, SourceError
from dpcov.rows.cells import numbers_of
from dpcov.rows.numbers import MAX_CELL_BYTES
from dpcov.rows.schema import INVISIBLE_CATEGORIES, SPACE_CHARACTERS, Schema, level_text
from dpcov.rows.sources import open_source
from dpcov.rows.sources.base import Source
from dpcov.rows.sources.conditions import Conditions, refuse_conditions, rows_meeting
from dpcov.rows.sources.level import FilteredSource, Level
from strategies import TEXTS, arrow_columns, categorical, numeric

DECLARED = {
    "columns": {
        "n": numeric(0, 10),
        "c": categorical("north", "south", "it's"),
        "k": categorical(1, 2, 2.5),
        "s": categorical(True, False, missing="level", other=True),
    },
    "missing": ["", "NA", "-999"],
    "unit": {"column": "id", "type": "text", "max_rows": 3},
    "where": {"m": "number", "t": "text", "b": "boolean", "two words": "text"},
}
SCHEMA = Schema.parse(DECLARED)
STATED = [
    *(f"n {sign} 1" for sign in ("=", "!=", "<", "<=", ">", ">=")),
    *(f"t {sign} '1'" for sign in ("=", "!=", "<", "<=", ">", ">=")),
    "n in (1, 2.5, -3)",
    "n not in (1, 2.5, -3)",
    "t in ('1', 'true', 'a')",
    "t not in ('1', 'true', 'a')",
    "b = true",
    "b != true",
    "b in (true, false)",
    "k = 2",
    "k != 2",
    "k not in (2, 2.5)",
    "s = true",
    "s != true",
    "c = 'north'",
    *(f"{name} is null" for name in "ntbks"),
    *(f"{name} is not null" for name in "ntbks"),
]


def parsed(*stated: str, schema: Schema = SCHEMA) -> Conditions:
    return Conditions.parse(stated, schema)


def verdicts(stated: str, column: pa.Array) -> list[bool]:
    """Return which of these cells, in the column of the only test, meet the test."""
    conditions = parsed(stated)
    kept = np.logical_and.reduce([test.keep(column) for test in conditions.tests])
    assert kept.dtype == bool
    return kept.tolist()


def run_ended(column: pa.Array) -> pa.Array:
    ends = pa.array(range(1, len(column) + 1), pa.int32())
    return pa.RunEndEncodedArray.from_arrays(ends, column)


def same_alone_as_in_company(decide, column: pa.Array) -> None:
    together = decide(column)
    assert together == [decide(column.slice(i, 1))[0] for i in range(len(column))]


@given(st.sampled_from(STATED), arrow_columns(4))
@example("n = 1", pa.array([1.0, None, float("nan"), -0.0]))
@example("t >= 'a'", run_ended(pa.array(["a", None, "b", ""])))
@example("n = 1", pa.array(["1", "1", "1", "x"]))
def test_every_row_of_any_type_gets_the_verdict_that_it_gets_alone(stated, column):
    same_alone_as_in_company(lambda cells: verdicts(stated, cells), column)


def test_a_cast_of_the_whole_column_would_have_been_found():
    def by_bulk_cast(column):
        try:
            return (column.cast(pa.float64()).to_numpy() == 1).tolist()
        except pa.ArrowInvalid:
            return [False] * len(column)

    same_alone_as_in_company(by_bulk_cast, pa.array(["1", "2"]))
    with pytest.raises(AssertionError):
        same_alone_as_in_company(by_bulk_cast, pa.array(["1", "x"]))


@given(st.sampled_from(STATED), arrow_columns(4))
def test_of_a_condition_and_its_contrary_a_missing_cell_meets_none_and_others_one(stated, column):
    contrary = {"=": "!=", "<": ">=", "<=": ">", "in": "not in", "is null": "is not null"}
    contrary |= {b: a for a, b in contrary.items()}
    sign = max((s for s in contrary if f" {s}" in stated), key=len)
    name = stated.split()[0]
    reported = [verdicts(one, column) for one in (stated, stated.replace(sign, contrary[sign], 1))]
    missing = verdicts(f"{name} is null", column)
    both = [a + b for a, b in zip(*reported, strict=True)]
    assert both == [1 if "null" in stated else 1 - absent for absent in missing]


# What a condition means, in plain Python: True, False, or None for a missing cell.

COMPARED = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
NUMBERS = st.integers(-5, 5) | st.sampled_from([2.5, -0.125, 1e300, 1e-3, 0.1])
NUMBER_CELLS = (
    st.none()
    | NUMBERS.map(str)
    | st.sampled_from(
        [
            " 1 ",
            "+2",
            "1.0",
            "1e0",
            "-0",
            "-999",
            "-999.0",
            "NA",
            "",
            "x",
            "1_0",
            "0x1",
            "nan",
            "1,5",
        ]
    )
)
TEXT_LITERALS = st.sampled_from(["a", "b", "ab", "ü", "1", "it's", "2020-01-31"])


def number(cell: str | None) -> float | None:
    found = None if cell is None else re.fullmatch(r"[+-]?\d+(\.\d*)?(e[+-]?\d+)?", cell.strip())
    value = float(found[0]) if found else None
    return None if value == -999 else value


def trimmed(cell: str | None) -> bytes | None:
    cell = None if cell is None else cell.strip()
    return None if cell is None or cell in SCHEMA.missing else cell.encode()


@given(st.sampled_from(list(COMPARED)), NUMBERS, st.lists(NUMBER_CELLS, max_size=6))
def test_numbers_are_compared_as_in_python(sign, literal, cells):
    expected = [(n := number(c)) is not None and COMPARED[sign](n, literal) for c in cells]
    assert verdicts(f"n {sign} {literal!r}", pa.array(cells, pa.string())) == expected


@given(st.sampled_from(list(COMPARED)), TEXT_LITERALS, st.lists(st.none() | TEXTS, max_size=6))
@example("<", "Z", ["a", "Ä", "Y ", ""])
def test_texts_are_compared_byte_by_byte_as_in_python(sign, literal, cells):
    quoted = literal.replace("'", "''")
    word = literal.encode()
    expected = [(t := trimmed(c)) is not None and COMPARED[sign](t, word) for c in cells]
    assert verdicts(f"t {sign} '{quoted}'", pa.array(cells, pa.string())) == expected


@given(st.lists(NUMBERS, min_size=1, max_size=4), st.lists(NUMBER_CELLS, max_size=6))
def test_lists_hold_what_equals_one_of_their_values(literals, cells):
    listed = f"({', '.join(map(repr, literals))})"
    column = pa.array(cells, pa.string())
    among = [number(cell) in literals for cell in cells]
    others = [number(cell) is not None and number(cell) not in literals for cell in cells]
    assert verdicts(f"n in {listed}", column) == among
    assert verdicts(f"n not in {listed}", column) == others


def test_texts_in_bytes_that_are_no_text_are_compared_too():
    held = pa.array([b"a", b"\xff\xfe", b"\xc3\x28", None], pa.binary())
    column = pa.Array.from_buffers(pa.string(), 4, held.buffers())
    assert verdicts("t > 'a'", column) == [False, True, True, False]
    assert verdicts("t in ('a', 'b')", column) == [True, False, False, False]


def test_a_missing_cell_meets_no_comparison():
    column = pa.array([None, "", " NA", "-999", "x", "7"])
    assert verdicts("n != 5", column) == [False] * 5 + [True]
    assert verdicts("n not in (5)", column) == [False] * 5 + [True]
    assert verdicts("n is null", column) == [True] * 5 + [False]
    assert verdicts("t is null", column) == [True] * 4 + [False] * 2


def test_an_undeclared_level_is_another_one_and_not_missing():
    column = pa.array(["north", "south", "west", "", None])
    assert verdicts("c != 'north'", column) == [False, True, True, False, False]
    assert verdicts("c is null", column) == [False, False, False, True, True]
    assert verdicts("s is null", pa.array(["true", "maybe", ""])) == [False, False, True]


def test_zero_is_one_number_whatever_its_sign():
    assert verdicts("n in (0, 5)", pa.array([-0.0, 0.0])) == [True, True]
    assert verdicts("n = -0.0", pa.array(["-0", "0.00"])) == [True, True]


def test_what_is_neither_true_nor_false_is_missing_among_truth_values():
    column = pa.array(["2", "0", "FALSE", "true", "yes"])
    assert verdicts("b != true", column) == [False, True, True, False, False]
    assert verdicts("b is null", column) == [True, False, False, False, True]


def test_a_number_that_means_missing_still_bounds_others():
    assert verdicts("n > -999", pa.array([-999.0, -998.0, -1000.0])) == [False, True, False]


def test_a_cell_beyond_the_cap_is_missing():
    column = pa.array(["x" * MAX_CELL_BYTES, "x" * (MAX_CELL_BYTES + 1)])
    assert verdicts("t >= 'x'", column) == [True, False]
    assert verdicts("t is null", column) == [False, True]


@pytest.mark.parametrize("of", ["dictionary", "runs", "views"])
def test_a_long_text_that_is_held_once_is_not_copied_for_each_row(of):
    rows, word = 70_000, "x" * 60_000  # 4 GB
    column = {
        "dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array([0] * rows), [word]),
        "runs": lambda: pa.RunEndEncodedArray.from_arrays([rows], [word]),
        "views": lambda: pa.concat_arrays([pa.array([word], pa.string_view())] * rows),
    }[of]()
    assert sum(verdicts("t > 'a'", column)) == rows
    assert not any(verdicts("n > 1", column))
    assert not any(verdicts("c = 'north'", column))


# The same values, through every reader.

VALUES = [1, 0, 5, None, 2, -3, 7]
ASKED = ["n = 1", "n != 1", "n >= 2", "n in (0, 7)", "n is null", "m < 2", "b = true", "b is null"]
ASKED += ["b != true", "k = 1", "k != 1", "k in (1, 2)", "k is null", "s = true", "s != false"]


def sources(name: str, folder) -> dict[str, object]:
    """Return the same column in every kind of table, with a number for each row."""
    rows = list(range(len(VALUES)))
    texts = [None if v is None else str(v) for v in VALUES]
    decimals = [None if v is None else Decimal(v).quantize(Decimal("1.00")) for v in VALUES]
    columns = {
        "int64": pa.array(VALUES, pa.int64()),
        "int8": pa.array(VALUES, pa.int8()),
        "float64": pa.array(VALUES, pa.float64()),
        "float16": pa.array(np.array([np.nan if v is None else v for v in VALUES], np.float16)),
        "decimal": pa.array(decimals, pa.decimal128(9, 2)),
        "text": pa.array(texts),
        "decimal in text": pa.array([None if d is None else f" {d}" for d in decimals]),
        "view": pa.array(texts, pa.string_view()),
        "dictionary": pa.array(texts).dictionary_encode(),
        "runs": run_ended(pa.array(texts)),
    }
    made: dict[str, object] = {
        kind: pa.table({name: column, "row": rows}) for kind, column in columns.items()
    }
    made["pandas objects"] = pd.DataFrame({name: pd.Series(VALUES, dtype=object), "row": rows})
    made["pandas"] = pd.DataFrame({name: pd.Series(VALUES, dtype="float64"), "row": rows})
    made["pandas Int64"] = pd.DataFrame({name: pd.Series(VALUES, dtype="Int64"), "row": rows})
    made["polars"] = pl.DataFrame({name: texts, "row": rows})
    made["csv"] = folder / "t.csv"
    made["csv"].write_text(
        f"{name},row\n" + "".join(f"{t or ''},{i}\n" for i, t in enumerate(texts))
    )
    made["parquet"] = folder / "t.parquet"
    pq.write_table(made["text"], made["parquet"])
    return made


def rows_kept(data, stated: str) -> list[int]:
    source = open_source(data, SCHEMA.file, ("row",))
    met = rows_meeting(source, parsed(stated))
    return [
        int(row)
        for batch in met.batches(["row"])
        for row in numbers_of(batch.column("row"), ()).tolist()
    ]


@pytest.mark.parametrize("stated", ASKED)
def test_the_same_values_are_kept_in_every_source(tmp_path, stated):
    name = stated.split()[0]
    found = {source: rows_kept(data, stated) for source, data in sources(name, tmp_path).items()}
    assert len({tuple(rows) for rows in found.values()}) == 1, found
    assert 0 < len(found["csv"]) < len(VALUES)


@pytest.mark.parametrize("stated", ["t > '2'", "t in ('0', '5')", "t is null", "t != '1'"])
def test_the_same_texts_are_kept_in_every_source_of_texts(tmp_path, stated):
    of_texts = ("text", "view", "dictionary", "runs", "pandas objects", "polars", "csv", "parquet")
    found = {source: rows_kept(sources("t", tmp_path)[source], stated) for source in of_texts}
    assert len({tuple(rows) for rows in found.values()}) == 1, found


def test_iso_dates_in_text_are_in_order():
    column = pa.array(["2019-12-31", "2020-01-01", "2020-01-31", "2021-01-01"])
    assert verdicts("t >= '2020-01-01'", column) == [False, True, True, True]


# What is refused, before anything is read.


class Unread(Source):
    """A source that nobody may read."""

    kind = "arrow"

    def __init__(self, *columns: tuple[str, pa.DataType]) -> None:
        self.names = tuple(name for name, _ in columns)
        self.types = dict(columns)

    def batches(self, columns):
        raise AssertionError("read")


REFUSED = {
    # the value's type is not the column's: DuckDB cast the column while it scanned
    "n = 'N'": "compare 'n' with a number",
    "t = 5": "compare 't' with 'text'",
    "t = true": "compare 't' with 'text'",
    "b = 1": "compare 'b' with true or false",
    "n = true": "compare 'n' with a number",
    "k = 'x'": "not a declared level of 'k', but",
    "c = 'nroth'": "'north' is similar",
    "c = true": "not a declared level of 'c'",
    "c < 'north'": "have no order",
    "b > false": "have no order",
    # no operators, functions or queries of anybody
    "t OPERATOR(public.=) 'x'": "use one of the operators",
    "lower(t) = 'x'": "does not state its type",
    "n = 1 or n = 2": "only `and`",
    "t = (select 1)": "a value must be",
    "t = 'x' --": "only `and`",
    "t = 'x'; drop table u": "is not valid",
    "1=1": "does not state its type",
    "t like 'x'": "use one of the operators",
    "n = m": "a value must be",
    # spelling
    "": "starts with a column name",
    "n": "use one of the operators",
    "n >": "a value must be",
    "n == 1": "use one of the operators",
    "n <> 1": "use one of the operators",
    "n = null": "a value must be",
    'n = "1"': "a value must be",
    "is = 1": "starts with a column name",
    "n in 1": "write a list as",
    "n in (1, 2": "write a list as",
    "n in ()": "a value must be",
    "n = 1,5": "only `and`",
    "n = 1_000": "a value must be",
    "n = 0x10": "a value must be",
    "n = inf": "a value must be",
    "n = 1e999": "finite",
    "n = 9007199254740992": "2^53",
    f"n = {'9' * 9999}": "finite",
    "t = 'x": "is unexpected",
    "t = '\x1b[2J'": "an invisible character",
    "t = 'a\u202eb'": "an invisible character",
    "t = '\udc80'": "an invisible character",
    "n = 1 and": "starts with a column name",
    # what can't be met
    "n = -999": "means a missing cell, so write n is null",
    "n != -999": "means a missing cell",
    "t = ' NA '": "means a missing cell",
    "t in ('x', '')": "means a missing cell",
    f"t > '{'x' * (MAX_CELL_BYTES + 1)}'": "means a missing cell",
    # columns without a declared type
    "id = 'x'": 'Add id = "number" (or "text", "boolean") under [where]',
    "nn >= 1": "or use 'n'",
    '"a b" is null': 'Add "a b" = ',
}


@pytest.mark.parametrize("stated", REFUSED, ids=lambda text: text[:30].encode("ascii", "replace"))
def test_what_is_no_condition_is_refused_with_a_hint(stated):
    with pytest.raises(DpcovError) as reported:
        parsed(stated)
    assert REFUSED[stated] in str(reported.value)


@pytest.mark.parametrize(
    ("stated", "kind", "hint"),
    [
        ("t = 'N'", pa.int64(), 'Set t = "number" under [where]'),
        ("t = 'N'", pa.bool_(), 'Set t = "boolean" under [where]'),
        ("t = 'N'", pa.date32(), "Convert it"),
        ("n = 1", pa.timestamp("us"), "Convert it"),
        ("b = true", pa.binary(), "Convert it"),
        ("c = 'north'", pa.list_(pa.string()), "Convert it"),
        ("n is null", pa.struct({"a": pa.int64()}), "Convert it"),
        ("m is null", pa.int64(), "no column 'm'"),
    ],
)
def test_a_type_that_a_condition_does_not_fit_is_refused_before_anything_is_read(
    stated, kind, hint
):
    with pytest.raises(SourceError, match=re.escape(hint)):
        rows_meeting(
            Unread((stated[0], kind) if "m" not in stated else ("n", kind)), parsed(stated)
        )


@pytest.mark.parametrize(
    ("stated", "kind"),
    [
        ("n = 1", pa.string()),
        ("n = 1", pa.bool_()),
        ("n = 1", pa.null()),
        ("n = 1", pa.dictionary(pa.int8(), pa.decimal128(5, 2))),
        ("t = 'a'", pa.large_string()),
        ("t = 'a'", pa.string_view()),
        ("t = 'a'", pa.run_end_encoded(pa.int32(), pa.string())),
        ("b = true", pa.int8()),
        ("k = 1", pa.float64()),
    ],
)
def test_types_that_fit_are_taken(stated, kind):
    rows_meeting(Unread((stated[0], kind)), parsed(stated))


def test_no_refusal_contains_a_password():
    for stated in [
        "postgresql://u:geheim@host/d = 1",
        "n = 'password=geheim'",
        "t = 'a' postgresql://u:geheim@host/d",
        '"postgresql://u:geheim@host/d" is null',
        "password = 'geheim'",
    ]:
        with pytest.raises(DpcovError) as reported:
            parsed(stated)
        assert "geheim" not in str(reported.value)


def test_conditions_are_refused_where_the_number_of_rows_is_public():
    with pytest.raises(SourceError, match="cannot be used with replace-one"):
        refuse_conditions(parsed("n > 1"), Neighbors.REPLACE_ONE)
    refuse_conditions(parsed("n > 1"), Neighbors.ADD_REMOVE)
    refuse_conditions(parsed(), Neighbors.REPLACE_ONE)


# How conditions are reported.


def test_a_condition_is_shown_in_one_spelling_however_it_was_stated():
    reported = parsed(
        " \"n\">=01.50 AND t = ' it''s '", "b=TRUE", 'k IN (2.50,1.0) and "two words" Is Not NULL'
    )
    assert reported.texts == (
        "n >= 1.5",
        "t = 'it''s'",
        "b = true",
        "k in (2.5, 1)",
        '"two words" is not null',
    )
    assert [test.column for test in reported.tests] == ["n", "t", "b", "k", "two words"]
    assert parsed("n in (1, 1.0, 2)").texts == ("n in (1, 2)",)
    assert parsed("n > -0.0 and n < 1e20").texts == ("n > 0", "n < 1e+20")


ANY_NUMBER = st.floats(allow_nan=False, allow_infinity=False) | st.integers(1 - 2**53, 2**53 - 1)
NAMES = st.text(
    st.characters(exclude_categories=INVISIBLE_CATEGORIES), min_size=1, max_size=6
).filter(lambda name: name == name.strip(SPACE_CHARACTERS))


@given(
    NAMES, ANY_NUMBER, st.text(st.characters(exclude_categories=INVISIBLE_CATEGORIES), max_size=6)
)
@example("And", 1, "'")
@example('a"b', 9e300, "it's")
def test_a_shown_condition_can_be_stated_again(name, value, text):
    for as_what, literal in (
        ("number", repr(value)),
        ("text", "'" + text.replace("'", "''") + "'"),
    ):
        schema = Schema.parse(
            {"columns": {"x x": numeric()}, "missing": [], "where": {name: as_what}}
        )
        quoted = '"' + name.replace('"', '""') + '"'
        reported = parsed(f"{quoted}<={literal}", f"{quoted} not in({literal})", schema=schema)
        assert parsed(*reported.texts, schema=schema) == reported
        assert parsed(" and ".join(reported.texts), schema=schema) == reported
        assert [t.literals for t in reported.tests] == [
            (Decimal(repr(value)) if as_what == "number" else text.strip().encode(),)
        ] * 2


@pytest.mark.parametrize("level", [2**53, 1 - 2**53, "nan", "7", "Ä b", 0.1, -1, True])
def test_any_declared_level_can_be_named_as_it_is_shown(level):
    schema = Schema.parse({"columns": {"c": categorical("other one", level)}})
    stated = f"c = '{level_text(level)}'"
    reported = parsed(stated, schema=schema)
    assert reported.tests[0].literals == (1,)
    assert ("'" in reported.texts[0]) == (isinstance(level, str) or not abs(level) < 2**53)
    assert parsed(*reported.texts, schema=schema) == reported


def test_conditions_travel_to_workers_and_stay_what_they_are():
    reported = parsed("n >= 1", "c != 'north' and t is null", "b = false")
    again = pickle.loads(pickle.dumps(reported))
    assert again == reported
    assert hash(again) == hash(reported)
    assert not parsed()
    with pytest.raises(AttributeError):
        reported.tests = ()


# Rows of a source.


TABLE = pa.table(
    {
        "n": [1.0, 2.0, 3.0, 4.0, None],
        "c": ["north", "south", "north", "", "west"],
        "t": pa.array(["a", "b", "c", "d", "e"], pa.string_view()),
        "r": run_ended(pa.array(["v", "w", "x", "y", "z"])),
    }
)


def read(source, *columns: str) -> list[dict]:
    return [row for batch in source.batches(columns) for row in pa.table(batch).to_pylist()]


def opened(data=TABLE):
    return open_source(data, SCHEMA.file, ())


def test_conditions_and_levels_choose_rows_together_and_only_their_columns_are_given():
    of_level = Level("c", SCHEMA.columns["c"], 0, SCHEMA.missing)
    both = FilteredSource(rows_meeting(opened(), parsed("n > 1 and n is not null")), of_level)
    assert read(both, "n") == [{"n": 3.0}]
    assert read(both, "c", "n") == [{"c": "north", "n": 3.0}]
    assert len(both.tests) == 3
    assert not isinstance(both.source, FilteredSource)
    assert rows_meeting(opened(), parsed()).names == opened().names


def test_a_level_is_a_condition_on_its_column():
    for code, label in enumerate(("north", "south")):
        of_level = FilteredSource(opened(), Level("c", SCHEMA.columns["c"], code, SCHEMA.missing))
        assert read(of_level, "n") == read(rows_meeting(opened(), parsed(f"c = '{label}'")), "n")


def test_columns_that_arrow_can_not_filter_are_given_in_a_type_that_it_can():
    met = rows_meeting(opened(), parsed("n >= 3"))
    (batch,) = met.batches(["t", "r", "n"])
    assert batch.to_pylist() == [{"t": "c", "r": "x", "n": 3.0}, {"t": "d", "r": "y", "n": 4.0}]
    assert {name: met.types[name] for name in ("t", "r", "n")} == {
        field.name: field.type for field in batch.schema
    }


def test_no_part_of_a_file_gets_past_the_conditions(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"n": [1.0, 2.0]}), path)
    source = opened(path)
    assert source.parts(["n"])
    met = rows_meeting(source, parsed("n > 1"))
    assert not met.parts(["n"])
    assert read(met, "n") == [{"n": 2.0}]


def test_what_a_source_says_of_itself_is_passed_on():
    source = opened()
    source.unfit_ids = {"n": "double"}
    met = rows_meeting(source, parsed("n > 1"))
    reported = ("kind", "names", "unfit", "repeatable", "costly", "unfit_ids")
    assert [getattr(met, name) for name in reported] == [getattr(source, name) for name in reported]


def test_a_column_must_be_there_once():
    twice = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["n", "n"])
    with pytest.raises(SourceError, match="more than one column 'n'"):
        rows_meeting(opened(twice), parsed("n > 1"))
    with pytest.raises(SourceError, match="no column 'c'"):
        FilteredSource(opened(twice), Level("c", SCHEMA.columns["c"], 0, ()))


# What the schema says of them.


def test_a_schema_states_how_conditions_read_columns_that_are_no_features():
    schema = Schema.parse({"columns": {"x": numeric()}, "where": {"id": "text", "age": "number"}})
    assert schema.where == {"id": "text", "age": "number"}
    assert schema.needed == ("x",)
    again = Schema.parse(schema.model_dump())
    assert again == schema


@pytest.mark.parametrize(
    ("where", "fields", "match"),
    [
        ({"x": "number"}, {}, "contains 'x', but the declaration of this column"),
        ({"y": "date"}, {}, "where.y"),
        ({"a\u202eb": "text"}, {}, "an invisible control or formatting character"),
        ({"y": "text"}, {"file": {"header": False}}, "a declaration of 'y', which"),
    ],
)
def test_a_schema_says_what_is_wrong_with_its_where(where, fields, match):
    with pytest.raises(SchemaError, match=match):
        Schema.parse({"columns": {"x": numeric()}, "where": where, **fields})
