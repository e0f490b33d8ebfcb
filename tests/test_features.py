"""The table of features has a source in each cell, and OpenDP has what the table says."""

import importlib
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS / "_ext"))
import tables  # noqa: E402 (the site's own code is no package)

FOUND = tomllib.loads((DOCS / "_ext" / "features.toml").read_text())


def test_each_cell_has_an_answer_and_a_source():
    for cells in FOUND["features"].values():
        assert list(cells) == list(FOUND["libraries"])
        assert all(answer and source for answer, source in cells.values())
        assert (DOCS / cells["dpcov"][1]).is_file()
    table = tables.features()
    assert table.count("](") == len(FOUND["features"]) * len(FOUND["libraries"])
    assert "[one feature](https://docs.opendp.org/" in table


@pytest.mark.slow  # opendp takes seconds to import
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("extras.sklearn.decomposition", "PCA"),
        ("extras.sklearn.linear_model", "LinearRegression"),
        ("measurements", "make_private_quantile"),
        ("accuracy", "laplacian_scale_to_accuracy"),
        ("context", "unit_of"),
        ("context", "Context"),
        ("extras.mbi", "make_contingency_table"),
    ],
)
def test_opendp_has_what_the_table_says(module, name):
    pytest.importorskip("opendp")
    assert version("opendp") == FOUND["libraries"]["OpenDP"]["version"]
    found = importlib.import_module(f"opendp.{module}")
    assert hasattr(found, name)
    if module.startswith("extras.sklearn"):  # no other models
        folder = Path(found.__file__).parent
        assert {path.stem for path in folder.iterdir() if path.stem[0] != "_"} <= {
            *("decomposition", "linear_model"),
        }
