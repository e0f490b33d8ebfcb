"""Run the code of a documentation page without changes, for the tests and for the site.

Each page runs in its own temporary folder. If the page mentions ``demo/``, `dpcov demo` runs first.
The blocks run in their order:

- A ``console`` block contains commands. Each command begins with ``$ `` and can have more lines.
- All ``python`` blocks of a page are one program.
- A block after ``<!-- file: NAME -->`` is the content of a file that the reader saves.

A line ``<!-- run: ... -->`` before a block sets options of the block:

- ``raises=NAME``: the block ends with this error of `dpcov.errors`.
- ``needs=MODULE``: the block runs only if this module is installed.
- ``terminal``: the commands write to a terminal and not to a pipe.
- ``once``: the block does not run, because only a new clone needs its commands.
- ``server``: the block does not run, because it needs a database server or a cluster.
- ``lines=N``: the page shows at most N lines of each output.

``python docs/_ext/pages.py PAGE`` runs one page and prints its outputs as JSON.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

DOCS = Path(__file__).parents[1]
WIDTH = 90
FENCE = re.compile(
    r"(?:^<!-- (?P<order>run|file): (?P<detail>.*?) -->\n)?"
    r"^```(?P<language>[a-z]+)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """One block of code in a page, with its options."""

    language: str
    code: str
    file: str
    options: dict[str, str]

    @property
    def runs(self) -> bool:
        """True if the block contains commands or a program."""
        return self.language in ("console", "python") and not self.file

    @property
    def lacks(self) -> bool:
        """True if the block must not run, or if its module is not installed."""
        if not {"once", "server"}.isdisjoint(self.options):
            return True
        needed = self.options.get("needs")
        if needed is None:
            return False
        try:
            return importlib.util.find_spec(needed) is None
        except ModuleNotFoundError:  # the package of the module is not installed either
            return True

    @property
    def commands(self) -> list[str]:
        """Commands of a console block, without the prompts."""
        if not self.code.startswith("$ "):
            raise ValueError(f"a console block must start with '$ ': {self.code!r}")
        return [part.rstrip("\n") for part in re.split(r"^\$ ", self.code, flags=re.M)[1:]]


def blocks(text: str) -> list[Block]:
    """Return all code blocks of a page, in order."""
    return [_block(found) for found in FENCE.finditer(text)]


def pages() -> list[Path]:
    """Return the pages that contain code to run."""
    return sorted(
        page
        for page in DOCS.rglob("*.md")
        if any(block.runs for block in blocks(page.read_text(encoding="utf-8")))
    )


def outputs(page: Path) -> list[list[str]]:
    """Run a page in a separate process; return the outputs of each block, one for each command."""
    done = subprocess.run(  # noqa: S603 (our own page)
        [sys.executable, "-W", "error", str(Path(__file__).resolve()), str(page.resolve())],
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{page.relative_to(DOCS)} does not run:\n{done.stderr[-4000:]}")
    found: list[list[str]] = json.loads(done.stdout)
    return found


def with_outputs(text: str, found: list[list[str]]) -> str:
    """Return the text of the page, with each output below its code."""
    remaining = iter(found)
    return FENCE.sub(lambda match: _shown(match, next(remaining)), text)


def _block(found: re.Match[str]) -> Block:
    file = found["detail"] if found["order"] == "file" else ""
    words = shlex.split(found["detail"]) if found["order"] == "run" else []
    options = {name: value for name, _, value in (word.partition("=") for word in words)}
    return Block(found["language"], found["code"], file, options)


def _shown(match: re.Match[str], found: list[str]) -> str:
    block = _block(match)
    caption = f"{block.file}:\n\n" if block.file else ""
    if not any(found):
        return f"{caption}```{block.language}\n{block.code}```"
    most = int(block.options.get("lines", 10**6))
    texts = [_cut(text, most) for text in found]
    if block.language == "python":
        return f"```python\n{block.code}```\n\n```text\n{texts[0]}```"
    pairs = zip(block.commands, texts, strict=True)
    return "```console\n" + "".join(f"$ {command}\n{text}" for command, text in pairs) + "```"


def _cut(text: str, most: int) -> str:
    lines = [line.rstrip() + "\n" for line in text.splitlines()]
    return "".join(lines[:most] + (["...\n"] if len(lines) > most else []))


def _environment() -> dict[str, str]:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    plain = {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb", "MPLBACKEND": "Agg"}
    return {**os.environ, "PATH": programs, **plain}


def _run(text: str) -> list[list[str]]:
    """Run the blocks of a page in the current folder."""
    if "demo/" in text:
        _command("dpcov demo")
    scope: dict[str, Any] = {"__name__": "__main__"}
    found = []
    for block in blocks(text):
        found.append([])
        if block.file:
            Path(block.file).write_text(block.code, encoding="utf-8")
        elif not block.runs or block.lacks:
            continue
        elif block.language == "python":
            found[-1].append(_python(block, scope))
        else:
            run = _on_terminal if "terminal" in block.options else _command
            found[-1] += [run(one, block.options.get("raises")) for one in block.commands]
    return found


def _python(block: Block, scope: dict[str, Any]) -> str:
    from dpcov.errors import DpcovError

    wanted = block.options.get("raises")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(block.code, "<page>", "exec"), scope)  # noqa: S102 (our own page)
        except DpcovError as error:
            if type(error).__name__ != wanted:
                raise
            print(f"{type(error).__name__}: {error}")
        else:
            if wanted:
                raise AssertionError(f"does not raise {wanted}: {block.code}")
    return printed.getvalue()


def _command(command: str, raises: str | None = None) -> str:
    """Return the output of a command that succeeds, or that fails with the expected error."""
    done = subprocess.run(  # noqa: S603 (our own page)
        ["bash", "-euc", command],  # noqa: S607
        stdin=subprocess.DEVNULL,  # no command can ask a question
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != (2 if raises else 0):
        raise AssertionError(f"exit code {done.returncode} of: {command}\n{done.stdout}")
    if raises and (found := _error_of(command)) != raises:
        raise AssertionError(f"{found} instead of {raises}: {command}\n{done.stdout}")
    return done.stdout.replace(f"{Path.cwd()}/", "")


def _on_terminal(command: str, raises: str | None = None) -> str:
    """Return what a command that succeeds writes to a terminal."""
    screen, side = pty.openpty()
    with os.fdopen(side) as terminal, os.fdopen(screen, "rb", buffering=0) as shown:
        done = subprocess.Popen(  # noqa: S603 (our own page)
            ["bash", "-euc", command],  # noqa: S607
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
        )
        terminal.close()
        parts = []
        with contextlib.suppress(OSError):  # the end of a terminal is an error
            while part := shown.read(4096):
                parts.append(part)
    text = b"".join(parts).decode().replace("\r\n", "\n")
    if done.wait() or raises:
        raise AssertionError(f"exit code {done.returncode} of: {command}\n{text}")
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def _error_of(command: str) -> str:
    """Return the name of the error that stops a dpcov command."""
    from dpcov.cli import app
    from dpcov.errors import DpcovError

    program, *arguments = shlex.split(command)
    if program != "dpcov":
        raise AssertionError(f"not a dpcov command: {command}")
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            app(arguments, standalone_mode=False)
        except DpcovError as error:
            return type(error).__name__
    return "no error"


def main(page: str) -> None:
    """Run a page in a temporary folder, and print its outputs."""
    text = Path(page).read_text(encoding="utf-8")
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        found = _run(text)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
