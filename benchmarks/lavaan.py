"""Measure the intervals and the chi-square test of lavaan on releases.

    make bench NAME=lavaan
    make bench NAME=lavaan ARGS="--releases 100 --rows 2000"

The population has nine normal items with three factors. Each release has a new sample, so the
errors include sampling. lavaan gets the error covariance as `NACOV`, as `dpcov export --for lavaan`
writes it. The benchmark reports:

- the coverage of 95% intervals for the nine loadings (0.93 to 0.97);
- the size of the test of the correct model at the 5% level (0.02 to 0.10);
- the power of the test against a model with two factors (at least 0.9 with 20,000 rows);
- the same coverage and size without `NACOV`, which is the control.

The script needs R with lavaan (`.ci/services`).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import dpcov
from results import Kept, show

COMMAND = "make bench NAME=lavaan"
COUNTS, RELEASES, EPSILON, BOUND = (2000, 20_000), 1000, 1.0, 4.0
LOADINGS = np.array([0.8, 0.7, 0.6] * 3)
FACTOR_CORRELATION = 0.3
COVERED, SIZE, POWER = (0.93, 0.97), (0.02, 0.10), 0.9
LEVEL, Z_95 = 0.05, 1.96
FITS = Path(__file__).with_name("lavaan_fits.R")


def population() -> Any:
    """Return the covariance matrix of the items, shape (9, 9)."""
    factors = np.full((3, 3), FACTOR_CORRELATION) + (1 - FACTOR_CORRELATION) * np.eye(3)
    pattern = LOADINGS[:, None] * np.repeat(np.eye(3), 3, axis=0)
    common = pattern @ factors @ pattern.T
    return common + np.diag(1 - np.diag(common))


def moments(count: int, seed: int) -> Any:
    """Return the means, covariances, rows and error covariance of one release, as one vector."""
    generator = np.random.default_rng([count, seed])
    rows = generator.multivariate_normal(np.zeros(len(LOADINGS)), population(), size=count)
    made = dpcov.release(rows, lower=-BOUND, upper=BOUND, epsilon=EPSILON, seed=seed)
    errors = made.error_covariance(generator=generator).values
    covariance = made.covariance()[np.triu_indices(len(LOADINGS))]
    return np.concatenate([made.mean(), covariance, [round(made.count())], errors.ravel()])


def fits(count: int, releases: int) -> Any:
    """Return the numbers that R computes from the releases, one row for each release."""
    with TemporaryDirectory() as folder:
        with (Path(folder) / "moments.bin").open("wb") as file:
            for seed in range(releases):
                moments(count, seed).tofile(file)
        subprocess.run(["Rscript", "--vanilla", str(FITS)], cwd=folder, check=True)  # noqa: S607
        return np.genfromtxt(Path(folder) / "fits.csv", delimiter=",", missing_values="NA")


def measured(count: int, releases: int) -> list[dict[str, Any]]:
    """Return the coverage, the size and the power for one number of rows."""
    found = np.atleast_2d(fits(count, releases))
    p = len(LOADINGS)
    with_errors, without, tests = found[:, : 2 * p], found[:, 2 * p : 4 * p], found[:, 4 * p :]
    return [
        {
            "n": count,
            "releases": len(found),
            "not fitted": int(np.isnan(with_errors[:, 0]).sum()),
            "covered": coverage(with_errors),
            "size": rejected(tests[:, 0]),
            "power": rejected(tests[:, 2]),
            "covered without": coverage(without),
            "size without": rejected(tests[:, 1]),
        }
    ]


def coverage(found: Any) -> float:
    """Return the fraction of the intervals that contain the loading."""
    estimates, errors = np.split(found[~np.isnan(found).any(axis=1)], 2, axis=1)
    # A factor has no sign.
    sides = np.sign(estimates.reshape(len(estimates), 3, 3).sum(axis=2)).repeat(3, axis=1)
    return float(np.mean(np.abs(estimates * sides - LOADINGS) <= Z_95 * errors))


def rejected(values: Any) -> float:
    """Return the fraction of p-values below the level."""
    return float(np.mean(values[~np.isnan(values)] < LEVEL))


def passes(row: dict[str, Any]) -> bool:
    """Return True if a row is within all limits."""
    power = row["power"] >= POWER or row["n"] < max(COUNTS)
    inside = COVERED[0] <= row["covered"] <= COVERED[1] and SIZE[0] <= row["size"] <= SIZE[1]
    return bool(power and inside)


def main() -> int:
    reader = argparse.ArgumentParser()
    reader.add_argument("--releases", type=int, default=RELEASES)
    reader.add_argument("--rows", type=int, nargs="*", default=list(COUNTS))
    asked = reader.parse_args()
    if shutil.which("Rscript") is None:
        sys.exit("This benchmark needs R with lavaan: .ci/services installs both.")
    kept = Kept("lavaan.json", COMMAND)
    for count in asked.rows:
        kept.part(str(count), lambda count=count: measured(count, asked.releases))
    show("lavaan with the error covariance as NACOV, and without", kept.rows)
    whole = asked.releases == RELEASES and asked.rows == list(COUNTS)
    if whole and not kept.done():
        return 1
    return int(not all(passes(row) for row in kept.rows))


if __name__ == "__main__":
    sys.exit(main())
