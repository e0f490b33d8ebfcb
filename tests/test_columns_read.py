"""The column that is asked for is read, and no other; each of its cells by itself."""

from __future__ import annotations

import datetime
import enum
import struct
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpcov
from dpcov import Ledger, PureDP
from dpcov.errors import SourceError
from dpcov.rows.cells import numbers_of, values_of
from dpcov.rows.schema import Schema
from dpcov.rows.sources import arrow, open_rows, open_source
from dpcov.rows.sources.conditions import Conditions
from dpcov.rows.sources.objects import texts_of
from dpcov.rows.sources.training import training_table

NUMBER = {"kind": "number", "lower": 0, "upper": 100}
DATE = {"kind": "date", "lower": "1500-01-01", "upper": "9999-12-31"}


def schema_of(columns: dict[str, object], **fields: object) -> Schema:
    return Schema.parse({"version": 2, "columns": columns, **fields})


def read(data: object, name: str, schema: Schema) -> list[float | None]:
    source = open_source(data, schema.file, tuple(schema.columns))
    column = schema.read_columns[name]
    batches = [batch.column(name) for batch in source.batches([name])]
    found = np.concatenate([values_of(one, column, schema.missing) for one in batches])
    return [None if np.isnan(cell) else float(cell) for cell in found]


# Parquet: by the place of a leaf.

TABLES = {
    "a struct before": {"p": pa.array([{"a": 1.0, "b": 2.0}] * 2), "p.a": [10.0, 20.0]},
    "a struct behind": {"p.a": [10.0, 20.0], "p": pa.array([{"a": 1.0}] * 2)},
    "a struct of structs": {"p": pa.array([{"a": {"p.a": 1.0}}] * 2), "p.a": [10.0, 20.0]},
    "a list": {"p": pa.array([{"a": [1.0]}, None]), "p.a": [10.0, 20.0]},
    "a map": {
        "p": pa.array([[("k", 1.0)], None], pa.map_(pa.string(), pa.float64())),
        "p.key_value.value": [3.0, 4.0],
        "p.a": [10.0, 20.0],
    },
    "names of lists": {
        "p": pa.array([[1.0], [2.0]]),
        "p.list.element": [5.0, 6.0],
        "p.a": [10.0, 20.0],
    },
    "a plain column": {"p": [1.0, 2.0], "p.a": [10.0, 20.0]},
}


@pytest.fixture(params=["small groups", "streamed"])
def reading(request, monkeypatch):
    if request.param == "streamed":
        monkeypatch.setattr(arrow, "SMALL_GROUP_ROWS", 0)


@pytest.mark.parametrize("name", TABLES)
def test_a_column_beside_a_struct_whose_path_is_its_name_is_read(tmp_path, reading, name):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(TABLES[name]), path)
    schema = schema_of({"p.a": NUMBER})
    assert read(path, "p.a", schema) == [10.0, 20.0]
    wanted = Conditions.parse('"p.a" > 15', schema_of({"x": NUMBER}, where={"p.a": "number"}))
    assert open_rows(path, schema, wanted, threads=1).second_moments()[0].unit_count == 1
    unit = {"column": "p.a", "type": "integer", "max_rows": 1}
    persons = schema_of({"q": NUMBER}, unit=unit)
    pq.write_table(pa.table(TABLES[name]).append_column("q", pa.array([1.0, 2.0])), path)
    assert open_rows(path, persons, threads=1).second_moments()[0].unit_count == 2


def test_control_by_its_name_another_column_is_read_too(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(TABLES["a struct before"]), path)
    read = pq.ParquetFile(path).read_row_group(0, columns=["p.a"])
    assert read.column_names == ["p", "p.a"]
    assert read.column(0).to_pylist() == [{"a": 1.0}] * 2


# Parquet: timestamps of 12 bytes.

EPOCH = 2440588  # Julian day of 1970-01-01
DAYS = [2932896, 13150, -135140, 0]


def int96_file(path: Path, days: list[int], nanoseconds: list[int] | None = None) -> Path:
    """Write a file of one INT96 column; its cells are written byte by byte."""
    marks = [np.datetime64(18263 + at, "D") for at in range(len(days))]
    table = pa.table({"d": pa.array(np.array(marks).astype("datetime64[ns]"))})
    pq.write_table(
        table,
        path,
        use_deprecated_int96_timestamps=True,
        use_dictionary=False,
        compression="none",
        write_statistics=False,
    )
    content = bytearray(path.read_bytes())
    for at, (day, rest) in enumerate(zip(days, nanoseconds or [0] * len(days), strict=True)):
        here = content.find(struct.pack("<Qi", 0, EPOCH + 18263 + at))
        assert here > 0
        marked = struct.pack("<Q", rest) + struct.pack("<I", (EPOCH + day) % 2**32)
        content[here : here + 12] = marked
    path.write_bytes(content)
    return path


def test_int96_keeps_years_from_1_to_9999(tmp_path, reading):
    path = int96_file(tmp_path / "d.parquet", [*DAYS, -719162, -719163, 2932897])
    expected = [*DAYS, -719162, None, None]
    assert read(path, "d", schema_of({"d": DATE})) == expected
    days = pq.read_table(path)["d"].cast(pa.int64()).to_numpy() // (86_400 * 10**9)
    assert days[0] != DAYS[0]  # control: nanoseconds wrap around


def test_int96_keeps_microseconds(tmp_path, reading):
    path = int96_file(tmp_path / "t.parquet", [0, 2932896], [5_000, 86_399_999_999_000])
    time = {"kind": "time", "lower": "1970-01-01T00:00:00", "upper": "9999-12-31T23:59:59"}
    schema = schema_of({"d": time})
    asked = Conditions.parse("d > '9999-12-31T23:59:59.999998'", schema)
    assert open_rows(path, schema, asked, threads=1).second_moments()[0].unit_count == 1
    asked = Conditions.parse("d = '1970-01-01T00:00:00.000005'", schema)
    assert open_rows(path, schema, asked, threads=1).second_moments()[0].unit_count == 1


FAR = [
    (2**31 - 1 - EPOCH, 0),
    (-EPOCH - 1, 0),
    (-EPOCH - 2**31, 0),
    (2**31 - 1 - EPOCH, 2**63),
    (int(2**64 / 86_400e6), 0),  # microseconds would wrap around to about 1970
    (int(2**64 / 86_400e6) + 18263, 0),
]


@pytest.mark.parametrize("far", FAR)
def test_an_int96_cell_of_no_year_is_missing_and_changes_no_other(tmp_path, reading, far):
    path = int96_file(tmp_path / "d.parquet", [13150, far[0], 0], [0, far[1], 0])
    assert read(path, "d", schema_of({"d": DATE})) == [13150, None, 0]


def test_an_int96_cell_is_read_alone_as_in_company(tmp_path, reading):
    days = [day for day, _ in FAR] + DAYS
    schema = schema_of({"d": DATE})
    together = read(int96_file(tmp_path / "all.parquet", days), "d", schema)
    alone = [read(int96_file(tmp_path / "one.parquet", [day]), "d", schema)[0] for day in days]
    assert together == alone


# Columns of types that Arrow lacks.

ROWS = 20
ODD = {
    "sparse": pd.Series([0, 1] * 10, dtype="Sparse[int]"),
    "complex": pd.Series([1j] * ROWS),
    "long double": pd.Series(np.ones(ROWS, np.longdouble)),
    "categories of complex": pd.Series([1j, 2] * 10).astype("category"),
    "period": pd.Series(pd.period_range("2020-01", periods=ROWS, freq="M")),
    "categories of periods": pd.Series(pd.period_range("2020", periods=ROWS, freq="Y")).astype(
        "category"
    ),
    "interval": pd.Series(pd.interval_range(0, ROWS)),
    "cut": pd.cut(pd.Series(range(ROWS)), 2),
    "time": pd.Series(pd.to_timedelta(range(ROWS))),
    "struct": pd.Series([{"a": 1}] * ROWS, dtype=pd.ArrowDtype(pa.struct([("a", pa.int8())]))),
}
POLARS = {
    "Int128": pl.Series([1] * ROWS, dtype=pl.Int128),
    "UInt128": pl.Series([1] * ROWS, dtype=pl.UInt128),
    "Object": pl.Series([object()] * ROWS, dtype=pl.Object),
    "List": pl.Series([[1]] * ROWS),
}
A = schema_of({"a": {"kind": "number", "lower": 0, "upper": 1}})


def frames(name: str) -> object:
    if name in POLARS:
        return pl.DataFrame([pl.Series("a", [0.5] * ROWS), POLARS[name].alias("odd")])
    return pd.DataFrame({"odd": ODD[name], "a": [0.5] * ROWS})


def type_of(name: str) -> str:
    reported = {
        "period": "pandas.period",
        "categories of periods": "pandas.period",
        "time": "duration",
    }
    reported |= {"interval": "pandas.interval", "cut": "pandas.interval", "List": "large_list"}
    reported |= {"long double": str(np.dtype(np.longdouble)), "categories of complex": "complex128"}
    return reported.get(name) or {"sparse": "Sparse[int64", "complex": "complex128"}.get(name, name)


@pytest.mark.parametrize("name", [*ODD, *POLARS])
def test_an_undeclared_column_of_any_type_refuses_nothing(name):
    rows = open_rows(frames(name), A, threads=1)
    assert rows.second_moments()[0].unit_count == ROWS
    plain = open_rows(pd.DataFrame({"a": [0.5] * ROWS}), A, threads=1)
    assert (rows.second_moments()[0].units == plain.second_moments()[0].units).all()


@pytest.mark.parametrize("name", [*ODD, *POLARS])
def test_a_declared_one_is_refused_by_name_and_type_before_anything_is_spent(name, tmp_path):
    ledger = Ledger.create(tmp_path / "l.ledger", PureDP(4.0))
    odd = {"odd": {"kind": "number", "lower": 0, "upper": 1}}
    roles = [
        ({"schema": schema_of(odd)}, {}),
        (
            {
                "schema": schema_of(
                    {**A.columns, "g": {"kind": "ignored"}}, weight={"column": "odd", "maximum": 1}
                )
            },
            {},
        ),
        (
            {
                "schema": schema_of(
                    dict(A.columns), unit={"column": "odd", "type": "text", "max_rows": 1}
                )
            },
            {},
        ),
        ({"schema": schema_of(dict(A.columns), where={"odd": "number"})}, {"where": ["odd > 0"]}),
    ]
    for schema, others in roles:
        with pytest.raises(SourceError) as reported:
            dpcov.release(frames(name), **schema, **others, epsilon=1.0, ledger=ledger)
        assert "'odd'" in str(reported.value)
        if "unit" not in str(reported.value):
            assert type_of(name).lower() in str(reported.value).lower() or "struct<" in str(
                reported.value
            )
    assert not ledger.account().entries


def test_columns_of_polars_are_found_by_their_very_names():
    frame = pl.DataFrame({"^a$": [1], "a": [2], "": [3]})
    source = open_source(frame, A.file, ())
    assert [batch.to_pydict() for batch in source.batches(["", "^a$"])] == [{"": [3], "^a$": [1]}]
    assert [batch.num_rows for batch in source.batches([])] == [1]


# Objects of Python.


class Raising(float):
    """A number that fails at whatever it is asked."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("S3CRET")

    __ne__ = __lt__ = __gt__ = __bool__ = __str__ = __repr__ = is_integer = __eq__  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


class Text(str):
    """A text that encodes itself as it likes."""

    def encode(self, *_: object, **__: object) -> bytes:
        return 5  # type: ignore[return-value]

    __str__ = __len__ = encode  # type: ignore[assignment]


class Half(str):
    def encode(self, *_: object, **__: object) -> object:  # type: ignore[override]
        return self

    def decode(self) -> str:
        raise ValueError("S3CRET")


class Bytes(bytes):
    def decode(self, *_: object, **__: object) -> str:
        raise ValueError("S3CRET")


class Nan(Decimal):
    def is_nan(self) -> bool:
        raise ValueError("S3CRET")


class Whole(int):
    def __str__(self) -> str:
        raise ValueError("S3CRET")


class Liar:
    """An object that is of no class that it says."""

    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise ValueError("S3CRET")

    __array__ = __len__ = __iter__ = __str__ = __bool__ = __eq__ = __class__.fget  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


class Color(enum.Enum):
    RED = 1


class Grade(enum.IntEnum):
    ONE = 1


EAST = datetime.timezone(datetime.timedelta(hours=14))
OBJECTS = [
    *(
        Decimal("sNaN"),
        Decimal("-sNaN12"),
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal("1e999999"),
    ),
    *(Raising(0.5), Text("0.5"), Half("0.5"), Bytes(b"0.5"), Nan("0.5"), Whole(1), Liar()),
    *(Color.RED, Grade.ONE, Fraction(1, 2), Fraction(10**5000, 3), 10**5000, -(10**400), 2**64),
    *("\ud800", "0.5\udfff", b"\xff", complex("nan"), 1 + 2j, np.float32(0.5), np.float16(0.5)),
    *(np.longdouble("1e4000"), np.int8(1), np.bool_(True), np.str_("0.5"), np.bytes_(b"0.5")),
    *(np.datetime64("NaT"), np.timedelta64("NaT"), pd.NaT, pd.NA, np.ma.masked, None, np.nan),
    *(datetime.datetime(1, 1, 1, tzinfo=EAST), datetime.datetime(9999, 12, 31), datetime.date.min),
    *(pd.Timestamp("2020-01-01", tz="Asia/Tokyo"), pd.Timestamp("2020-01-01"), pd.Period("2020")),
    *(pd.Interval(0, 1), pd.Series([1, 2]), pd.DataFrame(), np.array([1, 2]), np.array(0.5)),
    *([], [1], {}, set(), type, print, memoryview(b"1"), bytearray(b"1"), range(3), np.void(b"x")),
]


def column_of(objects: list[object]) -> pd.DataFrame:
    cells = np.empty(len(objects), object)
    for at, one in enumerate(objects):
        cells[at] = one
    return pd.DataFrame({"a": pd.Series(cells, dtype=object)})


TABLES_OF_OBJECTS = {
    "pandas": column_of,
    "array": lambda objects: column_of(objects).to_numpy(),
    "list": lambda objects: [[one] for one in objects],
    "masked": lambda objects: np.ma.array(column_of(objects).to_numpy(), mask=False),
    "fit": lambda objects: training_table([[one] for one in objects], names=("a",)),
}
KINDS = {
    "number": NUMBER,
    "levels": {
        "kind": "categorical",
        "levels": ["x", 0.5],
        "other": True,
        "missing": "level",
    },
    "flag": {"kind": "flag", "missing": "level"},
    "date": DATE,
}


@pytest.mark.parametrize("table", TABLES_OF_OBJECTS)
@pytest.mark.parametrize("kind", KINDS)
def test_any_object_of_python_is_read_alone_as_in_company(table, kind):
    schema = schema_of({"a": KINDS[kind]})
    whole = open_rows(TABLES_OF_OBJECTS[table](OBJECTS), schema, threads=1).second_moments()[0]
    assert whole.unit_count == len(OBJECTS)
    units = 0
    for one in OBJECTS:
        units += (
            open_rows(TABLES_OF_OBJECTS[table]([one]), schema, threads=1).second_moments()[0].units
        )
    assert (whole.units == units).all()


def test_what_has_no_text_is_missing_and_so_is_what_is_no_number():
    found = dict(zip(map(id, OBJECTS), texts_of(OBJECTS).to_pylist(), strict=True))
    absent = [*OBJECTS[:3], complex("nan"), Liar(), Raising(1.0), Whole(2), 10**5000]
    assert texts_of(absent).to_pylist() == [None] * len(absent)
    assert all(found[id(one)] is None for one in OBJECTS[:3])
    assert texts_of([Text("0.5"), Half("0.5"), Bytes(b"0.5")]).to_pylist() == ["0.5"] * 3


def test_one_object_ends_no_release_and_changes_no_spend(tmp_path):
    for at, odd in enumerate([0.5, Decimal("sNaN"), Raising(0.5), Liar()]):
        ledger = Ledger.create(tmp_path / f"{at}.ledger", PureDP(1.0))
        table = column_of([0.25] * 50 + [odd, "x"])
        made = dpcov.release(table, schema=schema_of({"a": NUMBER}), epsilon=1.0, ledger=ledger)
        assert made.columns == ("a",)
        assert len(ledger.account().entries) == 1


def test_control_pandas_itself_fails_at_one_object():
    with pytest.raises((TypeError, ArithmeticError)):
        column_of([0.5, Decimal("sNaN")])["a"].isna()


def test_a_narrow_float_among_objects_is_the_one_of_its_own_type():
    cells = texts_of([np.float32(999.9), np.float16(0.1), np.float32(2**24), np.float64(0.1)])
    assert cells.to_pylist() == ["999.9", "0.1", "16777216", "0.1"]
    assert np.isnan(numbers_of(cells, ("999.9",))).tolist() == [True, False, False, False]


def test_a_masked_cell_of_objects_is_missing_and_no_level():
    schema = schema_of({"a": KINDS["levels"]})
    masked = np.ma.array(np.array([["x"], ["y"]], object), mask=[[False], [True]])
    reported = open_rows(masked, schema, threads=1).second_moments()[0]
    plain = open_rows([["x"], [None]], schema, threads=1).second_moments()[0]
    assert (reported.units == plain.units).all()


class Length(pd.api.extensions.ExtensionDtype):
    name = "length"
    type = object

    @classmethod
    def construct_array_type(cls) -> type:
        return NormHistogram


class NormHistogram(pd.api.extensions.ExtensionArray):
    """A column of another library's type, one of whose cells can't be made an object."""

    def __init__(self, cells: list[object]) -> None:
        self._cells = cells

    dtype = property(lambda self: Length())
    nbytes = 0

    def __len__(self) -> int:
        return len(self._cells)

    def __getitem__(self, at: object) -> object:
        if isinstance(at, slice):
            return NormHistogram(self._cells[at])
        if self._cells[at] == "S3CRET":  # type: ignore[call-overload]
            raise ValueError("S3CRET")
        return self._cells[at]  # type: ignore[call-overload]

    def isna(self) -> object:
        raise ValueError("S3CRET")

    @classmethod
    def _from_sequence(
        cls, scalars: object, *, dtype: object = None, copy: bool = False
    ) -> NormHistogram:
        return cls(list(scalars))  # type: ignore[call-overload]

    def copy(self) -> NormHistogram:
        return NormHistogram(self._cells)


def test_a_column_of_another_library_s_type_is_read_cell_by_cell():
    frame = pd.DataFrame({"a": NormHistogram([1.5, "S3CRET", "2.5", Decimal("sNaN")])})
    source = open_source(frame, A.file, ())
    assert source.types == {"a": pa.large_string()}
    (batch,) = source.batches(["a"])
    assert batch.column(0).to_pylist() == ["1.5", None, "2.5", None]
