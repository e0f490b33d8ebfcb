"""Plant the kinds of faults that others found in libraries for differential privacy.

A study of 2026 found 13 faults in 12 libraries (Cebere, Erb, Desfontaines, Bellet and Fitzsimons,
"Privacy in Theory, Bugs in Practice", PETS 2026). The kinds below come from its public tests and
from the public reports of its authors. Each fault is planted in dpcov. A named test of dpcov must
fail then (`tests/test_known_faults.py`), and so must dp-recorder (`trust/recorder.py`) if the fault
changes a release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np

import coupling
from coupling import Pair
from dpcov import api
from dpcov.core import privacy
from dpcov.core.privacy import Neighbors
from dpcov.core.samplers.discrete import MIN_SCALE
from dpcov.mechanisms import standardized
from dpcov.mechanisms.standardized import Standardized
from dpcov.rows import encoder
from dpcov.rows.encoder import Columns
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Categorical, Numeric
from dpcov.rows.sources import open_rows

Plant = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Fault:
    """A kind of fault, planted in dpcov.

    Attributes
    ----------
    kind : str
        Kind of the fault in other libraries.
    planted : str
        What the planted fault does in dpcov.
    plant : callable
        Function that returns a context in which the fault is planted.
    test : str
        Test of dpcov that fails with the fault, as ``file::name``.
    arguments : callable
        Function from the module of the test to the arguments of the test.
    release : tuple or None
        A release that shows the fault: mechanism, options, relation, name of the schema in
        `dpcov.api.auditing.adversaries.settings` and number of rows. None if no release shows it.

    """

    kind: str
    planted: str
    plant: Plant
    test: str
    arguments: Callable[[Any], tuple[Any, ...]]
    release: tuple[str, dict[str, Any], Neighbors, str, int] | None


# Plants


def number_of_rows() -> AbstractContextManager[Any]:
    """Plant an exact number of rows that scales a result."""
    look = standardized.look

    def exact(moment: Any, *asked: Any) -> Any:
        return replace(look(moment, *asked), count=float(max(1, moment.unit_count)))

    return patch.object(standardized, "look", exact)


def declared_by_data(changed: Callable[[Any, Any], Any]) -> AbstractContextManager[Any]:
    """Plant a schema whose columns follow the cells of a table."""

    def opened(data: Any, schema: Any, *asked: Any, **more: Any) -> Any:
        source = open_rows(data, schema, *asked, **more)._source
        columns = {
            name: changed(column, cells_of(source, name)) for name, column in schema.columns.items()
        }
        made = with_changes(schema, columns=columns)
        return open_rows(source, made, *asked, **more)

    return patch.object(api, "open_rows", opened)


def with_changes(declared: Any, **changes: Any) -> Any:
    """Return a schema or a column with other fields."""
    kind = type(declared)
    return kind(**({name: getattr(declared, name) for name in kind.model_fields} | changes))


def cells_of(source: Any, name: str) -> list[Any]:
    """Return the cells of a column that are not missing."""
    cells = (cell for batch in source.batches([name]) for cell in batch.column(0).to_pylist())
    return [cell for cell in cells if cell is not None and cell == cell]


def categories() -> AbstractContextManager[Any]:
    """Plant categories that are read from the table."""

    def changed(column: Any, cells: list[Any]) -> Any:
        if not isinstance(column, Categorical):
            return column
        return with_changes(column, levels=tuple(sorted(set(cells))))

    return declared_by_data(changed)


def bounds() -> AbstractContextManager[Any]:
    """Plant an upper bound that is the largest cell of the table."""

    def changed(column: Any, cells: list[Any]) -> Any:
        if not isinstance(column, Numeric):
            return column
        return with_changes(column, upper=max([*cells, column.midpoint]))

    return declared_by_data(changed)


def unclipped_rows() -> AbstractContextManager[Any]:
    """Plant sums of rows that were not clipped."""
    return patch.object(encoder, "_certify", lambda rows, side: None)


def numbers_as_encoded(change: Callable[..., None]) -> AbstractContextManager[Any]:
    """Plant a change of the encoded numbers of a column."""
    put = Columns._put_numbers

    def changed(self: Any, values: Any, column: Any, features: Any, rows: Any) -> None:
        put(self, values, column, features, rows)
        scale = self._scales[features.start] / column.half_range
        change(values, column, scale, rows[0])

    return patch.object(Columns, "_put_numbers", changed)


def one_bound() -> AbstractContextManager[Any]:
    """Plant numbers that only the lower bound limits."""

    def change(values: Any, column: Any, scale: float, row: Any) -> None:
        above = (values > column.upper) & np.isfinite(values)
        row[above] = (values[above] - column.midpoint) * scale

    return numbers_as_encoded(change)


def not_a_number() -> AbstractContextManager[Any]:
    """Plant a cell without a number that gets through the clipping."""

    def change(values: Any, column: Any, scale: float, row: Any) -> None:
        row[np.isnan(values)] = np.nan

    return numbers_as_encoded(change)


def failing_cell() -> AbstractContextManager[Any]:
    """Plant a cell without a number that stops the release."""

    def change(values: Any, column: Any, scale: float, row: Any) -> None:
        if np.isnan(values).any():
            raise ValueError("planted")

    return numbers_as_encoded(change)


def half_of_the_sensitivity() -> AbstractContextManager[Any]:
    """Plant the sensitivity of one table although both tables change."""
    return patch.object(Lattice, "nuclear", lambda lattice, neighbors: lattice.unit_bound)


def missing_root() -> AbstractContextManager[Any]:
    """Plant a Frobenius sensitivity without the square root of two."""
    return patch.object(
        Lattice, "frobenius_squared", lambda lattice, neighbors: lattice.unit_bound**2
    )


def no_noise() -> AbstractContextManager[Any]:
    """Plant noise that vanishes for one number of columns."""
    laws = standardized.laplace_laws

    def vanishing(lattice: Any, *asked: Any) -> Any:
        pilot, counts = laws(lattice, *asked)
        return pilot, replace(
            counts, scale=max(MIN_SCALE, counts.scale * abs(lattice.features - 4))
        )

    return patch.object(standardized, "laplace_laws", vanishing)


@contextmanager
def exact_branch() -> Iterator[None]:
    """Plant a branch that the exact number of rows chooses."""
    look, path = standardized.look, standardized.Calibration.path
    kept: dict[str, float] = {}

    def seen(moment: Any, *asked: Any) -> Any:
        kept["rows"] = float(max(1, moment.unit_count))
        return look(moment, *asked)

    def chosen(laws: Any, spread: Any, p: int) -> Any:
        return path(laws, replace(spread, count=kept["rows"]), p)

    with (
        patch.object(standardized, "look", seen),
        patch.object(standardized.Calibration, "path", chosen),
    ):
        yield


def spent_twice() -> AbstractContextManager[Any]:
    """Plant a last round that gets the budget of the earlier rounds again."""
    paths = Standardized._paths

    def whole(self: Any, guarantee: Any, budget: Fraction, of: Any) -> Any:
        free = replace(self, look_share=1e-9, radius_share=1e-9)
        return paths(free, guarantee, budget, of)

    return patch.object(Standardized, "_paths", whole)


def missing_logarithm() -> AbstractContextManager[Any]:
    """Plant a conversion of rho without one of its logarithms."""
    at = privacy.renyi_epsilon_at

    def wrong(excess: float, divergence: float, delta: float) -> float:
        return at(excess, divergence, delta) + math.log(delta) / excess - delta / excess

    return patch.object(privacy, "renyi_epsilon_at", wrong)


AUTO, ADD, SWAP = "auto", Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
PURE, CONCENTRATED = {"epsilon": 1.0}, {"rho": 0.5}
FAULTS = (
    Fault(
        "The number of rows, which is private, is treated as public.",
        "The pilot query uses the exact number of rows.",
        number_of_rows,
        "test_coupling.py::test_moved_draws_give_another_table_the_same_release",
        lambda tests: (two_tables(),),
        (AUTO, CONCENTRATED, ADD, "rows", 2_000),
    ),
    Fault(
        "Categories are read from the table.",
        "The schema gets the categories that occur.",
        categories,
        "test_release_units.py::test_a_category_that_never_occurs_has_a_share_of_zero",
        lambda tests: (),
        (AUTO, PURE, ADD, "categories", 1),
    ),
    Fault(
        "Bounds are read from the table.",
        "The upper bound of a column is its largest cell.",
        bounds,
        "test_release_units.py::test_the_second_moment_is_that_of_the_encoded_rows",
        lambda tests: (),
        (AUTO, PURE, ADD, "rows", 1),
    ),
    Fault(
        "Rows are clipped, but the sum contains the rows before the clipping.",
        "No row is clipped at the radius.",
        unclipped_rows,
        "test_release_units.py::test_rows_longer_than_the_radius_are_shortened_to_it",
        lambda tests: (),
        ("matrix-laplace", PURE, ADD, "clipped rows", 1),
    ),
    Fault(
        "The sensitivity uses one of the two bounds of a column.",
        "Only the lower bound limits a number.",
        one_bound,
        "test_encoder.py::test_numbers_are_scaled_to_their_bounds_and_moved_inside",
        lambda tests: (1e308, 1),
        ("matrix-laplace", PURE, ADD, "rows", 1),
    ),
    Fault(
        "Both tables change the answer, but the sensitivity is for one change.",
        "The nuclear sensitivity under replace-one is half as large.",
        half_of_the_sensitivity,
        "test_moment.py::test_no_change_exceeds_the_sensitivity_and_one_comes_close",
        lambda tests: (tests.CASES[2], SWAP),
        ("matrix-laplace", PURE, SWAP, "clipped rows", 2_000),
    ),
    Fault(
        "The sensitivity of add-remove is used for replace-one.",
        "The Frobenius sensitivity lacks the square root of two.",
        missing_root,
        "test_moment.py::test_no_change_exceeds_the_sensitivity_and_one_comes_close",
        lambda tests: (tests.CASES[2], SWAP),
        ("gaussian", CONCENTRATED, SWAP, "clipped rows", 1),
    ),
    Fault(
        "The noise is zero for a special value of an option.",
        "The noise of the norm histogram vanishes for four columns.",
        no_noise,
        "test_standardized.py::test_pilot_radius_and_release_spend_exactly_epsilon",
        lambda tests: (tests.LATTICES["schema's radius"], ADD),
        ("standardized", PURE, ADD, "rows", 1),
    ),
    Fault(
        "A cell that is no number gets through the clipping.",
        "A missing cell stays missing in the encoded row.",
        not_a_number,
        "test_encoder.py::test_missing_texts_become_the_declared_point",
        lambda tests: ("nan",),
        ("gaussian", CONCENTRATED, ADD, "rows", 1),
    ),
    Fault(
        "An answer without noise decides what the program does next.",
        "The exact number of rows chooses the branch.",
        exact_branch,
        "test_coupling.py::test_moved_draws_give_another_table_the_same_release",
        lambda tests: (two_tables(),),
        (AUTO, CONCENTRATED, ADD, "rows", 2_000),
    ),
    Fault(
        "Two queries spend the same budget.",
        "The last round gets the budget of the earlier rounds again.",
        spent_twice,
        "test_standardized.py::test_pilot_radius_and_release_spend_exactly_epsilon",
        lambda tests: (tests.LATTICES["schema's radius"], ADD),
        ("standardized", PURE, ADD, "rows", 1),
    ),
    Fault(
        "A formula of the accountant lacks a logarithm.",
        "The conversion of rho to epsilon uses delta in place of its logarithm.",
        missing_logarithm,
        "test_privacy.py::test_the_epsilon_of_zcdp_is_the_least_over_all_orders",
        lambda tests: (0.5, 1e-6),
        None,
    ),
    Fault(
        "One malformed cell makes the program fail.",
        "A missing cell raises an error.",
        failing_cell,
        "test_encoder.py::test_missing_texts_become_the_declared_point",
        lambda tests: ("nan",),
        ("gaussian", CONCENTRATED, ADD, "rows", 1),
    ),
)


def two_tables() -> Pair:
    """Return two tables with very different numbers of rows."""
    of = coupling.schema("numbers")
    one, other = coupling.table(of, "spread", 600, 0), coupling.table(of, "few", 600, 1)
    return Pair("600 and 60 rows", one, other, {"schema": of, **CONCENTRATED})
