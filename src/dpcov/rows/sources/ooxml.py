"""Reader of the parts of an Office Open XML package, which expat parses during unpacking.

dpcov refuses a part that is not well formed. It also refuses a part with a document type, because a
document type can define entities. dpcov repairs nothing and builds no tree.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from xml.parsers import expat
from zipfile import ZipFile

from dpcov.errors import SourceError

RELATIONSHIPS = ("http://schemas.openxmlformats.org/package/2006/relationships",)
SPREADSHEET = (
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main",  # Transitional
    "http://purl.oclc.org/ooxml/spreadsheetml/main",  # Strict
)
PARSED_BYTES = 2**14  # Number of bytes that are parsed at once.
MAX_TAG_BYTES = 2**20  # Maximum bytes of a tag or comment, which the parser keeps in memory.
MAX_DEPTH = 100  # Maximum depth of nested elements.
MAX_COMPRESSION = 100  # Maximum compression factor; a sheet with rows of zeros has a factor of 15.
LARGE_PART_BYTES = (
    2**26
)  # Size in bytes up to which the compression factor of a part is not limited.
MAX_HELD_BYTES = 2**30  # Maximum unpacked bytes of a part that is kept in memory.
MAX_FOUND_ELEMENTS = 2**18  # Maximum number of elements whose attributes are kept.
TOO_LARGE_MESSAGE = (
    "The workbook is too large or compressed too much, so reading it might exhaust the "
    "memory. Save the table as CSV."
)
NOT_XML_MESSAGE = (
    "The workbook contains XML that is not well formed. Open it in a spreadsheet program "
    "and save it again, or save it as CSV. Nothing was spent."
)
OTHER_STATE = "?"  # State inside an element that is not on any path.


class Reader:
    """Reader of the elements on the given paths; it skips all other elements.

    Parameters
    ----------
    namespaces : iterable of str
        Namespaces of the elements.
    paths : iterable of str
        Local names from the root to an element, separated by slashes.

    Attributes
    ----------
    state : str
        Path of the innermost open element, or `OTHER_STATE`.

    """

    def __init__(self, namespaces: Iterable[str], paths: Iterable[str]) -> None:
        self.state = ""
        self._outer: list[str] = []
        self._steps: Mapping[tuple[str, str], str] = {
            (state.rpartition("/")[0], f"{space} {state.rpartition('/')[2]}"): state
            for path in paths
            for state in _prefixes(path)
            for space in namespaces
        }

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Enter an element."""
        self._outer.append(self.state)
        if len(self._outer) > MAX_DEPTH:
            raise SourceError(NOT_XML_MESSAGE)
        self.state = self._steps.get((self.state, name), OTHER_STATE)
        self.opened(attributes)

    def end(self, _: str) -> None:
        """Leave the innermost element."""
        self.closed()
        self.state = self._outer.pop()

    def pass_over(self) -> None:
        """Skip all further elements; their XML is still checked."""
        self._steps = {}

    def opened(self, attributes: dict[str, str]) -> None:
        """Handle the start of an element in the current state."""

    def closed(self) -> None:
        """Handle the end of an element in the current state."""

    def text(self, data: str) -> None:
        """Handle text directly inside the current element."""


def _prefixes(path: str) -> Iterator[str]:
    """Yield the path of each ancestor of an element, and the path of the element."""
    names = path.split("/")
    return ("/".join(names[:count]) for count in range(1, len(names) + 1))


class Found(Reader):
    """Reader of the attributes of all elements on the given paths, in order.

    Attributes
    ----------
    by_path : dict of str to list of dict
        Attributes of the elements on each path.

    """

    def __init__(self, namespaces: Iterable[str], *paths: str) -> None:
        super().__init__(namespaces, paths)
        self.by_path: dict[str, list[dict[str, str]]] = {path: [] for path in paths}
        self._left = MAX_FOUND_ELEMENTS

    def opened(self, attributes: dict[str, str]) -> None:
        """Keep the attributes of an element."""
        if self.state in self.by_path:
            self._left -= 1
            if self._left < 0:
                raise SourceError(TOO_LARGE_MESSAGE)
            self.by_path[self.state].append(attributes)


class Relation(NamedTuple):
    """Reference from one part to another.

    Attributes
    ----------
    kind : str
        Last word of the type of the reference.
    part : str
        Name of the other part.

    """

    kind: str
    part: str


class Package:
    """Parts of an open archive by their names, without distinction of case.

    Parameters
    ----------
    archive : ZipFile
        Open archive.

    """

    def __init__(self, archive: ZipFile) -> None:
        self._archive = archive
        self._parts = {part.filename.lower(): part for part in archive.infolist()}

    def read(self, name: str, reader: Reader, *, held: bool = True) -> Iterator[None]:
        """Pass a part to a reader, and pause after each chunk.

        Parameters
        ----------
        name : str
            Name of the part.

        reader : Reader
            Reader of the elements.

        held : bool
            True if the reader keeps the content in memory, so that its size must be limited.

        Raises
        ------
        SourceError
            The part is not well formed, has a document type, or is too large.

        """
        part = self._parts[name.lower()]
        most = max(LARGE_PART_BYTES, MAX_COMPRESSION * part.compress_size)
        if part.file_size > (min(most, MAX_HELD_BYTES) if held else most):
            raise SourceError(TOO_LARGE_MESSAGE)
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartDoctypeDeclHandler = _refuse
        parser.StartElementHandler = reader.start
        parser.EndElementHandler = reader.end
        parser.CharacterDataHandler = reader.text
        done = 0
        with self._archive.open(part) as file:
            try:
                while chunk := file.read(PARSED_BYTES):
                    parser.Parse(chunk)
                    done += len(chunk)
                    if done - parser.CurrentByteIndex > MAX_TAG_BYTES:
                        _refuse()
                    yield
                parser.Parse(b"", True)
                yield
            except expat.ExpatError:
                raise SourceError(NOT_XML_MESSAGE) from None

    def read_all(self, name: str, reader: Reader) -> None:
        """Pass a whole part to a reader."""
        for _ in self.read(name, reader):
            pass

    def relations(self, name: str) -> dict[str, Relation]:
        """Return the references of a part by their ids.

        An empty name stands for the package itself.
        """
        folder, file = posixpath.split(name)
        path = "Relationships/Relationship"
        found = Found(RELATIONSHIPS, path)
        part = posixpath.join(folder, "_rels", f"{file}.rels")
        if part.lower() in self._parts:
            self.read_all(part, found)
        return {
            one["Id"]: Relation(
                one["Type"].rpartition("/")[2],
                posixpath.normpath(posixpath.join("/", folder, one["Target"])).lstrip("/"),
            )
            for one in found.by_path[path]
            if one.get("TargetMode") != "External"
        }


def _refuse(*_: object) -> None:
    """Raise the error for XML that is not well formed."""
    raise SourceError(NOT_XML_MESSAGE)
