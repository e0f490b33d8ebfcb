"""Subsample and aggregate: a second moment on which random groups of rows agree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from scipy.special import chdtri

from dpcov.core.parameters import Interval, Samples, Share, Whole
from dpcov.core.privacy import Guarantee, Neighbors, exact
from dpcov.errors import MechanismRefused
from dpcov.mechanisms.base import Mechanism
from dpcov.papers import stable_covariance
from dpcov.papers.accounting import renyi_epsilon
from dpcov.papers.primitives.random_groups import require_memory
from dpcov.papers.primitives.release_test import ReleaseTest
from dpcov.papers.primitives.sampled_covariance import SampledCovariance, most_samples
from dpcov.papers.primitives.stable_matrices import StableMatrices
from dpcov.papers.stable_covariance import FALSE_ALARM_PROBABILITY, MACHINE_FAULT_MESSAGE
from dpcov.rows.sources.quiet import quiet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice, SecondMoment
    from dpcov.rows.sources.rows import Rows

    Integers = NDArray[np.object_]

# What the mechanism needs; part of the message of a refusal.
MOMENT_GROUPS_REQUIREMENT = (
    "so many rows (persons) that random groups of them have nearly the same second moment"
)
# Largest number of groups. The mechanism compares all pairs of groups.
MAX_COMPARED_GROUPS = 10_000


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public noise parameters of `AshtianiLiaw`."""

    guarantee: Guarantee
    stable: StableMatrices
    groups: int
    release: SampledCovariance


@dataclass(frozen=True, slots=True)
class AshtianiLiaw(Mechanism):
    """Second moment on which random groups of rows agree, released by sampling.

    The release is the second moment of samples from a normal distribution with the private second
    moment. The mechanism needs no bound on the covariance, and the error is relative to the matrix
    itself. It needs very many rows and can refuse to answer. `StableCovariance` needs fewer rows.
    This mechanism requires nothing of single rows, only of groups.

    Guarantee
    ---------
    The release satisfies (epsilon, delta)-DP for every table, under add-remove and under
    replace-one. It protects rows, or persons with at most k rows. The guarantee covers a refusal
    (`MechanismRefused`) too.

    Sensitivity
    -----------
    A secret random draw puts each unit into one of t groups. The number t is public. One unit
    changes the second moment of one group, under both relations and for every k.

    - `StableMatrices` computes a score of the t matrices, which changes by at most 2. If both
      scores are below the limit, the weighted mean changes by at most the relative amount D, its
      `closeness`.
    - `ReleaseTest` refuses large scores. The test costs the fraction `test_share` of epsilon.
    - `SampledCovariance` releases the mean of N samples. The cost is ``N phi_alpha(D)`` in Renyi DP
      of order alpha.

    The test and the release together cost the sum of their epsilons and the larger delta. dpcov
    chooses t so that the requested N is possible.

    Not protected
    -------------
    - The schema, the budget, the order of the matrix and the running time.
    - Under replace-one, the number of rows or persons.

    Parameters
    ----------
    agreement : float in (0, 0.414), public
        Relative distance within which two groups agree. A value of about 0.2 needs the fewest rows.

    samples : int, public
        Smallest number of samples N, divided by the order of the matrix. The relative error in each
        direction is ``sqrt(2 / N)``.

    slack : int, public
        Number of groups that can disagree with others before a refusal becomes likely.

    test_share : float in (0, 1), public
        Fraction of epsilon for the test.

    Returns
    -------
    Release
        Integers of shape (d, d) in units of 2^shift squared lattice steps, without a noise
        distribution.

    Raises
    ------
    MechanismError
        The budget has no delta, or needs more groups than memory allows. The error comes before
        dpcov reads any data.
    MechanismRefused
        The groups disagree, for example because they are too small. The budget is spent.

    Cost
    ----
    The mechanism reads the data once, or twice with persons. It compares ``t^2`` pairs of matrices,
    where t is at most 10,000. The memory holds ``t d^2`` entries and ``t^2`` booleans.

    Source
    ------
    The source is Ashtiani and Liaw, "Private and polynomial time algorithms for learning Gaussians
    and beyond", COLT 2022 (arXiv:2111.11320). dpcov differs from the paper in these points:

    - The weights have levels, so that all constants are proved.
    - `ReleaseTest` replaces truncated Laplace noise.
    - Samples replace the Gaussian factor that hides the matrix.
    - All comparisons are exact.
    - The groups are random, so that the guarantee covers add-remove.

    Examples
    --------
    >>> from dpcov import ApproxDP, Neighbors
    >>> from dpcov.mechanisms import AshtianiLiaw
    >>> from dpcov.rows.moment import Lattice
    >>> budget = ApproxDP(1.0, 1e-6)
    >>> AshtianiLiaw().calibrate(Lattice(3, 1.0), budget, Neighbors.ADD_REMOVE).groups
    389
    >>> AshtianiLiaw().least_units(Lattice(3, 1.0), budget, Neighbors.ADD_REMOVE)
    1547451

    """

    agreement: Annotated[float, Interval(0, 0.414)] = 0.2
    samples: Samples = 50
    slack: Whole = 2
    test_share: Share = 0.3

    name: ClassVar[str] = "ashtiani-liaw"
    use: ClassVar[str] = "reference: groups of rows that agree; may refuse"
    source: ClassVar[str] = "Ashtiani and Liaw 2022"

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        guarantee = Guarantee(budget, Neighbors(neighbors), lattice.unit)
        epsilon, delta = stable_covariance.refusing_budget(self.name, budget)
        for_test = exact(self.test_share) * epsilon
        stable = StableMatrices(
            exact(self.agreement),
            ReleaseTest(for_test, delta, 2, FALSE_ALARM_PROBABILITY, self.slack),
        )
        samples = self.samples * lattice.dimension
        left = float(epsilon - for_test) * (1 - 1e-12)
        groups = stable.count_for(_closest(samples, left, delta))
        d = lattice.dimension
        require_memory(self.name, groups, d, d, most=MAX_COMPARED_GROUPS)
        close = stable.closeness(groups)
        release = SampledCovariance(close, most_samples(close, left, delta))
        return Calibration(guarantee, stable, groups, release)

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        lattice = rows.lattice().relative()
        moments = rows.second_moments(groups=laws.groups, labels=entropy, lattice=lattice)
        moment = _sample(moments, laws, entropy)
        public = laws.guarantee.neighbors == Neighbors.REPLACE_ONE
        count = sum(group.unit_count for group in moments) if public else None
        told = laws.guarantee, moment, lattice, 0
        return stable_covariance.released(self, rows, *told, count, entropy)

    def least_units(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> int:
        """Return the number of normal rows, or persons with one row, that a release needs.

        The result depends on public numbers only. The squared distance between two groups of m rows
        is about ``4/m`` times a chi-square number with ``d (d + 1) / 2 + 1`` degrees of freedom.

        Parameters
        ----------
        lattice : Lattice
            Lattice of the second moment.
        budget : ApproxDP
            Budget of the release.
        neighbors : Neighbors
            Relation between tables.

        Returns
        -------
        int
            Number of rows or persons.

        """
        groups, d = self.calibrate(lattice, budget, neighbors).groups, lattice.dimension
        largest = float(chdtri(d * (d + 1) // 2 + 1, 0.1 / groups))
        return math.ceil(groups * 4 * largest * ((1 + self.agreement) / self.agreement) ** 2)


@quiet(MACHINE_FAULT_MESSAGE)
def _sample(moments: Sequence[SecondMoment], laws: Calibration, entropy: Entropy) -> Integers:
    """Sample the second moment of all rows, of shape (d, d), from the groups that agree."""
    matrices = [moment.units + np.eye(len(moment.units), dtype=np.int64) for moment in moments]
    score, weights = laws.stable(matrices)
    if not laws.stable.test.passes(score, entropy):
        raise MechanismRefused(MOMENT_GROUPS_REQUIREMENT)
    whole = sum(w * matrix for w, matrix in zip(weights.tolist(), matrices, strict=True))
    return laws.release(laws.groups * np.asarray(whole), int(weights.sum()), entropy)


def _closest(samples: int, epsilon: float, delta: float) -> float:
    """Return the largest closeness at which a number of samples satisfies the budget.

    The result has a relative accuracy of 1e-9. If no closeness is small enough, the result is
    2^-60. The search works with logarithms, because the closeness can be tiny.
    """
    low, high = -60.0, 0.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        curve = SampledCovariance(2**middle, samples).renyi
        low, high = (middle, high) if renyi_epsilon(curve, delta) <= epsilon else (low, middle)
    return float(2**low)
