"""The site's own Sphinx extension: pages show what their code prints, and what is generated."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pages import blocks, outputs, with_outputs
from tables import generated

LITERAL = re.compile(r"(``.*?``|`[^`]*`)", re.DOTALL)


def read(app: Any, name: str, source: list[str]) -> None:
    """Run a page and put its outputs and everything generated into its text."""
    text = source[0]
    if any(block.runs for block in blocks(text)):
        text = with_outputs(text, outputs(Path(app.env.doc2path(name))))
    source[0] = generated(text)


def plain(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with code in backquotes: bars and stars mean themselves."""
    parts = LITERAL.split("\n".join(lines))
    for at in range(0, len(parts), 2):
        parts[at] = re.sub(r"(?<!\\)([*|]|_(?=\W|$))", r"\\\1", parts[at])
    lines[:] = "".join(parts).split("\n")


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", plain, priority=400)  # before napoleon
    return {"parallel_read_safe": True, "parallel_write_safe": True}
