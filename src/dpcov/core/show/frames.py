"""Named matrices as Arrow tables and data frames, and tables as CSV text."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Literal

from dpcov.core import installing
from dpcov.core.printable import FORMULA_STARTS, harmless
from dpcov.core.show.table import square
from dpcov.errors import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from dpcov.core.arrays import Matrix
    from dpcov.core.show.table import Table

Library = Literal["pandas", "polars", "pyarrow"]
LIBRARIES: tuple[Library, ...] = ("pandas", "polars", "pyarrow")


def matrix_table(names: Sequence[str], matrix: Matrix) -> pa.Table:
    """Return a named matrix as an Arrow table.

    Parameters
    ----------
    names : sequence of str, length p
        Names of the rows and columns.
    matrix : ndarray of float, shape (p, p)
        Symmetric matrix.

    Returns
    -------
    pyarrow.Table
        Table with the names in the first column and the matrix in the others.

    """
    return square(names, matrix).arrow()


def frame(names: Sequence[str], matrix: Matrix, library: Library = "pandas") -> Any:
    """Return a named matrix as a data frame.

    Parameters
    ----------
    names : sequence of str, length p
        Names of the rows and columns.

    matrix : ndarray of float, shape (p, p)
        Symmetric matrix.

    library : {"pandas", "polars", "pyarrow"}
        Library of the data frame.

    Returns
    -------
    data frame
        With pandas, the names are the index and the columns. The other libraries have no index, so
        the first column contains the names.

    Raises
    ------
    ReleaseError
        The library is unknown or not installed.

    """
    return table_frame(square(names, matrix), library)


def table_frame(table: Table, library: Library = "pandas") -> Any:
    """Return the figures of a table as a data frame.

    Parameters
    ----------
    table : Table
        Table with names in the first column.

    library : {"pandas", "polars", "pyarrow"}
        Library of the data frame.

    Returns
    -------
    data frame
        With pandas, the names are the index. With the other libraries, they are the first column.

    Raises
    ------
    ReleaseError
        The library is unknown or not installed.

    """
    if library not in LIBRARIES:
        raise ReleaseError(f"There is no library {library!r}. Choose: {', '.join(LIBRARIES)}.")
    if library == "pyarrow":
        return table.arrow()
    frames = installing.library(library, f"The data frame needs {library}", ReleaseError)
    if library == "polars":
        return frames.from_arrow(table.arrow())
    names, rows = zip(*table.rows, strict=True) if table.rows else ((), ())
    return frames.DataFrame(list(rows), index=list(names), columns=list(table.heads[1:]))


def csv_body(table: pa.Table) -> str:
    """Return an Arrow table as CSV text without spreadsheet formulas."""
    import pyarrow as pa
    from pyarrow.csv import write_csv

    buffer = io.BytesIO()
    columns = [_harmless_cells(column) for column in table.columns]
    write_csv(pa.table(columns, [harmless(name) for name in table.column_names]), buffer)
    return buffer.getvalue().decode()


def _harmless_cells(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_string(column.type):
        return column
    acting = pc.match_substring_regex(column, f"^[{FORMULA_STARTS.replace('-', chr(92) + '-')}]")
    return pc.if_else(acting, pc.binary_join_element_wise("'", column, ""), column)
