"""Pages of the application: from the list of tables to the report."""

from __future__ import annotations

import io
import json
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, get_args
from urllib.parse import quote, urlencode

import dpcov
from dpcov.app import access as secrets
from dpcov.app import forms
from dpcov.app.access import Access
from dpcov.app.commands import Ran, line_of, path_argument, run
from dpcov.app.folder import DOCUMENT_ENDINGS, DOWNLOAD_ENDINGS, RELEASE_ENDING, Folder, TableFile
from dpcov.app.number_formats import FORMATS, NumberFormat, preferred
from dpcov.app.widths import widths
from dpcov.cli.export import Software
from dpcov.cli.questions import ID_TYPES, MISSING_MEANINGS
from dpcov.cli.schema import separator_of
from dpcov.core.files import write
from dpcov.core.installing import library
from dpcov.core.printable import printable
from dpcov.errors import DpcovError, OutputError, SchemaError, SourceError

# Largest body of a request in bytes: the form of a wide table needs less.
MAX_BODY_BYTES = 2**21
MAX_ROWS = 10**12
# Command and ending of each document about a release.
DOCUMENTS = {"report": ".report.html", "table1": ".table1.html", "passport": ".passport.html"}
NO_ACCESS_MESSAGE = (
    "This page belongs to the person who started dpcov app. Open the file that the terminal names, "
    "or start dpcov app again: the file works once."
)
KEPT_CHARACTERS = "\n\t\u00a0\u202f"
SCRIPTS = {"app.css": "text/css", "app.js": "text/javascript"}


class Pages:
    """WSGI application of one folder and one user.

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
        self.faults = library("werkzeug", needed, OutputError, module="werkzeug.exceptions")
        self.folder, self.access = folder, access
        self.format: str | None = None
        self.ran: dict[str, list[Ran]] = {}  # commands of this run, by the stem of the table
        self._running = Lock()
        self.views: dict[tuple[str, str], Callable[[Any], Any]] = {
            ("GET", ""): self.tables,
            ("GET", "table"): self.table,
            ("GET", "columns"): self.columns,
            ("GET", "budget"): self.budget,
            ("GET", "results"): self.results,
            ("GET", "read"): self.read,
            ("GET", "download"): self.download,
            ("POST", "columns"): self.save_columns,
            ("POST", "widths"): self.live_widths,
            ("POST", "release"): self.release,
            ("POST", "make"): self.make,
            ("POST", "format"): self.choose_format,
        }

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request. No error text leaves this method unless dpcov wrote the text."""
        request = self.wrappers.Request(environ)
        request.max_content_length = request.max_form_memory_size = MAX_BODY_BYTES
        try:
            response = self._answer(request)
        except self.faults.HTTPException as fault:
            response = self._plain(f"The request was refused: {fault.name}.", fault.code or 400)
        except Exception as error:
            name = type(error).__name__
            response = self._plain(f"Unexpected {name}; its text is hidden.", 500)
        for name, value in secrets.HEADERS.items():
            response.headers.setdefault(name, value)
        answered: Iterable[bytes] = response(environ, start)
        return answered

    def _answer(self, request: Any) -> Any:
        """Check who asks, and return the page that the address names."""
        if request.path == "/enter":
            return self._enter(request)
        if not request.path.startswith(self.access.folder) or not self.access.is_allowed(request):
            return self._plain(NO_ACCESS_MESSAGE, 403)
        page = request.path.removeprefix(self.access.folder)
        if page in SCRIPTS:
            body = Path(__file__).with_name("static").joinpath(page).read_bytes()
            return self.wrappers.Response(body, mimetype=SCRIPTS[page])
        method = "GET" if request.method == "HEAD" else request.method
        view = self.views.get((method, page))
        if view is None:
            return self._page("message", status=404, title="There is no such page.", message="")
        if self.format is None:
            self.format = preferred(request.headers.get("Accept-Language", ""))
        try:
            return view(request)
        except DpcovError as error:
            title = "dpcov could not do this"
            return self._page("message", status=400, title=title, message=str(error))

    def _enter(self, request: Any) -> Any:
        """Exchange the one-time token for the cookie."""
        if request.method != "POST" or not self.access.is_own_host(request):
            return self._plain(NO_ACCESS_MESSAGE, 403)
        cookie = self.access.use_token(request.form.get("token", ""))
        if cookie is None:
            return self._plain(NO_ACCESS_MESSAGE, 403)
        response = self._page("enter", title="dpcov is open")
        response.set_cookie(
            secrets.COOKIE, cookie, path=self.access.folder, httponly=True, samesite="Strict"
        )
        return response

    # The answers

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

    def _page(self, template: str, status: int = 200, **values: Any) -> Any:
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

    def _plain(self, text: str, status: int) -> Any:
        return self.wrappers.Response(f"{text}\n", status=status, mimetype="text/plain")

    def _moved(self, page: str, table: TableFile, **more: str) -> Any:
        query = query_of(table, **more)
        address = f"{self.access.folder}{page}?{query}"
        return self.wrappers.Response("", 303, headers={"Location": address})

    @property
    def numbers(self) -> NumberFormat:
        """Format of numbers that the user has chosen."""
        return FORMATS[self.format or "en"]

    def _table_of(self, values: Mapping[str, str]) -> TableFile:
        return self.folder.table(values.get("file", ""), values.get("inner", ""))

    def _run(self, table: TableFile, *arguments: str) -> Ran:
        """Run a command, one at a time, and keep it for the list of commands."""
        with self._running:
            ran = run(arguments, self.folder.root)
        self.ran.setdefault(table.stem, []).append(ran)
        return ran

    # Step 1: the table

    def tables(self, request: Any) -> Any:
        """Return the list of tables."""
        found = []
        for name in self.folder.tables():
            table = TableFile(name)
            found.append({"name": name, "query": query_of(table), "state": self._state(table)})
        return self._page("tables", title="Tables", tables=found, step="table")

    def _state(self, table: TableFile) -> str:
        releases = len(self.folder.releases(table))
        if releases:
            return f"{releases} release{'s' if releases > 1 else ''}"
        return "described" if self.folder.has(table.named(".toml")) else ""

    def choose_format(self, request: Any) -> Any:
        """Set the number format and return to the list of tables."""
        chosen = request.form.get("format", "")
        self.format = chosen if chosen in FORMATS else self.format
        return self.wrappers.Response("", 303, headers={"Location": self.access.folder})

    def table(self, request: Any) -> Any:
        """Return the questions about how the file is written, or go on to its columns."""
        table = self._table_of(request.args)
        has_schema = not table.inner and self.folder.has(table.named(".toml"))
        if table.kind == "typed" and not has_schema and not self.folder.books(table):
            return self._moved("columns", table)
        return self._reading_page(table, request.args, "")

    def _reading_page(self, table: TableFile, given: Mapping[str, str], message: str) -> Any:
        return self._page(
            "reading",
            status=400 if message else 200,
            title=table.file,
            step="table",
            table=table,
            given={"separator": separator_of(table.file), "decimal": "."} | dict(given),
            message=message,
            has_schema=self.folder.has(table.named(".toml")),
            releases=self.folder.releases(table),
            query=query_of(table),
            books=self.folder.books(table),
            separators=forms.SEPARATORS,
            decimals=forms.DECIMALS,
            thousands=forms.THOUSANDS,
        )

    # Step 2: the columns

    def _column_form(self, table: TableFile, query: Mapping[str, str], answers: Any) -> Any:
        """Return the form of the columns with its answers."""
        if query.get("edit") == "yes":
            form = forms.editing_form(self._schema(table), self.numbers)
            if form is None:
                raise SchemaError(
                    f"The form has no fields for some parts of {table.named('.toml')}. Edit this "
                    "file in an editor."
                )
            form.answers = answers or form.answers
            return form
        options, columns = forms.reading_of(query, table)
        book = query.get("book", "")
        described = forms.Described.of(self.folder, table, options, columns, book)
        form = forms.ColumnForm(described, options, self.numbers, answers or {})
        if answers is None:
            form.answers = forms.answers_of(described.stated, form.names, self.numbers)
        if len(form.names) > forms.MAX_COLUMNS:
            raise SourceError(
                f"The page shows at most {forms.MAX_COLUMNS} columns. Run `dpcov schema` in a "
                "terminal."
            )
        return form

    def columns(self, request: Any) -> Any:
        """Return the form that describes the columns."""
        table = self._table_of(request.args)
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
        return self._page(
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
            rules=forms.RULES,
            id_types=ID_TYPES,
            reading=query_of(table, **plain),
            exists=self.folder.has(table.named(".toml")),
            schema_name=table.named(".toml"),
            command=line_of(command) if command else "",
            widths=found,
        )

    def save_columns(self, request: Any) -> Any:
        """Write the schema, or return the form with what is missing."""
        table = self._table_of(request.args)
        form = self._column_form(table, request.args, request.form)
        if [printable(name) for name in form.names] != request.form.getlist("name"):
            raise SchemaError("The columns of the table have changed. Describe the table again.")
        if request.form.get("action") == "widths":
            found = self._widths_of(lambda: self._parsed(form.text()), request.form)
            return self._columns_page(table, request.args, form, "", found)
        place = table.named(".toml")
        replaced = request.form.get("replace") == "yes"
        try:
            text = form.text()
            if self.folder.has(place) and not replaced:
                form.errors["replace"] = f"{place} exists. Confirm that dpcov can replace it."
                raise SchemaError(form.errors["replace"])
            write(self.folder.root / place, text, force=replaced)
        except DpcovError as error:
            return self._columns_page(table, request.args, form, str(error), [])
        stated = {part: request.form.get(part, "").strip() for part in ("rows", "epsilon")}
        return self._moved("budget", table, **{part: text for part, text in stated.items() if text})

    @staticmethod
    def _parsed(text: str) -> dpcov.Schema:
        return dpcov.Schema.parse(tomllib.loads(text))

    def _schema(self, table: TableFile) -> dpcov.Schema:
        return dpcov.Schema.load(self.folder.inside(table.named(".toml")))

    # The half widths

    def live_widths(self, request: Any) -> Any:
        """Return the expected half widths for the answers so far, as JSON."""
        table = self._table_of(request.args)
        if request.args.get("step") == "budget":
            found = self._widths_of(lambda: self._schema(table), request.form)
        else:
            form = self._column_form(table, request.args, request.form)
            found = self._widths_of(lambda: self._parsed(form.text()), request.form)
        return self.wrappers.Response(json.dumps({"sentences": found}), mimetype="application/json")

    def _widths_of(
        self, schema: Callable[[], dpcov.Schema], answers: Mapping[str, str]
    ) -> list[str]:
        """Return the expected half widths as sentences, or what they need."""
        try:
            rows = self.numbers.read_whole(answers.get("rows", ""), 1, MAX_ROWS)
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

    # Step 3: the budget and the release

    def budget(self, request: Any) -> Any:
        """Return the form of the budget and of the release."""
        table = self._table_of(request.args)
        return self._budget_page(table, {"epsilon": "1", **request.args}, "", [])

    def _budget_page(
        self,
        table: TableFile,
        given: Mapping[str, str],
        message: str,
        errors: list[str],
        found: list[str] | None = None,
    ) -> Any:
        path = self.folder.inside(table.named(".toml"))
        self._schema(table)  # raises an error if the file is not a valid schema
        name = given.get("release") or self.folder.next_release(table)
        return self._page(
            "budget",
            status=400 if message else 200,
            title=f"Budget and release of {table.file}",
            step="budget",
            query=query_of(table),
            table=table,
            schema_name=table.named(".toml"),
            schema_text=path.read_text(encoding="utf-8"),
            ledgers=self.folder.ledgers(table),
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
        table, given = self._table_of(request.form), request.form
        if given.get("action") == "widths":
            found = self._widths_of(lambda: self._schema(table), given)
            return self._budget_page(table, given, "", [], found)
        name = given.get("release", "")
        try:
            stated = self._stated(table, given, name)
        except DpcovError as error:
            return self._budget_page(table, given, str(error), [])
        create, release = self._release_arguments(table, stated, name)
        if not self.folder.has(stated["ledger"]):
            ran = self._run(table, *create)
            if ran.code:
                return self._budget_page(table, given, "The ledger was not created.", _lines(ran))
        ran = self._run(table, *release)
        if ran.code:
            return self._budget_page(table, given, "The release failed.", _lines(ran))
        return self._moved("results", table, release=name)

    def _stated(self, table: TableFile, given: Mapping[str, str], name: str) -> dict[str, str]:
        """Return the answers as the commands need them."""
        stated = {part: given.get(part, "").strip() for part in ("data_set", "purpose")}
        allowed = [table.named(".ledger"), *self.folder.ledgers(table)]
        stated["ledger"] = given.get("ledger", "")
        if stated["ledger"] not in allowed or not _is_release_of(table, name):
            raise SchemaError("Choose a ledger and a release file of this table.")
        if self.folder.has(name):
            raise OutputError(f"The release {name} exists already. Nothing was spent.")
        wanted = ["epsilon"] + ["total"] * (not self.folder.has(stated["ledger"]))
        wanted += ["delta"] * bool(given.get("delta", "").strip())
        for part in wanted:
            try:
                stated[part] = f"{self.numbers.read(given.get(part, '')):.12g}"
            except SchemaError as error:
                names = {"epsilon": "Epsilon of this release", "delta": "Delta"}
                raise SchemaError(f"{names.get(part, 'Total epsilon')}: {error}") from None
        return {"total": ""} | stated

    # Step 4: the results

    def results(self, request: Any) -> Any:
        """Return the results of the releases of a table."""
        table = self._table_of(request.args)
        return self._results_page(table, request.args.get("release", ""), "", [])

    def _results_page(self, table: TableFile, name: str, message: str, errors: list[str]) -> Any:
        releases = self.folder.releases(table)
        if not releases:
            raise SourceError("This table has no release yet. Describe its columns first.")
        name = name if name in releases else releases[-1]
        base = name.removesuffix(RELEASE_ENDING)
        release = dpcov.load(self.folder.inside(name))
        files = {what: base + end for what, end in DOCUMENTS.items() if self.folder.has(base + end)}
        exports = [one for one in get_args(Software) if self.folder.has(f"{base}-{one}")]
        return self._page(
            "results",
            status=400 if message else 200,
            title=f"Results of {table.file}",
            step="results",
            query=query_of(table),
            table=table,
            releases=releases,
            release_name=name,
            guarantee=release.guarantee_in_words(),
            columns=list(release.columns),
            documents=DOCUMENTS,
            files=files,
            software=get_args(Software),
            exports=exports,
            base_name=base,
            commands={what: line_of(self._making(what, name)) for what in (*DOCUMENTS, "export")},
            ran=self.ran.get(table.stem, []),
            message=message,
            errors=errors,
        )

    @staticmethod
    def _making(what: str, name: str, software: str = "lavaan", target: str = "") -> list[str]:
        """Return the arguments of the command that makes a document or an export."""
        base, given = name.removesuffix(RELEASE_ENDING), path_argument(name)
        if what == "export":
            place = path_argument(f"{base}-{software}")
            return ["export", given, "--for", software, "--out", place]
        form = ["--format", "page"] if what == "passport" else []
        form += [f"--target={target}"] if what == "report" and target else []
        return [what, given, *form, "--out", path_argument(base + DOCUMENTS[what])]

    def make(self, request: Any) -> Any:
        """Make a document or an export of a release."""
        table, given = self._table_of(request.form), request.form
        name, what = given.get("release", ""), given.get("what", "")
        software = given.get("software", "lavaan")
        if name not in self.folder.releases(table) or what not in (*DOCUMENTS, "export"):
            raise SourceError("There is no such release or document.")
        if software not in get_args(Software):
            raise SourceError("dpcov has no export for this software.")
        ran = self._run(table, *self._making(what, name, software, given.get("target", "")))
        if ran.code:
            return self._results_page(table, name, "The command failed.", _lines(ran))
        return self._moved("results", table, release=name)

    def read(self, request: Any) -> Any:
        """Return a document that dpcov wrote, which the browser treats as another site."""
        path = self._file(request, DOCUMENT_ENDINGS)
        response = self.wrappers.Response(path.read_bytes(), mimetype="text/html")
        response.headers["Content-Security-Policy"] = secrets.DOCUMENT_POLICY
        return response

    def download(self, request: Any) -> Any:
        """Return a file that dpcov wrote, or an export as a zip file."""
        table = self._table_of(request.args)
        name = request.args.get("name", "")
        bases = [one.removesuffix(RELEASE_ENDING) for one in self.folder.releases(table)]
        if name in {f"{base}-{software}" for base in bases for software in get_args(Software)}:
            body, shown = _zipped(self.folder.inside(name)), f"{Path(name).name}.zip"
        else:
            path = self._file(request, DOWNLOAD_ENDINGS)
            body, shown = path.read_bytes(), path.name
        response = self.wrappers.Response(body, mimetype="application/octet-stream")
        disposition = f"attachment; filename*=UTF-8''{quote(shown, safe='')}"
        response.headers["Content-Disposition"] = disposition
        return response

    def _file(self, request: Any, endings: tuple[str, ...]) -> Path:
        """Return the path of a file about a table; raise `SourceError` for any other file."""
        table, name = self._table_of(request.args), request.args.get("name", "")
        stems = [table.stem]
        stems += [one.removesuffix(RELEASE_ENDING) for one in self.folder.releases(table)]
        if name not in {stem + ending for stem in stems for ending in endings}:
            raise SourceError("The page shows only files that dpcov wrote about a table.")
        path = self.folder.inside(name)
        if not path.is_file():
            raise SourceError("The page shows only files that dpcov wrote about a table.")
        return path


def query_of(table: TableFile, **more: str) -> str:
    """Return the part of an address that names a table."""
    stated = {"file": table.file} | ({"inner": table.inner} if table.inner else {})
    return urlencode(stated | more)


def _is_release_of(table: TableFile, name: str) -> bool:
    middle = name.removeprefix(table.stem).removesuffix(RELEASE_ENDING)
    number = middle.removeprefix("-")
    rest = f"{table.stem}{middle}{RELEASE_ENDING}"
    return name == rest and (not middle or (middle == f"-{number}" and number.isdecimal()))


def _lines(ran: Ran) -> list[str]:
    return [line for line in (ran.err or ran.out).splitlines() if line.strip()]


def _zipped(folder: Path) -> bytes:
    """Return the files of a folder as a zip file, without links."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as out:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.resolve() == path:
                out.write(path, f"{folder.name}/{path.relative_to(folder).as_posix()}")
    return memory.getvalue()


def _finalized(value: Any) -> Any:
    """Return a value for a template, with a question mark for each unprintable character."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return printable(value, KEPT_CHARACTERS)
