"""Ridge regression from one release against methods made for one regression; R^2 on unseen rows.

`python benchmarks/ridge.py [DATA SET ...]`. Add/remove, delta = 1e-6 for ours and AdaSSP. All
predictions are cut to the target's public bounds. Bounds are ranges widened by a tenth on each
side, taken from the data: for experiments only.

AdaSSP is Algorithm 2 of Wang (2018), Revisiting differentially private linear regression. Output
perturbation is pure epsilon-DP (Chaudhuri, Monteleoni and Sarwate 2011) under replace-one, with its
penalty chosen on the unseen rows, which flatters it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import dpcov
from accuracy import RememberedRows
from datasets import DATA
from discriminant import adult_frame
from dpcov.analysis.features import new_rows
from dpcov.denoise import denoise
from dpcov.entropy import Entropy, simulation_generator
from dpcov.errors import ReleaseError
from dpcov.planning import choose
from dpcov.privacy import ApproxDP, Neighbors
from dpcov.schema import Schema
from dpcov.sources import open_source
from results import show, write

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-6
SPLITS = 20
TEST_SHARE = 0.2
MARGIN = 0.1
LIKELY = 0.05  # rho of AdaSSP
PENALTIES = np.geomspace(1e-6, 1e2, 33)


def _numbers(frame: pd.DataFrame) -> tuple[pd.DataFrame, Schema]:
    lows, highs = frame.min(), frame.max()
    margin = MARGIN * (highs - lows)
    return frame, Schema.from_bounds(lows - margin, highs + margin, list(map(str, frame)))


def _named(table: Matrix) -> tuple[pd.DataFrame, Schema]:
    return _numbers(pd.DataFrame(table, columns=[f"x{j}" for j in range(table.shape[1])]))


def _airfoil() -> tuple[pd.DataFrame, Schema]:
    return _named(np.loadtxt(DATA / "airfoil" / "airfoil_self_noise.dat"))


def _wine() -> tuple[pd.DataFrame, Schema]:
    return _named(np.loadtxt(DATA / "wine" / "wine.data", delimiter=",")[:, 1:])


def _parkinsons() -> tuple[pd.DataFrame, Schema]:
    file = DATA / "parkinsons_telemonitoring" / "parkinsons_updrs.data"
    return _numbers(pd.read_csv(file).drop(columns=["subject#", "motor_UPDRS"]).astype(float))


def _diabetes() -> tuple[pd.DataFrame, Schema]:
    from sklearn.datasets import load_diabetes

    return _numbers(load_diabetes(as_frame=True, scaled=False).frame.astype(float))


def _housing() -> tuple[pd.DataFrame, Schema]:
    """20,640 rows in the manner of California's housing: skewed, the target capped."""
    generator = np.random.default_rng(0)
    income = generator.gamma(4.0, 1.0, 20640)
    age = generator.uniform(1, 52, 20640)
    rooms = 5 + 0.3 * income + generator.normal(0, 1, 20640)
    people = np.exp(generator.normal(7, 0.7, 20640))
    latitude, longitude = generator.normal(35.6, 2.1, 20640), generator.normal(-119.6, 2, 20640)
    value = 0.45 * income + 0.01 * age - 0.05 * (latitude + longitude + 84)
    value = np.clip(value + generator.normal(0, 0.7, 20640), 0.15, 5)
    columns = [income, age, rooms, people, latitude, longitude, value]
    return _named(np.column_stack(columns))


CASES: dict[str, tuple[Callable[[], tuple[pd.DataFrame, Schema]], tuple[str, ...]]] = {
    "adult": (adult_frame, ("hours-per-week", "income=>50K")),
    "airfoil": (_airfoil, ("x5",)),
    "wine": (_wine, ("x0",)),
    "parkinsons telemonitoring": (_parkinsons, ("total_UPDRS",)),
    "diabetes": (_diabetes, ("target",)),
    "housing-like": (_housing, ("x6",)),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """A regression in encoded units, a constant 1 as the last feature.

    `gram`, `cross`: (k, k), (k,) sums over the training rows; `size`: bound on the norm of their
    features, that of the target being 1; `features`, `target`: unseen rows.
    """

    gram: Matrix
    cross: Vector
    count: int
    size: float
    features: Matrix
    target: Vector
    lowest: float

    def r_squared(self, prediction: Vector) -> float:
        errors = np.clip(prediction, self.lowest, 1.0) - self.target
        return float(1 - np.mean(errors**2) / np.var(self.target))

    def score(self, weights: Vector) -> float:
        return self.r_squared(self.features @ weights)


def not_private(problem: Problem) -> float:
    tiny = 1e-9 * problem.count * np.eye(len(problem.gram))
    return problem.score(np.linalg.solve(problem.gram + tiny, problem.cross))


def adassp(problem: Problem, epsilon: float, generator: np.random.Generator) -> float:
    k, size = len(problem.gram), problem.size
    log = np.log(6 / DELTA)
    unit = size**2 / (epsilon / 3)
    least = float(np.linalg.eigvalsh(problem.gram)[0])
    least = max(0.0, least + unit * (np.sqrt(log) * generator.standard_normal() - log))
    upper = np.triu(generator.standard_normal((k, k)))
    noise = upper + np.triu(upper, 1).T
    gram = problem.gram + np.sqrt(log) * unit * noise
    cross = problem.cross + np.sqrt(log) * unit / size * generator.standard_normal(k)
    penalty = max(0.0, np.sqrt(k * log * np.log(2 * k**2 / LIKELY)) * unit - least)
    return problem.score(np.linalg.solve(gram + penalty * np.eye(k), cross))


def output_perturbation(problem: Problem, epsilon: float, generator: np.random.Generator) -> float:
    """Best over penalties p of the minimiser of mean (w.x - y)^2 / 2 + p |w|^2 / 2, with noise.

    |w| <= 1 / sqrt(p), since 0 has the objective 1/2; so the loss is L-Lipschitz there,
    L = size (size / sqrt(p) + 1), and w changes by 2 L / (n p) at most.
    """
    k, n, size = len(problem.gram), problem.count, problem.size
    direction = generator.standard_normal(k)
    direction *= generator.gamma(k) / np.linalg.norm(direction)
    scores = []
    for penalty in PENALTIES:
        weights = np.linalg.solve(problem.gram / n + penalty * np.eye(k), problem.cross / n)
        change = 2 * size * (size / np.sqrt(penalty) + 1) / (n * penalty)
        scores.append(problem.score(weights + change / epsilon * direction))
    return max(scores)


def measure(name: str) -> list[dict[str, Any]]:
    load, targets = CASES[name]
    frame, schema = load()
    found: dict[tuple[str, str, float], list[float]] = {}
    for split in range(SPLITS):
        generator = np.random.default_rng(split)
        order = generator.permutation(len(frame))
        cut = int(TEST_SHARE * len(frame))
        unseen, seen = frame.iloc[order[:cut]], frame.iloc[order[cut:]]
        rows = RememberedRows(schema, open_source(seen, schema.file, ()))
        problems = {target: _problem(rows, schema, target, unseen, len(seen)) for target in targets}
        for target, problem in problems.items():
            found.setdefault((target, "not private", 0.0), []).append(not_private(problem))
        for epsilon in EPSILONS:
            release = _release(rows, epsilon, seed=split)
            for target, problem in problems.items():
                scores = {
                    "ours": _ours(release, target, problem, unseen, split),
                    "AdaSSP": adassp(problem, epsilon, generator),
                    "output perturbation": output_perturbation(problem, epsilon, generator),
                }
                for method, score in scores.items():
                    found.setdefault((target, method, epsilon), []).append(score)
    return [_row(name, target, epsilon, found) for target in targets for epsilon in EPSILONS]


def _release(rows: RememberedRows, epsilon: float, seed: int) -> dpcov.Release:
    budget, neighbors = ApproxDP(epsilon, DELTA), Neighbors.ADD_REMOVE
    mechanism = choose(rows.lattice(), budget, neighbors).mechanism
    entropy = Entropy.seeded(seed)
    made = mechanism(rows, budget=budget, neighbors=neighbors, entropy=entropy)
    return denoise(made, generator=simulation_generator(seed))


def _ours(
    release: dpcov.Release, target: str, problem: Problem, unseen: pd.DataFrame, seed: int
) -> float:
    try:
        model = dpcov.ridge(release, target, generator=np.random.default_rng(seed))
    except ReleaseError:  # nothing rises above the noise: the middle of the bounds
        return problem.r_squared(np.zeros(len(unseen)))
    feature = next(f for f in release.schema.features if f.name == target)
    return problem.r_squared((model.predict(unseen) - feature.center) / feature.scale)


def _problem(
    rows: RememberedRows, schema: Schema, target: str, unseen: pd.DataFrame, count: int
) -> Problem:
    names = [feature.name for feature in schema.features]
    own = schema.features[names.index(target)].column
    at = [j for j, feature in enumerate(schema.features) if feature.column != own]
    to = names.index(target)
    moment = rows.second_moments()[0]
    units = np.ones(len(names) + 1)
    units[-1] = moment.lattice.intercept_units * moment.lattice.step
    sums = moment.units.astype(np.float64) * moment.lattice.step**2 / np.outer(units, units)
    centers = np.array([feature.center for feature in schema.features])
    scales = np.array([feature.scale for feature in schema.features])
    encoded = (new_rows(schema, names, unseen) - centers) / scales
    constant = np.ones((len(encoded), 1))
    return Problem(
        sums[np.ix_([*at, -1], [*at, -1])],
        sums[[*at, -1], to],
        count,
        float(np.sqrt(len(schema.encoded_columns))),  # all but the target's, and the constant
        np.hstack([encoded[:, at], constant]),
        encoded[:, to],
        -1.0 if own == target else 0.0,
    )


def _row(
    name: str, target: str, epsilon: float, found: dict[tuple[str, str, float], list[float]]
) -> dict[str, Any]:
    methods = ("ours", "AdaSSP", "output perturbation")
    scores = {method: np.array(found[target, method, epsilon]) for method in methods}
    best = float(np.mean(found[target, "not private", 0.0]))
    ours = scores["ours"]
    behind = {m: scores[m] - ours for m in methods[1:]}
    spread = {m: float(np.std(d, ddof=1) / np.sqrt(len(d))) for m, d in behind.items()}
    return {
        "dataset": name,
        "target": target,
        "epsilon": epsilon,
        **{method: float(np.mean(score)) for method, score in scores.items()},
        "se of ours": float(np.std(ours, ddof=1) / np.sqrt(len(ours))),
        "not private": best,
        "gap": best - float(np.mean(ours)),
        "ok": all(float(np.mean(d)) <= 2 * spread[m] for m, d in behind.items()),
    }


def main(names: list[str]) -> bool:
    rows = [row for name in names or CASES for row in measure(name)]
    show("R^2 on unseen rows, 20 splits", rows)
    write("ridge.json", "python benchmarks/ridge.py", rows)
    return all(row["ok"] for row in rows)


if __name__ == "__main__":
    sys.exit(not main(sys.argv[1:]))
