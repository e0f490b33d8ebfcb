"""The strongest correlations between different columns, with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.correlation import different_columns
from dpcov.analysis.declared import section
from dpcov.analysis.intervals import CONFIDENCE_LEVEL, UNKNOWN_ERROR_MESSAGE, flags, intervals
from dpcov.core.printable import shortened
from dpcov.core.show.result import Found, Picture
from dpcov.core.show.table import Cell, Table
from dpcov.errors import ReleaseError
from dpcov.releases.persons import dependent, titled

if TYPE_CHECKING:
    from dpcov.releases import Release

TITLE = "The strongest correlations"
# Largest numbers of pairs in the table and in the picture.
MAX_TABLE_PAIRS, MAX_PLOT_PAIRS = 20, 15


@section(
    name="strongest",
    heading="The strongest correlations",
    lead="Pairs of different columns, strongest first, with the range in which each may lie.",
    place=20,
    folded=False,
)
def strongest_pairs(release: Release, *, generator: np.random.Generator | None = None) -> Found:
    """Return the pairs of features of different columns with the strongest correlations."""
    matrix, features = release.correlation(), release.schema.variables
    i, j = different_columns(release)
    if not len(i):
        raise ReleaseError("There are no two columns to compare.")
    order = np.argsort(-np.abs(matrix[i, j]), kind="stable")[:MAX_TABLE_PAIRS]
    i, j = i[order], j[order]
    low = high = values = matrix[i, j]
    cells: list[list[Cell]] = [[value] for value in values.tolist()]
    heads, note, below = ("pair", "correlation", "95% interval", ""), UNKNOWN_ERROR_MESSAGE, None
    title = TITLE
    if release.noise is not None:
        title = titled(TITLE, dependent(release))
        found = intervals(release, "correlation", CONFIDENCE_LEVEL, generator=generator)
        low, high, note = found.low[i, j], found.high[i, j], found.covering
        below = found.below_noise[i, j]
        for row, a, b, flag in zip(cells, low, high, flags(below), strict=True):
            row += [f"{a:+.3f} to {b:+.3f}", flag]
    named = [(features[b].name, features[a].name) for a, b in zip(i, j, strict=True)]
    rows = [(" - ".join(pair), row) for pair, row in zip(named, cells, strict=True)]
    table = Table(heads[: len(cells[0]) + 1], rows, title, ("{:+.3f}",), notes=(note,))
    drawn = {
        "names": [" - ".join(map(shortened, pair)) for pair in named[:MAX_PLOT_PAIRS]],
        "values": values[:MAX_PLOT_PAIRS],
        "low": low[:MAX_PLOT_PAIRS],
        "high": high[:MAX_PLOT_PAIRS],
        "below": None if below is None else below[:MAX_PLOT_PAIRS],
    }
    return Found([table], {}, drawn=Picture("pairs", drawn))
