"""Tables of a catalog of Spark, by SQL: any catalog with ALTER TABLE and MERGE.

    SqlTarget(catalog="lake", provider="iceberg")     lake.shop.orders for the table shop.orders

The properties of a table have what the ingestion keeps beside its rows:

| property | value |
| --- | --- |
| `kvformat.ingest` | the query that writes the table |
| `kvformat.table` | the table's name in parts, as JSON: a catalog folds case, and may join parts |
| `kvformat.partition-keys` | the columns that partition it, as JSON |
| `kvformat.written` | the last append, if the catalog has no better place for it |

A merge gives the same table when it is repeated, an append does not. So an append carries its position in the query:
a number that grows with the batch. Where a statement can carry it too (`position_settings`), so does a merge. Then a
driver that was replaced, and goes on late, can't merge old rows over newer ones.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kvformat.ingestion.errors import UnsupportedChangeError, table_error
from kvformat.ingestion.pipeline.options import OF_TABLES
from kvformat.ingestion.schemas import events
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.schemas.types import STRING
from kvformat.ingestion.targets.session_catalog import check_keeps_rows, forgets_tables
from kvformat.ingestion.targets.session_settings import shared_settings
from kvformat.ingestion.targets.target import (
    OWNER_PROPERTY,
    TABLE_PROPERTY,
    BatchWrite,
    TableOptions,
    Target,
    TargetSchema,
    check_order,
    check_owner,
)
from kvformat.ingestion.targets.types import (
    NOT_IN_LAKES,
    ONLY_IN_FLINK,
    Strategy,
    converted_rows,
    normalized_schema,
    stored_columns,
    stored_type,
    type_ddl,
    with_change_columns,
    without_change_columns,
)
from kvformat.registry.contract.changelog import UNCHANGED
from kvformat.registry.contract.errors import ConfigurationError, listed
from kvformat.registry.contract.types import FlinkType, quoted
from kvformat.registry.spark.decoded_columns import ROW_KIND, exact_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from kvformat.ingestion.pipeline.sink import PipelineSink
    from kvformat.registry.contract.options import Option

_PARTITIONS = "kvformat.partition-keys"
_WRITTEN = "kvformat.written"
LOG = logging.getLogger("kvformat.ingest")
_PLAIN_NAME = re.compile(r"\w+", re.ASCII)  # what Spark's own catalog takes
VERSIONS_TOGETHER = (
    "Delta Lake 4.4.0 with PySpark 4.1 (io.delta:delta-spark_4.1_2.13 and io.delta:delta-storage) or 4.2 "
    "(io.delta:delta-spark_4.2_2.13); Iceberg 1.12.0 with PySpark 4.1 "
    "(org.apache.iceberg:iceberg-spark-runtime-4.1_2.13); with PySpark 4.3, paths ('delta' with 'path') and topics"
)


@dataclass(frozen=True)
class SqlTarget(Target):
    """Tables of a catalog. `DeltaTarget` and `IcebergTarget` know what theirs can do; others get by with ANSI SQL.

    catalog: the catalog, None for the session's own. namespace: in front of the tables' names, with dots between parts.
    provider: the format of created tables (`USING`), None for the catalog's own.
    types: the value of `sink.type-normalize-strategy`. properties: those of created tables.
    write_mode: `merge` keeps the last row of each key; `append` keeps all changes, with their kinds and places.
    nested: whether the catalog has namespaces in namespaces. Otherwise their names are joined by `_`.
    rewrite_max_bytes: the largest table that `rewrite` writes again.

    A table without a namespace is in `default`. Added columns are nullable.
    """

    catalog: str | None = None
    namespace: str | None = None
    provider: str | None = None
    types: Strategy = "standard"
    create_tables: bool = True
    write_mode: Literal["merge", "append"] = "merge"
    properties: Mapping[str, str] = field(default_factory=dict)
    rewrite_max_bytes: int = 2**30
    nested: bool = False

    as_text: ClassVar[Collection[str]] = (*ONLY_IN_FLINK, *NOT_IN_LAKES)
    """Kinds of types that become STRING."""

    option_specs: ClassVar[tuple[Option, ...]] = OF_TABLES

    @classmethod
    def from_sink(cls, sink: PipelineSink) -> Target:
        """Return the target of a checked sink."""
        values = sink.values
        return cls(
            catalog=values["catalog"],
            namespace=values["namespace"],
            types=values["sink.type-normalize-strategy"],
            create_tables=values["create-tables"],
            write_mode=values["write-mode"],
            properties=dict(values["table-properties"]),
            rewrite_max_bytes=values["rewrite.max-bytes"],
        )

    @classmethod
    def describe(cls, sink: PipelineSink) -> list[str]:
        """Return the lines of `Pipeline.explain`."""
        values = sink.values.shown
        place = [values[key] for key in ("catalog", "namespace", "path") if values.get(key)]
        lines = [f"{'path' if values.get('path') else 'tables'}: {'.'.join(map(str, place))}"] if place else []
        append = values["write-mode"] == "append"
        lines.append("rows: every change, with its kind and place" if append else "rows: the last of each key, merged")
        lines.append("batches: one write for each table that has records; 'trigger' sets the time between batches")
        if values["sink.type-normalize-strategy"] != "standard":
            lines.append(f"types: {values['sink.type-normalize-strategy']}")
        lines += [f"property {key} = {value!r}" for key, value in values["table-properties"].items()]
        return lines if values["create-tables"] else [*lines, "tables must exist"]

    @property
    def rows(self) -> Literal["latest", "changes"]:
        """`changes` for the write mode `append`."""
        return "changes" if self.write_mode == "append" else "latest"

    # --- what catalogs do differently ------------------------------------------------------------------------------

    def own_properties(self) -> dict[str, str]:
        """Return the properties that created tables need."""
        return {}

    def widens(self, source: DataType, target: DataType) -> bool:
        """Whether ALTER COLUMN changes a column from one type of Spark to another."""
        return False

    def size(self, name: str) -> int | None:
        """Return the size of a table in bytes, or None if it is not known. Such a table is not rewritten."""
        return None

    def kept_properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the properties of a table that it keeps when it is written again."""
        return dict(properties)

    def require(self, name: str, columns: Sequence[str]) -> None:
        """Make columns NOT NULL again after `rewrite`. By default this only logs a warning."""
        LOG.warning("the table %s was rewritten, and its columns %s are no longer NOT NULL", name, ", ".join(columns))

    def written(self, name: str, query: str) -> int:
        """Return the position of the query's last write to a table, as far as it is known, or -1."""
        last, _, position = self._properties(name).get(_WRITTEN, "").rpartition(" ")
        return int(position) if last == query else -1

    def position_settings(self, query: str, position: int) -> dict[str, str] | None:
        """Return the settings of the session with which a statement keeps its position in its own commit.

        None if the catalog has none. Then the position of an append is kept in a property after it: a query that dies
        between the two appends twice. That of a merge is not kept.
        """
        return None

    def register(self, table: TableId) -> bool:
        """Register a table that the catalog has forgotten, if its files are where the catalog would create it."""
        return False

    # --- tables ----------------------------------------------------------------------------------------------------

    @property
    def forgets_tables(self) -> bool:
        """Whether it is Spark's own catalog, in memory, which is PySpark's default."""
        return forgets_tables(self.spark, self.catalog)

    def remember(self, tables: Collection[TableId]) -> None:
        """Register the tables again, and name those whose files are not found in a warning."""
        lost = [str(table) for table in tables if self.schema(table) is None]
        if lost:
            LOG.warning(
                "the catalog has forgotten these tables of the query, and their files are not where it creates tables. "
                "They are created again, empty, when records come. If their rows are elsewhere, stop the query and "
                "register them (CREATE TABLE ... USING %s LOCATION '...'): %s",
                *(self.provider, listed(lost)),
            )

    def schema(self, table: TableId) -> TargetSchema | None:
        """Return the table as it is now, or None if there is none.

        A table that the catalog has forgotten is registered again. Raises `SchemaChangeError` if the catalog has
        another table of this name, which differs in case or in its parts.
        """
        name = self._name(table)
        stored = self._columns(name)
        if stored is None and self.register(table):
            stored = self._columns(name)
        if stored is None:
            return None
        properties = self._properties(name)
        parts = json.loads(properties.get(TABLE_PROPERTY, "null"))
        if parts is not None and parts != self._parts(table):
            raise table_error(
                table,
                f"the catalog has it already, as {name} for the table {'.'.join(parts)}: it folds case, "
                "or joins namespaces. Route one of them to another name",
            )
        return TargetSchema(without_change_columns(stored, self.rows), properties.get(OWNER_PROPERTY))

    def create(self, table: TableId, schema: TableSchema, options: TableOptions, owner: str) -> None:
        """Create the table and its namespace, unless they are there.

        Raises `SchemaChangeError` if `create_tables` is false.
        """
        if self.schema(table) is not None:
            return
        name, namespace = self._name(table), self._namespace(table)
        if not self.create_tables:
            raise table_error(table, f"there is no table {name}, and 'create-tables' is false")
        stored = with_change_columns(self._normalized(schema), self.rows)
        keys = stored.primary_key if self.rows == "latest" else ()
        columns = [_column_ddl(c, required=c.name in keys or not c.type.nullable) for c in stored.columns]
        marks = {TABLE_PROPERTY: self._parts(table), _PARTITIONS: options.partition_keys}
        properties = {**self.own_properties(), **self.properties, **options.properties, OWNER_PROPERTY: owner}
        properties |= {key: json.dumps(value, ensure_ascii=False) for key, value in marks.items()}
        partitions = ", ".join(map(quoted, options.partition_keys))
        with self._without_position(owner):
            self._sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
            self._sql(
                f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(columns)})"
                + (f" USING {self.provider}" if self.provider else "")
                + (f" PARTITIONED BY ({partitions})" if partitions else "")
                + f" TBLPROPERTIES ({_pairs(properties)})"
            )

    def unlike(self, table: TableId, options: TableOptions) -> list[str]:
        """Return the options of the rules that a table was created without."""
        properties = self._properties(self._name(table))
        keys = [key for key, value in options.properties.items() if properties.get(key) != value]
        partitions = json.loads(properties.get(_PARTITIONS, "[]"))
        return [*keys, *(["partition-keys"] if [*options.partition_keys] != partitions else [])]

    def own(self, table: TableId, owner: str) -> None:
        """Make the query the owner of a table that is there."""
        name = self._name(table)
        if self._properties(name).get(OWNER_PROPERTY) != owner:
            with self._without_position(owner):
                self._sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({_pairs({OWNER_PROPERTY: owner})})")

    def change(self, event: events.SchemaEvent, schema: TableSchema, batch: BatchWrite) -> None:
        """Apply a change of a table. Raises `UnsupportedChangeError` for a type that the table can't get in place."""
        name = self._name(event.table)
        if isinstance(event, events.CreateTable):
            self.create(event.table, event.schema, TableOptions(), batch.query)
        elif isinstance(event, events.DropTable):
            self._make(event, f"DROP TABLE IF EXISTS {name}")
        elif isinstance(event, events.TruncateTable):
            if self._columns(name) is not None:
                check_owner(event.table, self._properties(name).get(OWNER_PROPERTY), batch.query)
                self._truncate(name, schema, batch)
        else:
            columns = self._columns(name)
            if columns is None:
                raise table_error(event.table, f"there is no table {name}")
            with self._without_position(batch.query):
                self._alter(name, event, {column.name: column.dataType for column in columns.fields})

    def can_change(self, now: DataType, wanted: FlinkType) -> bool:
        """Whether the table gets the type in place."""
        return self.widens(now, self._normalized_type(wanted))

    def rewrite(self, table: TableId, schema: TableSchema) -> None:
        """Write the table again with the types of a schema: CREATE OR REPLACE TABLE AS SELECT, one commit.

        Columns that the schema lacks stay. Spark makes all columns of such a table nullable, unless the catalog does
        not want that; `require` makes up for it. Raises `UnsupportedChangeError` for a table that is
        larger than `rewrite_max_bytes`, or was not created by a query like this one.
        """
        from pyspark.sql.types import StructType

        name = self._name(table)
        properties, size, now = self._properties(name), self.size(name), self._columns(name)
        begin = f"table {table}: {name} must be written again to change the types of its columns"
        hint = "'sink.type-normalize-strategy' = 'broaden' creates tables whose types change less often"
        if now is None or TABLE_PROPERTY not in properties:
            raise UnsupportedChangeError(
                f"{begin}, and the ingestion has not created it: change it by hand", table=str(table)
            )
        if size is None or size > self.rewrite_max_bytes:
            shown = "has an unknown size" if size is None else f"has {size:,} bytes"
            raise UnsupportedChangeError(
                f"{begin}. It {shown}, and 'rewrite.max-bytes' is {self.rewrite_max_bytes:,}: raise that, or change "
                f"the table by hand; {hint}",
                table=str(table),
            )
        wanted = {column.name: column for column in stored_columns(self._normalized(schema)).fields}
        columns = StructType([wanted.get(c.name, c) for c in now.fields])
        rows = converted_rows(self.spark.table(name), columns, forms=schema.forms())
        writer = rows.writeTo(name)
        if self.provider:
            writer = writer.using(self.provider)
        for key, value in self.kept_properties(properties).items():
            writer = writer.tableProperty(key, value)
        partitions = [exact_column(key) for key in json.loads(properties.get(_PARTITIONS, "[]"))]
        with self._without_position(properties[OWNER_PROPERTY]):
            (writer.partitionedBy(*partitions) if partitions else writer).createOrReplace()
            rewritten = self._columns(name)
            for column in now.fields:  # Spark drops the comment of a column that gets another type
                comment = column.metadata.get("comment")
                if comment and rewritten[column.name].metadata.get("comment") != comment:
                    self._sql(f"ALTER TABLE {name} ALTER COLUMN {quoted(column.name)} COMMENT {literal(comment)}")
            lost = [c.name for c in now.fields if rewritten[c.name].nullable and c.name in schema.primary_key]
            if lost:
                self.require(name, lost)

    def write(self, table: TableId, schema: TableSchema, rows: DataFrame, batch: BatchWrite) -> None:
        """Write the rows of a batch: a MERGE for a table with a key, an append for others."""
        name = self._name(table)
        columns = self._columns(name)
        if columns is None:
            raise table_error(table, f"there is no table {name}")
        check_owner(table, self._properties(name).get(OWNER_PROPERTY), batch.query)
        if schema.primary_key and self.rows == "latest":
            kept = type(columns)([column for column in columns.fields if column.name in schema.names])
            changes = converted_rows(rows, kept, (ROW_KIND, UNCHANGED), forms=schema.forms())
            self._once(name, batch, 1, lambda: _merge(name, changes, schema.primary_key), repeatable=True)
        else:
            appended = converted_rows(rows, columns, forms=schema.forms())
            self._once(name, batch, 1, lambda: appended.writeTo(name).append())

    def probe(self) -> None:
        """Create, change, merge twice and drop a small table.

        Raises `ConfigurationError` with the versions that go together, and for a catalog that loses its tables.
        """
        check_keeps_rows(self.spark, self.catalog)
        table = TableId((f"kvformat_probe_{uuid.uuid4().hex[:12]}",))
        key = replace(FlinkType("INT"), nullable=False)
        schema = TableSchema((SchemaColumn("id", key), SchemaColumn("v", STRING)), ("id",))
        batch = BatchWrite("probe", 0)
        try:
            self.create(table, schema, TableOptions(), batch.query)
            event = events.AddColumns(table, (events.AddedColumn(SchemaColumn("w", STRING)),))
            schema = event.apply(schema)
            self.change(event, schema, batch)
            for n in range(2):
                rows = self.spark.sql(f"SELECT 1 AS id, '{n}' AS v, 'a' AS w, '+U' AS {ROW_KIND}")
                self.write(table, schema, rows, replace(batch, batch_id=n))
            self._sql(f"DROP TABLE {self._name(table)}")
        except Exception as error:  # a library of another version fails with any error, also of Java
            with suppress(Exception):
                self._sql(f"DROP TABLE IF EXISTS {self._name(table)}")
            first = str(error).strip().partition("\n")[0][:500]
            raise ConfigurationError(
                f"the sink can't write tables of {self.catalog or 'the session'}: {type(error).__name__}: {first}. "
                f"{self._needs()}Versions that go together: {VERSIONS_TOGETHER}"
            ) from error

    def _needs(self) -> str:
        """Return the settings of the session that the target needs, for the error of `probe`."""
        return ""

    # --- statements ------------------------------------------------------------------------------------------------

    def _alter(self, name: str, event: events.SchemaEvent, now: Mapping[str, DataType]) -> None:
        """Apply a change of columns, without what is done already."""
        if isinstance(event, events.AddColumns):
            missing = [added for added in event.columns if added.column.name not in now]
            if all(added.place == "LAST" for added in missing):
                if missing:
                    texts = ", ".join(self._added(added.column) for added in missing)
                    self._make(event, f"ALTER TABLE {name} ADD COLUMNS ({texts})")
                return
            names = [*now]
            for added in missing:
                self._make(
                    event, f"ALTER TABLE {name} ADD COLUMNS ({self._added(added.column)}{_position(added, names)})"
                )
        elif isinstance(event, events.AlterColumnTypes):
            types = [(column, self._normalized_type(t), t.nullable) for column, t in event.types if column in now]
            for column, t, nullable in types:
                if t != now[column]:
                    self._widen(name, event, column, now[column], t)
                columns = self._columns(name) if nullable else None
                if columns is not None and not columns[column].nullable:
                    self._make(event, f"ALTER TABLE {name} ALTER COLUMN {quoted(column)} DROP NOT NULL")
        elif isinstance(event, events.RenameColumns):
            for old, new in event.names:
                if old in now and new not in now:
                    self._make(event, f"ALTER TABLE {name} RENAME COLUMN {quoted(old)} TO {quoted(new)}")
        elif isinstance(event, events.DropColumns) and (dropped := [c for c in event.columns if c in now]):
            self._make(event, f"ALTER TABLE {name} DROP COLUMNS ({', '.join(map(quoted, dropped))})")

    def _widen(self, name: str, event: events.AlterColumnTypes, column: str, now: DataType, wanted: DataType) -> None:
        statement = f"ALTER TABLE {name} ALTER COLUMN {quoted(column)} TYPE {type_ddl(wanted)}"
        if not self.widens(now, wanted):
            raise table_error(
                event.table,
                f"the target can't change {column!r} from {type_ddl(now)} to {type_ddl(wanted)} in place ({statement})",
                UnsupportedChangeError,
            )
        self._make(event, statement)

    def _truncate(self, name: str, schema: TableSchema, batch: BatchWrite) -> None:
        """Delete all rows. Appended rows that come later in the batch stay, because they are not appended again."""
        from pyspark.sql import functions as F

        if schema.primary_key and self.rows == "latest":
            self._once(name, batch, 0, lambda: self._sql(f"DELETE FROM {name} WHERE true"), repeatable=True)
        else:
            nothing = self.spark.table(name).where(F.lit(False))
            self._once(name, batch, 0, lambda: nothing.writeTo(name).overwrite(F.lit(True)))

    def _once(
        self,
        name: str,
        batch: BatchWrite,
        step: Literal[0, 1],
        write: Callable[[], object],
        *,
        repeatable: bool = False,
    ) -> None:
        """Call `write` once. `step` is 0 for a change and 1 for rows of the same part.

        What is `repeatable` may be written twice, if the whole batch is. Raises `ConfigurationError` if the table has a
        later batch of the query.
        """
        position = batch.position(step)
        settings = self.position_settings(batch.query, position)
        if repeatable and (settings is None or not batch.counted):
            write()
            return
        written = self.written(name, batch.query)
        check_order(name, written, batch)
        if written >= position:
            return
        if settings is None:
            write()
            self._sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({_pairs({_WRITTEN: f'{batch.query} {position}'})})")
        else:
            with shared_settings(self.spark, batch.query, settings):
                write()

    def _without_position(self, query: str) -> AbstractContextManager[None]:
        """Run statements that are not writes of rows, while no write of the query gives the session its position.

        A commit with that position counts as the write of its table, which would then be left out.
        """
        return shared_settings(self.spark, query, {})

    def _added(self, column: SchemaColumn) -> str:
        return _column_ddl(replace(column, type=self._normalized_flink(column.type)), required=False)

    def _make(self, event: events.SchemaEvent, statement: str) -> None:
        """Run the statement of a change. Raises `SchemaChangeError` with the statement and the answer if it fails."""
        from pyspark.errors import PySparkException

        try:
            self._sql(statement)
        except PySparkException as cause:
            answer = str(cause).strip().partition("\n")[0]
            raise table_error(event.table, f"{event.tag} fails: {statement}: {answer}") from cause

    def _sql(self, statement: str) -> list[Any]:
        return self.spark.sql(statement).collect()

    # --- names and types -------------------------------------------------------------------------------------------

    def _parts(self, table: TableId) -> list[str]:
        """Return the namespace option and the table's name, in parts."""
        return [*(self.namespace.split(".") if self.namespace else ()), *table.parts]

    def _namespace(self, table: TableId) -> str:
        *spaces, _ = self._parts(table)
        if len(spaces) > 1 and not self.nested:
            spaces = ["_".join(spaces)]
        return ".".join(map(quoted, [*([self.catalog] if self.catalog else []), *(spaces or ["default"])]))

    def _name(self, table: TableId) -> str:
        """Return the table's name in statements. Raises `SchemaChangeError` for one that Spark's catalog refuses."""
        if self.catalog is None:
            for part in self._parts(table):
                if not _PLAIN_NAME.fullmatch(part):
                    raise table_error(
                        table,
                        f"{part!r} can't be a name in Spark's own catalog, which takes letters, digits "
                        "and '_': route it to another name, or set 'catalog'",
                    )
        return f"{self._namespace(table)}.{quoted(table.table)}"

    def _columns(self, name: str) -> Any:
        """Return the columns of a table as a `StructType`, or None if there is no such table."""
        from pyspark.errors import AnalysisException

        try:
            return self.spark.table(name).schema
        except AnalysisException as error:
            if error.getCondition() not in ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND"):
                raise
            return None

    def _properties(self, name: str) -> dict[str, str]:
        return {row["key"]: row["value"] for row in self._sql(f"SHOW TBLPROPERTIES {name}")}

    def _normalized(self, schema: TableSchema) -> TableSchema:
        return normalized_schema(schema, self.types, self.as_text)

    def _normalized_flink(self, t: FlinkType) -> FlinkType:
        return self._normalized(TableSchema((SchemaColumn("c", t),))).columns[0].type

    def _normalized_type(self, t: FlinkType) -> DataType:
        return stored_type(self._normalized_flink(t))


def _column_ddl(column: SchemaColumn, *, required: bool) -> str:
    comment = f" COMMENT {literal(column.comment)}" if column.comment else ""
    return f"{quoted(column.name)} {type_ddl(stored_type(column.type))}{' NOT NULL' if required else ''}{comment}"


def _position(added: events.AddedColumn, names: list[str]) -> str:
    """Return the place of a new column, and insert it into `names`. SQL has no BEFORE."""
    place = added.place if added.place in ("FIRST", "LAST") or added.beside in names else "LAST"
    if place == "FIRST":
        index = 0
    elif place == "LAST":
        index = len(names)
    else:
        index = names.index(str(added.beside)) + (place == "AFTER")
    names.insert(index, added.column.name)
    if place == "LAST":
        return ""
    return f" AFTER {quoted(names[index - 1])}" if index else " FIRST"


def literal(text: str) -> str:
    """Return a text as a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _pairs(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())


def _merge(name: str, changes: DataFrame, keys: Sequence[str]) -> None:
    """Merge rows with `row_kind` into a table, and keep the old values of `unchanged_columns`."""
    spark, view = changes.sparkSession, f"kvformat_changes_{uuid.uuid4().hex}"
    columns = [column for column in changes.columns if column not in (ROW_KIND, UNCHANGED)]
    source = {column: f"s.c{n}" for n, column in enumerate(columns)}
    named = [exact_column(column).alias(f"c{n}") for n, column in enumerate(columns)]
    kept = [exact_column(column) for column in (ROW_KIND, UNCHANGED) if column in changes.columns]
    changes.select(*named, *kept).createOrReplaceTempView(view)
    new = dict(source)
    if UNCHANGED in changes.columns:
        for column in columns:
            is_unchanged = f"coalesce(array_contains(s.{UNCHANGED}, {literal(column)}), false)"
            new[column] = f"CASE WHEN {is_unchanged} THEN t.{quoted(column)} ELSE {source[column]} END"
    try:
        spark.sql(
            f"MERGE INTO {name} AS t USING {view} AS s "
            f"ON {' AND '.join(f't.{quoted(key)} = {source[key]}' for key in keys)} "
            f"WHEN MATCHED AND s.{ROW_KIND} = '-D' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{quoted(c)} = {value}' for c, value in new.items())} "
            f"WHEN NOT MATCHED AND s.{ROW_KIND} <> '-D' THEN "
            f"INSERT ({', '.join(map(quoted, columns))}) VALUES ({', '.join(source.values())})"
        ).collect()
    finally:
        spark.catalog.dropTempView(view)
