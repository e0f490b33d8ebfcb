"""A clipping radius chosen privately, then Laplace noise at that radius: Dong, Liang, Yi 2022."""

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
    r"""Second moment at a radius chosen privately, plus Laplace noise: pure epsilon-DP.

    Guarantee
    ---------
    Pure epsilon-DP, for every input, under add/remove or replace-one, for rows or for persons with
    at most k rows. A histogram of norms is epsilon_1-DP; the radius follows from it alone; the
    moment at any radius fixed in advance is epsilon_2-DP. These compose adaptively to
    epsilon_1 + epsilon_2 = epsilon, exactly. Stated an (epsilon, delta) budget, it spends no delta.

    Sensitivity
    -----------
    The histogram counts rows whose norm lies between neighbouring radii R 2^(-j/2): it changes by k
    add/remove, 2 k replace-one in l1 (`mechanisms.radius` has the proof). The moment: `Laplace` and
    `SeparateLaplace` have the proofs; in lattice units k B^2 is the same at every radius.

    Not protected
    -------------
    Schema, budget, order of the matrix, running time; the number of rows (of persons) under
    replace-one. The chosen radius is part of the release. Means and covariances are those of the
    clipped rows. Where the values are released apart, their noise is drawn after the data is read.

    Parameters
    ----------
    by : ``laplace`` or ``separate-laplace``, public
        How the moment is released at the radius; ``laplace`` leaves a noise law to denoise by.
    radius_share : float in (0, 1), public
        Share of epsilon for the histogram.
    trace_share : float in [0, 1), public
        Share of the rest for the trace, of ``laplace``.
    values, vector_share : public
        Those of `SeparateLaplace`.

    Returns
    -------
    Release
        That of `Laplace` or `SeparateLaplace`, on the lattice of the smaller radius.

    Raises
    ------
    MechanismError
        The budget is no pure one, or too small for the noise. Before anything is read.
    SourceError
        What can be read only once finds no room for a private copy. The budget is spent.

    Cost
    ----
    Two passes over the data (four with persons); d(d+1)/2 + 21 exact draws.

    Source
    ------
    Dong, Liang and Yi, "Differentially private covariance revisited", NeurIPS 2022, in the form for
    pure privacy (AdaptiveLapCov in their code). Theirs walks down the radii by the sparse vector
    technique with epsilon/8, comparing with a trace released with epsilon/8. That accounting is not
    used here, as it was not checked. The histogram costs one l1 sensitivity for all radii, tells
    the trace as well, and the choice is post-processing: the radius that minimises a bound on what
    clipping takes away (`Norms.clipped_away`) plus one on the error of the noise
    (`radius.noise_errors`, `separate.errors`; their code divides the latter's first term by 14,
    without a proof). Theirs then takes Laplace noise or separate values, whichever has the smaller
    bound; once denoised, Laplace noise has it at every radius, so here `by` says it: this is
    `Laplace` or `SeparateLaplace` with a private radius.

    Examples
    --------
    >>> from dpcov.rows.moment import Lattice
    >>> from dpcov.core.privacy import Neighbors, PureDP
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
