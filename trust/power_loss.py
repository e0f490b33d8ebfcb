"""Power cuts at every moment: a spend that was reported must be on the disk.

`strace` records the writes of a process to a ledger and its folder, and the syncs. The attack then
simulates the disk after a power cut. Synced writes are there. Any later write can be missing or
torn. Any number of the last changes to the folder is missing. SQLite's own recovery opens the
ledger on this disk. The ledger must be readable and contain every spend that was reported earlier.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from dpcov.api.ledger import Ledger
from dpcov.errors import LedgerError
from figure import Figure

ATTACK = "ledger: power loss"
SPENDS = 4
SECTOR = 512
CALLS = "openat,pwrite64,write,fsync,fdatasync,unlink,unlinkat,ftruncate,rename"
SCRIPT = """
import os, sqlite3, sys
from dpcov.api.ledger import file as ledger_file
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import Guarantee, Neighbors, PureDP

class Connection(sqlite3.Connection):
    def execute(self, query, *rest):
        return super().execute(query.replace("EXTRA", sys.argv[2]), *rest)

connect = sqlite3.connect
sqlite3.connect = lambda place, **options: connect(place, factory=Connection, **options)
ledger = Ledger.create(sys.argv[1], PureDP(9.0))
os.write(1, b"reported")
for _ in range(int(sys.argv[3])):
    ledger.reserve(Guarantee(PureDP(0.1), Neighbors.ADD_REMOVE))
    os.write(1, b"reported")
"""
CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)")
NAME = re.compile(r"<((?:\\x[0-9a-f]{2})*)>")
TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


@dataclass
class File:
    """Bytes that are safe, and writes and cuts that may not be, in order."""

    safe: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def after(self, chosen: list[tuple[int, bytes | None]]) -> bytes:
        content = bytearray(self.safe)
        for at, data in chosen:
            if data is None:
                del content[at:]
                continue
            content.extend(bytes(max(0, at + len(data) - len(content))))
            content[at : at + len(data)] = data
        return bytes(content)

    def sync(self) -> None:
        self.safe, self.pending = self.after(self.pending), []

    def torn(self, chance: random.Random) -> bytes:
        """Return a possible content after a power cut: any pending writes, some only in part."""
        chosen: list[tuple[int, bytes | None]] = []
        keep = chance.choice([0.0, 0.5, 1.0])
        for at, data in self.pending:
            if chance.random() < keep:
                cut = data is not None and chance.random() < 0.1
                chosen.append((at, data[: len(data) // 2 // SECTOR * SECTOR] if cut else data))
        return self.after(chosen)


@dataclass
class Disk:
    """A folder: names that are safe, and changes of names that may not be."""

    names: dict[str, File] = field(default_factory=dict)
    pending: list[tuple[str, File | None]] = field(default_factory=list)

    def now(self, steps: int | None = None) -> dict[str, File]:
        found = dict(self.names)
        for name, file in self.pending[:steps]:
            if file is None:
                found.pop(name, None)
            else:
                found[name] = file
        return found

    def sync(self) -> None:
        self.names, self.pending = self.now(), []

    def cut(self, chance: random.Random) -> dict[str, bytes]:
        """Return the files after a power cut."""
        left = self.now(chance.randint(0, len(self.pending)))
        return {name: file.torn(chance) for name, file in left.items()}


def moments(trace: str, folder: Path) -> Iterator[tuple[Disk, int]]:
    """Yield the disk and the number of reported charges after each recorded call."""
    disk, reported = Disk(), -1  # the first report is that the ledger was created
    for line in trace.splitlines():
        call = CALL.match(line)
        if call is None or int(call[3]) < 0:
            continue
        what, arguments, result = call[1], call[2], int(call[3])
        texts = [_text(found) for found in TEXT.findall(arguments)]
        place = Path(_text(found[1]).decode()) if (found := NAME.search(arguments)) else Path()
        if what == "write" and texts[:1] == [b"reported"]:
            reported += 1
        elif what in ("openat", "unlink", "unlinkat", "rename"):
            path = Path(texts[0].decode())
            if path.parent != folder:
                continue
            if what == "rename":
                raise ValueError("a rename: teach it to this model")
            if what == "openat" and "O_CREAT" in arguments and path.name not in disk.now():
                disk.pending.append((path.name, File()))
            elif what != "openat":
                disk.pending.append((path.name, None))
        elif place == folder:
            disk.sync()
        elif place.parent == folder:
            file = disk.now()[place.name]
            numbers = [int(n) for n in re.findall(r", (\d+)", TEXT.sub("", arguments))]
            if what == "pwrite64":
                file.pending.append((numbers[-1], texts[0][:result]))
            elif what == "ftruncate":
                file.pending.append((numbers[-1], None))
            elif what in ("fsync", "fdatasync"):
                file.sync()
            else:
                raise ValueError("an unplaced write: teach it to this model")
        else:
            continue
        if reported >= 0:
            yield disk, reported


def _text(hexed: str) -> bytes:
    return bytes.fromhex(hexed.replace("\\x", ""))


def recorded(folder: Path, synchronous: str) -> str:
    """Return the trace of a process that creates a ledger and spends with this setting."""
    trace = folder.with_name("trace")
    command = ["strace", "-f", "-yxx", "-s", "1000000", "-e", f"trace={CALLS}", "-o", str(trace)]
    script = [sys.executable, "-c", SCRIPT, str(folder / "x.ledger"), synchronous, str(SPENDS)]
    subprocess.run([*command, *script], check=True, capture_output=True)
    return trace.read_text()


@dataclass
class Count:
    """What became of the ledger on the disks that were tried."""

    disks: int = 0
    lost: int = 0
    refused: int = 0


def cuts(synchronous: str, each: int, seed: int = 0) -> Count:
    """Cut the power `each` times after every call, and open what is left."""
    chance, count = random.Random(seed), Count()  # noqa: S311
    with TemporaryDirectory() as place:
        folder, after = Path(place).resolve() / "disk", Path(place).resolve() / "after"
        folder.mkdir()
        for disk, reported in moments(recorded(folder, synchronous), folder):
            for _ in range(each):
                shutil.rmtree(after, ignore_errors=True)
                after.mkdir()
                for name, content in disk.cut(chance).items():
                    (after / name).write_bytes(content)
                count.disks += 1
                try:
                    found = len(Ledger.open(after / "x.ledger").account().entries)
                except LedgerError:
                    count.refused += 1
                else:
                    count.lost += found < reported
    return count


def measure(quick: bool) -> list[Figure]:
    """Count charges that power cuts lose, with controls that must lose some."""
    if shutil.which("strace") is None:
        found = "skipped: strace is not installed (tests check the settings of SQLite)"
        return [Figure(ATTACK, "spends lost", "0", found, True)]
    each = 3 if quick else 30
    figures = []
    count = cuts("EXTRA", each)
    for what, number in (("spends lost", count.lost), ("ledgers unreadable", count.refused)):
        figures.append(
            Figure(ATTACK, f"{what}, {count.disks} power cuts", "0", str(number), number == 0)
        )
    for weaker in ("FULL", "OFF"):
        count = cuts(weaker, each)
        caught = count.lost + count.refused
        figures.append(
            Figure(
                ATTACK,
                f"control: synchronous={weaker}, lost or unreadable of {count.disks}",
                "> 0",
                str(caught),
                caught > 0,
            )
        )
    return figures
