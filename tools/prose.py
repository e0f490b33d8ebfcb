"""Check the prose of documentation, docstrings, comments and messages: `make prose`.

The rules are those of the style guide: no words of our own, sentences of at most 30 words, English
numbers. Code, names in backquotes, quoted text and tables of figures are skipped. Files that are
not yet rewritten have a number of findings in `tools/prose.json`, which may only fall.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALLOWED = Path(__file__).with_suffix(".json")
FOLDERS = ("src", "docs", "examples", "tests", "trust", "benchmarks", "experiments", "tools", "r")
SKIPPED = (
    "tools/prose.py",  # names the words
    "tests/test_prose.py",  # examples of findings
    "docs/_build",
    "docs/results",
    "docs/json-schema",
    "tests/data",
    "tests/stand_ins",
)
MOST_WORDS = 30
OWN_WORDS = (
    r"looks?|doors?|rooms?|drown\w*|tells?|told|judge\w*|arenas?|entrants?|imagined|that of"
    r"|those of|the latter"
)
RULES = {
    "own word": re.compile(rf"(?<![\w-])(?:{OWN_WORDS})(?![\w-])", re.IGNORECASE),
    "number without a leading zero": re.compile(r"(?<![\w.)\]/-])\.\d"),
    "space before %": re.compile(r"\d\s%"),
}
NO_PROSE = (
    re.compile(r"```.*?```|~~~.*?~~~", re.DOTALL),  # code blocks
    re.compile(r"``.+?``|`[^`\n]*`", re.DOTALL),  # code spans and names
    re.compile(r"“[^”]*”|\"[^\"\n]*\""),  # quoted text
    re.compile(r"\]\([^)]*\)|<https?://[^>]*>|https?://\S+"),  # targets of links
    re.compile(r"\$[^$\n]+\$"),  # formulas
)
SENTENCE_END = re.compile(
    r"(?<=[.!?])[\"')\]*_]*\s+(?=[\"'(\[*_`]*(?:[A-Z0-9`]|dpcov))|\n\s*\n|\n\s*(?:[-*|>]|\d+\.)\s|:\n"
)
WORD = re.compile(r"[^\W_][\w'\u2019-]*")


@dataclass(frozen=True)
class Finding:
    """One place that breaks a rule."""

    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


def without_code(text: str) -> str:
    """Return the text with a name for everything that is not prose, on as many lines."""
    for pattern in NO_PROSE:
        text = pattern.sub(lambda found: "X" + "\n" * found[0].count("\n"), text)
    return text


def findings(text: str, path: str, line: int = 1) -> Iterator[Finding]:
    """Yield what breaks a rule in a passage of prose that starts on this line."""
    plain = without_code(text)
    for rule, pattern in RULES.items():
        for found in pattern.finditer(plain):
            at = line + plain.count("\n", 0, found.start())
            yield Finding(path, at, rule, found[0].strip())
    start = 0
    for end in [*(found.start() for found in SENTENCE_END.finditer(plain)), len(plain)]:
        sentence = plain[start:end]
        words = WORD.findall(sentence)
        if len(words) > MOST_WORDS and not re.search(r"\|.*\|", sentence):
            at = line + plain.count("\n", 0, start) + len(sentence) - len(sentence.lstrip("\n"))
            yield Finding(path, at, f"{len(words)} words", " ".join(words[:8]) + " ...")
        start = end


def of_markdown(source: str) -> Iterator[tuple[str, int]]:
    """Yield a page as one passage."""
    yield (
        re.sub(r"<!--.*?-->", lambda found: "\n" * found[0].count("\n"), source, flags=re.DOTALL),
        1,
    )


def of_python(source: str) -> Iterator[tuple[str, int]]:
    """Yield docstrings, messages and comments, each with its line."""
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                docstrings.add(id(node.body[0].value))  # type: ignore[attr-defined]
                yield _plain_docstring(text), node.body[0].lineno
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
    } - {id(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)}
    for node in ast.walk(tree):
        if id(node) in docstrings | inside:
            continue
        text = _message(node)
        if text:
            yield text, node.lineno  # type: ignore[attr-defined]
    yield from _comments(source)


def _message(node: ast.AST) -> str:
    """Return the text of a string that reads as a sentence, with X for each value in it."""
    if isinstance(node, ast.JoinedStr):
        text = "".join(
            part.value if isinstance(part, ast.Constant) else "X" for part in node.values
        )
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
    else:
        return ""
    reads = len(text.split()) >= 4 and re.search(r"[a-z] [a-z]", text) and "\n\n" not in text
    return text if reads else ""


def _plain_docstring(text: str) -> str:
    """Return a docstring without examples, underlines, formulas and names of parameters."""
    lines = []
    for line in text.splitlines():
        code = re.match(r"\s*(>>>|\.\.\. )", line) or re.match(r"\s*[-=~]{3,}\s*$", line)
        line = re.sub(r"^(\s*)[\w.]+(, [\w.]+)* : ", r"\1X : ", line)  # names of parameters
        lines.append("" if code or line.startswith("        ") else line)
    return "\n".join(lines)


def _comments(source: str) -> Iterator[tuple[str, int]]:
    """Yield each block of comments as one passage."""
    block: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or re.match(r"#\s*(type:|noqa|ruff:|!)", token.string):
            continue
        if block and token.start[0] != last + 1:
            yield "\n".join(block), first
            block = []
        first = first if block else token.start[0]
        last = token.start[0]
        block.append(re.sub(r"\s*#\s*(noqa|type:).*$", "", token.string).lstrip("# "))
    if block:
        yield "\n".join(block), first


def files() -> Iterator[Path]:
    """Yield the files with prose."""
    yield from (
        ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
    )
    for folder, ending in (
        (one, ending) for one in FOLDERS for ending in ("*.md", "*.py", "*.Rmd")
    ):
        for path in sorted((ROOT / folder).rglob(ending)):
            if not path.relative_to(ROOT).as_posix().startswith(SKIPPED):
                yield path


def checked(path: Path) -> list[Finding]:
    """Return the findings of a file, in order."""
    source, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
    passages = of_python(source) if path.suffix == ".py" else of_markdown(source)
    found = [one for text, line in passages for one in findings(text, name, line)]
    return sorted(found, key=lambda one: one.line)


def main() -> int:
    """Print findings beyond what is allowed; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, help="print all findings of these files")
    parser.add_argument(
        "--lower", action="store_true", help="lower what is allowed to what there is"
    )
    asked = parser.parse_args()
    if asked.paths:
        found = [one for path in asked.paths for one in checked(path.resolve())]
        print(*found, f"{len(found)} findings", sep="\n")
        return int(bool(found))
    allowed = json.loads(ALLOWED.read_text()) if ALLOWED.exists() else {}
    counts, failed = {}, False
    for path in files():
        found, name = checked(path), path.relative_to(ROOT).as_posix()
        counts[name] = len(found)
        if len(found) > allowed.get(name, 0) and not asked.lower:
            failed = True
            print(
                *found, f"{name}: {len(found)} findings, {allowed.get(name, 0)} allowed", sep="\n"
            )
    if asked.lower:
        kept = {name: count for name, count in sorted(counts.items()) if count}
        ALLOWED.write_text(json.dumps(kept, indent=1) + "\n")
    total, broken = sum(counts.values()), sum(map(bool, counts.values()))
    print(f"{total} findings in {broken} of {len(counts)} files")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
