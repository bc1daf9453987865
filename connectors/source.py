"""The options of Spark's Kafka source for the options of a table; offsets.py computes where reading starts and ends.

    planned(kv, streaming=)        all options of the source, and the warnings
    records(spark, kv, plan, ...)  the records, after the header filter, by as many tasks as the table wants

option_effects.py lists the effect of each table option.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvformat.connectors import header_filter, offsets, topics
from kvformat.connectors.brokers import TIMEOUT
from kvformat.connectors.jars import check_stream_jar, kafka_source_missing
from kvformat.connectors.option_effects import READING
from kvformat.connectors.properties import PREFIX, client_options, misspelt, unreadable_key
from kvformat.registry.contract.errors import OptionError, did_you_mean, listed
from kvformat.registry.contract.options import OptionValues
from kvformat.registry.java.regex import found_as_whole
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.sql.connector_options import masked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DISCOVERY, _DUPLICATED = "scan.topic-partition-discovery.interval", "scan.check.duplicated.group.id"
#: Options of Spark's source that have no counterpart in a table.
SPARKS = (
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "kafka.group.id",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
)
# Options of Spark's source that the table's options set.
_STARTING = "startingOffsets", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "startingTimestamp"
_ENDING = "endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"
_OF_TABLE = {
    "assign": "topic",
    "subscribe": "topic",
    "subscribePattern": "topic-pattern",
    "includeHeaders": "the columns of metadata",
    **dict.fromkeys(_STARTING, "scan.startup.mode"),
    **dict.fromkeys(_ENDING, "scan.bounded.mode"),
}
# Options that name the topics.
_ASKED = ("assign", "subscribe", "subscribePattern")
_FAR_FUTURE = 32_503_680_000_000  # the year 3000, in milliseconds
_COMMITS = (f"{PREFIX}enable.auto.commit", f"{PREFIX}commit.offsets.on.checkpoint")
_JAVAS = tuple(f"{PREFIX}{name}" for name in ("interceptor.classes", "key.deserializer", "value.deserializer"))


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """Options of Spark's source, with secrets that `repr` masks, and notes on what Spark does differently."""

    options: Mapping[str, str]
    notes: Mapping[str, str]


def planned(
    kv: KeyValueFormat,
    *,
    streaming: bool,
    headers: bool = False,
    resumed: bool = False,
    ask: bool = True,
    spark_options: Mapping[str, Any] | None = None,
) -> SourcePlan:
    """Return all options of Spark's source.

    `headers` includes the headers of records; a header filter, and a format that reads headers, include them, too.
    `resumed` says that the checkpoint already has offsets. `ask=False` asks no broker and leaves out the offsets that
    only brokers know.
    `spark_options` are options of Spark's source that a table does not have.
    Raises `OptionError` with the name of an option that Spark does not support, `BrokerError`.
    """
    values = kv.connector_options("decode")
    callers_options = _checked(kv, spark_options or {}, streaming)
    source_options = client_options(kv.options)
    if values["topic"]:
        source_options["subscribe"] = ",".join(_names(values["topic"]))
    else:
        source_options["subscribePattern"] = whole(values["topic-pattern"])
    start = (
        not resumed and "startingOffsets" not in callers_options and (ask or not offsets.needs_brokers(kv, "startup"))
    )
    end = not streaming and "endingOffsets" not in callers_options and (ask or not offsets.needs_brokers(kv, "bounded"))
    bounds, notes = offsets.spark_offsets(kv, streaming=streaming, start=start, end=end)
    source_options |= bounds
    notes |= _notes(kv, streaming)
    if resumed:
        source_options["startingOffsets"] = "earliest"  # Spark ignores it and reads the offsets of the checkpoint
    if headers or kv.record_headers or _filter(kv):
        source_options["includeHeaders"] = "true"
    source_options |= callers_options
    return SourcePlan(
        OptionValues(source_options, {name: masked(name, source_options[name]) for name in source_options}), notes
    )


def _names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Check that no name has a comma, which separates topics in Spark's option."""
    for name in names:
        if "," in name:
            raise OptionError(
                f"'topic': no topic has a comma in its name; write '{name.replace(',', ';')}'", option="topic"
            )
    return names


def options(kv: KeyValueFormat, *, streaming: bool) -> dict[str, str]:
    """Return the options of Spark's Kafka source, with their secrets."""
    return dict(planned(kv, streaming=streaming).options)


def records(
    spark: SparkSession, kv: KeyValueFormat, plan: SourcePlan, *, streaming: bool, check: bool = True
) -> DataFrame:
    """Return the Kafka records of the table as Spark gives them; `check` first checks that its topics exist.

    Raises `MissingExtraError` without Spark's Kafka source, `OptionError` for a missing topic, `BrokerError`.
    """
    reader = spark.readStream if streaming else spark.read
    with kafka_source_missing(spark), _analysis_refused():
        loaded = reader.format("kafka").options(**plan.options).load()
        loaded.schema  # noqa: B018 - makes Spark Connect look for the source now
    if streaming:
        check_stream_jar(spark)
    if check:
        topics.check_reading(kv, spark, lambda: _read_nothing(spark, plan))
    conditions = _filter(kv)
    if conditions:
        loaded = loaded.where(header_filter.column(conditions))
    tasks = kv.connector_options("decode")["scan.parallelism"]
    # `coalesce` joins Kafka's partitions and splits none, so the changes of a key stay in order.
    return loaded if tasks is None else loaded.coalesce(tasks)


@contextlib.contextmanager
def _analysis_refused() -> Iterator[None]:
    """Ignore that Spark does not look for the source now, as in the functions of a declarative pipeline."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if "ATTEMPT_ANALYSIS_IN_PIPELINE" not in str(error):
            raise


def _read_nothing(spark: SparkSession, plan: SourcePlan) -> None:
    """Let Spark's source look up the topics and their end offsets without reading a record: start in the future."""
    copied = {name: text for name, text in plan.options.items() if name in _ASKED or name.startswith("kafka.")}
    timeouts = dict.fromkeys(("kafka.request.timeout.ms", "kafka.default.api.timeout.ms"), str(int(TIMEOUT * 1000)))
    future = {"startingTimestamp": str(_FAR_FUTURE), "startingOffsetsByTimestampStrategy": "latest"}
    options = {"fetchOffset.numRetries": "1", **timeouts, **copied, **future}
    spark.read.format("kafka").options(**options).load().isEmpty()


def _filter(kv: KeyValueFormat) -> tuple[header_filter.Condition, ...]:
    text = kv.connector_options("decode").get(header_filter.OPTION)
    return () if text is None else header_filter.parse(text)


def whole(pattern: str) -> str:
    """Make a Java pattern match whole names, as in Flink; Spark searches for it anywhere in a name.

    Raises `OptionError` for a text that is no pattern.
    """
    topics.topic_pattern(pattern)
    return found_as_whole(pattern)


def _notes(kv: KeyValueFormat, streaming: bool) -> dict[str, str]:
    """Return a note for each option of the table that Spark follows in another way."""
    values, table_options = kv.connector_options("decode"), kv.options
    effects = {key: READING[key] for key in table_options if key in READING}
    notes = {key: f"'{key}' has no effect: {effect.why}" for key, effect in effects.items() if effect.kind == "warned"}
    notes |= misspelt(table_options) | unreadable_key(table_options)
    if streaming:
        notes |= _notes_of_stream(kv)
    interval = values[_DISCOVERY]
    if streaming and interval is not None and not interval:
        notes[_DISCOVERY] = (
            f"'{_DISCOVERY}' = '0' has no effect: Spark looks for new partitions before each micro-batch"
        )
    if values.get(_DUPLICATED):
        notes[_DUPLICATED] = f"'{_DUPLICATED}' has no effect: Spark reads beside the group's consumers, and joins none"
    for key in _COMMITS:
        if table_options.get(key, "false").lower() == "true":
            notes[key] = f"'{key}' has no effect: Spark keeps offsets in its checkpoint, and commits none to the group"
    for key in _JAVAS:
        if key in table_options:
            notes[key] = f"'{key}' has no effect: Spark's Kafka source takes the bytes as they are"
    return notes


def _notes_of_stream(kv: KeyValueFormat) -> dict[str, str]:
    """Check `scan.bounded.mode`: a stream of Spark can only stop at the records that exist when it starts."""
    key = "scan.bounded.mode"
    mode = offsets.mode(kv, "bounded")
    if mode == "latest-offset":
        return {key: f"'{key}' = '{mode}' is said to the query: start it with trigger(availableNow=True)"}
    if mode != "unbounded":
        raise OptionError(
            f"'{key}' = '{mode}': a stream of Spark can't stop there. Read a batch, read(spark), or stop the stream "
            f"at what is there when it starts: with_options({{'{key}': 'latest-offset'}}) and "
            "trigger(availableNow=True)",
            option=key,
        )
    return {}


# --- options of Spark's source, given by the caller ---------------------------------------------------------


def _checked(kv: KeyValueFormat, spark_options: Mapping[str, Any], streaming: bool) -> dict[str, str]:
    """Return the caller's options as text in Spark's spelling; raises `OptionError` for options that the table sets."""
    known = {name.lower(): name for name in (*SPARKS, *_OF_TABLE)}
    texts: dict[str, str] = {}
    for key, value in spark_options.items():
        name = known.get(key.lower(), key)
        if key.lower().startswith("kafka.") and key != "kafka.group.id":
            raise OptionError(
                f"spark_options: '{key}' is said by the table: with_options({{'{PREFIX}{key[6:]}': ...}})", option=key
            )
        if name not in SPARKS and not _is_answer(kv, name, streaming):
            if name in _OF_TABLE:
                raise OptionError(
                    f"spark_options: '{name}' is said by the table, by {_OF_TABLE[name]}. Change that by with_options",
                    option=name,
                )
            raise OptionError(
                f"spark_options: Spark's Kafka source has no option '{key}'.{did_you_mean(key, SPARKS)} Those that a "
                f"table does not say: {listed(SPARKS)}",
                option=key,
            )
        texts[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return texts


def _is_answer(kv: KeyValueFormat, name: str, streaming: bool) -> bool:
    """Return whether the option replaces offsets for which the brokers would be asked."""
    if name == "startingOffsets":
        return offsets.needs_brokers(kv, "startup")
    return name == "endingOffsets" and not streaming and offsets.needs_brokers(kv, "bounded")
