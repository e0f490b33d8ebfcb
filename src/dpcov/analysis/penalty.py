"""Choice of the strength of a ridge penalty, from the release alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.features import target_and_features
from dpcov.analysis.normal_equations import Penalty, Problem
from dpcov.core.entropy import reading_generator
from dpcov.errors import NotReleasedError
from dpcov.estimate import Estimate
from dpcov.estimate.missing import MIN_DIVISOR
from dpcov.estimate.repeated import repeated_releases

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.releases import Release

# Number of simulated releases, and of draws of the noise alone. Source: not recorded.
SIMULATED_RELEASES, NOISE_DRAWS = 20, 50
# Variance of a direction that shows none, as a fraction of the noise in it. Source: tuned.
UNDETECTED_VARIANCE = 0.25
# Ratio of what the noise alone would explain to what the model explains, above which the largest
# alpha is chosen. Source: tuned.
MAX_EXPLAINED_RATIO = 40
# Default candidates of alpha, in average variances of a feature, shape (41,).
ALPHA_GRID = np.geomspace(1e-7, 1e3, 41)


def ridge_alpha(
    release: Release,
    target: str,
    features: Sequence[str] | None = None,
    *,
    intercept: bool = True,
    penalty: Penalty = "encoded",
    alphas: Sequence[float] | None = None,
    generator: np.random.Generator | None = None,
) -> float:
    """Choose the strength of a ridge penalty from the release alone.

    The choice minimises the estimated prediction error for new rows, at no further cost of privacy.

    Parameters
    ----------
    release : Release
        Release with a known noise distribution.

    target : str
        Feature to predict, as in `ridge`.

    features : sequence of str, optional
        Names of features or columns. The default is all columns except the target.

    intercept : bool, default True
        Fit an intercept.

    penalty : {"encoded", "standardized", "raw"}, default "encoded"
        Units of the coefficients in the penalty, as in `ridge`.

    alphas : sequence of float, length a, optional
        Candidates. The default is a grid around the average variance of a feature.

    generator : numpy.random.Generator, optional
        Random numbers for the simulations. The default gives the same result every time.

    Returns
    -------
    float
        Chosen strength alpha.

    Raises
    ------
    NotReleasedError
        The release contains the trace only, or its noise distribution is unknown.
    ReleaseError
        A name is unknown, or the target is among the features.

    See Also
    --------
    dpcov.ridge : Ridge regression, which calls this function by default.
    dpcov.ridge_path : Models for several strengths.

    Notes
    -----
    The estimated error of a candidate has three parts:

    - The error due to the privacy noise, from a parametric bootstrap (Efron 1979). dpcov treats the
      denoised matrix as the truth and simulates 20 releases of it. It fits each candidate to each
      simulated release. It measures the error of the fit on the denoised matrix.
    - The sampling error of a fit to n rows, sigma^2 tr(H^2) / n. Here H is the matrix C (C + 2
      alpha S)^-1 of `ridge`, and sigma^2 is the residual variance without a penalty.
    - The squared norm of the coefficients times a small variance. This variance is a quarter of
      sqrt(d) standard deviations of the noise in one entry. It penalises coefficients along
      directions in which the denoised matrix has no variance.

    The default grid has no alpha below the small variance. Otherwise, a small direction that the
    noise created could dominate the model. If the noise alone would explain 40 times as much
    variance as the model, the function returns the largest candidate. The model then contains
    little more than the intercept.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 5000)
    >>> release = dpcov.release(np.column_stack([x, x**2]), lower=0, upper=1, epsilon=10.0)
    >>> dpcov.ridge_alpha(release, "x1", alphas=[1e-4, 1e3])
    0.0001

    """
    to, at = target_and_features(release, target, features)
    return least_risk(
        release, [to], at, penalty, intercept=intercept, alphas=alphas, generator=generator
    )


def least_risk(
    release: Release,
    targets: Sequence[int],
    features: Sequence[int],
    penalty: Penalty,
    *,
    intercept: bool = True,
    alphas: Sequence[float] | None = None,
    generator: np.random.Generator | None = None,
) -> float:
    """Choose one penalty for several targets, with the smallest sum of their expected errors.

    See `ridge_alpha` for the method.

    Parameters
    ----------
    release : Release
        Release with an intercept, unless `intercept` is False.

    targets : sequence of int
        Positions of the targets.

    features : sequence of int
        Positions of the features.

    penalty : {"encoded", "standardized", "raw"}
        Units in which coefficients are penalised.

    intercept : bool, default True
        Fit an intercept.

    alphas : sequence of float, optional
        Strengths to choose from.

    generator : numpy.random.Generator, optional
        Random numbers for the simulations.

    Returns
    -------
    float
        Strength of the penalty.

    """
    estimate = Estimate.required(release)
    truth = Problem.of(release, targets, features, penalty, intercept=intercept)
    if release.noise is None:
        raise NotReleasedError(
            "The noise of this release has no law that can be simulated, so alpha can't be chosen "
            "from it. Give alpha."
        )
    draws = reading_generator(generator)
    entries, crosses = _noise(estimate, targets, features, draws)
    unseen = UNDETECTED_VARIANCE * math.sqrt(release.lattice.dimension) * entries
    if alphas is None:
        variances = ALPHA_GRID * float(np.trace(truth.gram)) / len(features)
        grid = variances[variances >= min(unseen, variances[-1])]
        grid *= len(features) / max(float(truth.weights.sum()), MIN_DIVISOR)
    else:
        grid = np.asarray(alphas, np.float64)
    fewest = max(1.0, estimate.fewest_rows([*targets, *features]))
    risk = _sampling_risk(truth, grid, fewest)
    for made in islice(repeated_releases(release, draws), SIMULATED_RELEASES):
        again = Problem.of(made, targets, features, penalty, intercept=intercept)
        lengths = np.sum(again.solutions(grid) ** 2, axis=(1, 2))
        risk += (squared_errors(truth, again, grid) + unseen * lengths) / SIMULATED_RELEASES
    best = float(grid[int(np.argmin(risk))])
    by_noise = _explained(truth, crosses, best) / len(crosses)
    return (
        float(grid.max())
        if by_noise > MAX_EXPLAINED_RATIO * _explained(truth, truth.cross, best)
        else best
    )


def _noise(
    estimate: Estimate,
    targets: Sequence[int],
    features: Sequence[int],
    generator: np.random.Generator,
) -> tuple[float, Matrix]:
    """Simulate the noise per row in the units of encoded features.

    Returns
    -------
    deviation : float
        Standard deviation of the noise in an entry between two features.

    crosses : ndarray, shape (s, k, t)
        Simulated noise in the entries between k features and t targets.

    """
    at = np.asarray(features)
    rows = _drawn(estimate, generator)[:, at] / estimate.count
    entries = rows[:, :, at]
    apart = entries[:, ~np.eye(len(at), dtype=bool)] if len(at) > 1 else entries.ravel()
    return float(np.sqrt(np.mean(apart**2))), rows[:, :, np.asarray(targets)]


def _drawn(estimate: Estimate, generator: np.random.Generator) -> Array:
    """Return (s, p + 1, p + 1) simulated errors of the complete matrix before denoising."""
    found = estimate.errors(sampling=False, generator=generator, draws=NOISE_DRAWS, alone=True)
    return np.concatenate([estimate.complete_errors(batch) for batch in found.batches()])


def _explained(problem: Problem, cross: Matrix, alpha: float) -> float:
    """Return the sum of c' (C + 2 alpha)^-1 c over the columns c of `cross`."""
    values, vectors = problem.spectrum()
    along = (vectors.T @ cross) ** 2 / np.maximum(values + 2 * alpha, MIN_DIVISOR)[:, None]
    return float(np.sum(along))


def pull_of_mean(release: Release, target: int, generator: np.random.Generator) -> float:
    """Return the shift that moves the mean of a target towards the midpoint of its bounds.

    Let m be the distance of the mean from the midpoint, and v the variance of the noise in m. The
    shift is the fraction v / m^2 of this distance, at most 1 (James and Stein). The reason is that
    m^2 - v estimates the square of the true distance.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    target : int
        Position of the target.

    generator : numpy.random.Generator
        Random numbers for the simulations.

    Returns
    -------
    float
        Shift in the units of the target.

    """
    estimate, t = Estimate.of(release), release.intercept()
    away = float(estimate.encoded[target])
    errors = _drawn(estimate, generator)
    ratios = (errors[:, target, -1] - away * errors[:, -1, -1] / t) / (t * estimate.count)
    variance = float(np.mean(ratios**2))
    share = min(1.0, variance / max(away**2, MIN_DIVISOR))
    return float(-away * share * estimate.scales[target])


def squared_errors(truth: Problem, fitted: Problem, alphas: Vector) -> Vector:
    """Return the mean squared errors of models that are fitted to one matrix and tested on another.

    Parameters
    ----------
    truth : Problem
        Normal equations that define the errors.

    fitted : Problem
        Normal equations to which the models are fitted.

    alphas : ndarray, shape (a,)
        Strengths of the penalty.

    Returns
    -------
    ndarray, shape (a,)
        Sums of the mean squared errors over all targets.

    """
    solutions = fitted.solutions(alphas)
    moved = (fitted.means - truth.means) @ solutions  # (a, t)
    shift = fitted.target_means - truth.target_means - moved
    return np.sum(truth.losses(solutions) + shift**2, axis=1)


def _sampling_risk(truth: Problem, alphas: Vector, count: float) -> Vector:
    """Return the (a,) increases of the mean squared error by the sampling error of `count` rows."""
    residual = float(truth.losses(truth.solutions(np.zeros(1))).sum())
    values, _ = truth.spectrum()
    kept = values / np.maximum(values + 2 * alphas[:, None], MIN_DIVISOR)
    return residual * np.sum(kept**2, axis=1) / count
