"""CSV tables of an export, with names that other software accepts."""

from __future__ import annotations

import csv
import io
import keyword
import re
from typing import TYPE_CHECKING, Any

from dpcov.core.printable import harmless
from dpcov.estimate.error_covariance import figure_names
from dpcov.releases import SEEDED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpcov.core.arrays import Matrix
    from dpcov.export.estimates import Estimates

COLUMNS, COVARIANCE, ERRORS = "columns.csv", "covariance.csv", "error_covariance.csv"
MAX_NAME_CHARACTERS = 32  # Longest name of a variable in Stata.
# Words that R, lavaan, Stata or Python do not accept as the name of a variable.
RESERVED = {
    *("NA", "NULL", "TRUE", "FALSE", "Inf", "NaN", "function", "next", "repeat", "equal", "start"),
    *("byte", "double", "float", "int", "long", "strL", "using"),
    *keyword.kwlist,
}


def variables(names: Sequence[str], longest: int = MAX_NAME_CHARACTERS) -> tuple[str, ...]:
    """Return a unique name of letters, digits and underscores for each column.

    Parameters
    ----------
    names : sequence of str
        Names of the columns.

    longest : int, default 32
        Largest number of characters of a name.

    Returns
    -------
    tuple of str
        Names of the variables, in the same order.

    """
    found: list[str] = []
    used: set[str] = set()
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
        if not plain or not plain[0].isalpha() or plain in RESERVED:
            plain = f"v_{plain}"
        chosen, number = plain[:longest], 2
        while chosen.lower() in used:  # some software ignores case
            ending = f"_{number}"
            chosen, number = plain[: longest - len(ending)] + ending, number + 1
        used.add(chosen.lower())
        found.append(chosen)
    return tuple(found)


def files(found: Estimates) -> dict[str, str]:
    """Return the CSV files with the columns, the covariances and the error covariance."""
    found.require_covariance()
    names = variables(found.columns)
    assert found.means is not None and found.covariance is not None  # noqa: S101, PT018  checked
    columns = [
        (variable, name, found.kinds[name], mean, found.count)
        for variable, name, mean in zip(names, found.columns, found.means.tolist(), strict=True)
    ]
    heads = ("variable", "name", "kind", "mean", "rows")
    errors = found.errors(sampling=True)
    return {
        COLUMNS: _csv(found, heads, columns),
        COVARIANCE: _square(found, names, found.covariance),
        ERRORS: _square(found, figure_names(names), errors),
    }


def _square(found: Estimates, names: Sequence[str], matrix: Matrix) -> str:
    rows = zip(names, matrix.tolist(), strict=True)
    return _csv(found, ("", *names), [(name, *values) for name, values in rows])


def _csv(found: Estimates, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return CSV text. If the release was made with a seed, the first line states this."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(heads)
    for row in rows:
        writer.writerow([harmless(cell) if isinstance(cell, str) else cell for cell in row])
    stamp = f"# {SEEDED}\n" if found.release.reproducible else ""
    return stamp + buffer.getvalue()
