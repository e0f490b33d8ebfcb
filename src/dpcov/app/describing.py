"""Pages of the first two steps: the table and its columns."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any

import dpcov
from dpcov.app import forms
from dpcov.app.commands import line_of
from dpcov.app.folder import TableFile
from dpcov.app.number_formats import FORMATS
from dpcov.app.site import Site, query_of
from dpcov.cli.questions import ID_TYPES, MISSING_MEANINGS
from dpcov.cli.schema import separator_of
from dpcov.core.files import write
from dpcov.core.printable import printable
from dpcov.errors import DpcovError, SchemaError, SourceError


class Describing:
    """Pages that list the tables and describe the columns of one table.

    Parameters
    ----------
    site : Site
        What all pages share.

    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.views = {
            ("GET", ""): self.tables,
            ("POST", "format"): self.choose_format,
            ("GET", "table"): self.table,
            ("GET", "columns"): self.columns,
            ("POST", "columns"): self.save_columns,
            ("POST", "widths"): self.live_widths,
        }

    def tables(self, request: Any) -> Any:
        """Return the list of tables."""
        found = []
        for name in self.site.folder.tables():
            table = TableFile(name)
            found.append({"name": name, "query": query_of(table), "state": self._state(table)})
        return self.site.page("tables", title="Tables", tables=found, step="table")

    def _state(self, table: TableFile) -> str:
        releases = len(self.site.folder.releases(table))
        if releases:
            return f"{releases} release{'s' if releases > 1 else ''}"
        return "described" if self.site.folder.has(table.named(".toml")) else ""

    def choose_format(self, request: Any) -> Any:
        """Set the number format and return to the list of tables."""
        chosen = request.form.get("format", "")
        self.site.format = chosen if chosen in FORMATS else self.site.format
        return self.site.wrappers.Response("", 303, headers={"Location": self.site.access.folder})

    def table(self, request: Any) -> Any:
        """Return the questions about how the file is written, or go on to its columns."""
        table = self.site.table_of(request.args)
        has_schema = not table.inner and self.site.folder.has(table.named(".toml"))
        if table.kind == "typed" and not has_schema and not self.site.folder.books(table):
            return self.site.moved("columns", table)
        return self._reading_page(table, request.args, "")

    def _reading_page(self, table: TableFile, given: Mapping[str, str], message: str) -> Any:
        return self.site.page(
            "reading",
            status=400 if message else 200,
            title=table.file,
            step="table",
            table=table,
            given={"separator": separator_of(table.file), "decimal": "."} | dict(given),
            message=message,
            has_schema=self.site.folder.has(table.named(".toml")),
            releases=self.site.folder.releases(table),
            query=query_of(table),
            books=self.site.folder.books(table),
            separators=forms.SEPARATORS,
            decimals=forms.DECIMAL_SIGNS,
            thousands=forms.THOUSANDS_SIGNS,
        )

    # Step 2: the columns

    def _column_form(self, table: TableFile, query: Mapping[str, str], answers: Any) -> Any:
        """Return the form of the columns with its answers."""
        if query.get("edit") == "yes":
            form = forms.editing_form(self.site.schema(table), self.site.numbers)
            if form is None:
                raise SchemaError(
                    f"The form has no fields for some parts of {table.named('.toml')}. Edit this "
                    "file in an editor."
                )
            form.answers = answers or form.answers
            return form
        options, columns = forms.reading_of(query, table)
        book = query.get("book", "")
        described = forms.Described.of(self.site.folder, table, options, columns, book)
        form = forms.ColumnForm(described, options, self.site.numbers, answers or {})
        if answers is None:
            form.answers = forms.answers_of(described.stated, form.names, self.site.numbers)
        if len(form.names) > forms.MAX_COLUMNS:
            raise SourceError(
                f"The page shows at most {forms.MAX_COLUMNS} columns. Run `dpcov schema` in a "
                "terminal."
            )
        return form

    def columns(self, request: Any) -> Any:
        """Return the form that describes the columns."""
        table = self.site.table_of(request.args)
        try:
            form = self._column_form(table, request.args, None)
        except DpcovError as error:
            if table.kind == "typed" or request.args.get("edit") == "yes":
                raise
            return self._reading_page(table, request.args, str(error))
        return self._columns_page(table, request.args, form, "", [])

    def _columns_page(
        self, table: TableFile, query: Mapping[str, str], form: Any, message: str, found: list[str]
    ) -> Any:
        plain = {name: value for name, value in query.items() if name not in ("file", "inner")}
        options = None if query.get("edit") == "yes" else forms.reading_of(query, table)
        book = query.get("book", "")
        command = [] if options is None else forms.schema_arguments(table, *options, book)
        return self.site.page(
            "columns",
            status=400 if message else 200,
            title=f"Columns of {table.file}",
            step="columns",
            query=query_of(table),
            table=table,
            columns=form.shown_columns(),
            given=dict(form.answers),
            errors=form.errors,
            message=message,
            contents=forms.CONTENTS,
            needed=forms.NEEDED,
            meanings=MISSING_MEANINGS,
            rules=forms.COLUMN_RULES,
            id_types=ID_TYPES,
            reading=query_of(table, **plain),
            exists=self.site.folder.has(table.named(".toml")),
            schema_name=table.named(".toml"),
            command=line_of(command) if command else "",
            widths=found,
        )

    def save_columns(self, request: Any) -> Any:
        """Write the schema, or return the form with what is missing."""
        table = self.site.table_of(request.args)
        form = self._column_form(table, request.args, request.form)
        if [printable(name) for name in form.names] != request.form.getlist("name"):
            raise SchemaError("The columns of the table have changed. Describe the table again.")
        if request.form.get("action") == "widths":
            found = self.site.widths_of(lambda: _parsed(form.text()), request.form)
            return self._columns_page(table, request.args, form, "", found)
        place = table.named(".toml")
        replaced = request.form.get("replace") == "yes"
        try:
            text = form.text()
            if self.site.folder.has(place) and not replaced:
                form.errors["replace"] = f"{place} exists. Confirm that dpcov can replace it."
                raise SchemaError(form.errors["replace"])
            write(self.site.folder.root / place, text, force=replaced)
        except DpcovError as error:
            return self._columns_page(table, request.args, form, str(error), [])
        stated = {part: request.form.get(part, "").strip() for part in ("rows", "epsilon")}
        return self.site.moved(
            "budget", table, **{part: text for part, text in stated.items() if text}
        )

    def live_widths(self, request: Any) -> Any:
        """Return the expected half widths for the answers so far, as JSON."""
        table = self.site.table_of(request.args)
        if request.args.get("step") == "budget":
            found = self.site.widths_of(lambda: self.site.schema(table), request.form)
        else:
            form = self._column_form(table, request.args, request.form)
            found = self.site.widths_of(lambda: _parsed(form.text()), request.form)
        return self.site.wrappers.Response(
            json.dumps({"sentences": found}), mimetype="application/json"
        )


def _parsed(text: str) -> dpcov.Schema:
    return dpcov.Schema.parse(tomllib.loads(text))
