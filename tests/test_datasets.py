"""The public tables: what ships, what is fetched, and that a missing one stops nothing."""

import gzip
import hashlib
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import datasets
import fetch

ROOT = Path(__file__).parents[1]

FILES = tomllib.loads((ROOT / "data" / "files.toml").read_text(encoding="utf-8"))
SHIPPED = {path for path, file in FILES.items() if "urls" not in file}
MEGABYTE = 2**20


@pytest.fixture(autouse=True)
def bare_clone(monkeypatch, tmp_path):
    """Simulate a clone without other folders and without fetched files."""
    monkeypatch.delenv("DPCOV_DATA", raising=False)
    monkeypatch.setattr(datasets, "FETCHED", tmp_path / "fetched")


def listed(folder, **files):
    """Return a list of files to fetch, with their URLs and the hashes of the expected content."""
    lines = []
    for name, (url, content) in files.items():
        digest = hashlib.sha256(content).hexdigest()
        lines += [f'["{name}/t.txt"]', f'sha256 = "{digest}"', f'urls = ["{url}"]']
    (folder / "files.toml").write_text("\n".join(lines))
    return folder / "files.toml"


@pytest.mark.parametrize("path", sorted(SHIPPED))
def test_a_file_that_ships_is_the_one_that_was_measured(path):
    content = (ROOT / "data" / path).read_bytes()
    assert fetch.digest(path, content) == FILES[path]["sha256"]


def test_all_that_ships_is_listed_small_and_has_a_licence():
    every = (ROOT / "data").rglob("*")
    here = [path for path in every if path.is_symlink() or not path.is_dir()]  # no link ships
    shipped = [path for path in here if datasets.DATA / "fetched" not in path.parents]
    names = {str(path.relative_to(ROOT / "data")) for path in shipped}
    assert names == SHIPPED | {"README.md", "files.toml"}
    assert sum(path.stat().st_size for path in shipped) < 3 * MEGABYTE
    reported = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    for folder in {path.partition("/")[0] for path in SHIPPED}:
        row = next(line for line in reported.splitlines() if f"| `{folder}` |" in line)
        assert "public domain" in row or ("doi:" in row and "CC BY 4.0" in row)


def test_a_clone_alone_has_eight_real_tables_and_names_those_it_lacks(capsys):
    readable = datasets.here(datasets.TABLES)
    assert len(readable) >= 8
    reported = capsys.readouterr().out
    for name in datasets.TABLES.keys() - readable.keys():
        assert f"left out, {name}: " in reported
        assert "`make data`" in reported
    assert readable["adult"]().shape == (48_842, 108)
    assert readable["parkinsons"]().shape == (195, 22)
    assert readable["telemonitoring"]().shape == (5_875, 20)


def test_a_package_that_is_not_installed_leaves_out_its_tables_alone(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    readable = datasets.here({"iris": datasets.iris, "wine": datasets.wine})
    assert list(readable) == ["wine"]
    assert "left out, iris: " in capsys.readouterr().out


def test_any_other_fault_of_a_table_is_reported():
    def broken():
        raise ValueError("a fault of ours")

    with pytest.raises(ValueError, match="a fault of ours"):
        datasets.here({"broken": broken})


def test_a_folder_of_your_own_goes_first(monkeypatch, tmp_path):
    (tmp_path / "wine").mkdir()
    (tmp_path / "wine" / "wine.data").write_text("1,2,3\n1,4,5\n")
    monkeypatch.setenv("DPCOV_DATA", str(tmp_path))
    assert datasets.wine().tolist() == [[2, 3], [4, 5]]
    assert len(datasets.airfoil()) == 1503, "from the repository"


def test_the_genes_are_the_same_from_the_text_and_from_the_web_page(monkeypatch, tmp_path):
    numbers = np.random.default_rng(0).uniform(1, 1e4, (2000, 62))
    lines = ["  ".join(f"{n:.7e}".replace("e+", "e+0") for n in row) for row in numbers]
    (tmp_path / "colon").mkdir()
    monkeypatch.setenv("DPCOV_DATA", str(tmp_path))
    page = "<html><title>I2000</title><p><font>" + "</font></p>\n<p><font>".join(lines)
    (tmp_path / "colon" / "I2000.html").write_text(page + "</font></html>")
    from_page = datasets.colon()
    (tmp_path / "colon" / "I2000.txt.gz").write_bytes(gzip.compress("\n\n".join(lines).encode()))
    assert np.array_equal(datasets.colon(), from_page)
    assert from_page == pytest.approx(numbers[:300].T, rel=1e-7)


def test_what_can_be_fetched_is_and_the_rest_is_named(tmp_path, capsys):
    (tmp_path / "good.txt").write_bytes(b"right")
    (tmp_path / "bad.txt").write_bytes(b"changed since")
    wanted = listed(
        tmp_path,
        nowhere=((tmp_path / "nothing").as_uri(), b"any"),
        changed=((tmp_path / "bad.txt").as_uri(), b"right"),
        good=((tmp_path / "good.txt").as_uri(), b"right"),
    )
    assert fetch.main(wanted, tmp_path / "fetched") == 1
    reported = capsys.readouterr().out
    assert "nowhere/t.txt: " in reported
    assert "changed/t.txt: its content is another" in reported
    assert "good/t.txt: fetched" in reported
    found = [path for path in (tmp_path / "fetched").rglob("*") if path.is_file()]
    assert [path.read_bytes() for path in found] == [b"right"]


def test_nothing_is_fetched_twice(tmp_path, capsys):
    source = tmp_path / "good.txt"
    source.write_bytes(b"right")
    wanted = listed(tmp_path, good=(source.as_uri(), b"right"))
    assert fetch.main(wanted, tmp_path / "fetched") == 0
    source.unlink()
    capsys.readouterr()
    assert fetch.main(wanted, tmp_path / "fetched") == 0
    assert "good" not in capsys.readouterr().out


def test_no_program_reads_a_folder_beside_the_repository():
    outside = re.compile(r"shared/data|/ \"shared\"|/ \"\.\.\"")
    programs = [
        path
        for folder in ("benchmarks", "docs", "examples", "experiments", "src", "tests", "trust")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".ipynb", ".md", ".toml") and path != Path(__file__)
    ]
    assert len(programs) > 400
    found = [str(path) for path in programs if outside.search(path.read_text(encoding="utf-8"))]
    assert found == []
