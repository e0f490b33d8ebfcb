"""Eigenvectors by the exponential mechanism, one after the other: Amin et al. 2019."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from dpcov.core.parameters import Count, Share, check_fields
from dpcov.core.privacy import Guarantee, Neighbors, PureDP, exact
from dpcov.core.samplers.scalars import ScalarLaplace
from dpcov.errors import MechanismError
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.pure import pure_epsilon
from dpcov.papers import spectral
from dpcov.papers.samplers.frame import sequential_frame

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice
    from dpcov.rows.sources.rows import Rows

FAILURE = 0.05  # beta of Corollary 1; moves budget between directions, never the guarantee


@dataclass(frozen=True, slots=True)
class EigenvectorSampling(Mechanism):
    r"""Noisy eigenvalues, and eigenvectors drawn one by one: pure epsilon-DP.

    Guarantee
    ---------
    Pure epsilon-DP, for every input, under add/remove or replace-one, for rows or for persons with
    at most k rows. Stated an (epsilon, delta) budget, it spends no delta.

    Sensitivity
    -----------
    Sorted eigenvalues in L1: the nuclear sensitivity, k B^2 add/remove, 2 k B^2 replace-one, and
    what rounding adds (`spectral.eigenvalue_sensitivity`). A direction u drawn from exp(t u'Cu) on
    the sphere costs t k B^2 add/remove, 2 t k B^2 replace-one (`spectral.concentration` has the
    proof). The draws' epsilons add up to (1 - value_share) epsilon, whatever the noisy eigenvalues
    on which they depend; drawing in the complement of earlier directions shortens rows. The last
    direction of d is determined up to its sign, so it costs nothing and gets nothing.

    Not protected
    -------------
    Schema, budget, order of the matrix; the number of rows (of persons) under replace-one. The
    running time depends on the data: rejection sampling, and noise that is drawn after the data is
    read. Directions are drawn in float64 from float64 eigenvectors; eigenvalues are exact up to an
    allowance for about 2^32 / d rows. Rayleigh values are exact integers.

    Parameters
    ----------
    rank : int or None, public
        Number of directions; the rest of the matrix is 0. None for all.
    allocation : ``adaptive`` or ``uniform``, public
        How the directions share: by the square root of their noisy eigenvalue (AD), or evenly
        (IT-U).
    values : ``eigenvalues`` or ``rayleigh``, public
        What is released beside the directions: noisy eigenvalues, before them; or v'Cv with noise,
        after them (IT-R), the best coefficients for the directions drawn. Needs ``uniform``.
    value_share : float in (0, 1), public
        Share of epsilon for the values.
    paper_constants : bool, public
        t = epsilon_i / 4 k B^2, a share for the last direction too, and eigenvalues clipped to
        [0, n k B^2], as printed; up to 4 times less of the budget is used.

    Returns
    -------
    Release
        (d, d) estimate in units of 2^shift squared lattice steps; no noise law.

    Raises
    ------
    MechanismError
        The budget is no pure one, or too small for the noise. Before anything is read.

    Cost
    ----
    One pass over the data (two with persons); about d^3 time and memory for 8 d^2 numbers.

    Source
    ------
    Amin, Dick, Kulesza, Munoz Medina and Vassilvitskii, "Differentially private covariance
    estimation", NeurIPS 2019, Algorithm 1 and Corollary 1. Differences: t is 2 (replace-one) or 4
    (add/remove) times theirs; add/remove halves the eigenvalue noise; eigenvalues are clipped only
    with `paper_constants` (denoising projects them); the code published with the paper draws from
    exp(2 epsilon_i u'Cu), 8 times its own text, and is not epsilon-DP. IT-R: dpcov.

    Examples
    --------
    >>> from dpcov.rows.moment import Lattice
    >>> lattice = Lattice(features=4, radius=1.0)
    >>> mechanism = EigenvectorSampling()
    >>> noise = mechanism.calibrate(lattice, PureDP(1.0), Neighbors.ADD_REMOVE).value_noise
    >>> round(float(noise.scale / lattice.bound), 3)
    2.0

    """

    rank: Count | None = None
    allocation: Literal["adaptive", "uniform"] = "adaptive"
    values: Literal["eigenvalues", "rayleigh"] = "eigenvalues"
    value_share: Share = 0.5
    paper_constants: bool = False

    name: ClassVar[str] = "eigenvector-sampling"
    use: ClassVar[str] = "reference: eigenvectors drawn one by one (IT-U, AD, IT-R)"
    source: ClassVar[str] = "Amin et al. 2019"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.values == "rayleigh" and self.allocation == "adaptive":
            raise MechanismError(
                "values = 'rayleigh' are known after the directions, so they can't allocate the "
                "budget. Set allocation = 'uniform'."
            )

    def calibrate(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> spectral.Calibration:
        epsilon = pure_epsilon(self.name, budget)
        neighbors = Neighbors(neighbors)
        relation = Neighbors.REPLACE_ONE if self.paper_constants else neighbors
        sensitivity = spectral.eigenvalue_sensitivity(lattice, relation)
        return spectral.Calibration(
            Guarantee(PureDP(float(epsilon)), neighbors, lattice.unit),
            ScalarLaplace(sensitivity / (epsilon * self._share_of_values(lattice))),
        )

    def run(self, rows: Rows, laws: spectral.Calibration, entropy: Entropy) -> Release:
        lattice, neighbors = rows.lattice(), laws.guarantee.neighbors
        epsilon = pure_epsilon(self.name, laws.guarantee.budget)
        left = epsilon * (1 - self._share_of_values(lattice))
        scale = laws.value_noise.scale
        moment = rows.second_moments()[0]
        matrix = moment.units.astype(np.float64)
        rank = spectral.rank(lattice, self.rank)
        eigenvalues = None
        if self.values == "eigenvalues":
            eigenvalues = spectral.noisy_eigenvalues(matrix, rank, scale, entropy)
        shares = self._shares(eigenvalues, float(scale), lattice)
        whole = spectral.concentration(lattice, neighbors, left)
        if self.paper_constants:
            whole = spectral.concentration(lattice, Neighbors.REPLACE_ONE, left) / 2
        vectors = sequential_frame(matrix, whole * shares, entropy).vectors
        if eigenvalues is None:
            values = spectral.rayleigh_values(
                moment, vectors, neighbors, epsilon * self._share_of_values(lattice), entropy
            )
        else:
            values = eigenvalues
        if self.paper_constants:
            values = np.clip(values, 0.0, spectral.largest_trace(neighbors, moment))
        return spectral.estimate(self, rows, laws, moment, vectors, values, entropy)

    def _share_of_values(self, lattice: Lattice) -> Fraction:
        """All of epsilon where the only direction is determined."""
        return Fraction(1) if lattice.dimension == 1 else exact(self.value_share)

    def _shares(self, eigenvalues: Matrix | None, scale: float, lattice: Lattice) -> Matrix:
        """Shares of the directions' budget (Corollary 1)."""
        d, rank = lattice.dimension, spectral.rank(lattice, self.rank)
        weights = np.ones(rank)
        if eigenvalues is not None and self.allocation == "adaptive":
            slack = scale * math.log(2 * d / FAILURE)
            weights = np.sqrt(np.maximum(eigenvalues + slack, 0.0))
        if not self.paper_constants and rank == d:
            weights[-1] = 0.0
        return spectral.shares(weights)
