"""Run peers that release a whole matrix on the tables of `benchmark_tables`.

The peers are the papers' algorithms (`paper_methods`) and entrywise noise, under add/remove. The
rows are centred at the midpoints of their bounds, in units of half-ranges. An intercept makes
means and counts available too. The module corrects impossible values: means are moved into their
bounds, and eigenvalues into the range from 0 to the largest value that the bounds allow.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from mechanism_tables import PreparedTable
from paper_methods import (
    by_hand,
    clipped,
    epsilon_of,
    peers,
    rho_of,
    vector_gaussian,
    vector_laplace,
)

from accuracy import RememberedRows
from benchmark_tables import table_named
from dpcov.core.privacy import ZCDP, Neighbors, PureDP
from dpcov.errors import DpcovError
from dpcov.rows.schema import FileOptions, Schema
from dpcov.rows.sources import open_source

if TYPE_CHECKING:
    from methods import Estimate, Method
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

ENTRYWISE = "entrywise"  # put right, GaussCov and what OpenDP has are no other
PURE = (
    "Laplace 2d (Jiang et al. 2016)",
    "AD (Amin et al. 2019)",
    "IT-U (Amin et al. 2019; diffprivlib)",
    "KT (Kapralov and Talwar 2013)",
    "PPCA (Chaudhuri et al. 2012)",
    "d'Orsi and Novikov 2025",
    "SeparateLapCov (Dong et al. 2022)",
    "AdaptiveLapCov (Dong et al. 2022)",
)
RHO = (
    "SeparateCov (Dong et al. 2022)",
    "AdaptiveCov (Dong et al. 2022)",
    "CoinPress, corrected (Biswas et al. 2020)",
)
# With the kinds of budget that they take; Wishart noise spends a delta.
PEERS = {
    ENTRYWISE: ("epsilon", "rho"),
    **dict.fromkeys(PURE, ("epsilon",)),
    **dict.fromkeys(RHO, ("rho",)),
}
BY_HAND = {
    "epsilon": by_hand(vector_laplace, epsilon_of, last=False),
    "rho": by_hand(vector_gaussian, rho_of, last=False),
}


@cache
def prepared_named(name: str) -> PreparedTable:
    table = table_named(name)
    schema = Schema.parse(table.declared())
    source = RememberedRows(schema, open_source(table.frame, FileOptions(), ()), threads=1)
    return PreparedTable(name, "benchmark", source, source)


def answer(method: str, table: str, asked: dict[str, Any]) -> Any:
    """Return a method's count, means and covariance in the data's units, or a word if none exist.

    `entrywise` adds noise to the entries on and above the diagonal of the second moment. The rows
    have an intercept, so sums and the count get noise too. The noise is Laplace (by the l1
    sensitivity) if the budget is pure, and otherwise Gaussian (by the l2 sensitivity).
    """
    prepared, (kind, size) = prepared_named(table), next(iter(asked.items()))
    budget = PureDP(size) if kind == "epsilon" else ZCDP(size)
    if method != ENTRYWISE and not field_of_peers()[method].enters(prepared):
        return "takes too long"
    try:
        moment = estimate_of(method, kind)(prepared, budget, Neighbors.ADD_REMOVE, asked["seed"])
    except DpcovError as error:
        return type(error).__name__
    lattice, features = prepared.source.lattice(), prepared.source.schema.variables
    count, means, covariance = answer_of(
        moment, lattice.intercept_units * lattice.step, lattice.radius
    )
    centers = np.array([feature.center for feature in features])
    scales = np.array([feature.scale for feature in features])
    return count, centers + scales * means, covariance * np.outer(scales, scales)


def estimate_of(method: str, kind: str) -> Estimate:
    """Return the function of a peer that estimates the second moment."""
    return BY_HAND[kind] if method == ENTRYWISE else field_of_peers()[method].estimate


@cache
def field_of_peers() -> dict[str, Method]:
    return {peer.name: peer for peer in peers()}


def answer_of(moment: Matrix, intercept: float, radius: float) -> tuple[float, Matrix, Matrix]:
    """Count, means and covariance, from a second moment of rows with this intercept last."""
    count = max(1.0, moment[-1, -1] / intercept**2)
    means = np.clip(moment[:-1, -1] / (count * intercept), -1, 1)
    about = moment[:-1, :-1] / count - np.outer(means, means)
    return count, means, clipped(about, radius**2)
