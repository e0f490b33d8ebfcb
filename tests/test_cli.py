"""The command line, in this process: what it prints, and what bad input gets."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import PureDP
from dpcov.mechanisms import MECHANISMS
from dpcov.releases import Release
from dpcov.rows.schema import Schema
from tables_for_tests import PLANTED, SCHEMA_TEXT, assert_same, correlated, people, write_people


@pytest.fixture
def run(run, tmp_path: Path):
    """Run the command line in a folder with a table, a schema and a ledger."""
    write_people(tmp_path)
    Ledger.create("l.db", PureDP(1.0))
    return run


READING = ["show r.json", "correlation r.json", "correlation r.json --csv"]
RELEASE = "release people.csv --schema people.toml --epsilon 0.5 --ledger l.db --out r.json"


def test_a_release_is_made_shown_and_counted(run) -> None:
    made = run(RELEASE)
    assert (made.code, made.err) == (0, "")
    assert "mechanism: standardized (estimates" in made.out
    assert "guarantee: Whether any one row is in the table or not" in made.out
    shown = run("show r.json")
    assert shown.code == 0
    for fact in ("3 (4 features)", "private, with noise", "epsilon = 0.5, add-remove", "e^0.5"):
        assert fact in shown.out
    assert Ledger.open("l.db").account().spent == {"epsilon": 0.5}
    assert PLANTED not in made.out + shown.out + Path("r.json").read_text()


def test_options_of_a_mechanism_are_listed_and_can_be_set(run) -> None:
    listed = json.loads(run("mechanisms --json").out)
    assert [row["name"] for row in listed] == list(MECHANISMS)
    options = {row["name"]: row["options"] for row in listed}["eigenvector-sampling"]
    assert options["rank"] is None
    table = run("mechanisms").out
    assert all(name in table for name in MECHANISMS)
    assert all(row["source"] == MECHANISMS[row["name"]].source for row in listed)
    assert all(row["source"].split()[0] in table for row in listed)
    made = run(RELEASE + " --mechanism eigenvector-sampling --set rank=2 --set allocation=uniform")
    assert (made.code, made.err) == (0, "")
    assert "directions are computed in float64" in " ".join(run("show r.json").out.split())
    assert Release.load("r.json").parameters["rank"] == 2
    made = run(RELEASE + " --mechanism laplace --set radius=private --force")
    assert Release.load("r.json").parameters["radius"] == "private"


def test_every_goal_is_taken(run) -> None:
    made = run(RELEASE + " --goal regression")
    assert (made.code, made.err) == (0, "")
    assert "mechanism: standardized (estimates" in made.out
    assert Release.load("r.json").mechanism == "standardized"


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ("--set rank=2", "has no option 'rank'. Its options are: trace_share"),
        ("--set trace_share=much", "trace_share must be"),
        ("--set trace_share", "--set 'trace_share' is not valid. Write --set NAME=VALUE"),
        ("--set epsilon=9", "--set 'epsilon=9' is not valid. Write --set NAME=VALUE"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_before_anything_is_spent(
    run, stated, message
) -> None:
    made = run(f"{RELEASE} --mechanism matrix-laplace {stated}")
    assert made.code == 2
    assert message in made.err
    assert Ledger.open("l.db").account().spent == {"epsilon": 0.0}


def test_the_command_line_does_what_the_function_does(run) -> None:
    run("release people.csv --schema people.toml --rho 0.1 --seed 4 --out r.json")
    made = dpcov.release("people.csv", schema="people.toml", rho=0.1, seed=4)
    assert_same(Release.load("r.json"), made)


def test_options_reach_the_release(run) -> None:
    options = (
        "--epsilon 1 --delta 1e-6 --mechanism gaussian --neighbors replace-one --denoise project"
    )
    Path("lines.toml").write_text(SCHEMA_TEXT + '[file]\nrecords = "lines"\n')
    run(f"release people.csv --schema lines.toml {options} --threads 2 --out r.json")
    made = Release.load("r.json")
    assert (made.mechanism, made.denoise, made.unit_count) == ("gaussian", "project", 400)
    assert made.guarantee.budget == dpcov.ApproxDP(1.0, 1e-6)
    shown = run("show r.json").out
    assert "400 (public)" in shown
    assert "number of rows" in shown


def test_correlations_are_printed_with_the_error_to_expect(run) -> None:
    run("release people.csv --schema people.toml --epsilon 50 --out r.json")
    shown = run("correlation r.json")
    assert shown.code == 0
    made = Release.load("r.json").correlation()
    lines = [line for line in shown.out.splitlines() if " - " in line]
    assert len(lines) == 5  # the pair of levels of one column follows from their shares
    assert lines[0].startswith("age - income")
    numbers = re.findall(r"-?\d\.\d{3}", "\n".join(lines))
    assert float(numbers[0]) == pytest.approx(made[0, 3], abs=1e-3)
    assert "…" not in shown.out


def matrix_from_csv(text: str) -> tuple[list[str], np.ndarray]:
    head, *rows = csv.reader(io.StringIO(text))
    names = [row[0] for row in rows]
    assert names == head[1 : 1 + len(rows)]
    return names, np.array([[float(cell) for cell in row[1 : 1 + len(rows)]] for row in rows])


@pytest.mark.parametrize("columns", [1, 2, 15, 16])
def test_correlations_of_any_number_of_columns(run, columns: int) -> None:
    made = dpcov.release(correlated(5000, columns), lower=-1, upper=1, epsilon=20.0)
    made.save("r.json")
    printed = run("correlation r.json --csv")
    names, matrix = matrix_from_csv(printed.out)
    assert names == [f"x{j}" for j in range(columns)]
    assert np.array_equal(matrix, made.correlation())
    shown = run("correlation r.json")
    assert (shown.code, shown.err) == (0, "")
    table = shown.out
    assert table.count(" - x") == (columns * (columns - 1) // 2 if columns <= 15 else 20)
    assert ("100 pairs more; --csv" in table) == (columns == 16)


def test_no_number_is_cut_off(run, monkeypatch: pytest.MonkeyPatch) -> None:
    dpcov.release(correlated(5000, 12), lower=-1, upper=1, epsilon=20.0).save("r.json")
    for width, terminal in itertools.product(["20", "60", "200"], ["0", "1"]):
        monkeypatch.setenv("COLUMNS", width)
        if terminal == "1":
            monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TTY_COMPATIBLE", terminal)
        text = re.sub(r"\x1b\[[0-9;]*m", "", run("correlation r.json").out)
        assert "…" not in text
        assert (
            len(re.findall(r"\d\.\d{3}\b", text.replace("[0.025", "").replace("0.975]", "")))
            == 3 * 66
        )


def test_names_with_markup_are_harmless(run) -> None:
    names = ["[red]x[/red]", "a\\x1b[31m", "[/]"]
    data = pd.DataFrame(correlated(5000, 3), columns=names)
    dpcov.release(data, lower=-1, upper=1, epsilon=20.0).save("r.json")
    shown = run("correlation r.json")
    assert shown.code == 0
    assert "[red]x[/red]" in shown.out
    assert "\x1b[31m" not in shown.out
    assert "a\\x1b[31m" in shown.out


@pytest.mark.parametrize("command", READING)
def test_a_seeded_release_says_not_private_everywhere(run, command: str) -> None:
    made = run("release people.csv --schema people.toml --epsilon 50 --seed 1 --out r.json")
    assert "NOT PRIVATE" in made.out
    assert "NOT PRIVATE" in Path("r.json").read_text()
    shown = run(command)
    assert "NOT PRIVATE" in shown.out + shown.err
    assert "changes the probability" not in shown.out


@pytest.mark.parametrize("command", READING)
def test_a_release_that_shows_nothing_says_so(run, command: str) -> None:
    made = dpcov.release(correlated(200, 3), lower=-1, upper=1, epsilon=1.0)
    made.with_denoised("shrink", np.eye(4)).save("r.json")  # as the denoiser leaves noise alone
    shown = run(command)
    assert shown.code == 0
    assert "No correlation rises above the noise" in shown.out + shown.err
    assert "to expect" not in shown.out


def test_a_release_without_an_intercept_says_what_it_lacks(run) -> None:
    Path("people.toml").write_text("intercept = 0\n" + SCHEMA_TEXT)
    assert run(RELEASE).code == 0
    shown = run("show r.json")
    assert (shown.code, "(private, with noise)" in shown.out) == (0, True)  # the count, alone
    for command in ("correlation r.json", "correlation r.json --csv"):
        shown = run(command)
        assert (shown.code, shown.out) == (2, "")
        assert "without an intercept" in shown.err


def test_a_ledger_is_created_shown_and_raised(run) -> None:
    assert run("ledger create new.db --epsilon 1 --delta 1e-6 --dataset wards").code == 0
    assert run("ledger create new.db --rho 0.5 --dataset staff --neighbors replace-one").code == 0
    shown = run("ledger show new.db")
    for word in ("wards", "staff", "replace-one", "1e-06", "set by the first release"):
        assert word in shown.out
    raised = run("ledger add-budget new.db --rho 0.25 --dataset staff")
    assert raised.out == "left: rho 0.75\n"


def test_the_ledger_as_json(run) -> None:
    run(RELEASE)
    account = json.loads(run("ledger show l.db --json").out)
    (entry,) = account.pop("releases")
    assert account == {
        "dataset": "default",
        "budget": {"epsilon": 1.0},
        "spent": {"epsilon": 0.5},
        "left": {"epsilon": 0.5},
        "neighbors": "add-remove",
        "unit": {"column": None, "max_rows": 1},
        "count": "sums",
        "pure": 0.0,
        "previous": None,
        "successor": None,
        "can_request": [{"epsilon": 0.5}],
    }
    assert (entry["id"], entry["note"]) == (1, "standardized")
    assert entry["guarantee"]["budget"] == {"epsilon": 0.5}
    Ledger.create("l.db", PureDP(2.0), dataset="other")
    both = json.loads(run("ledger show l.db --json").out)
    assert [account["dataset"] for account in both["datasets"]] == ["default", "other"]
    one = json.loads(run("ledger show l.db --json --dataset other").out)
    assert one["budget"] == {"epsilon": 2.0}


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet"])
def test_a_draft_has_names_and_types_and_no_value(run, name: str) -> None:
    frame = pd.read_csv(io.StringIO(people()))
    if name.endswith("parquet"):
        frame.to_parquet(name)
    else:
        frame.to_csv(name, index=False, sep="\t" if name == "t.tsv" else ",")
    drafted = run(f"schema {name}")
    assert drafted.code == 0
    assert PLANTED not in drafted.out
    kinds = [
        ("age", "integer"), ("sex", "categorical"), ("income", "integer"), ("note", "categorical"),
    ]  # fmt: skip
    text = drafted.out
    for column, kind in kinds if name != "t.parquet" else ():  # as a person would
        text = text.replace(
            f'[columns.{column}]\n# kind = "number"\n# lower =\n# upper =\n# levels = []',
            f'[columns.{column}]\nkind = "{kind}"\n'
            + ("# levels = []" if kind == "categorical" else "# lower =\n# upper ="),
        )
    assert re.findall(r'columns\.(\w+)\]\nkind = "(\w+)"', text) == kinds
    done = text.replace("# lower =", "lower = 0").replace("# upper =", "upper = 9e9")
    done = done.replace("# levels = []", 'levels = ["a"]').replace("# [defaults", "[defaults")
    done = done.replace("# numbers =", 'numbers = "none"').replace(
        "# categories =", 'categories = "none"'
    )
    Path("t.toml").write_text(done)
    assert len(Schema.load("t.toml").features) == 4
    assert run(f"release {name} --schema t.toml --epsilon 1 --out r.json").code == 0


def test_a_draft_of_a_file_without_a_header(run) -> None:
    Path("bare.txt").write_text("by hand\n1;2\n3;4\n")
    drafted = run("schema bare.txt --no-header --columns 3 --separator ; --skip-lines 1")
    assert "[columns.x2]" in drafted.out
    assert "header = false" in drafted.out
    assert "first record" not in drafted.out
    asked = run("schema bare.txt --no-header --separator ;")
    assert (asked.code, asked.out) == (2, "")
    assert "--columns" in asked.err


def test_help_and_version(run) -> None:
    for command in ["", "schema", "release", "correlation", "ledger create"]:
        shown = run(f"{command} --help")
        assert (shown.code, shown.err) == (0, "")
        assert "Usage: dpcov" in shown.out
    assert run("--version").out.startswith("dpcov ")
    assert run("").code == 2


def test_an_unexpected_error_is_quiet(run, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object, **__: object) -> None:
        raise RuntimeError(PLANTED)

    monkeypatch.setattr(Release, "to_text", explode)
    shown = run("release people.csv --schema people.toml --epsilon 1 --out r.json")
    assert shown.code == 1
    assert shown.err.startswith("dpcov: Unexpected RuntimeError; its text is hidden")
    assert PLANTED not in shown.err
