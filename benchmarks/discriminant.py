"""Measure the accuracy of linear discriminant analysis from one release, on held-out rows.

The release uses pure differential privacy under add/remove. Two references stand beside it:
scikit-learn on the raw rows, and the frequency of the largest class. The bounds of wine are the
observed ranges, widened by a tenth. Such bounds are for experiments only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from accuracy import RememberedRows
from datasets import ADULT_COLUMNS, adult_levels, adult_lines, found
from dpcov import lda
from dpcov.analysis.features import new_rows
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import Neighbors, PureDP
from dpcov.denoise import denoise
from dpcov.errors import ReleaseError
from dpcov.mechanisms import MatrixLaplace
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_source
from results import Kept, show

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
SPLITS = {"adult": 5, "wine": 20}
TEST_SHARE = 0.2
ADULT_BOUNDS = {
    "age": (0, 100),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 20_000),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}


def adult_frame() -> tuple[pd.DataFrame, Schema]:
    frame = pd.DataFrame([line.split(",") for line in adult_lines()], columns=ADULT_COLUMNS)
    levels: dict[str, Any] = adult_levels() | {"income": ["<=50K", ">50K"]}
    columns: dict[str, Any] = {}
    for name in ADULT_COLUMNS:
        if name in levels:
            columns[name] = {"kind": "categorical", "levels": levels[name]}
        else:
            low, high = ADULT_BOUNDS[name]
            columns[name] = {"kind": "numeric", "lower": low, "upper": high}
            frame[name] = frame[name].astype(float)
    return frame, Schema.parse({"columns": columns})


def wine_frame() -> tuple[pd.DataFrame, Schema]:
    classes, *values = np.loadtxt(found("wine/wine.data"), delimiter=",", unpack=True)
    frame = pd.DataFrame({f"x{j}": column for j, column in enumerate(values)})
    columns: dict[str, Any] = {"class": {"kind": "categorical", "levels": ["1", "2", "3"]}}
    for name in frame:
        low, high = frame[name].min(), frame[name].max()
        widening = 0.1 * (high - low)
        columns[name] = {"kind": "numeric", "lower": low - widening, "upper": high + widening}
    frame["class"] = [f"{level:.0f}" for level in classes]
    return frame, Schema.parse({"columns": columns})


CASES = (("adult", "income"), ("adult", "sex"), ("wine", "class"))
FRAMES = {"adult": adult_frame, "wine": wine_frame}


def split(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(count)
    cut = int(TEST_SHARE * count)
    return order[cut:], order[:cut]


def without_privacy(
    schema: Schema, target: str, train: pd.DataFrame, test: pd.DataFrame
) -> tuple[float, float]:
    """Return the accuracy of scikit-learn on the same features, and of the largest class."""
    names = [feature.name for feature in schema.features if feature.column != target]
    model = LinearDiscriminantAnalysis(solver="lsqr")
    model.fit(new_rows(schema, names, train), train[target])
    accuracy = model.score(new_rows(schema, names, test), test[target])
    return accuracy, float(np.mean(test[target] == train[target].mode()[0]))


def private(
    rows: RememberedRows, target: str, test: pd.DataFrame, epsilon: float, seed: int
) -> float:
    """Return the accuracy from a release, or the accuracy of a random guess if it has no answer."""
    made = MatrixLaplace()(
        rows,
        budget=PureDP(epsilon),
        neighbors=Neighbors.ADD_REMOVE,
        entropy=Entropy.seeded(seed),
    )
    release = denoise(made, "shrink", generator=simulation_generator(seed))
    try:
        model = lda(release, target, generator=simulation_generator(seed))
    except ReleaseError:
        return 1 / len(rows.schema.encoded_columns[target].labels)
    return float(np.mean(model.predict(test) == test[target]))


def cells_of(name: str, target: str) -> Iterator[dict[str, Any]]:
    """Return a row for each epsilon."""
    frame, schema = FRAMES[name]()
    reached: dict[float, list[float]] = {epsilon: [] for epsilon in EPSILONS}
    plain = []
    for seed in range(SPLITS[name]):
        train, test = (frame.iloc[part] for part in split(len(frame), seed))
        rows = RememberedRows(schema, open_source(train, schema.file, ()))
        plain.append(without_privacy(schema, target, train, test))
        for epsilon in EPSILONS:
            reached[epsilon].append(private(rows, target, test, epsilon, seed))
    exact, largest = np.mean(plain, axis=0)
    for epsilon, scores in reached.items():
        yield {
            "dataset": name,
            "target": target,
            "epsilon": epsilon,
            "accuracy": float(np.mean(scores)),
            "accuracy_se": float(np.std(scores, ddof=1) / np.sqrt(len(scores))),
            "non_private": float(exact),
            "largest_class": float(largest),
            "splits": len(scores),
        }


def main() -> int:
    kept = Kept("discriminant.json", "make bench NAME=discriminant")
    for case in CASES:
        kept.part(" by ".join(case), partial(cells_of, *case))
    show("Linear discriminant analysis from one release", kept.rows)
    return int(not kept.done())


if __name__ == "__main__":
    sys.exit(main())
