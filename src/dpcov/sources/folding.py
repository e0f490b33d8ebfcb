"""Sums over rows, by several threads; every sum is exact, so that their order changes nothing."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.sources.base import Part

Total = TypeVar("Total", covariant=True)
Labelled = tuple[pa.RecordBatch, "NDArray[np.int64] | None"]
MOST_DECODED = 2**31  # bytes of the parts that are decoded at the same time


class Sum(Protocol[Total]):
    """An exact sum over rows, whatever their order; (d, m) blocks of rows are added.

    `packed` integers of several sums, added one by one, are taken by `add_packed`.
    """

    def add(self, block: NDArray[np.float64]) -> None: ...

    def merge(self, other: Self) -> None: ...

    def packed(self) -> NDArray[np.int64]: ...

    def add_packed(self, integers: NDArray[np.int64]) -> None: ...

    def total(self) -> Total: ...


class Blocks(Protocol):
    """Turns a batch into (d, m) blocks of integer rows, in order."""

    def blocks(self, batch: pa.RecordBatch) -> Iterator[NDArray[np.float64]]: ...


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
        self, encoder: Blocks, empty: Callable[[], Sum[Total]], groups: int, threads: int
    ) -> None:
        self._encoder = encoder
        self._threads = threads
        self._idle = [[empty() for _ in range(groups)] for _ in range(threads)]
        self._sums = list(self._idle)

    def in_order(self, batches: Iterator[Labelled]) -> None:
        """Read here, batch after batch; the threads encode and add."""
        if self._threads == 1:
            for batch, labels in batches:
                self._add(batch, labels)
            return
        with ThreadPoolExecutor(self._threads) as pool:
            waiting: deque[Future[None]] = deque()
            for batch, labels in batches:
                waiting.append(pool.submit(self._add, batch, labels))
                if len(waiting) > self._threads:
                    waiting.popleft().result()
            for future in waiting:
                future.result()

    def apart(self, parts: Sequence[Part], tell: Callable[[int, int], None]) -> int:
        """Each thread reads, encodes and adds one part after the other; returns the rows read.

        All rows fall in the only group. `tell` hears, here, how many of how many parts are done.
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

        rows = 0
        with ThreadPoolExecutor(self._threads) as pool:
            try:
                futures = [pool.submit(work, part) for part in parts]
                for done, future in enumerate(futures, 1):
                    rows += future.result()
                    tell(done, len(parts))
            except BaseException:  # an interrupt too: the parts that wait are not begun
                stopped.set()
                pool.shutdown(cancel_futures=True)
                raise
        return rows

    def totals(self) -> list[Sum[Total]]:
        """The sum of each group, over all threads."""
        first, *others = self._sums
        for other in others:
            for mine, theirs in zip(first, other, strict=True):
                mine.merge(theirs)
        return first

    def _add(self, batch: pa.RecordBatch, labels: NDArray[np.int64] | None) -> None:
        own = self._idle.pop()
        at = 0
        for block in self._encoder.blocks(batch):
            size = block.shape[1]
            _add(own, block, None if labels is None else labels[at : at + size])
            at += size
        self._idle.append(own)


def _add(
    sums: list[Sum[Total]], block: NDArray[np.float64], labels: NDArray[np.int64] | None
) -> None:
    if labels is None:
        sums[0].add(block)
        return
    order = np.argsort(labels, kind="stable")
    ordered = block[:, order]
    starts = np.searchsorted(labels[order], np.arange(len(sums) + 1))
    for group in np.flatnonzero(np.diff(starts)).tolist():
        sums[group].add(ordered[:, starts[group] : starts[group + 1]])


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fit_together(parts: Sequence[Part], threads: int) -> bool:
    """Whether several threads can each hold a part: there are some, and they are small enough."""
    largest = max((part.size for part in parts), default=0)
    return len(parts) > 1 and min(threads, len(parts)) * largest <= MOST_DECODED
