"""Compare the errors of all mechanisms, other libraries and simple baselines.

The script measures each cell (a table, a budget and a method) that the file
`results/mechanism_benchmark.parquet` lacks. It then writes a summary to
`results/mechanism_benchmark.json` and figures to `results`. With `--quick`, a few small cells go to
separate files. The module `matrix_errors` defines the errors.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from cell_file import CellFile
from cells import Cell, Row, grid, measured, quick_grid
from mechanism_figures import draw
from mechanism_tables import TABLES
from summary import summed_up

import results
from datasets import here


def run(
    cells: list[Cell], file: CellFile, repeats: int | None, processes: int, until: float
) -> int:
    """Measure what is missing, each cell in one process; how many cells were left at `until`."""
    missing = file.missing(cells, repeats)
    print(f"{len(cells) - len(missing)} of {len(cells)} cells are there already", flush=True)
    with ProcessPoolExecutor(processes) as pool:
        waiting = list(reversed(missing))
        running = set()
        done = 0
        while running or (waiting and time.monotonic() < until):
            while waiting and len(running) < processes and time.monotonic() < until:
                running.add(pool.submit(timed, waiting.pop(), repeats))
            if not running:
                break
            finished = next(as_completed(running))
            running.remove(finished)
            done += 1
            try:
                cell, rows, seconds = finished.result()
            except Exception:
                traceback.print_exc()  # the cell stays missing, the others go on
                continue
            file.add(rows)
            print(
                f"{done}/{len(missing)} {seconds:6.1f} s  {' '.join(map(str, cell.key))}",
                flush=True,
            )
    return len(waiting)


def timed(cell: Cell, repeats: int | None) -> tuple[Cell, list[Row], float]:
    start = time.perf_counter()
    rows = measured(cell, repeats)
    return cell, rows, time.perf_counter() - start


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few small cells, two repeats")
    parser.add_argument("--repeats", type=int, help="default, by the number of columns")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--tables", nargs="*", help="only these tables")
    parser.add_argument("--epsilons", nargs="*", type=float, help="only these")
    parser.add_argument("--minutes", type=float, default=1e6, help="start no cell after these")
    parser.add_argument("--folder", type=Path, default=results.RESULTS)
    asked = parser.parse_args(arguments)
    name = "mechanism_benchmark-quick" if asked.quick else "mechanism_benchmark"
    cells = list(quick_grid() if asked.quick else grid())
    if asked.tables:
        cells = [cell for cell in cells if cell.table in asked.tables]
    if asked.epsilons:
        cells = [cell for cell in cells if cell.epsilon in asked.epsilons]
    readable = here({name: TABLES[name] for name in dict.fromkeys(cell.table for cell in cells)})
    cells = [cell for cell in cells if cell.table in readable]
    file = CellFile(asked.folder / f"{name}.parquet")
    repeats = 2 if asked.quick else asked.repeats
    until = time.monotonic() + 60 * asked.minutes
    left = run(cells, file, repeats, asked.processes, until)
    print(f"{left} cells left")
    found = summed_up(file.rows)
    results.write(f"{name}.json", "make bench NAME=mechanism_benchmark", found, folder=asked.folder)
    draw(file.rows, asked.folder)
    results.show("The default", [row for row in found if row["part"] == "regime"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
