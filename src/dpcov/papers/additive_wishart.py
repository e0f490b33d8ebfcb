"""Wishart noise with the degrees of freedom that (epsilon, delta) needs, no more."""

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

SAFETY = 1e-9  # relative error that a chi-square tail of float64 is granted
LARGEST_FREEDOM = 2**16  # of the chi-square that decides; beyond it the noise is Gaussian
SPLITS = np.linspace(0, 1, 33)  # where replace-one may divide its epsilon between its two steps


@dataclass(frozen=True, slots=True)
class AdditiveWishart(additive.Additive):
    r"""Second moment plus one centred Wishart matrix: (epsilon, delta)-DP by the exact curve.

    For comparison with the literature. Its noise falls with the degrees of freedom m towards that
    of `gaussian`, which is its limit: choose `gaussian` for less noise.

    Guarantee
    ---------
    (epsilon, delta)-DP, for every input, under add/remove or replace-one, for rows or for persons
    with at most k rows (by group privacy: the noise grows faster than with k).

    Sensitivity
    -----------
    One row adds B^2 v v', |v| <= 1. In units of B^2, with W ~ Wishart_d(m, c I), only
    x = 1 / (v' W^-1 v) ~ c chi^2_k, k = m - d + 1, tells W + s v v' from W: the ratio of the
    densities is e^(s/2c) (1 - s/x)^((k-2)/2), and x becomes x + s (Sherman and Morrison). For
    k >= 2 the density of x is log-concave, so the best tests are thresholds, and the curve grows
    with s <= 1. Its two directions (`removal_delta`, `addition_delta`) are exact under add/remove.
    Under replace-one W + u u' and W + v v' are compared through W: for e1 + e2 = epsilon,
    P(E) <= e^e1 W(E) + addition(e1) and W(E) <= e^e2 Q(E) + removal(e2), hence
    delta <= addition(e1) + e^e1 removal(e2), a certified bound, not tight. A person's k rows are k
    such steps of (epsilon / k, delta (e^(epsilon/k) - 1) / (e^epsilon - 1)). The trace is released
    beside the matrix by Laplace noise, for the share `trace_share` of epsilon.

    Not protected
    -------------
    Schema, budget, order of the matrix, running time; the number of rows (of persons) under
    replace-one. The law is continuous and drawn in float64 before it is rounded: exactly
    (epsilon, delta)-DP for real-valued noise. Publication on a lattice of 2^-10 of the noise keeps
    its low bits from telling anything.

    Parameters
    ----------
    trace_share : float in [0, 1), public
        Share of epsilon for the trace.
    degrees : int above d + 1 or None, public
        Degrees of freedom m; by default those with the least noise, m - d < 2^16.

    Returns
    -------
    Release
        (d, d) integers in units of 2^shift squared lattice steps, the trace, and the noise law.

    Raises
    ------
    MechanismError
        The budget has no delta, or is too small for the noise. Before anything is read.

    Cost
    ----
    One pass over the data (two with persons), O(d^3) time for the noise, whatever m.

    Source
    ------
    Sheffet 2015, "Private approximations of the 2nd-moment matrix using existing techniques in
    linear regression" (arXiv:1507.00056), whose code takes m = d + 28 ln(4/delta) / epsilon^2 at
    c = 1; the exact curve needs 42 in place of 426 at (1, 1e-6). Jiang, Xie and Zhang 2016 drop a
    factor 2, which breaks (4, 1e-6): delta is 2.6e-5 there. The curve is dpcov's.

    Examples
    --------
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
        """Scale c in units of B^2 and degrees m with the least c sqrt(m)."""
        curve = replacement_delta if neighbors == Neighbors.REPLACE_ONE and d > 1 else row_delta
        if self.degrees is None:
            freedoms = np.unique(np.geomspace(3, LARGEST_FREEDOM, 97).astype(np.int64))
        elif 3 <= self.degrees - d + 1 <= LARGEST_FREEDOM:
            freedoms = np.array([self.degrees - d + 1])
        else:
            raise MechanismError(f"degrees must lie in {d + 2}..{d + LARGEST_FREEDOM - 1}.")
        scales = least_scales(curve, freedoms.astype(np.float64), step.epsilon, step.delta)
        degrees = freedoms + d - 1
        best = int(np.argmin(scales * np.sqrt(degrees)))
        return float(scales[best]) * (1 + 2.0**-40), int(degrees[best])


def one_of(budget: ApproxDP, rows: int) -> ApproxDP:
    """What each of `rows` steps may cost so that together they keep the budget (group privacy).

    (e, d)-close steps P0, .., Pk: P0(E) <= e^(k e) Pk(E) + d (1 + e^e + .. + e^((k-1) e)).
    """
    if rows == 1:
        return budget
    epsilon = budget.epsilon / rows
    log = math.log(-math.expm1(-epsilon)) - math.log(-math.expm1(-budget.epsilon))
    delta = budget.delta * math.exp(log + epsilon - budget.epsilon)
    if delta < 1e-290:
        raise MechanismError("No usable noise protects persons with so many rows.")
    return ApproxDP(epsilon, delta * (1 - SAFETY))


def least_scales(curve: Curve, freedoms: Floats, epsilon: float, delta: float) -> Floats:
    """For each k the least c (rounded up) whose curve keeps (epsilon, delta), by bisection.

    A larger c makes the shift of x / c smaller, so delta falls with c.
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
    """Delta of x ~ c chi^2_k against x + 1 (the row is absent against present), rounded up.

    The best test is x <= x*, where log-density ratio and epsilon are equal, or x <= 1, which the
    present row rules out.
    """
    p = (np.asarray(freedom, dtype=np.float64) - 2) / 2
    bound = -np.expm1(-(epsilon + 1 / (2 * np.asarray(scale))) / p)
    at = np.maximum(1.0, 1 / bound)
    return _difference(chdtr(freedom, at / scale), chdtr(freedom, (at - 1) / scale), epsilon)


def addition_delta(
    scale: Floats | float, freedom: Floats | float, epsilon: Floats | float
) -> Floats:
    """Delta of x + 1 against x (the row is present against absent), rounded up.

    The loss is 1/2c - ((k - 2) / 2) ln(1 + 1/x) <= 1/2c; the best test is x >= x*.
    """
    p = (np.asarray(freedom, dtype=np.float64) - 2) / 2
    room = np.maximum(1 / (2 * np.asarray(scale)) - epsilon, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        at = 1 / np.expm1(room / p)
    return _difference(chdtrc(freedom, at / scale), chdtrc(freedom, (at + 1) / scale), epsilon)


def _difference(first: Floats, second: Floats, epsilon: Floats | float) -> Floats:
    """Positive part of first - e^epsilon second, rounded up."""
    with np.errstate(divide="ignore"):
        second = np.exp(np.minimum(epsilon + np.log(second), 0.0))
    return np.maximum(first - second, 0.0) + SAFETY * (first + second)


def row_delta(scale: Floats | float, freedom: Floats | float, epsilon: float) -> Floats:
    """Delta of the presence of one row of full norm: exact but for the rounding."""
    return np.maximum(
        removal_delta(scale, freedom, epsilon), addition_delta(scale, freedom, epsilon)
    )


def replacement_delta(scale: Floats | float, freedom: Floats | float, epsilon: float) -> Floats:
    """Delta of one row in place of another: an upper bound, by way of neither."""
    scale, freedom = (np.asarray(x, dtype=np.float64)[..., None] for x in (scale, freedom))
    whole = np.minimum(epsilon, 1 / (2 * scale))  # where the first step is purely epsilon-DP
    splits = np.broadcast_to(SPLITS * epsilon, (*whole.shape[:-1], len(SPLITS)))
    first = np.concatenate([splits, whole], axis=-1)
    found = addition_delta(scale, freedom, first)
    found += np.exp(first) * removal_delta(scale, freedom, epsilon - first)
    return found.min(axis=-1)
