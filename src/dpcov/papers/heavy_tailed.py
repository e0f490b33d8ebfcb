"""Second moment of heavy-tailed rows by truncation (Kamath and Mouzakis)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from dpcov.core.parameters import (
    Above0,
    AtLeast1,
    Probability,
    Share,
    ShareOrNone,
    check_fields,
    check_shares,
)
from dpcov.core.privacy import Guarantee, Neighbors, exact
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.errors import MechanismError
from dpcov.mechanisms import gaussian
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.radius import MIN_RADIUS, count_law
from dpcov.papers.preconditioned import SPECTRUM_SLACK, number_of_rows, pilot_query
from dpcov.papers.primitives.bounded_moments import (
    STEP_TRUNCATION_ERROR,
    Moments,
    Order,
    SampleSize,
    sample_size,
    steps,
)
from dpcov.papers.transformed import last_laws, release_at, release_transformed
from dpcov.rows.moment import LinearMap

if TYPE_CHECKING:
    from dpcov.core.arrays import Vector
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.core.samplers.scalars import ScalarGaussian
    from dpcov.papers.preconditioned import PilotEstimate
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice
    from dpcov.rows.sources.rows import Rows


Variant = Literal["naive", "one-step", "full"]
Radii = Literal["practical", "theory"]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public noise parameters of `HeavyTailed`.

    The fields `rho_of_query` and `rho_of_count` are the costs of one pilot query and of the row
    count.
    """

    guarantee: Guarantee
    looks: int
    step: GaussianOrthogonal | None
    count: ScalarGaussian | None
    rho: Fraction
    extra: int
    rho_of_query: Fraction
    rho_of_count: Fraction

    @property
    def mu_squared(self) -> Fraction | None:
        """Squared mu of all noise together, or None if the noise has no mu."""
        return gaussian.mu_squared(self.rho, self.extra)

    def __post_init__(self) -> None:
        for law in (self.step, self.count):
            if law is not None:
                law.require_drawable()


@dataclass(frozen=True, slots=True)
class HeavyTailed(Mechanism):
    """Second moment of rows with bounded moments, by truncation at radii from the moments.

    The variant ``naive`` (NaiveHTPCE) truncates once. The variant ``one-step`` (OneStepHTPPCE)
    first transforms the rows after one pilot query. The variant ``full`` (HT_PCE) makes as many
    pilot queries as `condition` requires.

    Guarantee
    ---------
    The release satisfies rho-zCDP, or (epsilon, delta)-DP by the exact curve of the Gaussian
    mechanism. The guarantee holds for every table, under add-remove and under replace-one. It
    protects rows, or persons with at most k rows. Assumptions about the rows affect only the error.

    Sensitivity
    -----------
    The pilot queries, the counts and the last release have the sensitivities of `Preconditioned`,
    which contains the proof. They are Gaussian mechanisms. Their radii and transformations are
    public or come from earlier pilot queries. Their costs add up to rho in exact rationals.

    Let A be the transformation and R the radius of the schema. No transformed row is longer than
    ``R ||A||``, so a larger radius is replaced by this bound. About a mean, rows at a distance
    above R from the mean are clipped.

    **The step.** Let A be the current transformation and Sigma the second moment of the transformed
    rows. Assume ``c I <= Sigma <= I`` with ``c > 0``. A pilot query returns ``M = Sigma + E`` with
    an error of spectral norm ``||E|| <= s``.

    Let M+ be the positive semidefinite part of M, and ``U = M+ + s I``. The next transformation is
    ``U^(-1/2) A``. Two inequalities bound U::

        Sigma <= M + s I <= U
        M+ <= M + s I <= Sigma + 2 s I, so U <= Sigma + 3 s I

    Hence ``U^(-1/2) Sigma U^(-1/2)`` lies between ``c / (c + 3 s)`` and 1. The assumption holds
    again after the step. If ``3 s <= 1/4``, the lower bound doubles at least, or reaches 1/2.

    Not protected
    -------------
    - The schema, the budget, the order of the matrix, the number of pilot queries and the running
      time.
    - Under replace-one, the number of rows or persons.

    Parameters
    ----------
    variant : {"naive", "one-step", "full"}, public
        Number of pilot queries: none, one, or as many as `condition` requires.

    radii : {"practical", "theory"}, public
        Choice of the radii. ``theory`` uses radii and slacks with proofs, from `order`, `constant`,
        `alpha` and `beta`. The theory requires zero mean and `sample_size` rows. ``practical`` uses
        pilot queries at the radius ``2 sqrt(p)``, with a slack of 0.3 standard errors, until all
        directions are detectable. The last radius then comes from noisy counts. With an intercept,
        the transformation is about the estimated mean.

    order : int, public
        Parameter k of the moment bound ``E <v, x>^2k <= C (E <v, x>^2)^k``.

    constant : float, public
        Parameter C of the same bound.

    alpha : float, public
        Target Mahalanobis error.

    beta : float, public
        Probability that the error is larger than `alpha`.

    eigenvalue_bound : float, optional, public
        Bound on the eigenvalues of the second moment of an encoded row. The default is the squared
        radius of the schema.

    condition : float, public
        Ratio of this bound to the smallest eigenvalue. The ratio determines the number of pilot
        queries.

    look_share, radius_share, count_share, trace_share : float, public
        Fractions of the budget, as in `Preconditioned`.

    Returns
    -------
    Release
        Integers of shape (d, d) for transformed rows, the transformation (`Release.linear_map`),
        the trace, and the noise distribution.

    Raises
    ------
    MechanismError
        The budget is a pure epsilon, or too small for the exact sampler. The error comes before
        dpcov reads any data.
    SourceError
        There is no space for a private copy of a source that can be read only once. The budget is
        then spent.

    Cost
    ----
    The mechanism reads the data once for each pilot query, and at most 3 more times. Each read
    needs ``d (d + 1) / 2`` exact draws.

    Source
    ------
    The source is Kamath and Mouzakis, "Private covariance estimation of heavy-tailed
    distributions". Mouzakis 2021 describes Algorithms 1 to 3 and Theorems 3.1 and 3.2. dpcov
    differs from the paper in these points:

    - Rows outside the radius are clipped and not set to 0. Clipping has at most the same bias in
      every direction.
    - The step does not replace M by a matrix with eigenvalues of at least ``1 - s``. The
      replacement can violate ``Sigma <= I``: an eigenvalue of 1.04 is possible.
    - The slack s has its own proof.
    - After two steps the transformation is not symmetric. Its inverse acts from the left and the
      transpose of the inverse acts from the right.
    - The noise matrix is symmetric (orthogonal ensemble).

    Examples
    --------
    >>> from dpcov.mechanisms import HeavyTailed
    >>> mechanism = HeavyTailed(constant=3.0, condition=1e4)
    >>> mechanism.sample_size(10, 0.028)
    SampleSize(steps=4324017, final=10247630)
    >>> mechanism.passes
    10

    """

    variant: Variant = "full"
    radii: Radii = "practical"
    order: Order = 2
    constant: AtLeast1 = 9.0
    alpha: Above0 = 0.1
    beta: Probability = 0.1
    eigenvalue_bound: Above0 | None = None
    condition: AtLeast1 = 2.0**64
    look_share: Share = 0.5
    radius_share: Share = 0.08
    count_share: Share = 0.01
    trace_share: ShareOrNone = 0.05

    name: ClassVar[str] = "heavy-tailed"
    use: ClassVar[str] = "rows whose moments are bounded, not their size; radii with proofs"
    source: ClassVar[str] = "Kamath and Mouzakis 2021, the step repaired"

    def __post_init__(self) -> None:
        check_fields(self)
        check_shares(self, "look_share", "count_share")

    @property
    def moments(self) -> Moments:
        return Moments(self.order, self.constant)

    @property
    def looks(self) -> int:
        """Largest number of pilot queries."""
        return {"naive": 0, "one-step": 1}.get(self.variant, steps(self.condition))

    @property
    def passes(self) -> int:
        """Number of reads: the pilot queries, the row count, the radius and the release."""
        return self.looks + 3

    def sample_size(self, features: int, rho: float) -> SampleSize:
        """Return the number of rows for which ``theory`` guarantees its error.

        The error is at most `alpha`, except with probability `beta`. The theory assumes zero mean,
        replace-one and no intercept (see `bounded_moments.sample_size`).

        Parameters
        ----------
        features : int
            Number of features.
        rho : float
            Budget of the release.

        Returns
        -------
        SampleSize
            Rows for the pilot queries and for the release.

        """
        looks = self.looks
        for_release = 1 - (self.look_share + self.count_share if looks else 0.0)
        return sample_size(
            self.moments,
            features,
            alpha=self.alpha,
            beta=self.beta,
            condition=self.condition,
            looks=looks,
            rho_of_query=self.look_share * rho / max(1, looks),
            rho_of_release=for_release * rho,
        )

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        noise = gaussian.concentration(self.name, budget)
        return self._calibrated(lattice, budget, Neighbors(neighbors), *noise)

    def calibrate_gaussian(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> Calibration:
        noise = gaussian.concentration(self.name, budget, rounded=True)
        return self._calibrated(lattice, budget, Neighbors(neighbors), *noise)

    def _calibrated(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors, rho: Fraction, extra: int
    ) -> Calibration:
        lattice = lattice.relative()
        looks, step, count = self.looks, None, None
        of_query, of_count = Fraction(0), Fraction(0)
        if looks:
            of_query = exact(self.look_share) * rho / looks
            variance = lattice.frobenius_squared(neighbors) / (2 * of_query) + extra
            step = GaussianOrthogonal(lattice.dimension, variance)
            if lattice.intercept_units == 0:
                of_count = exact(self.count_share) * rho
                count = count_law(lattice, of_count, extra)
        guarantee = Guarantee(budget, neighbors, lattice.unit)
        for queries in (min(1, looks), looks):
            left = rho - queries * of_query - of_count
            last_laws(lattice, guarantee, left, extra, self.radius_share, self.trace_share)
        self._require_numbers(lattice)
        return Calibration(guarantee, looks, step, count, rho, extra, of_query, of_count)

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        rows.require_rereadable()
        lattice = rows.lattice()
        start = self._start(lattice)
        shape, queries = self._learned(rows, start, laws, entropy)
        left = laws.rho - queries * laws.rho_of_query - laws.rho_of_count
        guarantee, extra, share = laws.guarantee, laws.extra, self.trace_share
        if self.radii == "theory":
            goal = self.moments.mahalanobis_radius(lattice.features, self.alpha / 2)
            radius = min(goal, longest(shape, lattice))
            final = gaussian.calibration(lattice.relative(), guarantee, left, extra, share)
            return release_at(self, rows, shape, radius, final, entropy)
        return release_transformed(
            self,
            rows,
            shape,
            guarantee=guarantee,
            rho=left,
            extra=extra,
            radius_share=self.radius_share,
            trace_share=share,
            entropy=entropy,
            radii=self._candidates(shape, lattice),
        )

    def _start(self, lattice: Lattice) -> LinearMap:
        """Return the first transformation, which depends only on `eigenvalue_bound`."""
        given = self.eigenvalue_bound
        bound = lattice.radius**2 if given is None else given
        return LinearMap.rounded(np.eye(lattice.features) / math.sqrt(bound))

    def _require_numbers(self, lattice: Lattice) -> None:
        """Raise an error if the first transformation or a radius is out of range."""
        radii = [longest(self._start(lattice), lattice), self._query_radius(lattice.features)]
        if self.radii == "theory":
            radii.append(self.moments.mahalanobis_radius(lattice.features, self.alpha / 2))
        if not all(MIN_RADIUS < radius < 1 / MIN_RADIUS for radius in radii):
            raise MechanismError("The options of heavy-tailed give a radius that is out of range.")

    def _candidates(self, shape: LinearMap, lattice: Lattice) -> Vector | None:
        """Return the candidate radii of the last release.

        If the rows are not whitened, the largest candidate is the norm of the longest possible row.
        """
        if self.variant == "full":
            return None
        return longest(shape, lattice) * 2.0 ** (-np.arange(64, -1, -1) / 4)

    def _learned(
        self, rows: Rows, shape: LinearMap, laws: Calibration, entropy: Entropy
    ) -> tuple[LinearMap, int]:
        """Return the learned transformation, and the number of pilot queries."""
        if laws.step is None:
            return shape, 0
        lattice = rows.lattice()
        p = lattice.features
        count = None if laws.count is None else number_of_rows(rows, laws.count, entropy)
        queries, clear = 0, False
        while queries < laws.looks and not clear:
            queries += 1
            radius = min(self._query_radius(p), longest(shape, lattice))
            seen = pilot_query(rows, shape, radius, laws.step, count, entropy)
            shape = seen.whitening_map(shape, self._slack(p, seen, laws.looks))
            clear = self.radii == "practical" and seen.clear
        return shape, queries

    def _query_radius(self, p: int) -> float:
        if self.radii == "theory":
            return self.moments.radius(p, STEP_TRUNCATION_ERROR / 2)
        return 2 * math.sqrt(p)

    def _slack(self, p: int, seen: PilotEstimate, looks: int) -> float:
        """Return the slack s of a step.

        With the radii ``theory``, s bounds the error of all steps, except with probability
        ``beta / 2``. As ``Sigma <= I``, a step with ``s = 1`` preserves this inequality for any
        error. The step divides by a noisy row count. The error of this count is much smaller than
        the other errors.
        """
        if self.radii == "practical":
            return SPECTRUM_SLACK * seen.standard_error
        radius, beta = self._query_radius(p), self.beta / (2 * looks)
        return min(1.0, self.moments.spectral_error(p, radius, seen.count, seen.deviation, beta))


def longest(shape: LinearMap, lattice: Lattice) -> float:
    """Return a bound on the norm of every transformed row, apart from rounding.

    The bound is ``R ||A||`` with the radius R of the schema and the transformation A about 0.

    Parameters
    ----------
    shape : LinearMap
        Transformation of the rows.
    lattice : Lattice
        Lattice of the encoded rows.

    Returns
    -------
    float
        Norm of transformed rows.

    """
    return float(np.linalg.norm(shape.matrix(), 2)) * lattice.radius
