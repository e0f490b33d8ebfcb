"""Section 3: the lemmas behind Theorem 2, its rank-k form, Corollaries 1 and 2, and the crossover.

A direction u is drawn from exp(t u'Cu), with t = epsilon_i / 4. Lemma 4's argument gives these
constants, for the largest eigenvalue l. Directions with u'Cu < l - 2x have a total weight of at
most exp(t(l - 2x)). Directions with u_1^2 >= 1 - x/l have a weight of at least exp(t(l - x)) times
their fraction of the sphere. This fraction is P(B <= x/l) for B ~ Beta((d - 1)/2, 1/2). Therefore

    P(u'Cu < l - 2x) <= exp(-t x) / P(B <= x/l).
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import beta, binomtest

import seeds
from amin2019.figure1 import ENTRIES
from amin2019.methods import DELTAS, released
from amin2019.tables import Matrix, seed_of, synthetic
from claims import Finding, alone
from dpcov.core.samplers.discrete import discrete_laplace
from dpcov.mechanisms import EigenvectorSampling
from dpcov.papers.samplers.bingham import Bingham
from faults import factor
from slopes import Mean, log_slope

Vector = NDArray[np.float64]
REJECTED = 1e-4
REPEATS = {True: 4, False: 30}  # by whether the run is small
BETA = 0.05
CONCENTRATION = 0.25  # t over epsilon_i, as printed
LARGEST = 1e6
SPECTRA = {
    "one direction": lambda d: np.eye(d)[0],
    "half": lambda d: (np.arange(d) < (d + 1) // 2).astype(float),
    "linear": lambda d: 1 - np.arange(d) / d,
}


def losses(spectrum: Vector, epsilon: float, count: int, seed: int) -> Vector:
    """Return (count,) values of l - u'Cu for a diagonal C with this spectrum."""
    entropy = seeds.entropy(seed)
    law = Bingham(CONCENTRATION * epsilon / factor("direction", len(spectrum)) * spectrum)
    drawn = np.array([law.sample(entropy).vector for _ in range(count)])
    return np.asarray(spectrum.max() - drawn**2 @ spectrum)


def log_chance(loss: float, d: int, largest: float, t: float) -> float:
    """Return the logarithm of the bound above on P(l - u'Cu > loss)."""
    share = float(beta.logcdf(min(1.0, loss / 2 / largest), (d - 1) / 2, 0.5))
    return -t * loss / 2 - max(share, -1e9)


def worst_loss(d: int, largest: float, t: float, failure: float) -> float:
    """Return the loss that is exceeded with probability at most `failure`, by the bound above."""
    if d == 1:
        return 0.0
    if log_chance(2 * largest, d, largest, t) > math.log(failure):
        return largest
    found = brentq(
        lambda log: log_chance(math.exp(log), d, largest, t) - math.log(failure),
        math.log(largest) - 30,
        math.log(2 * largest),
    )
    return min(largest, math.exp(found))


def lemma_3() -> Finding:
    """Test the largest of k Laplace variables, drawn by the library's sampler."""
    worst, reported = 1.0, []
    for k in (1, 10, 100):
        runs = 100_000 // k
        scale = Fraction(2**20 * factor("Laplace"))
        noise = discrete_laplace(scale, runs * k, seeds.entropy(k)).reshape(runs, k)
        above = np.abs(noise.astype(float)).max(axis=1) >= 2**20 * math.log(k / BETA)
        exact = 1 - (1 - BETA / k) ** k
        worst = min(worst, float(binomtest(int(above.sum()), runs, exact).pvalue))
        reported.append(f"{above.mean():.4f} (k = {k}, derived {exact:.4f})")
    return Finding(f"above in a share of {', '.join(reported)}", worst > REJECTED)


def lemma_4(count: int) -> Finding:
    """Compare the frequency of misses by more than 2 tau with Lemma 4's bound."""
    worst, ratios = 1.0, []
    for d in (3, 10, 30):
        found = losses(LARGEST * SPECTRA["one direction"](d), 1.0, count, d)
        for failure in (0.5, 0.05, 0.01):
            loss = worst_loss(d, LARGEST, CONCENTRATION, failure)
            above = int(np.sum(found > loss))
            test = binomtest(above, count, failure, alternative="greater")
            worst = min(worst, float(test.pvalue))
            ratios.append(float(np.quantile(found, 1 - failure)) / loss)
    return Finding(
        f"quantiles of the loss are {min(ratios):.2f} to {max(ratios):.2f} of 2 tau",
        worst > REJECTED,
    )


def lemma_5(count: int) -> Finding:
    """Measure how the loss of one direction grows with d and with the largest eigenvalue."""
    orders, sizes = (5, 10, 20, 40), (1e3, 1e5, 1e7)
    means = {d: Mean.of(losses(LARGEST * SPECTRA["linear"](d), 1.0, count, d)) for d in orders}
    by_size = [Mean.of(losses(s * SPECTRA["one direction"](20), 1.0, count, int(s))) for s in sizes]
    in_d, in_size = (
        log_slope([d - 1 for d in orders], list(means.values())),
        log_slope(sizes, by_size),
    )
    ratios = [mean.value / (2 * (d - 1)) for d, mean in means.items()]
    return Finding(
        f"exponent of d - 1 {in_d}, of the largest eigenvalue {in_size}; the mean loss is "
        f"{min(ratios):.2f} to {max(ratios):.2f} times 2(d - 1)/epsilon",
        in_d.value - 2 * in_d.error <= 1.05 and abs(in_size.value) <= 0.05 + 2 * in_size.error,
    )


def lemma_6(small: bool) -> Finding:
    """Compare both sides on random matrices, frames and values; they are equal if tau is 0."""
    generator, worst, apart = seeds.generator(20190006), 0.0, 0.0
    for _ in range(100 if small else 1000):
        d = int(generator.integers(2, 20))
        values = np.sort(generator.exponential(size=d) ** 3)[::-1]
        frame = np.linalg.qr(generator.normal(size=(d, d)))[0]
        tau = generator.choice([0.0, 0.1, 1.0])
        kept = values + tau * generator.choice([-1.0, 1.0], d)
        left = float(np.linalg.norm(np.diag(values) - (frame * kept) @ frame.T))
        caught = np.einsum("ji,j,ji->i", frame, values, frame)
        right = math.sqrt(2 * float(values @ (values - caught))) + tau * math.sqrt(d)
        worst = max(worst, left / right)
        apart = max(apart, abs(left / right - 1) if tau == 0 else 0.0)
    return Finding(
        f"at most {worst:.6f} of the bound; equal to {apart:.0e} where tau = 0", worst <= 1 + 1e-9
    )


def allowed(spectrum: Vector, rank: int, epsilon: float) -> tuple[float, float]:
    """Return the constants of Theorem 2 for k directions of epsilon / 2k each.

    The function returns a and b with ||C - C_k^|| <= sqrt(||C - C_k||^2 + a) + b. The bound holds
    except with probability `BETA`. By Cauchy's interlacing, the i-th eigenvalue is at most the
    largest eigenvalue of C_i. Direction i therefore misses at most `worst_loss` of the eigenvalue.
    The rest is Lemma 6, in which C_k^ has only k directions.
    """
    d, each = len(spectrum), BETA / (rank + 1)
    t = CONCENTRATION * epsilon / (2 * rank)
    lost = np.array([worst_loss(d - i, spectrum.max(), t, each) for i in range(rank)])
    tau = 4 / epsilon * math.log(rank / each)
    return 2 * float(spectrum[:rank] @ lost), tau * math.sqrt(rank)


def rank_k(spectrum: Vector, rank: int, repeats: int) -> list[Matrix]:
    """Estimate with `rank` directions at epsilon = 1 and a uniform split."""
    d, n = len(spectrum), math.ceil(spectrum.sum())
    held = synthetic(f"rank {rank} {d} {n}", np.diag(spectrum), n)
    mechanism = EigenvectorSampling(rank=rank, allocation="uniform", paper_constants=True)
    method, epsilon = released(mechanism, "none"), 1 / factor("rank k", d, n)
    return [method(held, epsilon, seed_of("rank", held.name, i)) for i in range(repeats)]


def ranks(small: bool, folder: Path) -> dict[str, Finding]:
    """Compare rank-k approximations with C_k for a nearly round C, and with any C."""
    d, k, repeats = 20, 3, 5 if small else 40
    leading, reported, ratios = np.arange(d) < k, [], []
    for size in (1e4, 1e6, 1e8):
        spectrum = size + leading  # a gap of 1, which no direction sees
        away = [
            np.linalg.norm(m - np.diag(spectrum * leading)) for m in rank_k(spectrum, k, repeats)
        ]
        rate = math.sqrt(k * d * size * 2 * k) + 2 * math.sqrt(k)
        ratios.append(float(np.mean(away)) / rate)
        derived = size * math.sqrt(2 * k * (1 - k / d)) / rate
        reported.append(f"{ratios[-1]:.3g} (derived {derived:.3g}) at {size:g}")
    worst = 0.0
    for shape in SPECTRA.values():
        for rank in (1, 3, 10):
            spectrum = LARGEST * shape(d)
            squared, values = allowed(spectrum, rank, 1.0)
            rest = float(spectrum[rank:] @ spectrum[rank:])
            for estimate in rank_k(spectrum, rank, repeats):
                error = float(np.linalg.norm(estimate - np.diag(spectrum)))
                worst = max(worst, (max(error - values, 0.0) ** 2 - rest) / squared)
    return {
        "rank-k": Finding(
            f"||C_k - C_k^|| over the rate, d = {d}, k = {k}, by the size of the eigenvalues: "
            + ", ".join(reported),
            ratios[-1] <= 2,
            exact=ratios[-1] > 100,
        ),
        "rank-k-excess": Finding(
            f"||C - C_k^||^2 - ||C - C_k||^2 is at most {worst:.3f} of its bound", worst <= 1
        ),
    }


def corollary_1(small: bool, folder: Path) -> Finding:
    """Measure AD's error over Corollary 1's rate, against d."""
    repeats = REPEATS[small]
    orders, epsilon = (8, 16, 32, 64), 1.0
    found = []
    for d in orders:
        spectrum = LARGEST / np.arange(1.0, d + 1)
        errors = _errors("AD", spectrum, epsilon, repeats)
        rate = (
            math.sqrt(d / epsilon) * np.sqrt(spectrum + 1 / epsilon).sum() + math.sqrt(d) / epsilon
        )
        found.append(Mean.of(np.array(errors) / rate))
    slope = log_slope(orders, found)
    return Finding(
        f"{', '.join(f'{mean.value:.2f}' for mean in found)} times the rate at d = "
        f"{', '.join(map(str, orders))}; exponent {slope}",
        slope.value - 2 * slope.error <= 0.1,
    )


def corollary_2(small: bool, folder: Path) -> Finding:
    """Measure the error over zeta l, for the least l that Corollary 2 allows."""
    repeats = REPEATS[small]
    worst: dict[str, float] = {}
    for d in (4, 8, 16, 32):
        for zeta in (0.5, 0.25, 0.125):
            largest = 2 * d**3 / zeta**2 * math.log(d / zeta)
            for name, shape in SPECTRA.items():
                errors = _errors("IT-U", largest * shape(d), 1.0, repeats)
                worst[name] = max(
                    worst.get(name, 0), float(np.quantile(errors, 0.99)) / zeta / largest
                )
    reported = ", ".join(f"{ratio:.2f} ({name})" for name, ratio in worst.items())
    return Finding(
        f"99% quantile of the error, at most {reported} times zeta l", max(worst.values()) <= 2
    )


def _errors(method: str, spectrum: Vector, epsilon: float, repeats: int) -> list[float]:
    """Return errors ||C_hat - C||_F of a method of Figure 1."""
    n = math.ceil(spectrum.sum())
    held = synthetic(f"{len(spectrum)} {n} {spectrum[-1]:g}", np.diag(spectrum), n)
    seed = ("bounds", held.name, method, epsilon)
    return [
        n * held.error(ENTRIES[method].estimate(held, epsilon, seed_of(*seed, i)))
        for i in range(repeats)
    ]


def crossover(small: bool, folder: Path) -> Finding:
    """Compare AD and IT-U with the Gaussian mechanism at l log l = log(1/delta) / epsilon."""
    repeats = REPEATS[small]
    won: dict[str, list[str]] = {"AD": [], "IT-U": []}
    every, zero = [], 0
    for d in (5, 20, 50):
        for epsilon in (0.01, 0.1, 1.0):
            for gaussian, delta in DELTAS.items():
                edge = math.log(1 / delta) / epsilon
                largest = brentq(lambda x, e=edge: x * math.log(x) - e, 1, 1e6)
                spectrum = largest * SPECTRA["linear"](d)
                rival = float(np.mean(_errors(gaussian, spectrum, epsilon, repeats)))
                every.append(f"d = {d}, eps = {epsilon:g}, {gaussian}")
                zero += np.linalg.norm(spectrum) < rival
                for method, places in won.items():
                    if np.mean(_errors(method, spectrum, epsilon, repeats)) < rival:
                        places.append(every[-1])
    reported = ", ".join(f"{method} on {len(places)}" for method, places in won.items())
    lost = [place for place in every if place not in won["IT-U"]]
    return Finding(
        f"{reported} of {len(every)} cells (IT-U lost: {'; '.join(lost)}); the zero "
        f"matrix beats the Gaussian mechanism on {zero}",
        len(won["IT-U"]) == len(every),
    )


def gaussian_bounds(small: bool, folder: Path) -> Finding:
    """Compare the bound of section 3.1 with the Gaussian mechanism's, without their constants."""
    wrong, cells = 0, 0
    for d, epsilon, delta in product((2, 20, 1000), (0.01, 0.1, 1.0), (1e-16, 1e-10, 1e-3)):
        rival = d**1.5 * math.sqrt(math.log(1 / delta)) / epsilon
        edge = math.log(1 / delta) / epsilon
        border = brentq(lambda x, e=edge: x * math.log(x) - e, 1, 1e6)
        for largest in border * np.array([0.5, 1 - 1e-9, 1 + 1e-9, 2.0]):
            first = d**1.5 * math.sqrt(largest * math.log(largest) / epsilon)
            wrong += (first <= rival) != (largest <= border)
            wrong += math.sqrt(d) / epsilon > rival
            cells += 1
    return Finding(f"{wrong} of {cells} cells against the sentence", wrong == 0)


def against_kapralov_talwar(small: bool, folder: Path) -> dict[str, Finding]:
    """Compare the bounds, and the errors at the least l of Corollary 2, at epsilon = 1."""
    repeats, cells, apart = REPEATS[small] // 2, 0, 0.0
    won = dict.fromkeys(SPECTRA, 0)
    for d, zeta in product((4, 8, 16), (0.5, 0.25)):
        log = math.log(d / zeta)
        largest = 2 * d**3 / zeta**2 * log
        gain = d**4 / zeta**6 / largest * 2 * log
        apart = max(apart, abs(gain / (d / zeta**4) - 1))
        cells += 1
        for name, shape in SPECTRA.items():
            ours, theirs = (
                np.mean(_errors(method, largest * shape(d), 1.0, repeats))
                for method in ("IT-U", "KT")
            )
            won[name] += int(ours < theirs)
    return {
        "kt-bounds": Finding(
            f"the ratio without the logarithm is d/zeta^4 to within {apart:.0e}", apart < 1e-9
        ),
        "kt-gain": Finding(
            "less error on "
            + ", ".join(f"{count} of {cells} ({name})" for name, count in won.items()),
            min(won.values()) == cells,
        ),
    }


def lemmas(small: bool, folder: Path) -> dict[str, Finding]:
    """Measure the first results of section 3."""
    count = 300 if small else 3000
    return {
        "lemma-3": lemma_3(),
        "lemma-4": lemma_4(count),
        "lemma-5": lemma_5(count),
        "lemma-6": lemma_6(small),
    }


PARTS = (
    lemmas,
    ranks,
    alone("corollary-1", corollary_1),
    alone("corollary-2", corollary_2),
    alone("gaussian-crossover", crossover),
    alone("gaussian-bounds", gaussian_bounds),
    against_kapralov_talwar,
)
