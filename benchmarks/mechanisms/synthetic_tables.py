"""Simulate tables of extreme shapes that real tables rarely have, from fixed seeds."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]


def _generator(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def _turned(generator: np.random.Generator, n: int, spectrum: Matrix) -> Matrix:
    """Simulate (n, d) normal rows whose covariance has this spectrum and random directions."""
    d = len(spectrum)
    basis = np.linalg.qr(generator.standard_normal((d, d)))[0]
    return (generator.standard_normal((n, d)) * np.sqrt(spectrum)) @ basis.T


def low_rank(n: int = 5000, d: int = 50, rank: int = 3) -> Matrix:
    """Simulate rows in a subspace, except for a thousandth of their variance."""
    spectrum = np.where(np.arange(d) < rank, 1.0, 1e-3 * rank / (d - rank))
    return _turned(_generator("low rank"), n, spectrum)


def flat(n: int, d: int) -> Matrix:
    """Simulate uniform rows on the sphere: only the trace is informative."""
    rows = _generator(f"flat {n} {d}").standard_normal((n, d))
    return rows / np.linalg.norm(rows, axis=1)[:, None]


def spiked(n: int = 5000, d: int = 60) -> Matrix:
    """Simulate two directions with half of the variance above a flat rest."""
    spectrum = np.where(np.arange(d) < 2, 0.25, 0.5 / (d - 2))
    spectrum[0] = 0.35
    return _turned(_generator("spiked"), n, spectrum)


def power_law(n: int, d: int, power: float) -> Matrix:
    """Simulate rows with eigenvalues j^-power."""
    generator = _generator(f"power law {n} {d} {power}")
    return _turned(generator, n, np.arange(1.0, d + 1) ** -power)


def heavy_tails(n: int = 10_000, d: int = 20) -> Matrix:
    """Simulate Student's t with 3 degrees of freedom, one scale for each row, spectrum 1/j."""
    generator = _generator("heavy tails")
    rows = _turned(generator, n, 1 / np.arange(1.0, d + 1))
    return rows * np.sqrt(3 / generator.chisquare(3, n))[:, None]


def zipf_norms(n: int = 10_000, d: int = 30) -> Matrix:
    """Simulate rows with norms rank^-1/2 in all directions."""
    generator = _generator("zipf norms")
    rows = _turned(generator, n, 1 / np.arange(1.0, d + 1))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    return rows * np.arange(1.0, n + 1)[:, None] ** -0.5


def one_hot(n: int = 10_000, levels: tuple[int, ...] = (2, 3, 5, 10, 15, 25)) -> Matrix:
    """Simulate six categorical columns, each depending on the column before; frequencies 1/j."""
    generator = _generator("one-hot")
    blocks, before = [], np.zeros(n, np.int64)
    for count in levels:
        weights = 1 / np.arange(1.0, count + 1)
        drawn = generator.choice(count, n, p=weights / weights.sum())
        follows = generator.random(n) < 0.5
        drawn = np.where(follows, before % count, drawn)
        blocks.append(np.eye(count)[drawn])
        before = drawn
    return np.hstack(blocks)


def sparse_binary(n: int = 5000, d: int = 200) -> Matrix:
    """Simulate 0/1 columns in 10 overlapping topics, with ones in 2% of the rows on average."""
    generator = _generator("sparse binary")
    rates = 0.02 * generator.exponential(size=(10, d))
    topics = generator.integers(10, size=n)
    return (generator.random((n, d)) < np.minimum(rates[topics], 0.9)).astype(float)


TABLES: dict[str, Callable[[], Matrix]] = {
    "tiny, 30 x 8": lambda: power_law(30, 8, 1.0),
    "flat, 10,000 x 30": lambda: flat(10_000, 30),
    "power law 2, 5,000 x 30": lambda: power_law(5000, 30, 2.0),
    "heavy tails, 10,000 x 20": heavy_tails,
    "zipf norms, 10,000 x 30": zipf_norms,
    "low rank, 5,000 x 50": low_rank,
    "spiked, 5,000 x 60": spiked,
    "one-hot, 10,000 x 60": one_hot,
    "flat, 2,000 x 100": lambda: flat(2000, 100),
    "tiny and wide, 50 x 100": lambda: power_law(50, 100, 1.0),
    "power law 1, 20,000 x 100": lambda: power_law(20_000, 100, 1.0),
    "sparse binary, 5,000 x 200": sparse_binary,
    "power law 1, 20,000 x 300": lambda: power_law(20_000, 300, 1.0),
}
