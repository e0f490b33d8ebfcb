"""Exact sums of parts of a table, and their merge, inside one trust domain.

A file of sums is PRIVATE DATA, as the rows are: it is written for its owner alone, is refused as a
release, and may be released, with noise, in place of the rows. Each row must be in one part only:
that is its owner's declaration, and only a part that is the same to the last row is found out.
Parties that don't trust each other with their sums need another protocol (docs/notes/parts.md).
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

from dpcov.core.files import read_text, write
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

STATUS = "PRIVATE DATA, NOT A RELEASE: exact sums over rows. Keep it as you keep the rows."
_NO_ROWS = "A file of sums holds no rows, and their sum in one form only."
LARGEST_FILE = 2**30  # bytes: 8,191 features take two thirds of it
MOST_ROWS = 2**63
_STATED = ("parts", "where", "countable", "doors", "caveats")


@dataclass(frozen=True, slots=True, repr=False)  # its repr would print the data
class PartialMoment:
    """The exact second moment of some rows. SENSITIVE.

    Attributes
    ----------
    schema : what the rows are.
    units : (d, d) integers, the sum of w w^T.
    rows : their number.
    parts : a hash of each part's rows, as integers, so that no part is counted twice.
    where : the conditions that the rows meet.
    countable : whether no cell can change the number of rows.
    doors : what kinds of tables the rows come from.
    caveats : what is not protected on account of that.
    relative : whether the file is of a version whose steps were a share of the radius.

    """

    schema: Schema
    units: NDArray[np.object_]
    rows: int
    parts: tuple[str, ...]
    where: tuple[str, ...] = ()
    countable: bool = True
    doors: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    relative: bool = False

    @property
    def public_rows(self) -> int | None:
        """The number of rows, where it was declared."""
        return None if self.schema.file.rows is None else self.rows

    @property
    def lattice(self) -> Lattice:
        """The grid of the rows that were summed."""
        if not self.relative:
            return Lattice.of(self.schema)
        return Lattice.of(self.schema).relative(self.schema.radius)

    @classmethod
    def of(
        cls, data: Any, schema: Schema, *, where: Sequence[str] = (), threads: int | None = None
    ) -> PartialMoment:
        """Sum the rows of one part."""
        if schema.unit is not None:
            raise SourceError(
                "Parts can't be summed apart where persons are protected: rows of one person may "
                "be in several. Release from one table."
            )
        conditions = Conditions.parse(where, schema)
        if conditions and schema.file.rows is not None:
            raise SourceError(
                f"A declared number of rows ({rows_given()}) is for replace-one, where no "
                f"condition ({named('where')}) can be used. Leave out one of them."
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
        """The sum over the rows of both, which must have no row in common: their owner says so."""
        if _declared(self.schema) != _declared(other.schema):
            raise SourceError(
                "The parts were made with different schemas, or with columns in another order."
            )
        if self.relative != other.relative:
            raise SourceError(
                "The parts have grids of different versions: sum the rows of the older one again "
                "(dpcov moments)."
            )
        if self.where != other.where:
            raise SourceError(f"The parts were made under different conditions ({named('where')}).")
        if (self.schema.file.rows is None) != (other.schema.file.rows is None):
            raise SourceError(
                f"Only one of the parts has a declared number of rows ({rows_given()}). Sum the "
                "rows of both with such a number, or of both without."
            )
        if set(self.parts) & set(other.parts):
            raise SourceError(
                "Two parts hold the very same rows, or a part is in a sum that is given beside it."
            )
        return replace(
            self,
            units=self.units + other.units,
            rows=self.rows + other.rows,
            parts=self.parts + other.parts,
            countable=self.countable and other.countable,
            doors=tuple(dict.fromkeys(self.doors + other.doors)),
            caveats=tuple(dict.fromkeys(self.caveats + other.caveats)),
        )

    def seen(self, schema: Schema, conditions: Conditions | None = None) -> SummedRows:
        """The sums in place of rows, if they were made with this schema."""
        if conditions:
            raise SourceError(
                f"Conditions ({named('where')}) test rows, and a file of sums holds none: give "
                f"them to {spelled('PartialMoment.of', 'dpcov moments --where')}, where rows are."
            )
        if _declared(self.schema) != _declared(schema):
            raise SourceError(
                "The sums were made with another schema, other options of it, or its columns in "
                "another order."
            )
        if schema.file.rows not in (None, self.public_rows):
            raise SourceError(
                f"The sums were not made of so many rows ({rows_given()}). Give the number to "
                f"{spelled('PartialMoment.of', 'dpcov moments')}, where rows are."
            )
        return SummedRows(self)

    def save(self, path: Path, *, force: bool = False, inputs: Sequence[Path] = ()) -> None:
        """Write a file that only its owner can read, atomically."""
        below = self.units[np.tril_indices(len(self.units))]
        document = {
            "status": STATUS,
            **{name: getattr(self, name) for name in _STATED},
            "schema": self.schema.model_dump(mode="json"),
            "rows": self.rows,
            "relative": self.relative,
            "units": below.tolist(),
        }
        text = SUMS_START + json.dumps(document)[1:] + "\n"
        write(path, text, force=force, inputs=inputs, mode=0o600)

    @classmethod
    def load(cls, path: Path) -> PartialMoment:
        """Read a file of sums; no error quotes it."""
        if not holds_sums(path):
            raise SourceError(f"{shown(path)!r} is no file of sums (dpcov moments).")
        return cls._loaded(path)

    @classmethod
    @quiet("The file of sums is damaged.")
    def _loaded(cls, path: Path) -> PartialMoment:
        document = json.loads(read_text(path, "file of sums", SourceError, most=LARGEST_FILE))
        if "countable" not in document:
            raise SourceError(
                "The file of sums is of a version before 0.2.0, which could read rows wrongly: sum "
                "the rows again (dpcov moments)."
            )
        schema, rows = Schema.parse(document["schema"]), int(document["rows"])
        parts, where, doors, caveats = (
            tuple(map(str, document[name])) for name in ("parts", "where", "doors", "caveats")
        )
        dimension = Lattice.of(schema).dimension
        units = np.zeros((dimension, dimension), object)
        units[np.tril_indices(dimension)] = [int(cell) for cell in document["units"]]
        units = units + np.tril(units, -1).T
        countable = document["countable"] is True
        relative = document.get("relative", True) is True
        found = cls(schema, units, rows, parts, where, countable, doors, caveats, relative)
        if not _possible(units, rows, found.lattice, schema.weight is not None):
            raise ValueError("not the sum of that many rows")
        return found


def _possible(units: NDArray[np.object_], rows: int, lattice: Lattice, weighted: bool) -> bool:
    """Whether these can be sums over so many rows, as far as pairs of features tell."""
    if not 0 <= rows < MOST_ROWS:
        return False
    diagonal = np.diag(units)
    corner = rows * lattice.intercept_units**2
    if lattice.intercept_units and not (units[-1, -1] == corner or weighted):
        return False
    most, cap = rows * lattice.side**2, math.ceil(1 / lattice.step)
    within = all(0 <= one <= min(most, rows * cap**2) for one in diagonal[: lattice.features])
    within &= 0 <= diagonal[lattice.features :].sum() <= corner
    within &= diagonal[: lattice.features].sum() <= most
    return bool(within and (units * units <= np.outer(diagonal, diagonal)).all())


class SummedRows(Rows):
    """Stands for rows that were summed, where a mechanism asks for their sum alone."""

    rereadable = False  # the sums tell of no other radius or map
    has_rows = False

    def __init__(self, sums: PartialMoment) -> None:
        self.schema = sums.schema
        self.kind = " and ".join(["sums", *sums.doors])
        self.where = sums.where
        self.caveat = " ".join(sums.caveats)
        self.countable = sums.countable
        self.public_rows = sums.public_rows
        self._how_to_count = HOW_TO_COUNT
        self._partial = sums

    def read(self) -> None:
        """Nothing is left to be read."""

    def close(self) -> None:
        """Nothing is open."""

    def lattice(self, *, radius: float | None = None, features: int | None = None) -> Lattice:
        """That of the rows that were summed."""
        return self._partial.lattice

    def second_moments(self, *, groups: int = 1, **others: Any) -> list[SecondMoment]:
        """The moment that was read; SENSITIVE."""
        if groups > 1 or any(others.values()):
            raise MechanismError(_NO_ROWS)
        return [SecondMoment(self._partial.units, self.lattice(), self._partial.rows)]

    def total(self) -> int:
        """Of the rows that were summed; SENSITIVE."""
        weighted = self.schema.weight is not None
        return int(self._partial.units[-1, -1]) if weighted else self._partial.rows

    def norm_counts(self, *_: Any, **__: Any) -> Integers:
        """Can't be told without the rows."""
        raise MechanismError(_NO_ROWS)

    def integer_rows(self) -> IntegerRows:
        """Can't be told."""
        raise MechanismError(_NO_ROWS)


HOW_TO_COUNT = 'sum text files with records = "lines" under [file], and without conditions'


def _declared(schema: Schema) -> tuple[dict[str, Any], tuple[str, ...]]:
    """All but how the file of the rows was written, and where the schema states what it states.

    Sums depend on the order of the columns too.
    """
    return schema.model_dump(exclude={"file", "defaults"}), tuple(schema.columns)
