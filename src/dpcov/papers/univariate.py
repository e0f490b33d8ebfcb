"""Mean and variance of one column without any bounds: Karwa and Vadhan 2018, by Gaussian noise.

The column is an in-memory array of numbers, one for each row; the unit of privacy is one row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.api.ledger import Ledger
from dpcov.core.entropy import Entropy
from dpcov.core.parameters import Probability, check
from dpcov.core.privacy import ApproxDP, Guarantee, Neighbors
from dpcov.core.samplers.scalars import ScalarGaussian
from dpcov.errors import LedgerError, MechanismError, MechanismRefused, SourceError
from dpcov.papers.accounting import gdp_beside_bad_events
from dpcov.papers.primitives.histogram import ROUNDING_VARIANCE, VOTE, GaussianHistograms
from dpcov.rows.sources.quiet import quiet

if TYPE_CHECKING:
    from dpcov.core.arrays import AnyArray, Matrix

    Floats = Matrix

SCALE_SHARE, PLACE_SHARE, COUNT_SHARE = 0.15, 0.15, 0.02  # of mu^2
BAD_SHARE = 0.05  # of delta, for a lonely bin in each of the two histograms
OUTSIDE = 0.1  # chance that any of n normal values is clipped
UNITS = 2**20  # steps of a clipped value
MODE = 0.289  # least share of normal pairs in the fullest bin of the scale
FEW = "enough rows, without gaps in their values"


@dataclass(frozen=True, slots=True)
class MeanAndVariance:
    """Private mean and variance of a column.

    `count` is exact where it is public (replace-one); `mean_error` and `variance_error` are
    standard deviations of what the privacy noise does to the two figures. With `reproducible` the
    result is NOT PRIVATE.
    """

    mean: float
    variance: float
    count: float
    mean_error: float
    variance_error: float
    guarantee: Guarantee
    reproducible: bool

    def mean_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Interval that holds the population's mean with about this probability."""
        sampling = math.sqrt(self.variance / self.count)
        return _interval(self.mean, sampling, self.mean_error, level)

    def variance_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Interval for the population's variance, for normal data."""
        sampling = self.variance * math.sqrt(2 / self.count)
        low, high = _interval(self.variance, sampling, self.variance_error, level)
        return max(0.0, low), high


def _interval(centre: float, sampling: float, error: float, level: float) -> tuple[float, float]:
    from scipy.special import ndtri

    check("level", level, Probability, MechanismError)
    half = float(ndtri((1 + level) / 2)) * math.hypot(sampling, error)
    return centre - half, centre + half


@dataclass(frozen=True, slots=True)
class Plan:
    """What is drawn, from public numbers alone; the laws of sums in steps of 2^-20."""

    guarantee: Guarantee
    count: ScalarGaussian | None
    scale: GaussianHistograms
    place: GaussianHistograms
    sums: ScalarGaussian

    @property
    def rows_needed(self) -> int:
        """Rows of normal data from which a refusal is unlikely (below 1 %)."""
        noise = self.scale.noise.standard_deviation / VOTE
        pairs = (self.scale.threshold / VOTE + 4 * noise) / MODE
        return 2 * math.ceil(pairs + 4 * math.sqrt(pairs))


def plan(epsilon: float, delta: float, neighbors: Neighbors | str = Neighbors.ADD_REMOVE) -> Plan:
    """Noise of `mean_and_variance`, and the number of rows it needs; touches no data."""
    budget, relation = ApproxDP(epsilon, delta), Neighbors(neighbors)
    bad = BAD_SHARE * budget.delta
    mu = gdp_beside_bad_events(budget.epsilon * (1 - 1e-12), budget.delta, 2 * bad)
    private_count = relation == Neighbors.ADD_REMOVE
    count_share = COUNT_SHARE if private_count else 0.0
    sums_share = 1 - SCALE_SHARE - PLACE_SHARE - count_share
    count, scale, place, sums = (
        mu * math.sqrt(share) * (1 - 1e-12)
        for share in (count_share, SCALE_SHARE, PLACE_SHARE, sums_share)
    )
    made = Plan(
        guarantee=Guarantee(budget, relation),
        count=_gaussian(Fraction(VOTE) ** 2, count) if private_count else None,
        scale=GaussianHistograms(scale, bad, Neighbors.REPLACE_ONE),
        place=GaussianHistograms(place, bad, relation),
        sums=_gaussian(_sums_squared(relation), sums),
    )
    for law in (made.count, made.sums):
        if law is not None:
            law.require_drawable()
    return made


def _gaussian(sensitivity_squared: Fraction, mu: float) -> ScalarGaussian:
    return ScalarGaussian(sensitivity_squared / Fraction(mu) ** 2 + ROUNDING_VARIANCE)


def _sums_squared(neighbors: Neighbors) -> Fraction:
    """Squared l2 sensitivity of (sum q, sum floor(q^2 / Q)), |q| <= Q = 2^20.

    Add/remove: at most 2 Q^2. Replace-one: with s = |u - u'|, t = |u + u'|, u = q / Q, s + t <= 2,
    it is at most Q^2 (s^2 + (s t + 1/Q)^2) <= Q^2 s^2 (1 + (2 - s)^2) + 2 Q + 1 as s t <= 1, and
    that is largest at s = 2: 4 Q^2 + 2 Q + 1.
    """
    if neighbors == Neighbors.ADD_REMOVE:
        return Fraction(2 * UNITS**2)
    return Fraction(4 * UNITS**2 + 2 * UNITS + 1)


def mean_and_variance(
    values: Floats | Sequence[float],
    *,
    epsilon: float,
    delta: float,
    neighbors: Neighbors | str = Neighbors.ADD_REMOVE,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    seed: int | None = None,
) -> MeanAndVariance:
    r"""Mean and variance of a column of any location and scale: (epsilon, delta)-DP.

    A histogram of the sizes of differences between random pairs of rows gives the scale, one of the
    values in bins of that width the place; about it values are clipped at about 7 standard
    deviations and summed with noise. Values that are no finite numbers count as 0.

    Guarantee
    ---------
    (epsilon, delta)-DP, for every input, under add/remove (the number of rows is private) or
    replace-one, for rows. That it refuses is an outcome that this covers.

    Sensitivity
    -----------
    Pairs: a uniform matching of the rows, by fresh secret randomness. An inserted row can be
    coupled so that one pair is replaced (n even: the odd row out of the larger table is uniform; if
    it is not the new row, the new row stands in its place) or added (n odd: the new row joins the
    odd one out), a replaced row so that one pair is replaced: one vote moves at most. The coupling
    may be told to an observer, so the pair of laws is a mixture, with equal weights, of pairs that
    keep the guarantee, and keeps it. The place histogram moves one vote under replace-one, adds one
    under add/remove; the count changes by 1; the sums by `_sums_squared`. All noise is discrete
    Gaussian with variances 8 larger than continuous noise would need (`gaussian.Gaussian`), so the
    steps compose to mu-GDP beside two bad events (`GaussianHistograms`), and
    `accounting.gdp_beside_bad_events` gives mu.

    Not protected
    -------------
    Budget, running time; the number of rows under replace-one.

    Parameters
    ----------
    values : (n,) numbers, SENSITIVE.
    epsilon, delta : the budget.
    neighbors : ``add-remove`` or ``replace-one``.
    ledger, dataset : where the spend is booked before any noise is drawn.
    seed : for tests only; the result is then NOT PRIVATE.

    Returns
    -------
    MeanAndVariance
        In the units of the values; with intervals that count sampling and noise.

    Raises
    ------
    MechanismRefused : no bin passes its threshold; the budget is spent.
    BudgetError, LedgerError, SourceError : before anything is spent.

    Cost
    ----
    In memory; O(n log n) time.

    Source
    ------
    Karwa and Vadhan 2018, "Finite sample differentially private confidence intervals", Algorithms
    1 to 4. Differences: Gaussian in place of Laplace noise, which halves the rows needed; random
    pairs, so that add/remove is covered; the widest released bin gives the scale up to a factor of
    2, not 8; exact thresholds; one release of both sums.

    Examples
    --------
    >>> column = np.random.default_rng(1).normal(5e6, 3.0, 20_000)
    >>> made = mean_and_variance(column, epsilon=1.0, delta=1e-6)
    >>> abs(made.mean - 5e6) < 0.5
    True
    >>> plan(1.0, 1e-6).rows_needed < 2000
    True

    """
    planned, numbers = plan(epsilon, delta, neighbors), _numbers(values)
    if ledger is not None:
        if seed is not None:
            raise LedgerError("A seeded result is not private and can't be booked.")
        opened = Ledger.open(ledger) if isinstance(ledger, str | Path) else ledger
        opened.reserve(planned.guarantee, dataset=dataset, note="univariate")
    return _released(planned, numbers, Entropy.system() if seed is None else Entropy.seeded(seed))


@quiet("The values are not a column of numbers: give a one-dimensional array.")
def _numbers(values: Any) -> Floats:
    """(n,) floats, 0 where a value is no finite number."""
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1:
        raise SourceError("The values must be one column: a one-dimensional array.")
    return np.where(np.isfinite(column), column, 0.0)


@quiet("The values could not be processed. If a ledger was set, the budget stays spent.")
def _released(planned: Plan, values: Floats, entropy: Entropy) -> MeanAndVariance:
    count_noise = 0.0 if planned.count is None else planned.count.sample(entropy) / VOTE
    noises = [planned.sums.sample(entropy) for _ in range(2)]
    width = _scale(planned.scale, values, entropy)
    centre = _place(planned.place, values, width, entropy)
    count = max(1.0, len(values) + count_noise)
    radius = width * (1.5 + math.sqrt(2 * math.log(2 * count / OUTSIDE)))
    first, second = (
        (total + noise) / UNITS / count
        for total, noise in zip(_sums((values - centre) / radius), noises, strict=True)
    )
    deviation = planned.sums.standard_deviation / UNITS / count
    uncertain = 0.0 if planned.count is None else planned.count.standard_deviation / VOTE / count
    variance = second - first**2
    error = deviation * math.hypot(1, 2 * first), uncertain * (second - 2 * first**2)
    return MeanAndVariance(
        mean=centre + radius * first,
        variance=radius * (radius * max(0.0, variance)),  # infinite rather than an overflow
        count=count,
        mean_error=radius * math.hypot(deviation, uncertain * first),
        variance_error=radius * (radius * math.hypot(*error)),
        guarantee=planned.guarantee,
        reproducible=entropy.reproducible,
    )


def _scale(histogram: GaussianHistograms, values: Floats, entropy: Entropy) -> float:
    """2^(j + 1) for the fullest bin [2^j, 2^(j + 1)) of the differences of random pairs."""
    order = np.lexsort(entropy.words(2 * len(values)).reshape(2, len(values)))
    pairs = values[order[: len(values) // 2 * 2]].reshape(-1, 2)
    apart = np.minimum(np.abs(pairs[:, 0] - pairs[:, 1]), np.finfo(np.float64).max)
    exponents = np.frexp(apart[apart > 0])[1]
    return math.ldexp(1.0, int(np.clip(_fullest(histogram, exponents, entropy), -1000, 1000)))


def _place(histogram: GaussianHistograms, values: Floats, width: float, entropy: Entropy) -> float:
    """Middle of the fullest bin of this width, a power of 2."""
    largest = np.finfo(np.float64).max
    bins = np.clip(np.floor(values / width), -largest, largest)
    return float(np.clip((_fullest(histogram, bins, entropy) + 0.5) * width, -largest, largest))


def _fullest(histogram: GaussianHistograms, votes: AnyArray, entropy: Entropy) -> float:
    keys, counts = np.unique(votes + 0, return_counts=True)
    shown = histogram(dict(zip(keys.tolist(), counts.tolist(), strict=True)), entropy)
    if not shown:
        raise MechanismRefused(FEW)
    return float(max(shown, key=shown.__getitem__))


def _sums(offsets: Floats) -> tuple[int, int]:
    """Sums of q and of floor(q^2 / 2^20), q the offsets in steps of 2^-20, clipped at 1."""
    q = np.rint(np.clip(offsets, -1.0, 1.0) * UNITS).astype(np.int64)
    return int(q.sum()), int((q * q >> 20).sum())
