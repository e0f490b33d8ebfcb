"""A second look, at all directions of rows that a first one has mapped column by column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcov.entropy import simulation_generator
from dpcov.mechanisms import mapped_ladder
from dpcov.mechanisms.ladder import Ladder
from dpcov.mechanisms.shaped_ladder import Shape

if TYPE_CHECKING:
    from fractions import Fraction

    from dpcov.entropy import Entropy
    from dpcov.mechanisms import Mechanism, ladder
    from dpcov.mechanisms.mapped_ladder import Images
    from dpcov.moment import Lattice
    from dpcov.privacy import Guarantee
    from dpcov.sources.rows import Rows

# What `shaped_ladder` has for its own look. Noise in proportion to a direction's deviation is for
# errors in which small directions count as much as large ones.
SLACK = 1.0
POWER = 0.5


@dataclass(frozen=True, slots=True)
class SecondLook:
    """A release by `Ladder` of mapped rows, and the map that it tells; no row is clipped.

    It costs `spends`, in epsilon with Laplace noise, and with Gaussian noise, where `extra` tells
    by how much variances are larger, in rho: for any map that depends on the data through earlier
    outcomes alone (docs/proofs/ladder.md 7).
    """

    guarantee: Guarantee
    spends: Fraction
    extra: int | None

    def laws(self, lattice: Lattice) -> ladder.Calibration:
        """Those of a lattice of images, of which nearly all are short."""
        if self.extra is None:
            return Ladder().laplace(lattice, self.guarantee, self.spends, short=True)
        return Ladder().gaussian(lattice, self.guarantee, self.spends, self.extra, short=True)

    def require_drawable(self, plain: Lattice) -> None:
        """Refuse what can't be drawn for some map: the smallest intercept has the largest noise."""
        for units in (1, plain.intercept_units):
            self.laws(plain.with_intercept(units))

    def shape(
        self, mechanism: Mechanism, rows: Rows, images: Images, entropy: Entropy
    ) -> Shape | None:
        """Of these images, each direction over its deviation, if the look shows any direction."""
        lattice = images.lattice(rows.lattice())
        laws = self.laws(lattice)
        seen = mapped_ladder.released(mechanism, rows, images.map, lattice, laws, entropy)
        # Of the release's own stream, so that a seed repeats the map as well.
        generator = simulation_generator(int(entropy.words(1)[0]))
        return Shape.of(seen, generator, slack=SLACK, power=POWER)
