"""The PCA of OpenDP, if it is installed with its extra scikit-learn; it can't be seeded."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from peer_methods.interface import Peer

if TYPE_CHECKING:
    from peer_methods.interface import Generator, Matrix

WIDE = 14  # with more columns, its rejection sampling takes minutes


def components(rows: Matrix, count: int, epsilon: float, generator: Generator) -> Matrix:
    """Return the directions of its PCA for one changed row; it also estimates the means."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "floating-point", "idealized-numerics", "honest-but-curious")
    n, p = rows.shape
    model = dp.sklearn.decomposition.PCA(
        epsilon=epsilon, row_norm=math.sqrt(p), n_samples=n, n_features=p, n_components=count
    )
    return np.asarray(model.fit(rows.copy()).components_)


INSTALLED = find_spec("opendp") and find_spec("sklearn") and find_spec("randomgen")
PEERS = (
    [Peer("OpenDP PCA", "epsilon", components=components, most_columns=WIDE)] if INSTALLED else []
)
