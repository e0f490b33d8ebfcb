"""Printing and keeping measured results."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parents[1] / "results"


def show(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as a table."""
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
    folder.mkdir(exist_ok=True)
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
