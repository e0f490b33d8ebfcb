"""The strongest correlations between different columns, with their intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.correlation import different_columns
from dpcov.analysis.declared import section
from dpcov.analysis.estimable import NOT_ESTIMABLE
from dpcov.analysis.intervals import (
    CONFIDENCE_LEVEL,
    UNKNOWN_ERROR_MESSAGE,
    flags,
    intervals,
    titled,
)
from dpcov.core.printable import shortened
from dpcov.core.show.result import Found, Picture
from dpcov.core.show.table import Row, Table
from dpcov.errors import ReleaseError
from dpcov.estimate import dependent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcov.core.arrays import Booleans, Integers, Vector
    from dpcov.releases import Release

TITLE = "The strongest correlations"
REST_TITLE = "Pairs whose interval contains 0"
# Largest numbers of pairs in the table and in the picture.
MAX_TABLE_PAIRS, MAX_PLOT_PAIRS = 20, 15


@section(
    name="strongest",
    heading="The strongest correlations",
    lead="Pairs of different columns with the range in which each correlation may lie. First come "
    "the pairs whose range is farthest from 0.",
    place=20,
    folded=False,
)
def strongest_pairs(release: Release, *, generator: np.random.Generator | None = None) -> Found:
    """Return the pairs of features of different columns with the strongest correlations.

    The order follows the end of each interval that is nearest to 0. Pairs whose interval contains 0
    are in a second table, which a page folds. Without intervals, the order follows the absolute
    correlation.
    """
    i, j = different_columns(release)
    if not len(i):
        raise ReleaseError("There are no two columns to compare.")
    values = release.correlation()[i, j]
    features = release.schema.variables
    names = [(features[b].name, features[a].name) for a, b in zip(i, j, strict=True)]
    if release.noise is None:
        order = _order(values)
        table = _table(TITLE, ("pair", "correlation"), names, [values.tolist()], order)
        table = replace(table, notes=(UNKNOWN_ERROR_MESSAGE,))
        return Found([table], {}, drawn=_picture(names, order, values, values, values, None))
    found = intervals(release, "correlation", CONFIDENCE_LEVEL, generator=generator)
    low, high, below = found.low[i, j], found.high[i, j], found.below_noise[i, j]
    nearest = np.nan_to_num(np.maximum(low, 0.0) - np.minimum(high, 0.0))
    shown, unclear = _order(nearest, among=nearest > 0), _order(values, among=nearest <= 0)
    heads = ("pair", "correlation", "95% interval", "")
    ends = [
        NOT_ESTIMABLE if np.isnan(a) else f"{a:+.3f} to {b:+.3f}"
        for a, b in zip(low, high, strict=True)
    ]
    cells = values.tolist(), ends, flags(below)
    title = titled(TITLE, dependent(release))
    notes = (found.covering, *found.not_estimable())
    first = replace(_table(title, heads, names, cells, shown), notes=notes)
    rest = replace(_table(REST_TITLE, heads, names, cells, unclear), folded=True)
    drawn = _picture(names, np.append(shown, unclear), values, low, high, below)
    return Found([first, rest], {}, drawn=drawn)


def _order(strengths: Vector, among: Booleans | None = None) -> Integers:
    """Return the positions of the largest absolute numbers, among those that `among` allows."""
    order = np.argsort(-np.abs(strengths), kind="stable")
    return order if among is None else order[among[order]]


def _table(
    title: str,
    heads: tuple[str, ...],
    names: list[tuple[str, str]],
    cells: Sequence[Any],
    order: Integers,
) -> Table:
    """Return the first pairs in an order as a table, with the number of the other pairs."""
    rows: list[Row] = [
        (" - ".join(names[at]), [column[at] for column in cells])
        for at in order[:MAX_TABLE_PAIRS].tolist()
    ]
    beyond = max(len(order) - MAX_TABLE_PAIRS, 0)
    return Table(heads, rows, title, ("{:+.3f}",), beyond=beyond, rest="pairs")


def _picture(
    names: list[tuple[str, str]],
    order: Integers,
    values: Vector,
    low: Vector,
    high: Vector,
    below: Booleans | None,
) -> Picture:
    """Return the picture of the first pairs in an order."""
    at = order[:MAX_PLOT_PAIRS]
    given: dict[str, Any] = {
        "release": [" - ".join(map(shortened, names[one])) for one in at.tolist()],
        "values": values[at],
        "low": low[at],
        "high": high[at],
        "below": None if below is None else below[at],
    }
    return Picture("pairs", given)
