"""The schema assistant, in this process and on a real terminal."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from dpcov import cli
from dpcov.cli.drafts import COLUMN_MODELS, Stated, proposed
from dpcov.cli.questions import CHOICES, MOVES, SCHEMA_EXPLANATION, SHORT_WORDS, Interview, Quit
from dpcov.rows.schema import FileOptions, PersonUnit, Schema
from tables_for_tests import PLANTED, write_people
from terminals import DPCOV, Terminal, terminal, without_escapes

FLAG = {"kind": "flag", "missing": "none"}
KINDS = {"age": "number", "sex": "categorical", "income": "number", "note": "categorical"}
ASKING = ["schema", "people.csv", "--interactive", "--out", "t.toml"]
ANSWERS = ["a", "midpoint", "", "c", "F, M", "zeros", "", "n", "0", "2e5", "", "none", "o", "y"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_people(tmp_path)
    return tmp_path


def run(*answers: str, line: list[str] = ASKING):
    """Give the answers to the questions; the end of them is the end of the input."""
    return CliRunner().invoke(cli.app, line, input="".join(f"{answer}\n" for answer in answers))


def interview(*answers: str, kinds=KINDS, stated: Stated | None = None) -> Stated:
    remaining = iter(answers)
    said: list[str] = []
    found = Interview(
        kinds, FileOptions(), stated or Stated(), lambda _: next(remaining), said.append
    ).run()
    assert next(remaining, None) is None, "an answer that no question asked for"
    return found


def test_answers_become_the_schema() -> None:
    done = run(*ANSWERS)
    assert done.exit_code == 0
    made = Schema.load("t.toml")
    assert made.columns["age"].model_dump() == {
        "kind": "number", "lower": 0.0, "upper": 120.0, "missing": "midpoint",
    }  # fmt: skip
    assert made.columns["sex"].levels == ("F", "M")
    assert (made.columns["income"].lower, made.columns["income"].upper) == (0.0, 2e5)
    assert made.columns["note"].kind == "ignored"
    assert "next: dpcov plan t.toml" in done.output
    release = ["release", "people.csv", "--schema", "t.toml", "--epsilon", "1", "--out", "r.json"]
    assert CliRunner().invoke(cli.app, release).exit_code == 0


def test_it_says_why_bounds_must_not_come_from_the_data() -> None:
    shown = " ".join(run(*ANSWERS).output.split())
    assert SCHEMA_EXPLANATION in shown
    assert "never from the table" in SCHEMA_EXPLANATION
    for word, meaning in (CHOICES | MOVES).items():
        assert word in shown
        assert meaning in shown
    assert shown.index(SCHEMA_EXPLANATION) < shown.index("Column 1 of 4: age")


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_no_value_of_the_data_is_shown_or_suggested(name: str) -> None:
    cells = {"age": [17.25, 93.75], "kind": [PLANTED, f"{PLANTED}2"]}
    frame = pd.DataFrame(cells)
    frame.to_csv(name, index=False) if name.endswith("csv") else frame.to_parquet(name)
    line = [part.replace("people.csv", name) for part in ASKING]
    done = run("why", "nonsense", "a", "n", "c", "x,y", "z", "", "back", "", "", "yes", line=line)
    assert done.exit_code == 0
    for reported in ("17.25", "93.75", "17", "93", PLANTED):
        assert reported not in done.output + Path("t.toml").read_text()


@pytest.mark.parametrize(
    ("word", "bounds"), [("percentage", (0, 100)), ("age", (0, 120)), ("flag", None)]
)
def test_public_defaults_are_offered_by_a_word_or_its_first_letter(word, bounds) -> None:
    for answer in (word, word[0], word.upper(), f" {word} "):
        found = interview(answer, "none", "yes", kinds={"x": "number"})
        expected = bounds and {"kind": "number", "lower": bounds[0], "upper": bounds[1]}
        assert found.columns["x"] == (expected or {"kind": "flag"}) | {"missing": "none"}


def test_dates_and_whole_numbers_have_the_kind_of_their_type_and_bounds() -> None:
    kinds = {"a": "integer", "b": "unknown", "c": "time", "d": "date", "e": "unknown"}
    days = ["1990-01-31", "2000-12-31"]
    answers = ["n", "0", "9", "pairwise", "", "t", "soon", *days, "", "", "time", *days, "", ""]
    answers += ["t", *days[::-1], *days, "", "", "t", "1990-01-31 12:30", "2000-12-31", "", "", "y"]
    found = interview(*answers, kinds=kinds).columns
    assert [found[name]["kind"] for name in kinds] == ["integer", "date", "time", "date", "time"]
    bounds = {"lower": days[0], "upper": days[1]}
    assert found["b"] == {"kind": "date", **bounds, "missing": "pairwise"}
    assert found["e"]["lower"] == "1990-01-31T12:30:00"


def test_the_words_of_the_interview_are_the_kinds_of_the_file() -> None:
    kinds = {*COLUMN_MODELS} - {"numeric"}
    assert kinds == {*CHOICES} - {"percentage", "age", "id"}
    answers = [
        "integer",
        "1",
        "6",
        "none",
        "count",
        "-1",
        "0",
        "9",
        "",
        "number",
        "0",
        "1",
        "",
        "",
        "y",
    ]
    found = interview(*answers, kinds=dict.fromkeys("abc", "unknown")).columns
    assert [one["kind"] for one in found.values()] == ["integer", "count", "number"]
    assert found["b"] == {"kind": "count", "upper": 9.0, "missing": "none"}
    days = ["1990-01-31 12:30", "2000-12-31", "none"]
    answers = [
        "da",
        *days,
        "ca",
        "x",
        "z",
        "",
        "numbers",
        "0",
        "1",
        "",
        "",
        "omit",
        "ig",
        "do",
        "y",
    ]
    found = interview(*answers, kinds=dict.fromkeys("abcdefg", "unknown")).columns
    words = ["date", "categorical", "number", "ignored", "ignored", "ignored", "ignored"]
    assert [one["kind"] for one in found.values()] == words
    assert found["a"]["lower"] == "1990-01-31"


PATIENTS = ["patient", "age", "admitted", "smoker", "diabetic", "crp", "weight", "ward", "note"]
PATIENT_COLUMNS = {
    "patient": {"kind": "ignored"},
    "age": {"kind": "number", "lower": 0.0, "upper": 120.0, "missing": "none"},
    "admitted": {"kind": "date", "lower": "2015-01-01", "upper": "2025-12-31", "missing": "none"},
    "smoker": FLAG | {"true": ["yes"], "false": ["no"]},
    "diabetic": FLAG | {"true": ["yes"], "false": ["no"]},
    "crp": {
        "kind": "number", "lower": 0.0, "upper": 5000.0, "missing": "none", "decimal": ",",
        "thousands": ".",
    },
    "weight": {
        "kind": "number", "lower": 30.0, "upper": 250.0, "missing": "pairwise",
        "missing_codes": ["-9"],
    },
    "ward": {
        "kind": "categorical", "levels": ["A1", "A2", "B1", "B2", "C", "ICU"], "missing": "none",
    },
    "note": {"kind": "ignored"},
}  # fmt: skip
IN_LINES = [
    "id 1 integer",
    "age missing=none",
    "date 2015-01-01 2025-12-31 missing=none",
    "flag true=yes false=no missing=none",
    "flag true=yes false=no missing=none",
    "number 0 5000 decimal=, thousands=. missing=none",
    "number 30 250 missing=pairwise missing_codes=-9",
    "categorical A1, A2, B1, B2, C, ICU missing=none",
    "ignored",
    "yes",
]


def test_fifteen_answers_are_enough_for_a_patient_table() -> None:
    one_by_one = [
        *("id", "1", "integer", "age", "none", "date", "2015-01-01", "2025-12-31", ""),
        *("flag", "yes, no", "", "flag", "", ""),
        *("number", "0", "5000", "1.234,5", "", "number", "30", "250", "", "pairwise", "-9"),
        *("categorical", "A1, A2, B1, B2, C, ICU", "none", "ignored", "yes"),
    ]
    for answers in (IN_LINES, one_by_one):
        found = interview(*answers, kinds=dict.fromkeys(PATIENTS, "unknown"))
        assert found.columns == PATIENT_COLUMNS
        assert found.unit == PersonUnit(column="patient", type="integer", max_rows=1)
    # Each Enter is one answer. Only lines that state a whole column need at most 15.
    assert (len(IN_LINES), len(one_by_one)) == (10, 31)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("number 5 2 missing=none", "The lower bound must be below"),
        ("number 1 2 3 missing=none", "Remove from your answer: 3"),
        ("age 3", "Remove from your answer: 3"),
        ("flag true=yes false=yes missing=none", "a text occurs twice"),
        ("flag decimal=, missing=none", "decimal"),
        ("number 0 1 decimal=; missing=none", "decimal"),
        ("number 0 1 missing=never", "missing"),
        ("number 0 1 missing=", "Type one of"),
        ("number 0 1 missing='none", "Type one of"),
        ("done now", "Type one of"),
    ],
)
def test_a_line_that_is_no_column_is_asked_for_again(line: str, message: str) -> None:
    said: list[str] = []
    answers = iter([line, "back", "f missing=none", "y"])
    Interview({"a": "number"}, FileOptions(), Stated(), lambda _: next(answers), said.append).run()
    assert message in " ".join(said)


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ("", {}),
        ("1234.5", {}),
        ("1234,5", {"decimal": ","}),
        ("1.234,5", {"decimal": ",", "thousands": "."}),
        ("1 234,5", {"decimal": ",", "thousands": " "}),
        ("1'234.5", {"decimal": ".", "thousands": "'"}),
    ],
)
def test_an_example_states_the_signs_of_a_column(typed: str, keys: dict[str, str]) -> None:
    found = interview("n", "0", "9", "1.234.5", typed, "n", "y", kinds={"a": "unknown"})
    assert {key: found.columns["a"].get(key) for key in keys} == keys
    assert ("decimal" in found.columns["a"]) == bool(keys)
    whole = interview("integer", "0", "2000", typed[:-2], "n", "y", kinds={"a": "unknown"})
    assert whole.columns["a"].get("thousands") == keys.get("thousands")


def test_a_key_is_offered_to_be_left_out() -> None:
    kinds = {"row_id": "integer", "age": "integer"}
    found = interview("", "a", "n", "y", kinds=kinds, stated=proposed(kinds, Stated(), {}))
    assert found.columns["row_id"] == {"kind": "ignored"}


def test_going_back_keeps_answers_and_changes_them() -> None:
    found = interview(
        "p", "n", "back", "", "flag", "", "", "back", "back", "f", "", "", "o", "b", "o", "o", "y"
    )  # fmt: skip
    kinds = {name: declared["kind"] for name, declared in found.columns.items()}
    assert kinds == {"age": "flag", "sex": "flag", "income": "ignored", "note": "ignored"}


def test_back_from_the_first_column_stays_there() -> None:
    assert interview("b", "b", "f", "n", "d", "y").columns["age"] == FLAG


def test_back_from_bounds_levels_and_persons_asks_for_the_column_again() -> None:
    found = interview(
        "n", "back", "n", "1", "back", "c", "back", "i", "back", "f", "back", "f", "n", "d", "y"
    )  # fmt: skip
    assert found.columns["age"] == FLAG
    assert found.unit is None


def test_wrong_bounds_are_asked_for_again() -> None:
    found = interview("n", "low", "nan", "inf", "", "5", "2", "5", "8", "n", "d", "y")
    assert found.columns["age"] == FLAG | {"kind": "number", "lower": 5.0, "upper": 8.0}


def test_wrong_levels_are_asked_for_again() -> None:
    found = interview("c", ",", "a,a", 'a, "b, c" ,d', "other", "", "d", "y")
    assert found.columns["age"] == {
        "kind": "categorical", "levels": ["a", "b, c", "d"], "missing": "other", "other": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "levels"),
    [
        ("1, 2, 3", [1.0, 2.0, 3.0]),
        ("0.5,1", [0.5, 1.0]),
        ("007, 8", ["007", "8"]),
        ("1, x", ["1", "x"]),
        ("inf, 1", ["inf", "1"]),
    ],
)
def test_levels_are_numbers_only_where_all_are_spelt_so(typed, levels) -> None:
    assert interview("c", typed, "n", "d", "y").columns["age"]["levels"] == levels


def test_the_person_is_protected_if_a_column_identifies_persons() -> None:
    found = interview("i", "0", "many", "2", "name", "uuid", "f", "", "n", "d", "y")
    assert found.unit == PersonUnit(column="age", type="uuid", max_rows=2)
    assert found.columns["age"] == {"kind": "ignored"}
    assert Schema.parse(found.document(FileOptions(header=False))).privacy_unit.max_rows == 2


def test_another_id_replaces_the_first_and_an_id_can_be_taken_back() -> None:
    found = interview("i", "2", "text", "i", "3", "integer", "f", "n", "d", "y")
    assert found.unit == PersonUnit(column="sex", type="integer", max_rows=3)
    assert interview("i", "2", "text", "b", "f", "n", "d", "y").unit is None
    assert interview("i", "2", "back", "f", "n", "d", "y").unit is None


def test_what_is_no_schema_goes_back_instead_of_being_written() -> None:
    done = run("done", "f", "", "none", "yes")
    assert done.exit_code == 0
    assert (
        "These answers are not a valid schema. no column is numeric or categorical." in done.output
    )
    assert list(Schema.load("t.toml").encoded_columns) == ["note"]


def test_back_from_the_summary_returns_to_the_last_column() -> None:
    assert interview("f", "n", "d", "b", "p", "", "", "y").columns["note"]["upper"] == 100.0


def test_metadata_are_offered_as_answers(folder: Path) -> None:
    facts = {"type": "int", "lower": 18, "upper": 65}
    document = {"": {"s": {"people": {"age": facts, "sex": {"type": "string"}}}}}
    Path("meta.json").write_text(json.dumps(document))
    line = [*ASKING, "--metadata", "meta.json"]
    done = run("", "l", "", "c", "m,f", "z", "", "d", "y", line=line)
    assert done.exit_code == 0
    assert "[Enter: numbers from 18 to 65]" in done.output
    made = Schema.load("t.toml").columns
    assert (made["age"].lower, made["sex"].levels) == (18.0, ("m", "f"))


STOPS = [
    (),
    ("q",),
    ("a", "quit"),
    ("c", "quit"),
    ("n", "1", "quit"),
    ("i", "quit"),
    ("f", "", "quit"),
    ("f", "", "n", "d", "q"),
    ("f", "", "n", "d"),
    ("f", "quit"),
    ("n", "0", "1", "quit"),
    ("n", "0", "1", "", "midpoint", "quit"),
    ("n", "1"),
]


@pytest.mark.parametrize("answers", STOPS, ids=lambda answers: "-".join(answers) or "at once")
def test_quitting_or_the_end_of_the_input_writes_nothing(answers, folder: Path) -> None:
    before = sorted(folder.iterdir())
    done = run(*answers)
    assert done.exit_code != 0
    assert sorted(folder.iterdir()) == before
    assert ("Nothing was written" in done.output) == ("q" in "".join(answers[-1:]))


def test_quit_is_a_level_only_in_quotes_and_never_by_its_first_letter() -> None:
    assert interview("c", "q, b", "z", "", "d", "y").columns["age"]["levels"] == ["q", "b"]
    assert interview("c", '"quit", b', "z", "", "d", "y").columns["age"]["levels"] == ["quit", "b"]
    with pytest.raises(Quit):
        interview("c", "quit")


def test_an_existing_file_is_kept_unless_forced() -> None:
    Path("t.toml").write_text("old")
    done = run(*ANSWERS)
    assert "--force" in str(done.exception)
    assert Path("t.toml").read_text() == "old"
    assert run(*ANSWERS, line=[*ASKING, "--force"]).exit_code == 0


def test_without_a_file_for_the_answers_nothing_is_asked() -> None:
    done = run(line=["schema", "people.csv", "--interactive"])
    assert "Add --out FILE.toml" in str(done.exception)
    assert "Column 1" not in done.output


def test_a_draft_with_gaps_says_what_comes_next() -> None:
    done = run(line=["schema", "people.csv", "--out", "t.toml"])
    assert done.output == (
        "written to t.toml; next: complete the schema from public knowledge; before a release, "
        "dpcov check people.csv --schema t.toml. Nothing protects what you change after the "
        "check.\n"
    )


def test_names_do_not_act_on_the_terminal() -> None:
    Path("people.csv").write_text("a\x1b[31mb\n1\n")
    assert "\x1b[31m" not in run("f", "", "n", "y").output


def asking(folder: Path, width: int = 80):
    return terminal([*DPCOV, *ASKING], folder, {}, width)


def answered(screen: Terminal) -> None:
    """Answer on a terminal, with a step back; type only after the question appears."""

    def answer(column: str, question: str, text: str) -> None:
        screen.expect(column)
        screen.expect(question)
        screen.type(f"{text}\r")

    answer("Column 1 of 4: age", "What does it contain? ", "p")
    answer("", "How is 1234.5 written? [Enter: 1234.5] ", "")
    answer("leave the cell out of means", "What does a missing cell mean? ", "pairwise")
    answer("", "Further codes of missing cells? [Enter: only empty, NA] ", "-9")
    answer("Column 2 of 4: sex", "What does it contain? ", "back")
    answer("Column 1 of 4: age", "[Enter: numbers from 0 to 100] ", "age")
    answer("", "What does a missing cell mean? [Enter: pairwise] ", "none")
    answer("Column 2 of 4: sex", "What does it contain? ", "c")
    answer("Separate levels by commas", "Levels: ", "m, f")
    answer("none of the levels", "What does a missing cell mean? ", "zeros")
    answer("", "Further codes of missing cells? [Enter: only empty, NA] ", "?")
    answer("Column 3 of 4: income", "What does it contain? ", "d")
    screen.expect("Write it? (yes, back, quit) ")


@pytest.mark.parametrize("width", [60, 200])
def test_on_a_terminal_it_asks_goes_back_and_writes(folder: Path, width: int) -> None:
    with asking(folder, width) as screen:
        answered(screen)
        screen.type("y\r")
        screen.expect("written to t.toml; next: dpcov plan t.toml")
        assert screen.ended() == 0
        assert PLANTED not in screen.seen
        questions = without_escapes(screen.seen).split("written to")[0]
        assert max(map(len, questions.splitlines())) <= width
    made = Schema.load("t.toml")
    assert [one.missing for one in made.encoded_columns.values()] == ["none", "zeros"]
    assert list(made.encoded_columns) == ["age", "sex"]
    assert made.columns["age"].upper == 120.0
    assert made.columns["sex"].missing_codes == ("?",)


@pytest.mark.parametrize("stop", ["q\r", "\x03", "\x04"], ids=["quit", "Ctrl-C", "Ctrl-D"])
def test_on_a_terminal_every_way_out_leaves_no_file_and_exit_code_130(folder, stop) -> None:
    before = sorted(folder.iterdir())
    with asking(folder) as screen:
        answered(screen)
        screen.type(stop)
        if stop == "\x03":  # what arrives while the line editor starts waits for the next key
            screen.again(stop)
        # A second Ctrl-C can end a process that ends already. A shell shows 130 for that as well.
        assert screen.ended() in (130, -signal.SIGINT if stop == "\x03" else 130)
        assert "Traceback" not in screen.seen
    assert sorted(folder.iterdir()) == before


def test_a_killed_assistant_leaves_no_file(folder: Path) -> None:
    before = sorted(folder.iterdir())
    with asking(folder) as screen:
        answered(screen)
        os.kill(screen.process.pid, signal.SIGKILL)
        assert screen.ended() == -signal.SIGKILL
    assert sorted(folder.iterdir()) == before


def test_first_letters_distinguish_all_words() -> None:
    words = [*CHOICES, *MOVES]
    assert len({word[:2] for word in words}) == len(words)
    letters = [word[0] for word in words]
    assert {one for one in letters if letters.count(one) > 1} <= {*SHORT_WORDS}
