"""What an analysis returns: it knows its tables, its picture and its document."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from dpcov.core.show import html

if TYPE_CHECKING:
    import pyarrow as pa

    from dpcov.core.show.table import Table

OMITTED = {"omitted": True}  # metadata of a field that is no part of the document


@dataclass(frozen=True, slots=True)
class Picture:
    """The name of a function of `dpcov.plot`, and what it draws."""

    function: str
    arguments: dict[str, Any]


class Result:
    """What an analysis found; text, HTML, CSV, JSON and the report are made from it."""

    __slots__ = ()
    told: ClassVar[bool] = True  # whether there is more to read than its figures

    def tables(self) -> list[Table]:
        """What a person reads."""
        raise NotImplementedError

    def data(self) -> Table:
        """All figures, as a file of CSV or Parquet has them."""
        return self.tables()[0]

    def arrow(self) -> pa.Table:
        """The columns of a file of them."""
        return self.data().arrow()

    def csv(self) -> str:
        """They as CSV, in full precision."""
        from dpcov.core.show.text import csv_lines

        return csv_lines(self.data())

    def notes(self) -> list[str]:
        """Sentences that stand with the tables, each once."""
        if not self.told:
            return []
        return list(dict.fromkeys(note for table in self.tables() for note in table.notes))

    def picture(self) -> Picture | None:
        """What is drawn of it."""
        return None

    def document(self) -> dict[str, Any]:
        """What JSON has of it."""
        kept = [part for part in fields(self) if not part.metadata.get("omitted")]  # type: ignore[arg-type]
        return {part.name: getattr(self, part.name) for part in kept}

    @property
    def caution(self) -> str | None:
        """What a reader has to know before anything else."""
        return None

    def summary(self) -> str:
        """All of it as a plain text."""
        from dpcov.core.show.text import summary

        return summary(self.tables())

    def _repr_html_(self) -> str:
        return html.tables(self.tables())


@dataclass(frozen=True, slots=True)
class Found(Result):
    """A result that is nothing but what it shows: tables, facts for JSON, figures, a picture."""

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
