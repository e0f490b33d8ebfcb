"""Privacy and accuracy of the registered mechanisms of the papers: `make reproduce-faults`.

Each verdict comes from the noise that `Mechanism.calibrate` of the registered mechanism returns.
The losses and the errors are formulas of this module, with d = 2 and rows of norm 1. Each verdict
is found again under faults of the library:

- the noise times 0.7 and times 1.4,
- the bound on a row, from which dpcov computes all sensitivities, divided by the root of two.

A privacy verdict must change if there is too little noise, and an accuracy verdict must change if
the noise has another size. The run fails otherwise.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import Any
from unittest import mock

import numpy as np
from scipy.stats import chi2

import seeds
from dpcov.api.auditing.rounds import loss as exact_loss
from dpcov.core.privacy import ZCDP, ApproxDP, Budget, Neighbors, PureDP, gaussian_mu
from dpcov.mechanisms import MECHANISMS
from dpcov.papers.samplers.additive_wishart import CenteredWishart
from dpcov.papers.samplers.entrywise import EntrywiseLaplace
from dpcov.rows.moment import Lattice
from results import show

ORDER = 2  # d of all matrices
EPSILON, RHO, DELTA = 1.0, 0.5, 1e-6
LATTICE = Lattice(ORDER, 1.0)
BOUND = float(LATTICE.bound)  # squared norm of a row, in lattice units
ROUNDING = 1e-6  # relative error of the losses, from lattice points and quadrature
ACCURACY = 0.2  # largest relative difference of the measured and the derived error
DRAWS = 2000
PAIR = np.diag([LATTICE.bound, -LATTICE.bound]).astype(object)  # e1 replaces e2
ROW = np.diag([LATTICE.bound, 0]).astype(object)  # e1 is added
GRID_POINTS = 400_001


@dataclass(frozen=True)
class Case:
    """Registered mechanism with options and a budget, its loss over the claim, and its error."""

    name: str
    paper: str
    budget: Budget
    neighbors: Neighbors
    loss: Callable[[Any], float]
    error: float
    options: tuple[tuple[str, Any], ...] = ()
    nuclear: bool = False

    def laws(self) -> Any:
        """Return the calibration of the registered mechanism."""
        kind = MECHANISMS[self.name]
        return kind(**dict(self.options)).calibrate(LATTICE, self.budget, self.neighbors)

    def measured(self, laws: Any) -> float:
        """Return the mean error of draws of the noise, in units of a row's squared norm.

        The error is the nuclear norm, or else the root mean square of the Frobenius norm.
        """
        entropy = seeds.entropy(20260062)
        draws = [np.asarray(laws.matrix.sample(entropy), float) / BOUND for _ in range(DRAWS)]
        if self.nuclear:
            return float(np.mean([np.abs(np.linalg.eigvalsh(draw)).sum() for draw in draws]))
        return float(np.sqrt(np.mean([np.sum(draw**2) for draw in draws])))


def laplace_loss(laws: Any) -> float:
    """Return the largest loss over signs of the change, by the gap of the weighted sign matrix."""
    law: EntrywiseLaplace = laws.matrix
    largest = 0.0
    for one, other, off in product((-1, 1), repeat=3):
        signs = np.array([[one / law.diagonal, 0], [0, other / law.diagonal]], float)
        signs[0, 1] = signs[1, 0] = off / float(law.off_diagonal) / 2
        values = np.linalg.eigvalsh(signs)
        largest = max(largest, max(values[-1], 0) - min(values[0], 0))
    return largest * BOUND / EPSILON


def additive_loss(laws: Any) -> float:
    """Return the loss of a matrix of which e1 replaces e2, over the budget."""
    claimed = RHO if isinstance(laws.guarantee.budget, ZCDP) else EPSILON
    return float(exact_loss(laws.matrix, PAIR)) / claimed


def curve_loss(laws: Any) -> float:
    """Return the mu of Gaussian noise, over the mu of epsilon and delta."""
    return math.sqrt(2 * float(exact_loss(laws.matrix, PAIR))) / gaussian_mu(EPSILON, DELTA)


def wishart_loss(laws: Any) -> float:
    """Return the exact delta of an added row over the claim, by quadrature in both directions."""
    law: CenteredWishart = laws.matrix
    scale, freedom = law.scale / BOUND, law.degrees - ORDER + 1
    known = chi2(freedom, scale=scale)
    width = 12 * known.std()
    grid = np.linspace(max(known.mean() - width, 0), known.mean() + width + 1, GRID_POINTS)
    before, after = known.pdf(grid), known.pdf(grid - 1)
    step = grid[1] - grid[0]
    deltas = (
        np.maximum(p - math.exp(EPSILON) * q, 0).sum() * step
        for p, q in ((before, after), (after, before))
    )
    return float(max(deltas)) / DELTA


PURE, REPLACE = PureDP(EPSILON), Neighbors.REPLACE_ONE
CURVE_MU = gaussian_mu(EPSILON, DELTA)
NO_TRACE = (("trace_share", 0.0),)
# Errors at epsilon = 1 and rho = 1/2, in closed form for d = 2. The second moment of the square
# nuclear noise of scale 1 is 15, and (1 + 1/d)/2 of it is left after the noise is made symmetric.
CASES = (
    Case("nuclear-laplace", "d'Orsi and Novikov", PURE, REPLACE, additive_loss, 6.0, nuclear=True),
    Case(
        "nuclear-laplace",
        "d'Orsi and Novikov",
        PURE,
        REPLACE,
        additive_loss,
        2 * math.sqrt(11.25),
        (("form", "square"),),
    ),
    Case("laplace", "Amin; Jiang; Wang", PURE, REPLACE, laplace_loss, 6.0, NO_TRACE),
    Case("matrix-laplace", "repair of Jiang", PURE, REPLACE, additive_loss, 6.0),
    Case("gaussian", "Mouzakis", ZCDP(RHO), REPLACE, additive_loss, math.sqrt(6.0)),
    Case(
        "gaussian",
        "Wang",
        ApproxDP(EPSILON, DELTA),
        REPLACE,
        curve_loss,
        math.sqrt(6.0) / CURVE_MU,
    ),
    Case(
        "additive-wishart",
        "Wang",
        ApproxDP(EPSILON, DELTA),
        Neighbors.ADD_REMOVE,
        wishart_loss,
        math.sqrt(3.0) / CURVE_MU,
        NO_TRACE,
    ),
)
# Registered mechanisms of the papers without a verdict here.
NO_VERDICT = {
    "eigenvector-sampling, kapralov-talwar, exponential-pca": "The concentration of the directions "
    "is no part of `calibrate`. The claims of amin2019 compute the loss of the paper's formula.",
    "separate-laplace, adaptive-laplace, separate-gaussian, adaptive-gaussian": "The noise of the "
    "values follows from the noisy directions.",
    "heavy-tailed, preconditioned, unbounded-gaussian": "The noise of later rounds follows from "
    "earlier answers.",
    "stable-covariance, whitened, ashtiani-liaw": "The tests of single rows have no density.",
}


@contextmanager
def noise_times(kind: Any, factor: float) -> Iterator[None]:
    """Multiply the noise that a registered class calibrates."""
    calibrate = kind.calibrate

    def wrong(mechanism: Any, *public: Any) -> Any:
        found = calibrate(mechanism, *public)
        return replace(found, matrix=found.matrix.rescaled(factor))

    with mock.patch.object(kind, "calibrate", wrong):
        yield


@contextmanager
def bound_divided(kind: Any, factor: float) -> Iterator[None]:
    """Divide the bounds from which a registered class computes every sensitivity."""
    calibrate = kind.calibrate

    def wrong(mechanism: Any, lattice: Lattice, *public: Any) -> Any:
        found = replace(lattice)
        for name in ("bound", "unit_bound"):
            object.__setattr__(found, name, int(getattr(lattice, name) / factor))
        return calibrate(mechanism, found, *public)

    with mock.patch.object(kind, "calibrate", wrong):
        yield


FAULTS = {
    "noise times 0.7": (noise_times, 0.7, True),
    "noise times 1.4": (noise_times, 1.4, False),
    "sensitivity over the root of 2": (bound_divided, math.sqrt(2), True),
}


def verdicts(case: Case) -> tuple[float, bool, float, bool]:
    """Return the loss over the claim, whether it is private, and the same for the error."""
    laws = case.laws()
    lost, error = case.loss(laws), case.measured(laws) / case.error
    return lost, lost <= 1 + ROUNDING, error, abs(error - 1) <= ACCURACY


def row(case: Case) -> dict[str, Any]:
    """Return the verdicts of a case, without a fault and under each fault."""
    lost, private, error, accurate = verdicts(case)
    found: dict[str, Any] = {
        "mechanism": " ".join([case.name, *(str(value) for _, value in case.options if value)]),
        "paper": case.paper,
        "budget": str(case.budget),
        "loss over claim": f"{lost:.4f}",
        "error over derived": f"{error:.3f}",
    }
    ok = private and accurate
    for name, (fault, factor, too_little) in FAULTS.items():
        with fault(MECHANISMS[case.name], factor):
            lost, private, error, accurate = verdicts(case)
        found[name] = f"loss {lost:.3g}, error {error:.2f}"
        ok = ok and private != too_little and not accurate
    return found | {"ok": ok}


def main() -> int:
    rows = [row(case) for case in CASES]
    show("Registered mechanisms, without and with faults of the library", rows)
    for name, reason in NO_VERDICT.items():
        print(f"{name}: no verdict here. {reason}")
    asleep = [str(found["mechanism"]) for found in rows if not found["ok"]]
    print("mechanisms with a wrong verdict: " + ("; ".join(asleep) or "none"))
    return int(bool(asleep))


if __name__ == "__main__":
    sys.exit(main())
