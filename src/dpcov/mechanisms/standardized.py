"""Take the features about their means, in units of their spread, then release their moment."""

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
from dpcov.denoise.clipped import UNLIKE
from dpcov.errors import MechanismError
from dpcov.mechanisms import additive, gaussian
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.images import SURE, Images
from dpcov.mechanisms.matrix_laplace import pure_noise
from dpcov.mechanisms.pilot_sensitivity import pilot_sensitivities
from dpcov.mechanisms.pure import by_budget, nuclear_calibration, pure_epsilon, pure_guarantee
from dpcov.mechanisms.radius import count_law
from dpcov.releases import Sums
from dpcov.releases.lengths import BINS, Lengths, bin_ends
from dpcov.rows.moment import UNITS, longest_image, power_above

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


STEPS = 4  # candidates for the squared radius from one to its double
REACH = 4.0  # typical lengths, of rows that a second look doesn't clip
# Noise in a direction, over what one has on average, from which less is better (measured there).
DROWNS = 0.05
# By how much of that noise errors of the release grow, as its map is off (tuned by `make tried`).
DISTORTS = 5.0
# Noise in a direction, over what one has on average, from which a second look hides more than it
# shows; not where a center that is off may be more than this share of rows' squared length.
HIDES, ASTRAY = 2.0, 0.05
LEAST_SPREAD = 2.0**-20  # in units of a feature's half-range
FINER = 16  # than the standard deviation: where a center may be
ANYWHERE = 1 / 3  # the variance of what may be anywhere in [-1, 1]
DEVIATIONS = 64  # of numbers of features from each other, that are weighed
FARTHEST = 2.0  # deviations of its noise that such a number is moved
# Weight of the last round's noise in the comparison of two calibrations; earlier rounds share the
# rest. Of the weights tried it loses least (docs/results/noise_choice.json).
LAST_ROUND_WEIGHT = 0.7
GAP = 1.0  # deviations of a feature that the mark of its gaps is long (measured)


@dataclass(frozen=True, slots=True)
class Path:
    """What follows the first look: laws of the release, and of a second look with this share.

    All paths of a mechanism spend the same, so which is taken may follow from the first look.
    """

    share: float
    final: additive.Calibration
    directions: additive.Calibration | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public outcome of calibrating `Standardized`.

    `look` is the law of every number of the look, `counts` that of every count of mapped rows by
    norm; of the `paths`, that of the least second look is the first, one without it the last.
    """

    guarantee: Guarantee
    look: ScalarLaw
    counts: ScalarLaw
    paths: tuple[Path, ...]

    def __post_init__(self) -> None:
        for law in (self.look, self.counts):
            law.require_drawable()

    @property
    def final(self) -> additive.Calibration:
        return self.paths[0].final

    def path(self, seen: Spread, p: int) -> Path:
        """That of the least predicted error: its noise, and what a map that is off adds to it.

        If there is a choice, the last one, without a second look, where noise would hide most
        directions from it; but not where the center may be far off, which shows in a matrix.
        """
        noises = [noise_share(at.directions.matrix, 1.0, p) for at in self.paths if at.directions]
        if not noises:
            return self.paths[0]
        errors = [
            math.sqrt(path.final.matrix.diagonal_variance) * (1 + DISTORTS * noise / seen.count)
            for path, noise in zip(self.paths, noises, strict=False)
        ]
        best = int(np.argmin(errors))
        hidden = noises[best] / seen.count > HIDES and seen.astray < ASTRAY
        return self.paths[-1 if hidden else best]


@dataclass(frozen=True, slots=True)
class Standardized(Mechanism):
    r"""Second moment of features about their means, in units of their spread; for any budget.

    For tables whose values fill a small part of their bounds, or lie far from the midpoints: rows
    are much shorter about their means, and noise grows with their squared length. Means and
    spreads come from a first, private look, which takes few numbers and so little of the budget.

    Guarantee
    ---------
    Epsilon-DP for a pure budget; rho-zCDP; (epsilon, delta)-DP by the exact curve of the Gaussian
    mechanism, or with Laplace noise, which spends no delta, where there is less of it. For every
    input, under add/remove or replace-one, for rows or for persons with at most k rows.

    Sensitivity
    -----------
    The look takes from sum w w', w = (z, t), its diagonal and last column: sum z_j^2, sum t z_j and
    sum t^2. In lattice units ||z|| <= Q, |z_j| <= u (a feature lies in [-1, 1], and is only
    shortened after that), t <= T. What a row adds has

        l2^2 <= Q^2 (u^2 + T^2) + T^4,    l1 <= Q^2 + T sqrt(p) Q + T^2;

    what a unit adds is at most k times as long. `pilot_sensitivities` bounds the change if one unit
    replaces another (docs/proofs/pilot.md). Every number gets its own discrete Gaussian of
    variance l2^2 / (2 rho), or discrete Laplace of scale l1 / epsilon. A second look, if there is
    one, is the second moment of mapped rows, clipped at a radius that the first tells. Its share of
    the budget is one of a few that are known beforehand; which, follows from what the first look
    tells. On each of these paths the parts add up to the whole budget, and the laws of all are
    calibrated before anything is read. Then counts of rows by the norm of their map
    (`mechanisms.radius` has the proof), which are published whole
    and tell the radius of the release: again the second moment of clipped mapped rows. Of both the
    sensitivity is that of any clipped rows (`Gaussian`, `MatrixLaplace`): a map, a radius and their
    lattice depend on the data through looks before them alone, and the laws are calibrated to that
    lattice. Costs add up adaptively, in exact rationals: epsilon by basic composition, rho, and for
    (epsilon, delta) mu^2 / 2 = rho with variances 8 larger (`gaussian`).

    Not protected
    -------------
    Schema, budget, order of the matrix, running time; the number of rows (of persons) under
    replace-one.

    Parameters
    ----------
    look_share : float in (0, 1), public
        Share of the budget for means and spreads.
    radius_share : float in (0, 1), public
        Share of the budget for counts of mapped rows by length: for the radius at which they are
        clipped, and for what that takes.
    trace_share : float in [0, 1), public
        Share of the release for the trace under add/remove.
    power : float in [0, 1], public
        Features are divided by this power of their standard deviation: 0 leaves their scale, 1
        gives all the same; between them, errors are smallest where they are largest.
    directions_share : float in [0, 1), public
        Share of the budget for a second look, at all directions of the rows that the first has
        mapped, clipped at one to four times their root mean square length, the less the more its
        noise drowns; then each direction is divided by a power of its standard deviation. For
        correlations and regressions of numbers. Rows with a rare level would be long then. 0: no
        second look.
    directions_most : float in [0, 1), public
        That share is doubled, while it is not above this one, where the first look tells of so few
        rows that the second one's noise would spoil the map; where even then it would hide most
        directions, there is none. 0: never.
    directions_power : float in [0, 1], public
        Power of its standard deviation by which a direction is divided.
    loss_weight : float above 0, public
        What errors by a clip count beside those by noise where the radius is chosen. Below 1 it is
        shorter: what a clip takes from all directions alike changes no correlation and no
        coefficient. Above 1 it is longer, for the moment as a whole, from which it is missing.

    Returns
    -------
    Release
        (d, d) integers about mapped rows, the map (`Release.linear_map`) and its center, the trace,
        the noise law: that of matrix-laplace for a pure budget, that of gaussian for zCDP; for
        (epsilon, delta) whichever is less.

    Raises
    ------
    MechanismError
        The schema has no intercept, or the budget is too small for the noise. Before anything
        is read.
    SourceError
        What can be read only once finds no room for a private copy. The budget is spent.

    Cost
    ----
    Three passes over the data (six with persons); the noise of one release, of 2 p + 1 numbers,
    and of a count for each half octave of the squared length of mapped rows, from 1/64 of its
    mean up. With a second look four (eight), its noise, and of each row three
    products with a (p, p) matrix.

    Source
    ------
    dpcov. Biswas, Dong, Kamath and Ullman, "CoinPress", NeurIPS 2020, for rounds of cheap looks
    that let later ones add less noise; this is one such round, on 2 p + 1 numbers where theirs
    takes a matrix (`Preconditioned`).

    Examples
    --------
    >>> from dpcov.rows.moment import Lattice
    >>> from dpcov.core.privacy import ZCDP
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

    def __post_init__(self) -> None:
        check_fields(self)
        check_shares(self, "look_share", "directions_share", "radius_share")
        check_shares(self, "look_share", "directions_most", "radius_share")

    @property
    def passes(self) -> int:
        """The look, a second one if there is any, the radius, the release."""
        return 3 if self.directions_share == 0 else 4

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        if lattice.intercept_units == 0:
            raise MechanismError(
                f"{self.name} takes features about their means, which only an intercept tells. "
                "Give the schema an intercept (the default is 0.3), or choose another mechanism."
            )
        relation = Neighbors(neighbors)
        return by_budget(
            budget,
            lambda: self._laplace(lattice, budget, relation),
            lambda: self._gaussian(lattice, budget, relation),
            noise_of_rounds,
        )

    def _laplace(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        """Calibrate Laplace noise, which is pure and spends no delta."""
        epsilon = pure_epsilon(self.name, budget)
        guarantee = pure_guarantee(lattice, epsilon, neighbors)
        laws = laplace_laws(lattice, neighbors, *self._spent(epsilon))

        # Of the longest images that a lattice holds: others have less noise, in lattice units.
        def of_images(stated: Guarantee, spent: Fraction) -> additive.Calibration:
            return nuclear_calibration(
                lattice.relative(), stated, spent, self.trace_share, pure_noise
            )

        return Calibration(guarantee, *laws, self._paths(guarantee, epsilon, of_images))

    def _gaussian(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        rho, extra = gaussian.concentration(self.name, budget)
        guarantee = Guarantee(budget, neighbors, lattice.unit)
        laws = gaussian_laws(lattice, neighbors, *self._spent(rho), extra)

        def of_images(stated: Guarantee, spent: Fraction) -> additive.Calibration:
            return gaussian.calibration(lattice.relative(), stated, spent, extra, self.trace_share)

        return Calibration(guarantee, *laws, self._paths(guarantee, rho, of_images))

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        rows.require_rereadable()
        plain = rows.lattice()
        looking = laws.look.samples(2 * plain.features + 1, entropy)
        first, directions = rows.second_moments()[0], None
        seen = look(first, laws.look, looking, rows.gaps)
        images = seen.images(self.power, rows.schema, on_grid=True)
        path = laws.path(seen, plain.features)
        taken = replace(self, directions_share=path.share, directions_most=0.0)
        if path.directions is not None:
            radius = look_radius(images, path.directions.matrix, plain.features)
            grid, spent, draws = drawn(path.directions, plain, radius, entropy)
            moment = rows.second_moments(radius=radius, transform=images.map, lattice=grid)[0]
            directions = additive.published(taken, rows.schema, spent, draws, moment, images.map)
            # Of the release's own stream, so that a seed repeats the map as well.
            generator = simulation_generator(int(entropy.words(1)[0]))
            images = Images.by_direction(directions, self.directions_power, generator) or images
        ends = bin_ends(images.typical, images.longest)
        noise = laws.counts.samples(len(ends), entropy)
        counts = rows.norm_counts(np.sqrt(ends[:-1]), radius=images.longest, transform=images.map)
        lengths = Lengths(tuple(ends.tolist()), tuple((counts + noise).tolist()), laws.counts)
        radius = best_radius(lengths, path.final.matrix, plain.relative(), self.loss_weight)
        grid, spent, draws = drawn(path.final, plain, radius, entropy)
        moment = rows.second_moments(radius=radius, transform=images.map, lattice=grid)[0]
        made = additive.published(taken, rows.schema, spent, draws, moment, images.map)
        sums = Sums(noisy_sums(first, looking), laws.look)
        return replace(made, lengths=lengths, sums=sums, directions=directions)

    def _spent(self, budget: Fraction) -> tuple[Fraction, Fraction]:
        """By the look and by the counts, on every path."""
        return exact(self.look_share) * budget, exact(self.radius_share) * budget

    def _paths(
        self,
        guarantee: Guarantee,
        budget: Fraction,
        of_images: Callable[[Guarantee, Fraction], additive.Calibration],
    ) -> tuple[Path, ...]:
        """What may follow the first look: a second one, its share doubled ever again, or none."""
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


# What `auto` takes of it.
BY_COLUMN = Standardized()
BY_DIRECTION = Standardized(look_share=0.05, directions_share=0.03, directions_most=0.24)


def noise_of_rounds(laws: Calibration) -> float:
    """Return the noise of all rounds in one number, to compare two calibrations.

    It is a weighted geometric mean of the standard deviations. Its ratio predicts the ratio of the
    errors of two releases (`benchmarks/noise_choice.py` measures both).
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
    """Laws of the look's numbers and of counts of rows, that spend these epsilons."""
    rows = neighbors.sides * lattice.unit.max_rows
    of_look = ScalarLaplace(pilot_sensitivities(lattice, neighbors)[1] / looking)
    return of_look, ScalarLaplace(rows / counting)


def gaussian_laws(
    lattice: Lattice, neighbors: Neighbors, looking: Fraction, counting: Fraction, extra: int
) -> tuple[ScalarGaussian, ScalarGaussian]:
    """The same for these rhos; variances are larger by `extra` (`gaussian.concentration`)."""
    squared, _ = pilot_sensitivities(lattice, neighbors)
    of_look = ScalarGaussian(squared / (2 * looking) + extra)
    return of_look, count_law(lattice, counting / neighbors.sides, extra)


def best_radius(lengths: Lengths, law: MatrixLaw, lattice: Lattice, weight: float) -> float:
    """The radius of least predicted error: the noise in an entry, and what a clip may take from it.

    Of the latter, T2 in all, p^2 entries miss as much as p columns by the law of `denoise.clipped`;
    it counts by `weight`.
    """
    noise = math.sqrt(law.diagonal_variance) / UNITS**2  # where the radius is 1
    squares = lengths.ends[-1] * 2.0 ** (-np.arange(STEPS * len(lengths.ends) / BINS) / STEPS)
    taken = np.array([lengths.squared(math.sqrt(square)).size for square in squares])
    errors = np.hypot(noise * squares, weight * UNLIKE * taken / lattice.features)
    return math.sqrt(squares[np.argmin(errors)])


def drawn(
    laws: additive.Calibration, plain: Lattice, radius: float, entropy: Entropy
) -> tuple[Lattice, additive.Calibration, additive.Draws]:
    """The lattice of images clipped at `radius`, laws that spend as much there, one draw of each.

    A radius and a map come from looks before alone, so what is spent is what `laws` say.
    """
    lattice = plain.of_images(radius)
    there = laws.at(lattice)
    return lattice, there, additive.Draws.of(there, entropy)


def look_radius(images: Images, law: MatrixLaw, p: int) -> float:
    """Where a look at directions clips: up to `REACH` times the typical length, less where few.

    Noise in a direction grows with the squared radius; beyond `DROWNS` of what a direction has on
    average it costs more than a clip.
    """
    reach = math.sqrt(DROWNS / noise_share(law, images.count, p))
    return min(images.typical * min(max(reach, 1.0), REACH), images.longest)


def noise_share(law: MatrixLaw, count: float, p: int) -> float:
    """Noise in a direction over what one has on average, of rows clipped at the typical length."""
    return math.sqrt(law.diagonal_variance) / UNITS**2 * p**1.5 / count


@dataclass(frozen=True, slots=True)
class Spread:
    """What the look tells: a center and variances about it, (p,), of features in [-1, 1].

    And about how many rows there are, and which share of their squared length about the center may
    be but its error. Of each feature in `gaps`, which has the positions of their marks, mean and
    variance are those of the rows that have it.
    """

    center: Vector
    variances: Vector
    count: float
    gaps: Mapping[int, int] = field(default_factory=dict)
    astray: float = 0.0

    def images(self, power: float, schema: Schema, *, on_grid: bool = False) -> Images:
        """Rows about the center, in units of this power of the standard deviations.

        If they are to be `on_grid`, units are powers of two, and so is what the center is a
        multiple of: the step of images of any radius (`Lattice.of_images`), or far below the
        deviation. Then bounds, midpoints and levels are on the grid of images too.
        """
        units: Vector = self.variances ** (power / 2)
        for at, mark in self.gaps.items():
            units[mark] = units[at] / (GAP * math.sqrt(self.variances[at]))
        units /= units.max()
        matrix, center = np.eye(len(units)), self.center.copy()
        if on_grid:
            units = np.exp2(np.rint(np.log2(units)))
            longest = longest_image(np.diag(1 / units), center, schema.effective_radius)
            fine = np.exp2(np.floor(np.log2(self.variances) / 2)) / FINER
            steps = np.minimum(units * (power_above(2 * longest) / UNITS), fine)
            center = np.rint(center / steps) * steps  # 1 is a multiple, as no variance is above 1
        for at, mark in self.gaps.items():  # where it is missing, the image is 0: c u in place
            matrix[at, mark] = center[at]
            center[at] *= 1 - center[mark]
        reached = Images.reached(matrix / units[:, None], center, schema)
        root_mean_square = math.sqrt(np.sum(self.variances / units**2))
        return Images(*reached, min(reached[1], root_mean_square), self.count)


def look(moment: SecondMoment, law: ScalarLaw, noise: Integers, gaps: Mapping[int, int]) -> Spread:
    """Means and variances from sums with `noise` of `law`; cautious where it drowns them."""
    p, step = moment.lattice.features, moment.lattice.step
    constant = moment.lattice.intercept_units * step
    squares, products, corner = _sums(moment, noise)
    deviation = law.standard_deviation * step**2
    counts = np.full(p, corner / constant**2)
    for at, mark in gaps.items():
        counts[at] -= products[mark] / constant
    count = np.maximum(1.0, counts)
    # Where noise hides whether there are any rows, as uncertain as of one.
    rows = np.where(count > SURE * deviation / constant**2, count, 1.0)
    of_mean, of_square = deviation / (constant * rows), deviation / rows
    center, off = pooled(products / (constant * count), of_mean)
    # Rows that lie far off show in a matrix; nearer to a mean that is hardly known they don't.
    blind = of_mean**2 > ANYWHERE
    center[blind], off[blind] = 0.0, math.sqrt(ANYWHERE)
    found, unsure = pooled(squares / count - center**2, np.hypot(of_square, 2 * center * off))
    slack = 0.5 * unsure
    variances = np.clip(np.maximum(found, slack) + slack, LEAST_SPREAD**2, 1)
    astray = float(np.sum(off**2) / np.sum(variances))
    return Spread(center, variances, max(1.0, corner / constant**2), gaps, astray)


def pooled(found: Vector, noise: Vector) -> tuple[Vector, Vector]:
    """Expected numbers of features, (p,), and how far off they are, from those with normal noise.

    Before the look they lie about a common one, anywhere in [-1, 1], and any deviation from it is
    as likely: how far apart they are, the noisy ones tell (Efron and Morris 1973). One that is
    unlike the others is moved `FARTHEST` at most (the same 1972).
    """
    apart = np.linspace(0, math.sqrt(ANYWHERE), DEVIATIONS)[:, None]
    variances = apart**2 + noise**2
    total = np.sum(1 / variances, axis=1) + 1 / ANYWHERE
    common = np.sum(found / variances, axis=1) / total
    beside = found - common[:, None]
    squares = np.sum(beside**2 / variances, axis=1) + common**2 / ANYWHERE
    likelihoods = -0.5 * (squares + np.log(variances).sum(axis=1) + np.log(total))
    chances = np.exp(likelihoods - likelihoods.max())
    chances /= chances.sum()
    pulled = noise**2 / variances  # shares of the common mean
    centers = found - pulled * beside
    center = chances @ centers
    squared = pulled * apart**2 + pulled**2 / total[:, None]
    off = np.sqrt(chances @ (squared + (centers - center) ** 2))
    reach = FARTHEST * noise
    return np.clip(np.clip(center, found - reach, found + reach), -1, 1), off


def _sums(moment: SecondMoment, noise: Integers) -> tuple[Vector, Vector, float]:
    """Noisy sums of squares, of products with the intercept, and of the intercept's squares."""
    p = moment.lattice.features
    noisy = np.array(noisy_sums(moment, noise), float) * moment.lattice.step**2
    return noisy[:p], noisy[p:-1], float(noisy[-1])


def noisy_sums(moment: SecondMoment, noise: Integers) -> tuple[int, ...]:
    """The same as they are published, in squared lattice steps."""
    units, p = moment.units, moment.lattice.features
    exactly = [*np.diag(units)[:p], *units[:p, -1], units[-1, -1]]
    return tuple(int(one) + int(more) for one, more in zip(exactly, noise, strict=True))
