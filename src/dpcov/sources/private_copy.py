"""Private copies of what was read: numbers of fixed width, in memory and then on disk.

A file has no name, is its owner's alone (mode 0600), is encrypted with a key that only this process
holds, and takes its space in steps of a fixed size. So nothing readable is left by a crash, a
killed process or a swapped-out disk, and a disk that fills up is found before it is written to.
Its folder is the system's for temporary files (TMPDIR).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.errors import SourceError

if TYPE_CHECKING:
    from dpcov.core.arrays import AnyArray, Integers

IN_MEMORY = 2**26  # bytes that wait in memory
STEP = 2**26  # bytes by which a file grows
BLOCK = 16  # bytes of a block of AES
NO_ROOM = (
    "The disk is too small for a private copy of this number of rows, in the folder for temporary "
    "files (TMPDIR). If a ledger was set, the reserved budget stays spent."
)


class NoRoomError(SourceError):
    """The disk is full: one outcome, whatever the rows hold."""


class Copy:
    """Rows of a structured type, each in one of `parts` parts, which can be read apart.

    Parameters
    ----------
    kind : type of a row, of fixed width.
    parts : number of parts.

    Raises
    ------
    NoRoomError : the disk is full.

    """

    def __init__(self, kind: np.dtype[Any], parts: int = 1) -> None:
        self.kind = kind
        self._waiting: list[list[AnyArray]] = [[] for _ in range(parts)]
        self._bytes = 0  # that wait
        self._written: list[list[tuple[int, int]]] = [[] for _ in range(parts)]
        self._file: _Encrypted | None = None

    def add(self, rows: AnyArray, part_of_row: Integers | None = None) -> None:
        """Append rows to their parts; by default to the only one."""
        if part_of_row is None:
            self._waiting[0].append(rows)
        else:
            order = np.argsort(part_of_row, kind="stable")
            ends = np.searchsorted(part_of_row[order], np.arange(len(self._waiting) + 1))
            for part in np.flatnonzero(np.diff(ends)).tolist():
                self._waiting[part].append(rows[order[ends[part] : ends[part + 1]]])
        self._bytes += rows.nbytes
        if self._bytes > IN_MEMORY:
            self._write()

    def _write(self) -> None:
        if self._file is None:
            self._file = _Encrypted()
        for part, waiting in enumerate(self._waiting):
            content = b"".join(rows.tobytes() for rows in waiting)
            if content:
                self._written[part].append((self._file.append(content), len(content)))
            waiting.clear()
        self._bytes = 0

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return 0 if self._file is None else self._file.end

    def part(self, part: int = 0) -> Iterator[AnyArray]:
        """The rows of a part, in their order, piece by piece."""
        for place, size in self._written[part]:
            if self._file is not None:
                yield np.frombuffer(self._file.read(place, size), self.kind)
        yield from self._waiting[part]


class _Encrypted:
    """A temporary file in counter mode: a place is written once, so no key stream is used twice."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        try:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  closed with self
        except OSError:
            raise NoRoomError(NO_ROOM) from None
        self._room = 0
        self.end = 0

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def append(self, content: bytes) -> int:
        """Write at the end; the place where it is."""
        place = self.end
        self.end += -(-len(content) // BLOCK) * BLOCK
        try:
            while self._room < self.end:
                self._grow()
            self._file.seek(place)
            self._file.write(self._crypted(place, content))
            self._file.flush()
        except OSError:
            raise NoRoomError(NO_ROOM) from None
        return place

    def _grow(self) -> None:
        """Take the space now: a sparse file would fail later, and by a signal."""
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._file.fileno(), self._room, STEP)
        else:
            self._file.seek(self._room)
            self._file.write(bytes(STEP))
        self._room += STEP

    def read(self, place: int, size: int) -> bytes:
        """What was written there."""
        self._file.seek(place)
        return self._crypted(place, self._file.read(size))

    def _crypted(self, place: int, content: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        counter = modes.CTR((place // BLOCK).to_bytes(BLOCK, "big"))
        return Cipher(algorithms.AES256(self._key), counter).encryptor().update(content)
