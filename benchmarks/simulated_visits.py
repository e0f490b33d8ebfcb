"""Simulate the table of `dpcov demo`: visits of patients to a hospital.

All values are simulated, and no real patient is in the table. `make bench NAME=simulated_visits`
writes the table into the package. A fixed seed determines the table, and a test compares the file
with this program.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Column = NDArray[np.int64 | np.float64 | np.str_]

FILE = Path(__file__).parents[1] / "src" / "dpcov" / "cli" / "demo" / "visits.csv.gz"
SEED = 1
PATIENTS = 10_000
FIRST_ID = 1001
MAX_VISITS = 6
YEARS = 3.0  # from the first visit to the last possible visit
DEPARTMENTS = np.array(["general", "cardiology", "diabetes"])


def probability(log_odds: Vector) -> Vector:
    """Return the probabilities that belong to log odds."""
    return 1 / (1 + np.exp(-log_odds))


def patients(rng: np.random.Generator) -> dict[str, Vector]:
    """Return the values that all visits of a patient share, one entry for each patient."""
    age = np.clip(rng.normal(60, 16, PATIENTS), 18, 95)  # years, at the first visit
    older = age - 60
    smoker = rng.random(PATIENTS) < probability(-1.1 - 0.02 * older)
    bmi = np.clip(rng.normal(27.5 - 0.8 * smoker, 4.5), 16, 50)
    diabetic = rng.random(PATIENTS) < probability(-1.4 + 0.03 * older + 0.14 * (bmi - 27.5))
    cardiac = rng.random(PATIENTS) < probability(-1.3 + 0.05 * older + 0.7 * smoker)
    medicines = 1.2 + 0.03 * np.maximum(older + 20, 0) + 1.8 * diabetic + 1.8 * cardiac
    normal = rng.standard_normal((3, PATIENTS))
    return {
        "age": age,
        "smoker": smoker.astype(float),
        "bmi": bmi,
        "diabetic": diabetic.astype(float),
        "cardiac": cardiac.astype(float),
        "pressure": 10 * normal[0],  # mmHg above the value that the other columns explain
        "hba1c": 5.4 + 0.15 * normal[1] + diabetic * rng.gamma(4, 0.45, PATIENTS),
        "creatinine": 78 * np.exp(0.006 * older + 0.12 * diabetic + 0.16 * normal[2]),
        "medicines": rng.poisson(medicines).astype(float),
    }


def visits(rng: np.random.Generator) -> dict[str, Column]:
    """Return the columns of the table: one entry for each visit, in the order of the patients."""
    own = patients(rng)
    often = 0.25 + 0.13 * own["diabetic"] + 0.13 * own["cardiac"]
    patient = np.repeat(np.arange(PATIENTS), 1 + rng.binomial(MAX_VISITS - 1, often))
    one = {name: values[patient] for name, values in own.items()}
    count = len(patient)
    normal = rng.standard_normal((6, count))
    later = rng.uniform(0, YEARS, count)
    later = later[np.lexsort((later, patient))]  # in time order within each patient
    department = departments(one, rng.random(count))
    age = np.floor(one["age"] + later)
    bmi = one["bmi"] + 0.5 * normal[0]
    above = one["pressure"] + 9 * normal[1]
    explained = 127 + 0.5 * (age - 60) + 1.1 * (bmi - 27.5) + 4 * one["smoker"]
    diastolic = 78 - 0.1 * (age - 60) + 0.6 * (bmi - 27.5) + 0.45 * above + 5 * normal[2]
    medicines = np.maximum(one["medicines"] + rng.integers(-1, 2, count), 0)
    usual = 9 + 1.4 * medicines + 8 * (department == 1) + 5 * (department == 2)  # minutes
    return {
        "patient": patient + FIRST_ID,
        "age": age.astype(int),
        "smoker": one["smoker"].astype(int),
        "department": DEPARTMENTS[department],
        "systolic": np.rint(explained + above).astype(int),
        "diastolic": np.rint(diastolic).astype(int),
        "bmi": np.round(bmi, 1),
        "hba1c": np.round(one["hba1c"] + 0.2 * normal[3], 1),
        "creatinine": np.rint(one["creatinine"] * np.exp(0.08 * normal[4])).astype(int),
        "medicines": medicines.astype(int),
        "minutes": np.rint(usual * np.exp(0.3 * normal[5])).astype(int),
    }


def departments(one: dict[str, Vector], draws: Vector) -> NDArray[np.int64]:
    """Return the position in DEPARTMENTS of the department of each visit."""
    cardiology, diabetes = 0.05 + 0.4 * one["cardiac"], 0.02 + 0.4 * one["diabetic"]
    return np.where(draws < cardiology, 1, np.where(draws > 1 - diabetes, 2, 0))


def table() -> str:
    """Return the table as CSV."""
    columns = visits(np.random.default_rng(SEED))
    cells = zip(*(column.astype(str) for column in columns.values()), strict=True)
    return "\n".join([",".join(columns), *map(",".join, cells)]) + "\n"


def main() -> int:
    content = table().encode()
    FILE.write_bytes(gzip.compress(content, mtime=0))
    print(f"{FILE.name}: {len(content):,} bytes, compressed {FILE.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
