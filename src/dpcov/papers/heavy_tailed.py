"""Second moment of heavy-tailed rows with bounds from their moments: Kamath and Mouzakis."""

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
from dpcov.mechanisms.radius import SMALLEST_RADIUS, count_law
from dpcov.papers.mapped import last_laws, release_at, release_mapped
from dpcov.papers.preconditioned import SLACK, look, number_of_rows
from dpcov.papers.primitives.bounded_moments import (
    STEP_ALPHA,
    Moments,
    Order,
    SampleSize,
    sample_size,
    steps,
)
from dpcov.rows.moment import LinearMap

if TYPE_CHECKING:
    from dpcov.core.arrays import Vector
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.core.samplers.scalars import ScalarGaussian
    from dpcov.papers.preconditioned import Look
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice
    from dpcov.rows.sources.rows import Rows


Variant = Literal["naive", "one-step", "full"]
Radii = Literal["practical", "theory"]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public outcome of calibrating `HeavyTailed`; `rho_of_look` and `rho_of_count` are costs."""

    guarantee: Guarantee
    looks: int
    step: GaussianOrthogonal | None
    count: ScalarGaussian | None
    rho: Fraction
    extra: int
    rho_of_look: Fraction
    rho_of_count: Fraction

    def __post_init__(self) -> None:
        for law in (self.step, self.count):
            if law is not None:
                law.require_drawable()


@dataclass(frozen=True, slots=True)
class HeavyTailed(Mechanism):
    r"""Second moment of rows with bounded moments, by truncation at radii that follow from them.

    ``naive`` (NaiveHTPCE) truncates once; ``one-step`` first makes the rows rounder by one look
    (OneStepHTPPCE), ``full`` (HT_PCE) by as many as `condition` needs.

    Guarantee
    ---------
    rho-zCDP, or (epsilon, delta)-DP by the exact curve of the Gaussian mechanism, for every input,
    under add/remove or replace-one, for rows or for persons with at most k rows. All that is
    assumed of the rows bears on the error alone.

    Sensitivity
    -----------
    Looks, counts and the last release are those of `Preconditioned`, where the proof is: Gaussian
    mechanisms at radii and maps that are public or made from earlier looks, whose costs add up to
    rho in exact rationals. A row under the map A is no longer than R ||A||, R the schema's radius,
    so larger radii are replaced by that; about a mean, rows further than R from it are clipped.

    The step. Let A be the map so far, Sigma <= I the second moment of the mapped rows, c I <= Sigma
    (c > 0), and M = Sigma + E, ||E|| <= s, what a look tells. With M+ the positive semidefinite
    part, U = M+ + s I, the next map is U^(-1/2) A. Sigma <= M + s I <= U; M+ <= M + s I <= Sigma +
    2 s I, so U <= Sigma + 3 s I, and U^(-1/2) Sigma U^(-1/2) lies between c / (c + 3 s) and 1: the
    invariant holds again, and for 3 s <= 1/4 the lower bound at least doubles, or is 1/2 or more.

    Not protected
    -------------
    Schema, budget, order of the matrix, number of looks, running time; the number of rows (of
    persons) under replace-one.

    Parameters
    ----------
    variant : ``naive``, ``one-step`` or ``full``, public
    radii : ``practical`` or ``theory``, public
        ``theory``: radii and slacks with proofs, from `order`, `constant`, `alpha` and `beta`;
        they need zero mean and as many rows as `sample_size` tells. ``practical``: looks at
        2 sqrt(p) with slacks of .3 standard errors until all directions show, and a last radius
        from noisy counts; with an intercept, about the mean that it tells.
    order, constant : public
        k and C of E <v, x>^2k <= C (E <v, x>^2)^k.
    alpha, beta : public
        Mahalanobis error that is aimed at, and the probability of missing it.
    eigenvalue_bound : float or None, public
        Bound on the eigenvalues of the second moment of an encoded row; default, the squared
        radius of the schema.
    condition : float, public
        That bound, over the smallest eigenvalue; sets the number of looks.
    look_share, radius_share, count_share, trace_share : public
        Shares of the budget, as in `Preconditioned`.

    Returns
    -------
    Release
        (d, d) integers about mapped rows, the map (`Release.linear_map`), the trace, the noise law.

    Raises
    ------
    MechanismError
        The budget is a pure one, or too small for the exact sampler. Before anything is read.
    SourceError
        What can be read only once finds no room for a private copy. The budget is spent.

    Cost
    ----
    One pass for each look, and 3 at most; d(d+1)/2 exact draws for each.

    Source
    ------
    Kamath and Mouzakis, "Private covariance estimation of heavy-tailed distributions", as told by
    Mouzakis 2021, Algorithms 1 to 3 and Theorems 3.1, 3.2. Differences: rows outside are clipped,
    not set to 0, which takes no more in any direction; the step does not clamp M to 1 - s, which
    breaks Sigma <= I (their map can leave 1.04); s has its own proof; the map is not symmetric
    after two steps, so its inverse acts from the left and its transpose from the right; the
    ensemble is orthogonal.

    Examples
    --------
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
        """At most how many looks there are."""
        return {"naive": 0, "one-step": 1}.get(self.variant, steps(self.condition))

    @property
    def passes(self) -> int:
        """The looks, the number of rows, the radius, the release."""
        return self.looks + 3

    def sample_size(self, features: int, rho: float) -> SampleSize:
        """Rows at which ``theory`` has the error `alpha` but with probability `beta`.

        Zero mean, replace-one, no intercept; see `bounded_moments.sample_size`.
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
            rho_of_look=self.look_share * rho / max(1, looks),
            rho_of_release=for_release * rho,
        )

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        rho, extra = gaussian.concentration(self.name, budget)
        neighbors, lattice = Neighbors(neighbors), lattice.relative()
        looks, step, count = self.looks, None, None
        of_look, of_count = Fraction(0), Fraction(0)
        if looks:
            of_look = exact(self.look_share) * rho / looks
            variance = lattice.frobenius_squared(neighbors) / (2 * of_look) + extra
            step = GaussianOrthogonal(lattice.dimension, variance)
            if lattice.intercept_units == 0:
                of_count = exact(self.count_share) * rho
                count = count_law(lattice, of_count, extra)
        guarantee = Guarantee(budget, neighbors, lattice.unit)
        for looked in (min(1, looks), looks):
            left = rho - looked * of_look - of_count
            last_laws(lattice, guarantee, left, extra, self.radius_share, self.trace_share)
        self._require_numbers(lattice)
        return Calibration(guarantee, looks, step, count, rho, extra, of_look, of_count)

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        rows.require_rereadable()
        lattice = rows.lattice()
        start = self._start(lattice)
        shape, looked = self._round(rows, start, laws, entropy)
        left = laws.rho - looked * laws.rho_of_look - laws.rho_of_count
        guarantee, extra, share = laws.guarantee, laws.extra, self.trace_share
        if self.radii == "theory":
            goal = self.moments.mahalanobis_radius(lattice.features, self.alpha / 2)
            radius = min(goal, longest(shape, lattice))
            final = gaussian.calibration(lattice.relative(), guarantee, left, extra, share)
            return release_at(self, rows, shape, radius, final, entropy)
        return release_mapped(
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
        """The map by `eigenvalue_bound` alone."""
        given = self.eigenvalue_bound
        bound = lattice.radius**2 if given is None else given
        return LinearMap.rounded(np.eye(lattice.features) / math.sqrt(bound))

    def _require_numbers(self, lattice: Lattice) -> None:
        """Refuse options whose first map or radii are no numbers."""
        radii = [longest(self._start(lattice), lattice), self._look_radius(lattice.features)]
        if self.radii == "theory":
            radii.append(self.moments.mahalanobis_radius(lattice.features, self.alpha / 2))
        if not all(SMALLEST_RADIUS < radius < 1 / SMALLEST_RADIUS for radius in radii):
            raise MechanismError("The options of heavy-tailed give a radius that is out of range.")

    def _candidates(self, shape: LinearMap, lattice: Lattice) -> Vector | None:
        """Radii for the last clip; where rows need not be round, up to the longest."""
        if self.variant == "full":
            return None
        return longest(shape, lattice) * 2.0 ** (-np.arange(64, -1, -1) / 4)

    def _round(
        self, rows: Rows, shape: LinearMap, laws: Calibration, entropy: Entropy
    ) -> tuple[LinearMap, int]:
        """The learnt map, and the number of looks that it took."""
        if laws.step is None:
            return shape, 0
        lattice = rows.lattice()
        p = lattice.features
        count = None if laws.count is None else number_of_rows(rows, laws.count, entropy)
        looked, clear = 0, False
        while looked < laws.looks and not clear:
            looked += 1
            radius = min(self._look_radius(p), longest(shape, lattice))
            seen = look(rows, shape, radius, laws.step, count, entropy)
            shape = seen.rounder(shape, self._slack(p, seen, laws.looks))
            clear = self.radii == "practical" and seen.clear
        return shape, looked

    def _look_radius(self, p: int) -> float:
        if self.radii == "theory":
            return self.moments.radius(p, STEP_ALPHA / 2)
        return 2 * math.sqrt(p)

    def _slack(self, p: int, seen: Look, looks: int) -> float:
        """The s of the step; in theory a bound but with probability beta / 2 over all steps.

        As Sigma <= I, the step keeps that with s = 1 too, whatever the error. The number of rows
        that it divides by is noisy; that is far below the other terms.
        """
        if self.radii == "practical":
            return SLACK * seen.standard_error
        radius, beta = self._look_radius(p), self.beta / (2 * looks)
        return min(1.0, self.moments.spectral_error(p, radius, seen.count, seen.deviation, beta))


def longest(shape: LinearMap, lattice: Lattice) -> float:
    """Norm that no row exceeds, up to rounding, under a map about 0: R ||A||."""
    return float(np.linalg.norm(shape.matrix(), 2)) * lattice.radius
