"""Tasks of a Spark cluster: exact sums over rows, packed as integers that can be added.

Every function converts batches to batches and runs inside a task. The output is private data and
stays inside the cluster. The message of an error could contain cells, so no error leaves a task.
Instead, the task returns a batch whose `part` is `FAILED_PART`.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np
import pyarrow as pa

from dpcov.core.entropy import Entropy
from dpcov.errors import DpcovError, SourceError
from dpcov.rows.moment import BLOCK_ROWS
from dpcov.rows.sources.hashes import content_hash
from dpcov.rows.sources.ids import canonical
from dpcov.rows.sources.level import filtered
from dpcov.rows.sources.quiet import quiet
from dpcov.rows.sources.rows import BLAS, UNREADABLE_DATA, Assignment, Folder, add_grouped

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers, Matrix
    from dpcov.rows.encoder import Encoder
    from dpcov.rows.schema import Schema
    from dpcov.rows.sources.level import RowTest
    from dpcov.rows.sources.rows import Sum

FAILED_PART = -1  # Number of the part that reports an error.
PART_INTEGERS = 2**11  # Number of integers per part of a sum: 16 KiB.
SUMS_SCHEMA = pa.schema([("part", pa.int64()), ("units", pa.int64()), ("integers", pa.binary())])
ROWS_SCHEMA = pa.schema([("id", pa.binary()), ("rank", pa.int64()), ("integers", pa.binary())])

Batches = Iterator[pa.RecordBatch]
P = ParamSpec("P")


_FAILED_SUM: list[list[Any]] = [[FAILED_PART], [0], [b""]]
_FAILED_ROW: list[list[Any]] = [[None], [0], [None]]


def _reporting(
    cells: list[list[Any]], schema: pa.Schema
) -> Callable[[Callable[P, Batches]], Callable[P, Batches]]:
    """Decorate a task: instead of an error, the task returns a last batch with these `cells`."""

    def decorate(task: Callable[P, Batches]) -> Callable[P, Batches]:
        @functools.wraps(task)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> Batches:
            def started() -> Batches:
                yield from task(*args, **kwargs)

            batches = started()
            step = quiet(UNREADABLE_DATA)(lambda: next(batches, None))
            try:
                while (batch := step()) is not None:
                    yield batch
            except DpcovError:
                yield pa.record_batch(
                    cells, schema=schema
                )  # created late, because this imports pandas

        return guarded

    return decorate


@dataclass(frozen=True, slots=True)
class Query:
    """Query that every task answers.

    Attributes
    ----------
    schema : Schema
        Declared columns.

    columns : tuple of str
        Names of the columns of a batch, in order.

    encoder : Encoder
        Encoder of the rows.

    empty : callable
        Function that returns an empty sum.

    groups : int
        Number of groups. Each privacy unit is in one group, uniformly and independently.

    tests : tuple of RowTest
        Tests that a row must meet to count.

    key : bytes
        Secret key that determines the groups of persons.

    """

    schema: Schema
    columns: tuple[str, ...]
    encoder: Encoder
    empty: Callable[[], Sum[Any]]
    groups: int = 1
    tests: tuple[RowTest, ...] = ()
    key: bytes = b""

    def named(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """Yield the rows that count, with the columns that the schema needs."""
        for batch in batches:
            whole = pa.RecordBatch.from_arrays(batch.columns, list(self.columns))
            yield filtered(whole, self.tests, self.schema.needed) if self.tests else whole


@_reporting(_FAILED_SUM, SUMS_SCHEMA)
def sums_of_rows(query: Query, batches: Iterable[pa.RecordBatch]) -> Batches:
    """Yield the sums over the rows of a task, with fresh random groups."""
    folder = Folder(query.encoder, query.empty, query.groups, 1)
    assigned = Assignment(query.groups, Entropy.system())
    with BLAS.limit(limits=1), folder.adding() as add:
        for batch in query.named(batches):
            add(batch, assigned.next(np.arange(batch.num_rows), batch.num_rows))
    return _packed(folder.totals(), assigned.unit_counts())


@_reporting(_FAILED_ROW, ROWS_SCHEMA)
def integer_rows(query: Query, batches: Iterable[pa.RecordBatch]) -> Batches:
    """Yield the integer row of each table row that has an id, with the id and a rank.

    The rank is a hash of the integer row. It orders the rows of a person as `counted` does.
    """
    unit, missing = query.schema.unit, query.schema.missing
    if unit is None:
        raise ValueError("the schema has no person unit")
    for batch in query.named(batches):
        ids = canonical(batch.column(unit.column), unit.type, missing).cast(pa.binary())
        at = 0
        for block in query.encoder.blocks(batch):
            here = ids.slice(at, block.shape[1])
            at += block.shape[1]
            ranks = pa.array((content_hash(block) ^ np.uint64(2**63)).view(np.int64))
            columns = [here, ranks, _joined(block)]
            yield pa.RecordBatch.from_arrays(columns, schema=ROWS_SCHEMA).filter(here.is_valid())


@_reporting(_FAILED_SUM, SUMS_SCHEMA)
def sums_of_ranked(query: Query, batches: Iterable[pa.RecordBatch]) -> Batches:
    """Yield the sums over integer rows that count.

    Each integer row has a `place` among the rows of its person, from 1.
    """
    sums = [query.empty() for _ in range(query.groups)]
    counts = np.zeros(query.groups, np.int64)
    with BLAS.limit(limits=1):
        for batch in batches:
            if batch["integers"].null_count:
                raise SourceError(UNREADABLE_DATA)
            labels = _labels(query, batch["id"])
            firsts = batch["place"].to_numpy() == 1
            counts += np.bincount(labels[firsts], minlength=query.groups)
            for rows, block in _blocks(batch):
                add_grouped(sums, block, labels[rows])
    return _packed(sums, counts.tolist())


@_reporting(_FAILED_SUM, SUMS_SCHEMA)
def merged(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Yield the sums of packed sums, part by part."""
    found: dict[int, tuple[int, Integers]] = {}
    for batch in batches:
        for part, units, content in zip(*(column.to_pylist() for column in batch), strict=True):
            add_part(found, part, units, content)
    for part, (units, integers) in found.items():
        yield pa.record_batch([[part], [units], [integers.tobytes()]], schema=SUMS_SCHEMA)


def add_part(found: dict[int, tuple[int, Integers]], part: int, units: int, content: bytes) -> None:
    """Add a part of a packed sum to the parts found so far; raise an error for a failed task.

    Parameters
    ----------
    found : dict of int to (int, ndarray)
        Number of privacy units and integers of each part. The function updates the dict.

    part : int
        Number of the part, or `FAILED_PART`.

    units : int
        Number of privacy units.

    content : bytes
        Packed integers.

    """
    if part == FAILED_PART:
        raise SourceError(UNREADABLE_DATA)
    before = found.get(part, (0, np.int64(0)))
    found[part] = before[0] + units, before[1] + np.frombuffer(content, "<i8")


def unpacked(query: Query, found: dict[int, tuple[int, Integers]]) -> list[tuple[Sum[Any], int]]:
    """Return the sum of each group, and its number of privacy units.

    Parameters
    ----------
    query : Query
        Query of the tasks.
    found : dict of int to (int, ndarray)
        Number of privacy units and integers of each part.

    Returns
    -------
    list of (Sum, int), length groups

    """
    sums = [query.empty() for _ in range(query.groups)]
    counts = [0] * query.groups
    width = len(sums[0].packed())
    parts = _parts(width)
    for group, total in enumerate(sums):
        whole = np.zeros(width, np.int64)
        for at in range(parts):
            units, integers = found.get(group * parts + at, (0, np.int64(0)))
            whole[at * PART_INTEGERS : (at + 1) * PART_INTEGERS] += integers
            counts[group] += units
        total.add_packed(whole)
    return list(zip(sums, counts, strict=True))


def _packed(sums: Sequence[Sum[Any]], counts: list[int]) -> Batches:
    """Yield the sums of the groups in parts.

    The first part of a group contains its number of privacy units.
    """
    for group, (total, count) in enumerate(zip(sums, counts, strict=True)):
        if count == 0:
            continue
        integers = total.packed()
        parts = _parts(len(integers))
        for at in range(parts):
            content = integers[at * PART_INTEGERS : (at + 1) * PART_INTEGERS].astype("<i8")
            columns = [[group * parts + at], [count if at == 0 else 0], [content.tobytes()]]
            yield pa.record_batch(columns, schema=SUMS_SCHEMA)


def _parts(width: int) -> int:
    """Return the number of parts of a sum of the given width."""
    return -(-width // PART_INTEGERS)


def _labels(query: Query, ids: pa.Array) -> Integers:
    """Return the group of each person from a keyed hash of the id, the same in every task."""
    if query.groups == 1:
        return np.zeros(len(ids), np.int64)
    hashes = (hashlib.blake2b(word, key=query.key, digest_size=8) for word in ids.to_pylist())
    words = np.frombuffer(b"".join(found.digest() for found in hashes), "<u8")
    return (words % np.uint64(query.groups)).astype(np.int64)


def _blocks(batch: pa.RecordBatch) -> Iterator[tuple[slice, Matrix]]:
    """Yield integer rows as blocks, with their positions in the batch."""
    rows = np.frombuffer(b"".join(batch["integers"].to_pylist()), "<i4").reshape(batch.num_rows, -1)
    for start in range(0, batch.num_rows, BLOCK_ROWS):
        here = slice(start, start + BLOCK_ROWS)
        yield here, np.ascontiguousarray(rows[here].T, np.float64)


def _joined(block: Matrix) -> pa.Array:
    """Return each column of a block of shape (d, m) as bytes; its integers are at most 2^20."""
    width, count = block.shape
    offsets = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * np.int32(4 * width))
    content = pa.py_buffer(np.ascontiguousarray(block.T, "<i4"))
    return pa.Array.from_buffers(pa.binary(), count, [None, offsets, content])
