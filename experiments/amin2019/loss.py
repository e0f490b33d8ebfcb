"""Privacy of one direction, by quadrature on the circle (Theorem 1, and the published code).

A direction u = (cos x, sin x) is drawn from exp(t u'Cu). The first table has C = k e2 e2'. The
neighbour has C' = (k-1) e2 e2' + e1 e1' under replace-one, and C' = C + e1 e1' under add/remove.
For large k, the density at e1 changes by the maximum possible amount. The sorted noisy eigenvalues
of the same pair, at (k-1, 1), add the whole loss of their noise Lap(1/epsilon_0). This loss is
2 epsilon_0 under replace-one and epsilon_0 under add/remove. At d = 2, the published AD gives the
rest of the budget to the first direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from amin2019 import published
from claims import Finding
from faults import factor

POINTS = 20_000  # the trapezoid rule is exact to rounding for smooth periodic integrands
COPIES = (1, 10, 100, 1000, 10_000)
QUADRATURE = 1e-3  # and the finite number of copies
TEXT, TIGHT, PUBLISHED = 0.25, 0.5, 2.0  # concentration over the direction's epsilon


@dataclass(frozen=True)
class Loss:
    """Largest |log ratio| of the densities of one direction, over its epsilon."""

    constant: float
    epsilon: float
    replace_one: float
    add_remove: float


def loss(constant: float, epsilon: float) -> Loss:
    """Return the loss of a draw at t = constant epsilon, over epsilon."""
    replaced, added = (
        max(_largest(constant * epsilon, k, (1.0, below)) for k in COPIES) for below in (-1.0, 0.0)
    )
    return Loss(constant, epsilon, replaced / epsilon, added / epsilon)


def _largest(t: float, copies: int, change: tuple[float, float]) -> float:
    angles = np.linspace(0.0, 2 * np.pi, POINTS, endpoint=False)
    squares = np.stack([np.cos(angles) ** 2, np.sin(angles) ** 2])
    before = np.array([0.0, copies]) @ squares * t
    after = before + np.array(change) @ squares * t
    return float(np.abs(_log_density(after) - _log_density(before)).max())


def _log_density(exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = exponents - exponents.max()
    return shifted - np.log(np.exp(shifted).mean())


def findings(small: bool, folder: Path) -> dict[str, Finding]:
    """Check that the text keeps its epsilon, and that the published code does not."""
    epsilon = 1.0
    off = factor("direction"), factor("published code")
    constants = TEXT / off[0], TIGHT, PUBLISHED / off[1]
    text, tight, code = (loss(constant, epsilon) for constant in constants)
    of_values = published.split(COPIES[-1], 2, epsilon)
    left = epsilon - of_values
    replaced = 2 * of_values / off[1] + code.replace_one * left
    added = of_values / off[1] + code.add_remove * left
    return {
        "theorem-1": Finding(
            f"a direction loses {text.replace_one:.4f} of its epsilon (add/remove "
            f"{text.add_remove:.4f}); with t = epsilon_i / 2, {tight.replace_one:.4f}",
            abs(text.replace_one - 0.5) < QUADRATURE and abs(text.add_remove - 0.25) < QUADRATURE,
        ),
        "published-code-private": Finding(
            f"a direction loses {code.replace_one:.3f} of its epsilon (add/remove "
            f"{code.add_remove:.3f}); AD as a whole at d = 2, n = {COPIES[-1]}, epsilon = 1: "
            f"{replaced:.2f} (add/remove {added:.2f})",
            max(replaced, added) <= epsilon,
            exact=True,
        ),
    }
