"""Tables from a release as CSV and Parquet files, with the guarantee that they carry.

Parquet has room for it. Beside a CSV file stands a metadata file of the W3C's CSV on the Web, so
that the table itself stays one that every program reads; only of a release that protects nobody
does the table begin with a comment that says so.
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
from dpcov.core.show.frames import csv_body
from dpcov.errors import OutputError
from dpcov.releases import SEEDED
from dpcov.releases.carried import carried, stamped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpcov.releases import Release

ENDINGS = (".csv", ".parquet")
SIDECAR = "-metadata.json"  # after the whole name of a CSV file, says CSV on the Web
CONTEXT = ["http://www.w3.org/ns/csvw", {"@language": "en"}]


def require_ending(path: Path) -> None:
    """Refuse a file name that says no format."""
    if path.suffix.lower() not in ENDINGS:
        raise OutputError(f"{shown(path)!r} must end in .csv or .parquet.")


def stamp(release: Release) -> str:
    """The first line of CSV from a release that protects nobody; nothing for others."""
    return f"# {SEEDED}\n" if release.reproducible else ""


def csv_text(release: Release, table: pa.Table) -> str:
    """A table as CSV, after the stamp of its release."""
    return stamp(release) + csv_body(table)


def parquet_bytes(release: Release, table: pa.Table) -> bytes:
    """A table as Parquet, with the guarantee among its metadata."""
    buffer = io.BytesIO()
    pq.write_table(stamped(release, table), buffer)
    return buffer.getvalue()


def sidecar_of(path: Path) -> Path:
    """The metadata file of a CSV file."""
    return path.with_name(path.name + SIDECAR)


def csv_metadata(release: Release, table: pa.Table, name: str) -> str:
    """What a CSV file of this name holds and carries, as CSV on the Web."""
    facts = carried(release)
    columns = [
        {"titles": harmless(field.name), "datatype": _datatype(field.type)}
        for field in table.schema
    ]
    document = {
        "@context": CONTEXT,
        "url": name,
        "dc:description": f"{facts['status']}. {facts['guarantee']}",
        "dc:provenance": f"mechanism {facts['mechanism']}, {release.made_by()}",
        "notes": [{"dpcov": facts}],
        "dialect": {"commentPrefix": "#"},
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
) -> None:
    """Write CSV, and its metadata beside it, or Parquet, by the name's ending."""
    require_ending(path)
    contents: dict[Path, Any] = {path: parquet_bytes}
    if path.suffix.lower() == ".csv":
        described = csv_metadata(release, table, path.name)
        contents = {sidecar_of(path): lambda *_: described, path: csv_text}
    with ExitStack() as stack:
        given = list(inputs)
        outputs = [stack.enter_context(reserved(p, force=force, inputs=given)) for p in contents]
        for output, content in zip(outputs, contents.values(), strict=True):
            output.write(content(release, table))
