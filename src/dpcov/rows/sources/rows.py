"""The one door: what the library may learn of a data set, and the only code that sees rows."""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
from threadpoolctl import ThreadpoolController

from dpcov.errors import MechanismError, SourceError
from dpcov.rows.encoder import Encoder, Scratch
from dpcov.rows.moment import Accumulator, Lattice, LinearMap, SecondMoment, exact_squared_norms
from dpcov.rows.sources.base import fits, kind_of, rows_given, unwrapped
from dpcov.rows.sources.hashes import HashedSum, counted
from dpcov.rows.sources.ids import refuse_unfit
from dpcov.rows.sources.kept import Kept
from dpcov.rows.sources.quiet import leave_no_core, quiet

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers, Matrix
    from dpcov.core.entropy import Entropy
    from dpcov.rows.encoder import Encoded, Encoder
    from dpcov.rows.moment import Lattice
    from dpcov.rows.schema import Cells, Schema
    from dpcov.rows.sources.arrow import RowGroup
    from dpcov.rows.sources.base import Source

UNREADABLE = (
    "The data could not be read to its end (a damaged file, a lost disk, or a type that does not "
    "fit its column). If a ledger was set, the reserved budget stays spent."
)


COUNTABLE = (
    "Under replace-one the number of rows is public, and in a text file with quoted cells, or in a "
    "workbook, one record can change it. Give the number that you know from elsewhere ({}), or {}."
)


@dataclass(frozen=True, slots=True, repr=False)  # its repr would print the data
class IntegerRows:
    """Rows in memory. SENSITIVE.

    Attributes
    ----------
    rows : (p, n) integers, in units of the schema's radius * 2^-40, each column with norm at most
        about 2^40; a function of that row alone.
    owners : (n,) numbers of the units that the rows belong to, from 0 on.
    unit_count : number of units; some may have no row that counts.
    roots : (n,) by what the weights shrank each row, and must shrink an intercept; None without.

    """

    rows: Matrix
    owners: Integers
    unit_count: int
    roots: Matrix | None = None


IN_MEMORY = (
    "This mechanism holds all rows in memory, which a cluster's table may not fit. Choose another "
    "one, or give the rows as a local table."
)


class Rows:
    """A data set seen through its schema; answers with exact integer sums over rows only.

    Every answer is SENSITIVE: only a mechanism may hold it.

    Attributes
    ----------
    schema : what the columns may hold.
    door : what kind of table it is, in a word.
    where : the conditions that the rows meet, as they are told.
    caveat : what is not protected on account of where the rows come from.
    countable : whether no cell can change the number of rows.
    public_rows : that number, where it is known without reading a cell: public under replace-one.
    rereadable : whether mechanisms may ask more than once.
    has_rows : whether `integer_rows` can be asked for.

    """

    rereadable = True
    has_rows = True
    where: tuple[str, ...] = ()
    public_rows: int | None = None

    def __init__(self, schema: Schema, source: Source, *, threads: int | None = None) -> None:
        absent = [name for name in schema.needed if name not in source.names]
        if absent:
            raise SourceError(
                f"The data has no column {absent[0]!r}, which the schema declares. The names that "
                "were found are not shown: in a file without a header they are somebody's row."
                + source.advice
            )
        twice = [name for name in schema.needed if source.names.count(name) > 1]
        if twice:
            raise SourceError(f"The data has more than one column {twice[0]!r}.")
        weight: dict[str, Cells] = {schema.weight.column: "number"} if schema.weight else {}
        for name, declared in {**schema.read_columns, **weight}.items():
            if not fits(source.types[name], declared):
                kind = source.unfit.get(name, str(source.types[name]))
                dates = "'date' or 'time' (in version 2 of schemas), or "
                dates = dates if kind_of(source.types[name]) in ("date", "time") else ""
                raise SourceError(
                    f"The column {name!r} can't be a feature: it is of the type {kind}. Convert "
                    f"it, or declare it kind = {dates}'ignored'."
                )
        if schema.unit is not None:
            name = schema.unit.column
            refuse_unfit(name, unwrapped(source.types[name]), schema.unit.type, source.unfit_ids)
        leave_no_core()
        self.schema = schema
        self.kind = source.kind
        self.caveat = source.caveat
        self.countable = source.rows_are_lines
        self.public_rows = source.public_rows
        self._how_to_count = source.how_to_count
        self._source = source if schema.unit is None else Kept(source, schema)
        self._total: int | None = None
        self._threads = threads or available_cores()

    @property
    def gaps(self) -> dict[int, int]:
        """`Schema.gaps` of the features of these rows."""
        return self.schema.gaps

    def lattice(self, *, radius: float | None = None, features: int | None = None) -> Lattice:
        """Public shape of a query: what sensitivities depend on."""
        return Lattice.of(self.schema, radius=radius, features=features)

    def require_rereadable(self) -> None:
        """Expect several questions: copy what can't be read again, or not at that cost."""
        if self._source.costly or not self._source.repeatable:
            self._source = Kept(self._source, self.schema)

    @quiet(UNREADABLE)
    def read(self) -> None:
        """Copy what is to be copied, before the first question and after the budget was booked."""
        if isinstance(self._source, Kept):
            self._source.fill()

    def close(self) -> None:
        """Let go of the table: a database's file, a connection."""
        self._source.close()

    def require_countable(self) -> None:
        """Refuse to call a number of rows public that a cell may change."""
        if not self.countable:
            raise SourceError(COUNTABLE.format(rows_given(), self._how_to_count))

    @quiet(UNREADABLE)
    def second_moments(
        self,
        *,
        radius: float | None = None,
        transform: LinearMap | None = None,
        groups: int = 1,
        labels: Entropy | None = None,
        lattice: Lattice | None = None,
    ) -> list[SecondMoment]:
        """Exact second moments of the clipped rows, one for each group.

        Parameters
        ----------
        radius : public bound on an encoded (and mapped) row; default, the schema's.
        transform : public linear map applied before the clip.
        groups : number of groups; each unit falls in one, uniformly and independently.
        labels : fresh secret randomness for the groups; needed if `groups` > 1.
        lattice : public grid of the query; default, that of the radius (`Lattice.of`).

        Returns
        -------
        list of `groups` moments, SENSITIVE: only a mechanism may hold them.

        """
        if groups > 1 and labels is None:
            raise MechanismError("Groups need fresh randomness: none must be guessable.")
        features = None if transform is None else len(transform.integers)
        lattice = lattice or self.lattice(radius=radius, features=features)
        encoder = Encoder(self.schema, lattice, transform)
        empty = partial(Accumulator, lattice.dimension, lattice.intercept_parts[0])
        counting = self._counting(encoder, empty)
        sums = self._noted(encoder, self._sums(encoder, counting, groups, labels))
        return [SecondMoment(total, lattice, count) for total, count in sums]

    @quiet(UNREADABLE)
    def hashed_moment(self) -> tuple[SecondMoment, str]:
        """The second moment, and a hash of the multiset of the rows' images. SENSITIVE, both."""
        lattice = self.lattice()
        empty = partial(HashedSum, lattice.dimension, lattice.intercept_parts[0])
        sums = self._sums(Encoder(self.schema, lattice), empty)
        ((units, image), count) = sums[0]
        return SecondMoment(units, lattice, count), image

    @quiet(UNREADABLE)
    def norm_counts(
        self,
        edges: Sequence[float | Fraction] | Matrix,
        *,
        radius: float | None = None,
        transform: LinearMap | None = None,
    ) -> Integers:
        """How many rows have a norm in each of the bins that `edges` set.

        Of each row the integer image is counted that `second_moments` would use, without the
        intercept: clipped at `radius`, of persons the rows that count.

        Parameters
        ----------
        edges : (m,) ascending, public, in units of an encoded (and mapped) row; taken exactly.
        radius : public bound on an encoded (and mapped) row; default, the schema's.
        transform : public linear map applied before the clip.

        Returns
        -------
        (m + 1,) counts, SENSITIVE: bin i holds the rows with edges[i-1] < norm <= edges[i], the
        first all up to edges[0], the last all above edges[-1]. A unit appearing or vanishing
        changes them by at most k = `unit.max_rows` in l1 norm; one that changes, by 2 k.

        """
        features = None if transform is None else len(transform.integers)
        lattice = self.lattice(radius=radius, features=features)
        limits = squared_limits(edges, lattice)
        encoder = Encoder(self.schema, lattice, transform)
        counting = self._counting(encoder, partial(NormCounter, limits, lattice.features))
        return self._noted(encoder, self._sums(encoder, counting))[0][0]

    def total(self) -> int:
        """How many rows count; with weights, the sum of their shares of the largest.

        Found by the way where sums have been asked for, else read.

        Returns
        -------
        int in units of 1 / `units_per_row`, SENSITIVE: only a mechanism may hold it. A unit that
        appears or vanishes changes it by at most k times `units_per_row`.

        """
        if self._total is None:
            self.norm_counts(())
        return self._total or 0

    def _weighs(self, encoder: Encoder) -> bool:
        return self.schema.weight is not None and encoder.intercept > 0

    def _counting(
        self, encoder: Encoder, empty: Callable[[], Sum[Total]]
    ) -> Callable[[], WithCount[Total]]:
        """Makes sums that count their rows, by weights where rows have an intercept."""
        return partial(WithCount, empty, weighted=self._weighs(encoder))

    def _noted(
        self, encoder: Encoder, sums: Sequence[tuple[tuple[Total, int], int]]
    ) -> list[tuple[Total, int]]:
        """The sums without their numbers of rows, which are noted.

        But for those by weights of rows that have another intercept, as images may.
        """
        if not self._weighs(encoder) or encoder.intercept == self.lattice().intercept_parts[1]:
            self._total = sum(rows for (_, rows), _ in sums)
        return [(found, count) for (found, _), count in sums]

    @quiet(UNREADABLE)
    def integer_rows(self) -> IntegerRows:
        """All rows at once, in memory: 8 (p + 1) bytes for each row; no certificate of their norms.

        For mechanisms that judge each unit by all others, whose proof needs no bound on a row.

        Returns
        -------
        IntegerRows, SENSITIVE: only a mechanism may hold them.

        """
        lattice = self.lattice(features=len(self.schema.features))
        encoder = Encoder(self.schema, lattice)
        blocks, owners = [np.empty((lattice.features, 0))], [np.empty(0, np.int64)]
        roots, count = [np.empty(0)], 0
        with BLAS.limit(limits=1):
            for batch, units, new in self._owned(encoder):
                block, weights = encoder.fine_rows(batch)
                blocks.append(block)
                owners.append(units + count)
                count += new
                roots += [] if weights is None else [weights]
        weighted = None if self.schema.weight is None else np.concatenate(roots)
        return IntegerRows(np.concatenate(blocks, axis=1), np.concatenate(owners), count, weighted)

    def _owned(self, encoder: Encoder) -> Iterator[tuple[Any, Integers, int]]:
        """Batches of the rows that count, each row's unit, numbered from 0, and how many units."""
        unit = self.schema.unit
        if unit is None or not isinstance(self._source, Kept):
            for batch in self._source.batches(self.schema.needed):
                yield batch, np.arange(batch.num_rows), batch.num_rows
            return
        for batch, persons in self._source.persons():
            counts = counted(batch, persons, encoder, unit.max_rows)
            yield batch.filter(counts), persons[counts], int(persons.max(initial=-1)) + 1

    def _sums(
        self,
        encoder: Encoder,
        empty: Callable[[], Sum[Total]],
        groups: int = 1,
        labels: Entropy | None = None,
    ) -> list[tuple[Total, int]]:
        """Sum over each group's rows, with its number of units."""
        with BLAS.limit(limits=1):
            folder = Folder(encoder, empty, groups, self._threads)
            parts = self._parts() if groups == 1 else ()
            if parts:
                whole = [part for part in parts if part.whole]
                streamed = [part for part in parts if not part.whole]
                counts = [folder.together(whole) + folder.apart(streamed)]
            else:
                assigned = Assignment(groups, labels)
                with folder.adding() as add:
                    for batch, units, new in self._owned(encoder):
                        add(batch, assigned.next(units, new))
                counts = assigned.unit_counts()
            sums = folder.totals()
            return [(found.total(), count) for found, count in zip(sums, counts, strict=True)]

    def _parts(self) -> Sequence[RowGroup]:
        """Parts of the source that the threads can share, if there are such."""
        parts = self._source.parts(self.schema.needed)
        return parts if fit_together(parts, self._threads) else ()


class Assignment:
    """Which group each unit falls in; in reading order."""

    def __init__(self, groups: int, labels: Entropy | None) -> None:
        self.groups = groups
        self._labels = labels
        self._counts = np.zeros(groups, np.int64)

    def next(self, units: Integers, new: int) -> Integers | None:
        """Groups of the next rows, which belong to `new` units; None if there is only one group."""
        if self.groups == 1 or self._labels is None:
            self._counts[0] += new
            return None
        # One word for each unit, so that batches don't matter. Their remainders are uniform within
        # 2^-64 groups; privacy asks only that they are independent of the data, and secret.
        remainders = self._labels.words(new) % np.uint64(self.groups)
        drawn = remainders.astype(np.int64)
        self._counts += np.bincount(drawn, minlength=self.groups)
        return drawn[units]

    def unit_counts(self) -> list[int]:
        return [int(count) for count in self._counts]


# Sums over rows, by several threads; every sum is exact, so that their order changes nothing.


class NormCounter:
    """Counts of integer rows z in the bins that `limits`, (m,) ascending, set for ||z||^2.

    ||z||^2 is below 2^53, so every partial sum of squares is an integer that float64 holds: bins
    depend neither on the order of the sum nor on the block.
    """

    __slots__ = ("_counts", "_features", "_limits")

    def __init__(self, limits: Matrix, features: int) -> None:
        self._limits = limits
        self._features = features
        self._counts: Integers = np.zeros(len(limits) + 1, np.int64)

    def add(self, block: Matrix) -> None:
        """Count the rows of a (d, m) block of integer-valued floats."""
        norms = exact_squared_norms(block[: self._features])
        bins = np.searchsorted(self._limits, norms, side="left")
        self._counts += np.bincount(bins, minlength=len(self._counts))

    def merge(self, other: NormCounter) -> None:
        """Add another counter's counts to this one."""
        self._counts += other._counts

    def packed(self) -> Integers:
        """(m + 1,) counts, to be added to those of others."""
        return self._counts

    def add_packed(self, counts: Integers) -> None:
        """Add a sum of `packed` counts to this one."""
        self._counts += counts

    def total(self) -> Integers:
        """(m + 1,) counts; bin i holds limits[i-1] < ||z||^2 <= limits[i]."""
        return self._counts


def squared_limits(edges: Sequence[float | Fraction] | Matrix, lattice: Lattice) -> Matrix:
    """floor((edge / step)^2) for edges in units of an encoded row: ||z|| step <= edge, exactly.

    Raises
    ------
    MechanismError : the edges are not finite, not ascending, or below 0.

    """
    if not all(0 <= edge < math.inf for edge in edges):
        raise MechanismError("The edges of norms must be finite and at least 0.")
    if any(low >= high for low, high in itertools.pairwise(edges)):
        raise MechanismError("The edges of norms must ascend.")
    step = Fraction(lattice.step)
    above_all = lattice.bound + 1
    limits = [min(above_all, math.floor((Fraction(edge) / step) ** 2)) for edge in edges]
    return np.array(limits, np.float64)


# Of NumPy, by which sums multiply. To look for it takes as long as the sums of a thousand rows.
BLAS = ThreadpoolController().select(user_api="blas")
Total = TypeVar("Total", covariant=True)
MOST_DECODED = 2**31  # bytes of the parts that are decoded at the same time
LIMB_BITS = 32  # of the lower of two limbs of a count
SHARES = 8  # of a part for each thread, since some columns take longer
SMALL_PART = 2**24  # cells of a part that a thread may have for itself: 64 MiB


class Sum(Protocol[Total]):
    """An exact sum over rows, whatever their order; (d, m) blocks of rows are added.

    `packed` integers of several sums, added one by one, are taken by `add_packed`.
    """

    def add(self, block: Matrix) -> None: ...

    def merge(self, other: Self) -> None: ...

    def packed(self) -> Integers: ...

    def add_packed(self, integers: Integers) -> None: ...

    def total(self) -> Total: ...


class WithCount(Generic[Total]):
    """A sum, and what it is over: the number of rows, or of rows with weights the sum of t^2."""

    __slots__ = ("_inner", "_rows", "_weighted")

    def __init__(self, empty: Callable[[], Sum[Total]], *, weighted: bool) -> None:
        self._inner = empty()
        self._weighted = weighted
        self._rows = 0

    def add(self, block: Matrix) -> None:
        """Add the rows of a (d, m) block; of at most 2^12 rows t^2 are exact in float64."""
        self._rows += int(block[-1] @ block[-1]) if self._weighted else block.shape[1]
        self._inner.add(block)

    def merge(self, other: WithCount[Total]) -> None:
        """Add another's to this one."""
        self._rows += other._rows
        self._inner.merge(other._inner)

    def packed(self) -> Integers:
        """Limbs of the number, and the packed sum, to be added to those of up to 2^30 others."""
        limbs = np.array([self._rows >> LIMB_BITS, self._rows % 2**LIMB_BITS], np.int64)
        return np.concatenate([limbs, self._inner.packed()])

    def add_packed(self, integers: Integers) -> None:
        """Add a sum of `packed` integers to this one."""
        self._rows += (int(integers[0]) << LIMB_BITS) + int(integers[1])
        self._inner.add_packed(integers[2:])

    def total(self) -> tuple[Total, int]:
        """The sum, and the number."""
        return self._inner.total(), self._rows


@dataclass(frozen=True, slots=True)
class Worker(Generic[Total]):
    """What one thread has for itself: the sums of the groups, and arrays to work in."""

    sums: list[Sum[Total]]
    scratch: Scratch


class Folder(Generic[Total]):
    """Adds batches of rows to the sums of their groups, by `threads` threads.

    Parameters
    ----------
    encoder : turns batches into blocks of integer rows.
    empty : makes a sum of nothing.
    groups : number of groups; a row's is its label, -1 for none.
    threads : each has its own sums.

    """

    def __init__(
        self, encoder: Encoder, empty: Callable[[], Sum[Total]], groups: int, threads: int
    ) -> None:
        self._encoder = encoder
        self._threads = threads
        self._idle = [Worker([empty() for _ in range(groups)], Scratch()) for _ in range(threads)]
        self._sums = [worker.sums for worker in self._idle]

    @contextmanager
    def adding(self) -> Iterator[Callable[[pa.RecordBatch, Integers | None], None]]:
        """Adds batches, with labels of their rows, that are read here; the threads encode and add.

        All rows without labels fall in the only group.
        """
        if self._threads == 1:
            yield self._add
            return
        with ThreadPoolExecutor(self._threads) as pool:
            waiting: deque[Future[None]] = deque()

            def add(batch: pa.RecordBatch, labels: Integers | None) -> None:
                waiting.append(pool.submit(self._add, batch, labels))
                if len(waiting) > self._threads:
                    waiting.popleft().result()

            yield add
            for future in waiting:
                future.result()

    def together(self, parts: Sequence[RowGroup]) -> int:
        """Read, encode and add `whole` parts; returns the rows read.

        Of small ones, each thread takes one after the other; all threads share the large ones, and
        what small ones are left over. All rows fall in the only group.
        """
        rows, columns = max((part.rows for part in parts), default=0), self._encoder.columns
        small = self._threads > 1 and rows * len(columns.names) <= SMALL_PART
        alone = len(parts) - len(parts) % self._threads if small else 0
        rooms = [columns.allocate(rows) for _ in range(self._threads if alone else 1)]

        with stoppable(self._threads) as pool:

            def read(part: RowGroup, threads: int = 1) -> None:
                room = rooms.pop()
                self._read(part, room.part(slice(0, part.rows)), pool, threads)
                rooms.append(room)

            deque(pool.map(read, parts[:alone]), 0)
            for part in parts[alone:]:
                read(part, self._threads)
        return sum(part.rows for part in parts)

    def _read(
        self, part: RowGroup, encoded: Encoded, pool: ThreadPoolExecutor, threads: int
    ) -> None:
        """First the part's columns are shared out among so many threads, then its rows."""
        encoder = self._encoder

        def put(names: list[str]) -> None:
            part.each(names, lambda name, values: encoder.columns.put(name, values, encoded))

        def add(slices: list[slice]) -> None:
            worker = self._idle.pop()
            for rows in slices:
                worker.sums[0].add(encoder.block(encoded.part(rows), worker.scratch))
            self._idle.append(worker)

        run: Callable[..., Iterator[None]] = map if threads == 1 else pool.map
        tasks = 1 if threads == 1 else SHARES * threads
        slices = encoder.block_slices(part.rows, threads)
        for job, pieces in ((put, encoder.columns.names), (add, slices)):
            deque(run(job, [pieces[at::tasks] for at in range(tasks)]), 0)

    def apart(self, parts: Sequence[RowGroup]) -> int:
        """Each thread streams, encodes and adds one part after the other; returns the rows read.

        All rows fall in the only group.
        """
        stopped = threading.Event()

        def work(part: RowGroup) -> int:
            rows = 0
            for batch in part.batches():
                if stopped.is_set():
                    break
                self._add(batch, None)
                rows += batch.num_rows
            return rows

        with stoppable(self._threads, stopped) as pool:
            return sum(pool.map(work, parts))

    def totals(self) -> list[Sum[Total]]:
        """The sum of each group, over all threads."""
        first = self._sums[0]
        while len(self._sums) > 1:
            for mine, theirs in zip(first, self._sums.pop(), strict=True):
                mine.merge(theirs)
        return first

    def _add(self, batch: pa.RecordBatch, labels: Integers | None) -> None:
        worker, encoded = self._idle.pop(), self._encoder.columns.encode(batch)
        for rows in self._encoder.block_slices(batch.num_rows, 1):
            block = self._encoder.block(encoded.part(rows), worker.scratch)
            if labels is None:
                worker.sums[0].add(block)
            else:
                add_grouped(worker.sums, block, labels[rows])
        self._idle.append(worker)


@contextmanager
def stoppable(threads: int, stopped: threading.Event | None = None) -> Iterator[ThreadPoolExecutor]:
    """Threads that begin nothing more after an error or an interrupt; `stopped` is set then."""
    with ThreadPoolExecutor(threads) as pool:
        try:
            yield pool
        except BaseException:
            if stopped is not None:
                stopped.set()
            pool.shutdown(cancel_futures=True)
            raise


def add_grouped(sums: Sequence[Sum[Total]], block: Matrix, labels: Integers) -> None:
    """Add each row of a block to the sum of its group."""
    if len(sums) == 1:
        sums[0].add(block)
        return
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(len(sums) + 1))
    for group in np.flatnonzero(np.diff(starts)).tolist():
        sums[group].add(block.take(order[starts[group] : starts[group + 1]], axis=1))


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fit_together(parts: Sequence[RowGroup], threads: int) -> bool:
    """Whether the threads can share the parts: none is streamed, or several are small enough."""
    streamed = [part.size for part in parts if not part.whole]
    fits = min(threads, len(streamed)) * max(streamed, default=0) <= MOST_DECODED
    return fits and (not streamed or min(threads, len(parts)) > 1)
