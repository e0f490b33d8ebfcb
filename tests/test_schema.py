"""Schemas: what is accepted, what is refused, and the draft."""

import json
import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov.errors import SchemaError
from dpcov.schema import MAX_FEATURES, FileOptions, Schema, draft, level_text
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
    assert schema.effective_radius == 2.5
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
        ({"columns": {"c": numeric(1, 1)}}, "must be below"),
        ({"columns": {"c": numeric(2, 1)}}, "must be below"),
        ({"columns": {"c": numeric(0, 5e-324)}}, "too close"),
        ({"columns": {"c": numeric(float("nan"), 1)}}, "finite"),
        ({"columns": {"c": numeric(0, float("inf"))}}, "finite"),
        ({"columns": {"c": numeric(typo=1)}}, "c.typo"),
        ({"columns": {"c": categorical()}}, "c.levels"),
        ({"columns": {"c": categorical("a", " a ")}}, "declared twice"),
        ({"columns": {"c": categorical(1, 1.0)}}, "declared twice"),
        ({"columns": {"c": categorical(True, "true")}}, "declared twice"),
        ({"columns": {"c": categorical("(other)", other=True)}}, "same name"),
        ({"columns": {"a": categorical("b=c"), "a=b": categorical("c")}}, "same name"),
        ({"columns": {"c": categorical(*range(MAX_FEATURES + 1))}}, "more than 8191"),
        ({"columns": {"c": numeric()}, "radius": 0}, "radius"),
        ({"columns": {"c": numeric()}, "radius": float("inf")}, "radius"),
        ({"columns": {"c": numeric()}, "intercept": 1.5}, "intercept"),
        ({"columns": {"c": numeric()}, "intercept": float("nan")}, "intercept"),
        ({"columns": {"c": numeric()}, "unit": {"column": "c", "max_rows": 1}}, "person id"),
        ({"columns": {"c": numeric()}, "unit": {"column": "p", "max_rows": 0}}, "max_rows"),
        (
            {
                "columns": {"c": numeric()},
                "unit": {"column": "p", "max_rows": 1},
                "file": {"header": False},
            },
            "without a header",
        ),
        ({"columns": {"c": numeric()}, "file": {"separator": ";;"}}, "file.separator"),
        ({"columns": {"c": numeric()}, "file": {"separator": '"'}}, "one ASCII character"),
        ({"columns": {"c": numeric()}, "file": {"comment": "\n"}}, "one ASCII character"),
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
    ("content", "words"),
    [
        (None, "can't be read: No such file"),
        (b"\xff\xfe", "not UTF-8"),
        (b"a = ", "not valid TOML"),
        (b"[columns.c]\nkind = 'numeric'\nlower = 1\nupper = 0", "must be below"),
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
    with pytest.raises(SchemaError, match="one bound for each"):
        Schema.from_bounds([0, 1, 2], 5, ["a", "b"])
    with pytest.raises(SchemaError, match="same name"):
        Schema.from_bounds(0, 1, ["a", "a"])


@pytest.mark.parametrize(
    ("level", "text"),
    [(True, "true"), (False, "false"), (1, "1"), (1.0, "1"), (1.5, "1.5"), (" a ", "a")],
)
def test_the_text_of_a_level(level, text):
    assert level_text(level) == text


COMPLETED = {"# lower =": "lower = 0", "# upper =": "upper = 1", "# levels = []": "levels = ['a']"}
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


def completed(text: str) -> Schema:
    """A draft with its blanks filled in, as a person would."""
    for blank, filled in COMPLETED.items():
        text = text.replace(f"\n{blank}", f"\n{filled}")
    return Schema.parse(tomllib.loads(text))


@given(st.dictionaries(NAMES, st.sampled_from(["numeric", "categorical"]), min_size=1, max_size=5))
def test_a_draft_keeps_odd_names_and_can_be_completed(kinds):
    schema = completed(draft(kinds, FileOptions()))
    assert {name: column.kind for name, column in schema.columns.items()} == kinds


def test_a_draft_keeps_the_file_options():
    options = FileOptions.checked(header=False, separator="\t", comment="#", skip_lines=2)
    assert completed(draft({"a": "numeric"}, options)).file == options


def test_a_draft_is_no_schema_until_bounds_are_declared():
    with pytest.raises(
        SchemaError, match=r"a\.lower, columns\.a\.upper\. Declare them from public"
    ):
        Schema.parse(tomllib.loads(draft({"a": "numeric"}, FileOptions())))
