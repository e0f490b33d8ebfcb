"""Attack the readers: a unit's sums depend on nothing else, and no cell changes the outcome.

The parts of the attack are:

- `sources_independence`: a unit alone and with other units.
- `sources_neighbours`: outcomes of neighbouring tables.
- `sources_persons`: ids of persons.
- `sources_tables`: one table through all readers.
- `sources_controls`: every fault that the readers ever had.
- `sources_time`: the time that one text costs.

`sources` and `sources_cells` make the tables, and `sources_roles` lists the roles of a column.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import sources_controls
import sources_independence
import sources_neighbours
import sources_persons
import sources_tables
import sources_time
from figure import Figure
from sources import opened_sources

sys.path.append(str(Path(__file__).parents[1] / "tests"))


def one_output_for_many(folder: Path) -> Figure:
    """Start 16 processes that release to one file, as the tests do."""
    import test_files

    what = "16 processes with one --out: releases, refusals before spending"
    try:
        test_files.one_file_gets_one_release(folder, 16)
    except AssertionError as error:
        return Figure("one output for many", what, "1, 15", f"{error}"[:60], False)
    return Figure("one output for many", what, "1, 15", "1, 15", True)


def measure(quick: bool) -> list[Figure]:
    """Run all parts of the attack."""
    with TemporaryDirectory() as place, opened_sources(Path(place), spark=not quick) as all_sources:
        folder = Path(place)
        found = [
            *sources_independence.figures(all_sources, quick),
            *sources_neighbours.figures(all_sources, quick),
            *sources_persons.figures(all_sources.found.values()),
            *sources_tables.figures(all_sources, folder),
            *sources_controls.figures(all_sources, folder),
            *sources_time.figures(folder, quick),
        ]
    if not quick:  # it is among the tests
        with TemporaryDirectory() as empty:
            found.append(one_output_for_many(Path(empty)))
    return found
