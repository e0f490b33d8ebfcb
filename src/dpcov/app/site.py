"""What all pages share: templates, answers, the folder, and the commands that ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from threading import Lock
from typing import Any
from urllib.parse import urlencode

import dpcov
from dpcov.app import commands
from dpcov.app.access import Access
from dpcov.app.commands import Ran
from dpcov.app.folder import Folder, TableFile
from dpcov.app.number_formats import FORMATS, NumberFormat
from dpcov.app.widths import widths
from dpcov.core.installing import library
from dpcov.core.printable import printable
from dpcov.errors import DpcovError, OutputError

MAX_EXPECTED_ROWS = 10**12  # largest number of rows of a plan
TEMPLATE_CHARACTERS = "\n\t\u00a0\u202f"


class Site:
    """Folder, secrets and state of one run, for all pages.

    Parameters
    ----------
    folder : Folder
        Folder with the tables.

    access : Access
        Secrets and checks of the run.

    """

    def __init__(self, folder: Folder, access: Access) -> None:
        needed = "The page needs werkzeug. Install it"
        self.wrappers = library("werkzeug", needed, OutputError, module="werkzeug.wrappers")
        self.folder, self.access = folder, access
        self.format: str | None = None
        self.ran: dict[str, list[Ran]] = {}  # commands of this run, by the stem of the table
        self._running = Lock()

    @cached_property
    def _templates(self) -> Any:
        jinja2 = library("jinja2", "The page needs jinja2. Install it", OutputError)
        return jinja2.Environment(
            loader=jinja2.PackageLoader("dpcov.app", "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            finalize=_finalized,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def page(self, template: str, status: int = 200, **values: Any) -> Any:
        """Return a page from a template."""
        facts = {
            "base": self.access.folder,
            "key": self.access.form_key,
            "folder": self.folder.root.name or str(self.folder.root),
            "formats": FORMATS,
            "format": self.format or "en",
            "step": "",
            "query": "",
        }
        text = self._templates.get_template(f"{template}.html").render(facts | values)
        return self.wrappers.Response(text, status=status, mimetype="text/html")

    def plain(self, text: str, status: int) -> Any:
        """Return a page of plain text."""
        return self.wrappers.Response(f"{text}\n", status=status, mimetype="text/plain")

    def moved(self, page: str, table: TableFile, **more: str) -> Any:
        """Return an answer that leads to another page about a table."""
        query = query_of(table, **more)
        address = f"{self.access.folder}{page}?{query}"
        return self.wrappers.Response("", 303, headers={"Location": address})

    @property
    def numbers(self) -> NumberFormat:
        """Format of numbers that the user has chosen."""
        return FORMATS[self.format or "en"]

    def table_of(self, values: Mapping[str, str]) -> TableFile:
        """Return the table that a request names."""
        return self.folder.table(values.get("file", ""), values.get("inner", ""))

    def run(self, table: TableFile, *arguments: str) -> Ran:
        """Run a command, one at a time, and keep it for the list of commands."""
        with self._running:
            ran = commands.run(arguments, self.folder.root)
        self.ran.setdefault(table.stem, []).append(ran)
        return ran

    def schema(self, table: TableFile) -> dpcov.Schema:
        """Return the schema of a table."""
        return dpcov.Schema.load(self.folder.inside(table.named(".toml")))

    def widths_of(
        self, schema: Callable[[], dpcov.Schema], answers: Mapping[str, str]
    ) -> list[str]:
        """Return the expected half widths as sentences, or what they need."""
        try:
            rows = self.numbers.read_whole(answers.get("rows", ""), 1, MAX_EXPECTED_ROWS)
            epsilon = self.numbers.read(answers.get("epsilon", ""))
            delta = answers.get("delta", "").strip()
            added = self.numbers.read(delta) if delta else None
        except DpcovError:
            return ["State the number of rows that you expect, and epsilon."]
        try:
            found = widths(schema(), rows, epsilon, added)
        except DpcovError as error:
            return [str(error)]
        if found is None:
            return ["A release of these columns has no correlations."]
        return found.sentences(self.numbers)


def query_of(table: TableFile, **more: str) -> str:
    """Return the part of an address that names a table."""
    stated = {"file": table.file} | ({"inner": table.inner} if table.inner else {})
    return urlencode(stated | more)


def _finalized(value: Any) -> Any:
    """Return a value for a template, with a question mark for each unprintable character."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return printable(value, TEMPLATE_CHARACTERS)
