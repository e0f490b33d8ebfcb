"""The mechanism gaussian: discrete Gaussian noise for zCDP and (epsilon, delta) budgets."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from dpcov.core.accounting import drawn_mu_squared
from dpcov.core.parameters import Share, ShareOrNone
from dpcov.core.privacy import ApproxDP, Budget, Guarantee, Neighbors, PureDP, exact
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.scalars import ScalarGaussian
from dpcov.errors import MechanismError
from dpcov.mechanisms import additive, radius
from dpcov.mechanisms.radius import Radius
from dpcov.published.costs import ROUNDING_VARIANCE

if TYPE_CHECKING:
    from dpcov.rows.moment import Lattice


@dataclass(frozen=True, slots=True)
class Gaussian(additive.Additive):
    r"""Second moment with discrete Gaussian noise, for rho-zCDP or (epsilon, delta)-DP.

    Guarantee
    ---------
    The guarantee is rho-zCDP or (epsilon, delta)-DP, for every input. It holds under add-remove and
    under replace-one, for rows and for persons with at most k rows. The (epsilon, delta) guarantee
    uses the exact curve of the Gaussian mechanism. The noise is drawn exactly on the integers,
    without floating-point numbers.

    Sensitivity
    -----------
    Let S = sum w w' be the second moment and let D be its change. The Frobenius norm of D is at
    most k B^2 under add-remove and sqrt(2) k B^2 under replace-one. Both bounds are tight
    (`Lattice.frobenius_squared` returns their squares as exact integers).

    The noise is independent discrete Gaussian noise. Its variance is s^2 on the diagonal and
    s^2 / 2 off the diagonal. Its cost in zCDP is

        sum_i D_ii^2 / 2s^2 + sum_(i<j) D_ij^2 / s^2 = ||D||_F^2 / 2s^2.

    For (epsilon, delta), the noise is a rounding of continuous Gaussian noise with variance
    s^2 - 8. The densities agree up to a factor e^a, where a = 1e-33 d(d+1)/2. The rounding is
    equivariant under translations (docs/proofs/release.md, section 7). Therefore
    s^2 = (sensitivity / mu)^2 + 8. Here mu comes from the exact curve, with a safety margin of
    1e-9.

    The mechanism also releases the trace. Under replace-one the trace costs no budget
    (`additive.trace_share` has the proof). Under add-remove the trace costs the fraction
    `trace_share` of rho (or of mu^2).

    A private clipping radius comes from noisy counts. A privacy unit changes the counts by at most
    k in l2 norm (sqrt(2) k under replace-one). The proof is in `mechanisms.radius`. The matrix
    spends the rest of rho (or of mu^2). Its sensitivity is the same at every radius that is fixed
    in advance, and Gaussian mechanisms compose adaptively. The 21 counts also have 8 more variance,
    so d(d+1)/2 in the formula of a becomes d(d+1)/2 + 21.

    Not protected
    -------------
    The schema, the budget, the order of the matrix and the running time are not protected. Under
    replace-one the number of rows (or persons) is public.

    Parameters
    ----------
    trace_share : float in [0, 1), public
        Fraction of the budget for the trace under add-remove.

    radius : {'public', 'private'}, public
        With ``public``, the clipping radius of the schema. With ``private``, a radius that the
        mechanism chooses from a noisy norm histogram.

    radius_share : float in (0, 1), public
        Fraction of the budget for the choice of a private radius.

    Returns
    -------
    Release
        Integers of shape (d, d) in units of 2^shift squared lattice steps, the trace, and the noise
        distribution.

    Raises
    ------
    MechanismError
        The budget is a pure budget, or it is too small for the exact sampler. dpcov has not read
        any data.

    SourceError
        The disk has no space for a private copy of data that can be read only once. The budget is
        spent.

    Cost
    ----
    The mechanism reads the data once, or twice to protect persons. A private radius doubles the
    number of readings. The mechanism draws d(d+1)/2 numbers, and 21 more for a private radius.

    Source
    ------
    Dwork, Talwar, Thakurta and Zhang 2014 (Analyze Gauss) proposed the mechanism. dpcov uses the
    orthogonal ensemble, which halves the variance off the diagonal. Bun and Steinke 2016 defined
    zCDP. The exact curve is Theorem 8 of Balle and Wang 2018; it replaces the bound
    sqrt(2 ln(1.25 / delta)). The discrete distribution comes from Canonne, Kamath and Steinke 2020.

    Examples
    --------
    >>> from dpcov import Neighbors, ZCDP
    >>> from dpcov.mechanisms import Gaussian
    >>> from dpcov.rows.moment import Lattice
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
        return self._calibrated(lattice, budget, neighbors, *concentration(self.name, budget))

    def calibrate_gaussian(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> additive.Calibration:
        rounded = concentration(self.name, budget, rounded=True)
        return self._calibrated(lattice, budget, neighbors, *rounded)

    def _calibrated(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors, rho: Fraction, extra: int
    ) -> additive.Calibration:
        guarantee = Guarantee(budget, Neighbors(neighbors), lattice.unit)
        lattice = radius.grid(self.radius, lattice)
        for_radius = radius.spent(self.radius, self.radius_share, rho)
        counts = radius.gaussian_counts(lattice, guarantee.neighbors, for_radius, extra)
        square = mu_squared(rho, extra)
        left = rho - for_radius
        return calibration(
            lattice, guarantee, left, extra, self.trace_share, counts=counts, whole=square
        )


def calibration(
    lattice: Lattice,
    guarantee: Guarantee,
    rho: Fraction,
    extra: int,
    trace_share: float,
    *,
    counts: ScalarGaussian | None = None,
    whole: Fraction | None = None,
) -> additive.Calibration:
    """Calibrate Gaussian noise for the matrix and for its trace.

    Parameters
    ----------
    lattice : Lattice
        Quantised rows, with their bounds.

    guarantee : Guarantee
        Guarantee of the release.

    rho : Fraction
        Part of rho that the matrix and the trace spend together.

    extra : int
        Variance that `concentration` adds to every noise distribution.

    trace_share : float
        Fraction of `rho` for the trace, if the trace costs budget.

    counts : ScalarGaussian or None
        Noise distribution of the counts for a private clipping radius.

    whole : Fraction or None
        Squared mu of the whole release, if the calibration is for a whole release.

    Returns
    -------
    Calibration
        Noise distributions of all parts.

    """
    neighbors = guarantee.neighbors
    share = exact(additive.trace_share(lattice, neighbors, trace_share))
    single = Fraction(lattice.unit_bound) ** 2
    # Under replace-one the trace costs no budget. Its noise has the variance of the matrix noise.
    trace_rho = share * rho if neighbors == Neighbors.ADD_REMOVE else rho / 2
    has_trace = lattice.dimension > 1 and trace_rho > 0
    return additive.Calibration(
        guarantee=guarantee,
        matrix=matrix_noise(lattice, neighbors, rho * (1 - share), extra),
        trace=ScalarGaussian(single / (2 * trace_rho) + extra) if has_trace else None,
        trace_alone=ScalarGaussian(single / (2 * rho) + extra),
        counts=counts,
        again=lambda other: calibration(other, guarantee, rho, extra, trace_share, counts=counts),
        mu_squared=whole,
    )


def matrix_noise(
    lattice: Lattice, neighbors: Neighbors, rho: Fraction, extra: int
) -> GaussianOrthogonal:
    """Return matrix noise that costs `rho`, with `extra` more variance (proof: `Gaussian`)."""
    variance = lattice.frobenius_squared(neighbors) / (2 * rho) + extra
    return GaussianOrthogonal(lattice.dimension, variance)


def concentration(name: str, budget: Budget, *, rounded: bool = False) -> tuple[Fraction, int]:
    """Return the rho that a Gaussian mechanism can spend, and the extra variance for rounding.

    Parameters
    ----------
    name : str
        Name of the mechanism, for a message.

    budget : Budget
        Budget of the mechanism.

    rounded : bool
        True to add the extra variance for a budget of rho, too. The noise then has a mu.

    Returns
    -------
    tuple of Fraction and int
        Rho, and the variance that is added to every noise distribution.

    Raises
    ------
    MechanismError
        The budget is a pure budget.

    """
    if isinstance(budget, PureDP):
        raise MechanismError(
            f"The mechanism {name} needs a delta or rho. Add --delta (well below 1 / number of "
            "people), use --rho, or choose --mechanism matrix-laplace."
        )
    if isinstance(budget, ApproxDP):
        return drawn_mu_squared(budget.epsilon, budget.delta) / 2, ROUNDING_VARIANCE
    return exact(budget.rho), ROUNDING_VARIANCE if rounded else 0


def mu_squared(rho: Fraction, extra: int) -> Fraction | None:
    """Return the mu^2 of noise that was calibrated for `rho`, or None if the noise has no mu.

    Discrete Gaussian noise is a rounding of continuous Gaussian noise only if it has the extra
    variance (docs/proofs/release.md, section 6c). Without it, the noise has a rho and no mu.
    """
    return 2 * rho if extra == ROUNDING_VARIANCE else None
