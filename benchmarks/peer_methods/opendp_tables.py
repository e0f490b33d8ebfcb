"""Synthetic tables by AIM and MST (McKenna, Miklau and Sheldon), if `opendp[mbi]` is installed.

Columns are cut into equal bins of their declared bounds. Means and covariances come from the
pairwise tables of the fitted model, at the midpoints of the bins. OpenDP can't be seeded.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from peer_methods.interface import NoAnswer, Peer

if TYPE_CHECKING:
    from peer_methods.interface import Generator, Matrix, Vector

BINS = 16
WIDE = 10  # with more columns, a release takes minutes


def matrix(
    rows: Matrix, rho: float, generator: Generator, *, algorithm: str
) -> tuple[Vector, Matrix]:
    """Fit a model by one release, and return its means and covariance."""
    import opendp.prelude as dp
    import polars as pl
    from opendp.mod import OpenDPException

    dp.enable_features("contrib")
    names = [f"x{j}" for j in range(rows.shape[1])]
    edges = np.linspace(-1, 1, BINS + 1)
    context = dp.Context.compositor(
        data=pl.DataFrame(rows, schema=names).lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
    )
    query = context.query(rho=rho).select(*names)
    cuts = {name: edges[1:-1].tolist() for name in names}
    query = query.contingency_table(cuts=cuts, algorithm=getattr(dp.mbi, algorithm)())
    try:
        table = query.release()
    except OpenDPException as error:  # its rounding of the shares can exceed the budget
        raise NoAnswer("OpenDP refuses") from error
    return moments(table, names, (edges[:-1] + edges[1:]) / 2)


def moments(table: Any, names: list[str], middles: Vector) -> tuple[Vector, Matrix]:
    """Return means and covariance of a fitted model with these values of the bins."""
    single = [np.asarray(table.project(name), float) for name in names]
    shares = [counts / counts.sum() for counts in single]
    means = np.array([share @ middles for share in shares])
    covariance = np.diag([share @ middles**2 for share in shares]) - np.diag(means**2)
    for i, j in combinations(range(len(names)), 2):
        pair = np.asarray(table.project((names[i], names[j])), float)
        product = middles @ (pair / pair.sum()) @ middles
        covariance[i, j] = covariance[j, i] = product - means[i] * means[j]
    return means, covariance


PEERS = (
    [
        Peer(
            f"{name} (OpenDP)",
            "rho",
            matrix=partial(matrix, algorithm=name),
            most_columns=WIDE,
            releases=1,  # of 50 seconds
        )
        for name in ("AIM", "MST")
    ]
    if find_spec("opendp") and find_spec("mbi")
    else []
)
