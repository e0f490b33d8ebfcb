"""Schemas: what is accepted, what is refused, and the draft."""

import json
import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dpcov.cli.drafts import draft
from dpcov.errors import SchemaError
from dpcov.rows.schema import (
    INVISIBLE_CATEGORIES,
    MAX_FEATURES,
    FileOptions,
    Numeric,
    Schema,
    level_text,
)
from strategies import categorical, numeric, schema_of

TOML = """
radius = 2.5
missing = ["", "NA"]
[unit]
column = "id"
max_rows = 3
[file]
separator = ";"
[columns.age]
kind = "numeric"
lower = 0
upper = 120
missing = "level"
[columns.smokes]
kind = "categorical"
levels = [true, 1.0, "sometimes"]
other = true
[columns.note]
kind = "ignored"
"""


def one(declared: dict, **fields) -> Schema:
    return Schema.parse({"columns": {"c": declared}, **fields})


def test_a_toml_schema_loads_as_declared(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(TOML)
    schema = Schema.load(path)
    assert schema.needed == ("age", "smokes", "id")
    names = [
        "age",
        "age=(missing)",
        "smokes=true",
        "smokes=1",
        "smokes=sometimes",
        "smokes=(other)",
    ]
    assert [feature.name for feature in schema.features] == names
    assert (schema.features[0].center, schema.features[0].scale) == (60, 60)
    assert schema.radius == 2.5
    assert schema.effective_radius == schema.largest_norm == 2**0.5  # no row is longer
    assert schema.privacy_unit.max_rows == 3
    assert schema.file.separator == ";"


def test_a_schema_survives_json():
    schema = Schema.parse(tomllib.loads(TOML))
    again = Schema.parse(json.loads(schema.model_dump_json()))
    assert again == schema
    assert [type(level) for level in again.columns["smokes"].levels] == [bool, float, str]


def test_the_default_radius_is_the_largest_norm_and_the_default_unit_a_row():
    schema = schema_of("a", "b", "c")
    assert schema.effective_radius == math.sqrt(3)
    assert schema.privacy_unit.max_rows == 1
    assert schema.privacy_unit.column is None


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "Not filled in yet: columns. Declare them"),
        ({"columns": {}}, "columns"),
        ({"columns": {"c": {"kind": "ignored"}}}, "no column is numeric"),
        (
            {"columns": {"c": {"kind": "numeric", "upper": 1}}},
            "Not filled in yet: columns.c.lower. Declare",
        ),
        ({"columns": {"c": numeric(1, 1)}}, "Set lower below upper"),
        ({"columns": {"c": numeric(2, 1)}}, "Set lower below upper"),
        ({"columns": {"c": numeric(0, 5e-324)}}, "too close"),
        ({"columns": {"c": numeric(float("nan"), 1)}}, "finite"),
        ({"columns": {"c": numeric(0, float("inf"))}}, "finite"),
        ({"columns": {"c": numeric(typo=1)}}, "c.typo"),
        ({"columns": {"c": categorical()}}, "c.levels"),
        ({"columns": {"c": categorical("a", " a ")}}, "declared twice"),
        ({"columns": {"c": categorical(1, 1.0)}}, "declared twice"),
        ({"columns": {"c": categorical(True, "true")}}, "declared twice"),
        ({"columns": {"c": categorical("a", float("nan"))}}, "nan or beyond 2"),
        ({"columns": {"c": categorical("a", 2**53 + 1)}}, "nan or beyond 2"),
        ({"columns": {"c": categorical("a", missing="other")}}, "needs other = true"),
        ({"columns": {"c": categorical("(other)", other=True)}}, "same name"),
        ({"columns": {"a": categorical("b=c"), "a=b": categorical("c")}}, "same name"),
        ({"columns": {"c": categorical(*range(MAX_FEATURES + 1))}}, "more than 8191"),
        ({"columns": {"c": numeric()}, "radius": 0}, "radius"),
        ({"columns": {"c": numeric()}, "radius": float("inf")}, "radius"),
        ({"columns": {"c": numeric()}, "intercept": 1.5}, "intercept"),
        ({"columns": {"c": numeric()}, "intercept": float("nan")}, "intercept"),
        (
            {"columns": {"c": numeric()}, "unit": {"column": "c", "type": "text", "max_rows": 1}},
            "person id",
        ),
        (
            {"columns": {"c": numeric()}, "unit": {"column": "p", "type": "text", "max_rows": 0}},
            "max_rows",
        ),
        (
            {
                "columns": {"c": numeric()},
                "unit": {"column": "p", "type": "text", "max_rows": 1},
                "file": {"header": False},
            },
            "without a header",
        ),
        ({"columns": {"c": numeric()}, "file": {"separator": ";;"}}, "file.separator"),
        ({"columns": {"c": numeric()}, "file": {"separator": '"'}}, "one ASCII character"),
        ({"columns": {"c": numeric()}, "file": {"comment": "\n"}}, "one ASCII character"),
        ({"columns": {"c": numeric()}, "file": {"comment": "##"}}, "file.comment"),
        ({"columns": {"c": numeric()}, "file": {"comment": ""}}, "file.comment"),
        ({"columns": {"c": numeric()}, "file": {"separator": ""}}, "file.separator"),
        ({"columns": {"c": numeric()}, "radius": 1e-100}, "radius"),
        ({"columns": {"c": numeric()}, "radius": 1e100}, "radius"),
        ({"columns": {"c": numeric()}, "weight": {"column": "w", "maximum": 1e-100}}, "maximum"),
        ({"columns": {"c": numeric()}, "weight": {"column": "w", "maximum": 1e100}}, "maximum"),
        ({"columns": {"c": numeric()}, "intercept": -1e-9}, "intercept"),
        (
            {
                "columns": {"c": numeric()},
                "unit": {"column": "p", "type": "text", "max_rows": 2**20 + 1},
            },
            "max_rows",
        ),
        ({"columns": {"c": numeric()}, "file": {"skip_lines": -1}}, "file.skip_lines"),
    ],
)
def test_a_fault_is_named_in_one_sentence(document, words):
    with pytest.raises(SchemaError) as caught:
        Schema.parse(document)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "pydantic" not in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"radius": 1.5e-100},
        {"radius": 0.9e100},
        {"intercept": 0.0},
        {"intercept": 1.0},
        {"weight": {"column": "w", "maximum": 1.5e-100}},
        {"weight": {"column": "w", "maximum": 0.9e100}},
        {"unit": {"column": "p", "type": "text", "max_rows": 1}},
        {"unit": {"column": "p", "type": "text", "max_rows": 2**20}},
        {"file": {"skip_lines": 0, "separator": ";", "comment": "#"}},
    ],
    ids=str,
)
def test_what_is_just_within_its_range_is_accepted(fields):
    assert isinstance(one(numeric(), **fields), Schema)


def test_as_many_features_as_integers_are_exact_for_are_accepted():
    assert MAX_FEATURES * 2**40 < 2**53 <= (MAX_FEATURES + 1) * 2**40
    assert len(one(categorical(*range(MAX_FEATURES))).features) == MAX_FEATURES


def test_a_coordinate_is_the_value_about_the_midpoint_over_the_half_range():
    feature = one(numeric(2.0, 10.0)).features[0]
    assert (feature.center, feature.scale) == (6.0, 4.0)
    indicator = one({"kind": "categorical", "levels": ["x"]}).features
    assert [(f.name, f.center, f.scale) for f in indicator] == [("c=x", 0.0, 1.0)]


def test_what_is_left_out_is_the_safe_choice():
    schema = one(numeric())
    assert (schema.intercept, schema.missing, schema.file) == (0.3, ("",), FileOptions())
    options = FileOptions()
    assert (options.header, options.separator, options.skip_lines) == (True, ",", 0)
    assert (options.comment, options.quote, options.compression) == (None, True, "auto")


def test_a_schema_is_frozen_and_its_errors_hide_their_input():
    schema = one(numeric())
    for part in (schema, schema.columns["c"], schema.file):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(part, next(iter(type(part).model_fields)), 1)
    with pytest.raises(ValidationError) as caught:
        Numeric.model_validate({"lower": "planted-secret", "upper": 1})
    assert "planted-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file"),
        (b"\xff\xfe", "not UTF-8"),
        (b"a = ", "not valid TOML"),
        (b"[columns.c]\nkind = 'numeric'\nlower = 1\nupper = 0", "Set lower below upper"),
    ],
)
def test_a_schema_file_with_a_fault_is_named(tmp_path, content, words):
    path = tmp_path / "s.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SchemaError, match=words) as caught:
        Schema.load(path)
    assert "s.toml" in str(caught.value)


def test_bounds_are_one_number_or_one_for_each_column():
    assert Schema.from_bounds([0, 1], 5, ["a", "b"]).columns["b"].lower == 1
    for bounds in ([0, 1, 2], "auto", None, ["a", "b"]):
        with pytest.raises(SchemaError, match="one number for each of 2 columns"):
            Schema.from_bounds(bounds, 5, ["a", "b"])
    with pytest.raises(SchemaError, match="same name"):
        Schema.from_bounds(0, 1, ["a", "a"])


@pytest.mark.parametrize(
    ("level", "text"),
    [(True, "true"), (False, "false"), (1, "1"), (1.0, "1"), (1.5, "1.5"), (" a ", "a")],
)
def test_the_text_of_a_level(level, text):
    assert level_text(level) == text


COMPLETED = {"# lower =": "lower = 0", "# upper =": "upper = 1", "# levels = []": "levels = ['a']"}
COMPLETED |= {"# missing =": 'missing = "none"'}
SEEN = st.characters(codec="utf-8", exclude_categories=INVISIBLE_CATEGORIES)
NAMES = st.text(SEEN, min_size=1, max_size=12).map(str.strip).filter(bool)


def completed(text: str) -> Schema:
    """Return a draft with its blanks filled in, as a person would."""
    for blank, filled in COMPLETED.items():
        text = text.replace(f"\n{blank}", f"\n{filled}")
    return Schema.parse(tomllib.loads(text))


@given(
    st.dictionaries(
        NAMES, st.sampled_from(["number", "integer", "flag", "categorical"]), min_size=1, max_size=5
    )
)
def test_a_draft_keeps_odd_names_and_can_be_completed(kinds):
    schema = completed(draft(kinds, FileOptions()))
    assert {name: column.kind for name, column in schema.columns.items()} == kinds


@pytest.mark.parametrize(
    "options",
    [
        {"header": False, "separator": "\t", "skip_lines": 2},
        {"comment": "#", "quote": "'", "encoding": "latin-1", "decimal": ",", "thousands": "."},
        {"quote": False, "records": "lines", "max_record_lines": 7, "thousands": "\u202f"},
    ],
)
def test_a_draft_keeps_the_file_options(options):
    checked = FileOptions.checked(**options)
    assert completed(draft({"a": "number"}, checked)).file == checked


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quote": ";", "separator": ";"}, "quote must differ"),
        ({"quote": "''"}, "must be true, false or one ASCII character"),
        ({"decimal": ",", "thousands": ","}, "decimal and thousands must differ"),
        ({"header": False, "comment": "#"}, "skip_lines"),
        ({"encoding": "utf-7"}, "Convert the file to utf-8"),
        ({"encoding": "utf-11"}, "not an encoding that Python knows"),
        ({"max_record_lines": 0}, "max_record_lines: must be at least 1"),
        ({"records": "rows"}, "'quoted' or 'lines'"),
    ],
)
def test_file_options_that_contradict_each_other_are_refused(options, words):
    with pytest.raises(SchemaError, match=words):
        FileOptions.checked(**options)


def test_a_draft_of_a_text_file_leaves_kinds_to_a_person():
    text = draft({"a": "unknown", "b": "unknown"}, FileOptions())
    assert "first record" in text
    assert "--no-header --columns N" in text
    assert "first record" not in draft({"a": "unknown"}, FileOptions(header=False))
    assert "first record" not in draft({"a": "number"}, FileOptions())
    with pytest.raises(
        SchemaError, match=r"Not filled in yet: columns\.a\.kind, columns\.b\.kind\."
    ):
        Schema.parse(tomllib.loads(text))
    stated = text.replace('# kind = "number"\n# lower =\n# upper =\n', 'kind = "ignored"\n', 1)
    stated = stated.replace("\n# kind =", "\nkind =").replace("# lower =", "lower = 0")
    stated = stated.replace("# numbers =", 'numbers = "none"').replace("# [defaults", "[defaults")
    made = Schema.parse(tomllib.loads(stated.replace("# upper =", "upper = 1")))
    assert [column.kind for column in made.columns.values()] == ["ignored", "number"]


def test_a_draft_is_no_schema_until_bounds_are_declared():
    with pytest.raises(
        SchemaError, match=r"a\.lower, columns\.a\.upper, columns\.a\.missing\. Declare them from"
    ):
        Schema.parse(tomllib.loads(draft({"a": "number"}, FileOptions())))


def test_indicators_are_distinguished_from_numbers():
    schema = Schema.parse(
        {
            "columns": {
                "age": {"kind": "numeric", "lower": 0, "upper": 1, "missing": "level"},
                "sex": {"kind": "categorical", "levels": ["f", "m"]},
            }
        }
    )
    assert [feature.is_indicator for feature in schema.features] == [False, True, True, True]
