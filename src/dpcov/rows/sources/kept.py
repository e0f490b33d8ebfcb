"""Private copies of tables that dpcov reads only once.

A copy contains clipped numbers, level positions, and encrypted ids, in rows of fixed width. It
contains no cells. Reading the copy gives exactly the same result as reading the table. All readings
return the same rows in the same order, even if the database or query changes. The rows of a person
are stored together.
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
import pyarrow.compute as pc

from dpcov.errors import SourceError
from dpcov.rows.cells import batch_rows, codes_of, numbers_of, values_of
from dpcov.rows.encoder import MeanRows
from dpcov.rows.person_means import PersonSums, stored_column
from dpcov.rows.schema import Categorical, Numeric
from dpcov.rows.sources.base import Wrapper
from dpcov.rows.sources.ids import ID_BYTES, IdColumn, canonical, records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import AnyArray, Booleans, Integers
    from dpcov.rows.schema import Schema
    from dpcov.rows.sources.base import Source

MAX_COPY_BYTES = 2**31  # Maximum size in bytes of a copy of a table that can be read again.
PERSON_PARTS = 64  # Number of parts of the persons; one part must fit into memory.
MIN_PERSON_BATCH_ROWS = 8192  # Smaller parts are read together, because each batch costs time.


@dataclass(frozen=True, slots=True, repr=False)  # a repr would print the data
class Batch:
    """Converted rows: a number or a level position for each column.

    The content is private: dpcov publishes it only with noise.

    Attributes
    ----------
    rows : structured ndarray, shape (n,)
        Rows with one field per column.

    """

    rows: AnyArray

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def column(self, name: str) -> AnyArray:
        """Return one column."""
        return self.rows[name]

    def filter(self, keep: pa.BooleanArray | Booleans) -> Batch:
        """Return the rows for which `keep` is True."""
        return Batch(self.rows[np.asarray(keep)])

    def select(self, columns: Sequence[str]) -> Batch:
        """Return the given columns."""
        return Batch(self.rows[list(columns)])


class Kept(Wrapper):
    """Source that is read once and copied.

    Parameters
    ----------
    source : Source
        Table.
    schema : Schema
        Declared columns.
    once : bool
        True if the table must not be read again, even if the copy is large.

    """

    def __init__(self, source: Source, schema: Schema, *, once: bool = False) -> None:
        super().__init__(source)
        self._once = once or schema.unit is not None or not source.repeatable
        self.repeatable, self.costly = True, False
        self._schema = schema
        self._kind = _row_type(schema)
        self._key = os.urandom(32)  # encrypts the ids of this copy
        self._copy: Copy | None = None
        self._too_large = False
        self._parts = 1 if schema.unit is None else PERSON_PARTS

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the given columns of all rows as `Batch` objects.

        A table that is too large to copy is read from its source.
        """
        self.fill()
        if self._copy is None:
            yield from self.source.batches(columns)
            return
        size = batch_rows(len(columns))
        for rows in chain.from_iterable(map(self._copy.part, range(self._parts))):
            for start in range(0, len(rows), size):
                yield Batch(rows[start : start + size])

    def persons(self) -> Iterator[tuple[Batch, Integers]]:
        """Yield all rows of some persons, one or more parts at a time.

        Yields
        ------
        batch : Batch
            Rows of the parts.
        persons : ndarray of int64, shape (n,)
            Number of the person of each row, from 0.

        """
        self.fill()
        copy = self._copy
        if copy is None or self._schema.unit is None:
            raise ValueError("the schema has no person unit")
        rows = np.empty(0, copy.kind)
        for part in range(self._parts):
            rows = np.concatenate([rows, *copy.part(part)])
            if len(rows) >= MIN_PERSON_BATCH_ROWS or part == self._parts - 1:
                encoded = _ids(rows[self._schema.unit.column]).dictionary_encode()
                yield Batch(rows), encoded.indices.to_numpy().astype(np.int64)
                rows = rows[:0]

    def fill(self) -> None:
        """Read the source once into the copy; rows without an id are left out."""
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
                if not self._once and copy.size > MAX_COPY_BYTES:
                    self._too_large = True
                    return
        except NoRoomError:
            if self._once:
                raise
            self._too_large = True
            return
        self._copy = copy

    def _read(self, batch: pa.RecordBatch) -> AnyArray:
        """Convert a batch to rows of the copy."""
        schema, unit = self._schema, self._schema.unit
        rows = np.zeros(batch.num_rows, self._kind)
        for name in self._kind.names or ():
            column, values = schema.columns.get(name), batch.column(name)
            if unit is not None and name == unit.column:
                continue
            if isinstance(column, Categorical):
                stored = stored_column(column) if schema.person_means else column
                rows[name] = codes_of(values, stored, schema.missing)
                continue
            if not isinstance(column, Numeric):
                rows[name] = numbers_of(values, schema.missing)
            else:  # a number far outside the bounds counts as the bound, so it is not kept exactly
                rows[name] = values_of(values, column, schema.missing)
                most = column.half_range
                np.clip(rows[name], column.lower - most, column.upper + most, out=rows[name])
        if unit is None:
            return rows
        ids = canonical(batch.column(unit.column), unit.type, schema.missing)
        known: AnyArray = rows[ids.is_valid().to_numpy(zero_copy_only=False)]
        known[unit.column] = records(ids.drop_null(), self._key)
        return known


class PersonMeans(Kept):
    """Source that is read once, and whose copy contains one row per person: the mean of all rows.

    The rows of a person can be anywhere in the table, so dpcov first copies all rows, as `Kept`
    does. It then computes the means of the persons of one part at a time, and keeps only the means.
    """

    def fill(self) -> None:
        """Read the source once, and replace the rows of each person by their mean."""
        if self._copy is not None:
            return
        super().fill()
        rows, self._copy = self._copy, None
        if rows is None:
            raise ValueError("a table of persons is always copied")
        size = len(self._schema.features)
        means = Copy(np.dtype([("means", np.int32, (size,))]))
        found = [np.empty((0, size), np.int32)]
        for part in range(self._parts):
            found.append(self._means(rows, part))
            if part == self._parts - 1 or sum(map(len, found)) >= batch_rows(size):
                means.add(np.concatenate(found).view(means.kind)[:, 0])
                found.clear()
        self._copy = means

    def _means(self, rows: Copy, part: int) -> AnyArray:
        """Return the mean rows of the persons of a part as int32, shape (persons, p).

        The pieces of a part are read twice, so that a person can have more rows than fit in memory.
        """
        column = self._schema.unit.column if self._schema.unit else ""
        known = pa.array([], pa.binary(ID_BYTES))
        for piece in rows.part(part):
            known = pa.chunked_array([known, _ids(piece[column])]).unique()
        if not len(known):
            return np.empty((0, len(self._schema.features)), np.int32)
        sums = PersonSums(self._schema, len(known))
        for piece in rows.part(part):
            owners = pc.index_in(_ids(piece[column]), value_set=known)
            sums.add(Batch(piece), owners.to_numpy().astype(np.int64))
        return sums.means().astype(np.int32)

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the mean rows of all persons as `MeanRows`."""
        del columns  # a mean row contains all columns
        self.fill()
        if self._copy is None:
            raise ValueError("the copy is full")
        size = batch_rows(len(self._schema.features))
        for rows in self._copy.part():
            for start in range(0, len(rows), size):
                yield MeanRows(rows["means"][start : start + size])


def copied(source: Source, schema: Schema) -> Source:
    """Return a source with a private copy if the schema protects persons."""
    if schema.unit is None:
        return source
    return (PersonMeans if schema.person_means else Kept)(source, schema)


def _ids(ids: AnyArray) -> pa.FixedSizeBinaryArray:
    """Return the records of ids as an Arrow array."""
    whole = pa.py_buffer(np.ascontiguousarray(ids).view(np.uint8))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(ID_BYTES), len(ids), [None, whole])


def _row_type(schema: Schema) -> np.dtype[Any]:
    """Return the NumPy type of a row of the copy."""

    def kind(name: str) -> Any:
        if schema.unit is not None and name == schema.unit.column:
            return np.dtype((np.void, ID_BYTES))
        column = schema.columns.get(name)
        if isinstance(column, Categorical):
            return np.min_scalar_type(~len(column.labels))  # can represent -1 too
        return np.float64

    return np.dtype([(name, kind(name)) for name in schema.needed])


def _parts(ids: NDArray[np.void], parts: int) -> Integers:
    """Assign a part to each id; all parts are about equally large."""
    words = np.ascontiguousarray(ids).view(np.uint64).reshape(len(ids), ID_BYTES // 8)
    return (words.sum(axis=1, dtype=np.uint64) % np.uint64(parts)).astype(np.int64)


# Private copies are stored in memory first, and then in a temporary file.
#
# The file has no name, only its owner can read it (mode 0600), and it is encrypted with a key that
# exists only in this process. A crash therefore leaves nothing readable. The file reserves its
# space in steps of a fixed size, so dpcov detects a full disk before it writes. The file is in the
# system's folder for temporary files (TMPDIR).


MAX_MEMORY_BYTES = 2**26  # Maximum number of bytes in memory before they are written.
GROWTH_BYTES = 2**26  # Bytes by which the file grows.
ZEROS_BYTES = 2**20  # Bytes that are written at once where no call reserves space.
AES_BLOCK_BYTES = 16  # Size of an AES block in bytes.
NO_SPACE_MESSAGE = (
    "The disk of the folder for temporary files (TMPDIR) is too small for a private copy of "
    "the table. Free disk space or set TMPDIR; with a ledger, the reserved budget stays "
    "spent."
)


class NoRoomError(SourceError):
    """Error for a full disk; its message does not depend on cell values."""


class Copy:
    """Rows of a structured type in several parts, which can be read separately.

    Parameters
    ----------
    kind : numpy.dtype
        Type of a row, with fixed width.
    parts : int
        Number of parts.

    Raises
    ------
    NoRoomError
        The disk is full.

    """

    def __init__(self, kind: np.dtype[Any], parts: int = 1) -> None:
        self.kind = kind
        self._waiting: list[list[AnyArray]] = [[] for _ in range(parts)]
        self._bytes = 0  # in memory
        self._written: list[list[tuple[int, int]]] = [[] for _ in range(parts)]
        self._file: _Encrypted | None = None

    def add(self, rows: AnyArray, part_of_row: Integers | None = None) -> None:
        """Append rows to their parts; without `part_of_row`, to the only part."""
        if part_of_row is None:
            self._waiting[0].append(rows)
        else:
            order = np.argsort(part_of_row, kind="stable")
            ends = np.searchsorted(part_of_row[order], np.arange(len(self._waiting) + 1))
            for part in np.flatnonzero(np.diff(ends)).tolist():
                self._waiting[part].append(rows[order[ends[part] : ends[part + 1]]])
        self._bytes += rows.nbytes
        if self._bytes > MAX_MEMORY_BYTES:
            self._write()

    def _write(self) -> None:
        """Write the rows in memory to the temporary file."""
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
        """Size on disk in bytes."""
        return 0 if self._file is None else self._file.end

    def part(self, part: int = 0) -> Iterator[AnyArray]:
        """Yield the rows of a part in order, in pieces."""
        for place, size in self._written[part]:
            if self._file is not None:
                yield np.frombuffer(self._file.read(place, size), self.kind)
        yield from self._waiting[part]


class _Encrypted:
    """Temporary file in AES counter mode.

    Each position is written once, so no key stream repeats.
    """

    def __init__(self) -> None:
        self._key = os.urandom(32)
        try:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  closed with self
        except OSError:
            raise NoRoomError(NO_SPACE_MESSAGE) from None
        self._reserved = 0
        self.end = 0

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def append(self, content: bytes) -> int:
        """Write bytes at the end and return their position."""
        place = self.end
        self.end += -(-len(content) // AES_BLOCK_BYTES) * AES_BLOCK_BYTES
        try:
            while self._reserved < self.end:
                self._grow()
            self._file.seek(place)
            self._file.write(self._crypted(place, content))
            self._file.flush()
        except OSError:
            raise NoRoomError(NO_SPACE_MESSAGE) from None
        return place

    def _grow(self) -> None:
        """Reserve disk space now, because writing to a sparse file can fail later with a signal."""
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._file.fileno(), self._reserved, GROWTH_BYTES)
        else:
            self._file.seek(self._reserved)
            for _ in range(GROWTH_BYTES // ZEROS_BYTES):
                self._file.write(bytes(ZEROS_BYTES))
        self._reserved += GROWTH_BYTES

    def read(self, place: int, size: int) -> bytes:
        """Return the bytes at a position."""
        self._file.seek(place)
        return self._crypted(place, self._file.read(size))

    def _crypted(self, place: int, content: bytes) -> bytes:
        """Encrypt or decrypt bytes at a position."""
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        counter = modes.CTR((place // AES_BLOCK_BYTES).to_bytes(AES_BLOCK_BYTES, "big"))
        return Cipher(algorithms.AES256(self._key), counter).encryptor().update(content)
