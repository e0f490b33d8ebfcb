"""The interface of every mechanism: a calibration from public numbers, then a run on the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from dpcov.core.parameters import check_fields
from dpcov.errors import MechanismError

if TYPE_CHECKING:
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget, Guarantee, Neighbors
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice
    from dpcov.rows.sources.rows import Rows


class Calibrated(Protocol):
    """Result of a calibration: the guarantee, and the noise distributions that provide it.

    Two more attributes are optional. `is_gaussian` is True if all noise is Gaussian noise, and
    False if all noise is Laplace noise. The count and the audit use this attribute. `mu_squared` is
    the squared mu of Gaussian noise, for a ledger that counts Gaussian noise.
    """

    @property
    def guarantee(self) -> Guarantee: ...


class Mechanism(Protocol):
    """Frozen dataclass with public options. Only the rows of a run are sensitive."""

    __slots__ = ()

    name: ClassVar[str]
    use: ClassVar[str]  # tables and budgets that the mechanism is for
    source: ClassVar[str]  # authors of the mechanism
    # Fields that the goal of a request sets. They are no options of the mechanism.
    set_by_goal: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def passes(self) -> int:
        """Maximum number of times that the mechanism reads the data.

        A private clipping radius needs a second reading. A mechanism with more than one reading
        cannot read a stream directly.
        """
        return 2 if getattr(self, "radius", "public") == "private" else 1

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibrated:
        """Compute the noise distributions and the guarantee from public numbers.

        A mechanism that cannot keep the budget refuses here, before dpcov reads any data.
        """

    def calibrate_gaussian(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> Calibrated:
        """Calibrate Gaussian noise with a known mu, for a ledger that counts Gaussian noise.

        A mechanism with other rounds has no mu and refuses.
        """
        raise MechanismError(
            f"The noise of the mechanism {self.name} has no mu, so a ledger with --count gaussian "
            "cannot count it. Choose auto, gaussian or standardized, or use a ledger with --count "
            "sums. Nothing was spent."
        )

    def least_units(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> int:
        """Return the smallest number of rows (or persons) that the mechanism accepts, or 0.

        The method uses only public numbers. If the table has fewer rows, the mechanism refuses to
        answer, and the budget is spent.
        """
        return 0

    def run(self, rows: Rows, laws: Any, entropy: Entropy) -> Release:
        """Read the rows and make a release with the result of `calibrate`."""

    def __call__(
        self, rows: Rows, *, budget: Budget, neighbors: Neighbors, entropy: Entropy
    ) -> Release:
        """Calibrate the mechanism and run it."""
        return self.run(rows, self.calibrate(rows.lattice(), budget, neighbors), entropy)
