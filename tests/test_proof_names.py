"""Every file and name of the code that a proof cites exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROOFS = ROOT / "docs" / "proofs"
PAGES = sorted(PROOFS.glob("*.md"))
NAME = re.compile(r"`([A-Za-z_][\w./-]*)`")
FILE = re.compile(r".*/.*|.*\.(?:py|md|toml|json)")


def cited(text):
    """Return the backquoted names with a dot, a slash or an underscore, code blocks left out."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return {name for name in NAME.findall(prose) if re.search(r"[./_]", name)}


def defined(tree, module):
    """Yield the qualified name of everything that a module defines."""
    yield module
    stack = [(node, module) for node in ast.iter_child_nodes(tree)]
    while stack:
        node, inside = stack.pop()
        here = inside
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            here = f"{inside}.{node.name}"
            yield here
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield f"{inside}.{node.id}"
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield f"{inside.rpartition('.')[0]}.{node.attr}"  # of the class, set in a method
        stack += [(child, here) for child in ast.iter_child_nodes(node)]


@cache
def names():
    """Return the qualified names of the package and of its tests."""
    found = set()
    for folder in (ROOT / "src", ROOT / "tests"):
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            module = ".".join(part for part in parts if part != "__init__")
            found.update(defined(ast.parse(path.read_text(encoding="utf-8")), module))
    ends = set()
    for name in found:
        parts = name.split(".")
        ends.update(".".join(parts[start:]) for start in range(len(parts)))
    return ends


def exists(name):
    """Return True if the name is a file of this repository or is defined in it."""
    if FILE.fullmatch(name):
        folders = (ROOT, ROOT / "src" / "dpcov", ROOT / "tests", PROOFS)
        return any((folder / name).exists() for folder in folders)
    return name in names()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_name_that_a_proof_cites_exists(page):
    missing = {name for name in cited(page.read_text(encoding="utf-8")) if not exists(name)}
    assert not missing


def test_the_proofs_cite_names():
    found = [name for page in PAGES for name in cited(page.read_text(encoding="utf-8"))]
    assert len(found) > 60


@pytest.mark.parametrize(
    "name",
    [
        "rows/no_such_file.py",
        "tests/test_no_such_file.py",
        "Lattice.no_such_method",
        "Encoder.for_transform",  # a method of another class
        "no_such_module.exact",
        "NO_SUCH_CONSTANT",
    ],
)
def test_control_a_name_that_does_not_exist_is_found(name):
    assert name in cited(f"The function `{name}` does it.")
    assert not exists(name)


@pytest.mark.parametrize(
    "name",
    ["rows/encoder.py", "Lattice.for_transform", "privacy.exact", "max_rows", "release.md"],
)
def test_a_name_that_exists_is_accepted(name):
    assert exists(name)
