"""What Spark's Kafka sink is asked for, from the options of a table, and what is done with its records before.

    rows -> kv.encode -> sink.parallelism -> sink.buffer-flush -> sink.partitioner -> Spark's sink

Spark's sink writes at least once and has no transactions; what a table asks for beyond it is refused, or told by a
`KafkaSinkWarning`. Rules: Flink's `KafkaDynamicSink`, `ReducingUpsertWriter`, `FlinkFixedPartitioner`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvformat.connectors import topics
from kvformat.connectors.buffer import last_of_buffers
from kvformat.connectors.effects import WRITING
from kvformat.registry.changes import split_errors
from kvformat.registry.connector_options import delivery_guarantee
from kvformat.registry.dead_letters import DeadLetters
from kvformat.registry.errors import ConfigurationError, KafkaSinkWarning, OptionError
from kvformat.registry.key_value import KeyValueFormat
from kvformat.registry.producer import producer_options, producer_risks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kvformat.registry.changelog import ChangelogMode
    from kvformat.registry.key_value import MetadataKeys


def options(kv: KeyValueFormat) -> dict[str, str]:
    """The options of Spark's Kafka sink; raises `OptionError` for what it can't do."""
    values = kv.connector_options("encode")
    key, guarantee = delivery_guarantee(values)
    if guarantee == "exactly-once":
        raise OptionError(
            f"'{key}' = '{values[key]}': Spark's Kafka sink has no transactions; it writes at least once, and after a "
            "failure records of the last batch may be there twice. Set 'at-least-once' and let repeats be harmless: "
            "write to an upsert-kafka table (the last record of a key counts, a compacted topic keeps it alone), or "
            "let readers know repeats by a key",
            option=key,
        )
    found = producer_options(kv.options)
    topics = values["topic"]
    if topics is not None and len(topics) == 1:
        found["topic"] = topics[0]
    return found


def warn(kv: KeyValueFormat, *, stacklevel: int) -> None:
    """Tell what is done in another way than the table says; each is shown once for a place that writes."""
    for told in otherwise(kv):
        warnings.warn(f"table '{kv.name}': {told}", KafkaSinkWarning, stacklevel=stacklevel + 1)


def otherwise(kv: KeyValueFormat) -> Iterator[str]:
    """What is done in another way than the table says, by the names of its options."""
    values = kv.connector_options("encode")
    key, guarantee = delivery_guarantee(values)
    if guarantee == "none":
        yield f"'{key}' = '{values[key]}' is served by at-least-once: Spark's Kafka sink waits for every record"
    for name, effect in WRITING.items():
        if name in kv.options and effect.kind == "warned":
            yield f"'{name}' has no effect: {effect.why}"
    yield from producer_risks(kv.options)


def check_topic(kv: KeyValueFormat, metadata: MetadataKeys | None) -> None:
    """Where rows go must be known; raises `OptionError`, where Flink fails at the first row."""
    topics = kv.connector_options("encode")["topic"]
    if (topics is None or len(topics) != 1) and "topic" not in kv.written_metadata(metadata):
        told = f"topics {', '.join(topics)}" if topics else "the topics of a pattern"
        raise OptionError(
            f"table '{kv.name}' has {told}, but no metadata column says which of them a row is for: write with "
            "metadata={'<column>': 'topic'}, or to one topic by with_options({'topic': '<topic>'})",
            option="topic",
        )


@dataclass(frozen=True, repr=False)
class Writer:
    """What writes rows to the topics of a table, made before a job and pickled to `foreachBatch`.

    `made` raises what is wrong with the table for Spark's sink, and with its topics where a broker can be asked.
    """

    kv: KeyValueFormat
    options: Mapping[str, str]
    metadata: MetadataKeys | None
    changelog_mode: ChangelogMode | None
    #: how many partitions each topic has, for the partitioner 'fixed'
    partitions: Mapping[str, int] | None
    dead_letters: DeadLetters | None = None

    @classmethod
    def made(
        cls,
        kv: KeyValueFormat,
        metadata: MetadataKeys | None,
        changelog_mode: ChangelogMode | None,
        dead_letters: DeadLetters | None = None,
    ) -> Writer:
        """All that can be known before a job."""
        found = options(kv)
        check_topic(kv, metadata)
        partitions = None
        if kv.connector_options("encode").get("sink.partitioner") == "fixed":
            partitions = topics.partitions(kv)
        return cls(kv, found, metadata, changelog_mode, partitions, dead_letters)

    def check(self, df: DataFrame) -> None:
        """Raises what a job would come to late: topics or brokers that are not there, or rows of another kind."""
        names = list(self.kv.connector_options("encode")["topic"] or ())
        if self.dead_letters is not None:
            self.records(split_errors(df)[0])
            if self.dead_letters.topic in names:
                raise ConfigurationError(
                    f"dead letters can't go to the topic that is written, '{self.dead_letters.topic}'"
                )
            names += self.dead_letters.topics
        topics.check(self.kv, names, df)

    def records(self, df: DataFrame) -> DataFrame:
        """The records of rows: encoded, spread over tasks, and with the partition where the table says which."""
        from pyspark.sql import functions as F

        values = self.kv.connector_options("encode")
        records = self.kv.encode(df, metadata=self.metadata, changelog_mode=self.changelog_mode)
        tasks = values["sink.parallelism"]
        if tasks is not None:
            # A shuffle keeps the rows of each task that sends them in order. The changes of a key come from one
            # task, as they do from one partition of a topic: so those of a key stay in order, in one task. Spark
            # would shuffle rows without a key in no order at all.
            records = records.repartition(tasks, "key") if "key" in records.columns else records.coalesce(tasks)
        if values.get("sink.buffer-flush.max-rows"):
            records = last_of_buffers(records, values["sink.buffer-flush.max-rows"])
        if self.partitions is None:
            return records
        task = F.spark_partition_id()
        if "topic" not in records.columns:
            return records.withColumn("partition", task % self.partitions[self.options["topic"]])
        counts = F.create_map(*(F.lit(one) for pair in sorted(self.partitions.items()) for one in pair))
        return records.withColumn("partition", task % counts[F.col("topic")])

    def save(self, rows: DataFrame) -> None:
        """Write the rows of a batch."""
        self.records(rows).write.format("kafka").options(**self.options).save()

    def save_parted(self, df: DataFrame, batch_id: int | None) -> None:
        """Write a batch that holds bad records too, each to its place, the bad ones first."""
        assert self.dead_letters is not None
        df = df.persist()  # it is read twice
        try:
            good, bad = split_errors(df)
            self.dead_letters.write(bad, batch_id)
            self.save(good)
        finally:
            df.unpersist()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """What `foreachBatch` calls."""
        self.save_parted(batch, batch_id)
