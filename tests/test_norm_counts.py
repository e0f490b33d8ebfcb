"""Counts of rows by norm: exact, whatever the batches, threads and sources; at most k per unit."""

from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov.errors import MechanismError, SourceError
from dpcov.rows.moment import LinearMap
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.rows import squared_limits
from strategies import FLOATS, encode, lattice_of, schema_of, squared_norms

SCHEMA = schema_of("a", "b", "c", lower=-1.0, upper=1.0, radius=1.5)
CAPPED = schema_of("a", "b", unit={"column": "id", "type": "text", "max_rows": 2})
EDGES = [0.3, 0.75, 1.0, 1.25]


def values(n=9000, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, 3))


def counts(data, schema=SCHEMA, edges=EDGES, *, threads=1, **query):
    return open_rows(data, schema, threads=threads).norm_counts(edges, **query).tolist()


def exactly(table, schema, edges, linear_map=None):
    """Count in Python integers: the first edge that the norm does not exceed."""
    lattice = lattice_of(schema, linear_map)
    rows = encode(table, schema, linear_map)[:, : lattice.features]
    step, found = Fraction(lattice.step), [0] * (len(edges) + 1)
    for norm in squared_norms(rows):
        squared = norm * step**2
        found[sum(squared > Fraction(edge) ** 2 for edge in edges)] += 1
    return found


@given(
    st.lists(st.tuples(FLOATS | st.floats(-1, 1), st.floats(-1, 1)), max_size=9),
    st.sampled_from([None, 0.1, 1.0, 1e99, 1e-99]),
    st.lists(st.floats(0, 3), min_size=1, max_size=5, unique=True).map(sorted),
)
def test_counts_are_those_of_exact_norms(rows, radius, shares):
    a, b = zip(*rows, strict=True) if rows else ((), ())
    table = pa.table({"a": pa.array(a, pa.float64()), "b": pa.array(b, pa.float64())})
    schema = schema_of("a", "b", lower=-1.0, upper=1.0, radius=radius)
    edges = [Fraction(share) * Fraction(schema.effective_radius) for share in shares]
    assert counts(table, schema, edges) == exactly(table, schema, edges)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("rows", [313, 4096, 65536])
def test_batches_and_threads_change_nothing(monkeypatch, threads, rows):
    monkeypatch.setattr("dpcov.rows.cells.BATCH_CELLS", 3 * rows)
    table = pa.table(dict(zip("abc", values().T, strict=True)))
    reader = table.to_reader(max_chunksize=rows)
    found = counts(reader, threads=threads)
    assert found == exactly(table, SCHEMA, EDGES)
    assert sum(found) == 9000


def test_every_source_gives_the_same_counts(tmp_path):
    frame = pd.DataFrame(values(500), columns=list("abc"))
    frame.to_csv(tmp_path / "t.csv", index=False, float_format="%.17g")
    frame.to_parquet(tmp_path / "t.parquet")
    expected = counts(frame.to_numpy())
    assert min(expected) > 0
    for data in (tmp_path / "t.csv", tmp_path / "t.parquet", frame, pl.from_pandas(frame)):
        assert counts(data) == expected


def test_a_norm_equal_to_an_edge_counts_below_it():
    rows = np.array([[1.0, 0, 0], [0.5, 0, 0], [0, 0, 0]])
    schema = schema_of("a", "b", "c", lower=-1.0, upper=1.0, radius=1.0)
    step = Fraction(1, 2**20)
    assert counts(rows, schema, [0.5, 1.0]) == [2, 1, 0]
    assert counts(rows, schema, [Fraction(1, 2) - step, 1 - step]) == [1, 1, 1]
    assert counts(rows, schema, [0.0]) == [1, 2]
    # An edge above 1/2 by less than a step, that a float of the squared norm would round to it.
    assert counts(rows, schema, [Fraction(1, 2) - Fraction(1, 2**70)]) == [1, 2]


def test_long_rows_count_at_the_radius_and_the_intercept_does_not_count():
    rows = np.full((7, 3), 50.0)
    for intercept in (0.0, 1.0):
        schema = schema_of("a", "b", "c", lower=-1, upper=1, radius=1.0, intercept=intercept)
        assert counts(rows, schema, [0.999, 1.0]) == [0, 7, 0]
        assert counts(rows, schema, [5.0]) == [7, 0]


def test_the_check_rejects_edges_that_are_one_step_off():
    table = pa.table({"a": np.linspace(0, 1, 2**14), "b": np.zeros(2**14), "c": np.zeros(2**14)})
    schema = schema_of("a", "b", "c", lower=-1.0, upper=1.0, radius=1.0)
    edge = Fraction(1, 3)
    found = [counts(table, schema, [edge + k * Fraction(1, 2**13)])[0] for k in (-1, 0, 1)]
    assert found[1] == exactly(table, schema, [edge])[0]
    assert found[0] < found[1] < found[2]


def test_a_public_map_applies_before_the_norm_is_taken():
    linear_map = LinearMap.rounded(np.array([[0.5, 0.0, 0.0], [0.0, 0.25, 1.0]]))
    table = pa.table(dict(zip("abc", values(300).T, strict=True)))
    found = counts(table, transform=linear_map)
    assert found == exactly(table, SCHEMA, EDGES, linear_map)
    assert found != counts(table)


PEOPLE = st.lists(
    st.tuples(st.sampled_from(["x", "y", "z", None]), st.floats(0, 10), st.floats(0, 10)),
    max_size=14,
)


def people(rows):
    ids, a, b = zip(*rows, strict=True) if rows else ((), (), ())
    columns = pa.array(ids, pa.string()), pa.array(a, pa.float64()), pa.array(b, pa.float64())
    return pa.table(dict(zip(["id", "a", "b"], columns, strict=True)))


def l1(one, other):
    return sum(abs(a - b) for a, b in zip(one, other, strict=True))


@given(PEOPLE, PEOPLE)
def test_a_person_changes_counts_by_at_most_k_and_twice_that_when_replaced(rows, others):
    edges = [0.2, 0.6, 1.0]
    kept = [row for row in rows if row[0] != "x"]
    replaced = kept + [("x", *row[1:]) for row in others]
    before, without, after = (
        counts(people(part), CAPPED, edges) for part in (rows, kept, replaced)
    )
    k = CAPPED.unit.max_rows
    assert l1(before, without) <= k
    assert l1(before, after) <= 2 * k


def test_both_sensitivities_are_reached_and_surplus_rows_or_rows_without_id_do_not_count():
    def of(person, norm, n):
        return [(person, 5 + 5 * norm, 5.0)] * n

    edges = [0.2, 0.6, 1.0]
    base_rows = of("y", 0.1, 1) + of(None, 0.9, 5)
    before = counts(people(base_rows + of("x", 0.1, 9)), CAPPED, edges)
    assert before == [3, 0, 0, 0]
    assert l1(before, counts(people(base_rows), CAPPED, edges)) == 2
    assert l1(before, counts(people(base_rows + of("x", 0.9, 9)), CAPPED, edges)) == 4


@pytest.mark.parametrize("edges", [[1.0, 0.5], [0.5, 0.5], [-1.0], [float("nan")], [float("inf")]])
def test_edges_that_set_no_bins_are_refused(edges):
    with pytest.raises(MechanismError, match="edges"):
        counts(values(3), edges=edges)


def test_limits_are_exact_where_floats_would_round():
    lattice = lattice_of(SCHEMA)
    edges = [Fraction(lattice.step) * k for k in (0, 1, 2**19 + 1, 2**20)]
    assert squared_limits(edges, lattice).tolist() == [0, 1, (2**19 + 1) ** 2, 2**40]
    below = [edge - Fraction(1, 2**200) for edge in edges[1:]]
    assert squared_limits(below, lattice).tolist() == [0, (2**19 + 1) ** 2 - 1, 2**40 - 1]


def test_a_failing_read_reveals_nothing():
    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            if opened:
                raise ValueError("S3CRET")
            opened.append(True)
            return pa.table({"a": [1.0], "b": [1.0], "c": [1.0]}).__arrow_c_stream__()

    opened = []
    rows = open_rows(Stream(), SCHEMA)
    rows.norm_counts(EDGES)
    with pytest.raises(SourceError) as caught:
        rows.norm_counts(EDGES)
    assert "S3CRET" not in str(caught.value)
    assert caught.value.__cause__ is None
