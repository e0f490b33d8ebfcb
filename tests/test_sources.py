"""Every source of the same table gives the same integers; names and types are checked."""

import gzip
from datetime import UTC, datetime

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcov.cli.drafts import draft
from dpcov.core.entropy import Entropy
from dpcov.errors import MechanismError, SourceError
from dpcov.rows.encoder import Encoder
from dpcov.rows.moment import Lattice, LinearMap
from dpcov.rows.schema import FileOptions, Schema
from dpcov.rows.sources import open_rows, open_source
from dpcov.rows.sources.base import kind_of
from dpcov.rows.sources.rows import Assignment
from strategies import categorical, encode, gram, invalid_utf8, moment, numeric, same, schema_of

ROWS = 5000  # more than one block


def people() -> pd.DataFrame:
    rng = np.random.default_rng(6)
    frame = pd.DataFrame(
        {
            "weight": rng.normal(70, 20, ROWS),
            "visits": rng.integers(0, 9, ROWS),
            "smokes": rng.integers(0, 2, ROWS).astype(bool),
            "town": rng.choice(["Aix", 'St "John"', "x,y", "é"], ROWS),
            "unused": rng.choice(["a", "b"], ROWS),
        }
    )
    frame.loc[::7, "weight"] = np.nan
    frame.loc[::11, "town"] = None
    return frame


PEOPLE = people()
TABLE = pa.Table.from_pandas(PEOPLE, preserve_index=False)
COLUMNS = {
    "visits": categorical(0, 1, 2, 3, other=True),
    "weight": numeric(30, 110, missing="level"),
    "smokes": categorical(True, False),
    "town": categorical("Aix", 'St "John"', "x,y", missing="level"),
}
SCHEMA = Schema.parse({"columns": COLUMNS, "radius": 1.5})
TSV = Schema.parse({"columns": COLUMNS, "radius": 1.5, "file": {"separator": "\t"}})
EXPECTED = gram(encode(TABLE, SCHEMA))


def csv_file(folder, **options):
    PEOPLE.to_csv(path := folder / options.pop("name", "p.csv"), index=False, **options)
    return path


def parquet_file(folder, **options):
    pq.write_table(TABLE, path := folder / "p.parquet", **options)
    return path


def gz_members(folder):
    lines = csv_file(folder).read_bytes().splitlines(keepends=True)
    parts = [b"".join(lines[i : i + 999]) for i in range(0, len(lines), 999)]
    (path := folder / "members.csv.gz").write_bytes(b"".join(map(gzip.compress, parts)))
    return path


SOURCES = {
    "csv": csv_file,
    "csv, crlf": lambda folder: csv_file(folder, lineterminator="\r\n"),
    "csv, all quoted": lambda folder: csv_file(folder, quoting=1),
    "csv.gz": lambda folder: csv_file(folder, name="p.csv.gz"),
    "csv.gz of many members": gz_members,
    "parquet": parquet_file,
    "parquet, small groups": lambda folder: parquet_file(folder, row_group_size=77),
    "parquet, plain": lambda folder: parquet_file(folder, use_dictionary=False, compression="none"),
    "parquet, path as text": lambda folder: str(parquet_file(folder)),
    "pandas": lambda _: PEOPLE,
    "pandas, category": lambda _: PEOPLE.astype({"town": "category"}),
    "pandas, object": lambda _: PEOPLE.astype({"town": object, "smokes": object, "visits": object}),
    "pandas, nullable": lambda _: PEOPLE.convert_dtypes(),
    "polars": lambda _: pl.from_arrow(TABLE),
    "polars, categorical": lambda _: pl.from_arrow(TABLE).cast({"town": pl.Categorical}),
    "table": lambda _: TABLE,
    "table, many chunks": lambda _: pa.concat_tables([TABLE[:1], TABLE[1:1000], TABLE[1000:]]),
    "reader": lambda _: TABLE.to_reader(max_chunksize=313),
    "record batch": lambda _: TABLE.combine_chunks().to_batches()[0],
    "duckdb": lambda _: duckdb.connect().from_arrow(TABLE),
    "list": lambda _: objects(),
    "array of objects": lambda _: np.array(objects(), object),
}
IN_ORDER = ("list", "array of objects")  # their columns have the schema's names
UNKNOWN = ("csv", "csv, crlf", "csv, all quoted", "csv.gz", "csv.gz of many members")


def objects() -> list[list[object]]:
    return PEOPLE[list(COLUMNS)].astype(object).to_numpy().tolist()


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_same_integers(tmp_path, name):
    found = moment(SOURCES[name](tmp_path), SCHEMA)
    assert found.unit_count == ROWS
    assert (found.units == EXPECTED).all()


def test_a_tsv_gives_the_same_integers(tmp_path):
    assert (moment(csv_file(tmp_path, name="p.tsv", sep="\t"), TSV).units == EXPECTED).all()


@pytest.mark.parametrize(
    ("cells", "threads"), [(1, 1), (1, 4), (200, 2), (200, 16), (4000, 1), (4000, 4), (2**22, 2)]
)
def test_batches_and_threads_change_nothing(tmp_path, monkeypatch, cells, threads):
    monkeypatch.setattr("dpcov.rows.cells.BATCH_CELLS", cells)
    few = PEOPLE[:1000] if cells == 1 else PEOPLE
    for data in (few, csv_file(tmp_path), parquet_file(tmp_path)) if cells > 1 else (few,):
        expected = gram(encode(TABLE[: len(few)], SCHEMA))
        assert (moment(data, SCHEMA, threads=threads).units == expected).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_rows_changes_nothing(seed):
    order = np.random.default_rng(seed).permutation(ROWS)
    assert (moment(TABLE.take(order), SCHEMA, threads=3).units == EXPECTED).all()


ARRAY = np.random.default_rng(8).normal(0, 2, (ROWS, 3))
NAMES = ("a", "b", "c")
ARRAY_SCHEMA = schema_of(*NAMES, lower=-5, upper=5, radius=0.7)


def masked() -> np.ndarray:
    hidden = np.ma.array(ARRAY[:, :], mask=np.isnan(ARRAY), copy=True)
    hidden[5, 1] = np.ma.masked
    return hidden


@pytest.mark.parametrize(
    "array",
    [
        pytest.param(np.asfortranarray(ARRAY), id="fortran"),
        pytest.param(np.repeat(ARRAY, 2, axis=0)[::2], id="strided"),
        pytest.param(ARRAY.astype(">f8"), id="big-endian"),
        pytest.param(ARRAY.astype(np.longdouble), id="longdouble"),
    ],
)
def test_the_layout_of_an_array_changes_nothing(array):
    expected = gram(encode(pa.table(list(ARRAY.T), NAMES), ARRAY_SCHEMA))
    assert (moment(array, ARRAY_SCHEMA).units == expected).all()


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int8, np.int64, np.uint16, bool])
def test_arrays_of_every_real_type_are_read_as_their_values(kind):
    array = np.abs(ARRAY).astype(kind)
    table = pa.table(list(array.astype(float).T), NAMES)
    assert same(moment(array, ARRAY_SCHEMA), moment(table, ARRAY_SCHEMA))


def test_a_masked_cell_of_an_array_is_missing():
    holed = ARRAY.copy()
    holed[5, 1] = np.nan
    assert same(moment(masked(), ARRAY_SCHEMA), moment(holed, ARRAY_SCHEMA))
    assert not same(moment(holed, ARRAY_SCHEMA), moment(ARRAY, ARRAY_SCHEMA))


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(3), "needs 2"),
        (np.zeros((2, 3), complex), "real numbers"),
        (np.zeros((2, 3), "M8[s]"), "real numbers"),
        (np.zeros((2, 4)), "declares 3 columns, but the array has 4"),
    ],
)
def test_an_array_that_does_not_fit_is_refused(array, words):
    with pytest.raises(SourceError, match=words):
        open_rows(array, ARRAY_SCHEMA)


def test_a_table_without_rows_gives_zero(tmp_path):
    empty = TABLE[:0]
    pq.write_table(empty, tmp_path / "e.parquet")
    (tmp_path / "e.csv").write_text("visits,weight,smokes,town\n")
    for data in (empty, empty.to_pandas(), tmp_path / "e.parquet", tmp_path / "e.csv"):
        found = moment(data, SCHEMA, threads=2)
        assert found.unit_count == 0
        assert not found.units.any()


def test_cells_of_a_mixed_pandas_column_are_read_one_by_one():
    cells = [1, "2", 2.5, None, float("nan"), pd.NA, "x", object(), b"1", "\ud800", 10**400, pd.NaT]
    schema = schema_of("a")
    whole = moment(pd.DataFrame({"a": pd.Series(cells, dtype=object)}), schema)
    alone = [moment(pd.DataFrame({"a": pd.Series([c], dtype=object)}), schema) for c in cells]
    assert (whole.units == sum(m.units for m in alone)).all()
    plain = [1.0, 2.0, 2.5, *[None] * 5, 1.0, None, np.inf, None]
    assert same(whole, moment(pa.table({"a": pa.array(plain, pa.float64())}), schema))


def test_a_map_and_a_radius_may_be_given_with_the_query():
    linear_map = LinearMap.rounded(np.array([[1.0, -1.0, 0.5]]))
    rows = open_rows(ARRAY, ARRAY_SCHEMA)
    found = rows.second_moments(transform=linear_map, radius=2.0)[0]
    lattice = Lattice.of(ARRAY_SCHEMA, features=1, radius=2.0)
    encoder = Encoder(ARRAY_SCHEMA, lattice, linear_map)
    (batch,) = pa.table(list(ARRAY.T), NAMES).to_batches()
    expected = sum(gram(block.T) for block in encoder.blocks(batch))
    assert (found.units == expected).all()
    assert (found.lattice.features, found.lattice.radius) == (1, 2.0)


def test_groups_partition_the_rows():
    parts = open_rows(PEOPLE, SCHEMA, threads=2).second_moments(groups=3, labels=Entropy.system())
    assert (sum(part.units for part in parts) == EXPECTED).all()
    assert sum(part.unit_count for part in parts) == ROWS
    assert all(abs(part.unit_count - ROWS / 3) < 300 for part in parts)
    t = parts[0].lattice.intercept_units
    assert all(part.units[-1, -1] == part.unit_count * t * t for part in parts)


def test_groups_without_fresh_randomness_are_refused():
    with pytest.raises(MechanismError, match="fresh secret randomness"):
        open_rows(PEOPLE, SCHEMA).second_moments(groups=2)


def test_labels_are_fresh_for_each_row_of_each_query():
    batch = TABLE.to_batches()[0]
    units = np.arange(batch.num_rows)
    first, second = (Assignment(2, Entropy.system()).next(units, len(units)) for _ in range(2))
    assert (first != second).any()


def test_a_stream_of_which_one_question_was_expected_is_not_read_twice():
    rows = open_rows(TABLE.to_reader(), SCHEMA)
    rows.second_moments()
    with pytest.raises(SourceError, match="only once"):
        rows.second_moments()


@pytest.mark.parametrize("name", ["reader", "duckdb", "csv", "list"])
def test_what_comes_once_answers_every_question_from_its_copy(tmp_path, name):
    rows = open_rows(SOURCES[name](tmp_path), SCHEMA)
    rows.require_rereadable()
    for threads in (1, 2):
        rows._threads = threads
        assert (rows.second_moments()[0].units == EXPECTED).all()


class OneShot:
    """A stream that is empty when it is asked for again."""

    def __init__(self, table: pa.Table) -> None:
        self.tables = [table]

    def __arrow_c_stream__(self, requested_schema=None):
        table = self.tables.pop() if self.tables else TABLE[:0]
        return table.__arrow_c_stream__(requested_schema)


def test_opening_a_stream_does_not_use_it_up():
    assert (moment(OneShot(TABLE), SCHEMA).units == EXPECTED).all()


def missing_column(found: str) -> pa.Table:
    return pa.table({found: [1.0]})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("nowhere.csv", "The file 'nowhere.csv' does not exist"),
        ("/", "is a folder"),
        ({"a": [1.0]}, "cannot read this kind of data. Pass"),
        (None, "cannot read this kind of data. Pass"),
        (missing_column("b"), "no column 'a', but the schema declares it"),
        (pa.table([[1.0], [2.0]], ["a", "a"]), "more than one column 'a'"),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), "more than one column 'a'"),
    ],
    ids=[
        "no file",
        "folder",
        "dictionary",
        "None",
        "no column",
        "twice",
        "twice in pandas",
    ],
)
def test_what_can_not_be_opened_is_refused_with_a_reason(data, words):
    with pytest.raises(SourceError, match=words):
        open_rows(data, schema_of("a"))


def test_a_column_that_is_not_declared_is_not_read():
    spoilt = TABLE.append_column("raw", invalid_utf8([b"\xff"] * ROWS))
    assert (moment(spoilt, SCHEMA).units == EXPECTED).all()


@pytest.mark.parametrize(
    "name", [name for name in SOURCES if name not in ("pandas, object", *UNKNOWN, *IN_ORDER)]
)
def test_kinds_come_from_types(tmp_path, name):
    kinds = open_source(SOURCES[name](tmp_path), FileOptions(), ()).kinds()
    assert list(kinds) == list(PEOPLE.columns)
    reported = (kinds["weight"], kinds["visits"], kinds["smokes"], kinds["town"])
    assert reported == ("number", "integer", "flag", "categorical")


@pytest.mark.parametrize("name", UNKNOWN)
def test_of_a_text_file_no_kind_is_known_whatever_its_cells(tmp_path, name):
    kinds = open_source(SOURCES[name](tmp_path), FileOptions(), ()).kinds()
    assert kinds == dict.fromkeys(PEOPLE.columns, "unknown")


@pytest.mark.parametrize("name", SOURCES)
def test_batches_have_the_stated_types(tmp_path, name):
    source = open_source(SOURCES[name](tmp_path), FileOptions(), tuple(COLUMNS))
    for batch in source.batches(list(COLUMNS)):
        assert batch.schema.names == list(COLUMNS)
        for field in batch.schema:
            assert kind_of(field.type) == kind_of(source.types[field.name])


def test_a_draft_holds_no_value_of_the_data(tmp_path):
    secret = pd.DataFrame({"salary": [71234.5, 2.0], "who": ["Ada S3CRET", "b"], "z": [None, 1e77]})
    secret.to_csv(tmp_path / "s.csv", index=False)
    secret.to_parquet(tmp_path / "s.parquet")
    for data in (tmp_path / "s.csv", tmp_path / "s.parquet", secret):
        text = draft(open_source(data, FileOptions(), ()).kinds(), FileOptions())
        assert all(name in text for name in secret.columns)
        assert not any(value in text for value in ("71234", "S3CRET", "Ada", "77"))


def test_an_array_is_drafted_with_numbered_names():
    assert open_source(ARRAY, FileOptions(), ()).kinds() == dict.fromkeys(
        ["x0", "x1", "x2"], "number"
    )


@pytest.mark.parametrize("unfit", [[datetime(2026, 1, 1, tzinfo=UTC)], [b"x"], [[1, 2]]])
@pytest.mark.parametrize("kind", ["arrow", "parquet", "polars"])
def test_a_column_of_a_type_that_fits_no_declaration_is_refused_by_the_reader(
    tmp_path, unfit, kind
):
    data = table = pa.table({"a": unfit, "b": [1.0]})
    if kind == "parquet":
        pq.write_table(table, data := tmp_path / "t.parquet")
    elif kind == "polars":
        data = pl.from_arrow(table)
    schema = Schema.from_bounds(0, 1, ["a", "b"])
    with pytest.raises(SourceError, match=r"'a' has the type"):
        open_rows(data, schema)
    reported = "time" if isinstance(unfit[0], datetime) else "ignored"
    assert open_source(data, FileOptions(), ()).kinds() == {"a": reported, "b": "number"}
