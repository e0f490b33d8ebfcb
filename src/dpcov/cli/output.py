"""Standard output and standard error: no name makes them fail, and their failure is a sentence.

A character that the terminal's code page lacks is written as an escape. What can't be written at
all (a full disk, a closed pipe) raises `OutputError` on standard output. Standard error is silent
then: it carries warnings, and a warning must not end a run whose budget is spent.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from dpcov.core.printable import shown
from dpcov.errors import OutputError

REASONS = {errno.EBADF: "it is closed"}  # where the system's words say little


class _Stream:
    """A text stream whose failures are `OutputError`, or nothing if it is `mute`."""

    def __init__(self, stream: TextIO, *, mute: bool) -> None:
        self._stream, self._mute = stream, mute
        if isinstance(stream, io.TextIOWrapper):
            with suppress(OSError):  # it writes what waits there first
                stream.reconfigure(errors="backslashreplace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._try(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            _discard_from_now_on(self._stream)
            if not self._mute:
                raise unwritable(error) from None


def unwritable(error: OSError) -> OutputError:
    """Return the sentence about a standard output that fails."""
    reason = REASONS.get(error.errno or 0) or error.strerror or "the system refuses"
    return OutputError(f"Text for standard output can't be written: {reason}.")


def _discard_from_now_on(stream: TextIO) -> None:
    """Send the rest of a broken stream nowhere: Python writes what is left of it at its end."""
    with suppress(OSError, ValueError):  # a stream of a test has no descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _fill_closed_descriptors() -> None:
    """Give descriptors 0 to 2 to the null device if they are closed; a file would get them else.

    Nothing can be written to it there, so that text that gets lost is an error.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # gets the lowest free number: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


@contextmanager
def safe_streams() -> Iterator[None]:
    """Make `sys.stdout` and `sys.stderr` fail in order, if they fail, meanwhile."""
    _fill_closed_descriptors()
    before = sys.stdout, sys.stderr
    sys.stdout = cast("TextIO", _Stream(before[0], mute=False))
    sys.stderr = cast("TextIO", _Stream(before[1], mute=True))
    try:
        yield
    finally:
        with suppress(OutputError):  # an exit code is decided already
            sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def require_writable(quiet: bool = False) -> None:
    """Raise `OutputError` if standard output is known to fail, before anything is spent.

    Nothing is required if nothing will be printed.
    """
    if quiet:
        return
    sys.stdout.flush()
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        return  # a stream of another program's, such as a test's
    ends = select.poll()
    ends.register(number, select.POLLOUT)
    try:
        broken = any(event & (select.POLLERR | select.POLLNVAL) for _, event in ends.poll(0))
        if broken:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        os.write(number, b"")  # a device may refuse even nothing
    except OSError as error:
        _discard_from_now_on(sys.stdout)
        raise unwritable(error) from None


@contextmanager
def written(*places: Path, note: str = "") -> Iterator[None]:
    """Say in an error of standard output that these files are written, before what is printed."""
    try:
        yield
        sys.stdout.flush()
    except OutputError as error:
        listed = " ".join(map(shown, places))
        are = "is" if len(places) == 1 else "are"
        raise OutputError(f"{error} {note}{listed} {are} written.") from None
