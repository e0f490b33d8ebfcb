"""Hypothesis strategies and small builders that several test files share."""

import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from dpcov.rows.encoder import Encoder
from dpcov.rows.moment import Lattice, LinearMap, SecondMoment
from dpcov.rows.schema import MAX_BOUNDS_ERROR, Schema, level_text
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.array import ArraySource


def numeric(lower=-1.0, upper=1.0, **fields) -> dict:
    return {"kind": "numeric", "lower": lower, "upper": upper, **fields}


def categorical(*levels, **fields) -> dict:
    return {"kind": "categorical", "levels": levels, **fields}


def schema_of(*names: str, lower=0.0, upper=10.0, **fields) -> Schema:
    """Return a schema of numeric columns."""
    return Schema.from_bounds(lower, upper, names, **fields)


def lattice_of(schema: Schema, linear_map: LinearMap | None = None) -> Lattice:
    return Lattice.of(schema, features=None if linear_map is None else len(linear_map.integers))


def encode(table: pa.Table, schema: Schema, linear_map: LinearMap | None = None) -> np.ndarray:
    """Return (rows, dimension) integer rows of a table, as floats."""
    lattice = lattice_of(schema, linear_map)
    encoder = Encoder(schema, lattice, linear_map)
    blocks = [b.T.copy() for batch in table.to_batches() for b in encoder.blocks(batch)]
    return np.concatenate([np.empty((0, lattice.dimension)), *blocks])


def moment(data, schema: Schema, *, threads: int = 1, **query) -> SecondMoment:
    return open_rows(data, schema, threads=threads).second_moments(**query)[0]


def file_moment(path: Path, content: bytes | str, schema: Schema) -> SecondMoment:
    """Return the moment of a file with this content."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return moment(path, schema)


class ComesOnce(ArraySource):
    """An array of numbers that can be read once."""

    repeatable = False

    def batches(self, columns):
        assert "read" not in vars(self), "a second reading"
        self.read = True
        return super().batches(columns)


def squared_norms(rows: np.ndarray) -> list[int]:
    """Return squared norms of integer-valued rows, in Python integers."""
    return [sum(int(x) ** 2 for x in row) for row in rows]


def gram(rows: np.ndarray) -> np.ndarray:
    """Return the Gram matrix of integer-valued rows, in Python integers."""
    integers = rows.astype(np.int64).astype(object)
    if not len(integers):
        return np.zeros((rows.shape[1],) * 2, object)
    return integers.T @ integers


def same(left: SecondMoment, right: SecondMoment) -> bool:
    return left.unit_count == right.unit_count and bool((left.units == right.units).all())


def row_between(more: SecondMoment, fewer: SecondMoment) -> list[int] | None:
    """Return the integer row w with `more` - `fewer` = w w^T, or None."""
    change = more.units - fewer.units
    t = more.lattice.intercept_units
    row = [x // t for x in change[-1]]
    certified = sum(x * x for x in row) <= more.lattice.bound
    return row if certified and (change == np.outer(row, row)).all() else None


ODD_TEXTS = "-999 -999.0 NA 1 1.0 +1e3 1e999 -1e-999 nan inf 0x10 1_000 true True ٣ a + . -.5"
TEXTS = st.one_of(
    st.sampled_from([*ODD_TEXTS.split(), "", " 5 ", "\xa05", "5\n", "9" * 400]),
    st.text(max_size=8),
    st.floats().map(repr),
    st.integers().map(str),
)
FLOATS = st.one_of(
    st.floats(),
    st.sampled_from([0.0, -0.0, 1e308, -1e308, 5e-324, float("nan"), float("inf"), -999.0]),
)
INTEGERS = {
    kind: st.integers(
        int(np.iinfo(kind.to_pandas_dtype()).min), np.iinfo(kind.to_pandas_dtype()).max
    )
    for kind in [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()]
}
DECIMALS = st.decimals(-(10**5), 10**5, places=2, allow_nan=False).map(Decimal)
KINDS = {
    **INTEGERS,
    pa.float16(): st.floats(width=16),
    pa.float32(): st.floats(width=32),
    pa.float64(): FLOATS,
    pa.bool_(): st.booleans(),
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.string_view(): TEXTS,
    pa.dictionary(pa.int8(), pa.string()): TEXTS,
    pa.dictionary(pa.int32(), pa.int64()): st.integers(-5, 5),
    pa.decimal128(9, 2): DECIMALS,
    pa.decimal256(40, 2): DECIMALS,
    pa.timestamp("us"): st.integers(-(2**40), 2**40),
    pa.date32(): st.integers(-9999, 9999),
    pa.duration("s"): st.integers(0, 99),
    pa.null(): st.none(),
    pa.list_(pa.int64()): st.lists(st.integers(0, 3), max_size=2),
    pa.struct({"a": pa.int64()}): st.fixed_dictionaries({"a": st.integers(0, 3)}),
    pa.binary(): st.binary(max_size=3),
    pa.binary_view(): st.binary(max_size=3),
    pa.uuid(): st.binary(min_size=16, max_size=16),
}


def invalid_utf8(cells: list[bytes | None]) -> pa.Array:
    """Return a string array of bytes that can be invalid UTF-8, as in a text file."""
    held = pa.array(cells, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(held), held.buffers())


def arrow_columns(size: int) -> st.SearchStrategy[pa.Array]:
    def of(kind: pa.DataType) -> st.SearchStrategy[pa.Array]:
        cells = st.lists(st.none() | KINDS[kind], min_size=size, max_size=size)
        if pa.types.is_dictionary(kind):
            return cells.map(lambda c: pa.array(c, kind.value_type).dictionary_encode())
        return cells.map(lambda c: pa.array(c, kind))

    raw = st.lists(st.none() | st.binary(max_size=6), min_size=size, max_size=size)
    view_dictionary = st.lists(TEXTS, min_size=size, max_size=size).map(
        lambda words: pa.DictionaryArray.from_arrays(
            pa.array(range(size), pa.int32()), pa.array(words, pa.string_view())
        )
    )
    return st.one_of(
        st.sampled_from(list(KINDS)).flatmap(of), raw.map(invalid_utf8), view_dictionary
    )


_BOUNDS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 1.0, 10.0])
_NUMERIC = st.builds(
    lambda pair, missing: numeric(min(pair), max(pair), missing=missing),
    st.tuples(_BOUNDS, _BOUNDS).filter(
        lambda p: 0 < math.ulp(max(map(abs, p))) <= (max(p) / 2 - min(p) / 2) * MAX_BOUNDS_ERROR
    ),
    st.sampled_from(["midpoint", "level"]),
)
_LEVELS = (
    st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | st.sampled_from(["a", "NA", "x y"])
)
_CATEGORICAL = st.builds(
    lambda levels, policy: categorical(*levels, other=policy[0], missing=policy[1]),
    st.lists(_LEVELS, min_size=1, max_size=4, unique_by=level_text),
    st.sampled_from(
        [(False, "zeros"), (False, "level"), (True, "zeros"), (True, "level"), (True, "other")]
    ),
)
DECLARATIONS = _NUMERIC | _CATEGORICAL
MISSING = st.sampled_from([(), ("",), ("", "NA", "-999"), ("nan",), ("0", "true")])


@st.composite
def tables(draw) -> tuple[pa.Table, Schema]:
    """Draw any table with any schema for it."""
    width, height = draw(st.integers(1, 4)), draw(st.integers(0, 6))
    names = [f"c{j}" for j in range(width)]
    columns = [draw(arrow_columns(height)) for _ in names]
    schema = Schema.parse(
        {
            "columns": {name: draw(DECLARATIONS) for name in names},
            "radius": draw(st.sampled_from([None, 0.1, 1.0, 1e99, 1e-99])),
            "intercept": draw(st.sampled_from([0.0, 0.3, 1.0])),
            "missing": draw(MISSING),
        }
    )
    return pa.table(columns, names), schema
