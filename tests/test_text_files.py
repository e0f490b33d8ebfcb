"""Text files: one line is one row, whatever it holds; headers, quotes, comments, compression."""

import csv
import gzip
import io

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpcov.errors import SourceError
from dpcov.schema import FileOptions, Schema
from dpcov.sources import open_source, text
from strategies import file_moment, moment, row_between, same, schema_of

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
        (b"1,2\n\r3,4\r\n\n\n", [(1, 2), (3, 4)]),
        (b"", []),
        (b"\n\r\n\n", []),
        (b" 1 ,\t2\n", [(1, 2)]),
        (b'"1","2"\n', [(1, 2)]),
        (b'"1",2\n', [(1, 2)]),
        (b',"2"\n', [(None, 2)]),
        (b'"","2"\n', [(None, 2)]),
        (b'1"",2\n', [(None, 2)]),
        (b'"1""",2\n', [(None, 2)]),
        (b'"1,5",2\n', [(None, 2)]),
        (b"1,\xff\n3,4\n", [(1, None), (3, 4)]),
        (b"\xff\n3,4\n", [MISSING, (3, 4)]),
        (b"\xff,2,\n3,4\n", [MISSING, (3, 4)]),
        (b'"\xff,",2\n"\xff",2,\n', [(None, 2), MISSING]),
        (b'\xff",2\n\xff",2,"3"\n', [(None, 2), MISSING]),
        (b"1,\x00\n3,4\n", [(1, None), (3, 4)]),
        (b"1\n3,4\n", [MISSING, (3, 4)]),
        (b"1,2,5\n3,4\n", [MISSING, (3, 4)]),
        (b" \n3,4\n", [MISSING, (3, 4)]),
        (b'"1"x,2\n3,4\n', [MISSING, (3, 4)]),
        (b'1,"2\n3,4\n', [MISSING, (3, 4)]),
        (b'1,"2\n3,4"\n3,4\n', [MISSING, (3, None), (3, 4)]),
        (b'"1\r",2\n3,4\n', [MISSING, MISSING, (3, 4)]),
        (BOM + b"1,2\n3,4\n", [(1, 2), (3, 4)]),
        (b"3,4\n" + BOM + BOM + b"1,2\n", [(1, 2), (3, 4)]),
        (b"1," + BOM + b"2\n", [(1, None)]),
    ],
)
def test_lines_are_read_as_rows(tmp_path, lines, rows):
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
        ({"comment": "#"}, b'#x "\na,b\n#,\n1,2\n#"\n3,4\n#'),
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
        (b"1.25,Zoe\n1,2\n", "is no header"),
        (b"Zoe,Zoe\n1,2\n", "is no header"),
        (b"Zoe,\n1,2\n", "is no header"),
        (b"Zoe,inf\n1,2\n", "is no header"),
        (b"Zoe,Ada\n1,2\n", "no column 'a'"),
        (b"Zoe,\xe9\n1,2\n", "not UTF-8"),
        (b"Zoe" + b"," * text.LONGEST_LINE + b"\n", "more than a megabyte"),
        (b"PAR1\x00\x15Zoe\xff\n", "not UTF-8"),
    ],
    ids=range(11),
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


@pytest.mark.parametrize(
    ("content", "names"),
    [(b"1,2,x\n", ["x0", "x1", "x2"]), (b"\xff,2\n", ["x0", "x1"]), (b"#\n1;2\n", ["x0"])],
)
def test_columns_without_header_and_schema_are_numbered(tmp_path, content, names):
    (tmp_path / "f.csv").write_bytes(content)
    options = FileOptions(header=False, comment="#")
    assert list(open_source(tmp_path / "f.csv", options, ()).kinds()) == names


@pytest.mark.parametrize("cut", [1, 8, 30, 300])
def test_a_truncated_gz_is_refused(tmp_path, cut):
    whole = gzip.compress(HEADER + b"".join(b"%d,%d\n" % (i * i, i) for i in range(1000)))
    with pytest.raises(SourceError, match=r"can't be opened|could not be read"):
        file_moment(tmp_path / "f.csv.gz", whole[:-cut], SCHEMA)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("before", [0, 1, 2**19, text.LONGEST_LINE - 2, text.LONGEST_LINE - 1])
def test_lines_across_chunks_are_read_whole(tmp_path, before, end):
    filler = b"5," + b"0" * before + b"5" + end if before else b""
    lines = filler + end.join(b"%d,2" % (i % 10) for i in range(10**6 // 2)) + end
    rows = [(i % 10, 2) for i in range(10**6 // 2)]
    if before:
        rows.append((5, 5) if before + 3 <= text.LONGEST_LINE else MISSING)
    assert same(file_moment(tmp_path / "f.csv", HEADER + lines, SCHEMA), expected(*rows))


@pytest.mark.parametrize("start", [0, 1000, text.LONGEST_LINE - 10])
@pytest.mark.parametrize("over", [0, 1, 2, 2**20, 2**22])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_line_is_too_long_by_its_length_alone(tmp_path, start, over, end):
    early = b"1,2" + end
    lines = (
        early * (start // len(early)) + b"3," + b"0" * (text.LONGEST_LINE - 3 + over) + b"4" + end
    )
    found = file_moment(tmp_path / "f.csv", HEADER + lines + b"5,6", SCHEMA)
    long_row = (3, 4) if over == 0 else MISSING
    assert same(found, expected(*[(1, 2)] * (start // len(early)), long_row, (5, 6)))


LINES = [b"1,2", b'"3",4', b'5,"6"', b"7", b"", b"\xff,8", b'9,"']
ANY_LINE = st.one_of(
    st.binary(max_size=12),
    st.text('",ab1\xe9\ufeff ', max_size=12).map(str.encode),
    st.tuples(st.floats(0, 10), st.floats(0, 10)).map(lambda row: b"%r,%r" % row),
).filter(lambda line: not set(line) & set(b"\r\n"))


def neighbours(folder, line: bytes, at: int, schema: Schema, read=file_moment):
    """Moments of a file with and without one line."""
    more = [*LINES[:at], line, *LINES[at:]]
    head = HEADER if schema.file.header else b""
    return [
        read(folder / f"{name}.csv", head + b"\n".join(lines) + b"\n", schema)
        for name, lines in (("more", more), ("fewer", LINES))
    ]


@settings(max_examples=150)
@given(
    ANY_LINE,
    st.integers(0, len(LINES)),
    st.sampled_from(
        [with_options(), with_options(header=False, comment="#"), with_options(quote=False)]
    ),
)
@example(BOM + b"1,2", 0, with_options(header=False))
@example(b'"', 0, with_options())
@example(b"DUCK", 1, with_options())  # where a database of DuckDB has its mark
def test_one_line_changes_the_moment_by_one_row_at_most(tmp_path, line, at, schema):
    more, fewer = neighbours(tmp_path, line, at, schema)
    assert more.unit_count - fewer.unit_count in (0, 1)
    assert row_between(more, fewer) is not None


def test_control_a_parser_that_lets_quotes_span_lines_fails_this_check(tmp_path):
    def broken(_, content, schema):
        lines = io.StringIO(content.decode(errors="replace"), newline="")
        rows = [row if len(row) == 2 else (None, None) for row in csv.reader(lines)][1:]
        return moment(pa.table(list(zip(*rows, strict=True)), ["a", "b"]), schema)

    more, fewer = neighbours(tmp_path, b'1,"', 0, SCHEMA, broken)
    assert row_between(more, fewer) is None


@given(st.permutations(LINES))
def test_the_order_of_the_lines_changes_nothing(tmp_path, lines):
    whole = file_moment(tmp_path / "f.csv", HEADER + b"\n".join(LINES), SCHEMA)
    assert same(file_moment(tmp_path / "g.csv", HEADER + b"\n".join(lines), SCHEMA), whole)
