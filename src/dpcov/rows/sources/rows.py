"""Access to the rows of a data set: only this code reads rows, and it returns sums over rows."""

from __future__ import annotations

import itertools
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
from threadpoolctl import ThreadpoolController

from dpcov.core.printable import listed
from dpcov.errors import MechanismError, SourceError
from dpcov.rows.cells import matches_none
from dpcov.rows.encoder import Encoder, Scratch
from dpcov.rows.moment import Accumulator, Lattice, LinearMap, SecondMoment, exact_squared_norms
from dpcov.rows.schema import SPELLING_KEYS, Categorical, Numeric
from dpcov.rows.sources.base import fits, kind_of, rows_given, unwrapped
from dpcov.rows.sources.hashes import HashedSum, counted
from dpcov.rows.sources.ids import refuse_unfit
from dpcov.rows.sources.kept import Kept, copied
from dpcov.rows.sources.quiet import leave_no_core, quiet
from dpcov.rows.sources.threads import Task, Threads

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers, Matrix
    from dpcov.core.entropy import Entropy
    from dpcov.rows.encoder import Encoded, Encoder
    from dpcov.rows.moment import Lattice
    from dpcov.rows.schema import Cells, Kind, Schema
    from dpcov.rows.sources.arrow import RowGroup
    from dpcov.rows.sources.base import Source

UNREADABLE_DATA = (
    "dpcov could not read the data to the end. Check the file, the disk and the column "
    "types; with a ledger, the reserved budget stays spent."
)


UNCOUNTABLE_MESSAGE = (
    "Under replace-one the number of rows is public, but in a text file with quoted cells "
    "or in a workbook one record can change it. State the number if you know it from "
    "another source ({}), or {}."
)


@dataclass(frozen=True, slots=True, repr=False)  # a repr would print the data
class IntegerRows:
    """Integer rows in memory.

    The content is private: dpcov publishes it only with noise.

    Attributes
    ----------
    rows : ndarray of float64, shape (p, n)
        Integers in units of the clipping radius * 2^-40. Each column has a norm of at most about
        2^40 and depends on one table row alone.

    owners : ndarray of int64, shape (n,)
        Number of the privacy unit of each row, from 0.

    unit_count : int
        Number of privacy units. A unit can have no row that counts.

    roots : ndarray of float, shape (n,), or None
        Factor of each row and its intercept (the square root of its weight); None without weights.

    """

    rows: Matrix
    owners: Integers
    unit_count: int
    roots: Matrix | None = None


IN_MEMORY_MESSAGE = (
    "This mechanism needs all rows in memory, but the table of a cluster might be too "
    "large. Choose another mechanism, or use a local table."
)


def _refuse_spelling(schema: Schema, source: Source) -> None:
    """Raise `SourceError` if a declared spelling could change the value of a number.

    Some data sources write the number 1.125 as a text, which also means 1125 if the point groups
    digits. A column of SQLite with the type REAL can hold texts, which its reader parses.
    """
    for name, column in schema.read_columns.items():
        own = [key for key in SPELLING_KEYS if getattr(column, key, None)]
        groups = source.writes_numbers and getattr(column, "thousands", None) == "."
        is_text = not pa.types.is_floating(source.types[name])
        if own and ((groups and is_text) or (source.loses_texts and not is_text)):
            raise SourceError(
                f"The column {name!r} declares {' and '.join(own)}, but a table of the kind "
                f"{source.kind} can mix numbers and texts in this column. Convert the column to "
                f"numbers, and remove {' and '.join(own)}."
            )


def _plain_texts(schema: Schema, source: Source) -> tuple[str, ...]:
    """Return the numbers and flags whose type is text and that declare no spelling."""
    kinds = source.kinds()
    return tuple(
        name
        for name, column in schema.read_columns.items()
        if isinstance(column, Numeric)
        and column.reading in ("number", "whole", "flag")
        and kinds[name] == "categorical"
        and not pa.types.is_null(source.types[name])
        and not any(getattr(column, key, None) for key in SPELLING_KEYS)
    )


def _absent(names: Sequence[str], source: Source) -> str:
    """Describe declared columns that a table lacks; the message contains no name of the table."""
    one, named = len(names) == 1, listed([*map(repr, names)])
    text = (
        f"The data has no column{'s' * (not one)} {named}, but the schema declares "
        f"{'it' if one else 'them'}."
    )
    own = {*map(_letters, source.names)}
    if alike := [name for name in names if _letters(name) in own]:
        return (
            f"{text} A name in the data differs from {alike[0]!r} only in capitals, blanks or "
            f"punctuation. Write the name in the schema as in the data.{source.advice}"
        )
    return (
        f"{text} Compare the schema with the column names of the data (dpcov does not print them, "
        f"because a file without a header starts with a person's data).{source.advice}"
    )


def _letters(name: str) -> str:
    """Return the letters and digits of a name in lower case."""
    return "".join(filter(str.isalnum, name.casefold()))


def _unfit(name: str, declared: Numeric | Categorical | Cells, written: str, kind: Kind) -> str:
    """Describe a column whose declared kind does not fit its type."""
    fitting = {
        "date": "'date' or 'time' (from version 2 of schemas on)",
        "time": "'date' or 'time' (from version 2 of schemas on)",
        "flag": "'flag' or 'categorical'",
        "integer": "'integer', 'count' or 'categorical'",
        "number": "'number' or 'categorical'",
    }
    if kind not in fitting:
        return (
            f"The column {name!r} has the type {written}, so it cannot be a feature. Convert the "
            "column, or declare it with kind = 'ignored'."
        )
    used = declared if isinstance(declared, str) else declared.kind
    return (
        f"The column {name!r} has the type {written}, but the schema uses it as {used!r}. Declare "
        f"it with kind = {fitting[kind]}, or 'ignored', or convert the column."
    )


class Rows:
    """Rows of a data set with a schema; the class returns only exact integer sums over rows.

    The results of all methods are private. Only mechanisms use them, and mechanisms add noise.

    Parameters
    ----------
    schema : Schema
        Declared columns.
    source : Source
        Table.
    threads : int, optional
        Number of threads; by default the number of available cores.

    Attributes
    ----------
    schema : Schema
        Declared columns.

    kind : str
        Kind of the table in one word.

    where : tuple of str
        Conditions that the rows meet, in normalized spelling.

    caveat : str
        What the guarantee does not cover because of the data source.

    countable : bool
        True if no cell can change the number of rows.

    public_rows : int or None
        Number of rows under replace-one, if it is known before any cell is read.

    rereadable : bool
        True if a mechanism can ask several queries.

    has_rows : bool
        True if `integer_rows` is available.

    plain_texts : tuple of str
        Numbers and flags that the table declares as texts, without a spelling in the schema. Texts
        other than plain numbers, true and false are then missing.

    Raises
    ------
    SourceError
        The columns of the table do not fit the schema.

    """

    rereadable = True
    has_rows = True
    plain_texts: tuple[str, ...] = ()
    public_rows: int | None = None
    where: tuple[str, ...] = ()

    def __init__(self, schema: Schema, source: Source, *, threads: int | None = None) -> None:
        absent = [name for name in schema.needed if name not in source.names]
        if absent:
            raise SourceError(_absent(absent, source))
        twice = [name for name in schema.needed if source.names.count(name) > 1]
        if twice:
            raise SourceError(
                f"The data has more than one column {twice[0]!r}. Rename one of them."
            )
        weight: dict[str, Cells] = {schema.weight.column: "number"} if schema.weight else {}
        for name, declared in {**schema.read_columns, **weight}.items():
            if not fits(source.types[name], declared):
                kind = source.unfit.get(name, str(source.types[name]))
                raise SourceError(_unfit(name, declared, kind, kind_of(source.types[name])))
            if isinstance(declared, Categorical) and matches_none(source.types[name], declared):
                raise SourceError(
                    f"The column {name!r} has the type {source.types[name]}, but none of its "
                    "levels is a value of this type. Declare the levels as the table stores them, "
                    "such as 1 and 2, or convert the column to texts."
                )
        _refuse_spelling(schema, source)
        self.plain_texts = _plain_texts(schema, source)
        if schema.unit is not None:
            name = schema.unit.column
            refuse_unfit(name, unwrapped(source.types[name]), schema.unit.type, source.unfit_ids)
        leave_no_core()
        self.schema = schema
        self.kind = source.kind
        self.caveat = source.caveat
        self.countable = source.rows_are_lines
        # With weights or persons, the number of rows is not the public number.
        weighed = schema.unit is not None or schema.weight is not None
        self.public_rows = None if weighed else source.row_count
        self._how_to_count = source.how_to_count
        self._source = copied(source, schema)
        self._total: int | None = None
        self._threads = threads or available_cores()

    @property
    def missing_columns(self) -> dict[int, int]:
        """Positions of features with the rule ``pairwise`` and of their indicators."""
        return self.schema.missing_columns

    def lattice(self, *, radius: float | None = None, features: int | None = None) -> Lattice:
        """Return the public lattice of a query, which determines the sensitivities.

        Parameters
        ----------
        radius : float, optional
            Clipping radius; by default the radius of the schema.
        features : int, optional
            Number of outputs of a linear map.

        Returns
        -------
        Lattice

        """
        return Lattice.of(self.schema, radius=radius, features=features)

    def require_rereadable(self) -> None:
        """Copy a table that dpcov cannot read again, or can read again only slowly."""
        if self._source.costly or not self._source.repeatable:
            self._source = Kept(self._source, self.schema)

    @quiet(UNREADABLE_DATA)
    def read(self) -> None:
        """Fill the private copy, before the first query and after the budget is reserved."""
        if isinstance(self._source, Kept):
            self._source.fill()

    def close(self) -> None:
        """Close the table: a database file or a connection."""
        self._source.close()

    def require_countable(self) -> None:
        """Raise `SourceError` if a cell could change the public number of rows."""
        if not self.countable:
            raise SourceError(UNCOUNTABLE_MESSAGE.format(rows_given(), self._how_to_count))

    @quiet(UNREADABLE_DATA)
    def second_moments(
        self,
        *,
        radius: float | None = None,
        transform: LinearMap | None = None,
        groups: int = 1,
        labels: Entropy | None = None,
        lattice: Lattice | None = None,
    ) -> list[SecondMoment]:
        """Compute the exact second moments of the clipped rows, one per group.

        Parameters
        ----------
        radius : float, optional
            Public clipping radius of an encoded and transformed row; by default the radius of the
            schema.

        transform : LinearMap, optional
            Public linear map that is applied before clipping.

        groups : int
            Number of groups. Each privacy unit is in one group, uniformly and independently.

        labels : Entropy, optional
            Fresh secret randomness for the groups; required if `groups` > 1.

        lattice : Lattice, optional
            Public lattice of the query; by default the lattice of the radius.

        Returns
        -------
        list of SecondMoment, length groups
            The result is private: only a mechanism uses it, together with noise.

        """
        if groups > 1 and labels is None:
            raise MechanismError("Groups need fresh secret randomness. Pass labels.")
        features = None if transform is None else len(transform.integers)
        lattice = lattice or self.lattice(radius=radius, features=features)
        encoder = Encoder(self.schema, lattice, transform)
        empty = partial(Accumulator, lattice.dimension, lattice.intercept_parts[0])
        counting = self._counting(encoder, empty)
        sums = self._noted(encoder, self._sums(encoder, counting, groups, labels))
        return [SecondMoment(total, lattice, count) for total, count in sums]

    @quiet(UNREADABLE_DATA)
    def hashed_moment(self) -> tuple[SecondMoment, str]:
        """Compute the second moment and a hash of the multiset of integer rows.

        Returns
        -------
        moment : SecondMoment
            Second moment, without noise.
        hash : str
            Private hash in hexadecimal digits.

        """
        lattice = self.lattice()
        empty = partial(HashedSum, lattice.dimension, lattice.intercept_parts[0])
        sums = self._sums(Encoder(self.schema, lattice), empty)
        ((units, image), count) = sums[0]
        return SecondMoment(units, lattice, count), image

    @quiet(UNREADABLE_DATA)
    def norm_counts(
        self,
        edges: Sequence[float | Fraction] | Matrix,
        *,
        radius: float | None = None,
        transform: LinearMap | None = None,
    ) -> Integers:
        """Count the rows by their norm, in bins between the given edges.

        The function counts the clipped integer rows of `second_moments`, without the intercept. If
        the privacy unit is a person, only the rows that count are included.

        Parameters
        ----------
        edges : sequence of float or Fraction, length m
            Public upper ends of the bins in ascending order, as norms of an encoded and transformed
            row.

        radius : float, optional
            Public clipping radius; by default the radius of the schema.

        transform : LinearMap, optional
            Public linear map that is applied before clipping.

        Returns
        -------
        ndarray of int64, shape (m + 1,)
            Number of rows per bin, without noise. Bin i has edges[i-1] < norm <= edges[i]; the last
            bin is above edges[-1]. Adding or removing one privacy unit changes the counts by at
            most k = `unit.max_rows` in the l1 norm. Replacing one unit changes the counts by at
            most 2 k.

        """
        features = None if transform is None else len(transform.integers)
        lattice = self.lattice(radius=radius, features=features)
        limits = squared_limits(edges, lattice)
        encoder = Encoder(self.schema, lattice, transform)
        counting = self._counting(encoder, partial(NormCounter, limits, lattice.features))
        return self._noted(encoder, self._sums(encoder, counting))[0][0]

    def total(self) -> int:
        """Return the number of rows, or the sum of their weights over the largest weight.

        The number is known after any query; otherwise the function reads the data.

        Returns
        -------
        int
            Number in units of 1 / `units_per_row`, without noise. Adding or removing one privacy
            unit changes the number by at most k times `units_per_row`.

        """
        if self._total is None:
            self.norm_counts(())
        return self._total or 0

    def _weighs(self, encoder: Encoder) -> bool:
        """Return True if the intercepts of the rows contain their weights."""
        return self.schema.weight is not None and encoder.intercept > 0

    def _counting(
        self, encoder: Encoder, empty: Callable[[], Sum[Total]]
    ) -> Callable[[], WithCount[Total]]:
        """Return a function that makes empty sums which also count their rows."""
        return partial(WithCount, empty, weighted=self._weighs(encoder))

    def _noted(
        self, encoder: Encoder, sums: Sequence[tuple[tuple[Total, int], int]]
    ) -> list[tuple[Total, int]]:
        """Store the number of rows and return the sums without it.

        With weights, the number is stored only if the intercept is the intercept of the schema.
        """
        if not self._weighs(encoder) or encoder.intercept == self.lattice().intercept_parts[1]:
            self._total = sum(rows for (_, rows), _ in sums)
        return [(found, count) for (found, _), count in sums]

    @quiet(UNREADABLE_DATA)
    def integer_rows(self) -> IntegerRows:
        """Return all rows in memory, with 8 (p + 1) bytes per row.

        The norms are not certified. Only mechanisms that compare each unit with all others use this
        function; their proofs need no bound on a row.

        Returns
        -------
        IntegerRows
            The result is private: only a mechanism uses it, together with noise.

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
        """Yield batches of the rows that count, the unit of each row, and the number of units."""
        unit = self.schema.unit
        if unit is None or unit.aggregate is not None or not isinstance(self._source, Kept):
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
        """Return the sum over the rows of each group, and its number of privacy units."""
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
        """Return parts of the source that threads can read at the same time, if there are any."""
        parts = self._source.parts(self.schema.needed)
        return parts if fit_together(parts, self._threads) else ()


class Assignment:
    """Random assignment of privacy units to groups, in reading order.

    Parameters
    ----------
    groups : int
        Number of groups.
    labels : Entropy or None
        Secret randomness; None with one group.

    """

    def __init__(self, groups: int, labels: Entropy | None) -> None:
        self.groups = groups
        self._labels = labels
        self._counts = np.zeros(groups, np.int64)

    def next(self, units: Integers, new: int) -> Integers | None:
        """Return the groups of the next rows; None if there is only one group.

        Parameters
        ----------
        units : ndarray of int64, shape (n,)
            Number of the privacy unit of each row, from 0.
        new : int
            Number of privacy units of these rows.

        Returns
        -------
        ndarray of int64, shape (n,), or None

        """
        if self.groups == 1 or self._labels is None:
            self._counts[0] += new
            return None
        # One random word per unit, so the result does not depend on batches. The remainders are
        # uniform up to 2^-64 groups. Privacy requires only secrecy and independence of the data.
        remainders = self._labels.words(new) % np.uint64(self.groups)
        drawn = remainders.astype(np.int64)
        self._counts += np.bincount(drawn, minlength=self.groups)
        return drawn[units]

    def unit_counts(self) -> list[int]:
        """Return the number of privacy units in each group."""
        return [int(count) for count in self._counts]


# Sums over rows with several threads. Every sum is exact, so the order does not matter.


class NormCounter:
    """Counter of integer rows z by their squared norm.

    ||z||^2 is below 2^53, so float64 represents every partial sum of squares exactly. The bins
    therefore depend neither on the order of summation nor on the blocks.

    Parameters
    ----------
    limits : ndarray of float64, shape (m,)
        Upper ends of the bins in ascending order, as squared norms.
    features : int
        Number of features, without the intercept.

    """

    __slots__ = ("_counts", "_features", "_limits")

    def __init__(self, limits: Matrix, features: int) -> None:
        self._limits = limits
        self._features = features
        self._counts: Integers = np.zeros(len(limits) + 1, np.int64)

    def add(self, block: Matrix) -> None:
        """Count the rows of an integer block of shape (d, m)."""
        norms = exact_squared_norms(block[: self._features])
        bins = np.searchsorted(self._limits, norms, side="left")
        self._counts += np.bincount(bins, minlength=len(self._counts))

    def merge(self, other: NormCounter) -> None:
        """Add the counts of another counter."""
        self._counts += other._counts

    def packed(self) -> Integers:
        """Return the counts as integers that can be added, shape (m + 1,)."""
        return self._counts

    def add_packed(self, counts: Integers) -> None:
        """Add a sum of `packed` counts."""
        self._counts += counts

    def total(self) -> Integers:
        """Return the counts, shape (m + 1,); bin i has limits[i-1] < ||z||^2 <= limits[i]."""
        return self._counts


def squared_limits(edges: Sequence[float | Fraction] | Matrix, lattice: Lattice) -> Matrix:
    """Convert edges to exact squared limits: floor((edge / step)^2).

    Parameters
    ----------
    edges : sequence of float or Fraction, length m
        Norms of an encoded row, in ascending order.
    lattice : Lattice
        Lattice of the rows.

    Returns
    -------
    ndarray of float64, shape (m,)
        Squared norms in lattice steps.

    Raises
    ------
    MechanismError
        The edges are not finite, not ascending, or negative.

    """
    if not all(0 <= edge < math.inf for edge in edges):
        raise MechanismError("The edges of norms must be finite and at least 0. Correct the edges.")
    if any(low >= high for low, high in itertools.pairwise(edges)):
        raise MechanismError("The edges of norms must be in ascending order. Sort the edges.")
    step = Fraction(lattice.step)
    above_all = lattice.bound + 1
    limits = [min(above_all, math.floor((Fraction(edge) / step) ** 2)) for edge in edges]
    return np.array(limits, np.float64)


# Controller of NumPy's BLAS. It is created once, because this takes as long as summing 1000 rows.
BLAS = ThreadpoolController().select(user_api="blas")
Total = TypeVar("Total", covariant=True)
MAX_DECODED_BYTES = 2**31  # Maximum bytes of the parts that are decoded at the same time.
COUNT_LIMB_BITS = 32  # Number of bits of the lower limb of a count.
TASKS_PER_THREAD = 8  # Number of tasks per thread and part, because some columns take longer.
SMALL_PART_CELLS = 2**24  # Maximum number of cells of a part for a single thread: 64 MiB.


class Sum(Protocol[Total]):
    """Exact sum over rows in any order, to which blocks of rows are added.

    The `packed` integers of several sums can be added one by one and passed to `add_packed`.
    """

    def add(self, block: Matrix) -> None:
        """Add the rows of an integer block of shape (d, m)."""

    def merge(self, other: Self) -> None:
        """Add another sum."""

    def packed(self) -> Integers:
        """Return integers that can be added to the integers of other sums."""

    def add_packed(self, integers: Integers) -> None:
        """Add a sum of `packed` integers."""

    def total(self) -> Total:
        """Return the sum."""


class WithCount(Generic[Total]):
    """Sum together with the number of its rows; with weights, together with the sum of t^2.

    Parameters
    ----------
    empty : callable
        Function that makes an empty sum.
    weighted : bool
        True if rows have weights.

    """

    __slots__ = ("_inner", "_rows", "_weighted")

    def __init__(self, empty: Callable[[], Sum[Total]], *, weighted: bool) -> None:
        self._inner = empty()
        self._weighted = weighted
        self._rows = 0

    def add(self, block: Matrix) -> None:
        """Add the rows of an integer block of shape (d, m).

        The sum of t^2 over at most 2^12 rows is exact in float64.
        """
        self._rows += int(block[-1] @ block[-1]) if self._weighted else block.shape[1]
        self._inner.add(block)

    def merge(self, other: WithCount[Total]) -> None:
        """Add another sum and its number of rows."""
        self._rows += other._rows
        self._inner.merge(other._inner)

    def packed(self) -> Integers:
        """Return the limbs of the number, and the packed sum.

        Up to 2^30 such arrays can be added.
        """
        limbs = np.array([self._rows >> COUNT_LIMB_BITS, self._rows % 2**COUNT_LIMB_BITS], np.int64)
        return np.concatenate([limbs, self._inner.packed()])

    def add_packed(self, integers: Integers) -> None:
        """Add a sum of `packed` integers."""
        self._rows += (int(integers[0]) << COUNT_LIMB_BITS) + int(integers[1])
        self._inner.add_packed(integers[2:])

    def total(self) -> tuple[Total, int]:
        """Return the sum and the number of rows."""
        return self._inner.total(), self._rows


@dataclass(frozen=True, slots=True)
class Worker(Generic[Total]):
    """Sums and memory of one thread.

    Attributes
    ----------
    sums : list of Sum, length groups
        Sum of each group.
    scratch : Scratch
        Memory.

    """

    sums: list[Sum[Total]]
    scratch: Scratch


class Folder(Generic[Total]):
    """Adder of batches of rows to the sums of their groups, with several threads.

    Parameters
    ----------
    encoder : Encoder
        Encoder of the rows.

    empty : callable
        Function that makes an empty sum.

    groups : int
        Number of groups.

    threads : int
        Number of threads; each has its own sums.

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
        """Provide a function that adds a batch with the groups of its rows.

        This thread reads the batches, and the other threads encode and add them. Rows without a
        group belong to the only group.
        """
        if self._threads == 1:
            yield self._add
            return
        with Threads(self._threads) as pool:
            waiting: deque[Task[None]] = deque()

            def add(batch: pa.RecordBatch, labels: Integers | None) -> None:
                waiting.append(pool.submit(lambda: self._add(batch, labels)))
                if len(waiting) > self._threads:
                    waiting.popleft().result()

            yield add
            for task in waiting:
                task.result()

    def together(self, parts: Sequence[RowGroup]) -> int:
        """Read, encode and add whole parts, all in one group.

        Each thread reads small parts on its own. All threads share each large part, and the small
        parts that are left over.

        Parameters
        ----------
        parts : sequence of RowGroup
            Parts whose columns are read as a whole.

        Returns
        -------
        int
            Number of rows.

        """
        rows, columns = max((part.rows for part in parts), default=0), self._encoder.columns
        small = self._threads > 1 and rows * len(columns.names) <= SMALL_PART_CELLS
        alone = len(parts) - len(parts) % self._threads if small else 0
        buffers = [columns.allocate(rows) for _ in range(self._threads if alone else 1)]

        with Threads(self._threads) as pool:

            def read(part: RowGroup, threads: int = 1) -> None:
                buffer = buffers.pop()
                self._read(part, buffer.part(slice(0, part.rows)), pool, threads)
                buffers.append(buffer)

            pool.map(read, parts[:alone])
            for part in parts[alone:]:
                read(part, self._threads)
        return sum(part.rows for part in parts)

    def _read(self, part: RowGroup, encoded: Encoded, pool: Threads, threads: int) -> None:
        """Read and add one part: the threads share first its columns, and then its rows."""
        encoder = self._encoder

        def put(names: list[str]) -> None:
            part.each(names, lambda name, values: encoder.columns.put(name, values, encoded))

        def add(slices: list[slice]) -> None:
            worker = self._idle.pop()
            for rows in slices:
                worker.sums[0].add(encoder.block(encoded.part(rows), worker.scratch))
            self._idle.append(worker)

        run: Callable[..., Iterable[None]] = map if threads == 1 else pool.map
        tasks = 1 if threads == 1 else TASKS_PER_THREAD * threads
        slices = encoder.block_slices(part.rows, threads)
        for job, pieces in ((put, encoder.columns.names), (add, slices)):
            deque(run(job, [pieces[at::tasks] for at in range(tasks)]), 0)

    def apart(self, parts: Sequence[RowGroup]) -> int:
        """Stream, encode and add parts, all in one group; each thread reads one part at a time.

        Parameters
        ----------
        parts : sequence of RowGroup
            Parts.

        Returns
        -------
        int
            Number of rows.

        """

        def work(part: RowGroup) -> int:
            rows = 0
            for batch in part.batches():
                if pool.stopped:
                    break
                self._add(batch, None)
                rows += batch.num_rows
            return rows

        with Threads(self._threads) as pool:
            return sum(pool.map(work, parts))

    def totals(self) -> list[Sum[Total]]:
        """Return the sum of each group over all threads."""
        first = self._sums[0]
        while len(self._sums) > 1:
            for mine, theirs in zip(first, self._sums.pop(), strict=True):
                mine.merge(theirs)
        return first

    def _add(self, batch: pa.RecordBatch, labels: Integers | None) -> None:
        """Encode one batch and add its rows."""
        worker, encoded = self._idle.pop(), self._encoder.columns.encode(batch)
        for rows in self._encoder.block_slices(batch.num_rows, 1):
            block = self._encoder.block(encoded.part(rows), worker.scratch)
            if labels is None:
                worker.sums[0].add(block)
            else:
                add_grouped(worker.sums, block, labels[rows])
        self._idle.append(worker)


def add_grouped(sums: Sequence[Sum[Total]], block: Matrix, labels: Integers) -> None:
    """Add each row of a block to the sum of its group.

    Parameters
    ----------
    sums : sequence of Sum, length groups
        Sums.
    block : ndarray of float64, shape (d, m)
        Integer rows.
    labels : ndarray of int64, shape (m,)
        Group of each row.

    """
    if len(sums) == 1:
        sums[0].add(block)
        return
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(len(sums) + 1))
    for group in np.flatnonzero(np.diff(starts)).tolist():
        sums[group].add(block.take(order[starts[group] : starts[group + 1]], axis=1))


def available_cores() -> int:
    """Return the number of cores that this process can use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fit_together(parts: Sequence[RowGroup], threads: int) -> bool:
    """Return True if the threads can share the parts.

    This is possible if no part is streamed, or if several streamed parts fit into memory.
    """
    streamed = [part.size for part in parts if not part.whole]
    fits = min(threads, len(streamed)) * max(streamed, default=0) <= MAX_DECODED_BYTES
    return fits and (not streamed or min(threads, len(parts)) > 1)
