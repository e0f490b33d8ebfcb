"""The one door: what the library may learn of a data set, and the only code that sees rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from dpcov.encoder import Encoder
from dpcov.errors import SourceError
from dpcov.linear_map import LinearMap
from dpcov.moment import Accumulator, Lattice, SecondMoment
from dpcov.rungs import RungMoments, RungSum, rungs_of
from dpcov.sources.base import MeasuredSource, PartedSource
from dpcov.sources.cached import cached
from dpcov.sources.folding import Folder, Sum, Total, available_cores, fit_together
from dpcov.sources.norms import NormCounter, squared_limits
from dpcov.sources.persons import Persons
from dpcov.sources.quiet import quiet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.entropy import Entropy
    from dpcov.mechanisms import Mechanism
    from dpcov.schema import Schema
    from dpcov.sources.base import Part, Source
    from dpcov.sources.folding import Labelled

UNREADABLE = (
    "The data could not be read to its end (a damaged file, a lost disk, or a type that does not "
    "fit its column). If a ledger was set, the reserved budget stays spent."
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

    rows: NDArray[np.float64]
    owners: NDArray[np.int64]
    unit_count: int
    roots: NDArray[np.float64] | None = None


class Rows:
    """A data set seen through its schema; answers with exact integer sums over rows only.

    Every answer is SENSITIVE: only a mechanism may hold it.

    Attributes
    ----------
    schema : what the columns may hold.
    progress : called with the share of the file's bytes or row groups that a reading has reached.
    tells_rungs : whether `rung_moments` can be asked for.

    """

    tells_rungs = True

    def __init__(self, schema: Schema, source: Source, *, threads: int | None = None) -> None:
        absent = [name for name in schema.needed if name not in source.names]
        if absent:
            raise SourceError(
                f"The data has no column {absent[0]!r}, which the schema declares. The names that "
                "were found are not shown: in a file without a header they are somebody's row."
            )
        twice = [name for name in schema.needed if source.names.count(name) > 1]
        if twice:
            raise SourceError(f"The data has more than one column {twice[0]!r}.")
        read = [*schema.encoded_columns, *([schema.weight.column] if schema.weight else [])]
        unfit = [name for name in read if name in source.unfit]
        if unfit:
            raise SourceError(
                f"The column {unfit[0]!r} is of the type {source.unfit[unfit[0]]}, neither numbers "
                "nor texts. Convert it, or declare it kind = 'ignored'."
            )
        if schema.unit is not None and not source.rereadable:
            raise SourceError(
                "A schema with a person unit reads the data twice, and this stream can be read "
                "only once. Give a table or a file."
            )
        self.schema = schema
        self._source = source if schema.unit is None else cached(source, schema)
        self._threads = threads or available_cores()
        self.progress: Callable[[float], None] | None = None

    def lattice(self, *, radius: float | None = None, features: int | None = None) -> Lattice:
        """Public shape of a query: what sensitivities depend on."""
        return Lattice.of(self.schema, radius=radius, features=features)

    @property
    def rereadable(self) -> bool:
        """Whether mechanisms may ask more than once."""
        return self._source.rereadable

    def require_rereadable(self) -> None:
        """Refuse, before anything is read, a source that can't be read twice; else expect that."""
        if not self.rereadable:
            raise SourceError(
                "This mechanism reads the data twice, and this stream can be read only once. "
                "Give a table or a file."
            )
        self._source = cached(self._source, self.schema)

    def require_answerable(self, mechanism: Mechanism) -> None:
        """Refuse, before anything is spent, a mechanism that asks for what can't be told here."""

    def second_moments(
        self,
        *,
        radius: float | None = None,
        transform: LinearMap | None = None,
        groups: int = 1,
        labels: Entropy | None = None,
    ) -> list[SecondMoment]:
        """Exact second moments of the clipped rows, one for each group.

        Parameters
        ----------
        radius : public bound on an encoded (and mapped) row; default, the schema's.
        transform : public linear map applied before the clip.
        groups : number of groups; each unit falls in one, uniformly and independently.
        labels : fresh secret randomness for the groups; needed if `groups` > 1.

        Returns
        -------
        list of `groups` moments, SENSITIVE: only a mechanism may hold them.

        """
        if groups > 1 and labels is None:
            raise ValueError("groups need fresh randomness: a unit's group must not be guessable")
        features = None if transform is None else len(transform.integers)
        lattice = self.lattice(radius=radius, features=features)
        encoder = Encoder(self.schema, lattice, transform)
        columns = (
            tuple(feature.name for feature in self.schema.features)
            if features is None
            else tuple(f"y{i}" for i in range(features))
        )
        sums = self._sums(encoder, partial(Accumulator, lattice.dimension), groups, labels)
        return [SecondMoment(total, lattice, columns, count) for total, count in sums]

    def rung_moments(
        self, *, lattice: Lattice | None = None, transform: LinearMap | None = None
    ) -> RungMoments:
        """Second moments by length of rows, on the rungs that the lattice has, and the trace.

        Parameters
        ----------
        lattice : public; default, that of the schema.
        transform : public linear map, of as many features, applied before the clip.

        Returns
        -------
        RungMoments, SENSITIVE: only a mechanism may hold them. What a row adds is at most one outer
        product of directions in all, and the square of its length (docs/proofs/ladder.md 2).

        """
        lattice = self.lattice() if lattice is None else lattice
        rungs = rungs_of(lattice)
        empty = partial(RungSum, rungs, lattice.dimension)
        encoder = Encoder(self.schema, lattice, transform)
        ((units, trace), count) = self._sums(encoder, empty)[0]
        return RungMoments(units, rungs, trace, lattice, count)

    def norm_counts(
        self,
        edges: Sequence[float | Fraction] | NDArray[np.float64],
        *,
        radius: float | None = None,
        transform: LinearMap | None = None,
    ) -> NDArray[np.int64]:
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
        counts = self._sums(encoder, partial(NormCounter, limits, lattice.features))
        return counts[0][0]

    @quiet(UNREADABLE)
    def integer_rows(self) -> IntegerRows:
        """All rows at once, in memory: 8 (p + 1) bytes for each row; no certificate of their norms.

        For mechanisms that judge each unit by all others, whose proof needs no bound on a row.

        Returns
        -------
        IntegerRows, SENSITIVE: only a mechanism may hold them.

        """
        lattice = self.lattice()
        encoder = Encoder(self.schema, lattice)
        with threadpool_limits(1, user_api="blas"):
            persons = None
            if self.schema.unit is not None:
                persons = Persons(self.schema, encoder, self._source.batches(self.schema.needed))
            blocks, owners = [np.empty((lattice.features, 0))], [np.empty(0, np.int64)]
            roots = [np.empty(0)]
            read = 0
            for batch in self._source.batches(self.schema.needed):
                here = np.arange(read, read + batch.num_rows)
                owner = here if persons is None else persons.next(batch)
                read += batch.num_rows
                blocks.append(encoder.fine_rows(batch)[:, owner >= 0])
                owners.append(owner[owner >= 0])
                weights = encoder.root_weights(batch)
                roots.append(np.empty(0) if weights is None else weights[owner >= 0])
            if persons is not None:
                persons.finish()
            count = read if persons is None else persons.count
            return IntegerRows(
                np.concatenate(blocks, axis=1),
                np.concatenate(owners),
                count,
                None if self.schema.weight is None else np.concatenate(roots),
            )

    @quiet(UNREADABLE)
    def _sums(
        self,
        encoder: Encoder,
        empty: Callable[[], Sum[Total]],
        groups: int = 1,
        labels: Entropy | None = None,
    ) -> list[tuple[Total, int]]:
        """Sum over each group's rows, with its number of units."""
        with threadpool_limits(1, user_api="blas"):
            persons = None
            if self.schema.unit is not None:
                persons = Persons(self.schema, encoder, self._source.batches(self.schema.needed))
            assigned = Assignment(groups, labels, persons)
            folder = Folder(encoder, empty, groups, self._threads)
            parts = [] if persons is not None or groups > 1 else self._parts()
            if parts:
                tell = self._teller(len(parts))
                whole = [part for part in parts if part.whole]
                streamed = [part for part in parts if not part.whole]
                counts = [folder.together(encoder, whole, tell) + folder.apart(streamed, tell)]
            else:
                folder.in_order(self._labelled(assigned))
                counts = assigned.unit_counts()
            sums = folder.totals()
            return [(found.total(), count) for found, count in zip(sums, counts, strict=True)]

    def _parts(self) -> Sequence[Part]:
        """Parts of the source that the threads can share, if there are such."""
        if not isinstance(self._source, PartedSource):
            return ()
        parts = self._source.parts(self.schema.needed)
        return parts if fit_together(parts, self._threads) else ()

    def _labelled(self, assigned: Assignment) -> Iterator[Labelled]:
        for batch in self._source.batches(self.schema.needed):
            yield batch, assigned.next(batch)
            if self.progress is not None and isinstance(self._source, MeasuredSource):
                self.progress(self._source.share)
        assigned.finish()

    def _teller(self, parts: int) -> Callable[[], None]:
        """Tells the progress each time that it is called, after a part."""
        done = itertools.count(1)

        def tell() -> None:
            if self.progress is not None:
                self.progress(next(done) / parts)

        return tell


class Assignment:
    """Which group each row falls in, -1 for a row that does not count; in reading order."""

    def __init__(self, groups: int, labels: Entropy | None, persons: Persons | None) -> None:
        self.groups = groups
        self._labels = labels
        self._persons = persons
        self._counts = np.zeros(groups, np.int64)
        if persons is not None and groups == 1:
            self._counts[0] = persons.count
        elif persons is not None:
            # One entry more than the persons: where rows that do not count look.
            self._of_person = np.append(self._draw(persons.count), -1)
            self._counts = np.bincount(self._of_person[:-1], minlength=groups)

    def _draw(self, count: int) -> NDArray[np.int64]:
        if self.groups == 1 or self._labels is None:
            return np.zeros(count, np.int64)
        # One word for each unit, so that batches don't matter. Their remainders are uniform within
        # 2^-64 groups; privacy asks only that they are independent of the data, and secret.
        remainders = self._labels.words(count) % np.uint64(self.groups)
        return remainders.astype(np.int64)

    def next(self, batch: pa.RecordBatch) -> NDArray[np.int64] | None:
        """Groups of the next batch's rows, or None if all fall in the only group."""
        if self._persons is not None:
            persons = self._persons.next(batch)
            return np.minimum(persons, 0) if self.groups == 1 else self._of_person[persons]
        drawn = self._draw(batch.num_rows)
        self._counts += np.bincount(drawn, minlength=self.groups)
        return None if self.groups == 1 else drawn

    def finish(self) -> None:
        """Check, after the last batch, that nothing was left out."""
        if self._persons is not None:
            self._persons.finish()

    def unit_counts(self) -> list[int]:
        return [int(count) for count in self._counts]
