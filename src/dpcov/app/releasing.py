"""Pages of the third step: the budget and the release."""

from __future__ import annotations

import json
from collections.abc import Mapping
from threading import Thread
from typing import Any

from dpcov.app import forms
from dpcov.app.commands import Ran, line_of, lines_of, path_argument
from dpcov.app.folder import RELEASE_ENDING, TableFile
from dpcov.app.site import Site, query_of
from dpcov.errors import DpcovError, OutputError, SchemaError

# Amounts that the form asks for.
FORM_AMOUNTS = {
    "epsilon": "Epsilon of this release",
    "delta": "Delta of this release",
    "total": "Total epsilon",
    "total_delta": "Total delta",
}
PATIENCE_SECONDS = 10.0  # time after which a page says that the release still runs


class Job:
    """Commands that run one after the other in the background, until one of them fails.

    A browser stops waiting after some minutes, and the release of a large table can take longer.
    The server ends after the commands.

    Parameters
    ----------
    site : Site
        What all pages share.

    table : TableFile
        Table of the commands.

    lines : list of list of str
        Arguments of each command.

    given : mapping of str to str
        Answers of the form, for the case that a command fails.

    """

    def __init__(
        self, site: Site, table: TableFile, lines: list[list[str]], given: Mapping[str, str]
    ) -> None:
        self.site, self.table, self.lines, self.given = site, table, lines, given
        self.ran = Ran("", 1, "", "The command did not start.")
        self._thread = Thread(target=self._run)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """True if a command still runs."""
        return self._thread.is_alive()

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the commands, and return True if they still run."""
        self._thread.join(seconds)
        return self.is_running

    def _run(self) -> None:
        for line in self.lines:
            self.ran = self.site.run(self.table, *line)
            if self.ran.code:
                return


class Releasing:
    """Pages that record the budget and make a release.

    Parameters
    ----------
    site : Site
        What all pages share.

    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.jobs: dict[str, Job] = {}  # releases that run, by the name of the file
        self.views = {
            ("GET", "budget"): self.budget,
            ("GET", "running"): self.running,
            ("POST", "release"): self.release,
        }

    def budget(self, request: Any) -> Any:
        """Return the form of the budget and of the release."""
        table = self.site.table_of(request.args)
        return self._budget_page(table, {"epsilon": "1", **request.args}, "", [])

    def _budget_page(
        self,
        table: TableFile,
        given: Mapping[str, str],
        message: str,
        errors: list[str],
        found: list[str] | None = None,
    ) -> Any:
        path = self.site.folder.inside(table.named(".toml"))
        self.site.schema(table)  # raises an error if the file is not a valid schema
        name = given.get("release") or self.site.folder.next_release(table)
        return self.site.page(
            "budget",
            status=400 if message else 200,
            title=f"Budget and release of {table.file}",
            step="budget",
            query=query_of(table),
            table=table,
            schema_name=table.named(".toml"),
            schema_text=path.read_text(encoding="utf-8"),
            ledgers=self.site.folder.ledgers(table),
            new_ledger=table.named(".ledger"),
            release_name=name,
            given=given,
            message=message,
            errors=errors,
            widths=found or [],
            commands=self._examples(table, name),
            check_command=line_of(self._checking(table)),
        )

    @staticmethod
    def _checking(table: TableFile) -> list[str]:
        """Return the arguments of the command that counts unreadable cells."""
        schema = ["--schema", path_argument(table.named(".toml"))]
        return ["check", path_argument(table.file), *forms.inner_arguments(table), *schema]

    def _examples(self, table: TableFile, name: str) -> list[str]:
        """Return the commands of this step, with names for what the user types."""
        stated = {"epsilon": "EPSILON", "total": "TOTAL", "ledger": table.named(".ledger")}
        first, second = self._release_arguments(table, stated, name)
        return [line_of(first), line_of(second)]

    @staticmethod
    def _release_arguments(
        table: TableFile, stated: Mapping[str, str], name: str
    ) -> tuple[list[str], list[str]]:
        """Return the arguments of the commands that create the ledger and release."""
        ledger = path_argument(stated["ledger"])
        total = ["--epsilon", stated["total"]]
        total += ["--delta", stated["total_delta"]] if stated.get("total_delta") else []
        made = ["release", path_argument(table.file), *forms.inner_arguments(table)]
        made += ["--schema", path_argument(table.named(".toml")), "--epsilon", stated["epsilon"]]
        made += ["--delta", stated["delta"]] if stated.get("delta") else []
        made += ["--ledger", ledger]
        # A field named dataset would hide the attribute of the form that the script reads.
        for option, part in (("dataset", "data_set"), ("purpose", "purpose")):
            made += [f"--{option}={stated[part]}"] if stated.get(part) else []
        return ["ledger", "create", ledger, *total], [*made, "--out", path_argument(name)]

    def release(self, request: Any) -> Any:
        """Create the ledger if it is new, and run the release."""
        table, given = self.site.table_of(request.form), request.form
        if given.get("action") == "widths":
            found = self.site.widths_of(lambda: self.site.schema(table), given)
            return self._budget_page(table, given, "", [], found)
        name = given.get("release", "")
        if name in self.jobs:  # the form was sent twice
            return self._outcome(table, name)
        try:
            stated = self._stated(table, given, name)
        except DpcovError as error:
            return self._budget_page(table, given, str(error), [])
        create, release = self._release_arguments(table, stated, name)
        is_new = not self.site.folder.has(stated["ledger"])
        lines = [create, release] if is_new else [release]
        self.jobs[name] = Job(self.site, table, lines, dict(given))
        return self._outcome(table, name)

    def running(self, request: Any) -> Any:
        """Return the outcome of a release, or the page that waits for it."""
        table, name = self.site.table_of(request.args), request.args.get("release", "")
        if request.args.get("only") == "state":
            job = self.jobs.get(name)
            found = json.dumps({"running": job is not None and job.is_running})
            return self.site.wrappers.Response(found, mimetype="application/json")
        return self._outcome(table, name)

    def _outcome(self, table: TableFile, name: str) -> Any:
        job = self.jobs.get(name)
        if job is None:
            return self.site.moved("results", table, release=name)
        if job.wait(PATIENCE_SECONDS):
            title, query = f"Release of {table.file}", query_of(table, release=name)
            return self.site.page("running", title=title, step="budget", query=query)
        self.jobs.pop(name, None)
        if job.ran.code:
            message = "The command failed. Its message says whether budget was spent."
            return self._budget_page(table, job.given, message, lines_of(job.ran))
        return self.site.moved("results", table, release=name)

    def _stated(self, table: TableFile, given: Mapping[str, str], name: str) -> dict[str, str]:
        """Return the answers as the commands need them."""
        stated = {part: given.get(part, "").strip() for part in ("data_set", "purpose")}
        allowed = [table.named(".ledger"), *self.site.folder.ledgers(table)]
        stated["ledger"] = given.get("ledger", "")
        if stated["ledger"] not in allowed or not _is_release_of(table, name):
            raise SchemaError("Choose a ledger and a release file of this table.")
        if self.site.folder.has(name):
            raise OutputError(f"The release {name} exists already. Nothing was spent.")
        is_new = not self.site.folder.has(stated["ledger"])
        needed = ("epsilon", "total") if is_new else ("epsilon",)
        for part, words in FORM_AMOUNTS.items():
            text = given.get(part, "").strip()
            if part not in needed and not text:
                continue
            try:
                stated[part] = f"{self.site.numbers.read(text):.12g}"
            except SchemaError as error:
                raise SchemaError(f"{words}: {error}") from None
        return {"total": ""} | stated


def _is_release_of(table: TableFile, name: str) -> bool:
    middle = name.removeprefix(table.stem).removesuffix(RELEASE_ENDING)
    number = middle.removeprefix("-")
    rest = f"{table.stem}{middle}{RELEASE_ENDING}"
    return name == rest and (not middle or (middle == f"-{number}" and number.isdecimal()))
