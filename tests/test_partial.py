"""Sums of parts: the release of the whole, owner-only files, nothing that passes for a release."""

import json
import stat
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpcov
from dpcov.api import prepare
from dpcov.api.ledger import Ledger
from dpcov.api.request import Request
from dpcov.cli import main
from dpcov.core.privacy import Neighbors, PureDP
from dpcov.errors import DpcovError, MechanismError, OutputError, SourceError
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.hashes import HashedSum
from dpcov.rows.sources.partial import PartialMoment
from strategies import schema_of
from tables_for_tests import PLANTED, people, write_people


def run(arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments.split())
    return int(ended.value.code or 0)


@pytest.fixture
def parts(tmp_path, monkeypatch) -> Path:
    """Return a folder with a table, its two parts, and the sums of each."""
    monkeypatch.chdir(tmp_path)
    write_people(tmp_path, 400)
    head, *lines = people(400).splitlines(keepends=True)
    Path("north.csv").write_text("".join([head, *lines[:150]]))
    Path("south.csv").write_text("".join([head, *lines[150:]]))
    for part in ("north", "south"):
        assert run(f"moments {part}.csv --schema people.toml --out {part}.sums") == 0
    return tmp_path


def test_merged_parts_are_the_moment_of_the_whole(parts):
    assert run("merge north.sums south.sums --out all.sums") == 0
    found = PartialMoment.load(parts / "all.sums")
    whole = open_rows(parts / "people.csv", Schema.load(parts / "people.toml")).second_moments()[0]
    assert (found.units == whole.units).all()
    assert found.rows == whole.unit_count == 400
    assert len(found.parts) == 2


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_a_release_of_sums_is_that_of_the_rows(parts, neighbors):
    Path("people.toml").write_text(Path("people.toml").read_text() + '[file]\nrecords = "lines"\n')
    for part in ("north", "south"):
        assert run(f"moments {part}.csv --schema people.toml --out {part}.sums --force") == 0
    run("merge north.sums south.sums --out all.sums")
    asked = {"schema": "people.toml", "epsilon": 1.0, "seed": 3, "neighbors": neighbors}
    found = dpcov.release("all.sums", **asked)
    expected = dpcov.release("people.csv", mechanism=found.mechanism, **asked)
    assert np.array_equal(found.published, expected.published)
    assert found.unit_count == expected.unit_count


def test_sums_are_released_whatever_the_goal(parts):
    run("merge north.sums south.sums --out all.sums")
    asked = {"schema": "people.toml", "epsilon": 1.0, "goal": "correlation"}
    request = Request(**asked)
    chosen = {data: prepare(data, request).mechanism.name for data in ("all.sums", "people.csv")}
    assert chosen["people.csv"] == "standardized"
    assert dpcov.release("all.sums", **asked).mechanism == chosen["all.sums"] != "standardized"


def test_the_command_line_releases_sums_and_books_them(parts, capfd):
    Ledger.create("l.ledger", PureDP(2.0))
    asked = "release north.sums --schema people.toml --epsilon 1 --ledger l.ledger --out r.json"
    assert run(asked) == 0
    assert Ledger.open("l.ledger").account().spent == {"epsilon": 1.0}
    assert PLANTED not in "".join(capfd.readouterr())


def test_files_of_sums_are_for_their_owner_and_say_that_they_are_private(parts):
    run("merge north.sums south.sums --out all.sums")
    for path in parts.glob("*.sums"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "PRIVATE DATA, NOT A RELEASE" in path.read_text()[:100]
    assert not list(parts.glob(".dpcov-*"))


@pytest.mark.parametrize("command", ["show", "correlation", "covariance", "pca"])
def test_sums_are_refused_as_a_release(parts, command, capfd):
    capfd.readouterr()
    assert run(f"{command} north.sums") == 2
    shown = "".join(capfd.readouterr())
    document = json.loads((parts / "north.sums").read_text())
    assert not any(str(cell) in shown for cell in [*document["units"], 150] if cell > 99)


def test_a_part_counts_once(parts):
    run("merge north.sums south.sums --out all.sums")
    for files in ("north.sums north.sums", "all.sums north.sums", "all.sums all.sums"):
        assert run(f"merge {files} --out twice.sums") == 2
    assert not Path("twice.sums").exists()


def test_parts_with_different_schemas_do_not_add_up(parts):
    Path("other.toml").write_text(Path("people.toml").read_text().replace("100", "101"))
    run("moments south.csv --schema other.toml --out other.sums")
    assert run("merge north.sums other.sums --out all.sums") == 2
    with pytest.raises(SourceError, match="another schema"):
        prepare("north.sums", Request(schema="other.toml", epsilon=1.0))
    with pytest.raises(SourceError, match="another schema"):
        prepare("north.sums", Request(schema="people.toml", radius=0.5, epsilon=1.0))


def test_persons_are_refused(parts):
    text = Path("people.toml").read_text() + '[unit]\ncolumn = "note"\nmax_rows = 1\n'
    Path("persons.toml").write_text(text)
    assert run("moments south.csv --schema persons.toml --out p.sums") == 2
    assert not Path("p.sums").exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"mechanism": "preconditioned"},
        {"mechanism": "eigenvector-sampling"},
        {"mechanism": "stable-covariance", "delta": 1e-6},
        {"mechanism": "heavy-tailed", "delta": 1e-6},
        {"mechanism": "gaussian", "delta": 1e-6, "radius": "private"},
        {"radius": "private"},
    ],
)
def test_a_mechanism_that_needs_rows_is_refused_before_anything_is_spent(parts, fields):
    with pytest.raises(MechanismError, match="more than the sums"):
        prepare("north.sums", Request(schema="people.toml", epsilon=1.0, **fields))


def test_sums_are_no_rows(parts):
    with pytest.raises(SourceError, match="contains sums"):
        open_rows("north.sums", Schema.load("people.toml"))


@pytest.mark.parametrize("damage", ["cut", "rows", "units", "json"])
def test_a_damaged_file_is_refused_without_a_word_of_it(parts, damage):
    path = parts / "north.sums"
    text = path.read_text()
    document = json.loads(text)
    if damage == "rows":
        document["rows"] = 1
    if damage == "units":
        document["units"] = document["units"][:-1]
    changed = {"cut": text[: len(text) // 2], "json": text[:-20] + PLANTED}
    path.write_text(changed.get(damage, json.dumps(document) + "\n"))
    with pytest.raises(SourceError, match="damaged") as caught:
        PartialMoment.load(path)
    assert caught.value.__context__ is None
    assert PLANTED not in str(caught.value)


def test_an_output_is_never_an_input_nor_replaced_unasked(parts):
    before = Path("north.sums").read_text()
    assert run("merge north.sums south.sums --out north.sums --force") == 2
    assert run("moments south.csv --schema people.toml --out north.sums") == 2
    assert Path("north.sums").read_text() == before
    with pytest.raises(OutputError):
        PartialMoment.load(Path("north.sums")).save(Path("missing/x.sums"))


def test_what_is_no_file_of_sums_is_refused(parts):
    for name, words in (("people.csv", "not a file of sums"), ("nowhere.sums", "does not exist")):
        with pytest.raises(DpcovError, match=words):
            PartialMoment.load(parts / name)
    assert "1" not in repr(PartialMoment.load(parts / "north.sums")).split(" at 0x")[0]


# What the parts hold is known by a hash of their rows.


def numbers(rows: int, seed: int = 0) -> pa.Table:
    return pa.table(np.random.default_rng(seed).uniform(0, 10, (2, rows)).tolist(), ["a", "b"])


NUMBERS = schema_of("a", "b")
TURNED = schema_of("b", "a")


def test_the_same_rows_summed_twice_are_found_out_in_any_order():
    table = numbers(50)
    one = PartialMoment.of(table, NUMBERS)
    other = PartialMoment.of(table.take(pa.array(range(50)[::-1])), NUMBERS)
    with pytest.raises(SourceError, match="contain the same rows"):
        one.merged(other)


@given(st.integers(0, 9), st.integers(0, 49), st.sampled_from("ab"))
def test_parts_that_differ_in_a_cell_are_two_parts(seed, row, name):
    table = numbers(50, seed)
    cells = table[name].to_pylist()
    cells[row] = 10 - cells[row]
    changed = table.set_column(table.column_names.index(name), name, [cells])
    one, other = PartialMoment.of(table, NUMBERS), PartialMoment.of(changed, NUMBERS)
    assert one.merged(other).rows == 100


def test_a_part_of_no_rows_may_come_as_often_as_it_likes():
    none = PartialMoment.of(numbers(0), NUMBERS)
    assert none.merged(none).merged(PartialMoment.of(numbers(3), NUMBERS)).rows == 3


def test_control_random_names_of_parts_would_not_find_the_same_rows(monkeypatch):
    names = count()
    monkeypatch.setattr(HashedSum, "total", lambda self: (self._moment.total(), str(next(names))))
    one, other = (PartialMoment.of(numbers(50), NUMBERS) for _ in range(2))
    assert one.merged(other).rows == 100


# Sums of other columns, orders and conditions do not add up.


def test_columns_in_another_order_are_another_sum():
    one, other = PartialMoment.of(numbers(5), NUMBERS), PartialMoment.of(numbers(5, 1), TURNED)
    with pytest.raises(SourceError, match="columns in another order"):
        one.merged(other)
    with pytest.raises(SourceError, match="another order"):
        prepare(one, Request(schema=TURNED, epsilon=1.0))


def test_control_schemas_compared_as_mappings_are_equal():
    assert NUMBERS.model_dump() == TURNED.model_dump()
    assert list(NUMBERS.columns) != list(TURNED.columns)


def test_sums_under_other_conditions_do_not_add_up_and_state_their_own(tmp_path):
    young, old = (
        PartialMoment.of(numbers(50, seed), NUMBERS, where=[stated])
        for seed, stated in enumerate(["a < 5", "a >= 5"])
    )
    with pytest.raises(SourceError, match="different conditions"):
        young.merged(old)
    with pytest.raises(SourceError, match="file of sums contains no rows"):
        prepare(young, Request(schema=NUMBERS, epsilon=1.0, where=["b < 3"]))
    young.save(tmp_path / "y.sums")
    made = dpcov.release(
        tmp_path / "y.sums", schema=NUMBERS, epsilon=1.0, mechanism="matrix-laplace"
    )
    assert made.provenance["rows"] == "rows where a < 5"
    assert made.provenance["door"] == "sums and arrow"
    met = PartialMoment.of(numbers(50, 7), NUMBERS, where=["a < 5"])
    assert young.merged(met).rows == young.rows + met.rows < 100


# Under replace-one the number of rows is public: no cell may change it.


def test_replace_one_is_refused_where_a_cell_can_change_the_number_of_rows(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    lines = Schema.parse(NUMBERS.model_dump() | {"file": {"records": "lines"}})
    quoted = PartialMoment.of(tmp_path / "t.csv", NUMBERS)
    filtered = PartialMoment.of(numbers(5), NUMBERS, where=["a < 5"])
    plain = PartialMoment.of(numbers(5), NUMBERS)
    by_lines = PartialMoment.of(tmp_path / "t.csv", lines)
    ledger = Ledger.create(tmp_path / "l.ledger", PureDP(9.0), neighbors=Neighbors.REPLACE_ONE)
    asked = {"epsilon": 1.0, "neighbors": "replace-one", "ledger": ledger}
    for sums in (quoted, filtered, plain.merged(quoted), quoted.merged(plain)):
        sums.save(tmp_path / "s.sums", force=True)
        for data in (sums, tmp_path / "s.sums"):
            with pytest.raises(SourceError, match="the number of rows is public"):
                dpcov.release(data, schema=NUMBERS, **asked)
    for data, schema in ((tmp_path / "t.csv", NUMBERS), (numbers(5), NUMBERS)):
        where = [] if data == tmp_path / "t.csv" else ["a < 5"]
        with pytest.raises(SourceError, match=r"rows is public|used with replace-one"):
            dpcov.release(data, schema=schema, where=where, **asked)
    assert not ledger.account().entries
    for sums in (plain, by_lines, plain.merged(by_lines)):
        assert dpcov.release(sums, schema=sums.schema, **asked).unit_count == sums.rows
    assert len(ledger.account().entries) == 3


# What is loaded can be the sum of so many rows.

UNITS = 2**20  # of a radius


def forged(document: dict, how: str) -> dict:
    """Return a file of sums with one impossible part; entries belong to the lower half."""
    rows, units = document["rows"], list(document["units"])
    changes = {
        "diagonal": {0: rows * UNITS**2 + 1},
        "negative diagonal": {2: -1},
        "trace": {0: rows * UNITS**2, 2: 1},
        "off-diagonal": {1: units[0] + units[2] + 1},
        "intercept off": {5: units[5] + 1},
        "no intercept": {5: 0},
        "sum of a column": {3: 2 * units[5]},
        "huge": {0: 10**400},
    }
    counts = {
        "count below 0": -1,
        "count of 2^63": 2**63,
        "count of 10^400": 10**400,
        "one less": rows - 1,
    }
    for place, value in changes.get(how, {}).items():
        units[place] = value
    return document | {"rows": counts.get(how, rows), "units": units}


FORGED = [
    "diagonal",
    "negative diagonal",
    "trace",
    "off-diagonal",
    "intercept off",
    "no intercept",
    "sum of a column",
    "huge",
    "count below 0",
    "count of 2^63",
    "count of 10^400",
    "one less",
]


@pytest.mark.parametrize("how", [*FORGED, "control: nothing"])
def test_forged_sums_are_refused_before_anything_is_booked(tmp_path, how):
    path, ledger = tmp_path / "s.sums", Ledger.create(tmp_path / "l.ledger", PureDP(9.0))
    short = NUMBERS.model_copy(update={"radius": 1.0})
    PartialMoment.of(numbers(50), short).save(path)
    document = forged(json.loads(path.read_text()), how)
    path.write_text(json.dumps(document) + "\n")
    if how == "control: nothing":
        assert PartialMoment.load(path).rows == 50
        return
    with pytest.raises(SourceError, match="damaged"):
        dpcov.release(path, schema=short, epsilon=1.0, ledger=ledger)
    with pytest.raises(SourceError, match="damaged"):
        PartialMoment.load(path)
    assert not ledger.account().entries


def test_sums_of_weighted_rows_pass():
    schema = schema_of("a", "b", weight={"column": "w", "maximum": 3})
    table = numbers(50).append_column("w", [np.linspace(-1, 5, 50)])
    sums = PartialMoment.of(table, schema)
    assert dpcov.release(sums, schema=schema, epsilon=1.0, mechanism="matrix-laplace")


def test_a_file_of_an_older_version_says_what_to_do(tmp_path):
    path = tmp_path / "s.sums"
    PartialMoment.of(numbers(50), NUMBERS).save(path)
    document = json.loads(path.read_text())
    del document["countable"]
    path.write_text(json.dumps(document) + "\n")
    with pytest.raises(SourceError, match=r"version before 0[.]2[.]0.*Sum the rows again"):
        PartialMoment.load(path)
