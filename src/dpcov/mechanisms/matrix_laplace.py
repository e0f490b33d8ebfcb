"""Matrix Laplace noise: exact pure differential privacy at the cost of two matrix products."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from dpcov.mechanisms import additive
from dpcov.mechanisms.pure import pure_epsilon
from dpcov.privacy import Guarantee, Neighbors, PureDP, exact, upper_float
from dpcov.samplers.scalars import ScalarLaplace
from dpcov.samplers.wishart import WishartDifference

if TYPE_CHECKING:
    from dpcov.entropy import Entropy
    from dpcov.moment import Lattice
    from dpcov.privacy import Budget
    from dpcov.releases import Release
    from dpcov.sources.rows import Rows


@dataclass(frozen=True, slots=True)
class MatrixLaplace:
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

    Returns
    -------
    Release
        (d, d) integers in units of 2^shift squared lattice steps, the trace, and the noise law.

    Raises
    ------
    MechanismError
        The budget is no pure one, or too small for 64-bit noise. Before anything is read.

    Cost
    ----
    One pass over the data (two with persons), O(d^3) time and 4 d^2 numbers for the noise.

    Source
    ------
    dpcov, spec pure 4 (theorem and proof). Compare Jiang, Xie and Zhang 2016, who add one Wishart
    matrix: not differentially private, since the supports of neighbours differ. Noise law:
    matrix-variate Laplace.

    Examples
    --------
    >>> from dpcov.moment import Lattice
    >>> lattice = Lattice(features=4, radius=1.0)
    >>> mechanism = MatrixLaplace(trace_share=0.0)
    >>> noise = mechanism.calibrate(lattice, PureDP(1.0), Neighbors.ADD_REMOVE).matrix
    >>> noise.scale / lattice.bound
    0.5

    """

    trace_share: float = 0.1

    name: ClassVar[str] = "matrix-laplace"

    def __post_init__(self) -> None:
        additive.check_trace_share(self.trace_share)

    def calibrate(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> additive.Calibration:
        epsilon = pure_epsilon(self.name, budget)
        neighbors = Neighbors(neighbors)
        share = exact(additive.trace_share(lattice, neighbors, self.trace_share))
        scale = lattice.nuclear(neighbors) / (2 * epsilon * (1 - share))
        # Under replace-one the trace's scale is twice the unit's bound over epsilon, at no cost.
        trace_epsilon = share * epsilon if neighbors == Neighbors.ADD_REMOVE else epsilon / 2
        has_trace = lattice.dimension > 1 and trace_epsilon > 0
        return additive.Calibration(
            guarantee=Guarantee(PureDP(float(epsilon)), neighbors, lattice.unit),
            matrix=WishartDifference(lattice.dimension, upper_float(min(scale, Fraction(2**64)))),
            trace=ScalarLaplace(lattice.unit_bound / trace_epsilon) if has_trace else None,
            trace_alone=ScalarLaplace(lattice.unit_bound / epsilon),
        )

    def __call__(
        self, rows: Rows, *, budget: Budget, neighbors: Neighbors, entropy: Entropy
    ) -> Release:
        return additive.release(self, rows, budget=budget, neighbors=neighbors, entropy=entropy)
