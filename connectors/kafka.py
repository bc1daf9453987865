"""A Flink table on Kafka in one object: what to ask Spark's Kafka source and sink for, and what its records mean.

    KafkaTable.from_ddl("CREATE TABLE ...")
        read(spark), read_stream(spark)          Spark's source with the options of the table, then `kv.decode`
        records(spark), records_stream(spark)    the Kafka records themselves
        write(df), write_stream(df, ...)         `kv.encode`, then Spark's sink
        replay(spark, dead_letters, to)          bad records once more
        maintain(spark, target, ...)             the stream that keeps a table current
        source_options(), sink_options()         the same options for who calls Spark himself
        explain()                                what the table is and becomes, in words

Which option becomes what: source.py for reading, with offsets.py for where to begin and to end, sink.py for writing;
effects.py lists them all. What rows are made of the records: reading.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvformat.connectors import offsets, reading, sink, source, topics
from kvformat.connectors.explain import explain
from kvformat.connectors.replay import Replayed, replay
from kvformat.registry.contract.errors import KafkaSourceWarning
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.streams.dead_letters import DeadLetters, write_dead_letters
from kvformat.registry.table.producer import producer_options

if TYPE_CHECKING:
    from os import PathLike

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from kvformat.connectors.sink import ExtraColumns
    from kvformat.registry.contract.changelog import ChangelogMode
    from kvformat.registry.format import Errors
    from kvformat.registry.streams.dead_letters import DeadLetterTarget
    from kvformat.registry.streams.maintain import Merge
    from kvformat.registry.table.metadata import MetadataKeys


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
        self._told: set[str] = set()

    @classmethod
    def from_ddl(cls, ddl: str, *, table: str | None = None) -> KafkaTable:
        """The table of a CREATE TABLE, or the one named `table` of a whole file of Flink SQL."""
        return cls._of(KeyValueFormat.from_ddl(ddl, table=table))

    @classmethod
    def _of(cls, kv: KeyValueFormat) -> KafkaTable:
        made = cls.__new__(cls)
        made._kv, made._told = kv, set()
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
        """The options of Spark's Kafka source, for `spark.read` or `spark.readStream`; secrets are in them.

        Not in them are `scan.header-filter` and `scan.parallelism`, which `records` sees to. Raises as `read` does.
        """
        return source.options(self._kv, streaming=streaming)

    def read(
        self,
        spark: SparkSession,
        *,
        changelog: bool | None = None,
        metadata: MetadataKeys | None = None,
        errors: Errors = "raise",
        row_index: bool = False,
        spark_options: Mapping[str, Any] | None = None,
    ) -> DataFrame:
        """The table as its topic holds it now, from where it begins (`scan.startup.*`) to its end (`scan.bounded.*`).

        Rows of a table of inserts. Of an upsert table, and of one with changes and a PRIMARY KEY, the current rows:
        the last of each key, deleted ones left out; with `changelog=True` the changes, with `row_kind`. Changes
        without a PRIMARY KEY come out as changes always. `metadata`, `errors` and `row_index` are those of
        `KeyValueFormat.decode`; the last two are about changes, not about a current table. `spark_options` are options
        of Spark's source that a table has no words for (`minPartitions`, `failOnDataLoss`).

        With `scan.startup.mode` `group-offsets`, Flink's default, reading begins where the consumer group has
        committed, which the brokers are asked for now (`kvformat[kafka]`); nothing is committed.
        Raises `OptionError` for what Spark can't do and for a topic that is not there, `BrokerError` where no broker
        answers, `MissingExtraError`; `KafkaSourceWarning` tells once of each option without effect.
        """
        changes = reading.gives_changes(self._kv, changelog=changelog, errors=errors, row_index=row_index)
        headers = reading.needs_headers(self._kv, metadata, errors)
        records = self._records(spark, streaming=False, headers=headers, spark_options=spark_options)
        if changes:
            return self._kv.decode(records, metadata=metadata, errors=errors, row_index=row_index)
        return reading.current(self._kv, records, metadata)

    def read_stream(
        self,
        spark: SparkSession,
        *,
        normalize: bool = False,
        metadata: MetadataKeys | None = None,
        errors: Errors = "raise",
        row_index: bool = False,
        checkpoint_location: str | None = None,
        spark_options: Mapping[str, Any] | None = None,
    ) -> DataFrame:
        """The table's rows, or changes with `row_kind`, as they arrive.

        `normalize=True` makes the changes complete, by `normalize_changes`, which needs RocksDB as Spark's state store.
        `checkpoint_location` is that of the query: once it has offsets, Spark begins there, and the brokers are not
        asked where a group is (it may have moved, or be gone). The other arguments, and errors, are those of `read`.
        """
        if normalize:
            reading.check_normalized(self._kv, errors=errors, row_index=row_index)
        headers = reading.needs_headers(self._kv, metadata, errors)
        records = self._records(
            spark,
            streaming=True,
            headers=headers,
            checkpoint_location=checkpoint_location,
            spark_options=spark_options,
        )
        if normalize:
            return reading.normalized(self._kv, records, metadata)
        return self._kv.decode(records, metadata=metadata, errors=errors, row_index=row_index)

    def records(self, spark: SparkSession, *, spark_options: Mapping[str, Any] | None = None) -> DataFrame:
        """The table's Kafka records as Spark gives them, with `headers`: key, value, topic, partition, offset ..."""
        return self._records(spark, streaming=False, headers=True, spark_options=spark_options)

    def records_stream(
        self,
        spark: SparkSession,
        *,
        checkpoint_location: str | None = None,
        spark_options: Mapping[str, Any] | None = None,
    ) -> DataFrame:
        """The same as they arrive."""
        return self._records(
            spark, streaming=True, headers=True, checkpoint_location=checkpoint_location, spark_options=spark_options
        )

    def _records(
        self,
        spark: SparkSession,
        *,
        streaming: bool,
        headers: bool,
        checkpoint_location: str | None = None,
        spark_options: Mapping[str, Any] | None,
    ) -> DataFrame:
        resumed = checkpoint_location is not None and offsets.begun(spark, checkpoint_location)
        plan = source.planned(
            self._kv, streaming=streaming, headers=headers, resumed=resumed, spark_options=spark_options
        )
        for option, note in plan.notes.items():
            if option not in self._told:
                self._told.add(option)
                warnings.warn(f"table '{self._kv.name}': {note}", KafkaSourceWarning, stacklevel=3)
        # A query that goes on waits for brokers that are starting again, as Spark does.
        return source.records(spark, self._kv, plan, streaming=streaming, check=not resumed)

    def explain(self) -> str:
        """What the table is, and what reading and writing it asks of Spark, in words; no secret, no broker is asked."""
        return explain(self._kv)

    # --- writing -------------------------------------------------------------------------------------------

    def sink_options(self) -> dict[str, str]:
        """The options of Spark's Kafka sink; secrets are in them. Raises `OptionError` for what it can't do."""
        found = sink.options(self._kv)
        sink.warn(self._kv, stacklevel=2)
        return found

    def sink_records(
        self, df: DataFrame, *, metadata: MetadataKeys | None = None, changelog_mode: ChangelogMode | None = None
    ) -> DataFrame:
        """The records that `write` hands to Spark's sink: `kv.encode`, then the table's `sink.*` options."""
        return sink.Writer.made(self._kv, metadata, changelog_mode).records(df)

    def write(
        self,
        df: DataFrame,
        *,
        metadata: MetadataKeys | None = None,
        changelog_mode: ChangelogMode | None = None,
        dead_letters: DeadLetterTarget | None = None,
        extra_columns: ExtraColumns = "warn",
    ) -> None:
        """Append rows, or changes, to the table's topic, each at least once.

        Columns of `df` that the table does not have are not written: a `KafkaSinkWarning` names them, or with
        `extra_columns="error"` a `SchemaError`; "ignore" says nothing.
        `metadata` and `changelog_mode` are as for `KeyValueFormat.encode`. With `dead_letters` `df` holds bad records
        too, as `read(..., errors="capture")` gives them; they go there (see `write_dead_letters`).
        Raises `ConfigurationError` before a job for what Spark's sink can't do, and `BrokerError` where no broker
        answers; tells by a `KafkaSinkWarning` what it does in another way than the table says.
        """
        writer = self._writer(df, metadata, changelog_mode, dead_letters)
        sink.check_columns(self._kv, df, metadata, extra_columns, stacklevel=2)
        sink.warn(self._kv, stacklevel=2)
        writer.save(df) if writer.dead_letters is None else writer.save_parted(df, None)

    def write_stream(
        self,
        df: DataFrame,
        *,
        checkpoint_location: str,
        trigger: Mapping[str, Any] | None = None,
        query_name: str | None = None,
        output_mode: str | None = None,
        metadata: MetadataKeys | None = None,
        changelog_mode: ChangelogMode | None = None,
        dead_letters: DeadLetterTarget | None = None,
        extra_columns: ExtraColumns = "warn",
    ) -> StreamingQuery:
        """Start the query that writes a stream of rows, or changes, to the table's topic, each at least once.

        `trigger` is as for Spark: `{"availableNow": True}`, `{"processingTime": "10 seconds"}`. `output_mode` is
        Spark's; an upsert table takes "update" of an aggregate. The rest is as for `write`.
        """
        writer = self._writer(df, metadata, changelog_mode, dead_letters)
        sink.check_columns(self._kv, df, metadata, extra_columns, stacklevel=2)
        sink.warn(self._kv, stacklevel=2)
        if writer.dead_letters is None:
            stream = writer.records(df).writeStream.format("kafka").options(**writer.options)
        else:
            stream = df.writeStream.foreachBatch(writer)
        stream = stream.option("checkpointLocation", checkpoint_location)
        stream = stream.trigger(**trigger) if trigger else stream
        stream = stream.outputMode(output_mode) if output_mode else stream
        with sink.output_mode_missing(self._kv, output_mode):
            return (stream.queryName(query_name) if query_name else stream).start()

    def _writer(
        self,
        df: DataFrame,
        metadata: MetadataKeys | None,
        changelog_mode: ChangelogMode | None,
        dead_letters: DeadLetterTarget | None,
    ) -> sink.Writer:
        """What writes, with all of it checked before a job."""
        letters = None if dead_letters is None else self._letters(dead_letters)
        writer = sink.Writer.made(self._kv, metadata, changelog_mode, letters)
        writer.check(df)
        return writer

    def _letters(self, dead_letters: DeadLetterTarget) -> DeadLetters:
        return DeadLetters.of(dead_letters, producer_options(self._kv.options))

    def write_dead_letters(self, bad: DataFrame, to: DeadLetterTarget, *, batch_id: int | None = None) -> None:
        """Write bad records, as `split_errors` gives them, to a path, or to a topic of the table's brokers.

        See `kvformat.registry.write_dead_letters`.
        """
        write_dead_letters(bad, to, options=producer_options(self._kv.options), batch_id=batch_id)

    def replay(
        self,
        spark: SparkSession,
        dead_letters: str | PathLike[str],
        to: KafkaTable | Merge,
        *,
        checkpoint_location: str | None = None,
        metadata: MetadataKeys | None = None,
    ) -> Replayed:
        """Read this table's dead letters once more, write the rows of those that can be read now, keep the others.

        `dead_letters` is the topic or the path that they were written to. `to` is a table, or a function of the rows
        (with the columns of `metadata`) and the batch's number, -1 for letters of a path. Returns how many letters
        were taken and how many are still bad, when all is done.

        Letters of a path leave it when their rows are written; what is still bad stays. A topic keeps its records:
        `checkpoint_location` says which were taken, and those that are still bad are written to its end, for the next
        replay. It may be called any number of times: a letter is taken again only where a failure came between its
        rows and the note of it, so that rows are written at least once, as by `write`. One replay at a time.
        Raises `ConfigurationError`, `BrokerError`.
        """
        return replay(self._kv, spark, dead_letters, to, checkpoint_location=checkpoint_location, metadata=metadata)

    def maintain(
        self,
        spark: SparkSession,
        target: str | PathLike[str] | Merge,
        *,
        checkpoint_location: str,
        dead_letters: DeadLetterTarget | None = None,
        trigger: Mapping[str, Any] | None = None,
        query_name: str | None = None,
        spark_options: Mapping[str, Any] | None = None,
    ) -> StreamingQuery:
        """Start the query that keeps a table current: the last row of each key of the topic. See `kv.maintain`.

        `spark_options` are those of `read_stream`.
        """
        if dead_letters is not None:
            topics.check(self._kv, self._letters(dead_letters).topics, spark)
        records = self.records_stream(spark, checkpoint_location=checkpoint_location, spark_options=spark_options)
        return self._kv.maintain(
            records,
            target,
            checkpoint_location=checkpoint_location,
            dead_letters=dead_letters,
            trigger=trigger,
            query_name=query_name,
        )

    # --- an object like any other --------------------------------------------------------------------------

    def __repr__(self) -> str:
        return repr(self._kv).replace("KeyValueFormat", "KafkaTable", 1)

    def _repr_html_(self) -> str:
        """What a notebook shows: that of the table's `KeyValueFormat`."""
        return self._kv._repr_html_()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KafkaTable) and other._kv == self._kv

    def __hash__(self) -> int:
        return hash((KafkaTable, self._kv))
