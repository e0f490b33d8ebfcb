"""Base class of the results of analyses."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from dpcov.core.show import html

if TYPE_CHECKING:
    import pyarrow as pa

    from dpcov.core.show.table import Table

OMITTED = {"omitted": True}  # metadata of a field that the JSON document leaves out


@dataclass(frozen=True, slots=True)
class Picture:
    """Name of a function of `dpcov.plot`, with its arguments."""

    function: str
    arguments: dict[str, Any]


class Result:
    """Result of an analysis, for output as text, HTML, CSV, JSON or in a report."""

    __slots__ = ()
    told: ClassVar[bool] = True  # False if the result has figures but no text

    def tables(self) -> list[Table]:
        """Return the tables to print."""
        raise NotImplementedError

    def data(self) -> Table:
        """Return all figures as one table, for a CSV or Parquet file."""
        return self.tables()[0]

    def arrow(self) -> pa.Table:
        """Return all figures as a pyarrow table."""
        return self.data().arrow()

    def csv(self) -> str:
        """Return all figures as CSV text, in full precision."""
        from dpcov.core.show.text import csv_lines

        return csv_lines(self.data())

    def notes(self) -> list[str]:
        """Return the notes of all tables, without repetitions."""
        if not self.told:
            return []
        return list(dict.fromkeys(note for table in self.tables() for note in table.notes))

    def picture(self) -> Picture | None:
        """Return the picture of the result, or None if it has no picture."""
        return None

    def document(self) -> dict[str, Any]:
        """Return the result as a document for JSON."""
        kept = [part for part in fields(self) if not part.metadata.get("omitted")]  # type: ignore[arg-type]
        return {part.name: getattr(self, part.name) for part in kept}

    @property
    def caution(self) -> str | None:
        """Most important warning about the result, or None."""
        return None

    def summary(self) -> str:
        """Return the whole result as plain text."""
        from dpcov.core.show.text import summary

        return summary(self.tables())

    def _repr_html_(self) -> str:
        return html.tables(self.tables())


@dataclass(frozen=True, slots=True)
class Found(Result):
    """Result that consists of given tables, JSON facts, figures and a picture."""

    shown: list[Table]
    facts: dict[str, Any]
    figures: Table | None = None
    drawn: Picture | None = None

    def tables(self) -> list[Table]:
        return self.shown

    def data(self) -> Table:
        return self.figures or self.shown[0]

    def picture(self) -> Picture | None:
        return self.drawn

    def document(self) -> dict[str, Any]:
        return self.facts
