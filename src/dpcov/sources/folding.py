"""Sums over rows, by several threads; every sum is exact, so that their order changes nothing."""

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
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
from threadpoolctl import ThreadpoolController

from dpcov.errors import MechanismError
from dpcov.rows.encoder import Scratch
from dpcov.rows.moment import squared_lengths

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers, Matrix
    from dpcov.rows.encoder import Encoded, Encoder
    from dpcov.rows.moment import Lattice
    from dpcov.sources.base import Part


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
        norms = squared_lengths(block[: self._features])
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

    def together(self, parts: Sequence[Part]) -> int:
        """Read, encode and add `whole` parts; returns the rows read.

        Of small ones, each thread takes one after the other; all threads share the large ones, and
        what small ones are left over. All rows fall in the only group.
        """
        rows, columns = max((part.rows for part in parts), default=0), self._encoder.columns
        small = self._threads > 1 and rows * len(columns.names) <= SMALL_PART
        alone = len(parts) - len(parts) % self._threads if small else 0
        rooms = [columns.room(rows) for _ in range(self._threads if alone else 1)]

        with stoppable(self._threads) as pool:

            def read(part: Part, threads: int = 1) -> None:
                room = rooms.pop()
                self._read(part, room.part(slice(0, part.rows)), pool, threads)
                rooms.append(room)

            deque(pool.map(read, parts[:alone]), 0)
            for part in parts[alone:]:
                read(part, self._threads)
        return sum(part.rows for part in parts)

    def _read(self, part: Part, encoded: Encoded, pool: ThreadPoolExecutor, threads: int) -> None:
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

    def apart(self, parts: Sequence[Part]) -> int:
        """Each thread streams, encodes and adds one part after the other; returns the rows read.

        All rows fall in the only group.
        """
        stopped = threading.Event()

        def work(part: Part) -> int:
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


def fit_together(parts: Sequence[Part], threads: int) -> bool:
    """Whether the threads can share the parts: none is streamed, or several are small enough."""
    streamed = [part.size for part in parts if not part.whole]
    fits = min(threads, len(streamed)) * max(streamed, default=0) <= MOST_DECODED
    return fits and (not streamed or min(threads, len(parts)) > 1)
