"""Nuclear-Laplace noise: the least noise of exact pure differential privacy, at moderate orders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from dpcov.core.parameters import Share, ShareOrNone
from dpcov.mechanisms import additive, radius
from dpcov.mechanisms.pure import nuclear_calibration, pure_epsilon, pure_guarantee
from dpcov.mechanisms.radius import Radius
from dpcov.papers.samplers.nuclear import NuclearLaplace as SymmetricLaw
from dpcov.papers.samplers.nuclear import SquareNuclearLaplace as SquareLaw

if TYPE_CHECKING:
    from dpcov.core.privacy import Budget, Neighbors
    from dpcov.rows.moment import Lattice

FORMS: dict[str, type[SymmetricLaw] | type[SquareLaw]] = {
    "symmetric": SymmetricLaw,
    "square": SquareLaw,
}


@dataclass(frozen=True, slots=True)
class NuclearLaplace(additive.Additive):
    r"""Second moment plus noise of density exp(-||Z||_* / scale): pure epsilon-DP.

    Guarantee
    ---------
    Pure epsilon-DP, for every input, under add/remove or replace-one, for rows or for persons with
    at most k rows. Stated an (epsilon, delta) budget, it spends no delta. The noise is drawn
    exactly, never by a Markov chain; orders at which it can't be are refused.

    Sensitivity
    -----------
    Nuclear norm of the change D of S = sum w w': k B^2 add/remove, 2 k B^2 replace-one, tight
    (`Lattice.nuclear`). By the triangle inequality the density changes by at most
    exp(||D||_* / scale): scale = (nuclear sensitivity) / epsilon, rounded up. In the square form
    the noise has no symmetry; adding its transpose and halving is post-processing. The trace is
    released beside the matrix, at no cost under replace-one (`additive.trace_share` has the proof),
    for the share `trace_share` of epsilon under add/remove.
    A private radius is chosen from counts that change by at most k (2 k under replace-one) in l1;
    `mechanisms.radius` has the proof. The rest of epsilon goes to the moment, which changes by the
    above at any radius fixed in advance, so the two compose adaptively.

    Not protected
    -------------
    Schema, budget, order of the matrix, running time; the number of rows (of persons) under
    replace-one. The law is continuous: eigenvalues are drawn to 2^-48, their vectors in float64,
    before it is rounded. Publication on a lattice of 2^-10 of the noise keeps its low bits from
    telling anything.

    Parameters
    ----------
    form : ``symmetric`` or ``square``, public
        Noise on symmetric matrices, or the paper's on all square ones, which is 1.4 times as large.
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
        The budget is no pure one, or too small for the noise; the order is beyond exact
        sampling. Before anything is read.
    SourceError
        What can be read only once finds no room for a private copy. The budget is spent.

    Cost
    ----
    One pass over the data (two with persons), twice as many with a private radius. The noise takes
    milliseconds to d = 7, .2 s at d = 13, 2 s at 30, 10 s at 50, which is the limit.

    Source
    ------
    d'Orsi and others, "On purely private covariance estimation", Algorithm 1; Algorithm 2 is this
    mechanism denoised by projection, where they leave open how the two steps share epsilon. The
    symmetric form and both exact samplers (rejection from differences of Wishart matrices;
    Pfaffians) are dpcov's: see `samplers.nuclear`. A K-norm mechanism (Hardt and Talwar 2010).

    Examples
    --------
    >>> from dpcov.rows.moment import Lattice
    >>> from dpcov.core.privacy import Neighbors, PureDP
    >>> lattice = Lattice(features=4, radius=1.0)
    >>> mechanism = NuclearLaplace(trace_share=0.0)
    >>> noise = mechanism.calibrate(lattice, PureDP(1.0), Neighbors.ADD_REMOVE).matrix
    >>> noise.scale / lattice.bound
    1.0

    """

    form: Literal["symmetric", "square"] = "symmetric"
    trace_share: ShareOrNone = 0.1
    radius: Radius = "public"
    radius_share: Share = 0.1

    name: ClassVar[str] = "nuclear-laplace"
    use: ClassVar[str] = "least noise for pure privacy in one sum; possible up to 50 features"
    source: ClassVar[str] = (
        "d'Orsi et al. 2025, Algorithm 1; symmetric form and exact samplers: dpcov"
    )

    def calibrate(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> additive.Calibration:
        epsilon = pure_epsilon(self.name, budget)
        lattice = radius.grid(self.radius, lattice)
        for_radius = radius.spent(self.radius, self.radius_share, epsilon)
        law = FORMS[self.form]
        guarantee = pure_guarantee(lattice, epsilon, neighbors)
        return nuclear_calibration(
            lattice, guarantee, epsilon - for_radius, self.trace_share, law, for_radius
        )
