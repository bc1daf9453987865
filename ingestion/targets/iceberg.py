"""Tables of Apache Iceberg.

A write has the query and its position in the summary of its snapshot, which is looked up before the next one. The
lookup and the write are not one transaction.
Rules: Iceberg's pages "Evolution", "Spark Writes" and "Spark Queries".
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from kvformat.ingestion.targets.sql import SqlTarget, literal

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_LOG = logging.getLogger("kvformat.ingest")
_QUERY, _POSITION = "kvformat.query", "kvformat.position"
_PROPERTY = "spark.sql.iceberg.snapshot-property."
_OF_THE_TABLE = ("current-snapshot-id", "format", "format-version", "sort-order", "identifier-fields", "location")
_PAIRS = (("tinyint", "int"), ("smallint", "int"), ("int", "bigint"), ("float", "double"))


@dataclass(frozen=True)
class IcebergTarget(SqlTarget):
    """Tables of Iceberg in a catalog; its session needs Iceberg's extensions.

    The arguments are those of `SqlTarget`. Namespaces may be nested, except in Spark's own catalog.
    """

    identifier: ClassVar[str] = "iceberg"
    provider: str | None = "iceberg"
    nested: bool = True

    def __post_init__(self) -> None:
        if self.catalog is None:
            object.__setattr__(self, "nested", False)

    def widens(self, source: DataType, target: DataType) -> bool:
        """INT to BIGINT, FLOAT to DOUBLE, DECIMAL to more digits of the same scale."""
        from pyspark.sql.types import DecimalType

        if isinstance(source, DecimalType) and isinstance(target, DecimalType):
            return source.scale == target.scale and source.precision < target.precision
        return (source.simpleString(), target.simpleString()) in _PAIRS

    def size(self, name: str) -> int | None:
        """Return the size of the table's files."""
        return int(self._sql(f"SELECT coalesce(sum(file_size_in_bytes), 0) FROM {name}.files")[0][0])

    def kept_properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the properties without those that describe the table."""
        return {key: value for key, value in properties.items() if key not in _OF_THE_TABLE}

    def require(self, name: str, columns: Sequence[str]) -> None:
        """Log the setting that keeps NOT NULL: Iceberg can't make a nullable column NOT NULL."""
        _LOG.warning(
            "the table %s was rewritten, and its columns %s are no longer NOT NULL. Set spark.sql.catalog.%s."
            "use-nullable-query-schema = false to keep NOT NULL",
            *(name, ", ".join(columns), self.catalog or "spark_catalog"),
        )

    def written(self, name: str, query: str) -> int:
        """Return the greatest position of the query in the snapshots of a table."""
        position = self._sql(
            f"SELECT max(CAST(summary['{_POSITION}'] AS BIGINT)) FROM {name}.snapshots "
            f"WHERE summary['{_QUERY}'] = {literal(query)}"
        )[0][0]
        return -1 if position is None else int(position)

    def position_settings(self, query: str, position: int) -> dict[str, str]:
        """Return the settings that add the query and the position to the summary of the snapshot."""
        return {f"{_PROPERTY}{_QUERY}": query, f"{_PROPERTY}{_POSITION}": str(position)}

    def _needs(self) -> str:
        return (
            "The session needs spark.sql.extensions = "
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions and "
            f"spark.sql.catalog.{self.catalog or 'spark_catalog'} = org.apache.iceberg.spark.SparkCatalog or "
            "SparkSessionCatalog. "
        )
