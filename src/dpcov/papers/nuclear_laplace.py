"""Nuclear-Laplace noise: the smallest noise of exact pure DP for moderate orders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from dpcov.core.parameters import Share, ShareOrNone
from dpcov.mechanisms import additive, radius
from dpcov.mechanisms.pure import nuclear_calibration, pure_epsilon, pure_guarantee
from dpcov.mechanisms.radius import Radius
from dpcov.papers.samplers.nuclear import NuclearLaplace as SymmetricLaw
from dpcov.papers.samplers.nuclear import SquareNuclearLaplace as SquareLaw

if TYPE_CHECKING:
    from dpcov.core.privacy import Budget, Neighbors
    from dpcov.rows.moment import Lattice

# Noise distribution of each form.
FORMS: dict[str, type[SymmetricLaw] | type[SquareLaw]] = {
    "symmetric": SymmetricLaw,
    "square": SquareLaw,
}


@dataclass(frozen=True, slots=True)
class NuclearLaplace(additive.Additive):
    """Second moment plus noise with density ``exp(-||Z||_* / scale)``: pure epsilon-DP.

    The norm ``||Z||_*`` is the nuclear norm, the sum of the absolute eigenvalues.

    Guarantee
    ---------
    The release satisfies pure epsilon-DP for every table, under add-remove and under replace-one.
    It protects rows, or persons with at most k rows. With a budget of epsilon and delta, the
    mechanism spends no delta. The noise is drawn exactly and never by a Markov chain. dpcov refuses
    orders for which an exact draw is impossible.

    Sensitivity
    -----------
    Let D be the change of the second moment between neighbouring tables. Its nuclear norm is at
    most ``k B^2`` under add-remove and ``2 k B^2`` under replace-one. These bounds are tight
    (`Lattice.nuclear`).

    By the triangle inequality, the density changes by a factor of at most ``exp(||D||_* / scale)``.
    The scale is therefore the nuclear sensitivity divided by epsilon, rounded up. In the square
    form, the noise is not symmetric. Averaging the noisy matrix with its transpose is
    post-processing.

    The trace is released too. Under replace-one the trace costs nothing (`additive.trace_share`
    contains the proof). Under add-remove it costs the fraction `trace_share` of epsilon.

    dpcov chooses a private radius from counts that change by at most k (2 k under replace-one) in
    l1 norm. `mechanisms.radius` contains the proof. The rest of epsilon pays for the second moment.
    The bounds above hold at any radius that is fixed in advance, so the two steps compose
    adaptively.

    Not protected
    -------------
    - The schema, the budget, the order of the matrix and the running time.
    - Under replace-one, the number of rows or persons.
    - Floating-point effects. The noise is continuous. Its eigenvalues are accurate to 2^-48, and
      its eigenvectors are floats. The published lattice has a step of 2^-10 of the noise, which
      hides the low bits.

    Parameters
    ----------
    form : {"symmetric", "square"}, public
        Noise on symmetric matrices, or the noise of the paper on all square matrices. The square
        noise is 1.4 times as large.

    trace_share : float in [0, 1), public
        Fraction of epsilon for the trace under add-remove.

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
        The budget is not a pure epsilon, the budget is too small for the noise, or the order is too
        large. The error comes before dpcov reads any data.
    SourceError
        There is no space for a private copy of a source that can be read only once. The budget is
        then spent.

    Cost
    ----
    The mechanism reads the data once, or twice with persons. A private radius doubles the number of
    reads. The noise takes milliseconds up to d = 7, and seconds up to d = 50, which is the limit.

    Source
    ------
    The source is Algorithm 1 of d'Orsi and Novikov, "On purely private covariance estimation".
    Their Algorithm 2 is this mechanism with denoising by projection. They do not state how the two
    steps of Algorithm 2 split epsilon.

    The symmetric form and both exact samplers are new in dpcov (see `samplers.nuclear`). The
    samplers use rejection from differences of Wishart matrices, and Pfaffians. The mechanism is a
    K-norm mechanism (Hardt and Talwar 2010).

    Examples
    --------
    >>> from dpcov import Neighbors, PureDP
    >>> from dpcov.mechanisms import NuclearLaplace
    >>> from dpcov.rows.moment import Lattice
    >>> lattice = Lattice(features=4, radius=1.0)
    >>> mechanism = NuclearLaplace(trace_share=0.0)
    >>> noise = mechanism.calibrate(lattice, PureDP(1.0), Neighbors.ADD_REMOVE).matrix
    >>> noise.scale / lattice.bound
    1.0

    """

    form: Literal["symmetric", "square"] = "symmetric"
    trace_share: ShareOrNone = 0.1
    radius: Radius = "public"
    radius_share: Share = 0.1

    name: ClassVar[str] = "nuclear-laplace"
    use: ClassVar[str] = "least noise for pure privacy in one sum; possible up to 50 features"
    source: ClassVar[str] = (
        "d'Orsi and Novikov 2025, Algorithm 1; symmetric form and exact samplers: dpcov"
    )

    def calibrate(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> additive.Calibration:
        epsilon = pure_epsilon(self.name, budget)
        lattice = radius.grid(self.radius, lattice)
        for_radius = radius.spent(self.radius, self.radius_share, epsilon)
        law = FORMS[self.form]
        guarantee = pure_guarantee(lattice, epsilon, neighbors)
        return nuclear_calibration(
            lattice, guarantee, epsilon - for_radius, self.trace_share, law, for_radius
        )
