"""Make the rows round by a rough covariance without bounds, then release their second moment."""

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
from dpcov.papers.mapped import last_laws, release_mapped
from dpcov.papers.primitives.sampled_covariance import SampledCovariance
from dpcov.papers.primitives.stable_rows import StableRows, least_units
from dpcov.papers.stable_covariance import TOO_SMALL
from dpcov.rows.moment import FINE_UNITS, LinearMap

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice
    from dpcov.rows.sources.rows import Rows

FLOOR = 2.0**-44  # of the largest eigenvalue: directions below are not stretched further
SMALLEST = 2.0**-60  # variance of an encoded row that counts as nothing
LARGEST_CEILING = 2**50


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public outcome of calibrating `Whitened`; `rho` is for the second moment of mapped rows."""

    stable: stable_covariance.Calibration
    rows: StableRows
    release: SampledCovariance
    rho: Fraction

    @property
    def guarantee(self) -> Guarantee:
        return self.stable.guarantee


@dataclass(frozen=True, slots=True)
class Whitened(Mechanism):
    r"""Second moment of rows made round by a stable covariance: (epsilon, delta)-DP, no bounds.

    As `StableCovariance` it uses no bound on the covariance and may refuse, but only a map is made
    of that matrix; what is released is the second moment of the mapped rows with Gaussian noise,
    which is far less. The error is small relative to the second moment about the midpoints of the
    columns: a mean that is many deviations from them drowns the covariance, in `StableCovariance`
    it does not. All rows are held in memory.

    Guarantee
    ---------
    (epsilon, delta)-DP for every input, under add/remove or replace-one, for rows or for persons
    with at most k rows; a refusal (`MechanismRefused`) is one of the outcomes.

    Sensitivity
    -----------
    `StableRows`, `ReleaseTest` and `SampledCovariance` hold their proofs. What follows the test,
    namely the samples, the noisy counts for the last radius and the second moment of rows mapped
    by what the samples tell (`Preconditioned` has their sensitivities; discrete Gaussian noise of
    `rho` in all), composes adaptively in Renyi DP: N phi_alpha(D) + alpha rho, turned into epsilon
    at delta. To this `test_share` and, under add/remove, `count_share` of epsilon are added; delta
    is not split, because a table is refused or goes on (`ReleaseTest`). N is fixed; D, and with it
    the largest leverage that a row may have, follows from the budget: no number of rows enters.

    Not protected
    -------------
    Schema, budget, order of the matrix, running time and memory; the number of rows (of persons)
    under replace-one. That the data does not fit in memory.

    Parameters
    ----------
    samples : int, public
        N over the number of features: the map's relative error is sqrt(2 / N) in each direction.
    slack : int, public
        How many rows may outweigh others before refusals are likely.
    test_share : float in (0, 1), public
        Share of epsilon for the test.
    count_share : float in (0, 1), public
        Share of epsilon for the number of units under add/remove; it scales the map.
    map_share : float in (0, 1), public
        Share for the map of the rho that the rest of epsilon allows.
    radius_share : float in (0, 1), public
        Share of what is left for the radius of the last clip.
    trace_share : float in [0, 1), public
        Share of the last release for the trace under add/remove.

    Returns
    -------
    Release
        (d, d) integers about mapped rows, the map (`Release.linear_map`), the trace, the noise law.

    Raises
    ------
    MechanismError
        The budget has no delta, or is too small. Before anything is read.
    MechanismRefused
        Too few rows, or too many outweigh others. The budget is spent.
    SourceError
        What can be read only once finds no room for a private copy. The budget is spent.

    Cost
    ----
    Three passes over the data; besides as `StableCovariance`.

    Source
    ------
    Brown, Hopkins and Smith 2023 (arXiv:2301.12250), repaired, in the place of the
    looks of Biswas, Dong, Kamath and Ullman 2020.

    Examples
    --------
    >>> from dpcov.rows.moment import Lattice
    >>> from dpcov.core.privacy import ApproxDP
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
            raise MechanismError(TOO_SMALL)
        last_laws(lattice, guarantee, rho, 0, self.radius_share, self.trace_share)  # or refuses
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
            if high > LARGEST_CEILING:
                raise MechanismError(TOO_SMALL)
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
        shape = _rounding_map(moment.astype(np.float64) * (step**2 / units))
        return release_mapped(
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
        """How many normal rows (persons) a release takes, from public numbers alone."""
        laws = self.calibrate(lattice, budget, neighbors)
        return least_units(laws.rows.ceiling * lattice.unit.max_rows, lattice.features)


def _rounding_map(covariance: Matrix) -> LinearMap:
    """Map that makes rows of this covariance round; total for every symmetric matrix."""
    values, vectors = np.linalg.eigh(covariance)
    floor = max(FLOOR * values[-1], SMALLEST)
    return LinearMap.rounded((vectors / np.sqrt(np.maximum(values, floor))).T)


def _largest_rho(epsilon: float, delta: float) -> float:
    """Largest rho, up to 1e-9, such that rho-zCDP implies (epsilon, delta)-DP."""
    low, high = 0.0, max(1.0, epsilon)
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if zcdp_epsilon(middle, delta) <= epsilon else (low, middle)
    return low
