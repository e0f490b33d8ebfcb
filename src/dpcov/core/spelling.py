"""How messages spell what a person may ask for: as an argument in Python, as a flag in a shell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_in_shell = False  # whether the process is the command line, at work on one command


@contextmanager
def shell_spelling() -> Iterator[None]:
    """Spell for the command line meanwhile."""
    global _in_shell
    before, _in_shell = _in_shell, True
    try:
        yield
    finally:
        _in_shell = before


def spelled(python: str, shell: str) -> str:
    """What fits who asks."""
    return shell if _in_shell else python


def named(name: str) -> str:
    """Spell the name of an argument: `alpha`, or `--alpha`."""
    flag = name.replace("_", "-")
    return spelled(name, f"-{flag}" if len(flag) == 1 else f"--{flag}")


def asked(name: str, value: str | bool = True) -> str:
    """Spell an argument and its value: `table='NAME'`, or `--table NAME` (`--force` if True)."""
    shell = named(name) if isinstance(value, bool) else f"{named(name)} {value}"
    return spelled(f"{name}={value!r}", shell)
