"""Draws of categories, each conditional on the categories that are drawn before it.

The probabilities of the levels of a column are the linear regression of its 0/1 features on the
earlier columns, limited to [0, 1]. The probabilities are then scaled until their averages are the
released shares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers, Matrix, Vector

MAX_SCALINGS = 50  # Largest number of scalings of the probabilities.
MIN_CHANCE = 1e-9  # Smallest probability before the scalings. Source: not recorded.
MAX_RELATIVE_ERROR = 1e-5  # Relative error of an average probability that needs no further scaling.


def scaled_to_shares(chances: Matrix, shares: Vector) -> Matrix:
    """Scale probabilities until their averages are given shares.

    Parameters
    ----------
    chances : ndarray, shape (m, l)
        Estimated probabilities of l outcomes for each row. They can be outside [0, 1].

    shares : ndarray, shape (l,)
        Share of each outcome. The shares add up to 1.

    Returns
    -------
    ndarray, shape (m, l)
        Probabilities. Each row adds up to 1.

    """
    chances = np.clip(chances, MIN_CHANCE, 1.0)
    factors = np.ones(len(shares))
    for _ in range(MAX_SCALINGS):
        sums = chances @ factors
        averages = factors * ((1 / sums) @ chances) / len(chances)
        ratios = shares / np.maximum(averages, 1e-300)
        factors *= ratios
        if np.abs(ratios - 1).max() < MAX_RELATIVE_ERROR:
            break
    chances = chances * factors
    return chances / chances.sum(axis=1, keepdims=True)


def drawn_levels(chances: Matrix, uniform: Vector) -> Integers:
    """Return an outcome for each row from its probabilities, shape (m, l), and a random number."""
    drawn = (chances.cumsum(axis=1) < uniform[:, None]).sum(axis=1)
    return np.minimum(drawn, chances.shape[1] - 1)
