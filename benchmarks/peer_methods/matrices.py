"""Whole matrices: entrywise noise and the papers' algorithms, as `whole_matrix` runs them."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from mechanism_tables import PreparedTable
from methods import WIDE
from paper_methods import PAPER_SAMPLING

from accuracy import RememberedRows
from dpcov.core.privacy import ZCDP, Neighbors, PureDP
from dpcov.errors import DpcovError
from dpcov.rows.schema import Schema
from dpcov.rows.sources.array import ArraySource
from peer_methods.interface import NoAnswer, Peer
from whole_matrix import ENTRYWISE, PURE, RHO, answer_of, estimate_of

if TYPE_CHECKING:
    from peer_methods.interface import Generator, Matrix, Vector

SLOW = ("d'Orsi and Novikov 2025",)


def matrix(
    rows: Matrix, size: float, generator: Generator, *, method: str, kind: str
) -> tuple[Vector, Matrix]:
    """Run a method on rows with an intercept, and return means and covariance."""
    names = tuple(f"x{j}" for j in range(rows.shape[1]))
    source = RememberedRows(
        Schema.from_bounds(-1.0, 1.0, names), ArraySource(rows, names), threads=1
    )
    prepared = PreparedTable("rows", "benchmark", source, source)
    budget = PureDP(size) if kind == "epsilon" else ZCDP(size)
    relation = Neighbors.REPLACE_ONE if kind == "epsilon" else Neighbors.ADD_REMOVE
    try:
        moment = estimate_of(method, kind)(
            prepared, budget, relation, int(generator.integers(2**31))
        )
    except DpcovError as error:
        raise NoAnswer(type(error).__name__) from error
    lattice = source.lattice()
    _, means, covariance = answer_of(moment, lattice.intercept_units * lattice.step, lattice.radius)
    return means, np.asarray(covariance)


PEERS = [
    Peer(
        method,
        kind,
        matrix=partial(matrix, method=method, kind=kind),
        # Rows have an intercept too.
        most_columns=WIDE - 1 if method in PAPER_SAMPLING else math.inf,
    )
    for kind, methods in (("epsilon", (ENTRYWISE, *PURE)), ("rho", (ENTRYWISE, *RHO)))
    for method in methods
    if method not in SLOW
]
