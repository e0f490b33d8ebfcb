"""Named statistics with intervals, by the method of `standard_errors`, in one form for all of them.

A statistic has its own file. It passes a function of the means and covariances of a few features to
`named_figures`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy

from dpcov.analysis.estimable import (
    budget_sentences,
    span,
    sufficient_budgets,
    sufficient_divisors,
)
from dpcov.analysis.intervals import (
    CONFIDENCE_LEVEL,
    UNKNOWN_ERROR_MESSAGE,
    below_noise,
    flags,
    hidden_features,
    sentence_of_hidden,
    sentence_of_names,
    titled,
)
from dpcov.analysis.table_texts import cautions
from dpcov.core.parameters import Probability, check
from dpcov.core.show.result import OMITTED_FIELD, Result
from dpcov.core.show.table import Row, Table
from dpcov.errors import NotReleasedError, ReleaseError
from dpcov.estimate import Estimate, dependent
from dpcov.estimate.error_covariance import both_standard_errors
from dpcov.published import record

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Booleans, Matrix, Vector
    from dpcov.releases import Release

    Function = Callable[[Vector, Matrix], Any]

# Smallest eigenvalue of a correlation matrix. Below it, rounding errors determine the inverse.
MIN_EIGENVALUE = 1e-9


class Scale(NamedTuple):
    """Scale on which the errors of a statistic are nearly normal, and 0 means no effect.

    Attributes
    ----------
    to : callable
        Function from figures to the scale.
    back : callable
        Inverse function.
    limits : tuple of float
        Smallest and largest possible figures.

    """

    to: Callable[[Array], Array]
    back: Callable[[Array], Array]
    limits: tuple[float, float] = (-np.inf, np.inf)

    def interval(self, scaled: Array, reach: Array) -> Matrix:
        """Return the ends of intervals with these half-widths on the scale, shape (2, k)."""
        return np.sort([self.back(scaled - reach), self.back(scaled + reach)], axis=0)


UNCHANGED = Scale(np.asarray, np.asarray)
FISHER = Scale(np.arctanh, np.tanh, (-1.0, 1.0))


@dataclass(frozen=True, slots=True)
class NamedFigures(Result):
    """Figures of a named statistic with intervals.

    Attributes
    ----------
    title : str
        Name of the statistic.

    names : tuple of str, length k
        Names of the figures.

    values : ndarray, shape (k,)
        Estimates.

    standard_errors : ndarray, shape (k,)
        Standard errors due to privacy noise and sampling.

    noise_errors : ndarray, shape (k,)
        Standard errors due to the privacy noise alone.

    lower, upper : ndarray, shape (k,)
        Ends of the intervals for the population. NaN if an interval says nothing.

    level : float
        Nominal coverage of each interval.

    below_noise : ndarray of bool, shape (k,)
        True for a figure below the noise level.

    sentences : tuple of str
        Sentences below the table.

    dependent : str
        Sentence about persons with several rows, or an empty string.

    sufficient_budget : ndarray, shape (k,), or None
        For each interval that says nothing, the epsilon or rho of a release that would have an
        interval. NaN for the other intervals.

    See Also
    --------
    dpcov.standard_errors : Standard errors of any function of means and covariances.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 5000)
    >>> release = dpcov.release(np.column_stack([x, x**2]), lower=0, upper=1, epsilon=10.0)
    >>> dpcov.cronbach_alpha(release).names[0]
    'alpha'

    """

    title: str
    names: tuple[str, ...]
    values: Vector
    standard_errors: Vector
    noise_errors: Vector
    lower: Vector
    upper: Vector
    level: float
    below_noise: Booleans
    sentences: tuple[str, ...] = field(default=(), metadata=OMITTED_FIELD)
    dependent: str = field(default="", metadata=OMITTED_FIELD)
    sufficient_budget: Vector | None = None

    def tables(self) -> list[Table]:
        tail = (1 - self.level) / 2
        figures = (self.values, self.standard_errors, self.lower, self.upper)
        rows: list[Row] = [
            (name, [*cells, flag])
            for name, cells, flag in zip(
                self.names,
                np.column_stack(figures).tolist(),
                flags(self.below_noise),
                strict=True,
            )
        ]
        heads = ("", "estimate", "std err", f"[{tail:.3g}", f"{1 - tail:.3g}]", "")
        notes = (
            f"Intervals cover privacy noise and sampling, {self.level:.0%} each.",
            *sentence_of_names(self.below_noise, self.names),
            *self.sentences,
        )
        title = titled(self.title, self.dependent)
        return [Table(heads, rows, title, ("{:.4g}",), notes=notes)]

    def data(self) -> Table:
        named = {
            "estimate": self.values,
            "standard error": self.standard_errors,
            "noise error": self.noise_errors,
            "lower": self.lower,
            "upper": self.upper,
        }
        rows: list[Row] = [
            (name, [*cells, bool(below)])
            for name, cells, below in zip(
                self.names,
                np.column_stack(list(named.values())).tolist(),
                self.below_noise,
                strict=True,
            )
        ]
        return Table(("", *named, "below noise"), rows)


def require(release: Release) -> None:
    """Raise `NotReleasedError` if the release has no covariances or no noise distribution."""
    record.refuse(release.not_released)
    Estimate.required(release)
    if release.noise is None:
        raise NotReleasedError(UNKNOWN_ERROR_MESSAGE)


def named_figures(
    release: Release,
    title: str,
    features: Sequence[str],
    names: Sequence[str],
    function: Function,
    *,
    scale: Scale = UNCHANGED,
    level: float = CONFIDENCE_LEVEL,
    together: Sequence[str] = (),
    notes: Sequence[str] = (),
    generator: np.random.Generator | None = None,
) -> NamedFigures:
    """Return the figures of a function of means and covariances, with intervals.

    Parameters
    ----------
    release : Release
        Release with a noise distribution.

    title : str
        Name of the statistic.

    features : sequence of str, length p
        Features whose means and covariances the function receives.

    names : sequence of str, length k
        Names of the figures.

    function : callable
        Smooth function from the means, shape (p,), and the covariance matrix, shape (p, p), to k
        figures.

    scale : Scale, optional
        Scale of the intervals. The default is the figures themselves.

    level : float, default 0.95
        Nominal coverage of each interval, between 0 and 1.

    together : sequence of str, optional
        Features that enter a regression together. A sentence names those that the noise cannot
        distinguish from the others.

    notes : sequence of str, optional
        Sentences below the table.

    generator : numpy.random.Generator, optional
        Random numbers for the simulation. The default gives the same result every time.

    Returns
    -------
    NamedFigures
        Figures with intervals.

    Raises
    ------
    NotReleasedError
        The release contains no covariances or has no noise distribution.
    ReleaseError
        The features do not determine the statistic, or `level` is not between 0 and 1.

    """
    check("level", level, Probability, ReleaseError)
    at = [release.columns.index(name) for name in features]

    def both(means: Vector, covariance: Matrix) -> Array:
        figures = np.asarray(function(means, covariance), np.float64)
        return np.stack([figures, scale.to(figures)])

    with np.errstate(all="ignore"):
        values, scaled = both(release.mean()[at], release.covariance()[np.ix_(at, at)])
        _require_finite(title, scaled)
        whole, of_noise = both_standard_errors(release, both, features, generator)
        (errors, of_scaled), (noise, noise_of_scaled) = whole, of_noise
        _require_finite(title, np.stack([of_scaled, noise_of_scaled]))
        z = scipy.special.ndtri((1 + level) / 2)
        sampling = np.sqrt(np.maximum(of_scaled**2 - noise_of_scaled**2, 0.0))

        def ends_at(divisor: float) -> Matrix:
            return scale.interval(scaled, z * np.hypot(sampling, noise_of_scaled / divisor))

        divisors = sufficient_divisors(lambda divisor: span(ends_at(divisor), scale.limits))
        enough = sufficient_budgets(release.guarantee, divisors)
        lower, upper = np.where(np.isnan(enough), scale.interval(scaled, z * of_scaled), np.nan)
    if len(together) > 1:
        hidden = hidden_features(release, [release.columns.index(name) for name in together])
        notes = (*notes, *sentence_of_hidden(hidden, together))
    columns = dict.fromkeys(release.schema.variables[j].column for j in at)
    return NamedFigures(
        title,
        tuple(names),
        values,
        errors,
        noise,
        lower,
        upper,
        level,
        below_noise(scaled, noise_of_scaled),
        (*budget_sentences(names, enough, release.guarantee), *notes, *cautions(release, columns)),
        dependent(release),
        enough,
    )


def inverse_correlation(covariance: Matrix) -> Matrix:
    """Return the inverse of the correlation matrix, or NaN if some features determine others.

    Parameters
    ----------
    covariance : ndarray, shape (p, p)
        Covariance matrix.

    Returns
    -------
    ndarray, shape (p, p)
        Inverse of the correlation matrix.

    """
    roots = np.sqrt(np.diag(covariance))
    related = covariance / np.outer(roots, roots)
    if not np.isfinite(related).all() or np.linalg.eigvalsh(related)[0] < MIN_EIGENVALUE:
        return np.full(related.shape, np.nan)
    return np.linalg.inv(related)


def regression(covariance: Matrix, to: Sequence[int], at: Sequence[int]) -> Matrix:
    """Return the slopes of the regressions of some features on others.

    Parameters
    ----------
    covariance : ndarray, shape (p, p)
        Covariance matrix.

    to : sequence of int, length m
        Positions of the targets.

    at : sequence of int, length k
        Positions of the features.

    Returns
    -------
    ndarray, shape (k, m)
        Slopes, or NaN if some features determine others.

    """
    gram, cross = covariance[np.ix_(at, at)], covariance[np.ix_(at, to)]
    roots = np.sqrt(np.diag(gram))[:, None]
    return np.asarray(inverse_correlation(gram) @ (cross / roots) / roots)


def _require_finite(title: str, figures: Array) -> None:
    """Raise if the release does not determine the figures."""
    if not np.isfinite(figures).all():
        raise ReleaseError(
            f"{title}: these features do not determine the statistic. One does not vary in the "
            "release, or some determine others. Choose fewer features."
        )
