"""Second moment of rows made round gap by gap, by groups that vote on eigenvalues: no bounds."""

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
from dpcov.mechanisms import gaussian
from dpcov.mechanisms.base import Mechanism
from dpcov.papers import stable_covariance
from dpcov.papers.accounting import gdp_beside_bad_events, gdp_of_pure
from dpcov.papers.mapped import last_laws, release_mapped
from dpcov.papers.preconditioned import Looks
from dpcov.papers.primitives.group_votes import EigenvalueEstimator, SubspaceRecovery
from dpcov.papers.primitives.random_groups import require_room
from dpcov.papers.stable_covariance import UNWEIGHED
from dpcov.rows.moment import UNITS, LinearMap
from dpcov.rows.sources.quiet import quiet

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice, SecondMoment
    from dpcov.rows.sources.rows import Rows


GAP = 4.0  # ratio of neighbouring eigenvalues from which they are separated
WIDEST = 1000.0  # ratio of all eigenvalues above which the largest are cut down
REACH = 32.0  # squared norms, over their mean, from which rows are clipped
MOST_GROUPS = 200_000
MOST_LOOKS = 64
EXTRA = gaussian.ROUNDING_VARIANCE


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public outcome of calibrating `UnboundedGaussian`; squares of mu are Gaussian costs."""

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
    r"""Second moment of rows made round gap by gap: (epsilon, delta)-DP, no bounds.

    For very many normal rows of few columns, of any scale and condition; it may refuse. Kept to
    show what the method takes: `Whitened` does better with far fewer rows.

    Guarantee
    ---------
    (epsilon, delta)-DP for every input, under add/remove or replace-one, for rows or for persons
    with at most k rows; a refusal (`MechanismRefused`) is one of the outcomes.

    Sensitivity
    -----------
    For each look units fall in groups by a fresh secret draw, their number public: one unit changes
    one group, to anything, under both relations and whatever k. `EigenvalueEstimator` and
    `SubspaceRecovery` hold the proofs that a look at all groups is mu-GDP but for a bad event; bad
    events have probability at most delta / 2 in all, and mu is what `with_bad_events` leaves. What
    is released in the end, and the matrix of the fine step, are second moments with Gaussian noise
    (`Preconditioned` has their sensitivities, variances are 8 larger for the rounding). Squares of
    mu add up adaptively, so what looks leave goes to the release.

    Not protected
    -------------
    Schema, budget, order of the matrix, number of looks, running time; the number of rows (of
    persons) under replace-one.

    Parameters
    ----------
    looks : int or None, public
        Largest number of gaps that are closed. Default: the number of features.
    group_size : int, public
        Rows that groups are planned to have; fewer make refusals likely.
    value_share, space_share, fine_share : float in (0, 1), public
        Shares of the budget for eigenvalues, for subspaces, and for a fine step.
    references : int or None, public
        None: groups agree on projectors; else on images of so many random vectors.
    slack : int, public
        How many groups may disagree with others before refusals are likely.
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
        The budget has no delta, or is so small that there would be more groups than are held at
        once. Before anything is read.
    MechanismRefused
        Groups disagree; too small ones do. The budget is spent.
    SourceError
        What can be read only once finds no room for a private copy. The budget is spent.

    Cost
    ----
    2 `looks` + 4 passes over the data at most (with persons twice that); t^2 d^2 for each look at a
    subspace by t groups.

    Source
    ------
    Kamath, Mouzakis, Singhal, Steinke and Ullman, "A private and computationally-efficient
    estimator for unbounded Gaussians", COLT 2022 (arXiv:2111.04609). Differences: exact thresholds
    and as many groups as clear them; averages of projectors with proved constants in the place of
    GoodCenter; a gap is closed by stretching what lies below it, the first one that is seen, so
    that looks end early; an eigenvalue of 0 counts as 2^-40 of the one above it; where the schema
    has an intercept groups subtract their own means, which takes the place of pairing; the last
    radius is private.

    Examples
    --------
    >>> from dpcov.rows.moment import Lattice
    >>> budget = ApproxDP(1.0, 1e-6)
    >>> UnboundedGaussian().least_units(Lattice(3, 1.0), budget, Neighbors.ADD_REMOVE)
    577200

    """

    looks: Looks | None = None
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
        """Two for each look, a last one at the eigenvalues, the fine step, radius and release."""
        return 2 * (MOST_LOOKS if self.looks is None else self.looks) + 4

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        guarantee = Guarantee(budget, Neighbors(neighbors), lattice.unit)
        if not isinstance(budget, ApproxDP):
            raise MechanismError(stable_covariance.needs_delta(self.name))
        lattice = lattice.relative()
        looks, bad = self._looks(lattice), budget.delta / 2
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
        require_room(self.name, groups, d, max(d, self.references or 0), most=MOST_GROUPS)
        left = total * (1 - exact(self.value_share) - exact(self.space_share)) - laws.fine
        for rho in (left / 2, total / 2):
            last_laws(lattice, guarantee, rho, EXTRA, self.radius_share, self.trace_share)
        self._fine_noise(lattice, laws).require_drawable()
        return laws

    def _fine_noise(self, lattice: Lattice, laws: Calibration) -> GaussianOrthogonal:
        variance = lattice.frobenius_squared(laws.guarantee.neighbors) / laws.fine + EXTRA
        return GaussianOrthogonal(lattice.dimension, variance)

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        rows.require_rereadable()
        shape, left = self._round(rows, laws, entropy)
        return release_mapped(
            self,
            rows,
            shape,
            guarantee=laws.guarantee,
            rho=left / 2,
            extra=EXTRA,
            radius_share=self.radius_share,
            trace_share=self.trace_share,
            entropy=entropy,
        )

    def least_units(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> int:
        """How many rows (persons) fill the groups, from public numbers alone."""
        laws = self.calibrate(lattice, budget, neighbors)
        return self.group_size * max(laws.values.groups, laws.spaces.groups)

    def _looks(self, lattice: Lattice) -> int:
        return min(lattice.features, MOST_LOOKS) if self.looks is None else self.looks

    @quiet(UNWEIGHED)
    def _round(self, rows: Rows, laws: Calibration, entropy: Entropy) -> tuple[LinearMap, Fraction]:
        """The map that looks have made, and what is left of the squared mu."""
        lattice, left = rows.lattice(), laws.total
        p, radius = lattice.features, lattice.radius
        shape, closed = np.eye(p), False
        for look in range(self._looks(lattice) + 1):
            groups = _groups(rows, shape, radius, laws.values.groups, entropy)
            floor = (radius / UNITS) ** 2
            values, trace = laws.values(*groups, floor, entropy)
            left -= laws.value_cost
            radius = math.sqrt(REACH * p * trace) if trace > 0 else radius
            rank = first_gap(values, closed=closed)
            if rank is None or look == self._looks(lattice):
                break
            ratio = math.sqrt(max(values[rank], floor) / values[rank - 1])
            covariances, _ = _groups(rows, shape, radius, laws.spaces.groups, entropy)
            basis = laws.spaces(covariances, rank, ratio, entropy)
            left -= laws.space_cost
            closed |= values[rank] == 0
            shape = coarse(basis, ratio) @ shape
        positive = values[values > 0]
        if positive.size and positive[0] > WIDEST * positive[-1]:
            shape = self._fine(rows, laws, shape, radius, entropy) @ shape
            left -= laws.fine
        scale = math.sqrt(positive.mean()) if positive.size else 1.0
        return LinearMap.rounded(shape / scale), left

    def _fine(
        self, rows: Rows, laws: Calibration, shape: Matrix, radius: float, entropy: Entropy
    ) -> Matrix:
        """Step that cuts the largest eigenvalues down, from a noisy second moment."""
        p = len(shape)
        noise = self._fine_noise(rows.lattice(radius=radius, features=p), laws).sample(entropy)
        moment = rows.second_moments(radius=radius, transform=LinearMap.rounded(shape))[0]
        return fine((moment.units + noise).astype(np.float64)[:p, :p])


def first_gap(values: Matrix, *, closed: bool) -> int | None:
    """Number of eigenvalues above the first gap; one down to 0 counts unless it is `closed`."""
    for rank, (above, below) in enumerate(pairwise(values.tolist()), start=1):
        if above > GAP * below and not (below == 0 and closed):
            return rank
    return None


def coarse(basis: Matrix, ratio: float) -> Matrix:
    """CoarsePreconditioner, up to scale: what is orthogonal to the basis grows by 1 / `ratio`."""
    projector = basis @ basis.T
    return projector + (np.eye(len(basis)) - projector) / ratio


def fine(matrix: Matrix) -> Matrix:
    """FinePreconditioner: eigenvalues above `WIDEST` times the least positive one come down to it.

    In the paper's terms k = d - 1, gamma_bar = 1 / (4 sqrt(1000)); its printed 16 gamma_bar stands
    for 16 gamma_bar^2, without which the step would jump at the threshold.
    """
    values, vectors = np.linalg.eigh(matrix)
    positive = values[values > 0]
    if not positive.size:
        return np.eye(len(matrix))
    cut = np.sqrt(np.minimum(1.0, WIDEST * positive[0] / np.maximum(values, positive[0])))
    return (vectors * cut) @ vectors.T


def _groups(
    rows: Rows, shape: Matrix, radius: float, count: int, entropy: Entropy
) -> tuple[Matrix, Matrix]:
    """(t, d, d) covariances of random groups, and the (t,) means of their squared norms."""
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
    """Second moment of a group over its size; about its mean, where the intercept tells that."""
    matrix, p, constant = _features(moment), moment.lattice.features, moment.lattice.intercept_units
    if constant and moment.units[-1, -1] > 0:
        sums = moment.units[:p, -1].astype(np.float64) * moment.lattice.step
        matrix = matrix - np.outer(sums, sums) / float(moment.units[-1, -1])
    return matrix / max(1, moment.unit_count)
