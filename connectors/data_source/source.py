"""The data source `kvformat`, as Spark calls it.

Spark makes it in a Python process of the driver, for each `load()` and each query, with options in small letters. It
pickles the object after `schema()`, and makes readers of it in other processes. Spark imports this module even if only
other data sources are used, so the imports are in the methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from kvformat.connectors.data_source import DDL, NAME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql import types as T

    from kvformat.connectors.data_source.options import SourceOptions
    from kvformat.registry.key_value_format import KeyValueFormat


class KvformatDataSource(DataSource):
    """Tables of Flink on Kafka. `options.py` declares the options."""

    _proposed: str | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.read.format`."""
        return NAME

    def _parsed(self) -> SourceOptions:
        from kvformat.connectors.data_source.options import parse
        from kvformat.connectors.data_source.tables import named_as_proposed

        options = dict(self.options)
        return parse(options if self._proposed is None else {**named_as_proposed(options), DDL: self._proposed})

    def _table(self, schema: T.StructType) -> tuple[KeyValueFormat, SourceOptions]:
        from kvformat.connectors.data_source.tables import table_of

        options = self._parsed()
        return table_of(options, schema), options

    def schema(self) -> T.StructType:
        """Return the columns of the table, or those that the topic's newest messages propose."""
        from kvformat.connectors.data_source.rows import stage_of
        from kvformat.connectors.data_source.tables import proposed_ddl, table_of
        from kvformat.registry.table.final_columns import FinalColumns

        if DDL not in self.options:
            self._proposed = proposed_ddl(self._parsed())
        options = self._parsed()
        stage = stage_of(table_of(options), options)
        if options.wire:
            return stage.wire
        columns = options.values["columns"]
        return FinalColumns.of(stage).chosen(columns and (*columns, *(options.metadata or ()))).types

    def reader(self, schema: T.StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        from kvformat.connectors.data_source.batch import FilteringBatchReader, KafkaBatchReader

        kv, options = self._table(schema)
        reader = FilteringBatchReader if options.values["push_filters"] else KafkaBatchReader
        return reader(kv, options, schema)

    def streamReader(self, schema: T.StructType) -> DataSourceStreamReader:
        """Return the reader of a stream."""
        from kvformat.connectors.data_source.stream import KafkaStreamReader

        return KafkaStreamReader(*self._table(schema), schema)

    def writer(self, schema: T.StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch. Raises `OptionError` for the mode `overwrite`."""
        from kvformat.connectors.data_source.write import KafkaBatchWriter, TaskWriter

        if overwrite:
            raise _append_only()
        return KafkaBatchWriter(TaskWriter.of(*self._table(schema), schema))

    def streamWriter(self, schema: T.StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a stream."""
        from kvformat.connectors.brokers import patiently
        from kvformat.connectors.data_source.write import KafkaStreamWriter, TaskWriter

        if overwrite:
            raise _append_only()
        kv, options = self._table(schema)
        return KafkaStreamWriter(patiently(lambda: TaskWriter.of(kv, options, schema)))


def _append_only() -> Exception:
    from kvformat.registry.contract.errors import OptionError

    return OptionError(
        f"data source '{NAME}': rows can only be appended to a topic. Write a batch with mode('append') or INSERT "
        "INTO, a stream with outputMode('append') or 'update'",
        option="mode",
    )


def register(spark: SparkSession) -> None:
    """Register the data source `kvformat` in a session of Spark, where Spark does not find it by itself.

    Spark finds it in the environment of its Python workers. A zip that is added later, or the server of Spark Connect,
    may need this call. A second call does no harm.
    """
    spark.dataSource.register(KvformatDataSource)
