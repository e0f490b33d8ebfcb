"""A public affine map on encoded rows, applied exactly in integers (docs/proofs/release.md 2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpcov.core.arrays import Integers, Matrix

FINE_UNITS = 2**40  # grid of the features under a linear map: two limbs of 20 bits
LARGEST_HALVINGS = 200  # of a feature's cap and step


def longest_image(
    matrix: Matrix,
    center: Matrix | None,
    radius: float,
    exclusive: Iterable[Sequence[int]] = (),
) -> float:
    """What |A (z - c)| can't exceed, for features z in [-1, 1] with |z| at most `radius`.

    Of the features at each of the `exclusive` positions, at most one is above 0, and none below.
    """
    center = np.zeros(matrix.shape[1]) if center is None else center
    of_cube = np.linalg.norm(np.abs(matrix) @ (1 + np.abs(center)))
    of_ball = np.linalg.norm(matrix, 2) * (radius + np.linalg.norm(center))
    units = np.diag(matrix)
    if np.any(matrix != np.diag(units)):
        return float(min(of_cube, of_ball))
    squares = (units * (1 + np.abs(center))) ** 2
    for at in exclusive:  # the furthest of 0 and the unit vectors, as lengths are convex
        of_none = (units[at] * center[at]) ** 2
        of_one = (units[at] * (1 - center[at])) ** 2 - of_none
        squares[at] = 0.0
        squares[at[0]] = of_none.sum() + max(0.0, of_one.max())
    return float(min(of_cube, of_ball, np.sqrt(squares.sum())))


@dataclass(frozen=True)
class LinearMap:
    """A public map z -> A (z - c) on encoded rows, in the integers in which it is applied.

    Feature j less its `center` is first capped at 2^-halvings[j] and taken in as much finer steps.
    Row i of the map of features in these units is ``integers[i] * 2^-shifts[i]``: rounded so that
    products with 20-bit limbs sum exactly in float64.
    """

    integers: Matrix
    shifts: Integers
    halvings: Integers
    center: Matrix
    units: Matrix | None = field(init=False)  # the diagonal, where there is nothing else

    def __post_init__(self) -> None:
        units = np.diag(self.integers)
        plain = np.array_equal(self.integers, np.diag(units))
        object.__setattr__(self, "units", units if plain else None)

    @classmethod
    def rounded(
        cls,
        matrix: Matrix,
        halvings: Integers | None = None,
        center: Matrix | None = None,
    ) -> LinearMap:
        """The nearest map that can be applied exactly; relative error about 2^(log2 d - 32)."""
        matrix = np.asarray(matrix, dtype=np.float64)
        if matrix.ndim != 2 or not np.isfinite(matrix).all():
            raise ValueError("a linear map must be a finite (outputs, features) matrix")
        if halvings is None:
            halvings = np.zeros(matrix.shape[1], np.int64)
        if center is None:
            center = np.zeros(matrix.shape[1])
        scaled = np.ldexp(matrix, -halvings)
        bits = 53 - 21 - max(1, int(np.ceil(np.log2(matrix.shape[1]))))
        largest = np.abs(scaled).max(axis=1)
        exponents = np.where(largest > 0, np.frexp(largest)[1], 0).astype(np.int64)
        shifts = bits - exponents
        return cls(np.rint(np.ldexp(scaled, shifts[:, None])), shifts, halvings, center)

    @classmethod
    def focused(cls, matrix: Matrix, reach: float, center: Matrix | None = None) -> LinearMap:
        """Square `matrix`, capping features that only rows mapped beyond `reach` have.

        z - c = A^-1 y has |z_j - c_j| <= ||(A^-1)_j|| |y|. So rows far smaller than their bounds
        keep their digits, and of a row that is capped no more is lost than a clip at `reach` takes.
        """
        try:
            with np.errstate(all="ignore"):
                largest = reach * np.linalg.norm(np.linalg.inv(matrix), axis=1)
        except np.linalg.LinAlgError:
            largest = np.ones(len(matrix))
        exponents = np.frexp(np.where(np.isfinite(largest), largest, 1.0))[1].astype(np.int64)
        least = 0 if center is None else -1  # |z_j - c_j| may be 2
        return cls.rounded(matrix, np.clip(-exponents, least, LARGEST_HALVINGS), center)

    def matrix(self) -> Matrix:
        """The map that is applied, as floats: (outputs, features)."""
        return np.ldexp(self.integers, self.halvings - self.shifts[:, None])

    def apply(self, fine: Matrix) -> Matrix:
        """Image of (d, m) integers |z| <= 2^40, in units of 2^-40: exact sums, one rounding.

        Feature j of `fine` is in units of 2^-(40 + halvings[j]).
        """
        high = np.floor(fine * 2.0**-20)
        low = fine - high * 2.0**20
        times = np.matmul if self.units is None else np.multiply
        factor = self.integers if self.units is None else self.units[:, None]
        image = times(factor, high) * 2.0**20 + times(factor, low)
        return np.ldexp(image, -self.shifts[:, None])
