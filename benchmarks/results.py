"""Print and keep measured results."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parents[1] / "results"
SECONDS = 10  # at most between two writings of a part that goes on


class Kept:
    """Rows of a benchmark, kept on the disk while the benchmark runs.

    The rows are in `results/partial` until all parts are done, and then in `results`. A run that
    ends early keeps its rows, and no published figure comes from an incomplete run.
    """

    def __init__(self, name: str, command: str, *, folder: Path = RESULTS) -> None:
        self.name, self.command, self.folder = name, command, folder
        self.rows: list[dict[str, Any]] = []
        self.failed: list[str] = []
        self._written = time.monotonic()

    @property
    def _partial(self) -> Path:
        return self.folder / "partial" / self.name

    def go_on(self) -> list[dict[str, Any]]:
        """Load the rows of an earlier run, finished or not, and return them."""
        for path in (self._partial, self.folder / self.name):
            if path.exists():
                self.rows = json.loads(path.read_text())["rows"]
                break
        return self.rows

    def ended(self) -> list[dict[str, Any]]:
        """Return the rows of a finished run; if none exists, print its command and exit."""
        if not (path := self.folder / self.name).exists():
            sys.exit(f"There is no {path.name} yet: {self.command} makes it.")
        return list(json.loads(path.read_text())["rows"])

    def part(self, label: str, work: Callable[[], Iterable[dict[str, Any]]]) -> None:
        """Add the rows of a part one by one; if it fails, say so and go on."""
        try:
            for row in work():
                self.rows.append(row)
                if time.monotonic() - self._written > SECONDS:
                    self._write()
        except Exception:
            traceback.print_exc()
            print(f"{label}: failed, the others go on", flush=True)
            self.failed.append(label)
        finally:
            self._write()

    def pooled(self, work: Callable[[Any], Iterable[dict[str, Any]]], jobs: Iterable[Any]) -> None:
        """Add the rows of each job, two at a time in processes of their own."""
        with ProcessPoolExecutor(2) as pool:
            for job, running in [(job, pool.submit(work, job)) for job in jobs]:
                self.part(str(job), running.result)

    def done(self) -> bool:
        """Put the rows where results are, if no part failed; say where they are."""
        if self.failed or not self.rows:
            print(f"{self._partial}: {len(self.rows)} rows; failed: {', '.join(self.failed)}")
            return False
        write(self.name, self.command, self.rows, folder=self.folder)
        self._partial.unlink(missing_ok=True)  # of a run that found nothing left to do
        return True

    def _write(self) -> None:
        self._partial.parent.mkdir(parents=True, exist_ok=True)
        draft = self._partial.with_suffix(".draft")
        document = {"command": self.command, "failed": self.failed, "rows": self.rows}
        draft.write_text(json.dumps(document, indent=1) + "\n")
        draft.replace(self._partial)
        self._written = time.monotonic()


def show(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as a table, if there are any."""
    if not rows:
        return
    table = Table(title=title)
    for key in rows[0]:
        table.add_column(key, justify="right" if isinstance(rows[0][key], float) else "left")
    for row in rows:
        table.add_row(*(_text(value) for value in row.values()))
    Console(width=200).print(table)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def write(
    name: str, command: str, rows: Sequence[dict[str, Any]], *, folder: Path = RESULTS
) -> None:
    """Write `results/name` as the design describes."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {"command": command, "commit": _commit(), "machine": _machine(), "rows": list(rows)}
    (folder / name).write_text(json.dumps(document, indent=1) + "\n")
    print(f"written to {folder.name}/{name}")


def _commit() -> str:
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"],  # noqa: S607
        capture_output=True,
        text=True,
        cwd=RESULTS.parent,
        check=False,
    )
    return found.stdout.strip() or "unknown"


def _machine() -> dict[str, str]:
    return {
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
