"""Count code lines by package and folder: `make lint` prints the report.

A line counts if something on it runs. Blank lines, comments and docstrings do not count.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = Path("src/dpcov")
PAPERS = ("src/dpcov/papers", "tests/papers")
WHOLE = "product without papers"
OTHERS = ("benchmarks", "experiments", "trust", "examples", "docs")
SILENT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def code_lines(source: str) -> int:
    """Return the number of lines with a token that is neither a comment nor a docstring."""
    reported = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SILENT:
            held.update(range(token.start[0], token.end[0] + 1))
    return len(held - reported)


def package(path: Path) -> str:
    """Return the package of a file, or its folder outside `src/dpcov`."""
    if path.is_relative_to(PRODUCT):
        inner = path.relative_to(PRODUCT).parts[:-1]
        return (PRODUCT / inner[0]).as_posix() if inner else PRODUCT.as_posix()
    papers = next((folder for folder in PAPERS if path.is_relative_to(folder)), None)
    return papers or path.parts[0]


def counted(root: Path = ROOT) -> dict[str, int]:
    """Return the number of code lines by package and folder."""
    found: Counter[str] = Counter()
    for folder in (PRODUCT.as_posix(), "tests", *OTHERS):
        for path in (root / folder).rglob("*.py"):
            found[package(path.relative_to(root))] += code_lines(path.read_text(encoding="utf-8"))
    product = sum(found[name] for name in found if Path(name).is_relative_to(PRODUCT))
    found[WHOLE] = product - found[PAPERS[0]]
    return dict(sorted(found.items()))


def main() -> None:
    """Print the code lines of each package and folder."""
    for name, lines in counted().items():
        print(f"{lines:7,}  {name}")


if __name__ == "__main__":
    main()
