"""Attack the readers: a unit's sums depend on nothing else, and no cell changes the outcome.

The parts of the attack are:

- `door_company`: a unit alone and with other units.
- `door_neighbours`: outcomes of neighbouring tables.
- `door_persons`: ids of persons.
- `door_tables`: one table through all readers.
- `door_controls`: every fault that the readers ever had.
- `door_time`: the time that one text costs.

`doors` and `door_cells` make the tables, and `door_roles` lists the roles of a column.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import door_company
import door_controls
import door_neighbours
import door_persons
import door_tables
import door_time
from doors import doors
from figure import Figure

sys.path.append(str(Path(__file__).parents[1] / "tests"))


def one_output_for_many(folder: Path) -> Figure:
    """Sixteen processes that write one file, as the tests start them."""
    import test_files

    what = "16 processes with one --out: releases, refusals before spending"
    try:
        test_files.test_sixteen_releases_to_one_file_are_one_release_and_fifteen_refusals(folder)
    except AssertionError as error:
        return Figure("one output for many", what, "1, 15", f"{error}"[:60], False)
    return Figure("one output for many", what, "1, 15", "1, 15", True)


def measure(quick: bool) -> list[Figure]:
    """All of it."""
    with TemporaryDirectory() as place, doors(Path(place), spark=not quick) as all_doors:
        folder = Path(place)
        found = [
            *door_company.figures(all_doors, quick),
            *door_neighbours.figures(all_doors, quick),
            *door_persons.figures(all_doors.found.values()),
            *door_tables.figures(all_doors, folder),
            *door_controls.figures(all_doors, folder),
            *door_time.figures(folder, quick),
        ]
    if not quick:  # it is among the tests
        with TemporaryDirectory() as empty:
            found.append(one_output_for_many(Path(empty)))
    return found
