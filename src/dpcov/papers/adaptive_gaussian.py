"""Gaussian noise at a private clipping radius: the mechanism AdaptiveCov."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from dpcov.core.parameters import ShareOrNone
from dpcov.mechanisms.gaussian import Gaussian, concentration
from dpcov.papers.adaptive import Adaptive
from dpcov.papers.separate_gaussian import SeparateGaussian

if TYPE_CHECKING:
    from dpcov.core.privacy import Budget, Neighbors
    from dpcov.mechanisms import Calibrated
    from dpcov.rows.moment import Lattice


@dataclass(frozen=True, slots=True)
class AdaptiveGaussian(Adaptive):
    """Second moment at a private clipping radius, plus Gaussian noise.

    Guarantee
    ---------
    The release satisfies rho-zCDP, or (epsilon, delta)-DP by the exact curve of the Gaussian
    mechanism. The guarantee holds for every table, under add-remove and under replace-one. It
    protects rows, or persons with at most k rows.

    The mechanism has two steps:

    - A noisy histogram of the row norms costs ``rho_1``. The clipping radius depends on this
      histogram only.
    - The second moment costs ``rho_2`` at every radius that is fixed in advance.

    All noise is Gaussian, so the steps compose adaptively. Their costs add up to
    ``rho_1 + rho_2 = rho`` exactly. For (epsilon, delta), the squares of the Gaussian parameters mu
    add up.

    Sensitivity
    -----------
    The histogram counts the rows between neighbouring radii ``R 2^(-j/2)``, where R is the radius
    of the schema. One unit changes the counts by k under add-remove and by ``sqrt(2) k`` under
    replace-one, in l2 norm. `mechanisms.radius` contains the proof.

    `Gaussian` and `SeparateGaussian` contain the proofs for the second moment. In lattice units,
    the sensitivity ``k B^2`` is the same at every radius.

    Not protected
    -------------
    - The schema, the budget, the order of the matrix and the running time.
    - Under replace-one, the number of rows or persons.
    - The chosen radius, which is part of the release.

    Means and covariances describe the clipped rows. If the eigenvalues are released separately,
    dpcov draws their noise after it reads the data.

    Parameters
    ----------
    by : {"gaussian", "separate-gaussian"}, public
        Mechanism that releases the second moment. Only ``gaussian`` has a noise distribution, which
        denoising needs.

    radius_share : float in (0, 1), public
        Fraction of the budget for the histogram.

    trace_share : float in [0, 1), public
        Fraction of the rest for the trace. Only ``gaussian`` under add-remove uses this fraction.

    values : {"rayleigh", "eigenvalues"}, public
        Option of `SeparateGaussian`.

    vector_share : float in (0, 1), public
        Option of `SeparateGaussian`.

    Returns
    -------
    Release
        Release of `Gaussian` or `SeparateGaussian`, on the lattice of the smaller radius.

    Raises
    ------
    MechanismError
        The budget is a pure epsilon, or too small for the exact sampler. The error comes before
        dpcov reads any data.
    SourceError
        There is no space for a private copy of a source that can be read only once. The budget is
        then spent.

    Cost
    ----
    The mechanism reads the data twice, or four times with persons. It makes ``d (d + 1) / 2 + 21``
    exact draws.

    Source
    ------
    The source is AdaptiveCov of Dong, Liang and Yi, "Differentially private covariance revisited",
    NeurIPS 2022.

    AdaptiveCov releases the trace with rho/8. It then compares decreasing radii by the sparse
    vector technique with rho/8. The Laplace noise of this technique excludes the exact Gaussian
    curve.

    dpcov uses a histogram instead. The histogram is a Gaussian mechanism, has one l2 sensitivity
    for all radii, and estimates the trace too. `AdaptiveLaplace` lists the other differences.

    Examples
    --------
    >>> from dpcov import Neighbors, ZCDP
    >>> from dpcov.mechanisms import AdaptiveGaussian
    >>> from dpcov.rows.moment import Lattice
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

    def calibrate_gaussian(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> Calibrated:
        self.require_kind(budget)
        return self._chosen().calibrate_gaussian(lattice, budget, neighbors)
