"""Code lines by room, and whether each keeps below its ceiling: `make lint`.

A line counts if something on it runs: blank lines, comments and docstrings don't. The ceilings are
the table of `docs/dev/lines.md`. `--lower` brings them down to what there is, and never up.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "dev" / "lines.md"
PRODUCT = Path("src/dpcov")
PAPERS = ("src/dpcov/papers", "tests/papers")
WHOLE = "product without papers"
OTHERS = ("benchmarks", "experiments", "trust", "examples", "docs")
ROW = re.compile(r"^\| `([^`]+)` \| ([\d,]+) \|$", re.MULTILINE)
SILENT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def code_lines(source: str) -> int:
    """How many lines hold a token that is neither a comment nor in a docstring."""
    told = {
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
    return len(held - told)


def room(path: Path) -> str:
    """The room of a file: its folder in the package, or one of the folders beside it."""
    if path.is_relative_to(PRODUCT):
        inner = path.relative_to(PRODUCT).parts[:-1]
        return (PRODUCT / inner[0]).as_posix() if inner else PRODUCT.as_posix()
    papers = next((folder for folder in PAPERS if path.is_relative_to(folder)), None)
    return papers or path.parts[0]


def counted(root: Path = ROOT) -> dict[str, int]:
    """Code lines of each room."""
    found: Counter[str] = Counter()
    for folder in (PRODUCT.as_posix(), "tests", *OTHERS):
        for path in (root / folder).rglob("*.py"):
            found[room(path.relative_to(root))] += code_lines(path.read_text(encoding="utf-8"))
    product = sum(found[name] for name in found if Path(name).is_relative_to(PRODUCT))
    found[WHOLE] = product - found[PAPERS[0]]
    return dict(sorted(found.items()))


def ceilings(page: str) -> dict[str, int]:
    return {name: int(most.replace(",", "")) for name, most in ROW.findall(page)}


def breaches(found: dict[str, int], most: dict[str, int]) -> list[str]:
    """What is wrong: a room above its ceiling, without one, or a ceiling without a room."""
    return [
        *(
            f"{name}: {found[name]:,} code lines, above its ceiling of {most[name]:,}"
            for name in found.keys() & most.keys()
            if found[name] > most[name]
        ),
        *(f"{name}: no ceiling in the table" for name in found.keys() - most.keys()),
        *(f"{name}: a ceiling without a room" for name in most.keys() - found.keys()),
    ]


def lowered(page: str, found: dict[str, int]) -> str:
    """The page with each ceiling at what there is, if that is less."""

    def row(match: re.Match[str]) -> str:
        name, most = match[1], int(match[2].replace(",", ""))
        return f"| `{name}` | {min(most, found.get(name, most)):,} |"

    return ROW.sub(row, page)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail if a room is above its ceiling")
    parser.add_argument("--lower", action="store_true", help="lower the ceilings to what there is")
    asked = parser.parse_args()
    found, page = counted(), PAGE.read_text(encoding="utf-8")
    for name, lines in found.items():
        print(f"{lines:7,}  {name}")
    if asked.lower:
        PAGE.write_text(lowered(page, found), encoding="utf-8")
    wrong = breaches(found, ceilings(page)) if asked.check else []
    for one in sorted(wrong):
        print(one, file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
