"""Count the stops of a reader on the walk from a release into its correlations.

A reader follows `dpcov correlation FILE` through the source, function by function. The functions
stand in the order in which the program enters them for the first time. The release was just loaded,
so nothing is computed yet.

- A *stop* is a run of functions in one file. The next function in another file is the next stop.
- A *return* is a stop in a file that had a stop before. Stops are files plus returns.
- The first stop is the command line (`dpcov.cli.analysis`), which calls the analysis.
- Functions of the package `core` do not count: random numbers, noise distributions and tables.

An issue counted 67 stops in 18 files with 49 returns at commit 7e58140. This script gives the same
three numbers for that commit and its demo.

The script also counts the functions of the walk and the return statements in them.
"""

from __future__ import annotations

import ast
import itertools
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dpcov
import results
from dpcov.analysis.correlation import correlations
from dpcov.cli.demo import EPSILON, write_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

SOURCE = Path(dpcov.__file__).parent
START = "cli/analysis.py"
LEFT_OUT = "core/"
MOST_STOPS, MOST_FILES = 20, 8
WALKS: dict[str, Callable[[dpcov.Release], Any]] = {
    "dpcov correlation": correlations,
    "Release.correlation": dpcov.Release.correlation,
}


def entered(release: dpcov.Release, walk: Callable[[dpcov.Release], Any]) -> list[tuple[str, str]]:
    """Return the file and the name of each function, in the order of the first entries."""
    found: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(SOURCE):
            file = path.relative_to(SOURCE).as_posix()
            if not file.startswith(LEFT_OUT):
                found.setdefault((file, frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        walk(release)
    finally:
        sys.setprofile(None)
    return list(found)


def stops(functions: list[tuple[str, str]]) -> list[str]:
    """Return the file of each stop."""
    return [START, *(file for file, _ in itertools.groupby(file for file, _ in functions))]


def returns(functions: list[tuple[str, str]]) -> int:
    """Return the number of return statements in functions, without the functions inside them."""
    wanted = set(functions)
    files = {file for file, _ in functions}
    return sum(
        sum(isinstance(one, ast.Return) for one in _own(node))
        for file in files
        for name, node in _functions(ast.parse((SOURCE / file).read_text(encoding="utf-8")), "")
        if (file, name) in wanted
    )


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield the qualified name and the node of each function below a node."""
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, ast.FunctionDef):
            yield prefix + child.name, child
            inner = f"{prefix}{child.name}.<locals>."
        elif isinstance(child, ast.ClassDef):
            inner = f"{prefix}{child.name}."
        yield from _functions(child, inner)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function that do not belong to a function inside it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield child
            yield from _own(child)


def rows() -> Iterator[dict[str, Any]]:
    """Yield a row for each walk, after a first run that imports every module."""
    with tempfile.TemporaryDirectory() as folder:
        table, schema = write_table(Path(folder))
        file = Path(folder) / "demo.release.json"
        dpcov.release(table, schema=schema, epsilon=EPSILON, seed=0).save(file)
        for name, walk in WALKS.items():
            walk(dpcov.load(file))
            functions = entered(dpcov.load(file), walk)
            visited = stops(functions)
            files = len(set(visited))
            yield {
                "walk": name,
                "stops": len(visited),
                "files": files,
                "returns": len(visited) - files,
                "functions": len(functions),
                "return statements": returns(functions),
                "ok": len(visited) <= MOST_STOPS and files <= MOST_FILES,
            }


def main() -> int:
    found = list(rows())
    results.show("Stops on the walk from a release into its correlations", found)
    results.write("stops.json", "make bench NAME=stops", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
