"""Exact quadratic forms of the exact second moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Matrix
    from dpcov.rows.moment import SecondMoment

# Number of bits of each part (limb) of a long integer.
FORM_LIMB_BITS = 20


def quadratic_forms(moment: SecondMoment, vectors: Matrix) -> list[int]:
    """Compute the integer part of ``v' C v`` for each vector v, rounded down.

    The matrix C contains the integers of the second moment. The function first truncates v to
    multiples of 2^-40. The result for the truncated vector is exact, so no float error depends on
    the data.

    The function splits integers into parts of 20 bits and sums their products in float64. For d up
    to 4096, every partial sum is an integer below 2^53 and therefore exact.

    Parameters
    ----------
    moment : SecondMoment
        Exact second moment, of order d.
    vectors : ndarray of float, shape (k, d)
        Vectors of norm at most 1, one in each row.

    Returns
    -------
    list of int, length k
        Quadratic forms.

    """
    fixed = np.ldexp(vectors, 2 * FORM_LIMB_BITS).astype(np.int64).T.astype(object)
    wholes = _limbs(fixed)
    image = sum(
        ((limb @ whole).astype(np.int64).astype(object) << FORM_LIMB_BITS * (i + j))
        for i, limb in enumerate(_limbs(moment.units))
        for j, whole in enumerate(wholes)
    )
    return [int(form) >> 4 * FORM_LIMB_BITS for form in (fixed * image).sum(axis=0)]


def _limbs(integers: NDArray[np.object_]) -> list[Matrix]:
    """Split integers into float arrays ``m_i`` with integer entries below 2^20 in size.

    The sum of ``m_i 2^(20 i)`` equals the integers.
    """
    signs, rest = np.where(integers < 0, -1.0, 1.0), abs(integers)
    limbs: list[Matrix] = []
    while not limbs or np.any(rest):
        limbs.append(signs * (rest % 2**FORM_LIMB_BITS).astype(np.float64))
        rest = rest >> FORM_LIMB_BITS
    return limbs
