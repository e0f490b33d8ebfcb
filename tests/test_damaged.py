"""Tables in memory whose own arrays lead outside themselves: an error of ours, never a crash."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from dpcov.errors import SourceError
from dpcov.rows.schema import Schema
from dpcov.rows.sources import arrow
from strategies import categorical, moment, numeric, same, schema_of

COUNT = 2000
WORDS = [f"S3CRET {n}" for n in range(COUNT)]
SCHEMA = Schema.parse(
    {
        "columns": {"a": categorical("x"), "b": numeric(0, 10)},
        "unit": {"column": "id", "type": "text", "max_rows": 1},
    }
)


def offsets(kind: pa.DataType, change) -> pa.Array:
    """Return texts with changed ends."""
    good = pa.array(WORDS, kind)
    wide = np.int64 if pa.types.is_large_string(kind) else np.int32
    ends = np.frombuffer(good.buffers()[1], wide)[: COUNT + 1].copy()
    change(ends)
    return pa.Array.from_buffers(kind, COUNT, [None, pa.py_buffer(ends), good.buffers()[2]])


def far(ends: np.ndarray) -> None:
    ends[500] = 2**30


def descending(ends: np.ndarray) -> None:
    ends[7] = ends[900]


def before(ends: np.ndarray) -> None:
    ends[3] = -(2**30)


def indices(*places: int) -> pa.Array:
    """Return a dictionary with indices outside of it."""
    found = np.arange(COUNT, dtype=np.int32)
    found[: len(places)] = places
    return pa.DictionaryArray.from_arrays(pa.array(found), pa.array(WORDS), safe=False)


def runs(ends: list[int]) -> pa.Array:
    good = pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 2, COUNT], pa.int32()), pa.array(WORDS[:3])
    )
    children = [pa.array(ends, pa.int32()), pa.array(WORDS[:3])]
    return pa.Array.from_buffers(good.type, COUNT, [None], children=children)


def views() -> pa.Array:
    """Return views, one of which points beyond its buffer."""
    good = pa.array(WORDS, pa.string_view())
    content = np.frombuffer(good.buffers()[1], np.int32).copy()
    long = (
        next(at for at in range(COUNT) if content[4 * at] > 12) if max(map(len, WORDS)) > 12 else 0
    )
    content[4 * long] = 2**20
    content[4 * long + 3] = 2**28
    return pa.Array.from_buffers(
        good.type, COUNT, [None, pa.py_buffer(content), *good.buffers()[2:]]
    )


DAMAGED = {
    "far ends": lambda: offsets(pa.string(), far),
    "far ends, large": lambda: offsets(pa.large_string(), far),
    "descending ends": lambda: offsets(pa.string(), descending),
    "negative ends": lambda: offsets(pa.string(), before),
    "index too large": lambda: indices(2**30),
    "index below 0": lambda: indices(0, -(2**30)),
    "index one too large": lambda: indices(COUNT),
    "runs that shrink": lambda: runs([5, 2, COUNT]),
    "runs below 0": lambda: runs([-5, 2, COUNT]),
    "views": views,
}


def read_all() -> None:
    """Read each damaged table as a feature and as an id; return the outcomes."""
    numbers = pa.array(np.linspace(0, 10, COUNT))
    for name, make in DAMAGED.items():
        for role in ("a", "id"):
            other = pa.array(WORDS)
            column = make()
            table = {"a": other, "id": other} | {role: column} | {"b": numbers}
            try:
                moment(pa.table(table), SCHEMA)
                print(name, role, "read", flush=True)
            except SourceError as error:
                print(name, role, "refused", str(error)[:40], flush=True)


def outcomes(*before: str) -> tuple[int, str]:
    code = "\n".join([*before, "import test_damaged", "test_damaged.read_all()"])
    paths = [str(Path(__file__).parent), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "S3CRET" not in done.stdout + done.stderr
    return done.returncode, done.stdout


def test_a_damaged_table_is_refused_by_an_error_of_ours():
    code, reported = outcomes()
    assert code == 0
    assert reported.count("refused") == 2 * len(DAMAGED), reported


def test_control_unchecked_it_would_crash_or_be_read():
    code, reported = outcomes(
        "from dpcov.rows.sources import arrow", "arrow._check = lambda column: None"
    )
    assert code < 0 or " read" in reported


def test_whatever_bytes_cells_hold_a_whole_table_passes():
    words = pa.array([b"\xff\xfe", b"", None, b"\x00" * 20, b"x" * 99], pa.binary())
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary_view()):
        pair = {pa.large_string(): pa.large_binary(), pa.string(): pa.binary()}
        stored = words.cast(pair.get(kind, pa.binary_view()))
        held = pa.Array.from_buffers(kind, 5, stored.buffers())
        places = pa.array([0, 1, None, 3, 4], pa.int8())
        coded = pa.DictionaryArray.from_arrays(places, held, safe=False)
        for column in (held, held[1:], held[:0], coded, coded[2:], coded[:0]):
            arrow._check(column)


def test_a_slice_of_runs_passes():
    schema = schema_of("a")
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5], pa.int32()), pa.array([1.0, 2.0]))
    whole = moment(pa.table({"a": [1.0, 2.0, 2.0]}), schema)
    assert same(moment(pa.table({"a": runs[1:4]}), schema), whole)
