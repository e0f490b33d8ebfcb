"""Rows that are other rows each time a mechanism asks: what then changes depends on that answer."""

from __future__ import annotations

from typing import Any

from dpcov.rungs import RungMoments
from dpcov.sources.rows import Rows


class OneAfterAnother(Rows):
    """Answers the first question from the first door, and so on; notes what it was asked."""

    def __init__(self, *doors: Rows) -> None:
        self.schema, self.progress = doors[0].schema, None
        self._doors = doors
        self.asked: list[tuple[str, Any]] = []

    def require_rereadable(self) -> None:
        pass

    def rung_moments(self, **asked: Any) -> RungMoments:
        self.asked.append(("moments", asked))
        return self._doors[len(self.asked) - 1].rung_moments(**asked)

    def norm_counts(self, edges: Any, **asked: Any) -> Any:
        self.asked.append(("counts", asked))
        return self._doors[len(self.asked) - 1].norm_counts(edges, **asked)
