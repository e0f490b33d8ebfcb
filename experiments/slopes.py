"""Fits of growth rates to simulated means, with the standard errors of the simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Mean:
    """A simulated mean and its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, draws: Sequence[float] | NDArray[np.float64]) -> Mean:
        return cls(float(np.mean(draws)), float(np.std(draws, ddof=1) / np.sqrt(len(draws))))


@dataclass(frozen=True)
class Slope:
    """Slope of a straight line in log-log scale; `error` comes from the means' errors alone."""

    value: float
    error: float

    def near(self, exponent: float, tolerance: float) -> bool:
        """Return True if the slope is within `tolerance` plus 2 errors of `exponent`.

        One that is not known to within the tolerance is near nothing.
        """
        return self.error <= tolerance and abs(self.value - exponent) <= tolerance + 2 * self.error

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.error:.3f}"


def log_slope(at: Sequence[float], means: Sequence[Mean]) -> Slope:
    """Return the least-squares slope of log(mean) against log(at), with equal weights."""
    x = np.log(np.asarray(at, float))
    centred = (x - x.mean()) / np.sum((x - x.mean()) ** 2)
    logs = np.log([mean.value for mean in means])
    relative = np.array([mean.error / mean.value for mean in means])
    return Slope(float(centred @ logs), float(np.sqrt(centred**2 @ relative**2)))


def coefficients(
    columns: NDArray[np.float64], means: Sequence[Mean]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit the means to `columns` (points, terms) by weighted least squares; return errors too."""
    errors = np.array([mean.error for mean in means])
    design = columns / errors[:, None]
    fitted = np.linalg.lstsq(design, [mean.value for mean in means] / errors, rcond=None)[0]
    return fitted, np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
