"""Measured means as CSV files beside the figures."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from slopes import Mean


def write_means(path: Path, over: str, series: Mapping[str, Mapping[int, Mean]]) -> None:
    """Write a row for each series and point: name, point, mean and standard error."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["series", over, "mean", "standard error"])
        for name, means in series.items():
            for at, mean in means.items():
                writer.writerow([name, at, f"{mean.value:.6g}", f"{mean.error:.2g}"])
