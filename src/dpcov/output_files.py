"""Files that are written: whether they can be is found out before, and they are whole or not."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterable
from pathlib import Path

from dpcov.errors import OutputError


def check_writable(path: Path, *, force: bool, inputs: Iterable[Path] = (), room: int = 0) -> None:
    """Find out, before anything is done, whether `room` bytes can be written to `path`.

    An existing file needs `force`; an input of the release is never overwritten.
    """
    try:
        exists = bool(path.lstat())
    except FileNotFoundError:
        exists = False
    except OSError as error:
        raise _unwritable(path, error) from None
    if path.is_dir():
        raise OutputError(f"{str(path)!r} is a folder; give a file name.")
    if path.exists() and any(given.exists() and path.samefile(given) for given in inputs):
        raise OutputError(f"{str(path)!r} is an input of this release; give another name.")
    if exists and not force:
        raise OutputError(f"{str(path)!r} exists. Give another name, or --force to replace it.")
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".dpcov-") as probe:
            probe.write(bytes(room))
            probe.flush()
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(f"{str(path)!r} can't be written: {error.strerror}.")


def write_atomically(path: Path, text: str, mode: int = 0o666) -> None:
    """Write beside `path`, flush to disk, and rename over it; `mode` as `os.open` takes it.

    Raises
    ------
    OutputError : it can't be written; what was there before is there still.

    """
    draft = path.with_name(f".dpcov-{secrets.token_hex(8)}")
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    try:
        descriptor = os.open(draft, flags, mode)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from None
