"""Second moment of rows that a rough private covariance whitens."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcov.core.parameters import Samples, Share, ShareOrNone, Whole, check_fields, check_shares
from dpcov.core.privacy import Guarantee, Neighbors, exact, zcdp_epsilon
from dpcov.errors import MechanismError
from dpcov.mechanisms.base import Mechanism
from dpcov.papers import stable_covariance
from dpcov.papers.accounting import compose_renyi, renyi_epsilon, renyi_of_zcdp
from dpcov.papers.primitives.sampled_covariance import SampledCovariance
from dpcov.papers.primitives.stable_rows import StableRows, least_units
from dpcov.papers.stable_covariance import SMALL_BUDGET_MESSAGE
from dpcov.papers.transformed import last_laws, release_transformed
from dpcov.rows.moment import FINE_UNITS, LinearMap

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice
    from dpcov.rows.sources.rows import Rows

# Smallest ratio to the largest eigenvalue. Smaller eigenvalues count as this ratio. Source: not
# recorded.
MIN_EIGENVALUE_RATIO = 2.0**-44
# Smallest variance of an encoded row. Smaller variances count as this value. Source: not recorded.
MIN_ENCODED_VARIANCE = 2.0**-60
# Largest ceiling of `StableRows` that the calibration tries.
MAX_CEILING = 2**50


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public noise parameters of `Whitened`.

    The field `rho` is the budget for the second moment of the whitened rows.
    """

    stable: stable_covariance.Calibration
    rows: StableRows
    release: SampledCovariance
    rho: Fraction

    @property
    def guarantee(self) -> Guarantee:
        return self.stable.guarantee


@dataclass(frozen=True, slots=True)
class Whitened(Mechanism):
    """Second moment of rows that a stable covariance whitens: (epsilon, delta)-DP without bounds.

    Like `StableCovariance`, the mechanism needs no bound on the covariance and can refuse to
    answer. It uses the stable covariance only for a transformation. It then releases the second
    moment of the whitened rows with Gaussian noise, which is much smaller.

    The error is small relative to the second moment about the midpoints of the columns. If a mean
    is many standard deviations away from its midpoint, the noise hides the covariance.
    `StableCovariance` does not have this problem. The mechanism holds all rows in memory.

    Guarantee
    ---------
    The release satisfies (epsilon, delta)-DP for every table, under add-remove and under
    replace-one. It protects rows, or persons with at most k rows. The guarantee covers a refusal
    (`MechanismRefused`) too.

    Sensitivity
    -----------
    `StableRows`, `ReleaseTest` and `SampledCovariance` contain their proofs. Three steps follow the
    test:

    - N samples, which give the transformation.
    - Noisy counts for the last radius.
    - The second moment of the transformed rows. `Preconditioned` contains the sensitivities.

    The counts and the second moment have discrete Gaussian noise that costs rho. The three steps
    compose adaptively in Renyi DP of order alpha, with the curve ``N phi_alpha(D) + alpha rho``. At
    delta, this curve gives an epsilon. The test adds the fraction `test_share` of epsilon. Under
    add-remove, the number of units adds the fraction `count_share`.

    The test and the later steps each use the whole delta (`ReleaseTest` contains the proof). N is
    fixed. The closeness D follows from the budget, and so does the largest leverage of a row. The
    noise therefore does not depend on the number of rows.

    Not protected
    -------------
    - The schema, the budget, the order of the matrix, the running time and the memory.
    - Under replace-one, the number of rows or persons.
    - The fact that the data do not fit into memory.

    Parameters
    ----------
    samples : int, public
        Number N of samples, divided by the number of features. The relative error of the
        transformation is ``sqrt(2 / N)`` in each direction.

    slack : int, public
        Number of atypical rows that are possible before a refusal becomes likely.

    test_share : float in (0, 1), public
        Fraction of epsilon for the test.

    count_share : float in (0, 1), public
        Fraction of epsilon for the number of units, under add-remove. The number scales the
        transformation.

    map_share : float in (0, 1), public
        Fraction for the transformation, of the rho that the rest of epsilon allows.

    radius_share : float in (0, 1), public
        Fraction of the remaining budget for the last radius.

    trace_share : float in [0, 1), public
        Fraction of the last release for the trace, under add-remove.

    Returns
    -------
    Release
        Integers of shape (d, d) for transformed rows, the transformation (`Release.linear_map`),
        the trace, and the noise distribution.

    Raises
    ------
    MechanismError
        The budget has no delta, or is too small. The error comes before dpcov reads any data.
    MechanismRefused
        The table has too few rows, or too many atypical rows. The budget is spent.
    SourceError
        There is no space for a private copy of a source that can be read only once. The budget is
        then spent.

    Cost
    ----
    The mechanism reads the data three times. The other costs equal the costs of `StableCovariance`.

    Source
    ------
    The transformation comes from Brown, Hopkins and Smith 2023 (arXiv:2301.12250), with a correct
    test. The transformation replaces the pilot queries of Biswas, Dong, Kamath and Ullman 2020.

    Examples
    --------
    >>> from dpcov import ApproxDP, Neighbors
    >>> from dpcov.mechanisms import Whitened
    >>> from dpcov.rows.moment import Lattice
    >>> Whitened().least_units(Lattice(10, 1.0), ApproxDP(1.0, 1e-6), Neighbors.ADD_REMOVE)
    34247

    """

    samples: Samples = 50
    slack: Whole = 5
    test_share: Share = 0.2
    count_share: Share = 0.01
    map_share: Share = 0.1
    radius_share: Share = 0.08
    trace_share: ShareOrNone = 0.05

    name: ClassVar[str] = "whitened"
    use: ClassVar[str] = (
        "no bound on the covariance, and far less noise than stable-covariance; may refuse; "
        "rows in memory"
    )
    source: ClassVar[str] = "dpcov, after Brown, Hopkins and Smith 2023"
    holds_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)
        check_shares(self, "test_share", "count_share")

    @property
    def passes(self) -> int:
        return 3

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        guarantee = Guarantee(budget, Neighbors(neighbors), lattice.unit)
        stable = stable_covariance.Calibration.of(
            self.name, guarantee, self.test_share, self.count_share, self.slack
        )
        epsilon = float(stable.epsilon) * (1 - 1e-12)
        rho = Fraction(_largest_rho(epsilon, stable.delta)) * (1 - exact(self.map_share))
        if rho == 0:
            raise MechanismError(SMALL_BUDGET_MESSAGE)
        last_laws(lattice, guarantee, rho, 0, self.radius_share, self.trace_share)  # can raise
        samples = self.samples * lattice.features
        limit = stable.test.limit

        def made(ceiling: int) -> tuple[StableRows, SampledCovariance]:
            rows = StableRows(ceiling, limit)
            return rows, SampledCovariance(rows.closeness(guarantee.neighbors), samples)

        def fits(ceiling: int) -> bool:
            curve = compose_renyi([made(ceiling)[1].renyi, renyi_of_zcdp(float(rho))])
            return renyi_epsilon(curve, stable.delta) <= epsilon

        low = 3 * limit + 1
        high = 2 * low
        while not fits(high):
            low, high = high, 2 * high
            if high > MAX_CEILING:
                raise MechanismError(SMALL_BUDGET_MESSAGE)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if fits(middle) else (middle, high)
        return Calibration(stable, *made(high), rho)

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        rows.require_rereadable()
        table = rows.integer_rows()
        units = max(1, laws.stable.unit_count(table, entropy))
        moment = stable_covariance.stable_sample(
            table, laws.rows, laws.stable.test, laws.release, entropy
        )
        step = rows.lattice().radius / FINE_UNITS
        shape = _whitening_map(moment.astype(np.float64) * (step**2 / units))
        return release_transformed(
            self,
            rows,
            shape,
            guarantee=laws.guarantee,
            rho=laws.rho,
            extra=0,
            radius_share=self.radius_share,
            trace_share=self.trace_share,
            entropy=entropy,
        )

    def least_units(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> int:
        """Return the number of normal rows or persons that a release needs.

        The result depends on public numbers only.
        """
        laws = self.calibrate(lattice, budget, neighbors)
        return least_units(laws.rows.ceiling * lattice.unit.max_rows, lattice.features)


def _whitening_map(covariance: Matrix) -> LinearMap:
    """Return the transformation that whitens rows of a given covariance.

    The function accepts every symmetric matrix.
    """
    values, vectors = np.linalg.eigh(covariance)
    floor = max(MIN_EIGENVALUE_RATIO * values[-1], MIN_ENCODED_VARIANCE)
    return LinearMap.rounded((vectors / np.sqrt(np.maximum(values, floor))).T)


def _largest_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho such that rho-zCDP implies (epsilon, delta)-DP.

    The relative accuracy is 1e-9.
    """
    low, high = 0.0, max(1.0, epsilon)
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if zcdp_epsilon(middle, delta) <= epsilon else (low, middle)
    return low
