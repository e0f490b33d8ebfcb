"""Synthetic tables of known covariance, and errors of estimates of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import seeds

Matrix = NDArray[np.float64]

SPREAD = 0.99 + 0.01 * 100  # variance of the contaminated law before scaling


def _normal(generator: np.random.Generator, shape: tuple[int, int]) -> Matrix:
    return generator.standard_normal(shape)


def _student(freedom: float) -> Callable[[np.random.Generator, tuple[int, int]], Matrix]:
    def draw(generator: np.random.Generator, shape: tuple[int, int]) -> Matrix:
        scale = np.sqrt((freedom - 2) / generator.chisquare(freedom, size=(shape[0], 1)))
        return generator.standard_normal(shape) * scale

    return draw


def _contaminated(generator: np.random.Generator, shape: tuple[int, int]) -> Matrix:
    far = np.where(generator.uniform(size=(shape[0], 1)) < 0.01, 10.0, 1.0)
    return generator.standard_normal(shape) * far / np.sqrt(SPREAD)


# Round laws: second moment I, by name.
LAWS = {
    "normal": _normal,
    "t(5)": _student(5),
    "t(3)": _student(3),
    "contaminated": _contaminated,
}


@dataclass(frozen=True)
class Table:
    """(n, d) rows of mean 0 and second moment `sigma`; `round_map` makes them round."""

    rows: Matrix
    sigma: Matrix
    round_map: Matrix

    def errors(self, estimate: Matrix) -> tuple[float, float]:
        """Return the Mahalanobis error and the relative Frobenius error."""
        image = self.round_map @ estimate @ self.round_map.T
        return (
            float(np.linalg.norm(image - np.eye(len(image)))),
            float(np.linalg.norm(estimate - self.sigma) / np.linalg.norm(self.sigma)),
        )

    def plain(self) -> Matrix:
        return self.rows.T @ self.rows / len(self.rows)


def table(law: str, n: int, d: int, condition: float, seed: int) -> Table:
    """Return a randomly rotated matrix with log-spaced eigenvalues in [1/condition, 1]."""
    generator = seeds.generator(seed)
    turn = np.linalg.qr(generator.normal(size=(d, d)))[0]
    deviations = np.geomspace(condition**-0.5, 1, d)
    rows = LAWS[law](generator, (n, d)) * deviations @ turn.T
    return Table(rows, (turn * deviations**2) @ turn.T, (turn / deviations).T)
