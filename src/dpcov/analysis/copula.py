"""Gaussian copula of encoded columns with the means and the covariance of a release.

Rows are drawn in two steps:

1. Categorical columns with three or more outcomes are drawn one after another (`level_draws`).
2. All other features are scalars: numbers, flags, categorical columns with two outcomes and
   indicators of missing cells. Each scalar is an increasing function of a latent variable
   (`dpcov.analysis.marginals`). The latent variables are linear in the drawn levels, plus normal
   residuals. The rank of a latent variable determines the value, so every scalar has exactly
   the given distribution.

The parameters are chosen such that the encoded rows have the correlations of the release.
`dpcov.analysis.latent` computes the correlation of two scalars from the correlation of their latent
variables. The columns of step 1 and missing cells change this correlation. If there are any,
`_Calibration` simulates rows and corrects the parameters repeatedly. `Copula.unreached` lists the
pairs of features that cannot have their released correlations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from dpcov.analysis.latent import GRID, Pairs, within
from dpcov.analysis.level_draws import drawn_levels, scaled_to_shares
from dpcov.analysis.marginals import Marginal, marginal
from dpcov.analysis.normal_equations import solve
from dpcov.rows.schema import Categorical

if TYPE_CHECKING:
    from dpcov.core.arrays import Booleans, Integers, Matrix, Vector
    from dpcov.rows.schema import Numeric, Schema

# "Tuned" means: set on the tables of benchmarks/coherent.py, with 3,000 and 20,000 rows.

# A smaller share of a level counts as 0. Such a level has less than one row in 10^6 rows.
MIN_SHARE = 1e-6
# Smallest number of simulated rows of a level. Correlations of rarer levels are not corrected.
MIN_LEVEL_ROWS = 20
# Largest errors of the correlations. The search for latent correlations tries them in turn. It
# stops at the first error that no pair has to exceed.
TOLERANCES = (0.006, 0.01, 0.015, 0.018)
# Largest error of a correlation that counts as reached. The drawn rows add a sampling error.
MAX_ERROR = 0.02
# Largest number of pairs that may exceed the largest of `TOLERANCES`, so that the others need not.
MAX_UNREACHED = 10
# Largest share of the variance of a latent variable that the drawn levels explain.
MAX_EXPLAINED_SHARE = 0.9999
SEED = 20_261_107  # Seed of the simulated rows, which are the same in every call.
SIMULATED_NUMBERS = 10**6  # Largest number of cells in the simulated rows.
MIN_ROWS, MAX_ROWS = 2**12, 2**17  # Limits of the number of simulated rows.
MAX_CORRECTIONS = 30  # Largest number of corrections of the parameters. Tuned.
# Factor by which the step of a pair grows, up to 1, after a correction that reduced errors. Tuned.
RECOVERY_FACTOR = 1.5
# Each correction should reduce the squared error of a pair to this fraction of the error before. If
# the error stays larger, the next step of the pair is half as long. Tuned.
SLOW_RATIO = 0.9
MAX_STEP = 0.3  # Largest change of a latent correlation in one correction.
# A correction is an improvement if it reduces `_State.excess` to less than this fraction.
IMPROVEMENT_RATIO = 0.95
# Largest number of corrections in a row without an improvement. After more, the search stops.
MAX_IDLE_CORRECTIONS = 6


@dataclass(frozen=True, slots=True)
class Scalar:
    """Feature that is an increasing function of one latent variable.

    Attributes
    ----------
    feature : int
        Position of the feature in the encoded rows.

    marginal : Marginal
        Distribution of the feature on a scale on which `lower` is 0 and `lower` + `width` is 1.

    lower, width : float
        Smallest encoded value, and the width of the encoded bounds.

    missing : int
        Position of the indicator of missing cells; -1 if there is none. A missing cell is encoded
        as 0, and the distribution describes the other cells.

    present : float
        Share of the cells that are not missing.

    other : int
        Position of the indicator that is 1 minus this feature; -1 if there is none.

    """

    feature: int
    marginal: Marginal
    lower: float = 0.0
    width: float = 1.0
    missing: int = -1
    present: float = 1.0
    other: int = -1

    def of(self, latent: Vector) -> Vector:
        """Convert values of the latent variable to encoded values."""
        return self.lower + self.width * self.marginal.of(latent)


@dataclass(frozen=True, slots=True)
class Levels:
    """Categorical column with three or more outcomes.

    Attributes
    ----------
    features : ndarray of int, shape (k,)
        Positions of the indicators of its levels.

    shares : ndarray, shape (k + 1,)
        Share of each level, and then the share of all other rows. The shares add up to 1.

    """

    features: Integers
    shares: Vector


@dataclass(frozen=True, slots=True)
class Parts:
    """Features of a table in three groups: scalars, categorical columns and constants.

    Attributes
    ----------
    scalars : tuple of Scalar, length s
        Scalars. The indicator of missing cells of a number comes directly before the number.

    levels : tuple of Levels
        Categorical columns with three or more outcomes. In total, they have k indicators.

    constants : tuple of (int, float)
        Positions and values of features that are the same in every row.

    """

    scalars: tuple[Scalar, ...]
    levels: tuple[Levels, ...]
    constants: tuple[tuple[int, float], ...]

    @classmethod
    def of(cls, schema: Schema, names: Sequence[str], mean: Vector, covariance: Matrix) -> Parts:
        """Group the features of columns, given their coherent means and covariances."""
        scalars: list[Scalar] = []
        levels: list[Levels] = []
        constants: list[tuple[int, float]] = []
        for name in names:
            column = schema.encoded_columns[name]
            at = np.array([j for j, one in enumerate(schema.variables) if one.column == name])
            if isinstance(column, Categorical):
                shares = np.append(mean[at], max(0.0, 1 - float(mean[at].sum())))
                shares = np.where(shares > MIN_SHARE, shares, 0.0)
                shares /= shares.sum()
                outcomes = np.flatnonzero(shares).tolist()
                if len(outcomes) > 2:
                    levels.append(Levels(at, shares))
                else:
                    constants += [(int(j), float(shares[k] == 1)) for k, j in enumerate(at)]
                    scalars += _of_two(at, shares, outcomes)
            else:
                variance = float(covariance[at[0], at[0]])
                scalars += number(column, at.tolist(), mean[at].tolist(), variance)
        return cls(tuple(scalars), tuple(levels), tuple(constants))

    @property
    def level_features(self) -> Integers:
        """Positions of the indicators of levels, shape (k,)."""
        return np.concatenate([np.zeros(0, int), *(one.features for one in self.levels)])

    @property
    def features(self) -> Integers:
        """Positions of the indicators of levels, and then of the scalars, shape (k + s,)."""
        scalars = [one.feature for one in self.scalars]
        return np.concatenate([self.level_features, np.array(scalars, int)])


def _of_two(at: Integers, shares: Vector, outcomes: list[int]) -> list[Scalar]:
    """Return the scalar of a categorical column with two outcomes, or none for one outcome."""
    if len(outcomes) < 2:
        return []
    first, second = outcomes
    other = int(at[second]) if second < len(at) else -1
    return [Scalar(int(at[first]), marginal(float(shares[first]), 0.0, (0, 1)), other=other)]


def number(
    column: Numeric, features: list[int], mean: list[float], variance: float
) -> list[Scalar]:
    """Return the scalars of a numeric column: its indicator of missing cells, and its number.

    Parameters
    ----------
    column : Numeric
        Declaration of the column.

    features : list of int, length 1 or 2
        Positions of the number and of its indicator of missing cells.

    mean : list of float, length 1 or 2
        Encoded mean. If the column has an indicator of missing cells, also their share.

    variance : float
        Variance of the encoded number.

    Returns
    -------
    list of Scalar
        Scalars with these means and variances.

    """
    missing = mean[1] if len(mean) > 1 else 0.0
    present = max(1 - missing, MIN_SHARE)
    about = mean[0] / present  # a missing cell adds 0 to the mean and to the mean square
    variance = max((variance + mean[0] ** 2) / present - about**2, 0.0)
    low, high, whole = column.lower, column.upper, None
    if column.reading in ("whole", "flag", "day") and math.ceil(low) < math.floor(high):
        low, high = math.ceil(low), math.floor(high)
        whole = low, high
    lower, width = (low - column.midpoint) / column.half_range, (high - low) / column.half_range
    found = marginal((about - lower) / width, variance / width**2, whole)
    if len(features) == 1:
        return [Scalar(features[0], found, lower, width)]
    indicator = Scalar(features[1], marginal(missing, 0.0, (0, 1)))
    return [indicator, Scalar(features[0], found, lower, width, features[1], present)]


@dataclass(frozen=True, slots=True)
class Dependence:
    """Parameters of the dependence between the features.

    Attributes
    ----------
    levels : ndarray, shape (k, k)
        Covariance from which the probabilities of the levels are computed.

    slopes : ndarray, shape (k, s)
        Slopes of the latent variables on the indicators of the levels.

    residual : ndarray, shape (s, s)
        Covariance of the residuals of the latent variables.

    """

    levels: Matrix
    slopes: Matrix
    residual: Matrix


@dataclass(frozen=True, slots=True)
class Copula:
    """Distribution of encoded rows.

    Attributes
    ----------
    parts : Parts
        Features of the table.

    dependence : Dependence
        Parameters of the dependence.

    errors : ndarray, shape (k + s, k + s)
        Wanted correlations minus the correlations of the copula, in the order of `Parts.features`.

    """

    parts: Parts
    dependence: Dependence
    errors: Matrix

    @property
    def unreached(self) -> list[tuple[int, int]]:
        """Positions of the pairs of features that cannot have their released correlation.

        Either the two distributions do not allow the correlation, or the correlation is impossible
        together with the correlations of other pairs.
        """
        features = self.parts.features
        far = np.argwhere(np.triu(np.abs(self.errors) > MAX_ERROR, 1))
        return [(int(features[a]), int(features[b])) for a, b in far]

    @classmethod
    def of(cls, schema: Schema, names: Sequence[str], mean: Vector, covariance: Matrix) -> Copula:
        """Choose the copula for coherent means and covariances.

        Parameters
        ----------
        schema : Schema
            Declaration of the columns.

        names : sequence of str
            Names of the columns of the copula.

        mean : ndarray, shape (p,)
            Coherent means of the encoded variables.

        covariance : ndarray, shape (p, p)
            Coherent covariance of the encoded variables.

        Returns
        -------
        Copula
            Copula with exactly these means and variances, and approximately these covariances.

        """
        parts = Parts.of(schema, names, mean, covariance)
        variances = np.diag(covariance)
        deviations = np.sqrt(np.where(variances > 0, variances, np.inf))
        target = covariance / np.outer(deviations, deviations)
        wanted = _Wanted(parts.scalars, target, np.sqrt(np.maximum(variances, 0.0)))
        if parts.levels or any(one.missing >= 0 for one in parts.scalars):
            best = _Calibration(parts, covariance, target, wanted).corrected()
            return cls(parts, best.dependence, best.errors)
        nothing = np.zeros_like(wanted.start)
        latent = wanted.residual(nothing, nothing, wanted.start)
        errors = target[np.ix_(parts.features, parts.features)] - wanted.of(latent)
        return cls(parts, Dependence(np.zeros((0, 0)), nothing[:0], latent), errors)

    def draw(self, count: int, features: int, generator: np.random.Generator) -> Matrix:
        """Draw encoded rows.

        Parameters
        ----------
        count : int
            Number of rows.

        features : int
            Number p of encoded variables. The values of derived variables are 0.

        generator : numpy.random.Generator
            Random numbers.

        Returns
        -------
        ndarray, shape (count, p)
            Encoded rows. Values are spread evenly over the distribution of each feature, so means
            and variances have little sampling error.

        """
        parts = self.parts
        rows = np.zeros((count, features))
        shape = len(parts.levels), count
        places = [generator.permutation(count) for _ in parts.levels]
        uniform = (np.array(places).reshape(shape) + generator.random(shape)) / count
        draw_levels(parts, self.dependence.levels, uniform, rows)
        normal = generator.standard_normal((count, len(parts.scalars)))
        draw_scalars(
            parts, self.dependence, normal, generator.random((len(parts.scalars), count)), rows
        )
        return rows


def draw_levels(parts: Parts, covariance: Matrix, uniform: Matrix, rows: Matrix) -> None:
    """Draw the levels of all categorical columns, and write their indicators into the rows.

    Parameters
    ----------
    parts : Parts
        Features of the table. The function writes the constants, too.

    covariance : ndarray, shape (k, k)
        Covariance from which the probabilities are computed.

    uniform : ndarray, shape (c, m)
        Uniform random number for each of c categorical columns and each row.

    rows : ndarray, shape (m, p)
        Encoded rows, which the function changes.

    """
    for feature, value in parts.constants:
        rows[:, feature] = value
    start = 0
    given, means = np.zeros(0, int), np.zeros(0)
    for levels, random in zip(parts.levels, uniform, strict=True):
        count = len(levels.features)
        here = slice(start, start + count)
        chances = np.tile(levels.shares, (len(rows), 1))
        if start and covariance[:start, here].any():
            slopes, _ = solve(covariance[:start, :start], covariance[:start, here])
            change = (rows[:, given] - means) @ slopes
            chances += np.column_stack([change, -change.sum(axis=1)])
            possible = levels.shares > 0
            chances[:, possible] = scaled_to_shares(chances[:, possible], levels.shares[possible])
            chances[:, ~possible] = 0.0
        drawn = drawn_levels(chances, random)
        rows[:, levels.features] = drawn[:, None] == np.arange(count)
        given, means = np.append(given, levels.features), np.append(means, levels.shares[:-1])
        start += count


def draw_scalars(
    parts: Parts, dependence: Dependence, normal: Matrix, uniform: Matrix, rows: Matrix
) -> None:
    """Draw all scalars for rows with known levels, and write the scalars into the rows.

    Parameters
    ----------
    parts : Parts
        Features of the table.

    dependence : Dependence
        Parameters of the dependence.

    normal : ndarray, shape (m, s)
        Standard normal variables.

    uniform : ndarray, shape (s, m) or (s, 1)
        Position of each value within the probabilities of its rank: 0 is the lowest, 1 the highest.

    rows : ndarray, shape (m, p)
        Encoded rows with the indicators of the levels. The function changes these rows.

    """
    values, vectors = np.linalg.eigh(dependence.residual)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    latent = rows[:, parts.level_features] @ dependence.slopes + normal @ root
    for scalar, own, random in zip(parts.scalars, latent.T, uniform, strict=True):
        at = np.arange(len(rows))
        if scalar.missing >= 0:
            at = np.flatnonzero(rows[:, scalar.missing] == 0)
        order = at[np.argsort(own[at], kind="stable")]
        places = (np.arange(len(at)) + np.broadcast_to(random, len(rows))[: len(at)]) / max(
            len(at), 1
        )
        rows[order, scalar.feature] = scalar.of(ndtri(places))
        if scalar.other >= 0:
            rows[:, scalar.other] = 1 - rows[:, scalar.feature]


class _Wanted:
    """Wanted correlations of the scalars, and the latent correlations that give them.

    Parameters
    ----------
    scalars : sequence of Scalar, length s
        Scalars.

    target : ndarray, shape (p, p)
        Correlations of the encoded variables.

    deviations : ndarray, shape (p,)
        Standard deviations of the encoded variables.

    """

    def __init__(self, scalars: Sequence[Scalar], target: Matrix, deviations: Vector) -> None:
        count = len(scalars)
        self.pairs = Pairs(np.array([one.of(GRID) for one in scalars]).reshape(count, len(GRID)))
        at = np.array([one.feature for one in scalars], int)
        # A missing cell reduces the covariances, and it changes the variance.
        own = self.pairs.deviations * np.array([one.present for one in scalars])
        factors = np.divide(deviations[at], own, out=np.zeros(count), where=own > 0)
        self._factors = np.outer(factors, factors)
        self._correlations = target[np.ix_(at, at)] * self._factors
        self._any = np.zeros((count, count), bool)
        for j, one in enumerate(scalars):
            if one.missing >= 0:  # the scalar before a number is its indicator of missing cells
                self._any[j, j - 1] = self._any[j - 1, j] = True
                self._correlations[j, j - 1] = self._correlations[j - 1, j] = 0.0
        self.start = self.pairs.latent(self._correlations)

    def of(self, latent: Matrix) -> Matrix:
        """Convert latent correlations to correlations of the scalars, without effects of levels."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.pairs.of(latent) / self._factors
        return np.where(self._factors > 0, found, 0.0)

    def residual(self, offset: Matrix, common: Matrix, start: Matrix) -> Matrix:
        """Find a covariance of the residuals with which the scalars have the wanted correlations.

        The errors are within the smallest possible of `TOLERANCES`, except for unreachable pairs.

        Parameters
        ----------
        offset : ndarray, shape (s, s)
            Effect of the levels and the missing cells on the correlations of the scalars.

        common : ndarray, shape (s, s)
            Part of the latent correlations that the levels explain.

        start : ndarray, shape (s, s)
            Latent correlations from which the search starts.

        Returns
        -------
        ndarray, shape (s, s)
            Positive semidefinite covariance of the residuals.

        """
        own = np.maximum(1 - np.diag(common), 1 - MAX_EXPLAINED_SHARE)
        wanted = self._correlations - offset * self._factors
        found, outside = start - common, None
        for tolerance in TOLERANCES:
            low, high = self.pairs.bounds(wanted, tolerance * self._factors)
            low = np.where(self._any, -1.0, low) - common
            high = np.where(self._any, 1.0, high) - common
            np.fill_diagonal(low, own)
            np.fill_diagonal(high, own)
            found, outside = within((low, high), found)
            if outside is None:
                break
        # A few pairs with large errors are better than many pairs with small errors.
        for _ in range(MAX_UNREACHED):
            if outside is None:
                break
            for at in (outside, outside[::-1]):
                low[at], high[at] = -np.inf, np.inf
            found, outside = within((low, high), found)
        return found


@dataclass(frozen=True, slots=True)
class _State:
    """Parameters after a correction, and the errors of the simulated correlations.

    Attributes
    ----------
    dependence : Dependence
        Parameters of the dependence.

    cross : ndarray, shape (k, s)
        Covariances of the levels and the latent variables.

    latent : ndarray, shape (s, s)
        Correlations of the latent variables.

    offset : ndarray, shape (s, s)
        Assumed effect of the levels and the missing cells on the correlations of the scalars.

    errors : ndarray, shape (k + s, k + s)
        Wanted correlations minus the simulated correlations.

    """

    dependence: Dependence
    cross: Matrix
    latent: Matrix
    offset: Matrix
    errors: Matrix

    @property
    def excess(self) -> float:
        """Sum of squared errors, after each absolute error is reduced by the smallest tolerance."""
        return float(np.sum(np.maximum(np.abs(self.errors) - TOLERANCES[0], 0.0) ** 2))


class _Calibration:
    """Search for the parameters with which simulated rows have the wanted correlations.

    The search corrects the parameters repeatedly. All simulations use the same random numbers.

    - Pairs with a level: the correction is the error of the simulated correlation, divided by a
      slope. The slope is the derivative of the correlation by the latent correlation at 0. This
      correction can be too large for strong correlations. The step of a pair is therefore halved
      if its error hardly falls.
    - Pairs of scalars: the search estimates the effect of the levels and of the missing cells. The
      effect is the simulated correlation minus the correlation without levels and missing cells.

    Parameters
    ----------
    parts : Parts
        Features of the table.

    covariance, target : ndarray, shape (p, p)
        Covariance and correlations of the encoded variables.

    wanted : _Wanted
        Wanted correlations of the scalars.

    """

    def __init__(self, parts: Parts, covariance: Matrix, target: Matrix, wanted: _Wanted) -> None:
        self._parts, self._wanted = parts, wanted
        at, k = parts.features, len(parts.level_features)
        self._order, self._k = len(target), k
        self._target = target[np.ix_(at, at)]
        self._deviations = np.sqrt(np.maximum(np.diag(covariance)[at], 1e-300))
        self._levels = covariance[np.ix_(at[:k], at[:k])]
        self._gains = wanted.pairs.gains
        rows = int(np.clip(SIMULATED_NUMBERS // len(at), MIN_ROWS, MAX_ROWS))
        generator = np.random.default_rng(SEED)
        places = [generator.permutation(rows) for _ in parts.levels]
        self._uniform = (np.array(places).reshape(len(places), rows) + 0.5) / rows
        normal = generator.standard_normal((rows, len(parts.scalars)))
        normal -= normal.mean(axis=0)
        self._normal = np.linalg.solve(np.linalg.cholesky(normal.T @ normal / rows), normal.T).T
        sizes = [len(one.features) for one in parts.levels]
        owners = np.repeat(np.arange(len(sizes)), sizes)
        alike = owners[:, None] == owners
        self._apart = self._pairs(alike, np.diag(self._levels) * rows >= MIN_LEVEL_ROWS)
        # Simulated correlations of independent features are errors, which `_simulated` subtracts.
        self._chance = np.zeros_like(self._target)
        none = np.where(alike, self._levels, 0.0)
        independent = Dependence(none, np.zeros((k, len(at) - k)), np.eye(len(at) - k))
        self._chance = self._simulated(independent, self._drawn_levels(none))

    def _pairs(self, alike: Booleans, counted: Booleans) -> Booleans:
        """Return True for each pair whose correlation is corrected, shape (k + s, k + s).

        Pairs of the same column and pairs with a very rare level are not corrected.
        """
        k = self._k
        found = np.ones(self._target.shape, bool)
        found[:k, :k] = ~alike
        found[:k] &= counted[:, None]
        found[:, :k] &= counted
        for j, one in enumerate(self._parts.scalars):
            found[k + j, k + j] = False
            if one.missing >= 0:  # the scalar before a number is its indicator of missing cells
                found[k + j, k + j - 1] = found[k + j - 1, k + j] = False
        return found

    def _drawn_levels(self, covariance: Matrix) -> Matrix:
        rows = np.zeros((len(self._normal), self._order))
        draw_levels(self._parts, covariance, self._uniform, rows)
        return rows

    def _simulated(self, dependence: Dependence, rows: Matrix) -> Matrix:
        """Simulate the scalars, and return the correlations of features of different columns."""
        middle = np.full((len(self._parts.scalars), 1), 0.5)
        draw_scalars(self._parts, dependence, self._normal, middle, rows)
        encoded = rows[:, self._parts.features]
        encoded = (encoded - encoded.mean(axis=0)) / self._deviations
        return np.where(self._apart, encoded.T @ encoded / len(encoded), 0.0) - self._chance

    def corrected(self) -> _State:
        """Correct the parameters repeatedly, and return the parameters with the smallest errors."""
        k, deviations = self._k, self._deviations
        units = np.append(np.ones(k), self._gains)
        cross = self._bounded(self._target[:k, k:] * deviations[:k, None] / self._gains)
        steps = np.ones(self._target.shape)
        offset = np.zeros_like(self._wanted.start)
        best = self._tried(self._levels, cross, offset, self._wanted.start)
        since = 0
        for _ in range(MAX_CORRECTIONS):
            errors = best.errors
            if np.abs(errors).max(initial=0.0) < TOLERANCES[1] or since > MAX_IDLE_CORRECTIONS:
                break
            change = np.clip(steps * errors / np.outer(units, units), -MAX_STEP, MAX_STEP)[:k]
            spreads = np.outer(deviations[:k], deviations[:k])
            levels = best.dependence.levels + change[:, :k] * spreads
            moved = self._bounded(best.cross + change[:, k:] * deviations[:k, None])
            offset = best.offset + steps[k:, k:] * (self._offset(best) - best.offset)
            found = self._tried(levels, moved, offset, best.latent)
            ratio = found.excess / best.excess
            since = 0 if ratio < IMPROVEMENT_RATIO else since + 1
            if ratio < 1:
                slow = found.errors**2 > SLOW_RATIO * errors**2
                slow[k:, k:] = False
                steps = np.where(slow, steps / 2, np.minimum(steps * RECOVERY_FACTOR, 1.0))
                best = found
            else:
                steps = steps / 2
        return best

    def _offset(self, state: _State) -> Matrix:
        """Return the simulated effect of levels and missing cells on correlations of scalars."""
        k = self._k
        simulated = self._target[k:, k:] - state.errors[k:, k:]
        return np.where(self._apart[k:, k:], simulated - self._wanted.of(state.latent), 0.0)

    def _tried(self, levels: Matrix, cross: Matrix, offset: Matrix, start: Matrix) -> _State:
        """Find possible parameters near the given parameters, and simulate their errors."""
        rows = self._drawn_levels(levels)
        dependence, cross, latent = self._possible(levels, cross, offset, start, rows)
        wanted = np.where(self._apart, self._target, 0.0)
        return _State(dependence, cross, latent, offset, wanted - self._simulated(dependence, rows))

    def _bounded(self, cross: Matrix) -> Matrix:
        """Limit the covariances of indicators of levels and latent variables to possible values.

        An indicator with share s has at most the covariance f(q), where f is the normal density and
        q is the normal s-quantile. The same limit holds for the rows without a level.
        """
        found, start = cross.copy(), 0
        for levels in self._parts.levels:
            most = np.exp(-(ndtri(levels.shares) ** 2) / 2)[:, None] / math.sqrt(2 * math.pi)
            here = slice(start, start + len(levels.features))
            found[here] = np.clip(found[here], -most[:-1], most[:-1])
            sums = found[here].sum(axis=0)
            found[here] -= levels.shares[:-1, None] * (sums - np.clip(sums, -most[-1], most[-1]))
            start = here.stop
        return found

    def _possible(
        self, levels: Matrix, cross: Matrix, offset: Matrix, start: Matrix, rows: Matrix
    ) -> tuple[Dependence, Matrix, Matrix]:
        """Find possible parameters near given covariances of levels and latent variables.

        Parameters
        ----------
        levels : ndarray, shape (k, k)
            Covariance from which the probabilities of the levels are computed.

        cross : ndarray, shape (k, s)
            Covariances of the levels and the latent variables.

        offset : ndarray, shape (s, s)
            Effect of the levels and the missing cells on the correlations of the scalars.

        start : ndarray, shape (s, s)
            Latent correlations from which the search starts.

        rows : ndarray, shape (m, p)
            Rows with the drawn levels.

        Returns
        -------
        dependence : Dependence
            Possible parameters.

        cross, latent : ndarray
            Covariances of levels and latent variables, and correlations of latent variables, that
            follow from these parameters.

        """
        drawn = rows[:, self._parts.level_features]
        drawn = drawn - drawn.mean(axis=0)
        gram = drawn.T @ drawn / len(drawn)
        slopes, _ = solve(gram, cross) if len(gram) else (cross, 0)
        explained = np.einsum("ks,kl,ls->s", slopes, gram, slopes)
        slopes = slopes / np.sqrt(np.maximum(explained / MAX_EXPLAINED_SHARE, 1.0))
        common = slopes.T @ gram @ slopes
        residual = self._wanted.residual(offset, common, start)
        return Dependence(levels, slopes, residual), gram @ slopes, residual + common
