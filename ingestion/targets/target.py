"""The interface of a target: a place that has tables, changes their schemas, and takes the rows of a batch.

A micro-batch may run several times. So each method gives the same result when it is repeated: `create` of a table that
is there, and `change` of a table that has the change already, do nothing.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from kvformat.ingestion.schemas.events import AddColumns, AddedColumn, SchemaEvent
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.registry.contract.changelog import UNCHANGED
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.types import FlinkType, from_spark
from kvformat.registry.spark.decoded_columns import ROW_INDEX, ROW_KIND

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from kvformat.ingestion.pipeline.sink import PipelineSink
    from kvformat.ingestion.store import SchemaStore
    from kvformat.registry.contract.options import Option
    from kvformat.registry.streams.maintain import MaintainableTable


@dataclass(frozen=True, slots=True)
class TargetSchema:
    """What a table in the target is now.

    columns: its columns with Spark's types. owner: the id of the query that writes the table, None if none does.
    """

    columns: StructType
    owner: str | None = None


OWNER_PROPERTY, TABLE_PROPERTY = "kvformat.ingest", "kvformat.table"
"""Properties of tables in a lake: the query that writes the table, and the table's name in parts, as JSON."""
_MOST_PARTS = 1000  # writes of one table in a batch; makes one number of batch and part


def check_owner(table: TableId, owner: str | None, query: str) -> None:
    """Raise `ConfigurationError` for a table that belongs to another query."""
    if owner not in (None, query):
        raise ConfigurationError(
            f"table {table} is written by another query ({owner}), and this is the query {query}. Stop the other one "
            "and start with take_over=True, or write to another table. A query with a new checkpoint is another query"
        )


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What only the creation of a table sets: the columns that partition it, and its properties."""

    partition_keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BatchWrite:
    """A write of a micro-batch, or the place of a change in it.

    The same three values mean the same rows, which must come out once. A change with a `part` comes before the write of
    this part, and after the write of the part before.

    query: the id of the query, which its checkpoint keeps. batch_id: Spark's number of the batch, from 0.
    part: counts the writes of one table in a batch, from 0: rows before and after a TRUNCATE are two.
    counted: whether batches of a query only grow. With False they may begin at 0 again, so they tell nothing about age.
    """

    query: str
    batch_id: int
    part: int = 0
    counted: bool = True

    def position(self, step: Literal[0, 1]) -> int:
        """Return the position among all writes of the query. `step` is 0 for a change, 1 for the rows of the part.

        Raises `SchemaChangeError` for too many parts.
        """
        if self.part >= _MOST_PARTS:
            from kvformat.ingestion.errors import SchemaChangeError

            raise SchemaChangeError(
                f"a table is truncated {self.part} times in a batch, and {_MOST_PARTS - 1} is the most"
            )
        return (self.batch_id * _MOST_PARTS + self.part) * 2 + step


def batch_of(position: int) -> int | None:
    """Return the batch of a position, None for a negative one, which stands for no write."""
    return None if position < 0 else position // (2 * _MOST_PARTS)


def check_order(table: str, written: int, batch: BatchWrite) -> None:
    """Raise `ConfigurationError` for a batch before the one with the position `written` (-1 if there is none)."""
    newest = batch_of(written)
    if newest is not None and newest > batch.batch_id:
        raise ConfigurationError(
            f"{table} has batch {newest} of this query, but this is batch {batch.batch_id}: the query runs twice, "
            "or its checkpoint is older than the table. Use the newest checkpoint, or another table"
        )


class Target(abc.ABC):
    """A place for tables. It is immutable and picklable, without its session; `with_session` gives it that of a batch.

    Errors of Spark pass. A method that can't do what it is asked raises `UnsupportedChangeError` with the statement.
    """

    identifier: ClassVar[str]
    """The type of sink that makes the target. A target that is only made in Python needs none."""
    option_specs: ClassVar[tuple[Option, ...]] = ()
    """The options of the sink, without `type` and `name`."""
    has_tables: ClassVar[bool] = True
    """Whether the target keeps schemas. A topic does not, so no change is applied to it."""
    has_catalog: ClassVar[bool] = True
    """Whether created tables have the partition keys and properties of a transform."""
    driver_max_bytes: int = 0
    """The most bytes of a batch's rows that `write_rows` takes from the driver. 0 for a target without `write_rows`."""
    _session: SparkSession | None = None

    @property
    def rows(self) -> Literal["latest", "changes"]:
        """What `write` takes. `latest`: one row per key if the table has one; `changes`: all rows with their kinds."""
        return "latest"

    @classmethod
    def from_sink(cls, sink: PipelineSink) -> Target:
        """Return the target of a checked sink; `sink.values` are the parsed options by name."""
        raise ConfigurationError(f"{cls.__name__} can't be made from the options of a sink: make it in Python")

    @classmethod
    def describe(cls, sink: PipelineSink) -> list[str]:
        """Return the lines of `Pipeline.explain` about a sink; by default its options, without secrets."""
        return [f"{key}: {value}" for key, value in sink.options.shown.items() if key not in ("type", "name")]

    def merging(self, table: MaintainableTable, name: str | None = None) -> Callable[[DataFrame, int], None]:
        """Return a function for `KeyValueFormat.maintain`: it creates the table, adds its new columns, and merges.

        `name` is the name of the table in the target, by default that of the `KeyValueFormat`. Raises
        `ConfigurationError` for a target that takes all changes.
        """
        return MaintainedTable.of(self, table, name)

    def with_session(self, spark: SparkSession) -> Self:
        """Return the target for use with a session."""
        target = copy.copy(self)
        object.__setattr__(target, "_session", spark)
        return target

    @property
    def spark(self) -> SparkSession:
        """The session. Raises `ConfigurationError` if the target has none."""
        if self._session is None:
            raise ConfigurationError(f"{type(self).__name__} has no session: call with_session(spark) first")
        return self._session

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_session"}

    def probe(self) -> None:  # noqa: B027 - a target without versions to check needs no probe
        """Create, change, write and drop a small table. Raises `ConfigurationError` with the versions that go together.

        The query calls it once before its first batch.
        """

    @property
    def forgets_tables(self) -> bool:
        """Whether the catalog forgets its tables when the session ends. Then `remember` gets those of the query."""
        return False

    def remember(self, tables: Collection[TableId]) -> None:  # noqa: B027 - only needed with `forgets_tables`
        """Register the tables of the query's earlier starts again. The query calls it once, before its first batch."""

    @abc.abstractmethod
    def schema(self, table: TableId) -> TargetSchema | None:
        """Return the table as it is now, or None if there is none."""

    @abc.abstractmethod
    def create(self, table: TableId, schema: TableSchema, options: TableOptions, owner: str) -> None:
        """Create the table, owned by the query `owner`, unless it is there."""

    def unlike(self, table: TableId, options: TableOptions) -> list[str]:
        """Return the options of the rules that a table was created without. By default none."""
        return []

    @abc.abstractmethod
    def own(self, table: TableId, owner: str) -> None:
        """Make the query the owner of a table that is there."""

    @abc.abstractmethod
    def change(self, event: SchemaEvent, schema: TableSchema, batch: BatchWrite) -> None:
        """Apply a change of a table; `schema` is the table's schema after it, `batch` the change's place.

        Raises `UnsupportedChangeError` if the target can't. Then the query may call `rewrite`.
        """

    def can_change(self, now: DataType, wanted: FlinkType) -> bool:
        """Whether `change` can give a column another type. If not, `try_evolve` fits the rows to the column."""
        return True

    def rewrite(self, table: TableId, schema: TableSchema) -> None:
        """Write the table again with the types of a schema. By default raises `UnsupportedChangeError`."""
        from kvformat.ingestion.errors import UnsupportedChangeError, table_error

        raise table_error(table, f"{type(self).__name__} can't change the types of a table", UnsupportedChangeError)

    @abc.abstractmethod
    def write(self, table: TableId, schema: TableSchema, rows: DataFrame, batch: BatchWrite) -> DataFrame | None:
        """Write the rows of a batch, once even if the batch is repeated.

        Returns None, or records that are not written yet: `write_together` gets them with those of the other tables.

        Raises `ConfigurationError` if the table belongs to another query by now, and for a batch that is older than the
        last one in the table, if the target can tell: its driver was replaced, or its checkpoint is an older copy.

        `rows` has the columns of `schema`, and may have `unchanged_columns`: the names of a row's columns that keep
        their old values. With a primary key, and `rows` = `latest`, there is one row per key, and
        `row_kind`: '+U' for a row to write, '-D' for a key to delete, where only the key columns count. Without a key
        all rows are appended. With `changes` there are all rows in order with `row_kind` ('+I', '-U', '+U', '-D'), and
        `_kvformat_topic`, `_kvformat_partition`, `_kvformat_offset` and `row_index`, which order them.
        """

    def stored(self, schema: TableSchema) -> TableSchema:
        """Return a schema with the types that its columns have in the target. `write_rows` takes such rows."""
        return schema

    def write_rows(self, table: TableId, schema: TableSchema, rows: pa.Table, batch: BatchWrite) -> None:
        """Do what `write` does for rows that are in the driver, with the types of `stored`. They are in order.

        Columns of keys have no nested types, and there are no `unchanged_columns`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no write_rows")

    def write_together(self, records: Sequence[DataFrame], batch: BatchWrite, store: SchemaStore) -> None:
        """Write what the calls of `write` for a batch have returned; `store` is that of the query.

        It is called when all tables of the batch have been written, if there is anything.
        """
        raise NotImplementedError(f"{type(self).__name__}.write returns records, but there is no write_together")


@dataclass(frozen=True)
class MaintainedTable:
    """The merge function of a table that `KeyValueFormat.maintain` keeps current. The table has a declared schema."""

    target: Target
    table: TableId
    keys: tuple[str, ...]

    @classmethod
    def of(cls, target: Target, table: MaintainableTable, name: str | None) -> Self:
        """Return the function for a table. Raises `ConfigurationError` for a target that takes no merges."""
        if not target.has_tables or target.rows != "latest":
            raise ConfigurationError(f"maintain writes the last row of each key, and {target!r} takes all changes")
        return cls(target, TableId.parse(name or table.name), table.key_columns)

    def __call__(self, changes: DataFrame, batch_id: int) -> None:
        """Create the table or add its new columns, and merge. Repeating it gives the same table."""
        target = self.target.with_session(changes.sparkSession)
        fields = [f for f in changes.schema.fields if f.name not in (ROW_KIND, ROW_INDEX, UNCHANGED)]
        columns = tuple(SchemaColumn(f.name, from_spark(f.dataType, f.name not in self.keys, f.name)) for f in fields)
        schema = TableSchema(columns, self.keys)
        batch = BatchWrite(f"maintain {self.table}", batch_id, counted=False)  # its checkpoint has no id of ours
        now = target.schema(self.table)
        if now is None:
            target.create(self.table, schema, TableOptions(), batch.query)
        elif added := tuple(AddedColumn(column) for column in columns if column.name not in now.columns.names):
            target.change(AddColumns(self.table, added), schema, batch)
        target.write(self.table, schema, changes.drop(ROW_INDEX), batch)
