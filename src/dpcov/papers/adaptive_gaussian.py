"""A clipping radius chosen privately, then Gaussian noise at that radius: AdaptiveCov."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from dpcov.core.parameters import ShareOrNone
from dpcov.mechanisms.gaussian import Gaussian, concentration
from dpcov.papers.adaptive import Adaptive
from dpcov.papers.separate_gaussian import SeparateGaussian

if TYPE_CHECKING:
    from dpcov.core.privacy import Budget


@dataclass(frozen=True, slots=True)
class AdaptiveGaussian(Adaptive):
    r"""Second moment at a radius chosen privately, plus Gaussian noise: zCDP or (epsilon, delta).

    Guarantee
    ---------
    rho-zCDP, or (epsilon, delta)-DP by the exact curve of the Gaussian mechanism, for every input,
    under add/remove or replace-one, for rows or for persons with at most k rows. A histogram of
    norms costs rho_1; the radius follows from it alone; the moment at any radius fixed in advance
    costs rho_2. All noise is Gaussian, so these compose adaptively to rho_1 + rho_2 = rho, exactly
    (mu_1^2 + mu_2^2 = mu^2 for (epsilon, delta)).

    Sensitivity
    -----------
    The histogram counts rows whose norm lies between neighbouring radii R 2^(-j/2): it changes by k
    add/remove, sqrt(2) k replace-one in l2 (`mechanisms.radius` has the proof). The moment:
    `Gaussian` and `SeparateGaussian` have the proofs; in lattice units k B^2 is the same at every
    radius.

    Not protected
    -------------
    Schema, budget, order of the matrix, running time; the number of rows (of persons) under
    replace-one. The chosen radius is part of the release. Means and covariances are those of the
    clipped rows. Where the values are released apart, their noise is drawn after the data is read.

    Parameters
    ----------
    by : ``gaussian`` or ``separate-gaussian``, public
        How the moment is released at the radius; ``gaussian`` leaves a noise law to denoise by.
    radius_share : float in (0, 1), public
        Share of the budget for the histogram.
    trace_share : float in [0, 1), public
        Share of the rest for the trace under add/remove, of ``gaussian``.
    values, vector_share : public
        Those of `SeparateGaussian`.

    Returns
    -------
    Release
        That of `Gaussian` or `SeparateGaussian`, on the lattice of the smaller radius.

    Raises
    ------
    MechanismError
        The budget is a pure one, or too small for the exact sampler. Before anything is read.
    SourceError
        What can be read only once finds no room for a private copy. The budget is spent.

    Cost
    ----
    Two passes over the data (four with persons); d(d+1)/2 + 21 exact draws.

    Source
    ------
    Dong, Liang and Yi, "Differentially private covariance revisited", NeurIPS 2022, AdaptiveCov.
    Theirs releases the trace with rho/8, then walks down the radii by the sparse vector technique
    with rho/8; its Laplace noise rules out the exact Gaussian curve. The histogram is a Gaussian
    mechanism, costs one l2 sensitivity for all radii, and tells the trace as well; see
    `AdaptiveLaplace` for the other differences. This is `Gaussian` or `SeparateGaussian` with a
    private radius.

    Examples
    --------
    >>> from dpcov.rows.moment import Lattice
    >>> from dpcov.core.privacy import ZCDP, Neighbors
    >>> lattice = Lattice(features=4, radius=1.0)
    >>> mechanism = AdaptiveGaussian(trace_share=0.0)
    >>> noise = mechanism.calibrate(lattice, ZCDP(0.5), Neighbors.ADD_REMOVE)
    >>> float(noise.counts.variance), round(float(noise.matrix.variance / lattice.bound**2), 4)
    (10.0, 1.1111)

    """

    by: Literal["gaussian", "separate-gaussian"] = "gaussian"
    trace_share: ShareOrNone = 0.05

    name: ClassVar[str] = "adaptive-gaussian"
    whole: ClassVar[type[Gaussian]] = Gaussian
    apart: ClassVar[type[SeparateGaussian]] = SeparateGaussian

    def require_kind(self, budget: Budget) -> None:
        concentration(self.name, budget)
