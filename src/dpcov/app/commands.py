"""Commands that the page starts, each in a process of its own.

The page adds nothing to a command. The command records the budget, reads the table and draws the
noise in the same order as in a terminal, and refuses in the same way.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# -P: a file of the folder, such as numpy.py, is never imported.
PROGRAM = (sys.executable, "-P", "-c", "from dpcov.cli import main; main()")


@dataclass(frozen=True, slots=True)
class Ran:
    """Command that ran, with its output.

    Attributes
    ----------
    line : str
        Command for a terminal.

    code : int
        Exit code.

    out, err : str
        Standard output and standard error.

    """

    line: str
    code: int
    out: str
    err: str


def line_of(arguments: Sequence[str]) -> str:
    """Return the command for a terminal."""
    return shlex.join(["dpcov", *arguments])


def path_argument(name: str) -> str:
    """Return a path that no command takes for an option or a link."""
    return f"./{name}" if name.startswith("-") else name


def run(arguments: Sequence[str], folder: Path) -> Ran:
    """Run a command of dpcov in the folder and return its output.

    Parameters
    ----------
    arguments : sequence of str
        Arguments of the command.

    folder : Path
        Folder in which the command runs.

    Returns
    -------
    Ran

    """
    done = subprocess.run(  # noqa: S603  a list of arguments, and no shell
        [*PROGRAM, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONUTF8": "1", "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    return Ran(line_of(arguments), done.returncode, done.stdout, done.stderr)


def lines_of(ran: Ran) -> list[str]:
    """Return what a failed command said."""
    return [line for line in (ran.err or ran.out).splitlines() if line.strip()]
