"""A real PostgreSQL server for tests: a fresh one, on a loopback port, run by an ordinary user."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PASSWORD = "PGS3CRETWORD"  # noqa: S105, planted: must never come out
USER = "tester"


def binaries() -> Path | None:
    """Folder of the newest server's programs."""
    debian = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = sorted(debian, key=lambda path: int(path.parts[-3].split(".")[0]))
    found = newest[-1] if newest else shutil.which("initdb")
    return Path(found).parent if found else None


@contextmanager
def server() -> Iterator[str]:
    """Run a server; gives the link to its database."""
    programs = binaries()
    assert programs is not None
    # The server refuses to be root.
    account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    as_user = {"user": account.pw_uid, "group": account.pw_gid} if account else {}
    extra = {"extra_groups": []} if account else {}
    folder = Path(tempfile.mkdtemp(prefix="dpcov-postgres-"))
    words = folder / "password"
    words.write_text(PASSWORD)
    if account:
        os.chown(folder, account.pw_uid, account.pw_gid)
        os.chown(words, account.pw_uid, account.pw_gid)

    def run(program: str, *arguments: str) -> None:
        command = [programs / program, *arguments]
        subprocess.run(
            command, check=True, capture_output=True, cwd=folder, timeout=60, **as_user, **extra
        )

    port = free_port()
    data = str(folder / "data")
    setup = ["--auth=scram-sha-256", f"--pwfile={words}", "--encoding=UTF8", "--no-locale"]
    run("initdb", "-D", data, "-U", USER, "--no-sync", *setup)
    options = f"-c listen_addresses=127.0.0.1 -p {port} -c unix_socket_directories='' -c fsync=off"
    try:
        run("pg_ctl", "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "start")
        yield f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
