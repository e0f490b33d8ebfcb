"""Means, principal components and regression of diffprivlib, if it is installed.

diffprivlib 0.6.6 needs scikit-learn below 1.7. It runs as published.
"""

from __future__ import annotations

import math
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from peer_methods.interface import Peer

if TYPE_CHECKING:
    from collections.abc import Callable

    from peer_methods.interface import Generator, Matrix, Vector

BOUNDS = (-1.0, 1.0)
WIDE = 14  # with more columns, regressions of each column take minutes


def _quietly(work: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn, about signatures
        return work()


def _seed(generator: Generator) -> int:
    return int(generator.integers(2**31))


def means(rows: Matrix, epsilon: float, generator: Generator) -> Vector:
    """Return its means of all columns."""
    from diffprivlib.tools import mean

    seed = _seed(generator)
    found = _quietly(lambda: mean(rows, epsilon, BOUNDS, axis=0, random_state=seed))
    return np.asarray(found)


def components(rows: Matrix, count: int, epsilon: float, generator: Generator) -> Matrix:
    """Return the directions of its PCA; half of epsilon is for the means."""
    from diffprivlib.models import PCA

    norm = math.sqrt(rows.shape[1])
    model = PCA(
        count, epsilon=epsilon, data_norm=norm, bounds=BOUNDS, random_state=_seed(generator)
    )
    return np.asarray(_quietly(lambda: model.fit(rows.copy()).components_))


def regression(features: Matrix, target: Vector, epsilon: float, generator: Generator) -> Vector:
    """Return the coefficients of its LinearRegression (the functional mechanism)."""
    from diffprivlib.models import LinearRegression

    model = LinearRegression(
        epsilon=epsilon, bounds_X=BOUNDS, bounds_y=BOUNDS, random_state=_seed(generator)
    )
    fitted = _quietly(lambda: model.fit(features.copy(), target.copy()))
    return np.concatenate([np.ravel(fitted.intercept_)[:1], np.ravel(fitted.coef_)])


PEERS = (
    [
        Peer(
            "diffprivlib",
            "epsilon",
            means=means,
            components=components,
            regression=regression,
            most_columns=WIDE,
        )
    ]
    if find_spec("diffprivlib")
    else []
)
