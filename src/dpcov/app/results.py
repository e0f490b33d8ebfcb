"""Pages of the last step: documents and exports of a release."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

import dpcov
from dpcov.app.access import DOCUMENT_POLICY
from dpcov.app.commands import line_of, lines_of, path_argument
from dpcov.app.folder import DOCUMENT_ENDINGS, DOWNLOAD_ENDINGS, RELEASE_ENDING, TableFile
from dpcov.app.site import Site, query_of
from dpcov.cli.export import Software
from dpcov.errors import SourceError

# Command and ending of each document about a release.
DOCUMENTS = {"report": ".report.html", "table1": ".table1.html", "passport": ".passport.html"}


class Results:
    """Pages that show what a release gives.

    Parameters
    ----------
    site : Site
        What all pages share.

    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.views = {
            ("GET", "results"): self.results,
            ("GET", "read"): self.read,
            ("GET", "download"): self.download,
            ("POST", "make"): self.make,
        }

    def results(self, request: Any) -> Any:
        """Return the results of the releases of a table."""
        table = self.site.table_of(request.args)
        return self._results_page(table, request.args.get("release", ""), "", [])

    def _results_page(self, table: TableFile, name: str, message: str, errors: list[str]) -> Any:
        releases = self.site.folder.releases(table)
        if not releases:
            raise SourceError("This table has no release yet. Describe its columns first.")
        name = name if name in releases else releases[-1]
        base = name.removesuffix(RELEASE_ENDING)
        release = dpcov.load(self.site.folder.inside(name))
        files = {
            what: base + end for what, end in DOCUMENTS.items() if self.site.folder.has(base + end)
        }
        exports = [one for one in get_args(Software) if self.site.folder.has(f"{base}-{one}")]
        return self.site.page(
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
            ran=self.site.ran.get(table.stem, []),
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
        table, given = self.site.table_of(request.form), request.form
        name, what = given.get("release", ""), given.get("what", "")
        software = given.get("software", "lavaan")
        if name not in self.site.folder.releases(table) or what not in (*DOCUMENTS, "export"):
            raise SourceError("There is no such release or document.")
        if software not in get_args(Software):
            raise SourceError("dpcov has no export for this software.")
        ran = self.site.run(table, *self._making(what, name, software, given.get("target", "")))
        if ran.code:
            return self._results_page(table, name, "The command failed.", lines_of(ran))
        return self.site.moved("results", table, release=name)

    def read(self, request: Any) -> Any:
        """Return a document that dpcov wrote, which the browser treats as another site."""
        path = self._file(request, DOCUMENT_ENDINGS)
        response = self.site.wrappers.Response(path.read_bytes(), mimetype="text/html")
        response.headers["Content-Security-Policy"] = DOCUMENT_POLICY
        return response

    def download(self, request: Any) -> Any:
        """Return a file that dpcov wrote, or an export as a zip file."""
        table = self.site.table_of(request.args)
        name = request.args.get("name", "")
        bases = [one.removesuffix(RELEASE_ENDING) for one in self.site.folder.releases(table)]
        if name in {f"{base}-{software}" for base in bases for software in get_args(Software)}:
            body, shown = _zipped(self.site.folder.inside(name)), f"{Path(name).name}.zip"
        else:
            path = self._file(request, DOWNLOAD_ENDINGS)
            body, shown = path.read_bytes(), path.name
        response = self.site.wrappers.Response(body, mimetype="application/octet-stream")
        disposition = f"attachment; filename*=UTF-8''{quote(shown, safe='')}"
        response.headers["Content-Disposition"] = disposition
        return response

    def _file(self, request: Any, endings: tuple[str, ...]) -> Path:
        """Return the path of a file about a table; raise `SourceError` for any other file."""
        table, name = self.site.table_of(request.args), request.args.get("name", "")
        stems = [table.stem]
        stems += [one.removesuffix(RELEASE_ENDING) for one in self.site.folder.releases(table)]
        if name not in {stem + ending for stem in stems for ending in endings}:
            raise SourceError("The page shows only files that dpcov wrote about a table.")
        path = self.site.folder.inside(name)
        if not path.is_file():
            raise SourceError("The page shows only files that dpcov wrote about a table.")
        return path


def _zipped(folder: Path) -> bytes:
    """Return the files of a folder as a zip file, without links."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as out:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.resolve() == path:
                out.write(path, f"{folder.name}/{path.relative_to(folder).as_posix()}")
    return memory.getvalue()
