"""Intervals for anything computed from a release, from the public law of its noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy

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
# When to trust the intervals of a statistic by the noise law alone (`make interval-coverage`).
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
    "By the noise law alone, so for the rows as they were shortened at the release's radius: what "
    "lies beyond it is not in these intervals."
)
FINE = "The noise is less than what rounding does: intervals are to the resolution of the lattice."
UNSEEN = (
    "Rows too few to show may hold much of what columns vary by, so these are guaranteed "
    "intervals. guaranteed=False gives ordinary ones, which guess at the rest."
)


@dataclass(frozen=True, slots=True)
class Intervals(Result):
    """Intervals for the entries of a statistic.

    Attributes
    ----------
    low, high : ends, in the shape of the statistic; infinite where nothing can be said.
    level : the coverage meant, for each entry by itself.
    covers : ``privacy noise``: they are for the statistic of these very rows; ``privacy noise and
        sampling``: for that of the population that the rows were drawn from.
    trusted : bool, in the same shape. Where it is False the noise drowns the statistic: the
        interval is short only as the truth can hardly be as large as the noise, or, by the noise
        law alone, a wide one that covers too often rather than too seldom.
    guaranteed : whether they are from the noise law alone.
    clipped : whether rows may have been clipped at a private radius (`Release.clipped`) and no
        counts tell what that took: intervals for covariances and eigenvalues cover too seldom.
    assumed : sentences on missing cells, where there can be some, and on what a clip took, where
        counts tell of it (`Release.lengths`).
    dependent : a sentence on sampling errors where a person can have several rows, or "".
    means_of : the release whose means they are for; of dates they are shown as dates.
    warning : what there is to beware of, else None.

    """

    low: Array
    high: Array
    level: float
    covers: Covers
    trusted: Booleans
    clipped: bool = False
    assumed: tuple[str, ...] = ()
    guaranteed: bool = False
    dependent: str = field(default="", metadata=OMITTED)
    means_of: Release | None = field(default=None, metadata=OMITTED, repr=False, compare=False)

    @property
    def covering(self) -> str:
        """What they cover, in a sentence."""
        return f"Intervals cover {self.covers}, {self.level:.0%} each."

    @property
    def warning(self) -> str | None:
        drowned = self.trusted.size - int(np.count_nonzero(self.trusted))
        found = [CLIPPED] if self.clipped else []
        if drowned:
            found.append(
                f"Noise drowns {drowned} of {self.trusted.size} of these figures (`trusted` is "
                f"False): {self._drowned()} Use a larger epsilon, more rows or fewer columns."
            )
        return " ".join(found) or None

    def _drowned(self) -> str:
        if self.guaranteed:
            return "their intervals are wide and may cover more than asked."
        return (
            "their intervals rest on what a variance can be, more than on what was released. "
            "`guaranteed=True` gives those of the noise law alone."
        )

    def tables(self) -> list[Table]:
        low, high = np.atleast_1d(self.low), np.atleast_1d(self.high)
        trusted = np.atleast_1d(self.trusted)
        places = list(np.ndindex(low.shape))
        if low.ndim == 2 and low.shape[0] == low.shape[1]:
            places = [place for place in places if place[0] > place[1]]
        shown = places[:LONGEST]
        rows: list[Row] = []
        for place in shown:
            drowned = "" if trusted[place] else "drowned by noise"
            name = ", ".join(map(str, place))
            ends: list[Cell] = [float(low[place]), float(high[place])]
            if self.means_of is not None:
                feature = self.means_of.columns[place[0]]
                ends = shown_dates(self.means_of.schema, feature, ends)  # type: ignore[arg-type]
            rows.append((name, [*ends, drowned]))
        title = titled(f"{self.level:.0%} intervals for {self.covers}", self.dependent)
        notes = (*([CLIPPED] if self.clipped else []), *self.assumed)
        beyond = len(places) - len(shown)
        return [Table(("entry", "low", "high", ""), rows, title, beyond=beyond, notes=notes)]


def intervals(
    release: Release,
    statistic: Name | Statistic | Function,
    level: float = 0.95,
    sampling: bool = True,
    *,
    guaranteed: bool | None = None,
    generator: np.random.Generator | None = None,
) -> Intervals:
    """Intervals for a statistic of a release, at no privacy cost.

    They lie about the statistic of the estimate, as far as its errors reach to first order, in
    normal quantiles. Errors are draws of the noise's public law, of what a clip may have taken, as
    noisy counts of rows by length tell, and of rounding; in directions that the noise drowns no
    larger than variances can be (`dpcov.analysis.plausible`). They assume that tails go on as those
    counts tell. `guaranteed` ones assume nothing: they are for the rows as they were shortened.
    Beside them stands a bound on what lies beyond.

    Those start from the noisy matrix, M = S + Z: the M - Z', Z' a fresh draw, are plausible values
    of S (its fiducial law; for a ratio of two linear functions their quantiles are Fieller's exact
    interval). The ends are quantiles of the statistic of such matrices, corrected for its median
    bias: Efron's bias-corrected percentiles (1987, Better bootstrap confidence intervals, section
    2, with acceleration 0). Where the statistic is not nearly linear over the range of the errors,
    or an eigenvalue does not rise above 0 (`Intervals.trusted`), the quantiles are not corrected,
    eigenvalues get the interval of Weyl's inequality, and functions of a release an infinite one.

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
    guaranteed : whether to take the noise law alone; default, where the tail of the table is not
        seen.
    generator : for the simulations; default, the same each time.

    Raises
    ------
    ReleaseError : the mechanism has no noise law, nothing but the trace was released, no
        intercept where one is needed, or unknown names.

    Examples
    --------
    >>> import dpcov
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> made = dpcov.release(table, lower=0, upper=1, epsilon=1.0)
    >>> found = intervals(made, "correlation", sampling=False)
    >>> bool(found.high[0, 1] < -0.9)
    True

    """
    found = several_intervals(
        release, [statistic], level, sampling, guaranteed=guaranteed, generator=generator
    )
    return found[0]


def shown_unasked(release: Release) -> bool:
    """Whether commands show intervals beside what they are asked for."""
    return release.noise is not None and len(release.columns) <= MANY


def several_intervals(
    release: Release,
    statistics: Sequence[Name | Statistic | Function],
    level: float = 0.95,
    sampling: bool = True,
    *,
    guaranteed: bool | None = None,
    generator: np.random.Generator | None = None,
) -> list[Intervals]:
    """Intervals for several statistics from the same simulations; otherwise as `intervals`."""
    check("level", level, Probability, ReleaseError)
    draws = reading_generator(generator)
    covers: Covers = "privacy noise and sampling" if sampling else "privacy noise"
    asked = [statistic_named(statistic) for statistic in statistics]
    told, clip = assumed(release), None
    if hardly_noisy(release):
        told = (*told, FINE)
    if release.lengths is not None:
        clip = Clip.of(release)
    unknown = release.clipped and clip is None
    guaranteed = clip is not None and clip.unseen if guaranteed is None else guaranteed
    if guaranteed and clip is not None:
        told = (*told, *([UNSEEN] if clip.unseen else []), SHORTENED, clip.beyond(level))
        release = replace(release, lengths=None)
    elif release.clipped and clip is not None:
        told += (COUNTED, clip.beyond(level))
    if guaranteed:
        ends = _alone(release, asked, level, sampling, draws)
    else:
        ends = [one.interval(level) for one in stated(release, asked, sampling, draws)]
    made, persons = [], dependent(release) * sampling
    for statistic, found in zip(asked, ends, strict=True):
        low, high, trusted = (statistic.shaped(release, values) for values in found)
        of = release if isinstance(statistic, Means) else None
        made.append(
            Intervals(low, high, level, covers, trusted, unknown, told, guaranteed, persons, of)
        )
    return made


def stated(
    release: Release, statistics: Sequence[Statistic], sampling: bool, draws: np.random.Generator
) -> list[Stated]:
    """Statistics of the estimate, and how far plausible errors move them to first order."""
    truths = PlausibleMoments(release, sampling=sampling, generator=draws, draws=DRAWS)
    found = [_Slopes(release, statistic, truths.center) for statistic in statistics]
    for kept, whole in truths.both():
        for one in found:
            one.add(kept, whole)
    return [one.stated() for one in found]


@dataclass(frozen=True, slots=True)
class Stated:
    """A statistic of the estimate with its standard deviation, (k,) each.

    Attributes
    ----------
    values, deviations : NaN where the statistic is not defined.
    trusted : whether the noise alone would leave not much more plausible, or little beside the
        figure itself.
    limits : least and largest possible values.

    """

    values: Array
    deviations: Array
    trusted: Booleans
    limits: tuple[Array | float, Array | float]

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
        self._squares, self._whole, self._count = 0.0, 0.0, 0

    def add(self, kept: Array, whole: Array) -> None:
        self._squares += np.sum(self._moves(kept) ** 2, axis=0)
        self._whole += np.sum(self._moves(whole) ** 2, axis=0)
        self._count += len(kept)

    def _moves(self, errors: Array) -> Array:
        after, before = (
            self._statistic.values(self._release, self._matrix + side * STEP * errors)
            for side in (1, -1)
        )
        return (after - before) / (2 * STEP)

    def stated(self) -> Stated:
        deviations, whole = (np.sqrt(one / self._count) for one in (self._squares, self._whole))
        lengths = self._release.lengths
        blind = lengths is not None and lengths.hidden  # of how long most rows are
        most = np.maximum(MOST_PRIOR * deviations, MOST_NOISE * np.abs(self._values))
        trusted = (whole <= most) & (not blind)
        return Stated(self._values, deviations, trusted, self._statistic.limits(self._release))


def _alone(
    release: Release,
    statistics: Sequence[Statistic],
    level: float,
    sampling: bool,
    draws: np.random.Generator,
) -> list[tuple[Array, Array, Booleans]]:
    """Ends by the noise law alone, and whether to trust them."""
    truths = PlausibleMoments(release, sampling=sampling, generator=draws, alone=True)
    simulations = [_Simulation(release, statistic, truths.center) for statistic in statistics]
    for errors in truths.errors():
        for simulation in simulations:
            simulation.add(errors)
    return [simulation.interval(level) for simulation in simulations]


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
