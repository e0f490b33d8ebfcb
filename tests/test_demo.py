"""The demo: the whole journey on a public table."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from statsmodels.datasets import randhie

from dpcov.api.ledger import Ledger
from dpcov.cli.demo import run, write_table
from dpcov.errors import OutputError
from dpcov.releases import Release
from dpcov.rows.schema import Schema

FILES = {"health.csv", "health.toml", "health.ledger", "health.release.json"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the table and its schema once."""
    folder = tmp_path_factory.mktemp("demo")
    write_table(folder)
    return folder


def test_the_table_fits_its_public_bounds(folder: Path) -> None:
    table = np.loadtxt(folder / "health.csv", delimiter=",", skiprows=1)
    assert table.shape == (20190, 10)
    columns = Schema.load(folder / "health.toml").encoded_columns
    header = (folder / "health.csv").read_text().splitlines()[0]
    assert header == ",".join(columns)
    for values, column in zip(table.T, columns.values(), strict=True):
        share = np.mean((values < column.lower) | (values > column.upper))
        assert share < 0.01, "few values lie beyond bounds that nobody took from them"


def test_the_journey_prints_what_a_reader_needs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []
    for _ in range(2):  # a second time in the same folder
        made = run(folder)
        printed.append(capsys.readouterr().out)
        assert {path.name for path in folder.iterdir()} == FILES
        saved = Release.load(folder / "health.release.json")
        assert np.array_equal(saved.published, made.published)
        assert Ledger.open(folder / "health.ledger").account().left == {"epsilon": 2.0}
    assert printed[0] != printed[1], "fresh noise"
    for text in printed:
        for part in ("Private correlations", "[0.025", "non-private", "difference"):
            assert part in text
        assert "Whether any one row is in the table or not changes" in " ".join(text.split())
        assert "epsilon left: 2" in text
        for name in FILES:
            assert str(folder / name) in text
        assert len(re.findall(r"^\w+ - \w+ +-?0", text, re.MULTILINE)) == 45


def test_the_error_is_about_what_is_expected_and_small(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = []
    for _ in range(5):
        run(folder)
        wanted = r"error of the 45 correlations: ([\d.]+); standard error: ([\d.]+)"
        found = re.search(wanted, capsys.readouterr().out)
        figures.append([float(figure) for figure in found.groups()])
    actual, expected = np.mean(figures, axis=0)
    assert 1 / 3 <= actual / expected <= 3
    assert actual <= 0.016


def test_the_table_is_the_public_one_and_needs_no_package(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    published = randhie.load_pandas().data
    ours = np.loadtxt(folder / "health.csv", delimiter=",", skiprows=1)
    assert np.array_equal(ours, published.to_numpy(float))
    for package in ("statsmodels", "pandas", "matplotlib"):
        monkeypatch.setitem(sys.modules, package, None)
    write_table(tmp_path)
    assert (tmp_path / "health.csv").read_bytes() == (folder / "health.csv").read_bytes()


@pytest.mark.parametrize("name", ["health.ledger", "health.csv"])
def test_files_of_the_user_are_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(OutputError, match="--folder"):
        run(tmp_path)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
