"""Entry-wise Laplace noise on the integers: exact pure differential privacy."""

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

# Scale on the diagonal over that off it under add/remove. Any ratio is private; the least noise is
# at the cube root of 2, 1.25992.
ADD_REMOVE_RATIO = Fraction(63, 50)
ROOT_BITS = 64


@dataclass(frozen=True, slots=True)
class Laplace(additive.Additive):
    r"""Second moment plus independent discrete Laplace noise: pure epsilon-DP.

    Guarantee
    ---------
    Pure epsilon-DP, for every input, under add/remove or replace-one, for rows or for persons with
    at most k rows. Drawn exactly on the integers: no float enters. Stated an (epsilon, delta)
    budget, it spends no delta.

    Sensitivity
    -----------
    Weighted l1 norm of the upper triangle of the change D of S = sum w w'. With scales p on and q
    off the diagonal the loss is sum_i |D_ii|/p + sum_(i<j) |D_ij|/q. Let b = k B^2
    (`Lattice.unit_bound`) and D = A - A', A and A' positive semidefinite of trace at most b.

    Add/remove (A or A' is 0): A is a mixture of b v v' with unit v, whose loss is
    b (1/p + ((sum |v_i|)^2 - 1) / 2q) <= b (1/p + (d-1) / 2q), reached where all |v_i| are equal.
    So p = (b/epsilon) (1 + r (d-1)/2) and q = p/r, for any ratio r; here r = 63/50, next to the
    best, the cube root of 2.

    Replace-one: the loss is <T, D> with T the symmetric matrix that has +-1/p on and +-1/2q off
    the diagonal, so it is at most b (l_max(T)+ + l_max(-T)+) <= b sqrt(2) ||T||_F, and
    ||T||_F^2 = d/p^2 + d(d-1)/4q^2. So p = (b/epsilon) sqrt(d(d+1)), q = p/sqrt(2), both rounded
    up; over all sign patterns at d = 2 to 5 the loss reaches .97 to 1 of epsilon. For d = 1,
    p = b/epsilon.

    The trace changes by at most b. It is released beside the matrix for the share `trace_share` of
    epsilon under both relations: free under replace-one as for nuclear and Frobenius norms
    (`additive.trace_share`), it would raise the loss to 1.19 epsilon (found at d = 2).

    A private radius is chosen from counts that change by at most k (2 k under replace-one) in l1;
    `mechanisms.radius` has the proof. The rest of epsilon goes to the moment, which changes by the
    above at any radius fixed in advance, so the two compose adaptively.

    `paper_constants` puts 2 d b/epsilon on every entry. It is valid: equal scales need
    b sqrt(d(d+3)/2) / epsilon under replace-one by the above, b (d+1) / 2 epsilon under add/remove.

    Not protected
    -------------
    Schema, budget, order of the matrix, running time; the number of rows (of persons) under
    replace-one.

    Parameters
    ----------
    trace_share : float in [0, 1), public
        Share of epsilon for the trace.
    radius : ``public`` or ``private``, public
        The schema's radius, or one chosen from noisy counts of rows by their norm.
    radius_share : float in (0, 1), public
        Share of epsilon for the choice of a private radius.
    paper_constants : bool, public
        Use the scale of the papers, up to 4 times too large, for comparison.

    Returns
    -------
    Release
        (d, d) integers in units of 2^shift squared lattice steps, the trace, and the noise law.

    Raises
    ------
    MechanismError
        The budget is no pure one, or too small for the noise. Before anything is read.
    SourceError
        What can be read only once finds no room for a private copy. The budget is spent.

    Cost
    ----
    One pass over the data (two with persons), twice as many with a private radius; d(d+1)/2 exact
    draws, and 21 for a private radius.

    Source
    ------
    Dwork, McSherry, Nissim and Smith 2006 for the mechanism. Jiang, Xie and Zhang 2016 (Lemma 2)
    and Amin et al. 2019 use 2d/epsilon on every entry; the weights and the bounds are dpcov's
    (dpcov), and so is the discrete law in place of the continuous one.

    Examples
    --------
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
    """Noise that makes the second moment epsilon-DP; `Laplace` has the proof."""
    d, unit = lattice.dimension, lattice.unit_bound / epsilon
    if paper_constants:
        return EntrywiseLaplace(d, 2 * d * unit, 2 * d * unit)
    if d == 1:
        return EntrywiseLaplace(d, unit, unit)
    if neighbors == Neighbors.ADD_REMOVE:
        diagonal = unit * (1 + ADD_REMOVE_RATIO * (d - 1) / 2)
        return EntrywiseLaplace(d, diagonal, diagonal / ADD_REMOVE_RATIO)
    return EntrywiseLaplace(d, unit * root_above(d * (d + 1)), unit * root_above(d * (d + 1) // 2))


def root_above(integer: int) -> Fraction:
    """A rational above the square root of a positive integer, by at most 2^-64."""
    return Fraction(math.isqrt(integer << 2 * ROOT_BITS) + 1, 1 << ROOT_BITS)
