"""Compare ridge regression from one release with methods for a single regression.

The measure is the out-of-sample R^2 over random splits; all methods use the same encoded rows. The
release by `standardized` also chooses alpha. It is compared with two methods:

- AdaSSP at the same (epsilon, 1e-6) under add/remove;
- output perturbation at the same epsilon under replace-one, with the best penalty in hindsight.

`make bench NAME=ridge_comparison` runs the script.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

import datasets
from accuracy import RememberedRows
from dpcov import ridge
from dpcov.analysis.features import new_rows
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import ApproxDP, Budget, Neighbors, PureDP
from dpcov.denoise import denoise
from dpcov.errors import ReleaseError
from dpcov.mechanisms import Standardized
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_source
from private_regression import Moments, adassp, output_perturbation
from results import Kept, show

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-6
SPLITS = 20
TEST_SHARE = 0.2
PENALTIES = np.geomspace(1e-4, 1e2, 13)  # of output perturbation
NEGLIGIBLE = 1e-9  # share of the rows, as the penalty without privacy

WINE_BOUNDS = [
    *((11, 15), (0, 6), (1, 4), (10, 30), (70, 170), (0, 4), (0, 6)),
    *((0, 0.7), (0, 4), (1, 14), (0.4, 2), (1, 4), (200, 1800)),
]
ADULT_BOUNDS = {
    "age": (0, 100),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 20_000),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}
AIRFOIL_BOUNDS = [(0, 20_000), (0, 25), (0, 0.35), (30, 75), (0, 0.06), (100, 145)]
DIABETES_BOUNDS = {
    "age": (18, 90), "sex": (1, 2), "bmi": (15, 45), "bp": (60, 140), "s1": (90, 310),
    "s2": (40, 250), "s3": (20, 100), "s4": (1, 10), "s5": (3, 6.5), "s6": (50, 130),
    "progression": (20, 350),
}  # fmt: skip
PARKINSONS_BOUNDS = {
    "age": (30, 90), "sex": (0, 1), "test_time": (-10, 220), "total_UPDRS": (0, 60),
    "Jitter(%)": (0, 0.05), "Jitter(Abs)": (0, 3e-4), "Jitter:RAP": (0, 0.03),
    "Jitter:PPQ5": (0, 0.03), "Jitter:DDP": (0, 0.08), "Shimmer": (0, 0.2),
    "Shimmer(dB)": (0, 2), "Shimmer:APQ3": (0, 0.1), "Shimmer:APQ5": (0, 0.15),
    "Shimmer:APQ11": (0, 0.2), "Shimmer:DDA": (0, 0.3), "NHR": (0, 0.5), "HNR": (0, 40),
    "RPDE": (0, 1), "DFA": (0.5, 0.9), "PPE": (0, 0.8),
}  # fmt: skip


@dataclass(frozen=True)
class Task:
    """A table with public bounds, and the column to predict."""

    frame: pd.DataFrame
    schema: Schema
    target: str


def _numeric(values: Matrix, bounds: list[Any], names: list[str], target: str) -> Task:
    import pandas as pd

    low, high = zip(*bounds, strict=True)
    frame = pd.DataFrame(values, columns=names)
    return Task(frame, Schema.from_bounds(low, high, names), target)


def wine() -> Task:
    """Return the task of predicting alcohol from the twelve other measurements."""
    names = [f"x{j}" for j in range(13)]
    return _numeric(datasets.wine(), WINE_BOUNDS, names, "x0")


def airfoil() -> Task:
    names = [f"x{j}" for j in range(6)]
    return _numeric(datasets.airfoil(), AIRFOIL_BOUNDS, names, "x5")


def diabetes() -> Task:
    from sklearn.datasets import load_diabetes

    loaded = load_diabetes(scaled=False)
    values = np.column_stack([loaded.data, loaded.target])
    names = list(DIABETES_BOUNDS)
    return _numeric(values, list(DIABETES_BOUNDS.values()), names, "progression")


def parkinsons() -> Task:
    """Return the task of predicting total UPDRS from age, sex, time and 16 voice measures."""
    names, columns = list(PARKINSONS_BOUNDS), datasets.recordings()
    values = np.column_stack([columns[name] for name in names])
    return _numeric(values, list(PARKINSONS_BOUNDS.values()), names, "total_UPDRS")


def california() -> Task:
    """Simulate 20,640 districts with the columns, ranges and tails of California housing."""
    generator = np.random.default_rng(1)
    n = 20_640
    wealth, urban, coast = generator.standard_normal((3, n))
    income = np.exp(1.2 + 0.45 * wealth)
    age = 28 + 8 * urban + 9 * generator.standard_normal(n)
    rooms = np.exp(1.65 + 0.12 * wealth - 0.1 * urban + 0.2 * generator.standard_normal(n))
    bedrooms = np.exp(0.05 + 0.1 * generator.standard_normal(n))
    people = np.exp(7 + 0.7 * generator.standard_normal(n))
    occupancy = np.exp(1.05 - 0.05 * wealth + 0.2 * generator.standard_normal(n))
    latitude = 35.6 + 2.1 * np.where(generator.random(n) < 0.5, 1, -1) * generator.random(n)
    longitude = -119.6 - 0.85 * (latitude - 35.6) - 0.8 * coast
    price = 0.4 + 0.42 * income + 0.3 * coast + 0.008 * age - 0.15 * occupancy
    price = price + 0.5 * generator.standard_normal(n) * np.sqrt(income / 3.5)
    columns = [income, age, rooms, bedrooms, people, occupancy, latitude, longitude]
    names = ["income", "age", "rooms", "bedrooms", "people", "occupancy", "latitude", "longitude"]
    bounds = [(0, 15), (1, 52), (0, 15), (0, 3), (0, 10_000), (0, 8), (32, 42), (-125, -114)]
    values = np.column_stack([*columns, np.clip(price, 0.15, 5)])
    return _numeric(values, [*bounds, (0, 5)], [*names, "price"], "price")


def _adult(target: str) -> Task:
    import pandas as pd

    frame = pd.DataFrame(
        [line.split(",") for line in datasets.adult_lines()], columns=datasets.ADULT_COLUMNS
    )
    frame["income"] = (frame["income"] == ">50K").astype(float)
    levels, columns = datasets.adult_levels(), {}
    for name in frame:
        if name in levels:
            columns[name] = {"kind": "categorical", "levels": levels[name]}
        else:
            low, high = (ADULT_BOUNDS | {"income": (0, 1)})[name]
            columns[name] = {"kind": "numeric", "lower": low, "upper": high}
            frame[name] = frame[name].astype(float)
    return Task(frame, Schema.parse({"columns": columns}), target)


TASKS: dict[str, Callable[[], Task]] = {
    "parkinsons": parkinsons,
    "airfoil": airfoil,
    "diabetes": diabetes,
    "wine": wine,
    "california-like": california,
    "adult hours": lambda: _adult("hours-per-week"),
    "adult income": lambda: _adult("income"),
}


@lru_cache(maxsize=2)
def task_named(name: str) -> Task:
    return TASKS[name]()


class Split:
    """Random split: the data source of the training rows, and the encoded test rows."""

    def __init__(self, task: Task, seed: int) -> None:
        order = np.random.default_rng(seed).permutation(len(task.frame))
        cut = int(TEST_SHARE * len(order))
        test, train = task.frame.iloc[order[:cut]], task.frame.iloc[order[cut:]]
        self.task, schema = task, task.schema
        self.rows = RememberedRows(schema, open_source(train, schema.file, ()))
        features = schema.features
        self.names = [f.name for f in features if f.name != task.target]
        self._at = [j for j, f in enumerate(features) if f.name != task.target]
        (self._to,) = (j for j, f in enumerate(features) if f.name == task.target)
        self._goal = features[self._to]
        self._values = new_rows(schema, self.names, test)
        self._truth = test[task.target].to_numpy(float)
        self._encoded = (self._values - [features[j].center for j in self._at]) / [
            features[j].scale for j in self._at
        ]

    def moments(self) -> Moments:
        moment = self.rows.second_moments()[0]
        lattice = moment.lattice
        whole = moment.units.astype(float) * lattice.step**2
        at = [*self._at, len(whole) - 1]
        t = lattice.intercept_units * lattice.step
        length = float(np.sqrt(self.task.schema.effective_radius**2 - 1 + t**2))
        return Moments(whole[np.ix_(at, at)], whole[at, self._to], moment.unit_count, length)

    def of_weights(self, weights: Vector) -> float:
        """Return R^2 on the test rows of a model of encoded features and the intercept."""
        lattice = self.rows.lattice()
        encoded = (
            self._encoded @ weights[:-1] + weights[-1] * lattice.intercept_units * lattice.step
        )
        return self._r_squared(self._goal.center + self._goal.scale * encoded)

    def of_release(self, budget: Budget, neighbors: Neighbors, seed: int) -> float:
        """Return R^2 of ridge on a standardized release, or of the midpoint if it has no answer."""
        entropy = Entropy.seeded(seed)
        made = Standardized()(self.rows, budget=budget, neighbors=neighbors, entropy=entropy)
        release = denoise(made, generator=simulation_generator(seed))
        try:
            draws = simulation_generator(seed)
            model = ridge(release, self.task.target, errors=False, generator=draws)
        except ReleaseError:
            return self._r_squared(np.full(len(self._truth), self._goal.center))
        return self._r_squared(model.predict(self._values))

    def _r_squared(self, predicted: Vector) -> float:
        return 1 - float(np.mean((self._truth - predicted) ** 2) / np.var(self._truth))


def on_split(job: tuple[str, int]) -> list[tuple[float, str, float]]:
    """Return (epsilon, method, R^2) for every method on one split."""
    name, seed = job
    split = Split(task_named(name), seed)
    moments = split.moments()
    found = []
    exact = split.of_weights(moments.ridge(NEGLIGIBLE * moments.count))
    for epsilon in EPSILONS:
        number = zlib.crc32(f"{name} {seed} {epsilon}".encode())
        draws = np.random.default_rng(number)
        found.append((epsilon, "non-private", exact))
        both = (
            ("ours, approx", ApproxDP(epsilon, DELTA), Neighbors.ADD_REMOVE),
            ("ours, pure", PureDP(epsilon), Neighbors.REPLACE_ONE),
        )
        for method, budget, neighbors in both:
            found.append((epsilon, method, split.of_release(budget, neighbors, number)))
        for method, tight in (("AdaSSP", False), ("AdaSSP, exact curve", True)):
            weights = adassp(moments, epsilon, DELTA, draws, tight=tight)
            found.append((epsilon, method, split.of_weights(weights)))
        for alpha in PENALTIES:
            weights = output_perturbation(moments, alpha, epsilon, draws)
            found.append((epsilon, f"output {alpha:.3g}", split.of_weights(weights)))
    return found


def cells_of(name: str, scores: dict[tuple[float, str], list[float]]) -> list[dict[str, Any]]:
    """Return a row for each epsilon and comparison; differences are paired by split."""
    cells = []
    for epsilon in EPSILONS:
        own = {method: np.array(s) for (at, method), s in scores.items() if at == epsilon}
        outputs = [own[method] for method in own if method.startswith("output")]
        best = max(outputs, key=np.mean)
        against = (
            ("ours, approx", "AdaSSP", own["AdaSSP"]),
            ("ours, approx", "AdaSSP, exact curve", own["AdaSSP, exact curve"]),
            ("ours, pure", "output perturbation, best alpha", best),
        )
        for method, peer, theirs in against:
            ours = own[method]
            gap = ours - theirs
            se = float(np.std(gap, ddof=1) / np.sqrt(len(gap)))
            cells.append(
                {
                    "task": name,
                    "epsilon": epsilon,
                    "ours": float(ours.mean()),
                    "peer": peer,
                    "theirs": float(theirs.mean()),
                    "difference": float(gap.mean()),
                    "se": se,
                    "non-private": float(own["non-private"].mean()),
                    "gap": float(np.mean(own["non-private"] - ours)),
                    "splits": len(gap),
                    "ok": bool(gap.mean() >= -2 * se),
                }
            )
    return cells


def measure(name: str, splits: int) -> list[dict[str, Any]]:
    scores: dict[tuple[float, str], list[float]] = {}
    with ProcessPoolExecutor(2) as pool:
        for found in pool.map(on_split, [(name, seed) for seed in range(splits)]):
            for epsilon, method, score in found:
                scores.setdefault((epsilon, method), []).append(score)
    return cells_of(name, scores)


def main() -> int:
    kept = Kept("ridge_comparison.json", "make bench NAME=ridge_comparison")
    for name in datasets.here(TASKS):
        kept.part(name, partial(measure, name, SPLITS))
    show("Out-of-sample R^2 of ridge regression", kept.rows)
    return int(not (kept.done() and all(row["ok"] for row in kept.rows)))


if __name__ == "__main__":
    sys.exit(main())
