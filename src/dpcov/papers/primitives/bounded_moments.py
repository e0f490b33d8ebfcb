"""What bounded moments tell of truncated second moments: bias, radii, errors, sample sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from dpcov.core.parameters import AtLeast1, Interval, check_fields

STEP_ALPHA = 1 / 16  # spectral error by truncation, twice, that a step allows: the paper's
STEP_ERROR = 1 / 12  # spectral error at which a step's lower bound grows at least twofold


Order = Annotated[int, Interval(2, closed="left")]


@dataclass(frozen=True, slots=True)
class Moments:
    """E <v, X>^2k <= C (E <v, X>^2)^k for all v: `order` k >= 2 and `constant` C >= 1.

    C = 3 at k = 2 for normal rows, 9 for Student's t with 5 degrees of freedom.
    """

    order: Order
    constant: AtLeast1

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def fourth(self) -> float:
        """Constant of the fourth moments: C^(2/k), by Jensen."""
        return float(self.constant ** (2 / self.order))

    def bias(self, p: int, radius: float) -> float:
        """Bound on the spectral norm of what clipping takes from Sigma <= I: C (p / g^2)^(k-1).

        Hoelder: E <v, X>^2 1{|X| > g} <= C^(1/k) v'Sigma v P(|X| > g)^(1 - 1/k); Minkowski and
        Markov: P(|X| > g) <= C p^k / g^2k. The same holds in units of Sigma (Mahalanobis).
        """
        return float(self.constant * (p / radius**2) ** (self.order - 1))

    def radius(self, p: int, bias: float) -> float:
        """Radius at which `bias` is this: sqrt(p) (C / bias)^(1 / 2(k-1))."""
        return float(math.sqrt(p) * (self.constant / bias) ** (0.5 / (self.order - 1)))

    def mahalanobis_radius(self, p: int, bias: float) -> float:
        """Radius at which sqrt(p) times the bias, a bound on its Frobenius norm, is this."""
        return self.radius(p, bias / math.sqrt(p))

    def spectral_error(
        self, p: int, radius: float, n: float, deviation: float, beta: float
    ) -> float:
        """Bound s on the error of a look, but with probability `beta`, for I >= Sigma.

        Truncation; sampling, by the matrix Bernstein inequality with E |X|^2 XX' <= C4 p I;
        noise, by Slepian's inequality, of standard deviation `deviation` on the diagonal.
        """
        log = math.log(4 * p / beta)
        sampling = math.sqrt(2 * self.fourth * p * log / n) + 2 * radius**2 * log / (3 * n)
        noise = deviation * (math.sqrt(2 * p) + math.sqrt(2 * math.log(4 / beta)))
        return self.bias(p, radius) + sampling + noise


class SampleSize(NamedTuple):
    """Rows that theory asks for: for every step of the map, and for the release."""

    steps: int
    final: int


def after_step(lower: float) -> float:
    """Lower bound on the mapped second moment after a step of error 1/12, from that before."""
    return lower / (lower + 3 * STEP_ERROR)


def steps(condition: float) -> int:
    """Number of steps of error at most 1/12 from 1 / `condition` to 1/2, at least 1."""
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
    rho_of_look: float,
    rho_of_release: float,
) -> SampleSize:
    """Rows at which `looks` steps and a release have the error `alpha` but with chance `beta`.

    Zero mean, replace-one, no intercept; all from public numbers. `Moments.spectral_error` is for a
    step, with probability beta / 2 for all of them. The error of the release, without denoising, is
    Mahalanobis, c I <= Sigma <= I: truncation alpha / 2; noise, at most 1 / c times its Frobenius
    norm; sampling, by Bernstein's inequality in Hilbert space (Pinelis 1994) with E |X|^4 <= C4 p^2
    in units of Sigma, and clipped rows of squared norm at most g^2 / c there.
    """
    step_radius = moments.radius(features, STEP_ALPHA / 2)
    last_radius = moments.mahalanobis_radius(features, alpha / 2)
    lower = 1 / condition
    for _ in range(looks):
        lower = after_step(lower)

    def step_error(n: float) -> float:
        deviation = step_radius**2 / (n * math.sqrt(rho_of_look))
        return moments.spectral_error(features, step_radius, n, deviation, beta / (2 * looks))

    def final_error(n: float) -> float:
        log, square = math.log(8 / beta), last_radius**2
        noise = square / (n * math.sqrt(rho_of_release))
        noise *= math.sqrt(features * (features + 1) / 2) + math.sqrt(2 * log)
        sampling = features * math.sqrt(2 * moments.fourth * log / n)
        sampling += 4 * square * log / (3 * n * lower)
        return alpha / 2 + noise / lower + sampling

    return SampleSize(least(step_error, STEP_ERROR) if looks else 0, least(final_error, alpha))


def least(error: Callable[[int], float], goal: float) -> int:
    """Least n >= 1 with error(n) <= goal, for an error that falls to less than the goal."""
    low, high = 0, 1
    while error(high) > goal:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if error(middle) > goal else (low, middle)
    return high
