"""Lists of rows, and of targets: no element decides their shape, nor whether they are read."""

from __future__ import annotations

from collections import UserList, deque
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

import dpcov
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import PureDP
from dpcov.errors import DpcovError
from dpcov.estimators import PrivateCovariance, PrivateGraphicalLasso, PrivatePCA, PrivateRidge
from dpcov.rows.schema import Schema
from dpcov.rows.sources import array, training
from dpcov.rows.sources.array import UNKNOWN_WIDTH_MESSAGE, ObjectSource
from dpcov.rows.sources.training import training_table
from outcomes import Book, Outcome, outcome_of
from tables_for_tests import PLANTED

COUNT = 12
ROWS = [[at % 5, (at * at) % 7 + 0.5] for at in range(COUNT)]
TARGET = [(at * 3) % 8 for at in range(COUNT)]
BOUNDS = [0, 0], [9, 9]
SCHEMA = Schema.from_bounds(*BOUNDS, ["a", "b"])
ASKED: dict[str, Any] = {"epsilon": 1e5, "mechanism": "laplace", "denoise": "none"}
ESTIMATORS = [
    PrivateCovariance(BOUNDS, **ASKED),
    PrivateGraphicalLasso(BOUNDS, **ASKED, alpha=0.1),
    PrivatePCA(BOUNDS, **ASKED),
    PrivateRidge(BOUNDS, (0, 9), **ASKED, alpha=0.1),
]
BY_NAME = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)


class Broken(list):  # type: ignore[type-arg]
    """A list that breaks the rules of lists, with a message that quotes a row."""

    def __len__(self) -> int:
        raise ValueError(PLANTED)

    def __iter__(self) -> Any:
        raise KeyError(PLANTED)


class Pretender:
    """What raises when anybody asks what it is."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError(PLANTED)


ODD = [
    *(None, 7, "x", "", [], [1], [1, 2, 3], (1, 2), "12", {"a": 1}, {1, 2}, object(), range(2)),
    *(np.array([1.0, 2.0]), np.array([[1, 2]]), np.array(5), np.zeros(9), [[1, 2]], [[1], [2]]),
    *(["x", None], [PLANTED] * 2, [float("nan"), float("inf")], [10**400, 1j], pd.Series([1, 2])),
    *(Broken([1, 2]), Pretender()),
]
PLACES = (0, COUNT // 2, COUNT - 1)


def swapped(values: list[Any], at: int, odd: Any) -> list[Any]:
    return [*values[:at], odd, *values[at + 1 :]]


def differing(usual: Outcome, others: list[Outcome]) -> int:
    """Count the outcomes that differ, after a check that none of them quotes a row."""
    assert not any(PLANTED in str(one) for one in others)
    return sum(one != usual for one in others)


def fits(estimator: Any, tables: list[tuple[Any, ...]], folder: Path) -> list[Outcome]:
    book, found = Book(folder), []
    for table in tables:
        private = clone(estimator).set_params(ledger=book.ledger("")[1])
        found.append(
            outcome_of(lambda own=private, reported=table: own.fit(*reported).release_, book)
        )
    return found


def odd_rows() -> list[tuple[Any, Any]]:
    return [(swapped(ROWS, at, odd), TARGET) for at in PLACES for odd in ODD]


def odd_targets() -> list[tuple[Any, Any]]:
    return [(ROWS, swapped(TARGET, at, odd)) for at in PLACES for odd in ODD]


@BY_NAME
def test_no_row_of_a_list_decides_how_a_fit_ends(estimator: Any, tmp_path: Path) -> None:
    usual, *others = fits(estimator, [(ROWS, TARGET), *odd_rows()], tmp_path)
    assert usual.spent
    assert differing(usual, others) == 0


def test_no_target_of_a_list_decides_how_a_fit_ends(tmp_path: Path) -> None:
    usual, *others = fits(ESTIMATORS[-1], [(ROWS, TARGET), *odd_targets()], tmp_path)
    assert usual.spent
    assert differing(usual, others) == 0


def test_no_row_of_several_targets_and_no_weight_decides_how_a_fit_ends(tmp_path: Path) -> None:
    both, weights = [[cell, cell] for cell in TARGET], [1.0] * COUNT
    odd = [(at, odd) for at in PLACES for odd in ODD]
    model = clone(ESTIMATORS[-1]).set_params(target_bounds=([0, 0], [9, 9]), largest_weight=2.0)
    tables: list[tuple[Any, ...]] = [(ROWS, both, weights)]
    tables += [(ROWS, swapped(both, *one), weights) for one in odd]
    tables += [(ROWS, both, swapped(weights, *one)) for one in odd]
    usual, *others = fits(model, tables, tmp_path)
    assert usual.spent
    assert differing(usual, others) == 0


@pytest.mark.parametrize("asked", [{"schema": SCHEMA}, {"lower": [0, 0], "upper": [9, 9]}])
def test_no_row_of_a_list_decides_how_a_release_ends(asked: Any, tmp_path: Path) -> None:
    book = Book(tmp_path)
    usual, *others = (
        outcome_of(
            lambda rows=rows: dpcov.release(rows, ledger=book.ledger("")[1], **ASKED, **asked), book
        )
        for rows, _ in [(ROWS, None), *odd_rows()]
    )
    assert usual.spent
    assert differing(usual, others) == 0


def test_control_a_reader_that_inspects_the_first_row_is_caught(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = ObjectSource.__init__

    def inspects(self: Any, data: Any, declared: tuple[str, ...]) -> None:
        if len(data) and (not isinstance(data[0], list) or len(data[0]) != len(declared)):
            raise training.EstimatorError("A list of rows is needed.")
        plain(self, data, declared)

    tables = [(ROWS, TARGET), *odd_rows()]
    monkeypatch.setattr(ObjectSource, "__init__", inspects)
    usual, *others = fits(ESTIMATORS[0], tables, tmp_path)
    assert 10 < differing(usual, others) < len(ODD)


def test_control_a_reader_that_inspects_every_row_is_caught(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(array, "_cells", lambda row, width: [row[j] for j in range(width)])
    usual, *others = fits(ESTIMATORS[0], [(ROWS, TARGET), *odd_rows()], tmp_path)
    assert differing(usual, others) > len(ODD)


def test_control_a_reader_that_inspects_the_first_target_is_caught(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = training._shaped

    def inspects(data: Any, dimensions: tuple[int, ...]) -> Any:
        if 1 in dimensions and not np.isscalar(data[0]):
            raise training.EstimatorError("The target must be 1D.")
        return plain(data, dimensions)

    monkeypatch.setattr(training, "_shaped", inspects)
    usual, *others = fits(ESTIMATORS[-1], [(ROWS, TARGET), *odd_targets()], tmp_path)
    assert 10 < differing(usual, others) < len(ODD)


# What is read


def published(rows: Any, target: Any = None, bounds: Any = BOUNDS) -> Any:
    """Return the exact moments, up to noise that is the same for every seed."""
    asked = ASKED | {"epsilon": 1e9, "random_state": 0}
    if target is None:
        return PrivateCovariance(bounds, **asked).fit(rows).release_.published
    model = PrivateRidge(bounds, (0, 9), **asked, alpha=0.1)
    return model.fit(rows, target).release_.published


@pytest.mark.parametrize("odd", [None, 7, "x", [], [1], [1, 2, 3], [[1, 2]], Broken([1, 2])])
@pytest.mark.parametrize("at", PLACES)
def test_what_is_no_row_is_a_row_whose_cells_are_missing(odd: Any, at: int) -> None:
    expected = published(swapped(ROWS, at, [None, None]))
    assert np.array_equal(published(swapped(ROWS, at, odd)), expected)
    assert not np.array_equal(published(ROWS), expected)


@pytest.mark.parametrize("whole", [tuple, lambda rows: np.array([*rows, None], object)[:-1]])
def test_tuples_and_arrays_of_lists_are_lists(whole: Any) -> None:
    assert np.array_equal(published(whole(ROWS)), published(ROWS))
    assert np.array_equal(published([tuple(row) for row in ROWS]), published(ROWS))
    assert np.array_equal(published([np.array(row) for row in ROWS]), published(ROWS))
    assert np.array_equal(published(np.array(ROWS)), published(ROWS))
    assert np.array_equal(published(np.array(ROWS, object), None, (0, 9)), published(ROWS))


def test_of_one_column_a_bare_cell_is_a_row() -> None:
    column, one = [row[0] for row in ROWS], ([0], [9])
    expected = published(np.array(column)[:, None], None, one)
    assert np.array_equal(published(column, None, one), expected)
    assert np.array_equal(published([[cell] for cell in column], None, one), expected)
    odd = published(swapped(column, 3, [1, 2]), None, one)
    assert np.array_equal(odd, published(swapped(column, 3, None), None, one))


def test_a_target_of_one_cell_is_that_cell_and_any_other_is_missing() -> None:
    expected = published(ROWS, np.array(TARGET))
    assert np.array_equal(published(ROWS, TARGET), expected)
    assert np.array_equal(published(ROWS, [[cell] for cell in TARGET]), expected)
    mixed = [cell if at % 2 else (cell,) for at, cell in enumerate(TARGET)]
    assert np.array_equal(published(ROWS, mixed), expected)
    missing = published(ROWS, swapped(TARGET, 2, None))
    for odd in ([], [1, 2], [[1]], "x", object()):
        assert np.array_equal(published(ROWS, swapped(TARGET, 2, odd)), missing)


TARGETS = {
    "list": TARGET,
    "array": np.array(TARGET),
    "array of texts": np.array(TARGET).astype(str),
    "column": np.array(TARGET)[:, None],
    "frame": pd.DataFrame({"y": TARGET}),
    "Series": pd.Series(TARGET),
    "Series of objects": pd.Series(TARGET, dtype=object),
    "nullable Series": pd.Series(TARGET, dtype="Int64"),
    "categories": pd.Series(TARGET).astype("category"),
    "Index": pd.Index(TARGET),
    "polars": pl.Series("y", TARGET),
    "Arrow": pa.array(TARGET),
    "Arrow in chunks": pa.chunked_array([TARGET[:5], TARGET[5:]]),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_every_target_is_read_by_the_same_reader(kind: str) -> None:
    assert np.array_equal(published(ROWS, TARGETS[kind]), published(ROWS, TARGET))


@pytest.mark.parametrize(
    "target",
    [
        pd.Series([*TARGET[:-1], None], dtype="Int64"),
        pd.Series([*TARGET[:-1], None], dtype=object),
        pl.Series([*TARGET[:-1], None]),
        np.ma.array(TARGET, mask=[False] * (COUNT - 1) + [True]),
        np.array([*TARGET[:-1], np.nan]),
        np.array([*TARGET[:-1], PLANTED], object),
    ],
)
def test_a_missing_target_is_that_of_one_row_alone(target: Any) -> None:
    assert np.array_equal(published(ROWS, target), published(ROWS, [*TARGET[:-1], None]))


def test_a_column_of_targets_keeps_what_is_masked() -> None:
    masked = np.ma.array(TARGET, mask=[False] * (COUNT - 1) + [True])[:, None]
    assert np.array_equal(published(ROWS, masked), published(ROWS, [*TARGET[:-1], None]))


# What is refused, by the arguments' types and shapes alone


LISTS = [ROWS, tuple(ROWS), [], [[]], [1, 2], ["x"], [None, *ROWS], np.array([None, [1]], object)]


@pytest.mark.parametrize("rows", LISTS)
@BY_NAME
def test_a_list_needs_bounds_that_count_its_columns(
    estimator: Any, rows: Any, tmp_path: Path
) -> None:
    ledger = Ledger.create(tmp_path / "l.db", PureDP(1e9))
    for bounds in ((0, 9), {"x0": (0, 9), "x1": (0, 9)}):
        private = clone(estimator).set_params(bounds=bounds, ledger=ledger)
        with pytest.raises(DpcovError) as caught:
            private.fit(rows, [1] * len(rows))
        assert str(caught.value) == UNKNOWN_WIDTH_MESSAGE
    with pytest.raises(DpcovError) as caught:
        dpcov.release(rows, lower=0, upper=9, ledger=ledger, **ASKED)
    assert str(caught.value) == UNKNOWN_WIDTH_MESSAGE
    assert not ledger.account().entries


@pytest.mark.filterwarnings("ignore::dpcov.estimators.base.NullModelWarning")
@pytest.mark.parametrize("rows", LISTS)
def test_a_stated_number_of_columns_takes_the_place_of_bounds_that_count_them(rows: Any) -> None:
    """Rows of another length are rows of missing values, whichever comes first."""
    for table in (rows, [[1, 2, 3], *rows, [1], "x", 7]):
        stated = dpcov.release(table, lower=0, upper=9, n_features=2, seed=1, **ASKED)
        counted = dpcov.release(table, lower=[0, 0], upper=[9, 9], seed=1, **ASKED)
        assert np.array_equal(stated.published, counted.published)
        found = [
            PrivateCovariance(bounds=bounds, n_features=count, epsilon=1.0, random_state=1)
            .fit(table)
            .covariance_
            for bounds, count in (((0, 9), 2), (([0, 0], [9, 9]), None), (([0, 0], [9, 9]), 2))
        ]
        assert np.array_equal(found[0], found[1])
        assert np.array_equal(found[0], found[2])


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2", 3])
def test_another_number_of_columns_is_refused_before_anything_is_spent(
    count: Any, tmp_path: Path
) -> None:
    ledger = Ledger.create(tmp_path / "l.db", PureDP(1e9))
    array = np.array(ROWS, float)
    with pytest.raises(DpcovError, match="n_features"):
        dpcov.release(array, lower=0, upper=9, n_features=count, ledger=ledger, **ASKED)
    with pytest.raises(DpcovError, match="n_features"):
        PrivateCovariance(bounds=(0, 9), n_features=count, epsilon=1.0, ledger=ledger).fit(array)
    assert not ledger.account().entries


def test_one_bound_for_each_column_counts_them_where_the_other_is_for_all() -> None:
    expected = published(ROWS)
    assert np.array_equal(published(ROWS, None, (0, [9, 9])), expected)
    assert np.array_equal(published(ROWS, None, (np.zeros(2), np.float64(9))), expected)


@BY_NAME
def test_an_empty_list_ends_as_an_empty_array(estimator: Any, tmp_path: Path) -> None:
    tables = [([], []), (np.empty((0, 2)), np.empty(0)), ((), ())]
    one, *others = fits(estimator, tables, tmp_path)
    assert one.spent
    assert all(other.spent == one.spent for other in others)


@pytest.mark.parametrize("odd", [None, ODD])
def test_a_table_and_a_target_of_two_lengths_are_refused_whatever_they_hold(odd: Any) -> None:
    for rows, target in ((ROWS, TARGET[:-1]), (ROWS[1:], TARGET), ([], TARGET), (ROWS, [])):
        broken = swapped(rows, 0, odd) if rows else rows
        for table in (rows, broken):
            with pytest.raises(DpcovError, match="must have the same number of rows"):
                clone(ESTIMATORS[-1]).fit(table, target)


@pytest.mark.parametrize("kind", [deque, UserList, iter, str, set])
def test_other_sequences_are_refused_by_their_type(kind: Any) -> None:
    messages = set()
    for rows in ([(1, 2), (3, 4)], [(1, 2), (3,)], [(1, 2)], []):
        with pytest.raises(DpcovError) as caught:
            clone(ESTIMATORS[0]).fit(kind(rows))
        messages.add(str(caught.value))
    assert len(messages) == 1
    with pytest.raises(DpcovError, match="Pass an array, a data frame or a list"):
        clone(ESTIMATORS[-1]).fit(ROWS, kind(map(tuple, ROWS)))


def test_a_training_table_is_opened_without_reading_its_rows() -> None:
    class Unseen(list):  # type: ignore[type-arg]
        def __getitem__(self, at: Any) -> Any:
            raise AssertionError("looked at")

        __iter__ = __getitem__

    table = training_table(Unseen(ROWS), Unseen(TARGET), ("a", "b"))
    assert table.names == ("a", "b", "y")
