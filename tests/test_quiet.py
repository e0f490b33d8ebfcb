"""The quiet boundary: whatever data does while it is read, nothing of it gets out."""

import gzip
import logging
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcov.errors import DpcovError, SourceError
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.quiet import quiet
from strategies import moment, schema_of

SECRET = "S3CRET"  # noqa: S105, no password but a cell to look for
SCHEMA = schema_of("a", "b", missing=("", "NA"))
PERSONS = schema_of("a", "b", unit={"column": "id", "type": "text", "max_rows": 1})


class Panic(BaseException):
    """What a compiled library may raise."""


class Stream:
    """A table whose stream fails."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __arrow_c_stream__(self, requested_schema=None):
        logging.getLogger().propagate = True
        warnings.warn(SECRET, stacklevel=1)
        raise self.error


class Array(Stream):
    """An array that fails."""

    __arrow_c_stream__ = None

    def __array__(self, dtype=None, copy=None):
        raise self.error


def failing_reader(error: BaseException) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from good.to_batches()
        warnings.warn(SECRET, stacklevel=1)
        raise error

    good = pa.table({"id": [SECRET], "a": [1.0], "b": [2.0]})
    return pa.RecordBatchReader.from_batches(good.schema, batches())


def chained() -> SourceError:
    """Return an error of our own that was raised while a revealing error was handled."""
    try:
        try:
            raise ValueError(SECRET)
        except ValueError as revealing:
            raise SourceError("fixed words") from revealing
    except SourceError as error:
        return error


def damaged_parquet(folder: Path, at: float) -> Path:
    cells = [f"{SECRET}{i}" for i in range(20000)]
    pq.write_table(
        pa.table({"id": cells, "a": cells, "b": cells}), folder / "d.parquet", use_dictionary=False
    )
    content = bytearray((folder / "d.parquet").read_bytes())
    place = int(at * len(content))
    content[place : place + 200] = bytes(200)
    (folder / "d.parquet").write_bytes(content)
    return folder / "d.parquet"


def file(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


SECRET_LINES = b"id,a,b\n" + SECRET.encode() * 3 + b",1,2\n" * 5000
HOSTILE: dict[str, Callable[[Path], object]] = {
    "polars, objects": lambda _: pl.DataFrame(
        {"id": [1, 2], "a": [object(), SECRET], "b": [1, 2]}, schema_overrides={"a": pl.Object}
    ),
    "stream, error": lambda _: Stream(ValueError(SECRET)),
    "stream, panic": lambda _: Stream(Panic(SECRET)),
    "stream, no capsule": lambda _: type("X", (), {"__arrow_c_stream__": lambda *_: SECRET})(),
    "reader, error": lambda _: failing_reader(ValueError(SECRET)),
    "reader, unicode error": lambda _: failing_reader(
        UnicodeDecodeError("utf-8", SECRET.encode(), 0, 1, "x")
    ),
    "reader, memory": lambda _: failing_reader(MemoryError(SECRET)),
    "reader, own error": lambda _: failing_reader(chained()),
    "array, error": lambda _: Array(ValueError(SECRET)),
    "array, panic": lambda _: Array(Panic(SECRET)),
    "gz, truncated": lambda f: file(f, "t.csv.gz", gzip.compress(SECRET_LINES)[:-9]),
    "gz, no gz": lambda f: file(f, "t.csv.gz", SECRET_LINES),
    "csv, no header": lambda f: file(f, "t.csv", SECRET.encode() + b",x,1\n"),
    "parquet, no parquet": lambda f: file(f, "t.parquet", SECRET_LINES),
    "parquet, cut off": lambda f: file(f, "t.parquet", damaged_parquet(f, 0.5).read_bytes()[:-100]),
    "parquet, damaged early": lambda f: damaged_parquet(f, 0.4),
    "parquet, damaged late": lambda f: damaged_parquet(f, 0.9),
    "parquet, damaged footer": lambda f: damaged_parquet(f, 0.999),
    "missing column": lambda _: pa.table({SECRET: [1.0]}),
}
STRANGE: dict[str, Callable[[Path], object]] = {
    "pandas, mixed": lambda _: pd.DataFrame(
        {"id": [1, SECRET], "a": [1.0, SECRET], "b": [None, b"x"]}
    ),
    "pandas, odd category": lambda _: pd.DataFrame(
        {"id": "1", "a": pd.Categorical([1, SECRET]), "b": 1}
    ),
    "csv, odd cells": lambda f: file(
        f, "t.csv", SECRET_LINES + b'\xff,"\n' + SECRET.encode() * 10**6
    ),
    "huge text": lambda _: pa.table({"id": ["x"], "a": [SECRET * 10**6], "b": [1]}),
}


def outputs(error: BaseException | None, capfd, caplog, heard) -> str:
    """Return everything that an observer could see."""
    shown = [*capfd.readouterr(), caplog.text, *(str(w.message) for w in heard)]
    while error is not None:
        shown += [str(error), repr(error), *traceback.format_exception(error)]
        error = error.__cause__ or error.__context__
    return "\n".join(shown)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["rows", "persons"])
@pytest.mark.parametrize("name", [*HOSTILE, *STRANGE])
def test_no_secret_gets_out(tmp_path, capfd, caplog, name, schema, threads):
    data = (HOSTILE | STRANGE)[name](tmp_path)
    failure = None
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            moment(data, schema, threads=threads)
        except SourceError as error:
            failure = error
    assert (failure is None) == (name in STRANGE)
    assert SECRET not in outputs(failure, capfd, caplog, heard)


class Revealing:
    """A cell that reveals a secret in every form of its text."""

    def __str__(self) -> str:
        raise ValueError(SECRET)

    __repr__ = __str__


@pytest.mark.parametrize("form", [list, lambda cells: np.array(cells, object)])
def test_no_secret_of_an_object_gets_out(capfd, caplog, form):
    cells = [[SECRET, 1], [Revealing(), 2], [SECRET.encode(), None], ["\ud800", 1]]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        found = moment(form(cells), SCHEMA)
    assert found.unit_count == len(cells)
    assert SECRET not in outputs(None, capfd, caplog, heard)


def test_control_the_libraries_do_quote_cells(capfd, caplog):
    with pytest.raises(pa.ArrowException) as caught:
        pa.Table.from_pandas(STRANGE["pandas, mixed"](Path()))
    assert SECRET in outputs(caught.value, capfd, caplog, [])


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_stays_an_interrupt_and_leaves_the_data_behind(interrupt):
    @quiet("fixed words")
    def work():
        cell = SECRET
        try:
            raise ValueError(cell)
        except ValueError:
            raise interrupt from None

    with pytest.raises(interrupt) as caught:
        work()
    assert caught.value.__context__ is None
    assert all("cell" not in frame.tb_frame.f_locals for frame in frames(caught.value))


def frames(error: BaseException) -> Iterator:
    at = error.__traceback__
    while at is not None:
        yield at
        at = at.tb_next


def test_no_frame_that_held_data_is_kept():
    rows = open_rows(failing_reader(ValueError(SECRET)), SCHEMA)
    with pytest.raises(SourceError) as caught:
        rows.second_moments()
    names = [frame.tb_frame.f_code.co_name for frame in frames(caught.value)]
    assert names[-2:] == ["test_no_frame_that_held_data_is_kept", "guarded"]


def test_an_interrupted_read_of_a_text_file_ends_cleanly(tmp_path):
    """The parser's own threads still read when the consumer fails."""
    path = file(tmp_path, "t.csv", b"a,b\n" + b"1,2\n" * 2**20)
    rows = open_rows(path, SCHEMA)
    batches = rows._source.batches(("a", "b"))
    next(batches)
    batches.close()


def mutants(content: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Yield the content with bytes flipped, cut out, doubled or cut off."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        mutant = bytearray(content)
        for _ in range(rng.integers(1, 5)):
            at, span = int(rng.integers(len(mutant) + 1)), int(rng.integers(1, 40))
            change = rng.integers(5)
            if change == 0:
                mutant[at : at + span] = rng.bytes(span)
            elif change == 1:
                del mutant[at : at + span]
            elif change == 2:
                mutant[at:at] = mutant[at : at + span]
            elif change == 3:
                mutant[at : at + 1] = bytes([rng.choice(list(b'",\n\r\x00\xff\xef#9'))])
            elif rng.random() < 0.2:
                del mutant[at:]
        yield bytes(mutant)


def fuzz(folder: Path, count: int, seed: int) -> list[str]:
    """Read mutated files; the refusals, always by an error of ours."""
    rng = np.random.default_rng(0)
    words = rng.choice(["1", "2.5", "", "NA", SECRET], (40, 3))
    table = pa.table(list(words.T), ["id", "a", "b"])
    pq.write_table(table, folder / "f.parquet")
    numbers = pa.table({name: rng.normal(size=40) for name in table.column_names})
    pq.write_table(numbers, folder / "g.parquet", row_group_size=11)
    text = "id,a,b\n" + "\n".join(map(",".join, words))
    seeds = {
        "m.csv": text.encode(),
        "m.csv.gz": gzip.compress(text.encode(), mtime=0),
        "m.parquet": (folder / "f.parquet").read_bytes(),
        "n.parquet": (folder / "g.parquet").read_bytes(),
    }
    refused = []
    for name, content in seeds.items():
        for mutant in mutants(content, count, seed):
            schema = PERSONS if rng.random() < 0.5 else SCHEMA
            try:
                moment(file(folder, name, mutant), schema)
            except DpcovError as error:
                refused.append(str(error))
    return refused


@pytest.mark.parametrize("count", [100, pytest.param(2500, marks=pytest.mark.slow)])
def test_damaged_files_give_a_moment_or_an_error_of_ours(tmp_path, capfd, count):
    refused = fuzz(tmp_path, count, seed=count)
    assert count < len(refused) < 4 * count
    assert SECRET not in "".join([*refused, *capfd.readouterr()])
