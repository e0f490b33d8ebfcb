"""Run the audit tools of others on dpcov: `make trust AUDITORS=FOLDER`.

    python trust/auditors.py FOLDER [--quick]

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
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

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

    """

    repository: str
    commit: str
    source: str
    packages: tuple[str, ...]

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
)
AUDITORIUM = Tool(
    "google/differential-privacy",
    "b5b0286e313b64a692abfc8c528d54ef47d960a0",
    "python/dp_auditorium",
    ("dp_auditorium", "dp_auditorium.testers", "dp_auditorium.configs"),
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


def of_recorder(folder: Path, quick: bool) -> list[Figure]:
    """Return the figures of dp-recorder."""
    RECORDER.load(folder)
    primitives = importlib.import_module("dp_recorder.auditing.audit_primitives")
    return printed(importlib.import_module("recorder").measure(primitives, quick))


def of_auditorium(folder: Path, quick: bool) -> list[Figure]:
    """Return the figures of DP-Auditorium."""
    AUDITORIUM.load(folder)
    asked = importlib.import_module("recorder").ASKED
    return printed(importlib.import_module("auditorium").measure(asked, quick))


def printed(figures: Iterator[Figure]) -> list[Figure]:
    """Print each figure as soon as it is known, and return all."""
    kept = []
    for figure in figures:
        print(f"{figure.attack}: {figure.measured}: {figure.found}", flush=True)
        kept.append(figure)
    return kept


def measured(folder: Path, quick: bool) -> list[dict[str, Any]]:
    """Return all figures with the tool and its commit. Each tool has a process of its own."""
    of = {RECORDER: of_recorder, AUDITORIUM: of_auditorium}
    with ProcessPoolExecutor(len(of), multiprocessing.get_context("spawn")) as pool:
        running = {tool: pool.submit(figures, folder, quick) for tool, figures in of.items()}
        return [
            {"tool": f"{tool.repository} {tool.commit}", **vars(figure)}
            for tool, figures in running.items()
            for figure in figures.result()
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="checkouts of the tools")
    parser.add_argument("--quick", action="store_true", help="a smaller version")
    asked = parser.parse_args()
    if asked.folder is None:
        names = " and ".join(f"{tool.repository} at {tool.commit[:8]}" for tool in TOOLS)
        print(f"The audit tools of others were left out. make trust AUDITORS=FOLDER runs {names}.")
        return 0
    folder = asked.folder.resolve()
    for tool in TOOLS:
        tool.load(folder)  # refuses another commit before anything runs
    rows = measured(folder, asked.quick)
    show("Audit tools of others", rows)
    command = (
        "python trust/auditors.py FOLDER --quick" if asked.quick else "make trust AUDITORS=FOLDER"
    )
    write("auditors.json", command, rows)
    return int(not all(row["ok"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
