"""A Delta table in a folder: rows are merged or appended once, and read by any Spark.

A small merge is made in the driver: it reads the files that have keys of the batch, and writes them again with the new
rows. A large one is made by Spark's tasks. Both end in one commit, which the driver makes.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from kvformat.registry.contract.changelog import UNCHANGED
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.spark.decoded_columns import ROW_KIND
from kvformat.registry.streams.delta.by_spark import merged_by_tasks, read_files
from kvformat.registry.streams.delta.files import (
    TARGET_BYTES,
    DataFile,
    conformed,
    expected_size,
    read_file,
    write_files,
)
from kvformat.registry.streams.delta.log import CommitConflict, DeltaLog, WriterTransaction, checked
from kvformat.registry.streams.delta.matching import KeyIndex, Mask, can_match, is_written, merged
from kvformat.registry.streams.delta.storage import TableStorage
from kvformat.registry.streams.delta.transfer import Transferred, transferred
from kvformat.registry.streams.delta.upkeep import discard, keep_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    _Change: TypeAlias = tuple[list[DataFile], list[DataFile]]  # added, removed

_LOG = logging.getLogger("kvformat.delta")
DRIVER_BYTES = 2**28
"""Default for the bytes of files, or of rows, that the driver merges itself; Spark's tasks merge larger ones."""
UPKEEP_COMMITS = 20
"""Default for the number of commits between two runs of the upkeep."""
_ATTEMPTS = 5  # to commit beside other writers, which add rows or compact files
_KEYS_FIRST = 2**20  # bytes of a file of which the columns of the key are read first


@dataclass(frozen=True)
class TableWrite:
    """A write that happens once.

    transaction: its writer and position. check: raises an error if the table, as it is by now, must not be written.
    """

    transaction: WriterTransaction
    check: Callable[[DeltaLog], None]

    def is_done(self, log: DeltaLog) -> bool:
        """Check the table, and return whether the write has been committed."""
        self.check(log)
        return log.position(self.transaction.writer) >= self.transaction.position


@dataclass(frozen=True)
class DeltaFolder:
    """A Delta table in a folder.

    driver_bytes: the most bytes that the driver merges itself. upkeep_commits: commits between two runs of the upkeep,
    0 for no upkeep.
    """

    storage: TableStorage
    driver_bytes: int = DRIVER_BYTES
    upkeep_commits: int = UPKEEP_COMMITS

    @property
    def where(self) -> str:
        """The folder, for errors."""
        return f"'{self.storage.uri}'"

    def log(self) -> DeltaLog | None:
        """Return the newest version of the table, or None."""
        return DeltaLog.open(self.storage)

    def written_log(self) -> DeltaLog:
        """Return the newest version. Raises `ConfigurationError` if there is none, or if it can't be written here."""
        return checked(self.log(), self.where)

    # --- rows ------------------------------------------------------------------------------------------------------

    def merge(self, changes: DataFrame, keys: Sequence[str], write: TableWrite) -> None:
        """Write the last row of each key: `row_kind` is '+U' for a row to write, and '-D' for a key to delete.

        `changes` has columns of the table with its types, and may have `unchanged_columns`. Columns of the table that
        it lacks keep their values.
        """
        from pyspark.sql import functions as F

        @functools.cache
        def few() -> Transferred:
            return transferred(changes, _schema_of(changes, log.schema), self.driver_bytes, None)

        def change(log: DeltaLog) -> _Change:
            files = log.files()
            if not files:
                rows = changes.where(F.col(ROW_KIND) == "+U").drop(ROW_KIND, UNCHANGED)
                return self._written(transferred(rows, log.schema, self.driver_bytes, self.storage), keys), []
            if can_match(log.schema, keys) and not few().too_many:
                return self._merged(log, few().rows, keys, lambda: changes)
            return self._merged_by_tasks(log, files, changes, keys)

        log = self.written_log()
        self._once(write, change, log)

    def merge_rows(
        self,
        changes: pa.Table,
        keys: Sequence[str],
        write: TableWrite,
        *,
        spark: SparkSession | None = None,
        log: DeltaLog | None = None,
    ) -> None:
        """Write the last row of each key, as `merge` does, of rows that are in the driver. Keys must not be nested.

        Tasks of `spark` merge large tables; without it the driver does. `log` is the newest version, if it is known.
        """

        def change(log: DeltaLog) -> _Change:
            if spark is None:
                return _Merge.of(self.storage, changes, keys, log).change()
            return self._merged(log, changes, keys, lambda: spark.createDataFrame(changes, _columns_of(changes, log)))

        self._once(write, change, log or self.written_log())

    def append(self, rows: DataFrame, write: TableWrite) -> None:
        """Add rows with columns of the table."""

        def change(log: DeltaLog) -> _Change:
            return self._written(transferred(rows, log.schema, self.driver_bytes, self.storage), ()), []

        self._once(write, change, self.written_log())

    def append_rows(self, rows: pa.Table, write: TableWrite, log: DeltaLog) -> None:
        """Add rows that are in the driver. `log` is the newest version."""

        def change(log: DeltaLog) -> _Change:
            return write_files(self.storage, conformed(rows, log.schema), (), expected_size(rows)), []

        self._once(write, change, log)

    def truncate(self, write: TableWrite) -> None:
        """Remove all rows."""
        for log in self.attempts():
            if write.is_done(log):
                return
            try:
                log.replace([], write.transaction)
                return
            except CommitConflict:
                _LOG.info("the Delta table at %s has another version by now: trying again", self.where)

    def rewrite(self, rows: Callable[[DeltaLog], DataFrame], columns: StructType) -> None:
        """Replace the columns of the table and its rows: `rows` are made of a version of the table."""
        for log in self.attempts():
            if "timestamp_ntz" in columns.json() and log.allow_timestamp_ntz():
                continue  # the table has another version by now
            added = []
            if log.files():
                transfer = transferred(rows(log), schema_of(columns), self.driver_bytes, self.storage)
                added = self._written(transfer, ())
            try:
                log.replace(added, None, columns)
                return
            except CommitConflict:
                discard(self.storage, added)

    def read(self, spark: SparkSession, log: DeltaLog) -> DataFrame:
        """Return the rows of a version, which stay readable until the upkeep removes its files.

        Raises `ConfigurationError` for a table whose files alone are not its rows.
        """
        if obstacle := log.unreadable():
            raise ConfigurationError(
                f"the Delta table at {self.where} has {obstacle}: read it with Spark and Delta's package, or deltalake"
            )
        return read_files(spark, self.storage, log.files(), log.columns)

    # --- steps -----------------------------------------------------------------------------------------------------

    def _once(self, write: TableWrite, change: Callable[[DeltaLog], _Change], log: DeltaLog) -> None:
        """Commit the files that `change` writes, unless the write is in the table; again if another writer was faster.

        `log` is the newest version.
        """
        for newer in self.attempts(log):
            if write.is_done(newer):
                return
            added, removed = change(newer)
            missing = [file.name for file in added if not self._is_there(file)]
            if missing:
                raise ConfigurationError(
                    f"the file {missing[0]} of the table at {self.where} was written by a task, and the driver does "
                    "not see it: give a path that all machines share, with its scheme (s3://, hdfs://, ...)"
                )
            try:
                newer.commit(added, removed, write.transaction)
            except CommitConflict:
                discard(self.storage, added)
                continue
            except Exception:
                discard(self.storage, added)
                raise
            keep_up(self.storage, newer.version + 1, self.upkeep_commits)
            return

    def _merged(self, log: DeltaLog, changes: pa.Table, keys: Sequence[str], frame: Callable[[], DataFrame]) -> _Change:
        """Merge rows in the driver, or as `frame` by tasks if the files that may have their keys are large."""
        merge = _Merge.of(self.storage, changes, keys, log)
        if sum(file.size for file in merge.touched) <= self.driver_bytes:
            return merge.change()
        return self._merged_by_tasks(log, merge.touched, frame(), keys)

    def _merged_by_tasks(
        self, log: DeltaLog, files: list[DataFile], changes: DataFrame, keys: Sequence[str]
    ) -> _Change:
        removed, transfer = merged_by_tasks(
            self.storage, files, log.columns, log.schema, changes, keys, self.driver_bytes
        )
        return self._written(transfer, keys), removed

    def attempts(self, first: DeltaLog | None = None) -> Iterator[DeltaLog]:
        """Yield the newest version for each attempt to commit. Raises `ConfigurationError` if there are too many."""
        return _Logs(self, first)

    def _is_there(self, file: DataFile) -> bool:
        return not self.storage.is_local or self.storage.files().get_file_info(file.name).size == file.size

    def _written(self, transfer: Transferred, keys: Sequence[str]) -> list[DataFile]:
        """Return the files of tasks, and those with the other rows."""
        return [*transfer.files, *write_files(self.storage, transfer.rows, keys, expected_size(transfer.rows))]


@dataclass(frozen=True)
class _Merge:
    """A merge of few changes into a version of a table. touched: the files that may have their keys."""

    storage: TableStorage
    changes: pa.Table
    keys: Sequence[str]
    schema: pa.Schema
    files: list[DataFile]
    index: KeyIndex
    touched: list[DataFile]

    @classmethod
    def of(cls, storage: TableStorage, changes: pa.Table, keys: Sequence[str], log: DeltaLog) -> _Merge:
        files, index = log.files(), KeyIndex(changes, keys)
        return cls(storage, changes, keys, log.schema, files, index, [f for f in files if index.may_be_in(f)])

    def change(self) -> _Change:
        """Write the files with keys of the changes again, one after the other. New keys go to the smallest file."""
        smallest = min(self.files, key=lambda file: file.size, default=None)
        last = smallest if smallest is not None and smallest.size < TARGET_BYTES else None
        others = [file for file in self.touched if file is not last]
        written, is_new = is_written(self.changes), np.full(self.changes.num_rows, True)
        added: list[DataFile] = []
        removed: list[DataFile] = []
        for file in others if last is None else [*others, last]:
            new = written & is_new if file is last else np.full(len(is_new), False)
            if file not in self.touched and not new.any():
                continue
            keys_first = file.size > _KEYS_FIRST and not new.any()
            if keys_first and (self.index.places(self._read(file, self.keys)) < 0).all():
                continue
            rows = self._read(file)
            places = self.index.places(rows)
            is_new[places[places >= 0]] = False
            new &= is_new
            if (places < 0).all() and not new.any():
                continue
            rows = conformed(merged(rows, self.changes, places), self.schema)
            rows = pa.concat_tables([rows, self._rows(new)])
            is_new[new] = False
            added += write_files(self.storage, rows, self.keys, expected_size(rows, file))
            removed.append(file)
        rest = self._rows(written & is_new)
        return [*added, *write_files(self.storage, rest, self.keys, expected_size(rest))], removed

    def _read(self, file: DataFile, columns: Sequence[str] | None = None) -> pa.Table:
        return read_file(self.storage, file.name, self.schema, columns)

    def _rows(self, mask: Mask) -> pa.Table:
        """Return the rows of some changes with the columns of the table."""
        return conformed(self.changes.filter(pa.array(mask)), self.schema)


@dataclass
class _Logs:
    """The newest versions of a table, one for each attempt to commit."""

    folder: DeltaFolder
    first: DeltaLog | None
    left: int = field(default=_ATTEMPTS)

    def __iter__(self) -> _Logs:
        return self

    def __next__(self) -> DeltaLog:
        if not self.left:
            raise ConfigurationError(
                f"the Delta table at {self.folder.where} got another version in each of {_ATTEMPTS} attempts to write "
                "it: stop its other writers, or let them write less often"
            )
        self.left -= 1
        log, self.first = self.first, None
        return log or self.folder.written_log()


def schema_of(columns: StructType) -> pa.Schema:
    """Return the columns of a table with Arrow's types."""
    from kvformat.registry.contract.types import arrow_type, from_spark, nullable

    return pa.schema(
        [
            pa.field(c.name, arrow_type(nullable(from_spark(c.dataType, True, c.name))), c.nullable)
            for c in columns.fields
        ]
    )


def _columns_of(changes: pa.Table, log: DeltaLog) -> StructType:
    """Return the columns of changes that are in the driver, with Spark's types."""
    from pyspark.sql.types import StringType, StructField, StructType

    types = {column.name: column.dataType for column in log.columns.fields}
    return StructType([StructField(name, types.get(name, StringType())) for name in changes.column_names])


def _schema_of(changes: DataFrame, table: pa.Schema) -> pa.Schema:
    """Return the columns of changes, with the types of the table."""
    added = {ROW_KIND: pa.string(), UNCHANGED: pa.list_(pa.string())}
    fields = [
        pa.field(name, added[name]) if name in added else pa.field(name, table.field(name).type)
        for name in changes.columns
    ]
    return pa.schema(fields)
