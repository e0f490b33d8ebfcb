"""Are commands slower than before? CPU times of two versions, measured alternately.

Give a folder with the earlier version, such as from `git worktree add --detach FOLDER 7e58140`:
`make bench NAME=command_times ARGS=FOLDER`. Each version releases the demo table of the earlier
version once, with the same seed, and then analyses its own release. One run of a command is one
process with one BLAS thread. The versions alternate, so that other load affects both alike.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from results import Kept, show

HERE = Path(__file__).parents[1]
START = "import sys; from dpcov.cli import main; main()"
TARGET = "mdvis"  # column of the demo table
RELEASE = "health.{version}.json"
# Commands by their names; {release} is the release of the version that runs, and {version} is the
# name of the version. The demo of each version has its own table.
COMMANDS: dict[str, tuple[str, ...]] = {
    "demo": ("demo", "--folder", "demo.{version}"),
    "correlation": ("correlation", "{release}"),
    "ols": ("ols", "{release}", "--target", TARGET),
    "show": ("show", "{release}"),
    "help": ("--help",),
}
RUNS = 5  # runs of each version and command


def cpu_seconds(root: Path, folder: Path, *arguments: str) -> float:
    """Run a command of the version in `root`, and return the seconds of CPU that it used."""
    paths = {"PYTHONPATH": str(root / "src"), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", START, *arguments],
        cwd=folder,
        env=os.environ | paths,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def prepare(versions: dict[str, Path], folder: Path) -> None:
    """Write the demo table of the earlier version, and the release of each version."""
    cpu_seconds(versions["before"], folder, "demo", "--folder", ".")
    for version, root in versions.items():
        out = RELEASE.format(version=version)
        asked = ("--schema", "health.toml", "--epsilon", "1", "--seed", "1", "--out", out)
        cpu_seconds(root, folder, "release", "health.csv", *asked)


def measured(
    name: str, versions: dict[str, Path], folder: Path, runs: int
) -> Iterator[dict[str, Any]]:
    """Yield the CPU times of one command, and the ratio of the medians."""
    times: dict[str, list[float]] = {version: [] for version in versions}
    for turn in range(runs + 1):
        for version, root in versions.items():
            release = RELEASE.format(version=version)
            line = [part.format(release=release, version=version) for part in COMMANDS[name]]
            spent = cpu_seconds(root, folder, *line)
            if turn:  # the first turn compiles modules and fills the cache of the disk
                times[version].append(spent)
    before, now = (statistics.median(times[version]) for version in ("before", "now"))
    pairs = [new / old for old, new in zip(times["before"], times["now"], strict=True)]
    yield {
        "command": name,
        "runs": runs,
        "seconds before": before,
        "seconds now": now,
        "ratio": now / before,
        "least ratio of a pair": min(pairs),
        "largest ratio of a pair": max(pairs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="folder with the earlier version")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each version and command")
    asked = parser.parse_args()
    versions = {"before": asked.before.resolve(), "now": HERE}
    kept = Kept("command_times.json", "make bench NAME=command_times ARGS=FOLDER")
    with tempfile.TemporaryDirectory(prefix="dpcov-times-") as name:
        prepare(versions, Path(name))
        for command in COMMANDS:
            kept.part(command, partial(measured, command, versions, Path(name), asked.runs))
    show("CPU times of commands", kept.rows)
    sys.exit(not kept.done())


if __name__ == "__main__":
    main()
