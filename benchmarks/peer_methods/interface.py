"""The form that every peer has, also a peer from a folder of yours (`PEERS=FOLDER`).

A module of peers has a list `PEERS`. Rows are scaled by declared bounds into [-1, 1]; p is the
number of columns and k the number of features. A peer answers one or more tasks:

- `matrix(rows, budget, generator)` returns means (p,) and a covariance (p, p);
- `means(rows, budget, generator)` returns means (p,);
- `components(rows, count, budget, generator)` returns unit directions (count, p);
- `regression(features, target, budget, generator)` returns an intercept and weights (k + 1,).

`budget` is an epsilon for a peer of kind `epsilon` (pure differential privacy, replace-one, the
number of rows is public). It is a rho for a peer of kind `rho` (zCDP, add-remove). A peer that
can't answer raises `NoAnswer`, which counts as a failure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]
    Generator = np.random.Generator

Kind = Literal["epsilon", "rho"]


class NoAnswer(Exception):  # noqa: N818 (an outcome, not a mistake)
    """A method has no answer for these rows and this budget."""


@dataclass(frozen=True)
class Peer:
    """A method with the tasks that it answers; see the module."""

    name: str
    kind: Kind
    matrix: Callable[[Matrix, float, Generator], tuple[Vector, Matrix]] | None = None
    means: Callable[[Matrix, float, Generator], Vector] | None = None
    components: Callable[[Matrix, int, float, Generator], Matrix] | None = None
    regression: Callable[[Matrix, Vector, float, Generator], Vector] | None = None
    most_columns: float = math.inf  # with more columns, one release takes minutes
    releases: int = 10  # number for each table and budget


def with_intercept(features: Matrix) -> Matrix:
    """Return (n, k + 1) features after a column of ones."""
    return np.column_stack([np.ones(len(features)), features])
