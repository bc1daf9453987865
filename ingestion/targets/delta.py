"""Tables of Delta Lake.

Created tables have type widening, column mapping by name (RENAME, DROP and any characters in names), and the feature of
TIMESTAMP without time zone. A write carries `txnAppId` and `txnVersion`, so Delta itself leaves out a repeated one, and
an older one.
Rules: Delta Lake's pages "Type widening", "Column mapping" and "Idempotent table writes".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from kvformat.ingestion.schemas.events import AlterColumnTypes, DropColumns, RenameColumns, SchemaEvent
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.ingestion.targets.delta_path import DeltaPathTarget
from kvformat.ingestion.targets.session_catalog import is_session_catalog
from kvformat.ingestion.targets.sql import LOG, SqlTarget, literal
from kvformat.ingestion.targets.target import TABLE_PROPERTY, BatchWrite, Target
from kvformat.registry.contract.options import Option
from kvformat.registry.contract.types import quoted

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from kvformat.ingestion.pipeline.sink import PipelineSink

_INTEGERS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""Names of Spark's integer types, and the digits before the point of a DECIMAL that Delta widens them to."""
_CONSTRAINTS, _REQUIRED = "delta.constraints.", "kvformat_not_null"
_OF_COLUMNS = (AlterColumnTypes, DropColumns, RenameColumns)
_SETTING = "spark.databricks.delta"
_COMMITS = 20  # newest commits that are read; OPTIMIZE and others may commit between two batches
_OF_THE_LOG = ("delta.minReaderVersion", "delta.minWriterVersion", "delta.columnMapping.maxColumnId")


@dataclass(frozen=True)
class DeltaTarget(SqlTarget):
    """Tables of Delta Lake in a catalog; its session needs Delta's extensions and catalog.

    The arguments are those of `SqlTarget`.
    """

    identifier: ClassVar[str] = "delta"
    option_specs: ClassVar[tuple[Option, ...]] = DeltaPathTarget.option_specs
    provider: str | None = "delta"

    @classmethod
    def from_sink(cls, sink: PipelineSink) -> Target:
        """Return the target of a checked sink; with `path` it is a `DeltaPathTarget`."""
        return super().from_sink(sink) if sink.values["path"] is None else DeltaPathTarget.from_sink(sink)

    def own_properties(self) -> dict[str, str]:
        """Return the features of created tables."""
        return {
            "delta.enableTypeWidening": "true",
            "delta.columnMapping.mode": "name",
            "delta.feature.timestampNtz": "supported",
        }

    def widens(self, source: DataType, target: DataType) -> bool:
        """Integers to wider ones and DECIMAL, the smaller ones and FLOAT to DOUBLE, DECIMAL, DATE to TIMESTAMP_NTZ."""
        from pyspark.sql.types import DecimalType

        old, new = source.simpleString(), target.simpleString()
        if isinstance(target, DecimalType):
            if isinstance(source, DecimalType):
                whole = target.precision - target.scale >= source.precision - source.scale
                return whole and target.scale >= source.scale
            return old in _INTEGERS and target.precision - target.scale >= max(_INTEGERS[old], 10)
        if old in _INTEGERS and new in _INTEGERS:
            return _INTEGERS[old] < _INTEGERS[new]
        if new == "double":
            return old in ("tinyint", "smallint", "int", "float")
        return (old, new) == ("date", "timestamp_ntz")

    def size(self, name: str) -> int | None:
        """Return the size of the table's files."""
        size = self._sql(f"DESCRIBE DETAIL {name}")[0]["sizeInBytes"]
        return None if size is None else int(size)

    def kept_properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the properties without those that Delta sets."""
        return {
            key: value
            for key, value in properties.items()
            if key not in _OF_THE_LOG
            and not key.startswith(_CONSTRAINTS)
            and (not key.startswith("delta.feature.") or key in self.own_properties())
        }

    def require(self, name: str, columns: Sequence[str]) -> None:
        """Add a CHECK constraint, because Delta can't make a nullable column NOT NULL."""
        condition = " AND ".join(f"{quoted(column)} IS NOT NULL" for column in columns)
        self._sql(f"ALTER TABLE {name} ADD CONSTRAINT {_REQUIRED} CHECK ({condition})")

    def change(self, event: SchemaEvent, schema: TableSchema, batch: BatchWrite) -> None:
        """Apply a change of a table. A constraint of `require` is removed for it: Delta can't change its columns."""
        name = self._name(event.table)
        if not isinstance(event, _OF_COLUMNS) or f"{_CONSTRAINTS}{_REQUIRED}" not in self._properties(name):
            super().change(event, schema, batch)
            return
        with self._without_position(batch.query):
            self._sql(f"ALTER TABLE {name} DROP CONSTRAINT IF EXISTS {_REQUIRED}")
            try:
                super().change(event, schema, batch)
            finally:
                there = self._columns(name).names
                required = [column for column in schema.primary_key if column in there]
                if required:
                    self.require(name, required)

    def register(self, table: TableId) -> bool:
        """Register a table whose files are in the warehouse: Spark's own catalog is new, or was in memory."""
        from pyspark.errors import PySparkException

        if not is_session_catalog(self.catalog):
            return False
        namespace = self._namespace(table)
        try:
            place = {row[0]: row[1] for row in self._sql(f"DESCRIBE NAMESPACE {namespace}")}.get("Location")
        except PySparkException:  # the catalog has forgotten it, too
            space = namespace.rpartition(".")[2].strip("`").lower()
            warehouse = str(self.spark.conf.get("spark.sql.warehouse.dir"))
            place = f"{warehouse.rstrip('/')}/{space}.db"
        location = f"{place}/{table.table.lower()}"
        try:
            properties = self._properties(f"delta.{quoted(location)}")
        except PySparkException:  # there is no table of Delta
            return False
        if json.loads(properties.get(TABLE_PROPERTY, "null")) != self._parts(table):
            return False
        name = self._name(table)
        self._sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        self._sql(f"CREATE TABLE IF NOT EXISTS {name} USING delta LOCATION {literal(location)}")
        LOG.warning("the catalog had forgotten the table %s; it is registered again, with its rows: %s", name, location)
        return True

    def written(self, name: str, query: str) -> int:
        """Return the position of the query's last write among the last commits, or -1.

        This finds a checkpoint that is older than the table. Delta itself leaves out a write that is not a later one.
        """
        commits = self._sql(f"DESCRIBE HISTORY {name} LIMIT {_COMMITS}")
        mark = f" kvformat {query} "  # after a text of the user
        texts = [f" {row['userMetadata'] or ''}".rpartition(mark) for row in commits]
        return max((int(position) for _, begin, position in texts if begin and position.isdecimal()), default=-1)

    def position_settings(self, query: str, position: int) -> dict[str, str]:
        """Return the settings that give the query and the position to Delta's transaction and to the history."""
        return {
            f"{_SETTING}.write.txnAppId": f"kvformat {query}",
            f"{_SETTING}.write.txnVersion": str(position),
            f"{_SETTING}.commitInfo.userMetadata": f"kvformat {query} {position}",
        }

    def _needs(self) -> str:
        return (
            "The session needs spark.sql.extensions = io.delta.sql.DeltaSparkSessionExtension and "
            f"spark.sql.catalog.{self.catalog or 'spark_catalog'} = org.apache.spark.sql.delta.catalog.DeltaCatalog. "
        )
