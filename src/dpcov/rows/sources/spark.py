"""Source of Spark data frames: each task sums its rows, and dpcov adds the sums exactly.

dpcov uses only the DataFrame API, so Spark Connect works too. Spark's Python workers need the same
version of dpcov.

The packed sums are private data. Spark transfers them in its shuffle files and to the driver. With
persons, Spark also transfers the ids and the integer rows. `benchmarks/spark.py` models the size.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpcov.errors import MechanismError, SourceError
from dpcov.rows.sources.base import Source, fits
from dpcov.rows.sources.level import FilteredSource, with_tested
from dpcov.rows.sources.packed import (
    Query,
    add_part,
    integer_rows,
    merged,
    sums_of_ranked,
    sums_of_rows,
    unpacked,
)
from dpcov.rows.sources.quiet import quiet
from dpcov.rows.sources.rows import IN_MEMORY_MESSAGE, IntegerRows, Rows, Sum, Total

if TYPE_CHECKING:
    from dpcov.core.entropy import Entropy
    from dpcov.rows.encoder import Encoder
    from dpcov.rows.schema import Schema

ARROW_TYPES = {  # Arrow type of each Spark type.
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "char": pa.string(),
    "varchar": pa.string(),
    "boolean": pa.bool_(),
    "void": pa.null(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
SUM_COLUMNS = "part bigint, units bigint, integers binary"
ROW_COLUMNS = "id binary, rank bigint, integers binary"
PLACE_EXPRESSION = "row_number() OVER (PARTITION BY id ORDER BY rank, integers) AS place"
MERGE_TASKS = 8  # Maximum number of sums that reach the driver.
STREAM_MESSAGE = (
    "A streaming data frame never ends. Pass a data frame that is read from stored data."
)
NO_MEANS_MESSAGE = (
    'dpcov does not compute aggregate = "mean" in a Spark cluster. Store the frame as Parquet and '
    "pass the file, or use max_rows. Nothing was spent."
)
CHANGING_QUERY_MESSAGE = (
    "The query of this Spark data frame uses random numbers or row numbers, so one row can "
    "change others. Store the frame and pass the stored table. Nothing was spent."
)
# Words of a query plan for functions that depend on more than one row.
_SAMPLE_STEP = re.compile(r"^\W*Sample [0-9]", re.MULTILINE)
_CHANGING_FUNCTION = re.compile(
    r"\b(rand|randn|random|uniform|randstr|uuid|shuffle|monotonically_increasing_id|"
    r"spark_partition_id|input_file_\w+)\(",
    re.IGNORECASE,
)
MAX_FIELDS_SETTING = (
    "spark.sql.debug.maxToStringFields"  # Setting for the number of fields in a plan's text.
)
WORKERS_MESSAGE = (
    "The Python workers of this Spark cluster cannot run this version of dpcov. Install the "
    "same versions of dpcov and Python on the workers. Nothing was spent."
)


def is_frame(data: object) -> bool:
    """Return True if the data is a Spark data frame, of a classic session or of Spark Connect."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")
        for kind in type(data).__mro__
    )


class SparkSource(Source):
    """Source of a Spark data frame, whose rows stay in the cluster.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Table.

    """

    kind = "spark"
    ordered = False

    def __init__(self, frame: Any) -> None:
        if frame.isStreaming:
            raise SourceError(STREAM_MESSAGE)
        if not _is_deterministic(frame):
            raise SourceError(CHANGING_QUERY_MESSAGE)
        self._frame = frame
        self._types = [(field.name.strip(), field.dataType) for field in frame.schema.fields]
        self._workers_run = False
        self.names = tuple(name for name, _ in self._types)
        self.types = {name: _arrow_type(kind) for name, kind in self._types}
        self.unfit = {
            name: str(kind.simpleString())
            for name, kind in self._types
            if not fits(_arrow_type(kind), "text")
        }

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Raise `SourceError`, because the rows stay in the cluster."""
        raise SourceError(
            "The rows of a Spark data frame stay in the cluster. Convert the frame to a local "
            "table."
        )

    @quiet(WORKERS_MESSAGE)
    def require_workers(self) -> None:
        """Raise `SourceError` if a worker has another version of dpcov, before budget is spent."""
        if self._workers_run:
            return
        one = self._frame.sparkSession.range(0, 1, 1, 1)
        versions = [row.version for row in one.mapInArrow(_version, "version string").collect()]
        if versions != [version("dpcov")]:
            raise SourceError(WORKERS_MESSAGE)
        self._workers_run = True

    def columns(self, names: Sequence[str]) -> Any:
        """Return a frame with these columns in this order, selected by position."""
        plain = self._frame.toDF(*(f"c{at}" for at in range(len(self.names))))
        return plain.select(*(f"c{self.names.index(name)}" for name in names))


class SparkRows(Rows):
    """Rows of a Spark data frame with a schema.

    Second moments and counts equal the results for a file with the same rows. A mechanism that
    divides the rows into random groups lets each Spark task draw the groups of its own rows. The
    groups have the same distribution as for a file.

    Parameters
    ----------
    schema : Schema
        Declared columns.
    source : Source
        Source of the frame, possibly filtered.
    threads : int
        Unused.

    """

    has_rows = False  # the rows might not fit into memory

    def __init__(self, schema: Schema, source: Source, *, threads: int | None = 1) -> None:
        if schema.person_means:
            raise SourceError(NO_MEANS_MESSAGE)
        super().__init__(schema, source, threads=threads)
        self._tests = source.tests if isinstance(source, FilteredSource) else ()
        self._source = source  # the cluster groups the rows by person
        self._table = _unfiltered(source)
        self._table.require_workers()

    def integer_rows(self) -> IntegerRows:
        """Raise `MechanismError`, because the rows might not fit into memory."""
        raise MechanismError(IN_MEMORY_MESSAGE)

    def _sums(
        self,
        encoder: Encoder,
        empty: Callable[[], Sum[Total]],
        groups: int = 1,
        labels: Entropy | None = None,
    ) -> list[tuple[Total, int]]:
        """Return the sum over the rows of each group, and its number of privacy units."""
        key = b"" if labels is None else labels.words(4).tobytes()
        columns = tuple(with_tested(self.schema.needed, self._tests))
        query = Query(self.schema, columns, encoder, empty, groups, self._tests, key)
        sums = packed_sums(query, self._table.columns(columns))
        found: dict[int, Any] = {}
        for row in merged_sums(sums).collect():
            add_part(found, row.part, row.units, row.integers)
        return [(total.total(), count) for total, count in unpacked(query, found)]


def packed_sums(query: Query, frame: Any) -> Any:
    """Return a frame with the packed sums of each task, without noise.

    Parameters
    ----------
    query : Query
        Query of the tasks.
    frame : pyspark.sql.DataFrame
        Rows.

    Returns
    -------
    pyspark.sql.DataFrame

    """
    unit = query.schema.unit
    if unit is None:
        return _map_batches(frame, functools.partial(sums_of_rows, query), SUM_COLUMNS)
    ranked = _map_batches(frame, functools.partial(integer_rows, query), ROW_COLUMNS)
    # A failed task returns a row without an id. Such a row comes first in its group and is kept.
    chosen = ranked.selectExpr("id", "integers", PLACE_EXPRESSION).where(
        f"place <= {unit.max_rows}"
    )
    return _map_batches(chosen, functools.partial(sums_of_ranked, query), SUM_COLUMNS)


def merged_sums(sums: Any) -> Any:
    """Return a frame with the sums of all tasks, added by `MERGE_TASKS` tasks, without noise.

    One merging task receives all parts of the sum of a task. If Spark repeats a lost task, the new
    sum can differ, because groups are drawn again. The new sum then replaces the whole old sum and
    never a part of it. Otherwise a row could contribute more than one w w^T to one group, and the
    sensitivities would be wrong.

    Parameters
    ----------
    sums : pyspark.sql.DataFrame
        Result of `packed_sums`.

    Returns
    -------
    pyspark.sql.DataFrame

    """
    by_task = sums.selectExpr("*", "spark_partition_id() AS task").repartition(MERGE_TASKS, "task")
    return _map_batches(by_task.drop("task"), merged, SUM_COLUMNS)


def is_spark(source: Source) -> bool:
    """Return True if the rows of a source are in a Spark cluster."""
    return isinstance(_unfiltered(source), SparkSource)


def _unfiltered(source: Source) -> Any:
    """Return the source without its filter."""
    return source.source if isinstance(source, FilteredSource) else source


def _arrow_type(kind: Any) -> pa.DataType:
    """Return the Arrow type of a Spark type; an empty struct for an unsupported type."""
    if kind.typeName() == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    return ARROW_TYPES.get(kind.typeName(), pa.struct([]))


def _is_deterministic(frame: Any) -> bool:
    """Return True if the result for a row depends on this row alone.

    For Spark Connect, the function searches the text of the query plan.
    """
    if hasattr(frame, "_jdf"):
        analyzed = frame._jdf.queryExecution().analyzed()
        return bool(analyzed.deterministic()) and not _SAMPLE_STEP.search(analyzed.toString())
    settings = frame.sparkSession.conf
    before = settings.get(MAX_FIELDS_SETTING)
    settings.set(MAX_FIELDS_SETTING, "1000000")
    plan = frame._explain_string(extended=True)
    settings.set(MAX_FIELDS_SETTING, before)
    return not (_CHANGING_FUNCTION.search(plan) or _SAMPLE_STEP.search(plan))


def _map_batches(
    frame: Any, task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], columns: str
) -> Any:
    """Apply a task to a frame."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    return frame.mapInArrow(run, columns)


def _version(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the version of dpcov that a worker has."""
    for _ in batches:
        yield pa.record_batch([[version("dpcov")]], names=["version"])
