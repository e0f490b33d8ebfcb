"""How many random groups of rows, each with matrices of its own, are held at once."""

from __future__ import annotations

from dpcov.errors import MechanismError

MOST_ENTRIES = 2**25  # of the groups' matrices together: about 100 bytes each, with two threads


def require_room(name: str, groups: int, rows: int, columns: int, *, most: int) -> None:
    """Refuse, by public numbers alone, more groups or larger matrices than memory is meant for."""
    if groups > most or groups * rows * columns > MOST_ENTRIES:
        raise MechanismError(
            f"At this budget {name} would hold {groups:,} groups of rows with a matrix of "
            f"{rows:,} x {columns:,} each: that is too much memory. Use a larger budget or fewer "
            "columns, or whitened, which has no groups."
        )
