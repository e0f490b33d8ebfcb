"""Second moment by subsample and aggregate: random groups of rows must agree on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from dpcov.core.parameters import Interval, Samples, Share, Whole
from dpcov.core.privacy import Guarantee, Neighbors, exact
from dpcov.errors import MechanismRefused
from dpcov.mechanisms.base import Mechanism
from dpcov.papers import stable_covariance
from dpcov.papers.accounting import renyi_epsilon
from dpcov.papers.primitives.random_groups import require_room
from dpcov.papers.primitives.release_test import ReleaseTest
from dpcov.papers.primitives.sampled_covariance import SampledCovariance, most_samples
from dpcov.papers.primitives.stable_matrices import StableMatrices
from dpcov.papers.stable_covariance import FALSE_ALARM, UNWEIGHED
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

WANTED = "so many rows (persons) that random groups of them have nearly the same second moment"
MOST_GROUPS = 10_000  # compared pairwise


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public outcome of calibrating `AshtianiLiaw`."""

    guarantee: Guarantee
    stable: StableMatrices
    groups: int
    release: SampledCovariance


@dataclass(frozen=True, slots=True)
class AshtianiLiaw(Mechanism):
    r"""Second moment on which random groups of rows agree, by samples from the normal law of it.

    For rows of any scale and condition, if there are very many of them: no bound on the covariance
    is used, and the error is relative to the matrix itself. It may refuse. `StableCovariance` needs
    fewer rows; this one asks nothing of single rows, only of groups.

    Guarantee
    ---------
    (epsilon, delta)-DP for every input, under add/remove or replace-one, for rows or for persons
    with at most k rows; a refusal (`MechanismRefused`) is one of the outcomes.

    Sensitivity
    -----------
    Each unit falls in one of t groups, t public, by a fresh secret draw: one unit changes the
    second moment of one group, to anything, under both relations and whatever k. `StableMatrices`:
    the score of t matrices changes by at most 2, and where both scores are below the limit their
    weighted mean changes by little relative to itself, D = `closeness`. `ReleaseTest`: refuses
    large scores, for `test_share` of epsilon; it and the release cost the sum of their epsilons and
    the larger delta. `SampledCovariance`: mean of N samples, N phi_alpha(D) in Renyi DP; t, and
    with it D, is what the N that is asked for needs.

    Not protected
    -------------
    Schema, budget, order of the matrix, running time; the number of rows (of persons) under
    replace-one.

    Parameters
    ----------
    agreement : float in (0, 0.414), public
        Relative distance within which two groups agree; about .2 needs the fewest rows.
    samples : int, public
        N over the order of the matrix, at least: the relative error is sqrt(2 / N) in each
        direction.
    slack : int, public
        How many groups may disagree with others before refusals are likely.
    test_share : float in (0, 1), public
        Share of epsilon for the test.

    Returns
    -------
    Release
        (d, d) integers in units of 2^shift squared lattice steps. No noise law.

    Raises
    ------
    MechanismError
        The budget has no delta, or is so small that there would be more groups than are held at
        once. Before anything is read.
    MechanismRefused
        The groups disagree; too small ones do. The budget is spent.

    Cost
    ----
    One pass over the data (two with persons); t^2 comparisons of d x d matrices, t at most
    10,000; memory for t d^2 entries and t^2 booleans.

    Source
    ------
    Ashtiani and Liaw, "Private and polynomial time algorithms for learning Gaussians and beyond",
    COLT 2022 (arXiv:2111.11320). Differences: weights by levels, so that the constants are proved;
    the test of `ReleaseTest` in the place of truncated Laplace noise; samples in the place of
    masking by a Gaussian factor; exact decisions; groups that are drawn, not cut by position, so
    that add/remove is covered.

    Examples
    --------
    >>> from dpcov.rows.moment import Lattice
    >>> from dpcov.core.privacy import ApproxDP
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
            exact(self.agreement), ReleaseTest(for_test, delta, 2, FALSE_ALARM, self.slack)
        )
        samples = self.samples * lattice.dimension
        left = float(epsilon - for_test) * (1 - 1e-12)
        groups = stable.count_for(_closest(samples, left, delta))
        d = lattice.dimension
        require_room(self.name, groups, d, d, most=MOST_GROUPS)
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
        """How many normal rows (persons of one row) a release takes, from public numbers alone.

        The squared distance of two groups of m is about 4/m chi-square(d(d+1)/2 + 1).
        """
        from scipy.stats import chi2

        groups, d = self.calibrate(lattice, budget, neighbors).groups, lattice.dimension
        largest = float(chi2.isf(0.1 / groups, d * (d + 1) // 2 + 1))
        return math.ceil(groups * 4 * largest * ((1 + self.agreement) / self.agreement) ** 2)


@quiet(UNWEIGHED)
def _sample(moments: Sequence[SecondMoment], laws: Calibration, entropy: Entropy) -> Integers:
    """(d, d) sampled sum over all rows, from the groups that agree."""
    matrices = [moment.units + np.eye(len(moment.units), dtype=np.int64) for moment in moments]
    score, weights = laws.stable(matrices)
    if not laws.stable.test.passes(score, entropy):
        raise MechanismRefused(WANTED)
    whole = sum(w * matrix for w, matrix in zip(weights.tolist(), matrices, strict=True))
    return laws.release(laws.groups * np.asarray(whole), int(weights.sum()), entropy)


def _closest(samples: int, epsilon: float, delta: float) -> float:
    """Largest closeness, up to 1e-9, at which so many samples keep (epsilon, delta); 2^-60 if none.

    In logarithms, since it may be tiny.
    """
    low, high = -60.0, 0.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        curve = SampledCovariance(2**middle, samples).renyi
        low, high = (middle, high) if renyi_epsilon(curve, delta) <= epsilon else (low, middle)
    return float(2**low)
