"""The folder of the page: its tables, and the files that the page writes beside them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from dpcov.core.printable import printable
from dpcov.errors import SourceError

TEXT_ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".csv.gz", ".tsv.gz")
WORKBOOK_ENDINGS = (".xlsx", ".xlsm")
DATABASE_ENDINGS = (".sqlite", ".sqlite3", ".db", ".duckdb")
# Files that declare the names and types of their columns.
TYPED_ENDINGS = (".parquet", ".pq", ".dta", ".sav", ".zsav", ".sas7bdat")
TABLE_ENDINGS = (*TEXT_ENDINGS, *WORKBOOK_ENDINGS, *DATABASE_ENDINGS, *TYPED_ENDINGS)
RELEASE_ENDING = ".release.json"
# Files that can be public metadata of a table.
BOOK_ENDINGS, OWN_ENDINGS = (".json", ".xml", ".yaml", ".yml"), (RELEASE_ENDING,)
# Documents that the page shows, and files that it offers to download.
DOCUMENT_ENDINGS = (".report.html", ".table1.html", ".passport.html")
DOWNLOAD_ENDINGS = (*DOCUMENT_ENDINGS, RELEASE_ENDING, ".toml")
# Largest number of tables in the list.
MAX_TABLES = 1000
_UNUSUAL = re.compile(r"[^\w.-]")  # characters that a file name should not contain
# A colon names a drive or a link, and a backslash is a separator on Windows.
FORBIDDEN_CHARACTERS = frozenset(":\\\0")
NOT_INSIDE_MESSAGE = "The folder has no such file. Links are not followed."


@dataclass(frozen=True, slots=True)
class TableFile:
    """A table below the folder.

    Attributes
    ----------
    file : str
        Path of the file relative to the folder, with slashes.

    inner : str
        Table of a database, or sheet of a workbook; otherwise empty.

    """

    file: str
    inner: str = ""

    @property
    def kind(self) -> str:
        """Kind of the file: text, workbook, database or typed."""
        name = self.file.lower()
        kinds = {"text": TEXT_ENDINGS, "workbook": WORKBOOK_ENDINGS, "database": DATABASE_ENDINGS}
        return next((kind for kind, ends in kinds.items() if name.endswith(ends)), "typed")

    @property
    def stem(self) -> str:
        """Start of the names of all files about this table."""
        return f"{self.file}-{_UNUSUAL.sub('_', self.inner)}" if self.inner else self.file

    def named(self, ending: str) -> str:
        """Return the name of a file about this table."""
        return self.stem + ending


class Folder:
    """Folder whose tables the page lists.

    Parameters
    ----------
    root : Path
        Existing folder.

    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve(strict=True)

    def tables(self) -> list[str]:
        """Return the paths of the tables below the folder, without links and hidden files."""
        found: list[str] = []
        for place, folders, files in os.walk(self.root):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(files):
                path = Path(place, name)
                usual = name == printable(name) and not name.startswith(".")
                if usual and name.lower().endswith(TABLE_ENDINGS) and not path.is_symlink():
                    found.append(path.relative_to(self.root).as_posix())
                if len(found) == MAX_TABLES:
                    return found
        return found

    def inside(self, name: str) -> Path:
        """Return the path of an existing file or folder below the folder.

        Parameters
        ----------
        name : str
            Path relative to the folder, with slashes.

        Returns
        -------
        Path

        Raises
        ------
        SourceError
            There is no such file below the folder, or its path contains a link.

        """
        if name and not FORBIDDEN_CHARACTERS.intersection(name):
            path = self.root / PurePosixPath(name)
            # A path with a link or with two points resolves to another path.
            if path.is_relative_to(self.root) and path.resolve() == path and os.path.lexists(path):
                return path
        raise SourceError(NOT_INSIDE_MESSAGE)

    def table(self, name: str, inner: str = "") -> TableFile:
        """Return a table below the folder; raise `SourceError` for any other file."""
        if not name.lower().endswith(TABLE_ENDINGS) or not self.inside(name).is_file():
            raise SourceError(NOT_INSIDE_MESSAGE)
        return TableFile(name, inner.strip())

    def has(self, name: str) -> bool:
        """Return True if a file or folder exists below the folder."""
        return os.path.lexists(self.root / name)

    def releases(self, table: TableFile) -> list[str]:
        """Return the names of the releases of a table; one that still runs has an empty file."""
        own = re.compile(rf"{re.escape(Path(table.stem).name)}(?:-\d+)?{re.escape(RELEASE_ENDING)}")
        found = [path for path in self._beside(table) if own.fullmatch(PurePosixPath(path).name)]
        return [path for path in found if (self.root / path).lstat().st_size]

    def next_release(self, table: TableFile) -> str:
        """Return the name of the next release of a table."""
        number, name = 1, table.named(RELEASE_ENDING)
        while self.has(name):
            number += 1
            name = table.named(f"-{number}{RELEASE_ENDING}")
        return name

    def ledgers(self, table: TableFile) -> list[str]:
        """Return the names of the ledgers beside a table."""
        return [path for path in self._beside(table) if path.endswith(".ledger")]

    def books(self, table: TableFile) -> list[str]:
        """Return the names of the files beside a table that can be its code book."""
        beside = self._beside(table)
        return [
            one for one in beside if one.endswith(BOOK_ENDINGS) and not one.endswith(OWN_ENDINGS)
        ]

    def _beside(self, table: TableFile) -> list[str]:
        """Return the paths of all files in the folder of a table."""
        places = sorted((self.root / table.file).parent.iterdir())
        return [place.relative_to(self.root).as_posix() for place in places]
