"""What a message says to install can be installed, however dpcov was."""

import ast
import re
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from dpcov.core import installing as module
from dpcov.core.installing import installing
from dpcov.errors import DpcovError

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "dpcov"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
DECLARED = {
    text.partition(";")[0]
    for extra in (PROJECT["dependencies"], *EXTRAS.values())
    for text in extra
    if not text.startswith("dpcov")
}


def named():
    """Return the packages of every call of `installing` or `library` in the library."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(getattr(node, "func", None), "id", "")
            if name in ("installing", "library"):
                args = node.args if name == "installing" else node.args[:1]
                yield from (arg.value for arg in args if isinstance(arg, ast.Constant))


def asked(command):
    """Return the requirements of a command."""
    return [Requirement(text) for text in re.findall(r'"([^"]+)"', command)]


@pytest.mark.parametrize("package", sorted(set(named()) | {"pandas", "polars"}))
def test_a_package_is_named_with_the_range_that_dpcov_declares(package):
    (found,) = asked(installing(package))
    assert str(found) in {str(Requirement(text)) for text in DECLARED}
    assert found.specifier, "a range"
    assert found.name != "dpcov"


def test_every_message_about_a_missing_package_asks_the_one_function():
    assert len(set(named())) >= 8
    said = re.compile("pip " + "install")
    found = [path.name for path in SOURCE.rglob("*") if path.suffix in (".py", ".html", ".md")
             and said.search(path.read_text(encoding="utf-8"))]  # fmt: skip
    assert found == ["installing.py"]


def test_extras_of_a_package_and_several_packages_are_kept_apart():
    spark, jinja = asked(installing("pyspark", "jinja2"))
    assert spark.extras == {"connect"}
    assert not jinja.extras
    assert installing("PySpark") == installing("pyspark")


def test_a_package_that_dpcov_does_not_declare_has_its_bare_name():
    assert asked(installing("skglm")) == [Requirement("skglm")]


ENVIRONMENTS = {
    # how dpcov was installed: a file of the environment, pip in it, its python is first on the path
    "pip, activated": (None, True, True, "python -m pip install"),
    "pip, not activated": (None, True, False, "{python} -m pip install"),
    "uv, activated": (None, False, True, "uv pip install"),
    "uv, not activated": (None, False, False, "uv pip install --python {python}"),
    "uv tool": (module.UV_TOOL_FILE, False, False, "uv pip install --python {python}"),
    "pipx": (module.PIPX_FILE, True, False, "pipx inject dpcov"),
}


@pytest.mark.parametrize("how", ENVIRONMENTS)
@pytest.mark.parametrize("folder", ["plain", "my tools"])
def test_the_command_changes_the_environment_of_dpcov(how, folder, tmp_path, monkeypatch):
    file, pip, first, start = ENVIRONMENTS[how]
    (place := tmp_path / folder / "dpcov" / "bin").mkdir(parents=True)
    if file is not None:
        (place.parent / file).touch()
    python = str(place / "python")
    monkeypatch.setattr(module.sys, "prefix", str(place.parent))
    monkeypatch.setattr(module.sys, "executable", python)
    monkeypatch.setattr(module.shutil, "which", lambda _: python if first else "/usr/bin/python")
    monkeypatch.setattr(module, "find_spec", lambda _: find_spec("os") if pip else None)
    quoted = f'"{python}"' if " " in folder else python
    assert installing("duckdb") == f'{start.format(python=quoted)} "duckdb>=1.1"'


def test_extras_are_few_named_for_tasks_and_former_names_stay():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    _, tasks, former, _ = re.split(r"^# (?:Extras of|Former).*$", text, flags=re.MULTILINE)
    names = [re.findall(r"^([a-z]+) = \[", part, re.MULTILINE) for part in (tasks, former)]
    assert names[0] == ["report", "databases", "files", "modelling", "spark", "app"]
    assert set(names[1]) == {
        *("demo", "duckdb", "excel", "formula", "postgres", "readstat", "sklearn", "yaml"),
    }
    held = {text for name in names[0] for text in EXTRAS[name]}
    assert {text for name in names[1] for text in EXTRAS[name]} <= held | {"dpcov[report]"}


def test_what_the_pages_say_to_install_is_declared_and_on_an_index():
    pages = "".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "docs").rglob("*.md")
        if "_build" not in path.parts
    )
    commands = re.findall(r'pip install ("(?!dist/)[^`\n]+")', pages)
    assert len(commands) >= 4
    assert {text for command in commands for text in re.findall(r'"(.+?)"', command)} <= DECLARED
    assert not re.search(r"pip install '?dpcov", pages)


def test_a_missing_library_is_reported_with_its_command(monkeypatch):
    from dpcov.rows.sources.duckdb import DuckdbSource
    from dpcov.rows.sources.sql import DatabaseTable

    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(DpcovError, match=r'library: .* install "duckdb>='):
        DuckdbSource(DatabaseTable("t.duckdb", "t"))
