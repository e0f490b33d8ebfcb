"""Gaussian orthogonal noise on the integers: zCDP, and (epsilon, delta) by the exact curve."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from dpcov.core.parameters import Share, ShareOrNone
from dpcov.core.privacy import ApproxDP, Budget, Guarantee, Neighbors, PureDP, exact, gaussian_mu
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.scalars import ScalarGaussian
from dpcov.errors import MechanismError
from dpcov.mechanisms import additive, radius
from dpcov.mechanisms.radius import Radius

if TYPE_CHECKING:
    from dpcov.rows.moment import Lattice

# Variance by which a discrete Gaussian must exceed a continuous one that it stands in for
# (docs/proofs/release.md 6c).
ROUNDING_VARIANCE = 8


@dataclass(frozen=True, slots=True)
class Gaussian(additive.Additive):
    r"""Second moment plus discrete Gaussian orthogonal noise: rho-zCDP or (epsilon, delta)-DP.

    Guarantee
    ---------
    rho-zCDP, or (epsilon, delta)-DP by the exact curve of the Gaussian mechanism, for every input,
    under add/remove or replace-one, for rows or for persons with at most k rows. Drawn exactly on
    the integers: no float enters.

    Sensitivity
    -----------
    Frobenius norm of the change D of S = sum w w': k B^2 add/remove, sqrt(2) k B^2 replace-one,
    tight (`Lattice.frobenius_squared`, an exact integer). Independent discrete Gaussians with
    variance s^2 on and s^2/2 off the diagonal cost sum_i D_ii^2/2s^2 + sum_(i<j) D_ij^2/s^2 =
    ||D||_F^2/2s^2 in zCDP. For (epsilon, delta) they are, up to a factor e^a with a = d(d+1)/2 *
    1e-33, a translation-equivariant rounding of continuous noise with s^2 - 8
    (docs/proofs/release.md 7), so s^2 = (sensitivity/mu)^2 + 8 with mu of the exact curve, kept
    1e-9 on the safe side. The trace is released beside the matrix: at no cost under replace-one
    (`additive.trace_share` has the proof), for the share `trace_share` of rho (of mu^2) under
    add/remove. A private radius is chosen from counts that change by at most k (sqrt(2) k under
    replace-one) in l2; `mechanisms.radius` has the proof. The rest of rho (of mu^2) goes to the
    moment, which changes by the above at any radius fixed in advance, and Gaussian mechanisms
    compose adaptively. The 21 counts, with a variance 8 larger too, add 21 to the d(d+1)/2 in a.

    Not protected
    -------------
    Schema, budget, order of the matrix, running time; the number of rows (of persons) under
    replace-one.

    Parameters
    ----------
    trace_share : float in [0, 1), public
        Share of the budget for the trace under add/remove.
    radius : ``public`` or ``private``, public
        The schema's radius, or one chosen from noisy counts of rows by their norm.
    radius_share : float in (0, 1), public
        Share of the budget for the choice of a private radius.

    Returns
    -------
    Release
        (d, d) integers in units of 2^shift squared lattice steps, the trace, and the noise law.

    Raises
    ------
    MechanismError
        The budget is a pure one, or too small for the exact sampler. Before anything is read.
    SourceError
        What can be read only once finds no room for a private copy. The budget is spent.

    Cost
    ----
    One pass over the data (two with persons), twice as many with a private radius; d(d+1)/2 exact
    draws, and 21 for a private radius.

    Source
    ------
    Dwork, Talwar, Thakurta and Zhang 2014 (Analyze Gauss) for the mechanism, here with the
    orthogonal ensemble, which halves the off-diagonal variance; Bun and Steinke 2016 for zCDP;
    Balle and Wang 2018, Theorem 8, for the curve, not sqrt(2 ln(1.25/delta)); Canonne, Kamath and
    Steinke 2020 for the discrete law.

    Examples
    --------
    >>> from dpcov.rows.moment import Lattice
    >>> from dpcov.core.privacy import ZCDP
    >>> lattice = Lattice(features=4, radius=1.0)
    >>> mechanism = Gaussian(trace_share=0.0)
    >>> noise = mechanism.calibrate(lattice, ZCDP(0.5), Neighbors.ADD_REMOVE).matrix
    >>> float(noise.variance / lattice.bound**2)
    1.0

    """

    trace_share: ShareOrNone = 0.05
    radius: Radius = "public"
    radius_share: Share = 0.1

    name: ClassVar[str] = "gaussian"
    use: ClassVar[str] = "zCDP and approximate privacy at any number of columns; drawn exactly"
    source: ClassVar[str] = "Dwork et al. 2014; exact curve and discrete noise"

    def calibrate(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> additive.Calibration:
        rho, extra = concentration(self.name, budget)
        guarantee = Guarantee(budget, Neighbors(neighbors), lattice.unit)
        lattice = radius.grid(self.radius, lattice)
        for_radius = radius.spent(self.radius, self.radius_share, rho)
        counts = radius.gaussian_counts(lattice, guarantee.neighbors, for_radius, extra)
        return calibration(
            lattice, guarantee, rho - for_radius, extra, self.trace_share, counts=counts
        )


def calibration(
    lattice: Lattice,
    guarantee: Guarantee,
    rho: Fraction,
    extra: int,
    trace_share: float,
    *,
    counts: ScalarGaussian | None = None,
) -> additive.Calibration:
    """Laws that cost `rho`, their variances larger by `extra`; see `concentration`."""
    neighbors = guarantee.neighbors
    share = exact(additive.trace_share(lattice, neighbors, trace_share))
    single = Fraction(lattice.unit_bound) ** 2
    # Under replace-one the trace has the matrix's variance, at no cost.
    trace_rho = share * rho if neighbors == Neighbors.ADD_REMOVE else rho / 2
    has_trace = lattice.dimension > 1 and trace_rho > 0
    return additive.Calibration(
        guarantee=guarantee,
        matrix=matrix_noise(lattice, neighbors, rho * (1 - share), extra),
        trace=ScalarGaussian(single / (2 * trace_rho) + extra) if has_trace else None,
        trace_alone=ScalarGaussian(single / (2 * rho) + extra),
        counts=counts,
        again=lambda other: calibration(other, guarantee, rho, extra, trace_share, counts=counts),
    )


def matrix_noise(
    lattice: Lattice, neighbors: Neighbors, rho: Fraction, extra: int
) -> GaussianOrthogonal:
    """Noise that costs `rho`, its variance larger by `extra`; `Gaussian` has the proof."""
    variance = lattice.frobenius_squared(neighbors) / (2 * rho) + extra
    return GaussianOrthogonal(lattice.dimension, variance)


def concentration(name: str, budget: Budget) -> tuple[Fraction, int]:
    """Rho of Gaussian mechanisms that keep the budget, and the variance to add for rounding."""
    if isinstance(budget, PureDP):
        raise MechanismError(
            f"{name} gives no pure differential privacy. Add a delta (well below one over the "
            "number of people), give rho, or choose matrix-laplace."
        )
    if isinstance(budget, ApproxDP):
        mu = gaussian_mu(budget.epsilon * (1 - 1e-12), budget.delta)
        return Fraction(mu) ** 2 / 2, ROUNDING_VARIANCE
    return exact(budget.rho), 0
