"""Files that people hand over or ask for: read within bounds, written whole or not at all.

An output is reserved before anything is spent: its name is created, if it is new, and locked until
it is written. Of several processes that want one name, one gets it. What a process that was killed
leaves is an empty file that nobody has locked, and the next one takes it over. The content goes to
a file without a name, whose room on the disk is kept from the start, and gets the name at the end.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from dpcov.core.printable import shown
from dpcov.core.spelling import asked
from dpcov.errors import DpcovError, OutputError

PIECE = 2**20  # bytes that are read at once
TRIES = 100  # at a name that others replace meanwhile
UNSUPPORTED = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL)


def read_text(
    path: str | os.PathLike[str], what: str, failure: type[DpcovError], *, most: int
) -> str:
    """The text of a regular file of at most so many bytes; `what` it is and `failure`, if it fails.

    A pipe or device may never end, so none is read.
    """
    try:
        return _content(path, most).decode("utf-8")
    except OSError as error:
        reason = error.strerror or "the system refuses"
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except ValueError:
        reason = "this is no name of a file"
    raise failure(f"The {what} {shown(path)!r} can't be read: {reason}.")


def require_readable(path: str | os.PathLike[str], failure: type[DpcovError]) -> None:
    """Raise `failure`, with the system's reason, if a file is not there or can't be opened.

    A pipe or device is not opened: that may act.
    """
    try:
        if stat.S_ISREG(Path(path).stat().st_mode):
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        return
    except (FileNotFoundError, NotADirectoryError):
        reason = f"There is no file {shown(path)!r}."
    except OSError as error:
        reason = f"{shown(path)!r} can't be opened: {error.strerror or 'the system refuses'}."
    except ValueError:
        reason = f"{shown(path)!r} can't be opened: this is no name of a file."
    raise failure(reason)


def utf8_name(path: str | os.PathLike[str], failure: type[DpcovError]) -> str:
    """Return the name of a file for a library that takes UTF-8 alone; raise `failure` otherwise."""
    name = os.fspath(path)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise failure(
            f"{shown(path)!r} can't be opened: its name is not UTF-8 text. Rename the file, or "
            "give a link to it (ln -s)."
        ) from None
    return name


def _content(path: str | os.PathLike[str], most: int) -> bytes:
    """What a regular file of at most `most` bytes holds; memory grows with what is there."""
    with open(path, "rb", opener=_without_waiting) as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        content, size = bytearray(), state.st_size
        while size <= most and (piece := file.read(PIECE)):
            content += piece
            size = max(size, len(content))  # it may grow meanwhile
    if size > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MiB")
    return bytes(content)


def _without_waiting(path: str, flags: int) -> int:
    """Open even a pipe that nobody writes to."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


@dataclass(frozen=True, slots=True)
class Output:
    """A name that is held for this process, and the file without a name that will get it."""

    path: Path
    draft: int
    link: Path | None  # a name of the draft, where the file system needs one

    def write(self, content: str | bytes) -> None:
        """Give the name to a file with this content, which is on the disk when this returns.

        Raises
        ------
        OutputError : it can't be written; what was there before is there still.

        """
        content = content.encode() if isinstance(content, str) else content
        try:
            with os.fdopen(os.dup(self.draft), "wb") as file:
                file.write(content)
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
            link = _link_of(self.path)
            if self.link is None:
                link.unlink(missing_ok=True)
                os.link(f"/proc/self/fd/{self.draft}", link, src_dir_fd=self.draft)
            try:
                link.replace(self.path)
            except OSError:
                link.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise _unwritable(self.path, error) from None
        with suppress(OSError):  # the file is there; some file systems can't sync a folder
            _sync(self.path.parent)


def write(
    path: str | os.PathLike[str],
    content: str | bytes,
    *,
    force: bool,
    inputs: Iterable[str | os.PathLike[str]] = (),
    mode: int = 0o666,
) -> None:
    """Write a file, whole or not at all; the parameters are those of `reserved`."""
    with reserved(path, force=force, inputs=inputs, mode=mode) as output:
        output.write(content)


@contextmanager
def reserved(
    path: str | os.PathLike[str],
    *,
    force: bool,
    inputs: Iterable[str | os.PathLike[str]] = (),
    room: int = 0,
    mode: int = 0o666,
) -> Iterator[Output]:
    """Hold `path` for an output, with `room` bytes on the disk; `mode` as `os.open` takes it.

    An existing file needs `force`; an input of the release is never overwritten, nor is anything
    that is no regular file. A symbolic link is none: give the name that it stands for. What is
    reserved and not written vanishes.

    Raises
    ------
    OutputError : it can't be written, or another process is about to.

    """
    place = Path(path)
    with ExitStack() as stack:
        try:
            _refuse_what_is_no_output(place, inputs)
            held, made = _locked(place, force, mode)
            stack.callback(_let_go, place, held, made)
            draft, link = _draft(place, mode)
            stack.callback(os.close, draft)
            if link is not None:
                stack.callback(link.unlink, missing_ok=True)
            _lock(place, draft)  # it is what `place` will name, until it is closed
            _keep_room(draft, room)
        except (OSError, ValueError) as error:
            raise _unwritable(place, error) from None
        yield Output(place, draft, link)


def check_writable(
    path: Path, *, force: bool, inputs: Iterable[str | os.PathLike[str]] = ()
) -> None:
    """Find out whether `reserved` would succeed now; nothing is kept."""
    with reserved(path, force=force, inputs=inputs):
        pass


def _refuse_what_is_no_output(path: Path, inputs: Iterable[str | os.PathLike[str]]) -> None:
    if path.is_dir():
        raise OutputError(f"{shown(path)!r} is a folder; give a file name.")
    given = [one for one in map(Path, inputs) if path.exists() and one.exists()]
    if any(path.samefile(one) for one in given):
        raise OutputError(f"{shown(path)!r} is an input of this release; give another name.")


def _locked(path: Path, force: bool, mode: int) -> tuple[int, bool]:
    """The file of this name, locked and still of this name, and whether it was made here."""
    for _ in range(TRIES):
        found = _opened(path, mode)
        if found is None:
            continue
        held, made = found
        with ExitStack() as stack:
            stack.callback(os.close, held)
            _require_regular(path, os.fstat(held))
            _lock(path, held)
            if not _is_named(path, held):
                continue  # whoever held it has replaced it or let it go: try again
            if os.fstat(held).st_size and not force:
                raise OutputError(
                    f"{shown(path)!r} exists. Give another name, or {asked('force')} to replace it."
                )
            stack.pop_all()
            return held, made
    raise _in_use(path)


def _is_named(path: Path, held: int) -> bool:
    try:
        return os.path.samestat(os.fstat(held), os.lstat(path))
    except FileNotFoundError:
        return False


def _opened(path: Path, mode: int) -> tuple[int, bool] | None:
    """Descriptor of the file, and whether it is new; None if it came or went meanwhile."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    try:
        return os.open(path, flags | os.O_CREAT | os.O_EXCL, mode), True
    except FileExistsError:
        pass
    try:
        _require_regular(path, os.lstat(path))  # not opened: opening a device may act
        return os.open(path, flags), False
    except FileNotFoundError:
        return None


def _require_regular(path: Path, state: os.stat_result) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise OutputError(f"{shown(path)!r} is no regular file; give another name.")


def _lock(path: Path, held: int) -> None:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _in_use(path) from None
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        raise OutputError(
            f"{shown(path)!r} is on a file system without locks, where two processes could take "
            "one name. Write to another disk and move the file."
        ) from None


def _let_go(path: Path, held: int, made: bool) -> None:
    """Close a reservation, and remove it if it was made here and is empty still."""
    with suppress(OSError):
        if made and not os.fstat(held).st_size and _is_named(path, held):
            path.unlink()
    os.close(held)


def _draft(path: Path, mode: int) -> tuple[int, Path | None]:
    """A new file in the folder of `path`: without a name, or with one where that can't be."""
    if hasattr(os, "O_TMPFILE") and Path("/proc/self/fd").exists():
        try:
            return os.open(path.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode), None
        except OSError:
            pass  # a file system that can't; what else is wrong shows now
    link = _link_of(path)
    link.unlink(missing_ok=True)  # of a process that was killed: the name is ours alone now
    return os.open(link, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, mode), link


def _link_of(path: Path) -> Path:
    """Name of the draft; only who holds `path` uses it."""
    return path.with_name(f".dpcov-{sha256(os.fsencode(path.name)).hexdigest()[:16]}")


def _keep_room(draft: int, room: int) -> None:
    """Take the space now; where no call does that (macOS, some file systems), by zeros."""
    try:
        if room and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(draft, 0, room)
            return
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    if os.pwrite(draft, bytes(room), 0) < room:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _in_use(path: Path) -> OutputError:
    return OutputError(f"{shown(path)!r} is being written by another process; give another name.")


def _unwritable(path: Path, error: OSError | ValueError) -> OutputError:
    reason = getattr(error, "strerror", None) or "this is no name of a file"
    return OutputError(f"{shown(path)!r} can't be written: {reason}.")
