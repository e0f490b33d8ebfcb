"""Sensitivities: Lemma 2, the Laplace scale of Theorem 3, and the nuclear norm of Theorem 4."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import seeds
from claims import Finding

BATCH = 1 << 14


def largest_loss(d: int, off_diagonal: float) -> float:
    """Return the largest weighted l1 norm of D = vv' - uu' over v and u in the unit ball.

    The norm is sum_i |D_ii| + 2 `off_diagonal` sum_(i<j) |D_ij|. It is the largest <T, D> over
    matrices T with T_ii = S_ii and T_ij = `off_diagonal` S_ij, where S is a sign matrix. The
    difference v'Tv - u'Tu is at most max(l_max, 0) - min(l_min, 0) of T's eigenvalues. The
    eigenvectors reach this bound.
    """
    rows, columns = np.triu_indices(d)
    weights = np.where(rows == columns, 1.0, off_diagonal)
    best = 0.0
    signs = itertools.product((1.0, -1.0), repeat=len(rows) - 1)
    while batch := list(itertools.islice(signs, BATCH)):
        matrices = np.empty((len(batch), d, d))
        entries = weights * np.column_stack([np.ones(len(batch)), batch])
        matrices[:, rows, columns] = matrices[:, columns, rows] = entries
        values = np.linalg.eigvalsh(matrices)
        spread = np.maximum(values[:, -1], 0) - np.minimum(values[:, 0], 0)
        best = max(best, float(spread.max()))
    return best


def nuclear_norms(generator: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Return ||vv' - uu'||_* for pairs of vectors in the unit ball, half of them of norm 1."""
    found = []
    for d in (2, 3, 5, 20):
        pairs = generator.standard_normal((count, 2, d))
        pairs /= np.linalg.norm(pairs, axis=2, keepdims=True)
        pairs[count // 2 :] *= generator.uniform(size=(count - count // 2, 2, 1))
        v, u = pairs[:, 0], pairs[:, 1]
        change = v[:, :, None] * v[:, None, :] - u[:, :, None] * u[:, None, :]
        found.append(np.abs(np.linalg.eigvalsh(change)).sum(axis=1))
    return np.concatenate(found)


def findings(small: bool, folder: Path) -> dict[str, Finding]:
    orders = range(2, 5 if small else 6)
    full = {d: largest_loss(d, 1.0) for d in orders}
    triangle = {d: largest_loss(d, 0.5) for d in orders}
    norms = nuclear_norms(seeds.generator(20160003), 2_000)
    orthogonal = np.zeros((3, 3))
    orthogonal[0, 0], orthogonal[1, 1] = 1.0, -1.0
    largest = max(float(norms.max()), float(np.linalg.norm(orthogonal, "nuc")))
    return {
        "lemma2": Finding(
            f"n s_1 = {', '.join(f'{s:.4f} (d = {d})' for d, s in full.items())}, brute force over "
            f"all sign matrices; {', '.join(f'{s / d:.3f}' for d, s in full.items())} times d, "
            f"never above sqrt(2) d",
            all(d < s < 2 * d for d, s in full.items()),
        ),
        "theorem3": Finding(
            f"l1 change of the noised triangle, times n: "
            f"{', '.join(f'{s:.4f} (d = {d})' for d, s in triangle.items())}: the scale 2d is "
            f"{', '.join(f'{2 * d / s:.2f}' for d, s in triangle.items())} times what is needed",
            all(s <= 2 * d for d, s in triangle.items()),
        ),
        "nuclear": Finding(
            f"largest of {len(norms)} random pairs and the orthogonal one {largest:.4f}; exactly 2 "
            f"= 2 sqrt(1 - (u'v)^2) at u'v = 0, so 3 is 1.5 times too large",
            largest <= 3,
        ),
    }
