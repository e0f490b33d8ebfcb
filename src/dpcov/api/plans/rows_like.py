"""Simulated rows with the moments of an earlier release, for plans of a similar table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpcov.api.plans.level_draws import LevelDraws
from dpcov.estimate import Estimate
from dpcov.published.pseudo_rows import pseudo_rows

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.releases import Release
    from dpcov.rows.schema import Schema

# Unexplained fraction of a column's variance up to which the categories count as explaining the
# whole variance. Source: not recorded.
MAX_ROUNDING_SHARE = 1e-6
# Smallest fraction of cells that are not missing, so that no number is divided by 0.
MIN_PRESENT_SHARE = 1e-3


def moments_like(release: Release, schema: Schema) -> tuple[Vector, Matrix]:
    """Return the mean and the covariance of a release in the encoding of a schema.

    Parameters
    ----------
    release : Release
        Release with all features of the schema.

    schema : Schema
        Schema whose bounds define the encoding.

    Returns
    -------
    mean : ndarray, shape (q,)
        Means of the variables.

    covariance : ndarray, shape (q, q)
        Covariance matrix of the variables.

    """
    estimate = Estimate.of(release)
    at, centers, ratios = _places(release, schema)
    means = centers + estimate.encoded[at] * ratios
    return means, estimate.covariance[np.ix_(at, at)] * np.outer(ratios, ratios)


def rows_like(
    release: Release, schema: Schema, count: int, generator: np.random.Generator
) -> Matrix:
    """Simulate encoded rows that have about the moments of a release.

    Each indicator is 0 or 1, each flag is -1 or 1, each row has one category of a column, and a
    missing number is 0. The function draws the categories and then the flags, one column after
    another (`LevelDraws`). A number is the sum of its regression on these columns and of a residual
    from `pseudo_rows`.

    Parameters
    ----------
    release : Release
        Release with all features of the schema.

    schema : Schema
        Schema whose bounds define the encoding.

    count : int
        Number of rows.

    generator : numpy.random.Generator
        Source of random numbers.

    Returns
    -------
    ndarray, shape (count, q)
        Variables of the encoded rows.

    """
    features = schema.variables
    positions, centers, ratios = _places(release, schema)
    levels, flags, numbers = _parts(schema)
    rows = np.empty((count, len(features)))
    means, covariance = moments_like(release, schema)
    draws = LevelDraws(release, count, generator)
    for here in levels.values():
        at = [positions[j] for j in here]
        rows[:, here] = draws.draw(at)
        draws.add(at, rows[:, here])
    for j in flags:
        absent, extent = rows[:, levels.get(features[j].column, [])].any(axis=1), 1.0
        if schema.encoded_columns[features[j].column].missing == "midpoint":
            extent = _present_share(means[j], covariance[j, j])
            absent = generator.random(count) > extent
        # If a fraction `extent` of the cells is -1 or 1, the mean is between -extent and extent.
        low, high = (np.array([-extent, extent]) - centers[j]) / ratios[j]
        ones = draws.draw([positions[j]], low, high)[:, 0]
        rows[:, j] = np.where(absent, 0.0, np.where(ones, 1.0, -1.0))
        draws.add([positions[j]], (rows[:, [j]] - centers[j]) / ratios[j])
    if not numbers:
        return rows
    given, left = draws.regression([positions[j] for j in numbers])
    given = centers[numbers] + given * ratios[numbers]
    left *= np.outer(ratios[numbers], ratios[numbers])
    # If the categories and flags determine a number, its residual is a rounding error.
    determined = np.diag(left) <= MAX_ROUNDING_SHARE * np.diag(covariance)[numbers]
    left[determined] = left[:, determined] = 0.0
    means, lowest = means[numbers], np.full(len(numbers), -1.0)
    about = pseudo_rows(means, left, lowest, count, generator)
    for k, j in enumerate(numbers):
        absent = rows[:, levels.get(features[j].column, [])].any(axis=1)
        # Missing cells do not vary, so the other cells get a larger variance.
        about[:, k] /= np.sqrt(max(1 - absent.mean(), 1 / count))
        rows[:, j] = np.where(absent, 0.0, np.clip(given[:, k] + about[:, k], -1.0, 1.0))
    if len(numbers) == len(features) == len(release.columns):
        rows = np.clip(centers + _as_long(release, (rows - centers) / ratios) * ratios, -1.0, 1.0)
    return rows


def _parts(schema: Schema) -> tuple[dict[str, list[int]], list[int], list[int]]:
    """Return the positions of the indicators of each column, of the flags, and of the numbers."""
    levels: dict[str, list[int]] = {}
    flags: list[int] = []
    numbers: list[int] = []
    for j, feature in enumerate(schema.variables):
        if feature.is_indicator:
            levels.setdefault(feature.column, []).append(j)
        elif schema.is_binary(feature) and not schema.person_means:
            flags.append(j)
        else:  # if a row is the mean of a person's rows, a flag is a fraction
            numbers.append(j)
    return levels, flags, numbers


def _present_share(mean: float, variance: float) -> float:
    """Return the fraction of the cells of a flag that are not missing.

    A missing cell is encoded as 0 and all other cells as -1 or 1, so the fraction is the mean
    square of the flag.
    """
    return float(np.clip(variance + mean**2, MIN_PRESENT_SHARE, 1.0))


def _as_long(release: Release, rows: Matrix) -> Matrix:
    """Return rows whose norms follow the norm histogram of the release.

    The rows, shape (m, p), have the encoding of the release. The order of the norms stays the same.
    The function returns the rows unchanged if the release has no detectable norm histogram
    (`Release.lengths`). It also does so if the histogram includes missingness indicators.
    """
    lengths, matrix = release.lengths, release.linear_map
    if (
        lengths is None
        or lengths.below_noise_level
        or matrix is None
        or len(matrix) != rows.shape[1]
    ):
        return rows
    center = np.zeros(rows.shape[1]) if release.center is None else release.center
    about = rows - center
    found = np.linalg.norm(about @ matrix.T, axis=1)
    wanted = np.sqrt(lengths.squared_norm_quantiles(len(rows)))[found.argsort().argsort()]
    return np.asarray(center + about * (wanted / np.maximum(found, 1e-300))[:, None])


def _places(release: Release, schema: Schema) -> tuple[list[int], Vector, Vector]:
    """Return where the features of a schema are in a release, and how to encode them again.

    The function returns positions, centers c and ratios r, each of shape (p,). The encoded value x
    of the release becomes c + r x in the encoding of the schema.
    """
    positions = [release.columns.index(feature.name) for feature in schema.variables]
    pairs = [(release.schema.variables[at], schema.variables[j]) for j, at in enumerate(positions)]
    centers = [(there.center - here.center) / here.scale for there, here in pairs]
    ratios = [there.scale / here.scale for there, here in pairs]
    return positions, np.array(centers), np.array(ratios)
