"""Stata's files: every cell by itself, the missing numbers of every format, and damaged files."""

from __future__ import annotations

import struct
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpcov
import stored_broken as broken
import stored_cells
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import PureDP
from dpcov.errors import SourceError
from dpcov.rows.schema import FileOptions, Schema
from dpcov.rows.sources import dta, open_source
from stata_files import CODES, Block, Missing, Writer, missing_bits
from strategies import moment, same

VERSIONS = [102, 103, *stored_cells.VERSIONS]
TOWNS = ["Zürich", "Łódź", "Aix"]


def read(path: Path, **options: str) -> dict[str, list]:
    source = open_source(path, FileOptions(**options), ())
    (batch, *_) = source.batches(source.names)
    return batch.to_pydict()


def written(folder: Path, columns: dict, version: int = 118, **how) -> Path:
    return Writer(version, **how).write(folder / "t.dta", columns)


# Cells


@pytest.mark.slow
def test_no_edit_of_a_cell_changes_an_outcome_or_another_row():
    figures = stored_cells.measure(quick=True)
    assert [figure for figure in figures if not figure.ok] == []


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_missing_number_of_every_format_is_missing_and_its_neighbours_are_not(
    tmp_path, version, big
):
    if version == 102 and big:
        pytest.skip("format 102 has one order of bytes")
    letters = [".", *"abcdefghijklmnopqrstuvwxyz"] if version > 112 else ["."]
    kinds = [kind for kind in CODES if kind != "byte" or version > 103]
    order = "big" if big else "little"
    for kind in kinds:
        size = struct.calcsize(CODES[kind])
        below = missing_bits(kind, ".", version) - 1
        cells = [Missing(letter) for letter in letters]
        path = written(
            tmp_path, {"x": (kind, [*cells, 1, below.to_bytes(size, order), 2])}, version, big=big
        )
        found = read(path)["x"]
        assert found[:-3] == [None] * len(letters)
        assert None not in found[-3:]
        assert found[-3] == 1
        assert found[-1] == 2


def test_the_largest_numbers_of_old_formats_are_numbers(tmp_path):
    """They are missing ones from format 113 on."""
    cells = {"byte": [101, 126, 127], "int": [32741, 32766, 32767]}
    cells["long"] = [2147483621, 2147483646, 2147483647]
    columns = {kind: (kind, numbers) for kind, numbers in cells.items()}
    for version, missing in ((105, 1), (111, 1), (113, 3), (118, 3)):
        found = read(written(tmp_path, columns, version))
        for kind, numbers in cells.items():
            assert found[kind] == [*numbers, *[None] * 3][: 3 - missing] + [None] * missing


def test_missing_numbers_of_a_file_of_format_105():
    """The cases are pandas' issues 58130 and 58149."""
    found = read(Path(__file__).parent / "data" / "faults" / "stata-105-missing.dta")
    assert found["d"] == [2.5, None, None, 7.0, 8.0, 9.0]
    assert found["b"] == [1, None, None, 126, 101, -128]
    assert found["l"] == [3, None, None, 2147483646, 2147483621, -2147483648]


def test_a_double_of_format_105_is_missing_by_its_own_code(tmp_path, monkeypatch):
    """Later formats have another code, and there that number is one."""
    schema = Schema.parse(
        {"version": 2, "columns": {"x": {"kind": "number", "lower": 0, "upper": 10}}}
    )
    raw = (2.0**333, 2.0**1023)
    old, new = (
        moment(written(tmp_path, {"x": ("double", [2.5, *raw])}, version), schema)
        for version in (105, 108)
    )
    assert same(old, moment(pa.table({"x": [2.5, None, None]}), schema))
    assert same(new, moment(pa.table({"x": [2.5, 2.0**333, None]}), schema))
    with broken.OLD_STATA():  # the control
        path = written(tmp_path, {"x": ("double", [2.5, *raw])}, 105)
        assert not same(moment(path, schema), old)


@pytest.mark.parametrize("version", VERSIONS[2:])
def test_pandas_reads_what_the_tests_write_in_the_same_way(tmp_path, version):
    """Our reader and our writer together could be wrong; pandas is independent."""
    texts = {"s": ("str", ["ab", "Zürich", ""])} if version > 103 else {}
    texts |= {"l": ("strL", ["Zürich", "", "ab"])} if version > 115 else {}
    numbers = {kind: (kind, [1, None, 3]) for kind in CODES}
    dates = {"d": ("date", [22000.0, None, 0.0])}
    for big in (False, True):
        path = written(tmp_path, {**numbers, **texts, **dates}, version, big=big)
        found, expected = read(path), pd.read_stata(path)
        assert list(found) == list(expected)
        for name in (*numbers, *texts):
            cells = [None if pd.isna(cell) else cell for cell in expected[name]]
            assert found[name] == cells
        assert found["d"] == [date(2020, 3, 26), None, date(1960, 1, 1)]


def released(path: Path, ledger: Ledger) -> dpcov.Release:
    levels = {"kind": "categorical", "levels": TOWNS, "other": True}
    schema = {"version": 2, "columns": {"s": levels}}
    return dpcov.release(path, schema=Schema.parse(schema), epsilon=1.0, ledger=ledger)


@pytest.mark.parametrize(("version", "encoding"), [(117, "cp1252"), (118, None), (119, None)])
def test_a_strl_column_is_read_as_one_of_short_texts(tmp_path, version, encoding):
    texts = ["Zürich", "Aix", "", "Zürich"] + ([] if encoding else ["Łódź", "\U0001f600"])
    expected = read(written(tmp_path, {"s": ("str", texts)}, version, encoding=encoding))
    found = read(written(tmp_path, {"s": ("strL", texts)}, version, encoding=encoding))
    assert found == expected == {"s": texts}


def test_one_letter_beyond_latin_1_in_a_strl_cell_does_not_end_a_release(tmp_path):
    ledger = Ledger.create(tmp_path / "x.ledger", PureDP(10.0))
    for town in ("Aix", "Łódź", b"\xff"):
        path = written(tmp_path, {"s": ("strL", [*TOWNS, town, *TOWNS[::2]])})
        assert released(path, ledger).columns == ("s=Zürich", "s=Łódź", "s=Aix", "s=(other)")
    with broken.OLD_STATA(), pytest.raises(SourceError):  # the control
        released(path, ledger)


@pytest.mark.parametrize("convert", [False, True])
@pytest.mark.parametrize("version", [114, 117, 118, 119])
def test_odd_texts_that_pandas_writes_change_their_own_row_only(tmp_path, version, convert):
    if convert and version == 114:
        pytest.skip("format 114 has no strL")
    how = {"version": version, "write_index": False}
    how |= {"convert_strl": ["s"]} if convert else {}
    columns = {
        "x": {"kind": "number", "lower": 0, "upper": 1},
        "s": {"kind": "categorical", "levels": ["ab", "cd", "é"], "other": True},
    }
    schema = Schema.parse({"version": 2, "columns": columns})
    texts = ["ab" if at % 2 else "cd" for at in range(20)]
    numbers = [at / 20 for at in range(20)]
    odd = ["", "é", "ab ", "ab\r\n"]
    odd += ["\U0001f600" * 60, "x" * 3000, "y" * 70_000] if convert and version > 117 else []
    for text in odd:
        cells = [*texts[:7], text, *texts[8:]]
        path = tmp_path / "t.dta"
        pd.DataFrame({"x": numbers, "s": cells}).to_stata(path, **how)
        expected = pa.table({"x": numbers, "s": cells})
        assert same(moment(path, schema), moment(expected, schema)), text


def test_a_text_that_is_too_long_for_a_cell_or_of_no_text_is_missing(tmp_path):
    blocks = [
        *(Block(b"y" * 2**16 + b"\0"), Block(b"y" * (2**16 + 1) + b"\0")),
        *(Block(b"ab\0" + b"\xff" * 2**17), Block(b"ab\0", kind=7), Block(b"ab\0", key=(1, 99))),
        *("ab", b"\xff", ""),
    ]
    found = read(written(tmp_path, {"s": ("strL", blocks)}))["s"]
    assert found == ["y" * 2**16, None, "ab", None, None, "ab", None, ""]


@pytest.mark.parametrize("kind", ["str", "strL"])
def test_texts_of_format_117_are_those_of_stata_and_those_of_other_programs(tmp_path, kind):
    columns = {"s": (kind, ["Zürich".encode("cp1252"), "Zürich".encode(), "Łódź".encode()])}
    assert read(written(tmp_path, columns, 117))["s"] == ["Zürich", "Zürich", "Łódź"]
    found = read(written(tmp_path, columns, 117), encoding="cp1252")["s"]
    assert found[:2] == ["Zürich", "ZÃ¼rich"]  # what is declared counts


def test_a_declared_encoding_is_used_if_the_format_has_none_or_its_own_fails(tmp_path):
    columns = {"s": ("str", [b"Z\xfcrich", b"\x80", b"\x81"])}
    assert read(written(tmp_path, columns, 114))["s"] == ["Zürich", "€", None]
    assert read(written(tmp_path, columns, 114), encoding="cp1250")["s"][1] == "€"
    assert read(written(tmp_path, columns, 114), encoding="cp437")["s"][0] == "Zⁿrich"
    assert read(written(tmp_path, columns, 118))["s"] == [None] * 3
    both = {"s": ("strL", [b"Z\xfcrich", "Zürich".encode(), "Łódź".encode()])}
    assert read(written(tmp_path, both, 118), encoding="cp1252")["s"] == ["Zürich", *TOWNS[:2]]


def test_columns_have_the_types_of_the_file(tmp_path):
    columns = {kind: (kind, [1]) for kind in CODES} | {"d": ("date", [0.0]), "s": ("strL", [""])}
    source = open_source(written(tmp_path, columns), FileOptions(), ())
    names = ["int8", "int16", "int32", "float", "double", "date32[day]", "large_string"]
    assert [*map(str, source.types.values())] == names
    whole = dict.fromkeys(("byte", "int", "long"), "integer")
    others = {"float": "number", "double": "number", "d": "date", "s": "categorical"}
    assert source.kinds() == whole | others
    (batch,) = source.batches(["s", "byte"])
    assert batch.schema.names == ["s", "byte"]


def test_a_table_without_rows_and_one_in_many_parts_are_read(tmp_path, monkeypatch):
    assert read(written(tmp_path, {"x": ("long", []), "s": ("strL", [])})) == {"x": [], "s": []}
    texts = [f"text {at}" for at in range(500)]
    path = written(tmp_path, {"s": ("strL", texts), "x": ("int", range(500))})
    monkeypatch.setattr("dpcov.rows.sources.stata._BLOCK_BYTES", 2**20)
    batches = list(open_source(path, FileOptions(), ()).batches(["x", "s"]))
    assert max(batch.num_rows for batch in batches) < 20
    assert [cell for batch in batches for cell in batch["s"].to_pylist()] == texts
    assert [cell for batch in batches for cell in batch["x"].to_pylist()] == [*range(500)]


# Damage


@pytest.mark.parametrize("version", [105, 114, 117, 118])
def test_a_file_that_is_cut_off_is_refused_before_anything_is_read(tmp_path, version):
    columns = {"x": ("double", [1.0, 2.0]), "s": ("str", ["Aix", "b"])}
    columns |= {"l": ("strL", ["Aix", "b"])} if version > 115 else {}
    whole = written(tmp_path, columns, version).read_bytes()
    end = whole.find(b"</strls>") + 8 if version > 115 else len(whole)
    path = tmp_path / "cut.dta"
    for length in range(1, end, 7):
        path.write_bytes(whole[:length])
        with pytest.raises(SourceError, match=r"complete Stata file\. .*Nothing was spent"):
            open_source(path, FileOptions(), ())
    path.write_bytes(whole[:end])  # the control: what comes after holds no cells
    assert read(path)["x"] == [1.0, 2.0]


@pytest.mark.parametrize("version", [105, 118, 119])
def test_no_damage_of_a_header_fails_in_another_way(tmp_path, version):
    columns = {"x": ("double", [1.0, 2.0]), "s": ("str", ["Aix", "b"])}
    columns |= {"l": ("strL", ["Aix", "b"])} if version > 115 else {}
    whole = written(tmp_path, columns, version).read_bytes()
    rng, path, read_ones = np.random.default_rng(version), tmp_path / "damaged.dta", 0
    for _ in range(300):
        content = bytearray(whole)
        for at in rng.integers(0, len(whole), 2):
            content[at] = rng.integers(0, 256)
        path.write_bytes(content)
        try:
            source = open_source(path, FileOptions(), ())
        except SourceError:
            continue
        for batch in source.batches(source.names):
            assert batch.validate(full=True) is None
        read_ones += 1
    assert read_ones > 10


def test_two_contents_of_one_strl_cell_are_refused(tmp_path):
    path = written(tmp_path, {"s": ("strL", ["Aix", "b", "c"])})
    content = path.read_bytes()
    assert content.count(b"GSO" + struct.pack("<IQ", 1, 3)) == 1
    path.write_bytes(content.replace(struct.pack("<IQ", 1, 3), struct.pack("<IQ", 1, 2)))
    with pytest.raises(SourceError, match="not a complete Stata file"):
        open_source(path, FileOptions(), ())


def test_a_format_that_is_not_read_is_named_with_what_to_do(tmp_path):
    path = written(tmp_path, {"x": ("double", [1.0])})
    path.write_bytes(path.read_bytes().replace(b"<release>118", b"<release>120"))
    with pytest.raises(
        SourceError, match=r"has the format 120, .* Save the file in Stata with `saveold`"
    ):
        open_source(path, FileOptions(), ())


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path):
    path = written(tmp_path, {"x": ("double", [1.0, 2.0])}, 114)
    source = open_source(path, FileOptions(), ())
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(SourceError, match="changed while dpcov read it"):
        list(source.batches(["x"]))


def test_keys_of_strl_cells_are_found_whatever_their_column_and_row():
    for version, order in ((117, "<"), (118, "<"), (119, "<"), (118, ">"), (119, ">")):
        column, row = dta._key_widths(version)
        pairs = [(1, 1), (2 ** (8 * column) - 1, 2 ** (8 * row) - 1), (300, 70_000), (2, 1)]
        stored = Writer(version, big=order == ">")
        cells = b"".join(stored._whole((column, row), pair) for pair in pairs)
        layout = dta.Layout(
            version, "big" if order == ">" else "little", 0, (), 0, 0, dta._no_blocks()
        )
        found = layout.keys(np.frombuffer(cells, f"{order}u8").astype(np.uint64))
        assert found.tolist() == [v << 8 * row | o for v, o in pairs]
