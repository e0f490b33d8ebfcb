"""Table 1: how the spectral norm of the noise grows with d, and Lemma 1's tail bound."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

import seeds
from claims import Finding
from csv_table import write_means
from jiang2016.noise import DWORK, LAWS, WISHART_SCALE, blum_deviation, spectral_norm
from plots import lines
from slopes import Mean, Slope, coefficients, log_slope

EXPONENT_TOLERANCE = 0.05
FITTED_FROM = 50
REJECTED = 1e-4
EDGE = 0.05  # Relative distance from the limit that is allowed at finite d.
SURE = 5.0  # Standard errors that a counterexample needs.
OMEGA = "sqrt(d log d)"
THRESHOLDS = {  # Theorem 5 as printed, and as Table 1 implies it
    OMEGA: lambda d: math.sqrt(d * math.log(d)),
    "sqrt(d) log d": lambda d: math.sqrt(d) * math.log(d),
}
Norms = dict[str, dict[int, np.ndarray]]


def simulate(small: bool) -> Norms:
    """Simulate the spectral norms of independent draws, for each distribution and d."""
    orders = (2, 3, 5, 10, 20, 50, 100, 200) if small else (2, 3, 5, 10, 20, 50, 100, 200, 400)
    largest = 100 if small else 400
    generator = seeds.generator(20160002)
    return {
        name: {
            d: np.array([spectral_norm(draw(d, generator)) for _ in range(_repeats(d, largest))])
            for d in orders
        }
        for name, draw in LAWS.items()
    }


def _repeats(d: int, largest: int) -> int:
    return max(10, min(largest, largest * 40 // d))


def means(norms: Norms, name: str) -> dict[int, Mean]:
    return {d: Mean.of(draws) for d, draws in norms[name].items()}


def exponent(norms: Norms, name: str) -> Slope:
    """Fit the log-log slope from d = 50 on; corrections of finite d change it by less than 0.03."""
    found = {d: mean for d, mean in means(norms, name).items() if d >= FITTED_FROM}
    return log_slope(list(found), list(found.values()))


def growth(
    norms: Norms, name: str, expected: float, edge: float, upper: float | None = None
) -> Finding:
    """Check whether the slope is the expected exponent, or lies between it and `upper`.

    Also check whether the norm at the largest d is `edge` times the power of d. The spectrum ends
    at `edge` in the limit.
    """
    slope = exponent(norms, name)
    holds = slope.near(expected, EXPONENT_TOLERANCE)
    if upper is not None:
        holds = holds or expected <= slope.value <= upper
    last, mean = list(means(norms, name).items())[-1]
    return Finding(
        f"exponent {slope}; at d = {last} the norm is {mean.value / last**expected:.2f}"
        f" ± {mean.error / last**expected:.2f} times d^{expected:g}/eps (derived {edge:.2f})",
        holds and abs(mean.value / last**expected / edge - 1) < EDGE,
    )


def logarithm(norms: Norms) -> Finding:
    """Check whether the Wishart's norm has a term d log d beside d and the edge's term d^(1/3)."""
    found = {d: mean for d, mean in means(norms, "Wishart").items() if d >= 5}
    d = np.array(list(found), float)
    terms = WISHART_SCALE * np.column_stack([d, np.cbrt(d), d * np.log(d)])
    fitted, errors = coefficients(terms, list(found.values()))
    slope = exponent(norms, "Wishart")
    from_log = log_slope(
        [x for x in d if x >= FITTED_FROM], [Mean(x * np.log(x), 0) for x in d if x >= FITTED_FROM]
    )
    return Finding(
        f"exponent {slope} where d log d has {from_log.value:.3f} on these d. The coefficient of "
        f"d log d is {fitted[2]:.3f} ± {errors[2]:.3f} beside {fitted[0]:.2f} d (units 3/2 eps). "
        f"The limit is 4 d, that is 6 d/eps",
        slope.near(from_log.value, EXPONENT_TOLERANCE) and bool(fitted[2] > 3 * errors[2]),
    )


def upper_bound(norms: Norms) -> Finding:
    """Check O(d log d) as an upper bound: the ratio must not grow."""
    found = {d: mean for d, mean in means(norms, "Wishart").items() if d >= FITTED_FROM}
    ratios = [
        Mean(m.value / (d * math.log(d)), m.error / (d * math.log(d))) for d, m in found.items()
    ]
    slope = log_slope(list(found), ratios)
    last, mean = list(found.items())[-1]
    return Finding(
        f"norm over d log d/eps: {', '.join(f'{r.value:.2f}' for r in ratios)} at d = "
        f"{', '.join(map(str, found))}: falls, exponent {slope}; "
        f"at d = {last} {mean.value / last:.2f} d (derived 6)",
        slope.value <= 2 * slope.error and abs(mean.value / last / 6 - 1) < EDGE,
    )


def less_than_laplace(norms: Norms) -> Finding:
    """Check whether the Wishart's norm is below the Laplace mechanism's at every d."""
    ours, papers, tight = (
        means(norms, name) for name in ("Wishart", "Laplace (paper)", "Laplace (dpcov)")
    )
    ratio = {d: ours[d].value / papers[d].value for d in ours}
    above = [d for d in ours if ours[d].value > tight[d].value]
    return Finding(
        f"Wishart/Laplace {', '.join(f'{r:.2f} (d = {d})' for d, r in ratio.items())}; "
        f"above the Laplace mechanism with least certified scales at d = {above}",
        all(r < 1 for r in ratio.values()),
    )


def crossing(norms: Norms) -> dict[str, Finding]:
    """Find the ratio r = ||D||_11 / ||D||_* above which the Wishart noise is smaller (Theorem 5).

    The norm of Laplace noise with sensitivity s is s/2d times the norm of Algorithm 1's noise. The
    norm of Wishart noise with nuclear sensitivity t is t/3 times the norm of Algorithm 2's noise.
    The two norms are equal at the ratio s/t below.
    """
    wishart, laplace = means(norms, "Wishart"), means(norms, "Laplace (paper)")
    ratios = {
        d: 2 * d / 3 * wishart[d].value / laplace[d].value for d in wishart if d >= FITTED_FROM
    }
    parts = [
        Mean(
            r,
            r
            * math.hypot(wishart[d].error / wishart[d].value, laplace[d].error / laplace[d].value),
        )
        for d, r in ratios.items()
    ]
    slope = log_slope(list(ratios), parts)
    stated = {
        name: log_slope(list(ratios), [Mean(rate(d), 0.0) for d in ratios])
        for name, rate in THRESHOLDS.items()
    }
    measured = (
        f"equal norms at ||D||_11/||D||_* = "
        f"{', '.join(f'{r / math.sqrt(d):.3f}' for d, r in ratios.items())} times sqrt(d) at d = "
        f"{', '.join(map(str, ratios))}; exponent {slope}, of "
        f"{', of '.join(f'{name} {one.value:.3f}' for name, one in stated.items())}"
    )
    below = slope.value <= stated[OMEGA].value + 2 * slope.error
    alike = any(slope.near(one.value, EXPONENT_TOLERANCE) for one in stated.values())
    return {"theorem5": Finding(measured, below), "theorem5-otherwise": Finding(measured, alike)}


def tail(norms: Norms) -> Finding:
    """Check Lemma 1: lambda_1(W) exceeds the bound with probability at most eta = d exp(-theta)."""
    etas = (0.5, 0.05, 0.01)
    reached, checked, ratios, smallest = 0, 0, [], 1.0
    for d, draws in norms["Wishart"].items():
        for eta in etas:
            theta = math.log(d / eta)
            root = math.sqrt(2 * (d + 1) * (d + 2) * theta)
            bound = (d + 1 + root + 2 * theta * d) * WISHART_SCALE
            above = int(np.sum(draws >= bound))
            test = binomtest(above, len(draws), eta, alternative="greater")
            smallest = min(smallest, test.pvalue)
            reached, checked = reached + above, checked + len(draws)
            ratios.append(float(np.quantile(draws, 1 - eta)) / bound)
    return Finding(
        f"{reached} of {checked} (draw, eta) pairs reach the bound, eta = 0.5, 0.05, 0.01; "
        f"quantiles over bounds {min(ratios):.2f} to {max(ratios):.2f}",
        bool(smallest > REJECTED),
    )


def figure(norms: Norms, folder: Path) -> None:
    series = {
        name: (
            list(found),
            [mean.value for mean in found.values()],
            [mean.error for mean in found.values()],
        )
        for name, found in ((name, means(norms, name)) for name in norms)
    }
    d = list(norms["Wishart"])
    guides = {
        "6 d": (d, [6.0 * x for x in d]),
        "3.33 d": (d, [3.33 * x for x in d]),
        "5.66 d^1.5": (d, [4 * math.sqrt(2) * x**1.5 for x in d]),
    }
    lines(
        folder / "spectral_norm.svg",
        "Spectral norm of the noise (Table 1), eps = 1, delta = 1e-6",
        ("d", "mean spectral norm, matrix X X'"),
        series,
        guides=guides,
    )


def findings(small: bool, folder: Path) -> dict[str, Finding]:
    norms = simulate(small)
    figure(norms, folder)
    write_means(folder / "spectral_norm.csv", "d", {name: means(norms, name) for name in norms})
    ratio = means(norms, "matrix Laplace (dpcov)"), means(norms, "Wishart")
    relative = ", ".join(f"{ratio[0][d].value / ratio[1][d].value:.2f} (d = {d})" for d in ratio[0])
    mild = exponent(norms, "matrix Laplace (dpcov)")
    last = max(norms["Wishart"])
    blum = 2 * blum_deviation(last)
    clear = ratio[0][last].value + SURE * ratio[0][last].error < ratio[1][last].value
    return {
        "table1-laplace": growth(norms, "Laplace (paper)", 1.5, 4 * math.sqrt(2)),
        "table1-blum": growth(norms, "Blum et al. 2005", 1.5, blum / last, upper=1.61),
        "table1-wishart": upper_bound(norms),
        "table1-wishart-log": logarithm(norms),
        "table1-dwork": growth(norms, "Dwork et al. 2014", 0.5, 2 * DWORK),
        "always-less": less_than_laplace(norms),
        **crossing(norms),
        "lemma1": tail(norms),
        # The Wishart mechanism is no pure-DP mechanism at all (theorem4); here, the noise.
        "best": Finding(
            f"matrix Laplace, which is (eps, 0)-DP, has {relative} of the Wishart's norm; "
            f"exponent {mild}",
            all(ratio[1][d].value <= ratio[0][d].value for d in ratio[0]),
            exact=clear,
        ),
    }
