"""Rows with the moments of a release, for plans of a table like the one that it is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.moments import Moments
from dpcov.analysis.pseudo_rows import pseudo_rows
from dpcov.analysis.synthetic import Sampler

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.releases import Release
    from dpcov.rows.schema import Schema

DETERMINED = 1e-6  # share of a number's variance, up to which levels are taken to explain all


def moments_like(release: Release, schema: Schema) -> tuple[Vector, Matrix]:
    """Mean and covariance of the variables of encoded rows of `schema`, as of the release."""
    moments = Moments.of(release)
    at, centers, ratios = _places(release, schema)
    means = centers + moments.encoded[at] * ratios
    return means, moments.covariance[np.ix_(at, at)] * np.outer(ratios, ratios)


def rows_like(
    release: Release, schema: Schema, count: int, generator: np.random.Generator
) -> Matrix:
    """(count, p) variables of encoded rows of `schema` with about the moments of the release.

    Indicators are 0 or 1, a row has one level of a column, and a missing number is 0, as denoising
    takes for granted: levels are drawn as `sample` draws them, with less luck, since mechanisms map
    rows by how rare a level is; numbers are their regression on the levels and `pseudo_rows` of
    what is left.
    """
    features = schema.variables
    positions, centers, ratios = _places(release, schema)
    numbers = [j for j, feature in enumerate(features) if not feature.is_indicator]
    levels: dict[str, list[int]] = {}
    for j, feature in enumerate(features):
        if feature.is_indicator:
            levels.setdefault(feature.column, []).append(j)
    rows = np.empty((count, len(features)))
    sampler = Sampler(release, count, generator)
    for here in levels.values():
        sampler.draw_levels([positions[j] for j in here], rest=True, even=True)
        rows[:, here] = sampler.drawn[:, -len(here) :]
    if not numbers:
        return rows
    given, left = sampler.regression([positions[j] for j in numbers])
    given = centers[numbers] + given * ratios[numbers]
    left *= np.outer(ratios[numbers], ratios[numbers])
    means, covariance = moments_like(release, schema)
    # Rounding in a number that levels determine would predict others.
    determined = np.diag(left) <= DETERMINED * np.diag(covariance)[numbers]
    left[determined] = left[:, determined] = 0.0
    means, lowest = means[numbers], np.full(len(numbers), -1.0)
    about = pseudo_rows(means, left, lowest, count, generator)
    for k, j in enumerate(numbers):
        absent = rows[:, levels.get(features[j].column, [])].any(axis=1)
        # What is missing does not vary, so the others must vary more.
        about[:, k] /= np.sqrt(max(1 - absent.mean(), 1 / count))
        rows[:, j] = np.where(absent, 0.0, np.clip(given[:, k] + about[:, k], -1.0, 1.0))
    if len(numbers) == len(features) == len(release.columns):
        rows = np.clip(centers + _as_long(release, (rows - centers) / ratios) * ratios, -1.0, 1.0)
    return rows


def _as_long(release: Release, rows: Matrix) -> Matrix:
    """(m, p) rows in the release's encoding, about its center as long as it counted its own.

    The longest stays the longest. Where it has no counts (`Release.lengths`), or they are of rows
    with marks of missing cells, rows stay as they are.
    """
    lengths, matrix = release.lengths, release.linear_map
    if lengths is None or lengths.hidden or matrix is None or len(matrix) != rows.shape[1]:
        return rows
    center = np.zeros(rows.shape[1]) if release.center is None else release.center
    about = rows - center
    found = np.linalg.norm(about @ matrix.T, axis=1)
    wanted = np.sqrt(lengths.like(len(rows)))[found.argsort().argsort()]
    return np.asarray(center + about * (wanted / np.maximum(found, 1e-300))[:, None])


def _places(release: Release, schema: Schema) -> tuple[list[int], Vector, Vector]:
    """Where the features of `schema` are in the release, and what encodes them anew.

    That is (p,) positions, and (p,) c and r: x encoded there is c + r x here.
    """
    positions = [release.columns.index(feature.name) for feature in schema.variables]
    pairs = [(release.schema.variables[at], schema.variables[j]) for j, at in enumerate(positions)]
    centers = [(there.center - here.center) / here.scale for there, here in pairs]
    ratios = [there.scale / here.scale for there, here in pairs]
    return positions, np.array(centers), np.array(ratios)
