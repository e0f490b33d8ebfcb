"""The public tables on which accuracy and speed are measured."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

DATA = Path(os.environ.get("DPCOV_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))
ADULT_COLUMNS = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status"),
    *("occupation", "relationship", "race", "sex", "capital-gain", "capital-loss"),
    *("hours-per-week", "native-country", "income"),
]
ADULT_NUMERIC = (0, 2, 4, 10, 11, 12)


def wine() -> Matrix:
    return np.loadtxt(DATA / "wine" / "wine.data", delimiter=",")[:, 1:]


def airfoil() -> Matrix:
    return np.loadtxt(DATA / "airfoil" / "airfoil_self_noise.dat")


def adult_lines() -> list[str]:
    """The 48,842 rows of both files as text, without blanks."""
    lines = []
    for name in ("adult.data.gz", "adult.test.gz"):
        with gzip.open(DATA / "adult" / name, "rt") as file:
            lines += [line.strip().rstrip(".").replace(", ", ",") for line in file]
    return [line for line in lines if line and not line.startswith("|")]


def adult_levels() -> dict[str, list[str]]:
    """Levels of the eight categorical columns, `?` among them."""
    cells = [line.split(",") for line in adult_lines()]
    return {
        name: sorted({row[j] for row in cells})
        for j, name in enumerate(ADULT_COLUMNS[:-1])
        if j not in ADULT_NUMERIC
    }


def adult() -> Matrix:
    """48,842 x 108: six numeric columns scaled to [0, 1], eight categorical ones as 0/1."""
    cells = [line.split(",") for line in adult_lines()]
    levels = adult_levels()
    columns = []
    for j, name in enumerate(ADULT_COLUMNS[:-1]):
        values = [row[j] for row in cells]
        if name in levels:
            columns += [np.array([v == level for v in values], float) for level in levels[name]]
        else:
            numbers = np.array(values, float)
            columns.append((numbers - numbers.min()) / np.ptp(numbers))
    return np.column_stack(columns)


def breast_cancer() -> Matrix:
    from sklearn.datasets import load_breast_cancer

    return load_breast_cancer().data


def digits() -> Matrix:
    from sklearn.datasets import load_digits

    return load_digits().data


TABLES: dict[str, Callable[[], Matrix]] = {
    "wine": wine,
    "airfoil": airfoil,
    "adult": adult,
    "breast cancer": breast_cancer,
    "digits": digits,
}


def rows_over_largest_norm(table: Matrix) -> Matrix:
    """The papers' preprocessing. Data-dependent, so for experiments only."""
    return table / np.linalg.norm(table, axis=1).max()
