"""Orthonormal vectors drawn one after the other, each Bingham on the complement of the former."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcov.papers.samplers.bingham import Bingham
from dpcov.papers.samplers.complement import Complement

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers, Matrix
    from dpcov.core.entropy import Entropy

DRAWS_PER_RESTART = 64


@dataclass(frozen=True, slots=True)
class Frame:
    """Drawn vectors, and how many proposals each took.

    Attributes
    ----------
    vectors : (k, d)
        Orthonormal rows, in the order of the draws.
    proposals : (k,) integers
        For experiments, never for a release: they depend on the matrix.

    """

    vectors: Matrix
    proposals: Integers


def sequential_frame(matrix: Matrix, concentrations: Matrix, entropy: Entropy) -> Frame:
    """Draw theta_i with density proportional to exp(t_i theta' C theta), i = 1, ..., k.

    theta_i is on the unit sphere of the complement of theta_1, ..., theta_(i-1). With t_i = 0 it
    is uniform there; for i = d it is fixed but for its sign. Exact for real numbers, computed in
    float64: eigenvalues are known to about 1e-13 of the largest one. Running time depends on the
    matrix.

    Parameters
    ----------
    matrix : (d, d) floats
        C, symmetric.
    concentrations : (k,) floats, k <= d
        The t_i.
    entropy : Entropy

    Returns
    -------
    Frame
        (k, d) vectors, orthonormal to 1e-10, and (k,) numbers of proposals.

    Raises
    ------
    ValueError
        A number is not finite, or there are more concentrations than dimensions.

    Cost
    ----
    O(d^2) memory. About d^2 multiplications per dimension left and draw, all in matrix products;
    an eigendecomposition every 64 draws keeps rounding from adding up.

    Source
    ------
    Amin, Dick, Kulesza, Munoz and Vassilvitskii 2019, Algorithm 1, step 2; eigenvectors by the
    secular update (`complement`) instead of a decomposition for every draw.

    """
    if not np.isfinite(matrix).all() or not np.isfinite(concentrations).all():
        raise ValueError("the matrix and the concentrations must be finite")
    count, d = len(concentrations), len(matrix)
    if count > d:
        raise ValueError(f"cannot draw {count} orthonormal vectors in {d} dimensions")
    vectors = np.empty((count, d))
    proposals = np.empty(count, np.int64)
    for i, concentration in enumerate(concentrations):
        if i % DRAWS_PER_RESTART == 0:
            complement = Complement(matrix, vectors[:i])
        draw = Bingham(concentration * complement.eigenvalues).sample(entropy)
        vectors[i] = complement.take(draw.vector)
        proposals[i] = draw.proposals
    return Frame(vectors, proposals)
