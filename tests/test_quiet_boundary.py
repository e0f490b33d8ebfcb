"""The quiet boundary is one place: nowhere else are foreign errors caught wholesale or quoted."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpcov

ROOT = Path(dpcov.__file__).parent
BOUNDARY = "rows/sources/quiet.py"
BROAD = {"Exception", "BaseException", "MemoryError", "Warning"}
# Other functions that may catch any error, and why they reveal nothing.
WHOLESALE = {
    ("app/pages.py", "__call__"): "the last place of the page: reports only the type",
    ("cli/__init__.py", "_run"): "the last place: reports only the type",
    ("analysis/model_formula.py", "parsed"): "a formula of the user, which is public",
    ("rows/sources/array.py", "_cells"): "one row, whose cells become missing",
    ("rows/sources/threads.py", "run"): "raises it on in the thread that waits",
    ("rows/sources/objects.py", "_text"): "one cell, which becomes missing",
}
# Functions that may read an error: it is the library's own, or about a public file or argument.
QUOTING = {
    ("app/describing.py", "columns"): "own error about names and declared types",
    ("app/describing.py", "save_columns"): "own error about the answers or an output",
    ("app/forms.py", "_part"): "own error about the answers",
    ("app/forms.py", "_unit"): "own error about the answers",
    ("app/pages.py", "__call__"): "the type of an error, and no text",
    ("app/pages.py", "_answer"): "own error about the answers",
    ("app/releasing.py", "release"): "own error about the answers",
    ("app/releasing.py", "_stated"): "own error about the answers",
    ("app/server.py", "serve"): "the system's word on a port",
    ("app/site.py", "widths_of"): "own error about public numbers",
    ("api/auditing/__init__.py", "_accepted"): "own error about public numbers",
    ("cli/__init__.py", "_save"): "own error about an output",
    ("cli/__init__.py", "_signer"): "own error about a key file",
    ("cli/__init__.py", "release"): "own error about an output",
    ("cli/__init__.py", "_run"): "own errors, and usage errors about the command line",
    ("cli/output.py", "_try"): "the system's word on standard output",
    ("cli/output.py", "require_writable"): "the system's word on standard output",
    ("cli/output.py", "written"): "own error about standard output",
    ("core/envelope.py", "opened"): "where a signed file is wrong",
    ("signatures.py", "verified"): "own error about a release file",
    ("signatures.py", "_envelope"): "where a signed file is wrong",
    ("signatures.py", "_text"): "where a signed file is wrong",
    ("export/__init__.py", "write_folder"): "the system's word on an output folder",
    ("export/__init__.py", "_refuse_full"): "the system's word on an output folder",
    ("core/files.py", "require_readable"): "the system's word on a file that cannot be opened",
    ("core/files.py", "_allocate"): "the system's number of an error, on an output",
    ("core/files.py", "_lock"): "the system's number of an error, on an output",
    ("core/files.py", "read_text"): "the system's word on a public file",
    ("core/files.py", "reserved"): "the system's word on an output",
    ("core/files.py", "write"): "the system's word on an output",
    ("api/grouped.py", "prepare_by"): "own error about the schema",
    ("api/ledger/file.py", "local"): "the system's word on a ledger's path",
    ("api/ledger/file.py", "transaction"): "the code of SQLite, not its text",
    ("estimators/base.py", "_analyzed"): "own error about a release, which is public",
    ("cli/metadata.py", "_check"): "where a public metadata file is wrong",
    ("cli/metadata.py", "_loaded"): "where a public metadata file is wrong",
    ("cli/metadata.py", "read"): "own error about a public metadata file",
    ("api/plans/__init__.py", "plan"): "own error about public numbers",
    ("cli/questions.py", "_checked"): "own error about the answers",
    ("cli/questions.py", "_state_rule"): "own error about the answers",
    ("releases/file.py", "from_text"): "where a release file is wrong",
    ("report/content.py", "_part"): "own error about a release",
    ("analysis/ols.py", "regression"): "own error about a release",
    ("analysis/model_formula.py", "_tree"): "where a formula of the user is wrong",
    ("rows/sources/postgres.py", "__init__"): "the driver's word, before any cell is read",
    ("mechanisms/count.py", "run"): "own words, the same for every table",
    ("rows/sources/threads.py", "run"): "raises it on, unread, in the thread that waits",
    ("rows/schema.py", "__init__"): "where a schema is wrong",
    ("rows/schema.py", "_of_its_version"): "own error about a derived column of the schema",
    ("rows/schema.py", "parse"): "where a schema is wrong",
    ("rows/schema.py", "load"): "where a schema is wrong",
}
# Who may silence warnings, and of what.
WARNINGS = {
    "analysis/model_formula.py": "Python's word on an escape in a formula",
    "core/files.py": "the word of filelock on a system without locks",
    "cli/check.py": "the notice about a schema, which it prints itself",
    "cli/completions.py": "the notice about a schema, while a shell completes a word",
    "cli/schema.py": "the notice about a schema, which it acts on",
    "report/figures.py": "letters that a font lacks, in a figure of a release",
}
# Modules that hold data print and log nothing at all, but for a notice from the schema alone or
# from a release file alone.
NOTICES = {"rows/schema.py": {"warnings"}, "mechanisms/replay.py": {"warnings"}}
HOLDS_DATA = ("rows/sources/", "rows/", "mechanisms/", "core/samplers/")
OUTPUTS = {"print", "logging", "traceback", "warnings", "stderr", "stdout", "echo", "format_exc"}


def handlers(tree: ast.Module) -> Iterator[tuple[str, ast.ExceptHandler]]:
    """Yield each handler with the function that contains it."""

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, ast.ExceptHandler]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ExceptHandler):
                yield function, child
            inner = child.name if isinstance(child, ast.FunctionDef) else function
            yield from visit(child, inner)

    return visit(tree, "")


def caught(handler: ast.ExceptHandler) -> set[str]:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {"BaseException" if kind is None else ast.unparse(kind).split(".")[-1] for kind in kinds}


def faults(text: str, place: str) -> list[str]:
    """Return what a module does that only the boundary is allowed to do."""
    tree, found = ast.parse(text), []
    for function, handler in handlers(tree):
        where = (place, function)
        if caught(handler) & BROAD and where not in WHOLESALE:
            found.append(f"{place}, {function}: catches any error")
        if handler.name and where not in QUOTING:
            found.append(f"{place}, {function}: reads an error")
        for node in ast.walk(handler):
            if isinstance(node, ast.Raise) and node.exc is not None:
                cause = node.cause
                if not (isinstance(cause, ast.Constant) and cause.value is None):
                    found.append(f"{place}, {function}: raises with a context")
    words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {
        part
        for node in ast.walk(tree)
        for part in (
            [node.attr]
            if isinstance(node, ast.Attribute)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import | ast.ImportFrom)
            else []
        )
    }
    if place.startswith(HOLDS_DATA):
        found += [
            f"{place}: uses {word}" for word in sorted(words & OUTPUTS - NOTICES.get(place, set()))
        ]
    if place not in WARNINGS and words & {
        "catch_warnings",
        "simplefilter",
        "print_exc",
        "excepthook",
    }:
        found.append(f"{place}: handles warnings or tracebacks")
    return found


MODULES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))


@pytest.mark.parametrize("place", [module for module in MODULES if module != BOUNDARY])
def test_only_the_boundary_handles_foreign_errors(place: str) -> None:
    assert faults((ROOT / place).read_text(), place) == []


def test_control_the_boundary_itself_would_be_found() -> None:
    found = " ".join(faults((ROOT / BOUNDARY).read_text(), BOUNDARY))
    for fault in ("catches any error", "reads an error", "handles warnings"):
        assert fault in found


@pytest.mark.parametrize(
    "body",
    [
        "try:\n    f()\nexcept Exception:\n    pass",
        "try:\n    f()\nexcept (ValueError, Exception):\n    pass",
        "try:\n    f()\nexcept:\n    pass",
        "try:\n    f()\nexcept ValueError as error:\n    g(error)",
        "try:\n    f()\nexcept ValueError:\n    raise SourceError('x')",
        "try:\n    f()\nexcept ValueError as error:\n    raise SourceError('x') from error",
        "print(f())",
        "import logging",
        "import sys\nsys.stderr.write(f())",
        "from traceback import format_exc",
        "import warnings\nwarnings.warn(f())",
    ],
)
def test_control_another_boundary_would_be_found(body: str) -> None:
    lines = "\n".join("    " + line for line in body.splitlines())
    assert faults(f"def read():\n{lines}\n", "rows/sources/new.py")


@pytest.mark.parametrize("table", [WHOLESALE, QUOTING], ids=["wholesale", "quoting"])
def test_every_exemption_is_used(table: dict[tuple[str, str], str]) -> None:
    used = set()
    for place in {place for place, _ in table}:
        for function, handler in handlers(ast.parse((ROOT / place).read_text())):
            if (caught(handler) & BROAD) if table is WHOLESALE else handler.name:
                used.add((place, function))
    assert set(table) <= used
