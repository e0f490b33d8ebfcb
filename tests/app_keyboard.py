"""A person who uses `dpcov app` in a real browser, with the keyboard alone."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from browser import Browser
from terminals import DPCOV

PATIENCE = 120.0  # seconds: a release in a process of its own, on a busy machine
MOST_TABS = 200
CONTROL = 2  # modifier of the DevTools protocol
CODES = {"Tab": 9, "Enter": 13, " ": 32, "ArrowUp": 38, "ArrowDown": 40, "Escape": 27}


@contextlib.contextmanager
def served(folder: Path) -> Iterator[Path]:
    """Serve a folder, and give the file that opens the page."""
    process = subprocess.Popen(
        [*DPCOV, "app", str(folder), "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"COLUMNS": "500"},
    )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        found = re.search(r"works once: (\S+)$", lines[1].strip())
        assert found is not None, lines
        yield Path(found[1])
    finally:
        process.terminate()
        process.communicate()


@dataclass
class Keyboard:
    """Keyboard of a browser; `presses` counts the keys."""

    browser: Browser
    presses: int = 0
    visited: list[str] = field(default_factory=list)

    def press(self, key: str, modifiers: int = 0) -> None:
        """Press a key once."""
        text = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 and not modifiers else "")
        code = CODES.get(key, ord(key.upper()) if len(key) == 1 and key.isalnum() else 0)
        self.browser.press(key, code=code, text=text, modifiers=modifiers)
        self.presses += 1

    def value(self, expression: str) -> Any:
        """Return the value of an expression; None while the browser changes the page."""
        try:
            return self.browser.value(expression)
        except RuntimeError:
            return None

    def go_to(self, selector: str) -> None:
        """Press Tab until an element with this selector has the focus."""
        for _ in range(MOST_TABS):
            if self.value(f"document.activeElement.matches({selector!r})"):
                return
            self.press("Tab")
        raise AssertionError(f"no Tab leads to {selector} on {self.value('document.title')}")

    def write(self, selector: str, text: str) -> None:
        """Replace the content of a field."""
        self.go_to(selector)
        self.press("a", CONTROL)
        for letter in text:
            self.press("Enter" if letter == "\n" else letter)

    def choose(self, selector: str, value: str) -> None:
        """Choose an entry of a list with the arrow keys."""
        self.go_to(selector)
        places = "[...document.activeElement.options].findIndex(one => one.value === {!r})"
        wanted = self.value(places.format(value))
        assert wanted >= 0, f"{selector} has no entry {value!r}"
        while (at := self.value("document.activeElement.selectedIndex")) != wanted:
            self.press("ArrowDown" if at < wanted else "ArrowUp")
            assert self.value("document.activeElement.selectedIndex") != at, "the list is stuck"

    def follow(self, selector: str) -> None:
        """Press Enter on a link or a button, and wait for the next page."""
        self.go_to(selector)
        self.value("window.former = true")
        self.press("Enter")
        self.wait("window.former === undefined && document.readyState === 'complete'")
        self.visited.append(self.value("document.title"))

    def wait(self, expression: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + PATIENCE
        while not self.value(expression):
            assert time.monotonic() < deadline, f"{expression}: {self.value('document.title')}"
            time.sleep(0.05)


@dataclass(frozen=True)
class Task:
    """What a person knows about a table.

    Attributes
    ----------
    file : str
        Name of the table.

    columns : dict of str to dict
        Fields of each column by their names, such as ``{"content": "age"}``.

    reading : dict of str to str
        Choices about a text file; `inner` names a table of a database.

    has_header : bool
        True if the first line of the file names the columns, and the page asks about it.

    rows, epsilon, total : str
        Expected rows and budget, in the number format of the page.

    """

    file: str
    columns: dict[str, dict[str, str]]
    reading: dict[str, str] = field(default_factory=dict)
    has_header: bool = False
    rows: str = "2000"
    epsilon: str = "5"
    total: str = "10"


def tried(keyboard: Keyboard, task: Task, each_page: Any = lambda: None) -> None:
    """Go from the list of tables to the report and the export for lavaan.

    `each_page` is called on every page.
    """
    each_page()
    keyboard.follow(f'a[href*="file={task.file.replace(" ", "+")}"]')
    each_page()
    if task.has_header or task.reading:
        for name, value in task.reading.items():
            if name in ("inner", "encoding"):
                keyboard.write(f"#{name}", value)
        if task.has_header:
            keyboard.go_to("#header-yes")
            keyboard.press(" ")
        for name, value in task.reading.items():
            if name not in ("inner", "encoding"):
                keyboard.choose(f"#{name}", value)
        keyboard.follow("main form button")
        each_page()
    described(keyboard, task)
    keyboard.follow("button[value=save]")
    each_page()
    keyboard.write("#epsilon", task.epsilon)
    keyboard.write("#total", task.total)
    keyboard.follow("form .buttons button")
    keyboard.wait("document.title.startsWith('Results') && document.readyState === 'complete'")
    each_page()
    keyboard.choose("#software", "lavaan")
    keyboard.follow("#software ~ button, .row:has(#software) button")
    keyboard.follow("form:has([value=report]) button")
    each_page()
    keyboard.follow('a[href*=read][href*="report.html"]')


def described(keyboard: Keyboard, task: Task) -> None:
    """Describe each column, and wait for the half widths."""
    names = keyboard.value("[...document.querySelectorAll('[name=name]')].map(one => one.value)")
    assert set(task.columns) == set(names), names
    keyboard.write("#rows", task.rows)
    keyboard.choose("#missing-numbers", "midpoint")
    keyboard.choose("#missing-categories", "zeros")
    for at, name in enumerate(names):
        for part, value in task.columns[name].items():
            if part in ("content", "missing"):
                keyboard.choose(f"#{part}-{at}", value)
            else:
                keyboard.write(f"#{part}-{at}", value)
    keyboard.wait("document.getElementById('widths').textContent.includes('half width of a 95%')")
