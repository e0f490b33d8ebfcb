"""Pages of the third step: the budget and the release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpcov.app import forms
from dpcov.app.commands import line_of, lines_of, path_argument
from dpcov.app.folder import RELEASE_ENDING, TableFile
from dpcov.app.site import Site, query_of
from dpcov.errors import DpcovError, OutputError, SchemaError


class Releasing:
    """Pages that record the budget and make a release.

    Parameters
    ----------
    site : Site
        What all pages share.

    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.views = {("GET", "budget"): self.budget, ("POST", "release"): self.release}

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
        total += ["--delta", stated["delta"]] if stated.get("delta") else []
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
        try:
            stated = self._stated(table, given, name)
        except DpcovError as error:
            return self._budget_page(table, given, str(error), [])
        create, release = self._release_arguments(table, stated, name)
        if not self.site.folder.has(stated["ledger"]):
            ran = self.site.run(table, *create)
            if ran.code:
                return self._budget_page(table, given, "The ledger was not created.", lines_of(ran))
        ran = self.site.run(table, *release)
        if ran.code:
            return self._budget_page(table, given, "The release failed.", lines_of(ran))
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
        wanted = ["epsilon"] + ["total"] * (not self.site.folder.has(stated["ledger"]))
        wanted += ["delta"] * bool(given.get("delta", "").strip())
        for part in wanted:
            try:
                stated[part] = f"{self.site.numbers.read(given.get(part, '')):.12g}"
            except SchemaError as error:
                names = {"epsilon": "Epsilon of this release", "delta": "Delta"}
                raise SchemaError(f"{names.get(part, 'Total epsilon')}: {error}") from None
        return {"total": ""} | stated


def _is_release_of(table: TableFile, name: str) -> bool:
    middle = name.removeprefix(table.stem).removesuffix(RELEASE_ENDING)
    number = middle.removeprefix("-")
    rest = f"{table.stem}{middle}{RELEASE_ENDING}"
    return name == rest and (not middle or (middle == f"-{number}" and number.isdecimal()))
