"""Text files: headers, comments, line ends, compression, encodings, pipes; records are beside."""

import functools
import gzip
import io
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov.errors import SchemaError, SourceError
from dpcov.rows.cells import values_of
from dpcov.rows.numbers import MAX_CELL_BYTES
from dpcov.rows.schema import FileOptions, Schema, number_codes
from dpcov.rows.sources import open_source, text
from dpcov.rows.sources.check import diagnose
from dpcov.rows.sources.text import MAX_RECORD_BYTES, TextSource
from strategies import file_moment, moment, same, schema_of

SCHEMA = schema_of("a", "b")
HEADER = b"a,b\n"
GOOD = pa.table({"a": [1.0, 3.0], "b": [2.0, 4.0]})
BOM = b"\xef\xbb\xbf"


def with_options(**options) -> Schema:
    return schema_of("a", "b", file=options)


def expected(*rows: tuple[float | None, float | None], schema: Schema = SCHEMA):
    columns = [pa.array(column, pa.float64()) for column in zip(*rows, strict=True)] or [[], []]
    return moment(pa.table(columns, ["a", "b"]), schema)


MISSING = (None, None)


@pytest.mark.parametrize(
    ("lines", "rows"),
    [
        (b"1,2\n3,4", [(1, 2), (3, 4)]),
        (b"1,2\r\n3,4\r\n", [(1, 2), (3, 4)]),
        (b"1,2\r3,4\r", [(1, 2), (3, 4)]),
        (b"1,2\n\r3,4\r\n\n\n", [(1, 2), MISSING, (3, 4), MISSING, MISSING]),
        (b"", []),
        (b"\n\r\n\n", [MISSING] * 3),
        (b" 1 ,\t2\n", [(1, 2)]),
        (b'"1","2"\n', [(1, 2)]),
        (b'"1",2\n', [(1, 2)]),
        (b',"2"\n', [(None, 2)]),
        (b'"","2"\n', [(None, 2)]),
        (b'1"",2\n', [MISSING]),
        (b'"1""",2\n', [(None, 2)]),
        (b'"1,5",2\n', [(None, 2)]),
        (b'"1\n",2\n3,4\n', [(1, 2), (3, 4)]),
        (b'"1\r\n5",2\n3,4\n', [(None, 2), (3, 4)]),
        (b"1,\xff\n3,4\n", [(1, None), (3, 4)]),
        (b"\xff\n3,4\n", [MISSING, (3, 4)]),
        (b"\xff,2,\n3,4\n", [MISSING, (3, 4)]),
        (b'"\xff,",2\n"\xff",2,\n', [(None, 2), MISSING]),
        (b'\xff",2\n\xff",2,"3"\n', [MISSING, MISSING]),
        (b"1,\x00\n3,4\n", [(1, None), (3, 4)]),
        (b"1\n3,4\n", [MISSING, (3, 4)]),
        (b"1,2,5\n3,4\n", [MISSING, (3, 4)]),
        (b" \n3,4\n", [MISSING, (3, 4)]),
        (b'"1"x,2\n3,4\n', [MISSING, (3, 4)]),
        (b'1,"2\n3,4\n', [MISSING, (3, 4)]),
        (b'1,"2\n3,4"\n3,4\n', [(1, None), (3, 4)]),
        (b'1,"2\n3,4"5\n3,4\n', [MISSING, MISSING, (3, 4)]),
        (b'"1\r",2\n3,4\n', [(1, 2), (3, 4)]),
        (BOM + b"1,2\n3,4\n", [(None, 2), (3, 4)]),
        (b"3,4\n" + BOM + BOM + b"1,2\n", [(None, 2), (3, 4)]),
        (b"#1,2\n#\n3,4\n", [(None, 2), MISSING, (3, 4)]),
        (b"1," + BOM + b"2\n", [(1, None)]),
    ],
)
def test_records_are_read_as_rows(tmp_path, lines, rows):
    assert same(file_moment(tmp_path / "f.csv", HEADER + lines, SCHEMA), expected(*rows))


@pytest.mark.parametrize("header", [b"a,b", BOM + b"a,b", b'"a", b ', b"b,a", b'x,a,"b"'])
def test_columns_are_found_by_the_header(tmp_path, header):
    values = {"a": b"1", "b": b"2", "x": b"zz"}
    names = header.replace(BOM, b"").replace(b'"', b"").decode().split(",")
    row = b",".join(values[name.strip()] for name in names)
    found = file_moment(tmp_path / "f.csv", header + b"\r\n" + row, SCHEMA)
    assert same(found, expected((1, 2)))


@pytest.mark.parametrize(
    ("options", "content"),
    [
        ({"header": False}, b"1,2\n3,4\n"),
        ({"header": False}, BOM + b"1,2\n3,4\n"),
        ({"separator": ";"}, b"a;b\n1;2\n3;4\n"),
        ({"separator": "\t"}, b"a\tb\n1\t2\n3\t4\n"),
        ({"separator": "|"}, b"a|b\n1|2\n3|4\n"),
        ({"separator": "^"}, b'a^b\n"1"^2\n3^4\n'),
        ({"separator": "]"}, b'a]b\n"1"]2\n3]4\n'),
        ({"separator": "-"}, b'a-b\n"1"-2\n3-4\n'),
        ({"comment": "#"}, b'#x "\n#\na,b\n1,2\n3,4\n'),
        ({"quote": "'"}, b"a,'b'\n'1',2\n3,'4'\n"),
        ({"records": "lines"}, b'a,"b"\n1,"2"\n3,4\n'),
        ({"encoding": "cp037"}, "a,b\n1,2\n3,4\n".encode("cp037")),
        ({"encoding": "utf-16"}, "a,b\n1,2\n3,4\n".encode("utf-16")),
        ({"encoding": "utf-16-be"}, "\ufeffa,b\n1,2\n3,4\n".encode("utf-16-be")),
        ({"decimal": ",", "separator": ";"}, b"a;b\n1,0;2,\n3;40,0e-1\n"),
        ({"skip_lines": 2}, b'made by "x\n,,"\na,b\n1,2\n3,4\n'),
        ({"skip_lines": 1, "header": False}, b"a,b\n1,2\n3,4\n"),
        ({"skip_lines": 1, "comment": "#"}, b"# x\n# y\na,b\n1,2\n3,4\n"),
        (
            {"compression": "gzip"},
            gzip.compress(b"a,b\n1,2\n", mtime=0) + gzip.compress(b"3,4\n", mtime=0),
        ),
    ],
    ids=str,
)
def test_file_options_are_obeyed(tmp_path, options, content):
    schema = with_options(**options)
    found = file_moment(tmp_path / "f.csv", content, schema)
    assert same(found, moment(GOOD, schema))


def test_without_quoting_a_quote_is_a_character(tmp_path):
    schema = with_options(quote=False)
    found = file_moment(tmp_path / "f.csv", b'a,b\n1,"2\n"3,4\n1,2\n', schema)
    assert same(found, expected((1, None), (None, 4), (1, 2), schema=schema))


def test_compression_goes_by_the_name_unless_it_is_declared(tmp_path):
    content = HEADER + b"1,2\n3,4\n"
    assert same(
        file_moment(tmp_path / "f.csv.GZ", gzip.compress(content), SCHEMA), expected((1, 2), (3, 4))
    )
    plain = with_options(compression="none")
    assert same(file_moment(tmp_path / "g.csv.gz", content, plain), expected((1, 2), (3, 4)))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n1,2\n", "is empty"),
        (b",\n1,2\n", "is empty"),
        (b"1.25,Zoe\n1,2\n", "is not a header"),
        (b"Zoe,Zoe\n1,2\n", "no columns 'a', 'b'"),
        (b"Zoe,\n1,2\n", "no columns 'a', 'b'"),
        (b"Zoe,inf\n1,2\n", "is not a header"),
        (b"Zoe,Ada\n1,2\n", "no columns 'a', 'b'"),
        (b"Zoe,\xe9\n1,2\n", "not UTF-8"),
        (b"Zoe" + b"," * MAX_RECORD_BYTES + b"\n", "longer than 4 MiB"),
        (b'Zoe,"Ada\n1,2\n', "is not a header"),
        (b'Zoe,A"da\n1,2\n', "is not a header"),
        (b"PAR1\x00\x15Zoe\xff\n", "not UTF-8"),
    ],
    ids=range(13),
)
def test_a_first_line_that_is_no_header_is_refused_and_not_shown(tmp_path, content, words):
    with pytest.raises(SourceError, match=words) as caught:
        file_moment(tmp_path / "f.csv", content, SCHEMA)
    assert not any(value in str(caught.value) for value in ("Zoe", "Ada", "1.25"))


@pytest.mark.parametrize("content", [b"a,b", b"a,b\n", b"a,b\r\n", BOM + b"a,b"])
def test_a_header_alone_is_an_empty_table(tmp_path, content):
    found = file_moment(tmp_path / "f.csv", content, SCHEMA)
    assert found.unit_count == 0
    assert not found.units.any()


def test_an_empty_file_without_header_is_an_empty_table(tmp_path):
    assert file_moment(tmp_path / "f.csv", b"", with_options(header=False)).unit_count == 0


def test_the_number_of_columns_is_never_counted_in_the_data(tmp_path):
    (tmp_path / "f.csv").write_bytes(b"1,2,x\n")
    with pytest.raises(SourceError, match="a declaration of each column"):
        open_source(tmp_path / "f.csv", FileOptions(header=False), ())
    kinds = open_source(tmp_path / "f.csv", FileOptions(header=False), ("x0", "x1")).kinds()
    assert kinds == {"x0": "unknown", "x1": "unknown"}


def test_a_row_is_no_comment():
    with pytest.raises(SchemaError, match="could start like a comment"):
        FileOptions.checked(header=False, comment="#")


@pytest.mark.parametrize("cut", [1, 8, 30, 300])
def test_a_truncated_gz_is_refused(tmp_path, cut):
    whole = gzip.compress(HEADER + b"".join(b"%d,%d\n" % (i * i, i) for i in range(1000)))
    with pytest.raises(SourceError, match=r"cannot be opened|could not read"):
        file_moment(tmp_path / "f.csv.gz", whole[:-cut], SCHEMA)


LINES = 500_000


@functools.cache
def expected_of_lines():
    """Return the moment of `LINES` short lines, which several tests need."""
    return expected(*[(i % 10, 2) for i in range(LINES)])


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("before", [0, 1, 2**20 - 3, MAX_RECORD_BYTES - 4])
def test_lines_across_chunks_are_read_whole(tmp_path, before, end):
    filler = b"5," + b"0" * before + b"5" + end if before else b""
    lines = filler + b"".join(b"%d,2%b" % (i, end) for i in range(10)) * (LINES // 10)
    whole = expected_of_lines()
    if before:
        row = (5, 5) if before < MAX_CELL_BYTES else (5, None)
        one = expected(row if len(filler) <= MAX_RECORD_BYTES else MISSING)
        whole = replace(
            whole, units=whole.units + one.units, unit_count=whole.unit_count + one.unit_count
        )
    assert same(file_moment(tmp_path / "f.csv", HEADER + lines, SCHEMA), whole)


@pytest.mark.parametrize(
    "over", [0, 1, 2, *(pytest.param(one, marks=pytest.mark.slow) for one in (2**20, 2**24))]
)
@pytest.mark.parametrize(
    ("start", "end"),
    [(0, b"\n"), (1000, b"\r"), (2**20 - 10, b"\n"), (2**20 - 10, b"\r\n"), (2**20 - 10, b"\r")],
)
def test_a_line_is_too_long_by_its_length_alone(tmp_path, start, over, end):
    early = b"1,2" + end
    long = b"3," + b"0" * (MAX_RECORD_BYTES - 2 - len(end) + over) + end
    lines = early * (start // len(early)) + long
    found = file_moment(tmp_path / "f.csv", HEADER + lines + b"5,6", SCHEMA)
    row = (3, None) if over == 0 else MISSING
    assert same(found, expected(*[(1, 2)] * (start // len(early)), row, (5, 6)))


@pytest.mark.parametrize("at", [0, 2**20 - 3, 2**20 - 2, 2**20 - 1])
def test_a_byte_order_mark_is_content_wherever_a_chunk_begins(tmp_path, at):
    filler = b"0" * (at - 4) + b",1\n" if at else b""
    content = b"1,2\n" * 3 + BOM + b"3,4\n"
    found = file_moment(tmp_path / "f.csv", HEADER + filler + content, SCHEMA)
    rows = [(None, 1)] * bool(at) + [(1, 2)] * 3 + [(None, 4)]
    assert same(found, expected(*rows))


def cells_of(path, options: FileOptions, names=("a", "b"), numbers=()) -> list[tuple]:
    source = TextSource(path, options, names, dict.fromkeys(numbers, ()))
    batches = list(source.batches(source.names))
    columns = [[] for _ in source.names]
    for batch in batches:
        assert {c.type for c in batch.columns} == {pa.string()}
        for cells, column in zip(columns, batch.columns, strict=True):
            cells += column.to_pylist()
    return list(zip(*columns, strict=True))


SINGLE_BYTE = ["latin-1", "cp1252", "iso8859-15", "koi8-r", "cp437", "mac-roman", "ascii", "cp037"]


@pytest.mark.parametrize("name", SINGLE_BYTE)
def test_bytes_of_these_encodings_are_decoded_one_by_one(name):
    assert FileOptions(encoding=name).encoding
    alone = [bytes([b]).decode(name, "replace") for b in range(256)]
    for a in range(256):
        pairs = b"".join(bytes([a, b]) for b in range(256))
        assert pairs.decode(name, "replace") == "".join(alone[a] + one for one in alone)


@pytest.mark.parametrize(
    "name", ["shift_jis", "gb18030", "big5", "utf-7", "iso2022_jp", "zip", "x"]
)
def test_encodings_in_which_a_cell_could_change_another_are_refused(name):
    with pytest.raises(SchemaError, match="encoding"):
        FileOptions.checked(encoding=name)


def test_control_in_other_encodings_half_a_character_swallows_the_separator():
    assert b"\x81|2".decode("big5", "replace").count("|") == 0 or (
        b"\x81|2".decode("shift_jis", "replace").count("|") == 0
    )


@given(st.lists(st.binary(max_size=4).map(lambda b: b * 2), max_size=6), st.integers(1, 9))
def test_broken_utf_16_stays_in_its_cell(tmp_path, cells, chunk):
    structure = [s.encode("utf-16-le") for s in '\n\r,"']
    spoilt = [c for c in cells if not any(c[i : i + 2] in structure for i in range(0, len(c), 2))]
    comma, end = ",".encode("utf-16-le"), "\n".encode("utf-16-le")
    (tmp_path / "f.csv").write_bytes(b"".join(c + comma + c + end for c in spoilt))
    options = FileOptions(header=False, encoding="utf-16-le")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "READ_BYTES", chunk)
        found = cells_of(tmp_path / "f.csv", options)
    alone = [c.decode("utf-16-le", "replace") for c in spoilt]
    if spoilt:
        alone[0] = alone[0].removeprefix("\ufeff")
        assert [b for _, b in found] == [c.decode("utf-16-le", "replace") for c in spoilt]
    assert [a for a, _ in found] == alone


@pytest.mark.parametrize(
    ("decimal", "thousands", "cells"),
    [
        (",", None, {"1,5": "1.5", " -,5 ": "-.5", "1.5": None, "1,5e3": "1.5e3", "1 000": None}),
        (",", ".", {"1.234,5": "1234.5", "1.5": None, "1.23": None, "12.345.678": "12345678"}),
        (".", ",", {"1,234.5": "1234.5", "1,5": None, "1234": "1234", "1,2345": None}),
        (".", "'", {"1'000": "1000", "1'00": None, "x": None, "": None, "inf": None}),
        (",", "\u202f", {"1\u202f000,5": "1000.5", "1 000": None}),
        (".", None, {"1,5": "1,5", " x": " x"}),
    ],
)
def test_numbers_are_read_in_the_notation_that_is_declared(tmp_path, decimal, thousands, cells):
    options = FileOptions(header=False, separator=";", decimal=decimal, thousands=thousands)
    text = "".join(f"{cell};{cell}\n" for cell in cells)
    (tmp_path / "f.csv").write_text(text, encoding="utf-8")
    found = cells_of(tmp_path / "f.csv", options, numbers=frozenset("a"))
    assert found == [(plain, cell) for cell, plain in cells.items()]


@pytest.mark.parametrize("code", ["999,9", "999,90", "+999,9", "9,999e2", "999.9", " 999,9 "])
def test_a_code_for_missing_values_is_met_in_the_notation_of_the_file(tmp_path, code):
    (tmp_path / "f.csv").write_text("a;b\n999,9;x\n 999,90 ;y\n1.999,9;z\n9999;u\n")
    file = {"separator": ";", "decimal": ",", "thousands": "."}
    schema = schema_of("a", missing=[code], file=file)
    source = open_source(tmp_path / "f.csv", schema.file, ("a",), number_codes(schema))
    (batch,) = source.batches(["a"])
    found = values_of(batch.column(0), schema.read_columns["a"], schema.missing)
    assert [None if np.isnan(x) else x for x in found] == [None, None, 1999.9, 9999]
    seen = diagnose(tmp_path / "f.csv", schema).columns["a"]
    assert (seen.missing, seen.unreadable) == (2, 0)
    coded, empty = (f"a;b\n{cell};x\n" for cell in ("999,9", ""))
    found = [file_moment(tmp_path / "f.csv", text, schema) for text in (coded, empty)]
    assert same(*found)
    given = file_moment(tmp_path / "f.csv", "a;b\n9,9;x\n", schema)  # control
    assert not same(found[0], given)


@given(st.lists(st.text("0123456789.,eE+-'x ", max_size=9), min_size=1, max_size=9))
def test_a_number_of_a_notation_depends_on_its_own_cell(tmp_path, cells):
    options = FileOptions(header=False, separator=";", decimal=",", thousands=".")
    found = []
    for part in (cells, *([c] for c in cells)):
        (tmp_path / "f.csv").write_text("".join(f"{c};\n" for c in part))
        found.append(cells_of(tmp_path / "f.csv", options, numbers=frozenset("a")))
    assert found[0] == [row for rows in found[1:] for row in rows]


def test_a_cell_beyond_the_cap_is_no_number_in_any_notation(tmp_path):
    options = FileOptions(header=False, separator=";", decimal=",")
    (tmp_path / "f.csv").write_text(f"{'0' * 2**16};\n{'0' * (2**16 + 1)};\n")
    found = cells_of(tmp_path / "f.csv", options, numbers=frozenset("a"))
    assert [a is None for a, _ in found] == [False, True]


class Stdin(io.BytesIO):
    """Standard input that can't go back."""

    @property
    def buffer(self) -> "Stdin":
        return self

    def seekable(self) -> bool:
        return False

    def seek(self, *_):
        raise io.UnsupportedOperation


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_is_read_once(monkeypatch, packed):
    content = b"a,b\n1,2\n" + b"3,4\n" * 600_000
    monkeypatch.setattr(sys, "stdin", Stdin(gzip.compress(content) if packed else content))
    source = TextSource(Path("-"), FileOptions(compression="gzip" if packed else "auto"), ())
    assert (source.names, source.repeatable) == (("a", "b"), False)
    batches = list(source.batches(("b",)))
    assert sum(batch.num_rows for batch in batches) == 600_001
    assert batches[0].column(0)[0].as_py() == "2"
    with pytest.raises(SourceError, match="only once"):
        next(iter(source.batches(("b",))))


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: Path(path).symlink_to("/dev/zero")])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, make):
    make(str(tmp_path / "f.csv"))
    with pytest.raises(SourceError, match=r"not a regular file.*use - "):
        TextSource(tmp_path / "f.csv", FileOptions(), ())
