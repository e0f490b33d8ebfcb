"""Theorem 1.1: Schatten norms of the error against d, n and epsilon, and their concentration.

Errors are norms of the noise at epsilon = 1, replace-one. Rows have norm 1, and the matrix is X X'
(not / n). Spectra of nuclear-Laplace noise come from the Metropolis simulation of
`dpcov.papers.samplers.log_gas`. The simulation is not exact; `sampling` compares it with exact
draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import seeds
from claims import Finding
from csv_table import write_means
from dpcov.core.privacy import Neighbors, PureDP
from dpcov.mechanisms.matrix_laplace import MatrixLaplace
from dpcov.papers.laplace import Laplace
from dpcov.papers.samplers.log_gas import simulated_singular_values
from dpcov.papers.samplers.nuclear import NuclearLaplace, SquareNuclearLaplace
from dpcov.rows.moment import Lattice
from faults import factor, faulty
from plots import lines
from slopes import Mean, Slope, log_slope

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
NUCLEAR_SENSITIVITY = 2.0
SCHATTEN = {"spectral": np.inf, "Frobenius": 2, "nuclear": 1}
EXPONENTS = {"spectral": 1.0, "Frobenius": 1.5, "nuclear": 2.0}
OTHER_ORDERS = (1.5, 3.0, 4.0, 8.0)
TOLERANCE = 0.1
LEVEL = 0.1  # part of the limit by which a norm may miss it at finite d
EDGES = {"spectral": 2 * math.pi, "Frobenius": 2 * math.pi / math.sqrt(6), "nuclear": 2.0}
FITTED_FROM = 10
PRINTED, SYMMETRISED = "paper, d x d", "paper, symmetrised"
SYMMETRIC, OURS, LAPLACE = "symmetric nuclear-Laplace", "matrix Laplace (dpcov)", "Laplace (dpcov)"
LIMITS = {  # of spectral norm / d and of squared Frobenius norm / d^3, at scale 2/epsilon
    PRINTED: (2 * math.pi, 4 * math.pi**2 / 6),
    SYMMETRISED: (4.103952, 2 * math.pi**2 / 6),
    SYMMETRIC: (math.pi, 4 * math.pi**2 / 24),
    OURS: (3.3302, 2.0),
}


def _singular(matrix: Matrix) -> Vector:
    return np.abs(np.linalg.eigvalsh(matrix))


def _calibrated(mechanism: Laplace | MatrixLaplace) -> Callable[[int, np.random.Generator], Vector]:
    def draw(d: int, generator: np.random.Generator) -> Vector:
        lattice = Lattice(features=d, radius=1.0)
        law = mechanism.calibrate(lattice, PureDP(1.0), Neighbors.REPLACE_ONE).matrix
        return _singular(law.rescaled(1 / lattice.bound).simulate(generator))

    return draw


def _printed(d: int, generator: np.random.Generator) -> Vector:
    return NUCLEAR_SENSITIVITY * simulated_singular_values(d, generator)


SPECTRA: dict[str, Callable[[int, np.random.Generator], Vector]] = {
    PRINTED: faulty(PRINTED)(_printed),
    SYMMETRISED: lambda d, generator: _singular(
        SquareNuclearLaplace(d, NUCLEAR_SENSITIVITY).simulate(generator)
    ),
    SYMMETRIC: lambda d, generator: _singular(
        NuclearLaplace(d, NUCLEAR_SENSITIVITY).simulate(generator)
    ),
    OURS: _calibrated(MatrixLaplace()),
    LAPLACE: _calibrated(Laplace(trace_share=0.0)),
}
Spectra = dict[str, dict[int, list[Vector]]]


def simulate(small: bool) -> Spectra:
    orders = (5, 10, 20, 40) if small else (5, 10, 20, 40, 70, 100)
    generator = seeds.generator(20250003)
    return {
        name: {
            d: [draw(d, generator) for _ in range(30 if small else 120 if d < 70 else 80)]
            for d in orders
        }
        for name, draw in SPECTRA.items()
    }


def schatten(spectra: Spectra, name: str, norm: str) -> dict[int, Mean]:
    order = SCHATTEN[norm]
    return {
        d: Mean.of([float(np.linalg.norm(values, order)) for values in draws])
        for d, draws in spectra[name].items()
    }


def exponent(spectra: Spectra, name: str, norm: str) -> Slope:
    found = {d: mean for d, mean in schatten(spectra, name, norm).items() if d >= FITTED_FROM}
    return log_slope(list(found), list(found.values()))


def growth(spectra: Spectra, norm: str) -> Finding:
    """Fit the exponent of d for each noise distribution, and the constants at the largest d."""
    slopes = {name: exponent(spectra, name, norm) for name in SPECTRA}
    expected = EXPONENTS[norm]
    last = max(spectra[PRINTED])
    constants = {
        name: schatten(spectra, name, norm)[last].value / last**expected for name in SPECTRA
    }
    text = ", ".join(f"{name} {slopes[name]} ({constants[name]:.2f})" for name in SPECTRA)
    return Finding(
        f"exponents of d (norm over d^{expected:g}/eps at d = {last}; derived for the "
        f"first {EDGES[norm]:.2f}): {text}",
        slopes[PRINTED].near(expected, TOLERANCE)
        and abs(constants[PRINTED] / EDGES[norm] - 1) < LEVEL,
    )


def constants(spectra: Spectra) -> str:
    """Compare measured constants with their limits."""
    parts = []
    for name, (edge, cubic) in LIMITS.items():
        last = max(spectra[name])
        squares = Mean.of([float(values @ values) / last**3 for values in spectra[name][last]])
        top = schatten(spectra, name, "spectral")[last]
        parts.append(
            f"{name}: spectral {top.value / last:.3f} ± {top.error / last:.3f} d [{edge:.3f}], "
            f"squared Frobenius {squares.value:.3f} ± {squares.error:.3f} d^3 [{cubic:.3f}]"
        )
    return "; ".join(parts)


def concentration(spectra: Spectra) -> Finding:
    """Check that upper quantiles of the spectral norm do not grow faster than d."""
    tops = {
        d: np.array([values.max() for values in draws]) / d for d, draws in spectra[PRINTED].items()
    }
    quantiles = {d: float(np.quantile(found, 0.95)) for d, found in tops.items()}
    spread = {d: float(found.std(ddof=1) / found.mean()) for d, found in tops.items()}
    largest = max(float(found.max()) for found in tops.values())
    narrowing = list(spread.values())
    return Finding(
        f"95% quantile over d/eps: "
        f"{', '.join(f'{q:.2f} (d = {d})' for d, q in quantiles.items())}, largest of all draws "
        f"{largest:.2f}, limit {2 * math.pi:.2f}; relative spread {narrowing[0]:.3f} to "
        f"{narrowing[-1]:.3f}",
        narrowing[-1] < narrowing[0]
        and max(quantiles.values()) <= 2 * min(quantiles.values())
        and quantiles[max(quantiles)] <= 1.1 * quantiles[min(quantiles)],
    )


def scaling(small: bool, folder: Path) -> Finding:
    """Fit the exponents of n and epsilon of Algorithm 1 at d = 10 on random tables."""
    generator = seeds.generator(20250004)
    d, repeats = 10, 30 if small else 200

    def error(n: int, epsilon: float) -> Mean:
        table = generator.standard_normal((n, d))
        table /= np.linalg.norm(table, axis=1, keepdims=True)
        truth = table.T @ table / n
        scale = factor("Algorithm 1", d, n) * NUCLEAR_SENSITIVITY / (epsilon * n)
        law = SquareNuclearLaplace(d, scale)
        released = [truth + law.simulate(generator) for _ in range(repeats)]
        return Mean.of([float(np.linalg.norm(one - truth)) for one in released])

    counts, epsilons = (100, 1_000, 10_000), (0.1, 1.0, 10.0)
    in_n = log_slope(counts, [error(n, 1.0) for n in counts])
    in_epsilon = log_slope(epsilons, [error(1_000, epsilon) for epsilon in epsilons])
    return Finding(
        f"exponent of n {in_n}, of eps {in_epsilon}",
        in_n.near(-1, 0.02) and in_epsilon.near(-1, 0.02),
    )


def other_norms(small: bool, folder: Path) -> Finding:
    """Fit the exponents of d of the printed noise in other Schatten norms."""
    orders = (10, 20, 40) if small else (10, 20, 40, 70)
    generator = seeds.generator(20250005)
    draws = {d: [SPECTRA[PRINTED](d, generator) for _ in range(20)] for d in orders}
    slopes = {}
    for p in OTHER_ORDERS:
        norms = [Mean.of([float(np.linalg.norm(values, p)) for values in draws[d]]) for d in orders]
        slopes[p] = log_slope(orders, norms)
    return Finding(
        ", ".join(f"{found} (p = {p:g}: {1 + 1 / p:.3f})" for p, found in slopes.items()),
        all(found.near(1 + 1 / p, TOLERANCE) for p, found in slopes.items()),
    )


def figures(spectra: Spectra, folder: Path) -> None:
    for norm, power in EXPONENTS.items():
        lower = norm.lower()
        series = {
            name: (
                list(found),
                [mean.value / d**power for d, mean in found.items()],
                [mean.error / d**power for d, mean in found.items()],
            )
            for name, found in ((name, schatten(spectra, name, norm)) for name in SPECTRA)
        }
        lines(
            folder / f"{lower}_norm.svg",
            f"{norm[0].upper() + norm[1:]} norm of the noise over d^{power:g}/eps (Theorem 1.1)",
            ("d", f"norm / d^{power:g}, matrix X X', eps = 1"),
            series,
        )
        write_means(
            folder / f"{lower}_norm.csv",
            "d",
            {name: schatten(spectra, name, norm) for name in SPECTRA},
        )


def findings(small: bool, folder: Path) -> dict[str, Finding]:
    spectra = simulate(small)
    figures(spectra, folder)
    found = {f"theorem11-{norm.lower()}": growth(spectra, norm) for norm in EXPONENTS}
    frobenius = found["theorem11-frobenius"]
    found["theorem11-frobenius"] = Finding(
        f"{frobenius.measured}. Limits in brackets: {constants(spectra)}", frobenius.holds
    )
    return found | {"concentration": concentration(spectra)}
