"""The mechanism standardized: a pilot query, then the second moment of the standardized rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcov.core.entropy import simulation_generator
from dpcov.core.parameters import Above0, Power, Share, ShareOrNone, check_fields, check_shares
from dpcov.core.privacy import Guarantee, Neighbors, exact
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.errors import MechanismError
from dpcov.mechanisms import additive, gaussian
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.matrix_laplace import pure_noise
from dpcov.mechanisms.pure import by_budget, nuclear_calibration, pure_epsilon, pure_guarantee
from dpcov.mechanisms.radius import count_law
from dpcov.mechanisms.radius_losses import RULE_COLUMN_LOSS_RELATIVE_SD, squared_norm_losses
from dpcov.mechanisms.row_transform import MIN_COUNT_SDS, RowTransform, binary_features
from dpcov.published.costs import rounds_of
from dpcov.published.kinds import DIRECTIONS, NoisySums, Round, with_rule
from dpcov.published.norm_histogram import (
    BINS_PER_OCTAVE,
    NormHistogram,
    bin_upper_ends,
)
from dpcov.rows.moment import UNITS, max_transformed_norm, power_above
from dpcov.rows.pilot_sensitivity import pilot_sensitivities

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dpcov.core.arrays import Integers, Vector
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.core.samplers import MatrixLaw, ScalarLaw
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice, SecondMoment
    from dpcov.rows.schema import Schema
    from dpcov.rows.sources.rows import Rows


# "Tuned" means: set on the tables of the part `tune` in benchmarks/tables.toml
# (`make bench NAME=tried`).
# "Insensitive" means: no error differs by more than the stated fraction with half or twice the
# value, in the geometric mean over eight tables (`make bench NAME=constants`).
# A *noise ratio* is the noise in one direction divided by the average variance of a direction.

# Number of candidate radii per doubling of the squared radius. Source: insensitive, 2%.
RADII_PER_DOUBLING = 4
# Largest clipping radius of the directions query, in root mean square norms. Source: insensitive,
# 2%.
MAX_RADIUS_FACTOR = 4.0
# Noise ratio above which the directions query clips at a smaller radius. Source: tuned.
MAX_CLIPPING_NOISE_RATIO = 0.05
# Growth of the error of the release per unit of the noise ratio, as a fraction. Source: tuned.
MAP_ERROR_PER_NOISE_RATIO = 5.0
# Noise ratio above which the mechanism skips the directions query. Source: tuned.
MAX_NOISE_RATIO = 2.0
# The mechanism skips no directions query if the error of the center exceeds this fraction of the
# mean squared norm. Source: tuned.
MAX_CENTER_ERROR = 0.05
# Smallest standard deviation of a feature, in units of half the width of its bounds. Source: one
# lattice step of the encoding. Smaller standard deviations are rounding errors.
MIN_STANDARD_DEVIATION = 1 / UNITS
# Smallest number of steps of the center in one standard deviation of a feature. Source: the rounded
# center is at most 1/32 standard deviation away, which adds at most 0.1% to the mean squared norm.
CENTER_STEPS_PER_SD = 16
# Number of binary digits of the factor of a feature. A factor is within 12.5% of the wanted factor.
# With one digit, noise in the pilot query can change a factor by 2. Source: on 14 tables, three
# digits together with `TAIL_SDS` make the errors of variances 7% smaller than one digit, and other
# errors 1% to 3% smaller. Other numbers of digits were not compared.
SCALE_BITS = 3
# A feature with a bound beyond this many standard deviations can have long tails. Clipping then
# removes most from this feature. Source: tuned, also on the table gsswages.
TAIL_SDS = 8.0
# Largest increase of the standard deviation of such a feature. Source: as for `TAIL_SDS`.
MAX_TAIL_FACTOR = 2.0
# Variance of a uniform distribution on [-1, 1], the prior of the means and variances.
UNIFORM_VARIANCE = 1 / 3
# Number of grid points of an integral over the standard deviation between features.
# Source: insensitive, 4%, with a standard error of 3%.
PRIOR_GRID_SIZE = 64
# Largest shift of a noisy mean or variance by shrinkage, in standard deviations of its noise.
# Source: tuned.
MAX_SHRINKAGE_SDS = 2.0
# Weight of the last round's noise in the comparison of two calibrations. The earlier rounds share
# the rest. This weight had the smallest loss of all weights in docs/results/noise_choice.json.
LAST_ROUND_WEIGHT = 0.7
# Length of a transformed missingness indicator, in standard deviations of its feature.
# Source: tuned.
INDICATOR_LENGTH_SDS = 1.0


@dataclass(frozen=True, slots=True)
class Path:
    """Branch of the rounds after the pilot query.

    All branches of a mechanism spend the same budget, so the pilot query can determine the branch.

    Attributes
    ----------
    share : float
        Fraction of the budget for the directions query. 0 if the branch has no such query.

    final : additive.Calibration
        Noise distributions of the last round.

    directions : additive.Calibration or None
        Noise distributions of the directions query.

    """

    share: float
    final: additive.Calibration
    directions: additive.Calibration | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """Noise distributions of all rounds of `Standardized`. Everything here is public.

    - `guarantee` is the guarantee of all rounds together.
    - `look` is the noise distribution of each sum in the pilot query.
    - `counts` is the noise distribution of each count in the norm histogram.
    - `paths` are the branches in ascending order of the budget for the directions query. A branch
      without this query comes last.
    - `mu_squared` is the squared mu of all rounds together, or None if the noise has no mu.

    """

    guarantee: Guarantee
    look: ScalarLaw
    counts: ScalarLaw
    paths: tuple[Path, ...]
    mu_squared: Fraction | None = None

    def __post_init__(self) -> None:
        for law in (self.look, self.counts):
            law.require_drawable()

    @property
    def is_gaussian(self) -> bool:
        """True if all noise is Gaussian noise."""
        return isinstance(self.look, ScalarGaussian)

    @property
    def final(self) -> additive.Calibration:
        return self.paths[0].final

    def path(self, seen: Spread, p: int) -> Path:
        """Return the branch with the smallest predicted error.

        The predicted error includes the noise of the last round and the error of the whitening map.
        The function returns the branch without a directions query if the noise would hide most
        directions. The function keeps the query if the center is uncertain, because the query also
        estimates the center.
        """
        noises = [noise_share(at.directions.matrix, 1.0, p) for at in self.paths if at.directions]
        if not noises:
            return self.paths[0]
        errors = [
            math.sqrt(path.final.matrix.diagonal_variance)
            * (1 + MAP_ERROR_PER_NOISE_RATIO * noise / seen.count)
            for path, noise in zip(self.paths, noises, strict=False)
        ]
        best = int(np.argmin(errors))
        hidden = noises[best] / seen.count > MAX_NOISE_RATIO and seen.astray < MAX_CENTER_ERROR
        return self.paths[-1 if hidden else best]


@dataclass(frozen=True, slots=True)
class Standardized(Mechanism):
    r"""Second moment of the standardized rows, after a pilot query for means and variances.

    The noise is proportional to the largest squared norm that a row can have. If the values fill a
    small part of their bounds, the standardized rows have much smaller norms. The pilot query
    estimates the means and variances with 2 p + 1 noisy sums, so it spends little of the budget.

    Guarantee
    ---------
    The guarantee has the kind of the budget: epsilon-DP, rho-zCDP or (epsilon, delta)-DP. It holds
    for every input, under add-remove and under replace-one, for rows and for persons with at most k
    rows. For (epsilon, delta) the mechanism uses Gaussian noise with its exact curve. It uses
    Laplace noise if that is smaller, and then spends no delta.

    Sensitivity
    -----------
    Let w = (z, t) be an encoded row z with its intercept t. The pilot query releases the diagonal
    and the last column of sum w w'. These are the sums of z_j^2, t z_j and t^2. In lattice steps,
    ||z|| <= Q, |z_j| <= u and t <= T. A row adds a vector with

        l2^2 <= Q^2 (u^2 + T^2) + T^4,    l1 <= Q^2 + T sqrt(p) Q + T^2.

    A privacy unit adds a vector that is at most k times as long. `pilot_sensitivities` bounds the
    change if one unit replaces another (docs/proofs/pilot.md). Each sum gets discrete Gaussian
    noise with variance l2^2 / (2 rho), or discrete Laplace noise with scale l1 / epsilon.

    The directions query, which is optional, releases the second moment of the standardized rows.
    The pilot query determines its clipping radius and its part of the budget. The possible parts
    are fixed in advance. On each branch all parts add up to the whole budget. The noise of every
    branch is calibrated before the mechanism reads the data.

    The norm histogram counts the transformed rows by norm (`mechanisms.radius` has the proof). The
    histogram determines the clipping radius of the last round, which releases the second moment of
    the clipped, transformed rows.

    The sensitivity of each second moment is the sensitivity for any clipped rows (see `Gaussian`
    and `MatrixLaplace`). Its map, radius and lattice depend on the data only through earlier
    rounds, and its noise is calibrated to its lattice. The costs of the rounds compose adaptively,
    in exact fractions. Epsilon and rho add up. For (epsilon, delta), mu^2 / 2 = rho adds up, and
    each variance is 8 larger (see `gaussian`).

    Not protected
    -------------
    The schema, the budget, the order of the matrix and the running time are not protected. Under
    replace-one the number of rows (or persons) is public.

    Parameters
    ----------
    look_share : float in (0, 1), public
        Fraction of the budget for the pilot query, which estimates means and variances.

    radius_share : float in (0, 1), public
        Fraction of the budget for the norm histogram, which determines the clipping radius and
        estimates the clipping bias.

    trace_share : float in [0, 1), public
        Fraction of the last round for the trace under add-remove.

    power : float in [0, 1], public
        Power of the standard deviation that divides each feature. The goal of the request sets it
        (`mechanisms.choice`). A feature can have a long tail if a bound is more than 8 standard
        deviations from the mean. Without a directions query, the mechanism then uses up to twice
        the standard deviation.

    directions_share : float in [0, 1), public
        Fraction of the budget for the directions query. The query clips the standardized rows at 1
        to 4 times their root mean square norm, and less noise allows a larger radius. The mechanism
        then divides each direction by a power of its standard deviation. The query improves
        correlations and regressions of numeric columns. With 0 there is no directions query.

    directions_most : float in [0, 1), public
        Largest fraction of the budget for the directions query. For small tables the mechanism
        doubles `directions_share` up to this limit. It skips the query if the noise would still
        hide most directions. With 0 the mechanism always uses `directions_share`.

    directions_power : float in [0, 1], public
        Power of the standard deviation that divides each direction. The goal sets it too.

    loss_weight : float above 0, public
        Weight of the clipping bias relative to the noise in the choice of the radius. The goal of
        the request sets the weight. A smaller weight gives a smaller radius.

    Returns
    -------
    Release
        Integers of shape (d, d) for the transformed rows, the map (`Release.linear_map`), its
        center, the trace, and the noise distribution. The noise is the noise of matrix-laplace for
        a pure budget and the noise of gaussian for zCDP. For (epsilon, delta) it is the smaller of
        the two.

    Raises
    ------
    MechanismError
        The schema has no intercept, or the budget is too small for the noise. dpcov has not read
        any data.

    SourceError
        The disk has no space for a private copy of data that can be read only once. The budget is
        spent.

    Cost
    ----
    The mechanism reads the data 3 times (6 times to protect persons). It draws the noise of one
    release, of 2 p + 1 sums, and of the counts. The histogram has 2 counts for each doubling of the
    squared norm, from 1/64 of its mean. With a directions query the mechanism reads the data 4
    times (8 times to protect persons) and draws the noise of this query. It also multiplies each
    row by a (p, p) matrix 3 times.

    Source
    ------
    dpcov. Biswas, Dong, Kamath and Ullman, "CoinPress", NeurIPS 2020, proposed cheap first rounds
    that let later rounds add less noise. The pilot query is such a round with 2 p + 1 numbers.
    The rounds of CoinPress release a matrix (see `Preconditioned`).

    Examples
    --------
    >>> import math
    >>> from dpcov import Neighbors, ZCDP
    >>> from dpcov.mechanisms import Standardized
    >>> from dpcov.rows.moment import Lattice
    >>> lattice = Lattice(4, 2.0, intercept=0.3)
    >>> laws = Standardized().calibrate(lattice, ZCDP(0.5), Neighbors.ADD_REMOVE)
    >>> round(math.sqrt(laws.look.variance) * lattice.step**2, 2)
    8.92

    """

    look_share: Share = 0.07
    radius_share: Share = 0.1
    trace_share: ShareOrNone = 0.05
    power: Power = 0.5
    directions_share: ShareOrNone = 0.0
    directions_most: ShareOrNone = 0.0
    directions_power: Power = 1.0
    loss_weight: Above0 = 1.0

    name: ClassVar[str] = "standardized"
    use: ClassVar[str] = (
        "tables that fill a small part of their bounds or lie far from the midpoints"
    )
    source: ClassVar[str] = "dpcov"
    set_by_goal: ClassVar[frozenset[str]] = frozenset({"power", "directions_power", "loss_weight"})

    def __post_init__(self) -> None:
        check_fields(self)
        check_shares(self, "look_share", "directions_share", "radius_share")
        check_shares(self, "look_share", "directions_most", "radius_share")

    @property
    def passes(self) -> int:
        """Maximum number of times that the mechanism reads the data: once for each round."""
        return 3 if self.directions_share == 0 else 4

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        self._require_intercept(lattice)
        relation = Neighbors(neighbors)
        return by_budget(
            budget,
            lambda: self._laplace(lattice, budget, relation),
            lambda: self._gaussian(lattice, budget, relation),
            noise_of_rounds,
        )

    def calibrate_gaussian(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> Calibration:
        self._require_intercept(lattice)
        return self._gaussian(lattice, budget, Neighbors(neighbors), rounded=True)

    def _require_intercept(self, lattice: Lattice) -> None:
        if lattice.intercept_units == 0:
            raise MechanismError(
                f"The mechanism {self.name} needs means, and means need an intercept. Set "
                "intercept = 0.3 in the schema, or choose another mechanism."
            )

    def _laplace(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        """Calibrate Laplace noise, which spends epsilon and no delta."""
        epsilon = pure_epsilon(self.name, budget)
        guarantee = pure_guarantee(lattice, epsilon, neighbors)
        laws = laplace_laws(lattice, neighbors, *self._spent(epsilon))

        # The calibration is for the largest norm on a lattice. Smaller norms need less noise.
        def of_images(stated: Guarantee, spent: Fraction) -> additive.Calibration:
            return nuclear_calibration(
                lattice.relative(), stated, spent, self.trace_share, pure_noise
            )

        return Calibration(guarantee, *laws, self._paths(guarantee, epsilon, of_images))

    def _gaussian(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors, *, rounded: bool = False
    ) -> Calibration:
        """Calibrate Gaussian noise, which spends rho or a delta."""
        rho, extra = gaussian.concentration(self.name, budget, rounded=rounded)
        guarantee = Guarantee(budget, neighbors, lattice.unit)
        laws = gaussian_laws(lattice, neighbors, *self._spent(rho), extra)

        def of_images(stated: Guarantee, spent: Fraction) -> additive.Calibration:
            return gaussian.calibration(lattice.relative(), stated, spent, extra, self.trace_share)

        paths = self._paths(guarantee, rho, of_images)
        return Calibration(guarantee, *laws, paths, gaussian.mu_squared(rho, extra))

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        rows.require_rereadable()
        plain = rows.lattice()
        looking = laws.look.samples(2 * plain.features + 1, entropy)
        first, rounds, seed = rows.second_moments()[0], list[Round](), None
        seen = look(first, laws.look, looking, rows.missing_columns)
        sums = NoisySums(noisy_sums(first, looking), laws.look)
        rounds += rounds_of([("pilot", sums)], rows.schema, laws.guarantee)
        path = laws.path(seen, plain.features)
        images = seen.images(self.power, rows.schema, on_grid=True, last=path.directions is None)
        taken = replace(self, directions_share=path.share, directions_most=0.0)
        if path.directions is not None:
            radius = look_radius(images, path.directions.matrix, plain.features)
            grid, spent, draws = drawn(path.directions, plain, radius, entropy)
            moment = rows.second_moments(radius=radius, transform=images.map, lattice=grid)[0]
            directions = additive.published(taken, rows.schema, spent, draws, moment, images.map)
            rounds += [replace(one, query=DIRECTIONS[one.query]) for one in directions.rounds]
            # The release publishes this word, so that a reader can repeat the map. All words of the
            # stream are independent, so the word discloses no noise.
            seed = int(entropy.words(1)[0])
            generator = simulation_generator(seed)
            whitened = RowTransform.by_direction(directions, self.directions_power, generator)
            images = whitened or seen.images(self.power, rows.schema, on_grid=True)
        ends = bin_upper_ends(images.typical, images.longest)
        noise = laws.counts.samples(len(ends), entropy)
        counts = rows.norm_counts(np.sqrt(ends[:-1]), radius=images.longest, transform=images.map)
        lengths = NormHistogram(tuple(ends.tolist()), tuple((counts + noise).tolist()), laws.counts)
        radius = best_radius(lengths, path.final.matrix, plain.relative(), self.loss_weight)
        grid, spent, draws = drawn(path.final, plain, radius, entropy)
        moment = rows.second_moments(radius=radius, transform=images.map, lattice=grid)[0]
        made = additive.published(taken, rows.schema, spent, draws, moment, images.map)
        rounds += rounds_of([("norms", lengths)], rows.schema, laws.guarantee)
        return replace(made, rounds=tuple(with_rule((*rounds, *made.rounds), seed)))

    def _spent(self, budget: Fraction) -> tuple[Fraction, Fraction]:
        """Return the cost of the pilot query and of the counts, the same on every branch."""
        return exact(self.look_share) * budget, exact(self.radius_share) * budget

    def _paths(
        self,
        guarantee: Guarantee,
        budget: Fraction,
        of_images: Callable[[Guarantee, Fraction], additive.Calibration],
    ) -> tuple[Path, ...]:
        """Return all branches: directions queries with doubled fractions, or no such query."""
        left = budget - sum(self._spent(budget))

        def path(share: float) -> Path:
            spent = exact(share) * budget
            directions = of_images(guarantee.of_part(spent), spent) if share > 0 else None
            return Path(share, of_images(guarantee, left - spent), directions)

        if self.directions_share == 0:
            return (path(0.0),)
        doublings = math.log2(max(1.0, self.directions_most / self.directions_share))
        shares = [self.directions_share * 2**k for k in range(math.floor(doublings) + 1)]
        return tuple(map(path, [*shares, 0.0] if self.directions_most > 0 else shares))


# The variants that `auto` uses: without and with a directions query.
BY_COLUMN = Standardized()
BY_DIRECTION = Standardized(look_share=0.05, directions_share=0.03, directions_most=0.24)


def noise_of_rounds(laws: Calibration) -> float:
    """Return the noise of all rounds as one number, to compare two calibrations.

    The number is a weighted geometric mean of the standard deviations of the rounds. The ratio of
    two such numbers predicts the ratio of the errors of two releases. The script
    `benchmarks/noise_choice.py` measures both ratios.
    """
    first = laws.paths[0]
    before = [laws.look.standard_deviation, laws.counts.standard_deviation]
    if first.directions is not None:
        before.append(math.sqrt(first.directions.matrix.frobenius_squared))
    last = math.log(first.final.matrix.frobenius_squared) / 2
    mean_before = sum(map(math.log, before)) / len(before)
    return math.exp(LAST_ROUND_WEIGHT * last + (1 - LAST_ROUND_WEIGHT) * mean_before)


def laplace_laws(
    lattice: Lattice, neighbors: Neighbors, looking: Fraction, counting: Fraction
) -> tuple[ScalarLaplace, ScalarLaplace]:
    """Return Laplace noise for the pilot query and for the counts, from their costs in epsilon."""
    rows = neighbors.sides * lattice.unit.max_rows
    of_look = ScalarLaplace(pilot_sensitivities(lattice, neighbors)[1] / looking)
    return of_look, ScalarLaplace(rows / counting)


def gaussian_laws(
    lattice: Lattice, neighbors: Neighbors, looking: Fraction, counting: Fraction, extra: int
) -> tuple[ScalarGaussian, ScalarGaussian]:
    """Return Gaussian noise for the pilot query and for the counts, from their costs in rho.

    Each variance is larger by `extra` (see `gaussian.concentration`).
    """
    squared, _ = pilot_sensitivities(lattice, neighbors)
    of_look = ScalarGaussian(squared / (2 * looking) + extra)
    return of_look, count_law(lattice, counting / neighbors.sides, extra)


def best_radius(lengths: NormHistogram, law: MatrixLaw, lattice: Lattice, weight: float) -> float:
    """Return the clipping radius with the smallest predicted error of an entry.

    The error has two parts: the noise of the entry and the clipping bias, multiplied by `weight`.
    `mechanisms.radius_losses` estimates the total bias, and `estimate.errors` describes how the
    total bias spreads over the entries.
    """
    noise = math.sqrt(law.diagonal_variance) / UNITS**2  # for a radius of 1
    steps = np.arange(RADII_PER_DOUBLING * len(lengths.upper_ends) / BINS_PER_OCTAVE)
    squares = lengths.upper_ends[-1] * 2.0 ** (-steps / RADII_PER_DOUBLING)
    taken = squared_norm_losses(lengths, np.sqrt(squares))
    of_loss = weight * RULE_COLUMN_LOSS_RELATIVE_SD * taken / lattice.features
    errors = np.hypot(noise * squares, of_loss)
    return math.sqrt(squares[np.argmin(errors)])


def drawn(
    laws: additive.Calibration, plain: Lattice, radius: float, entropy: Entropy
) -> tuple[Lattice, additive.Calibration, additive.Draws]:
    """Return the lattice of rows clipped at a radius, its noise distributions, and one draw.

    The noise distributions on the new lattice cost as much as `laws`, because the radius depends on
    the data only through earlier rounds.
    """
    lattice = plain.for_transform(radius)
    there = laws.at(lattice)
    return lattice, there, additive.Draws.of(there, entropy)


def look_radius(images: RowTransform, law: MatrixLaw, p: int) -> float:
    """Return the clipping radius of the directions query.

    The radius is 1 to `MAX_RADIUS_FACTOR` times the root mean square norm of the transformed rows.
    The noise in a direction grows with the squared radius. The function reduces the radius if the
    noise ratio exceeds `MAX_CLIPPING_NOISE_RATIO`.
    """
    reach = math.sqrt(MAX_CLIPPING_NOISE_RATIO / noise_share(law, images.count, p))
    return min(images.typical * min(max(reach, 1.0), MAX_RADIUS_FACTOR), images.longest)


def noise_share(law: MatrixLaw, count: float, p: int) -> float:
    """Return the noise ratio of a direction for rows clipped at their root mean square norm."""
    return math.sqrt(law.diagonal_variance) / UNITS**2 * p**1.5 / count


@dataclass(frozen=True, slots=True)
class Spread:
    """Estimates from the pilot query, for p features in [-1, 1].

    Attributes
    ----------
    center : ndarray, shape (p,)
        Estimated means. For a feature with missing cells, the mean of the rows that have a value.

    variances : ndarray, shape (p,)
        Estimated variances, with a margin for the noise.

    count : float
        Estimated number of rows, at least 1.

    gaps : mapping of int to int
        Position of the missingness indicator for each feature with missing cells.

    astray : float
        Squared error of the center, as a fraction of the mean squared norm about the center.

    """

    center: Vector
    variances: Vector
    count: float
    gaps: Mapping[int, int] = field(default_factory=dict)
    astray: float = 0.0

    def images(
        self, power: float, schema: Schema, *, on_grid: bool = False, last: bool = True
    ) -> RowTransform:
        """Return the standardizing transformation.

        The transformation subtracts the center and divides each feature by a power of its standard
        deviation. In the last round, the standard deviation is multiplied by up to
        `MAX_TAIL_FACTOR` if a bound is more than `TAIL_SDS` standard deviations from the mean.

        For a directions query, flags and indicators are neither centered nor divided. Every row
        then has the same square of a flag, and the same sum of squares of a category. After
        centering and division, rows with a rare level would be long, and clipping would hide the
        level.

        Parameters
        ----------
        power : float
            Power of the standard deviation.

        schema : Schema
            Schema of the table.

        on_grid : bool
            True to round the factors of the features to `SCALE_BITS` binary digits, and the step of
            the center to a power of two. Bounds, midpoints and categories are then multiples of the
            quantisation step of the transformed rows (`Lattice.for_transform`).

        last : bool
            True for the last round, False for a directions query.

        Returns
        -------
        RowTransform
            Transformation of the rows, with the norms of the transformed rows.

        """
        center, extents = self.center.copy(), self._extents(schema)
        if not last:
            binary = binary_features(schema)
            binary[list(self.gaps.values())] = False  # a missingness indicator has its own length
            center[binary] = 0.0
            extents = np.where(binary, 1.0, np.sqrt(self.variances))
        squares = self.variances + (self.center - center) ** 2
        units: Vector = extents**power
        for at, mark in self.gaps.items():
            units[mark] = units[at] / (INDICATOR_LENGTH_SDS * math.sqrt(self.variances[at]))
        units /= units.max()
        scales, matrix = 1 / units, np.eye(len(units))
        if on_grid:
            digits, exponents = np.frexp(scales)
            powers = np.ldexp(1.0, exponents - SCALE_BITS)
            scales = np.rint(digits * 2**SCALE_BITS) * powers
            longest = max_transformed_norm(np.diag(scales), center, schema.effective_radius)
            fine = np.exp2(np.floor(np.log2(self.variances) / 2)) / CENTER_STEPS_PER_SD
            steps = np.minimum(power_above(2 * longest) / UNITS / powers, fine)
            center = np.rint(center / steps) * steps  # a variance is at most 1, so 1 is a multiple
        for at, mark in self.gaps.items():  # a missing cell becomes 0 in the transformed row
            matrix[at, mark] = center[at]
            center[at] *= 1 - center[mark]
        reached = RowTransform.reached(matrix * scales[:, None], center, schema)
        root_mean_square = math.sqrt(np.sum(squares * scales**2))
        return RowTransform(*reached, min(reached[1], root_mean_square), self.count)

    def _extents(self, schema: Schema) -> Vector:
        """Return the standard deviations, larger for features that can have long tails."""
        deviations = np.sqrt(self.variances)
        lowest = np.array([0.0 if one.is_indicator else -1.0 for one in schema.features])
        farthest = np.maximum(1.0 - self.center, self.center - lowest)
        limits = deviations, MAX_TAIL_FACTOR * deviations
        extents: Vector = np.clip(farthest / TAIL_SDS, *limits)
        return extents


def look(moment: SecondMoment, law: ScalarLaw, noise: Integers, gaps: Mapping[int, int]) -> Spread:
    """Estimate means and variances from the noisy sums of the pilot query.

    Noise increases the estimated variances.

    Parameters
    ----------
    moment : SecondMoment
        Exact second moment of the encoded rows.

    law : ScalarLaw
        Noise distribution of each sum.

    noise : ndarray of int, shape (2 p + 1,)
        Noise of each sum, in squared lattice steps.

    gaps : mapping of int to int
        Position of the missingness indicator for each feature with missing cells.

    Returns
    -------
    Spread
        Estimates from the noisy sums.

    """
    p, step = moment.lattice.features, moment.lattice.step
    constant = moment.lattice.intercept_units * step
    squares, products, corner = _sums(moment, noise)
    deviation = law.standard_deviation * step**2
    counts = np.full(p, corner / constant**2)
    for at, mark in gaps.items():
        counts[at] -= products[mark] / constant
    count = np.maximum(1.0, counts)
    # If the noise might hide all rows, the estimates are as uncertain as for one row.
    rows = np.where(count > MIN_COUNT_SDS * deviation / constant**2, count, 1.0)
    of_mean, of_square = deviation / (constant * rows), deviation / rows
    center, off = pooled(products / (constant * count), of_mean)
    # A mean with more noise than the uniform prior is unknown. The midpoint is then the center.
    blind = of_mean**2 > UNIFORM_VARIANCE
    center[blind], off[blind] = 0.0, math.sqrt(UNIFORM_VARIANCE)
    found, unsure = pooled(squares / count - center**2, np.hypot(of_square, 2 * center * off))
    slack = 0.5 * unsure
    variances = np.clip(np.maximum(found, slack) + slack, MIN_STANDARD_DEVIATION**2, 1)
    astray = float(np.sum(off**2) / np.sum(variances))
    return Spread(center, variances, max(1.0, corner / constant**2), gaps, astray)


def pooled(found: Vector, noise: Vector) -> tuple[Vector, Vector]:
    """Shrink noisy estimates of the features towards their common mean.

    The method is empirical Bayes (Efron and Morris 1973). The prior of the common mean covers
    [-1, 1]. The standard deviation between features has a uniform prior. Limited translation
    restricts each shift to `MAX_SHRINKAGE_SDS` standard deviations of the noise (Efron and Morris
    1972).

    Parameters
    ----------
    found : ndarray, shape (p,)
        Noisy estimates, such as means.

    noise : ndarray, shape (p,)
        Standard deviations of the normal noise in the estimates.

    Returns
    -------
    expected : ndarray, shape (p,)
        Posterior means, in [-1, 1].

    error : ndarray, shape (p,)
        Posterior standard deviations.

    """
    apart = np.linspace(0, math.sqrt(UNIFORM_VARIANCE), PRIOR_GRID_SIZE)[:, None]
    variances = apart**2 + noise**2
    total = np.sum(1 / variances, axis=1) + 1 / UNIFORM_VARIANCE
    common = np.sum(found / variances, axis=1) / total
    beside = found - common[:, None]
    squares = np.sum(beside**2 / variances, axis=1) + common**2 / UNIFORM_VARIANCE
    likelihoods = -0.5 * (squares + np.log(variances).sum(axis=1) + np.log(total))
    chances = np.exp(likelihoods - likelihoods.max())
    chances /= chances.sum()
    pulled = noise**2 / variances  # weights of the common mean
    centers = found - pulled * beside
    center = chances @ centers
    squared = pulled * apart**2 + pulled**2 / total[:, None]
    off = np.sqrt(chances @ (squared + (centers - center) ** 2))
    reach = MAX_SHRINKAGE_SDS * noise
    return np.clip(np.clip(center, found - reach, found + reach), -1, 1), off


def _sums(moment: SecondMoment, noise: Integers) -> tuple[Vector, Vector, float]:
    """Return the noisy sums of the squares, of the products with t, and of t^2.

    The number t is the intercept of a row.
    """
    p = moment.lattice.features
    noisy = np.array(noisy_sums(moment, noise), float) * moment.lattice.step**2
    return noisy[:p], noisy[p:-1], float(noisy[-1])


def noisy_sums(moment: SecondMoment, noise: Integers) -> tuple[int, ...]:
    """Return the noisy sums as the release publishes them, in squared lattice steps."""
    units, p = moment.units, moment.lattice.features
    exactly = np.concatenate([np.diag(units)[:p], units[:, -1]])
    return tuple(int(one) for one in exactly + noise)
