"""A program on a real pseudo-terminal: what a person sees, and what they type."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

DPCOV = [sys.executable, "-c", "from dpcov.cli import main; main()"]
PATIENCE = 60
ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[=>]|\][^\x07]*\x07)")


def without_escapes(text: str) -> str:
    return ESCAPE.sub("", text)


class Terminal:
    """A running program on a terminal of its own."""

    def __init__(self, command: Sequence[str], screen: int, process: subprocess.Popen) -> None:
        self.screen = screen
        self.process = process
        self.seen = ""
        self._at = 0

    def expect(self, text: str) -> None:
        """Wait until `text` shows, after what was expected before."""
        deadline = time.monotonic() + PATIENCE
        while (found := without_escapes(self.seen).find(text, self._at)) < 0:
            assert time.monotonic() < deadline, f"no {text!r} in {self.seen!r}"
            assert self._read(), f"ended without {text!r}: {self.seen!r}"
        self._at = found + len(text)

    def type(self, text: str) -> None:
        os.write(self.screen, text.encode())

    def again(self, text: str) -> None:
        """Type the text every second, as people do, until the program has ended."""
        for _ in range(PATIENCE):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1)
                return
            self.type(text)

    def ended(self) -> int:
        """Read to the end; the exit code."""
        while self._read():
            pass
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        if not select.select([self.screen], [], [], PATIENCE)[0]:
            return False
        try:
            part = os.read(self.screen, 2**16)
        except OSError:  # what Linux says where others return nothing
            return False
        self.seen += part.decode(errors="replace")
        return bool(part)


@contextlib.contextmanager
def terminal(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], width: int = 80
) -> Iterator[Terminal]:
    """Run a command on a terminal of `width` columns."""
    screen, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    plain = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=plain | {"TERM": "xterm-256color"} | dict(environment),
        stdin=other,
        stdout=other,
        stderr=other,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(other)
    try:
        yield Terminal(command, screen, process)
    finally:
        process.kill()
        process.wait()
        os.close(screen)
