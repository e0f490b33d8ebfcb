"""Malformed and hostile files: crashes, tracebacks, secrets in any output, memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

import bombs
from coverage_guided import coverage_guided
from dpcov.rows.encoder import Encoder
from dpcov.rows.schema import Schema
from dpcov.rows.sources.base import unfit_columns
from figure import Figure
from hostile_files import CELLS, PERSONS, SCHEMA

READERS = Path(__file__).with_name("readers_at_work.py")
SHARES = {"csv": 25, "gz": 5, "parquet": 25, "schema": 15, "release": 15, "ledger": 15}  # percent
AT_ONCE = 2
CAP = 512 * 2**20  # as in readers_at_work


@dataclass
class Found:
    """What became of the files of a kind."""

    files: int = 0
    read: int = 0
    peak: int = 0
    crashes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def add(self, result: dict[str, object]) -> None:
        self.files += 1
        self.read += 0 in result["codes"]  # type: ignore[operator]
        self.peak = max(self.peak, int(str(result["peak"])))
        self.faults += [f"{result['number']}: {fault}" for fault in result["faults"]]  # type: ignore[attr-defined]


def _results(arguments: list[str]) -> Iterator[dict[str, object]]:
    """Yield the reports of a process about its files, and at last how the process ended."""
    command = [sys.executable, str(READERS), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        for result in process.stdout:
            yield json.loads(result)
        _, errors = process.communicate()
        yield {"ended": process.returncode, "errors": errors.decode(errors="replace")[-500:]}


def fuzzed(kind: str, first: int, last: int, step: int) -> Found:
    """Have files `first`, `first + step`, ... read; after a crash, go on with the next file."""
    found, number = Found(), first
    while number < last:
        for result in _results([kind, str(number), str(last), str(step)]):
            if "number" in result:
                found.add(result)
                number = int(str(result["number"])) + step
            elif result["ended"] != 0:
                found.files += 1
                found.crashes.append(f"{kind} {number}: {result['ended']} {result['errors']}")
                number += step
    return found


def mutants(count: int) -> list[Figure]:
    """Read `count` malformed files of all kinds."""
    jobs = [
        (kind, first, count * share // 100, AT_ONCE)
        for kind, share in SHARES.items()
        for first in range(AT_ONCE)
    ]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        parts = list(threads.map(lambda job: fuzzed(*job), jobs))
    crashes = [crash for part in parts for crash in part.crashes]
    faults = [fault for part in parts for fault in part.faults]
    for bad in [*crashes, *faults][:20]:
        print(bad)
    files, read = sum(part.files for part in parts), sum(part.read for part in parts)
    counts = {
        "crashes of the process": len(crashes),
        "tracebacks": sum("traceback" in fault or "exit code" in fault for fault in faults),
        "secrets in any output": sum(fault.endswith("secret") for fault in faults),
        "files left behind": sum(fault.endswith("left behind") for fault in faults),
    }
    kinds = Counter(dict.fromkeys(SHARES, 0))
    for job, part in zip(jobs, parts, strict=True):
        kinds[job[0]] += part.read
    attack = "malformed files"
    what = f"{files} mutants, {read} of them readable"
    figures = [
        Figure(attack, f"{what}: {name}", "0", str(number), number == 0)
        for name, number in counts.items()
    ]
    peak = max(part.peak for part in parts)
    figures.append(_memory(attack, "peak memory of a mutant", peak))
    enough = all(kinds[kind] > 0 for kind in SHARES) and files == sum(
        len(range(*job[1:])) for job in jobs
    )
    readable = ", ".join(f"{kind} {number}" for kind, number in kinds.items())
    figures.append(Figure(attack, "control: some of each kind are read", "all", readable, enough))
    return figures


def _memory(attack: str, what: str, peak: int) -> Figure:
    return Figure(attack, what, f"<= {CAP // 2**20} MB", f"{peak / 2**20:.0f} MB", 0 <= peak <= CAP)


def exploded(quick: bool) -> list[Figure]:
    """Read small files that expand to large contents."""
    figures = []
    for name, make in bombs.BOMBS.items():
        if quick and name in bombs.SLOW:
            continue
        (result, *_) = [*_results(["bomb", name])]
        content = str(make.__doc__).removeprefix("Write ").rstrip(".")
        what = content[0].upper() + content[1:]
        if "number" not in result:
            print(name, result)
            figures.append(Figure("bombs", what, "read or refused", "crash", False))
            continue
        figure = _memory("bombs", what, int(str(result["peak"])))
        ended = "; ".join(map(str, result["faults"])) or f"exit code {result['codes'][0]}"  # type: ignore[index,call-overload]
        ok = figure.ok and not result["faults"]
        figures.append(Figure("bombs", what, figure.wanted, f"{figure.found}, {ended}", ok))
    return figures


def rows(count: int) -> Figure:
    """Encode rows of hostile cells: texts, numbers and dictionaries."""
    rng, errors, outside, done = np.random.default_rng(0), Counter[str](), 0, 0
    alphabet = [*map(chr, range(128)), "é", "٣", "\u202e", "\U0001f600", "\ufeff"]
    while done < count:
        size = 500
        texts = rng.choice(np.array(CELLS, object), (6, size)).tolist()
        for column in texts:
            for at in rng.integers(0, size, 100).tolist():
                column[at] = "".join(rng.choice(alphabet, rng.integers(0, 12)))
        bits = rng.integers(0, 2**64, (6, size), np.uint64, endpoint=False)
        arrays = [
            lambda j, t=texts: pa.array(t[j]),
            lambda j, t=texts: pa.array([c.encode() for c in t[j]]).cast(pa.large_binary()),
            lambda j, t=texts: pa.array(t[j]).dictionary_encode(),
            lambda j, t=texts: pa.array(t[j], pa.string_view()),
            lambda j, b=bits: pa.array(b[j].view(np.float64)),
            lambda j, b=bits: pa.array(b[j].view(np.int64)),
            lambda j, b=bits: pa.array(b[j]),
            lambda j, b=bits: pa.array(b[j] % 2 == 0, mask=b[j] % 3 == 0),
            lambda j, b=bits: pa.array(b[j].view(np.float64).astype(np.float16)),
        ]
        names = ["id", "a", "b", "c", "w"]
        with np.errstate(all="ignore"):
            columns = [arrays[rng.integers(len(arrays))](j) for j in range(5)]
        batch = pa.RecordBatch.from_arrays(columns, names)
        if any(name in unfit_columns(batch.schema) for name in names):
            continue  # refused by type, before anything is read
        schema = Schema.parse(_toml([SCHEMA, PERSONS][done // size % 2]))
        try:
            from dpcov.rows.moment import Lattice

            unit = schema.privacy_unit
            lattice = Lattice(len(schema.features), schema.effective_radius, schema.intercept, unit)
            for block in Encoder(schema, lattice).blocks(batch):
                norms = (block[: lattice.features].astype(object) ** 2).sum(axis=0)
                outside += int((norms > lattice.side**2).sum())
        except Exception as error:
            errors[type(error).__name__] += 1
        done += size
    number = sum(errors.values())
    return Figure(
        "hostile cells",
        f"{done} fuzzed rows: exceptions, and rows outside the radius",
        "0, 0",
        f"{number}, {outside}",
        number == outside == 0,
    )


def _toml(text: str) -> dict[str, object]:
    import tomllib

    return tomllib.loads(text)


def measure(quick: bool) -> list[Figure]:
    """Run all parts of the attack."""
    return [
        *mutants(500 if quick else 10_000),
        *exploded(quick),
        rows(10_000 if quick else 100_000),
        *coverage_guided(200 if quick else 5_000),
    ]
