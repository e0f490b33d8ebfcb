"""Parts of an Office Open XML package, parsed by expat as they are unpacked.

A part that is not well formed is refused with one sentence, and so is one with a document type,
which could define entities. Nothing is repaired and no tree is built.
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
CHUNK = 2**14  # bytes that are parsed at once
LONGEST_TAG = 2**20  # bytes of a tag or a comment, which the parser holds as a whole
DEEPEST = 100  # elements within each other
PACKED = 100  # times: what repeats itself as much as sheets can, rows of zeros, is packed 15 times
LARGE = 2**26  # bytes of a part, unpacked
MOST_HELD = 2**30  # bytes of a part that is held in memory, unpacked
MOST_FOUND = 2**18  # elements of a part whose attributes are kept
BOMB = (
    "The workbook is packed far more than a table can be, or is too large, and might fill the "
    "memory. If it is a table all the same, save it as CSV."
)
NOT_XML = (
    "The workbook holds XML that is not well formed, so nothing was read and nothing was spent. "
    "Open it in a spreadsheet program and save it again, or save it as CSV."
)
OTHER = "?"  # the state within an element that no path leads to


class Reader:
    """A reader of the elements that `paths` lead to; it passes over all others.

    Parameters
    ----------
    namespaces : of the elements.
    paths : local names from the root to an element, with slashes between them.

    Attributes
    ----------
    state : the path of the innermost open element, or `OTHER`.

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
        if len(self._outer) > DEEPEST:
            raise SourceError(NOT_XML)
        self.state = self._steps.get((self.state, name), OTHER)
        self.opened(attributes)

    def end(self, _: str) -> None:
        """Leave the innermost element."""
        self.closed()
        self.state = self._outer.pop()

    def pass_over(self) -> None:
        """Pass over all elements from now on; their XML is still checked."""
        self._steps = {}

    def opened(self, attributes: dict[str, str]) -> None:
        """Note an element that begins, in its state."""

    def closed(self) -> None:
        """Note an element that ends, in its state."""

    def text(self, data: str) -> None:
        """Note text directly within the element of the state."""


def _prefixes(path: str) -> Iterator[str]:
    names = path.split("/")
    return ("/".join(names[:count]) for count in range(1, len(names) + 1))


class Found(Reader):
    """The attributes of all elements that `paths` lead to, in order.

    Attributes
    ----------
    by_path : the attributes of each such element.

    """

    def __init__(self, namespaces: Iterable[str], *paths: str) -> None:
        super().__init__(namespaces, paths)
        self.by_path: dict[str, list[dict[str, str]]] = {path: [] for path in paths}
        self._left = MOST_FOUND

    def opened(self, attributes: dict[str, str]) -> None:
        if self.state in self.by_path:
            self._left -= 1
            if self._left < 0:
                raise SourceError(BOMB)
            self.by_path[self.state].append(attributes)


class Relation(NamedTuple):
    """A part that another part refers to: the last word of the kind of reference, and its name."""

    kind: str
    part: str


class Package:
    """The parts of an open archive by their names, in which case does not count."""

    def __init__(self, archive: ZipFile) -> None:
        self._archive = archive
        self._parts = {part.filename.lower(): part for part in archive.infolist()}

    def read(self, name: str, reader: Reader, *, held: bool = True) -> Iterator[None]:
        """Hand a part to a reader and pause after each chunk.

        Parameters
        ----------
        name : of the part.
        reader : what is made of its elements.
        held : whether the reader holds what the part says, so that its size must be bounded.

        Raises
        ------
        SourceError : the part is not well formed, has a document type, or unpacks to too much.

        """
        part = self._parts[name.lower()]
        most = max(LARGE, PACKED * part.compress_size)
        if part.file_size > (min(most, MOST_HELD) if held else most):
            raise SourceError(BOMB)
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartDoctypeDeclHandler = _refuse
        parser.StartElementHandler = reader.start
        parser.EndElementHandler = reader.end
        parser.CharacterDataHandler = reader.text
        done = 0
        with self._archive.open(part) as file:
            try:
                while chunk := file.read(CHUNK):
                    parser.Parse(chunk)
                    done += len(chunk)
                    if done - parser.CurrentByteIndex > LONGEST_TAG:
                        _refuse()
                    yield
                parser.Parse(b"", True)
                yield
            except expat.ExpatError:
                raise SourceError(NOT_XML) from None

    def read_all(self, name: str, reader: Reader) -> None:
        """Hand a whole part to a reader."""
        for _ in self.read(name, reader):
            pass

    def relations(self, name: str) -> dict[str, Relation]:
        """Return what a part refers to, by the ids that it uses; of no name, the package itself."""
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
    raise SourceError(NOT_XML)
