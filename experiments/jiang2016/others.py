"""Results that the paper cites: Theorems 1, 2, 8 and 10, Lemmas 3 to 5, and the power method.

Matrices are X X' (not / n) and epsilon = 1, as in `noise`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import beta, binomtest

import seeds
from amin2019.tables import seed_of, synthetic
from claims import Finding
from dpcov.core.privacy import Neighbors, PureDP, gaussian_delta
from dpcov.denoise import best_estimate, denoise
from dpcov.mechanisms import KapralovTalwar
from dpcov.papers.samplers.bingham import Bingham
from faults import factor
from jiang2016.noise import Matrix, matrix_laplace, spectral_norm
from jiang2016.subspace import LAWS, REJECTED, leading, sample_sizes, tables

TRUNCATION = 10.0
DELTA = 1e-5
POWERS = (1, 2, 4, 8)  # iterations of the power method; the best of them counts


def cited(small: bool) -> dict[str, Finding]:
    """Check the two mechanisms of section 2 by their exact losses."""
    outputs = np.linspace(-TRUNCATION, TRUNCATION, 2001)
    scale = factor("Laplace mechanism")
    lost = float(np.abs(np.abs(outputs) - np.abs(outputs - 1)).max() / scale)
    spread = math.sqrt(2 * math.log(1.25 / DELTA)) * factor("Gaussian mechanism")
    small_ones, large_ones = (_deltas(spread, epsilons) for epsilons in ((0.1, 0.5, 0.99), (10.0,)))
    return {
        "theorem1": Finding(f"an l1 change of s loses {lost:.4f} s/lambda", abs(lost - 1) < 1e-9),
        "theorem2": small_ones,
        "theorem2-large": large_ones,
    }


def _deltas(spread: float, epsilons: tuple[float, ...]) -> Finding:
    """Compare the printed delta with the exact one, for noise of deviation `spread` / epsilon."""
    deltas = {epsilon: gaussian_delta(epsilon / spread, epsilon) for epsilon in epsilons}
    return Finding(
        f"delta = {DELTA:g} as printed is "
        + ", ".join(f"{delta:.1e} (eps = {epsilon:g})" for epsilon, delta in deltas.items()),
        max(deltas.values()) <= DELTA,
        exact=True,
    )


def perturbation(small: bool) -> dict[str, Finding]:
    """Check the inequalities of Davis and Kahan and of Weyl on random matrices."""
    generator, turned, moved = seeds.generator(20160010), 0.0, 0.0
    for _ in range(200 if small else 2000):
        d = int(generator.integers(2, 12))
        before = np.diag(np.sort(generator.exponential(size=d))[::-1])
        change = generator.normal(size=(d, d)) * generator.choice([0.01, 0.1, 0.3])
        change += change.T
        values = np.linalg.eigvalsh(before + change)[::-1]
        shifts = np.linalg.eigvalsh(change)
        apart = values - np.diag(before)
        moved = max(moved, float(apart.max() - shifts[-1]), float(shifts[0] - apart.min()))
        for k in range(1, d):
            gap = before[k - 1, k - 1] - values[k]
            if gap > 0:
                apart_by = spectral_norm(leading(before, k) - leading(before + change, k))
                turned = max(turned, apart_by * gap / spectral_norm(change))
    return {
        "lemma3": Finding(f"at most {turned:.3f} of the bound", turned <= 1 + 1e-9),
        "lemma4": Finding(f"beyond the bounds by at most {moved:.0e}", moved <= 1e-9),
    }


def theorem8(small: bool) -> Finding:
    """Measure how often PPCA draws v from exp(n v'Av / 2) far from the leading eigenvector."""
    trials, failing, spare, ratios = 100 if small else 400, 0, [], []
    for d, rho, eta in product((3, 10, 30), (0.7072, 0.9, 0.99), (0.2, 0.05)):
        reading = sample_sizes(d, rho, eta)["by Lemma 1"]
        for number, spectrum in enumerate(tables(d, 0.1)):
            size = _size_of_ppca(d, rho, eta, float(spectrum[0]))
            ratios.append(size / reading)
            entropy = seeds.entropy(1000 * d + number)
            for times in (1, 2, 4, 8, 16, 32):
                law = Bingham(size / times / 2 / factor("PPCA", d) * spectrum)
                lost = sum(abs(law.sample(entropy).vector[0]) < rho for _ in range(trials))
                test = binomtest(int(lost), trials, eta, alternative="greater")
                if test.pvalue < REJECTED / 200:
                    failing += times == 1
                    break
            spare.append(times)
    return Finding(
        f"fails on {failing} of {len(spare)} cells of {trials} draws; it does with {min(spare)} to "
        f"{max(spare)} times fewer rows; n over Theorem 7's (by Lemma 1) {min(ratios):.2f} to "
        f"{max(ratios):.2f}",
        failing == 0,
    )


def _size_of_ppca(d: int, rho: float, eta: float, largest: float) -> float:
    """Return Theorem 8's n eps (lambda_1 - lambda_2); `largest` is lambda_1 over the gap."""
    return (math.log(1 / eta) + d * math.log(4 * largest / (1 - rho**2))) / (1 - rho)


def packing(d: int, sine: float) -> float:
    """Return the log-number of lines of which no two have an angle of sine 2 `sine` or less.

    The caps of a largest such set cover the sphere. Each cap is the fraction P(B <= 4 sine^2) of
    the sphere, with B ~ Beta((d - 1)/2, 1/2). This fraction is at most (2 sine)^(d - 1), because
    the ratio of B's density to the density of a power law increases. This is Lemma 5 for k = 1.
    """
    return -float(beta.logcdf(4 * sine**2, (d - 1) / 2, 0.5))


def least_error(d: int) -> tuple[float, int]:
    """Return an error that every 1-DP mechanism has for some line, and its number of rows.

    The mechanism has this error with probability 1/2.

    Let A = r y y' (r rows y), with y in a packing of N lines. For every s, ||A - s z z'|| >= r
    sin(y, z). Suppose that the error is below r `sine` with probability above 1/2 for all N lines.
    Then z is within `sine` of y with this probability. By group privacy, z is in each of the N
    disjoint caps with probability above exp(-r)/2. These probabilities sum to more than N
    exp(-r)/2, which is at least 1 for r <= log(N/2): a contradiction.
    """
    found = [(s, math.floor(packing(d, s) - math.log(2))) for s in np.linspace(0.01, 0.49, 49)]
    sine, rows = max(found, key=lambda pair: pair[0] * pair[1])
    return float(sine) * rows, rows


def theorem10(small: bool) -> dict[str, Finding]:
    """Compare errors of rank 1 with a lower bound for all pure mechanisms."""
    orders, repeats = (10, 20, 50, 100), 11 if small else 41
    generator, ratios = seeds.generator(20160011), {"matrix Laplace": [], "PPCA": []}
    for d in orders:
        bound, rows = least_error(d)
        truth = np.zeros((d, d))
        truth[0, 0] = rows
        law = Bingham(rows / 2 / factor("PPCA", d) * np.eye(d)[0])
        entropy = seeds.entropy(d)
        errors = {
            "matrix Laplace": [
                _excess(truth, matrix_laplace(d, generator), 1) for _ in range(repeats)
            ],
            "PPCA": [
                rows * math.sqrt(1 - law.sample(entropy).vector[0] ** 2) for _ in range(repeats)
            ],
        }
        for name, found in errors.items():
            ratios[name].append(float(np.median(found)) / bound)
    bounds = [least_error(d)[0] / d for d in orders]
    reported = "; ".join(
        f"{name} {min(found):.1f} to {max(found):.1f}" for name, found in ratios.items()
    )
    packed = [
        packing(d, s) / (d - 1) / math.log(1 / 2 / s) for d in orders for s in (0.05, 0.2, 0.4)
    ]
    return {
        "theorem10": Finding(
            "the zero matrix, which is private, has error lambda_1 where lambda_2 = 0", False, True
        ),
        "theorem10-lower": Finding(
            f"proved: {min(bounds):.3f} to {max(bounds):.3f} d/eps at d = "
            f"{', '.join(map(str, orders))}, k = 1; median error over it: {reported}",
            min(min(found) for found in ratios.values()) >= 1,
        ),
        "lemma5": Finding(
            f"log N is {min(packed):.2f} to {max(packed):.2f} "
            "times (d - 1) log(1/(2 delta)), k = 1",
            min(packed) >= 1,
        ),
    }


def _excess(truth: Matrix, noise: Matrix, k: int) -> float:
    """Return ||A - A_k^||_2 - lambda_(k+1) for a diagonal A of descending entries."""
    values, vectors = np.linalg.eigh(truth + noise)
    kept = vectors[:, -k:] * values[-k:] @ vectors[:, -k:].T
    return spectral_norm(truth - kept) - float(truth[k, k])


def power_method(truth: Matrix, k: int, steps: int, generator: np.random.Generator) -> float:
    """Return the excess of Hardt and Price's noisy power method with Laplace noise, in its favor.

    The method is (eps, 0)-DP: for orthonormal X with k columns, ||(v v' - u u') X||_1 is at most
    |v|_1 |X'v|_1 + |u|_1 |X'u|_1 <= 2 sqrt(d k), and `steps` steps share epsilon. The span is
    combined with the best values, which are not private.
    """
    d = len(truth)
    scale = 2 * math.sqrt(d * k) * steps
    basis = np.linalg.qr(generator.standard_normal((d, k)))[0]
    for _ in range(steps):
        noise = factor("power method") * generator.laplace(scale=scale, size=(d, k))
        basis = np.linalg.qr(truth @ basis + noise)[0]
    return float(np.linalg.norm(truth - basis @ (basis.T @ truth), 2) - truth[k, k])


def against_power_method(small: bool) -> Finding:
    """Compare the excess over lambda_(k+1) of additive noise and of the power method."""
    generator = seeds.generator(20160012)

    def excess(truth: Matrix, k: int, size: float, repeats: int) -> float:
        runs = [
            np.mean([power_method(truth, k, steps, generator) for _ in range(repeats)])
            for steps in POWERS
        ]
        return float(min(runs))

    return _against("power method", excess, generator, small)


def against_kapralov_talwar(small: bool, folder: Path) -> Finding:
    """Compare the excess over lambda_(k+1) of additive noise and of Kapralov and Talwar's pieces.

    The pieces have the least certified noise for replaced rows, which favours them.
    """
    budget = PureDP(1 / factor("Kapralov and Talwar"))

    def excess(truth: Matrix, k: int, size: float, repeats: int) -> float:
        d = len(truth)
        table = synthetic(f"harmonic {d} {size:g}", truth, math.ceil(np.trace(truth)))
        pieces = []
        for i in range(repeats):
            entropy = seeds.entropy(seed_of("pieces", d, k, size, i))
            made = KapralovTalwar(k)(
                table.rows, budget=budget, neighbors=Neighbors.REPLACE_ONE, entropy=entropy
            )
            kept = best_estimate(denoise(made, "none"))
            pieces.append(spectral_norm(truth - kept) - float(truth[k, k]))
        return float(np.mean(pieces))

    return _against("pieces", excess, seeds.generator(20160013), small)


def _against(
    other: str,
    excess: Callable[[Matrix, int, float, int], float],
    generator: np.random.Generator,
    small: bool,
) -> Finding:
    """Compare additive noise with another method, whose mean excess over lambda_(k+1) is given."""
    orders, ranks, repeats = (20, 50, 100), (2, 4, 8), 3 if small else 15
    found: dict[str, list[float]] = {name: [] for name in (other, *LAWS)}
    for d, k, size in product(orders, ranks, (1e2, 1e3, 1e4)):
        truth = np.diag(size * d / np.arange(1, d + 1))
        found[other].append(excess(truth, k, size, repeats))
        for name, draw in LAWS.items():
            found[name].append(
                float(np.mean([_excess(truth, draw(d, generator), k) for _ in range(repeats)]))
            )
    cells = len(found[other])
    won = {name: sum(np.array(found[name]) < np.array(found[other])) for name in LAWS}
    reported = ", ".join(f"{name} {np.median(list(each)):.3g}" for name, each in found.items())
    return Finding(
        f"less with Wishart on {won['Wishart']}, with matrix Laplace on {won['matrix Laplace']} of "
        f"{cells} cells; median excess: {reported}",
        bool(won["Wishart"] == cells),
    )


def findings(small: bool, folder: Path) -> dict[str, Finding]:
    return (
        cited(small)
        | perturbation(small)
        | theorem10(small)
        | {"theorem8": theorem8(small), "beats-power-method": against_power_method(small)}
    )
