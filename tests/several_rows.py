"""Rows that are other rows each time a mechanism asks: what then changes depends on that answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpcov.releases import Release
from dpcov.rows.sources.rows import Rows


class OneAfterAnother(Rows):
    """Source that answers the k-th query from the k-th source, and records the queries."""

    def __init__(self, *readers: Rows) -> None:
        self.schema = readers[0].schema
        self._readers = readers
        self.asked: list[tuple[str, Any]] = []

    def require_rereadable(self) -> None:
        pass

    def norm_counts(self, edges: Any, **asked: Any) -> Any:
        self.asked.append(("counts", asked))
        return self._readers[len(self.asked) - 1].norm_counts(edges, **asked)

    def second_moments(self, **asked: Any) -> Any:
        self.asked.append(("moments", asked))
        return self._readers[len(self.asked) - 1].second_moments(**asked)


def kinds_asked(make: Callable[[Rows], Release], parts: int, one: Rows, other: Rows) -> list[str]:
    """Return the queries of a mechanism of so many parts whose map depends on the first answer."""
    same, changed, queried = (
        OneAfterAnother(*readers)
        for readers in ([one] * parts, [one] * (parts - 1) + [other], [other] + [one] * (parts - 1))
    )
    made, after, before = (make(rows) for rows in (same, changed, queried))
    assert np.array_equal(made.linear_map, after.linear_map)
    assert np.array_equal(made.center, after.center)
    assert made.lattice == after.lattice
    assert made.noise == after.noise
    assert not np.array_equal(made.published, after.published)
    assert not np.array_equal(made.linear_map, before.linear_map)
    return [kind for kind, _ in same.asked]
