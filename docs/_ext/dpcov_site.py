"""The site's own Sphinx extension: pages show what their code prints, and what is generated."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pages import blocks, outputs, with_outputs
from tables import generated

COLON = "\ue000"
ENTRY = re.compile(r"^(\w+(?:, \w+)*) : (.*(?:\n    (?![A-Z]).*|\n(?!    )|\Z))", re.MULTILINE)
NAMES = r"^\w+(?:, \w+)*$"  # of parameters, on a line of their own
EXAMPLE = r"^ *>>> .*?(?:\n\n|\Z)"
LITERAL = re.compile(rf"(``.*?``|`[^`]*`|{EXAMPLE}|{NAMES})", re.DOTALL | re.MULTILINE)


def read(app: Any, name: str, source: list[str]) -> None:
    """Run a page and put its outputs and everything generated into its text."""
    text = source[0]
    if any(block.runs for block in blocks(text)):
        text = with_outputs(text, outputs(Path(app.env.doc2path(name))))
    source[0] = generated(text)


def plain(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Make a docstring what napoleon understands.

    Outside backquotes bars and stars mean themselves. An entry of a list of parameters whose text
    begins beside its name has no type.
    """
    text = ENTRY.sub(r"\1\n    \2", "\n".join(lines))
    parts = LITERAL.split(text)
    for at in range(0, len(parts), 2):
        parts[at] = re.sub(r"(?<!\\)([*|]|_(?=\W|$))", r"\\\1", parts[at])
    text = "".join(parts)
    if what == "property":
        text = text.replace(":", COLON)  # what stands before a colon would be its type
    lines[:] = text.split("\n")


def restored(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Replace escaped colons by colons."""
    lines[:] = [line.replace(COLON, ":") for line in lines]


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", plain, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", restored, priority=600)  # after it
    return {"parallel_read_safe": True, "parallel_write_safe": True}
