"""A clipping radius chosen privately, then Gaussian noise at that radius: AdaptiveCov."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from dpcov.mechanisms import additive
from dpcov.mechanisms.gaussian import Gaussian, concentration
from dpcov.papers import separate
from dpcov.papers.separate_gaussian import SeparateGaussian
from dpcov.parameters import Share, ShareOrNone, check_fields

if TYPE_CHECKING:
    from dpcov.entropy import Entropy
    from dpcov.moment import Lattice
    from dpcov.privacy import Budget, Neighbors
    from dpcov.releases import Release
    from dpcov.sources.rows import Rows


@dataclass(frozen=True, slots=True)
class AdaptiveGaussian:
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
    >>> from dpcov.moment import Lattice
    >>> from dpcov.privacy import ZCDP, Neighbors
    >>> lattice = Lattice(features=4, radius=1.0)
    >>> mechanism = AdaptiveGaussian(trace_share=0.0)
    >>> noise = mechanism.calibrate(lattice, ZCDP(0.5), Neighbors.ADD_REMOVE)
    >>> float(noise.counts.variance), round(float(noise.matrix.variance / lattice.bound**2), 4)
    (10.0, 1.1111)

    """

    by: Literal["gaussian", "separate-gaussian"] = "gaussian"
    radius_share: Share = 0.1
    trace_share: ShareOrNone = 0.05
    values: separate.Values = "rayleigh"
    vector_share: Share = 0.5

    name: ClassVar[str] = "adaptive-gaussian"
    use: ClassVar[str] = "reference: a radius chosen privately"
    source: ClassVar[str] = "Dong, Liang and Yi 2022"
    passes: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_fields(self)

    def calibrate(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> additive.Calibration | separate.Calibration:
        concentration(self.name, budget)
        chosen = self._gaussian() if self.by == "gaussian" else self._separate()
        return chosen.calibrate(lattice, budget, neighbors)

    def __call__(
        self, rows: Rows, *, budget: Budget, neighbors: Neighbors, entropy: Entropy
    ) -> Release:
        laws = self.calibrate(rows.lattice(), budget, neighbors)
        if isinstance(laws, separate.Calibration):
            return separate.release(self, laws, rows, entropy)
        return additive.release_calibrated(self, laws, rows, entropy)

    def _gaussian(self) -> Gaussian:
        return Gaussian(self.trace_share, radius="private", radius_share=self.radius_share)

    def _separate(self) -> SeparateGaussian:
        return SeparateGaussian(self.values, self.vector_share, "private", self.radius_share)
