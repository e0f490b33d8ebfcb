"""Rows that moments by length of rows lose when they are put together, along leading directions.

A combination gives each part one weight, for all of its directions. So it loses a part whose noise
drowns it, as that of the longest rows often does: the noise of d^2 entries hides a few rows. Others
get weights above 1 instead, and with them the lost trace has the directions of their rows. But rows
tend to be long along the directions that lead, and a block of three of them has the noise of nine
entries. What a lost part shows there beyond what stands for it is shrunk by itself and given back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy

from dpcov.denoise.projection import compose
from dpcov.denoise.rungs import unsure
from dpcov.denoise.shrinkage import james_stein

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcov.core.arrays import Matrix, Vector
    from dpcov.core.samplers import MatrixLaw
    from dpcov.denoise.rungs import Combined

MOST = 3  # directions
CLEAR = 2.0  # eigenvalue, over the detectable one, from which a direction is taken for a true one
DROWNED = 0.8  # weight below which a part is taken for lost


def given_back(
    shrunk: Matrix,
    found: Combined,
    parts: Matrix,
    laws: Sequence[MatrixLaw],
    *,
    mapped: bool,
) -> Matrix:
    """The estimate with what the combination lost along its leading directions.

    Parameters
    ----------
    shrunk : (d, d) estimate of the second moment, from the combination `found`.
    parts, laws : (K, d, d) noisy moments, by descending length of rows, and laws of their noise.
    mapped : whether a look has made rows of like length.

    Returns
    -------
    (d, d) positive semidefinite matrix.

    """
    weights = np.array(found.law.weights)
    lost = np.where(weights < DROWNED, 1 - weights, 0.0)
    if not lost.any():
        return shrunk
    d = len(shrunk)
    values, vectors = scipy.linalg.eigh(shrunk, subset_by_index=(max(0, d - MOST), d - 1))
    clear = values >= CLEAR * found.law.detectable
    if not clear.any():
        return shrunk
    values, basis = values[clear], vectors[:, clear]
    seen = basis.T @ parts @ basis
    instead = np.tensordot(np.where(lost > 0, 0.0, weights - 1), seen, 1)
    trace = float(lost @ found.traces)
    of_trace = found.traces / trace if trace > 0 else np.zeros_like(lost)
    shares = of_trace[:, None, None] * instead
    beyond = seen - shares
    noises = np.sqrt([noise_within(law, len(values)) for law in laws])
    norms = np.linalg.norm(beyond, axis=(1, 2))
    kept = np.where(lost > 0, james_stein(norms, noises) / np.maximum(norms, noises), 1.0)
    of_shares, of_beyond = (np.trace(each, axis1=1, axis2=2) for each in (shares, beyond))
    deviations = np.sqrt([len(values) * law.diagonal_variance for law in laws])
    _hold_back(kept, of_shares, of_beyond, deviations, mapped)
    sizes, axes = np.linalg.eigh(np.diag(values) + np.tensordot(kept * lost, beyond, 1))
    restored = compose(basis @ axes, np.maximum(sizes, 0.0))
    return shrunk - compose(basis, values) + restored


def noise_within(law: MatrixLaw, r: int) -> float:
    """Expected squared norm of r rows and columns of the noise, in any basis if all are alike."""
    d, diagonal = law.dimension, law.diagonal_variance
    other = (law.frobenius_squared - d * diagonal) / (d * (d - 1)) if d > 1 else 0.0
    return r * diagonal + r * (r - 1) * other


def _hold_back(
    kept: Vector, shares: Vector, beyond: Vector, deviations: Vector, mapped: bool
) -> None:
    """Set to 0 what is kept of long rows that may be noise: it grows with length.

    They are longer than the rows that show most, and not sure. Of mapped rows, that are of like
    length, only where there would be more of them than of the next shorter.
    """
    for at in unsure((shares + beyond) / deviations):
        here, shorter = (shares + kept * beyond)[at : at + 2]
        if not mapped or here > max(0.0, shorter):
            kept[at] = 0.0
