"""Run the audit tools of others on dpcov: `make trust AUDITORS=FOLDER`.

    python trust/auditors.py FOLDER [dp-recorder] [dp-auditorium] [--quick]

The folder contains checkouts of the repositories in TOOLS, and what they import in `packages`:

    pip install --target FOLDER/packages tqdm etils absl-py tensorflow-cpu

The run fails if a figure is not as required. `--quick` takes some minutes.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from results import show, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from figure import Figure


@dataclass(frozen=True)
class Tool:
    """A tool of others at a commit.

    Attributes
    ----------
    repository : str
        Owner and name of the repository on GitHub. The name is also the folder of the checkout.
    commit : str
        Commit that the adapters of this folder fit.
    source : str
        Folder in the repository with the package.
    packages : tuple of str
        Packages whose `__init__` is not run, because it imports what the adapters do not need.
    results : str
        File of the results.

    """

    repository: str
    commit: str
    source: str
    packages: tuple[str, ...]
    results: str

    def load(self, folder: Path) -> None:
        """Check the commit of the checkout and make its packages importable."""
        sys.dont_write_bytecode = True  # the checkout stays as it is
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        checkout = folder / self.repository.partition("/")[2]
        found = git(checkout, "rev-parse", "HEAD")
        if found != self.commit:
            raise SystemExit(
                f"{checkout} is at commit {found or 'unknown'}, but the audit needs {self.commit} "
                f"of https://github.com/{self.repository}. Check out this commit."
            )
        if git(checkout, "status", "--porcelain", "--untracked-files=no", "--", self.source):
            raise SystemExit(f"{checkout} has changes. Undo them.")
        for name in self.packages:
            module = ModuleType(name)
            module.__path__ = [str(checkout.joinpath(self.source, *name.split(".")))]
            sys.modules[name] = module
        sys.path.append(str(folder / "packages"))


RECORDER = Tool(
    "ObliviousAI/dp-recorder",
    "85d189ebd7ff81a52984708322ee2c2d8c479db4",
    "src",
    ("dp_recorder",),
    "dp-recorder.json",
)
AUDITORIUM = Tool(
    "google/differential-privacy",
    "b5b0286e313b64a692abfc8c528d54ef47d960a0",
    "python/dp_auditorium",
    ("dp_auditorium", "dp_auditorium.testers", "dp_auditorium.configs"),
    "dp-auditorium.json",
)
TOOLS = (RECORDER, AUDITORIUM)


def git(checkout: Path, *asked: str) -> str:
    """Return the answer of git about a checkout, or an empty text if there is none."""
    found = subprocess.run(
        ["git", "-C", checkout, *asked],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip()


def of_recorder(quick: bool) -> Iterator[Figure]:
    """Yield the figures of dp-recorder."""
    primitives = importlib.import_module("dp_recorder.auditing.audit_primitives")
    yield from importlib.import_module("recorder").measure(primitives, quick)


def of_auditorium(quick: bool) -> Iterator[Figure]:
    """Yield the figures of DP-Auditorium."""
    asked = importlib.import_module("recorder").ASKED
    yield from importlib.import_module("auditorium").measure(asked, quick)


MEASURES = {"dp-recorder": (RECORDER, of_recorder), "dp-auditorium": (AUDITORIUM, of_auditorium)}


def run(name: str, folder: Path, quick: bool) -> bool:
    """Run a tool, keep its figures with its commit, and return True if all are as required."""
    tool, measure = MEASURES[name]
    tool.load(folder)
    rows = []
    for figure in measure(quick):
        print(f"{figure.attack}: {figure.measured}: {figure.found}", flush=True)
        rows.append({"tool": f"{tool.repository} {tool.commit}", **vars(figure)})
    show(name, rows)
    write(tool.results, "python trust/auditors.py FOLDER" + quick * " --quick", rows)
    return all(row["ok"] for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="checkouts of the tools")
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(MEASURES)}; default, both")
    parser.add_argument("--quick", action="store_true", help="a smaller version")
    asked = parser.parse_args()
    if asked.folder is None:
        names = " and ".join(f"{tool.repository} at {tool.commit[:8]}" for tool in TOOLS)
        print(f"The audit tools of others were left out. make trust AUDITORS=FOLDER runs {names}.")
        return 0
    names = asked.names or list(MEASURES)
    for name in names:
        MEASURES[name][0].load(asked.folder.resolve())  # refuses another commit before any run
    with ProcessPoolExecutor(len(names), multiprocessing.get_context("spawn")) as pool:
        work = partial(run, folder=asked.folder.resolve(), quick=asked.quick)
        return int(not all(list(pool.map(work, names))))


if __name__ == "__main__":
    sys.exit(main())
