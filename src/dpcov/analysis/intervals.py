"""Intervals for anything computed from a release, from the public law of its noise."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy

from dpcov.analysis.below_noise import FLAG, LEVEL, below_noise, contains_zero, sentence
from dpcov.analysis.drowned import means_below_noise
from dpcov.analysis.plausible import PlausibleMoments
from dpcov.analysis.rounding import hardly_noisy
from dpcov.analysis.statistics import Means, statistic_named
from dpcov.core.entropy import reading_generator
from dpcov.core.parameters import Probability, check
from dpcov.core.show.result import OMITTED, Result
from dpcov.core.show.table import LONGEST, Cell, Row, Table
from dpcov.denoise.clipped import Clip
from dpcov.errors import ReleaseError
from dpcov.releases.dates import shown as shown_dates
from dpcov.releases.pairwise import assumed
from dpcov.releases.persons import dependent, titled

if TYPE_CHECKING:
    from dpcov.analysis.statistics import Function, Name, Statistic
    from dpcov.core.arrays import Array, Booleans
    from dpcov.releases import Release

Covers = Literal["privacy noise", "privacy noise and sampling"]

MANY = 200  # features, beyond which intervals take minutes and are not shown unasked
STEP = 0.001  # of an error, for what it does to first order; of many directions none is lost
DRAWS = 300  # of errors; the standard deviation of an entry is then right to 4 %
# What the noise alone would leave plausible, to trust an interval: over what is, or of the figure.
MOST_PRIOR, MOST_NOISE = 1.1, 0.05
# When to trust the intervals of a statistic by the noise law alone: measured by
# `make bench NAME=interval_coverage`.
MOST_UNDEFINED = 0.01  # share of plausible truths for which it is not defined
MOST_BIAS = 0.1  # median of its error, in standard deviations
MOST_BENDING = 0.05  # log2 of how far its spread is from proportional to the size of the error
RANK_ROUNDING = 1e-9
CLIPPED = (
    "Long rows may have been clipped at a private radius, and intervals don't know what that took: "
    "covariances and eigenvalues may be larger than they say. Correlations and regressions hardly "
    "miss it; for covariances, take a mechanism with the schema's radius, which clips none."
)
COUNTED = (
    "Rows beyond the release's radius were shortened. How much that took is told by its noisy "
    "counts of rows by length; beyond where they show, tails are taken to go on as they are seen."
)
SHORTENED = (
    "These intervals are for the clipped rows, not for the table: what lies beyond the release's "
    "clipping radius is not in them. The figures of a table with long tails are often outside."
)
WHOLE = "No row was clipped at a private radius, so the clipped rows are all rows as encoded."
FINE = "The noise is less than what rounding does: intervals are to the resolution of the lattice."
UNSEEN = (
    "Rows too few to be detected may hold much of what the columns vary by. Intervals assume how "
    "such tails go on, and the table's own figures may be outside. for_clipped_rows=True gives "
    "intervals without that assumption, which are for the clipped rows only."
)
FORMER = "guaranteed is now for_clipped_rows: these intervals are for the clipped rows only."


@dataclass(frozen=True, slots=True)
class Intervals(Result):
    """Intervals for the entries of a statistic.

    Attributes
    ----------
    low, high : ends, in the shape of the statistic; infinite where nothing can be said.
    level : the coverage meant, for each entry by itself.
    covers : ``privacy noise``: they are for the statistic of these very rows; ``privacy noise and
        sampling``: for that of the population that the rows were drawn from.
    trusted : bool, in the same shape. Where it is False the interval rests on more than the noise:
        it is short only because the truth can hardly be as large as the noise, or, for clipped
        rows, it is a wide one that covers too often rather than too seldom.
    clipped : whether rows may have been clipped at a private radius (`Release.clipped`) and no
        counts tell what that took: intervals for covariances and eigenvalues cover too seldom.
    assumed : sentences on missing cells, where there can be some, on what a clip took, where
        counts tell of it (`Release.lengths`), and on which rows the intervals are for.
    for_clipped_rows : whether they are for the rows as clipped at the release's radius, by the
        noise law alone. They are not for the table.
    dependent : a sentence on sampling errors where a person can have several rows, or "".
    means_of : the release whose means they are for; of dates they are shown as dates.
    below_noise : bool, in the same shape: whether each figure is below the noise level, by the rule
        of `dpcov.analysis.below_noise`, from the privacy noise alone. If it is not given, whether
        the interval contains 0.
    warning : what there is to beware of, else None.

    """

    low: Array
    high: Array
    level: float
    covers: Covers
    trusted: Booleans
    clipped: bool = False
    assumed: tuple[str, ...] = ()
    for_clipped_rows: bool = False
    dependent: str = field(default="", metadata=OMITTED)
    means_of: Release | None = field(default=None, metadata=OMITTED, repr=False, compare=False)
    below_noise: Booleans = None  # type: ignore[assignment]  # set below

    def __post_init__(self) -> None:
        if self.below_noise is None:
            object.__setattr__(self, "below_noise", contains_zero(self.low, self.high))

    @property
    def guaranteed(self) -> bool:
        """The former name of `for_clipped_rows`."""
        warnings.warn(FORMER, FutureWarning, stacklevel=2)
        return self.for_clipped_rows

    @property
    def covering(self) -> str:
        """What they cover, in a sentence."""
        whose = " of the clipped rows, not of the table" if self.for_clipped_rows else ""
        return f"Intervals cover {self.covers}{whose}, {self.level:.0%} each."

    @property
    def cautions(self) -> list[str]:
        """Sentences on whose figures they may miss."""
        clipped = [CLIPPED] if self.clipped else []
        return clipped + [one for one in (SHORTENED, UNSEEN) if one in self.assumed]

    @property
    def warning(self) -> str | None:
        found = self.cautions
        if below := sentence(self.below_noise, "figures"):
            found += [*below, "Use a larger epsilon, more rows or fewer columns."]
        resting = self.trusted.size - int(np.count_nonzero(self.trusted))
        if resting:
            found.append(
                f"{resting} of {self.trusted.size} intervals rest on more than the noise "
                f"(`trusted` is False): {self._resting()}"
            )
        return " ".join(found) or None

    def _resting(self) -> str:
        if self.for_clipped_rows:
            return "they are wide and may cover more than asked."
        return "they assume what a variance can be, more than they use what was released."

    def tables(self) -> list[Table]:
        low, high = np.atleast_1d(self.low), np.atleast_1d(self.high)
        below = np.atleast_1d(self.below_noise)
        places = list(np.ndindex(low.shape))
        if low.ndim == 2 and low.shape[0] == low.shape[1]:
            places = [place for place in places if place[0] > place[1]]
        shown = places[:LONGEST]
        rows: list[Row] = []
        for place in shown:
            flag = FLAG if below[place] else ""
            name = ", ".join(map(str, place))
            ends: list[Cell] = [float(low[place]), float(high[place])]
            if self.means_of is not None:
                feature = self.means_of.columns[place[0]]
                ends = shown_dates(self.means_of.schema, feature, ends)  # type: ignore[arg-type]
            rows.append((name, [*ends, flag]))
        whose = ", of the clipped rows" if self.for_clipped_rows else ""
        title = titled(f"{self.level:.0%} intervals for {self.covers}{whose}", self.dependent)
        notes = (*([CLIPPED] if self.clipped else []), *self.assumed)
        beyond = len(places) - len(shown)
        return [Table(("entry", "low", "high", ""), rows, title, beyond=beyond, notes=notes)]

    def document(self) -> dict[str, Any]:
        """What JSON has of it; ``guaranteed`` is the former name of ``for_clipped_rows``."""
        more = {"covering": self.covering, "warning": self.warning}
        return {**Result.document(self), **more, "guaranteed": self.for_clipped_rows}


def intervals(
    release: Release,
    statistic: Name | Statistic | Function,
    level: float = 0.95,
    sampling: bool = True,
    *,
    for_clipped_rows: bool = False,
    generator: np.random.Generator | None = None,
    guaranteed: bool | None = None,
) -> Intervals:
    """Return intervals for a statistic of a release, at no privacy cost.

    They lie about the statistic of the estimate, as far as its errors reach to first order, in
    normal quantiles. Errors are draws of the noise's public law, of what a clip may have taken, as
    noisy counts of rows by length tell, and of rounding; in directions below the noise level they
    are no larger than variances can be (`dpcov.analysis.plausible`). They assume that tails go on
    as those counts tell; `Intervals.warning` says where that may be far off.

    Intervals `for_clipped_rows` make no such assumption. They are for the statistic of the rows as
    clipped at the release's radius, not for that of the table: if the table has long tails, they
    often miss the table's. Beside them stands a bound on what lies beyond. They start from the
    noisy matrix, M = S + Z: the M - Z', Z' a fresh draw, are plausible values of S (its
    fiducial law; for a ratio of two linear functions their quantiles are Fieller's exact
    interval). The ends are quantiles of the statistic of such matrices, corrected for its
    median bias: Efron's bias-corrected percentiles (1987, Better bootstrap confidence
    intervals, section 2, with acceleration 0). Where the statistic is not nearly linear over
    the range of the errors, or an eigenvalue does not rise above 0 (`Intervals.trusted`), the
    quantiles are not corrected, eigenvalues get the interval of Weyl's inequality, and
    functions of a release an infinite one.

    Sampling error assumes that rows were drawn independently from a large population, persons
    with several rows not taken into account. Its size depends on fourth moments, which a release
    does not hold: they are those of beta laws within the declared bounds, with the denoised means
    and variances, joined by a Gaussian copula (`pseudo_rows`). Outliers that are common to several
    columns, or longer tails than the bounds suggest, make it too small; `SAFETY` allows for some.
    Where cells may be missing (`missing` = ``pairwise``), they are taken to be so completely at
    random, as often, and together as often, as the release says.

    Parameters
    ----------
    release : with a noise law.
    statistic : ``mean``, ``covariance``, ``correlation``, ``eigenvalues``, ``explained variance``,
        `coefficients(target, features)`, `eigenvalues(correlation=True)`,
        `explained_variance(correlation=True)`, or any function from a release to an array: it is
        called on simulated releases that are not denoised.
    level : coverage meant, above 0 and below 1.
    sampling : whether to cover sampling error too; needs an intercept.
    for_clipped_rows : whether to give intervals for the clipped rows, by the noise law alone.
    generator : for the simulations; default, the same each time.
    guaranteed : the former name of `for_clipped_rows`.

    Raises
    ------
    NotReleasedError : the mechanism has no noise law, nothing but the trace was released, or no
        intercept where one is needed.
    ReleaseError : unknown names.

    Examples
    --------
    >>> import dpcov
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> made = dpcov.release(table, lower=0, upper=1, epsilon=1.0)
    >>> found = intervals(made, "correlation", sampling=False)
    >>> bool(found.high[0, 1] < -0.9)
    True

    """
    asked = _asked(for_clipped_rows, guaranteed)
    found = several_intervals(
        release, [statistic], level, sampling, for_clipped_rows=asked, generator=generator
    )
    return found[0]


def _asked(for_clipped_rows: bool, guaranteed: bool | None) -> bool:
    """Return whether intervals are for the clipped rows, by either name of the option."""
    if guaranteed is None:
        return for_clipped_rows
    warnings.warn(FORMER, FutureWarning, stacklevel=3)
    return guaranteed


def shown_unasked(release: Release) -> bool:
    """Whether commands show intervals beside what they are asked for."""
    return release.noise is not None and len(release.columns) <= MANY


def several_intervals(
    release: Release,
    statistics: Sequence[Name | Statistic | Function],
    level: float = 0.95,
    sampling: bool = True,
    *,
    for_clipped_rows: bool = False,
    generator: np.random.Generator | None = None,
    guaranteed: bool | None = None,
) -> list[Intervals]:
    """Return intervals for several statistics from the same simulations, as `intervals` does."""
    for_clipped_rows = _asked(for_clipped_rows, guaranteed)
    check("level", level, Probability, ReleaseError)
    draws = reading_generator(generator)
    covers: Covers = "privacy noise and sampling" if sampling else "privacy noise"
    asked = [statistic_named(statistic) for statistic in statistics]
    clip = None if release.lengths is None else Clip.of(release)
    unknown = release.clipped and clip is None
    told = _said(release, clip, level, for_clipped_rows)
    of_means = partial(means_below_noise, release)
    if for_clipped_rows:
        release = replace(release, lengths=None)
        ends = _alone(release, asked, level, sampling, draws)
    else:
        found = stated(release, asked, sampling, draws)
        ends = [(*one.interval(level), one.below_noise) for one in found]
    made, persons = [], dependent(release) * sampling
    for statistic, (*parts, below) in zip(asked, ends, strict=True):
        flags = of_means() if isinstance(statistic, Means) else below
        flags = below if flags is None else flags
        low, high, trusted, flagged = (statistic.shaped(release, one) for one in (*parts, flags))
        of = release if isinstance(statistic, Means) else None
        made.append(
            Intervals(
                low,
                high,
                level,
                covers,
                trusted,
                unknown,
                told,
                for_clipped_rows,
                persons,
                of,
                flagged,
            )
        )
    return made


def _said(
    release: Release, clip: Clip | None, level: float, for_clipped_rows: bool
) -> tuple[str, ...]:
    """What the intervals assume, and which rows they are for."""
    told = assumed(release) + ((FINE,) if hardly_noisy(release) else ())
    beyond = () if clip is None else (clip.beyond(level),)
    if for_clipped_rows:
        return (*told, SHORTENED if release.clipped else WHOLE, *beyond)
    if clip is not None and clip.unseen:
        told += (UNSEEN,)
    return (*told, COUNTED, *beyond) if release.clipped and clip is not None else told


def stated(
    release: Release, statistics: Sequence[Statistic], sampling: bool, draws: np.random.Generator
) -> list[Stated]:
    """Statistics of the estimate, and how far plausible errors move them to first order."""
    truths = PlausibleMoments(release, sampling=sampling, generator=draws, draws=DRAWS)
    found = [_Slopes(release, statistic, truths.center) for statistic in statistics]
    for kept, whole, more in truths.parts():
        for one in found:
            one.add(kept, whole, more if sampling else None)
    return [one.stated() for one in found]


@dataclass(frozen=True, slots=True)
class Stated:
    """A statistic of the estimate with its standard deviation, (k,) each.

    Attributes
    ----------
    values, deviations : NaN where the statistic is not defined.
    of_noise : deviations due to the privacy noise alone.
    trusted : whether the noise alone would leave not much more plausible, or little beside the
        figure itself.
    limits : least and largest possible values.

    """

    values: Array
    deviations: Array
    of_noise: Array
    trusted: Booleans
    limits: tuple[Array | float, Array | float]

    @property
    def below_noise(self) -> Booleans:
        """(k,) whether each figure is below the noise level."""
        return below_noise(self.values, self.of_noise)

    def interval(self, level: float) -> tuple[Array, Array, Booleans]:
        """Ends, and whether to trust them; everything possible where nothing is defined."""
        least, largest = self.limits
        reach = scipy.special.ndtri((1 + level) / 2) * self.deviations
        unknown = np.isnan(reach) | np.isnan(self.values)
        low = np.where(unknown, least, np.clip(self.values - reach, least, largest))
        high = np.where(unknown, largest, np.clip(self.values + reach, least, largest))
        return low, high, self.trusted


class _Slopes:
    """Squares of what errors do to a statistic to first order, as kept and at their whole size."""

    def __init__(self, release: Release, statistic: Statistic, center: Array) -> None:
        self._release, self._statistic, self._matrix = release, statistic, center
        self._values = statistic.values(release, center[None])[0]
        self._noise: Array | float = 0.0
        self._squares, self._whole, self._count = 0.0, 0.0, 0

    def add(self, kept: Array, whole: Array, sampling: Array | None = None) -> None:
        """Add errors of the noise, the same at their whole size, and those of sampling."""
        noise, more = self._moves(kept), 0.0 if sampling is None else self._moves(sampling)
        self._noise += np.sum(noise**2, axis=0)
        self._squares += np.sum((noise + more) ** 2, axis=0)
        self._whole += np.sum((self._moves(whole) + more) ** 2, axis=0)
        self._count += len(kept)

    def _moves(self, errors: Array) -> Array:
        after, before = (
            self._statistic.values(self._release, self._matrix + side * STEP * errors)
            for side in (1, -1)
        )
        return (after - before) / (2 * STEP)

    def stated(self) -> Stated:
        sums = (self._squares, self._whole, self._noise)
        deviations, whole, of_noise = (np.sqrt(one / self._count) for one in sums)
        lengths = self._release.lengths
        blind = lengths is not None and lengths.hidden  # of how long most rows are
        most = np.maximum(MOST_PRIOR * deviations, MOST_NOISE * np.abs(self._values))
        trusted = (whole <= most) & (not blind)
        limits = self._statistic.limits(self._release)
        return Stated(self._values, deviations, of_noise, trusted, limits)


def _alone(
    release: Release,
    statistics: Sequence[Statistic],
    level: float,
    sampling: bool,
    draws: np.random.Generator,
) -> list[tuple[Array, Array, Booleans, Booleans]]:
    """Ends by the noise law alone, whether to trust them, and what is below the noise level."""
    truths = PlausibleMoments(release, sampling=sampling, generator=draws, alone=True)
    simulations = [_Simulation(release, statistic, truths.center) for statistic in statistics]
    of_noise = simulations
    if sampling:
        of_noise = [_Simulation(release, statistic, truths.center) for statistic in statistics]
    for noise, _, more in truths.parts():
        for simulation in simulations:
            simulation.add(noise + more)
        for simulation in of_noise if sampling else ():
            simulation.add(noise)
    below = [contains_zero(*simulation.interval(LEVEL)[:2]) for simulation in of_noise]
    ends = [simulation.interval(level) for simulation in simulations]
    return [(*one, flagged) for one, flagged in zip(ends, below, strict=True)]


class _Simulation:
    """Values of a statistic for plausible truths, and what tells whether it is nearly linear."""

    def __init__(self, release: Release, statistic: Statistic, center: Array) -> None:
        self._release, self._statistic, self._matrix = release, statistic, center
        self._center = statistic.values(release, center[None])[0]
        self._plausible: list[Array] = []
        self._mirrored: list[Array] = []  # with the opposite error
        self._halfway: list[Array] = []  # with half the error
        self._reaches: list[Array] = []

    def add(self, errors: Array) -> None:
        truths = self._matrix - errors
        self._plausible.append(self._statistic.values(self._release, truths))
        self._mirrored.append(self._statistic.values(self._release, self._matrix + errors))
        self._halfway.append(self._statistic.values(self._release, self._matrix - errors / 2))
        reaches = self._statistic.reach(self._release, truths, self._matrix)
        self._reaches += [] if reaches is None else [reaches]

    def interval(self, level: float) -> tuple[Array, Array, Booleans]:
        center, plausible = self._center, np.concatenate(self._plausible)
        bias = _bias(np.concatenate([plausible, *self._mirrored]), center)
        least, largest = self._statistic.limits(self._release)
        low, high = _percentiles(plausible, level, bias)
        wide_low, wide_high = _percentiles(plausible, level)
        trusted = (np.abs(bias) <= MOST_BIAS) & (self._bending(level) <= MOST_BENDING)
        trusted &= np.isnan(plausible).mean(axis=0) <= MOST_UNDEFINED
        if self._reaches:
            trusted &= low > least  # else it was chosen among the noise by its size
            farthest = np.quantile(np.concatenate(self._reaches), level, method="higher")
            wide_low, wide_high = center - farthest, center + farthest
        defined = ~np.isnan(center)
        low, high = np.where(trusted, low, wide_low), np.where(trusted, high, wide_high)
        low = np.where(defined, np.clip(low, least, largest), least)
        high = np.where(defined, np.clip(high, least, largest), largest)
        return low, high, trusted

    def _bending(self, level: float) -> Array:
        """(k,) |log2| of how much wider than twice as wide intervals get by twice the error."""
        low, high = _percentiles(np.concatenate(self._plausible), level)
        half_low, half_high = _percentiles(np.concatenate(self._halfway), level)
        with np.errstate(divide="ignore", invalid="ignore"):
            bending = np.abs(np.log2((high - low) / (half_high - half_low)) - 1)
        return np.where(high == low, 0.0, bending)


def _bias(values: Array, center: Array) -> Array:
    """(k,) median bias of a statistic, in standard deviations.

    `values` are those for the center plus and minus each error: half of them lie below the
    statistic at the center if it is linear, or a function of one that is, whatever the law.
    """
    count = len(values) - np.isnan(values).sum(axis=0)
    below = np.sum(values < center, axis=0) + np.sum(values == center, axis=0) / 2
    shares = (below + 0.5) / (count + 1)
    return -np.asarray(scipy.special.ndtri(shares), np.float64)


def _percentiles(values: Array, level: float, bias: Array | float = 0.0) -> tuple[Array, Array]:
    """Percentile interval (k,) of (b, k) values, less twice the bias.

    Values that are not defined count for both tails in equal parts, so that many of them make an
    interval unbounded. By ranks, so that the level is exact where a draw and the truth are alike.
    """
    missing = np.isnan(values)
    odd = np.cumsum(missing, axis=0) % 2 == 1
    ordered = np.sort(np.where(missing, np.where(odd, -np.inf, np.inf), values), axis=0)
    count, reach = len(values), scipy.special.ndtri((1 + level) / 2)
    last = np.full(values.shape[1:], np.inf)
    ordered = np.concatenate([-last[None], ordered, last[None]])
    lowest = np.minimum(
        np.floor(scipy.special.ndtr(-2 * bias - reach) * (count + 1) + RANK_ROUNDING), count
    )
    highest = np.maximum(
        np.ceil(scipy.special.ndtr(-2 * bias + reach) * (count + 1) - RANK_ROUNDING), 1
    )
    low, high = (
        np.take_along_axis(ordered, np.broadcast_to(rank, last.shape)[None].astype(int), axis=0)[0]
        for rank in (lowest, highest)
    )
    return np.where(low == np.inf, -np.inf, low), np.where(high == -np.inf, np.inf, high)
