"""Wald tests of regression coefficients with the errors of sampling, privacy noise and clipping.

A plain Wald test uses the covariance V of the coefficients at their estimate b. This covariance
contains the errors of the features' variances, multiplied by b. If the noise is large, b is itself
mostly noise, so the product counts the noise twice. The plain test then finds too few effects.

`Fit.steps` uses the errors under the hypothesis instead. Let H and h be the second moments of the
features with themselves and with the target, so that H b = h. The features include the constant 1.
The hypothesis is R b = r.

1. Let b0 be the least-squares coefficients with R b0 = r, from the denoised moments.
2. Let H' and h' be the moments before denoising. One Newton step from b0 with these moments gives
   s = R inv(H) (h' - H' b0), which estimates R b - r.
3. Let e be the error of h' and E the error of H'. Under the hypothesis, s has the error
   R inv(H) (e - E b0) to first order. Its covariance is V0: the mean over simulated errors of the
   noise and of clipping, plus the sampling covariance.
4. The statistic is s' inv(V0) s.

An error of b0 does not change s to first order, because R inv(H) (h - H b0) is R inv(H) h - r if
R b0 = r. An error of H in R inv(H) does not change s either, because h - H b0 is 0 under the
hypothesis. The test therefore keeps its size even if the variances of the features are
near the noise level. If all effects are 0, b0 contains only the intercept. The errors of the
features' variances then have no effect on s. Without noise, s is R b - r and the statistic equals
the Wald statistic of classical least squares.

Three corrections give the distribution of the statistic. The sampling covariance has an estimated
factor, which gives an F distribution with q and n - k - 1 degrees of freedom. The noise covariance
comes from B simulated errors, which gives Hotelling's distribution: q B / (B - q + 1) times an F
distribution with q and B - q + 1 degrees of freedom. Let w be the fraction of the noise in V0, the
mean eigenvalue of inv(V0) times the noise covariance. The test uses Satterthwaite's approximation
1/f = w^2 / (B - q + 1) + (1 - w)^2 / (n - k - 1) for the denominator.

The noise has longer tails than a normal distribution, and its entries are large together. Mardia's
kurtosis of the simulated errors e of s is the mean of (e' inv(V0) e)^2. The test subtracts the
kurtosis of normal errors and divides the difference by q (q + 2). The result is the excess kurtosis
x. A multivariate t distribution with g = 4 + 2 / x degrees of freedom and covariance V0 has the
same excess kurtosis. The test therefore adds 1/g to 1/f, and multiplies the F distribution by
(g - 2) / g.

Sources: J. Neyman, Optimal asymptotic tests of composite statistical hypotheses (1959), for tests
that nuisance parameters do not change; T. W. Anderson and H. Rubin, Annals of Mathematical
Statistics 20 (1949), for errors under the hypothesis; H. Hotelling, Annals of Mathematical
Statistics 2 (1931); F. E. Satterthwaite, Biometrics Bulletin 2 (1946); K. V. Mardia, Biometrika 57
(1970).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from dpcov.analysis.estimable import budget_sentences
from dpcov.analysis.features import INTERCEPT_NAME
from dpcov.analysis.intervals import INTERVAL_DRAWS, fit_moments
from dpcov.core.show.result import OMITTED_FIELD, Result
from dpcov.core.show.table import Table
from dpcov.errors import ReleaseError
from dpcov.estimate import Estimate
from dpcov.estimate.errors import Stack, first_order

if TYPE_CHECKING:
    from dpcov.analysis.intervals import Coefficients, Statistic
    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.core.privacy import Guarantee
    from dpcov.releases import Release

# Largest number of coefficients in a joint test, as a fraction of the number of simulated errors.
# For more coefficients, the simulated covariance is too uncertain: Hotelling's factor exceeds 1.3.
MAX_TESTED_FRACTION = 0.25
UNTESTED_NOTE = (
    "No Wald test: a joint test of {count} coefficients needs more simulated errors than {draws}. "
    "Test fewer coefficients at once."
)


@dataclass(frozen=True, slots=True)
class WaldTest(Result):
    """Wald test of one or several hypotheses about the coefficients of a regression.

    Attributes
    ----------
    hypothesis : str
        Tested hypothesis in words.

    statistic : float
        Wald statistic. Its mean under the hypothesis is about `degrees`. NaN if there is no test.

    degrees : int
        Number of tested hypotheses, the numerator degrees of freedom.

    denominator_degrees : float
        Denominator degrees of freedom, which depend on the number of rows and of simulated errors.

    p_value : float
        Probability of a larger statistic if the hypothesis is true. NaN if there is no test, or if
        a person can have several rows and no design effect is stated.

    draws : int
        Number of simulated errors of the noise. It is 0 if the release has no noise distribution.

    See Also
    --------
    dpcov.ols : Regression with Wald tests.

    Examples
    --------
    >>> from dpcov.analysis.wald import WaldTest
    >>> WaldTest("age = 0", 4.1, 1, 320.0, 0.0437, 300).words
    'Wald test of age = 0: statistic 4.1, degrees of freedom 1 and 320, p = 0.044.'

    """

    hypothesis: str
    statistic: float
    degrees: int
    denominator_degrees: float
    p_value: float
    draws: int

    @property
    def words(self) -> str:
        """Sentence with the result of the test."""
        if np.isnan(self.statistic):
            return UNTESTED_NOTE.format(count=self.degrees, draws=self.draws)
        value = "p < 0.001" if self.p_value < 0.001 else f"p = {self.p_value:.2g}"
        value = "no p-value" if np.isnan(self.p_value) else value
        return (
            f"Wald test of {self.hypothesis}: statistic {self.statistic:.4g}, degrees of freedom "
            f"{self.degrees} and {self.denominator_degrees:.0f}, {value}."
        )

    def tables(self) -> list[Table]:
        heads = ("", "statistic", "degrees", "denominator", "p")
        cells = [self.statistic, float(self.degrees), self.denominator_degrees, self.p_value]
        return [Table(heads, [(self.hypothesis, cells)], "Wald test")]


@dataclass(frozen=True, slots=True)
class Contrast(Result):
    """Linear combination of the coefficients of a regression.

    Attributes
    ----------
    contrast : str
        Combination as text, such as ``1 * age + 2 * sex``.

    estimate : float
        Estimate of the combination.

    standard_error : float
        Standard error of the estimate, due to sampling and privacy noise together.

    lower : float
        Lower end of the interval. NaN if the interval says nothing.

    upper : float
        Upper end of the interval. NaN if the interval says nothing.

    level : float
        Nominal coverage of the interval.

    wald : WaldTest
        Wald test of the hypothesis that the combination is 0.

    sufficient_budget : float or None
        Epsilon or rho of a release that would have an interval, if this interval says nothing.
        Infinity if no such budget is known, and NaN otherwise.

    guarantee : Guarantee or None
        Guarantee of the release.

    See Also
    --------
    dpcov.ols : Regression with contrasts.

    Examples
    --------
    >>> from dpcov.analysis.wald import Contrast, WaldTest
    >>> test = WaldTest("1 * age + 2 * sex = 0", 4.1, 1, 320.0, 0.0437, 300)
    >>> Contrast("1 * age + 2 * sex", 1.2, 0.6, 0.02, 2.38, 0.95, test).estimate
    1.2

    """

    contrast: str
    estimate: float
    standard_error: float
    lower: float
    upper: float
    level: float
    wald: WaldTest
    sufficient_budget: float | None = None
    guarantee: Guarantee | None = field(default=None, metadata=OMITTED_FIELD)

    def tables(self) -> list[Table]:
        tail = (1 - self.level) / 2
        heads = ("", "estimate", "std err", "P>|t|", f"[{tail:.3g}", f"{1 - tail:.3g}]")
        cells = [self.estimate, self.standard_error, self.wald.p_value, self.lower, self.upper]
        forms = ("{:.5g}", "{:.4g}", "{:.3f}", "{:.5g}", "{:.5g}")
        notes: tuple[str, ...] = ()
        if self.sufficient_budget is not None and self.guarantee is not None:
            budget = np.array([self.sufficient_budget])
            notes = budget_sentences([self.contrast], budget, self.guarantee)
        return [Table(heads, [(self.contrast, cells)], "Contrast", forms, notes=notes)]

    def document(self) -> dict[str, Any]:
        return {**Result.document(self), "wald": self.wald.document()}


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Hypothesis R b = r about the coefficients b.

    Attributes
    ----------
    matrix : ndarray, shape (q, k + 1)
        R, in the units of the data. The first column belongs to the intercept, if there is one.

    values : ndarray, shape (q,)
        r.

    words : str
        Hypothesis in words.

    positions : tuple of int, or None
        Positions of the tested coefficients if each row of R selects one coefficient.

    """

    matrix: Matrix
    values: Vector
    words: str
    positions: tuple[int, ...] | None = None

    @classmethod
    def selecting(cls, count: int, positions: Sequence[int], words: str) -> Hypothesis:
        """Return the hypothesis that the coefficients at `positions`, of `count`, are 0."""
        matrix = np.zeros((len(positions), count))
        matrix[np.arange(len(positions)), list(positions)] = 1.0
        return cls(matrix, np.zeros(len(positions)), words, tuple(positions))

    @classmethod
    def weighted(cls, names: Sequence[str], weights: Mapping[str, float]) -> Hypothesis:
        """Return the hypothesis that a weighted sum of coefficients is 0."""
        matrix = np.zeros((1, len(names)))
        matrix[0, _positions(names, list(weights))] = list(weights.values())
        if not (np.isfinite(matrix).all() and matrix.any()):
            raise ReleaseError(
                "The weights of a contrast must be finite numbers, and one of them must not be 0. "
                "Correct the weights."
            )
        words = " + ".join(f"{weight:g} * {name}" for name, weight in weights.items())
        return cls(matrix, np.zeros(1), f"{words} = 0")

    def of(self, array: Array) -> Array:
        """Return R times an array of shape (k + 1, ...)."""
        if self.positions is not None:
            return array[list(self.positions)]
        return np.tensordot(self.matrix, array, 1)

    @classmethod
    def asked(
        cls, names: Sequence[str], asked: Matrix | Sequence[str] | str | None, values: object
    ) -> Hypothesis:
        """Check and return a hypothesis about coefficients with these names.

        Parameters
        ----------
        names : sequence of str, length k + 1
            Names of the coefficients.

        asked : ndarray, shape (q, k + 1) or (k + 1,), sequence of str, str or None
            Matrix R, or names of coefficients. A vector is a matrix with one row. None stands for
            all coefficients except the intercept.

        values : array-like, shape (q,), or None
            Values under the hypothesis. None stands for 0.

        Returns
        -------
        Hypothesis
            Hypothesis with a matrix of rank q.

        Raises
        ------
        ReleaseError
            A name is unknown, a shape is wrong, or the rows of the matrix are dependent.

        """
        named = [asked] if isinstance(asked, str) else asked
        if named is None:
            tested = range(int(names[0] == INTERCEPT_NAME), len(names))
            found = cls.selecting(len(names), tested, _of_all(len(tested)))
        elif all(isinstance(one, str) for one in named):
            positions = _positions(names, [str(one) for one in named])
            found = cls.selecting(len(names), positions, f"{', '.join(map(str, named))} = 0")
        else:
            matrix = _matrix(names, named)
            found = cls(matrix, np.zeros(len(matrix)), "linear hypotheses")
        if values is not None:
            right = np.asarray(values, np.float64).ravel()
            if right.shape != found.values.shape or not np.isfinite(right).all():
                raise ReleaseError(f"This hypothesis needs {len(found.values)} finite values.")
            words = found.words.removesuffix(" = 0") + " = the given values"
            found = replace(found, values=right, words=words)
        if not len(found.matrix) or np.linalg.matrix_rank(found.matrix) < len(found.matrix):
            raise ReleaseError("The rows of a hypothesis must be linearly independent.")
        return found


def _of_all(count: int) -> str:
    return f"all {count} features = 0" if count > 1 else "the feature = 0"


def _positions(names: Sequence[str], asked: Sequence[str]) -> list[int]:
    """Return the positions of coefficients, or raise if a name is unknown."""
    places = {name: at for at, name in enumerate(names)}
    unknown = [name for name in asked if name not in places]
    if unknown:
        raise ReleaseError(f"There is no coefficient {unknown[0]!r}. Choose: {', '.join(names)}.")
    return [places[name] for name in asked]


def _matrix(names: Sequence[str], asked: object) -> Matrix:
    """Return the matrix of a hypothesis, or raise if its shape is wrong."""
    matrix = np.atleast_2d(np.asarray(asked, np.float64))
    if matrix.ndim != 2 or matrix.shape[1] != len(names) or not np.isfinite(matrix).all():
        raise ReleaseError(
            f"The matrix of a hypothesis needs {len(names)} columns of finite numbers, one for "
            f"each coefficient: {', '.join(names)}."
        )
    return matrix


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Second moments of the constant 1, the features and the target.

    The moments are means over rows. The features and the target are encoded and centered at their
    means in the fit. The vector g contains the coefficients of the centered features. The
    coefficients in the units of the data are `offset` + `map` g.

    In a regression through the origin, the features and the target are centered at 0, and there is
    no constant. All vectors then have k entries in place of k + 1.

    Attributes
    ----------
    release : Release
        Release of the fit.

    center : ndarray, shape (d, d)
        Second moment that the fit uses.

    to : int
        Position of the target among the columns of the release.

    at : list of int
        Positions of the features among the columns of the release.

    means : ndarray, shape (p,)
        Means of the encoded columns in the fit.

    inverse : ndarray, shape (k + 1, k + 1)
        Inverse of the second moment of the constant and the features.

    fitted : ndarray, shape (k + 1,)
        Coefficients g of the fit.

    map : ndarray, shape (k + 1, k + 1)
        Matrix that converts g to the units of the data.

    offset : ndarray, shape (k + 1,)
        Coefficients in the units of the data if g is 0.

    has_intercept : bool, default True
        False for a regression through the origin.

    """

    release: Release
    center: Matrix
    to: int
    at: list[int]
    means: Vector
    inverse: Matrix
    fitted: Vector
    map: Matrix
    offset: Vector
    has_intercept: bool = True

    @classmethod
    def through_origin(cls, release: Release, center: Matrix, to: int, at: list[int]) -> _Blocks:
        moments = fit_moments(release, center[None], has_intercept=False)[0]
        inverse = np.linalg.inv(moments[np.ix_(at, at)])
        scales = release.scales
        linear, offset = np.diag(scales[to] / scales[at]), np.zeros(len(at))
        fitted = inverse @ moments[at, to]
        means = -release.centers / scales
        return cls(release, center, to, at, means, inverse, fitted, linear, offset, False)

    @classmethod
    def of(cls, release: Release, center: Matrix, to: int, at: list[int]) -> _Blocks:
        stack = Stack.of(release, center[None])
        covariance, means = stack.covariances[0], stack.means[0]
        k = len(at)
        inverse = np.zeros((k + 1, k + 1))
        inverse[0, 0] = 1.0
        inverse[1:, 1:] = np.linalg.inv(covariance[np.ix_(at, at)])
        fitted = np.concatenate([[0.0], inverse[1:, 1:] @ covariance[at, to]])
        scales, unit = release.scales[at], release.scales[to]
        data_means = release.centers + release.scales * means
        linear = np.zeros((k + 1, k + 1))
        linear[0, 0] = unit
        linear[1:, 1:] = np.diag(unit / scales)
        linear[0, 1:] = -unit / scales * data_means[at]
        offset = np.zeros(k + 1)
        offset[0] = data_means[to]
        return cls(release, center, to, at, means, inverse, fitted, linear, offset)

    def solved(self, values: Array) -> Array:
        """Multiply (b, k + 1, k + 2) moments by inv(H), and convert to the units of the data."""
        return np.asarray(self.map @ self.inverse @ values)

    def against(self, hypothesis: Hypothesis) -> Vector:
        """Return the vector (-b0, 1), shape (k + 2,), where b0 satisfies the hypothesis.

        b0 contains least-squares coefficients of the centered features, as in g. The product of
        the matrix (H, h) and this vector is h - H b0.
        """
        tested = hypothesis.of(self.map)
        gap = tested @ self.fitted + hypothesis.of(self.offset) - hypothesis.values
        rows = tested @ self.inverse
        restricted = self.fitted - rows.T @ np.linalg.solve(rows @ tested.T, gap)
        return np.append(-restricted, 1.0)

    def values(self, matrices: Array) -> Array:
        """Return the matrix (H, h), shape (b, k + 1, k + 2), of each of b second moments."""
        at = [*self.at, self.to]
        if not self.has_intercept:
            moments = fit_moments(self.release, matrices, has_intercept=False)
            return moments[:, self.at][:, :, at]
        stack = Stack.of(self.release, matrices)
        found = np.empty((len(matrices), len(at), len(at) + 1))
        found[:, 0, 0] = 1.0
        found[:, 0, 1:] = (stack.means - self.means)[:, at]
        found[:, 1:, 0] = found[:, 0, 1:-1]
        found[:, 1:, 1:] = stack.covariances[:, self.at][:, :, at]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Least-squares fit with the joint errors of its coefficients.

    k is the number of features. The first coefficient is the intercept. In a regression through the
    origin, there are k coefficients in place of k + 1.

    Attributes
    ----------
    blocks : _Blocks
        Second moments of the features and the target.

    statistic : Coefficients
        Statistic of the coefficients.

    sampling : ndarray, shape (k + 1, k + 1)
        Sampling covariance of the coefficients, in the units of the data.

    degrees : float
        Residual degrees of freedom.

    start : numpy.random.Generator
        Random numbers for the simulated errors. Each simulation starts from a copy of this
        generator, so all simulations use the same random numbers.

    has_p_values : bool
        False if a person can have several rows and no design effect is stated.

    """

    blocks: _Blocks
    statistic: Coefficients
    sampling: Matrix
    degrees: float
    start: np.random.Generator
    has_p_values: bool = True

    @classmethod
    def of(
        cls,
        release: Release,
        statistic: Coefficients,
        to: int,
        at: list[int],
        center: Matrix,
        sampling_errors: Vector,
        degrees: float,
        start: np.random.Generator,
        *,
        has_intercept: bool = True,
    ) -> Fit:
        """Return a fit whose coefficients have the classical correlations and these errors.

        Parameters
        ----------
        release : Release
            Release of the fit.

        statistic : Coefficients
            Statistic of the coefficients.

        to : int
            Position of the target.

        at : list of int
            Positions of the features.

        center : ndarray, shape (d, d)
            Second moment of the fit.

        sampling_errors : ndarray, shape (k + 1,)
            Standard errors due to sampling.

        degrees : float
            Residual degrees of freedom.

        start : numpy.random.Generator
            Random numbers for the simulated errors.

        has_intercept : bool, default True
            False for a regression through the origin.

        Returns
        -------
        Fit
            Fit with a sampling covariance.

        """
        made = _Blocks.of if has_intercept else _Blocks.through_origin
        blocks = made(release, center, to, at)
        covariance = blocks.map @ blocks.inverse @ blocks.map.T
        factors = sampling_errors / np.sqrt(np.diag(covariance))
        sampling = covariance * np.outer(factors, factors)
        return cls(blocks, statistic, sampling, degrees, start)

    def _errors(self, *, alone: bool) -> Iterator[Array]:
        """Yield batches of (b, d, d) errors due to the noise, clipping and rounding.

        Parameters
        ----------
        alone : bool
            True for errors of the moments before denoising, without the limits of the prior.

        Yields
        ------
        ndarray, shape (b, d, d)
            Errors.

        """
        release = self.blocks.release
        if release.noise is not None:
            found = Estimate.of(release).errors(
                sampling=False, generator=deepcopy(self.start), draws=INTERVAL_DRAWS, alone=alone
            )
            yield from found.batches()

    def _plain(self) -> Matrix:
        """Return the second moment before denoising, or `center` without a noise distribution."""
        release, center = self.blocks.release, self.blocks.center
        return center if release.noise is None else Estimate.of(release).noisy

    def largest(self, weights: Matrix) -> Vector:
        """Return the largest possible absolute values of linear combinations (`Coefficients`)."""
        return self.statistic.largest(self.blocks.release, self.blocks.center, weights)

    def shrinkage_bias(self, figures: Statistic) -> Vector:
        """Return figures of the moments before denoising, minus the figures of the fit."""
        matrices = np.stack([self._plain(), self.blocks.center])
        before, after = figures.values(self.blocks.release, matrices)
        return np.asarray(before - after)

    def privacy(self) -> Matrix:
        """Return the (k + 1, k + 1) covariance of the coefficients due to the privacy noise."""
        values = partial(self.statistic.values, self.blocks.release)
        total, count = np.zeros_like(self.sampling), 0
        for errors in self._errors(alone=False):
            moves = first_order(values, self.blocks.center, errors)
            total += moves.T @ moves
            count += len(errors)
        return total / max(count, 1)

    def steps(self, hypotheses: Sequence[Hypothesis]) -> list[Step]:
        """Return the Newton step of each hypothesis, with its covariances under the hypothesis.

        Parameters
        ----------
        hypotheses : sequence of Hypothesis
            Hypotheses.

        Returns
        -------
        list of Step
            Step of each hypothesis.

        """
        blocks = self.blocks
        against = [blocks.against(one) for one in hypotheses]
        moments = blocks.solved(blocks.values(self._plain()[None]))
        steps = _products(hypotheses, moments, against)
        moves: list[list[Array]] = [[np.zeros((0, len(one.values)))] for one in hypotheses]
        for errors in self._errors(alone=True):
            solved = blocks.solved(first_order(blocks.values, blocks.center, errors))
            for own, more in zip(moves, _products(hypotheses, solved, against), strict=True):
                own.append(more)
        found = []
        for one, (step,), parts in zip(hypotheses, steps, moves, strict=True):
            effects = np.concatenate(parts)
            sampling = one.of(one.of(self.sampling).T)
            found.append(Step(one, step, effects, sampling, self.degrees, self.has_p_values))
        return found


def _products(
    hypotheses: Sequence[Hypothesis], solved: Array, against: Sequence[Vector]
) -> list[Array]:
    """Return R inv(H) (h - H b0) of each hypothesis, shape (b, q), for (b, k + 1, k + 2) moments.

    The parameter `solved` contains the moments after multiplication by inv(H), and `against`
    contains the vectors (-b0, 1).
    """
    by_row = solved.swapaxes(0, 1)
    return [(one.of(by_row) @ vector).T for one, vector in zip(hypotheses, against, strict=True)]


@dataclass(frozen=True, slots=True)
class Step:
    """Newton step from the coefficients of a hypothesis.

    Attributes
    ----------
    hypothesis : Hypothesis
        Hypothesis R b = r.

    step : ndarray, shape (q,)
        Estimate of R b - r.

    effects : ndarray, shape (draws, q)
        Simulated errors of the step due to the noise and clipping, under the hypothesis. There are
        no draws if the release has no noise distribution.

    sampling : ndarray, shape (q, q)
        Sampling covariance of the step.

    degrees : float
        Residual degrees of freedom behind `sampling`.

    has_p_values : bool
        False if a person can have several rows and no design effect is stated.

    """

    hypothesis: Hypothesis
    step: Vector
    effects: Matrix
    sampling: Matrix
    degrees: float
    has_p_values: bool = True

    @property
    def draws(self) -> int:
        """Number of simulated errors."""
        return len(self.effects)

    @property
    def noise(self) -> Matrix:
        """Covariance of the step due to the noise and clipping, shape (q, q)."""
        return np.asarray(self.effects.T @ self.effects / max(self.draws, 1))

    def test(self) -> WaldTest:
        """Return the Wald test of the hypothesis, without a p-value if the rows are dependent."""
        found = self.test_of_independent_rows()
        return found if self.has_p_values else replace(found, p_value=np.nan)

    def test_of_independent_rows(self) -> WaldTest:
        """Return the Wald test of the hypothesis, as if all rows were independent."""
        q, total = len(self.step), self.noise + self.sampling
        words = self.hypothesis.words
        if self.draws and q > MAX_TESTED_FRACTION * self.draws:
            return WaldTest(words, np.nan, q, np.nan, np.nan, self.draws)
        scale = np.sqrt(np.diag(total))
        if not (np.isfinite(total).all() and np.isfinite(self.step).all() and np.all(scale > 0)):
            # If an error is unknown, the p-value is 1.
            return WaldTest(words, 0.0, q, self.degrees, 1.0, self.draws)
        scaled = self.step / scale
        related = total / np.outer(scale, scale)
        statistic = max(float(scaled @ np.linalg.solve(related, scaled)), 0.0)
        inverse, factor = 1 / self.degrees, 1.0
        if self.draws:
            inverse, factor = self._reference(related, self.effects / scale)
        p_value = float(scipy.special.fdtrc(q, 1 / inverse, statistic / (q * factor)))
        return WaldTest(words, statistic, q, 1 / inverse, p_value, self.draws)

    def _reference(self, total: Matrix, effects: Matrix) -> tuple[float, float]:
        """Approximate the distribution of the statistic divided by q by a scaled F distribution.

        Parameters
        ----------
        total : ndarray, shape (q, q)
            Covariance of the step.

        effects : ndarray, shape (draws, q)
            Simulated errors of the step.

        Returns
        -------
        inverse : float
            1 divided by the denominator degrees of freedom.

        factor : float
            Scale of the F distribution.

        """
        draws, q = effects.shape
        solved = np.linalg.solve(total, effects.T)
        noise = solved @ effects / draws
        fraction = float(np.clip(np.trace(noise) / q, 0.0, 1.0))
        of_noise = draws - q + 1
        inverse = fraction**2 / of_noise + (1 - fraction) ** 2 / self.degrees
        factor = 1 + fraction**2 * (q - 1) / of_noise
        squares = np.sum(effects.T * solved, axis=0) ** 2
        normal = (np.trace(noise) ** 2 + 2 * np.sum(noise * noise.T)) * (draws - 1) / (draws + 1)
        excess = max(float(np.mean(squares) - normal), 0.0) / (q * (q + 2))
        # A t distribution with 4 + 2 / excess degrees of freedom has this kurtosis.
        tail = excess / (4 * excess + 2)
        return inverse + tail, factor * (1 - 2 * tail)
