"""Malformed files: an error of ours or a result, whatever the bytes; more in `make trust`."""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov import cli
from dpcov.errors import ReleaseError, SchemaError, SourceError
from dpcov.releases import Release
from dpcov.rows.cells import codes_of, numbers_of
from dpcov.rows.schema import Categorical, Schema
from dpcov.rows.sources import open_rows
from strategies import moment
from tables_for_tests import PLANTED, SCHEMA_TEXT

SCHEMA = Schema.parse(
    {
        "missing": ["", "NA"],
        "columns": {
            "a": {"kind": "numeric", "lower": 0, "upper": 1},
            "b": {"kind": "categorical", "levels": ["x", "y", 3], "missing": "level"},
        },
    }
)
PERSONS = Schema.parse(
    SCHEMA.model_dump() | {"unit": {"column": "id", "type": "text", "max_rows": 2}}
)
ROUGH = st.binary(max_size=300) | st.text(
    st.sampled_from(f'{PLANTED}[]{{}}=",.\n\r\t#-+0123456789e\\\x00é'), max_size=300
).map(str.encode)


@given(content=ROUGH)
def test_any_bytes_are_a_table_or_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + content)
    with contextlib.suppress(SourceError):
        moment(path, SCHEMA)


@given(content=ROUGH, at=st.integers(0, len(SCHEMA_TEXT)))
def test_any_bytes_are_a_schema_or_refused(tmp_path: Path, content: bytes, at: int) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(SCHEMA_TEXT[:at].encode() + content + SCHEMA_TEXT[at:].encode())
    with contextlib.suppress(SchemaError):
        Schema.load(path)


@given(content=ROUGH)
def test_any_bytes_are_no_release(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(content)
    with pytest.raises(ReleaseError):
        Release.load(path)


@pytest.mark.parametrize("opened", ["[", "{a = ", "[{a = "])
def test_a_schema_nested_too_deeply_is_refused(tmp_path: Path, opened: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text("missing = " + opened * 10**5)
    with pytest.raises(SchemaError, match="nested too deeply"):
        Schema.load(path)


def test_a_release_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text('{"a":' * 10**6)
    with pytest.raises(ReleaseError):
        Release.load(path)


def write_repeated(path: Path) -> None:
    """Write a kilobyte that represents a megabyte 2^18 times."""
    zeros = pa.array(np.zeros(2**18), pa.int32())
    texts = pa.DictionaryArray.from_arrays(zeros, pa.array(["x" * 10**6]))
    pq.write_table(pa.table({"a": texts}), path, compression="zstd", store_schema=False)


def write_long(path: Path) -> None:
    """Write 0.15 MB that represent 1.6 GB."""
    table = pa.table({"a": pa.array(["x" * 10**5] * 16000)})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)


READ = """
import resource, sys
from pathlib import Path
import pyarrow as pa
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows

column = {"kind": sys.argv[2], **({"levels": ["x"]} if sys.argv[2] == "categorical" else
          {"lower": 0, "upper": 1})}
schema = Schema.parse({"columns": {"a": column}})
open_rows(pa.table({"a": ["x"]}), schema).second_moments()
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + 2**29
resource.setrlimit(resource.RLIMIT_AS, (size, size))
print(open_rows(sys.argv[1], schema).second_moments()[0].unit_count)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize(
    ("write", "rows"),
    [(write_repeated, 2**18), pytest.param(write_long, 16_000, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("kind", ["categorical", "numeric"])
def test_a_bomb_is_read_in_half_a_gigabyte(
    tmp_path: Path, write: Callable[[Path], None], rows: int, kind: str
) -> None:
    assert hasattr(resource, "RLIMIT_AS")
    path = tmp_path / "t.parquet"
    write(path)
    assert path.stat().st_size < 200_000
    command = [sys.executable, "-c", READ, str(path), kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == (f"{rows}\n", 0), done.stderr[-500:]


WORDS = st.lists(
    st.sampled_from(["x", "y", "3", "3.0", " x ", "NA", "", "0.5", "1e3", None, PLANTED])
)


def with_unused(plain: pa.Array) -> pa.Array:
    """Return a dictionary with unused values, one of them null, and with indices of 8 bits."""
    known = ["unused", *sorted({c for c in plain.to_pylist() if c is not None}), None, "y y"]
    indices = [known.index(cell) for cell in plain.to_pylist()]
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, pa.int8()), pa.array(known, pa.string())
    )


@given(words=WORDS)
def test_a_dictionary_is_read_as_its_cells(words: list[str | None]) -> None:
    plain = pa.array(words, pa.string())
    column = Categorical(kind="categorical", levels=("x", "y", 3), missing="level", other=True)
    for coded in (plain.dictionary_encode(), with_unused(plain)):
        expected = numbers_of(plain, SCHEMA.missing)
        assert np.array_equal(numbers_of(coded, SCHEMA.missing), expected, equal_nan=True)
        assert np.array_equal(
            codes_of(coded, column, SCHEMA.missing), codes_of(plain, column, SCHEMA.missing)
        )


@pytest.mark.slow
@given(ids=st.lists(st.sampled_from(["p", "q", "NA", "", None, "r"]), min_size=1))
def test_persons_are_the_same_by_a_dictionary_and_by_texts(ids: list[str | None]) -> None:
    values = np.linspace(0, 1, len(ids))
    plain = pa.array(ids, pa.string())
    found = [
        open_rows(pa.table({"id": column, "a": values, "b": plain}), PERSONS).second_moments()[0]
        for column in (plain, plain.dictionary_encode(), with_unused(plain))
    ]
    assert all(np.array_equal(one.units, found[0].units) for one in found)
    assert {one.unit_count for one in found} == {len(set(ids) - {"NA", "", None})}


@pytest.mark.parametrize("groups", [7, 10**6])
@pytest.mark.parametrize("dictionary", [False, True])
def test_parquet_is_read_alike_by_any_way_of_decoding(
    tmp_path: Path, groups: int, dictionary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpcov.rows.sources import arrow

    rng = np.random.default_rng(0)
    words = rng.choice(np.array(["x", "y", "3", "NA", "other", None], object), 300)
    table = pa.table({"id": words, "a": rng.uniform(size=300).astype(str), "b": words})
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, row_group_size=groups, use_dictionary=dictionary)
    expected = moment(table, PERSONS).units
    assert np.array_equal(moment(path, PERSONS).units, expected)
    monkeypatch.setattr(arrow, "SMALL_COLUMN_BYTES", 0)
    monkeypatch.setattr(arrow, "MAX_COLUMN_BYTES", 100)
    assert np.array_equal(moment(path, PERSONS).units, expected)


@pytest.mark.parametrize(
    ("error", "code", "reported"),
    [(MemoryError(PLANTED), 2, "Not enough memory"), (ValueError(PLANTED), 1, "ValueError")],
)
def test_an_error_without_a_sentence_of_its_own_reveals_nothing(
    error: Exception,
    code: int,
    reported: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    message = capsys.readouterr().err
    assert ended.value.code == code
    assert reported in message
    assert PLANTED not in message
