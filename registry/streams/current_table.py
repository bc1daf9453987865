"""A Delta table that `KeyValueFormat.maintain` writes to a path, and `current_table` reads. No jar is needed.

The transaction of a commit is the number of the batch. Columns that are new are added to the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Self

from kvformat.registry.contract.changelog import UNCHANGED
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.spark.decoded_columns import ROW_INDEX, ROW_KIND, exact_column, with_nullable_parts
from kvformat.registry.streams.delta.log import CommitConflict, DeltaLog, WriterTransaction
from kvformat.registry.streams.delta.storage import TableStorage
from kvformat.registry.streams.delta.table import DeltaFolder, TableWrite

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

_WRITER = "kvformat maintain"


@dataclass(frozen=True)
class CurrentTable:
    """The function that merges the changes of a batch into a table at a path."""

    folder: DeltaFolder
    keys: tuple[str, ...]

    @classmethod
    def at(cls, path: str | PathLike[str], keys: tuple[str, ...]) -> Self:
        """Return the function for a path."""
        return cls(DeltaFolder(TableStorage.of(path)), keys)

    def __call__(self, changes: DataFrame, batch_id: int) -> None:
        """Merge a batch: '+U' is a row to write, '-D' a key to delete. A repeated batch changes nothing.

        Raises `ConfigurationError` for an earlier batch.
        """
        changes = changes.drop(ROW_INDEX)
        columns = _columns(changes.drop(ROW_KIND, UNCHANGED).schema)
        self._prepare(columns)
        kept = [exact_column(name) for name in (ROW_KIND, UNCHANGED) if name in changes.columns]
        types = {field.name: field.dataType for field in changes.schema.fields}
        values = [_converted(exact_column(c.name), types[c.name], c.dataType).alias(c.name) for c in columns.fields]

        def check(log: DeltaLog) -> None:
            newest = log.position(_WRITER)
            if newest > batch_id:
                raise ConfigurationError(
                    f"{self.folder.where} already has the table of batch {newest}, but this is batch {batch_id}: "
                    "another query wrote it, or this query with another checkpoint. Give each query a path of its "
                    "own, and an empty one to start anew"
                )

        write = TableWrite(WriterTransaction(_WRITER, batch_id), check)
        self.folder.merge(changes.select(*values, *kept), self.keys, write)

    def _prepare(self, columns: StructType) -> None:
        """Create the table, or add its new columns. Raises `ConfigurationError` for columns of other types."""
        if self.folder.log() is None:
            try:
                DeltaLog.create(self.folder.storage, columns, {})
                return
            except CommitConflict:  # another driver has created it
                pass
        for log in self.folder.attempts():
            there = {field.name: field.dataType for field in log.columns.fields}
            for column in columns.fields:
                if column.name in there and _type(there[column.name]) != _type(column.dataType):
                    raise ConfigurationError(
                        f"the column {column.name!r} of the table at {self.folder.where} is "
                        f"{there[column.name].simpleString()}, and the rows have {column.dataType.simpleString()}: "
                        "give the column its type, or write to an empty path",
                        field=column.name,
                    )
            missing = type(columns)([column for column in columns.fields if column.name not in there])
            if not missing.fields:
                return
            try:
                log.add_columns(missing)
                return
            except CommitConflict:
                continue


def current_table(
    spark: SparkSession, path: str | PathLike[str], *, storage_options: Mapping[str, str] | None = None
) -> DataFrame:
    """Read the table that `KeyValueFormat.maintain` writes to a path, as it is after the last batch.

    Spark reads the files of the newest version; it needs no package of Delta. They are kept for an hour after a batch
    replaced them; call this again for newer rows. `storage_options` are those of deltalake for an object store. Any
    other Delta table without column mapping and deletion vectors can be read, too. Raises `ConfigurationError` if
    there is no table at the path.
    """
    folder = DeltaFolder(TableStorage.of(path, storage_options))
    log = folder.log()
    if log is None:
        raise ConfigurationError(
            f"{folder.where} has no table written by maintain, or its first batch is not complete yet"
        )
    return folder.read(spark, log)


# --- types -----------------------------------------------------------------------------------------------------


def _columns(columns: StructType) -> StructType:
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(c.name, _type(c.dataType)) for c in columns.fields])


def _type(t: DataType) -> DataType:
    """Return the type of a column: STRING for types that Delta does not have. Parts of nested values are nullable."""
    from pyspark.sql import types as T

    names = ("TimeType", "DayTimeIntervalType", "YearMonthIntervalType", "VariantType", "CharType", "VarcharType")
    missing = tuple(getattr(T, name) for name in names if hasattr(T, name))
    return with_nullable_parts(t, lambda plain: T.StringType() if isinstance(plain, missing) else plain)


def _converted(value: Column, source: DataType, target: DataType) -> Column:
    """Return a value as the type of its column. A VARIANT is its JSON text, others are as CAST makes them."""
    from pyspark.sql import functions as F

    if source == target:
        return value
    return F.to_json(value) if source.typeName() == "variant" else value.cast(target)
