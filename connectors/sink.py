"""The options of Spark's Kafka sink for the options of a table, and the steps on records before the sink.

    rows -> kv.encode -> sink.parallelism -> sink.buffer-flush -> sink.partitioner -> Spark's sink

Spark's sink writes at least once and has no transactions. With `exactly-once`, `exactly_once.py` takes its place.
Options that Spark's sink follows in another way give a `KafkaSinkWarning`.
Rules: Flink's `KafkaDynamicSink`, `ReducingUpsertWriter`, `FlinkFixedPartitioner`.
"""

from __future__ import annotations

import contextlib
import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from kvformat.connectors import change_feeds, topics
from kvformat.connectors.buffer import last_of_buffers
from kvformat.connectors.exactly_once import ExactlyOnce
from kvformat.connectors.option_effects import WRITING
from kvformat.connectors.producer_settings import without_effect
from kvformat.connectors.properties import misspelt, unreadable_key
from kvformat.connectors.transaction_client import TransactionSettings
from kvformat.registry.contract.changelog import UNCHANGED, ChangelogMode
from kvformat.registry.contract.errors import (
    ConfigurationError,
    KafkaSinkWarning,
    OptionError,
    SchemaError,
    did_you_mean,
    listed,
)
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.spark.decoded_columns import ERROR, ROW_INDEX, ROW_KIND
from kvformat.registry.sql.connector_options import UPSERT_KAFKA, delivery_guarantee
from kvformat.registry.streams.changes import split_errors
from kvformat.registry.streams.dead_letters import DeadLetters, letter_records
from kvformat.registry.table.change_types import CHANGE_TYPE, FEED_COLUMNS
from kvformat.registry.table.metadata import requested_metadata
from kvformat.registry.table.producer import producer_options, producer_risks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kvformat.registry.table.metadata import MetadataKeys

ExtraColumns: TypeAlias = Literal["warn", "error", "ignore"]
_LOG = logging.getLogger("kvformat.progress")
_PREFIX = "sink.transactional-id-prefix"
_MOST_NAMED = 20  # columns in a warning
# The error class, in PySpark 4.1 to 4.3, of an output mode that a plan does not support.
_OUTPUT_MODE = re.compile(r"STREAMING_OUTPUT_MODE|output mode not supported", re.IGNORECASE)


def options(kv: KeyValueFormat) -> dict[str, str]:
    """Return the options of Spark's Kafka sink; raises `OptionError` for options that it does not support."""
    values = kv.connector_options("encode")
    key = delivery_guarantee(values)[0]
    if is_exactly_once(kv):
        raise OptionError(
            f"'{key}' = '{values[key]}': Spark's Kafka sink has no transactions; it writes at least once. Use `write` "
            "or `write_stream`, which write transactions without Spark's sink. For code that calls Spark's sink, "
            "set 'at-least-once' and make repeats harmless: write to an upsert-kafka table (the last record of a "
            "key counts, a compacted topic keeps only it), or let readers recognize repeats by a key",
            option=key,
        )
    spark_options = producer_options(kv.options)
    names = values["topic"]
    if names is not None and len(names) == 1:
        spark_options["topic"] = names[0]
    return spark_options


def is_exactly_once(kv: KeyValueFormat) -> bool:
    """Return whether the table is written with transactions."""
    return delivery_guarantee(kv.connector_options("encode"))[1] == "exactly-once"


def transactions(kv: KeyValueFormat, topics: Sequence[str] | None = None) -> TransactionSettings:
    """Return the settings of transactions, with secrets; raises `OptionError` for options that can't be kept.

    `topics` are those that the table writes, by default those of its option `topic`.
    """
    values = kv.connector_options("encode")
    return TransactionSettings.of(kv.options, topics or values["topic"] or (), values[_PREFIX])


def warn(kv: KeyValueFormat, *, stacklevel: int) -> None:
    """Warn of options that Spark's sink follows in another way; Python shows each warning once for a line of code."""
    for told in differences(kv):
        warnings.warn(f"table '{kv.name}': {told}", KafkaSinkWarning, stacklevel=stacklevel + 1)


def differences(kv: KeyValueFormat) -> Iterator[str]:
    """Yield a text for each option of the table that Spark's sink follows in another way."""
    values = kv.connector_options("encode")
    key, guarantee = delivery_guarantee(values)
    if guarantee == "none":
        yield f"'{key}' = '{values[key]}' writes at least once: Spark's Kafka sink waits for every record"
    for name, effect in WRITING.items():
        if name in kv.options and effect.kind == "warned":
            yield f"'{name}' has no effect: {effect.why}"
    if guarantee == "exactly-once":
        yield from without_effect(kv.options).values()
    else:
        if _PREFIX in kv.options:
            yield f"'{_PREFIX}' has no effect: only 'exactly-once' has transactions"
        yield from producer_risks(kv.options)
    yield from (misspelt(kv.options) | unreadable_key(kv.options)).values()


def check_columns(
    kv: KeyValueFormat,
    columns: Sequence[str],
    metadata: MetadataKeys | None,
    extra_columns: ExtraColumns,
    *,
    stacklevel: int,
) -> None:
    """Warn of columns of the rows that the table does not have, and that are therefore not written.

    VIRTUAL metadata and computed columns of the table do not count, nor do columns that reading adds.
    Raises `SchemaError` if `extra_columns` is "error".
    """
    if extra_columns not in ("warn", "error", "ignore"):
        raise ConfigurationError(f"extra_columns must be 'warn', 'error' or 'ignore', not {extra_columns!r}")
    known = {column.name for column in (*kv.columns, *requested_metadata(metadata))}
    known |= {ROW_KIND, ROW_INDEX, ERROR, UNCHANGED}
    if CHANGE_TYPE in columns:
        known |= set(FEED_COLUMNS)
    extra = [name for name in columns if name not in known]
    if not extra or extra_columns == "ignore":
        return
    named = f"{listed(extra[:_MOST_NAMED])}{', ...' if len(extra) > _MOST_NAMED else ''}"
    near = did_you_mean(extra[0], (column.name for column in kv.columns if column.name not in columns))
    told = (
        f"the DataFrame has {len(extra)} column{'s' if len(extra) > 1 else ''} that the table does not have and that "
        f"{'are' if len(extra) > 1 else 'is'} not written: {named}.{near} Add {'them' if len(extra) > 1 else 'it'} to "
        "the table, or drop"
    )
    if extra_columns == "error":
        raise SchemaError(f"table '{kv.name}': {told}", field=extra[0])
    warnings.warn(
        f"table '{kv.name}': {told} (extra_columns='error' refuses, 'ignore' says nothing)",
        KafkaSinkWarning,
        stacklevel=stacklevel + 1,
    )


@contextlib.contextmanager
def output_mode_missing(kv: KeyValueFormat, output_mode: str | None) -> Iterator[None]:
    """Start a query in this context: if Spark rejects its output mode, `ConfigurationError` names the right one."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as cause:
        if not _OUTPUT_MODE.search(str(cause)):
            raise
        mode_text = "no output_mode is given, so it is 'append'" if output_mode is None else f"it is {output_mode!r}"
        of_upsert = kv.connector_options("encode")["connector"] == UPSERT_KAFKA
        to = (
            "output_mode='update' writes each group when it changes; a later record of a key replaces the earlier one"
            if of_upsert
            else "an upsert-kafka table accepts output_mode='update', which writes each group when it changes; this "
            "table of inserts accepts 'append' with a watermark on the event time (withWatermark), which writes each "
            "group once, after its end"
        )
        raise ConfigurationError(
            f"table '{kv.name}': Spark rejects the output mode of this stream, because of an aggregation or a similar "
            f"operator: {mode_text}. {to[0].upper()}{to[1:]}"
        ) from cause


def check_topic(kv: KeyValueFormat, metadata: MetadataKeys | None) -> None:
    """Check that the topic of each row is known; raises `OptionError`, where Flink fails at the first row."""
    topics = kv.connector_options("encode")["topic"]
    if (topics is None or len(topics) != 1) and "topic" not in kv.written_metadata(metadata):
        told = f"topics {', '.join(topics)}" if topics else "the topics of a pattern"
        raise OptionError(
            f"table '{kv.name}' has {told}, but no metadata column names the topic of a row: write with "
            "metadata={'<column>': 'topic'}, or to one topic with with_options({'topic': '<topic>'})",
            option="topic",
        )


@dataclass(frozen=True, repr=False)
class Writer:
    """Writes rows to the topics of a table; made before a job, and pickled for `foreachBatch`.

    `made` raises errors of options, `check` errors of columns and topics.
    """

    kv: KeyValueFormat
    options: Mapping[str, str]
    metadata: MetadataKeys | None
    changelog_mode: ChangelogMode | None
    #: the number of partitions of each topic, for the partitioner 'fixed'
    partitions: Mapping[str, int] | None
    dead_letters: DeadLetters | None = None
    #: writes with transactions, instead of Spark's sink
    once: ExactlyOnce | None = None

    @classmethod
    def made(
        cls,
        kv: KeyValueFormat,
        metadata: MetadataKeys | None,
        changelog_mode: ChangelogMode | None,
        dead_letters: DeadLetters | None = None,
    ) -> Writer:
        """Make the writer; raises errors of the table's options."""
        spark_options = {} if is_exactly_once(kv) else options(kv)
        check_topic(kv, metadata)
        partitions = None
        if kv.connector_options("encode").get("sink.partitioner") == "fixed":
            partitions = topics.partitions(kv)
        return cls(kv, spark_options, metadata, changelog_mode, partitions, dead_letters)

    def check(self, df: DataFrame) -> None:
        """Raise early what a job would find late: missing topics, unreachable brokers, rows that do not fit."""
        values = self.kv.connector_options("encode")
        names = list(values["topic"] or ())
        if self.dead_letters is not None:
            self.records(split_errors(df)[0])
            if self.dead_letters.is_topic_of(values):
                raise ConfigurationError(
                    f"dead letters must not go to the topic that the table writes, '{self.dead_letters.topic}'"
                )
            names += self.dead_letters.topics
        topics.check(self.kv, names, df)

    def with_transactions(self, df: DataFrame, query: str | None, checkpoint_location: str | None) -> Writer:
        """Return the writer of an exactly-once table, after checks of its brokers and of Spark's executors.

        `query` is the id of a job; a stream has a `checkpoint_location`. Raises as `ExactlyOnce.checked` does.
        """
        values = self.kv.connector_options("encode")
        names = values["topic"] or sorted(topics.partitions(self.kv))
        letters = () if self.dead_letters is None else self.dead_letters.topics
        # Dead letters share the transactions, but the first topic of the table carries the marks.
        settings = replace(transactions(self.kv, names), topics=(*names, *letters))
        in_order = (self.changelog_mode or self.kv.changelog_mode) is not ChangelogMode.INSERT_ONLY
        once = ExactlyOnce(settings, values["sink.parallelism"], query, checkpoint_location, in_order)
        return replace(self, once=once.checked(df))

    def records(self, df: DataFrame) -> DataFrame:
        """Return the records of rows: encoded, distributed over tasks, with a partition if the table sets it."""
        return self._placed(self._encoded(df))

    def _encoded(self, df: DataFrame) -> DataFrame:
        values = self.kv.connector_options("encode")
        if change_feeds.is_feed(self.kv, df.columns):
            df = change_feeds.in_order(self.kv, df)
        records = self.kv.encode(df, metadata=self.metadata, changelog_mode=self.changelog_mode)
        tasks = values["sink.parallelism"]
        if tasks is not None and self.once is None:
            # A shuffle keeps the order of the rows of each sending task. The changes of a key come from one task,
            # as they come from one partition of a topic, so they stay in order in one task. Without a key Spark
            # would shuffle rows in any order.
            records = records.repartition(tasks, "key") if "key" in records.columns else records.coalesce(tasks)
        if values.get("sink.buffer-flush.max-rows"):
            records = last_of_buffers(records, values["sink.buffer-flush.max-rows"])
        return records

    def _placed(self, records: DataFrame) -> DataFrame:
        """Add the partition of each record, for the partitioner 'fixed'."""
        from pyspark.sql import functions as F

        if self.partitions is None:
            return records
        task = F.spark_partition_id()
        if "topic" not in records.columns:
            return records.withColumn("partition", task % next(iter(self.partitions.values())))
        counts = F.create_map(*(F.lit(part) for pair in sorted(self.partitions.items()) for part in pair))
        return records.withColumn("partition", task % counts[F.col("topic")])

    def save(self, rows: DataFrame, batch_id: int | None = None) -> None:
        """Write the rows of a batch."""
        if self.once is None:
            self.records(rows).write.format("kafka").options(**self.options).save()
        else:
            self.once.write(self._encoded(rows), batch_id or 0, self._placed)

    def save_parted(self, df: DataFrame, batch_id: int | None) -> None:
        """Write a batch with bad records: first the bad records to the dead letters, then the rows.

        Exactly-once, records and letters of a topic are written by the same transactions.
        """
        assert self.dead_letters is not None
        df = df.persist()  # it is read twice
        try:
            good, bad = split_errors(df)
            if self.once is None or self.dead_letters.topic is None:
                self.dead_letters.write(bad, batch_id)
                self.save(good, batch_id)
            else:
                self.once.write(self._with_letters(good, bad), batch_id or 0, self._placed)
            if batch_id is None:  # the progress of a stream has its counts
                _warn_of(bad, self.kv.name)
        finally:
            df.unpersist()

    def _with_letters(self, good: DataFrame, bad: DataFrame) -> DataFrame:
        """Return the records of rows and of dead letters, each with its topic."""
        from pyspark.sql import functions as F

        assert self.dead_letters is not None
        assert self.once is not None
        records, letters = self._encoded(good), letter_records(bad)
        if "topic" not in records.columns:
            records = records.withColumn("topic", F.lit(self.once.settings.topic))
        letters = letters.withColumn("topic", F.lit(self.dead_letters.topic))
        return records.unionByName(letters, allowMissingColumns=True)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a micro-batch, for `foreachBatch`."""
        if self.dead_letters is None:
            self.save(batch, batch_id)
        else:
            self.save_parted(batch, batch_id)


def _warn_of(bad: DataFrame, table: str) -> None:
    """Log how many bad records of a job went to dead letters, by code."""
    counts = sorted((str(code), count) for code, count in bad.groupBy("code").count().collect())
    if counts:
        codes = ", ".join(f"{code} {count}" for code, count in counts)
        total = sum(count for _, count in counts)
        _LOG.warning("table %s: %d bad records went to the dead letters: %s", table, total, codes)
