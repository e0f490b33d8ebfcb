"""Memory limit for random groups of rows, each with its own matrices."""

from __future__ import annotations

from dpcov.errors import MechanismError

# Largest number of entries of all groups' matrices together. Each entry takes about 100 bytes, with
# two threads.
MAX_GROUP_ENTRIES = 2**25


def require_memory(name: str, groups: int, rows: int, columns: int, *, most: int) -> None:
    """Raise an error if the groups need too much memory. The check uses public numbers only.

    Parameters
    ----------
    name : str
        Name of the mechanism.
    groups : int
        Number of groups.
    rows, columns : int
        Shape of the matrix of each group.
    most : int
        Largest number of groups.

    Raises
    ------
    MechanismError
        There are too many groups, or their matrices are too large.

    """
    if groups > most or groups * rows * columns > MAX_GROUP_ENTRIES:
        raise MechanismError(
            f"With this budget, {name} needs {groups:,} groups of rows with a "
            f"{rows:,} x {columns:,} matrix each, which is too much memory. Use a larger budget, "
            "fewer columns, or the mechanism whitened."
        )
