"""What a missing cell means: version 3 of schemas requires it; former ones stay as they were."""

from __future__ import annotations

import itertools
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import dpcov
from dpcov import cli
from dpcov.cli.check import _sentences
from dpcov.cli.drafts import draft
from dpcov.cli.questions import Interview
from dpcov.errors import DpcovError, EstimatorError, SchemaError, SourceError
from dpcov.estimators import PrivateCovariance, PrivateRidge
from dpcov.rows.encoder import Encoder
from dpcov.rows.missing import RULES, UnstatedMissingWarning, group_of
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import FileOptions, Schema
from dpcov.rows.sources.check import diagnose
from dpcov.rows.sources.partial import PartialMoment

LEVELS = {"kind": "categorical", "levels": ["m", "f"]}
KINDS = {
    "number": {"lower": -3, "upper": 9},
    "integer": {"lower": 0, "upper": 9},
    "count": {"upper": 9},
    "flag": {},
    "date": {"lower": "2000-01-01", "upper": "2020-01-01"},
    "time": {"lower": "2000-01-01", "upper": "2020-01-01"},
    "categorical": {"levels": ["m", "f"]},
}
CELLS = {
    "number": ["1.5", "", "x", "NA", "-2"],
    "integer": ["1", "", "2.5", "NA", "2"],
    "count": ["1", "", "2.5", "NA", "2"],
    "flag": ["1", "", "yes", "NA", "0"],
    "date": ["2010-05-06", "", "x", "NA", "2001-01-01"],
    "time": ["2010-05-06T12:00", "", "x", "NA", "2001-01-01"],
    "categorical": ["m", "", "z", "NA", "f"],
}
CODES = ["", "NA"]
DEFAULT = {"numbers": "midpoint", "categories": "zeros"}


def column(kind: str, rule: str | None = None) -> dict[str, object]:
    """Return a column of this kind; of no rule, without `missing`."""
    more = {"other": True} if rule == "other" else {}
    return {"kind": kind, **KINDS[kind], **({} if rule is None else {"missing": rule}), **more}


def schema_of(version: int, declared: dict[str, object], **fields: object) -> Schema:
    return Schema.parse({"version": version, "missing": CODES, "columns": declared, **fields})


def encoded(schema: Schema) -> np.ndarray:
    table = pa.table({name: CELLS[one.kind] for name, one in schema.columns.items()})
    (batch,) = table.to_batches()
    blocks = [block.copy() for block in Encoder(schema, Lattice.of(schema)).blocks(batch)]
    return np.concatenate(blocks, axis=1)


def all_rules(*but: str) -> list[tuple[str, str]]:
    return [(k, rule) for k in KINDS for rule in RULES[group_of(k) or "numbers"] if rule not in but]


def test_every_kind_has_a_group_and_the_ignored_none():
    assert [group_of(kind) for kind in KINDS] == ["numbers"] * 6 + ["categories"]
    assert group_of("ignored") is None
    assert set(KINDS) == set(cli.drafts.COLUMN_MODELS) - {"numeric", "ignored"}


@pytest.mark.parametrize(("kind", "rule"), all_rules("none"))
def test_each_rule_encodes_as_in_version_2(kind, rule):
    new, old = (schema_of(version, {"a": column(kind, rule)}) for version in (3, 2))
    assert np.array_equal(encoded(new), encoded(old))


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_cell_that_none_promised_away_is_encoded_as_by_default(kind):
    promised = schema_of(3, {"a": column(kind, "none")})
    default = schema_of(2, {"a": column(kind)})
    assert np.array_equal(encoded(promised), encoded(default))
    assert not encoded(promised)[: len(promised.features), 1].any()
    assert promised.features == default.features
    assert not promised.missing_columns
    other = schema_of(3, {"a": column(kind, "level")})  # control: another rule, another row
    assert encoded(other)[: len(other.features), 1].any()


def test_categories_without_missing_cells_are_not_taken_to_be_full():
    whole = schema_of(3, {"a": LEVELS | {"other": True, "missing": "none"}}).columns["a"]
    level = schema_of(3, {"a": LEVELS | {"other": True, "missing": "level"}}).columns["a"]
    assert (whole.is_full, level.is_full) == (False, True)


def test_derived_columns_follow_their_parents():
    derived = {"d": {"product": ["a", "b"]}}
    for one, other in itertools.product(RULES["numbers"], repeat=2):
        declared = {"a": column("number", one), "b": column("flag", other)}
        found = schema_of(3, declared, derived=derived).encoded_columns["d"].missing
        expected = "none" if one == other == "none" else "midpoint"
        assert found == ("pairwise" if "pairwise" in (one, other) else expected)


# Where the rule is stated.


@pytest.mark.parametrize("kind", KINDS)
def test_version_3_refuses_a_column_without_a_rule_and_gives_the_line(kind):
    with pytest.raises(SchemaError) as caught:
        schema_of(3, {"a b": column(kind), "b": {"kind": "ignored"}})
    group = group_of(kind)
    said = str(caught.value)
    assert said.startswith("a b: version 3 needs a rule for missing cells. Add missing = ")
    assert all(f'"{rule}"' in said for rule in RULES[group])
    assert f"({group})" in said
    assert "[defaults.missing]" in said
    assert said.count(". ") == 1
    schema_of(2, {"a b": column(kind)})  # control


def test_the_refusal_names_both_groups_and_not_every_column():
    declared = {f"x{j}": column("flag") for j in range(9)} | {"c": column("categorical")}
    with pytest.raises(SchemaError, match="x4 and 5 more") as caught:
        schema_of(3, declared)
    assert "(numbers); missing =" in str(caught.value)
    assert "(categories)" in str(caught.value)


@pytest.mark.parametrize("rule", RULES["numbers"])
def test_defaults_hold_for_their_group_and_a_column_overrides_them(rule):
    declared = {kind: column(kind) for kind in KINDS}
    declared["own"] = column("number", "level")
    defaults = {"missing": {"numbers": rule, "categories": "level"}}
    made = schema_of(3, declared, defaults=defaults)
    rules = {name: one.missing for name, one in made.columns.items()}
    assert rules == dict.fromkeys(KINDS, rule) | {"categorical": "level", "own": "level"}
    explicit = {name: column(name, rules[name]) for name in KINDS} | {"own": declared["own"]}
    assert made.features == schema_of(3, explicit).features
    again = Schema.parse(made.model_dump(mode="json"))
    assert again == made


def test_a_default_of_one_group_leaves_the_other_open():
    with pytest.raises(SchemaError, match=r"^c: version 3"):
        schema_of(
            3,
            {"a": column("flag"), "c": column("categorical")},
            defaults={"missing": {"numbers": "none"}},
        )


@pytest.mark.parametrize(
    ("version", "fields", "words"),
    [
        (3, {"defaults": {"missing": {"numbers": "zeros"}}}, r"^defaults.missing.numbers: must be"),
        (3, {"defaults": {"missing": "none"}}, r"^defaults.missing: "),
        (3, {"defaults": "none"}, r"^defaults: "),
        (3, {"defaults": {"other": {}}}, r"^defaults.other: "),
        (2, {"defaults": {"missing": {"numbers": "none"}}}, "defaults need version = 3"),
    ],
)
def test_faults_of_defaults_are_named(version, fields, words):
    with pytest.raises(SchemaError, match=words):
        schema_of(version, {"a": column("flag")}, **fields)


@pytest.mark.parametrize("version", [1, 2])
def test_former_versions_know_no_promise_and_no_defaults(version):
    kind = {"kind": "numeric", "lower": 0, "upper": 1} if version == 1 else {"kind": "flag"}
    with pytest.raises(SchemaError, match=r'columns.a: missing = "none" needs version = 3'):
        schema_of(version, {"a": kind | {"missing": "none"}})
    written = schema_of(version, {"a": kind}).model_dump()
    assert "defaults" not in written
    assert written["columns"]["a"]["missing"] == "midpoint"


def test_declared_columns_are_taken_as_they_are():
    parsed = schema_of(3, {"a": column("date", "level"), "c": column("categorical", "zeros")})
    assert Schema.parse({"version": 3, "missing": CODES, "columns": parsed.columns}) == parsed
    unstated = schema_of(2, {"a": column("date")}).columns
    with pytest.raises(SchemaError, match="a: version 3 needs"):
        Schema.parse({"version": 3, "columns": unstated})


# Notices.

V1 = '[columns.age]\nkind = "numeric"\nlower = 0\nupper = 120\n'
TOML = 'version = {}\n[columns.age]\nkind = "number"\nlower = 0\nupper = 120\n'


def test_version_2_gets_a_notice_from_the_schema_alone(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(TOML.format(2))
    with pytest.warns(
        UnstatedMissingWarning, match="rule for missing cells in age: missing numbers count"
    ):
        Schema.load(path)
    said = []
    for cells in ([1.0, 2.0, None], [1.0, 2.0, 3.0]):
        with pytest.warns(UnstatedMissingWarning) as caught:
            dpcov.release(pa.table({"age": cells}), schema=path, epsilon=1.0, seed=1)
        said.append([str(one.message) for one in caught])
    assert said[0] == said[1]
    assert len(said[0]) == 1


@pytest.mark.parametrize(
    "text",
    [
        TOML.format(2) + 'missing = "midpoint"',
        TOML.format(2) + 'missing = "level"\n[columns.b]\nkind = "ignored"',
        TOML.format(3) + 'missing = "none"',
        V1,
    ],
)
def test_control_what_is_stated_gets_none(tmp_path, text):
    (tmp_path / "s.toml").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Schema.load(tmp_path / "s.toml")


# A broken promise.


def release_of(cells: list[str], rule: str, folder: Path) -> tuple[str, dpcov.Release]:
    """Return what the command says, and the release."""
    (folder / "t.csv").write_text("\n".join(["age", *cells, ""]))
    text = TOML.format(3) + f'missing = "{rule}"\n'
    (folder / "s.toml").write_text('missing = ["", "NA"]\n' + text)
    asked = ["release", "t.csv", "--schema", "s.toml", "--epsilon", "1", "--seed", "1"]
    done = CliRunner().invoke(cli.app, [*asked, "--out", "r.json", "--force"])
    assert done.exit_code == 0
    return done.output, dpcov.load(folder / "r.json")


def test_a_broken_promise_changes_no_outcome_no_message_and_no_warning(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = [str(age) for age in range(20, 70)] * 4
    gaps = ["NA", "x", ""] * 10 + whole[30:]
    said, made = release_of(gaps, "none", tmp_path)
    assert said == release_of(whole, "none", tmp_path)[0]
    midpoint = release_of(gaps, "midpoint", tmp_path)[1]
    assert np.array_equal(made.published, midpoint.published)
    assert made.columns == midpoint.columns
    assert made.schema.columns["age"].missing == "none"
    pairwise = release_of(gaps, "pairwise", tmp_path)[1]  # control
    assert pairwise.published.shape != made.published.shape


@pytest.mark.parametrize(
    ("cells", "kind", "is_untrue"),
    [
        (["1", "", "1"], "number", True),
        (["1", "x", "1"], "number", True),
        (["1", "2", "1"], "number", False),
        (["m", "NA", "f"], "categorical", True),
        (["m", "z", "f"], "categorical", False),  # an undeclared value is not missing
    ],
)
def test_check_alone_reports_a_broken_promise(cells, kind, is_untrue):
    for rule in ("none", "level"):
        schema = schema_of(3, {"a": column(kind, rule)})
        said = " ".join(_sentences(diagnose(pa.table({"a": cells}), schema), schema))
        assert ("promises" in said) == (is_untrue and rule == "none")


# Releases and sums.


def test_a_release_with_version_3_is_saved_and_loaded(tmp_path):
    declared = {"a": column("number"), "b": column("number", "none"), "c": column("categorical")}
    defaults = {"missing": {"numbers": "pairwise", "categories": "level"}}
    schema = schema_of(3, declared, defaults=defaults)
    table = pa.table({"a": [1.0, None] * 50, "b": [2.0] * 100, "c": ["m", None] * 50})
    made = dpcov.release(table, schema=schema, epsilon=1.0, seed=1)
    made.save(tmp_path / "r.json")
    again = dpcov.load(tmp_path / "r.json")
    assert again.schema == made.schema == schema
    assert again.columns == ("a", "b", "c=m", "c=f", "c=(missing)")


def test_sums_by_a_default_and_by_each_column_are_added():
    table = pa.table({"a": [1.0, None, 3.0]})
    once = schema_of(3, {"a": column("number")}, defaults={"missing": {"numbers": "level"}})
    each = schema_of(3, {"a": column("number", "level")})
    one, other = PartialMoment.of(table[:2], once), PartialMoment.of(table[2:], each)
    assert one.merged(other).rows == 3
    with pytest.raises(SourceError):  # control
        one.merged(PartialMoment.of(table[2:], schema_of(3, {"a": column("number", "none")})))


# Drafts, the interview, and migration.

TYPES = {"age": "number", "sex": "categorical", "note": "unknown", "ok": "flag"}


def test_a_draft_is_toml_that_says_what_a_person_must_decide():
    text = draft(TYPES, FileOptions())
    document = tomllib.loads(text)
    assert document["version"] == 3
    assert "defaults" not in document
    with pytest.raises(SchemaError, match=r"columns\.age\.missing, .*columns\.ok\.missing"):
        Schema.parse(document)
    for rule in {*RULES["numbers"], *RULES["categories"]}:
        assert f'"{rule}"' in text
    filled = text.replace("# [defaults", "[defaults").replace("# numbers =", 'numbers = "none"')
    filled = filled.replace("# categories =", 'categories = "zeros"')
    filled = filled.replace('# kind = "number"', 'kind = "ignored"').replace(
        "# levels = []", 'levels = ["m"]', 1
    )
    filled = filled.replace("# lower =", "lower = 0", 1).replace("# upper =", "upper = 9", 1)
    made = Schema.parse(tomllib.loads(filled))
    assert [one.missing for one in made.encoded_columns.values()] == ["none", "zeros", "none"]


def asked(*answers: str, types=TYPES):
    remaining, said = iter(answers), []
    found = Interview(
        types, FileOptions(), cli.drafts.Stated(), lambda _: next(remaining), said.append
    ).run()
    assert next(remaining, None) is None
    return found, "\n".join(said)


def test_the_interview_asks_once_for_each_column_and_offers_the_last_answer_of_the_group():
    found, said = asked(
        *("age", "maybe", "l", "", "c", "m, f", "other", ""),  # "": no further missing codes
        *("c", "x, y", "", "", "flag", "", "", "yes"),
    )
    text = draft(TYPES, FileOptions(), found)
    made = Schema.parse(tomllib.loads(text))
    assert made.version == 3
    rules = [(one.kind, one.missing) for one in made.columns.values()]
    assert rules == [
        ("number", "level"), ("categorical", "other"), ("categorical", "other"), ("flag", "level"),
    ]  # fmt: skip
    assert made.columns["note"].other
    assert "[defaults.missing]" not in text
    assert said.count("leave the cell out of") == said.count("count the cell as none of") == 1
    assert "numbers from 0 to 120; missing cells: level" in said


def test_back_from_the_question_on_missing_cells_asks_for_the_column_again():
    found, _ = asked("age", "back", "flag", "none", "done", "yes")
    assert found.columns["age"] == {"kind": "flag", "missing": "none"}


@pytest.mark.parametrize("version", [1, 2])
def test_migration_states_the_rules_of_before(tmp_path, monkeypatch, version):
    monkeypatch.chdir(tmp_path)
    kind = "numeric" if version == 1 else "number"
    text = f"version = {version}\n" * (version == 2) + (
        f'missing = ["", "NA"]\n[columns.a]\nkind = "{kind}"\nlower = -3\nupper = 9\n[columns.b]\n'
        f'kind = "{kind}" # own\nlower = -3\nupper = 9\nmissing = "level"\n[columns.c]\n'
        'kind = "categorical"\nlevels = ["m", "f"]\n'
    )
    Path("old.toml").write_text(text)
    done = CliRunner().invoke(cli.app, ["schema", "migrate", "old.toml", "--out", "new.toml"])
    assert done.exit_code == 0
    new, old = Schema.load("new.toml"), Schema.parse(tomllib.loads(text))
    assert new.version == 3
    assert [one.missing for one in new.columns.values()] == ["midpoint", "level", "zeros"]
    table = pa.table({"a": CELLS["number"], "b": CELLS["number"], "c": CELLS["categorical"]})
    (batch,) = table.to_batches()
    rows = [next(Encoder(s, Lattice.of(s)).blocks(batch)).copy() for s in (new, old)]
    assert np.array_equal(*rows)
    assert "# own" in Path("new.toml").read_text()
    again = CliRunner().invoke(cli.app, ["schema", "migrate", "new.toml"])
    assert "has version 3 already" in str(again.exception)


# Arrays and estimators.


def gappy(rows: int = 20_000) -> np.ndarray:
    values = np.random.default_rng(3).normal([2.0, 8.0], 1.0, (rows, 2))
    values[::3, 0] = np.nan
    return values


def test_arrays_keep_the_midpoint_and_take_a_rule():
    values = gappy()
    made = {
        rule: dpcov.release(values, lower=0, upper=10, missing=rule, epsilon=10.0, seed=1)
        for rule in (None, "midpoint", "none", "pairwise", "level")
    }
    means = {rule: one.mean()[0] for rule, one in made.items()}
    assert made[None].schema.version == 1
    for rule in ("midpoint", "none"):
        assert np.array_equal(made[rule].published, made[None].published)
    assert means[None] == pytest.approx(3.0, abs=0.1)  # the midpoint moves the mean
    assert means["pairwise"] == pytest.approx(2.0, abs=0.1)
    assert made["level"].columns == ("x0", "x0=(missing)", "x1", "x1=(missing)")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"missing": "zeros", "lower": 0, "upper": 1}, "must be 'none', 'pairwise'"),
        (
            {"missing": "none", "schema": Schema.from_bounds(0, 1, ["x0", "x1"])},
            "Leave out missing",
        ),
    ],
)
def test_a_rule_that_does_not_fit_is_refused(asked, words):
    with pytest.raises(DpcovError, match=words):
        dpcov.release(gappy(9), epsilon=1.0, **asked)


def test_bounds_take_a_rule_or_texts_of_missing_cells():
    assert Schema.from_bounds(0, 1, "ab").missing == ("",)
    assert Schema.from_bounds(0, 1, "ab", missing=["-9"]).missing == ("-9",)
    made = Schema.from_bounds(0, 1, "ab", missing="pairwise")
    assert [one.missing for one in made.columns.values()] == ["pairwise"] * 2
    assert made.missing == ("",)
    with pytest.raises(SchemaError, match="'zeros' is not a rule for numeric columns"):
        Schema.from_bounds(0, 1, "ab", missing="zeros")


def test_estimators_take_a_rule():
    values = gappy()
    request = {"bounds": (0, 10), "epsilon": 10.0, "random_state": 1}
    plain = PrivateCovariance(**request).fit(values)
    for rule in ("midpoint", "none"):
        same = PrivateCovariance(missing=rule, **request).fit(values)
        assert np.array_equal(same.release_.published, plain.release_.published)
    left_out = PrivateCovariance(missing="pairwise", **request).fit(values)
    assert left_out.location_[0] == pytest.approx(2.0, abs=0.1)
    assert left_out.covariance_[0, 0] == pytest.approx(1.0, abs=0.1)
    assert plain.covariance_[0, 0] > 1.5  # control
    model = PrivateRidge(target_bounds=(0, 10), missing="pairwise", **request)
    assert model.fit(values[:, :1], values[:, 1]).coef_.shape == (1,)
    for rule in ("level", "zeros", None):
        with pytest.raises(EstimatorError, match="Choose: midpoint, pairwise, none"):
            PrivateCovariance(missing=rule, **request).fit(values)
