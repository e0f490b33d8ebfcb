"""What every mechanism is: calibrated from public numbers alone, then run with what that told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from dpcov.core.parameters import check_fields

if TYPE_CHECKING:
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget, Guarantee, Neighbors
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice
    from dpcov.rows.sources.rows import Rows


class Calibrated(Protocol):
    """What calibrating any mechanism tells: its plan."""

    @property
    def guarantee(self) -> Guarantee: ...


class Mechanism(Protocol):
    """A frozen dataclass whose fields are public; the rows of a run are sensitive."""

    __slots__ = ()

    name: ClassVar[str]
    use: ClassVar[str]  # when to choose it
    source: ClassVar[str]  # whose idea it is

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def passes(self) -> int:
        """At most how many times the data is read; above 1, a stream is copied.

        Once more where the radius, if it is an option, is private.
        """
        return 2 if getattr(self, "radius", "public") == "private" else 1

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibrated:
        """The noise and the guarantee, from public numbers; refuses before anything is spent."""

    def least_units(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> int:
        """Return how many rows (persons) a release takes at least; 0 if it takes any number.

        From public numbers alone. With fewer the mechanism refuses, the budget being spent.
        """
        return 0

    def run(self, rows: Rows, laws: Any, entropy: Entropy) -> Release:
        """Read the rows and release, with the laws that `calibrate` told for their lattice."""

    def __call__(
        self, rows: Rows, *, budget: Budget, neighbors: Neighbors, entropy: Entropy
    ) -> Release:
        """Calibrate and run at once."""
        return self.run(rows, self.calibrate(rows.lattice(), budget, neighbors), entropy)
