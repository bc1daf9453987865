"""The log of a table: what is in it, whether it can be written here, and commits.

A commit is refused if the table has another version by now. So nothing that another writer did is lost, and the writer
reads the table again. A commit of rows has the transaction of its writer: the writer's name and a position that grows.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from kvformat.registry.contract.errors import ConfigurationError, needs_extra
from kvformat.registry.streams.delta.files import DataFile, has_order
from kvformat.registry.streams.delta.storage import TableStorage

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from pyspark.sql.types import StructType

DEFAULT_PROPERTIES: Mapping[str, str] = {
    "delta.checkpointInterval": "10",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}
"""Properties of created tables. An open of the log reads the commits since its last checkpoint."""
_READABLE = {"timestampNtz", "variantType"}
_WRITABLE = {*("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"), *_READABLE}
"""Features of a table's protocol; whether a table uses those that we can't write is in its properties and columns.

deltalake adds variantType when it sets a property of a table with a TIMESTAMP column.
"""
_VARIANT = re.compile(r'[tT]ype":\s*"variant"')
_USED = {"delta.appendOnly": "true", "delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"}
_OF_COLUMNS = ("delta.generationExpression", "delta.invariants", "delta.identity.start")


class CommitConflict(Exception):
    """The table has another version by now."""


@dataclass(frozen=True)
class WriterTransaction:
    """The writer of a commit, and the position of what it writes. A writer's positions only grow."""

    writer: str
    position: int


class DeltaLog:
    """A version of a table."""

    def __init__(self, storage: TableStorage, table: DeltaTable) -> None:
        self.storage, self._table = storage, table
        self.version = table.version()
        metadata = table.metadata()
        self.properties: dict[str, str] = metadata.configuration
        self.partitions: list[str] = metadata.partition_columns

    @classmethod
    def open(cls, storage: TableStorage) -> Self | None:
        """Return the newest version, None if there is no table.

        Raises `MissingExtraError` without deltalake.
        """
        delta_table, errors = _deltalake()
        try:
            return cls(storage, delta_table(storage.uri, storage_options=dict(storage.options)))
        except errors.TableNotFoundError:
            return None

    @classmethod
    def create(cls, storage: TableStorage, columns: StructType, properties: Mapping[str, str]) -> None:
        """Create a table. Raises `CommitConflict` if there is one."""
        delta_table, errors = _deltalake()
        storage.create()
        try:
            delta_table.create(
                storage.uri,
                _delta_schema(columns),
                mode="error",
                configuration={**DEFAULT_PROPERTIES, **properties},
                storage_options=dict(storage.options),
                raise_if_key_not_exists=False,
                commit_properties=_commit_properties(None),
            )
        except errors.DeltaError as cause:
            if cls.open(storage) is None:
                raise
            raise CommitConflict from cause

    @property
    def columns(self) -> StructType:
        """The columns with Spark's types."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self._table.schema().to_json()))

    @property
    def schema(self) -> pa.Schema:
        """The columns with Arrow's types."""
        return pa.schema(self._table.schema().to_arrow())

    def position(self, writer: str) -> int:
        """Return the position of the last commit of a writer, or -1."""
        version = self._table.transaction_version(writer)
        return -1 if version is None else version

    def files(self) -> list[DataFile]:
        """Return the files of the table."""
        added = pa.table(self._table.get_add_actions(flatten=False))
        plain = added.select([name for name in added.column_names if name not in ("min", "max")]).to_pylist()
        return [
            DataFile(
                file["path"], file["size_bytes"], file["num_records"], low, high, written=file["modification_time"]
            )
            for file, low, high in zip(plain, _ends(added, "min"), _ends(added, "max"), strict=True)
        ]

    def unreadable(self) -> str:
        """Return what the table has that its files alone do not tell, or ""."""
        has_variants = _VARIANT.search(self._table.schema().to_json()) is not None
        known = _READABLE - {"variantType"} if has_variants else _READABLE
        features = {*(self._table.protocol().reader_features or ())} - known
        if features:
            return f"features ({', '.join(sorted(features))})"
        if self.partitions:
            return f"partitions ({', '.join(self.partitions)})"
        return "column mapping" if self.properties.get("delta.columnMapping.mode", "none") != "none" else ""

    def unwritable(self) -> str:
        """Return what the table has that can't be written here, or ""."""
        if unreadable := self.unreadable():
            return unreadable
        features = {*(self._table.protocol().writer_features or ())} - _WRITABLE
        if features:
            return f"features ({', '.join(sorted(features))})"
        used = [name for name, value in _USED.items() if self.properties.get(name, "").lower() == value]
        used += [name for name in self.properties if name.startswith("delta.constraints.")]
        columns = json.loads(self._table.schema().to_json())["fields"]
        used += [
            f"{name} of {column['name']}" for column in columns for name in _OF_COLUMNS if name in column["metadata"]
        ]
        return ", ".join(used)

    # --- commits ---------------------------------------------------------------------------------------------------

    def commit(self, added: Sequence[DataFile], removed: Sequence[DataFile], transaction: WriterTransaction) -> None:
        """Add and remove files. Raises `CommitConflict`."""
        from deltalake.transaction import RemoveAction

        now = int(time.time() * 1000)
        removes = [RemoveAction(file.name, True, now, file.size, {}) for file in removed]
        self._commit([*removes, *map(_add_action, added)], "append", self._table.schema(), transaction)

    def replace(
        self, added: Sequence[DataFile], transaction: WriterTransaction | None, columns: StructType | None = None
    ) -> None:
        """Replace all files, and the columns if they are given. Raises `CommitConflict`."""
        schema = self._table.schema() if columns is None else _delta_schema(columns)
        self._commit([*map(_add_action, added)], "overwrite", schema, transaction)

    def allow_timestamp_ntz(self) -> bool:
        """Give the table the feature of TIMESTAMP columns, which it needs before it has one; False if it has it."""
        from deltalake import TableFeatures

        if "timestampNtz" in (self._table.protocol().writer_features or ()):
            return False
        self._table.alter.add_feature(
            TableFeatures.TimestampWithoutTimezone,
            allow_protocol_versions_increase=True,
            commit_properties=_commit_properties(None),
        )
        return True

    def add_columns(self, columns: StructType) -> None:
        """Add nullable columns at the end. Raises `CommitConflict`."""
        self._alter("add_columns", list(_delta_schema(columns).fields))

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set properties. Raises `CommitConflict`."""
        self._alter("set_table_properties", dict(properties), raise_if_not_exists=False)

    # --- upkeep ----------------------------------------------------------------------------------------------------

    def compact(self, target_bytes: int) -> None:
        """Join small files, one group after the other."""
        self._table.optimize.compact(
            target_size=target_bytes, max_concurrent_tasks=1, commit_properties=_commit_properties(None)
        )
        self._table.update_incremental()

    def vacuum(self) -> None:
        """Remove the files that were removed from the table before `delta.deletedFileRetentionDuration`."""
        self._table.vacuum(dry_run=False)

    def known_files(self) -> set[str]:
        """Return the names of the table's files, and of those that were removed and are still there for readers."""
        removed = self._table.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)
        return {*removed, *(file.name for file in self.files())}

    def _alter(self, method: str, *arguments: Any, **more: Any) -> None:
        _, errors = _deltalake()
        try:
            getattr(self._table.alter, method)(*arguments, **more, commit_properties=_commit_properties(None))
        except errors.CommitFailedError as cause:
            raise CommitConflict from cause

    def _commit(self, actions: list[Any], mode: str, schema: Any, transaction: WriterTransaction | None) -> None:
        _, errors = _deltalake()
        try:
            self._table.create_write_transaction(
                actions, mode, schema, commit_properties=_commit_properties(transaction)
            )
        except errors.CommitFailedError as cause:
            raise CommitConflict from cause


def _deltalake() -> tuple[Any, Any]:
    """Return the class of tables and the module of errors of deltalake. Raises `MissingExtraError`."""
    with needs_extra("a Delta table at a path needs deltalake", extra="delta"):
        from deltalake import DeltaTable, exceptions
    return DeltaTable, exceptions


def _commit_properties(transaction: WriterTransaction | None) -> CommitProperties:
    """Return the properties of a commit that is not tried again: its files would be those of an older version."""
    from deltalake import CommitProperties
    from deltalake import Transaction as AppTransaction

    of = [] if transaction is None else [AppTransaction(transaction.writer, transaction.position)]
    return CommitProperties(max_commit_retries=0, app_transactions=of)


def _ends(added: pa.Table, which: str) -> list[dict[str, Any]]:
    """Return the least or the greatest values of each file, by column; dates as numbers of days.

    Columns whose type does not have an order are left out; their values may be outside of Python's years.
    """
    ends: list[dict[str, Any]] = [{} for _ in range(added.num_rows)]
    if which not in added.column_names or not pa.types.is_struct(added.schema.field(which).type):
        return ends
    structs = added.column(which).combine_chunks()
    for field, values in zip(structs.type, structs.flatten(), strict=True):
        if not has_order(field.type):
            continue
        plain = values.cast(pa.int32()) if pa.types.is_date32(field.type) else values
        for file, value in zip(ends, plain.to_pylist(), strict=True):
            if value is not None:
                file[field.name] = value
    return ends


def _delta_schema(columns: StructType) -> Any:
    from deltalake import Schema

    return Schema.from_json(columns.json())


def _add_action(file: DataFile) -> Any:
    from deltalake.transaction import AddAction

    return AddAction(file.name, file.size, {}, file.written, True, file.stats)


def checked(log: DeltaLog | None, where: str) -> DeltaLog:
    """Return the log of a table that can be written here. Raises `ConfigurationError`."""
    if log is None:
        raise ConfigurationError(f"there is no Delta table at {where}")
    obstacle = log.unwritable()
    if obstacle:
        raise ConfigurationError(
            f"the Delta table at {where} has {obstacle}, which only Spark with Delta's package writes: use a sink with "
            "'catalog', or another path"
        )
    return log
