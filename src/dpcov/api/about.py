"""What a ledger records about a release: the source, the schema, the year and the purpose."""

from __future__ import annotations

import json
import os
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from dpcov.api.ledger import About
from dpcov.core.printable import hidden, printable, shown
from dpcov.errors import LedgerError
from dpcov.rows.sources.sql import LINK_PREFIX, DatabaseTable

if TYPE_CHECKING:
    from dpcov.api.request import Request
    from dpcov.rows.schema import Schema

# Host, port and database of a link. Anything else could contain a password.
_SAFE_PLACE = re.compile(r"[\w.-]+(:\d+)?(/[\w.-]+)?")
LARGEST_PURPOSE = 1000  # characters; a purpose is a sentence or two
YEARS = range(1, 10_000)


def about(data: Any, request: Request) -> About:
    """Describe a release for the ledger.

    Parameters
    ----------
    data : object
        Table, as the caller gave it.

    request : Request
        Request for the release.

    Returns
    -------
    About
        Description without passwords and without a cell value.

    Raises
    ------
    LedgerError
        The year is no year, or the purpose is too long.

    """
    year, purpose, schema = request.year, request.purpose, request.schema
    if year is not None and year not in YEARS:
        raise LedgerError(f"The year must be a whole number from 1 to 9999, not {year!r}.")
    if purpose is not None and len(purpose) > LARGEST_PURPOSE:
        raise LedgerError(f"The purpose must be a text of at most {LARGEST_PURPOSE} characters.")
    named = isinstance(schema, str | os.PathLike)
    stated = shown(schema) if named else "bounds" if schema is None else "schema"  # type: ignore[arg-type]
    return About(
        source=source_name(data),
        schema=stated,
        year=year,
        purpose=None if purpose is None else printable(purpose),
    )


def source_name(data: Any) -> str:
    """Return the name of a data source without passwords.

    Parameters
    ----------
    data : object
        Table, in any form that `dpcov.release` accepts.

    Returns
    -------
    str
        Path of a file, place and table of a database, or the type of a table in memory.

    """
    if isinstance(data, DatabaseTable):
        return f"{_place(str(data.database))}, table {hidden(printable(data.table))}"
    if isinstance(data, str | os.PathLike):
        return _place(os.fsdecode(data))
    kind = type(data)
    return f"{kind.__module__.partition('.')[0]} {kind.__name__} in memory"


def _place(text: str) -> str:
    """Return a path, or the kind, host and name of a database link."""
    found = LINK_PREFIX.match(text)
    if found is None:
        return shown(text)
    place = text[found.end() :].rpartition("@")[2].partition("?")[0]
    return f"{found[0]}{place}" if _SAFE_PLACE.fullmatch(place) else shown(text)


def schema_hash(schema: Schema) -> str:
    """Return the SHA-256 hash of a schema in its canonical JSON form."""
    document = schema.model_dump(mode="json", by_alias=True)
    return sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def file_hash(text: str) -> str:
    """Return the SHA-256 hash of a release file with this content."""
    return sha256(text.encode()).hexdigest()
