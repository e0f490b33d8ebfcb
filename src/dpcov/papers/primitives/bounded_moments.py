"""Bounds for truncated second moments of rows with bounded moments: bias, error, sample size."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from dpcov.core.parameters import AtLeast1, Interval, check_fields

# Twice the spectral error of truncation that a step allows. Source: the paper.
STEP_TRUNCATION_ERROR = 1 / 16
# Spectral error of a step at which the lower bound at least doubles.
STEP_SPECTRAL_ERROR = 1 / 12


Order = Annotated[int, Interval(2, closed="left")]


@dataclass(frozen=True, slots=True)
class Moments:
    """Moment bound ``E <v, X>^2k <= C (E <v, X>^2)^k`` for every direction v.

    For ``k = 2``, C is 3 for normal rows and 9 for Student's t with 5 degrees of freedom.

    Parameters
    ----------
    order : int
        Order k, at least 2.
    constant : float
        Constant C, at least 1.

    """

    order: Order
    constant: AtLeast1

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def fourth(self) -> float:
        """Constant of the fourth moments, which is ``C^(2/k)`` by Jensen's inequality."""
        return float(self.constant ** (2 / self.order))

    def bias(self, p: int, radius: float) -> float:
        """Return a bound on the clipping bias of a second moment Sigma with ``Sigma <= I``.

        The bound on the spectral norm is ``C (p / g^2)^(k-1)`` for the radius g.

        Proof. Hölder's inequality bounds the bias in the direction v. Minkowski's and Markov's
        inequalities bound the probability of clipping::

            E <v, X>^2 1{|X| > g} <= C^(1/k) v'Sigma v P(|X| > g)^(1 - 1/k)
            P(|X| > g) <= C p^k / g^2k

        The same bounds hold in units of Sigma (Mahalanobis).

        Parameters
        ----------
        p : int
            Number of features.
        radius : float
            Clipping radius g.

        Returns
        -------
        float
            Bound on the bias.

        """
        return float(self.constant * (p / radius**2) ** (self.order - 1))

    def radius(self, p: int, bias: float) -> float:
        """Return the radius with a given clipping bias, ``sqrt(p) (C / bias)^(1 / 2(k-1))``."""
        return float(math.sqrt(p) * (self.constant / bias) ** (0.5 / (self.order - 1)))

    def mahalanobis_radius(self, p: int, bias: float) -> float:
        """Return the radius with a given bound on the Frobenius norm of the clipping bias.

        The bound on the Frobenius norm is ``sqrt(p)`` times the spectral norm.
        """
        return self.radius(p, bias / math.sqrt(p))

    def spectral_error(
        self, p: int, radius: float, n: float, deviation: float, beta: float
    ) -> float:
        """Return a bound on the spectral error of a pilot query, for ``Sigma <= I``.

        The bound holds except with probability `beta`. It is the sum of three errors:

        - Clipping bias.
        - Sampling error, from the matrix Bernstein inequality with ``E |X|^2 XX' <= C4 p I``.
        - Noise, from Slepian's inequality.

        Parameters
        ----------
        p : int
            Number of features.

        radius : float
            Clipping radius.

        n : float
            Number of rows.

        deviation : float
            Standard deviation of the noise on the diagonal.

        beta : float
            Probability of a larger error.

        Returns
        -------
        float
            Bound on the error.

        """
        log = math.log(4 * p / beta)
        sampling = math.sqrt(2 * self.fourth * p * log / n) + 2 * radius**2 * log / (3 * n)
        noise = deviation * (math.sqrt(2 * p) + math.sqrt(2 * math.log(4 / beta)))
        return self.bias(p, radius) + sampling + noise


class SampleSize(NamedTuple):
    """Number of rows that the theory requires.

    Attributes
    ----------
    steps : int
        Rows for every step of the transformation.
    final : int
        Rows for the release.

    """

    steps: int
    final: int


def after_step(lower: float) -> float:
    """Return the lower bound on the transformed second moment after a step with the error 1/12."""
    return lower / (lower + 3 * STEP_SPECTRAL_ERROR)


def steps(condition: float) -> int:
    """Return the number of steps with an error of at most 1/12 from 1 / `condition` to 1/2.

    The result is at least 1.
    """
    lower, number = after_step(1 / condition), 1
    while lower < 0.5:
        lower, number = after_step(lower), number + 1
    return number


def sample_size(
    moments: Moments,
    features: int,
    *,
    alpha: float,
    beta: float,
    condition: float,
    looks: int,
    rho_of_query: float,
    rho_of_release: float,
) -> SampleSize:
    """Return the number of rows for which a release has a given error.

    The error is at most `alpha`, except with probability `beta`. The function uses public numbers
    only. It assumes zero mean, replace-one and no intercept.

    `Moments.spectral_error` bounds the error of a step. All steps together have the probability
    ``beta / 2``. The release is not denoised. Its Mahalanobis error for ``c I <= Sigma <= I`` has
    three parts:

    - Clipping: ``alpha / 2``.
    - Noise: at most ``1 / c`` times the Frobenius norm of the noise.
    - Sampling: Bernstein's inequality in Hilbert space (Pinelis 1994). It uses
      ``E |X|^4 <= C4 p^2`` in units of Sigma, and clipped rows with a squared norm of at most
      ``g^2 / c``.

    Parameters
    ----------
    moments : Moments
        Moment bound.

    features : int
        Number of features.

    alpha, beta : float
        Target error, and the probability of a larger error.

    condition : float
        Bound on the condition number.

    `looks` : int
        Number of steps.

    rho_of_query, rho_of_release : float
        Budget of a step and of the release.

    Returns
    -------
    SampleSize
        Rows for the steps and for the release.

    """
    step_radius = moments.radius(features, STEP_TRUNCATION_ERROR / 2)
    last_radius = moments.mahalanobis_radius(features, alpha / 2)
    lower = 1 / condition
    for _ in range(looks):
        lower = after_step(lower)

    def step_error(n: float) -> float:
        deviation = step_radius**2 / (n * math.sqrt(rho_of_query))
        return moments.spectral_error(features, step_radius, n, deviation, beta / (2 * looks))

    def final_error(n: float) -> float:
        log, square = math.log(8 / beta), last_radius**2
        noise = square / (n * math.sqrt(rho_of_release))
        noise *= math.sqrt(features * (features + 1) / 2) + math.sqrt(2 * log)
        sampling = features * math.sqrt(2 * moments.fourth * log / n)
        sampling += 4 * square * log / (3 * n * lower)
        return alpha / 2 + noise / lower + sampling

    return SampleSize(
        least(step_error, STEP_SPECTRAL_ERROR) if looks else 0, least(final_error, alpha)
    )


def least(error: Callable[[int], float], goal: float) -> int:
    """Return the smallest integer n of at least 1 with ``error(n) <= goal``.

    The error must decrease to less than the goal.
    """
    low, high = 0, 1
    while error(high) > goal:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if error(middle) > goal else (low, middle)
    return high
