"""One release for each level of a column (docs/proofs/by.md)."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from analysis_tables import bounds, released, schema, table
from dpcov import cli
from dpcov.api.grouped import budget_of_level, paths, prepare_by, release_by
from dpcov.api.ledger import Ledger
from dpcov.api.request import Request
from dpcov.core.privacy import ZCDP, ApproxDP, Guarantee, Neighbors, PureDP, exact
from dpcov.errors import (
    BudgetExceededError,
    LedgerError,
    MechanismError,
    SchemaError,
    SourceError,
)
from dpcov.releases import Release
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_source
from dpcov.rows.sources.base import Source
from dpcov.rows.sources.rows import Rows
from strategies import row_between
from tables_for_tests import assert_same, assert_same_elsewhere

ADD, REPLACE = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
LEVELS = ["u", "v", "w"]


def grouped(frame: Any = None, **request: Any) -> dict[str, Release]:
    settings = {"schema": schema(), "epsilon": 1e6, "seed": 0} | request
    return release_by(table() if frame is None else frame, "group", **settings)


# What is released


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_has_the_moments_of_its_rows(level: str) -> None:
    one = grouped()[level]
    own = table()[table()["group"] == level]
    assert "group" not in {feature.column for feature in one.schema.features}
    at = [one.columns.index(name) for name in ("a", "b", "c", "y")]
    numbers = own[["a", "b", "c", "y"]]
    assert np.allclose(one.mean()[at], numbers.mean(), rtol=1e-2, atol=1e-2)
    expected = np.cov(numbers.T, ddof=0)
    assert np.allclose(one.covariance()[np.ix_(at, at)], expected, rtol=2e-2, atol=2e-2)
    assert one.count() == pytest.approx(len(own), abs=1)


def test_undeclared_and_missing_values_have_a_level_only_if_it_is_declared() -> None:
    frame = table().assign(group=table()["group"].where(table()["group"] != "w", None))
    frame.loc[::10, "group"] = "x"
    counts = {level: round(one.count()) for level, one in grouped(frame).items()}
    assert counts == {"u": (frame.group == "u").sum(), "v": (frame.group == "v").sum(), "w": 0}
    document = schema().model_dump()
    document["columns"]["group"] |= {"other": True, "missing": "level"}
    made = grouped(frame, schema=Schema.parse(document))
    assert list(made) == [*LEVELS, "(other)", "(missing)"]
    assert round(made["(other)"].count()) == (frame.group == "x").sum()
    assert round(made["(missing)"].count()) == frame.group.isna().sum()


def test_the_noise_of_levels_is_drawn_apart() -> None:
    frame = table()[table()["group"] == "u"]
    both = pa.concat_tables(
        [pa.Table.from_pandas(frame.assign(group=level), preserve_index=False) for level in "uv"]
    )
    made = grouped(both, epsilon=1.0, seed=None)
    assert not np.array_equal(made["u"].published, made["v"].published)
    seeded = grouped(both, epsilon=1.0)
    assert not np.array_equal(seeded["u"].published, seeded["v"].published)


def test_a_file_without_a_header_is_grouped(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    table().to_csv(path, index=False, header=False)
    document = schema().model_dump() | {"file": {"header": False}}
    made = grouped(path, schema=Schema.parse(document))
    for level, one in grouped().items():
        assert np.array_equal(made[level].published, one.published)


# What it costs


def neighbours(frame: Any, neighbors: Neighbors) -> list[Any]:
    if neighbors == ADD:
        return [frame.iloc[1:]]
    moved, changed = frame.copy(), frame.copy()
    moved.loc[0, "group"] = next(level for level in LEVELS if level != frame.loc[0, "group"])
    changed.loc[0, ["a", "y"]] = [bounds("a")[1], bounds("y")[0]]
    return [moved, changed]


def level_moments(frame: Any) -> dict[str, Any]:
    prepared = prepare_by(frame, "group", Request(schema=schema(), epsilon=1.0))
    return {level: request.rows.second_moments()[0] for level, request in prepared.levels.items()}


@pytest.mark.parametrize("neighbors", [ADD, REPLACE])
def test_neighbours_are_so_many_steps_of_add_remove_apart(neighbors: Neighbors) -> None:
    frame = table().iloc[:50].reset_index(drop=True)
    before = level_moments(frame)
    for other in neighbours(frame, neighbors):
        after = level_moments(other)
        steps = 0
        for level in LEVELS:
            if (before[level].units == after[level].units).all():
                continue
            single = row_between(before[level], after[level]) or row_between(
                after[level], before[level]
            )
            steps += 1 if single else 2
        assert steps == (1 if neighbors == ADD else 2)


@pytest.mark.parametrize(
    ("budget", "share"),
    [
        (PureDP(1.0), PureDP(0.5)),
        (ZCDP(0.4), ZCDP(0.1)),
        (ApproxDP(2.0, 1e-6), ApproxDP(1.0, 1e-6 / (1 + math.e))),
    ],
)
def test_a_level_gets_all_under_add_remove_and_half_under_replace_one(
    budget: Any, share: Any
) -> None:
    assert budget_of_level(budget, ADD) == budget
    found = budget_of_level(budget, REPLACE)
    for name in share.__slots__:
        assert getattr(found, name) == pytest.approx(getattr(share, name), rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1 / 3, 1.7, 9.0, 300.0])
def test_two_steps_never_exceed_the_budget(epsilon: float) -> None:
    delta = 1e-7
    half = budget_of_level(ApproxDP(epsilon, delta), REPLACE)
    assert isinstance(half, ApproxDP)
    assert 2 * exact(half.epsilon) <= exact(epsilon)
    doubled = exact(half.delta) * (1 + Fraction(math.exp(half.epsilon)))
    assert doubled <= exact(delta)
    assert doubled >= exact(delta) * (1 - Fraction(1, 10**12)), "nothing is wasted"
    pure, concentrated = (budget_of_level(b, REPLACE) for b in (PureDP(epsilon), ZCDP(epsilon)))
    assert 2 * exact(pure.epsilon) <= exact(epsilon)  # type: ignore[union-attr]
    assert 4 * exact(concentrated.rho) <= exact(epsilon)  # type: ignore[union-attr]


def test_two_gaussian_steps_cost_what_the_proof_says() -> None:
    """A row replaced within its level moves a sum by 2: four times the rho of a move by 1."""
    sensitivity, rho = 1.0, 0.1
    variance = sensitivity**2 / (2 * budget_of_level(ZCDP(rho), REPLACE).rho)  # type: ignore[union-attr]
    assert (2 * sensitivity) ** 2 / (2 * variance) <= rho * (1 + 1e-12)
    control = sensitivity**2 / (2 * rho / 2)  # half of rho, as if it added up like epsilon
    assert (2 * sensitivity) ** 2 / (2 * control) > rho


def test_noise_is_that_of_one_release_and_twice_that_under_replace_one() -> None:
    whole = released(2.0, trace_share=0.0, mechanism="matrix-laplace")
    settings = {"epsilon": 2.0, "mechanism": "matrix-laplace", "trace_share": 0.0}
    alone = grouped(**settings)["u"]
    paired = grouped(neighbors="replace-one", **settings)["u"]
    scale = alone.noise.scale / alone.lattice.bound  # type: ignore[union-attr]
    assert scale == pytest.approx(whole.noise.scale / whole.lattice.bound)  # type: ignore[union-attr]
    assert paired.noise.scale == pytest.approx(2 * alone.noise.scale)  # type: ignore[union-attr]


def test_the_guarantee_is_that_of_all_levels_together() -> None:
    for one in grouped(neighbors="replace-one", epsilon=2.0, seed=None).values():
        assert one.group is not None
        assert one.group.together == Guarantee(PureDP(2.0), REPLACE)
        assert one.guarantee == Guarantee(PureDP(1.0), ADD)
        assert one.unit_count is None, "the size of a level is private"
        assert "All releases by 'group' together" in one.guarantee_in_words()
        assert "e^2" in one.guarantee_in_words()
    assert "NOT PRIVATE" in grouped()["u"].guarantee_in_words()


@pytest.mark.parametrize("neighbors", [ADD, REPLACE])
def test_the_ledger_counts_all_levels_once(tmp_path: Path, neighbors: Neighbors) -> None:
    ledger = Ledger.create(tmp_path / "l.db", PureDP(1.5), neighbors=neighbors)
    request = {"epsilon": 1.0, "seed": None, "neighbors": neighbors, "ledger": ledger}
    grouped(**request)
    account = ledger.account()
    assert account.spent == {"epsilon": 1.0}
    assert [entry.note for entry in account.entries] == ["standardized by group"]
    with pytest.raises(BudgetExceededError):
        grouped(**request)
    with pytest.raises(LedgerError, match="seeded"):
        grouped(**request | {"seed": 0, "epsilon": 0.1})
    assert len(ledger.account().entries) == 1


# Files and the command line


def test_a_level_survives_its_file(tmp_path: Path) -> None:
    for level, one in grouped(neighbors="replace-one").items():
        one.save(tmp_path / f"{level}.json")
        assert_same(Release.load(tmp_path / f"{level}.json"), one)


def test_files_are_named_after_levels_and_stay_apart() -> None:
    found = paths(Path("a/r.json"), ["north", "North", "x/y", "../z", "", "..", "é (1)"])
    names = [path.name for path in found.values()]
    assert names[:4] == ["r-north.json", "r-North-2.json", "r-x-y.json", "r-z.json"]
    assert len({name.casefold() for name in names}) == len(names)
    assert all(path.parent == Path("a") for path in found.values())


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    monkeypatch.chdir(tmp_path)
    table().to_csv("t.csv", index=False)
    lines = []
    for name, column in schema().encoded_columns.items():
        lines.append(f"[columns.{name}]\nkind = '{column.kind}'")
        if column.kind == "numeric":
            lines.append(f"lower = {column.lower}\nupper = {column.upper}")
        else:
            lines.append(f"levels = {list(column.levels)}")
    Path("s.toml").write_text("\n".join(lines))
    Path("by.toml").write_text("\n".join(["by = 'group'", *lines]))

    def run(line: str) -> tuple[Any, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(line.split())
        return ended.value.code, *capsys.readouterr()

    return run


LINE = "release t.csv --epsilon 5 --out r.json"


@pytest.mark.parametrize("how", ["--schema s.toml --by group", "--schema by.toml"])
def test_the_command_writes_a_file_for_each_level(run: Any, how: str) -> None:
    code, out, _ = run(f"{LINE} {how}")
    assert code == 0
    assert "written to r-u.json r-v.json r-w.json" in out
    assert "together" in out
    code, out, _ = run("show r-v.json")
    assert "the rows with group = v" in out
    assert Release.load("r-v.json").group.level == "v"  # type: ignore[union-attr]
    assert run("correlation r-v.json")[0] == 0


def test_an_existing_file_of_any_level_is_kept(run: Any, tmp_path: Path) -> None:
    Path("r-w.json").write_text("mine")
    Ledger.create("l.db", PureDP(5.0))
    code, _, err = run(f"{LINE} --schema by.toml --ledger l.db")
    assert (code, "r-w.json" in err) == (2, True)
    assert sorted(p.name for p in tmp_path.glob("r*")) == ["r-w.json"]
    assert not Ledger.open("l.db").account().entries
    assert run(f"{LINE} --schema by.toml --ledger l.db --force")[0] == 0


# What is refused


@pytest.mark.parametrize(
    ("column", "message"), [("grop", "Did you mean 'group'?"), ("y", "is not a categorical column")]
)
def test_a_wrong_column_is_refused_in_one_sentence(
    run: Any, tmp_path: Path, column: str, message: str
) -> None:
    code, out, err = run(f"{LINE} --schema s.toml --by {column}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not list(tmp_path.glob("r*"))


@pytest.mark.parametrize(
    ("by", "change", "message"),
    [
        ("a", {}, "'a' is not a categorical column"),
        ("grop", {}, "'grop' is not a categorical column"),
        ("group", {"unit": {"column": "person", "type": "text", "max_rows": 2}}, "protects rows"),
        (None, {}, "Name a categorical column"),
    ],
)
def test_what_can_not_set_levels_apart_is_refused(
    by: Any, change: dict[str, Any], message: str
) -> None:
    declared = Schema.parse(schema().model_dump() | change)
    with pytest.raises(SchemaError, match=message):
        release_by(table(), by, schema=declared, epsilon=1.0)


def test_a_schema_says_where_its_by_is_wrong() -> None:
    with pytest.raises(SchemaError, match="'b' is not a categorical column"):
        Schema.parse(schema().model_dump() | {"by": "b"})
    alone = {"columns": {"group": schema().model_dump()["columns"]["group"]}, "by": "group"}
    with pytest.raises(SchemaError, match="leaves no column to release"):
        Schema.parse(alone)


def test_one_release_is_not_made_of_a_schema_that_asks_for_many() -> None:
    declared = Schema.parse(schema().model_dump() | {"by": "group"})
    with pytest.raises(SchemaError, match=r"use dpcov\.release_by"):
        dpcov.release(table(), schema=declared, epsilon=1.0)
    assert set(release_by(table(), schema=declared, epsilon=1.0)) == set(LEVELS)


def test_a_bad_request_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l.db", PureDP(5.0))
    with pytest.raises(MechanismError, match="'nope' does not exist"):
        grouped(seed=None, ledger=ledger, epsilon=1.0, mechanism="nope")
    with pytest.raises(MechanismError, match="no neighbour relation"):
        grouped(seed=None, ledger=ledger, epsilon=1.0, neighbors="friends")
    with pytest.raises(SourceError, match="no column 'group'"):
        grouped(table().drop(columns="group"), seed=None, ledger=ledger, epsilon=1.0)
    assert not ledger.account().entries


def test_a_stream_is_grouped_in_its_one_reading() -> None:
    stream = pa.Table.from_pandas(table(), preserve_index=False).to_reader(max_chunksize=77)
    for one, other in zip(grouped(stream).values(), grouped().values(), strict=True):
        assert_same_elsewhere(one, other)


class Moving(Source):
    """A table whose first row is of another level each time that it is read."""

    kind = "test"

    def __init__(self) -> None:
        self._table = pa.Table.from_pandas(table(), preserve_index=False)
        self.names = tuple(self._table.column_names)
        self.types = {field.name: field.type for field in self._table.schema}
        self.readings = 0

    def batches(self, columns: Any) -> Any:
        groups = self._table["group"].to_pylist()
        groups[0] = LEVELS[self.readings % len(LEVELS)]
        self.readings += 1
        at = self._table.column_names.index("group")
        yield from self._table.set_column(at, "group", [groups]).select(columns).to_batches()


def counts(data: Any) -> float:
    found = release_by(data, "group", schema=schema(), epsilon=1e9, mechanism="matrix-laplace")
    return sum(made.count() for made in found.values())


def test_all_levels_are_one_reading() -> None:
    moving = Moving()
    assert counts(moving) == pytest.approx(counts(table()), abs=0.5)
    assert moving.readings == 1


def test_control_with_a_reading_for_each_level_a_row_that_moves_would_be_in_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dpcov.api.grouped.Kept", lambda source, *_, **__: source)
    assert counts(Moving()) == pytest.approx(counts(table()) + len(LEVELS) - 1, abs=0.5)


def test_a_level_depends_on_the_cell_alone() -> None:
    prepared = prepare_by(table(), "group", Request(schema=schema(), epsilon=1.0))
    counts = [request.rows.second_moments()[0].unit_count for request in prepared.levels.values()]
    assert sum(counts) == len(table())
    whole = Rows(schema(), open_source(table(), schema().file, ())).second_moments()[0]
    assert whole.unit_count == len(table())


def test_an_option_of_a_mechanism_that_is_called_by_reaches_it() -> None:
    options = {"by": "separate-laplace"}
    request = Request(schema=schema(), epsilon=1.0, mechanism="adaptive-laplace", options=options)
    prepared = prepare_by(table(), "group", request)
    assert {request.mechanism.by for request in prepared.levels.values()} == {"separate-laplace"}
