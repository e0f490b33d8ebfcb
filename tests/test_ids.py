"""Ids of persons: one form for each id, whatever way it is written; equal when the type says so."""

import time
import uuid
from decimal import Decimal, InvalidOperation
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov.errors import SourceError
from dpcov.rows.numbers import MAX_CELL_BYTES
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.base import unwrapped
from dpcov.rows.sources.conditions import Conditions
from dpcov.rows.sources.ids import ID_BYTES, canonical, records, refuse_unfit
from dpcov.rows.sources.objects import texts_of
from strategies import (
    INTEGERS,
    TEXTS,
    arrow_columns,
    invalid_utf8,
    moment,
    numeric,
    same,
    schema_of,
)

DIGITS = st.text("0123456789", max_size=5)
SIGNS = st.sampled_from(["", "+", "-", "\N{MINUS SIGN}"])


def forms(column: pa.Array, declared: str, missing: tuple[str, ...] = ()) -> list[bytes | None]:
    found = canonical(column, declared, missing)
    assert found.type == pa.large_binary()
    assert len(found) == len(column)
    return found.to_pylist()


def text_forms(words, declared: str) -> list[bytes | None]:
    return forms(pa.array(words, pa.string()), declared)


def value_of(word: str, declared: str) -> Decimal | None:
    """Return the number that Python reads; None if the text is no number of the type."""
    word = word.strip().replace("\N{MINUS SIGN}", "-")
    if "_" in word or not word.isascii():
        return None
    try:
        value = Decimal(word)
    except InvalidOperation:
        return None
    whole = value.is_finite() and (value.as_tuple().exponent >= 0 or value == int(value))
    return value if value.is_finite() and (whole or declared == "decimal") else None


def check(form, words: list[str], declared: str) -> None:
    """Check that forms are equal exactly if values are, and that both exist together."""
    found = form(words, declared)
    values = [value_of(word, declared) for word in words]
    assert [one is None for one in found] == [value is None for value in values]
    for one, other in combinations(range(len(words)), 2):
        if found[one] is not None and found[other] is not None:
            assert (found[one] == found[other]) == (values[one] == values[other])


@st.composite
def spellings(draw) -> str:
    """Draw a spelling of a number; there are few numbers, so many are equal."""
    whole, power = draw(st.sampled_from(["7", "70", "10", "0", "123"])), draw(st.integers(-4, 45))
    if power >= 0 and draw(st.booleans()):
        whole, power = whole + "0" * power, 0
    if draw(st.booleans()):
        whole = "0" * draw(st.integers(0, 3)) + whole
    at = draw(st.integers(0, len(whole)))
    point = "." if at < len(whole) or draw(st.booleans()) else ""
    exponent = power + len(whole) - at
    tail = "" if exponent == 0 and draw(st.booleans()) else f"e{exponent}"
    blank = draw(st.sampled_from(["", " ", "\t", "\u00a0", "\u2009"]))
    word = draw(SIGNS) + whole[:at] + point + whole[at:] + tail
    return blank + (word.upper() if draw(st.booleans()) else word) + blank


NUMBERS = (
    spellings()
    | st.builds("{}{}.{}e{}{}".format, SIGNS, DIGITS, DIGITS, SIGNS, DIGITS.filter(bool))
    | st.builds("{}{}".format, SIGNS, DIGITS)
    | TEXTS.filter(lambda word: "e" not in word.lower() or len(word) < 7)
)


@pytest.mark.parametrize("declared", ["integer", "decimal"])
@given(words=st.lists(NUMBERS, min_size=2, max_size=12))
def test_numbers_have_one_form_exactly_when_they_are_equal(declared, words):
    check(text_forms, words, declared)


SPELT = [
    "7",
    "7.0",
    "07",
    "+7",
    " 7",
    "70e-1",
    "0.7E1",
    "-7",
    "70",
    "7.5",
    "7_0",
    "x",
    "",
    "\u0667",
]
HUGE = ["9007199254740992", "9007199254740993", "9007199254740993.0", "1e40", "1" + "0" * 40]


def as_text(words, _: str) -> list[bytes | None]:
    """Return the ids by the old rule: their text."""
    return [word.encode() if value_of(word, "decimal") is not None else None for word in words]


def as_float(words, _: str) -> list[bytes | None]:
    known = [value_of(word, "decimal") for word in words]
    return [None if value is None else repr(float(value)).encode() for value in known]


def test_control_texts_would_split_a_person_and_floats_would_merge_two():
    for words in (SPELT, HUGE):
        check(text_forms, words, "decimal")
        check(text_forms, words, "integer")
    with pytest.raises(AssertionError):
        check(as_text, SPELT, "decimal")
    with pytest.raises(AssertionError):
        check(as_float, HUGE, "decimal")


@given(st.lists(st.integers(-(2**63), 2**64 - 1) | st.integers(-3, 300), max_size=8))
def test_an_integer_is_the_same_in_every_type_that_holds_it(numbers):
    exact = text_forms(list(map(str, numbers)), "integer")
    assert exact == [str(number).encode() for number in numbers]
    for kind in INTEGERS:
        low, high = np.iinfo(kind.to_pandas_dtype()).min, np.iinfo(kind.to_pandas_dtype()).max
        held = [n if low <= n <= high else None for n in numbers]
        expected = [
            form if number is not None else None for form, number in zip(exact, held, strict=True)
        ]
        for declared in ("integer", "decimal"):
            assert forms(pa.array(held, kind), declared) == expected
    wide = pa.array([Decimal(number) for number in numbers], pa.decimal128(24, 2))
    assert forms(wide, "integer") == forms(wide, "decimal") == exact
    wider = pa.array([Decimal(number) for number in numbers], pa.decimal256(40, 0))
    assert forms(wider, "integer") == exact


@given(st.lists(st.decimals(-999, 999, places=3), max_size=8))
def test_a_decimal_is_the_same_in_every_type(numbers):
    exact = text_forms(list(map(str, numbers)), "decimal")
    assert forms(pa.array(numbers, pa.decimal128(9, 3)), "decimal") == exact
    assert forms(pa.array(numbers, pa.decimal256(50, 7)), "decimal") == exact
    assert forms(pa.array(list(map(float, numbers))), "decimal") == exact
    whole = [
        form if number == int(number) else None for form, number in zip(exact, numbers, strict=True)
    ]
    assert forms(pa.array(numbers, pa.decimal128(9, 3)), "integer") == whole


@given(st.lists(st.floats() | st.integers(-(2**54), 2**54).map(float), max_size=8))
def test_a_float_is_the_number_that_it_stands_for_and_beyond_2_to_the_53_nobody(numbers):
    texts = [repr(n) if abs(n) <= 2**53 else "" for n in numbers]
    for declared in ("integer", "decimal"):
        assert forms(pa.array(numbers, pa.float64()), declared) == text_forms(texts, declared)


@given(st.lists(st.integers(-(2**25), 2**25) | st.integers(2**24 - 2, 2**24 + 2), max_size=8))
def test_a_narrow_float_beyond_its_integers_is_nobody(numbers):
    held = np.array(numbers, np.float32)
    texts = [str(int(n)) if abs(int(n)) <= 2**24 else "" for n in held]
    assert forms(pa.array(held), "integer") == text_forms(texts, "integer")


@given(st.lists(st.integers(-(2**13), 2**13) | st.integers(2**11 - 2, 2**11 + 3), max_size=8))
def test_a_half_beyond_its_integers_is_nobody(numbers):
    held = np.array(numbers, np.float16)
    expected = text_forms([str(int(n)) if abs(int(n)) <= 2**11 else "" for n in held], "integer")
    halves = pa.array(held)
    assert forms(halves, "integer") == expected
    assert forms(halves.dictionary_encode(), "integer") == expected
    assert forms(pa.chunked_array([halves]).combine_chunks(), "decimal") == expected
    gap = pa.concat_arrays([halves, pa.nulls(1, halves.type)])
    assert forms(gap, "integer") == [*expected, None]


NEAR = st.sampled_from([2.0**11, 2.0**24, 2.0**53]).flatmap(
    lambda most: st.sampled_from([most - 1, most, most + 1, most + 2, -most - 2, 2 * most])
)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@given(numbers=st.lists(st.floats() | NEAR | st.sampled_from([0.1, 7.5, 1e20]), max_size=8))
def test_a_float_is_the_same_id_in_a_column_of_floats_and_as_an_object(kind, numbers):
    with np.errstate(over="ignore"):
        held = np.array(numbers, kind)
    for declared in ("integer", "decimal"):
        column = forms(pa.array(held), declared)
        assert forms(texts_of(held, ids=True), declared) == column
        assert forms(texts_of(map(np.array, held), ids=True), declared) == column
        if kind is np.float64:
            assert forms(texts_of(numbers, ids=True), declared) == column


def test_control_as_features_objects_keep_floats_that_are_no_ids():
    cells = [1e20, np.float32(2**24 + 2), np.float16(2**11 + 2)]
    assert None not in forms(texts_of(cells), "integer")
    assert forms(texts_of(cells, ids=True), "integer") == [None] * 3


@pytest.mark.parametrize("declared", ["integer", "decimal"])
def test_what_is_written_exactly_is_an_id_of_any_size(declared):
    exact = [10**20, Decimal("1e20"), "1e20", b"100000000000000000000", np.str_("1e20")]
    assert forms(texts_of(exact, ids=True), declared) == [b"1" + b"0" * 20] * 5
    whole = [2**53 + 1, np.int64(2**53 + 1), np.array(2**53 + 1)]
    assert forms(texts_of(whole, ids=True), declared) == [b"%d" % (2**53 + 1)] * 3


def test_a_large_float_has_no_digits_that_could_be_a_uuid_or_a_text():
    """Its whole digits would be 32, as for many others."""
    cells = texts_of([1.1111111111111111e31, float("inf")], ids=True)
    assert forms(cells, "uuid") == forms(cells, "text") == [None, None]
    assert forms(texts_of([1.1111111111111111e31]), "uuid") != [None]


TRUTHS = [True, np.bool_(True), "True", "true", False, "FALSE"]


def test_a_truth_value_is_no_number_as_an_id():
    for declared in ("integer", "decimal", "uuid"):
        assert forms(texts_of(TRUTHS, ids=True), declared) == [None] * len(TRUTHS)


def persons(data, declared: str = "integer", where: tuple[str, ...] = ()) -> int:
    """Return the number of persons in a table of an id and a number."""
    columns = {"id": {"kind": "ignored"}, "n": numeric(0, 10)}
    unit = {"column": "id", "type": declared, "max_rows": 1}
    schema = Schema.parse({"columns": columns, "unit": unit, "where": {"id": "number"}})
    rows = open_rows(data, schema, Conditions.parse(where, schema))
    return rows.second_moments()[0].unit_count


def test_a_large_float_is_nobody_in_every_source_of_python_and_a_number_as_a_feature():
    cells = [2.0**53, 2.0**53 + 2, 1e20, 7.0]
    rows = [[cell, 1] for cell in cells]
    frame = pd.DataFrame({"id": pd.Series(cells, dtype=object), "n": 1})
    mixed = pd.DataFrame({"id": pd.Series([*cells, "x"], dtype=object).astype("category"), "n": 1})
    for data in (rows, np.array(rows), np.array(rows, object), frame, mixed):
        assert persons(data) == 2
        assert persons(data, where=("id > 6",)) == 2
    assert same(
        moment(frame[["id"]], schema_of("id", upper=1e21)),
        moment(pa.table({"id": cells}), schema_of("id", upper=1e21)),
    )


def test_ids_of_a_masked_array_are_as_exact_as_they_came():
    rows = np.array([[2**53, 1], [2**53 + 1, 1], [7, 1]])
    masked = np.ma.masked_equal(rows, 7)
    assert persons(masked) == 2


@pytest.mark.parametrize("declared", ["integer", "decimal", "text"])
def test_an_array_of_truth_values_holds_no_ids(declared):
    with pytest.raises(SourceError, match="has the type bool, but the schema declares"):
        persons(np.ones((3, 2), bool), declared)


@pytest.mark.parametrize("declared", ["integer", "decimal"])
def test_numbers_of_any_length_and_size_are_read_exactly_and_soon(declared):
    long = MAX_CELL_BYTES - 9
    words = [
        "1e999999999",
        "10e999999998",
        "-1e999999999",
        "1" + "0" * 999,
        "1e999",
        "9" * long,
        "9" * long + ".0",
        "9" * (long - 1) + "8",
        "0" * long + "7",
        "7",
        "7e" + "0" * long,
        "7." + "0" * long,
        "7." + "0" * (long - 1) + "x",
        "e" * long,
        "9" * long + "e1x",
        "." * long,
    ]
    begun = time.process_time()
    found = text_forms(words, declared)
    assert time.process_time() - begun < 2
    classes = [[0, 1], [2], [3, 4], [5, 6], [7], [8, 9, 10, 11]]
    assert [found.index(form) for form in found[:12]] == [
        same[0] for at in range(12) for same in classes if at in same
    ]
    assert found[12:] == [None] * 4


def test_an_exponent_of_ten_digits_is_nobody_and_so_is_a_text_beyond_the_cap():
    assert text_forms(["1e1000000000", "0e1000000000", "1e0999999999"], "decimal") == [
        None,
        None,
        b"1e999999999",
    ]
    for declared in ("integer", "decimal", "uuid", "text"):
        assert text_forms(["7" * (MAX_CELL_BYTES + 1)], declared) == [None]
    assert text_forms(["7" * MAX_CELL_BYTES], "text") == [b"7" * MAX_CELL_BYTES]
    for kind in (pa.binary(), pa.large_binary(), pa.binary(MAX_CELL_BYTES + 1)):
        assert forms(pa.array([b"7" * (MAX_CELL_BYTES + 1)], kind), "text") == [None]


@pytest.mark.parametrize("digits", range(37, 42))
def test_an_integer_is_one_form_where_the_way_of_writing_it_changes(digits):
    for head in ("7", "12345678901234567890123456789012345678"[: digits - 1]):
        zeros = digits - len(head)
        whole = head + "0" * zeros
        words = [whole, f"+{whole}", f"{whole}.0", f"{head}e{zeros}", f"0{head}E+{zeros}"]
        assert len(set(text_forms(words, "integer"))) == 1
        assert len(set(text_forms([*words, f"-{whole}"], "integer"))) == 2


HEX = st.binary(min_size=16, max_size=16)


def spelt_uuids(number: uuid.UUID) -> list[str]:
    plain = [str(number), number.hex, f"{{{number}}}", number.urn, f"  {number}\t"]
    return [*plain, *(word.upper() for word in plain if not word.startswith("urn"))]


@given(HEX, HEX)
def test_every_spelling_of_a_uuid_is_one_and_two_uuids_are_two(one, other):
    words = spelt_uuids(uuid.UUID(bytes=one))
    assert set(text_forms(words, "uuid")) == {one.hex().encode()}
    for kind in (pa.uuid(), pa.binary(16)):
        found = forms(pa.array([one, None, other], kind), "uuid")
        assert found == [one.hex().encode(), None, other.hex().encode()]


ALMOST = st.text("0123456789abcdefABCDEF-{}urn:id ", min_size=28, max_size=46)


@given(ALMOST | HEX.map(bytes.hex).flatmap(lambda word: st.permutations(word).map("".join)))
def test_what_python_does_not_take_for_a_uuid_is_none(word):
    (form,) = text_forms([word], "uuid")
    if form is not None:
        assert uuid.UUID(word.strip()).hex.encode() == form


def test_control_cut_or_lengthened_uuids_are_none():
    word = str(uuid.UUID(int=5))
    odd = [word[:-1], word + "0", word.replace("-", "", 1), "{" + word, word + "}", "g" + word[1:]]
    assert text_forms(odd, "uuid") == [None] * 6


@given(st.lists(st.binary(max_size=4) | st.sampled_from([b" a", b"a", b"a ", b"\xff"]), max_size=8))
def test_texts_are_compared_byte_by_byte_in_every_type(words):
    assert forms(invalid_utf8(words), "text") == words
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        assert forms(pa.array(words, kind), "text") == words
    assert forms(pa.array([b"ab", b"ba"], pa.binary(2)), "text") == [b"ab", b"ba"]


@given(
    st.lists(st.none() | spellings(), max_size=9), st.sampled_from(["integer", "decimal", "text"])
)
def test_dictionaries_views_and_runs_hold_the_same_ids(words, declared):
    plain = pa.array(words, pa.string())
    expected = forms(plain, declared)
    assert forms(plain.cast(pa.large_string()), declared) == expected
    assert forms(pa.array(words, pa.string_view()), declared) == expected
    assert forms(plain.dictionary_encode(), declared) == expected
    backwards = pa.array(range(len(words))[::-1], pa.int16())
    turned = pa.DictionaryArray.from_arrays(backwards, plain.take(backwards))
    assert forms(turned, declared) == expected
    runs = pa.RunEndEncodedArray.from_arrays(
        pa.array([2 * (k + 1) for k in range(len(words))], pa.int32()), plain
    )
    assert forms(runs, declared) == [form for form in expected for _ in range(2)]
    assert forms(runs[1:], declared) == [form for form in expected for _ in range(2)][1:]


@given(
    st.integers(1, 6).flatmap(arrow_columns),
    st.sampled_from(["integer", "decimal", "uuid", "text"]),
    st.sampled_from([(), ("",), ("", "NA", "-999"), ("0", "true")]),
)
def test_an_id_depends_on_its_cell_alone(column, declared, missing):
    try:
        refuse_unfit("id", unwrapped(column.type), declared, {})
    except SourceError:
        return
    whole = forms(column, declared, missing)
    assert whole == [forms(column[at : at + 1], declared, missing)[0] for at in range(len(column))]


def test_what_is_declared_missing_is_nobody():
    words = ["NA", "-999", "-999.0", " -9.99e2", "7", ""]
    assert forms(pa.array(words), "integer", ("NA", "-999", "")) == [None] * 4 + [b"7", None]
    assert forms(pa.array(words), "text", ("NA", "-999", "")) == [None] * 4 + [b"7", None]
    assert forms(pa.array([-999, 7]), "integer", ("-999",)) == [None, b"7"]
    assert forms(pa.array([-999.0, 7.0]), "decimal", ("-999",)) == [None, b"7"]


KEY = bytes(range(32))
LONG = st.integers(28, 36).flatmap(lambda n: st.sampled_from([b"x" * n, b"x" * (n - 1) + b"y"]))
WORDS = st.binary(max_size=4) | st.binary(min_size=30, max_size=70) | LONG
PADDED = [
    b"",
    b"\0",
    b"a",
    b"a\0",
    b"a\0\0",
    *(b"a" * n for n in (30, 31, 32, 33)),
    b"a" * 31 + b" ",
]


@given(st.lists(WORDS, max_size=12), st.integers(0, 3))
def test_records_are_equal_exactly_when_ids_are(words, cut):
    words = [*PADDED, *words]
    found = records(pa.array(words, pa.large_binary()), KEY)
    assert found.dtype.itemsize == ID_BYTES
    content = [record.tobytes() for record in found]
    assert len(set(content)) == len(set(words))
    assert len(set(zip(content, words, strict=True))) == len(set(words))
    part = records(pa.array(words, pa.large_binary())[cut:], KEY)
    assert [record.tobytes() for record in part] == content[cut:]


def test_control_padding_alone_would_merge_ids():
    assert len({word.ljust(ID_BYTES, b"\0")[:ID_BYTES] for word in PADDED}) < len(PADDED)


def test_records_hide_ids_and_no_two_keys_give_the_same():
    ids = pa.array([b"Ada S3CRET", b"x" * 40], pa.large_binary())
    first, second = records(ids, KEY), records(ids, KEY[::-1])
    assert b"S3CRET" not in first.tobytes()
    assert not set(first.tolist()) & set(second.tolist())
    assert len(records(ids[:0], KEY)) == 0


HELD = [
    *((kind, "text") for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())),
    *((kind, "text") for kind in (pa.binary(2), pa.null())),
    *((kind, "uuid") for kind in (pa.string(), pa.binary(16), pa.null())),
    *((kind, "integer") for kind in (pa.string(), pa.int8(), pa.float32(), pa.decimal128(9, 3))),
]


@pytest.mark.parametrize(("kind", "declared"), HELD, ids=str)
def test_a_type_that_holds_such_ids_is_taken(kind, declared):
    refuse_unfit("id", kind, declared, {})


REFUSED = [
    (pa.int64(), "text", 'Set type = "integer" in [unit]'),
    (pa.float64(), "uuid", 'Set type = "integer" in [unit]'),
    (pa.bool_(), "integer", "Convert the column to text"),
    (pa.bool_(), "text", "Convert the column to text"),
    (pa.date32(), "text", "Convert the column to text"),
    (pa.timestamp("us"), "integer", "Convert the column to text"),
    (pa.duration("s"), "decimal", "Convert the column to text"),
    (pa.binary(), "uuid", "Convert the column to text"),
    (pa.binary(15), "uuid", "Convert the column to text"),
    (pa.binary(), "integer", "Convert the column to text"),
    (pa.list_(pa.int64()), "text", "Convert the column to text"),
]


@pytest.mark.parametrize(("kind", "declared", "words"), REFUSED, ids=str)
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_type_that_holds_no_such_ids_is_refused_before_any_cell_is_read(
    kind, declared, words, wrapped
):
    """The stream fails at its first batch."""

    def broken():
        raise ValueError("read")
        yield

    held = pa.dictionary(pa.int32(), kind) if wrapped else kind
    fields = pa.schema([("a", pa.float64()), ("id", held)])
    schema = schema_of("a", unit={"column": "id", "type": declared, "max_rows": 1})
    with pytest.raises(SourceError) as reported:
        open_rows(pa.RecordBatchReader.from_batches(fields, broken()), schema)
    assert str(reported.value) == (
        f"The id column 'id' has the type {kind}, but the schema declares {declared}. {words}."
    )


def test_an_id_without_a_declared_type_is_refused():
    with pytest.raises(ValueError, match="declares no type of ids"):
        canonical(pa.array(["x"]), None, ())
    schema = schema_of("a", unit={"column": "id", "max_rows": 1})
    with pytest.raises(SourceError, match=r"\[unit\] has no type\. Add type = "):
        open_rows(pa.table({"a": [1.0], "id": ["x"]}), schema)


def test_a_column_whose_source_does_not_distinguish_ids_is_refused():
    unfit = {"id": "its collation calls different texts equal"}
    with pytest.raises(SourceError, match="'id' cannot identify persons: its collation"):
        refuse_unfit("id", pa.string(), "text", unfit)
    refuse_unfit("other", pa.string(), "text", unfit)
