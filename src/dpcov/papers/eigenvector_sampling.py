"""Eigenvectors by the exponential mechanism, drawn one by one (Amin and others 2019)."""

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

# Probability beta of Corollary 1. It shifts budget between directions and does not change the
# guarantee. Source: not recorded.
FAILURE_PROBABILITY = 0.05


@dataclass(frozen=True, slots=True)
class EigenvectorSampling(Mechanism):
    """Noisy eigenvalues, and eigenvectors drawn one by one: pure epsilon-DP.

    Guarantee
    ---------
    The release satisfies pure epsilon-DP for every table, under add-remove and under replace-one.
    It protects rows, or persons with at most k rows. With a budget of epsilon and delta, the
    mechanism spends no delta.

    Sensitivity
    -----------
    Let C be the exact second moment. The sorted eigenvalues change by at most the nuclear
    sensitivity in l1 norm: ``k B^2`` under add-remove and ``2 k B^2`` under replace-one.
    `spectral.eigenvalue_sensitivity` adds the effect of rounding.

    The mechanism draws a direction u on the sphere with density proportional to ``exp(t u'Cu)``.
    The draw costs ``t k B^2`` under add-remove and ``2 t k B^2`` under replace-one.
    `spectral.concentration` contains the proof.

    Each direction is orthogonal to all earlier directions. Removing the earlier directions only
    shortens rows. The costs of all draws add up to ``(1 - value_share) epsilon``, for any noisy
    eigenvalues. The last of d directions is determined up to its sign, so it costs nothing.

    Not protected
    -------------
    - The schema, the budget and the order of the matrix.
    - Under replace-one, the number of rows or persons.
    - The running time, which depends on the data. Rejection sampling and noise that is drawn after
      reading the data both depend on the data.
    - Floating-point effects of the directions. Eigenvalues include an allowance for float errors,
      for up to about ``2^32 / d`` rows. Rayleigh values are exact integers.

    Parameters
    ----------
    rank : int, optional, public
        Number of directions. The rest of the matrix is 0. By default, all d directions are drawn.

    allocation : {"adaptive", "uniform"}, public
        Split of the budget between directions. The adaptive split follows the square roots of the
        noisy eigenvalues (AD). The uniform split is equal (IT-U).

    values : {"eigenvalues", "rayleigh"}, public
        Values of the directions. Noisy eigenvalues are drawn before the directions. Noisy Rayleigh
        values ``v'Cv`` are drawn after them (IT-R) and fit the drawn directions best. Rayleigh
        values need the uniform allocation.

    value_share : float in (0, 1), public
        Fraction of epsilon for the values.

    paper_constants : bool, public
        True to use the printed constants of the paper, for comparisons. They use at most the
        budget, and as little as a quarter of it. The constants are ``t = epsilon_i / (4 k B^2)``, a
        fraction for the last direction too, and eigenvalues between 0 and ``n k B^2``.

    Returns
    -------
    Release
        Estimate of shape (d, d) in units of 2^shift squared lattice steps, without a noise
        distribution.

    Raises
    ------
    MechanismError
        The budget is not a pure epsilon, or too small for the noise. The error comes before dpcov
        reads any data.

    Cost
    ----
    The mechanism reads the data once, or twice with persons. The running time grows with d^3. The
    memory holds ``8 d^2`` numbers.

    Source
    ------
    The source is Algorithm 1 and Corollary 1 of Amin, Dick, Kulesza, Munoz Medina and
    Vassilvitskii, "Differentially private covariance estimation", NeurIPS 2019. dpcov differs from
    the paper in these points:

    - The concentration t is 2 times (replace-one) or 4 times (add-remove) as large.
    - Add-remove halves the noise of the eigenvalues.
    - Eigenvalues are clipped only with `paper_constants`. Denoising projects them otherwise.
    - Rayleigh values (IT-R) are new in dpcov.

    The published code of the paper draws with density ``exp(2 epsilon_i u'Cu)``. This exponent is 8
    times the exponent in the text, so the code is not epsilon-DP.

    Examples
    --------
    >>> from dpcov import Neighbors, PureDP
    >>> from dpcov.mechanisms import EigenvectorSampling
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
                "Rayleigh values (values = 'rayleigh') come after the directions, so they can't "
                "allocate the budget. Set allocation = 'uniform'."
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
        """Return the fraction of epsilon for the values. With one column, the fraction is 1."""
        return Fraction(1) if lattice.dimension == 1 else exact(self.value_share)

    def _shares(self, eigenvalues: Matrix | None, scale: float, lattice: Lattice) -> Matrix:
        """Return the fractions of the directions' budget, of shape (rank,) (Corollary 1)."""
        d, rank = lattice.dimension, spectral.rank(lattice, self.rank)
        weights = np.ones(rank)
        if eigenvalues is not None and self.allocation == "adaptive":
            slack = scale * math.log(2 * d / FAILURE_PROBABILITY)
            weights = np.sqrt(np.maximum(eigenvalues + slack, 0.0))
        if not self.paper_constants and rank == d:
            weights[-1] = 0.0
        return spectral.shares(weights)
