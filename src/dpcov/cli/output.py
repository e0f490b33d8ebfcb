"""Safe standard output and standard error.

A character that the terminal cannot show is written as an escape. If standard output fails (a full
disk, a closed pipe), dpcov raises `OutputError`. If standard error fails, dpcov goes on without
warnings, because a lost warning must not end a run whose budget is spent.
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

REASONS = {errno.EBADF: "it is closed"}  # the text of the system is unclear


class _Stream:
    """Text stream that raises `OutputError` when it fails, or ignores the failure if `mute`."""

    def __init__(self, stream: TextIO, *, mute: bool) -> None:
        self._stream, self._mute = stream, mute
        if isinstance(stream, io.TextIOWrapper):
            with suppress(OSError):  # reconfigure flushes the stream first
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
    """Return the error for a standard output that fails."""
    reason = REASONS.get(error.errno or 0) or error.strerror or "the system refuses"
    return OutputError(f"Standard output cannot be written: {reason}.")


def _discard_from_now_on(stream: TextIO) -> None:
    """Redirect a broken stream to the null device, because Python flushes streams when it ends."""
    with suppress(OSError, ValueError):  # the stream of a test has no descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _fill_closed_descriptors() -> None:
    """Open the null device for each closed descriptor from 0 to 2.

    Otherwise, the next file that dpcov opens gets this descriptor. The device is opened for reading
    only, so that writing to a closed standard output fails.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # the system assigns the lowest free number
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


@contextmanager
def safe_streams() -> Iterator[None]:
    """Replace `sys.stdout` and `sys.stderr` by safe streams within the context."""
    _fill_closed_descriptors()
    before = sys.stdout, sys.stderr
    sys.stdout = cast("TextIO", _Stream(before[0], mute=False))
    sys.stderr = cast("TextIO", _Stream(before[1], mute=True))
    try:
        yield
    finally:
        with suppress(OutputError):  # the exit code is already set
            sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def require_writable(quiet: bool = False) -> None:
    """Raise `OutputError` if standard output would fail, before dpcov spends budget.

    With `quiet`, the function checks nothing, because dpcov prints nothing.
    """
    if quiet:
        return
    sys.stdout.flush()
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        return  # not a file, such as the stream of a test
    try:
        if _is_broken(number):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        os.write(number, b"")  # some devices refuse even an empty write
    except OSError as error:
        _discard_from_now_on(sys.stdout)
        raise unwritable(error) from None


def _is_broken(number: int) -> bool:
    """Return True if the reader of a pipe has closed it. Windows shows this only to a write."""
    if not hasattr(select, "poll"):
        return False
    ends = select.poll()
    ends.register(number, select.POLLOUT)
    return any(event & (select.POLLERR | select.POLLNVAL) for _, event in ends.poll(0))


@contextmanager
def written(*places: Path, note: str = "") -> Iterator[None]:
    """Add to an error of standard output that dpcov has written these files."""
    try:
        yield
        sys.stdout.flush()
    except OutputError as error:
        listed = " ".join(map(shown, places))
        are = "is" if len(places) == 1 else "are"
        raise OutputError(f"{error} {note}{listed} {are} written.") from None
