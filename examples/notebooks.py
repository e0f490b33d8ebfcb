"""The stories as notebooks: each script in cells, as Jupyter's own file format has them.

A script's docstring is the first text, its first line the title. ``# %% [markdown]`` begins a text,
``# %%`` code. Notebooks hold no outputs, since noise is fresh each time.
``python examples/notebooks.py`` writes them all.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STORIES = ("hospital", "census", "laboratory")
MARK = re.compile(r"^# %%(?P<text> \[markdown\])?$\n?", re.MULTILINE)


def cells(script: str) -> list[tuple[str, str]]:
    """Return the kind (`markdown` or `code`) and the source of each cell of a script."""
    reported = ast.get_docstring(ast.parse(script))
    if reported is None:
        raise ValueError("a story begins with a docstring")
    title, _, rest = reported.partition("\n")
    found = [("markdown", f"# {title.removesuffix('.')}\n{rest}")]
    marks = list(MARK.finditer(script))
    ends = [mark.start() for mark in marks[1:]] + [len(script)]
    for mark, end in zip(marks, ends, strict=True):
        source = script[mark.end() : end].strip("\n")
        if mark["text"]:
            found.append(("markdown", re.sub(r"^# ?", "", source, flags=re.MULTILINE)))
        else:
            found.append(("code", source))
    return found


def notebook(script: str) -> dict[str, Any]:
    """Convert a script to a notebook (nbformat 4.5)."""
    made = []
    for place, (kind, source) in enumerate(cells(script)):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{place}", "metadata": {}}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        made.append(cell | {"source": source.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": made,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def text(story: str) -> str:
    """Return the text of a story's notebook file."""
    script = (HERE / f"{story}.py").read_text(encoding="utf-8")
    return json.dumps(notebook(script), indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the notebooks beside the scripts."""
    for story in STORIES:
        (HERE / f"{story}.ipynb").write_text(text(story), encoding="utf-8")


if __name__ == "__main__":
    main()
