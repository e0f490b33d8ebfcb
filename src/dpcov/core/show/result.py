"""Base classes of the results that an analysis returns."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from dpcov.core.show import html, latex

if TYPE_CHECKING:
    import pyarrow as pa

    from dpcov.core.show.table import Table

# Metadata of a field that the JSON document leaves out.
OMITTED_FIELD = {"omitted": True}


@dataclass(frozen=True, slots=True)
class Picture:
    """Picture of a result.

    Parameters
    ----------
    function : str
        Name of a function of `dpcov.plot`.
    arguments : dict
        Arguments of the function.

    """

    function: str
    arguments: dict[str, Any]


class Result:
    """Result of an analysis. Text, HTML, CSV, JSON and the report are made from it.

    Each analysis returns a result with these methods. A shell and a notebook show a result as
    tables.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> text = dpcov.pca(release).summary()

    """

    __slots__ = ()
    has_sentences: ClassVar[bool] = True  # True if the tables have notes

    def __init_subclass__(cls, **options: Any) -> None:
        """Keep `__repr__`, which `dataclass` replaces unless the class itself defines it."""
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):
            cls.__repr__ = Result.__repr__  # type: ignore[method-assign]

    def tables(self) -> list[Table]:
        """Return the tables that a person reads."""
        raise NotImplementedError

    def data(self) -> Table:
        """Return all figures as one table, for a CSV or Parquet file."""
        return self.tables()[0]

    def arrow(self) -> pa.Table:
        """Return all figures as an Arrow table.

        Returns
        -------
        pyarrow.Table
            Table in full precision.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> dpcov.pca(release).arrow().num_rows > 0
        True

        """
        return self.data().arrow()

    def csv(self) -> str:
        """Return all figures as CSV text.

        Returns
        -------
        str
            CSV in full precision, with a header.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> dpcov.pca(release).csv().count(",") > 1
        True

        """
        from dpcov.core.show.text import csv_lines

        return csv_lines(self.data())

    def text_file(self) -> Any:
        """Return the notation of a CSV file, or None for a usual CSV file."""
        return None

    def latex(self) -> str:
        """Return the tables as LaTeX text, which needs no package."""
        return latex.tables(self.tables())

    def notes(self) -> list[str]:
        """Return the sentences below the tables, without repetitions."""
        if not self.has_sentences:
            return []
        return list(dict.fromkeys(note for table in self.tables() for note in table.notes))

    def picture(self) -> Picture | None:
        """Return the picture of the result, or None if the result has no picture."""
        return None

    def document(self) -> dict[str, Any]:
        """Return the content of the JSON document."""
        kept = [part for part in fields(self) if not part.metadata.get("omitted")]  # type: ignore[arg-type]
        return {part.name: getattr(self, part.name) for part in kept}

    @property
    def caution(self) -> str | None:
        """Warning that a reader needs before anything else, or None."""
        return None

    def summary(self) -> str:
        """Return the tables as plain text.

        Returns
        -------
        str
            Tables with the notes below them.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> "x0" in dpcov.pca(release).summary()
        True

        """
        from dpcov.core.show.text import summary

        return summary(self.tables())

    def __repr__(self) -> str:
        """Return the tables as a shell shows them. `summary` has the omitted rows too."""
        from dpcov.core.show.text import short

        return short(self.tables())

    def _repr_html_(self) -> str:
        return html.tables(self.tables())


@dataclass(frozen=True, slots=True)
class Found(Result):
    """Result that consists of given tables, facts for JSON, figures and a picture."""

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
