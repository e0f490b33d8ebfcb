"""Releases with a seed, for pictures: of the demo's table, and of a table with outliers.

Both tables are simulated.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

import dpcov
from dpcov.cli.demo import EPSILON, true_correlations, write_table

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from dpcov.releases import Release

    Matrix = NDArray[np.float64]

SEED = 1
STAYS = 20_000  # rows of the table with outliers


@cache
def demo() -> tuple[pd.DataFrame, Release, Matrix]:
    """Return the demo's table, its release with a seed, and the exact correlations."""
    import pandas as pd

    with TemporaryDirectory() as folder:
        table, schema = write_table(Path(folder))
        release = dpcov.release(table, schema=schema, epsilon=EPSILON, seed=SEED)
        return pd.read_csv(table), release, true_correlations(table, release.columns)


@cache
def stays() -> Release:
    """Return a release of ages, blood pressures and lengths of stay with a long tail."""
    draws = np.random.default_rng(SEED)
    bounds = {"age": (0, 110), "systolic": (60, 240), "stay": (0, 365)}
    rows = np.column_stack(
        [draws.normal(55, 17, STAYS), draws.normal(130, 18, STAYS), draws.lognormal(1.2, 1, STAYS)]
    )
    lower, upper = np.transpose(list(bounds.values()))
    schema = dpcov.Schema.from_bounds(lower, upper, tuple(bounds))
    return dpcov.release(rows.clip(lower, upper), schema=schema, epsilon=1.0, seed=SEED)
