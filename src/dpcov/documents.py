"""Results as plain data: what `--json` prints, and matrices as tables and data frames."""

from __future__ import annotations

import math
from dataclasses import asdict
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpcov.analysis.expected import NOTHING_SHOWS
from dpcov.errors import ReleaseError
from dpcov.releases import NOT_PRIVATE, SEEDED, VOID
from dpcov.show.table import square

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from dpcov.releases import Release

Library = Literal["pandas", "polars", "pyarrow"]
LIBRARIES: tuple[Library, ...] = ("pandas", "polars", "pyarrow")


def stated(release: Release) -> dict[str, Any]:
    """What a release guarantees, and what speaks against it."""
    found = {
        "status": NOT_PRIVATE if release.reproducible else "private",
        "guarantee": release.guarantee_in_words(),
    }
    return found | ({"warning": VOID} if release.may_be_void else {})


def carried(release: Release) -> dict[str, Any]:
    """What everything that is computed from a release should carry with it."""
    group = release.group
    guarantee = release.guarantee if group is None else group.together
    return {
        **stated(release),
        "budget": asdict(guarantee.budget),
        "neighbors": guarantee.neighbors.value,
        "unit": asdict(guarantee.unit),
        "group": None if group is None else {"column": group.column, "level": group.level},
        "mechanism": release.mechanism,
        "denoise": release.denoise,
        "made_by": dict(release.provenance),
        "not_protected": release.not_protected(),
    }


def document(release: Release, **facts: Any) -> dict[str, Any]:
    """Facts from a release as JSON data, after what the release guarantees."""
    found = {
        **stated(release),
        "uninformative": release.uninformative,
        "drowned": list(release.drowned),
    }
    return found | {name: _plain(fact) for name, fact in facts.items()}


def caveats(release: Release) -> list[str]:
    """What figures can't say of themselves: whether anybody is protected, and anything shows."""
    return [SEEDED] * release.reproducible + [NOTHING_SHOWS] * silent(release)


def silent(release: Release) -> bool:
    """Whether it is for the noise that all correlations are 0."""
    return release.uninformative and (release.noise is not None or release.published is None)


def _plain(value: Any) -> Any:
    """As JSON has it; a number that is not finite becomes null."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return {k: _plain(part) for k, part in value.items()} if isinstance(value, dict) else value


def matrix_table(names: Sequence[str], matrix: NDArray[np.float64]) -> pa.Table:
    """A named matrix as a table: the names of the rows, then a column for each."""
    return square(names, matrix).arrow()


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
        raise ReleaseError(f"The data frame needs {library}: pip install {library}.") from None
    if library == "polars":
        return frames.from_arrow(matrix_table(names, matrix))
    return frames.DataFrame(matrix, index=list(names), columns=list(names))
