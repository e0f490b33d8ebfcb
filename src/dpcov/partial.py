"""Exact sums of parts of a table, and their merge, inside one trust domain.

A file of sums is PRIVATE DATA, as the rows are: it is written for its owner alone, is refused as a
release, and may be released, with noise, in place of the rows. Each row must be in one part only;
parts that were merged can't be merged again. Parties that don't trust each other with their sums
need another protocol (docs/notes/parts.md).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.errors import MechanismError, SourceError
from dpcov.files import write
from dpcov.mechanisms import Gaussian, MatrixLaplace, NuclearLaplace
from dpcov.moment import Lattice, SecondMoment
from dpcov.schema import Schema
from dpcov.sources import open_rows
from dpcov.sources.base import SUMS_START, holds_sums
from dpcov.sources.quiet import quiet
from dpcov.sources.rows import IntegerRows, Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.entropy import Entropy
    from dpcov.linear_map import LinearMap
    from dpcov.mechanisms import Mechanism
    from dpcov.rungs import RungMoments

STATUS = "PRIVATE DATA, NOT A RELEASE: exact sums over rows. Keep it as you keep the rows."
_NO_ROWS = "A file of sums holds no rows, and their sum in one form only."
_ANSWERABLE = (Gaussian, MatrixLaplace, NuclearLaplace)  # they ask for one second moment, no more


@dataclass(frozen=True, slots=True, repr=False)  # its repr would print the data
class PartialMoment:
    """The exact second moment of some rows. SENSITIVE.

    Attributes
    ----------
    schema : what the rows are.
    units : (d, d) integers, the sum of w w^T.
    rows : their number.
    parts : a random name for each part that was summed, so that none is counted twice.

    """

    schema: Schema
    units: NDArray[np.object_]
    rows: int
    parts: tuple[str, ...]

    @classmethod
    def of(cls, data: Any, schema: Schema, *, threads: int | None = None) -> PartialMoment:
        """Sum the rows of one part."""
        if schema.unit is not None:
            raise SourceError(
                "Parts can't be summed apart where persons are protected: rows of one person may "
                "be in several. Release from one table."
            )
        found = open_rows(data, schema, threads=threads).second_moments()[0]
        return cls(schema, found.units, found.unit_count, (secrets.token_hex(16),))

    def merged(self, other: PartialMoment) -> PartialMoment:
        """The sum over the rows of both."""
        if _declared(self.schema) != _declared(other.schema):
            raise SourceError("The parts were made with different schemas.")
        if set(self.parts) & set(other.parts):
            raise SourceError("A part is given twice, or is in a sum that is given beside it.")
        units = self.units + other.units
        return PartialMoment(self.schema, units, self.rows + other.rows, self.parts + other.parts)

    def seen(self, schema: Schema) -> SummedRows:
        """The sums in place of rows, if they were made with this schema."""
        if _declared(self.schema) != _declared(schema):
            raise SourceError("The sums were made with another schema, or other options of it.")
        return SummedRows(self)

    def save(self, path: Path, *, force: bool = False, inputs: Sequence[Path] = ()) -> None:
        """Write a file that only its owner can read, atomically."""
        below = self.units[np.tril_indices(len(self.units))]
        document = {
            "status": STATUS,
            "parts": self.parts,
            "schema": self.schema.model_dump(mode="json"),
            "rows": self.rows,
            "units": below.tolist(),
        }
        text = SUMS_START + json.dumps(document)[1:] + "\n"
        write(path, text, force=force, inputs=inputs, mode=0o600)

    @classmethod
    def load(cls, path: Path) -> PartialMoment:
        """Read a file of sums; no error quotes it."""
        if not holds_sums(path):
            raise SourceError(f"{str(path)!r} is no file of sums (dpcov moments).")
        return cls._loaded(path)

    @classmethod
    @quiet("The file of sums is damaged.")
    def _loaded(cls, path: Path) -> PartialMoment:
        document = json.loads(path.read_text(encoding="utf-8"))
        schema, rows = Schema.parse(document["schema"]), int(document["rows"])
        parts = tuple(map(str, document["parts"]))
        lattice = Lattice.of(schema)
        units = np.zeros((lattice.dimension, lattice.dimension), object)
        units[np.tril_indices(lattice.dimension)] = [int(cell) for cell in document["units"]]
        units = units + np.tril(units, -1).T
        if not 0 <= int(np.trace(units)) <= rows * lattice.bound:
            raise ValueError("not the sum of that many rows")
        return cls(schema, units, rows, parts)


class SummedRows(Rows):
    """Stands for rows that were summed, where a mechanism asks for their sum alone."""

    tells_rungs = False

    def __init__(self, sums: PartialMoment) -> None:
        self.schema = sums.schema
        self.progress = None
        self._partial = sums

    @property
    def rereadable(self) -> bool:
        """The sums tell of no other radius or map."""
        return False

    def require_answerable(self, mechanism: Mechanism) -> None:
        """Refuse, before anything is spent, a mechanism that needs more than one sum."""
        private = getattr(mechanism, "radius", "public") == "private"
        if type(mechanism) not in _ANSWERABLE or private:
            names = ", ".join(kind.name for kind in _ANSWERABLE)
            raise MechanismError(
                f"This mechanism asks for more than the sums that the file holds. Choose: {names}, "
                "with the schema's radius; or release from the rows."
            )

    def second_moments(
        self,
        *,
        radius: float | None = None,
        transform: LinearMap | None = None,
        groups: int = 1,
        labels: Entropy | None = None,
    ) -> list[SecondMoment]:
        """The moment that was read; SENSITIVE."""
        if radius not in (None, self.schema.effective_radius) or transform or groups > 1 or labels:
            raise MechanismError(_NO_ROWS)
        names = tuple(feature.name for feature in self.schema.features)
        sums = self._partial
        return [SecondMoment(sums.units, self.lattice(), names, sums.rows)]

    def rung_moments(self, **_: Any) -> RungMoments:
        """Can't be told without the rows."""
        raise MechanismError(_NO_ROWS)

    def norm_counts(self, *_: Any, **__: Any) -> NDArray[np.int64]:
        """Can't be told without the rows."""
        raise MechanismError(_NO_ROWS)

    def integer_rows(self) -> IntegerRows:
        """Can't be told."""
        raise MechanismError(_NO_ROWS)


def _declared(schema: Schema) -> dict[str, Any]:
    """All but how the file of the rows was written."""
    return schema.model_dump(exclude={"file"})
