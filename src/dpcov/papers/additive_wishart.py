"""Wishart noise with the smallest degrees of freedom that (epsilon, delta)-DP needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import chdtr, chdtrc

from dpcov.core.parameters import ShareOrNone
from dpcov.core.privacy import ApproxDP, Guarantee, Neighbors, exact
from dpcov.core.samplers.scalars import ScalarLaplace
from dpcov.errors import MechanismError
from dpcov.mechanisms import additive
from dpcov.papers.samplers.additive_wishart import CenteredWishart

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcov.core.arrays import Matrix
    from dpcov.core.privacy import Budget
    from dpcov.rows.moment import Lattice

    Floats = Matrix
    Curve = Callable[[Floats, Floats, float], Floats]

# Assumed relative error of a chi-square tail probability in float64.
TAIL_RELATIVE_ERROR = 1e-9
# Largest degrees of freedom of the chi-square distribution. The noise is Gaussian beyond.
MAX_FREEDOM = 2**16
# Fractions of epsilon for the first of the two steps of replace-one, shape (33,).
EPSILON_SPLITS = np.linspace(0, 1, 33)


@dataclass(frozen=True, slots=True)
class AdditiveWishart(additive.Additive):
    """Second moment plus one centred Wishart matrix: (epsilon, delta)-DP by the exact curve.

    This mechanism is for comparisons with the literature. The noise decreases with the degrees of
    freedom m. The limit is the noise of `gaussian`, so `gaussian` always adds less noise.

    Guarantee
    ---------
    The release satisfies (epsilon, delta)-DP for every table, under add-remove and under
    replace-one. It protects rows, or persons with at most k rows. For persons, the guarantee uses
    group privacy, so the noise grows faster than k.

    Sensitivity
    -----------
    **Add-remove.** One row adds ``B^2 v v'`` to the second moment, where the norm of v is at most
    1. Let W be a Wishart matrix ``Wishart_d(m, c I)``, in units of B^2. The mechanism must hide the
    difference between W and ``W + s v v'`` for ``0 <= s <= 1``.

    The ratio of the two densities is ``e^(s/2c) (1 - s/x)^((k-2)/2)``. It depends on one number
    only, ``x = 1 / (v' W^-1 v)``. The number x has the distribution ``c chi^2_k`` with
    ``k = m - d + 1``. The row changes x to ``x + s`` (Sherman and Morrison).

    For ``k >= 2`` the density of x is log-concave, so the best tests compare x with a threshold.
    The privacy loss grows with s. The two directions, `removal_delta` and `addition_delta`, are
    exact.

    **Replace-one.** The proof compares ``W + u u'`` and ``W + v v'`` with W. Let
    ``e1 + e2 = epsilon``. For every event E and the second distribution Q::

        P(E) <= e^e1 W(E) + addition(e1)
        W(E) <= e^e2 Q(E) + removal(e2)

    Hence ``delta <= addition(e1) + e^e1 removal(e2)``. This bound is valid but not tight.

    **Persons.** The k rows of a person are k steps. Each step is (epsilon / k, delta')-DP with
    ``delta' = delta (e^(epsilon/k) - 1) / (e^epsilon - 1)``.

    **Trace.** Laplace noise hides the trace, with the fraction `trace_share` of epsilon.

    Not protected
    -------------
    - The schema, the budget, the order of the matrix and the running time.
    - Under replace-one, the number of rows or persons.
    - Floating-point effects. The proof assumes real-valued noise, but the sampler uses float64. The
      published lattice has a step of 2^-10 of the noise, which hides the low bits.

    Parameters
    ----------
    trace_share : float in [0, 1), public
        Fraction of epsilon for the trace.
    degrees : int above d + 1, optional, public
        Degrees of freedom m. By default, dpcov uses the degrees with the smallest noise, with
        ``m - d < 2^16``.

    Returns
    -------
    Release
        Integers of shape (d, d) in units of 2^shift squared lattice steps, the trace, and the noise
        distribution.

    Raises
    ------
    MechanismError
        The budget has no delta, or is too small for the noise. The error comes before dpcov reads
        any data.

    Cost
    ----
    The mechanism reads the data once, or twice with persons. The noise takes a time of order d^3
    for any m.

    Source
    ------
    The source is Sheffet 2015, "Private approximations of the 2nd-moment matrix using existing
    techniques in linear regression" (arXiv:1507.00056). The code of that paper uses
    ``m = d + 28 ln(4/delta) / epsilon^2`` at ``c = 1``. At (1, 1e-6), the exact curve needs 42
    degrees instead of 426.

    Jiang, Xie and Zhang 2016 omit a factor of 2. Their mechanism violates (4, 1e-6)-DP: the true
    delta is 2.6e-5. The exact curve is new in dpcov.

    Examples
    --------
    >>> from dpcov import ApproxDP, Neighbors
    >>> from dpcov.mechanisms import AdditiveWishart
    >>> from dpcov.rows.moment import Lattice
    >>> lattice, budget = Lattice(features=20, radius=1.0), ApproxDP(1.0, 1e-6)
    >>> mechanism = AdditiveWishart(trace_share=0.0, degrees=62)
    >>> noise = mechanism.calibrate(lattice, budget, Neighbors.ADD_REMOVE).matrix
    >>> round(noise.scale / lattice.bound, 3)
    0.996

    """

    trace_share: ShareOrNone = 0.05
    degrees: int | None = None

    name: ClassVar[str] = "additive-wishart"
    use: ClassVar[str] = "reference: one Wishart matrix, by its exact curve"
    source: ClassVar[str] = "Sheffet 2019"

    def calibrate(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> additive.Calibration:
        if not isinstance(budget, ApproxDP):
            raise MechanismError(
                f"{self.name} is calibrated by epsilon and delta. Give both, or choose "
                "matrix-laplace for epsilon alone, gaussian for rho."
            )
        neighbors, epsilon, d = Neighbors(neighbors), exact(budget.epsilon), lattice.dimension
        share = exact(self.trace_share) if d > 1 else Fraction(0)
        step = ApproxDP(float(epsilon * (1 - share)) * (1 - 1e-12), budget.delta)
        scale, degrees = self._least_noise(d, one_of(step, lattice.unit.max_rows), neighbors)
        bound = Fraction(lattice.bound)
        return additive.Calibration(
            guarantee=Guarantee(budget, neighbors, lattice.unit),
            matrix=CenteredWishart(d, degrees, min(float(bound) * scale, 2.0**90)),
            trace=ScalarLaplace(lattice.unit_bound / (share * epsilon)) if share else None,
            trace_alone=ScalarLaplace(lattice.unit_bound / epsilon),
        )

    def _least_noise(self, d: int, step: ApproxDP, neighbors: Neighbors) -> tuple[float, int]:
        """Return the scale c (in units of B^2) and the degrees of freedom m of the smallest noise.

        The noise is measured by ``c sqrt(m)``.
        """
        curve = replacement_delta if neighbors == Neighbors.REPLACE_ONE and d > 1 else row_delta
        if self.degrees is None:
            freedoms = np.unique(np.geomspace(3, MAX_FREEDOM, 97).astype(np.int64))
        elif 3 <= self.degrees - d + 1 <= MAX_FREEDOM:
            freedoms = np.array([self.degrees - d + 1])
        else:
            raise MechanismError(f"degrees must lie in {d + 2}..{d + MAX_FREEDOM - 1}.")
        scales = least_scales(curve, freedoms.astype(np.float64), step.epsilon, step.delta)
        degrees = freedoms + d - 1
        best = int(np.argmin(scales * np.sqrt(degrees)))
        return float(scales[best]) * (1 + 2.0**-40), int(degrees[best])


def one_of(budget: ApproxDP, rows: int) -> ApproxDP:
    """Return the budget of each of several steps that together satisfy a budget.

    The function uses group privacy. If each of k steps is (e, d)-DP, the first and the last
    distribution satisfy::

        P0(E) <= e^(k e) Pk(E) + d (1 + e^e + ... + e^((k-1) e))

    Parameters
    ----------
    budget : ApproxDP
        Total budget.
    rows : int
        Number k of steps.

    Returns
    -------
    ApproxDP
        Budget of each step.

    Raises
    ------
    MechanismError
        The delta of a step is too small for float64.

    """
    if rows == 1:
        return budget
    epsilon = budget.epsilon / rows
    log = math.log(-math.expm1(-epsilon)) - math.log(-math.expm1(-budget.epsilon))
    delta = budget.delta * math.exp(log + epsilon - budget.epsilon)
    if delta < 1e-290:
        raise MechanismError("No usable noise protects persons with so many rows.")
    return ApproxDP(epsilon, delta * (1 - TAIL_RELATIVE_ERROR))


def least_scales(curve: Curve, freedoms: Floats, epsilon: float, delta: float) -> Floats:
    """Return the smallest scales c that satisfy (epsilon, delta)-DP, rounded up.

    A larger scale makes the shift of x smaller relative to its distribution, so delta decreases
    with c. The function uses bisection.

    Parameters
    ----------
    curve : callable
        Function from scales, degrees of freedom and epsilon to delta.
    freedoms : ndarray of float, shape (n,)
        Degrees of freedom of the chi-square distribution.
    epsilon, delta : float
        Budget.

    Returns
    -------
    ndarray of float, shape (n,)
        Smallest scale for each degree, or infinity.

    Raises
    ------
    MechanismError
        No degree has a usable scale.

    """
    low, high = np.full(len(freedoms), -60.0), np.full(len(freedoms), 120.0)
    for _ in range(60):
        middle = (low + high) / 2
        keeps = curve(2.0**middle, freedoms, epsilon) <= delta
        low, high = np.where(keeps, low, middle), np.where(keeps, middle, high)
    kept = curve(2.0**high, freedoms, epsilon) <= delta
    scales: Floats = np.where(kept, 2.0**high, np.inf)
    if not kept.any():
        raise MechanismError("The privacy budget is too small for the noise. Use a larger one.")
    return scales


def removal_delta(
    scale: Floats | float, freedom: Floats | float, epsilon: Floats | float
) -> Floats:
    """Return delta of the test that a row was removed, rounded up.

    Without the row, the statistic x has the distribution ``c chi^2_k``. With the row, the statistic
    is ``x + 1``. The best test rejects if ``x <= x*``. At x*, the log-density ratio equals epsilon.
    A value ``x <= 1`` is impossible with the row, so x* is at least 1.

    Parameters
    ----------
    scale : float or ndarray
        Scale c.
    freedom : float or ndarray
        Degrees of freedom k.
    epsilon : float or ndarray
        Epsilon of the guarantee.

    Returns
    -------
    ndarray of float
        Delta.

    """
    p = (np.asarray(freedom, dtype=np.float64) - 2) / 2
    bound = -np.expm1(-(epsilon + 1 / (2 * np.asarray(scale))) / p)
    at = np.maximum(1.0, 1 / bound)
    return _difference(chdtr(freedom, at / scale), chdtr(freedom, (at - 1) / scale), epsilon)


def addition_delta(
    scale: Floats | float, freedom: Floats | float, epsilon: Floats | float
) -> Floats:
    """Return delta of the test that a row was added, rounded up.

    The privacy loss is ``1/2c - ((k - 2) / 2) ln(1 + 1/x)``, which is at most ``1/2c``. The best
    test rejects if ``x >= x*``.

    Parameters
    ----------
    scale : float or ndarray
        Scale c.
    freedom : float or ndarray
        Degrees of freedom k.
    epsilon : float or ndarray
        Epsilon of the guarantee.

    Returns
    -------
    ndarray of float
        Delta.

    """
    p = (np.asarray(freedom, dtype=np.float64) - 2) / 2
    room = np.maximum(1 / (2 * np.asarray(scale)) - epsilon, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        at = 1 / np.expm1(room / p)
    return _difference(chdtrc(freedom, at / scale), chdtrc(freedom, (at + 1) / scale), epsilon)


def _difference(first: Floats, second: Floats, epsilon: Floats | float) -> Floats:
    """Return the positive part of ``first - e^epsilon second``, rounded up."""
    with np.errstate(divide="ignore"):
        second = np.exp(np.minimum(epsilon + np.log(second), 0.0))
    return np.maximum(first - second, 0.0) + TAIL_RELATIVE_ERROR * (first + second)


def row_delta(scale: Floats | float, freedom: Floats | float, epsilon: float) -> Floats:
    """Return delta for one row of full norm under add-remove.

    The value is exact apart from rounding up.
    """
    return np.maximum(
        removal_delta(scale, freedom, epsilon), addition_delta(scale, freedom, epsilon)
    )


def replacement_delta(scale: Floats | float, freedom: Floats | float, epsilon: float) -> Floats:
    """Return an upper bound on delta for one row under replace-one.

    The bound first removes one row and then adds the other row.
    """
    scale, freedom = (np.asarray(x, dtype=np.float64)[..., None] for x in (scale, freedom))
    whole = np.minimum(epsilon, 1 / (2 * scale))  # here the first step needs no delta
    splits = np.broadcast_to(EPSILON_SPLITS * epsilon, (*whole.shape[:-1], len(EPSILON_SPLITS)))
    first = np.concatenate([splits, whole], axis=-1)
    found = addition_delta(scale, freedom, first)
    found += np.exp(first) * removal_delta(scale, freedom, epsilon - first)
    return found.min(axis=-1)
