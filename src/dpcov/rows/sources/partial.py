"""Exact sums of parts of a table, and their merge, for one owner of all parts.

A file of sums is private data, like the rows. Only its owner can read the file. dpcov does not
accept it as a release, but can make a release from it. Each row must be in one part only. The owner
is responsible for this condition; dpcov detects only parts with exactly the same rows.

Sites that cannot show their sums to each other need secure aggregation of the integers and noise
that no site knows. dpcov implements neither.

A cluster without a source of its own, such as Dask or Ray, can add the sums of its parts. This
example releases a Dask data frame ``frame``::

        from functools import partial, reduce

        import dask
        import dpcov
        from dpcov.rows.sources.partial import PartialMoment

        schema = dpcov.Schema.load("people.toml")
        add = dask.delayed(partial(reduce, PartialMoment.merged))
        sums = [dask.delayed(PartialMoment.of)(part, schema, threads=1)
                for part in frame.to_delayed()]
        while len(sums) > 1:
            sums = [add(sums[at : at + 16]) for at in range(0, len(sums), 16)]
        release = dpcov.release(sums[0].compute(), schema=schema, epsilon=1.0,
                                mechanism="matrix-laplace")
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.core.files import read_text, require_readable, write
from dpcov.core.printable import shown
from dpcov.core.spelling import named, spelled
from dpcov.errors import MechanismError, SourceError
from dpcov.rows.moment import Lattice, SecondMoment
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.base import SUMS_START, holds_sums, rows_given
from dpcov.rows.sources.conditions import Conditions
from dpcov.rows.sources.quiet import quiet
from dpcov.rows.sources.rows import IntegerRows, Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Integers

PRIVATE_STATUS = "PRIVATE DATA, NOT A RELEASE: exact sums over rows. Keep it as you keep the rows."
_NO_ROWS_MESSAGE = (
    "A file of sums contains no rows, so this mechanism cannot use it. Choose another "
    "mechanism, or use the table."
)
MAX_SUMS_BYTES = 2**30  # Maximum size of a file in bytes; 8,191 features need two thirds of it.
ROW_LIMIT = 2**63  # Strict upper bound on the number of rows.
# Keys of the file, and the attributes that they contain.
_STATED_KEYS = {
    "parts": "parts",
    "where": "where",
    "countable": "countable",
    "doors": "kinds",
    "caveats": "caveats",
}


@dataclass(frozen=True, slots=True, repr=False)  # a repr would print the data
class PartialMoment:
    """Exact second moment of some rows.

    The content is private: dpcov publishes it only with noise.

    Attributes
    ----------
    schema : Schema
        Declared columns.

    units : ndarray of object, shape (d, d)
        Sum of w w^T in squared lattice steps, as Python integers.

    rows : int
        Number of rows.

    parts : tuple of str
        Hash of the rows of each part, which prevents counting a part twice.

    where : tuple of str
        Conditions that the rows meet.

    countable : bool
        True if no cell can change the number of rows.

    kinds : tuple of str
        Kinds of the data sources.

    caveats : tuple of str
        Sentences on what the guarantee does not cover because of the data sources.

    relative : bool
        True for a file of an earlier version, whose lattice step was a fraction of the radius.

    Examples
    --------
    >>> import dpcov, numpy as np
    >>> from dpcov.rows.sources.partial import PartialMoment
    >>> schema = dpcov.Schema.from_bounds(0, 1, ["a", "b"])
    >>> first, second = (PartialMoment.of(np.eye(2) * x, schema) for x in (0.5, 1.0))
    >>> first.merged(second).rows
    4

    """

    schema: Schema
    units: NDArray[np.object_]
    rows: int
    parts: tuple[str, ...]
    where: tuple[str, ...] = ()
    countable: bool = True
    kinds: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    relative: bool = False

    @property
    def public_rows(self) -> int | None:
        """Declared number of rows; None if no number was declared."""
        return None if self.schema.file.rows is None else self.rows

    @property
    def lattice(self) -> Lattice:
        """Lattice of the rows that were summed."""
        if not self.relative:
            return Lattice.of(self.schema)
        return Lattice.of(self.schema).relative(self.schema.radius)

    @classmethod
    def of(
        cls, data: Any, schema: Schema, *, where: Sequence[str] = (), threads: int | None = None
    ) -> PartialMoment:
        """Sum the rows of one part.

        Parameters
        ----------
        data : object
            Data as in `open_rows`.
        schema : Schema
            Declared columns.
        where : sequence of str
            Conditions on the rows.
        threads : int, optional
            Number of threads.

        Returns
        -------
        PartialMoment

        Raises
        ------
        SourceError
            The schema protects persons, or the data cannot be read.

        Examples
        --------
        >>> import dpcov, numpy as np
        >>> from dpcov.rows.sources.partial import PartialMoment
        >>> schema = dpcov.Schema.from_bounds(0, 1, ["a", "b"])
        >>> PartialMoment.of(np.eye(2), schema).rows
        2

        """
        if schema.unit is not None:
            raise SourceError(
                "`dpcov moments` cannot protect persons, because one person can have rows "
                "in several parts. Combine the parts into one table and run `dpcov "
                "release`."
            )
        conditions = Conditions.parse(where, schema)
        if conditions and schema.file.rows is not None:
            raise SourceError(
                f"A declared number of rows ({rows_given()}) needs replace-one, but "
                f"conditions ({named('where')}) need add-remove. Omit one of them."
            )
        with closing(open_rows(data, schema, conditions, threads=threads)) as rows:
            found, image = rows.hashed_moment()
            countable = rows.countable and not conditions
        parts = (image,) if found.unit_count else ()
        return cls(
            schema,
            found.units,
            found.unit_count,
            parts,
            conditions.texts,
            countable,
            (rows.kind,),
            (rows.caveat,) if rows.caveat else (),
        )

    def merged(self, other: PartialMoment) -> PartialMoment:
        """Return the sum over the rows of both parts, which must have no row in common.

        Parameters
        ----------
        other : PartialMoment
            Sums of another part, with the same schema and conditions.

        Returns
        -------
        PartialMoment

        Raises
        ------
        SourceError
            The parts do not fit together, or contain the same rows.

        Examples
        --------
        >>> import dpcov, numpy as np
        >>> from dpcov.rows.sources.partial import PartialMoment
        >>> schema = dpcov.Schema.from_bounds(0, 1, ["a", "b"])
        >>> parts = [PartialMoment.of(np.eye(2) * x, schema) for x in (0.5, 1.0)]
        >>> parts[0].merged(parts[1]).rows
        4

        """
        if _declared(self.schema) != _declared(other.schema):
            raise SourceError(
                "The parts have different schemas, or columns in another order. Sum all "
                "parts with the same schema."
            )
        if self.relative != other.relative:
            raise SourceError(
                "The parts come from different versions of dpcov. Sum the rows of the older "
                "part again (dpcov moments)."
            )
        if self.where != other.where:
            raise SourceError(
                f"The parts have different conditions ({named('where')}). Sum all parts with the "
                "same conditions."
            )
        if (self.schema.file.rows is None) != (other.schema.file.rows is None):
            raise SourceError(
                f"Only one of the parts has a declared number of rows ({rows_given()}). Sum "
                "both parts with such a number, or both without."
            )
        if set(self.parts) & set(other.parts):
            raise SourceError(
                "Two parts contain the same rows, or a part is already in a sum. Give each "
                "part once."
            )
        return replace(
            self,
            units=self.units + other.units,
            rows=self.rows + other.rows,
            parts=self.parts + other.parts,
            countable=self.countable and other.countable,
            kinds=tuple(dict.fromkeys(self.kinds + other.kinds)),
            caveats=tuple(dict.fromkeys(self.caveats + other.caveats)),
        )

    def seen(self, schema: Schema, conditions: Conditions | None = None) -> SummedRows:
        """Return the sums in place of rows.

        Parameters
        ----------
        schema : Schema
            Schema of the release, which must be the schema of the sums.
        conditions : Conditions, optional
            Must be empty, because the sums contain no rows.

        Returns
        -------
        SummedRows

        Raises
        ------
        SourceError
            The sums were made with another schema, or conditions are given.

        """
        if conditions:
            raise SourceError(
                f"A file of sums contains no rows, so conditions ({named('where')}) cannot "
                "be applied. Pass the conditions to "
                f"{spelled('PartialMoment.of', 'dpcov moments --where')}."
            )
        if _declared(self.schema) != _declared(schema):
            raise SourceError(
                "The sums have another schema, other options, or another order of columns. "
                "Use the schema of the sums."
            )
        if schema.file.rows not in (None, self.public_rows):
            raise SourceError(
                f"The sums have another number of rows than declared ({rows_given()}). Pass "
                f"the number to {spelled('PartialMoment.of', 'dpcov moments')}."
            )
        return SummedRows(self)

    def save(self, path: Path, *, force: bool = False, inputs: Sequence[Path] = ()) -> None:
        """Write the sums to a file that only its owner can read.

        Parameters
        ----------
        path : Path
            New file.
        force : bool
            True to replace an existing file.
        inputs : sequence of Path
            Files that must not be replaced.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> import dpcov
        >>> import numpy as np
        >>> from dpcov.rows.sources.partial import PartialMoment
        >>> schema = dpcov.Schema.from_bounds(0, 1, ["a", "b"])
        >>> with TemporaryDirectory() as folder:
        ...     sums = Path(folder) / "part.sums"
        ...     PartialMoment.of(np.eye(2), schema).save(sums)
        ...     PartialMoment.load(sums).rows
        2

        """
        below = self.units[np.tril_indices(len(self.units))]
        document = {
            "status": PRIVATE_STATUS,
            **{key: getattr(self, name) for key, name in _STATED_KEYS.items()},
            "schema": self.schema.model_dump(mode="json"),
            "rows": self.rows,
            "relative": self.relative,
            "units": below.tolist(),
        }
        text = SUMS_START + json.dumps(document)[1:] + "\n"
        write(path, text, force=force, inputs=inputs, mode=0o600)

    @classmethod
    def load(cls, path: Path) -> PartialMoment:
        """Read a file of sums; no error message quotes the file.

        Parameters
        ----------
        path : Path
            File that `save` wrote.

        Returns
        -------
        PartialMoment

        Raises
        ------
        SourceError
            The file is not a file of sums, or is damaged.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> import dpcov
        >>> import numpy as np
        >>> from dpcov.rows.sources.partial import PartialMoment
        >>> schema = dpcov.Schema.from_bounds(0, 1, ["a", "b"])
        >>> with TemporaryDirectory() as folder:
        ...     sums = Path(folder) / "part.sums"
        ...     PartialMoment.of(np.eye(2), schema).save(sums)
        ...     PartialMoment.load(sums).rows
        2

        """
        require_readable(path, SourceError)
        if not holds_sums(path):
            raise SourceError(
                f"{shown(path)!r} is not a file of sums. Choose a file that `dpcov moments` wrote."
            )
        return cls._loaded(path)

    @classmethod
    @quiet("The file of sums is damaged. Sum the rows again (dpcov moments).")
    def _loaded(cls, path: Path) -> PartialMoment:
        """Read and check a file of sums."""
        document = json.loads(read_text(path, "file of sums", SourceError, most=MAX_SUMS_BYTES))
        if "countable" not in document:
            raise SourceError(
                "The file of sums comes from a version before 0.2.0, which could read rows "
                "incorrectly. Sum the rows again (dpcov moments)."
            )
        schema, rows = Schema.parse(document["schema"]), int(document["rows"])
        parts, where, kinds, caveats = (
            tuple(map(str, document[key])) for key in ("parts", "where", "doors", "caveats")
        )
        dimension = Lattice.of(schema).dimension
        units = np.zeros((dimension, dimension), object)
        units[np.tril_indices(dimension)] = [int(cell) for cell in document["units"]]
        units = units + np.tril(units, -1).T
        countable = document["countable"] is True
        relative = document.get("relative", True) is True
        found = cls(schema, units, rows, parts, where, countable, kinds, caveats, relative)
        if not _possible(units, rows, found.lattice, schema.weight is not None):
            raise ValueError("the sums are impossible for this number of rows")
        return found


def _possible(units: NDArray[np.object_], rows: int, lattice: Lattice, weighted: bool) -> bool:
    """Return True if the integers can be sums over this number of rows.

    The test uses the diagonal and each pair of features.
    """
    if not 0 <= rows < ROW_LIMIT:
        return False
    diagonal = np.diag(units)
    count_entry = rows * lattice.intercept_units**2
    if lattice.intercept_units and not (units[-1, -1] == count_entry or weighted):
        return False
    most, cap = rows * lattice.side**2, math.ceil(1 / lattice.step)
    within = all(0 <= one <= min(most, rows * cap**2) for one in diagonal[: lattice.features])
    within &= 0 <= diagonal[lattice.features :].sum() <= count_entry
    within &= diagonal[: lattice.features].sum() <= most
    return bool(within and (units * units <= np.outer(diagonal, diagonal)).all())


class SummedRows(Rows):
    """Sums of rows, used in place of the rows by mechanisms that need only their sum.

    Parameters
    ----------
    sums : PartialMoment
        Sums.

    """

    rereadable = False  # the sums exist for one radius only, without a map
    has_rows = False

    def __init__(self, sums: PartialMoment) -> None:
        self.schema = sums.schema
        self.kind = " and ".join(["sums", *sums.kinds])
        self.where = sums.where
        self.caveat = " ".join(sums.caveats)
        self.countable = sums.countable
        self.public_rows = sums.public_rows
        self._how_to_count = SUMS_COUNT_HINT
        self._partial = sums

    def read(self) -> None:
        """Do nothing, because the rows are already summed."""

    def close(self) -> None:
        """Do nothing, because nothing is open."""

    def lattice(self, *, radius: float | None = None, features: int | None = None) -> Lattice:
        """Return the lattice of the rows that were summed."""
        return self._partial.lattice

    def second_moments(self, *, groups: int = 1, **others: Any) -> list[SecondMoment]:
        """Return the second moment of the file, without noise."""
        if groups > 1 or any(others.values()):
            raise MechanismError(_NO_ROWS_MESSAGE)
        return [SecondMoment(self._partial.units, self.lattice(), self._partial.rows)]

    def total(self) -> int:
        """Return the number of rows, or the sum of their weights, without noise."""
        weighted = self.schema.weight is not None
        return int(self._partial.units[-1, -1]) if weighted else self._partial.rows

    def norm_counts(self, *_: Any, **__: Any) -> Integers:
        """Raise `MechanismError`, because the sums contain no rows."""
        raise MechanismError(_NO_ROWS_MESSAGE)

    def integer_rows(self) -> IntegerRows:
        """Raise `MechanismError`, because the sums contain no rows."""
        raise MechanismError(_NO_ROWS_MESSAGE)


SUMS_COUNT_HINT = 'sum text files with records = "lines" under [file], and without conditions'


def _declared(schema: Schema) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the parts of a schema that the sums depend on, and the order of its columns."""
    return schema.model_dump(exclude={"file", "defaults"}), tuple(schema.columns)
