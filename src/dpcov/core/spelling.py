"""Spelling of arguments in messages: Python arguments, or options of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_in_shell = False  # True while the command line runs a command


@contextmanager
def shell_spelling() -> Iterator[None]:
    """Use the spelling of the command line inside the context."""
    global _in_shell
    before, _in_shell = _in_shell, True
    try:
        yield
    finally:
        _in_shell = before


def spelled(python: str, shell: str) -> str:
    """Return the Python text, or the shell text if the command line runs."""
    return shell if _in_shell else python


def named(name: str) -> str:
    """Return the spelling of an argument: `alpha`, or `--alpha` on the command line."""
    flag = name.replace("_", "-")
    return spelled(name, f"-{flag}" if len(flag) == 1 else f"--{flag}")


def asked(name: str, value: str | bool = True) -> str:
    """Return an argument with its value: `table='NAME'`, or `--table NAME` on the command line.

    Parameters
    ----------
    name : str
        Name of the argument, in Python spelling.
    value : str or bool
        Value of the argument. True stands for an option without a value, such as `--force`.

    Returns
    -------
    str
        Text for a message.

    """
    shell = named(name) if isinstance(value, bool) else f"{named(name)} {value}"
    return spelled(f"{name}={value!r}", shell)
