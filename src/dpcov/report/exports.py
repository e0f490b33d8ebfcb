"""Export of tables to CSV and Parquet files, together with the guarantee of their release.

A Parquet file contains the guarantee as metadata. For a CSV file, dpcov writes a second file in the
format CSV on the Web (W3C), so that every program can read the table. If the release protects
nobody, the CSV file begins with a comment that says so.
"""

from __future__ import annotations

import io
import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from dpcov.core.files import reserved
from dpcov.core.printable import harmless, shown
from dpcov.core.show import html, latex
from dpcov.core.show.frames import csv_body
from dpcov.errors import OutputError
from dpcov.releases import SEEDED
from dpcov.releases.carried import carried_by_all, stamped
from dpcov.report.documents import caveats

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpcov.core.show.result import Result
    from dpcov.releases import Release
    from dpcov.rows.written import TextFile

FILE_ENDINGS = (".csv", ".parquet")
PAGE_ENDINGS = (".html", ".tex")
SIDECAR_ENDING = "-metadata.json"  # suffix of the file name, from the standard CSV on the Web
CONTEXT = ["http://www.w3.org/ns/csvw", {"@language": "en"}]


def require_ending(path: Path, *, pages: bool = False) -> None:
    """Raise an error unless the file name ends in a known format.

    Parameters
    ----------
    path : Path
        Path of the file.

    pages : bool, default False
        Also allow the formats of pages with tables.

    """
    if path.suffix.lower() not in FILE_ENDINGS + PAGE_ENDINGS * pages:
        known = " or ".join(FILE_ENDINGS)
        if pages:
            known += f", or in {' or '.join(PAGE_ENDINGS)} for the tables"
        raise OutputError(f"The file name {shown(path)!r} must end in {known}.")


def stamp(release: Release) -> str:
    """Return the first line of a CSV file if the release has a seed, otherwise an empty text."""
    return f"# {SEEDED}\n" if release.reproducible else ""


def csv_text(release: Release, table: pa.Table, others: Sequence[Release] = ()) -> str:
    """Return a table as CSV text, after the stamp of its releases."""
    return (stamp(release) or next(filter(None, map(stamp, others)), "")) + csv_body(table)


def parquet_bytes(release: Release, table: pa.Table, others: Sequence[Release] = ()) -> bytes:
    """Return a table as a Parquet file, with the guarantees in its metadata."""
    buffer = io.BytesIO()
    pq.write_table(stamped(release, table, others), buffer)
    return buffer.getvalue()


def sidecar_of(path: Path) -> Path:
    """Return the path of the metadata file of a CSV file."""
    return path.with_name(path.name + SIDECAR_ENDING)


def csv_metadata(
    release: Release,
    table: pa.Table,
    name: str,
    others: Sequence[Release] = (),
    file: TextFile | None = None,
) -> str:
    """Return the CSV on the Web metadata of a CSV file, with the guarantees."""
    facts = carried_by_all([release, *others])
    made_by = ", ".join(dict.fromkeys(one.made_by() for one in (release, *others)))
    kinds: list[tuple[str, Any]] = [(one.name, _datatype(one.type)) for one in table.schema]
    dialect: dict[str, Any] = {"commentPrefix": "#"}
    if file is not None:
        known = dict(kinds) | file.datatypes()
        kinds = [(column, known.get(column, "string")) for column in file.table.column_names]
        dialect |= file.dialect()
    columns = [{"titles": harmless(column), "datatype": kind} for column, kind in kinds]
    document = {
        "@context": CONTEXT,
        "url": name,
        "dc:description": f"{facts['status']}. {facts['guarantee']}",
        "dc:provenance": f"mechanism {facts['mechanism']}, {made_by}",
        "notes": [{"dpcov": facts}],
        "dialect": dialect,
        "tableSchema": {"columns": columns},
    }
    return json.dumps(document, indent=1) + "\n"


def _datatype(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_date(kind):
        return "date"
    texts = pa.types.is_string(kind) or pa.types.is_null(kind) or pa.types.is_timestamp(kind)
    return "string" if texts else "number"


def write_table(
    release: Release,
    table: pa.Table,
    path: Path,
    *,
    force: bool = False,
    inputs: Iterable[Path] = (),
    others: Sequence[Release] = (),
    file: TextFile | None = None,
) -> None:
    """Write a table to a CSV file with a metadata file, or to a Parquet file.

    With `file`, the CSV file has the notation of a schema.
    """
    require_ending(path)
    contents: dict[Path, str | bytes]
    if path.suffix.lower() == ".csv":
        described = csv_metadata(release, table, path.name, others, file)
        if file is None:
            contents = {sidecar_of(path): described, path: csv_text(release, table, others)}
        else:
            contents = {sidecar_of(path): described, path: file.content(stamp(release))}
    else:
        contents = {path: parquet_bytes(release, table, others)}
    with ExitStack() as stack:
        given = list(inputs)
        outputs = [stack.enter_context(reserved(p, force=force, inputs=given)) for p in contents]
        for output, content in zip(outputs, contents.values(), strict=True):
            output.write(content)


def write_page(
    release: Release,
    found: Result,
    path: Path,
    *,
    force: bool = False,
    inputs: Iterable[Path] = (),
    others: Sequence[Release] = (),
) -> None:
    """Write the guarantees and then the tables of a result to an HTML or LaTeX file.

    A result without tables, such as synthetic rows, is refused.
    """
    if not found.has_sentences:
        require_ending(path)
    every = (release, *others)
    stated = [one.guarantee_in_words() for one in every]
    stated += dict.fromkeys(caveat for one in every for caveat in caveats(one))
    if path.suffix.lower() == ".tex":
        content = "\n".join([*(f"{latex.text(one)}\n" for one in stated), found.latex()])
    else:
        body = "".join(map(html.paragraph, stated)) + found._repr_html_()
        content = f'<!DOCTYPE html>\n<meta charset="utf-8">\n<title>dpcov</title>\n{body}\n'
    with reserved(path, force=force, inputs=list(inputs)) as output:
        output.write(content)
