"""The mechanism matrix-laplace: pure differential privacy from two Wishart matrices."""

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
    r"""Second moment with the difference of two Wishart matrices as noise, for pure epsilon-DP.

    Guarantee
    ---------
    The guarantee is pure epsilon-DP, for every input. It holds under add-remove and under
    replace-one, for rows and for persons with at most k rows. With an (epsilon, delta) budget, the
    mechanism spends no delta.

    Sensitivity
    -----------
    Let S = sum w w' be the second moment and let D be its change. The nuclear norm of D is at most
    k B^2 under add-remove and 2 k B^2 under replace-one. Both bounds are tight (`Lattice.nuclear`).

    The noise is Z = W1 - W2, where W1 and W2 have the distribution Wishart_d(d+1, c I). Its density
    f satisfies |log f(Z+D) - log f(Z)| <= ||D||_* / 2c. Proof for D >= 0: write

        f(Z) = e^(tr Z/2c) I(Z),
        I(Z) = int det(A)^p det(A-Z)^p e^(-tr A/c) dA  over A >= 0, A >= Z.

    Then I(Z+D) <= I(Z), because the domain shrinks and det(A-Z-D) <= det(A-Z). The substitution
    A -> A + D gives I(Z+D) >= e^(-tr D/c) I(Z). For any other D, apply both bounds to the positive
    part and to the negative part of D. Therefore c = (nuclear sensitivity) / (2 epsilon), rounded
    up.

    The mechanism also releases the trace. Under replace-one the trace costs no budget
    (`additive.trace_share` has the proof). Under add-remove the trace costs the fraction
    `trace_share` of epsilon.

    A private clipping radius comes from noisy counts. A privacy unit changes the counts by at most
    k in l1 norm (2 k under replace-one). The proof is in `mechanisms.radius`. The matrix spends the
    rest of epsilon. Its sensitivity is the same at every radius that is fixed in advance, so the
    two steps compose adaptively.

    Not protected
    -------------
    The schema, the budget, the order of the matrix and the running time are not protected. Under
    replace-one the number of rows (or persons) is public.

    The noise distribution is continuous. The guarantee is exact for real-valued noise, but dpcov
    draws the noise in float64 (63-bit inversion, normal variates below 9.2 in size). The mechanism
    then rounds the release to multiples of 2^-10 of the noise, which hides the low bits.

    Parameters
    ----------
    trace_share : float in [0, 1), public
        Fraction of epsilon for the trace under add-remove.

    radius : {'public', 'private'}, public
        With ``public``, the clipping radius of the schema. With ``private``, a radius that the
        mechanism chooses from a noisy norm histogram.

    radius_share : float in (0, 1), public
        Fraction of epsilon for the choice of a private radius.

    Returns
    -------
    Release
        Integers of shape (d, d) in units of 2^shift squared lattice steps, the trace, and the noise
        distribution.

    Raises
    ------
    MechanismError
        The budget has no epsilon, or it is too small for the noise. dpcov has not read any data.

    SourceError
        The disk has no space for a private copy of data that can be read only once. The budget is
        spent.

    Cost
    ----
    The mechanism reads the data once, or twice to protect persons. A private radius doubles the
    number of readings. The noise needs O(d^3) time and 4 d^2 numbers.

    Source
    ------
    dpcov (docs/proofs/release.md, section 6). Jiang, Xie and Zhang 2016 add one Wishart matrix,
    which is not differentially private: neighbouring tables have noise with different supports.
    The noise distribution is a matrix-variate Laplace distribution.

    Examples
    --------
    >>> from dpcov import Neighbors, PureDP
    >>> from dpcov.mechanisms import MatrixLaplace
    >>> from dpcov.rows.moment import Lattice
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
    """Return pure noise for a symmetric matrix.

    If the matrix changes by D, the log-density changes by at most ||D||_* / scale.
    """
    return WishartDifference(dimension, scale / 2)
