"""Reading of input files up to a size limit, and atomic writing of output files.

dpcov reserves an output before it spends budget. The reservation creates the file, if it is new,
and locks the file until it is written. If several processes want the same file, one process gets
the lock. A killed process leaves an empty file without a lock, which the next process can reserve.

The content goes to a second file without a name. Its disk space is allocated at the start, and it
gets its name at the end.

Windows cannot replace or remove an open file. Without the module `fcntl`, the lock is therefore a
file of its own, from the package filelock, and no file of the reservation stays open.
"""

from __future__ import annotations

import errno
import os
import stat
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from dpcov.core.installing import library
from dpcov.core.printable import shown
from dpcov.core.spelling import asked
from dpcov.errors import DpcovError, OutputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Number of bytes that are read at once.
PIECE_BYTES = 2**20
# Largest number of attempts to lock a file that other processes replace.
MAX_LOCK_ATTEMPTS = 100
# Error numbers of an operation that the file system does not support.
UNSUPPORTED_ERRORS = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL)
# Flags of `os.open` that Windows lacks: wait for no pipe, adopt no terminal, close in children.
WITHOUT_WAITING = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC"))
# Largest time to wait for a lock file, in seconds: filelock removes the file of a killed process.
MAX_LOCK_SECONDS = 0.5
# Largest time to wait for a virus scanner that has the draft open, in seconds.
MAX_REPLACE_SECONDS = 3.0
# True on a system whose file modes do not restrict who can read a file.
WITHOUT_MODES = os.name == "nt"
# Who can read a private file there: its owner, the system and the administrators. Python gives the
# same rights to a folder of mode 0700.
GRANTED_RIGHTS = ("*S-1-3-4:F", "*S-1-5-18:F", "*S-1-5-32-544:F")


def read_text(
    path: str | os.PathLike[str], what: str, failure: type[DpcovError], *, most: int
) -> str:
    """Read the text of a regular file.

    Pipes and devices are refused, because they can be endless.

    Parameters
    ----------
    path : str or PathLike
        File to read.

    what : str
        Noun for the file in the error message.

    failure : type of DpcovError
        Class of the error.

    most : int
        Largest size of the file, in bytes.

    Returns
    -------
    str
        Text of the file.

    Raises
    ------
    DpcovError
        Error of class `failure`, if the file cannot be read.

    """
    try:
        return _content(path, most).decode("utf-8")
    except OSError as error:
        reason = error.strerror or "the system refuses"
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except ValueError:
        reason = "this is not a valid file name"
    raise failure(f"The {what} {shown(path)!r} cannot be read: {reason}.")


def require_readable(path: str | os.PathLike[str], failure: type[DpcovError]) -> None:
    """Raise `failure` if a file does not exist or cannot be opened.

    A pipe or device is not opened, because opening can have an effect.
    """
    try:
        if stat.S_ISREG(Path(path).stat().st_mode):
            os.close(os.open(path, os.O_RDONLY | WITHOUT_WAITING))
        return
    except (FileNotFoundError, NotADirectoryError):
        reason = f"The file {shown(path)!r} does not exist. Check the path."
    except OSError as error:
        reason = (
            f"The file {shown(path)!r} cannot be opened: {error.strerror or 'the system refuses'}."
        )
    except ValueError:
        reason = f"The file {shown(path)!r} cannot be opened: this is not a valid file name."
    raise failure(reason)


def utf8_name(path: str | os.PathLike[str], failure: type[DpcovError]) -> str:
    """Return a file name for a library that requires UTF-8; otherwise raise `failure`."""
    name = os.fspath(path)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise failure(
            f"The file {shown(path)!r} cannot be opened, because its name is not UTF-8 text. "
            "Rename the file, or use a link to it (ln -s)."
        ) from None
    return name


def _content(path: str | os.PathLike[str], most: int) -> bytes:
    """Read a regular file of at most `most` bytes."""
    with open(path, "rb", opener=_without_waiting) as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        content, size = bytearray(), state.st_size
        while size <= most and (piece := file.read(PIECE_BYTES)):
            content += piece
            size = max(size, len(content))  # the file can grow during reading
    if size > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MiB")
    return bytes(content)


def _without_waiting(path: str, flags: int) -> int:
    """Open a file without waiting, even a pipe without a writer."""
    return os.open(path, flags | WITHOUT_WAITING)


@dataclass(frozen=True, slots=True)
class Output:
    """Reserved file name, with the draft file that gets the name at the end."""

    path: Path
    draft: int | None  # open draft, or None if the system cannot rename an open file
    link: Path | None  # name of the draft, if the file system needs one

    def write(self, content: str | bytes) -> None:
        """Write the content to the disk and give it the reserved name.

        Parameters
        ----------
        content : str or bytes
            Whole content of the file.

        Raises
        ------
        OutputError
            If the file cannot be written. An earlier file of the name is then unchanged.

        """
        content = content.encode() if isinstance(content, str) else content
        try:
            link = _link_of(self.path)
            with link.open("r+b") if self.draft is None else _again(self.draft) as file:
                file.write(content)
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
            if self.link is None:
                link.unlink(missing_ok=True)
                os.link(f"/proc/self/fd/{self.draft}", link, src_dir_fd=self.draft)
            try:
                _replace(self.path, link)
            except OSError:
                link.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise _unwritable(self.path, error) from None
        with suppress(OSError):  # the file is written; some file systems cannot sync a folder
            _sync(self.path.parent)


def write(
    path: str | os.PathLike[str],
    content: str | bytes,
    *,
    force: bool,
    inputs: Iterable[str | os.PathLike[str]] = (),
    mode: int = 0o666,
) -> None:
    """Write a whole file atomically. `reserved` explains the parameters."""
    with reserved(path, force=force, inputs=inputs, mode=mode) as output:
        output.write(content)


@contextmanager
def reserved(
    path: str | os.PathLike[str],
    *,
    force: bool,
    inputs: Iterable[str | os.PathLike[str]] = (),
    space: int = 0,
    mode: int = 0o666,
) -> Iterator[Output]:
    """Reserve a file for an output within a context.

    The context removes the reservation at its end if nothing was written. Only regular files can be
    replaced, and no symbolic links.

    Parameters
    ----------
    path : str or PathLike
        File to reserve.

    force : bool
        If True, an existing file can be replaced.

    inputs : iterable of path
        Files that must not be replaced.

    space : int, default 0
        Disk space to allocate, in bytes.

    mode : int, default 0o666
        Permissions of a new file, as for `os.open`.

    Yields
    ------
    Output
        Reserved output.

    Raises
    ------
    OutputError
        If the file cannot be written or another process has reserved it.

    """
    place = Path(path)
    with ExitStack() as stack:
        try:
            _refuse_what_is_no_output(place, inputs)
            hold = _hold_by_name if fcntl is None else _hold
            output = hold(stack, place, force, mode, space)
        except (OSError, ValueError) as error:
            raise _unwritable(place, error) from None
        yield output


def check_writable(
    path: Path, *, force: bool, inputs: Iterable[str | os.PathLike[str]] = ()
) -> None:
    """Raise `OutputError` if `reserved` would fail, and keep no reservation."""
    with reserved(path, force=force, inputs=inputs):
        pass


def keep_private(path: Path, failure: type[DpcovError] = OutputError) -> None:
    """Let only the owner and administrators read a new file, if file modes cannot do this.

    Parameters
    ----------
    path : Path
        New file, still empty.

    failure : type of DpcovError
        Class of the error.

    Raises
    ------
    DpcovError
        Error of class `failure`, if other users could read the file. The file is then removed.

    """
    if not WITHOUT_MODES:
        return
    import subprocess

    tool = os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "icacls.exe")  # noqa: PTH118
    command = [tool, os.path.abspath(path), "/inheritance:r", "/grant:r", *GRANTED_RIGHTS]  # noqa: PTH100
    try:
        done = subprocess.run(  # noqa: S603  a program of the system
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        private = done.returncode == 0
    except OSError:
        private = False
    if not private:
        path.unlink()
        raise failure(
            f"Other users could read the private file {shown(path)!r}, because icacls cannot "
            "restrict its access rights. Choose a folder on an NTFS disk."
        )


def _hold(stack: ExitStack, path: Path, force: bool, mode: int, space: int) -> Output:
    """Reserve the file by a lock on the file itself."""
    held, made = _locked(path, force, mode)
    stack.callback(_let_go, path, held, made)
    draft, link = _draft(path, mode)
    stack.callback(os.close, draft)
    if link is not None:
        stack.callback(link.unlink, missing_ok=True)
    _lock(path, draft)  # the draft will replace `path`, so it needs a lock too
    _allocate(draft, space)
    return Output(path, draft, link)


def _hold_by_name(stack: ExitStack, path: Path, force: bool, mode: int, space: int) -> Output:
    """Reserve the file by a lock file in its folder, and leave no file open."""
    link = _link_of(path)
    needed = "This system needs the package filelock to lock files. Install it"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a system without locks: marker files do as well
        filelock = library("filelock", needed, OutputError)
    if not path.parent.is_dir():  # filelock would create the folder
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    lock = filelock.FileLock(f"{link}.lock", timeout=MAX_LOCK_SECONDS)
    try:
        stack.enter_context(lock)
    except filelock.Timeout:
        raise _in_use(path) from None
    if os.path.lexists(path):
        state = os.lstat(path)
        _require_regular(path, state)
        _require_replaceable(path, state.st_size, force)
        os.close(os.open(path, os.O_RDWR))
    else:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode))
        stack.callback(_remove_if_empty, path)
    link.unlink(missing_ok=True)  # left by a killed process; only this process has the lock
    draft = os.open(link, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), mode)
    stack.callback(link.unlink, missing_ok=True)
    try:
        _allocate(draft, space)
    finally:
        os.close(draft)
    if not mode & 0o077:
        keep_private(link)
    return Output(path, None, link)


def _remove_if_empty(path: Path) -> None:
    with suppress(OSError):
        if not path.stat().st_size:
            path.unlink()


def _again(draft: int) -> BinaryIO:
    """Open a draft for writing from its start."""
    os.lseek(draft, 0, os.SEEK_SET)
    return os.fdopen(os.dup(draft), "wb")


def _replace(path: Path, link: Path) -> None:
    """Give the draft its name. On Windows, wait for programs that have one of both files open."""
    deadline = time.monotonic() + MAX_REPLACE_SECONDS
    while True:
        try:
            link.replace(path)
        except PermissionError:
            if fcntl is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def _refuse_what_is_no_output(path: Path, inputs: Iterable[str | os.PathLike[str]]) -> None:
    if path.is_dir():
        raise OutputError(f"{shown(path)!r} is a folder. Choose a file name.")
    given = [one for one in map(Path, inputs) if path.exists() and one.exists()]
    if any(path.samefile(one) for one in given):
        raise OutputError(
            f"The file {shown(path)!r} is an input of this command. Choose another name."
        )


def _locked(path: Path, force: bool, mode: int) -> tuple[int, bool]:
    """Lock the file and return its descriptor, and True if this process created the file."""
    for _ in range(MAX_LOCK_ATTEMPTS):
        found = _opened(path, mode)
        if found is None:
            continue
        held, made = found
        with ExitStack() as stack:
            stack.callback(os.close, held)
            _require_regular(path, os.fstat(held))
            _lock(path, held)
            if not _is_named(path, held):
                continue  # another process has replaced or removed the file: try again
            _require_replaceable(path, os.fstat(held).st_size, force)
            stack.pop_all()
            return held, made
    raise _in_use(path)


def _is_named(path: Path, held: int) -> bool:
    try:
        return os.path.samestat(os.fstat(held), os.lstat(path))
    except FileNotFoundError:
        return False


def _opened(path: Path, mode: int) -> tuple[int, bool] | None:
    """Open the file; return its descriptor and True if it is new, or None if it has vanished."""
    flags = os.O_RDWR | os.O_NOFOLLOW | WITHOUT_WAITING
    try:
        return os.open(path, flags | os.O_CREAT | os.O_EXCL, mode), True
    except FileExistsError:
        pass
    try:
        _require_regular(
            path, os.lstat(path)
        )  # do not open a device, because opening can have an effect
        return os.open(path, flags), False
    except FileNotFoundError:
        return None


def _require_regular(path: Path, state: os.stat_result) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise OutputError(f"{shown(path)!r} is not a regular file. Choose another name.")


def _require_replaceable(path: Path, size: int, force: bool) -> None:
    if size and not force:
        raise OutputError(
            f"The file {shown(path)!r} already exists. Choose another name, or "
            f"{asked('force')} to replace the file."
        )


def _lock(path: Path, held: int) -> None:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _in_use(path) from None
    except OSError as error:
        if error.errno not in UNSUPPORTED_ERRORS:
            raise
        raise OutputError(
            f"{shown(path)!r} is on a file system without locks, so two processes could write the "
            "same file. Write to another disk and move the file."
        ) from None


def _let_go(path: Path, held: int, made: bool) -> None:
    """Close a reservation. Remove the file if this process created it and it is empty."""
    with suppress(OSError):
        if made and not os.fstat(held).st_size and _is_named(path, held):
            path.unlink()
    os.close(held)


def _draft(path: Path, mode: int) -> tuple[int, Path | None]:
    """Create the draft in the folder of `path`, without a name if the system allows this."""
    if hasattr(os, "O_TMPFILE") and Path("/proc/self/fd").exists():
        try:
            return os.open(path.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode), None
        except OSError:
            pass  # the file system does not support this; other errors occur below
    link = _link_of(path)
    link.unlink(missing_ok=True)  # left by a killed process; only this process has the lock
    return os.open(link, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, mode), link


def _link_of(path: Path) -> Path:
    """Return the name of the draft. Only the process with the lock of `path` uses it."""
    return path.with_name(f".dpcov-{sha256(os.fsencode(path.name)).hexdigest()[:16]}")


def _allocate(draft: int, space: int) -> None:
    """Allocate disk space, by writing zeros if the system has no call for this."""
    try:
        if space and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(draft, 0, space)
            return
    except OSError as error:
        if error.errno not in UNSUPPORTED_ERRORS:
            raise
    if os.write(draft, bytes(space)) < space:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _sync(folder: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):
        return  # Windows cannot sync a folder
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _in_use(path: Path) -> OutputError:
    return OutputError(f"Another process is writing the file {shown(path)!r}. Choose another name.")


def _unwritable(path: Path, error: OSError | ValueError) -> OutputError:
    reason = getattr(error, "strerror", None) or "this is not a valid file name"
    return OutputError(f"The file {shown(path)!r} cannot be written: {reason}.")
