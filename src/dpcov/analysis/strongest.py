"""The strongest correlations between different columns, with their intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.expected import NO_LAW
from dpcov.analysis.intervals import intervals
from dpcov.declared import section
from dpcov.errors import ReleaseError
from dpcov.printable import shortened
from dpcov.show.result import Picture, Result
from dpcov.show.table import Row, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.releases import Release

    Vector = NDArray[np.float64]

PAIRS, DRAWN = 20, 15
LEVEL = 0.95
COVERS = (
    "Intervals cover the privacy noise and sampling error. They start from the matrix as "
    "published, so that they need not be centred about the denoised estimate."
)


@dataclass(frozen=True, slots=True)
class StrongestPairs(Result):
    """Correlations of pairs of features, the strongest first.

    Attributes
    ----------
    pairs : (k,) names of both.
    correlations : (k,).
    low, high : (k,) ends of their intervals; None where the release has no noise law.
    trusted : (k,) False where noise drowns one.

    """

    pairs: tuple[tuple[str, str], ...]
    correlations: Vector
    low: Vector | None
    high: Vector | None
    trusted: NDArray[np.bool_]

    def tables(self) -> list[Table]:
        rows: list[Row] = []
        for at, (first, second) in enumerate(self.pairs):
            cells: list[float | str] = [float(self.correlations[at])]
            if self.low is not None and self.high is not None:
                cells.append(f"{self.low[at]:+.3f} to {self.high[at]:+.3f}")
                cells.append("" if self.trusted[at] else "drowned by noise")
            rows.append((f"{first} - {second}", cells))
        heads = ("pair", "correlation", "95 % interval", "")
        known = self.low is not None
        notes = (COVERS if known else NO_LAW,)
        title = "The strongest correlations"
        return [Table(heads if known else heads[:2], rows, title, ("{:+.3f}",), notes=notes)]

    def picture(self) -> Picture:
        values = self.correlations[:DRAWN]
        names = [f"{shortened(a)} - {shortened(b)}" for a, b in self.pairs[:DRAWN]]
        low = values if self.low is None else self.low[:DRAWN]
        high = values if self.high is None else self.high[:DRAWN]
        return Picture(
            "pairs",
            {"names": names, "values": values, "low": low, "high": high},
            (7.4, 0.27 * len(names) + 0.8),
            "The strongest correlations",
            "A dot for each correlation, with a line for its interval. The same figures are in the "
            "table below.",
        )


@section(
    name="strongest",
    link="Strongest",
    heading="The strongest correlations",
    lead="Pairs of different columns, strongest first, with the range in which each may lie.",
    caption="The strongest pairs as a table",
    place=20,
    folded=False,
)
def strongest_pairs(
    release: Release, *, generator: np.random.Generator | None = None
) -> StrongestPairs:
    """Pairs of features of different columns: two levels of one exclude each other, no news."""
    matrix, features = release.correlation(), release.schema.features
    i, j = np.tril_indices(len(matrix), -1)
    columns = np.array([feature.column for feature in features])
    apart = columns[i] != columns[j]
    i, j = i[apart], j[apart]
    if not len(i):
        raise ReleaseError("There are no two columns to compare.")
    order = np.argsort(-np.abs(matrix[i, j]), kind="stable")[:PAIRS]
    i, j = i[order], j[order]
    names = tuple((features[b].name, features[a].name) for a, b in zip(i, j, strict=True))
    if release.noise is None:
        return StrongestPairs(names, matrix[i, j], None, None, np.ones(len(i), bool))
    found = intervals(release, "correlation", LEVEL, generator=generator)
    return StrongestPairs(
        names, matrix[i, j], found.low[i, j], found.high[i, j], found.trusted[i, j]
    )
