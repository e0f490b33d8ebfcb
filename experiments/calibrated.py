"""Cases whose noise `Mechanism.calibrate` returns whole: one matrix, values, a trace and counts."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import chi2

import seeds
from dpcov.api.auditing.rounds import loss as exact_loss
from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP, gaussian_mu
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.papers.samplers.additive_wishart import CenteredWishart
from dpcov.papers.samplers.entrywise import EntrywiseLaplace
from registered_cases import (
    BOUND,
    DELTA,
    EPSILON,
    ORDER,
    RHO,
    Case,
    farthest,
    laws_times,
)

DRAWS = 1000
GRID_POINTS = 400_001
ANGLES = np.linspace(0, math.pi, 7201)  # 1/40 of a degree apart
PAIR = np.diag([int(BOUND), -int(BOUND)]).astype(object)  # e1 replaces e2


def additive_loss(case: Case) -> float:
    """Return the loss of a matrix of which e1 replaces e2, over the budget."""
    claimed = RHO if isinstance(case.budget, ZCDP) else EPSILON
    return float(exact_loss(case.laws().matrix, PAIR)) / claimed


def curve_loss(case: Case) -> float:
    """Return the mu of Gaussian noise, over the mu of epsilon and delta."""
    return math.sqrt(2 * float(exact_loss(case.laws().matrix, PAIR))) / CURVE_MU


def wishart_loss(case: Case) -> float:
    """Return the exact delta of an added row over the claim, by quadrature in both directions."""
    law: CenteredWishart = case.laws().matrix
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


def rounds_loss(case: Case) -> float:
    """Return the largest loss of all noise together, over the budget.

    Under replace-one a unit row replaces an orthogonal one, at all angles. Under add-remove a unit
    row is added. The released vectors are the eigenvectors of the change, which is the worst case.
    """
    laws, replaced = case.laws(), case.neighbors == Neighbors.REPLACE_ONE
    cosine, sine = np.cos(ANGLES), np.sin(ANGLES)
    row = np.array([cosine**2, sine**2, cosine * sine])  # (1, 1), (2, 2) and (1, 2) of xx'
    change = row - np.array([sine**2, cosine**2, -cosine * sine]) if replaced else row
    lost = matrix_losses(laws.matrix, BOUND * change)
    values = [BOUND, -BOUND] if replaced else [BOUND, 0.0]
    counts = [1.0, -1.0] if replaced else [1.0]
    trace = [] if replaced else [BOUND]
    for name, moved in (("value_noise", values), ("counts", counts), ("trace", trace)):
        if getattr(laws, name, None) is not None:
            lost = lost + scalar_loss(getattr(laws, name), moved)
    return float(lost.max()) / (RHO if isinstance(case.budget, ZCDP) else EPSILON)


def matrix_losses(law: Any, change: Any) -> Any:
    """Return the loss for each change, of shape (3, m): diagonal entries, then the other one."""
    if isinstance(law, GaussianOrthogonal):
        square = change[0] ** 2 + change[1] ** 2 + 2 * change[2] ** 2
        return square / (2 * float(law.variance))
    if isinstance(law, EntrywiseLaplace):
        diagonal = np.abs(change[:2]).sum(axis=0) / float(law.diagonal)
        return diagonal + np.abs(change[2]) / float(law.off_diagonal)
    raise TypeError(f"no loss for {law}")


def scalar_loss(law: ScalarLaplace | ScalarGaussian, moved: list[float]) -> float:
    """Return the loss of independent noise for numbers that move by `moved`."""
    if isinstance(law, ScalarLaplace):
        return sum(map(abs, moved)) / float(law.scale)
    return sum(x**2 for x in moved) / (2 * float(law.variance))


def drawn(laws: Any, name: str = "matrix") -> Any:
    """Return draws of a noise distribution, in units of a row's squared norm."""
    entropy = seeds.entropy(20260062)
    law = getattr(laws, name)
    return np.array([np.asarray(law.sample(entropy), float) for _ in range(DRAWS)]) / BOUND


def nuclear(case: Case, derived: float) -> float:
    """Return the mean nuclear norm of the noise, over the derived one."""
    return float(np.mean(np.abs(np.linalg.eigvalsh(drawn(case.laws()))).sum(axis=1))) / derived


def frobenius(case: Case, derived: float) -> float:
    """Return the root mean square of the Frobenius norm of the noise, over the derived one."""
    return float(np.sqrt(np.mean(np.sum(drawn(case.laws()) ** 2, axis=(1, 2))))) / derived


def parts(case: Case, derived: dict[str, float]) -> float:
    """Return the ratio of measured and derived deviations that is farthest from 1.

    The deviation of a matrix is the root mean square of its Frobenius norm.
    """
    laws, ratios = case.laws(), []
    for name, deviation in derived.items():
        draws = drawn(laws, name).reshape(DRAWS, -1) * (BOUND if name == "counts" else 1)
        ratios.append(math.sqrt(np.mean(np.sum(draws**2, axis=1))) / deviation)
    return farthest(ratios)


def laplace(scale: float) -> float:
    """Return the standard deviation of Laplace noise of a scale."""
    return math.sqrt(2) * scale


PURE, REPLACE, ADD = PureDP(EPSILON), Neighbors.REPLACE_ONE, Neighbors.ADD_REMOVE
CURVE_MU = gaussian_mu(EPSILON, DELTA)
NO_TRACE = (("trace_share", 0.0),)
DONG, DORSI = "Dong, Liang and Yi", "d'Orsi and Novikov"
APPROXIMATE = ApproxDP(EPSILON, DELTA)
# Errors of the matrix at epsilon = 1 and rho = 1/2, in closed form for d = 2. The second moment of
# the square nuclear noise of scale 1 is 15, and (1 + 1/d)/2 of it is left after the noise is made
# symmetric.
LAPLACE, GAUSSIAN = 6.0, math.sqrt(6.0)
# The scales of Laplace noise for one added row, d = 2: with the ratio r of both scales, the
# diagonal has (1 + r/2) / epsilon. The square of the error, 4 (1 + r/2)^2 (1 + 1/r^2), is smallest
# at r^3 = 2.
RATIO = 2 ** (1 / 3)
ADDED = 2 * (1 + RATIO / 2) * math.sqrt(1 + 1 / RATIO**2)
CASES = (
    Case("nuclear-laplace", DORSI, PURE, REPLACE, additive_loss, partial(nuclear, derived=6.0)),
    Case(
        "nuclear-laplace",
        DORSI,
        PURE,
        REPLACE,
        additive_loss,
        partial(frobenius, derived=2 * math.sqrt(11.25)),
        (("form", "square"),),
    ),
    Case(
        "laplace",
        "Amin; Jiang; Wang",
        PURE,
        REPLACE,
        rounds_loss,
        partial(frobenius, derived=LAPLACE),
        NO_TRACE,
    ),
    Case(
        "laplace",
        "Amin; Jiang; Wang",
        PURE,
        REPLACE,
        rounds_loss,
        partial(frobenius, derived=8 * math.sqrt(2)),  # scale 2 d / epsilon in all 4 entries
        (*NO_TRACE, ("paper_constants", True)),
        tight=False,
    ),
    Case(
        "matrix-laplace",
        "repair of Jiang",
        PURE,
        REPLACE,
        additive_loss,
        partial(frobenius, derived=6.0),
    ),
    Case(
        "gaussian",
        "Mouzakis",
        ZCDP(RHO),
        REPLACE,
        additive_loss,
        partial(frobenius, derived=GAUSSIAN),
    ),
    Case(
        "gaussian",
        "Wang",
        APPROXIMATE,
        REPLACE,
        curve_loss,
        partial(frobenius, derived=GAUSSIAN / CURVE_MU),
    ),
    Case(
        "additive-wishart",
        "Wang",
        APPROXIMATE,
        ADD,
        wishart_loss,
        partial(frobenius, derived=math.sqrt(3.0) / CURVE_MU),
        NO_TRACE,
    ),
    Case(
        "separate-laplace",
        DONG,
        PURE,
        REPLACE,
        rounds_loss,
        partial(parts, derived={"matrix": LAPLACE / 0.5, "value_noise": laplace(2 / 0.5)}),
        noise=laws_times,
    ),
    Case(
        "separate-gaussian",
        DONG,
        ZCDP(RHO),
        REPLACE,
        rounds_loss,
        partial(
            parts, derived={"matrix": GAUSSIAN / math.sqrt(0.5), "value_noise": 2 / math.sqrt(1)}
        ),
        noise=laws_times,
    ),
    Case(
        "adaptive-laplace",
        DONG,
        PURE,
        ADD,
        rounds_loss,
        partial(
            parts,
            derived={
                "matrix": ADDED / 0.81,
                "trace": laplace(1 / 0.09),
                "counts": laplace(1 / 0.1),
            },
        ),
        noise=laws_times,
    ),
    Case(
        "adaptive-gaussian",
        DONG,
        ZCDP(RHO),
        ADD,
        rounds_loss,
        partial(
            parts,
            derived={
                "matrix": math.sqrt(3 / (2 * 0.9 * 0.95 * RHO)),
                "trace": math.sqrt(1 / (2 * 0.9 * 0.05 * RHO)),
                "counts": math.sqrt(1 / (2 * 0.1 * RHO)),
            },
        ),
        noise=laws_times,
    ),
)
