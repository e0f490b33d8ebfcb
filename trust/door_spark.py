"""A local Spark session, where Java and pyspark are."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dpcov

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.log.level": "ERROR",
}
ENVIRONMENT = {
    "PYSPARK_PYTHON": sys.executable,
    "PYTHONPATH": str(Path(dpcov.__file__).parents[1]),
    "OMP_NUM_THREADS": "1",
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@contextmanager
def spark_session(folder: Path) -> Iterator[Any]:
    """Run a session of one core; what its processes print goes to a file."""
    from pyspark.sql import SparkSession

    before = dict(os.environ)
    os.environ.update(ENVIRONMENT)
    places = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
    }
    builder = SparkSession.builder.master("local[1]").appName("door")
    for name, value in (SETTINGS | places).items():
        builder = builder.config(name, value)
    errors = os.dup(2)
    with (folder / "spark.log").open("wb") as file:
        os.dup2(file.fileno(), 2)
        try:
            session = builder.getOrCreate()
        finally:
            os.dup2(errors, 2)
            os.close(errors)
    try:
        yield session
    finally:
        session.stop()
        os.environ.clear()
        os.environ.update(before)
