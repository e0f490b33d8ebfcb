"""Which part of the library may know of which: lazy imports and imports for types included."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dpcov
from dpcov.core import registry

SOURCE = Path(dpcov.__file__).parent
PAPERS = "dpcov.papers"
KNOWS = SOURCE / "core" / "registry.py"


def mentions(text, module):
    """Yield the lines of a module that import the papers' package, or name it in a string."""
    package = module.split(".")[:-1]
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names):
                named = [name.name for name in names]
            case ast.ImportFrom(home, names, level):
                above = ".".join(package[: len(package) - level + 1]) if level else ""
                whole = ".".join(part for part in (above, home) if part)
                named = [f"{whole}.{name.name}" for name in names]
            case ast.Constant(str(value)):
                named = [value[value.find(PAPERS) :]] if PAPERS in value else []
            case _:
                continue
        if any(name == PAPERS or name.startswith((f"{PAPERS}.", f"{PAPERS} ")) for name in named):
            yield node.lineno


def product():
    """Yield the path and the name of every module outside of the package."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        if parts[1] != "papers":
            yield path, ".".join(parts)


def test_the_product_never_imports_the_papers():
    found = {path: list(mentions(path.read_text(), name)) for path, name in product()}
    assert [path for path, lines in found.items() if lines] == [KNOWS]


@pytest.mark.parametrize(
    "planted",
    [
        "import dpcov.papers",
        "import dpcov.papers.laplace as noise",
        "from dpcov import papers",
        "from dpcov.papers import laplace",
        "from dpcov.papers.laplace import Laplace",
        "from ..papers.laplace import Laplace",
        "from .. import papers",
        "def later():\n    from dpcov.papers.laplace import Laplace",
        "if TYPE_CHECKING:\n    from dpcov.papers.laplace import Laplace",
        "import_module('dpcov.papers.laplace')",
    ],
)
def test_a_planted_import_is_found(planted):
    assert list(mentions(planted, "dpcov.mechanisms.gaussian"))


def test_other_imports_are_not_taken_for_it():
    text = (
        "import dpcov.papers_of_mine\nfrom dpcov.mechanisms import gaussian\nfrom . import papers"
    )
    assert not list(mentions(text, "dpcov.mechanisms.gaussian"))


def test_what_the_registry_names_is_there_and_is_called_so():
    for name, place in registry.PAPER_MECHANISMS.items():
        assert registry.loaded(place).name == name
    for law, place in registry.LAWS.items():
        assert registry.loaded(place).law == law


ASKING = """
import sys
import dpcov, dpcov.cli, dpcov.mechanisms.choice, dpcov.api.auditing
from dpcov.mechanisms import MECHANISMS

names = list(MECHANISMS)
assert "laplace" in MECHANISMS and "nothing" not in MECHANISMS and len(MECHANISMS) == len(names)
made = dpcov.release([[0.1, 0.5]] * 50, lower=[0, 0], upper=[1, 1], epsilon=1.0, seed=1)
made.save(sys.argv[1])
dpcov.load(sys.argv[1])
loaded = {name for name in sys.modules if name.startswith("dpcov.papers")}
assert not loaded, loaded
MECHANISMS["laplace"]
loaded = {name for name in sys.modules if name.startswith("dpcov.papers")}
assert loaded == {"dpcov.papers", "dpcov.papers.laplace", "dpcov.papers.samplers",
    "dpcov.papers.samplers.entrywise"}, loaded
"""


def test_a_release_and_its_file_load_no_paper_and_asking_for_one_loads_no_other(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", ASKING, str(tmp_path / "made.json")], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr


LOADING = """
import sys
import dpcov
made = dpcov.load(sys.argv[1])
made.correlation()
print(*sys.modules)
"""


def test_reading_a_release_imports_no_mechanism_no_source_and_no_pyarrow():
    path = Path(__file__).with_name("data") / "0.2.0" / "auto-zcdp.json"
    ran = subprocess.run(
        [sys.executable, "-c", LOADING, str(path)], capture_output=True, text=True, check=True
    )
    loaded = set(ran.stdout.split())
    assert "dpcov.releases" in loaded
    absent = ("dpcov.mechanisms", "dpcov.rows.sources", "dpcov.api", "dpcov.papers", "pyarrow")
    assert [name for name in sorted(loaded) if name.startswith(absent)] == []


def test_names_that_users_import_are_where_they_were():
    from dpcov import mechanisms

    for name in registry.PAPER_CLASSES:
        assert getattr(mechanisms, name).__name__ == name
        assert name in dir(mechanisms)
    with pytest.raises(AttributeError):
        mechanisms.Nothing  # noqa: B018
    with pytest.raises(KeyError):
        mechanisms.MECHANISMS["nothing"]
