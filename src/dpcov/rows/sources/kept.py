"""Tables that are read once: what later readings need is in a private copy.

The copy holds numbers about their bounds, levels by their place in the schema, and ids under a
secret permutation: rows of a fixed width, never cells. What is read from it is what would be read
from the table, to the last bit. All readings see the same rows in the same order, whatever a
database, a stream or a query does meanwhile; a person's rows are found together.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcov.errors import SourceError
from dpcov.rows.cells import batch_rows, codes_of, numbers_of, values_of
from dpcov.rows.schema import Categorical, Numeric
from dpcov.rows.sources.base import Wrapper
from dpcov.rows.sources.ids import WIDTH, IdColumn, canonical, records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import AnyArray, Booleans, Integers
    from dpcov.rows.schema import Schema
    from dpcov.rows.sources.base import Source

LARGEST_COPY = 2**31  # bytes; a table of more that can be read again is not copied
PARTS = 64  # of the persons, so that the memory for one part is small


@dataclass(frozen=True, slots=True, repr=False)  # its repr would print the data
class Batch:
    """Rows that were read: of each column numbers, or codes of its levels. SENSITIVE."""

    rows: AnyArray

    @property
    def num_rows(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> AnyArray:
        return self.rows[name]

    def filter(self, keep: pa.BooleanArray | Booleans) -> Batch:
        return Batch(self.rows[np.asarray(keep)])

    def select(self, columns: Sequence[str]) -> Batch:
        return Batch(self.rows[list(columns)])


class Kept(Wrapper):
    """A source that is read once, at the first reading.

    Parameters
    ----------
    source : the table.
    schema : what its columns may hold.
    once : whether a table too large to copy may not be read again either.

    """

    def __init__(self, source: Source, schema: Schema, *, once: bool = False) -> None:
        super().__init__(source)
        self._once = once or schema.unit is not None or not source.repeatable
        self.repeatable, self.costly = True, False
        self._schema = schema
        self._kind = _row_type(schema)
        self._key = os.urandom(32)  # of this copy's ids
        self._copy: Copy | None = None
        self._too_large = False
        self._parts = 1 if schema.unit is None else PARTS

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """These columns of all rows, as `Batch`es; of a table too large to copy as they come."""
        self.fill()
        if self._copy is None:
            yield from self.source.batches(columns)
            return
        size = batch_rows(len(columns))
        for rows in chain.from_iterable(map(self._copy.part, range(self._parts))):
            for start in range(0, len(rows), size):
                yield Batch(rows[start : start + size])

    def persons(self) -> Iterator[tuple[Batch, Integers]]:
        """Part after part, all rows of some persons, and each row's number of its person."""
        self.fill()
        copy = self._copy
        if copy is None or self._schema.unit is None:
            raise ValueError("the schema has no person unit")
        for part in range(self._parts):
            rows = np.concatenate([np.empty(0, copy.kind), *copy.part(part)])
            ids = np.ascontiguousarray(rows[self._schema.unit.column])
            encoded = pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(WIDTH), len(ids), [None, pa.py_buffer(ids.view(np.uint8))]
            ).dictionary_encode()
            yield Batch(rows), encoded.indices.to_numpy().astype(np.int64)

    def fill(self) -> None:
        """Read the source, once, into the copy; rows without an id are nobody's, and left out."""
        if self._copy is not None or self._too_large:
            return
        copy, unit = Copy(self._kind, self._parts), self._schema.unit
        names = [
            name if unit is None or name != unit.column else IdColumn(name)
            for name in self._kind.names or ()
        ]
        try:
            for batch in self.source.batches(names):
                rows = self._read(batch)
                copy.add(rows, None if unit is None else _parts(rows[unit.column], self._parts))
                if not self._once and copy.size > LARGEST_COPY:
                    self._too_large = True
                    return
        except NoRoomError:
            if self._once:
                raise
            self._too_large = True
            return
        self._copy = copy

    def _read(self, batch: pa.RecordBatch) -> AnyArray:
        schema, unit = self._schema, self._schema.unit
        rows = np.zeros(batch.num_rows, self._kind)
        for name in self._kind.names or ():
            column, values = schema.columns.get(name), batch.column(name)
            if unit is not None and name == unit.column:
                continue
            if isinstance(column, Categorical):
                rows[name] = codes_of(values, column, schema.missing)
                continue
            if not isinstance(column, Numeric):
                rows[name] = numbers_of(values, schema.missing)
            else:  # far outside is as outside, and nobody's number
                rows[name] = values_of(values, column, schema.missing)
                most = column.half_range
                np.clip(rows[name], column.lower - most, column.upper + most, out=rows[name])
        if unit is None:
            return rows
        ids = canonical(batch.column(unit.column), unit.type, schema.missing)
        known: AnyArray = rows[ids.is_valid().to_numpy(zero_copy_only=False)]
        known[unit.column] = records(ids.drop_null(), self._key)
        return known


def _row_type(schema: Schema) -> np.dtype[Any]:
    def kind(name: str) -> Any:
        if schema.unit is not None and name == schema.unit.column:
            return np.dtype((np.void, WIDTH))
        column = schema.columns.get(name)
        if isinstance(column, Categorical):
            return np.min_scalar_type(~len(column.labels))  # holds -1 too
        return np.float64

    return np.dtype([(name, kind(name)) for name in schema.needed])


def _parts(ids: NDArray[np.void], parts: int) -> Integers:
    """A part for each id, all about equally large."""
    words = np.ascontiguousarray(ids).view(np.uint64).reshape(len(ids), WIDTH // 8)
    return (words.sum(axis=1, dtype=np.uint64) % np.uint64(parts)).astype(np.int64)


# Private copies of what was read: numbers of fixed width, in memory and then on disk.
#
# A file has no name, is its owner's alone (mode 0600), is encrypted with a key that only this
# process holds, and takes its space in steps of a fixed size. So nothing readable is left by a
# crash, a killed process or a swapped-out disk, and a disk that fills up is found before it is
# written to. Its folder is the system's for temporary files (TMPDIR).


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
            content = b"".join(rows.view(np.uint8).data for rows in waiting)
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
