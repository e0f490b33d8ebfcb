"""Malformed and hostile files, each made from its kind and number alone."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

import dpcov
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import Guarantee, Neighbors, PureDP

SECRET_TEXT = "S3CRET"  # noqa: S105  no password but cells to look for
SECRET_NUMBER = "271828182845"  # noqa: S105
SCHEMA = """\
missing = ["", "NA", "-999"]

[file]
comment = "#"

[columns.a]
kind = "numeric"
lower = -1
upper = 1
missing = "level"

[columns.b]
kind = "categorical"
levels = ["x", "y", 3, true]
other = true

[columns.c]
kind = "numeric"
lower = 0
upper = 1000
"""
PERSONS = f"""{SCHEMA}
[unit]
column = "id"
type = "text"
max_rows = 2

[weight]
column = "w"
maximum = 9
"""
CELLS = [
    *("0.5", "-1", "x", "y", "3", "true", "NA", "-999", "1e308", "-1e400", "nan", "inf", "0x1F"),
    *("1_000", "=cmd()", "1,5", "1e-400", "--1", "é", "٣"),
    *(SECRET_TEXT, f'"{SECRET_TEXT}, x"', f'"{SECRET_TEXT}', SECRET_NUMBER, f"{SECRET_NUMBER}e300"),
    *("", " ", "\u202e", "\ufeff", "''", '""', '"', "\t"),
]
HOSTILE_JSON = [
    *["null", "true", "-1", "0", "1e999", "-0.0", "NaN", "Infinity", "1e-320", "[]", "{}"],
    *("9" * 400, '""', '"\\ud800"', f'"{SECRET_TEXT}"'),
    *("[" * 2000 + "]" * 2000, '{"a":' * 500 + "1" + "}" * 500),
]
HOSTILE_TOML = [
    *["-1", "0", "1e999", "nan", "inf", "[]", "{}", "true", "1979-05-27", "'x'", "#"],
    *("9" * 400, '""', '["x", "x"]', '"numeric"', '"""'),
    *("[" * 2000 + "]" * 2000, "{a = " * 300 + "1" + "}" * 300),
]
TOKEN = re.compile(rb'-?\d+\.?\d*(?:[eE][-+]?\d+)?|"[^"\n]*"|true|false|null')
SPECIAL = [b'"', b",", b"\n", b"\r", b"\x00", b"\xff", b"\xef\xbb\xbf", b"#", b"\t", b"\xc3", b"["]


def mutant(kind: str, number: int) -> bytes:
    """Return the file of this kind and number; some files have the content of another kind."""
    chance = random.Random(f"{kind} {number}")  # noqa: S311
    if chance.random() < 0.04:
        kind = chance.choice(["csv", "gz", "parquet"])
    return MUTATORS[kind](chance)


def _bytes(chance: random.Random, content: bytes, other: bytes = b"") -> bytes:
    """Flip, overwrite, cut out, double, insert, splice or cut off."""
    found = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 4, 16])):
        at, span = chance.randrange(len(found) + 1), int(2 ** chance.uniform(0, 8))
        match chance.randrange(8):
            case 0 | 1 if at < len(found):
                found[at] ^= 1 << chance.randrange(8)
            case 2:
                found[at : at + span] = chance.randbytes(span)
            case 3:
                del found[at : at + span]
            case 4:
                found[at:at] = found[at : at + span] * chance.randint(1, 20)
            case 5:
                found[at:at] = chance.choice(SPECIAL)
            case 6 if other:
                start = chance.randrange(len(other))
                found[at : at + span] = other[start : start + span]
            case 7 if chance.random() < 0.2:
                del found[at:]
    return bytes(found)


def _csv(chance: random.Random) -> bytes:
    rows = [["id", "a", "b", "c", "w", "note"]]
    for number in range(chance.choice([0, 1, 40, 40, 300])):
        cells = [chance.choice(CELLS) for _ in range(chance.choice([6, 6, 6, 6, 6, 5, 7, 1]))]
        cells[0] = f"{SECRET_TEXT}{number % 7}"
        rows.append(cells)
    end = chance.choice(["\n", "\n", "\r\n", "\r"])
    text = end.join(map(",".join, rows)).encode(chance.choice(["utf-8"] * 9 + ["utf-16"]))
    # what was the first line stays one: a header is public, and names are shown
    cut = text.find(end.encode()) + 1
    return text[:cut] + _bytes(chance, text[cut:], SCHEMA.encode())


def _gz(chance: random.Random) -> bytes:
    packed = gzip.compress(_csv(chance), mtime=0)
    return _bytes(chance, packed) if chance.random() < 0.8 else packed + chance.randbytes(9)


TYPES = [
    *(pa.float64(), pa.float32(), pa.int64(), pa.uint8(), pa.string(), pa.large_string()),
    *(pa.bool_(), pa.date32(), pa.timestamp("ns"), pa.decimal128(30, 3), pa.binary(), pa.float16()),
    *(pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.float64()), pa.null()),
]


def _column(chance: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    texts = [chance.choice([SECRET_TEXT, "x", "y", None, SECRET_NUMBER, "NA"]) for _ in range(rows)]
    numbers = [chance.choice([0, 1, None, 3, 200]) for _ in range(rows)]
    if pa.types.is_dictionary(kind):
        return pa.array(texts).dictionary_encode()
    if pa.types.is_list(kind):
        return pa.array([[1.0]] * rows, kind)
    if pa.types.is_null(kind):
        return pa.nulls(rows)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        return pa.array(texts).cast(kind)
    if pa.types.is_float16(kind):
        return pa.array(numbers, pa.float32()).cast(kind)
    if pa.types.is_decimal(kind) or pa.types.is_date32(kind):
        return pa.array(numbers, pa.int32()).cast(kind)
    return pa.array(numbers, pa.int64()).cast(kind, safe=False)


@cache
def _parquet_seed(number: int) -> bytes:
    chance = random.Random(number)  # noqa: S311
    rows = chance.choice([0, 1, 60, 400])
    names = ["id", "a", "b", "c", "w"]
    usual = [pa.string(), pa.float64(), pa.string(), pa.float64(), pa.float64()]
    kinds = usual if number % 2 else [chance.choice(TYPES) for _ in names]
    table = pa.table([_column(chance, kind, rows) for kind in kinds], names)
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        compression=chance.choice(["snappy", "none", "zstd", "gzip", "lz4", "brotli"]),
        use_dictionary=chance.random() < 0.5,
        row_group_size=chance.choice([7, 1000]),
        data_page_version=chance.choice(["1.0", "2.0"]),
        write_page_checksum=chance.random() < 0.3,
    )
    return sink.getvalue()


def _parquet(chance: random.Random) -> bytes:
    content = _parquet_seed(chance.randrange(60))
    kind = chance.random()
    if kind < 0.2:
        return _bytes(chance, content, _parquet_seed(chance.randrange(60)))
    # What is said of the data, or the data, a few bits at a time, so that many are read.
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    first, last = (start, len(content) - 8) if kind < 0.6 else (4, start)
    found = bytearray(content)
    for _ in range(chance.choice([1, 1, 1, 2, 3]) if last > first else 0):
        at = chance.randrange(first, last)
        found[at] = chance.choice([found[at] ^ 1 << chance.randrange(8), 0, 1, 127, 128, 255])
    return bytes(found)


def _tokens(chance: random.Random, content: bytes, hostile: list[str]) -> bytes:
    """Put hostile values in place of some values, or drop or double some lines."""
    places = list(TOKEN.finditer(content))
    chosen = chance.sample(places, min(len(places), chance.choice([1, 1, 2, 5])))
    for found in sorted(chosen, key=lambda place: -place.start()):
        value = chance.choice(hostile).encode()
        content = content[: found.start()] + value + content[found.end() :]
    lines = content.split(b"\n")
    if chance.random() < 0.3:
        at = chance.randrange(len(lines))
        lines[at : at + 1] = chance.choice([[], [lines[at]] * 2])
    return b"\n".join(lines)


def _schema(chance: random.Random) -> bytes:
    content = chance.choice([SCHEMA, PERSONS]).encode()
    if chance.random() < 0.6:
        return _tokens(chance, content, HOSTILE_TOML)
    return _bytes(chance, content, PERSONS.encode())


@cache
def _release_seed(number: int) -> bytes:
    budget = [{"epsilon": 1.0}, {"rho": 0.5}, {"epsilon": 1.0, "delta": 1e-6}][number]
    table = pa.table(
        {"a": [0.5, -0.5] * 300, "b": ["x", "y"] * 300, "c": [1.0, 2.0] * 300},
    )
    schema = dpcov.Schema.parse(tomllib.loads(SCHEMA))
    made = dpcov.release(table, schema=schema, denoise="project", **budget)
    with TemporaryDirectory() as folder:
        made.save(Path(folder) / "r.json")
        return (Path(folder) / "r.json").read_bytes()


def _release(chance: random.Random) -> bytes:
    content = _release_seed(chance.randrange(3))
    if chance.random() < 0.2:  # without line ends
        content = json.dumps(json.loads(content)).encode()
    if chance.random() < 0.6:
        return _tokens(chance, content, HOSTILE_JSON)
    return _bytes(chance, content, _release_seed(0))


@cache
def _ledger_seed() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.ledger"
        ledger = Ledger.create(path, PureDP(10.0))
        for _ in range(5):
            ledger.reserve(Guarantee(PureDP(0.5), Neighbors.ADD_REMOVE), note="laplace")
        return path.read_bytes()


def _ledger(chance: random.Random) -> bytes:
    return _bytes(chance, _ledger_seed(), SCHEMA.encode())


MUTATORS: dict[str, Callable[[random.Random], bytes]] = {
    "csv": _csv,
    "gz": _gz,
    "parquet": _parquet,
    "schema": _schema,
    "release": _release,
    "ledger": _ledger,
}
