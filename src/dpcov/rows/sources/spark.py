"""Spark data frames: every task sums its rows, and the sums are added exactly.

Only calls of the DataFrame API are used, so that Spark Connect serves as well. dpcov must be
installed, in the same version, where Spark's Python workers run. See docs/notes/spark.md.
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
    images,
    merged,
    sums_of_images,
    sums_of_rows,
    unpacked,
)
from dpcov.rows.sources.quiet import quiet
from dpcov.rows.sources.rows import IN_MEMORY, IntegerRows, Rows, Sum, Total

if TYPE_CHECKING:
    from dpcov.core.entropy import Entropy
    from dpcov.rows.encoder import Encoder
    from dpcov.rows.schema import Schema

TYPES = {
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
SUMS = "part bigint, units bigint, integers binary"
IMAGES = "id binary, rank bigint, image binary"
PLACED = "row_number() OVER (PARTITION BY id ORDER BY rank, image) AS place"
MERGERS = 8  # as many sums reach the driver at most
STREAM = "A streaming data frame never ends. Give one that is read from stored data."
CHANGING = (
    "The query of this Spark data frame draws random numbers or numbers its rows, so that one row "
    "changes others. Store the frame, and give what is read from there. Nothing was spent."
)
# As a plan spells what depends on more than a row, where Spark does not say it itself.
_SAMPLED = re.compile(r"^\W*Sample [0-9]", re.MULTILINE)
_CHANGING = re.compile(
    r"\b(rand|randn|random|uniform|randstr|uuid|shuffle|monotonically_increasing_id|"
    r"spark_partition_id|input_file_\w+)\(",
    re.IGNORECASE,
)
FIELDS = "spark.sql.debug.maxToStringFields"  # how many of them a plan spells
NO_WORKERS = (
    "The Python workers of this Spark cluster can't run this version of dpcov: install it, and the "
    "same Python, where they run. Nothing was spent."
)


def is_frame(data: object) -> bool:
    """Whether `data` is a Spark data frame, of a classic session or of Spark Connect."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")
        for kind in type(data).__mro__
    )


class SparkSource(Source):
    """A Spark data frame; its rows stay in the cluster."""

    kind = "spark"
    ordered = False

    def __init__(self, frame: Any) -> None:
        if frame.isStreaming:
            raise SourceError(STREAM)
        if not _is_deterministic(frame):
            raise SourceError(CHANGING)
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
        raise SourceError("The rows of a Spark data frame are read where they are.")

    @quiet(NO_WORKERS)
    def require_workers(self) -> None:
        """Refuse, before anything is spent, a cluster whose workers have another dpcov, or none."""
        if self._workers_run:
            return
        one = self._frame.sparkSession.range(0, 1, 1, 1)
        versions = [row.version for row in one.mapInArrow(_version, "version string").collect()]
        if versions != [version("dpcov")]:
            raise SourceError(NO_WORKERS)
        self._workers_run = True

    def columns(self, names: Sequence[str]) -> Any:
        """A frame of these columns in this order, found by their place, whatever their names."""
        plain = self._frame.toDF(*(f"c{at}" for at in range(len(self.names))))
        return plain.select(*(f"c{self.names.index(name)}" for name in names))


class SparkRows(Rows):
    """The rows of a Spark data frame, seen through its schema.

    Moments and counts are those of the same rows in one file, to the last bit; groups are drawn by
    the tasks, hence with the same law.
    """

    has_rows = False  # they may not fit in memory

    def __init__(self, schema: Schema, source: Source, *, threads: int | None = 1) -> None:
        super().__init__(schema, source, threads=threads)
        self._tests = source.tests if isinstance(source, FilteredSource) else ()
        self._source = source  # the cluster finds a person's rows
        self._table = _unfiltered(source)
        self._table.require_workers()

    def integer_rows(self) -> IntegerRows:
        """Can't be told: they may not fit in memory."""
        raise MechanismError(IN_MEMORY)

    def _sums(
        self,
        encoder: Encoder,
        empty: Callable[[], Sum[Total]],
        groups: int = 1,
        labels: Entropy | None = None,
    ) -> list[tuple[Total, int]]:
        key = b"" if labels is None else labels.words(4).tobytes()
        columns = tuple(with_tested(self.schema.needed, self._tests))
        query = Query(self.schema, columns, encoder, empty, groups, self._tests, key)
        sums = packed_sums(query, self._table.columns(columns))
        found: dict[int, Any] = {}
        for row in merged_sums(sums).collect():
            add_part(found, row.part, row.units, row.integers)
        return [(total.total(), count) for total, count in unpacked(query, found)]


def packed_sums(query: Query, frame: Any) -> Any:
    """A frame of the packed sums of each task that has rows of `frame`. SENSITIVE."""
    unit = query.schema.unit
    if unit is None:
        return _mapped(frame, functools.partial(sums_of_rows, query), SUMS)
    ranked = _mapped(frame, functools.partial(images, query), IMAGES)
    # What failed tasks sent in place of images has no id, hence a place of its own, and is kept.
    chosen = ranked.selectExpr("id", "image", PLACED).where(f"place <= {unit.max_rows}")
    return _mapped(chosen, functools.partial(sums_of_images, query), SUMS)


def merged_sums(sums: Any) -> Any:
    """The `packed_sums` of all tasks, added up by `MERGERS` tasks. SENSITIVE.

    All that a task sent goes to one of them. Spark runs a task again where a machine is lost, and
    what comes out then may differ (groups are drawn afresh; the frame's own query may depend on the
    order of rows): it replaces the whole sum of that task, never a part of it. Else what a row adds
    might not be one w w^T to one group, which the sensitivities are for.
    """
    by_task = sums.selectExpr("*", "spark_partition_id() AS task").repartition(MERGERS, "task")
    return _mapped(by_task.drop("task"), merged, SUMS)


def is_spark(source: Source) -> bool:
    """Whether the rows of a source are in a Spark cluster."""
    return isinstance(_unfiltered(source), SparkSource)


def _unfiltered(source: Source) -> Any:
    return source.source if isinstance(source, FilteredSource) else source


def _arrow_type(kind: Any) -> pa.DataType:
    """In which a column comes to the workers; one of no values for what is not read."""
    if kind.typeName() == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    return TYPES.get(kind.typeName(), pa.struct([]))


def _is_deterministic(frame: Any) -> bool:
    """Whether the frame's query is a function of each row; of Spark Connect by the plan's words."""
    if hasattr(frame, "_jdf"):
        analyzed = frame._jdf.queryExecution().analyzed()
        return bool(analyzed.deterministic()) and not _SAMPLED.search(analyzed.toString())
    settings = frame.sparkSession.conf
    before = settings.get(FIELDS)
    settings.set(FIELDS, "1000000")
    plan = frame._explain_string(extended=True)
    settings.set(FIELDS, before)
    return not (_CHANGING.search(plan) or _SAMPLED.search(plan))


def _mapped(
    frame: Any, task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], columns: str
) -> Any:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    return frame.mapInArrow(run, columns)


def _version(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The version of dpcov that a worker has."""
    for _ in batches:
        yield pa.record_batch([[version("dpcov")]], names=["version"])
