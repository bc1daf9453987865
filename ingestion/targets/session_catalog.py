"""What the catalog of a session keeps when the session ends.

Spark's own catalog is in memory by default: it forgets all tables, and their files stay. A catalog of Iceberg may be in
memory, too, with its files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvformat.registry.contract.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSION_CATALOG = "spark_catalog"
"""The name of Spark's own catalog."""


def is_session_catalog(catalog: str | None) -> bool:
    """Return whether it is Spark's own catalog."""
    return catalog in (None, SESSION_CATALOG)


def forgets_tables(spark: SparkSession, catalog: str | None) -> bool:
    """Return whether a catalog forgets its tables, but not their files, when the session ends."""
    in_memory = spark.conf.get("spark.sql.catalogImplementation", "in-memory") == "in-memory"
    return is_session_catalog(catalog) and in_memory


def check_keeps_rows(spark: SparkSession, catalog: str | None) -> None:
    """Raise `ConfigurationError` for a catalog that loses the rows of its tables, too."""
    setting = f"spark.sql.catalog.{catalog or SESSION_CATALOG}.catalog-impl"
    kind = spark.conf.get(setting, None) or ""
    if kind.endswith("InMemoryCatalog"):
        raise ConfigurationError(
            f"{setting} is {kind}: its tables end with the session, and the checkpoint would continue after their "
            "rows. Use a catalog that lasts, such as spark.sql.catalog.<name>.type = hadoop, hive, jdbc or rest"
        )
