"""Estimate the sparse inverse covariance by the slides' two algorithms with every noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

import seeds
from accuracy import RememberedRows
from dpcov.analysis.graphical_lasso import Solution, graphical_lasso
from dpcov.core.entropy import simulation_generator
from dpcov.core.privacy import ApproxDP, Budget, Neighbors, PureDP, gaussian_mu
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.denoise import best_estimate, denoise
from dpcov.denoise.projection import project
from dpcov.mechanisms import Gaussian, MatrixLaplace, Mechanism
from dpcov.rows.schema import Schema
from dpcov.rows.sources.array import ArraySource
from faults import factor
from wang2018.data import Table
from wang2018.printed import NOT_AVAILABLE, OUTPUT, SULQ, printed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

DELTA = 1e-5  # the slides do not say which
STEP = 10.0  # of the solver at first, over the penalty; saves most iterations for small penalties
TOLERANCE = 1e-5  # gap per row; changes the errors in the fourth digit


def solve(moment: Matrix, rho: float) -> Matrix:
    """Solve the slides' problem (1)."""
    return solve_components(moment, rho)[0]


def components(moment: Matrix, rho: float) -> list[NDArray[np.intp]]:
    """Return the columns of each connected component of the entries above rho off the diagonal."""
    edges = np.abs(moment - np.diag(np.diag(moment))) > rho
    count, labels = connected_components(csr_array(edges), directed=False)
    return [np.flatnonzero(labels == label) for label in range(count)]


def solve_components(
    moment: Matrix, rho: float, *, start: Solution | None = None, tol: float = TOLERANCE
) -> tuple[Matrix, Solution | None]:
    """Solve the slides' problem (1), which splits into components (Witten et al. 2011).

    The penalty adds rho to the diagonal of S. Each component is scaled to an average diagonal of 1,
    as the solver expects. The second result is a start for a similar problem, if there is only one
    component.
    """
    estimate, found = np.diag(1 / (np.diag(moment) + rho)), None
    for own in components(moment, rho):
        if len(own) == 1:
            continue
        block = moment[np.ix_(own, own)] + rho * np.eye(len(own))
        size = float(np.trace(block)) / len(own)
        whole = len(own) == len(moment)
        cold = Solution(
            np.diag(size / np.diag(block)),
            np.zeros_like(block),
            step=min(1.0, STEP * rho / size),
            gap=np.inf,
        )
        begin = start if whole and start else cold
        solution = graphical_lasso(block / size, rho / size, start=begin, tol=tol)
        found = solution if whole else None
        estimate[np.ix_(own, own)] = solution.precision / size
    return estimate, found


def unsolvable(moment: Matrix, rho: float) -> bool:
    """Return True if (1) certainly has no solution: it falls without end along some v v'.

    Along t v v' + I the objective is at most t (v'Sv + rho |v|_1^2) - log t + constant. The
    function tries each unit vector and the lowest eigenvector.
    """
    lowest = np.linalg.eigh(moment)[1][:, 0]
    along = float(lowest @ moment @ lowest + rho * np.abs(lowest).sum() ** 2)
    return min(along, float(np.diag(moment).min() + rho)) < 0


def wishart(d: int, degrees: int, scale: float, generator: np.random.Generator) -> Matrix:
    normals = generator.standard_normal((d, degrees))
    return scale * normals @ normals.T


def wishart_degrees(d: int, epsilon: float) -> int:
    """Return the slides' m = d + 14/eps^2 ln(4/delta)."""
    return int(np.ceil(d + 14 / epsilon**2 * np.log(4 / DELTA)))


def entrywise(diagonal: Matrix, upper: Matrix) -> Matrix:
    above = np.triu(upper, 1)
    return above + above.T + np.diag(diagonal)


def laplace(d: int, on: float, off: float, generator: np.random.Generator) -> Matrix:
    return entrywise(generator.laplace(scale=on, size=d), generator.laplace(scale=off, size=(d, d)))


def gaussian(d: int, deviation: float, generator: np.random.Generator) -> Matrix:
    normals = generator.standard_normal((d + 1, d)) * deviation
    return entrywise(normals[0], normals[1:])


def slides_laplace(table: Table, epsilon: float, generator: np.random.Generator) -> Matrix:
    """Return S + noise as on the slides, which is not semidefinite."""
    scale = 2 * table.d / (table.n * epsilon)
    return table.moment + laplace(table.d, scale, scale, generator)


def slides_gaussian(table: Table, epsilon: float, generator: np.random.Generator) -> Matrix:
    return table.moment + gaussian(table.d, slides_beta(table.n, epsilon), generator)


def slides_beta(n: int, epsilon: float) -> float:
    return float(np.sqrt(2 * np.log(1.25 / DELTA)) / (n * epsilon))


def slides_wishart(table: Table, epsilon: float, generator: np.random.Generator) -> Matrix:
    d = table.d
    return table.moment + wishart(d, d + 1, 3 / (2 * table.n * epsilon), generator)


def slides_wishart_approx(table: Table, epsilon: float, generator: np.random.Generator) -> Matrix:
    d = table.d
    return table.moment + wishart(d, wishart_degrees(d, epsilon), 1 / table.n, generator)


def slides_sulq(table: Table, epsilon: float, generator: np.random.Generator) -> Matrix:
    """Return S + SuLQ's noise (printed SQLU), as in Chaudhuri, Sarwate and Sinha 2012."""
    d, n = table.d, table.n
    entries = (d * d + d) / (2 * np.sqrt(2 * np.pi) * DELTA)
    deviation = (d + 1) / (n * epsilon) * np.sqrt(2 * np.log(entries)) + 1 / (n * np.sqrt(epsilon))
    return table.moment + gaussian(d, float(deviation), generator)


def tight_laplace(table: Table, epsilon: float, generator: np.random.Generator) -> Matrix:
    """Return S + noise with the scales of `dpcov.mechanisms.Laplace` under replace-one."""
    d, unit = table.d, 1 / (table.n * epsilon)
    on = float(np.sqrt(d * (d + 1))) * unit
    return table.moment + laplace(d, on, on / np.sqrt(2), generator)


def matrix_laplace(table: Table, epsilon: float, generator: np.random.Generator) -> Matrix:
    """Return S + matrix Laplace noise; the nuclear sensitivity is 2/n, so c = 1/(n eps)."""
    law = WishartDifference(table.d, 1 / (table.n * epsilon))
    return table.moment + law.simulate(generator)


def exact_gaussian(table: Table, epsilon: float, generator: np.random.Generator) -> Matrix:
    """Return S + orthogonal noise by the exact curve; the Frobenius sensitivity is sqrt(2)/n."""
    deviation = np.sqrt(2) / (table.n * gaussian_mu(epsilon, DELTA))
    law = GaussianOrthogonal(table.d, Fraction(float(deviation**2)))
    return table.moment + law.simulate(generator)


def released(table: Table, mechanism: Mechanism, budget: Budget, seed: int) -> Matrix:
    """Return S from a whole release of this library, denoised by the default."""
    names = tuple(f"x{j}" for j in range(table.d))
    schema = Schema.from_bounds(-1.0, 1.0, names, radius=1.0, intercept=0.0)
    rows = RememberedRows(schema, ArraySource(table.rows, names))
    made = mechanism(
        rows, budget=budget, neighbors=Neighbors.REPLACE_ONE, entropy=seeds.entropy(seed)
    )
    return (
        best_estimate(denoise(made, "shrink", generator=simulation_generator(seeds.own(seed))))
        / table.n
    )


def output_perturbed(
    table: Table, optimum: Matrix, epsilon: float, rho: float, generator: np.random.Generator
) -> Matrix:
    r"""Run output perturbation, made private: the solution plus matrix Laplace noise.

    eps-DP under replace-one, for the exact solution. Let T solve (1) for S, T' for S'. The
    optimality condition -T^-1 + S + rho G = 0, G a subgradient of ||.||_1, times T gives <S, T> +
    rho ||T||_1 = d, hence ||T||_2 <= ||T||_1 <= d/rho, S being semidefinite; the same for T'. On
    the convex set ||X||_2 <= d/rho the Hessian of -log det is X^-1 (x) X^-1 >= (rho/d)^2.
    Subtracting the two conditions and multiplying by D = T - T', with <G - G', D> >= 0,

        (rho/d)^2 ||D||_F^2 <= -<S - S', D> <= ||S - S'||_F ||D||_F.

    ||S - S'||_F <= sqrt(2)/n when one row of norm at most 1 is replaced, so ||D||_F <= sqrt(2) d^2
    / (n rho^2) and ||D||_* <= sqrt(d) ||D||_F = sqrt(2) d^(5/2) / (n rho^2). Matrix Laplace noise
    of scale c = ||D||_* / (2 eps) = d^(5/2) / (sqrt(2) n eps rho^2) makes that eps-DP
    (`dpcov.mechanisms.MatrixLaplace`).
    """
    noise = output_noise(table, epsilon, rho).simulate(generator)
    return optimum + factor(OUTPUT, table.d, table.n) * noise


def output_noise(table: Table, epsilon: float, rho: float) -> WishartDifference:
    """Return the noise of `output_perturbed`."""
    return WishartDifference(table.d, table.d**2.5 / (np.sqrt(2) * table.n * epsilon * rho**2))


Noisy = Callable[[Table, float, np.random.Generator], "Matrix"]


@dataclass(frozen=True)
class Method:
    """How S is perturbed, and whether that keeps its promise."""

    noisy: Noisy
    private: bool


PURE = {
    "Wishart (slides)": Method(slides_wishart, False),
    "Laplace 2d (slides)": Method(slides_laplace, True),
    "Laplace, tight": Method(tight_laplace, True),
    "matrix Laplace": Method(matrix_laplace, True),
}
APPROXIMATE = {
    "Wishart m (slides)": Method(slides_wishart_approx, False),
    "Gaussian (slides)": Method(slides_gaussian, False),
    "Gaussian, exact": Method(exact_gaussian, True),
    SULQ: Method(slides_sulq, True),
}
PURE_RELEASE, APPROXIMATE_RELEASE = "dpcov, pure", "dpcov, Gaussian"


def with_noise(name: str, table: Table, epsilon: float, generator: np.random.Generator) -> Matrix:
    """Return S plus a method's noise, scaled by the current fault."""
    noise = {**PURE, **APPROXIMATE}[name].noisy(table, epsilon, generator) - table.moment
    return table.moment + factor(name, table.d, table.n) * noise


def moments(table: Table, epsilon: float, seed: int) -> dict[str, Matrix]:
    """Return the semidefinite estimate of S by each method.

    The slides have numbers of SuLQ for Parkinson's only, and its noise makes slow problems of
    colon.
    """
    generator = seeds.generator(seed)
    noisy = {name: with_noise(name, table, epsilon, generator) for name in (*PURE, *APPROXIMATE)}
    if printed(SULQ, epsilon, table.name) == NOT_AVAILABLE:
        del noisy[SULQ]
    found = {name: project(matrix, None) for name, matrix in noisy.items()}
    found[PURE_RELEASE] = released(table, MatrixLaplace(), PureDP(epsilon), seed)
    found[APPROXIMATE_RELEASE] = released(table, Gaussian(), ApproxDP(epsilon, DELTA), seed)
    return found
