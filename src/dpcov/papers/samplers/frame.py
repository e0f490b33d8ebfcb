"""Orthonormal random vectors, drawn one by one from Bingham distributions.

Each vector is orthogonal to all earlier vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcov.papers.samplers.bingham import Bingham
from dpcov.papers.samplers.complement import Complement

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers, Matrix
    from dpcov.core.entropy import Entropy

# Number of draws between two eigendecompositions, which remove rounding errors.
DRAWS_PER_RESTART = 64


@dataclass(frozen=True, slots=True)
class Frame:
    """Drawn vectors, with the number of proposals of each vector.

    Attributes
    ----------
    vectors : ndarray of float, shape (k, d)
        Orthonormal rows, in the order of the draws.
    proposals : ndarray of int, shape (k,)
        Number of proposals. Use it for experiments only and never for a release, because it depends
        on the matrix.

    """

    vectors: Matrix
    proposals: Integers


def sequential_frame(matrix: Matrix, concentrations: Matrix, entropy: Entropy) -> Frame:
    """Draw orthonormal vectors ``theta_1, ..., theta_k`` one by one.

    The density of ``theta_i`` is proportional to ``exp(t_i theta' C theta)`` on the unit sphere
    that is orthogonal to all earlier vectors. With ``t_i = 0``, the distribution is uniform. For
    ``i = d``, the vector is fixed apart from its sign.

    The draw is exact for real numbers and is computed in float64. Eigenvalues are accurate to about
    1e-13 of the largest eigenvalue. The running time depends on the matrix.

    Parameters
    ----------
    matrix : ndarray of float, shape (d, d)
        Symmetric matrix C.
    concentrations : ndarray of float, shape (k,)
        Concentrations ``t_i``, with k at most d.
    entropy : Entropy
        Source of random bits.

    Returns
    -------
    Frame
        Vectors that are orthonormal to 1e-10, with the numbers of proposals.

    Raises
    ------
    ValueError
        A number is not finite, or there are more concentrations than dimensions.

    Cost
    ----
    The memory is of order d^2. Each draw takes about d^2 multiplications for every remaining
    dimension, in matrix products. An eigendecomposition after every 64 draws prevents the
    accumulation of rounding errors.

    Source
    ------
    The source is Algorithm 1, step 2, of Amin, Dick, Kulesza, Munoz and Vassilvitskii 2019. The
    eigenvectors come from a secular update (`complement`) and not from a decomposition for every
    draw.

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
