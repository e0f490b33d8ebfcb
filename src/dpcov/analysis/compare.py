"""Differences of the figures of two releases, such as two years or two regions.

A figure of a release has the error n + s: n comes from the privacy noise, clipping and rounding,
and s comes from sampling. The noise of two releases is independent. Let a and b be the errors of
two releases.

- The difference in these rows has the variance var(n_a) + var(n_b), whoever the persons are.
- The difference in the population also has the sampling errors. If the persons are disjoint, they
  are independent, so the variances var(n_a + s_a) + var(n_b + s_b) add up.
- If some persons are in both tables, the sampling errors are dependent in a way that no release
  shows. The variance of s_b - s_a is at most (sd(s_a) + sd(s_b))^2, by the inequality of Cauchy
  and Schwarz. The interval is then a bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy

from dpcov.analysis.intervals import (
    CONFIDENCE_LEVEL,
    Correlations,
    Joined,
    Means,
    StandardDeviations,
    below_noise,
    sentence,
    stated_intervals,
    titled,
)
from dpcov.core.accounting import zcdp_of_pure
from dpcov.core.parameters import Probability, check
from dpcov.core.privacy import ZCDP, ApproxDP, Budget, PureDP, exact, round_up
from dpcov.core.show.result import OMITTED_FIELD, Result
from dpcov.core.show.table import Row, Table
from dpcov.errors import ReleaseError
from dpcov.estimate import dependent
from dpcov.published import record
from dpcov.releases import Release
from dpcov.releases.dates import length, shown, units_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpcov.analysis.intervals import Stated, Statistic
    from dpcov.core.arrays import Booleans, Vector
    from dpcov.core.show.table import Cell
    from dpcov.rows.schema import Schema

Persons = Literal["disjoint", "same", "unknown"]
Kind = Literal["mean", "standard deviation", "correlation"]
TITLES: dict[Kind, str] = {
    "mean": "Means and shares",
    "standard deviation": "Standard deviations",
    "correlation": "Correlations",
}
ROWS_NOTE = "The intervals of these {whom} cover privacy noise and clipping, {level} each."
PERSONS_NOTES: dict[Persons, str] = {
    "disjoint": (
        "The intervals of the population also cover sampling, {level} each, because no person "
        "is in both tables."
    ),
    "same": (
        "The intervals of the population also cover sampling. They are bounds: the persons are the "
        "same, and a release does not show how much a person changed."
    ),
    "unknown": (
        "The intervals of the population also cover sampling. They are bounds: they hold even if "
        "some persons are in both tables. If none are, state that the persons "
        "are disjoint to get shorter intervals."
    ),
}
ALONE_NOTE = "No person is in both tables, so the guarantee of one table protects each person."
UNADDED_NOTE = (
    "A person in both tables has the loss of both guarantees. They are of different kinds, so "
    "dpcov does not add them."
)
SAME_RELEASE_MESSAGE = "Both releases are the same. Name two different releases."


@dataclass(frozen=True, slots=True)
class Comparison(Result):
    """Differences of the figures of two releases: the second minus the first.

    k is the number of figures.

    Attributes
    ----------
    statistics : tuple of str, length k
        ``mean``, ``standard deviation`` or ``correlation``. The mean of a flag or of a level is a
        share.

    names : tuple of str, length k
        Names of the features, or of the pairs of features.

    first, second : ndarray, shape (k,)
        Figures of the releases.

    difference : ndarray, shape (k,)
        Second figure minus first figure.

    rows_lower, rows_upper : ndarray, shape (k,)
        Intervals of the difference in these rows. They cover privacy noise and clipping only.

    lower, upper : ndarray, shape (k,)
        Intervals of the difference in the population. They also cover sampling.

    is_bound : bool
        True if the intervals in the population are bounds, because persons can be in both tables.

    below_noise : ndarray of bool, shape (k,)
        True if the interval of the difference for the noise alone contains 0, at 95%.

    persons : {"disjoint", "same", "unknown"}
        Persons of the two tables, as stated.

    level : float
        Nominal coverage of each interval.

    guarantees : tuple of str
        Guarantee of the first release, of the second release, and of a person in both tables.

    sentences : tuple of str
        Warnings about the two releases.

    schema : Schema
        Schema of the first release.

    dependent : str
        Sentence about persons with several rows, or an empty string.

    See Also
    --------
    dpcov.compare : Compare two releases.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 5000)[:, None]
    >>> made = [dpcov.release(x**power, lower=0, upper=1, epsilon=10.0) for power in (1, 2)]
    >>> dpcov.compare(*made, persons="same").names
    ('x0', 'x0')

    """

    statistics: tuple[Kind, ...]
    names: tuple[str, ...]
    first: Vector
    second: Vector
    difference: Vector
    rows_lower: Vector
    rows_upper: Vector
    lower: Vector
    upper: Vector
    is_bound: bool
    below_noise: Booleans
    persons: Persons
    level: float
    guarantees: tuple[str, ...]
    sentences: tuple[str, ...]
    schema: Schema = field(metadata=OMITTED_FIELD, repr=False)
    dependent: str = field(default="", metadata=OMITTED_FIELD, repr=False)

    def tables(self) -> list[Table]:
        kinds = [kind for kind in TITLES if kind in self.statistics]
        return [self._table(kind, last=kind == kinds[-1]) for kind in kinds]

    def _table(self, kind: Kind, *, last: bool) -> Table:
        """Return the table of one kind of figures. The last table has the notes."""
        at = [j for j, statistic in enumerate(self.statistics) if statistic == kind]
        whom = "persons" if self.persons == "same" else "rows"
        population = "population (bound)" if self.is_bound else "population"
        heads = ("", "first", "second", "difference", f"these {whom}", population)
        title = f"{TITLES[kind]}: second minus first"
        persons = self.dependent if kind == self.statistics[0] else ""
        return Table(
            heads,
            [(self.names[j], self._cells(j)) for j in at],
            titled(title, persons),
            strengths=np.abs(self.difference[at]),
            notes=self._notes(whom) if last else (),
        )

    def _cells(self, at: int) -> list[str]:
        """Return the cells of a figure as texts. Means of dates are dates."""
        name, kind = self.names[at], self.statistics[at]
        figures = [float(self.first[at]), float(self.second[at])]
        cells: list[Cell] = list(figures)
        if kind == "mean":
            cells = shown(self.schema, name, figures)
        cells.append(length(self.schema, name, float(self.difference[at])))
        forms = ("{:.4g}", "{:.4g}", "{:+.4g}")
        texts = [
            _unless_unknown(form, one) if isinstance(one, float) else str(one)
            for form, one in zip(forms, cells, strict=True)
        ]
        ends = ((self.rows_lower, self.rows_upper), (self.lower, self.upper))
        return texts + [
            _unless_unknown("[{:.3g}, {:.3g}]", low[at], high[at]) for low, high in ends
        ]

    def _notes(self, whom: str) -> tuple[str, ...]:
        """Return the sentences below the tables."""
        level = f"{self.level:.0%}"
        return (
            ROWS_NOTE.format(whom=whom, level=level),
            PERSONS_NOTES[self.persons].format(level=level),
            *sentence(self.below_noise, "differences"),
            *self.sentences,
            *self.guarantees,
        )

    def data(self) -> Table:
        heads = (
            *("", "statistic", "first", "second", "difference", "rows lower", "rows upper"),
            *("lower", "upper", "bound", "below noise"),
        )
        figures = (self.first, self.second, self.difference, self.rows_lower, self.rows_upper)
        columns = zip(*(one.tolist() for one in (*figures, self.lower, self.upper)), strict=True)
        rows: list[Row] = [
            (name, [kind, *cells, self.is_bound, bool(below)])
            for name, kind, cells, below in zip(
                self.names, self.statistics, columns, self.below_noise, strict=True
            )
        ]
        return Table(heads, rows)


def compare(
    first: Release,
    second: Release,
    *,
    persons: Persons = "unknown",
    level: float = CONFIDENCE_LEVEL,
    generator: np.random.Generator | None = None,
) -> Comparison:
    """Compare the means, standard deviations and correlations of two releases.

    The comparison costs no further privacy.

    Parameters
    ----------
    first, second : Release
        Two releases with independent noise, such as two years or two regions.

    persons : {"disjoint", "same", "unknown"}, default "unknown"
        ``disjoint`` if no person is in both tables. ``same`` if both tables have the same persons.
        ``unknown`` and ``same`` give bounds for the population.

    level : float, default 0.95
        Nominal coverage of each interval, between 0 and 1.

    generator : numpy.random.Generator, optional
        Random numbers for the simulations. The default gives the same result every time.

    Returns
    -------
    Comparison
        Differences of the features that both releases have, with intervals.

    Raises
    ------
    NotReleasedError
        A release has no noise distribution, no intercept, or the trace only.
    ReleaseError
        Both releases are the same or have no feature in common, or an option is not valid.

    See Also
    --------
    dpcov.intervals : Intervals for one release.
    dpcov.table1 : Figures by group of one release.

    Notes
    -----
    The noise of the two releases is independent, so its variances add up. If no person is in both
    tables, the sampling variances add up too. Otherwise the intervals in the population use the
    square of the sum of the sampling standard deviations, which is the largest possible variance.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 5000)[:, None]
    >>> made = [dpcov.release(x**power, lower=0, upper=1, epsilon=10.0) for power in (1, 2)]
    >>> found = dpcov.compare(*made, persons="same")
    >>> bool(found.rows_upper[0] < -0.1)
    True

    """
    check("persons", persons, Persons, ReleaseError)
    check("level", level, Probability, ReleaseError)
    if first == second:
        raise ReleaseError(SAME_RELEASE_MESSAGE)
    for one in (first, second):
        record.refuse(one.reasons.means)
    pair = _Pair.of(first, second)
    kinds = pair.kinds()
    found = [stated_intervals(one, pair.statistic(one), level, True, generator) for one in pair]
    stated = [one for one, _ in found]
    figures = [pair.figures(one) for one in pair]
    difference = figures[1] - figures[0]
    noise, whole = _deviations(stated[0], stated[1], persons)
    rows, population = (_ends(stated, difference, one, level) for one in (noise, whole))
    cautions = [sentence for _, one in found for sentence in one.cautions]
    return Comparison(
        statistics=tuple(kind for kind, _ in kinds),
        names=tuple(name for _, name in kinds),
        first=figures[0],
        second=figures[1],
        difference=difference,
        rows_lower=rows[0],
        rows_upper=rows[1],
        lower=population[0],
        upper=population[1],
        is_bound=persons != "disjoint",
        below_noise=below_noise(difference, noise),
        persons=persons,
        level=level,
        guarantees=guarantees(first, second, persons),
        sentences=tuple(dict.fromkeys([*pair.sentences(), *cautions])),
        schema=first.schema,
        dependent=dependent(first) or dependent(second),
    )


def _deviations(first: Stated, second: Stated, persons: Persons) -> tuple[Vector, Vector]:
    """Return the standard deviations of the differences: of the noise, and with sampling."""
    both = (first, second)
    noise = np.hypot(*(one.of_noise for one in both))
    whole = np.hypot(*(one.deviations for one in both))
    if persons != "disjoint":
        own = [np.sqrt(np.maximum(one.deviations**2 - one.of_noise**2, 0.0)) for one in both]
        whole = np.sqrt(whole**2 + 2 * own[0] * own[1])
    return noise, whole


def _ends(
    stated: Sequence[Stated], difference: Vector, deviations: Vector, level: float
) -> tuple[Vector, Vector]:
    """Return the ends of the intervals, within the possible differences.

    An interval also contains the printed difference, which can differ from its center.
    """
    (low_a, high_a), (low_b, high_b) = (one.limits for one in stated)
    center = stated[1].values - stated[0].values
    reach = scipy.special.ndtri((1 + level) / 2) * deviations
    low, high = center - reach, center + reach
    least, largest = low_b - high_a, high_b - low_a
    unknown = np.isnan(low)
    low = np.where(unknown, least, np.clip(low, least, largest))
    high = np.where(unknown, largest, np.clip(high, least, largest))
    return np.fmin(low, difference), np.fmax(high, difference)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two releases and the features that both have.

    Attributes
    ----------
    first, second : Release
        Releases.

    names : tuple of str
        Names of the common features.

    deviations : tuple of str
        Names of the common features that are numbers, and not flags.

    pairs : tuple of (str, str)
        Pairs of common features of different columns. Empty if a release has no correlations.

    """

    first: Release
    second: Release
    names: tuple[str, ...]
    deviations: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]

    def __iter__(self) -> Iterator[Release]:
        return iter((self.first, self.second))

    @classmethod
    def of(cls, first: Release, second: Release) -> _Pair:
        """Return the pair, or raise an error if no feature is in both releases."""
        features, others = ({one.name: one for one in r.schema.variables} for r in (first, second))
        units, other_units = units_of(first.schema), units_of(second.schema)
        common = [
            one
            for name, one in features.items()
            if name in others
            and one.column == others[name].column
            and units.get(name) == other_units.get(name)
        ]
        if not common:
            raise ReleaseError(
                "The two releases have no feature in common. Compare releases whose schemas use "
                "the same names and kinds."
            )
        kinds = first.schema.encoded_columns
        numbers = tuple(
            one.name
            for one in common
            if not one.is_indicator and getattr(kinds[one.column], "reading", None) != "flag"
        )
        related: tuple[tuple[str, str], ...] = ()
        if all(one.reasons.matrix is None for one in (first, second)):
            related = tuple(
                (one.name, other.name)
                for at, one in enumerate(common)
                for other in common[at + 1 :]
                if one.column != other.column
            )
        return cls(first, second, tuple(one.name for one in common), numbers, related)

    def kinds(self) -> list[tuple[Kind, str]]:
        """Return the statistic and the name of each figure."""
        kinds: list[tuple[Kind, str]] = [("mean", name) for name in self.names]
        kinds += [("standard deviation", name) for name in self.deviations]
        return kinds + [("correlation", f"{one} - {other}") for one, other in self.pairs]

    def _positions(self, release: Release) -> tuple[list[int], list[int], list[tuple[int, int]]]:
        """Return the positions of the figures of each kind in a release."""
        at = {name: j for j, name in enumerate(release.columns)}
        pairs = [(at[one], at[other]) for one, other in self.pairs]
        return [at[n] for n in self.names], [at[n] for n in self.deviations], pairs

    def statistic(self, release: Release) -> Joined:
        """Return the statistic of all figures of a release."""
        means, deviations, pairs = self._positions(release)
        lower = [(max(pair), min(pair)) for pair in pairs]
        triangle = tuple(i * (i + 1) // 2 + j for i, j in lower)
        parts: list[tuple[Statistic, tuple[int, ...]]] = [(Means(), tuple(means))]
        parts += [(StandardDeviations(), tuple(deviations)), (Correlations(), triangle)]
        return Joined(tuple(part for part in parts if part[1]))

    def figures(self, release: Release) -> Vector:
        """Return all figures of a release, or NaN for the root of a negative variance."""
        means, deviations, pairs = self._positions(release)
        with np.errstate(invalid="ignore"):  # a variance without denoising can be negative
            found = [release.mean()[means], np.sqrt(release.variance()[deviations])]
        if pairs:
            found.append(release.correlation()[tuple(np.transpose(pairs))])
        return np.concatenate(found)

    def sentences(self) -> list[str]:
        """Return sentences about declarations that differ."""
        columns = [one.schema.encoded_columns for one in self]
        used = dict.fromkeys(
            feature.column for feature in self.first.schema.variables if feature.name in self.names
        )
        facts = ("lower", "upper", "missing")
        other = [
            name
            for name in used
            if any(len({getattr(one[name], fact, None) for one in columns}) > 1 for fact in facts)
        ]
        alone = sorted(set(self.first.columns) ^ set(self.second.columns))
        found = []
        if other:
            found.append(
                "The schemas declare other bounds or rules for missing cells, which can cause a "
                f"difference: {', '.join(other)}."
            )
        if alone:
            found.append(f"Not compared, because one release lacks them: {', '.join(alone)}.")
        return found


def _unless_unknown(form: str, *figures: float) -> str:
    """Return figures as text, or ``-`` if one is unknown."""
    return "-" if np.isnan(figures).any() else form.format(*figures)


def guarantees(first: Release, second: Release, persons: Persons) -> tuple[str, ...]:
    """Return the guarantee of each release, and of a person in both tables.

    Parameters
    ----------
    first, second : Release
        Releases.

    persons : {"disjoint", "same", "unknown"}
        Persons of the two tables.

    Returns
    -------
    tuple of str
        Sentences.

    """
    found = [
        f"Guarantee of the {which} release: {one.guarantee_in_words()}"
        for which, one in (("first", first), ("second", second))
    ]
    if first.reproducible or second.reproducible:
        return tuple(found)
    if persons == "disjoint":
        return (*found, ALONE_NOTE)
    total = together(first, second)
    if total is None:
        return (*found, UNADDED_NOTE)
    return (*found, f"A person in both tables has the total of both guarantees: {total}.")


def together(first: Release, second: Release) -> Budget | None:
    """Return the budget of a unit that is in both tables, by adding up, or None if kinds differ.

    Parameters
    ----------
    first, second : Release
        Releases.

    Returns
    -------
    Budget or None
        Total, rounded up. None if the neighbour relations, the privacy units or the kinds of the
        budgets do not add up.

    """
    both = [one.whole_guarantee for one in (first, second)]
    units = {one.unit.column is None for one in both}
    if len({one.neighbors for one in both}) > 1 or len(units) > 1:
        return None
    budgets = [one.budget for one in both]
    return total_of(budgets[0], budgets[1])


def total_of(first: Budget, second: Budget) -> Budget | None:
    """Return the sum of two budgets by simple composition, or None if their kinds do not add up."""
    if isinstance(first, ZCDP) or isinstance(second, ZCDP):
        rhos = [_rho(one) for one in (first, second) if not isinstance(one, ApproxDP)]
        return ZCDP(round_up(sum(rhos, Fraction(0)))) if len(rhos) == 2 else None
    epsilon = round_up(exact(first.epsilon) + exact(second.epsilon))
    deltas = [exact(one.delta) for one in (first, second) if isinstance(one, ApproxDP)]
    return ApproxDP(epsilon, round_up(sum(deltas, Fraction(0)))) if deltas else PureDP(epsilon)


def _rho(budget: PureDP | ZCDP) -> Fraction:
    """Return the rho of a budget."""
    return exact(budget.rho if isinstance(budget, ZCDP) else zcdp_of_pure(budget.epsilon))
