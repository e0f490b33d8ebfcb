"""Private mean and variance of one column without bounds (Karwa and Vadhan 2018).

The column is an array in memory, with one number for each row. The privacy unit is one row. All
noise is Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.api.ledger import About, Ledger, finish_or_warn
from dpcov.core.entropy import Entropy
from dpcov.core.parameters import Probability, check
from dpcov.core.privacy import ApproxDP, Guarantee, Neighbors
from dpcov.core.samplers.scalars import ScalarGaussian
from dpcov.errors import LedgerError, MechanismError, MechanismRefused, SourceError
from dpcov.papers.accounting import gdp_beside_bad_events
from dpcov.papers.primitives.histogram import STEPS_PER_VOTE, GaussianHistograms
from dpcov.published.costs import ROUNDING_VARIANCE
from dpcov.rows.sources.quiet import quiet

if TYPE_CHECKING:
    from dpcov.core.arrays import AnyArray, Matrix

    Floats = Matrix

# Fractions of mu^2 for the scale, the location and the number of rows. Source: not recorded.
SCALE_SHARE, LOCATION_SHARE, COUNT_SHARE = 0.15, 0.15, 0.02
# Fraction of delta for the bad event of each of the two histograms. Source: not recorded.
BAD_EVENT_SHARE = 0.05
# Probability that any of n normal values is clipped. Source: not recorded.
CLIPPING_PROBABILITY = 0.1
# Number of steps of the largest clipped value.
VALUE_STEPS = 2**20
# Smallest fraction of normal pairs in the fullest bin of the scale histogram.
MIN_MODE_FREQUENCY = 0.289
# What the mechanism needs; part of the message of a refusal.
DENSE_VALUES_REQUIREMENT = "enough rows, without gaps in their values"


@dataclass(frozen=True, slots=True)
class MeanAndVariance:
    """Private mean and variance of a column.

    Attributes
    ----------
    mean : float
        Noisy mean, in the units of the values.

    variance : float
        Noisy variance, in squared units.

    count : float
        Number of rows, exact under replace-one and noisy under add-remove.

    mean_error : float
        Standard deviation of the noise in the mean.

    variance_error : float
        Standard deviation of the noise in the variance.

    guarantee : Guarantee
        Guarantee of the result.

    reproducible : bool
        True if a seed made the noise. The result is then NOT PRIVATE.

    """

    mean: float
    variance: float
    count: float
    mean_error: float
    variance_error: float
    guarantee: Guarantee
    reproducible: bool

    def mean_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return a confidence interval for the mean of the population.

        The interval covers sampling and privacy noise.
        """
        sampling = math.sqrt(self.variance / self.count)
        return _interval(self.mean, sampling, self.mean_error, level)

    def variance_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return a confidence interval for the variance of a normal population.

        The interval covers sampling and privacy noise.
        """
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
    """Noise of `mean_and_variance`, from public numbers only.

    The noise of the sums is in steps of 2^-20.
    """

    guarantee: Guarantee
    count: ScalarGaussian | None
    scale: GaussianHistograms
    place: GaussianHistograms
    sums: ScalarGaussian

    @property
    def rows_needed(self) -> int:
        """Number of normal rows for which a refusal is unlikely (probability below 1%)."""
        noise = self.scale.noise.standard_deviation / STEPS_PER_VOTE
        pairs = (self.scale.threshold / STEPS_PER_VOTE + 4 * noise) / MIN_MODE_FREQUENCY
        return 2 * math.ceil(pairs + 4 * math.sqrt(pairs))


def plan(epsilon: float, delta: float, neighbors: Neighbors | str = Neighbors.ADD_REMOVE) -> Plan:
    """Return the noise of `mean_and_variance` and the number of rows that it needs.

    The function reads no data.

    Parameters
    ----------
    epsilon, delta : float
        Budget.
    neighbors : {"add-remove", "replace-one"}
        Relation between tables.

    Returns
    -------
    Plan
        Noise distributions and number of rows.

    """
    budget, relation = ApproxDP(epsilon, delta), Neighbors(neighbors)
    bad = BAD_EVENT_SHARE * budget.delta
    mu = gdp_beside_bad_events(budget.epsilon * (1 - 1e-12), budget.delta, 2 * bad)
    private_count = relation == Neighbors.ADD_REMOVE
    count_share = COUNT_SHARE if private_count else 0.0
    sums_share = 1 - SCALE_SHARE - LOCATION_SHARE - count_share
    count, scale, place, sums = (
        mu * math.sqrt(share) * (1 - 1e-12)
        for share in (count_share, SCALE_SHARE, LOCATION_SHARE, sums_share)
    )
    made = Plan(
        guarantee=Guarantee(budget, relation),
        count=_gaussian(Fraction(STEPS_PER_VOTE) ** 2, count) if private_count else None,
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
    """Return the squared l2 sensitivity of the two sums.

    The sums are the sum of q and the sum of ``floor(q^2 / Q)``, for integers q of size at most
    ``Q = 2^20``.

    - Under add-remove, the squared sensitivity is at most ``2 Q^2``.
    - Under replace-one, it is at most ``4 Q^2 + 2 Q + 1``.

    Proof for replace-one. Let ``u = q / Q``, ``s = |u - u'|`` and ``t = |u + u'|``, so
    ``s + t <= 2``. The squared sensitivity is bounded as follows, because ``s t <= 1``::

        Q^2 (s^2 + (s t + 1/Q)^2) <= Q^2 s^2 (1 + (2 - s)^2) + 2 Q + 1

    The right side is largest at ``s = 2``.
    """
    if neighbors == Neighbors.ADD_REMOVE:
        return Fraction(2 * VALUE_STEPS**2)
    return Fraction(4 * VALUE_STEPS**2 + 2 * VALUE_STEPS + 1)


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
    """Compute a private mean and variance of a column of any location and scale.

    A histogram of the differences between random pairs of rows gives the scale. A histogram of the
    values, with bins of this width, gives the location. The function then clips the values at about
    7 standard deviations from the location and sums them with noise. Values that are not finite
    numbers count as 0.

    Guarantee
    ---------
    The result satisfies (epsilon, delta)-DP for every input. The guarantee holds under add-remove
    (the number of rows is private) and under replace-one. It protects rows. The guarantee covers a
    refusal too.

    Sensitivity
    -----------
    **Pairs.** A secret random draw matches the rows into pairs. Every inserted or replaced row
    changes at most one pair, for a suitable coupling of the two draws:

    - A replaced row replaces one pair.
    - An inserted row in a table with an even number of rows replaces one pair. The single row of
      the larger table is uniformly distributed. If it is not the new row, the new row takes its
      place.
    - An inserted row in a table with an odd number of rows adds one pair. The new row joins the
      single row.

    The proof can show the coupling to an observer. The two distributions are then mixtures, with
    equal weights, of pairs that satisfy the guarantee. The mixtures therefore satisfy the guarantee
    too.

    **Other steps.** The location histogram moves one vote under replace-one and adds one vote under
    add-remove. The count changes by 1. `_sums_squared` gives the sensitivity of the sums.

    All noise is discrete Gaussian. The variances are larger by 8 than the variances of continuous
    noise (`gaussian.Gaussian`). The steps compose to mu-GDP except in two bad events
    (`GaussianHistograms`). `accounting.gdp_beside_bad_events` gives mu.

    Not protected
    -------------
    - The budget and the running time.
    - Under replace-one, the number of rows.

    Parameters
    ----------
    values : array of float, shape (n,)
        Column, SENSITIVE.

    epsilon, delta : float
        Budget.

    neighbors : {"add-remove", "replace-one"}
        Relation between tables.

    ledger : Ledger, str or Path, optional
        Ledger that records the budget before dpcov draws any noise.

    dataset : str, optional
        Data set in the ledger.

    seed : int, optional
        Seed for tests only. The result is then NOT PRIVATE.

    Returns
    -------
    MeanAndVariance
        Mean and variance in the units of the values. Their intervals cover sampling and noise.

    Raises
    ------
    MechanismRefused
        No bin is above its threshold. The budget is spent.
    BudgetError, LedgerError, SourceError
        An argument is invalid. Nothing is spent.

    Cost
    ----
    The function works in memory and takes a time of order n log n.

    Source
    ------
    The source is Algorithms 1 to 4 of Karwa and Vadhan 2018, "Finite sample differentially private
    confidence intervals". dpcov differs from the paper in these points:

    - The noise is Gaussian and not Laplace, which halves the necessary number of rows.
    - The pairs are random, so that the guarantee covers add-remove.
    - The widest released bin gives the scale up to a factor of 2, and not 8.
    - The thresholds are exact.
    - One release contains both sums.

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
            raise LedgerError(
                "A ledger cannot record a result with a seed, because the seed removes the "
                "privacy. Remove the seed or the ledger."
            )
        opened = Ledger.open(ledger) if isinstance(ledger, str | Path) else ledger
        entry = opened.reserve(planned.guarantee, dataset=dataset, note="univariate")
        made = _released(planned, numbers, Entropy.system())
        finish_or_warn(opened, entry, (), About(source="a column in memory"))
        return made
    return _released(planned, numbers, Entropy.system() if seed is None else Entropy.seeded(seed))


@quiet("The values are not a column of numbers. Give a one-dimensional array of numbers.")
def _numbers(values: Any) -> Floats:
    """Convert values to floats of shape (n,), with 0 for each value that is not a finite number."""
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1:
        raise SourceError("The values are not one column. Give a one-dimensional array of numbers.")
    return np.where(np.isfinite(column), column, 0.0)


@quiet("dpcov could not process the values. If you use a ledger, the budget stays spent.")
def _released(planned: Plan, values: Floats, entropy: Entropy) -> MeanAndVariance:
    count_noise = 0.0 if planned.count is None else planned.count.sample(entropy) / STEPS_PER_VOTE
    noises = [planned.sums.sample(entropy) for _ in range(2)]
    width = _scale(planned.scale, values, entropy)
    centre = _place(planned.place, values, width, entropy)
    count = max(1.0, len(values) + count_noise)
    radius = width * (1.5 + math.sqrt(2 * math.log(2 * count / CLIPPING_PROBABILITY)))
    first, second = (
        (total + noise) / VALUE_STEPS / count
        for total, noise in zip(_sums((values - centre) / radius), noises, strict=True)
    )
    deviation = planned.sums.standard_deviation / VALUE_STEPS / count
    uncertain = (
        0.0 if planned.count is None else planned.count.standard_deviation / STEPS_PER_VOTE / count
    )
    variance = second - first**2
    error = deviation * math.hypot(1, 2 * first), uncertain * (second - 2 * first**2)
    return MeanAndVariance(
        mean=centre + radius * first,
        variance=radius * (radius * max(0.0, variance)),  # can be infinite, without an overflow
        count=count,
        mean_error=radius * math.hypot(deviation, uncertain * first),
        variance_error=radius * (radius * math.hypot(*error)),
        guarantee=planned.guarantee,
        reproducible=entropy.reproducible,
    )


def _scale(histogram: GaussianHistograms, values: Floats, entropy: Entropy) -> float:
    """Return ``2^(j + 1)`` for the fullest bin of the differences of random pairs.

    The bin contains the differences from ``2^j`` to ``2^(j + 1)``.
    """
    order = np.lexsort(entropy.words(2 * len(values)).reshape(2, len(values)))
    pairs = values[order[: len(values) // 2 * 2]].reshape(-1, 2)
    apart = np.minimum(np.abs(pairs[:, 0] - pairs[:, 1]), np.finfo(np.float64).max)
    exponents = np.frexp(apart[apart > 0])[1]
    return math.ldexp(1.0, int(np.clip(_fullest(histogram, exponents, entropy), -1000, 1000)))


def _place(histogram: GaussianHistograms, values: Floats, width: float, entropy: Entropy) -> float:
    """Return the middle of the fullest bin of a given width, which is a power of 2."""
    largest = np.finfo(np.float64).max
    bins = np.clip(np.floor(values / width), -largest, largest)
    return float(np.clip((_fullest(histogram, bins, entropy) + 0.5) * width, -largest, largest))


def _fullest(histogram: GaussianHistograms, votes: AnyArray, entropy: Entropy) -> float:
    keys, counts = np.unique(votes + 0, return_counts=True)
    shown = histogram(dict(zip(keys.tolist(), counts.tolist(), strict=True)), entropy)
    if not shown:
        raise MechanismRefused(DENSE_VALUES_REQUIREMENT)
    return float(max(shown, key=shown.__getitem__))


def _sums(offsets: Floats) -> tuple[int, int]:
    """Return the sum of q and the sum of ``floor(q^2 / 2^20)``.

    The integers q are the clipped offsets in steps of 2^-20.
    """
    q = np.rint(np.clip(offsets, -1.0, 1.0) * VALUE_STEPS).astype(np.int64)
    return int(q.sum()), int((q * q >> 20).sum())
