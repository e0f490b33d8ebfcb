"""Second moment of rows that are whitened gap by gap, by votes of groups, without bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcov.core.parameters import Count, Share, ShareOrNone, Whole, check_fields, check_shares
from dpcov.core.privacy import ApproxDP, Guarantee, Neighbors, exact
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.errors import MechanismError
from dpcov.mechanisms.base import Mechanism
from dpcov.papers import stable_covariance
from dpcov.papers.accounting import gdp_beside_bad_events, gdp_of_pure
from dpcov.papers.preconditioned import QueryCount
from dpcov.papers.primitives.group_votes import EigenvalueEstimator, SubspaceRecovery
from dpcov.papers.primitives.random_groups import require_memory
from dpcov.papers.stable_covariance import MACHINE_FAULT_MESSAGE
from dpcov.papers.transformed import last_laws, release_transformed
from dpcov.published.costs import ROUNDING_VARIANCE
from dpcov.rows.moment import UNITS, LinearMap
from dpcov.rows.sources.quiet import quiet

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice, SecondMoment
    from dpcov.rows.sources.rows import Rows


# Smallest ratio of neighbouring eigenvalues that counts as a gap. Source: not recorded.
GAP_RATIO = 4.0
# Largest ratio of eigenvalues. Above it, a fine step reduces the largest eigenvalues. Source: the
# paper.
MAX_EIGENVALUE_RATIO = 1000.0
# Ratio of the clipped squared norm to the mean squared norm. Source: not recorded.
CLIPPING_NORM_RATIO = 32.0
# Largest number of groups.
MAX_GROUPS = 200_000
# Largest number of pilot queries.
MAX_QUERIES = 64


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public noise parameters of `UnboundedGaussian`.

    The costs are squares of Gaussian parameters mu.
    """

    guarantee: Guarantee
    total: Fraction
    values: EigenvalueEstimator
    spaces: SubspaceRecovery
    fine: Fraction

    @property
    def value_cost(self) -> Fraction:
        return Fraction(self.values.mu) ** 2

    @property
    def space_cost(self) -> Fraction:
        test = Fraction(gdp_of_pure(float(self.spaces.test.epsilon)))
        return test**2 + Fraction(self.spaces.mu) ** 2


@dataclass(frozen=True, slots=True)
class UnboundedGaussian(Mechanism):
    """Second moment of rows that are whitened gap by gap: (epsilon, delta)-DP without bounds.

    The mechanism is for very many normal rows with few columns, of any scale and condition. It can
    refuse to answer. It is a demonstration of the method. `Whitened` gives better results with far
    fewer rows.

    Guarantee
    ---------
    The release satisfies (epsilon, delta)-DP for every table, under add-remove and under
    replace-one. It protects rows, or persons with at most k rows. The guarantee covers a refusal
    (`MechanismRefused`) too.

    Sensitivity
    -----------
    For each pilot query, a secret random draw puts the units into groups. The number of groups is
    public. One unit changes one group, under both relations and for every k.

    `EigenvalueEstimator` and `SubspaceRecovery` prove that a pilot query of all groups is mu-GDP,
    except in a bad event. All bad events together have a probability of at most ``delta / 2``.
    `with_bad_events` gives the remaining mu.

    The final release and the fine step are second moments with Gaussian noise. `Preconditioned`
    contains their sensitivities, and their variances are larger by 8 because of rounding. The
    squares of mu add up adaptively. The final release uses all budget that the pilot queries leave.

    Not protected
    -------------
    - The schema, the budget, the order of the matrix, the number of pilot queries and the running
      time.
    - Under replace-one, the number of rows or persons.

    Parameters
    ----------
    looks : int, optional, public
        Largest number of gaps that the mechanism removes. The default is the number of features.

    group_size : int, public
        Planned number of rows in a group. Smaller groups make refusals likely.

    value_share, space_share, fine_share : float in (0, 1), public
        Fractions of the budget for the eigenvalues, the subspaces and the fine step.

    references : int, optional, public
        Number of random vectors. The groups then compare the images of these vectors. By default,
        the groups compare projectors.

    slack : int, public
        Number of groups that can disagree with others before a refusal becomes likely.

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
        The budget has no delta, or needs more groups than memory allows. The error comes before
        dpcov reads any data.
    MechanismRefused
        The groups disagree, for example because they are too small. The budget is spent.
    SourceError
        There is no space for a private copy of a source that can be read only once. The budget is
        then spent.

    Cost
    ----
    The mechanism reads the data at most ``2 looks + 4`` times, and twice as often with persons. A
    subspace query of t groups takes a time of order ``t^2 d^2``.

    Source
    ------
    The source is Kamath, Mouzakis, Singhal, Steinke and Ullman, "A private and
    computationally-efficient estimator for unbounded Gaussians", COLT 2022 (arXiv:2111.04609).
    dpcov differs from the paper in these points:

    - The thresholds are exact, and the number of groups is large enough for them.
    - Averages of projectors with proved constants replace GoodCenter.
    - The mechanism removes the first gap that it finds, by stretching the directions below the gap.
      The queries therefore end early.
    - An eigenvalue of 0 counts as 2^-40 of the eigenvalue above it.
    - If the schema has an intercept, groups subtract their own means. The paper uses pairs of rows
      instead.
    - The last radius is private.

    Examples
    --------
    >>> from dpcov import ApproxDP, Neighbors
    >>> from dpcov.mechanisms import UnboundedGaussian
    >>> from dpcov.rows.moment import Lattice
    >>> budget = ApproxDP(1.0, 1e-6)
    >>> UnboundedGaussian().least_units(Lattice(3, 1.0), budget, Neighbors.ADD_REMOVE)
    577200

    """

    looks: QueryCount | None = None
    group_size: Count = 200
    value_share: Share = 0.25
    space_share: Share = 0.4
    fine_share: Share = 0.05
    references: Count | None = None
    slack: Whole = 5
    radius_share: Share = 0.15
    trace_share: ShareOrNone = 0.05

    name: ClassVar[str] = "unbounded-gaussian"
    use: ClassVar[str] = "reference: normal rows without bounds, at very many rows; may refuse"
    source: ClassVar[str] = "Kamath, Mouzakis, Singhal, Steinke and Ullman 2022"

    def __post_init__(self) -> None:
        check_fields(self)
        check_shares(self, "value_share", "space_share", "fine_share")

    @property
    def passes(self) -> int:
        """Number of reads.

        Each pilot query needs two reads. Four more reads are for the last eigenvalues, the fine
        step, the radius and the release.
        """
        return 2 * (MAX_QUERIES if self.looks is None else self.looks) + 4

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        guarantee = Guarantee(budget, Neighbors(neighbors), lattice.unit)
        if not isinstance(budget, ApproxDP):
            raise MechanismError(stable_covariance.needs_delta(self.name))
        lattice = lattice.relative()
        looks, bad = self._query_limit(lattice), budget.delta / 2
        total = (
            Fraction(gdp_beside_bad_events(budget.epsilon * (1 - 1e-12), budget.delta, bad)) ** 2
        )
        each = bad / (2 * looks + 1) * (1 - 1e-9)
        value_mu = math.sqrt(exact(self.value_share) * total / (looks + 1)) * (1 - 1e-12)
        space_mu = math.sqrt(exact(self.space_share) * total / looks) * (1 - 1e-12)
        laws = Calibration(
            guarantee,
            total,
            EigenvalueEstimator(lattice.features, value_mu, each),
            SubspaceRecovery.of(space_mu, each, self.group_size, self.references, self.slack),
            exact(self.fine_share) * total,
        )
        groups = max(laws.values.groups, laws.spaces.groups)
        d = lattice.dimension
        require_memory(self.name, groups, d, max(d, self.references or 0), most=MAX_GROUPS)
        left = total * (1 - exact(self.value_share) - exact(self.space_share)) - laws.fine
        for rho in (left / 2, total / 2):
            last_laws(
                lattice, guarantee, rho, ROUNDING_VARIANCE, self.radius_share, self.trace_share
            )
        self._fine_noise(lattice, laws).require_drawable()
        return laws

    def _fine_noise(self, lattice: Lattice, laws: Calibration) -> GaussianOrthogonal:
        variance = (
            lattice.frobenius_squared(laws.guarantee.neighbors) / laws.fine + ROUNDING_VARIANCE
        )
        return GaussianOrthogonal(lattice.dimension, variance)

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        rows.require_rereadable()
        shape, left = self._learned(rows, laws, entropy)
        return release_transformed(
            self,
            rows,
            shape,
            guarantee=laws.guarantee,
            rho=left / 2,
            extra=ROUNDING_VARIANCE,
            radius_share=self.radius_share,
            trace_share=self.trace_share,
            entropy=entropy,
        )

    def least_units(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> int:
        """Return the number of rows or persons that fill the groups.

        The result depends on public numbers only.
        """
        laws = self.calibrate(lattice, budget, neighbors)
        return self.group_size * max(laws.values.groups, laws.spaces.groups)

    def _query_limit(self, lattice: Lattice) -> int:
        return min(lattice.features, MAX_QUERIES) if self.looks is None else self.looks

    @quiet(MACHINE_FAULT_MESSAGE)
    def _learned(
        self, rows: Rows, laws: Calibration, entropy: Entropy
    ) -> tuple[LinearMap, Fraction]:
        """Return the learned transformation and the remaining budget, as a squared mu."""
        lattice, left = rows.lattice(), laws.total
        p, radius = lattice.features, lattice.radius
        shape, closed = np.eye(p), False
        for query in range(self._query_limit(lattice) + 1):
            groups = _groups(rows, shape, radius, laws.values.groups, entropy)
            floor = (radius / UNITS) ** 2
            values, trace = laws.values(*groups, floor, entropy)
            left -= laws.value_cost
            radius = math.sqrt(CLIPPING_NORM_RATIO * p * trace) if trace > 0 else radius
            rank = first_gap(values, closed=closed)
            if rank is None or query == self._query_limit(lattice):
                break
            ratio = math.sqrt(max(values[rank], floor) / values[rank - 1])
            covariances, _ = _groups(rows, shape, radius, laws.spaces.groups, entropy)
            basis = laws.spaces(covariances, rank, ratio, entropy)
            left -= laws.space_cost
            closed |= values[rank] == 0
            shape = coarse(basis, ratio) @ shape
        positive = values[values > 0]
        if positive.size and positive[0] > MAX_EIGENVALUE_RATIO * positive[-1]:
            shape = self._fine(rows, laws, shape, radius, entropy) @ shape
            left -= laws.fine
        scale = math.sqrt(positive.mean()) if positive.size else 1.0
        return LinearMap.rounded(shape / scale), left

    def _fine(
        self, rows: Rows, laws: Calibration, shape: Matrix, radius: float, entropy: Entropy
    ) -> Matrix:
        """Return the fine step, which reduces the largest eigenvalues of a noisy second moment."""
        p = len(shape)
        noise = self._fine_noise(rows.lattice(radius=radius, features=p), laws).sample(entropy)
        moment = rows.second_moments(radius=radius, transform=LinearMap.rounded(shape))[0]
        return fine((moment.units + noise).astype(np.float64)[:p, :p])


def first_gap(values: Matrix, *, closed: bool) -> int | None:
    """Return the number of eigenvalues above the first gap, or None if there is no gap.

    Parameters
    ----------
    values : ndarray of float, shape (p,)
        Eigenvalues in descending order.
    closed : bool
        True if the mechanism already removed a gap down to 0. Such a gap then does not count.

    Returns
    -------
    int or None
        Number of eigenvalues.

    """
    for rank, (above, below) in enumerate(pairwise(values.tolist()), start=1):
        if above > GAP_RATIO * below and not (below == 0 and closed):
            return rank
    return None


def coarse(basis: Matrix, ratio: float) -> Matrix:
    """Return the matrix that stretches all directions orthogonal to a basis by ``1 / ratio``.

    The matrix is the CoarsePreconditioner of the paper, up to scale.
    """
    projector = basis @ basis.T
    return projector + (np.eye(len(basis)) - projector) / ratio


def fine(matrix: Matrix) -> Matrix:
    """Return the matrix that reduces the largest eigenvalues of a second moment.

    The matrix is the FinePreconditioner of the paper. It reduces eigenvalues above
    `MAX_EIGENVALUE_RATIO` times the smallest positive eigenvalue to this bound. In the notation of
    the paper, ``k = d - 1`` and ``gamma_bar = 1 / (4 sqrt(1000))``. The paper prints
    ``16 gamma_bar`` instead of ``16 gamma_bar^2``. Without the square, the step would jump at the
    threshold.
    """
    values, vectors = np.linalg.eigh(matrix)
    positive = values[values > 0]
    if not positive.size:
        return np.eye(len(matrix))
    cut = np.sqrt(
        np.minimum(1.0, MAX_EIGENVALUE_RATIO * positive[0] / np.maximum(values, positive[0]))
    )
    return (vectors * cut) @ vectors.T


def _groups(
    rows: Rows, shape: Matrix, radius: float, count: int, entropy: Entropy
) -> tuple[Matrix, Matrix]:
    """Return the covariances and mean squared norms of random groups.

    Returns
    -------
    covariances : ndarray of float, shape (t, p, p)
        Covariance of each group.
    traces : ndarray of float, shape (t,)
        Mean squared norm of each group.

    """
    moments = rows.second_moments(
        radius=radius, transform=LinearMap.rounded(shape), groups=count, labels=entropy
    )
    covariances = np.array([_covariance(moment) for moment in moments])
    traces = np.array([_features(moment).trace() / max(1, moment.unit_count) for moment in moments])
    return covariances, traces


def _features(moment: SecondMoment) -> Matrix:
    p = moment.lattice.features
    return moment.units[:p, :p].astype(np.float64) * moment.lattice.step**2


def _covariance(moment: SecondMoment) -> Matrix:
    """Return the second moment of a group, divided by its size.

    With an intercept, the second moment is about the mean of the group.
    """
    matrix, p, constant = _features(moment), moment.lattice.features, moment.lattice.intercept_units
    if constant and moment.units[-1, -1] > 0:
        sums = moment.units[:p, -1].astype(np.float64) * moment.lattice.step
        matrix = matrix - np.outer(sums, sums) / float(moment.units[-1, -1])
    return matrix / max(1, moment.unit_count)
