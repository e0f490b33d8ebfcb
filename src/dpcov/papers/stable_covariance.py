"""Second moment of the rows that no few others outweigh, released by sampling from it."""

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
    RIDGE,
    StableRows,
    second_moment,
    usual_leverage,
)
from dpcov.releases import Release
from dpcov.rows.sources.quiet import quiet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.rows.moment import Lattice
    from dpcov.rows.sources.rows import IntegerRows, Rows

    Integers = NDArray[np.object_]

WANTED = "many rows (persons), of which hardly any outweighs many of the others in some direction"
TOO_SMALL = "The privacy budget is too small. Use a larger one."
UNWEIGHED = (
    "The rows could not be weighed against each other (too little memory, perhaps). If a ledger "
    "was set, the reserved budget stays spent."
)
ENTRY_BITS = 62  # of a published entry
FINE_BITS = 40  # of a squared lattice step, in squared steps of `IntegerRows`
MOST_UNITS = 2**45
FALSE_ALARM = 2e-3  # chance of refusing where all rows but `slack` are unremarkable


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public outcome of calibrating a mechanism that goes by `StableRows`.

    `units` is the noise for the number of units, None where that is public; `epsilon` and `delta`
    are for what follows the test.
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
        """Shares of epsilon for the test and the number of units; the rest for what follows."""
        add = guarantee.neighbors == Neighbors.ADD_REMOVE
        epsilon, delta = refusing_budget(name, guarantee.budget)
        for_test = exact(test_share) * epsilon
        for_count = exact(count_share) * epsilon if add else Fraction(0)
        test = ReleaseTest(for_test, delta, 1 if add else 2, FALSE_ALARM, slack)
        return cls(
            guarantee,
            test,
            ScalarLaplace(1 / for_count) if add else None,
            epsilon - for_test - for_count,
            delta,
        )

    def unit_count(self, table: IntegerRows, entropy: Entropy) -> int:
        """Number of units: public, or with noise."""
        return table.unit_count + (0 if self.units is None else self.units.sample(entropy))


def needs_delta(name: str) -> str:
    """What a mechanism that may refuse says of other budgets."""
    return (
        f"{name} needs epsilon and delta: it may refuse, and delta is for that. Give both, "
        "or choose preconditioned for rho, matrix-laplace for epsilon alone."
    )


def refusing_budget(name: str, budget: Budget) -> tuple[Fraction, float]:
    """Epsilon and usable delta of a mechanism that may refuse."""
    if not isinstance(budget, ApproxDP):
        raise MechanismError(needs_delta(name))
    return exact(budget.epsilon), usable_delta(budget.delta, budget.epsilon)


@dataclass(frozen=True, slots=True)
class StableCovariance(Mechanism):
    r"""Second moment of unremarkable rows, by samples from the normal law that has it.

    For rows of any scale and condition, if there are many of them: no bound on the covariance is
    used, and the error is relative to the matrix itself. It may refuse. All rows are held in
    memory.

    Guarantee
    ---------
    (epsilon, delta)-DP for every input, under add/remove or replace-one, for rows or for persons
    with at most k rows; a refusal (`MechanismRefused`) is one of the outcomes.

    Sensitivity
    -----------
    Proofs are with the parts. `StableRows`: a score changes by 1 add/remove, by 2 replace-one, and
    where both scores are below the limit the weighted second moment G changes by little relative
    to itself, D = `closeness`; persons are judged by the leverage of all their rows together, at
    the same constants. Both are decided in exact integers. `ReleaseTest`: refuses large scores,
    `test_share` of epsilon; it and the release cost the sum of their epsilons and the larger delta.
    `SampledCovariance`: mean of N samples from N(0, G), N the most that the Renyi curve allows. D
    depends on the number of units: public under replace-one, else with discrete Laplace noise of
    scale 1 / (`count_share` epsilon), whose epsilon adds to the rest.

    Not protected
    -------------
    Schema, budget, order of the matrix, running time and memory; the number of rows (of persons)
    under replace-one. That the data does not fit in memory.

    Parameters
    ----------
    leverage : float above 0 or None, public
        Number of units times the largest leverage x'G^-1 x that a row (all rows of a person)
        should have; more needs more rows and noise, less makes a refusal likely. Default: what one
        normal row in all exceeds, times the largest number of rows of a person.
    slack : int, public
        How many rows may exceed it at least before refusals are likely.
    test_share : float in (0, 1), public
        Share of epsilon for the test.
    count_share : float in (0, 1), public
        Share of epsilon for the number of units under add/remove.

    Returns
    -------
    Release
        (d, d) integers in units of 2^shift squared lattice steps. No noise law: the relative error
        in each direction has variance 2 / N.

    Raises
    ------
    MechanismError
        The budget has no delta, or is too small. Before anything is read.
    MechanismRefused
        Too few rows, or too many outweigh others. The budget is spent.

    Cost
    ----
    One pass over the data (two with persons), 8 (p + 1) bytes for each row; O(n d^2) time for each
    of at most k deletions; arithmetic of d x d matrices with 120 digits.

    Source
    ------
    Brown, Hopkins and Smith, "Fast, sample-efficient, affine-invariant private mean and covariance
    estimation for subgaussian distributions", COLT 2023 (arXiv:2301.12250). Differences: their
    test, which is not (epsilon, delta)-DP, is replaced; levels are spaced by what one unit can do,
    so that no number of rows enters and far fewer do; a ridge of a millionth of a lattice step in
    place of rank tests; exact decisions; add/remove; persons.

    Examples
    --------
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
        if self.at(laws, lattice, MOST_UNITS)[0] is None:
            raise MechanismError(TOO_SMALL)
        return laws

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        lattice = rows.lattice().relative()
        table = with_intercept(rows.integer_rows(), lattice)
        stable, release = self.at(laws, lattice, laws.unit_count(table, entropy))
        if stable is None or release is None:
            raise MechanismRefused(WANTED)
        moment = stable_sample(table, stable, laws.test, release, entropy)
        count = table.unit_count if laws.guarantee.neighbors == Neighbors.REPLACE_ONE else None
        return released(self, rows, laws.guarantee, moment, lattice, FINE_BITS, count, entropy)

    def at(
        self, laws: Calibration, lattice: Lattice, units: int
    ) -> tuple[StableRows, SampledCovariance] | tuple[None, None]:
        """What is done with so many units, a released number; nothing where they are too few."""
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
        """How many rows (persons) a release takes at least, from public numbers alone."""
        laws = self.calibrate(lattice, budget, neighbors)
        low, high = 0, MOST_UNITS
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
    """The release of a sampled second moment, in units of 2^-`fine_bits` squared lattice steps."""
    largest = max(abs(int(x)) for x in moment.ravel())
    shift = max(0, largest.bit_length() - fine_bits - ENTRY_BITS)
    down = shift + fine_bits
    return Release(
        schema=rows.schema,
        lattice=lattice,
        guarantee=guarantee,
        mechanism=mechanism.name,
        parameters=asdict(mechanism),  # type: ignore[call-overload]
        noise=None,
        trace_noise=None,
        shift=shift,
        published=((moment + (1 << down >> 1)) >> down).astype(np.int64),
        published_trace=None,
        unit_count=unit_count,
        reproducible=entropy.reproducible,
    )


@quiet(UNWEIGHED)
def stable_sample(
    table: IntegerRows,
    stable: StableRows,
    test: ReleaseTest,
    release: SampledCovariance,
    entropy: Entropy,
) -> Integers:
    """(d, d) sampled second moment of the stable rows, in squared units of `IntegerRows`.

    Raises
    ------
    MechanismRefused : the test did not pass.
    SourceError : a fault of the machine, in a fixed text.

    """
    score, weights = stable(table)
    if not test.passes(score, entropy):
        raise MechanismRefused(WANTED)
    weighted = second_moment(table.rows, weights[table.owners])
    weighted[np.diag_indices(len(weighted))] += RIDGE * stable.limit
    return release(weighted, stable.limit, entropy)


def with_intercept(table: IntegerRows, lattice: Lattice) -> IntegerRows:
    """The same rows completed by the constant of the lattice, if it has one."""
    if lattice.intercept_units == 0:
        return table
    constant = np.full((1, table.rows.shape[1]), float(lattice.intercept_units << FINE_BITS // 2))
    if table.roots is not None:
        constant = np.rint(table.roots * constant)
    return replace(table, rows=np.concatenate([table.rows, constant]))
