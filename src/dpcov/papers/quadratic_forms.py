"""Quadratic forms of the exact second moment, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Matrix
    from dpcov.rows.moment import SecondMoment

LIMB_BITS = 20


def quadratic_forms(moment: SecondMoment, vectors: Matrix) -> list[int]:
    """floor(v'Cv) for the rows v of a (k, d) matrix with |v| <= 1, C the integers of the moment.

    Exact for v truncated to multiples of 2^-40, so that no float error depends on the data.
    Products of 20-bit limbs are summed by BLAS, where every partial sum is an integer below
    2^53 for d <= 4096.
    """
    fixed = np.ldexp(vectors, 2 * LIMB_BITS).astype(np.int64).T.astype(object)
    wholes = _limbs(fixed)
    image = sum(
        ((limb @ whole).astype(np.int64).astype(object) << LIMB_BITS * (i + j))
        for i, limb in enumerate(_limbs(moment.units))
        for j, whole in enumerate(wholes)
    )
    return [int(form) >> 4 * LIMB_BITS for form in (fixed * image).sum(axis=0)]


def _limbs(integers: NDArray[np.object_]) -> list[Matrix]:
    """Integer-valued floats m_i, |m_i| < 2^20, with sum_i m_i 2^(20 i) the integers."""
    signs, rest = np.where(integers < 0, -1.0, 1.0), abs(integers)
    limbs: list[Matrix] = []
    while not limbs or np.any(rest):
        limbs.append(signs * (rest % 2**LIMB_BITS).astype(np.float64))
        rest = rest >> LIMB_BITS
    return limbs
