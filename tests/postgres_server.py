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
    """Return the folder of the newest server's programs."""
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


def run(link: str, *statements: str) -> list[tuple]:
    """Run statements and commit; gives the rows of the last one."""
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(quiet_link(link)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        rows = cursor.fetchall() if statements[-1].lstrip().startswith("SELECT") else []
        connection.commit()
        return rows


def quiet_link(link: str) -> str:
    """Return a link for which operators on the search path have no effect."""
    return f"{link}?options=-c%20search_path%3Dpg_catalog%2Cpg_temp&client_encoding=UTF8"


def create_database(link: str, name: str, encoding: str) -> str:
    """Create a database in another encoding, and return its link."""
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(link, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0")
    return link.rsplit("/", 1)[0] + f"/{name}"


def as_role(link: str, role: str) -> str:
    """Return the link for another role with the same password."""
    return link.replace(f"//{USER}:", f"//{role}:")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
