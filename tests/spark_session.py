"""A local Spark session, for the tests and for `make trust`, where Java and pyspark are."""

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
}
# What the workers need to find Python and this dpcov, and Java to start fast.
ENVIRONMENT = {
    "PYSPARK_PYTHON": sys.executable,
    "PYTHONPATH": str(Path(dpcov.__file__).parents[1]),
    "OMP_NUM_THREADS": "1",
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # half the CPU of Java
}


@contextmanager
def spark_session(folder: Path, *, cores: int, **settings: Any) -> Iterator[Any]:
    """Run a session; what its processes print goes to ``log.txt``.

    Of the names of further `settings` the dots are written as underscores.
    """
    from pyspark.sql import SparkSession

    before = dict(os.environ)
    os.environ.update(ENVIRONMENT)
    places = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
    }
    asked = {f"spark.{name.replace('_', '.')}": str(value) for name, value in settings.items()}
    builder = SparkSession.builder.master(f"local[{cores}]").appName("dpcov")
    for name, value in (SETTINGS | places | asked).items():
        builder = builder.config(name, value)
    errors = os.dup(2)
    with (folder / "log.txt").open("wb") as file:  # the processes keep it as their standard error
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
