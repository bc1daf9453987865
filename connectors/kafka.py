"""A Flink table on Kafka: the options of Spark's Kafka source and sink, and the meaning of the records, in one object.

    KafkaTable.from_ddl("CREATE TABLE ...")
        read_arrow()                             its rows without Spark, as batches of Arrow
        read(spark), read_stream(spark)          Spark's source with the options of the table, then `kv.decode`
        records(spark), records_stream(spark)    the Kafka records themselves
        write(df), write_stream(df, ...)         `kv.encode`, then Spark's sink
        replay(spark, dead_letters, to)          decode bad records again
        maintain(spark, target, ...)             the stream that keeps a table current
        source_options(), sink_options()         Spark's options, for code that calls Spark itself
        explain()                                the table and Spark's options in words

source.py maps the options for reading, offsets.py the start and end offsets, sink.py the options for writing.
option_effects.py lists the effect of every option. table_rows.py makes rows of records.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvformat.connectors import arrow_rows, change_feeds, python_source, sink, source_choice, table_rows, topics
from kvformat.connectors import source as spark_source
from kvformat.connectors.exactly_once import job_query
from kvformat.connectors.explain import explain
from kvformat.connectors.replay import Replayed, replay
from kvformat.registry.contract.errors import ConfigurationError, KafkaSourceWarning
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.streams.changes import observe_table
from kvformat.registry.streams.dead_letters import DeadLetters, write_dead_letters
from kvformat.registry.streams.foreach_batch import foreach_batch
from kvformat.registry.table.producer import producer_options

if TYPE_CHECKING:
    from os import PathLike

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from kvformat.connectors.sink import ExtraColumns
    from kvformat.connectors.source_choice import Source
    from kvformat.registry.contract.changelog import ChangelogMode
    from kvformat.registry.format import Errors
    from kvformat.registry.streams.dead_letters import DeadLetterTarget
    from kvformat.registry.streams.maintain import Merge, TargetOfTables
    from kvformat.registry.table.metadata import MetadataKeys


class KafkaTable:
    """A table of Flink's connector `kafka` or `upsert-kafka`. It is immutable and comparable; `repr` shows no secret.

    Its arguments are those of `KeyValueFormat`. `connector`, a topic and `properties.bootstrap.servers` are required.
    """

    def __init__(
        self, schema: StructType | pa.Schema | str, options: Mapping[str, Any], *, primary_key: Sequence[str] = ()
    ) -> None:
        self._kv = KeyValueFormat(schema, options, primary_key=primary_key).planned()
        self._told: set[str] = set()

    @classmethod
    def from_ddl(cls, ddl: str, *, table: str | None = None, options: Mapping[str, Any] | None = None) -> KafkaTable:
        """Make the table of a CREATE TABLE statement, or the table named `table` of a file of Flink SQL.

        `options` replace those of the text, as for `KeyValueFormat.from_ddl`.
        """
        return cls._of(KeyValueFormat.from_ddl(ddl, table=table, options=options))

    @classmethod
    def _of(cls, kv: KeyValueFormat) -> KafkaTable:
        instance = cls.__new__(cls)
        instance._kv, instance._told = kv, set()
        return instance

    def with_options(self, options: Mapping[str, Any]) -> KafkaTable:
        """Return a copy of the table with other options, as Flink's hint OPTIONS does; None removes an option."""
        return KafkaTable._of(self._kv.with_options(options))

    def without_computed(self, *names: str) -> KafkaTable:
        """Return the table without these computed columns, as `KeyValueFormat.without_computed` does."""
        return KafkaTable._of(self._kv.without_computed(*names))

    @property
    def kv(self) -> KeyValueFormat:
        """The table as a `KeyValueFormat`, which decodes and encodes its records."""
        return self._kv

    # --- reading -------------------------------------------------------------------------------------------

    def source_options(self, *, streaming: bool = False) -> dict[str, str]:
        """Return the options of Spark's Kafka source, for `spark.read` or `spark.readStream`, with their secrets.

        `scan.header-filter` and `scan.parallelism` are not options of Spark; `records` applies them.
        Raises `OptionError` for options that Spark does not support, `BrokerError` if no broker answers.
        """
        return spark_source.options(self._kv, streaming=streaming)

    def read(
        self,
        spark: SparkSession,
        *,
        changelog: bool | None = None,
        metadata: MetadataKeys | None = None,
        errors: Errors = "raise",
        row_index: bool = False,
        skip_computed: Sequence[str] = (),
        source: Source = "auto",
        spark_options: Mapping[str, Any] | None = None,
    ) -> DataFrame:
        """Read the table from its start (`scan.startup.*`) to its end (`scan.bounded.*`) as a batch DataFrame.

        A table of inserts gives its rows. An upsert table, or a table of changes with a PRIMARY KEY, gives its current
        rows: the last row of each key, without deleted rows. With `changelog=True` it gives the changes, with
        `row_kind`. A table of changes without a PRIMARY KEY always gives changes. `metadata`, `errors`, `row_index` and
        `skip_computed` are those of `KeyValueFormat.decode`; `errors` and `row_index` need changes or inserts, not
        current rows. `spark_options` are options of Spark's source that a table does not have (`minPartitions`,
        `failOnDataLoss`).

        With `scan.startup.mode` `group-offsets`, Flink's default, reading starts at the committed offsets of the
        consumer group. The brokers are asked for them when this method is called (`kvformat[kafka]`). Nothing is
        committed.
        Raises `OptionError` for options that Spark does not support and for a missing topic, `BrokerError` if no
        broker answers, `MissingExtraError`. A `KafkaSourceWarning` names each option without effect, once.
        """
        table = self.without_computed(*skip_computed) if skip_computed else self
        changes = table_rows.gives_changes(table._kv, changelog=changelog, errors=errors, row_index=row_index)
        headers = table_rows.needs_headers(table._kv, metadata, errors)
        decode = table._decode(spark, source, streaming=False, headers=headers, spark_options=spark_options)
        if changes:
            return decode(metadata=metadata, errors=errors, row_index=row_index)
        return table_rows.current(table._kv, decode, metadata)

    def read_arrow(
        self,
        *,
        changelog: bool | None = None,
        metadata: MetadataKeys | None = None,
        errors: Errors = "raise",
        row_index: bool = False,
        skip_computed: Sequence[str] = (),
        time_zone: str = "UTC",
    ) -> pa.RecordBatchReader:
        """Read the table from its start to its end without Spark, as batches of Arrow.

        Polars (`pl.from_arrow`), DuckDB and pandas (`read_pandas`) take the reader. The rows are those of `read`, with
        the table's types in Arrow, by partition and offset; the arguments are those of `read`. `time_zone` is that of
        computed columns and of local timestamps. The brokers are asked for the start and the end when this method is
        called (`kvformat[kafka]`); later records are not read. Records are read while the reader is, so memory does
        not grow with the topic; only the current rows of an upsert table, or of changes with a PRIMARY KEY, are held
        until the end. With `changelog=True` their changes are returned as they come.

        Raises what `read` raises, and `OptionError` for settings of `properties.*` that only Java's client supports.
        The reader raises `DecodeError` for a bad record, `DataLossError` for records that were deleted meanwhile, and
        `ReadError` if the brokers do not give a record.
        """
        table = self.without_computed(*skip_computed) if skip_computed else self
        return arrow_rows.arrow_reader(
            table.kv,
            changelog=changelog,
            metadata=metadata,
            errors=errors,
            row_index=row_index,
            time_zone=time_zone,
            stacklevel=2,
        )

    def read_stream(
        self,
        spark: SparkSession,
        *,
        normalize: bool = False,
        metadata: MetadataKeys | None = None,
        errors: Errors = "raise",
        row_index: bool = False,
        skip_computed: Sequence[str] = (),
        source: Source = "auto",
        checkpoint_location: str | None = None,
        spark_options: Mapping[str, Any] | None = None,
    ) -> DataFrame:
        """Read the table's rows, or its changes with `row_kind`, as a streaming DataFrame.

        `normalize=True` makes the changes complete with `normalize_changes`, which needs RocksDB as Spark's state
        store. `checkpoint_location` is the checkpoint of the query. Once it has offsets, Spark continues there, and the
        brokers are not asked for the offsets of a group, which may have changed. `metadata`, `errors`, `row_index`,
        `skip_computed`, `spark_options` and the exceptions are those of `read`.
        """
        table = self.without_computed(*skip_computed) if skip_computed else self
        if normalize:
            table_rows.check_normalized(table._kv, errors=errors, row_index=row_index)
        headers = table_rows.needs_headers(table._kv, metadata, errors)
        decode = table._decode(
            spark,
            source,
            streaming=True,
            headers=headers,
            checkpoint_location=checkpoint_location,
            spark_options=spark_options,
        )
        if normalize:
            return table_rows.normalized(table._kv, decode, metadata)
        return decode(metadata=metadata, errors=errors, row_index=row_index)

    def records(
        self, spark: SparkSession, *, source: Source = "auto", spark_options: Mapping[str, Any] | None = None
    ) -> DataFrame:
        """Read the table's Kafka records, with the columns of Spark's Kafka source: key, value, topic, ..., headers."""
        return self._records(spark, source, streaming=False, headers=True, spark_options=spark_options)

    def records_stream(
        self,
        spark: SparkSession,
        *,
        source: Source = "auto",
        checkpoint_location: str | None = None,
        spark_options: Mapping[str, Any] | None = None,
    ) -> DataFrame:
        """Read the table's Kafka records, with `headers`, as a streaming DataFrame."""
        return self._records(
            spark,
            source,
            streaming=True,
            headers=True,
            checkpoint_location=checkpoint_location,
            spark_options=spark_options,
        )

    def _decode(self, spark: SparkSession, source: Source, *, streaming: bool, **arguments: Any) -> table_rows.Decode:
        """Return the function that reads and decodes, by the chosen source."""
        chosen = self._planned(spark, source, streaming=streaming, **arguments)
        if chosen.choice.source == "spark":
            return functools.partial(self._kv.decode, chosen.records(spark, self._kv, streaming=streaming))
        options = arguments["spark_options"]
        return functools.partial(python_source.decoded, spark, self._kv, options, streaming=streaming)

    def _records(self, spark: SparkSession, source: Source, *, streaming: bool, **arguments: Any) -> DataFrame:
        chosen = self._planned(spark, source, streaming=streaming, **arguments)
        if chosen.choice.source == "spark":
            return chosen.records(spark, self._kv, streaming=streaming)
        return python_source.records(spark, self._kv, arguments["spark_options"], streaming=streaming)

    def _planned(self, spark: SparkSession, source: Source, **arguments: Any) -> source_choice.ChosenSource:
        """Choose the source, check options and topics, and warn of options without effect, once for each."""
        chosen = source_choice.planned(spark, self._kv, source, **arguments)
        for option, note in chosen.plan.notes.items():
            if option not in self._told:
                self._told.add(option)
                warnings.warn(f"table '{self._kv.name}': {note}", KafkaSourceWarning, stacklevel=4)
        return chosen

    def explain(self) -> str:
        """Describe the table and the options that reading and writing give Spark. Shows no secret, asks no broker."""
        return explain(self._kv)

    # --- writing -------------------------------------------------------------------------------------------

    def sink_options(self) -> dict[str, str]:
        """Return the options of Spark's Kafka sink, with secrets; raises `OptionError` for unsupported options."""
        options = sink.options(self._kv)
        sink.warn(self._kv, stacklevel=2)
        return options

    def sink_records(
        self, df: DataFrame, *, metadata: MetadataKeys | None = None, changelog_mode: ChangelogMode | None = None
    ) -> DataFrame:
        """Return the records that `write` gives Spark's sink: `kv.encode`, then the table's `sink.*` options."""
        sink.options(self._kv)
        return sink.Writer.made(self._kv, metadata, changelog_mode).records(df)

    def write(
        self,
        df: DataFrame,
        *,
        metadata: MetadataKeys | None = None,
        changelog_mode: ChangelogMode | None = None,
        dead_letters: DeadLetterTarget | None = None,
        extra_columns: ExtraColumns = "warn",
        job_id: str | None = None,
    ) -> None:
        """Append rows, or changes, to the table's topic, each at least once, or as `sink.delivery-guarantee` says.

        Columns of `df` that the table does not have are not written. A `KafkaSinkWarning` names them; with
        `extra_columns="error"` they raise `SchemaError`, with "ignore" nothing happens. `metadata` and
        `changelog_mode` are those of `KeyValueFormat.encode`. With `dead_letters`, `df` also has bad records, as
        `read(..., errors="capture")` gives them; they are written there (see `write_dead_letters`).
        With `exactly-once`, a job that failed goes on where it stopped if it is called again with the same `job_id`
        and the same rows. Without `job_id` each call is a new job.
        Raises `ConfigurationError` before a job for options that Spark's sink does not support, and `BrokerError` if
        no broker answers. A `KafkaSinkWarning` names each option that Spark's sink follows in another way.
        A `DeliveryError` tells why a job can't go on exactly once.
        """
        if job_id is not None and not sink.is_exactly_once(self._kv):
            raise ConfigurationError("job_id needs 'sink.delivery-guarantee' = 'exactly-once'")
        query = job_query(job_id)
        writer = self._writer(df, metadata, changelog_mode, dead_letters, extra_columns)
        if sink.is_exactly_once(self._kv):
            writer = writer.with_transactions(df, query, None)
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
        """Start the query that writes a stream of rows, or changes, to the table's topic.

        Each is written at least once, or as `sink.delivery-guarantee` says. `trigger` has Spark's arguments:
        `{"availableNow": True}`, `{"processingTime": "10 seconds"}`. `output_mode` is Spark's; an
        upsert table accepts "update" for an aggregate. `metadata`, `changelog_mode`, `dead_letters`, `extra_columns`
        and the exceptions are those of `write`.
        """
        writer = self._writer(df, metadata, changelog_mode, dead_letters, extra_columns)
        if sink.is_exactly_once(self._kv):
            writer = writer.with_transactions(df, None, checkpoint_location)
        feed = change_feeds.is_feed(self._kv, df.columns)  # a stream can't be sorted, but each of its batches
        if writer.dead_letters is None and writer.once is None and not feed:
            stream = writer.records(df).writeStream.format("kafka").options(**writer.options)
        else:
            counted = df if writer.dead_letters is None else observe_table(df, self._kv.name)
            stream = foreach_batch(counted, writer)
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
        extra_columns: ExtraColumns,
    ) -> sink.Writer:
        """Make the writer, and check before a job all that can be checked."""
        letters = None if dead_letters is None else self._letters(dead_letters)
        writer = sink.Writer.made(self._kv, metadata, changelog_mode, letters)
        writer.check(df)
        sink.check_columns(self._kv, df.columns, metadata, extra_columns, stacklevel=3)
        sink.warn(self._kv, stacklevel=3)
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
        """Decode this table's dead letters again. Write the rows of the letters that decode now, and keep the others.

        `dead_letters` is the topic or the path that they were written to. `to` is a table, or a function of the rows
        (with the columns of `metadata`) and the batch's number, -1 for a path. Returns how many letters were read and
        how many are still bad, after the last batch.

        A path loses the letters whose rows are written; letters that are still bad stay. A topic keeps its records:
        `checkpoint_location` remembers which were read, and letters that are still bad are appended to the topic, for
        the next replay. The method may be called any number of times. A letter is read again only if a failure came
        between writing its rows and the checkpoint, so rows are written at least once. Run one replay at a time.
        Raises `ConfigurationError`, `BrokerError`.
        """
        return replay(self._kv, spark, dead_letters, to, checkpoint_location=checkpoint_location, metadata=metadata)

    def maintain(
        self,
        spark: SparkSession,
        target: str | PathLike[str] | Merge | TargetOfTables,
        *,
        checkpoint_location: str,
        dead_letters: DeadLetterTarget | None = None,
        trigger: Mapping[str, Any] | None = None,
        query_name: str | None = None,
        source: Source = "auto",
        spark_options: Mapping[str, Any] | None = None,
    ) -> StreamingQuery:
        """Start the query that keeps a table current: the last row of each key of the topic. See `kv.maintain`.

        `source` and `spark_options` are those of `read_stream`.
        """
        if dead_letters is not None:
            topics.check(self._kv, self._letters(dead_letters).topics, spark)
        records = self.records_stream(
            spark, source=source, checkpoint_location=checkpoint_location, spark_options=spark_options
        )
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
        """Return the HTML of the table's `KeyValueFormat`, for notebooks."""
        return self._kv._repr_html_()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KafkaTable) and other._kv == self._kv

    def __hash__(self) -> int:
        return hash((KafkaTable, self._kv))
