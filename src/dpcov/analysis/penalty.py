"""Choosing the strength of a ridge penalty from the release alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.expected import repeated
from dpcov.analysis.features import target_and_features
from dpcov.analysis.moments import MIN_DIVISOR, Moments, require_matrix
from dpcov.analysis.normal_equations import Penalty, Problem
from dpcov.analysis.plausible import PlausibleMoments
from dpcov.core.entropy import reading_generator
from dpcov.errors import NotReleasedError
from dpcov.releases.pairwise import fewest_rows, moved

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
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
    """The alpha with the least squared error to expect, for new rows.

    Takes the denoised matrix for the truth, simulates releases of it from the public noise law,
    fits each for every alpha, and measures its error on that truth (a parametric bootstrap), plus
    what fitting n rows costs, sigma^2 tr(H^2) / n with H the ridge's hat matrix. Directions in
    which the denoised matrix shows no variance would make errors free, so all get a little more:
    `UNDETECTED_VARIANCE` of sqrt(d) standard deviations of the noise in an entry. No alpha of the
    default grid is below that: otherwise a small direction that noise made could carry the model.
    Where the noise alone would explain `MAX_EXPLAINED_RATIO` times what the model does, the largest
    alpha is chosen, with which little but the intercept is left.

    Parameters
    ----------
    release, target, features, intercept, penalty : as in `ridge`.
    alphas : to choose from; default, a grid around the average variance of a feature.
    generator : for the simulations; default, the same each time.

    Raises
    ------
    ReleaseError : as in `ridge`; or the release has no noise law to simulate.

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
    """One alpha for several targets: the least sum of their errors; see `ridge_alpha`."""
    require_matrix(release)
    truth = Problem.of(release, targets, features, penalty, intercept=intercept)
    if release.noise is None:
        raise NotReleasedError(
            "The noise of this release has no law that can be simulated, so alpha can't be chosen "
            "from it. Give alpha."
        )
    draws = reading_generator(generator)
    entries, crosses = _noise(release, targets, features, draws)
    unseen = UNDETECTED_VARIANCE * math.sqrt(release.lattice.dimension) * entries
    if alphas is None:
        variances = ALPHA_GRID * float(np.trace(truth.gram)) / len(features)
        grid = variances[variances >= min(unseen, variances[-1])]
        grid *= len(features) / max(float(truth.weights.sum()), MIN_DIVISOR)
    else:
        grid = np.asarray(alphas, np.float64)
    risk = _sampling_risk(truth, grid, max(1.0, fewest_rows(release, [*targets, *features])))
    for made in islice(repeated(release, draws), SIMULATED_RELEASES):
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
    release: Release,
    targets: Sequence[int],
    features: Sequence[int],
    generator: np.random.Generator,
) -> tuple[float, Matrix]:
    """The noise per row, encoded.

    Returns
    -------
    The standard deviation of an entry between features, and (s, k, t) draws of those with targets.

    """
    plausible = _of_estimate(release, generator)
    at = np.asarray(features)
    rows = np.concatenate([moved(release, errors)[:, at] for errors in plausible.errors()])
    rows /= max(1.0, release.count())
    entries = rows[:, :, at]
    apart = entries[:, ~np.eye(len(at), dtype=bool)] if len(at) > 1 else entries.ravel()
    return float(np.sqrt(np.mean(apart**2))), rows[:, :, np.asarray(targets)]


def _of_estimate(release: Release, generator: np.random.Generator) -> PlausibleMoments:
    """Errors of what denoising starts from."""
    return PlausibleMoments(
        release, sampling=False, generator=generator, draws=NOISE_DRAWS, alone=True
    )


def _explained(problem: Problem, cross: Matrix, alpha: float) -> float:
    """The sum of c' (C + 2 alpha)^-1 c over the columns c of `cross`."""
    values, vectors = problem.spectrum()
    along = (vectors.T @ cross) ** 2 / np.maximum(values + 2 * alpha, MIN_DIVISOR)[:, None]
    return float(np.sum(along))


def pull_of_mean(release: Release, target: int, generator: np.random.Generator) -> float:
    """By how much to move a target's mean to the midpoint of its bounds, in its units.

    With m the mean from the midpoint and v the variance that the noise gives it, the share v / m^2,
    at most 1 (James and Stein): m^2 - v is what the truth is expected to be.
    """
    moments, t = Moments.of(release), release.intercept()
    away = float(moments.encoded[target])
    plausible = _of_estimate(release, generator)
    errors = np.concatenate([moved(release, errors) for errors in plausible.errors()])
    ratios = (errors[:, target, -1] - away * errors[:, -1, -1] / t) / (t * moments.count)
    variance = float(np.mean(ratios**2))
    share = min(1.0, variance / max(away**2, MIN_DIVISOR))
    return float(-away * share * moments.scales[target])


def squared_errors(truth: Problem, fitted: Problem, alphas: Vector) -> Vector:
    """(a,) mean squared errors, summed over targets, of fits to one matrix under another."""
    solutions = fitted.solutions(alphas)
    moved = (fitted.means - truth.means) @ solutions  # (a, t)
    shift = fitted.target_means - truth.target_means - moved
    return np.sum(truth.losses(solutions) + shift**2, axis=1)


def _sampling_risk(truth: Problem, alphas: Vector, count: float) -> Vector:
    """What the sampling error of n rows adds to the mean squared error of prediction."""
    residual = float(truth.losses(truth.solutions(np.zeros(1))).sum())
    values, _ = truth.spectrum()
    kept = values / np.maximum(values + 2 * alphas[:, None], MIN_DIVISOR)
    return residual * np.sum(kept**2, axis=1) / count
