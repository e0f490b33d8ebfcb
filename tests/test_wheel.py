"""What is built from the repository holds what it needs, and nothing else."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from hidden_posix import command

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the folder of an sdist and a wheel."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def below(folder):
    """Return the files of the repository's folder, as paths from it."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and not {"__pycache__", "fetched", "_build"} & set(path.parts)
    }


def test_the_wheel_has_every_file_of_the_package_and_no_other(built):
    (path,) = built.glob("*-py3-none-any.whl")  # for any platform
    for page in ("README.md", "docs/how-to/install.md"):
        said = re.findall(r"dist/(dpcov-\S+\.whl)", (ROOT / page).read_text(encoding="utf-8"))
        assert set(said) == {path.name}
    names = set(zipfile.ZipFile(path).namelist())
    inside = {name.removeprefix("dpcov/") for name in names if name.startswith("dpcov/")}
    assert inside == below(ROOT / "src" / "dpcov")
    demo = {"cli/demo/visits.csv.gz", "cli/demo/visits.toml"}
    assert {*demo, "report/page.html", "report/officer.html", "py.typed"} <= inside
    others = {name.partition("/")[0] for name in names} - {"dpcov"}
    assert [name.rpartition(".")[2] for name in others] == ["dist-info"]


def test_without_posix_the_demo_of_the_wheel_runs(built, tmp_path):
    (path,) = built.glob("*.whl")
    zipfile.ZipFile(path).extractall(tmp_path / "wheel")  # noqa: S202  our own
    run = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": str(tmp_path / "wheel")}}
    text = {"check": True, "capture_output": True, "text": True, "encoding": "utf-8"}
    done = subprocess.run(command("demo"), **run, **text)
    assert "epsilon left: 2" in done.stdout
    names = ["visits.csv", "visits.ledger", "visits.release.json", "visits.toml"]
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == names
    where = subprocess.run(
        [sys.executable, "-c", "import dpcov; print(dpcov.__file__)"], **run, **text
    )
    assert str(tmp_path / "wheel") in where.stdout


def test_the_sdist_has_the_tables_the_tests_and_what_runs_them(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {member.partition("/")[2] for member in archive.getnames()}
    for folder in ("data", "tests", "benchmarks", "requirements"):
        assert {f"{folder}/{name}" for name in below(ROOT / folder)} <= names
    assert {"Makefile", "pyproject.toml", "constraints.txt", "LICENSE", ".ci/run"} <= names
    assert not any(name.startswith(("results/", "data/fetched/", ".venv")) for name in names)
