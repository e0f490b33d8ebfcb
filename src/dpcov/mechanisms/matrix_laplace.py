"""Matrix Laplace noise: exact pure differential privacy at the cost of two matrix products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpcov.core.parameters import Share, ShareOrNone
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.mechanisms import additive, radius
from dpcov.mechanisms.pure import nuclear_calibration, pure_epsilon, pure_guarantee
from dpcov.mechanisms.radius import Radius

if TYPE_CHECKING:
    from dpcov.core.privacy import Budget, Neighbors
    from dpcov.rows.moment import Lattice


@dataclass(frozen=True, slots=True)
class MatrixLaplace(additive.Additive):
    r"""Second moment plus the difference of two Wishart matrices: pure epsilon-DP.

    Guarantee
    ---------
    Pure epsilon-DP, for every input, under add/remove or replace-one, for rows or for persons with
    at most k rows. Stated an (epsilon, delta) budget, it spends no delta.

    Sensitivity
    -----------
    Nuclear norm of the change D of S = sum w w': k B^2 add/remove, 2 k B^2 replace-one, tight
    (`Lattice.nuclear`). The noise law Z = W1 - W2, W ~ Wishart_d(d+1, c I), has
    |log f(Z+D) - log f(Z)| <= ||D||_* / 2c: for D >= 0 write
    f(Z) = e^(tr Z/2c) I(Z), I(Z) = int det(A)^p det(A-Z)^p e^(-tr A/c) dA over A >= 0, A >= Z;
    then I(Z+D) <= I(Z) since the domain shrinks and det(A-Z-D) <= det(A-Z), and
    I(Z+D) >= e^(-tr D/c) I(Z) by A -> A + D; a general D goes through its Jordan parts. So
    c = (nuclear sensitivity) / (2 epsilon), rounded up.
    The trace is released beside the matrix: at no cost under replace-one
    (`additive.trace_share` has the proof), for the share `trace_share` of epsilon under add/remove.
    A private radius is chosen from counts that change by at most k (2 k under replace-one) in l1;
    `mechanisms.radius` has the proof. The rest of epsilon goes to the moment, which changes by the
    above at any radius fixed in advance, so the two compose adaptively.

    Not protected
    -------------
    Schema, budget, order of the matrix, running time; the number of rows (of persons) under
    replace-one. The law is continuous and drawn in float64 (63-bit inversion, |normal| < 9.2)
    before it is rounded: exactly epsilon-DP for real-valued noise. Publication on a lattice of
    2^-10 of the noise keeps its low bits from telling anything.

    Parameters
    ----------
    trace_share : float in [0, 1), public
        Share of epsilon for the trace under add/remove.
    radius : ``public`` or ``private``, public
        The schema's radius, or one chosen from noisy counts of rows by their norm.
    radius_share : float in (0, 1), public
        Share of epsilon for the choice of a private radius.

    Returns
    -------
    Release
        (d, d) integers in units of 2^shift squared lattice steps, the trace, and the noise law.

    Raises
    ------
    MechanismError
        The budget is no pure one, or too small for the noise. Before anything is read.
    SourceError
        What can be read only once finds no room for a private copy. The budget is spent.

    Cost
    ----
    One pass over the data (two with persons), twice as many with a private radius; O(d^3) time and
    4 d^2 numbers for the noise.

    Source
    ------
    dpcov (docs/proofs/release.md 6). Compare Jiang, Xie and Zhang 2016, who add one Wishart
    matrix: not differentially private, since the supports of neighbours differ. Noise law:
    matrix-variate Laplace.

    Examples
    --------
    >>> from dpcov.rows.moment import Lattice
    >>> from dpcov.core.privacy import Neighbors, PureDP
    >>> lattice = Lattice(features=4, radius=1.0)
    >>> mechanism = MatrixLaplace(trace_share=0.0)
    >>> noise = mechanism.calibrate(lattice, PureDP(1.0), Neighbors.ADD_REMOVE).matrix
    >>> noise.scale / lattice.bound
    0.5

    """

    trace_share: ShareOrNone = 0.1
    radius: Radius = "public"
    radius_share: Share = 0.1

    name: ClassVar[str] = "matrix-laplace"
    use: ClassVar[str] = "pure privacy at any number of columns, from one sum alone"
    source: ClassVar[str] = "dpcov"

    def calibrate(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> additive.Calibration:
        epsilon = pure_epsilon(self.name, budget)

        lattice = radius.grid(self.radius, lattice)
        for_radius = radius.spent(self.radius, self.radius_share, epsilon)
        guarantee = pure_guarantee(lattice, epsilon, neighbors)
        return nuclear_calibration(
            lattice, guarantee, epsilon - for_radius, self.trace_share, pure_noise, for_radius
        )


def pure_noise(dimension: int, scale: float) -> WishartDifference:
    """Noise whose log-density changes by at most ||D||_* / scale where the matrix changes by D.

    `NuclearLaplace` has .96 to .91 of its norm at orders 2 to 20, and takes 900 lines.
    """
    return WishartDifference(dimension, scale / 2)
