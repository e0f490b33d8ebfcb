"""A process that lacks what Windows lacks: modules, functions, flags and signals.

`hide` also refuses to rename or remove a file that this process has open, as Windows does. The
names `fork`, `wait` and `exit_code` remain for the tests themselves.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
from pathlib import Path

MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
FUNCTIONS = (
    *("chown", "chroot", "fchmod", "fchown", "fdatasync", "fork", "forkpty", "fstatvfs", "getegid"),
    *("geteuid", "getgid", "getgroups", "getloadavg", "getpgid", "getsid", "getuid", "killpg"),
    *("lchown", "lockf", "mkfifo", "mknod", "nice", "openpty", "posix_fadvise", "posix_fallocate"),
    *("posix_spawn", "posix_spawnp", "pread", "preadv", "pwrite", "pwritev", "register_at_fork"),
    *("sched_getaffinity", "sendfile", "setsid", "statvfs", "sync", "ttyname", "wait"),
    *("wait3", "wait4", "memfd_create"),
)
FLAGS = ("O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC", "O_TMPFILE")
SIGNALS = ("SIGHUP", "SIGKILL", "SIGPIPE", "SIGALRM", "SIGUSR1", "alarm", "pause", "setitimer")
# `os.uname` stays, because NumPy's build for Linux needs it; dpcov does not use it.
# Modules that know another way on Windows, or remove an open file here.
EXEMPT = ("filelock", "tempfile")

fork = getattr(os, "fork", None)
wait = os.waitpid
exit_code = os.waitstatus_to_exitcode


def hide() -> None:
    """Hide what Windows lacks from this process and from the processes that it forks."""
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for owner, names in ((os, FUNCTIONS + FLAGS), (signal, SIGNALS), (select, ("poll", "epoll"))):
        for name in names:
            if hasattr(owner, name):
                delattr(owner, name)
    guarded = ("replace", "rename", "unlink", "remove") if Path("/proc/self/fd").exists() else ()
    for name in guarded:
        setattr(os, name, _guarded(getattr(os, name)))


def _guarded(act):
    def guarded(*paths, **more):
        caller = sys._getframe(1)
        callers = (caller, caller.f_back or caller)
        if not any(one.f_globals.get("__name__", "").startswith(EXEMPT) for one in callers):
            for path in paths:
                if not isinstance(path, int) and _is_open(path):
                    raise PermissionError(errno.EACCES, "used by another process", path)
        return act(*paths, **more)

    return guarded


def _is_open(path) -> bool:
    """Return True if this process has the file open."""
    try:
        state = os.lstat(path)
    except OSError:
        return False
    for number in (int(one.name) for one in Path("/proc/self/fd").iterdir()):
        try:
            if os.path.samestat(os.fstat(number), state):
                return True
        except OSError:
            pass  # the descriptor of the listing itself
    return False


def command(*arguments: str) -> list[str]:
    """Return the command of a process that runs dpcov with these arguments, without POSIX."""
    return [sys.executable, "-c", MAIN, *arguments]


MAIN = f"import sys; sys.path.append({str(Path(__file__).parent)!r})\n" + (
    "from hidden_posix import hide\nhide()\nfrom dpcov.cli import main\nmain()"
)
