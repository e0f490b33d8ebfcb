"""The one door: what the library may learn of a data set, and the only code that sees rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.errors import MechanismError, SourceError
from dpcov.rows.encoder import Encoder
from dpcov.rows.linear_map import LinearMap
from dpcov.rows.moment import Accumulator, Lattice, SecondMoment
from dpcov.rows.rungs import RungMoments, RungSum, rungs_of
from dpcov.sources.base import PartedSource, caveat_of, unwrapped
from dpcov.sources.folding import (
    BLAS,
    Folder,
    NormCounter,
    Sum,
    Total,
    available_cores,
    fit_together,
    squared_limits,
)
from dpcov.sources.hashes import HashedSum, counted
from dpcov.sources.ids import refuse_unfit
from dpcov.sources.kept import Kept
from dpcov.sources.quiet import leave_no_core, quiet

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers, Matrix
    from dpcov.core.entropy import Entropy
    from dpcov.rows.schema import Schema
    from dpcov.sources.base import Part, Source

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
    rereadable : whether mechanisms may ask more than once.
    tells_rungs : whether `rung_moments` can be asked for.
    tells_rows : whether `integer_rows` can be asked for.

    """

    rereadable = True
    tells_rungs = True
    tells_rows = True
    where: tuple[str, ...] = ()

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
                f"The column {unfit[0]!r} can't be a feature: it is of the type "
                f"{source.unfit[unfit[0]]}. Convert it, or declare it kind = 'ignored'."
            )
        if schema.unit is not None:
            name, no_ids = schema.unit.column, getattr(source, "unfit_ids", {})
            refuse_unfit(name, unwrapped(source.types[name]), schema.unit.type, no_ids)
        leave_no_core()
        self.schema = schema
        self.door = source.door
        self.caveat = caveat_of(source)
        self.countable = getattr(source, "rows_are_lines", True)
        self._source = source if schema.unit is None else self._by_person(source)
        self._threads = threads or available_cores()

    def _by_person(self, source: Source) -> Source:
        """A source that finds a person's rows together."""
        return Kept(source, self.schema)

    def lattice(self, *, radius: float | None = None, features: int | None = None) -> Lattice:
        """Public shape of a query: what sensitivities depend on."""
        return Lattice.of(self.schema, radius=radius, features=features)

    def require_rereadable(self) -> None:
        """Expect several questions: copy what can't be read again, or not at that cost."""
        if self._source.costly or not self._source.settled:
            self._source = Kept(self._source, self.schema)

    @quiet(UNREADABLE)
    def read(self) -> None:
        """Copy what is to be copied, before the first question and after the budget was booked."""
        if isinstance(self._source, Kept):
            self._source.fill()

    def close(self) -> None:
        """Let go of the table: a database's file, a connection."""
        if hasattr(self._source, "close"):
            self._source.close()

    def require_countable(self) -> None:
        """Refuse to call a number of rows public that a cell may change."""
        if not self.countable:
            raise SourceError(
                "Under replace-one the number of rows is public, and in a text file with quoted "
                'cells one record can change it: set records = "lines" under [file] in the schema, '
                "where cells hold no line breaks, or use add-remove."
            )

    @quiet(UNREADABLE)
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
            raise MechanismError("Groups need fresh randomness: none must be guessable.")
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

    @quiet(UNREADABLE)
    def hashed_moment(self) -> tuple[SecondMoment, str]:
        """The second moment, and a hash of the multiset of the rows' images. SENSITIVE, both."""
        lattice, names = self.lattice(), tuple(feature.name for feature in self.schema.features)
        sums = self._sums(Encoder(self.schema, lattice), partial(HashedSum, lattice.dimension))
        ((units, image), count) = sums[0]
        return SecondMoment(units, lattice, names, count), image

    @quiet(UNREADABLE)
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
        blocks, owners = [np.empty((lattice.features, 0))], [np.empty(0, np.int64)]
        roots, count = [np.empty(0)], 0
        with BLAS.limit(limits=1):
            for batch, units, new in self._owned(encoder):
                blocks.append(encoder.fine_rows(batch))
                owners.append(units + count)
                count += new
                weights = encoder.root_weights(batch)
                roots.append(np.empty(0) if weights is None else weights)
        return IntegerRows(
            np.concatenate(blocks, axis=1),
            np.concatenate(owners),
            count,
            np.concatenate(roots) if self.schema.weight is not None else None,
        )

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

    def _parts(self) -> Sequence[Part]:
        """Parts of the source that the threads can share, if there are such."""
        if not isinstance(self._source, PartedSource):
            return ()
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
        drawn = self._draw(new)
        self._counts += np.bincount(drawn, minlength=self.groups)
        return None if self.groups == 1 else drawn[units]

    def _draw(self, count: int) -> Integers:
        if self.groups == 1 or self._labels is None:
            return np.zeros(count, np.int64)
        # One word for each unit, so that batches don't matter. Their remainders are uniform within
        # 2^-64 groups; privacy asks only that they are independent of the data, and secret.
        remainders = self._labels.words(count) % np.uint64(self.groups)
        return remainders.astype(np.int64)

    def unit_counts(self) -> list[int]:
        return [int(count) for count in self._counts]
