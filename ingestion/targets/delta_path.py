"""Delta tables below a path, written without Spark's Delta package: a folder per table.

    <path>/shop.orders/                      the table shop.orders
        _delta_log/                          its log
        kvformat-<uuid>.parquet              its files

What the ingestion keeps is in the table, and changes in the same commit as its rows or columns:

| in the table | value |
| --- | --- |
| the property `kvformat.ingest` | the query that writes the table |
| the property `kvformat.table` | the table's name in parts, as JSON |
| the property `kvformat.dropped` | `true` for a table that was dropped: it has no rows, and the query finds no table |
| the transaction `kvformat <query>` | the position of the last write |
| `kvformat.type` in a column's metadata | Flink's type of a column that Delta has as STRING |

A new column is a change of the log. For other types, names, and for dropped columns the table is written again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self
from urllib.parse import unquote

from kvformat.ingestion.errors import UnsupportedChangeError, table_error
from kvformat.ingestion.pipeline.options import OF_TABLES
from kvformat.ingestion.schemas import events
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.schemas.types import merge_types, parse_column_type
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
    stored_type,
    with_change_columns,
    without_change_columns,
)
from kvformat.registry.contract.changelog import UNCHANGED
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.options import Option
from kvformat.registry.contract.types import from_spark, nullable
from kvformat.registry.spark.decoded_columns import ROW_KIND, exact_column
from kvformat.registry.streams.delta.log import CommitConflict, DeltaLog, WriterTransaction, checked
from kvformat.registry.streams.delta.storage import TableStorage
from kvformat.registry.streams.delta.table import DRIVER_BYTES, UPKEEP_COMMITS, DeltaFolder, TableWrite

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

    from kvformat.ingestion.pipeline.sink import PipelineSink

DROPPED_PROPERTY = "kvformat.dropped"
"""A property of a dropped table, which stays for the positions of its writers."""
_FLINK_TYPE, _COMMENT = "kvformat.type", "comment"
_QUOTED = re.compile(r"^_|[^\w-]", re.ASCII)
"""Characters of a part of a name that its folder has as `~` and their bytes in hex. Readers skip folders like `_a`."""
_LONGEST_NAME = 255  # bytes of a folder's name in most file systems
_AS_TEXT = (*ONLY_IN_FLINK, *NOT_IN_LAKES)


@dataclass(frozen=True)
class DeltaPathTarget(Target):
    """Delta tables below a path. `read_table` reads them, and so does each reader of Delta.

    path: a folder that all machines share, or the URL of an object store. storage_options: those of deltalake, such as
    `AWS_REGION`; credentials are not shown.
    types: the value of `sink.type-normalize-strategy`. create_tables: whether tables are created.
    write_mode: `merge` keeps the last row of each key; `append` keeps all changes, with their kinds and places.
    properties: those of created tables. rewrite_max_bytes: the largest table that is written again for a change.
    driver_max_bytes: the most bytes of a batch's rows, and of a table's files, that the driver merges itself; Spark's
    tasks merge more.
    upkeep_commits: commits between two runs of compaction and vacuum, 0 for none. Partition keys have no effect.
    """

    identifier: ClassVar[str] = "delta"
    option_specs: ClassVar[tuple[Option, ...]] = (
        Option(name="path", doc="folder of the tables, instead of a catalog; needs no package of Spark"),
        Option(
            name="storage-options",
            type="map",
            sensitive=True,
            doc="with `path`: options of deltalake for an object store, such as `storage-options.AWS_REGION`",
        ),
        Option(
            name="driver.max-bytes",
            type="memory",
            default=2**28,
            doc="with `path`: the most bytes of a batch's rows, and of a table's files, that are merged in the driver, "
            "not in tasks",
        ),
        Option(
            name="upkeep.commits",
            type="int",
            default=20,
            doc="with `path`: commits of a table between two runs of compaction and vacuum; 0: never",
        ),
        *OF_TABLES,
    )
    path: str | PathLike[str]
    types: Strategy = "standard"
    create_tables: bool = True
    write_mode: Literal["merge", "append"] = "merge"
    properties: Mapping[str, str] = field(default_factory=dict)
    rewrite_max_bytes: int = 2**30
    driver_max_bytes: int = DRIVER_BYTES
    upkeep_commits: int = UPKEEP_COMMITS
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_sink(cls, sink: PipelineSink) -> Self:
        """Return the target of a checked sink."""
        values = sink.values
        return cls(
            values["path"],
            types=values["sink.type-normalize-strategy"],
            create_tables=values["create-tables"],
            write_mode=values["write-mode"],
            properties=dict(values["table-properties"]),
            rewrite_max_bytes=values["rewrite.max-bytes"],
            driver_max_bytes=values["driver.max-bytes"],
            upkeep_commits=values["upkeep.commits"],
            storage_options=dict(values["storage-options"]),
        )

    @property
    def rows(self) -> Literal["latest", "changes"]:
        """`changes` for the write mode `append`."""
        return "changes" if self.write_mode == "append" else "latest"

    # --- tables ----------------------------------------------------------------------------------------------------

    def probe(self) -> None:
        """Look for a table. Raises `MissingExtraError` without deltalake, `ConfigurationError` without the store."""
        storage = TableStorage.of(self.path, self.storage_options)
        try:
            DeltaLog.open(storage.below("kvformat_probe"))
        except ConfigurationError:
            raise
        except Exception as error:  # deltalake raises OSError, DeltaError and errors of the store
            first = str(error).strip().partition("\n")[0][:500]
            raise ConfigurationError(
                f"the sink can't read '{storage.uri}': {type(error).__name__}: {first}. An object store needs its "
                "region and credentials in 'storage-options', or in the environment of the driver"
            ) from error

    def schema(self, table: TableId) -> TargetSchema | None:
        """Return the table as it is now, or None if there is none.

        Raises `ConfigurationError` for a table with features that are not written here.
        """
        log = self._log(table)
        if log is None:
            return None
        return TargetSchema(without_change_columns(log.columns, self.rows), log.properties.get(OWNER_PROPERTY))

    def create(self, table: TableId, schema: TableSchema, options: TableOptions, owner: str) -> None:
        """Create the table, unless it is there. Raises `SchemaChangeError` if `create_tables` is false."""
        folder = self.folder(table)
        log = folder.log()
        if log is not None and not _is_dropped(log):
            return
        if not self.create_tables:
            raise table_error(table, f"{folder.where} has no such table, and 'create-tables' is false")
        columns = _columns(with_change_columns(schema, self.rows), self.types)
        names = {TABLE_PROPERTY: json.dumps(table.parts, ensure_ascii=False), OWNER_PROPERTY: owner}
        properties = {**self.properties, **options.properties, **names}
        if log is not None:
            self._create_again(folder, columns, properties)
        elif not _applied(DeltaLog.create, folder.storage, columns, properties):
            self.create(table, schema, options, owner)  # another driver was faster

    def unlike(self, table: TableId, options: TableOptions) -> list[str]:
        """Return the properties of the rules that a table was created without."""
        properties = self._known(table).properties
        return [key for key, value in options.properties.items() if properties.get(key) != value]

    def own(self, table: TableId, owner: str) -> None:
        """Make the query the owner of a table that is there."""
        for log in self._versions(table):
            if log.properties.get(OWNER_PROPERTY) == owner or _applied(log.set_properties, {OWNER_PROPERTY: owner}):
                return

    def change(self, event: events.SchemaEvent, schema: TableSchema, batch: BatchWrite) -> None:
        """Apply a change of a table.

        Raises `UnsupportedChangeError` for a type that does not hold all values of the column, and for a table that
        would have to be written again and is larger than `rewrite_max_bytes`, or was created by somebody else.
        """
        table = event.table
        if isinstance(event, events.CreateTable):
            self.create(table, event.schema, TableOptions(), batch.query)
        elif isinstance(event, events.TruncateTable):
            if self.schema(table) is not None:
                self.folder(table).truncate(self._once(table, batch, 0))
        elif isinstance(event, events.DropTable):
            self._drop(table, batch)
        elif isinstance(event, events.AddColumns):
            for log in self._versions(table):
                missing = [added.column for added in event.columns if added.column.name not in log.columns.names]
                columns = _columns(TableSchema(tuple(missing)), self.types)
                if not missing or _applied(log.add_columns, columns):
                    return
        else:
            self._change_columns(event, schema)

    def write(self, table: TableId, schema: TableSchema, rows: DataFrame, batch: BatchWrite) -> None:
        """Write the rows of a batch, unless they are there.

        Raises `ConfigurationError` for an earlier batch, and for a table of another query.
        """
        columns = self._known(table).columns
        kept = type(columns)([c for c in columns.fields if c.name in schema.names or c.name in rows.columns])
        folder, write = self.folder(table), self._once(table, batch, 1)
        if schema.primary_key and self.rows == "latest":
            changes = converted_rows(rows, kept, (ROW_KIND, UNCHANGED), forms=schema.forms())
            folder.merge(changes, schema.primary_key, write)
        else:
            folder.append(converted_rows(rows, kept, forms=schema.forms()), write)

    def stored(self, schema: TableSchema) -> TableSchema:
        """Return a schema with the types that its columns have in Delta."""
        return normalized_schema(schema, self.types, _AS_TEXT)

    def write_rows(self, table: TableId, schema: TableSchema, rows: pa.Table, batch: BatchWrite) -> None:
        """Write the rows of a batch that are in the driver, unless they are there. Raises the errors of `write`."""
        folder, write, log = self.folder(table), self._once(table, batch, 1), self._known(table)
        if schema.primary_key and self.rows == "latest":
            folder.merge_rows(rows, schema.primary_key, write, spark=self.spark, log=log)
        else:
            folder.append_rows(rows, write, log)

    def read(self, table: TableId) -> DataFrame:
        """Return the rows of a table as they are now. Raises `ConfigurationError` if there is no such table."""
        log = self.folder(table).log()
        if log is None or _is_dropped(log):
            raise ConfigurationError(f"there is no table {table} at '{TableStorage.of(self.path).uri}'")
        return self.folder(table).read(self.spark, log)

    # --- steps -----------------------------------------------------------------------------------------------------

    def folder(self, table: TableId) -> DeltaFolder:
        """Return the folder of a table."""
        storage = TableStorage.of(self.path, self.storage_options).below(folder_name(table))
        return DeltaFolder(storage, self.driver_max_bytes, self.upkeep_commits)

    def _log(self, table: TableId) -> DeltaLog | None:
        """Return a table that is there and can be written here, or None."""
        folder = self.folder(table)
        log = folder.log()
        return None if log is None or _is_dropped(log) else checked(log, folder.where)

    def _known(self, table: TableId) -> DeltaLog:
        log = self._log(table)
        if log is None:
            raise table_error(table, f"there is no such table at '{TableStorage.of(self.path).uri}'")
        return log

    def _versions(self, table: TableId) -> Iterator[DeltaLog]:
        """Yield the newest version of a table that is there, one for each attempt to change it."""
        self._known(table)
        return self.folder(table).attempts()

    def _once(self, table: TableId, batch: BatchWrite, step: Literal[0, 1]) -> TableWrite:
        """Return a write of a batch; `step` is 0 for a change and 1 for rows of the same part."""

        def check(log: DeltaLog) -> None:
            check_owner(table, log.properties.get(OWNER_PROPERTY), batch.query)
            check_order(f"table {table}", log.position(writer_of(batch.query)), batch)

        return TableWrite(WriterTransaction(writer_of(batch.query), batch.position(step)), check)

    def _drop(self, table: TableId, batch: BatchWrite) -> None:
        """Remove the rows, and then mark the table as dropped.

        A batch that runs again creates the dropped table again for its first rows, and must drop it again.
        """
        folder, write = self.folder(table), self._once(table, batch, 0)
        if folder.log() is None:
            return
        for log in folder.attempts():
            written = log.position(write.transaction.writer)
            if _is_dropped(log) or written > write.transaction.position:
                return
            write.check(log)
            if written < write.transaction.position or log.files():
                _applied(log.replace, [], write.transaction)
            elif _applied(log.set_properties, {DROPPED_PROPERTY: "true"}):
                return

    def _create_again(self, folder: DeltaFolder, columns: StructType, properties: Mapping[str, str]) -> None:
        """Give a dropped table its columns, and then the properties of one that is there."""
        for log in folder.attempts():
            if not _is_dropped(log):
                return
            if log.columns == columns:
                if _applied(log.set_properties, {**properties, DROPPED_PROPERTY: "false"}):
                    return
            elif "timestamp_ntz" not in columns.json() or not log.allow_timestamp_ntz():
                _applied(log.replace, [], None, columns)

    def _change_columns(
        self, event: events.AlterColumnTypes | events.RenameColumns | events.DropColumns, schema: TableSchema
    ) -> None:
        """Write the table again with other types or names, or without some columns."""
        table, log = event.table, self._known(event.table)
        now = log.columns
        names = event.names if isinstance(event, events.RenameColumns) else ()
        new = {old: name for old, name in names if old in now.names and name not in now.names}  # others are done
        dropped = event.columns if isinstance(event, events.DropColumns) else ()
        wanted = type(now)([self._changed(event, column, new) for column in now.fields if column.name not in dropped])
        if wanted == now:
            return
        size = sum(file.size for file in log.files())
        begin = f"table {table}: {event.tag} writes the table again"
        if size and TABLE_PROPERTY not in log.properties:
            raise UnsupportedChangeError(
                f"{begin}, and the ingestion has not created it: change it by hand", table=str(table)
            )
        if size > self.rewrite_max_bytes:
            raise UnsupportedChangeError(
                f"{begin}. It has {size:,} bytes, and 'rewrite.max-bytes' is {self.rewrite_max_bytes:,}: raise that; "
                "'sink.type-normalize-strategy' = 'broaden' creates tables whose types change less often",
                table=str(table),
            )
        folder = self.folder(table)
        old = {name: was for was, name in new.items()}

        def rows(log: DeltaLog) -> DataFrame:
            named = [exact_column(old.get(name, name)).alias(name) for name in wanted.names]
            return converted_rows(folder.read(self.spark, log).select(*named), wanted, forms=schema.forms())

        folder.rewrite(rows, wanted)

    def _changed(self, event: events.SchemaEvent, column: StructField, new: Mapping[str, str]) -> StructField:
        """Return a column after a change of types or names."""
        from pyspark.sql.types import StructField

        if isinstance(event, events.AlterColumnTypes):
            wanted = dict(event.types).get(column.name)
            if wanted is None:
                return column
            changed = _columns(TableSchema((SchemaColumn(column.name, wanted),)), self.types)[0]
            if changed.dataType == column.dataType:
                return StructField(column.name, column.dataType, column.nullable or wanted.nullable, column.metadata)
            text = (column.metadata or {}).get(_FLINK_TYPE)
            now = from_spark(column.dataType, True, column.name) if text is None else parse_column_type(text)
            merged = merge_types(now, from_spark(changed.dataType, True, column.name))
            if stored_type(nullable(merged)) != changed.dataType:
                raise table_error(
                    event.table,
                    f"column {column.name!r} of type {now} can't become {wanted}, which does not "
                    f"hold all its values; {merged} does",
                    UnsupportedChangeError,
                )
            metadata = {key: value for key, value in (column.metadata or {}).items() if key == _COMMENT}
            metadata |= changed.metadata
            return StructField(column.name, changed.dataType, column.nullable or wanted.nullable, metadata)
        return StructField(new.get(column.name, column.name), column.dataType, column.nullable, column.metadata)


def _applied(change: Callable[..., None], *arguments: Any) -> bool:
    """Make a change of the log, and return False if another writer was faster."""
    try:
        change(*arguments)
    except CommitConflict:
        return False
    return True


def _is_dropped(log: DeltaLog) -> bool:
    return log.properties.get(DROPPED_PROPERTY) == "true"


def writer_of(query: str) -> str:
    """Return the name of a query in the transactions of its commits."""
    return f"kvformat {query}"


def _columns(schema: TableSchema, types: Strategy) -> StructType:
    """Return the columns of a table: types that Delta lacks are STRING, with Flink's type in the metadata."""
    from pyspark.sql.types import StructField, StructType

    columns = []
    plain = normalized_schema(schema, types, _AS_TEXT)
    for column, stored in zip(schema.columns, plain.columns, strict=True):
        metadata = {_COMMENT: column.comment} if column.comment else {}
        if normalized_schema(TableSchema((column,)), types, ()).columns[0].type != stored.type:
            metadata[_FLINK_TYPE] = str(nullable(column.type))
        columns.append(StructField(column.name, stored_type(stored.type), stored.type.nullable, metadata))
    return StructType(columns)


# --- folders ---------------------------------------------------------------------------------------------------


def folder_name(table: TableId) -> str:
    """Return the name of a table's folder: its parts with dots between them.

    Letters, digits, `_` and `-` are as they are. Other characters of a part are `~` and two hex digits for each byte. A
    name that is too long for a folder is cut, and has the hash of the table's name at its end.
    """
    name = ".".join(
        _QUOTED.sub(lambda m: "".join(f"~{byte:02X}" for byte in m[0].encode()), part) for part in table.parts
    )
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:200]}~~{sha256(name.encode()).hexdigest()[:32]}"


def table_of_folder(name: str) -> str:
    """Return the name of the table in a folder, for people."""
    return unquote(name.partition("~~")[0].replace("~", "%"), errors="replace")


def read_table(
    spark: SparkSession,
    path: str | PathLike[str],
    table: str | TableId,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read a table that an ingestion writes below a path: `read_table(spark, "/lake", "shop.orders")`.

    Spark reads the files of the newest version; it needs no package of Delta. They are kept for an hour after a batch
    replaced them (`delta.deletedFileRetentionDuration`); call this again for newer rows. A text is split at its dots;
    give a `TableId` for a name with dots in a part. Raises `ConfigurationError` if there is no such table.
    """
    table = TableId.parse(table) if isinstance(table, str) else table
    return DeltaPathTarget(path, storage_options=storage_options or {}).with_session(spark).read(table)
