"""Metadata of others: what is taken from them, and the one sentence that wrong ones get."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from dpcov.cli import metadata
from dpcov.cli.drafts import Stated, draft
from dpcov.errors import SchemaError
from dpcov.rows.schema import FileOptions, PersonUnit, Schema

FRICTIONLESS = {
    "missingValues": ["", {"value": "-", "label": "refused"}],
    "fields": [
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}},
        {"name": "sex", "constraints": {"required": True, "enum": ["F", "M"]}},
        {"name": "income", "type": "number", "constraints": {"minimum": "0.5"}},
        {"name": "smoker", "type": "boolean", "trueValues": ["Y"], "falseValues": ["N"]},
        {"name": "visits", "type": "integer", "categories": [{"value": 1, "label": "one"}, 2]},
        {"name": "note", "type": "string"},
        {"name": "patient", "type": "date", "constraints": {"minimum": "2020-01-01"}},
        {"name": "elsewhere", "type": "number"},
    ],
}
DDI = """<codeBook xmlns="ddi:codebook:2_5"><dataDscr>

<var name="age" intrvl="contin" dcml="0"><valrng><range min="0" max="120"/></valrng>
 <invalrng><item VALUE="999"/></invalrng><sumStat type="max">97.125</sumStat></var>
<var name="sex" intrvl="discrete"><catgry><catValu>1</catValu><labl>male</labl>
 <catStat type="freq">12345</catStat></catgry><catgry><catValu> 2 </catValu></catgry>
 <catgry missing="Y"><catValu>9</catValu></catgry></var>
<var name="income" intrvl="contin"><valrng><range minExclusive="0.5"/></valrng>
 <catgry><catValu>0</catValu><labl>none</labl></catgry></var>
<var name="note"><varFormat type="character"/></var>
<var name="elsewhere"/>
</dataDscr></codeBook>"""
NAMES = ("age", "sex", "income", "smoker", "visits", "note", "patient")
CSVW = {
    "@context": "http://www.w3.org/ns/csvw",
    "url": "https://example.org/people.csv",
    "null": ["", "NA"],
    "tableSchema": {
        "columns": [
            {"titles": "age", "datatype": {"base": "integer", "minimum": 0, "maximum": "120"}},
            {"name": "sex", "datatype": {"base": "string", "format": "^(F|M|other\\.)$"}},
            {"titles": {"de": "Lohn", "en": ["income"]}, "datatype": {"minInclusive": "0",
             "base": "decimal", "maxExclusive": 2e5}},
            {"name": "smoker", "datatype": {"base": "boolean", "format": "Y|N"}},
            {"name": "visits", "datatype": "nonNegativeInteger", "null": "-9"},
            {"name": "note"},
            {"name": "patient", "datatype": {"base": "date", "minimum": "2020-01-01"}},
            {"name": "elsewhere", "datatype": "double"},
            {"name": "income", "virtual": True, "datatype": "string"},
        ]
    },
}  # fmt: skip
SMARTNOISE = {
    "": {
        "clinic": {
            "people": {
                "rows": 12345,
                "max_ids": 3,
                "row_privacy": False,
                "patient": {"type": "int", "private_id": True},
                "age": {"type": "int", "lower": 0, "upper": 120},
                "income": {"type": "float", "lower": 0.5},
                "smoker": {"type": "boolean"},
                "sex": {"type": "string", "cardinality": 2},
                "visits": {"type": "datetime"},
            }
        }
    }
}


def read(tmp_path: Path, document: object, table: str = "people.csv", names=NAMES) -> Stated:
    path = tmp_path / "meta.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return metadata.read(path, table, names)


def test_csvw_gives_bounds_levels_and_missing_texts(tmp_path) -> None:
    stated = read(tmp_path, CSVW)
    assert stated.columns == {
        "age": {"kind": "integer", "lower": 0.0, "upper": 120.0},
        "sex": {"kind": "categorical", "levels": ["F", "M", "other."]},
        "income": {"kind": "number", "lower": 0.0, "upper": 2e5},
        "smoker": {"kind": "categorical", "levels": ["Y", "N"]},
        "visits": {"kind": "integer", "lower": 0.0},
        "note": {"kind": "categorical"},
    }
    assert stated.missing == ("", "NA", "-9")
    assert stated.unit is None


def test_csvw_inherits_from_the_table_and_the_group(tmp_path) -> None:
    group = {
        "datatype": {"base": "number", "minimum": -1, "maximum": 1},
        "tables": [
            {"url": "other.csv", "tableSchema": {"columns": [{"name": "age"}]}},
            {"url": "x/people.csv", "null": "?", "tableSchema": {"columns": {"name": "income"}}},
        ],
    }
    stated = read(tmp_path, group)
    assert stated.columns == {"income": {"kind": "number", "lower": -1.0, "upper": 1.0}}
    assert stated.missing == ("?",)
    with pytest.raises(SchemaError, match="2 tables, but not exactly one named 'staff'"):
        read(tmp_path, group, "staff.csv")


def test_two_tables_of_one_name_are_not_guessed_between(tmp_path) -> None:
    table = {"age": {"type": "int", "lower": 0, "upper": 1}}
    with pytest.raises(SchemaError, match="2 tables, but not exactly one"):
        read(tmp_path, {"a.csv": {"s": {"people.csv": table, "PEOPLE.tsv": table}}})
    found = read(tmp_path, {"a": {"s": {"people": table, "staff": table}}})
    assert list(found.columns) == ["age"]


@pytest.mark.parametrize("form", ["[A-Z]+", "(a|b)*", "a", "a.c|d", "(a|b", None, 7])
def test_a_format_that_is_no_list_of_alternatives_leaves_levels_open(tmp_path, form) -> None:
    column = {"name": "sex", "datatype": {"base": "string", "format": form}}
    stated = read(tmp_path, {"tableSchema": {"columns": [column]}})
    expected = {"kind": "categorical"}
    if form == "(a|b":  # lenient: no regular expression, but the alternatives are clear
        expected["levels"] = ["a", "b"]
    assert stated.columns["sex"] == expected


def test_smartnoise_gives_bounds_and_the_person(tmp_path) -> None:
    stated = read(tmp_path, SMARTNOISE)
    assert stated.columns == {
        "patient": {"kind": "ignored"},
        "age": {"kind": "integer", "lower": 0.0, "upper": 120.0},
        "income": {"kind": "number", "lower": 0.5},
        "smoker": {"kind": "flag"},
        "sex": {"kind": "categorical"},
    }
    assert stated.unit == PersonUnit(column="patient", max_rows=3)
    assert stated.hints == {"sex": "the metadata state 2 levels"}


def test_smartnoise_rows_are_protected_where_it_says_so(tmp_path) -> None:
    table = SMARTNOISE[""]["clinic"]["people"] | {"row_privacy": True}
    assert read(tmp_path, {"": {"clinic": {"people": table}}}).unit is None


@pytest.mark.parametrize("packed", [False, True])
def test_frictionless_gives_bounds_levels_and_missing_texts(tmp_path, packed) -> None:
    other = {"path": "data/staff.csv", "schema": {"fields": [{"name": "age"}]}}
    own = {"path": "data/people.csv", "schema": FRICTIONLESS}
    stated = read(tmp_path, {"resources": [other, own]} if packed else FRICTIONLESS)
    assert stated.columns == {
        "age": {"kind": "integer", "lower": 0.0, "upper": 120.0},
        "sex": {"kind": "categorical", "levels": ["F", "M"]},
        "income": {"kind": "number", "lower": 0.5},
        "smoker": {"kind": "categorical", "levels": ["Y", "N"]},
        "visits": {"kind": "categorical", "levels": [1, 2]},
        "note": {"kind": "categorical"},
    }
    assert stated.missing == ("", "-")


def test_ddi_gives_bounds_and_levels_and_proposes_each_variable_s_missing_codes(tmp_path) -> None:
    (path := tmp_path / "people.xml").write_text(DDI)
    stated = metadata.read(path, "people.csv", NAMES)
    assert stated.columns == {
        "age": {"kind": "integer", "lower": 0.0, "upper": 120.0},
        "sex": {"kind": "categorical", "levels": ["1", "2"]},
        "income": {"kind": "number", "lower": 0.5},
        "note": {"kind": "categorical"},
    }
    assert stated.codes == {"age": [("999", "999")], "sex": [("9", "9")]}
    text = draft(dict.fromkeys(("age", "sex"), "unknown"), FileOptions(), stated)
    assert '# missing = ["", "NA", "9", "999"]' in text  # of all columns: a person must check them
    assert "# The file declares as missing: 9\n" in text
    assert not [number for number in ("97.125", "12345") if number in text]  # made from rows


def test_a_code_book_that_is_none_or_declares_entities_is_refused(tmp_path) -> None:
    for content, words in (
        ("<codeBook", "are not valid XML"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]>" + DDI, "are not valid XML"),
        ("<codeBook/>", "name no column"),
        (DDI.replace('max="120"', 'max="old"'), "Column 'age': a bound is not a finite number"),
    ):
        (path := tmp_path / "people.xml").write_text(content)
        with pytest.raises(SchemaError, match=words):
            metadata.read(path, "people.csv", NAMES)


def test_the_number_of_rows_never_reaches_a_draft(tmp_path) -> None:
    kinds = dict.fromkeys(NAMES, "number")
    assert "12345" not in draft(kinds, FileOptions(), read(tmp_path, SMARTNOISE))


def test_yaml_is_read_as_its_json_is(tmp_path) -> None:
    yaml = pytest.importorskip("yaml", reason="metadata in YAML need PyYAML")
    path = tmp_path / "meta.yaml"
    path.write_text(yaml.safe_dump(SMARTNOISE))
    assert metadata.read(path, "people.csv", NAMES) == read(tmp_path, SMARTNOISE)
    path.write_text("a: [")
    with pytest.raises(SchemaError, match="not valid YAML"):
        metadata.read(path, "people.csv", NAMES)
    path.write_text("!!python/object/apply:os.system ['true']")
    with pytest.raises(SchemaError, match="not valid YAML"):
        metadata.read(path, "people.csv", NAMES)
    path.write_text("a: {b: {c: {no: {type: int}}}}")
    with pytest.raises(SchemaError, match=r"not a text\. Put the name in quotes"):
        metadata.read(path, "people.csv", NAMES)


def test_without_pyyaml_yaml_says_what_to_do(tmp_path, monkeypatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(metadata, "import_module", absent)
    path = tmp_path / "meta.yml"
    path.write_text("a: 1")
    with pytest.raises(SchemaError, match=r"YAML metadata need PyYAML.*JSON.* install .pyyaml"):
        metadata.read(path, "people.csv", NAMES)


def smartnoise(**columns: object) -> dict[str, object]:
    return {"": {"s": {"people": columns}}}


def csvw(**datatype: object) -> dict[str, object]:
    return {"tableSchema": {"columns": [{"name": "age", "datatype": datatype}]}}


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ("{", "are not valid JSON (line 1)"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "none of CSV on the Web"),
        ({"a": 1}, "none of CSV on the Web"),
        ({"tableSchema": "people.json"}, "does not load one from an address"),
        ({"resources": [{"name": "a", "schema": "s.json"}]}, "does not load one from"),
        ({"fields": ["age"]}, "Each field and its constraints must be objects"),
        ({"fields": [{"name": "age", "constraints": []}]}, "must be objects"),
        ({"tableSchema": {"columns": [{"name": "size"}]}}, "name no column of the table"),
        ({"tableSchema": {"columns": ["age"]}}, "Each column must be an object"),
        (csvw(base="double", minimum=5, maximum=5), "Column 'age': lower is 5, but upper is 5"),
        (csvw(base="double", minimum="low"), "Column 'age': a bound is not a finite number"),
        (csvw(base="double", maximum="1e999"), "not a finite number"),
        (csvw(base="double", maximum=True), "not a finite number"),
        (csvw(base="boolean", format="Y|Y"), "Column 'age': a level is declared twice"),
        ({"tableSchema": {"columns": [{"name": "age", "datatype": 3}]}}, "must be a name or"),
        (smartnoise(age={"type": "int", "lower": 9, "upper": 1}), "lower is 9, but upper is 1"),
        (smartnoise(age={"type": "number"}), "Use int, float, string"),
        (smartnoise(size={"type": "int"}), "name no column of the table"),
        (
            smartnoise(age={"type": "int", "private_id": 1}, sex={"type": "int", "private_id": 1}),
            "Both 'age' and 'sex' are a private_id",
        ),
        (
            smartnoise(age={"type": "int"}, who={"type": "int", "private_id": True}),
            "private_id 'who' is not a column of the table",
        ),
        (smartnoise(max_ids=0, age={"type": "int", "private_id": True}), "max_ids must be"),
    ],
)  # fmt: skip
def test_wrong_metadata_give_one_clear_sentence(tmp_path, document, sentence) -> None:
    with pytest.raises(SchemaError) as caught:
        read(tmp_path, document)
    text = str(caught.value)
    assert sentence in text
    assert text.startswith("The metadata ")
    assert text.endswith(".")
    assert "\n" not in text


def test_a_file_that_is_absent_or_huge_or_no_text_is_refused(tmp_path, monkeypatch) -> None:
    with pytest.raises(SchemaError, match="cannot be read: No such file"):
        metadata.read(tmp_path / "none.json", "people", NAMES)
    (tmp_path / "meta.json").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(SchemaError, match="not UTF-8 text"):
        metadata.read(tmp_path / "meta.json", "people", NAMES)
    monkeypatch.setattr(metadata, "MAX_METADATA_BYTES", 100)
    with pytest.raises(SchemaError, match="larger than"):
        read(tmp_path, CSVW)


def test_a_draft_from_metadata_is_the_schema_that_it_states(tmp_path) -> None:
    kinds = dict.fromkeys(("age", "sex", "income", "smoker"), "number")
    stated = read(tmp_path, CSVW, names=kinds)
    rules = {"defaults": {"missing": {"numbers": "none", "categories": "zeros"}}}
    drafted = tomllib.loads(draft(kinds, FileOptions(separator=";"), stated))
    made = Schema.parse(drafted | rules)
    assert made == Schema.parse(stated.document(FileOptions(separator=";")) | rules)
    assert made.features[0].scale == 60.0
    assert [f.name for f in made.features[1:4]] == ["sex=F", "sex=M", "sex=other."]
    assert made.missing == ("", "NA")
    assert made.file.separator == ";"


def test_gaps_stay_gaps_with_what_is_known_beside_them(tmp_path) -> None:
    kinds = {"age": "number", "sex": "categorical", "income": "number", "size": "number"}
    text = draft(kinds, FileOptions(), read(tmp_path, SMARTNOISE | {}, names=(*kinds, "patient")))
    assert "[columns.sex]  # the metadata state 2 levels\n" in text
    assert 'kind = "categorical"\n# levels = []\n' in text
    assert 'kind = "number"\nlower = 0.5\n# upper =\n' in text
    assert 'kind = "number"\n# lower =\n# upper =\n' in text
    assert '[unit]\ncolumn = "patient"\n# type = "integer"\nmax_rows = 3\n' in text


@pytest.mark.parametrize("value", [0.1, 1e300, -5.0, 1e15 + 1, 5e-324])
def test_bounds_survive_the_file_to_the_last_bit(value: float) -> None:
    stated = Stated({"a": {"kind": "number", "lower": value, "upper": abs(value) * 1.5}})
    made = tomllib.loads(draft({"a": "number"}, FileOptions(), stated))
    assert made["columns"]["a"] == {"kind": "number", "lower": value, "upper": abs(value) * 1.5}


@pytest.mark.parametrize("name", ["a b", 'quote"d', "back\\slash", "new\nline", "é", "", "a.b"])
def test_any_name_and_level_survive_the_file(name: str) -> None:
    stated = Stated({name: {"kind": "categorical", "levels": [name, "other", 3.0, True]}})
    made = tomllib.loads(draft({name: "categorical"}, FileOptions(), stated))
    assert made["columns"] == {name: {"kind": "categorical", "levels": [name, "other", 3, True]}}
