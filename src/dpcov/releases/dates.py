"""Features that are dates or times: their numbers, of days or seconds, shown as dates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpcov.rows.dates import DAY, FIRST_MOMENT, LAST_MOMENT, SECOND
from dpcov.rows.schema import Date, Time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcov.core.show.table import Cell
    from dpcov.rows.schema import Schema


def dates_of(schema: Schema) -> dict[str, Date | Time]:
    """Return the features that are dates or times, by name."""
    columns = schema.encoded_columns
    return {name: one for name, one in columns.items() if isinstance(one, Date | Time)}


def units_of(schema: Schema) -> dict[str, str]:
    """Return what a number of each of these features counts."""
    return {name: f"{_unit(one)} since 1970-01-01" for name, one in dates_of(schema).items()}


def shown(schema: Schema, name: str, values: Sequence[float]) -> list[Cell]:
    """Return values of a feature as a table has them: as dates if they are dates.

    A number that is no date of the years 1 to 9999 stays a number of days or seconds.
    """
    column = dates_of(schema).get(name)
    return [value if column is None else _date(column, value) for value in values]


def length(schema: Schema, name: str, value: float) -> Cell:
    """Return a difference of two values of a feature: of dates with its unit."""
    column = dates_of(schema).get(name)
    return value if column is None else f"{value:.4g} {_unit(column)}"


def _date(column: Date | Time, value: float) -> Cell:
    moments = value * (DAY if isinstance(column, Date) else SECOND)
    if math.isfinite(moments) and FIRST_MOMENT <= moments <= LAST_MOMENT:
        return column.shown(value)
    return f"{value:.5g} {_unit(column)}" if math.isfinite(value) else value


def _unit(column: Date | Time) -> str:
    return "days" if isinstance(column, Date) else "seconds"
