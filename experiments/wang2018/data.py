"""The five tables of the slides, as far as the slides define them, with row norms of at most 1."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import datasets
import seeds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

SYNTHETIC_FEATURES = 50
SYNTHETIC_ROWS = 1000  # times r
EDGE_SHARE = 0.05
GENES = 100


@dataclass(frozen=True)
class Table:
    """A data set; `moment` is the slides' S = 1/n sum x x'."""

    name: str
    rows: Matrix

    @property
    def n(self) -> int:
        return len(self.rows)

    @property
    def d(self) -> int:
        return self.rows.shape[1]

    @property
    def moment(self) -> Matrix:
        return self.rows.T @ self.rows / self.n


def tables() -> list[Table]:
    """Return synthetic tables of three sizes, colon if it exists here, and Parkinson's."""
    made = {f"synthetic r = {r:g}": partial(synthetic, r) for r in (0.5, 1.0, 1.5)}
    read = {"colon": partial(datasets.colon, GENES), "Parkinson's": parkinsons}
    return [Table(name, scaled(rows())) for name, rows in datasets.here(made | read).items()]


def scaled(rows: Matrix) -> Matrix:
    """Divide columns by their largest size, then rows by the largest norm; this is not private."""
    return datasets.rows_over_largest_norm(rows / np.abs(rows).max(axis=0))


def synthetic(r: float) -> Matrix:
    """Draw 1000 r normal rows; 5% of the entries of their precision matrix are not zero."""
    generator = seeds.generator(2018)
    upper = np.triu(generator.random((SYNTHETIC_FEATURES, SYNTHETIC_FEATURES)) < EDGE_SHARE, 1)
    signs = generator.choice([-0.5, 0.5], upper.shape)
    precision = upper * signs + (upper * signs).T
    np.fill_diagonal(precision, np.abs(precision).sum(axis=1) + 0.5)
    root = np.linalg.cholesky(np.linalg.inv(precision))
    return generator.standard_normal((int(SYNTHETIC_ROWS * r), SYNTHETIC_FEATURES)) @ root.T


def parkinsons() -> Matrix:
    """Return 195 recordings with 22 voice measures and the status."""
    return datasets.parkinsons(status=True)
