"""Named matrices as tables and data frames."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpcov.errors import ReleaseError
from dpcov.installing import installing

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

NAME = "column"  # heads the names of the rows of a matrix in a file
Library = Literal["pandas", "polars", "pyarrow"]
LIBRARIES: tuple[Library, ...] = ("pandas", "polars", "pyarrow")


def matrix_table(names: Sequence[str], matrix: NDArray[np.float64]) -> pa.Table:
    """A named matrix as a table: the names of the rows, then a column for each."""
    import pyarrow as pa

    parts = [np.ascontiguousarray(column) for column in matrix.T]
    return pa.table([pa.array(list(names)), *parts], names=[_unlike(names), *names])


def frame(names: Sequence[str], matrix: NDArray[np.float64], library: Library = "pandas") -> Any:
    """A named matrix as a data frame.

    Parameters
    ----------
    names : of the rows and columns.
    matrix : (p, p).
    library : ``pandas`` (the names are index and columns), ``polars`` or ``pyarrow`` (which have no
        index: the names are the first column).

    Raises
    ------
    ReleaseError : another library, or it is not installed.

    """
    if library not in LIBRARIES:
        raise ReleaseError(f"There is no library {library!r}. Choose: {', '.join(LIBRARIES)}.")
    if library == "pyarrow":
        return matrix_table(names, matrix)
    try:
        frames: Any = import_module(library)
    except ImportError:
        raise ReleaseError(f"The data frame needs {library}: {installing(library)}") from None
    if library == "polars":
        return frames.from_arrow(matrix_table(names, matrix))
    return frames.DataFrame(matrix, index=list(names), columns=list(names))


def _unlike(names: Sequence[str]) -> str:
    """A head for the column of names that is none of them."""
    head = NAME
    while head in names:
        head += "_"
    return head
