"""The short functions: what they ask for, in which order they spend, and what they refuse."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpcov
from dpcov import api
from dpcov.api.ledger import Ledger
from dpcov.api.request import Request
from dpcov.core.entropy import Entropy
from dpcov.core.privacy import PureDP
from dpcov.errors import (
    BudgetError,
    BudgetExceededError,
    DpcovError,
    LedgerError,
    MechanismError,
    ReleaseError,
    SchemaError,
    SourceError,
)
from dpcov.mechanisms.choice import GOALS, SETTINGS
from dpcov.rows.sources.rows import Rows
from tables_for_tests import assert_same, assert_same_elsewhere, correlated, write_people

DATA = correlated(300, 3)
BOUNDS = {"lower": -1, "upper": 1}


def fresh_process(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def test_import_is_light() -> None:
    heavy = "{'numpy', 'scipy', 'pyarrow', 'pydantic', 'sqlite3', 'cryptography', 'rich', 'typer'}"
    assert fresh_process(f"import dpcov, sys; print({heavy} & set(sys.modules))") == "set()"


def test_an_analysis_of_a_file_loads_no_reader_of_rows(tmp_path: Path) -> None:
    dpcov.release(DATA, **BOUNDS, epsilon=1.0, seed=0).save(tmp_path / "r.json")
    loaded = "{'pyarrow', 'dpcov.rows.cells', 'dpcov.rows.sources'} & set(sys.modules)"
    code = f"import atexit, sys; atexit.register(lambda: print({loaded})); "
    run = f"from dpcov.cli import main; main(['correlation', {str(tmp_path / 'r.json')!r}])"
    assert fresh_process(code + run).endswith("set()")


@pytest.mark.parametrize(
    "data",
    [
        DATA,
        pd.DataFrame(DATA, columns=["x0", "x1", "x2"]),
        pl.DataFrame(DATA, schema=["x0", "x1", "x2"]),
        pa.table({f"x{j}": DATA[:, j] for j in range(3)}),
        "file",
        Path("file"),
        "relation",
        DATA.tolist(),
        DATA.astype(object),
    ],
    ids=["array", "pandas", "polars", "pyarrow", "str", "Path", "duckdb", "list", "objects"],
)
def test_every_kind_of_table_gives_the_same_release(tmp_path: Path, data) -> None:
    frame = pd.DataFrame(DATA, columns=["x0", "x1", "x2"])
    if isinstance(data, str | Path):
        path = tmp_path / "x.parquet"
        frame.to_parquet(path)
        kind = type(data)
        data = duckdb.sql(f"SELECT * FROM '{path}'") if data == "relation" else kind(path)  # noqa: S608
    each = {name: [bound] * 3 for name, bound in BOUNDS.items()}  # a list has no width of its own
    found = dpcov.release(data, **each, epsilon=1.0, seed=1)
    compare = assert_same if data is DATA else assert_same_elsewhere
    compare(found, dpcov.release(DATA, **BOUNDS, epsilon=1.0, seed=1))


@pytest.mark.parametrize("bounds", [{}, {"lower": 0}, {"upper": 1}])
def test_bounds_are_never_taken_from_the_data(bounds) -> None:
    with pytest.raises(SchemaError, match="The table has no bounds"):
        dpcov.release(DATA, **bounds, epsilon=1.0)


def test_a_schema_and_bounds_exclude_each_other(tmp_path: Path) -> None:
    table, schema = write_people(tmp_path)
    with pytest.raises(SchemaError, match="either a schema, or lower and upper"):
        dpcov.release(table, schema=schema, lower=0, epsilon=1.0)


def test_bounds_may_differ_by_column() -> None:
    made = dpcov.release(DATA, lower=[-1, -2, -3], upper=np.array([1, 2, 3]), epsilon=1.0)
    assert [column.upper for column in made.schema.encoded_columns.values()] == [1, 2, 3]
    with pytest.raises(SchemaError, match="each of 3 columns"):
        dpcov.release(DATA, lower=[-1, -1], upper=1, epsilon=1.0)


def test_radius_and_intercept_override_the_schema(tmp_path: Path) -> None:
    table, path = write_people(tmp_path)
    for schema in (path, str(path), dpcov.Schema.load(path)):
        made = dpcov.release(table, schema=schema, radius=1.25, intercept=0.5, epsilon=1.0)
        assert (made.schema.radius, made.schema.intercept) == (1.25, 0.5)
    assert not dpcov.release(table, schema=path, intercept=0, epsilon=1.0).has_intercept
    with pytest.raises(SchemaError, match="radius"):
        dpcov.release(table, schema=path, radius=-1.0, epsilon=1.0)


@pytest.mark.parametrize(
    ("request_", "error", "message"),
    [
        ({}, BudgetError, "State a privacy budget"),
        ({"epsilon": 0}, BudgetError, "finite number above 0"),
        ({"epsilon": 1, "delta": 1}, BudgetError, "delta must be below 1"),
        ({"epsilon": 1, "rho": 1}, BudgetError, "Give rho alone"),
        ({"epsilon": 1, "mechanism": "magic"}, MechanismError, "'magic' does not exist"),
        ({"epsilon": 1, "mechanism": "gaussian"}, MechanismError, "needs a delta or rho"),
        ({"rho": 1, "mechanism": "matrix-laplace"}, MechanismError, "needs epsilon"),
        ({"epsilon": 1, "neighbors": "swap"}, MechanismError, "add-remove, replace-one"),
        (
            {"epsilon": 1, "denoise": "magic"},
            ReleaseError,
            "or 'shrink', not 'magic'",
        ),
        ({"epsilon": 1, "trace_share": 1.0}, MechanismError, "trace_share"),
        ({"epsilon": 1, "sigma": 1.0}, MechanismError, "no option 'sigma'"),
        ({"epsilon": 1e-15}, MechanismError, "cannot generate noise"),
        ({"rho": 1e-30}, MechanismError, "cannot generate noise"),
        ({"epsilon": 2.0}, BudgetExceededError, "Not enough budget"),
        ({"epsilon": 1, "seed": 0}, LedgerError, "seeded release"),
        ({"epsilon": 1, "dataset": "other"}, LedgerError, "no data set 'other'"),
        ({"epsilon": 1, "neighbors": "replace-one"}, LedgerError, "--neighbors add-remove"),
    ],
)
def test_what_is_refused_reads_draws_and_spends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_, error: type[DpcovError], message
) -> None:
    ledger = Ledger.create(tmp_path / "x.ledger", PureDP(1.0))
    if "rho" in request_ and "epsilon" not in request_:
        ledger = Ledger.create(tmp_path / "y.ledger", dpcov.ZCDP(9.0))
    touched: list[str] = []
    monkeypatch.setattr(Rows, "second_moments", lambda *_, **__: touched.append("read"))
    monkeypatch.setattr(Entropy, "words", lambda *_: touched.append("drew"))
    with pytest.raises(error, match=message):
        dpcov.release(DATA, **BOUNDS, ledger=ledger, **request_)
    assert touched == []
    assert not ledger.account().entries


@pytest.mark.parametrize(
    "data", [3, [1.0], None, {"x": [1]}, np.zeros(3), np.zeros((2, 2), "M8[s]")], ids=repr
)
def test_data_of_an_unknown_kind_is_refused(data) -> None:
    with pytest.raises(SourceError):
        dpcov.release(data, **BOUNDS, epsilon=1.0)


def test_the_spend_is_on_disk_before_noise_is_drawn_and_data_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.ledger"
    Ledger.create(path, PureDP(1.0))
    order: list[tuple[str, float]] = []

    def note(what, real):
        def noted(*arguments, **named):
            order.append((what, Ledger.open(path).account().spent["epsilon"]))
            return real(*arguments, **named)

        return noted

    monkeypatch.setattr(Entropy, "words", note("draw", Entropy.words))
    for asked in ("second_moments", "norm_counts"):
        monkeypatch.setattr(Rows, asked, note("read", getattr(Rows, asked)))
    dpcov.release(DATA, **BOUNDS, epsilon=0.4, ledger=path)
    assert {spent for _, spent in order} == {0.4}
    steps = [what for what, _ in itertools.groupby(what for what, _ in order)]
    assert steps == 4 * ["draw", "read"]


def test_a_release_that_fails_after_the_reservation_stays_spent(tmp_path: Path) -> None:
    class Broken(dpcov.mechanisms.MatrixLaplace):
        def run(self, rows, laws, entropy):
            raise MechanismError("broken on purpose")

    ledger = Ledger.create(tmp_path / "x.ledger", PureDP(1.0))
    request = Request(**BOUNDS, epsilon=0.4, ledger=ledger)
    broken = replace(api.prepare(DATA, request), mechanism=Broken())
    with pytest.raises(MechanismError, match="on purpose"):
        broken.run()
    assert ledger.account().spent == {"epsilon": 0.4}


def test_the_guarantee_booked_is_that_of_the_release(tmp_path: Path) -> None:
    ledger = Ledger.create(
        tmp_path / "x.ledger", dpcov.ApproxDP(3.0, 1e-6), dataset="wards", count="sums"
    )
    for request in ({"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-9, "mechanism": "gaussian"}):
        made = dpcov.release(DATA, **BOUNDS, ledger=ledger.path, dataset="wards", **request)
        entry = ledger.account().entries[-1]
        assert (entry.guarantee, entry.note) == (made.guarantee, made.mechanism)


def stream() -> pa.RecordBatchReader:
    return pa.table({f"x{j}": column for j, column in enumerate(DATA.T)}).to_reader()


@pytest.mark.parametrize("data", [lambda: DATA, stream], ids=["array", "stream"])
def test_auto_takes_rows_about_their_mean_if_they_come_once_too(data: Any) -> None:
    for budget in ({"epsilon": 1.0}, {"rho": 1.0}, {"epsilon": 1.0, "delta": 1e-6}):
        ready = api.prepare(data(), Request(**BOUNDS, **budget))
        assert ready.mechanism.name == "standardized"
        assert "means" in ready.reason
        assert ready.run().unit_count is None


def test_a_stream_gives_the_release_of_its_table() -> None:
    asked = {**BOUNDS, "epsilon": 1.0, "seed": 1}
    assert_same_elsewhere(dpcov.release(stream(), **asked), dpcov.release(DATA, **asked))


def test_auto_takes_the_mechanism_with_less_noise_elsewhere_and_says_why() -> None:
    def chosen(data=DATA, **request) -> tuple[str, str]:
        prepared = api.prepare(data, Request(**BOUNDS, radius="private", **request))
        return prepared.mechanism.name, prepared.reason

    assert chosen(epsilon=1.0)[0] == "matrix-laplace"
    assert chosen(rho=1.0)[0] == "gaussian"
    name, reason = chosen(epsilon=1.0, delta=1e-6)
    assert name in reason
    wide = chosen(np.zeros((2, 400)), epsilon=1.0, delta=1e-6)[0]
    assert {name, wide} == {"matrix-laplace", "gaussian"}


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"rho": 0.1}], ids=str)
def test_every_goal_takes_rows_about_their_means(goal: str, budget: Any) -> None:
    def chosen(data: Any, **more: Any) -> str:
        request = Request(**BOUNDS, **budget, goal=goal, **more)
        return api.prepare(data, request).mechanism.name

    assert chosen(DATA) == "standardized"
    assert chosen(DATA, intercept=0.0) != "standardized"
    assert chosen(DATA, mechanism="matrix-laplace" if "epsilon" in budget else "gaussian") in (
        "matrix-laplace",
        "gaussian",
    )
    assert chosen(stream()) == "standardized"


def test_the_moment_as_a_whole_is_better_with_its_goal() -> None:
    generator = np.random.default_rng(0)
    table = (generator.random((4000, 5)) < [0.5, 0.3, 0.1, 0.03, 0.01]).astype(float)
    exact = np.cov(table.T)

    def made(goal: str, budget: dict[str, float], seed: int) -> Any:
        found = dpcov.release(table, lower=0, upper=1, goal=goal, seed=seed, **budget)
        return found.covariance()

    for budget in ({"epsilon": 1.0}, {"rho": 0.5}):
        whole, all_alike = (
            np.mean([np.linalg.norm(made(goal, budget, s) - exact) for s in range(8)])
            for goal in ("frobenius", "all")
        )
        assert whole < 0.8 * all_alike


def test_correlations_and_regressions_are_better_where_more_rows_are_clipped(monkeypatch) -> None:
    """The columns have long tails. Control: with less clipping, both errors are larger."""
    generator = np.random.default_rng(0)
    table = generator.standard_t(3, size=(4000, 3)) + generator.standard_t(3, size=(4000, 1))
    table = np.clip(table + [0, 0, 1] * table[:, :1], -50, 50)
    exact, across = np.cov(table.T), np.corrcoef(table.T)
    slopes = np.linalg.solve(exact[:2, :2], exact[:2, 2])

    def errors(**asked: Any) -> Any:
        found = []
        for seed in range(16):
            made = dpcov.release(table, lower=-50, upper=50, rho=0.02, seed=seed, **asked)
            seen = made.covariance()
            off = np.linalg.solve(seen[:2, :2], seen[:2, 2]) - slopes
            found.append([np.linalg.norm(made.correlation() - across), np.linalg.norm(off)])
        return np.mean(found, axis=0)

    for_all = errors()
    with monkeypatch.context() as patch:
        patch.setitem(SETTINGS, "all", {"loss_weight": 3.0})
        fewer = errors()
    assert errors(goal="correlation")[0] < 0.8 * for_all[0]
    assert errors(goal="regression")[1] < 0.95 * for_all[1]
    assert np.all(for_all < 0.8 * fewer)


@pytest.mark.parametrize("goal", GOALS)
def test_the_goal_applies_to_the_mechanism_standardized(goal: str) -> None:
    request = Request(**BOUNDS, epsilon=1.0, goal=goal, mechanism="standardized")
    made = api.prepare(DATA, request).mechanism
    assert made == dpcov.mechanisms.Standardized(**SETTINGS[goal])
    other = replace(request, mechanism="matrix-laplace")
    assert api.prepare(DATA, other).mechanism == dpcov.mechanisms.MatrixLaplace()


@pytest.mark.parametrize("mechanism", ["auto", "standardized"])
def test_former_options_and_the_former_goal_still_work_with_a_warning(mechanism: str) -> None:
    asked = {**BOUNDS, "epsilon": 1.0, "seed": 1, "mechanism": mechanism}
    for name, value in SETTINGS["frobenius"].items():
        assert name not in dpcov.mechanisms.options_of("standardized")
        with pytest.warns(FutureWarning, match=f"^{name} is now goal. Version 0.5") as caught:
            made = dpcov.release(DATA, goal="correlation", **asked, **{name: value})
        assert caught[0].filename == __file__
        assert made.parameters[name] == value
    with pytest.warns(FutureWarning, match="goal relative is now goal all"):
        former = dpcov.release(DATA, goal="relative", **asked)
    assert np.array_equal(former.covariance(), dpcov.release(DATA, **asked).covariance())


def test_options_are_added_to_those_of_the_goal() -> None:
    request = Request(**BOUNDS, epsilon=1.0, goal="correlation")
    plain = api.prepare(DATA, request).mechanism
    assert plain != dpcov.mechanisms.Standardized()
    option = {"trace_share": 0.2}
    made = api.prepare(DATA, replace(request, options=option)).mechanism
    assert made == replace(plain, **option)


def test_correlations_are_better_with_their_goal() -> None:
    generator = np.random.default_rng(0)
    shared = generator.normal(size=(4000, 1))
    table = np.clip(0.4 + 0.05 * (shared + generator.normal(size=(4000, 5))), -1, 1)
    exact = np.corrcoef(table, rowvar=False)

    def error(**asked: str) -> float:
        made = [
            dpcov.release(table, lower=-1, upper=1, epsilon=1.0, seed=seed, **asked)
            for seed in range(5)
        ]
        return float(np.mean([np.abs(one.correlation() - exact).mean() for one in made]))

    rows_as_they_are = error(mechanism="matrix-laplace")
    assert error(goal="correlation") < 0.5 * rows_as_they_are
    assert error() < 0.5 * rows_as_they_are


def test_an_unknown_goal_is_refused() -> None:
    with pytest.raises(ReleaseError, match=r"goal must be .*'correlation'.*, not 'truth'"):
        dpcov.release(DATA, **BOUNDS, epsilon=1.0, goal="truth")


def test_mechanism_fields_are_keywords() -> None:
    for mechanism in ("auto", "matrix-laplace"):
        made = dpcov.release(DATA, **BOUNDS, epsilon=1.0, mechanism=mechanism, trace_share=0.25)
        assert made.parameters["trace_share"] == 0.25


def test_a_seed_repeats_and_marks_and_its_absence_does_neither(tmp_path: Path) -> None:
    seeded = [dpcov.release(DATA, **BOUNDS, epsilon=1.0, seed=0) for _ in range(2)]
    assert_same(*seeded)
    assert seeded[0].reproducible
    fresh = [dpcov.release(DATA, **BOUNDS, epsilon=1.0) for _ in range(2)]
    assert not fresh[0].reproducible
    assert not np.array_equal(fresh[0].published, fresh[1].published)
    seeded[0].save(tmp_path / "x.json")
    assert "NOT PRIVATE" in dpcov.load(tmp_path / "x.json").guarantee_in_words()


def test_an_empty_table_gives_a_release() -> None:
    made = dpcov.release(np.zeros((0, 3)), **BOUNDS, epsilon=1.0)
    assert made.correlation().shape == (3, 3)
