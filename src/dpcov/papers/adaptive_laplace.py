"""Laplace noise at a private clipping radius (Dong, Liang and Yi 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from dpcov.mechanisms.pure import pure_epsilon
from dpcov.papers.adaptive import Adaptive
from dpcov.papers.laplace import Laplace
from dpcov.papers.separate_laplace import SeparateLaplace

if TYPE_CHECKING:
    from dpcov.core.privacy import Budget


@dataclass(frozen=True, slots=True)
class AdaptiveLaplace(Adaptive):
    """Second moment at a private clipping radius, plus Laplace noise.

    Guarantee
    ---------
    The release satisfies pure epsilon-DP for every table, under add-remove and under replace-one.
    It protects rows, or persons with at most k rows. With a budget of epsilon and delta, the
    mechanism spends no delta.

    The mechanism has two steps:

    - A noisy histogram of the row norms is ``epsilon_1``-DP. The clipping radius depends on this
      histogram only.
    - The second moment is ``epsilon_2``-DP at every radius that is fixed in advance.

    The steps compose adaptively, and ``epsilon_1 + epsilon_2 = epsilon`` exactly.

    Sensitivity
    -----------
    The histogram counts the rows between neighbouring radii ``R 2^(-j/2)``, where R is the radius
    of the schema. One unit changes the counts by k under add-remove and by ``2 k`` under
    replace-one, in l1 norm. `mechanisms.radius` contains the proof.

    `Laplace` and `SeparateLaplace` contain the proofs for the second moment. In lattice units, the
    sensitivity ``k B^2`` is the same at every radius.

    Not protected
    -------------
    - The schema, the budget, the order of the matrix and the running time.
    - Under replace-one, the number of rows or persons.
    - The chosen radius, which is part of the release.

    Means and covariances describe the clipped rows. If the eigenvalues are released separately,
    dpcov draws their noise after it reads the data.

    Parameters
    ----------
    by : {"laplace", "separate-laplace"}, public
        Mechanism that releases the second moment. Only ``laplace`` has a noise distribution, which
        denoising needs.

    radius_share : float in (0, 1), public
        Fraction of epsilon for the histogram.

    trace_share : float in [0, 1), public
        Fraction of the rest for the trace. Only ``laplace`` uses this fraction.

    values : {"rayleigh", "eigenvalues"}, public
        Option of `SeparateLaplace`.

    vector_share : float in (0, 1), public
        Option of `SeparateLaplace`.

    Returns
    -------
    Release
        Release of `Laplace` or `SeparateLaplace`, on the lattice of the smaller radius.

    Raises
    ------
    MechanismError
        The budget is not a pure epsilon, or too small for the noise. The error comes before dpcov
        reads any data.
    SourceError
        There is no space for a private copy of a source that can be read only once. The budget is
        then spent.

    Cost
    ----
    The mechanism reads the data twice, or four times with persons. It makes ``d (d + 1) / 2 + 21``
    exact draws.

    Source
    ------
    The source is AdaptiveLapCov in the code of Dong, Liang and Yi, "Differentially private
    covariance revisited", NeurIPS 2022. AdaptiveLapCov compares decreasing radii with a noisy trace
    by the sparse vector technique. Radius and trace use epsilon/8 each. dpcov does not use this
    accounting, because nobody has checked it.

    dpcov uses a histogram instead. The histogram has one l1 sensitivity for all radii and estimates
    the trace too. The choice of the radius is post-processing. The radius minimises the sum of two
    bounds:

    - A bound on the clipping bias (`Norms.clipped_away`).
    - A bound on the error of the noise (`radius.noise_errors` and `separate.errors`). The code of
      the paper divides the first term of `separate.errors` by 14, without a proof.

    AdaptiveLapCov then chooses the release with the smaller bound: Laplace noise or separate
    eigenvalues. After denoising, Laplace noise has the smaller bound at every radius. In dpcov, the
    option `by` therefore states the choice.

    Examples
    --------
    >>> from dpcov import Neighbors, PureDP
    >>> from dpcov.mechanisms import AdaptiveLaplace
    >>> from dpcov.rows.moment import Lattice
    >>> lattice = Lattice(features=4, radius=1.0)
    >>> noise = AdaptiveLaplace().calibrate(lattice, PureDP(1.0), Neighbors.ADD_REMOVE)
    >>> float(noise.counts.scale), round(float(noise.matrix.diagonal) / 2**40, 3)
    (10.0, 3.568)

    """

    by: Literal["laplace", "separate-laplace"] = "laplace"

    name: ClassVar[str] = "adaptive-laplace"
    whole: ClassVar[type[Laplace]] = Laplace
    apart: ClassVar[type[SeparateLaplace]] = SeparateLaplace

    def require_kind(self, budget: Budget) -> None:
        pure_epsilon(self.name, budget)
