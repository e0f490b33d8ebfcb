"""The public tables on which accuracy and speed are measured, and where their files are found.

A file is looked for in the folder that the environment variable `DPCOV_DATA` names, in `data` of
the repository, and in `data/fetched`, where `make data` puts what can't ship. Others come with
scikit-learn and statsmodels. `data/README.md` has sources and licences.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

T = TypeVar("T")
DATA = Path(__file__).parents[1] / "data"
RAND = "rand/randhie.csv.gz"
RAND_SCHEMA = Path(__file__).with_name("rand.toml")
FETCHED = DATA / "fetched"
ADULT_COLUMNS = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status"),
    *("occupation", "relationship", "race", "sex", "capital-gain", "capital-loss"),
    *("hours-per-week", "native-country", "income"),
]
ADULT_NUMERIC = (0, 2, 4, 10, 11, 12)
GENES, TISSUES = 2000, 62


class MissingTable(LookupError):  # noqa: N818 (the name says what is wrong)
    """No folder has a file of the table."""


def found(*names: str) -> Path:
    """Return the path of the first of these files that exists; all are forms of one table."""
    own = os.environ.get("DPCOV_DATA")
    folders = [*([Path(own)] if own else []), DATA, FETCHED]
    for path in (folder / name for name in names for folder in folders):
        if path.is_file():
            return path
    raise MissingTable(f"{names[0]}: run `make data`, or let DPCOV_DATA name a folder that has it")


def text(*names: str) -> str:
    """Return the unpacked content of the first of these files that exists."""
    path = found(*names)
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()


def here(tables: Mapping[str, Callable[[], T]]) -> dict[str, Callable[[], T]]:
    """Return the readable tables; print the names of the other tables and the remedy."""
    readable = {}
    for name, read in tables.items():
        try:
            read()
        except (MissingTable, ImportError) as error:
            print(f"left out, {name}: {error}", flush=True)
        else:
            readable[name] = read
    return readable


def wine() -> Matrix:
    return np.loadtxt(found("wine/wine.data"), delimiter=",")[:, 1:]


def airfoil() -> Matrix:
    return np.loadtxt(found("airfoil/airfoil_self_noise.dat"))


def adult_lines() -> list[str]:
    """Return the 48,842 rows of both files as text without blanks."""
    both = text("adult/adult.data.gz") + text("adult/adult.test.gz")
    lines = [line.strip().rstrip(".").replace(", ", ",") for line in both.splitlines()]
    return [line for line in lines if line and not line.startswith("|")]


def adult_levels() -> dict[str, list[str]]:
    """Return the levels of the eight categorical columns, including `?`."""
    cells = [line.split(",") for line in adult_lines()]
    return {
        name: sorted({row[j] for row in cells})
        for j, name in enumerate(ADULT_COLUMNS[:-1])
        if j not in ADULT_NUMERIC
    }


def adult() -> Matrix:
    """Return 48,842 x 108: numeric columns in [0, 1], categorical columns as 0/1."""
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


def recordings() -> dict[str, Matrix]:
    """Return 5,875 recordings of 42 people: subject, age, sex, time, scores, voice measures."""
    return _columns(text("parkinsons_telemonitoring/parkinsons_updrs.data"))


def telemonitoring() -> Matrix:
    """Return 5,875 x 20: targets and voice measures, without the subject and the time."""
    left_out = ("subject#", "test_time")
    return np.column_stack([c for name, c in recordings().items() if name not in left_out])


def parkinsons(*, status: bool = False) -> Matrix:
    """Return 195 x 22 voice measures; with the status, 195 x 23."""
    columns = _columns(text("parkinsons/parkinsons.data"), "name")
    return np.column_stack([c for name, c in columns.items() if status or name != "status"])


def _columns(document: str, *left_out: str) -> dict[str, Matrix]:
    head, *rows = [row for row in csv.reader(document.splitlines()) if row]
    return {
        name: np.array([float(row[j]) for row in rows])
        for j, name in enumerate(head)
        if name not in left_out
    }


def colon(genes: int = 300) -> Matrix:
    """Return 62 x `genes`: the first of the 2000 genes, from the authors' text or web page."""
    document = text("colon/I2000.txt.gz", "colon/I2000.html")
    numbers = re.findall(r"\d\.\d{7}e\+\d{3}", re.sub(r"<[^>]*>", " ", document))
    return np.array(numbers, float).reshape(GENES, TISSUES)[:genes].T


def mnist() -> Matrix:
    """Return 10,000 x 196: pixels averaged two by two."""
    with gzip.open(found("mnist_t10k/t10k-images-idx3-ubyte.gz")) as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 14, 2, 14, 2)
    return pixels.mean(axis=(2, 4)).reshape(-1, 196)


def breast_cancer() -> Matrix:
    from sklearn.datasets import load_breast_cancer

    return load_breast_cancer().data


def digits() -> Matrix:
    from sklearn.datasets import load_digits

    return load_digits().data


def iris() -> Matrix:
    from sklearn.datasets import load_iris

    return load_iris().data


def diabetes() -> Matrix:
    from sklearn.datasets import load_diabetes

    return load_diabetes().data


PUBLISHED: dict[str, Callable[[], Matrix]] = {
    "wine": wine,
    "airfoil": airfoil,
    "adult": adult,
    "breast cancer": breast_cancer,
    "digits": digits,
}
TABLES: dict[str, Callable[[], Matrix]] = {
    "iris": iris,
    "airfoil": airfoil,
    "diabetes": diabetes,
    "wine": wine,
    "telemonitoring": telemonitoring,
    "parkinsons": parkinsons,
    "breast cancer": breast_cancer,
    "digits": digits,
    "adult": adult,
    "mnist 14 x 14": mnist,
    "colon, 300 genes": colon,
}


def rows_over_largest_norm(table: Matrix) -> Matrix:
    """Apply the papers' preprocessing. It depends on the data, so it is for experiments only."""
    return table / np.linalg.norm(table, axis=1).max()
