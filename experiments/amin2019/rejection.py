"""Count the proposals that the sampler of Kent et al. makes for each direction of AD."""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import seeds
from amin2019 import published
from amin2019.figure1 import EPSILONS
from amin2019.tables import NAMES, Table, seed_of, table
from claims import Finding
from dpcov.papers.samplers.bingham import Bingham
from dpcov.papers.samplers.frame import sequential_frame
from slopes import Mean, log_slope

FAILURE = 0.05
REPEATS = 10
TOLERANCE = 0.05


@dataclass(frozen=True)
class Count:
    """Proposals for each direction drawn, over all repeats."""

    dataset: str
    d: int
    epsilon: float
    constants: str
    median: float
    mean: float
    largest: int


def findings(small: bool, folder: Path) -> dict[str, Finding]:
    """Return the median and the mean of the proposals, over d."""
    counts = measure((0.5, 4.0) if small else EPSILONS, 1 if small else REPEATS)
    with (folder / "rejection.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(asdict(counts[0])))
        writer.writeheader()
        writer.writerows(asdict(count) for count in counts)
    median = max(counts, key=lambda count: count.median / count.d)
    mean = max(counts, key=lambda count: count.mean / count.d)
    return {
        "rejections-median": Finding(
            f"largest median {median.median:g} of d = {median.d}",
            all(count.median < count.d for count in counts),
        ),
        "rejections-mean": Finding(
            f"largest mean {mean.mean:.2f} = {mean.mean / mean.d:.2f} d ({mean.dataset}, "
            f"{mean.constants} constants, epsilon {mean.epsilon:g}); most for one direction "
            f"{max(count.largest for count in counts)}",
            0.5 <= mean.mean / (2 * mean.d) <= 2,
        ),
    }


def measure(epsilons: tuple[float, ...], repeats: int) -> list[Count]:
    """Count proposals at the text's concentrations and at the published code's concentrations."""
    return [
        _count(table(name), epsilon, constants, repeats)
        for name in NAMES
        for epsilon in epsilons
        for constants in ("text", "published")
    ]


def text_plan(held: Table, epsilon: float, seed: int) -> NDArray[np.float64]:
    """Return the concentrations epsilon_i / 4 of Corollary 1."""
    scale = 4 / epsilon  # 2 / epsilon_0
    noise = seeds.generator(seed).laplace(0.0, scale, held.d)
    values = np.linalg.eigvalsh(held.moment)[::-1] + noise
    weights = np.sqrt(np.maximum(values + scale * np.log(2 * held.d / FAILURE), 0.0))
    return epsilon / 8 * weights / weights.sum()


def _count(held: Table, epsilon: float, constants: str, repeats: int) -> Count:
    drawn = []
    for i in range(repeats):
        seed = seed_of("rejection", held.name, epsilon, constants, i)
        if constants == "text":
            plan = text_plan(held, epsilon, seed)
        else:
            plan = published.plan(held, epsilon, seed, adaptive=True)[1]
        drawn.append(sequential_frame(held.moment, plan, seeds.entropy(seed)).proposals)
    counts = np.concatenate(drawn)
    return Count(
        *(held.name, held.d, epsilon, constants),
        *(float(np.median(counts)), float(counts.mean()), int(counts.max())),
    )


def growth(small: bool, folder: Path) -> Finding:
    """Fit the growth of the mean number of proposals with the number of coordinates."""
    orders, draws = (10, 30, 100, 300, 1000), 200 if small else 2000
    shapes = {"one large": lambda q: np.eye(q)[0], "linear": lambda q: 1 - np.arange(q) / q}
    slopes = {}
    for name, shape in shapes.items():
        for concentration in (1e2, 1e4, 1e6):
            means = []
            for q in orders:
                law, entropy = Bingham(concentration * shape(q)), seeds.entropy(q)
                rate = float(np.exp(law.log_accept(law.propose(draws, entropy))).mean())
                means.append(Mean(1 / rate, 0.0))
            slopes[f"{name}, {concentration:g}"] = log_slope(orders, means).value
    return Finding(
        "exponents of d " + ", ".join(f"{slope:.2f} ({name})" for name, slope in slopes.items()),
        max(slopes.values()) <= 0.5 + TOLERANCE,
    )
