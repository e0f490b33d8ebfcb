"""One table as nine programs write it gives the same integers."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyreadstat
import pytest

from dpcov.rows.schema import Schema
from dpcov.rows.sources.sql import DatabaseTable
from strategies import moment, same

SAMPLE = Path(__file__).parent / "sas" / "sample.sas7bdat.gz"
OWN = {  # of the sample
    "mynum": {"kind": "number", "lower": -1000, "upper": 1000, "missing": "level"},
    "mychar": {"kind": "categorical", "levels": ["a", "b", "e"], "other": True},
    "mydate": {"kind": "date", "lower": "1800-01-01", "upper": "2025-01-01", "missing": "level"},
    "dtime": {"kind": "time", "lower": "1800-01-01", "upper": "2025-01-01", "missing": "level"},
    "myord": {"kind": "integer", "lower": 0, "upper": 4},
}
ADDED = {  # by us, where a program other than SAS may write
    "wage": {"kind": "number", "lower": 0, "upper": 2000, "missing": "level"},
    "town": {
        "kind": "categorical",
        "levels": ["Zoë", "Köln", 'St "É"; x, y'],
        "other": True,
        "missing": "level",
    },
}
WAGES = [0.1, 1000 + 1 / 3, 1234567.8, None, 2.5e-7]
TOWNS = ["Zoë", 'St "É"; x, y', "two\nlines, é", None, "Köln"]
SEMICOLONS = {"separator": ";", "decimal": ","}
LATIN = {"separator": "\t", "encoding": "cp1252"}


def unpacked(folder: Path) -> Path:
    path = folder / "sample.sas7bdat"
    path.write_bytes(gzip.decompress(SAMPLE.read_bytes()))
    return path


def table(folder: Path) -> pd.DataFrame:
    """Return the sample's rows, with the added columns."""
    found, _ = pyreadstat.read_sas7bdat(str(unpacked(folder)))
    return found[list(OWN)].assign(wage=WAGES, town=TOWNS)


def text_file(frame: pd.DataFrame, path: Path, **options: str) -> Path:
    written = {"sep": options.get("separator", ","), "decimal": options.get("decimal", ".")}
    encoding = options.get("encoding", "utf-8")
    frame.to_csv(path, index=False, encoding=encoding, **written)
    return path


def workbook(frame: pd.DataFrame, path: Path) -> Path:
    """Write days and times as texts, because Excel's days begin in 1900."""
    reported = {name: frame[name].astype(str).replace("NaT", "") for name in ("mydate", "dtime")}
    frame.assign(**reported).to_excel(path, index=False)
    return path


def statistics(frame: pd.DataFrame, path: Path) -> Path:
    getattr(pyreadstat, f"write_{path.suffix[1:]}")(frame, str(path))
    return path


def parquet(frame: pd.DataFrame, path: Path) -> Path:
    frame.to_parquet(path)
    return path


def database(frame: pd.DataFrame, path: Path) -> DatabaseTable:
    with closing(sqlite3.connect(path)) as connection:
        frame.to_sql("t", connection, index=False, if_exists="replace")
    return DatabaseTable(path, "t")


Writer = Callable[..., Any]
FILES: dict[str, tuple[Writer, dict[str, str]]] = {
    "semicolons.csv": (text_file, SEMICOLONS),
    "line breaks.csv": (text_file, {}),
    "cp1252.tsv": (text_file, LATIN),
    "t.xlsx": (workbook, {}),
    "t.dta": (statistics, {}),
    "t.sav": (statistics, {}),
    "t.parquet": (parquet, {}),
    "t.sqlite": (database, {}),
}


def declared(columns: dict[str, Any], file: dict[str, str]) -> Schema:
    return Schema.parse({"version": 2, "columns": columns, "file": file})


def found(folder: Path, name: str, frame: pd.DataFrame, columns: dict[str, Any]) -> Any:
    write, file = FILES[name]
    options = file if write is text_file else {}
    return moment(write(frame, folder / name, **options), declared(columns, file))


@pytest.mark.parametrize("name", FILES)
def test_eight_files_give_the_integers_of_the_file_of_sas_and_of_each_other(tmp_path, name):
    frame = table(tmp_path)
    of_sas = moment(unpacked(tmp_path), declared(OWN, {}))
    assert of_sas.unit_count == len(frame) == 5
    assert same(found(tmp_path, name, frame, OWN), of_sas)
    whole = found(tmp_path, name, frame, OWN | ADDED)
    assert same(whole, moment(frame, declared(OWN | ADDED, {})))
    levels = moment(frame[["town"]], declared({"town": ADDED["town"]}, {}))
    counts = np.diag(np.asarray(levels.units, float))
    assert (counts > 0).all()  # each level, another text and a missing one are there


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("column", [*OWN, *ADDED])
def test_control_another_cell_of_any_column_gives_other_integers(tmp_path, name, column):
    frame = table(tmp_path)
    before = found(tmp_path, name, frame, OWN | ADDED)
    frame[column] = frame[column].to_numpy()[[1, 1, 2, 3, 4]]
    assert not same(found(tmp_path, name, frame, OWN | ADDED), before)
