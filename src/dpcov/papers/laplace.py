"""Independent discrete Laplace noise in every entry: exact pure differential privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from dpcov.core.parameters import Share, ShareOrNone
from dpcov.core.privacy import Guarantee, Neighbors, PureDP, exact
from dpcov.core.samplers.scalars import ScalarLaplace
from dpcov.mechanisms import additive, radius
from dpcov.mechanisms.pure import pure_epsilon
from dpcov.mechanisms.radius import Radius
from dpcov.papers.samplers.entrywise import EntrywiseLaplace

if TYPE_CHECKING:
    from dpcov.core.privacy import Budget
    from dpcov.rows.moment import Lattice

# Ratio of the scale on the diagonal to the scale off the diagonal, under add-remove. Every ratio is
# private. The noise is smallest at the cube root of 2, which is 1.25992.
ADD_REMOVE_SCALE_RATIO = Fraction(63, 50)
# Number of binary digits after the point of a rational square root.
ROOT_FRACTION_BITS = 64


@dataclass(frozen=True, slots=True)
class Laplace(additive.Additive):
    """Second moment plus independent discrete Laplace noise: pure epsilon-DP.

    Guarantee
    ---------
    The release satisfies pure epsilon-DP for every table, under add-remove and under replace-one.
    It protects rows, or persons with at most k rows. The noise is drawn exactly on the integers,
    without floats. With a budget of epsilon and delta, the mechanism spends no delta.

    Sensitivity
    -----------
    Let S be the second moment, the sum of ``w w'`` over the rows w. Let D be the change of S
    between neighbouring tables. The sensitivity is a weighted l1 norm of the upper triangle of D.

    The noise has the scale p on the diagonal and q off the diagonal. The privacy loss is
    ``sum_i |D_ii|/p + sum_(i<j) |D_ij|/q``. Let ``b = k B^2`` (`Lattice.unit_bound`). The change is
    ``D = A - A'``, where A and A' are positive semidefinite with trace at most b.

    **Add-remove.** One of A and A' is 0. The matrix A is then a mixture of matrices ``b v v'`` with
    unit vectors v. The loss of ``b v v'`` is largest if all entries of v have the same size::

        b (1/p + ((sum |v_i|)^2 - 1) / 2q) <= b (1/p + (d-1) / 2q)

    So the scales ``p = (b/epsilon) (1 + r (d-1)/2)`` and ``q = p/r`` are private for any ratio r.
    dpcov uses ``r = 63/50``, because the best ratio is the cube root of 2.

    **Replace-one.** The loss is ``<T, D>``, where the symmetric matrix T has the entries ``+-1/p``
    on the diagonal and ``+-1/2q`` off the diagonal. Let l_max be the largest eigenvalue, and let +
    denote the positive part::

        <T, D> <= b (l_max(T)+ + l_max(-T)+) <= b sqrt(2) ||T||_F
        ||T||_F^2 = d/p^2 + d(d-1)/4q^2

    So ``p = (b/epsilon) sqrt(d (d + 1))`` and ``q = p/sqrt(2)`` are private, both rounded up. For d
    = 1, ``p = b/epsilon``. Over all sign patterns at d = 2 to 5, the loss reaches 0.97 to 1 of
    epsilon.

    **Trace.** One unit changes the trace by at most b. The trace uses the fraction `trace_share` of
    epsilon under both relations. Under replace-one, other mechanisms release the trace at no cost
    (`additive.trace_share`). Here, a free trace would raise the loss to 1.19 epsilon at d = 2.

    **Private radius.** dpcov chooses the radius from counts that change by at most k (2 k under
    replace-one) in l1 norm. `mechanisms.radius` contains the proof. The rest of epsilon pays for
    the second moment. The bounds above hold at any radius that is fixed in advance, so the two
    steps compose adaptively.

    **Constants of the papers.** With `paper_constants`, every entry has the scale
    ``2 d b/epsilon``. This scale is valid but larger than necessary. Equal scales need
    ``b sqrt(d (d + 3) / 2) / epsilon`` under replace-one and ``b (d + 1) / (2 epsilon)`` under
    add-remove.

    Not protected
    -------------
    - The schema, the budget, the order of the matrix and the running time.
    - Under replace-one, the number of rows or persons.

    Parameters
    ----------
    trace_share : float in [0, 1), public
        Fraction of epsilon for the trace.

    paper_constants : bool, public
        True to use the scale of the papers, for comparisons. This scale is up to 4 times too large.

    radius : {"public", "private"}, public
        Clipping radius of the schema, or a radius from noisy counts of rows by norm.

    radius_share : float in (0, 1), public
        Fraction of epsilon for the choice of a private radius.

    Returns
    -------
    Release
        Integers of shape (d, d) in units of 2^shift squared lattice steps, the trace, and the noise
        distribution.

    Raises
    ------
    MechanismError
        The budget is not a pure epsilon, or too small for the noise. The error comes before dpcov
        reads any data.
    SourceError
        There is no space for a private copy of a source that can be read only once. The budget is
        then spent.

    Cost
    ----
    The mechanism reads the data once, or twice with persons. A private radius doubles the number of
    reads. The noise needs ``d (d + 1) / 2`` exact draws, and 21 more for a private radius.

    Source
    ------
    The mechanism comes from Dwork, McSherry, Nissim and Smith 2006. Jiang, Xie and Zhang 2016
    (Lemma 2) and Amin and others 2019 use the scale 2d/epsilon for every entry. The scales, the
    bounds and the discrete noise are new in dpcov.

    Examples
    --------
    >>> from dpcov import Neighbors, PureDP
    >>> from dpcov.mechanisms import Laplace
    >>> from dpcov.rows.moment import Lattice
    >>> lattice = Lattice(features=4, radius=1.0)
    >>> mechanism = Laplace(trace_share=0.0)
    >>> noise = mechanism.calibrate(lattice, PureDP(1.0), Neighbors.ADD_REMOVE).matrix
    >>> float(noise.diagonal / lattice.bound), round(float(noise.off_diagonal / lattice.bound), 3)
    (2.89, 2.294)

    """

    trace_share: ShareOrNone = 0.1
    paper_constants: bool = False
    radius: Radius = "public"
    radius_share: Share = 0.1

    name: ClassVar[str] = "laplace"
    use: ClassVar[str] = "reference: independent noise in every entry; drawn exactly"
    source: ClassVar[str] = (
        "Amin et al. 2019, Jiang et al. 2016, Wang, Huai and Xu 2018 (option "
        "paper_constants); tight scales"
    )

    def calibrate(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> additive.Calibration:
        epsilon = pure_epsilon(self.name, budget)
        guarantee = Guarantee(PureDP(float(epsilon)), Neighbors(neighbors), lattice.unit)
        lattice = radius.grid(self.radius, lattice)
        for_radius = radius.spent(self.radius, self.radius_share, epsilon)
        left = epsilon - for_radius
        share = exact(self.trace_share) if lattice.dimension > 1 else Fraction(0)
        return additive.Calibration(
            guarantee=guarantee,
            matrix=matrix_noise(
                lattice,
                guarantee.neighbors,
                left * (1 - share),
                paper_constants=self.paper_constants,
            ),
            trace=ScalarLaplace(lattice.unit_bound / (share * left)) if share > 0 else None,
            trace_alone=ScalarLaplace(lattice.unit_bound / left),
            counts=radius.laplace_counts(lattice, guarantee.neighbors, for_radius),
        )


def matrix_noise(
    lattice: Lattice, neighbors: Neighbors, epsilon: Fraction, *, paper_constants: bool = False
) -> EntrywiseLaplace:
    """Return the noise that makes the second moment epsilon-DP. `Laplace` contains the proof.

    Parameters
    ----------
    lattice : Lattice
        Lattice of the second moment.
    neighbors : Neighbors
        Relation between tables.
    epsilon : Fraction
        Budget of the second moment.
    paper_constants : bool
        True to use the scale of the papers.

    Returns
    -------
    EntrywiseLaplace
        Noise distribution.

    """
    d, unit = lattice.dimension, lattice.unit_bound / epsilon
    if paper_constants:
        return EntrywiseLaplace(d, 2 * d * unit, 2 * d * unit)
    if d == 1:
        return EntrywiseLaplace(d, unit, unit)
    if neighbors == Neighbors.ADD_REMOVE:
        diagonal = unit * (1 + ADD_REMOVE_SCALE_RATIO * (d - 1) / 2)
        return EntrywiseLaplace(d, diagonal, diagonal / ADD_REMOVE_SCALE_RATIO)
    return EntrywiseLaplace(d, unit * root_above(d * (d + 1)), unit * root_above(d * (d + 1) // 2))


def root_above(integer: int) -> Fraction:
    """Return a rational number above the square root of a positive integer, by at most 2^-64."""
    return Fraction(math.isqrt(integer << 2 * ROOT_FRACTION_BITS) + 1, 1 << ROOT_FRACTION_BITS)
