"""Tables as Spark's own Parquet files below a path: a folder per table.

    <path>/shop/orders/                             the table shop.orders
        notes/0 notes/1 notes/2                     the last states of the table, one JSON text each
        rows/0 rows/1 rows/2                        generations of its rows
        rows/1/_kvformat_write=0, =1, ...           the writes of a generation

The state with the greatest number counts. It has the schema, the owner, the last write, and where the rows are: which
writes of which generation, and with which columns. So a state is complete, or is not there.

A table with a key: each write makes a new generation from the one before; a reader has the time of two batches.
A table without a key: each write adds a folder to the generation. TRUNCATE begins a new one.
Added, renamed, dropped and widened columns change the state only. Rows that are there are converted when they are read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self
from urllib.parse import quote

from kvformat.ingestion.errors import SchemaChangeError, UnsupportedChangeError
from kvformat.ingestion.schemas.coerce import is_same_kind
from kvformat.ingestion.schemas.events import (
    AddColumns,
    AddedColumn,
    AlterColumnTypes,
    CreateTable,
    DropColumns,
    DropTable,
    RenameColumns,
    SchemaEvent,
    TruncateTable,
)
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.ingestion.schemas.types import merge_types, parse_column_type
from kvformat.ingestion.targets.target import BatchWrite, TableOptions, Target, TargetSchema, check_owner
from kvformat.ingestion.targets.types import (
    Strategy,
    converted_rows,
    normalized_schema,
    stored_columns,
    stored_type,
    with_change_columns,
    without_change_columns,
)
from kvformat.registry.contract.changelog import UNCHANGED
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.types import nullable
from kvformat.registry.spark.decoded_columns import ROW_KIND, exact_column
from kvformat.registry.streams.parquet_table import VERSIONS, folder_text, merged_rows, note_rows, uncached_reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kvformat.ingestion.blocks.sink import PipelineSink

_VERSION = 1  # of the state's JSON form
_WRITE = "_kvformat_write"
_OWN_FOLDERS = ("notes", "rows")
_LONGEST_NAME = 255  # bytes of a folder's name in most file systems


@dataclass(frozen=True)
class StoredRows:
    """Consecutive writes of a generation whose files have the same columns.

    columns: name now, name in the files, type in the files. Columns that were dropped since then are left out.
    """

    generation: int
    first: int
    count: int
    columns: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class TableState:
    """What a table is. `schema` is None for a dropped table.

    number: counts the states. generation: that of the next write to a table without a key.
    query, position: the last write or change with a place in a batch, `(batch, 2 * part)`, one more for a write.
    """

    number: int
    schema: TableSchema | None
    owner: str | None
    generation: int = 0
    stored: tuple[StoredRows, ...] = ()
    query: str | None = None
    position: tuple[int, int] = (-1, 0)

    def to_text(self) -> str:
        """Return the JSON form."""
        schema = self.schema and self.schema.to_json()
        return json.dumps({"version": _VERSION, **asdict(self), "schema": schema}, sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the state of a JSON form. Raises `ConfigurationError` for a later version."""
        value: dict[str, Any] = json.loads(text)
        version = value.pop("version")
        if version != _VERSION:
            raise ConfigurationError(
                f"the table has notes of version {version!r}, and this release of kvformat reads version {_VERSION}: "
                "use the release that wrote them, or a later one"
            )
        value["schema"] = value["schema"] and TableSchema.from_json(value["schema"])
        value["stored"] = tuple(
            StoredRows(**{**stored, "columns": tuple(map(tuple, stored["columns"]))}) for stored in value["stored"]
        )
        return cls(**{**value, "position": tuple(value["position"])})

    def is_past(self, batch: BatchWrite, position: tuple[int, int]) -> bool:
        """Whether the query has done the write or change at a position before."""
        return self.query == batch.query and position <= self.position


@dataclass(frozen=True)
class ParquetTarget(Target):
    """Tables below a path. `read_table` reads them.

    path: a folder that Spark can write to. types: the value of `sink.type-normalize-strategy`.
    create_tables: whether tables are created. write_mode: `merge` keeps the last row of each key; `append` keeps all
    changes, with their kinds and places. Partition keys and table properties have no effect.
    """

    identifier: ClassVar[str] = "parquet"
    path: str | PathLike[str]
    types: Strategy = "standard"
    create_tables: bool = True
    write_mode: Literal["merge", "append"] = "merge"

    @classmethod
    def from_sink(cls, sink: PipelineSink) -> Self:
        """Return the target of a checked sink."""
        values = sink.values
        return cls(
            values["path"],
            types=values["sink.type-normalize-strategy"],
            create_tables=values["create-tables"],
            write_mode=values["write-mode"],
        )

    @property
    def rows(self) -> Literal["latest", "changes"]:
        """`changes` for the write mode `append`."""
        return "changes" if self.write_mode == "append" else "latest"

    def schema(self, table: TableId) -> TargetSchema | None:
        """Return the table as it is now, or None if there is none."""
        state = self._state(table)
        if state is None or state.schema is None:
            return None
        return TargetSchema(stored_columns(without_change_columns(state.schema, self.rows)), state.owner)

    def create(self, table: TableId, schema: TableSchema, options: TableOptions, owner: str) -> None:
        """Create the table, unless it is there. Raises `SchemaChangeError` if `create_tables` is false."""
        state = self._state(table)
        if state is not None and state.schema is not None:
            return
        if not self.create_tables:
            raise SchemaChangeError(
                f"table {table}: '{self._folder(table)}' has no such table, and 'create-tables' is false",
                table=str(table),
            )
        made = with_change_columns(self._normalized(schema), self.rows)
        if state is None:
            self._note(table, TableState(0, made, owner))
        else:
            self._note(table, replace(state, schema=made, owner=owner))

    def own(self, table: TableId, owner: str) -> None:
        """Make the query the owner of a table that is there."""
        state = self._known(table)
        if state.owner != owner:
            self._note(table, replace(state, owner=owner))

    def change(self, event: SchemaEvent, schema: TableSchema, batch: BatchWrite) -> None:
        """Apply a change of a table.

        Raises `UnsupportedChangeError` for a type that does not hold all values of the column.
        """
        table = event.table
        if isinstance(event, CreateTable):
            self.create(table, event.schema, TableOptions(), batch.query)
            return
        if isinstance(event, TruncateTable | DropTable):
            self._remove_rows(event, batch)
            return
        state = self._known(table)
        assert state.schema is not None
        if isinstance(event, AddColumns):
            made = _with_added(state, event)
        elif isinstance(event, RenameColumns):
            made = _with_renamed(state, event)
        elif isinstance(event, DropColumns):
            stored = [
                replace(rows, columns=tuple(c for c in rows.columns if c[0] not in event.columns))
                for rows in state.stored
            ]
            made = replace(state, schema=event.apply(state.schema), stored=tuple(stored))
        else:
            made = replace(state, schema=self._with_types(state.schema, event))
        assert made.schema is not None
        made = replace(made, schema=self._normalized(made.schema).with_forms(schema.forms()))
        if made != state:
            self._note(table, made)

    def write(self, table: TableId, schema: TableSchema, rows: DataFrame, batch: BatchWrite) -> None:
        """Write the rows of a batch, unless they are there.

        Raises `ConfigurationError` for an earlier batch, for a table of another query, and if another driver writes the
        table at the same time. What was written then does not count.
        """
        state, position = self._known(table), (batch.batch_id, 2 * batch.part + 1)
        assert state.schema is not None
        check_owner(table, state.owner, batch.query)
        if state.is_past(batch, position):
            if batch.batch_id < state.position[0]:
                raise ConfigurationError(
                    f"table {table}: '{self._folder(table)}' has batch {state.position[0]} of this query, but this is "
                    f"batch {batch.batch_id}: the query runs twice, or its checkpoint is older than the table. Use "
                    "the newest checkpoint, or another path"
                )
            return
        columns = stored_columns(state.schema)
        note = tuple((c.name, c.name, str(nullable(c.type))) for c in state.schema.columns)
        if schema.primary_key and self.rows == "latest":
            changes = converted_rows(rows, columns, (ROW_KIND, UNCHANGED), forms=schema.forms())
            made = self._merge(table, state, schema, changes, note)
        else:
            made = self._append(table, state, converted_rows(rows, columns, forms=schema.forms()), note)
        now = self._state(table)
        if now is None or now.number != state.number:
            raise ConfigurationError(
                f"table {table}: another driver has written it at '{self._folder(table)}' since batch {batch.batch_id} "
                "began to write. Run one query at a time on a checkpoint"
            )
        self._note(table, replace(made, query=batch.query, position=position))

    def read(self, table: TableId) -> DataFrame:
        """Return the rows of a table as they are now. Raises `ConfigurationError` if there is no such table."""
        state = self._state(table)
        if state is None or state.schema is None:
            raise ConfigurationError(f"there is no table {table} at '{folder_text(self.path)}'")
        return self._frame(table, state, stored_columns(state.schema))

    # --- rows ------------------------------------------------------------------------------------------------------

    def _merge(
        self, table: TableId, state: TableState, schema: TableSchema, changes: DataFrame, note: Sequence[Any]
    ) -> TableState:
        """Write the next generation of a table with a key."""
        assert state.schema is not None
        old = self._frame(table, state, stored_columns(state.schema)) if state.stored else None
        generation = (state.generation + 1) % VERSIONS
        folder = f"{self._folder(table)}/rows/{generation}/{_WRITE}=0"
        merged_rows(old, changes, schema.primary_key).write.mode("overwrite").parquet(folder)
        return replace(state, generation=generation, stored=(StoredRows(generation, 0, 1, tuple(note)),))

    def _append(self, table: TableId, state: TableState, rows: DataFrame, note: Sequence[Any]) -> TableState:
        """Add a write to the generation of a table without a key."""
        last = state.stored[-1] if state.stored else StoredRows(state.generation, 0, 0, tuple(note))
        number = last.first + last.count
        rows.write.mode("overwrite").parquet(f"{self._folder(table)}/rows/{state.generation}/{_WRITE}={number}")
        if last.columns == tuple(note):
            return replace(state, stored=(*state.stored[:-1], replace(last, count=last.count + 1)))
        return replace(state, stored=(*state.stored, StoredRows(state.generation, number, 1, tuple(note))))

    def _remove_rows(self, event: TruncateTable | DropTable, batch: BatchWrite) -> None:
        """Begin an empty generation. A repeated TRUNCATE must keep the rows that were written after the first one."""
        state, position = self._state(event.table), (batch.batch_id, 2 * batch.part)
        if state is None or state.schema is None:
            return
        check_owner(event.table, state.owner, batch.query)
        # A batch that runs again creates a dropped table again for its first rows, and must drop it again
        drops_again = isinstance(event, DropTable) and state.position == position
        if state.is_past(batch, position) and not drops_again:
            return
        generation = (state.generation + 1) % VERSIONS
        # Removes the files of an earlier generation. Without partitions, Spark would write an empty file
        nothing = self.spark.range(0).withColumnRenamed("id", _WRITE).selectExpr(_WRITE, f"{_WRITE} AS id")
        folder = f"{self._folder(event.table)}/rows/{generation}"
        nothing.write.mode("overwrite").partitionBy(_WRITE).parquet(folder)
        made = replace(state, generation=generation, stored=(), query=batch.query, position=position)
        self._note(event.table, replace(made, schema=None, owner=None) if isinstance(event, DropTable) else made)

    def _frame(self, table: TableId, state: TableState, columns: StructType) -> DataFrame:
        """Return the rows of a state, converted to columns."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import IntegerType, StructField, StructType

        found: DataFrame | None = None
        for stored in state.stored:
            folder = f"{self._folder(table)}/rows/{stored.generation}"
            in_files = [StructField(name, stored_type(parse_column_type(t))) for _, name, t in stored.columns]
            reader = uncached_reader(self.spark).schema(StructType([*in_files, StructField(_WRITE, IntegerType())]))
            rows = reader.option("basePath", folder).parquet(folder)
            rows = rows.where(F.col(_WRITE).between(stored.first, stored.first + stored.count - 1))
            rows = rows.select(*(exact_column(name).alias(now) for now, name, _ in stored.columns))
            rows = converted_rows(rows, columns, forms=None if state.schema is None else state.schema.forms())
            found = rows if found is None else found.unionByName(rows)
        return self.spark.createDataFrame([], columns) if found is None else found

    # --- notes -----------------------------------------------------------------------------------------------------

    def _folder(self, table: TableId) -> str:
        """Return the folder of a table. The text of a part is quoted as in a URL, dots too.

        A name that is too long for a folder is cut, and has the hash of the part at its end.
        """
        names = [quote(part, safe="").replace(".", "%2E").replace("~", "%7E") for part in table.parts]
        names = [
            name if len(name) <= _LONGEST_NAME else f"{name[:200]}~{sha256(part.encode()).hexdigest()[:32]}"
            for name, part in zip(names, table.parts, strict=True)
        ]
        # A table `shop.rows` must not be in the folder of rows of a table `shop`
        names = [f"%{ord(name[0]):02X}{name[1:]}" if name in _OWN_FOLDERS else name for name in names]
        return "/".join((folder_text(self.path), *names))

    def _state(self, table: TableId) -> TableState | None:
        rows = note_rows(self.spark, f"{self._folder(table)}/notes", "text", "value STRING")
        return max((TableState.from_text(row["value"]) for row in rows), key=lambda s: s.number, default=None)

    def _known(self, table: TableId) -> TableState:
        state = self._state(table)
        if state is None or state.schema is None:
            raise SchemaChangeError(
                f"table {table}: there is no such table at '{folder_text(self.path)}'", table=str(table)
            )
        return state

    def _note(self, table: TableId, state: TableState) -> None:
        from pyspark.sql import functions as F

        state = replace(state, number=state.number + 1)
        note = self.spark.range(1).select(F.lit(state.to_text()).alias("value")).coalesce(1)
        note.write.mode("overwrite").text(f"{self._folder(table)}/notes/{state.number % VERSIONS}")

    # --- schemas ---------------------------------------------------------------------------------------------------

    def _normalized(self, schema: TableSchema) -> TableSchema:
        return normalized_schema(schema, self.types)

    def _with_types(self, schema: TableSchema, event: AlterColumnTypes) -> TableSchema:
        changed = self._normalized(event.apply(schema))
        for before, after in zip(schema.columns, changed.columns, strict=True):
            merged = merge_types(before.type, after.type)
            if not is_same_kind(before.type, after.type) and not is_same_kind(merged, after.type):
                raise UnsupportedChangeError(
                    f"table {event.table}: column {before.name!r} of type {before.type} can't become {after.type}, "
                    f"which does not hold all its values; {merged} does",
                    table=str(event.table),
                )
        return changed


def _with_added(state: TableState, event: AddColumns) -> TableState:
    """Return the state with the columns that the table lacks. Beside a column that it lacks means at the end."""
    assert state.schema is not None
    schema = state.schema
    for added in event.columns:
        if added.column.name in schema.names:
            continue
        known = added.beside is None or added.beside in schema.names
        schema = AddColumns(event.table, (added if known else AddedColumn(added.column),)).apply(schema)
    return replace(state, schema=schema)


def _with_renamed(state: TableState, event: RenameColumns) -> TableState:
    """Return the state with new names, without those that were renamed before. Rows keep their names in the files."""
    assert state.schema is not None
    names = state.schema.names
    new = {old: name for old, name in event.names if old in names and name not in names}
    stored = [
        replace(rows, columns=tuple((new.get(now, now), in_files, t) for now, in_files, t in rows.columns))
        for rows in state.stored
    ]
    return replace(
        state, schema=RenameColumns(event.table, tuple(new.items())).apply(state.schema), stored=tuple(stored)
    )


def read_table(spark: SparkSession, path: str | PathLike[str], table: str | TableId) -> DataFrame:
    """Read a table that an ingestion writes below a path: `read_table(spark, "/lake", "shop.orders")`.

    The rows are those of the last complete batch. They stay readable while the next two batches are written; call this
    again for newer rows. A text is split at its dots; give a `TableId` for a name with dots in a part.
    Raises `ConfigurationError` if there is no such table.
    """
    table = TableId.parse(table) if isinstance(table, str) else table
    return ParquetTarget(path).with_session(spark).read(table)
