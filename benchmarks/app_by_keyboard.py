"""`dpcov app` with the keyboard alone: nine kinds of file lead to a report and to lavaan.

`make app` runs this script in Chromium. The script prints the seconds and the key presses of each
kind. On each page, axe-core checks light and dark, at 1280 and 390 pixels. Its version and hash
are in tests/axe, and npm installs it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyreadstat

from dpcov.app.folder import TableFile

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from app_keyboard import Keyboard, Task, served, tried  # noqa: E402 (the tests are no package)
from browser import Browser, executable  # noqa: E402

AXE = ROOT / ".venv" / "axe"
SERIOUS = ("serious", "critical")
VIEWS = ((1280, False), (1280, True), (390, False), (390, True))
RUN_AXE = "axe.run().then(found => JSON.stringify(found.violations))"
TOO_WIDE = "document.documentElement.scrollWidth > innerWidth"
ROWS = 2000
AGE = {"content": "age"}
WARD = {"content": "categorical", "levels": "north\nsouth\nwest"}
INCOME = {"content": "number", "lower": "0", "upper": "100000"}
COLUMNS = {"age": AGE, "income": INCOME, "ward": WARD, "smoker": {"content": "flag"}}
GERMAN = COLUMNS | {"income": {"content": "number", "lower": "0,5", "upper": "100.000,5"}}
SAS = ROOT / "tests" / "sas" / "sample.sas7bdat.gz"
SAS_COLUMNS = {
    "mynum": {"content": "number", "lower": "-1000", "upper": "1000"},
    "mychar": {"content": "categorical", "levels": "a\nb\ne"},
    "myord": {"content": "integer", "lower": "0", "upper": "4"},
    **{name: {"content": "ignored"} for name in ("mydate", "dtime", "mylabl", "mytime")},
}


def table() -> pd.DataFrame:
    """Return simulated persons."""
    random = np.random.default_rng(61)
    age = random.integers(18, 95, ROWS)
    income = np.round(random.gamma(4, 5000, ROWS) + 300 * age, 1)
    ward = random.choice(["north", "south", "west"], ROWS)
    smoker = random.integers(0, 2, ROWS)
    return pd.DataFrame({"age": age, "income": income, "ward": ward, "smoker": smoker})


def database(frame: pd.DataFrame, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        frame.to_sql("persons", connection, index=False)


def sas(_: pd.DataFrame, path: Path) -> None:
    path.write_bytes(gzip.decompress(SAS.read_bytes()))


def text(**options: str) -> Callable[[pd.DataFrame, Path], None]:
    return lambda frame, path: frame.to_csv(path, index=False, **options)  # type: ignore[arg-type]


Writer = Callable[[pd.DataFrame, Path], Any]
KINDS: dict[str, tuple[Writer, Task]] = {
    "CSV": (text(), Task("persons.csv", COLUMNS, has_header=True)),
    "CSV, German": (
        text(sep=";", decimal=","),
        Task(
            "personen.csv",
            GERMAN,
            {"separator": ";", "decimal": ","},
            True,
            rows="2.000",
            epsilon="4,5",
            total="10,5",
        ),
    ),
    "TSV, gzip": (text(sep="\t"), Task("persons.tsv.gz", COLUMNS, has_header=True)),
    "Excel": (
        lambda frame, path: frame.to_excel(path, index=False),
        Task("persons.xlsx", COLUMNS, has_header=True),
    ),
    "Parquet": (lambda frame, path: frame.to_parquet(path), Task("persons.parquet", COLUMNS)),
    "Stata": (
        lambda frame, path: pyreadstat.write_dta(frame, str(path)),
        Task("persons.dta", COLUMNS),
    ),
    "SPSS": (
        lambda frame, path: pyreadstat.write_sav(frame, str(path)),
        Task("persons.sav", COLUMNS),
    ),
    "SAS": (sas, Task("sample.sas7bdat", SAS_COLUMNS, rows="5", epsilon="100", total="100")),
    "SQLite": (database, Task("persons.sqlite", COLUMNS, {"inner": "persons"})),
}


def accessibility() -> str:
    """Return the script of axe-core, which npm installs in the version of tests/axe."""
    script = AXE / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        AXE.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(ROOT / "tests" / "axe" / name, AXE)
        subprocess.run(["npm", "ci", "--ignore-scripts", "--silent"], cwd=AXE, check=True)  # noqa: S607
    return script.read_text(encoding="utf-8")


CONTROL = "<html><title>t</title><img src='data:,'><input><p style='color:#ccc'>faint</p></html>"


def require_findings(path: str, axe: str) -> None:
    """Raise an error unless axe-core finds the faults of a page that has some."""
    with TemporaryDirectory() as place, Browser(path) as browser:
        page = Path(place, "control.html")
        page.write_text(CONTROL, encoding="utf-8")
        browser.open(page, VIEWS[0][0])
        if len(violations(browser, axe)) < len(VIEWS):
            raise SystemExit("axe-core finds nothing on a page with faults.")


def violations(browser: Browser, axe: str) -> list[str]:
    """Return the serious findings of axe-core on the page, and views that are too wide."""
    found = []
    for width, dark in VIEWS:
        browser.show_as(width, dark=dark)
        view = f"{width} px, {'dark' if dark else 'light'}"
        found += [f"{view}: the page is too wide"] if browser.value(TOO_WIDE) else []
        if not axe:
            continue
        if browser.value("typeof axe") != "object":
            browser.value(f"{axe};0")
        found += [
            f"{view}: {one['id']} ({one['impact']}): {one['nodes'][0]['html'][:120]}"
            for one in json.loads(browser.value(RUN_AXE))
            if one["impact"] in SERIOUS
        ]
    browser.show_as(VIEWS[0][0])
    return found


def mistaken(keyboard: Keyboard, task: Task, check: Callable[[], None]) -> None:
    """Go back and save an empty form, so that the page lists what is missing."""
    keyboard.value("history.back()")
    keyboard.wait("document.title.startsWith('Results')")
    keyboard.follow("nav a")
    keyboard.follow(f'a[href*="file={task.file}"]')
    check()
    keyboard.go_to("#header-yes")
    keyboard.press(" ")
    for name, value in task.reading.items():
        keyboard.choose(f"#{name}", value)
    keyboard.follow("main form button")
    keyboard.follow("button[value=save]")
    assert "missing" in keyboard.value("document.activeElement.textContent"), "no list of mistakes"
    check()


def tried_kind(name: str, path: str, axe: str = "") -> tuple[float, int, list[str]]:
    """Return the seconds, the key presses and the findings for one kind of file.

    Without the script `axe`, the findings are errors of the console and pages that are too wide.
    """
    write, task = KINDS[name]
    findings: list[str] = []
    with TemporaryDirectory() as place:
        folder = Path(place, "study")
        folder.mkdir()
        write(table(), folder / task.file)
        with served(folder) as opening, Browser(path) as browser:
            browser.open(opening, VIEWS[0][0])
            keyboard, checking = Keyboard(browser), 0.0
            keyboard.wait("document.title.startsWith('Tables')")
            if "German" in name:
                keyboard.choose("#format", "de")
                keyboard.follow("form button")

            def check() -> None:
                nonlocal checking
                began = time.monotonic()
                title = browser.value("document.title")
                findings.extend(f"{title}: {one}" for one in violations(browser, axe))
                checking += time.monotonic() - began

            began = time.monotonic()
            tried(keyboard, task, check)
            seconds, presses = time.monotonic() - began - checking, keyboard.presses
            own = re.compile(r"http://127\.0\.0\.1:\d+/")
            findings += [one for one in browser.complaints() if not own.match(one)]
            if task.has_header:
                mistaken(keyboard, task, check)
        stem = TableFile(task.file, task.reading.get("inner", "")).stem
        assert (folder / f"{stem}-lavaan" / "README.txt").exists(), "no export for lavaan"
        assert (folder / f"{stem}.report.html").stat().st_size > 10_000, "no report"
    return seconds, presses, findings


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("kinds", nargs="*", help=f"kinds of file: {', '.join(KINDS)}")
    path = executable()
    if path is None:
        raise SystemExit("Chromium is needed: none is on the path.")
    axe, failed = accessibility(), False
    require_findings(path, axe)
    print(f"{'kind of file':14} {'seconds':>8} {'key presses':>12} {'findings':>9}")
    for name in asked.parse_args().kinds or KINDS:
        seconds, presses, findings = tried_kind(name, path, axe)
        print(f"{name:14} {seconds:8.1f} {presses:12} {len(findings):9}", flush=True)
        for one in findings:
            print(f"  {one}")
        failed |= bool(findings)
    sys.exit(failed)


if __name__ == "__main__":
    main()
