"""Extend Sphinx: pages show the outputs of their code and the generated parts."""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pages import blocks, outputs, with_outputs
from tables import generated

COLON = "\ue000"
ENTRY = re.compile(r"^(\w+(?:, \w+)*) : (.*(?:\n    (?![A-Z]).*|\n(?!    )|\Z))", re.MULTILINE)
NAMES = r"^\w+(?:, \w+)*$"  # a line with names of parameters only
EXAMPLE = r"^ *>>> .*?(?:\n\n|\Z)"
LITERAL = re.compile(rf"(``.*?``|`[^`]*`|{EXAMPLE}|{NAMES})", re.DOTALL | re.MULTILINE)


def read(app: Any, name: str, source: list[str]) -> None:
    """Run a page, and insert the outputs and the generated parts into its text."""
    text = source[0]
    if any(block.runs for block in blocks(text)):
        text = with_outputs(text, outputs(Path(app.env.doc2path(name))))
    source[0] = generated(text)


def plain(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Convert a docstring to the form that the extension napoleon reads.

    Bars and stars outside backquotes are ordinary characters. If the text of a parameter begins on
    the line of its name, the parameter has no type.
    """
    text = ENTRY.sub(r"\1\n    \2", "\n".join(lines))
    parts = LITERAL.split(text)
    for at in range(0, len(parts), 2):
        parts[at] = re.sub(r"(?<!\\)([*|]|_(?=\W|$))", r"\\\1", parts[at])
    text = "".join(parts)
    if what == "property":  # napoleon would read the summary before a colon as a type
        summary, blank, rest = text.partition("\n\n")
        text = summary.replace(":", COLON) + blank + rest
    lines[:] = text.split("\n")


def restored(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Put the colons back into a docstring."""
    lines[:] = [line.replace(COLON, ":") for line in lines]


def copy_mathjax(app: Any, error: Exception | None) -> None:
    """Copy MathJax with its fonts into the folder that is built.

    Only the files of the package `sphinx-mathjax-offline` are used: its extension does not declare
    that pages can be read in parallel, which is a warning.
    """
    found = find_spec("sphinx-mathjax-offline")
    if error is not None or found is None or found.origin is None:
        return
    source = Path(found.origin).parent / "static" / "mathjax"
    target = Path(app.outdir) / "_static" / "mathjax"
    for part in ("a11y", "input", "output", "ui"):
        if (source / part).is_dir():
            shutil.copytree(source / part, target / part, dirs_exist_ok=True)
    shutil.copy(source / "tex-chtml.js", target)


def setup(app: Any) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", plain, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", restored, priority=600)  # after it
    app.connect("build-finished", copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
