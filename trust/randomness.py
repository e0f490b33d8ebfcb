"""Noise reuse, seeded releases, and what the number of rows shows."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import dpcov
from dpcov.api.ledger import Ledger
from dpcov.cli import app
from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ApproxDP, Neighbors
from dpcov.errors import DpcovError, LedgerError
from dpcov.published.record import NOT_PRIVATE
from dpcov.releases import Release
from dpcov.releases.file import to_document
from figure import Figure

sys.path.append(str(Path(__file__).parents[1] / "tests" / "conformance"))
from cases import CASES, NAMES, rows_of, table

REUSE = "noise reuse after fork, in threads"
SEEDED = "seeded release passes for a private one"
COUNT = "number of rows as a side channel"
# Keys whose form is an outcome of the mechanism, as private as any other: how far counts reach
# follows from the map.
CHOSEN = {"standardized": ("lengths",)}


def measure(quick: bool) -> list[Figure]:
    """Return all figures of this module."""
    return [*streams(quick), *seeded(quick), *lengths(quick), *command_line(quick)]


def first_word(_: int = 0) -> int:
    """Return the first draw of a stream of its own."""
    return int(Entropy.system().words(1)[0])


SHARED = Entropy.system()


def shared_word(_: int = 0) -> int:
    """Return the next word of a stream that this process had before its fork."""
    return int(SHARED.words(1)[0])


def streams(quick: bool) -> list[Figure]:
    """Compare the first words of streams in forks, threads, pools and fresh interpreters."""
    each, interpreters = (40, 4) if quick else (240, 40)
    SHARED.words(3)
    words = {
        "forks that share a stream with their parent": [_in_fork() for _ in range(each)],
        "tasks of a forked pool": _pool("fork", shared_word, each),
        "tasks of a spawned pool": _pool("spawn", first_word, each),
        "threads": _threads(each),
        "restarted interpreters": [_in_interpreter() for _ in range(interpreters)],
    }
    drawn = [word for each in words.values() for word in each]
    how = ", ".join(f"{len(found)} {name}" for name, found in words.items())
    again = [int(Entropy.seeded(1).words(1)[0]) for _ in range(2)]
    repeated = len(drawn) - len(set(drawn))
    return [
        Figure(REUSE, f"streams that repeat another, of {how}", "0", str(repeated), repeated == 0),
        Figure(
            REUSE,
            "control: a seed repeats",
            "1 word of 2 streams",
            f"{len(set(again))} word of 2 streams",
            len(set(again)) == 1,
        ),
    ]


def _in_fork() -> int:
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a process with threads is forked
        child = os.fork()
    if child == 0:
        try:
            os.write(write, shared_word().to_bytes(8, "little"))
        finally:
            os._exit(0)
    os.close(write)
    word = os.read(read, 8)
    os.close(read)
    os.waitpid(child, 0)
    return int.from_bytes(word, "little")


def _pool(method: str, draw: Any, count: int) -> list[int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context(method).Pool(2) as pool:
            return pool.map(draw, range(count), chunksize=1)


def _threads(count: int) -> list[int]:
    with ThreadPoolExecutor(16) as pool:
        own, shared = pool.map(first_word, range(count // 2)), pool.map(shared_word, range(count))
        return [*own, *shared]


def _in_interpreter() -> int:
    program = "from dpcov.core.entropy import Entropy; print(int(Entropy.system().words(1)[0]))"
    return int(
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    )


def seeded(quick: bool) -> list[Figure]:
    """Check the stamp of seeded releases in memory, on file, loaded and printed."""
    cases = CASES[::7] if quick else CASES
    made = unstamped = false_stamps = booked = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.json"
        for case in cases:
            for stream in (Entropy.seeded(1), Entropy.system()):
                try:
                    release = case.release(rows_of(table(case.enough)), stream)
                except DpcovError:
                    continue
                release.save(path, force=True)
                loaded = Release.load(path)
                loaded.save(path, force=True)
                shown = CliRunner().invoke(app, ["show", str(path)]).output
                says = [
                    release.reproducible,
                    loaded.reproducible,
                    NOT_PRIVATE in loaded.guarantee_in_words(),
                    json.loads(path.read_text())["status"] == NOT_PRIVATE,
                    "NOT PRIVATE" in shown,
                ]
                if stream.reproducible:
                    made += 1
                    unstamped += not all(says)
                else:
                    false_stamps += any(says)
        ledger = Ledger.create(
            Path(folder) / "l", ApproxDP(1.0, 0.5), neighbors="add-remove", count="sums"
        )
        for epsilon in (0.1, 0.2):
            with contextlib.suppress(LedgerError):
                dpcov.release(table(50), lower=0, upper=1, epsilon=epsilon, seed=1, ledger=ledger)
                booked += 1
    return [
        Figure(SEEDED, f"without a stamp, of {made} seeded", "0", str(unstamped), unstamped == 0),
        Figure(SEEDED, "seeded releases that a ledger booked", "0", str(booked), booked == 0),
        Figure(
            SEEDED,
            "control: releases with fresh noise that are stamped",
            "0",
            str(false_stamps),
            false_stamps == 0,
        ),
    ]


def keys(document: Any) -> Any:
    """Return a document without its values."""
    if isinstance(document, dict):
        return {key: keys(value) for key, value in document.items()}
    return [keys(document[0]), len(document)] if isinstance(document, list) else type(document)


def lengths(quick: bool) -> list[Figure]:
    """Release files under add/remove for 0, 1, n and n + 1 rows: their keys and lengths."""
    other_keys, spread, compared = 0, 0.0, 0
    for case in CASES[::7] if quick else CASES:
        if case.neighbors is not Neighbors.ADD_REMOVE:
            continue
        shapes = []
        chosen = CHOSEN.get(case.name, ())
        for n in sorted({case.enough if case.may_refuse else 0, case.enough}):
            sizes = []
            for rows in (n, n + 1):
                made = case.release(rows_of(table(rows)), Entropy.seeded(1))
                document = to_document(made)
                said = {key: value for key, value in document.items() if key not in chosen}
                shapes.append(keys(said))
                sizes.append(len(json.dumps(document)))
            spread = max(spread, abs(sizes[0] - sizes[1]) / min(sizes))
        compared += len(shapes)
        other_keys += sum(shape != shapes[0] for shape in shapes)
    few, more = (
        to_document(dpcov.release(table(n), lower=0, upper=1, epsilon=1.0, neighbors="replace-one"))
        for n in (300, 301)
    )
    control = int(few["unit_count"] != more["unit_count"]) if "unit_count" in few else 0
    return [
        Figure(
            COUNT,
            f"release files with other keys, of {compared} for 0, 1, n and n + 1 rows, add-remove",
            "0",
            str(other_keys),
            other_keys == 0,
        ),
        Figure(
            COUNT,
            "largest difference in length between files for n and n + 1 rows, with the same noise",
            "< 1%",
            f"{spread:.2%}",
            spread < 0.01,
        ),
        Figure(
            COUNT,
            "control: files that state the public number of rows under replace-one",
            "1",
            str(control),
            control == 1,
        ),
    ]


def command_line(quick: bool) -> list[Figure]:
    """Compare the output and the exit code of `dpcov release` for 0, 1, n and n + 1 rows."""
    schema = "\n".join(
        f'[columns.{name}]\nkind = "numeric"\nlower = 0\nupper = 1\n' for name in NAMES
    )
    seen = set()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "s.toml").write_text(schema)
        for n in (0, 1, 50, 51) if quick else (0, 1, 50, 51, 1000, 1001, 100_000):
            lines = [",".join(map(repr, row)) for row in table(n).tolist()]
            (place / "t.csv").write_text("\n".join([",".join(NAMES), *lines]) + "\n")
            asked = ["release", place / "t.csv", "--schema", place / "s.toml", "--epsilon", "1"]
            asked += ["--out", place / "r.json", "--force"]
            ran = subprocess.run(
                [sys.executable, "-c", "from dpcov.cli import main; main()", *map(str, asked)],
                capture_output=True,
                check=False,
            )
            seen.add((ran.returncode, ran.stdout, ran.stderr))
    return [
        Figure(
            COUNT,
            "different texts and exit codes of `dpcov release` over tables of 0 to n + 1 rows",
            "1",
            str(len(seen)),
            len(seen) == 1,
        )
    ]
