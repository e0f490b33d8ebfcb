"""Second moment of typical rows, released by sampling from a normal distribution."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcov.core.parameters import Above0, Share, Whole, check_fields, check_shares
from dpcov.core.privacy import ApproxDP, Guarantee, Neighbors, exact
from dpcov.core.samplers.scalars import ScalarLaplace
from dpcov.errors import MechanismError, MechanismRefused
from dpcov.mechanisms.base import Mechanism
from dpcov.papers.primitives.release_test import ReleaseTest
from dpcov.papers.primitives.sampled_covariance import (
    SampledCovariance,
    most_samples,
    usable_delta,
)
from dpcov.papers.primitives.stable_rows import (
    RIDGE_UNITS,
    StableRows,
    second_moment,
    usual_leverage,
)
from dpcov.published.kinds import EstimatedMatrix, Round
from dpcov.releases import Release
from dpcov.rows.sources.quiet import quiet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.rows.moment import Lattice
    from dpcov.rows.sources.rows import IntegerRows, Rows

    Integers = NDArray[np.object_]

# What the mechanism needs; part of the message of a refusal.
BALANCED_ROWS_REQUIREMENT = (
    "many rows (persons), of which hardly any outweighs many of the others in some direction"
)
SMALL_BUDGET_MESSAGE = "The privacy budget is too small. Use a larger one."
MACHINE_FAULT_MESSAGE = (
    "dpcov could not compute the weights of the rows, perhaps because of too little memory. If you "
    "use a ledger, the reserved budget stays spent."
)
# Largest number of bits of a published entry.
MAX_ENTRY_BITS = 62
# Number of bits by which a squared lattice step exceeds a squared step of `IntegerRows`.
FINE_STEP_BITS = 40
# Largest number of privacy units that the mechanism plans for.
MAX_UNITS = 2**45
# Probability of a refusal if all rows except `slack` rows are typical. Source: not recorded.
FALSE_ALARM_PROBABILITY = 2e-3


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public noise parameters of a mechanism that uses `StableRows`.

    Attributes
    ----------
    guarantee : Guarantee
        Guarantee of the release.
    test : ReleaseTest
        Test that can refuse a table.
    units : ScalarLaplace, optional
        Noise of the number of units. None means that the number is public.
    epsilon : Fraction
        Budget for the steps after the test.
    delta : float
        Delta for the steps after the test.

    """

    guarantee: Guarantee
    test: ReleaseTest
    units: ScalarLaplace | None
    epsilon: Fraction
    delta: float

    def __post_init__(self) -> None:
        if self.units is not None:
            self.units.require_drawable()

    @classmethod
    def of(
        cls, name: str, guarantee: Guarantee, test_share: float, count_share: float, slack: int
    ) -> Calibration:
        """Return the parameters for given fractions of the budget.

        Parameters
        ----------
        name : str
            Name of the mechanism.

        guarantee : Guarantee
            Guarantee of the release.

        test_share : float
            Fraction of epsilon for the test.

        count_share : float
            Fraction of epsilon for the number of units, under add-remove.

        slack : int
            Score that should still pass the test.

        Returns
        -------
        Calibration
            Noise parameters. The rest of epsilon is for the steps after the test.

        """
        add = guarantee.neighbors == Neighbors.ADD_REMOVE
        epsilon, delta = refusing_budget(name, guarantee.budget)
        for_test = exact(test_share) * epsilon
        for_count = exact(count_share) * epsilon if add else Fraction(0)
        test = ReleaseTest(for_test, delta, 1 if add else 2, FALSE_ALARM_PROBABILITY, slack)
        return cls(
            guarantee,
            test,
            ScalarLaplace(1 / for_count) if add else None,
            epsilon - for_test - for_count,
            delta,
        )

    def unit_count(self, table: IntegerRows, entropy: Entropy) -> int:
        """Return the number of units, with noise if the number is private."""
        return table.unit_count + (0 if self.units is None else self.units.sample(entropy))


def needs_delta(name: str) -> str:
    """Return the message of a mechanism that can refuse, for a budget without a delta."""
    return (
        f"{name} needs epsilon and delta, because it can refuse to answer. Give both, or choose "
        "preconditioned (for rho) or matrix-laplace (for epsilon alone)."
    )


def refusing_budget(name: str, budget: Budget) -> tuple[Fraction, float]:
    """Return epsilon and the usable delta of a mechanism that can refuse."""
    if not isinstance(budget, ApproxDP):
        raise MechanismError(needs_delta(name))
    return exact(budget.epsilon), usable_delta(budget.delta, budget.epsilon)


@dataclass(frozen=True, slots=True)
class StableCovariance(Mechanism):
    """Second moment of typical rows, released as the second moment of normal samples.

    The samples have the private second moment. A row is typical if its leverage is small. No
    direction then depends mainly on this row. The mechanism needs many rows, but no bound on the
    covariance. The error is relative to the matrix itself. The mechanism can refuse to answer. It
    holds all rows in memory.

    Guarantee
    ---------
    The release satisfies (epsilon, delta)-DP for every table, under add-remove and under
    replace-one. It protects rows, or persons with at most k rows. The guarantee covers a refusal
    (`MechanismRefused`) too.

    Sensitivity
    -----------
    The classes of the parts contain the proofs:

    - `StableRows` computes a score in exact integers. The score changes by 1 under add-remove and
      by 2 under replace-one. If both scores are below the limit, the weighted second moment G
      changes by at most the relative amount D, its `closeness`. For persons, the leverage of all
      rows of a person together counts, with the same constants.
    - `ReleaseTest` refuses large scores. The test costs the fraction `test_share` of epsilon.
    - `SampledCovariance` releases the mean of N samples from N(0, G). N is the largest number that
      the Renyi curve allows.

    The test and the release together cost the sum of their epsilons and the larger delta.

    The closeness D depends on the number of units. Under replace-one, the number is public. Under
    add-remove, discrete Laplace noise of scale ``1 / (count_share epsilon)`` hides the number. The
    cost of this noise adds to the other costs.

    Not protected
    -------------
    - The schema, the budget, the order of the matrix, the running time and the memory.
    - Under replace-one, the number of rows or persons.
    - The fact that the data do not fit into memory.

    Parameters
    ----------
    leverage : float above 0, optional, public
        Largest typical leverage ``x' G^-1 x`` of a row, times the number of units. For a person,
        all rows together count. A larger value needs more rows and noise. A smaller value makes a
        refusal likely. By default, one normal row in the whole table exceeds the value, times the
        largest number of rows of a person.

    slack : int, public
        Number of rows that can exceed the leverage before a refusal becomes likely.

    test_share : float in (0, 1), public
        Fraction of epsilon for the test.

    count_share : float in (0, 1), public
        Fraction of epsilon for the number of units, under add-remove.

    Returns
    -------
    Release
        Integers of shape (d, d) in units of 2^shift squared lattice steps, without a noise
        distribution. The relative error in each direction has the variance 2 / N.

    Raises
    ------
    MechanismError
        The budget has no delta, or is too small. The error comes before dpcov reads any data.
    MechanismRefused
        The table has too few rows, or too many atypical rows. The budget is spent.

    Cost
    ----
    The mechanism reads the data once, or twice with persons. The memory is ``8 (p + 1)`` bytes for
    each row. Each of at most k deletions takes a time of order ``n d^2``. The arithmetic of (d, d)
    matrices uses 120 digits.

    Source
    ------
    The source is Brown, Hopkins and Smith, COLT 2023. The title is "Fast, sample-efficient,
    affine-invariant private mean and covariance estimation for subgaussian distributions"
    (arXiv:2301.12250). dpcov differs from the paper in these points:

    - The test is new, because the test of the paper is not (epsilon, delta)-DP.
    - The distance between levels is the possible effect of one unit. The levels therefore do not
      depend on the number of rows, and the mechanism needs far fewer rows.
    - A ridge of a millionth of a lattice step replaces rank tests.
    - All comparisons are exact.
    - The guarantee covers add-remove and persons.

    Examples
    --------
    >>> from dpcov import ApproxDP, Neighbors
    >>> from dpcov.mechanisms import StableCovariance
    >>> from dpcov.rows.moment import Lattice
    >>> budget = ApproxDP(1.0, 1e-6)
    >>> StableCovariance().least_units(Lattice(10, 1.0), budget, Neighbors.ADD_REMOVE)
    10838

    """

    leverage: Above0 | None = None
    slack: Whole = 5
    test_share: Share = 0.25
    count_share: Share = 0.02

    name: ClassVar[str] = "stable-covariance"
    use: ClassVar[str] = "no bound on the covariance at all; may refuse; rows in memory"
    source: ClassVar[str] = "Brown, Hopkins and Smith 2023, repaired"
    holds_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)
        check_shares(self, "test_share", "count_share")

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        guarantee = Guarantee(budget, Neighbors(neighbors), lattice.unit)
        laws = Calibration.of(self.name, guarantee, self.test_share, self.count_share, self.slack)
        if self.at(laws, lattice, MAX_UNITS)[0] is None:
            raise MechanismError(SMALL_BUDGET_MESSAGE)
        return laws

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        lattice = rows.lattice().relative()
        table = with_intercept(rows.integer_rows(), lattice)
        stable, release = self.at(laws, lattice, laws.unit_count(table, entropy))
        if stable is None or release is None:
            raise MechanismRefused(BALANCED_ROWS_REQUIREMENT)
        moment = stable_sample(table, stable, laws.test, release, entropy)
        count = table.unit_count if laws.guarantee.neighbors == Neighbors.REPLACE_ONE else None
        return released(self, rows, laws.guarantee, moment, lattice, FINE_STEP_BITS, count, entropy)

    def at(
        self, laws: Calibration, lattice: Lattice, units: int
    ) -> tuple[StableRows, SampledCovariance] | tuple[None, None]:
        """Return the steps of a release with a released number of units.

        Parameters
        ----------
        laws : Calibration
            Noise parameters.
        lattice : Lattice
            Lattice of the second moment.
        units : int
            Released number of units.

        Returns
        -------
        tuple
            Stable rows and sampled covariance, or (None, None) if the table has too few units.

        """
        k, d = laws.test.limit, lattice.dimension
        leverage = self.leverage or lattice.unit.max_rows * usual_leverage(d, units)
        ceiling = math.floor(max(0, units) / leverage)
        if ceiling <= 3 * k + 1:
            return None, None
        stable = StableRows(ceiling, k)
        close = stable.closeness(laws.guarantee.neighbors)
        samples = most_samples(close, float(laws.epsilon) * (1 - 1e-12), laws.delta)
        return (stable, SampledCovariance(close, samples)) if samples >= 2 * d else (None, None)

    def least_units(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> int:
        """Return the smallest number of rows or persons that a release needs.

        The result depends on public numbers only.
        """
        laws = self.calibrate(lattice, budget, neighbors)
        low, high = 0, MAX_UNITS
        while high - low > 1:
            middle = (low + high) // 2
            enough = self.at(laws, lattice, middle)[0] is not None
            low, high = (low, middle) if enough else (middle, high)
        return high


def released(
    mechanism: Mechanism,
    rows: Rows,
    guarantee: Guarantee,
    moment: Integers,
    lattice: Lattice,
    fine_bits: int,
    unit_count: int | None,
    entropy: Entropy,
) -> Release:
    """Return the release of a sampled second moment.

    Parameters
    ----------
    mechanism : Mechanism
        Mechanism that makes the release.

    rows : Rows
        Data source.

    guarantee : Guarantee
        Guarantee of the release.

    moment : ndarray of int, shape (d, d)
        Sampled second moment, in units of ``2^-fine_bits`` squared lattice steps.

    lattice : Lattice
        Lattice of the second moment.

    fine_bits : int
        Number of extra bits of the sampled second moment.

    unit_count : int, optional
        Public number of units.

    entropy : Entropy
        Source of random bits.

    Returns
    -------
    Release
        Estimate without a noise distribution.

    """
    largest = max(abs(int(x)) for x in moment.ravel())
    shift = max(0, largest.bit_length() - fine_bits - MAX_ENTRY_BITS)
    down = shift + fine_bits
    units = ((moment + (1 << down >> 1)) >> down).astype(np.int64)
    estimate = EstimatedMatrix(lattice, shift, units, lattice.dimension)
    return Release(
        schema=rows.schema,
        guarantee=guarantee,
        mechanism=mechanism.name,
        parameters=asdict(mechanism),  # type: ignore[call-overload]
        rounds=(Round("matrix", estimate, guarantee.budget),),
        unit_count=unit_count,
        reproducible=entropy.reproducible,
    )


@quiet(MACHINE_FAULT_MESSAGE)
def stable_sample(
    table: IntegerRows,
    stable: StableRows,
    test: ReleaseTest,
    release: SampledCovariance,
    entropy: Entropy,
) -> Integers:
    """Sample the second moment of the typical rows.

    Parameters
    ----------
    table : IntegerRows
        Rows in exact integers.
    stable : StableRows
        Score and weights of the rows.
    test : ReleaseTest
        Test of the score.
    release : SampledCovariance
        Sampler.
    entropy : Entropy
        Source of random bits.

    Returns
    -------
    ndarray of int, shape (d, d)
        Sampled second moment, in squared units of `IntegerRows`.

    Raises
    ------
    MechanismRefused
        The test did not pass.
    SourceError
        The computer failed. The message is fixed.

    """
    score, weights = stable(table)
    if not test.passes(score, entropy):
        raise MechanismRefused(BALANCED_ROWS_REQUIREMENT)
    weighted = second_moment(table.rows, weights[table.owners])
    weighted[np.diag_indices(len(weighted))] += RIDGE_UNITS * stable.limit
    return release(weighted, stable.limit, entropy)


def with_intercept(table: IntegerRows, lattice: Lattice) -> IntegerRows:
    """Return the rows with the constant column of the lattice, if it has one."""
    if lattice.intercept_units == 0:
        return table
    constant = np.full(
        (1, table.rows.shape[1]), float(lattice.intercept_units << FINE_STEP_BITS // 2)
    )
    if table.roots is not None:
        constant = np.rint(table.roots * constant)
    return replace(table, rows=np.concatenate([table.rows, constant]))
