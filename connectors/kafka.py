"""A Flink table on Kafka in one object: what to ask Spark's Kafka source and sink for, and what its records mean.

    KafkaTable.from_ddl("CREATE TABLE ...")
        read(spark), read_stream(spark)          Spark's source with the options of the table, then `kv.decode`
        write(df), write_stream(df, ...)         `kv.encode`, then Spark's sink
        source_options(), sink_options()         the same options for who calls Spark himself
        explain()                                what the table is and becomes, in words

Which option becomes what: source.py for reading, with offsets.py for where to begin and to end, sink.py for writing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvformat.connectors import sink, source
from kvformat.registry.key_value import KeyValueFormat

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from kvformat.registry.changelog import ChangelogMode
    from kvformat.registry.format import Errors
    from kvformat.registry.key_value import MetadataKeys


class KafkaTable:
    """A table of Flink's connector `kafka` or `upsert-kafka`: immutable, comparable; `repr` without secrets.

    Takes what `KeyValueFormat` takes; `connector`, a topic and `properties.bootstrap.servers` are required.
    """

    def __init__(
        self,
        schema: StructType | pa.Schema | str,
        options: Mapping[str, Any],
        *,
        primary_key: Sequence[str] = (),
    ) -> None:
        self._kv = KeyValueFormat(schema, options, primary_key=primary_key).planned()

    @classmethod
    def from_ddl(cls, ddl: str, *, table: str | None = None) -> KafkaTable:
        """The table of a CREATE TABLE, or the one named `table` of a whole file of Flink SQL."""
        return cls._of(KeyValueFormat.from_ddl(ddl, table=table))

    @classmethod
    def _of(cls, kv: KeyValueFormat) -> KafkaTable:
        made = cls.__new__(cls)
        made._kv = kv
        return made

    def with_options(self, options: Mapping[str, Any]) -> KafkaTable:
        """The same table with these options instead of its own, as by Flink's hint OPTIONS; None takes one away."""
        return KafkaTable._of(self._kv.with_options(options))

    @property
    def kv(self) -> KeyValueFormat:
        """What the table's records mean."""
        return self._kv

    # --- reading -------------------------------------------------------------------------------------------

    def source_options(self, *, streaming: bool = False) -> dict[str, str]:
        """The options of Spark's Kafka source, for `spark.read` or `spark.readStream`; secrets are in them."""
        return source.options(self._kv, streaming=streaming)

    def read(self, spark: SparkSession, *, metadata: MetadataKeys | None = None, errors: Errors = "raise") -> DataFrame:
        """The table's rows."""
        records = spark.read.format("kafka").options(**self.source_options()).load()
        return self._kv.decode(records, metadata=metadata, errors=errors)

    def read_stream(
        self, spark: SparkSession, *, metadata: MetadataKeys | None = None, errors: Errors = "raise"
    ) -> DataFrame:
        """The table's rows, or changes, as they arrive."""
        records = spark.readStream.format("kafka").options(**self.source_options(streaming=True)).load()
        return self._kv.decode(records, metadata=metadata, errors=errors)

    # --- writing -------------------------------------------------------------------------------------------

    def sink_options(self) -> dict[str, str]:
        """The options of Spark's Kafka sink; secrets are in them."""
        return sink.options(self._kv)

    def write(
        self, df: DataFrame, *, metadata: MetadataKeys | None = None, changelog_mode: ChangelogMode | None = None
    ) -> None:
        """Write rows, or changes, to the table's topic."""
        records = self._kv.encode(df, metadata=metadata, changelog_mode=changelog_mode)
        records.write.format("kafka").options(**self.sink_options()).save()

    def write_stream(
        self,
        df: DataFrame,
        *,
        checkpoint_location: str,
        trigger: Mapping[str, Any] | None = None,
        query_name: str | None = None,
        metadata: MetadataKeys | None = None,
        changelog_mode: ChangelogMode | None = None,
    ) -> StreamingQuery:
        """Start the query that writes a stream of rows, or changes, to the table's topic."""
        records = self._kv.encode(df, metadata=metadata, changelog_mode=changelog_mode)
        writer = records.writeStream.format("kafka").options(**self.sink_options())
        writer = writer.option("checkpointLocation", checkpoint_location)
        writer = writer.trigger(**trigger) if trigger else writer
        return (writer.queryName(query_name) if query_name else writer).start()

    # --- an object like any other --------------------------------------------------------------------------

    def __repr__(self) -> str:
        return repr(self._kv).replace("KeyValueFormat", "KafkaTable", 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KafkaTable) and other._kv == self._kv

    def __hash__(self) -> int:
        return hash((KafkaTable, self._kv))
