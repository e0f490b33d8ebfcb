"""Presentation of features that are dates or times, which are numbers of days or seconds."""

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
    """Return the unit of each feature that is a date or a time, by name."""
    return {name: f"{_unit(one)} since 1970-01-01" for name, one in dates_of(schema).items()}


def shown(schema: Schema, name: str, values: Sequence[float]) -> list[Cell]:
    """Return values of a feature as cells of a table.

    The values of a date or time feature become dates, with whole seconds. A number outside the
    years 1 to 9999 becomes a number of days or seconds with its unit.

    Parameters
    ----------
    schema : Schema
        Schema with the feature.

    name : str
        Name of the feature.

    values : sequence of float
        Values in the units of the data.

    Returns
    -------
    list
        Cells in the same order.

    """
    column = dates_of(schema).get(name)
    return [value if column is None else _date(column, value) for value in values]


def length(schema: Schema, name: str, value: float) -> Cell:
    """Return the difference of two values as a cell. A difference of dates has a unit.

    Parameters
    ----------
    schema : Schema
        Schema with the feature.

    name : str
        Name of the feature.

    value : float
        Difference in the units of the data.

    Returns
    -------
    float or str
        Cell of a table.

    """
    column = dates_of(schema).get(name)
    if column is None or not math.isfinite(value):
        return value
    return f"{value:.4g} {_unit(column)}"


def _date(column: Date | Time, value: float) -> Cell:
    """Return one value of a date or time feature as a cell."""
    moments = value * (DAY if isinstance(column, Date) else SECOND)
    if math.isfinite(moments) and FIRST_MOMENT <= moments <= LAST_MOMENT:
        return column.shown(value if isinstance(column, Date) else round(value))
    return f"{value:.5g} {_unit(column)}" if math.isfinite(value) else value


def _unit(column: Date | Time) -> str:
    """Return the unit of a date or time feature."""
    return "days" if isinstance(column, Date) else "seconds"
