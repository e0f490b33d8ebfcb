"""Survey weights: weighted moments at the sensitivity of plain ones (docs/proofs/weights.md)."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpcov
from dpcov.errors import MechanismError, MechanismRefused, SchemaError, SourceError
from dpcov.mechanisms import MECHANISMS
from dpcov.releases import Release
from dpcov.rows.encoder import Encoder
from dpcov.rows.moment import FINE_UNITS, UNITS, LinearMap
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from strategies import (
    arrow_columns,
    encode,
    lattice_of,
    moment,
    numeric,
    same,
    squared_norms,
    tables,
)
from tables_for_tests import assert_same

MAXIMUM = 40.0
GENERATOR = np.random.default_rng(0)
WEIGHTS = GENERATOR.uniform(0.5, MAXIMUM, 3000)
ROWS = np.clip(GENERATOR.standard_normal((3000, 2)) + [0.05, 0.02] * WEIGHTS[:, None], -6, 8)
FRAME = pd.DataFrame({"a": ROWS[:, 0], "b": ROWS[:, 1], "w": WEIGHTS})


def weighted(maximum: float = MAXIMUM, **fields: Any) -> Schema:
    columns = {"a": numeric(-6, 8), "b": numeric(-6, 8)}
    weight = {"column": "w", "maximum": maximum}
    return Schema.parse({"columns": columns, "weight": weight, **fields})


def plain(**fields: Any) -> Schema:
    return Schema.parse(weighted(**fields).model_dump() | {"weight": None})


def release(frame: Any = FRAME, schema: Schema | None = None, **request: Any) -> Release:
    settings = {"epsilon": 1e9, "seed": 0} | request
    return dpcov.release(frame, schema=schema or weighted(), **settings)


@st.composite
def weighted_tables(draw: Any) -> tuple[pa.Table, Schema]:
    """Draw any table with any schema and a column of weights of any numeric type."""
    table, schema = draw(tables())
    table = table.append_column("w", draw(arrow_columns(table.num_rows)))
    maximum = draw(st.sampled_from([1e-99, 0.5, 1.0, 100.0, 1e99]))
    weight = {"column": "w", "maximum": maximum}
    return table, Schema.parse(schema.model_dump() | {"weight": weight})


@given(weighted_tables())
def test_any_row_with_any_weight_is_certified(drawn: tuple[pa.Table, Schema]) -> None:
    table, schema = drawn
    rows = encode(table, schema)
    lattice = lattice_of(schema)
    assert np.array_equal(rows, np.rint(rows))
    assert all(norm <= lattice.bound for norm in squared_norms(rows))
    features = squared_norms(rows[:, : lattice.features])
    assert all(norm <= lattice.side**2 for norm in features)


@given(weighted_tables(), st.booleans())
def test_a_weighted_row_depends_on_itself_alone(
    drawn: tuple[pa.Table, Schema], mapped: bool
) -> None:
    table, schema = drawn
    order = len(schema.features)
    linear_map = LinearMap.rounded(np.tri(order)) if mapped else None
    together = encode(table, schema, linear_map)
    for i in range(table.num_rows):
        assert np.array_equal(together[i], encode(table.slice(i, 1), schema, linear_map)[0])


def test_control_weights_over_their_mean_leave_the_ball() -> None:
    lattice = lattice_of(plain())
    table = pa.table({"a": [8.0], "b": [8.0]})
    row = encode(table, plain())[0]
    assert squared_norms([row])[0] <= lattice.bound
    share = MAXIMUM / WEIGHTS.mean()
    assert squared_norms([np.rint(row * np.sqrt(share))])[0] > lattice.bound


def test_the_largest_weight_is_no_weight() -> None:
    heavy = FRAME.assign(w=MAXIMUM)
    assert same(moment(heavy, weighted()), moment(heavy, plain()))


@pytest.mark.parametrize(("weight", "share"), [(10.0, 0.25), (40.0, 1.0), (41.0, 1.0)])
def test_a_row_counts_with_its_share_of_the_largest_weight(weight: float, share: float) -> None:
    table = pa.table({"a": [8.0], "b": [-3.0], "w": [weight]})
    whole = encode(table, plain())[0]
    assert np.array_equal(encode(table, weighted())[0], np.rint(whole * np.sqrt(share)))


@pytest.mark.parametrize("weight", [None, np.nan, 0.0, -1.0, -np.inf, "many", "NA"])
def test_a_weight_that_is_none_counts_nothing(weight: Any) -> None:
    table = pa.table({"a": [8.0], "b": [-3.0], "w": pa.array([weight])})
    assert not encode(table, weighted(missing=["NA"])).any()
    infinite = pa.table({"a": [8.0], "b": [-3.0], "w": [np.inf]})
    assert np.array_equal(encode(infinite, weighted()), encode(infinite, plain()))


def test_the_clip_comes_after_the_weight() -> None:
    long = pa.table({"a": [8.0], "b": [1.0], "w": [MAXIMUM / 4]})
    half = encode(long, weighted(radius=0.5))[0]
    assert np.allclose(half[:2] / UNITS, [1.0, 0.0], atol=1e-5)


def test_rows_kept_in_memory_are_weighted() -> None:
    table = pa.table({"a": [8.0, 8.0], "b": [1.0, 1.0], "w": [MAXIMUM / 4, MAXIMUM]})
    encoder = Encoder(weighted(), lattice_of(weighted()).relative())
    (batch,) = table.to_batches()
    rows, _ = encoder.fine_rows(batch)
    assert rows[0] / FINE_UNITS == pytest.approx(np.array([0.5, 1.0]) / np.sqrt(2))
    held = open_rows(table, weighted()).integer_rows()
    assert np.array_equal(held.rows, rows)
    assert held.roots is not None
    assert held.roots.tolist() == [0.5, 1.0]
    assert open_rows(table, plain()).integer_rows().roots is None


def test_moments_are_weighted() -> None:
    made = release()
    assert np.allclose(made.mean(), np.average(ROWS, axis=0, weights=WEIGHTS), atol=1e-3)
    expected = np.cov(ROWS.T, aweights=WEIGHTS, ddof=0)
    assert np.allclose(made.covariance(), expected, atol=1e-3)
    assert not np.allclose(made.mean(), ROWS.mean(axis=0), atol=0.05), "the weights matter here"
    assert made.total_weight() == pytest.approx(WEIGHTS.sum(), rel=1e-4)
    assert made.count() == pytest.approx(WEIGHTS.sum() / MAXIMUM, rel=1e-4)


def released_by(mechanism: str) -> Release:
    """Release with a budget that the mechanism accepts, and with as many rows as it needs."""
    budgets = [
        {"epsilon": 1e4},
        {"epsilon": 1e3, "delta": 1e-3},  # no pure differential privacy
        {"epsilon": 30.0, "delta": 1e-2},  # delta must not be small beside epsilon
    ]
    options = {"components": 3} if mechanism == "exponential-pca" else {}  # else it has no means
    for budget, copies in product(budgets, [1, 20]):
        try:
            made = release(pd.concat([FRAME] * copies), mechanism=mechanism, **budget, **options)
            assert made.not_released is None
            return made
        except (MechanismError, MechanismRefused):
            continue
    raise AssertionError(f"{mechanism} refuses")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_weighs_its_rows(mechanism: str) -> None:
    made = released_by(mechanism)
    errors = np.abs(made.mean() - np.average(ROWS, axis=0, weights=WEIGHTS))
    assert np.all(errors < 0.1)
    assert np.abs(made.mean() - ROWS.mean(axis=0)).max() > 0.2, "without weights it is far off"
    copies = 20 if made.total_weight() > 5 * WEIGHTS.sum() else 1
    assert made.total_weight() == pytest.approx(copies * WEIGHTS.sum(), rel=0.1)
    assert abs(WEIGHTS.sum() - MAXIMUM * len(WEIGHTS)) > 0.4 * MAXIMUM * len(WEIGHTS)


def test_the_largest_weight_cancels_out() -> None:
    one, other = release(), release(schema=weighted(3 * MAXIMUM))
    assert np.allclose(one.mean(), other.mean(), atol=1e-3)
    assert np.allclose(one.covariance(), other.covariance(), atol=2e-3)
    assert one.total_weight() == pytest.approx(other.total_weight(), rel=1e-3)


@pytest.mark.parametrize("mechanism", ["matrix-laplace", "gaussian"])
def test_a_public_number_of_rows_is_no_sum_of_weights(mechanism: str) -> None:
    budget = {"epsilon": None, "rho": 1e9} if mechanism == "gaussian" else {"epsilon": 1e9}
    made = release(neighbors="replace-one", mechanism=mechanism, **budget)
    assert (made.unit_count, made.row_count) == (len(FRAME), None)
    assert made.count() == pytest.approx(WEIGHTS.sum() / MAXIMUM, rel=1e-4)
    assert np.allclose(made.covariance(), np.cov(ROWS.T, aweights=WEIGHTS, ddof=0), atol=1e-3)


def test_the_effective_number_of_rows_is_not_overstated() -> None:
    kish = WEIGHTS.sum() ** 2 / (WEIGHTS**2).sum()
    assert release().count() < kish


def test_noise_does_not_depend_on_weights() -> None:
    asked = {"epsilon": 1.0, "mechanism": "matrix-laplace"}
    one, other = release(**asked), release(schema=plain(), **asked)
    assert one.noise == other.noise
    assert one.guarantee == other.guarantee


def test_neighbours_differ_by_one_row_within_the_bound() -> None:
    schema = weighted()
    change = moment(FRAME, schema).units - moment(FRAME[:-1], schema).units
    row = encode(pa.Table.from_pandas(FRAME[-1:]), schema)[0].astype(int).astype(object)
    assert (change == np.outer(row, row)).all()
    assert np.trace(change) <= lattice_of(schema).bound


def test_persons_have_weighted_rows() -> None:
    frame = FRAME.assign(person=np.arange(len(FRAME)) // 2)
    schema = weighted(unit={"column": "person", "type": "integer", "max_rows": 2})
    found = moment(frame, schema)
    assert (found.units == moment(FRAME, weighted()).units).all()
    assert found.unit_count == len(FRAME) // 2


def test_a_weighted_release_survives_its_file(tmp_path: Path) -> None:
    made = release()
    made.save(tmp_path / "r.json")
    loaded = Release.load(tmp_path / "r.json")
    assert_same(loaded, made)
    assert loaded.schema.weight == weighted().weight


def test_the_command_line_prints_the_sum_of_the_weights(tmp_path: Path, capsys: Any) -> None:
    from dpcov import cli

    FRAME.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "s.toml").write_text(
        '[weight]\ncolumn = "w"\nmaximum = 40\n'
        + "".join(f"[columns.{c}]\nkind = 'numeric'\nlower = -6\nupper = 8\n" for c in "ab")
    )
    line = f"release {tmp_path}/t.csv --schema {tmp_path}/s.toml --epsilon 1e9 --out {tmp_path}/r"
    for arguments in (line, f"show {tmp_path}/r"):
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments.split())
        assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert f"{WEIGHTS.sum() / MAXIMUM:.0f} times the largest weight (private)" in shown


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": {"column": "a", "maximum": 1}}, "'a' is the weight, so it cannot be a feature"),
        ({"weight": {"column": "w"}}, "weight.maximum"),
        ({"weight": {"column": "w", "maximum": 0}}, "above"),
        ({"weight": {"column": "w", "maximum": np.inf}}, "below"),
        ({"file": {"header": False}}, "needs a declaration of the weight column"),
    ],
)
def test_a_bad_declaration_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.parse(weighted().model_dump() | change)


def test_a_column_of_weights_must_be_there_and_hold_numbers() -> None:
    with pytest.raises(SourceError, match="no column 'w'"):
        release(FRAME.drop(columns="w"))
    with pytest.raises(SourceError, match="'w' has the type"):
        release(FRAME.assign(w=pd.Timestamp("2020-01-01")))
