"""Encoding: total, certified, and a function of the row alone."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov.errors import SchemaError
from dpcov.rows.cells import codes_of
from dpcov.rows.encoder import Encoder
from dpcov.rows.moment import FINE_UNITS, UNITS, LinearMap
from dpcov.rows.schema import Categorical, Schema
from strategies import (
    FLOATS,
    TEXTS,
    categorical,
    encode,
    invalid_utf8,
    lattice_of,
    numeric,
    schema_of,
    squared_norms,
    tables,
)

UNIT = UNITS
LIMBS = st.lists(FLOATS.filter(math.isfinite), min_size=16, max_size=16)


def column(declared: dict, cells: pa.Array, missing=("",), **fields) -> list[list[int]]:
    """Return integer rows of one column without intercept, in units of 2^-20 of radius 1."""
    document = {"columns": {"c": declared}, "radius": 1.0, "intercept": 0, "missing": missing}
    rows = encode(pa.table({"c": cells}), Schema.parse(document | fields))
    return rows.astype(int).tolist()


def changed_rows(encoder, table: pa.Table, size: int) -> int:
    """Count rows that have other integers alone than in batches of `size` rows."""
    alone = np.concatenate([encoder(table.slice(i, 1)) for i in range(len(table))])
    grouped = np.concatenate([encoder(table.slice(i, size)) for i in range(0, len(table), size)])
    return int((alone != grouped).any(axis=1).sum())


def certify(rows: np.ndarray, schema: Schema, linear_map: LinearMap | None = None) -> None:
    lattice = lattice_of(schema, linear_map)
    assert (rows == np.rint(rows)).all()
    assert max(squared_norms(rows[:, : lattice.features]), default=0) <= lattice.side**2
    assert max(squared_norms(rows), default=0) <= lattice.bound
    assert (rows[:, lattice.features :] == lattice.intercept_parts[1]).all()


@given(tables())
def test_any_table_encodes_to_certified_integers(drawn):
    table, schema = drawn
    rows = encode(table, schema)
    assert rows.shape == (len(table), lattice_of(schema).dimension)
    certify(rows, schema)


@given(tables(), LIMBS)
def test_any_table_under_any_finite_map_encodes_to_certified_integers(drawn, entries):
    table, schema = drawn
    matrix = np.resize(entries, (3, len(schema.features)))
    linear_map = LinearMap.rounded(matrix)
    certify(encode(table, schema, linear_map), schema, linear_map)


@given(tables(), st.randoms(use_true_random=False), st.booleans())
def test_a_row_depends_on_itself_alone(drawn, random, mapped):
    table, schema = drawn
    entries = np.random.default_rng(0).standard_normal((2, len(schema.features)))
    linear_map = LinearMap.rounded(entries) if mapped else None

    def encoder(part):
        return encode(part.combine_chunks(), schema, linear_map)

    order = random.sample(range(len(table)), len(table))
    whole = encoder(table)
    shuffled = np.array([encoder(table.slice(i, 1))[0] for i in order]).reshape(whole.shape)
    assert (shuffled == whole[order]).all()


def crafted_rows(count: int = 400, width: int = 64) -> tuple[pa.Table, LinearMap]:
    """Return rows whose first transformed value is exactly half-way between lattice points."""
    rng = np.random.default_rng(1)
    matrix = rng.uniform(-0.1, 0.1, (8, width))
    matrix[0, -3:] = [1, 2.0**-20, 2.0**-25]
    linear_map = LinearMap.rounded(matrix)
    first = [int(x) for x in linear_map.integers[0]]
    rows = rng.integers(-FINE_UNITS // 2, FINE_UNITS // 2, (count, width)).astype(object)
    for row in rows:
        half_way = (2 * int(rng.integers(-99, 99)) + 1) * 2**19 * first[-3]
        left = half_way - sum(int(x) * c for x, c in zip(row[:-3], first[:-3], strict=True))
        for j in (-3, -2, -1):
            row[j], left = divmod(left, first[j])
        assert left == 0
    names = [f"c{j}" for j in range(width)]
    return pa.table(list((rows / FINE_UNITS).astype(float).T), names), linear_map


def values(table: pa.Table) -> np.ndarray:
    return np.ascontiguousarray(np.column_stack([column.to_numpy() for column in table.columns]))


@pytest.mark.parametrize("radius", [0.02, 1.0], ids=["clipped", "not clipped"])
def test_the_map_gives_a_row_the_same_integers_in_every_batch(radius):
    table, linear_map = crafted_rows()
    schema = schema_of(*table.column_names, lower=-1, upper=1, radius=radius, intercept=0)
    clipped = np.linalg.norm(values(table) @ linear_map.matrix().T, axis=1) > radius
    assert clipped.all() if radius < 1 else not clipped.any()
    for size in (8, 100):
        assert changed_rows(lambda part: encode(part, schema, linear_map), table, size) == 0


def test_control_a_float_product_changes_integers_with_the_batch():
    table, linear_map = crafted_rows()
    matrix = linear_map.matrix()
    assert changed_rows(lambda part: np.rint(values(part) @ matrix.T * UNIT), table, 8) > 0


def test_the_map_is_applied_as_declared():
    rng = np.random.default_rng(2)
    rows, matrix = rng.uniform(-1, 1, (50, 7)), rng.standard_normal((3, 7))
    names = [f"c{j}" for j in range(7)]
    schema = schema_of(*names, lower=-1, upper=1, intercept=0)
    linear_map = LinearMap.rounded(matrix / 4)
    encoded = encode(pa.table(list(rows.T), names), schema, linear_map)
    assert np.abs(linear_map.matrix() - matrix / 4).max() < 1e-8
    whole = rows @ linear_map.matrix().T * UNIT / math.sqrt(7)
    assert np.linalg.norm(whole, axis=1).max() < UNIT
    assert np.abs(encoded - whole).max() < 0.51


@pytest.mark.parametrize("matrix", [[[np.nan]], [[np.inf]], [1.0]])
def test_a_map_that_is_no_finite_matrix_is_refused(matrix):
    with pytest.raises(ValueError, match="finite"):
        LinearMap.rounded(np.array(matrix))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_map_with_one_entry_that_is_not_finite_is_refused(wrong):
    with pytest.raises(ValueError, match="finite"):
        LinearMap.rounded(np.array([[1.0, 2.0], [3.0, wrong]]))


def test_nested_lists_of_integers_are_a_map():
    shape = LinearMap.rounded([[1, 2], [0, -4]])
    assert shape.matrix().tolist() == [[1.0, 2.0], [0.0, -4.0]]


def rows_at_the_radius(width: int = 5) -> np.ndarray:
    rows = np.random.default_rng(3).standard_normal((500, width))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("rounding", [np.trunc, np.rint])
def test_rows_at_the_radius_are_repaired(monkeypatch, rounding):
    """The last repair does its work even if truncation did not do nearly all of it."""
    monkeypatch.setattr(np, "trunc", rounding)
    rows = rows_at_the_radius()
    names = [f"c{j}" for j in range(rows.shape[1])]
    schema = schema_of(*names, lower=-1, upper=1, radius=1.0, intercept=0)
    certify(encode(pa.table(list(rows.T), names), schema), schema)


@pytest.mark.parametrize("value", [1.0, -0.7, 0.500001])
def test_a_row_clipped_along_an_axis_ends_a_unit_inside_the_radius(value):
    schema = schema_of("a", "b", lower=-1, upper=1, radius=0.5, intercept=0)
    (row,) = encode(pa.table({"a": [value], "b": [0.0]}), schema)
    assert row.tolist() == [math.copysign(UNIT - 1, value), 0.0]


def test_control_plain_rounding_leaves_the_ball():
    assert max(squared_norms(np.rint(rows_at_the_radius() * UNIT))) > UNIT**2


def test_corner_rows_under_the_default_radius_are_certified():
    for width in (1, 2, 3, 7, 100):
        names = [f"c{j}" for j in range(width)]
        schema = schema_of(*names, lower=-1, upper=1)
        rows = encode(pa.table([[1.0, -5.0, np.inf]] * width, names), schema)
        certify(rows, schema)
        assert (np.abs(rows[:, :width]) == UNIT).all()


@given(st.lists(st.floats(-1, 1), min_size=6, max_size=6), st.floats(0.01, 0.5))
def test_the_clip_keeps_direction_and_reaches_the_radius(row, radius):
    norm = np.linalg.norm(row)
    names = [f"c{j}" for j in range(6)]
    schema = schema_of(*names, lower=-1, upper=1, radius=radius, intercept=0)
    lattice = lattice_of(schema)
    image = encode(pa.table([[x] for x in row], names), schema)[0] * lattice.step / radius
    if norm > radius:
        assert np.linalg.norm(image) >= 1 - 1e-5
        assert np.abs(image / np.linalg.norm(image) - np.array(row) / norm).max() < 1e-5
    else:
        assert np.abs(image - np.array(row) / radius).max() < 1e-5


@given(st.lists(TEXTS, max_size=6), TEXTS, st.sampled_from([("",), ("", "NA", "-999")]))
def test_a_text_is_read_the_same_whatever_its_neighbours(others, text, missing):
    for declared in (numeric(-10, 10), categorical(1, True, "a", missing="level")):
        alone = column(declared, pa.array([text]), missing)
        assert column(declared, pa.array([text, *others]), missing)[0] == alone[0]


@given(st.floats(-10, 10), st.binary(max_size=6))
def test_numbers_beside_invalid_utf8_are_read(number, garbage):
    cells = invalid_utf8([repr(number).encode(), garbage + b"\xff"])
    expected = column(numeric(-10, 10), pa.array([number]))
    assert column(numeric(-10, 10), cells) == [*expected, [0]]


@pytest.mark.parametrize("text", ["", " ", "NA", "-999", "-999.0", "-9.99e2", "nan", "x", "1,5"])
def test_missing_texts_become_the_declared_point(text):
    declared = numeric(-1000, 0, missing="level")
    assert column(declared, pa.array([text, "0"]), ("", "NA", "-999")) == [[0, UNIT], [UNIT, 0]]


@pytest.mark.parametrize("cell", [-999, -999.0, "-999", "-999.00"])
def test_a_declared_missing_number_is_missing_in_columns_of_every_type(cell):
    cells, missing = pa.array([cell]), ("-999",)
    assert column(numeric(-1000, 0, missing="level"), cells, missing) == [[0, UNIT]]
    assert column(categorical(-999, 1, missing="level"), cells, missing) == [[0, 0, UNIT]]


@pytest.mark.parametrize("cell", [1, 1.0, "1", "1.0", " +1e0 ", True])
@pytest.mark.parametrize("level", [1, 1.0])
def test_a_declared_number_is_met_in_every_spelling(level, cell):
    assert column(categorical(0, level), pa.array([cell])) == [[0, UNIT]]


@pytest.mark.parametrize("cell", [True, "true", "True", "TRUE"])
def test_a_declared_truth_value_is_met_in_every_spelling(cell):
    assert column(categorical(False, True), pa.array([cell])) == [[0, UNIT]]


@pytest.mark.parametrize(("truth", "number"), [(True, 1.0), (False, 0.0)])
def test_truth_values_are_numbers_in_every_type(truth, number):
    expected = column(numeric(0, 10), pa.array([number]))
    for cell in (truth, str(truth), str(truth).lower()):
        assert column(numeric(0, 10), pa.array([cell])) == expected


def test_minus_zero_is_the_level_zero():
    for cells in (pa.array([-0.0]), pa.array(["-0.0"])):
        assert column(categorical(0, 1), cells) == [[UNIT, 0]]


def test_a_level_declared_as_text_is_met_by_its_text_only():
    cells = pa.array(["01", "1", "1.0", "A", "a"])
    expected = [[UNIT, 0], [0, 0], [0, 0], [0, 0], [0, UNIT]]
    assert column(categorical("01", "a"), cells) == expected


@pytest.mark.parametrize(
    ("policy", "undeclared", "absent"),
    [
        ({}, [0], [0]),
        ({"other": True}, [0, UNIT], [0, 0]),
        ({"missing": "level"}, [0, 0], [0, UNIT]),
        ({"other": True, "missing": "level"}, [0, UNIT, 0], [0, 0, UNIT]),
        ({"other": True, "missing": "other"}, [0, UNIT], [0, UNIT]),
    ],
)
def test_undeclared_and_missing_levels_follow_their_policies(policy, undeclared, absent):
    cells, declared = pa.array(["b", None, ""]), categorical("a", **policy)
    assert column(declared, cells) == [undeclared, absent, absent]
    assert column(declared, cells.dictionary_encode()) == [undeclared, absent, absent]
    assert Categorical(**declared).is_full == all(map(any, (undeclared, absent)))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, -1), (10, 1), (5, 0), (7.5, 0.5), (1e308, 1), (-np.inf, -1), (np.inf, 1), (np.nan, 0)],
)
def test_numbers_are_scaled_to_their_bounds_and_moved_inside(value, expected):
    assert column(numeric(0, 10), pa.array([float(value)])) == [[expected * UNIT]]


@pytest.mark.parametrize(("make", "cap"), [(LinearMap.focused, 2), (LinearMap.rounded, 1)])
def test_a_map_is_only_ever_applied_to_integers_that_it_is_exact_for(make, cap, monkeypatch):
    applied = []
    apply = LinearMap.apply

    def spied(self, fine):
        applied.append(fine.copy())
        return apply(self, fine)

    monkeypatch.setattr(LinearMap, "apply", spied)
    rng = np.random.default_rng(3)
    cells = np.where(rng.uniform(size=(200, 3)) < 0.1, np.nan, rng.uniform(-1.2, 1.2, (200, 3)))
    table = pa.table(list(cells.T), ["a", "b", "c"])
    schema = schema_of("a", "b", "c", lower=-1, upper=1, intercept=0)
    center = np.array([0.9, -1.0, 1 / 3])
    reach = [4.0] if cap == 2 else []
    linear_map = make(np.eye(3), *reach, center=center)
    encoder = Encoder(schema, lattice_of(schema, linear_map).relative(50.0), linear_map)
    encoded = np.concatenate([b.T.copy() for t in table.to_batches() for b in encoder.blocks(t)])
    fine = np.concatenate(applied, axis=1)
    assert (fine == np.rint(fine)).all()
    assert np.abs(fine).max() <= FINE_UNITS
    whole = np.clip(np.nan_to_num(np.clip(cells, -1, 1)) - center, -cap, cap)
    assert np.abs(encoded - whole * UNIT / 50).max() < 0.51


def test_weighted_rows_are_mapped_by_the_root_of_their_share():
    columns = {"a": numeric(-1, 1), "b": numeric(-1, 1)}
    schema = Schema.parse({"columns": columns, "weight": {"column": "w", "maximum": 4.0}})
    table = pa.table({"a": [0.5, 0.5], "b": [-1.0, -1.0], "w": [1.0, 4.0]})
    shape = LinearMap.rounded(np.array([[1.0, 0.0], [0.5, 0.5]]))
    half, whole = encode(table, schema, shape)
    np.testing.assert_allclose(whole[:2], np.array([0.5, -0.25]) * UNIT / math.sqrt(2), atol=1)
    np.testing.assert_allclose(half, whole / 2, atol=1)


@pytest.mark.parametrize("radius", [3.0, 7.0])
def test_a_feature_at_its_bound_is_rounded_down_where_the_grid_lacks_it(radius):
    schema = schema_of("a", "b", lower=-1, upper=1, intercept=0)
    lattice = lattice_of(schema).relative(radius)
    encoder = Encoder(schema, lattice)
    (batch,) = pa.table({"a": [1.0, 9.0], "b": [-1.0, -9.0]}).to_batches()
    (encoded,) = encoder.blocks(batch)
    most = UNIT // int(radius)
    assert encoded.T.tolist() == [[most, -most], [most, -most]]


@pytest.mark.parametrize("radius", [0.4, 1.7, 2.0])
def test_fine_rows_are_the_encoded_rows_within_the_radius(radius):
    rng = np.random.default_rng(4)
    cells = np.where(rng.uniform(size=(300, 4)) < 0.1, np.nan, rng.uniform(-1.2, 1.2, (300, 4)))
    cells[:5] = [[1, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0], [-1, 0, 0, 0], [np.nan] * 4]
    names = list("abcd")
    schema = schema_of(*names, lower=-1, upper=1, radius=radius, intercept=0)
    (batch,) = pa.table(list(cells.T), names).to_batches()
    fine, _ = Encoder(schema, lattice_of(schema).relative()).fine_rows(batch)
    assert (fine == np.trunc(fine)).all()
    squared = [sum(int(x) ** 2 for x in row) for row in fine.T]
    assert max(squared) <= FINE_UNITS**2
    whole = np.nan_to_num(np.clip(cells, -1, 1))
    norms = np.linalg.norm(whole, axis=1, keepdims=True)
    clipped = whole * np.minimum(1, radius / np.maximum(norms, 1e-9))
    np.testing.assert_allclose(fine.T, clipped * (FINE_UNITS / radius), atol=2)
    assert (fine.T[np.isnan(cells)] == 0).all()


SPELLINGS = pa.array([" 7.5", "x", " NA\t", None, "x", "?", "x "])
READ = [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
READ += [pa.dictionary(pa.int32(), pa.string_view())]


def cells_of(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the texts in another type."""
    if not pa.types.is_dictionary(kind):
        return texts.cast(kind)
    found = texts.dictionary_encode()
    indices, words = found.indices.cast(kind.index_type), found.dictionary.cast(kind.value_type)
    return pa.DictionaryArray.from_arrays(indices, words)


@pytest.mark.parametrize("kind", READ, ids=str)
@pytest.mark.parametrize(
    "declared",
    [numeric(0, 10, missing="level"), categorical("7.5", "x", missing="level", other=True)],
    ids=["numeric", "categorical"],
)
def test_texts_are_read_alike_in_every_type(kind, declared):
    half = [UNIT // 2, 0] if declared["kind"] == "numeric" else [UNIT, 0, 0, 0]
    none = [0, UNIT] if declared["kind"] == "numeric" else [0, 0, 0, UNIT]
    x, other = [[0, UNIT, 0, 0], [0, 0, UNIT, 0]] if len(half) > 2 else [none, none]
    expected = [half, x, none, none, x, other, x]
    assert column(declared, SPELLINGS, ("NA",)) == expected
    assert column(declared, cells_of(SPELLINGS, kind), ("NA",)) == expected
    assert column(declared, cells_of(SPELLINGS, kind)[3:6], ("NA",)) == expected[3:6]


@pytest.mark.parametrize("kind", [pa.string(), *READ], ids=str)
def test_runs_are_read_as_the_cells_that_they_stand_for(kind):
    ends, words = pa.array([2, 3, 5]), pa.array(["7.5", "x", None])
    runs = pa.RunEndEncodedArray.from_arrays(ends, cells_of(words, kind))
    expected = [[UNIT // 2], [UNIT // 2], [0], [0], [0]]
    assert column(numeric(0, 10), runs) == expected
    assert column(numeric(0, 10), runs[1:3]) == expected[1:3]
    assert column(categorical("x"), runs) == [[0], [0], [UNIT], [0], [0]]


def test_a_cell_without_a_level_has_the_code_minus_one():
    """Copies of encoded columns mark missing cells with it."""
    for others in ([], [2.5], [True]):
        declared = Categorical(**categorical("x", *others))
        for cells in (pa.array(["?", None, "x"]), pa.array(["?", None, "x"]).dictionary_encode()):
            assert codes_of(cells, declared, ()).tolist() == [-1, -1, 0]
        for cells in (pa.array([7.0, None]), pa.array([None, None])):
            assert codes_of(cells, declared, ()).tolist() == [-1, -1]
        assert codes_of(pa.array([b"x"]), declared, ()).tolist() == [-1]


def test_a_number_that_is_none_is_a_missing_level():
    declared = categorical(1, missing="level")
    assert column(declared, pa.array([math.nan, 1.0])) == [[0, UNIT], [UNIT, 0]]


@pytest.mark.parametrize("number", [0.0, -0.0])
def test_a_level_declared_as_zero_of_either_sign_is_met_by_both(number):
    for cells in (pa.array([0.0, -0.0]), pa.array(["0", "-0.0"]), pa.array([0, 0])):
        assert column(categorical(number, 1), cells) == [[UNIT, 0], [UNIT, 0]]
    assert column(categorical("-0", 1), pa.array([number])) == [[UNIT, 0]]


@pytest.mark.parametrize("other", [1, True])
def test_a_text_level_is_met_beside_numbers_and_truths(other):
    cells = pa.array(["a", str(other), "b"])
    assert column(categorical("a", other), cells) == [[UNIT, 0], [0, UNIT], [0, 0]]


def test_integers_that_no_float_holds_are_outside_of_bounds_and_distinct_as_levels():
    cells = pa.array([2**53 + 1, 2**53, 2**63 - 1, 1])
    assert column(numeric(0, 1), cells) == [[UNIT]] * 4
    for kind in (pa.int64(), pa.uint64(), pa.string(), pa.decimal128(20, 0)):
        assert column(categorical(1, 2**53), cells.cast(kind)) == [
            [0, 0],
            [0, UNIT],
            [0, 0],
            [UNIT, 0],
        ]
    texts = categorical("9007199254740993", "9007199254740992")
    for kind in (pa.int64(), pa.uint64(), pa.string(), pa.decimal128(20, 0)):
        assert column(texts, cells.cast(kind))[:2] == [[UNIT, 0], [0, UNIT]]


@pytest.mark.parametrize(
    "declared",
    [
        numeric(2**53, 2**53 + 2),
        numeric(1.7e18, 1.7e18 + 1e5),
        numeric(-1e300, -1e300 + 1e286),
        categorical(2**53 + 2),
        categorical(-(2.0**60)),
    ],
    ids=str,
)
def test_values_that_float64_cannot_distinguish_are_refused_in_the_schema(declared):
    with pytest.raises(SchemaError, match="float64"):
        Schema.parse({"columns": {"a": declared}})


@pytest.mark.parametrize(
    "declared",
    [
        numeric(0, 2.0**62),
        numeric(1e15, 1e15 + 1e6),
        categorical(2**53 - 1),
        categorical(str(2**60)),
    ],
    ids=str,
)
def test_control_values_that_float64_distinguishes_are_accepted(declared):
    Schema.parse({"columns": {"a": declared}})


def test_a_missing_number_is_the_midpoint_under_a_map_that_would_show_one_fine_unit():
    shape = LinearMap.rounded([[2.0**25]])
    schema = schema_of("a", lower=-1, upper=1, radius=1.0, intercept=0)
    cells = pa.table({"a": [math.nan, 2.0**-40]})
    assert encode(cells, schema, shape).tolist() == [[0.0], [32.0]]


def test_a_row_whose_norm_is_beyond_all_floats_becomes_the_midpoint():
    schema = schema_of("a", "b", lower=-1, upper=1, radius=1e-99, intercept=0)
    shape = LinearMap.rounded(np.diag([1e100, 1.0]))
    cells = pa.table({"a": [1.0, 0.0], "b": [0.0, 0.0]})
    assert encode(cells, schema, shape).tolist() == [[0.0, 0.0], [0.0, 0.0]]
