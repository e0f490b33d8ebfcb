"""The recipe for other clusters does what it says."""

import re
import textwrap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.errors import SourceError
from dpcov.rows.sources import partial
from dpcov.rows.sources.partial import PartialMoment
from strategies import schema_of
from tables_for_tests import SCHEMA_TEXT, assert_same_elsewhere

(RECIPE,) = re.findall(r"::\n\n( {8}.*)", partial.__doc__, re.DOTALL)


def people(rows: int) -> pa.Table:
    generator = np.random.default_rng(0)
    columns = {
        "age": generator.uniform(0, 100, rows),
        "sex": generator.choice(["m", "f"], rows),
        "income": generator.uniform(0, 2e5, rows),
    }
    return pa.table(columns)


def test_sums_may_be_given_in_place_of_rows():
    schema, table = schema_of("a", "b"), pa.table({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]})
    parts = [PartialMoment.of(table.slice(at, 2), schema) for at in (0, 2)]
    asked = {"schema": schema, "epsilon": 1.0, "mechanism": "matrix-laplace", "seed": 1}
    found = dpcov.release(parts[0].merged(parts[1]), **asked)
    assert_same_elsewhere(found, dpcov.release(table, **asked))
    with pytest.raises(SourceError, match="another schema"):
        dpcov.release(parts[0], **asked | {"schema": schema_of("a", "b", intercept=0.1)})


def test_the_recipe_for_dask_gives_the_release_of_the_whole_table(tmp_path, monkeypatch):
    pytest.importorskip("dask", reason="Dask is not installed")
    frames = pytest.importorskip("dask.dataframe", reason="Dask's data frames are not installed")
    monkeypatch.chdir(tmp_path)
    Path("people.toml").write_text(SCHEMA_TEXT)
    table = people(900)
    seeded = textwrap.dedent(RECIPE).replace("epsilon=1.0", "epsilon=1.0, seed=3")
    assert seeded != RECIPE
    variables = {"frame": frames.from_pandas(table.to_pandas(), npartitions=20)}
    exec(seeded, variables)  # noqa: S102  the text of our own docstring
    asked = {"schema": "people.toml", "epsilon": 1.0, "mechanism": "matrix-laplace", "seed": 3}
    assert_same_elsewhere(variables["release"], dpcov.release(table, **asked))
