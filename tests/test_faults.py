"""Public input that is refused: in sentences of our own, and without what was given."""

import json
import tomllib

import numpy as np
import pytest
from pydantic import BaseModel, ValidationError
from pydantic_core._pydantic_core import list_all_errors

import dpcov
from dpcov.core.faults import reason
from dpcov.core.privacy import (
    ZCDP,
    ApproxDP,
    BudgetWarning,
    PureDP,
    budget_warnings,
    delta_warning,
)
from dpcov.errors import ReleaseError, SchemaError
from dpcov.rows.schema import Number, Schema

PYDANTIC = ("Input should", "valid", "validation", "Extra inputs", "pydantic", "Value error")
OWN = 'version = 2\n[columns.a]\nkind = "number"\nlower = 0\nupper = 1\n'
FAULTS = [
    "version = true",
    'version = "2"',
    OWN + "upper2 = 1",
    OWN.replace("upper = 1", 'upper = "planted"'),
    OWN.replace("upper = 1", "upper = inf"),
    OWN.replace("upper = 1", "upper = [1]"),
    OWN.replace("number", "nmber"),
    OWN + "missing = 1",
    OWN + 'missing = "planted"',
    OWN + "[columns.b]\nkind = 'categorical'\nlevels = 3",
    OWN + "[columns.b]\nkind = 'categorical'\nlevels = []",
    OWN + "[columns.b]\nkind = 'categorical'\nlevels = [[1]]",
    OWN + "[columns.b]\nkind = 'date'\nlower = 'x'\nupper = 2020-01-01",
    OWN + "[file]\nheader = 3",
    OWN + "[file]\nskip_lines = -1",
    OWN + "[file]\nskip_lines = 1.5",
    OWN + "[file]\nseparator = ''",
    OWN + "[file]\nseparator = 'planted'",
    OWN + "[file]\nfoo = 1",
    OWN + "[unit]\ncolumn = 'p'\nmax_rows = 0",
    OWN + "[unit]\ncolumn = 3\nmax_rows = 1",
    OWN + "[weight]\ncolumn = 'w'\nmaximum = -1",
    OWN + "[derived]\nb = 3",
    "columns = 3",
    "columns = []",
    "intercept = 'planted'\n" + OWN,
    "radius = -1\n" + OWN,
    "missing = 3\n" + OWN,
]


def is_ours(message):
    return not any(words in message for words in PYDANTIC)


@pytest.mark.parametrize("text", FAULTS)
def test_a_schema_is_refused_in_words_of_our_own(text):
    with pytest.raises(SchemaError) as caught:
        Schema.parse(tomllib.loads(text))
    assert is_ours(str(caught.value)), str(caught.value)
    assert "planted" not in str(caught.value).replace("'planted' is", "")
    assert str(caught.value).endswith((".", "?"))


def test_a_column_that_is_made_in_python_is_refused_in_words_of_our_own():
    with pytest.raises(SchemaError, match=r"^lower: must be a finite number\.$"):
        Number(lower="planted", upper=1)
    assert Number(lower=0, upper=1).half_range == 0.5  # control


def test_every_kind_of_fault_that_pydantic_knows_has_words_of_our_own():
    for kind in list_all_errors():
        fault = {"type": kind["type"], "loc": (), "msg": "planted", "input": "planted"}
        words = reason(fault | {"ctx": kind["example_context"] or {}})
        assert words
        if kind["type"] not in ("value_error", "assertion_error"):
            assert is_ours(words.replace("not valid JSON", ""))
            assert "planted" not in words


def test_control_pydantic_itself_speaks_otherwise():
    class Plain(BaseModel):
        lower: float

    with pytest.raises(ValidationError) as caught:
        Plain(lower="planted")
    assert not is_ours(str(caught.value))


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "r.json"
    rows = np.linspace(0, 1, 100)[:, None]
    dpcov.release(rows, lower=0, upper=1, epsilon=1.0, seed=1).save(path)
    return json.loads(path.read_text())


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("published", "planted"), ("published", [1.5]), ("shift", "planted"), ("noise", {}),
        ("guarantee", None), ("format", 3), ("surprise", 1), ("lattice", []), ("schema", "planted"),
        ("denoise", "planted"), ("provenance", {"x": 1}),
    ],
)  # fmt: skip
def test_a_release_file_is_refused_in_words_of_our_own(tmp_path, document, part, value):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document | {part: value}))
    with pytest.raises(ReleaseError) as caught:
        dpcov.Release.load(path)
    assert is_ours(str(caught.value).replace("not a valid release file", "")), str(caught.value)
    assert "planted" not in str(caught.value)


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (PureDP(20), []),
        (PureDP(20.5), ["e^20.5"]),
        (ApproxDP(1, 1e-5), []),
        (ApproxDP(1, 2e-5), ["delta = 2e-05 is large"]),
        (ApproxDP(1000, 0.5), ["e^1e+03", "delta = 0.5 is large"]),
        (ZCDP(1), []),
        (ZCDP(30), ["rho = 30 (epsilon = 69 at delta = 1e-06)"]),
    ],
)
def test_absurd_budgets_are_warned_of_from_their_figures_alone(budget, words):
    found = budget_warnings(budget)
    assert len(found) == len(words)
    assert all(word in sentence for word, sentence in zip(words, found, strict=True))


def test_a_delta_is_compared_with_one_over_a_number_that_is_not_private():
    assert delta_warning(ApproxDP(1, 1e-3), 999, "the rows") == []
    assert "at least one over the rows" in delta_warning(ApproxDP(1, 1e-3), 1000, "the rows")[0]
    assert delta_warning(PureDP(1), 1000, "the rows") == []


def test_a_release_warns_once_also_by_level(tmp_path):
    rows = "".join(f"{i % 2},{i % 3 / 2}\n" for i in range(300))
    (tmp_path / "a.csv").write_text(f"g,x\n{rows}")
    schema = Schema.parse(
        {
            "version": 2,
            "columns": {
                "g": {"kind": "categorical", "levels": [0, 1]},
                "x": {"kind": "number", "lower": 0, "upper": 1},
            },
        }
    )
    with pytest.warns(BudgetWarning) as caught:
        dpcov.release_by(tmp_path / "a.csv", "g", schema=schema, epsilon=50.0)
    assert len(caught) == 1
    with pytest.warns(BudgetWarning) as caught:
        dpcov.release(tmp_path / "a.csv", schema=schema, epsilon=1.0, delta=1e-3)
    assert len(caught) == 1


def test_after_a_release_delta_meets_the_published_count_alone(run, tmp_path):
    """Two tables whose exact numbers lie on either side of 1 / delta, and the same noisy one."""
    (tmp_path / "a.toml").write_text(OWN)
    for name, rows in (("a", 900), ("b", 1100)):
        (tmp_path / f"{name}.csv").write_text("a\n" + "0.5\n" * rows)
    line = (
        "release {}.csv --schema a.toml --epsilon 0.01 --delta 1e-3 --mechanism gaussian "
        "--seed {} --out r.json --force"
    )
    answers = set()
    for name in "ab":
        for seed in range(3):
            reported = run(line.format(name, seed)).err
            count = dpcov.Release.load(tmp_path / "r.json").count()
            assert ("at least one over the number of rows" in reported) == (count >= 1000)
            assert ("at least one over" in run("show r.json").out) == (count >= 1000)
            shown = json.loads(run("show r.json --json").out)["budget_warnings"]
            assert bool(shown) == (count >= 1000)
            answers.add((name, count >= 1000))
    assert len(answers) > 2, "the noise must move some of them across"


def test_plan_compares_delta_with_the_rows_that_the_user_states(run, tmp_path):
    (tmp_path / "a.toml").write_text(OWN)
    line = "plan a.toml --rows {} --epsilon 1 --delta 1e-6 --mechanism gaussian"
    assert "at least one over the 1,000,000 rows" in run(line.format(10**6)).out
    assert "at least one over" not in run(line.format(10**6 - 1)).out
    found = json.loads(run(f"{line.format(10**6)} --json").out)["warnings"]
    assert len(found) == 1


@pytest.mark.filterwarnings("error")
def test_no_warning_of_a_budget_stops_a_run_after_its_spend(tmp_path):
    """If warnings are errors, the warning comes before dpcov opens the ledger."""
    ledger = dpcov.Ledger.create(tmp_path / "L", PureDP(100))
    rows = np.linspace(0, 1, 100)[:, None]
    with pytest.raises(BudgetWarning):
        dpcov.release(rows, lower=0, upper=1, epsilon=50.0, ledger=ledger)
    assert ledger.account().spent["epsilon"] == 0
