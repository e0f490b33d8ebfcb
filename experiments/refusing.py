"""Cases that can refuse: a private test, then samples from a normal distribution or Gaussian noise.

The loss is exact for the calibrated noise and for a change of the size that the proof allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
from scipy.stats import chi2, norm

import seeds
from calibrated import APPROXIMATE, matrix_losses, scalar_loss
from dpcov.core.privacy import Neighbors, gaussian_mu, zcdp_epsilon
from dpcov.papers.accounting import gdp_of_pure
from dpcov.papers.primitives import stable_rows
from dpcov.papers.primitives.histogram import STEPS_PER_VOTE
from dpcov.papers.primitives.release_test import ReleaseTest
from dpcov.papers.primitives.sampled_covariance import SampledCovariance
from dpcov.papers.primitives.stable_average import FINE_STEPS_PER_STEP, STEPS_PER_RADIUS
from dpcov.papers.primitives.stable_matrices import StableMatrices
from dpcov.papers.transformed import last_laws
from dpcov.published.costs import ROUNDING_VARIANCE
from registered_cases import (
    BOUND,
    DELTA,
    EPSILON,
    ORDER,
    Case,
    bound_divided,
    farthest,
    lattice,
    laws_times,
)

DRAWS = 300
# Rows of the table of stable-covariance.
UNITS = 20_000
# Points of the quadrature over the samples, within 12 standard deviations.
GRID_POINTS = 8_001
# A matrix with many digits, so that rounding does not count.
LARGE = 2**80


def test_loss(test: ReleaseTest) -> float:
    """Return the exact epsilon of a test, over all neighbouring scores below the limit."""
    ratio = math.exp(-1 / float(test.noise.scale))

    def passes(score: int) -> tuple[float, float]:
        beyond = test.threshold - score + 1  # the test refuses if the noise reaches this number
        if beyond > 0:
            refused = ratio**beyond / (1 + ratio)
            return 1 - refused, refused
        passed = ratio ** (1 - beyond) / (1 + ratio)
        return passed, 1 - passed

    found = [passes(score) for score in range(test.limit)]
    return max(
        abs(math.log(one / other))
        for i, before in enumerate(found)
        for after in found[i + 1 : i + 1 + test.sensitivity]
        for one, other in zip(before, after, strict=True)
    )


def gaussian_excess(left: Any, mu: float) -> Any:
    """Return the delta of Gaussian noise at each epsilon in `left`; mu = 0 is no noise at all."""
    if mu == 0:
        return np.maximum(-np.expm1(left), 0.0)
    rest = norm.logcdf(-mu / 2 - left / mu)
    return norm.cdf(mu / 2 - left / mu) - np.exp(left + rest)


def samples_delta(change: float, samples: int, epsilon: float, mu: float = 0.0) -> float:
    """Return the exact delta at epsilon if one eigenvalue changes by a relative `change`.

    The mechanism draws `samples` normal numbers with this variance, and Gaussian noise of mu.
    """
    return max(excess(epsilon, factor, samples, mu) for factor in (1 + change, 1 / (1 + change)))


def samples_epsilon(change: float, samples: int, mu: float = 0.0) -> float:
    """Return the exact epsilon at delta, as `samples_delta`."""
    low, high = 0.0, 50.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        enough = samples_delta(change, samples, middle, mu) <= DELTA
        low, high = (low, middle) if enough else (middle, high)
    return high


def excess(epsilon: float, factor: float, samples: int, mu: float) -> float:
    """Return the delta for a variance of 1 beside a variance of `factor`."""
    known = chi2(samples)
    width = 12 * known.std()
    grid = np.linspace(max(known.mean() - width, 0.0), known.mean() + width, GRID_POINTS)
    losses = samples / 2 * math.log(factor) - grid / 2 * (1 - 1 / factor)
    weights = known.pdf(grid) * (grid[1] - grid[0])
    return float(np.sum(weights * gaussian_excess(epsilon - losses, mu)))


def rows_change(stable: Any) -> float:
    """Return the relative change of the weighted second moment if one row is added."""
    leverage = 1 / (stable.ceiling - 3 * stable.limit + 1)
    return 2 * leverage / (1 - 2 * leverage)


def stable_parts(case: Case) -> tuple[Any, Any, Any, Any]:
    """Return the test, the noise of the count, the stable rows and the samples."""
    laws = case.laws()
    if case.name == "whitened":
        return laws.stable.test, laws.stable.units, laws.rows, laws.release
    return laws.test, laws.units, *case.mechanism().at(laws, lattice(), UNITS)


def stable_loss(case: Case) -> float:
    """Return the epsilon of the test, the count and the rest, over the claim."""
    test, units, stable, release = stable_parts(case)
    mu = math.sqrt(2 * last_rho(case)) if case.name == "whitened" else 0.0
    rest = samples_epsilon(rows_change(stable), release.samples, mu)
    return (test_loss(test) + scalar_loss(units, [1.0]) + rest) / EPSILON


def last_rho(case: Case) -> float:
    """Return the exact rho of the last step: counts, matrix and trace."""
    mechanism, laws = case.mechanism(), case.laws()
    shares = mechanism.radius_share, mechanism.trace_share
    counts, final = last_laws(lattice(), laws.guarantee, laws.rho, 0, *shares)
    matrix = matrix_losses(final.matrix, np.array([[BOUND], [0.0], [0.0]]))
    return float(matrix[0]) + scalar_loss(counts, [1.0]) + scalar_loss(final.trace, [BOUND])


def allowed_rho(epsilon: float) -> float:
    """Return the rho whose zCDP gives epsilon and delta."""
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if zcdp_epsilon(middle, DELTA) <= epsilon else (low, middle)
    return low


def most_samples(change: float, epsilon: float) -> int:
    """Return the largest number of samples whose exact loss is at most epsilon."""
    low, high = 1, 2**50
    while high - low > max(1, low // 1000):
        middle = max(low + 1, math.isqrt(low * high))
        private = samples_delta(change, middle, epsilon) <= DELTA
        low, high = (middle, high) if private else (low, middle)
    return low


def sampled_deviation(release: SampledCovariance) -> float:
    """Return the relative standard deviation of released variances."""
    entropy, matrix = seeds.entropy(20260067), LARGE * np.eye(ORDER, dtype=object)
    drawn = [np.diag(release(matrix, 1, entropy)).astype(float) / LARGE for _ in range(DRAWS)]
    return math.sqrt(np.mean((np.array(drawn) - 1) ** 2))


def stable_error(case: Case, left: float) -> float:
    """Return the relative error over the derived one, sqrt(2/N) with the largest exact N."""
    _, _, stable, release = stable_parts(case)
    samples = most_samples(rows_change(stable), left)
    return sampled_deviation(release) / math.sqrt(2 / samples)


def whitened_error(case: Case) -> float:
    """Return the errors of the transformation and of the last matrix, farthest from 1."""
    laws, entropy = case.laws(), seeds.entropy(20260068)
    _, final = last_laws(lattice(), laws.guarantee, laws.rho, 0, 0.08, 0.05)
    draws = np.array([np.asarray(final.matrix.sample(entropy), float) for _ in range(DRAWS)])
    rho = 0.9 * allowed_rho(EPSILON * (1 - 0.2 - 0.01)) * 0.92 * 0.95
    measured = math.sqrt(np.mean(np.sum((draws / BOUND) ** 2, axis=(1, 2))))
    return farthest(
        [
            sampled_deviation(laws.release) / math.sqrt(2 / (50 * ORDER)),
            measured / math.sqrt(3 / (2 * rho)),
        ]
    )


def groups_change(laws: Any) -> float:
    """Return the relative change of the average of groups that agree within r = 0.2."""
    apart = 2 * 0.2 + 0.2**2
    return 5 * apart / ((laws.groups - laws.stable.test.limit) * (1 - apart))


def groups_loss(case: Case) -> float:
    """Return the epsilon of the test and of the samples, over the claim."""
    laws = case.laws()
    rest = samples_epsilon(groups_change(laws), laws.release.samples)
    return (test_loss(laws.stable.test) + rest) / EPSILON


def groups_error(case: Case) -> float:
    """Return the relative error over the derived one, sqrt(2/N), as `stable_error`."""
    laws = case.laws()
    samples = most_samples(groups_change(laws), 0.7 * EPSILON)
    return sampled_deviation(laws.release) / math.sqrt(2 / samples)


WHOLE = gaussian_mu(EPSILON + math.log1p(-DELTA / 2), DELTA / 2) ** 2
# Fractions of the squared mu of unbounded-gaussian, each with the number of its draws. There are
# 3 queries for eigenvalues, and 2 for subspaces, as many as features. A subspace query has 1/5 for
# the average and 4/5 for the test. The last release has 15% for the radius, and 5% of the rest for
# the trace.
SPENT = {
    "values": (0.25 / 3, 3),
    "average": (0.4 / 5 / 2, 2),
    "fine": (0.05, 1),
    "counts": (0.3 * 0.15, 1),
    "matrix": (0.3 * 0.85 * 0.95, 1),
    "trace": (0.3 * 0.85 * 0.05, 1),
}


def unbounded_noise(case: Case, laws: Any) -> dict[str, Any]:
    """Return the noise of each part of `SPENT`."""
    own, rho = lattice().relative(), Fraction(0.3 * WHOLE / 2)
    counts, final = last_laws(own, laws.guarantee, rho, ROUNDING_VARIANCE, 0.15, 0.05)
    return {
        "values": laws.values.histograms.noise,
        "average": laws.spaces.average(ORDER, 1, 0.1).noise(laws.spaces.groups, ORDER**2),
        "fine": case.mechanism()._fine_noise(own, laws),
        "counts": counts,
        "matrix": final.matrix,
        "trace": final.trace,
    }


def unbounded_changes(laws: Any) -> dict[str, float]:
    """Return the sensitivity of each part: one unit moves 3 votes, or changes one group."""
    groups = laws.spaces.groups - laws.spaces.test.limit
    average = 10 * STEPS_PER_RADIUS * FINE_STEPS_PER_STEP / groups + ORDER + 1
    sums = dict.fromkeys(("fine", "matrix", "trace"), BOUND)
    return sums | {"values": math.sqrt(6) * STEPS_PER_VOTE, "average": average, "counts": 1.0}


def unbounded_loss(case: Case) -> float:
    """Return the exact mu of all rounds, over the mu that epsilon and delta leave."""
    laws = case.laws()
    changes = unbounded_changes(laws)
    lost = 2 * gdp_of_pure(test_loss(laws.spaces.test)) ** 2
    for name, law in unbounded_noise(case, laws).items():
        lost += SPENT[name][1] * changes[name] ** 2 / (float(law.variance) - ROUNDING_VARIANCE)
    return math.sqrt(lost / WHOLE)


def unbounded_error(case: Case) -> float:
    """Return the deviation of a part over the derived one, farthest from 1."""
    laws, entropy, ratios = case.laws(), seeds.entropy(20260069), []
    changes = unbounded_changes(laws)
    for name, law in unbounded_noise(case, laws).items():
        draws = np.array([np.asarray(law.sample(entropy), float) for _ in range(DRAWS)])
        size = 3 if name in ("fine", "matrix") else 1
        square = np.mean(np.sum(draws.reshape(DRAWS, -1) ** 2, axis=1)) / size
        ratios.append(math.sqrt(square * SPENT[name][0] * WHOLE) / changes[name])
    return farthest(ratios)


@contextmanager
def samples_times(kind: Any, factor: float) -> Iterator[None]:
    """Multiply all noise of the library, and the error of sampled matrices."""
    calibrate, plain = kind.calibrate, SampledCovariance.__init__

    def constructor(self: Any, closeness: float, samples: int) -> None:
        plain(self, closeness, round(samples / factor**2))

    def wrong(mechanism: Any, *public: Any) -> Any:
        found = calibrate(mechanism, *public)
        samples = round(found.release.samples / factor**2)
        return replace(found, release=replace(found.release, samples=samples))

    samples = mock.patch.object(SampledCovariance, "__init__", constructor)
    if kind.name == "whitened":  # the number is an option, and the other steps follow from it
        samples = mock.patch.object(kind, "calibrate", wrong)
    with laws_times(kind, factor), samples:
        yield


@contextmanager
def changes_divided(kind: Any, factor: float) -> Iterator[None]:
    """Divide the bound on a row, and the relative changes of weighted matrices."""
    rows, groups = stable_rows.closeness, StableMatrices.closeness
    with (
        bound_divided(kind, factor),
        mock.patch.object(stable_rows, "closeness", lambda *given: rows(*given) / factor),
        mock.patch.object(StableMatrices, "closeness", lambda *given: groups(*given) / factor),
    ):
        yield


def refusing(name: str, paper: str, loss: Any, error: Any, sensitivity: Any) -> Case:
    """Return the case of a mechanism that can refuse, for one added row."""
    added = Neighbors.ADD_REMOVE
    return Case(name, paper, APPROXIMATE, added, loss, error, (), samples_times, sensitivity)


CASES = (
    refusing(
        "stable-covariance",
        "Brown, Hopkins and Smith",
        stable_loss,
        partial(stable_error, left=EPSILON * (1 - 0.25 - 0.02)),
        changes_divided,
    ),
    refusing("whitened", "Brown, Hopkins and Smith", stable_loss, whitened_error, changes_divided),
    refusing("ashtiani-liaw", "Ashtiani and Liaw", groups_loss, groups_error, changes_divided),
    refusing("unbounded-gaussian", "Mouzakis", unbounded_loss, unbounded_error, bound_divided),
)
