"""The demo's table and one release of it with a seed, for pictures. The table is simulated."""

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


@cache
def demo() -> tuple[pd.DataFrame, Release, Matrix]:
    """Return the demo's table, its release with a seed, and the exact correlations."""
    import pandas as pd

    with TemporaryDirectory() as folder:
        table, schema = write_table(Path(folder))
        release = dpcov.release(table, schema=schema, epsilon=EPSILON, seed=SEED)
        return pd.read_csv(table), release, true_correlations(table, release.columns)
